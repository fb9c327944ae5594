"""The game restricted to some sizes, as an interior point method wants it.

A size of none or all rows leaves no choice of rows; its set is part of the tables, and only the
others, the *open* sizes, have marginals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Board

__all__ = ["Tables", "tables_of"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Positions: TypeAlias = NDArray[np.intp]

# Singular values of S that count, relative to the largest: smaller ones cost digits and time, and
# what they leave out is in the bounds, which come from S itself.
_RANK = 1e-11


@dataclass(frozen=True, eq=False)
class Tables:
    """The game in one vector of sizes: the adversary's first, then the predictor's.

    Attributes
    ----------
    psi, weight : ndarray of shape (n_blocks,)
        Score of a row, and rows.
    sign : ndarray of shape (n_open,)
        1 for the adversary, who minimises, -1 for the predictor.
    open_, edge : ndarray of int
        Positions of the sizes with and without marginals.
    edge_sign : ndarray of shape (n_edge,)
        As `sign`.
    full_edge : ndarray of bool of shape (n_edge,)
        Whether it is the size of all rows.
    rows : ndarray of shape (n_open,)
        The open sizes.
    factor : ndarray of shape (n_open, 2 rank)
        S of the open sizes is the product of its lower right and the transpose of its upper left;
        the rest is 0.
    squares : tuple of ndarray of shape (n_open of a player, rank * rank)
        Products of its columns.
    pay : ndarray of shape (n_sizes, n_sizes)
        G and its transpose, off the diagonal.
    cost : ndarray of shape (n_sizes,)
        What a size pays by itself.
    slack : ndarray of shape (n_requirements, n_sizes)
        What a size leaves of each requirement.
    rise : ndarray of shape (n_requirements, n_blocks, n_open)
        And what a row of a block adds.
    n_adversary : int
        Sizes of the adversary.
    unit, units : float and ndarray of shape (n_requirements,)
        What payoff and scores, and each requirement, have been divided by.
    """

    psi: Floats
    weight: Floats
    sign: Floats
    open_: Positions
    edge: Positions
    edge_sign: Floats
    full_edge: Bools
    rows: Floats
    factor: Floats
    squares: tuple[Floats, Floats]
    pay: Floats
    cost: Floats
    slack: Floats
    rise: Floats
    n_adversary: int
    unit: float
    units: Floats

    @property
    def total(self) -> float:
        """Rows."""
        return float(self.weight.sum())

    @property
    def pairs(self) -> float:
        """How many pairs there are, each by what it is worth."""
        return 2.0 * self.total * (len(self.cost) + len(self.slack))

    @cached_property
    def n_open(self) -> int:
        """Open sizes of the adversary."""
        return int(np.count_nonzero(self.sign > 0.0))

    @cached_property
    def count(self) -> Floats:
        """How many rows each pair of a state stands for."""
        each = np.repeat(self.weight, len(self.open_))
        return np.concatenate([each, each, np.ones(len(self.edge) + len(self.slack))])

    @cached_property
    def worth(self) -> Floats:
        """What the product of each pair is on the central path, that of a row's being 1."""
        each = np.ones(2 * len(self.psi) * len(self.open_))
        return np.append(each, np.full(len(self.edge) + len(self.slack), 2.0 * self.total))

    @cached_property
    def moved_by_adversary(self) -> tuple[Bools, Bools]:
        """Of the first members of pairs, and of what is free, what follows from what it plays.

        Of the second members it is what does not: prices of the predictor's choices.
        """
        each = np.tile(self.sign > 0.0, 2 * len(self.psi))
        first = np.concatenate([each, self.edge_sign > 0.0, np.ones(len(self.slack), bool)])
        sizes = np.arange(len(self.cost)) < self.n_adversary
        return first, np.concatenate([sizes, self.sign < 0.0, np.array([False, True])])

    @cached_property
    def places(self) -> tuple[Positions, Positions, Positions, Positions]:
        """Where open sizes, their prices, requirements and probabilities' sums are in equations."""
        n_sizes, n_open, n_req = len(self.cost), len(self.open_), len(self.slack)
        first = n_sizes + n_open
        prices = n_sizes + np.arange(n_open)
        return self.open_, prices, first + np.arange(n_req), first + n_req + np.arange(2)

    @cached_property
    def frame(self) -> Floats:
        """What never changes of the equations in these."""
        e, o, a, s = self.places
        n, n_sizes = self.n_adversary, len(self.cost)
        found = np.zeros((s[1] + 1, s[1] + 1))
        found[:n_sizes, :n_sizes] = self.pay
        found[e, o] = found[o, e] = self.rows
        found[s[0], :n] = found[:n, s[0]] = -1.0
        found[s[1], n:n_sizes] = found[n:n_sizes, s[1]] = -1.0
        found[:n_sizes, a], found[a, :n_sizes] = self.slack.T, self.slack
        return found

    @cached_property
    def rank(self) -> int:
        """Of S."""
        return int(self.factor.shape[1]) // 2

    def across(self, x: Floats) -> Floats:
        """Return S' p and S q for marginals (n_blocks, n_open)."""
        first, rank = self.n_open, self.rank
        upper, lower = self.factor[:first, :rank], self.factor[first:, rank:]
        found = np.empty_like(x)
        found[:, :first] = (x[:, first:] @ lower) @ upper.T
        found[:, first:] = (x[:, :first] @ upper) @ lower.T
        return found

    def raised(self, due: Floats) -> Floats:
        """Return what prices of the requirements add to a row."""
        if not len(due):
            return np.zeros((1, 1))
        return np.asarray(np.einsum("jia,j->ia", self.rise, due))

    def sums(self, x: Floats) -> Floats:
        """Return what marginals add to the requirements."""
        if not len(self.rise):
            return np.zeros(0)
        return np.asarray(np.einsum("jia,ia,i->j", self.rise, x, self.weight))


def tables_of(board: Board, taken: Positions, actual: Positions) -> Tables:
    """Read the tables of some sizes."""
    weight, total = board.weight, float(board.weight.sum())
    kappa, lam = board.taken[taken], board.actual[actual]
    sizes = np.concatenate([lam, kappa])
    full = sizes >= total * (1.0 - 1e-9)
    opened = ~full & (sizes > total * 1e-9)
    n_adversary, n_req = len(lam), len(board.slack)
    slope = board.slope[np.ix_(taken, actual)]
    shared = np.where(full[:n_adversary], kappa[:, None], full[n_adversary:, None] * lam)
    payoff = board.intercept[np.ix_(taken, actual)] + slope * shared
    unit = max(float(np.ptp(payoff)), float(np.abs(slope * np.minimum.outer(kappa, lam)).max()))
    unit = unit or 1.0
    slope, payoff, psi = slope / unit, payoff / unit, board.psi / unit
    pay = np.zeros((len(sizes), len(sizes)))
    pay[:n_adversary, n_adversary:], pay[n_adversary:, :n_adversary] = payoff.T, payoff
    cost = np.zeros(len(sizes))
    cost[:n_adversary] = np.where(full[:n_adversary], -(weight @ psi), 0.0)
    positive = np.zeros(len(weight))
    positive[board.parts[0]] = 1.0
    held = board.slack_slope[:, taken]
    slack = np.zeros((n_req, len(sizes)))
    slack[:, n_adversary:] = board.slack[:, taken] + held * full[n_adversary:] * (weight @ positive)
    most = np.abs(held * np.minimum(kappa, weight @ positive)).max(axis=1, initial=0.0)
    units = np.maximum(np.abs(slack).max(axis=1, initial=0.0), most)
    units[units == 0.0] = 1.0
    slack /= units[:, None]
    rise = np.zeros((n_req, len(weight), len(sizes)))
    rise[:, :, n_adversary:] = positive[:, None] * (held / units[:, None])[:, None, :]
    left, worth, right = np.linalg.svd(slope[np.ix_(opened[n_adversary:], opened[:n_adversary])])
    rank = int(np.count_nonzero(worth > _RANK * worth.max(initial=0.0)))
    half = np.sqrt(worth[:rank])
    upper, lower = right[:rank].T * half, left[:, :rank] * half
    factor = np.zeros((len(upper) + len(lower), 2 * rank))
    factor[: len(upper), :rank], factor[len(upper) :, rank:] = upper, lower
    squares = tuple(
        (part[:, :, None] * part[:, None, :]).reshape(len(part), rank * rank)
        for part in (upper, lower)
    )
    sign = np.where(np.arange(len(sizes)) < n_adversary, 1.0, -1.0)
    open_, edge = np.flatnonzero(opened), np.flatnonzero(~opened)
    return Tables(
        psi,
        weight,
        sign[open_],
        open_,
        edge,
        sign[edge],
        full[edge],
        sizes[open_],
        factor,
        squares,
        pay,
        cost,
        slack,
        rise[:, :, open_],
        n_adversary,
        unit,
        units,
    )
