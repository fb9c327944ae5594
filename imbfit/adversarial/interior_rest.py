"""Going on from another game's interior point: for other scores, sizes or blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.interior_state import State
from imbfit.adversarial.interior_tables import Tables

__all__ = ["Rest", "resumed"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# A size that joins beyond the others gets this share of what the last one has.
_JOINS = 0.1
# A product of a size that joins is at least this share of the mean.
_FLOOR = 0.01
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Rest:
    """A point from which to go on: on the way, so that it is not close to any boundary yet.

    Attributes
    ----------
    at : State
        The point.
    gap : float
        What the products of its pairs sum up to in its game.
    before : Rest or None
        A point with a larger one.
    """

    at: State
    gap: float
    before: Rest | None = None

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
        each = np.add.reduceat(weight, first)
        x, low, high = (
            np.add.reduceat(values[group] * weight[:, None], first, axis=0) / each[:, None]
            for values in (self.at.x, self.at.low, self.at.high)
        )
        old, was = self.at.game, self.at
        psi = np.add.reduceat(old.psi[group] * weight, first) / each
        game = replace(old, psi=psi, weight=each, rise=old.rise[:, group[first]])
        at = State.of(
            game,
            x=x,
            low=low,
            high=high,
            size=was.size,
            price=was.price,
            edge=was.edge,
            due=was.due,
            left=was.left,
            sums=was.sums,
        )
        before = None if self.before is None else self.before.regrouped(group, first, weight)
        return Rest(at, self.gap, before)


def resumed(game: Tables, rest: Rest) -> State | None:
    """Return a state of a game near that of another one; None where they have too little in common.

    For sizes that join, the shares of their rows and all prices lie between those of their
    neighbours, which give them their probability, so that all else hardly notices: what a size pays
    is a smooth function of it.
    """
    old, was = rest.at.game, rest.at
    mean_product = rest.gap / old.pairs
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
        hats, same = _hats(wanted, rows, _SAME * game.total)
        given = _given(odds, hats, same, (wanted < rows[0]) | (wanted > rows[-1]))
        size[game.open_[new]] = given
        shares = (was.x[:, had] / odds) @ hats.T
        # with the sums that their sizes have, where these are beyond the others
        share, mean = game.weight @ shares / game.total, wanted / game.total
        beyond = ~same & (np.abs(share - mean) > _SAME)
        scaled = np.where(
            share > mean,
            shares * (mean / share),
            1.0 - (1.0 - shares) * ((1.0 - mean) / (1.0 - share)),
        )
        shares = np.where(beyond, scaled, shares)
        x[:, new] = marginals = shares * given
        room = given - marginals
        least = np.where(same, 0.0, _FLOOR * mean_product)
        low[:, new] = np.maximum(was.low[:, had] @ hats.T, least / marginals)
        high[:, new] = np.maximum(was.high[:, had] @ hats.T, least / room)
        price[new] = hats @ was.price[had]
        joins = _JOINS * float(np.median(odds))
        for at in np.flatnonzero(game.edge_sign == player):
            known = (old.edge_sign == player) & (old.full_edge == game.full_edge[at])
            if known.any():
                size[game.edge[at]] = was.size[old.edge[known]][0]
                edge[at] = was.edge[known][0]
            else:
                size[game.edge[at]] = joins
                edge[at] = whole * mean_product / joins
    sums = np.where(np.arange(len(size)) < n, size[:n].sum(), size[n:].sum())
    size /= sums
    x /= sums[game.open_]
    return State.of(
        game,
        x=x,
        low=low * ratio,
        high=high * ratio,
        size=size,
        price=price * ratio,
        edge=edge * ratio,
        due=was.due * ratio * game.units / old.units,
        left=was.left * old.units / game.units,
        sums=was.sums * ratio,
    )


def _hats(wanted: Floats, rows: Floats, near: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the weights of the old sizes for each new one, and which of these are old ones."""
    place = np.interp(wanted, rows, np.arange(len(rows)))
    left = np.minimum(place.astype(int), len(rows) - 1)
    right, beyond = np.minimum(left + 1, len(rows) - 1), place - left
    hats, each = np.zeros((len(wanted), len(rows))), np.arange(len(wanted))
    hats[each, left] = 1.0 - beyond
    hats[each, right] += beyond
    nearest = np.argmax(hats, axis=1)
    same = np.abs(rows[nearest] - wanted) <= near
    hats[same] = 0.0
    hats[same, nearest[same]] = 1.0
    return hats, same


def _given(
    odds: Floats, hats: Floats, same: NDArray[np.bool_], outside: NDArray[np.bool_]
) -> Floats:
    """Return the probabilities of the new sizes: what both neighbours of one that joins can give.

    Each of these shares what it has evenly with those that join beside it.
    """
    joining = hats[~same]
    spare = odds / (1.0 + joining.sum(axis=0))
    given = np.where(hats > 0.0, spare, np.inf).min(axis=1)
    given[outside & ~same] *= _JOINS
    left = odds - joining.T @ given[~same]
    given[same] = hats[same] @ left
    return np.asarray(given)
