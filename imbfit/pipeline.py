"""What an estimator can't see of the pipeline around it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import TunedThresholdClassifierCV

from imbfit.adversarial.classifier import AdversarialMetricClassifier
from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.wrapper import DownsampledClassifier
from imbfit.threshold.classifier import OTLPThresholdClassifier

__all__ = ["check_pipeline"]

# Around a pipeline they decide on rows as they come, and make nothing of the cut inside.
_DECIDE_OUTSIDE = (OTLPThresholdClassifier, TunedThresholdClassifierCV, CalibratedClassifierCV)


def check_pipeline(pipe: Any) -> Any:
    """Warn where a sampler comes before an estimator that needs the population's prevalence.

    Thresholds chosen on resampled rows meet their constraints at the resampled prevalence, which is
    not that of the rows to come: precision looks too good, and far too many rows are flagged. The
    same is true of the cut that an `AdversarialMetricClassifier` chooses for its metric, unless a
    threshold search around the pipeline chooses another. A `DownsampledGLMClassifier` or
    `DownsampledClassifier` counts the rate that it draws at itself, and takes resampled rows for
    the population. From inside its pipeline an estimator sees the resampled rows only, so it can't
    tell.

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
        For each step after a sampler that is, or has inside, an `OTLPThresholdClassifier`; a
        downsampled estimator that was not told of the sampler by ``presampled=True``; or an
        `AdversarialMetricClassifier` whose own cut is used, as it is with ``threshold="tuned"`` or
        ``"train"`` and no threshold search around it or around the pipeline.

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

    There the cut of a model that is trained for a metric is left aside, too:

    >>> from imbfit import AdversarialMetricClassifier
    >>> game = AdversarialMetricClassifier("f1", threshold="train")
    >>> sampled = make_pipeline(RandomUnderSampler(random_state=0), game)
    >>> pipe = check_pipeline(OTLPThresholdClassifier(sampled, objective="f1"))
    """
    pipelines = [(part, around) for part, around in _parts(pipe) if _is_pipeline(part)]
    if not pipelines:
        raise TypeError(f"{type(pipe).__name__} has no pipeline in it; give a Pipeline")
    for pipeline, around in pipelines:
        cut_is_used = not any(isinstance(outer, _DECIDE_OUTSIDE) for outer in around)
        samplers = []
        for name, step in pipeline.steps:
            if hasattr(step, "fit_resample"):
                samplers.append(name)
                continue
            if not samplers:
                continue
            if _has_thresholds(step):
                warnings.warn(
                    f"the sampler {samplers[0]!r} comes before {name!r}, so its thresholds would "
                    "be chosen at the resampled prevalence. Put the sampler inside: "
                    "OTLPThresholdClassifier(make_pipeline(sampler, classifier))",
                    UserWarning,
                    stacklevel=2,
                )
            elif _takes_rows_for_all(step):
                warnings.warn(
                    f"the sampler {samplers[0]!r} comes before {name!r}, which takes the sampled "
                    "rows for the population. Give the sampler to it instead, "
                    "sampling_rate=RandomUnderSampler(), or write presampled=True with the "
                    "sampler's rate as sampling_rate, or with prevalence=",
                    UserWarning,
                    stacklevel=2,
                )
            if cut_is_used and (model := _with_own_cut(step)) is not None:
                warnings.warn(
                    f"the sampler {samplers[0]!r} comes before {name!r}, so its cut "
                    f"(threshold={model.threshold!r}) would be chosen at the resampled prevalence: "
                    "precision looks too good there, and too many rows are flagged. Let a "
                    "threshold search around both choose the cut, with the same metric and "
                    "constraints: OTLPThresholdClassifier(make_pipeline(sampler, "
                    "AdversarialMetricClassifier(threshold='train')), objective=...)",
                    UserWarning,
                    stacklevel=2,
                )
    return pipe


def _has_thresholds(step: Any) -> bool:
    return any(isinstance(part, OTLPThresholdClassifier) for part, _ in _parts(step))


def _takes_rows_for_all(step: Any) -> bool:
    kinds = (DownsampledGLMClassifier, DownsampledClassifier)
    return any(isinstance(part, kinds) and not part.presampled for part, _ in _parts(step))


def _with_own_cut(step: Any) -> AdversarialMetricClassifier | None:
    """Return a model that chooses its cut on the rows of the step, if any."""
    # thresholds around it have their own warning, and a frozen cut was chosen before
    elsewhere = (OTLPThresholdClassifier, FrozenEstimator)
    for part, around in _parts(step):
        if (
            isinstance(part, AdversarialMetricClassifier)
            and part.threshold != "sign"
            and not any(isinstance(outer, elsewhere) for outer in around)
        ):
            return part
    return None


def _is_pipeline(part: Any) -> bool:
    # a frozen estimator answers for the one inside, which is among its parameters
    is_other = isinstance(part, (type, FrozenEstimator))
    return not is_other and isinstance(getattr(part, "steps", None), list)


def _parts(estimator: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield an estimator and all its parameters, each with the estimators around it."""
    yield estimator, []
    inner = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    for path, part in inner.items():
        names = path.split("__")
        outer = ["__".join(names[:depth]) for depth in range(1, len(names))]
        yield part, [estimator, *(inner[name] for name in outer if name in inner)]
