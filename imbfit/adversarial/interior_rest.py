"""Going on from another game's interior point: for other scores, sizes or blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.interior_state import State, Tables

__all__ = ["Rest", "resumed"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# A size that joins gets this share of what its player's sizes have on the median.
_JOINS = 0.1
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Rest:
    """A point from which to go on: on the way, so that it is not close to any boundary yet.

    Attributes
    ----------
    game : Tables
        Where it comes from.
    at : State
        The point.
    mean : float
        Mean product of its pairs.
    before : Rest or None
        A point with a larger one.
    """

    game: Tables
    at: State
    mean: float
    before: Rest | None = None

    @property
    def gap(self) -> float:
        """What the point's pairs sum up to."""
        return self.mean * self.game.pairs

    def back(self, gap: float) -> Rest:
        """Return the last point with a larger gap, or the first one."""
        found = self
        while found.before is not None and found.gap <= gap:
            found = found.before
        return found

    def split(self, parent: Positions) -> Rest:
        """Return the same on smaller blocks, each of which comes from one of the old ones."""
        every = np.arange(len(parent))
        return self.regrouped(parent, every, np.ones(len(parent)))

    def regrouped(self, group: Positions, first: Positions, weight: Floats) -> Rest:
        """Return the same on other groups of the rows: means of their old groups.

        Parameters
        ----------
        group : ndarray of int of shape (n_rows,)
            The old group of each row.
        first : ndarray of int
            First rows of the new groups.
        weight : ndarray of shape (n_rows,)
            Rows.
        """
        each = np.add.reduceat(weight, first)[:, None]
        x, low, high = (
            np.add.reduceat(values[group] * weight[:, None], first, axis=0) / each
            for values in (self.at.x, self.at.low, self.at.high)
        )
        before = None if self.before is None else self.before.regrouped(group, first, weight)
        return replace(self, at=replace(self.at, x=x, low=low, high=high), before=before)


def resumed(game: Tables, rest: Rest) -> State | None:
    """Return a state of a game near that of another one; None where they have too little in common.

    Sizes that both have keep what they have. For others, the shares of a size's rows and what a row
    is worth lie between those of its neighbours.
    """
    old, was = rest.game, rest.at
    if len(was.x) != len(game.psi) or len(was.due) != len(game.slack):
        return None
    n, ratio = game.n_adversary, old.unit / game.unit
    size, edge = np.zeros(len(game.cost)), np.zeros(len(game.edge))
    x, low, high = np.zeros((3, len(game.psi), len(game.open_)))
    price = np.zeros(len(game.open_))
    whole = 2.0 * game.total
    for player in (1.0, -1.0):
        new, had = game.sign == player, old.sign == player
        if not new.any() or not had.any():
            return None
        odds = was.size[old.open_[had]]
        wanted, rows = game.rows[new], old.rows[had]
        place = np.interp(wanted, rows, np.arange(len(rows)))
        left = np.minimum(place.astype(int), len(rows) - 1)
        right, beyond = np.minimum(left + 1, len(rows) - 1), place - left
        left, beyond = np.where(beyond > 1.0 - _SAME, [right, 0.0 * beyond], [left, beyond])
        left = left.astype(int)
        same = np.abs(rows[left] - wanted) <= _SAME * game.total
        joins = _JOINS * float(np.median(odds))
        size[game.open_[new]] = given = np.where(same, odds[left], joins)
        shares = was.x[:, had] / odds
        shares = shares[:, left] * (1.0 - beyond) + shares[:, right] * beyond
        # with the sums that other sizes have
        share, mean = game.weight @ shares / game.total, wanted / game.total
        shares = np.where(
            share > mean,
            shares * (mean / share),
            1.0 - (1.0 - shares) * ((1.0 - mean) / (1.0 - share)),
        )
        x[:, new] = marginals = np.where(same, was.x[:, had][:, left], shares * given)
        low[:, new] = np.where(same, was.low[:, had][:, left], rest.mean / marginals)
        high[:, new] = np.where(same, was.high[:, had][:, left], rest.mean / (given - marginals))
        price[new] = was.price[had][left] * (1.0 - beyond) + was.price[had][right] * beyond
        for at in np.flatnonzero(game.edge_sign == player):
            known = (old.edge_sign == player) & (old.full_edge == game.full_edge[at])
            if known.any():
                size[game.edge[at]] = was.size[old.edge[known]][0]
                edge[at] = was.edge[known][0]
            else:
                size[game.edge[at]] = joins
                edge[at] = whole * rest.mean / joins
    sums = np.where(np.arange(len(size)) < n, size[:n].sum(), size[n:].sum())
    size /= sums
    x /= sums[game.open_]
    return State(
        x,
        low * ratio,
        high * ratio,
        size,
        price * ratio,
        edge * ratio,
        was.due * ratio * game.units / old.units,
        was.left * old.units / game.units,
        was.sums * ratio,
    )
