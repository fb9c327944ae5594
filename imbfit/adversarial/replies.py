"""Best replies of both players, over all sizes at once.

Rows that share a label and nearly a score are a *block*: its `weight` says how many. A set of rows
is given by the share of each block that is in it, a *membership* in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Best", "best_sets", "peaks", "summits"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class Best:
    """For each size the set of that size with the largest sum of gains.

    Attributes
    ----------
    total : ndarray of shape (n_sizes,)
        Its sum.
    order : ndarray of int of shape (n_sizes, n_blocks) or None
        Blocks from the largest gain down; None where that is their own order for all sizes.
    whole : ndarray of int of shape (n_sizes,)
        So many blocks are in it as a whole.
    rest : ndarray of shape (n_sizes,)
        The share of the next block.
    n_blocks : int
        Blocks.
    """

    total: Floats
    order: Positions | None
    whole: Positions
    rest: Floats
    n_blocks: int

    def members(self, at: Positions) -> Floats:
        """Return the memberships for some of the sizes.

        Parameters
        ----------
        at : ndarray of int of shape (n_wanted,)
            Positions among the sizes.

        Returns
        -------
        ndarray of shape (n_wanted, n_blocks)
        """
        ranks = np.arange(self.n_blocks)
        ranked = np.clip(
            np.where(
                ranks == self.whole[at, None],
                self.rest[at, None],
                ranks < self.whole[at, None],
            ),
            0.0,
            1.0,
        )
        if self.order is None:
            return ranked
        found = np.empty_like(ranked)
        np.put_along_axis(found, self.order[at], ranked, axis=1)
        return found


def best_sets(gain: Floats, weight: Floats, sizes: Floats) -> Best:
    """Return the best set of each size.

    Parameters
    ----------
    gain : ndarray of shape (n_sizes, n_blocks)
        For one row of each block.
    weight : ndarray of shape (n_blocks,)
        Rows of each block.
    sizes : ndarray of shape (n_sizes,)
        From 0 to all rows.

    Returns
    -------
    Best
    """
    n_sizes, n_blocks = gain.shape
    order: Positions | None = None
    if (gain[:, 1:] > gain[:, :-1]).any():
        # stable is a merge of runs, and the labels' blocks are sorted runs most of the time
        order = np.argsort(-gain, axis=1, kind="stable")
        gain = np.take_along_axis(gain, order, axis=1)
        each = weight[order]
        reached = np.cumsum(each, axis=1)
        whole = (reached <= sizes[:, None] * (1.0 + 1e-12)).sum(axis=1)
    else:
        each = weight
        reached = np.cumsum(weight)
        whole = np.searchsorted(reached, sizes * (1.0 + 1e-12), side="right")
    sums = np.zeros((n_sizes, n_blocks + 1))
    np.cumsum(gain * each, axis=1, out=sums[:, 1:])
    rows = np.arange(n_sizes)
    before = np.maximum(whole - 1, 0)
    filled = np.where(whole > 0, reached[before] if order is None else reached[rows, before], 0.0)
    partial = np.minimum(whole, n_blocks - 1)
    left = np.where(whole < n_blocks, np.maximum(sizes - filled, 0.0), 0.0)
    total = sums[rows, whole] + left * gain[rows, partial]
    share = left / (each[partial] if order is None else each[rows, partial])
    return Best(total, order, whole, share, n_blocks)


def peaks(height: Floats, above: float, limit: int) -> Positions:
    """Return so many positions above a height: peaks first, then the highest."""
    found = np.flatnonzero(height > above)
    if len(found) <= limit:
        return found
    padded = np.concatenate([[-np.inf], height, [-np.inf]])
    peak = (height >= padded[:-2]) & (height >= padded[2:])
    first = np.lexsort((-height[found], ~peak[found]))
    return found[first[:limit]]


def summits(height: Floats, above: float) -> Positions:
    """Return the peaks above a height, and their neighbours above it."""
    padded = np.concatenate([[-np.inf], height, [-np.inf]])
    high = padded > above
    peak = high[1:-1] & (height >= padded[:-2]) & (height >= padded[2:])
    beside = np.concatenate([[False], peak, [False]])
    return np.flatnonzero(high[1:-1] & (beside[:-2] | peak | beside[2:]))
