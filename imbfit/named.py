"""Counts as symbols, and the metrics that have a name, written from them.

What these names mean on numbers is the business of :mod:`imbfit.reading`.
"""

from __future__ import annotations

import functools
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from imbfit.expressions import Count, Expr, Number, Threshold, as_expr, is_number, spelled

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
BY_FORMULA: dict[Expr, Expr] = {metric: metric for metric in NAMED.values()}
