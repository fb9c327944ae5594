"""Scores of rows as a linear function of what the training moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["Directions", "column_spreads", "directions_for", "rounding_of"]

Floats: TypeAlias = NDArray[np.float64]

# The ridge on an intercept or along an anchor, relative to that on the slopes: without any, no
# finite bound on the loss could be given.
_LIGHT = 1e-4
# Squares of values beyond overflow, and of their inverses vanish.
_LARGEST = 1e100


@dataclass(frozen=True)
class Directions:
    """Slopes in units of the columns' spreads, after a level and an anchor where there are any.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (n_rows, n_columns)
        Features.
    spread : ndarray of shape (n_columns,)
        Steps along a column are taken in units of 1 / spread.
    level : bool
        Whether a constant is added to the scores.
    anchor : ndarray of shape (n_columns,) or None
        Slopes of length 1, along which the ridge hardly pulls.
    """

    X: Any
    spread: Floats
    level: bool
    anchor: Floats | None

    @property
    def n_coef(self) -> int:
        """What the training moves."""
        return int(self.level) + (self.anchor is not None) + len(self.spread)

    def parts(self, w: Floats) -> tuple[Floats, float]:
        """Return slopes in the units of X, and the constant."""
        first = int(self.level)
        constant = float(w[0]) if self.level else 0.0
        if self.anchor is None:
            return w[first:] / self.spread, constant
        return w[first] * self.anchor + w[first + 1 :] / self.spread, constant

    def start(self, slopes: Floats, constant: float) -> Floats:
        """Return coefficients that give these slopes and this constant."""
        head = [constant] if self.level else []
        if self.anchor is not None:
            along = float(slopes @ self.anchor)
            head.append(along)
            slopes = slopes - along * self.anchor
        return np.concatenate([head, slopes * self.spread])

    def ridge(self, strength: float) -> Floats:
        """Return the ridge on each coefficient, which is `strength` on each slope of X."""
        head = [strength * _LIGHT] * (int(self.level) + (self.anchor is not None))
        return np.concatenate([head, strength / self.spread**2])

    def scores(self, w: Floats) -> Floats:
        """Return the scores of the rows."""
        slopes, constant = self.parts(w)
        return score_rows(self.X, slopes, constant)

    def back(self, r: Floats) -> Floats:
        """Return the derivative of r . scores."""
        slope = np.asarray(self.X.T @ r.astype(self.X.dtype, copy=False), dtype=np.float64)
        head = [r.sum()] if self.level else []
        if self.anchor is not None:
            head.append(slope @ self.anchor)
        return np.concatenate([head, slope / self.spread])


def score_rows(X: Any, slopes: Floats, constant: float) -> Floats:
    """Return X slopes + constant as float64, without a copy of X in another type."""
    scores = np.asarray(X @ slopes.astype(X.dtype, copy=False), dtype=np.float64)
    return scores + constant if constant else scores


def rounding_of(X: Any, slopes: Floats) -> float:
    """Return what may separate scores that are equal but for the order of their sums."""
    if scipy.sparse.issparse(X):
        largest = np.asarray(abs(X).max(axis=0).todense(), dtype=np.float64).ravel()
    else:
        largest = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
    return 32.0 * float(np.finfo(X.dtype).eps) * float(np.abs(slopes) @ largest)


def column_spreads(X: Any) -> Floats:
    """Return the standard deviation of each column, 1 for a constant one."""
    rows = X.shape[0]
    if scipy.sparse.issparse(X):
        mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
        square = np.asarray(X.multiply(X).sum(axis=0), dtype=np.float64).ravel() / rows
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0, dtype=np.float64)
            square = np.einsum("ij,ij->j", X, X, dtype=np.float64) / rows
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    if not np.all(np.sqrt(square) < _LARGEST):
        column = int(np.argmin(np.sqrt(square) < _LARGEST))
        raise ValueError(
            f"column {column} of X has values so large that their squares overflow; divide it by a "
            "constant, or put a StandardScaler before"
        )
    flat = ~(spread > 1e-9 * np.sqrt(square))
    spread = np.where(flat, np.abs(mean), spread)
    return np.where(spread > 1.0 / _LARGEST, spread, 1.0)


def directions_for(X: Any, *, level: bool, anchor: Floats | None) -> Directions:
    """Return the directions for a table.

    Parameters
    ----------
    X : ndarray or sparse matrix
        Features.
    level : bool
        Whether the scores have a free constant.
    anchor : ndarray of shape (n_columns,) or None
        Slopes that the ridge pulls to; of any length above 0.

    Returns
    -------
    Directions
    """
    length = 0.0 if anchor is None else float(np.linalg.norm(anchor))
    along = anchor / length if anchor is not None and length > 0.0 else None
    return Directions(X, column_spreads(X), level, along)
