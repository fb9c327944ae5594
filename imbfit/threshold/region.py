"""Constraints to the region of choices that a search may use.

A constraint on one segment (or on the only one) crosses out candidates. A constraint on the whole
is one integer row that couples the segments. A capacity per group, such as per day, is many rows,
of which few bind: they join when a choice breaks them. A bound on the gap between segments is kept
as values per candidate, for the search to branch on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Constraint, Number, Scope, Threshold, describe
from imbfit.named import n, pp
from imbfit.reading import margin
from imbfit.threshold.rows import Affine, affine_pair, as_fraction, constraint_ratio
from imbfit.threshold.segments import without_midnight
from imbfit.threshold.table import CandidateTables, Groups

# Rounding of float64 metrics, far below the step of any count.
_BLUR = 1e-12
_SAFE = 2**62
_FAR = 1e300


@dataclass(frozen=True)
class Row:
    """``sum of usage over the chosen candidates <= limit``, and the constraint it comes from."""

    usage: np.ndarray
    limit: int
    rule: int


@dataclass(frozen=True)
class GroupRows:
    """A capacity for each group; rows are made for the groups that are asked for."""

    groups: Groups
    limit: int
    rule: int

    def usage(self, code: int, starts: np.ndarray) -> np.ndarray:
        """Sum the flagged weight of one group, for every candidate."""
        mine = (self.groups.code == code) & (self.groups.candidate < starts[-1])
        weight = None if self.groups.weight is None else self.groups.weight[mine]
        added = np.bincount(self.groups.candidate[mine], weight, minlength=starts[-1])
        running = np.concatenate([[0], np.cumsum(np.rint(added).astype(np.int64))])
        before = np.repeat(running[starts[:-1]], np.diff(starts))
        return np.asarray(running[1:] - before, np.int64)

    def table(self, kept: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return the flagged weight of every group, for some candidates of each segment.

        Parameters
        ----------
        kept : ndarray of int64
            Candidates in order; the first of each segment among them.
        starts : ndarray of int64
            Of all candidates.

        Returns
        -------
        ndarray of int64, shape (n_groups, n_kept)
        """
        size = len(self.groups.names)
        candidate = self.groups.candidate
        inside = candidate < starts[-1]
        # the first kept candidate that flags the row, if its segment has one
        bucket = np.searchsorted(kept, candidate[inside])
        segment = np.searchsorted(starts, candidate[inside], side="right") - 1
        reached = bucket < np.searchsorted(kept, starts[segment + 1])
        weight = None if self.groups.weight is None else self.groups.weight[inside][reached]
        cell = self.groups.code[inside][reached] * np.int64(len(kept)) + bucket[reached]
        added = np.bincount(cell, weight, minlength=size * len(kept)).reshape(size, len(kept))
        running = np.cumsum(np.rint(added).astype(np.int64), axis=1)
        first = np.searchsorted(kept, starts[:-1])
        before = np.where(first > 0, running[:, first - 1], 0)
        return np.asarray(running - np.repeat(before, np.diff(np.append(first, len(kept))), axis=1))

    def flagged(self, choice: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Sum the flagged weight of every group under a choice."""
        candidate = self.groups.candidate
        segment = np.searchsorted(starts, candidate, side="right") - 1
        inside = candidate < starts[-1]
        hit = inside.copy()
        hit[inside] = candidate[inside] <= choice[segment[inside]]
        weight = None if self.groups.weight is None else self.groups.weight[hit]
        size = len(self.groups.names)
        return np.rint(np.bincount(self.groups.code[hit], weight, minlength=size)).astype(np.int64)


@dataclass(frozen=True)
class GapValues:
    """A metric per candidate, NaN where it is 0/0, and the largest allowed difference."""

    value: np.ndarray
    most: float
    rule: int


@dataclass(frozen=True)
class Region:
    """All constraints of a search, ready for it.

    Attributes
    ----------
    allowed : ndarray of bool, shape (n_candidates,)
        Candidates that meet every constraint on their own segment.
    rows : list of Row
        Constraints on the whole.
    groups : list of GroupRows
        Capacities per group; rows made for them are added to `rows`.
    gaps : list of GapValues
        Bounds on differences between segments.
    """

    allowed: np.ndarray
    rows: list[Row] = field(default_factory=list)
    groups: list[GroupRows] = field(default_factory=list)
    gaps: list[GapValues] = field(default_factory=list)

    def within(self, allowed: np.ndarray) -> Region:
        """Return the region with fewer candidates; rows are shared, so that new ones serve all."""
        return replace(self, allowed=self.allowed & allowed)


def build_region(rules: list[Constraint | Scope], tables: CandidateTables) -> Region:
    """Translate constraints.

    Parameters
    ----------
    rules : list of Constraint or Scope
        As :func:`imbfit.metrics.as_rules` returns them.
    tables : CandidateTables
        The candidates.

    Returns
    -------
    Region

    Raises
    ------
    UnsupportedMetric
        If a constraint on the whole is no integer row; the message names the sub-expression.
    ValueError
        If a segment or a group column is not known, or if 64-bit integers may overflow.
    """
    region = Region(np.ones(int(tables.starts[-1]), bool))
    for position, rule in enumerate(rules):
        _add(region, rule, position, tables)
    if tables.grid is None:
        region.allowed[:] &= _one_cut(rules, tables)
    return region


def _one_cut(rules: list[Constraint | Scope], tables: CandidateTables) -> np.ndarray:
    """Whether one threshold that makes the cut meets all bounds on thresholds together."""
    low, high = threshold_bounds(rules, tables)
    if np.isneginf(low).all() and np.isposinf(high).all():
        return np.ones(int(tables.starts[-1]), bool)
    sizes = np.diff(tables.starts)
    low, high = np.repeat(low, sizes), np.repeat(high, sizes)
    return np.asarray((np.minimum(tables.above, high) >= low) & (tables.below < high))


def _add(region: Region, rule: Constraint | Scope, position: int, tables: CandidateTables) -> None:
    kind = rule.kind if isinstance(rule, Scope) else "whole"
    if kind == "max_gap":
        assert isinstance(rule, Scope)
        if len(tables.segments) > 1:
            region.gaps.append(_gap(rule, position, tables))
        return
    if isinstance(rule, Scope) and kind == "capacity" and isinstance(rule.key, str):
        _add_groups(region, rule, position, tables)
        return
    constraint = plain(rule)
    if kind == "in_segment":
        assert isinstance(rule, Scope)
        g = segment_of(rule, tables.segments)
        region.allowed[tables.own(g)] &= local_mask(constraint, tables, g)
    elif kind == "each_segment" or len(tables.segments) == 1 or _bounds_threshold(constraint):
        _cross_out(region, constraint, tables)
    else:
        region.rows.append(_row(constraint, position, tables))


def plain(rule: Constraint | Scope) -> Constraint:
    """Return the bound inside a scope, with a capacity written as a bound on pp."""
    if isinstance(rule, Constraint):
        return rule
    if rule.kind != "capacity":
        return plain(rule.constraint)
    assert isinstance(rule.constraint, Constraint)
    limit = rule.constraint.right
    if rule.key is None or isinstance(rule.key, str):
        return rule.constraint
    # at most 200 per 1000 rows is at most a fifth of all, whatever the number of rows
    return Constraint(rule.key * pp, "<=", limit * n)


def segment_of(rule: Scope, segments: Sequence[Any]) -> int:
    """Position of the segment that a constraint names."""
    for g, name in enumerate(segments):
        if name == rule.key and isinstance(name, str) == isinstance(rule.key, str):
            return g
    # dates and the like have no text form of their own, so a rule in text names them as they print
    printed = [g for g, name in enumerate(segments) if _prints_as(name, rule.key)]
    if len(printed) == 1:
        return printed[0]
    if tuple(segments) == (None,):
        raise ValueError(f"`{rule.label}` names a segment, but no segments are given")
    shown = ", ".join(map(repr, segments[:10]))
    raise ValueError(
        f"`{rule.label}` names the segment {rule.key!r}, which is none of {shown}"
        f"{', ...' if len(segments) > 10 else ''}"
    )


def _prints_as(name: Any, key: Any) -> bool:
    if not isinstance(key, str) or isinstance(name, (str, int, float, tuple, type(None))):
        return False
    return key in (str(name), without_midnight(name))


def _bounds_threshold(constraint: Constraint) -> bool:
    return isinstance(constraint.left, Threshold)


def _cross_out(region: Region, constraint: Constraint, tables: CandidateTables) -> None:
    everything = slice(0, int(tables.starts[-1]))
    if _bounds_threshold(constraint):
        region.allowed[:] &= _threshold_mask(constraint, tables, everything)
        return
    form = _same_form(constraint, tables)
    if form is not None:
        region.allowed[:] &= _signed(form, tables, everything)
        return
    for g in range(len(tables.segments)):
        region.allowed[tables.own(g)] &= local_mask(constraint, tables, g)


def _same_form(constraint: Constraint, tables: CandidateTables) -> tuple[Affine, Affine] | None:
    """Integer forms that hold in all segments alike, where no known sum enters."""
    try:
        ratio = constraint_ratio(constraint, tables.columns)
    except UnsupportedMetric:
        return None
    if len(tables.segments) > 1:
        symbols = [s for part in (ratio.num, ratio.den) for mono in part.terms for s in mono]
        if any(name in ("ap", "n") for name, _ in symbols):
            return None
    pair = affine_pair(ratio, tables, 0)
    return None if pair is None else pair[:2]


def _signed(form: tuple[Affine, Affine], tables: CandidateTables, own: slice) -> np.ndarray:
    numerator, denominator = form
    values = numerator.exact(tables, own)
    if not denominator.coefficients:
        return values >= 0 if denominator.constant >= 0 else values <= 0
    below = denominator.exact(tables, own)
    return np.where(below >= 0, values >= 0, values <= 0)


def local_mask(constraint: Constraint, tables: CandidateTables, g: int) -> np.ndarray:
    """Which candidates of one segment meet a constraint.

    Parameters
    ----------
    constraint : Constraint
        Read on the segment's own counts.
    tables : CandidateTables
        The candidates.
    g : int
        The segment.

    Returns
    -------
    ndarray of bool
        Exact in integers where the constraint is affine; within 1e-12 where it takes a root or
        multiplies counts.
    """
    own = tables.own(g)
    if _bounds_threshold(constraint):
        return _threshold_mask(constraint, tables, own)
    try:
        ratio = constraint_ratio(constraint, tables.columns)
        pair = affine_pair(ratio, tables, g)
        if pair is not None:
            return _signed(pair[:2], tables, own)
    except UnsupportedMetric:
        pass
    slack, vacuous = margin(constraint, tables.counts(g))
    bound = constraint.right.value if isinstance(constraint.right, Number) else 0.0
    met = (slack >= -_BLUR * max(1.0, abs(bound))) | vacuous
    return np.broadcast_to(met, (own.stop - own.start,))


def _threshold_mask(constraint: Constraint, tables: CandidateTables, own: slice) -> np.ndarray:
    """Whether some threshold within the bound makes the same cut."""
    assert isinstance(constraint.right, Number)
    bound = float(constraint.right.value)
    if tables.grid is not None:
        cut = tables.grid[own]
        return cut >= bound if constraint.sense == ">=" else cut <= bound
    # every t with below < t <= above makes the cut
    if constraint.sense == ">=":
        return tables.above[own] >= bound
    return tables.below[own] < bound


def threshold_bounds(
    rules: list[Constraint | Scope], tables: CandidateTables
) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest threshold that the constraints on it allow, per segment."""
    low = np.full(len(tables.segments), -np.inf)
    high = np.full(len(tables.segments), np.inf)
    for rule in rules:
        constraint = plain(rule)
        if not _bounds_threshold(constraint):
            continue
        assert isinstance(constraint.right, Number)
        where: Any = slice(None)
        if isinstance(rule, Scope) and rule.kind == "in_segment":
            where = segment_of(rule, tables.segments)
        if constraint.sense == ">=":
            low[where] = np.maximum(low[where], constraint.right.value)
        else:
            high[where] = np.minimum(high[where], constraint.right.value)
    return low, high


def _row(constraint: Constraint, position: int, tables: CandidateTables) -> Row:
    label = constraint.label
    try:
        pair = affine_pair(constraint_ratio(constraint, tables.columns), tables, None)
    except UnsupportedMetric as error:
        raise UnsupportedMetric(
            f"the constraint `{label}` couples {len(tables.segments)} segments and can't be a "
            f"linear row: {error}. Write each_segment({label}), or use one segment"
        ) from None
    if pair is None:
        raise UnsupportedMetric(
            f"the constraint `{label}` couples {len(tables.segments)} segments and can't be a "
            f"linear row: `{describe(constraint.left)}` multiplies counts that depend on the "
            f"thresholds. Write each_segment({label}), or use one segment"
        )
    numerator, denominator, _ = pair
    everything = slice(0, int(tables.starts[-1]))
    sign = _sign(denominator, tables, everything)
    if sign == 0:
        raise UnsupportedMetric(
            f"the constraint `{label}` divides by `{describe(constraint.left)}`'s denominator, "
            "which may be negative or positive depending on the thresholds; write it without "
            "the division"
        )
    usage = -sign * numerator.exact(tables, everything, constant=False)
    return _short_row(usage, sign * numerator.constant, position, tables)


def _short_row(usage: np.ndarray, limit: int, position: int, tables: CandidateTables) -> Row:
    """Fit a row into 64 bits.

    Where it is too long, it is divided and rounded down on both sides: what it lets through beyond
    the limit is a part in 2^60 of the sums it adds up, less than they were rounded by before.
    """
    worst = sum(int(w) for w in np.maximum.reduceat(np.abs(usage), tables.starts[:-1]))
    if worst >= _SAFE:
        shift = worst.bit_length() - 61
        usage = usage.astype(object) >> shift
        limit >>= shift
    usage = np.asarray(usage, np.int64)
    # a limit that nothing reaches, or nothing meets, needs no more digits than the sums
    low, high = _range(usage, tables)
    return Row(usage, min(max(limit, low - 1), high), position)


def _sign(denominator: Affine, tables: CandidateTables, everything: slice) -> int:
    """Sign of a denominator over all choices: 1, -1, or 0 where it may be either."""
    if not denominator.coefficients:
        return 1 if denominator.constant >= 0 else -1
    low, high = _range(denominator.exact(tables, everything, constant=False), tables)
    low, high = low + denominator.constant, high + denominator.constant
    return 1 if low >= 0 else -1 if high <= 0 else 0


def _range(values: np.ndarray, tables: CandidateTables) -> tuple[int, int]:
    """Least and greatest sum over one candidate of each segment."""
    low = sum(int(v) for v in np.minimum.reduceat(values, tables.starts[:-1]))
    return low, sum(int(v) for v in np.maximum.reduceat(values, tables.starts[:-1]))


def _gap(rule: Scope, position: int, tables: CandidateTables) -> GapValues:
    assert isinstance(rule.constraint, Constraint)
    assert isinstance(rule.constraint.right, Number)
    values = np.empty(int(tables.starts[-1]))
    reading = Constraint(rule.constraint.left, ">=", Number(0))
    for g in range(len(tables.segments)):
        value, empty = margin(reading, tables.counts(g))
        values[tables.own(g)] = np.where(empty, np.nan, value)
    finite = np.abs(values[np.isfinite(values)])
    blur = _BLUR * max(1.0, float(finite.max()) if len(finite) else 0.0)
    # infinite values are equal to each other and far from all others
    values = np.clip(values, -_FAR, _FAR)
    return GapValues(values, float(rule.constraint.right.value) + blur, position)


def _add_groups(region: Region, rule: Scope, position: int, tables: CandidateTables) -> None:
    if rule.key not in tables.groups:
        known = ", ".join(map(repr, tables.groups)) or "none"
        raise ValueError(
            f"`{rule.label}` needs the column {rule.key!r}; columns given: {known}. "
            f"Pass per={{{rule.key!r}: values}}, or a frame that has this column"
        )
    assert isinstance(rule.constraint, Constraint)
    assert isinstance(rule.constraint.right, Number)
    groups = tables.groups[rule.key]
    scaled = as_fraction(rule.constraint.right.value) * tables.rows.scale
    if groups.weight is not None:
        groups = replace(groups, weight=np.rint(groups.weight * float(tables.rows.scale)))
    limit = min(int(scaled.numerator // scaled.denominator), _SAFE)
    capacities = GroupRows(groups, limit, position)
    region.groups.append(capacities)
    region.allowed[:] &= _within_groups(capacities, tables)


def _within_groups(capacities: GroupRows, tables: CandidateTables) -> np.ndarray:
    """Candidates that break no group's capacity by their own segment alone."""
    groups = capacities.groups
    reached = np.flatnonzero(groups.candidate < tables.starts[-1])
    segment = np.searchsorted(tables.starts, groups.candidate[reached], side="right") - 1
    order = np.lexsort((groups.candidate[reached], groups.code[reached], segment))
    rows = reached[order]
    cell = segment[order] * np.int64(len(groups.names)) + groups.code[rows]
    amount = (
        np.ones(len(rows), np.int64)
        if groups.weight is None
        else groups.weight[rows].astype(np.int64)
    )
    running = np.cumsum(amount)
    first = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]])) if len(rows) else rows
    lengths = np.diff(np.concatenate([first, [len(rows)]]))
    used = running - np.repeat(running[first] - amount[first], lengths)
    over = rows[used > capacities.limit]
    # flagging one more of a full group is never undone by flagging more, so the rest is out too
    broken = np.zeros(int(tables.starts[-1]), bool)
    broken[groups.candidate[over]] = True
    running_broken = np.concatenate([[0], np.cumsum(broken)])
    before = np.repeat(running_broken[tables.starts[:-1]], np.diff(tables.starts))
    return np.asarray(running_broken[1:] - before == 0)
