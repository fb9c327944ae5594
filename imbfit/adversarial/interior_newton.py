"""Newton's equations of the game restricted to some sizes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from imbfit.adversarial.interior_state import State, Tables

__all__ = ["Newton"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]


class Newton:
    """Newton's equations at a state: factored once, solved for several right hand sides.

    Of a block's equations [D, S'; S, -D] no more than the rank of S is ever inverted. With F the
    tables' factor, J what swaps the players, Y the inverse of the diagonals, and G = F'YF,
    the inverse is Y - Y F (J + G)^-1 F' Y.

    Marginals that nothing else tells where to go stay near where they are: `held` times a step's
    square. The smaller it is the fewer steps are needed, and the more digits rounding costs.

    Attributes
    ----------
    lacks : tuple of ndarray
        What the conditions without products lack: of marginals, and of all else.
    """

    def __init__(self, game: Tables, at: State, held: float) -> None:
        self.game, self.at = game, at
        self.pairs = at.pairs(game)
        (x, low), (room, high), (edge, by), (due, left) = self.pairs
        self.by_low, self.by_high = low / x, high / room
        self.by_edge, self.by_left = by / edge, left / due
        self.held = self.by_low + held
        whole = self.held + self.by_high
        self.inverse = game.sign / whole
        # of a size's own step, what its marginals take part in
        self.along = self.by_high / whole
        self.lacks = self._lacks()
        self._factor()

    def _lacks(self) -> tuple[Floats, Floats]:
        game, at, n = self.game, self.at, self.game.n_adversary
        rows = game.across(at.x) + game.raised(at.due)
        rows -= at.price + game.sign * (at.low - at.high)
        rows[:, : game.n_open] -= game.psi[:, None]
        sizes = game.pay @ at.size + game.cost + at.due @ game.slack
        sizes[:n] -= at.sums[0]
        sizes[n:] -= at.sums[1]
        sizes[game.open_] += game.rows * at.price - game.sign * (game.weight @ at.high)
        sizes[game.edge] -= game.edge_sign * at.edge
        held = game.rows * at.size[game.open_] - game.weight @ at.x
        left = game.slack @ at.size + game.sums(at.x) - at.left
        odds = np.array([at.size[:n].sum(), at.size[n:].sum()])
        return -rows, -np.concatenate([sizes, held, left, 1.0 - odds])

    def _factor(self) -> None:
        """Take the blocks out of the equations of sizes, prices and requirements."""
        game, weight = self.game, self.game.weight
        n_sizes, n_open, n_req = len(game.cost), len(game.open_), len(game.slack)
        e, o = game.open_, n_sizes + np.arange(n_open)
        a = n_sizes + n_open + np.arange(n_req)
        s = n_sizes + n_open + n_req + np.arange(2)
        self.e, self.o, self.a, self.s = e, o, a, s
        base = np.zeros((s[1] + 1, s[1] + 1))
        base[:n_sizes, :n_sizes] = game.pay
        base[game.edge, game.edge] += game.edge_sign * self.by_edge
        base[e, o] = base[o, e] = game.rows
        base[s[0], : game.n_adversary] = base[: game.n_adversary, s[0]] = -1.0
        base[s[1], game.n_adversary : n_sizes] = base[game.n_adversary : n_sizes, s[1]] = -1.0
        base[:n_sizes, a], base[a, :n_sizes] = game.slack.T, game.slack
        base[a, a] = self.by_left
        self.base = base
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
        full = base.copy()
        full[e, e] += game.sign * (weight @ (self.along * self.held))
        full[e, o] -= weight @ self.along
        full[o, e] -= weight @ self.along
        full[o, o] -= weight @ self.inverse
        if n_req:
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
        self.factors = lu_factor(full * self.scale * self.scale[:, None], check_finite=False)

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
        move = lu_solve(self.factors, right * self.scale, check_finite=False) * self.scale
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

    def worth(self, rows: Floats, others: Floats) -> float:
        """Return by how much the payoff may be off for what the conditions lack."""
        game, size = self.game, self.at.size
        marginals = float(game.weight @ np.abs(rows) @ size[game.open_])
        n_sizes = len(game.cost)
        return marginals + float(np.abs(others[:n_sizes]) @ size + np.abs(others[n_sizes:]).sum())

    def left(self) -> float:
        """Return what the last step leaves of its equations, by what it is worth."""
        return self.worth(*self._rest(*self.last))

    def step(self, goals: list[Floats]) -> State:
        """Return the step after which, but for curvature, each pair's product is its goal."""
        game, weight = self.game, self.game.weight
        low, high, edge, left = (
            (goal - v * z) / v for goal, (v, z) in zip(goals, self.pairs, strict=True)
        )
        rows = self.lacks[0] + game.sign * (low - high)
        sizes = self.lacks[1].copy()
        sizes[self.e] += game.sign * (weight @ high)
        sizes[game.edge] += game.edge_sign * edge
        sizes[self.a] += left
        x, move = self._solve(rows, sizes)
        # once more, against rounding
        more, moved = self._solve(*self._rest(rows, sizes, x, move))
        x, move = x + more, move + moved
        self.last = rows, sizes, x, move
        size = move[: len(game.cost)]
        return State(
            x,
            low - self.by_low * x,
            high - self.by_high * (size[self.e] - x),
            size,
            move[self.o],
            edge - self.by_edge * size[game.edge],
            move[self.a],
            left - self.by_left * move[self.a],
            move[self.s],
        )
