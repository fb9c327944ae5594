"""The games without a closed form, solved exactly.

Both players' best replies over all sizes are a sort for each size, and give the bounds: what the
adversary's marginals hold the predictor to, and what the predictor's mix holds the adversary to.
Between them a linear program over the sets that were best replies so far
(:mod:`imbfit.adversarial.restricted`), and, where these do not suffice, one over the sizes in play
(:mod:`imbfit.adversarial.size_marginals`), finds the next move of both, until the bounds meet.

A requirement binds the predictor's mix, at the observed labels. So it makes rows of the two labels
different, while rows of one label are told apart by their scores alone. Where the adversary's size
is fixed, its marginals can then be sorted like the scores within each label (neither the
predictor's best reply to them nor the requirement depends on their order, and psi . q is largest
so).
So the sets of highest scores are all the patterns that it needs, and a bound over the sorted
marginals is a bound over all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Board
from imbfit.adversarial.payoff import Payoff
from imbfit.adversarial.requirements import Target, target_for
from imbfit.adversarial.rounds import play
from imbfit.adversarial.solution import Solution

__all__ = ["Game", "Prepared", "prepare", "solve_exact"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Positions: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Game:
    """A game, but for the scores.

    Attributes
    ----------
    payoff : Payoff
        What the predictor gets.
    requirements : tuple of Payoff
        Slacks which the predictor's mix must keep at 0 or above on average, at the observed labels.
    count : {"observed", "expected"}
        Whether the adversary's labels have exactly the observed number of positives, or any.
    labels : ndarray of bool of shape (n_rows,)
        Observed labels.
    multiplicity : ndarray of shape (n_rows,), default=None
        How many rows of this label and score each one stands for; they share their q. Where they
        sum to no whole number, the sizes are spread evenly over the sum.
    """

    payoff: Payoff
    requirements: tuple[Payoff, ...]
    count: str
    labels: Bools
    multiplicity: Floats | None = None


@dataclass(frozen=True, eq=False)
class Prepared:
    """A game with its tables; see :class:`~imbfit.adversarial.board.Board` for them.

    Attributes
    ----------
    game : Game
    weight : ndarray of shape (n_rows,)
        Multiplicities.
    taken, actual, intercept, slope, slack, slack_slope : ndarray
        Sizes of both players, payoff and slacks.
    target : Target
        A mix of the predictor that meets the requirements.
    """

    game: Game
    weight: Floats
    taken: Floats
    actual: Floats
    intercept: Floats
    slope: Floats
    slack: Floats
    slack_slope: Floats
    target: Target

    def board(self, psi: Floats) -> tuple[Positions, Board]:
        """Return the order of the scores and the game in that order."""
        labels = self.game.labels
        if self.game.requirements:
            order = np.lexsort((-psi, ~labels))
            positives = int(labels.sum())
            parts: tuple[slice, ...] = (slice(0, positives), slice(positives, len(psi)))
        else:
            order = np.argsort(-psi, kind="stable")
            parts = (slice(0, len(psi)),)
        return order, Board(
            psi[order],
            self.weight[order],
            parts,
            self.taken,
            self.actual,
            self.intercept,
            self.slope,
            self.slack,
            self.slack_slope,
        )


def prepare(game: Game, sizes: Floats | None = None, positives: float | None = None) -> Prepared:
    """Read the tables, once for all scores.

    Parameters
    ----------
    game : Game
        To be solved.
    sizes : ndarray, default=None
        Sizes that the players may choose, the observed one among them; all of them by default.
    positives : float, default=None
        Observed positives, where the labels do not tell.

    Returns
    -------
    Prepared

    Raises
    ------
    InfeasibleConstraints
        If no mix of predictions meets the requirements.
    """
    n_rows = len(game.labels)
    weight = np.ones(n_rows) if game.multiplicity is None else np.asarray(game.multiplicity, float)
    total = float(weight.sum())
    if positives is None:
        positives = float(weight[game.labels].sum())
    if sizes is None:
        sizes = np.union1d(np.linspace(0.0, total, int(np.ceil(total)) + 1), [positives])
    actual = sizes if game.count == "expected" else np.array([positives])
    intercept, slope = game.payoff.tables(sizes[:, None], actual[None, :], total)
    slack, slack_slope = np.zeros((2, len(game.requirements), len(sizes)))
    for row, requirement in enumerate(game.requirements):
        slack[row], slack_slope[row] = requirement.tables(sizes, positives, total)
    names = [requirement.name for requirement in game.requirements]
    target = target_for(names, sizes, positives, total, slack, slack_slope)
    return Prepared(game, weight, sizes, actual, intercept, slope, slack, slack_slope, target)


def solve_exact(
    psi: Floats,
    game: Game | Prepared,
    *,
    tol: float = 1e-9,
    start: Solution | None = None,
    max_rounds: int = 60,
) -> Solution:
    """Solve a game.

    Parameters
    ----------
    psi : ndarray of shape (n_rows,)
        Scores.
    game : Game or Prepared
        Prepare it once where it is solved for many scores.
    tol : float, default=1e-9
        The bounds may differ by this times max(1, abs(value)).
    start : Solution, default=None
        Of the same game for other scores.
    max_rounds : int, default=60
        Whatever the rounds have led to, the bounds hold.

    Returns
    -------
    Solution
        Rows with equal scores have equal q; under requirements those of one label.
    """
    ready = game if isinstance(game, Prepared) else prepare(game)
    order, board = ready.board(np.asarray(psi, float))
    memory = None if start is None else start.memory
    bounds = play(board, ready.target, tol=tol, memory=memory, max_rounds=max_rounds)
    q = np.empty(len(board.psi))
    q[order] = bounds.q
    sizes, mix = board.mix_of_sizes(bounds.predictor)
    return Solution(
        bounds.upper, q, sizes, mix, bounds.lower, bounds.upper, bounds.rounds, bounds.memory
    )
