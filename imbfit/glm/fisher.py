"""Newton and Fisher steps by Cholesky, for columns few enough for a matrix of their products."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from imbfit.glm.many import two_loop
from imbfit.glm.problem import Point, Problem

__all__ = ["Newton"]

Floats: TypeAlias = NDArray[np.float64]

# Steps are made with an old Hessian as long as each one leaves at most this share of the distance.
_QUICK = 0.05
_PAIRS = 5


class Newton:
    """Newton or Fisher steps by Cholesky.

    The Hessian is scaled to a diagonal of 1, so units of columns do not matter. It is not made anew
    while old ones lead quickly down, and it is corrected by what the last gradients differed from
    what it foretold: where it is the expected and not the observed one, that makes slow convergence
    quick, and where it is the right one, it changes nothing to first order.
    """

    patience = 4

    def __init__(self, problem: Problem) -> None:
        self.condition = math.nan
        self._problem = problem
        self._safe = False
        self._hessian: Floats | None = None
        # coefficients that the Hessian is of; those last stepped from, their gradient and distance
        self._of: Floats | None = None
        self._last: tuple[Floats, Floats, float] | None = None
        # steps, and by how much the gradients changed beyond what was foretold
        self._pairs: list[tuple[Floats, Floats]] = []
        # how many of them were foretold by the Hessian at their start alone, which is still in use
        self._half_known = 0

    def refresh(self, point: Point) -> float:
        """Make the Hessian at a point; return the least share of a column left by those before."""
        before = self._hessian
        weakest = 0.0
        for safe in (True,) if self._safe else (False, True):
            weakest = self._factorise(self._made(point, safe=safe))
            if weakest > 0.0:
                break
        self._of = point.coef
        if self._half_known and before is not None and self._hessian is not None:
            # The mean of the Hessians at both ends foretells a step up to the square of their
            # difference. More than that is due to an expected Hessian in place of the observed one.
            # Of steps between those ends nothing is known.
            known = len(self._pairs) - self._half_known
            s, beyond = self._pairs[known]
            change = self._hessian @ s - before @ s
            beyond = beyond - 0.5 * change
            unknown, changed = self._length(beyond), self._length(change)
            del self._pairs[known:]
            if unknown * math.sqrt(max(float(s @ self._hessian @ s), 0.0)) > changed**2:
                self._pairs.append((s, beyond))
        self._half_known = 0
        return weakest

    def step(self, point: Point, gradient: Floats) -> Floats:
        """Return the step to take from a point."""
        if self._hessian is None:
            self.refresh(point)
        elif self._last is not None and self._last[0] is not point.coef:
            last, last_gradient, distance = self._last
            s = point.coef - last
            beyond = gradient - last_gradient - self._hessian @ s
            self._pairs = [*self._pairs[1 - _PAIRS :], (s, beyond)]
            self._half_known = min(self._half_known + 1, _PAIRS)
            if not self._length(gradient) <= _QUICK * distance:
                self.refresh(point)
        found = self.solve(point, gradient)
        self._last = (point.coef, gradient, math.sqrt(max(float(gradient @ found), 0.0)))
        return -found

    def solve(self, point: Point, gradient: Floats) -> Floats:
        """Return the inverse of the curvature at the point last stepped from, times a vector."""
        assert self._hessian is not None
        pairs = []
        for s, beyond in self._pairs:
            foretold = self._hessian @ s
            if float(s @ beyond) > -0.9 * float(s @ foretold):
                pairs.append((s, foretold + beyond))
        return two_loop(gradient, pairs, self._newton)

    def retreat(self) -> bool:
        """Take note that the last step led nowhere; return whether there is another way."""
        fresh = self._last is not None and self._of is self._last[0]
        if fresh and self._safe and not self._pairs:
            return False
        self._hessian, self._safe = None, True
        self._pairs, self._half_known = [], 0
        return True

    def _made(self, point: Point, *, safe: bool) -> Floats:
        design, ridge = self._problem.design, self._problem.ridge
        curvature = self._problem.curvature(point, safe=safe)
        hessian = design.gram(curvature.diagonal)
        for vector, factor in curvature.rank_one:
            tie = design.back(vector)
            hessian += factor * np.outer(tie, tie)
        if design.basis is None:
            hessian[np.diag_indices_from(hessian)] += ridge
        elif ridge.any():
            raw = design.to_raw(np.eye(design.n_coef))
            hessian += design.slope_from_raw(ridge[:, None] * raw)
        return hessian

    def _factorise(self, hessian: Floats) -> float:
        diagonal = np.diag(hessian)
        if not np.isfinite(diagonal).all():
            at = int(np.argmin(np.isfinite(diagonal))) - int(self._problem.design.intercept)
            raise ValueError(f"the squares of column {at} overflow; divide it by its size")
        if (diagonal[self._problem.free] < 0.0).any():
            return 0.0
        used = self._problem.free & (diagonal > 0.0)
        self._scale = np.where(used, 1.0 / np.sqrt(np.where(used, diagonal, 1.0)), 0.0)
        scaled = self._scale[:, None] * hessian * self._scale
        scaled[np.diag_indices_from(scaled)] = 1.0
        self._hessian = hessian
        norm = float(np.abs(scaled).sum(axis=0).max(initial=0.0))
        damping = 1e-14
        factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
        if not failed:
            share, _ = scipy.linalg.lapack.dpocon(factor, norm, uplo="L")
            self._factor = factor
            self.condition = 1.0 / share if share > 0.0 else math.inf
            return float(np.diag(factor).min(initial=1.0)) ** 2
        self.condition = math.inf
        while failed:
            scaled[np.diag_indices_from(scaled)] = 1.0 + damping * len(scaled)
            factor, failed = scipy.linalg.lapack.dpotrf(scaled, lower=1)
            damping *= 100.0
        self._factor = factor
        return 0.0

    def _length(self, gradient: Floats) -> float:
        return math.sqrt(max(float(gradient @ self._newton(gradient)), 0.0))

    def _newton(self, gradient: Floats) -> Floats:
        solved, _ = scipy.linalg.lapack.dpotrs(self._factor, self._scale * gradient, lower=1)
        return np.asarray(self._scale * solved)
