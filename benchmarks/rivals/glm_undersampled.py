"""imbalanced-learn's RandomUnderSampler before LogisticRegression: one negative per positive.

What most people do. Nothing corrects for the sampling afterwards.
"""

from __future__ import annotations

import math

from imblearn.pipeline import make_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.glm_problems import Data
from benchmarks.rivals.glm import FitPrepared, Fitted, Rival
from benchmarks.rivals.glm_scikit import fitted


def undersampled(*, ridge: float | None = None) -> Rival:
    """Build the rival; with `ridge` as C, on standardised features, where the problem has none.

    Few rows may separate the classes, and then only a ridge gives a finite answer.
    """
    name = "RandomUnderSampler + LogisticRegression"
    settings = "1:1, newton-cholesky, C as in the problem, no correction"
    if ridge is not None:
        name, settings = f"{name} C={ridge:g}", f"1:1, standardised, lbfgs, C={ridge:g}"

    def prepare(data: Data, seed: int) -> FitPrepared:
        def run() -> Fitted:
            sampler = RandomUnderSampler(random_state=seed)
            if ridge is None:
                X, y = sampler.fit_resample(data.X, data.y)
                C = data.C if math.isfinite(data.C) else math.inf
                model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-8, max_iter=1000)
                model.fit(X, y)
                rate = float((y == 0).sum() / (data.y == 0).sum())
                return fitted(model, rate=rate, kept=len(y))
            linear = LogisticRegression(C=ridge, max_iter=1000)
            chain = make_pipeline(sampler, StandardScaler(), linear).fit(data.X, data.y)
            rows = int(2 * data.y.sum())
            return Fitted(
                linear.coef_.ravel(),
                float(linear.intercept_[0]),
                lambda X, _: chain.predict_proba(X)[:, 1],
                rate=float(data.y.sum() / (data.y == 0).sum()),
                kept=rows,
            )

        return run

    return Rival(name, settings, prepare)


UNDERSAMPLED = undersampled()
