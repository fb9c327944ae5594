import ast
import copy
import dataclasses
import inspect
import itertools
import math
import pickle
import sys
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
)
from strategies import confusions, constraints, expressions, rules

import imbfit.expressions
import imbfit.metrics
from imbfit.confusion import Confusion
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Constraint, Expr, Number, as_expr, columns_of, describe
from imbfit.metrics import (
    accuracy,
    an,
    ap,
    as_metric,
    as_rules,
    balanced_accuracy,
    capacity,
    cost,
    each_segment,
    f1,
    f2,
    fbeta,
    fn,
    fnr,
    fp,
    fpr,
    gmean,
    in_segment,
    informedness,
    jaccard,
    kappa,
    lift,
    markedness,
    max_gap,
    mcc,
    n,
    npv,
    parse,
    pn,
    pp,
    precision,
    recall,
    score,
    scorer,
    specificity,
    sqrt,
    threshold,
    tn,
    tp,
)
from imbfit.named import NAMED, SYMBOLS
from imbfit.reading import direction, evaluate, margin, value

TRUE = [0, 1, 1, 0, 1, 0, 0, 1]
PRED = [0, 1, 0, 1, 1, 0, 0, 1]
half = float("0.5")  # on the left of a comparison
AMOUNT = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]


def _cells(tp, fp, fn, tn):
    return Confusion(tp, tp + fp, tp + fn, tp + fp + fn + tn)


# --------------------------------------------------------------------------------------------
# Values


def _labels(y, positive):
    """Return scikit-learn's argument for the other label."""
    return next(label for label in np.unique(y) if label != positive)


AGREE = {
    "accuracy": (accuracy, lambda y, p, w, _: sk.accuracy_score(y, p, sample_weight=w)),
    "balanced_accuracy": (
        balanced_accuracy,
        lambda y, p, w, _: sk.balanced_accuracy_score(y, p, sample_weight=w),
    ),
    "precision": (
        precision,
        lambda y, p, w, pos: sk.precision_score(y, p, sample_weight=w, pos_label=pos),
    ),
    "recall": (recall, lambda y, p, w, pos: sk.recall_score(y, p, sample_weight=w, pos_label=pos)),
    "specificity": (
        specificity,
        lambda y, p, w, pos: sk.recall_score(y, p, sample_weight=w, pos_label=_labels(y, pos)),
    ),
    "npv": (
        npv,
        lambda y, p, w, pos: sk.precision_score(y, p, sample_weight=w, pos_label=_labels(y, pos)),
    ),
    "fpr": (
        fpr,
        lambda y, p, w, pos: 1 - sk.recall_score(y, p, sample_weight=w, pos_label=_labels(y, pos)),
    ),
    "fnr": (fnr, lambda y, p, w, pos: 1 - sk.recall_score(y, p, sample_weight=w, pos_label=pos)),
    "f1": (f1, lambda y, p, w, pos: sk.f1_score(y, p, sample_weight=w, pos_label=pos)),
    "f2": (f2, lambda y, p, w, pos: sk.fbeta_score(y, p, beta=2, sample_weight=w, pos_label=pos)),
    "fbeta(0.5)": (
        fbeta(0.5),
        lambda y, p, w, pos: sk.fbeta_score(y, p, beta=0.5, sample_weight=w, pos_label=pos),
    ),
    "fbeta(0.1)": (
        fbeta(0.1),
        lambda y, p, w, pos: sk.fbeta_score(y, p, beta=0.1, sample_weight=w, pos_label=pos),
    ),
    "fbeta(17.3)": (
        fbeta(17.3),
        lambda y, p, w, pos: sk.fbeta_score(y, p, beta=17.3, sample_weight=w, pos_label=pos),
    ),
    "jaccard": (
        jaccard,
        lambda y, p, w, pos: sk.jaccard_score(y, p, sample_weight=w, pos_label=pos),
    ),
    "kappa": (kappa, lambda y, p, w, _: sk.cohen_kappa_score(y, p, sample_weight=w)),
    "mcc": (mcc, lambda y, p, w, _: sk.matthews_corrcoef(y, p, sample_weight=w)),
    "gmean": (
        gmean,
        lambda y, p, w, pos: math.sqrt(
            sk.recall_score(y, p, sample_weight=w, pos_label=pos)
            * sk.recall_score(y, p, sample_weight=w, pos_label=_labels(y, pos))
        ),
    ),
    "informedness": (
        informedness,
        lambda y, p, w, _: sk.balanced_accuracy_score(y, p, sample_weight=w, adjusted=True),
    ),
    "markedness": (
        markedness,
        lambda y, p, w, _: sk.balanced_accuracy_score(p, y, sample_weight=w, adjusted=True),
    ),
    "lift": (
        lift,
        lambda y, p, w, pos: (
            sk.precision_score(y, p, sample_weight=w, pos_label=pos)
            / np.average(np.asarray(y) == pos, weights=w)
        ),
    ),
    "cost": (
        cost(fp=3, fn=10, tp=-2, tn=0.5),
        lambda y, p, w, pos: (
            sk.confusion_matrix(y, p, labels=[_labels(y, pos), pos], sample_weight=w)
            * [[0.5, 3], [10, -2]]
        ).sum(),
    ),
}
CODINGS = {
    "0/1": ((0, 1), None),
    "-1/1": ((-1, 1), None),
    "no/yes": (("no", "yes"), None),
    "no/yes, pos no": (("yes", "no"), "no"),
    "1/2": ((1, 2), None),
    "0/1, pos 0": ((1, 0), 0),
    "False/True": ((False, True), None),
    "float": ((0.0, 1.0), None),
}


def _random_labels(seed, coding, rate=0.2):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(20, 200))
    truth = (rng.random(rows) < rate).astype(int)
    guess = np.where(rng.random(rows) < 0.7, truth, rng.random(rows) < 0.4).astype(int)
    # one row in each cell, so that no denominator of scikit-learn is zero
    truth[:4], guess[:4] = [0, 0, 1, 1], [0, 1, 0, 1]
    code = np.array(coding)
    return code[truth], code[guess], rng.gamma(0.5, size=rows) * 10.0 ** rng.integers(-6, 6)


def test_every_named_metric_is_compared():
    assert set(NAMED) <= set(AGREE)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("name", AGREE)
def test_agrees_with_scikit_learn(name, coding, weighted):
    ours, theirs = AGREE[name]
    labels, pos_label = CODINGS[coding]
    for seed in range(3):
        y, p, w = _random_labels(seed, labels, rate=(0.2, 0.02, 0.9)[seed])
        w = w if weighted else None
        expected = theirs(y, p, w, labels[1])
        came = ours(y, p, sample_weight=w, pos_label=pos_label)
        assert type(came) is float
        assert came == pytest.approx(expected, rel=1e-12, abs=1e-12)
        by_text = parse(str(ours))
        again = score(
            by_text,
            y,
            p,
            greater_is_better=ours.greater_is_better,
            sample_weight=w,
            pos_label=pos_label,
        )
        assert again == came


@pytest.mark.parametrize("name", AGREE)
def test_a_weight_counts_like_copies(name):
    metric = AGREE[name][0]
    y, p, _ = _random_labels(5, (0, 1))
    w = np.random.default_rng(0).integers(0, 4, len(y))
    w[:4] = 1
    assert metric(y, p, sample_weight=w) == pytest.approx(
        metric(np.repeat(y, w), np.repeat(p, w)), rel=1e-12
    )
    assert metric(y, p, sample_weight=w) == metric(y[w > 0], p[w > 0], sample_weight=w[w > 0])


def test_money_per_row():
    truth, pred, amount = (np.array(x) for x in (TRUE, PRED, AMOUNT))
    amounts = {"amount": AMOUNT}
    missed = amount[(truth == 1) & (pred == 0)].sum()
    assert fn["amount"](TRUE, PRED, amounts=amounts) == missed == 30
    loss = 5 * fp + fn["amount"]
    assert loss(TRUE, PRED, amounts=amounts) == 5 * 1 + missed
    caught = tp["amount"] / ap["amount"]
    assert caught(TRUE, PRED, amounts=amounts) == (20 + 50 + 80) / (20 + 30 + 50 + 80)
    w = np.arange(8)
    assert loss(TRUE, PRED, amounts=amounts, sample_weight=w) == 5 * w[3] + 2 * 30
    signs = {"a b": -amount}
    assert fn["a b"](TRUE, PRED, amounts=signs) == -missed
    for frame in (pd.DataFrame({"amount": AMOUNT, "t": "x"}), pl.DataFrame({"amount": AMOUNT})):
        assert loss(TRUE, PRED, amounts=frame) == 5 + missed


@pytest.mark.parametrize("count", [c for c in SYMBOLS if c != "threshold"])
def test_columns_take_any_count(count):
    truth, pred = np.array(TRUE, bool), np.array(PRED, bool)
    masks = {
        "tp": truth & pred, "fp": ~truth & pred, "fn": truth & ~pred, "tn": ~truth & ~pred,
        "pp": pred, "pn": ~pred, "ap": truth, "an": ~truth, "n": truth | True,
    }  # fmt: skip
    expected = np.array(AMOUNT)[masks[count]].sum()
    assert SYMBOLS[count]["m"](TRUE, PRED, amounts={"m": AMOUNT}) == expected
    assert SYMBOLS[count](TRUE, PRED) == masks[count].sum()


@settings(max_examples=150)
@example(sqrt(-(1 / tp)), [Confusion(0, 0, 0, 0)], False)
@given(expressions(money=False), st.lists(confusions(), min_size=1, max_size=5), st.booleans())
def test_arrays_and_numbers_give_the_same(expr, counts, greater):
    def read(confusion):
        try:
            return value(expr, confusion, greater_is_better=greater)
        except ValueError as error:
            return str(error)

    stacked = Confusion(
        *(np.array([getattr(c, k) for c in counts]) for k in ("tp", "pp", "ap", "n"))
    )
    singly, at_once = [read(c) for c in counts], read(stacked)
    if isinstance(at_once, str):
        assert any(isinstance(x, str) for x in singly)
    else:
        assert at_once.shape == (len(counts),)
        np.testing.assert_allclose(at_once, singly, rtol=1e-12)
        assert not np.isnan(at_once).any()


@settings(max_examples=100)
@given(confusions())
def test_named_metrics_stay_in_their_range(counts):
    signed = {"kappa", "mcc", "informedness", "markedness"}
    for name, metric in NAMED.items():
        came = float(value(metric, counts, greater_is_better=metric.greater_is_better))
        if name != "lift":
            assert -(name in signed) - 1e-12 <= came <= 1 + 1e-12
        if counts.fp == counts.fn == 0 and name != "lift":
            assert came == pytest.approx(1 if metric.greater_is_better else 0)


def test_evaluate_takes_exact_algebra():
    counts = Confusion(*map(Fraction, (3, 5, 4, 100)))
    assert evaluate(f1, counts) == Fraction(6, 9)
    assert evaluate(kappa, counts) == Fraction(2 * (300 - 20), 4 * 95 + 96 * 5)
    assert evaluate(0.5 * tp, counts, number=lambda c: Fraction(str(c))) == Fraction(3, 2)
    with pytest.raises(UnsupportedMetric, match="not computed exactly"):
        evaluate(as_expr(9) ** 999_999_999, counts)


def test_huge_counts_keep_their_digits():
    big = 10**15
    exact = Confusion(*map(Fraction, (big - 3, big - 1, big, big + 3)))
    counts = _cells(big - 3, 2, 3, 1)
    for metric in (f1, kappa, accuracy, precision, recall, jaccard, informedness):
        expected = float(evaluate(metric, exact))
        came = float(value(metric, counts, greater_is_better=True))
        assert came == pytest.approx(expected, rel=1e-12)
    numerator = (big - 3) * 1 - 2 * 3
    expected = numerator / math.sqrt(big * 3 * (big - 1) * 4)
    assert float(value(mcc, counts, greater_is_better=True)) == pytest.approx(expected, rel=1e-12)


# --------------------------------------------------------------------------------------------
# 0/0

# cells (tp, fp, fn, tn) -> what each metric is worth
NO_POSITIVES, ONLY_POSITIVES, NOTHING = (0, 0, 0, 5), (5, 0, 0, 0), (0, 0, 0, 0)
FALSE_ALARMS, HALF_FOUND = (0, 2, 0, 3), (3, 0, 2, 0)
NOBODY, EVERYBODY = (0, 0, 2, 3), (2, 3, 0, 0)
BEST = dict.fromkeys(NAMED, 1.0) | {"fpr": 0.0, "fnr": 0.0}
UNDEFINED = {
    NO_POSITIVES: BEST,
    ONLY_POSITIVES: BEST,
    NOTHING: BEST,
    FALSE_ALARMS: {
        "accuracy": 0.6, "balanced_accuracy": 0.6, "precision": 0, "recall": 0, "specificity": 0.6,
        "npv": 1, "fpr": 0.4, "fnr": 1, "f1": 0, "f2": 0, "jaccard": 0, "kappa": 0, "mcc": 0,
        "gmean": 0, "informedness": 0, "markedness": 0, "lift": 0,
    },
    HALF_FOUND: {
        "accuracy": 0.6, "balanced_accuracy": 0.6, "precision": 1, "recall": 0.6, "specificity": 0,
        "npv": 0, "fpr": 1, "fnr": 0.4, "f1": 0.75, "f2": 15 / 23, "jaccard": 0.6, "kappa": 0,
        "mcc": 0, "gmean": 0, "informedness": 0, "markedness": 0, "lift": 1,
    },
    NOBODY: {
        "accuracy": 0.6, "balanced_accuracy": 0.5, "precision": 0, "recall": 0, "specificity": 1,
        "npv": 0.6, "fpr": 0, "fnr": 1, "f1": 0, "f2": 0, "jaccard": 0, "kappa": 0, "mcc": 0,
        "gmean": 0, "informedness": 0, "markedness": 0, "lift": 0,
    },
    EVERYBODY: {
        "accuracy": 0.4, "balanced_accuracy": 0.5, "precision": 0.4, "recall": 1, "specificity": 0,
        "npv": 0, "fpr": 1, "fnr": 0, "f1": 4 / 7, "f2": 10 / 13, "jaccard": 0.4, "kappa": 0,
        "mcc": 0, "gmean": 0, "informedness": 0, "markedness": 0, "lift": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("cells", UNDEFINED)
@pytest.mark.parametrize("name", NAMED)
def test_zero_over_zero_of_named_metrics(name, cells):
    metric = NAMED[name]
    expected = UNDEFINED[cells][name]
    came = value(metric, _cells(*cells), greater_is_better=metric.greater_is_better)
    assert float(came) == pytest.approx(expected, abs=1e-15)
    if sum(cells):
        y = np.repeat([1, 0, 1, 0], cells)
        p = np.repeat([1, 1, 0, 0], cells)
        assert metric(y, p) == pytest.approx(expected, abs=1e-15)
        # a formula typed by hand is the same metric
        assert parse(str(metric)).name is None
        assert parse(str(metric))(y, p) == pytest.approx(expected, abs=1e-15)


USER = {
    "1 - precision, lower": (1 - precision, False, {NO_POSITIVES: 0, NOBODY: 1}),
    "1 - precision, greater": (1 - precision, True, {NO_POSITIVES: 1, NOBODY: 0}),
    "precision + recall": (precision + recall, True, {NO_POSITIVES: 2, NOBODY: 0}),
    "2 * precision": (2 * precision, True, {NO_POSITIVES: 2, NOBODY: 0}),
    "named twice": ((3 * precision).named("x"), True, {NO_POSITIVES: 3, NOBODY: 0}),
    "cost plus a ratio": (5 * fn + npv, False, {EVERYBODY: 1, ONLY_POSITIVES: 0}),
    "recall by value": (tp["m"] / ap["m"], True, {NO_POSITIVES: 1, FALSE_ALARMS: 0}),
    "fpr of other words": (1 - specificity, False, {ONLY_POSITIVES: 0, HALF_FOUND: 1}),
}


@pytest.mark.parametrize("case", USER)
def test_zero_over_zero_of_formulas(case):
    expr, greater, expected = USER[case]
    for cells, worth in expected.items():
        y, p = np.repeat([1, 0, 1, 0], cells), np.repeat([1, 1, 0, 0], cells)
        amounts = {"m": np.ones(len(y))}
        came = score(expr, y, p, greater_is_better=greater, amounts=amounts)
        assert came == pytest.approx(worth), cells
        with pytest.raises(ValueError, match="Pass greater_is_better"):
            expr(y, p, amounts=amounts)
        assert expr(y, p, amounts=amounts, greater_is_better=greater) == came


def test_one_over_zero_is_infinite():
    assert value(pp / tp, _cells(*FALSE_ALARMS), greater_is_better=False) == np.inf


@pytest.mark.parametrize(
    "expr",
    [
        sqrt(tp - 100),
        sqrt(-(1 / tp)),
        as_expr(-1) ** 0.5 * tp,
        (pp / tp) - (pp / tp),
        (tp - 9) ** 0.5,
    ],
)
def test_no_value_is_an_error_and_never_nan(expr):
    with pytest.raises(ValueError, match="has no value here"):
        value(expr, _cells(*FALSE_ALARMS), greater_is_better=True)
    with pytest.raises(ValueError, match="has no value here"):
        margin(expr >= 1, _cells(*FALSE_ALARMS))


def test_monstrous_powers_end_at_once():
    assert score(as_expr(9) ** 999_999_999, TRUE, PRED, greater_is_better=True) == np.inf
    with pytest.raises(ValueError, match="too large"):
        as_expr(10**400)


@pytest.mark.parametrize(
    ("constraint", "cells", "slack", "vacuous"),
    [
        (precision >= 0.5, NOBODY, 0, True),
        (precision <= 0.5, NOBODY, 0, True),
        (recall >= 0.5, FALSE_ALARMS, 0, True),
        (fpr <= 0.1, HALF_FOUND, 0, True),
        (npv >= 0.9, EVERYBODY, 0, True),
        (f1 >= 0.9, NO_POSITIVES, 0, True),
        (mcc >= 0.3, NOBODY, 0, True),
        (balanced_accuracy >= 0.9, FALSE_ALARMS, 0, True),
        (precision >= 0.9, NOTHING, 0, True),
        (tp >= recall, FALSE_ALARMS, 0, True),
        (precision >= 0.5, EVERYBODY, -0.1, False),
        (precision <= 0.5, EVERYBODY, 0.1, False),
        (f1 >= 0.9, NOBODY, -0.9, False),
        (pp <= 4, EVERYBODY, -1, False),
        (tp + fp <= 0.5 * n, EVERYBODY, -2.5, False),
        (half <= precision, EVERYBODY, -0.1, False),
        (recall >= precision, EVERYBODY, 0.6, False),
        (pp / tp <= 3, FALSE_ALARMS, -np.inf, False),
        (cost(fp=1, fn=10) <= 15, NOBODY, -5, False),
        (as_expr(1) >= 2, NOBODY, -1, False),
    ],
)
def test_margin(constraint, cells, slack, vacuous):
    came, empty = margin(constraint, _cells(*cells))
    assert float(came) == pytest.approx(slack)
    assert bool(empty) is vacuous


def test_margin_of_arrays():
    counts = Confusion(np.array([0, 2, 2]), np.array([0, 5, 2]), 2, 5)
    slack, vacuous = margin(precision >= 0.5, counts)
    np.testing.assert_allclose(slack, [0, -0.1, 0.5])
    assert vacuous.tolist() == [True, False, False]
    slack, vacuous = margin(ap <= 1, counts)
    assert (slack.tolist(), vacuous.tolist()) == ([-1] * 3, [False] * 3)
    with pytest.raises(UnsupportedMetric, match="threshold"):
        margin(threshold >= 0.3, counts)


def test_value_has_the_shape_of_the_counts():
    counts = Confusion(np.array([0, 2, 2]), np.array([0, 5, 2]), 2, 5)
    for expr in (ap, ap / n, Number(3), f1):
        assert value(expr, counts, greater_is_better=True).shape == (3,)
    assert value(f1, _cells(1, 1, 1, 1), greater_is_better=True).shape == ()


# --------------------------------------------------------------------------------------------
# Direction


def test_direction():
    lower = {"fpr", "fnr"}
    for name, metric in NAMED.items():
        assert direction(metric, None) is (name not in lower)
        assert direction(parse(name), None) is (name not in lower)
    assert direction(cost(fp=1, fn=2), None) is False
    assert direction(cost(fp=Fraction(1, 3), fn=2), None) is False
    assert direction(fbeta(7), None) is True
    assert direction(2 * tp / (2 * tp + fn + fp), None) is True
    assert direction((tp + tn) / n, True) is True
    assert direction(5 * fp, False) is False
    assert direction(1 * f1, False) is False
    assert direction((5 * fp).named("x", greater_is_better=False), None) is False
    assert direction(f1.named("x"), None) is True


@pytest.mark.parametrize(
    "expr", [5 * fp, tp, 1 * f1, f1 + f2, 1 - fpr, -cost(fp=1, fn=2), sqrt(f1)]
)
def test_direction_of_formulas_must_be_given(expr):
    with pytest.raises(ValueError, match="only named metrics and cost know their direction"):
        direction(expr, None)
    with pytest.raises(ValueError, match="Pass greater_is_better=True"):
        scorer(expr)


def test_direction_must_agree_and_be_a_bool():
    with pytest.raises(ValueError, match="f1 is better when greater, but greater_is_better=False"):
        direction(f1, False)
    with pytest.raises(ValueError, match=r"cost\(fp=1, fn=2\) is better when lower"):
        scorer(cost(fp=1, fn=2), greater_is_better=True)
    with pytest.raises(ValueError, match="fpr is better when lower"):
        score(fpr, TRUE, PRED, greater_is_better=True)
    for wrong in (1, "max", 0.0):
        with pytest.raises(TypeError, match="True, False or None"):
            direction(f1, wrong)
    assert direction(5 * fp, np.True_) is True


# --------------------------------------------------------------------------------------------
# Expressions as objects


def test_equal_by_structure():
    assert tp / (tp + fp) == tp / (tp + fp)
    assert tp / (tp + fp) != precision
    assert tp / pp == precision
    assert hash(tp / pp) == hash(precision)
    assert fbeta(1) == f1
    assert fbeta(2.0) == f2
    assert fn["amount"] != fn["Amount"]
    assert fn["amount"] != fp["amount"]
    assert tp + fp != fp + tp
    assert 2 * tp == 2.0 * tp
    assert f1.named("mine") == f1
    assert (f1 >= 0.5) == (f1.named("mine") >= 0.5)
    assert (half <= f1) == (f1 >= half)
    assert (f1 >= 0.5) != (f1 <= 0.5)
    assert each_segment(f1 >= 0.5) != (f1 >= 0.5)
    assert {f1: 1, f2: 2}[fbeta(1)] == 1
    assert f1 in [mcc, f1]
    assert f1 != "f1"


def test_named_metrics_differ():
    for one, other in itertools.combinations(NAMED.values(), 2):
        assert one != other


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        f1.name = "x"
    with pytest.raises(dataclasses.FrozenInstanceError):
        tp.count = "fp"
    with pytest.raises(dataclasses.FrozenInstanceError):
        (f1 >= 0.5).sense = "<="
    with pytest.raises(dataclasses.FrozenInstanceError):
        capacity(3).key = "date"


@settings(max_examples=100)
@given(st.one_of(expressions(), constraints(), rules()))
def test_pickle_copy_and_clone(thing):
    for again in (pickle.loads(pickle.dumps(thing)), copy.copy(thing), copy.deepcopy(thing)):
        assert again == thing
        assert hash(again) == hash(thing)
        assert repr(again) == repr(thing)
    assert clone(thing, safe=False) == thing
    assert clone([thing], safe=False) == [thing]


def test_pickle_keeps_name_and_direction():
    for metric in (*NAMED.values(), cost(fp=1, fn=2), (5 * fp).named("x", greater_is_better=False)):
        again = pickle.loads(pickle.dumps(metric))
        assert (again.name, again.spelling) == (metric.name, metric.spelling)
        assert again.greater_is_better is metric.greater_is_better


def test_repr_is_the_formula_and_the_name_is_for_reports():
    assert repr(f1) == str(f1) == "2 * tp / (2 * tp + fn + fp)"
    assert (f1.name, describe(f1)) == ("f1", "f1")
    assert describe(f1 + 2 * recall) == "f1 + 2 * recall"
    loss = (5 * fp + fn["amount"]).named("money lost", greater_is_better=False)
    assert repr(loss) == '5 * fp + fn["amount"]'
    assert (describe(loss), describe(2 * loss)) == ("money lost", "2 * (money lost)")
    assert (loss <= 3).label == "money lost <= 3"
    assert str(loss <= 3) == '5 * fp + fn["amount"] <= 3'
    assert each_segment(loss <= 3).label == "money lost <= 3 in each segment"
    assert in_segment("DE", f1 >= 0.5).label == 'f1 >= 0.5 in segment "DE"'
    assert (max_gap(loss) <= 3).label == "max_gap(money lost) <= 3"
    assert str(max_gap(recall) <= 0.05) == "max_gap(recall) <= 0.05"
    assert repr(max_gap(recall)) == "max_gap(recall)"
    assert repr(cost(fp=1, fn=2)) == "1 * fp + 2 * fn"
    for wrong in ("", None, 3):
        with pytest.raises(TypeError, match="the name is a text"):
            f1.named(wrong)


def test_odd_names_are_printed_on_one_line():
    for name in ("a\nb", "\0", "\u2028", "\ud800"):
        assert str(fn[name]).isprintable()
    assert str(fn["Größe"]) == 'fn["Größe"]'


def test_columns_of():
    assert columns_of(5 * fp + fn["a"] - tp["b"] / ap["a"]) == {"a", "b"}
    assert columns_of(fn["a"] <= fp["c"]) == {"a", "c"}
    assert columns_of(in_segment("DE", fn["a"] <= 3)) == {"a"}
    assert columns_of(max_gap(tp["a"]) <= 3) == {"a"}
    assert columns_of(f1) == set()


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (np.float64(0.9) * tp, "0.9 * tp"),
        (tp * np.float64(0.9), "tp * 0.9"),
        (np.int64(3) - tp, "3 - tp"),
        (np.float32(0.9) + tp, "0.9 + tp"),
        (tp / np.uint8(2), "tp / 2"),
        (np.float64(2) / tp, "2.0 / tp"),
        (tp ** np.float64(2), "tp ** 2.0"),
        (np.float64(0.9) <= tp, "tp >= 0.9"),
        (np.float64(0.9) >= tp, "tp <= 0.9"),
        (tp >= np.float32(0.9), "tp >= 0.9"),
        (np.float64(0.05) >= max_gap(recall), "max_gap(recall) <= 0.05"),
        (max_gap(recall) <= np.float64(0.05), "max_gap(recall) <= 0.05"),
        (Fraction(1, 3) * tp, "1 / 3 * tp"),
        (Fraction(4, 2) * tp, "2 * tp"),
        (-tp, "-1 * tp"),
        (+tp, "tp"),
        (-0.0 * tp, "0.0 * tp"),
        (sum([tp, fp]), "0 + tp + fp"),
        (cost(fp=np.int64(1), fn=np.float64(2.5)), "1 * fp + 2.5 * fn"),
        (capacity(np.int64(5), per=np.int64(7)), "capacity(5, per=7)"),
    ],
)
def test_numbers_of_any_kind(built, text):
    assert str(built) == text
    assert parse(text) == built


@pytest.mark.parametrize(
    "thing",
    [
        np.array([1.0, 2.0]), np.array([tp, fp]), pd.Series([1, 2], dtype=object),
        np.array(0.5), pd.Series([1.0, 2.0]), [1, 2], (1,), "1", None, True,
        np.True_, 1j, Decimal("0.5"), {}, precision >= 0.5, each_segment(precision >= 0.5),
    ],
    ids=repr,
)  # fmt: skip
def test_anything_but_a_number_is_refused(thing):
    for attempt in (
        lambda: thing * tp,
        lambda: tp * thing,
        lambda: thing + tp,
        lambda: tp - thing,
        lambda: thing / tp,
        lambda: tp**thing,
        lambda: tp >= thing,
        lambda: thing <= tp,
        lambda: thing >= tp,
    ):
        with pytest.raises(TypeError):
            attempt()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, np.float32("nan"), 10**400])
def test_numbers_must_be_finite(number):
    for attempt in (lambda: number * tp, lambda: tp >= number, lambda: capacity(number)):
        with pytest.raises(ValueError, match=r"finite|too large|at least 0"):
            attempt()


def test_no_truth_value():
    with pytest.raises(TypeError, match=r"\[precision >= 0.2, precision <= 0.9\]"):
        0.2 <= precision <= 0.9  # noqa: B015
    with pytest.raises(TypeError, match=r"give two constraints"):
        np.float64(0.2) <= precision <= np.float64(0.9)  # noqa: B015
    for thing, message in (
        (f1, "f1 has no truth value; .*f1 >= 0.5"),
        (tp, "tp has no truth value"),
        (5 * fp, r"5 \* fp has no truth value"),
        (threshold, "threshold has no truth value"),
        (f1 >= 0.5, "`f1 >= 0.5` has no truth value"),
        (each_segment(f1 >= 0.5), "has no truth value"),
        (max_gap(f1), r"write max_gap\(f1\) <= 0.05"),
    ):
        with pytest.raises(TypeError, match=message):
            bool(thing)
        with pytest.raises(TypeError, match=message):
            not thing  # noqa: B018
    with pytest.raises(TypeError, match=r"give a list, \[f1 >= 0.5, f2 >= 0.5\]"):
        (f1 >= 0.5) & (f2 >= 0.5)
    with pytest.raises(TypeError, match=r"write f1 >= 0.5"):
        f1 > 0.5  # noqa: B015
    with pytest.raises(TypeError, match=r"write f1 <= 0.5"):
        f1 < 0.5  # noqa: B015
    with pytest.raises(TypeError, match=r"write f1 >= 0.5"):
        half < f1  # noqa: B015


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: tp**fp,
        lambda: 2**tp,
        lambda: tp**True,
        lambda: tp ** Fraction(1, 2),
        lambda: tp ** "2",
    ],
)
def test_exponents_are_numbers(attempt):
    with pytest.raises(TypeError, match=r"exponent|can't be part"):
        attempt()


@pytest.mark.parametrize("column", [3, None, "", ("a",), slice(1), ["a"]])
def test_columns_are_named_by_text(column):
    with pytest.raises(TypeError, match='such as fn\\["amount"\\]'):
        fn[column]


def test_expressions_are_no_sequences():
    assert not isinstance(tp, Iterable)
    for attempt in (
        lambda: iter(tp),
        lambda: list(tp),
        lambda: list(f1),
        lambda: len(tp),
        lambda: "x" in tp,
    ):
        with pytest.raises(TypeError):
            attempt()
    assert np.array([tp, f1], dtype=object).shape == (2,)


def test_trees_have_a_limit():
    deep = sum(fn[f"c{i}"] for i in range(150))
    assert pickle.loads(pickle.dumps(deep)) == deep
    assert copy.deepcopy(deep) == deep
    assert parse(str(deep)) == deep
    with pytest.raises(ValueError, match="nests more than 150"):
        sum(fn[f"c{i}"] for i in range(151))


def test_fbeta_and_cost_check_their_numbers():
    for beta in (0, -1, np.nan, np.inf, True, "2", None, tp, [2]):
        with pytest.raises(ValueError, match="F-beta takes a positive number"):
            fbeta(beta)
    for beta in (1e-200, 1e200):
        with pytest.raises(ValueError, match=r"too (small|large)"):
            fbeta(beta)
    assert (fbeta(0.5).name, fbeta(np.float64(3)).name) == ("fbeta(0.5)", "fbeta(3)")
    assert str(fbeta(0.1)) == "1.01 * tp / (1.01 * tp + 0.01 * fn + fp)"
    for price in (tp, "1", None, True, [1]):
        with pytest.raises(TypeError, match="a price per case is a number"):
            cost(fp=price, fn=1)
    with pytest.raises(ValueError, match="finite"):
        cost(fp=np.inf, fn=1)
    with pytest.raises(TypeError):
        cost(1, 2)
    with pytest.raises(TypeError):
        cost(fp=1)
    third = cost(fp=Fraction(1, 3), fn=2)
    assert parse(str(third <= 5)) == (third <= 5)
    assert third.name == "cost(fp=1 / 3, fn=2)"


def test_cost_is_read_by_names():
    asymmetric = cost(fp=1, fn=10)
    assert asymmetric([1, 1, 0], [0, 1, 1]) == 11
    assert asymmetric([1, 0, 0], [0, 1, 1]) == 12
    assert asymmetric([1, 1, 0], [0, 0, 1]) == 21


# --------------------------------------------------------------------------------------------
# Constraints and scopes


def test_threshold_bounds():
    assert str(threshold >= half) == str(half <= threshold) == "threshold >= 0.5"
    assert str(each_segment(threshold <= 0.9)) == "threshold <= 0.9 in each segment"
    assert str(in_segment("DE", threshold <= 0.9)) == 'threshold <= 0.9 in segment "DE"'
    for attempt in (
        lambda: threshold >= tp,
        lambda: tp <= threshold,
        lambda: threshold >= threshold,  # noqa: PLR0124
        lambda: 2 * threshold >= 0.3,
        lambda: threshold + tp >= 0.3,
        lambda: max_gap(threshold),
    ):
        with pytest.raises(TypeError, match="threshold itself can"):
            attempt()
    for attempt in (
        lambda: score(threshold, TRUE, PRED),
        lambda: as_metric(threshold + 1),
        lambda: scorer(threshold, greater_is_better=True),
    ):
        with pytest.raises(UnsupportedMetric, match="can't be scored or optimised"):
            attempt()


def test_scopes_take_one_constraint():
    for wrong in (f1, True, 0.5, None, "f1 >= 0.5", [f1 >= 0.5], max_gap(f1), max_gap(f1) <= 0.5,
                  each_segment(f1 >= 0.5), capacity(3, per="date")):  # fmt: skip
        with pytest.raises(TypeError, match=r"each_segment\(.*give one constraint"):
            each_segment(wrong)
        with pytest.raises(TypeError, match=r"in_segment\('DE', .*give one constraint"):
            in_segment("DE", wrong)
    with pytest.raises(TypeError, match="the segment comes first"):
        in_segment(recall >= 0.8, "DE")
    with pytest.raises(TypeError, match="the segment is one value"):
        in_segment(["DE", "FR"], recall >= 0.8)
    assert each_segment(capacity(3, per=10)).bound == (pp <= 3)
    assert in_segment(np.str_("DE"), recall >= 0.8).key == "DE"
    assert type(in_segment((np.int64(3), "a"), recall >= 0.8).key[0]) is int


def test_gaps_have_an_upper_bound():
    for attempt in (
        lambda: max_gap(recall) >= 0.1,
        lambda: half <= max_gap(recall),
        lambda: max_gap(recall) > 0.1,
        lambda: recall <= max_gap(recall),
    ):
        with pytest.raises(TypeError, match="from above"):
            attempt()
    for bound in (-0.1, recall):
        with pytest.raises(ValueError, match="a number of at least 0"):
            max_gap(recall) <= bound  # noqa: B015
    for wrong in ("recall", None, recall >= 0.5, True):
        with pytest.raises(TypeError, match="can't be part of a metric"):
            max_gap(wrong)


@pytest.mark.parametrize("per", [0, -5, 1.5, True, "", ("a", "b"), np.nan])
def test_capacity_per_what(per):
    with pytest.raises(ValueError, match="per is a whole number of rows"):
        capacity(5, per=per)


@pytest.mark.parametrize("limit", [-1, -0.5, tp, np.nan, np.inf])
def test_capacity_of_what(limit):
    with pytest.raises(ValueError, match=r"at least 0|finite"):
        capacity(limit)


def test_as_rules():
    bound = precision >= 0.5
    assert as_rules(()) == []
    assert as_rules(bound) == as_rules([bound]) == as_rules("precision >= 0.5") == [bound]
    assert as_rules(iter([bound, "capacity(3)"])) == [bound, capacity(3)]
    assert as_rules(np.array(["precision >= 0.5"])) == [bound]
    for wrong, message in (
        ([bound, True], "constraint 1 is True, a bool"),
        ([precision == 0.5], "constraint 0 is False, a bool"),
        ([np.False_], "a bool"),
        (True, "a bool"),
        (f1, "constraint 0 is f1, an expression without a bound; write `f1 >= 0.5`"),
        ([tp + 1], r"constraint 0 is tp \+ 1, an expression"),
        (["f1"], "an expression without a bound"),
        (max_gap(f1), r"a gap without its bound; write `max_gap\(f1\) <= 0.05`"),
        (None, "constraint 0 is None, of type NoneType"),
        ([0.5], "of type float"),
        ({"f1 >= 0.5": 1}, "constraints is a dict"),
        ([[bound]], "of type list"),
    ):
        with pytest.raises(TypeError, match=message):
            as_rules(wrong)
    with pytest.raises(ValueError, match="did you mean precision"):
        as_rules(["precisio >= 0.5"])


# --------------------------------------------------------------------------------------------
# Scoring labels


def test_calling_has_the_signature_of_a_metric():
    parameters = list(inspect.signature(f1).parameters)
    assert parameters[:2] == ["y_true", "y_pred"]
    assert {"sample_weight", "pos_label", "amounts"} <= set(parameters)
    assert f1(y_true=TRUE, y_pred=PRED) == f1(TRUE, PRED) == score("f1", TRUE, PRED)


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((TRUE, PRED[:3]), {}, "y_pred has 3 rows, but there are 8"),
        (([0, 1, 2], [0, 1, 1]), {}, "3 kinds"),
        (([0, 1, np.nan], [0, 1, 1]), {}, r"missing labels in 1 row \(position 2\)"),
        (([], []), {}, "no rows"),
        ((TRUE, PRED), {"sample_weight": [1] * 7 + [-1]}, r"negative in 1 row \(position 7\)"),
        ((TRUE, PRED), {"sample_weight": [1, 2]}, "sample_weight has 2 rows"),
        ((TRUE, PRED), {"pos_label": "yes"}, "is not a label"),
    ],
)
def test_bad_labels(arguments, keywords, message):
    with pytest.raises(ValueError, match=message):
        f1(*arguments, **keywords)


def test_misaligned_index_is_refused():
    y = pd.Series(TRUE, index=list("abcdefgh"))
    p = pd.Series(PRED, index=list("abcdefgh"))
    assert f1(y, p) == f1(y, PRED) == f1(y, p.reset_index(drop=True)) == f1(TRUE, PRED)
    for keywords in ({}, {"sample_weight": p.iloc[::-1] + 1}):
        with pytest.raises(ValueError, match="in another order"):
            f1(y, p if keywords else p.iloc[::-1], **keywords)
    frame = pd.DataFrame({"amount": AMOUNT}, index=y.index)
    assert fn["amount"](y, PRED, amounts=frame) == 30
    with pytest.raises(ValueError, match="amounts has the index labels of y_true"):
        fn["amount"](y, PRED, amounts=frame.iloc[::-1])


def test_missing_columns_are_named():
    with pytest.raises(ValueError, match=r"reads the per-row column 'amount': pass amounts="):
        fn["amount"](TRUE, PRED)
    for amounts in ({"Amount": AMOUNT}, pd.DataFrame({"Amount": AMOUNT})):
        with pytest.raises(ValueError, match=r"among the amounts \['Amount'\]; did you mean"):
            fn["amount"](TRUE, PRED, amounts=amounts)
    with pytest.raises(ValueError, match="needs a per-row column 'amount'; amounts given: none"):
        evaluate(fn["amount"], _cells(1, 2, 3, 4))


def test_as_metric():
    assert as_metric("f1") is as_metric(f1) is f1
    for wrong in (None, True, [f1], f1 >= 0.5, "f1 >= 0.5", max_gap(f1), capacity(3), len):
        with pytest.raises(TypeError):
            as_metric(wrong)
    with pytest.raises(ValueError, match="did you mean f1"):
        as_metric("f1_")


# --------------------------------------------------------------------------------------------
# In scikit-learn


class Cut(ClassifierMixin, BaseEstimator):
    """Flags rows whose first column reaches `cut`; takes anything for `objective` and `rules`."""

    def __init__(self, cut=0.5, objective=f1, rules=(), bound=None):
        self.cut = cut
        self.objective = objective
        self.rules = rules
        self.bound = bound

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, 0] >= self.cut).astype(int)]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = (rng.random(120) < 0.3).astype(int)
    X = (0.3 * y + rng.random(120) * 0.7)[:, None]
    return X, y, pd.DataFrame({"amount": rng.gamma(1, 100, size=120)}), rng.gamma(1, size=120)


def _by_hand(metric, X, y, cut, cv, **rows):
    for _, test in cv.split(X):
        part = {
            name: thing.iloc[test] if hasattr(thing, "iloc") else thing[test]
            for name, thing in rows.items()
        }
        yield metric(y[test], (X[test, 0] >= cut).astype(int), **part)


@pytest.mark.parametrize("metric", [f1, cost(fp=1, fn=10), fpr, "mcc", "cost(fp=1, fn=3)"], ids=str)
def test_scorer_in_cross_validate_and_grid_search(metric, data):
    X, y, _, _ = data
    cv = KFold(3)
    expr = as_metric(metric)
    sign = 1 if expr.greater_is_better else -1
    expected = [sign * s for s in _by_hand(expr, X, y, 0.5, cv)]
    result = cross_validate(Cut(), X, y, scoring={"m": scorer(metric)}, cv=cv, error_score="raise")
    np.testing.assert_allclose(result["test_m"], expected)
    np.testing.assert_allclose(
        cross_val_score(Cut(), X, y, scoring=scorer(metric), cv=cv), expected
    )
    cuts = [0.1, 0.3, 0.5, 0.7, 0.9]
    search = GridSearchCV(Cut(), {"cut": cuts}, scoring=scorer(metric), cv=cv, error_score="raise")
    search.fit(X, y)
    means = [np.mean([sign * s for s in _by_hand(expr, X, y, cut, cv)]) for cut in cuts]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means)
    assert search.best_params_["cut"] == cuts[int(np.argmax(means))]


def test_scorer_with_string_labels(data):
    X, y, _, _ = data
    words = np.array(["bad", "good"])[y]
    for pos_label, positive in ((None, 1), ("good", 1), ("bad", 0)):
        came = scorer(recall, pos_label=pos_label)(Cut().fit(X, words), X, words)
        assert came == sk.recall_score(y, X[:, 0] >= 0.5, pos_label=positive)
    with pytest.raises(ValueError, match="is not a label"):
        scorer(recall, pos_label="ugly")(Cut().fit(X, words), X, words)


def test_scorer_prints_and_pickles(data):
    X, y, _, _ = data
    made = scorer((5 * fp).named("alarms", greater_is_better=False))
    assert "alarms" in repr(made)
    fitted = Cut().fit(X, y)
    again = pickle.loads(pickle.dumps(made))
    assert again(fitted, X, y) == made(fitted, X, y) == -5 * ((X[:, 0] >= 0.5) & (y == 0)).sum()
    assert made(fitted, X, y, sample_weight=np.full(len(y), 2)) == 2 * made(fitted, X, y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_amounts_and_weights_are_routed_and_sliced(library, data):
    X, y, frame, weight = data
    given_frame = frame if library == "pandas" else pl.DataFrame(frame.to_dict("list"))
    loss = (5 * fp + fn["amount"]).named("loss", greater_is_better=False)
    cv = KFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = scorer(loss).set_score_request(amounts=True, sample_weight=True)
        assert scorer(loss).get_metadata_routing() is not None
        params = {"amounts": given_frame, "sample_weight": weight}
        result = cross_validate(
            Cut(), X, y, scoring=scoring, cv=cv, params=params, error_score="raise"
        )
        expected = [-s for s in _by_hand(loss, X, y, 0.5, cv, amounts=frame, sample_weight=weight)]
        np.testing.assert_allclose(result["test_score"], expected)
        cuts = [0.3, 0.5, 0.7]
        search = GridSearchCV(Cut(), {"cut": cuts}, scoring=scoring, cv=cv, error_score="raise")
        search.fit(X, y, **params)
        means = [
            np.mean(
                [-s for s in _by_hand(loss, X, y, cut, cv, amounts=frame, sample_weight=weight)]
            )
            for cut in cuts
        ]
        np.testing.assert_allclose(search.cv_results_["mean_test_score"], means)


def test_a_dict_of_amounts_is_not_sliced_and_says_so(data):
    X, y, frame, _ = data
    loss = (5 * fp + fn["amount"]).named("loss", greater_is_better=False)
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = scorer(loss).set_score_request(amounts=True)
        search = GridSearchCV(Cut(), {"cut": [0.5]}, scoring=scoring, cv=3, error_score="raise")
        with pytest.raises(ValueError, match=r"amounts\['amount'\] has 120 rows, but there are 40"):
            search.fit(X, y, amounts=frame.to_dict("list"))
        # a whole set is fine, since nothing is sliced
        came = scoring(Cut().fit(X, y), X, y, amounts=frame.to_dict("list"))
        assert came == -loss(y, (X[:, 0] >= 0.5).astype(int), amounts=frame)


def test_amounts_without_routing_say_what_to_do(data):
    X, y, _, _ = data
    scoring = scorer((1 * fn["amount"]).named("loss", greater_is_better=False))
    with pytest.raises(ValueError, match=r"enable_metadata_routing=True.*set_score_request"):
        cross_val_score(Cut(), X, y, scoring=scoring, error_score="raise")


def test_a_metric_as_scoring_names_scorer(data):
    X, y, _, _ = data
    with pytest.raises(TypeError, match=r"write scorer\(f1\), from imbfit.metrics"):
        cross_val_score(Cut(), X, y, scoring=f1, error_score="raise")
    with pytest.raises(TypeError, match=r"write scorer\(f1\)"):
        GridSearchCV(Cut(), {"cut": [0.5]}, scoring=f1, error_score="raise").fit(X, y)
    with pytest.warns(UserWarning, match=r"write scorer\(f1\)"):
        cross_val_score(Cut(), X, y, scoring=f1)
    for estimator in (Cut(), LogisticRegression()):
        with pytest.raises(TypeError, match="scorer"):
            f1(estimator, y)


GRIDS = {
    "objective": [f1, f2, mcc],
    "counts": [tp, fn, fn["amount"], threshold],
    "rules": [[], [precision >= 0.5], [precision >= 0.5, capacity(3, per="date")]],
    "tuples": [(recall >= 0.2,), (recall >= 0.4,)],
    "bound": [None, precision >= 0.5, each_segment(recall >= 0.2), max_gap(recall) <= 0.1],
}


@pytest.mark.parametrize("kind", GRIDS)
def test_expressions_as_values_of_a_grid(kind, data):
    X, y, _, _ = data
    parameter = {"counts": "objective", "tuples": "rules"}.get(kind, kind)
    values = GRIDS[kind]
    grid = GridSearchCV(Cut(), {parameter: values, "cut": [0.4, 0.6]}, cv=2, scoring=scorer(f1))
    assert list(clone(grid).param_grid[parameter]) == values
    grid = pickle.loads(pickle.dumps(grid.fit(X, y)))
    tried = [params[parameter] for params in grid.cv_results_["params"]]
    for candidate in values:
        assert tried.count(candidate) == 2
    assert grid.best_params_[parameter] in values
    assert grid.best_estimator_.get_params()[parameter] in values
    chance = RandomizedSearchCV(Cut(), {parameter: values}, n_iter=2, cv=2, random_state=0)
    assert chance.fit(X, y).best_params_[parameter] in values


def test_estimators_with_expressions_clone_and_print():
    estimator = Cut(objective=mcc, rules=[precision >= 0.5], bound=each_segment(recall >= 0.2))
    again = clone(estimator)
    assert again.get_params() == estimator.get_params()
    shown = repr(estimator)
    assert "rules=[precision >= 0.5]" in shown
    assert "recall >= 0.2 in each segment" in shown
    assert len(repr(Cut(objective=f2))) < 100
    assert "recall" in estimator._repr_html_()
    assert estimator.set_params(objective=f2).objective is f2


def test_public_names():
    for name in imbfit.metrics.__all__:
        assert hasattr(imbfit.metrics, name)
    assert set(NAMED) | set(SYMBOLS) <= set(imbfit.metrics.__all__)
    assert isinstance(f1 >= 0.5, Constraint)
    assert all(isinstance(x, Expr) for x in (pn, an, lift, gmean, f1))


def test_the_nodes_import_the_standard_library_only():
    tree = ast.parse(Path(imbfit.expressions.__file__).read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in tree.body
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)
