"""Named problems on simulated scores. A name never changes what it means: add a new one instead.

The score of a row is the inverse logit of ``z + signal * positive - 4 + a shift of its segment``,
with z standard normal; segments differ in prevalence, in score level and in how much money a row is
worth.
Limits are given relative to the drawn data, so that a smaller draw of the same problem is like it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from imbfit.metrics import (
    Constraint,
    Expr,
    Scope,
    balanced_accuracy,
    capacity,
    each_segment,
    f1,
    fp,
    gmean,
    kappa,
    max_gap,
    mcc,
    pp,
    precision,
    recall,
    tp,
)

Rules = list[Constraint | Scope]

gain = (41 * tp - pp).named("gain", greater_is_better=True)
saved = (tp["amount"] - 2 * pp).named("saved", greater_is_better=True)
reviews = (1 * pp).named("reviews", greater_is_better=False)


@dataclass(frozen=True)
class Data:
    """Scored rows."""

    positive: np.ndarray
    score: np.ndarray
    segment: np.ndarray | None = None
    amount: np.ndarray | None = None
    day: np.ndarray | None = None
    weight: np.ndarray | None = None

    @property
    def n_positive(self) -> float:
        """Positive rows, or their weight."""
        return float(
            self.positive.sum() if self.weight is None else self.weight[self.positive].sum()
        )

    @property
    def blocked(self) -> float:
        """Amounts of all negative rows."""
        assert self.amount is not None
        return float(self.amount[~self.positive].sum())


@dataclass(frozen=True)
class Simulation:
    """How scored rows are drawn.

    Attributes
    ----------
    rows, segments : int
        How many.
    prevalence : float
        Of the typical segment.
    signal : float
        Distance of positives from negatives in standard deviations of the score's logit.
    unlike : float
        How much segments differ: 0 for segments of one distribution.
    copies : bool
        Whether every segment holds the very same rows.
    decimals : int or None
        Scores are rounded to so many, which ties them.
    amounts, weights : bool
        Whether rows have amounts with two decimals, or weights with two decimals.
    days : int
        Number of days, 0 for none.
    seed : int
        Of the draw.
    """

    rows: int = 1_000_000
    segments: int = 1
    prevalence: float = 0.002
    signal: float = 2.0
    unlike: float = 1.0
    copies: bool = False
    decimals: int | None = None
    amounts: bool = False
    weights: bool = False
    days: int = 0
    seed: int = 0

    def draw(self) -> Data:
        """Draw the rows, in little more memory than they take."""
        rng = np.random.default_rng(self.seed)
        distinct = self.rows // self.segments if self.copies else self.rows
        groups = 1 if self.copies else self.segments
        segment = rng.integers(0, groups, distinct, dtype=np.int32)
        level = rng.normal(0, 0.3 * self.unlike, groups)
        rate = self.prevalence * np.exp(rng.normal(0, 0.5 * self.unlike, groups))
        worth = rng.normal(0, 0.5 * self.unlike, groups)
        positive = rng.random(distinct, dtype=np.float32) < rate[segment]
        score = rng.standard_normal(distinct)
        score[positive] += self.signal
        score += level[segment]
        score -= 4
        # the inverse logit in place
        np.negative(score, out=score)
        np.exp(score, out=score)
        score += 1
        np.reciprocal(score, out=score)
        if self.decimals is not None:
            np.round(score, self.decimals, out=score)
        amount = weight = day = None
        if self.amounts:
            amount = np.round(np.exp(rng.normal(3, 1, distinct) + worth[segment]), 2)
        if self.weights:
            weight = np.round(rng.uniform(0.5, 5, distinct), 2)
        if self.days:
            day = rng.integers(0, self.days, distinct, dtype=np.int32)
        if self.copies:
            segment = np.repeat(np.arange(self.segments, dtype=np.int32), distinct)
            positive, score = np.tile(positive, self.segments), np.tile(score, self.segments)
        one = self.segments == 1
        return Data(positive, score, None if one else segment, amount, day, weight)


def _free(_: Data) -> Rules:
    return []


@dataclass(frozen=True)
class Problem:
    """An objective, constraints, and how the rows are drawn.

    Attributes
    ----------
    name, what : str
        Its name, and a line for reports.
    simulation : Simulation
        How the rows are drawn.
    objective : Expr
        What is optimised.
    constraints : callable
        ``constraints(data)`` lists them.
    local : Constraint or None
        The one that holds in each segment; it is added to the others.
    binds : bool
        Whether each constraint on the whole costs something (checked by leaving it out).
    seconds : float or None
        The target, after scoring, on one thread.
    gap : float
        Largest gap, relative to the value, that counts as solved; 0 asks for a proof.
    memory : float or None
        Target of the peak memory of a process that draws the rows and searches, in GB.
    """

    name: str
    what: str
    simulation: Simulation
    objective: Expr
    constraints: Callable[[Data], Rules] = field(default=_free)
    local: Constraint | None = None
    binds: bool = False
    seconds: float | None = None
    gap: float = 0.0
    memory: float | None = None

    def rules(self, data: Data) -> Rules:
        """All constraints."""
        local = [] if self.local is None else [each_segment(self.local)]
        return [*local, *self.constraints(data)]

    def arguments(self, data: Data) -> dict[str, Any]:
        """What :func:`imbfit.search_thresholds` takes after labels and scores."""
        return {
            "objective": self.objective,
            "constraints": self.rules(data),
            "segments": data.segment,
            "amounts": None if data.amount is None else {"amount": data.amount},
            "per": None if data.day is None else {"day": data.day},
            "sample_weight": data.weight,
        }

    def smaller(self, rows: int) -> Problem:
        """The same problem with at most so many rows, and fewer segments."""
        full = self.simulation
        if full.rows <= rows:
            return self
        segments = max(1, min(full.segments, rows // 2000))
        prevalence = max(full.prevalence, 0.01)
        drawn = replace(full, rows=rows, segments=segments, prevalence=prevalence)
        return replace(self, simulation=drawn)


def _flagged(share: float) -> Callable[[Data], Rules]:
    """At most so many flagged, as a share of the number of positives."""
    return lambda data: [pp <= int(share * data.n_positive)]


def _flagged_and_blocked(share: float, money: float) -> Callable[[Data], Rules]:
    """Also, at most such a share of the negatives' money is held up."""
    return lambda data: [
        pp <= int(share * data.n_positive),
        fp["amount"] <= round(money * data.blocked),
    ]


def _money_rows(data: Data) -> Rules:
    caught = tp["amount"] >= round(0.45 * float(data.amount[data.positive].sum()))  # type: ignore[index]
    return [*_flagged_and_blocked(1.6, 0.045)(data), caught]


def _per_day(data: Data) -> Rules:
    assert data.day is not None
    return [capacity(int(0.9 * data.n_positive / (data.day.max() + 1)), per="day")]


S = Simulation
TARGETS = [
    Problem("one_f1", "F1, one segment", S(), f1),
    Problem(
        "linear_50",
        "41 tp - pp, 50 segments, flagged <= positives",
        S(segments=50, prevalence=0.05),
        gain,
        _flagged(1),
        precision >= 0.3,
        binds=True,
        seconds=0.5,
    ),
    Problem(
        "linear_500",
        "41 tp - pp, 500 segments, flagged <= positives",
        S(segments=500, prevalence=0.02),
        gain,
        _flagged(1),
        precision >= 0.3,
        binds=True,
        seconds=0.5,
    ),
    Problem(
        "f1_500",
        "F1 over the whole, 500 segments, flagged <= half the positives",
        S(segments=500, prevalence=0.02),
        f1,
        _flagged(0.5),
        precision >= 0.3,
        binds=True,
        seconds=1.5,
    ),
    Problem(
        "money_50",
        "money per row, 50 segments, bounds on flagged rows and on money held up",
        S(segments=50, prevalence=0.05, amounts=True),
        saved,
        _flagged_and_blocked(1.2, 0.0415),
        precision >= 0.2,
        binds=True,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "money_500",
        "money per row, 500 segments, bounds on flagged rows and on money held up",
        S(segments=500, prevalence=0.02, amounts=True),
        saved,
        _flagged_and_blocked(1, 0.0172),
        precision >= 0.2,
        binds=True,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "mcc_50",
        "MCC over the whole, 50 segments, flagged <= half the positives",
        S(segments=50, prevalence=0.05),
        mcc,
        _flagged(0.5),
        precision >= 0.3,
        binds=True,
        seconds=60,
    ),
    Problem(
        "linear_1000",
        "41 tp - pp, 1000 segments, 1e7 rows, flagged <= positives",
        S(rows=10_000_000, segments=1000, prevalence=0.01),
        gain,
        _flagged(1),
        precision >= 0.3,
        binds=True,
        seconds=8,
        memory=2.0,
    ),
]

HARD = [
    Problem(
        "linear_50_tight",
        "flagged <= a tenth of the positives",
        S(segments=50, prevalence=0.05),
        gain,
        _flagged(0.1),
        precision >= 0.3,
        binds=True,
        seconds=0.5,
    ),
    Problem(
        "linear_500_tight",
        "flagged <= a tenth of the positives",
        S(segments=500, prevalence=0.02),
        gain,
        _flagged(0.1),
        precision >= 0.3,
        binds=True,
        seconds=0.5,
    ),
    Problem(
        "linear_500_alike",
        "segments of one distribution",
        S(segments=500, prevalence=0.02, unlike=0),
        gain,
        _flagged(0.7),
        precision >= 0.3,
        binds=True,
        seconds=0.5,
    ),
    Problem(
        "linear_50_copies",
        "every segment holds the same rows",
        S(segments=50, prevalence=0.05, copies=True),
        gain,
        _flagged(0.7),
        precision >= 0.3,
        binds=True,
        seconds=0.5,
    ),
    Problem(
        "linear_500_ties",
        "scores with three decimals",
        S(segments=500, prevalence=0.02, decimals=3),
        gain,
        _flagged(0.9),
        precision >= 0.3,
        binds=True,
        seconds=0.5,
    ),
    Problem(
        "linear_50_weights",
        "rows with weights of two decimals",
        S(segments=50, prevalence=0.05, weights=True),
        gain,
        _flagged(0.9),
        precision >= 0.3,
        binds=True,
        seconds=1,
    ),
    Problem(
        "linear_500_days",
        "a capacity on each of 30 days",
        S(segments=500, prevalence=0.02, days=30),
        gain,
        _per_day,
        precision >= 0.3,
        seconds=60,
    ),
    Problem(
        "linear_50_days",
        "a capacity on each of 30 days",
        S(segments=50, prevalence=0.02, days=30),
        gain,
        _per_day,
        precision >= 0.3,
        seconds=60,
    ),
    Problem(
        "reviews_500",
        "fewest reviews for a recall of 0.6",
        S(segments=500, prevalence=0.02),
        reviews,
        lambda _: [recall >= 0.6],
        precision >= 0.05,
        binds=True,
        seconds=0.5,
    ),
    Problem(
        "f1_500_free",
        "F1 without constraints",
        S(segments=500, prevalence=0.02),
        f1,
        seconds=1.5,
    ),
    Problem(
        "f1_500_recall",
        "F1, recall at least 0.5",
        S(segments=500, prevalence=0.02),
        f1,
        lambda _: [recall >= 0.5],
        precision >= 0.1,
        binds=True,
        seconds=1.5,
    ),
    Problem(
        "kappa_500",
        "kappa, flagged <= half the positives",
        S(segments=500, prevalence=0.02),
        kappa,
        _flagged(0.5),
        precision >= 0.3,
        binds=True,
        seconds=1.5,
    ),
    Problem(
        "money_50_one_slack",
        "the bound on flagged rows is slack",
        S(segments=50, prevalence=0.05, amounts=True),
        saved,
        _flagged_and_blocked(1.8, 0.04),
        precision >= 0.2,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "money_500_one_slack",
        "the bound on flagged rows is slack",
        S(segments=500, prevalence=0.02, amounts=True),
        saved,
        _flagged_and_blocked(1.45, 0.02),
        precision >= 0.2,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "money_50_tight",
        "few flagged rows and little money held up",
        S(segments=50, prevalence=0.05, amounts=True),
        saved,
        _flagged_and_blocked(0.44, 0.0117),
        precision >= 0.2,
        binds=True,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "money_500_tight",
        "few flagged rows and little money held up",
        S(segments=500, prevalence=0.02, amounts=True),
        saved,
        _flagged_and_blocked(0.37, 0.0053),
        precision >= 0.2,
        binds=True,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "money_50_alike",
        "segments of one distribution",
        S(segments=50, prevalence=0.05, amounts=True, unlike=0),
        saved,
        _flagged_and_blocked(0.51, 0.00825),
        precision >= 0.2,
        binds=True,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "money_500_three_rows",
        "also, 45% of the fraud by value is caught",
        S(segments=500, prevalence=0.02, amounts=True),
        saved,
        _money_rows,
        precision >= 0.2,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "money_50_weights",
        "rows with weights of two decimals",
        S(segments=50, prevalence=0.05, amounts=True, weights=True),
        saved,
        _flagged_and_blocked(1.14, 0.107),
        precision >= 0.2,
        binds=True,
        seconds=5,
        gap=1e-6,
    ),
    Problem(
        "mcc_50_free",
        "MCC without constraints",
        S(segments=50, prevalence=0.05),
        mcc,
        seconds=60,
    ),
    Problem(
        "mcc_500",
        "MCC, 500 segments, flagged <= half the positives",
        S(segments=500, prevalence=0.02),
        mcc,
        _flagged(0.5),
        precision >= 0.3,
        binds=True,
        seconds=60,
    ),
    Problem(
        "gmean_50",
        "G-mean, flagged <= twice the positives",
        S(segments=50, prevalence=0.05),
        gmean,
        _flagged(2),
        precision >= 0.1,
        binds=True,
        seconds=60,
    ),
    Problem(
        "fair_8",
        "F1, recalls at most 0.02 apart in 8 segments",
        S(segments=8, prevalence=0.05),
        f1,
        lambda _: [max_gap(recall) <= 0.02],
        seconds=60,
    ),
    Problem(
        "fair_50",
        "F1, recalls at most 0.02 apart in 50 segments, flagged <= half the positives",
        S(segments=50, prevalence=0.05),
        f1,
        lambda data: [max_gap(recall) <= 0.02, *_flagged(0.5)(data)],
        seconds=60,
    ),
]

PARITY = [
    Problem(
        "parity_4",
        "balanced accuracy, recalls at most 0.02 apart in 4 segments, 1e5 rows",
        S(rows=100_000, segments=4, prevalence=0.05),
        balanced_accuracy,
        lambda _: [max_gap(recall) <= 0.02],
        seconds=5,
    ),
]

PROBLEMS = {problem.name: problem for problem in [*TARGETS, *HARD, *PARITY]}
