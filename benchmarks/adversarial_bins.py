"""Training for a metric with more columns: bins of a logistic regression's score.

A linear score that is wrong in its order, not only in its level, can be put right by bins of it.
The score is cross-fitted on the training rows, so that the adversary sees it as new rows have it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from imbfit import AdversarialMetricClassifier

SHARES = 0.5 ** np.arange(1, 7)
FEWEST = 15


class BinnedClassifier(AdversarialMetricClassifier):
    """The classifier on the columns and on bins of a score: halves of the rows from the top.

    A bin has 15 rows at least. ``fit`` on the very same array with another C keeps the bins.
    """

    def fit(self, X: Any, y: Any) -> BinnedClassifier:
        """Fit the score, the bins and the classifier."""
        if getattr(self, "rows_", None) is not X:
            self.rows_ = X
            self.score_ = LogisticRegression(max_iter=2000)
            folds = StratifiedKFold(5, shuffle=True, random_state=0)
            score = cross_val_predict(self.score_, X, y, cv=folds, method="decision_function")
            self.score_.fit(X, y)
            self.edges_ = np.quantile(score, 1.0 - SHARES[SHARES * len(y) >= FEWEST])
            self.columns_ = self._with_bins(X, score)
        return super().fit(self.columns_, y)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score."""
        if X.shape[1] < self.columns_.shape[1]:
            X = self._with_bins(X, self.score_.decision_function(X))
        return super().decision_function(X)

    def _with_bins(self, X: Any, score: np.ndarray) -> Any:
        bins = np.eye(len(self.edges_) + 1)[np.searchsorted(self.edges_, score)]
        return sparse.hstack([X, bins]).tocsr() if sparse.issparse(X) else np.hstack([X, bins])
