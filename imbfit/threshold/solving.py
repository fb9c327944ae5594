"""Maximise a linear form over a region: the one door to the selection problem.

A region may hold bounds on gaps between segments, which are branched on, and capacities per group,
whose rows are made for the candidates that can matter.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from imbfit.threshold.region import Region, Row
from imbfit.threshold.rows import Affine, sum_of
from imbfit.threshold.selection import Answer, Selection, select, undominated
from imbfit.threshold.table import CandidateTables

# Entries of the rows of groups, at 8 bytes each.
_LARGEST_TABLE = 60_000_000
_LONGEST = 1010  # bits of a number whose sums are still floats
_Windows = tuple[tuple[float, float], ...]
#: The number of flagged rows.
FLAGGED_ROWS = Affine(0, {("pp", None): 1})


@dataclass(frozen=True)
class Outcome:
    """A choice of candidates, its value (greater is better) and what no choice exceeds.

    Attributes
    ----------
    choice : ndarray of int64, shape (n_segments,), or None
        Positions in the tables.
    value, bound : float
        In the objective's units, negated where lower is better.
    status : {"optimal", "feasible", "infeasible", "unknown"}
    """

    choice: np.ndarray | None
    value: float
    bound: float
    status: str


@dataclass(frozen=True)
class Search:
    """What all solves of one search share."""

    tables: CandidateTables
    deadline: float = np.inf
    seed: int = 0
    verbose: int = 0

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self.deadline

    def part(self) -> Search:
        """Return the same search with a quarter of the time that is left."""
        now = time.monotonic()
        if np.isinf(self.deadline) or now > self.deadline:
            return self
        return replace(self, deadline=now + (self.deadline - now) / 4)

    def say(self, message: str, *, level: int = 1) -> None:
        """Print progress, details from level 2."""
        if self.verbose >= level:
            print(f"[thresholds] {message}", flush=True)  # noqa: T201


def feasible(search: Search, region: Region) -> Outcome:
    """Find any choice in a region, or prove that there is none.

    One row of the region becomes the objective, to be brought under its limit while the others
    hold: without an objective nothing would tell good candidates from bad ones.

    Parameters
    ----------
    search : Search
        Tables, time limit, seed.
    region : Region
        The constraints.

    Returns
    -------
    Outcome
        Of value 0.
    """
    if not region.rows:
        answer = solve(FLAGGED_ROWS, search, region, enough=-np.inf)
        found = answer.choice is not None
    else:
        *others, goal = region.rows
        limit = -goal.limit
        part = replace(region, rows=others)
        answer = solve(-goal.usage, search, part, target=limit - 1, enough=limit)
        found = answer.choice is not None and answer.value >= limit
    if found:
        return Outcome(answer.choice, 0.0, 0.0, "optimal")
    proven = answer.status in ("optimal", "infeasible")
    return Outcome(None, -np.inf, -np.inf, "infeasible" if proven else "unknown")


def at(form: Affine, tables: CandidateTables, choice: np.ndarray) -> int:
    """Exact value of an affine form under a choice."""
    total = form.constant
    for symbol, c in form.coefficients.items():
        total += c * sum(int(v) for v in sum_of(tables, symbol)[choice])
    return total


def solve(
    form: Affine | np.ndarray,
    search: Search,
    region: Region,
    *,
    extra: list[Row] | None = None,
    hint: np.ndarray | None = None,
    target: float = -np.inf,
    enough: float = np.inf,
) -> Answer:
    """Maximise an affine form over a region; values include its constant.

    Bounds on gaps between segments are branched on. A choice whose values run from a to b, further
    than the bound e, is excluded from both parts: lowest value at most m, so that all are at most
    m + e < b; and lowest value above m, so that a is out.

    Parameters
    ----------
    form : Affine or ndarray of int64, shape (n_candidates,)
        The objective in integers.
    search : Search
        Tables, time limit, seed.
    region : Region
        The constraints. Rows made for its groups are added to it.
    extra : list of Row, default=None
        More rows, for this solve only.
    hint : ndarray of int64, default=None
        A choice inside the region.
    target, enough : float
        Only values above `target` are wanted, and one of `enough` needs no proof; see
        :func:`imbfit.threshold.selection.select`.

    Returns
    -------
    Answer
        With positions in the tables.
    """
    extra = extra or []
    if not region.gaps:
        return _solve(form, search, region, extra=extra, hint=hint, target=target, enough=enough)
    best: Answer | None = None
    unproven = -np.inf
    counter = itertools.count()
    everything = ((-np.inf, np.inf),) * len(region.gaps)
    queue: list[tuple[float, int, _Windows]] = [(-np.inf, next(counter), everything)]
    while queue:
        upper = -queue[0][0]
        floor = target if best is None else max(target, best.value)
        if upper <= floor or search.late:
            break
        _, _, windows = heapq.heappop(queue)
        part = region.within(_in_windows(region, windows))
        search.say(f"gap windows: {len(queue)} more open, above {floor:.9g} wanted", level=2)
        answer = _solve(form, search, part, extra=extra, hint=hint, target=floor, enough=enough)
        hint = None
        if answer.choice is None:
            if answer.status == "unknown":
                unproven = max(unproven, min(upper, answer.bound))
            continue
        widest = _widest_gap(region, answer.choice)
        if widest is None:
            if best is None or answer.value > best.value:
                best = answer
            if answer.value >= enough:
                return answer
            if answer.status != "optimal":
                unproven = max(unproven, min(upper, answer.bound))
            continue
        bound = min(upper, answer.bound)
        for parts in _split(region, windows, widest):
            heapq.heappush(queue, (-bound, next(counter), parts))
    if queue and search.late:
        unproven = max(unproven, -queue[0][0])
    return _verdict(best, unproven, target)


def _verdict(best: Answer | None, unproven: float, target: float) -> Answer:
    """Sum up a search that left parts unproven, worth at most so much."""
    if best is None:
        if unproven > target:
            return Answer(None, 0, unproven, "unknown")
        return Answer(None, 0, target, "infeasible")
    status = "optimal" if unproven <= best.value else "feasible"
    return replace(best, bound=max(float(best.value), unproven), status=status)


def _split(
    region: Region, windows: _Windows, widest: tuple[int, float, float]
) -> Iterator[_Windows]:
    """Divide the window of the widest gap, so that no part holds the choice it comes from."""
    position, low, high = widest
    most = region.gaps[position].most
    middle = max(low, (low + high - most) / 2)
    # whatever rounding does
    beneath = min(middle + most, float(np.nextafter(high, low)))
    first, last = windows[position]
    for window in ((first, min(last, beneath)), (max(first, middle), last)):
        yield (*windows[:position], window, *windows[position + 1 :])


def _in_windows(region: Region, windows: _Windows) -> np.ndarray:
    """Candidates whose metrics lie in (low, high], or have no value."""
    inside = np.ones_like(region.allowed)
    for gap, (low, high) in zip(region.gaps, windows, strict=True):
        inside &= np.isnan(gap.value) | ((gap.value > low) & (gap.value <= high))
    return inside


def _widest_gap(region: Region, choice: np.ndarray) -> tuple[int, float, float] | None:
    """Find the gap that a choice exceeds most, with the lowest and the highest value."""
    worst, found = 0.0, None
    for position, gap in enumerate(region.gaps):
        values = gap.value[choice]
        values = values[~np.isnan(values)]
        if len(values) < 2:
            continue
        low, high = float(values.min()), float(values.max())
        if high - low - gap.most > worst:
            worst, found = high - low - gap.most, (position, low, high)
    return found


def _solve(
    form: Affine | np.ndarray,
    search: Search,
    region: Region,
    *,
    extra: list[Row],
    hint: np.ndarray | None,
    target: float,
    enough: float,
) -> Answer:
    """Maximise over a region whose gaps are left aside."""
    tables = search.tables
    index = np.flatnonzero(region.allowed)
    starts = np.searchsorted(index, tables.starts)
    if (np.diff(starts) == 0).any():
        return Answer(None, 0, -np.inf, "infeasible")
    everything = len(index) == len(region.allowed)
    constant = form.constant if isinstance(form, Affine) else 0
    value, exact, error = _values(form, tables, None if everything else index)
    while True:
        rows = [*region.rows, *extra]
        problem = Selection(
            starts,
            value,
            exact,
            error,
            [row.usage if everything else row.usage[index] for row in rows],
            [row.limit for row in rows],
        )
        start = None
        if hint is not None and region.allowed[hint].all():
            start = np.searchsorted(index, hint)
        grouped = _with_groups(problem, region, tables, index)
        if grouped is not None:
            # every capacity is a row of this problem, so none is left to join
            kept, problem = grouped
            answer = select(
                problem,
                deadline=search.deadline,
                seed=search.seed,
                target=target - constant,
                enough=enough - constant,
            )
            choice = None if answer.choice is None else index[kept[answer.choice]]
            return Answer(choice, answer.value + constant, answer.bound + constant, answer.status)
        answer = select(
            problem,
            deadline=search.deadline,
            seed=search.seed,
            hint=start,
            target=target - constant,
            enough=enough - constant,
        )
        if answer.choice is None:
            return Answer(None, 0, answer.bound + constant, answer.status)
        if search.late and region.groups:
            # the rows that are still missing would take more time than there is
            return _late(answer, region, index, tables, constant)
        choice = index[answer.choice]
        if not _join_groups(region, choice, tables):
            return Answer(
                choice,
                answer.value + constant,
                answer.bound + constant,
                answer.status,
            )
        hint = None


def _with_groups(
    problem: Selection, region: Region, tables: CandidateTables, index: np.ndarray
) -> tuple[np.ndarray, Selection] | None:
    """Add a row for each group that may be full, for the candidates that can matter.

    None where there are no groups, or where the rows would take too much memory.
    """
    if not region.groups:
        return None
    kept, small = undominated(problem, rows_to_come=True)
    size = sum(len(capacities.groups.names) for capacities in region.groups)
    if size * len(kept) > _LARGEST_TABLE:
        return None
    usage, limits = list(small.usage), list(small.limits)
    for capacities in region.groups:
        table = capacities.table(index[kept], tables.starts)
        most = np.maximum.reduceat(table, small.starts[:-1], axis=1).sum(axis=1)
        for row in np.flatnonzero(most > capacities.limit):
            usage.append(table[row])
            limits.append(capacities.limit)
    return kept, replace(small, usage=usage, limits=limits)


def _late(
    answer: Answer, region: Region, index: np.ndarray, tables: CandidateTables, constant: int
) -> Answer:
    assert answer.choice is not None
    choice = index[answer.choice]
    bound = answer.bound + constant
    for capacities in region.groups:
        if (capacities.flagged(choice, tables.starts) > capacities.limit).any():
            return Answer(None, 0, bound, "unknown")
    return Answer(choice, answer.value + constant, bound, answer.status)


def _join_groups(region: Region, choice: np.ndarray, tables: CandidateTables) -> bool:
    """Add a row for the groups whose capacity a choice breaks most; tell whether there were any."""
    joined = False
    for capacities in region.groups:
        over = capacities.flagged(choice, tables.starts) - capacities.limit
        worst = np.argsort(over)[::-1][:5]
        for code in worst[over[worst] > 0]:
            usage = capacities.usage(int(code), tables.starts)
            region.rows.append(Row(usage, capacities.limit, capacities.rule))
            joined = True
    return joined


def _values(
    form: Affine | np.ndarray, tables: CandidateTables, index: np.ndarray | None
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray], float]:
    """Values of candidates as floats, a way to the exact ones, and the floats' error."""
    everything = slice(0, int(tables.starts[-1]))
    try:
        if isinstance(form, Affine):
            whole = form.values(tables, everything, constant=False)
        else:
            whole = form
        worst = np.maximum.reduceat(np.abs(whole), tables.starts[:-1])
        if sum(int(w) for w in worst) < 2**62:
            whole = whole if index is None else whole[index]
            largest = float(worst.max())
            error = 0.0 if largest < 2**53 else largest * 2.0**-52
            return whole.astype(float), lambda picked: whole[picked], error
    except OverflowError:
        pass
    assert isinstance(form, Affine)
    rough = np.zeros(int(tables.starts[-1]))
    error = 0.0
    for symbol, c in form.coefficients.items():
        array = sum_of(tables, symbol)
        if c.bit_length() + int(np.abs(array).max()).bit_length() > _LONGEST:
            raise ValueError("the numbers of the objective differ by more than 300 digits")
        rough += float(c) * array
        error += abs(float(c)) * float(np.abs(array).max()) * 2.0**-50

    def exact(picked: np.ndarray) -> np.ndarray:
        where = picked if index is None else index[picked]
        total = np.zeros(len(where), object)
        for symbol, c in form.coefficients.items():
            total = total + sum_of(tables, symbol)[where].astype(object) * c
        return total

    return (rough if index is None else rough[index]), exact, error
