"""Which columns are combinations of those before them, and coordinates in which the rest differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from imbfit.glm.basis import Basis
from imbfit.glm.design import Design

__all__ = ["WEAK", "Rank", "dependent_columns", "examine"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# A column of whose square less than this share is left, when its combination of the columns before
# is taken away, is weak: products of columns, which lose half of the digits, can't tell how much.
WEAK = 1e-8

# What is left of a dependent column is rounding, of the products or of the numbers stored.
_ROUNDING = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 5e-7}


@dataclass(frozen=True, eq=False)
class Rank:
    """What `examine` found.

    Attributes
    ----------
    aliased : ndarray of bool, shape (n_coef,)
        Columns that add nothing to those before them.
    dependent_on : dict of int to tuple of int
        For each, the columns that it is a combination of.
    units : dict of int to ndarray of shape (n_coef,)
        For each, coefficients of which its own is 1 and the linear predictor 0.
    basis : Basis or None
        Coordinates in which what is weak is replaced by what is left of it.
    """

    aliased: Bools
    dependent_on: dict[int, tuple[int, ...]]
    units: dict[int, Floats]
    basis: Basis | None


def dependent_columns(design: Design, weight: Floats | None = None) -> dict[int, tuple[int, ...]]:
    """Return the columns that are combinations of columns before them, and of which.

    Parameters
    ----------
    design : Design
        The rows.
    weight : ndarray of shape (n_rows,), default=None
        Rows of weight 0 do not count.

    Returns
    -------
    dict of int to tuple of int
        Places among the coefficients. A column of zeros depends on none.

    Examples
    --------
    A constant column depends on the intercept, and a sum on its parts:

    >>> import numpy as np
    >>> from imbfit.glm.design import Design
    >>> from imbfit.glm.rank import dependent_columns
    >>> X = np.array([[1.0, 5, 2, 3], [2, 5, 1, 3], [3, 5, 3, 6], [4, 5, 9, 13]])
    >>> dependent_columns(Design(X, intercept=True))
    {2: (0,), 4: (1, 3)}
    """
    return examine(design, weight, np.zeros(design.n_coef)).dependent_on


def examine(design: Design, weight: Floats | None, ridge: Floats) -> Rank:
    """Tell dependent columns from weak ones.

    Weak columns are replaced, in the basis, by what is left of them, computed row by row, and that
    is looked at again, until no product of columns loses many digits.

    Parameters
    ----------
    design : Design
        The rows, without a basis.
    weight : ndarray of shape (n_rows,) or None
        Rows of weight 0 do not count; weights make no other difference.
    ridge : ndarray of shape (n_coef,)
        A dependent column that the ridge pins down is not aliased.

    Returns
    -------
    Rank
    """
    counted = np.ones(design.n_rows) if weight is None else (weight > 0.0).astype(np.float64)
    search = _Search(design, counted, ridge)
    if design.intercept and not design.sparse:
        search.centre()
    for _ in range(5):
        if not search.look():
            break
    found = dict(sorted(search.dependent_on.items()))
    return Rank(search.aliased, found, search.units, search.work.basis)


class _Search:
    """Columns judged so far, and the coordinates in which the rest is looked at."""

    def __init__(self, design: Design, counted: Floats, ridge: Floats) -> None:
        self.work = design
        self.aliased = np.zeros(design.n_coef, dtype=np.bool_)
        self.dependent_on: dict[int, tuple[int, ...]] = {}
        self.units: dict[int, Floats] = {}
        self._counted = counted
        self._ridge = ridge
        self._norm = np.sqrt(design.squares(counted))
        self._settled = self._norm == 0.0
        for j in np.flatnonzero(self._settled):
            self._settle(int(j), self._unit(int(j)))

    def centre(self) -> None:
        """Take their mean away from columns that are hardly more than that, all at once."""
        design, n = self.work, max(float(self._counted.sum()), 1.0)
        mean = design.back(self._counted) / n
        weak = mean**2 * n > (1.0 - WEAK) * self._norm**2
        weak[0] = False
        weak &= ~self._settled
        if not weak.any():
            return
        units = [self._unit(int(j)) for j in np.flatnonzero(weak)]
        for j, unit in zip(np.flatnonzero(weak), units, strict=True):
            unit[0] = -mean[j]
        about = design.in_basis(_joined(design, np.flatnonzero(weak), units))
        rest = np.sqrt(about.squares(self._counted))
        self._change(
            [
                (int(j), unit)
                for j, unit in zip(np.flatnonzero(weak), units, strict=True)
                if self._remains(int(j), unit, float(rest[j]))
            ]
        )

    def look(self) -> bool:
        """Judge the columns that are weak in these coordinates; tell whether some were changed."""
        gram = self.work.gram(self._counted)
        open_ = np.flatnonzero(~self._settled)
        scale = 1.0 / np.sqrt(np.diag(gram)[open_])
        kept, weak, combinations = _in_order(scale[:, None] * gram[np.ix_(open_, open_)] * scale)
        factor, changed = combinations.factor, []
        for place, sizes in zip(weak, combinations.of_weak, strict=True):
            j = int(open_[place])
            before, on_scale = open_[kept[: len(sizes)]], scale[kept[: len(sizes)]]
            unit = self._unit(j)
            unit[before] = -_solve(factor, sizes) * on_scale / scale[place]
            # sums over many rows give a combination to fewer digits than the rows themselves
            rest = self.work.eta(unit) * self._counted
            more = _half(factor, on_scale * self.work.back(rest)[before])
            unit[before] -= _solve(factor, more) * on_scale
            rest = self.work.eta(unit) * self._counted
            if self._remains(j, unit, float(np.sqrt(rest @ rest))):
                changed.append((j, unit))
        self._change(changed)
        return bool(changed)

    def _unit(self, j: int) -> Floats:
        unit = np.zeros(self.work.n_coef)
        unit[j] = 1.0
        return unit

    def _remains(self, j: int, unit: Floats, rest: float) -> bool:
        """Judge a column by the norm of what is left; tell whether it stays, as another."""
        raw = self.work.to_raw(unit)
        parts = np.abs(raw) * self._norm
        if rest > _ROUNDING[self.work.X.dtype] * float(parts.sum()):
            return True
        return not self._settle(j, raw)

    def _settle(self, j: int, raw: Floats) -> bool:
        """Leave a column of rounding alone; tell whether nothing else pins down its coefficient."""
        self._settled[j] = True
        needed = np.abs(raw) * self._norm > 1e-6 * self._norm[j]
        needed[j] = False
        if self._ridge[needed].any() or self._ridge[j]:
            return False
        self.aliased[j] = True
        self.units[j] = raw
        self.dependent_on[j] = tuple(int(k) for k in np.flatnonzero(needed))
        return True

    def _change(self, changed: list[tuple[int, Floats]]) -> None:
        if changed:
            columns = np.array([j for j, _ in changed])
            basis = _joined(self.work, columns, [unit for _, unit in changed])
            self.work = self.work.in_basis(basis)


@dataclass(frozen=True, eq=False)
class _Combinations:
    """Triangle of the kept columns, and of each weak one the products with those before it."""

    factor: Floats
    of_weak: list[Floats]


def _in_order(gram: Floats) -> tuple[NDArray[np.intp], list[int], _Combinations]:
    """Factor a matrix of diagonal 1 by Cholesky, passing over columns that are weak."""
    size = len(gram)
    lower = np.zeros((size, size))
    kept: list[int] = []
    weak: list[int] = []
    of_weak = []
    for j in range(size):
        k = len(kept)
        column = gram[j:, j] - lower[j:, :k] @ lower[j, :k]
        if column[0] > WEAK:
            lower[j:, k] = column / np.sqrt(column[0])
            kept.append(j)
        else:
            weak.append(j)
            of_weak.append(lower[j, :k].copy())
    places = np.array(kept, dtype=np.intp)
    return places, weak, _Combinations(lower[places, : len(kept)], of_weak)


def _half(factor: Floats, products: Floats) -> Floats:
    k = len(products)
    solved: Floats = scipy.linalg.solve_triangular(factor[:k, :k], products, lower=True)
    return solved


def _solve(factor: Floats, sizes: Floats) -> Floats:
    k = len(sizes)
    solved: Floats = scipy.linalg.solve_triangular(factor[:k, :k], sizes, lower=True, trans=1)
    return solved


def _joined(work: Design, changed: NDArray[np.intp], left: list[Floats]) -> Basis:
    """Return the basis that also replaces the columns `changed` by what is left of them."""
    columns = changed
    if work.basis is not None:
        columns = np.union1d(work.basis.columns, columns)
    units = np.zeros((work.n_coef, len(columns)))
    units[columns, np.arange(len(columns))] = 1.0
    inner = units.copy()
    inner[:, np.searchsorted(columns, changed)] = np.array(left).T
    return Basis(columns, scipy.sparse.csc_array(units - work.to_raw(inner)))
