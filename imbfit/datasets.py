"""Simulated rare events whose coefficients are known.

The probability of a row is ``F(intercept + X @ coef)``, with ``F`` the inverse link. Segments
differ in their base rate because their features do; given the features, neither the segment nor the
day nor the amount says anything more about the label. So a model of the features alone is right,
and its coefficients can be compared with the ones returned.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from sklearn.utils import Bunch, check_random_state

Floats = NDArray[np.float64]

# Norm of the coefficients. With the logit link it gives an area under the ROC curve of about 0.95
# at a prevalence of 0.01: enough for thresholds with a precision above one half, too little to
# separate the classes.
SIGNAL = 2.5

# The segments' mean linear predictors run from -SPREAD (the largest segment) to +SPREAD (the
# smallest one).
SPREAD = 0.75

FIRST_DAY = np.datetime64("2024-01-01", "D")


def _inverse_cloglog(eta: Floats) -> Floats:
    # exp overflows above 709, where the probability has long been 1
    return -np.expm1(-np.exp(np.minimum(eta, 700.0)))


INVERSE_LINKS: dict[str, Callable[[Floats], Floats]] = {
    "logit": expit,
    "probit": ndtr,
    "cloglog": _inverse_cloglog,
}


def make_rare_events(
    n_samples: int = 20_000,
    *,
    prevalence: float = 0.01,
    n_features: int = 6,
    n_segments: int = 4,
    n_days: int = 30,
    link: str = "logit",
    random_state: Any = None,
    as_frame: bool = False,
) -> Bunch:
    """Simulate card transactions with rare fraud and known coefficients.

    The features are normal, and shifted by segment so that small segments have more fraud. A label
    is drawn with probability ``F(intercept + X @ coef)``, where ``F`` is the inverse of `link` and
    the intercept is solved for, so that the mean probability over the drawn rows equals
    `prevalence`. Amounts are log-normal and somewhat larger where fraud is likely. The rows come in
    order of their date.

    Parameters
    ----------
    n_samples : int, default=20000
        Number of rows, at least `n_segments`: each segment has at least one row.
    prevalence : float, default=0.01
        Mean probability of a positive over the drawn rows, strictly between 0 and 1. The number of
        positives itself is random, and may be 0 where ``n_samples * prevalence`` is small.
    n_features : int, default=6
        Number of features. Their effects alternate in sign and shrink from the first to the last.
    n_segments : int, default=4
        Number of segments. On average segment ``"S1"`` is the largest one and has the lowest base
        rate, and the last one is the smallest and has the highest.
    n_days : int, default=30
        Number of days, from 2024-01-01 on. A row's day is drawn uniformly, so with few rows a day
        may stay empty.
    link : {"logit", "probit", "cloglog"}, default="logit"
        Link between the probability and the linear predictor. The same seed gives the same
        features, segments, dates and amounts for every link.
    random_state : int, numpy.random.RandomState or None, default=None
        Seed of the draw. With None each call draws anew.
    as_frame : bool, default=False
        If True, `X`, `y` and `frame` are pandas objects. This needs pandas.

    Returns
    -------
    sklearn.utils.Bunch
        With the attributes

        X : ndarray or DataFrame of shape (n_samples, n_features)
            Features only.
        y : ndarray or Series of shape (n_samples,), of int
            1 for fraud, else 0.
        frame : DataFrame of shape (n_samples, n_features + 3) or None
            Features, then the columns ``segment``, ``date`` and ``amount``; None unless `as_frame`
            is True.
        segment : ndarray of shape (n_samples,), of str
            Segment of each row.
        date : ndarray of shape (n_samples,), of datetime64[D]
            Day of each row, ascending.
        amount : ndarray of shape (n_samples,)
            Money at stake, in units with two decimals, at least 0.01.
        probability : ndarray of shape (n_samples,)
            True probability of a positive.
        coef : ndarray of shape (n_features,)
            True coefficients.
        intercept : float
            True intercept.
        link : str
            The link used.
        feature_names : list of str
            Names of the features, ``"x1"`` and so on.
        segment_names : list of str
            Names of the segments, from the largest to the smallest.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    TypeError
        If an argument is of the wrong type.
    ImportError
        If `as_frame` is True and pandas is not installed.

    Examples
    --------
    >>> from imbfit.datasets import make_rare_events
    >>> cards = make_rare_events(10_000, prevalence=0.02, random_state=0)
    >>> cards.X.shape, int(cards.y.sum())
    ((10000, 6), 215)
    >>> round(float(cards.probability.mean()), 9)
    0.02
    >>> for name in cards.segment_names:
    ...     rows = cards.segment == name
    ...     print(f"{name}: {rows.sum()} rows, {cards.probability[rows].mean():.1%} fraud")
    S1: 4857 rows, 1.3% fraud
    S2: 2363 rows, 2.0% fraud
    S3: 1568 rows, 2.8% fraud
    S4: 1212 rows, 3.9% fraud
    """
    n_segments = _whole_number("n_segments", n_segments, least=1)
    n_samples = _whole_number("n_samples", n_samples, least=1)
    n_features = _whole_number("n_features", n_features, least=1)
    n_days = _whole_number("n_days", n_days, least=1)
    if n_samples < n_segments:
        raise ValueError(
            f"n_samples={n_samples} rows cannot fill n_segments={n_segments} segments with one row "
            f"or more each; draw at least {n_segments} rows or ask for fewer segments."
        )
    if isinstance(prevalence, bool) or not isinstance(prevalence, Real):
        raise TypeError(
            f"prevalence must be a number strictly between 0 and 1, got {prevalence!r}."
        )
    if not 0 < prevalence < 1:
        raise ValueError(
            f"prevalence must be strictly between 0 and 1, got {prevalence!r}; "
            "write 0.01 for one positive in a hundred."
        )
    if link not in tuple(INVERSE_LINKS):
        raise (ValueError if isinstance(link, str) else TypeError)(
            f"link must be one of {', '.join(map(repr, INVERSE_LINKS))}, got {link!r}."
        )
    if not isinstance(as_frame, bool):
        raise TypeError(f"as_frame must be True or False, got {as_frame!r}.")

    rng = check_random_state(random_state)
    coef = _coefficients(n_features)
    segment_index = _draw_segments(rng, n_samples, n_segments)
    shift = np.linspace(-SPREAD, SPREAD, n_segments) if n_segments > 1 else np.zeros(1)
    # moving along coef changes the linear predictor by exactly the shift
    X = rng.standard_normal((n_samples, n_features))
    X += np.outer(shift[segment_index], coef / (coef @ coef))
    date = FIRST_DAY + np.sort(rng.randint(n_days, size=n_samples))
    uniform = rng.uniform(size=n_samples)
    noise = rng.standard_normal(n_samples)

    score = X @ coef
    inverse_link = INVERSE_LINKS[link]
    intercept = _solve_intercept(inverse_link, score, float(prevalence))
    probability = inverse_link(intercept + score)
    # a correlation of 0.2 with the linear predictor: fraud is dearer on average, but most of the
    # dearest rows are honest
    log_amount = 3.5 + 1.2 * (0.2 * score / SIGNAL + np.sqrt(1 - 0.2**2) * noise)
    segment_names = [f"S{j}" for j in range(1, n_segments + 1)]
    cards = Bunch(
        X=X,
        y=(uniform < probability).astype(np.int64),
        frame=None,
        segment=np.array(segment_names)[segment_index],
        date=date,
        amount=np.maximum(np.round(np.exp(log_amount), 2), 0.01),
        probability=probability,
        coef=coef,
        intercept=intercept,
        link=link,
        feature_names=[f"x{j}" for j in range(1, n_features + 1)],
        segment_names=segment_names,
    )
    return _with_frame(cards) if as_frame else cards


def _whole_number(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r}.")
    return int(value)


def _coefficients(n_features: int) -> Floats:
    order = np.arange(n_features)
    coef = (-1.0) ** order / np.sqrt(order + 1.0)
    return SIGNAL * coef / np.linalg.norm(coef)


def _draw_segments(rng: np.random.RandomState, n_samples: int, n_segments: int) -> NDArray[np.intp]:
    size = 1.0 / np.arange(1, n_segments + 1)
    drawn = rng.choice(n_segments, size=n_samples - n_segments, p=size / size.sum())
    return rng.permutation(np.concatenate([np.arange(n_segments), drawn]))


def _solve_intercept(
    inverse_link: Callable[[Floats], Floats], score: Floats, prevalence: float
) -> float:
    def excess(intercept: float) -> float:
        return float(inverse_link(intercept + score).mean()) - prevalence

    # The mean probability grows from 0 to 1 with the intercept, so a wide enough bracket holds the
    # only root.
    reach = 1.0
    while excess(-reach) > 0 or excess(reach) < 0:
        reach *= 2
    return float(brentq(excess, -reach, reach, xtol=1e-14, rtol=4 * np.finfo(float).eps))


def _with_frame(cards: Bunch) -> Bunch:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas, which is not installed; "
            "install it, or leave as_frame=False for arrays."
        ) from error
    cards.X = pd.DataFrame(cards.X, columns=cards.feature_names)
    cards.y = pd.Series(cards.y, name="fraud")
    # pandas has no unit of a day
    cards.frame = cards.X.assign(
        segment=cards.segment, date=cards.date.astype("datetime64[s]"), amount=cards.amount
    )
    return cards
