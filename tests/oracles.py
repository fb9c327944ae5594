"""Slow and obviously right answers, in fractions, by trying everything."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
from scipy import optimize

from imbfit.confusion import Confusion
from imbfit.expressions import Column, Constraint, Count, Expr, Number, Op, Scope, Threshold
from imbfit.metrics import balanced_accuracy
from imbfit.named import NAMED
from imbfit.reading import margin, value


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


# Games: the predictor flags rows, the adversary answers with labels. Payoffs are read from the
# language, one pair of label vectors after the other, and never from the tables of a solver.


def paid(payoff, tp, pp, ap, n):
    """What a payoff is worth on one confusion matrix; greater is better."""
    for case, size in (("positive", 0), ("negative", n)):
        if case in (payoff.special_cases or ()) and size in {pp, ap}:
            return float(pp == ap)
    if not isinstance(payoff.source, (Expr, Constraint)):
        worth = float(payoff.source(tp, pp, ap, n))
        return worth if payoff.greater_is_better else -worth
    counts = Confusion.from_cells(
        *(np.float64(x) for x in (tp, pp - tp, ap - tp, n - pp - ap + tp))
    )
    if isinstance(payoff.source, Constraint):
        return float(margin(payoff.source, counts)[0])
    greater = payoff.greater_is_better
    return float(value(payoff.source, counts, greater_is_better=greater)) * (1 if greater else -1)


def paid_for_labels(payoff, flagged, labels):
    """What a payoff is worth for predicted and actual labels."""
    hits = sum(a and b for a, b in zip(flagged, labels, strict=True))
    return paid(payoff, hits, sum(flagged), sum(labels), len(labels))


def full_game(psi, payoff, requirements, labels, count):
    """Value and marginals of the game over all label vectors, with the predictor's mix explicit.

    The predictor's mix P maximises the least of E_P[payoff] - psi . y over the adversary's label
    vectors y; the shadow prices of these are the adversary's mix. Needs 2^n x 2^n numbers.
    """
    m, positives = len(psi), sum(map(bool, labels))
    vectors = list(itertools.product((0, 1), repeat=m))
    answers = [y for y in vectors if count == "expected" or sum(y) == positives]
    met_by = [[paid_for_labels(r, x, labels) for x in vectors] for r in requirements]
    # w - sum_x P_x payoff(x, y) <= -psi . y, and no requirement's mean slack is below 0
    rows = [[-paid_for_labels(payoff, x, y) for x in vectors] + [1.0] for y in answers]
    rows += [[-slack for slack in slacks] + [0.0] for slacks in met_by]
    bounds = [-float(np.dot(psi, y)) for y in answers] + [0.0] * len(met_by)
    found = optimize.linprog(
        [0.0] * len(vectors) + [-1.0],
        A_ub=rows, b_ub=bounds, A_eq=[[1.0] * len(vectors) + [0.0]], b_eq=[1.0],
        bounds=[(0, None)] * len(vectors) + [(None, None)],
    )  # fmt: skip
    assert found.status == 0, found.message
    mix = -found.ineqlin.marginals[: len(answers)]
    return -found.fun, mix @ np.array(answers, float)


def line(payoff, pp, ap, n):
    """(intercept, slope) in the true positives, from their least and their greatest number."""
    low, high = max(0, pp + ap - n), min(pp, ap)
    worth = paid(payoff, low, pp, ap, n)
    slope = (paid(payoff, high, pp, ap, n) - worth) / (high - low) if high > low else 0.0
    return worth - slope * low, slope


def lines(payoff, taken, actual, n):
    """Intercepts and slopes for all of some sizes."""
    found = np.array([[line(payoff, k, a, n) for a in actual] for k in taken])
    return found[..., 0], found[..., 1]


def marginal_game(psi, payoff, requirements, labels, count, *, marginals=None):
    """Value and marginals by the linear program of the paper, equations (12) and (16), all sizes.

    Q_il is the probability that row i is positive among l, D_ik >= 0 the price of the predictor's
    P_ik <= sum_j P_jk / k, v >= 0 that of sum_ik P_ik / k <= 1, and a_r >= 0 that of requirement r.
    With `marginals` the adversary's are pinned to them; then psi should be 0, and the third thing
    returned is the prices of the pins: the psi at which the pinned value is attained.
    """
    n, positives = len(psi), sum(map(bool, labels))
    G, S = lines(payoff, range(n + 1), range(n + 1), n)
    slack, slack_slope = np.zeros((2, len(requirements), n + 1))
    for which, requirement in enumerate(requirements):
        slack[which], slack_slope[which] = np.array(
            lines(requirement, range(n + 1), [positives], n)
        )[..., 0]
    counts = list(range(1, n + 1)) if count == "expected" else [positives] * (positives > 0)
    n_q = n * len(counts)
    v, width = n_q + n * n, n_q + n * n + 1 + len(requirements)
    cost, mass = np.zeros((2, width))
    rows, limits = [], []
    for at, a in enumerate(counts):
        cost[at * n : (at + 1) * n] = (G[0, a] - G[0, 0]) / a - np.asarray(psi)
        mass[at * n : (at + 1) * n] = 1.0 / a
        for i in range(n):  # Q_il <= sum_j Q_jl / l
            row = np.zeros(width)
            row[at * n : (at + 1) * n] = -1.0 / a
            row[at * n + i] += 1.0
            rows.append(row)
            limits.append(0.0)
    cost[v], cost[v + 1 :] = 1.0, slack[:, 0]
    for k, i in itertools.product(range(1, n + 1), range(n)):
        row = np.zeros(width)
        for at, a in enumerate(counts):
            row[at * n : (at + 1) * n] = (G[k, a] - G[k, 0] - G[0, a] + G[0, 0]) / (k * a)
            row[at * n + i] += S[k, a]
        row[n_q + (k - 1) * n : n_q + k * n] = 1.0 / k
        row[n_q + (k - 1) * n + i] -= 1.0
        row[v] = -1.0 / k
        row[v + 1 :] = slack_slope[:, k] * bool(labels[i]) + (slack[:, k] - slack[:, 0]) / k
        rows.append(row)
        limits.append((G[0, 0] - G[k, 0]) / k)
    fixed, totals = [mass] * (count == "observed" and positives > 0), [1.0]
    if not fixed:
        rows.append(mass)
        limits.append(1.0)
        totals = []
    pins = [] if marginals is None else [*np.tile(np.eye(n), len(counts))]
    fixed += [np.append(pin, np.zeros(width - n_q)) for pin in pins]
    found = optimize.linprog(
        cost, A_ub=np.array(rows), b_ub=limits,
        A_eq=np.array(fixed) if fixed else None,
        b_eq=[*totals, *(marginals if pins else [])] or None,
    )  # fmt: skip
    assert found.status == 0, found.message
    value_of_game = found.fun + G[0, 0]
    q = found.x[:n_q].reshape(len(counts), n).sum(axis=0)
    return (value_of_game, q, found.eqlin.marginals[-n:]) if pins else (value_of_game, q)


def nearest_marginals(matrix, sizes, terms, constants, *, whole=False):
    """The nearest marginals in a polytope and half-spaces, among all points by least distance.

    Lawson and Hanson: the shortest x with A x >= b is -r / r_last for the residual r that
    nonnegative u leave of (A, b)' u = (0, ..., 0, 1). It needs all inequalities written out.
    """
    rows, columns = matrix.shape
    share = np.kron(np.ones((rows, rows)), np.diag(1.0 / np.asarray(sizes, float)))
    mass = np.tile(1.0 / np.asarray(sizes, float), rows)
    everything = np.eye(rows * columns)
    A = [everything, share - everything, [-mass], np.reshape(terms, (len(terms), -1))]
    b = [np.zeros(2 * rows * columns), [-1.0], -np.asarray(constants, float)]
    if whole:
        A.append([mass])
        b.append([1.0])
    A, b = np.vstack(A), np.concatenate(b) - np.vstack(A) @ matrix.ravel()
    length = np.maximum(1e-300, np.linalg.norm(A, axis=1))
    E = np.vstack([A.T / length, b / length])
    last = np.append(np.zeros(rows * columns), 1.0)
    residual = E @ optimize.nnls(E, last, maxiter=10_000)[0] - last
    assert abs(residual[-1]) > 1e-14, "no marginals lie in all half-spaces"
    return matrix - (residual[:-1] / residual[-1]).reshape(matrix.shape)
