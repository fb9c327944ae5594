"""The rate that keeps a given efficiency, and the one at which precision costs least.

The variance of a contrast l never rises with the rate, so that a root search finds the smallest
rate that will do. In the notation of `imbfit.glm.efficiency`: for iw it is linear in 1/a; for
profile, an efficient estimator, a lower rate is the same data with some of it dropped. For cmle put
h = f/(pq) z'J^-1 l and y = ph/S, let Q be the distribution with density q/p0, and r what the
columns f/(pq) z leave of the constant 1 in least squares of weights pq/S; so Q[yr] = 0 and
Q[pr/S] = Q[pr^2/S]. With a/S = 1 - (1-a)p/S, differentiation gives

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
from scipy.optimize import brentq, minimize_scalar

from imbfit.glm.efficiency import (
    LogKeep,
    Ratio,
    check_method,
    checked_rate,
    designed_ratio,
    iw_loss,
    uniform_ratio,
)
from imbfit.glm.pilot import Coordinates, Pilot

__all__ = ["RateCurve", "cost_rate", "curve", "efficient_rate", "inference_free_bound"]

Floats: TypeAlias = NDArray[np.float64]

# Where log(1/a - 1) is so low, a is 1 but for rounding.
_ALL_ROWS = -30.0


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
    check_method(method)
    if not 0.0 < efficiency <= 1.0:
        raise ValueError(f"efficiency is {efficiency}; give a number above 0 and up to 1")
    at = Coordinates(pilot, contrasts)
    if efficiency == 1.0:
        return 1.0
    allowed = 1.0 / efficiency - 1.0
    if family is None and method == "iw":
        loss = float(iw_loss(pilot, at).max())
        return max(loss / (loss + allowed), pilot.least_rate)
    if family is None:
        ratio = uniform_ratio(pilot, at, method)
    else:
        keep = family  # for the type checker

        def ratio(rate: float) -> Floats:
            return designed_ratio(pilot, at, method, keep(rate))

    p_max = float(np.exp(pilot.pieces.log_p.max()))
    return _smallest(ratio, allowed, inference_free_bound(p_max, efficiency), pilot.least_rate)


def _smallest(ratio: Ratio, allowed: float, first: float, least: float) -> float:
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
    check_method(method)
    price = _price(pilot, read_cost, fit_cost)
    at = Coordinates(pilot, contrasts)
    ratio = uniform_ratio(pilot, at, method)

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
    check_method(method)
    price = _price(pilot, read_cost, fit_cost)
    at = Coordinates(pilot, contrasts)
    ratio = uniform_ratio(pilot, at, method)
    taken = [checked_rate(float(rate)) for rate in rates]
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
