"""Segment values to numbers."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

from imbfit.threshold.segments import encode_segments

KINDS = [
    ["b", "a", "b", "c"],
    [3, 1, 3, 7],
    [-(10**12), 5, 10**12, 5],
    [0.5, -0.25, 0.5, 1.0],
    [True, False, True, True],
    [("a", 1), ("b", 1), ("a", 2), ("a", 1)],
    [dt.date(2024, 1, 2), dt.date(2024, 1, 1)] * 2,
]


@pytest.mark.parametrize("values", KINDS, ids=str)
def test_each_row_finds_its_value_again(values):
    codes, names = encode_segments(values, 4)
    assert [names[code] for code in codes] == values
    assert list(names) == sorted(set(values))
    assert all(type(name) is type(values[0]) for name in names)


@pytest.mark.parametrize(
    "wrap",
    [
        np.array,
        pd.Series,
        lambda v: pd.Series(v, dtype="category"),
        lambda v: pd.Series(v, dtype="string"),
        pl.Series,
        lambda v: pd.DataFrame({"s": v}),
        lambda v: np.array(v).reshape(-1, 1),
        lambda v: np.array(v, object),
    ],
)
def test_any_container(wrap):
    codes, names = encode_segments(wrap(["b", "a", "b"]), 3)
    assert (codes.tolist(), names) == ([1, 0, 1], ("a", "b"))


@pytest.mark.parametrize("wrap", [pd.DataFrame, pl.DataFrame])
def test_several_columns_make_tuples(wrap):
    frame = wrap({"country": ["DE", "FR", "DE", "FR"], "grade": [1, 2, 2, 2]})
    codes, names = encode_segments(frame, 4)
    assert [names[c] for c in codes] == [("DE", 1), ("FR", 2), ("DE", 2), ("FR", 2)]
    assert len(names) == 3
    codes, names = encode_segments(np.array([[1, 2], [1, 3], [1, 2]]), 3)
    assert (codes.tolist(), names) == ([0, 1, 0], ((1, 2), (1, 3)))


def test_dates_keep_their_type():
    days = np.array(["2024-01-02", "2024-01-01"], "datetime64[D]")
    codes, names = encode_segments(days, 2)
    assert codes.tolist() == [1, 0]
    assert names == tuple(np.sort(days))


def test_values_that_cannot_be_sorted_still_number():
    codes, names = encode_segments(np.array(["a", 1, "a", (2, 3)], object), 4)
    assert [names[c] for c in codes] == ["a", 1, "a", (2, 3)]


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, np.uint8, np.int8])
def test_whole_numbers_at_the_ends_of_their_type(dtype):
    info = np.iinfo(dtype)
    for values in ([info.max, info.max - 1], [info.min, info.min + 1], [info.min, info.max]):
        codes, names = encode_segments(np.array(values, dtype), 2)
        assert [names[c] for c in codes] == values


def test_no_segments():
    assert encode_segments(None, 7) == (None, (None,))


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "b"],
        [1.0, np.nan, 2.0],
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        np.array(["2024-01-01", "NaT", "2024-01-02"], "datetime64[D]"),
        pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "y"]}),
        [("a", 1), ("b", None), ("c", 2)],
    ],
    ids=str,
)
def test_a_missing_segment_is_named_by_its_row(values):
    with pytest.raises(ValueError, match=r"missing in 1 row \(position 1\)"):
        encode_segments(values, 3)


def test_lengths_and_shapes():
    with pytest.raises(ValueError, match="segments has 2 rows, but there are 3"):
        encode_segments([1, 2], 3)
    with pytest.raises(ValueError, match="segments has 2 rows, but there are 3"):
        encode_segments(np.ones((2, 2)), 3)
    with pytest.raises(ValueError, match="shape"):
        encode_segments(np.ones((2, 2, 2)), 2)
    with pytest.raises(ValueError, match="days"):
        encode_segments([1, 2], 3, what="days")
