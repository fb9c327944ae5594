"""Choose one candidate per segment under rows that couple the segments.

    maximise    sum_g v[j_g]
    subject to  sum_g a_k[j_g] <= b_k,   k = 1..K,      j_g a candidate of segment g

With multipliers m >= 0 every choice obeys (Geoffrion's Lagrangian relaxation)

    sum_g v[j_g]  =  U - sum_g r[j_g] - m . (b - sum_g a[j_g]),
    U = m . b + sum_g max_j (v - m . a)[j],      r = that maximum - (v - m . a)  >= 0,

so U bounds the optimum, and a candidate whose reduced cost r exceeds U minus the value of a choice
at hand is in no better choice. A dynamic program over the few candidates left is exact; CP-SAT
takes over where it grows too large.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from imbfit.threshold.core import Core, best_choice
from imbfit.threshold.cpsat import solve_core
from imbfit.threshold.steps import make_steps, propose, relax

# Beyond so many rows states of the dynamic program have little in common.
_MANY_ROWS = 8
# HiGHS finds good choices early; the rest of the time is for the proof.
_SHARE = 0.5
_CORE_STATES = 300_000
_FIRST_STATES = 20_000


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
    answer = _select(small, hint, _Ask(deadline, seed, target, enough))
    if answer.choice is None:
        return answer
    return replace(answer, choice=kept[answer.choice])


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


@dataclass(frozen=True)
class _Ask:
    """What a caller of :func:`select` wants."""

    deadline: float
    seed: int
    target: float
    enough: float


def _select(problem: Selection, hint: np.ndarray | None, ask: _Ask) -> Answer:
    best = _argmax(problem, problem.value)
    if _feasible(problem, best):
        if not problem.error:
            return _optimal(problem, best)
        exactly = _best_of_near(problem, best)
        if _feasible(problem, exactly):
            return _optimal(problem, exactly)
        multipliers, known = np.zeros(len(problem.usage)), [best]
    elif len(problem.usage) > _MANY_ROWS:
        cheapest = _argmax(problem, -_share(problem))
        starts = [choice for choice in (hint, cheapest) if choice is not None]
        first: _Known | None = None
        for choice in starts:
            if _feasible(problem, choice):
                first = _better(problem, first, choice)
        return _with_many_rows(problem, first, ask)
    elif len(problem.usage) == 1:
        multipliers, known = _one_multiplier(problem)
    else:
        found = _multipliers(problem, ask.deadline)
        if found is None:
            return INFEASIBLE
        multipliers, known = found
    if hint is not None:
        known.append(hint)
    incumbent = _best_feasible(problem, known)
    if incumbent is not None:
        value = total(problem, incumbent)
        if value >= ask.enough:
            return Answer(incumbent, value, np.inf, "feasible")
    return _close(problem, multipliers, incumbent, ask)


def _argmax(problem: Selection, score: np.ndarray) -> np.ndarray:
    """First candidate of each segment with the highest score."""
    best = np.maximum.reduceat(score, problem.starts[:-1])
    sizes = np.diff(problem.starts)
    at = np.flatnonzero(score == np.repeat(best, sizes))
    first = np.searchsorted(at, problem.starts[:-1])
    return at[first]


def _optimal(problem: Selection, choice: np.ndarray) -> Answer:
    value = total(problem, choice)
    return Answer(choice, value, float(value), "optimal")


def _best_of_near(problem: Selection, best: np.ndarray) -> np.ndarray:
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


def total(problem: Selection, choice: np.ndarray) -> int:
    """Exact value of a choice."""
    return sum(int(v) for v in problem.exact(choice))


def _feasible(problem: Selection, choice: np.ndarray) -> bool:
    return all(
        int(row[choice].sum()) <= limit
        for row, limit in zip(problem.usage, problem.limits, strict=True)
    )


def _one_multiplier(problem: Selection) -> tuple[np.ndarray, list[np.ndarray]]:
    """Best multiplier of one row, by the secant between a choice on each side of the limit.

    The dual m -> m b + sum max(v - m a) is convex and piecewise linear; where the lines of the two
    choices meet lies the next trial, and a trial that lies on both lines is the minimum.
    """
    usage, limit = problem.usage[0].astype(float), problem.limits[0]
    low = _argmax(problem, problem.value)
    # the cheapest choice, and of those the most valuable
    cheapest = np.repeat(
        np.minimum.reduceat(problem.usage[0], problem.starts[:-1]), np.diff(problem.starts)
    )
    high = _argmax(problem, np.where(problem.usage[0] == cheapest, problem.value, -np.inf))
    multiplier = 0.0
    known = [high]
    for _ in range(200):
        drop = problem.value[low].sum() - problem.value[high].sum()
        # in integers: low breaks the limit that high keeps, so this is at least 1
        saved = int(problem.usage[0][low].sum()) - int(problem.usage[0][high].sum())
        multiplier = max(0.0, float(drop) / saved)
        trial = _argmax(problem, problem.value - multiplier * usage)
        use = int(problem.usage[0][trial].sum())
        height = problem.value[trial].sum() - multiplier * use
        line = problem.value[high].sum() - multiplier * usage[high].sum()
        if height - line <= 1e-12 * (abs(height) + abs(line)) or (
            np.array_equal(trial, low) or np.array_equal(trial, high)
        ):
            if use <= limit:
                known.append(trial)
            break
        if use <= limit:
            high = trial
            known.append(trial)
        else:
            low = trial
    return np.array([multiplier]), [*known, _walk(problem, high, low)]


def _walk(problem: Selection, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Move from a choice within the limit towards one beyond it, while it stays within."""
    choice = high.copy()
    row, limit = problem.usage[0], problem.limits[0]
    differ = np.flatnonzero(high != low)
    gain = problem.value[low[differ]] - problem.value[high[differ]]
    extra = row[low[differ]] - row[high[differ]]
    slack = limit - int(row[choice].sum())
    for g in differ[np.argsort(-gain / np.maximum(extra, 1e-9))]:
        step = int(row[low[g]] - row[high[g]])
        if step <= slack and problem.value[low[g]] > problem.value[high[g]]:
            choice[g] = low[g]
            slack -= step
    return choice


def _multipliers(problem: Selection, deadline: float) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Multipliers of several rows, from the linear relaxation by column generation.

    Only a few corners of each segment's hull enter the program; a trial vector of multipliers
    brings in each segment's best candidate under it, until none is missing. None: no fractional
    choice meets the rows, so no choice does.
    """
    n_segments, n_rows = problem.n_segments, len(problem.limits)
    unit = np.array([max(1.0, float(np.abs(row).max())) for row in problem.usage])
    rows = [row / u for row, u in zip(problem.usage, unit, strict=True)]
    limits = np.array([float(b) for b in problem.limits]) / unit
    size = float(np.ptp(problem.value)) or 1.0
    value = problem.value / size
    start = [_argmax(problem, value)]
    start += [_argmax(problem, -row) for row in rows]
    start += [_argmax(problem, value - weight * sum(rows)) for weight in (0.01, 0.1, 1.0, 10.0)]
    columns = np.unique(np.concatenate(start))
    known: list[np.ndarray] = []
    multipliers = np.zeros(n_rows)
    short = True  # first find a fractional choice that meets the rows, then the best one
    best_bound = np.inf
    best_multipliers = multipliers
    for _ in range(200):
        owner = np.searchsorted(problem.starts, columns, side="right") - 1
        width = len(columns)
        matrix = sparse.csr_matrix(np.vstack([row[columns] for row in rows]))
        lack = sparse.identity(n_rows, format="csr") * -1.0
        ones = sparse.csr_matrix(
            (np.ones(width), (owner, np.arange(width))), shape=(n_segments, width)
        )
        price = np.concatenate(
            [np.zeros(width) if short else -value[columns], np.full(n_rows, 1.0 if short else 0.0)]
        )
        result = linprog(
            price,
            A_ub=sparse.hstack([matrix, lack]),
            b_ub=limits,
            A_eq=sparse.hstack([ones, sparse.csr_matrix((n_segments, n_rows))]),
            b_eq=np.ones(n_segments),
            bounds=[(0, None)] * width + [(0, None if short else 0)] * n_rows,
            method="highs",
        )
        if result.status != 0:
            break
        multipliers = np.maximum(0.0, -result.ineqlin.marginals)
        weight = result.x[:width]
        known.append(_round(problem, columns, owner, weight))
        reduced = -sum(m * row for m, row in zip(multipliers, rows, strict=True))
        if short and result.fun <= 1e-9:
            short = False
            continue
        score = reduced if short else value + reduced
        trial = _argmax(problem, score)
        if not short:
            known.append(trial)
            bound = float(multipliers @ limits + score[trial].sum())
            if bound < best_bound:
                best_bound, best_multipliers = bound, multipliers
            if bound <= -result.fun + 1e-10 * max(1.0, abs(bound)):
                break
        fresh = np.setdiff1d(trial, columns)
        if len(fresh) == 0:
            if short:
                # Farkas: each choice uses more of the weighted rows than there is. A certificate
                # only with room for rounding
                lacking = -float(multipliers @ limits) - float(score[trial].sum())
                sums = float(multipliers @ np.abs(limits)) + n_segments * float(multipliers.sum())
                if lacking > 1e-9 * n_segments + 1e-12 * sums:
                    return None
                short = False
            break
        columns = np.union1d(columns, fresh)
        if time.monotonic() > deadline:
            break
    if not np.isfinite(best_bound):
        best_multipliers = multipliers
    return best_multipliers * size / unit, known


def _round(
    problem: Selection, columns: np.ndarray, owner: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Take, in each segment, the candidate with the largest share of a fractional choice."""
    ranked = np.lexsort((-weight, owner))
    first = np.searchsorted(owner[ranked], np.arange(problem.n_segments))
    return columns[ranked[first]]


def _share(problem: Selection) -> np.ndarray:
    """Add up what each candidate uses of the rows, as shares of their limits."""
    total_share = np.zeros(len(problem.value))
    for row, limit in zip(problem.usage, problem.limits, strict=True):
        total_share += row / max(1.0, float(abs(limit)))
    return total_share


def _best_feasible(problem: Selection, known: list[np.ndarray]) -> np.ndarray | None:
    """Of some choices, improved one segment at a time, the best that meets all rows."""
    best, best_value = None, -np.inf
    ranked = sorted(
        (choice for choice in known if _feasible(problem, choice)),
        key=lambda choice: -problem.value[choice].sum(),
    )
    for start in ranked[:3]:
        choice = _fill(problem, start)
        value = problem.value[choice].sum()
        if value > best_value:
            best, best_value = choice, value
    return best


def _fill(problem: Selection, choice: np.ndarray) -> np.ndarray:
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


@dataclass(frozen=True)
class _Reduction:
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


def _reduce(problem: Selection, multipliers: np.ndarray) -> _Reduction:
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
    return _Reduction(problem, multipliers, reduced, bound, blur)


# A choice with its exact value.
_Known = tuple[np.ndarray, int]


def _better(problem: Selection, known: _Known | None, choice: np.ndarray | None) -> _Known | None:
    if choice is None:
        return known
    value = total(problem, choice)
    return (choice, value) if known is None or value > known[1] else known


def _wanted(known: _Known | None, target: float) -> float:
    """Return what a choice must be worth to be of use: whole numbers are better by one."""
    return max(-np.inf if known is None else float(known[1]) + 1, target)


def _close(
    problem: Selection, multipliers: np.ndarray, incumbent: np.ndarray | None, ask: _Ask
) -> Answer:
    """Reduce by the bound, then prove by the dynamic program or by CP-SAT."""
    reduction = _reduce(problem, multipliers)
    known = _better(problem, None, incumbent)
    bound = reduction.bound
    for states in (_FIRST_STATES, _CORE_STATES):
        wanted = _wanted(known, ask.target)
        if wanted > bound:
            break
        room = reduction.bound - wanted + reduction.blur
        alive, core = reduction.core(room)
        found = best_choice(core, room=room, states=states, deadline=ask.deadline)
        known = _better(problem, known, None if found.choice is None else alive[found.choice])
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
    if _wanted(known, ask.target) > bound:
        return Answer(None, 0, min(bound, ask.target), "infeasible")
    return _by_solver(reduction, known, bound, ask)


def _with_many_rows(problem: Selection, known: _Known | None, ask: _Ask) -> Answer:
    """Relax and propose in steps, then let CP-SAT prove: a state for each row would be too much."""
    everything = np.arange(len(problem.value))
    nothing = np.zeros(len(problem.limits))
    whole = _core(problem, everything, np.zeros(len(everything)), nothing)
    multipliers = relax(make_steps(whole), seconds=ask.deadline - time.monotonic())
    reduction = _reduce(problem, nothing if multipliers is None else multipliers)
    bound = reduction.bound
    alive, core = reduction.core(bound - _wanted(known, ask.target) + reduction.blur)
    left = ask.deadline - time.monotonic()
    complete = bool((np.diff(core.starts) > 0).all())
    if left > 0 and complete and len(alive) > problem.n_segments:
        choice, reach = propose(make_steps(core), core.starts, seconds=_SHARE * left)
        # candidates left out are in nothing better than what is known
        floor = -np.inf if known is None else float(known[1])
        bound = min(bound, max(reach, floor, ask.target))
        if choice is not None and _feasible(problem, alive[choice]):
            known = _better(problem, known, _fill(problem, alive[choice]))
    if known is not None and known[1] >= ask.enough:
        return Answer(known[0], known[1], np.inf, "feasible")
    if _wanted(known, ask.target) > reduction.bound:
        if known is None or not known[1] > ask.target:
            return Answer(None, 0, min(reduction.bound, ask.target), "infeasible")
        return Answer(known[0], known[1], float(known[1]), "optimal")
    return _by_solver(reduction, known, bound, ask)


def _by_solver(reduction: _Reduction, known: _Known | None, bound: float, ask: _Ask) -> Answer:
    """Let CP-SAT choose among the candidates that may be in a better choice."""
    # the bound may have come down since, but reduced costs are measured from the first one
    room = reduction.bound - _wanted(known, ask.target) + reduction.blur
    alive, core = reduction.core(room)
    start = None
    if known is not None and np.isin(known[0], alive).all():
        start = np.searchsorted(alive, known[0])
    picked, proven_bound, status = solve_core(
        core, hint=start, bound=bound, deadline=ask.deadline, seed=ask.seed
    )
    known = _better(reduction.problem, known, None if picked is None else alive[picked])
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
