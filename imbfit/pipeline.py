"""What an estimator can't see of the pipeline around it."""

from __future__ import annotations

import warnings
from typing import Any

from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.wrapper import DownsampledClassifier
from imbfit.threshold.classifier import OTLPThresholdClassifier
from imbfit.threshold.inner_model import pipelines_in

__all__ = ["check_pipeline"]


def check_pipeline(pipe: Any) -> Any:
    """Warn where a sampler comes before an estimator that needs the population's prevalence.

    Thresholds chosen on resampled rows meet their constraints at the resampled prevalence, which is
    not that of the rows to come: precision looks too good, and far too many rows are flagged. A
    `DownsampledGLMClassifier` or `DownsampledClassifier` counts the rate that it draws at itself,
    and takes resampled rows for the population. From inside its pipeline an estimator sees the
    resampled rows only, so it can't tell.

    Parameters
    ----------
    pipe : Pipeline or estimator
        A pipeline, or an estimator that has pipelines among its parameters, such as a
        `GridSearchCV` around one.

    Returns
    -------
    Pipeline or estimator
        `pipe`, as it came.

    Raises
    ------
    TypeError
        If there is no pipeline in `pipe`.

    Warns
    -----
    UserWarning
        For each `OTLPThresholdClassifier` after a sampler, and for each downsampled estimator after
        one that was not told so by ``presampled=True``.

    Examples
    --------
    The sampler belongs inside:

    >>> from imbfit import OTLPThresholdClassifier
    >>> from imbfit.pipeline import check_pipeline
    >>> from imblearn.pipeline import make_pipeline
    >>> from imblearn.under_sampling import RandomUnderSampler
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import StandardScaler
    >>> sampled = make_pipeline(RandomUnderSampler(random_state=0), LogisticRegression())
    >>> pipe = check_pipeline(make_pipeline(StandardScaler(), OTLPThresholdClassifier(sampled)))
    """
    pipelines = list(pipelines_in(pipe))
    if not pipelines:
        raise TypeError(f"{type(pipe).__name__} has no pipeline in it; give a Pipeline")
    for pipeline in pipelines:
        samplers = []
        for name, step in pipeline.steps:
            if hasattr(step, "fit_resample"):
                samplers.append(name)
            elif samplers and _has_thresholds(step):
                warnings.warn(
                    f"the sampler {samplers[0]!r} comes before {name!r}, so its thresholds would "
                    "be chosen at the resampled prevalence. Put the sampler inside: "
                    "OTLPThresholdClassifier(make_pipeline(sampler, classifier))",
                    UserWarning,
                    stacklevel=2,
                )
            elif samplers and _takes_rows_for_all(step):
                warnings.warn(
                    f"the sampler {samplers[0]!r} comes before {name!r}, which takes the sampled "
                    "rows for the population. Give the sampler to it instead, "
                    "sampling_rate=RandomUnderSampler(), or write presampled=True with the "
                    "sampler's rate as sampling_rate, or with prevalence=",
                    UserWarning,
                    stacklevel=2,
                )
    return pipe


def _has_thresholds(step: Any) -> bool:
    return any(isinstance(part, OTLPThresholdClassifier) for part in _parts(step))


def _takes_rows_for_all(step: Any) -> bool:
    kinds = (DownsampledGLMClassifier, DownsampledClassifier)
    return any(isinstance(part, kinds) and not part.presampled for part in _parts(step))


def _parts(step: Any) -> list[Any]:
    inner = list(step.get_params(deep=True).values()) if hasattr(step, "get_params") else []
    return [step, *inner]
