"""Segment values of rows to small integers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from imbfit._labels import check_length, first_rows

_WIDEST = 1_000_000


def encode_segments(
    segments: Any, rows: int, *, what: str = "segments"
) -> tuple[np.ndarray | None, tuple[Any, ...]]:
    """Give each segment a number, in sorted order.

    Parameters
    ----------
    segments : array-like of shape (n_rows,) or (n_rows, n_columns), frame or None
        Values; rows of several columns are keyed by tuples.
    rows : int
        How many rows there must be.
    what : str
        What errors call it.

    Returns
    -------
    codes : ndarray of int64, shape (n_rows,), or None
        None where there are no segments.
    names : tuple
        The segments; ``(None,)`` where there are none.

    Raises
    ------
    ValueError
        If a value is missing, or the length is wrong.
    """
    if segments is None:
        return None, (None,)
    array = _as_array(segments)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        check_length(array, rows, what)
        return _encode_tuples(array, what)
    if array.ndim != 1:
        raise ValueError(
            f"{what} has shape {array.shape}; one value or one tuple per row is needed"
        )
    check_length(array, rows, what)
    missing = _missing(array)
    if missing is not None and missing.any():
        raise ValueError(
            f"{what} is missing in {first_rows(missing)}; drop these rows, or give them a value of "
            "their own, such as 'unknown'"
        )
    if array.dtype.kind in "iu" and len(array):
        low, high = int(array.min()), int(array.max())
        if high - low < _WIDEST:
            # counting beats sorting for whole numbers close together
            # unsigned numbers may be beyond int64, differences of short signed ones beyond theirs
            wide = array if array.dtype.kind == "u" else array.astype(np.int64)
            shifted = (wide - wide.min()).astype(np.int64)
            present = np.bincount(shifted) > 0
            names = tuple(int(v) + low for v in np.flatnonzero(present))
            return (np.cumsum(present) - 1)[shifted], names
    if array.dtype.kind == "O":
        return _encode_objects(array)
    found, codes = np.unique(array, return_inverse=True)
    return codes.reshape(-1), tuple(_plain(v) for v in found)


def _encode_tuples(array: np.ndarray, what: str) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Give each distinct row of several columns a number; keys are tuples."""
    parts = [
        encode_segments(array[:, j], len(array), what=f"{what}, column {j}")
        for j in range(array.shape[1])
    ]
    mixed = np.zeros(len(array), np.int64)
    for part, names in parts:
        mixed = mixed * len(names) + (0 if part is None else part)
    found, codes = np.unique(mixed, return_inverse=True)
    keys = []
    for number in found.tolist():
        key = []
        rest = number
        for _, names in reversed(parts):
            rest, at = divmod(rest, len(names))
            key.append(names[at])
        keys.append(tuple(reversed(key)))
    return codes.reshape(-1), tuple(keys)


def _encode_objects(array: np.ndarray) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Give each distinct object a number; objects are slow to compare, so rows are not."""
    places: dict[Any, int] = {}
    codes = np.fromiter((places.setdefault(v, len(places)) for v in array), np.int64, len(array))
    try:
        ordered = sorted(places)
    except TypeError:
        return codes, tuple(_plain(v) for v in places)
    rank = np.empty(len(places), np.int64)
    rank[[places[v] for v in ordered]] = np.arange(len(places))
    return rank[codes], tuple(_plain(v) for v in ordered)


def without_midnight(value: Any) -> str:
    """Show a value as text, a date without its midnight."""
    return re.sub(r"[T ]00:00:00(\.0+)?$", "", str(value))


def _as_array(segments: Any) -> np.ndarray:
    if hasattr(segments, "to_numpy"):
        return np.asarray(segments.to_numpy())
    if isinstance(segments, (list, tuple)) and any(isinstance(v, tuple) for v in segments):
        widths = {len(v) if isinstance(v, tuple) else 0 for v in segments}
        if len(widths) > 1:
            raise ValueError(
                f"segments mixes tuples of different lengths {sorted(widths)}; give one tuple of "
                "the same columns per row"
            )
        return np.array([list(v) for v in segments], object)
    return np.asarray(segments)


def _missing(array: np.ndarray) -> np.ndarray | None:
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array))
    if array.dtype.kind in "mM":
        return np.asarray(np.isnat(array))
    if array.dtype.kind == "O":
        # NaN of any kind differs from itself; pandas' NA has no truth value
        return np.fromiter((v is None or _differs(v) for v in array), bool, len(array))
    return None


def _differs(value: Any) -> bool:
    try:
        return bool(value != value)  # noqa: PLR0124
    except (TypeError, ValueError):
        return True


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value
