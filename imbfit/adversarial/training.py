r"""Minimise a convex loss with kinks and a ridge, to a certified gap.

.. math:: F(w) = R(w) + \tfrac12 \sum_i \lambda_i w_i^2

L-BFGS goes far, since the kinks of a loss over many rows are small; every evaluation leaves a
tangent, and the tangents' bound (see `tangents`) certifies how far is left. Where it stalls, the
minimiser of the tangents' maximum is tried, with a line search between it and the best point.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from imbfit.adversarial.tangents import Tangents

__all__ = ["Loss", "Progress", "Trained", "train"]

Floats: TypeAlias = NDArray[np.float64]


class Loss(Protocol):
    """A convex function that may be known between bounds only."""

    def __call__(self, w: Floats) -> tuple[float, float, Floats]:
        """Return an upper bound, a lower bound, and the slope of a tangent through the latter.

        The tangent is nowhere above the loss. The bounds are equal where it is solved exactly.
        """
        ...

    def sharpen(self, gap: float) -> bool:
        """Keep the bounds this close from now on; tell whether that can be done."""
        ...


# L-BFGS is asked for its certificate every so many steps, and stops where a step gains this little.
_LOOK_EVERY = 10
_STALLED = 1e-8
# It has stalled, and leaves to the tangents, where so many looks closed less than half of the gap.
_LOOKS, _CLOSING = 2, 0.5
# The bounds of a loss may leave open this share of the gap, where they can be sharpened. Where they
# can't, training ends once so many looks closed less than a tenth of it.
_SHARPER = 0.2
_BLUNT_LOOKS, _BLUNT_CLOSING = 8, 0.9
_MEMORY = 20
# Between the best point and the minimiser of the tangents' maximum.
_SHARES = (0.3, 0.1, 0.03, 0.01)
# A gap relative to a loss of nearly 0 would never close.
SMALLEST_LOSS = 1e-5
# A bound above the objective by more than this share of it has no digits.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Progress:
    """Where the training stood.

    Attributes
    ----------
    evaluations : int
        Games solved so far.
    objective : float
        The least F found.
    bound : float
        No coefficients have an F below.
    """

    evaluations: int
    objective: float
    bound: float

    @property
    def sound(self) -> bool:
        """Whether the bound is one, but for rounding."""
        unit = max(abs(self.objective), SMALLEST_LOSS)
        return self.bound - self.objective <= _ROUNDING * unit

    @property
    def gap(self) -> float:
        """Relative gap; infinite where the bound is none."""
        if not self.sound:
            return float("inf")
        return max(self.objective - self.bound, 0.0) / max(abs(self.objective), SMALLEST_LOSS)


@dataclass(frozen=True)
class Trained:
    """What came out.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
        The best coefficients found.
    history : list of Progress
        The last entry is the end.
    iterations : int
        Steps of both methods.
    converged : bool
        Whether the gap reached the tolerance.
    settled : bool
        Whether it ended at a larger gap, which the bounds of the loss or rounding leave open.
    """

    coef: Floats
    history: list[Progress]
    iterations: int
    converged: bool
    settled: bool


class _Stop(Exception):
    """Ends scipy's loop; no error."""


class _Run:
    """The best point, the tangents, and the history."""

    def __init__(self, loss: Loss, ridge: Floats, tol: float, tell: Callable[[str], None]) -> None:
        self.loss, self.ridge, self.tol, self.tell = loss, ridge, tol, tell
        self.tangents = Tangents(ridge)
        self.best, self.objective = np.zeros(len(ridge)), np.inf
        self.evaluations = 0
        self.blunt = False
        self.history: list[Progress] = []

    def __call__(self, w: Floats) -> tuple[float, Floats]:
        upper, lower, slope = self.loss(w)
        self.evaluations += 1
        self.tangents.add(slope, lower - float(slope @ w))
        penalty = 0.5 * float(w @ (self.ridge * w))
        if upper + penalty < self.objective:
            self.objective, self.best = upper + penalty, w.copy()
        return upper + penalty, slope + self.ridge * w

    def look(self) -> bool:
        """Take stock; tell whether the gap is small enough."""
        goal = self.tol * max(abs(self.objective), SMALLEST_LOSS)
        bound = self.tangents.improve(0.01 * goal)
        self.history.append(Progress(self.evaluations, self.objective, bound))
        now = self.history[-1]
        self.tell(f"{now.evaluations} games: objective {now.objective:.8g}, gap {now.gap:.2g}")
        # what the bounds of a game leave open should be a small part of what is left to gain
        self.blunt = not self.loss.sharpen(_SHARPER * max(self.objective - bound, 0.0))
        return now.gap <= self.tol

    def settled(self) -> bool:
        """Tell whether the gap stays, since the loss is not known any better."""
        gaps = [entry.gap for entry in self.history[-1 - _BLUNT_LOOKS :]]
        return self.blunt and len(gaps) > _BLUNT_LOOKS and gaps[-1] > _BLUNT_CLOSING * gaps[0]

    def stalls(self) -> bool:
        """Tell whether the gap has hardly closed of late."""
        gaps = [entry.gap for entry in self.history[-1 - _LOOKS :]]
        return len(gaps) > _LOOKS and gaps[-1] > _CLOSING * gaps[0]


def train(
    loss: Loss,
    *,
    ridge: Floats,
    start: Floats,
    tol: float,
    max_iter: int,
    tell: Callable[[str], None],
) -> Trained:
    """Find the coefficients of least loss and ridge.

    Parameters
    ----------
    loss : callable
        See `Loss`.
    ridge : ndarray of shape (n_coef,)
        The lambda_i, above 0.
    start : ndarray of shape (n_coef,)
        Where to begin.
    tol : float
        Relative gap at which to stop.
    max_iter : int
        Steps of both methods together.
    tell : callable
        Gets a line now and then.

    Returns
    -------
    Trained
    """
    run = _Run(loss, ridge, tol, tell)
    steps = _descend(run, start, max_iter)
    seen = bool(run.history) and run.history[-1].evaluations == run.evaluations
    done = run.history[-1].gap <= tol if seen else run.look()
    settled = False
    while not (done or settled) and steps < max_iter:
        _step(run)
        steps += 1
        done = run.look()
        settled = not done and (run.settled() or not run.history[-1].sound)
    return Trained(run.best, run.history, max(steps, 1), done, settled)


def _descend(run: _Run, start: Floats, max_iter: int) -> int:
    """Go by L-BFGS until it is done or stalls; return its steps."""
    steps = 0

    def after(_: Floats) -> None:
        nonlocal steps
        steps += 1
        if steps % _LOOK_EVERY == 0 and (run.look() or run.stalls()):
            raise _Stop

    options = {"maxiter": max_iter, "maxcor": _MEMORY, "ftol": _STALLED * min(1.0, run.tol * 1e4)}
    with contextlib.suppress(_Stop):
        minimize(run, start, jac=True, method="L-BFGS-B", callback=after, options=options)
    return steps


def _step(run: _Run) -> None:
    """Try the minimiser of the tangents' maximum, and points between it and the best one."""
    base, before = run.best, run.objective
    away = run.tangents.minimiser() - base
    if run(base + away)[0] < before:
        return
    for share in _SHARES:
        objective, slope = run(base + share * away)
        if objective < before or slope @ away < 0.0:
            return
