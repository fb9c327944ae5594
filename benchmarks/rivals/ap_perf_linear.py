"""Linear scores trained with ap-perf 0.1.1, as its users train: Adam on shuffled batches of 25."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from benchmarks.rivals.ap_perf_game import metric

BATCH, STEP = 25, 3e-3


class ApPerfLinear:
    """A linear layer under its MetricLayer.

    Parameters
    ----------
    name : str
        Of the metric; precision is the one under recall >= .8.
    C : float
        Inverse strength of the weight decay, as 1 / (C rows).
    updates : int
        Batches; the rows are passed over as often as that takes.
    """

    def __init__(self, name: str, *, C: float = 1.0, updates: int = 600) -> None:
        self.name, self.C, self.updates = name, C, updates

    def set_params(self, *, C: float) -> ApPerfLinear:
        """Set the strength of the ridge."""
        self.C = C
        return self

    def fit(self, X: Any, y: np.ndarray) -> ApPerfLinear:
        """Train from zeros."""
        import torch
        from ap_perf import MetricLayer

        torch.set_num_threads(1)
        X = X.toarray() if issparse(X) else X
        features = torch.as_tensor(X, dtype=torch.float32)
        labels = torch.as_tensor(y, dtype=torch.float32)
        layer = torch.nn.Linear(X.shape[1], 1)
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        loss = MetricLayer(metric(self.name))
        decay = 1.0 / (self.C * len(y))
        descent = torch.optim.Adam(layer.parameters(), lr=STEP, weight_decay=decay)
        rng = np.random.default_rng(0)
        order = np.empty(0, dtype=int)
        for _ in range(self.updates):
            # a last batch of another size would make it work out its matrices anew
            if len(order) < BATCH:
                order = rng.permutation(len(y))
            rows, order = order[:BATCH], order[BATCH:]
            descent.zero_grad()
            loss(layer(features[rows]).ravel(), labels[rows]).backward()
            descent.step()
        self.coef_ = layer.weight.detach().numpy().astype(float)
        self.intercept_ = layer.bias.detach().numpy().astype(float)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores; above 0 is predicted positive."""
        return np.asarray(X @ self.coef_[0]).ravel() + self.intercept_[0]
