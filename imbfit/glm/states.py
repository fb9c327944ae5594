"""What the likelihoods read: the kept rows, and what belongs to them at a linear predictor.

A row with linear predictor eta is kept with probability S = pi1 p + pi0 q, and a kept row is
positive with probability pi1 p / S: its log-odds are log p - log q + log(pi1 / pi0), whatever the
link. On that scale nothing cancels, however rare the positives and however low the sampling rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from imbfit.glm.links import Pieces

__all__ = ["ProfileState", "Rows", "State", "times", "total_of"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """What is known of the kept rows before anything is fitted; `uniform` or `designed` make it.

    `log_pi1` and `log_pi0` are log-probabilities of keeping the row if it is positive and if it is
    negative, of one row each or of all. A `weight` of None stands for 1 each.

    Examples
    --------
    >>> from imbfit.glm.states import Rows
    >>> rows = Rows.uniform([True, False, False], None, rate=0.1)
    >>> rows.inverse.round(9).tolist()
    [1.0, 10.0, 10.0]
    >>> round(rows.log_ratio, 6)
    2.302585
    """

    positive: NDArray[np.bool_]
    weight: Floats | None
    log_pi1: float | Floats
    log_pi0: float | Floats

    @classmethod
    def uniform(
        cls,
        positive: ArrayLike,
        weight: ArrayLike | None,
        rate: float,
        rate_positive: float = 1.0,
    ) -> Rows:
        """Make rows of which all negatives were kept with one sampling rate."""
        for name, value in (("rate", rate), ("rate_positive", rate_positive)):
            if not 0.0 < value <= 1.0:
                raise ValueError(f"{name} is {value}; give a sampling rate above 0 and up to 1")
        return cls.designed(positive, weight, math.log(rate_positive), math.log(rate))

    @classmethod
    def designed(
        cls,
        positive: ArrayLike,
        weight: ArrayLike | None,
        log_pi1: ArrayLike,
        log_pi0: ArrayLike,
    ) -> Rows:
        """Make rows that were kept with probabilities of their own.

        Both are needed in every row, whatever its label: leaving the positives at a common `pi0`
        biases the fit.
        """
        labels = np.asarray(positive, dtype=np.bool_)
        weights = None if weight is None else np.asarray(weight, dtype=np.float64)
        if weights is not None and weights.shape != labels.shape:
            raise ValueError(f"weight has shape {weights.shape}, and positive {labels.shape}")
        logs: list[float | Floats] = []
        for name, value, own in (("log_pi1", log_pi1, labels), ("log_pi0", log_pi0, ~labels)):
            x = np.asarray(value, dtype=np.float64)
            if x.ndim and x.shape != labels.shape:
                raise ValueError(f"{name} has shape {x.shape}, and positive {labels.shape}")
            wrong = ~(x <= 0.0) | (own & np.isneginf(x))
            if wrong.any():
                at = int(np.argmax(wrong))
                raise ValueError(
                    f"{name} is {x[at] if x.ndim else x} in row {at}; the logarithm of the "
                    "probability of keeping it is at most 0, and above -inf for the label it has"
                )
            logs.append(x if x.ndim else float(x))
        return cls(labels, weights, *logs)

    @property
    def is_uniform(self) -> bool:
        """Whether all rows of a class were kept with one sampling rate."""
        return np.ndim(self.log_pi1) == 0 and np.ndim(self.log_pi0) == 0

    @property
    def log_ratio(self) -> float | Floats:
        """What being in the sample adds to a row's log-odds, log(pi1 / pi0)."""
        return self.log_pi1 - self.log_pi0

    @cached_property
    def inverse(self) -> Floats:
        """One over the probability with which the row, with the label it has, was kept."""
        return np.asarray(np.exp(-np.where(self.positive, self.log_pi1, self.log_pi0)))

    @cached_property
    def sign(self) -> Floats:
        """Minus 1 for positives, 1 for negatives."""
        return np.where(self.positive, -1.0, 1.0)

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return total_of(np.ones(self.positive.shape), self.weight)

    @cached_property
    def total_negative(self) -> float:
        """Sum of the weights of the negatives."""
        return total_of(np.where(self.positive, 0.0, 1.0), self.weight)


@dataclass(frozen=True, eq=False)
class State:
    """What a likelihood knows of the rows at one eta; each part is made when first asked for."""

    eta: Floats
    pieces: Pieces
    rows: Rows

    @cached_property
    def u(self) -> Floats:
        """Slope of the log-odds in eta."""
        return self.pieces.hp + self.pieces.hq

    @cached_property
    def density(self) -> Floats:
        """Slope f of the probability of a positive in eta."""
        return self.pieces.hp * np.exp(self.pieces.log_p)

    @cached_property
    def log_keep(self) -> Floats:
        """Log-probability of keeping a row with this eta, log S."""
        of_p = self.rows.log_pi1 + self.pieces.log_p
        return np.asarray(np.logaddexp(of_p, self.rows.log_pi0 + self.pieces.log_q))

    @cached_property
    def keep(self) -> Floats:
        """Probability of keeping a row with this eta, S."""
        return np.asarray(np.exp(self.log_keep))

    @cached_property
    def against(self) -> Floats:
        """Log-odds, among kept rows, of the label that the row does not have."""
        odds = self.pieces.log_p - self.pieces.log_q
        odds += self.rows.log_ratio
        odds *= self.rows.sign
        return odds

    @cached_property
    def _lesser(self) -> Floats:
        """Odds of the less likely label."""
        far = np.abs(self.against)
        np.negative(far, out=far)
        np.exp(far, out=far)
        return far

    @cached_property
    def _greater(self) -> Floats:
        """Probability of the likelier label."""
        near = 1.0 + self._lesser
        np.divide(1.0, near, out=near)
        return near

    @cached_property
    def loss(self) -> Floats:
        """Minus the log-probability, among kept rows, of the label that the row has."""
        loss = np.maximum(self.against, 0.0)
        loss += np.log1p(self._lesser)
        return loss

    @cached_property
    def miss(self) -> Floats:
        """Probability, among kept rows, of the label that the row does not have."""
        # The exponential is 1 or `_lesser`; a second one takes less time than choosing.
        miss = np.minimum(self.against, 0.0)
        np.exp(miss, out=miss)
        miss *= self._greater
        return miss

    @cached_property
    def kept_p(self) -> Floats:
        """Probability that a kept row with this eta is positive."""
        likelier = (self.against >= 0.0) != self.rows.positive
        return np.where(likelier, 1.0, self._lesser) * self._greater

    @cached_property
    def spread(self) -> Floats:
        """Variance of the label of a kept row with this eta, kept_p (1 - kept_p)."""
        spread = self._lesser * self._greater
        spread *= self._greater
        return spread


@dataclass(frozen=True, eq=False)
class ProfileState(State):
    """State of the profile likelihood, where S = p + s q has a sampling rate s that was solved for.

    `rate` is s: the realised one where the model fits, and negative at an eta that leaves fewer
    negatives in the population than were dropped. `log_dropped` is log(1 - s), `solved_keep` is S,
    `negative_part` is s q. `lift` is (1 - s) q / S, how many dropped rows a kept one stands for.
    """

    rate: float
    log_dropped: float
    solved_keep: Floats
    negative_part: Floats
    lift: Floats

    @cached_property
    def keep(self) -> Floats:
        """Probability of keeping a row with this eta at the rate s, above 0 but for weight 0."""
        return self.solved_keep

    @cached_property
    def log_keep(self) -> Floats:
        """Log S."""
        return np.asarray(np.log(self.solved_keep))

    @cached_property
    def loss(self) -> Floats:
        """Minus the log-probability of the label, plus log S."""
        return self.log_keep - np.where(self.rows.positive, self.pieces.log_p, self.pieces.log_q)

    @cached_property
    def kept_p(self) -> Floats:
        """The quotient p / S, above 1 where s is negative."""
        return np.asarray(np.exp(self.pieces.log_p) / self.solved_keep)

    @cached_property
    def miss(self) -> Floats:
        """The quotient p / S of negatives, s q / S of positives."""
        return np.where(self.rows.positive, self.negative_part / self.solved_keep, self.kept_p)

    @cached_property
    def spread(self) -> Floats:
        """The product of both quotients."""
        return self.kept_p * self.negative_part / self.solved_keep


def total_of(terms: Floats, weight: Floats | None) -> float:
    """Sum up weighted terms, of which those of weight 0 may be infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(terms.sum() if weight is None else weight @ terms)
        if weight is not None and math.isnan(total):
            some = weight > 0.0
            total = float(weight[some] @ terms[some])
    return total


def times(terms: Floats, weight: Floats | None) -> Floats:
    """Multiply terms with the weights, in place."""
    if weight is not None:
        with np.errstate(over="ignore"):
            terms *= weight
    return terms
