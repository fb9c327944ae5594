"""Each row's probability of being kept, uniform or by a pilot's scores.

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

from imbfit.glm.design import Design
from imbfit.glm.links import Link, Pieces
from imbfit.glm.pilot import Pilot
from imbfit.glm.score_norms import Norm, projected, standardised

__all__ = ["PilotScores", "Plan", "ScoredPlan", "UniformPlan", "pilot_scores"]

Floats: TypeAlias = NDArray[np.float64]

LogKeep: TypeAlias = tuple[float | Floats, float | Floats]

KINDS = ("a_optimal", "l_optimal", "local_case_control")

# Share of the uniform probability that no row goes below.
_FLOOR = 0.1

# Scores this far below the negatives' mean, in logs, count as that: with a score of 0 a row would
# not reach probability 1 at rate 1.
_LOWEST = -20.0

_TINY = float(np.finfo(np.float64).tiny)


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
    norm: Norm | None

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


def _log_score(kind: str, pieces: Pieces, norm: Norm | None, X: Any) -> Floats:
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
    norm: Norm | None
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
    norm: Norm | None = None
    if kind == "a_optimal":
        norm = projected(pilot, contrasts)
    elif kind == "l_optimal":
        norm = standardised(pilot)
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
