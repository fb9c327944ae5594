"""Samples of labelled rows: which rows are kept, and what that does to the odds.

A draw is keyed by the number of the row, so a row that is kept among all rows is kept among any of
them: the sample of a fold is the part of the whole sample that lies in the fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.keyed_draws import row_uniforms
from imbfit.glm.rate_choice import RateChoice
from imbfit.glm.undersamplers import undersample

__all__ = ["Draw", "LabelledRows"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Positions: TypeAlias = NDArray[np.intp]

# The stream of keyed numbers that decides which rows are kept.
_STREAM = 0


@dataclass(frozen=True)
class Draw:
    """The kept rows, and how they relate to the population.

    Attributes
    ----------
    rows : ndarray of int
        Positions, ascending.
    rate, positive_rate : float
        Kept weight / all weight, of the negatives and of the positives.
    balance : float
        Negatives per positive, as the inner model sees them.
    log_ratio : float
        What to add to the log-odds of the sample, as the inner model sees it, to get those of the
        population.
    """

    rows: Positions
    rate: float
    positive_rate: float
    balance: float
    log_ratio: float


@dataclass(frozen=True)
class LabelledRows:
    """All rows given to `fit`, and how samples are drawn from them.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
        As they came.
    positive : ndarray of bool, shape (n_rows,)
        Where they are the positive one.
    weight : ndarray of float or None
        Case weights.
    weighted_fit : bool
        Whether the inner model's fit gets the weights; if not, it sees each kept row once.
    choice : RateChoice
        Where the rate comes from.
    seed : int
        Of the draw.
    """

    labels: NDArray[Any]
    positive: Bools
    weight: Floats | None
    weighted_fit: bool
    choice: RateChoice
    seed: int

    def draw(self, rows: Positions | None = None, *, where: str = "") -> Draw:
        """Draw from some rows, or from all.

        Parameters
        ----------
        rows : ndarray of int, default=None
            Positions.
        where : str
            What errors say of them.

        Returns
        -------
        Draw

        Raises
        ------
        ValueError
            If no row of a class is kept.
        """
        rows = np.arange(len(self.labels)) if rows is None else np.asarray(rows, np.intp)
        if self.weight is not None:
            rows = rows[self.weight[rows] > 0]
        kept = self._kept(rows)
        self._check_classes(rows, kept, where)
        given = self._presampled_rate() if self.choice.presampled else None
        all_positive, all_negative = self._sums(rows, weighted=True)
        all_negative /= given or 1.0
        positive, negative = self._sums(kept, weighted=True)
        seen_positive, seen_negative = self._sums(kept, weighted=self.weighted_fit)
        return Draw(
            rows=kept,
            rate=given or negative / all_negative,
            positive_rate=positive / all_positive,
            balance=seen_negative / seen_positive,
            log_ratio=float(
                np.log(seen_negative / all_negative) - np.log(seen_positive / all_positive)
            ),
        )

    def natural_weight(self) -> Floats:
        """Weight all rows to the population: presampled negatives stand for those left out.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        weight = np.ones(len(self.labels)) if self.weight is None else self.weight
        if not self.choice.presampled:
            return weight
        return np.where(self.positive, weight, weight / self._presampled_rate())

    def _presampled_rate(self) -> float:
        return self.choice.presampled_rate(*self._sums(None, weighted=True))

    def _sums(self, rows: Positions | None, *, weighted: bool) -> tuple[float, float]:
        """Weigh the positives and the negatives among some rows."""
        positive = self.positive if rows is None else self.positive[rows]
        if self.weight is None or not weighted:
            count = int(np.count_nonzero(positive))
            return float(count), float(len(positive) - count)
        weight = self.weight if rows is None else self.weight[rows]
        return float(weight[positive].sum()), float(weight[~positive].sum())

    def _kept(self, rows: Positions) -> Positions:
        if self.choice.presampled:
            return rows
        if self.choice.sampler is not None:
            # drawn from all rows: of those of a fold it might ask for more than there are
            weight = self.weight
            everything = np.arange(len(self.labels)) if weight is None else np.flatnonzero(weight)
            own = undersample(self.choice.sampler, self.labels[everything], seed=self.seed)
            return rows[np.isin(rows, everything[own])]
        rate = self.choice.nominal_rate(*self._sums(None, weighted=True))
        if rate == 1:
            return rows
        uniform = row_uniforms(self.seed, _STREAM, 0, len(self.labels))
        return rows[self.positive[rows] | (uniform[rows] < rate)]

    def _check_classes(self, rows: Positions, kept: Positions, where: str) -> None:
        for name, mask in (("positives", self.positive), ("negatives", ~self.positive)):
            if mask[kept].any():
                continue
            count = int(np.count_nonzero(mask[rows]))
            if not count:
                raise ValueError(
                    f"there are no {name}{where}, so only one class is left to fit on; use fewer "
                    "folds, or a stratified splitter"
                )
            raise ValueError(
                f"sampling_rate={self.choice.named()} kept none of the {count} {name}{where}, so "
                "only one class is left to fit on; give a rate that keeps at least some dozens"
                + (", or pass correction='prior', which needs no folds" if where else "")
            )
