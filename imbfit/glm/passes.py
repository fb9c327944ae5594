"""One pass over the rows: what is read off a block of rows, and how blocks are put together.

A block holds consecutive rows. Each function below reads one block; `merged` joins what it found on
two. So the same code runs over rows in memory (one block), over batches, and on the workers of a
cluster. Draws are keyed by the number of the row, so that no cut into blocks changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq

from imbfit.glm.design import Design
from imbfit.glm.links import Link
from imbfit.glm.sampling import Plan, bottom_k, row_uniforms

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Streams of the keyed draw: the pilot must not share the draws that decide which rows are kept.
DRAW, PILOT = 0, 1

# Bins of the linear predictor per unit. Within a bin the probability is taken at the bin's mean, so
# the relative error of a mean probability is at most (1/256)^2/24, below 1e-6.
BINS = 256


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


@dataclass(frozen=True)
class Sample:
    """Rows that were kept, with the counts of all rows that they were kept from.

    Attributes
    ----------
    parts : tuple of (rows, X, positive, weight, offset, uniform)
        The kept rows of each block, in the order of the rows.
    counts : Counts
        Of all rows.
    """

    parts: tuple[tuple[Any, ...], ...]
    counts: Counts

    def merged(self, other: Sample) -> Sample:
        """Append the kept rows of later blocks."""
        return Sample(self.parts + other.parts, self.counts.merged(other.counts))

    def joined(self) -> Sample:
        """Return the sample in one part."""
        if len(self.parts) == 1:
            return self
        columns = list(zip(*self.parts, strict=True))
        return Sample((tuple(_stack(column) for column in columns),), self.counts)

    def taken(self, mask: Bools) -> Sample:
        """Keep the masked rows; the counts stay."""
        return replace(self, parts=(_taken(self.joined().parts[0], mask),))

    @property
    def rows(self) -> NDArray[np.int64]:
        """Numbers of the rows."""
        return np.asarray(self.joined().parts[0][0])

    @property
    def X(self) -> Any:  # noqa: N802  the notation of the field
        """Features."""
        return self.joined().parts[0][1]

    @property
    def positive(self) -> Bools:
        """The positive rows."""
        return np.asarray(self.joined().parts[0][2])

    @property
    def weight(self) -> Floats | None:
        """Sample weights."""
        weight: Floats | None = self.joined().parts[0][3]
        return weight

    @property
    def offset(self) -> Floats | None:
        """The user's offset."""
        offset: Floats | None = self.joined().parts[0][4]
        return offset

    def drawn(self, plan: Plan) -> Sample:
        """Keep the rows that a plan with smaller probabilities keeps."""
        rows, X, positive, weight, offset, uniform = self.joined().parts[0]
        log_pi1, log_pi0 = plan.log_keep(X, offset)
        kept = _is_kept(uniform, positive, log_pi1, log_pi0)
        if kept.all():
            return self.joined()
        return replace(self, parts=(_taken((rows, X, positive, weight, offset, uniform), kept),))


def _is_kept(
    uniform: Floats, positive: Bools, log_pi1: float | Floats, log_pi0: float | Floats
) -> Bools:
    if np.ndim(log_pi0) == 0 and np.all(log_pi1 == 0):
        return np.asarray((uniform < np.exp(log_pi0)) | positive)
    return np.asarray(uniform < np.exp(np.where(positive, log_pi1, log_pi0)))


def _stack(column: tuple[Any, ...]) -> Any:
    if column[0] is None:
        return None
    if sp.issparse(column[0]):
        return sp.vstack(column, format="csr")
    return np.concatenate(column)


def _taken(part: tuple[Any, ...], kept: Any) -> tuple[Any, ...]:
    return tuple(None if column is None else _rows_of(column, kept) for column in part)


def _rows_of(column: Any, kept: Any) -> Any:
    if sp.issparse(column) and column.format != "csr":
        column = column.tocsr()
    return column[np.flatnonzero(kept)]


def draw(block: Block, *, seed: int, plan: Plan) -> Sample:
    """Keep each row with the probability that the plan gives to its class."""
    log_pi1, log_pi0 = plan.log_keep(block.X, block.offset)
    counted = block.counted()
    rows = np.arange(block.start, block.start + len(block.positive))
    columns = (rows, block.X, block.positive, block.weight, block.offset)
    if np.all(log_pi1 == 0) and np.all(log_pi0 == 0):
        # all rows: no copy
        part = (*columns, np.zeros(len(rows)))
        if counted is not None:
            part = _taken(part, counted)
        return Sample((part,), count(block))
    uniform = block.uniforms(seed, DRAW)
    kept = _is_kept(uniform, block.positive, log_pi1, log_pi0)
    if counted is not None:
        kept &= counted
    return Sample((_taken((*columns, uniform), kept),), count(block))


@dataclass(frozen=True)
class PilotRows:
    """The positives and the negatives with the smallest keyed uniforms: a sample of fixed size."""

    positives: Sample
    negatives: Sample
    size: tuple[int, int]

    def merged(self, other: PilotRows) -> PilotRows:
        """Take the smallest of both."""
        return PilotRows(
            _smallest(self.positives.merged(other.positives), self.size[0]),
            _smallest(self.negatives.merged(other.negatives), self.size[1]),
            self.size,
        )

    @property
    def counts(self) -> Counts:
        """Counts of all rows."""
        return self.positives.counts

    def sample(self) -> Sample:
        """Return the pilot's rows as one sample."""
        parts = self.positives.joined().parts + self.negatives.joined().parts
        return Sample(parts, self.counts).joined()


def draw_pilot(block: Block, *, seed: int, positives: int, negatives: int) -> PilotRows:
    """Draw so many positives and negatives, all with the same chance."""
    uniform = block.uniforms(seed, PILOT)
    counted = block.counted()
    counts = count(block)
    first = np.arange(block.start, block.start + len(uniform))
    columns = (first, block.X, block.positive, block.weight, block.offset, uniform)
    samples = []
    for mask, size in ((block.positive, positives), (~block.positive, negatives)):
        rows = np.flatnonzero(mask if counted is None else mask & counted)
        rows = rows[bottom_k(uniform[rows], size)]
        chosen = np.zeros(len(uniform), bool)
        chosen[rows] = True
        samples.append(Sample((_taken(columns, chosen),), counts))
    return PilotRows(samples[0], samples[1], (positives, negatives))


def _smallest(sample: Sample, size: int) -> Sample:
    part = sample.joined().parts[0]
    if len(part[0]) <= size:
        return sample.joined()
    chosen = np.zeros(len(part[0]), bool)
    chosen[bottom_k(part[5], size)] = True
    return replace(sample, parts=(_taken(part, chosen),))


@dataclass(frozen=True)
class Predictions:
    """Predictions on rows: their sum, and a histogram of the linear predictor.

    Attributes
    ----------
    bins : dict of int to (float, float)
        Weight, and weighted sum of the linear predictor, of each bin of width 1/256; empty where
        no histogram was asked for.
    probability, weight, positive_weight : float
        Weighted sum of the probabilities, and the weights of all and of the positive rows.
    """

    bins: dict[int, tuple[float, float]]
    probability: float
    weight: float
    positive_weight: float

    def merged(self, other: Predictions) -> Predictions:
        """Add what other rows gave."""
        bins = dict(self.bins)
        for key, (weight, total) in other.bins.items():
            mine = bins.get(key, (0.0, 0.0))
            bins[key] = (mine[0] + weight, mine[1] + total)
        return Predictions(
            bins,
            self.probability + other.probability,
            self.weight + other.weight,
            self.positive_weight + other.positive_weight,
        )

    @property
    def calibration_ratio(self) -> float:
        """Mean prediction over prevalence."""
        return self.probability / self.positive_weight

    def shifted_ratio(self, link: Link, shift: float) -> float:
        """Calibration ratio after a shift of the intercept, from the histogram."""
        weight, total = (np.array(column) for column in zip(*self.bins.values(), strict=True))
        log_p = link.log_p(total / weight + shift)
        return float(weight @ np.exp(log_p)) / self.positive_weight

    def shift(self, link: Link) -> float:
        """Return the shift of the intercept that makes the mean prediction the prevalence."""

        def excess(shift: float) -> float:
            return float(np.log(max(self.shifted_ratio(link, shift), 1e-300)))

        reach = 1.0
        while (excess(-reach) > 0 or excess(reach) < 0) and reach < 1e6:
            reach *= 2
        return float(brentq(excess, -reach, reach, xtol=1e-13))


def predict(
    block: Block,
    *,
    link: Link,
    coef: Floats,
    intercept: float,
    histogram: bool = False,
) -> Predictions:
    """Predict the rows of a block and add up."""
    eta = Design(block.X, intercept=False).eta(coef) + intercept
    if block.offset is not None:
        eta += block.offset
    p = np.exp(link.log_p(eta))
    weight = block.weight
    bins: dict[int, tuple[float, float]] = {}
    if histogram and len(eta):
        key = np.floor(eta * BINS).astype(np.int64)
        low = int(key.min())
        if int(key.max()) - low < 1_000_000:
            place = key - low
            sums = np.bincount(place, weight), np.bincount(place, _times(eta, weight))
            found = np.flatnonzero(sums[0])
            values = zip(sums[0][found].tolist(), sums[1][found].tolist(), strict=True)
            bins = dict(zip((found + low).tolist(), values, strict=True))
        else:
            found, place = np.unique(key, return_inverse=True)
            sums = np.bincount(place, weight), np.bincount(place, _times(eta, weight))
            values = zip(sums[0].tolist(), sums[1].tolist(), strict=True)
            bins = {k: v for k, v in zip(found.tolist(), values, strict=True) if v[0] > 0}
    return Predictions(
        bins,
        float(_times(p, weight).sum()),
        float(len(eta) if weight is None else weight.sum()),
        count(block).positive_weight,
    )


def _times(values: Floats, weight: Floats | None) -> Floats:
    return values if weight is None else values * weight
