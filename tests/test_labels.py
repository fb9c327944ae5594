import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imbfit._labels import (
    amount_columns,
    check_index,
    column_vector,
    encode_binary,
    encode_labels,
    first_rows,
    row_weights,
)

TRUE = [0, 1, 1, 0, 1, 0]
MASK = np.array(TRUE, bool)


def _words(labels):
    return [("no", "yes")[label] for label in labels]


KINDS = {
    "list": TRUE,
    "int8": np.array(TRUE, np.int8),
    "uint8": np.array(TRUE, np.uint8),
    "bool": MASK,
    "float": np.array(TRUE, float),
    "minus one": 2 * np.array(TRUE) - 1,
    "one and two": np.array(TRUE) + 1,
    "column": np.array(TRUE)[:, None],
    "strings": _words(TRUE),
    "bytes": np.array(_words(TRUE), "S"),
    "object of ints": np.array(TRUE, object),
    "object of bools": np.array(MASK.tolist(), object),
    "object of strings": np.array(_words(TRUE), object),
    "masked array without mask": np.ma.array(TRUE),
    "pandas int": pd.Series(TRUE, index=list("fedcba")),
    "pandas Int64": pd.Series(TRUE, dtype="Int64"),
    "pandas boolean": pd.Series(TRUE, dtype="boolean"),
    "pandas object": pd.Series(TRUE, dtype=object),
    "pandas str": pd.Series(_words(TRUE)),
    "pandas string": pd.Series(_words(TRUE), dtype="string"),
    "pandas category": pd.Series(_words(TRUE), dtype="category"),
    "pandas category of ints": pd.Series(TRUE, dtype="category"),
    "pandas categorical": pd.Categorical(_words(TRUE)),
    "pandas frame": pd.DataFrame({"y": TRUE}),
    "pandas arrow": pd.Series(TRUE, dtype="int64[pyarrow]"),
    "pandas index": pd.Index(TRUE),
    "polars int": pl.Series(TRUE),
    "polars bool": pl.Series(MASK.tolist()),
    "polars str": pl.Series(_words(TRUE)),
    "polars enum": pl.Series(_words(TRUE), dtype=pl.Enum(["yes", "no"])),
    "polars categorical": pl.Series(_words(TRUE), dtype=pl.Categorical),
    "polars frame": pl.DataFrame({"y": TRUE}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_any_kind(kind):
    np.testing.assert_array_equal(encode_binary(KINDS[kind]), MASK)
    truth, guess = encode_labels(KINDS[kind], KINDS[kind])
    for mask in (truth, guess):
        assert mask.dtype == bool
        np.testing.assert_array_equal(mask, MASK)


@pytest.mark.parametrize("kind", KINDS)
def test_pos_label_turns_the_mask_around(kind):
    labels = np.asarray(encode_binary(KINDS[kind]))
    raw = column_vector(KINDS[kind], "y")
    negative = raw[~labels][0]
    np.testing.assert_array_equal(encode_binary(KINDS[kind], pos_label=negative), ~MASK)
    np.testing.assert_array_equal(encode_binary(KINDS[kind], pos_label=raw[labels][0]), MASK)


@pytest.mark.parametrize("kind", ["bool", "float", "object of ints", "pandas Int64", "polars int"])
def test_kinds_of_zero_and_one_match_each_other(kind):
    truth, guess = encode_labels(KINDS[kind], TRUE)
    np.testing.assert_array_equal(truth, guess)


def test_y_pred_may_lack_a_label():
    truth, guess = encode_labels(["yes", "no"], ["no", "no"])
    assert (truth.tolist(), guess.tolist()) == ([True, False], [False, False])
    truth, guess = encode_labels([1, 2], [2, 2])
    assert (truth.tolist(), guess.tolist()) == ([False, True], [True, True])


@pytest.mark.parametrize(
    ("labels", "expected"), [([0, 0], 0), ([1, 1], 1), ([-1, -1], 0), ([1.0], 1), ([True], 1)]
)
def test_one_label_that_says_what_it_is(labels, expected):
    assert encode_binary(labels).tolist() == [bool(expected)] * len(labels)


@pytest.mark.parametrize("labels", [["yes", "yes"], [2, 2], [0.5]])
def test_one_label_that_does_not(labels):
    with pytest.raises(ValueError, match="it can't be told whether it is the positive one"):
        encode_binary(labels)
    assert encode_binary(labels, pos_label=labels[0]).all()


def test_one_label_and_another_pos_label():
    assert not encode_binary(["no", "no"], pos_label="yes").any()
    with pytest.raises(ValueError, match="of another type than the label 1"):
        encode_binary([1, 1], pos_label="1")


@pytest.mark.parametrize("pos_label", ["maybe", 1, True, b"yes"])
def test_pos_label_that_is_no_label(pos_label):
    with pytest.raises(ValueError, match=r"is not a label of y; the labels are \['no', 'yes'\]"):
        encode_binary(_words(TRUE), pos_label=pos_label)


MISSING = {
    "nan": ([0, 1, np.nan], 2),
    "none": (np.array([0, None, 1], object), 1),
    "none among strings": (["yes", None, "no"], 1),
    "nan among strings": (np.array(["yes", "no", np.nan], object), 2),
    "masked": (np.ma.array([0, 1, 1], mask=[0, 0, 1]), 2),
    "pandas Int64": (pd.Series([None, 1, 0], dtype="Int64"), 0),
    "pandas boolean": (pd.Series([True, None, False], dtype="boolean"), 1),
    "pandas str": (pd.Series(["yes", None, "no"]), 1),
    "pandas string": (pd.Series(["yes", None, "no"], dtype="string"), 1),
    "pandas category": (pd.Series(["yes", None, "no"], dtype="category"), 1),
    "polars int": (pl.Series([0, 1, None]), 2),
    "polars str": (pl.Series(["yes", None, "no"]), 1),
    "polars bool": (pl.Series([True, None, False]), 1),
    "NaT": (np.array(["2020-01-01", "NaT", "2020-01-02"], "M8[D]"), 1),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_are_named_on_either_side(kind):
    labels, row = MISSING[kind]
    message = rf"{{}} (has missing labels|is masked) in 1 row \(position {row}\)"
    with pytest.raises(ValueError, match=message.format("y")):
        encode_binary(labels, name="y")
    with pytest.raises(ValueError, match=message.format("y_true")):
        encode_labels(labels, [0, 1, 1])
    with pytest.raises(ValueError, match=message.format("y_pred")):
        encode_labels([0, 1, 1], labels)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "message"),
    [
        ([0, 1, 2], [0, 1, 1], r"y_true has 3 kinds of labels \(0, 1, 2\)"),
        ([0, 1, 1], [0, 1, 2], r"y_pred has 3 kinds of labels \(0, 1, 2\)"),
        ([0, 1], [1, 2], "y_true and y_pred has 3 kinds"),
        ([0, 1], [-1, 1], "y_true and y_pred has 3 kinds"),
        ([0, 1, 1], [0.1, 0.2, 0.3], "cut scores at a threshold"),
        ([0, 1, np.inf], [0, 1, 1], r"kinds of labels \(0.0, 1.0, inf\)"),
        ([0, 1], [0, 1, 1], "y_pred has 3 rows, but there are 2"),
        ([], [], "y_true has no rows"),
        ([0, 1], ["0", "1"], "labels of different types never match"),
        ([True, False], ["True", "False"], "labels of different types never match"),
        (np.array([0, "1"], object), [0, 1], r"y_true mixes labels of types \['int', 'str'\]"),
        ([0, 1], [[0, 1], [1, 0]], r"y_pred has shape \(2, 2\)"),
        ([[1, 0], [1]], [0, 1], "y_true is ragged"),
        (1, [0, 1], r"y_true has shape \(\)"),
        ("ab", [0, 1], r"y_true has shape \(\)"),
        ({"a": 1}, [0, 1], r"y_true has shape \(\)"),
        (list(range(9)), [0] * 9, r"9 kinds of labels \(0, 1, 2, 3, 4, \.\.\.\)"),
    ],
)
def test_labels_that_can_not_be_read(y_true, y_pred, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(y_true, y_pred)


def test_known_classes():
    assert encode_binary(["a", "a"], classes=["b", "a"]).tolist() == [False, False]
    assert encode_binary(["a", "b"], classes=["a", "b"], pos_label="a").tolist() == [True, False]
    assert encode_binary([2, 2], classes=[1, 2]).tolist() == [True, True]
    with pytest.raises(
        ValueError, match=r"labels other than \['a', 'b'\] in 2 rows \(position 0, 2"
    ):
        encode_binary(["c", "a", "d"], classes=["a", "b"])
    with pytest.raises(ValueError, match="classes has 3 kinds"):
        encode_binary(["a"], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="is not a label"):
        encode_binary(["a"], classes=["a", "b"], pos_label="c")


@settings(max_examples=100)
@given(st.lists(st.booleans(), min_size=1), st.sampled_from([(0, 1), (-1, 1), ("a", "b"), (3, 7)]))
def test_any_coding_gives_the_same_mask(mask, coding):
    labels = [coding[flag] for flag in mask]
    assert encode_binary(labels, pos_label=coding[1]).tolist() == mask
    assert encode_binary(labels, pos_label=coding[0]).tolist() == [not flag for flag in mask]


def test_input_is_left_alone():
    for labels in (MASK.copy(), np.array(TRUE), np.array(TRUE, float)):
        before = labels.copy()
        mask = encode_binary(labels)
        mask[:] = True
        np.testing.assert_array_equal(labels, before)


def test_first_rows():
    assert first_rows(np.array([0, 1, 0], bool)) == "1 row (position 1)"
    assert first_rows(np.ones(7, bool)) == "7 rows (position 0, 1, 2, 3, 4, ...)"


@pytest.mark.parametrize(
    "weight",
    [
        [0, 1, 2],
        np.array([0, 1, 2], np.int8),
        np.array([0, 1, 2], object),
        pd.Series([0, 1, 2], dtype="Int64"),
        pl.Series([0, 1, 2]),
        [[0], [1], [2]],
    ],
)
def test_weights(weight):
    checked = row_weights(weight, 3)
    assert checked.dtype == float
    assert checked.tolist() == [0, 1, 2]


def test_no_weights():
    assert row_weights(None, 3) is None


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 1], "sample_weight has 2 rows, but there are 3"),
        (2.0, r"shape \(\)"),
        ([1, -1, -2], r"sample_weight is negative in 2 rows \(position 1, 2\)"),
        ([1, np.nan, 1], r"sample_weight is NaN or infinite in 1 row \(position 1\)"),
        ([1, np.inf, 1], "NaN or infinite"),
        ([1, None, 1], "NaN or infinite"),
        (pd.Series([1, None, 1], dtype="Int64"), r"NaN or infinite in 1 row \(position 1\)"),
        (["1", "1", "1"], r"types \['str'\]; numbers are needed"),
        (np.array(["2020"] * 3, "M8[D]"), "numbers are needed"),
        ([1j, 1, 1], "numbers are needed"),
        ([0, 0, 0], "zero in every row"),
    ],
)
def test_weights_that_can_not_be_used(weight, message):
    with pytest.raises(ValueError, match=message):
        row_weights(weight, 3)


@pytest.mark.parametrize(
    "frame",
    [
        {"amount": [1, -2, 3], "text": ["a", "b", "c"]},
        pd.DataFrame({"amount": [1, -2, 3], "text": ["a", "b", "c"]}),
        pl.DataFrame({"amount": [1, -2, 3], "text": ["a", "b", "c"]}),
    ],
)
def test_only_wanted_amounts_are_read(frame):
    columns = amount_columns(frame, 3, wanted={"amount", "other"})
    assert list(columns) == ["amount"]
    assert columns["amount"].tolist() == [1, -2, 3]
    assert columns["amount"].dtype == float
    with pytest.raises(ValueError, match=r"amounts\['text'\] holds values of types \['str'\]"):
        amount_columns(frame, 3)


@pytest.mark.parametrize(
    ("amounts", "error", "message"),
    [
        ([1, 2, 3], TypeError, "amounts is of type list; give a dict of columns"),
        (pd.Series([1, 2, 3]), TypeError, "of type Series"),
        ({"m": [1, 2]}, ValueError, r"amounts\['m'\] has 2 rows, but there are 3; .*give a frame"),
        (pd.DataFrame({"m": [1, 2]}), ValueError, r"amounts\['m'\] has 2 rows"),
        ({"m": [1, np.nan, 2]}, ValueError, r"amounts\['m'\] is NaN or infinite in 1 row"),
        (pd.DataFrame([[1, 2]] * 3, columns=["m", "m"]), ValueError, "shape"),
    ],
)
def test_amounts_that_can_not_be_used(amounts, error, message):
    with pytest.raises(error, match=message):
        amount_columns(amounts, 3)
    assert amount_columns(None, 3) == {}


def test_index_in_another_order_is_refused():
    truth = pd.Series(TRUE, index=list("abcdef"))
    shuffled = truth.iloc[::-1]
    with pytest.raises(ValueError, match="y_pred has the index labels of y_true in another order"):
        check_index(y_true=truth, y_pred=shuffled)
    with pytest.raises(ValueError, match="amounts has the index labels of y_true"):
        check_index(y_true=truth, y_pred=TRUE, amounts=shuffled.to_frame())
    check_index(y_true=truth, y_pred=truth)
    check_index(y_true=truth, y_pred=truth.reset_index(drop=True))
    check_index(y_true=truth, y_pred=shuffled.to_numpy())
    check_index(y_true=TRUE, y_pred=shuffled, sample_weight=None)
    check_index(y_true=truth, y_pred=shuffled.iloc[:2])
    check_index(y_true=pl.Series(TRUE), y_pred=pl.DataFrame({"a": TRUE}))
    repeated = pd.Series(TRUE, index=list("aabbcc"))
    check_index(y_true=repeated, y_pred=repeated.iloc[::-1])
