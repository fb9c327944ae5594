"""What has to be known of an inner classifier, and how its scores are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit._labels import column_vector, first_rows

Floats: TypeAlias = NDArray[np.float64]

# Parameters by which scikit-learn, XGBoost, LightGBM and CatBoost weight the classes.
_CLASS_WEIGHTS = {
    "class_weight", "class_weights", "auto_class_weights", "scale_pos_weight", "is_unbalance"
}  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """How an inner model's scores are read.

    Attributes
    ----------
    classes : ndarray of shape (2,)
        The labels, where the model does not know them.
    pos_label : label
        The positive one.
    corrects : bool
        Whether probabilities are mapped by the sampling rate.
    """

    classes: NDArray[Any]
    pos_label: Any
    corrects: bool

    def score(self, model: Any, X: Any, log_ratio: float) -> Floats:
        """Return the positive's log-odds in the population, or else its decision values."""
        known = getattr(model, "classes_", None)
        classes = self.classes if known is None else np.asarray(known)
        if not hasattr(model, "predict_proba"):
            if not hasattr(model, "decision_function"):
                raise ValueError(
                    f"{type(model).__name__} has neither predict_proba nor decision_function, so "
                    "it gives no score; choose another model"
                )
            score = column_vector(model.decision_function(X), "decision_function").astype(float)
            _check_numbers(score, model, "decision_function")
            return score if classes[1] == self.pos_label else -score
        proba = np.asarray(model.predict_proba(X))
        if proba.ndim != 2 or proba.shape[1] != 2:
            raise ValueError(
                f"predict_proba of {type(model).__name__} has shape {proba.shape}; two columns are "
                "needed, one for each class"
            )
        place = int(np.flatnonzero(classes == self.pos_label)[0])
        p, q = proba[:, place].astype(float), proba[:, 1 - place].astype(float)
        _check_numbers(p, model, "predict_proba")
        with np.errstate(divide="ignore"):
            log_odds = np.log(p) - np.log(q)
        return np.asarray(log_odds + log_ratio if self.corrects else log_odds)


def _check_numbers(score: Floats, model: Any, name: str) -> None:
    if np.isnan(score).any():
        raise ValueError(
            f"{name} of {type(model).__name__} is NaN in {first_rows(np.isnan(score))}; the model "
            "did not fit, or can't take these rows"
        )


def last_step(estimator: Any) -> Any:
    """Return what a pipeline ends in; anything else as it is."""
    steps = getattr(estimator, "steps", None)
    return last_step(steps[-1][1]) if isinstance(steps, list) and steps else estimator


def no_probabilities(model: Any) -> str:
    """Say that a model can't be corrected by the prior map, and what can be done."""
    return (
        f"{type(model).__name__} has no predict_proba, and correction='prior' maps probabilities; "
        "pass correction='sigmoid' or 'isotonic', which work on its decision_function"
    )


def reweighting(estimator: Any, *, balance: float) -> list[str]:
    """Say what in an estimator changes the odds of the classes.

    Parameters
    ----------
    estimator : estimator
        Unfitted.
    balance : float
        Negatives per positive in the sample; "balanced" weights multiply the odds by it.

    Returns
    -------
    list of str
    """
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    found = []
    for name, value in params.items():
        last = name.rpartition("__")[2]
        if last in _CLASS_WEIGHTS and _is_uneven(last, value, balance):
            found.append(f"{name}={value!r}")
    parts = [("estimator", estimator), *params.items()]
    for name, part in parts:
        if isinstance(part, type):
            continue
        if hasattr(part, "fit_resample"):
            found.append(f"the sampler {type(part).__name__}() in it")
        elif type(part).__module__.startswith("imblearn.ensemble"):
            found.append(f"{name}={type(part).__name__}(), which resamples")
    return list(dict.fromkeys(found))


def _is_uneven(name: str, value: Any, balance: float) -> bool:
    if value is None or value is False:
        return False
    if name == "scale_pos_weight":
        return bool(value != 1)
    if isinstance(value, Mapping):
        # a class that is not named weighs 1
        weights = set(value.values()) | ({1} if len(value) < 2 else set())
        return len(weights) > 1
    if isinstance(value, (list, tuple, np.ndarray)):
        return len(set(value)) > 1
    return balance != 1
