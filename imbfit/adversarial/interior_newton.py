"""Newton's equations of the game restricted to some sizes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetrs

from imbfit.adversarial.interior_state import State

__all__ = ["Newton", "lacking", "worth_of"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]


def lacking(at: State) -> tuple[Floats, Floats]:
    """Return what the conditions without products lack: of marginals, and of all else."""
    game = at.game
    n, x, size, price, high = game.n_adversary, at.x, at.size, at.price, at.high
    rows = game.across(x) + game.raised(at.due)
    rows -= price + game.sign * (at.low - high)
    rows[:, : game.n_open] -= game.psi[:, None]
    sizes = game.pay @ size + game.cost + at.due @ game.slack
    sizes[:n] -= at.sums[0]
    sizes[n:] -= at.sums[1]
    sizes[game.open_] += game.rows * price - game.sign * (game.weight @ high)
    sizes[game.edge] -= game.edge_sign * at.edge
    held = game.rows * size[game.open_] - game.weight @ x
    left = game.slack @ size + game.sums(x) - at.left
    odds = np.array([size[:n].sum(), size[n:].sum()])
    return -rows, -np.concatenate([sizes, held, left, 1.0 - odds])


def worth_of(at: State, rows: Floats, others: Floats) -> float:
    """Return by how much the payoff may be off for what conditions lack."""
    game, size = at.game, at.size
    marginals = float(game.weight @ np.abs(rows) @ size[game.open_])
    n_sizes = len(game.cost)
    return marginals + float(np.abs(others[:n_sizes]) @ size + np.abs(others[n_sizes:]).sum())


class Newton:
    """Newton's equations at a state: factored once, solved for several right hand sides.

    Of a block's equations [D, S'; S, -D] no more than the rank of S is ever inverted. With F the
    tables' factor, J what swaps the players, Y the inverse of the diagonals, and G = F'YF,
    the inverse is Y - Y F (J + G)^-1 F' Y.

    Marginals that nothing else tells where to go stay near where they are: `held` times a step's
    square. The smaller it is the fewer steps are needed, and the more digits rounding costs.

    Parameters
    ----------
    at : State
        Where the step begins.
    lacks : tuple of ndarray
        What the conditions lack there; see :func:`lacking`.
    held : float
        How much marginals are held where they are.
    """

    def __init__(self, at: State, lacks: tuple[Floats, Floats], held: float) -> None:
        self.game = game = at.game
        self.at, self.lacks = at, lacks
        self.ratio = State(game, at.first, at.second / at.first, at.free)
        self.by_high = self.ratio.high
        self.held = self.ratio.low + held
        whole = self.held + self.by_high
        self.inverse = game.sign / whole
        # of a size's own step, what its marginals take part in
        self.along = self.by_high / whole
        self.e, self.o, self.a, self.s = game.places
        self.base = game.frame.copy()
        self.base[game.edge, game.edge] += game.edge_sign * self.ratio.edge
        self.base[self.a, self.a] = self.ratio.left
        self._factor()

    def _factor(self) -> None:
        """Take the blocks out of the equations of sizes, prices and requirements."""
        game, weight = self.game, self.game.weight
        e, o, a = self.e, self.o, self.a
        # F' Y F + J, inverted for each block
        rank, first = game.rank, game.n_open
        inner = np.zeros((len(weight), 2 * rank, 2 * rank))
        own = self.inverse[:, :first] @ game.squares[0]
        other = self.inverse[:, first:] @ game.squares[1]
        inner[:, :rank, :rank] = own.reshape(len(weight), rank, rank)
        inner[:, rank:, rank:] = other.reshape(len(weight), rank, rank)
        swapped = np.arange(rank)
        inner[:, swapped, rank + swapped] = inner[:, rank + swapped, swapped] = 1.0
        self.inner = np.linalg.inv(inner)
        # what each block adds, all of rank 2 rank
        full = self.base.copy()
        full[e, e] += game.sign * (weight @ (self.along * self.held))
        full[e, o] -= weight @ self.along
        full[o, e] -= weight @ self.along
        full[o, o] -= weight @ self.inverse
        if len(a):
            risen = game.rise * self.inverse
            full[np.ix_(a, e)] += np.einsum("jia,ia,i->ja", game.rise, self.along, weight)
            full[np.ix_(e, a)] += np.einsum("jia,ia,i->aj", game.rise, self.along, weight)
            full[np.ix_(a, o)] += np.einsum("jia,i->ja", risen, weight)
            full[np.ix_(o, a)] += np.einsum("jia,i->aj", risen, weight)
            full[np.ix_(a, a)] -= np.einsum("jia,kia,i->jk", risen, game.rise, weight)
        lifts = self._lifts()
        for one, (left_lift, rows) in enumerate(lifts):
            for two, (right_lift, columns) in enumerate(lifts[: one + 1]):
                part = self.inner[:, one * rank : (one + 1) * rank, two * rank : (two + 1) * rank]
                turn = np.ascontiguousarray(part.transpose(0, 2, 1)) * weight[:, None, None]
                turned = turn @ left_lift
                cells = len(weight) * rank
                added = turned.reshape(cells, len(rows)).T @ right_lift.reshape(cells, len(columns))
                full[np.ix_(rows, columns)] += added
                if one > two:
                    full[np.ix_(columns, rows)] += added.T
        self.scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(full)), 1e-12))
        scaled = full * self.scale * self.scale[:, None]
        *self.factors, stuck = dgetrf(scaled.T, overwrite_a=True)
        if stuck:
            raise np.linalg.LinAlgError("the equations of the sizes are singular")

    def _lifts(self) -> list[tuple[Floats, Positions]]:
        """Return for each player what the sizes' equations hold of its marginals, and where."""
        game, found = self.game, []
        ends = (0, game.n_open, len(game.open_))
        for player, rank in enumerate((slice(0, game.rank), slice(game.rank, None))):
            some = slice(ends[player], ends[player + 1])
            factor = game.factor[some, rank].T
            parts = [
                self.along[:, None, some] * factor,
                self.inverse[:, None, some] * factor,
            ]
            places = [self.e[some], self.o[some]]
            if player and len(game.rise):
                risen = game.rise[:, :, some] * self.inverse[:, some]
                parts.append(-np.einsum("jia,ca->icj", risen, factor))
                places.append(self.a)
            found.append((np.concatenate(parts, axis=2), np.concatenate(places)))
        return found

    def _less(self, rows: Floats) -> Floats:
        """Return (J + G)^-1 F' rows."""
        return np.asarray((self.inner @ (rows @ self.game.factor)[:, :, None])[:, :, 0])

    def _solve(self, rows: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        game, weight = self.game, self.game.weight
        scaled = self.inverse * rows
        less = self._less(scaled) @ game.factor.T
        right = sizes.copy()
        right[self.e] += weight @ (self.along * (rows - less))
        own = scaled - self.inverse * less
        right[self.o] += weight @ own
        right[self.a] -= game.sums(own)
        move = dgetrs(*self.factors, right * self.scale, trans=1)[0] * self.scale
        rest = rows + move[self.o] - game.raised(move[self.a])
        rest = self.inverse * rest + self.along * move[self.e]
        return rest - self.inverse * (self._less(rest) @ game.factor.T), move

    def _rest(self, rows: Floats, sizes: Floats, x: Floats, move: Floats) -> tuple[Floats, Floats]:
        """Return what a solution leaves of the equations."""
        game, weight = self.game, self.game.weight
        pull = self.by_high * (move[self.e] - x)
        rest = rows - game.across(x) - game.sign * (self.held * x - pull)
        rest += move[self.o] - game.raised(move[self.a])
        others = sizes - self.base @ move
        others[self.e] -= game.sign * (weight @ pull)
        others[self.o] += weight @ x
        others[self.a] -= game.sums(x)
        return rest, others

    def left(self, goals: Floats | float, step: State) -> float:
        """Return what a step for these goals leaves of its equations, by what it is worth."""
        return worth_of(self.at, *self._rest_of(self._wanted(goals), step))

    def step(self, goals: Floats | float) -> State:
        """Return the step after which, but for curvature, each pair's product is its goal."""
        wanted = self._wanted(goals)
        return self._whole(wanted, *self._solve(*self._right(wanted)))

    def polished(self, goals: Floats | float, step: State) -> State:
        """Return a step for these goals, solved once more against rounding."""
        wanted = self._wanted(goals)
        x, move = self._solve(*self._rest_of(wanted, step))
        return self._whole(wanted, step.x + x, _move(step) + move)

    def _wanted(self, goals: Floats | float) -> Floats:
        """Return what second members are to change by, but for what the first ones do to them."""
        return np.asarray(goals / self.at.first - self.at.second)

    def _rest_of(self, wanted: Floats, step: State) -> tuple[Floats, Floats]:
        return self._rest(*self._right(wanted), step.x, _move(step))

    def _right(self, wanted: Floats) -> tuple[Floats, Floats]:
        """Return the right hand sides, given what second members are to be but for the first."""
        game = self.game
        part = State(game, wanted, wanted, wanted)
        high = part.high
        rows = self.lacks[0] + game.sign * (part.low - high)
        sizes = self.lacks[1].copy()
        sizes[self.e] += game.sign * (game.weight @ high)
        sizes[game.edge] += game.edge_sign * part.edge
        sizes[self.a] += part.left
        return rows, sizes

    def _whole(self, wanted: Floats, x: Floats, move: Floats) -> State:
        game = self.game
        size = move[: len(game.cost)]
        room = size[game.open_] - x
        first = np.concatenate([x.ravel(), room.ravel(), size[game.edge], move[self.a]])
        free = np.concatenate([move[: len(size) + len(game.open_)], move[self.s]])
        return State(game, first, wanted - self.ratio.second * first, free)


def _move(step: State) -> Floats:
    """Return a step in sizes, their prices, requirements and sums, as the equations have them."""
    return np.concatenate([step.free[:-2], step.due, step.sums])
