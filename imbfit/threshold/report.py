"""What a choice of thresholds amounts to: constraint reports and sensitivity tables."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from imbfit.confusion import Confusion
from imbfit.expressions import Constraint, Expr, Number, Scope, Threshold, is_number
from imbfit.metrics import as_metrics, f1, precision, recall
from imbfit.reading import direction, evaluate, margin, value
from imbfit.threshold.region import GroupRows, local_mask, plain, segment_of
from imbfit.threshold.scan import name_of, objective_values
from imbfit.threshold.table import CandidateTables

_TOLERANCE = 1e-9


def constraint_report(
    rules: Sequence[Constraint | Scope],
    counts: Confusion,
    segment_counts: Mapping[Any, Confusion],
    thresholds: Mapping[Any, float],
    group_flagged: Mapping[str, Mapping[Any, float]],
) -> list[dict[str, Any]]:
    """Tell for each constraint, and each segment it holds in, how far it is from its bound.

    Parameters
    ----------
    rules : sequence of Constraint or Scope
        The constraints.
    counts : Confusion
        Of the whole.
    segment_counts : mapping of segment to Confusion
        Of each segment.
    thresholds : mapping of segment to float
        The choice.
    group_flagged : mapping of str to mapping
        Flagged rows per group, for each column that a capacity names.

    Returns
    -------
    list of dict
        With the keys constraint, segment, group, value, sense, limit, slack, vacuous and met. A
        vacuous ratio has the value None. A negative slack is a violation.
    """
    lines = []
    for rule in rules:
        kind = rule.kind if isinstance(rule, Scope) else "whole"
        if kind == "max_gap":
            assert isinstance(rule, Scope)
            lines.append(_gap_line(rule, segment_counts))
        elif isinstance(rule, Scope) and kind == "capacity" and isinstance(rule.key, str):
            assert isinstance(rule.constraint, Constraint)
            flagged = group_flagged.get(rule.key, {})
            worst = max(flagged, key=lambda g: flagged[g], default=None)
            limit = float(evaluate(rule.constraint.right, counts))
            line = _line(rule.label, flagged.get(worst, 0.0), "<=", limit)
            lines.append(line | {"group": worst})
        elif isinstance(plain(rule).left, Threshold):
            lines += _threshold_lines(rule, thresholds)
        elif kind in ("each_segment", "in_segment"):
            assert isinstance(rule, Scope)
            lines += [
                _plain_line(rule, segment_counts[segment]) | {"segment": segment}
                for segment in _held(rule, list(segment_counts))
            ]
        else:
            lines.append(_plain_line(rule, counts))
    return lines


def _line(label: str, reached: float | None, sense: str, limit: float) -> dict[str, Any]:
    """One line; a vacuous constraint has no value."""
    vacuous = reached is None
    slack = 0.0 if reached is None else (limit - reached if sense == "<=" else reached - limit)
    if reached is not None and np.isinf(limit) and reached == limit:
        slack = 0.0
    met = vacuous or slack >= -_TOLERANCE * max(1.0, abs(limit))
    return {
        "constraint": label,
        "segment": None,
        "group": None,
        "value": reached,
        "sense": sense,
        "limit": limit,
        "slack": slack,
        "vacuous": vacuous,
        "met": bool(met),
    }


def _plain_line(rule: Constraint | Scope, counts: Confusion) -> dict[str, Any]:
    constraint = plain(rule)
    _, vacuous = margin(constraint, counts)
    inner = rule.constraint if isinstance(rule, Scope) and rule.kind.endswith("segment") else rule
    if isinstance(inner, Scope) and isinstance(inner.key, int):
        # show the rate in the user's words, so many per so many rows
        assert isinstance(inner.constraint, Constraint)
        rate = float(counts.pp) * inner.key / float(counts.n)
        limit = float(evaluate(inner.constraint.right, counts))
        return _line(rule.label, rate, "<=", limit)
    if bool(vacuous):
        shown = 0.0
        with contextlib.suppress(ValueError):
            shown = float(value(constraint.right, counts, greater_is_better=True))
        return _line(rule.label, None, constraint.sense, shown)
    left = float(value(constraint.left, counts, greater_is_better=True))
    right = float(value(constraint.right, counts, greater_is_better=True))
    return _line(rule.label, left, constraint.sense, right)


def _threshold_lines(
    rule: Constraint | Scope, thresholds: Mapping[Any, float]
) -> list[dict[str, Any]]:
    constraint = plain(rule)
    limit = float(constraint.right.value)  # type: ignore[attr-defined]
    return [
        _line(rule.label, thresholds[segment], constraint.sense, limit) | {"segment": segment}
        for segment in _held(rule, list(thresholds))
    ]


def _held(rule: Constraint | Scope, segments: list[Any]) -> list[Any]:
    """Return the segments in which a constraint holds."""
    if isinstance(rule, Scope) and rule.kind == "in_segment":
        return [segments[segment_of(rule, segments)]]
    return segments


def _gap_line(rule: Scope, segment_counts: Mapping[Any, Confusion]) -> dict[str, Any]:
    assert isinstance(rule.constraint, Constraint)
    values = []
    for counts in segment_counts.values():
        _, empty = margin(Constraint(rule.constraint.left, ">=", rule.constraint.right), counts)
        if not bool(empty):
            values.append(float(value(rule.constraint.left, counts, greater_is_better=True)))
    limit = float(rule.constraint.right.value)  # type: ignore[attr-defined]
    if len(values) < 2:
        return _line(rule.label, None, "<=", limit)
    low, high = min(values), max(values)
    # infinite values are equal to each other
    return _line(rule.label, 0.0 if low == high else high - low, "<=", limit)


def sensitivity(
    tables: CandidateTables,
    *,
    objective: Expr | Callable[..., Any] = f1,
    greater_is_better: bool = True,
    rules: Sequence[Constraint | Scope] = (),
    expressions: Iterable[Any] = (),
    top: int | None = None,
) -> Any:
    """Build the sensitivity table: one line per segment and threshold.

    Parameters
    ----------
    tables : CandidateTables
        The candidates.
    objective : Expr or callable
        Read on each segment by itself.
    greater_is_better : bool
        Direction of the objective.
    rules : sequence of Constraint or Scope
        A column for each constraint's expression, and ``met`` where it holds within the segment.
    expressions : iterable of Expr or str
        More columns.
    top : int, default=None
        Only the best so many of each segment, ranked: those that meet the constraints first.
        Equal values share a rank.

    Returns
    -------
    DataFrame or dict of ndarray
        A frame where pandas is installed. Columns: segment (where there are several), threshold,
        tp, fp, tn, fn, precision, recall, f1, the objective, the constraints' expressions, the
        extra ones, met, and rank with `top`.
    """
    if not (top is None or (is_number(top) and float(top).is_integer() and top >= 1)):
        raise ValueError(f"top={top!r}: give a whole number of at least 1, or None for all")
    extra = as_metrics(expressions)
    parts = [
        _segment_table(
            tables,
            g,
            objective,
            greater_is_better=greater_is_better,
            rules=rules,
            extra=extra,
            top=top,
        )
        for g in range(len(tables.segments))
    ]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if tables.segments != (None,):
        names = np.empty(len(tables.segments), object)
        names[:] = tables.segments
        sizes = [len(part["threshold"]) for part in parts]
        table = {"segment": np.repeat(names, sizes)} | table
    if importlib.util.find_spec("pandas") is None:
        return table
    import pandas as pd

    return pd.DataFrame(table)


def _segment_table(
    tables: CandidateTables,
    g: int,
    objective: Expr | Callable[..., Any],
    *,
    greater_is_better: bool,
    rules: Sequence[Constraint | Scope],
    extra: Sequence[Expr],
    top: int | None,
) -> dict[str, np.ndarray]:
    counts = tables.counts(g)
    size = len(counts.tp)

    def column(expr: Expr) -> np.ndarray:
        try:
            greater = direction(expr, None)
        except ValueError:
            greater = True
        return np.broadcast_to(value(expr, counts, greater_is_better=greater), (size,))

    reached = objective_values(objective, tables, g, greater_is_better=greater_is_better)
    table = {
        "threshold": cuts(tables, g),
        "tp": counts.tp,
        "fp": counts.fp,
        "tn": counts.tn,
        "fn": counts.fn,
        "precision": column(precision),
        "recall": column(recall),
        "f1": column(f1),
    }
    table.setdefault(name_of(objective), reached)
    met = np.ones(size, bool)
    for rule in rules:
        if _couples(rule):
            continue
        constraint = plain(rule)
        elsewhere = isinstance(rule, Scope) and rule.kind == "in_segment"
        if isinstance(rule, Scope) and elsewhere:
            elsewhere = segment_of(rule, tables.segments) != g
        if not elsewhere:
            met &= local_mask(constraint, tables, g)
        # all segments show the same columns, whichever of them a rule is for
        for side in (constraint.left, constraint.right):
            if not isinstance(side, (Threshold, Number)):
                table.setdefault(name_of(side), column(side))
    for expr in extra:
        table.setdefault(name_of(expr), column(expr))
    table["met"] = met
    if top is None:
        return table
    oriented = reached if greater_is_better else -reached
    order = np.lexsort((-table["threshold"], -oriented, ~met))[: int(top)]
    chosen = {name: np.asarray(values)[order] for name, values in table.items()}
    ranked, holds = oriented[order], met[order]
    place = np.arange(1, len(order) + 1)
    tied = (ranked[1:] == ranked[:-1]) & (holds[1:] == holds[:-1])
    place[1:][tied] = 0
    return chosen | {"rank": np.maximum.accumulate(place)}


def _couples(rule: Constraint | Scope) -> bool:
    """Whether a rule says nothing of one segment by itself."""
    if not isinstance(rule, Scope):
        return False
    return rule.kind == "max_gap" or (rule.kind == "capacity" and isinstance(rule.key, str))


def cuts(tables: CandidateTables, g: int) -> np.ndarray:
    """Thresholds of all candidates of a segment."""
    own = tables.own(g)
    if tables.grid is not None:
        return tables.grid[own]
    above, below = tables.above[own], tables.below[own]
    with np.errstate(invalid="ignore"):
        middle = above / 2 + below / 2
    result = np.where((middle > below) & (middle < above), middle, above)
    # nobody comes first; a segment that can't be flagged at all has nothing else
    result[-1], result[0] = -np.inf, np.inf
    return result


def flagged_by_group(
    groups: Iterable[GroupRows],
    names: Iterable[str],
    choice: np.ndarray,
    tables: CandidateTables,
) -> dict[str, dict[Any, float]]:
    """Count flagged rows per group under a choice, for each group column."""
    scale = float(tables.rows.scale)
    result = {}
    for capacities, name in zip(groups, names, strict=True):
        flagged = capacities.flagged(choice, tables.starts) / scale
        result[name] = dict(zip(capacities.groups.names.tolist(), flagged.tolist(), strict=True))
    return result
