"""What the estimators aim at in the population, exactly; and small simulations of their spread."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, ndtr, ndtri

from imbfit.glm.classifier import DownsampledGLMClassifier

INVERSE = {
    "logit": expit,
    "probit": ndtr,
    "cloglog": lambda eta: -np.expm1(-np.exp(eta)),
    "loglog": lambda eta: np.exp(-np.exp(-eta)),
    "cauchit": lambda eta: 0.5 + np.arctan(eta) / np.pi,
}
biased = pytest.mark.filterwarnings(
    "ignore:the pseudo-likelihood is consistent:imbfit.exceptions.SamplingWarning"
)


# Limits: quadrature nodes stand for the population, each as a positive and as a negative row whose
# weights are their shares in it. A fit of them is what a fit of ever more rows comes to.


def uniform_nodes(dimensions, degree=8):
    x, w = np.polynomial.legendre.leggauss(degree)
    return product_of([x] * dimensions, [w / 2] * dimensions)


def normal_nodes(dimensions, degree=12):
    x, w = np.polynomial.hermite_e.hermegauss(degree)
    return product_of([x] * dimensions, [w / w.sum()] * dimensions)


def product_of(points, weights):
    nodes = np.array(list(itertools.product(*points)))
    return nodes, np.array([np.prod(each) for each in itertools.product(*weights)])


def limit(link, nodes, mass, p, rate, **params):
    """Fit the population of which negatives are kept at a rate."""
    X = np.vstack([nodes, nodes])
    y = np.repeat([1, 0], len(nodes))
    weight = 1e6 * np.concatenate([mass * p, mass * (1 - p) * rate])
    model = DownsampledGLMClassifier(
        link, **{"presampled": True, "sampling_rate": rate, "max_iter": 300, **params}
    )
    return model.fit(X, y, weight)


def intercept_for(prevalence, link, score, mass):
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        if mass @ INVERSE[link](middle + score) > prevalence:
            high = middle
        else:
            low = middle
    return low


@pytest.mark.parametrize("link", INVERSE)
@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
def test_consistent_methods_find_the_truth_for_every_link_and_rate(method, link):
    nodes, mass = uniform_nodes(2)
    coef = np.array([1.0, -0.6])
    intercept = intercept_for(0.01, link, nodes @ coef, mass)
    p = INVERSE[link](intercept + nodes @ coef)
    for rate in (1.0, 0.1, 0.001):
        model = limit(link, nodes, mass, p, rate, method=method)
        np.testing.assert_allclose(model.coef_[0], coef, rtol=1e-6)
        np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-6)
        np.testing.assert_allclose(model.predict_proba(nodes)[:, 1], p, rtol=1e-5)
        assert model.calibration_ratio_ == pytest.approx(1, rel=1e-6)
    known = limit(link, nodes, mass, p, 0.05, method=method, known_intercept=intercept)
    np.testing.assert_allclose(known.coef_[0], coef, rtol=1e-6)


def skewed_nodes():
    """A rare strong indicator beside a continuous column."""
    x, w = np.polynomial.legendre.leggauss(20)
    return product_of([[0.0, 1.0], x], [[0.95, 0.05], w / 2])


@pytest.mark.parametrize("link", ["probit", "cloglog", "cauchit"])
def test_no_monotone_map_repairs_the_naive_fit(link):
    nodes, mass = skewed_nodes()
    coef = np.array({"probit": [2.0, 0.6], "cloglog": [5.0, 1.5], "cauchit": [28.0, 5.0]}[link])
    intercept = {"probit": -3.2, "cloglog": -6.5, "cauchit": -30.0}[link]
    p = INVERSE[link](intercept + nodes @ coef)
    rate = 0.02
    naive = limit(link, nodes, mass, p, rate, method="naive")
    right = limit(link, nodes, mass, p, rate)
    # two rows that the naive fit gives the same score, whatever is made of the scores afterwards
    b = naive.coef_[0]
    pair = np.array([[1.0, -0.5 * b[0] / b[1]], [0.0, 0.5 * b[0] / b[1]]])
    for correction in ("prior", "isotonic"):
        again = limit(link, nodes, mass, p, rate, method="naive", naive_correction=correction)
        told = again.predict_proba(pair)[:, 1]
        assert told[0] == pytest.approx(told[1], rel=1e-6)
    truth = INVERSE[link](intercept + pair @ coef)
    assert abs(np.log(truth[1] / truth[0])) > 0.2
    np.testing.assert_allclose(right.predict_proba(pair)[:, 1], truth, rtol=1e-4)


def test_the_naive_logit_fit_is_repaired_by_the_prior():
    nodes, mass = skewed_nodes()
    p = expit(-5 + nodes @ [3.0, 1.0])
    model = limit("logit", nodes, mass, p, 0.02, method="naive")
    np.testing.assert_allclose(model.predict_proba(nodes)[:, 1], p, rtol=1e-6)


@pytest.mark.parametrize(("link", "slopes"), [("probit", (1.18, 0.59)), ("cloglog", (0.54, 0.27))])
def test_naive_slopes_of_the_sample(link, slopes):
    nodes, mass = normal_nodes(2, 24)
    coef = np.array([0.8, 0.4])
    intercept = intercept_for(0.01, link, nodes @ coef, mass)
    p = INVERSE[link](intercept + nodes @ coef)
    model = limit(link, nodes, mass, p, 0.01, method="naive")
    np.testing.assert_allclose(model.coef_[0], slopes, atol=0.006)
    if link == "probit":
        assert mass @ model.predict_proba(nodes)[:, 1] == pytest.approx(0.012, rel=0.02)


PSEUDO = {
    # kappa: first slope with the intercept known, with it free, and that intercept
    "logit": {1: (0.512, 0.466, 7.154), 5: (0.807, 0.788, 7.236), 10: (0.889, 0.878, 7.251),
              50: (0.976, 0.974, 7.266)},
    "probit": {1: (0.630, 0.351, 3.500), 5: (0.790, 0.586, 3.657), 10: (0.856, 0.695, 3.732),
               50: (0.960, 0.900, 3.895)},
}  # fmt: skip
THRESHOLD = {"logit": 7.270, "probit": 3.987}


@biased
@pytest.mark.parametrize("kappa", [1, 5, 10, 50])
@pytest.mark.parametrize("link", PSEUDO)
def test_the_pseudo_likelihood_shrinks_by_what_theory_says(link, kappa):
    nodes, mass = uniform_nodes(3)
    coef = np.array([1.0, -1.0, 0.5])
    tau = -THRESHOLD[link]
    p = INVERSE[link](tau + nodes @ coef)
    assert mass @ p == pytest.approx(0.001, rel=0.01)
    known = limit(link, nodes, mass, p, 0.001 * kappa, method="pseudo_mle", known_intercept=tau)
    free = limit(link, nodes, mass, p, 0.001 * kappa, method="pseudo_mle")
    found = known.coef_[0, 0], free.coef_[0, 0]
    np.testing.assert_allclose(found, PSEUDO[link][kappa][:2], atol=0.0016)
    assert -free.intercept_[0] == pytest.approx(PSEUDO[link][kappa][2], abs=0.0025)
    honest = limit(link, nodes, mass, p, 0.001 * kappa)
    np.testing.assert_allclose(honest.coef_[0], coef, rtol=1e-6)


@pytest.mark.parametrize("wrong", ["square left out", "probit taken for logit"])
def test_inverse_weights_keep_the_target_of_the_full_fit_where_the_model_is_wrong(wrong):
    nodes, mass = normal_nodes(2, 20)
    if wrong.startswith("square"):
        p = expit(-7.5 - 1.5 * nodes[:, 0] + 0.5 * nodes[:, 1] + 0.4 * nodes[:, 0] ** 2)
    else:
        p = ndtr(-3 + nodes @ [0.8, 0.4])
    prevalence = float(mass @ p)
    full = limit("logit", nodes, mass, p, 1.0)
    assert full.calibration_ratio_ == pytest.approx(1, rel=1e-8)
    off = []
    for kappa in (1, 5, 20):
        weighted = limit("logit", nodes, mass, p, kappa * prevalence, method="iw")
        np.testing.assert_allclose(weighted.coef_, full.coef_, rtol=1e-6)
        np.testing.assert_allclose(weighted.intercept_, full.intercept_, rtol=1e-6)
        assert weighted.calibration_ratio_ == pytest.approx(1, rel=1e-6)
        conditional = limit("logit", nodes, mass, p, kappa * prevalence)
        ratio = float(mass @ conditional.predict_proba(nodes)[:, 1]) / prevalence
        assert conditional.calibration_ratio_ == pytest.approx(ratio, rel=1e-6)
        off.append(abs(np.log(ratio)))
    # the conditional likelihood's target depends on the rate, and nears the full fit's
    assert off[0] > 0.05
    assert off[0] > off[1] > off[2]


# Simulations


def intercept_of(link, prevalence):
    nodes, mass = uniform_nodes(3)
    return intercept_for(prevalence, link, nodes @ COEF, mass)


COEF = np.array([1.0, -1.0, 0.5])


def simulated(rng, n, link, intercept):
    X = rng.uniform(-1, 1, (n, 3))
    return X, (rng.random(n) < INVERSE[link](intercept + X @ COEF)).astype(int)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_intervals_cover_the_slopes(link):
    # 200 positives, and 5 negatives for each
    rng = np.random.default_rng(11)
    intercept = intercept_of(link, 0.01)
    covered = {"cmle": [], "iw": []}
    for _ in range(300):
        X, y = simulated(rng, 20_000, link, intercept)
        kept = (y == 1) | (rng.random(len(y)) < 0.05)
        rate = kept[y == 0].mean()
        for method, own in covered.items():
            model = DownsampledGLMClassifier(
                link, method=method, presampled=True, sampling_rate=rate
            ).fit(X[kept], y[kept])
            low, high = model.conf_int().T
            own.append((low[1:] <= COEF) & (high[1:] >= COEF))
    for own in covered.values():
        assert 0.92 <= np.mean(own) <= 0.97


def test_the_realised_rate_makes_the_intercept_more_precise():
    rng = np.random.default_rng(2)
    intercept, rate = intercept_of("logit", 0.01), 0.02
    nominal, realised, told = [], [], []
    for _ in range(250):
        X, y = simulated(rng, 30_000, "logit", intercept)
        kept = (y == 1) | (rng.random(len(y)) < rate)
        share = kept[y == 0].mean()
        model = DownsampledGLMClassifier(presampled=True, sampling_rate=share)
        model.fit(X[kept], y[kept])
        realised.append(model.intercept_[0])
        nominal.append(model.intercept_[0] + np.log(rate / share))  # what the logit makes of it
        told.append(model.standard_errors_[0])
    ratio = np.std(realised) / np.std(nominal)
    assert 0.81 <= ratio <= 0.93
    assert np.mean(told) == pytest.approx(np.std(realised), rel=0.12)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_a_optimal_sampling_is_unbiased_and_more_precise(link):
    # beside the fit of all rows, whose own error is the same in all
    rng = np.random.default_rng(3)
    coef = {"logit": 1.0, "probit": 0.45, "cloglog": 1.0}[link] * np.array([1.0, -0.8, 0.4])
    nodes, mass = normal_nodes(3)
    intercept = intercept_for(0.005, link, nodes @ coef, mass)
    runs = {(s, m): [] for s in ("a_optimal", "uniform") for m in ("cmle", "iw")}
    for seed in range(30):
        X = rng.standard_normal((40_000, 3))
        y = rng.random(40_000) < INVERSE[link](intercept + X @ coef)
        full = DownsampledGLMClassifier(link, sampling_rate=1.0).fit(X, y).coef_[0]
        for (sampling, method), own in runs.items():
            model = DownsampledGLMClassifier(
                link, method=method, sampling=sampling, sampling_rate=0.02, random_state=seed
            ).fit(X, y)
            own.append(model.coef_[0] - full)
    added = {key: (np.array(own) ** 2).sum() for key, own in runs.items()}
    for method in ("cmle", "iw"):
        gap = np.array(runs["a_optimal", method])
        assert np.abs(gap.mean(axis=0)).max() < 0.03
        assert added["a_optimal", method] < 0.5 * added["uniform", method]


def test_local_case_control_is_unbiased():
    rng = np.random.default_rng(4)
    coef = np.array([1.5, -1.0, 0.5])
    errors = []
    for seed in range(40):
        X = rng.standard_normal((40_000, 3))
        y = rng.random(40_000) < expit(-5.5 + X @ coef)
        model = DownsampledGLMClassifier(
            sampling="local_case_control", sampling_rate=0.02, random_state=seed
        ).fit(X, y)
        errors.append(np.append(model.coef_[0] - coef, model.intercept_ + 5.5))
    errors = np.array(errors)
    assert (np.abs(errors.mean(axis=0)) < 4 * errors.std(axis=0) / np.sqrt(40)).all()
    assert np.abs(errors.mean(axis=0)).max() < 0.06


@pytest.mark.parametrize("method", ["cmle", "iw"])
def test_a_weight_of_two_is_the_row_twice_in_expectation_only(method):
    rng = np.random.default_rng(5)
    X, y = simulated(rng, 4_000, "logit", -3.0)
    weight = rng.integers(1, 4, len(y))
    twice = np.repeat(np.arange(len(y)), weight)
    weighted, repeated = [], []
    for seed in range(250):
        model = DownsampledGLMClassifier(method=method, sampling_rate=0.2, random_state=seed)
        weighted.append(model.fit(X, y, weight).coef_[0])
        repeated.append(model.fit(X[twice], y[twice]).coef_[0])
    weighted, repeated = np.array(weighted), np.array(repeated)
    noise = np.sqrt((weighted.var(axis=0) + repeated.var(axis=0)) / 250)
    gap = weighted.mean(axis=0) - repeated.mean(axis=0)
    assert (np.abs(gap) < 3.5 * noise + 0.01).all()
    # a row of weight 2 is kept or dropped as a whole, so its draws spread more
    assert weighted.var(axis=0).sum() > 1.2 * repeated.var(axis=0).sum()
    assert (np.abs(weighted - repeated).max(axis=1) > 1e-3).all()


def test_negatives_are_kept_with_the_same_chance_wherever_they_are():
    rng = np.random.default_rng(6)
    _, y = simulated(rng, 20_000, "logit", -3.0)
    x = ndtri(rng.random(20_000))[:, None]
    kept = np.array(
        [
            DownsampledGLMClassifier(sampling_rate=0.1, random_state=seed).fit(x, y).n_kept_
            for seed in range(30)
        ]
    )
    negatives = (y == 0).sum()
    spread = np.sqrt(negatives * 0.09)
    assert abs(kept.mean() - y.sum() - 0.1 * negatives) < 3.5 * spread / np.sqrt(30)
    assert 0.6 * spread < kept.std() < 1.5 * spread
