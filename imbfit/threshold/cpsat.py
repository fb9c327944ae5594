"""OR-Tools CP-SAT on a reduced selection problem."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from imbfit.threshold.core import Core

# CP-SAT calls a model invalid when a sum may leave 64 bits; this leaves room for its own shifts.
_SAFE = 2**60
# As many rows make a model of flags dense.
_MANY_ROWS = 8


def solve_core(
    core: Core,
    *,
    hint: np.ndarray | None = None,
    bound: float = np.inf,
    deadline: float = np.inf,
    seed: int = 0,
) -> tuple[np.ndarray | None, float, str]:
    """Choose one candidate per segment by CP-SAT.

    Values are integers throughout: with a float objective CP-SAT stops within an absolute gap of
    1e-4 and may call the worst of three candidates optimal.

    Parameters
    ----------
    core : Core
        The problem.
    hint : ndarray of int64, default=None
        A choice to start from.
    bound : float
        A known upper bound on the value.
    deadline : float
        In seconds of ``time.monotonic()``.
    seed : int
        Random seed.

    Returns
    -------
    choice : ndarray of int64 or None
        Candidates, None where none was found.
    bound : float
        No choice of these candidates is worth more.
    status : {"optimal", "feasible", "infeasible", "unknown"}
    """
    left = deadline - time.monotonic()
    if left <= 0:
        return None, bound, "unknown"
    if (np.diff(core.starts) == 0).any():
        return None, -np.inf, "infeasible"
    losses, base = _losses(core)
    made = _model(core)
    if made is None:
        return None, -np.inf, "infeasible"
    model, flags = made
    divisor = _divisor(core, losses)
    scaled = [loss // divisor for loss in losses]
    lost = flags.sum_of(scaled)
    model.minimize(lost)
    if np.isfinite(bound):
        least_loss = max(0, base - int(np.floor(bound)))
        model.add(lost >= max(0, least_loss // divisor - (len(core.starts) - 1)))
    if hint is not None:
        flags.hint(model, hint)
    solver = _exact_solver(left, seed)
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, -np.inf, "infeasible"
    if status == cp_model.MODEL_INVALID:
        raise RuntimeError(f"CP-SAT refused the model: {model.validate()}")
    # a float stands for the solver's integer, and loses its last digits where that is large
    proven = float(solver.best_objective_bound)
    best_loss = int(np.ceil(proven - 1e-6 - abs(proven) * 2.0**-52))
    reached = float(base - best_loss * divisor)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, min(bound, reached) if np.isfinite(reached) else bound, "unknown"
    picked = flags.picked(solver)
    if any(
        int(row[picked].sum()) > limit for row, limit in zip(core.usage, core.limits, strict=True)
    ):
        return None, min(bound, reached), "unknown"
    exact = status == cp_model.OPTIMAL and divisor == 1
    if exact:
        reached = float(sum(int(v) for v in core.value[picked]))
    return picked, min(bound, reached), "optimal" if exact else "feasible"


def _exact_solver(seconds: float, seed: int) -> Any:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.absolute_gap_limit = 0.0
    solver.parameters.relative_gap_limit = 0.0
    if np.isfinite(seconds):
        solver.parameters.max_time_in_seconds = seconds
    return solver


def _segments(core: Core) -> list[slice]:
    edges = core.starts.tolist()
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _losses(core: Core) -> tuple[list[int], int]:
    """Losses against each segment's best, far smaller than the values, and the sum of the bests."""
    values = [int(v) for v in core.value]
    losses: list[int] = []
    base = 0
    for own in _segments(core):
        best = max(values[own])
        base += best
        losses += [best - v for v in values[own]]
    return losses, base


def _divisor(core: Core, losses: list[int]) -> int:
    """Find a power of two that brings the sum of losses into range."""
    worst = sum(max(losses[own]) for own in _segments(core))
    divisor = 1
    while worst // divisor >= _SAFE:
        divisor *= 2
    return divisor


class _OneHot:
    """A flag for each candidate, one of each segment."""

    def __init__(self, model: Any, core: Core) -> None:
        self.flags = [model.new_bool_var("") for _ in core.value]
        for own in _segments(core):
            model.add_exactly_one(self.flags[own])

    def sum_of(self, values: list[int]) -> Any:
        """Sum of a number per candidate over the chosen ones."""
        return cp_model.LinearExpr.weighted_sum(self.flags, values)

    def hint(self, model: Any, choice: np.ndarray) -> None:
        """Start from a choice."""
        chosen = set(choice.tolist())
        for j, flag in enumerate(self.flags):
            model.add_hint(flag, j in chosen)

    def picked(self, solver: Any) -> np.ndarray:
        """Read the chosen candidates."""
        return np.array([j for j, flag in enumerate(self.flags) if solver.boolean_value(flag)])


class _Ordered:
    """A flag for each candidate but the first: it is chosen, or one behind it.

    From one candidate to the next few of many rows change, so sums over these flags are sparse.
    """

    def __init__(self, model: Any, core: Core) -> None:
        self.core = core
        self.flags: dict[int, Any] = {}
        for own in _segments(core):
            for j in range(own.start + 1, own.stop):
                self.flags[j] = model.new_bool_var("")
                if j > own.start + 1:
                    model.add_implication(self.flags[j], self.flags[j - 1])

    def sum_of(self, values: list[int]) -> Any:
        """Sum of a number per candidate over the chosen ones."""
        steps = [(flag, values[j] - values[j - 1]) for j, flag in self.flags.items()]
        steps = [(flag, step) for flag, step in steps if step]
        constant = sum(values[j] for j in self.core.starts[:-1].tolist())
        flags, weights = zip(*steps, strict=True) if steps else ((), ())
        return cp_model.LinearExpr.weighted_sum(list(flags), list(weights)) + constant

    def hint(self, model: Any, choice: np.ndarray) -> None:
        """Start from a choice."""
        for own, chosen in zip(_segments(self.core), choice.tolist(), strict=True):
            for j in range(own.start + 1, own.stop):
                model.add_hint(self.flags[j], j <= chosen)

    def picked(self, solver: Any) -> np.ndarray:
        """Read the chosen candidates."""
        return np.array(
            [
                own.start
                + sum(solver.boolean_value(self.flags[j]) for j in range(own.start + 1, own.stop))
                for own in _segments(self.core)
            ]
        )


def _model(core: Core) -> tuple[Any, _OneHot | _Ordered] | None:
    """Make flags, one of each segment, under the rows; None where a row can't be met."""
    model = cp_model.CpModel()
    flags = _Ordered(model, core) if len(core.limits) > _MANY_ROWS else _OneHot(model, core)
    for row, limit in zip(core.usage, core.limits, strict=True):
        least = np.minimum.reduceat(row, core.starts[:-1])
        extra = (row - np.repeat(least, np.diff(core.starts))).tolist()
        room = limit - sum(least.tolist())
        if room < 0:
            return None
        extra = [min(e, room + 1) for e in extra]
        # where 64 bits are short a coarser row lets too much through, and the answer is recounted
        coarse = 1
        while sum(extra) // coarse >= _SAFE:
            coarse *= 2
        model.add(flags.sum_of([e // coarse for e in extra]) <= room // coarse)
    return model, flags
