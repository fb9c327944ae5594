"""Large games on blocks of rows with nearly equal scores, with bounds for the rows themselves.

Rows of one label and adjacent scores share their q, and the players choose among few sizes. Then
the game is small, whatever the number of rows. What this costs is told by best replies over all
sizes and all rows
(:mod:`imbfit.adversarial.row_bounds`); where it is too much, the blocks that cost most are split,
and the best replies' sizes join.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.game import Game, prepare
from imbfit.adversarial.rounds import play
from imbfit.adversarial.row_bounds import RowBounds
from imbfit.adversarial.solution import Solution

__all__ = ["solve_binned"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# Of a game on blocks; one that needs more goes on with the next refinement.
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Mesh:
    """Blocks by rank, sizes, and what a solve on them leaves behind.

    Attributes
    ----------
    edges : ndarray of int of shape (n_blocks + 1,)
        Ranks at which blocks begin.
    sizes : ndarray
        What the players choose among.
    memory : object
        Of :func:`~imbfit.adversarial.rounds.play`.
    """

    edges: Positions
    sizes: Floats
    memory: Any = None


def solve_binned(
    psi: Floats,
    game: Game,
    *,
    bins: int = 48,
    tol: float = 1e-3,
    start: Solution | None = None,
    max_refinements: int = 6,
) -> Solution:
    """Solve a game with many rows to within a gap.

    Parameters
    ----------
    psi : ndarray of shape (n_rows,)
        Scores.
    game : Game
        To solve.
    bins : int, default=48
        Blocks to begin with; refinements may double them.
    tol : float, default=1e-3
        The bounds may differ by this times max(1, abs(value)).
    start : Solution, default=None
        Of the same game for other scores.
    max_refinements : int, default=6
        Whatever they have led to, the bounds hold for the rows and all sizes.

    Returns
    -------
    Solution
        Rows of one block have equal q.
    """
    psi = np.asarray(psi, float)
    weight = (
        np.ones(len(psi)) if game.multiplicity is None else np.asarray(game.multiplicity, float)
    )
    total, positives = float(weight.sum()), float(weight[game.labels].sum())
    if game.requirements:
        order = np.lexsort((-psi, ~game.labels))
        split = int(game.labels.sum())
    else:
        order, split = np.argsort(-psi, kind="stable"), 0
    score, weight = psi[order], weight[order]
    mesh = start.memory if start is not None and isinstance(start.memory, Mesh) else None
    if mesh is None:
        mesh = Mesh(_edges(score, split, bins), _sizes(positives, total))
    upper, lower, q = np.inf, -np.inf, np.zeros(0)
    found = (np.zeros(0), np.zeros(0))
    rounds = 0
    for refinement in range(max_refinements + 1):
        edges = mesh.edges
        each = np.add.reduceat(weight, edges[:-1])
        mean = np.add.reduceat(weight * score, edges[:-1]) / each
        # blocks of equal scores must not change places by rounding
        first = int((edges[:-1] < split).sum())
        for part in (slice(0, first), slice(first, None)):
            mean[part] = np.minimum.accumulate(mean[part])
        blocks = Game(
            game.payoff,
            game.requirements,
            game.count,
            edges[:-1] < split,
            each,
        )
        ready = prepare(blocks, mesh.sizes, positives)
        _, board = ready.board(mean)
        bounds = play(board, ready.target, tol=0.1 * tol, memory=mesh.memory, max_rounds=_ROUNDS)
        mesh = Mesh(edges, mesh.sizes, bounds.memory)
        rounds += bounds.rounds
        rows = RowBounds(game, board, score, weight, edges, positives, total)
        high, taken = rows.upper(bounds.adversary)
        low, actual, loss = rows.lower(bounds.predictor)
        if high < upper:
            upper, q = high, np.repeat(bounds.q, np.diff(edges))
        if low > lower:
            lower, found = low, board.mix_of_sizes(bounds.predictor)
        if upper - lower <= tol * max(1.0, abs(upper)) or refinement == max_refinements:
            break
        wanted = np.concatenate([taken, actual])
        free = game.count == "expected"
        finer = _refined(mesh, score, weight, loss=loss, sizes=wanted, bins=bins, free=free)
        same = len(finer.edges) == len(mesh.edges) and len(finer.sizes) == len(mesh.sizes)
        if same and bounds.rounds < _ROUNDS:
            # it was played to its end
            break
        mesh = finer
    answer = np.empty_like(q)
    answer[order] = q
    return Solution(upper, answer, found[0], found[1], min(lower, upper), upper, rounds, mesh)


def _sizes(positives: float, total: float) -> Floats:
    steps = np.concatenate([np.geomspace(1.0, total, 18), positives * np.geomspace(0.25, 4.0, 13)])
    found = np.union1d(np.round(steps), [0.0, positives, total])
    return found[found <= total]


def _edges(score: Floats, split: int, bins: int) -> Positions:
    """Cut each label's ranks: geometric from the top, and at equal steps of the score."""
    cuts = [0, split, len(score)]
    for first, last in ((0, split), (split, len(score))):
        if last == first:
            continue
        n, share = last - first, max(4, round(bins / (2 if split else 1)))
        cuts += list(first + np.geomspace(1, n, share // 3).astype(int))
        steps = np.linspace(score[first], score[last - 1], share - share // 3 + 1)
        cuts += list(first + np.searchsorted(-score[first:last], -steps[1:-1]))
        cuts += list(first + np.linspace(0, n, 5).astype(int))
    return np.unique(np.clip(cuts, 0, len(score))).astype(np.intp)


def _refined(
    mesh: Mesh,
    score: Floats,
    weight: Floats,
    *,
    loss: Floats,
    sizes: Floats,
    bins: int,
    free: bool,
) -> Mesh:
    """Split the blocks that cost most, and let sizes join."""
    edges = mesh.edges
    count = min(max(0, 3 * bins - len(loss)), bins // 3)
    widest = np.argsort(-loss)[:count]
    widest = widest[(loss[widest] > 0.02 * loss.max()) & (np.diff(edges)[widest] > 1)]
    first, last = edges[widest], edges[widest + 1]
    middle = 0.5 * (score[first] + score[last - 1])
    cuts = [
        a + int(np.searchsorted(-score[a:b], -half))
        for a, b, half in zip(first, last, middle, strict=True)
    ]
    at = np.array(cuts, np.intp)
    new = np.union1d(edges, np.clip(at, first + 1, last - 1))
    parent = np.searchsorted(edges, new[:-1], side="right") - 1
    # a set that ends where a block does
    ends = np.array(
        [weight[score >= score[a]].sum() for a in np.concatenate([first, at, last - 1])]
    )
    more = np.union1d(mesh.sizes, np.concatenate([sizes, np.round(ends)]))
    where = np.searchsorted(more, mesh.sizes)
    kept, played = mesh.memory
    others = where if free else np.zeros(1, np.intp)
    if played is not None:
        played = played.moved(parent, where, others)
    return Mesh(new, more, (kept.moved(parent, where, others), played))
