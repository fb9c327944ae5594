"""Pictures of thresholds under constraints, in the idiom of scikit-learn's displays.

matplotlib is imported when something is drawn and not before.
"""

from __future__ import annotations

from imbfit.displays.display import ThresholdDisplay

__all__ = ["ThresholdDisplay"]
