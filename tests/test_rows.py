"""Expressions to exact ratios and integer rows."""

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Infinite, Undefined, exact
from random_problems import ANYTHING, LINEAR, RATIOS

from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Constraint
from imbfit.metrics import (
    ap,
    f1,
    fn,
    fp,
    gmean,
    kappa,
    mcc,
    n,
    pp,
    precision,
    recall,
    sqrt,
    tn,
    tp,
)
from imbfit.threshold.rows import (
    Affine,
    affine_pair,
    as_fraction,
    constraint_ratio,
    to_ratio,
)
from imbfit.threshold.solving import at
from imbfit.threshold.table import build_tables

SEEDS = range(20)


def tables_of(seed, n_segments=2):
    rng = np.random.default_rng(seed)
    rows = 12
    positive = rng.random(rows) < 0.4
    positive[:2] = [True, False]
    codes = rng.integers(0, n_segments, rows)
    codes[:n_segments] = range(n_segments)
    return build_tables(
        positive, rng.integers(0, 6, rows) / 5, segment_codes=codes,
        segment_names=tuple(range(n_segments)),
        weight=None if seed % 2 else rng.choice([0.5, 1, 3], rows),
        columns={"a": rng.normal(0, 5, rows).round(2)},
    )  # fmt: skip


def exact_counts(tables, choice):
    def of(sums):
        scale = sums.scale
        return {
            "tp": sum(int(v) for v in sums.tp[choice]) / scale,
            "pp": sum(int(v) for v in sums.pp[choice]) / scale,
            "ap": int(sums.ap.sum()) / scale,
            "n": int(sums.n.sum()) / scale,
        }

    return of(tables.rows), {name: of(sums) for name, sums in tables.columns.items()}


def some_choice(tables, rng):
    return np.array([rng.integers(a, b) for a, b in zip(tables.starts[:-1], tables.starts[1:],
                                                        strict=True)])  # fmt: skip


# a computed float such as 1/3 is read as the fraction that it came from, see below
AS_WRITTEN = [e for e in [*LINEAR, *RATIOS] if not re.search(r"\.\d{12}", str(e))]


@pytest.mark.parametrize("expr", AS_WRITTEN, ids=str)
def test_the_integer_ratio_is_the_formula(expr):
    for seed in SEEDS:
        tables = tables_of(seed)
        choice = some_choice(tables, np.random.default_rng(seed))
        counts, columns = exact_counts(tables, choice)
        pair = affine_pair(to_ratio(expr, tables.columns), tables, None)
        assert pair is not None
        numerator, denominator, scale = pair
        top, bottom = at(numerator, tables, choice), at(denominator, tables, choice)
        try:
            want = exact(expr, counts, columns)
        except Undefined:
            assert bottom == 0
            assert top == 0 or expr.spelling is None
        except Infinite as infinite:
            assert bottom == 0
            assert (scale * top > 0) == (infinite.sign > 0)  # noqa: PT017  x/0 is a value too
        else:
            assert scale * Fraction(top, bottom) == want


@pytest.mark.parametrize("expr", ANYTHING[:2] + ANYTHING[4:], ids=str)
def test_products_of_unknowns_are_not_affine(expr):
    tables = tables_of(0)
    assert affine_pair(to_ratio(expr, tables.columns), tables, None) is None


@pytest.mark.parametrize(
    ("expr", "culprit"),
    [
        (mcc, r"\*\* 0.5|sqrt|power"),
        (gmean + 1, "gmean|power"),
        (3 * recall + sqrt(precision) / 2, r"precision|power"),
        (tp / (pp - pp), "zero"),
        ((tp + 1) ** 21, "power"),
    ],
    ids=str,
)
def test_what_stands_in_the_way_is_named(expr, culprit):
    with pytest.raises(UnsupportedMetric, match=culprit):
        to_ratio(expr)


@pytest.mark.parametrize("sense", [">=", "<="])
def test_a_constraint_is_a_sign(sense):
    for seed in SEEDS:
        tables = tables_of(seed)
        rng = np.random.default_rng(seed)
        choice = some_choice(tables, rng)
        counts, columns = exact_counts(tables, choice)
        bound = round(float(rng.uniform(-1, 2)), 3)
        for expr in (precision, recall, kappa, f1, fn["a"] / n, tp / (fp + 1)):
            rule = Constraint(expr, sense, 0 * tp + bound)
            pair = affine_pair(constraint_ratio(rule, tables.columns), tables, None)
            top, bottom = at(pair[0], tables, choice), at(pair[1], tables, choice)
            assert bottom >= 0
            assert pair[2] > 0
            try:
                left = exact(expr, counts, columns)
            except Undefined:
                # an empty ratio meets every bound
                assert top >= 0
                continue
            right = Fraction(str(bound))
            assert (top >= 0) == (left >= right if sense == ">=" else left <= right)


def test_numbers_are_the_decimals_that_were_written():
    assert as_fraction(0.9) == Fraction(9, 10)
    assert as_fraction(3) == 3
    assert as_fraction(1e-7) == Fraction(1, 10**7)
    assert as_fraction(Fraction(1, 3)) == Fraction(1, 3)
    # and computed floats the fractions that they came from
    assert as_fraction(1 / 3) == Fraction(1, 3)
    assert as_fraction(2 / 7) == Fraction(2, 7)
    assert as_fraction(-5 / 3) == Fraction(-5, 3)


@settings(max_examples=300)
@given(st.floats(-1e6, 1e6))
def test_reading_a_float_changes_it_by_less_than_its_last_digits(x):
    assert abs(as_fraction(x) - Fraction(x)) <= abs(Fraction(x)) / 10**14 + Fraction(1, 10**16)


def test_short_integers_where_they_are_safe_and_long_ones_where_not():
    tables = tables_of(1)
    everything = slice(0, int(tables.starts[-1]))
    tp_, pp_ = ("tp", None), ("pp", None)
    short = Affine(7, {tp_: 3, pp_: -2})
    values = short.values(tables, everything)
    assert values.dtype == np.int64
    want = 7 + 3 * tables.rows.tp - 2 * tables.rows.pp
    assert (values == want).all()
    assert (short.values(tables, everything, constant=False) == want - 7).all()
    long = Affine(10**30, {tp_: 10**25})
    with pytest.raises(OverflowError):
        long.values(tables, everything)
    exactly = long.exact(tables, everything)
    assert exactly.dtype == object
    assert exactly.tolist() == [10**30 + 10**25 * int(v) for v in tables.rows.tp]
    # a constant that is left out does not count
    assert Affine(10**30, {tp_: 1}).values(tables, everything, constant=False).dtype == np.int64
    # the guard is for the sum of the terms, not for each
    half = 2**61 // int(tables.rows.pp.max()) + 1
    with pytest.raises(OverflowError):
        Affine(0, {pp_: half, tp_: half * int(tables.rows.pp.max())}).values(tables, everything)


def test_known_sums_are_those_of_the_scope():
    tables = tables_of(3)
    share = pp / n
    for g in (0, 1):
        numerator, denominator, scale = affine_pair(to_ratio(share), tables, g)
        assert not denominator.coefficients
        own = tables.own(g)
        values = numerator.values(tables, own)
        want = [Fraction(int(v), int(tables.rows.n[g])) for v in tables.rows.pp[own]]
        assert [scale * int(v) / denominator.constant for v in values] == want
    whole = affine_pair(to_ratio(ap / n + tn / n), tables, None)
    assert whole is not None
