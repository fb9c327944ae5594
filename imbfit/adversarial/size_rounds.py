"""The rounds of a game in which all sets of the sizes in play are solved for, and sizes join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Adversary, Board, Predictor
from imbfit.adversarial.bounds import Answers, Bounds
from imbfit.adversarial.grouping import Grouping, coarse, grouped
from imbfit.adversarial.interior import solve_interior
from imbfit.adversarial.interior_rest import Rest
from imbfit.adversarial.replies import peaks, summits
from imbfit.adversarial.requirements import Target
from imbfit.adversarial.size_marginals import solve_sizes

__all__ = ["Sizes", "play_sizes", "spaced"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# By a linear program where blocks times sizes in play are few, or not many and the sizes few, and
# up to the third number for the last digits; else by an interior point method up to the last one.
_FEW, _SMALL, _LARGE, _MOST = 400, 2000, 6000, 100_000
_FEW_SIZES = 8
# So many sizes of a player join in a round of linear programs.
_JOIN = 4
# So many sizes of a player to begin with, from those within such a share of the gap.
_SPACED, _WITHIN = 6, 0.5
# A gap for the first interior point, and which share of the gap over all sizes for later ones.
_FIRST, _FINER = 3e-3, 0.05
# A size of which the players make less use than this share of the tolerance is out of play.
_IDLE = 0.3
# Where so many digits are wanted and rows are so many, they begin in so many groups.
_FINE, _ROWS, _GROUPS = 1e-5, 72, 48
# Marginals that differ by less are alike, until groups are what the gap comes from: the gap within
# the sizes in play is so many times what was asked for, and such a share of the gap over all.
_ALIKE, _FACTOR, _SHARE = 1e-3, 5.0, 0.3
_LEAST = 1e-7


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes in play.

    Attributes
    ----------
    taken, actual : ndarray of int
        Positions of the predictor's and of the adversary's.
    rest : Rest or None
        Where an interior point method can go on.
    """

    taken: Positions
    actual: Positions
    rest: Rest | None = None

    def moved(self, parent: Positions, taken: Positions, actual: Positions) -> Sizes:
        """Return the same on smaller blocks and more sizes.

        Parameters
        ----------
        parent : ndarray of int
            The block which each new one comes from.
        taken, actual : ndarray of int
            New positions of the sizes.
        """
        rest = None if self.rest is None else self.rest.split(parent)
        return Sizes(taken[self.taken], actual[self.actual], rest)


class _Interior:
    """An interior point method that goes on from round to round, on groups of rows.

    Attributes
    ----------
    gap : float
        To solve to.
    """

    def __init__(self, board: Board, rest: Rest | None, tol: float) -> None:
        self.tol, self.rest = tol, rest
        self.gap, self.near, self.alike = max(0.1 * tol, _FIRST), np.inf, _ALIKE
        self.whole = grouped(board, np.arange(len(board.psi)))
        # blocks of a training's coarse games are few, and each for a reason
        self.fine = tol < _FINE and len(board.psi) > _ROWS
        self.groups: Grouping = self.whole
        if self.fine and rest is None:
            self.groups = coarse(board, _GROUPS)

    def solved(self, taken: Positions, actual: Positions) -> tuple[Adversary, Predictor] | None:
        found = solve_interior(
            self.groups.board, taken, actual, tol=self.gap, start=self.rest, near=self.near
        )
        if found is None:
            # a program solves it, for the rows
            self.groups, self.rest = self.whole, None
            return None
        self.rest = found[2]
        return self.groups.spread(found[0], found[1])

    def go_on(
        self,
        played: tuple[Adversary, Predictor],
        answers: Answers,
        sizes: tuple[Positions, Positions],
        *,
        grown: bool,
    ) -> bool:
        """Choose gap and groups of the next round; tell whether it can get further."""
        gap = answers.upper - answers.lower
        within = answers.within(*sizes)
        lossy = not self.groups.whole and within > max(_FACTOR * self.gap, _SHARE * gap)
        if lossy:
            self.alike *= 0.1
        if self.fine:
            new = self.whole if self.alike < _LEAST else self.groups.alike(*played, self.alike)
            self.rest = self.groups.carried(new, self.rest)
            self.groups = new
        further = grown or lossy or self.gap > 0.1 * self.tol
        # no finer than what the sizes in play can tell
        finer = self.gap if grown or lossy else 0.1 * self.gap
        self.gap = max(0.1 * self.tol, min(_FINER * gap, finer))
        # sizes that join leave a point of such a gap near enough
        self.near = gap
        return further

    def kept(self) -> Rest | None:
        """Return a point for the rows."""
        return self.groups.carried(self.whole, self.rest)


def spaced(board: Board, bounds: Bounds, used: Positions) -> Sizes:
    """Return some sizes from the whole range of those that may be in play.

    Parameters
    ----------
    board : Board
        The game, in the order of the scores.
    bounds : Bounds
        With a move of both players.
    used : ndarray of int
        Positions of sizes that the adversary is known to use.
    """
    answers = bounds.answered(board, bounds.adversary, bounds.predictor)
    near = _WITHIN * (answers.upper - answers.lower)
    taken = np.flatnonzero(answers.level >= answers.level.max() - near)
    actual = np.flatnonzero(answers.worth <= answers.worth.min() + near)
    return Sizes(_some(taken), np.union1d(_some(actual), used))


def _some(sizes: Positions) -> Positions:
    span = sizes[-1] - sizes[0] + 1
    found = np.linspace(sizes[0], sizes[-1], min(_SPACED, span))
    return np.unique(np.round(found).astype(np.intp))


def play_sizes(
    board: Board, target: Target, bounds: Bounds, sizes: Sizes, *, tol: float, max_rounds: int
) -> tuple[Sizes, bool]:
    """Go on with all sets of the sizes in play.

    Parameters
    ----------
    board : Board
        The game, in the order of the scores.
    target : Target
        A mix that meets the requirements.
    bounds : Bounds
        They get better.
    sizes : Sizes
        To begin with.
    tol : float
        Of the gap, relative to max(1, abs(value)).
    max_rounds : int
        Rounds, with those before.

    Returns
    -------
    Sizes
        For the next game.
    bool
        Whether rounds with single sets would hardly get further.
    """
    taken, actual = np.union1d(sizes.taken, target.size), sizes.actual
    interior, exact, ended = _Interior(board, sizes.rest, tol), False, False
    while bounds.rounds < max_rounds:
        cells = len(board.psi) * (len(taken) + len(actual))
        if cells > _MOST and np.isfinite(bounds.lower):
            break
        bounds.rounds += 1
        few = cells <= _SMALL and len(taken) + len(actual) <= _FEW_SIZES
        by_interior = not exact and cells > _FEW and not few
        played = interior.solved(taken, actual) if by_interior else None
        if played is None:
            solved = solve_sizes(board, taken, actual)
            if solved is None:
                # what the interior point has led to stands
                ended = exact
                break
            played = solved[1:]
        answers = bounds.answered(board, played[0], target.mended(board, played[1]))
        if bounds.met(tol):
            break
        near = 0.3 * tol * max(1.0, abs(answers.upper))
        more, others = _joined(answers, taken, actual, near, few=not by_interior)
        grown = len(more) + len(others) > len(taken) + len(actual)
        if not by_interior:
            if not grown:
                break
        elif not interior.go_on(played, answers, (taken, actual), grown=grown):
            # an interior point that is as good as rounding allows
            if cells > _LARGE:
                ended = True
                break
            exact = True
        taken, actual = more, others
    # sizes that are not played prove the bound, and spare the next game some rounds
    if 2 * len(board.psi) * (len(taken) + len(actual)) > _LARGE:
        # an interior point plays all of them, many next to never
        taken, actual = _used(bounds, max(1e-9, _IDLE * tol))
    return Sizes(taken, actual, interior.kept()), ended


def _joined(
    answers: Answers, taken: Positions, actual: Positions, near: float, *, few: bool
) -> tuple[Positions, Positions]:
    level, worth = answers.level, -answers.worth
    least, other = level[taken].max() + near, worth[actual].max() + near
    if few:
        more, others = peaks(level, least, _JOIN), peaks(worth, other, _JOIN)
    else:
        # where both players mix whole ranges of sizes, some of each range say where the rest stands
        more, others = summits(level, least), summits(worth, other)
    return np.union1d(taken, more), np.union1d(actual, others)


def _used(bounds: Bounds, least: float) -> tuple[Positions, Positions]:
    mix = np.bincount(bounds.predictor.size, bounds.predictor.mix)
    actual = bounds.adversary.played[bounds.adversary.sizes > least]
    return np.flatnonzero(mix > least), np.sort(actual)
