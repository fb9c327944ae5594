"""From multipliers to a proof: reduce by the bound, then count through what is left.

A candidate whose reduced cost exceeds the upper bound minus a known value is in no better choice.
The dynamic program closes what is left where it is small, CP-SAT where it is not; where there are
many rows, HiGHS proposes and CP-SAT proves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit.threshold.core import Core, best_choice
from imbfit.threshold.cpsat import solve_core
from imbfit.threshold.problem import INFEASIBLE, Answer, Ask, Selection, improve, meets_rows, total
from imbfit.threshold.steps import make_steps, propose, relax

# HiGHS finds good choices early; the rest of the time is for the proof.
_SHARE = 0.5
_CORE_STATES = 300_000
_FIRST_STATES = 20_000
# A choice with its exact value.
Known = tuple[np.ndarray, int]


@dataclass(frozen=True)
class Reduction:
    """A problem with what its multipliers say.

    Attributes
    ----------
    reduced : ndarray of float
        Reduced costs.
    bound : float
        No choice is worth more.
    blur : float
        What the floats may be off by.
    """

    problem: Selection
    multipliers: np.ndarray
    reduced: np.ndarray
    bound: float
    blur: float

    def core(self, room: float) -> tuple[np.ndarray, Core]:
        """Keep the candidates that lose no more than `room` against the bound."""
        alive = np.flatnonzero(self.reduced <= room)
        return alive, _core(self.problem, alive, self.reduced[alive], self.multipliers)


def _core(
    problem: Selection, alive: np.ndarray, reduced: np.ndarray, multipliers: np.ndarray
) -> Core:
    value: Any = problem.exact(alive)
    return Core(
        starts=np.searchsorted(alive, problem.starts),
        value=value,
        reduced=np.maximum(0.0, reduced),
        usage=[row[alive] for row in problem.usage],
        limits=problem.limits,
        multipliers=multipliers,
    )


def reduce_by(problem: Selection, multipliers: np.ndarray) -> Reduction:
    """Price the candidates by multipliers, with a bound that holds for the rounded floats too."""
    limits = np.array([float(b) for b in problem.limits])
    priced = problem.value.copy()
    size = np.abs(problem.value)
    for m, row in zip(multipliers, problem.usage, strict=True):
        priced -= m * row
        size += m * np.abs(row)
    best = np.maximum.reduceat(priced, problem.starts[:-1])
    # What sums of rounded floats may be off by, so that nothing is dropped by mistake: terms that
    # cancel leave the rounding of the larger ones behind.
    largest = float(np.maximum.reduceat(size, problem.starts[:-1]).sum())
    rounding = (len(limits) + 8) * 2.0**-51
    blur = rounding * (largest + float(np.abs(multipliers * limits).sum()))
    blur += problem.error * 2 * problem.n_segments
    bound = float(multipliers @ limits + best.sum()) + blur
    reduced = np.repeat(best, np.diff(problem.starts)) - priced
    return Reduction(problem, multipliers, reduced, bound, blur)


def better(problem: Selection, known: Known | None, choice: np.ndarray | None) -> Known | None:
    """Return the more valuable of a known choice and another."""
    if choice is None:
        return known
    value = total(problem, choice)
    return (choice, value) if known is None or value > known[1] else known


def wanted(known: Known | None, target: float) -> float:
    """Return what a choice must be worth to be of use: whole numbers are better by one."""
    return max(-np.inf if known is None else float(known[1]) + 1, target)


def close(
    problem: Selection, multipliers: np.ndarray, incumbent: np.ndarray | None, ask: Ask
) -> Answer:
    """Reduce by the bound, then prove by the dynamic program or by CP-SAT."""
    reduction = reduce_by(problem, multipliers)
    known = better(problem, None, incumbent)
    bound = reduction.bound
    for states in (_FIRST_STATES, _CORE_STATES):
        least = wanted(known, ask.target)
        if least > bound:
            break
        room = reduction.bound - least + reduction.blur
        alive, core = reduction.core(room)
        found = best_choice(core, room=room, states=states, deadline=ask.deadline)
        known = better(problem, known, None if found.choice is None else alive[found.choice])
        if known is not None and known[1] >= ask.enough:
            return Answer(known[0], known[1], np.inf, "feasible")
        if found.complete:
            if known is None or not known[1] > ask.target:
                return Answer(None, 0, min(bound, ask.target), "infeasible")
            return Answer(known[0], known[1], float(known[1]), "optimal")
        # what the program dropped is worth at most this much
        floor = -np.inf if known is None else float(known[1])
        dropped = reduction.bound - found.least_dropped
        bound = min(bound, max(dropped, floor, ask.target) + reduction.blur)
        if time.monotonic() > ask.deadline:
            break
    if known is not None and known[1] + 1 > bound and known[1] > ask.target:
        return Answer(known[0], known[1], float(known[1]), "optimal")
    if wanted(known, ask.target) > bound:
        return Answer(None, 0, min(bound, ask.target), "infeasible")
    return by_solver(reduction, known, bound, ask)


def close_many_rows(problem: Selection, known: Known | None, ask: Ask) -> Answer:
    """Relax and propose in steps, then let CP-SAT prove: a state for each row would be too much."""
    everything = np.arange(len(problem.value))
    nothing = np.zeros(len(problem.limits))
    whole = _core(problem, everything, np.zeros(len(everything)), nothing)
    multipliers = relax(make_steps(whole), seconds=ask.deadline - time.monotonic())
    reduction = reduce_by(problem, nothing if multipliers is None else multipliers)
    bound = reduction.bound
    alive, core = reduction.core(bound - wanted(known, ask.target) + reduction.blur)
    left = ask.deadline - time.monotonic()
    complete = bool((np.diff(core.starts) > 0).all())
    if left > 0 and complete and len(alive) > problem.n_segments:
        choice, reach = propose(make_steps(core), core.starts, seconds=_SHARE * left)
        # candidates left out are in nothing better than what is known
        floor = -np.inf if known is None else float(known[1])
        bound = min(bound, max(reach, floor, ask.target))
        if choice is not None and meets_rows(problem, alive[choice]):
            known = better(problem, known, improve(problem, alive[choice]))
    if known is not None and known[1] >= ask.enough:
        return Answer(known[0], known[1], np.inf, "feasible")
    if wanted(known, ask.target) > reduction.bound:
        if known is None or not known[1] > ask.target:
            return Answer(None, 0, min(reduction.bound, ask.target), "infeasible")
        return Answer(known[0], known[1], float(known[1]), "optimal")
    return by_solver(reduction, known, bound, ask)


def by_solver(reduction: Reduction, known: Known | None, bound: float, ask: Ask) -> Answer:
    """Let CP-SAT choose among the candidates that may be in a better choice."""
    # the bound may have come down since, but reduced costs are measured from the first one
    room = reduction.bound - wanted(known, ask.target) + reduction.blur
    alive, core = reduction.core(room)
    start = None
    if known is not None and np.isin(known[0], alive).all():
        start = np.searchsorted(alive, known[0])
    picked, proven_bound, status = solve_core(
        core, hint=start, bound=bound, deadline=ask.deadline, seed=ask.seed
    )
    known = better(reduction.problem, known, None if picked is None else alive[picked])
    if known is None:
        if status == "infeasible":
            return INFEASIBLE
        return Answer(None, 0, min(bound, proven_bound), "unknown")
    choice, worth = known
    if status in ("optimal", "infeasible"):
        # the candidates left out are in no better choice
        return Answer(choice, worth, float(worth), "optimal")
    bound = max(float(worth), min(bound, proven_bound))
    return Answer(choice, worth, bound, "optimal" if bound < worth + 1 else "feasible")
