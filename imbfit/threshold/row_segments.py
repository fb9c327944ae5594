"""The segment of each row as a Python value: missing, known or unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from imbfit._frames import listed
from imbfit._labels import first_rows


def keys(values: np.ndarray) -> list[Any]:
    """Return segment values as Python objects that hash, rows of several columns as tuples."""
    if values.ndim == 2:
        return list(zip(*(keys(values[:, place]) for place in range(values.shape[1])), strict=True))
    # numpy's dates would turn into bare numbers
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def lookup(
    values: np.ndarray, known: Iterable[Any], *, unknown: str | float = "raise"
) -> np.ndarray:
    """Return the place of each row's segment among the known ones, -1 for an unknown segment.

    Parameters
    ----------
    values : ndarray of shape (n_rows,) or (n_rows, n_columns)
        The rows' segments.
    known : iterable
        Segments that have a threshold, in order.
    unknown : "raise" or anything else
        Whether an unknown segment is an error.

    Returns
    -------
    ndarray of int, shape (n_rows,)

    Raises
    ------
    ValueError
        For a missing value, and for an unknown one if `unknown` is "raise".
    """
    places = {segment: place for place, segment in enumerate(known)}
    rows = keys(values)
    code = np.fromiter((places.get(row, -1) for row in rows), np.intp, len(rows))
    strange = np.flatnonzero(code < 0)
    if len(strange):
        absent = np.zeros(len(rows), bool)
        absent[strange] = [is_missing(rows[row]) for row in strange]
        if absent.any():
            raise ValueError(
                f"segments is missing in {first_rows(absent)}; drop these rows, or give them a "
                "value of their own, such as 'unknown', at fit too"
            )
    if len(strange) and unknown == "raise":
        new = list(dict.fromkeys(rows[row] for row in strange))
        raise ValueError(
            f"no threshold was chosen for segment {listed(new, 5)}, met in "
            f"{first_rows(code < 0)}; known are {listed(list(places))}. Fit with such rows, or "
            'pass unknown_segment="negative" or a threshold for them'
        )
    return code


def check_present(values: np.ndarray) -> None:
    """Raise where a row has no segment."""
    if values.dtype.kind in "biuSU":
        return
    rows = keys(values)
    absent = np.fromiter(map(is_missing, rows), bool, len(rows))
    if absent.any():
        raise ValueError(
            f"segments is missing in {first_rows(absent)}; drop these rows, or give them a value "
            "of their own, such as 'unknown'"
        )


def is_missing(value: Any) -> bool:
    """Whether a segment value, or a part of one, is None, NaN, NaT or NA."""
    if isinstance(value, tuple):
        return any(is_missing(part) for part in value)
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError):
        return True  # pandas' NA has no truth value
