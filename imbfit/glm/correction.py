"""From the probabilities of a sample with fewer negatives to those of the population, and back."""

from __future__ import annotations

import numbers
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["log_odds_correction", "prior_correction"]

Floats: TypeAlias = NDArray[np.float64]


def prior_correction(p: ArrayLike, rate: float, *, inverse: bool = False) -> Floats:
    """Turn probabilities that hold in a downsample into those of the population.

    If all positives and a share `rate` of the negatives are kept, whatever their features, then a
    probability p of the sample means p / (p + (1 - p) / rate) in the population. That is exact for
    the true p of the sample, which a logistic regression without penalty may estimate. With a
    penalty, or another link fitted as if nothing had been dropped, p is biased already in the
    sample, and no map of p repairs that.

    Class weights act like a rate: with w0 for negatives and w1 for positives, it is w0 / w1.

    Parameters
    ----------
    p : array-like of float, shape (n_rows,) or (n_rows, 2)
        Probabilities of a positive in the sample, or both classes' as `predict_proba` returns
        them, positives second.
    rate : float
        Share of the negatives that was kept, above 0 and at most 1.
    inverse : bool, default=False
        Go the other way: from the population to what the sample shows.

    Returns
    -------
    ndarray of float, same shape as `p`
        Probabilities in the population, or in the sample if `inverse`.

    Raises
    ------
    ValueError
        If the rate or a probability is out of range, or a row's two do not sum to one.
    TypeError
        If the rate is not a number.

    See Also
    --------
    log_odds_correction : The same on the scale of log-odds.

    Examples
    --------
    One in a hundred negatives was kept, and the model calls it even.

    >>> import numpy as np
    >>> from imbfit.glm.correction import prior_correction
    >>> prior_correction([0.5, 0.9], rate=0.01).round(4)
    array([0.0099, 0.0826])

    What `predict_proba` returns keeps its shape, and its digits close to 0 and 1.

    >>> prior_correction([[1e-20, 1.0], [0.5, 0.5]], rate=0.01).round(4)
    array([[0.    , 1.    ],
           [0.9901, 0.0099]])

    With weights 1 for negatives and 99 for positives, the mean is brought back from a half.

    >>> float(prior_correction(0.5, rate=1 / 99).round(4))
    0.01
    """
    positive, negative = (1.0, _checked_rate(rate)) if inverse else (_checked_rate(rate), 1.0)
    sample = _checked_probabilities(p)
    if sample.ndim < 2:
        kept = positive * sample
        return np.asarray(kept / (kept + negative * (1.0 - sample)))
    # Each class by its own column: 1 - p has no digits left of a rare class.
    both = sample * np.array([negative, positive])
    return np.asarray(both / both.sum(axis=1, keepdims=True))


def log_odds_correction(log_odds: ArrayLike, rate: float, *, inverse: bool = False) -> Floats:
    """Turn log-odds that hold in a downsample into those of the population.

    They shift by the logarithm of the rate, so that an intercept may be corrected instead.

    Parameters
    ----------
    log_odds : array-like of float
        Values of log(p / (1 - p)) in the sample, of any shape.
    rate : float
        Share of the negatives that was kept, above 0 and at most 1.
    inverse : bool, default=False
        Go the other way: from the population to what the sample shows.

    Returns
    -------
    ndarray of float, same shape as `log_odds`
        Log-odds in the population, or in the sample if `inverse`.

    Raises
    ------
    ValueError
        If the rate is out of range.
    TypeError
        If the rate is not a number.

    See Also
    --------
    prior_correction : The same on the scale of probabilities.

    Examples
    --------
    >>> from imbfit.glm.correction import log_odds_correction
    >>> log_odds_correction([0.0, 4.6], rate=0.01).round(3)
    array([-4.605, -0.005])
    """
    shift = float(np.log(_checked_rate(rate)))
    return np.asarray(np.asarray(log_odds, dtype=np.float64) + (-shift if inverse else shift))


def _checked_rate(rate: Any) -> float:
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real):
        raise TypeError(f"rate is {rate!r}; give one number above 0 and at most 1")
    share = float(rate)
    if not 0.0 < share <= 1.0:
        hint = ", such as 0.01 if one in a hundred was kept" if share > 1.0 else ""
        raise ValueError(
            f"rate is {rate}; give the share of the negatives that was kept, above 0 and at most "
            f"1{hint}"
        )
    return share


def _checked_probabilities(p: ArrayLike) -> Floats:
    values = np.asarray(p, dtype=np.float64)
    if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 2):
        raise ValueError(
            f"p has shape {values.shape}; give one probability per row, or the two columns of a "
            "binary predict_proba"
        )
    wrong = ~((values >= 0.0) & (values <= 1.0))
    if np.any(wrong):
        place = np.argwhere(wrong)[0].tolist()
        where = f" in row {place[0]}" if place else ""
        raise ValueError(
            f"p is {values[tuple(place)]}{where}; give probabilities between 0 and 1 (log-odds go "
            "to log_odds_correction)"
        )
    if values.ndim == 2:
        total = values.sum(axis=1)
        # Models in single precision sum to one up to 1e-7.
        apart = np.abs(total - 1.0) > 1e-5
        if np.any(apart):
            row = int(np.argmax(apart))
            raise ValueError(
                f"the two columns of p sum to {total[row]:.6g} in row {row}; give probabilities of "
                "both classes, which sum to 1"
            )
    return values
