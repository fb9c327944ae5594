"""A dynamic program over the candidates that a bound has left.

State after some segments: what each row has used, the value so far, and the reduced cost so far.
With multipliers m a full choice loses, against the upper bound U,

    sum of its reduced costs  +  m . (limit - usage)  >=  0,

so a state whose reduced cost, plus what its rows must at least leave unused times m, exceeds the
room between U and a known value leads to nothing better. With one row, a state that uses no less
and is worth no more than another goes too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

# States times candidates that are looked at together, some 100 bytes each.
_MOST_PAIRS = 5_000_000


@dataclass(frozen=True)
class Core:
    """A reduced selection problem.

    Attributes
    ----------
    starts : ndarray of int64, shape (n_segments + 1,)
        Segment g owns the candidates ``starts[g]:starts[g + 1]``.
    value : ndarray, shape (n_candidates,)
        Exact integers, int64 or Python ints as objects.
    reduced : ndarray of float, shape (n_candidates,)
        Reduced costs, at least 0.
    usage : list of ndarray of int64
        One array per row.
    limits : list of int
        Right-hand sides.
    multipliers : ndarray of float
        One per row.
    """

    starts: np.ndarray
    value: np.ndarray
    reduced: np.ndarray
    usage: list[np.ndarray]
    limits: list[int]
    multipliers: np.ndarray


@dataclass(frozen=True)
class Found:
    """What the program found.

    Attributes
    ----------
    choice : ndarray of int64 or None
        The best full choice among the states kept.
    complete : bool
        Whether nothing was dropped that could have been better.
    least_dropped : float
        Smallest loss against the bound among dropped states, inf if none was dropped.
    """

    choice: np.ndarray | None
    complete: bool
    least_dropped: float


def best_choice(core: Core, *, room: float, states: int, deadline: float = np.inf) -> Found:
    """Find the best choice whose loss against the bound is within `room`.

    Parameters
    ----------
    core : Core
        The reduced problem.
    room : float
        Choices that lose more are not wanted.
    states : int
        How many states are kept; the cheapest ones where there are more.
    deadline : float
        In seconds of ``time.monotonic()``; behind it one state is kept.

    Returns
    -------
    Found
    """
    sizes = np.diff(core.starts)
    if (sizes == 0).any():
        return Found(None, complete=True, least_dropped=np.inf)
    n_rows = len(core.limits)
    lows = [np.minimum.reduceat(row, core.starts[:-1]) for row in core.usage]
    highs = [np.maximum.reduceat(row, core.starts[:-1]) for row in core.usage]
    least = np.minimum.reduceat(core.reduced, core.starts[:-1])
    # segments with one candidate only shift the sums; of the rest the wide ones go last
    order = np.argsort(sizes, kind="stable")
    used = [np.zeros(1, np.int64) for _ in range(n_rows)]
    value: Any = np.zeros(1, core.value.dtype)
    if core.value.dtype == object:
        value[0] = 0
    loss = np.zeros(1)
    rest_low = [int(low.sum()) for low in lows]
    rest_high = [int(high.sum()) for high in highs]
    rest_least = float(least.sum())
    trace: list[tuple[int, np.ndarray, np.ndarray]] = []
    dropped = np.inf
    for g in order:
        own = slice(int(core.starts[g]), int(core.starts[g + 1]))
        width = own.stop - own.start
        # many states times many candidates would not fit into memory
        first, least_out = _cheapest(loss, max(1, _MOST_PAIRS // width))
        dropped = min(dropped, least_out + rest_least)
        used = [u[first] for u in used]
        value, loss = value[first], loss[first]
        rest_least -= float(least[g])
        for k in range(n_rows):
            rest_low[k] -= int(lows[k][g])
            rest_high[k] -= int(highs[k][g])
        if width == 1:
            used = [u + core.usage[k][own.start] for k, u in enumerate(used)]
            value = value + core.value[own.start]
            loss = loss + core.reduced[own.start]
        else:
            used = [np.add.outer(u, core.usage[k][own]).ravel() for k, u in enumerate(used)]
            value = np.add.outer(value, core.value[own]).ravel()
            loss = np.add.outer(loss, core.reduced[own]).ravel()
        keep = np.ones(len(loss), bool)
        total_loss = loss + rest_least
        for k in range(n_rows):
            keep &= used[k] <= core.limits[k] - rest_low[k]
            unused = core.limits[k] - rest_high[k] - used[k]
            total_loss = total_loss + core.multipliers[k] * np.maximum(0, unused)
        keep &= total_loss <= room
        index = np.flatnonzero(keep)
        if len(index) == 0:
            return Found(None, not np.isfinite(dropped), dropped)
        if n_rows == 1 and len(index) > 1:
            index = index[_pareto(used[0][index], value[index])]
        elif len(index) > 1 and width > 1:
            index = index[_distinct([u[index] for u in used], value[index])]
        most = states if time.monotonic() < deadline else 1
        cheapest, least_out = _cheapest(total_loss[index], most)
        dropped = min(dropped, least_out)
        index = index[cheapest]
        trace.append((int(g), first[index // width], index % width))
        used = [u[index] for u in used]
        value, loss = value[index], loss[index]
    state = int(np.argmax(value))
    choice = np.empty(len(sizes), np.int64)
    for g, parents, picks in reversed(trace):
        choice[g] = core.starts[g] + picks[state]
        state = int(parents[state])
    return Found(choice, not np.isfinite(dropped), dropped)


def _cheapest(loss: np.ndarray, most: int) -> tuple[np.ndarray, float]:
    """Positions of the smallest losses, at most so many, and the least loss left out."""
    if len(loss) <= most:
        return np.arange(len(loss)), np.inf
    ranked = np.argpartition(loss, most)
    return ranked[:most], float(loss[ranked[most:]].min())


def _pareto(used: np.ndarray, value: np.ndarray) -> np.ndarray:
    """States that no other beats by using no more and being worth no less."""
    by_value = np.argsort(value, kind="stable")[::-1]
    order = by_value[np.argsort(used[by_value], kind="stable")]
    ranked = value[order]
    ahead = np.maximum.accumulate(ranked)
    better = np.ones(len(order), bool)
    better[1:] = ranked[1:] > ahead[:-1]
    return order[better]


def _distinct(used: list[np.ndarray], value: np.ndarray) -> np.ndarray:
    """Of states that use the same, the most valuable."""
    by_value = np.argsort(value, kind="stable")[::-1]
    order = by_value[np.lexsort([u[by_value] for u in used])]
    fresh = np.zeros(len(order), bool)
    fresh[0] = True
    for u in used:
        fresh[1:] |= u[order][1:] != u[order][:-1]
    return order[fresh]
