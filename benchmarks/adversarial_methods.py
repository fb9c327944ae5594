"""What a study of quality compares: linear scores, each trained in its own way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks.adversarial_bins import BinnedClassifier
from benchmarks.rivals.ap_perf_linear import ApPerfLinear
from imbfit import AdversarialMetricClassifier

#: Metric by its name, with the constraints under which the cut is chosen.
METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "F1": ("f1", ()),
    "F2": ("f2", ()),
    "kappa": ("kappa", ()),
    "precision, recall >= .8": ("precision", ("recall >= 0.8",)),
}
FLOORED = "precision, recall >= .8"
#: Strength of the ridge, as C, in half decades; the wider choice is for the quicker fit.
LOGISTIC_GRID = tuple(10 ** (at / 2) for at in range(-6, 7))
GAME_GRID = tuple(10 ** (at / 2) for at in range(-4, 5))
ANCHORED_GRID = tuple(10.0**at for at in range(-5, 2))
GAP = 1e-3
#: Where games are solved on blocks of rows.
COARSE_GAP = 5e-2


@dataclass(frozen=True)
class Method:
    """A way to train scores.

    Attributes
    ----------
    name : str
        For records and report.
    make : callable
        Returns an unfitted estimator with parameter C and ``warm_start``.
    grid : tuple of float
        Values of C, weak ridges last.
    metrics : tuple of str
        What its scores are used for.
    own_cut : bool
        Whether the sign of its scores predicts something too.
    most_rows, most_splits, most_folds : int or None
        Where it takes too long for more.
    """

    name: str
    make: Callable[[], Any]
    grid: tuple[float, ...]
    metrics: tuple[str, ...] = tuple(METRICS)
    own_cut: bool = False
    most_rows: int | None = None
    most_splits: int | None = None
    most_folds: int | None = None


def _game(
    metric: str,
    kind: type[AdversarialMetricClassifier] = AdversarialMetricClassifier,
    **settings: Any,
) -> Callable[[], Any]:
    # the cut that `fit` chooses is not used here, and quickest on the training scores
    settings = {"threshold": "train", "tol": GAP, "max_iter": 300} | settings
    return lambda: kind(metric, warm_start=True, **settings)


def _used_for(name: str) -> tuple[str, ...]:
    return (name, FLOORED) if name == "F1" else (name,)


def _logistic(**settings: Any) -> Callable[[], Any]:
    return lambda: LogisticRegression(max_iter=2000, warm_start=True, **settings)


UNCONSTRAINED = tuple(name for name in METRICS if name != FLOORED)
SMALL = {"most_rows": 12_000}
MAIN = [
    Method("logistic", _logistic(), LOGISTIC_GRID),
    Method("balanced", _logistic(class_weight="balanced"), LOGISTIC_GRID, own_cut=True),
    # cut for the other metrics too, to tell what the training is for and what the cut
    Method("observed F1", _game("f1"), GAME_GRID),
    Method("observed F2", _game("f2"), GAME_GRID, ("F2",)),
    Method("observed kappa", _game("kappa"), GAME_GRID, ("kappa",)),
    # the ridge leaves the anchor's direction free, so that strong ones are of use
    Method("anchored F1", _game("f1", anchor="logistic"), ANCHORED_GRID),
]
TRIED = [
    Method("anchored F2", _game("f2", anchor="logistic"), ANCHORED_GRID, ("F2",)),
    Method("bins, anchored F1", _game("f1", BinnedClassifier, anchor="logistic"), ANCHORED_GRID),
    Method("bins, observed F2", _game("f2", BinnedClassifier), GAME_GRID, ("F2",)),
]
CONSTRAINED = [
    Method(
        "observed precision under recall >= .8",
        _game("precision", constraints="recall >= 0.8"),
        GAME_GRID[::2],
        (FLOORED,),
        most_splits=5,
        **SMALL,
    )
]
#: One ridge and one fold, where a fit takes up to minutes.
SLOW = {"most_splits": 5, "most_folds": 1, **SMALL}
EXPECTED = [
    Method(
        f"expected {name}",
        _game(METRICS[name][0], count="expected", threshold="sign", tol=COARSE_GAP, max_iter=60),
        (1.0,),
        _used_for(name),
        own_cut=True,
        **SLOW,
    )
    for name in UNCONSTRAINED
]
PEER = [
    Method(
        f"ap-perf {name}",
        lambda metric=metric: ApPerfLinear(metric),
        (1.0,),
        (name,),
        own_cut=True,
        **SLOW,
    )
    for name, (metric, _) in METRICS.items()
]
# with no more to choose from than these have
PLAIN = [
    Method(f"plain observed {name}", _game(METRICS[name][0]), (1.0,), _used_for(name), **SLOW)
    for name in UNCONSTRAINED
]
GROUPS = {
    "main": MAIN,
    "tried": TRIED,
    "constrained": CONSTRAINED,
    "expected": EXPECTED,
    "plain": PLAIN,
    "peer": PEER,
}


@dataclass(frozen=True)
class Scores:
    """Scores of the same rows.

    Attributes
    ----------
    raw : ndarray
        What an estimator calls its decision function, less the constant where its cut sets it.
    levelled : ndarray
        Less the score above which the training rows are as many as the positives among them: a
        level that models of different folds share, where the training leaves it open.
    spread : ndarray
        The same over the distance of that score from the training rows' median.
    own : ndarray
        Above 0 where the estimator itself predicts a positive.
    """

    raw: np.ndarray
    levelled: np.ndarray
    spread: np.ndarray
    own: np.ndarray

    @classmethod
    def joined(cls, parts: list[Scores]) -> Scores:
        """Return the scores of several folds, one after the other."""
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))


@dataclass(frozen=True)
class Trained:
    """Scores by one method with one C.

    Attributes
    ----------
    C : float
        Of the ridge.
    out_of_fold, test : Scores
        Of the folds' rows, in their order, by models trained without them, and of the test rows.
    said : list of str
        Warnings.
    """

    C: float
    out_of_fold: Scores
    test: Scores
    said: list[str]


def train(
    method: Method,
    rows: tuple[Any, np.ndarray],
    test: Any,
    folds: list[tuple[np.ndarray, np.ndarray]],
) -> list[Trained]:
    """Train for each C, in each fold and on all rows, each from the last C's slopes."""
    X, y = rows
    # the ridge sets the scale of the scores, so a fold's rows get that of all rows
    parts = [_fits(method, X[used], y[used], X[held], len(y) / len(used)) for used, held in folds]
    final = _fits(method, X, y, test, 1.0)
    return [
        Trained(
            C,
            Scores.joined([part[at][0] for part in parts]),
            final[at][0],
            sorted(set.union(*(part[at][1] for part in [*parts, final]))),
        )
        for at, C in enumerate(method.grid)
    ]


def _fits(
    method: Method, X: Any, y: np.ndarray, held: Any, scale: float
) -> list[tuple[Scores, set[str]]]:
    model = method.make()
    positives = int(np.count_nonzero(y))
    found = []
    for C in method.grid:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            model.set_params(C=C * scale).fit(X, y)
        own, trained = model.decision_function(held), model.decision_function(X)
        # its constant is the cut, or, with the expected count, left out by its own tuning
        ours = isinstance(model, AdversarialMetricClassifier)
        constant = float(model.intercept_[0]) if ours else 0.0
        level = float(np.partition(trained, -positives)[-positives])
        width = level - float(np.median(trained))
        levelled = own - level
        scores = Scores(own - constant, levelled, levelled / (width if width > 0.0 else 1.0), own)
        found.append((scores, {str(w.message)[:200] for w in caught}))
    return found
