"""Dask arrays and frames: each partition is read where it is, and only what is kept travels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from imbfit._frames import row_count
from imbfit.glm.batch_layout import Asked, Layout, Where, lay_out
from imbfit.glm.batch_passes import NOTHING, Opened, Passed, passed
from imbfit.glm.batch_rows import kind_of, read
from imbfit.glm.passes import Block

# Results that are joined at a time: few enough to fit on a worker, many enough for a flat tree.
JOINED = 8


def open_dask(source: Any, asked: Asked) -> DaskRows:
    """Open a Dask collection.

    Parameters
    ----------
    source : Dask frame or array, or tuple of two or three
        Rows with their label in a column; or (X, y) or (X, y, weight).
    asked : Asked
        The columns.

    Returns
    -------
    DaskRows
        A source for passes.

    Raises
    ------
    TypeError
        If it is another collection.
    ValueError
        If a column is missing, or the parts do not align.
    """
    parts = tuple(source) if isinstance(source, (tuple, list)) else (source,)
    if len(parts) > 3 or not all(_is_frame(part) or _is_array(part) for part in parts):
        names = ", ".join(type(part).__name__ for part in parts)
        raise TypeError(
            f"source is made of {names}; of Dask a DataFrame, an Array, or a tuple (X, y) or "
            "(X, y, weight) of them is allowed"
        )
    X = parts[0]
    if _is_frame(X):
        every, kind = list(X.columns), "frame"
    else:
        if X.ndim != 2 or np.isnan(X.shape[1]):
            raise ValueError(
                f"the Dask array has shape {X.shape}; two dimensions and a known number of columns "
                "are needed"
            )
        every = list(range(X.shape[1]))
        kind = "sparse" if hasattr(X._meta, "tocsr") else "array"  # noqa: SLF001  Dask's own word
    layout = lay_out(asked, every, kind=kind, beside=len(parts) - 1, what="the Dask collection")
    if kind == "frame" and layout.called is None and not layout.strict:
        parts = (X[layout.needed], *parts[1:])
    return DaskRows(layout, parts)


def _is_frame(part: Any) -> bool:
    # of the type, since a Delayed has whatever attribute one asks for
    return hasattr(type(part), "divisions")


def _is_array(part: Any) -> bool:
    return hasattr(type(part), "rechunk")


class DaskRows(Opened):
    """Rows of a Dask collection.

    The functions of a pass run on its partitions, by whatever scheduler Dask uses: threads of this
    process, or the workers of the cluster whose client is there. What they give is joined on the
    workers, as a tree.

    Parameters
    ----------
    layout : Layout
        What each partition must look like.
    parts : tuple of Dask collections
        Features, and what comes beside them.
    """

    def __init__(self, layout: Layout, parts: tuple[Any, ...]) -> None:
        super().__init__(layout)
        self._parts = parts
        self._partitions: list[tuple[Any, ...]] | None = None
        self._starts: list[int] = []

    def _laid_out(self) -> list[tuple[Any, ...]]:
        """Return the partitions, and count their rows once, so that each row has its number."""
        if self._partitions is None:
            from dask.delayed import delayed

            X = self._parts[0]
            known = _known_chunks(X)
            columns = [_partitions(part, known) for part in self._parts]
            if len({len(column) for column in columns}) > 1:
                sizes = " and ".join(str(len(column)) for column in columns)
                raise ValueError(
                    f"X and what comes beside it have {sizes} partitions; cut them alike, by "
                    "rechunk or repartition"
                )
            lengths = known
            if lengths is None:
                narrow = X[[self.layout.needed[-1]]] if _is_frame(X) else X
                count, gather = delayed(row_count, pure=False), delayed(list, pure=False)
                lengths = gather(list(map(count, _partitions(narrow, None)))).compute()
            self._starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
            self._partitions = list(zip(*columns, strict=True))
        return self._partitions

    def _pass(self, function: Callable[[Block], Any]) -> Passed:
        from dask.delayed import delayed

        partitions = self._laid_out()
        # one node of the graph, which is sent once to each worker
        task = delayed(_Task(function, self.layout), pure=False, traverse=False)
        apply, join = delayed(_applied, pure=False), delayed(_joined, pure=False)
        found = [
            apply(task, number, start, *parts)
            for number, (start, parts) in enumerate(zip(self._starts[:-1], partitions, strict=True))
        ]
        while len(found) > 1:
            found = [join(found[at : at + JOINED]) for at in range(0, len(found), JOINED)]
        result: Passed = found[0].compute() if found else NOTHING
        return result


@dataclass(frozen=True)
class _Task:
    function: Callable[[Block], Any]
    layout: Layout


def _applied(task: _Task, number: int, start: int, *parts: Any) -> Passed:
    layout = task.layout
    if not row_count(parts[0]):
        return NOTHING
    if layout.kind != "frame":
        # what Dask believes of the type of its chunks may be wrong
        layout = replace(layout, kind=kind_of(parts[0]))
    where = Where(f"partition {number}", start)
    found = read(parts if len(parts) > 1 else parts[0], layout, where)
    return passed(task.function, found.block, found.labels)


def _joined(found: list[Passed]) -> Passed:
    result = NOTHING
    for later in found:
        result = result.merged(later)
    return result


def _known_chunks(X: Any) -> tuple[int, ...] | None:
    """Return the rows of each chunk of an array, if they are known."""
    if _is_frame(X) or np.isnan(X.chunks[0]).any():
        return None
    return tuple(map(int, X.chunks[0]))


def _partitions(part: Any, rows: tuple[int, ...] | None) -> list[Any]:
    """Return the partitions of a collection, an array cut into whole rows and as X is."""
    if _is_array(part):
        if part.ndim > 1 and len(part.chunks[1]) > 1:
            part = part.rechunk({1: -1})
        chunks = _known_chunks(part)
        if rows is not None and chunks is not None and chunks != rows:
            if sum(chunks) != sum(rows):
                raise ValueError(
                    f"X has {sum(rows)} rows and what comes beside it has {sum(chunks)}; they must "
                    "align"
                )
            part = part.rechunk({0: rows})
        return list(part.to_delayed().ravel())
    return list(part.to_delayed())
