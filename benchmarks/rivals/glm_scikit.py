"""scikit-learn's LogisticRegression: its solvers on all rows, and balanced class weights.

Without a ridge C is infinite, and 1e10 for liblinear, which divides by it and also penalises the
intercept. Tolerances are the defaults unless `tol` is given: coefficients of liblinear, sag and
saga then agree with the maximum to 1e-4, those of newton-cholesky, lbfgs and newton-cg to some 1e-2
only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.glm_problems import Data
from benchmarks.rivals import DoesNotFit
from benchmarks.rivals.glm import FitPrepared, Fitted, Rival

SOLVERS = ("newton-cholesky", "lbfgs", "newton-cg", "liblinear", "sag", "saga")


def fitted(model: LogisticRegression, note: str = "", **more: Any) -> Fitted:
    """Wrap a fitted model."""
    steps = f"{int(np.max(model.n_iter_))} steps"
    return Fitted(
        model.coef_.ravel(),
        float(model.intercept_[0]),
        lambda X, _: model.predict_proba(X)[:, 1],
        note=", ".join(filter(None, [steps, note])),
        **more,
    )


def scikit(
    solver: str,
    *,
    tol: float | None = None,
    class_weight: str | None = None,
    inverse_weights: bool = False,
) -> Rival:
    """Build a rival from one of the solvers.

    Parameters
    ----------
    solver : str
        One of `SOLVERS`.
    tol : float or None
        None for the default.
    class_weight : {"balanced"} or None
        As in scikit-learn; nothing is corrected afterwards.
    inverse_weights : bool
        Whether negatives get the inverse of the rate they came at as their weight.
    """
    name = f"LogisticRegression {solver}"
    settings = ["C as in the problem, else infinite", f"tol {tol or 1e-4:g}, max_iter 1000"]
    if tol is not None:
        name += f", tol {tol:g}"
    if class_weight:
        name = f'LogisticRegression(class_weight="{class_weight}")'
        settings.append(solver)
    if inverse_weights:
        name = "LogisticRegression, sample_weight 1/rate"
        settings.append(solver)

    def prepare(data: Data, seed: int) -> FitPrepared:
        unpenalised = 1e10 if solver == "liblinear" else np.inf
        options: dict[str, Any] = {} if tol is None else {"tol": tol}
        if solver == "newton-cholesky" and data.X.shape[1] > 20_000:
            raise DoesNotFit("it forms a matrix of columns by columns")
        weight = np.where(data.y == 1, 1.0, 1 / data.rate) if inverse_weights else None

        def run() -> Fitted:
            model = LogisticRegression(
                C=data.C if math.isfinite(data.C) else unpenalised,
                solver=solver,
                max_iter=1000,
                class_weight=class_weight,
                random_state=seed,
                **options,
            ).fit(data.X, data.y, weight)
            return fitted(model, kept=len(data.y))

        return run

    return Rival(name, ", ".join(settings), prepare)


EVERY = [scikit(solver) for solver in SOLVERS]
# as near to the maximum as the Newton solvers come by default
LBFGS = scikit("lbfgs", tol=1e-7)
EXACT = scikit("newton-cholesky", tol=1e-10)
BALANCED = scikit("newton-cholesky", tol=1e-8, class_weight="balanced")
INVERSE = scikit("newton-cholesky", tol=1e-8, inverse_weights=True)
