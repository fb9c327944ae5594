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
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from sklearn.metrics import make_scorer

from imbfit._labels import amount_columns, check_index, encode_labels, row_weights
from imbfit.confusion import Confusion
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import (
    Constraint,
    Expr,
    Gap,
    Rule,
    Scope,
    Threshold,
    as_expr,
    columns_of,
    describe,
    walk,
)
from imbfit.named import (
    accuracy,
    an,
    ap,
    balanced_accuracy,
    cost,
    f1,
    f2,
    fbeta,
    fn,
    fnr,
    fp,
    fpr,
    gmean,
    informedness,
    jaccard,
    kappa,
    lift,
    markedness,
    mcc,
    n,
    npv,
    pn,
    pp,
    precision,
    recall,
    specificity,
    sqrt,
    threshold,
    tn,
    tp,
)
from imbfit.parsing import read
from imbfit.reading import THRESHOLD_ALONE, direction, value
from imbfit.scopes import capacity, each_segment, in_segment, max_gap

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
        raise UnsupportedMetric(THRESHOLD_ALONE)
    return expr


def as_metrics(expressions: Any) -> list[Expr]:
    """Return some metrics, or one alone, as expressions."""
    if isinstance(expressions, (str, Expr)):
        expressions = [expressions]
    return [as_metric(item) for item in expressions]


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
    return read(text)
