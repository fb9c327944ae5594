"""The threshold search on scores: check the input, translate, search, recount, report."""

from __future__ import annotations

import math
import numbers
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from imbfit._labels import (
    amount_columns,
    check_index,
    check_length,
    column_vector,
    encode_binary,
    first_rows,
    row_weights,
)
from imbfit.confusion import Confusion
from imbfit.exceptions import InfeasibleConstraints, SearchWarning
from imbfit.expressions import Constraint, Expr, Scope, columns_of, is_number
from imbfit.metrics import as_metric, as_rules
from imbfit.reading import direction, value
from imbfit.threshold.conflict import explain, least_violation
from imbfit.threshold.objectives import maximise
from imbfit.threshold.region import build_region, threshold_bounds
from imbfit.threshold.report import constraint_report, flagged_by_group, sensitivity
from imbfit.threshold.scan import name_of, objective_values, scan
from imbfit.threshold.segments import encode_segments
from imbfit.threshold.solving import Outcome, Search
from imbfit.threshold.table import CandidateTables, Sums, build_tables

__all__ = ["ThresholdSearch", "search_table", "search_thresholds"]

_FEW = 20
_EXPLAINING = 10.0
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


def search_thresholds(
    y_true: Any,
    y_score: Any,
    *,
    objective: Any = "f1",
    greater_is_better: bool | None = None,
    constraints: Any = (),
    segments: Any = None,
    amounts: Any = None,
    per: Any = None,
    sample_weight: Any = None,
    pos_label: Any = None,
    thresholds: Any = "all",
    nan_policy: str = "raise",
    infeasible: str = "raise",
    time_limit: float | None = 60,
    random_state: int | None = None,
    verbose: int = 0,
) -> ThresholdSearch:
    """Find the best thresholds on scored rows, under constraints, with proof.

    The objective is optimised over all combinations of one threshold per segment that meet the
    constraints on the given rows. That is a statement about these rows: on new ones a constraint
    may be missed.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Binary labels.
    y_score : array-like of shape (n_rows,)
        Scores, higher for positive rows, on any scale.
    objective : Expr, str or callable, default="f1"
        A metric of :mod:`imbfit.metrics`, its text, or, with one segment, a vectorised
        ``f(tp, fp, fn, tn)``.
    greater_is_better : bool, default=None
        Direction; needed where the objective does not know its own.
    constraints : constraint, text, or list of them
        What must hold.
    segments : array-like of shape (n_rows,) or (n_rows, n_columns), default=None
        A threshold is chosen for each distinct value (tuple of values).
    amounts : mapping of str to array-like, or frame, default=None
        Per-row columns that formulas such as ``fn["amount"]`` read.
    per : mapping of str to array-like, or frame, default=None
        Columns for capacities such as ``capacity(200, per="date")``.
    sample_weight : array-like of shape (n_rows,), default=None
        How often each row counts; rows of weight 0 do not exist.
    pos_label : label, default=None
        The positive label; 1 of {0, 1} or {-1, 1}, else the last of the sorted two.
    thresholds : "all", int or array-like of float, default="all"
        Candidates: all distinct scores, so many between the lowest and the highest score, or these.
        Nobody and everybody are always among them.
    nan_policy : {"raise", "negative"}, default="raise"
        What to do with rows whose score is NaN; "negative" never flags them.
    infeasible : {"raise", "least_violation"}, default="raise"
        What to do where no choice meets all constraints.
    time_limit : float, default=60
        Seconds for the search; None for no limit.
    random_state : int, default=None
        Seed of CP-SAT, where it is needed.
    verbose : int, default=0
        Print progress.

    Returns
    -------
    ThresholdSearch
        Thresholds, value, bound and reports. Of equally good choices with one segment the one with
        the highest threshold is taken.

    Raises
    ------
    InfeasibleConstraints
        If no choice meets all constraints.
    UnsupportedMetric
        If an objective or a constraint can't be handled exactly over several segments.
    ValueError
        For bad input.

    Examples
    --------
    >>> from imbfit import search_thresholds
    >>> y = [0, 0, 1, 0, 1, 1]
    >>> score = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    >>> found = search_thresholds(y, score, objective="f1", constraints="precision >= 0.9")
    >>> round(found.threshold, 2), found.objective_value, found.status
    (0.45, 0.8, 'optimal')
    """
    started = time.monotonic()
    goal, greater, rules = read_goal(objective, greater_is_better, constraints)
    _check_choice("nan_policy", nan_policy, ("raise", "negative"))
    check_index(
        y_true=y_true,
        y_score=y_score,
        segments=segments,
        sample_weight=sample_weight,
        **_parts("amounts", amounts),
        **_parts("per", per),
    )
    positive = encode_binary(y_true, pos_label=pos_label)
    rows = len(positive)
    score = read_scores(y_score, rows, nan_policy)
    weight = row_weights(sample_weight, rows)
    codes, names = encode_segments(segments, rows)
    columns = _columns(goal, rules, amounts, rows)
    groups = group_columns(rules, per, rows)
    if weight is not None and not weight.all():
        keep = weight > 0
        positive, score, weight = positive[keep], score[keep], weight[keep]
        columns = {name: column[keep] for name, column in columns.items()}
        groups = {name: column[keep] for name, column in groups.items()}
        if codes is not None:
            codes = codes[keep]
            present = np.bincount(codes, minlength=len(names)) > 0
            codes = (np.cumsum(present) - 1)[codes]
            names = tuple(name for name, there in zip(names, present, strict=True) if there)
    _check_classes(positive)
    tables = build_tables(
        positive,
        score,
        segment_codes=codes,
        segment_names=names,
        weight=weight,
        columns=columns,
        per=groups,
        grid=_grid(thresholds, score),
    )
    search = _search(tables, started, time_limit, random_state, verbose)
    found = run(goal, rules, search, greater=greater, infeasible=infeasible)
    return recount(found, positive, score, codes=codes, weight=weight, columns=columns)


def search_table(
    table: Any,
    *,
    objective: Any = "f1",
    greater_is_better: bool | None = None,
    constraints: Any = (),
    infeasible: str = "raise",
    time_limit: float | None = 60,
    random_state: int | None = None,
    verbose: int = 0,
) -> ThresholdSearch:
    """Find the best thresholds from ready sensitivity tables.

    Parameters
    ----------
    table : frame or mapping of str to array-like
        One line per segment and threshold with the columns ``threshold``, ``tp``, ``fp``, ``fn``,
        ``tn``; ``segment`` where there are several; and the four sums of each per-row column, named
        ``tp[amount]`` and so on. Lines of a segment must describe the same rows. Nobody and
        everybody are added where they are missing.
    objective : Expr, str or callable, default="f1"
        What is optimised, see :func:`search_thresholds`.
    greater_is_better : bool, default=None
        Its direction.
    constraints : constraint, text, or list of them
        What must hold.
    infeasible : {"raise", "least_violation"}, default="raise"
        What to do where no choice meets all constraints.
    time_limit : float, default=60
        Seconds for the search; None for no limit.
    random_state : int, default=None
        Seed of CP-SAT, where it is needed.
    verbose : int, default=0
        Print progress.

    Returns
    -------
    ThresholdSearch
        Thresholds, value, bound and reports, counted on the table.

    Examples
    --------
    >>> from imbfit import search_table
    >>> table = {
    ...     "threshold": [0.05, 0.35, 0.71],
    ...     "tp": [48, 40, 30],
    ...     "fp": [15, 5, 2],
    ...     "fn": [2, 10, 20],
    ...     "tn": [85, 95, 98],
    ... }
    >>> search_table(table, objective="cost(fp=2, fn=8)").threshold
    0.05
    """
    from imbfit.threshold.ready import read_table

    started = time.monotonic()
    goal, greater, rules = read_goal(objective, greater_is_better, constraints)
    tables = read_table(table)
    missing = set().union(*map(columns_of, [goal, *rules] if isinstance(goal, Expr) else rules))
    missing -= set(tables.columns)
    if missing:
        raise ValueError(
            f"the table has no sums of {sorted(missing)}; add the columns "
            + ", ".join(f"{cell}[{min(missing)}]" for cell in ("tp", "fp", "fn", "tn"))
        )
    search = _search(tables, started, time_limit, random_state, verbose)
    return run(goal, rules, search, greater=greater, infeasible=infeasible)


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


def _parts(name: str, columns: Any) -> dict[str, Any]:
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


def _check_choice(name: str, given: Any, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ValueError(f"{name}={given!r}: allowed are {', '.join(map(repr, allowed))}")


def _check_classes(positive: np.ndarray) -> None:
    n_positive = int(np.count_nonzero(positive))
    if n_positive in (0, len(positive)):
        kind = "negative" if n_positive == 0 else "positive"
        raise ValueError(
            f"all {len(positive)} rows are {kind}; a threshold is chosen between two classes, so "
            "both must occur (check pos_label)"
        )


def _columns(
    goal: Any, rules: list[Constraint | Scope], amounts: Any, rows: int
) -> dict[str, np.ndarray]:
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
        # a date is shown without its midnight
        texts = np.array([re.sub(r"[T ]00:00:00(\.0+)?$", "", str(v)) for v in self.labels])
        unique = len(np.unique(texts)) == len(texts)
        return texts[self.codes] if unique else self.codes


def _grid(thresholds: Any, score: np.ndarray) -> np.ndarray | None:
    if isinstance(thresholds, str):
        _check_choice("thresholds", thresholds, ("all",))
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


def _search(
    tables: CandidateTables,
    started: float,
    time_limit: float | None,
    random_state: Any,
    verbose: int,
) -> Search:
    if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
        raise ValueError(f"time_limit={time_limit!r}: give seconds above 0, or None for no limit")
    seed = 0
    if random_state is not None:
        own = hasattr(random_state, "randint")
        if not own and not (is_number(random_state) and isinstance(random_state, numbers.Integral)):
            raise ValueError(
                f"random_state={random_state!r}: give a whole number, a RandomState or None"
            )
        source = random_state if own else np.random.RandomState(random_state)
        seed = int(source.randint(2**31 - 1))
    deadline = np.inf if time_limit is None else started + float(time_limit)
    return Search(tables, deadline, seed, verbose)


def run(
    goal: Any,
    rules: list[Constraint | Scope],
    search: Search,
    *,
    greater: bool,
    infeasible: str = "raise",
) -> ThresholdSearch:
    """Search ready tables; the counts of the answer are those of the tables.

    Parameters
    ----------
    goal : Expr or callable
        The objective.
    rules : list of Constraint or Scope
        The constraints.
    search : Search
        Tables, time limit, seed.
    greater : bool
        The direction of the objective.
    infeasible : {"raise", "least_violation"}
        What to do where no choice meets all constraints.

    Returns
    -------
    ThresholdSearch
    """
    _check_choice("infeasible", infeasible, ("raise", "least_violation"))
    tables = search.tables
    if len(tables.segments) > 1 and not isinstance(goal, Expr):
        raise ValueError(
            f"objective {name_of(goal)} is a function, which can be searched with one segment only "
            f"({len(tables.segments)} given); write it as an expression of imbfit.metrics"
        )

    def solve(with_rules: list[Constraint | Scope]) -> Outcome:
        region = build_region(with_rules, tables)
        if len(tables.segments) > 1:
            return maximise(goal, search, region, greater_is_better=greater)
        best = scan(goal, tables, region.allowed, greater_is_better=greater)
        if best is None:
            return Outcome(None, -np.inf, -np.inf, "infeasible")
        reached = objective_values(goal, tables, 0, greater_is_better=greater)[best]
        oriented = float(reached if greater else -reached)
        return Outcome(np.array([best]), oriented, oriented, "optimal")

    outcome = solve(rules)
    bounds = rules
    status = outcome.status
    if outcome.choice is None:
        if outcome.status != "infeasible":
            raise InfeasibleConstraints(
                "the time limit came before any choice of thresholds was found that meets the "
                "constraints; raise time_limit or loosen a constraint",
                conflict=[rule.label for rule in rules],
            )
        # explaining needs time of its own, and the search has used little of it
        again = replace(search, deadline=max(search.deadline, time.monotonic() + _EXPLAINING))
        if infeasible == "raise":
            raise explain(rules, again)
        search = again
        outcome, bounds, violation = least_violation(rules, again, solve)
        status = "least_violation"
        if outcome.choice is None:
            raise InfeasibleConstraints(
                "no choice of thresholds meets the constraints, and the time limit came before the "
                "least bad one was found; raise time_limit",
                conflict=[rule.label for rule in rules],
            )
        warnings.warn(
            f"no choice of thresholds meets all constraints; every bound gave way by "
            f"{violation:.4g} of itself. See constraint_report",
            SearchWarning,
            stacklevel=3,
        )
    elif outcome.status == "feasible":
        warnings.warn(
            f"the time limit came before the proof: the objective is within "
            f"{abs(outcome.bound - outcome.value):.6g} of the best possible; raise time_limit",
            SearchWarning,
            stacklevel=3,
        )
    assert outcome.choice is not None
    low, high = threshold_bounds(bounds, tables)
    thresholds = {
        name: tables.cut(int(outcome.choice[g]), lowest=low[g], highest=high[g])
        for g, name in enumerate(tables.segments)
    }
    per_segment = {name: _at(tables, g, outcome.choice) for g, name in enumerate(tables.segments)}
    whole = _add_up(list(per_segment.values()))
    region = build_region(rules, tables)
    flagged = flagged_by_group(
        region.groups,
        [rules[c.rule].key for c in region.groups],  # type: ignore[union-attr]
        outcome.choice,
        tables,
    )
    report = constraint_report(rules, whole, per_segment, thresholds, flagged)
    broken = [line["constraint"] for line in report if not line["met"]]
    if broken and status != "least_violation":
        raise RuntimeError(f"the search broke `{broken[0]}`; please report this")
    found = ThresholdSearch(
        thresholds=thresholds,
        objective_value=outcome.value if greater else -outcome.value,
        best_bound=outcome.bound if greater else -outcome.bound,
        gap=0.0,
        status=status,
        constraint_report=report,
        counts=whole,
        segment_counts=per_segment,
        objective=goal,
        greater_is_better=greater,
        rules=rules,
        tables=tables,
    )
    return _settle(found)


def _at(tables: CandidateTables, g: int, choice: np.ndarray) -> Confusion:
    counts = tables.counts(g)
    at = int(choice[g]) - tables.own(g).start

    def pick(c: Confusion) -> Confusion:
        cells = (np.broadcast_to(getattr(c, cell), counts.tp.shape)[at] for cell in _CELLS)
        columns = {name: pick(column) for name, column in c.columns.items()}
        tp, fp, fn, tn = map(float, cells)
        return Confusion.from_cells(tp, fp, fn, tn, columns)

    return pick(counts)


def _add_up(parts: list[Confusion]) -> Confusion:
    columns = {name: _add_up([part.columns[name] for part in parts]) for name in parts[0].columns}
    tp, fp, fn, tn = (math.fsum(getattr(part, cell) for part in parts) for cell in _CELLS)
    return Confusion.from_cells(tp, fp, fn, tn, columns)


def _settle(found: ThresholdSearch) -> ThresholdSearch:
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
    return _settle(replace(found, counts=counts))


def _compare(told: Confusion, seen: Confusion, of: str, room: float) -> None:
    for cell in _CELLS:
        ours, theirs = getattr(told, cell), getattr(seen, cell)
        if abs(ours - theirs) > room:
            raise RuntimeError(
                f"the search counted {cell}{of}={ours:g} but the rows say {theirs:g}; please "
                "report this"
            )
