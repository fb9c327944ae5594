"""What a sampling rate costs: variances of contrasts, and the rate that keeps a given efficiency.

With p = P(positive | x), q = 1 - p, f = dp/d eta, z = (1, x) and rate a, per row of the
population:

full fit   V = A^-1,                               A = E[f^2/(pq) zz']
cmle       V = J^-1 - a(1-a)/p0 J^-1 cc' J^-1,     J = E[(a/S) f^2/(pq) zz'], c = E[(f/S) z]
profile    V = (J + cc'/b)^-1,                     b = E[q^2/S] + p0/(1-a)
iw         V = A^-1 + (1/a-1) A^-1 (C - hh'/p0) A^-1,     C = E[f^2/q zz'], h = E[f z]

where S = p + a q is the chance that a row is kept, p0 = E[q], and a is the realised rate, kept
negatives over all negatives. Where a row is kept with probability pi1 or pi0 by its label, the
numbers kept are not fixed:

cmle       V = E[(pi1 pi0/S) f^2/(pq) zz']^-1,     S = pi1 p + pi0 q
iw         V = A^-1 (A + E[(1/pi0-1) f^2/q zz'] + E[(1/pi1-1) f^2/p zz']) A^-1

Means over the population come from a pilot, each of whose rows counts for 1/S.

The variance of a contrast l never rises with the rate, so that a root search finds the smallest
rate that will do. For iw it is linear in 1/a; for profile, an efficient estimator, a lower rate
is the same data with some of it dropped. For cmle put h = f/(pq) z'J^-1 l and y = ph/S, let Q be
the distribution with density q/p0, and r what the columns f/(pq) z leave of the constant 1 in
least squares of weights pq/S; so Q[yr] = 0 and Q[pr/S] = Q[pr^2/S]. With a/S = 1 - (1-a)p/S,
differentiation gives

-dV/da = p0 (Q[(y-m)^2] + 2(1-a) m^2 Q[pr^2/S] + 2(1-a) m Q[(y-m)pr/S]),     m = Q[y],

which is at least p0 (1-a) m^2 Q[pr^2/S] >= 0: complete the square and use (1-a)p/S <= 1. It takes
p0 and c as means over the same rows, which is why p0 is the pilot's and not the population's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import brentq, minimize_scalar

from imbfit.glm.design import Design
from imbfit.glm.links import Pieces
from imbfit.glm.rank import examine

__all__ = [
    "Pilot",
    "RateCurve",
    "a_optimal_matrix",
    "cost_rate",
    "curve",
    "efficient_rate",
    "inference_free_bound",
    "relative_efficiency",
]

Floats: TypeAlias = NDArray[np.float64]
LogKeep: TypeAlias = tuple[float | Floats, float | Floats]

_METHODS = ("cmle", "iw", "profile", "naive", "pseudo_mle")

# Where directions have less than this share of the information, in units of the columns, products
# of columns lose digits, and it takes a closer look at the columns.
_WEAK_INFORMATION = 1e-6

# If what is left has less than this share, rounding could as well have made it.
_LEAST_INFORMATION = 1e-12

# Where log(1/a - 1) is so low, a is 1 but for rounding.
_ALL_ROWS = -30.0


@dataclass(frozen=True, eq=False)
class Pilot:
    """A fitted sample that estimates means over the population.

    Parameters
    ----------
    design : Design
        The pilot's rows.
    share : ndarray of float, shape (n_rows,)
        What a row counts for in a mean over the population, with sum 1: proportional to its weight
        over S, the chance with which the pilot took a row with these features.
    pieces : Pieces
        Probabilities and hazards of the rows in the pilot's fit.
    prevalence : float
        Share of positives in the population.
    n_rows : float
        Number of rows of the population.
    """

    design: Design
    share: Floats
    pieces: Pieces
    prevalence: float
    n_rows: float

    @property
    def information(self) -> Floats:
        """Each row's share of the full fit's information, f^2/(pq)."""
        with np.errstate(over="ignore", invalid="ignore"):
            # at the end of a tail it may be 0 times infinity, and there the information goes to 0
            information = self.pieces.hp * self.pieces.hq
        return self.share * np.where(np.isfinite(information), information, 0.0)

    @property
    def negatives(self) -> float:
        """Share of negatives by the fit, E[q]."""
        return float(self.share @ np.exp(self.pieces.log_q))

    @property
    def least_rate(self) -> float:
        """The rate at which a single negative is expected."""
        return min(1.0, 1.0 / (self.n_rows * (1.0 - self.prevalence)))


@dataclass(frozen=True, eq=False)
class RateCurve:
    """What each of several rates costs.

    Parameters
    ----------
    rates : ndarray of float, shape (r,)
        The rates.
    efficiency : ndarray of float, shape (r, k)
        Variance of the full fit over that at the rate, for each contrast; NaN where the contrast is
        not identified.
    se_inflation : ndarray of float, shape (r, k)
        Standard error at the rate over that of the full fit.
    cost : ndarray of float, shape (r,)
        What it costs to reach a given variance of the worst contrast, relative to rate 1: its
        variance ratio times the cost of a row of the population.
    """

    rates: Floats
    efficiency: Floats
    se_inflation: Floats
    cost: Floats


class _Coordinates:
    """Coordinates in which the information of the full fit is the identity, and contrasts in them.

    They remove the units of the columns, and the directions that the rows don't identify.
    """

    def __init__(self, pilot: Pilot, contrasts: Floats) -> None:
        raw = self.design = pilot.design.in_basis(None)
        rows = _checked(contrasts, raw.n_coef)
        size = np.sqrt(raw.squares(pilot.information))
        free = size > 0.0
        beside: NDArray[np.bool_] = np.asarray(rows[:, ~free].any(axis=1))
        unit, values, vectors = self._directions(pilot, free)
        if values.min(initial=1.0) < _WEAK_INFORMATION:
            rank = examine(raw, pilot.information, np.zeros(raw.n_coef))
            for unseen in rank.units.values():
                beside |= _touches(rows[:, free] / size[free], unseen[free] * size[free])
            free = ~rank.aliased
            if rank.basis is not None:
                self.design = raw.in_basis(rank.basis)
            unit, values, vectors = self._directions(pilot, free)
        known = values > _LEAST_INFORMATION
        vectors, unclear = vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known]
        self.basis: Floats = np.zeros((raw.n_coef, int(known.sum())))
        self.basis[free] = unit[:, None] * vectors
        scaled = self.design.slope_from_raw(rows.T).T[:, free] * unit
        for direction in unclear.T:
            beside |= _touches(scaled, direction)
        self.identified: NDArray[np.bool_] = ~beside
        if not self.identified.any():
            raise ValueError(
                "the pilot's rows identify none of the contrasts: their columns are constant or "
                "collinear there. Leave out such columns, or write sampling_rate=1.0"
            )
        inside = scaled[self.identified] @ vectors
        # of length 1, so that the variance in the full fit is 1
        self.rows: Floats = inside / np.linalg.norm(inside, axis=1)[:, None]

    def _directions(self, pilot: Pilot, free: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """Return the units of the free columns, and the spectrum of the information in them."""
        information = self.design.gram(pilot.information)[np.ix_(free, free)]
        diagonal = np.diag(information)
        unit = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        values, vectors = eigh(information * np.outer(unit, unit))
        return unit, values, vectors

    def gram(self, d: Floats) -> Floats:
        inner: Floats = self.basis.T @ self.design.gram(d) @ self.basis
        return inner

    def back(self, g: Floats) -> Floats:
        inner: Floats = self.basis.T @ self.design.back(g)
        return inner

    def form(self, d: Floats) -> Floats:
        """Return x' gram(d) x of each contrast."""
        return np.asarray(np.einsum("ij,ij->i", self.rows @ self.gram(d), self.rows))

    def spread(self, ratio: Floats) -> Floats:
        """Return values of all contrasts from those of the identified ones, else NaN."""
        out = np.full(len(self.identified), np.nan)
        out[self.identified] = ratio
        return out


def _touches(rows: Floats, direction: Floats) -> NDArray[np.bool_]:
    """Return which contrasts change along a direction, but for rounding."""
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(direction)
    touched: NDArray[np.bool_] = np.abs(rows @ direction) > 1e-6 * sizes
    return touched


# A rate -> variance over that of the full fit, of the identified contrasts.
_Ratio: TypeAlias = Callable[[float], Floats]


def _ratio(pilot: Pilot, at: _Coordinates, method: str) -> _Ratio:
    """Return the variance ratios of uniform sampling as a function of the rate."""
    log_p, log_q, hp, _ = pilot.pieces
    p0 = pilot.negatives
    if method == "iw":
        loss = _iw_loss(pilot, at)
        return lambda rate: 1.0 + (1.0 / rate - 1.0) * loss
    information = pilot.information
    density = pilot.share * np.exp(log_p) * hp
    square = pilot.share * np.exp(2.0 * log_q)

    def ratio(rate: float) -> Floats:
        if rate >= 1.0:
            return np.ones(len(at.rows))
        log_s = np.logaddexp(log_p, math.log(rate) + log_q)
        kept = at.gram(information * np.exp(math.log(rate) - log_s))
        c = at.back(density * np.exp(-log_s))
        solved = _solve(kept, np.column_stack([at.rows.T, c]), least=rate)
        inverse, own = solved[:, :-1], solved[:, -1]
        shift = np.square(c @ inverse)
        if method == "profile":
            b = float(square @ np.exp(-log_s)) + p0 / (1.0 - rate)
            factor = 1.0 / (b + float(c @ own))
        else:
            factor = rate * (1.0 - rate) / p0
        return np.asarray(np.einsum("ij,ji->i", at.rows, inverse) - factor * shift)

    return ratio


def _iw_loss(pilot: Pilot, at: _Coordinates) -> Floats:
    """Return what 1/a - 1 is multiplied by in the variance ratio of iw."""
    density = pilot.share * np.exp(pilot.pieces.log_p) * pilot.pieces.hp
    own = at.form(pilot.information * np.exp(pilot.pieces.log_p))
    shared = np.square(at.rows @ at.back(density)) / pilot.negatives
    return np.maximum(own - shared, 0.0)


def _designed_ratio(pilot: Pilot, at: _Coordinates, method: str, log_keep: LogKeep) -> Floats:
    """Return the variance ratios where each row is kept with a probability of its own."""
    log_p, log_q, _, _ = pilot.pieces
    log_pi1, log_pi0 = log_keep
    if method == "profile":
        raise ValueError(
            "method='profile' has no variance where the rows' probabilities of being kept differ; "
            "write method='cmle', or sampling='uniform'"
        )
    if method == "iw":
        # f^2/q and f^2/p are the shares p and q of the information
        lost_negatives = np.exp(log_p) * np.expm1(-np.asarray(log_pi0))
        lost_positives = np.exp(log_q) * np.expm1(-np.asarray(log_pi1))
        return 1.0 + at.form(pilot.information * (lost_negatives + lost_positives))
    log_s = np.logaddexp(log_pi1 + log_p, log_pi0 + log_q)
    kept = at.gram(pilot.information * np.exp(log_pi1 + log_pi0 - log_s))
    least = math.exp(min(np.min(log_pi1), np.min(log_pi0)))
    return np.asarray(np.einsum("ij,ji->i", at.rows, _solve(kept, at.rows.T, least)))


def _solve(kept: Floats, right: Floats, least: float) -> Floats:
    """Solve with the information that is kept, of which every direction has at least `least`."""
    try:
        factor = cho_factor(kept)
    except LinAlgError:
        factor = None
    # no pivot is below the least eigenvalue
    if factor is not None and np.square(np.diag(factor[0])).min() > 0.99 * least:
        return np.asarray(cho_solve(factor, right))
    # Rounding, where hardly anything tells columns apart.
    values, vectors = eigh(kept)
    inner = (vectors.T @ right) / np.maximum(values, least)[:, None]
    return np.asarray(vectors @ inner)


def relative_efficiency(
    pilot: Pilot,
    rate: float,
    *,
    method: str,
    contrasts: Floats,
    log_keep: LogKeep | None = None,
) -> Floats:
    """Return how much of the full fit's precision is kept, contrast by contrast.

    Parameters
    ----------
    pilot : Pilot
        Estimates means over the population.
    rate : float
        Kept negatives over all negatives.
    method : {"cmle", "iw", "profile", "naive", "pseudo_mle"}
        The estimator. The last two have no consistent estimate to be precise about, and count as
        "cmle".
    contrasts : ndarray of float, shape (k, n_coef)
        Combinations of the coefficients, in the order intercept (if it is free), slopes.
    log_keep : tuple of (float or ndarray of float, shape (n_rows,)), default=None
        Logarithms of the probabilities with which a positive and a negative with the features of
        the pilot's rows are kept, for sampling that is not uniform; `rate` is not used then.

    Returns
    -------
    ndarray of float, shape (k,)
        Variance of the full fit over that at the rate, between 0 and 1; NaN for a contrast that the
        pilot's rows don't identify.

    Raises
    ------
    ValueError
        If they identify no contrast, or if a parameter is out of range.
    """
    _check_method(method)
    at = _Coordinates(pilot, contrasts)
    if log_keep is None:
        ratio = _ratio(pilot, at, method)(_checked_rate(rate))
    else:
        ratio = _designed_ratio(pilot, at, method, log_keep)
    # above 1 by rounding only
    return at.spread(np.minimum(1.0 / ratio, 1.0))


def efficient_rate(
    pilot: Pilot,
    efficiency: float,
    *,
    method: str,
    contrasts: Floats,
    family: Callable[[float], LogKeep] | None = None,
) -> float:
    """Return the smallest rate at which every identified contrast keeps an efficiency.

    Parameters
    ----------
    pilot : Pilot
        Estimates means over the population.
    efficiency : float
        Smallest allowed ratio of the full fit's variance to that at the rate, above 0, up to 1.
    method : {"cmle", "iw", "profile", "naive", "pseudo_mle"}
        The estimator, as in `relative_efficiency`.
    contrasts : ndarray of float, shape (k, n_coef)
        Combinations of the coefficients.
    family : callable, default=None
        For sampling that is not uniform: gives `log_keep` at the pilot's rows for a rate. No
        probability may fall as the rate rises.

    Returns
    -------
    float
        The rate, at least that at which a single negative is expected. 1.0 if nothing less will do.

    Raises
    ------
    ValueError
        If the pilot's rows identify no contrast, or if a parameter is out of range.
    """
    _check_method(method)
    if not 0.0 < efficiency <= 1.0:
        raise ValueError(f"efficiency is {efficiency}; give a number above 0 and up to 1")
    at = _Coordinates(pilot, contrasts)
    if efficiency == 1.0:
        return 1.0
    allowed = 1.0 / efficiency - 1.0
    if family is None and method == "iw":
        loss = float(_iw_loss(pilot, at).max())
        return max(loss / (loss + allowed), pilot.least_rate)
    if family is None:
        ratio = _ratio(pilot, at, method)
    else:
        keep = family  # for the type checker

        def ratio(rate: float) -> Floats:
            return _designed_ratio(pilot, at, method, keep(rate))

    p_max = float(np.exp(pilot.pieces.log_p.max()))
    return _smallest(ratio, allowed, inference_free_bound(p_max, efficiency), pilot.least_rate)


def _smallest(ratio: _Ratio, allowed: float, first: float, least: float) -> float:
    """Return the smallest rate with all ratios at most 1 + allowed, searched from `first`.

    In t = log(1/a - 1) the logarithm of the worst loss is close to a line of slope 1, and exactly
    one where p is small and constant; so few steps do.
    """

    @functools.cache
    def excess(t: float) -> float:
        loss = float(ratio(_rate_of(t)).max()) - 1.0
        return math.log(max(loss, 1e-300) / allowed)

    low, last = _odds(first), _odds(least)
    while excess(low) > 0.0:
        low -= 0.5 + excess(low)
        if low < _ALL_ROWS:
            return 1.0
    high = min(low + 0.2 - excess(low), last)
    while excess(high) <= 0.0:
        if high >= last:
            return least
        low, high = high, min(high + 0.2 - excess(high), last)
    return _rate_of(float(brentq(excess, low, high, xtol=1e-6)) - 2e-6)


def _odds(rate: float) -> float:
    return math.log(max(1.0 / rate - 1.0, math.exp(_ALL_ROWS)))


def _rate_of(t: float) -> float:
    return 1.0 / (1.0 + math.exp(t))


def inference_free_bound(p_max: float, efficiency: float) -> float:
    """Return a rate that keeps an efficiency for every contrast, whatever the features are.

    A kept row has at least the share a/(a + (1-a) p_max) of its information left, so every contrast
    keeps that efficiency with "cmle", and with "iw" and "profile" too. It needs no matrix, but can
    be far above the smallest rate if a few rows are likely positives.

    Parameters
    ----------
    p_max : float
        Largest probability of a positive among the rows.
    efficiency : float
        Smallest allowed ratio of the full fit's variance to that at the rate, above 0, up to 1.

    Returns
    -------
    float
        The rate.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
    >>> from imbfit.glm.rates import inference_free_bound
    >>> round(inference_free_bound(0.01, 0.95), 4)
    0.1597
    """
    if not 0.0 <= p_max <= 1.0:
        raise ValueError(f"p_max is {p_max}; give a probability between 0 and 1")
    if not 0.0 < efficiency <= 1.0:
        raise ValueError(f"efficiency is {efficiency}; give a number above 0 and up to 1")
    kept = efficiency * max(p_max, float(np.finfo(np.float64).tiny))
    return kept / (1.0 - efficiency + kept)


def cost_rate(
    pilot: Pilot, *, method: str, contrasts: Floats, read_cost: float, fit_cost: float
) -> float:
    """Return the rate at which a given precision of the worst contrast costs least.

    It minimises the variance ratio of the worst contrast times the cost of a row of the population,
    ``read_cost + fit_cost * (kept rows / rows)``. This is the rate to take if one may read as many
    rows as one likes. If their number is fixed, take `efficient_rate`.

    Parameters
    ----------
    pilot : Pilot
        Estimates means over the population.
    method : {"cmle", "iw", "profile", "naive", "pseudo_mle"}
        The estimator, as in `relative_efficiency`.
    contrasts : ndarray of float, shape (k, n_coef)
        Combinations of the coefficients.
    read_cost : float
        Cost of reading a row, kept or not, in any unit.
    fit_cost : float
        Cost of fitting a kept row, in the same unit.

    Returns
    -------
    float
        The rate, at least that at which a single negative is expected.

    Raises
    ------
    ValueError
        If a cost is negative, both are 0, or the pilot's rows identify no contrast.
    """
    _check_method(method)
    price = _price(pilot, read_cost, fit_cost)
    at = _Coordinates(pilot, contrasts)
    ratio = _ratio(pilot, at, method)

    def cost(log_rate: float) -> float:
        rate = math.exp(min(log_rate, 0.0))
        return float(ratio(rate).max()) * price(rate)

    # A grid first: the cost is log-convex in log a for iw, but need not be for the others.
    grid = np.linspace(math.log(pilot.least_rate), 0.0, 50)
    costs = [cost(log_rate) for log_rate in grid]
    best = int(np.argmin(costs))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    log_rate = float(found.x) if found.fun < costs[best] else float(grid[best])
    return math.exp(log_rate)


def curve(
    pilot: Pilot,
    rates: Floats,
    *,
    method: str,
    contrasts: Floats,
    read_cost: float = 0.0,
    fit_cost: float = 1.0,
) -> RateCurve:
    """Return efficiencies, inflation of standard errors and costs at several rates.

    Parameters
    ----------
    pilot : Pilot
        Estimates means over the population.
    rates : ndarray of float, shape (r,)
        Rates, each above 0, up to 1.
    method : {"cmle", "iw", "profile", "naive", "pseudo_mle"}
        The estimator, as in `relative_efficiency`.
    contrasts : ndarray of float, shape (k, n_coef)
        Combinations of the coefficients.
    read_cost : float, default=0.0
        Cost of reading a row, kept or not, in any unit.
    fit_cost : float, default=1.0
        Cost of fitting a kept row, in the same unit.

    Returns
    -------
    RateCurve
        Its cost is least where `cost_rate` has it.

    Raises
    ------
    ValueError
        If a rate or a cost is out of range, or the pilot's rows identify no contrast.
    """
    _check_method(method)
    price = _price(pilot, read_cost, fit_cost)
    at = _Coordinates(pilot, contrasts)
    ratio = _ratio(pilot, at, method)
    taken = [_checked_rate(float(rate)) for rate in rates]
    ratios = [np.maximum(ratio(rate), 1.0) for rate in taken]
    everywhere = np.array([at.spread(found) for found in ratios])
    costs = [float(found.max()) * price(rate) for found, rate in zip(ratios, taken, strict=True)]
    return RateCurve(
        rates=np.array(taken),
        efficiency=1.0 / everywhere,
        se_inflation=np.sqrt(everywhere),
        cost=np.array(costs) / price(1.0),
    )


def _price(pilot: Pilot, read_cost: float, fit_cost: float) -> Callable[[float], float]:
    """Return the cost of a row of the population as a function of the rate."""
    if not (read_cost >= 0.0 and fit_cost >= 0.0 and 0.0 < read_cost + fit_cost < math.inf):
        raise ValueError(
            f"read_cost is {read_cost} and fit_cost is {fit_cost}; give finite costs of at least "
            "0, one of them above 0"
        )
    p1 = pilot.prevalence
    return lambda rate: read_cost + fit_cost * (p1 + (1.0 - p1) * rate)


def a_optimal_matrix(pilot: Pilot, contrasts: Floats) -> Floats:
    """Return L A^-1, each contrast in L divided by its standard error in the full fit.

    Negatives kept in proportion to f/q times the norm of its product with z minimise the sum of the
    contrasts' variance ratios, which no unit changes.

    Parameters
    ----------
    pilot : Pilot
        Estimates means over the population.
    contrasts : ndarray of float, shape (k, n_coef)
        Combinations of the coefficients.

    Returns
    -------
    ndarray of float, shape (identified, n_coef)
        A row for each contrast that the pilot's rows identify, for products with z = (1, x).

    Raises
    ------
    ValueError
        If they identify no contrast.
    """
    at = _Coordinates(pilot, contrasts)
    return np.ascontiguousarray(at.design.to_raw(at.basis @ at.rows.T).T)


def _check_method(method: str) -> None:
    if method not in _METHODS:
        raise ValueError(f"method is {method!r}; give one of {', '.join(map(repr, _METHODS))}")


def _checked_rate(rate: float) -> float:
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"the sampling rate is {rate}; give a number above 0 and up to 1")
    return rate


def _checked(contrasts: Floats, n_coef: int) -> Floats:
    rows = np.asarray(contrasts, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_coef or not len(rows):
        raise ValueError(
            f"contrasts is of shape {rows.shape}; give one or more rows of {n_coef} numbers, one "
            "for each coefficient"
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1) | ~rows.any(axis=1))
    if len(bad):
        raise ValueError(
            f"row {bad[0]} of contrasts is zero or not finite; give numbers, not all of them 0"
        )
    return rows
