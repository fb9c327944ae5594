"""Going down a penalised minus log-likelihood: how far to step, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.problem import Point, Problem

__all__ = ["Descent", "Direction", "Progress", "descend"]

Floats: TypeAlias = NDArray[np.float64]

# Where a value changes by a smaller share of its terms, its rounding may hide which way it goes.
_FLAT = 1e-10

# A minimum is one where no linear predictor wants to move by more than the first share of itself,
# and where none has moved by more than the second since the minimum was as near as the third.
_STILL, _STAYED, _NEARLY = 1e-3, 0.1, 1e-4

# A fit runs away where, so near what should be the minimum, steps stay this long, and none of some
# steps in a row leaves less than this share of the distance.
_NEAR, _LONG, _SLOW, _ROW = 3e-3, 3e-2, 0.3, 3


@dataclass(frozen=True)
class Progress:
    """One iteration, for those who want to watch.

    Attributes
    ----------
    iteration : int
        From 0, the start.
    value : float
        Minus the penalised log-likelihood.
    decrement : float
        How far the minimum is, in standard errors.
    step : float
        What part of the last step was taken.
    """

    iteration: int
    value: float
    decrement: float
    step: float


class Direction(Protocol):
    """A way to choose steps.

    Attributes
    ----------
    patience : int
        In how many steps the decrement may fail to fall before that is put down to rounding.
    """

    patience: int

    def step(self, point: Point, gradient: Floats) -> Floats:
        """Return the step to take from a point."""

    def solve(self, point: Point, gradient: Floats) -> Floats:
        """Return the inverse of the curvature at the point last stepped from, times a vector."""

    def retreat(self) -> bool:
        """Take note that the last step led nowhere; return whether there is another way."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    point: Point
    n_iter: int
    converged: bool
    decrement: float


def descend(
    problem: Problem,
    point: Point,
    direction: Direction,
    *,
    max_iter: int,
    tol: float,
    callback: Callable[[Progress], None] | None,
) -> Descent:
    """Step down until the Newton decrement is at most tol, or nothing more can be gained."""
    n_iter, taken, best, stalled, away = 0, 1.0, math.inf, 0, 0
    before, told = math.inf, -1
    mark: Floats | None = None
    while True:
        gradient = problem.gradient(point)
        step = direction.step(point, gradient)
        down = float(gradient @ step)
        decrement = math.sqrt(max(-down, 0.0)) / problem.unit
        if callback is not None and n_iter > told:
            callback(Progress(n_iter, point.total, decrement, taken))
            told = n_iter
        move = problem.design.eta(step)
        if decrement > 100.0 * _NEARLY:
            mark = None
        elif decrement <= _NEARLY and mark is None:
            mark = point.coef
        if decrement <= tol:
            settled = _is_settled(problem, point, move, mark)
            return Descent(point, n_iter, settled, decrement)
        slow = _SLOW * before < decrement < _NEAR and not problem.ridge.any()
        if slow and (problem.is_straight(point) or not _is_still(problem, point, move, _LONG)):
            away += 1
        else:
            away = 0
        before = decrement
        flat = -down <= _FLAT * problem.magnitude(point)
        stalled = stalled + 1 if flat and decrement > 0.9 * best else 0
        best = min(best, decrement)
        if stalled == direction.patience:
            if flat and _is_rounding(problem, point, direction, down):
                settled = _is_settled(problem, point, move, mark)
                return Descent(point, n_iter, settled, decrement)
            stalled = 0
        if n_iter >= max_iter or away >= _ROW or not math.isfinite(decrement):
            return Descent(point, n_iter, converged=False, decrement=decrement)
        point.total  # noqa: B018  known before the state that it is made of goes
        point.forget()
        found = _Line.along(problem, point, step, move, down).search()
        if found is None:
            if direction.retreat():
                continue
            settled = flat and _is_rounding(problem, point, direction, down)
            settled = settled and _is_settled(problem, point, move, mark)
            return Descent(point, n_iter, settled, decrement)
        point, taken = found
        n_iter += 1


def _is_settled(problem: Problem, point: Point, move: Floats, mark: Floats | None) -> bool:
    """Tell a minimum from a likelihood that flattens out but never ends.

    That is what it does where the classes are separated: there is always a long way to go that
    gains next to nothing, and a long way has been gone that did.
    """
    if problem.is_straight(point) or not _is_still(problem, point, move, _STILL):
        return False
    if mark is None or mark is point.coef:
        return True
    return _is_still(problem, point, problem.design.eta(point.coef - mark), _STAYED)


def _is_still(problem: Problem, point: Point, move: Floats, share: float) -> bool:
    """Tell whether no linear predictor of a row that counts moves by more than a share."""
    far = np.abs(move) / (1.0 + np.abs(point.eta))
    weight = problem.likelihood.weight
    return bool(far.max(initial=0.0, where=True if weight is None else weight > 0.0) <= share)


def _is_rounding(problem: Problem, point: Point, direction: Direction, down: float) -> bool:
    """Tell whether what is left of a gradient is no more than its rounding."""
    diagonal = np.abs(problem.curvature(point, safe=True).diagonal)
    error = np.where(problem.free, problem.rounding(point, diagonal), 0.0)
    error[1::2] *= -1.0
    return -down <= 100.0 * float(error @ direction.solve(point, error))


@dataclass(frozen=True, eq=False)
class _Line:
    """The way along a step. It takes eta only, and X not again."""

    problem: Problem
    start: Point
    step: Floats
    move: Floats
    down: float
    pull: float
    bend: float

    @classmethod
    def along(
        cls, problem: Problem, start: Point, step: Floats, move: Floats, down: float
    ) -> _Line:
        """Prepare the way from a point."""
        pull = float(problem.pull(start.coef) @ step)
        return cls(problem, start, step, move, down, pull, float(problem.pull(step) @ step))

    def at(self, t: float) -> Point:
        """Return the point at a share of the step."""
        start = self.start
        return self.problem.point(start.coef + t * self.step, start.eta + t * self.move)

    def slope(self, t: float, point: Point) -> float:
        """Return how steep the way is there; at its start it is `down`."""
        return float(point.slope @ self.move) + self.pull + t * self.bend

    def search(self) -> tuple[Point, float] | None:
        """Find how far the step leads down."""
        if not self.down < 0.0:
            return None
        flat = _FLAT * self.problem.magnitude(self.start)
        t = 1.0
        for attempt in range(60):
            trial = self.at(t)
            rise = trial.total - self.start.total
            if math.isfinite(rise):
                if rise <= 1e-4 * t * self.down and np.isfinite(trial.slope).all():
                    return (trial, t) if attempt else self.stretched(trial)
                # Where the value can't tell, the slope can: for a parabola this is the condition
                # above.
                unclear = rise <= flat and -t * self.down <= flat
                if unclear and self.slope(t, trial) <= -0.8 * self.down:
                    return trial, t
                shorter = -0.5 * self.down * t * t / (rise - t * self.down)
                t = min(max(shorter, 0.1 * t), 0.5 * t)
            else:
                t *= 0.25
            if not attempt:
                # A start in a tail, where all is flat, can ask for steps beyond all measure.
                far = float(np.abs(self.move).max(initial=0.0))
                if not math.isfinite(far):
                    return None
                if t * far > 1e3:
                    t = 1e2 / far
        return None

    def stretched(self, trial: Point) -> tuple[Point, float]:
        """Lengthen a whole step that ends where it goes down nearly as steeply as at its start.

        So it is in a tail, where the curvature knows nothing of the way to go.
        """
        t = 1.0
        while t < 1e15 and self.slope(t, trial) < 0.5 * self.down:
            trial.forget()
            longer = self.at(2.0 * t)
            if not (longer.total < trial.total and np.isfinite(longer.slope).all()):
                break
            t, trial = 2.0 * t, longer
        return trial, t
