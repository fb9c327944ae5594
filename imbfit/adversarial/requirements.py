"""Whether a mix of predictions can meet the requirements, and one that does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from imbfit.adversarial.board import Board, Predictor
from imbfit.adversarial.linear_program import minimised
from imbfit.exceptions import InfeasibleConstraints

__all__ = ["Target", "target_for"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

_ROUNDING = 1e-10


@dataclass(frozen=True)
class Target:
    """A mix that leaves as much as possible of the scarcest requirement.

    Attributes
    ----------
    size : ndarray of int of shape (n_points,)
        Positions of the sizes.
    hits : ndarray of shape (n_points,)
        Observed positives in the set.
    mix : ndarray of shape (n_points,)
        Probabilities.
    left : ndarray of shape (n_requirements,)
        Mean slack of each requirement.
    """

    size: Positions
    hits: Floats
    mix: Floats
    left: Floats

    def sets(self, board: Board) -> tuple[Positions, Floats]:
        """Return the sizes, and sets of that many rows with that many positives."""
        member = np.zeros((len(self.size), len(board.psi)))
        for row, (size, hits) in enumerate(zip(self.size, self.hits, strict=True)):
            for part, held in zip(board.parts, (hits, board.taken[size] - hits), strict=False):
                weight = board.weight[part]
                before = np.cumsum(weight) - weight
                member[row, part] = np.clip((held - before) / weight, 0.0, 1.0)
        return self.size, member

    def mended(self, board: Board, played: Predictor) -> Predictor:
        """Return a mix that meets the requirements, where another misses them by rounding."""
        slack = played.mix @ board.slacks(played.size, played.member)
        missed = (slack < 0.0) & (self.left > 0.0)
        if not missed.any():
            return played
        share = float(np.max(slack[missed] / (slack[missed] - self.left[missed])))
        size, member = self.sets(board)
        return Predictor(
            np.concatenate([played.size, size]),
            np.vstack([played.member, member]),
            np.concatenate([(1.0 - share) * played.mix, share * self.mix]),
        )


def target_for(  # noqa: PLR0917  the tables of a game
    names: Sequence[str],
    taken: Floats,
    positives: float,
    total: float,
    slack: Floats,
    slack_slope: Floats,
) -> Target:
    """Find a mix that meets the requirements.

    Parameters
    ----------
    names : sequence of str
        Of the requirements.
    taken : ndarray of shape (n_sizes,)
        Sizes.
    positives, total : float
        Rows.
    slack, slack_slope : ndarray of shape (n_requirements, n_sizes)
        Slack for no hits, and for each.

    Returns
    -------
    Target

    Raises
    ------
    InfeasibleConstraints
        If there is none.
    """
    # affine in the hits, so the ends are all that matters
    hits = np.concatenate(
        [np.minimum(taken, positives), np.maximum(0.0, taken - total + positives)]
    )
    size = np.tile(np.arange(len(taken)), 2)
    left = slack[:, size] + slack_slope[:, size] * hits
    if not len(names):
        return Target(np.zeros(0, np.intp), np.zeros(0), np.zeros(0), np.zeros(0))
    mix = _scarcest(left)
    mean = left @ mix
    if mean.min() < -_ROUNDING:
        _refuse(list(names), left)
    used = np.flatnonzero(mix)
    return Target(size[used], hits[used], mix[used], np.where(mean > _ROUNDING, mean, 0.0))


def _scarcest(left: Floats) -> Floats:
    """Return the mix with the greatest smallest mean slack."""
    n_requirements, n_points = left.shape
    if n_requirements == 1:
        mix = np.zeros(n_points)
        mix[np.argmax(left[0])] = 1.0
        return mix
    matrix = np.zeros((n_requirements + 1, n_points + 1))
    matrix[:-1, 0] = 1.0
    matrix[:-1, 1:] = -left
    matrix[-1, 1:] = 1.0
    low = np.append(np.full(n_requirements, -np.inf), 1.0)
    high = np.append(np.zeros(n_requirements), 1.0)
    cost = np.append(-1.0, np.zeros(n_points))
    least = np.append(-np.inf, np.zeros(n_points))
    found = minimised(cost, sparse.csr_matrix(matrix), low, high, least)
    if found is None:
        raise RuntimeError("the linear program of the requirements has not been solved")
    mix = np.maximum(found[1][1:], 0.0)
    mix[mix < 1e-12] = 0.0
    return np.asarray(mix / mix.sum())


def _refuse(names: list[str], left: Floats) -> None:
    """Name requirements that can't hold together, as few as needed."""
    kept = list(range(len(names)))
    for one in list(kept):
        rest = [other for other in kept if other != one]
        if rest and (left[rest] @ _scarcest(left[rest])).min() < -_ROUNDING:
            kept = rest
    conflict = [names[one] for one in kept]
    if len(conflict) == 1:
        short = -float(left[kept[0]].max())
        raise InfeasibleConstraints(
            f"no prediction of these rows meets {conflict[0]}: the best one misses it by "
            f"{short:.6g}; lower the requirement or leave it out",
            conflict=conflict,
        )
    raise InfeasibleConstraints(
        "no mix of predictions of these rows meets " + " and ".join(conflict) + " together; lower "
        "one of them or leave it out",
        conflict=conflict,
    )
