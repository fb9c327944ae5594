"""Which rows a cut is chosen on: those that the folds of a splitter test."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from imbfit._training_rows import check_splits
from imbfit.adversarial.players import Rows

__all__ = ["rows_of_folds", "split_rows"]


def rows_of_folds(rows: Rows, tested: np.ndarray) -> Rows:
    """Return the rows that folds score, each time with its share of a weight of all rows."""
    times = np.bincount(tested, minlength=len(rows.positive))
    if (times == 1).all():
        return rows.some(tested)
    share = (np.ones(len(times)) if rows.weight is None else rows.weight)[tested] / times[tested]
    scaled = share * (rows.total / share.sum())
    return Rows(rows.X[tested], rows.positive[tested], scaled)


def split_rows(cv: Any, X: Any, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return all splits of rows as positions, each with two classes to train on."""
    splitter = _splitter(cv, labels)
    try:
        pairs = [(train, test) for train, test in splitter.split(X, labels)]
        _ = np.concatenate([labels[part] for pair in pairs for part in pair])
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"cv={cv!r} does not split these {len(labels)} rows: {error}; give an int, or a list "
            "of pairs of training and test rows, such as list(GroupKFold(5).split(X, y, groups))"
        ) from error
    return check_splits(pairs, labels)


def _splitter(cv: Any, labels: np.ndarray) -> Any:
    if isinstance(cv, (str, bool, float)):
        raise ValueError(  # noqa: TRY004
            f"cv={cv!r}: give an int, a splitter, or a list of splits"
        )
    rare = int(min(np.count_nonzero(labels), np.count_nonzero(1 - labels)))
    if isinstance(cv, numbers.Integral):
        if cv < 2:
            raise ValueError(f"cv={cv!r}: give a whole number of at least 2, or a splitter")
        if rare < 2:
            raise ValueError(
                "threshold='tuned' trains without each fold in turn, and there is one row of a "
                "class; write threshold='train'"
            )
        # with fewer rows of a class than folds some folds would have none
        cv = min(int(cv), rare)
    return check_cv(cv, labels, classifier=True)
