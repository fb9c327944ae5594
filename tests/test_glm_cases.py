"""What others met with models of rare events elsewhere, each with the right value asserted."""

import json
import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from imblearn.under_sampling import RandomUnderSampler
from scipy import sparse
from scipy.special import expit, logit, ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from imbfit.exceptions import SeparationWarning
from imbfit.glm.built_in_links import LINKS
from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.correction import prior_correction
from imbfit.threshold.classifier import OTLPThresholdClassifier

INVERSE = {"logit": expit, "probit": ndtr, "cloglog": lambda eta: -np.expm1(-np.exp(eta))}


def logistic_rows(n, intercept, coef=(1.0,), seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(coef)))
    return X, (rng.random(n) < expit(intercept + X @ np.array(coef))).astype(int)


def glm(*args, **params):
    return DownsampledGLMClassifier(*args, **{"random_state": 0, **params})


# 1, 18 and B19: scores after undersampling are no probabilities


@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
@pytest.mark.parametrize("rate", ["balanced", 0.05, "auto", RandomUnderSampler()], ids=str)
def test_the_mean_prediction_is_the_prevalence_after_undersampling(rate, method):
    X, y = logistic_rows(50_000, -5)
    naive = make_sampling_pipeline(RandomUnderSampler(random_state=0), LogisticRegression())
    assert naive.fit(X, y).predict_proba(X)[:, 1].mean() > 20 * y.mean()
    ratios = []
    for seed in range(8):  # one negative per positive leaves an error of 4 % by chance
        model = glm(sampling_rate=rate, method=method, random_state=seed).fit(X, y)
        assert rate == "auto" or model.n_kept_ < 0.1 * len(y)
        ratios.append(model.predict_proba(X)[:, 1].mean() / y.mean())
        assert model.calibration_ratio_ == pytest.approx(ratios[-1])
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)
    assert max(ratios) < 1.15
    assert min(ratios) > 0.87


def test_metrics_of_a_downsampled_model_are_those_of_the_population():
    X, y = logistic_rows(60_000, -4.5, (1.0, -0.5))
    X_new, y_new = logistic_rows(60_000, -4.5, (1.0, -0.5), seed=1)
    full = glm(sampling_rate=1.0).fit(X, y)
    model = glm(sampling_rate="balanced").fit(X, y)
    kept = model.n_kept_ / len(y)
    assert kept < 0.05
    best = log_loss(y_new, full.predict_proba(X_new)[:, 1])
    assert log_loss(y_new, model.predict_proba(X_new)[:, 1]) < 1.02 * best
    shown = prior_correction(model.predict_proba(X_new)[:, 1], model.sampling_rate_, inverse=True)
    assert log_loss(y_new, shown) > 5 * best
    assert roc_auc_score(y_new, shown) == roc_auc_score(y_new, model.decision_function(X_new))


def test_the_correction_keeps_the_order_of_rows_and_the_rows_above_a_threshold():
    # 20,000 rows, 2 % positive; the thresholds are reported on the corrected scale
    X, y = logistic_rows(20_000, -4.45, (1.0, -0.5, 0.3))
    assert y.mean() == pytest.approx(0.02, abs=0.006)
    sampler = RandomUnderSampler(random_state=0)
    plain = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    naive = make_sampling_pipeline(sampler, plain).fit(X, y)
    model = glm(sampling_rate=sampler).fit(X, y)
    shown, p = naive.predict_proba(X)[:, 1], model.predict_proba(X)[:, 1]
    rate = model.sampling_rate_
    assert shown.mean() > 10 * y.mean()
    assert p.mean() / y.mean() == pytest.approx(1, abs=0.15)
    full = LogisticRegression(C=np.inf).fit(X, y).predict_proba(X)[:, 1]
    assert abs(np.log(p.mean() / full.mean())) < 0.15
    np.testing.assert_allclose(p, shown * rate / (shown * rate + 1 - shown), rtol=1e-7)
    np.testing.assert_array_equal(np.argsort(shown, kind="stable"), np.argsort(p, kind="stable"))
    for cut in (0.3, 0.5, 0.9):
        corrected = prior_correction(np.array([cut]), rate)[0]
        assert corrected < cut
        np.testing.assert_array_equal(shown >= cut, p >= corrected)


def test_thresholds_are_found_on_the_corrected_scale():
    X, y = logistic_rows(20_000, -4.45, (1.0, -0.5, 0.3))
    search = {"objective": "f1", "cv": 3}
    full = OTLPThresholdClassifier(glm(sampling_rate=1.0), **search).fit(X, y)
    model = OTLPThresholdClassifier(glm(sampling_rate=0.1), **search).fit(X, y)
    (one,), (other,) = (list(m.thresholds_.values()) for m in (full, model))
    assert abs(logit(one) - logit(other)) < 0.5
    flagged = model.predict(X)
    assert flagged.mean() < 0.1
    np.testing.assert_array_equal(
        flagged, (model.estimator_.predict_proba(X)[:, 1] >= other).astype(int)
    )


# 3 and 14: balanced weights inflate probabilities, and the shift that undoes it


def test_balanced_weights_inflate_probabilities_and_the_rate_of_the_weights_undoes_it():
    X, y = logistic_rows(40_000, -3.3, (0.8, -0.4))
    balanced = LogisticRegression(C=np.inf, class_weight="balanced").fit(X, y)
    shown = balanced.predict_proba(X)[:, 1]
    assert shown.mean() > 6 * y.mean()
    weights = len(y) / (2 * np.bincount(y))
    rate = weights[0] / weights[1]
    assert prior_correction(shown, rate).mean() / y.mean() == pytest.approx(1, abs=0.02)
    # weights as a presampled rate: exact for the logit without a penalty
    each = weights[y]
    model = glm(presampled=True, sampling_rate=rate).fit(X, y, each / weights[1])
    np.testing.assert_allclose(model.predict_proba(X)[:, 1].mean(), y.mean(), rtol=0.02)
    np.testing.assert_allclose(model.intercept_ - balanced.intercept_, np.log(rate), atol=1e-3)
    np.testing.assert_allclose(model.coef_, balanced.coef_, rtol=1e-3)


@pytest.mark.parametrize("weights", [(0.01, 0.99), (1.0, 99.0), (50.0, 4950.0)])
def test_the_rate_of_class_weights_is_their_ratio(weights):
    X, y = logistic_rows(30_000, -5)
    low, high = weights
    inverse = np.where(y == 1, high, low)
    shown = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y, inverse / low).predict_proba(X)[:, 1]
    assert shown.mean() > 20 * y.mean()
    p = prior_correction(shown, low / high)
    assert p.mean() / y.mean() == pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(logit(p) - logit(shown), np.log(low / high), rtol=1e-9)


def test_for_other_links_the_shift_is_no_correction_and_the_fit_is():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 2))
    y = (rng.random(100_000) < ndtr(-2.9 + X @ [0.8, 0.4])).astype(int)
    naive = glm("probit", method="naive", sampling_rate="balanced").fit(X, y)
    right = glm("probit", sampling_rate="balanced").fit(X, y)
    assert naive.predict_proba(X)[:, 1].mean() / y.mean() > 1.1
    assert right.predict_proba(X)[:, 1].mean() / y.mean() == pytest.approx(1, abs=0.05)
    assert naive.coef_[0, 0] > 1.1
    assert right.coef_[0, 0] == pytest.approx(0.8, abs=0.06)


# 4: no offset in linear classifiers


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_the_rate_is_the_offset_and_prediction_drops_it(rate):
    X, y = logistic_rows(40_000, -4)
    kept = (y == 1) | (np.random.default_rng(1).random(len(y)) < rate)
    share = kept[y == 0].mean()
    told = glm(presampled=True, sampling_rate=share).fit(X[kept], y[kept])
    # by hand: log(1/a) is an offset of the sample's fit, and no part of a prediction
    by_hand = sm.GLM(
        y[kept],
        sm.add_constant(X[kept]),
        family=sm.families.Binomial(),
        offset=np.full(kept.sum(), -np.log(share)),
    ).fit(tol=1e-14)
    found = np.concatenate([told.intercept_, told.coef_[0]])
    np.testing.assert_allclose(found, by_hand.params, rtol=1e-8)
    p = expit(sm.add_constant(X) @ by_hand.params)
    np.testing.assert_allclose(told.predict_proba(X)[:, 1], p, rtol=1e-7)


# 5 and 6: standard errors of weighted samples


def test_standard_errors_of_inverse_weights_are_robust_and_not_those_of_repeated_rows():
    # weights of 1 and 50 on a sample of 2 %
    rng = np.random.default_rng(0)
    rate, coef, found, told, repeated = 0.02, np.array([1.0, -0.5]), [], [], []
    for _ in range(150):
        X = rng.normal(size=(15_000, 2))
        y = (rng.random(15_000) < expit(-5 + X @ coef)).astype(int)
        kept = (y == 1) | (rng.random(15_000) < rate)
        weight = np.where(y[kept] == 1, 1.0, 50.0)
        model = glm(method="iw", presampled=True, sampling_rate=rate).fit(X[kept], y[kept])
        found.append(model.coef_[0])
        told.append(model.standard_errors_[1:])
        frequency = sm.GLM(
            y[kept], sm.add_constant(X[kept]), family=sm.families.Binomial(), freq_weights=weight
        ).fit()
        repeated.append(frequency.bse[1:])
    found, told, repeated = np.array(found), np.array(told), np.array(repeated)
    wrong = (np.abs(found - coef) < 1.96 * repeated).mean()
    right = (np.abs(found - coef) < 1.96 * told).mean()
    assert wrong < 0.89
    assert 0.9 < right < 0.98
    assert np.median(told) > 1.2 * np.median(repeated)


@pytest.mark.parametrize("method", ["iw", "cmle", "profile"])
def test_a_known_prevalence_leaves_a_finite_uncertain_intercept(method):
    X, y = logistic_rows(300_000, -6.2, (0.8, -0.4))
    prevalence = 1_042 / 303_772
    kept = (y == 1) | (np.random.default_rng(1).random(len(y)) < 0.01)
    model = glm(presampled=True, prevalence=prevalence, method=method).fit(X[kept], y[kept])
    by_rate = glm(presampled=True, sampling_rate=model.sampling_rate_, method=method)
    by_rate.fit(X[kept], y[kept])
    np.testing.assert_allclose(model.coef_, by_rate.coef_, rtol=1e-9)
    assert np.isfinite(model.standard_errors_).all()
    assert 0 < model.standard_errors_[0] < by_rate.standard_errors_[0]
    naive = LogisticRegression(C=np.inf).fit(X[kept], y[kept])
    assert model.intercept_[0] < naive.intercept_[0] - 3
    # the sandwich of weights is no glm's standard error
    if method == "iw":
        weight = np.where(y[kept] == 1, 1.0, 1 / model.sampling_rate_)
        plain = sm.GLM(
            y[kept], sm.add_constant(X[kept]), family=sm.families.Binomial(), var_weights=weight
        ).fit()
        assert (model.standard_errors_[1:] > 1.05 * plain.bse[1:]).all()


# 8 and 9: where the descent starts, and columns on unlike scales


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("method", ["cmle", "iw"])
def test_very_rare_events_converge_in_a_few_steps(link, method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300_000, 2))
    intercept = {"logit": -9.6, "probit": -4.0, "cloglog": -9.6}[link]
    coef = np.array([0.8, -0.4]) * (0.4 if link == "probit" else 1)
    y = rng.random(300_000) < INVERSE[link](intercept + X @ coef)
    assert 10 < y.sum() < 90
    for scale in (1.0, 1e4):
        model = glm(link, method=method, sampling_rate=0.005).fit(X * scale, y)
        assert model.converged_
        assert model.n_iter_ <= 12
        assert (
            np.abs(model.coef_[0] * scale - coef) < 4 * model.standard_errors_[1:] * scale
        ).all()


def test_wide_sparse_rows_start_at_the_prevalence():
    rng = np.random.default_rng(0)
    X = sparse.random_array((10_000, 500), density=0.01, rng=rng, format="csr")
    X.data[:] = 1
    y = rng.random(10_000) < expit(-4 + X[:, :20].sum(axis=1))
    for solver in ("newton", "lbfgs", "newton-cg"):
        model = glm(sampling_rate=1.0, C=1.0, solver=solver, tol=1e-6).fit(X, y)
        assert model.converged_
        assert model.n_iter_ <= {"newton": 10, "newton-cg": 15, "lbfgs": 100}[solver]


def mixed_columns(n=8_000):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, n)
    numbers = rng.normal(size=(n, 3)) * [1e-3, 30.0, 1e4] + [0.0, 500.0, -2e4]
    X = np.column_stack([kind[:, None] == [1, 2, 3], numbers]).astype(float)
    eta = -4 + 0.5 * X[:, 0] - X[:, 2] + numbers @ [600.0, 0.02, -5e-5] - 11
    return X, (rng.random(n) < expit(eta)).astype(int)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "newton-cg"])
def test_unscaled_columns_lead_to_the_optimum_of_scaled_ones(solver, link):
    X, y = mixed_columns()
    scaler = StandardScaler().fit(X)
    raw = glm(link, sampling_rate=0.5, solver=solver, max_iter=2_000).fit(X, y)
    best = glm(link, sampling_rate=0.5).fit(scaler.transform(X), y)
    assert raw.converged_
    tight = 1e-8 if solver == "newton" else 1e-6
    np.testing.assert_allclose(raw.coef_ * scaler.scale_, best.coef_, rtol=tight, atol=tight)
    assert raw.log_likelihood_ == pytest.approx(best.log_likelihood_, rel=1e-10)
    np.testing.assert_allclose(
        raw.predict_proba(X), best.predict_proba(scaler.transform(X)), rtol=1e-5
    )


# 12: separation


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
@pytest.mark.parametrize("method", ["cmle", "iw", "naive"])
def test_four_rows_that_are_separated(method, link):
    X, y = np.array([[1.0], [1], [0], [0]]), np.array([1, 1, 0, 0])
    with pytest.warns(SeparationWarning, match="'x0' separates"):
        model = glm(link, sampling_rate=1.0, method=method).fit(X, y)
    assert not model.converged_
    assert np.isfinite(model.coef_).all()
    np.testing.assert_array_equal(model.predict(X), y)
    ridge = glm(link, sampling_rate=1.0, method=method, C=1.0).fit(X, y)
    assert ridge.converged_
    assert 0 < ridge.coef_[0, 0] < 3


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("method", ["cmle", "iw", "profile", "naive"])
def test_a_one_hot_column_that_only_one_class_has(method, make):
    rng = np.random.default_rng(0)
    X = (rng.random((4_000, 5)) < 0.3).astype(float)
    y = (rng.random(4_000) < 0.1).astype(int)
    for label in (0, 1):
        X[:, 3] = (y == label) & (rng.random(4_000) < 0.2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = glm(sampling_rate=0.5, method=method).fit(make(X), y)
        assert SeparationWarning in {w.category for w in caught}
        assert {w.category for w in caught} <= {SeparationWarning, ConvergenceWarning}
        assert not model.converged_
        said = [str(w.message) for w in caught if w.category is SeparationWarning]
        assert "'x3'" in said[0]
        ridge = glm(sampling_rate=0.5, method=method, C=1.0).fit(make(X), y)
        assert ridge.converged_
        assert abs(ridge.coef_[0, 3]) < 15
    overlap = X.copy()
    overlap[np.flatnonzero(y == 0)[:40], 3] = 1
    overlap[np.flatnonzero(y == 1)[:40], 3] = 1
    assert glm(sampling_rate=1.0, method=method).fit(make(overlap), y).converged_


# 15: tails


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("eta", [-1e3, -800.0, -754.0, -40.0, 40.0, 754.0, 800.0, 1e3])
def test_predictions_far_out_are_neither_clipped_nor_nan(link, eta):
    X, y = logistic_rows(3_000, -2)
    model = glm(link, sampling_rate=1.0).fit(X, y)
    x = np.array([[(eta - model.intercept_[0]) / model.coef_[0, 0]]])
    log_p, score = model.predict_log_proba(x)[0], model.decision_function(x)[0]
    assert not np.isnan(log_p).any()
    assert not np.isnan(score)
    assert (score > 0) == (eta > 0)
    exact = LINKS[link].pieces(x[:, 0] * model.coef_[0, 0] + model.intercept_[0])
    np.testing.assert_allclose(log_p, [exact.log_q[0], exact.log_p[0]])
    if link == "logit":
        assert score == pytest.approx(eta)
        np.testing.assert_allclose(log_p[int(eta < 0)], -abs(eta), rtol=1e-9)
    nearer = np.sign(eta) * (abs(eta) - 1)
    beside = np.array([[(nearer - model.intercept_[0]) / model.coef_[0, 0]]])
    if abs(score) < 1e300:  # hazards end there
        assert abs(model.decision_function(beside)[0]) < abs(score)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_a_fit_with_rows_far_out_is_finite(link, rate):
    X, y = logistic_rows(3_000, -2)
    X[0], y[0] = -800.0, 0
    X[1], y[1] = 800.0, 1
    with warnings.catch_warnings():
        # where a tail is thin, one row may be worth a warning; NaN it must not be
        warnings.simplefilter("ignore", SeparationWarning)
        model = glm(link, sampling_rate=rate).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.coef_[0, 0] > 0.05
    assert not np.isnan(model.predict_proba(X)).any()
    assert np.isfinite(model.log_likelihood_)


# Everything of it can be written down


def test_the_table_of_coefficients_is_json():
    X, y = logistic_rows(5_000, -3)
    model = glm(sampling_rate=0.2).fit(X, y)
    told = json.loads(json.dumps(model.summary().to_dict()))
    assert told["coefficients"][1]["coefficient"] == model.coef_[0, 0]
