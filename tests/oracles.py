"""Slow and obviously right answers, in fractions, by trying everything."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath
from scipy import optimize

from imbfit.expressions import Column, Constraint, Count, Expr, Number, Op, Scope, Threshold
from imbfit.metrics import balanced_accuracy
from imbfit.named import NAMED


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


def best_thresholds(rows, scores, segments, objective, rules, greater, groups=None):  # noqa: PLR0917
    """Try all combinations of cuts; rows are (positive, weight, {column: amount}).

    Returns
    -------
    (value, cuts) of the best, or None where nothing meets the constraints. A cut is the lowest
    score flagged, +inf for nobody.
    """
    choices = all_choices(rows, scores, segments, groups)
    found = best_choice(choices, objective, rules, greater)
    return None if found is None else (found[0], found[1].cut)


@dataclass(frozen=True)
class Part:
    """What one cut of a segment flags."""

    cut: float
    below: float
    counts: dict
    columns: dict
    flagged: dict  # weight by group


@dataclass(frozen=True)
class Choice:
    """One cut for each segment, and what they flag together."""

    parts: dict

    @property
    def cut(self):
        return {name: part.cut for name, part in self.parts.items()}

    @functools.cached_property
    def counts(self):
        return add([part.counts for part in self.parts.values()])

    @functools.cached_property
    def columns(self):
        parts = [part.columns for part in self.parts.values()]
        return {name: add([part[name] for part in parts]) for name in parts[0]}

    @functools.cached_property
    def flagged(self):
        return add([part.flagged for part in self.parts.values()])


def add(parts):
    return {key: sum(part[key] for part in parts) for key in parts[0]}


def all_choices(rows, scores, segments, groups=None):
    """All combinations of cuts, one per segment, each counted row by row."""
    names = sorted(set(segments), key=str)
    groups = [None] * len(rows) if groups is None else groups
    options = []
    for name in names:
        own = [i for i, g in enumerate(segments) if g == name]
        levels = sorted({scores[i] for i in own}, reverse=True)
        parts = []
        for cut, below in zip([math.inf, *levels], [*levels, -math.inf], strict=True):
            flags = [scores[i] >= cut for i in own]
            counts, columns = count([rows[i] for i in own], flags)
            flagged = dict.fromkeys(set(groups), Fraction(0))
            for i, flag in zip(own, flags, strict=True):
                flagged[groups[i]] += rows[i][1] * flag
            parts.append(Part(cut, below, counts, columns, flagged))
        options.append(parts)
    return [Choice(dict(zip(names, parts, strict=True))) for parts in itertools.product(*options)]


def best_choice(choices, objective, rules, greater):
    """(value, choice) of the best that meets the rules, the first of equals; or None."""
    best = None
    for choice in choices:
        if not meets(rules, choice):
            continue
        value = metric(objective, choice.counts, choice.columns, greater)
        if best is None or (value > best[0] if greater else value < best[0]):
            best = (value, choice)
    return best


def meets(rules, choice):
    return one_threshold(rules, choice) and all(rule_met(rule, choice) for rule in rules)


def rule_met(rule, choice):
    kind = rule.kind if isinstance(rule, Scope) else "whole"
    inner = rule.constraint if isinstance(rule, Scope) else rule
    if kind == "each_segment":
        return all(rule_met(Scope("in_segment", inner, name), choice) for name in choice.parts)
    if kind == "in_segment":
        part = choice.parts[rule.key]
        return rule_met(inner, Choice({rule.key: part}))
    if kind == "max_gap":
        return gap(rule, choice) <= Fraction(str(inner.right.value)) + Fraction(1, 10**12)
    if kind == "capacity":
        limit = Fraction(str(inner.right.value))
        if isinstance(rule.key, str):
            return all(flagged <= limit for flagged in choice.flagged.values())
        # so many per so many rows, or in all
        share = 1 if rule.key is None else Fraction(rule.key) / choice.counts["n"]
        return choice.counts["pp"] * share <= limit
    assert isinstance(rule, Constraint)
    if isinstance(rule.left, Threshold):
        return all(threshold_met(rule, part) for part in choice.parts.values())
    return met(rule, choice.counts, choice.columns)


def gap(rule, choice):
    """Largest difference between segments; 0/0 has no value, and infinities are equal."""
    values = []
    for part in choice.parts.values():
        try:
            values.append(exact(rule.constraint.left, part.counts, part.columns))
        except Undefined:
            pass
        except Infinite as infinite:
            values.append(Fraction(10) ** 300 * infinite.sign)
    return max(values) - min(values) if values else 0


def threshold_met(rule, part):
    """Whether some threshold within the bound makes the same cut."""
    bound = rule.right.value
    return part.cut >= bound if rule.sense == ">=" else part.below < bound


def one_threshold(rules, choice):
    """Whether the bounds on the thresholds leave room for one threshold per segment."""
    for name, part in choice.parts.items():
        low, high = -math.inf, math.inf
        for rule in rules:
            inner = rule.constraint if isinstance(rule, Scope) else rule
            if isinstance(inner, Scope) or not isinstance(inner.left, Threshold):
                continue
            if isinstance(rule, Scope) and rule.kind == "in_segment" and rule.key != name:
                continue
            if inner.sense == ">=":
                low = max(low, inner.right.value)
            else:
                high = min(high, inner.right.value)
        # a threshold t makes the cut if below < t <= cut
        if not (low <= high and min(part.cut, high) >= low and part.below < high):
            return False
    return True


def violation(rule, choice):
    """By which fraction of itself a bound must give way (by how much, where it is 0)."""
    kind = rule.kind if isinstance(rule, Scope) else "whole"
    inner = rule.constraint if isinstance(rule, Scope) else rule
    if kind == "each_segment":
        parts = choice.parts.items()
        return max(violation(inner, Choice({name: part})) for name, part in parts)
    if kind == "in_segment":
        return violation(inner, Choice({rule.key: choice.parts[rule.key]}))
    limit = Fraction(str(inner.right.value))
    if kind == "max_gap":
        left = gap(rule, choice)
    elif kind == "capacity" and isinstance(rule.key, str):
        left = max(choice.flagged.values())
    elif kind == "capacity":
        left = choice.counts["pp"] * (
            1 if rule.key is None else Fraction(rule.key) / choice.counts["n"]
        )
    else:
        try:
            left = exact(inner.left, choice.counts, choice.columns)
        except Undefined:
            return 0
        except Infinite as infinite:
            return 0 if (infinite.sign > 0) == (inner.sense == ">=") else math.inf
    lack = limit - left if inner.sense == ">=" else left - limit
    return max(0, lack) / (abs(limit) or 1)


# Generalised linear models on a sample of the rows: the paper's formulas with many digits. eta is
# on the scale of the positives, and the paper's argument of F is minus ours.


def distribution(link, z):
    """Return the paper's F at its own argument z: the probability of a negative."""
    if link == "logit":
        return 1 / (1 + mpmath.exp(-z))
    if link == "probit":
        return mpmath.ncdf(z)
    if link == "cloglog":
        return mpmath.exp(-mpmath.exp(-z))
    if link == "loglog":
        return 1 - mpmath.exp(-mpmath.exp(z))
    assert link == "cauchit"
    return mpmath.mpf(1) / 2 + mpmath.atan(z) / mpmath.pi


def minus_log_likelihood(method, link, eta, positive, *, weight=None, pi1=1, pi0=1, dropped=0):
    """Write down equation (1), (8), (9), (6)-(7) or (4), summed and not averaged.

    `pi1` and `pi0` are what a positive and a negative is kept with, numbers or one for each row.
    """
    n = len(eta)
    rows = range(n)
    F = [distribution(link, -mpmath.mpf(e)) for e in eta]
    w = [mpmath.mpf(1) if weight is None else mpmath.mpf(weight[i]) for i in rows]
    a1 = [mpmath.mpf(pi1[i] if hasattr(pi1, "__len__") else pi1) for i in rows]
    a0 = [mpmath.mpf(pi0[i] if hasattr(pi0, "__len__") else pi0) for i in rows]
    log = mpmath.log
    if method == "naive":
        terms = [log(1 - F[i]) if positive[i] else log(F[i]) for i in rows]
    elif method == "iw":
        terms = [log(1 - F[i]) / a1[i] if positive[i] else log(F[i]) / a0[i] for i in rows]
    elif method == "cmle":
        G = [a0[i] * F[i] / (a1[i] * (1 - F[i]) + a0[i] * F[i]) for i in rows]
        terms = [log(1 - G[i]) if positive[i] else log(G[i]) for i in rows]
    elif method == "pseudo_mle":
        S = [a1[i] * (1 - F[i]) + a0[i] * F[i] for i in rows]
        mean = sum(w[i] * S[i] for i in rows) / sum(w)
        terms = [
            log(a1[i] * (1 - F[i])) - log(mean) if positive[i] else log(a0[i] * F[i]) - log(mean)
            for i in rows
        ]
    else:
        assert method == "profile"
        s = solved_rate(F, w, dropped)
        S = [1 - (1 - s) * F[i] for i in rows]
        terms = [(log(1 - F[i]) if positive[i] else log(F[i])) - log(S[i]) for i in rows]
        if dropped:
            return -sum(w[i] * terms[i] for i in rows) + dropped * log(1 - s)
    return -sum(w[i] * terms[i] for i in rows)


def solved_rate(F, w, dropped):
    """Return the s at which the masses w / (n S) of the rows sum to one, by halving."""
    n = sum(w) + dropped
    high = mpmath.mpf(1)
    # below it S is negative where F is largest
    low = 1 - 1 / max(f for f, v in zip(F, w, strict=True) if v > 0)
    for _ in range(2 * mpmath.mp.dps):
        s = (low + high) / 2
        mass = sum(v / (1 - (1 - s) * f) for f, v in zip(F, w, strict=True) if v > 0)
        low, high = (s, high) if mass > n else (low, s)
    return (low + high) / 2 if dropped else mpmath.mpf(1)


def likelihood_of_masses(link, eta, positive, *, weight, dropped, rounds=4000):
    """Minus the log-likelihood of labels, columns and the number dropped, at the likeliest masses.

    The masses of the rows' columns are found by the EM algorithm: a dropped row is like one of the
    kept ones with a probability that goes by its mass and by how often it would be negative.
    """
    rows = range(len(eta))
    exact = [distribution(link, -mpmath.mpf(e)) for e in eta]
    F = [float(f) for f in exact]
    n = sum(weight) + dropped
    mass = [w / sum(weight) for w in weight]
    for _ in range(rounds):
        negative = math.fsum(mass[i] * F[i] for i in rows)
        mass = [(weight[i] + dropped * mass[i] * F[i] / negative) / n for i in rows]
    negative = math.fsum(mass[i] * F[i] for i in rows)
    labels = [float(mpmath.log(1 - exact[i] if positive[i] else exact[i])) for i in rows]
    kept = math.fsum(weight[i] * (labels[i] + math.log(mass[i])) for i in rows)
    return -kept - dropped * math.log(negative)


def fitted_coefficients(method, link, Z, positive, *, offset=0, ridge=0, **sample):
    """Minimise by Nelder-Mead, then find the root of the differenced slope with 30 digits.

    `Z` has a column of ones where the intercept is free. Half of `ridge` times the square of each
    coefficient is added.
    """
    n_coef = len(Z[0])
    offset = offset if hasattr(offset, "__len__") else [offset] * len(Z)
    ridge = ridge if hasattr(ridge, "__len__") else [ridge] * n_coef

    def loss(w):
        eta = [sum(z * c for z, c in zip(row, w, strict=True)) for row in Z]
        eta = [e + o for e, o in zip(eta, offset, strict=True)]
        penalty = sum(r * c**2 for r, c in zip(ridge, w, strict=True)) / 2
        return minus_log_likelihood(method, link, eta, positive, **sample) + penalty

    def slope(*w):
        h = mpmath.mpf(10) ** -8
        out = []
        for j in range(n_coef):
            up = [c + h * (i == j) for i, c in enumerate(w)]
            down = [c - h * (i == j) for i, c in enumerate(w)]
            out.append((loss(up) - loss(down)) / (2 * h))
        return out

    found = optimize.minimize(
        lambda w: float(loss([mpmath.mpf(float(c)) for c in w])),
        [0.0] * n_coef,
        method="Nelder-Mead",
        options={"xatol": 1e-2, "fatol": 1e-4, "maxiter": 4000, "maxfev": 4000},
    )
    with mpmath.workdps(30):
        root = mpmath.findroot(slope, [mpmath.mpf(float(c)) for c in found.x], tol=1e-20)
    return [float(c) for c in root]
