"""The counts that every metric reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_NO_COLUMNS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Confusion:
    """Counts of a binary confusion matrix, and per-row columns summed over its cells.

    Four independent numbers are stored and the other five derived, so that they may be floats,
    arrays with one entry per threshold, or symbols of an exact algebra.

    Parameters
    ----------
    tp : number or array
        True positives.
    pp : number or array
        Predicted positives, the rows that are flagged.
    ap : number or array
        Actual positives.
    n : number or array
        All rows.
    columns : mapping of str to Confusion, default={}
        For each per-row column, its sums over the same cells.

    Examples
    --------
    >>> from imbfit.confusion import Confusion
    >>> counts = Confusion(tp=3, pp=5, ap=4, n=100)
    >>> counts.fp, counts.fn, counts.tn
    (2, 1, 94)
    """

    tp: Any
    pp: Any
    ap: Any
    n: Any
    columns: Mapping[str, Any] = field(default_factory=lambda: _NO_COLUMNS)

    @property
    def fp(self) -> Any:
        """False positives, flagged but negative."""
        return self.pp - self.tp

    @property
    def fn(self) -> Any:
        """False negatives, positive but not flagged."""
        return self.ap - self.tp

    @property
    def tn(self) -> Any:
        """True negatives."""
        return self.n - self.pp - (self.ap - self.tp)

    @property
    def pn(self) -> Any:
        """Predicted negatives."""
        return self.n - self.pp

    @property
    def an(self) -> Any:
        """Actual negatives."""
        return self.n - self.ap

    def as_floats(self) -> Confusion:
        """Return the same counts as float arrays.

        Python's own numbers raise ZeroDivisionError where arrays give a value to be judged.

        Returns
        -------
        Confusion
            Arrays of the shapes that the counts have.
        """
        tp, pp, ap, n = (np.asarray(x, float) for x in (self.tp, self.pp, self.ap, self.n))
        return Confusion(tp, pp, ap, n, _columns_as_floats(self.columns))

    @classmethod
    def from_flags(
        cls,
        positive: np.ndarray,
        flagged: np.ndarray,
        *,
        weight: np.ndarray | None = None,
        columns: Mapping[str, np.ndarray] | None = None,
    ) -> Confusion:
        """Count rows that are positive and rows that are flagged.

        Parameters
        ----------
        positive, flagged : ndarray of bool, shape (n_rows,)
            The truth and the prediction.
        weight : ndarray of float, shape (n_rows,), default=None
            How often each row counts; once by default.
        columns : mapping of str to ndarray of float, shape (n_rows,)
            Per-row values to sum, each times the row's weight.

        Returns
        -------
        Confusion
            Floats throughout, each cell summed by itself.
        """
        masks = (positive & flagged, flagged & ~positive, positive & ~flagged, ~flagged & ~positive)

        def cells(values: np.ndarray | None) -> tuple[float, float, float, float]:
            if values is None:
                tp, fp, fn, tn = (float(np.count_nonzero(mask)) for mask in masks)
            else:
                tp, fp, fn, tn = (float(values[mask].sum()) for mask in masks)
            return tp, fp, fn, tn

        weighted = {
            name: cls.from_cells(*cells(values if weight is None else values * weight))
            for name, values in (columns or {}).items()
        }
        return cls.from_cells(*cells(weight), weighted)

    @classmethod
    def from_cells(
        cls, tp: Any, fp: Any, fn: Any, tn: Any, columns: Mapping[str, Any] = _NO_COLUMNS
    ) -> Confusion:
        """Keep all four cells, so that an empty one is exactly zero whatever the others are.

        Parameters
        ----------
        tp, fp, fn, tn : float or ndarray of float
            The cells.
        columns : mapping of str to Confusion, default={}
            Sums of per-row columns over the same cells.

        Returns
        -------
        Confusion
            The counts, whose totals are sums of cells.
        """
        return _Cells(tp, tp + fp, tp + fn, tp + fp + fn + tn, columns, (fp, fn, tn))


@dataclass(frozen=True, eq=False, repr=False)
class _Cells(Confusion):
    """Counts with all four cells kept.

    Differences of sums lose a small cell beside a large one: 1e17 + 1 - 1e17 is 0.
    """

    others: tuple[Any, Any, Any] = (0.0, 0.0, 0.0)

    def __repr__(self) -> str:
        return repr(Confusion(self.tp, self.pp, self.ap, self.n, self.columns))

    @property
    def fp(self) -> Any:
        return self.others[0]

    @property
    def fn(self) -> Any:
        return self.others[1]

    @property
    def tn(self) -> Any:
        return self.others[2]

    @property
    def pn(self) -> Any:
        return self.others[1] + self.others[2]

    @property
    def an(self) -> Any:
        return self.others[0] + self.others[2]

    def as_floats(self) -> Confusion:
        fp, fn, tn = (np.asarray(x, float) for x in self.others)
        tp, pp, ap, n = (np.asarray(x, float) for x in (self.tp, self.pp, self.ap, self.n))
        return _Cells(tp, pp, ap, n, _columns_as_floats(self.columns), (fp, fn, tn))


def _columns_as_floats(columns: Mapping[str, Confusion]) -> dict[str, Confusion]:
    return {name: column.as_floats() for name, column in columns.items()}
