"""From out-of-fold scores to probabilities in the population."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from imbfit.glm.draws import Draw, LabelledRows

__all__ = ["IsotonicCalibrator", "OutOfFold", "SigmoidCalibrator"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Above this rate most negatives are in the sample, so that few are left to check a model on.
_MOST_SEEN = 0.5


@dataclass(frozen=True)
class IsotonicCalibrator:
    """A nondecreasing function from scores to probabilities.

    Attributes
    ----------
    curve : IsotonicRegression
        From corrected probabilities, or decision values, to probabilities.
    from_log_odds : bool
        Whether scores are log-odds, which the curve takes as probabilities.
    shift : float
        What is added to the log-odds of its probabilities.
    """

    curve: IsotonicRegression
    from_log_odds: bool
    shift: float = 0.0

    @classmethod
    def learned(
        cls, score: Floats, positive: Bools, weight: Floats, *, from_log_odds: bool
    ) -> IsotonicCalibrator:
        """Learn from rows that no model of theirs has seen."""
        curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        x = expit(score) if from_log_odds else score
        return cls(curve.fit(x, positive, sample_weight=weight), from_log_odds)

    def log_odds(self, score: Floats) -> Floats:
        """Return calibrated log-odds, infinite where the probability is 0 or 1."""
        p = self.curve.predict(expit(score) if self.from_log_odds else score)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(p) - np.log1p(-p) + self.shift)

    @property
    def flat(self) -> bool:
        """Whether all scores get the same probability."""
        return bool(np.ptp(self.curve.y_thresholds_) == 0)

    def shifted(self, shift: float) -> IsotonicCalibrator:
        """Return the same with all log-odds shifted."""
        return replace(self, shift=self.shift + shift)


@dataclass(frozen=True)
class SigmoidCalibrator:
    """A straight line from scores to log-odds, never a falling one.

    Attributes
    ----------
    slope, intercept : float
        Of the line. Where scores are log-odds, 1 and 0 leave them as they are, and a slope below 1
        says that the inner model is too sure of itself. The slope is 0 where the line that fits
        best falls: with few rows it may, and would turn the model's order around.
    low, high : float
        Scores beyond are taken as these: infinite, unless some out-of-fold probability is 0 or 1.
    """

    slope: float
    intercept: float
    low: float
    high: float

    @classmethod
    def learned(
        cls, score: Floats, positive: Bools, weight: Floats, *, from_log_odds: bool
    ) -> SigmoidCalibrator:
        """Learn from rows that no model of theirs has seen."""
        low, high = _ends(score) if from_log_odds else (-np.inf, np.inf)
        score = np.clip(score, low, high)
        middle = float(np.average(score, weights=weight))
        spread = float(np.sqrt(np.average((score - middle) ** 2, weights=weight)))
        if spread <= 1e-12 * max(1.0, abs(middle)):
            return cls._level(positive, weight)
        standard, target, share = (score - middle) / spread, positive, weight
        if _separate(score, positive):
            standard, target, share = _softened(standard, positive, weight)
        line = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=200)
        line.fit(standard[:, np.newaxis], target, sample_weight=share)
        slope = float(line.coef_[0, 0]) / spread
        if slope <= 0:
            return cls._level(positive, weight)
        return cls(slope, float(line.intercept_[0]) - slope * middle, low, high)

    @classmethod
    def _level(cls, positive: Bools, weight: Floats) -> SigmoidCalibrator:
        """Learn the prevalence, where scores tell nothing."""
        share = np.average(positive, weights=weight)
        return cls(0.0, float(np.log(share) - np.log1p(-share)), 0.0, 0.0)

    def log_odds(self, score: Floats) -> Floats:
        """Return calibrated log-odds."""
        return self.slope * np.clip(score, self.low, self.high) + self.intercept

    @property
    def flat(self) -> bool:
        """Whether all scores get the same probability."""
        return self.slope == 0

    def shifted(self, shift: float) -> SigmoidCalibrator:
        """Return the same with all log-odds shifted."""
        return replace(self, intercept=self.intercept + shift)


def _separate(score: Floats, positive: Bools) -> bool:
    ours, theirs = score[positive], score[~positive]
    return bool(ours.min() >= theirs.max() or ours.max() <= theirs.min())


def _softened(score: Floats, positive: Bools, weight: Floats) -> tuple[Floats, Bools, Floats]:
    """Return each row as positive and as negative, weighted by Platt's targets.

    Where scores separate the classes the steepest line is the best, which no new row bears out. So
    each class gives up what one row more in the other would, by weight the same.
    """
    # a weight is how often a row counts, unless the weights are shares that sum to little
    positives = max(np.count_nonzero(positive), weight[positive].sum())
    negatives = positives * weight[~positive].sum() / weight[positive].sum()
    target = np.where(positive, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    return (
        np.tile(score, 2),
        np.repeat([True, False], len(score)),
        np.concatenate([weight * target, weight * (1 - target)]),
    )


def _ends(log_odds: Floats) -> tuple[float, float]:
    # A forest's 0 or 1 is a count of votes: it is taken as half the smallest share seen.
    finite = log_odds[np.isfinite(log_odds)]
    low, high = -np.inf, np.inf
    if (log_odds == -np.inf).any():
        low = (finite.min() if len(finite) else 0.0) - np.log(2)
    if (log_odds == np.inf).any():
        high = (finite.max() if len(finite) else 0.0) + np.log(2)
    return float(low), float(high)


@dataclass(frozen=True)
class OutOfFold:
    """A calibrator, with what it says of negatives that no model has seen.

    Attributes
    ----------
    calibrator : IsotonicCalibrator or SigmoidCalibrator
        Learned from the folds' models.
    mean_negative : float
        Its mean probability over the negatives, each by a model of a fold without it.
    """

    calibrator: IsotonicCalibrator | SigmoidCalibrator
    mean_negative: float

    def centred(
        self, score: Floats, rows: LabelledRows, drawn: Draw
    ) -> IsotonicCalibrator | SigmoidCalibrator:
        """Return the calibrator, shifted to suit the final model.

        The final model has seen more rows than those of the folds, and where few rows are kept two
        fits may differ in level. It is held to the folds' mean on negatives, by those that it has
        not seen.

        Parameters
        ----------
        score : ndarray of shape (n_rows,)
            Scores of all rows by the final model.
        rows : LabelledRows
            All rows.
        drawn : Draw
            The final model's sample.

        Returns
        -------
        IsotonicCalibrator or SigmoidCalibrator
        """
        if rows.choice.presampled or drawn.rate > _MOST_SEEN:
            return self.calibrator
        weight = rows.natural_weight()
        unseen = ~rows.positive & (weight > 0)
        unseen[drawn.rows] = False
        log_odds, weight = self.calibrator.log_odds(score[unseen]), weight[unseen]

        def excess(shift: float) -> float:
            mean = np.average(expit(log_odds + shift), weights=weight)
            return float(mean - self.mean_negative)

        # a shift of ten can only come of scores that mean nothing
        if excess(-10.0) >= 0 or excess(10.0) <= 0:
            return self.calibrator
        return self.calibrator.shifted(float(brentq(excess, -10.0, 10.0, xtol=1e-9)))
