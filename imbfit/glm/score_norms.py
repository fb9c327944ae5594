"""Norms of rows, which the scores of a_optimal and l_optimal have as a factor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.design import Basis, Design
from imbfit.glm.pilot import Coordinates, Pilot

__all__ = ["A_OPTIMAL_COLUMNS", "Norm", "a_optimal_matrix", "projected", "standardised"]

Floats: TypeAlias = NDArray[np.float64]

# With more coefficients a_optimal costs more than the fit: each row takes n_coef^2 multiplications.
A_OPTIMAL_COLUMNS = 500

# Rows, or stored numbers of a sparse matrix, that are squared at once.
_BLOCK_ROWS, _STORED = 8_192, 1_000_000


@dataclass(frozen=True, eq=False)
class _Projected:
    """The norm |G z| of each row, G one row per contrast."""

    matrix: Floats
    basis: Basis | None
    intercept: bool

    def squared(self, X: Any) -> Floats:
        # in coordinates in which columns far from 0 lose no digits
        design = Design(X, intercept=self.intercept, basis=self.basis)
        rows = design.from_raw(self.matrix.T).T
        return design.quadratic(rows.T @ rows)


@dataclass(frozen=True, eq=False)
class _Standardised:
    """The norm of each row with standardised columns, and 1 for the intercept."""

    centre: Floats
    inverse_scale: Floats
    intercept: bool

    def squared(self, X: Any) -> Floats:
        design = Design(X, intercept=self.intercept)
        norms = np.full(design.n_rows, float(self.intercept))
        if not design.sparse:
            for start in range(0, design.n_rows, _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                block = (design.X[rows] - self.centre) * self.inverse_scale
                norms[rows] += np.einsum("ij,ij->i", block, block)
            return norms
        weight = np.square(self.inverse_scale)
        shift = self.centre * weight
        norms += float(shift @ self.centre)
        by_row = design.X.format == "csr"
        pointers = design.X.indptr
        length = len(pointers) - 1
        step = max(1, length * _STORED // max(int(pointers[-1]), 1))
        for start in range(0, length, step):
            part = slice(start, start + step)
            if by_row:
                block = design.X[part].astype(np.float64)
                norms[part] += block.power(2) @ weight - 2.0 * (block @ shift)
            else:
                block = design.X[:, part].astype(np.float64)
                norms += block.power(2) @ weight[part] - 2.0 * (block @ shift[part])
        return norms


Norm: TypeAlias = _Projected | _Standardised


def projected(pilot: Pilot, contrasts: Floats | None) -> _Projected:
    """Return the norm of a_optimal for contrasts, by default each slope."""
    design = pilot.design.in_basis(None)
    if design.n_coef > A_OPTIMAL_COLUMNS:
        raise ValueError(
            f"sampling='a_optimal' takes up to {A_OPTIMAL_COLUMNS} coefficients, and there are "
            f"{design.n_coef}: its cost grows with their square. Write sampling='l_optimal'"
        )
    if contrasts is None:
        contrasts = np.eye(design.n_coef)[int(design.intercept) :]
    basis = None if design.sparse else design.centred()
    return _Projected(a_optimal_matrix(pilot, contrasts), basis, design.intercept)


def standardised(pilot: Pilot) -> _Standardised:
    """Return means and inverse standard deviations among rows weighted by their information."""
    raw = pilot.design.in_basis(None)
    design = raw if raw.sparse else raw.in_basis(raw.centred())
    weight = pilot.information / pilot.information.sum()
    first = int(raw.intercept)
    raw_size = np.sqrt(raw.squares(weight)[first:])
    if not raw.intercept:
        return _Standardised(np.zeros(raw.n_slopes), _inverse(raw_size, raw_size), intercept=False)
    own = design.back(weight)[first:]
    variance = design.squares(weight)[first:] - np.square(own)
    scale = np.sqrt(np.maximum(variance, 0.0))
    return _Standardised(raw.back(weight)[first:], _inverse(scale, raw_size), intercept=True)


def a_optimal_matrix(pilot: Pilot, contrasts: Floats) -> Floats:
    """Return L A^-1, each contrast in L divided by its standard error in the full fit.

    Negatives kept in proportion to f/q times the norm of its product with z minimise the sum of the
    contrasts' variance ratios, which no unit changes.

    Parameters
    ----------
    pilot : Pilot
        Estimates means over the population.
    contrasts : ndarray of float, shape (k, n_coef)
        Combinations of the coefficients.

    Returns
    -------
    ndarray of float, shape (identified, n_coef)
        A row for each contrast that the pilot's rows identify, for products with z = (1, x).

    Raises
    ------
    ValueError
        If they identify no contrast.
    """
    at = Coordinates(pilot, contrasts)
    return np.ascontiguousarray(at.design.to_raw(at.basis @ at.rows.T).T)


def _inverse(scale: Floats, size: Floats) -> Floats:
    """Return 1/scale, and 0 where it is zero but for rounding."""
    known = scale > 1e-7 * size
    out: Floats = np.divide(1.0, scale, out=np.zeros_like(scale), where=known)
    return out
