"""Pictures of thresholds and of sampling rates, in the idiom of scikit-learn's displays.

matplotlib is imported when something is drawn and not before.
"""

from __future__ import annotations

from imbfit.displays.display import ThresholdDisplay
from imbfit.displays.rates import SamplingRateDisplay

__all__ = ["SamplingRateDisplay", "ThresholdDisplay"]
