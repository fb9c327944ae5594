"""imbfit itself, behind the interface of the rivals; its inference is part of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.glm_problems import Data
from benchmarks.rivals import DoesNotFit
from benchmarks.rivals.glm import FitPrepared, Fitted, Rival
from imbfit import DownsampledGLMClassifier


def ours(
    name: str | None = None, *, exposure: bool = False, inference: bool = True, **settings: Any
) -> Rival:
    """Build a rival from parameters of the estimator.

    Parameters
    ----------
    name : str or None
        For tables; by default it lists the settings.
    exposure : bool
        Whether the logarithm of the exposure is an offset.
    inference : bool
        Whether standard errors are asked for, which takes a matrix of columns by columns.
    **settings
        Of :class:`imbfit.DownsampledGLMClassifier`.
    """
    listed = ", ".join(f"{key}={value!r}" for key, value in settings.items())

    def prepare(data: Data, seed: int) -> FitPrepared:
        if exposure and data.exposure is None:
            raise DoesNotFit("no exposure")
        options = {"C": data.C, "random_state": seed} | settings
        if data.rate < 1:
            options |= {"presampled": True, "sampling_rate": data.rate}
        if exposure:
            options["offset"] = -1

        def columns(X: Any, exposed: np.ndarray | None) -> Any:
            return np.column_stack([X, np.log(exposed)]) if exposure else X  # type: ignore[arg-type]

        X = columns(data.X, data.exposure)

        def run() -> Fitted:
            model = DownsampledGLMClassifier(**options).fit(X, data.y)
            return wrapped(model, columns, inference=inference)

        return run

    return Rival(name or f"imbfit {listed}".strip(), listed or "defaults", prepare)


def wrapped(model: DownsampledGLMClassifier, columns: Any, *, inference: bool) -> Fitted:
    """Wrap a fitted model, and have it do its inference."""
    errors = None
    if inference:
        errors = np.asarray(model.standard_errors_)[-model.coef_.size :]
        assert not np.isnan(model.covariance_).any()
    note = f"{model.n_iter_} steps" + ("" if model.converged_ else ", did not converge")
    return Fitted(
        model.coef_.ravel(),
        float(np.ravel(model.intercept_)[0]),
        lambda X, exposed: np.asarray(model.predict_proba(columns(X, exposed))[:, 1]),
        errors,
        float(model.sampling_rate_),
        int(model.n_kept_),
        note,
        getattr(model, "relative_efficiency_", None),
    )
