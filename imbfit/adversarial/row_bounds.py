"""Bounds of a game over all sizes and all rows, for players who know blocks of rows only.

The adversary's best reply of size l to costs w_i - psi_i is the sum of its l smallest. With a
threshold t it is at least t l + sum_i min(0, w_i - psi_i - t), where w is the same within a block:
a concave function of one number for each block, replaced by chords below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Adversary, Board, Predictor
from imbfit.adversarial.game import Game
from imbfit.adversarial.replies import best_sets

__all__ = ["RowBounds"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

_CHUNK = 20_000
_CHORDS = 65
_BISECTIONS = 45
# Golden sections of a threshold's range: nine digits of it.
_SECTIONS = 43
_CHECKED = 256


@dataclass(frozen=True, eq=False)
class RowBounds:
    """The rows behind the blocks of a board.

    Attributes
    ----------
    game : Game
        Of the rows.
    board : Board
        Of the blocks.
    score, weight : ndarray of shape (n_rows,)
        In the board's order.
    edges : ndarray of int of shape (n_blocks + 1,)
        Where blocks begin.
    positives, total : float
        Of the rows, by weight.
    """

    game: Game
    board: Board
    score: Floats
    weight: Floats
    edges: Positions
    positives: float
    total: float

    @property
    def sizes(self) -> Floats:
        """All sizes."""
        every = np.linspace(0.0, self.total, int(np.ceil(self.total)) + 1)
        return np.asarray(np.union1d(every, [self.positives]))

    def upper(self, adversary: Adversary) -> tuple[float, Floats]:
        """Return a bound over all sizes, and the sizes that come near it."""
        board = self.board
        used = adversary.sizes > 0.0
        odds, shares = adversary.sizes[used], adversary.marginals[used]
        actual = board.actual[adversary.played[used]]
        sizes, level = self.sizes, []
        for first in range(0, len(sizes), _CHUNK):
            some = sizes[first : first + _CHUNK]
            intercept, slope = self.game.payoff.tables(some[:, None], actual[None, :], self.total)
            gain, sure = slope @ shares, intercept @ odds
            for price, requirement in zip(adversary.alpha, self.game.requirements, strict=True):
                if price > 0.0:
                    slack, rise = requirement.tables(some, self.positives, self.total)
                    sure += price * slack
                    gain[:, board.parts[0]] += price * rise[:, None]
            level.append(sure + best_sets(gain, board.weight, some).total)
        found = np.concatenate(level)
        paid = shares.sum(axis=0) @ (board.psi * board.weight)
        return float(found.max() - paid), sizes[_apart(found)]

    def lower(self, predictor: Predictor) -> tuple[float, Floats, Floats]:
        """Return a bound over all sizes of the adversary.

        Returns
        -------
        lower : float
        sizes : ndarray
            Sizes that come near it.
        loss : ndarray of shape (n_blocks,)
            What it is lower for each block's scores not being equal.
        """
        board = self.board
        taken = board.taken[predictor.size]
        fixed = len(board.actual) == 1
        sizes = board.actual if fixed else self.sizes
        worth, curves = [], _Curves(self.score, self.weight, self.edges)
        least, loss = np.inf, np.zeros(len(board.psi))
        for first in range(0, len(sizes), _CHUNK):
            some = sizes[first : first + _CHUNK]
            intercept, slope = self.game.payoff.tables(taken[:, None], some[None, :], self.total)
            each = (predictor.mix[:, None] * slope).T @ predictor.member
            sure = predictor.mix @ intercept
            if fixed:
                least, at = self._least_sorted(each[0], float(some[0]))
                return float(sure[0]) + least, sizes, curves.loss(each[0], at, board.psi)
            cut = _cuts(each - board.psi, board.weight, some)
            rough = sure + curves.least(each, some, cut)
            # a better threshold where it matters
            close = np.argsort(rough)[:_CHECKED]
            best, cut[close] = curves.best(each[close], some[close])
            rough[close] = sure[close] + best
            worth.append(rough)
            lowest = int(np.argmin(rough))
            if rough[lowest] < least:
                least = float(rough[lowest])
                loss = curves.loss(each[lowest], float(cut[lowest]), board.psi)
        found = np.concatenate(worth)
        return float(found.min()), sizes[_apart(-found)], loss

    def _least_sorted(self, each: Floats, size: float) -> tuple[float, float]:
        """Return the least cost of marginals that fall with the scores in a label, and a cut."""
        cost = np.repeat(each, np.diff(self.edges)) - self.score
        starts = [self.edges[part.start] for part in self.board.parts if part.stop > part.start]
        ends = [self.edges[part.stop] for part in self.board.parts if part.stop > part.start]
        parts = [
            (np.cumsum(cost[a:b] * self.weight[a:b]), np.cumsum(self.weight[a:b]))
            for a, b in zip(starts, ends, strict=True)
        ]
        low, high = float(cost.min()), float(cost.max())
        best, at_best = -np.inf, low
        for _ in range(_BISECTIONS):
            cut = 0.5 * (low + high)
            value, held = cut * size, 0.0
            for sums, masses in parts:
                net = sums - cut * masses
                at = int(np.argmin(net))
                if net[at] < 0.0:
                    value += float(net[at])
                    held += float(masses[at])
            if value > best:
                best, at_best = value, cut
            low, high = (cut, high) if held < size else (low, cut)
        return best, at_best


class _Curves:
    """sum_i min(0, x - psi_i) of each block from below.

    From a block's lowest score down it is a line, above its highest 0, between them by chords.
    """

    def __init__(self, score: Floats, weight: Floats, edges: Positions) -> None:
        self.knots, self.values, held = [], [], []
        for first, last in pairwise(edges):
            rising, mass = score[first:last][::-1], weight[first:last][::-1]
            at = np.unique(np.linspace(0, len(rising) - 1, min(len(rising), _CHORDS)).astype(int))
            # rows above the knot count
            above = np.cumsum(mass[::-1])[::-1]
            paid = np.cumsum((mass * rising)[::-1])[::-1]
            self.knots.append(rising[at])
            self.values.append(rising[at] * above[at] - paid[at])
            held.append(float(mass.sum()))
        self.held = np.array(held)
        self.lowest = np.array([knots[0] for knots in self.knots])
        self.highest = np.array([knots[-1] for knots in self.knots])
        self.least_value = np.array([values[0] for values in self.values])

    def each(self, x: Floats) -> Floats:
        """Return each block's, for x of shape (n, n_blocks)."""
        below = x - self.lowest
        found = np.where(below <= 0.0, self.held * below + self.least_value, 0.0)
        inside = (below > 0.0) & (x < self.highest)
        for block in np.flatnonzero(inside.any(axis=0)):
            some = inside[:, block]
            found[some, block] = np.interp(x[some, block], self.knots[block], self.values[block])
        return np.asarray(found)

    def least(self, each: Floats, size: Floats, cut: Floats) -> Floats:
        """Return a bound for thresholds."""
        return np.asarray(cut * size + self.each(each - cut[:, None]).sum(axis=1))

    def loss(self, each: Floats, cut: float, mean: Floats) -> Floats:
        """Return by how much each block's part of the bound is below that of equal scores."""
        x = each - cut
        return np.asarray(np.minimum(0.0, x - mean) * self.held - self.each(x[None])[0])

    def best(self, each: Floats, size: Floats) -> tuple[Floats, Floats]:
        """Return the bound for the best thresholds, by golden sections, and these."""
        low, high = each.min(axis=1) - self.highest.max(), each.max(axis=1) - self.lowest.min()
        share = 0.5 * (np.sqrt(5.0) - 1.0)
        left, right = high - share * (high - low), low + share * (high - low)
        one, other = self.least(each, size, left), self.least(each, size, right)
        for _ in range(_SECTIONS):
            up = one < other
            low, high = np.where(up, left, low), np.where(up, high, right)
            new = np.where(up, low + share * (high - low), high - share * (high - low))
            value = self.least(each, size, new)
            left, right = np.where(up, right, new), np.where(up, new, left)
            one, other = np.where(up, other, value), np.where(up, value, one)
        return np.maximum(one, other), np.where(one > other, left, right)


def _cuts(cost: Floats, weight: Floats, size: Floats) -> Floats:
    """Return the cost at which the smallest ones, of the blocks' means, make up each size."""
    order = np.argsort(cost, axis=1)
    held = np.cumsum(weight[order], axis=1)
    at = np.minimum((held < size[:, None]).sum(axis=1), cost.shape[1] - 1)
    rows = np.arange(len(cost))
    return np.asarray(cost[rows, order[rows, at]])


def _apart(height: Floats, limit: int = 3) -> Positions:
    """Return the highest peaks."""
    padded = np.concatenate([[-np.inf], height, [-np.inf]])
    peak = np.flatnonzero((height >= padded[:-2]) & (height > padded[2:]))
    return peak[np.argsort(-height[peak])[:limit]]
