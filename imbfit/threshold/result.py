"""The answer of a search, recounted on the rows before anything is believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from imbfit.confusion import Confusion
from imbfit.expressions import Constraint, Expr, Scope
from imbfit.reading import value
from imbfit.threshold.report import sensitivity
from imbfit.threshold.table import CandidateTables, Sums

_CELLS = ("tp", "fp", "fn", "tn")
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class ThresholdSearch:
    """The best thresholds, with their proof.

    Parameters
    ----------
    thresholds : dict
        Segment to threshold: +inf flags nobody, -inf everybody. The one key is None where there
        are no segments.
    objective_value : float
        Value of the objective, recounted on the rows.
    best_bound : float
        No choice of thresholds that meets the constraints is better than this.
    gap : float
        Distance of the two, plus what rounding weights and amounts may have cost; 0 is a proof.
    status : {"optimal", "feasible", "least_violation"}
        "feasible" means that the time limit came before the proof.
    constraint_report : list of dict
        See :func:`imbfit.threshold.report.constraint_report`.
    counts : Confusion
        Counts of the whole.
    segment_counts : dict of segment to Confusion
        Counts of each segment.
    objective : Expr or callable
        What was optimised.
    greater_is_better : bool
        Its direction.
    rules : list of Constraint or Scope
        The constraints.
    tables : CandidateTables
        All candidate thresholds.
    """

    thresholds: dict[Any, float]
    objective_value: float
    best_bound: float
    gap: float
    status: str
    constraint_report: list[dict[str, Any]]
    counts: Confusion
    segment_counts: dict[Any, Confusion]
    objective: Expr | Callable[..., Any]
    greater_is_better: bool
    rules: list[Constraint | Scope]
    tables: CandidateTables = field(repr=False)

    @property
    def segmented(self) -> bool:
        """Whether there are segments."""
        return self.tables.segments != (None,)

    @property
    def threshold(self) -> float:
        """The threshold, where there are no segments."""
        if self.segmented:
            raise AttributeError("there is a threshold for each segment; see `thresholds`")
        return self.thresholds[None]

    def table(self, *, top: int | None = None, expressions: Iterable[Any] = ()) -> Any:
        """Return the sensitivity table of all candidate thresholds.

        Parameters
        ----------
        top : int, default=None
            Only the best so many of each segment, ranked.
        expressions : iterable of Expr or str
            More columns.

        Returns
        -------
        DataFrame or dict of ndarray
            See :func:`imbfit.threshold.report.sensitivity`.
        """
        return sensitivity(
            self.tables,
            objective=self.objective,
            greater_is_better=self.greater_is_better,
            rules=self.rules,
            expressions=expressions,
            top=top,
        )


def counts_at(tables: CandidateTables, g: int, choice: np.ndarray) -> Confusion:
    """Real counts of a segment under a choice."""

    def pick(sums: Sums, columns: dict[str, Confusion]) -> Confusion:
        tp, pp = int(sums.tp[choice[g]]), int(sums.pp[choice[g]])
        ap, n = int(sums.ap[g]), int(sums.n[g])
        scale = float(sums.scale)
        tp_, fp_, fn_, tn_ = (c / scale for c in (tp, pp - tp, ap - tp, n - pp - (ap - tp)))
        return Confusion.from_cells(tp_, fp_, fn_, tn_, columns)

    return pick(tables.rows, {name: pick(sums, {}) for name, sums in tables.columns.items()})


def add_up(parts: list[Confusion]) -> Confusion:
    """Add the counts of segments up to those of the whole."""
    columns = {name: add_up([part.columns[name] for part in parts]) for name in parts[0].columns}
    tp, fp, fn, tn = (math.fsum(getattr(part, cell) for part in parts) for cell in _CELLS)
    return Confusion.from_cells(tp, fp, fn, tn, columns)


def settle(found: ThresholdSearch) -> ThresholdSearch:
    """Value from the counts, and the gap with what rounding may have cost."""
    counts = found.counts
    reached = found.objective_value
    if isinstance(found.objective, Expr):
        reached = _value_at(found, counts)
    bound = found.best_bound
    if found.status != "feasible":
        bound = reached
    sign = 1 if found.greater_is_better else -1
    bound = reached + sign * max(0.0, sign * (bound - reached)) if np.isfinite(bound) else bound
    gap = 0.0 if bound == reached else abs(bound - reached)
    return replace(
        found,
        objective_value=reached,
        best_bound=bound,
        gap=gap + _lost(found, counts) if np.isfinite(gap) else gap,
    )


def _lost(found: ThresholdSearch, counts: Confusion) -> float:
    """Bound what rounding weights and amounts to integers may have cost the objective.

    Each sum may be off by its error, for the choice and for the one that it was preferred to, and
    the objective by as much times its slope; twice that leaves room for slopes that differ.
    """
    sources: list[tuple[str | None, Sums]] = [
        (None, found.tables.rows),
        *found.tables.columns.items(),
    ]
    lost = 0.0
    for name, sums in sources:
        if not sums.error:
            continue
        part = counts if name is None else counts.columns[name]
        cells = [float(getattr(part, cell)) for cell in _CELLS]
        step = max(sums.error, 1e-6 * math.fsum(map(abs, cells)))
        for moved in range(len(cells)):
            bumped = [c + step * (i == moved) for i, c in enumerate(cells)]
            there = _replaced(counts, name, bumped)
            slope = abs(_value_at(found, there) - _value_at(found, counts)) / step
            lost += slope * sums.error if math.isfinite(slope) else 0.0
    return 4 * lost


def _replaced(counts: Confusion, name: str | None, cells: list[float]) -> Confusion:
    """Return counts with other cells of the rows, or of one column."""
    if name is None:
        return Confusion.from_cells(cells[0], cells[1], cells[2], cells[3], counts.columns)
    column = Confusion.from_cells(cells[0], cells[1], cells[2], cells[3])
    own = (getattr(counts, cell) for cell in _CELLS)
    tp, fp, fn, tn = own
    return Confusion.from_cells(tp, fp, fn, tn, {**counts.columns, name: column})


def _value_at(found: ThresholdSearch, counts: Confusion) -> float:
    if isinstance(found.objective, Expr):
        return float(value(found.objective, counts, greater_is_better=found.greater_is_better))
    cells = (np.array([float(getattr(counts, cell))]) for cell in _CELLS)
    return float(np.asarray(found.objective(*cells))[0])


def recount(
    found: ThresholdSearch,
    positive: np.ndarray,
    score: np.ndarray,
    *,
    codes: np.ndarray | None,
    weight: np.ndarray | None,
    columns: Mapping[str, np.ndarray],
) -> ThresholdSearch:
    """Apply the thresholds to the rows and count again, before anything is believed."""
    cuts = np.array(list(found.thresholds.values()))
    flagged = score >= (cuts[0] if codes is None else cuts[codes])
    # -inf marks rows that are never flagged, and -inf >= -inf would hold
    if np.isneginf(cuts).any():
        flagged &= ~np.isneginf(score)
    counts = Confusion.from_flags(positive, flagged, weight=weight, columns=columns)
    # rows without weights are whole numbers; sums of floats differ by their rounding
    room = 0.0 if weight is None else found.tables.rows.error + _ROUNDING * counts.n
    _compare(found.counts, counts, "", room)
    for name, column in columns.items():
        values = column if weight is None else column * weight
        room = found.tables.columns[name].error + _ROUNDING * float(np.abs(values).sum())
        _compare(found.counts.columns[name], counts.columns[name], f"[{name}]", room)
    return settle(replace(found, counts=counts))


def _compare(told: Confusion, seen: Confusion, of: str, room: float) -> None:
    for cell in _CELLS:
        ours, theirs = getattr(told, cell), getattr(seen, cell)
        if abs(ours - theirs) > room:
            raise RuntimeError(
                f"the search counted {cell}{of}={ours:g} but the rows say {theirs:g}; please "
                "report this"
            )
