"""Rows and columns of a linear model: the products with Z = (1, X) that solvers are made of.

X is never copied, densified or made float64 as a whole. Where a product needs float64 or a dense
matrix, it goes block by block through one small buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from imbfit.glm import stored
from imbfit.glm.basis import Basis

__all__ = ["Basis", "Design"]

Floats: TypeAlias = NDArray[np.float64]

# Numbers in a dense block: 2 MB, which a core's cache nearly holds. Of wide rows there are more, so
# that adding up n_coef x n_coef matrices costs little beside making them.
_BLOCK = 262_144
_FEWEST_ROWS, _MOST_ROWS = 1_024, 8_192


class Design:
    """The matrix Z of a linear predictor: a column of ones, if there is an intercept, and X.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix or array, of shape (n_rows, n_slopes)
        Dense, float32 or float64, or sparse, CSR or CSC.
    intercept : bool
        Whether the coefficients start with an intercept.
    basis : Basis, default=None
        Stands for other columns with the same span. Coefficients are then those of these columns;
        `to_raw` gives those of Z.

    Raises
    ------
    TypeError
        For another kind of matrix or of number.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.design import Design
    >>> design = Design(np.array([[1.0, 2.0], [3.0, 4.0]]), intercept=True)
    >>> design.eta(np.array([10.0, 1.0, 0.5])).tolist()
    [12.0, 15.0]
    >>> design.gram(np.ones(2)).tolist()
    [[2.0, 4.0, 6.0], [4.0, 10.0, 14.0], [6.0, 14.0, 20.0]]
    """

    def __init__(self, X: Any, *, intercept: bool, basis: Basis | None = None) -> None:
        self.sparse = bool(scipy.sparse.issparse(X))
        if X.dtype not in (np.float32, np.float64):
            raise TypeError(f"X holds {X.dtype}; convert it to float32 or float64")
        if self.sparse:
            if X.format not in {"csr", "csc"}:
                raise TypeError(f"X is sparse of format {X.format!r}; write X.tocsr()")
        elif not isinstance(X, np.ndarray) or X.ndim != 2:
            raise TypeError(f"X is {type(X).__name__}; give a matrix, of NumPy or scipy.sparse")
        self.X = X
        self.intercept = intercept
        self.basis = basis
        self.n_rows, self.n_slopes = (int(n) for n in X.shape)
        self.n_coef = self.n_slopes + int(intercept)
        self._first = int(intercept)

    def in_basis(self, basis: Basis | None) -> Design:
        """Return the same rows in other coordinates, relative to Z."""
        return Design(self.X, intercept=self.intercept, basis=basis)

    def to_raw(self, v: Floats) -> Floats:
        """Return coefficients of Z from those of this design (for a matrix, of each column)."""
        return v if self.basis is None else self.basis.raw(v)

    def from_raw(self, w: Floats) -> Floats:
        """Return coefficients of this design from those of Z (for a matrix, of each column)."""
        return w if self.basis is None else self.basis.changed(w)

    def slope_from_raw(self, g: Floats) -> Floats:
        """Return derivatives in coefficients of this design from derivatives in those of Z."""
        return g if self.basis is None else self.basis.slope(g)

    def raw_covariance(self, v: Floats) -> Floats:
        """Return the covariance of coefficients of Z from that of this design's."""
        return self.to_raw(np.ascontiguousarray(self.to_raw(v).T)).T

    # ------------------------------------------------------------------------------ products

    def eta(self, w: Floats) -> Floats:
        """Return Z w."""
        if self.basis is not None and not self.sparse:
            return self._blockwise_eta(w)
        if self.basis is not None:
            w = self.basis.raw(w)
        slopes = np.ascontiguousarray(w[self._first :], dtype=np.float64)
        if self.sparse:
            eta = stored.times(self.X, slopes)
        elif self._direct:
            eta = self.X @ slopes
        else:
            return self._blockwise_eta(w)
        if self.intercept:
            eta += w[0]
        return eta

    def back(self, g: Floats) -> Floats:
        """Return Z' g."""
        if not self.sparse and (self.basis is not None or not self._direct):
            out = np.zeros(self.n_coef)
            for start, stop, block in self._blocks():
                out += g[start:stop] @ block
            return out
        slopes = stored.back(self.X, g) if self.sparse else g @ self.X
        out = np.concatenate([[g.sum()], slopes]) if self.intercept else slopes
        return out if self.basis is None else self.basis.slope(out)

    def gram(self, d: Floats) -> Floats:
        """Return Z' diag(d) Z; d may be negative."""
        if self.sparse and self.basis is None and self._sparse_is_cheaper:
            return self._bordered(stored.gram(self.X, d), d)
        total = np.zeros((self.n_coef, self.n_coef))
        if float(d.min(initial=0.0)) >= 0.0:
            # the product of a matrix with its own transpose takes half the multiplications
            root = np.sqrt(d)
            for _, _, block in self._blocks(root):
                total += block.T @ block
        else:
            for start, stop, block in self._blocks():
                total += block.T @ (block * d[start:stop, None])
        return total

    def squares(self, d: Floats) -> Floats:
        """Return the diagonal of Z' diag(d) Z."""
        if self.sparse and self.basis is None:
            slopes = stored.squares(self.X, d)
            return np.concatenate([[d.sum()], slopes]) if self.intercept else slopes
        out = np.zeros(self.n_coef)
        for start, stop, block in self._blocks():
            np.square(block, out=block)
            out += d[start:stop] @ block
        return out

    def scale(self) -> Floats:
        """Return the root mean square of each column, 1 where it is zero and for the intercept.

        That of a dense column beside an intercept is about its mean.
        """
        ones = np.ones(self.n_rows)
        if not self.intercept or self.sparse:
            scale = np.sqrt(self.squares(ones) / max(self.n_rows, 1))
            size = np.zeros(self.n_coef)
        else:
            size = np.abs(self.mean())
            about = self.in_basis(self.centred())
            # a large mean may be no number of its own, so what is taken is not quite the mean
            squares = about.squares(ones) / max(self.n_rows, 1) - about.mean() ** 2
            scale = np.sqrt(np.maximum(squares, 0.0))
        if self.intercept:
            scale[0] = 1.0
        # a constant column differs from its own mean by rounding
        return np.where(scale > 1e-13 * size, scale, 1.0)

    def mean(self) -> Floats:
        """Return the mean of each column."""
        return self.back(np.full(self.n_rows, 1.0 / max(self.n_rows, 1)))

    def centred(self) -> Basis | None:
        """Return coordinates in which all columns have about mean 0; None without an intercept."""
        if not self.intercept:
            return None
        mean = self.mean()
        columns = np.flatnonzero(mean[1:]) + 1
        shape = (self.n_coef, len(columns))
        where = (np.zeros(len(columns), dtype=np.intp), np.arange(len(columns)))
        return Basis(columns, scipy.sparse.csc_array((mean[columns], where), shape=shape))

    def quadratic(self, m: Floats) -> Floats:
        """Return z' m z of each row z."""
        out = np.empty(self.n_rows)
        for start, stop, block in self._blocks():
            out[start:stop] = np.einsum("ij,ij->i", block @ m, block)
        return out

    @cached_property
    def _sparse_is_cheaper(self) -> bool:
        return stored.is_cheaper(self.X)

    def _bordered(self, slopes: Floats, d: Floats) -> Floats:
        """Add the intercept's row and column to products of the slopes."""
        if not self.intercept:
            return slopes
        total = np.empty((self.n_coef, self.n_coef))
        total[1:, 1:] = slopes
        total[0, 0] = d.sum()
        total[0, 1:] = total[1:, 0] = stored.back(self.X, d)
        return total

    # ---------------------------------------------------------------------------- dense rows

    @property
    def _direct(self) -> bool:
        """Whether BLAS takes X as it is."""
        if self.X.dtype != np.float64:
            return False
        rows, columns = self.X.strides
        by_row = columns == 8 and rows % 8 == 0 and rows >= 8 * self.n_slopes
        by_column = rows == 8 and columns % 8 == 0 and columns >= 8 * self.n_rows
        return bool(by_row or by_column)

    def _blocks(self, factor: Floats | None = None) -> Iterator[tuple[int, int, Floats]]:
        """Yield blocks of rows, each row times its factor; the buffer is the same for all."""
        step = max(_BLOCK // max(self.n_coef, 1), _FEWEST_ROWS)
        step = max(1, min(step, _MOST_ROWS, self.n_rows))
        # as X lies, so that the inner loops are long
        order: Any = "C" if self.sparse or self.X.strides[1] <= self.X.strides[0] else "F"
        buffer = np.empty((step, self.n_coef), order=order)
        constant = self._constant_change()
        changed = slice(0) if self.basis is None else _as_slice(self.basis.columns)
        chunks = stored.chunks(self.X) if self.sparse else [(0, self.n_rows, self.X)]
        for first, last, rows in chunks:
            for start in range(first, last, step):
                stop = min(start + step, last)
                block = buffer[: stop - start]
                part = rows[start - first : stop - first]
                scaled = None if factor is None else factor[start:stop]
                if self.basis is None:
                    self._fill(part, block, scaled)
                else:
                    self._fill(part, block, None)
                    less = block @ self.basis.combination if constant is None else constant
                    block[:, changed] -= less
                    if scaled is not None:
                        block *= scaled[:, None]
                yield start, stop, block

    def _fill(self, rows: Any, block: Floats, factor: Floats | None) -> None:
        """Write rows into a block."""
        slopes = block[:, self._first :]
        if self.intercept:
            block[:, 0] = 1.0 if factor is None else factor
        if self.sparse:
            slopes[:] = rows.toarray()
            if factor is not None:
                slopes *= factor[:, None]
        elif factor is None:
            np.copyto(slopes, rows)
        else:
            np.multiply(rows, factor[:, None], out=slopes)

    def _constant_change(self) -> Floats | None:
        """Return what the basis takes from its columns, if that is the same in all rows."""
        if self.basis is None or not self.intercept:
            return None
        constant = self.basis.combination[[0]]
        if constant.nnz < self.basis.combination.nnz:
            return None
        return np.asarray(constant.toarray())

    def _blockwise_eta(self, w: Floats) -> Floats:
        eta = np.empty(self.n_rows)
        for start, stop, block in self._blocks():
            np.dot(block, w, out=eta[start:stop])
        return eta


def _as_slice(places: NDArray[np.intp]) -> Any:
    """Return neighbouring places as a slice, which takes no copy."""
    if len(places) and np.array_equal(places, np.arange(places[0], places[0] + len(places))):
        return slice(int(places[0]), int(places[0]) + len(places))
    return places
