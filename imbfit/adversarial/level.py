"""The cut: the score above which a row is predicted positive.

Training for the observed count leaves the level of scores open, so those of different folds may lie
at different heights. They share a level in terms of their own training rows: the score above which
there are as many rows as positives. Whether moving them there helps differs from data to data, so
all alignments are tried, and the best out of fold is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.payoff import Payoff
from imbfit.exceptions import InfeasibleConstraints
from imbfit.expressions import Constraint, Expr
from imbfit.threshold.search import ThresholdSearch, search_thresholds

__all__ = ["ALIGNMENTS", "Height", "aligned_cut", "best_cut", "finite_cut", "height_of", "merged"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

#: As they are; less their level; and that over their width.
ALIGNMENTS = ("raw", "levelled", "scaled")


@dataclass(frozen=True)
class Height:
    """Where the scores of a model lie, on the rows that it was trained on.

    Attributes
    ----------
    level : float
        The score above which the rows weigh as much as the positives.
    width : float
        Its distance from the median, 1 where that is 0.
    """

    level: float
    width: float

    def aligned(self, score: Any, alignment: str) -> Any:
        """Return scores in an alignment."""
        if alignment == "raw":
            return score
        return (score - self.level) / (self.width if alignment == "scaled" else 1.0)

    def back(self, cut: float, alignment: str) -> float:
        """Return a cut of aligned scores as one of this model's scores."""
        if alignment == "raw":
            return cut
        return self.level + cut * (self.width if alignment == "scaled" else 1.0)


def height_of(score: Floats, weight: Floats | None, positives: float) -> Height:
    """Return where scores lie.

    Parameters
    ----------
    score : ndarray of shape (n_rows,)
        Of the rows that a model was trained on.
    weight : ndarray of shape (n_rows,) or None
        How often each row counts.
    positives : float
        Weight of the positives among them.

    Returns
    -------
    Height
    """
    order = np.argsort(-score, kind="stable")
    above = np.cumsum(np.ones(len(score)) if weight is None else weight[order])

    def at(share: float) -> float:
        return float(score[order[min(int(np.searchsorted(above, share)), len(score) - 1)]])

    level = at(positives * (1.0 - 1e-12))
    width = level - at(0.5 * float(above[-1]))
    return Height(level, width if width > 0.0 else 1.0)


def aligned_cut(
    parts: Sequence[tuple[Floats, Height]],
    final: Height,
    search: Callable[[Floats], ThresholdSearch],
    *,
    rounding: float = 0.0,
) -> tuple[float, ThresholdSearch, str]:
    """Choose a cut for a final model on the out-of-fold scores of others.

    Parameters
    ----------
    parts : sequence of (ndarray, Height)
        Scores of each fold's rows, and where the scores of the fold's model lie.
    final : Height
        Where those of the final model lie.
    search : callable
        Finds the best cut on scores of all these rows, one fold after the other.
    rounding : float, default=0.0
        Scores that are no further apart are taken as one.

    Returns
    -------
    cut : float
        On the final model's scores, finite.
    found : ThresholdSearch
        The search on the aligned scores.
    alignment : {"raw", "levelled", "scaled"}
        The one with the best metric; of equal ones the first.

    Raises
    ------
    InfeasibleConstraints
        If no cut meets the constraints in any alignment; that of the scores as they are.
    """
    best: tuple[float, ThresholdSearch, str] | None = None
    refused: InfeasibleConstraints | None = None
    for alignment in ALIGNMENTS:
        score = np.concatenate([height.aligned(part, alignment) for part, height in parts])
        one = merged(score, rounding / (final.width if alignment == "scaled" else 1.0))
        try:
            found = search(one)
        except InfeasibleConstraints as error:
            refused = refused or error
            continue
        if best is None or _is_better(found, best[1]):
            best = final.back(finite_cut(found, score, one), alignment), found, alignment
    if best is None:
        raise refused or ValueError("there are no scores")
    return best


def _is_better(found: ThresholdSearch, other: ThresholdSearch) -> bool:
    gain = found.objective_value - other.objective_value
    return gain > 0.0 if found.greater_is_better else gain < 0.0


def best_cut(
    score: Floats,
    positive: Bools,
    weight: Floats | None,
    *,
    payoff: Payoff,
    constraints: Sequence[Constraint],
) -> ThresholdSearch:
    """Find the best cut on scored rows, under constraints, with proof.

    Parameters
    ----------
    score : ndarray of shape (n_rows,)
        Scores.
    positive : ndarray of bool, shape (n_rows,)
        Labels.
    weight : ndarray of shape (n_rows,) or None
        How often each row counts.
    payoff : Payoff
        Of the metric.
    constraints : sequence of Constraint
        What must hold on these rows.

    Returns
    -------
    ThresholdSearch

    Raises
    ------
    InfeasibleConstraints
        If no cut meets the constraints.
    """
    objective: Any = payoff.source
    if not isinstance(objective, Expr):
        objective = _Counted(payoff)
    try:
        return search_thresholds(
            positive,
            score,
            objective=objective,
            greater_is_better=payoff.greater_is_better,
            constraints=list(constraints),
            sample_weight=weight,
            pos_label=True,
        )
    except InfeasibleConstraints as error:
        # the search's own way out is no parameter here
        head, _, _ = str(error).rpartition("\nLoosen or drop one of them")
        raise InfeasibleConstraints(
            f"{head}\nLoosen or drop one of them, or train scores that allow it.",
            conflict=error.conflict,
            best_values=error.best_values,
        ) from None


class _Counted:
    """A metric that is given as a function, as the threshold search calls it."""

    def __init__(self, payoff: Payoff) -> None:
        self.payoff, self.__name__ = payoff, payoff.name

    def __call__(self, tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        sign = 1.0 if self.payoff.greater_is_better else -1.0
        total = float(tp[0] + fp[0] + fn[0] + tn[0])
        return sign * self.payoff.values(tp, tp + fp, tp + fn, total)


def merged(score: Floats, rounding: float) -> Floats:
    """Return scores in which those that differ by rounding are equal.

    A cut between them would depend on the order in which a sum was taken.

    Parameters
    ----------
    score : ndarray of shape (n_rows,)
        Scores.
    rounding : float
        Neighbours that are no further apart are taken as one.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    order = np.argsort(score, kind="stable")
    ranked = score[order]
    new = np.concatenate([[True], np.diff(ranked) > rounding])
    if new.all():
        return score
    first = ranked[new]
    last = ranked[np.concatenate([new[1:], [True]])]
    same = np.empty_like(score)
    same[order] = (0.5 * (first + last))[np.cumsum(new) - 1]
    return same


def finite_cut(found: ThresholdSearch, score: Floats, one: Floats) -> float:
    """Return the cut that parts the scores as the search did, beyond all where it parts none.

    An infinite constant would make every decision value infinite.

    Parameters
    ----------
    found : ThresholdSearch
        On merged scores.
    score, one : ndarray of shape (n_rows,)
        The scores, and the same merged. A long run of scores that differ by rounding is one score
        in its middle, and a threshold beside that may lie within the run.
    """
    cut = float(found.threshold)
    low, high = float(score.min()), float(score.max())
    beyond = (high - low) or max(1.0, abs(high))
    flagged = one >= cut
    if not flagged.any():
        return high + beyond
    if flagged.all():
        return low - beyond
    below, above = float(score[~flagged].max()), float(score[flagged].min())
    if below <= cut < above:
        return cut
    middle = 0.5 * below + 0.5 * above
    return middle if below <= middle < above else below
