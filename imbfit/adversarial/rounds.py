"""The rounds of a game: both players answer the other's last move, until the bounds meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Adversary, Board, Predictor
from imbfit.adversarial.interior import solve_interior
from imbfit.adversarial.interior_rest import Rest
from imbfit.adversarial.replies import best_sets
from imbfit.adversarial.requirements import Target
from imbfit.adversarial.restricted import Move, Restricted
from imbfit.adversarial.size_marginals import solve_sizes

__all__ = ["Bounds", "Sizes", "play"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# In a round so many sets, patterns and sizes enter.
_SETS, _PATTERNS, _SIZES = 60, 12, 4
# So many rounds with sets; where labels are free these may go on for long, and sizes take over, by
# a linear program where blocks times sizes in play are few, to the last digits where they are not
# many, and by an interior point method up to the last number.
_ROUNDS, _FEW, _LARGE, _MOST = 5, 2000, 6000, 100_000
# To an interior point method more sizes are no burden.
_JOIN = 12
# A gap for the first interior point, and which share of the gap over all sizes for later ones.
_FIRST, _FINER = 1e-4, 0.05
# A size of which the players make less use than this share of the tolerance is out of play.
_IDLE = 0.3
# Sets times patterns that a linear program may have.
_LARGEST = 3_000_000


def _no_adversary() -> Adversary:
    return Adversary(np.zeros(0, np.intp), np.zeros(0), np.zeros((0, 0)), np.zeros(0))


def _no_predictor() -> Predictor:
    return Predictor(np.zeros(0, np.intp), np.zeros((0, 0)), np.zeros(0))


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


@dataclass
class Bounds:
    """The best bounds so far, and what reaches them."""

    upper: float = np.inf
    lower: float = -np.inf
    q: Floats = field(default_factory=lambda: np.zeros(0))
    adversary: Adversary = field(default_factory=_no_adversary)
    predictor: Predictor = field(default_factory=_no_predictor)
    rounds: int = 0
    memory: Any = None

    def above(self, value: float, adversary: Adversary) -> None:
        """Take note of an upper bound."""
        if value < self.upper:
            self.upper, self.adversary = value, adversary

    def below(self, value: float, predictor: Predictor) -> None:
        """Take note of a lower bound."""
        if value > self.lower:
            self.lower, self.predictor = value, predictor

    def met(self, tol: float) -> bool:
        """Tell whether they are close."""
        gap = self.upper - self.lower
        return bool(np.isfinite(gap)) and gap <= tol * max(1.0, abs(self.upper))


def play(
    board: Board, target: Target, *, tol: float, memory: Any = None, max_rounds: int
) -> Bounds:
    """Play until the bounds meet.

    Parameters
    ----------
    board : Board
        The game, in the order of the scores.
    target : Target
        A mix that meets the requirements.
    tol : float
        Of the gap, relative to max(1, abs(value)).
    memory : object, default=None
        Of an earlier game on a board of this shape.
    max_rounds : int
        Rounds.

    Returns
    -------
    Bounds
    """
    bounds = Bounds()
    table = Restricted(board)
    sizes = None
    if memory is not None:
        kept, sizes = memory
        table.resume(kept)
    _open(table, target, fresh=memory is None)
    free = len(board.actual) > 1
    move = None
    if sizes is None:
        until = min(_ROUNDS, max_rounds) if free else max_rounds
        move = _play_sets(table, move, target, bounds, tol=tol, until=until)
    if free and not bounds.met(tol):
        sizes, ended = _play_sizes(
            table, move, target, bounds, sizes, tol=tol, max_rounds=max_rounds
        )
        if not ended and not bounds.met(tol):
            move = _play_sets(table, move, target, bounds, tol=tol, until=max_rounds)
    if not np.isfinite(bounds.upper - bounds.lower):
        raise RuntimeError(
            f"no linear program of a game of {len(board.psi)} rows has been solved; scores between "
            f"{board.psi.min():.6g} and {board.psi.max():.6g} may be out of any scale"
        )
    # they meet but for rounding
    bounds.lower = min(bounds.lower, bounds.upper)
    bounds.memory = (table.kept(move), sizes)
    bounds.q = _levelled(board, bounds.adversary.marginals.sum(axis=0))
    return bounds


def _open(table: Restricted, target: Target, *, fresh: bool) -> None:
    board = table.board
    n_blocks = len(board.psi)
    # without these the mix may have no choice that meets the requirements
    table.add_sets(*target.sets(board))
    every = np.arange(len(board.taken))
    if fresh:
        # the highest scores, and below requirements all positives first
        for shift in (0.0, 2.0 * float(np.ptp(board.psi)) + 1.0)[: len(board.parts)]:
            score = board.psi.copy()
            score[board.parts[0]] += shift
            gain = np.broadcast_to(score, (len(board.taken), n_blocks))
            sets = best_sets(gain, board.weight, board.taken)
            table.add_sets(every, sets.members(every))
    if len(board.actual) == 1:
        played = [0]
    elif fresh:
        want = [0.0, float(board.weight[board.psi > 0].sum()), float(board.taken[-1])]
        played = sorted({int(np.argmin(np.abs(board.actual - x))) for x in want})
    else:
        played = []
    for at in played:
        for part, rows in enumerate(board.parts):
            table.add_patterns(at, part, _prefixes(n_blocks, rows))


def _prefixes(n_blocks: int, rows: slice, lengths: Positions | None = None) -> Floats:
    if lengths is None:
        lengths = np.arange(1, rows.stop - rows.start + 1)
    found = np.zeros((len(lengths), n_blocks))
    found[:, rows] = np.arange(rows.stop - rows.start) < lengths[:, None]
    return found


def _play_sets(
    table: Restricted,
    move: Move | None,
    target: Target,
    bounds: Bounds,
    *,
    tol: float,
    until: int,
) -> Move | None:
    """Go on with sets, and return the last move."""
    while bounds.rounds < until and not bounds.met(tol) and table.overlap.size <= _LARGEST:
        bounds.rounds += 1
        found = table.solve()
        if found is None:
            break
        move = found
        if not _answer_sets(table, move, target, bounds, tol):
            break
    return move


def _answer_sets(table: Restricted, move: Move, target: Target, bounds: Bounds, tol: float) -> int:
    """Let both players answer, and return how many of their sets are new."""
    board, grown = table.board, 0
    near = 0.3 * tol * max(1.0, abs(move.value))
    used = np.flatnonzero(move.mix > 1e-13)
    mix = move.mix[used] / move.mix[used].sum()
    predictor = target.mended(board, Predictor(table.size[used], table.member[used], mix))
    level, sets, upper = board.best_reply(move.adversary)
    bounds.above(upper, move.adversary)
    wanted = _peaks(level, move.level + near, _SETS)
    if len(wanted):
        grown += table.add_sets(wanted, sets.members(wanted))
    sure, each = board.cost(predictor)
    fixed = len(board.actual) == 1
    worth = sure + move.price * board.actual if fixed else sure
    for slot, at in enumerate(move.adversary.played):
        for part, rows in enumerate(board.parts):
            if rows.stop == rows.start:
                continue
            cost = np.cumsum((each[at, rows] - move.price[slot]) * board.weight[rows])
            if fixed:
                worth = worth + min(0.0, float(cost.min()))
            wanted = _peaks(move.part_price[slot, part] - cost, near, _PATTERNS)
            if len(wanted):
                pattern = _prefixes(len(board.psi), rows, wanted + 1)
                grown += table.add_patterns(int(at), part, pattern)
    if not fixed:
        answer = best_sets(-each, board.weight, board.actual)
        worth = worth - answer.total
        # a game that goes on for long needs many sets
        many = _SIZES if bounds.rounds <= _ROUNDS else max(_SIZES, len(board.psi) // 8)
        for at in _peaks(-worth, near - move.value, many):
            member = answer.members(np.array([at]))
            for part, rows in enumerate(board.parts):
                pattern = np.zeros_like(member)
                pattern[:, rows] = member[:, rows]
                grown += table.add_patterns(int(at), part, pattern)
    bounds.below(float(worth.min()), predictor)
    return grown


def _play_sizes(
    table: Restricted,
    move: Move | None,
    target: Target,
    bounds: Bounds,
    sizes: Sizes | None,
    *,
    tol: float,
    max_rounds: int,
) -> tuple[Sizes, bool]:
    """Go on with all sets of the sizes in play; tell whether sets would hardly get further."""
    board, rest, ended = table.board, None, False
    if sizes is not None:
        taken, actual, rest = sizes.taken, sizes.actual, sizes.rest
    elif move is None:
        return Sizes(np.zeros(0, np.intp), np.zeros(0, np.intp)), ended
    else:
        taken = np.unique(table.size[: len(move.mix)][move.mix > 1e-9])
        actual = np.sort(move.adversary.played[move.adversary.sizes > 1e-9])
    taken = np.union1d(taken, target.size)
    inner, exact = max(0.1 * tol, _FIRST), False
    while bounds.rounds < max_rounds:
        cells = len(board.psi) * (len(taken) + len(actual))
        if cells > _MOST and np.isfinite(bounds.lower):
            break
        bounds.rounds += 1
        by_interior = not exact and cells > _FEW
        found = _solved(board, taken, actual, tol=inner if by_interior else 0.0, rest=rest)
        if found is None:
            break
        adversary, predictor, rest = found
        predictor = target.mended(board, predictor)
        level, _, upper = board.best_reply(adversary)
        bounds.above(upper, adversary)
        sure, each = board.cost(predictor)
        worth = sure - best_sets(-each, board.weight, board.actual).total
        bounds.below(float(worth.min()), predictor)
        if bounds.met(tol):
            break
        near = 0.3 * tol * max(1.0, abs(upper))
        join = _JOIN if by_interior else _SIZES
        more = np.union1d(taken, _peaks(level, level[taken].max() + near, join))
        others = np.union1d(actual, _peaks(-worth, near - worth[actual].min(), join))
        grown = len(more) + len(others) - len(taken) - len(actual)
        if not grown and not by_interior:
            break
        if not grown and inner <= 0.1 * tol:
            # an interior point that is as good as rounding allows
            if cells > _LARGE:
                ended = True
                break
            exact = True
        taken, actual = more, others
        # no finer than what the sizes in play can tell
        gap = _FINER * (upper - float(worth.min()))
        inner = max(0.1 * tol, min(gap, inner if grown else 0.1 * inner))
    # sizes that are not played prove the bound, and spare the next game some rounds
    if 2 * len(board.psi) * (len(taken) + len(actual)) <= _LARGE:
        return Sizes(taken, actual, rest), ended
    # an interior point plays all of them, many next to never
    least = max(1e-9, _IDLE * tol)
    actual = np.sort(bounds.adversary.played[bounds.adversary.sizes > least])
    mix = np.bincount(bounds.predictor.size, bounds.predictor.mix)
    return Sizes(np.flatnonzero(mix > least), actual, rest), ended


def _solved(
    board: Board, taken: Positions, actual: Positions, *, tol: float, rest: Rest | None
) -> tuple[Adversary, Predictor, Rest | None] | None:
    """Solve the game restricted to some sizes, exactly where tol is 0."""
    if tol > 0.0:
        found = solve_interior(board, taken, actual, tol=tol, start=rest)
        if found is not None:
            return found
    exact = solve_sizes(board, taken, actual)
    return None if exact is None else (exact[1], exact[2], rest)


def _peaks(height: Floats, above: float, limit: int) -> Positions:
    """Return positions above a height: peaks first, then the highest."""
    found = np.flatnonzero(height > above)
    if len(found) <= limit:
        return found
    padded = np.concatenate([[-np.inf], height, [-np.inf]])
    peak = (height >= padded[:-2]) & (height >= padded[2:])
    first = np.lexsort((-height[found], ~peak[found]))
    return found[first[:limit]]


def _levelled(board: Board, q: Floats) -> Floats:
    """Give rows of one label and score the same q: the game does not tell them apart."""
    run = np.zeros(len(q), np.intp)
    new = board.psi[1:] != board.psi[:-1]
    for rows in board.parts[1:]:
        if 0 < rows.start < len(q):
            new[rows.start - 1] = True
    if new.all() or not len(q):
        return q
    np.cumsum(new, out=run[1:])
    return np.asarray((np.bincount(run, q * board.weight) / np.bincount(run, board.weight))[run])
