import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from imbfit.confusion import Confusion
from imbfit.expressions import COUNTS


def _random(seed, rows=200):
    rng = np.random.default_rng(seed)
    return rng.random(rows) < 0.3, rng.random(rows) < 0.4, rng.gamma(0.5, size=rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_agree_with_scikit_learn(weighted):
    for seed in range(20):
        positive, flagged, weight = _random(seed)
        weight = weight if weighted else None
        counts = Confusion.from_flags(positive, flagged, weight=weight)
        matrix = confusion_matrix(positive, flagged, sample_weight=weight)
        cells = [[counts.tn, counts.fp], [counts.fn, counts.tp]]
        np.testing.assert_allclose(cells, matrix, rtol=1e-12)


def test_derived_counts_are_sums_of_cells():
    positive, flagged, weight = _random(0)
    for counts in (
        Confusion.from_flags(positive, flagged),
        Confusion.from_flags(positive, flagged, weight=weight),
        Confusion(tp=3, pp=5, ap=4, n=100),
        Confusion(*map(Fraction, (3, 5, 4, 100))),
        Confusion(np.array([0, 3]), np.array([0, 5]), 4, 100),
    ):
        for total, parts in {
            "pp": ("tp", "fp"),
            "pn": ("fn", "tn"),
            "ap": ("tp", "fn"),
            "an": ("fp", "tn"),
            "n": ("tp", "fp", "fn", "tn"),
        }.items():
            parts_sum = sum(getattr(counts, part) for part in parts)
            whole = np.asarray(getattr(counts, total), float)
            np.testing.assert_allclose(whole, np.asarray(parts_sum, float), rtol=1e-12)


def test_columns_are_summed_over_the_cells_times_the_weight():
    positive, flagged, weight = _random(1)
    money = np.random.default_rng(2).normal(size=len(weight))
    counts = Confusion.from_flags(positive, flagged, weight=weight, columns={"m": money})
    masks = {
        "tp": positive & flagged,
        "fp": ~positive & flagged,
        "fn": positive & ~flagged,
        "tn": ~positive & ~flagged,
        "pp": flagged,
        "pn": ~flagged,
        "ap": positive,
        "an": ~positive,
        "n": np.full(len(money), fill_value=True),
    }
    assert set(masks) == set(COUNTS)
    for count, mask in masks.items():
        expected = (money * weight)[mask].sum()
        assert getattr(counts.columns["m"], count) == pytest.approx(expected, rel=1e-10), count


@settings(max_examples=100)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 4)), min_size=1))
def test_a_weight_is_a_number_of_copies(rows):
    positive, flagged, weight = (np.array(part) for part in zip(*rows, strict=True))
    copies = Confusion.from_flags(np.repeat(positive, weight), np.repeat(flagged, weight))
    weighted = Confusion.from_flags(positive, flagged, weight=weight.astype(float))
    for count in COUNTS:
        assert getattr(weighted, count) == getattr(copies, count)


def test_a_small_cell_survives_beside_a_large_one():
    positive, flagged = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)
    money = np.array([1e17, 1.0, 2.0, 3.0])
    for counts in (
        Confusion.from_flags(positive, flagged, weight=money),
        Confusion.from_flags(positive, flagged, columns={"m": money}).columns["m"],
    ):
        for read in (counts, counts.as_floats()):
            cells = [read.tp, read.fn, read.fp, read.tn]
            assert cells == money.tolist()
            assert (read.pn, read.an) == (4.0, 5.0)


@pytest.mark.parametrize("absent", ["tp", "fp", "fn", "tn"])
def test_a_cell_without_rows_is_exactly_zero(absent):
    for seed in range(50):
        positive, flagged, weight = _random(seed, rows=40)
        own = {
            "tp": positive & flagged,
            "fp": ~positive & flagged,
            "fn": positive & ~flagged,
            "tn": ~positive & ~flagged,
        }
        keep = ~own[absent]
        counts = Confusion.from_flags(positive[keep], flagged[keep], weight=weight[keep])
        assert getattr(counts, absent) == 0
        assert min(counts.tp, counts.fp, counts.fn, counts.tn) >= 0


@pytest.mark.parametrize("total", ["pp", "pn", "ap", "an"])
def test_a_total_without_rows_is_exactly_zero(total):
    for seed in range(50):
        positive, flagged, weight = _random(seed, rows=40)
        keep = {"pp": ~flagged, "pn": flagged, "ap": ~positive, "an": positive}[total]
        counts = Confusion.from_flags(positive[keep], flagged[keep], weight=weight[keep])
        assert getattr(counts, total) == 0


def test_as_floats_keeps_the_numbers_and_the_columns():
    counts = Confusion(3, 5, 4, 100, {"m": Confusion(1, 2, 3, 4)}).as_floats()
    assert counts.columns["m"].tn == 0
    for count in COUNTS:
        assert getattr(counts, count).dtype == float
    assert (counts.fp, counts.fn, counts.tn) == (2, 1, 94)


def test_frozen_and_picklable():
    positive, flagged, weight = _random(3)
    counts = Confusion.from_flags(positive, flagged, weight=weight, columns={"m": weight})
    again = pickle.loads(pickle.dumps(counts))
    assert again == counts
    assert (again.fp, again.columns["m"].fn) == (counts.fp, counts.columns["m"].fn)
    with pytest.raises(dataclasses.FrozenInstanceError):
        counts.tp = 3


def test_from_cells_takes_numbers_and_arrays():
    tp, fp, fn, tn = np.arange(12.0).reshape(4, 3)
    counts = Confusion.from_cells(tp, fp, fn, tn, {"m": Confusion.from_cells(1, 2, 3, 4)})
    np.testing.assert_array_equal(counts.n, tp + fp + fn + tn)
    np.testing.assert_array_equal(counts.as_floats().pn, fn + tn)
    assert repr(Confusion.from_cells(1, 2, 3, 4)) == repr(Confusion(1, 3, 4, 10))
    assert (counts.columns["m"].an, counts.as_floats().columns["m"].ap) == (6, 4)
