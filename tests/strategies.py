"""Hypothesis strategies for the metric language: numbers, expressions, constraints, counts."""

import operator

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from imbfit.confusion import Confusion
from imbfit.expressions import Constraint, Expr, Scope, as_expr
from imbfit.metrics import capacity, cost, each_segment, fbeta, in_segment, max_gap, sqrt, threshold
from imbfit.named import NAMED, SYMBOLS

# The same examples in every run; a slow machine is no failure.
settings.register_profile("imbfit", derandomize=True, deadline=None)
settings.load_profile("imbfit")

COUNTS = [symbol for name, symbol in SYMBOLS.items() if name != "threshold"]
METRICS = list(NAMED.values())

#: Whatever a user may write as a number: negative, tiny, huge, numpy's, a fraction.
numbers = st.one_of(
    st.integers(-5, 5),
    st.integers(-(10**18), 10**18),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1),
    st.fractions(-3, 3, max_denominator=12),
    st.integers(-100, 100).map(np.int32),
    st.floats(-2, 2, width=32).map(np.float32),
    st.floats(-2, 2).map(np.float64),
)
exponents = st.one_of(st.integers(-3, 3), st.floats(-3, 3), st.sampled_from([0.5, -0.5, 2, -0.0]))
#: Any text that is not empty: blanks, quotes, backslashes, line ends, lone surrogates.
column_names = st.one_of(
    st.sampled_from(
        ["amount", "in", "f1", "a b", 'say "x"', "it's", "a\\b\\", "a\nb\r\0", " ", "]"]
    ),
    st.text(min_size=1, max_size=6),
    st.text(st.characters(codec=None), min_size=1, max_size=4),
)
_scalar_keys = st.one_of(
    column_names,
    st.text(max_size=4),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.integers(0, 9).map(np.int64),
    st.floats(-1, 1, width=32).map(np.float32),
)
#: The value of a segment; a tuple where segments come from several columns.
segment_keys = st.recursive(
    _scalar_keys, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4
)


def columns() -> st.SearchStrategy[Expr]:
    return st.builds(operator.getitem, st.sampled_from(COUNTS), column_names)


def leaves(*, money: bool = True) -> st.SearchStrategy[Expr]:
    """Counts, named metrics, costs, F-betas, constants, and columns if `money`."""
    parts = [
        st.sampled_from(COUNTS),
        st.sampled_from(METRICS),
        numbers.map(as_expr),
        st.builds(cost, fp=numbers, fn=numbers, tp=numbers),
        st.floats(0.01, 100).map(fbeta),
    ]
    return st.one_of(*parts, columns()) if money else st.one_of(*parts)


def _extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    joins = st.sampled_from([operator.add, operator.sub, operator.mul, operator.truediv])
    return st.one_of(
        st.builds(lambda join, left, right: join(left, right), joins, inner, inner),
        st.builds(lambda join, left, right: join(left, right), joins, inner, numbers),
        st.builds(lambda join, left, right: join(left, right), joins, numbers, inner),
        st.builds(operator.pow, inner, exponents),
        inner.map(operator.neg),
        inner.map(sqrt),
    )


def expressions(*, money: bool = True, max_leaves: int = 12) -> st.SearchStrategy[Expr]:
    """Random trees of the whole language."""
    return st.recursive(leaves(money=money), _extend, max_leaves=max_leaves)


def constraints(*, money: bool = True) -> st.SearchStrategy[Constraint]:
    """Bounds on expressions, on either side, and on the threshold."""
    trees = expressions(money=money, max_leaves=5)
    joins = st.sampled_from([operator.ge, operator.le])
    return st.one_of(
        st.builds(lambda join, left, right: join(left, right), joins, trees, numbers),
        st.builds(lambda join, left, right: join(left, right), joins, numbers.map(as_expr), trees),
        st.builds(lambda join, left, right: join(left, right), joins, trees, trees),
        st.builds(lambda join, bound: join(threshold, bound), joins, numbers.filter(_is_plain)),
    )


def _is_plain(number: object) -> bool:
    return getattr(number, "denominator", 1) == 1 or isinstance(number, float)


def rules() -> st.SearchStrategy[Constraint | Scope]:
    """Constraints of every scope."""
    limits = st.one_of(st.integers(0, 10**6), st.floats(0, 1e6))
    per_rows = st.builds(lambda limit, per: capacity(limit, per=per), limits, st.integers(1, 10**6))
    anywhere = st.one_of(constraints(), limits.map(capacity), per_rows)
    return st.one_of(
        anywhere,
        anywhere.map(each_segment),
        st.builds(in_segment, segment_keys, anywhere),
        st.builds(lambda tree, bound: max_gap(tree) <= bound, expressions(max_leaves=4), limits),
        st.builds(lambda limit, per: capacity(limit, per=per), limits, column_names),
    )


def confusions(most: int = 30) -> st.SearchStrategy[Confusion]:
    """Small counts, empty rows and columns included."""
    cell = st.integers(0, most)
    return st.builds(
        lambda tp, fp, fn, tn: Confusion(tp, tp + fp, tp + fn, tp + fp + fn + tn),
        cell, cell, cell, cell,
    )  # fmt: skip
