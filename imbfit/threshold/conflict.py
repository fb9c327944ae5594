"""Why no choice of thresholds meets all constraints, and the least bad choice.

The conflict is irreducible: constraints are left out one by one, and one stays only if the others can be
met without it. The least violation is the smallest fraction t by which every bound must give way,

    left >= bound  becomes  left >= bound - t |bound|,     left <= bound  becomes  left <= bound + t |bound|

(plus or minus t where the bound is 0), found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from imbfit.exceptions import InfeasibleConstraints, UnsupportedMetric
from imbfit.expressions import Constraint, Expr, Number, Op, Scope, Threshold
from imbfit.metrics import pp, tp
from imbfit.threshold.objectives import Outcome, Search, maximise
from imbfit.threshold.region import build_region, local_mask, plain
from imbfit.threshold.scan import objective_values

Rules = Sequence[Constraint | Scope]
# Nothing to gain: any choice in the region will do.
_ANY = 0 * pp + 0 * tp
_MOST_SEGMENTS = 60


@dataclass(frozen=True)
class Feasibility:
    """Whether constraints can be met; None where the time ran out first."""

    search: Search

    def __call__(self, rules: Rules) -> bool | None:
        outcome = best_within(_ANY, self.search, rules, greater_is_better=True)
        if outcome is None:
            return None
        return outcome.status != "infeasible"


def best_within(
    objective: Expr, search: Search, rules: Rules, *, greater_is_better: bool
) -> Any:
    """Best outcome under some constraints, None where time ran out without a choice."""
    region = build_region(list(rules), search.tables)
    if len(search.tables.segments) == 1:
        if not region.allowed.any():
            return Outcome(None, -np.inf, -np.inf, "infeasible")
        values = objective_values(
            objective, search.tables, 0, greater_is_better=greater_is_better
        )
        oriented = np.where(region.allowed, values if greater_is_better else -values, -np.inf)
        best = int(np.argmax(oriented))
        return Outcome(np.array([best]), float(oriented[best]), float(oriented[best]), "optimal")
    outcome = maximise(objective, search, region, greater_is_better=greater_is_better)
    return None if outcome.status == "unknown" else outcome


def explain(rules: Rules, search: Search) -> InfeasibleConstraints:
    """Build the error for constraints that can't be met together.

    Parameters
    ----------
    rules : sequence of Constraint or Scope
        The constraints; known to be infeasible.
    search : Search
        Tables, time limit, seed.

    Returns
    -------
    InfeasibleConstraints
        With an irreducible conflicting set, the best value each of its members can reach while the
        others hold, and the segments at fault.
    """
    feasible = Feasibility(search)
    conflict = list(rules)
    proven = True
    for rule in list(rules):
        rest = [other for other in conflict if other is not rule]
        verdict = feasible(rest)
        if verdict is None:
            proven = False
        elif not verdict:
            conflict = rest
    best_values: dict[str, float] = {}
    segments: dict[str, list[Any]] = {}
    lines = []
    for rule in conflict:
        rest = [other for other in conflict if other is not rule]
        line = f"  - {rule.label}"
        if isinstance(rule, Scope) and rule.kind == "each_segment":
            at_fault = _segments_at_fault(rule, rest, search, feasible)
            if at_fault:
                segments[rule.label] = at_fault
                shown = ", ".join(map(repr, at_fault[:8]))
                line += f" (fails in {shown}{', ...' if len(at_fault) > 8 else ''})"
        reach = _best_value(rule, rest, search, segments.get(rule.label))
        if reach is not None:
            where, best = reach
            best_values[rule.label] = best
            given = "given the others" if rest else "at best"
            line += f": reaches {best:.6g}{where} {given}"
        lines.append(line)
    alone = len(conflict) == 1
    head = (
        "no choice of thresholds meets this constraint:"
        if alone
        else "no choice of thresholds meets these constraints together"
        f"{', though any one less can be met' if proven else ''}:"
    )
    message = "\n".join(
        [
            head,
            *lines,
            'Loosen or drop one of them, or pass infeasible="least_violation" for the choice that '
            "breaks them least.",
        ]
    )
    return InfeasibleConstraints(
        message,
        conflict=[rule.label for rule in conflict],
        best_values=best_values,
        segments=segments,
    )


def _segments_at_fault(
    rule: Scope, rest: list[Constraint | Scope], search: Search, feasible: Feasibility
) -> list[Any]:
    """Segments in which the constraint fails by itself, or whose exemption would help."""
    tables = search.tables
    others = build_region(rest, tables).allowed
    constraint = plain(rule)
    empty = [
        name
        for g, name in enumerate(tables.segments)
        if not (others[tables.own(g)] & local_mask(constraint, tables, g)).any()
    ]
    if empty or len(tables.segments) > _MOST_SEGMENTS:
        return empty
    helps = []
    for exempt in tables.segments:
        scoped = [
            Scope("in_segment", rule.constraint, name)
            for name in tables.segments
            if name != exempt
        ]
        if feasible([*rest, *scoped]):
            helps.append(exempt)
    return helps


def _best_value(
    rule: Constraint | Scope,
    rest: list[Constraint | Scope],
    search: Search,
    at_fault: list[Any] | None,
) -> tuple[str, float] | None:
    """Best value that a constraint's metric reaches while others hold."""
    tables = search.tables
    constraint = plain(rule)
    greater = constraint.sense == ">="
    if isinstance(rule, Scope) and (rule.kind == "max_gap" or isinstance(rule.key, str)):
        if rule.kind in ("max_gap", "capacity"):
            return _smallest_bound(rule, rest, search)
    if isinstance(constraint.left, Threshold):
        return None
    left: Expr = constraint.left
    if not isinstance(constraint.right, Number):
        left = constraint.left - constraint.right
    try:
        if isinstance(rule, Scope) and rule.kind in ("each_segment", "in_segment"):
            names = at_fault if rule.kind == "each_segment" else [rule.key]
            if not names:
                return None
            g = tables.segments.index(names[0])
            own = tables.own(g)
            allowed = build_region(rest, tables).allowed[own]
            if not allowed.any():
                return None
            values = objective_values(left, tables, g, greater_is_better=greater)[allowed]
            best = float(values.max() if greater else values.min())
            return f" in {names[0]!r}", best
        outcome = best_within(left, search, rest, greater_is_better=greater)
    except UnsupportedMetric:
        return None
    if outcome is None or outcome.choice is None or not np.isfinite(outcome.value):
        return None
    return "", outcome.value if greater else -outcome.value


def _smallest_bound(
    rule: Scope, rest: list[Constraint | Scope], search: Search
) -> tuple[str, float] | None:
    """Smallest bound on a gap or a capacity per group that the others leave room for."""
    feasible = Feasibility(search)
    assert isinstance(rule.constraint, Constraint)
    assert isinstance(rule.constraint.right, Number)
    whole = rule.kind == "capacity"
    low, high = float(rule.constraint.right.value), 1.0
    if whole:
        high = float(search.tables.rows.n.sum()) / float(search.tables.rows.scale)

    def with_bound(bound: float) -> Scope:
        return replace(rule, constraint=replace(rule.constraint, right=Number(bound)))

    if not feasible([*rest, with_bound(high)]):
        return None
    while high - low > (1 if whole else 1e-6):
        middle = (low + high) // 2 if whole else (low + high) / 2
        if feasible([*rest, with_bound(middle)]):
            high = middle
        else:
            low = middle
    return "", high


def relax(rule: Constraint | Scope, t: float) -> Constraint | Scope:
    """Let a bound give way by the fraction `t` of itself."""
    if isinstance(rule, Scope):
        inner = relax(rule.constraint, t)
        if rule.kind == "capacity" and isinstance(inner, Constraint):
            assert isinstance(inner.right, Number)
        return replace(rule, constraint=inner)
    if isinstance(rule.right, Number):
        bound = rule.right.value
        room = t * (abs(bound) or 1.0)
        moved = Number(bound - room if rule.sense == ">=" else bound + room)
        return replace(rule, right=moved)
    return replace(rule, right=Op("-" if rule.sense == ">=" else "+", rule.right, Number(t)))


def least_violation(
    rules: Rules,
    search: Search,
    solve: Callable[[list[Constraint | Scope]], Any],
) -> tuple[Any, list[Constraint | Scope], float]:
    """Find the best choice among those whose largest relative violation is least.

    Parameters
    ----------
    rules : sequence of Constraint or Scope
        Constraints that can't be met together.
    search : Search
        Tables, time limit, seed.
    solve : callable
        ``solve(rules)`` optimises the objective.

    Returns
    -------
    outcome : object
        What `solve` returned under the relaxed constraints.
    relaxed : list of Constraint or Scope
        The constraints it met.
    violation : float
        The fraction by which every bound gave way.
    """
    feasible = Feasibility(search)
    low, high = 0.0, 1.0
    while not feasible([relax(rule, high) for rule in rules]):
        low, high = high, high * 4
        if high > 1e9 or search.late:
            raise InfeasibleConstraints(
                "no choice meets the constraints, however far their bounds give way",
                conflict=[rule.label for rule in rules],
            )
    for _ in range(40):
        if high - low <= 1e-9 * max(1.0, high) or search.late:
            break
        middle = (low + high) / 2
        if feasible([relax(rule, middle) for rule in rules]):
            high = middle
        else:
            low = middle
    relaxed = [relax(rule, high) for rule in rules]
    return solve(relaxed), relaxed, high


