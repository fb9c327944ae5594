"""Coordinates in which columns differ more than in those that they are given in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Basis"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Basis:
    """Other coordinates: some columns less a combination of the others.

    Parameters
    ----------
    columns : ndarray of int, shape (k,)
        Places, among the coefficients, of the columns that are changed.
    combination : sparse array of shape (n_coef, k)
        What is taken from each, as multiples of the columns of Z.
    """

    columns: NDArray[np.intp]
    combination: Any

    def raw(self, v: Floats) -> Floats:
        """Return coefficients of Z from those of the changed columns (also column by column)."""
        w = np.array(v, dtype=np.float64)
        w -= self.combination @ w[self.columns]
        return w

    def changed(self, w: Floats) -> Floats:
        """Return coefficients of the changed columns from those of Z (also column by column)."""
        v = np.array(w, dtype=np.float64)
        inner = self.combination[self.columns]
        of_columns = v[self.columns]
        if inner.nnz:
            of_columns = np.linalg.solve(np.eye(len(self.columns)) - inner.toarray(), of_columns)
        v += self.combination @ of_columns
        return v

    def slope(self, g: Floats) -> Floats:
        """Return derivatives in the changed coefficients from those in the coefficients of Z."""
        out = np.array(g, dtype=np.float64)
        out[self.columns] -= self.combination.T @ out
        return out
