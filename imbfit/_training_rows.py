"""The rows given to a meta-estimator's `fit`: checked, split, and passed to the inner model."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import has_fit_parameter

from imbfit._frames import align, row_count, take_rows
from imbfit._labels import distinct, first_rows, is_missing, row_weights


def check_rows(
    X: Any, y: Any, *, sample_weight: Any, owner: str, purpose: str, **beside: Any
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Check what comes with X against it, and the labels for two classes.

    Parameters
    ----------
    X : frame, array, sparse matrix or sequence of length n_rows
        Not looked into.
    y, sample_weight : array-like or None
        With an entry for each row.
    owner : str
        The estimator that errors name.
    purpose : str
        What it wants with the rows of two classes.
    **beside : array-like, frame or None
        More with an entry for each row, by the name that errors use.

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
    for name, value in {"y": y, "sample_weight": sample_weight, **beside}.items():
        align(value, X, name)
    (X,) = indexable(X)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    _check_labels(labels, purpose)
    found = np.unique(labels)
    if len(found) < 2:
        raise ValueError(
            f"y has one class, {found.tolist()[0]!r}, in all {len(labels)} rows; {purpose} the "
            "rows of two classes"
        )
    return X, labels, row_weights(sample_weight, len(labels))


def _check_labels(labels: np.ndarray, purpose: str) -> None:
    if not len(labels):
        raise ValueError(f"y has no rows; {purpose} the rows of two classes")
    absent = np.zeros(len(labels), bool)
    if labels.dtype.kind == "f":
        absent = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        absent = np.fromiter(map(is_missing, labels), bool, len(labels))
    if absent.any():
        raise ValueError(f"y has no label in {first_rows(absent)}; drop these rows")
    if labels.dtype.kind == "O":
        distinct(labels, "y")  # names types that don't compare
    kind = type_of_target(labels, input_name="y", raise_unknown=True)
    if kind == "continuous":
        raise ValueError(f"Unknown label type: {kind}; y must hold labels of two kinds")
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}; code the "
            "positive class against the rest"
        )


def check_splits(
    splits: Iterable[tuple[Any, Any]], labels: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return all splits as positions of rows, each with two classes to fit on.

    Parameters
    ----------
    splits : iterable of (train, test)
        Positions or masks, as a splitter gives them.
    labels : ndarray of shape (n_rows,)
        Of two kinds.

    Returns
    -------
    list of (train, test)

    Raises
    ------
    ValueError
        If a split is empty, or its training rows hold one class.
    """
    checked = []
    for fold, parts in enumerate(splits):
        train, test = (_positions(part, len(labels)) for part in parts)
        if not len(train) or not len(test):
            raise ValueError(f"fold {fold} of cv has no rows to {'test' if len(train) else 'fit'}")
        found = np.unique(labels[train])
        if len(found) < 2:
            raise ValueError(
                f"the {len(train)} training rows of fold {fold} hold only the class "
                f"{found.tolist()[0]!r}, so no model can be fitted; use fewer folds, a stratified "
                "splitter, or drop the first folds of a time series"
            )
        checked.append((train, test))
    return checked


def _positions(part: Any, rows: int) -> np.ndarray:
    array = np.asarray(part)
    return np.flatnonzero(array) if array.dtype == bool and len(array) == rows else array


def cut_params(params: Mapping[str, Any], rows: np.ndarray, n_rows: int) -> dict[str, Any]:
    """Cut parameters of a fit or a split that have one entry per row to some rows."""
    return {
        name: take_rows(value, rows) if _per_row(value, n_rows) else value
        for name, value in params.items()
    }


def _per_row(value: Any, n_rows: int) -> bool:
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__"):
        return False
    return row_count(value) == n_rows


def route_fit(
    owner: Any,
    *,
    weight: np.ndarray | None,
    groups: Any,
    own: Mapping[str, Any] | None = None,
    passed: Mapping[str, Any] | None = None,
    elsewhere: str,
    refits: bool = True,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what goes to the inner model's fit and to the splitter's split.

    Parameters
    ----------
    owner : estimator
        Whose `fit` it is, with an inner `estimator`. It says itself where metadata go, if routing
        is on.
    weight : ndarray or None
        The checked case weights.
    groups : array-like or None
        For the splitter.
    own : mapping, default=None
        More metadata, which the inner model gets only if it has asked for them.
    passed : mapping, default=None
        More metadata, which the inner model gets.
    elsewhere : str
        What the weights do besides, if the inner model takes none.
    refits : bool, default=True
        Whether the inner model is fitted at all.

    Returns
    -------
    to_fit : dict
        For the inner model's fit.
    to_split : dict
        For the splitter's split.
    """
    passed = dict(passed or {})
    if get_config()["enable_metadata_routing"]:
        given = {"sample_weight": weight, "groups": groups, **(own or {}), **passed}
        given = {name: value for name, value in given.items() if value is not None}
        routed = process_routing(owner, "fit", **given)
        return dict(routed.estimator.fit) if refits else {}, dict(routed.splitter.split)
    if weight is not None and refits:
        name = weight_parameter(owner.estimator)
        if name is None:
            warnings.warn(
                f"{type(owner.estimator).__name__}.fit takes no sample_weight; the weights "
                f"{elsewhere} only",
                UserWarning,
                stacklevel=3,
            )
        else:
            passed[name] = weight
    return passed, {} if groups is None else {"groups": groups}


def weight_parameter(estimator: Any) -> str | None:
    """Name under which an estimator's fit takes case weights, without metadata routing."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(getattr(estimator, "steps", None), list):
        name, last = estimator.steps[-1]
        inner = None if last is None or isinstance(last, str) else weight_parameter(last)
        return None if inner is None else f"{name}__{inner}"
    # searches pass on what they get, cut to the fold
    takes = inspect.signature(estimator.fit).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in takes) and hasattr(estimator, "estimator"):
        return weight_parameter(estimator.estimator)
    return None
