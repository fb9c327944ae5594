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
    made = _model(core, losses)
    if made is None:
        return None, -np.inf, "infeasible"
    model, flags = made
    divisor = _divisor(core, losses)
    scaled = [loss // divisor for loss in losses]
    lost = cp_model.LinearExpr.weighted_sum(flags, scaled)
    model.minimize(lost)
    if np.isfinite(bound):
        least_loss = max(0, base - int(np.floor(bound)))
        model.add(lost >= max(0, least_loss // divisor - (len(core.starts) - 1)))
    if hint is not None:
        chosen = set(hint.tolist())
        for j, flag in enumerate(flags):
            model.add_hint(flag, j in chosen)
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
    picked = np.array([j for j, flag in enumerate(flags) if solver.boolean_value(flag)])
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


def _model(core: Core, losses: list[int]) -> tuple[Any, list[Any]] | None:
    """Make flags, one of each segment, under the rows; None where a row can't be met."""
    model = cp_model.CpModel()
    flags = [model.new_bool_var("") for _ in losses]
    for own in _segments(core):
        model.add_exactly_one(flags[own])
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
        used = cp_model.LinearExpr.weighted_sum(flags, [e // coarse for e in extra])
        model.add(used <= room // coarse)
    return model, flags
