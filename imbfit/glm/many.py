"""Steps for many columns: no matrix has a side as long as the coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.likelihoods import Curvature
from imbfit.glm.problem import Point, Problem

__all__ = ["Lbfgs", "NewtonCG", "two_loop"]

Floats: TypeAlias = NDArray[np.float64]

_PAIRS, _FEW_PAIRS = 10, 3
_MOST_PRODUCTS = 1_000

# Curvature that is smaller than this, relative to the diagonal, is rounding.
_FLAT = 1e-14


def two_loop(
    gradient: Floats, pairs: list[tuple[Floats, Floats]], base: Callable[[Floats], Floats]
) -> Floats:
    """Return the inverse Hessian times a vector, corrected so that it maps each y to its s."""
    rest = gradient.copy()
    weights = []
    for s, y in reversed(pairs):
        weight = float(s @ rest) / float(s @ y)
        weights.append(weight)
        rest -= weight * y
    out = base(rest)
    for (s, y), weight in zip(pairs, reversed(weights), strict=True):
        out += (weight - float(y @ out) / float(s @ y)) * s
    return out


class _Bend:
    """Second derivatives in the coefficients at a point, as products and as their diagonal."""

    def __init__(self, problem: Problem, curvature: Curvature) -> None:
        self._problem = problem
        self._diagonal = curvature.diagonal
        design = problem.design
        self._ties = [(design.back(vector), factor) for vector, factor in curvature.rank_one]
        diagonal = design.squares(curvature.diagonal) + problem.ridge
        for tie, factor in self._ties:
            diagonal += factor * tie * tie
        self._hollow = bool((diagonal[problem.free] < 0.0).any())
        free = self._free = problem.free & (diagonal > 0.0)
        self._inverse = np.where(free, 1.0 / np.where(free, diagonal, 1.0), 0.0)
        # The intercept ties all columns with a mean together. Eliminating it leaves their variances
        # on the diagonal.
        self._tie: Floats | None = None
        # vectors and factors of what is added to products
        self._changes: list[tuple[Floats, float]] = []
        if design.intercept and free[0]:
            first = np.zeros(design.n_coef)
            first[0] = 1.0
            tie = self.times(first) * self._inverse[0]
            rest = diagonal - tie**2 * diagonal[0]
            tied = free & (rest > 1e-12 * diagonal)
            tied[0] = False
            self._inverse[tied] = 1.0 / rest[tied]
            self._tie = np.where(tied, tie, 0.0)

    def times(self, v: Floats) -> Floats:
        """Return the product with a vector."""
        design = self._problem.design
        out = design.back(self._diagonal * design.eta(v)) + self._problem.pull(v)
        for tie, factor in self._ties:
            out += factor * float(tie @ v) * tie
        return np.where(self._problem.free, out, 0.0)

    def eased(self, g: Floats) -> Floats:
        """Return roughly the inverse times a vector."""
        if self._tie is None:
            return np.asarray(self._inverse * g)
        v: Floats = self._inverse * (g - self._tie * g[0])
        v[0] = self._inverse[0] * g[0] - float(self._tie @ v)
        return v

    def size(self, v: Floats) -> float:
        """Return the square of a vector's length by the inverse of `eased`."""
        u = v.copy()
        if self._tie is not None:
            u[0] += float(self._tie @ v)
        return float(np.sum(u[self._free] ** 2 / self._inverse[self._free]))

    def correct(self, pairs: list[tuple[Floats, Floats]]) -> None:
        """Change the products so that they map each step to what the gradient changed by."""
        for s, beyond in pairs:
            plain = self.times(s)
            mapped, y = self.corrected(s, plain), plain + beyond
            if float(s @ y) > 0.1 * float(s @ mapped) > 0.0:
                self._changes.append((y, 1.0 / float(s @ y)))
                self._changes.append((mapped, -1.0 / float(s @ mapped)))

    def corrected(self, v: Floats, product: Floats) -> Floats:
        """Return the changed product with a vector, from the one without changes."""
        for vector, factor in self._changes:
            product = product + factor * float(vector @ v) * vector
        return product

    def solve(self, g: Floats, share: float) -> tuple[Floats, Floats, bool]:
        """Solve by conjugate gradients until a share of g is left.

        Also return the product with what is found, without the changes, and False if not convex.
        """
        v, product = np.zeros_like(g), np.zeros_like(g)
        rest, eased = g, self.eased(g)
        if self._hollow:
            return eased, product, False
        way = eased
        left = start = float(g @ eased)
        for _ in range(min(2 * len(g) + 10, _MOST_PRODUCTS)):
            if left <= share * share * start:
                break
            plain = self.times(way)
            pushed = self.corrected(way, plain)
            bend, flat = float(way @ pushed), _FLAT * self.size(way)
            if not bend > flat:
                # what is left of g this way is rounding, or the way is one that leads down for ever
                return (v if v.any() else eased), product, bend >= -flat
            v += left / bend * way
            product += left / bend * plain
            rest = rest - left / bend * pushed
            eased = self.eased(rest)
            before, left = left, float(rest @ eased)
            way = eased + left / before * way
        return v, product, True


def _bend(problem: Problem, point: Point, *, safe: bool) -> _Bend:
    curvature = problem.curvature(point, safe=safe)
    point.forget()
    return _Bend(problem, curvature)


class NewtonCG:
    """Newton steps by conjugate gradients, the more precise the nearer the minimum is.

    Like those of `fisher`, they learn from the last gradients where the expected curvature is not
    the observed one.
    """

    patience = 4

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._safe = False
        self._bend: _Bend | None = None
        # steps, and by how much the gradients changed beyond what was foretold
        self._pairs: list[tuple[Floats, Floats]] = []
        # coefficients last stepped from, their gradient, the step, and what it should change
        self._last: tuple[Floats, Floats, Floats, Floats] | None = None

    def step(self, point: Point, gradient: Floats) -> Floats:
        """Return the step to take from a point."""
        bend = _bend(self._problem, point, safe=self._safe)
        self._learn(point, gradient, bend)
        far = math.sqrt(max(float(gradient @ bend.eased(gradient)), 0.0)) / self._problem.unit
        share = min(0.1, max(far, 1e-4))
        found, foretold, convex = bend.solve(gradient, share)
        if not convex and not self._safe:
            bend = _bend(self._problem, point, safe=True)
            found, foretold, _ = bend.solve(gradient, share)
        self._bend = bend
        self._last = (point.coef, gradient, -found, -foretold)
        return -found

    def _learn(self, point: Point, gradient: Floats, bend: _Bend) -> None:
        """Compare the change of the gradient with the mean of what both curvatures foretell."""
        if self._last is not None and self._last[0] is not point.coef:
            coef, before, step, foretold = self._last
            s = point.coef - coef
            taken = float(s @ step) / float(step @ step)
            change = bend.times(s) - taken * foretold
            beyond = gradient - before - taken * foretold - 0.5 * change
            size = float(s @ (taken * foretold + change))  # by the new curvature
            unknown, changed = (float(x @ bend.eased(x)) for x in (beyond, change))
            if size > 0.0 and unknown * size > changed**2:
                self._pairs = [*self._pairs[1 - _FEW_PAIRS :], (s, beyond)]
        bend.correct(self._pairs)

    def solve(self, point: Point, gradient: Floats) -> Floats:
        """Return the inverse of the curvature at the point last stepped from, times a vector."""
        assert self._bend is not None
        return self._bend.solve(gradient, 1e-3)[0]

    def retreat(self) -> bool:
        """Take note that the last step led nowhere; return whether there is another way."""
        again = not self._safe or bool(self._pairs)
        self._safe, self._pairs, self._last = True, [], None
        return again


class Lbfgs:
    """Steps from the last differences of gradients, and from the diagonal of the curvature."""

    patience = 20

    def __init__(self, problem: Problem, tol: float) -> None:
        self._problem = problem
        self._least = tol * problem.unit
        self._pairs: list[tuple[Floats, Floats]] = []
        self._last: tuple[Floats, Floats] | None = None
        self._bend: _Bend | None = None
        self._steps = 0
        self._lost = False

    def step(self, point: Point, gradient: Floats) -> Floats:
        """Return the step to take from a point."""
        if self._last is not None and self._last[0] is not point.coef:
            s, y = point.coef - self._last[0], gradient - self._last[1]
            if float(s @ y) > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
                self._pairs = [*self._pairs[1 - _PAIRS :], (s, y)]
            self._lost = False
        self._last = (point.coef, gradient)
        # the diagonal changes fast in the first steps, and hardly later
        if self._bend is None or self._steps & (self._steps - 1) == 0:
            self._bend = _bend(self._problem, point, safe=True)
        self._steps += 1
        found = self.solve(point, gradient)
        if self._lost or float(found @ gradient) <= self._least**2:
            # Differences of gradients may know nothing of a flat direction. Only a solved system
            # tells how far the minimum is.
            self._bend = _bend(self._problem, point, safe=True)
            found = self._bend.solve(gradient, 1e-3)[0]
        elif not self._pairs:
            bend = float(found @ self._bend.times(found))
            if bend > 0.0:
                found *= float(found @ gradient) / bend
        return -found

    def solve(self, point: Point, gradient: Floats) -> Floats:
        """Return the inverse of the curvature at the point last stepped from, times a vector."""
        assert self._bend is not None
        bend, ratio = self._bend, 1.0
        if self._pairs:
            s, y = self._pairs[-1]
            ratio = float(s @ y) / float(y @ bend.eased(y))
        return two_loop(gradient, self._pairs, lambda g: ratio * bend.eased(g))

    def retreat(self) -> bool:
        """Take note that the last step led nowhere; return whether there is another way."""
        if self._lost:
            return False
        # first without the pairs, then as Newton steps
        self._lost = not self._pairs
        self._pairs, self._bend = [], None
        return True
