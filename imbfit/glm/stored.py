"""Products of sparse matrices, CSR or CSC, in parts: none is copied, densified or made float64.

All results are float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["back", "chunks", "gram", "is_cheaper", "parts", "squares", "times"]

Floats: TypeAlias = NDArray[np.float64]

# Stored numbers in a part; more where each part gives a matrix of all pairs of columns.
_STORED, _MULTIPLIED = 250_000, 1_000_000

# Time of a multiplication between sparse rows, relative to one between dense rows, and of the
# making of a number of a dense block (measured, to a factor of 2).
_SPARSE_COST, _FILL_COST = 300.0, 200.0


def times(X: Any, w: Floats) -> Floats:
    """Return X w."""
    if X.dtype == np.float64:
        return np.asarray(X @ w)
    out = np.zeros(X.shape[0])
    for start, stop, part in parts(X):
        if X.format == "csr":
            out[start:stop] = part @ w
        else:
            out += part @ w[start:stop]
    return out


def back(X: Any, g: Floats) -> Floats:
    """Return X' g."""
    if X.dtype == np.float64:
        return np.asarray(X.T @ g)
    return _back(X, g, squared=False)


def squares(X: Any, d: Floats) -> Floats:
    """Return the diagonal of X' diag(d) X."""
    return _back(X, d, squared=True)


def _back(X: Any, g: Floats, *, squared: bool) -> Floats:
    out = np.zeros(X.shape[1])
    for start, stop, part in parts(X, summed=squared):
        if squared:
            # the numbers of a part may be those of X
            part.data = np.square(part.data)
        if X.format == "csr":
            out += part.T @ g[start:stop]
        else:
            out[start:stop] = part.T @ g
    return out


def gram(X: Any, d: Floats) -> Floats:
    """Return X' diag(d) X, from products of stored numbers only."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for first, _, rows in chunks(X):
        for start, stop, part in parts(rows, _MULTIPLIED):
            scaled = part.data * np.repeat(d[first + start : first + stop], np.diff(part.indptr))
            heavy = scipy.sparse.csr_array((scaled, part.indices, part.indptr), shape=part.shape)
            total += (part.T.tocsr() @ heavy).toarray()
    return total


def is_cheaper(X: Any) -> bool:
    """Tell whether `gram` takes less time than the same from dense blocks of rows."""
    n, d = X.shape
    if X.format == "csr":
        stored = np.diff(X.indptr)
    else:
        stored = np.zeros(n, dtype=np.int64)
        for start in range(0, X.nnz, _STORED):
            stored += np.bincount(X.indices[start : start + _STORED], minlength=n)
    sparse = _SPARSE_COST * float(stored @ stored.astype(np.float64))
    return bool(sparse < n * d * (d + _FILL_COST))


def chunks(X: Any) -> Iterator[tuple[int, int, Any]]:
    """Yield all rows, or, where rows are slow to take, as in CSC, few parts of them, as CSR."""
    n = X.shape[0]
    if X.format == "csr":
        yield 0, n, X
        return
    # each is looked for among all stored numbers
    stored = max(_STORED, X.nnz // 16)
    rows = max(1, min(n, n * stored // max(X.nnz, 1)))
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        yield start, stop, X[start:stop].tocsr()


def parts(
    X: Any, stored: int | None = None, *, summed: bool = False
) -> Iterator[tuple[int, int, Any]]:
    """Yield float64 parts of bounded size, rows of CSR and columns of CSC.

    Places that are stored twice stand for a sum; `summed` makes that sum.
    """
    kind = scipy.sparse.csr_array if X.format == "csr" else scipy.sparse.csc_array
    most = _STORED if stored is None else stored
    doubled = summed and not X.has_canonical_format
    last = len(X.indptr) - 1
    start = 0
    while start < last:
        begin = int(X.indptr[start])
        stop = int(np.searchsorted(X.indptr, begin + most, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        end = int(X.indptr[stop])
        data = X.data[begin:end].astype(np.float64, copy=False)
        shape = (stop - start, X.shape[1]) if X.format == "csr" else (X.shape[0], stop - start)
        own = (data, X.indices[begin:end], X.indptr[start : stop + 1] - begin)
        part = kind(own, shape=shape, copy=doubled)
        if doubled:
            part.sum_duplicates()
        yield start, stop, part
        start = stop
