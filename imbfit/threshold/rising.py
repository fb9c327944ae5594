"""MCC and G-mean over segments: metrics that rise with tp for a given pp.

"Better than L" is tp > h(pp), and h is concave or convex, so a line below it clears an interval of
pp: if no choice comes above the line, none is better than L there. What is left open is halved.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

import numpy as np

from imbfit.expressions import Expr, describe
from imbfit.named import mcc
from imbfit.threshold.region import Region, Row
from imbfit.threshold.rows import Affine
from imbfit.threshold.solving import FLAGGED_ROWS, Outcome, Search, solve
from imbfit.threshold.table import CandidateTables

_PRECISION = 2**20
# MCC and G-mean are floats; what differs by less is one value.
_ROUNDING = 2e-12


def rise(objective: Expr, search: Search, region: Region) -> Outcome:
    """Branch on intervals of pp for MCC and G-mean, which rise with tp for a given pp."""
    tables = search.tables
    ap, n = (float(sum(int(v) for v in array)) for array in (tables.rows.ap, tables.rows.n))
    curve = _Mcc(ap, n) if objective == mcc else _Gmean(ap, n)
    everything = slice(0, int(tables.starts[-1]))
    flagged = FLAGGED_ROWS.values(tables, everything)
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
