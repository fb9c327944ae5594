"""Data larger than memory: batches from an iterable or from files, read one at a time.

Rows come in a fixed order, so that each has a number of its own and a draw keyed by it does not
depend on how the rows are cut.
"""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from imbfit._frames import column_names, row_count
from imbfit.glm.batch_files import Files
from imbfit.glm.batch_labels import Labels
from imbfit.glm.batch_layout import Asked, Layout, Where, lay_out
from imbfit.glm.batch_passes import NOTHING, Opened, Passed, passed
from imbfit.glm.batch_rows import columns_of, kind_of, parted, read
from imbfit.glm.passes import Block

# Small batches are put together up to so many numbers (8 MB), so that a pass does not spend its
# time on overheads; a batch above that is passed on as it is.
GATHERED = 2**20

Numbered = Iterator[tuple[str, int, Any]]


def open_source(
    source: Any,
    *,
    label: Any,
    pos_label: Any = None,
    columns: Any = None,
    weight: Any = None,
    offset: Any = None,
    batch_size: int = 100_000,
) -> Opened:
    """Open rows that come in batches.

    Parameters
    ----------
    source : path, list of paths, iterable, callable, Dask collection or tuple of them
        Parquet files (``.parquet``, ``.pq``) or CSV files (``.csv``, also compressed) or a folder
        of either, read in the order of their paths; an iterable of batches, or a callable that
        returns a fresh one; a Dask frame or array, or a tuple (X, y) or (X, y, weight) of them. A
        batch is a frame (pandas, polars or pyarrow), an array or a sparse matrix that holds its
        label in a column; or a tuple (X, y) or (X, y, weight). An iterator is read once; everything
        else can be read again. Batches without rows are passed over.
    label : str, int or None
        Column of the label: a name in a frame, a position in an array. None where labels come
        beside the features.
    pos_label : label, default=None
        The positive label. By default 1 or True; labels must then be 0 and 1, False and True, or -1
        and 1.
    columns : sequence of columns, default=None
        Features, in this order; by default all columns but the label and the weight.
    weight : str or int, default=None
        Column of sample weights.
    offset : str, int or callable, default=None
        The column that is the offset, which is then no feature: by name in a frame; in an array by
        its position among the features, as in what `predict` is given. Or a callable: it is given
        the features of an array, and frames as they come (files as pandas frames).
    batch_size : int, default=100000
        Most rows read at a time from files.

    Returns
    -------
    Opened
        A source for passes. float32 stays float32 where all features are; CSR and CSC become CSR.

    Raises
    ------
    TypeError
        If the source is none of these.
    ValueError
        If the columns asked for are not there, or the source has no rows.
    ImportError
        If pyarrow is needed and missing.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.batches import open_source
    >>> from imbfit.glm.passes import count
    >>> X, y = np.arange(6.0).reshape(3, 2), np.array([0, 0, 1])
    >>> opened = open_source([(X, y), (X[:1], y[:1])], label=None)
    >>> opened.run(count).rows
    4
    >>> opened.n_columns, opened.classes().tolist()
    (2, [0, 1])
    """
    whole: Any = batch_size
    if isinstance(whole, bool) or not isinstance(whole, numbers.Integral):
        raise TypeError(f"batch_size={batch_size!r}: give a whole number of at least 1")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: give a whole number of at least 1")
    if isinstance(columns, str):
        raise TypeError(f"columns={columns!r}: give a list, such as [{columns!r}]")
    asked = Asked(label, pos_label, None if columns is None else list(columns), weight, offset)
    if _is_dask(source):
        from imbfit.glm.dask_source import open_dask

        return open_dask(source, asked)
    if _is_path(source) or (
        isinstance(source, (list, tuple)) and source and all(map(_is_path, source))
    ):
        files = Files(source, asked, int(batch_size))
        return Batches(files.layout, files)
    return _open_iterable(source, asked)


def _is_dask(source: Any) -> bool:
    parts = source if isinstance(source, (tuple, list)) else (source,)
    return any(hasattr(part, "__dask_graph__") for part in parts)


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, Path))


def _open_iterable(source: Any, asked: Asked) -> Batches:
    instead = ""
    if _is_in_memory(source):
        instead = " These rows are in memory: call fit, or give them as one batch, [X] or [(X, y)]"
    elif hasattr(source, "collect_batches"):
        instead = " Write lambda: frame.collect_batches(maintain_order=True)"
    iterable = hasattr(type(source), "__iter__") and not isinstance(source, (dict, bytes, set))
    if instead or not (iterable or callable(source)):
        raise TypeError(
            f"source is of type {type(source).__name__}. Give a path to Parquet or CSV, a Dask "
            "collection, an iterable of batches, or a callable that returns a fresh iterator of "
            "them." + instead
        )

    def opened() -> Numbered:
        given = source if iterable else source()
        if not hasattr(given, "__iter__") or _is_in_memory(given):
            raise TypeError(
                f"the source returned an object of type {type(given).__name__}; an iterator of "
                "batches is needed"
            )
        return _numbered(given)

    first = opened()
    head = []
    for what, place, batch in first:
        head.append((what, place, batch))
        parts = parted(batch, what)
        if row_count(parts[0]):
            layout = lay_out(
                asked,
                columns_of(parts[0]),
                kind=kind_of(parts[0]),
                beside=len(parts) - 1,
                what=what,
            )
            repeatable = not isinstance(source, Iterator)
            return Batches(layout, opened, itertools.chain(head, first), repeatable=repeatable)
    raise ValueError(
        f"the source has no rows: it gave {len(head)} batches"
        + (", all empty; give at least one that is not" if head else "")
    )


def _is_in_memory(source: Any) -> bool:
    """Tell whether a source is itself a frame, an array, or a pair (X, y) of arrays."""
    if isinstance(source, tuple) and len(source) in {2, 3}:
        return _is_in_memory(source[0]) and len(np.shape(source[1])) == 1
    if hasattr(source, "collect_batches") or isinstance(source, (list, tuple)):
        return False
    return hasattr(source, "tocsr") or hasattr(source, "ndim") or column_names(source) is not None


def _numbered(batches: Iterable[Any]) -> Numbered:
    for number, batch in enumerate(batches):
        yield f"batch {number}", 0, batch


class Batches(Opened):
    """Batches that are read one after the other.

    Parameters
    ----------
    layout : Layout
        What each batch must look like.
    opened : callable
        Returns an iterator of (where from, number of its first row there, batch).
    begun : iterator, default=None
        The first such iterator, where it had to be begun to see the layout.
    repeatable : bool, default=True
        Whether `opened` can be called again.
    """

    def __init__(
        self,
        layout: Layout,
        opened: Callable[[], Numbered],
        begun: Numbered | None = None,
        *,
        repeatable: bool = True,
    ) -> None:
        super().__init__(layout)
        self.repeatable = repeatable
        self._opened, self._begun = opened, begun

    def _pass(self, function: Callable[[Block], Any]) -> Passed:
        batches, self._begun = self._begun, None
        if batches is None:
            self.require_repeatable("the fit")
            batches = self._opened()
        result = NOTHING
        for block, labels in _gathered(batches, self.layout):
            result = result.merged(passed(function, block, labels))
        return result


def _gathered(batches: Numbered, layout: Layout) -> Iterator[tuple[Block, Labels]]:
    """Read batches, and put small ones together."""
    held: list[Block] = []
    labels, start, size = Labels(), 0, 0
    for what, first, batch in batches:
        rows = row_count(parted(batch, what)[0])
        if not rows:
            continue
        found = read(batch, layout, Where(what, start, first))
        start += rows
        labels = labels.merged(found.labels)
        held.append(found.block)
        size += max(found.block.X.size, rows)
        del batch, found
        if size >= GATHERED:
            yield _stacked(held), labels
            held, size = [], 0
    if held:
        yield _stacked(held), labels


def _stacked(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    matrices = [block.X for block in blocks]
    sparse = sp.issparse(matrices[0])
    return Block(
        blocks[0].start,
        sp.vstack(matrices, format="csr") if sparse else np.concatenate(matrices),
        np.concatenate([block.positive for block in blocks]),
        _joined([block.weight for block in blocks]),
        _joined([block.offset for block in blocks]),
    )


def _joined(vectors: list[Any]) -> Any:
    return None if vectors[0] is None else np.concatenate(vectors)
