"""Whether a fit runs away because the columns separate the classes, and which column does it.

`overlap` decides the first question; here are cheap signs, and what to call by name.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.glm import stored
from imbfit.glm.design import Design
from imbfit.glm.overlap import Separation, is_separated, rows_of, search_separation
from imbfit.glm.rank import dependent_columns

__all__ = [
    "Separation",
    "dependent_columns",
    "is_separated",
    "most_extreme",
    "search_separation",
    "separating_column",
    "separating_columns",
    "suspect",
]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


class _Solution(Protocol):
    @property
    def coef(self) -> Floats: ...
    @property
    def eta(self) -> Floats: ...
    @property
    def condition(self) -> float: ...
    @property
    def n_iter(self) -> int: ...
    @property
    def converged(self) -> bool: ...
    @property
    def solver(self) -> str: ...


def suspect(solution: _Solution, start_eta: Floats, max_eta: float = 30.0) -> bool:
    """Tell whether a fit looks as if the classes were separated.

    It may look so for other reasons: slow convergence, columns with a few huge values, or nearly
    dependent ones. `is_separated` decides.

    Parameters
    ----------
    solution : Solution
        Of `newton.minimize`.
    start_eta : ndarray of shape (n_rows,)
        Linear predictor at the start.
    max_eta : float, default=30.0
        How far a linear predictor of a good fit goes at most.

    Returns
    -------
    bool
    """
    far = float(np.abs(solution.eta - start_eta).max(initial=0.0))
    return bool(
        not solution.converged
        or far > max_eta
        or solution.condition > 1e12
        or (solution.solver == "newton" and solution.n_iter > 20)
    )


def separating_column(
    X: Any, positive: Bools, *, intercept: bool = True, weight: Floats | None = None
) -> int | None:
    """Return a column that separates the classes by itself, or None if there is none.

    Parameters
    ----------
    X : ndarray or sparse CSR or CSC, of shape (n_rows, n_slopes)
        Dense or sparse columns.
    positive : ndarray of bool, shape (n_rows,)
        Labels.
    intercept : bool, default=True
        Whether there is a free intercept. If not, only a split at zero counts.
    weight : ndarray of shape (n_rows,), default=None
        Rows of weight 0 do not count.

    Returns
    -------
    int or None
        Its place in X. Columns that split all rows come before those that leave some at the
        boundary.
    """
    found, complete = _splits(X, positive, intercept=intercept, weight=weight)
    for mask in (complete, found):
        if mask.any():
            return int(np.argmax(mask))
    return None


def separating_columns(
    X: Any, positive: Bools, *, intercept: bool = True, weight: Floats | None = None
) -> NDArray[np.intp]:
    """Return all columns that separate the classes by themselves, as `separating_column` does.

    A column that is nonzero in one class only, and there of one sign, separates them too: it leaves
    the rows where it is zero at the boundary.

    Parameters
    ----------
    X : ndarray or sparse CSR or CSC, of shape (n_rows, n_slopes)
        Dense or sparse columns.
    positive : ndarray of bool, shape (n_rows,)
        Labels.
    intercept : bool, default=True
        Whether there is a free intercept. If not, only a split at zero counts.
    weight : ndarray of shape (n_rows,), default=None
        Rows of weight 0 do not count.

    Returns
    -------
    ndarray of int

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.separation import separating_columns
    >>> X = np.array([[1.0, 0, 0], [2, 1, 0], [3, 0, 1], [4, 0, -1]])
    >>> separating_columns(X, np.array([False, True, False, False])).tolist()
    [1]
    """
    return np.flatnonzero(_splits(X, positive, intercept=intercept, weight=weight)[0])


def _splits(
    X: Any, positive: Bools, *, intercept: bool, weight: Floats | None
) -> tuple[Bools, Bools]:
    """Return which columns split the classes, and which of them leave no row at the boundary."""
    design = Design(X, intercept=intercept)
    counted = np.ones(len(positive), dtype=np.bool_) if weight is None else weight > 0.0
    ranges = _sparse_ranges if design.sparse else _dense_ranges
    low_p, high_p = ranges(design.X, counted & positive)
    low_n, high_n = ranges(design.X, counted & ~positive)
    varies = np.maximum(high_p, high_n) > np.minimum(low_p, low_n)
    if not intercept:
        up = (low_p >= 0.0) & (high_n <= 0.0)
        down = (high_p <= 0.0) & (low_n >= 0.0)
        varies |= high_p != 0.0
        strict = (low_p > 0.0) & (high_n < 0.0) | (high_p < 0.0) & (low_n > 0.0)
    else:
        up, down = high_n <= low_p, high_p <= low_n
        strict = (high_n < low_p) | (high_p < low_n)
    found = (up | down) & varies
    return found, found & strict


def _dense_ranges(X: Any, mask: Bools) -> tuple[Floats, Floats]:
    low = np.full(X.shape[1], np.inf)
    high = np.full(X.shape[1], -np.inf)
    for start in range(0, len(mask), 8_192):
        part = X[start : start + 8_192][mask[start : start + 8_192]]
        if len(part):
            np.minimum(low, part.min(axis=0), out=low)
            np.maximum(high, part.max(axis=0), out=high)
    return low, high


def _sparse_ranges(X: Any, mask: Bools) -> tuple[Floats, Floats]:
    columns = X.shape[1]
    low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
    filled = np.zeros(columns, dtype=np.int64)
    for start, _, part in stored.parts(X, summed=True):
        outer = start + np.repeat(np.arange(len(part.indptr) - 1), np.diff(part.indptr))
        row, column = (outer, part.indices) if X.format == "csr" else (part.indices, outer)
        own = mask[row]
        at, data = column[own].astype(np.intp), part.data[own]
        np.minimum.at(low, at, data)
        np.maximum.at(high, at, data)
        filled += np.bincount(at, minlength=columns)
    hidden = filled < int(mask.sum())
    return np.where(hidden, np.minimum(low, 0.0), low), np.where(
        hidden, np.maximum(high, 0.0), high
    )


def most_extreme(solution: _Solution, design: Design) -> int:
    """Return the slope that does most to put the most extreme row where it is.

    Parameters
    ----------
    solution : Solution
        Of `newton.minimize`.
    design : Design
        The rows.

    Returns
    -------
    int
        Its place among the coefficients.
    """
    row = int(np.argmax(np.abs(solution.eta - np.median(solution.eta))))
    first = int(design.intercept)
    away = rows_of(design, np.array([row]))[0] - design.mean()
    return first + int(np.argmax(np.abs(solution.coef * away)[first:]))
