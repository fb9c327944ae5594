"""An algebra in which the true positives are the one unknown, and may only enter affinely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from imbfit.exceptions import UnsupportedMetric

__all__ = ["Line"]

# Slopes that cancel to no more than this share of themselves are rounding: 0.3 - (0.1 + 0.2).
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Line:
    """Lines ``intercept + slope * tp``, one for each entry of arrays of counts.

    Attributes
    ----------
    intercept, slope : ndarray of float
        Of one shape after broadcasting.
    """

    intercept: Any
    slope: Any

    # numpy would otherwise build an array of lines
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Line):
            return _line(self.intercept + other.intercept, self.slope, other.slope)
        return Line(self.intercept + other, self.slope)

    __radd__ = __add__

    def __neg__(self) -> Line:
        return Line(-self.intercept, -self.slope)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Line):
            raise UnsupportedMetric("it multiplies two terms that hold the true positives")
        return Line(self.intercept * other, self.slope * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Line):
            self.__rtruediv__(other)
        return Line(self.intercept / other, self.slope / other)

    def __rtruediv__(self, other: Any) -> NoReturn:
        raise UnsupportedMetric("the true positives are in a denominator")

    def __pow__(self, exponent: Any) -> Any:
        if exponent == 1:
            return self
        if exponent == 0:
            return np.ones_like(self.intercept)
        raise UnsupportedMetric("it takes a power of a term that holds the true positives")


def _line(intercept: Any, one: Any, other: Any) -> Any:
    slope = one + other
    size = np.maximum(np.abs(one), np.abs(other))
    return intercept if np.all(np.abs(slope) <= _ROUNDING * size) else Line(intercept, slope)
