"""Maximise an objective over a region: linear, ratio of linear, or rising in tp for given pp.

Linear objectives are one selection problem. A ratio N / D with D > 0 takes Dinkelbach's steps: with
the ratio p/q of the choice at hand, maximise q N - p D; at zero the choice is the best one. MCC and
G-mean rise with tp for a given pp, so "better than L" is tp > h(pp), and an interval of pp is
cleared by a line below h.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from imbfit.confusion import Confusion
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Expr, describe
from imbfit.named import gmean, mcc
from imbfit.reading import value
from imbfit.threshold.region import Region, Row, _sign
from imbfit.threshold.rows import Affine, affine_pair, sum_of, to_ratio
from imbfit.threshold.selection import Answer, Selection, select, undominated
from imbfit.threshold.table import CandidateTables, Sums

# The values of each gap's metric, (low, high], that a part of the region is about.
_Windows = tuple[tuple[float, float], ...]
_PRECISION = 2**20
# Entries of the rows of groups, at 8 bytes each.
_LARGEST_TABLE = 60_000_000
# MCC and G-mean are floats; what differs by less is one value.
_ROUNDING = 2e-12
_LONGEST = 1010  # bits of a number whose sums are still floats
_ROWS = Affine(0, {("pp", None): 1})


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

    def say(self, message: str) -> None:
        """Print progress."""
        if self.verbose:
            print(f"[thresholds] {message}", flush=True)  # noqa: T201


def maximise(
    objective: Expr, search: Search, region: Region, *, greater_is_better: bool
) -> Outcome:
    """Find the best choice of candidates in a region.

    Parameters
    ----------
    objective : Expr
        Read on the whole.
    search : Search
        Tables, time limit, seed.
    region : Region
        The constraints.
    greater_is_better : bool
        Direction.

    Returns
    -------
    Outcome

    Raises
    ------
    UnsupportedMetric
        If the objective is of none of the three kinds; the message names the sub-expression.
    """
    return _solver(objective, search, greater_is_better=greater_is_better)(region)


def _solver(
    objective: Expr, search: Search, *, greater_is_better: bool
) -> Callable[[Region], Outcome]:
    tables = search.tables
    if objective in (mcc, gmean):
        if not greater_is_better:
            raise UnsupportedMetric(f"{describe(objective)} can only be maximised over segments")
        return lambda region: _rising(objective, search, region)
    numerator, denominator, scale = _fraction_of_sums(objective, tables)
    oriented = 1 if greater_is_better else -1
    numerator = _times(numerator, oriented)
    if not denominator.coefficients:
        factor = scale / denominator.constant
        if factor < 0:
            numerator, factor = _times(numerator, -1), -factor
        return lambda region: _linear(numerator, factor, search, region)

    def ratio(region: Region) -> Outcome:
        found = _ratio(numerator, denominator, scale, search, region)
        if found.status == "infeasible" or _least(denominator, tables, region) > 0:
            return found
        return _or_empty(found, objective, (numerator, denominator), search, region, sign=oriented)

    return ratio


def _fraction_of_sums(objective: Expr, tables: CandidateTables) -> tuple[Affine, Affine, Fraction]:
    """Read an objective as ``scale * N / D`` with a positive scale and D >= 0."""
    advice = (
        f"over {len(tables.segments)} segments an objective is linear in the counts, a ratio of "
        "two such sums, mcc or gmean; with one segment any expression goes"
    )
    try:
        pair = affine_pair(to_ratio(objective, tables.columns), tables, None)
    except UnsupportedMetric as error:
        raise UnsupportedMetric(f"objective `{describe(objective)}`: {error}; {advice}") from None
    if pair is None:
        raise UnsupportedMetric(
            f"objective `{describe(objective)}` multiplies counts that depend on the thresholds; "
            f"{advice}"
        )
    numerator, denominator, scale = pair
    if not denominator.coefficients and denominator.constant == 0:
        raise UnsupportedMetric(f"objective `{describe(objective)}` divides by zero")
    sign = _sign(denominator, tables, slice(0, int(tables.starts[-1])))
    if sign == 0:
        raise UnsupportedMetric(
            f"objective `{describe(objective)}` has a denominator that may be negative or positive "
            f"depending on the thresholds; {advice}"
        )
    if sign < 0:
        numerator, denominator = _times(numerator, -1), _times(denominator, -1)
    return (
        (_times(numerator, -1), denominator, -scale)
        if scale < 0
        else (
            numerator,
            denominator,
            scale,
        )
    )


def _times(form: Affine, factor: int) -> Affine:
    return Affine(
        form.constant * factor, {symbol: c * factor for symbol, c in form.coefficients.items()}
    )


def _less(form: Affine, other: Affine, p: int, q: int) -> Affine:
    """Return ``q * form - p * other``."""
    coefficients = {symbol: q * c for symbol, c in form.coefficients.items()}
    for symbol, c in other.coefficients.items():
        coefficients[symbol] = coefficients.get(symbol, 0) - p * c
    return Affine(q * form.constant - p * other.constant, coefficients)


def at(form: Affine, tables: CandidateTables, choice: np.ndarray) -> int:
    """Exact value of an affine form under a choice."""
    total = form.constant
    for symbol, c in form.coefficients.items():
        total += c * sum(int(v) for v in sum_of(tables, symbol)[choice])
    return total


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
        answer = solve(_ROWS, search, region, enough=-np.inf)
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


def _linear(form: Affine, factor: Fraction, search: Search, region: Region) -> Outcome:
    answer = solve(form, search, region)
    unit = float(factor)
    if answer.choice is None:
        return Outcome(None, -np.inf, answer.bound * unit, answer.status)
    value = float(factor * answer.value)
    bound = value if answer.status == "optimal" else max(value, answer.bound * unit)
    return Outcome(answer.choice, value, bound, answer.status)


def _ratio(
    numerator: Affine, denominator: Affine, scale: Fraction, search: Search, region: Region
) -> Outcome:
    """Dinkelbach's steps on ``scale * N / D``, in exact fractions."""
    tables = search.tables
    # a start and better choices need no proof, so they take a part of the time
    answer = solve(numerator, search.part(), region)
    if answer.choice is None and answer.status == "unknown":
        answer = solve(numerator, search, region)
    if answer.choice is not None and at(denominator, tables, answer.choice) == 0:
        # the ratio has no value here; look for any choice where it has one
        if at(numerator, tables, answer.choice) > 0:
            return Outcome(answer.choice, np.inf, np.inf, "optimal")
        widest = solve(denominator, search, region)
        if widest.choice is None or at(denominator, tables, widest.choice) == 0:
            return Outcome(answer.choice, -np.inf, -np.inf, answer.status)
        answer = widest
    if answer.choice is None:
        return Outcome(None, -np.inf, np.inf, answer.status)
    choice = answer.choice
    unit = float(scale)
    least = _least(denominator, tables, region)
    for step in itertools.count(1):
        top, bottom = at(numerator, tables, choice), at(denominator, tables, choice)
        ratio = Fraction(top, bottom)
        search.say(f"ratio step {step}: {float(scale * ratio):.9g}")
        p, q = ratio.numerator, ratio.denominator
        form = _less(numerator, denominator, p, q)
        answer = solve(form, search.part(), region, hint=choice, target=0)
        open_ = answer.status not in ("optimal", "infeasible") and answer.bound > 0
        if open_ and (answer.choice is None or answer.value <= 0) and not search.late:
            answer = solve(form, search, region, hint=choice, target=0)
        value = float(scale * ratio)
        if answer.choice is not None and answer.value > 0:
            choice = answer.choice
            if at(denominator, tables, choice) == 0:
                return Outcome(choice, np.inf, np.inf, "optimal")
            if not search.late:
                continue
            value = float(
                scale * Fraction(at(numerator, tables, choice), at(denominator, tables, choice))
            )
        elif answer.bound <= 0 or answer.status in ("optimal", "infeasible"):
            return Outcome(choice, value, value, "optimal")
        # (N - r D) is at most this, and D at least that
        gain = max(0.0, answer.bound) / q / max(1, least)
        return Outcome(choice, value, max(value, float(scale * ratio) + unit * gain), "feasible")
    raise AssertionError  # pragma: no cover


def _or_empty(
    found: Outcome,
    objective: Expr,
    parts: tuple[Affine, Affine],
    search: Search,
    region: Region,
    *,
    sign: int,
) -> Outcome:
    """Take a choice where the ratio is 0/0 if what the language makes of that is better."""
    tables = search.tables
    numerator, denominator = parts
    sums = denominator.exact(tables, slice(0, int(tables.starts[-1])), constant=False)
    lowest = np.minimum.reduceat(np.where(region.allowed, sums, sums.max()), tables.starts[:-1])
    empty = region.within(sums == np.repeat(lowest, np.diff(tables.starts)))
    # 0/0 is judged by whether the prediction is perfect
    tp, pp = tables.rows.tp, tables.rows.pp
    perfect = (tp == pp) & (tp == np.repeat(tables.rows.ap, np.diff(tables.starts)))
    for part in (empty, empty.within(perfect)):
        answer = solve(numerator, search, part)
        if answer.choice is None:
            if answer.status == "unknown":
                found = replace(found, bound=np.inf, status="feasible")
            continue
        if at(numerator, tables, answer.choice) == at(denominator, tables, answer.choice) == 0:
            counts = counts_of(tables, answer.choice)
            reached = sign * float(value(objective, counts, greater_is_better=sign > 0))
            if found.choice is None or reached > found.value:
                found = Outcome(answer.choice, reached, max(found.bound, reached), found.status)
    return found


def counts_of(tables: CandidateTables, choice: np.ndarray) -> Confusion:
    """Real counts of the whole under a choice."""

    def real(sums: Sums, columns: dict[str, Confusion]) -> Confusion:
        tp, pp = (sum(int(v) for v in array[choice]) for array in (sums.tp, sums.pp))
        ap, n = (sum(int(v) for v in array) for array in (sums.ap, sums.n))
        scale = float(sums.scale)
        cells = [cell / scale for cell in (tp, pp - tp, ap - tp, n - pp - (ap - tp))]
        return Confusion.from_cells(cells[0], cells[1], cells[2], cells[3], columns)

    return real(tables.rows, {name: real(sums, {}) for name, sums in tables.columns.items()})


def _least(form: Affine, tables: CandidateTables, region: Region) -> int:
    values = form.exact(tables, slice(0, int(tables.starts[-1])), constant=False)
    values = np.where(region.allowed, values, values.max())
    return form.constant + sum(int(v) for v in np.minimum.reduceat(values, tables.starts[:-1]))


def _rising(objective: Expr, search: Search, region: Region) -> Outcome:
    """Branch on intervals of pp for MCC and G-mean, which rise with tp for a given pp."""
    tables = search.tables
    ap, n = (float(sum(int(v) for v in array)) for array in (tables.rows.ap, tables.rows.n))
    curve = _Mcc(ap, n) if objective == mcc else _Gmean(ap, n)
    everything = slice(0, int(tables.starts[-1]))
    flagged = _ROWS.values(tables, everything)
    low, high = _fewest_and_most(flagged, region.allowed, tables)
    best: np.ndarray | None = None
    level = -np.inf
    # choices along the hull are good starts; one exists wherever the region is not empty
    for power in (0, 10, 13, 15, 16, 17, 18):
        form = Affine(0, {("tp", None): 2**20, ("pp", None): -(2**power)})
        answer = solve(form, search, region)
        if answer.choice is None:
            return Outcome(best, level, np.inf, answer.status if best is None else "feasible")
        reached = curve.at(tables, answer.choice)
        if reached > level:
            best, level = answer.choice, reached
    search.say(f"{describe(objective)} starts at {level:.9g}")
    counter = itertools.count()
    queue = [(-_most(curve, low, high, ap), next(counter), low, high)]
    unproven = -np.inf
    while queue and -queue[0][0] > level + _ROUNDING:
        if search.late:
            unproven = max(unproven, -queue[0][0])
            break
        negative, _, first, last = heapq.heappop(queue)
        p, target = _line(curve, level, first, last)
        # the line is lowered by what its floats may be off
        target -= 1e-9 * abs(target) + 1e-6
        answer = solve(
            Affine(0, {("tp", None): _PRECISION, ("pp", None): -p}),
            search,
            region,
            extra=[Row(flagged, last, -1), Row(-flagged, -first, -1)],
            target=target,
        )
        if answer.choice is None and answer.status == "infeasible":
            continue
        reached = -np.inf if answer.choice is None else curve.at(tables, answer.choice)
        # values closer than rounding are one
        if reached > level + 1e-14:
            best, level = answer.choice, reached
            heapq.heappush(queue, (negative, next(counter), first, last))
            continue
        reach = answer.bound
        if reach <= target:
            continue
        if first == last or answer.choice is None:
            if answer.status != "optimal":
                unproven = max(unproven, -negative)
            continue
        for start, stop in _open_parts(curve, level, (first, last), p, reach):
            # in this part tp is at most the line through what was reached
            tp = max((reach + p * start) / _PRECISION, (reach + p * stop) / _PRECISION)
            upper = min(-negative, _most(curve, start, stop, min(ap, tp)) + 1e-12)
            heapq.heappush(queue, (-upper, next(counter), start, stop))
    bound = max(level, unproven)
    status = "optimal" if bound <= level + _ROUNDING else "feasible"
    return Outcome(best, level, bound, status)


def _fewest_and_most(
    flagged: np.ndarray, allowed: np.ndarray, tables: CandidateTables
) -> tuple[int, int]:
    shown = np.where(allowed, flagged, np.iinfo(np.int64).max)
    low = sum(int(v) for v in np.minimum.reduceat(shown, tables.starts[:-1]))
    shown = np.where(allowed, flagged, -1)
    return low, sum(int(v) for v in np.maximum.reduceat(shown, tables.starts[:-1]))


class _Curve:
    """A metric as a function of tp and pp."""

    def value(self, tp: float, pp: float) -> float:
        raise NotImplementedError

    def at(self, tables: CandidateTables, choice: np.ndarray) -> float:
        """Compute the value of a choice."""
        rows = tables.rows
        tp, pp = (sum(int(v) for v in array[choice]) for array in (rows.tp, rows.pp))
        return self.value(float(tp), float(pp))


class _Mcc(_Curve):
    r"""MCC as a function of tp and pp: (n tp - ap pp) / sqrt(ap an pp pn)."""

    def __init__(self, ap: float, n: float) -> None:
        self.ap, self.n = ap, n

    def root(self, pp: float) -> float:
        """Compute the denominator."""
        return float(np.sqrt(self.ap * (self.n - self.ap)) * np.sqrt(pp * (self.n - pp)))

    def value(self, tp: float, pp: float) -> float:
        """MCC; 0 at nobody and at everybody."""
        if pp in (0, self.n):
            return 0.0
        return float((self.n * tp - self.ap * pp) / self.root(pp))

    def needed(self, level: float, pp: float) -> float:
        """Compute the tp at which `level` is reached."""
        return float((self.ap * pp + level * self.root(pp)) / self.n)

    def steepness(self, level: float, pp: float) -> float:
        """Compute the derivative of `needed` in pp."""
        root = np.sqrt(self.ap * (self.n - self.ap)) / np.sqrt(pp * (self.n - pp))
        return float((self.ap + level * root * (self.n - 2 * pp) / 2) / self.n)

    def concave(self, level: float) -> bool:
        """Whether `needed` is concave in pp (else it is convex)."""
        return level >= 0


class _Gmean(_Curve):
    r"""G-mean as a function of tp and pp: sqrt(tp tn / (ap an))."""

    def __init__(self, ap: float, n: float) -> None:
        self.ap, self.n = ap, n

    def value(self, tp: float, pp: float) -> float:
        """G-mean."""
        an = self.n - self.ap
        # bounds ask for counts that no choice has, with more flagged negatives than there are
        return float(np.sqrt(max(0.0, tp * (an - pp + tp)) / (self.ap * an)))

    def needed(self, level: float, pp: float) -> float:
        """Compute the tp at which `level` is reached."""
        an = self.n - self.ap
        left = an - pp
        square = max(level, 0.0) ** 2 * self.ap * an
        root = np.sqrt(left * left + 4 * square)
        # the form without cancellation
        return float(2 * square / (left + root)) if left > 0 else float((root - left) / 2)

    def steepness(self, level: float, pp: float) -> float:
        """Compute the derivative of `needed` in pp."""
        an = self.n - self.ap
        left = an - pp
        square = max(level, 0.0) ** 2 * self.ap * an
        root = np.sqrt(left * left + 4 * square)
        return float((1 - left / root) / 2) if root > 0 else 0.5

    def concave(self, level: float) -> bool:
        """Whether `needed` is concave in pp (else it is convex)."""
        return False


def _most(curve: _Mcc | _Gmean, first: int, last: int, tp: float) -> float:
    """Upper bound of the curve's value for pp in an interval and at most `tp` true positives."""
    if isinstance(curve, _Gmean):
        # tp tn falls with pp
        return curve.value(tp, max(first, tp)) if first >= tp else curve.value(tp, tp)
    gain = curve.n * tp - curve.ap * max(float(first), tp)
    roots = [curve.root(x) for x in (max(float(first), 1.0), min(float(last), curve.n - 1.0))]
    lowest = min(roots)
    # no rule of 0/0 gives more than 1, nor does MCC
    return 1.0 if lowest <= 0 else min(1.0, max(0.0, gain) / lowest)


def _open_parts(
    curve: _Mcc | _Gmean, level: float, interval: tuple[int, int], p: int, reach: float
) -> list[tuple[int, int]]:
    """Where in an interval a value above `level` is left, after a line of slope p reached `reach`.

    Better than `level` is tp > needed(pp), and all choices have Q tp <= reach + p pp.
    """

    def closed(pp: int) -> bool:
        need = _PRECISION * curve.needed(level, pp)
        return need - p * pp - reach > 1e-9 * abs(need) + 1e-6

    first, last = interval
    middle = (first + last) // 2
    if not closed(middle):
        if curve.concave(level):
            return [(first, middle), (middle + 1, last)]
        # the curve is convex, so what is open is one interval around the middle
        low = _edge(closed, first, middle) if closed(first) else first
        high = _edge(closed, last, middle) if closed(last) else last
        middle = (low + high) // 2
        return [(low, middle), (middle + 1, high)] if low < high else [(low, high)]
    if not curve.concave(level):
        # the tangent touches at the middle, so rounding alone brought us here
        return [(first, middle), (middle + 1, last)] if first < last else []
    parts = []
    if not closed(first):
        parts.append((first, _edge(closed, middle, first)))
    if not closed(last):
        parts.append((_edge(closed, middle, last), last))
    return parts


def _edge(closed: Callable[[int], bool], shut: int, opened: int) -> int:
    """Find the last open pp on the way from an open one to a closed one."""
    while abs(shut - opened) > 1:
        middle = (shut + opened) // 2
        if closed(middle):
            shut = middle
        else:
            opened = middle
    return opened


def _line(curve: _Mcc | _Gmean, level: float, first: int, last: int) -> tuple[int, float]:
    """Slope of a line below the curve on an interval, in steps of 2^-20, and its height.

    Where the curve is concave the chord lies below it, and what rounding does to the slope is made
    up for by the lower end. Where it is convex the tangent does, lowered by the rounding.
    """
    if first == last:
        return 0, _PRECISION * curve.needed(level, first)
    if curve.concave(level):
        rise = curve.needed(level, last) - curve.needed(level, first)
        p = round(_PRECISION * rise / (last - first))
        return p, min(_PRECISION * curve.needed(level, x) - p * x for x in (first, last))
    middle = (first + last) / 2
    p = round(_PRECISION * curve.steepness(level, middle))
    return p, _PRECISION * curve.needed(level, middle) - p * middle - (last - first)
