"""Classifiers for rare events: models of a sample of the negatives, and the best thresholds."""

# The build reads the version from this line without importing anything (see [tool.hatch.version]).
__version__ = "0.1.0"

from imbfit.adversarial.classifier import AdversarialMetricClassifier
from imbfit.displays import SamplingRateDisplay, ThresholdDisplay
from imbfit.exceptions import (
    CollinearityWarning,
    InertParameterWarning,
    InfeasibleConstraints,
    SamplingWarning,
    ScoreScaleWarning,
    SearchWarning,
    SeparationWarning,
    UnsupportedMetric,
)
from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.correction import prior_correction
from imbfit.glm.curve import SamplingRateCurve, sampling_rate_curve
from imbfit.glm.link_check import check_link
from imbfit.glm.links import Link
from imbfit.glm.wrapper import DownsampledClassifier
from imbfit.pipeline import check_pipeline
from imbfit.threshold.classifier import OTLPThresholdClassifier
from imbfit.threshold.search import ThresholdSearch, search_table, search_thresholds

__all__ = [
    "AdversarialMetricClassifier",
    "CollinearityWarning",
    "DownsampledClassifier",
    "DownsampledGLMClassifier",
    "InertParameterWarning",
    "InfeasibleConstraints",
    "Link",
    "OTLPThresholdClassifier",
    "SamplingRateCurve",
    "SamplingRateDisplay",
    "SamplingWarning",
    "ScoreScaleWarning",
    "SearchWarning",
    "SeparationWarning",
    "ThresholdDisplay",
    "ThresholdSearch",
    "UnsupportedMetric",
    "__version__",
    "check_link",
    "check_pipeline",
    "prior_correction",
    "sampling_rate_curve",
    "search_table",
    "search_thresholds",
]
