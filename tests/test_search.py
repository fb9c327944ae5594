"""The search from rows to thresholds, against trying all choices in fractions."""

import dataclasses
import math
import time
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from oracles import Infinite, best_choice, meets, metric
from random_problems import LINEAR, OBJECTIVES, RATIOS, RISING, down, problem, up

import imbfit.threshold.search
from imbfit import (
    InfeasibleConstraints,
    SearchWarning,
    UnsupportedMetric,
    search_table,
    search_thresholds,
)
from imbfit.metrics import (
    accuracy,
    capacity,
    cost,
    each_segment,
    f1,
    fn,
    fp,
    fpr,
    gmean,
    in_segment,
    max_gap,
    mcc,
    pp,
    precision,
    recall,
    specificity,
    tn,
    tp,
)

BATCH = 100


def search(p, **changes):
    given = {"objective": p.objective, "constraints": p.rules, **p.given, **changes}
    return search_thresholds(p.y, p.score, **given)


def flags(p, found):
    cuts = found.thresholds
    keys = [None] * len(p.y) if p.segments is None else p.segments.tolist()
    return np.array([s >= cuts[key] for s, key in zip(p.score, keys, strict=True)])


def close(a, b):
    return a == b or abs(a - b) <= 1e-9 * max(1.0, abs(b))


def assert_best(p, seed):
    """The answer is the oracle's; returns what kind of answer it was."""
    greater = p.objective.greater_is_better
    choices = p.choices()
    best = best_choice(choices, p.objective, p.rules, greater)
    if best is None:
        with pytest.raises(InfeasibleConstraints):
            search(p)
        return "infeasible"
    found = search(p)
    assert found.status == "optimal", seed
    assert close(found.objective_value, float(best[0])), (seed, found.objective_value, best[0])
    assert found.gap <= 1e-9 * max(1.0, abs(found.objective_value)), seed
    assert found.best_bound == found.objective_value, seed
    # what the thresholds flag is itself a choice that meets everything
    flagged = flags(p, found)
    keys = np.zeros(len(p.y), int) if p.segments is None else p.segments
    for choice in choices:
        cuts = np.array([float(choice.cut[key]) for key in keys.tolist()])
        if ((p.score >= cuts) == flagged).all():
            assert meets(p.rules, choice), seed
            value = float(metric(p.objective, choice.counts, choice.columns, greater))
            assert close(value, float(best[0])), seed
            assert found.counts.tp == pytest.approx(float(choice.counts["tp"]), abs=1e-9)
            assert found.counts.pp == pytest.approx(float(choice.counts["pp"]), abs=1e-9)
            break
    else:
        pytest.fail(f"seed {seed}: the thresholds make none of the possible cuts")
    assert all(line["met"] for line in found.constraint_report), seed
    return "optimal"


@pytest.mark.parametrize("batch", range(40))
def test_all_kinds_against_brute_force(batch):
    kinds = []
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        try:
            kinds.append(assert_best(problem(seed), seed))
        except Infinite:
            # the oracle has no value for a difference of two infinities
            kinds.append("no oracle")
    assert kinds.count("optimal") > 0.7 * BATCH
    assert kinds.count("infeasible") > 2
    assert kinds.count("no oracle") < 0.1 * BATCH


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_each_objective_over_three_segments(objective):
    for seed in range(10):
        p = problem(70_000 + seed, groups=3, objectives=[objective], rules=1)
        assert_best(p, seed)


@pytest.mark.parametrize("kind", ["linear", "ratio", "rising"])
def test_two_coupling_rules_over_two_segments(kind):
    objectives = {"linear": LINEAR, "ratio": RATIOS, "rising": RISING}[kind]
    for seed in range(40):
        p = problem(80_000 + seed, groups=2, objectives=objectives, rules=0)
        rng = np.random.default_rng(seed)
        rules = [
            recall >= round(float(rng.uniform(0.1, 0.8)), 2),
            capacity(int(rng.integers(1, len(p.y)))),
            fp["a"] <= int(rng.integers(1, 10)),
        ]
        assert_best(dataclasses.replace(p, rules=rules[: 2 + seed % 2]), seed)


def test_capacities_per_day_join_one_after_the_other():
    for seed in range(60):
        p = problem(90_000 + seed, groups=2 + seed % 3, objectives=[recall, f1, mcc], rules=0)
        rng = np.random.default_rng(seed)
        days = rng.integers(0, 6, len(p.y))
        p = dataclasses.replace(p, day=days, rules=[capacity(1 + seed % 2, per="day")])
        assert_best(p, seed)


@pytest.mark.parametrize("metric_", [recall, precision, fpr, fp / tp, fn["a"], gmean], ids=str)
def test_gaps_are_branched_on(metric_):
    for seed in range(40):
        p = problem(100_000 + seed, groups=2 + seed % 3, objectives=[accuracy, f1, mcc], rules=0)
        bound = round(float(np.random.default_rng(seed).uniform(0, 0.5)), 2)
        p = dataclasses.replace(p, rules=[max_gap(metric_) <= bound])
        assert_best(p, seed)


def test_two_gaps_at_once():
    for seed in range(40):
        p = problem(110_000 + seed, groups=3, objectives=[accuracy, f1], rules=0)
        rules = [max_gap(recall) <= 0.3, max_gap(fpr) <= 0.2, pp >= 2]
        assert_best(dataclasses.replace(p, rules=rules), seed)


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 1000])
def test_a_gap_that_no_split_by_halves_would_separate(steps):
    # the spread exceeds the bound by its last bits only, so that the middle is an end
    y = [1, 0, 0, 1, 0, 0, 1, 0, 1, 1]
    score = [0.9, 0.8, 0.1, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15]
    segments = [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    bound = 0.75 - steps * float(np.spacing(0.5)) - 1e-12
    found = search_thresholds(
        y, score, objective=up(tp - 0.75 * fp - 2 * pp / 1000), segments=segments,
        constraints=max_gap(recall) <= bound, time_limit=5,
    )  # fmt: skip
    assert found.status == "optimal"
    gap = found.constraint_report[0]["value"]
    assert gap < 0.75


# --------------------------------------------------------------------------------------------
# The same problem, told otherwise


def plain(seed, **given):
    # scores of any size are tried above; here they are moved and scaled
    p = problem(seed, **given)
    rng = np.random.default_rng(seed)
    score = np.round(rng.random(len(p.y)), 1)
    return dataclasses.replace(p, score=score)


def outcome(p, **changes):
    try:
        return search(p, **changes)
    except InfeasibleConstraints:
        return None


def same_value(a, b, factor=1.0):
    assert (a is None) == (b is None)
    if a is not None:
        assert close(factor * a.objective_value, b.objective_value)
        return True
    return False


METAMORPHIC = range(200_000, 200_060)


def test_the_order_of_rows_does_not_matter():
    for seed in METAMORPHIC:
        p = plain(seed)
        order = np.random.default_rng(seed).permutation(len(p.y))
        moved = dataclasses.replace(
            p,
            **{
                name: None if getattr(p, name) is None else getattr(p, name)[order]
                for name in ("y", "score", "segments", "weight", "amount", "day")
            },
        )
        a, b = outcome(p), outcome(moved)
        if same_value(a, b):
            assert a.thresholds == b.thresholds or p.segments is not None


def test_a_row_of_weight_two_is_two_rows_and_of_weight_zero_none():
    for seed in METAMORPHIC:
        p = plain(seed)
        weight = np.random.default_rng(seed).integers(0, 3, len(p.y))
        weight[np.flatnonzero(p.y)[0]] = weight[np.flatnonzero(~p.y)[0]] = 1
        # a constraint may name the first row's segment
        weight[0] = max(1, weight[0])
        weighted = dataclasses.replace(p, weight=weight.astype(float))
        repeated = dataclasses.replace(
            p,
            weight=None,
            y=p.y.repeat(weight),
            score=p.score.repeat(weight),
            segments=None if p.segments is None else p.segments.repeat(weight),
            amount=p.amount.repeat(weight),
            day=p.day.repeat(weight),
        )
        a, b = outcome(weighted), outcome(repeated)
        if same_value(a, b):
            assert a.counts.n == b.counts.n == weight.sum()
            if p.segments is None:
                assert a.thresholds == b.thresholds
                assert (a.counts.tp, a.counts.pp) == (b.counts.tp, b.counts.pp)


def uses_threshold(rules):
    return any("threshold" in str(rule) for rule in rules)


def test_a_rising_transform_of_scores_moves_thresholds_only():
    for seed in METAMORPHIC:
        p = plain(seed)
        if uses_threshold(p.rules):
            continue
        moved = dataclasses.replace(p, score=np.exp(3 * p.score) - 7)
        a, b = outcome(p), outcome(moved)
        if same_value(a, b):
            assert (flags(p, a) == flags(moved, b)).all()
            assert a.counts.tp == b.counts.tp


def test_weights_have_no_unit():
    for seed in METAMORPHIC:
        p = plain(seed, objectives=[f1, mcc, accuracy, gmean, precision], rules=0)
        weight = np.random.default_rng(seed).integers(1, 4, len(p.y)).astype(float)
        rules = [recall >= 0.4, each_segment(precision >= 0.3), capacity(600, per=1000)]
        p = dataclasses.replace(p, weight=weight, rules=rules[: seed % 4])
        a, b = outcome(p), outcome(p, sample_weight=weight * 0.125)
        if same_value(a, b):
            assert (flags(p, a) == flags(p, b)).all()


def test_money_has_no_unit():
    for seed in METAMORPHIC:
        loss = down(5 * fp + fn["a"])
        p = dataclasses.replace(plain(seed, rules=0), objective=loss, rules=[recall >= 0.3])
        cents = down(500 * fp + fn["a"])
        a, b = outcome(p), outcome(p, objective=cents, amounts={"a": p.amount * 100})
        if same_value(a, b, factor=100):
            assert (flags(p, a) == flags(p, b)).all()


def better(a, b, greater):
    """Whether a is better than b, beyond rounding."""
    return not close(a, b) and (a > b if greater else a < b)


def test_another_constraint_never_improves_the_optimum():
    for seed in METAMORPHIC:
        p = plain(seed, rules=2)
        greater = p.objective.greater_is_better
        fewer = outcome(dataclasses.replace(p, rules=p.rules[:1]))
        more = outcome(p)
        if fewer is None:
            assert more is None
        elif more is not None:
            assert not better(more.objective_value, fewer.objective_value, greater)


def test_a_finer_split_never_worsens_the_optimum():
    for seed in METAMORPHIC:
        p = plain(seed, rules=0, groups=2)
        greater = p.objective.greater_is_better
        rules = [[], [recall >= 0.5], [capacity(3)], [precision >= 0.4, recall >= 0.2]][seed % 4]
        p = dataclasses.replace(p, rules=rules)
        coarse = outcome(p)
        finer = outcome(p, segments=p.segments + 2 * (p.day % 2))
        single = outcome(p, segments=None)
        for wide, narrow in ((single, coarse), (coarse, finer)):
            if wide is not None:
                assert not better(wide.objective_value, narrow.objective_value, greater)


def test_the_objective_turned_over_gives_the_same_choice():
    for seed in METAMORPHIC:
        p = plain(seed, objectives=[accuracy, f1, cost(fp=1, fn=3), specificity])
        turned = (-1 * p.objective).named("turned", greater_is_better=False)
        if not p.objective.greater_is_better:
            turned = (-1 * p.objective).named("turned", greater_is_better=True)
        same_value(outcome(p), outcome(p, objective=turned), factor=-1)


# --------------------------------------------------------------------------------------------
# Grids and ready tables


def test_a_grid_of_all_midpoints_is_the_whole_search():
    for seed in METAMORPHIC:
        p = plain(seed)
        if uses_threshold(p.rules):
            continue
        levels = np.unique(p.score)
        grid = np.concatenate([[levels[0] - 1], (levels[1:] + levels[:-1]) / 2])
        a, b = outcome(p), outcome(p, thresholds=grid)
        if same_value(a, b):
            assert set(b.thresholds.values()) <= {*grid.tolist(), math.inf, -math.inf}


def test_a_grid_against_brute_force():
    for seed in METAMORPHIC:
        p = plain(seed, groups=1 + seed % 3)
        if uses_threshold(p.rules):
            continue
        grid = np.unique(np.random.default_rng(seed).random(3).round(2))
        names = range(1 + seed % 3)
        reachable = []
        for choice in p.choices():
            keys = [0] * len(p.y) if p.segments is None else p.segments
            # a choice is on the grid if one of its thresholds makes each segment's cut
            cut = choice.cut
            own = {name: [s for s, k in zip(p.score, keys, strict=True) if k == name]
                   for name in names if name in cut}  # fmt: skip
            if all(
                any(
                    [s >= t for s in scores] == [s >= cut[name] for s in scores]
                    for t in (*grid, math.inf, -math.inf)
                )
                for name, scores in own.items()
            ):
                reachable.append(choice)
        try:
            best = best_choice(reachable, p.objective, p.rules, p.objective.greater_is_better)
        except Infinite:
            continue
        found = outcome(p, thresholds=grid)
        assert (found is None) == (best is None), seed
        if found is not None:
            assert close(found.objective_value, float(best[0])), seed


def test_thresholds_by_number_are_equally_spaced_and_include_the_ends():
    y, score = [0, 1, 0, 1, 1], [0.0, 0.3, 0.4, 0.8, 1.0]
    found = search_thresholds(y, score, thresholds=5)
    assert sorted(found.table()["threshold"]) == [-math.inf, 0, 0.25, 0.5, 0.75, 1, math.inf]
    nobody = search_thresholds(y, score, objective=fpr, thresholds=[0.5])
    assert nobody.threshold == math.inf
    everybody = search_thresholds(y, score, objective=recall, thresholds=[0.5])
    assert everybody.threshold == -math.inf


def as_table(found):
    """The sensitivity table as a frame that search_table reads, with the sums of money."""
    tables = found.tables
    parts = []
    for g, name in enumerate(tables.segments):
        counts = tables.counts(g)
        part = {"threshold": [tables.cut(i) for i in range(*tables.own(g).indices(10**9))]}
        shape = np.shape(counts.tp)
        for cell in ("tp", "fp", "fn", "tn"):
            part[cell] = np.broadcast_to(getattr(counts, cell), shape)
            for column, sums in counts.columns.items():
                part[f"{cell}[{column}]"] = np.broadcast_to(getattr(sums, cell), shape)
        if name is not None:
            part["segment"] = [name] * shape[0]
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def needs_rows(rules):
    return any('per="' in str(rule) or "threshold" in str(rule) for rule in rules)


def test_a_ready_table_gives_the_same_answer():
    tried = 0
    for seed in range(300_000, 300_080):
        p = plain(seed)
        if needs_rows(p.rules):
            continue
        found = outcome(p)
        if found is None:
            continue
        # all columns are read only where the formulas name them
        everything = search(p, objective=up(tp + 0 * tp["a"]), constraints=())
        table = as_table(everything).sample(frac=1, random_state=seed)
        ready = search_table(table, objective=p.objective, constraints=p.rules)
        assert close(ready.objective_value, found.objective_value), seed
        assert ready.status == "optimal"
        if p.segments is None:
            assert ready.thresholds == found.thresholds
        tried += 1
    assert tried > 40


# --------------------------------------------------------------------------------------------
# Large numbers


def brute(p):
    return best_choice(p.choices(), p.objective, p.rules, p.objective.greater_is_better)


@pytest.mark.parametrize(
    "objective",
    [
        down(10**12 * fn["a"] + 10**9 * fp),
        down(fn["a"] + 0.000001 * fp),
        up((10**15 * tp["a"] - fp["a"]) / (pp + 1)),
        up(123456789123456789 * tp - 98765432198765432 * fp),
        down(1e300 * fn + fp),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [1.0, 1e6, 1e12])
def test_coefficients_beyond_64_bits(objective, size):
    for seed in range(8):
        p = problem(400_000 + seed, groups=2 + seed % 2, rules=0)
        amount = np.round(np.random.default_rng(seed).random(len(p.y)) * size)
        rules = [[], [recall >= 0.4], [recall >= 0.4, capacity(6)]][seed % 3]
        p = dataclasses.replace(p, amount=amount, objective=objective, rules=rules, weight=None)
        best = brute(p)
        if best is None:
            continue
        found = search(p)
        exactly = float(best[0])
        assert found.status == "optimal"
        assert found.objective_value == pytest.approx(exactly, rel=1e-12)
        assert found.gap <= 1e-9 * abs(exactly)


def test_differences_in_the_last_of_twenty_digits_decide():
    # the values differ by 1 beside 10^20, which floats don't see
    y = [1, 0, 1, 0, 1, 0]
    score = [0.9, 0.8, 0.7, 0.9, 0.8, 0.7]
    segments = [0, 0, 0, 1, 1, 1]
    objective = up(10**20 * tp + pp)
    found = search_thresholds(y, score, objective=objective, segments=segments)
    assert (found.counts.tp, found.counts.pp) == (3, 6)
    objective = up(10**20 * tp - pp)
    found = search_thresholds(y, score, objective=objective, segments=segments)
    assert (found.counts.tp, found.counts.pp) == (3, 5)
    found = search_thresholds(
        y, score, objective=objective, segments=segments, constraints=[pp <= 4, fp <= 3]
    )
    assert (found.counts.tp, found.counts.pp) == (2, 3)


def test_constraints_beyond_64_bits_stay_hard():
    # weights that no integer scale holds, and a bound of many digits
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = 200
        y, score = rng.random(rows) < 0.3, rng.random(rows)
        weight = rng.random(rows) * 1e3
        bound = float(rng.uniform(0.3, 0.6))
        found = search_thresholds(
            y, score + 0.3 * y, objective=recall, segments=rng.integers(0, 3, rows),
            constraints=[precision >= bound, capacity(float(weight.sum()) / 2)],
            sample_weight=weight,
        )  # fmt: skip
        assert found.counts.tp / found.counts.pp >= bound - 1e-12
        assert found.counts.pp <= weight.sum() / 2 * (1 + 1e-12)
        assert found.status == "optimal"


def test_a_limit_that_nobody_reaches_is_no_limit():
    y, score, segments = [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]
    per = {"day": [1, 1, 2, 2]}
    for rule in (capacity(1e30), pp <= 10**25, capacity(1e30, per="day"), fp >= -1e40):
        found = search_thresholds(
            y, score, objective=recall, segments=segments, constraints=rule, per=per
        )
        assert found.objective_value == 1
    with pytest.raises(InfeasibleConstraints):
        search_thresholds(y, score, segments=segments, constraints=pp >= 10**25)


def test_the_gap_counts_what_rounding_may_have_cost():
    rng = np.random.default_rng(0)
    rows = 400
    y, score, segments = rng.random(rows) < 0.2, rng.random(rows), rng.integers(0, 2, rows)
    plainly = search_thresholds(y, score, segments=segments)
    assert plainly.gap == 0
    # weights of a tenth or a third are meant so
    for weight in (0.1, 1 / 3):
        shares = search_thresholds(y, score, segments=segments, sample_weight=np.full(rows, weight))
        assert shares.gap == 0
    for objective in (f1, cost(fp=1, fn=1000)):
        roots = np.where(rng.random(rows) < 0.5, 2**0.5, 1.0)
        found = search_thresholds(
            y, score, objective=objective, segments=segments, sample_weight=roots
        )
        size = abs(found.objective_value)
        assert 0 < found.gap <= 1e-9 * max(1.0, size)
        error = found.tables.rows.error
        whole = np.rint(roots * float(found.tables.rows.scale)) / float(found.tables.rows.scale)
        assert error >= abs(whole - roots).sum() * (1 - 1e-6)
        if objective != f1:
            # a false negative costs 1000, so its error does too
            assert found.gap >= 2 * 1000 * error


def test_sums_beyond_floats_are_refused():
    y, score = [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]
    with pytest.raises(ValueError, match="add up to more than 1e308"):
        search_thresholds(y, score, objective=down(fn["a"]), amounts={"a": [1e308] * 4})
    amounts = {"a": [1e-310, 2e-310, 3e-310, 4e-310]}
    tiny = search_thresholds(y, score, objective=down(fn["a"] + fp["a"]), amounts=amounts)
    # what is too small to be told apart is counted in the gap
    assert tiny.gap >= tiny.objective_value - 2e-310


# --------------------------------------------------------------------------------------------
# Thresholds


def test_thresholds_lie_between_neighbouring_scores():
    y, score = [0, 0, 1, 1], [0.1, 0.2, 0.6, 0.8]
    assert search_thresholds(y, score).threshold == pytest.approx(0.4)
    for low, high in [(5e-324, 1.5e-323), (1e308, 1.7e308), (-1.7e308, 1.7e308), (-2.0, -1.0)]:
        found = search_thresholds([0, 1], [low, high])
        assert low < found.threshold < high


def test_adjacent_floats_leave_no_room_and_the_higher_is_the_threshold():
    low = 0.1
    high = float(np.nextafter(low, 1))
    found = search_thresholds([0, 1], [low, high])
    assert found.threshold == high
    assert found.counts.tp == 1
    assert found.counts.fp == 0


def test_minus_zero_and_zero_are_one_score():
    found = search_thresholds([0, 1, 0, 1], [-0.0, 0.0, -1.0, 1.0], objective=up(tp - fp))
    assert found.counts.pp in (1, 3)
    assert len(found.tables.above) == 4


def test_nobody_and_everybody_are_infinite():
    y, score = [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]
    assert search_thresholds(y, score, objective=fpr).threshold == math.inf
    assert search_thresholds(y, score, objective=recall, constraints=pp >= 4).threshold == -math.inf


def test_bounds_on_the_threshold_are_kept_by_the_threshold():
    y, score = [0, 0, 1, 1], [0.1, 0.2, 0.6, 0.8]
    for bound, low, high in [
        ("threshold >= 0.5", 0.5, 0.6),
        ("threshold <= 0.25", 0.2, 0.25),
        ("threshold >= 0.9", 0.9, math.inf),
        ("threshold <= 0.1", -math.inf, 0.1),
    ]:
        cut = search_thresholds(y, score, constraints=bound).threshold
        assert low <= cut <= high
    both = ["threshold >= 0.3", "threshold <= 0.3"]
    assert search_thresholds(y, score, constraints=both).threshold == 0.3
    for objective in (recall, fpr):
        # the ends give way to the bound
        bounds = ["threshold >= 0.05", "threshold <= 0.9"]
        assert 0.05 <= search_thresholds(y, score, objective=objective, constraints=bounds
                                         ).threshold <= 0.9  # fmt: skip


def test_equal_values_take_the_highest_threshold():
    y, score = [1, 0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6, 0.5]
    # recall is 1 at the last cut only; accuracy ties
    found = search_thresholds(y, score, objective=up(tp - 1 / 2 * fp))
    counts = found.counts
    assert counts.pp == 5
    tied = search_thresholds([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6], objective=up(tp - fp))
    assert tied.counts.pp == 1


def test_rows_without_a_score_are_never_flagged():
    y = [0, 1, 1, 0, 1]
    score = [0.5, np.nan, 0.7, np.nan, 0.6]
    found = search_thresholds(y, score, objective=recall, nan_policy="negative")
    assert (found.counts.tp, found.counts.pp, found.counts.fn) == (2, 2, 1)
    assert found.threshold > -math.inf or found.counts.pp < 5
    everybody = search_thresholds(
        y, score, objective=recall, nan_policy="negative", constraints=pp >= 3
    )
    # everybody who has a score
    assert everybody.threshold == -math.inf
    assert everybody.counts.pp == 3
    everywhere = search_thresholds(
        y, score, objective=recall, nan_policy="negative", segments=[0, 1, 0, 1, 0]
    )
    assert everywhere.thresholds[1] == math.inf
    table = everywhere.table()
    assert table[table["segment"] == 1]["threshold"].tolist() == [math.inf]


# --------------------------------------------------------------------------------------------
# The last line of defence


def spoiled(monkeypatch, name, change):
    original = getattr(imbfit.threshold.search, name)
    monkeypatch.setattr(
        imbfit.threshold.search, name, lambda *args, **kwargs: change(original(*args, **kwargs))
    )


Y = [0, 1, 0, 1, 1, 0]
SCORE = [0.1, 0.9, 0.3, 0.8, 0.2, 0.7]


def test_the_recount_catches_a_wrong_threshold(monkeypatch):
    from imbfit.threshold.table import CandidateTables

    cut = CandidateTables.cut
    monkeypatch.setattr(CandidateTables, "cut", lambda self, i, **kw: cut(self, i + 1, **kw))
    with pytest.raises(RuntimeError, match=r"counted \w+=\d+ but the rows say \d+"):
        search_thresholds(Y, SCORE)


def test_the_recount_catches_wrong_sums(monkeypatch):
    def off_by_one(tables):
        tables.rows.tp[1:] += 1
        return tables

    spoiled(monkeypatch, "build_tables", off_by_one)
    with pytest.raises(RuntimeError, match="counted"):
        search_thresholds(Y, SCORE)


def test_the_recount_catches_wrong_money(monkeypatch):
    def off_by_one(tables):
        tables.columns["a"].tp[1:] += 1
        return tables

    spoiled(monkeypatch, "build_tables", off_by_one)
    with pytest.raises(RuntimeError, match=r"counted tp\[a\]"):
        search_thresholds(Y, SCORE, objective=down(fn["a"] + fp), amounts={"a": [1.0] * 6})


def test_a_broken_constraint_is_never_returned(monkeypatch):
    def all_allowed(region):
        region.allowed[:] = True
        return region

    spoiled(monkeypatch, "build_region", all_allowed)
    with pytest.raises(RuntimeError, match=r"broke `pp <= 1`"):
        search_thresholds(Y, SCORE, objective=recall, constraints=pp <= 1)


# --------------------------------------------------------------------------------------------
# Time


def hard_problem():
    rng = np.random.default_rng(3)
    rows = 20_000
    y = rng.random(rows) < 0.1
    score = rng.normal(size=rows) + 0.7 * y
    return y, score, rng.integers(0, 40, rows), rng.exponential(100, rows).round(2)


@pytest.mark.parametrize(
    "objective", [down(50 * fp + fn["a"]), f1, mcc, gmean], ids=["money", "f1", "mcc", "gmean"]
)
def test_a_time_limit_gives_a_warning_with_the_gap_or_a_clear_error(objective):
    y, score, segments, amount = hard_problem()
    rules = [recall >= 0.31, fp["a"] <= 40_000, capacity(700)]
    given = {
        "objective": objective, "constraints": rules, "segments": segments,
        "amounts": {"a": amount},
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rushed = search_thresholds(y, score, time_limit=1e-6, **given)
        except InfeasibleConstraints as error:
            assert "time limit" in str(error)  # noqa: PT017  either is fine
            return
    if rushed.status == "optimal":
        assert not caught
        return
    assert rushed.status == "feasible"
    assert [w.category for w in caught] == [SearchWarning]
    assert "time limit came before the proof" in str(caught[0].message)
    assert rushed.gap > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SearchWarning)
        longer = search_thresholds(y, score, time_limit=10, **given)
    sign = 1 if objective.greater_is_better else -1
    # the early bound holds for whatever is found later
    assert sign * longer.objective_value <= sign * rushed.best_bound + 1e-9
    assert sign * rushed.objective_value <= sign * longer.best_bound + 1e-9
    assert rushed.gap >= abs(rushed.best_bound - rushed.objective_value)


def test_a_time_limit_is_kept():
    y, score, segments, amount = hard_problem()
    started = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SearchWarning)
        search_thresholds(
            y, score, objective=mcc, constraints=[fp["a"] <= 40_000, capacity(700)],
            segments=segments, amounts={"a": amount}, time_limit=0.5,
        )  # fmt: skip
    assert time.monotonic() - started < 5


# --------------------------------------------------------------------------------------------
# Input


def net_gain(tp, fp, fn, tn):  # noqa: ARG001  the four are what a callable takes
    return tp - 2 * fp


def test_what_cannot_be_done_over_segments_is_refused_by_name():
    given = {"segments": [0, 0, 0, 1, 1, 1]}
    for objective, named in [
        (up(tp * tn), "tp * tn|multiplies counts"),
        (up(recall**0.5), "recall|power"),
        (down(mcc), "only be maximised|knows"),
    ]:
        with pytest.raises((UnsupportedMetric, ValueError), match=named):
            search_thresholds(Y, SCORE, objective=objective, **given)
        if objective != mcc:
            search_thresholds(Y, SCORE, objective=objective)
    with pytest.raises(UnsupportedMetric, match=r"each_segment"):
        search_thresholds(Y, SCORE, constraints=mcc >= 0.1, **given)
    with pytest.raises(UnsupportedMetric, match=r"negative or positive"):
        search_thresholds(Y, SCORE, objective=up(tp / (pp - 2)), **given)
    with pytest.raises(ValueError, match="one segment only"):
        search_thresholds(Y, SCORE, objective=net_gain, greater_is_better=True, **given)


def test_a_callable_is_an_objective_with_one_segment():
    for seed in range(30):
        p = problem(500_000 + seed, groups=1, rules=1)
        ours = outcome(p, objective=net_gain, greater_is_better=True)
        same_value(ours, outcome(p, objective=up(tp - 2 * fp)))
    with pytest.raises(ValueError, match="greater_is_better"):
        search_thresholds(Y, SCORE, objective=net_gain)


def test_an_unknown_segment_or_column_is_named():
    with pytest.raises(ValueError, match=r"names the segment 7, which is none of 0, 1"):
        search_thresholds(
            Y, SCORE, segments=[0, 0, 0, 1, 1, 1], constraints=in_segment(7, recall >= 0.5)
        )
    with pytest.raises(ValueError, match=r"'day'"):
        search_thresholds(Y, SCORE, constraints=capacity(1, per="day"))
    with pytest.raises(ValueError, match=r"'a'"):
        search_thresholds(Y, SCORE, objective=down(fn["a"]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y_true": [0, 0, 0, 0, 0, 0]}, "one class|both|two classes"),
        ({"y_score": [0.1, 0.2]}, "y_score has 2 rows"),
        ({"y_score": [np.inf, 1, 2, 3, 4, 5]}, "infinite"),
        ({"y_score": [np.nan, 1, 2, 3, 4, 5]}, "NaN"),
        ({"y_score": list("abcdef")}, "numbers"),
        ({"sample_weight": [-1, 1, 1, 1, 1, 1]}, "negative"),
        ({"segments": [1, 2, None, 1, 2, 1]}, "missing"),
        ({"segments": [1, 2]}, "segments has 2 rows"),
        ({"time_limit": 0}, "time_limit"),
        ({"thresholds": []}, "thresholds"),
        ({"thresholds": [np.nan]}, "NaN"),
        ({"thresholds": 0}, "at least 1"),
        ({"thresholds": "some"}, "'all'"),
        ({"infeasible": "ignore"}, "least_violation"),
        ({"nan_policy": "drop"}, "negative"),
        ({"objective": "f3"}, "f3"),
    ],
)
def test_bad_input_says_what_is_wrong(given, message):
    given = {"y_true": Y, "y_score": SCORE} | given
    with pytest.raises(ValueError, match=message):
        search_thresholds(given.pop("y_true"), given.pop("y_score"), **given)


def test_constant_scores_leave_nobody_and_everybody():
    found = search_thresholds(Y, [0.5] * 6)
    assert found.threshold == -math.inf
    assert len(found.table()) == 2


def test_one_threshold_is_asked_of_one_segment_only():
    assert search_thresholds(Y, SCORE).threshold == search_thresholds(Y, SCORE).thresholds[None]
    found = search_thresholds(Y, SCORE, segments=["x"] * 6)
    assert found.segmented
    with pytest.raises(AttributeError, match="thresholds"):
        _ = found.threshold


def test_random_state_repeats():
    y, score, segments, amount = hard_problem()
    given = {
        "objective": down(50 * fp + fn["a"]), "segments": segments[:4000] % 5,
        "constraints": [recall >= 0.31, fp["a"] <= 34_000], "amounts": {"a": amount[:4000]},
    }  # fmt: skip
    values = [
        search_thresholds(y[:4000], score[:4000], random_state=state, **given).objective_value
        for state in (0, 0, 1, np.random.RandomState(0))
    ]
    assert len(set(values)) == 1


def test_verbose_prints_the_steps(capsys):
    search_thresholds(Y, SCORE, segments=[0, 1, 0, 1, 0, 1], verbose=1)
    assert "ratio step 1" in capsys.readouterr().out


def test_weights_of_a_dropped_segment_leave_no_segment():
    found = search_thresholds(
        Y, SCORE, segments=list("aabbcc"), sample_weight=[1, 1, 1, 1, 0, 0], objective=accuracy
    )
    assert list(found.thresholds) == ["a", "b"]
    assert found.counts.n == Fraction(4)


def test_verbose_tells_the_size_the_steps_and_the_end(capsys):
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.2
    score = rng.normal(size=300) + y
    segment = rng.integers(0, 3, 300)
    rules = ["max_gap(recall) <= 0.1", "pp <= 40"]
    search_thresholds(y, score, segments=segment, constraints=rules, verbose=1)
    told = capsys.readouterr().out
    assert "303 candidates in 3 segments, 2 constraints" in told
    assert "ratio step 1" in told
    assert "optimal: 0." in told
    search_thresholds(y, score, segments=segment, constraints=rules)
    assert capsys.readouterr().out == ""
