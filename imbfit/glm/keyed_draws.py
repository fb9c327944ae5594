"""Draws keyed by the row's number."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["bottom_k", "row_uniforms"]

Floats: TypeAlias = NDArray[np.float64]


def row_uniforms(seed: int, stream: int, start: int, stop: int) -> Floats:
    """Return the uniform numbers of rows, which depend on nothing but seed, stream and row number.

    Parameters
    ----------
    seed : int
        Seed, from 0 up to 2**64 - 1.
    stream : int
        Number of the sequence; those of different streams are independent.
    start, stop : int
        First row and the one after the last.

    Returns
    -------
    ndarray of float, shape (stop - start,)
        Numbers in [0, 1), the same however the rows are cut into batches.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.keyed_draws import row_uniforms
    >>> parts = [row_uniforms(7, 0, 0, 5), row_uniforms(7, 0, 5, 9)]
    >>> bool(np.all(np.concatenate(parts) == row_uniforms(7, 0, 0, 9)))
    True
    """
    for name, value in (("seed", seed), ("stream", stream)):
        if not 0 <= value < 2**64:
            raise ValueError(f"{name} is {value}; give an integer from 0 up to 2**64 - 1")
    if not 0 <= start <= stop:
        raise ValueError(f"rows from {start} to {stop} are asked for; give 0 <= start <= stop")
    # The generator makes four numbers at each value of its counter.
    key = np.array([seed, stream], dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(counter=start // 4, key=key))
    skipped = start % 4
    return generator.random(skipped + stop - start)[skipped:]


def bottom_k(values: Floats, k: int) -> NDArray[np.intp]:
    """Return the places of the k smallest values, in ascending order of place.

    Of equal values the first ones are taken. So the k smallest of a union of parts are among the k
    smallest of each part.

    Parameters
    ----------
    values : ndarray of float, shape (n_rows,)
        The values.
    k : int
        How many; all if there are no more.

    Returns
    -------
    ndarray of int, shape (min(k, n_rows),)
        Their places.

    Raises
    ------
    ValueError
        If k is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.keyed_draws import bottom_k
    >>> bottom_k(np.array([0.4, 0.1, 0.3, 0.1]), 3).tolist()
    [1, 2, 3]
    """
    if k < 0:
        raise ValueError(f"k is {k}; give a number of rows, at least 0")
    if k >= len(values):
        return np.arange(len(values))
    if k == 0:
        return np.empty(0, dtype=np.intp)
    largest = np.partition(values, k - 1)[k - 1]
    below = np.flatnonzero(values < largest)
    equal = np.flatnonzero(values == largest)[: k - len(below)]
    return np.sort(np.concatenate([below, equal]))
