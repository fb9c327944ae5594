"""The pass that predicts: the mean prediction, and the shift that makes it the prevalence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from imbfit.glm.design import Design
from imbfit.glm.links import Link
from imbfit.glm.passes import Block, count

Floats = NDArray[np.float64]

# Bins of the linear predictor per unit. Within a bin the probability is taken at the bin's mean, so
# the relative error of a mean probability is at most (1/256)^2/24, below 1e-6.
BINS = 256


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
