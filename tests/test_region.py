"""Constraints to crossed-out candidates, rows, groups and gaps."""

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest
from oracles import Choice, Infinite, Part, meets, rule_met
from random_problems import constraints, problem

from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Scope
from imbfit.metrics import (
    capacity,
    each_segment,
    fn,
    fp,
    in_segment,
    max_gap,
    mcc,
    n,
    pp,
    precision,
    recall,
    threshold,
    tn,
    tp,
)
from imbfit.threshold.region import (
    _short_row,
    build_region,
    local_mask,
    plain,
    segment_of,
    threshold_bounds,
)
from imbfit.threshold.table import build_tables


def tables_of(p):
    codes = None if p.segments is None else np.unique(p.segments, return_inverse=True)[1]
    names = (None,) if p.segments is None else tuple(np.unique(p.segments).tolist())
    return build_tables(
        p.y, p.score, segment_codes=codes, segment_names=names, weight=p.weight,
        columns={"a": p.amount}, per={"day": p.day},
    )  # fmt: skip


def allows(region, tables, choice):
    """Whether a choice of candidates is in a region, by all that a search reads of it."""
    if not region.allowed[choice].all():
        return False
    if any(row.usage[choice].sum() > row.limit for row in region.rows):
        return False
    for gap in region.gaps:
        values = gap.value[choice][~np.isnan(gap.value[choice])]
        if len(values) and values.max() - values.min() > gap.most:
            return False
    return all(
        (group.flagged(choice, tables.starts) <= group.limit).all() for group in region.groups
    )


@pytest.mark.parametrize("batch", range(12))
def test_a_region_holds_the_choices_that_meet_the_rules(batch):
    for seed in range(batch * 50, (batch + 1) * 50):
        p = problem(seed, groups=1 + seed % 3, rules=1 + seed % 2)
        tables = tables_of(p)
        region = build_region(p.rules, tables)
        choices = p.choices()
        spans = [
            range(a, b) for a, b in zip(tables.starts[:-1], tables.starts[1:], strict=True)
        ]  # fmt: skip
        for numbers, choice in zip(itertools.product(*spans), choices, strict=True):
            try:
                want = meets(p.rules, choice)
            except Infinite:
                continue
            got = allows(region, tables, np.array(numbers))
            assert got == want, (seed, p.rules, choice.cut)


def test_the_oracle_and_the_rules_differ_where_they_should():
    # the test above could pass if nothing were ever refused
    kept = refused = 0
    for seed in range(60):
        p = problem(seed, groups=2, rules=1)
        for choice in p.choices():
            try:
                ok = meets(p.rules, choice)
            except Infinite:
                continue
            kept, refused = kept + ok, refused + (not ok)
    assert min(kept, refused) > 200


def all_kinds(seed):
    rng = np.random.default_rng(seed)
    return [make() for make in constraints(rng, 12, 0, 2)]


def test_every_kind_of_constraint_is_tried_above():
    kinds = {
        rule.kind if isinstance(rule, Scope) else "whole" for rule in all_kinds(0)
    }  # fmt: skip
    assert kinds == {"whole", "each_segment", "in_segment", "max_gap", "capacity"}


@pytest.mark.parametrize("seed", range(30))
def test_a_mask_of_one_segment_is_the_rule_on_its_counts(seed):
    p = problem(600 + seed, groups=2, rules=0)
    tables = tables_of(p)
    spans = [p.choices()]
    parts = {name: {} for name in tables.segments}
    for choice in spans[0]:
        for name, part in choice.parts.items():
            parts[name][part.cut] = part
    for rule in all_kinds(seed):
        if isinstance(rule, Scope) and (rule.kind != "each_segment" or rule.bound.left is None):
            continue
        inner = rule.constraint if isinstance(rule, Scope) else rule
        for g, name in enumerate(tables.segments):
            mask = local_mask(plain(inner), tables, g)
            for cut, ok in zip(tables.above[tables.own(g)], mask, strict=True):
                part = parts[name][float(cut)]
                assert isinstance(part, Part)
                try:
                    want = rule_met(inner, Choice({name: part}))
                except Infinite:
                    continue
                assert bool(ok) == want, (seed, rule, name, cut)


def test_bounds_on_thresholds_of_all_rules_together():
    p = problem(1, groups=2, rules=0)
    tables = tables_of(p)
    name = tables.segments[1]
    rules = [threshold >= -5, in_segment(name, threshold >= 0.25), each_segment(threshold <= 9)]
    low, high = threshold_bounds(rules, tables)
    assert low.tolist() == [-5, 0.25]
    assert high.tolist() == [9, 9]


def test_rows_beyond_64_bits_are_shortened_and_limits_clamped():
    rng = np.random.default_rng(0)
    rows = 100
    weight = rng.random(rows)
    amount = rng.normal(0, 1, rows)
    codes = rng.integers(0, 3, rows)
    tables = build_tables(
        rng.random(rows) < 0.3, rng.random(rows), segment_codes=codes, segment_names=(0, 1, 2),
        weight=weight, columns={"a": amount},
    )  # fmt: skip
    bound = 0.41421356237
    region = build_region([precision >= bound, fn["a"] + 123.456789 * pp <= 50], tables)
    for row in region.rows:
        worst = np.maximum.reduceat(np.abs(row.usage), tables.starts[:-1])
        assert sum(int(w) for w in worst) < 2**62
        assert row.usage.dtype == np.int64
    for _ in range(400):
        choice = rng.integers(tables.starts[:-1], tables.starts[1:])
        top = Fraction(int(tables.rows.tp[choice].sum()))
        bottom = Fraction(int(tables.rows.pp[choice].sum()))
        slack = top - Fraction(str(bound)) * bottom
        row = region.rows[0]
        got = int(row.usage[choice].sum()) <= row.limit
        # never refused where met; let through only by a part in 2^50
        if slack >= 0:
            assert got
        elif slack < -bottom / 2**50:
            assert not got
    low, high = build_region([pp <= 10**40], tables).rows[0], build_region([pp >= 10**40], tables)
    least = int(np.minimum.reduceat(low.usage, tables.starts[:-1]).sum())
    most = int(np.maximum.reduceat(low.usage, tables.starts[:-1]).sum())
    assert least <= low.limit <= most
    row = high.rows[0]
    assert int(np.minimum.reduceat(row.usage, tables.starts[:-1]).sum()) > row.limit


def test_a_short_row_keeps_the_choices_at_its_limit():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        p = problem(seed, groups=3, rules=0)
        tables = tables_of(p)
        usage = np.array(
            [int(v) << 40 for v in rng.integers(-(2**50), 2**50, int(tables.starts[-1]))], object
        )
        usage += rng.integers(0, 2**40, len(usage)).astype(object)
        choice = rng.integers(tables.starts[:-1], tables.starts[1:])
        limit = sum(int(v) for v in usage[choice])
        row = _short_row(usage, limit, 0, tables)
        assert row.usage.dtype == np.int64
        assert row.usage[choice].sum() <= row.limit
        beyond = _short_row(usage, limit - 2**50, 0, tables)
        assert beyond.usage[choice].sum() > beyond.limit


def test_two_bounds_on_the_threshold_leave_room_for_one():
    kept = 0
    for seed in range(40):
        p = problem(seed, groups=1 + seed % 2, rules=0)
        p = dataclasses.replace(p, score=np.random.default_rng(seed).integers(0, 5, len(p.y)) / 5)
        tables = tables_of(p)
        spans = [
            range(a, b) for a, b in zip(tables.starts[:-1], tables.starts[1:], strict=True)
        ]  # fmt: skip
        for low, high in ((0.3, 0.35), (0.5, 0.5), (0.4, 0.4), (0.45, 0.3), (-1, 0.1), (0.7, 9)):
            rules = [threshold >= low, each_segment(threshold <= high)]
            region = build_region(rules, tables)
            for numbers, choice in zip(itertools.product(*spans), p.choices(), strict=True):
                want = all(
                    low <= high and max(low, np.nextafter(part.below, np.inf))
                    <= min(high, part.cut)
                    for part in choice.parts.values()
                )  # fmt: skip
                assert allows(region, tables, np.array(numbers)) == want
                kept += want
    assert kept > 50


def test_what_couples_segments_and_is_no_row_is_refused_by_name():
    tables = tables_of(problem(1, groups=2, rules=0))
    with pytest.raises(UnsupportedMetric, match=r"mcc >= 0.1.*each_segment\(mcc >= 0.1\)"):
        build_region([mcc >= 0.1], tables)
    with pytest.raises(UnsupportedMetric, match=r"multiplies counts"):
        build_region([precision * recall >= 0.1], tables)
    with pytest.raises(UnsupportedMetric, match=r"negative or positive"):
        build_region([tp / (pp - 2) >= 0.1], tables)
    one = tables_of(problem(1, groups=1, rules=0))
    build_region([mcc >= 0.1, precision * recall >= 0.1, tp / (pp - 2) >= 0.1], one)


def test_denominators_of_either_sign():
    p = problem(3, groups=2, rules=0)
    tables = tables_of(p)
    for rule in (tp / (0 - pp - 1) <= -0.2, (0 - fp) / (0 - tn - 5) <= 0.3):
        region = build_region([rule], tables)
        spans = [
            range(a, b) for a, b in zip(tables.starts[:-1], tables.starts[1:], strict=True)
        ]  # fmt: skip
        for numbers, choice in zip(itertools.product(*spans), p.choices(), strict=True):
            assert allows(region, tables, np.array(numbers)) == rule_met(rule, choice)


def test_segments_are_found_by_value_and_type():
    p = problem(2, groups=2, rules=0)
    tables = tables_of(p)
    assert segment_of(in_segment(np.int64(1), recall >= 0), tables.segments) == 1
    assert segment_of(in_segment(1.0, recall >= 0), tables.segments) == 1
    with pytest.raises(ValueError, match=r"names the segment '1'"):
        segment_of(in_segment("1", recall >= 0), tables.segments)


def test_a_capacity_per_rows_and_per_day_reads_its_column():
    tables = tables_of(problem(2, groups=2, rules=0))
    assert plain(capacity(200, per=1000)) == (1000 * pp <= 200 * n)
    assert plain(each_segment(capacity(2))) == (pp <= 2)
    with pytest.raises(ValueError, match=r"'week'; columns given: 'day'"):
        build_region([capacity(3, per="week")], tables)
    region = build_region([capacity(1e30, per="day")], tables)
    assert region.allowed.all()
    # everyone of a day in one segment: this segment alone can break the capacity
    region = build_region([capacity(0, per="day")], tables)
    assert region.allowed.sum() == len(tables.segments)


def test_infinite_gaps_are_equal_to_each_other_only():
    tables = tables_of(problem(4, groups=2, rules=0))
    gap = build_region([max_gap(fp / tp) <= 0.5], tables).gaps[0]
    assert np.isfinite(gap.value[~np.isnan(gap.value)]).all()
    assert (
        build_region([max_gap(recall) <= 0.5], tables_of(problem(4, groups=1, rules=0))).gaps == []
    )
