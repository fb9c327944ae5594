"""statsmodels' GLM with a binomial family, on all the rows it is given.

Where they came at a rate below 1 the logit gets minus the rate's logarithm as its offset, which is
all that a careful user needs; with a ridge it is ``fit_regularized`` with an unpenalised intercept.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse

from benchmarks.glm_problems import Data
from benchmarks.rivals import DoesNotFit
from benchmarks.rivals.glm import FitPrepared, Fitted, Rival

LINKS = {"logit": "Logit", "cloglog": "CLogLog"}


def glm(link: str = "logit", *, exposure: bool = False) -> Rival:
    """Build the rival; with `exposure` its logarithm is an offset."""

    def prepare(data: Data, seed: int) -> FitPrepared:  # noqa: ARG001
        try:
            import statsmodels.api as sm
            from statsmodels.tools import sm_exceptions
        except ImportError:
            raise DoesNotFit("statsmodels is not installed") from None
        dense = data.X.toarray() if issparse(data.X) else np.asarray(data.X, float)
        if data.rate < 1 and link != "logit":
            raise DoesNotFit("an offset corrects for the sampling with the logit only")
        if exposure and data.exposure is None:
            raise DoesNotFit("no exposure")

        def run() -> Fitted:
            exog = sm.add_constant(dense, has_constant="add")
            offset = np.full(len(data.y), -math.log(data.rate))
            if exposure:
                offset = offset + np.log(data.exposure)
            family = sm.families.Binomial(getattr(sm.families.links, LINKS[link])())
            model = sm.GLM(data.y, exog, family=family, offset=offset)
            note = ""
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found, errors = _fit(model, data, exog.shape[1])
            if any(issubclass(w.category, sm_exceptions.ConvergenceWarning) for w in told):
                note = "did not converge"
            if any(issubclass(w.category, sm_exceptions.PerfectSeparationWarning) for w in told):
                note = "says the classes are separated"

            def predict(X: Any, exposed: np.ndarray | None) -> np.ndarray:
                rows = X.toarray() if issparse(X) else np.asarray(X, float)
                eta = found[0] + rows @ found[1:]
                if exposure:
                    assert exposed is not None
                    eta = eta + np.log(exposed)
                return np.asarray(family.link.inverse(eta))

            return Fitted(found[1:], float(found[0]), predict, errors, kept=len(data.y), note=note)

        return run

    name = "statsmodels GLM" + ("" if link == "logit" else f" {link}")
    name += ", log exposure as offset" if exposure else ""
    return Rival(name, "Binomial, IRLS, defaults; offset -log rate for sampled rows", prepare)


def _fit(model: Any, data: Data, columns: int) -> tuple[np.ndarray, np.ndarray | None]:
    if math.isinf(data.C):
        result = model.fit()
        return np.asarray(result.params), np.asarray(result.bse)[1:]
    # its objective is a mean, scikit-learn's C is for a sum
    alpha = np.full(columns, 1 / (data.C * len(data.y)))
    alpha[0] = 0.0
    return np.asarray(model.fit_regularized(alpha=alpha, L1_wt=0.0).params), None
