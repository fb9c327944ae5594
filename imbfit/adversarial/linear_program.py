"""A small linear program, by the simplex method of OR-Tools."""

from __future__ import annotations

import contextlib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

# The documented model builder adds a term at a time, which takes longer than the solve. This takes
# arrays, and is no documented part of OR-Tools: where a release lacks it, HiGHS does the work.
glop: Any = None
with contextlib.suppress(ImportError):
    from ortools.linear_solver.python import model_builder_helper as glop

__all__ = ["minimised"]

Floats: TypeAlias = NDArray[np.float64]

_TOLERANCES = "primal_feasibility_tolerance: 1e-11 dual_feasibility_tolerance: 1e-11"
# Degenerate programs may go in circles for ever. So much work, in the engine's own measure of about
# a third of a second each, and more for so many entries of the matrix; and so many steps for each
# row and column.
_WORK, _ENTRIES, _STEPS = 2.0, 1e5, 20


def minimised(  # noqa: PLR0917  a linear program
    cost: Floats,
    matrix: Any,
    low: Floats,
    high: Floats,
    least: Floats,
    options: str = "",
) -> tuple[float, Floats, Floats] | None:
    """Minimise cost . x with low <= matrix x <= high and x >= least.

    Parameters
    ----------
    cost : ndarray of shape (n_variables,)
        Of each variable.
    matrix : csr_matrix of shape (n_rows, n_variables)
        Coefficients.
    low, high : ndarray of shape (n_rows,)
        Equal, or `low` is infinite.
    least : ndarray of shape (n_variables,)
        An infinite entry leaves a variable free.
    options : str, default=""
        Of GLOP, in its own notation.

    Returns
    -------
    value : float
    x : ndarray of shape (n_variables,)
    dual : ndarray of shape (n_rows,)
        Of the rows: not positive where only `high` can bind.
    None
        In place of these, where no optimum was found.
    """
    if glop is None:
        return _by_scipy(cost, matrix, low, high, least)
    steps, work = _STEPS * (len(cost) + len(low)), _WORK + matrix.nnz / _ENTRIES
    limit = f"max_number_of_iterations: {steps} max_deterministic_time: {work}"
    for parameters in (f"{_TOLERANCES} {limit} {options}", limit):
        model = glop.ModelBuilderHelper()
        # numpy's generic arrays; its stubs are too narrow
        fill: Any = model.fill_model_from_sparse_data
        fill(least, np.full(len(cost), np.inf), cost, low, high, matrix)
        solver = glop.ModelSolverHelper("glop")
        solver.set_solver_specific_parameters(parameters)
        solver.solve(model)
        if solver.has_solution() and solver.status() == glop.SolveStatus.OPTIMAL:
            return (
                float(solver.objective_value()),
                np.asarray(solver.variable_values()),
                np.asarray(solver.dual_values()),
            )
    return _by_scipy(cost, matrix, low, high, least)


def _by_scipy(
    cost: Floats, matrix: Any, low: Floats, high: Floats, least: Floats
) -> tuple[float, Floats, Floats] | None:
    """Do the same by HiGHS: slower, for what the first engine gives up on."""
    equal = low == high
    below = ~equal
    found = linprog(
        cost,
        A_ub=matrix[below],
        b_ub=high[below],
        A_eq=matrix[equal],
        b_eq=high[equal],
        bounds=np.column_stack([least, np.full(len(cost), np.inf)]),
        options={"maxiter": _STEPS * (len(cost) + len(low))},
    )
    if found.status != 0:
        return None
    dual = np.empty(len(low))
    dual[below], dual[equal] = found.ineqlin.marginals, found.eqlin.marginals
    return float(found.fun), found.x, dual
