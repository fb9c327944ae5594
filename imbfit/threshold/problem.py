"""The selection problem: one candidate per segment, under rows that couple the segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Selection:
    """What never changes while one linear problem is solved.

    Attributes
    ----------
    starts : ndarray of int64, shape (n_segments + 1,)
        Segment g owns the candidates ``starts[g]:starts[g + 1]``, at least one.
    value : ndarray of float, shape (n_candidates,)
        Values, rounded to floats.
    exact : callable
        ``exact(indices)`` gives the values as exact integers (int64, or Python ints as objects).
    error : float
        Bound on the rounding error of `value`, one candidate.
    usage : list of ndarray of int64
        One array per row.
    limits : list of int
        Right-hand sides.
    """

    starts: np.ndarray
    value: np.ndarray
    exact: Callable[[np.ndarray], np.ndarray]
    error: float
    usage: list[np.ndarray]
    limits: list[int]

    @property
    def n_segments(self) -> int:
        """Number of segments."""
        return len(self.starts) - 1


@dataclass(frozen=True)
class Answer:
    """A choice of candidates with its proof.

    Attributes
    ----------
    choice : ndarray of int64, shape (n_segments,), or None
        Candidates, None where none was found.
    value : int
        Exact value of the choice.
    bound : float
        No choice is worth more.
    status : {"optimal", "feasible", "infeasible", "unknown"}
        "feasible": a choice without a full proof; "unknown": no choice and no proof.
    """

    choice: np.ndarray | None
    value: int
    bound: float
    status: str


INFEASIBLE = Answer(None, 0, -np.inf, "infeasible")


@dataclass(frozen=True)
class Ask:
    """What a caller of :func:`select` wants."""

    deadline: float
    seed: int
    target: float
    enough: float


def undominated(problem: Selection, *, rows_to_come: bool = False) -> tuple[np.ndarray, Selection]:
    """Drop candidates that a neighbour beats in value and in every row.

    With `rows_to_come`, rows that a later candidate uses no less are still missing, so only an
    earlier one can beat it.

    Neighbours only: in a run of rows that differ in one respect that is all there is to drop, and
    it costs one pass. Dominance with ties broken by position has no cycles, so all can go at once.
    """
    kept = np.arange(len(problem.value))
    starts, value, usage = problem.starts, problem.value, problem.usage
    for _ in range(6):
        same = np.ones(len(value) - 1, bool) if len(value) > 1 else np.ones(0, bool)
        same[starts[1:-1] - 1] = False
        left_wins, right_wins = same.copy(), same.copy()
        # floats that only stand in for exact values decide nothing within their error
        slack = 2 * problem.error
        left_wins &= value[:-1] - slack >= value[1:] if slack else value[:-1] >= value[1:]
        right_wins &= value[1:] - slack >= value[:-1] if slack else value[1:] > value[:-1]
        # of equal value, the right one wins only by using less of some row
        tied = np.zeros_like(same) if slack else same & (value[1:] == value[:-1])
        less = np.zeros_like(same)
        for row in usage:
            fits = row[1:] <= row[:-1]
            left_wins &= row[:-1] <= row[1:]
            right_wins &= fits
            tied &= fits
            less |= row[1:] < row[:-1]
        dropped = np.zeros(len(value), bool)
        dropped[1:] |= left_wins
        if not rows_to_come:
            dropped[:-1] |= right_wins | (tied & less)
        n_dropped = int(dropped.sum())
        if n_dropped == 0:
            break
        alive = ~dropped
        before = np.concatenate([[0], np.cumsum(alive)])
        starts = before[starts]
        kept, value = kept[alive], value[alive]
        usage = [row[alive] for row in usage]
        if n_dropped < 0.02 * len(alive):
            break
    whole = problem.exact
    return kept, Selection(
        starts, value, lambda index: whole(kept[index]), problem.error, usage, problem.limits
    )


def first_best(problem: Selection, score: np.ndarray) -> np.ndarray:
    """First candidate of each segment with the highest score."""
    best = np.maximum.reduceat(score, problem.starts[:-1])
    sizes = np.diff(problem.starts)
    at = np.flatnonzero(score == np.repeat(best, sizes))
    first = np.searchsorted(at, problem.starts[:-1])
    return at[first]


def total(problem: Selection, choice: np.ndarray) -> int:
    """Exact value of a choice."""
    return sum(int(v) for v in problem.exact(choice))


def meets_rows(problem: Selection, choice: np.ndarray) -> bool:
    """Whether a choice keeps all limits."""
    return all(
        int(row[choice].sum()) <= limit
        for row, limit in zip(problem.usage, problem.limits, strict=True)
    )


def shares_used(problem: Selection) -> np.ndarray:
    """Add up what each candidate uses of the rows, as shares of their limits."""
    total_share = np.zeros(len(problem.value))
    for row, limit in zip(problem.usage, problem.limits, strict=True):
        total_share += row / max(1.0, float(abs(limit)))
    return total_share


def best_of(problem: Selection, known: list[np.ndarray]) -> np.ndarray | None:
    """Of some choices, improved one segment at a time, the best that meets all rows."""
    best, best_value = None, -np.inf
    ranked = sorted(
        (choice for choice in known if meets_rows(problem, choice)),
        key=lambda choice: -problem.value[choice].sum(),
    )
    for start in ranked[:3]:
        choice = improve(problem, start)
        value = problem.value[choice].sum()
        if value > best_value:
            best, best_value = choice, value
    return best


def improve(problem: Selection, choice: np.ndarray) -> np.ndarray:
    """Change one segment after the other where that gains most and keeps all rows."""
    choice = choice.copy()
    sizes = np.diff(problem.starts)
    for _ in range(100):
        fits = np.ones(len(problem.value), bool)
        for row, limit in zip(problem.usage, problem.limits, strict=True):
            slack = limit - int(row[choice].sum())
            fits &= row <= np.repeat(row[choice] + slack, sizes)
        gain = np.where(fits, problem.value - np.repeat(problem.value[choice], sizes), -np.inf)
        step = int(np.argmax(gain))
        if not gain[step] > problem.error:
            break
        choice[np.searchsorted(problem.starts, step, side="right") - 1] = step
    return choice


def best_of_near(problem: Selection, best: np.ndarray) -> np.ndarray:
    """Settle near ties of rounded values by their exact ones."""
    sizes = np.diff(problem.starts)
    near = problem.value >= np.repeat(problem.value[best], sizes) - 4 * problem.error
    at = np.flatnonzero(near)
    owner = np.searchsorted(problem.starts, at, side="right") - 1
    exact = problem.exact(at)
    choice = best.copy()
    for g in np.flatnonzero(np.bincount(owner, minlength=problem.n_segments) > 1):
        mine = np.flatnonzero(owner == g)
        choice[g] = at[max(mine, key=lambda i: exact[i])]
    return choice
