"""Five ways to judge a linear predictor by a sample of the rows, all as minus log-likelihoods.

Each gives, at a linear predictor eta, its value, and row by row its slope and curvature in eta.
They see neither columns (those are in `design`) nor formulas of a link (in `built_in_links`).

A row with linear predictor eta is kept with probability S = pi1 p + pi0 q, and a kept row is
positive with probability pi1 p / S: its log-odds are log p - log q + log(pi1 / pi0), whatever the
link. On that scale nothing cancels, however rare the positives and however low the sampling rate.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from imbfit.glm.links import Link, Pieces
from imbfit.glm.states import ProfileState, Rows, State, times, total_of

__all__ = [
    "METHODS",
    "Conditional",
    "Curvature",
    "Full",
    "Inverse",
    "Likelihood",
    "Profile",
    "ProfileState",
    "Pseudo",
    "Rows",
    "State",
]

Floats: TypeAlias = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# An infinite hazard, of a link of the user's own, times a probability of zero would be NaN.
_LARGEST_HAZARD = 1e305


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives in eta: diag(diagonal) plus the sum of factor * vector vector'."""

    diagonal: Floats
    rank_one: tuple[tuple[Floats, float], ...] = ()


class Likelihood(abc.ABC):
    """A minus log-likelihood of the kept rows, as a function of their linear predictor.

    `n_dropped` is the number of negatives not kept (the sum of their weights); only `Profile` needs
    it.

    Examples
    --------
    With the logistic link, to condition on being kept is to shift the linear predictor:

    >>> import numpy as np
    >>> from imbfit.glm.likelihoods import METHODS, Rows
    >>> from imbfit.glm.built_in_links import LINKS
    >>> rows = Rows.uniform([True, False, False], None, rate=0.1)
    >>> eta = np.array([-2.0, -3.0, -4.0])
    >>> cmle, naive = (METHODS[name](rows, LINKS["logit"]) for name in ("cmle", "naive"))
    >>> round(cmle.value(cmle.state(eta)), 6)
    1.125486
    >>> round(naive.value(naive.state(eta + np.log(10))), 6)
    1.125486
    """

    def __init__(self, rows: Rows, link: Link, *, n_dropped: float | None = None) -> None:
        self.rows = rows
        self.link = link
        self.n_dropped = n_dropped

    @property
    def weight(self) -> Floats | None:
        """What each row's term is multiplied with; None stands for 1 each."""
        return self.rows.weight

    def state(self, eta: ArrayLike) -> State:
        """Return what value, slope and curvature at eta are made of, for this likelihood only."""
        x = np.asarray(eta, dtype=np.float64)
        pieces = self.link.pieces(x)
        if not max(h.max(initial=0.0) for h in pieces[2:]) <= _LARGEST_HAZARD:
            hazards = (np.minimum(h, _LARGEST_HAZARD) for h in pieces[2:])
            pieces = Pieces(pieces.log_p, pieces.log_q, *hazards)
        return State(x, pieces, self.rows)

    @abc.abstractmethod
    def value(self, state: State) -> float:
        """Return minus the log-likelihood, unpenalised: finite, or +inf for the impossible."""

    @abc.abstractmethod
    def slope(self, state: State) -> Floats:
        """Return the derivative of the value in each row's eta."""

    @abc.abstractmethod
    def curvature(self, state: State, *, safe: bool) -> Curvature:
        """Return second derivatives in eta: expected ones, but for `Pseudo` unless safe.

        Safe ones are positive semidefinite.
        """


class Full(Likelihood):
    """As if the sample were the population (eq. 1)."""

    def value(self, state: State) -> float:
        """Return minus the sum of the labels' log-probabilities."""
        pieces = state.pieces
        return -total_of(np.where(self.rows.positive, pieces.log_p, pieces.log_q), self.weight)

    def slope(self, state: State) -> Floats:
        """Return the hazards of the labels, downwards for positives."""
        slope = np.where(self.rows.positive, state.pieces.hp, state.pieces.hq)
        slope *= self.rows.sign
        return times(slope, self.weight)

    def curvature(self, state: State, *, safe: bool) -> Curvature:
        """Return the expected curvature, f^2 / (p q)."""
        return Curvature(times(state.pieces.hp * state.pieces.hq, self.weight))


class Inverse(Full):
    """Each row counts for those it was kept from, 1 / pi of the label it has (eq. 8)."""

    @cached_property
    def _inverse_weight(self) -> Floats:
        weight = self.rows.weight
        return self.rows.inverse if weight is None else self.rows.inverse * weight

    @property
    def weight(self) -> Floats | None:
        """Sample weight over the probability of keeping the row."""
        return self._inverse_weight


class Conditional(Likelihood):
    """Probabilities of the labels given that the row was kept (eq. 9)."""

    def value(self, state: State) -> float:
        """Return minus the sum of the labels' log-probabilities among kept rows."""
        return total_of(state.loss, self.weight)

    def slope(self, state: State) -> Floats:
        """Return (kept_p - y) u."""
        with np.errstate(over="ignore"):
            slope = state.miss * state.u
        slope *= self.rows.sign
        return times(slope, self.weight)

    def curvature(self, state: State, *, safe: bool) -> Curvature:
        """Return the expected curvature, kept_p (1 - kept_p) u^2."""
        # In this order, since the square of a large slope may overflow.
        with np.errstate(over="ignore"):
            diagonal = state.spread * state.u
            diagonal *= state.u
        return Curvature(times(diagonal, self.weight))


class Pseudo(Full):
    """The paper's pseudo likelihood (eq. 6 and 7), which is defined for uniform rates.

    To the full likelihood it adds the logarithm of the mean of S over the sample, where the mean
    over the population would be right.
    """

    def __init__(self, rows: Rows, link: Link, *, n_dropped: float | None = None) -> None:
        super().__init__(rows, link, n_dropped=n_dropped)
        if not rows.is_uniform:
            raise ValueError(
                "method 'pseudo_mle' is defined for one sampling rate, and these rows have one "
                "each; write method='cmle' or sampling='uniform'"
            )

    def mean_keep(self, state: State) -> float:
        """Return the weighted mean of S over the sample."""
        return total_of(state.keep, self.weight) / self.rows.total

    def value(self, state: State) -> float:
        """Return minus the sum of log(pi1 p) or log(pi0 q), plus N times the log of the mean."""
        kept, negative = self.rows.total, self.rows.total_negative
        rates = float((kept - negative) * self.rows.log_pi1 + negative * self.rows.log_pi0)
        return super().value(state) - rates + kept * math.log(self.mean_keep(state))

    def _keep_slope(self, state: State) -> Floats:
        """Slope of S over the mean of S."""
        rise = float(np.exp(self.rows.log_pi1) - np.exp(self.rows.log_pi0))
        return state.density * (rise / self.mean_keep(state))

    def slope(self, state: State) -> Floats:
        """Return the slope of `Full` plus that of the mean."""
        slope = super().slope(state)
        slope += times(self._keep_slope(state), self.weight)
        return slope

    def curvature(self, state: State, *, safe: bool) -> Curvature:
        """Return the observed curvature, or if safe that of `Conditional`."""
        if safe:
            return Conditional(self.rows, self.link).curvature(state, safe=True)
        hp, hq = state.pieces.hp, state.pieces.hq
        bend = self.link.density_slope(state.eta)
        keep_slope = self._keep_slope(state)
        with np.errstate(over="ignore"):
            diagonal = np.where(self.rows.positive, hp * (hp - bend), hq * (hq + bend))
            diagonal += keep_slope * bend
        tie = times(keep_slope, self.weight)
        return Curvature(times(diagonal, self.weight), ((tie, -1.0 / self.rows.total),))


class Profile(Conditional):
    """Likelihood of the whole sample, whose columns may have any distribution (eq. 4).

    Of the dropped negatives it knows the number only. Of all distributions of the columns on the
    kept rows it takes the likeliest, which gives row i the mass 1 / (n S_i) with S = p + s q, and
    that these sum to one settles s. At the s so solved it has the slopes of `Conditional`.
    """

    def __init__(self, rows: Rows, link: Link, *, n_dropped: float | None = None) -> None:
        super().__init__(rows, link, n_dropped=n_dropped)
        if n_dropped is None or not 0.0 <= n_dropped < math.inf:
            raise ValueError(
                f"n_dropped is {n_dropped}; method 'profile' needs the number of negatives that "
                "were not kept, 0 or more"
            )
        if not rows.is_uniform or rows.log_pi1 != 0.0:
            raise ValueError(
                "method 'profile' needs all positives and one sampling rate of the negatives; "
                "write method='cmle' or sampling='uniform'"
            )
        self._dropped = float(n_dropped)

    def state(self, eta: ArrayLike) -> ProfileState:
        """Solve for s at eta: the sum of weight / S is n, kept and dropped rows together."""
        plain = super().state(eta)
        of_eta = (plain.eta, plain.pieces, plain.rows)
        log_p, log_q = plain.pieces.log_p, plain.pieces.log_q
        p, q = np.exp(log_p), np.exp(log_q)
        if self._dropped == 0.0:
            return ProfileState(*of_eta, 1.0, -math.inf, np.ones_like(p), q, np.zeros_like(p))
        weight = np.ones_like(p) if self.weight is None else self.weight
        n = self.rows.total + self._dropped
        with np.errstate(over="ignore"):
            most = float(np.sum(weight / np.maximum(p, _TINY)))
        if most > n:
            negative = self.rows.total_negative
            s = _root(p, q, weight, n, start=negative / (negative + self._dropped))
            part = s * q
            keep = p + part
            return ProfileState(*of_eta, s, math.log1p(-s), keep, part, (1.0 - s) * q / keep)
        # Even at s = 0 the kept rows stand for too few, so s is negative. The first S to vanish is
        # that of the row with the lowest odds p / q, so s is sought as a share of minus those.
        counts = weight > 0.0
        p, log_q = np.where(counts, p, 1.0), np.where(counts, log_q, -np.inf)
        log_odds = log_p - log_q
        least = float(log_odds.min(initial=np.inf))
        if least == math.inf:  # no negatives at all are left, so none can have been dropped
            return ProfileState(*of_eta, -math.inf, math.inf, p, q, np.zeros_like(p))
        below = least - log_odds
        fixed, moving = p * -np.expm1(below), p * np.exp(below)
        x = _root(fixed, moving, weight, n, start=0.5)
        keep = fixed + x * moving
        log_size = least + math.log1p(-x)
        with np.errstate(over="ignore"):
            s = -float(np.exp(log_size))
        log_dropped = float(np.logaddexp(0.0, log_size))
        lift = np.exp(log_dropped + log_q) / keep
        return ProfileState(*of_eta, s, log_dropped, keep, (x - 1.0) * moving, lift)

    def value(self, state: State) -> float:
        """Return minus the log-likelihood at the likeliest distribution of the columns."""
        dropped = self._dropped * _solved(state).log_dropped if self._dropped else 0.0
        return super().value(state) + dropped

    def curvature(self, state: State, *, safe: bool) -> Curvature:
        """Return the expected curvature of `Conditional` plus what s gives way with eta."""
        solved = _solved(state)
        if safe and solved.rate <= 0.0:
            # The variance of a label is negative there; that in the population never is.
            diagonal = times(state.pieces.hp * state.pieces.hq, self.weight)
        else:
            diagonal = super().curvature(state, safe=safe).diagonal
        if not self._dropped:
            return Curvature(diagonal)
        with np.errstate(over="ignore"):
            tie = times(state.pieces.hq * solved.lift / solved.keep, self.weight)
        return Curvature(diagonal, ((tie, 1.0 / self._firmness(solved)),))

    def b(self, state: State) -> float:
        """Return how firmly a row of the population holds s: E[q^2 / S] + P(negative) / (1 - s)."""
        if not self._dropped:
            return math.inf
        solved = _solved(state)
        scale = math.exp(-2.0 * solved.log_dropped)
        return self._firmness(solved) * scale / (self.rows.total + self._dropped)

    def _firmness(self, solved: ProfileState) -> float:
        """Return n (1 - s)^2 b, which neither overflows nor vanishes."""
        return total_of(solved.lift * solved.lift, self.weight) + self._dropped


def _solved(state: State) -> ProfileState:
    if not isinstance(state, ProfileState):
        raise TypeError("this state is of another likelihood; take that of Profile.state")
    return state


def _root(fixed: Floats, moving: Floats, weight: Floats, total: float, *, start: float) -> float:
    """Return the x in (0, 1) at which the sum of weight / (fixed + x moving) is total.

    The sum falls in x, from above the total at 0 to below it at 1. Newton steps are for one over
    the sum, which is concave, and a line where rows are alike. Where they leave the bracket, it is
    halved on the scale of log x.
    """
    low, high = 0.0, 1.0 - _EPS
    x = min(max(start, 1e-6), high)
    for _ in range(200):
        keep = fixed + x * moving
        mass = weight / keep
        reach = float(mass.sum())
        if abs(reach - total) <= 2.0 * _EPS * total:
            break
        if reach > total:
            low = x
        else:
            high = x
        mass *= moving
        mass /= keep
        step = x + reach * (reach - total) / (total * float(mass.sum()))
        if not low < step < high:
            step = math.sqrt(low * high) if low > 0.0 else high / 16.0
        if abs(step - x) <= _EPS * x:
            break
        x = step
    return x


METHODS: dict[str, type[Likelihood]] = {
    "naive": Full,
    "iw": Inverse,
    "cmle": Conditional,
    "pseudo_mle": Pseudo,
    "profile": Profile,
}
