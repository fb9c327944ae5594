"""Scores for the choice of thresholds: out of fold, pooled into one table.

Thresholds averaged over folds meet no constraint exactly, and those tuned on rows that the model
has seen meet it on the wrong scores. So each row is scored by a model that was fitted without it,
all scores go into one table, and the thresholds are chosen on that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedShuffleSplit, check_cv
from sklearn.utils.parallel import Parallel, delayed

from imbfit._frames import row_count, take_rows
from imbfit._training_rows import check_splits, cut_params
from imbfit.threshold.response import Response

# Rows of each class that every fold's model scores, to compare the models' scales.
_SHARED = 300
# With fewer rows a median and a deviation say little, and more models add little.
_FEWEST_SHARED = 50
_MOST_COMPARED = 20


@dataclass(frozen=True)
class PooledScores:
    """One score for each row and fold that tests it.

    Attributes
    ----------
    rows : ndarray of int
        The scored rows' positions in X.
    score : ndarray of float
        Their scores.
    fold : ndarray of int
        The fold that each score is from.
    times : ndarray of int or None
        How often each score's row is scored; None where each row is scored once.
    n_folds : int
        How many folds there are.
    n_left_out : int
        Rows that no fold tests.
    model : estimator or None
        The only fold's model.
    shared : ndarray of float, shape (n_models, n_shared_rows)
        Scores of the same rows by the models of several folds.
    """

    rows: np.ndarray
    score: np.ndarray
    fold: np.ndarray
    times: np.ndarray | None
    n_folds: int
    n_left_out: int
    model: Any
    shared: np.ndarray

    def share(self, weight: np.ndarray | None) -> np.ndarray | None:
        """Return case weights of the scores, whose sum for each row is the row's weight."""
        own = None if weight is None else weight[self.rows]
        if self.times is None:
            return own
        # one division, so that the search can recover the fraction from the float
        return np.asarray((1.0 if own is None else own) / self.times)


def frozen_scores(model: Any, X: Any, response: Response) -> PooledScores:
    """Score every row once by a model that is not to be refitted."""
    rows = np.arange(row_count(X))
    fold = np.zeros(len(rows), np.intp)
    return PooledScores(rows, response.score(model, X), fold, None, 1, 0, model, np.empty((1, 0)))


def draw_splits(
    cv: Any, X: Any, y: np.ndarray, *, random_state: Any, split_params: Mapping[str, Any]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw all splits, once.

    Parameters
    ----------
    cv : int, float, splitter or iterable
        As in scikit-learn; a float is the share of rows in the one test set.
    X, y : table and ndarray
        The rows.
    random_state : int, RandomState or None
        For a float.
    split_params : mapping
        Such as groups.

    Returns
    -------
    list of (train, test)
        Positions of rows.

    Raises
    ------
    ValueError
        If a split is empty, or its training rows hold one class.
    """
    if isinstance(cv, (float, np.floating)):
        if not 0 < cv < 1:
            raise ValueError(
                f"cv={cv!r}: a float is the share of rows to test on, between 0 and 1; for folds "
                "give an int"
            )
        splitter: Any = StratifiedShuffleSplit(1, test_size=float(cv), random_state=random_state)
    elif isinstance(cv, (str, bool)):
        raise ValueError(  # noqa: TRY004
            f"cv={cv!r}: give an int, a float, a splitter, a list of splits, or 'prefit'"
        )
    else:
        splitter = check_cv(cv, y, classifier=True)
    return check_splits(splitter.split(X, y, **split_params), y)


def out_of_fold_scores(
    estimator: Any,
    X: Any,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    response: Response,
    *,
    fit_params: Mapping[str, Any],
    n_jobs: int | None = None,
    verbose: int = 0,
) -> PooledScores:
    """Fit a model on each split's training rows and pool the scores of its test rows.

    Parameters
    ----------
    estimator : estimator
        Cloned for each split.
    X : frame, array or sequence
        All columns.
    y : ndarray of shape (n_rows,)
        Labels, as the model is to see them.
    splits : sequence of (train, test)
        From `draw_splits`.
    response : Response
        How to score.
    fit_params : mapping
        Passed to the model's fit, cut to the training rows where they have one entry per row.
    n_jobs : int, default=None
        Splits in parallel.
    verbose : int, default=0
        Whether to print progress.

    Returns
    -------
    PooledScores
    """
    visible = response.layout.inner(X)
    alone = len(splits) == 1
    nothing = np.empty(0, np.intp)
    shared = nothing if alone else _spread_rows(y)
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_score)(
            estimator, visible, X, y, train, test,
            shared if fold < _MOST_COMPARED else nothing,
            response, fit_params, alone, (fold, len(splits)) if verbose else None,
        )
        for fold, (train, test) in enumerate(splits)
    )  # fmt: skip
    rows = np.concatenate([test for _, test in splits])
    fold = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
    times = np.bincount(rows, minlength=len(y))
    once = times.max() == 1
    return PooledScores(
        rows=rows,
        score=np.concatenate([part[1] for part in parts]),
        fold=fold,
        times=None if once else times[rows],
        n_folds=len(splits),
        n_left_out=int(np.count_nonzero(times == 0)),
        model=parts[0][0],
        shared=np.array([part[2] for part in parts[:_MOST_COMPARED]]),
    )


def _spread_rows(y: np.ndarray) -> np.ndarray:
    """Return positions of some rows of each class, evenly spread."""
    parts = []
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        parts.append(own[np.linspace(0, len(own) - 1, min(len(own), _SHARED)).astype(np.intp)])
    return np.concatenate(parts)


def _fit_and_score(  # noqa: PLR0917
    estimator: Any,
    visible: Any,
    X: Any,
    y: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    shared: np.ndarray,
    response: Response,
    fit_params: Mapping[str, Any],
    keep: bool,  # noqa: FBT001
    progress: tuple[int, int] | None,
) -> tuple[Any, np.ndarray, np.ndarray]:
    model = clone(estimator)
    model.fit(take_rows(visible, train), y[train], **cut_params(fit_params, train, len(y)))
    score = response.score(model, take_rows(X, test), rows=test)
    if progress is not None:
        print(f"fold {progress[0] + 1}/{progress[1]}: {len(test)} rows scored")  # noqa: T201
    same = response.score(model, take_rows(X, shared), rows=shared) if len(shared) else np.empty(0)
    return (model if keep else None), score, same


def scale_difference(shared: np.ndarray) -> str | None:
    """Say how the models of the folds differ in scale, or None where they do not.

    A pooled threshold supposes that a score means the same whichever fold's model gave it. All
    models score the same rows, so that a difference is theirs and not that of the folds' rows. It
    is told where medians lie two standard deviations apart, or where one model's scores
    spread more than 2.5 times as wide as another's.

    Parameters
    ----------
    shared : ndarray of float, shape (n_models, n_rows)
        Scores of the same rows by each fold's model.

    Returns
    -------
    str or None
    """
    usable = shared[:, np.isfinite(shared).all(axis=0)]
    if usable.shape[0] < 2 or usable.shape[1] < _FEWEST_SHARED:
        return None
    ends = np.quantile(usable, [0.01, 0.99], axis=1)[:, :, np.newaxis]
    spread = np.clip(usable, *ends).std(axis=1)
    middle = np.median(usable, axis=1)
    low, high = int(middle.argmin()), int(middle.argmax())
    if middle[high] - middle[low] > 2 * spread.mean():
        return (
            f"the median score of the same rows is {middle[low]:.4g} by the model of fold {low} "
            f"and {middle[high]:.4g} by that of fold {high}"
        )
    narrow, wide = int(spread.argmin()), int(spread.argmax())
    if spread[wide] > 2.5 * spread[narrow]:
        return (
            f"the standard deviation of scores of the same rows is {spread[narrow]:.4g} by the "
            f"model of fold {narrow} and {spread[wide]:.4g} by that of fold {wide}"
        )
    return None
