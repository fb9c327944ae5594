"""What a sampling rate costs: variances of contrasts relative to those of the full fit.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from imbfit.glm.pilot import Coordinates, Pilot

__all__ = [
    "LogKeep",
    "Ratio",
    "check_method",
    "checked_rate",
    "designed_ratio",
    "iw_loss",
    "relative_efficiency",
    "uniform_ratio",
]

Floats: TypeAlias = NDArray[np.float64]

LogKeep: TypeAlias = tuple[float | Floats, float | Floats]

_METHODS = ("cmle", "iw", "profile", "naive", "pseudo_mle")

# A rate -> variance over that of the full fit, of the identified contrasts.
Ratio: TypeAlias = Callable[[float], Floats]


def uniform_ratio(pilot: Pilot, at: Coordinates, method: str) -> Ratio:
    """Return the variance ratios of uniform sampling as a function of the rate."""
    log_p, log_q, hp, _ = pilot.pieces
    p0 = pilot.negatives
    if method == "iw":
        loss = iw_loss(pilot, at)
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


def iw_loss(pilot: Pilot, at: Coordinates) -> Floats:
    """Return what 1/a - 1 is multiplied by in the variance ratio of iw."""
    density = pilot.share * np.exp(pilot.pieces.log_p) * pilot.pieces.hp
    own = at.form(pilot.information * np.exp(pilot.pieces.log_p))
    shared = np.square(at.rows @ at.back(density)) / pilot.negatives
    return np.maximum(own - shared, 0.0)


def designed_ratio(pilot: Pilot, at: Coordinates, method: str, log_keep: LogKeep) -> Floats:
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
    check_method(method)
    at = Coordinates(pilot, contrasts)
    if log_keep is None:
        ratio = uniform_ratio(pilot, at, method)(checked_rate(rate))
    else:
        ratio = designed_ratio(pilot, at, method, log_keep)
    # above 1 by rounding only
    return at.spread(np.minimum(1.0 / ratio, 1.0))


def check_method(method: str) -> None:
    """Raise a ValueError unless an estimator has the name."""
    if method not in _METHODS:
        raise ValueError(f"method is {method!r}; give one of {', '.join(map(repr, _METHODS))}")


def checked_rate(rate: float) -> float:
    """Return a rate that is in range; raise a ValueError for any other."""
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"the sampling rate is {rate}; give a number above 0 and up to 1")
    return rate
