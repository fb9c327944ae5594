"""What has to be known of an inner model before it is fitted, or taken as fitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted


def pipelines_in(estimator: Any) -> Iterator[Any]:
    """Yield every pipeline in an estimator and its parameters, outer ones first."""
    parts = [estimator]
    if hasattr(estimator, "get_params"):
        parts += list(estimator.get_params(deep=True).values())
    for part in parts:
        if not isinstance(part, type) and isinstance(getattr(part, "steps", None), list):
            yield part


def refuse_sampler(estimator: Any) -> None:
    """Raise where a sampler in the inner model would lose the case weights."""
    for pipeline in pipelines_in(estimator):
        for name, step in pipeline.steps:
            if hasattr(step, "fit_resample"):
                raise ValueError(
                    f"sample_weight can't be used with the sampler {name!r} "
                    f"({type(step).__name__}) inside the estimator: the weights belong to the rows "
                    "before resampling, and would hit others. Fit the pipeline first, then choose "
                    "the thresholds on held-out rows with sample_weight: OTLPThresholdClassifier("
                    "FrozenEstimator(pipeline)).fit(X_valid, y_valid, sample_weight=...); or take "
                    "a model with class_weight instead of the sampler"
                )


def check_inner_fitted(estimator: Any) -> None:
    """Raise where a model that is taken as fitted is not."""
    if hasattr(estimator, "classes_"):
        return
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
        name = type(inner).__name__
        raise NotFittedError(
            f"the thresholds of a fitted model were asked for, but this {name} is not fitted. Fit "
            "it first. A model under cv='prefit' is cloned, and so forgets what it learned, inside "
            "GridSearchCV, cross_val_score and the like: wrap it there as "
            f"OTLPThresholdClassifier(FrozenEstimator({name.lower()}))"
        ) from None
