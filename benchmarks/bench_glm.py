"""Time, peak memory and quality of the downsampled GLM, for asv.

Populations are the named ones with a tenth of their rows, so that one pass through all of them
stays short; ``glm_speed.py`` measures the full sizes.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.glm_problems import SPARSE, SPEED, Data
from imbfit import DownsampledGLMClassifier
from imbfit.exceptions import SamplingWarning

ROWS = 100_000
SETTINGS: dict[str, dict[str, Any]] = {
    "auto": {},
    "all rows": {"sampling_rate": 1.0},
    "cmle": {"sampling_rate": 0.1},
    "iw": {"method": "iw", "sampling_rate": 0.1},
    "profile": {"method": "profile", "sampling_rate": 0.1},
    "pseudo_mle": {"method": "pseudo_mle", "sampling_rate": 0.1},
    "a_optimal": {"sampling": "a_optimal", "sampling_rate": 0.02},
}


def _fit(data: Data, **settings: Any) -> DownsampledGLMClassifier:
    with warnings.catch_warnings():
        # the pseudo-likelihood's bias is no news here
        warnings.simplefilter("ignore", SamplingWarning)
        model = DownsampledGLMClassifier(random_state=0, C=data.C, **settings)
        return model.fit(data.X, data.y)


class Dense:
    """Thirty columns, 1 % positive."""

    params = tuple(SETTINGS)
    param_names = ("settings",)
    timeout = 60

    def setup(self, settings: str) -> None:
        threadpool_limits(1)
        self.data = replace(SPEED[0], rows=ROWS, prevalence=0.01).draw()

    def time_fit(self, settings: str) -> None:
        _fit(self.data, **SETTINGS[settings])

    def peakmem_fit(self, settings: str) -> None:
        _fit(self.data, **SETTINGS[settings])

    def track_error_of_slopes(self, settings: str) -> float:
        """Root of the mean squared error, in standard errors of a fit of all rows."""
        full = _fit(self.data, sampling_rate=1.0)
        found = _fit(self.data, **SETTINGS[settings])
        apart = (found.coef_.ravel() - self.data.coef) / full.standard_errors_[1:]
        return float(np.sqrt(np.mean(apart**2)))


class Sparse:
    """Twenty ones in a row of many columns, with a ridge."""

    params = ("auto", 0.1, 1.0)
    param_names = ("rate",)
    timeout = 120

    def setup(self, rate: float | str) -> None:
        threadpool_limits(1)
        self.data = replace(SPARSE, rows=ROWS, levels=500).draw()

    def time_fit(self, rate: float | str) -> None:
        _fit(self.data, sampling_rate=rate)

    def peakmem_fit(self, rate: float | str) -> None:
        _fit(self.data, sampling_rate=rate)

    def track_calibration(self, rate: float | str) -> float:
        """Mean prediction over prevalence."""
        p = _fit(self.data, sampling_rate=rate).predict_proba(self.data.X)[:, 1]
        return float(p.mean() / self.data.y.mean())
