r"""The game with the observed number of positives, in closed form.

The adversary's labels have exactly as many positives as the data, ``ap``, so it is a vector of
marginals q in [0, 1]^n with sum ap, and with T_k(q) the sum of the k largest

.. math:: V(\psi) = \min_q \max_k \; I_k + S_k T_k(q) - \psi^T q

for the payoff's intercept I_k and slope S_k at ``ap``. Sort psi, descending: an optimal q is sorted
alike. With C_k = q_1 + ... + q_k, "the predictor gets at most v" is
C_k <= B_k(v) = (v - I_k) / S_k, and since psi^T q = sum_k (psi_k - psi_{k+1}) C_k + psi_n C_n has
non-negative gaps, the best C for a given v is the largest one,

.. math:: C_k = \min(k, ap, B_k(v)),

concave, hence that of a sorted q, whenever B_k is concave in k. What is left is convex and
piecewise linear in v, with a corner at m_k = I_k + S_k min(k, ap), above which size k binds no
more, and the slope 1 - sum of (psi_k - psi_{k+1}) / S_k over the sizes with m_k > v. So v is the
m_k at which the sum of these terms, taken from the largest m_k on, passes 1; at least what the
predictor gets in any case, by predicting nobody, everybody, or a size whose payoff depends on
nothing (S_k = 0).

The predictor's best mix plays size k with the probability (psi_k - psi_{k+1}) / S_k.

A row of weight w is w rows with one score, which share their q: the sizes are cumulative weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.payoff import Payoff
from imbfit.adversarial.solution import Solution
from imbfit.exceptions import UnsupportedMetric

__all__ = ["ObservedGame", "observed_game", "solve_observed", "value_and_marginals"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# Second differences of a concave bound may be positive by rounding, relative to the bound's size.
_ROUNDING = 1e-11
# So many sizes tell whether a bound is concave; all, where there are fewer rows.
_LOOKED_AT = 4001


@dataclass(frozen=True)
class Bound:
    """What the payoff allows the adversary, for each size but nobody and everybody.

    Attributes
    ----------
    sizes : ndarray of shape (n_sizes,)
        Rising.
    slack, offset : ndarray of shape (n_sizes,)
        1 / S_k and I_k / S_k, both 0 where S_k is 0: B_k(v) is ``v * slack - offset``.
    corner : ndarray of shape (n_sizes,)
        m_k, minus infinity where S_k is 0.
    order : ndarray of int
        Positions by their corner, largest first.
    constant : float
        The largest payoff that depends on nothing, minus infinity if there is none.
    """

    sizes: Floats
    slack: Floats
    offset: Floats
    corner: Floats
    order: Positions
    constant: float


@dataclass(frozen=True)
class ObservedGame:
    """What does not depend on the scores.

    Attributes
    ----------
    payoff : Payoff
        What the predictor gets.
    positives, total : float
        Of the rows, by weight.
    weight : ndarray of shape (n_rows,) or None
        None where each row counts once.
    bound : Bound or None
        For the sizes 1, ..., n - 1. None with weights, whose sizes depend on the order of the
        scores.
    ends : float
        The predictor gets at least this, by predicting nobody or everybody.
    """

    payoff: Payoff
    positives: float
    total: float
    weight: Floats | None
    bound: Bound | None
    ends: float


def observed_game(
    payoff: Payoff, n_rows: int, positives: float, weight: Floats | None = None
) -> ObservedGame:
    """Read what the closed form needs of a payoff, and check that it applies.

    Parameters
    ----------
    payoff : Payoff
        What the predictor gets.
    n_rows : int
        Rows.
    positives : float
        Positives among them, by weight.
    weight : ndarray of shape (n_rows,), default=None
        How often each row counts, above 0.

    Returns
    -------
    ObservedGame

    Raises
    ------
    UnsupportedMetric
        If the payoff falls with the true positives, or its bound is not concave.
    """
    total = float(n_rows) if weight is None else float(weight.sum())
    # evenly spaced, for differences, and far enough apart that rounding hides no bend
    step = 1
    if weight is None:
        sizes, step = np.arange(n_rows + 1.0), int(np.ceil(n_rows / _LOOKED_AT))
    else:
        sizes = np.linspace(0.0, total, _LOOKED_AT)
    intercept, slope = payoff.tables(sizes, positives, total)
    ends = float(max(intercept[0], intercept[-1]))
    inner = sizes[1:-1], intercept[1:-1], slope[1:-1]
    some = inner[0][::step], inner[1][::step], inner[2][::step]
    _check_bound(payoff, some, positives, ends)
    bound = None if weight is not None else _bound(*inner, positives)
    return ObservedGame(payoff, positives, total, weight, bound, ends)


def _bound(sizes: Floats, intercept: Floats, slope: Floats, positives: float) -> Bound:
    rises = slope > 0.0
    slack = np.zeros_like(slope)
    np.divide(1.0, slope, out=slack, where=rises)
    corner = np.where(rises, intercept + slope * np.minimum(sizes, positives), -np.inf)
    order = np.argsort(-corner, kind="stable")
    constant = float(np.max(intercept, initial=-np.inf, where=~rises))
    return Bound(sizes, slack, intercept * slack, corner, order, constant)


def _check_bound(
    payoff: Payoff, table: tuple[Floats, Floats, Floats], positives: float, ends: float
) -> None:
    sizes, intercept, slope = table
    if not len(sizes):
        return
    if (slope < 0.0).any():
        at = sizes[np.argmax(slope < 0.0)]
        raise UnsupportedMetric(
            f"{payoff.name} gets worse with more true positives (with {at:g} predicted positives "
            "its slope is negative); turn greater_is_better around, or write another metric"
        )
    found = _bound(sizes, intercept, slope, positives)
    # affine in v, so concave for all v between two if it is for both
    for v in {max(ends, found.constant), float(np.max(found.corner, initial=ends))}:
        bends = np.diff(v * found.slack - found.offset, 2)
        size = np.max(np.abs(v * found.slack) + np.abs(found.offset))
        # a size that binds nothing (S_k = 0) has no bound: so none may, or all
        if (bends > _ROUNDING * size).any() or ((slope == 0.0).any() and (slope > 0.0).any()):
            raise UnsupportedMetric(
                f"{payoff.name} has no closed form: what it allows the adversary is not concave in "
                "the number of predicted positives"
            )


@dataclass(frozen=True)
class _Ranking:
    """Scores from the largest down, and what their sizes are played for.

    `level` is v. The first `above` sizes in the bound's order have a corner above it; `last` is the
    one whose corner it is, None where it is what the predictor gets in any case.
    """

    order: Positions
    score: Floats
    weight: Floats | None
    bound: Bound
    played: Floats
    level: float
    last: float | None
    above: int


def solve_observed(psi: Floats, game: ObservedGame) -> Solution:
    """Solve the game for given scores, exactly: a sort and two passes.

    Parameters
    ----------
    psi : ndarray of shape (n_rows,)
        Scores, per row of weight 1.
    game : ObservedGame
        From :func:`observed_game`.

    Returns
    -------
    Solution
        Rows with equal scores have equal q.
    """
    ranking = _ranked(psi, game)
    value, q = _answered(ranking, game)
    sizes, mix = _predictor(ranking, game)
    return Solution(value, q, sizes, mix, value, value, 1)


def value_and_marginals(psi: Floats, game: ObservedGame) -> tuple[float, Floats]:
    """Return the value and q alone, for training.

    Parameters
    ----------
    psi : ndarray of shape (n_rows,)
        Scores.
    game : ObservedGame
        From :func:`observed_game`.

    Returns
    -------
    value : float
    q : ndarray of shape (n_rows,)
    """
    return _answered(_ranked(psi, game), game)


def _ranked(psi: Floats, game: ObservedGame) -> _Ranking:
    order = np.argsort(-psi)
    score = psi[order]
    weight = None if game.weight is None else game.weight[order]
    bound = game.bound
    if bound is None:
        sizes = np.arange(1.0, len(psi)) if weight is None else np.cumsum(weight)[:-1]
        tables = game.payoff.tables(sizes, game.positives, game.total)
        bound = _bound(sizes, *tables, game.positives)
    level = max(game.ends, bound.constant)
    played = (score[:-1] - score[1:]) * bound.slack
    corner = bound.corner[bound.order]
    # corners fall, so those above what the predictor gets in any case come first
    above = int(np.searchsorted(-corner, -level, side="left"))
    reached = np.cumsum(played[bound.order[:above]])
    first = int(np.searchsorted(reached, 1.0, side="right"))
    last = None
    if first < above:
        level, last = float(corner[first]), float(bound.sizes[bound.order[first]])
    return _Ranking(order, score, weight, bound, played, level, last, min(first, above))


def _answered(ranking: _Ranking, game: ObservedGame) -> tuple[float, Floats]:
    """Return the value and the adversary's marginals."""
    allowed = ranking.bound
    at_level = np.where(allowed.slack > 0.0, ranking.level * allowed.slack - allowed.offset, np.inf)
    cumulative = np.minimum(np.minimum(allowed.sizes, game.positives), at_level)
    shares = np.diff(cumulative, prepend=0.0, append=game.positives)
    weight = ranking.weight
    if weight is not None:
        shares /= weight
    np.clip(shares, 0.0, 1.0, out=shares)
    ties = ranking.score[:-1] == ranking.score[1:]
    if ties.any():
        run = np.concatenate([[0], np.cumsum(~ties)])
        each = np.bincount(run, weight)
        shares = (np.bincount(run, shares if weight is None else shares * weight) / each)[run]
    q = np.empty_like(shares)
    q[ranking.order] = shares
    paid = float(ranking.score @ (shares if weight is None else shares * weight))
    return ranking.level - paid, q


def _predictor(ranking: _Ranking, game: ObservedGame) -> tuple[Floats, Floats]:
    """Return the sizes that the predictor plays, and how often."""
    bound = ranking.bound
    rows = bound.order[: ranking.above]
    rows = np.sort(rows[ranking.played[rows] > 0.0])
    sizes, mix = bound.sizes[rows], ranking.played[rows]
    rest = 1.0 - mix.sum()
    if rest <= 0.0:
        return sizes, mix
    last = ranking.last
    if last is None:
        # a size that gets the level whatever the adversary does
        certain = np.concatenate([[0.0, game.total], bound.sizes[bound.slack == 0.0]])
        paid, _ = game.payoff.tables(certain, game.positives, game.total)
        last = float(certain[int(np.argmax(paid))])
    return np.append(sizes, last), np.append(mix, rest)
