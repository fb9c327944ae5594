"""Rows, and what solves the games on them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.game import Game
from imbfit.adversarial.observed import ObservedGame, observed_game, value_and_marginals
from imbfit.adversarial.payoff import Payoff
from imbfit.adversarial.solution import Solution
from imbfit.adversarial.solving import MOST_EXACT_ROWS, Solver, solver_for
from imbfit.exceptions import UnsupportedMetric

__all__ = ["Play", "Players", "Rows"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# A game that is solved in rounds starts with this gap, relative to the payoff's range.
_COARSE = 1e-2
# On blocks of rows a smaller gap takes too long to train with.
_BLOCKS_GAP = {"observed": 1e-4, "expected": 2e-3}
# With the expected count a game goes on from the nearest of so many before it, unless its scores
# differ by more than this share of their spread: training leaps, and a game far away is a burden by
# its many sizes. With the observed one it goes on from the last, whose blocks are the finest.
_REMEMBERED, _NEAR = {"observed": 1, "expected": 10}, 0.2


@dataclass(frozen=True)
class Rows:
    """Rows and their labels.

    Attributes
    ----------
    X : ndarray or sparse matrix of shape (n_rows, n_columns)
        Features.
    positive : ndarray of bool, shape (n_rows,)
        Labels.
    weight : ndarray of shape (n_rows,) or None
        How often each row counts.
    """

    X: Any
    positive: Bools
    weight: Floats | None

    def some(self, which: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[which]
        return Rows(self.X[which], self.positive[which], weight)

    def counted(self) -> Rows:
        """Return the rows of a weight above 0."""
        if self.weight is None or (self.weight > 0.0).all():
            return self
        return self.some(np.flatnonzero(self.weight > 0.0))

    def scaled(self, factor: float) -> Rows:
        """Return the rows with all weights multiplied."""
        weight = np.ones(len(self.positive)) if self.weight is None else self.weight
        return Rows(self.X, self.positive, factor * weight)

    @property
    def total(self) -> float:
        """Summed weights."""
        return float(len(self.positive)) if self.weight is None else float(self.weight.sum())

    @property
    def positives(self) -> float:
        """Summed weights of positives."""
        if self.weight is None:
            return float(np.count_nonzero(self.positive))
        return float(self.weight[self.positive].sum())


class Play(Protocol):
    """Solves one game for any scores.

    Attributes
    ----------
    exact : bool
        Whether it is solved in closed form, by the numbers of rows and positives alone where rows
        have no weights, and with no memory of earlier scores.
    """

    exact: bool

    def __call__(self, psi: Floats) -> tuple[float, float, Floats]:
        """Return a lower and an upper bound of V, and the q that has the upper one."""
        ...

    def sharpen(self, gap: float) -> bool:
        """Solve to this gap from now on, relative to the payoff's range; tell whether it can."""
        ...


class _Closed:
    """The closed form."""

    exact = True

    def __init__(self, game: ObservedGame) -> None:
        self.game = game

    def __call__(self, psi: Floats) -> tuple[float, float, Floats]:
        value, q = value_and_marginals(psi, self.game)
        return value, value, q

    def sharpen(self, gap: float) -> bool:
        return True


class _InRounds:
    """A solver that goes on from solutions for scores nearby."""

    exact = False

    def __init__(
        self, game: Game, solver: str, scale: float, *, coarsest: float, finest: float
    ) -> None:
        self.game, self.solver, self.scale = game, solver, scale
        if len(game.labels) > MOST_EXACT_ROWS:
            finest = max(finest, _BLOCKS_GAP[game.count])
        self.finest, self.gap = finest, max(coarsest, finest)
        weight = np.ones(len(game.labels)) if game.multiplicity is None else game.multiplicity
        self.positives = float(weight[game.labels].sum())
        self.ready: Solver = solver_for(game, solver=solver, tol=self.gap * scale)
        self.solved: deque[tuple[Floats, Solution]] = deque(maxlen=_REMEMBERED[game.count])

    def __call__(self, psi: Floats) -> tuple[float, float, Floats]:
        level = 0.0
        if self.game.count == "observed":
            # changes nothing but the value, whose size the solver's tolerance is relative to
            level = float(np.median(psi))
        psi = psi - level
        found = self.ready(psi, self._nearby(psi))
        self.solved.append((psi, found))
        paid = level * self.positives
        return found.lower - paid, found.upper - paid, found.q

    def _nearby(self, psi: Floats) -> Solution | None:
        if not self.solved:
            return None
        if self.game.count == "observed":
            return self.solved[-1][1]
        apart = [float(np.linalg.norm(psi - other)) for other, _ in self.solved]
        nearest = int(np.argmin(apart))
        far = _NEAR * float(np.linalg.norm(psi - psi.mean()))
        return self.solved[nearest][1] if apart[nearest] <= far else None

    def sharpen(self, gap: float) -> bool:
        wanted = max(gap, self.finest)
        if wanted < 0.5 * self.gap:
            self.gap = wanted
            self.ready = solver_for(self.game, solver=self.solver, tol=wanted * self.scale)
            # what blocks grew into for a coarse gap is no good beginning
            self.solved.clear()
        return gap >= self.finest


@dataclass(frozen=True)
class Players:
    """How games are solved.

    Attributes
    ----------
    payoff : Payoff
        Of the metric.
    requirements : tuple of Payoff
        Of the constraints.
    count : {"observed", "expected"}
        How many positives the adversary's labels have.
    solver : str
        As in the classifier.
    tol : float
        Gap of a game that is not solved in closed form, relative to the payoff's range.
    """

    payoff: Payoff
    requirements: tuple[Payoff, ...]
    count: str
    solver: str
    tol: float

    def on(self, rows: Rows, *, coarsest: float = 0.0) -> Play:
        """Return what solves the game on some rows.

        Parameters
        ----------
        rows : Rows
            Each of a weight above 0; X is not looked at.
        coarsest : float, default=0.0
            The gap to begin with, where it is larger than `tol`, until `sharpen` is called.

        Returns
        -------
        Play
        """
        if self.may_be_closed:
            try:
                return _Closed(
                    observed_game(self.payoff, len(rows.positive), rows.positives, rows.weight)
                )
            except UnsupportedMetric:
                if self.solver == "closed":
                    raise
        game = Game(self.payoff, self.requirements, self.count, rows.positive, rows.weight)
        scale = self.payoff.range(rows.positives, rows.total) or 1.0
        return _InRounds(game, self.solver, scale, coarsest=coarsest, finest=self.tol)

    @property
    def may_be_closed(self) -> bool:
        """Whether the closed form may apply."""
        observed = self.count == "observed" and not self.requirements
        return observed and self.solver in {"auto", "closed"}

    @property
    def keeps_scale(self) -> bool:
        """Whether a part of the rows has the metric and the constraints of them all."""
        return all(each.keeps_scale for each in (self.payoff, *self.requirements))

    @property
    def coarse(self) -> float:
        """A gap that is enough to begin training with."""
        return _COARSE
