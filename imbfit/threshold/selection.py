"""Choose one candidate per segment under rows that couple the segments.

    maximise    sum_g v[j_g]
    subject to  sum_g a_k[j_g] <= b_k,   k = 1..K,      j_g a candidate of segment g

With multipliers m >= 0 every choice obeys (Geoffrion's Lagrangian relaxation)

    sum_g v[j_g]  =  U - sum_g r[j_g] - m . (b - sum_g a[j_g]),
    U = m . b + sum_g max_j (v - m . a)[j],      r = that maximum - (v - m . a)  >= 0,

so U bounds the optimum, and a candidate whose reduced cost r exceeds U minus the value of a choice
at hand is in no better choice. A dynamic program over the few candidates left is exact for one row,
branching with an enumeration by halves for a few; CP-SAT takes over where these grow too large.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from imbfit.threshold.branching import close_by_branching
from imbfit.threshold.closing import Known, better, close, close_many_rows
from imbfit.threshold.multipliers import one_multiplier, several_multipliers
from imbfit.threshold.problem import (
    INFEASIBLE,
    Answer,
    Ask,
    Selection,
    best_of,
    best_of_near,
    first_best,
    meets_rows,
    shares_used,
    total,
    undominated,
)

__all__ = ["INFEASIBLE", "Answer", "Selection", "select", "total", "undominated"]

# Beyond so many rows states of the dynamic program have little in common.
MANY_ROWS = 8


def select(
    problem: Selection,
    *,
    deadline: float = np.inf,
    seed: int = 0,
    hint: np.ndarray | None = None,
    target: float = -np.inf,
    enough: float = np.inf,
) -> Answer:
    """Solve a selection problem to proven optimality, or until the deadline.

    Parameters
    ----------
    problem : Selection
        The problem.
    deadline : float
        In seconds of ``time.monotonic()``.
    seed : int
        Seed of CP-SAT.
    hint : ndarray of int64, default=None
        A choice that meets all rows, if one is known.
    target : float
        Only choices of a greater value are wanted; a proof that there is none is enough, and then
        the answer is "infeasible" with a bound of at most `target`.
    enough : float
        A choice of this value is returned at once, without a proof that it is the best.

    Returns
    -------
    Answer
    """
    for usage, limit in zip(problem.usage, problem.limits, strict=True):
        if int(np.minimum.reduceat(usage, problem.starts[:-1]).sum()) > limit:
            return INFEASIBLE
    kept, small = undominated(problem)
    if hint is not None:
        position = np.searchsorted(kept, hint)
        position = np.minimum(position, len(kept) - 1)
        # a dominated hint is dropped: something at least as good will be found
        hint = position if (kept[position] == hint).all() else None
    answer = _select(small, hint, Ask(deadline, seed, target, enough))
    if answer.choice is None:
        return answer
    return replace(answer, choice=kept[answer.choice])


def _select(problem: Selection, hint: np.ndarray | None, ask: Ask) -> Answer:
    best = first_best(problem, problem.value)
    if meets_rows(problem, best):
        if not problem.error:
            return _optimal(problem, best)
        exactly = best_of_near(problem, best)
        if meets_rows(problem, exactly):
            return _optimal(problem, exactly)
        multipliers, known = np.zeros(len(problem.usage)), [best]
    elif len(problem.usage) > MANY_ROWS:
        cheapest = first_best(problem, -shares_used(problem))
        starts = [choice for choice in (hint, cheapest) if choice is not None]
        first: Known | None = None
        for choice in starts:
            if meets_rows(problem, choice):
                first = better(problem, first, choice)
        return close_many_rows(problem, first, ask)
    elif len(problem.usage) == 1:
        multipliers, known = one_multiplier(problem)
    else:
        found = several_multipliers(problem, ask.deadline)
        if found is None:
            return INFEASIBLE
        multipliers, known = found
    if hint is not None:
        known.append(hint)
    incumbent = best_of(problem, known)
    if incumbent is not None:
        value = total(problem, incumbent)
        if value >= ask.enough:
            return Answer(incumbent, value, np.inf, "feasible")
    closing = close if len(problem.usage) == 1 else close_by_branching
    return closing(problem, multipliers, incumbent, ask)


def _optimal(problem: Selection, choice: np.ndarray) -> Answer:
    value = total(problem, choice)
    return Answer(choice, value, float(value), "optimal")
