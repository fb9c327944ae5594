"""The bounds of a game, and what reaches them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Adversary, Board, Predictor
from imbfit.adversarial.replies import best_sets

__all__ = ["Answers", "Bounds"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]


def _no_adversary() -> Adversary:
    return Adversary(np.zeros(0, np.intp), np.zeros(0), np.zeros((0, 0)), np.zeros(0))


def _no_predictor() -> Predictor:
    return Predictor(np.zeros(0, np.intp), np.zeros((0, 0)), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Answers:
    """What the best sets of all sizes get from what the other player does.

    Attributes
    ----------
    level, worth : ndarray of shape (n_sizes,) and (n_actual,)
        For the predictor's sizes and for the adversary's.
    paid : float
        What the adversary's marginals take from the predictor's level, whatever its size.
    """

    level: Floats
    worth: Floats
    paid: float

    @property
    def upper(self) -> float:
        """An upper bound of the value."""
        return float(self.level.max()) - self.paid

    @property
    def lower(self) -> float:
        """A lower bound."""
        return float(self.worth.min())

    def within(self, taken: Positions, actual: Positions) -> float:
        """Return the gap that is left if the players may choose among some sizes only."""
        return float(self.level[taken].max()) - self.paid - float(self.worth[actual].min())


@dataclass
class Bounds:
    """The best bounds so far, and what reaches them."""

    upper: float = np.inf
    lower: float = -np.inf
    q: Floats = field(default_factory=lambda: np.zeros(0))
    adversary: Adversary = field(default_factory=_no_adversary)
    predictor: Predictor = field(default_factory=_no_predictor)
    rounds: int = 0
    memory: Any = None

    def above(self, value: float, adversary: Adversary) -> None:
        """Take note of an upper bound."""
        if value < self.upper:
            self.upper, self.adversary = value, adversary

    def below(self, value: float, predictor: Predictor) -> None:
        """Take note of a lower bound."""
        if value > self.lower:
            self.lower, self.predictor = value, predictor

    def met(self, tol: float) -> bool:
        """Tell whether they are close."""
        gap = self.upper - self.lower
        return bool(np.isfinite(gap)) and gap <= tol * max(1.0, abs(self.upper))

    def answered(self, board: Board, adversary: Adversary, predictor: Predictor) -> Answers:
        """Answer both players with the best sets of all sizes, and take note of both bounds."""
        level, _, upper = board.best_reply(adversary)
        sure, each = board.cost(predictor)
        worth = sure - best_sets(-each, board.weight, board.actual).total
        self.above(upper, adversary)
        self.below(float(worth.min()), predictor)
        return Answers(level, worth, float(level.max()) - upper)
