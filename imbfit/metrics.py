"""The metric language: counts, operators, named metrics, constraints and scorers.

Everything that imbfit optimises, constrains or scores is a formula over the counts of a confusion
matrix. Formulas are written as they are read::

    from imbfit.metrics import capacity, each_segment, fn, fp, precision, recall

    loss = 5 * fp + fn["amount"]  # 5 a review, the amount for each miss
    rules = [recall >= 0.6, each_segment(precision >= 0.5), capacity(200, per="date")]

The symbols are ``tp fp fn tn`` (the four cells), ``pp pn`` (predicted positives and negatives),
``ap an`` (actual positives and negatives), ``n`` (all rows), and ``threshold``.
"""

from __future__ import annotations

import difflib
import functools
import operator
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from sklearn.metrics import make_scorer

from imbfit._labels import amount_columns, check_index, encode_labels, row_weights
from imbfit.confusion import Confusion
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import (
    Column,
    Constraint,
    Count,
    Expr,
    Gap,
    Number,
    Op,
    Rule,
    Scope,
    Threshold,
    as_expr,
    columns_of,
    describe,
    is_number,
    is_text,
    spelled,
    walk,
)

__all__ = [
    "Constraint",
    "Expr",
    "Scope",
    "accuracy",
    "an",
    "ap",
    "balanced_accuracy",
    "capacity",
    "cost",
    "each_segment",
    "f1",
    "f2",
    "fbeta",
    "fn",
    "fnr",
    "fp",
    "fpr",
    "gmean",
    "in_segment",
    "informedness",
    "jaccard",
    "kappa",
    "lift",
    "markedness",
    "max_gap",
    "mcc",
    "n",
    "npv",
    "parse",
    "pn",
    "pp",
    "precision",
    "recall",
    "score",
    "scorer",
    "specificity",
    "sqrt",
    "threshold",
    "tn",
    "tp",
]

tp = Count("tp")
fp = Count("fp")
fn = Count("fn")
tn = Count("tn")
pp = Count("pp")
pn = Count("pn")
ap = Count("ap")
an = Count("an")
n = Count("n")
threshold = Threshold()


def sqrt(value: Any) -> Expr:
    """Write the square root of an expression, ``value ** 0.5``.

    Parameters
    ----------
    value : Expr or number
        What to take the root of.

    Returns
    -------
    Expr
        Its square root.

    Examples
    --------
    >>> from imbfit.metrics import ap, sqrt, tp
    >>> sqrt(tp / ap)
    (tp / ap) ** 0.5
    """
    return as_expr(value) ** 0.5


def fbeta(beta: float) -> Expr:
    r"""F-beta: recall counts `beta` times as much as precision.

    .. math:: F_\beta = \frac{(1+\beta^2)\,tp}{(1+\beta^2)\,tp + \beta^2 fn + fp}

    Parameters
    ----------
    beta : float
        Positive.

    Returns
    -------
    Expr
        Greater is better.

    Raises
    ------
    ValueError
        If `beta` is no positive number.

    Examples
    --------
    >>> from imbfit.metrics import fbeta
    >>> fbeta(2)
    5 * tp / (5 * tp + 4 * fn + fp)
    """
    if not is_number(beta) or not 0 < beta < np.inf:
        raise ValueError(f"beta={beta!r}: F-beta takes a positive number, such as fbeta(2)")
    # 0.1 means a tenth, so its square is 0.01 and not 0.010000000000000002
    exact = Fraction(str(float(beta)))
    hits, square = _plain(1 + exact**2), _plain(exact**2)
    if square == 0:
        raise ValueError(f"beta={beta!r} is too small: its square is 0, which is precision")
    return spelled(
        hits * tp / (hits * tp + (fn if square == 1 else square * fn) + fp),
        f"fbeta({_plain(exact)!r})",
        greater_is_better=True,
    )


def _plain(value: Fraction) -> float:
    return value.numerator if value.denominator == 1 else float(value)


def cost(*, fp: float, fn: float, tp: float = 0, tn: float = 0) -> Expr:
    """Sum of a fixed price per cell; lower is better.

    The cells are named and never positional, since a transposed price list is a silent error.

    Parameters
    ----------
    fp, fn : float
        Price of a false positive and of a false negative.
    tp, tn : float, default=0
        Price of a true positive and of a true negative.

    Returns
    -------
    Expr
        Lower is better.

    Raises
    ------
    TypeError
        If a price is no number.

    Examples
    --------
    >>> from imbfit.metrics import cost
    >>> cost(fp=1, fn=10)
    1 * fp + 10 * fn
    >>> cost(fp=1, fn=10)([1, 1, 0], [0, 1, 1])
    11.0
    """
    prices = {"fp": fp, "fn": fn, "tp": tp, "tn": tn}
    parts: list[Expr] = []
    for cell, price in prices.items():
        if not is_number(price):
            raise TypeError(
                f"{cell}={price!r}: a price per case is a number; for an amount that differs from "
                f'row to row write {cell}["amount"] in a formula'
            )
        if cell in ("fp", "fn") or price != 0:
            parts.append(as_expr(price) * Count(cell))
    total = functools.reduce(operator.add, parts)
    inside = {cell: as_expr(price) for cell, price in prices.items() if cell[0] == "f" or price}
    name = f"cost({', '.join(f'{cell}={price}' for cell, price in inside.items())})"
    if all(isinstance(price, Number) for price in inside.values()):
        return spelled(total, name, greater_is_better=False)
    # a price such as 1/3 is a formula, which the word cost(...) does not take
    return total.named(name, greater_is_better=False)


f1 = spelled(fbeta(1), "f1", greater_is_better=True)
f2 = spelled(fbeta(2), "f2", greater_is_better=True)
accuracy = spelled((tp + tn) / n, "accuracy", greater_is_better=True)
recall = spelled(tp / ap, "recall", greater_is_better=True)
specificity = spelled(tn / an, "specificity", greater_is_better=True)
balanced_accuracy = spelled((recall + specificity) / 2, "balanced_accuracy", greater_is_better=True)
precision = spelled(tp / pp, "precision", greater_is_better=True)
npv = spelled(tn / pn, "npv", greater_is_better=True)
fpr = spelled(fp / an, "fpr", greater_is_better=False)
fnr = spelled(fn / ap, "fnr", greater_is_better=False)
jaccard = spelled(tp / (tp + fp + fn), "jaccard", greater_is_better=True)
# an * tp - ap * fp equals n * tp - ap * pp without its cancellation where negatives are rare, and
# is linear in the predictions, unlike tp * tn - fp * fn
kappa = spelled(2 * (an * tp - ap * fp) / (ap * pn + an * pp), "kappa", greater_is_better=True)
mcc = spelled((an * tp - ap * fp) / sqrt(ap * an * pp * pn), "mcc", greater_is_better=True)
gmean = spelled(sqrt(recall * specificity), "gmean", greater_is_better=True)
informedness = spelled(recall + specificity - 1, "informedness", greater_is_better=True)
markedness = spelled(precision + npv - 1, "markedness", greater_is_better=True)
lift = spelled(precision / (ap / n), "lift", greater_is_better=True)

#: Named metrics by the word that writes them.
NAMED: dict[str, Expr] = {
    str(metric.spelling): metric
    for metric in (
        accuracy, balanced_accuracy, precision, recall, specificity, npv, fpr, fnr, f1, f2,
        jaccard, kappa, mcc, gmean, informedness, markedness, lift,
    )
}  # fmt: skip
#: Symbols by name.
SYMBOLS: dict[str, Expr] = {s.count: s for s in (tp, fp, fn, tn, pp, pn, ap, an, n)} | {
    "threshold": threshold
}
# Equal formulas are the same metric, whoever typed them.
_BY_FORMULA: dict[Expr, Expr] = {metric: metric for metric in NAMED.values()}


# --------------------------------------------------------------------------------------------
# Scopes


def _rule(value: Any, opening: str) -> Constraint | Scope:
    if isinstance(value, Scope) and value.kind == "capacity" and not isinstance(value.key, str):
        return value
    if not isinstance(value, Constraint):
        raise TypeError(
            f"{opening}{value!r}): give one constraint on an expression or a capacity per rows, "
            f"such as {opening}precision >= 0.5)"
        )
    return value


def _plain_key(key: Any) -> Any:
    """Return a segment's value as plain Python, so that equal scopes hash and read alike."""
    if isinstance(key, tuple):
        return tuple(_plain_key(part) for part in key)
    return key.item() if isinstance(key, np.generic) else key


def each_segment(constraint: Constraint | Scope) -> Scope:
    """Let a constraint hold in each segment by itself.

    Parameters
    ----------
    constraint : Constraint
        Such as ``precision >= 0.5``; a capacity per number of rows is fine too.

    Returns
    -------
    Scope
        A constraint for each segment.

    Raises
    ------
    TypeError
        If it is given anything but one such constraint.

    Examples
    --------
    >>> from imbfit.metrics import each_segment, precision
    >>> each_segment(precision >= 0.5)
    precision >= 0.5 in each segment
    """
    return Scope("each_segment", _rule(constraint, "each_segment("))


def in_segment(segment: Hashable, constraint: Constraint | Scope) -> Scope:
    """Let a constraint hold in one segment.

    Parameters
    ----------
    segment : hashable
        The segment's value; a tuple where segments come from several columns.
    constraint : Constraint
        Such as ``recall >= 0.8``.

    Returns
    -------
    Scope
        A constraint for that segment.

    Raises
    ------
    TypeError
        If it is given anything but a segment and one constraint.

    Examples
    --------
    >>> from imbfit.metrics import in_segment, recall
    >>> in_segment("DE", recall >= 0.8)
    recall >= 0.8 in segment "DE"
    """
    if isinstance(segment, (Constraint, Scope)):
        raise TypeError('the segment comes first: in_segment("DE", recall >= 0.8)')
    try:
        hash(segment)
    except TypeError:
        raise TypeError(
            f"in_segment({segment!r}, ...): the segment is one value, or a tuple where segments "
            "come from several columns"
        ) from None
    segment = _plain_key(segment)
    return Scope("in_segment", _rule(constraint, f"in_segment({segment!r}, "), segment)


def max_gap(metric: Expr) -> Gap:
    """Take the largest difference of a metric between two segments, to bound it from above.

    A segment in which the metric is 0/0 has no value there and takes no part.

    Parameters
    ----------
    metric : Expr
        Such as ``recall``.

    Returns
    -------
    Gap
        Write ``max_gap(recall) <= 0.05`` to make a constraint of it.

    Raises
    ------
    TypeError
        If `metric` is no expression over counts.

    Examples
    --------
    >>> from imbfit.metrics import max_gap, recall
    >>> max_gap(recall) <= 0.05
    max_gap(recall) <= 0.05
    """
    expr = as_expr(metric)
    if any(isinstance(node, Threshold) for node in walk(expr)):
        raise TypeError(f"max_gap({expr}): the threshold itself can't be compared, only a metric")
    return Gap(expr)


def capacity(limit: float, *, per: int | str | None = None) -> Scope:
    """At most `limit` flagged: in all, per so many rows, or for each value of a column.

    Parameters
    ----------
    limit : float
        The most that may be flagged.
    per : int or str, default=None
        An int for a capacity per so many rows (``capacity(200, per=1000)``), a column's name for
        a capacity on each of its values (``capacity(200, per="date")``: on any one day), None for
        the whole.

    Returns
    -------
    Scope
        A constraint on the number flagged.

    Raises
    ------
    ValueError
        If `limit` is no number of at least 0, or `per` is neither rows nor a column.

    Examples
    --------
    >>> from imbfit.metrics import capacity
    >>> capacity(200, per=1000), capacity(50, per="date")
    (capacity(200, per=1000), capacity(50, per="date"))
    """
    number = as_expr(limit)
    if not isinstance(number, Number) or number.value < 0:
        raise ValueError(f"capacity({limit!r}): the limit must be a number of at least 0")
    key = _plain_key(per)
    if not (key is None or is_text(key) or (type(key) is int and key > 0)):
        raise ValueError(
            f"capacity({limit}, per={per!r}): per is a whole number of rows (per=1000), the name "
            'of a column (per="date") or None for the whole'
        )
    return Scope("capacity", Constraint(pp, "<=", number), key)


def as_rules(constraints: Any) -> list[Constraint | Scope]:
    """Return constraints in a list, text parsed; anything else raises and says what to write."""
    single = isinstance(constraints, (str, Rule, Gap, Expr))
    if single or not hasattr(constraints, "__iter__"):
        constraints = [constraints]
    if isinstance(constraints, Mapping):
        raise TypeError(f"constraints is a {type(constraints).__name__}; give a list of them")
    rules: list[Constraint | Scope] = []
    for position, item in enumerate(constraints):
        rule = parse(item) if isinstance(item, str) else item
        if isinstance(rule, (Constraint, Scope)):
            rules.append(rule)
            continue
        if isinstance(rule, (bool, np.bool_)):
            hint = (
                "a bool; a comparison by == is no constraint, use >= or <= between an expression "
                "and a number"
            )
        elif isinstance(rule, Expr):
            hint = f"an expression without a bound; write `{describe(rule)} >= 0.5`"
        elif isinstance(rule, Gap):
            hint = f"a gap without its bound; write `{rule} <= 0.05`"
        else:
            hint = f"of type {type(rule).__name__}; write `precision >= 0.5` or its text"
        shown = describe(item) if isinstance(item, Expr) else repr(item)
        raise TypeError(f"constraint {position} is {shown}, {hint}")
    return rules


# --------------------------------------------------------------------------------------------
# Reading: numbers for the symbols


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
        raise UnsupportedMetric(_THRESHOLD_ALONE)
    left = evaluate(expr.left, counts, divide=divide, number=number)
    right = evaluate(expr.right, counts, divide=divide, number=number)
    if expr.symbol == "/":
        return divide(left, right)
    return _ARITHMETIC[expr.symbol](left, right)


_THRESHOLD_ALONE = (
    "threshold can only be bounded by a number, such as threshold >= 0.3; it can't be scored or "
    "optimised"
)


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
        if expr in _BY_FORMULA:
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
    if known is None and expr in _BY_FORMULA:
        known = _BY_FORMULA[expr].greater_is_better
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


def score(
    metric: Expr | str,
    y_true: Any,
    y_pred: Any,
    *,
    greater_is_better: bool | None = None,
    sample_weight: Any = None,
    pos_label: Any = None,
    amounts: Any = None,
) -> float:
    """Score predicted labels by a metric; calling the metric itself does the same.

    Parameters
    ----------
    metric : Expr or str
        The metric.
    y_true, y_pred : array-like of shape (n_rows,)
        True and predicted labels, of at most two kinds.
    greater_is_better : bool, default=None
        The direction; it matters only where a ratio is 0/0 and is asked for only then.
    sample_weight : array-like of shape (n_rows,), default=None
        How often each row counts; 0 is no row.
    pos_label : label, default=None
        The positive label; 1 of {0, 1} or {-1, 1}, else the last of the sorted two.
    amounts : mapping of str to array-like, or frame, default=None
        Per-row columns, for metrics such as ``fn["amount"]``.

    Returns
    -------
    float
        The value. Where a ratio is 0/0: the metric's best if there is no false positive and no
        false negative, else its worst (1 and 0, or 0 and 1 if lower is better); balanced accuracy
        averages the classes that exist.

    Raises
    ------
    ValueError
        If labels, weights or amounts are missing, misaligned or not binary, or if a direction is
        needed.
    TypeError
        If `metric` is no metric, or an estimator came in place of labels.

    Notes
    -----
    Rows are matched by position. pandas objects that hold the same index labels in another order
    are refused.

    Examples
    --------
    >>> from imbfit.metrics import fn, precision, score
    >>> precision([0, 1, 1, 0], [0, 1, 0, 1])
    0.5
    >>> score(fn["amount"], [0, 1, 1], [0, 0, 1], amounts={"amount": [5.0, 7.0, 9.0]})
    7.0
    """
    expr = as_metric(metric)
    if hasattr(y_true, "predict") or (hasattr(y_true, "fit") and not hasattr(y_true, "shape")):
        raise TypeError(
            f"{describe(expr)} scores labels, (y_true, y_pred); for scoring= of cross_validate or "
            "GridSearchCV write scorer(metric)"
        )
    positive, flagged = encode_labels(y_true, y_pred, pos_label=pos_label)
    rows = len(positive)
    weight = row_weights(sample_weight, rows)
    check_index(y_true=y_true, y_pred=y_pred, sample_weight=sample_weight, amounts=amounts)
    columns = amount_columns(amounts, rows, wanted=columns_of(expr))
    for column in sorted(columns_of(expr) - columns.keys()):
        _lacks(expr, column, amounts)
    counts = Confusion.from_flags(positive, flagged, weight=weight, columns=columns)
    if greater_is_better is not None or expr.greater_is_better is not None:
        known = direction(expr, greater_is_better)
    else:
        # without a 0/0 the direction makes no difference, so a bare formula can be scored
        high, low = (value(expr, counts, greater_is_better=side) for side in (True, False))
        known = True if high == low else direction(expr, None)
    return float(value(expr, counts, greater_is_better=known))


def _lacks(expr: Expr, column: str, amounts: Any) -> NoReturn:
    if amounts is None:
        raise ValueError(
            f"{describe(expr)} reads the per-row column {column!r}: pass "
            f"amounts={{{column!r}: values}}; to a scorer in cross_validate or GridSearchCV, by "
            "sklearn.set_config(enable_metadata_routing=True) and set_score_request(amounts=True)"
        )
    names = list(amounts.keys() if isinstance(amounts, Mapping) else amounts.columns)
    close = difflib.get_close_matches(column, [str(name) for name in names], n=1)
    raise ValueError(
        f"{describe(expr)} reads the per-row column {column!r}, which is not among the amounts "
        f"{names}" + (f"; did you mean {close[0]!r}?" if close else "")
    )


def as_metric(metric: Any) -> Expr:
    """Return a metric or its text as an expression; anything else raises."""
    expr = parse(metric) if isinstance(metric, str) else metric
    if isinstance(expr, Rule):
        raise TypeError(f"{metric} is a constraint, but a metric was asked for, such as f1")
    expr = as_expr(expr)
    if any(isinstance(node, Threshold) for node in walk(expr)):
        raise UnsupportedMetric(_THRESHOLD_ALONE)
    return expr


def scorer(
    metric: Expr | str, *, greater_is_better: bool | None = None, pos_label: Any = None
) -> Any:
    """Make a scikit-learn scorer from a metric.

    It works as ``scoring=`` of `cross_validate`, `GridSearchCV` and the like. With metadata
    routing, ``scorer(...).set_score_request(sample_weight=True, amounts=True)`` passes weights and
    per-row columns (a frame, which is sliced to the fold's rows).

    Parameters
    ----------
    metric : Expr or str
        The metric or its text.
    greater_is_better : bool, default=None
        Needed unless the metric knows; a metric that is better when lower is negated, as
        scikit-learn's scorers are.
    pos_label : label, default=None
        The positive label, see :func:`score`.

    Returns
    -------
    callable
        A scorer ``(estimator, X, y_true, **kwargs) -> float``.

    Raises
    ------
    ValueError
        If the direction is unknown, or contradicts the metric's own.

    Examples
    --------
    >>> from imbfit.metrics import cost, scorer
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = make_classification(weights=[0.9], random_state=1)
    >>> cross_val_score(LogisticRegression(), X, y, scoring=scorer(cost(fp=1, fn=10)), cv=2)
    array([-10., -20.])
    """
    expr = as_metric(metric)
    greater = direction(expr, greater_is_better)
    return make_scorer(
        _Score(expr, greater_is_better=greater, pos_label=pos_label),
        greater_is_better=greater,
        response_method="predict",
    )


class _Score:
    """A metric as a plain function of labels, with the name that scikit-learn prints."""

    def __init__(self, expr: Expr, *, greater_is_better: bool, pos_label: Any) -> None:
        self.expr = expr
        self.greater_is_better = greater_is_better
        self.pos_label = pos_label
        self.__name__ = describe(expr)

    def __call__(
        self, y_true: Any, y_pred: Any, *, sample_weight: Any = None, amounts: Any = None
    ) -> float:
        return score(
            self.expr,
            y_true,
            y_pred,
            greater_is_better=self.greater_is_better,
            sample_weight=sample_weight,
            pos_label=self.pos_label,
            amounts=amounts,
        )


def parse(text: str) -> Any:
    """Read a metric or a constraint from text; never through ``eval``.

    Parameters
    ----------
    text : str
        Such as ``"5*fp + fn[amount]"``, ``"precision >= 0.5 in each segment"``,
        ``'recall >= 0.8 in segment "DE"'``, ``"max_gap(recall) <= 0.05"`` or
        ``"capacity(200, per=1000)"``.

    Returns
    -------
    Expr, Constraint or Scope
        What the text says; ``parse(str(x)) == x``.

    Raises
    ------
    ValueError
        With the place of the character that can't be read.
    TypeError
        If `text` is no text.

    Examples
    --------
    >>> from imbfit.metrics import fn, fp, parse
    >>> parse("5*fp + fn[amount]") == 5 * fp + fn["amount"]
    True
    >>> parse("precision >= 0.5 in each segment")
    precision >= 0.5 in each segment
    """
    from imbfit.parsing import read  # parsing builds on the names defined above

    return read(text)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sqrt": sqrt,
    "fbeta": fbeta,
    "cost": cost,
    "max_gap": max_gap,
    "each_segment": each_segment,
    "in_segment": in_segment,
    "capacity": capacity,
}
