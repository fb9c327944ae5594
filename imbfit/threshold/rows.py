"""Expression to exact ratio of polynomials, and ratio to integer rows.

The unknowns are the sums that a choice of thresholds decides: tp and pp, of rows and of each
per-row column. The sums over all rows, ap and n, are known. ``metric >= c`` becomes

    metric - c = N / D,      N >= 0 wherever D > 0,

with N affine in the unknowns and coefficients that are exact fractions of the known sums. An empty
ratio has N = D = 0, so that row holds it as met, which is what the language says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np

from imbfit.confusion import Confusion
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Constraint, Expr, Number, Op, describe
from imbfit.reading import evaluate
from imbfit.threshold.table import CandidateTables, Sums

# A symbol is (sum, column): ("tp", None), ("pp", "amount"), ...
Symbol = tuple[str, str | None]
Monomial = tuple[Symbol, ...]
_UNKNOWN = ("tp", "pp")
_MOST_TERMS = 2000
_SAFE = 2**62
_LARGEST_DENOMINATOR = 10**9


class Polynomial:
    """A polynomial in the sums with exact coefficients."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, Fraction]) -> None:
        self.terms = {mono: coef for mono, coef in terms.items() if coef}

    @classmethod
    def constant(cls, value: Fraction | int) -> Polynomial:
        """Make a polynomial of one number."""
        return cls({(): Fraction(value)})

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for mono, coef in other.terms.items():
            terms[mono] = terms.get(mono, Fraction(0)) + coef
        return Polynomial(terms)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * Polynomial.constant(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        if len(self.terms) * len(other.terms) > _MOST_TERMS:
            raise UnsupportedMetric("it has too many terms when multiplied out")
        terms: dict[Monomial, Fraction] = {}
        for a, left in self.terms.items():
            for b, right in other.terms.items():
                mono = tuple(sorted(a + b, key=str))
                terms[mono] = terms.get(mono, Fraction(0)) + left * right
        return Polynomial(terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    __hash__ = None  # type: ignore[assignment]

    @property
    def degree(self) -> int:
        """Degree in the unknowns."""
        return max((sum(s[0] in _UNKNOWN for s in mono) for mono in self.terms), default=0)


class Ratio:
    """A quotient of two polynomials; it takes the operators of the language."""

    __slots__ = ("den", "num")

    def __init__(self, num: Polynomial, den: Polynomial | None = None) -> None:
        self.num = num
        self.den = Polynomial.constant(1) if den is None else den

    @staticmethod
    def of(value: Any) -> Ratio:
        """Return a ratio as it is, and a number as one."""
        return value if isinstance(value, Ratio) else Ratio(Polynomial.constant(as_fraction(value)))

    def __add__(self, other: Any) -> Ratio:
        other = Ratio.of(other)
        if self.den == other.den:
            return Ratio(self.num + other.num, self.den)
        return Ratio(self.num * other.den + other.num * self.den, self.den * other.den)

    def __radd__(self, other: Any) -> Ratio:
        return Ratio.of(other) + self

    def __sub__(self, other: Any) -> Ratio:
        return self + Ratio.of(other).negative()

    def __rsub__(self, other: Any) -> Ratio:
        return self.negative() + Ratio.of(other)

    def negative(self) -> Ratio:
        """Return minus the ratio."""
        return Ratio(self.num * Polynomial.constant(-1), self.den)

    def __mul__(self, other: Any) -> Ratio:
        other = Ratio.of(other)
        return Ratio(self.num * other.num, self.den * other.den)

    def __rmul__(self, other: Any) -> Ratio:
        return self * Ratio.of(other)

    def __truediv__(self, other: Any) -> Ratio:
        other = Ratio.of(other)
        if not other.num.terms:
            raise UnsupportedMetric("it divides by zero")
        if self.den == other.den:
            return Ratio(self.num, other.num)
        return Ratio(self.num * other.den, self.den * other.num)

    def __rtruediv__(self, other: Any) -> Ratio:
        return Ratio.of(other) / self

    def __pow__(self, exponent: Any) -> Ratio:
        power = as_fraction(exponent)
        if power.denominator != 1 or abs(power) > 20:
            raise UnsupportedMetric("it takes a power that is no small whole number")
        base = self if power >= 0 else Ratio(self.den, self.num)
        result = Ratio.of(1)
        for _ in range(abs(int(power))):
            result = result * base
        return result


def as_fraction(value: Any) -> Fraction:
    """Return a number as the decimal that its user wrote: 0.9 is nine tenths.

    A computed float such as 1/3 has 16 digits by accident; it is taken as the nearest fraction of
    moderate size, which is closer to it than it is to what it was computed from.
    """
    if isinstance(value, Fraction):
        return value
    exact = Fraction(str(value))
    if exact.denominator <= _LARGEST_DENOMINATOR or abs(exact.numerator) < 10**6:
        return exact
    largest = _LARGEST_DENOMINATOR * max(Fraction(1), 1 / abs(exact))
    return exact.limit_denominator(int(largest))


def _symbols(columns: Any) -> Confusion:
    def of(column: str | None, columns: Mapping[str, Confusion]) -> Confusion:
        tp, pp, ap, n = (
            Ratio(Polynomial({((name, column),): Fraction(1)})) for name in ("tp", "pp", "ap", "n")
        )
        return Confusion(tp, pp, ap, n, columns)

    return of(None, {name: of(name, {}) for name in columns})


def to_ratio(expr: Expr, columns: Any = ()) -> Ratio:
    """Read an expression as an exact ratio of polynomials in the sums.

    Parameters
    ----------
    expr : Expr
        The metric.
    columns : iterable of str
        Names of the per-row columns there are.

    Returns
    -------
    Ratio

    Raises
    ------
    UnsupportedMetric
        If a root or another power stands in the way; the message names the sub-expression.
    """
    try:
        return Ratio.of(evaluate(expr, _symbols(columns)))
    except UnsupportedMetric as error:
        raise UnsupportedMetric(f"{_culprit(expr, columns)}: {error}") from None


def _culprit(expr: Expr, columns: Any) -> str:
    """Describe the smallest sub-expression that can't be read."""
    if isinstance(expr, Op):
        for side in (expr.left, expr.right):
            try:
                evaluate(side, _symbols(columns))
            except UnsupportedMetric:
                return _culprit(side, columns)
    return describe(expr)


def constraint_ratio(constraint: Constraint, columns: Any = ()) -> Ratio:
    """Read ``left >= right`` as the ratio ``left - right``, and ``<=`` as its negative."""
    ratio = to_ratio(constraint.left, columns) - to_ratio(constraint.right, columns)
    return ratio if constraint.sense == ">=" else ratio * -1


@dataclass(frozen=True)
class Affine:
    """An integer affine form ``constant + sum of coefficient * sum`` for one scope."""

    constant: int
    coefficients: Mapping[Symbol, int]

    def largest(self, tables: CandidateTables, own: slice, *, constant: bool = True) -> int:
        """Bound on the absolute value over the candidates of a scope."""
        total = abs(self.constant) if constant else 0
        for symbol, coef in self.coefficients.items():
            array = sum_of(tables, symbol)[own]
            size = max(abs(int(array.max())), abs(int(array.min()))) if len(array) else 0
            total += abs(coef) * size
        return total

    def values(self, tables: CandidateTables, own: slice, *, constant: bool = True) -> np.ndarray:
        """Evaluate on the candidates of a scope, in int64 where that is safe.

        Raises
        ------
        OverflowError
            If 64 bits may not hold the result.
        """
        if self.largest(tables, own, constant=constant) >= _SAFE:
            raise OverflowError
        result = np.full(own.stop - own.start, self.constant if constant else 0, np.int64)
        for symbol, coef in self.coefficients.items():
            array = sum_of(tables, symbol)[own]
            result += array if coef == 1 else coef * array
        return result

    def exact(self, tables: CandidateTables, own: slice, *, constant: bool = True) -> np.ndarray:
        """Evaluate on the candidates of a scope, in Python integers where int64 is too short."""
        try:
            return self.values(tables, own, constant=constant)
        except OverflowError:
            result = np.full(own.stop - own.start, self.constant if constant else 0, object)
            for symbol, coef in self.coefficients.items():
                result = result + sum_of(tables, symbol)[own].astype(object) * coef
            return result


def sum_of(tables: CandidateTables, symbol: Symbol) -> np.ndarray:
    """Array of an unknown sum over all candidates."""
    name, column = symbol
    sums = sums_of(tables, column)
    return sums.tp if name == "tp" else sums.pp


def sums_of(tables: CandidateTables, column: str | None) -> Sums:
    """Return the sums of the rows, or of a per-row column."""
    return tables.rows if column is None else tables.columns[column]


def known_sums(tables: CandidateTables, segment: int | None) -> dict[Symbol, Fraction]:
    """Real values of ap and n, of one segment or of the whole."""
    known: dict[Symbol, Fraction] = {}
    for column in (None, *tables.columns):
        sums = sums_of(tables, column)
        for name, array in (("ap", sums.ap), ("n", sums.n)):
            total = int(array.sum()) if segment is None else int(array[segment])
            known[name, column] = Fraction(total) / sums.scale
    return known


def affine_pair(
    ratio: Ratio, tables: CandidateTables, segment: int | None
) -> tuple[Affine, Affine, Fraction] | None:
    """Numerator and denominator of a ratio as integer affine forms, if they are affine.

    Returns
    -------
    tuple or None
        ``(N, D, scale)`` with ``ratio == scale * N / D``, or None where an unknown is multiplied
        by an unknown.
    """
    known = known_sums(tables, segment)
    forms = []
    for polynomial in (ratio.num, ratio.den):
        terms: dict[Symbol | None, Fraction] = {}
        for mono, coef in polynomial.terms.items():
            unknown = [s for s in mono if s[0] in _UNKNOWN]
            value = coef
            for symbol in mono:
                if symbol[0] not in _UNKNOWN:
                    value *= known[symbol]
            if len(unknown) > 1 and value:
                return None
            key = unknown[0] if unknown else None
            if key is not None:
                value /= sums_of(tables, key[1]).scale
            terms[key] = terms.get(key, Fraction(0)) + value
        forms.append({key: value for key, value in terms.items() if value})
    whole = []
    scale = Fraction(1)
    for position, terms in enumerate(forms):
        denominator = lcm(*(v.denominator for v in terms.values()))
        divisor = gcd(*(int(v * denominator) for v in terms.values())) or 1
        factor = Fraction(denominator, divisor)
        scale = scale / factor if position == 0 else scale * factor
        integer = {key: int(value * factor) for key, value in terms.items()}
        constant = integer.pop(None, 0)
        whole.append(Affine(constant, {k: v for k, v in integer.items() if k is not None}))
    return whole[0], whole[1], scale


def is_number(expr: Expr) -> bool:
    """Tell whether an expression is a plain constant."""
    return isinstance(expr, Number)
