"""Scores, labels and segments to candidate tables.

A candidate of a segment flags its rows with the j highest distinct scores, j = 0 (nobody) to all of
them (everybody). With rows sorted by falling score and blocks of tied scores kept whole,

    pp[j] = sum of weights of the flagged rows,   tp[j] = the same over the positives,

and likewise for each per-row column. Everything is an exact integer, ``scale`` times the real sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from imbfit.confusion import Confusion

# Sums below this are exact in float64 too, so integers and floats can check each other.
_BITS = 52
_LARGEST = 2.0**_BITS
# Decimals first: 12.99 is meant as 1299 hundredths. Then equal shares: a row that is tested three
# times counts a third each time. The rest are what floats are made of.
_SCALES = (
    *(10**k for k in range(10)),
    *range(2, 61),
    *(lcm(*range(2, k)) for k in range(8, 14)),
    *(2**k for k in range(6, 31)),
)


@dataclass(frozen=True)
class Sums:
    """Sums of one per-row quantity over the cells, for every candidate.

    Attributes
    ----------
    tp, pp : ndarray of int64, shape (n_candidates,)
        Over the flagged positives and over all flagged rows.
    ap, n : ndarray of int64, shape (n_segments,)
        Over the positives and over all rows of each segment.
    scale : Fraction
        What the real sums were multiplied by.
    error : float
        Largest possible rounding error of a sum, in real units; 0 where integers are exact.
    """

    tp: np.ndarray
    pp: np.ndarray
    ap: np.ndarray
    n: np.ndarray
    scale: Fraction = Fraction(1)
    error: float = 0.0


@dataclass(frozen=True)
class Groups:
    """Which candidate first flags a row, by groups such as days, for capacities per group."""

    names: np.ndarray
    code: np.ndarray
    candidate: np.ndarray
    weight: np.ndarray | None


@dataclass(frozen=True)
class CandidateTables:
    """Candidate thresholds of every segment, one after the other, with their sums.

    Attributes
    ----------
    segments : tuple
        The segments' values, in the order of `starts`.
    starts : ndarray of int64, shape (n_segments + 1,)
        Segment g owns the candidates ``starts[g]:starts[g + 1]``; its first flags nobody, its last
        everybody.
    above : ndarray of float, shape (n_candidates,)
        The lowest score that a candidate flags; +inf for nobody.
    rows : Sums
        Weighted numbers of rows.
    columns : dict of str to Sums
        Weighted sums of per-row columns.
    groups : dict of str to Groups
        For capacities per group.
    grid : ndarray of float or None
        The thresholds themselves where they were given and not made from the scores.
    """

    segments: tuple[Any, ...]
    starts: np.ndarray
    above: np.ndarray
    rows: Sums
    columns: Mapping[str, Sums] = field(default_factory=dict)
    groups: Mapping[str, Groups] = field(default_factory=dict)
    grid: np.ndarray | None = None

    @property
    def below(self) -> np.ndarray:
        """The next lower distinct score of each candidate; -inf for everybody."""
        below = np.empty_like(self.above)
        below[:-1] = self.above[1:]
        below[self.starts[1:] - 1] = -np.inf
        return below

    def own(self, g: int) -> slice:
        """Candidates of segment `g`."""
        return slice(int(self.starts[g]), int(self.starts[g + 1]))

    def counts(self, g: int = 0) -> Confusion:
        """Real counts of segment `g`, one entry per candidate."""
        own = self.own(g)

        def real(sums: Sums, columns: Mapping[str, Confusion]) -> Confusion:
            tp, pp, ap, n = sums.tp[own], sums.pp[own], sums.ap[g], sums.n[g]
            if sums.scale == 1:
                tp, pp, ap, n = (np.asarray(x, float) for x in (tp, pp, ap, n))
                return Confusion(tp, pp, ap, n, columns)
            # cells are divided one by one: differences of quotients would miss exact zeros
            scale = float(sums.scale)
            fp, fn = pp - tp, ap - tp
            tn = n - pp - fn
            return Confusion.from_cells(tp / scale, fp / scale, fn / scale, tn / scale, columns)

        return real(self.rows, {name: real(sums, {}) for name, sums in self.columns.items()})

    def cut(self, candidate: int, *, lowest: float = -np.inf, highest: float = np.inf) -> float:
        """Threshold of a candidate, strictly between neighbouring scores where floats allow it.

        Parameters
        ----------
        candidate : int
            Its position in the tables.
        lowest, highest : float
            Bounds on the threshold, inside which a cut must exist.

        Returns
        -------
        float
            The midpoint; -inf or +inf at the ends.
        """
        if self.grid is not None:
            return float(self.grid[candidate])
        g = int(np.searchsorted(self.starts, candidate, side="right")) - 1
        last = candidate + 1 == self.starts[g + 1]
        high = float(self.above[candidate])
        low = -np.inf if last else float(self.above[candidate + 1])
        high, low = min(high, highest), max(low, lowest)
        # an end: infinite unless the user's bound stops it
        if np.isinf(high):
            return high
        if np.isinf(low):
            return low
        middle = low / 2 + high / 2
        return middle if low < middle < high else high


def build_tables(
    positive: np.ndarray,
    score: np.ndarray,
    *,
    segment_codes: np.ndarray | None = None,
    segment_names: Sequence[Any] = (None,),
    weight: np.ndarray | None = None,
    columns: Mapping[str, np.ndarray] | None = None,
    per: Mapping[str, np.ndarray] | None = None,
    grid: np.ndarray | None = None,
) -> CandidateTables:
    """Sort rows by segment and falling score, and sum them up to every distinct score.

    Parameters
    ----------
    positive : ndarray of bool, shape (n_rows,)
        Positive rows.
    score : ndarray of float64, shape (n_rows,)
        Finite, except -inf for rows that must never be flagged.
    segment_codes : ndarray of int, shape (n_rows,), default=None
        Which of `segment_names` each row belongs to; one segment by default.
    segment_names : sequence
        Values of the segments.
    weight : ndarray of float, shape (n_rows,), default=None
        Positive row weights.
    columns : mapping of str to ndarray of float, default=None
        Per-row columns.
    per : mapping of str to ndarray, default=None
        Group values for capacities per group.
    grid : ndarray of float, default=None
        Thresholds to choose from instead of all distinct scores.

    Returns
    -------
    CandidateTables
    """
    n_segments = len(segment_names)
    order = np.argsort(score)[::-1]
    if segment_codes is not None and n_segments > 1:
        small = np.uint8 if n_segments < 2**8 else np.uint16 if n_segments < 2**16 else np.int64
        # A stable sort of small integers is a radix sort, far cheaper than a two-key sort.
        code = segment_codes.astype(small)[order]
        by_segment = np.argsort(code, kind="stable")
        order = order[by_segment]
        code = code[by_segment]
        del by_segment
        edges = np.searchsorted(code, np.arange(n_segments + 1))
    else:
        edges = np.array([0, len(score)])
    sorted_score = score[order]
    flagged_last = np.empty(len(score), bool)
    np.not_equal(sorted_score[1:], sorted_score[:-1], out=flagged_last[:-1])
    flagged_last[edges[1:][edges[1:] > edges[:-1]] - 1] = True
    # rows that may never be flagged add no candidate
    if np.isneginf(sorted_score[edges[1:][edges[1:] > edges[:-1]] - 1]).any():
        flagged_last &= ~np.isneginf(sorted_score)
    ends = np.flatnonzero(flagged_last)
    per_segment = np.diff(np.searchsorted(ends, edges))
    starts = np.concatenate([[0], np.cumsum(per_segment + 1)])
    # where each candidate sits: ends shifted by the "nobody" entries before it
    slots: np.ndarray | slice = slice(1, None)
    if n_segments > 1:
        slots = np.arange(len(ends)) + np.repeat(np.arange(1, n_segments + 1), per_segment)
    layout = _Layout(edges, ends, starts, slots)
    above = np.full(starts[-1], np.inf)
    above[slots] = layout.at_ends(sorted_score)

    truth = positive[order]
    rows = layout.count(truth) if weight is None else layout.sums(weight[order], truth)
    tables = CandidateTables(
        segments=tuple(segment_names),
        starts=starts,
        above=above,
        rows=rows,
        columns={
            name: layout.sums((column if weight is None else column * weight)[order], truth)
            for name, column in (columns or {}).items()
        },
        groups={
            name: _groups(np.asarray(values)[order], weight, order, layout)
            for name, values in (per or {}).items()
        },
    )
    return tables if grid is None else _on_grid(tables, grid)


@dataclass(frozen=True)
class _Layout:
    """Where candidates sit among the sorted rows."""

    edges: np.ndarray
    ends: np.ndarray
    starts: np.ndarray
    slots: np.ndarray | slice

    def at_ends(self, values: np.ndarray) -> np.ndarray:
        """Values at the last row of each block of tied scores."""
        return values if len(self.ends) == len(values) else values[self.ends]

    def count(self, truth: np.ndarray) -> Sums:
        tp, ap = self._spread(np.cumsum(truth, dtype=np.int64))
        pp = np.zeros(self.starts[-1], np.int64)
        pp[self.slots] = self.ends
        pp[self.slots] += 1
        if len(self.edges) > 2:
            pp[self.slots] -= np.repeat(self.edges[:-1], np.diff(self.starts) - 1)
        return Sums(tp, pp, ap, np.diff(self.edges).astype(np.int64))

    def sums(self, values: np.ndarray, truth: np.ndarray) -> Sums:
        whole, scale, error = to_integers(values)
        pp, n = self._spread(np.cumsum(whole))
        tp, ap = self._spread(np.cumsum(np.where(truth, whole, 0)))
        return Sums(tp, pp, ap, n, scale, error)

    def _spread(self, running: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn running sums over all rows into sums per candidate and totals per segment."""
        at_edges = np.concatenate([[0], running])[self.edges] if len(self.edges) > 2 else None
        spread = np.zeros(self.starts[-1], np.int64)
        if at_edges is None:
            spread[self.slots] = self.at_ends(running)
            return spread, running[-1:].copy()
        spread[self.slots] = self.at_ends(running) - np.repeat(
            at_edges[:-1], np.diff(self.starts) - 1
        )
        return spread, np.diff(at_edges)


def to_integers(values: np.ndarray) -> tuple[np.ndarray, Fraction, float]:
    """Scale floats to integers, exactly where decimals, equal shares or a binary scale fit.

    Parameters
    ----------
    values : ndarray of float
        Finite.

    Returns
    -------
    whole : ndarray of int64
        ``values * scale``, rounded where no scale is exact.
    scale : Fraction
        A whole number, or a power of two where none is exact.
    error : float
        Sum of the rounding errors in the units of `values`; 0 if exact.

    Examples
    --------
    >>> import numpy as np
    >>> to_integers(np.array([0.25, 12.99]))
    (array([  25, 1299]), Fraction(100, 1), 0.0)
    """
    # a sum beyond floats is inf, and refused here
    with np.errstate(over="ignore"):
        total = float(np.abs(values).sum())
    if not np.isfinite(total):
        raise ValueError("weights or amounts add up to more than 1e308; give them in larger units")
    probe = values[:: max(1, len(values) // 1000)]
    for scale in _SCALES:
        if total * scale >= _LARGEST:
            continue
        # a decimal such as 12.99 is meant as 1299 hundredths, not as its binary neighbour
        if not (np.rint(probe * scale) / scale == probe).all():
            continue
        whole = np.rint(values * scale)
        if (whole / scale == values).all():
            return whole.astype(np.int64), Fraction(scale), 0.0
    # total < 2^exponent, so the sum stays below the largest; the scale itself must be a float
    power = min(_BITS - int(np.frexp(total)[1]), 1000)
    factor = Fraction(2) ** power
    whole = np.rint(np.ldexp(values, power))
    error = float(np.abs(np.ldexp(whole, -power) - values).sum())
    return whole.astype(np.int64), factor, error


def _groups(
    values: np.ndarray, weight: np.ndarray | None, order: np.ndarray, layout: _Layout
) -> Groups:
    names, code = np.unique(values, return_inverse=True)
    block = np.searchsorted(layout.ends, np.arange(len(values)))
    # rows behind the last candidate of all (never flagged) get a place past the end
    candidate = np.full(len(values), layout.starts[-1])
    reached = block < len(layout.ends)
    slots = np.arange(1, layout.starts[-1]) if len(layout.edges) == 2 else layout.slots
    candidate[reached] = np.asarray(slots)[block[reached]]
    segment = np.searchsorted(layout.edges, np.arange(len(values)), side="right") - 1
    outside = candidate >= layout.starts[segment + 1]
    candidate[outside] = layout.starts[-1]
    return Groups(names, code.reshape(-1), candidate, None if weight is None else weight[order])


def _on_grid(tables: CandidateTables, grid: np.ndarray) -> CandidateTables:
    """Keep, of each segment's candidates, what the grid's thresholds flag."""
    cuts = np.unique(grid)[::-1]
    cuts = cuts[np.isfinite(cuts)]
    chosen, thresholds, sizes = [], [], [0]
    for g in range(len(tables.segments)):
        own = tables.own(g)
        above = tables.above[own]
        # above falls from +inf, so on -above the number of scores >= cut is a right insertion
        flagged = np.searchsorted(-above[1:], -cuts, side="right")
        last = len(above) - 1
        chosen.append(own.start + np.concatenate([[0], flagged, [last]]))
        thresholds.append(np.concatenate([[np.inf], cuts, [-np.inf]]))
        sizes.append(len(cuts) + 2)
    pick = np.concatenate(chosen)
    starts = np.cumsum(sizes)

    def sub(sums: Sums) -> Sums:
        return Sums(sums.tp[pick], sums.pp[pick], sums.ap, sums.n, sums.scale, sums.error)

    def regroup(groups: Groups) -> Groups:
        segment = np.searchsorted(tables.starts, groups.candidate, side="right") - 1
        moved = np.full(len(groups.candidate), starts[-1])
        for g in range(len(tables.segments)):
            mine = segment == g
            first, last = starts[g], starts[g + 1]
            moved[mine] = first + np.searchsorted(
                pick[first:last], groups.candidate[mine], side="left"
            )
        return Groups(groups.names, groups.code, moved, groups.weight)

    return CandidateTables(
        tables.segments,
        starts,
        tables.above[pick],
        sub(tables.rows),
        {name: sub(sums) for name, sums in tables.columns.items()},
        {name: regroup(groups) for name, groups in tables.groups.items()},
        np.concatenate(thresholds),
    )
