r"""Tangents of a convex loss, and the bound that they give for the loss with a ridge.

A loss R that is convex lies above each tangent, R(w) >= b_j + g_j . w, so

.. math:: \min_w R(w) + \tfrac12 \sum_i \lambda_i w_i^2 \;\ge\;
          \max_{a \in \Delta} \; b^T a - \tfrac12 \sum_i (G^T a)_i^2 / \lambda_i,

and the minimiser of the tangents' maximum with the ridge is w_i = -(G^T a)_i / lambda_i.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tangents", "best_mixture"]

Floats: TypeAlias = NDArray[np.float64]

_MOST_NUMBERS = 20_000_000
_MOST, _FEWEST = 400, 30
# Added to the diagonal of a system, relative to the largest entry: tangents may be copies.
_JITTER = 1e-13
_MOST_STEPS = 2000
_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


class Tangents:
    """Tangents found so far.

    Parameters
    ----------
    ridge : ndarray of shape (n_coef,)
        Above 0.
    """

    def __init__(self, ridge: Floats) -> None:
        self.ridge = ridge
        self.most = int(np.clip(_MOST_NUMBERS // len(ridge), _FEWEST, _MOST))
        self.slopes = np.empty((0, len(ridge)))
        self.heights = np.empty(0)
        self.products = np.empty((0, 0))
        self.mixture = np.empty(0)
        self.bound = -np.inf

    def add(self, slope: Floats, height: float) -> None:
        """Add the tangent height + slope . w."""
        if len(self.heights) >= self.most:
            self._forget()
        scaled = slope / self.ridge
        row, own = self.slopes @ scaled, float(slope @ scaled)
        size = len(self.heights)
        products = np.empty((size + 1, size + 1))
        products[:size, :size] = self.products
        products[size, :size] = products[:size, size] = row
        products[size, size] = own
        self.products = products
        self.slopes = np.concatenate([self.slopes, slope[np.newaxis]])
        self.heights = np.append(self.heights, height)
        self.mixture = np.append(self.mixture, 0.0 if size else 1.0)

    def improve(self, tol: float) -> float:
        """Find the best mixture, and return the largest bound found so far.

        Parameters
        ----------
        tol : float
            How far the mixture may stay from the best. Any mixture gives a bound that holds.

        Returns
        -------
        float
        """
        self.mixture, _ = best_mixture(self.products, self.heights, self.mixture, tol)
        # not by the products, whose rounding would make a false bound where columns differ in scale
        slope = self.mixture @ self.slopes
        pull = 0.5 * float(slope @ (slope / self.ridge))
        height = float(self.mixture @ self.heights)
        rounding = _ROUNDING * (float(self.mixture @ np.abs(self.heights)) + pull)
        self.bound = max(self.bound, height - pull - rounding)
        return self.bound

    def minimiser(self) -> Floats:
        """Return the coefficients at which the tangents' maximum with the ridge is least."""
        return np.asarray(-(self.mixture @ self.slopes) / self.ridge)

    def _forget(self) -> None:
        """Drop a quarter of the tangents: those that are not in the mixture, oldest first."""
        idle = np.flatnonzero(self.mixture <= 0.0)
        gone = idle[: max(1, self.most // 4)]
        if not len(gone):
            gone = np.array([int(np.argmin(self.mixture))])
        keep = np.setdiff1d(np.arange(len(self.heights)), gone)
        self.slopes, self.heights = self.slopes[keep], self.heights[keep]
        self.products = self.products[np.ix_(keep, keep)]
        self.mixture = self.mixture[keep] / self.mixture[keep].sum()


def best_mixture(
    products: Floats, heights: Floats, start: Floats, tol: float
) -> tuple[Floats, float]:
    """Maximise heights . a - a' products a / 2 over mixtures a, by active sets.

    Parameters
    ----------
    products : ndarray of shape (m, m)
        Positive semidefinite.
    heights : ndarray of shape (m,)
        Linear term.
    start : ndarray of shape (m,)
        A mixture: not negative, with sum 1.
    tol : float
        Stop where no vertex promises more.

    Returns
    -------
    mixture : ndarray of shape (m,)
    value : float
        What it reaches.
    """
    mixture = start.copy()
    used: list[int] = np.flatnonzero(mixture > 0.0).tolist()
    jitter = _JITTER * float(np.max(np.diag(products), initial=1e-300))
    for _ in range(_MOST_STEPS):
        mixture, used = _settled(products, heights, mixture, used, jitter)
        gradient = heights - products @ mixture
        best = int(np.argmax(gradient))
        if gradient[best] - gradient @ mixture <= tol or best in used:
            break
        used.append(best)
    value = float(heights @ mixture - 0.5 * mixture @ products @ mixture)
    return mixture, value


def _settled(
    products: Floats, heights: Floats, mixture: Floats, used: list[int], jitter: float
) -> tuple[Floats, list[int]]:
    """Return the best mixture of those used, after dropping what would turn negative."""
    while True:
        size = len(used)
        unit = np.sqrt(jitter / _JITTER)
        system = np.zeros((size + 1, size + 1))
        system[:size, :size] = products[np.ix_(used, used)]
        system[np.arange(size), np.arange(size)] += jitter
        system[:size, size] = system[size, :size] = unit
        try:
            wanted = np.linalg.solve(system, np.append(heights[used], unit))[:size]
        except np.linalg.LinAlgError:
            wanted = np.linalg.lstsq(system, np.append(heights[used], unit), rcond=None)[0][:size]
        now = mixture[used]
        if size == 1 or (wanted > 0.0).all():
            now = wanted if size > 1 else np.ones(1)
            return _spread(len(mixture), used, now), used
        move = wanted - now
        falls = wanted <= 0.0
        steps = np.where(falls, now / np.where(falls, -np.minimum(move, -1e-300), 1.0), np.inf)
        first = int(np.argmin(steps))
        now = np.maximum(now + min(float(steps[first]), 1.0) * move, 0.0)
        now[first] = 0.0
        mixture = _spread(len(mixture), used, now)
        used = [j for j in used if mixture[j] > 0.0]


def _spread(size: int, used: list[int], values: Floats) -> Floats:
    mixture = np.zeros(size)
    mixture[used] = values / values.sum()
    return mixture
