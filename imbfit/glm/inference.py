"""How sure the coefficients are: sandwich covariances that know how the rows were sampled.

Below, a row's slope is that of its minus log-likelihood in the linear predictor, z is the row with
its leading 1, and H the Hessian of what was minimised. A sandwich is H^-1 M H^-1, where M is the
covariance, over samples of the population, of the sum of slope z.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.covariances import Form, Sandwich, contrast_variances, covariance, form
from imbfit.glm.design import Design
from imbfit.glm.likelihoods import (
    Conditional,
    Likelihood,
    Profile,
    ProfileState,
    Pseudo,
    Rows,
    State,
)
from imbfit.glm.newton import Solution

__all__ = ["Sandwich", "Stratum", "contrast_variances", "covariance", "sandwich"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Stratum:
    """What is known of the numbers of rows kept in each class.

    Parameters
    ----------
    kind : {"bernoulli", "realised", "known_prevalence"}, default="bernoulli"
        "bernoulli": each row was kept by itself, and the fit used the probabilities. "realised":
        all positives were kept, and the fit used the share of the negatives that was, which takes
        away what their number adds to the variance. "known_prevalence": samples of both classes,
        brought together by a prevalence that is known without error.
    n_negatives : float, default=None
        Negatives of the population. Needed where the rate is the realised one.

    Raises
    ------
    ValueError
        If the kind is unknown, or `n_negatives` is missing.
    """

    kind: Literal["bernoulli", "realised", "known_prevalence"] = "bernoulli"
    n_negatives: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in {"bernoulli", "realised", "known_prevalence"}:
            raise ValueError(
                f"kind is {self.kind!r}; give 'bernoulli', 'realised' or 'known_prevalence'"
            )
        if self.kind == "realised" and self.n_negatives is None:
            raise ValueError("a realised rate needs n_negatives, the negatives of the population")

    def fixed_share(self, *, positive: bool, kept: int) -> float:
        """Return the share of a class's variance that comes from within the class alone.

        Parameters
        ----------
        positive : bool
            Which class.
        kept : int
            Its rows kept.

        Returns
        -------
        float
            From 0, where the number kept is as random as all else, to 1, where it is fixed.

        Raises
        ------
        ValueError
            If more negatives were kept than there are.
        """
        if self.kind == "known_prevalence":
            return 1.0
        if self.kind == "bernoulli" or positive:
            return 0.0
        everyone = self.n_negatives or 0.0
        # A rate need not divide a count: 3 kept at 0.3 are 3 of 10.000000000000002.
        if kept > everyone * (1.0 + 1e-9):
            raise ValueError(
                f"{kept} negatives were kept, but n_negatives is {self.n_negatives}; give their "
                "number before sampling"
            )
        return max(1.0 - kept / everyone, 0.0) if kept else 0.0


def sandwich(
    method: str,
    likelihood: Likelihood,
    solution: Solution,
    design: Design,
    rows: Rows,
    *,
    ridge: Floats,
    stratum: Stratum,
) -> Sandwich:
    """Gather what the covariance of the coefficients is made of.

    "cmle" and "profile" take the model at its word: H and M are the expected information. So do
    "naive" and "pseudo_mle" where all rows were kept. Otherwise, and for every method where weights
    differ, H is the observed Hessian, M comes from the squares of the rows' own slopes, and the
    whole gets a factor n / (n - d) for n rows and d degrees of freedom. A weight says how much a
    row matters: its square is in M, and weights all multiplied by a number change nothing.

    "realised" and "known_prevalence" take from M what the numbers of rows kept add to it, but not
    for "naive", which does not use them.

    Parameters
    ----------
    method : {"naive", "iw", "cmle", "pseudo_mle", "profile"}
        The method.
    likelihood : Likelihood
        What was minimised.
    solution : Solution
        Where its minimum is.
    design : Design
        The kept rows.
    rows : Rows
        Their labels, weights and sampling probabilities.
    ridge : ndarray of shape (n_coef,)
        The penalty's second derivatives. The covariance is then that of the penalised
        coefficients about what they estimate, which the penalty has moved.
    stratum : Stratum
        What is known of the numbers kept.

    Returns
    -------
    Sandwich
        For `covariance` or `contrast_variances`.

    Raises
    ------
    ValueError
        If rows of one class were kept with different probabilities, but not "bernoulli".
    """
    if stratum.kind != "bernoulli" and not rows.is_uniform:
        raise ValueError(
            f"the stratum is {stratum.kind!r}, but rows of one class were kept with different "
            "probabilities; write Stratum('bernoulli')"
        )
    state = solution.state
    weight = np.ones(design.n_rows) if rows.weight is None else rows.weight
    counted = weight > 0
    # The profile likelihood has the number dropped in it, so it has no more to gain from it.
    settled = method == "profile" and stratum.kind != "known_prevalence"
    classes = []
    if not settled and method != "naive":
        classes = _fixed_classes(stratum, rows.positive, counted)
    everything = method in {"naive", "pseudo_mle"} and not np.any(rows.log_ratio)
    parts = partial(Sandwich, design=design, ridge=ridge, identified=np.asarray(~solution.aliased))
    if (method == "cmle" or settled or everything) and np.ptp(weight[counted]) == 0:
        return parts(
            bread=_curvature(likelihood, state, design, safe=True),
            meat=_expected_correction(state, design, weight, classes),
            share=float(weight[counted][0]),
            n_kept=None,
        )
    moves = _Moves.of(likelihood, state, design, weight)
    terms = moves.squares(design)
    if isinstance(likelihood, Profile) and settled:
        terms.append((moves.shift, moves.shift, _dropped_squares(likelihood, weight)))
    for one in classes:
        terms += moves.correction(one, weight, design)
    n_kept = int(np.count_nonzero(counted))
    return parts(
        bread=_observed(likelihood, state, design),
        meat=form(moves.slope**2, design.n_coef, terms),
        share=0.0,
        n_kept=n_kept,
    )


class _Class(NamedTuple):
    """Rows of a class, and the share of what their number adds to the variance that is not there.

    `exactly` where the number was fixed, rather than counted and then used.
    """

    positive: bool
    rows: Bools
    share: float
    exactly: bool


def _fixed_classes(stratum: Stratum, positive: Bools, counted: Bools) -> list[_Class]:
    exactly = stratum.kind == "known_prevalence"
    classes = []
    for label in (True, False):
        rows = counted & (positive == label)
        share = stratum.fixed_share(positive=label, kept=int(np.count_nonzero(rows)))
        if share:
            classes.append(_Class(label, rows, share, exactly))
    return classes


def _expected_correction(
    state: State, design: Design, weight: Floats, classes: list[_Class]
) -> Form:
    """Return what known numbers of rows take away, where the model is taken at its word.

    The slopes of each class are expected to sum up to `common`, up to the sign. It is also how the
    sum of all slopes changes with the log of the sampling rate.
    """
    if not classes:
        return form(None, design.n_coef, [])
    common = design.back(weight * state.spread * state.u)
    terms = [(common, common, -one.share / int(np.count_nonzero(one.rows))) for one in classes]
    return form(None, design.n_coef, terms)


def _dropped_squares(likelihood: Likelihood, weight: Floats) -> float:
    """Return the sum of squared weights of the dropped rows, whose mean the kept ones tell."""
    kept = weight[~likelihood.rows.positive]
    return (likelihood.n_dropped or 0.0) * float(kept @ kept) / float(kept.sum())


@dataclass(frozen=True)
class _Moves:
    """How single rows move the sum of slopes.

    Row i moves it by slope_i z_i + also_i shift: `also` and `shift` tell how it moves what pseudo
    and profile likelihood estimate along with the coefficients. It also moves the sampling rate
    that is used, by its share of its class's weight, and with the log of the rate the sum moves by
    minus `by_rate`: of a negative's share, and of a positive's the other way.
    """

    slope: Floats
    also: Floats
    shift: Floats
    by_rate: tuple[Floats, Floats]

    @classmethod
    def of(cls, likelihood: Likelihood, state: State, design: Design, weight: Floats) -> _Moves:
        """Find the moves for a likelihood."""
        slope = likelihood.slope(state)
        also, shift = np.zeros(design.n_rows), np.zeros(design.n_coef)
        rows = likelihood.rows
        if isinstance(likelihood, Pseudo):
            mean = likelihood.mean_keep(state)
            also = weight * (1.0 - state.keep / mean)
            ((tie, factor),) = _ties(likelihood, state)
            shift = -factor * design.back(tie)
            both = float(np.exp(rows.log_pi1 + rows.log_pi0)) / mean**2
            by_rate = design.back(weight * state.density) * both
            return cls(slope, also, shift, (-by_rate, by_rate))
        if isinstance(state, ProfileState):
            for tie, factor in _ties(likelihood, state):
                also = -weight * state.lift
                shift = factor * design.back(tie)
            # the number dropped goes with the weights kept, by the known prevalence
            kept, dropped = rows.total_negative, likelihood.n_dropped or 0.0
            return cls(slope, also, shift, (-(kept + dropped) * shift, kept * shift))
        if isinstance(likelihood, Conditional):
            by_rate = design.back(weight * state.spread * state.u)
            return cls(slope, also, shift, (-by_rate, by_rate))
        positive = design.back(slope * rows.positive)
        return cls(slope, also, shift, (positive, design.back(slope * ~rows.positive)))

    def squares(self, design: Design) -> list[tuple[Floats, Floats, float]]:
        """Return what the shift adds to the sum of squared moves."""
        if not self.shift.any():
            return []
        cross = design.back(self.slope * self.also)
        return [(self.shift, self.shift, float(self.also @ self.also)), (cross, self.shift, 2.0)]

    def correction(
        self, one: _Class, weight: Floats, design: Design
    ) -> list[tuple[Floats, Floats, float]]:
        """Return what the known number of a class takes from the sum of squared moves."""
        own = weight * one.rows
        size = float(own.sum())
        heavy = design.back(self.slope * own) + self.shift * float(self.also @ own)
        by_rate = self.by_rate[not one.positive]
        terms = [
            (heavy, by_rate, -2.0 * one.share / size),
            (by_rate, by_rate, one.share * float(own @ own) / size**2),
        ]
        if one.exactly:
            total = design.back(self.slope * one.rows) + self.shift * float(self.also @ one.rows)
            gap = total - by_rate
            terms.append((gap, gap, -one.share / int(np.count_nonzero(one.rows))))
        return terms


def _observed(likelihood: Likelihood, state: State, design: Design) -> Form:
    """Return the observed Hessian, which is right also where the model is not."""
    if isinstance(likelihood, Pseudo):
        return _curvature(likelihood, state, design, safe=False)
    hp, hq = state.pieces.hp, state.pieces.hq
    bend = likelihood.link.density_slope(state.eta)
    if isinstance(likelihood, Conditional):
        diagonal = state.spread * state.u * state.u
        diagonal += likelihood.rows.sign * state.miss * (hp * (bend - hp) + hq * (bend + hq))
    else:
        diagonal = np.where(likelihood.rows.positive, hp * (hp - bend), hq * (hq + bend))
    if likelihood.weight is not None:
        diagonal *= likelihood.weight
    return _tied(diagonal, _ties(likelihood, state), design)


def _ties(likelihood: Likelihood, state: State) -> tuple[tuple[Floats, float], ...]:
    """Return the rank-one terms of the curvature, without work where there are none."""
    if isinstance(likelihood, Pseudo | Profile):
        return likelihood.curvature(state, safe=False).rank_one
    return ()


def _curvature(likelihood: Likelihood, state: State, design: Design, *, safe: bool) -> Form:
    curvature = likelihood.curvature(state, safe=safe)
    return _tied(curvature.diagonal, curvature.rank_one, design)


def _tied(diagonal: Floats, rank_one: tuple[tuple[Floats, float], ...], design: Design) -> Form:
    ties = [(design.back(vector), factor) for vector, factor in rank_one]
    return form(diagonal, design.n_coef, [(tie, tie, factor) for tie, factor in ties])
