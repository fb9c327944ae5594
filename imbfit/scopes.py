"""Where a constraint holds: in each segment, in one, between segments, or within a capacity."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from imbfit.expressions import (
    Constraint,
    Expr,
    Gap,
    Number,
    Scope,
    Threshold,
    as_expr,
    is_text,
    walk,
)
from imbfit.named import pp


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
