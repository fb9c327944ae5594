r"""The loss over all rows at once.

With scores z = X w, weights u and their sum n, the game is played at psi = z range / n, where
range is the distance of the metric's best and worst value at the observed number of positives:

.. math:: R(w) = -J(\psi) / range, \quad J(\psi) = V(\psi) + \sum_i u_i \psi_i y_i

J is concave with derivative u (y - q), so R is convex in w with derivative X' u (q - y) / n.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.directions import Directions
from imbfit.adversarial.players import Play

__all__ = ["FullBatch"]

Floats: TypeAlias = NDArray[np.float64]


class FullBatch:
    """The loss as a function of what the training moves.

    Parameters
    ----------
    directions : Directions
        The rows.
    positive : ndarray of shape (n_rows,)
        1 for a positive row, else 0.
    weight : ndarray of shape (n_rows,) or None
        How often each row counts.
    play : Play
        Solves the game.
    scale : float
        Range of the payoff.
    """

    def __init__(
        self,
        directions: Directions,
        positive: Floats,
        weight: Floats | None,
        play: Play,
        scale: float,
    ) -> None:
        self.directions, self.positive, self.weight = directions, positive, weight
        self.play, self.scale = play, scale
        self.total = float(len(positive)) if weight is None else float(weight.sum())
        self.counted = positive if weight is None else weight * positive

    def __call__(self, w: Floats) -> tuple[float, float, Floats]:
        """Return an upper and a lower bound of R, and the slope of a tangent through the lower."""
        psi = self.directions.scores(w) * (self.scale / self.total)
        low, high, q = self.play(psi)
        paid = float(psi @ self.counted)
        residual = q - self.positive if self.weight is None else self.weight * (q - self.positive)
        slope = self.directions.back(residual) / self.total
        return -(low + paid) / self.scale, -(high + paid) / self.scale, slope

    def sharpen(self, gap: float) -> bool:
        """Solve games to this gap from now on; tell whether that can be done."""
        return self.play.sharpen(gap)
