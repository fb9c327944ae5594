"""Run a rival on a problem, count its answer on the rows anew, and time it."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.problems import Data, Problem
from benchmarks.rivals import Prepared, Result
from imbfit.confusion import Confusion
from imbfit.expressions import Scope
from imbfit.reading import direction, margin, value


@dataclass(frozen=True)
class Timing:
    """Seconds of several runs.

    Attributes
    ----------
    wall, cpu : list of float
        By the clock, and of this process.
    """

    wall: list[float]
    cpu: list[float]

    @property
    def seconds(self) -> float:
        """Median by the clock."""
        return statistics.median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        """Median of the processor's time, which other processes disturb less."""
        return statistics.median(self.cpu)


def timed(runs: dict[str, Prepared], repeats: int) -> tuple[dict[str, Timing], dict[str, Result]]:
    """Run each function `repeats` times in turn, so that what disturbs one disturbs all.

    Each starts a round as often as the others: the first has cold caches and fresh memory.
    """
    wall: dict[str, list[float]] = {name: [] for name in runs}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    results = {}
    names = list(runs)
    for turn in range(repeats):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start, start_cpu = time.perf_counter(), time.process_time()
            results[name] = runs[name]()
            wall[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - start_cpu)
    return {name: Timing(wall[name], cpu[name]) for name in runs}, results


@dataclass(frozen=True)
class Check:
    """What the rows say about an answer.

    Attributes
    ----------
    value : float
        Of the objective.
    broken : list of str
        Constraints that do not hold, with their slack.
    counts : Confusion
        Of the whole.
    """

    value: float
    broken: list[str]
    counts: Confusion


def check(problem: Problem, data: Data, result: Result) -> Check | None:
    """Apply an answer to the rows and count, apart from any search."""
    if result.flagged is not None:
        flagged = result.flagged
    elif result.thresholds is None:
        return None
    elif data.segment is None:
        flagged = data.score >= result.thresholds[None]
    else:
        lowest = np.array([result.thresholds[g] for g in range(int(data.segment.max()) + 1)])
        flagged = data.score >= lowest[data.segment]
    whole, each = _count(data, flagged)
    reached = float(value(problem.objective, whole, greater_is_better=greater(problem)))
    broken = []
    for rule in problem.rules(data):
        for counts in each if _local(rule) else [whole]:
            bad = _slack(rule, counts, each, data, flagged)
            if bad < -1e-9:
                broken.append(f"{rule.label}: slack {bad:.3g}")
    return Check(reached, broken, whole)


def greater(problem: Problem) -> bool:
    """Direction of the objective."""
    return direction(problem.objective, None)


def _local(rule: Any) -> bool:
    return isinstance(rule, Scope) and rule.kind == "each_segment"


def _count(data: Data, flagged: np.ndarray) -> tuple[Confusion, list[Confusion]]:
    """Counts of the whole and of each segment, by plain sums."""
    segment = np.zeros(len(flagged), int) if data.segment is None else data.segment
    groups = int(segment.max()) + 1
    weight = np.ones(len(flagged)) if data.weight is None else data.weight

    def cells(values: np.ndarray) -> np.ndarray:
        of = [flagged & data.positive, flagged & ~data.positive]
        of += [~flagged & data.positive, ~flagged & ~data.positive]
        return np.array([np.bincount(segment[rows], values[rows], minlength=groups) for rows in of])

    rows = cells(weight)
    money = None if data.amount is None else cells(weight * data.amount)

    def confusion(pick: Callable[[np.ndarray], np.ndarray]) -> Confusion:
        columns = {}
        if money is not None:
            columns["amount"] = Confusion.from_cells(*pick(money).tolist())
        return Confusion.from_cells(*pick(rows).tolist(), columns)

    return (
        confusion(lambda table: table.sum(axis=1)),
        [confusion(lambda table, g=g: table[:, g]) for g in range(groups)],  # type: ignore[misc]
    )


def _slack(
    rule: Any, counts: Confusion, each: list[Confusion], data: Data, flagged: np.ndarray
) -> float:
    if isinstance(rule, Scope) and rule.kind == "max_gap":
        bound = rule.constraint
        rates = [float(value(bound.left, c, greater_is_better=True)) for c in each]
        return float(bound.right.value) - (max(rates) - min(rates))
    if isinstance(rule, Scope) and rule.kind == "capacity":
        assert data.day is not None
        return float(rule.constraint.right.value - np.bincount(data.day[flagged]).max(initial=0))
    constraint = rule.constraint if isinstance(rule, Scope) else rule
    slack, vacuous = margin(constraint, counts)
    # sums of amounts in floats are off in the last digits
    return 0.0 if vacuous or abs(slack) < 1e-6 else float(slack)


def peak_memory() -> float:
    """Peak memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
