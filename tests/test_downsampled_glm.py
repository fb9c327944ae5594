"""DownsampledGLMClassifier: parameters, paths of the rate, predictions, inference, bad input."""

import pickle
import re
import sys
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from imblearn.combine import SMOTEENN
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from imblearn.under_sampling import (
    AllKNN,
    ClusterCentroids,
    CondensedNearestNeighbour,
    EditedNearestNeighbours,
    InstanceHardnessThreshold,
    NearMiss,
    NeighbourhoodCleaningRule,
    OneSidedSelection,
    RandomUnderSampler,
    TomekLinks,
)
from scipy import sparse, stats
from scipy.special import expit, ndtr
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from imbfit.exceptions import (
    CollinearityWarning,
    InertParameterWarning,
    SamplingWarning,
    SeparationWarning,
)
from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.keyed_draws import row_uniforms
from imbfit.glm.links import Link

METHODS = ("cmle", "iw", "profile", "pseudo_mle", "naive")
LINKS = ("logit", "probit", "cloglog", "loglog", "cauchit")
INVERSE = {
    "logit": expit,
    "probit": ndtr,
    "cloglog": lambda eta: -np.expm1(-np.exp(eta)),
    "loglog": lambda eta: np.exp(-np.exp(-eta)),
    "cauchit": stats.cauchy.cdf,
}
# The pseudo-likelihood says that it is biased, and in most tests that is beside the point.
biased = pytest.mark.filterwarnings(
    "ignore:the pseudo-likelihood is consistent:imbfit.exceptions.SamplingWarning"
)

NAMES = ["age", "income", "tenure"]
COEF = np.array([1.0, -0.8, 0.5])


def rows_of(n, intercept, *, link="logit", seed=0, coef=COEF):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, len(coef)))
    y = (rng.random(n) < INVERSE[link](intercept + X @ coef)).astype(int)
    return X, y


X, Y = rows_of(8_000, -3.2)
RARE_X, RARE_Y = rows_of(40_000, -4.8, seed=1)


def glm(link="logit", **params):
    return DownsampledGLMClassifier(link, **{"sampling_rate": 0.2, "random_state": 7, **params})


def fitted(link="logit", rows=X, labels=Y, weight=None, **params):
    return glm(link, **params).fit(rows, labels, weight)


def kept_by_key(y, rate, seed):
    return (np.asarray(y) == 1) | (row_uniforms(seed, 0, 0, len(y)) < rate)


def same_model(one, other, rtol=1e-8, *, errors=True):
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=rtol, atol=rtol)
    if errors:
        np.testing.assert_allclose(one.covariance_, other.covariance_, rtol=1e-6, atol=1e-10)


# Parameters and the contract


def test_defaults_are_those_that_are_promised():
    expected = {
        "link": "logit", "method": "cmle", "sampling_rate": "auto", "efficiency": 0.95,
        "sampling": "uniform", "presampled": False, "prevalence": None, "known_intercept": None,
        "fit_intercept": True, "C": np.inf, "offset": None, "solver": "auto", "max_iter": 100,
        "tol": 1e-8, "pos_label": None, "naive_correction": "prior",
        "recalibrate_intercept": False, "warm_start": False, "random_state": None, "verbose": 0,
    }  # fmt: skip
    assert DownsampledGLMClassifier().get_params() == expected
    with pytest.raises(TypeError, match="positional"):
        DownsampledGLMClassifier("logit", "cmle")
    assert is_classifier(DownsampledGLMClassifier())


def test_parameters_are_left_alone_and_a_clone_fits_the_same():
    sampler = RandomUnderSampler(sampling_strategy=0.5)
    model = glm(sampling_rate=sampler)
    before = model.get_params()
    model.fit(X, Y)
    assert model.get_params() == before
    assert sampler.random_state is None
    again = clone(model)
    assert not hasattr(again, "coef_")
    same_model(again.fit(X, Y), model)
    changed = clone(model).set_params(link="probit", sampling_rate=0.5).fit(X, Y)
    same_model(changed, fitted("probit", sampling_rate=0.5))


@pytest.mark.parametrize("link", LINKS)
def test_a_pickled_model_predicts_the_same(link):
    model = fitted(link, method="naive", naive_correction="isotonic")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert str(again.summary()) == str(model.summary())


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.predict(X),
        lambda m: m.predict_proba(X),
        lambda m: m.predict_log_proba(X),
        lambda m: m.decision_function(X),
        lambda m: m.summary(),
        lambda m: m.conf_int(),
        lambda m: m.standard_errors_for(0),
        lambda m: m.get_parameter_names(),
    ],
)
def test_nothing_works_before_the_fit(call):
    with pytest.raises(NotFittedError):
        call(glm())


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"link": "log"}, ValueError, r"link.*'log'.*'cloglog'"),
        ({"link": 3}, (TypeError, ValueError), r"link is of type int.*'cloglog'"),
        ({"method": "mle"}, ValueError, r"method='mle'.*'cmle'.*'pseudo_mle'"),
        ({"sampling": "random"}, ValueError, r"sampling='random'.*'a_optimal'"),
        ({"solver": "saga"}, ValueError, r"solver='saga'.*'newton-cg'"),
        ({"naive_correction": "platt"}, ValueError, r"naive_correction='platt'.*'isotonic'"),
        ({"recalibrate_intercept": True}, ValueError, r"recalibrate_intercept=True.*'full'"),
        ({"recalibrate_intercept": "kept"}, ValueError, r"recalibrate_intercept='kept'.*'full'"),
        ({"presampled": "yes"}, TypeError, r"presampled='yes'.*True or False"),
        ({"fit_intercept": 1}, TypeError, r"fit_intercept=1.*True or False"),
        ({"warm_start": None}, TypeError, r"warm_start=None.*True or False"),
        ({"sampling_rate": "auto", "efficiency": 1.0}, ValueError, r"efficiency=1.0.*between"),
        ({"sampling_rate": "auto", "efficiency": "high"}, ValueError, r"efficiency='high'"),
        ({"C": 0}, ValueError, r"C=0.*above 0.*np.inf"),
        ({"C": -1.0}, ValueError, r"C=-1.0.*above 0"),
        ({"C": np.nan}, ValueError, r"C=nan"),
        ({"tol": 0.0}, ValueError, r"tol=0.0"),
        ({"max_iter": 0}, ValueError, r"max_iter=0.*at least 1"),
        ({"max_iter": 2.5}, TypeError, r"max_iter=2.5.*whole number"),
        ({"known_intercept": np.inf}, ValueError, r"known_intercept=inf.*finite"),
        ({"known_intercept": "low"}, ValueError, r"known_intercept='low'"),
        ({"sampling_rate": 0.0}, ValueError, r"sampling_rate=0.0.*above 0 and at most 1"),
        ({"sampling_rate": -0.1}, ValueError, r"sampling_rate=-0.1"),
        ({"sampling_rate": 1.5}, ValueError, r"sampling_rate=1.5.*per cent write 0.015"),
        ({"sampling_rate": np.nan}, ValueError, r"sampling_rate=nan"),
        ({"sampling_rate": "half"}, ValueError, r"sampling_rate='half'.*'auto'.*'balanced'"),
        ({"sampling_rate": None}, ValueError, r"sampling_rate=None"),
        ({"sampling_rate": True}, TypeError, r"sampling_rate=True"),
        ({"pos_label": 2}, ValueError, r"pos_label=2.*\[0, 1\]"),
        ({"offset": "age"}, ValueError, r"offset='age'.*position"),
        ({"offset": 3}, ValueError, r"offset=3.*3 columns"),
    ],
)  # fmt: skip
def test_bad_parameters_are_named_with_what_is_allowed(params, error, message):
    with pytest.raises(error, match=message):
        glm(**params).fit(X, Y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"known_intercept": -3.0, "fit_intercept": False}, "known_intercept.*contradict"),
        ({"prevalence": 0.01}, "prevalence=0.01.*presampled=True"),
        ({"presampled": True, "prevalence": 0.01}, "leave out one"),
        ({"sampling": "a_optimal", "method": "profile"}, r"a_optimal.*method='profile'.*'cmle'"),
        ({"sampling": "l_optimal", "method": "pseudo_mle"}, "l_optimal.*pseudo_mle"),
        ({"sampling": "local_case_control", "method": "naive"}, "local_case_control.*naive"),
        ({"sampling": "a_optimal", "presampled": True}, "a_optimal.*presampled"),
        ({"sampling": "a_optimal", "sampling_rate": RandomUnderSampler()}, "a_optimal.*sampler"),
        ({"recalibrate_intercept": "full", "presampled": True}, "dropped.*presampled"),
        ({"recalibrate_intercept": "full", "fit_intercept": False}, "fixes it"),
        ({"recalibrate_intercept": "full", "known_intercept": -3.0}, "fixes it"),
        ({"recalibrate_intercept": "full", "method": "naive"}, "isotonic"),
    ],
)
def test_combinations_that_contradict_each_other_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        glm(**params).fit(X, Y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"naive_correction": "isotonic"}, "naive_correction='isotonic' has no effect.*'cmle'"),
        ({"efficiency": 0.9}, "efficiency=0.9 has no effect.*sampling_rate=0.2"),
        ({"sampling": "a_optimal", "sampling_rate": 1.0}, "sampling='a_optimal' has no effect"),
    ],
)
def test_combinations_without_effect_are_named(params, message):
    with pytest.warns(InertParameterWarning, match=message):
        glm(**params).fit(X, Y)


# Links


class OwnLogit(Link):
    name = "own"

    def log_p(self, eta):
        return -np.logaddexp(0, -np.asarray(eta, float))

    def log_q(self, eta):
        return -np.logaddexp(0, np.asarray(eta, float))

    def hazard_p(self, eta):
        return expit(-np.asarray(eta, float))

    def hazard_q(self, eta):
        return expit(np.asarray(eta, float))


class OwnCloglog(Link):
    name = "own cloglog"

    def log_p(self, eta):
        t = np.exp(np.clip(eta, -700, 700))
        return np.where(np.asarray(eta) < -36, eta, np.log(-np.expm1(-np.maximum(t, 1e-17))))

    def log_q(self, eta):
        return -np.exp(np.clip(eta, -745, 700))

    def hazard_p(self, eta):
        t = np.exp(np.clip(eta, -700, 6.5))
        return np.where(np.asarray(eta) > 6.5, 0.0, t / np.expm1(t))

    def hazard_q(self, eta):
        return np.exp(np.clip(eta, -745, 700))


class Backwards(OwnLogit):
    def hazard_p(self, eta):
        return -super().hazard_p(eta)


@biased
@pytest.mark.parametrize("method", METHODS)
def test_a_link_of_ones_own(method):
    own = fitted(OwnLogit(), method=method)
    same_model(own, fitted("logit", method=method), rtol=1e-7)
    assert "own" in str(own.summary())
    np.testing.assert_allclose(
        own.predict_proba(X), fitted("logit", method=method).predict_proba(X), rtol=1e-6
    )


def test_a_wrong_link_of_ones_own_is_refused_by_the_method_at_fault():
    with pytest.raises(ValueError, match="hazard_p"):
        fitted(Backwards())
    with pytest.raises((TypeError, ValueError), match=r"OwnLogit\(\)"):
        fitted(OwnLogit)


def test_an_asymmetric_link_of_ones_own_is_mirrored():
    model = fitted(OwnCloglog(), labels=1 - Y, pos_label=0)
    same_model(model, fitted("cloglog", labels=1 - Y, pos_label=0), rtol=1e-6)
    assert "mirrored" in str(model.summary())


@biased
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("method", METHODS)
def test_with_the_first_label_positive_all_is_mirrored(link, method):
    # the positive label of the second fit is the same rows' as in the first, but sorts first
    plain = fitted(link, method=method)
    turned = fitted(link, method=method, labels=np.where(Y == 1, "bad", "good"), pos_label="bad")
    assert turned.classes_.tolist() == ["bad", "good"]
    assert turned.pos_label_ == "bad"
    np.testing.assert_allclose(turned.coef_, -plain.coef_, rtol=1e-12)
    np.testing.assert_allclose(turned.intercept_, -plain.intercept_, rtol=1e-12)
    np.testing.assert_allclose(turned.covariance_, plain.covariance_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(turned.predict_proba(X)[:, ::-1], plain.predict_proba(X))
    np.testing.assert_allclose(turned.decision_function(X), -plain.decision_function(X))
    assert ((turned.predict(X) == "bad") == (plain.predict(X) == 1)).all()
    assert "'good'" in str(turned.summary()).splitlines()[0]
    asymmetric = link in {"cloglog", "loglog"}
    assert ("mirrored" in str(turned.summary())) == asymmetric
    assert "mirrored" not in str(plain.summary())


@pytest.mark.parametrize(("link", "mirror"), [("cloglog", "loglog"), ("loglog", "cloglog")])
def test_a_mirrored_link_is_the_other_one_for_the_last_label(link, mirror):
    turned = fitted(link, sampling_rate=1.0, pos_label=0)
    plain = fitted(mirror, sampling_rate=1.0)
    same_model(turned, plain)
    np.testing.assert_allclose(turned.predict_proba(X), plain.predict_proba(X), rtol=1e-8)
    assert f"{link} for 0; mirrored for 1: {mirror}" in str(turned.summary())


@pytest.mark.parametrize("link", LINKS)
def test_coefficients_and_scores_point_to_the_last_label(link):
    x = np.linspace(-2, 2, 400)[:, None]
    y = np.random.default_rng(0).random(400) < expit(2 * x[:, 0])
    for positive in (False, True):
        model = fitted(link, x, y, sampling_rate=1.0, pos_label=positive)
        assert model.coef_[0, 0] > 0.5
        assert model.decision_function([[2.0]]) > 0 > model.decision_function([[-2.0]])
        assert model.predict([[2.0], [-2.0]]).tolist() == [True, False]


# Predictions


@biased
@pytest.mark.parametrize("correction", ["prior", "isotonic"])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("method", METHODS)
def test_probabilities_scores_and_labels_agree(link, method, correction):
    if correction == "isotonic" and method != "naive":
        return
    model = fitted(link, method=method, naive_correction=correction)
    p = model.predict_proba(X)
    assert p.shape == (len(X), 2)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-12)
    score = model.decision_function(X)
    np.testing.assert_allclose(expit(score), p[:, 1], rtol=1e-9, atol=1e-300)
    np.testing.assert_array_equal(model.predict(X), model.classes_[(score > 0).astype(int)])
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    if method != "naive":
        eta = X @ model.coef_[0] + model.intercept_
        np.testing.assert_allclose(p[:, 1], INVERSE[link](eta), rtol=1e-9)


@pytest.mark.parametrize("link", LINKS)
def test_far_rows_have_finite_scores_and_no_warnings(link):
    model = fitted(link)
    far = np.array([[1e4, -1e4, 1e4], [-1e4, 1e4, -1e4], [3e2, 0, 0], [-3e2, 0, 0]])
    p = model.predict_proba(far)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert p[0, 1] > 0.999
    assert p[1, 1] < 0.001
    assert not np.isnan(model.decision_function(far)).any()


def test_the_prior_correction_of_the_naive_fit_is_proposition_1():
    model = fitted("probit", method="naive")
    kept = kept_by_key(Y, 0.2, 7)
    shown = fitted("probit", X[kept], Y[kept], sampling_rate=1.0).predict_proba(X)[:, 1]
    rate = model.sampling_rate_
    assert rate == (~(Y == 1) & kept).sum() / (Y == 0).sum()
    expected = shown * rate / (1 - shown + shown * rate)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, rtol=1e-7)
    assert "not of the population" in str(model.summary())


def test_isotonic_correction_of_the_naive_fit_is_monotone_and_calibrated_on_the_kept_rows():
    model = fitted("probit", method="naive", naive_correction="isotonic")
    kept = kept_by_key(Y, 0.2, 7)
    p = model.predict_proba(X)[:, 1]
    weight = np.where(Y == 1, 1, 1 / model.sampling_rate_)[kept]
    assert np.average(p[kept], weights=weight) == pytest.approx(Y.mean(), rel=1e-9)
    assert model.calibration_ratio_ == pytest.approx(p.mean() / Y.mean(), rel=1e-9)
    order = np.argsort(fitted("probit", method="naive").decision_function(X))
    assert (np.diff(p[order]) >= 0).all()
    assert len(np.unique(p)) < 300
    again = model.set_params(naive_correction="prior").fit(X, Y)
    assert not hasattr(again, "isotonic_")


# Where the rate comes from


@biased
@pytest.mark.parametrize("link", ["logit", "cloglog"])
@pytest.mark.parametrize("method", METHODS)
def test_a_number_keeps_the_rows_of_the_keyed_draw_and_counts_its_realised_rate(link, method):
    model = fitted(link, method=method)
    kept = kept_by_key(Y, 0.2, 7)
    negatives = (Y == 0).sum()
    rate = (kept & (Y == 0)).sum() / negatives
    assert rate != 0.2
    assert model.sampling_rate_ == pytest.approx(rate, rel=1e-12)
    assert model.n_kept_ == kept.sum()
    other = fitted(link, X[kept], Y[kept], method=method, presampled=True, sampling_rate=rate)
    same_model(model, other)
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), rtol=1e-7)
    assert other.sampling_rate_ == pytest.approx(rate)
    assert other.log_likelihood_ == pytest.approx(model.log_likelihood_, rel=1e-9)


def test_the_draw_is_that_of_the_seed():
    same_model(fitted(random_state=3), fitted(random_state=3))
    assert fitted(random_state=3).intercept_ != fitted(random_state=4).intercept_
    state = np.random.RandomState(3)
    one, two = fitted(random_state=state), fitted(random_state=state)
    assert one.n_kept_ != two.n_kept_


def test_balanced_keeps_about_as_many_negatives_as_positives():
    model = fitted(sampling_rate="balanced")
    positives = Y.sum()
    assert abs(model.n_kept_ - 2 * positives) < 4 * np.sqrt(positives)
    assert model.sampling_rate_ == pytest.approx((model.n_kept_ - positives) / (Y == 0).sum())
    # where positives are the many, all rows are kept
    assert fitted(labels=1 - Y, sampling_rate="balanced").n_kept_ == len(Y)


def test_the_rate_is_one_of_weights():
    weight = np.random.default_rng(0).uniform(0.1, 5, len(Y))
    model = fitted(weight=weight)
    kept = kept_by_key(Y, 0.2, 7) & (Y == 0)
    assert model.sampling_rate_ == pytest.approx(weight[kept].sum() / weight[Y == 0].sum())


PATHS = {
    "number": {"sampling_rate": 0.1},
    "one": {"sampling_rate": 1.0},
    "balanced": {"sampling_rate": "balanced"},
    "auto": {"sampling_rate": "auto"},
    "sampler": {"sampling_rate": RandomUnderSampler(sampling_strategy=0.1)},
    "a_optimal": {"sampling": "a_optimal", "sampling_rate": 0.05},
    "l_optimal": {"sampling": "l_optimal", "sampling_rate": 0.05},
    "local": {"sampling": "local_case_control", "sampling_rate": 0.05},
    "auto a_optimal": {"sampling": "a_optimal", "sampling_rate": "auto"},
}


@pytest.mark.parametrize("method", ["cmle", "iw"])
@pytest.mark.parametrize("path", PATHS)
def test_every_path_has_the_same_result_on_the_scale_of_the_population(path, method):
    model = fitted(rows=RARE_X, labels=RARE_Y, method=method, **PATHS[path])
    truth = np.array([-4.8, *COEF])
    found = np.concatenate([model.intercept_, model.coef_[0]])
    assert (np.abs(found - truth) < 3.5 * model.standard_errors_).all()
    mean = model.predict_proba(RARE_X)[:, 1].mean()
    assert model.calibration_ratio_ == pytest.approx(mean / RARE_Y.mean(), rel=1e-9)
    assert 0.85 < model.calibration_ratio_ < 1.15
    assert (model.n_kept_ == len(RARE_Y)) == (path == "one")
    full = fitted(rows=RARE_X, labels=RARE_Y, method=method, sampling_rate=1.0)
    assert (model.standard_errors_[1:] > 0.98 * full.standard_errors_[1:]).all()
    efficiency = (full.standard_errors_ / model.standard_errors_)[1:] ** 2
    np.testing.assert_allclose(model.relative_efficiency_, efficiency, rtol=0.12)


@pytest.mark.parametrize("known", ["rate", "prevalence"])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_rows_that_were_sampled_upstream(link, known):
    kept = kept_by_key(RARE_Y, 0.1, 3)
    rate = (kept & (RARE_Y == 0)).sum() / (RARE_Y == 0).sum()
    told = {"sampling_rate": rate}
    if known == "prevalence":
        told = {"prevalence": RARE_Y.mean(), "sampling_rate": "auto"}
    upstream = fitted(link, RARE_X[kept], RARE_Y[kept], presampled=True, **told)
    inside = fitted(link, RARE_X, RARE_Y, sampling_rate=0.1, random_state=3)
    np.testing.assert_allclose(upstream.coef_, inside.coef_, rtol=1e-7)
    np.testing.assert_allclose(upstream.intercept_, inside.intercept_, rtol=1e-8)
    assert upstream.sampling_rate_ == pytest.approx(rate, rel=1e-9)
    slopes = slice(1, None) if link == "logit" else slice(1, 0)
    np.testing.assert_allclose(
        upstream.standard_errors_[slopes], inside.standard_errors_[slopes], rtol=1e-6
    )
    if known == "prevalence":
        # the share of positives is known, and not one more thing that is estimated
        assert upstream.standard_errors_[0] < inside.standard_errors_[0]
    weight = np.where(RARE_Y[kept] == 1, 1, 1 / rate)
    mean = np.average(upstream.predict_proba(RARE_X[kept])[:, 1], weights=weight)
    assert upstream.calibration_ratio_ == pytest.approx(mean / RARE_Y.mean(), rel=1e-6)


@pytest.mark.parametrize("rate", ["auto", "balanced", RandomUnderSampler()])
def test_presampled_rows_without_a_rate_are_refused_with_a_way_out(rate):
    with pytest.raises(ValueError, match="presampled=True") as caught:
        fitted(presampled=True, sampling_rate=rate)
    assert "prevalence=" in str(caught.value)
    assert "sampling_rate=" in str(caught.value)
    if rate == "auto":
        assert "RandomUnderSampler" in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 1.0, 50, "low"])
def test_a_prevalence_is_a_share(share):
    with pytest.raises((TypeError, ValueError), match=f"prevalence={share!r}"):
        fitted(presampled=True, sampling_rate="auto", prevalence=share)


def test_a_prevalence_above_the_samples_is_refused():
    with pytest.raises(ValueError, match=r"prevalence=0.5 is above the share of positives"):
        fitted(presampled=True, sampling_rate="auto", prevalence=0.5)


def test_an_under_samplers_realised_rate_is_counted():
    sampler = RandomUnderSampler(sampling_strategy=0.5, random_state=11)
    model = fitted(sampling_rate=sampler)
    rows = np.sort(clone(sampler).fit_resample(np.arange(len(Y))[:, None], Y)[0][:, 0])
    rate = (Y[rows] == 0).sum() / (Y == 0).sum()
    assert model.sampling_rate_ == pytest.approx(rate, rel=1e-12)
    assert model.n_kept_ == len(rows)
    same_model(model, fitted(rows=X[rows], labels=Y[rows], presampled=True, sampling_rate=rate))


def test_an_under_sampler_may_thin_the_positives_too():
    size = {0: 1_000, 1: int(Y.sum()) // 2}
    model = fitted(sampling_rate=RandomUnderSampler(sampling_strategy=size, random_state=0))
    both = (1_000 / (Y == 0).sum()) / (size[1] / Y.sum())
    assert model.sampling_rate_ == pytest.approx(both, rel=1e-12)
    assert model.n_kept_ == 1_000 + size[1]
    assert 0.9 < model.calibration_ratio_ < 1.1


@pytest.mark.parametrize("labels", [np.where(Y == 1, "fraud", "fine"), Y == 1, Y * 2 - 1])
def test_an_under_sampler_sees_the_users_labels(labels):
    negative, positive = np.unique(labels)
    turned = positive if positive != "fine" else negative
    negative = negative if turned == positive else positive
    sampler = RandomUnderSampler(sampling_strategy={negative: 700}, random_state=0)
    model = fitted(labels=labels, sampling_rate=sampler, pos_label=turned)
    assert model.n_kept_ == 700 + Y.sum()


@pytest.mark.parametrize(
    "sampler",
    [
        NearMiss(),
        TomekLinks(),
        EditedNearestNeighbours(),
        AllKNN(),
        OneSidedSelection(),
        CondensedNearestNeighbour(),
        NeighbourhoodCleaningRule(),
        InstanceHardnessThreshold(),
        ClusterCentroids(),
        RandomOverSampler(),
        SMOTE(),
        SMOTEENN(),
        RandomUnderSampler(replacement=True),
    ],
)
def test_samplers_that_do_not_choose_at_random_given_the_class_are_refused_by_name(sampler):
    with pytest.raises(ValueError, match=rf"sampling_rate={type(sampler).__name__}\("):
        fitted(sampling_rate=sampler)


def test_a_sampler_class_is_refused():
    with pytest.raises(TypeError, match=r"RandomUnderSampler\(\)"):
        fitted(sampling_rate=RandomUnderSampler)


# The rate of "auto"


def test_auto_takes_the_smallest_rate_that_keeps_the_precision():
    model = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="auto")
    assert 0.05 < model.sampling_rate_ < 0.5
    assert model.relative_efficiency_.shape == (3,)
    assert model.relative_efficiency_.min() == pytest.approx(0.95, abs=0.02)
    less = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="auto", efficiency=0.8)
    assert less.sampling_rate_ < 0.5 * model.sampling_rate_
    assert less.relative_efficiency_.min() == pytest.approx(0.8, abs=0.03)
    notes = str(model.summary())
    assert f"{model.relative_efficiency_.min():.3f}" in notes


def test_the_rate_of_auto_does_not_depend_on_units():
    plain = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="auto")
    units = np.array([1e-3, 1.0, 1e4])
    scaled = fitted(rows=RARE_X * units + 5, labels=RARE_Y, sampling_rate="auto")
    assert scaled.n_kept_ == plain.n_kept_
    np.testing.assert_allclose(scaled.coef_ * units, plain.coef_, rtol=1e-7)
    np.testing.assert_allclose(scaled.relative_efficiency_, plain.relative_efficiency_, rtol=1e-6)


def test_auto_looks_after_the_contrasts_it_is_given():
    x = RARE_X.copy()
    x[:, 2] = np.random.default_rng(4).random(len(x)) < 0.05  # its slope is a costly one
    y = (np.random.default_rng(5).random(len(x)) < expit(-6 + x @ [1.0, -0.8, 3.0])).astype(int)
    every = glm(sampling_rate="auto").fit(x, y)
    two = glm(sampling_rate="auto").fit(x, y, contrasts=[[1, 0, 0], [0, 1, 0]])
    difference = glm(sampling_rate="auto").fit(x, y, contrasts=[1, -1, 0])
    assert two.relative_efficiency_.shape == (2,)
    assert difference.relative_efficiency_.shape == (1,)
    assert two.sampling_rate_ < 0.7 * every.sampling_rate_
    times = glm(sampling_rate="auto").fit(x, y, contrasts=[[100, -100, 0]])
    assert times.n_kept_ == difference.n_kept_


@pytest.mark.parametrize(
    ("contrasts", "message"),
    [
        ([[1, 0]], r"contrasts has shape \(1, 2\).*3 slopes"),
        ([[0, 0, 0]], "contrast 0 is zero"),
        ([[1, 0, 0], [0, np.nan, 0]], "contrast 1 is zero or not finite"),
    ],
)
def test_bad_contrasts_are_named(contrasts, message):
    with pytest.raises(ValueError, match=message):
        glm(sampling_rate="auto").fit(X, Y, contrasts=contrasts)


def few_positives(n, positives):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, 3))
    y = np.zeros(n, int)
    y[rng.choice(n, positives, replace=False)] = 1
    return x, y


@pytest.mark.parametrize(
    ("rows", "positives", "everything"),
    [(4_999, 150, True), (30_000, 99, True), (30_000, 100, False), (5_000, 100, False)],
)
def test_auto_takes_all_rows_where_there_is_little_to_win(rows, positives, everything):
    x, y = few_positives(rows, positives)
    model = fitted(rows=x, labels=y, sampling_rate="auto", efficiency=0.7)
    assert (model.n_kept_ == rows) == everything
    assert (model.sampling_rate_ == 1) == everything


def test_auto_takes_all_rows_where_its_rate_is_above_one_half():
    assert Y.mean() > 0.03
    assert len(Y) > 5_000
    model = fitted("probit", sampling_rate="auto", efficiency=0.98)
    assert model.sampling_rate_ == 1.0
    np.testing.assert_array_equal(model.relative_efficiency_, 1.0)
    assert fitted("probit", sampling_rate="auto", efficiency=0.7).sampling_rate_ < 0.5


def hopeful(monkeypatch, factor):
    """Make the pilot's rate of "auto" too low by a factor."""
    calls = []
    for name, module in list(sys.modules.items()):
        if name.startswith("imbfit.") and hasattr(module, "fit_efficient"):
            honest = getattr(module, "efficient_rate", None)
            if honest is None:
                continue

            def first_time_low(*args, honest=honest, **options):
                calls.append(honest(*args, **options))
                return calls[-1] * (factor if len(calls) == 1 else 1)

            monkeypatch.setattr(module, "efficient_rate", first_time_low)
    return calls


def test_the_fit_corrects_a_pilot_that_was_too_hopeful(monkeypatch):
    right = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="auto")
    calls = hopeful(monkeypatch, 0.85)
    model = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="auto")
    assert len(calls) == 2
    assert model.sampling_rate_ > 0.93 * right.sampling_rate_
    assert model.relative_efficiency_.min() > 0.94


def test_a_pilot_far_too_hopeful_is_said(monkeypatch):
    right = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="auto")
    hopeful(monkeypatch, 0.3)
    with pytest.warns(
        SamplingWarning, match=r"keeps 0\.\d\d .* not 0\.95.*sampling_rate"
    ) as caught:
        model = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="auto")
    assert model.sampling_rate_ == pytest.approx(1.25 * 0.3 * right.sampling_rate_, rel=0.1)
    assert f"{model.relative_efficiency_.min():.2f}" in str(caught[0].message)


def test_with_logit_the_profile_is_the_conditional_likelihood():
    same_model(fitted(method="profile"), fitted(), rtol=1e-7)
    probit = fitted("probit", method="profile", sampling_rate=0.05)
    assert abs(probit.coef_ - fitted("probit", sampling_rate=0.05).coef_).max() > 1e-7


@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
def test_the_efficiency_is_the_ratio_of_the_variances(method):
    full = fitted("probit", *rows_of(30_000, -2.4, link="probit"), sampling_rate=1.0)
    rows = rows_of(30_000, -2.4, link="probit")
    model = fitted("probit", *rows, method=method, sampling_rate=0.05)
    ratio = (full.standard_errors_ / model.standard_errors_)[1:] ** 2
    np.testing.assert_allclose(model.relative_efficiency_, ratio, rtol=0.1)
    assert (model.relative_efficiency_ < 0.95).all()


def test_the_naive_fit_has_no_efficiency():
    assert fitted(method="naive").relative_efficiency_ is None


# Unequal chances


@pytest.mark.parametrize("method", ["cmle", "iw"])
@pytest.mark.parametrize("sampling", ["a_optimal", "l_optimal"])
def test_unequal_chances_keep_all_positives_and_about_the_rate(sampling, method):
    x, y = rows_of(40_000, -5.2, seed=3, coef=np.array([2.0, -1.5, 0.0]))
    model = fitted(rows=x, labels=y, sampling=sampling, sampling_rate=0.03, method=method)
    kept = model.n_kept_ - y.sum()
    assert model.sampling_rate_ == pytest.approx(kept / (y == 0).sum(), rel=1e-12)
    assert model.sampling_rate_ == pytest.approx(0.03, rel=0.25)
    plain = fitted(rows=x, labels=y, sampling_rate=0.03, method=method)
    assert (model.standard_errors_[1:] ** 2).sum() < (plain.standard_errors_[1:] ** 2).sum()
    assert model.relative_efficiency_.sum() > plain.relative_efficiency_.sum()


def test_local_case_control_thins_the_positives_too():
    x, y = rows_of(40_000, -4.0, seed=3, coef=np.array([4.0, -3.0, 0.0]))
    model = fitted(rows=x, labels=y, sampling="local_case_control", sampling_rate=0.02)
    text = str(model.summary())
    kept, of = map(
        int, re.search(r"positives +([\d,]+) of ([\d,]+)", text.replace(",", "")).groups()
    )
    assert of == y.sum()
    assert kept < of


def test_auto_with_unequal_chances_needs_fewer_rows():
    x, y = rows_of(60_000, -5.2, seed=3, coef=np.array([2.0, -1.5, 0.0]))
    plain = fitted(rows=x, labels=y, sampling_rate="auto", efficiency=0.9)
    better = fitted(rows=x, labels=y, sampling="a_optimal", sampling_rate="auto", efficiency=0.9)
    assert better.n_kept_ < 0.7 * plain.n_kept_
    assert np.nanmin(better.relative_efficiency_) == pytest.approx(0.9, abs=0.05)


# Offset, intercept


def exposed(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    years = rng.uniform(0.05, 2, n)
    eta = -3 + x @ [0.8, -0.5] + np.log(years)
    y = (rng.random(n) < INVERSE["cloglog"](eta)).astype(int)
    frame = pd.DataFrame({"age": x[:, 0], "log_years": np.log(years), "power": x[:, 1]})
    return frame, y


@pytest.mark.parametrize("rate", [1.0, 0.1, "auto"])
def test_an_offset_by_name_by_position_and_by_callable_are_the_same(rate):
    frame, y = exposed()
    by_name = fitted("cloglog", frame, y, offset="log_years", sampling_rate=rate)
    assert by_name.get_parameter_names() == ["intercept", "age", "power"]
    assert by_name.coef_.shape == (1, 2)
    assert by_name.n_features_in_ == 3
    truth = np.array([-3, 0.8, -0.5])
    found = np.concatenate([by_name.intercept_, by_name.coef_[0]])
    assert (np.abs(found - truth) < 3.5 * by_name.standard_errors_).all()
    p = by_name.predict_proba(frame)
    assert p[:, 1].mean() == pytest.approx(y.mean(), rel=0.1)
    for position, rows in [(1, frame.to_numpy()), (-2, sparse.csr_array(frame.to_numpy()))]:
        model = fitted("cloglog", rows, y, offset=position, sampling_rate=rate)
        same_model(model, by_name)
        np.testing.assert_allclose(model.predict_proba(rows), p, rtol=1e-9)
        assert model.get_parameter_names() == ["intercept", "x0", "x2"]
    frame_of_polars = pl.from_pandas(frame)
    model = fitted("cloglog", frame_of_polars, y, offset="log_years", sampling_rate=rate)
    same_model(model, by_name)
    np.testing.assert_allclose(model.predict_proba(frame_of_polars), p, rtol=1e-9)


@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_a_callable_offset_keeps_the_column_as_a_feature(rate):
    frame, y = exposed()
    column = frame["log_years"].to_numpy()
    model = fitted("cloglog", frame, y, offset=lambda X: X["log_years"], sampling_rate=rate)
    assert model.get_parameter_names() == ["intercept", "age", "log_years", "power"]
    # its coefficient of 1 is in the offset, so that the slope is what is left of it
    beside = fitted("cloglog", frame, y, sampling_rate=rate)
    expected = beside.coef_[0] - np.array([0, 1, 0])
    np.testing.assert_allclose(model.coef_[0], expected, atol=1e-7)
    np.testing.assert_allclose(model.predict_proba(frame), beside.predict_proba(frame), rtol=1e-6)
    np.testing.assert_array_equal(frame["log_years"], column)


def test_twice_the_exposure_is_twice_the_hazard():
    frame, y = exposed()
    model = fitted("cloglog", frame, y, offset="log_years")
    longer = frame.assign(log_years=frame["log_years"] + np.log(2))
    hazard = -model.predict_log_proba(frame)[:, 0]
    np.testing.assert_allclose(-model.predict_log_proba(longer)[:, 0], 2 * hazard, rtol=1e-9)


@biased
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("method", METHODS)
def test_a_constant_offset_moves_the_intercept_and_nothing_else(method, link):
    # pseudo-likelihoods and isotonic maps included
    rows = np.column_stack([X, np.full(len(X), 1.3)])
    moved, plain = fitted(link, rows, method=method, offset=3), fitted(link, method=method)
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(moved.intercept_, plain.intercept_ - 1.3, rtol=1e-6)
    np.testing.assert_allclose(moved.predict_proba(rows), plain.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("sampling", ["a_optimal", "l_optimal", "local_case_control"])
def test_an_offset_is_combined_with_unequal_chances(sampling):
    frame, y = exposed(40_000)
    model = fitted("cloglog", frame, y, offset="log_years", sampling=sampling, sampling_rate=0.1)
    found = np.concatenate([model.intercept_, model.coef_[0]])
    assert (np.abs(found - [-3, 0.8, -0.5]) < 3.5 * model.standard_errors_).all()
    assert 0.9 < model.calibration_ratio_ < 1.1


def test_an_offset_is_that_of_the_positive_class():
    frame, y = exposed()
    plain = fitted("cloglog", frame, y, offset="log_years")
    turned = fitted("cloglog", frame, 1 - y, offset="log_years", pos_label=0)
    np.testing.assert_allclose(
        turned.predict_proba(frame)[:, 0], plain.predict_proba(frame)[:, 1], rtol=1e-9
    )


def test_bad_offsets_are_named():
    frame, y = exposed(500)
    broken = frame.copy()
    broken.loc[3, "log_years"] = -np.inf
    with pytest.raises(ValueError, match="infin"):
        fitted("cloglog", broken, y, offset="log_years")
    with pytest.raises(ValueError, match=r"offset.*\(position 3\)"):
        fitted("cloglog", frame, y, offset=lambda _: broken["log_years"])
    model = fitted("cloglog", frame, y, offset=lambda X: X["log_years"], sampling_rate=1.0)
    with pytest.raises((KeyError, ValueError)):
        model.predict(frame.rename(columns={"log_years": "years"}))
    with pytest.raises(ValueError, match="at least one feature"):
        fitted("cloglog", frame[["log_years"]], y, offset="log_years")


def test_a_known_intercept_is_not_fitted():
    model = fitted(known_intercept=-3.2)
    assert model.intercept_.tolist() == [-3.2]
    assert model.get_parameter_names() == ["x0", "x1", "x2"]
    assert model.covariance_.shape == (3, 3)
    assert (np.abs(model.coef_[0] - COEF) < 3.5 * model.standard_errors_).all()
    assert "not fitted: -3.2" in str(model.summary())
    # it is minus the threshold of the latent variable, and the same as an offset
    shifted = np.column_stack([X, np.full(len(X), -3.2)])
    beside = fitted(rows=shifted, offset=3, fit_intercept=False)
    np.testing.assert_allclose(beside.coef_, model.coef_, rtol=1e-8)
    np.testing.assert_allclose(beside.covariance_, model.covariance_, rtol=1e-6)
    turned = fitted(labels=1 - Y, pos_label=0, known_intercept=-3.2)
    np.testing.assert_allclose(turned.predict_proba(X)[:, ::-1], model.predict_proba(X))


@biased
@pytest.mark.parametrize("method", METHODS)
def test_without_an_intercept(method):
    x = np.column_stack([np.ones(len(X)), X])
    own = fitted(rows=x, fit_intercept=False, method=method)
    plain = fitted(method=method)
    assert own.intercept_.tolist() == [0.0]
    np.testing.assert_allclose(own.coef_[0], [*plain.intercept_, *plain.coef_[0]], rtol=1e-7)
    np.testing.assert_allclose(own.covariance_, plain.covariance_, rtol=1e-6, atol=1e-9)
    assert own.get_parameter_names() == ["x0", "x1", "x2", "x3"]


# Recalibration


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_recalibration_makes_the_mean_prediction_the_prevalence(link, weighted, turned):
    weight = np.random.default_rng(0).integers(0, 3, len(Y)).astype(float) if weighted else None
    labels = 1 - Y if turned else Y
    options = {"labels": labels, "weight": weight, "pos_label": 0 if turned else 1}
    options |= {"C": 0.02, "sampling_rate": 0.05}
    plain = fitted(link, **options)
    model = fitted(link, recalibrate_intercept="full", **options)
    assert abs(plain.calibration_ratio_ - 1) > 0.003
    p = model.predict_proba(X)[:, 0 if turned else 1]
    assert np.average(p, weights=weight) == pytest.approx(np.average(Y, weights=weight), rel=1e-5)
    assert model.calibration_ratio_ == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_allclose(model.intercept_, plain.intercept_ + model.intercept_shift_)
    np.testing.assert_array_equal(model.standard_errors_, plain.standard_errors_)
    assert f"{model.intercept_shift_:+.4g}" in str(model.summary())
    assert not hasattr(model.set_params(recalibrate_intercept=False).fit(X, Y), "intercept_shift_")


# Solvers


@biased
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg"])
def test_solvers_agree(solver, method):
    one = fitted(method=method, solver=solver)
    same_model(one, fitted(method=method, solver="newton"), rtol=1e-5)
    assert one.converged_


def test_a_warm_start_begins_where_the_last_fit_ended():
    model = glm("probit", sampling_rate=1.0, warm_start=True)
    first = model.fit(X, Y).n_iter_
    coef = model.coef_.copy()
    second = model.fit(X, Y).n_iter_
    assert first >= 4
    assert second <= 1
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-8)
    np.testing.assert_allclose(model.fit(X, 1 - Y).coef_, fitted(
        "probit", labels=1 - Y, sampling_rate=1.0).coef_, rtol=1e-7)  # fmt: skip
    with pytest.raises(ValueError, match=r"warm_start.*3 slopes.*2"):
        model.fit(X[:, :2], Y)
    assert clone(model).fit(X[:, :2], Y).n_features_in_ == 2


def test_too_few_iterations_are_said():
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*C=1"):
        model = fitted("probit", max_iter=1)
    assert not model.converged_
    assert model.n_iter_ >= 1
    assert "no, " in str(model.summary())
    assert fitted("probit").converged_


def test_verbose_prints_the_iterations(capsys):
    fitted(verbose=1)
    assert len(capsys.readouterr().out.splitlines()) >= 3
    fitted()
    assert not capsys.readouterr().out


# What came in: kinds of tables, labels, weights


def frames():
    return {
        "list": (X.tolist(), Y.tolist()),
        "csr": (sparse.csr_array(X), Y),
        "csc": (sparse.csc_matrix(X), Y),
        "fortran": (np.asfortranarray(X), Y),
        "pandas": (pd.DataFrame(X, columns=NAMES), pd.Series(Y)),
        "polars": (pl.DataFrame(X, schema=NAMES), pl.Series(Y)),
        "column": (X, Y[:, None].ravel()),
    }


@pytest.mark.parametrize("rate", [0.2, "auto", RandomUnderSampler(random_state=0)])
@pytest.mark.parametrize("kind", ["list", "csr", "csc", "fortran", "pandas", "polars", "column"])
def test_any_kind_of_table(kind, rate):
    rows, labels = frames()[kind]
    model = fitted(rows=rows, labels=labels, sampling_rate=rate)
    plain = fitted(sampling_rate=rate)
    same_model(model, plain)
    np.testing.assert_allclose(model.predict_proba(rows), plain.predict_proba(X), rtol=1e-7)
    named = kind in {"pandas", "polars"}
    expected = NAMES if named else ["x0", "x1", "x2"]
    assert model.get_parameter_names() == ["intercept", *expected]
    assert hasattr(model, "feature_names_in_") == named


@pytest.mark.parametrize(
    "labels",
    [
        np.where(Y == 1, "yes", "no"),
        np.where(Y == 1, "yes", "no").astype(object),
        Y.astype(bool),
        Y * 2 - 1,
        Y.astype(float),
        Y + 5,
        pd.Series(np.where(Y == 1, "yes", "no"), dtype="category"),
    ],
)
def test_any_kind_of_label(labels):
    model = fitted(labels=labels)
    same_model(model, fitted())
    assert model.pos_label_ == model.classes_[1]
    expected = np.asarray(labels)[Y == 1][0]
    assert model.classes_[1] == expected
    assert (model.predict(X) == expected).sum() == (fitted().predict(X) == 1).sum()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_float32_is_close_and_stays_float32(make):
    rows = make(X.astype(np.float32))
    model = fitted(rows=rows)
    same_model(model, fitted(rows=X.astype(np.float32).astype(float)), rtol=1e-6)


def test_float32_rows_are_never_all_copied():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60_000, 40), dtype=np.float32)
    labels = rng.random(60_000) < 0.01
    glm(C=1.0).fit(rows[:500], rng.random(500) < 0.5)
    tracemalloc.start()
    try:
        glm(sampling_rate=0.05).fit(rows, labels).predict_proba(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows.nbytes > 9e6
    assert peak < 0.8 * rows.nbytes


def test_sparse_rows_are_never_made_dense():
    rng = np.random.default_rng(0)
    n, width, each = 20_000, 4_000, 15
    columns = rng.integers(0, width, n * each)
    rows = sparse.csr_array(
        (np.ones(n * each, np.float32), columns, np.arange(0, n * each + 1, each)),
        shape=(n, width),
    )
    labels = rng.random(n) < 0.02
    tracemalloc.start()
    try:
        model = glm(sampling_rate=0.5, C=1.0).fit(rows, labels)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.converged_
    assert peak < 0.1 * n * width * 4
    assert not hasattr(model, "covariance_")


def test_the_order_of_rows_does_not_matter_where_all_are_kept():
    order = np.random.default_rng(0).permutation(len(Y))
    for method in METHODS:
        same_model(
            fitted(rows=X[order], labels=Y[order], sampling_rate=1.0, method=method),
            fitted(sampling_rate=1.0, method=method),
        )


@biased
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_units_of_features_change_units_of_coefficients(link, method):
    units, origin = np.array([1e-3, 1.0, 1e4]), np.array([3.0, -2.0, 500.0])
    plain = fitted(link, method=method)
    scaled = fitted(link, X * units + origin, method=method)
    np.testing.assert_allclose(scaled.coef_ * units, plain.coef_, rtol=1e-6)
    moved = plain.intercept_ - scaled.coef_[0] @ origin
    np.testing.assert_allclose(scaled.intercept_, moved, rtol=1e-6)
    np.testing.assert_allclose(
        scaled.standard_errors_[1:] * units, plain.standard_errors_[1:], rtol=1e-5
    )
    p = scaled.predict_proba(X * units + origin)
    np.testing.assert_allclose(p, plain.predict_proba(X), rtol=1e-6)


def test_a_weight_of_two_is_the_row_twice_where_all_rows_are_kept():
    weight = np.random.default_rng(0).integers(0, 4, len(Y))
    twice = np.repeat(np.arange(len(Y)), weight)
    for method in METHODS:
        weighted = fitted(weight=weight, sampling_rate=1.0, method=method)
        repeated = fitted(rows=X[twice], labels=Y[twice], sampling_rate=1.0, method=method)
        same_model(weighted, repeated, errors=False)
        assert weighted.n_kept_ == (weight > 0).sum()
        assert weighted.calibration_ratio_ == pytest.approx(repeated.calibration_ratio_)


@biased
@pytest.mark.parametrize("method", METHODS)
def test_weights_of_zero_are_absent_and_the_scale_of_weights_does_not_matter(method):
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.5, 2, len(Y)) * (rng.random(len(Y)) < 0.7)
    plain = fitted(weight=weight, method=method)
    scaled = fitted(weight=weight * 1e3, method=method)
    same_model(plain, scaled, rtol=1e-6)
    broken = np.where(weight[:, None] > 0, X, 1e3)  # rows of weight 0 hold anything
    same_model(fitted(rows=broken, weight=weight, method=method), plain, rtol=1e-6)
    constant = fitted(weight=np.full(len(Y), 4.0), method=method)
    same_model(constant, fitted(method=method), rtol=1e-6)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(np.arange(len(Y)) == 5, -1.0, 1.0), r"negative in 1 row \(position 5\)"),
        (np.where(np.arange(len(Y)) == 5, np.nan, 1.0), r"NaN or infinite.*position 5"),
        (np.ones(len(Y) - 1), "sample_weight"),
        (np.zeros(len(Y)), "zero in every row"),
        (np.where(Y == 1, 0.0, 1.0), "one class only, 0 where sample_weight is above 0"),
    ],
)
def test_bad_weights_are_named(weight, message):
    with pytest.raises(ValueError, match=message):
        fitted(weight=weight)


# Inside scikit-learn and imbalanced-learn


def test_a_grid_search_over_links_and_ridges():
    search = GridSearchCV(
        glm(sampling_rate=0.5),
        {"link": ["logit", "cloglog"], "C": [0.1, np.inf]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(X, Y)
    assert search.best_score_ > -0.2
    assert hasattr(search, "best_estimator_")


def test_weights_are_routed():
    weight = np.random.default_rng(0).uniform(0.1, 3, len(Y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            glm().set_fit_request(sample_weight=True),
        ).fit(X, Y, sample_weight=weight)
        scores = cross_val_score(
            glm().set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            X,
            Y,
            params={"sample_weight": weight},
            cv=2,
        )
    direct = fitted(rows=StandardScaler().fit_transform(X), weight=weight)
    same_model(model[-1], direct)
    assert (scores > 0.9).all()


def test_a_sampler_earlier_in_a_pipeline():
    sampler = RandomUnderSampler(sampling_strategy=0.5, random_state=1)
    inner = glm("probit", presampled=True, sampling_rate="auto", prevalence=float(Y.mean()))
    model = make_sampling_pipeline(clone(sampler), inner).fit(X, Y)
    beside = fitted("probit", sampling_rate=sampler)
    same_model(model[-1], beside, errors=False)
    p = model.predict_proba(X)[:, 1]
    assert p.mean() / Y.mean() == pytest.approx(1, abs=0.05)
    forgotten = make_sampling_pipeline(clone(sampler), glm(presampled=True, sampling_rate="auto"))
    with pytest.raises(ValueError, match="RandomUnderSampler"):
        forgotten.fit(X, Y)


def test_names_of_features_are_checked():
    frame = pd.DataFrame(X, columns=NAMES)
    model = fitted(rows=frame)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match="3 features"):
        fitted().predict(X[:, :2])


# Inference


@biased
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("turned", [False, True])
def test_errors_intervals_and_the_summary_are_one(method, turned):
    frame = pd.DataFrame(X, columns=NAMES)
    model = fitted(rows=frame, method=method, labels=1 - Y if turned else Y,
                   pos_label=0 if turned else 1)  # fmt: skip
    names = ["intercept", *NAMES]
    assert model.get_parameter_names() == names
    coef = np.concatenate([model.intercept_, model.coef_[0]])
    se = model.standard_errors_
    assert model.covariance_.shape == (4, 4)
    np.testing.assert_allclose(se, np.sqrt(np.diag(model.covariance_)))
    np.testing.assert_allclose(model.covariance_, model.covariance_.T)
    assert (np.linalg.eigvalsh(model.covariance_) > 0).all()
    for level in (0.5, 0.95, 0.999):
        half = stats.norm.ppf(0.5 + level / 2) * se
        expected = np.column_stack([coef - half, coef + half])
        np.testing.assert_allclose(model.conf_int(level), expected)
    np.testing.assert_array_equal(model.conf_int(), model.conf_int(0.95))
    table = model.summary(0.9).to_frame()
    assert table.index.tolist() == names
    np.testing.assert_allclose(table["coefficient"], coef)
    np.testing.assert_allclose(table["standard error"], se)
    np.testing.assert_allclose(table[["lower", "upper"]], model.conf_int(0.9))
    p = np.maximum(2 * stats.norm.sf(np.abs(coef / se)), 1e-300)
    np.testing.assert_allclose(table["p-value"], p, rtol=1e-9)
    text = str(model.summary(0.9))
    for word in (*names, "90%", method, "logit", "positives", "negatives", "sampling rate",
                 "prevalence", "log-likelihood", "calibration", "converged"):  # fmt: skip
        assert word in text
    html = model.summary()._repr_html_()
    assert all(name in html for name in names)
    negatives = int((Y == 0).sum())
    assert f"{model.n_kept_ - Y.sum():,} of {negatives:,}" in text


@pytest.mark.parametrize("level", [0, 1, 95, "high"])
def test_a_level_is_a_share(level):
    for call in (fitted().conf_int, fitted().summary):
        with pytest.raises(ValueError, match="level="):
            call(level)


def test_presampled_negatives_are_about_so_many():
    kept = kept_by_key(Y, 0.2, 7)
    model = fitted(rows=X[kept], labels=Y[kept], presampled=True, sampling_rate=0.2)
    negatives = int((kept & (Y == 0)).sum())
    assert f"{negatives:,} of about {negatives * 5:,}" in str(model.summary())


def test_standard_errors_by_name_and_by_position():
    model = fitted(rows=pd.DataFrame(X, columns=NAMES))
    se = model.standard_errors_
    np.testing.assert_array_equal(model.standard_errors_for("income"), se[[2]])
    np.testing.assert_array_equal(model.standard_errors_for(0), se[[1]])
    np.testing.assert_array_equal(model.standard_errors_for(-1), se[[3]])
    np.testing.assert_array_equal(
        model.standard_errors_for(["intercept", "tenure", 0]), se[[0, 3, 1]]
    )
    for column in ("size", 3, -4):
        with pytest.raises(ValueError, match=rf"{column!r} is no column.*'tenure'.*below 3"):
            model.standard_errors_for(column)


def allow_few_columns(monkeypatch):
    for name, module in list(sys.modules.items()):
        if name.startswith("imbfit.") and hasattr(module, "MAX_COLUMNS"):
            monkeypatch.setattr(module, "MAX_COLUMNS", 3)


@pytest.fixture
def few_columns_allowed(monkeypatch):
    allow_few_columns(monkeypatch)


@biased
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("C", [np.inf, 0.5])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_many_columns_have_standard_errors_one_by_one(link, C, method, monkeypatch):
    dense = fitted(link, method=method, C=C)
    allow_few_columns(monkeypatch)
    model = fitted(link, method=method, C=C)
    same_model(model, dense, rtol=1e-5, errors=False)
    for name in ("covariance_", "standard_errors_"):
        with pytest.raises(AttributeError, match=rf"{name}.*standard_errors_for\(columns\)"):
            getattr(model, name)
        assert not hasattr(model, name)
    for call in (model.conf_int, model.summary):
        with pytest.raises(AttributeError, match="standard_errors_for"):
            call()
    found = model.standard_errors_for(["intercept", 0, 1, 2])
    np.testing.assert_allclose(found, dense.standard_errors_, rtol=1e-4)
    assert model.relative_efficiency_ is None
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.standard_errors_for("x1"), found[[2]])


@pytest.mark.usefixtures("few_columns_allowed")
def test_auto_with_many_columns_takes_the_bound():
    p = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate=1.0).predict_proba(RARE_X)[:, 1].max()
    model = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="auto", efficiency=0.6)
    bound = 0.6 * p / (0.4 + 0.6 * p)
    assert model.sampling_rate_ == pytest.approx(bound, rel=0.25)
    assert model.relative_efficiency_ is None


@pytest.mark.usefixtures("few_columns_allowed")
def test_unequal_chances_with_many_columns():
    with pytest.raises(ValueError, match=r"a_optimal.*4 coefficients.*l_optimal"):
        fitted(rows=RARE_X, labels=RARE_Y, sampling="a_optimal", sampling_rate=0.05)
    with pytest.raises(ValueError, match=r"auto.*number as sampling_rate"):
        fitted(rows=RARE_X, labels=RARE_Y, sampling="l_optimal", sampling_rate="auto")
    model = fitted(rows=RARE_X, labels=RARE_Y, sampling="l_optimal", sampling_rate=0.05)
    assert model.sampling_rate_ == pytest.approx(0.05, rel=0.2)


def test_the_log_likelihood_is_that_of_the_kept_rows():
    model = fitted("cloglog")
    kept = kept_by_key(Y, 0.2, 7)
    shown = model.predict_proba(X[kept])[:, 1]
    shown = shown / (shown + (1 - shown) * model.sampling_rate_)
    expected = np.log(np.where(Y[kept] == 1, shown, 1 - shown)).sum()
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-9)
    weighted = fitted("cloglog", method="iw")
    log_p = weighted.predict_log_proba(X[kept])
    each = np.where(Y[kept] == 1, log_p[:, 1], log_p[:, 0] / weighted.sampling_rate_)
    assert weighted.log_likelihood_ == pytest.approx(each.sum(), rel=1e-9)


# Bad rows


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite(bad):
    broken = X.copy()
    broken[4, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fitted(rows=broken)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fitted().predict(broken)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(len(Y), int), "one class only, 0"),
        (np.where(Y == 1, "a", "a"), "one class only, 'a'"),
        (np.arange(len(Y)) % 3, "Only binary"),
        (np.linspace(0, 1, len(Y)), "continuous"),
    ],
)
def test_labels_of_one_class_or_many(labels, message):
    with pytest.raises(ValueError, match=message):
        fitted(labels=labels)


@pytest.mark.parametrize("rate", [1.0, 0.2, "auto"])
@pytest.mark.parametrize("one", [0, 1])
def test_a_single_row_of_a_class_is_a_named_warning(one, rate):
    labels = np.full(200, 1 - one)
    labels[17] = one
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        glm(sampling_rate=rate, pos_label=one).fit(X[:200], labels)
    said = [str(w.message) for w in caught if w.category is SamplingWarning]
    assert len(said) == 1
    assert re.search(rf"one row of the positive class.*{one}.*C=1", said[0])


def test_a_rate_that_leaves_no_negatives_says_which_would():
    with pytest.raises(ValueError, match=r"none of the \d+ negatives.*higher sampling_rate") as e:
        fitted(sampling_rate=1e-9)
    rate = float(re.search(r"at ([\d.e-]+) some 20", str(e.value)).group(1))
    assert rate == pytest.approx(20 / (Y == 0).sum(), rel=0.05)
    with pytest.raises(ValueError, match=r"none of the .* negatives"):
        fitted(sampling_rate=1e-9, sampling="a_optimal")


# Columns that tell everything, or nothing


def separated(kind, n=6_000):
    """Columns of which the second separates the classes, or nearly so."""
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.05).astype(int)
    x = rng.uniform(-1, 1, (n, 3))
    if kind == "complete":
        x[:, 1] = np.where(y == 1, 2.0, -2.0) + rng.uniform(-1, 1, n)
    else:  # one-hot that only positives have
        x[:, 1] = (y == 1) & (rng.random(n) < 0.3)
    return pd.DataFrame(x, columns=NAMES), y


@pytest.mark.parametrize("rate", ["auto", 0.3, 1.0])
@pytest.mark.parametrize("method", ["cmle", "iw", "profile", "naive"])
@pytest.mark.parametrize("kind", ["complete", "one-hot"])
def test_separation_names_the_column_and_the_remedy(kind, method, rate):
    frame, y = separated(kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fitted(rows=frame, labels=y, sampling_rate=rate, method=method)
    said = [str(w.message) for w in caught if w.category is SeparationWarning]
    assert said
    assert {w.category for w in caught} <= {SeparationWarning, ConvergenceWarning}
    for text in said:
        assert "'income' separates" in text
        assert "C=1" in text
        assert "drop the column" in text
    assert any("pilot" in text for text in said) == (rate == "auto")
    assert not model.converged_
    if rate == "auto":
        assert model.sampling_rate_ == 1.0
    assert np.isfinite(model.predict_proba(frame)).all()


@pytest.mark.parametrize("kind", ["complete", "one-hot"])
@pytest.mark.parametrize("rate", ["auto", 0.3])
def test_a_ridge_is_a_remedy(kind, rate):
    frame, y = separated(kind)
    model = fitted(rows=frame, labels=y, sampling_rate=rate, C=1.0)
    assert model.converged_
    assert np.isfinite(model.standard_errors_).all()
    assert model.coef_[0, 1] > 1


def test_a_combination_of_columns_that_separates():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (6_000, 3))
    total = x @ [1.0, 1.0, 0.0]
    y = (total > 1.0).astype(int)
    with pytest.warns(SeparationWarning, match=r"combination.*'x[01]' most of all.*C=1") as caught:
        fitted(rows=x, labels=y, sampling_rate=0.3)
    assert len([w for w in caught if w.category is SeparationWarning]) == 1


@biased
@pytest.mark.parametrize("rate", [1.0, 0.2, "auto"])
@pytest.mark.parametrize("method", METHODS)
def test_constant_and_collinear_columns_are_named(method, rate):
    frame, y = pd.DataFrame(X, columns=NAMES), Y
    frame["constant"] = 4.0
    frame["double"] = 2 * frame["age"] - frame["tenure"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fitted(rows=frame, labels=y, sampling_rate=rate, method=method)
    if method == "pseudo_mle":
        caught = [w for w in caught if w.category is not SamplingWarning]
    assert [w.category for w in caught] == [CollinearityWarning]
    text = str(caught[0].message)
    assert "'constant', 'double'" in text
    assert "C=1" in text
    plain = fitted(rows=frame[NAMES], labels=y, method=method, sampling_rate=model.sampling_rate_
                   if rate == "auto" else rate)  # fmt: skip
    if rate != "auto" or model.sampling_rate_ == 1:
        np.testing.assert_allclose(model.coef_[0, :3], plain.coef_[0], rtol=1e-6)
        np.testing.assert_allclose(model.standard_errors_[:4], plain.standard_errors_, rtol=1e-5)
        np.testing.assert_allclose(
            model.predict_proba(frame), plain.predict_proba(frame[NAMES]), rtol=1e-6
        )
    assert model.coef_[0, 3:].tolist() == [0.0, 0.0]
    assert np.isinf(model.standard_errors_[4:]).all()
    assert model.converged_
    if method != "naive":
        assert np.isnan(model.relative_efficiency_[3:]).all()
        assert (model.relative_efficiency_[:3] > 0).all()
    assert "not identified" in str(model.summary())


def test_a_ridge_shares_between_collinear_columns_without_a_warning():
    frame = pd.DataFrame(X, columns=NAMES).assign(again=X[:, 0])
    model = fitted(rows=frame, C=1.0)
    assert model.coef_[0, 3] == pytest.approx(model.coef_[0, 0], rel=1e-6)
    assert np.isfinite(model.standard_errors_).all()


# The pseudo-likelihood


def test_the_pseudo_likelihood_warns_with_the_bias_it_has():
    with pytest.warns(SamplingWarning, match=r"biased\s+by about -\d+%") as caught:
        model = fitted(rows=RARE_X, labels=RARE_Y, method="pseudo_mle", sampling_rate="balanced")
    said = float(re.search(r"by about ([-+]\d+)%", str(caught[0].message)).group(1)) / 100
    honest = fitted(rows=RARE_X, labels=RARE_Y, sampling_rate="balanced")
    assert model.n_kept_ == honest.n_kept_
    ratio = float(model.coef_[0] @ honest.coef_[0] / (honest.coef_[0] @ honest.coef_[0])) - 1
    assert said == pytest.approx(ratio, abs=0.02)
    assert -0.6 < said < -0.4
    assert "cmle" in str(caught[0].message)


def test_the_pseudo_likelihood_is_silent_where_it_is_right():
    x, y = few_positives(30_000, 60)
    model = fitted(rows=x, labels=y, method="pseudo_mle", sampling_rate=0.5)
    assert np.sqrt(y.sum()) * y.mean() / model.sampling_rate_ < 0.1
    np.testing.assert_allclose(
        model.coef_, fitted(rows=x, labels=y, sampling_rate=0.5).coef_, rtol=0.05, atol=0.02
    )
    fitted(method="pseudo_mle", sampling_rate=1.0)


def test_every_so_manyth_negative_gives_the_efficiency_of_all(monkeypatch):
    rng = np.random.default_rng(0)
    many = rng.standard_normal((60_000, 3))
    labels = rng.random(60_000) < 1 / (1 + np.exp(5 - many @ [2.0, -1.0, 0.5]))
    whole = DownsampledGLMClassifier(sampling_rate=0.2, random_state=0).fit(many, labels)
    monkeypatch.setattr("imbfit.glm.fitting.ENOUGH_NEGATIVES", 3_000)
    part = DownsampledGLMClassifier(sampling_rate=0.2, random_state=0).fit(many, labels)
    np.testing.assert_array_equal(part.coef_, whole.coef_)
    assert not np.array_equal(part.relative_efficiency_, whole.relative_efficiency_)
    np.testing.assert_allclose(part.relative_efficiency_, whole.relative_efficiency_, rtol=0.03)
