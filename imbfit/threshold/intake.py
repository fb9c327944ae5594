"""What users give to a search, checked: goals, scores, columns, grids."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit._labels import (
    amount_columns,
    check_length,
    column_vector,
    first_rows,
)
from imbfit._settings import check_choice
from imbfit.exceptions import SearchWarning
from imbfit.expressions import Constraint, Expr, Scope, columns_of, is_number
from imbfit.metrics import as_metric, as_rules
from imbfit.reading import direction
from imbfit.threshold.scan import name_of
from imbfit.threshold.segments import encode_segments, without_midnight

_FEW = 20


def read_goal(
    objective: Any, greater_is_better: Any, constraints: Any
) -> tuple[Any, bool, list[Constraint | Scope]]:
    """Check an objective with its direction, and constraints."""
    rules = as_rules(constraints)
    if callable(objective) and not isinstance(objective, Expr):
        if greater_is_better is None:
            raise ValueError(
                f"objective {name_of(objective)} is a function: pass greater_is_better=True or "
                "False"
            )
        if not isinstance(greater_is_better, (bool, np.bool_)):
            raise TypeError(
                f"greater_is_better={greater_is_better!r}: True, False or None are allowed"
            )
        return objective, bool(greater_is_better), rules
    goal = as_metric(objective)
    return goal, direction(goal, greater_is_better), rules


def parts_of(name: str, columns: Any) -> dict[str, Any]:
    """Give a frame, or the columns of a mapping, the names that errors use."""
    if isinstance(columns, Mapping):
        return {f"{name}[{key!r}]": column for key, column in columns.items()}
    return {name: columns}


def read_scores(y_score: Any, rows: int, nan_policy: str) -> np.ndarray:
    """Check scores; NaN becomes -inf, never flagged, where that is the policy."""
    array = column_vector(y_score, "y_score")
    check_length(array, rows, "y_score")
    if array.dtype.kind == "c":
        raise ValueError("y_score holds complex numbers; give real ones, such as their real part")
    if array.dtype.kind in "iu" and len(array) and int(np.abs(array).max()) > 2**53:
        raise ValueError(
            "y_score holds whole numbers beyond 2**53, which floats can't tell apart; give their "
            "ranks instead"
        )
    try:
        score = np.asarray(array, float)
    except (TypeError, ValueError):
        raise ValueError(f"y_score holds {array.dtype} values; numbers are needed") from None
    if np.isfinite(score).all():
        return score
    infinite = np.isinf(score)
    if infinite.any():
        raise ValueError(
            f"y_score is infinite in {first_rows(infinite)}; clip it to a finite number"
        )
    missing = np.isnan(score)
    if nan_policy == "raise":
        raise ValueError(
            f"y_score is NaN in {first_rows(missing)}; drop these rows, or pass "
            'nan_policy="negative" to never flag them'
        )
    return np.where(missing, -np.inf, score)


def check_classes(positive: np.ndarray) -> None:
    """Raise unless both classes occur."""
    n_positive = int(np.count_nonzero(positive))
    if n_positive in (0, len(positive)):
        kind = "negative" if n_positive == 0 else "positive"
        raise ValueError(
            f"all {len(positive)} rows are {kind}; a threshold is chosen between two classes, so "
            "both must occur (check pos_label)"
        )


def read_columns(
    goal: Any, rules: list[Constraint | Scope], amounts: Any, rows: int
) -> dict[str, np.ndarray]:
    """Read the per-row columns that an objective and constraints name."""
    wanted = columns_of(goal) if isinstance(goal, Expr) else set()
    for rule in rules:
        wanted |= columns_of(rule)
    columns = amount_columns(amounts, rows, wanted=wanted)
    missing = sorted(wanted - set(columns))
    if missing:
        names = [] if amounts is None else list(getattr(amounts, "columns", amounts))
        raise ValueError(
            f"the formulas read the per-row column {missing[0]!r}; amounts given: "
            f"{', '.join(map(repr, names)) or 'none'}. Pass amounts={{{missing[0]!r}: values}}"
        )
    return columns


def group_columns(rules: list[Constraint | Scope], per: Any, rows: int) -> dict[str, np.ndarray]:
    """Read the columns that capacities per group need."""
    columns = {}
    for rule in rules:
        if not (isinstance(rule, Scope) and rule.kind == "capacity" and isinstance(rule.key, str)):
            continue
        names = [] if per is None else list(getattr(per, "columns", per))
        if rule.key not in names:
            raise ValueError(
                f"`{rule.label}` needs the column {rule.key!r}; columns given: "
                f"{', '.join(map(repr, names)) or 'none'}. Pass per={{{rule.key!r}: values}}"
            )
        codes, groups = encode_segments(per[rule.key], rows, what=f"per[{rule.key!r}]")
        assert codes is not None
        labels = np.empty(len(groups), object)
        labels[:] = groups
        # numbers instead of values: values of any type, sorted or not, make the same groups
        columns[rule.key] = _Named(codes, labels)
        if rows > _FEW and len(groups) > 0.9 * rows:
            warnings.warn(
                f"`{rule.label}` says nothing: the column has {len(groups)} different values in "
                f"{rows} rows. Round times to days, or name another column",
                SearchWarning,
                stacklevel=3,
            )
    return {name: column.spread() for name, column in columns.items()}


@dataclass(frozen=True)
class _Named:
    codes: np.ndarray
    labels: np.ndarray

    def spread(self) -> np.ndarray:
        texts = np.array([without_midnight(label) for label in self.labels])
        unique = len(np.unique(texts)) == len(texts)
        return texts[self.codes] if unique else self.codes


def read_grid(thresholds: Any, score: np.ndarray) -> np.ndarray | None:
    """Read the thresholds to choose from; None for all distinct scores."""
    if isinstance(thresholds, str):
        check_choice("thresholds", thresholds, ("all",))
        return None
    if is_number(thresholds) and isinstance(thresholds, numbers.Integral):
        if thresholds < 1:
            raise ValueError(f"thresholds={thresholds}: at least 1 is needed")
        finite = score[np.isfinite(score)]
        if len(finite) == 0:
            return np.empty(0)
        # in halves, since the range itself may be beyond floats
        low, high = finite.min() / 2, finite.max() / 2
        return 2 * np.asarray(np.linspace(low, high, int(thresholds)))
    grid = np.asarray(thresholds)
    if grid.ndim != 1 or grid.dtype.kind not in "iuf" or not len(grid):
        raise ValueError(
            f"thresholds={thresholds!r}: give 'all', a whole number, or an array of numbers"
        )
    if not np.isfinite(grid).all():
        raise ValueError(
            f"thresholds has NaN or infinite entries in {first_rows(~np.isfinite(grid))}; nobody "
            "and everybody are always candidates and need no entry"
        )
    return grid.astype(float)
