"""The objective and the constraints around a choice, when one or two of its thresholds move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit.confusion import Confusion
from imbfit.expressions import Expr
from imbfit.reading import value
from imbfit.threshold.region import GroupRows, Region
from imbfit.threshold.scan import objective_values
from imbfit.threshold.table import CandidateTables

_CELLS = ("tp", "fp", "fn", "tn")


@dataclass(frozen=True)
class Held:
    """A choice of one candidate per segment, of which one or two are moved and the rest held.

    Attributes
    ----------
    tables : CandidateTables
        All candidates.
    choice : ndarray of int, shape (n_segments,)
        Candidates, counted from each segment's own first.
    region : Region
        What the constraints allow.
    goal : Expr or callable
        The objective.
    greater_is_better : bool
        Its direction.
    """

    tables: CandidateTables
    choice: np.ndarray
    region: Region
    goal: Any
    greater_is_better: bool

    @property
    def absolute(self) -> np.ndarray:
        """Return the chosen candidates as positions in the tables of all segments."""
        absolute: np.ndarray = self.tables.starts[:-1] + self.choice
        return absolute

    def rest(self, moved: Sequence[int]) -> Confusion:
        """Count the segments that are held."""
        parts = [
            _pick(self.tables.counts(g), int(self.choice[g]))
            for g in range(len(self.choice))
            if g not in moved
        ]
        return _add(parts, self.tables.columns)

    def read(self, counts: Confusion) -> np.ndarray:
        """Read the objective on counts of the whole."""
        return value(self.goal, counts, greater_is_better=self.greater_is_better)

    def value_chosen(self) -> float:
        """Return the objective of the whole at the choice."""
        if not isinstance(self.goal, Expr):
            return float(self.objective(0)[int(self.choice[0])])
        return float(self.read(self.rest(())))

    def objective(self, g: int) -> np.ndarray:
        """Objective of the whole for every candidate of one segment."""
        if len(self.choice) == 1 or not isinstance(self.goal, Expr):
            return objective_values(
                self.goal, self.tables, g, greater_is_better=self.greater_is_better
            )
        own = self.tables.own(g)
        every = _pick(self.tables.counts(g), np.arange(own.stop - own.start))
        return self.read(_add([every, self.rest((g,))], self.tables.columns))

    def feasible(self, g: int) -> np.ndarray:
        """Tell which candidates of one segment meet all constraints."""
        own = self.tables.own(g)
        allowed = self.region.allowed[own].copy()
        for row in self.region.rows:
            others = row.usage[self.absolute]
            allowed &= row.usage[own] + int(others.sum() - others[g]) <= row.limit
        for capacities in self.region.groups:
            allowed &= self._within_groups(capacities, g)
        for gap in self.region.gaps:
            others = np.delete(gap.value[self.absolute], g)
            high, low = _extent(others)
            mine = gap.value[own]
            with np.errstate(invalid="ignore"):
                allowed &= ~(np.fmax(mine, high) - np.fmin(mine, low) > gap.most)
        return allowed

    def _flagged_elsewhere(self, capacities: GroupRows, moved: Sequence[int]) -> np.ndarray:
        others = self.absolute.copy()
        others[list(moved)] = self.tables.starts[list(moved)]
        return capacities.flagged(others, self.tables.starts)

    def _within_groups(self, capacities: GroupRows, g: int) -> np.ndarray:
        groups = capacities.groups
        own = self.tables.own(g)
        elsewhere = self._flagged_elsewhere(capacities, (g,))
        if (elsewhere > capacities.limit).any():
            return np.zeros(own.stop - own.start, bool)
        rows = np.flatnonzero((groups.candidate >= own.start) & (groups.candidate < own.stop))
        rows = rows[np.lexsort((groups.candidate[rows], groups.code[rows]))]
        code = groups.code[rows]
        added = _weights(capacities, rows)
        running = np.cumsum(added)
        first = np.flatnonzero(np.diff(code, prepend=-1) != 0)
        before = np.repeat(
            running[first] - added[first], np.diff(np.concatenate([first, [len(rows)]]))
        )
        over = rows[running - before + elsewhere[code] > capacities.limit]
        broken = np.zeros(own.stop - own.start, bool)
        broken[groups.candidate[over] - own.start] = True
        whole: np.ndarray = np.cumsum(broken) == 0
        return whole

    def surface(
        self, moved: Sequence[int], picks: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Objective and feasibility over pairs of candidates, shape (n_first, n_second)."""
        first, second = (
            _pick(self.tables.counts(g), pick) for g, pick in zip(moved, picks, strict=True)
        )
        both = _add(
            [_stretched(first, 0), _stretched(second, 1), self.rest(moved)], self.tables.columns
        )
        values = self.read(both)
        places = [self.tables.starts[g] + pick for g, pick in zip(moved, picks, strict=True)]
        allowed = np.logical_and.outer(*(self.region.allowed[place] for place in places))
        held = np.delete(self.absolute, list(moved))
        for row in self.region.rows:
            used = np.add.outer(*(row.usage[place] for place in places))
            allowed &= used + int(row.usage[held].sum()) <= row.limit
        for gap in self.region.gaps:
            high, low = _extent(gap.value[held])
            one, two = gap.value[places[0]][:, None], gap.value[places[1]][None, :]
            with np.errstate(invalid="ignore"):
                spread = np.fmax(np.fmax(one, two), high) - np.fmin(np.fmin(one, two), low)
                allowed &= ~(spread > gap.most)
        for capacities in self.region.groups:
            elsewhere = self._flagged_elsewhere(capacities, moved)
            per_group = [self._flagged(capacities, place) for place in places]
            most = elsewhere + per_group[0][:, -1] + per_group[1][:, -1]
            # a group that even the last candidates keep within its capacity bounds nothing
            for code in np.flatnonzero(most > capacities.limit):
                used = np.add.outer(per_group[0][code], per_group[1][code])
                allowed &= used + elsewhere[code] <= capacities.limit
        return values, allowed

    def _flagged(self, capacities: GroupRows, places: np.ndarray) -> np.ndarray:
        """Sum the flagged weight of each group for rising candidates of one segment."""
        groups = capacities.groups
        g = int(np.searchsorted(self.tables.starts, places[0], side="right")) - 1
        own = self.tables.own(g)
        rows = np.flatnonzero((groups.candidate >= own.start) & (groups.candidate <= places[-1]))
        column = np.searchsorted(places, groups.candidate[rows])
        flagged = np.zeros((len(groups.names), len(places)), np.int64)
        np.add.at(flagged, (groups.code[rows], column), _weights(capacities, rows))
        return np.cumsum(flagged, axis=1)


def _weights(capacities: GroupRows, rows: np.ndarray) -> np.ndarray:
    weight = capacities.groups.weight
    return np.ones(len(rows), np.int64) if weight is None else weight[rows].astype(np.int64)


def _extent(values: np.ndarray) -> tuple[float, float]:
    """Highest and lowest number, NaN where there is none."""
    values = values[~np.isnan(values)]
    return (float(values.max()), float(values.min())) if len(values) else (np.nan, np.nan)


def _whole(cells: Sequence[Any], columns: Mapping[str, Confusion]) -> Confusion:
    tp, fp, fn, tn = cells
    return Confusion.from_cells(tp, fp, fn, tn, columns)


def _pick(counts: Confusion, at: Any) -> Confusion:
    def cells(part: Confusion) -> list[Any]:
        shape = np.shape(part.tp)
        return [np.broadcast_to(getattr(part, cell), shape)[at] for cell in _CELLS]

    columns = {
        name: Confusion.from_cells(*cells(column)) for name, column in counts.columns.items()
    }
    return _whole(cells(counts), columns)


def _stretched(counts: Confusion, axis: int) -> Confusion:
    def cells(part: Confusion) -> list[Any]:
        index = (slice(None), None) if axis == 0 else (None, slice(None))
        return [getattr(part, cell)[index] for cell in _CELLS]

    columns = {
        name: Confusion.from_cells(*cells(column)) for name, column in counts.columns.items()
    }
    return _whole(cells(counts), columns)


def _add(parts: Sequence[Confusion], columns: Iterable[str]) -> Confusion:
    def cells(some: Sequence[Confusion]) -> list[Any]:
        return [sum((getattr(part, cell) for part in some), 0.0) for cell in _CELLS]

    sums = {
        name: Confusion.from_cells(*cells([part.columns[name] for part in parts]))
        for name in columns
    }
    return _whole(cells(parts), sums)


def candidate_of(tables: CandidateTables, g: int, threshold: float) -> int:
    """Return the position, within its segment, of the candidate that a threshold amounts to."""
    own = tables.own(g)
    edge = tables.above[own] if tables.grid is None else tables.grid[own]
    if np.isneginf(threshold):
        return len(edge) - 1
    return int(np.searchsorted(-edge, -threshold, side="right")) - 1
