"""The threshold search on scores: check the input, translate, search, recount, report."""

from __future__ import annotations

import numbers
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from imbfit._labels import (
    check_index,
    encode_binary,
    row_weights,
)
from imbfit._settings import check_choice
from imbfit.exceptions import InfeasibleConstraints, SearchWarning
from imbfit.expressions import Constraint, Expr, Scope, columns_of, is_number
from imbfit.reading import value
from imbfit.threshold.conflict import explain, least_violation
from imbfit.threshold.intake import (
    check_classes,
    group_columns,
    parts_of,
    read_columns,
    read_goal,
    read_grid,
    read_scores,
)
from imbfit.threshold.objectives import maximise
from imbfit.threshold.region import build_region, threshold_bounds
from imbfit.threshold.report import constraint_report, flagged_by_group
from imbfit.threshold.result import ThresholdSearch, add_up, counts_at, recount, settle
from imbfit.threshold.scan import name_of, objective_values, scan
from imbfit.threshold.segments import encode_segments
from imbfit.threshold.solving import Outcome, Search
from imbfit.threshold.table import CandidateTables, build_tables

__all__ = ["ThresholdSearch", "search_table", "search_thresholds"]

_EXPLAINING = 10.0


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
        Print progress; details from 2.

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
    check_choice("nan_policy", nan_policy, ("raise", "negative"))
    check_index(
        y_true=y_true,
        y_score=y_score,
        segments=segments,
        sample_weight=sample_weight,
        **parts_of("amounts", amounts),
        **parts_of("per", per),
    )
    positive = encode_binary(y_true, pos_label=pos_label)
    rows = len(positive)
    score = read_scores(y_score, rows, nan_policy)
    weight = row_weights(sample_weight, rows)
    codes, names = encode_segments(segments, rows)
    columns = read_columns(goal, rules, amounts, rows)
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
    check_classes(positive)
    tables = build_tables(
        positive,
        score,
        segment_codes=codes,
        segment_names=names,
        weight=weight,
        columns=columns,
        per=groups,
        grid=read_grid(thresholds, score),
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


def _scanned(goal: Any, tables: CandidateTables, allowed: np.ndarray, *, greater: bool) -> Outcome:
    """Best candidate of the only segment."""
    best = scan(goal, tables, allowed, greater_is_better=greater)
    if best is None:
        return Outcome(None, -np.inf, -np.inf, "infeasible")
    choice = np.array([best])
    if isinstance(goal, Expr):
        reached = value(goal, counts_at(tables, 0, choice), greater_is_better=greater)
    else:
        reached = objective_values(goal, tables, 0, greater_is_better=greater)[best]
    oriented = float(reached if greater else -reached)
    return Outcome(choice, oriented, oriented, "optimal")


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
    check_choice("infeasible", infeasible, ("raise", "least_violation"))
    tables = search.tables
    search.say(
        f"{int(tables.starts[-1]):,} candidates in {len(tables.segments):,} segments, "
        f"{len(rules)} constraints"
    )
    if len(tables.segments) > 1 and not isinstance(goal, Expr):
        raise ValueError(
            f"objective {name_of(goal)} is a function, which can be searched with one segment only "
            f"({len(tables.segments)} given); write it as an expression of imbfit.metrics"
        )

    def solve(with_rules: list[Constraint | Scope]) -> Outcome:
        region = build_region(with_rules, tables)
        if len(tables.segments) > 1:
            return maximise(goal, search, region, greater_is_better=greater)
        return _scanned(goal, tables, region.allowed, greater=greater)

    outcome = solve(rules)
    sign = 1 if greater else -1
    told = f": {sign * outcome.value:.9g}, bound {sign * outcome.bound:.9g}"
    search.say(outcome.status + (told if outcome.choice is not None else ""))
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
            f"{violation:.4g} of itself (a bound of 0 by that number). See constraint_report",
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
    per_segment = {
        name: counts_at(tables, g, outcome.choice) for g, name in enumerate(tables.segments)
    }
    whole = add_up(list(per_segment.values()))
    flagged = {}
    if tables.groups:
        groups = build_region(rules, tables).groups
        keys = [rules[each.rule].key for each in groups]  # type: ignore[union-attr]
        flagged = flagged_by_group(groups, keys, outcome.choice, tables)
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
    return settle(found)
