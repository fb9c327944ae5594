"""Metrics as what a game pays: tables, special cases, refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import paid
from strategies import numbers

from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Op
from imbfit.metrics import (
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
    parse,
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

GREATER = [
    accuracy, balanced_accuracy, precision, recall, specificity, npv, f1, f2, fbeta(0.5), kappa,
    mcc, informedness, markedness, lift,
]  # fmt: skip
LOWER = [fpr, fnr, cost(fp=1, fn=10), cost(fp=0.5, fn=2, tp=-1, tn=0.25)]
OTHERS = [
    (tp / sqrt(pp * ap), True), ((recall + precision) / 2, True), (3 * fp + fn, False),
    (tp / ap - 0.3 * (pp / n) ** 2, True), (1 - fn / ap, True), (recall - 2 * fp / n, True),
    (pp / n, False), (tp / ap + ap / n, True), ((tp - fp) / (pp + 1), True),
]  # fmt: skip
FAMILY = [(m, m.greater_is_better) for m in GREATER + LOWER] + OTHERS


def possible(rows):
    """All (tp, pp, ap) of so many rows."""
    for k, a in itertools.product(range(rows + 1), repeat=2):
        for hits in range(max(0, k + a - rows), min(k, a) + 1):
            yield hits, k, a


def check_tables(payoff, rows):
    sizes = np.arange(rows + 1.0)
    intercept, slope = payoff.tables(sizes[:, None], sizes[None, :], rows)
    assert intercept.shape == slope.shape == (rows + 1, rows + 1)
    for hits, k, a in possible(rows):
        expected = paid(payoff, hits, k, a, rows)
        assert intercept[k, a] + slope[k, a] * hits == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("rows", range(1, 9))
@pytest.mark.parametrize(("metric", "greater"), FAMILY, ids=lambda x: str(x)[:40])
def test_tables_are_the_languages_value(metric, greater, rows):
    check_tables(payoff_of(metric, greater_is_better=greater), rows)


COUNTS = st.sampled_from([tp, fp, fn, tn])
SIZES = st.sampled_from([pp, pn, ap, an, n])
_sized = st.recursive(
    st.one_of(SIZES, st.integers(-3, 3).map(lambda x: x + 0 * n)),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner), st.builds(lambda a, b: a * b, inner, inner)
    ),
    max_leaves=4,
)
# sums of (a cell, or sizes) over sizes: the family of the paper as it is written
_term = st.builds(
    lambda share, cell, rest, below: (share * cell + rest) / (1 + below * below),
    st.integers(-3, 3), COUNTS, _sized, _sized,
)  # fmt: skip


@given(st.lists(_term, min_size=1, max_size=3), st.integers(1, 6), st.booleans())
@settings(max_examples=150)
def test_random_members_of_the_family(terms, rows, greater):
    check_tables(payoff_of(sum(terms[1:], terms[0]), greater_is_better=greater), rows)


# an empty ratio within lift is 1 / 0 where it counts as 1, so a formula of lift has no finite value
_MIXED = st.sampled_from([member for member in FAMILY if member[0] != lift])


@given(_MIXED, numbers, _MIXED, numbers, st.booleans())
@settings(max_examples=150)
def test_random_mixtures_of_metrics(one, share, other, rest, greater):
    assume(0.0 < abs(float(share)) < 1e6)
    assume(abs(float(rest)) < 1e6)
    size = abs(float(share)) + abs(float(rest))
    payoff = payoff_of(share * one[0] + rest * other[0], greater_is_better=greater)
    intercept, slope = payoff.tables(np.arange(6.0)[:, None], np.arange(6.0)[None, :], 5)
    for hits, k, a in possible(5):
        expected = paid(payoff, hits, k, a, 5)
        assert intercept[k, a] + slope[k, a] * hits == pytest.approx(expected, abs=1e-9 * size)


@pytest.mark.parametrize(
    ("metric", "greater", "values"),
    [
        # nobody for nobody, nobody for some, some for nobody, everybody for everybody
        (precision, True, [1, 0, 0, 1]),
        (recall, True, [1, 0, 0, 1]),
        (f1, True, [1, 0, 0, 1]),
        (kappa, True, [1, 0, 0, 1]),
        (mcc, True, [1, 0, 0, 1]),
        (specificity, True, [1, 1, 0.5, 1]),
        (balanced_accuracy, True, [1, 0.5, 0.5, 1]),
        (informedness, True, [1, 0, 0, 1]),
        (accuracy, True, [1, 0.5, 0.5, 1]),
        (fnr, False, [0, -1, -1, 0]),
    ],
)
def test_the_rule_for_nothing_over_nothing(metric, greater, values):
    payoff = payoff_of(metric, greater_is_better=greater)
    worth = [payoff.values(0, 0, 0, 4), payoff.values(0, 0, 2, 4), payoff.values(0, 2, 0, 4)]
    worth.append(payoff.values(4, 4, 4, 4))
    assert [float(x) for x in worth] == values


def test_where_there_is_no_choice_the_slope_is_zero():
    for metric, greater in FAMILY:
        payoff = payoff_of(metric, greater_is_better=greater)
        _, slope = payoff.tables(np.arange(6.0)[:, None], np.arange(6.0)[None, :], 5)
        for edge in (slope[0], slope[-1], slope[:, 0], slope[:, -1]):
            assert (edge == 0.0).all()


@pytest.mark.parametrize("cases", [("positive",), ("positive", "negative")])
@pytest.mark.parametrize("metric", [f1, precision, recall, kappa, mcc, accuracy, informedness])
def test_the_papers_special_cases(metric, cases):
    rows = 5
    if cases == ("positive",) and metric in {kappa, mcc, informedness}:
        with pytest.raises(UnsupportedMetric, match=r"\('positive', 'negative'\)"):
            _all(payoff_of(metric, greater_is_better=True, special_cases=cases), rows)
        return
    intercept, slope = _all(payoff_of(metric, greater_is_better=True, special_cases=cases), rows)
    plain, plain_slope = _all(payoff_of(metric, greater_is_better=True), rows)
    for hits, k, a in possible(rows):
        worth = intercept[k, a] + slope[k, a] * hits
        if 0 in {k, a} or (rows in {k, a} and "negative" in cases):
            assert worth == float(k == a)
        else:
            assert worth == pytest.approx(plain[k, a] + plain_slope[k, a] * hits, abs=1e-12)


def _all(payoff, rows):
    sizes = np.arange(rows + 1.0)
    return payoff.tables(sizes[:, None], sizes[None, :], rows)


def test_special_cases_that_are_none():
    with pytest.raises(ValueError, match="'positive' and 'negative'"):
        payoff_of(f1, greater_is_better=True, special_cases=("both",))
    with pytest.raises(ValueError, match="better when greater"):
        payoff_of(fpr, greater_is_better=False, special_cases=("negative",))


def f1_of_arrays(tp, pp, ap, _):
    return np.where(pp + ap > 0, 2 * tp / np.maximum(pp + ap, 1), 1.0)


def f1_of_numbers(tp, pp, ap, _):
    if pp + ap == 0:
        return 1.0
    return 2 * tp / (pp + ap)


@pytest.mark.parametrize("function", [f1_of_arrays, f1_of_numbers])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_functions(function, rows):
    found = payoff_of(function, greater_is_better=True)
    check_tables(found, rows)
    tables = _all(payoff_of(f1, greater_is_better=True), rows)
    for own, named in zip(_all(found, rows), tables, strict=True):
        np.testing.assert_allclose(own, named, atol=1e-12)


def test_a_function_that_is_better_when_lower():
    payoff = payoff_of(lambda tp, pp, ap, _: pp - tp + 5 * (ap - tp), greater_is_better=False)
    check_tables(payoff, 5)
    assert payoff.values(1, 2, 3, 5) == -11.0


def test_a_function_with_a_constant():
    check_tables(payoff_of(lambda *_: 0.3, greater_is_better=True), 4)


def test_a_bent_function_is_refused_with_the_place():
    def squared(tp, *sizes):
        return (tp / sizes[-1]) ** 2

    with pytest.raises(UnsupportedMetric, match=r"squared is not affine.*tp=\d.*tp=\d"):
        _all(payoff_of(squared, greater_is_better=True), 6)


def test_a_function_without_a_number_is_refused():
    with pytest.raises(UnsupportedMetric, match="no finite value for 2 predicted and 1 actual"):
        payoff_of(lambda tp, pp, *_: np.where(pp == 2, np.nan, tp), greater_is_better=True).tables(
            np.array([1.0, 2.0, 3.0]), 1.0, 5
        )
    with pytest.raises(UnsupportedMetric, match="nobody or everybody is positive"):
        payoff_of(lambda tp, pp, *_: tp / pp, greater_is_better=True).tables(0.0, 1.0, 5)


@pytest.mark.parametrize(
    ("metric", "culprit"),
    [
        (jaccard, "jaccard"),
        (gmean, r"recall \* specificity"),
        (f1 * f1, r"f1 \* f1"),
        (tp**2, r"tp \*\* 2"),
        (precision + 1 / tp, "1 / tp"),
        (recall + sqrt(tp), r"tp \*\* 0.5"),
        (f1 + recall * specificity, r"recall \* specificity"),
        (2 * precision * recall / (precision + recall), "precision . recall"),
    ],
)
def test_metrics_outside_the_family_are_refused_by_name(metric, culprit):
    payoff = payoff_of(metric, greater_is_better=True)
    with pytest.raises(UnsupportedMetric, match=f"not affine.* in .*{culprit}"):
        payoff.tables(np.arange(6.0), 2.0, 5)


def test_amounts_and_the_threshold_are_refused():
    with pytest.raises(UnsupportedMetric, match=r'fn\["amount"\].*counts only'):
        payoff_of(5 * fp + fn["amount"], greater_is_better=False)
    with pytest.raises(UnsupportedMetric, match=r'fn\["amount"\].*counts only'):
        requirement_of(fn["amount"] <= 3)
    with pytest.raises(UnsupportedMetric, match="threshold"):
        payoff_of(Op("+", f1, threshold), greater_is_better=True)
    with pytest.raises(UnsupportedMetric, match="threshold"):
        requirement_of(threshold >= 0.3)
    with pytest.raises(TypeError, match="function of"):
        payoff_of("f1", greater_is_better=True)


def test_no_number_where_there_is_a_choice():
    with pytest.raises(UnsupportedMetric, match="no finite value for 3 predicted"):
        payoff_of(tp / (pp - 3), greater_is_better=True).tables(np.arange(6.0), 2.0, 5)
    with pytest.raises(UnsupportedMetric, match="root of a negative"):
        payoff_of(tp / n + sqrt(pp - 2), greater_is_better=True).tables(np.arange(6.0), 2.0, 5)


@pytest.mark.parametrize(
    "constraint",
    [
        recall >= 0.8, precision >= 0.5, fpr <= 0.1, specificity >= 0.3, pp <= 3, recall >= fpr,
        kappa >= 0.2, accuracy <= 0.9, 2 * tp >= fp + 1, parse("f1 >= 0.4"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_requirements_pay_their_slack(constraint, rows):
    check_tables(requirement_of(constraint), rows)


def test_an_empty_ratio_breaks_no_requirement():
    assert requirement_of(precision >= 0.5).values(0, 0, 2, 4) == 0.0
    assert requirement_of(recall >= 0.8).values(0, 2, 0, 4) == 0.0
    assert requirement_of(recall >= 0.8).values(1, 2, 2, 4) == pytest.approx(-0.3)


@pytest.mark.parametrize(("metric", "greater"), FAMILY, ids=lambda x: str(x)[:40])
def test_rows_that_count_k_times(metric, greater):
    """Sizes need not be whole: the tables of thrice the counts are those of a larger data set."""
    payoff = payoff_of(metric, greater_is_better=greater)
    intercept, slope = payoff.tables(3.0 * np.arange(6.0), 6.0, 15.0)
    assert np.isfinite(intercept).all()
    again = payoff.tables(np.arange(16.0), 6.0, 15.0)
    np.testing.assert_array_equal(intercept, again[0][::3])
    np.testing.assert_array_equal(slope, again[1][::3])


def test_range():
    payoff = payoff_of(f1, greater_is_better=True)
    assert payoff.range(3.0, 10.0) == pytest.approx(1.0)
    assert payoff_of(0 * tp + 2, greater_is_better=True).range(3.0, 10.0) == 0.0
    assert payoff_of(cost(fp=1, fn=10), greater_is_better=False).range(3.0, 10.0) == 37.0
