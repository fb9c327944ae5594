"""A source of batches: passes over it, and what they saw on the way.

What is sent to the workers of a cluster, and what comes back, can be pickled.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.batch_labels import Labels
from imbfit.glm.batch_layout import Layout
from imbfit.glm.passes import Block, Found


@dataclass(frozen=True)
class Passed:
    """What a pass found, with what it saw on the way.

    Attributes
    ----------
    found : object or None
        What the function gave; None where there were no rows.
    labels : Labels
        Labels seen.
    rows, positives : int
        Rows passed over.
    counted : tuple of (int, int)
        Negative and positive rows with a weight above 0.
    """

    found: Any
    labels: Labels
    rows: int
    positives: int
    counted: tuple[int, int]

    def merged(self, other: Passed) -> Passed:
        """Join with what later rows gave."""
        labels = self.labels.merged(other.labels)
        found = self.found
        if found is None:
            found = other.found
        elif other.found is not None:
            found = found.merged(other.found)
        return Passed(
            found,
            labels,
            self.rows + other.rows,
            self.positives + other.positives,
            (self.counted[0] + other.counted[0], self.counted[1] + other.counted[1]),
        )


NOTHING = Passed(None, Labels(), 0, 0, (0, 0))


def passed(function: Callable[[Block], Any], block: Block, labels: Labels) -> Passed:
    """Apply a function to a block."""
    rows, positives = len(block.positive), int(np.count_nonzero(block.positive))
    counted, mask = (rows - positives, positives), block.counted()
    if mask is not None:
        some = int(np.count_nonzero(block.positive & mask))
        counted = (int(np.count_nonzero(mask)) - some, some)
    return Passed(function(block), labels, rows, positives, counted)


class Opened(abc.ABC):
    """Rows that are read anew in each pass.

    Attributes
    ----------
    in_memory : bool
        False.
    repeatable : bool
        Whether a second pass is possible.
    """

    in_memory = False
    repeatable = True

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._seen: Passed | None = None

    @abc.abstractmethod
    def _pass(self, function: Callable[[Block], Any]) -> Passed:
        """Apply `function` to each block and join in the order of the rows."""

    def run(self, function: Callable[[Block], Found]) -> Found:
        """Apply `function` to each block and join what it gives, in the order of the rows.

        Parameters
        ----------
        function : callable
            From a block to something with a method ``merged(later)``.

        Returns
        -------
        object
            What it gave, joined.

        Raises
        ------
        ValueError
            For rows that can't be read, for a source without rows or without rows of both classes,
            and for one that gives other rows the second time.
        """
        now = self._pass(function)
        before = self._seen
        if before is not None and (before.rows, before.positives) != (now.rows, now.positives):
            raise ValueError(
                f"the source gave {before.rows} rows with {before.positives} positives in its "
                f"first pass and {now.rows} with {now.positives} in this one; it must give the "
                "same rows in the same order each time: a callable must return a fresh iterator"
            )
        if now.rows == 0:
            raise ValueError("the source has no rows; give at least one batch that is not empty")
        self._seen = replace(now, found=None)
        self.classes()
        if not any(now.counted):
            raise ValueError("the weight is 0 in every row, so no row is left")
        if not all(now.counted):
            what = "positive" if now.counted[0] == 0 else "negative"
            raise ValueError(
                f"all rows with a weight above 0 are {what}; a classifier needs rows of two classes"
            )
        found: Found = now.found
        return found

    def require_repeatable(self, reason: str) -> None:
        """Raise where a second pass is impossible.

        Parameters
        ----------
        reason : str
            What needs it, such as ``"sampling_rate='auto'"``.

        Raises
        ------
        ValueError
            If the source can be read only once.
        """
        if not self.repeatable:
            raise ValueError(
                f"{reason} passes over the rows more than once, but the source is an iterator, "
                "which can be read once. Give a list of batches, a callable that returns a fresh "
                "iterator, such as `lambda: read_batches()`, a path or a Dask collection; or let "
                "one pass do: a number for sampling_rate, sampling='uniform' and "
                "recalibrate_intercept=False"
            )

    @property
    def names_in(self) -> list[str] | None:
        """Names of the columns that `predict` takes, the offset's too; None if not text."""
        names = list(self.layout.inputs)
        if self.layout.kind != "frame" or not all(isinstance(name, str) for name in names):
            return None
        return names

    @property
    def n_columns_in(self) -> int:
        """Number of columns that `predict` takes."""
        return len(self.layout.inputs)

    @property
    def names(self) -> list[str] | None:
        """Names of the slopes' columns."""
        names = self.names_in
        if names is None:
            return None
        return [name for place, name in enumerate(names) if place != self.layout.offset]

    @property
    def n_columns(self) -> int:
        """Number of slopes."""
        return self.n_columns_in - (self.layout.offset is not None)

    @property
    def offset_column(self) -> int | None:
        """Place of the offset's column among those that `predict` takes."""
        return self.layout.offset

    @property
    def positive(self) -> Any:
        """The positive label, in the type of the data once a pass has seen it."""
        if self._seen is not None and self._seen.labels.seen:
            seen = self._seen.labels.positive
            if seen is not None:
                return seen
        return 1 if self.layout.pos_label is None else self.layout.pos_label

    def classes(self) -> NDArray[Any]:
        """Return both labels, sorted, after a pass.

        Returns
        -------
        ndarray of shape (2,)
            Labels.

        Raises
        ------
        ValueError
            If all rows have the same label.
        """
        if self._seen is None:
            raise ValueError("no pass has been made yet; call run first")
        labels = list(self._seen.labels.seen)
        if len(labels) < 2:
            cure = ""
            if self._seen.labels.positive is None:
                cure = f"; the positive label {self.positive!r} was never seen, see pos_label="
            raise ValueError(
                f"all {self._seen.rows} rows have the label {labels[0]!r}{cure}. A classifier "
                "needs rows of two classes"
            )
        array = np.array(sorted(labels))
        return array.astype(object) if array.dtype.kind in "SU" else array
