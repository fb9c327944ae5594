"""The user's offset: a column of X, or a callable on X."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imbfit._frames import column_names, listed, row_count
from imbfit._labels import first_rows

Floats = NDArray[np.float64]


def offset_column(X: Any, offset: Any) -> int | None:
    """Return the position of the column of X that is the offset; None for a callable or nothing.

    Parameters
    ----------
    X : frame, array or sparse matrix of shape (n_rows, n_columns)
        Rows as the user gave them.
    offset : str, int, callable or None
        A name in a frame, a position in an array.

    Returns
    -------
    int or None
    """
    if offset is None or callable(offset):
        return None
    names = column_names(X)
    if names is not None and offset in names:
        if names.count(offset) > 1:
            raise ValueError(f"offset={offset!r} is the name of {names.count(offset)} columns of X")
        return names.index(offset)
    if isinstance(offset, str):
        if names is None:
            raise ValueError(
                f"offset={offset!r} is a name, but X is of type {type(X).__name__} and has none; "
                "give the column's position, or a callable on X"
            )
        raise ValueError(  # noqa: TRY004  a name is allowed, but not this one
            f"offset={offset!r} is no column of X; its columns are {listed(names)}"
        )
    if isinstance(offset, bool) or not isinstance(offset, numbers.Integral):
        raise TypeError(
            f"offset={offset!r}: give a column of X by name or position, or a callable on X such "
            'as lambda X: np.log(X["exposure"])'
        )
    if names is not None:
        raise ValueError(f"offset={offset!r} is no column of X; its columns are {listed(names)}")
    width = np.shape(X)[1] if np.ndim(X) == 2 or hasattr(X, "tocsr") else 0
    if not -width <= int(offset) < width:
        raise ValueError(f"offset={offset} is no column of X, which has {width} columns")
    return int(offset) % width


def called_offset(X: Any, offset: Any) -> Floats | None:
    """Return what a callable offset gives for the rows of X, checked; None for anything else."""
    if not callable(offset):
        return None
    given = offset(X)
    values = np.asarray(given.to_numpy() if hasattr(given, "to_numpy") else given)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (row_count(X),):
        raise ValueError(
            f"the offset callable returned shape {values.shape} for {row_count(X)} rows; one "
            "value per row is needed"
        )
    return checked_offset(values)


def checked_offset(values: Any) -> Floats:
    """Return an offset as floats, or name the rows that are not finite."""
    try:
        floats = np.asarray(values).astype(float)
    except (TypeError, ValueError):
        raise ValueError("the offset holds values that are no numbers") from None
    bad = ~np.isfinite(floats)
    if bad.any():
        raise ValueError(
            f"the offset is NaN or infinite in {first_rows(bad)}; for the logarithm of an "
            "exposure, drop the rows without exposure"
        )
    return floats
