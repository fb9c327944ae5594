"""A game in the order of the scores, and both players' best replies on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.replies import Best, best_sets

__all__ = ["Adversary", "Board", "Predictor"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Adversary:
    """What the adversary plays.

    Attributes
    ----------
    played : ndarray of int of shape (n_played,)
        Positions of its sizes.
    sizes : ndarray of shape (n_played,)
        Their probabilities.
    marginals : ndarray of shape (n_played, n_blocks)
        Probability of the size and of a row of the block being positive.
    alpha : ndarray of shape (n_requirements,)
        The price of each requirement, which is not the adversary's to choose in the game, but in
        its bound.
    """

    played: Positions
    sizes: Floats
    marginals: Floats
    alpha: Floats


@dataclass(frozen=True, eq=False)
class Predictor:
    """What the predictor plays.

    Attributes
    ----------
    size, member, mix : ndarray of shape (n_sets,), (n_sets, n_blocks), (n_sets,)
        Positions of the sets' sizes, the share of each block in them, their probabilities.
    """

    size: Positions
    member: Floats
    mix: Floats


@dataclass(frozen=True, eq=False)
class Board:
    """A game in the order of the scores: the blocks of a label are adjacent, best score first.

    Attributes
    ----------
    psi, weight : ndarray of shape (n_blocks,)
        Score of a row, and rows.
    parts : tuple of slice
        The blocks of each label, positives first; one part where labels play no role.
    taken, actual : ndarray of shape (n_sizes,) and (n_actual,)
        Sizes of the predictor and of the adversary.
    intercept, slope : ndarray of shape (n_sizes, n_actual)
        The payoff.
    slack, slack_slope : ndarray of shape (n_requirements, n_sizes)
        What a set leaves of each requirement: this and that times its observed positives.
    """

    psi: Floats
    weight: Floats
    parts: tuple[slice, ...]
    taken: Floats
    actual: Floats
    intercept: Floats
    slope: Floats
    slack: Floats
    slack_slope: Floats

    def slacks(self, size: Positions, member: Floats) -> Floats:
        """Return what sets leave of each requirement: (n_sets, n_requirements)."""
        positive = self.parts[0]
        hit = member[:, positive] @ self.weight[positive]
        return np.asarray((self.slack[:, size] + self.slack_slope[:, size] * hit).T)

    def best_reply(self, adversary: Adversary) -> tuple[Floats, Best, float]:
        """Answer the adversary.

        Returns
        -------
        level : ndarray of shape (n_sizes,)
            What the best set of each size gets, prices included.
        sets : Best
        upper : float
            So the value of the game is at most this.
        """
        played = adversary.played
        gain = self.slope[:, played] @ adversary.marginals
        level = self.intercept[:, played] @ adversary.sizes
        if len(adversary.alpha):
            gain[:, self.parts[0]] += (adversary.alpha @ self.slack_slope)[:, None]
            level = level + adversary.alpha @ self.slack
        sets = best_sets(gain, self.weight, self.taken)
        level = level + sets.total
        paid = adversary.marginals.sum(axis=0) @ (self.psi * self.weight)
        return level, sets, float(level.max() - paid)

    def cost(self, predictor: Predictor) -> tuple[Floats, Floats]:
        """Return what the predictor's mix makes of the adversary's choices.

        Returns
        -------
        sure : ndarray of shape (n_actual,)
            What the size alone costs.
        each : ndarray of shape (n_actual, n_blocks)
            What a positive row costs for each size.
        """
        played = predictor.mix[:, None]
        each = (played * self.slope[predictor.size]).T @ predictor.member - self.psi
        return predictor.mix @ self.intercept[predictor.size], each

    def mix_of_sizes(self, predictor: Predictor) -> tuple[Floats, Floats]:
        """Return how many rows the predictor takes, and with what probability."""
        sizes, place = np.unique(self.taken[predictor.size], return_inverse=True)
        return sizes, np.bincount(place, predictor.mix).astype(float)
