"""What an expression comes to: on floats, on arrays, and on an exact algebra.

:func:`evaluate` is the only reading of a formula. The rule for 0/0 and the direction of a metric
are added on top of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from imbfit.confusion import Confusion
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Column, Constraint, Count, Expr, Number, Op, describe
from imbfit.named import BY_FORMULA, balanced_accuracy

THRESHOLD_ALONE = (
    "threshold can only be bounded by a number, such as threshold >= 0.3; it can't be scored or "
    "optimised"
)


def _as_it_is(constant: float) -> Any:
    return constant


def evaluate(
    expr: Expr,
    counts: Any,
    *,
    divide: Callable[[Any, Any], Any] = operator.truediv,
    number: Callable[[float], Any] = _as_it_is,
) -> Any:
    """Put `counts` in for the symbols of `expr`; the only reading of an expression.

    Parameters
    ----------
    expr : Expr
        The formula.
    counts : Confusion
        Whatever supports the operators: floats, arrays, or exact algebra.
    divide : callable, default=operator.truediv
        The division, so that a caller can decide about 0/0.
    number : callable, default=identity
        What a constant becomes, such as ``np.float64``.

    Returns
    -------
    object
        What the operators make of the counts.
    """
    if isinstance(expr, Number):
        return number(expr.value)
    if isinstance(expr, Count):
        return getattr(counts, expr.count)
    if isinstance(expr, Column):
        if expr.column not in counts.columns:
            known = ", ".join(map(repr, counts.columns)) or "none"
            raise ValueError(
                f"{expr} needs a per-row column {expr.column!r}; amounts given: {known}. "
                f"Pass amounts={{{expr.column!r}: ...}}"
            )
        return getattr(counts.columns[expr.column], expr.count)
    if not isinstance(expr, Op):
        raise UnsupportedMetric(THRESHOLD_ALONE)
    left = evaluate(expr.left, counts, divide=divide, number=number)
    right = evaluate(expr.right, counts, divide=divide, number=number)
    if expr.symbol == "/":
        return divide(left, right)
    return _ARITHMETIC[expr.symbol](left, right)


def _power(base: Any, exponent: Any) -> Any:
    # exact numbers would compute a 9 ** 999999999 to its last digit
    if isinstance(base, (int, Fraction)) and isinstance(exponent, int) and abs(exponent) > 64:
        raise UnsupportedMetric(
            f"{base} ** {exponent} is not computed exactly; exponents up to 64 are"
        )
    if exponent == 0.5 and isinstance(base, (np.ndarray, np.generic)):
        # the power of a numpy scalar makes infinity of the root of minus infinity
        return np.sqrt(base)
    return base**exponent


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "**": _power,
}


class _Division:
    """Division of floats that remembers where it met 0/0 and puts `fill` there."""

    def __init__(self, fill: float) -> None:
        self.fill = fill
        self.empty: Any = False

    def __call__(self, left: Any, right: Any) -> Any:
        left, right = np.asarray(left, float), np.asarray(right, float)
        result = np.divide(left, right)
        if not right.all():
            empty = (left == 0) & (right == 0)
            if empty.any():
                self.empty = self.empty | empty
                result = np.where(empty, self.fill, result)
        return result


def _read(expr: Expr, counts: Confusion, fill: float) -> tuple[Any, Any]:
    division = _Division(fill)
    with np.errstate(all="ignore"):
        result = evaluate(expr, counts.as_floats(), divide=division, number=np.float64)
    shape = np.broadcast_shapes(*(np.shape(x) for x in (counts.tp, counts.pp, counts.ap, counts.n)))
    result = np.asarray(result, float)
    return (result if result.shape == shape else np.full(shape, result)), division.empty


def value(expr: Expr, counts: Confusion, *, greater_is_better: bool) -> np.ndarray:
    """Evaluate a metric on numbers, with the rule for 0/0.

    Where a division meets 0/0, the metric takes its best value if the prediction is perfect
    (no false positive and no false negative) and its worst otherwise: 1 and 0 for a named metric,
    0 and 1 for one that is better when lower. Those that reach below 0 elsewhere (`mcc`,
    `informedness`, `markedness`) take 0 too, no better than chance. In any other formula each
    such division counts as 1 or 0, whichever is better (or worse) for the whole. Balanced
    accuracy averages the classes that exist. scikit-learn returns 0 with a warning, or 1 by
    ``zero_division``, in these cases.

    Parameters
    ----------
    expr : Expr
        The metric.
    counts : Confusion
        Floats or arrays of one shape.
    greater_is_better : bool
        The direction, which says which value is best.

    Returns
    -------
    ndarray of float
        One value per entry of the counts; never NaN.
    """
    result, empty = _read(expr, counts, 0.0)
    if np.any(empty):
        perfect = (np.asarray(counts.fp) == 0) & (np.asarray(counts.fn) == 0)
        best_is_one = perfect == greater_is_better
        if expr == balanced_accuracy:
            # the class without rows adds fill / 2: drop it and give the other its full weight
            return np.where(empty, np.where(_lacks_both(counts), 1.0, 2 * result), result)
        if expr in BY_FORMULA:
            result = np.where(empty, np.where(best_is_one, 1.0, 0.0), result)
        else:
            other = _read(expr, counts, 1.0)[0]
            high, low = np.fmax(result, other), np.fmin(result, other)
            result = np.where(empty, np.where(best_is_one, high, low), result)
    if np.isnan(result).any():
        raise ValueError(
            f"{describe(expr)} has no value here: it takes a root of a negative number or "
            "subtracts infinities; rewrite the formula"
        )
    return np.asarray(result)


def _lacks_both(counts: Confusion) -> Any:
    return (np.asarray(counts.ap) == 0) & (np.asarray(counts.an) == 0)


def margin(constraint: Constraint, counts: Confusion) -> tuple[np.ndarray, np.ndarray]:
    """Return how far a constraint is from its bound, and where it is vacuous.

    Parameters
    ----------
    constraint : Constraint
        Left and right are read on `counts`.
    counts : Confusion
        Floats or arrays of one shape.

    Returns
    -------
    slack : ndarray of float
        Negative where the constraint is violated. Zero where it is vacuous.
    vacuous : ndarray of bool
        Where a division of the constraint is 0/0: nothing was flagged (or nothing was there) to
        break it, so it counts as met.
    """
    sign = 1.0 if constraint.sense == ">=" else -1.0
    left, left_empty = _read(constraint.left, counts, 0.0)
    right, right_empty = _read(constraint.right, counts, 0.0)
    vacuous = np.asarray(left_empty) | np.asarray(right_empty)
    with np.errstate(invalid="ignore"):
        slack = sign * (left - right)
    vacuous = np.broadcast_to(vacuous, slack.shape)
    slack = np.where(vacuous, 0.0, slack)
    if np.isnan(slack).any():
        raise ValueError(
            f"`{constraint.label}` has no value here: it takes a root of a negative number or "
            "subtracts infinities; rewrite it"
        )
    return slack, vacuous


def direction(expr: Expr, greater_is_better: Any) -> bool:
    """Tell whether greater is better, from the metric or from the user, who must agree.

    Parameters
    ----------
    expr : Expr
        The metric.
    greater_is_better : bool or None
        What the user said.

    Returns
    -------
    bool
        The direction.

    Raises
    ------
    ValueError
        If neither knows, or if the two disagree.
    TypeError
        If `greater_is_better` is something else.
    """
    known = expr.greater_is_better
    if known is None and expr in BY_FORMULA:
        known = BY_FORMULA[expr].greater_is_better
    if greater_is_better is None:
        if known is None:
            raise ValueError(
                f"is a greater `{describe(expr)}` better? Pass greater_is_better=True to maximise "
                "it or False to minimise it; only named metrics and cost know their direction"
            )
        return known
    if not isinstance(greater_is_better, (bool, np.bool_)):
        raise TypeError(f"greater_is_better={greater_is_better!r}: True, False or None are allowed")
    if known is not None and known != greater_is_better:
        raise ValueError(
            f"{describe(expr)} is better when {'greater' if known else 'lower'}, but "
            f"greater_is_better={greater_is_better} was given; leave it out, or write "
            f"1 * ({describe(expr)}) if you mean it"
        )
    return bool(greater_is_better)
