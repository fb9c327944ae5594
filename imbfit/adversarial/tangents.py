r"""Tangents of a convex loss, and the bound that they give for the loss with a ridge.

A loss R that is convex lies above each tangent, R(w) >= b_j + g_j . w, so

.. math:: \min_w R(w) + \tfrac12 \sum_i \lambda_i w_i^2 \;\ge\;
          \max_{a \in \Delta} \; b^T a - \tfrac12 \sum_i (G^T a)_i^2 / \lambda_i,

and the minimiser of the tangents' maximum with the ridge is w_i = -(G^T a)_i / lambda_i.

The best mixture is found by active sets on the products G diag(1 / lambda) G'. Where the ridge
hardly pulls along a column they are of any size, and so is their rounding. What they lead to is
therefore checked by the slopes; where it is poor, active sets are solved without any products, by
an orthogonal factorisation of the differences of their tangents.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dgeqp3, dormqr

__all__ = ["Tangents", "best_mixture", "best_mixture_of_rows"]

Floats: TypeAlias = NDArray[np.float64]

_MOST_NUMBERS = 20_000_000
_MOST, _FEWEST = 400, 30
# Added to the diagonal of a system, relative to the largest entry: tangents may be copies.
_JITTER = 1e-13
# The same without products, relative to the tolerance.
_SHARE = 0.01
# By how many tolerances a mixture found by products may fall short, and where they are given up.
_POOR, _HOPELESS = 30.0, 1e4
_MOST_STEPS = 2000
# Columns that LAPACK reflects at once.
_BLOCK = 64
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
        self.lowest = np.zeros(len(ridge))
        self.hopeless = False
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
        start, short = self.mixture, np.inf
        if not self.hopeless:
            self.mixture, _ = best_mixture(self.products, self.heights, start, tol)
            self._take(None)
            reached = self.heights + self.slopes @ self.lowest
            short = float(reached.max() - self.mixture @ reached)
            self.hopeless = not short <= _HOPELESS * tol
        if not short <= _POOR * tol:
            root = np.sqrt(self.ridge)
            self.mixture, lowest = best_mixture_of_rows(
                self.slopes / root, self.heights, start if self.hopeless else self.mixture, tol
            )
            self._take(lowest / root)
        return self.bound

    def _take(self, lowest: Floats | None) -> None:
        """Take the bound of the mixture, and the minimiser where it is known no better."""
        # not by the products, whose rounding would make a false bound where columns differ in scale
        used = self.mixture > 0.0
        mixture, slopes = self.mixture[used], self.slopes[used]
        slope = mixture @ slopes
        self.lowest = -slope / self.ridge if lowest is None else lowest
        pull = 0.5 * float(slope @ (slope / self.ridge))
        height = float(mixture @ self.heights[used])
        # the slopes may cancel in the mixture, but not their rounding
        moved = float((mixture @ np.abs(slopes)) @ np.abs(self.lowest))
        rounding = _ROUNDING * (float(mixture @ np.abs(self.heights[used])) + pull + moved)
        self.bound = max(self.bound, height - pull - rounding)

    def minimiser(self) -> Floats:
        """Return the coefficients at which the tangents' maximum with the ridge is least."""
        return self.lowest

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
    mixture = _climb(_Products(products, heights), start, tol)
    value = float(heights @ mixture - 0.5 * mixture @ products @ mixture)
    return mixture, value


def best_mixture_of_rows(
    rows: Floats, heights: Floats, start: Floats, tol: float
) -> tuple[Floats, Floats]:
    """Do what `best_mixture` does for the products of rows, whatever the scales of their columns.

    Parameters
    ----------
    rows : ndarray of shape (m, n)
        Tangents of a function of u with the ridge |u|^2 / 2.
    heights : ndarray of shape (m,)
        Linear term.
    start : ndarray of shape (m,)
        A mixture: not negative, with sum 1.
    tol : float
        Stop where no vertex promises more.

    Returns
    -------
    mixture : ndarray of shape (m,)
    lowest : ndarray of shape (n,)
        Where max(heights + rows u) + |u|^2 / 2 is least. It is -rows' a, of which only rounding
        may be left where it is summed.
    """
    # reflections keep small coordinates beside large ones, if the large ones come first
    order = np.argsort(-np.abs(rows).max(axis=0), kind="stable")
    table = np.asfortranarray(rows[:, order].T)
    turned = _Turned(table) if len(table) > len(rows) else None
    form = _Rows(table if turned is None else turned.upper(), heights, _SHARE * tol)
    mixture = _climb(form, start, tol)
    lowest = np.zeros((len(order), 1))
    lowest[: len(form.lowest), 0] = form.lowest
    if turned is not None:
        lowest = turned.turn(lowest, "N")
    lowest[order] = lowest.copy()
    return mixture, lowest[:, 0]


class _Products:
    """The quadratic program by products."""

    def __init__(self, products: Floats, heights: Floats) -> None:
        self.products, self.heights = products, heights
        self.largest = float(np.max(np.diag(products), initial=1e-300))

    def solve(self, used: list[int], now: Floats) -> Floats:
        """Return the best weights of those used, with sum 1 but of any sign."""
        size, unit = len(used), np.sqrt(self.largest)
        system = np.zeros((size + 1, size + 1))
        system[:size, :size] = self.products[np.ix_(used, used)]
        system[np.arange(size), np.arange(size)] += _JITTER * self.largest
        system[:size, size] = system[size, :size] = unit
        right = np.append(self.heights[used], unit)
        try:
            return np.asarray(np.linalg.solve(system, right)[:size])
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0][:size])

    def gradient(self, mixture: Floats) -> Floats:
        """Return the gradient at the mixture solved for last."""
        return np.asarray(self.heights - self.products @ mixture)


class _Turned:
    """Columns turned to an upper triangle by Householder's reflections, the longest first."""

    def __init__(self, table: Floats) -> None:
        room = _BLOCK * (table.shape[1] + 1)
        self.factor, pivot, self.tau, _, _ = dgeqp3(table, lwork=room)
        self.pivot = pivot - 1

    def upper(self) -> Floats:
        """Return the columns in their order after the turn, without the zeros below."""
        upper = np.empty((len(self.tau), len(self.pivot)), order="F")
        upper[:, self.pivot] = np.triu(self.factor[: len(self.tau)])
        return upper

    def turn(self, column: Floats, way: str) -> Floats:
        """Turn a column by the same reflections, "T", or back, "N"."""
        reflections = self.factor[:, : len(self.tau)]
        return np.asarray(dormqr("L", way, reflections, self.tau, column, _BLOCK)[0])


class _Rows:
    """The same by differences of tangents, of which one is the origin.

    Where the tangents used are equally high, u is `along` in the span of their differences; across
    it u is minus the origin. Each has a coordinate of its own beside, since tangents may be copies.
    """

    def __init__(self, table: Floats, heights: Floats, jitter: float) -> None:
        self.table, self.heights = table, heights
        self.own = float(np.sqrt(max(jitter, 1e-300)))
        self.lowest = np.zeros(len(table))

    def solve(self, used: list[int], now: Floats) -> Floats:
        wide, size = len(self.table), len(used)
        if size == 1:
            self.lowest = -self.table[:, used[0]]
            return np.ones(1)
        origin = int(np.argmax(now))
        others = np.delete(np.arange(size), origin)
        table = np.zeros((wide + size, size), order="F")
        table[:wide] = self.table[:, used]
        table[wide + np.arange(size), np.arange(size)] = self.own
        base = table[:, [origin]]
        turned = _Turned(table[:, others] - base)
        order, upper = others[turned.pivot], turned.factor[: size - 1]
        down = self.heights[used][origin] - self.heights[used][order]
        along = solve_triangular(upper, down, trans="T", check_finite=False)
        seen = -turned.turn(base, "T")
        weights = np.empty(size)
        weights[order] = solve_triangular(upper, seen[: size - 1, 0] - along, check_finite=False)
        weights[origin] = 1.0 - weights[others].sum()
        seen[: size - 1, 0] = along
        self.lowest = turned.turn(seen, "N")[:wide, 0]
        return weights

    def gradient(self, mixture: Floats) -> Floats:
        return np.asarray(self.heights + self.lowest @ self.table)


def _climb(form: _Products | _Rows, start: Floats, tol: float) -> Floats:
    """Let in the tangent that promises most, until none does."""
    mixture = start.copy()
    used: list[int] = np.flatnonzero(mixture > 0.0).tolist()
    for _ in range(_MOST_STEPS):
        mixture, used = _settled(form, mixture, used)
        gradient = form.gradient(mixture)
        best = int(np.argmax(gradient))
        if gradient[best] - gradient @ mixture <= tol or best in used:
            break
        used.append(best)
    return mixture


def _settled(form: _Products | _Rows, mixture: Floats, used: list[int]) -> tuple[Floats, list[int]]:
    """Return the best mixture of those used, after dropping what would turn negative."""
    while True:
        now = mixture[used]
        wanted = form.solve(used, now)
        if len(used) == 1 or (wanted > 0.0).all():
            now = wanted if len(used) > 1 else np.ones(1)
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
