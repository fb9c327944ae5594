"""Maximum likelihood: Newton and Fisher steps, and a common entrance for all solvers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from imbfit.glm.basis import Basis
from imbfit.glm.descent import Descent, Progress, descend
from imbfit.glm.design import Design
from imbfit.glm.fisher import Newton
from imbfit.glm.likelihoods import Likelihood, State
from imbfit.glm.many import Lbfgs, NewtonCG
from imbfit.glm.problem import Point, Problem
from imbfit.glm.rank import WEAK, Rank, examine

__all__ = ["Progress", "Solution", "minimize"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a descent ended.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
        Coefficients of Z; aliased ones are 0.
    state : State
        The likelihood's, at `eta`.
    eta : ndarray of shape (n_rows,)
        Linear predictor, with the offset.
    value : float
        Minus the log-likelihood, without the ridge.
    n_iter : int
        Steps taken.
    converged : bool
        Whether this is a minimum: the decrement is at most tol, or what is left is rounding, and no
        linear predictor wants to move by more than a thousandth of itself.
    decrement : float
        sqrt(g' H^-1 g): how far the minimum is, in standard errors (for sample weights, in those of
        rows of a mean weight).
    aliased : ndarray of bool, shape (n_coef,)
        Columns that are combinations of those before them.
    dependent_on : dict of int to tuple of int
        For each of these, the columns of which; places are among the coefficients.
    condition : float
        Of the Hessian scaled to a diagonal of 1 (in the 1-norm, estimated), aliased columns left
        out; NaN for solvers that make none.
    solver : {"newton", "lbfgs", "newton-cg"}
        What made the steps.
    """

    coef: Floats
    state: State
    eta: Floats
    value: float
    n_iter: int
    converged: bool
    decrement: float
    aliased: Bools
    condition: float
    solver: str = "newton"
    dependent_on: dict[int, tuple[int, ...]] = field(default_factory=dict)


def minimize(
    likelihood: Likelihood,
    design: Design,
    *,
    start: ArrayLike,
    offset: ArrayLike = 0.0,
    ridge: ArrayLike | None = None,
    solver: str = "newton",
    max_iter: int = 100,
    tol: float = 1e-8,
    callback: Callable[[Progress], None] | None = None,
) -> Solution:
    """Minimise likelihood.value(Z w + offset) + sum(ridge * w^2) / 2.

    Parameters
    ----------
    likelihood : Likelihood
        A minus log-likelihood of the rows.
    design : Design
        Their columns.
    start : array-like of shape (n_coef,)
        Coefficients to start from.
    offset : float or array-like of shape (n_rows,), default=0.0
        Part of the linear predictor that is not fitted.
    ridge : array-like of shape (n_coef,), default=None
        The penalty's second derivatives; None for no penalty.
    solver : {"newton", "lbfgs", "newton-cg"}, default="newton"
        "newton" makes a matrix of n_coef x n_coef, and tells which columns depend on others. The
        other two make no such matrix. Where columns are dependent and there is no ridge, they find
        one of many minima.
    max_iter : int, default=100
        Most steps.
    tol : float, default=1e-8
        How far from the minimum one may end, in standard errors.
    callback : callable, default=None
        Called with a `Progress` in each iteration.

    Returns
    -------
    Solution

    Raises
    ------
    ValueError
        If the solver is unknown, a length is wrong, a number is not finite, a column's squares
        overflow, or the likelihood is zero wherever one could start.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.design import Design
    >>> from imbfit.glm.likelihoods import METHODS, Rows
    >>> from imbfit.glm.built_in_links import LINKS
    >>> from imbfit.glm.newton import minimize
    >>> positive = np.array([True, False, False, True, False, False, False, True])
    >>> design = Design(np.array([[3.0], [0], [1], [2], [2], [0], [3], [3]]), intercept=True)
    >>> likelihood = METHODS["cmle"](Rows.uniform(positive, None, rate=0.1), LINKS["logit"])
    >>> minimize(likelihood, design, start=[0.0, 0.0]).coef.round(5).tolist()
    [-6.17652, 1.615]
    """
    if solver not in {"newton", "lbfgs", "newton-cg"}:
        raise ValueError(f"solver is {solver!r}; give 'newton', 'lbfgs' or 'newton-cg'")
    constant = np.ndim(offset) == 0
    problem = Problem(
        likelihood,
        design,
        ridge=_vector("ridge", np.zeros(design.n_coef) if ridge is None else ridge, design.n_coef),
        offset=float(np.asarray(offset)) if constant else _vector("offset", offset, design.n_rows),
        free=np.ones(design.n_coef, dtype=np.bool_),
    )
    coef = _vector("start", start, design.n_coef)
    # Infinities are met on the way and turned away from.
    with np.errstate(all="ignore"):
        point = _started(problem, coef)
        found = _SOLVERS[solver](problem, point, max_iter, tol, callback)
    end = found.descent
    return Solution(
        coef=found.problem.design.to_raw(end.point.coef),
        state=end.point.state,
        eta=end.point.eta,
        value=end.point.value,
        n_iter=end.n_iter,
        converged=end.converged,
        decrement=end.decrement,
        aliased=~found.problem.free,
        condition=found.condition,
        solver=solver,
        dependent_on=found.dependent_on,
    )


def _vector(name: str, values: ArrayLike, length: int) -> Floats:
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(f"{name} has shape {vector.shape}; it needs shape ({length},)")
    if not np.isfinite(vector).all():
        at = int(np.argmin(np.isfinite(vector)))
        raise ValueError(f"{name} is {vector[at]} at {at}; it must be finite")
    return vector


def _started(problem: Problem, coef: Floats) -> Point:
    """Return the start, drawn towards 0 if that is impossible."""
    for _ in range(60):
        point = problem.point(coef)
        if math.isfinite(point.total) and np.abs(point.slope).max(initial=0.0) < 1e100:
            return point
        if not coef.any():
            break
        coef = 0.5 * coef if np.abs(coef).max() > 1e-3 else np.zeros_like(coef)
    raise ValueError(
        "with all coefficients at 0 the log-likelihood is not finite; the offset is too large, so "
        "rescale it"
    )


@dataclass(frozen=True, eq=False)
class _Found:
    descent: Descent
    problem: Problem
    condition: float = math.nan
    dependent_on: dict[int, tuple[int, ...]] = field(default_factory=dict)


_Watch: TypeAlias = Callable[[Progress], None] | None


def _by_newton(problem: Problem, point: Point, max_iter: int, tol: float, watch: _Watch) -> _Found:
    direction = Newton(problem)
    dependent_on: dict[int, tuple[int, ...]] = {}
    if direction.refresh(point) < WEAK:
        rank = examine(problem.design, problem.likelihood.weight, problem.ridge)
        dependent_on = rank.dependent_on
        if rank.basis is not None or rank.aliased.any():
            problem, point = _changed(problem, point, rank)
            direction = Newton(problem)
    end = descend(problem, point, direction, max_iter=max_iter, tol=tol, callback=watch)
    return _Found(end, problem, direction.condition, dependent_on)


def _by_many(solver: str) -> Callable[[Problem, Point, int, float, _Watch], _Found]:
    def solve(problem: Problem, point: Point, max_iter: int, tol: float, watch: _Watch) -> _Found:
        basis = _large_means(problem)
        if basis is not None:
            design = problem.design.in_basis(basis)
            coef = design.from_raw(point.coef)
            problem = replace(problem, design=design)
            point = problem.point(coef)
        direction = NewtonCG(problem) if solver == "newton-cg" else Lbfgs(problem, tol)
        end = descend(problem, point, direction, max_iter=max_iter, tol=tol, callback=watch)
        return _Found(end, problem)

    return solve


_SOLVERS = {
    "newton": _by_newton,
    "lbfgs": _by_many("lbfgs"),
    "newton-cg": _by_many("newton-cg"),
}


def _large_means(problem: Problem) -> Basis | None:
    """Return centred coordinates for dense columns, if they spare the products many digits."""
    design = problem.design
    if design.sparse or not design.intercept:
        return None
    rows = max(design.n_rows, 1)
    squares = design.squares(np.ones(design.n_rows)) / rows
    large = design.mean() ** 2 > (1.0 - 1e-4) * squares
    large[0] = False
    return design.centred() if large.any() else None


def _changed(problem: Problem, point: Point, rank: Rank) -> tuple[Problem, Point]:
    """Return the same place without aliased columns, in the coordinates of a basis."""
    coef = point.coef.copy()
    for j, unit in rank.units.items():
        coef -= coef[j] * unit
        coef[j] = 0.0
    design = problem.design.in_basis(rank.basis)
    problem = replace(problem, design=design, free=~rank.aliased)
    return problem, problem.point(design.from_raw(coef))
