"""What a search found, printed as tables that fit a terminal."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from imbfit.cli.cases import Cases
from imbfit.cli.columns import date_word, sort_key
from imbfit.confusion import Confusion
from imbfit.displays import ThresholdDisplay
from imbfit.expressions import Expr, describe
from imbfit.named import precision, recall
from imbfit.reading import value
from imbfit.threshold.search import ThresholdSearch

MOST_LINES = 20
_FEW_POSITIVES = 10


def tell_cases(cases: Cases, arguments: argparse.Namespace) -> None:
    """Say what was read."""
    rows, found = len(cases.positive), int(cases.positive.sum())
    by = f", segments by {' and '.join(arguments.segment)}" if arguments.segment else ""
    print(f"{arguments.file}: {rows:,} cases, {found:,} positive ({found / rows:.2%}){by}")
    lacking = int(np.isnan(cases.score).sum())
    if lacking:
        print(f"{lacking:,} of them without a score, never flagged")


def tell_goal(found: ThresholdSearch) -> None:
    """Say what is asked for."""
    way = "Maximize" if found.greater_is_better else "Minimize"
    print(f"\n{way} {objective_text(found.objective)}")
    for rule in found.rules:
        print(f"  subject to {rule.label}")


def objective_text(objective: Any) -> str:
    """Write the objective."""
    return describe(objective) if isinstance(objective, Expr) else str(objective)


def tell_thresholds(found: ThresholdSearch, names: Sequence[str]) -> None:
    """Print the thresholds with what they flag."""
    print("\nThresholds (a case is flagged when its score reaches the threshold)")
    head = [*(names or ["segment"]), "threshold", "cases", "positive", "flagged"]
    head += ["precision", "recall"]
    order = sorted(found.thresholds, key=lambda s: -float(found.segment_counts[s].pp))
    shown = order if len(order) <= MOST_LINES else order[: MOST_LINES - 2]
    lines = []
    for segment in sorted(shown, key=sort_key):
        parts = segment if isinstance(segment, tuple) else (segment,)
        lines.append(
            [
                *("all" if part is None else str(part) for part in parts),
                told_threshold(found.thresholds[segment]),
                *_told_counts(found.segment_counts[segment]),
            ]
        )
    if found.segmented:
        blank = [""] * (len(names) - 1)
        lines.append(["all", *blank, "", *_told_counts(found.counts)])
    print_columns(head, lines, left=len(names or [1]))
    if len(shown) < len(order):
        print(
            f"  ... and {len(order) - len(shown):,} segments that flag fewer; all are in "
            "thresholds.json"
        )


def tell_small_segments(found: ThresholdSearch) -> None:
    """Warn of thresholds that rest on few positive cases."""
    few = sum(float(counts.ap) < _FEW_POSITIVES for counts in found.segment_counts.values())
    if few and found.segmented:
        print(
            f"  note: {few:,} of {len(found.thresholds):,} segments have fewer than "
            f"{_FEW_POSITIVES} positive cases; thresholds that rest on so few follow chance"
        )


def told_threshold(threshold: float) -> str:
    """Write a threshold for people."""
    if math.isinf(threshold):
        return "nobody" if threshold > 0 else "everybody"
    return f"{threshold:.6g}"


def _told_counts(counts: Confusion) -> list[str]:
    return [
        amount_text(float(counts.n)),
        amount_text(float(counts.ap)),
        amount_text(float(counts.pp)),
        share_text(counts, precision, float(counts.pp)),
        share_text(counts, recall, float(counts.ap)),
    ]


def share_text(counts: Confusion, metric: Expr, of: float) -> str:
    """Write a share; a dash where it is one of nothing."""
    return f"{float(value(metric, counts, greater_is_better=True)):.3f}" if of else "-"


def amount_text(number: float) -> str:
    """Write an amount for people."""
    if abs(number) < 1e15 and float(number).is_integer():
        return f"{number:,.0f}"
    return f"{number:,.2f}" if abs(number) >= 100 else f"{number:.6g}"


def tell_objective(found: ThresholdSearch, took: float, *, compare: bool = True) -> None:
    """Say what is reached, and whether it is proven."""
    name = objective_text(found.objective)
    sure = {
        "optimal": "proven: no other choice of thresholds does better on these cases",
        "feasible": "the time ran out before the proof; at best "
        f"{amount_text(found.best_bound)} is possible (gap {amount_text(found.gap)})",
        "least_violation": "the constraints can't all be met; this breaks them least",
    }[found.status]
    print(f"\n{name} = {amount_text(found.objective_value)}\n  {sure} ({took:.1f} s)")
    default = _default_value(found) if compare else None
    if default is not None:
        print(f"  at the threshold 0.5 for all, whatever the constraints: {amount_text(default)}")


def _default_value(found: ThresholdSearch) -> float | None:
    """Objective at the usual threshold, where scores look like probabilities."""
    above = found.tables.above[np.isfinite(found.tables.above)]
    if not len(above) or above.min() < 0 or above.max() > 1:
        return None
    display = ThresholdDisplay(
        tables=found.tables,
        thresholds=dict.fromkeys(found.tables.segments, 0.5),
        objective=found.objective,
        greater_is_better=found.greater_is_better,
    )
    return display.objective_value


def tell_constraints(found: ThresholdSearch) -> None:
    """Print how each constraint is met."""
    if not found.constraint_report:
        return
    print("\nConstraints (on these cases)")
    _print_report(found.constraint_report)


def _print_report(report: Sequence[Mapping[str, Any]]) -> None:
    # those that are broken or tight come first where not all are shown
    order = sorted(range(len(report)), key=lambda i: (report[i]["met"], _tightness(report[i])))
    labels = {line["constraint"] for line in report}
    most = len(report) if len(report) <= MOST_LINES else max(3, MOST_LINES // len(labels))
    seen: dict[str, int] = dict.fromkeys(labels, 0)
    shown = []
    for i in order:
        seen[report[i]["constraint"]] += 1
        if seen[report[i]["constraint"]] <= most:
            shown.append(i)
    lines = []
    for line in (report[i] for i in sorted(shown)):
        where = line["segment"] if line["segment"] is not None else line["group"]
        parts = where if isinstance(where, tuple) else (where,)
        reached = line["value"]
        lines.append(
            [
                str(line["constraint"]),
                "" if where is None else ", ".join(date_word(part) for part in parts),
                "nothing to judge" if reached is None else _figure(reached),
                f"{line['sense']} {_figure(line['limit'])}",
                "" if reached is None else _figure(abs(line["slack"])),
                "met" if line["met"] else "BROKEN",
            ]
        )
    print_columns(["constraint", "where", "value", "bound", "slack", ""], lines, left=2)
    rest = [report[i] for i in set(order) - set(shown)]
    if rest:
        broken = sum(not line["met"] for line in rest)
        told = "all met, with as much slack or more" if not broken else f"{broken:,} of them broken"
        print(f"  ... and {len(rest):,} more, {told}; all are in thresholds.json")


def _tightness(line: Mapping[str, Any]) -> float:
    if line["value"] is None:
        return math.inf
    return float(line["slack"]) / max(abs(line["limit"]), 1e-9)


def _figure(number: float) -> str:
    if math.isinf(number):
        return "infinite" if number > 0 else "-infinite"
    if float(number).is_integer():
        return f"{number:,.0f}"
    return f"{number:,.2f}" if abs(number) >= 1000 else f"{number:.4g}"


def print_columns(head: Sequence[str], lines: Sequence[Sequence[str]], *, left: int) -> None:
    """Print a table, its first columns to the left and the others to the right."""
    head = [_cut(cell) for cell in head]
    lines = [[_cut(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    for line in [head, *lines]:
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print(("  " + "  ".join(cells)).rstrip())


def _cut(cell: str, most: int = 48) -> str:
    cell = " ".join(cell.split())
    return cell if len(cell) <= most else cell[: most - 3] + "..."
