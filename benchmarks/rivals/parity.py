"""fairlearn's ThresholdOptimizer, where the constraint is that recalls or the like agree.

It mixes two thresholds per segment at random, so there is no one threshold to report.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from benchmarks.problems import Data, Problem
from benchmarks.rivals import DoesNotFit, Prepared, Result
from benchmarks.rivals.tuned import ScoreColumn
from imbfit.metrics import accuracy, balanced_accuracy, fpr, recall

name = "fairlearn ThresholdOptimizer"

OBJECTIVES = {accuracy: "accuracy_score", balanced_accuracy: "balanced_accuracy_score"}
PARITIES = {recall: "true_positive_rate_parity", fpr: "false_positive_rate_parity"}


def prepare(problem: Problem, data: Data, time_limit: float) -> Prepared:  # noqa: ARG001
    try:
        from fairlearn.postprocessing import ThresholdOptimizer
    except ImportError:
        raise DoesNotFit("fairlearn is not installed") from None
    rules = problem.rules(data)
    if len(rules) != 1 or getattr(rules[0], "kind", None) != "max_gap":
        raise DoesNotFit("parity of one rate between segments only")
    bound: Any = rules[0].constraint
    if problem.objective not in OBJECTIVES or bound.left not in PARITIES:
        raise DoesNotFit("accuracy or balanced accuracy, parity of recall or of fpr")
    X, y = data.score[:, None], data.positive.astype(int)
    options: dict[str, Any] = {}
    if "tol" in inspect.signature(ThresholdOptimizer).parameters:
        options["tol"] = float(bound.right.value)
    model = ThresholdOptimizer(
        estimator=ScoreColumn().fit(X, y),
        constraints=PARITIES[bound.left],
        objective=OBJECTIVES[problem.objective],
        prefit=True,
        predict_method="decision_function",
        **options,
    )

    def run() -> Result:
        model.fit(X, y, sensitive_features=data.segment)
        flagged = model.predict(X, sensitive_features=data.segment, random_state=0)
        note = "a random mixture of thresholds, one draw of it"
        return Result(None, flagged=np.asarray(flagged, bool), note=note)

    return run
