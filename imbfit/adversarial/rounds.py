"""The rounds of a game: both players answer the other's last move, until the bounds meet."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Board, Predictor
from imbfit.adversarial.bounds import Bounds
from imbfit.adversarial.replies import best_sets, peaks
from imbfit.adversarial.requirements import Target
from imbfit.adversarial.restricted import Move, Restricted
from imbfit.adversarial.size_rounds import Sizes, play_sizes, spaced

__all__ = ["play"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# In a round so many sets, patterns and sizes enter.
_SETS, _PATTERNS, _SIZES = 60, 12, 4
# So many rounds with sets; where labels are free these may go on for long, and sizes take over.
# With more rows than that they do so as soon as a round leaves more than such a share of the gap.
_ROUNDS, _ROWS, _LEFT = 5, 40, 0.2
# Sets times patterns that a linear program may have.
_LARGEST = 3_000_000


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
        left = _LEFT if free and len(board.psi) > _ROWS else np.inf
        move = _play_sets(table, move, target, bounds, tol=tol, until=until, left=left)
    if free and not bounds.met(tol):
        if sizes is None:
            sizes = _in_play(table, move)
            if len(board.psi) > _ROWS and len(sizes.actual):
                sizes = spaced(board, bounds, sizes.actual)
        ended = False
        if len(sizes.actual):
            sizes, ended = play_sizes(board, target, bounds, sizes, tol=tol, max_rounds=max_rounds)
        if not ended and not bounds.met(tol):
            move = _play_sets(table, move, target, bounds, tol=tol, until=max_rounds)
    if not np.isfinite(bounds.upper - bounds.lower):
        raise RuntimeError(
            f"no linear program of a game of {len(board.psi)} rows has been solved; scores between "
            f"{board.psi.min():.6g} and {board.psi.max():.6g} may be out of any "
            "scale; put a StandardScaler before, or lower C"
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
    if fresh or not len(table.size):
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
        # sets of rows in another order may have none of a size, and no mean that is it
        played = []
        sizes = board.actual[table.played]
        gain = np.broadcast_to(board.psi, (len(sizes), n_blocks))
        members = best_sets(gain, board.weight, sizes).members(np.arange(len(sizes)))
        for at, member in zip(table.played, members[:, None], strict=True):
            for part, rows in enumerate(board.parts):
                table.add_patterns(at, part, _within(member, rows))
    for at in played:
        for part, rows in enumerate(board.parts):
            table.add_patterns(at, part, _prefixes(n_blocks, rows))


def _prefixes(n_blocks: int, rows: slice, lengths: Positions | None = None) -> Floats:
    if lengths is None:
        lengths = np.arange(1, rows.stop - rows.start + 1)
    found = np.zeros((len(lengths), n_blocks))
    found[:, rows] = np.arange(rows.stop - rows.start) < lengths[:, None]
    return found


def _within(member: Floats, rows: slice) -> Floats:
    """Return what some sets hold of some rows."""
    found = np.zeros_like(member)
    found[:, rows] = member[:, rows]
    return found


def _play_sets(
    table: Restricted,
    move: Move | None,
    target: Target,
    bounds: Bounds,
    *,
    tol: float,
    until: int,
    left: float = np.inf,
) -> Move | None:
    """Go on with sets, while they leave no more than a share of the gap; return the last move."""
    while bounds.rounds < until and not bounds.met(tol) and table.overlap.size <= _LARGEST:
        gap = bounds.upper - bounds.lower
        bounds.rounds += 1
        found = table.solve()
        if found is None:
            break
        move = found
        if not _answer_sets(table, move, target, bounds, tol):
            break
        if not bounds.upper - bounds.lower <= left * gap:
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
    wanted = peaks(level, move.level + near, _SETS)
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
            wanted = peaks(move.part_price[slot, part] - cost, near, _PATTERNS)
            if len(wanted):
                pattern = _prefixes(len(board.psi), rows, wanted + 1)
                grown += table.add_patterns(int(at), part, pattern)
    if not fixed:
        answer = best_sets(-each, board.weight, board.actual)
        worth = worth - answer.total
        # a game that goes on for long needs many sets
        many = _SIZES if bounds.rounds <= _ROUNDS else max(_SIZES, len(board.psi) // 8)
        for at in peaks(-worth, near - move.value, many):
            member = answer.members(np.array([at]))
            for part, rows in enumerate(board.parts):
                grown += table.add_patterns(int(at), part, _within(member, rows))
    bounds.below(float(worth.min()), predictor)
    return grown


def _in_play(table: Restricted, move: Move | None) -> Sizes:
    if move is None:
        return Sizes(np.zeros(0, np.intp), np.zeros(0, np.intp))
    taken = np.unique(table.size[: len(move.mix)][move.mix > 1e-9])
    return Sizes(taken, np.sort(move.adversary.played[move.adversary.sizes > 1e-9]))


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
