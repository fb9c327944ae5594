"""Tables of any library, read by row and by column.

A frame (pandas, polars, or anything with column names) is read by name, an array or a sparse matrix
by position. Nothing is checked or converted that need not be.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def column_names(X: Any) -> list[Any] | None:
    """Names of the columns of a frame; None for anything else."""
    if hasattr(X, "column_names"):  # pyarrow, whose `columns` are the data
        return list(X.column_names)
    columns = getattr(X, "columns", None)
    return None if columns is None or callable(columns) else list(columns)


def row_count(X: Any) -> int:
    """Return the number of rows of X."""
    if getattr(X, "shape", ()):
        return int(X.shape[0])
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Select rows by position, in the type that came."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names"):
        return X.take(rows)
    if hasattr(X, "shape"):
        return X[rows]
    return [X[row] for row in rows]


def align(value: Any, X: Any, name: str) -> None:
    """Raise where the labels of a pandas index say that `value` and X pair different rows.

    Rows are paired by position. Equal indices are fine, and so is a fresh one (0, 1, 2, ...)
    against another set of labels.
    """
    left: Any = getattr(X, "index", None)
    right: Any = getattr(value, "index", None)
    if not (hasattr(left, "equals") and hasattr(right, "equals")):
        return
    if len(left) != len(right) or left.equals(right):
        return
    if any(_is_fresh(index) for index in (left, right)) and not left.isin(right).all():
        return
    raise ValueError(
        f"the index of {name} is not that of X, and rows are paired by position; write "
        f"{name}.loc[X.index], or drop an index that means nothing by reset_index(drop=True)"
    )


def _is_fresh(index: Any) -> bool:
    return bool(np.array_equal(np.asarray(index), np.arange(len(index))))


def as_table(X: Any) -> Any:
    """Return X as something with two axes that can be indexed by column."""
    table = X
    if not hasattr(X, "shape"):
        # as objects, since a row may mix numbers and text
        table = np.asarray(X, dtype=object)
    elif hasattr(X, "tocsr") and not hasattr(X, "__getitem__"):
        table = X.tocsr()
    if len(table.shape) != 2:
        raise ValueError(
            f"X has shape {table.shape}, so it has no columns to read; give a callable on X"
        )
    return table


def vector(column: Any, what: str) -> np.ndarray:
    """Return a column as a vector, missing values as None or NaN."""
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    absent = None
    if hasattr(column, "isna"):
        absent = np.asarray(column.isna(), bool)
    elif hasattr(column, "is_null"):
        absent = np.asarray(column.is_null(), bool)
    if absent is not None and absent.any() and values.dtype.kind not in "fmM":
        values = values.astype(object)
        values[absent] = None
    if values.ndim != 1:
        raise ValueError(f"{what} has shape {values.shape}; one value per row is needed")
    return values


def listed(names: list[Any], most: int = 10) -> str:
    """List names in an error."""
    more = ", ..." if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
