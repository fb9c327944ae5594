"""OR-Tools CP-SAT on a reduced selection problem."""

from __future__ import annotations

import time

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
    n_segments = len(core.starts) - 1
    sizes = np.diff(core.starts)
    if (sizes == 0).any():
        return None, -np.inf, "infeasible"
    values = [int(v) for v in core.value]
    base = [max(values[core.starts[g] : core.starts[g + 1]]) for g in range(n_segments)]
    owner = np.repeat(np.arange(n_segments), sizes)
    # losses against each segment's best are far smaller than the values themselves
    losses = [base[g] - v for g, v in zip(owner.tolist(), values, strict=True)]
    divisor = 1
    while sum(max(losses[core.starts[g] : core.starts[g + 1]]) for g in range(n_segments)) // (
        divisor
    ) >= _SAFE:
        divisor *= 2
    model = cp_model.CpModel()
    flags = [model.new_bool_var("") for _ in values]
    for g in range(n_segments):
        model.add_exactly_one(flags[core.starts[g] : core.starts[g + 1]])
    for row, limit in zip(core.usage, core.limits, strict=True):
        least = [int(row[core.starts[g] : core.starts[g + 1]].min()) for g in range(n_segments)]
        extra = [int(u) - least[g] for g, u in zip(owner.tolist(), row, strict=True)]
        room = limit - sum(least)
        if room < 0:
            return None, -np.inf, "infeasible"
        extra = [min(e, room + 1) for e in extra]
        # where 64 bits are short a coarser row lets too much through, and the answer is recounted
        coarse = 1
        while sum(extra) // coarse >= _SAFE:
            coarse *= 2
        model.add(
            cp_model.LinearExpr.weighted_sum(flags, [e // coarse for e in extra])
            <= room // coarse
        )
    scaled = [loss // divisor for loss in losses]
    model.minimize(cp_model.LinearExpr.weighted_sum(flags, scaled))
    if np.isfinite(bound):
        least_loss = max(0, sum(base) - int(np.floor(bound)))
        model.add(
            cp_model.LinearExpr.weighted_sum(flags, scaled)
            >= max(0, least_loss // divisor - n_segments)
        )
    if hint is not None:
        chosen = set(hint.tolist())
        for j, flag in enumerate(flags):
            model.add_hint(flag, j in chosen)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.absolute_gap_limit = 0.0
    solver.parameters.relative_gap_limit = 0.0
    if np.isfinite(left):
        solver.parameters.max_time_in_seconds = left
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, -np.inf, "infeasible"
    if status == cp_model.MODEL_INVALID:
        raise RuntimeError(f"CP-SAT refused the model: {model.validate()}")
    # a float stands for the solver's integer, and loses its last digits where that is large
    proven = float(solver.best_objective_bound)
    best_loss = int(np.ceil(proven - 1e-6 - abs(proven) * 2.0**-52))
    reached = float(sum(base) - best_loss * divisor)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, min(bound, reached) if np.isfinite(reached) else bound, "unknown"
    picked = np.array([j for j, flag in enumerate(flags) if solver.boolean_value(flag)])
    if any(int(row[picked].sum()) > limit for row, limit in zip(core.usage, core.limits, strict=True)):
        return None, min(bound, reached), "unknown"
    exact = status == cp_model.OPTIMAL and divisor == 1
    if exact:
        reached = float(sum(values[j] for j in picked.tolist()))
    return picked, min(bound, reached), "optimal" if exact else "feasible"
