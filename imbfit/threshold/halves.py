"""Exact search among the choices that lose little against a bound, by two halves of the segments.

With multipliers m a full choice loses, against the upper bound U (see `selection`),

    sum of its reduced costs + m . (limit - usage),      all terms at least 0.

Each half of the segments is enumerated: its partial choices whose reduced costs stay within the
room. Two partial choices fit where what they leave of each row is at least 0 and, times m, within
the room too. That is a narrow window in each row, so partners are found by sorting, as Horowitz and
Sahni do for knapsacks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from imbfit.threshold.core import Core, Found

_PAIRS_AT_ONCE = 1_000_000
_MOST_PAIRS = 60_000_000
_WIDEST = 2**60


@dataclass(frozen=True)
class _Half:
    """Partial choices, each by what sets it apart from each segment's cheapest candidate.

    Attributes
    ----------
    loss, value : ndarray, shape (n_states,)
        Sums over the segments where they differ from the cheapest candidates.
    used : list of ndarray of int64
        The same for each row.
    parent, candidate : ndarray of int32
        The state that has one difference less, and that difference; -1 for the first state.
    complete : bool
        Whether all within the room are there.
    """

    loss: np.ndarray
    value: np.ndarray
    used: list[np.ndarray]
    parent: np.ndarray
    candidate: np.ndarray
    complete: bool


def best_of_halves(
    core: Core, *, room: float, blur: float, states: int, deadline: float = np.inf
) -> Found:
    """Find the best choice whose loss against the bound is within `room`.

    Parameters
    ----------
    core : Core
        The reduced problem, its values in int64.
    room : float
        Choices that lose more are not wanted.
    blur : float
        What the floats may be off by.
    states : int
        How many partial choices of a half are kept, the cheapest first.
    deadline : float
        In seconds of ``time.monotonic()``.

    Returns
    -------
    Found
        Its `least_dropped` says nothing here.
    """
    sizes = np.diff(core.starts)
    if (sizes == 0).any():
        return Found(None, complete=True, least_dropped=np.inf)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    ranked = np.lexsort((core.reduced, owner))
    cheapest = ranked[core.starts[:-1]]
    limits = [
        int(limit) - int(row[cheapest].sum())
        for limit, row in zip(core.limits, core.usage, strict=True)
    ]
    rest = room + blur - float(core.reduced[cheapest].sum())
    if rest < 0:
        return Found(None, complete=True, least_dropped=np.inf)
    # segments with many cheap candidates go last: they multiply what is there before them
    wide = np.flatnonzero(sizes > 1)
    step = core.reduced[ranked[core.starts[wide] + 1]]
    wide = wide[np.argsort(-step, kind="stable")]
    halves = [_enumerate(core, wide[k::2], cheapest, rest, states) for k in (0, 1)]
    complete = all(half.complete for half in halves)
    join = _Join(limits, core.multipliers, rest, blur, deadline, greedy=not complete)
    pair = join.run(*halves)
    if pair is None:
        return Found(None, complete and join.complete, np.inf)
    choice = cheapest.copy()
    for half, last in zip(halves, pair, strict=True):
        state = last
        while state > 0:
            candidate = int(half.candidate[state])
            choice[owner[candidate]] = candidate
            state = int(half.parent[state])
    return Found(choice, complete and join.complete, np.inf)


def _enumerate(
    core: Core, segments: np.ndarray, cheapest: np.ndarray, room: float, states: int
) -> _Half:
    loss, value = np.zeros(1), np.zeros(1, np.int64)
    used = [np.zeros(1, np.int64) for _ in core.limits]
    parent, candidate = np.full(1, -1, np.int32), np.full(1, -1, np.int32)
    complete = True
    for g in segments.tolist():
        base = int(cheapest[g])
        fresh = []
        for c in range(int(core.starts[g]), int(core.starts[g + 1])):
            more = float(core.reduced[c] - core.reduced[base])
            index = np.flatnonzero(loss <= room - more) if c != base else np.zeros(0, np.int64)
            if len(index):
                fresh.append((c, more, index))
        size = len(loss) + sum(len(index) for _, _, index in fresh)
        if size > states:
            complete = False
            grown = np.concatenate([loss[index] + more for _, more, index in fresh])
            left = states - len(loss)
            # keep the cheapest that still fit
            most = float(np.partition(grown, left)[left]) if left > 0 else -np.inf
            fresh = [(c, more, index[loss[index] + more < most]) for c, more, index in fresh]
        if not fresh:
            continue
        from_ = np.concatenate([index for _, _, index in fresh]).astype(np.int32)
        by = np.repeat([c for c, _, _ in fresh], [len(index) for _, _, index in fresh])
        loss = np.concatenate([loss, loss[from_] + core.reduced[by] - core.reduced[base]])
        value = np.concatenate([value, value[from_] + core.value[by] - core.value[base]])
        used = [
            np.concatenate([u, u[from_] + row[by] - row[base]])
            for u, row in zip(used, core.usage, strict=True)
        ]
        parent = np.concatenate([parent, from_])
        candidate = np.concatenate([candidate, by.astype(np.int32)])
    return _Half(loss, value, used, parent, candidate, complete)


class _Join:
    """Pairs of partial choices that keep all rows within the room, and the best of them."""

    def __init__(
        self,
        limits: list[int],
        multipliers: np.ndarray,
        room: float,
        blur: float,
        deadline: float,
        *,
        greedy: bool,
    ) -> None:
        self.limits, self.multipliers = limits, multipliers
        self.room, self.blur = room, blur
        self.deadline, self.greedy = deadline, greedy
        self.complete = True
        self.pairs_left = _MOST_PAIRS // len(limits)
        self.best: tuple[int, int] | None = None
        self.value = 0

    def run(self, a: _Half, b: _Half) -> tuple[int, int] | None:
        """Return the best pair of states, None where there is none."""
        # a multiplier of next to nothing gives no window
        priced = [k for k, m in enumerate(self.multipliers) if m * _WIDEST > self.room]
        # the rows whose windows are narrowest against the spread of usages
        priced.sort(key=lambda k: self.room / self.multipliers[k] / (np.ptp(b.used[k]) + 1.0))
        # two dear halves never fit together
        cheap = self.room / 2
        everything = np.arange(len(b.loss))
        for left, right in (
            (np.flatnonzero(a.loss <= cheap), everything),
            (np.flatnonzero(a.loss > cheap), np.flatnonzero(b.loss <= cheap)),
        ):
            if len(left) and len(right):
                self._match(a, b, left, right, priced[:2] or [0])
        return self.best

    def _match(
        self, a: _Half, b: _Half, left: np.ndarray, right: np.ndarray, rows: list[int]
    ) -> None:
        """Sort the right states by the second row in steps of a window, then by the first row."""
        first, second = rows[0], rows[-1]
        low = int(b.used[first][right].min())
        span = int(b.used[first][right].max()) - low + 1
        bucket = np.zeros(len(right), np.int64)
        aim = np.zeros(len(left), np.int64)
        buckets: tuple[int, ...] = (0,)
        last = 0
        if len(rows) > 1:
            width = int(self.room / self.multipliers[second]) + 2
            least = int(b.used[second][right].min())
            bucket = (b.used[second][right] - least) // width
            aim = (self.limits[second] - a.used[second][left] - least) // width
            buckets = (0, 1)
            last = int(bucket.max())
            if (last + 1) * span >= _WIDEST:
                # no key of 64 bits holds both rows
                return self._match(a, b, left, right, rows[:1])
        key = bucket * span + (b.used[first][right] - low)
        order = np.argsort(key, kind="stable")
        key, right = key[order], right[order]
        by_loss = np.argsort(a.loss[left], kind="stable")
        left, aim = left[by_loss], aim[by_loss]
        most = self.limits[first] - a.used[first][left] - low
        reach = np.full(len(left), float(_WIDEST))
        if self.multipliers[first] * _WIDEST > self.room:
            reach = (self.room - a.loss[left]) / self.multipliers[first]
        fewest = np.clip(most - reach.astype(np.int64) - 1, 0, span)
        most = np.minimum(most, span - 1)
        for back in buckets:
            place = aim - back
            there = (place >= 0) & (place <= last) & (most >= fewest)
            begin = np.searchsorted(key, np.where(there, place * span + fewest, 0), side="left")
            end = np.searchsorted(key, np.where(there, place * span + most, -1), side="right")
            self._scan(a, b, left, right, (begin, np.where(there, end - begin, 0)))
        return None

    def _scan(
        self,
        a: _Half,
        b: _Half,
        left: np.ndarray,
        right: np.ndarray,
        window: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Look at each left state with the right states of its window: from where, and how many."""
        begin, count = window
        some = np.flatnonzero(count > 0)
        running = np.cumsum(count[some])
        start = 0
        while start < len(some):
            if self.pairs_left <= 0 or time.monotonic() > self.deadline:
                self.complete = False
                return
            done = int(running[start - 1]) if start else 0
            stop = int(np.searchsorted(running, done + _PAIRS_AT_ONCE, side="right"))
            stop = max(start + 1, stop)
            picked, many = some[start:stop], count[some[start:stop]]
            self.pairs_left -= int(many.sum())
            start = stop
            x = np.repeat(left[picked], many)
            offset = np.arange(len(x)) - np.repeat(np.cumsum(many) - many, many)
            y = right[np.repeat(begin[picked], many) + offset]
            loss = a.loss[x] + b.loss[y]
            for k, (limit, multiplier) in enumerate(
                zip(self.limits, self.multipliers, strict=True)
            ):
                keep = np.flatnonzero(loss <= self.room)
                x, y, loss = x[keep], y[keep], loss[keep]
                unused = limit - a.used[k][x] - b.used[k][y]
                loss = np.where(unused >= 0, loss + multiplier * unused, np.inf)
            fits = np.flatnonzero(loss <= self.room)
            if not len(fits):
                continue
            value = a.value[x[fits]] + b.value[y[fits]]
            top = int(np.argmax(value))
            if self.best is None or int(value[top]) > self.value:
                self.best = int(x[fits[top]]), int(y[fits[top]])
                self.value = int(value[top])
                # what loses more is worth less
                self.room = min(self.room, float(loss[fits[top]]) + 2 * self.blur)
            if self.greedy:
                self.complete = False
                return
