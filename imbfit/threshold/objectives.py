"""Maximise an objective over a region: linear, ratio of linear, or rising in tp for given pp.

Linear objectives are one selection problem. A ratio N / D with D > 0 takes Dinkelbach's steps: with the
ratio p/q of the choice at hand, maximise q N - p D; at zero the choice is the best one. MCC and
G-mean rise with tp for a given pp, so "better than L" is tp > h(pp), and an interval of pp is cleared by
a line below h.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Expr, describe
from imbfit.metrics import gmean, mcc
from imbfit.threshold.region import Region, Row, _sign
from imbfit.threshold.rows import Affine, affine_pair, known_sums, sum_of, to_ratio
from imbfit.threshold.selection import Answer, Selection, select
from imbfit.threshold.table import CandidateTables

_PRECISION = 2**20
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
    return _over_gaps(_solver(objective, search, greater_is_better), search, region)


def _solver(
    objective: Expr, search: Search, greater_is_better: bool
) -> Callable[[Region], Outcome]:
    tables = search.tables
    if objective in (mcc, gmean):
        if not greater_is_better:
            raise UnsupportedMetric(f"{describe(objective)} can only be maximised over segments")
        return lambda region: _rising(objective, search, region)
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
    if scale < 0:
        numerator, scale = _times(numerator, -1), -scale
    if not greater_is_better:
        numerator = _times(numerator, -1)
    if not denominator.coefficients:
        if denominator.constant == 0:
            raise UnsupportedMetric(f"objective `{describe(objective)}` divides by zero")
        factor = scale / denominator.constant
        if factor < 0:
            numerator, factor = _times(numerator, -1), -factor
        return lambda region: _linear(numerator, factor, search, region)
    everything = slice(0, int(tables.starts[-1]))
    sign = _sign(denominator, tables, everything)
    if sign == 0:
        raise UnsupportedMetric(
            f"objective `{describe(objective)}` has a denominator that may be negative or positive "
            f"depending on the thresholds; {advice}"
        )
    if sign < 0:
        numerator, denominator = _times(numerator, -1), _times(denominator, -1)
    return lambda region: _ratio(numerator, denominator, scale, search, region)


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


def solve(
    form: Affine,
    search: Search,
    region: Region,
    *,
    extra: list[Row] | None = None,
    hint: np.ndarray | None = None,
    target: float = -np.inf,
) -> Answer:
    """Maximise an affine form over a region without gaps; values include its constant.

    Parameters
    ----------
    form : Affine
        The objective in integers.
    search : Search
        Tables, time limit, seed.
    region : Region
        The constraints. Rows made for its groups are added to it.
    extra : list of Row, default=None
        More rows, for this solve only.
    hint : ndarray of int64, default=None
        A choice inside the region.
    target : float
        Only greater values are wanted, see :func:`imbfit.threshold.selection.select`.

    Returns
    -------
    Answer
        With positions in the tables.
    """
    tables = search.tables
    index = np.flatnonzero(region.allowed)
    starts = np.searchsorted(index, tables.starts)
    if (np.diff(starts) == 0).any():
        return Answer(None, 0, -np.inf, "infeasible")
    everything = len(index) == len(region.allowed)
    value, exact, error = _values(form, tables, None if everything else index)
    while True:
        rows = [*region.rows, *(extra or [])]
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
        answer = select(
            problem,
            deadline=search.deadline,
            seed=search.seed,
            hint=start,
            target=target - form.constant,
        )
        if answer.choice is None:
            return Answer(None, 0, answer.bound + form.constant, answer.status)
        choice = index[answer.choice]
        if not _join_groups(region, choice, tables):
            return Answer(
                choice,
                answer.value + form.constant,
                answer.bound + form.constant,
                answer.status,
            )
        hint = None


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
    form: Affine, tables: CandidateTables, index: np.ndarray | None
) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray], float]:
    """Values of candidates as floats, a way to the exact ones, and the floats' error."""
    everything = slice(0, int(tables.starts[-1]))
    try:
        whole = form.values(tables, everything, constant=False)
        worst = np.maximum.reduceat(np.abs(whole), tables.starts[:-1])
        if sum(int(w) for w in worst) < 2**62:
            whole = whole if index is None else whole[index]
            largest = float(worst.max())
            error = 0.0 if largest < 2**53 else largest * 2.0**-52
            return whole.astype(float), lambda picked: whole[picked], error
    except OverflowError:
        pass
    rough = np.zeros(int(tables.starts[-1]))
    error = 0.0
    for symbol, c in form.coefficients.items():
        array = sum_of(tables, symbol)
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
        answer = solve(_less(numerator, denominator, p, q), search, region, hint=choice, target=0.0)
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


def _least(form: Affine, tables: CandidateTables, region: Region) -> int:
    values = form.values(tables, slice(0, int(tables.starts[-1])), constant=False)
    values = np.where(region.allowed, values, np.iinfo(np.int64).max // 2**20)
    return form.constant + int(np.minimum.reduceat(values, tables.starts[:-1]).sum())


def _rising(objective: Expr, search: Search, region: Region) -> Outcome:
    """Branch on intervals of pp for MCC and G-mean, which rise with tp for a given pp."""
    tables = search.tables
    known = known_sums(tables, None)
    unit = float(tables.rows.scale)
    ap, n = float(known["ap", None]) * unit, float(known["n", None]) * unit
    curve = _Mcc(ap, n) if objective == mcc else _Gmean(ap, n)
    everything = slice(0, int(tables.starts[-1]))
    flagged = _ROWS.values(tables, everything)
    shown = np.where(region.allowed, flagged, np.iinfo(np.int64).max)
    low = int(sum(int(v) for v in np.minimum.reduceat(shown, tables.starts[:-1])))
    shown = np.where(region.allowed, flagged, -1)
    high = int(sum(int(v) for v in np.maximum.reduceat(shown, tables.starts[:-1])))
    best: np.ndarray | None = None
    level = -np.inf

    def consider(choice: np.ndarray) -> bool:
        nonlocal best, level
        tp, pp = (
            sum(int(v) for v in sum_of(tables, (name, None))[choice]) for name in ("tp", "pp")
        )
        value = curve.value(float(tp), float(pp))
        # candidates closer than rounding are one value
        if value > level + 1e-14 or best is None:
            best, level = choice, value
            return True
        return False

    # choices along the hull are good starts; one exists wherever the region is not empty
    for power in range(0, 21, 2):
        form = Affine(0, {("tp", None): 2**20, ("pp", None): -(2**power)})
        answer = solve(form, search, region)
        if answer.choice is None:
            return Outcome(None, -np.inf, np.inf, answer.status)
        consider(answer.choice)
    search.say(f"{describe(objective)} starts at {level:.9g}")
    stack = [(low, high)]
    missed = -np.inf
    while stack:
        first, last = stack.pop()
        if search.late:
            missed = max(missed, curve.most(first, last))
            continue
        p, target = _line(curve, level, first, last)
        form = Affine(0, {("tp", None): _PRECISION, ("pp", None): -p})
        answer = solve(
            form,
            search,
            region,
            extra=[Row(flagged, last, -1), Row(-flagged, -first, -1)],
            target=target - 1e-9 * abs(target) - 1e-6,
        )
        if answer.choice is None:
            if answer.status == "unknown":
                missed = max(missed, curve.most(first, last))
            continue
        improved = consider(answer.choice)
        if improved:
            stack.append((first, last))
        elif first < last:
            middle = (first + last) // 2
            stack += [(middle + 1, last), (first, middle)]
        elif answer.status != "optimal":
            missed = max(missed, curve.most(first, last))
    bound = max(level, missed)
    status = "optimal" if bound <= level else "feasible"
    return Outcome(best, level, bound, status)


class _Mcc:
    r"""MCC as a function of tp and pp: (n tp - ap pp) / sqrt(ap an pp pn)."""

    def __init__(self, ap: float, n: float) -> None:
        self.ap, self.n = ap, n

    def value(self, tp: float, pp: float) -> float:
        if pp in (0, self.n):
            return 0.0
        root = np.sqrt(self.ap * (self.n - self.ap)) * np.sqrt(pp * (self.n - pp))
        return float((self.n * tp - self.ap * pp) / root)

    def needed(self, level: float, pp: float) -> float:
        """The tp at which `level` is reached."""
        root = np.sqrt(self.ap * (self.n - self.ap)) * np.sqrt(pp * (self.n - pp))
        return float((self.ap * pp + level * root) / self.n)

    def steepness(self, level: float, pp: float) -> float:
        """Derivative of `needed` in pp."""
        root = np.sqrt(self.ap * (self.n - self.ap)) / np.sqrt(pp * (self.n - pp))
        return float((self.ap + level * root * (self.n - 2 * pp) / 2) / self.n)

    def concave(self, level: float) -> bool:
        """Whether `needed` is concave in pp (else it is convex)."""
        return level >= 0

    def most(self, first: int, last: int) -> float:
        """The value where every flagged row is positive, as far as there are positives."""
        return _most(self, first, last)


class _Gmean:
    r"""G-mean as a function of tp and pp: sqrt(tp tn / (ap an))."""

    def __init__(self, ap: float, n: float) -> None:
        self.ap, self.n = ap, n

    def value(self, tp: float, pp: float) -> float:
        an = self.n - self.ap
        return float(np.sqrt(tp * (an - pp + tp) / (self.ap * an)))

    def needed(self, level: float, pp: float) -> float:
        """The tp at which `level` is reached."""
        an = self.n - self.ap
        left = an - pp
        square = max(level, 0.0) ** 2 * self.ap * an
        root = np.sqrt(left * left + 4 * square)
        # the form without cancellation
        return float(2 * square / (left + root)) if left > 0 else float((root - left) / 2)

    def steepness(self, level: float, pp: float) -> float:
        """Derivative of `needed` in pp."""
        an = self.n - self.ap
        left = an - pp
        square = max(level, 0.0) ** 2 * self.ap * an
        root = np.sqrt(left * left + 4 * square)
        return float((1 - left / root) / 2) if root > 0 else 0.5

    def concave(self, level: float) -> bool:
        """Whether `needed` is concave in pp (else it is convex)."""
        return False

    def most(self, first: int, last: int) -> float:
        """The value where every flagged row is positive, as far as there are positives."""
        return _most(self, first, last)


def _most(curve: _Mcc | _Gmean, first: int, last: int) -> float:
    turn = min(max(curve.ap, first), last)
    return max(curve.value(min(curve.ap, x), x) for x in (first, last, turn))


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


def _over_gaps(
    inner: Callable[[Region], Outcome], search: Search, region: Region
) -> Outcome:
    """Branch on where the lowest value of each gap's metric lies.

    A choice whose values run from a to b, wider than the bound e, is excluded from both parts: lowest
    value at most m (so that all are at most m + e < b), or above m (so that a is out).
    """
    if not region.gaps:
        return inner(region)
    best = Outcome(None, -np.inf, -np.inf, "infeasible")
    counter = itertools.count()
    queue: list[tuple[float, int, np.ndarray]] = [
        (-np.inf, next(counter), np.ones_like(region.allowed))
    ]
    unfinished = -np.inf
    unknown = False
    while queue:
        negative, _, allowed = heapq.heappop(queue)
        if best.choice is not None and -negative <= best.value:
            break
        if search.late:
            unfinished, unknown = max(unfinished, -negative), True
            break
        outcome = inner(region.within(allowed))
        if outcome.choice is None:
            unknown = unknown or outcome.status == "unknown"
            continue
        if best.choice is not None and outcome.bound <= best.value:
            continue
        worst, gap = 0.0, None
        for each in region.gaps:
            spread = _spread(each.value[outcome.choice])
            if spread - each.most > worst:
                worst, gap = spread - each.most, each
        if gap is None:
            if outcome.value > best.value or best.choice is None:
                best = outcome
            if outcome.status != "optimal":
                unfinished = max(unfinished, outcome.bound)
            continue
        values = gap.value[outcome.choice]
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        middle = (low + high - gap.most) / 2
        undefined = np.isnan(gap.value)
        for part in (gap.value <= middle + gap.most, gap.value > middle):
            entry = (-outcome.bound, next(counter), allowed & (part | undefined))
            heapq.heappush(queue, entry)
    bound = max(best.value, unfinished)
    if best.choice is None:
        return Outcome(None, -np.inf, bound, "unknown" if unknown else "infeasible")
    status = "optimal" if bound <= best.value and not unknown else "feasible"
    return Outcome(best.choice, best.value, bound, status)


def _spread(values: np.ndarray) -> float:
    values = values[~np.isnan(values)]
    return float(values.max() - values.min()) if len(values) > 1 else 0.0
