"""The rows given to `fit`: paired, labelled and weighted."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.multiclass import type_of_target

from imbfit._frames import align
from imbfit._labels import first_rows, row_weights
from imbfit.threshold.row_segments import is_missing


def check_rows(
    X: Any, y: Any, *, sample_weight: Any, amounts: Any, groups: Any, owner: str
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Check what comes with X against it, and the labels for two classes.

    Parameters
    ----------
    X : frame, array, sparse matrix or sequence of length n_rows
        Not looked into.
    y, sample_weight, amounts, groups : array-like, frame or None
        With an entry for each row.
    owner : str
        The estimator that errors name.

    Returns
    -------
    X : frame, array, sparse matrix or sequence
        With rows that can be taken by position.
    labels : ndarray of shape (n_rows,)
        Of two kinds.
    weight : ndarray of float or None
        The case weights.
    """
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None")
    for name, value in {
        "y": y, "sample_weight": sample_weight, "amounts": amounts, "groups": groups
    }.items():  # fmt: skip
        align(value, X, name)
    (X,) = indexable(X)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    _check_labels(labels)
    found = np.unique(labels)
    if len(found) < 2:
        raise ValueError(
            f"y has one class, {found.tolist()[0]!r}, in all {len(labels)} rows; a threshold "
            "is chosen between two classes"
        )
    if sample_weight is not None and not np.asarray(sample_weight).any():
        raise ValueError("sample_weight is zero in every row, so no row is left")
    return X, labels, row_weights(sample_weight, len(labels))


def _check_labels(labels: np.ndarray) -> None:
    if not len(labels):
        raise ValueError("y has no rows; thresholds are chosen on the rows of two classes")
    absent = np.zeros(len(labels), bool)
    if labels.dtype.kind == "f":
        absent = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        absent = np.fromiter(map(is_missing, labels), bool, len(labels))
    if absent.any():
        raise ValueError(f"y has no label in {first_rows(absent)}; drop these rows")
    kind = type_of_target(labels, input_name="y", raise_unknown=True)
    if kind == "continuous":
        raise ValueError(f"Unknown label type: {kind}; y must hold labels of two kinds")
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}"
        )
