"""What every door of the package shares: labels, weights and per-row columns, checked once."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def column_vector(values: Any, name: str) -> np.ndarray:
    """Return `values` as a one-dimensional array, or say what came."""
    try:
        array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name} is ragged; one value per row is needed") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"{name} has shape {array.shape}; one value per row is needed, shape (n_rows,)"
        )
    if np.ma.is_masked(values):
        masked = np.ma.getmaskarray(values).reshape(len(array))
        raise ValueError(f"{name} is masked in {first_rows(masked)}; drop these rows")
    return np.asarray(array)


def check_length(array: np.ndarray, rows: int, name: str) -> None:
    """Raise if `array` has not one entry per row."""
    if len(array) != rows:
        raise ValueError(f"{name} has {len(array)} rows, but there are {rows}; they must align")


def check_index(**named: Any) -> None:
    """Raise if pandas objects hold the same index labels in another order.

    Rows are matched by position everywhere. Different labels are no fault (a prediction has none
    of its own), but the same labels in another order mean that the rows were shuffled apart.
    """
    indexed = [
        (name, thing.index)
        for name, thing in named.items()
        if hasattr(getattr(thing, "index", None), "equals")
    ]
    for name, index in indexed[1:]:
        first, reference = indexed[0]
        if len(index) != len(reference) or index.equals(reference):
            continue
        if index.is_unique and reference.is_unique and index.isin(reference).all():
            raise ValueError(
                f"{name} has the index labels of {first} in another order, but rows are matched by "
                f"position; write {name}.loc[{first}.index], or drop the index by to_numpy()"
            )


def first_rows(mask: np.ndarray, most: int = 5) -> str:
    """Name the first rows of a mask, for error messages."""
    rows = np.flatnonzero(mask)
    shown = ", ".join(map(str, rows[:most])) + (", ..." if len(rows) > most else "")
    return f"{len(rows)} row{'s' if len(rows) != 1 else ''} (position {shown})"


def positive_label(classes: np.ndarray, pos_label: Any) -> Any:
    """Return the positive of two sorted classes: `pos_label`, or the last one."""
    if pos_label is None:
        return classes[-1]
    if not isinstance(pos_label, (str, bytes)) and np.ndim(pos_label) != 0:
        raise ValueError(
            f"pos_label={pos_label!r} is not one label; the labels are {classes.tolist()}"
        )
    for label in classes:
        if _is_text(label) == _is_text(pos_label) and label == pos_label:
            return label
    raise ValueError(
        f"pos_label={pos_label!r} is not a label of y; the labels are {classes.tolist()}"
    )


def encode_binary(
    y: Any, *, pos_label: Any = None, name: str = "y_true", classes: Any = None
) -> np.ndarray:
    """Return a mask of the positive rows of binary labels.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        At most two kinds of labels, none missing.
    pos_label : label, default=None
        The positive label; None takes 1 of {0, 1} or {-1, 1}, else the last of the sorted two.
    name : str
        What errors call `y`.
    classes : array-like, default=None
        The labels that may occur, where the caller knows them.

    Returns
    -------
    ndarray of bool, shape (n_rows,)
    """
    array = _labels(y, name)
    if classes is None and _is_zero_one(array) and _is_one(pos_label):
        return np.asarray(array == 1)
    found = distinct(array, name)
    if classes is None:
        return np.asarray(array == _positive(found, pos_label, name), bool)
    allowed = distinct(_labels(classes, "classes"), "classes")
    if len(allowed) > 2:
        raise ValueError(_too_many(allowed, "classes"))
    unknown = ~np.isin(array, allowed)
    if unknown.any():
        raise ValueError(
            f"{name} has labels other than {allowed.tolist()} in {first_rows(unknown)}"
        )
    return np.asarray(array == positive_label(allowed, pos_label), bool)


def encode_labels(
    y_true: Any, y_pred: Any, *, pos_label: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of the positive rows of true and of predicted labels, read alike."""
    truth, guess = column_vector(y_true, "y_true"), column_vector(y_pred, "y_pred")
    check_length(guess, len(truth), "y_pred")
    truth, guess = _labels(y_true, "y_true"), _labels(y_pred, "y_pred")
    if _is_one(pos_label) and _is_zero_one(truth) and _is_zero_one(guess):
        return np.asarray(truth == 1), np.asarray(guess == 1)
    kinds = [distinct(truth, "y_true"), distinct(guess, "y_pred")]
    for found, name in zip(kinds, ("y_true", "y_pred"), strict=True):
        if len(found) > 2:
            raise ValueError(_too_many(found, name))
    if _is_text(kinds[0][0]) != _is_text(kinds[1][0]):
        raise ValueError(
            f"y_true holds {kinds[0].tolist()} and y_pred {kinds[1].tolist()}: labels of "
            "different types never match; use the same labels in both"
        )
    both = distinct(np.concatenate(kinds), "y_true and y_pred")
    positive = _positive(both, pos_label, "y_true and y_pred")
    return np.asarray(truth == positive, bool), np.asarray(guess == positive, bool)


def _labels(y: Any, name: str) -> np.ndarray:
    array = column_vector(y, name)
    if len(array) == 0:
        raise ValueError(f"{name} has no rows; at least one is needed")
    missing = np.zeros(len(array), bool)
    if array.dtype.kind in "fcmM":
        missing = array != array  # noqa: PLR0124  NaN and NaT differ from themselves
    elif array.dtype == object:
        missing = np.fromiter(map(is_missing, array), bool, len(array))
    if missing.any():
        raise ValueError(f"{name} has missing labels in {first_rows(missing)}; drop these rows")
    if array.dtype == object and all(
        issubclass(kind, (numbers.Real, np.bool_)) for kind in set(map(type, array))
    ):
        array = np.asarray(array.tolist())
    return array


def check_comparable(y: Any, name: str) -> None:
    """Raise if labels that are Python objects are missing somewhere, or of types without an order.

    Other faults of `y` are left to whoever reads it next.
    """
    array = y.to_numpy() if hasattr(y, "to_numpy") else y
    if not isinstance(array, np.ndarray):
        try:
            array = np.asarray(array)
        except ValueError:  # rows of different lengths
            return
    if array.dtype != object or array.ndim == 0 or array.size != len(array):
        return
    array = array.ravel()
    missing = np.fromiter(map(is_missing, array), bool, len(array))
    if missing.any():
        raise ValueError(f"{name} has no label in {first_rows(missing)}; drop these rows")
    distinct(array, name)


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT or NA."""
    if label is None:
        return True
    try:
        return bool(label != label)  # noqa: PLR0124
    except (TypeError, ValueError):  # pandas.NA has no truth value, and an array has several
        return True


def _is_text(label: Any) -> bool:
    return isinstance(label, (str, bytes))


def _is_zero_one(array: np.ndarray) -> bool:
    # the usual case, without a sort of a million labels
    return array.dtype == bool or (
        array.dtype.kind in "iu" and bool(array.min() >= 0) and bool(array.max() <= 1)
    )


def _is_one(pos_label: Any) -> bool:
    return pos_label is None or (isinstance(pos_label, numbers.Real) and pos_label == 1)


def distinct(array: np.ndarray, name: str) -> np.ndarray:
    """Return the kinds of labels, sorted, or say that they can't be."""
    try:
        return np.unique(array)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in array})
        raise ValueError(f"{name} mixes labels of types {kinds}; use one type") from None


def _positive(found: np.ndarray, pos_label: Any, name: str) -> Any:
    if len(found) > 2:
        raise ValueError(_too_many(found, name))
    if len(found) == 2:
        return positive_label(found, pos_label)
    if pos_label is not None:
        if _is_text(found[0]) != _is_text(pos_label):
            raise ValueError(
                f"pos_label={pos_label!r} is of another type than the label {found.tolist()[0]!r} "
                f"of {name}"
            )
        return pos_label
    if not set(found.tolist()) <= {0, 1, -1}:
        raise ValueError(
            f"{name} has the one label {found.tolist()[0]!r}, and it can't be told whether it is "
            "the positive one; pass pos_label="
        )
    return 1


def _too_many(found: np.ndarray, name: str) -> str:
    shown = ", ".join(map(repr, found[:5].tolist())) + (", ..." if len(found) > 5 else "")
    cure = "code the positive class against the rest"
    if found.dtype.kind == "f":
        cure += ", or cut scores at a threshold to get labels"
    return f"{name} has {len(found)} kinds of labels ({shown}); imbfit takes two classes, so {cure}"


def row_weights(sample_weight: Any, rows: int) -> np.ndarray | None:
    """Return checked weights as floats, or None where each row counts once."""
    if sample_weight is None:
        return None
    weight = column_vector(sample_weight, "sample_weight")
    check_length(weight, rows, "sample_weight")
    weight = _floats(weight, "sample_weight")
    if not np.isfinite(weight).all():
        raise ValueError(f"sample_weight is NaN or infinite in {first_rows(~np.isfinite(weight))}")
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight is negative in {first_rows(weight < 0)}; a weight says how often a "
            "row counts, 0 or more"
        )
    if not weight.any():
        raise ValueError("sample_weight is zero in every row, so no row is left")
    return weight


def _floats(array: np.ndarray, name: str) -> np.ndarray:
    allowed = array.dtype.kind in "biuf" or (
        array.dtype == object and not any(map(_is_text, array))
    )
    try:
        if allowed:
            return np.asarray(array.astype(float))
    except (TypeError, ValueError):
        pass
    kinds = sorted({type(value).__name__ for value in array.tolist()})
    raise ValueError(f"{name} holds values of types {kinds}; numbers are needed, none missing")


def amount_columns(
    amounts: Any, rows: int, *, wanted: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Return per-row columns as float arrays.

    Parameters
    ----------
    amounts : mapping, frame or None
        Columns by name.
    rows : int
        How many rows there must be.
    wanted : iterable of str, default=None
        Only these columns are read and checked; all of them by default.

    Returns
    -------
    dict of str to ndarray of float, shape (n_rows,)
    """
    if amounts is None:
        return {}
    names = amounts.keys() if isinstance(amounts, Mapping) else getattr(amounts, "columns", None)
    if names is None:
        raise TypeError(
            f"amounts is of type {type(amounts).__name__}; give a dict of columns, such as "
            '{"amount": values}, or a frame'
        )
    if wanted is not None:
        wanted = set(wanted)
        names = [name for name in names if name in wanted]
    columns = {}
    for name in names:
        label = f"amounts[{name!r}]"
        array = column_vector(amounts[name], label)
        if len(array) != rows and isinstance(amounts, Mapping):
            raise ValueError(
                f"{label} has {len(array)} rows, but there are {rows}; cross-validation slices a "
                "frame to its rows, but never the columns of a dict: give a frame"
            )
        check_length(array, rows, label)
        array = _floats(array, label)
        if not np.isfinite(array).all():
            raise ValueError(f"{label} is NaN or infinite in {first_rows(~np.isfinite(array))}")
        columns[str(name)] = array
    return columns
