"""One batch, in whatever type it came, read as a block of rows.

Everything is checked here, batch by batch, and an error names the batch, the row and the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from imbfit._frames import align, column_names, listed, row_count, vector
from imbfit.glm.batch_labels import Labels, is_absent, is_text, read_labels
from imbfit.glm.batch_layout import Layout, Where
from imbfit.glm.offsets import called_offset
from imbfit.glm.passes import Block

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def numbers_of(column: Any, name: Any, where: Where) -> NDArray[Any]:
    """Return a column as float64, or as float32 where that is what it is.

    Parameters
    ----------
    column : array, series or pyarrow array
        Numbers or booleans.
    name : object
        What errors call it, such as "column 'x'".
    where : Where
        For errors.

    Returns
    -------
    ndarray of float, shape (n_rows,)
        Missing values are NaN.
    """
    if hasattr(column, "dictionary_encode"):
        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        values = np.asarray(column)
    elif hasattr(column, "sparse"):
        raise ValueError(
            f"{name} of {where.what} is a sparse column of pandas; give pairs (X, y) with "
            "X = frame.sparse.to_coo().tocsr()"
        )
    else:
        values = vector(column, f"{name} of {where.what}")
    if values.dtype in {np.dtype(np.float32), np.dtype(np.float64)}:
        return values
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind == "O":
        missing = np.fromiter(map(is_absent, values), bool, len(values))
        text = np.fromiter(map(is_text, values), bool, len(values))
        try:
            if not text.any():
                return np.where(missing, np.nan, values).astype(np.float64)
        except (TypeError, ValueError):
            pass
        at = int(np.argmax(text)) if text.any() else 0
        raise ValueError(
            f"{name} holds {values[at]!r} in {where.row(at)}; numbers are needed: encode it, or "
            "leave it out by columns="
        )
    raise ValueError(
        f"{name} of {where.what} is of type {values.dtype}; numbers are needed: encode it, or "
        "leave it out by columns="
    )


def _finite(values: NDArray[Any], name: str, where: Where, cure: str) -> Floats:
    bad = ~np.isfinite(values)
    if bad.any():
        word = "missing or NaN" if np.isnan(values[int(np.argmax(bad))]) else "infinite"
        raise ValueError(f"{name} is {word} in {where.rows(bad)}; {cure}")
    return np.asarray(values, np.float64)


def _check_finite(X: NDArray[Any], names: list[str], where: Where) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        # one number tells of any that is not finite; it may be infinite for sheer size, too
        if np.isfinite(X.sum()):
            return
    for place, name in enumerate(names):
        _finite(X[:, place], name, where, "drop or impute such rows")


@dataclass(frozen=True)
class Read:
    """A batch as a block, with its labels."""

    block: Block
    labels: Labels


def kind_of(table: Any) -> str:
    """Return what kind of table it is: "frame", "array" or "sparse"."""
    if hasattr(table, "tocsr"):
        return "sparse"
    return "array" if column_names(table) is None else "frame"


def parted(batch: Any, what: str) -> tuple[Any, ...]:
    """Return a batch as features alone, or with labels and weights beside them.

    Parameters
    ----------
    batch : frame, array, sparse matrix, or tuple of two or three
        What the source gave.
    what : str
        For errors.

    Returns
    -------
    tuple
        (X,), (X, y) or (X, y, weight).
    """
    parts = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    if isinstance(batch, (tuple, list)) and len(parts) not in {2, 3}:
        raise ValueError(
            f"{what} is a {type(batch).__name__} of {len(parts)}; give a frame, or a pair (X, y) "
            "or a triple (X, y, weight)"
        )
    X = parts[0]
    if kind_of(X) == "array":
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(
                f"{what} is of type {type(parts[0]).__name__} and shape {X.shape}; give a frame, "
                "an array or a sparse matrix of two dimensions, or a pair (X, y)"
            )
    for part, name in zip(parts[1:], ("y", "the weight"), strict=False):
        align(part, X, name)
        if row_count(part) != row_count(X):
            raise ValueError(
                f"{what}: X has {row_count(X)} rows and {name} has {row_count(part)}; they must "
                "align"
            )
    return (X, *parts[1:])


def columns_of(table: Any) -> tuple[Any, ...]:
    """Return the names of a frame's columns, or the positions of an array's."""
    names = column_names(table)
    return tuple(range(table.shape[1])) if names is None else tuple(names)


def read(batch: Any, layout: Layout, where: Where) -> Read:
    """Read a batch as a block of rows.

    Parameters
    ----------
    batch : frame, array, sparse matrix, or tuple of two or three
        What the source gave.
    layout : Layout
        What it must look like.
    where : Where
        Where it is.

    Returns
    -------
    Read
        The block, with arrays of its own, and the labels seen.

    Raises
    ------
    ValueError
        If it looks different, or holds what can't be read.
    """
    parts = parted(batch, where.what)
    X = parts[0]
    _check_layout(parts, layout, where)
    if layout.kind == "sparse":
        X = X.tocsr().copy()
    label = _column(X, layout.label) if layout.beside == 0 else parts[1]
    positive, labels = read_labels(label, layout, where)
    weight = None
    if layout.weight is not None:
        weight = _weights(_column(X, layout.weight), _named(layout, layout.weight), where)
    elif layout.beside == 2:
        weight = _weights(parts[2], "weight", where)
    offset = None
    if layout.offset is not None:
        name = layout.inputs[layout.offset]
        given = numbers_of(_column(X, name), _named(layout, name), where)
        cure = "for the logarithm of an exposure, drop the rows without exposure"
        offset = _finite(given, f"the offset {name!r}", where, cure).copy()
    elif layout.called is not None:
        try:
            offset = called_offset(_seen_by_callable(X, layout), layout.called)
        except ValueError as error:
            raise ValueError(f"{where.what}: {error}") from error
    return Read(Block(where.start, _features(X, layout, where), positive, weight, offset), labels)


def _seen_by_callable(X: Any, layout: Layout) -> Any:
    if layout.kind != "frame" and not layout.beside:
        return X[:, list(layout.inputs)]
    if layout.kind == "frame":
        # what `predict` will be given
        return X.select(list(layout.inputs)) if hasattr(X, "select") else X[list(layout.inputs)]
    return X


def _check_layout(parts: tuple[Any, ...], layout: Layout, where: Where) -> None:
    shapes = {0: "a table with its labels", 1: "a pair (X, y)", 2: "a triple (X, y, weight)"}
    if len(parts) != layout.beside + 1:
        raise ValueError(
            f"{where.what} is {shapes[len(parts) - 1]}, but the first batch is "
            f"{shapes[layout.beside]}"
        )
    kind = kind_of(parts[0])
    if kind != layout.kind:
        names = {"frame": "a frame", "array": "an array", "sparse": "a sparse matrix"}
        raise ValueError(
            f"{where.what} is {names[kind]}, but the first batch is {names[layout.kind]}"
        )
    columns = columns_of(parts[0])
    if columns == layout.every:
        return
    if kind != "frame":
        raise ValueError(
            f"{where.what} has {len(columns)} columns, but the first batch has {len(layout.every)}"
        )
    missing = [name for name in layout.needed if name not in columns]
    if missing:
        raise ValueError(
            f"{where.what} lacks the column {missing[0]!r}; its columns are {listed(list(columns))}"
        )
    more = [name for name in columns if name not in layout.every]
    if layout.strict and more:
        raise ValueError(
            f"{where.what} has a column {more[0]!r} that the first batch has not; name the "
            "features by columns="
        )


def _column(X: Any, name: Any) -> Any:
    if hasattr(X, "column_names"):
        return X.column(name)
    if sp.issparse(X) or hasattr(X, "tocsr"):
        return np.asarray(X[:, [name]].todense())[:, 0]
    return X[:, name] if isinstance(X, np.ndarray) else X[name]


def _named(layout: Layout, name: Any) -> str:
    return f"column {name!r}" if layout.kind == "frame" else f"column {name}"


def _weights(column: Any, name: str, where: Where) -> Floats:
    given = numbers_of(column, name, where)
    weight = _finite(given, f"the weight ({name})", where, "give 0 or more")
    if (weight < 0).any():
        raise ValueError(
            f"the weight ({name}) is negative in {where.rows(weight < 0)}; a weight says how much "
            "a row counts, 0 or more"
        )
    return weight.copy()


def _features(X: Any, layout: Layout, where: Where) -> Any:
    features = layout.features
    names = [_named(layout, name) for name in features]
    if layout.kind == "sparse":
        if tuple(features) != layout.every:
            X = X[:, features]
        X.sum_duplicates()
        if X.dtype != np.float32:
            X = X.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(X.data.sum())
        if not finite and not np.isfinite(X.data).all():
            at = int(np.argmax(~np.isfinite(X.data)))
            row = int(np.searchsorted(X.indptr, at, side="right")) - 1
            word = "NaN" if np.isnan(X.data[at]) else "infinite"
            raise ValueError(f"{names[X.indices[at]]} is {word} in {where.row(row)}")
        return X
    if layout.kind == "array" and X.dtype != object:
        if X.dtype.kind not in "biuf":
            raise ValueError(f"{where.what} holds values of type {X.dtype}; numbers are needed")
        taken = X if tuple(features) == layout.every else X[:, features]
        # a copy, since a source may fill the same array again
        block = np.array(taken, X.dtype if X.dtype == np.float32 else np.float64, order="C")
    else:
        columns = [
            numbers_of(_column(X, column), name, where)
            for column, name in zip(features, names, strict=True)
        ]
        narrow = all(column.dtype == np.float32 for column in columns)
        block = np.empty((row_count(X), len(columns)), np.float32 if narrow else np.float64)
        for place, column in enumerate(columns):
            block[:, place] = column
    _check_finite(block, names, where)
    return block
