"""The estimator: its folds, columns, metadata and contract."""

import os
import pickle
import re
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from imblearn.pipeline import make_pipeline as make_sampled
from imblearn.under_sampling import InstanceHardnessThreshold, RandomUnderSampler
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from imbfit.adversarial.classifier import AdversarialMetricClassifier
from imbfit.datasets import make_rare_events
from imbfit.exceptions import InfeasibleConstraints, ScoreScaleWarning, SearchWarning
from imbfit.glm.wrapper import DownsampledClassifier
from imbfit.metrics import (
    ap,
    capacity,
    cost,
    each_segment,
    f1,
    f2,
    fn,
    fp,
    in_segment,
    mcc,
    pp,
    precision,
    recall,
    scorer,
    tp,
)
from imbfit.pipeline import check_pipeline
from imbfit.threshold.classifier import OTLPThresholdClassifier
from imbfit.threshold.search import search_thresholds

ROOT = Path(__file__).resolve().parents[1]


class Score(ClassifierMixin, BaseEstimator):
    """Probability of the last class is the first column of X, and nothing is learned."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.asarray(X)[:, 0].astype(float)
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, 0] >= 0.5).astype(int)]


class Recorder(LogisticRegression):
    """Logistic regression that remembers the rows of all its fits."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, sample_weight=None):
        self.rows_ = np.rint(np.asarray(X)[:, -1] * 1000).astype(int)
        self.weight_ = None if sample_weight is None else np.asarray(sample_weight).copy()
        Recorder.seen.append(self)
        return super().fit(X, y, sample_weight=sample_weight)


@pytest.fixture(autouse=True)
def _forget():
    Recorder.seen.clear()


@pytest.fixture(scope="module")
def cards():
    return make_rare_events(4000, prevalence=0.05, random_state=1, as_frame=True)


FEATURES = [f"x{i}" for i in range(1, 7)]


@pytest.fixture(scope="module")
def numbers():
    X, y = make_classification(600, weights=[0.8], flip_y=0.1, random_state=3)
    return np.column_stack([X, np.arange(600) / 1000]), y


def otlp(estimator=None, **params):
    return OTLPThresholdClassifier(estimator or LogisticRegression(), **params)


def flags(model, X, segments):
    """What predict must say: each row's score against the threshold of its own segment."""
    score = model.predict_proba(X)[:, 1]
    cut = np.array([model.thresholds_[s] for s in segments])
    return (score >= cut).astype(int)


# --------------------------------------------------------------------------------------------
# Folds


def test_thresholds_are_the_best_on_pooled_out_of_fold_scores(numbers):
    X, y = numbers
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    model = otlp(make_pipeline(StandardScaler(), LogisticRegression()), cv=cv).fit(X, y)
    pooled = cross_val_predict(model.estimator, X, y, cv=cv, method="predict_proba")[:, 1]
    best = max(f1(y, (pooled >= cut).astype(int)) for cut in pooled)
    assert model.objective_value_ == pytest.approx(best, abs=1e-12)
    assert f1(y, (pooled >= model.threshold_).astype(int)) == pytest.approx(best, abs=1e-12)
    assert (model.gap_, model.status_, model.n_left_out_) == (0, "optimal", 0)
    assert model.best_bound_ == model.objective_value_
    assert model.thresholds_ == {None: model.threshold_}
    assert model.fold_thresholds_.shape == (4,)
    assert 0 < np.nanstd(model.fold_thresholds_) < 0.5


def test_final_model_is_fitted_on_all_rows_and_predict_is_its_score_against_the_threshold(numbers):
    X, y = numbers
    model = otlp(Recorder(), cv=3).fit(X, y)
    assert [len(m.rows_) for m in Recorder.seen] == [400, 400, 400, 600]
    assert model.estimator_ is Recorder.seen[-1]
    expected = (model.predict_proba(X)[:, 1] >= model.threshold_).astype(int)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.score(X, y) == np.mean(expected == y)


@pytest.mark.parametrize("seed", range(10))
def test_one_split_is_drawn_once_and_the_returned_model_is_the_tuned_one(numbers, seed):
    # With random_state=None two draws would differ.
    X, y = numbers
    np.random.seed(seed)  # noqa: NPY002
    model = otlp(Recorder(), cv=0.25, refit=False, random_state=None).fit(X, y)
    assert len(Recorder.seen) == 1
    assert model.estimator_ is Recorder.seen[0]
    held_out = ~np.isin(np.arange(600), model.estimator_.rows_)
    assert held_out.sum() == 150
    assert model.n_left_out_ == 450
    score = model.estimator_.predict_proba(X[held_out])[:, 1]
    found = search_thresholds(y[held_out], score)
    assert model.threshold_ == found.threshold


def test_a_float_with_refit_tunes_on_the_split_and_fits_on_all(numbers):
    X, y = numbers
    model = otlp(Recorder(), cv=0.25, random_state=0).fit(X, y)
    assert [len(m.rows_) for m in Recorder.seen] == [450, 600]
    assert model.n_left_out_ == 450


def test_several_folds_without_refit_raise(numbers):
    X, y = numbers
    with pytest.raises(ValueError, match="refit cannot be False"):
        otlp(cv=5, refit=False).fit(X, y)
    single = PredefinedSplit(np.r_[np.full(400, -1), np.zeros(200)])
    assert otlp(Score(), cv=single, refit=False).fit(np.abs(X) % 1, y).n_left_out_ == 400


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1.0, "cv=1.0"),
        (0.0, "cv=0.0"),
        ("refit", "cv='refit'"),
        (True, "cv=True"),
        (-2.5, "cv=-2.5"),
    ],
)
def test_bad_cv(numbers, cv, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        otlp(cv=cv).fit(*numbers)


def test_rows_never_tested_are_left_out_and_counted(numbers):
    X, y = numbers
    model = otlp(Score(), cv=TimeSeriesSplit(3)).fit(np.abs(X) % 1, y)
    tested = np.arange(150, 600)
    assert model.n_left_out_ == 150
    assert float(model.search_.counts.n) == 450
    found = search_thresholds(y[tested], (np.abs(X) % 1)[tested, 0])
    assert model.threshold_ == found.threshold


def test_rows_tested_more_than_once_share_their_weight(numbers):
    X, y = numbers
    scores = np.abs(X) % 1
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=4, random_state=0)
    model = otlp(Score(), cv=cv).fit(scores, y)
    once = search_thresholds(y, scores[:, 0])
    # the same score four times at a quarter of the weight is the score once
    assert model.threshold_ == once.threshold
    assert model.objective_value_ == pytest.approx(once.objective_value, abs=1e-9)
    assert float(model.search_.counts.n) == pytest.approx(600)
    assert model.fold_thresholds_.shape == (12,)


def test_rows_tested_an_uneven_number_of_times(numbers):
    X, y = numbers
    scores, cv = np.abs(X) % 1, ShuffleSplit(5, test_size=0.4, random_state=0)
    model = otlp(Score(), cv=cv, constraints=[pp <= 100], objective="recall").fit(scores, y)
    times = np.bincount(np.concatenate([test for _, test in cv.split(scores)]), minlength=600)
    assert model.n_left_out_ == np.count_nonzero(times == 0) > 0
    tested = times > 0
    assert float(model.search_.counts.n) == pytest.approx(tested.sum())
    flagged = tested & (scores[:, 0] >= model.threshold_)
    assert flagged.sum() <= 100
    best = search_thresholds(
        y[tested], scores[tested, 0], objective="recall", constraints=[pp <= 100]
    )
    assert model.objective_value_ == pytest.approx(best.objective_value, abs=1e-8)


@pytest.mark.parametrize("repeats", [3, 6, 7])
def test_a_capacity_is_exact_where_rows_share_their_weight(repeats):
    # a third of a row has no exact float, yet a hundred rows scored three times are a hundred rows
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(120, 1))
    y = (rng.uniform(size=120) < 0.3).astype(int)
    for limit in (5, 27, 48):
        cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=repeats, random_state=0)
        model = otlp(
            Score(), objective="pp", greater_is_better=True, constraints=capacity(limit), cv=cv
        ).fit(x, y)
        assert model.predict(x).sum() == limit
        assert model.gap_ == 0


def test_groups_reach_the_splitter(numbers):
    X, y = numbers
    groups = np.arange(600) % 7
    model = otlp(Recorder(), cv=GroupKFold(7)).fit(X, y, groups=groups)
    for fitted in Recorder.seen[:-1]:
        assert len(np.unique(groups[fitted.rows_])) == 6
    assert model.fold_thresholds_.shape == (7,)


def test_a_generator_of_splits_is_read_once(numbers):
    X, y = numbers
    splits = (split for split in KFold(3).split(X))
    assert otlp(Score(), cv=splits).fit(np.abs(X) % 1, y).n_left_out_ == 0


def test_a_fold_without_a_class_to_learn_is_named():
    y = np.r_[np.zeros(30), np.ones(10)].astype(int)
    with pytest.raises(ValueError, match="fold 0 hold only the class"):
        otlp(cv=TimeSeriesSplit(3)).fit(np.random.default_rng(0).normal(size=(40, 2)), y)


def test_parallel_folds_give_the_same(numbers):
    X, y = numbers
    alone = otlp(LinearSVC(), cv=3).fit(X[:, :5], y)
    with joblib.parallel_config("threading"):
        together = otlp(LinearSVC(), cv=3, n_jobs=2).fit(X[:, :5], y)
    assert alone.thresholds_ == together.thresholds_


def test_fold_thresholds_are_those_of_the_folds_alone(cards):
    X, y = cards.frame.drop(columns=["date", "amount"]), cards.y
    model = otlp(
        FoldOf(), segments="segment", cv=KFold(4), objective="recall", constraints=[pp <= 400]
    )
    model.fit(X, y)
    spread = model.fold_thresholds_
    assert spread.shape == (4, len(model.thresholds_))
    assert model.fold_thresholds_ is spread
    for fold, (_, test) in enumerate(KFold(4).split(X)):
        part = X.iloc[test]
        own = search_thresholds(
            y.iloc[test], part["x1"], segments=part["segment"],
            objective="recall", constraints=[pp <= 100],
        )  # fmt: skip
        assert own.status == "optimal"
        reached = np.where(
            part["x1"]
            >= part["segment"].map(dict(zip(model.thresholds_, spread[fold], strict=True))),
            1,
            0,
        )
        assert reached.sum() <= 100
        assert recall(y.iloc[test], reached) == pytest.approx(own.objective_value)


class FoldOf(ClassifierMixin, BaseEstimator):
    """Score by the column x1."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X["x1"].to_numpy()


def test_fold_without_an_answer_of_its_own_is_nan():
    y = np.r_[np.zeros(20), np.ones(5), np.zeros(25)].astype(int)
    x = np.linspace(0.01, 0.99, 50)[:, None]
    model = otlp(Score(), cv=PredefinedSplit(np.repeat([0, 1], 25))).set_params(
        cv=[(np.arange(50), np.arange(25)), (np.arange(50), np.arange(25, 50))]
    )
    fitted = model.fit(x, y)
    np.testing.assert_array_equal(np.isnan(fitted.fold_thresholds_), [False, True])


class Shifting(Score):
    """Each fit moves the scores."""

    shift = 0

    def fit(self, X, y):
        Shifting.shift += 1
        self.moved_ = Shifting.shift
        return super().fit(X, y)

    def decision_function(self, X):
        return np.asarray(X)[:, 0] + 10 * self.moved_

    predict_proba = property()


class Stretching(Shifting):
    def decision_function(self, X):
        return np.asarray(X)[:, 0] * 10.0**self.moved_


@pytest.mark.parametrize("model", [Shifting(), Stretching()])
def test_folds_on_different_scales_warn(numbers, model):
    X, y = numbers
    with pytest.warns(ScoreScaleWarning, match="different scales.*fold [0-9]"):
        otlp(model, cv=4).fit(X, y)


def test_folds_whose_rows_differ_do_not_warn():
    # sorted by score: the folds' rows have nothing in common, but the model is the same
    x = np.linspace(0, 1, 300)[:, None]
    y = (np.random.default_rng(0).uniform(size=300) < x[:, 0] / 2).astype(int)
    otlp(Score(), cv=3).fit(x, y)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        LinearSVC(),
        HistGradientBoostingClassifier(max_iter=5, random_state=0),
        KNeighborsClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_ordinary_folds_do_not_warn(cards, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScoreScaleWarning)
        otlp(model).fit(cards.X, cards.y)


# --------------------------------------------------------------------------------------------
# Models that are fitted already


@pytest.mark.parametrize("how", ["frozen", "prefit"])
def test_a_fitted_model_is_not_refitted(numbers, how):
    X, y = numbers
    inner = Recorder().fit(X[:300], y[:300])
    before = inner.coef_.copy()
    model = otlp(FrozenEstimator(inner)) if how == "frozen" else otlp(inner, cv="prefit")
    model.fit(X[300:], y[300:])
    assert len(Recorder.seen) == 1
    np.testing.assert_array_equal(model.estimator_.coef_, before)
    np.testing.assert_array_equal(inner.coef_, before)
    found = search_thresholds(y[300:], inner.predict_proba(X[300:])[:, 1])
    assert model.threshold_ == found.threshold
    assert model.n_left_out_ == 0
    assert model.fold_thresholds_.tolist() == [model.threshold_]


def test_a_cloned_prefit_says_what_to_do(numbers):
    X, y = numbers
    model = otlp(LogisticRegression().fit(X, y), cv="prefit")
    with pytest.raises(NotFittedError, match="FrozenEstimator"):
        clone(model).fit(X, y)
    with pytest.raises(NotFittedError, match="FrozenEstimator"):
        cross_val_score(model, X, y, error_score="raise")
    with pytest.raises(NotFittedError, match="not fitted"):
        otlp(FrozenEstimator(LogisticRegression())).fit(X, y)
    frozen = otlp(FrozenEstimator(model.estimator))
    assert cross_val_score(frozen, X, y, error_score="raise").shape == (5,)


def test_a_fitted_model_of_other_labels(numbers):
    X, y = numbers
    inner = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match=r"y has the labels \['no', 'yes'\].*\[0, 1\]"):
        otlp(FrozenEstimator(inner)).fit(X, np.where(y, "yes", "no"))


# --------------------------------------------------------------------------------------------
# Labels and scores


@pytest.mark.parametrize(
    "labels", [("no", "yes"), (1, 2), (-1, 1), (False, True), (0.0, 1.0), ("b", "a")], ids=str
)
@pytest.mark.parametrize("inner", [LogisticRegression(), LinearSVC()])
def test_positive_label_and_orientation(numbers, labels, inner):
    X, codes = numbers[0][:, :5], numbers[1]
    y = np.array(labels)[codes]
    model = otlp(inner, pos_label=labels[1], cv=3).fit(X, y)
    assert model.predict(X).dtype == y.dtype
    reference = otlp(inner, cv=3).fit(X, codes)
    np.testing.assert_array_equal(model.predict(X), np.array(labels)[reference.predict(X)])
    assert model.objective_value_ == pytest.approx(reference.objective_value_)
    # the other label is another question, and gets its own answer
    other = otlp(inner, pos_label=labels[0], cv=3).fit(X, y)
    flipped = otlp(inner, cv=3).fit(X, 1 - codes)
    np.testing.assert_array_equal(other.predict(X), np.array(labels)[1 - flipped.predict(X)])


def test_positive_label_by_default_is_the_last_class(numbers):
    X, codes = numbers[0][:, :5], numbers[1]
    y = np.where(codes, "a", "b")  # the rare label is the first one
    model = otlp(cv=3).fit(X, y)
    assert model.classes_.tolist() == ["a", "b"]
    score = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X) == "b", score >= model.threshold_)
    with pytest.raises(ValueError, match="pos_label='c'"):
        otlp(pos_label="c").fit(X, y)


def test_methods_are_the_inner_models_own(numbers):
    X, y = numbers[0][:, :5], numbers[1]
    both = otlp().fit(X, y)
    np.testing.assert_array_equal(both.predict_proba(X), both.estimator_.predict_proba(X))
    np.testing.assert_array_equal(both.decision_function(X), both.estimator_.decision_function(X))
    assert hasattr(otlp(LinearSVC()), "decision_function")
    assert not hasattr(otlp(LinearSVC()), "predict_proba")
    assert not hasattr(otlp(KNeighborsClassifier()), "decision_function")
    with pytest.raises(AttributeError, match="predict_proba"):
        otlp(LinearSVC()).predict_proba(X)


def test_response_methods(numbers):
    X, y = numbers[0][:, :5], numbers[1]
    proba = otlp(response_method="predict_proba", cv=3).fit(X, y)
    assert proba.thresholds_ == otlp(cv=3).fit(X, y).thresholds_
    margin = otlp(response_method="decision_function", cv=3).fit(X, y)
    assert margin.threshold_ != proba.threshold_
    np.testing.assert_array_equal(
        margin.predict(X), (margin.decision_function(X) >= margin.threshold_).astype(int)
    )
    with pytest.raises(ValueError, match="LinearSVC has no predict_proba"):
        otlp(LinearSVC(), response_method="predict_proba").fit(X, y)
    with pytest.raises(ValueError, match=r"response_method='predict'.*a callable"):
        otlp(response_method="predict").fit(X, y)


def expected_loss(estimator, X):
    return estimator.predict_proba(X)[:, 1] * X["amount"]


def test_callable_response_sees_the_columns_that_the_model_does_not(cards):
    X = cards.frame.drop(columns="date")
    model = otlp(
        objective=5 * fp + fn["amount"],
        greater_is_better=False,
        amounts={"amount": "amount"},
        segments="segment",
        response_method=expected_loss,
    ).fit(X, cards.y)
    assert list(model.feature_names_in_) == FEATURES
    score = model.estimator_.predict_proba(X[FEATURES])[:, 1] * X["amount"]
    cut = X["segment"].map(model.thresholds_)
    np.testing.assert_array_equal(model.predict(X), (score >= cut).astype(int))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    # tuned on the callable's scores, so the money lost is no more than with probabilities
    plain = clone(model).set_params(response_method="auto").fit(X, cards.y)
    assert model.objective_value_ < plain.objective_value_


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (lambda *_: np.ones(3), "has 3 rows"),
        (lambda _, X: np.ones((len(X), 2)), "shape"),
        (lambda _, X: np.array(["a"] * len(X)), "a score is a number"),
        (lambda _, X: np.full(len(X), np.inf), "infinite in"),
    ],
)
def test_bad_scores_of_a_callable(numbers, response, message):
    with pytest.raises(ValueError, match=message):
        otlp(Score(), response_method=response).fit(*numbers)


class NotANumber(Score):
    def predict_proba(self, X):
        p = np.where(X[:, 0] < 0.1, np.nan, X[:, 0])
        return np.column_stack([1 - p, p])


def test_nan_scores_raise_with_their_rows_or_are_never_flagged():
    x, y = np.random.default_rng(0).uniform(0.2, 1, size=(60, 1)), np.tile([0, 1, 1], 20)
    x[[7, 41]] = 0.05
    with pytest.raises(ValueError, match=r"2 rows|1 row") as raised:
        otlp(NotANumber(), cv=KFold(2)).fit(x, y)
    assert "position 7" in str(raised.value)
    # recall of 1 would need everybody; rows that are never flagged put it out of reach
    model = otlp(NotANumber(), cv=KFold(2), nan_policy="negative", objective="recall").fit(x, y)
    assert model.predict(x)[[7, 41]].tolist() == [0, 0]
    assert model.threshold_ == -np.inf or model.predict(x).sum() == 58
    missed = y[[7, 41]].sum()
    assert model.objective_value_ == pytest.approx((y.sum() - missed) / y.sum())
    with pytest.raises(ValueError, match="nan_policy='skip'"):
        otlp(nan_policy="skip").fit(x, y)


# --------------------------------------------------------------------------------------------
# Segments, amounts and days from X


def as_pandas(frame):
    return frame


def as_polars(frame):
    return pl.from_pandas(frame)


@pytest.mark.parametrize("convert", [as_pandas, as_polars])
def test_predict_is_the_score_against_the_own_segments_threshold(cards, convert):
    X = convert(cards.frame)
    model = otlp(
        objective="recall",
        constraints=[each_segment(precision >= 0.3), capacity(12, per="date"), pp <= 300],
        segments="segment",
        amounts={"money": "amount"},
    ).fit(X, cards.y)
    assert model.status_ == "optimal"
    assert sorted(model.thresholds_) == ["S1", "S2", "S3", "S4"]
    if convert is as_pandas:  # not every scikit-learn reads the names of a polars frame
        assert list(model.feature_names_in_) == FEATURES
    assert model.n_features_in_ == 6
    np.testing.assert_array_equal(model.predict(X), flags(model, X, cards.segment))
    assert len(set(model.thresholds_.values())) > 1
    # neither the amount nor the day is needed any more, and order does not matter
    drop = ["segment", *FEATURES]
    later = X[drop[::-1]] if convert is as_pandas else X.select(drop[::-1])
    np.testing.assert_array_equal(model.predict(later), model.predict(X))
    report = {line["constraint"] for line in model.constraint_report_}
    assert len(model.constraint_report_) == 6
    assert all(line["met"] for line in model.constraint_report_)
    assert 'capacity(12, per="date")' in report
    with pytest.raises(AttributeError, match="thresholds"):
        _ = model.threshold_
    assert not hasattr(model, "threshold_")


def test_pandas_polars_and_arrays_agree(cards):
    frame = cards.frame.drop(columns="date")
    params = {
        "objective": "5*fp + fn[amount]",
        "greater_is_better": False,
        "constraints": "precision >= 0.2 in each segment",
    }
    named = {"segments": "segment", "amounts": {"amount": "amount"}}
    placed = {"segments": 6, "amounts": {"amount": -1}}
    models = [
        otlp(**params, **named).fit(frame, cards.y),
        otlp(**params, **named).fit(pl.from_pandas(frame), cards.y.to_numpy()),
        otlp(**params, **placed).fit(frame.to_numpy(), cards.y),
        otlp(**params, **placed).fit(frame.to_numpy().tolist(), cards.y.tolist()),
        otlp(**params)
        .set_params(
            segments=lambda X: X["segment"],
            amounts={"amount": lambda X: X["amount"]},
            estimator_columns=FEATURES,
        )
        .fit(frame, cards.y),
        otlp(**params, segments=["segment"]).fit(
            frame[[*FEATURES, "segment"]], cards.y, amounts=frame[["amount"]]
        ),
        otlp(**params, segments=["segment"]).fit(
            frame[[*FEATURES, "segment"]], cards.y, amounts={"amount": cards.amount}
        ),
    ]
    for model in models[1:]:
        assert model.thresholds_ == pytest.approx(models[0].thresholds_)
        assert model.objective_value_ == pytest.approx(models[0].objective_value_)
        assert model.gap_ == 0
    expected = models[0].predict(frame)
    array = frame.to_numpy()
    np.testing.assert_array_equal(models[2].predict(array), expected)
    np.testing.assert_array_equal(models[2].predict(array[:, :7]), expected)  # no amounts
    np.testing.assert_array_equal(models[3].predict(array.tolist()), expected)
    with pytest.raises(ValueError, match="X has 5 columns, but had 8 at fit, or 7 without"):
        models[2].predict(array[:, :5])
    with pytest.raises(ValueError, match="without column names, but it was a frame at fit"):
        models[0].predict(array)


def test_pyarrow(cards):
    arrow = pytest.importorskip("pyarrow")
    frame = cards.frame.drop(columns="date")
    params = {"objective": "recall", "constraints": [pp <= 300], "cv": 3}
    params |= {"segments": "segment", "amounts": {"amount": "amount"}}
    table = arrow.Table.from_pandas(frame)
    model = otlp(FoldOf(), **params).fit(table, cards.y)
    assert model.thresholds_ == otlp(FoldOf(), **params).fit(frame, cards.y).thresholds_
    later = table.select(["segment", *FEATURES])
    np.testing.assert_array_equal(model.predict(later), model.predict(table))


def test_segments_of_several_columns_are_tuples(cards):
    X = cards.frame.assign(late=np.where(np.arange(4000) % 2, "yes", "no")).drop(
        columns=["date", "amount"]
    )
    model = otlp(objective="recall", constraints=[pp <= 300], segments=["segment", "late"])
    model.fit(X, cards.y)
    assert len(model.thresholds_) == 8
    assert set(model.thresholds_) == {(s, w) for s in cards.segment_names for w in ("yes", "no")}
    pairs = list(zip(X["segment"], X["late"], strict=True))
    np.testing.assert_array_equal(model.predict(X), flags(model, X, pairs))
    by_call = clone(model).set_params(
        segments=lambda X: X[["segment", "late"]], estimator_columns=FEATURES
    )
    assert by_call.fit(X, cards.y).thresholds_ == model.thresholds_
    by_list = clone(by_call).set_params(
        segments=lambda X: list(zip(X["segment"], X["late"], strict=True))
    )
    assert by_list.fit(X, cards.y).thresholds_ == model.thresholds_
    one = clone(model).set_params(constraints=in_segment(("S1", "yes"), recall >= 0.9))
    report = one.fit(X, cards.y).constraint_report_
    assert report[0]["segment"] == ("S1", "yes")
    assert report[0]["value"] >= 0.9


def test_values_that_only_look_alike_when_joined_stay_apart():
    x = np.linspace(0.01, 0.99, 40)
    X = pd.DataFrame({"p": x, "a": ["a,b", "a"] * 20, "b": ["c", "b,c"] * 20})
    model = otlp(Score(), segments=["a", "b"], cv=2).fit(X, np.tile([0, 0, 1, 1], 10))
    assert set(model.thresholds_) == {("a,b", "c"), ("a", "b,c")}


def test_estimator_columns_by_list(cards):
    X = cards.frame
    model = otlp(segments="segment", estimator_columns=["x2", "x1", "amount"], cv=3)
    model.fit(X, cards.y)
    assert list(model.feature_names_in_) == ["x2", "x1", "amount"]
    # the segment may stay in, where the model can read it
    inner = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["segment"]), remainder="passthrough"),
        LogisticRegression(),
    )
    both = otlp(inner, segments="segment", estimator_columns=["segment", *FEATURES], cv=3)
    both.fit(X, cards.y)
    np.testing.assert_array_equal(both.predict(X), flags(both, X, cards.segment))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"segments": "Segment"}, ValueError, "'Segment', which X lacks; it has 'x1', 'x2'"),
        ({"segments": ["segment", "land"]}, ValueError, "'land', which X lacks"),
        ({"segments": 3}, ValueError, "the column 3, which X lacks"),
        ({"segments": np.zeros(4)}, TypeError, "search_thresholds"),
        ({"segments": []}, ValueError, "empty list"),
        ({"segments": [1.5]}, TypeError, "1.5 is no column"),
        ({"amounts": "amount"}, TypeError, "give a dict"),
        ({"amounts": {"a": "Amount"}}, ValueError, "amounts\\['a'\\] reads the column 'Amount'"),
        ({"amounts": {"a": [1.0]}}, TypeError, r"fit\(amounts=\)"),
        ({"amounts": {1: "amount"}}, TypeError, "has the name 1"),
        ({"estimator_columns": "all"}, ValueError, "estimator_columns='all'"),
        ({"estimator_columns": ["x9"]}, ValueError, "estimator_columns reads the column 'x9'"),
        ({"estimator_columns": None}, TypeError, "estimator_columns=None"),
        (
            {"objective": fn["loss"], "greater_is_better": False},
            ValueError,
            "'loss'; amounts given",
        ),
        ({"constraints": capacity(3, per="week")}, ValueError, "needs a column 'week'"),
        ({"segments": lambda _: np.zeros(3)}, ValueError, "segments callable's result has 3 rows"),
        ({"segments": lambda X: X["x1"].mask(X["x1"] > 2)}, ValueError, "segments is missing in"),
        ({"unknown_segment": "global"}, ValueError, "unknown_segment='global'.*or a threshold"),
        ({"unknown_segment": float("nan")}, ValueError, "unknown_segment=nan"),
        ({"infeasible": "warn"}, ValueError, "infeasible='warn'"),
        ({"refit": "yes"}, TypeError, "refit='yes'"),
        ({"estimator": LogisticRegression}, TypeError, "give a classifier instance"),
        ({"constraints": [recall >= 0.5, True]}, TypeError, "constraint 1"),
        ({"objective": tp - fp}, ValueError, "greater_is_better"),
        ({"time_limit": -1}, ValueError, "time_limit=-1"),
    ],
    # without the addresses of functions: every process that runs tests must find the same names
    ids=lambda part: re.sub(r" at 0x\w+", "", str(part)),
)
def test_bad_parameters(cards, params, error, message):
    with pytest.raises(error, match=message):
        otlp(**{"estimator": Score(), **params}).fit(cards.frame, cards.y)


def test_bad_positions(numbers):
    X, y = numbers
    with pytest.raises(ValueError, match="column 30, but X has 21 columns"):
        otlp(segments=30).fit(X, y)
    with pytest.raises(ValueError, match="'country', but X is a ndarray without column names"):
        otlp(segments="country").fit(X, y)
    with pytest.raises(ValueError, match="every column of X"):
        otlp(segments=0).fit(X[:, :1], y)
    with pytest.raises(ValueError, match="no columns to read"):
        otlp(segments=0).fit(["some text"] * 600, y)


def test_a_column_twice_by_name(cards):
    twice = pd.concat([cards.frame, cards.frame[["segment"]]], axis=1)
    with pytest.raises(ValueError, match="2 columns of that name"):
        otlp(segments="segment").fit(twice, cards.y)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_missing_segments_are_named(cards, missing):
    X = cards.frame.drop(columns=["date", "amount"]).astype({"segment": object})
    X.loc[[3, 17], "segment"] = missing
    with pytest.raises(ValueError, match=r"segments is missing in 2 rows \(position 3, 17\)"):
        otlp(segments="segment").fit(X, cards.y)
    whole = cards.frame.drop(columns=["date", "amount"])
    model = otlp(segments="segment", unknown_segment="negative", cv=2).fit(whole, cards.y)
    with pytest.raises(ValueError, match=r"segments is missing in 2 rows \(position 3, 17\)"):
        model.predict(X)


def test_missing_segments_in_polars_and_in_categories(cards):
    X = pl.from_pandas(cards.frame.drop(columns=["date", "amount"])).with_columns(
        pl.when(pl.col("x1") > 2).then(None).otherwise(pl.col("segment")).alias("segment")
    )
    with pytest.raises(ValueError, match="segments is missing in"):
        otlp(segments="segment").fit(X, cards.y)
    codes = pl.from_pandas(cards.frame[FEATURES]).with_columns(
        pl.Series("code", [1, 2, None, 2] * 1000)
    )
    with pytest.raises(ValueError, match=r"segments is missing in 1000 rows \(position 2, 6"):
        otlp(segments="code").fit(codes, cards.y)
    frame = cards.frame[[*FEATURES, "segment"]].astype({"segment": "category"})
    model = otlp(segments="segment", cv=2).fit(frame, cards.y)
    np.testing.assert_array_equal(model.predict(frame), flags(model, frame, cards.segment))
    frame.loc[5, "segment"] = np.nan
    with pytest.raises(ValueError, match=r"position 5\)"):
        otlp(segments="segment").fit(frame, cards.y)


def test_unknown_segments(cards):
    X = cards.frame.drop(columns=["date", "amount"])
    model = otlp(segments="segment", cv=2).fit(X, cards.y)
    new = X.copy()
    new.loc[[0, 9], "segment"] = "zzz"
    with pytest.raises(
        ValueError, match=r"segment 'zzz', met in 2 rows \(position 0, 9\); known are 'S1', 'S2'"
    ):
        model.predict(new)
    rest = ~new["segment"].eq("zzz")
    for policy, expected in (("negative", [0, 0]), (-np.inf, [1, 1]), (2.0, [0, 0])):
        lenient = clone(model).set_params(unknown_segment=policy).fit(X, cards.y)
        flagged = lenient.predict(new)
        assert flagged[[0, 9]].tolist() == expected
        np.testing.assert_array_equal(flagged[rest], model.predict(X[rest]))


def test_segments_of_any_kind_of_value(cards):
    base = cards.frame[FEATURES]
    for values in (
        np.arange(4000) % 3,
        (np.arange(4000) % 3).astype(float),
        np.arange(4000) % 2 == 0,
        pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(4000) % 2, unit="D"),
        pd.array(["a", "b"] * 2000, dtype="string"),
        pd.array([1, 2] * 2000, dtype="Int64"),
    ):
        X = base.assign(part=values)
        model = otlp(segments="part", cv=2).fit(X, cards.y)
        distinct = list(dict.fromkeys(list(values)))
        assert len(model.thresholds_) == len(distinct)
        for segment, cut in zip(distinct, [model.predict(X)], strict=False):
            own = np.asarray(values == segment, bool)
            score = model.predict_proba(X)[own, 1]
            assert cut[own].sum() in {(score >= t).sum() for t in model.thresholds_.values()}


# --------------------------------------------------------------------------------------------
# Amounts


def test_amounts_given_to_fit_add_to_those_of_the_constructor(cards):
    X, y = cards.frame.drop(columns="date"), cards.y
    money = 3 * fp + fn["amount"] + tp["tip"]
    model = otlp(
        objective=money, greater_is_better=False, amounts={"amount": "amount"}, segments="segment"
    )
    tips = pd.DataFrame({"tip": np.arange(4000) % 3})
    model.fit(X, y, amounts=tips)
    pooled = pooled_scores(model, X, y)
    flagged = pooled >= X["segment"].map(model.thresholds_)
    lost = 3 * np.sum(flagged & (y == 0)) + X["amount"][~flagged & (y == 1)].sum()
    lost += tips["tip"][flagged & (y == 1)].sum()
    assert model.objective_value_ == pytest.approx(lost)
    with pytest.raises(ValueError, match="'amount' in the constructor and in fit"):
        model.fit(X, y, amounts=X[["amount"]])
    with pytest.raises(ValueError, match=r"read the per-row column 'tip'; amounts given: 'amount'"):
        model.fit(X, y)
    with pytest.raises(TypeError, match="amounts is of type ndarray"):
        model.fit(X, y, amounts=np.ones(4000))
    with pytest.raises(ValueError, match=r"amounts\['tip'\] is NaN or infinite in 1 row"):
        model.fit(X, y, amounts={"tip": np.r_[np.nan, np.ones(3999)]})


def pooled_scores(model, X, y):
    seen = X[FEATURES] if hasattr(X, "columns") else X
    return cross_val_predict(model.estimator, seen, y, cv=model.cv, method="predict_proba")[:, 1]


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("convert", [as_pandas, as_polars])
def test_amounts_are_cut_to_the_folds_of_a_search(cards, routing, convert):
    X, y = cards.frame[FEATURES], cards.y
    amounts = convert(cards.frame[["amount"]])
    model = otlp(objective=5 * fp + fn["amount"], greater_is_better=False, cv=2)
    search = GridSearchCV(
        model, {"estimator__C": [0.1, 1]}, cv=2, scoring="f1", error_score="raise"
    )
    with sklearn.config_context(enable_metadata_routing=routing):
        search.fit(X, y, amounts=amounts)
    best = search.best_estimator_
    expected = clone(model).set_params(**search.best_params_).fit(X, y, amounts=amounts)
    assert best.thresholds_ == expected.thresholds_
    # an explicit request is fine as well
    asked = clone(model).set_params(cv=3)
    with sklearn.config_context(enable_metadata_routing=True):
        asked.set_fit_request(amounts=True, groups=False)
        cross_validate(asked, X, y, params={"amounts": amounts}, cv=2, error_score="raise")


@pytest.mark.parametrize("routing", [False, True])
def test_a_dict_of_the_wrong_length_says_to_give_a_frame(cards, routing):
    model = otlp(objective=5 * fp + fn["amount"], greater_is_better=False, cv=2)
    search = GridSearchCV(model, {"cv": [2]}, cv=2, scoring="f1", error_score="raise")
    with (
        sklearn.config_context(enable_metadata_routing=routing),
        pytest.raises(ValueError, match="give a frame"),
    ):
        search.fit(cards.X, cards.y, amounts={"amount": cards.amount})
    with pytest.raises(ValueError, match=r"amounts\['amount'\] has shape \(10,\), but X has 4000"):
        model.fit(cards.X, cards.y, amounts={"amount": cards.amount[:10]})


def test_day_from_amounts_given_to_fit(cards):
    days = pd.DataFrame({"date": cards.date})
    model = otlp(objective="recall", constraints=capacity(3, per="date"), cv=3)
    model.fit(cards.X, cards.y, amounts=days)
    from_X = clone(model).fit(cards.frame[[*FEATURES, "date"]], cards.y)
    assert from_X.thresholds_ == model.thresholds_
    pooled = pooled_scores(model, cards.X, cards.y)
    per_day = pd.Series(pooled >= model.threshold_).groupby(cards.date).sum()
    assert per_day.max() <= 3
    np.testing.assert_array_equal(model.predict(cards.X), from_X.predict(cards.X))


# --------------------------------------------------------------------------------------------
# Case weights


def test_weight_two_is_the_row_twice_and_weight_zero_is_no_row():
    rng = np.random.default_rng(5)
    for _ in range(20):
        x = np.round(rng.uniform(size=(60, 1)), 2)
        y = (rng.uniform(size=60) < 0.4).astype(int)
        weight = rng.integers(0, 3, size=60)
        if len(np.unique(y[weight > 0])) < 2:
            continue
        inner = FrozenEstimator(Score().fit(x, y))
        weighted = otlp(inner, constraints=[precision >= 0.3]).fit(x, y, sample_weight=weight)
        copies = np.repeat(np.arange(60), weight)
        doubled = otlp(inner, constraints=[precision >= 0.3]).fit(x[copies], y[copies])
        assert weighted.thresholds_ == doubled.thresholds_
        assert weighted.objective_value_ == doubled.objective_value_


@pytest.mark.parametrize("routing", [False, True])
def test_weights_reach_the_inner_fit_and_the_counts(numbers, routing):
    X, y = numbers
    weight = np.random.default_rng(0).integers(1, 4, size=600)
    inner = Recorder()
    if routing:
        with sklearn.config_context(enable_metadata_routing=True):
            inner.set_fit_request(sample_weight=True)
    with sklearn.config_context(enable_metadata_routing=routing):
        model = otlp(inner, cv=3).fit(X, y, sample_weight=weight)
    for fitted in Recorder.seen:
        np.testing.assert_array_equal(fitted.weight_, weight[fitted.rows_])
    assert float(model.search_.counts.n) == weight.sum()


def test_weights_through_pipelines_and_searches_without_routing(numbers):
    X, y = numbers
    weight = np.arange(1, 601)
    otlp(make_pipeline(StandardScaler(with_mean=False, with_std=False), Recorder()), cv=2).fit(
        X, y, sample_weight=weight
    )
    assert all(fitted.weight_ is not None for fitted in Recorder.seen)
    Recorder.seen.clear()
    otlp(GridSearchCV(Recorder(), {"C": [1]}, cv=2), cv=2).fit(X, y, sample_weight=weight)
    assert all(fitted.weight_ is not None for fitted in Recorder.seen)
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier.fit takes no sample_weight"):
        model = otlp(KNeighborsClassifier(), cv=2).fit(X[:, :5], y, sample_weight=weight)
    assert float(model.search_.counts.n) == weight.sum()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.r_[-1.0, np.ones(599)], r"sample_weight is negative in 1 row \(position 0\)"),
        (np.ones(599), "sample_weight has 599 rows"),
        (np.r_[np.nan, np.ones(599)], "sample_weight is NaN or infinite"),
        (np.zeros(600), "zero in every row"),
    ],
)
def test_bad_weights(numbers, weight, message):
    with pytest.raises(ValueError, match=message):
        otlp().fit(*numbers, sample_weight=weight)


def test_weights_through_a_search_with_routing(numbers):
    X, y = numbers
    weight = np.random.default_rng(0).integers(1, 4, size=600)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Recorder().set_fit_request(sample_weight=True)
        model = otlp(inner, cv=2).set_fit_request(sample_weight=True)
        search = GridSearchCV(
            model,
            {"objective": [f1]},
            cv=GroupKFold(2),
            scoring=scorer(f1).set_score_request(sample_weight=True),
        )
        search.fit(X, y, sample_weight=weight, groups=np.arange(600) % 10)
        # an inner splitter that asks for groups gets them as well
        nested = GridSearchCV(
            clone(model).set_params(cv=GroupKFold(3)), {"objective": [f1]}, cv=GroupKFold(2)
        )
        nested.set_params(scoring=scorer(f1).set_score_request(sample_weight=False))
        nested.fit(X, y, sample_weight=weight, groups=np.arange(600) % 10)
    for fitted in Recorder.seen:
        np.testing.assert_array_equal(fitted.weight_, weight[fitted.rows_])
    with sklearn.config_context(enable_metadata_routing=True):
        frozen = otlp(FrozenEstimator(LogisticRegression().fit(X, y)))
        assert frozen.fit(X, y, sample_weight=weight).search_.counts.n == weight.sum()


# --------------------------------------------------------------------------------------------
# Bad input


def test_bad_labels(numbers):
    X, y = numbers
    with pytest.raises(ValueError, match="y has one class, 0, in all 600 rows"):
        otlp().fit(X, np.zeros(600, int))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        otlp().fit(X, np.arange(600) % 3)
    with pytest.raises(ValueError, match=r"y has no label in 1 row \(position 4\)"):
        otlp().fit(X, np.where(np.arange(600) == 4, np.nan, y))
    with pytest.raises(ValueError, match=r"y has no label in 1 row \(position 4\)"):
        otlp().fit(X, np.where(np.arange(600) == 4, None, y.astype(object)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        otlp().fit(X, y[:-1])


def test_misaligned_index(cards):
    X, y = cards.X, cards.y
    mixed = y.sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=r"the index of y is not that of X.*y\.loc\[X\.index\]"):
        otlp(cv=2).fit(X, mixed)
    aligned = otlp(cv=2).fit(X.loc[mixed.index], mixed)
    fresh = otlp(cv=2).fit(
        X.loc[mixed.index].set_axis(range(10_000, 14_000)), mixed.reset_index(drop=True)
    )
    assert fresh.thresholds_ == aligned.thresholds_
    with pytest.raises(ValueError, match="the index of amounts is not that of X"):
        otlp(cv=2).fit(X, y, amounts=cards.frame[["amount"]].iloc[::-1])
    part = slice(100, 200)
    weight = pd.Series(1.0, index=range(150, 250))
    with pytest.raises(ValueError, match="the index of sample_weight"):
        otlp(cv=2).fit(X.iloc[part], y.iloc[part], sample_weight=weight)


def test_infeasible_constraints_name_the_conflict(cards):
    X = cards.frame.drop(columns=["date", "amount"])
    model = otlp(constraints=[recall >= 0.95, precision >= 0.9], segments="segment", cv=3)
    with pytest.raises(InfeasibleConstraints) as raised:
        model.fit(X, cards.y)
    assert set(raised.value.conflict) == {"recall >= 0.95", "precision >= 0.9"}
    assert not hasattr(model, "estimator_")
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.warns(SearchWarning, match="no choice of thresholds meets all constraints"):
        model.set_params(infeasible="least_violation").fit(X, cards.y)
    assert model.status_ == "least_violation"
    assert not all(line["met"] for line in model.constraint_report_)


def test_refitting_forgets_the_former_fit(cards):
    X = cards.frame.drop(columns=["date", "amount"])
    model = otlp(segments="segment", cv=2).fit(X, cards.y)
    first = model.threshold_table_, model.fold_thresholds_
    model.set_params(segments=None, cv=3).fit(cards.X, cards.y)
    assert isinstance(model.threshold_, float)
    assert len(model.threshold_table_) != len(first[0])
    assert model.fold_thresholds_.shape == (3,)


def test_nothing_is_known_before_fit(cards):
    model = otlp()
    for name in ("threshold_", "thresholds_", "threshold_table_", "fold_thresholds_", "classes_"):
        assert not hasattr(model, name)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NotFittedError):
            method(cards.X)
    with pytest.raises(NotFittedError):
        model.table(cards.X, cards.y)
    with pytest.raises(NotFittedError):
        model.candidates(cards.X, cards.y)


# --------------------------------------------------------------------------------------------
# Tables


def test_threshold_table_is_the_papers_table(cards):
    X = cards.frame.drop(columns="date")
    model = otlp(
        objective=f2, constraints=each_segment(precision >= 0.2), segments="segment", cv=3
    ).set_params(amounts={"amount": "amount"})
    model.fit(X, cards.y)
    assert "threshold_table_" not in vars(model)
    table = model.threshold_table_
    assert model.threshold_table_ is table
    for name in ("segment", "threshold", "tp", "fp", "tn", "fn", "precision", "recall", "f1", "f2"):
        assert name in table.columns
    assert set(table["segment"]) == set(model.thresholds_)
    for segment, cut in model.thresholds_.items():
        own = table[table["segment"] == segment]
        assert own["threshold"].max() == np.inf
        assert own["threshold"].min() == -np.inf
        assert cut in own["threshold"].to_numpy()


def test_table_of_other_rows_and_ranked_alternatives(cards):
    X, y = cards.frame.drop(columns="date"), cards.y
    train, test = np.arange(2000), np.arange(2000, 4000)
    model = otlp(
        objective=5 * fp + fn["amount"],
        greater_is_better=False,
        constraints=precision >= 0.2,
        segments="segment",
        amounts={"amount": "amount"},
        cv=3,
    ).fit(X.iloc[train], y.iloc[train])
    table = model.table(X.iloc[test], y.iloc[test], top=3, expressions=["recall + precision", mcc])
    assert (table.groupby("segment").size() == 3).all()
    assert "mcc" in table.columns
    assert "recall + precision" in table.columns
    first = table[table["rank"] == 1].drop_duplicates("segment")
    for row in first.itertuples():
        own = test[(X["segment"] == row.segment).to_numpy()[test]]
        flagged = model.predict_proba(X.iloc[own])[:, 1] >= row.threshold
        truth = y.to_numpy()[own] == 1
        assert (row.tp, row.fp) == (np.sum(flagged & truth), np.sum(flagged & ~truth))
    everything = model.table(X.iloc[test], y.iloc[test], top=None)
    assert "rank" not in everything.columns
    weighted = model.table(
        X.iloc[test], y.iloc[test], top=None, sample_weight=np.repeat([0, 2], 1000)
    )
    assert weighted["tp"].max() <= 2 * everything["tp"].max()
    with pytest.raises(ValueError, match="labels other than"):
        model.table(X.iloc[test], np.full(2000, 7))
    with pytest.raises(ValueError, match="top=0"):
        model.table(X.iloc[test], y.iloc[test], top=0)


def test_candidates_of_the_rows_of_the_search_are_its_own(cards):
    X, y = cards.frame, cards.y
    inner = LogisticRegression().fit(X[FEATURES], y)
    model = otlp(
        FrozenEstimator(inner),
        objective=5 * fp + fn["amount"],
        greater_is_better=False,
        constraints=[precision >= 0.2, capacity(30, per="date")],
        segments="segment",
        amounts={"amount": "amount"},
        estimator_columns=FEATURES,
        thresholds=20,
    ).fit(X, y)
    found = model.candidates(X, y, expressions=['fn["x1"]'], amounts=X[["x1"]])
    assert found.grid is None
    assert found.columns.keys() == {"amount", "x1"}
    every = model.set_params(thresholds="all").fit(X, y).search_.tables
    assert found.segments == every.segments
    np.testing.assert_array_equal(found.above, every.above)
    for g in range(len(found.segments)):
        one, two = found.counts(g), every.counts(g)
        np.testing.assert_array_equal(one.tp, two.tp)
        np.testing.assert_array_equal(*(side.columns["amount"].fn for side in (one, two)))
    one, two = found.groups["date"], every.groups["date"]
    np.testing.assert_array_equal(np.sort(one.candidate), np.sort(two.candidate))
    assert list(one.names) == list(two.names)
    half = model.candidates(X, y, sample_weight=np.repeat([0, 1], 2000))
    cut = model.candidates(X.iloc[2000:], y.iloc[2000:])
    np.testing.assert_array_equal(half.above, cut.above)
    with pytest.raises(ValueError, match="X lacks the column 'date'"):
        model.candidates(X.drop(columns="date"), y)


def test_table_on_a_given_grid(cards):
    model = otlp(thresholds=[0.1, 0.3, 0.5], cv=2).fit(cards.X, cards.y)
    assert model.threshold_ in {0.1, 0.3, 0.5}
    table = model.table(cards.X, cards.y, top=None)
    assert table["threshold"].tolist() == [np.inf, 0.5, 0.3, 0.1, -np.inf]
    assert len(otlp(thresholds=20, cv=2).fit(cards.X, cards.y).threshold_table_) == 22


# --------------------------------------------------------------------------------------------
# Anything as X and as inner model


def test_text():
    y = np.tile([0, 0, 1], 40)
    texts = [
        ("cheap pills now" if label else "see you at lunch") + f" {i}" for i, label in enumerate(y)
    ]
    inner = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = otlp(inner, cv=3).fit(texts, y)
    assert model.predict(texts).tolist() == y.tolist()
    by_length = otlp(inner, cv=3, segments=lambda X: [len(text) > 17 for text in X])
    assert set(by_length.fit(texts, y).thresholds_) == {False, True}
    assert otlp(inner, cv=3).fit(pd.Series(texts), y).thresholds_ == model.thresholds_
    rows = [{"spam": int(label), "noise": i} for i, label in enumerate(y)]
    dicts = otlp(make_pipeline(DictVectorizer(), LogisticRegression()), cv=3)
    assert dicts.fit(rows, y).predict(rows).tolist() == y.tolist()


@pytest.mark.parametrize(
    "form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array]
)
def test_sparse(numbers, form):
    X, y = numbers[0][:, :5], numbers[1]
    dense = otlp(cv=3).fit(X, y)
    model = otlp(cv=3).fit(form(X), y)
    assert model.thresholds_ == pytest.approx(dense.thresholds_)
    with_segment = np.column_stack([X, np.arange(600) % 2])
    model = otlp(cv=3, segments=5).fit(form(with_segment), y)
    reference = otlp(cv=3, segments=5).fit(with_segment, y)
    assert model.thresholds_ == pytest.approx(reference.thresholds_)
    assert model.n_features_in_ == 5
    np.testing.assert_array_equal(
        model.predict(form(with_segment)), reference.predict(with_segment)
    )


def test_features_that_are_nan(numbers):
    X, y = numbers[0].copy(), numbers[1]
    X[::3, 0] = np.nan
    inner = HistGradientBoostingClassifier(max_iter=10)
    assert otlp(inner, cv=2).fit(X, y).predict(X).shape == (600,)


def test_xgboost(cards):
    xgboost = pytest.importorskip("xgboost")
    X = cards.frame.drop(columns=["date", "amount"])
    inner = xgboost.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1)
    model = otlp(
        inner,
        objective="recall",
        constraints=each_segment(precision >= 0.3),
        segments="segment",
        cv=3,
    ).fit(X, cards.y)
    np.testing.assert_array_equal(model.predict(X), flags(model, X, cards.segment))
    assert all(line["met"] for line in model.constraint_report_)


def test_in_a_pipeline_and_around_one(numbers):
    X, y = numbers
    inside = make_pipeline(StandardScaler(), otlp(cv=3)).fit(X, y)
    around = otlp(make_pipeline(StandardScaler(), LogisticRegression()), cv=3).fit(X, y)
    assert inside.predict(X).shape == around.predict(X).shape == (600,)
    assert inside.score(X, y) > 0.8
    assert around.n_features_in_ == 21
    named = Pipeline([("scale", StandardScaler().set_output(transform="pandas")), ("cut", otlp())])
    named.fit(pd.DataFrame(X, columns=[f"c{i}" for i in range(21)]), y)
    assert list(named[-1].feature_names_in_) == [f"c{i}" for i in range(21)]


def test_imbalanced_learn_pipeline_inside(numbers):
    imblearn = pytest.importorskip("imblearn.pipeline")
    from imblearn.under_sampling import RandomUnderSampler

    X, y = numbers
    sampler = RandomUnderSampler(random_state=0)
    sampled = imblearn.make_pipeline(sampler, LogisticRegression())
    model = otlp(sampled, cv=3).fit(X, y)
    # counted on the rows as they came, not on the sampled ones
    assert float(model.search_.counts.n) == 600
    message = r"RandomUnderSampler.*FrozenEstimator\(pipeline\)"
    with pytest.raises(ValueError, match=message):
        otlp(sampled).fit(X, y, sample_weight=np.ones(600))
    with pytest.raises(ValueError, match=message):
        otlp(make_pipeline(StandardScaler(), sampled)).fit(X, y, sample_weight=np.ones(600))
    with pytest.raises(ValueError, match=message):
        otlp(GridSearchCV(sampled, {})).fit(X, y, sample_weight=np.ones(600))
    # the cure in the message works
    frozen = otlp(FrozenEstimator(sampled.fit(X[:300], y[:300])))
    frozen.fit(X[300:], y[300:], sample_weight=np.full(300, 2))
    assert float(frozen.search_.counts.n) == 600


def test_check_pipeline():
    imblearn = pytest.importorskip("imblearn.pipeline")
    from imblearn.over_sampling import RandomOverSampler

    before = imblearn.make_pipeline(RandomOverSampler(), StandardScaler(), otlp())
    with pytest.warns(UserWarning, match="'randomoversampler' comes before 'otlpthreshold"):
        assert check_pipeline(before) is before
    with pytest.warns(UserWarning, match="'randomoversampler' comes before"):
        check_pipeline(GridSearchCV(before, {}))
    nested = imblearn.make_pipeline(RandomOverSampler(), make_pipeline(StandardScaler(), otlp()))
    with pytest.warns(UserWarning, match="'randomoversampler' comes before 'pipeline'"):
        check_pipeline(nested)
    inside = otlp(imblearn.make_pipeline(RandomOverSampler(), LogisticRegression()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_pipeline(inside) is inside
        check_pipeline(make_pipeline(StandardScaler(), inside))
    with pytest.raises(TypeError, match="no pipeline"):
        check_pipeline(otlp())


def after_sampler(*steps):
    """Return a pipeline of an undersampler and some steps."""
    return make_sampled(RandomUnderSampler(random_state=0), *steps)


def stacked(model):
    """Return a stack of what a model predicts."""
    return StackingClassifier([("inner", model)], LogisticRegression())


@pytest.mark.parametrize("threshold", ["tuned", "train"])
@pytest.mark.parametrize(
    ("pipe", "name"),
    [
        (after_sampler, "adversarialmetricclassifier"),
        (lambda game: after_sampler(StandardScaler(), game), "adversarialmetricclassifier"),
        (lambda game: after_sampler(make_pipeline(StandardScaler(), game)), "pipeline"),
        (lambda game: after_sampler(GridSearchCV(game, {"C": [0.1, 1.0]})), "gridsearchcv"),
        (lambda game: GridSearchCV(after_sampler(game), {}), "adversarialmetricclassifier"),
        (lambda game: FrozenEstimator(after_sampler(game)), "adversarialmetricclassifier"),
        (lambda game: FixedThresholdClassifier(after_sampler(game)), "adversarialmetricclassifier"),
        (
            lambda game: stacked(after_sampler(StandardScaler(), game)),
            "adversarialmetricclassifier",
        ),
        (lambda game: after_sampler(stacked(game)), "stackingclassifier"),
        # the same pipeline inside a threshold search and outside of one
        (
            lambda game: VotingClassifier(
                [("cut", otlp(pipe := after_sampler(game))), ("plain", pipe)]
            ),
            "adversarialmetricclassifier",
        ),
    ],
)
def test_check_pipeline_tells_of_a_cut_on_sampled_rows(threshold, pipe, name):
    before = pipe(AdversarialMetricClassifier(threshold=threshold))
    text = (
        rf"'randomundersampler' comes before '{name}', so its cut \(threshold='{threshold}'\) "
        r".* precision looks too good .* OTLPThresholdClassifier\(make_pipeline\("
    )
    with pytest.warns(UserWarning, match=text) as told:
        assert check_pipeline(before) is before
    assert len(told) == 1


GAME = AdversarialMetricClassifier()


@pytest.mark.parametrize(
    "pipe",
    [
        lambda: otlp(after_sampler(GAME)),
        lambda: otlp(after_sampler(StandardScaler(), GAME)),
        lambda: otlp(after_sampler(make_pipeline(StandardScaler(), GAME))),
        lambda: otlp(GridSearchCV(after_sampler(GAME), {})),
        lambda: otlp(after_sampler(GridSearchCV(GAME, {"C": [0.1, 1.0]}))),
        lambda: GridSearchCV(otlp(after_sampler(GAME)), {}),
        lambda: make_pipeline(StandardScaler(), otlp(after_sampler(GAME))),
        lambda: otlp(FrozenEstimator(after_sampler(GAME))),
        lambda: otlp(stacked(after_sampler(GAME))),
        lambda: stacked(otlp(after_sampler(GAME))),
        lambda: TunedThresholdClassifierCV(after_sampler(GAME)),
        lambda: CalibratedClassifierCV(after_sampler(GAME)),
        # the cut is not chosen on the rows of the step
        lambda: after_sampler(FrozenEstimator(GAME)),
        lambda: after_sampler(AdversarialMetricClassifier(count="expected", threshold="sign")),
        lambda: make_pipeline(StandardScaler(), GAME),
        lambda: after_sampler(InstanceHardnessThreshold(estimator=GAME), LogisticRegression()),
    ],
)
def test_check_pipeline_is_silent_where_the_cut_is_chosen_elsewhere(pipe):
    whole = pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_pipeline(whole) is whole


def test_check_pipeline_tells_of_thresholds_once():
    with pytest.warns(UserWarning, match="its thresholds would be chosen") as told:
        check_pipeline(after_sampler(otlp(GAME)))
    assert len(told) == 1
    # each of two troubles in one step
    both = VotingClassifier([("cut", GAME), ("rate", DownsampledClassifier(LogisticRegression()))])
    with (
        pytest.warns(UserWarning, match="for the population"),
        pytest.warns(UserWarning, match="so its cut"),
    ):
        check_pipeline(after_sampler(both))


def test_a_cut_on_sampled_rows_does_what_check_pipeline_says():
    cards = make_rare_events(6_000, prevalence=0.03, random_state=0)
    old, new = slice(0, 3_000), slice(3_000, None)
    pipe = after_sampler(AdversarialMetricClassifier(threshold="train")).fit(
        cards.X[old], cards.y[old]
    )
    promised = pipe[-1].threshold_search_.objective_value
    assert promised > 2 * f1(cards.y[new], pipe.predict(cards.X[new]))
    cure = otlp(after_sampler(AdversarialMetricClassifier(threshold="train")), objective="f1")
    cure.fit(cards.X[old], cards.y[old])
    assert f1(cards.y[new], cure.predict(cards.X[new])) > 1.2 * f1(
        cards.y[new], pipe.predict(cards.X[new])
    )


# --------------------------------------------------------------------------------------------
# Real data


def real(name):
    folder = Path(os.environ.get("IMBFIT_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / f"{name}.parquet").exists():
        pytest.skip(f"{name}.parquet is not in {folder}; set IMBFIT_DATA to the folder that has it")
    return pd.read_parquet(folder / f"{name}.parquet")


def test_claims_reviewed_under_a_capacity_and_a_precision_in_each_region():
    data = real("norauto")
    X, y = data.drop(columns=["NbClaim", "ClaimAmount"]), (data["NbClaim"] > 0).astype(int)
    inner = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["DistLimit"]), remainder="passthrough"),
        LogisticRegression(),
    )
    model = otlp(
        inner,
        objective="recall",
        constraints=[capacity(100, per=1000), each_segment(precision >= 0.08)],
        segments="GeoRegion",
    ).fit(X, y)
    assert (model.status_, model.gap_) == ("optimal", 0)
    score = cross_val_predict(inner, X.drop(columns="GeoRegion"), y, method="predict_proba")[:, 1]
    flagged = score >= X["GeoRegion"].map(model.thresholds_)
    assert flagged.mean() <= 0.1
    assert (y[flagged].groupby(X["GeoRegion"][flagged]).mean() >= 0.08).all()
    assert recall(y, flagged.astype(int)) == pytest.approx(model.objective_value_, abs=1e-12)
    # one threshold for all regions is one of the choices, and no better
    alone = otlp(inner, objective="recall", constraints=[capacity(100, per=1000)])
    alone.fit(X.drop(columns="GeoRegion"), y)
    assert model.objective_value_ >= alone.objective_value_


def test_money_lost_to_fraud_is_the_least_that_two_thresholds_can_reach():
    data = real("ulb_fraud_truncated_113922")
    X, y = data.drop(columns="Class"), data["Class"]
    money, high = X["Amount"].to_numpy(), (X["Amount"] > X["Amount"].median()).to_numpy()
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    model = otlp(
        inner,
        objective=5 * fp + fn["amount"],
        greater_is_better=False,
        amounts={"amount": "Amount"},
        constraints=[pp <= 150, tp["amount"] / ap["amount"] >= 0.3],
        segments=lambda X: X["Amount"] > data["Amount"].median(),
    ).fit(X, y)
    score = cross_val_predict(inner, X.drop(columns="Amount"), y, method="predict_proba")[:, 1]

    def prefixes(part):
        """Flagged, false alarms and money caught, for each threshold of a part."""
        order = np.flatnonzero(part)[np.argsort(-score[part], kind="stable")]
        last = np.r_[np.diff(score[order]) != 0, True]
        sums = (np.ones(len(order)), y.to_numpy()[order] == 0, (money * y.to_numpy())[order])
        sums = [np.r_[0, np.cumsum(s)[last]] for s in sums]
        return [s[sums[0] <= 150] for s in sums]

    size, alarms, caught = (
        np.add.outer(a, b) for a, b in zip(prefixes(high), prefixes(~high), strict=True)
    )
    total = money[y == 1].sum()
    allowed = (size <= 150) & (caught >= 0.3 * total)
    assert model.objective_value_ == (5 * alarms + total - caught)[allowed].min()
    assert model.gap_ == 0
    assert model.predict(X.drop(columns="V1").assign(V1=X["V1"])).sum() > 0


# --------------------------------------------------------------------------------------------
# The contract


def test_is_a_classifier_with_the_inner_models_tags():
    model = otlp()
    assert is_classifier(model)
    tags = sklearn.utils.get_tags(model)
    assert tags.classifier_tags.multi_class is False
    assert tags.input_tags.sparse
    assert not tags.input_tags.allow_nan
    assert sklearn.utils.get_tags(otlp(HistGradientBoostingClassifier())).input_tags.allow_nan


def test_clone_params_and_pickle(cards):
    X = cards.frame.drop(columns=["date", "amount"])
    model = otlp(
        objective=recall,
        constraints=[each_segment(precision >= 0.3), capacity(30, per=1000)],
        segments="segment",
        cv=3,
    )
    copy = clone(model)
    assert copy.get_params()["constraints"] == model.constraints
    assert copy.set_params(estimator__C=0.5, objective="f2").estimator.C == 0.5
    model.fit(X, cards.y)
    again = pickle.loads(pickle.dumps(model))
    assert again.thresholds_ == model.thresholds_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.threshold_table_.equals(model.threshold_table_)


def test_html_and_text_repr(cards):
    model = otlp(constraints=[precision >= 0.3], objective=5 * fp + fn, greater_is_better=False)
    assert "objective=5 * fp + fn" in repr(model)
    assert "LogisticRegression" in model._repr_html_()
    fitted = model.fit(cards.X, cards.y)
    assert "LogisticRegression" in fitted._repr_html_()
    # showing a model must not build its tables, nor search its folds
    assert not {"threshold_table_", "fold_thresholds_"} & set(vars(fitted))
    assert {"threshold_", "thresholds_"} < set(dir(fitted))
    assert fitted.fold_thresholds_.shape == (5,)
    assert "fold_thresholds_" in dir(fitted)


def test_search_over_model_objective_and_constraints(numbers):
    X, y = numbers[0][:, :5], numbers[1]
    grid = {
        "estimator__C": [0.01, 1],
        "objective": [f1, f2, mcc, cost(fp=1, fn=5)],
        "constraints": [(), [precision >= 0.3], "recall >= 0.5"],
    }
    search = GridSearchCV(otlp(cv=2), grid, cv=2, scoring=scorer(f2), error_score="raise")
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 24
    assert 0 < search.best_score_ <= 1
    best = clone(search.estimator).set_params(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.predict(X), best.predict(X))


def test_cross_validation_and_segments(cards):
    X = cards.frame.drop(columns=["date", "amount"])
    model = otlp(segments="segment", objective="recall", constraints=[precision >= 0.3], cv=3)
    score = cross_val_score(model, X, cards.y, cv=3, scoring=scorer(recall), error_score="raise")
    assert (score > 0.1).all()
    proba = cross_val_predict(model, X, cards.y, cv=2, method="predict_proba")
    assert proba.shape == (4000, 2)


def gain(tp, fp, fn, tn):  # noqa: ARG001
    return 2 * tp - fp


def test_a_vectorised_function_as_objective(numbers):
    X, y = numbers[0][:, :5], numbers[1]
    by_hand = otlp(objective=gain, greater_is_better=True).fit(X, y)
    formula = otlp(objective=2 * tp - fp, greater_is_better=True).fit(X, y)
    assert by_hand.thresholds_ == formula.thresholds_
    with pytest.raises(ValueError, match="one segment only"):
        otlp(
            objective=gain,
            greater_is_better=True,
            segments=lambda X: X[:, 0] > 0,
        ).fit(X, y)


def test_one_row_at_a_time_is_what_the_batch_says(cards):
    X = cards.frame.drop(columns=["date", "amount"])
    model = otlp(SGDClassifier(loss="log_loss", random_state=0), segments="segment", cv=3)
    model.fit(X, cards.y)
    batch = model.predict(X)
    alone = [model.predict(X.iloc[[row]])[0] for row in range(0, 4000, 40)]
    np.testing.assert_array_equal(alone, batch[::40])


def test_progress(numbers, capsys):
    X, y = numbers
    otlp(cv=2, verbose=1).fit(X[:, :5], y)
    assert "fold 2/2: 300 rows scored" in capsys.readouterr().out
