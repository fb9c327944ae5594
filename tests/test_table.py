"""Rows to candidate tables."""

import math
from fractions import Fraction

import numpy as np
import pytest

from imbfit.threshold.table import build_tables, to_integers


def random_rows(seed):
    rng = np.random.default_rng(seed)
    rows, n_segments = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    codes = rng.integers(0, n_segments, rows)
    score = rng.integers(0, int(rng.integers(1, 12)), rows) / 4.0
    if seed % 3 == 0:
        score[rng.random(rows) < 0.3] = -np.inf
    return {
        "positive": rng.random(rows) < 0.4,
        "score": score,
        "codes": codes,
        "n_segments": n_segments,
        "weight": None if seed % 2 else rng.choice([0.5, 1, 2, 0.1], rows),
        "amount": rng.normal(0, 10, rows).round(2),
        "day": rng.integers(0, 3, rows),
    }


def build(r, **given):
    return build_tables(
        r["positive"], r["score"], segment_codes=r["codes"],
        segment_names=tuple(range(r["n_segments"])), weight=r["weight"],
        columns={"a": r["amount"]}, per={"day": r["day"]}, **given,
    )  # fmt: skip


def by_hand(values, mask):
    """Sum of decimals over a mask."""
    return sum((Fraction(str(v)) for v, m in zip(values, mask, strict=True) if m), Fraction(0))


@pytest.mark.parametrize("seed", range(60))
def test_each_candidate_counts_the_rows_at_or_above_its_score(seed):
    r = random_rows(seed)
    tables = build(r)
    weight = np.ones(len(r["score"])) if r["weight"] is None else r["weight"]
    money = [Fraction(str(w)) * Fraction(str(a)) for w, a in zip(weight, r["amount"], strict=True)]
    for g in range(r["n_segments"]):
        mine = r["codes"] == g
        finite = np.unique(r["score"][mine & np.isfinite(r["score"])])[::-1]
        own = tables.own(g)
        assert tables.above[own].tolist() == [math.inf, *finite]
        assert tables.below[own].tolist() == [*finite, -math.inf]
        for at, cut in zip(range(own.start, own.stop), tables.above[own], strict=True):
            flagged = mine & (r["score"] >= cut)
            hit = flagged & r["positive"]
            for sums, values in ((tables.rows, weight), (tables.columns["a"], money)):
                scale = sums.scale
                if sums.error:
                    continue
                assert sums.pp[at] == by_hand(values, flagged) * scale
                assert sums.tp[at] == by_hand(values, hit) * scale
                assert sums.n[g] == by_hand(values, mine) * scale
                assert sums.ap[g] == by_hand(values, mine & r["positive"]) * scale


@pytest.mark.parametrize("seed", range(30))
def test_real_counts_have_exact_zeros(seed):
    r = random_rows(seed)
    tables = build(r)
    for g in range(r["n_segments"]):
        counts = tables.counts(g)
        mine = r["codes"] == g
        for i, cut in enumerate(tables.above[tables.own(g)]):
            flagged = r["score"] >= cut
            cells = {
                "tp": mine & flagged & r["positive"], "fp": mine & flagged & ~r["positive"],
                "fn": mine & ~flagged & r["positive"], "tn": mine & ~flagged & ~r["positive"],
            }  # fmt: skip
            weight = np.ones(len(mine)) if r["weight"] is None else r["weight"]
            for cell, mask in cells.items():
                got = float(np.broadcast_to(getattr(counts, cell), counts.tp.shape)[i])
                assert got == pytest.approx(float(weight[mask].sum()), abs=1e-12)
                assert (got == 0) == (not mask.any())


@pytest.mark.parametrize("seed", range(30))
def test_groups_know_the_first_candidate_that_flags_each_row(seed):
    r = random_rows(seed)
    tables = build(r)
    groups = tables.groups["day"]
    assert groups.names.tolist() == sorted(set(r["day"].tolist()))
    # rows come sorted; their multiset of (segment, score, day) is what counts
    seen = sorted(
        (float(tables.above[c]) if c < tables.starts[-1] else -math.inf, int(groups.names[k]))
        for c, k in zip(groups.candidate, groups.code, strict=True)
    )
    assert seen == sorted(zip(r["score"].tolist(), r["day"].tolist(), strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_a_grid_keeps_what_its_thresholds_flag(seed):
    r = random_rows(seed)
    grid = np.random.default_rng(seed).choice([-1.0, 0.1, 0.25, 0.5, 0.6, 0.6, 1.1, 9.0], 4)
    whole, tables = build(r), build(r, grid=grid)
    cuts = [math.inf, *np.unique(grid)[::-1], -math.inf]
    day = tables.groups["day"]
    for g in range(r["n_segments"]):
        own = tables.own(g)
        assert tables.grid[own].tolist() == cuts
        assert [tables.cut(i) for i in range(own.start, own.stop)] == cuts
        for at, cut in zip(range(own.start, own.stop), cuts, strict=True):
            flagged = (r["codes"] == g) & (r["score"] >= cut) & np.isfinite(r["score"])
            weight = np.ones(len(flagged)) if r["weight"] is None else r["weight"]
            assert tables.rows.pp[at] == by_hand(weight, flagged) * tables.rows.scale
            reached = (day.candidate >= own.start) & (day.candidate <= at)
            assert reached.sum() == flagged.sum()
    assert tables.rows.n.tolist() == whole.rows.n.tolist()


def test_cuts_are_midpoints_and_the_ends_infinite():
    tables = build_tables(np.array([True, False, True]), np.array([1.0, 2.0, 4.0]))
    assert [tables.cut(i) for i in range(4)] == [math.inf, 3.0, 1.5, -math.inf]
    # a user's bounds move a cut inside them, and ends become finite
    assert tables.cut(0, highest=10.0) == 7.0
    assert tables.cut(1, lowest=3.5) == 3.75
    assert tables.cut(1, lowest=4.0) == 4.0
    assert tables.cut(1, highest=2.5) == 2.25
    assert tables.cut(3, lowest=0.0) == 0.5
    assert tables.cut(3, lowest=-5.0, highest=-5.0) == -5.0
    assert tables.cut(0, lowest=6.0) == math.inf
    assert tables.cut(3, highest=0.0) == -math.inf


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_separates_its_scores_whatever_they_are(seed):
    rng = np.random.default_rng(seed)
    kinds = [
        rng.integers(-9, 9, 8) * 5e-324,
        rng.uniform(-1, 1, 8) * 1.7e308,
        np.nextafter(0.1, 1) + np.arange(8) * np.spacing(0.1),
        rng.normal(0, 1, 8),
        np.array([-0.0, 0.0, 5e-324, -5e-324, 1, -1, 1.7e308, -1.7e308]),
    ]
    score = kinds[seed % len(kinds)]
    tables = build_tables(rng.random(len(score)) < 0.5, score)
    for i, (above, below) in enumerate(zip(tables.above, tables.below, strict=True)):
        cut = tables.cut(i)
        assert ((score >= cut) == (score >= above)).all()
        room = math.isfinite(above) and math.isfinite(below)
        if room and np.nextafter(below, above) < above:
            assert below < cut < above


def test_a_segment_of_rows_that_cannot_be_flagged_has_nobody_only():
    tables = build_tables(
        np.array([True, False, True]), np.array([-np.inf, 1.0, -np.inf]),
        segment_codes=np.array([0, 1, 0]), segment_names=("a", "b"),
    )  # fmt: skip
    assert tables.starts.tolist() == [0, 1, 3]
    assert tables.cut(0) == math.inf
    assert tables.rows.ap.tolist() == [2, 0]


# --------------------------------------------------------------------------------------------
# Integers


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 2, 3], 1),
        ([0.1, 0.2, 0.3], 10),
        ([12.99, 1e6], 100),
        ([0.5, 0.25], 100),
        ([2.0**-30, 1.0], 2**30),
        ([1e-9, 1.0], 10**9),
        ([0.0], 1),
        ([-3.5, 2.5], 10),
    ],
)
def test_decimals_and_binary_fractions_are_exact(values, scale):
    whole, found, error = to_integers(np.array(values, float))
    assert (found, error) == (scale, 0.0)
    assert [Fraction(int(w)) / scale for w in whole] == [
        Fraction(str(v)) if scale % 10 == 0 or scale == 1 else Fraction(v) for v in values
    ]


@pytest.mark.parametrize("seed", range(40))
def test_the_error_of_other_numbers_is_counted(seed):
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.integers(-250, 250)
    values = rng.normal(0, size, 30)
    whole, scale, error = to_integers(values)
    lost = sum(
        abs(Fraction(int(w)) / scale - Fraction(float(v)))
        for w, v in zip(whole, values, strict=True)
    )
    assert lost <= Fraction(error) * (1 + Fraction(1, 10**9))
    # a billionth of the total, as promised
    assert 0 < error <= 1e-9 * np.abs(values).sum()
    # sums stay exact in floats
    assert np.abs(whole).astype(object).sum() <= 2**52 + len(values)


def test_roots_of_a_million_rows():
    whole, scale, error = to_integers(np.full(1_000_000, 2**0.5))
    assert 0 < error < 1e-9 * 1_414_213
    assert abs(float(Fraction(int(whole.sum())) / scale) - 1e6 * 2**0.5) <= error * 1.001


@pytest.mark.parametrize("shares", [[3], [7, 1], [2, 3, 4, 5], [49], [7, 8, 9, 11]])
def test_equal_shares_of_a_row_are_exact(shares):
    # each row is there as often as it has shares, and all of them make one
    values = np.concatenate([np.full(k, 1 / k) for k in shares for _ in range(9)])
    whole, scale, error = to_integers(values)
    assert error == 0
    assert whole.sum() == 9 * len(shares) * scale


def test_a_value_that_a_sample_of_rows_does_not_show():
    # the scale is guessed from some rows and verified on all
    values = np.ones(5000)
    values[3] = 0.125
    whole, scale, error = to_integers(values)
    assert error == 0
    assert Fraction(int(whole[3])) / scale == Fraction(1, 8)


def test_numbers_at_the_ends_of_floats():
    with pytest.raises(ValueError, match="more than 1e308"):
        to_integers(np.array([1e308, 1e308]))
    _, scale, error = to_integers(np.array([1e-310, 3e-310]))
    assert math.isfinite(float(scale))
    assert error <= 4e-310
