"""Classifiers for rare events: the best thresholds under constraints, with a proof."""

# The build reads the version from this line without importing anything (see [tool.hatch.version]).
__version__ = "0.1.0"

from imbfit.displays import ThresholdDisplay
from imbfit.exceptions import (
    InfeasibleConstraints,
    ScoreScaleWarning,
    SearchWarning,
    UnsupportedMetric,
)
from imbfit.pipeline import check_pipeline
from imbfit.threshold.classifier import OTLPThresholdClassifier
from imbfit.threshold.search import ThresholdSearch, search_table, search_thresholds

__all__ = [
    "InfeasibleConstraints",
    "OTLPThresholdClassifier",
    "ScoreScaleWarning",
    "SearchWarning",
    "ThresholdDisplay",
    "ThresholdSearch",
    "UnsupportedMetric",
    "__version__",
    "check_pipeline",
    "search_table",
    "search_thresholds",
]
