"""What solving a game gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """A solved game.

    Attributes
    ----------
    value : float
        min over the adversary of (max over the predictor of the expected payoff, less psi . q):
        what the returned `q` holds the predictor to, so never below the true value.
    q : ndarray of shape (n_rows,)
        The adversary's probability that each row is positive. The gradient of `value` in psi is -q.
    sizes : ndarray of shape (n_sizes,)
        How many rows the predictor takes for positive in its best mix.
    mix : ndarray of shape (n_sizes,)
        With what probability.
    lower : float
        The value is at least this, whatever the adversary does.
    upper : float
        The value is at most this: `value`.
    iterations : int
        Rounds of the solver; 1 for the closed form.
    memory : object or None
        What the next solve of the same game can start from.
    """

    value: float
    q: Floats
    sizes: Floats
    mix: Floats
    lower: float
    upper: float
    iterations: int
    memory: Any = field(default=None, repr=False, compare=False)

    @property
    def gap(self) -> float:
        """Distance of the bounds."""
        return self.upper - self.lower
