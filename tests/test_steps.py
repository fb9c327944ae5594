"""Many rows: steps, HiGHS' proposals, ordered flags, and capacities per group."""

import itertools

import numpy as np
import pytest

from imbfit import search_thresholds
from imbfit.metrics import capacity, fn, fp
from imbfit.threshold import cpsat, selection
from imbfit.threshold.core import Core
from imbfit.threshold.cpsat import solve_core
from imbfit.threshold.selection import Selection, select
from imbfit.threshold.steps import make_steps, propose, relax
from imbfit.threshold.table import build_tables


def many_rows(seed, n_segments=4, width=7, n_rows=12):
    """A problem whose rows grow along each segment, by little, as days fill up."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, width, n_segments)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    value = rng.integers(-20, 40, starts[-1])
    value = np.concatenate([np.cumsum(part) for part in np.split(value, starts[1:-1])])
    usage = []
    for _ in range(n_rows):
        steps = rng.integers(0, 3, starts[-1])
        usage.append(np.concatenate([np.cumsum(p) for p in np.split(steps, starts[1:-1])]))
    low = [sum(int(row[a:b].min()) for a, b in itertools.pairwise(starts)) for row in usage]
    limits = [v + int(rng.integers(-1 if seed % 5 == 0 else 0, 9)) for v in low]
    return starts, value, usage, limits


def brute(starts, value, usage, limits):
    best = None
    for choice in itertools.product(*(range(a, b) for a, b in itertools.pairwise(starts))):
        picked = list(choice)
        if all(row[picked].sum() <= limit for row, limit in zip(usage, limits, strict=True)):
            reached = int(value[picked].sum())
            best = reached if best is None else max(best, reached)
    return best


def core_of(starts, value, usage, limits):
    zero = np.zeros(len(value))
    return Core(starts, value, zero, usage, limits, np.zeros(len(limits)))


@pytest.mark.parametrize("batch", range(6))
def test_select_with_many_rows_equals_brute_force(batch):
    for seed in range(batch * 40, batch * 40 + 40):
        starts, value, usage, limits = many_rows(seed)
        want = brute(starts, value, usage, limits)
        problem = Selection(
            starts, value.astype(float), lambda i, v=value: v[i], 0.0, usage, limits
        )
        got = select(problem)
        if want is None:
            assert got.status == "infeasible", seed
            continue
        assert (got.status, got.value) == ("optimal", want), seed
        assert value[got.choice].sum() == want
        assert all(r[got.choice].sum() <= b for r, b in zip(usage, limits, strict=True)), seed


def test_a_target_that_nothing_exceeds_is_infeasible():
    for seed in range(30):
        starts, value, usage, limits = many_rows(seed)
        want = brute(starts, value, usage, limits)
        problem = Selection(
            starts, value.astype(float), lambda i, v=value: v[i], 0.0, usage, limits
        )
        if want is None:
            continue
        beyond = select(problem, target=want)
        assert beyond.choice is None or beyond.value <= want
        assert beyond.bound <= want + 1e-6
        assert select(problem, target=want - 1).value == want


def test_the_proposal_and_the_relaxation_bound_the_best_choice():
    for seed in range(1, 60):
        starts, value, usage, limits = many_rows(seed)
        want = brute(starts, value, usage, limits)
        if want is None:
            continue
        core = core_of(starts, value, usage, limits)
        steps = make_steps(core)
        if len(steps.to) == 0:
            continue
        choice, bound = propose(steps, starts, seconds=10)
        assert bound >= want
        assert value[choice].sum() == want, seed
        multipliers = relax(steps, seconds=10)
        priced = value - sum(m * row for m, row in zip(multipliers, usage, strict=True))
        upper = multipliers @ np.array(limits) + np.maximum.reduceat(priced, starts[:-1]).sum()
        assert upper >= want - 1e-6


def test_ordered_flags_and_one_flag_per_candidate_agree(monkeypatch):
    for seed in range(40):
        core = core_of(*many_rows(seed))
        monkeypatch.setattr(cpsat, "_MANY_ROWS", 8)
        choice, bound, status = solve_core(core)
        monkeypatch.setattr(cpsat, "_MANY_ROWS", 10**9)
        other, other_bound, other_status = solve_core(core)
        assert status == other_status
        if choice is not None:
            assert core.value[choice].sum() == core.value[other].sum() == bound == other_bound


def days_problem(seed, n=400, n_segments=3, n_days=15):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.2
    score = np.round(y * 0.8 + rng.normal(size=n), 1)
    segment = rng.integers(0, n_segments, n)
    day = rng.integers(0, n_days, n)
    weight = None if seed % 2 else rng.choice([0.5, 1.0, 2.0], n)
    return y, score, segment, day, weight


def best_by_enumeration(problem, amount, limit):
    y, score, segment, day, weight = problem
    weight = np.ones(len(y)) if weight is None else weight
    options = [[np.inf, *np.unique(score[segment == g])[::-1]] for g in np.unique(segment)]
    best = np.inf
    for cuts in itertools.product(*options):
        flagged = score >= np.array(cuts)[segment]
        if np.bincount(day, weight * flagged).max() <= limit:
            lost = 5 * (weight * (flagged & ~y)).sum() + (weight * amount * (y & ~flagged)).sum()
            best = min(best, lost)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_a_capacity_on_each_day_equals_enumeration(seed, monkeypatch):
    problem = days_problem(seed, n=150, n_days=12)
    y, score, segment, day, weight = problem
    amount = np.round(np.random.default_rng(seed).lognormal(3, 1, len(y)), 2)
    limit = 4
    want = best_by_enumeration(problem, amount, limit)
    for largest in (60_000_000, 0):  # all rows at once, and rows that join when they are broken
        monkeypatch.setattr("imbfit.threshold.solving._LARGEST_TABLE", largest)
        found = search_thresholds(
            y,
            score,
            objective=5 * fp + fn["amount"],
            greater_is_better=False,
            constraints=capacity(limit, per="day"),
            segments=segment,
            amounts={"amount": amount},
            per={"day": day},
            sample_weight=weight,
        )
        assert found.status == "optimal"
        assert found.objective_value == pytest.approx(want, rel=1e-12)
        assert found.constraint_report[0]["met"]


def test_the_table_of_groups_equals_their_single_rows():
    y, score, segment, day, weight = days_problem(0)
    from imbfit.metrics import as_rules
    from imbfit.threshold.region import build_region

    tables = build_tables(
        y, score, segment_codes=segment, segment_names=(0, 1, 2), weight=weight, per={"day": day}
    )
    capacities = build_region(as_rules(capacity(9, per="day")), tables).groups[0]
    rng = np.random.default_rng(0)
    keep = rng.random(tables.starts[-1]) < 0.4
    keep[tables.starts[:-1]] = True
    kept = np.flatnonzero(keep)
    table = capacities.table(kept, tables.starts)
    for code in range(len(capacities.groups.names)):
        np.testing.assert_array_equal(table[code], capacities.usage(code, tables.starts)[kept])


def test_many_rows_are_reached_at_all():
    # the tests above would say nothing if the small problems took another way
    assert selection.MANY_ROWS < 12
