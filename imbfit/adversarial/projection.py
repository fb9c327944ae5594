r"""The nearest marginals: Euclidean projections onto the polytopes of the two players.

The polytope is P >= 0, P_ik <= r_k = sum_j P_jk / k, and sum_k r_k <= 1 (or = 1). Given the price m
of mass, the columns part, and that of size k is ``P_i = clip(a_i - y, 0, x - y)``. With

.. math:: H(z) = \sum_i \max(0, a_i - z) + k z,

whose least value is the sum of the k largest a_i, membership asks for H(x) = H(y) = h with x right
and y left of that minimum, and optimality for h - k r = m, where r = x - y. So r_k is a convex,
piecewise linear, falling function of m, and Newton's method from the left finds h, and then m, in
finitely many steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

__all__ = ["HalfSpaces", "Polytope", "project", "project_and_meet"]

Floats: TypeAlias = NDArray[np.float64]

_STEPS = 200
_EXACT = 1e-14
_EPSILON = float(np.finfo(np.float64).eps)
# Newton's steps for the multipliers, how many lengths of one are tried, and the longest.
_NEWTON, _LENGTHS, _FARTHEST = 200, 30, 1e14
# A slope of no more than this share of the first one is level.
_LEVEL = 1e-3
# A slack of no more than this, relative to what it is made of, is none.
_MET = 1e-13
_DAMPING = 1e-9


@dataclass(frozen=True)
class Polytope:
    """Marginals by size.

    Attributes
    ----------
    sizes : ndarray of shape (n_sizes,)
        Above 0.
    whole : bool
        Whether the probabilities of these sizes sum to 1; to at most 1 otherwise.
    """

    sizes: Floats
    whole: bool = False


@dataclass(frozen=True)
class HalfSpaces:
    """Half-spaces of the predictor's marginals: <P, terms[r]> + constants[r] >= 0.

    Attributes
    ----------
    terms : ndarray of shape (n_requirements, n_rows, n_sizes)
        What the marginals are weighed with.
    constants : ndarray of shape (n_requirements,)
        The slack of predicting nobody.
    """

    terms: Floats
    constants: Floats


class _Columns:
    """The columns of a matrix, sorted, and their sizes' share for a price of mass."""

    def __init__(self, matrix: Floats, sizes: Floats) -> None:
        n = len(matrix)
        self.sizes = sizes
        down = -np.sort(-matrix, axis=0)
        sums = np.zeros((n + 1, matrix.shape[1]))
        np.cumsum(down, axis=0, out=sums[1:])
        self.sums = sums
        position = np.arange(1.0, n + 1)[:, None]
        level = sums[1:] + (sizes - position) * down
        right = position <= sizes
        # knots above x, and knots above y, by the level at which x or y passes them
        self.right = np.where(right, level, -np.inf)
        self.left = np.where(right, -np.inf, level)
        self.columns = np.arange(matrix.shape[1])
        last = sizes.astype(int)
        self.least = sums[last, self.columns]
        # H is flat between the last row that is in and the next: all that are in share alike
        down = np.vstack([down, np.full(len(sizes), -np.inf)])
        self.following = down[last, self.columns]
        self.shared = self.least - sizes * (down[last - 1, self.columns] - self.following)
        self.entered = np.minimum(last + 1, n)
        self.level = self.least.copy()

    def at_level(self, level: Floats) -> tuple[Floats, Floats, Floats]:
        """Return y, r and the slope of r in the level."""
        capped = (self.right > level).sum(axis=0)
        # the next row's own level is the least one, but for rounding
        above = np.maximum((self.left <= level).sum(axis=0), self.entered)
        others = np.maximum(1.0, above - self.sizes)
        x = (level - self.sums[capped, self.columns]) / (self.sizes - capped)
        y = (self.sums[above, self.columns] - level) / others
        return y, x - y, 1.0 / (self.sizes - capped) + 1.0 / others

    def at_price(self, price: float) -> tuple[Floats, Floats, Floats]:
        """Return y, r and the slope of r in the price."""
        shared = price >= self.shared
        size = np.abs(self.least) + np.abs(price) + 1e-300
        for _ in range(_STEPS):
            y, r, slope = self.at_level(self.level)
            rate = np.minimum(1.0 - self.sizes * slope, -1e-300)
            level = np.maximum(
                self.least, self.level - (self.level - self.sizes * r - price) / rate
            )
            level[shared] = self.least[shared]
            moved = np.abs(level - self.level)
            self.level = level
            if (moved <= _EXACT * size).all():
                break
        y, r, slope = self.at_level(self.level)
        change = slope / np.minimum(1.0 - self.sizes * slope, -1e-300)
        y = np.where(shared, self.following, y)
        r = np.where(shared, np.maximum(0.0, self.least - price) / self.sizes, r)
        change = np.where(shared, -1.0 / self.sizes, change)
        return y, r, np.where(price > self.least, 0.0, change)


def project(matrix: Floats, polytope: Polytope, price: float = 0.0) -> tuple[Floats, float]:
    """Return the nearest marginals.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_sizes)
        What to project.
    polytope : Polytope
        Where to.
    price : float, default=0.0
        A guess of the price of mass, from the last call.

    Returns
    -------
    P : ndarray of shape (n_rows, n_sizes)
    price : float
    """
    if not matrix.shape[1]:
        return matrix, price
    nearest = _Nearest(matrix, polytope, price)
    return nearest.P, nearest.price


class _Nearest:
    """A projection, and how it moves with the matrix."""

    def __init__(self, matrix: Floats, polytope: Polytope, price: float) -> None:
        columns = _Columns(matrix, polytope.sizes)
        least = -np.inf if polytope.whole else 0.0
        price = max(least, price)
        y, r, change = columns.at_price(price)
        scale = np.abs(columns.least).max(initial=1e-300)
        for _ in range(_STEPS):
            slope = change.sum()
            if slope < 0.0:
                following = max(least, price - (r.sum() - 1.0) / slope)
            elif price <= least:
                break
            else:
                # right of all shares: where the first of them begins
                following = max(least, float(columns.least.max()))
            if abs(following - price) <= _EXACT * scale:
                break
            price = following
            y, r, change = columns.at_price(price)
        self.sizes, self.price, self.y, self.r, self.change = polytope.sizes, price, y, r, change
        self.P = np.clip(matrix - y, 0.0, r)
        self.matrix, self.bound = matrix, polytope.whole or price > 0.0
        self.shared = price >= columns.shared

    def moved(self, direction: Floats) -> Floats:
        """Return the derivative of the marginals where the matrix moves so."""
        k, present = self.sizes, self.r > 0.0
        above = self.matrix > self.y
        capped = (self.matrix - self.y >= self.r) & above
        # columns with a flat level have all their rows capped
        flat = self.shared | (capped.sum(axis=0) >= k) | (above.sum(axis=0) <= k)
        inner = np.maximum(1.0, k - capped.sum(axis=0))
        outer = np.maximum(1.0, above.sum(axis=0) - k)
        held = (direction * capped).sum(axis=0)
        entered = (direction * above).sum(axis=0)
        both = held / inner + entered / outer
        rate = np.where(flat, -1.0, 1.0 - k * (1.0 / inner + 1.0 / outer))
        change = np.where(flat, -1.0 / k, (1.0 / inner + 1.0 / outer) / rate) * present
        share = np.where(flat, held / k, -(change * k + 1.0) * both) * present
        price = -share.sum() / change.sum() if self.bound and change.any() else 0.0
        r = change * price + share
        y = (entered - (price - k * both) / rate) / outer
        free = np.where(flat | ~present, 0.0, above & ~capped)
        found: Floats = np.where(capped, r, free * (direction - y)) * present
        return found


def project_and_meet(
    matrix: Floats,
    polytope: Polytope,
    half_spaces: HalfSpaces,
    multipliers: Floats,
    price: float = 0.0,
) -> tuple[Floats, Floats, float]:
    """Return the nearest marginals that lie in half-spaces.

    They are the nearest to ``matrix + sum of multiplier * terms``, where the multipliers are at
    least 0, and 0 for the half-spaces in whose inside they lie: the least of a convex, piecewise
    quadratic function of the multipliers, the height, whose slope is the slack. Newton's method
    finds it: each step goes towards the least of the quadratic at hand over multipliers of at
    least 0.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_sizes)
        What to project.
    polytope : Polytope
        Where to.
    half_spaces : HalfSpaces
        Some of the polytope must lie in all of them.
    multipliers : ndarray of shape (n_half_spaces,)
        A guess, from the last call.
    price : float, default=0.0
        A guess of the price of mass, from the last call.

    Returns
    -------
    P : ndarray of shape (n_rows, n_sizes)
    multipliers : ndarray of shape (n_half_spaces,)
    price : float
    """
    # of unit length, so that no step or tolerance depends on the units of a half-space
    norms = np.sqrt(np.einsum("rij,rij->r", half_spaces.terms, half_spaces.terms))
    norms[norms == 0.0] = 1.0
    terms, constants = half_spaces.terms / norms[:, None, None], half_spaces.constants / norms
    multipliers = multipliers * norms
    largest = np.abs(terms).max(axis=(1, 2))
    rounding = _MET * (np.abs(constants) + largest * len(matrix))

    def at(multipliers: Floats, price: float) -> tuple[_Nearest, Floats]:
        nearest = _Nearest(matrix + np.tensordot(multipliers, terms, 1), polytope, price)
        return nearest, np.tensordot(terms, nearest.P, 2) + constants

    nearest, slack = at(multipliers, price)
    for _ in range(_NEWTON):
        # large multipliers lose digits of the slack, the more so where they cancel each other
        lost = _EPSILON * len(matrix) * largest * (np.abs(matrix).max() + multipliers @ largest)
        if (np.abs(np.minimum(slack, multipliers)) <= rounding + lost).all():
            break
        moves = np.array([nearest.moved(term) for term in terms])
        bend = np.tensordot(moves, terms, ((1, 2), (1, 2)))
        bend = 0.5 * (bend + bend.T) + _DAMPING * np.eye(len(terms))
        step = _least(bend, slack - bend @ multipliers) - multipliers
        if slack @ step >= 0.0:
            break
        multipliers, nearest, slack = _searched(at, multipliers, step, nearest, slack)
    return nearest.P, multipliers / norms, nearest.price


def _least(bend: Floats, slope: Floats) -> Floats:
    """Return the x >= 0 with the least x bend x / 2 + slope x."""
    found: Floats
    if len(slope) == 1:
        found = np.maximum(0.0, -slope / bend[0])
    else:
        root = np.linalg.cholesky(bend)
        found = optimize.nnls(root.T, np.linalg.solve(root, -slope))[0]
    return found


def _searched(
    at: Callable[[Floats, float], tuple[_Nearest, Floats]],
    multipliers: Floats,
    step: Floats,
    nearest: _Nearest,
    slack: Floats,
) -> tuple[Floats, _Nearest, Floats]:
    """Return the multipliers nearly lowest along a step, or beyond it.

    In a corner the height has no bend, and so the step no length: it begins at the size of the
    matrix. The slope tells where to go even near the end, where rounding hides the height's fall.
    """
    start = float(slack @ step)
    back = step < 0.0
    most = float(np.min(-multipliers[back] / step[back], initial=_FARTHEST))
    low, high, below, above = 0.0, np.inf, start, 0.0
    reach = 1.0 + np.abs(nearest.matrix).max() + multipliers.max()
    share = min(1.0, float(reach / np.abs(step).max()))
    for trials in range(_LENGTHS):
        trial = np.maximum(0.0, multipliers + share * step)
        nearest, slack = at(trial, nearest.price)
        slope = float(slack @ step)
        if slope > _LEVEL * -start:
            high, above = share, slope
        elif slope >= 0.5 * start or share >= most:
            break
        else:
            low, below = share, slope
        if high == np.inf:
            share = min(most, 10.0 * share)
        elif trials % 2:
            share = float(np.sqrt(max(low, 1e-3 * high) * high))
        else:
            share = low - below * (high - low) / (above - below)
    return trial, nearest, slack
