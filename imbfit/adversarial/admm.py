r"""The paper's alternating directions for the adversary's marginals, stopped by the gap.

With the sizes' shares written out, the expected payoff is ``<P, A Q B + Q C + D> + <Q, E>`` plus
a constant, A being all ones. Each round projects Q onto the adversary's polytope, then the
predictor's P onto its own and its requirements, and then solves for the copy X of Q that links
them; A has rank one, so that takes two products. Unlike the paper's, both steps are over-relaxed.

The rounds wander about the solution. So the bounds of the iterates and of their averages are
computed every few rounds, all of them being feasible; the best of each side are kept; and the
rounds restart from the average where it is ahead, with the step ``rho`` that the distances
travelled suggest. The paper's code stops after 100 rounds, wherever they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.paper import PaperGame, paper_game
from imbfit.adversarial.projection import HalfSpaces, Polytope, project, project_and_meet
from imbfit.adversarial.solution import Solution

if TYPE_CHECKING:
    from imbfit.adversarial.game import Game

__all__ = ["LARGEST", "AdmmState", "solve_admm"]

Floats: TypeAlias = NDArray[np.float64]

#: Rows of the largest batch: a round takes their cube of operations.
LARGEST = 400
_LOOK_EVERY = 10
# Rounds restart where a look finds so little of the gap left, or after this share of them all.
_CLOSED, _LONG = 0.3, 0.4
# Over-relaxation: a quarter fewer rounds to a gap of 1e-4 (median of 40 games).
_RELAXED = 1.6
_SMALLEST_RHO, _LARGEST_RHO = 1e-5, 1e5


@dataclass(frozen=True)
class AdmmState:
    """Where to go on.

    Attributes
    ----------
    X, W : ndarray of shape (n_rows, n_counts)
        The copy of the adversary's marginals and its scaled price.
    U : ndarray of shape (n_rows, n_rows)
        The scaled price of the predictor's side.
    multipliers : ndarray of shape (n_requirements,)
        Of the requirements, in units of the payoff.
    rho : float
        The step.
    """

    X: Floats
    W: Floats
    U: Floats
    multipliers: Floats
    rho: float


@dataclass(frozen=True)
class _Linked:
    """The matrices of the payoff, and the solution of the linear step."""

    B: Floats
    C: Floats
    D: Floats
    E: Floats
    shrink: Floats
    M: Floats
    inner: Floats

    def payoff(self, X: Floats) -> Floats:
        """Return A X B + X C."""
        found: Floats = X @ self.C + X.sum(axis=0) @ self.B
        return found

    def copy(self, rest: Floats, target: Floats) -> Floats:
        """Return the X that is nearest to `target` while its payoff is to `rest`."""
        total = rest.sum(axis=0) @ self.B.T
        R = (rest @ self.C.T + total + target) @ self.shrink
        found: Floats = R - (R.sum(axis=0) @ self.inner) @ self.M
        return found


def _linked(game: PaperGame, counts: Floats) -> _Linked:
    n = len(game.positive)
    chosen = game.counts > 0.0
    sizes = np.arange(1.0, n + 1)
    base, alone = game.intercept[0, 0], game.intercept[1:, 0]
    if game.counts[0] > 0.0:
        # the adversary's mass is whole, so any count may be the one that the others are compared to
        base, alone = 0.0, np.zeros(n)
    G, first = game.intercept[1:, chosen], game.intercept[0, chosen]
    B = ((G - first - alone[:, None] + base) / sizes[:, None] / counts).T
    C = game.slope[1:, chosen].T
    D = np.tile((alone - base) / sizes, (n, 1))
    E = np.tile((first - base) / counts, (n, 1))
    shrink = np.asarray(np.linalg.inv(np.eye(len(counts)) + C @ C.T), float)
    M = (n * B @ B.T + C @ B.T + B @ C.T) @ shrink
    return _Linked(B, C, D, E, shrink, M, np.linalg.inv(np.eye(len(counts)) + n * M))


@dataclass
class _Best:
    """The best of each side so far."""

    upper: float = np.inf
    lower: float = -np.inf
    q: Floats = field(default_factory=lambda: np.zeros(0))
    r: Floats = field(default_factory=lambda: np.zeros(0))

    def look(self, game: PaperGame, psi: Floats, Q: Floats, P: Floats, prices: Floats) -> float:
        """Take in a pair, and return its gap."""
        n = len(psi)
        full = np.zeros((n, len(game.counts)))
        full[:, game.counts > 0.0] = Q
        full, s = game.adversary(full)
        P, r = game.predictor(np.hstack([np.zeros((n, 1)), P]))
        upper = game.upper(psi, full, s, prices)
        lower = game.lower(psi, P, r, prices)
        if upper < self.upper:
            self.upper, self.q = upper, full.sum(axis=1)
        if lower > self.lower:
            self.lower, self.r = lower, r
        return upper - lower


def solve_admm(
    psi: Floats,
    game: Game,
    *,
    tol: float = 1e-6,
    max_iter: int = 5000,
    rho: float = 1.0,
    start: AdmmState | None = None,
) -> Solution:
    """Solve a game by the alternating directions of the paper.

    Parameters
    ----------
    psi : ndarray of shape (n_rows,)
        Scores.
    game : Game
        Without multiplicities, of up to 400 rows.
    tol : float, default=1e-6
        The rounds stop where the bounds are no further apart than this times the value, or than
        this where the value is below 1.
    max_iter : int, default=5000
        Most rounds; the bounds say how far they got.
    rho : float, default=1.0
        The first step; it adapts, and `start` brings its own.
    start : AdmmState, default=None
        The `memory` of the last solution, for another psi or other labels of as many rows.

    Returns
    -------
    Solution

    Raises
    ------
    ValueError
        If rows have multiplicities, there are too many, `max_iter` is below 1, or `start` is of
        another game.
    InfeasibleConstraints
        If no mix of predictions meets the requirements.
    """
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter}: it takes at least 1 round")
    psi = np.asarray(psi, float)
    read = paper_game(
        game,
        len(psi),
        solver="admm",
        limit=LARGEST,
        instead='solver="auto", which solves the same game, or a smaller batch_size',
    )
    state, counts = _first(read, rho, start)
    best = _Best()
    rounds = _Rounds(read, psi, counts)
    total = 0
    left = np.inf
    while total < max_iter:
        state, done, left = rounds.epoch(
            state, best, left, most=max_iter - total, long=max(100, int(_LONG * total)), tol=tol
        )
        total += done
        if best.upper - best.lower <= tol * max(1.0, abs(best.upper)):
            break
    played = np.flatnonzero(best.r)
    return Solution(
        best.upper,
        best.q,
        played.astype(float),
        best.r[played],
        min(best.lower, best.upper),
        best.upper,
        total,
        state,
    )


def _first(game: PaperGame, rho: float, start: AdmmState | None) -> tuple[AdmmState, Floats]:
    n, counts = len(game.positive), game.counts[game.counts > 0.0]
    shape, n_requirements = (n, len(counts)), len(game.slack_slope)
    if start is None:
        zeros = np.zeros(shape)
        return AdmmState(zeros, zeros, np.zeros((n, n)), np.zeros(n_requirements), rho), counts
    if start.X.shape != shape or start.multipliers.shape != (n_requirements,):
        raise ValueError(
            f"start is the state of a game of {start.X.shape[0]} rows, {start.X.shape[1]} counts "
            f"and {len(start.multipliers)} requirements, and this one has {n}, {len(counts)} and "
            f"{n_requirements}; leave it out"
        )
    return start, counts


class _Rounds:
    """The alternation itself."""

    def __init__(self, game: PaperGame, psi: Floats, counts: Floats) -> None:
        n = len(psi)
        self.game, self.psi = game, psi
        self.linked = _linked(game, counts)
        self.cost = self.linked.E - psi[:, None]
        self.adversary = Polytope(counts, whole=bool(game.counts[0] > 0.0))
        sizes = np.arange(1.0, n + 1)
        self.predictor = Polytope(sizes)
        nobody = game.slack_intercept[:, 0]
        level = (game.slack_intercept[:, 1:] - nobody[:, None]) / sizes
        terms = game.positive[:, None] * game.slack_slope[:, None, 1:] + level[:, None, :]
        # a requirement that holds but for rounding is moved to where it holds
        short = np.minimum(0.0, game.slack(*game.predictor(game.target)))
        self.half_spaces = HalfSpaces(terms, nobody - short)
        self.masses = [0.0, 0.0]

    def epoch(
        self, state: AdmmState, best: _Best, left: float, *, most: int, long: int, tol: float
    ) -> tuple[AdmmState, int, float]:
        """Go on until a restart is due; return where from, the rounds gone, and the gap there."""
        linked, rho = self.linked, state.rho
        X, W, U, multipliers = state.X, state.W, state.U, state.multipliers * rho
        met = linked.payoff(X) + linked.D
        sums: list[Floats] = []
        done = 0
        while True:
            Q, self.masses[0] = project(X + W - self.cost / rho, self.adversary, self.masses[0])
            T = met + U
            if len(multipliers):
                P, multipliers, self.masses[1] = project_and_meet(
                    rho * T, self.predictor, self.half_spaces, multipliers, self.masses[1]
                )
            else:
                P, self.masses[1] = project(rho * T, self.predictor, self.masses[1])
            Z = T - P / rho
            # only the link is relaxed: the bounds are those of the projections themselves
            Q_far, Z_far = X + _RELAXED * (Q - X), met + _RELAXED * (Z - met)
            X = linked.copy(Z_far - linked.D - U, Q_far - W)
            met = linked.payoff(X) + linked.D
            U = U + met - Z_far
            W = W + X - Q_far
            done += 1
            now = [X, W, U, Q, P, multipliers / rho]
            sums = [a + b for a, b in zip(sums, now, strict=True)] if sums else now
            if done % _LOOK_EVERY and done < most:
                continue
            mean = [a / done for a in sums]
            gaps = [best.look(self.game, self.psi, *pair[3:]) for pair in (now, mean)]
            closed = best.upper - best.lower <= tol * max(1.0, abs(best.upper))
            if closed or min(gaps) <= _CLOSED * left or done >= min(long, most):
                ahead = mean if gaps[1] < gaps[0] else now
                reached = AdmmState(ahead[0], ahead[1], ahead[2], ahead[5], rho)
                return self._with_step(state, reached), done, min(gaps)

    def _with_step(self, old: AdmmState, new: AdmmState) -> AdmmState:
        """Return the state for the step that balances what both sides have travelled."""
        moved = new.X - old.X
        primal = np.hypot(np.linalg.norm(moved), np.linalg.norm(self.linked.payoff(moved)))
        dual = np.hypot(np.linalg.norm(new.W - old.W), np.linalg.norm(new.U - old.U))
        if not (primal > 1e-12 and dual > 1e-12):
            return new
        rho = float(np.clip(new.rho * np.sqrt(dual / primal), _SMALLEST_RHO, _LARGEST_RHO))
        share = new.rho / rho
        return replace(new, W=new.W * share, U=new.U * share, rho=rho)
