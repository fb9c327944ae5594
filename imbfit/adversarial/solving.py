"""One entry to all solvers of a game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.admm import solve_admm
from imbfit.adversarial.binning import solve_binned
from imbfit.adversarial.game import Game, Prepared, prepare, solve_exact
from imbfit.adversarial.marginal_lp import solve_lp
from imbfit.adversarial.observed import ObservedGame, observed_game, solve_observed
from imbfit.adversarial.solution import Solution
from imbfit.exceptions import UnsupportedMetric

__all__ = ["MOST_EXACT_ROWS", "SOLVERS", "Solver", "solve", "solver_for"]

Floats: TypeAlias = NDArray[np.float64]

SOLVERS = ("auto", "closed", "exact", "lp", "admm")
# Above so many rows the exact solver puts rows into so many blocks.
MOST_EXACT_ROWS, _BINS = 400, 48
# And with a fixed number of positives above so many, where so many digits are wanted: blocks are
# ten times as fast there, and leave a gap of 1e-4 and more.
_MOST_ROWS_OF_ONE_SIZE, _FINE = 1000, 1e-5


@dataclass(frozen=True, eq=False)
class Solver:
    """A game with what never changes, to be solved for many scores.

    Attributes
    ----------
    game : Game
    solver : {"closed", "exact", "lp", "admm"}
        What solves it.
    tol : float
        Gap, relative to max(1, abs(value)), at which the exact solver and "admm" stop.
    bins : int
        Blocks; 0 where each row is its own.
    closed : ObservedGame or None
        For "closed".
    prepared : Prepared or None
        For "exact" without blocks.
    """

    game: Game
    solver: str
    tol: float
    bins: int = 0
    closed: ObservedGame | None = None
    prepared: Prepared | None = None

    def __call__(self, psi: Floats, start: Solution | None = None) -> Solution:
        """Solve it for given scores, from an earlier solution by the same solver if any."""
        psi = np.asarray(psi, float)
        if self.closed is not None:
            return solve_observed(psi, self.closed)
        if self.solver == "lp":
            return solve_lp(psi, self.game)
        if self.solver == "admm":
            return solve_admm(
                psi, self.game, tol=self.tol, start=None if start is None else start.memory
            )
        if self.prepared is not None:
            return solve_exact(psi, self.prepared, tol=self.tol, start=start)
        return solve_binned(psi, self.game, bins=self.bins, tol=self.tol, start=start)


def solver_for(
    game: Game, *, solver: str = "auto", tol: float = 1e-9, bins: int | None = None
) -> Solver:
    """Choose a solver, and prepare what never changes.

    Parameters
    ----------
    game : Game
        To be solved for many scores.
    solver : {"auto", "closed", "exact", "lp", "admm"}, default="auto"
        "auto" is the closed form where there is one, else "exact".
    tol : float, default=1e-9
        Gap, relative to max(1, abs(value)), at which "exact" and "admm" stop.
    bins : int, default=None
        Blocks of rows for "exact", 0 for none. By default none up to 400 rows, and up to 1,000
        with the observed count and `tol` below 1e-5.

    Returns
    -------
    Solver

    Raises
    ------
    UnsupportedMetric
        If the closed form is asked for and does not apply.
    InfeasibleConstraints
        If no mix of predictions meets the requirements.
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r}: allowed are {', '.join(map(repr, SOLVERS))}")
    if solver in {"lp", "admm"}:
        return Solver(game, solver, tol)
    if solver == "closed" or (solver == "auto" and _may_be_closed(game)):
        try:
            return Solver(game, "closed", tol, closed=_closed(game))
        except UnsupportedMetric:
            if solver == "closed":
                raise
    if bins is None:
        one = game.count == "observed" and tol < _FINE
        most = _MOST_ROWS_OF_ONE_SIZE if one else MOST_EXACT_ROWS
        bins = 0 if len(game.labels) <= most else _BINS
    return Solver(game, "exact", tol, bins, prepared=None if bins else prepare(game))


def solve(
    psi: Floats,
    game: Game,
    *,
    solver: str = "auto",
    tol: float = 1e-9,
    start: Solution | None = None,
    bins: int | None = None,
) -> Solution:
    """Solve a game once; see :func:`solver_for` for the parameters."""
    return solver_for(game, solver=solver, tol=tol, bins=bins)(psi, start)


def _may_be_closed(game: Game) -> bool:
    return game.count == "observed" and not game.requirements


def _closed(game: Game) -> ObservedGame:
    if not _may_be_closed(game):
        what = "requirements" if game.requirements else "the expected count"
        raise UnsupportedMetric(
            f"solver='closed': there is no closed form with {what}; take solver='auto'"
        )
    weight = game.multiplicity
    positives = float(game.labels.sum() if weight is None else weight[game.labels].sum())
    return observed_game(game.payoff, len(game.labels), positives, weight)
