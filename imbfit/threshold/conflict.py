"""Why no choice of thresholds meets all constraints, and the least bad choice.

The conflict is irreducible: constraints are left out one by one, and one stays only if the others
can be met without it. The least violation is the smallest fraction t by which every bound must
give way,

    left >= bound  becomes  left >= bound - t |bound|,
    left <= bound  becomes  left <= bound + t |bound|

(plus or minus t where the bound is 0), found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from imbfit.exceptions import InfeasibleConstraints, UnsupportedMetric
from imbfit.expressions import Constraint, Expr, Number, Op, Scope, Threshold
from imbfit.named import n, pp
from imbfit.reading import margin
from imbfit.threshold.objectives import maximise
from imbfit.threshold.region import build_region, local_mask, plain, segment_of
from imbfit.threshold.scan import objective_values
from imbfit.threshold.solving import Outcome, Search, feasible
from imbfit.threshold.table import CandidateTables

Rules = Sequence[Constraint | Scope]
_MOST_TRIALS = 200
_LOOSEST = 1e9


@dataclass(frozen=True)
class Feasibility:
    """Whether constraints can be met; None where the time ran out first.

    Attributes
    ----------
    search : Search
        Tables, time limit, seed.
    open : list
        Grows by one with each question that was left open.
    """

    search: Search
    open: list[None] = field(default_factory=list)

    def __call__(self, rules: Rules) -> bool | None:
        """Tell whether all of the rules can be met at once."""
        outcome = feasible(self.search, build_region(list(rules), self.search.tables))
        if outcome.status == "unknown":
            self.open.append(None)
            return None
        return outcome.choice is not None


def best_within(objective: Expr, search: Search, rules: Rules, *, greater_is_better: bool) -> Any:
    """Best outcome under some constraints, None where time ran out without a choice."""
    region = build_region(list(rules), search.tables)
    if len(search.tables.segments) == 1:
        if not region.allowed.any():
            return Outcome(None, -np.inf, -np.inf, "infeasible")
        values = objective_values(objective, search.tables, 0, greater_is_better=greater_is_better)
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
    can_hold = Feasibility(search)
    conflict = list(rules)
    proven = True
    # by position: the same rule may be given twice
    position = 0
    while position < len(conflict):
        rest = conflict[:position] + conflict[position + 1 :]
        verdict = can_hold(rest)
        if verdict is None:
            proven = False
        if verdict is False:
            conflict = rest
        else:
            position += 1
    best_values: dict[str, float] = {}
    segments: dict[str, list[Any]] = {}
    lines = []
    for rule in conflict:
        rest = [other for other in conflict if other is not rule]
        left_open = len(can_hold.open)
        reach, where, at_fault = _reach(rule, rest, search, can_hold)
        line = f"  - {rule.label}"
        if at_fault:
            segments[rule.label] = at_fault
            shown = ", ".join(map(repr, at_fault[:8]))
            line += f" (fails in {shown}{', ...' if len(at_fault) > 8 else ''})"
        if reach is not None:
            best_values[rule.label] = reach
            line += f": reaches {reach:.6g}{where} {'given the others' if rest else 'at best'}"
            if len(can_hold.open) > left_open or search.late:
                line += " (the time ran out: more may be possible)"
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
            (
                'Loosen or drop one of them, or pass infeasible="least_violation" for the choice '
                "that breaks them least."
            ),
        ]
    )
    return InfeasibleConstraints(
        message,
        conflict=[rule.label for rule in conflict],
        best_values=best_values,
        segments=segments,
    )


def _reach(
    rule: Constraint | Scope,
    rest: list[Constraint | Scope],
    search: Search,
    can_hold: Feasibility,
) -> tuple[float | None, str, list[Any]]:
    """Best value of a constraint's metric while others hold, where it is, and who is at fault."""
    tables = search.tables
    constraint = plain(rule)
    kind = rule.kind if isinstance(rule, Scope) else "whole"
    if isinstance(constraint.left, Threshold):
        return None, "", []
    if kind == "each_segment":
        assert isinstance(rule, Scope)
        alone = _failing_alone(constraint, rest, tables)
        if alone and tables.segments == (None,):
            return next(iter(alone.values()))[0], "", []
        if alone:
            # show the segment that is furthest from the bound
            worst = min(alone, key=lambda name: alone[name][1])
            return alone[worst][0], f" in {worst!r}", list(alone)
    if kind == "in_segment":
        assert isinstance(rule, Scope)
        return _in_one(rule, rest, search), f" in {rule.key!r}", [rule.key]
    if kind in ("each_segment", "max_gap") or isinstance(getattr(rule, "key", None), str):
        assert isinstance(rule, Scope)
        return _bound_that_holds(rule, rest, search, can_hold)
    left = constraint.left
    if isinstance(rule, Scope) and isinstance(rule.key, int):
        left = pp * rule.key / n
    elif not isinstance(constraint.right, Number):
        left = constraint.left - constraint.right
    greater = constraint.sense == ">="
    try:
        outcome = best_within(left, search, rest, greater_is_better=greater)
    except UnsupportedMetric:
        return None, "", []
    if outcome is None or outcome.choice is None or not np.isfinite(outcome.value):
        return None, "", []
    return (outcome.value if greater else -outcome.value), "", []


def _failing_alone(
    constraint: Constraint, rest: list[Constraint | Scope], tables: CandidateTables
) -> dict[Any, tuple[float, float]]:
    """Segments where no candidate left by the other constraints meets this one.

    Each with the best value there and its signed distance to the bound.
    """
    others = build_region(rest, tables).allowed
    greater = constraint.sense == ">="
    failing = {}
    for g, name in enumerate(tables.segments):
        own = others[tables.own(g)]
        if (own & local_mask(constraint, tables, g)).any():
            continue
        slack, _ = margin(constraint, tables.counts(g))
        slack = np.where(own, np.broadcast_to(slack, own.shape), -np.inf)
        if not own.any():
            failing[name] = (float("nan"), -np.inf)
            continue
        at = int(np.argmax(slack))
        left = objective_values(constraint.left, tables, g, greater_is_better=greater)
        failing[name] = (float(left[at]), float(slack[at]))
    return failing


def _in_one(rule: Scope, rest: list[Constraint | Scope], search: Search) -> float | None:
    """Best value in one segment; exact where the others leave candidates of it free."""
    tables = search.tables
    constraint = plain(rule)
    greater = constraint.sense == ">="
    g = segment_of(rule, tables.segments)
    values = objective_values(constraint.left, tables, g, greater_is_better=greater)
    allowed = build_region(rest, tables).allowed[tables.own(g)]
    best = None
    # from the best value down, the first that the constraints on the whole can live with
    can_hold = Feasibility(search)
    for level in np.unique(values[allowed])[:: -1 if greater else 1][:_MOST_TRIALS]:
        sense = ">=" if greater else "<="
        bound = Constraint(constraint.left, sense, Number(float(level)))
        if can_hold([*rest, Scope("in_segment", bound, rule.key)]):
            best = float(level)
            break
    return best


def _bound_that_holds(
    rule: Scope, rest: list[Constraint | Scope], search: Search, can_hold: Feasibility
) -> tuple[float | None, str, list[Any]]:
    """Tightest bound that the other constraints leave room for, and the segments it binds."""
    inner = plain(rule)
    if not isinstance(inner.right, Number):
        return None, "", []
    low, high = 0.0, 1.0
    while not can_hold([*rest, relax(rule, high)]):
        low, high = high, 4 * high
        if high > _LOOSEST or search.late:
            return None, "", []
    while high - low > 1e-6 * high and not search.late:
        middle = (low + high) / 2
        if can_hold([*rest, relax(rule, middle)]):
            high = middle
        else:
            low = middle
    loosest = relax(rule, high)
    bound = plain(loosest).right
    assert isinstance(bound, Number)
    binding: list[Any] = []
    if rule.kind == "each_segment":
        outcome = feasible(search, build_region([*rest, loosest], search.tables))
        if outcome.choice is not None:
            for g, name in enumerate(search.tables.segments):
                at = int(outcome.choice[g]) - search.tables.own(g).start
                if not local_mask(inner, search.tables, g)[at]:
                    binding.append(name)
    reach = float(bound.value)
    if rule.kind == "capacity" or (rule.kind == "each_segment" and inner.left == pp):
        # flagged rows come in whole steps
        step = float(search.tables.rows.scale)
        reach = math.floor(reach * step * (1 + 1e-9)) / step
    if search.tables.segments == (None,):
        binding = []
    return reach, "", binding


def relax(rule: Constraint | Scope, t: float) -> Constraint | Scope:
    """Let a bound give way by the fraction `t` of itself."""
    if isinstance(rule, Scope):
        inner = relax(rule.constraint, t)
        return replace(rule, constraint=inner)
    if isinstance(rule.right, Number):
        bound = rule.right.value
        room = t * (abs(bound) or 1.0)
        moved = bound - room if rule.sense == ">=" else bound + room
        return replace(rule, right=Number(_outward(moved, down=rule.sense == ">=")))
    return replace(rule, right=Op("-" if rule.sense == ">=" else "+", rule.right, Number(t)))


def _outward(bound: float, *, down: bool) -> float:
    """Round to seven digits, away from what is asked: short numbers make short integers."""
    if bound == 0:
        return 0.0
    digits = 6 - math.floor(math.log10(abs(bound)))
    rounded = round(bound, digits)
    if (rounded > bound) if down else (rounded < bound):
        rounded += (-1 if down else 1) * 10.0**-digits
    return round(rounded, digits)


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
    can_hold = Feasibility(search)
    low, high = 0.0, 1.0
    while not can_hold([relax(rule, high) for rule in rules]):
        low, high = high, high * 4
        if high > _LOOSEST or search.late:
            raise InfeasibleConstraints(
                "no choice meets the constraints, however far their bounds give way",
                conflict=[rule.label for rule in rules],
            )
    for _ in range(40):
        if high - low <= 1e-7 * max(1.0, high) or search.late:
            break
        middle = (low + high) / 2
        if can_hold([relax(rule, middle) for rule in rules]):
            high = middle
        else:
            low = middle
    # bounds are rounded each by itself: what one of them lets through at `high`, all must
    relaxed = [relax(rule, high + 1e-6 * (1 + high)) for rule in rules]
    return solve(relaxed), relaxed, high
