"""Boosted trees on all rows, on a sample as they are, and inside imbfit's DownsampledClassifier."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.glm_problems import Data
from benchmarks.rivals import DoesNotFit
from benchmarks.rivals.glm import FitPrepared, Fitted, Rival
from imbfit import DownsampledClassifier

EVERYTHING = "HistGradientBoosting"


def boosted(correction: str | None, rate: float | str = "balanced") -> Rival:
    """Build the rival; with a rate of 1 the trees see all rows."""
    name = f"DownsampledClassifier({EVERYTHING}), {correction or 'no correction'}"

    def prepare(data: Data, seed: int) -> FitPrepared:
        if issparse(data.X):
            raise DoesNotFit("these trees take no sparse rows")

        def run() -> Fitted:
            trees = HistGradientBoostingClassifier(random_state=seed)
            if rate == 1.0:
                model = trees.fit(data.X, data.y)
                share, kept = 1.0, len(data.y)
            else:
                upstream = {"presampled": True, "sampling_rate": data.rate}
                here = {"sampling_rate": rate}
                model = DownsampledClassifier(
                    trees,
                    correction=correction,
                    random_state=seed,
                    **(upstream if data.rate < 1 else here),
                ).fit(data.X, data.y)
                share, kept = float(model.sampling_rate_), int(model.n_kept_)
            return Fitted(
                np.empty(0),
                0.0,
                lambda X, _: model.predict_proba(X)[:, 1],
                rate=share,
                kept=kept,
            )

        return run

    return Rival(EVERYTHING if rate == 1.0 else name, "defaults, 100 trees", prepare)


TREES = [
    boosted(None, 1.0),
    *[boosted(correction) for correction in ("prior", "sigmoid", "isotonic", None)],
]
