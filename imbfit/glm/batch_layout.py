"""Which columns of a batch are read as what, and where a batch is, for errors."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imbfit._frames import listed

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """Which columns the user asked for, by name in a frame and by position in an array.

    Attributes
    ----------
    label, weight : column or None
        None where labels or weights come beside the features, or not at all.
    pos_label : label or None
        The positive label.
    columns : list of columns or None
        Features; None for all that are nothing else.
    offset : column, callable or None
        The user's offset.
    """

    label: Any = None
    pos_label: Any = None
    columns: list[Any] | None = None
    weight: Any = None
    offset: Any = None


@dataclass(frozen=True)
class Where:
    """Where a batch is, for errors.

    Attributes
    ----------
    what : str
        Such as "batch 3".
    start : int
        Number of its first row among all rows.
    first : int
        Number of its first row in `what`.
    """

    what: str
    start: int
    first: int = 0

    def row(self, place: int) -> str:
        """Name a row by its place in the batch."""
        text = f"row {self.first + place} of {self.what}"
        return text if self.start == self.first else f"{text} (row {self.start + place} of all)"

    def rows(self, mask: Bools) -> str:
        """Name the first row of a mask, and how many there are."""
        text = self.row(int(np.argmax(mask)))
        count = int(np.count_nonzero(mask))
        return text if count == 1 else f"{count} rows, the first is {text}"


@dataclass(frozen=True)
class Layout:
    """What each batch must look like, as the first one tells.

    Attributes
    ----------
    kind : {"frame", "array", "sparse"}
        What the features come in.
    beside : int
        What comes beside the features: 0 nothing, 1 labels, 2 labels and weights.
    every : tuple
        All columns: names of a frame, positions in an array.
    inputs : tuple
        Columns that `predict` will be given, in its order.
    offset : int or None
        Place of the offset among `inputs`.
    label, weight : column or None
        Where they are columns.
    called : callable or None
        The offset, if it is a callable.
    pos_label : label or None
        The positive label, if the user gave one.
    strict : bool
        Whether a column that the first batch had not is an error.
    label_is_text : bool
        Whether labels are written as text and may mean numbers, as in a CSV file.
    """

    kind: str
    beside: int
    every: tuple[Any, ...]
    inputs: tuple[Any, ...]
    offset: int | None = None
    label: Any = None
    weight: Any = None
    called: Callable[[Any], Any] | None = None
    pos_label: Any = None
    strict: bool = True
    label_is_text: bool = False

    @property
    def features(self) -> list[Any]:
        """The slopes' columns."""
        return [name for place, name in enumerate(self.inputs) if place != self.offset]

    @property
    def needed(self) -> list[Any]:
        """All columns to be read."""
        extra = [c for c in (self.label, self.weight) if c is not None]
        return list(dict.fromkeys([*self.inputs, *extra]))


def lay_out(
    asked: Asked, every: Iterable[Any], *, kind: str, beside: int, what: str, **more: Any
) -> Layout:
    """Find the columns that the user asked for.

    Parameters
    ----------
    asked : Asked
        What the user asked for.
    every : iterable
        All columns.
    kind, beside : str, int
        As in `Layout`.
    what : str
        Where the columns are, such as "batch 0".
    **more
        Further fields of the layout.

    Returns
    -------
    Layout
        The layout.

    Raises
    ------
    ValueError
        If a column is missing, or asked for twice.
    """
    names = tuple(every)
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ValueError(f"{what} has two columns {twice[0]!r}; rename one")
    if beside and asked.label is not None:
        raise ValueError(
            f"label={asked.label!r}, but {what} is a pair (X, y), so that the labels come beside "
            "the features; write label=None"
        )
    if not beside and asked.label is None:
        raise ValueError(
            f"label=None, but {what} has its labels in a column; write label= with the "
            f"{'name' if kind == 'frame' else 'position'} of that column, or give pairs (X, y)"
        )
    if beside == 2 and asked.weight is not None:
        raise ValueError(
            f"weight={asked.weight!r}, but {what} is a triple (X, y, weight); write weight=None"
        )
    label = None if asked.label is None else _find(asked.label, names, "label", what)
    weight = None if asked.weight is None else _find(asked.weight, names, "weight", what)
    if label is not None and label == weight:
        raise ValueError(f"label={asked.label!r} and weight={asked.weight!r} are the same column")
    inputs = [name for name in names if name not in (label, weight)]
    if asked.columns is not None:
        inputs = [_find(column, names, "columns", what) for column in asked.columns]
        if label is not None and label in inputs:
            raise ValueError(f"columns= has the label {label!r}; features can't hold it")
        if len(set(inputs)) < len(inputs):
            raise ValueError(f"columns= names a column twice: {listed(inputs)}")
    offset = None
    if asked.offset is not None and not callable(asked.offset):
        offset = _find_offset(asked.offset, names, inputs, kind, what)
        if inputs[offset] in (label, weight):
            raise ValueError(f"offset={asked.offset!r} is also the label or the weight")
    if len(inputs) == (offset is not None):
        raise ValueError(
            f"{what} has no column for a feature; its columns are {listed(list(names))}"
        )
    return Layout(
        kind=kind,
        beside=beside,
        every=names,
        inputs=tuple(inputs),
        offset=offset,
        label=label,
        weight=weight,
        called=asked.offset if callable(asked.offset) else None,
        pos_label=asked.pos_label,
        strict=asked.columns is None,
        **more,
    )


def _find(column: Any, names: tuple[Any, ...], parameter: str, what: str) -> Any:
    if column in names and not isinstance(column, bool):
        return names[names.index(column)]
    by_position = names == tuple(range(len(names)))
    if by_position and isinstance(column, numbers.Integral) and -len(names) <= int(column) < 0:
        return names[int(column)]
    raise ValueError(
        f"{parameter}={column!r} is not a column of {what}, whose columns are "
        + (f"the positions 0 to {len(names) - 1}" if by_position else listed(list(names)))
    )


def _find_offset(
    offset: Any, names: tuple[Any, ...], inputs: list[Any], kind: str, what: str
) -> int:
    """Return the place among the inputs; a column that is not among them is put behind."""
    if kind != "frame":
        # a position counts in what `predict` is given, where there is no label
        if isinstance(offset, bool) or not isinstance(offset, numbers.Integral):
            raise TypeError(
                f"offset={offset!r}, but {what} is an array; give a position among the features, "
                "or a callable"
            )
        if not -len(inputs) <= int(offset) < len(inputs):
            raise ValueError(f"offset={offset} is not one of the {len(inputs)} columns of features")
        return int(offset) % len(inputs)
    found = _find(offset, names, "offset", what)
    if found not in inputs:
        inputs.append(found)
    return inputs.index(found)
