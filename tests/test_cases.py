"""What people met in other libraries, one section for each kind, with the right value.

``Sc`` scores a row by its first column. Where a case names scores, the flagged rows are asserted:
a threshold alone says little, since any value between two neighbouring scores flags the same rows.
"""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline

from imbfit.exceptions import InfeasibleConstraints, SearchWarning
from imbfit.metrics import (
    ap,
    capacity,
    cost,
    each_segment,
    f1,
    fn,
    fp,
    in_segment,
    pp,
    precision,
    recall,
    scorer,
    specificity,
    tp,
)
from imbfit.pipeline import check_pipeline
from imbfit.threshold.classifier import OTLPThresholdClassifier
from imbfit.threshold.search import search_thresholds


class Sc(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.asarray(X, float)[:, 0]
        return np.column_stack([1 - p, p])


def flagged(found, scores, segments=None):
    """Positions of the rows that reach their threshold."""
    cuts = [
        found.thresholds[s] for s in (segments if segments is not None else [None] * len(scores))
    ]
    return np.flatnonzero(np.asarray(scores) >= np.array(cuts)).tolist()


def by_hand(y, scores, metric):
    """Return every distinct outcome of one threshold as (flagged rows, value)."""
    y, scores = np.asarray(y), np.asarray(scores)
    for cut in [*np.unique(scores), np.inf]:
        rows = scores >= cut
        yield np.flatnonzero(rows).tolist(), metric(y, rows.astype(int))


# --------------------------------------------------------------------------------------------
# B1: one split, drawn once


class Hashed(LogisticRegression):
    fits: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.rows_ = hash(np.ascontiguousarray(X).tobytes())
        Hashed.fits.append(self.rows_)
        return super().fit(X, y)


def test_b1_the_tuned_model_is_the_one_returned():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 3)), (rng.uniform(size=500) < 0.3).astype(int)
    seen = set()
    for _ in range(10):
        Hashed.fits.clear()
        model = OTLPThresholdClassifier(Hashed(), cv=0.2, refit=False, random_state=None)
        model.fit(X, y)
        assert Hashed.fits == [model.estimator_.rows_]
        assert model.n_left_out_ == 400
        seen.add(model.estimator_.rows_)
    assert len(seen) > 1  # the split is random, and still only one


# --------------------------------------------------------------------------------------------
# B2: exact over all scores; the spread over folds


def test_b2_rare_scores_are_cut_exactly_where_a_grid_can_not():
    rng = np.random.default_rng(0)
    negative = rng.uniform(0, 1e-3, size=20_000)
    positive = np.r_[rng.uniform(2e-3, 3e-3, size=19), 0.9]
    scores = np.r_[negative, positive]
    y = np.r_[np.zeros(20_000), np.ones(20)].astype(int)
    found = search_thresholds(y, scores)
    assert found.objective_value == 1.0
    assert flagged(found, scores) == list(range(20_000, 20_020))
    assert negative.max() < found.threshold < positive.min()
    grid = search_thresholds(y, scores, thresholds=100)
    assert grid.objective_value == pytest.approx(2 / 21)
    model = OTLPThresholdClassifier(Sc(), cv=StratifiedKFold(4)).fit(scores[:, None], y)
    assert model.objective_value_ == 1.0
    assert model.fold_thresholds_.shape == (4,)
    assert np.ptp(model.fold_thresholds_) < 1e-3
    assert model.fold_thresholds_.std() > 0


# --------------------------------------------------------------------------------------------
# B3: the best precision with a recall, and what happens where there is none


@pytest.mark.parametrize("floor", [0.2, 0.5, 0.9, 1.0])
def test_b3_best_precision_under_a_recall_floor(floor):
    rng = np.random.default_rng(1)
    y, scores = (rng.uniform(size=500) < 0.1).astype(int), rng.uniform(size=500)
    found = search_thresholds(y, scores, objective=precision, constraints=recall >= floor)
    possible = [
        precision(y, np.isin(np.arange(500), rows).astype(int))
        for rows, reached in by_hand(y, scores, recall)
        if reached >= floor
    ]
    assert found.objective_value == pytest.approx(max(possible), abs=1e-12)
    assert found.counts.tp / found.counts.ap >= floor


def test_b3_infeasible_says_what_conflicts_and_what_could_be_reached():
    rng = np.random.default_rng(0)
    y, scores = (rng.uniform(size=500) < 0.1).astype(int), rng.uniform(size=500)
    rules = [precision >= 0.99, recall >= 0.5, specificity >= 0.01]
    with pytest.raises(InfeasibleConstraints) as raised:
        search_thresholds(y, scores, objective=recall, constraints=rules)
    error = raised.value
    assert set(error.conflict) == {"precision >= 0.99", "recall >= 0.5"}
    outcomes = [
        (np.isin(np.arange(500), rows).astype(int), r) for rows, r in by_hand(y, scores, recall)
    ]
    best_precision = max(precision(y, rows) for rows, reached in outcomes if reached >= 0.5)
    best_recall = max(r for rows, r in outcomes if precision(y, rows) >= 0.99 or not rows.any())
    assert error.best_values["precision >= 0.99"] == pytest.approx(best_precision)
    assert error.best_values["recall >= 0.5"] == pytest.approx(best_recall)
    for name in error.conflict:
        assert name in str(error)
    with pytest.warns(SearchWarning):
        found = search_thresholds(
            y, scores, objective=recall, constraints=rules, infeasible="least_violation"
        )
    assert found.status == "least_violation"
    assert not all(line["met"] for line in found.constraint_report)


# --------------------------------------------------------------------------------------------
# B5: exact least cost; prices by name


def test_b5_least_cost():
    y, scores = [0, 1, 1, 1, 0, 0, 0], [0.6, 0.7, 0.4, 0.3, 0.2, 0.15, 0.1]
    price = cost(fp=10, fn=20)
    costs = {0.1: 40, 0.15: 30, 0.2: 20, 0.3: 10, 0.4: 30, 0.6: 50, 0.7: 40, np.inf: 60}
    for (rows, reached), cut in zip(by_hand(y, scores, price), sorted(costs), strict=True):
        assert reached == costs[cut], rows
    found = search_thresholds(y, scores, objective=price)
    assert found.objective_value == 10
    assert flagged(found, scores) == [0, 1, 2, 3]
    table = found.table()
    assert table["cost(fp=10, fn=20)"].tolist()[0] == 60


def test_b5_orientation_is_by_name_and_asymmetric():
    # Calibrated scores: flag where p * 10 > (1 - p) * 1, so above 1/11, and above 10/11 the other
    # way round.
    p = np.repeat(np.arange(1, 20) / 20, 20)
    y = np.concatenate([np.arange(20) < 20 * q for q in np.arange(1, 20) / 20]).astype(int)
    cheap_alarm = search_thresholds(y, p, objective=cost(fp=1, fn=10))
    assert 1 / 20 < cheap_alarm.threshold < 2 / 20
    dear_alarm = search_thresholds(y, p, objective=cost(fp=10, fn=1))
    assert 18 / 20 < dear_alarm.threshold < 19 / 20
    with pytest.raises(TypeError):
        cost(1, 10)
    matrix = search_thresholds(y, p, objective=cost(fp=1, fn=10, tp=-3, tn=0.5))
    expected = min(v for _, v in by_hand(y, p, cost(fp=1, fn=10, tp=-3, tn=0.5)))
    assert matrix.objective_value == pytest.approx(expected)


# --------------------------------------------------------------------------------------------
# B6: a capacity is hard, and a block of ties can't be split


@pytest.mark.parametrize("rule", [pp <= 3, capacity(3), capacity(150, per=1000), "pp <= 3"])
def test_b6_capacity_with_ties_flags_fewer(rule):
    scores = np.r_[0.9, np.full(6, 0.8), np.full(13, 0.1)]
    y = np.r_[1, [1, 0, 1, 0, 1, 0], np.zeros(13)].astype(int)
    found = search_thresholds(y, scores, objective=tp, greater_is_better=True, constraints=rule)
    assert flagged(found, scores) == [0]
    (line,) = found.constraint_report
    assert line["met"]
    assert line["slack"] == pytest.approx(100 if "1000" in str(rule) else 2)


def test_b6_capacity_through_the_estimator():
    scores = np.r_[0.9, np.full(6, 0.8), np.full(13, 0.1)]
    y = np.r_[1, [1, 0, 1, 0, 1, 0], np.zeros(13)].astype(int)
    model = OTLPThresholdClassifier(
        FrozenEstimator(Sc().fit(scores[:, None], y)), objective="recall", constraints=capacity(3)
    ).fit(scores[:, None], y)
    assert model.predict(scores[:, None]).nonzero()[0].tolist() == [0]


def test_b6_never_more_than_the_capacity_on_random_ties():
    rng = np.random.default_rng(6)
    for _ in range(200):
        scores, y = rng.integers(0, 8, size=30) / 8, rng.permutation(np.arange(30) % 3 == 0)
        limit = int(rng.integers(0, 31))
        found = search_thresholds(y, scores, objective="recall", constraints=capacity(limit))
        sizes = [len(rows) for rows, _ in by_hand(y, scores, recall) if len(rows) <= limit]
        best = max(v for rows, v in by_hand(y.astype(int), scores, recall) if len(rows) <= limit)
        assert len(flagged(found, scores)) in sizes
        assert found.objective_value == pytest.approx(best)


# --------------------------------------------------------------------------------------------
# B7: the candidates nobody and everybody


@pytest.mark.parametrize("thresholds", ["all", 3, [0.15, 0.35]])
def test_b7_nobody_and_everybody_are_always_candidates(thresholds):
    scores, y = [0.1, 0.2, 0.3, 0.4], [1, 1, 0, 0]
    nobody = search_thresholds(y, scores, objective=cost(fp=10, fn=1), thresholds=thresholds)
    assert (nobody.threshold, nobody.objective_value) == (np.inf, 2)
    assert flagged(nobody, scores) == []
    everybody = search_thresholds(y, scores, objective=cost(fp=1, fn=10), thresholds=thresholds)
    assert everybody.objective_value == 2
    assert flagged(everybody, scores) == [0, 1, 2, 3]
    # three thresholds between lowest and highest score have the lowest score among them, which
    # flags everybody too
    assert everybody.threshold == (0.1 if thresholds == 3 else -np.inf)
    if thresholds == 3:
        return
    # higher and lower scores than any seen are still in or out
    X = np.array(scores)[:, None]
    for price, label in ((cost(fp=10, fn=1), 0), (cost(fp=1, fn=10), 1)):
        model = OTLPThresholdClassifier(
            FrozenEstimator(Sc().fit(X, y)), objective=price, thresholds=thresholds
        ).fit(X, y)
        assert model.predict([[-5.0], [5.0]]).tolist() == [label, label]


def test_b7_thresholds_survive_json():
    found = search_thresholds([1, 1, 0, 0], [0.1, 0.2, 0.3, 0.4], objective=cost(fp=10, fn=1))
    assert float(json.loads(json.dumps(str(found.threshold)))) == found.threshold
    assert isinstance(found.threshold, float)


# --------------------------------------------------------------------------------------------
# B9: constant scores, and scores that only look constant


def test_b9_constant_scores_are_all_or_nothing():
    X, y = np.full((10, 1), 0.3), np.r_[np.ones(3), np.zeros(7)].astype(int)
    for objective, rows in (("recall", 10), ("specificity", 0), (cost(fp=1, fn=9), 10)):
        model = OTLPThresholdClassifier(Sc(), objective=objective, cv=3).fit(X, y)
        assert model.predict(X).sum() == rows
    with pytest.raises(InfeasibleConstraints):
        search_thresholds(y, X[:, 0], objective="recall", constraints=[recall >= 0.5, pp <= 5])


def test_b9_tiny_differences_are_differences():
    rng = np.random.default_rng(0)
    scores = np.r_[rng.uniform(0, 1e-9, size=10), rng.uniform(2e-9, 3e-9, size=5)]
    y = np.r_[np.zeros(10), np.ones(5)].astype(int)
    found = search_thresholds(y, scores)
    assert found.objective_value == 1
    assert flagged(found, scores) == [10, 11, 12, 13, 14]
    X = scores[:, None]
    model = OTLPThresholdClassifier(Sc(), cv=3).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    # also where they differ in the last bit
    close = np.array([0.5, np.nextafter(0.5, 1)])
    assert flagged(search_thresholds([0, 1], close), close) == [1]


# --------------------------------------------------------------------------------------------
# B10: NaN scores and missing groups


def test_b10_nan_scores():
    scores, y = [0.1, 0.2, np.nan, 0.8, 0.9], [0, 0, 1, 1, 1]
    with pytest.raises(ValueError, match=r"y_score is NaN in 1 row \(position 2\)"):
        search_thresholds(y, scores)
    found = search_thresholds(y, scores, nan_policy="negative")
    assert flagged(found, scores) == [3, 4]
    assert found.objective_value == pytest.approx(2 * 2 / (2 * 2 + 1))
    everybody = search_thresholds(
        y, scores, objective=tp - fp / 9, greater_is_better=True, nan_policy="negative"
    )
    assert flagged(everybody, scores) == [3, 4]
    with pytest.raises(ValueError, match="infinite in 1 row"):
        search_thresholds(y, [0.1, 0.2, np.inf, 0.8, 0.9], nan_policy="negative")
    X = np.array(scores)[:, None]
    frozen = FrozenEstimator(Sc().fit(X, y))
    with pytest.raises(ValueError, match=r"1 row \(position 2\)"):
        OTLPThresholdClassifier(frozen).fit(X, y)
    model = OTLPThresholdClassifier(frozen, nan_policy="negative").fit(X, y)
    assert model.predict(X).tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_b10_missing_groups(missing):
    scores, y = np.linspace(0.1, 0.9, 8), np.tile([0, 1], 4)
    groups = np.array(["a", "a", "b", missing, "b", "a", missing, "b"], dtype=object)
    with pytest.raises(ValueError, match=r"segments is missing in 2 rows \(position 3, 6\)"):
        search_thresholds(y, scores, segments=groups)
    X = pd.DataFrame({"p": scores, "group": groups})
    model = OTLPThresholdClassifier(Sc(), segments="group", cv=2)
    with pytest.raises(ValueError, match=r"segments is missing in 2 rows \(position 3, 6\)"):
        model.fit(X, y)
    own = X.fillna({"group": "unknown"})
    assert "unknown" in model.fit(own, y).thresholds_


# --------------------------------------------------------------------------------------------
# B12: one class only, in all rows or in a segment


def test_b12_one_class_in_all_rows_is_a_clear_error():
    scores = np.linspace(0, 1, 20)
    with pytest.raises(ValueError, match="all 20 rows are negative"):
        search_thresholds(np.zeros(20, int), scores)
    with pytest.raises(ValueError, match="y has one class"):
        OTLPThresholdClassifier(Sc()).fit(scores[:, None], np.zeros(20, int))


def test_b12_a_segment_without_positives_stops_no_other():
    scores = [0.9, 0.6, 0.4, 0.1, 0.8, 0.5, 0.3]
    y = [1, 1, 0, 0, 0, 0, 0]
    segments = list("aaaabbb")
    rules = [each_segment(recall >= 0.9), each_segment(precision >= 0.5)]
    found = search_thresholds(y, scores, segments=segments, constraints=rules)
    assert flagged(found, scores, segments) == [0, 1]
    assert found.thresholds["b"] == np.inf
    report = {(line["constraint"], line["segment"]): line for line in found.constraint_report}
    # recall of no positives, and precision of nobody, are 0/0: met, and said to be vacuous
    for rule in ("recall >= 0.9 in each segment", "precision >= 0.5 in each segment"):
        assert report[rule, "b"]["vacuous"]
        assert report[rule, "b"]["met"]
        assert report[rule, "b"]["value"] is None
        assert not report[rule, "a"]["vacuous"]


def test_b12_no_positives_in_a_segment_of_the_estimator():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"p": rng.uniform(size=60), "part": ["a", "b", "b"] * 20})
    y = ((X["p"] > 0.5) & (X["part"] == "a")).astype(int)
    model = OTLPThresholdClassifier(
        Sc(), segments="part", constraints=each_segment(recall >= 0.9), cv=3
    ).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


# --------------------------------------------------------------------------------------------
# B13: the positive label


@pytest.mark.parametrize("labels", [("no", "yes"), (1, 2), (-1, 1), (False, True)], ids=str)
@pytest.mark.parametrize("positive", [0, 1])
def test_b13_either_label_can_be_the_positive_one(labels, positive):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(200, 1))
    truth = (x[:, 0] + rng.normal(scale=0.2, size=200) > 0.8).astype(int)
    y = np.array(labels)[truth]
    model = OTLPThresholdClassifier(Sc(), pos_label=labels[positive], cv=3).fit(x, y)
    # the probability of the positive label, whichever column holds it
    score = x[:, 0] if positive else 1 - x[:, 0]
    expected = search_thresholds(truth == positive, score)
    assert model.objective_value_ == pytest.approx(expected.objective_value)
    predicted = model.predict(x)
    assert predicted.dtype == y.dtype
    np.testing.assert_array_equal(predicted == labels[positive], score >= expected.threshold)
    by_scorer = scorer(f1, pos_label=labels[positive])(model, x, y)
    assert by_scorer == pytest.approx(f1(y, predicted, pos_label=labels[positive]))


def test_b13_the_minority_is_not_guessed_to_be_positive():
    x = np.linspace(0, 1, 100)[:, None]
    y = np.where(x[:, 0] > 0.1, "b", "a")
    model = OTLPThresholdClassifier(Sc(), cv=3).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), y)
    assert model.search_.counts.ap == 90


# --------------------------------------------------------------------------------------------
# B14: a fitted model stays as it is


class Counted(LogisticRegression):
    fits = 0

    def fit(self, X, y):
        Counted.fits += 1
        return super().fit(X, y)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: OTLPThresholdClassifier(FrozenEstimator(model)),
        lambda model: OTLPThresholdClassifier(FrozenEstimator(model), cv=3, refit=True),
        lambda model: OTLPThresholdClassifier(FrozenEstimator(model), cv=0.2, refit=False),
        lambda model: OTLPThresholdClassifier(model, cv="prefit"),
        lambda model: OTLPThresholdClassifier(model, cv="prefit", refit=True),
    ],
)
def test_b14_no_refit(wrap):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), (rng.uniform(size=200) < 0.4).astype(int)
    inner = Counted().fit(X[:100], y[:100])
    before, Counted.fits = inner.coef_.tobytes(), 0
    model = wrap(inner).fit(X[100:], y[100:])
    assert Counted.fits == 0
    assert model.estimator_.coef_.tobytes() == before
    # fit's rows are validation data, all of them
    assert model.search_.counts.n == 100
    np.testing.assert_array_equal(model.predict_proba(X), inner.predict_proba(X))


# --------------------------------------------------------------------------------------------
# B16: X is not looked at


def test_b16_any_kind_of_rows():
    y = np.tile([0, 0, 1], 30)
    texts = ["win money" if label else "good morning" for label in y]
    text_model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    numbers = np.column_stack([y + np.linspace(0, 1, 90), np.ones(90)])
    holes = np.where(np.arange(180).reshape(90, 2) % 7 == 0, np.nan, numbers)
    trees = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5)
    for inner, X in (
        (text_model, texts),
        (text_model, np.array(texts, dtype=object)),
        (text_model, pd.Series(texts)),
        (LogisticRegression(), sparse.csr_matrix(numbers)),
        (LogisticRegression(), numbers.tolist()),
        (trees, holes),
        (trees, pd.DataFrame(holes, columns=["a", "b"]).astype({"b": "Float64"})),
    ):
        model = OTLPThresholdClassifier(inner, cv=3).fit(X, y)
        assert model.predict(X).shape == (90,)
        assert model.score(X, y) > 0.6


# --------------------------------------------------------------------------------------------
# B17: per-row amounts


@pytest.mark.parametrize("routing", [False, True])
def test_b17_amounts_with_and_without_routing(routing):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=300)
    y = (rng.uniform(size=300) < p / 2).astype(int)
    amounts = pd.DataFrame({"amount": rng.uniform(1, 100, size=300)})
    loss = (5 * fp + fn["amount"]).named("loss", greater_is_better=False)
    X = p[:, None]
    with sklearn.config_context(enable_metadata_routing=routing):
        model = OTLPThresholdClassifier(Sc(), objective=loss, cv=3).fit(X, y, amounts=amounts)
        expected = min(
            5 * sum(1 - y[rows]) + amounts["amount"].sum() * 0
            + amounts["amount"][np.setdiff1d(np.flatnonzero(y), rows)].sum()
            for rows, _ in by_hand(y, p, recall)
        )  # fmt: skip
        assert model.objective_value_ == pytest.approx(expected)
        loss_scorer = scorer(loss)
        if routing:
            loss_scorer.set_score_request(amounts=True)
            scoring = {"loss": loss_scorer}
        else:
            scoring = "f1"
        search = GridSearchCV(
            OTLPThresholdClassifier(Sc(), objective=loss, cv=2),
            {"cv": [2, 3]},
            scoring=loss_scorer if routing else scoring,
            cv=3,
            error_score="raise",
        ).fit(X, y, amounts=amounts)
        assert search.best_estimator_.thresholds_ == model.thresholds_
        scores = cross_validate(
            model, X, y, params={"amounts": amounts}, scoring=scoring, error_score="raise"
        )
        assert len(scores["fit_time"]) == 5
        # predict needs no amounts
        assert model.predict(X).shape == (300,)


# --------------------------------------------------------------------------------------------
# B18: weights in every count


def test_b18_a_row_of_weight_zero_does_not_exist():
    scores, y, weight = [0, 1, 0, 1, 2], [0, 0, 1, 1, 1], [1, 1, 1, 2, 0]
    found = search_thresholds(y, scores, sample_weight=weight)
    finite = found.table()["threshold"]
    assert finite[np.isfinite(finite)].tolist() == [0.5]
    assert found.counts.n == 5
    assert found.counts.ap == 3
    doubled = search_thresholds([0, 0, 1, 1, 1], [0, 1, 0, 1, 1])
    assert found.thresholds == doubled.thresholds
    assert found.objective_value == doubled.objective_value
    assert flagged(found, scores[:4]) == flagged(doubled, scores[:4])


def test_b18_weights_count_like_copies_under_constraints_and_segments():
    rng = np.random.default_rng(18)
    for _ in range(50):
        scores, y = rng.integers(0, 12, size=24) / 12, rng.permutation(np.arange(24) % 2)
        segments, weight = rng.integers(0, 2, size=24), rng.integers(0, 4, size=24)
        copies = np.repeat(np.arange(24), weight)
        if len(np.unique(y[copies])) < 2:
            continue
        rules = {"objective": "f1", "constraints": [pp <= 20, recall >= 0.1]}
        try:
            weighted = search_thresholds(
                y, scores, segments=segments, sample_weight=weight, **rules
            )
        except InfeasibleConstraints:
            with pytest.raises(InfeasibleConstraints):
                search_thresholds(y[copies], scores[copies], segments=segments[copies], **rules)
            continue
        copied = search_thresholds(y[copies], scores[copies], segments=segments[copies], **rules)
        assert weighted.objective_value == pytest.approx(copied.objective_value, abs=1e-12)
        assert weighted.counts.n == len(copies)


def test_b18_negative_weights_are_rejected():
    with pytest.raises(ValueError, match=r"sample_weight is negative in 1 row \(position 1\)"):
        search_thresholds([0, 1, 1], [0.1, 0.2, 0.3], sample_weight=[1, -1, 1])
    with pytest.raises(ValueError, match=r"sample_weight is negative in 1 row \(position 1\)"):
        OTLPThresholdClassifier(Sc()).fit(
            [[0.1], [0.2], [0.3]], [0, 1, 1], sample_weight=[1, -1, 1]
        )


# --------------------------------------------------------------------------------------------
# B20: samplers before and inside


def test_b20_tuned_at_the_natural_prevalence_with_the_sampler_inside():
    pytest.importorskip("imblearn")
    from imblearn.pipeline import make_pipeline as make_sampled
    from imblearn.under_sampling import RandomUnderSampler

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = (rng.uniform(size=20_000) < 1 / (1 + np.exp(5.2 - 1.5 * X[:, 0]))).astype(int)
    sampler = RandomUnderSampler(random_state=0)
    inside = OTLPThresholdClassifier(make_sampled(sampler, LogisticRegression()), cv=3)
    outside = make_sampled(sampler, OTLPThresholdClassifier(LogisticRegression(), cv=3))
    good, bad = inside.fit(X, y).predict(X), outside.fit(X, y).predict(X)
    # at the resampled prevalence precision looks good, and many times too many are flagged
    assert inside.search_.counts.n == 20_000
    assert good.sum() < 2.5 * y.sum()
    assert bad.sum() > 3 * good.sum()
    assert f1(y, good) > f1(y, bad)
    with pytest.warns(UserWarning, match="comes before"):
        check_pipeline(outside)
    assert check_pipeline(inside) is inside
    with pytest.raises(ValueError, match=r"FrozenEstimator\(pipeline\)"):
        inside.fit(X, y, sample_weight=np.ones(20_000))


# --------------------------------------------------------------------------------------------
# B25: it is a classifier


def test_b25_is_a_classifier():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 2)), np.tile([0, 1], 40)
    model = OTLPThresholdClassifier(LogisticRegression(), cv=2)
    assert is_classifier(model)
    assert sklearn.utils.get_tags(model).input_tags.sparse
    shown = partial_dependence(model.fit(X, y), X, [0], grid_resolution=3)
    assert shown["average"].shape == (1, 3)


# --------------------------------------------------------------------------------------------
# B26: groups that are new at predict


def test_b26_new_groups():
    X = pd.DataFrame({"p": np.linspace(0.01, 0.99, 40), "group": ["x", "y"] * 20})
    y = (X["p"] > 0.6).astype(int)
    new = pd.DataFrame({"p": [0.99, 0.99, 0.01], "group": ["zzz", "x", "zzz"]})
    model = OTLPThresholdClassifier(Sc(), segments="group", cv=2).fit(X, y)
    with pytest.raises(ValueError, match=r"segment 'zzz', met in 2 rows \(position 0, 2\)"):
        model.predict(new)
    for policy, expected in (("negative", [0, 1, 0]), (0.5, [1, 1, 0]), (-np.inf, [1, 1, 1])):
        model.set_params(unknown_segment=policy).fit(X, y)
        assert model.predict(new).tolist() == expected


def test_b26_groups_of_two_columns_are_tuples():
    pairs = [("a,b", "c"), ("a", "b,c")]
    X = pd.DataFrame({"p": np.linspace(0.01, 0.99, 40)})
    X[["left", "right"]] = [pairs[i % 2] for i in range(40)]
    y = np.where(np.arange(40) % 2, X["p"] > 0.3, X["p"] > 0.7).astype(int)
    model = OTLPThresholdClassifier(
        FrozenEstimator(Sc().fit(X[["p"]], y)), segments=["left", "right"]
    ).fit(X, y)
    assert set(model.thresholds_) == set(pairs)
    np.testing.assert_array_equal(model.predict(X), y)
    swapped = X.assign(left=X["right"], right=X["left"])
    with pytest.raises(ValueError, match="no threshold was chosen for segment"):
        model.predict(swapped)


# --------------------------------------------------------------------------------------------
# B32: large numbers


@pytest.mark.parametrize("size", [1.0, 1e6, 1e12, 1e15, 1e-9])
def test_b32_amounts_of_any_size(size):
    rng = np.random.default_rng(32)
    for trial in range(5):
        scores, y = np.round(rng.uniform(size=16), 1), rng.permutation(np.arange(16) % 2)
        segments = np.arange(16) % 2
        amount = rng.uniform(0.5, 1.5, size=16) * size
        loss = (size / 2 * fp + fn["amount"]).named("loss", greater_is_better=False)
        rules = [pp <= 9, in_segment(0, recall >= 0.2), tp["amount"] / ap["amount"] >= 0.1]
        found = search_thresholds(
            y, scores, objective=loss, constraints=rules, segments=segments,
            amounts={"amount": amount},
        )  # fmt: skip
        values = []
        for cuts in itertools.product([*np.unique(scores), np.inf], repeat=2):
            rows = scores >= np.array(cuts)[segments]
            hit = rows & (y == 1)
            if (
                rows.sum() <= 9
                and hit[segments == 0].sum() >= 0.2 * y[segments == 0].sum()
                and amount[hit].sum() >= 0.1 * amount[y == 1].sum()
            ):
                values.append(size / 2 * (rows & (y == 0)).sum() + amount[~rows & (y == 1)].sum())
        assert found.objective_value == pytest.approx(min(values), rel=1e-9), trial
        again = flagged(found, scores, segments)
        assert len(again) <= 9
        assert found.counts.pp == len(again)


def test_b32_an_infeasible_model_is_said_to_be_so():
    y, scores = np.tile([0, 1], 20), np.linspace(0, 1, 40)
    with pytest.raises(InfeasibleConstraints) as raised:
        search_thresholds(
            y, scores, segments=np.arange(40) % 4 // 2,
            constraints=[pp <= 2, recall >= 0.9, precision >= 0.1],
        )  # fmt: skip
    assert set(raised.value.conflict) == {"pp <= 2", "recall >= 0.9"}


# --------------------------------------------------------------------------------------------
# B33: plateaus and equal best cuts


def test_b33_equal_best_cuts_take_the_highest_threshold():
    scores, y = [0.1, 0.4, 0.6, 0.6, 0.9], [0, 1, 0, 0, 1]
    values = {len(rows): v for rows, v in by_hand(y, scores, f1)}
    assert values[4] == values[1] == pytest.approx(2 / 3)
    found = search_thresholds(y, scores)
    assert found.objective_value == pytest.approx(2 / 3)
    assert flagged(found, scores) == [4]
    assert 0.6 < found.threshold < 0.9
    ranked = found.table(top=3)
    assert ranked["rank"].tolist()[:2] == [1, 1]
    assert ranked["threshold"].tolist()[:2] == [found.threshold, pytest.approx(0.25)]


def test_b33_plateaus_are_flagged_whole_or_not_at_all():
    rng = np.random.default_rng(33)
    for _ in range(100):
        scores, y = rng.integers(0, 5, size=20) / 5, rng.permutation(np.arange(20) % 4 == 0)
        X = scores[:, None]
        model = OTLPThresholdClassifier(FrozenEstimator(Sc().fit(X, y.astype(int))))
        rows = model.fit(X, y.astype(int)).predict(X).astype(bool)
        for plateau in np.unique(scores):
            assert len(np.unique(rows[scores == plateau])) == 1
        assert model.objective_value_ == max(v for _, v in by_hand(y.astype(int), scores, f1))
