"""The passes that draw: a sample by a plan, and a pilot of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from imbfit.glm.keyed_draws import bottom_k
from imbfit.glm.passes import Block, Counts, count
from imbfit.glm.plans import Plan

Floats = NDArray[np.float64]

Bools = NDArray[np.bool_]

# Streams of the keyed draw: the pilot must not share the draws that decide which rows are kept.
DRAW, PILOT = 0, 1


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
