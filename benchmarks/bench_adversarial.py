"""Time and memory of the adversarial game and of training by it, for asv.

Sizes are small, so that one pass through all of them stays short; ``adversarial_speed.py`` measures
the full ones.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.glm_problems import SPEED
from imbfit import AdversarialMetricClassifier
from imbfit.adversarial.game import Game
from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.adversarial.solving import Solver, solver_for
from imbfit.metrics import parse

ROWS = 100_000
GAMES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "observed f1": ("observed", "f1", ()),
    "observed kappa": ("observed", "kappa", ()),
    "observed precision, recall >= 0.8": ("observed", "precision", ("recall >= 0.8",)),
    "expected f1": ("expected", "f1", ()),
    "expected precision, recall >= 0.8": ("expected", "precision", ("recall >= 0.8",)),
}


def _solver(name: str, positive: np.ndarray) -> Solver:
    count, metric, rules = GAMES[name]
    payoff = payoff_of(parse(metric), greater_is_better=True)
    requirements = tuple(requirement_of(parse(rule)) for rule in rules)
    return solver_for(Game(payoff, requirements, count, positive), tol=1e-8)


class Batch:
    """One game: its value and gradient."""

    params = (tuple(GAMES), (25, 200), ("4/n", "1"))
    param_names = ("game", "rows", "scores")
    timeout = 60

    def setup(self, game: str, rows: int, scores: str) -> None:
        threadpool_limits(1)
        rng = np.random.default_rng(0)
        positive = np.arange(rows) < rows // 5
        size = 4.0 / rows if scores == "4/n" else 1.0
        self.psi = size * (rng.standard_normal(rows) + positive)
        self.solve = _solver(game, positive)

    def time_game(self, game: str, rows: int, scores: str) -> None:
        self.solve(self.psi)

    def track_gap(self, game: str, rows: int, scores: str) -> float:
        """Distance of the bounds of the value."""
        return self.solve(self.psi).gap


class AllRows:
    """Thirty columns, 1 % positive, all rows at once, with the cut of the training scores."""

    params = (("f1", "f2", "kappa"), (1.0, 100.0))
    param_names = ("metric", "C")
    timeout = 60

    def setup(self, metric: str, C: float) -> None:
        threadpool_limits(1)
        self.data = replace(SPEED[0], rows=ROWS, prevalence=0.01).draw()

    def fit(self, metric: str, C: float) -> AdversarialMetricClassifier:
        model = AdversarialMetricClassifier(metric, C=C, threshold="train", tol=1e-3)
        with warnings.catch_warnings():
            # track_gap tells
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(self.data.X, self.data.y)

    def time_fit(self, metric: str, C: float) -> None:
        self.fit(metric, C)

    def peakmem_fit(self, metric: str, C: float) -> None:
        self.fit(metric, C)

    def track_gap(self, metric: str, C: float) -> float:
        """Relative gap at the end."""
        return self.fit(metric, C).duality_gap_
