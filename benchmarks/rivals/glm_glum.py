"""glum's GeneralizedLinearRegressor, the fastest GLM package known to us, on all rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.glm_problems import Data
from benchmarks.rivals import DoesNotFit
from benchmarks.rivals.glm import FitPrepared, Fitted, Rival


def _prepare(data: Data, seed: int) -> FitPrepared:  # noqa: ARG001
    try:
        from glum import GeneralizedLinearRegressor
    except ImportError:
        raise DoesNotFit("glum is not installed") from None
    if data.X.shape[1] > 20_000:
        raise DoesNotFit("it forms a matrix of columns by columns")

    def run() -> Fitted:
        # its objective is a mean, scikit-learn's C is for a sum
        alpha = 0.0 if math.isinf(data.C) else 1 / (data.C * len(data.y))
        model = GeneralizedLinearRegressor(family="binomial", alpha=alpha, l1_ratio=0.0)
        model.fit(data.X, data.y)

        def predict(X: Any, _: np.ndarray | None) -> np.ndarray:
            return np.asarray(model.predict(X))

        note = f"{model.n_iter_} steps"
        return Fitted(model.coef_, float(model.intercept_), predict, kept=len(data.y), note=note)

    return run


GLUM = Rival(
    "glum", "binomial, alpha as C demands, default tolerance, no standard errors", _prepare
)
