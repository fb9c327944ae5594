"""Where an interior point method stands in a game, and where it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.interior_tables import Tables

__all__ = ["State", "centre"]

Floats: TypeAlias = NDArray[np.float64]

_HALVINGS = 40
# Gap to begin with, in units of what is at stake.
_STAKE = 1.0


@dataclass(frozen=True, eq=False)
class State:
    """Where the method stands, or a step of it.

    What must stay positive comes in pairs of which one member ends at 0: marginals x and their
    price `low`, what sizes leave of them and `high`, probabilities of sizes without marginals and
    `edge`, what a requirement costs, `due`, and what is `left` of it.

    Attributes
    ----------
    game : Tables
        Whose sizes, prices and blocks these are.
    first, second : ndarray of shape (n_pairs,)
        Members of the pairs.
    free : ndarray
        Probabilities of the sizes, what a row is worth for each open one, and prices of the
        probabilities' sums.
    """

    game: Tables
    first: Floats
    second: Floats
    free: Floats

    @classmethod
    def of(
        cls,
        game: Tables,
        *,
        x: Floats,
        low: Floats,
        high: Floats,
        size: Floats,
        price: Floats,
        edge: Floats,
        due: Floats,
        left: Floats,
        sums: Floats,
    ) -> State:
        """Put a state together.

        Parameters
        ----------
        game : Tables
            Whose sizes and blocks these are.
        x, low, high : ndarray of shape (n_blocks, n_open)
            Marginals, prices of x >= 0 and of x <= size.
        size, price : ndarray of shape (n_sizes,) and (n_open,)
            Probabilities of the sizes, and what a row is worth.
        edge : ndarray of shape (n_edge,)
            Price of size >= 0 where there are no marginals.
        due, left : ndarray of shape (n_requirements,)
            Prices of the requirements, and what is left of them.
        sums : ndarray of shape (2,)
            Prices of the probabilities' sums.
        """
        room = size[game.open_] - x
        return cls(
            game,
            np.concatenate([x.ravel(), room.ravel(), size[game.edge], due]),
            np.concatenate([low.ravel(), high.ravel(), edge, left]),
            np.concatenate([size, price, sums]),
        )

    def _marginals(self, of: Floats, which: int) -> Floats:
        shape = len(self.game.psi), len(self.game.open_)
        cells = shape[0] * shape[1]
        return of[which * cells : (which + 1) * cells].reshape(shape)

    @property
    def x(self) -> Floats:
        """Marginals."""
        return self._marginals(self.first, 0)

    @property
    def low(self) -> Floats:
        """Prices of x >= 0."""
        return self._marginals(self.second, 0)

    @property
    def high(self) -> Floats:
        """Prices of x <= size."""
        return self._marginals(self.second, 1)

    @property
    def edge(self) -> Floats:
        """Prices of size >= 0."""
        start = len(self.second) - len(self.game.slack) - len(self.game.edge)
        return self.second[start : start + len(self.game.edge)]

    @property
    def due(self) -> Floats:
        """Prices of the requirements."""
        return self.first[len(self.first) - len(self.game.slack) :]

    @property
    def left(self) -> Floats:
        """What is left of the requirements."""
        return self.second[len(self.second) - len(self.game.slack) :]

    @property
    def size(self) -> Floats:
        """Probabilities of the sizes."""
        return self.free[: len(self.game.cost)]

    @property
    def price(self) -> Floats:
        """What a row is worth."""
        return self.free[len(self.game.cost) : -2]

    @property
    def sums(self) -> Floats:
        """Prices of the probabilities' sums."""
        return self.free[-2:]

    @property
    def gap(self) -> float:
        """What the products of the pairs sum up to."""
        return float(self.game.count @ (self.first * self.second))

    def between(self, other: State, share: float) -> State:
        """Return what lies between two steps."""
        return State(
            self.game,
            self.first + share * (other.first - self.first),
            self.second + share * (other.second - self.second),
            self.free + share * (other.free - self.free),
        )

    def moved(self, step: State, adversary: float, predictor: float) -> State:
        """Return the state after shares of a step: of what follows from either player's part."""
        first, free = self.game.moved_by_adversary
        return State(
            self.game,
            self.first + np.where(first, adversary, predictor) * step.first,
            self.second + np.where(first, predictor, adversary) * step.second,
            self.free + np.where(free, adversary, predictor) * step.free,
        )


def centre(game: Tables) -> State:
    """Return where to begin: equal probabilities, and marginals as the central path has them.

    For given gains g of the rows, x of a size with probability s is where s times mu over x, less
    mu over s - x, is the gain less its price: x = 2 s / (sqrt(t^2 + 4) - t + 2) with
    t = (g - price) s / mu. The adversary's gains are the scores, the predictor's what it gets then.
    """
    n_sizes, n, n_req = len(game.cost), game.n_adversary, len(game.slack)
    whole = 2.0 * game.total
    mu = _STAKE / (whole * n_sizes)
    size = np.full(n_sizes, 1.0 / n)
    size[n:] = 1.0 / max(n_sizes - n, 1)
    odds, due = size[game.open_], np.ones(n_req)
    x = np.zeros((len(game.psi), len(odds)))
    price = np.zeros(len(odds))
    gain = np.repeat(game.psi[:, None], len(odds), axis=1)
    for some in (slice(0, game.n_open), slice(game.n_open, None)):
        if some.start:
            gain = game.across(x) + game.raised(due)
        price[some], x[:, some] = _priced(
            gain[:, some], game.weight, game.rows[some], odds[some], mu
        )
    price *= -game.sign
    high = mu / (odds - x)
    left = np.full(n_req, whole * mu)
    edge = whole * mu / size[game.edge]
    sums = game.pay @ size + game.cost + due @ game.slack
    sums[game.open_] += game.rows * price - game.sign * (game.weight @ high)
    sums[game.edge] -= game.edge_sign * edge
    return State.of(
        game,
        x=x,
        low=mu / x,
        high=high,
        size=size,
        price=price,
        edge=edge,
        due=due,
        left=left,
        sums=np.array([sums[:n].mean(), sums[n:].mean()]),
    )


def _priced(
    gain: Floats, weight: Floats, rows: Floats, odds: Floats, mu: float
) -> tuple[Floats, Floats]:
    """Return the price at which the marginals of each size have its sum, and these."""
    reach = mu / odds * weight.sum() * 4.0
    low, high = gain.min(axis=0) - reach, gain.max(axis=0) + reach
    for _ in range(_HALVINGS):
        price = 0.5 * (low + high)
        t = (gain - price) * (odds / mu)
        x = 2.0 * odds / (np.sqrt(t * t + 4.0) - t + 2.0)
        above = weight @ x > rows * odds
        low, high = np.where(above, price, low), np.where(above, high, price)
    return price, np.clip(x, 1e-12 * odds, (1.0 - 1e-12) * odds)
