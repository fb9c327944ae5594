"""Branch and bound for a few rows that couple the segments.

What keeps the multipliers' bound above the optimum is a segment whose two best candidates tie while
they lie far apart: neither fits, and nothing between them is nearly as good. The candidates of
such a segment are cut in two between the tied ones, and each part gets multipliers of its own. A
node is done where all choices that lose little enough against its bound can be looked at.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from imbfit.threshold.closing import Known, Reduction, better, by_solver, reduce_by, wanted
from imbfit.threshold.core import best_choice
from imbfit.threshold.halves import best_of_halves
from imbfit.threshold.multipliers import several_multipliers
from imbfit.threshold.problem import (
    Answer,
    Ask,
    Selection,
    best_of,
    best_of_near,
    first_best,
    meets_rows,
)

# Partial choices in half of the segments. A node with more of them is cut: that pays off sooner.
_STATES = 100_000
_FEW_STATES = 5_000
_WIDER = 1.25
# CP-SAT has the rest of the time.
_SHARE = 0.8


@dataclass(frozen=True)
class _Node:
    """The candidates ``low[g]:high[g]`` of each segment g, and their positions in the problem."""

    low: np.ndarray
    high: np.ndarray
    index: np.ndarray


@dataclass
class _Tree:
    """Nodes still open, the best choice known, and what is asked for."""

    problem: Selection
    ask: Ask
    known: Known | None
    waiting: list[tuple[float, int, np.ndarray, np.ndarray]] = field(default_factory=list)
    number: Iterator[int] = field(default_factory=itertools.count)

    @property
    def wanted(self) -> float:
        """What a choice must be worth to be of use."""
        return wanted(self.known, self.ask.target)

    @property
    def satisfied(self) -> bool:
        """Whether the known choice is as good as asked for."""
        return self.known is not None and self.known[1] >= self.ask.enough

    def offer(self, choice: np.ndarray | None) -> None:
        """Keep a choice if it is better than the known one."""
        self.known = better(self.problem, self.known, choice)

    def push(self, bound: float, low: np.ndarray, high: np.ndarray) -> None:
        """Let a node wait; the one with the highest bound comes first."""
        heapq.heappush(self.waiting, (-bound, next(self.number), low, high))


def close_by_branching(
    problem: Selection, multipliers: np.ndarray, incumbent: np.ndarray | None, ask: Ask
) -> Answer:
    """Branch until all is proven, or let CP-SAT have the rest of the time.

    Parameters
    ----------
    problem : Selection
        With two rows or more.
    multipliers : ndarray of float
        The best ones of the whole problem.
    incumbent : ndarray of int64 or None
        A choice that meets all rows.
    ask : Ask
        Time limit, target and what is enough.

    Returns
    -------
    Answer
    """
    now = time.monotonic()
    deadline = now + _SHARE * (ask.deadline - now)
    tree = _Tree(problem, replace(ask, deadline=deadline), better(problem, None, incumbent))
    reduction = reduce_by(problem, multipliers)
    everything = np.arange(len(problem.value))
    low, high = problem.starts[:-1].copy(), problem.starts[1:].copy()
    _settle(tree, _Node(low, high, everything), reduction, reduction.bound)
    while tree.waiting and not tree.satisfied:
        bound = -tree.waiting[0][0]
        if tree.wanted > bound:
            break
        if time.monotonic() > deadline:
            answer = by_solver(reduction, tree.known, bound, ask)
            return replace(answer, bound=max(float(answer.value), min(answer.bound, bound)))
        _, _, low, high = heapq.heappop(tree.waiting)
        _expand(tree, low, high, bound)
    known = tree.known
    if known is not None and tree.satisfied:
        return Answer(known[0], known[1], np.inf, "feasible")
    if known is None or not known[1] > ask.target:
        return Answer(None, 0, ask.target, "infeasible")
    return Answer(known[0], known[1], float(known[1]), "optimal")


def _expand(tree: _Tree, low: np.ndarray, high: np.ndarray, above: float) -> None:
    """Give a node its own multipliers; `above` bounds it already."""
    index, part = _within(tree.problem, low, high)
    for row, limit in zip(part.usage, part.limits, strict=True):
        if int(np.minimum.reduceat(row, part.starts[:-1]).sum()) > limit:
            return
    best = first_best(part, part.value)
    if meets_rows(part, best):
        exactly = best_of_near(part, best) if part.error else best
        if meets_rows(part, exactly):
            tree.offer(index[exactly])
            return
        multipliers, choices = np.zeros(len(part.usage)), [best]
    else:
        found = several_multipliers(part, tree.ask.deadline)
        if found is None:
            return
        multipliers, choices = found
    good = best_of(part, choices)
    tree.offer(None if good is None else index[good])
    reduction = reduce_by(part, multipliers)
    _settle(tree, _Node(low, high, index), reduction, min(above, reduction.bound))


def _within(problem: Selection, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, Selection]:
    """Keep the candidates ``low[g]:high[g]`` of each segment g."""
    sizes = high - low
    starts = np.concatenate([[0], np.cumsum(sizes)])
    index = np.arange(starts[-1]) + np.repeat(low - starts[:-1], sizes)
    whole = problem.exact
    return index, Selection(
        starts,
        problem.value[index],
        lambda picked: whole(index[picked]),
        problem.error,
        [row[index] for row in problem.usage],
        problem.limits,
    )


def _settle(
    tree: _Tree,
    node: _Node,
    reduction: Reduction,
    bound: float,
) -> None:
    """Close a node, or cut it in two."""
    bound = _search(tree, node.index, reduction, bound)
    if tree.wanted > bound or tree.satisfied:
        return
    cut = _cut(reduction)
    if cut is None:
        # one candidate is left in each segment
        only = reduction.problem.starts[:-1]
        tree.offer(node.index[only] if meets_rows(reduction.problem, only) else None)
        return
    g, position = cut
    left, right = node.high.copy(), node.low.copy()
    left[g] = right[g] = node.index[position]
    tree.push(bound, node.low, left)
    tree.push(bound, right, node.high)


def _search(tree: _Tree, index: np.ndarray, reduction: Reduction, bound: float) -> float:
    """Look at the choices that lose least, then at more while there are not too many.

    Returns
    -------
    float
        What is not looked at is worth no more than this.
    """
    reduced, part = reduction.reduced, reduction.problem
    # at first some segments have a second candidate
    place = min(len(reduced) - 1, part.n_segments + 20)
    room = max(1.0, float(np.partition(reduced, place)[place]))
    everything = _most_lost(reduction)
    states = max(_FEW_STATES, _STATES // len(part.limits) ** 2)
    while tree.wanted <= bound:
        widest = min(everything, reduction.bound - tree.wanted + reduction.blur)
        room = min(room, widest)
        alive, core = reduction.core(room)
        if core.value.dtype == object:
            found = best_choice(core, room=room, states=states, deadline=tree.ask.deadline)
        else:
            found = best_of_halves(
                core, room=room, blur=reduction.blur, states=states, deadline=tree.ask.deadline
            )
        tree.offer(None if found.choice is None else index[alive[found.choice]])
        if not found.complete:
            break
        if room == widest:
            return -np.inf
        bound = min(bound, reduction.bound - room + reduction.blur)
        room *= _WIDER if len(alive) > 2 * part.n_segments else 2
    return bound


def _most_lost(reduction: Reduction) -> float:
    """No choice within the limits loses more than this against the bound."""
    part = reduction.problem
    lost = float(np.maximum.reduceat(reduction.reduced, part.starts[:-1]).sum())
    for multiplier, row, limit in zip(reduction.multipliers, part.usage, part.limits, strict=True):
        least = int(np.minimum.reduceat(row, part.starts[:-1]).sum())
        lost += float(multiplier) * max(0, limit - least)
    return 1.0 + 1.001 * lost + 2 * reduction.blur


def _cut(reduction: Reduction) -> tuple[int, int] | None:
    """Segment and position of a cut: between the tied candidates that lie farthest apart."""
    part = reduction.problem
    sizes = np.diff(part.starts)
    wide = np.flatnonzero(sizes > 1)
    if not len(wide):
        return None
    owner = np.repeat(np.arange(len(sizes)), sizes)
    ranked = np.lexsort((reduction.reduced, owner))
    first, second = ranked[part.starts[wide]], ranked[part.starts[wide] + 1]
    left, right = np.minimum(first, second), np.maximum(first, second)
    apart = np.zeros(len(wide))
    for multiplier, row in zip(reduction.multipliers, part.usage, strict=True):
        apart += multiplier * np.abs(row[left] - row[right])
    lag = reduction.reduced[second] - reduction.reduced[first]
    tied = lag <= 1e-9 * max(1.0, abs(reduction.bound))
    pick = int(np.argmax(np.where(tied, apart, -1.0))) if tied.any() else int(np.argmin(lag))
    return int(wide[pick]), int(left[pick] + right[pick]) // 2 + 1
