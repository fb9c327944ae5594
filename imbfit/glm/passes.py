"""One pass over the rows: blocks, sources of blocks, and counts.

A block holds consecutive rows. Each function of a pass reads one block; `merged` joins what it
found on two. So the same code runs over rows in memory (one block), over batches, and on the
workers of a cluster. Draws are keyed by the number of the row, so that no cut into blocks changes
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.keyed_draws import row_uniforms

Floats = NDArray[np.float64]

Bools = NDArray[np.bool_]


class Merges(Protocol):
    """What two blocks give can be joined."""

    def merged(self, other: Self) -> Self:
        """Join with what a later block gave."""


Found = TypeVar("Found", bound=Merges)


class Source(Protocol):
    """Rows that can be passed over.

    Attributes
    ----------
    in_memory : bool
        Whether the rows are one block at hand, so that a pass costs no reading.
    repeatable : bool
        Whether a second pass is possible.
    """

    @property
    def in_memory(self) -> bool:
        """Whether a pass costs no reading."""

    @property
    def repeatable(self) -> bool:
        """Whether a second pass is possible."""

    def run(self, function: Callable[[Block], Found]) -> Found:
        """Apply `function` to each block and join what it gives, in the order of the rows."""


@dataclass(frozen=True)
class Block:
    """Consecutive rows.

    Attributes
    ----------
    start : int
        Number of the first row.
    X : array or sparse matrix of shape (n_rows, n_slopes)
        Features.
    positive : ndarray of bool, shape (n_rows,)
        The positive rows.
    weight : ndarray of shape (n_rows,) or None
        Sample weights; rows of weight 0 are passed over.
    offset : ndarray of shape (n_rows,) or None
        The user's offset.
    """

    start: int
    X: Any
    positive: Bools
    weight: Floats | None = None
    offset: Floats | None = None

    def uniforms(self, seed: int, stream: int) -> Floats:
        """Return the keyed uniform of each row."""
        return row_uniforms(seed, stream, self.start, self.start + len(self.positive))

    def counted(self) -> Bools | None:
        """Mask the rows with a weight above 0; None for all."""
        if self.weight is None or self.weight.all():
            return None
        return np.asarray(self.weight > 0)


@dataclass(frozen=True)
class InMemory:
    """Rows that are one block at hand."""

    block: Block
    in_memory: bool = True
    repeatable: bool = True

    def run(self, function: Callable[[Block], Found]) -> Found:
        """Apply `function` to the block."""
        return function(self.block)


@dataclass(frozen=True)
class Counts:
    """Rows and weights of each class, rows of weight 0 left out."""

    positives: int
    negatives: int
    positive_weight: float
    negative_weight: float

    def merged(self, other: Counts) -> Counts:
        """Add the counts of other rows."""
        return Counts(
            self.positives + other.positives,
            self.negatives + other.negatives,
            self.positive_weight + other.positive_weight,
            self.negative_weight + other.negative_weight,
        )

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.positives + self.negatives

    @property
    def prevalence(self) -> float:
        """Share of the positives' weight."""
        return self.positive_weight / (self.positive_weight + self.negative_weight)


def count(block: Block) -> Counts:
    """Count the rows of each class."""
    positive, weight = block.positive, block.weight
    if weight is None:
        positives = int(np.count_nonzero(positive))
        negatives = len(positive) - positives
        return Counts(positives, negatives, float(positives), float(negatives))
    return Counts(
        int(np.count_nonzero(weight[positive])),
        int(np.count_nonzero(weight[~positive])),
        float(weight[positive].sum()),
        float(weight[~positive].sum()),
    )
