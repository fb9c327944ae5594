"""Random threshold problems, small enough to try all choices."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from oracles import all_choices

from imbfit.metrics import (
    accuracy,
    ap,
    balanced_accuracy,
    capacity,
    cost,
    each_segment,
    f1,
    f2,
    fbeta,
    fn,
    fnr,
    fp,
    fpr,
    gmean,
    in_segment,
    informedness,
    jaccard,
    kappa,
    lift,
    markedness,
    max_gap,
    mcc,
    n,
    npv,
    pn,
    pp,
    precision,
    recall,
    specificity,
    sqrt,
    threshold,
    tn,
    tp,
)


def up(expr, name="gain"):
    return expr.named(name, greater_is_better=True)


def down(expr, name="loss"):
    return expr.named(name, greater_is_better=False)


LINEAR = [
    accuracy,
    balanced_accuracy,
    recall,
    specificity,
    fpr,
    fnr,
    informedness,
    cost(fp=1, fn=5),
    cost(fp=1, fn=2.5, tp=-0.3),
    down(5 * fp + fn["a"]),
    up(tp["a"] - 2 * pp),
    up(tp["a"] + 1000 * tp - 77 * fp),
    down(1e12 * fn + fn["a"]),
    up(1 / 3 * tp - 2 / 7 * fp),
    down(fp / (ap + 1)),
    up(tp * tn - fp * fn),  # n tp - ap pp
]
RATIOS = [
    f1,
    f2,
    fbeta(1 / 3),
    precision,
    npv,
    jaccard,
    kappa,
    lift,
    down(fp / pp),
    up((tp - 3 * fp) / pp),
    up(precision - 5),
    down(2 - precision),
    down((fp + fn) / (tp + 1)),
    down((fp + fn["a"]) / (pp + 2)),
    down(fn / pn),
    up((tp - fp) / (tp + fp)),
    down(fp / (fp + fn)),
    down(fp / tp),
]
RISING = [mcc, gmean]
# with one segment anything goes
ANYTHING = [
    markedness,
    up(precision * recall + 0.1 * specificity),
    up(tp / pp - fn / pn),
    up(3 * sqrt(tp / ap) - pp / n),
    up(tp**2 / pp),
]
OBJECTIVES = [*LINEAR, *RATIOS, *RISING]


@dataclass(frozen=True)
class Problem:
    """Scored rows, an objective and rules."""

    y: np.ndarray
    score: np.ndarray
    segments: np.ndarray | None
    weight: np.ndarray | None
    amount: np.ndarray
    day: np.ndarray
    objective: object
    rules: list

    @property
    def given(self):
        """Arguments of the search, without objective and constraints."""
        return {
            "segments": self.segments,
            "sample_weight": self.weight,
            "amounts": {"a": self.amount},
            "per": {"day": self.day},
        }

    @property
    def rows(self):
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        return [
            (bool(y), Fraction(str(w)), {"a": Fraction(str(a))})
            for y, w, a in zip(self.y, weight.tolist(), self.amount.tolist(), strict=True)
        ]

    def choices(self):
        segments = np.zeros(len(self.y), int) if self.segments is None else self.segments
        return all_choices(self.rows, self.score.tolist(), segments.tolist(), self.day.tolist())


def problem(seed, *, groups=None, objectives=None, rules=None):
    """Draw a problem; the arguments fix the numbers of segments and rules, and the objectives."""
    rng = np.random.default_rng(seed)
    n_segments = int(rng.integers(1, 5)) if groups is None else groups
    rows = int(rng.integers(4, [0, 26, 14, 12, 11][n_segments] + 1))
    score = rng.integers(0, int(rng.integers(2, 20)), rows) / 10
    # negative, huge and subnormal scores, many of them tied
    score = score * rng.choice([1, 1, 1, 1e300, 5e-323]) - rng.choice([0, 0, 1])
    y = rng.random(rows) < rng.uniform(0.15, 0.6)
    if y.all() or not y.any():
        y[0] = not y[0]
    segments = rng.integers(0, n_segments, rows)
    if n_segments > 1 and len(set(segments)) < 2:
        segments[:2] = [0, 1]
    weight = None if rng.random() < 0.5 else rng.choice([1, 2, 0.5, 0.1, 3], rows)
    amount = np.round(rng.normal(3, 5, rows), 2)
    if rng.random() < 0.3:
        amount = np.round(np.abs(amount))
    day = rng.integers(0, 3, rows)
    if objectives is None:
        objectives = OBJECTIVES + (ANYTHING if n_segments == 1 else [])
    objective = objectives[rng.integers(len(objectives))]
    pool = constraints(rng, rows, int(segments[0]), n_segments)
    size = int(rng.integers(0, 4)) if rules is None else rules
    drawn = [pool[rng.integers(len(pool))]() for _ in range(size)]
    return Problem(
        y, score, segments if n_segments > 1 else None, weight, amount, day, objective, drawn
    )


def constraints(rng, rows, segment, n_segments):
    """Makers of constraints of every kind."""

    def some(low, high):
        return round(float(rng.uniform(low, high)), 2)

    def few(high):
        return int(rng.integers(1, high))

    pool = [
        lambda: precision >= some(0.1, 0.9),
        lambda: precision <= some(0.3, 0.9),
        lambda: precision >= 0.123456789123,
        lambda: recall >= some(0.1, 0.9),
        lambda: recall >= 1 / 3,
        lambda: recall <= 0.8,
        lambda: specificity >= 0.5,
        lambda: npv >= 0.6,
        lambda: lift >= 1.1,
        lambda: balanced_accuracy >= 0.5,
        lambda: informedness >= 0.1,
        lambda: fpr <= 0.4,
        lambda: fnr <= 0.7,
        lambda: jaccard >= 0.2,
        lambda: kappa >= 0.1,
        lambda: f1 >= 0.4,
        lambda: tp >= 2 * fp,
        lambda: tp >= fp + 1,
        lambda: fp <= few(5),
        lambda: pp <= few(rows),
        lambda: pp >= few(rows),
        lambda: fn["a"] <= 10,
        lambda: fp["a"] >= 1,
        lambda: tp["a"] / pp >= 1,
        lambda: tp["a"] / (ap["a"] + 1000) >= 0.002,
        lambda: capacity(few(rows) - 1),
        lambda: capacity(few(9) / 2),
        lambda: capacity(few(600) + 100, per=1000),
        lambda: capacity(few(4), per="day"),
        lambda: capacity(2.5, per="day"),
        lambda: each_segment(precision >= some(0.2, 0.7)),
        lambda: each_segment(recall >= some(0.1, 0.6)),
        lambda: each_segment(recall >= specificity),
        lambda: each_segment(pp >= 1),
        lambda: each_segment(fp["a"] <= 5),
        lambda: each_segment(tp["a"] / pp >= 1),
        lambda: each_segment(fp / tp <= 1.5),
        lambda: each_segment(fp / tp >= 0.2),
        lambda: each_segment(gmean >= 0.1),
        lambda: each_segment(mcc >= 0.05),
        lambda: each_segment(markedness >= 0),
        lambda: each_segment(capacity(400, per=1000)),
        lambda: each_segment(threshold <= some(0, 1.5)),
        lambda: max_gap(recall) <= some(0, 0.6),
        lambda: max_gap(precision) <= 0.4,
        lambda: max_gap(pp / n) <= 0.3,
        lambda: max_gap(fp / tp) <= 1.5,
        lambda: max_gap(fn["a"]) <= 6,
        lambda: max_gap(f1) <= some(0, 0.5),
        lambda: max_gap(gmean) <= some(0.1, 0.5),
        lambda: threshold >= some(-1, 1),
        lambda: threshold <= some(-1, 1.5),
    ]
    if n_segments > 1:
        pool += [
            lambda: in_segment(segment, recall >= 0.5),
            lambda: in_segment(segment, capacity(2)),
            lambda: in_segment(segment, fn["a"] <= 3),
            lambda: in_segment(segment, threshold >= 0.3),
        ]
    return pool
