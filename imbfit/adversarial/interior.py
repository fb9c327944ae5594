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
from imbfit.adversarial.interior_newton import Newton, lacking, worth_of
from imbfit.adversarial.interior_rest import Rest, resumed
from imbfit.adversarial.interior_state import State, centre
from imbfit.adversarial.interior_tables import tables_of

__all__ = ["solve_interior"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

_STEPS = 60
# From another game's point so many steps in a row may leave the gap above its least; where they do,
# the way from the centre is shorter.
_PATIENCE = 5
# Of the way to the boundary; a step shorter than the last gets nowhere.
_SHORT, _TINY = 0.99, 1e-6
# Gondzio's correctors: so many, towards products within this factor of their aim at a step longer
# by this factor, until a step is long or gains little.
_CORRECTORS, _FACTOR, _AHEAD, _LONG, _GAINED = 3, 10.0, 2.0, 0.95, 0.03
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
        found = _followed(begin, tol / game.unit, patience=_PATIENCE)
        if found is not None and found[2]:
            return *_played(found[0], taken, actual), found[1]
    found = _followed(centre(game), tol / game.unit)
    if found is None:
        return None
    return *_played(found[0], taken, actual), found[1]


def _followed(at: State, tol: float, *, patience: int = _STEPS) -> tuple[State, Rest, bool] | None:
    """Follow the central path; return its end, a point before, and whether the gap is closed."""
    rest, held = Rest(at, at.gap), _HELD
    least, since = rest.gap, 0
    for steps in range(_STEPS):
        try:
            with np.errstate(all="ignore"):
                found, closed, held = _next(at, tol, held)
        except np.linalg.LinAlgError:
            found, closed = None, False
        if found is None:
            return (at, rest, closed) if steps or closed else None
        at = found
        gap = at.gap
        if gap < _KEPT * rest.gap:
            rest = Rest(at, gap, rest)
        least, since = (gap, 0) if gap < least else (least, since + 1)
        if since >= patience:
            break
    return at, rest, False


def _next(at: State, tol: float, held: float) -> tuple[State | None, bool, float]:
    """Return the next state, or None and whether the gap is closed; rounding may stop all steps."""
    gap = at.gap
    lacks = lacking(at)
    if gap <= tol and worth_of(at, *lacks) <= max(tol, _EXACT):
        return None, True, held
    newton = Newton(at, lacks, held)
    straight = newton.step(0.0)
    while held < _MOST_HELD and not _solved(newton, straight, max(gap, tol)):
        held *= _TIGHTER
        newton = Newton(at, lacks, held)
        straight = newton.step(0.0)
    step = _step(newton, straight, gap)
    lengths = _Way.of(at, step).lengths
    new = at.moved(step, *(min(1.0, _SHORT * length) for length in lengths))
    inside = bool((new.first > 0.0).all() and (new.second > 0.0).all())
    fine = inside and min(lengths) > _TINY and np.isfinite(new.gap)
    return (new if fine else None), False, held


def _solved(newton: Newton, step: State, enough: float) -> bool:
    """Tell whether equations can be solved as well as that."""
    return newton.left(0.0, step) <= enough or (
        newton.left(0.0, newton.polished(0.0, step)) <= enough
    )


def _step(newton: Newton, straight: State, gap: float) -> State:
    """Return a step that aims at products of one size, by predictor and correctors."""
    game, at = newton.game, newton.at
    ahead = at.moved(straight, *_Way.of(at, straight).lengths)
    aim = min((ahead.gap / gap) ** _CENTRING, 1.0) * gap / game.pairs * game.worth
    goals = aim - straight.first * straight.second
    step = newton.step(goals)
    way = _Way.of(at, step)
    for _ in range(_CORRECTORS):
        if min(way.lengths) > _LONG:
            break
        tried = at.moved(step, *(min(1.0, _AHEAD * length + 0.1) for length in way.lengths))
        wanted = goals + _nearer(tried.first * tried.second, aim)
        bent = newton.step(wanted)
        share, further = way.best_share(_Way.of(at, bent))
        if share == 0.0:
            break
        goals = goals + share * (wanted - goals)
        gained = sum(further.lengths) - sum(way.lengths)
        step, way = step.between(bent, share), further
        if gained < _GAINED:
            break
    return newton.polished(goals, step)


class _Way:
    """How fast a step leads to the boundary, and how far it goes.

    Attributes
    ----------
    speeds : tuple of ndarray
        What a whole step takes of what it has, for each that must stay positive: of what follows
        from the adversary's part, and from the predictor's.
    lengths : tuple of float
        So much of the step leads to the boundary; at most 1.
    """

    def __init__(self, adversary: Floats, predictor: Floats) -> None:
        self.speeds = adversary, predictor
        fastest = (float(speed.max(initial=0.0)) for speed in self.speeds)
        self.lengths = tuple(1.0 / fast if fast > 1.0 else 1.0 for fast in fastest)

    @classmethod
    def of(cls, at: State, step: State) -> _Way:
        first, second = -step.first / at.first, -step.second / at.second
        mine = at.game.moved_by_adversary[0]
        others = ~mine
        return cls(
            np.concatenate([first[mine], second[others]]),
            np.concatenate([first[others], second[mine]]),
        )

    def best_share(self, other: _Way) -> tuple[float, _Way]:
        """Return how far to go from one step to another for the longest way, and that."""
        found: tuple[float, _Way] = (0.0, self)
        more = [new - old for old, new in zip(self.speeds, other.speeds, strict=True)]
        for share in (1.0, 0.7, 0.4, 0.15):
            way = _Way(self.speeds[0] + share * more[0], self.speeds[1] + share * more[1])
            if sum(way.lengths) > sum(found[1].lengths):
                found = share, way
        return found


def _nearer(product: Floats, aim: Floats) -> Floats:
    """Return what brings products towards their aim, without haste."""
    wanted = np.clip(product, aim / _FACTOR, aim * _FACTOR)
    return np.maximum(wanted - product, -aim * _FACTOR)


def _played(at: State, taken: Positions, actual: Positions) -> tuple[Adversary, Predictor]:
    """Return probabilities that sum to 1 and marginals that sum to their sizes."""
    game, n = at.game, at.game.n_adversary
    odds = np.maximum(at.size, 0.0)
    odds[:n] /= odds[:n].sum()
    odds[n:] /= odds[n:].sum()
    shares = np.zeros((len(game.cost), len(game.psi)))
    shares[game.edge[game.full_edge]] = odds[game.edge[game.full_edge], None]
    most = odds[game.open_]
    x = np.clip(at.x * (most / at.size[game.open_]), 0.0, most)
    held, wanted = game.weight @ x, game.rows * most
    less = np.minimum(1.0, wanted / np.where(held > 0.0, held, 1.0))
    room = game.total * most - held
    more = np.minimum(1.0, (game.total * most - wanted) / np.where(room > 0.0, room, 1.0))
    shares[game.open_] = np.where(held > wanted, x * less, most - (most - x) * more).T
    adversary = Adversary(actual, odds[:n], shares[:n], at.due * game.unit / game.units)
    mix = odds[n:]
    used = mix > 0.0
    member = np.clip(shares[n:][used] / mix[used, None], 0.0, 1.0)
    return adversary, Predictor(taken[used], member, mix[used])
