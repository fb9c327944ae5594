"""What is minimised, and what is known of it at a point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.design import Design
from imbfit.glm.likelihoods import Curvature, Likelihood, State

__all__ = ["Point", "Problem"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

_EPS = float(np.finfo(np.float64).eps)

# Second derivatives that are this small beside the first ones tell nothing of where to go.
_STRAIGHT = 1e-4


@dataclass(frozen=True, eq=False)
class Point:
    """Coefficients, in the coordinates of a problem's design, and what they amount to."""

    likelihood: Likelihood
    coef: Floats
    eta: Floats
    penalty: float

    @cached_property
    def state(self) -> State:
        """The likelihood's state."""
        return self.likelihood.state(self.eta)

    @cached_property
    def value(self) -> float:
        """Minus the log-likelihood."""
        return float(self.likelihood.value(self.state))

    @cached_property
    def total(self) -> float:
        """Minus the penalised log-likelihood."""
        return self.value + self.penalty

    @cached_property
    def slope(self) -> Floats:
        """Derivative of the value in each row's eta."""
        return self.likelihood.slope(self.state)

    def forget(self) -> None:
        """Let go of what holds many numbers for each row; it is made again if it is needed."""
        self.__dict__.pop("state", None)
        self.__dict__.pop("slope", None)


@dataclass(frozen=True, eq=False)
class Problem:
    """What is minimised: likelihood.value(Z w + offset) + sum(ridge * w^2) / 2.

    Attributes
    ----------
    free : ndarray of bool, shape (n_coef,)
        Coefficients that may move.
    """

    likelihood: Likelihood
    design: Design
    ridge: Floats
    offset: float | Floats
    free: Bools

    @cached_property
    def unit(self) -> float:
        """Length, in the gradient's norm, of one standard error of rows of a mean sample weight."""
        weight = self.likelihood.rows.weight
        if weight is None or not weight.any():
            return 1.0
        if np.array_equal(weight, np.rint(weight)):
            # counts: the fit ends where it would end with the rows repeated
            return 1.0
        return math.sqrt(float(weight @ (weight / weight.sum())))

    def point(self, coef: Floats, eta: Floats | None = None) -> Point:
        """Evaluate the likelihood at coefficients, whose eta may be known."""
        if eta is None:
            eta = self.design.eta(coef) + self.offset
        raw = self.design.to_raw(coef)
        return Point(self.likelihood, coef, eta, 0.5 * float(self.ridge @ raw**2))

    def gradient(self, point: Point) -> Floats:
        """Return the derivatives in the coefficients."""
        return self.design.back(point.slope) + self.pull(point.coef)

    def pull(self, coef: Floats) -> Floats:
        """Return the ridge's part of the gradient, which is linear in the coefficients."""
        return np.asarray(self.design.slope_from_raw(self.ridge * self.design.to_raw(coef)))

    def curvature(self, point: Point, *, safe: bool) -> Curvature:
        """Return second derivatives in eta.

        In a tail, where all is straight, they would send one beyond all measure. There the sizes of
        slopes take their place, so that steps change linear predictors by about 1. They will be
        stretched.
        """
        found = self.likelihood.curvature(point.state, safe=safe)
        if not _is_straight(point, found):
            return found
        size = np.abs(point.slope)
        return Curvature(size if size.any() else np.ones_like(size))

    def is_straight(self, point: Point) -> bool:
        """Tell whether a point is in such a tail."""
        return _is_straight(point, self.likelihood.curvature(point.state, safe=True))

    def magnitude(self, point: Point) -> float:
        """Return about how large the terms are that the value at a point is the sum of."""
        return abs(point.total) + self.likelihood.rows.total

    def rounding(self, point: Point, diagonal: Floats) -> Floats:
        """Return how large the gradient's rounding errors may be."""
        size = np.abs(point.slope)
        raw = np.abs(self.design.to_raw(point.coef))
        rows = max(self.design.n_rows, 1)
        norms = np.sqrt(self.design.in_basis(None).squares(np.ones(rows)) / rows)
        of_eta = float(np.abs(point.eta).max(initial=0.0) + raw @ norms)
        sums = np.sqrt(self.design.squares(size) * size.sum())
        moved = of_eta * np.sqrt(self.design.squares(diagonal * diagonal))
        return np.asarray(_EPS * (4.0 * sums + moved + np.abs(self.pull(point.coef))))


def _is_straight(point: Point, curvature: Curvature) -> bool:
    total = float(np.abs(curvature.diagonal).sum())
    ties = [vector for vector, _ in curvature.rank_one]
    sane = math.isfinite(total) and all(np.isfinite(tie).all() for tie in ties)
    return not (sane and total > _STRAIGHT * float(np.abs(point.slope).sum()))
