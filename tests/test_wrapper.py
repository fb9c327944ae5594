"""Any classifier on a sample of the negatives."""

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
from imblearn.ensemble import BalancedRandomForestClassifier
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from imblearn.under_sampling import NearMiss, RandomUnderSampler
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.inspection import partial_dependence
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from xgboost import XGBClassifier

from imbfit.datasets import make_rare_events
from imbfit.exceptions import SamplingWarning
from imbfit.glm.calibrators import SigmoidCalibrator
from imbfit.glm.correction import prior_correction
from imbfit.glm.keyed_draws import row_uniforms
from imbfit.glm.wrapper import DownsampledClassifier
from imbfit.threshold.classifier import OTLPThresholdClassifier

ROOT = Path(__file__).resolve().parents[1]

CORRECTIONS = ("prior", "isotonic", "sigmoid", None)


class Recorder(ClassifierMixin, BaseEstimator):
    """A logistic regression that remembers what its fit was given."""

    def fit(self, X, y, sample_weight=None, tone=None):
        self.seen_ = (X, y, sample_weight, tone)
        self.model_ = LogisticRegression().fit(X, y, sample_weight=sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class Score(ClassifierMixin, BaseEstimator):
    """Probability of the last class is the first column of X; nothing is learned."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.asarray(X)[:, 0].astype(float)
        return np.column_stack([1 - p, p])


class Keeper(Score):
    """Remembers the first column of all fits in the list it is given."""

    def __init__(self, seen=None):
        self.seen = seen

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y):
        self.seen.append(X[:, 0])
        return super().fit(X, y)

    def predict_proba(self, X):
        return super().predict_proba(X / 30_000)


class Drifting(Score):
    """The odds of the first column, times the number of rows seen."""

    def fit(self, X, y):
        self.log_rows_ = np.log(len(y))
        return super().fit(X, y)

    def predict_proba(self, X):
        p = expit(logit(X[:, 0]) + self.log_rows_)
        return np.column_stack([1 - p, p])


def logistic_rows(n_rows, intercept, *, slope=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 1))
    return x, (rng.random(n_rows) < expit(intercept + slope * x[:, 0])).astype(int)


RARE = make_rare_events(20_000, prevalence=0.02, random_state=0)
X, Y = RARE.X, RARE.y


def downsampled(inner=None, **params):
    inner = LogisticRegression() if inner is None else inner
    return DownsampledClassifier(inner, **{"random_state": 0, "cv": 3, **params})


def mapped(inner=None, **params):
    """Without folds: the inner model's probabilities, mapped by the rate alone."""
    return downsampled(inner, correction="prior", **params)


# Labels that are drawn at random can't be told apart, and estimators say so, as they should.
@pytest.mark.filterwarnings("ignore:out of fold:imbfit.exceptions.SamplingWarning")
@parametrize_with_checks(
    [
        DownsampledClassifier(LogisticRegression(C=1), correction="prior"),
        DownsampledClassifier(LogisticRegression(C=1)),
        DownsampledClassifier(DecisionTreeClassifier(random_state=0), correction="isotonic", cv=3),
    ]
)
def test_common_checks(estimator, check):
    check(estimator)


# What others met: undersampled scores that are no probabilities


@pytest.mark.parametrize("correction", ["prior", "isotonic", "sigmoid"])
@pytest.mark.parametrize("rate", ["balanced", 0.1, RandomUnderSampler()])
def test_the_mean_prediction_is_near_the_prevalence_after_undersampling(rate, correction):
    x, y = logistic_rows(50_000, -5)
    naive = make_sampling_pipeline(RandomUnderSampler(random_state=0), LogisticRegression())
    assert naive.fit(x, y).predict_proba(x)[:, 1].mean() > 20 * y.mean()
    ratios = []
    for seed in range(8):
        model = downsampled(sampling_rate=rate, correction=correction, random_state=seed)
        ratios.append(model.fit(x, y).predict_proba(x)[:, 1].mean() / y.mean())
        assert model.n_kept_ < 10_000
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)
    # a sample of 540 and 540 rows tells its log-odds with a standard error of 0.06
    assert np.abs(np.array(ratios) - 1).max() < 0.2


def test_the_order_stays_and_the_same_rows_are_flagged_at_the_mapped_threshold():
    train, test = slice(0, 12_000), slice(12_000, None)
    sampler = RandomUnderSampler(random_state=0)
    naive = make_sampling_pipeline(sampler, LogisticRegression()).fit(X[train], Y[train])
    model = mapped(sampling_rate=sampler).fit(X[train], Y[train])
    before, after = (m.predict_proba(X[test])[:, 1] for m in (naive, model))
    np.testing.assert_array_equal(np.argsort(before), np.argsort(after))
    cut = prior_correction(0.9, model.sampling_rate_)
    assert 0 < np.count_nonzero(before > 0.9) < 1000
    np.testing.assert_array_equal(before > 0.9, after > cut)
    assert after.mean() == pytest.approx(Y[test].mean(), rel=0.15)


def test_thresholds_around_it_are_on_the_corrected_scale():
    inner = downsampled(sampling_rate=0.1)
    tuned = OTLPThresholdClassifier(inner, cv=3, random_state=0).fit(X, Y)
    plain = OTLPThresholdClassifier(LogisticRegression(), cv=3, random_state=0).fit(X, Y)
    assert tuned.threshold_ == pytest.approx(plain.threshold_, rel=0.5)
    assert tuned.objective_value_ == pytest.approx(plain.objective_value_, rel=0.1)


def test_weights_of_full_length_are_cut_along_with_the_rows():
    weight = 1 + np.arange(len(Y)) / len(Y) / 1000
    for rate in (0.1, "balanced", RandomUnderSampler(random_state=0)):
        model = mapped(Recorder(), sampling_rate=rate).fit(X, Y, sample_weight=weight)
        seen_X, seen_y, seen_weight, _ = model.estimator_.seen_
        rows = np.rint((seen_weight - 1) * 1000 * len(Y)).astype(int)
        np.testing.assert_array_equal(seen_X, X[rows])
        np.testing.assert_array_equal(seen_y, Y[rows])
        assert len(rows) == model.n_kept_ < 5000


# The rate


def test_the_map_is_the_public_one_at_the_realised_rate():
    model = mapped(HistGradientBoostingClassifier(max_iter=10), sampling_rate=0.1).fit(X, Y)
    inner = model.estimator_.predict_proba(X)
    expected = prior_correction(inner, model.sampling_rate_)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-12)
    # the realised rate, and not the one asked for
    assert model.sampling_rate_ != 0.1
    assert model.sampling_rate_ == (model.n_kept_ - Y.sum()) / np.count_nonzero(Y == 0)
    assert model.positive_sampling_rate_ == 1


def test_the_negatives_are_those_whose_keyed_number_is_below_the_rate():
    model = mapped(Recorder(), sampling_rate=0.1, random_state=7).fit(X, Y)
    kept = (row_uniforms(7, 0, 0, len(Y)) < 0.1) | (Y == 1)
    np.testing.assert_array_equal(model.estimator_.seen_[0], X[kept])


def test_balanced_keeps_about_as_many_negatives_as_positives():
    model = mapped().fit(X, Y)
    negatives = model.n_kept_ - Y.sum()
    assert abs(negatives - Y.sum()) < 4 * np.sqrt(Y.sum())


def test_a_rate_of_one_is_the_inner_model():
    inner = LogisticRegression().fit(X, Y)
    model = mapped(sampling_rate=1.0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), inner.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), inner.decision_function(X), rtol=1e-9)
    assert model.n_kept_ == len(Y)
    assert model.sampling_rate_ == 1


def test_a_sampler_that_thins_the_positives_too():
    sampler = RandomUnderSampler(sampling_strategy={0: 1500, 1: 100}, random_state=0)
    model = mapped(sampling_rate=sampler).fit(X, Y)
    assert model.n_kept_ == 1600
    assert model.sampling_rate_ == 1500 / np.count_nonzero(Y == 0)
    assert model.positive_sampling_rate_ == 100 / Y.sum()
    ratio = model.sampling_rate_ / model.positive_sampling_rate_
    inner = model.estimator_.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X), prior_correction(inner, ratio), rtol=1e-12)


def test_positives_thinned_more_than_negatives():
    sampler = RandomUnderSampler(sampling_strategy={0: 15_000, 1: 100}, random_state=0)
    model = mapped(sampling_rate=sampler).fit(X, Y)
    ratio = model.sampling_rate_ / model.positive_sampling_rate_
    assert ratio > 1
    inner = logit(model.estimator_.predict_proba(X)[:, 1])
    np.testing.assert_allclose(model.decision_function(X), inner + np.log(ratio), rtol=1e-9)
    assert model.calibration_ratio_ == pytest.approx(1, abs=0.2)


def test_the_sampler_s_own_seed_comes_first():
    own, free = RandomUnderSampler(random_state=1), RandomUnderSampler()
    kept = [
        mapped(Recorder(), sampling_rate=sampler, random_state=state).fit(X, Y).estimator_.seen_[0]
        for sampler, state in ((own, 0), (own, 5), (free, 0), (free, 0), (free, 5))
    ]
    np.testing.assert_array_equal(kept[0], kept[1])
    np.testing.assert_array_equal(kept[2], kept[3])
    assert not np.array_equal(kept[2], kept[4])


# the draw without a seed may be an odd one, and say so
@pytest.mark.filterwarnings("ignore::imbfit.exceptions.SamplingWarning")
def test_random_states():
    one = mapped(random_state=3).fit(X, Y)
    two = mapped(random_state=3).fit(X, Y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    other = mapped(random_state=4).fit(X, Y)
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))
    for state in (None, np.random.RandomState(0)):
        assert mapped(random_state=state).fit(X, Y).n_kept_ < 2000


def test_weights_enter_the_realised_rate():
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, len(Y)).astype(float)
    model = mapped(Recorder(), sampling_rate=0.2).fit(X, Y, sample_weight=weight)
    _, seen_y, seen_weight, _ = model.estimator_.seen_
    assert model.sampling_rate_ == pytest.approx(
        seen_weight[seen_y == 0].sum() / weight[Y == 0].sum(), rel=1e-12
    )
    # a row without weight is no row
    assert seen_weight.min() == 1
    assert model.n_kept_ == len(seen_y)
    balanced = mapped(Recorder()).fit(X, Y, sample_weight=np.where(Y == 1, 3.0, 1.0))
    assert balanced.sampling_rate_ == pytest.approx(3 * Y.sum() / np.sum(Y == 0), rel=0.1)


def test_weights_do_in_the_mean_what_repeated_rows_do():
    x, y = logistic_rows(3000, -3)
    times = np.random.default_rng(1).integers(1, 4, len(y))
    again = np.repeat(np.arange(len(y)), times)
    inner = LogisticRegression(C=np.inf)
    gaps = []
    for seed in range(30):
        weighted = mapped(inner, sampling_rate=0.3, random_state=seed)
        weighted.fit(x, y, sample_weight=times)
        repeated = mapped(inner, sampling_rate=0.3, random_state=seed).fit(x[again], y[again])
        grid = np.array([[-1.0], [0.0], [1.0]])
        gaps.append(weighted.decision_function(grid) - repeated.decision_function(grid))
    error = np.std(gaps, axis=0) / np.sqrt(len(gaps))
    assert (error > 0).all()
    assert (np.abs(np.mean(gaps, axis=0)) < 4 * error).all()


@pytest.mark.filterwarnings("ignore:the mean prediction:imbfit.exceptions.SamplingWarning")
def test_a_model_that_takes_no_weights_is_mapped_to_the_weighted_prevalence():
    weight = np.where(Y == 1, 1.0, 5.0)
    inner = KNeighborsClassifier(200)
    with pytest.warns(UserWarning, match="KNeighborsClassifier.fit takes no sample_weight"):
        model = mapped(inner, sampling_rate=0.1).fit(X[:5000], Y[:5000], weight[:5000])
    plain = mapped(inner, sampling_rate=0.1).fit(X[:5000], Y[:5000])
    # the same rows, each negative standing for five
    assert model.sampling_rate_ == pytest.approx(plain.sampling_rate_, rel=1e-12)
    p, five = (m.predict_proba(X[:500])[:, 1] for m in (plain, model))
    np.testing.assert_allclose(five, p / (p + 5 * (1 - p)), rtol=1e-9)
    assert five.max() > 0


# Presampled rows


def thinned(rate=0.1, seed=1):
    kept = (Y == 1) | (np.random.default_rng(seed).random(len(Y)) < rate)
    return X[kept], Y[kept]


@pytest.mark.parametrize("correction", ["prior", "isotonic", "sigmoid"])
def test_presampled_rows_give_the_same_as_a_draw_of_the_same_rows(correction):
    drawn = mapped(Recorder(), sampling_rate=0.1).fit(X, Y)
    rows_X, rows_y = drawn.estimator_.seen_[:2]
    for parameters in (
        {"sampling_rate": drawn.sampling_rate_},
        {"prevalence": Y.mean()},
        {"sampling_rate": None, "prevalence": Y.mean()},
    ):
        given = downsampled(presampled=True, correction=correction, **parameters)
        given.fit(rows_X, rows_y)
        assert given.n_kept_ == len(rows_y)
        assert given.sampling_rate_ == pytest.approx(drawn.sampling_rate_, rel=1e-12)
        assert given.calibration_ratio_ == pytest.approx(1, abs=0.03)
        if correction == "prior":
            np.testing.assert_allclose(given.predict_proba(X), drawn.predict_proba(X), rtol=1e-9)
        assert given.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), rel=0.1)


def test_a_sampler_earlier_in_the_pipeline():
    pipe = make_sampling_pipeline(
        RandomUnderSampler(sampling_strategy=0.1, random_state=0),
        downsampled(presampled=True, prevalence=Y.mean()),
    ).fit(X, Y)
    assert pipe.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), rel=0.05)
    untold = make_sampling_pipeline(RandomUnderSampler(random_state=0), downsampled())
    with pytest.warns(SamplingWarning, match="what a sampler before this estimator leaves behind"):
        untold.fit(X, Y)
    unknown = make_sampling_pipeline(RandomUnderSampler(), downsampled(presampled=True))
    with pytest.raises(ValueError, match=re.escape("sampling_rate=RandomUnderSampler(...)")):
        unknown.fit(X, Y)


def test_weights_of_presampled_rows_enter_the_rate_by_prevalence():
    few_X, few_y = thinned()
    weight = np.where(few_y == 1, 2.0, 1.0)
    model = mapped(presampled=True, prevalence=0.05).fit(few_X, few_y, sample_weight=weight)
    negatives, positives = np.sum(few_y == 0), 2 * few_y.sum()
    assert model.sampling_rate_ == pytest.approx(negatives / positives * 0.05 / 0.95, rel=1e-12)
    with pytest.raises(ValueError, match="above the share of positives"):
        mapped(presampled=True, prevalence=0.5).fit(few_X, few_y)


def test_a_calibrator_of_presampled_rows_counts_negatives_by_the_rows_they_stand_for():
    # the score is one and the same, so what is learned is the prevalence
    few_X, few_y = thinned()
    for correction in ("isotonic", "sigmoid"):
        model = downsampled(
            DummyClassifier(), presampled=True, sampling_rate=0.1, correction=correction
        )
        with pytest.warns(SamplingWarning, match="every row gets the prevalence"):
            model.fit(few_X, few_y)
        stands_for = few_y.sum() + np.sum(few_y == 0) / 0.1
        assert model.predict_proba(X)[0, 1] == pytest.approx(few_y.sum() / stands_for, rel=1e-3)


# Calibration on rows at their natural rate


@pytest.mark.parametrize("correction", ["isotonic", "sigmoid"])
def test_models_without_probabilities_are_calibrated_from_their_decision_values(correction):
    for inner in (LinearSVC(), RidgeClassifier()):
        model = downsampled(inner, correction=correction, sampling_rate=0.1).fit(X, Y)
        p = model.predict_proba(X)[:, 1]
        assert p.mean() == pytest.approx(Y.mean(), rel=0.05)
        assert log_loss(Y, p) < 0.95 * log_loss(Y, np.full(len(Y), Y.mean()))


def test_the_prior_map_refuses_models_without_probabilities():
    for inner in (LinearSVC(), make_pipeline(StandardScaler(), LinearSVC())):
        with pytest.raises(ValueError, match="pass correction='sigmoid' or 'isotonic'"):
            mapped(inner).fit(X, Y)


def test_a_sigmoid_mends_a_model_that_is_too_sure_of_itself():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-4, 1, 40_000))
    y = (rng.random(len(p)) < p).astype(int)
    # the sample shows the odds times ten, and the model doubles its log-odds
    overconfident = expit(2 * (logit(p) + np.log(10)))
    inner, rows = Score(), overconfident[:, np.newaxis]
    with pytest.warns(SamplingWarning, match="times their prevalence"):
        mapped(inner, sampling_rate=0.1).fit(rows, y)
    model = downsampled(inner, sampling_rate=0.1, correction="sigmoid").fit(rows, y)
    assert model.calibrator_.slope == pytest.approx(0.5, abs=0.04)
    np.testing.assert_allclose(model.decision_function(rows), logit(p), atol=0.3)
    curve = downsampled(inner, sampling_rate=0.1, correction="isotonic").fit(rows, y)
    assert np.abs(curve.predict_proba(rows)[:, 1] - p).mean() < 0.1 * p.mean()
    assert curve.calibrator_.shift == pytest.approx(0, abs=0.01)


def test_an_overgrown_forest_is_mended():
    train, test = train_test_split(np.arange(len(Y)), stratify=Y, random_state=0)
    loss = {}
    for correction in ("prior", "isotonic", "sigmoid"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)
            forest = RandomForestClassifier(30, random_state=0)
            model = downsampled(forest, correction=correction).fit(X[train], Y[train])
        p = model.predict_proba(X[test])[:, 1]
        loss[correction] = log_loss(Y[test], p)
        if correction != "prior":
            assert p.mean() == pytest.approx(Y[test].mean(), rel=0.18)  # two standard errors
    assert loss["sigmoid"] < loss["prior"]
    assert loss["isotonic"] < loss["prior"]


def test_probabilities_of_0_and_1_are_calibrated_to_something_between():
    tree = DecisionTreeClassifier(random_state=0)
    model = downsampled(tree, correction="sigmoid", sampling_rate=0.2).fit(X, Y)
    assert set(np.unique(model.estimator_.predict_proba(X))) == {0.0, 1.0}
    p = model.predict_proba(X)[:, 1]
    assert 0 < p.min() < p.max() < 1
    assert np.isfinite(model.calibrator_.low)
    assert np.isfinite(model.calibrator_.high)


def test_the_same_score_for_all_rows():
    with pytest.warns(SamplingWarning, match="tell nothing and every row gets the prevalence"):
        model = downsampled(DummyClassifier(), correction="sigmoid").fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], Y.mean(), rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_scores_that_separate_the_classes_give_a_finite_line(scale):
    score = np.r_[np.linspace(-3, -1, 90), np.linspace(1, 3, 10)]
    positive = np.arange(100) >= 90
    line = SigmoidCalibrator.learned(score, positive, np.full(100, scale), from_log_odds=True)
    p = expit(line.log_odds(score))
    assert np.isfinite(line.slope)
    assert p.mean() == pytest.approx(0.1, rel=0.02)
    assert p[positive].min() > 0.5 > p[~positive].max()
    # ten rows don't tell more than eleven of twelve
    assert 0.8 < p[positive].mean() < 11 / 12


def test_a_model_whose_order_is_wrong_out_of_fold_is_not_turned_around():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-3, 1, 20_000))
    y = (rng.random(len(p)) < p).astype(int)
    rows = 1 - p[:, np.newaxis]
    for correction in ("sigmoid", "isotonic"):
        model = downsampled(Score(), correction=correction, sampling_rate=0.2)
        with pytest.warns(SamplingWarning, match=r"rows of the class 1 no higher than others"):
            model.fit(rows, y)
        assert np.ptp(model.predict_proba(rows)[:, 1]) == 0
        assert model.predict_proba(rows)[0, 1] == pytest.approx(y.mean(), rel=1e-6)
    # the same where the wrong order is perfect, which alone would make the line infinitely steep
    line = SigmoidCalibrator.learned(
        np.r_[np.linspace(1, 3, 90), np.linspace(-3, -1, 10)],
        np.arange(100) >= 90,
        np.ones(100),
        from_log_odds=True,
    )
    assert line.flat
    np.testing.assert_allclose(expit(line.log_odds(np.array([-9.0, 0.0, 9.0]))), 0.1, rtol=1e-9)


def test_folds_are_scored_by_models_that_have_not_seen_them():
    # a model that knows its rows by heart learns nothing about others
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4000, 3))
    y = (rng.random(4000) < 0.1).astype(int)
    model = downsampled(
        DecisionTreeClassifier(random_state=0), correction="sigmoid", sampling_rate=0.5
    ).fit(noise, y)
    assert abs(model.calibrator_.slope) < 0.2
    fresh = rng.normal(size=(4000, 3))
    assert model.predict_proba(fresh)[:, 1].mean() == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("correction", ["isotonic", "sigmoid"])
def test_the_mean_is_right_where_the_folds_models_are_unlike_the_final_one(correction):
    rng = np.random.default_rng(0)
    p = expit(rng.normal(-3, 1, 20_000))
    y = (rng.random(len(p)) < p).astype(int)
    rows = p[:, np.newaxis]
    model = downsampled(Drifting(), correction=correction, cv=2, sampling_rate=0.2).fit(rows, y)
    # half the rows, half the odds
    shift = model.calibrator_.shift if correction == "isotonic" else np.log(0.5)
    assert shift == pytest.approx(np.log(0.5), abs=0.05)
    found = model.predict_proba(rows)[:, 1]
    assert found.mean() == pytest.approx(p.mean(), rel=0.03)
    assert np.abs(found - p).mean() < 0.2 * p.mean()


@pytest.mark.parametrize(
    "cv",
    [
        StratifiedKFold(4),
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        ShuffleSplit(3, test_size=0.3, random_state=0),
        list(StratifiedKFold(3).split(X, Y)),
    ],
)
def test_splitters(cv):
    model = downsampled(correction="sigmoid", cv=cv).fit(X, Y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), rel=0.05)


def test_splits_as_masks_are_those_as_positions():
    splits = list(StratifiedKFold(3).split(X, Y))
    masks = [tuple(np.isin(np.arange(len(Y)), part) for part in split) for split in splits]
    one, two = (downsampled(correction="isotonic", cv=cv).fit(X, Y) for cv in (splits, masks))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_groups_stay_together():
    groups = np.arange(len(Y)) % 5
    one = downsampled(correction="sigmoid", cv=GroupKFold(5)).fit(X, Y, groups=groups)
    splits = list(GroupKFold(5).split(X, Y, groups))
    two = downsampled(correction="sigmoid", cv=splits).fit(X, Y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_jobs_change_nothing():
    with joblib.parallel_config(backend="threading"):
        one, two = (downsampled(correction="sigmoid", n_jobs=n).fit(X, Y) for n in (None, 2))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


# The default: a line through out-of-fold scores of five folds


def at_defaults(inner=None, **params):
    inner = LogisticRegression() if inner is None else inner
    return DownsampledClassifier(inner, random_state=0, **params)


def test_the_default_is_a_line():
    default = at_defaults().fit(X, Y)
    said = at_defaults(correction="sigmoid", cv=5).fit(X, Y)
    np.testing.assert_array_equal(default.predict_proba(X), said.predict_proba(X))
    assert isinstance(default.calibrator_, SigmoidCalibrator)
    inner = logit(default.estimator_.predict_proba(X)[:, 1]) + np.log(default.sampling_rate_)
    line = default.calibrator_
    np.testing.assert_allclose(
        default.decision_function(X), line.slope * inner + line.intercept, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "inner",
    [
        RandomForestClassifier(30, random_state=0),
        # by itself it stops early from 10,000 rows on, which the whole has and no fold
        HistGradientBoostingClassifier(max_iter=50, early_stopping=False),
    ],
)
@pytest.mark.parametrize("rate", ["balanced", 1.0])
def test_trees_at_their_defaults_are_right_in_the_mean(inner, rate):
    train, test = train_test_split(np.arange(len(Y)), stratify=Y, test_size=0.4, random_state=0)
    model = at_defaults(inner, sampling_rate=rate).fit(X[train], Y[train])
    p = model.predict_proba(X[test])[:, 1]
    assert p.mean() == pytest.approx(Y[test].mean(), rel=2 / np.sqrt(Y[test].sum()))
    assert log_loss(Y[test], p) < 0.8 * log_loss(Y[test], np.full(len(p), Y.mean()))
    assert (model.n_kept_, model.sampling_rate_) == (12_000, 1) or rate == "balanced"


def few_rows(few, n_rows=400, *, rare=1):
    """Return rows whose `few` of one class lie apart from the others, but for one of them."""
    x = np.random.default_rng(few).normal(size=(n_rows, 3))
    x[:few, 0] += 5
    return x, np.where(np.arange(n_rows) < few, rare, 1 - rare)


# more folds than rows of a class: no warning of scikit-learn's, and no error
@pytest.mark.parametrize("few", [2, 3, 4])
@pytest.mark.parametrize("rate", [0.2, 1.0])
@pytest.mark.parametrize("rare", [0, 1])
@pytest.mark.parametrize("correction", ["sigmoid", "isotonic"])
def test_few_rows_of_a_class(few, rate, rare, correction):
    x, y = few_rows(few, rare=rare)
    model = at_defaults(sampling_rate=rate, pos_label=rare, correction=correction).fit(x, y)
    p = model.predict_proba(x)[:, rare]
    # where scores tell the classes apart, as if one row of each belonged to the other
    assert p.mean() == pytest.approx(few / len(y), rel=1 / few + 0.1)
    assert p[:few].mean() > 10 * p[few:].mean()
    as_many = at_defaults(sampling_rate=rate, pos_label=rare, correction=correction, cv=few)
    np.testing.assert_array_equal(as_many.fit(x, y).predict_proba(x)[:, rare], p)


def test_few_negatives():
    x, y = few_rows(3, 40, rare=0)
    model = at_defaults(sampling_rate=1.0).fit(x, y)
    assert model.predict_proba(x)[:, 0].mean() == pytest.approx(3 / 40, rel=0.5)


@pytest.mark.parametrize("few", [2, 3, 4])
def test_few_positives_and_a_rate_that_leaves_a_fold_without_negatives(few):
    x, y = few_rows(few)
    where = "" if few == 2 else r" among the training rows of fold \d of cv"
    message = rf"kept none of the \d+ negatives{where}, so only one class is left"
    # of 400 negatives few are drawn
    for seed in range(200):
        model = at_defaults(sampling_rate=few / 400).set_params(random_state=seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SamplingWarning)
                model.fit(x, y)
        except ValueError as error:
            found = str(error)
            assert "give a rate that keeps at least some dozens" in found
            if "fold" in found:
                assert "or pass correction='prior', which needs no folds" in found
            if re.search(message, found):
                break
    else:
        pytest.fail("no draw left a fold without negatives")
    if few > 2:
        model.set_params(correction="prior")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)
            assert model.fit(x, y).n_kept_ > few


def test_boosted_trees_that_learn_nothing_from_few_rows_say_so():
    # no leaf of twenty rows can be split off, and the folds' constants differ by chance alone
    x, y = few_rows(4, 30)
    with pytest.warns(SamplingWarning, match="The class has 4 rows, and the sample 30") as caught:
        model = at_defaults(HistGradientBoostingClassifier(), sampling_rate=1.0).fit(x, y)
    assert len(caught) == 1
    np.testing.assert_allclose(model.predict_proba(x)[:, 1], 4 / 30, rtol=0.01)


def test_folds_that_test_no_row_of_a_class_are_named():
    x, y = few_rows(4)
    rows = np.arange(len(y))
    cv = [(rows[rows % 3 != fold], rows[(rows % 3 == fold) & (y == 0)]) for fold in range(3)]
    with pytest.raises(ValueError, match=r"cv tests none of the 4 rows of the class 1, so") as info:
        at_defaults(sampling_rate=0.5, cv=cv).fit(x, y)
    assert "cv=2, or correction='prior'" in str(info.value)
    mirrored = at_defaults(sampling_rate=0.5, cv=cv, pos_label=0)
    with pytest.raises(ValueError, match="none of the 4 rows of the class 'rare'"):
        mirrored.set_params(pos_label="rare").fit(x, np.where(y == 1, "rare", "usual"))
    one = [(rows[y == 0], rows[y == 1]), (rows, rows[:10])]
    with pytest.raises(ValueError, match="training rows of fold 0 hold only the class 0"):
        at_defaults(cv=one).fit(x, y)
    with pytest.raises(ValueError, match="fold 1 of cv has no rows to test"):
        at_defaults(cv=[(rows, rows), (rows, rows[:0])], sampling_rate=0.5).fit(x, y)


@pytest.mark.parametrize("cv", [1, 0, -3, True, "prefit", 0.5])
def test_numbers_of_folds(cv):
    with pytest.raises(ValueError, match=re.escape(f"cv={cv!r}: give an int")):
        at_defaults(cv=cv).fit(X, Y)
    at_defaults(cv=cv, correction="prior").fit(X, Y)


def test_no_number_of_folds_is_five():
    one, two = (at_defaults(cv=cv).fit(X, Y).predict_proba(X) for cv in (None, np.int64(5)))
    np.testing.assert_array_equal(one, two)


def test_rows_without_weight_are_no_rows_to_the_folds():
    # folds over all rows would leave most of them without a row that counts
    x, y = few_rows(60, 1000)
    weight = np.where(y == 1, np.arange(1000) < 3, 1.0)
    counted = weight > 0
    model = at_defaults(sampling_rate=1.0).fit(x, y, sample_weight=weight)
    alone = at_defaults(sampling_rate=1.0).fit(x[counted], y[counted])
    np.testing.assert_allclose(model.predict_proba(x), alone.predict_proba(x), rtol=1e-3)
    assert model.calibration_ratio_ == pytest.approx(1, abs=0.3)


def test_weights_and_the_default():
    weight = np.where(Y == 1, 3.0, 1.0)
    prevalence = np.average(Y, weights=weight)
    model = at_defaults(Recorder()).fit(X, Y, sample_weight=weight)
    p = model.predict_proba(X)[:, 1]
    assert np.average(p, weights=weight) == pytest.approx(prevalence, rel=0.05)
    assert model.calibration_ratio_ == pytest.approx(1, abs=0.05)
    # what a model that takes none learns is put right by the calibration
    neighbours = make_pipeline(StandardScaler(), KNeighborsClassifier(100))
    with pytest.warns(UserWarning, match="takes no sample_weight"):
        model = at_defaults(neighbours, sampling_rate=0.2).fit(X, Y, sample_weight=weight)
    p = model.predict_proba(X)[:, 1]
    assert np.average(p, weights=weight) == pytest.approx(prevalence, rel=0.1)


def test_presampled_rows_and_the_default():
    few_X, few_y = thinned()
    for known in ({"sampling_rate": 0.1}, {"prevalence": Y.mean()}):
        model = at_defaults(presampled=True, **known).fit(few_X, few_y)
        assert model.n_kept_ == len(few_y)
        assert model.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), rel=0.05)
        assert model.calibration_ratio_ == pytest.approx(1, abs=0.05)


def test_a_sampler_s_folds_are_parts_of_its_sample():
    # counts that no fold's rows hold
    counts = {0: int(0.9 * np.sum(Y == 0)), 1: int(Y.sum())}
    sampler = RandomUnderSampler(sampling_strategy=counts, random_state=0)
    model = at_defaults(sampling_rate=sampler).fit(X, Y)
    assert model.n_kept_ == sum(counts.values())
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), rel=0.05)
    drawn, whole = [], []
    for name, seen in (("fold", drawn), ("all", whole)):
        inner = Keeper(seen)
        cv = [(np.arange(12_000), np.arange(12_000, len(Y)))]
        rows = np.arange(len(Y))[:, np.newaxis]
        correction = "sigmoid" if name == "fold" else "prior"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)
            at_defaults(inner, sampling_rate=sampler, cv=cv, correction=correction).fit(rows, Y)
    np.testing.assert_array_equal(drawn[0], whole[0][whole[0] < 12_000])


def test_metadata_and_the_default():
    weight = np.random.default_rng(0).integers(1, 4, len(Y)).astype(float)
    plain = at_defaults(Recorder(), sampling_rate=0.1).fit(X, Y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Recorder().set_fit_request(sample_weight=True, tone=True)
        model = at_defaults(inner, sampling_rate=0.1).fit(X, Y, sample_weight=weight)
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
        # what has an entry for each row is cut to each fold's sample
        model.fit(X, Y, sample_weight=weight, tone=np.arange(len(Y)))
        np.testing.assert_array_equal(model.estimator_.seen_[0], X[model.estimator_.seen_[3]])
        assert len(model.estimator_.seen_[3]) == model.n_kept_


# Predictions agree


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("pos_label", [0, 1])
def test_predict_agrees_with_probabilities_and_decision_values(correction, pos_label):
    common = make_rare_events(20_000, prevalence=0.25, random_state=0)
    X, y = common.X, common.y if pos_label == 1 else 1 - common.y
    tree = DecisionTreeClassifier(min_samples_leaf=100)
    model = downsampled(tree, correction=correction, pos_label=pos_label, sampling_rate=0.3)
    model.fit(X, y)
    assert model.sampling_rate_ == pytest.approx(0.3, abs=0.02)
    p, decision, label = model.predict_proba(X), model.decision_function(X), model.predict(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(label == model.classes_[1], p[:, 1] > 0.5)
    np.testing.assert_array_equal(label == model.classes_[1], decision > 0)
    np.testing.assert_array_equal(label, model.classes_[p.argmax(axis=1)])
    assert set(label) == {0, 1}
    inside = (p[:, 1] > 0) & (p[:, 1] < 1)
    np.testing.assert_allclose(decision[inside], logit(p[inside, 1]), atol=1e-9)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), rtol=1e-9, atol=1e-12)
    if correction is not None:
        assert log_loss(y, p) < log_loss(y, np.full(len(y), y.mean()))


def test_mirrored_labels_mirror_everything():
    one = mapped(sampling_rate=0.1).fit(X, Y)
    two = mapped(sampling_rate=0.1, pos_label=0).fit(X, 1 - Y)
    np.testing.assert_allclose(one.decision_function(X), -two.decision_function(X), rtol=1e-4)
    assert one.sampling_rate_ == two.sampling_rate_


@pytest.mark.parametrize("correction", ["isotonic", "sigmoid", None])
def test_mirrored_labels_mirror_decision_values(correction):
    params = {"correction": correction, "sampling_rate": 0.1}
    one = downsampled(RidgeClassifier(), **params).fit(X, Y)
    two = downsampled(RidgeClassifier(), pos_label=0, **params).fit(X, 1 - Y)
    np.testing.assert_allclose(one.decision_function(X), -two.decision_function(X), rtol=1e-6)


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.8])
def test_a_half_is_neither(rate):
    # scores whose corrected probability is one half, but for the last bits
    near = 1 / (1 + rate) + np.arange(-20, 21) * 2.0**-54
    p = np.r_[near, [0.2] * 20, [0.7] * 20][:, np.newaxis]
    y = np.r_[np.arange(41) % 2, np.zeros(20, int), np.ones(20, int)]
    model = mapped(Score(), presampled=True, sampling_rate=rate).fit(p, y)
    probability, decision = model.predict_proba(p)[:, 1], model.decision_function(p)
    assert np.count_nonzero(probability == 0.5) > 2
    np.testing.assert_array_equal(model.predict(p) == 1, probability > 0.5)
    np.testing.assert_array_equal(decision > 0, probability > 0.5)
    np.testing.assert_array_equal(decision < 0, probability < 0.5)


def test_scores_of_0_and_1_stay_finite_on_the_log_scale():
    p = np.array([[0.0], [1.0], [1e-300], [0.5], [0.3]] * 20)
    y = np.array([0, 1, 0, 1, 0] * 20)
    model = mapped(Score(), presampled=True, sampling_rate=1e-3).fit(p, y)
    decision = model.decision_function(p[:4])
    assert np.isfinite(decision).all()
    assert decision[0] < decision[2] < decision[3] < decision[1]
    np.testing.assert_array_equal(model.predict_proba(p[:2]), [[1, 0], [0, 1]])


def test_no_correction_leaves_the_scores_alone():
    model = downsampled(correction=None, sampling_rate=0.1).fit(X, Y)
    np.testing.assert_allclose(
        model.predict_proba(X), model.estimator_.predict_proba(X), rtol=1e-12
    )
    assert model.calibration_ratio_ > 2
    svc = downsampled(LinearSVC(), correction=None, sampling_rate=0.1).fit(X, Y)
    np.testing.assert_array_equal(svc.decision_function(X), svc.estimator_.decision_function(X))
    np.testing.assert_array_equal(svc.predict(X), svc.estimator_.predict(X))
    assert not hasattr(svc, "predict_proba")
    assert np.isnan(svc.calibration_ratio_)


def test_the_calibration_ratio_is_over_all_rows():
    model = mapped(sampling_rate=0.1).fit(X, Y)
    expected = model.predict_proba(X)[:, 1].mean() / Y.mean()
    assert model.calibration_ratio_ == pytest.approx(expected, rel=1e-12)
    few_X, few_y = thinned()
    given = mapped(sampling_rate=0.1, presampled=True).fit(few_X, few_y)
    weight = np.where(few_y == 1, 1, 10)
    p = given.predict_proba(few_X)[:, 1]
    assert given.calibration_ratio_ == pytest.approx(weight @ p / few_y.sum(), rel=1e-12)


# What breaks the map is told


@pytest.mark.parametrize(
    ("inner", "named"),
    [
        (LogisticRegression(class_weight="balanced"), "class_weight='balanced'"),
        (LogisticRegression(class_weight={0: 1, 1: 9}), "class_weight={0: 1, 1: 9}"),
        (LogisticRegression(class_weight={1: 9}), "class_weight={1: 9}"),
        (
            make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")),
            "logisticregression__class_weight='balanced'",
        ),
        (XGBClassifier(n_estimators=2, scale_pos_weight=50), "scale_pos_weight=50"),
        (
            make_sampling_pipeline(RandomUnderSampler(), LogisticRegression()),
            "the sampler RandomUnderSampler()",
        ),
        (BalancedRandomForestClassifier(5), "BalancedRandomForestClassifier()"),
    ],
)
def test_inner_models_that_weight_or_resample_the_classes(inner, named):
    with pytest.warns(SamplingWarning) as caught:
        mapped(inner, sampling_rate=0.1).fit(X[:5000], Y[:5000])
    assert len(caught) == 1
    assert named in str(caught[0].message)
    assert "correction='sigmoid'" in str(caught[0].message)
    # calibrated scores need no warning: they are right
    model = downsampled(inner, sampling_rate=0.1, correction="sigmoid").fit(X, Y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), rel=0.1)


@pytest.mark.parametrize(
    "inner",
    [
        LogisticRegression(class_weight={0: 2, 1: 2}),
        XGBClassifier(n_estimators=20, max_depth=2, scale_pos_weight=1),
    ],
)
def test_even_weights_break_nothing(inner):
    mapped(inner, sampling_rate=0.1).fit(X, Y)


def test_balanced_weights_on_a_balanced_sample_break_nothing():
    inner = LogisticRegression(class_weight="balanced")
    mapped(inner, sampling_rate=RandomUnderSampler(random_state=0)).fit(X, Y)


def test_the_warning_of_weights_is_true():
    inner = LogisticRegression(class_weight="balanced")
    with pytest.warns(SamplingWarning):
        model = mapped(inner, sampling_rate=0.1).fit(X, Y)
    assert model.predict_proba(X)[:, 1].mean() > 2 * Y.mean()


# Bad input


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"sampling_rate": 0}, ValueError, "above 0 and at most 1"),
        ({"sampling_rate": 1.5}, ValueError, "above 0 and at most 1"),
        ({"sampling_rate": "auto"}, ValueError, "allowed are"),
        ({"sampling_rate": NearMiss()}, ValueError, "NearMiss"),
        ({"sampling_rate": 1e-9}, ValueError, "kept none of the 19.* negatives"),
        ({"prevalence": 0.02}, ValueError, "says nothing"),
        ({"presampled": True}, ValueError, "prevalence="),
        ({"correction": "platt"}, ValueError, "correction='platt': allowed are 'sigmoid'"),
        ({"correction": True}, ValueError, "correction=True"),
        ({"pos_label": 2}, ValueError, "pos_label=2 is not a label"),
        ({"correction": "sigmoid", "cv": "prefit"}, ValueError, "cv='prefit'"),
        ({"correction": "sigmoid", "cv": 0.3}, ValueError, "cv=0.3"),
        ({"random_state": -1}, ValueError, "random_state=-1"),
        ({"inner": LogisticRegression}, TypeError, "give a classifier instance"),
        ({"inner": "logistic"}, TypeError, "give a classifier instance"),
        ({"inner": FrozenEstimator(LogisticRegression())}, ValueError, "prior_correction"),
        (
            {"inner": make_pipeline(StandardScaler(), FrozenEstimator(LogisticRegression()))},
            ValueError,
            "is not fitted again",
        ),
    ],
)
def test_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        downsampled(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(50), "one class"),
        (np.r_[np.zeros(49), 1], "one row of the class"),
        (np.arange(50) % 3, "Only binary classification"),
        (np.linspace(0, 1, 50), "Unknown label type: continuous"),
        (np.r_[np.nan, np.arange(49) % 2], "no label in 1 row"),
        (np.array([None, *(["a", "b"] * 25)][:50], dtype=object), "no label in 1 row"),
        (np.array([1, "a"] * 25, dtype=object), r"y mixes labels of types \['int', 'str'\]"),
        (None, "requires y to be passed"),
        (np.arange(40) % 2, "inconsistent numbers of samples"),
    ],
)
def test_labels(y, message):
    with pytest.raises(ValueError, match=message):
        downsampled().fit(np.arange(100.0).reshape(50, 2), y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.full(len(Y), -1.0), "negative"),
        (np.full(len(Y), np.nan), "NaN"),
        (np.zeros(len(Y)), "in every row"),
        (np.ones(5), "has 5 rows"),
        ((Y == 1).astype(float), "one class"),
    ],
)
def test_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        downsampled().fit(X, Y, sample_weight=weight)


def test_a_fold_without_negatives_is_named():
    y = np.r_[np.ones(30), np.zeros(30)].astype(int)
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(10, 60), np.arange(10))]
    with pytest.raises(ValueError, match="fold 0 hold only the class 1"):
        downsampled(correction="sigmoid", cv=folds, sampling_rate=0.9).fit(X[:60], y)


def test_features_that_make_no_number():
    bad = X[:1000].copy()
    bad[3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        downsampled().fit(bad, Y[:1000])


def test_scores_that_are_no_number_are_named():
    p = np.array([[0.2], [np.nan], [0.7]] * 10)
    with pytest.raises(ValueError, match=re.escape("NaN in 10 rows (position 1, 4")):
        mapped(Score(), sampling_rate=1.0).fit(p, np.array([0, 0, 1] * 10))


def test_shuffled_indices_are_caught():
    frame, y = pd.DataFrame(X), pd.Series(Y)
    with pytest.raises(ValueError, match="the index of y is not that of X"):
        downsampled().fit(frame, y.sample(frac=1, random_state=0))


def test_not_fitted():
    for method in ("predict", "predict_proba", "decision_function", "predict_log_proba"):
        with pytest.raises(NotFittedError):
            getattr(downsampled(), method)(X)


# Containers


@pytest.mark.parametrize("correction", ["prior", "sigmoid"])
def test_frames_sparse_matrices_and_lists_give_the_same(correction):
    rows, labels = X[:4000], Y[:4000]
    expected = downsampled(correction=correction).fit(rows, labels).predict_proba(rows)
    names = [f"x{j}" for j in range(rows.shape[1])]
    for container, y in (
        (pd.DataFrame(rows, columns=names), pd.Series(labels)),
        (pd.DataFrame(rows, columns=names, index=np.arange(len(rows)) * 7), labels),
        (pl.DataFrame(rows, schema=names), pl.Series(labels)),
        (sparse.csr_array(rows), labels),
        (sparse.csc_matrix(rows), labels),
        (sparse.coo_array(rows), labels),
        (rows.tolist(), labels.tolist()),
    ):
        model = downsampled(correction=correction).fit(container, y)
        # the solver sees sparse columns in another order
        np.testing.assert_allclose(model.predict_proba(container), expected, rtol=1e-4)
        assert model.n_features_in_ == rows.shape[1]
        if hasattr(container, "columns"):
            assert model.feature_names_in_.tolist() == names


def test_text_labels():
    words = np.where(Y == 1, "bad", "good")
    model = mapped(sampling_rate=0.1, pos_label="bad").fit(X, words)
    number = mapped(sampling_rate=0.1).fit(X, Y)
    np.testing.assert_allclose(
        model.predict_proba(X)[:, 0], number.predict_proba(X)[:, 1], rtol=1e-3
    )
    assert model.classes_.tolist() == ["bad", "good"]
    assert set(model.predict(X)) <= {"bad", "good"}
    for kind in (object, "category"):
        again = mapped(sampling_rate=0.1, pos_label="bad").fit(X, pd.Series(words, dtype=kind))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    sampler = RandomUnderSampler(sampling_strategy={"good": 1000}, random_state=0)
    assert mapped(sampling_rate=sampler, pos_label="bad").fit(X, words).n_kept_ == 1000 + Y.sum()


def test_columns_of_text_reach_the_inner_model():
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["shop"] = np.where(X[:, 0] > 0, "north", "south")
    inner = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["shop"]), remainder="passthrough"),
        LogisticRegression(),
    )
    model = downsampled(inner, sampling_rate=0.1).fit(frame, Y)
    assert model.feature_names_in_[-1] == "shop"


# The contract


def test_it_is_seen_as_a_classifier():
    for inner in (LogisticRegression(), HistGradientBoostingClassifier(), LinearSVC()):
        model = downsampled(inner)
        assert is_classifier(model)
        tags, own = get_tags(model), get_tags(inner)
        assert tags.input_tags == own.input_tags
        assert not tags.classifier_tags.multi_class
    assert get_tags(downsampled()).input_tags.sparse
    model = downsampled(sampling_rate=0.1).fit(X, Y)
    shown = partial_dependence(model, X[:200], [0], grid_resolution=5)
    # probabilities, not regression values
    assert 0 < shown["average"].min() < shown["average"].max() < 1


def test_searches_and_scorers():
    search = GridSearchCV(
        downsampled(), {"sampling_rate": [0.1, 0.5], "estimator__C": [1.0, 10.0]},
        scoring="neg_log_loss", cv=3,
    ).fit(X, Y)  # fmt: skip
    assert search.best_score_ > -log_loss(Y, np.full(len(Y), Y.mean()))
    sampler = downsampled(sampling_rate=RandomUnderSampler())
    GridSearchCV(sampler, {"sampling_rate__sampling_strategy": [0.1, 0.5]}, cv=3).fit(X, Y)
    tree = downsampled(DecisionTreeClassifier(max_depth=4), sampling_rate=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        scores = cross_val_score(tree, X, Y, cv=3, scoring="roc_auc")
    assert (scores > 0.6).all()
    outer = CalibratedClassifierCV(downsampled(), cv=3).fit(X, Y)
    assert outer.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), rel=0.05)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_pickles_clones_and_pages(correction):
    model = downsampled(sampling_rate=RandomUnderSampler(), correction=correction).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    fresh = clone(model)
    assert not hasattr(fresh, "classes_")
    assert "DownsampledClassifier" in model._repr_html_()
    # a second fit forgets the first
    model.set_params(correction="prior").fit(X, Y)
    assert model.calibrator_ is None


def test_fit_parameters_are_cut_to_the_sample():
    tone = np.arange(len(Y))
    model = mapped(Recorder(), sampling_rate=0.1).fit(X, Y, tone=tone)
    seen_X, _, _, seen_tone = model.estimator_.seen_
    np.testing.assert_array_equal(seen_X, X[seen_tone])
    assert mapped(Recorder()).fit(X, Y, tone="soft").estimator_.seen_[3] == "soft"


def test_weights_find_their_way_into_pipelines_and_searches():
    weight = np.random.default_rng(0).integers(1, 4, len(Y))
    plain = mapped(sampling_rate=0.1).fit(X, Y, sample_weight=weight)
    for inner in (
        make_pipeline("passthrough", LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=3),
    ):
        model = mapped(inner, sampling_rate=0.1).fit(X, Y, sample_weight=weight)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-9)


def test_metadata_routing():
    weight = np.random.default_rng(0).integers(1, 4, len(Y)).astype(float)
    groups = np.arange(len(Y)) % 6
    plain = downsampled(Recorder(), sampling_rate=0.1).fit(X, Y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Recorder().set_fit_request(sample_weight=True, tone=True)
        model = downsampled(inner, sampling_rate=0.1)
        model.fit(X, Y, sample_weight=weight, tone="soft")
        np.testing.assert_array_equal(model.estimator_.seen_[2], plain.estimator_.seen_[2])
        assert model.estimator_.seen_[3] == "soft"

        # asked not to, the inner model sees no weights, but the rate does
        unweighted = Recorder().set_fit_request(sample_weight=False)
        model = downsampled(unweighted, sampling_rate=0.1).fit(X, Y, sample_weight=weight)
        assert model.estimator_.seen_[2] is None
        assert model.sampling_rate_ == plain.sampling_rate_

        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
            downsampled(Recorder()).fit(X, Y, sample_weight=weight)
        with pytest.raises(TypeError, match="tone"):
            downsampled(LogisticRegression()).fit(X, Y, tone="soft")

        grouped = downsampled(correction="sigmoid", cv=GroupKFold(3)).fit(X, Y, groups=groups)
        assert grouped.calibrator_.slope > 0.5

        # through a cross-validation around it
        inner = Recorder().set_fit_request(sample_weight=True)
        model = downsampled(inner, correction="sigmoid", cv=GroupKFold(3))
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        found = cross_validate(
            model, X, Y, cv=GroupKFold(2), return_estimator=True,
            params={"sample_weight": weight, "groups": groups},
        )  # fmt: skip
        for fitted in found["estimator"]:
            assert len(fitted.estimator_.seen_[2]) == fitted.n_kept_


# Real data, as a user would


def real(name, target, drop):
    folder = Path(os.environ.get("IMBFIT_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / f"{name}.parquet").exists():
        pytest.skip(f"{name}.parquet is not in {folder}; set IMBFIT_DATA to the folder that has it")
    frame = pd.read_parquet(folder / f"{name}.parquet")
    return frame.drop(columns=drop), target(frame).astype(int)


REAL = {
    "brfss2015_half": (lambda frame: frame["Stroke"] == 1, ["Stroke"]),
    "give_me_some_credit": (lambda frame: frame["SeriousDlqin2yrs"] == 1, ["SeriousDlqin2yrs"]),
    "norauto": (lambda frame: frame["NbClaim"] > 0, ["NbClaim", "ClaimAmount"]),
}


def on_numbers(model):
    """Prepare columns of any kind for a model."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    kinds = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (words, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(kinds, model)


def held_out_ratio(model, name):
    """Return mean prediction / prevalence on held-out rows, and how far from 1 it may be."""
    X_all, y_all = real(name, *REAL[name])
    parts = train_test_split(X_all, y_all, test_size=0.4, stratify=y_all, random_state=0)
    X_train, X_test, y_train, y_test = parts
    p = model.fit(X_train, y_train).predict_proba(X_test)[:, 1]
    assert log_loss(y_test, p) < log_loss(y_test, np.full(len(p), y_train.mean()))
    return p.mean() / y_test.mean(), max(0.05, 2 / np.sqrt(y_test.sum()))


GENTLE = {
    "boosting": HistGradientBoostingClassifier(
        max_leaf_nodes=8, learning_rate=0.05, random_state=0
    ),
    "forest": RandomForestClassifier(25, min_samples_leaf=20, random_state=0),
    "xgboost": XGBClassifier(
        n_estimators=100, max_depth=3, learning_rate=0.1, n_jobs=1, random_state=0
    ),
}

# At their defaults, which fit a small sample closely.
EAGER = {
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "forest": RandomForestClassifier(40, random_state=0),
    "xgboost": XGBClassifier(n_jobs=1, random_state=0),
    "network": MLPClassifier((16,), early_stopping=True, random_state=0),
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(
    "inner", ["boosting", pytest.param("forest", marks=pytest.mark.slow), "xgboost"]
)
def test_the_prior_map_holds_for_models_that_fit_gently(inner, name):
    model = mapped(on_numbers(GENTLE[inner]), sampling_rate=0.2)
    ratio, tolerance = held_out_ratio(model, name)
    assert ratio == pytest.approx(1, abs=tolerance)
    assert model.n_kept_ < 0.3 * 0.6 * 184_000


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("inner", EAGER)
@pytest.mark.parametrize("correction", ["sigmoid", "isotonic"])
def test_calibration_holds_for_models_that_fit_closely(inner, name, correction):
    model = downsampled(on_numbers(EAGER[inner]), correction=correction, cv=5)
    ratio, tolerance = held_out_ratio(model, name)
    assert ratio == pytest.approx(1, abs=tolerance)


def test_where_the_prior_map_does_not_hold_a_warning_says_so():
    model = mapped(on_numbers(EAGER["xgboost"]))
    with pytest.warns(SamplingWarning, match="times their prevalence") as caught:
        ratio, tolerance = held_out_ratio(model, "brfss2015_half")
    assert ratio > 1 + 2 * tolerance
    assert len(caught) == 1
    # what the fit knew is what held-out rows show
    assert model.calibration_ratio_ == pytest.approx(ratio, rel=0.05)


@pytest.mark.parametrize("name", ["brfss2015_half", "norauto"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_mean_prediction_is_right_with_all_defaults(name, seed):
    trees = HistGradientBoostingClassifier(max_iter=50)
    model = on_numbers(DownsampledClassifier(trees, random_state=seed))
    ratio, tolerance = held_out_ratio(model, name)
    assert ratio == pytest.approx(1, abs=tolerance)


def test_the_mean_prediction_of_presampled_rows_is_right_with_all_defaults():
    X_all, y_all = real("ulb_fraud_casecontrol", lambda frame: frame["Class"] == 1, ["Class"])
    rate = 5000 / 284_315
    trees = HistGradientBoostingClassifier(max_iter=50)
    model = DownsampledClassifier(trees, presampled=True, sampling_rate=rate, random_state=0)
    # all rows are held out once: a few negatives, each standing for 57, decide
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    p = cross_val_predict(model, X_all, y_all, cv=cv, method="predict_proba")[:, 1]
    weight = np.where(y_all == 1, 1, 1 / rate)
    error = np.sqrt(np.sum(weight**2 * (p - y_all) ** 2)) / y_all.sum()
    assert error < 0.25
    assert weight @ p / y_all.sum() == pytest.approx(1, abs=max(0.05, 2 * error))


@pytest.mark.parametrize("correction", ["isotonic", "sigmoid"])
def test_a_set_that_came_downsampled(correction):
    X_all, y_all = real("ulb_fraud_casecontrol", lambda frame: frame["Class"] == 1, ["Class"])
    rate = 5000 / 284_315
    parts = train_test_split(X_all, y_all, test_size=0.5, stratify=y_all, random_state=0)
    X_train, X_test, y_train, y_test = parts
    inner = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    model = downsampled(inner, presampled=True, sampling_rate=rate, correction=correction)
    model.fit(X_train, y_train)
    weight = np.where(y_test == 1, 1, 1 / rate)
    p = model.predict_proba(X_test)[:, 1]
    prevalence = np.average(y_test, weights=weight)
    assert prevalence == pytest.approx(492 / 284_807, rel=0.02)
    ratio = np.average(p, weights=weight) / prevalence
    # a held-out negative stands for 57, so the mean prediction has a standard error as well
    error = np.sqrt(np.sum(weight**2 * (p - y_test) ** 2)) / y_test.sum()
    assert error < 0.35
    assert ratio == pytest.approx(1, abs=2 * error)
    # the model's own scores, taken as they are, miss by far
    raw = np.average(model.estimator_.predict_proba(X_test)[:, 1], weights=weight) / prevalence
    assert raw > 5
