"""Labels that come batch by batch: the positive rows, and a word against a third label."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imbfit._frames import vector
from imbfit.glm.batch_layout import Layout, Where

Bools = NDArray[np.bool_]


def is_text(label: Any) -> bool:
    """Tell whether a value is text."""
    return isinstance(label, (str, bytes))


@dataclass(frozen=True)
class Labels:
    """The labels that were seen, and where each was seen first.

    Attributes
    ----------
    seen : dict
        For each label, whether it is the positive one and the row.
    """

    seen: dict[Any, tuple[bool, str]] = field(default_factory=dict)

    def merged(self, other: Labels) -> Labels:
        """Add what later rows have; a third label is an error."""
        both = {**other.seen, **self.seen}
        if len(both) > len(self.seen) and sum(not mine for mine, _ in both.values()) > 1:
            self._refuse(both)
        return Labels(both)

    def _refuse(self, both: dict[Any, tuple[bool, str]]) -> None:
        rest = [label for label, (mine, _) in both.items() if not mine]
        known = [label for label in rest if label in self.seen] or rest[:1]
        new = next(label for label in rest if label not in known)
        positive = [label for label, (mine, _) in both.items() if mine]
        cure = (
            f"besides {known[0]!r} and the positive {positive[0]!r}"
            if positive
            else (
                f"besides {known[0]!r}, and the positive label was not seen up to there; see that "
                "pos_label= is written as in the data"
            )
        )
        raise ValueError(
            f"the label {new!r} in {both[new][1]} is one too many, {cure}. Two labels are allowed: "
            "code the positive class against the rest"
        )

    @property
    def positive(self) -> Any:
        """The positive label, in the type of the data; None where it was not seen."""
        return next((label for label, (mine, _) in self.seen.items() if mine), None)


def read_labels(column: Any, layout: Layout, where: Where) -> tuple[Bools, Labels]:
    """Return the positive rows and the labels of a batch.

    Parameters
    ----------
    column : array, series or pyarrow array
        Labels, none missing.
    layout : Layout
        Knows the positive label.
    where : Where
        For errors.

    Returns
    -------
    positive : ndarray of bool
        The positive rows.
    labels : Labels
        What was seen.
    """
    codes, distinct = _coded(column, where)
    if layout.label_is_text and not is_text(layout.pos_label):
        distinct = [_meant(text) for text in distinct]
    positive = np.zeros(len(codes), bool)
    labels = Labels()
    for code, label in enumerate(distinct):
        rows = codes == code
        if layout.pos_label is None:
            mine = _is_one(label, where, rows)
        else:
            _same_kind(label, layout.pos_label, where)
            mine = bool(label == layout.pos_label)
        if mine:
            positive |= rows
        labels = labels.merged(Labels({label: (mine, where.row(int(np.argmax(rows))))}))
    return positive, labels


def _same_kind(label: Any, pos_label: Any, where: Where) -> None:
    if is_text(label) != is_text(pos_label):
        raise ValueError(
            f"pos_label={pos_label!r} is of another type than the labels of {where.what}, such as "
            f"{label!r}; write it as it is in the data"
        )


def _is_one(label: Any, where: Where, rows: Bools) -> bool:
    if is_text(label):
        raise ValueError(
            f"the labels are text, such as {label!r} in {where.row(int(np.argmax(rows)))}. Which "
            f"one is positive must be known before the first batch: write pos_label={label!r}, say"
        )
    if label not in (0, 1, -1):
        raise ValueError(
            f"the label {label!r} in {where.row(int(np.argmax(rows)))} is none of 0 and 1, False "
            "and True, or -1 and 1; for other labels write pos_label= with the positive one"
        )
    return bool(label == 1)


def _meant(text: Any) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text.lower(), text)


def _coded(column: Any, where: Where) -> tuple[NDArray[Any], list[Any]]:
    """Return each row's place in the list of different labels, in the order they come."""
    if hasattr(column, "dictionary_encode"):  # pyarrow
        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        _refuse_missing(np.asarray(column.is_null(), bool), where)
        coded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        codes = np.asarray(coded.indices)
        absent = [code for code, label in enumerate(distinct) if is_absent(label)]
        _refuse_missing(np.isin(codes, absent), where)
        used = np.bincount(codes, minlength=len(distinct)) > 0
        if not used.all():
            codes = (np.cumsum(used) - 1)[codes]
            distinct = [label for label, had in zip(distinct, used, strict=True) if had]
        return codes, distinct
    values = vector(column, f"the labels of {where.what}")
    if values.dtype.kind == "f":
        _refuse_missing(np.isnan(values), where)
    elif values.dtype.kind in "mMcV":
        raise ValueError(
            f"the labels of {where.what} are of type {values.dtype}; numbers, booleans or text are "
            "allowed"
        )
    if values.dtype.kind in "iu" and len(values) and values.min() >= 0 and values.max() <= 1:
        first = int(values[0])
        different = values != first
        return different.astype(np.intp), [first, 1 - first][: 1 + bool(different.any())]
    if values.dtype.kind == "O":
        _refuse_missing(np.fromiter(map(is_absent, values), bool, len(values)), where)
    numbered: dict[Any, int] = {}
    codes = np.fromiter(
        (numbered.setdefault(label, len(numbered)) for label in values.tolist()), int, len(values)
    )
    return codes, list(numbered)


def is_absent(label: Any) -> bool:
    """Tell whether a value is None, NaN or NA."""
    if label is None:
        return True
    try:
        return bool(label != label)  # noqa: PLR0124  NaN differs from itself
    except TypeError:  # pandas.NA has no truth value
        return True


def _refuse_missing(missing: Bools, where: Where) -> None:
    if missing.any():
        raise ValueError(f"the label is missing in {where.rows(missing)}; drop such rows")
