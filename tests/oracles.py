"""Slow and obviously right answers, in fractions, by trying everything."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from imbfit.confusion import Confusion
from imbfit.expressions import Column, Constraint, Count, Expr, Number, Op, Scope, Threshold
from imbfit.metrics import NAMED, balanced_accuracy


class Undefined(Exception):
    """A ratio is 0/0."""


class Infinite(Exception):
    """A ratio is x/0."""

    def __init__(self, sign):
        self.sign = sign


def exact(expr: Expr, counts: dict, columns: dict, fill=None) -> Fraction | float:
    """Value of an expression on exact counts, with `fill` for 0/0 where it is given."""
    if isinstance(expr, Number):
        return Fraction(str(expr.value))
    if isinstance(expr, Count):
        return cell(expr.count, counts)
    if isinstance(expr, Column):
        return cell(expr.count, columns[expr.column])
    assert isinstance(expr, Op)
    left = exact(expr.left, counts, columns, fill)
    right = exact(expr.right, counts, columns, fill)
    if expr.symbol == "+":
        return left + right
    if expr.symbol == "-":
        return left - right
    if expr.symbol == "*":
        return left * right
    if expr.symbol == "/":
        if right == 0:
            if left == 0 and fill is not None:
                return fill
            if left == 0:
                raise Undefined
            raise Infinite(1 if left > 0 else -1)
        return left / right
    if right.denominator == 1:
        return left ** int(right)
    return float(left) ** float(right)


def cell(name: str, c: dict):
    tp, pp, ap, n = c["tp"], c["pp"], c["ap"], c["n"]
    return {
        "tp": tp, "fp": pp - tp, "fn": ap - tp, "tn": n - pp - ap + tp,
        "pp": pp, "pn": n - pp, "ap": ap, "an": n - ap, "n": n,
    }[name]  # fmt: skip


def count(rows, flagged):
    """Exact counts of (positive, weight, amounts) rows under flags."""
    def sums(values):
        c = dict.fromkeys(("tp", "pp", "ap", "n"), Fraction(0))
        for (positive, *_), flag, v in zip(rows, flagged, values, strict=True):
            c["n"] += v
            c["ap"] += v * positive
            c["pp"] += v * flag
            c["tp"] += v * (positive and flag)
        return c

    weights = [w for _, w, _ in rows]
    names = rows[0][2].keys() if rows else ()
    columns = {name: sums([a[name] * w for _, w, a in rows]) for name in names}
    return sums(weights), columns


def metric(expr, counts, columns, greater):
    """The language's value, with its rule for 0/0; None where the oracle can't tell."""
    try:
        return exact(expr, counts, columns)
    except Undefined:
        perfect = counts["pp"] == counts["tp"] and counts["ap"] == counts["tp"]
        assert expr != balanced_accuracy, "both classes occur in the whole"
        if expr not in NAMED.values():
            either = [exact(expr, counts, columns, Fraction(fill)) for fill in (0, 1)]
            return max(either) if perfect == greater else min(either)
        return Fraction(int(perfect == greater))
    except Infinite as infinite:
        return math.inf * infinite.sign


def met(constraint, counts, columns, slack=0):
    """Whether a plain constraint holds; an empty ratio breaks nothing."""
    try:
        left = exact(constraint.left, counts, columns)
        right = exact(constraint.right, counts, columns)
    except Undefined:
        return True
    except Infinite as infinite:
        # only used with the ratio on the left
        return (infinite.sign > 0) == (constraint.sense == ">=")
    if isinstance(left, float) or isinstance(right, float):
        slack = max(slack, 1e-12)
    return left >= right - slack if constraint.sense == ">=" else left <= right + slack


def best_thresholds(rows, scores, segments, objective, rules, greater, groups=None):
    """Try all combinations of cuts; rows are (positive, weight, {column: amount}).

    Returns
    -------
    (value, cuts) of the best, or None where nothing meets the constraints. A cut is the lowest score
    flagged, +inf for nobody.
    """
    names = sorted(set(segments), key=str)
    options = []
    for name in names:
        own = sorted({s for s, g in zip(scores, segments, strict=True) if g == name}, reverse=True)
        options.append([math.inf, *own])
    best = None
    for cuts in itertools.product(*options):
        cut = dict(zip(names, cuts, strict=True))
        flagged = [s >= cut[g] for s, g in zip(scores, segments, strict=True)]
        if not all(
            rule_met(rule, rows, flagged, segments, names, cut, scores, groups) for rule in rules
        ):
            continue
        counts, columns = count(rows, flagged)
        value = metric(objective, counts, columns, greater)
        if best is None or (value > best[0] if greater else value < best[0]):
            best = (value, cut)
    return best


def part(rows, flagged, segments, name):
    keep = [g == name for g in segments]
    return count(
        [r for r, k in zip(rows, keep, strict=True) if k],
        [f for f, k in zip(flagged, keep, strict=True) if k],
    )


def rule_met(rule, rows, flagged, segments, names, cut, scores, groups):
    if isinstance(rule, Scope):
        inner = rule.constraint
        if rule.kind == "each_segment":
            return all(
                rule_met(Scope("in_segment", inner, name), rows, flagged, segments, names, cut,
                         scores, groups)
                for name in names
            )  # fmt: skip
        if rule.kind == "in_segment":
            if isinstance(inner, Scope):
                counts, _ = part(rows, flagged, segments, rule.key)
                limit = Fraction(str(inner.constraint.right.value))
                share = 1 if inner.key is None else Fraction(inner.key) / counts["n"]
                return counts["pp"] * share <= limit
            if isinstance(inner.left, Threshold):
                return threshold_met(inner, cut[rule.key], scores, segments, rule.key)
            return met(inner, *part(rows, flagged, segments, rule.key))
        if rule.kind == "max_gap":
            values = []
            for name in names:
                try:
                    values.append(exact(inner.left, *part(rows, flagged, segments, name)))
                except Undefined:
                    pass
            return not values or max(values) - min(values) <= Fraction(
                str(inner.right.value)
            ) + Fraction(1, 10**12)
        limit = Fraction(str(inner.right.value))
        counts, _ = count(rows, flagged)
        if rule.key is None:
            return counts["pp"] <= limit
        if isinstance(rule.key, int):
            return counts["pp"] * rule.key <= limit * counts["n"]
        return all(part(rows, flagged, groups, day)[0]["pp"] <= limit for day in set(groups))
    assert isinstance(rule, Constraint)
    if isinstance(rule.left, Threshold):
        return all(threshold_met(rule, cut[name], scores, segments, name) for name in names)
    return met(rule, *count(rows, flagged))


def threshold_met(rule, cut, scores, segments, name):
    """Whether some threshold within the bound flags just the scores >= cut."""
    own = sorted(s for s, g in zip(scores, segments, strict=True) if g == name)
    below = max((s for s in own if s < cut), default=-math.inf)
    bound = rule.right.value
    return cut >= bound if rule.sense == ">=" else below < bound
