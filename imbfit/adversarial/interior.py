r"""The game restricted to some sizes, by a primal-dual interior point method.

The same game as in :mod:`~imbfit.adversarial.size_marginals`: sizes l and k with probabilities s_l
and r_k, marginals q_l in [0, s_l] and p_k in [0, r_k] that sum to l s_l and k r_k,

.. math:: \min_{q, s} \max_{p, r} \; \sum_{kl} S_{kl} \, p_k \cdot q_l + r^T G s
          - \psi \cdot \sum_l q_l

and a price a >= 0 for each requirement on p and r. Given the sizes' probabilities and a price of
each sum, the blocks of rows part into small games of their own. So a step of Newton's method on the
conditions of the saddle takes a small inverse for each block, and one system in the sizes. The
steps hardly depend on how many sizes an optimum mixes, where those of a simplex method do.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.board import Adversary, Board, Predictor
from imbfit.adversarial.interior_newton import Newton
from imbfit.adversarial.interior_rest import Rest, resumed
from imbfit.adversarial.interior_state import State, Tables, centre, tables_of

__all__ = ["solve_interior"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

_STEPS = 60
# From another game's point so many steps in a row may leave the gap above its least; where they do,
# the way from the centre is shorter.
_PATIENCE = 5
# Of the way to the boundary; a step shorter than the last gets nowhere.
_SHORT, _TINY = 0.995, 1e-6
# Gondzio's correctors: so many, towards products within this factor of their aim at a step longer
# by this factor, until a step is long or gains little.
_CORRECTORS, _FACTOR, _AHEAD, _LONG, _GAINED = 3, 4.0, 1.5, 0.95, 0.03
# Power in the choice of the aim; Mehrotra's is 3.
_CENTRING = 4
# What the conditions lack may be worth so much at any tolerance of the gap.
_EXACT = 1e-9
# Another game begins at the last point with such a gap: a closer one is too near its boundaries.
_REST = 1e-2
# Points are kept whose gaps differ by this factor.
_KEPT = 0.3
# By how much marginals are held where they are, and at most, where equations that are solved worse
# than the gap want more.
_HELD, _MOST_HELD, _TIGHTER = 1e-9, 1e-6, 10.0**0.5


def solve_interior(
    board: Board,
    taken: Positions,
    actual: Positions,
    *,
    tol: float,
    start: Rest | None = None,
    near: float = np.inf,
) -> tuple[Adversary, Predictor, Rest] | None:
    """Solve the game restricted to some sizes.

    Parameters
    ----------
    board : Board
        The game, in the order of the scores.
    taken, actual : ndarray of int
        Positions of the sizes of the predictor and of the adversary.
    tol : float
        Of the gap.
    start : Rest, default=None
        Of a game that is not too different.
    near : float, default=inf
        Of the gap, as `tol`: begin at the last point with a larger one. The closer the games are
        the smaller it may be, and by default they may be far from each other.

    Returns
    -------
    adversary : Adversary
    predictor : Predictor
        Probabilities sum to 1, and marginals to their sizes, whatever the gap is in the end.
    rest : Rest
        For the next game.
    None
        In place of these, where not even the first equations can be solved.
    """
    game = tables_of(board, taken, actual)
    begin = None if start is None else resumed(game, start.back(min(_REST, near / game.unit)))
    if begin is not None:
        found = _followed(game, begin, tol / game.unit, patience=_PATIENCE)
        if found is not None and found[2]:
            return *_played(game, found[0], taken, actual), found[1]
    found = _followed(game, centre(game), tol / game.unit)
    if found is None:
        return None
    return *_played(game, found[0], taken, actual), found[1]


def _followed(
    game: Tables, at: State, tol: float, *, patience: int = _STEPS
) -> tuple[State, Rest, bool] | None:
    """Follow the central path; return its end, a point before, and whether the gap is closed."""
    rest, held = Rest(game, at, _gap(game, at) / game.pairs), _HELD
    least, since = rest.gap, 0
    for steps in range(_STEPS):
        try:
            with np.errstate(all="ignore"):
                found, closed, held = _next(game, at, tol, held)
        except np.linalg.LinAlgError:
            found, closed = None, False
        if found is None:
            return (at, rest, closed) if steps or closed else None
        at = found
        gap = _gap(game, at)
        if gap < _KEPT * rest.gap:
            rest = Rest(game, at, gap / game.pairs, rest)
        least, since = (gap, 0) if gap < least else (least, since + 1)
        if since >= patience:
            break
    return at, rest, False


def _next(game: Tables, at: State, tol: float, held: float) -> tuple[State | None, bool, float]:
    """Return the next state, or None and whether the gap is closed; rounding may stop all steps."""
    gap = _gap(game, at)
    newton = Newton(game, at, held)
    if gap <= tol and newton.worth(*newton.lacks) <= max(tol, _EXACT):
        return None, True, held
    # of marginals and of what stands for all rows
    worth = [1.0, 1.0, 2.0 * game.total, 2.0 * game.total]
    nowhere = [np.zeros(1)] * len(worth)
    straight = newton.step(nowhere)
    while not newton.left() <= max(gap, tol) and held < _MOST_HELD:
        held *= _TIGHTER
        newton = Newton(game, at, held)
        straight = newton.step(nowhere)
    ahead = at.moved(straight, _longest(game, at, straight))
    aim = min((_gap(game, ahead) / gap) ** _CENTRING, 1.0) * gap / game.pairs
    curves = [dv * dz for dv, dz in straight.pairs(game)]
    goals = [aim * w - curve for w, curve in zip(worth, curves, strict=True)]
    step = newton.step(goals)
    length = _longest(game, at, step)
    for _ in range(_CORRECTORS):
        if length > _LONG:
            break
        tried = at.moved(step, min(1.0, _AHEAD * length + 0.1))
        wanted = [
            goal + _nearer(v * z, aim * w)
            for goal, (v, z), w in zip(goals, tried.pairs(game), worth, strict=True)
        ]
        bent = newton.step(wanted)
        share, further = _best_share(game, at, step, bent)
        if share == 0.0:
            break
        goals = [g + share * (w - g) for g, w in zip(goals, wanted, strict=True)]
        step, gained, length = step.between(bent, share), further - length, further
        if gained < _GAINED:
            break
    new = at.moved(step, min(1.0, _SHORT * length))
    inside = all((part > 0.0).all() for pair in new.pairs(game) for part in pair)
    fine = inside and length > _TINY and np.isfinite(_gap(game, new))
    return (new if fine else None), False, held


def _gap(game: Tables, at: State) -> float:
    (x, low), (room, high), (edge, by), (due, left) = at.pairs(game)
    return float(game.weight @ (x * low + room * high).sum(axis=1) + edge @ by + due @ left)


def _longest(game: Tables, at: State, step: State) -> float:
    fastest = 0.0
    for pair, move in zip(at.pairs(game), step.pairs(game), strict=True):
        for value, change in zip(pair, move, strict=True):
            if value.size:
                fastest = max(fastest, float(-(change / value).min()))
    return 1.0 / fastest if fastest > 1.0 else 1.0


def _best_share(game: Tables, at: State, step: State, bent: State) -> tuple[float, float]:
    """Return how far to go from one step to another for the longest way, and how long it is."""
    found = (0.0, _longest(game, at, step))
    for share in (1.0, 0.7, 0.4, 0.15):
        length = _longest(game, at, step.between(bent, share))
        if length > found[1]:
            found = share, length
    return found


def _nearer(product: Floats, aim: float) -> Floats:
    """Return what brings products towards their aim, without haste."""
    wanted = np.clip(product, aim / _FACTOR, aim * _FACTOR)
    return np.maximum(wanted - product, -aim * _FACTOR)


def _played(
    game: Tables, at: State, taken: Positions, actual: Positions
) -> tuple[Adversary, Predictor]:
    """Return probabilities that sum to 1 and marginals that sum to their sizes."""
    n = game.n_adversary
    odds = np.maximum(at.size, 0.0)
    odds[:n] /= odds[:n].sum()
    odds[n:] /= odds[n:].sum()
    shares = np.zeros((len(game.cost), len(game.psi)))
    shares[game.edge[game.full_edge]] = odds[game.edge[game.full_edge], None]
    most = odds[game.open_]
    x = np.clip(at.x * (most / at.size[game.open_]), 0.0, most)
    held, wanted = game.weight @ x, game.rows * most
    less = np.minimum(1.0, wanted / held)
    room = game.total * most - held
    more = np.minimum(1.0, (game.total * most - wanted) / np.where(room > 0.0, room, 1.0))
    shares[game.open_] = np.where(held > wanted, x * less, most - (most - x) * more).T
    adversary = Adversary(actual, odds[:n], shares[:n], at.due * game.unit / game.units)
    mix = odds[n:]
    used = mix > 0.0
    member = np.clip(shares[n:][used] / mix[used, None], 0.0, 1.0)
    return adversary, Predictor(taken[used], member, mix[used])
