"""An inner classifier, fitted on samples and calibrated on scores of rows that it has not seen."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.parallel import Parallel, delayed

from imbfit._frames import take_rows
from imbfit._training_rows import check_splits, cut_params
from imbfit.glm.calibrators import IsotonicCalibrator, OutOfFold, SigmoidCalibrator
from imbfit.glm.draws import Draw, LabelledRows
from imbfit.glm.inner_classifier import Reader

__all__ = ["fit_on", "learn_calibrator"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Positions: TypeAlias = NDArray[np.intp]

_FOLDS = 5


def fit_on(
    estimator: Any, X: Any, labels: NDArray[Any], drawn: Draw, to_fit: Mapping[str, Any]
) -> Any:
    """Fit a clone on a sample.

    Parameters
    ----------
    estimator : estimator
        Left as it is.
    X : frame, array, sparse matrix or sequence of length n_rows
        All rows.
    labels : ndarray of shape (n_rows,)
        Their labels.
    drawn : Draw
        Which of them are kept.
    to_fit : mapping
        Passed to fit, what has an entry for each row cut to the sample.

    Returns
    -------
    estimator
    """
    if len(drawn.rows) == len(labels):
        return clone(estimator).fit(X, labels, **to_fit)
    cut = cut_params(to_fit, drawn.rows, len(labels))
    return clone(estimator).fit(take_rows(X, drawn.rows), labels[drawn.rows], **cut)


def learn_calibrator(
    estimator: Any,
    X: Any,
    rows: LabelledRows,
    reader: Reader,
    *,
    correction: str,
    cv: Any,
    to_fit: Mapping[str, Any],
    to_split: Mapping[str, Any],
    n_jobs: int | None,
) -> OutOfFold:
    """Calibrate on scores that no model has given to rows of its own sample.

    Parameters
    ----------
    estimator : estimator
        Cloned for each fold.
    X : frame, array, sparse matrix or sequence of length n_rows
        All rows.
    rows : LabelledRows
        Their labels, and how samples are drawn from them.
    reader : Reader
        How scores are read.
    correction : {"sigmoid", "isotonic"}
        Which calibrator.
    cv : int, splitter, iterable or None
        The folds.
    to_fit, to_split : mapping
        Passed to the models' fit and to the splitter's split.
    n_jobs : int or None
        Folds fitted in parallel.

    Returns
    -------
    OutOfFold

    Raises
    ------
    ValueError
        If a fold has nothing to fit or to test, or no fold tests rows of one of the classes.
    """
    splits = _draw_splits(cv, X, rows, to_split)
    draws = [
        rows.draw(train, where=f" among the training rows of fold {fold} of cv")
        for fold, (train, _) in enumerate(splits)
    ]
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_score)(estimator, X, rows.labels, drawn, test, reader, to_fit)
        for drawn, (_, test) in zip(draws, splits, strict=True)
    )
    scores, are_log_odds = zip(*parts, strict=True)
    tested = np.concatenate([test for _, test in splits])
    times = np.bincount(tested, minlength=len(rows.labels))
    weight = rows.natural_weight()[tested] / times[tested]
    counts = weight > 0
    score, weight = np.concatenate(scores)[counts], weight[counts]
    positive = rows.positive[tested][counts]
    _check_tested(positive, rows)
    make = IsotonicCalibrator if correction == "isotonic" else SigmoidCalibrator
    calibrator = make.learned(score, positive, weight, from_log_odds=all(are_log_odds))
    negative = expit(calibrator.log_odds(score[~positive]))
    return OutOfFold(calibrator, float(np.average(negative, weights=weight[~positive])))


def _draw_splits(
    cv: Any, X: Any, rows: LabelledRows, to_split: Mapping[str, Any]
) -> list[tuple[Positions, Positions]]:
    labels = rows.labels
    cv = _FOLDS if cv is None else cv
    if isinstance(cv, (str, float, bool)):
        raise ValueError(  # noqa: TRY004
            f"cv={cv!r}: give an int, a splitter, or a list of splits"
        )
    if not isinstance(cv, numbers.Integral):
        splits = check_cv(cv, labels, classifier=True).split(X, labels, **to_split)
        return check_splits(splits, labels)
    if cv < 2:
        raise ValueError(
            f"cv={cv!r}: give an int of at least 2, a splitter, or a list of splits; "
            "correction='prior' needs no folds"
        )
    # rows without weight are never fitted on, and would take the place of others in a fold
    counted = np.flatnonzero(rows.natural_weight() > 0)
    positives = int(np.count_nonzero(rows.positive[counted]))
    folds = StratifiedKFold(min(int(cv), positives, len(counted) - positives))
    own = cut_params(to_split, counted, len(labels))
    splits = folds.split(counted, labels[counted], **own)
    return check_splits(((counted[train], counted[test]) for train, test in splits), labels)


def _check_tested(positive: Bools, rows: LabelledRows) -> None:
    """Raise where no fold tests a row of one of the classes."""
    if positive.any() and not positive.all():
        return
    left = rows.labels[~rows.positive if positive.any() else rows.positive]
    raise ValueError(
        f"cv tests none of the {len(left)} rows of the class {left.tolist()[0]!r}, so nothing can "
        "be calibrated; use stratified folds, such as cv=2, or correction='prior', which needs none"
    )


def _fit_and_score(  # noqa: PLR0917
    estimator: Any,
    X: Any,
    labels: NDArray[Any],
    drawn: Draw,
    test: Positions,
    reader: Reader,
    to_fit: Mapping[str, Any],
) -> tuple[Floats, bool]:
    model = fit_on(estimator, X, labels, drawn, to_fit)
    score = reader.score(model, take_rows(X, test), drawn.log_ratio)
    return score, hasattr(model, "predict_proba")
