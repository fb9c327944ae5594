r"""Training by minibatches: AdaGrad on the loss of one batch after another, iterates averaged.

The game of a batch is not that of all rows: what is minimised is the mean of

.. math:: -J_b(\psi) / range_b + \tfrac12 \sum_i \lambda_i w_i^2

over batches b that share out the positives evenly. It suits rows that do not fit in memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Stream", "even_batches", "pass_over"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Positions: TypeAlias = NDArray[np.intp]

# First step of a slope, in units of a standardised column.
_STEP = 0.5
_TINY = 1e-12


@dataclass
class Stream:
    """Where the training stands, between batches.

    Attributes
    ----------
    now, mean : ndarray of shape (n_coef,)
        The last iterate, and their average, weighted by their number so that early ones fade.
    squares : ndarray of shape (n_coef,)
        Summed squares of slopes.
    steps, rows : int
        Batches and rows so far.
    """

    now: Floats
    mean: Floats = field(init=False)
    squares: Floats = field(init=False)
    steps: int = 0
    rows: float = 0.0

    def __post_init__(self) -> None:
        self.mean = self.now.copy()
        self.squares = np.zeros_like(self.now)

    def step(self, slope: Floats, ridge: Floats, rows: float) -> None:
        """Take one step against a slope of the loss of a batch.

        Parameters
        ----------
        slope : ndarray of shape (n_coef,)
            Of the loss without the ridge.
        ridge : ndarray of shape (n_coef,)
            The lambda_i.
        rows : float
            Of the batch.
        """
        self.squares += (slope + ridge * self.now) ** 2
        rate = _STEP / (np.sqrt(self.squares) + _TINY)
        # the ridge by an implicit step, which is stable however strong it is
        self.now = (self.now - rate * slope) / (1.0 + rate * ridge)
        self.steps += 1
        self.rows += rows
        self.mean += 2.0 / (self.steps + 1.0) * (self.now - self.mean)


def even_batches(positive: Bools, batch_size: int, rng: np.random.Generator) -> Iterator[Positions]:
    """Yield each row once, in batches that share out the positives evenly.

    Parameters
    ----------
    positive : ndarray of bool, shape (n_rows,)
        The labels.
    batch_size : int
        Rows of a batch, at most.
    rng : Generator
        Draws who goes where.

    Yields
    ------
    ndarray of int
        Positions of rows.
    """
    count = -(-len(positive) // batch_size)
    ours = np.array_split(rng.permutation(np.flatnonzero(positive)), count)
    theirs = np.array_split(rng.permutation(np.flatnonzero(~positive)), count)
    # both splits put their larger parts first, so one of them is turned around
    for mine, others in zip(ours, reversed(theirs), strict=True):
        yield np.concatenate([mine, others])


def pass_over(
    stream: Stream,
    batches: Iterator[Positions],
    loss_of: Callable[[Positions, Floats], tuple[float, Floats]],
    ridge: Floats,
) -> float:
    """Take a step for each batch; return the mean objective met on the way.

    Parameters
    ----------
    stream : Stream
        Is moved.
    batches : iterator of ndarray of int
        Rows of each batch.
    loss_of : callable
        From rows and coefficients to loss and slope.
    ridge : ndarray of shape (n_coef,)
        The lambda_i.

    Returns
    -------
    float
    """
    total, rows = 0.0, 0
    for batch in batches:
        loss, slope = loss_of(batch, stream.now)
        total += len(batch) * (loss + 0.5 * float(stream.now @ (ridge * stream.now)))
        rows += len(batch)
        stream.step(slope, ridge, len(batch))
    return total / rows
