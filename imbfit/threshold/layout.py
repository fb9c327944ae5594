"""Which columns of X are segments, amounts and days, and X without them for the inner model.

X is never checked or converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit._frames import as_table, column_names, listed, row_count, vector
from imbfit._labels import check_length, column_vector
from imbfit.threshold.row_segments import keys

Column = Any
"""A name, a position, or a callable on X."""


@dataclass(frozen=True)
class Layout:
    """Which columns of X say what; made by `read_layout`.

    Attributes
    ----------
    names : tuple or None
        Column names at fit, where X was a frame.
    width : int or None
        Number of columns at fit, where X was an array and its columns are used.
    segments : tuple of columns, or callable, or None
        Where segments come from.
    sources : dict of str to column or callable
        Where amounts and days come from.
    kept : tuple or None
        Columns that the inner model sees, in its order; None for X as it is.
    spare : frozenset
        Columns that are read at fit and at no other time.
    """

    names: tuple[Any, ...] | None
    width: int | None
    segments: tuple[Column, ...] | Callable[[Any], Any] | None
    sources: Mapping[str, Column]
    kept: tuple[Column, ...] | None
    spare: frozenset[Column]

    def inner(self, X: Any) -> Any:
        """Return what the inner model sees of X."""
        if self.kept is None:
            return X
        if self.names is not None:
            self._check_there(X, self.kept, "the inner model")
            if hasattr(X, "select"):  # polars and pyarrow
                return X.select(list(self.kept))
            return X[list(self.kept)]
        table = as_table(X)
        return table[:, [self._place(table, column) for column in self.kept]]

    def segment_values(self, X: Any) -> np.ndarray | None:
        """Return the segment of each row, shape (n_rows,) or (n_rows, n_columns)."""
        if self.segments is None:
            return None
        if callable(self.segments):
            return _called_segments(self.segments, X)
        parts = [self.column(X, column, "segments") for column in self.segments]
        return parts[0] if len(parts) == 1 else _side_by_side(parts)

    def column(self, X: Any, column: Column, reader: str) -> np.ndarray:
        """Return one column of X as a vector, missing values as None or NaN."""
        if self.names is not None:
            self._check_there(X, (column,), reader)
            return vector(X[column], f"the column {column!r}")
        table = as_table(X)
        values = table[:, [self._place(table, column)]]
        dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
        return np.asarray(dense)[:, 0]

    def source(self, X: Any, name: str) -> np.ndarray:
        """Return the per-row column called `name` in formulas."""
        origin = self.sources[name]
        if not callable(origin):
            return self.column(X, origin, f"amounts[{name!r}]")
        values = column_vector(origin(X), f"amounts[{name!r}]")
        check_length(values, row_count(X), f"amounts[{name!r}]")
        return values

    def _check_there(self, X: Any, columns: Iterable[Column], reader: str) -> None:
        names = column_names(X)
        if names is None:
            raise ValueError(
                f"X is a {type(X).__name__} without column names, but it was a frame at fit and "
                f"{reader} reads columns by name; give a frame"
            )
        absent = [column for column in columns if column not in names]
        if absent:
            raise ValueError(
                f"X lacks the column {absent[0]!r} that {reader} reads; it has {listed(names)}"
            )

    def _place(self, table: Any, column: int) -> int:
        """Position in a table that may have come without the columns only needed at fit."""
        width = self.width or 0
        if table.shape[1] == width:
            return column
        left = [place for place in range(width) if place not in self.spare]
        if table.shape[1] != len(left):
            without = f", or {len(left)} without the amounts" if self.spare else ""
            raise ValueError(f"X has {table.shape[1]} columns, but had {width} at fit{without}")
        return left.index(column)


def read_layout(
    X: Any,
    *,
    segments: Any = None,
    amounts: Mapping[str, Column] | None = None,
    per: Iterable[str] = (),
    estimator_columns: Any = "rest",
) -> Layout:
    """Find the columns that segments, amounts and capacities name, and split X by them.

    Parameters
    ----------
    X : frame, array, sparse matrix or any sequence
        The rows.
    segments : column, list of columns, callable or None
        A column is a name in a frame and a position in an array.
    amounts : mapping of str to column or callable, default=None
        Per-row columns by the name that formulas use.
    per : iterable of str
        Columns that capacities name, where they are columns of X.
    estimator_columns : "rest" or list of columns, default="rest"
        What the inner model sees.

    Returns
    -------
    Layout

    Raises
    ------
    ValueError
        If X has no such column.
    TypeError
        If a column is given as something else.
    """
    names = column_names(X)
    asked = _as_columns(segments)
    sources = dict(_checked_amounts(amounts))
    for name in per:
        if name not in sources and names is not None and name in names:
            sources[name] = name
    wanted = dict.fromkeys(() if callable(asked) or asked is None else asked, "segments")
    wanted |= {c: f"amounts[{name!r}]" for name, c in sources.items() if not callable(c)}
    if isinstance(estimator_columns, str):
        if estimator_columns != "rest":
            raise ValueError(
                f"estimator_columns={estimator_columns!r}: give 'rest' or a list of columns"
            )
        if not wanted:
            # nothing to take out, so X may be text, or anything that the model reads
            return Layout(_tuple(names), None, asked, sources, None, frozenset())
    found = _resolve(X, names, wanted)
    places = {column: found[column] for column in wanted}
    if callable(asked) or asked is None:
        resolved: Any = asked
        steering: set[Any] = set()
    else:
        resolved = tuple(places[c] for c in asked)
        steering = set(resolved)
    sources = {name: c if callable(c) else places[c] for name, c in sources.items()}
    width = None if names is not None else as_table(X).shape[1]
    if isinstance(estimator_columns, str):
        every = names if names is not None else range(int(width or 0))
        used = set(places.values())
        kept = tuple(c for c in every if c not in used)
        if not kept:
            raise ValueError(
                "segments and amounts use every column of X, so none is left for the inner model; "
                "name what it may see by estimator_columns=[...]"
            )
    else:
        listed = _as_columns(estimator_columns)
        if listed is None or callable(listed):
            raise TypeError(
                f"estimator_columns={estimator_columns!r}: give 'rest' or a list of columns"
            )
        kept = tuple(_resolve(X, names, dict.fromkeys(listed, "estimator_columns")).values())
    spare = frozenset(places.values()) - steering - set(kept)
    return Layout(_tuple(names), width, resolved, sources, kept, spare)


def _tuple(names: list[Any] | None) -> tuple[Any, ...] | None:
    return None if names is None else tuple(names)


def _as_columns(given: Any) -> tuple[Column, ...] | Callable[[Any], Any] | None:
    if given is None:
        return None
    if callable(given):
        call: Callable[[Any], Any] = given
        return call
    if isinstance(given, (str, int, np.integer)) and not isinstance(given, bool):
        return (given,)
    if isinstance(given, (list, tuple)):
        if not given:
            raise ValueError("an empty list of columns was given; name at least one, or give None")
        for column in given:
            if isinstance(column, bool) or not isinstance(column, (str, int, np.integer)):
                raise TypeError(
                    f"{column!r} is no column: give names or positions; for values per row that "
                    "are no column of X give a callable on X"
                )
        return tuple(given)
    raise TypeError(
        f"segments and estimator_columns take a column's name or position, a list of them, or (for "
        f"segments) a callable on X, and not {type(given).__name__}; with a vector of values at "
        "hand use search_thresholds"
    )


def _checked_amounts(amounts: Any) -> Mapping[str, Column]:
    if amounts is None:
        return {}
    if not isinstance(amounts, Mapping):
        raise TypeError(
            f"amounts={amounts!r}: give a dict of a name to a column of X or a callable on X, "
            'such as {"amount": "Amount"}'
        )
    for name, origin in amounts.items():
        if not isinstance(name, str):
            raise TypeError(f"amounts has the name {name!r}; formulas name columns by strings")
        known = isinstance(origin, (str, int, np.integer)) and not isinstance(origin, bool)
        if not (known or callable(origin)):
            raise TypeError(
                f"amounts[{name!r}] is of type {type(origin).__name__}: give a column of X or a "
                "callable on X here, and values per row to fit(amounts=)"
            )
    return amounts


def _resolve(X: Any, names: list[Any] | None, wanted: Mapping[Column, str]) -> dict[Column, Column]:
    """Check columns against X; positions become non-negative."""
    if names is not None:
        for column, reader in wanted.items():
            if column not in names:
                raise ValueError(
                    f"{reader} reads the column {column!r}, which X lacks; it has {listed(names)}"
                )
            if names.count(column) > 1:
                raise ValueError(
                    f"{reader} reads the column {column!r}, and X has {names.count(column)} "
                    "columns of that name; rename them"
                )
        return {column: column for column in wanted}
    if not wanted:
        return {}
    width = as_table(X).shape[1]
    found = {}
    for column, reader in wanted.items():
        if isinstance(column, str):
            raise ValueError(  # noqa: TRY004
                f"{reader} reads the column {column!r}, but X is a {type(X).__name__} without "
                "column names; give a frame, or the column's position"
            )
        if not -width <= column < width:
            raise ValueError(f"{reader} reads column {column}, but X has {width} columns")
        found[column] = int(column) % width
    return found


def _called_segments(segments: Callable[[Any], Any], X: Any) -> np.ndarray:
    given = segments(X)
    names = column_names(given)
    if names is not None:
        parts = [vector(given[name], f"segments, column {name!r}") for name in names]
        values = parts[0] if len(parts) == 1 else _side_by_side(parts)
    elif hasattr(given, "isna") or hasattr(given, "is_null"):
        values = vector(given, "segments")
    elif isinstance(given, (list, tuple)) and any(isinstance(row, tuple) for row in given):
        values = np.array([list(row) for row in given], dtype=object)
    else:
        values = np.asarray(given)
    if values.ndim not in (1, 2):
        raise ValueError(
            f"the segments callable gave shape {values.shape}; one value or one tuple per row is "
            "needed"
        )
    check_length(values, row_count(X), "the segments callable's result")
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _side_by_side(parts: list[np.ndarray]) -> np.ndarray:
    together = np.empty((len(parts[0]), len(parts)), dtype=object)
    for place, part in enumerate(parts):
        together[:, place] = keys(part)
    return together
