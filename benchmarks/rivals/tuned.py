"""scikit-learn's TunedThresholdClassifierCV with 100 thresholds on a prefit model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import TunedThresholdClassifierCV

from benchmarks.problems import Data, Problem
from benchmarks.rivals import DoesNotFit, Prepared, Result
from imbfit.metrics import accuracy, balanced_accuracy, f1, jaccard, precision, recall

name = "TunedThresholdClassifierCV, 100 thresholds"

SCORINGS = {
    f1: "f1",
    accuracy: "accuracy",
    balanced_accuracy: "balanced_accuracy",
    jaccard: "jaccard",
    precision: "precision",
    recall: "recall",
}


class ScoreColumn(ClassifierMixin, BaseEstimator):
    """A model whose score is its only feature, so that scoring costs nothing."""

    def fit(self, X: Any, y: Any) -> ScoreColumn:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        return X[:, 0]


def prepare(problem: Problem, data: Data, time_limit: float) -> Prepared:  # noqa: ARG001
    if data.segment is not None or problem.rules(data):
        raise DoesNotFit("one segment without constraints only")
    if problem.objective not in SCORINGS:
        raise DoesNotFit("no scoring of that name")
    X, y = data.score[:, None], data.positive.astype(int)
    model = FrozenEstimator(ScoreColumn().fit(X, y))

    def run() -> Result:
        tuned = TunedThresholdClassifierCV(
            model,
            scoring=SCORINGS[problem.objective],
            thresholds=100,
            cv="prefit",
            refit=False,
            response_method="decision_function",
        )
        tuned.fit(X, y, **({} if data.weight is None else {"sample_weight": data.weight}))
        return Result({None: float(tuned.best_threshold_)})

    return run
