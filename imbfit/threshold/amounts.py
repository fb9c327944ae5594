"""Per-row columns that formulas and capacities name, from X or beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from imbfit._frames import column_names, row_count
from imbfit._labels import amount_columns
from imbfit.expressions import Constraint, Expr, Scope, columns_of
from imbfit.threshold.layout import Layout
from imbfit.threshold.row_segments import check_present


def names_of(amounts: Any) -> list[Any]:
    """Return the names of per-row columns that came with the rows."""
    if amounts is None:
        return []
    names = list(amounts) if isinstance(amounts, Mapping) else column_names(amounts)
    if names is None:
        raise TypeError(
            f"amounts is of type {type(amounts).__name__}; give a frame, or a dict of columns such "
            'as {"amount": values}'
        )
    return names


def group_names(rules: Iterable[Any]) -> list[str]:
    """Return the columns that capacities name."""
    return list(
        dict.fromkeys(
            rule.key
            for rule in rules
            if isinstance(rule, Scope) and rule.kind == "capacity" and isinstance(rule.key, str)
        )
    )


def columns_read(goal: Any, rules: Iterable[Any]) -> set[str]:
    """Return the per-row columns that the objective and the constraints read."""
    formulas = [*rules, goal] if isinstance(goal, Expr) else list(rules)
    return set().union(*map(columns_of, formulas))


def read_columns(
    layout: Layout, X: Any, amounts: Any, goal: Any, rules: list[Constraint | Scope]
) -> dict[str, Any]:
    """Read what the search needs besides labels and scores."""
    segments = layout.segment_values(X)
    if segments is not None:
        check_present(segments)
    return {
        "segments": segments,
        "amounts": read_amounts(layout, X, amounts, columns_read(goal, rules)),
        "per": read_groups(layout, X, amounts, rules),
    }


def read_amounts(
    layout: Layout, X: Any, amounts: Any, wanted: Iterable[str]
) -> dict[str, np.ndarray]:
    """Read the per-row columns that formulas name, from `amounts` or from X."""
    rows, given, found = row_count(X), names_of(amounts), {}
    for name in given:
        _one_per_row(amounts[name], rows, name)
    for name in sorted(wanted):
        if name in given:
            found[name] = amounts[name]
        elif name in layout.sources:
            found[name] = layout.source(X, name)
        else:
            listed = ", ".join(map(repr, [*given, *layout.sources])) or "none"
            raise ValueError(
                f"the formulas read the per-row column {name!r}; amounts given: {listed}. Pass "
                f"amounts={{{name!r}: column of X}}, or fit(amounts=) with such a column"
            )
    return amount_columns(found, rows)


def read_groups(
    layout: Layout, X: Any, amounts: Any, rules: list[Constraint | Scope]
) -> dict[str, np.ndarray]:
    """Read the columns that capacities name, from `amounts` or from X."""
    given, groups = names_of(amounts), {}
    for name in group_names(rules):
        if name in given:
            groups[name] = _one_per_row(amounts[name], row_count(X), name)
        elif name in layout.sources:
            groups[name] = layout.source(X, name)
        else:
            raise ValueError(
                f"capacity(..., per={name!r}) needs a column {name!r}, and neither X nor "
                f"amounts has it; pass amounts={{{name!r}: column}}, or fit(amounts=) with "
                "such a column"
            )
    return groups


def _one_per_row(column: Any, rows: int, name: str) -> np.ndarray:
    values = np.asarray(column)
    if values.ndim != 1 or len(values) != rows:
        raise ValueError(
            f"amounts[{name!r}] has shape {values.shape}, but X has {rows} rows. Inside "
            "GridSearchCV, cross_validate and the like give a frame, whose rows are cut along with "
            "those of X; a dict is passed on whole"
        )
    return values
