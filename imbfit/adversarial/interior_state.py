"""The game restricted to some sizes, as an interior point method wants it, and its state there.

A size of none or all rows leaves no choice of rows; its set is part of the tables, and only the
others, the *open* sizes, have marginals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Board

__all__ = ["State", "Tables", "centre", "tables_of"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Positions: TypeAlias = NDArray[np.intp]

# Singular values of S that count, relative to the largest: smaller ones cost digits and time, and
# what they leave out is in the bounds, which come from S itself.
_RANK = 1e-11
_HALVINGS = 40
# Gap to begin with, in units of what is at stake.
_STAKE = 1.0


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

    @property
    def n_open(self) -> int:
        """Open sizes of the adversary."""
        return int(np.count_nonzero(self.sign > 0.0))

    @property
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


@dataclass
class State:
    """Where the method stands, or a step of it.

    Attributes
    ----------
    x, low, high : ndarray of shape (n_blocks, n_open)
        Marginals, prices of x >= 0 and of x <= size.
    size, price : ndarray of shape (n_sizes,) and (n_open,)
        Probabilities of the sizes, and what a row is worth.
    edge : ndarray of shape (n_edge,)
        Price of size >= 0 where there are no marginals.
    due, left : ndarray of shape (n_requirements,)
        Prices of the requirements, and what is left of them.
    sums : ndarray of shape (2,)
        Prices of the probabilities' sums.
    """

    x: Floats
    low: Floats
    high: Floats
    size: Floats
    price: Floats
    edge: Floats
    due: Floats
    left: Floats
    sums: Floats

    def pairs(self, game: Tables) -> list[tuple[Floats, Floats]]:
        """Return what must stay positive, in pairs of which one ends at 0."""
        return [
            (self.x, self.low),
            (self.size[game.open_] - self.x, self.high),
            (self.size[game.edge], self.edge),
            (self.due, self.left),
        ]

    def between(self, other: State, share: float) -> State:
        """Return what lies between two steps."""
        parts = zip(vars(self).values(), vars(other).values(), strict=True)
        return State(*(a + share * (b - a) for a, b in parts))

    def moved(self, step: State, share: float) -> State:
        """Return the state after a share of a step."""
        parts = zip(vars(self).values(), vars(step).values(), strict=True)
        return State(*(a + share * b for a, b in parts))


def centre(game: Tables) -> State:
    """Return where to begin: equal probabilities, and marginals as the central path has them.

    For given gains g of the rows, x of a size with probability s is where s times mu over x, less
    mu over s - x, is the gain less its price: x = 2 s / (sqrt(t^2 + 4) - t + 2) with
    t = (g - price) s / mu. The adversary's gains are the scores, the predictor's what it gets then.
    """
    n_sizes, n, n_req = len(game.cost), game.n_adversary, len(game.slack)
    whole = 2.0 * game.total
    mu = _STAKE / (whole * n_sizes)
    size = np.full(n_sizes, 1.0 / n)
    size[n:] = 1.0 / max(n_sizes - n, 1)
    odds, due = size[game.open_], np.ones(n_req)
    x = np.zeros((len(game.psi), len(odds)))
    price = np.zeros(len(odds))
    gain = np.repeat(game.psi[:, None], len(odds), axis=1)
    for some in (slice(0, game.n_open), slice(game.n_open, None)):
        if some.start:
            gain = game.across(x) + game.raised(due)
        price[some], x[:, some] = _priced(
            gain[:, some], game.weight, game.rows[some], odds[some], mu
        )
    price *= -game.sign
    high = mu / (odds - x)
    left = np.full(n_req, whole * mu)
    edge = whole * mu / size[game.edge]
    sums = game.pay @ size + game.cost + due @ game.slack
    sums[game.open_] += game.rows * price - game.sign * (game.weight @ high)
    sums[game.edge] -= game.edge_sign * edge
    return State(
        x, mu / x, high, size, price, edge, due, left, np.array([sums[:n].mean(), sums[n:].mean()])
    )


def _priced(
    gain: Floats, weight: Floats, rows: Floats, odds: Floats, mu: float
) -> tuple[Floats, Floats]:
    """Return the price at which the marginals of each size have its sum, and these."""
    reach = mu / odds * weight.sum() * 4.0
    low, high = gain.min(axis=0) - reach, gain.max(axis=0) + reach
    for _ in range(_HALVINGS):
        price = 0.5 * (low + high)
        t = (gain - price) * (odds / mu)
        x = 2.0 * odds / (np.sqrt(t * t + 4.0) - t + 2.0)
        above = weight @ x > rows * odds
        low, high = np.where(above, price, low), np.where(above, high, price)
    return price, np.clip(x, 1e-12 * odds, (1.0 - 1e-12) * odds)
