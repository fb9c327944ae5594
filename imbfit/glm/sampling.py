"""Which rows are kept: draws keyed by the row's number, and each row's probability of being kept.

With rate a, p = P(positive | x), q = 1 - p, f = dp/d eta and z = (1, x), a row is kept with
probability pi1(x) if it is positive and pi0(x) if it is negative:

uniform               pi1 = 1                             pi0 = a
a_optimal             pi1 = 1                             pi0 = c (f/q) |L A^-1 z|
l_optimal             pi1 = 1                             pi0 = c (f/q) |standardised z|
local_case_control    pi1 = c q, at least b               pi0 = c p

where p, f/q, A and c come from a pilot. A pi0 above 1 is 1, one below b a is b a, with b = 0.1; c
is such that negatives are kept with probability a on average.

a_optimal gives the least sum of the variances of the contrasts L, each divided by its variance in
the full fit, at a given number of kept negatives: the variance that sampling them adds to a
weighted fit is the mean of (1/pi0 - 1) (f^2/q) |L A^-1 z|^2, and Lagrange's rule with the mean of
pi0 q fixed gives the form above. l_optimal is the same for the slopes if the columns were
uncorrelated among rows weighted by their information; the intercept joins, so that no row has a
score of about 0. It needs no n_coef x n_coef matrix.

The floors bound what a wrong pilot can do. A kept negative weighs 1/pi0 <= 10/a, ten times what
it weighs in a uniform sample of the same size, and a kept positive 1/pi1 <= 10. They replace
small probabilities and are not mixed into all, so that in local_case_control log(pi1/pi0) is
minus the pilot's log-odds wherever no bound is met, which is what makes it robust to a wrong
model. No pi0 or pi1 falls as a rises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from imbfit.glm.design import Basis, Design
from imbfit.glm.links import Link, Pieces
from imbfit.glm.rates import Pilot, a_optimal_matrix

__all__ = [
    "A_OPTIMAL_COLUMNS",
    "PilotScores",
    "Plan",
    "ScoredPlan",
    "UniformPlan",
    "bottom_k",
    "pilot_scores",
    "row_uniforms",
]

Floats: TypeAlias = NDArray[np.float64]
LogKeep: TypeAlias = tuple[float | Floats, float | Floats]

KINDS = ("a_optimal", "l_optimal", "local_case_control")

# With more coefficients a_optimal costs more than the fit: each row takes n_coef^2 multiplications.
A_OPTIMAL_COLUMNS = 500

# Share of the uniform probability that no row goes below.
_FLOOR = 0.1

# Scores this far below the negatives' mean, in logs, count as that: with a score of 0 a row would
# not reach probability 1 at rate 1.
_LOWEST = -20.0

_TINY = float(np.finfo(np.float64).tiny)

# Rows, or stored numbers of a sparse matrix, that are squared at once.
_BLOCK_ROWS, _STORED = 8_192, 1_000_000


def row_uniforms(seed: int, stream: int, start: int, stop: int) -> Floats:
    """Return the uniform numbers of rows, which depend on nothing but seed, stream and row number.

    Parameters
    ----------
    seed : int
        Seed, from 0 up to 2**64 - 1.
    stream : int
        Number of the sequence; those of different streams are independent.
    start, stop : int
        First row and the one after the last.

    Returns
    -------
    ndarray of float, shape (stop - start,)
        Numbers in [0, 1), the same however the rows are cut into batches.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.sampling import row_uniforms
    >>> parts = [row_uniforms(7, 0, 0, 5), row_uniforms(7, 0, 5, 9)]
    >>> bool(np.all(np.concatenate(parts) == row_uniforms(7, 0, 0, 9)))
    True
    """
    for name, value in (("seed", seed), ("stream", stream)):
        if not 0 <= value < 2**64:
            raise ValueError(f"{name} is {value}; give an integer from 0 up to 2**64 - 1")
    if not 0 <= start <= stop:
        raise ValueError(f"rows from {start} to {stop} are asked for; give 0 <= start <= stop")
    # The generator makes four numbers at each value of its counter.
    key = np.array([seed, stream], dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(counter=start // 4, key=key))
    skipped = start % 4
    return generator.random(skipped + stop - start)[skipped:]


def bottom_k(values: Floats, k: int) -> NDArray[np.intp]:
    """Return the places of the k smallest values, in ascending order of place.

    Of equal values the first ones are taken. So the k smallest of a union of parts are among the k
    smallest of each part.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        The values.
    k : int
        How many; all if there are no more.

    Returns
    -------
    ndarray of int, shape (min(k, n_rows),)
        Their places.

    Raises
    ------
    ValueError
        If k is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.sampling import bottom_k
    >>> bottom_k(np.array([0.4, 0.1, 0.3, 0.1]), 3).tolist()
    [1, 2, 3]
    """
    if k < 0:
        raise ValueError(f"k is {k}; give a number of rows, at least 0")
    if k >= len(values):
        return np.arange(len(values))
    if k == 0:
        return np.empty(0, dtype=np.intp)
    largest = np.partition(values, k - 1)[k - 1]
    below = np.flatnonzero(values < largest)
    equal = np.flatnonzero(values == largest)[: k - len(below)]
    return np.sort(np.concatenate([below, equal]))


@dataclass(frozen=True)
class UniformPlan:
    """Keep all positives, and each negative with the same probability.

    Parameters
    ----------
    rate : float
        The probability of a negative.
    """

    rate: float

    def log_keep(self, X: Any, offset: float | Floats | None = None) -> LogKeep:
        """Return logarithms of the probabilities of a positive and of a negative.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_slopes)
            Features, which do not matter here.
        offset : float or ndarray of float, shape (n_rows,), default=None
            Does not matter either.

        Returns
        -------
        tuple of float
            0 and the logarithm of the rate.
        """
        return 0.0, math.log(self.rate)


@dataclass(frozen=True, eq=False)
class _Projected:
    """The norm |G z| of each row, G one row per contrast."""

    matrix: Floats
    basis: Basis | None
    intercept: bool

    def squared(self, X: Any) -> Floats:
        # in coordinates in which columns far from 0 lose no digits
        design = Design(X, intercept=self.intercept, basis=self.basis)
        rows = design.from_raw(self.matrix.T).T
        return design.quadratic(rows.T @ rows)


@dataclass(frozen=True, eq=False)
class _Standardised:
    """The norm of each row with standardised columns, and 1 for the intercept."""

    centre: Floats
    inverse_scale: Floats
    intercept: bool

    def squared(self, X: Any) -> Floats:
        design = Design(X, intercept=self.intercept)
        norms = np.full(design.n_rows, float(self.intercept))
        if not design.sparse:
            for start in range(0, design.n_rows, _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                block = (design.X[rows] - self.centre) * self.inverse_scale
                norms[rows] += np.einsum("ij,ij->i", block, block)
            return norms
        weight = np.square(self.inverse_scale)
        shift = self.centre * weight
        norms += float(shift @ self.centre)
        by_row = design.X.format == "csr"
        pointers = design.X.indptr
        length = len(pointers) - 1
        step = max(1, length * _STORED // max(int(pointers[-1]), 1))
        for start in range(0, length, step):
            part = slice(start, start + step)
            if by_row:
                block = design.X[part].astype(np.float64)
                norms[part] += block.power(2) @ weight - 2.0 * (block @ shift)
            else:
                block = design.X[:, part].astype(np.float64)
                norms += block.power(2) @ weight[part] - 2.0 * (block @ shift[part])
        return norms


_Norm: TypeAlias = _Projected | _Standardised


@dataclass(frozen=True, eq=False)
class ScoredPlan:
    """Keep rows with probabilities that a pilot's scores give.

    Made by `PilotScores.plan`. It holds all that it needs, so that every batch of rows is treated
    alike.

    Parameters
    ----------
    kind : {"a_optimal", "l_optimal", "local_case_control"}
        How rows are scored.
    rate : float
        Mean probability of a negative in the population, by the pilot.
    link : Link
        The pilot's link.
    coef : ndarray of float, shape (n_slopes,)
        Slopes of the pilot.
    intercept : float
        Its intercept, fitted or known.
    log_scale : float
        Logarithm of c.
    lowest : float
        Lower bound of the logarithms of scores.
    norm : object or None
        The norm that a score has as a factor.
    """

    kind: str
    rate: float
    link: Link
    coef: Floats
    intercept: float
    log_scale: float
    lowest: float
    norm: _Norm | None

    def log_keep(self, X: Any, offset: float | Floats | None = None) -> LogKeep:
        """Return logarithms of the probabilities of a positive and of a negative, row by row.

        Each row has both, whatever its label: the likelihood needs log(pi1/pi0) of positives too.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_slopes)
            Features, of all rows or of a batch.
        offset : float or ndarray of float, shape (n_rows,), default=None
            What the linear predictor has besides intercept and slopes; None is 0.

        Returns
        -------
        log_pi1 : float or ndarray of float, shape (n_rows,)
            That of a positive, 0.0 unless they are sampled.
        log_pi0 : ndarray of float, shape (n_rows,)
            That of a negative.
        """
        eta = Design(X, intercept=False).eta(self.coef)
        eta += self.intercept
        if offset is not None:
            eta += offset
        pieces = self.link.pieces(eta)
        return _log_keep(self, pieces.log_q, _log_score(self.kind, pieces, self.norm, X))


def _log_score(kind: str, pieces: Pieces, norm: _Norm | None, X: Any) -> Floats:
    if kind == "local_case_control":
        return pieces.log_p
    score = np.log(np.maximum(pieces.hq, _TINY))
    if norm is not None:
        score += 0.5 * np.log(np.maximum(norm.squared(X), _TINY))
    return score


def _log_keep(plan: ScoredPlan, log_q: Floats, log_score: Floats) -> LogKeep:
    floor = math.log(_FLOOR * plan.rate)
    score = np.maximum(log_score, plan.lowest)
    log_pi0 = np.clip(plan.log_scale + score, floor, 0.0)
    if plan.kind != "local_case_control":
        return 0.0, log_pi0
    return np.clip(plan.log_scale + np.maximum(log_q, plan.lowest), math.log(_FLOOR), 0.0), log_pi0


Plan: TypeAlias = UniformPlan | ScoredPlan


@dataclass(frozen=True, eq=False)
class PilotScores:
    """Scores of a pilot's rows: the plans of all rates, without scoring the pilot again.

    Made by `pilot_scores`.

    Parameters
    ----------
    kind : {"a_optimal", "l_optimal", "local_case_control"}
        How rows are scored.
    link : Link
        The pilot's link.
    coef : ndarray of float, shape (n_slopes,)
        Slopes of the pilot.
    intercept : float
        Its intercept, fitted or known.
    norm : object or None
        The norm that a score has as a factor.
    log_q : ndarray of float, shape (n_rows,)
        Logarithms of the pilot rows' probabilities of a negative.
    log_score : ndarray of float, shape (n_rows,)
        Logarithms of their scores.
    negative : ndarray of float, shape (n_rows,)
        What they count for in a mean over the population's negatives.
    """

    kind: str
    link: Link
    coef: Floats
    intercept: float
    norm: _Norm | None
    log_q: Floats
    log_score: Floats
    negative: Floats

    def plan(self, rate: float) -> ScoredPlan:
        """Return the plan that keeps negatives with probability `rate` on average.

        Parameters
        ----------
        rate : float
            The rate, above 0, up to 1.

        Returns
        -------
        ScoredPlan
            The plan.

        Raises
        ------
        ValueError
            If the rate is out of range.
        """
        if not 0.0 < rate <= 1.0:
            raise ValueError(f"the sampling rate is {rate}; give a number above 0 and up to 1")
        most = float(self.log_score.max())
        mean = most + math.log(float(self.negative @ np.exp(self.log_score - most)))
        scale = _scale(self.log_score - mean, self.negative, rate)
        return ScoredPlan(
            kind=self.kind,
            rate=rate,
            link=self.link,
            coef=self.coef,
            intercept=self.intercept,
            log_scale=scale - mean,
            lowest=mean + _LOWEST,
            norm=self.norm,
        )

    def log_keep(self, rate: float) -> LogKeep:
        """Return what `plan(rate).log_keep` gives on the pilot's rows.

        Parameters
        ----------
        rate : float
            The rate, above 0, up to 1.

        Returns
        -------
        log_pi1 : float or ndarray of float, shape (n_rows,)
            That of a positive.
        log_pi0 : ndarray of float, shape (n_rows,)
            That of a negative.
        """
        return _log_keep(self.plan(rate), self.log_q, self.log_score)


def _scale(log_score: Floats, weight: Floats, rate: float) -> float:
    """Return log c with mean of min(1, max(floor, c score)) = rate; scores have mean 1."""
    if rate == 1.0:
        return math.inf
    score = np.exp(np.maximum(log_score, _LOWEST))
    order = np.argsort(score)
    score = score[order]
    below = np.concatenate([[0.0], np.cumsum(weight[order])])
    product = np.concatenate([[0.0], np.cumsum(weight[order] * score)])
    floor = _FLOOR * rate

    def excess(log_c: float) -> float:
        c = math.exp(log_c)
        first, last = np.searchsorted(score, [floor / c, 1.0 / c])
        between = c * (product[last] - product[first])
        return float(floor * below[first] + between + (below[-1] - below[last]) - rate * below[-1])

    low, high = math.log(floor / score[-1]) - 1e-9, -math.log(score[0]) + 1e-9
    return float(brentq(excess, low, high, xtol=1e-13, rtol=1e-14))


def pilot_scores(
    kind: str,
    pilot: Pilot,
    *,
    link: Link,
    coef: Floats,
    intercept: float,
    contrasts: Floats | None = None,
) -> PilotScores:
    """Score the rows of a pilot.

    Parameters
    ----------
    kind : {"a_optimal", "l_optimal", "local_case_control"}
        How rows are scored.
    pilot : Pilot
        Its fit, whose `pieces` belong to `coef` and `intercept` (and to the pilot's own offset).
    link : Link
        Its link.
    coef : ndarray of float, shape (n_slopes,)
        Its slopes.
    intercept : float
        Its intercept, fitted or known.
    contrasts : ndarray of float, shape (k, n_coef), default=None
        What "a_optimal" is to estimate best, as combinations of the coefficients; each slope by
        default. The other kinds don't depend on it.

    Returns
    -------
    PilotScores
        The scores.

    Raises
    ------
    ValueError
        If no kind has the name, or "a_optimal" has too many columns or no contrast that the pilot
        identifies.
    """
    if kind not in KINDS:
        raise ValueError(
            f"sampling is {kind!r}; a pilot's scores are for {', '.join(map(repr, KINDS))}"
        )
    design = pilot.design.in_basis(None)
    norm: _Norm | None = None
    if kind == "a_optimal":
        norm = _projected(pilot, contrasts)
    elif kind == "l_optimal":
        norm = _standardised(pilot)
    negative = pilot.share * np.exp(pilot.pieces.log_q)
    return PilotScores(
        kind=kind,
        link=link,
        coef=coef,
        intercept=intercept,
        norm=norm,
        log_q=pilot.pieces.log_q,
        log_score=_log_score(kind, pilot.pieces, norm, design.X),
        negative=negative / negative.sum(),
    )


def _projected(pilot: Pilot, contrasts: Floats | None) -> _Projected:
    design = pilot.design.in_basis(None)
    if design.n_coef > A_OPTIMAL_COLUMNS:
        raise ValueError(
            f"sampling='a_optimal' takes up to {A_OPTIMAL_COLUMNS} coefficients, and there are "
            f"{design.n_coef}: its cost grows with their square. Write sampling='l_optimal'"
        )
    if contrasts is None:
        contrasts = np.eye(design.n_coef)[int(design.intercept) :]
    basis = None if design.sparse else design.centred()
    return _Projected(a_optimal_matrix(pilot, contrasts), basis, design.intercept)


def _standardised(pilot: Pilot) -> _Standardised:
    """Return means and inverse standard deviations among rows weighted by their information."""
    raw = pilot.design.in_basis(None)
    design = raw if raw.sparse else raw.in_basis(raw.centred())
    weight = pilot.information / pilot.information.sum()
    first = int(raw.intercept)
    raw_size = np.sqrt(raw.squares(weight)[first:])
    if not raw.intercept:
        return _Standardised(np.zeros(raw.n_slopes), _inverse(raw_size, raw_size), intercept=False)
    own = design.back(weight)[first:]
    variance = design.squares(weight)[first:] - np.square(own)
    scale = np.sqrt(np.maximum(variance, 0.0))
    return _Standardised(raw.back(weight)[first:], _inverse(scale, raw_size), intercept=True)


def _inverse(scale: Floats, size: Floats) -> Floats:
    """Return 1/scale, and 0 where it is zero but for rounding."""
    known = scale > 1e-7 * size
    out: Floats = np.divide(1.0, scale, out=np.zeros_like(scale), where=known)
    return out
