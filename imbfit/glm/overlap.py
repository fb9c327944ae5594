"""Whether a combination of the columns separates the classes, by linear programming.

Where a combination is never lower for a positive than for a negative, and they are not all at the
boundary, a likelihood has no maximum: it grows for ever as that combination's coefficients do.
Otherwise it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import linprog

from imbfit.glm.design import Design

__all__ = ["Separation", "is_separated", "rows_of", "search_separation"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# A row is on the wrong side of a direction when it is so by this share of the furthest row.
_WRONG = 1e-7


@dataclass(frozen=True, eq=False)
class Separation:
    """What `search_separation` found.

    Attributes
    ----------
    separated : bool or None
        False is a proof, up to rounding in the linear program: some rows overlap already, and more
        rows change nothing about that. True was checked on all rows. Overlap by less than 1e-7 of
        the columns' spread is taken for none. None: not decided within the size allowed.
    direction : ndarray of shape (n_coef,) or None
        If separated, coefficients with which no positive is below 0 and no negative above.
    complete : bool
        Whether no row is at 0 either.
    n_rows : int
        How many rows the last linear program had.
    """

    separated: bool | None
    direction: Floats | None = None
    complete: bool = False
    n_rows: int = 0


def is_separated(
    design: Design, positive: Bools, *, weight: Floats | None = None, size: int = 200_000
) -> bool | None:
    """Tell whether a combination of the columns separates the classes; see `search_separation`."""
    return search_separation(design, positive, weight=weight, size=size).separated


def search_separation(
    design: Design, positive: Bools, *, weight: Floats | None = None, size: int = 200_000
) -> Separation:
    """Look for a combination of the columns that separates the classes, by linear programming.

    It starts with a part of the rows and adds those that its combination gets wrong.

    Parameters
    ----------
    design : Design
        The rows.
    positive : ndarray of bool, shape (n_rows,)
        Labels.
    weight : ndarray of shape (n_rows,), default=None
        Rows of weight 0 do not count.
    size : int, default=200_000
        Most numbers (rows times columns) in a linear program; it then takes a second or so.

    Returns
    -------
    Separation

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.design import Design
    >>> from imbfit.glm.separation import search_separation
    >>> X = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
    >>> design = Design(X, intercept=True)
    >>> search_separation(design, np.array([False, False, False, True])).separated
    True
    >>> search_separation(design, np.array([False, True, True, False])).separated
    False
    """
    counted = np.ones(design.n_rows, dtype=np.bool_) if weight is None else weight > 0.0
    side = np.where(positive, 1.0, -1.0)
    most = size // max(design.n_coef, 1)
    chosen = _first_rows(positive, counted, max(most // 4, 2))
    basis = design.centred() if not design.sparse else None
    work = design.in_basis(basis)
    scale = design.scale()
    while 0 < len(chosen) <= most:
        rows = rows_of(work, chosen) / scale
        found = _direction(rows * side[chosen, None])
        if found is None:
            break
        if not found.any():
            return Separation(separated=False, n_rows=len(chosen))
        direction = work.to_raw(found / scale)
        ahead = side * work.eta(found / scale)
        ahead[~counted] = 0.0
        wrong = ahead < -_WRONG * float(np.abs(ahead).max())
        if not wrong.any():
            complete = bool(ahead[counted].min() > _WRONG * float(ahead.max()))
            return Separation(
                separated=True, direction=direction, complete=complete, n_rows=len(chosen)
            )
        wrong[chosen] = False
        others = np.flatnonzero(wrong)
        if not len(others):  # wrong only by what the linear program allows itself
            break
        worst = others[np.argsort(ahead[others], kind="stable")]
        chosen = np.sort(np.concatenate([chosen, worst[: max(len(chosen) // 2, 1)]]))
    return Separation(separated=None, n_rows=len(chosen))


def _first_rows(positive: Bools, counted: Bools, most: int) -> NDArray[np.intp]:
    """Return rows of both classes, evenly spread, half of them of the rarer one if there are."""
    classes = sorted((np.flatnonzero(counted & c) for c in (positive, ~positive)), key=len)
    rare = _spread(classes[0], most // 2)
    return np.sort(np.concatenate([rare, _spread(classes[1], most - len(rare))]))


def _spread(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def rows_of(design: Design, rows: NDArray[np.intp]) -> Floats:
    """Return some rows of Z."""
    slopes = design.X[rows]
    if design.sparse:
        slopes = slopes.toarray()
    slopes = slopes.astype(np.float64)
    z = np.column_stack([np.ones(len(rows)), slopes]) if design.intercept else slopes
    if design.basis is not None:
        z[:, design.basis.columns] -= z @ design.basis.combination
    return np.asarray(z)


def _direction(signed: Floats) -> Floats | None:
    """Return coefficients that leave no signed row below 0 and most above; zeros if none does.

    Each row gains what it is above 0, up to 1. Since a direction may be stretched, the most that
    can be gained is 0, or else 1 and more.
    """
    n, d = signed.shape
    gains = scipy.sparse.hstack([scipy.sparse.csr_array(-signed), scipy.sparse.eye_array(n)])
    solved = linprog(
        np.concatenate([np.zeros(d), -np.ones(n)]),
        A_ub=gains.tocsr(),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * d + [(0.0, 1.0)] * n,
        method="highs",
    )
    if solved.status != 0:
        return None
    if -solved.fun < 0.5:
        return np.zeros(d)
    return np.asarray(solved.x[:d])
