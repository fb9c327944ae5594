"""The fit beside statsmodels and scikit-learn, where these can be made to fit the same model."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit, ndtr
from sklearn.linear_model import LogisticRegression
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.families import links as sm_links

from imbfit.glm.classifier import DownsampledGLMClassifier

RIVAL = {
    "logit": sm_links.Logit,
    "probit": sm_links.Probit,
    "cloglog": sm_links.CLogLog,
    "loglog": sm_links.LogLog,
    "cauchit": sm_links.Cauchy,
}
INVERSE = {
    "logit": expit,
    "probit": ndtr,
    "cloglog": lambda eta: -np.expm1(-np.exp(eta)),
    "loglog": lambda eta: np.exp(-np.exp(-eta)),
    "cauchit": lambda eta: 0.5 + np.arctan(eta) / np.pi,
}
INTERCEPT = {"logit": -3.5, "probit": -2.0, "cloglog": -3.5, "loglog": -1.2, "cauchit": -8.0}
COEF = np.array([0.5, -0.3, 0.2])
METHODS = ("cmle", "iw", "profile", "pseudo_mle", "naive")


def rows_of(link, n=6_000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3)) * [1.0, 2.0, 3.0]
    y = (rng.random(n) < INVERSE[link](INTERCEPT[link] + X @ COEF)).astype(int)
    return X, y


def thinned(X, y, rate, seed=5):
    kept = (y == 1) | (np.random.default_rng(seed).random(len(y)) < rate)
    return X[kept], y[kept], kept[y == 0].mean()


def with_ones(X):
    return np.column_stack([np.ones(len(X)), X])


class Shifted(sm_links.CDFLink):
    """Proposition 1 as a link of statsmodels: the sample's probability from the population's.

    A CDFLink by name only: statsmodels warns of links that it does not know.
    """

    def __init__(self, base, rate):
        super().__init__()
        self.base, self.rate = base, rate

    def __call__(self, p):
        return self.base(self.rate * p / (1 - p + self.rate * p))

    def inverse(self, z):
        p = self.base.inverse(z)
        return p / (p + self.rate * (1 - p))

    def deriv(self, p):
        inside = 1 - p + self.rate * p
        return self.base.deriv(self.rate * p / inside) * self.rate / inside**2

    def inverse_deriv(self, z):
        p = self.base.inverse(z)
        return self.base.inverse_deriv(z) * self.rate / (p + self.rate * (1 - p)) ** 2


def rival(X, y, link, *, weights=None, start=None):
    family = Binomial(link, check_link=False)
    model = sm.GLM(y, with_ones(X), family=family, var_weights=weights)
    return model, model.fit(maxiter=300, tol=1e-15, tol_criterion="params", start_params=start)


def all_coef(fitted):
    return np.concatenate([fitted.intercept_, fitted.coef_[0]])


@pytest.mark.parametrize("link", RIVAL)
@pytest.mark.parametrize("method", METHODS)
def test_at_rate_1_every_method_is_the_ordinary_mle(method, link):
    X, y = rows_of(link)
    _, theirs = rival(X, y, RIVAL[link]())
    ours = DownsampledGLMClassifier(link, method=method, sampling_rate=1.0).fit(X, y)
    np.testing.assert_allclose(all_coef(ours), theirs.params, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.log_likelihood_, theirs.llf, rtol=1e-10)
    np.testing.assert_allclose(ours.predict_proba(X)[:, 1], theirs.predict(), rtol=1e-7)
    assert ours.converged_
    assert ours.sampling_rate_ == 1.0
    assert ours.n_kept_ == len(y)


@pytest.mark.parametrize("link", RIVAL)
@pytest.mark.parametrize("method", ["cmle", "profile", "pseudo_mle", "naive"])
def test_at_rate_1_standard_errors_are_those_of_the_expected_information(method, link):
    X, y = rows_of(link)
    _, theirs = rival(X, y, RIVAL[link]())
    ours = DownsampledGLMClassifier(link, method=method, sampling_rate=1.0).fit(X, y)
    np.testing.assert_allclose(ours.standard_errors_, theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(ours.covariance_, theirs.cov_params(), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(ours.conf_int(0.9), theirs.conf_int(0.1), rtol=1e-6)
    frame = ours.summary().to_frame()
    np.testing.assert_allclose(frame["z"], theirs.tvalues, rtol=1e-6)
    np.testing.assert_allclose(frame["p-value"], np.maximum(theirs.pvalues, 1e-300), rtol=1e-4)


def robust(model, params, correction=None):
    """White's sandwich by the observed Hessian, times n / (n - k)."""
    hessian = -model.hessian(params, observed=True)
    scores = model.score_obs(params)
    meat = scores.T @ scores
    if correction is not None:
        meat -= correction
    n, k = scores.shape
    return n / (n - k) * np.linalg.solve(hessian, np.linalg.solve(hessian, meat).T)


@pytest.mark.parametrize("link", RIVAL)
def test_at_rate_1_inverse_weights_have_whites_sandwich(link):
    X, y = rows_of(link)
    model, theirs = rival(X, y, RIVAL[link]())
    ours = DownsampledGLMClassifier(link, method="iw", sampling_rate=1.0).fit(X, y)
    expected = robust(model, theirs.params)
    np.testing.assert_allclose(ours.standard_errors_, np.sqrt(np.diag(expected)), rtol=1e-6)


@pytest.mark.parametrize("link", RIVAL)
def test_weights_at_rate_1_are_those_of_statsmodels(link):
    X, y = rows_of(link)
    weights = np.random.default_rng(1).uniform(0.2, 4.0, len(y))
    model, theirs = rival(X, y, RIVAL[link](), weights=weights)
    expected = np.sqrt(np.diag(robust(model, theirs.params)))
    for method in ("cmle", "iw", "naive"):
        ours = DownsampledGLMClassifier(link, method=method, sampling_rate=1.0)
        ours.fit(X, y, weights)
        np.testing.assert_allclose(all_coef(ours), theirs.params, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(ours.standard_errors_, expected, rtol=1e-6)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_logit_cmle_is_logistic_regression_plus_the_log_of_the_rate(rate):
    X, y = rows_of("logit", 40_000)
    X, y, _ = thinned(X, y, rate)
    ours = DownsampledGLMClassifier(presampled=True, sampling_rate=rate).fit(X, y)
    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-14, max_iter=100)
    theirs.fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_ + np.log(rate), rtol=1e-8)
    shifted = theirs.decision_function(X) + np.log(rate)
    np.testing.assert_allclose(ours.decision_function(X), shifted, atol=1e-7)
    odds = DownsampledGLMClassifier(method="naive", presampled=True, sampling_rate=rate)
    np.testing.assert_allclose(odds.fit(X, y).decision_function(X), shifted, atol=1e-7)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_the_ridge_is_that_of_logistic_regression(C):
    X, y = rows_of("logit")
    X, y, _ = thinned(X, y, 0.2)
    ours = DownsampledGLMClassifier(presampled=True, sampling_rate=0.2, C=C).fit(X, y)
    theirs = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-14, max_iter=100).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_ + np.log(0.2), rtol=1e-7)
    assert "shrunken" in str(ours.summary())


@pytest.mark.parametrize("rate", [0.05, 0.3])
@pytest.mark.parametrize("link", RIVAL)
def test_cmle_is_statsmodels_with_a_shifted_link(link, rate):
    X, y = rows_of(link, 30_000)
    X, y, _ = thinned(X, y, rate)
    shifted = Shifted(RIVAL[link](), rate)
    start = [INTERCEPT[link], *COEF]
    model, theirs = rival(X, y, shifted, start=start)
    ours = DownsampledGLMClassifier(link, presampled=True, sampling_rate=rate).fit(X, y)
    np.testing.assert_allclose(all_coef(ours), theirs.params, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours.log_likelihood_, theirs.llf, rtol=1e-9)
    # what the known number of negatives takes off: with the rate d, the score of a row has the
    # mean slope d mu/d eta in log d
    eta = model.exog @ theirs.params
    common = model.exog.T @ shifted.inverse_deriv(eta)
    kept = np.count_nonzero(y == 0)
    nominal = theirs.cov_params()
    moved = nominal @ common
    expected = nominal - (1 / kept - rate / kept) * np.outer(moved, moved)
    np.testing.assert_allclose(ours.standard_errors_, np.sqrt(np.diag(expected)), rtol=1e-6)
    np.testing.assert_allclose(ours.covariance_, expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("link", ["probit", "cloglog", "logit"])
def test_inverse_weights_are_statsmodels_with_variance_weights(link):
    rate = 0.1
    X, y = rows_of(link, 30_000)
    X, y, _ = thinned(X, y, rate)
    weights = np.where(y == 1, 1.0, 1 / rate)
    model, theirs = rival(X, y, RIVAL[link](), weights=weights)
    ours = DownsampledGLMClassifier(link, method="iw", presampled=True, sampling_rate=rate)
    ours.fit(X, y)
    np.testing.assert_allclose(all_coef(ours), theirs.params, rtol=1e-6, atol=1e-6)
    total = model.score_obs(theirs.params)[y == 0].sum(axis=0)
    kept = np.count_nonzero(y == 0)
    expected = robust(model, theirs.params, (1 - rate) / kept * np.outer(total, total))
    np.testing.assert_allclose(ours.standard_errors_, np.sqrt(np.diag(expected)), rtol=1e-6)
    nominal = np.sqrt(np.diag(robust(model, theirs.params)))
    assert (ours.standard_errors_ < nominal).all()
    assert ours.standard_errors_[0] < 0.97 * nominal[0]


@pytest.mark.parametrize("link", ["cloglog", "probit", "logit"])
def test_an_offset_is_that_of_statsmodels(link):
    X, y = rows_of(link)
    exposure = np.random.default_rng(3).uniform(0.1, 1, len(y))
    family = Binomial(RIVAL[link]())
    model = sm.GLM(y, with_ones(X), family=family, offset=np.log(exposure))
    theirs = model.fit(maxiter=300, tol=1e-15, tol_criterion="params")
    ours = DownsampledGLMClassifier(link, sampling_rate=1.0, offset=-1)
    ours.fit(np.column_stack([X, np.log(exposure)]), y)
    np.testing.assert_allclose(all_coef(ours), theirs.params, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.standard_errors_, theirs.bse, rtol=1e-6)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_a_known_intercept_is_an_offset_without_constant(link):
    X, y = rows_of(link)
    model = sm.GLM(y, X, family=Binomial(RIVAL[link]()), offset=np.full(len(y), INTERCEPT[link]))
    theirs = model.fit(maxiter=300, tol=1e-15, tol_criterion="params")
    ours = DownsampledGLMClassifier(link, sampling_rate=1.0, known_intercept=INTERCEPT[link])
    ours.fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.params, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.standard_errors_, theirs.bse, rtol=1e-6)
    assert ours.intercept_.tolist() == [INTERCEPT[link]]
