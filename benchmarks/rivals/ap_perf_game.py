"""The published code, ap-perf 0.1.1: one game, and what its answer is worth.

``pip install ap-perf==0.1.1`` brings torch and numba along. It solves the game with the expected
count by 100 rounds of ADMM, without a stopping rule.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from benchmarks.rivals import DoesNotFit
from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.metrics import parse

try:
    from ap_perf import common_metrics
    from ap_perf.metric import PerformanceMetric
except ImportError:  # pragma: no cover
    common_metrics = None

METRICS = {
    "f1": "f1_score",
    "f2": "f2_score",
    "kappa": "kappa",
    "precision": "precision_gv_recall_80",
}


def metric(name: str) -> Any:
    """Return its metric; precision is the one under recall >= .8."""
    if common_metrics is None:
        raise DoesNotFit("ap-perf is not installed: pip install ap-perf==0.1.1")
    found = copy.deepcopy(getattr(common_metrics, METRICS[name]))
    # a copy keeps what it has worked out for a number of rows to itself
    for kept in ("opt_data", "multiplier_pq"):
        found.__dict__.pop(kept, None)
    return found


def solve(found: Any, psi: np.ndarray, y: np.ndarray, **options: Any) -> np.ndarray:
    """Solve a game, as its kernel does before it sums up over columns.

    Returns
    -------
    ndarray of shape (n, n)
        Marginals by row and by number of positives, 1 to n. The gradient in the scores is the sum
        of a row, less y.
    """
    solver = getattr(found, f"_{PerformanceMetric.__name__}__solve_admm_q")
    Q, _ = solver(np.tile(psi, (len(psi), 1)).T, y.astype(float), **options)
    return np.asarray(Q)


def held_to(Q: np.ndarray, psi: np.ndarray, y: np.ndarray, name: str) -> float:
    """Return what its marginals hold the predictor to, computed exactly.

    Marginals that are slightly outside of what labels can have are scaled down to it. Without a
    constraint the predictor's best reply is a sort for each size; with one the best price of the
    constraint is searched for too.
    """
    n, positives = len(psi), float(y.sum())
    counts = np.arange(1.0, n + 1)
    Q = np.clip(Q, 0.0, None)
    for _ in range(200):
        mass = Q.sum(axis=0) / counts
        capped = np.minimum(Q, mass)
        if np.allclose(capped, Q, rtol=0, atol=1e-15):
            break
        Q = capped
    mass = Q.sum(axis=0) / counts
    if mass.sum() > 1.0:
        Q, mass = Q / mass.sum(), mass / mass.sum()
    share = np.concatenate([[max(0.0, 1.0 - mass.sum())], mass])
    sizes = np.arange(n + 1.0)
    payoff = payoff_of(parse(name), greater_is_better=True)
    intercept, slope = payoff.tables(sizes[:, None], sizes[None, :], n)
    level = intercept @ share
    worth = Q @ slope[:, 1:].T  # rows by size
    paid = float(psi @ Q.sum(axis=1))
    if name != "precision":
        return float((level + _largest(worth)).max()) - paid
    requirement = requirement_of(parse("recall >= 0.8"))
    slack, slack_slope = requirement.tables(sizes, positives, n)

    def at(price: float) -> float:
        more = worth + price * y[:, None] * slack_slope
        return float((level + price * slack + _largest(more)).max()) - paid

    return _least(at)


def _largest(worth: np.ndarray) -> np.ndarray:
    """Sum of the k largest entries of column k."""
    ranked = -np.sort(-worth, axis=0)
    sums = np.vstack([np.zeros(worth.shape[1]), np.cumsum(ranked, axis=0)])
    at = np.arange(worth.shape[1])
    return sums[at, at]


def _least(function: Any) -> float:
    """Minimise a convex function of one number that is at least 0."""
    high = 1.0
    while function(2 * high) < function(high) and high < 1e9:
        high *= 2
    low, high = 0.0, 2 * high
    ratio = (np.sqrt(5.0) - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    best = min(function(0.0), at_left, at_right)
    for _ in range(90):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
        best = min(best, at_left, at_right)
    return best
