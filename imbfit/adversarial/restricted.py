"""The game restricted to some sets of the predictor and some of the adversary: a small LP.

The adversary plays its size l with probability s_l. Given that, its marginals among the blocks of
one label are a mix of *patterns*, with masses that sum to at most s_l, and only the mean size has
to be l: a pattern is any set, most often the blocks with the highest scores. So two patterns stand
for all sets between them, and few are needed. With v what the predictor gets, and a multiplier for
each requirement,

    minimise v - psi . q  such that each of the predictor's sets gets at most v.

The duals of these rows are the predictor's mix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from imbfit.adversarial.board import Adversary, Board
from imbfit.adversarial.linear_program import minimised

__all__ = ["Memory", "Move", "Restricted"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# Below this a probability is rounding.
_PLAYED = 1e-12


@dataclass(frozen=True, eq=False)
class Move:
    """An optimum of the restricted game.

    Attributes
    ----------
    value, level : float
        Of the LP, and v.
    mix : ndarray of shape (n_sets,)
        The predictor's.
    adversary : Adversary
        Its side.
    price, part_price : ndarray of shape (n_played,) and (n_played, n_parts)
        Duals of the mean size and of the masses.
    masses : ndarray of shape (n_patterns,)
        Of the patterns.
    """

    value: float
    level: float
    mix: Floats
    adversary: Adversary
    price: Floats
    part_price: Floats
    masses: Floats


@dataclass(frozen=True, eq=False)
class Memory:
    """Sets in play when a game was solved; see :class:`Restricted` for the attributes."""

    size: Positions
    member: Floats
    played: list[int]
    slot: Positions
    part: Positions
    pattern: Floats

    def moved(self, parent: Positions, taken: Positions, actual: Positions) -> Memory:
        """Return the same sets on smaller blocks and more sizes.

        Parameters
        ----------
        parent : ndarray of int
            The block which each new one comes from.
        taken, actual : ndarray of int
            New positions of the sizes.
        """
        played = [int(actual[at]) for at in self.played]
        member, pattern = self.member[:, parent], self.pattern[:, parent]
        return Memory(taken[self.size], member, played, self.slot, self.part, pattern)


@dataclass
class Restricted:
    """Sets in play; they grow.

    Attributes
    ----------
    board : Board
    size, member : ndarray of shape (n_sets,) and (n_sets, n_blocks)
        The predictor's: position of the size, membership.
    played : list of int
        Positions of the adversary's sizes in play.
    slot, part, pattern : ndarray of shape (n_patterns,), (n_patterns,), (n_patterns, n_blocks)
        The adversary's: position in `played`, part, membership.
    overlap : ndarray of shape (n_sets, n_patterns)
        Rows in both.
    """

    board: Board
    size: Positions = field(init=False)
    member: Floats = field(init=False)
    played: list[int] = field(default_factory=list)
    slot: Positions = field(init=False)
    part: Positions = field(init=False)
    pattern: Floats = field(init=False)
    overlap: Floats = field(init=False)
    _known: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Start with nothing."""
        n_blocks = len(self.board.psi)
        self.size = self.slot = self.part = np.zeros(0, np.intp)
        self.member = self.pattern = np.zeros((0, n_blocks))
        self.overlap = np.zeros((0, 0))

    def add_sets(self, size: Positions, member: Floats) -> int:
        """Give the predictor more sets, and return how many were new."""
        new = self._new([(int(k), row.tobytes()) for k, row in zip(size, member, strict=True)])
        member = member[new]
        self.size = np.append(self.size, size[new])
        self.member = np.vstack([self.member, member])
        more = (member * self.board.weight) @ self.pattern.T
        self.overlap = np.vstack([self.overlap, more])
        return len(new)

    def add_patterns(self, at: int, part: int, pattern: Floats) -> int:
        """Give the adversary more patterns for a size, and return how many were new."""
        if at not in self.played:
            self.played.append(at)
        new = self._new([(at, part, row.tobytes()) for row in pattern])
        pattern = pattern[new]
        slot = self.played.index(at)
        self.slot = np.append(self.slot, np.full(len(new), slot))
        self.part = np.append(self.part, np.full(len(new), part))
        self.pattern = np.vstack([self.pattern, pattern])
        self.overlap = np.hstack([self.overlap, (self.member * self.board.weight) @ pattern.T])
        return len(new)

    def _new(self, keys: list[Any]) -> list[int]:
        new = []
        for i, key in enumerate(keys):
            if key not in self._known:
                self._known.add(key)
                new.append(i)
        return new

    def solve(self) -> Move | None:
        """Solve the restricted game; None where the LP engine fails."""
        board = self.board
        n_req, n_played, n_parts = len(board.slack), len(self.played), len(board.parts)
        n_sets, n_patterns = self.overlap.shape
        played = np.array(self.played)
        total = float(board.weight.sum())
        held = self.pattern @ board.weight
        first, masses = 1 + n_req, 1 + n_req + n_played
        # rows: the sets, the masses, the mean sizes, the sizes' probabilities
        matrix = np.zeros((n_sets + n_played * (n_parts + 1) + 1, masses + n_patterns))
        matrix[:n_sets, 0] = -1.0
        matrix[:n_sets, 1:first] = board.slacks(self.size, self.member)
        matrix[:n_sets, first:masses] = board.intercept[np.ix_(self.size, played)]
        slope = board.slope[np.ix_(self.size, played[self.slot])]
        np.multiply(slope, self.overlap, out=matrix[:n_sets, masses:])
        slots, columns = np.arange(n_played), masses + np.arange(n_patterns)
        row = n_sets + slots * n_parts
        for part in range(n_parts):
            matrix[row + part, first + slots] = -1.0
        matrix[n_sets + self.slot * n_parts + self.part, columns] = 1.0
        row = n_sets + n_played * n_parts
        matrix[row + slots, first + slots] = -board.actual[played] / total
        matrix[row + self.slot, columns] = held / total
        matrix[-1, first:masses] = 1.0
        equal = n_played + 1
        low = np.full(len(matrix), -np.inf)
        high = np.zeros(len(matrix))
        low[-equal:] = 0.0
        low[-1] = high[-1] = 1.0
        cost = np.zeros(matrix.shape[1])
        cost[0] = 1.0
        cost[masses:] = -self.pattern @ (board.weight * board.psi)
        least = np.zeros(len(cost))
        least[0] = -np.inf
        found = minimised(cost, sparse.csr_matrix(matrix), low, high, least)
        if found is None:
            return None
        value, x, dual = found
        mass = np.maximum(x[masses:], 0.0)
        marginals = np.zeros((n_played, len(board.psi)))
        np.add.at(marginals, self.slot, mass[:, None] * self.pattern)
        parts = dual[n_sets : n_sets + n_played * n_parts].reshape(n_played, n_parts)
        price = dual[n_sets + n_played * n_parts : -1] / total
        sizes = np.maximum(x[first:masses], 0.0)
        adversary = Adversary(played, sizes, marginals, np.maximum(x[1:first], 0.0))
        mix = np.maximum(-dual[:n_sets], 0.0)
        return Move(value, float(x[0]), mix, adversary, price, parts, mass)

    def kept(self, move: Move | None) -> Memory:
        """Return the sets that were played in a move."""
        if move is None:
            everything = range(len(self.slot))
            return self._memory(np.arange(len(self.size)), np.array(everything, np.intp))
        sets = np.flatnonzero(move.mix > _PLAYED)
        patterns = np.flatnonzero(move.masses > _PLAYED)
        return self._memory(sets, patterns)

    def _memory(self, sets: Positions, patterns: Positions) -> Memory:
        return Memory(
            self.size[sets],
            self.member[sets],
            list(self.played),
            self.slot[patterns],
            self.part[patterns],
            self.pattern[patterns],
        )

    def resume(self, memory: Memory) -> None:
        """Begin with the sets of another solve that are of some size here too.

        With weights the order of the rows decides what a set holds.
        """
        held = memory.member @ self.board.weight
        total = float(self.board.weight.sum())
        same = np.abs(held - self.board.taken[memory.size]) <= 1e-9 * total
        self.add_sets(memory.size[same], memory.member[same])
        for slot, at in enumerate(memory.played):
            for part in range(len(self.board.parts)):
                rows = (memory.slot == slot) & (memory.part == part)
                self.add_patterns(at, part, memory.pattern[rows])
