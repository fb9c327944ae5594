"""Rows that both players treat alike, put together while a game is solved to many digits.

At an optimum most rows are taken for certain, or never, by each size in play; such neighbours can
be a group with one marginal for each size, and only the rows between them need their own. Whether
a grouping loses anything is told by best replies on the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Adversary, Board, Predictor
from imbfit.adversarial.interior_rest import Rest

__all__ = ["Grouping", "coarse", "grouped"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Grouping:
    """A game, and the same with adjacent rows of a label put together.

    Attributes
    ----------
    rows : Board
        The game.
    first : ndarray of int of shape (n_groups,)
        First row of each group.
    group : ndarray of int of shape (n_rows,)
        The group of each row.
    board : Board
        The game of the groups.
    """

    rows: Board
    first: Positions
    group: Positions
    board: Board

    @property
    def whole(self) -> bool:
        """Whether each row is on its own."""
        return len(self.first) == len(self.group)

    def spread(self, adversary: Adversary, predictor: Predictor) -> tuple[Adversary, Predictor]:
        """Return what is played on the groups, for the rows."""
        return (
            replace(adversary, marginals=adversary.marginals[:, self.group]),
            replace(predictor, member=predictor.member[:, self.group]),
        )

    def carried(self, new: Grouping, rest: Rest | None) -> Rest | None:
        """Return a point of this game, for another grouping of the same rows."""
        if rest is None or np.array_equal(self.first, new.first):
            return rest
        return rest.regrouped(self.group, new.first, self.rows.weight)

    def alike(self, adversary: Adversary, predictor: Predictor, near: float) -> Grouping:
        """Put together what is played alike, and take apart all else.

        Parameters
        ----------
        adversary, predictor : Adversary, Predictor
            What is played on the rows, alike on those of a group.
        near : float
            Neighbours are alike if their marginals differ by no more, summed over sizes and
            players.

        Returns
        -------
        Grouping
            A group stays one if it is like both of its neighbours. Where one of them differs, the
            rows of the group may well do, and are on their own.
        """
        member = predictor.mix[:, None] * predictor.member[:, self.first]
        played = np.vstack([adversary.marginals[:, self.first], member])
        differs = np.abs(np.diff(played, axis=1)).sum(axis=0) > near
        for part in self.rows.parts[1:]:
            if 0 < part.start < len(self.group):
                differs[self.group[part.start] - 1] = True
        before, after = np.append(False, differs), np.append(differs, False)
        lone = before | after
        begins = lone[self.group]
        # the next group goes with one that stays together
        begins[self.first[1:]] |= lone[:-1]
        begins[0] = True
        return grouped(self.rows, np.flatnonzero(begins))


def grouped(board: Board, first: Positions) -> Grouping:
    """Put rows together.

    Parameters
    ----------
    board : Board
        The game.
    first : ndarray of int of shape (n_groups,)
        First rows of the groups, in order; the first row of each label is among them.

    Returns
    -------
    Grouping
    """
    begins = np.zeros(len(board.psi), np.intp)
    begins[first] = 1
    weight = np.add.reduceat(board.weight, first)
    psi = np.add.reduceat(board.weight * board.psi, first) / weight
    ends = [np.searchsorted(first, [part.start, part.stop]).tolist() for part in board.parts]
    parts = tuple(slice(start, stop) for start, stop in ends)
    for part in parts:
        # groups of equal scores must not change places by rounding
        psi[part] = np.minimum.accumulate(psi[part])
    return Grouping(
        board, first, np.cumsum(begins) - 1, replace(board, psi=psi, weight=weight, parts=parts)
    )


def coarse(board: Board, groups: int) -> Grouping:
    """Put adjacent rows into about so many groups of the same number of rows."""
    first = []
    for part in board.parts:
        n_rows = part.stop - part.start
        share = min(n_rows, max(1, groups // len(board.parts)))
        first.append(part.start + (np.arange(share) * n_rows) // max(share, 1))
    return grouped(board, np.concatenate(first).astype(np.intp))
