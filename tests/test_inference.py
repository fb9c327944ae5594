"""Covariances of coefficients fitted on a sample, against oracles, resampling and simulation."""

import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import brentq
from scipy.special import expit

from imbfit.glm.built_in_links import LINKS
from imbfit.glm.design import Design
from imbfit.glm.inference import Stratum, contrast_variances, covariance, sandwich
from imbfit.glm.likelihoods import METHODS, Rows

METHOD_NAMES = list(METHODS)


def minimum(likelihood, design, *, offset=0.0, ridge=0.0, start=None, aliased=None, steps=400):
    """Minimise by Newton steps with halving, until nothing moves."""
    free = np.ones(design.n_coef, bool) if aliased is None else ~aliased
    ridge = np.full(design.n_coef, ridge) if np.isscalar(ridge) else ridge
    w = np.zeros(design.n_coef) if start is None else np.array(start, dtype=float)
    if start is None and design.intercept:
        w[0] = likelihood.link.link(float(likelihood.rows.positive.mean()))

    def value(w):
        state = likelihood.state(design.eta(w) + offset)
        return likelihood.value(state) + 0.5 * float(ridge @ (w * w)), state

    best, state = value(w)
    for step_number in range(steps):
        slope = design.back(likelihood.slope(state)) + ridge * w
        for safe in (False, True) if step_number > 3 else (True,):
            curvature = likelihood.curvature(state, safe=safe)
            hessian = design.gram(curvature.diagonal) + np.diag(ridge)
            for vector, factor in curvature.rank_one:
                tie = design.back(vector)
                hessian += factor * np.outer(tie, tie)
            if np.linalg.eigvalsh(hessian[np.ix_(free, free)])[0] > 0:
                break
        step = np.zeros(design.n_coef)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], slope[free])
        size = 1.0
        while True:
            found, moved = value(w - size * step)
            if found <= best + 1e-13 * abs(best) or size < 1e-12:
                break
            size /= 2
        w, best, state = w - size * step, min(found, best), moved
        if step @ hessian @ step < 1e-24:
            break
    return SimpleNamespace(
        coef=w, state=state, eta=state.eta, aliased=~free, decrement=float(step @ hessian @ step)
    )


def parts_of(
    method,
    link,
    X,
    positive,
    *,
    rate=1.0,
    weight=None,
    stratum=None,
    ridge=0.0,
    dropped=None,
    log_keep=None,
    intercept=True,
    offset=0.0,
    aliased=None,
):
    """Fit, and gather the parts of the covariance."""
    design = Design(X, intercept=intercept)
    if log_keep is None:
        rows = Rows.uniform(positive, weight, rate)
    else:
        rows = Rows.designed(positive, weight, *log_keep)
    if dropped is None and rows.is_uniform:
        dropped = rows.total_negative * (1 / rate - 1)
    start = None
    if method in {"pseudo_mle", "profile"}:
        first = METHODS["cmle"](rows, LINKS[link])
        start = minimum(first, design, offset=offset, aliased=aliased).coef
    likelihood = METHODS[method](rows, LINKS[link], n_dropped=dropped)
    full = np.zeros(design.n_coef)
    full[int(intercept) :] = ridge
    solution = minimum(likelihood, design, offset=offset, ridge=full, start=start, aliased=aliased)
    parts = sandwich(
        method, likelihood, solution, design, rows, ridge=full, stratum=stratum or Stratum()
    )
    return solution, parts


def population(seed, n, link="logit", prevalence=0.02, slopes=(1.0, -1.0)):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, len(slopes)))
    eta = intercept_of(link, prevalence, slopes) + X @ np.array(slopes)
    return X, rng.uniform(size=n) < np.exp(LINKS[link].log_p(eta)), rng


def intercept_of(link, prevalence, slopes):
    grid = np.random.default_rng(0).uniform(-1, 1, (20_000, len(slopes))) @ np.array(slopes)
    return brentq(lambda b: np.exp(LINKS[link].log_p(b + grid)).mean() - prevalence, -20, 20)


def sample(seed=0, n=4_000, rate=0.2, **options):
    X, positive, rng = population(seed, n, **options)
    kept = positive | (rng.uniform(size=n) < rate)
    return X[kept], positive[kept], int(np.count_nonzero(~positive))


def close(a, b, tolerance):
    scale = np.sqrt(np.abs(np.outer(np.diag(b), np.diag(b))))
    assert np.abs((a - b) / scale).max() < tolerance


# ------------------------------------------------------------------------------------------------
# Other software


def shifted(name, log_ratio):
    """Make statsmodels' link for the probability that a kept row is positive."""
    links = pytest.importorskip("statsmodels.genmod.families.links")
    link = LINKS[name]

    class Shifted(links.Link):
        def __call__(self, p):
            odds = np.log(p) - np.log1p(-p) - log_ratio
            return np.array([link.link_of_log_odds(one) for one in odds])

        def inverse(self, eta):
            log_p, log_q, _, _ = link.pieces(eta)
            return expit(log_p - log_q + log_ratio)

        def inverse_deriv(self, eta):
            p = self.inverse(eta)
            return p * (1 - p) * (link.hazard_p(eta) + link.hazard_q(eta))

        def inverse_deriv2(self, eta):
            p, hp, hq = self.inverse(eta), link.hazard_p(eta), link.hazard_q(eta)
            bend = link.density_slope(eta)
            turn = hp * (bend - hp) + hq * (bend + hq)
            return p * (1 - p) * ((1 - 2 * p) * (hp + hq) ** 2 + turn)

        def deriv(self, p):
            return 1 / self.inverse_deriv(self(p))

        def deriv2(self, p):
            eta = self(p)
            return -self.inverse_deriv2(eta) / self.inverse_deriv(eta) ** 3

    return Shifted()


def statsmodels_fit(X, positive, link, *, log_ratio=0.0, weight=None, **options):
    sm = pytest.importorskip("statsmodels.api")
    family = sm.families.Binomial(shifted(link, log_ratio), check_link=False)
    family.safe_links = [type(family.link)]  # else it warns of a link that it does not know
    Z = np.column_stack([np.ones(len(X)), X])
    model = sm.GLM(positive.astype(float), Z, family=family, var_weights=weight)
    first = np.zeros(Z.shape[1])
    first[0] = LINKS[link].link_of_log_odds(
        float(np.log(positive.mean() / (1 - positive.mean()))) - log_ratio
    )
    return model.fit(start_params=first, tol=1e-15, tol_criterion="params", maxiter=200, **options)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "cauchit"])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_all_rows_give_the_ordinary_covariance(method, link):
    X, positive, _ = population(4, 1_500, link, prevalence=0.1)
    stratum = Stratum("realised", np.count_nonzero(~positive))
    solution, parts = parts_of(method, link, X, positive, stratum=stratum)
    robust = {"cov_type": "HC0"} if method == "iw" else {}
    oracle = statsmodels_fit(X, positive, link, **robust)
    np.testing.assert_allclose(solution.coef, oracle.params, rtol=1e-8)
    factor = len(X) / (len(X) - 3) if method == "iw" else 1.0
    close(covariance(parts), oracle.cov_params() * factor, 1e-8)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_inverse_weights_give_the_robust_covariance_up_to_the_factor(link):
    X, positive, _ = sample(2, link=link)
    solution, parts = parts_of("iw", link, X, positive, rate=0.2)
    oracle = statsmodels_fit(X, positive, link, weight=np.where(positive, 1.0, 5.0), cov_type="HC0")
    np.testing.assert_allclose(solution.coef, oracle.params, rtol=1e-8)
    assert parts.factor == len(X) / (len(X) - 3)
    close(covariance(parts) / parts.factor, oracle.cov_params(), 1e-8)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("weighted", [False, True])
def test_conditional_likelihood_equals_a_fit_with_a_shifted_link(link, weighted):
    X, positive, _ = sample(3, link=link)
    weight = np.random.default_rng(1).uniform(0.2, 3, len(X)) if weighted else None
    solution, parts = parts_of("cmle", link, X, positive, rate=0.2, weight=weight)
    robust = {"cov_type": "HC0"} if weighted else {}
    oracle = statsmodels_fit(X, positive, link, log_ratio=np.log(5), weight=weight, **robust)
    np.testing.assert_allclose(solution.coef, oracle.params, rtol=1e-6)
    close(covariance(parts) / parts.factor, oracle.cov_params(), 1e-6)


# ------------------------------------------------------------------------------------------------
# What each row does


def jackknifed(method, link, X, positive, weight, *, kind, share):
    """Add up the squares of how single rows move the coefficients, the dropped rows included.

    The rate is what the stratum says: it moves with the weights unless it is nominal.
    """
    design, known = Design(X, intercept=True), LINKS[link]
    negative = ~positive
    whole = weight[negative].sum() / share - weight[negative].sum()
    start = None

    def refit(weight, dropped):
        kept = weight[negative].sum()
        if kind == "known_prevalence":
            # the weight of negatives per positive in the population stays
            dropped = (w0 / share / w1) * weight[positive].sum() - kept
        rate = share if kind == "bernoulli" else kept / (kept + dropped)
        rows = Rows.uniform(positive, weight, rate)
        likelihood = METHODS[method](rows, known, n_dropped=dropped)
        return minimum(likelihood, design, start=start).coef

    w0, w1 = weight[negative].sum(), weight[positive].sum()
    start = parts_of(method, link, X, positive, weight=weight, rate=share)[0].coef
    step = 1e-4
    moves = []
    for i in range(len(weight)):
        ends = []
        for sign in (1, -1):
            other = weight.copy()
            other[i] *= 1 + sign * step
            ends.append(refit(other, whole))
        moves.append((ends[0] - ends[1]) / (2 * step))
    moves = np.array(moves)
    if kind == "known_prevalence":
        for label in (True, False):
            moves[positive == label] -= moves[positive == label].mean(axis=0)
        return moves.T @ moves
    by_drop = (refit(weight, whole * (1 + step)) - refit(weight, whole * (1 - step))) / (
        2 * step * whole
    )
    squares = whole * (weight[negative] ** 2).sum() / weight[negative].sum()
    return moves.T @ moves + squares * np.outer(by_drop, by_drop)


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("kind", ["bernoulli", "realised", "known_prevalence"])
@pytest.mark.parametrize("method", ["iw", "cmle", "pseudo_mle", "profile"])
def test_rows_squared_moves_add_up_to_the_covariance(method, kind, link):
    X, positive, _ = sample(5, n=400, rate=0.15, link=link, prevalence=0.08)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    share = 0.15
    stratum = Stratum(kind, n_negatives=np.count_nonzero(~positive) / share)
    _, parts = parts_of(method, link, X, positive, rate=share, weight=weight, stratum=stratum)
    expected = jackknifed(method, link, X, positive, weight, kind=kind, share=share)
    close(covariance(parts) / parts.factor, expected, 1e-5)


def test_naive_fit_does_not_use_the_numbers_kept():
    X, positive, n_negatives = sample(6)
    given = [
        covariance(parts_of("naive", "probit", X, positive, rate=0.2, stratum=stratum)[1])
        for stratum in (Stratum(), Stratum("realised", n_negatives), Stratum("known_prevalence"))
    ]
    np.testing.assert_array_equal(given[0], given[1])
    np.testing.assert_array_equal(given[0], given[2])
    oracle = statsmodels_fit(X, positive, "probit", cov_type="HC0")
    close(given[0] * (len(X) - 3) / len(X), oracle.cov_params(), 1e-8)


# ------------------------------------------------------------------------------------------------
# Rates


def test_realised_rate_frees_the_logistic_intercept_of_what_the_number_kept_adds():
    X, positive, n_negatives = sample(7)
    kept = np.count_nonzero(~positive)
    rate = kept / n_negatives
    fits = {
        kind: covariance(
            parts_of("cmle", "logit", X, positive, rate=rate, stratum=Stratum(kind, n_negatives))[1]
        )
        for kind in ("bernoulli", "realised", "known_prevalence")
    }
    less = {
        "realised": 1 / kept - 1 / n_negatives,
        "known_prevalence": 1 / kept + 1 / np.count_nonzero(positive),
    }
    for kind, expected in less.items():
        difference = fits["bernoulli"] - fits[kind]
        np.testing.assert_allclose(difference[0, 0], expected, rtol=1e-9)
        difference[0, 0] = 0
        assert np.abs(difference).max() < 1e-12
    profile = parts_of("profile", "logit", X, positive, rate=rate, dropped=n_negatives - kept)[1]
    close(covariance(profile), fits["realised"], 1e-9)


@pytest.mark.parametrize("link", ["logit", "probit", "loglog"])
@pytest.mark.parametrize("method", ["iw", "cmle"])
def test_a_realised_rate_takes_one_direction_out(method, link):
    X, positive, n_negatives = sample(8, link=link, rate=0.1)
    rate = np.count_nonzero(~positive) / n_negatives
    nominal, realised = (
        covariance(parts_of(method, link, X, positive, rate=rate, stratum=stratum)[1])
        for stratum in (Stratum(), Stratum("realised", n_negatives))
    )
    values = np.linalg.eigvalsh(nominal - realised)
    assert values[-1] > 1e-5
    assert np.abs(values[:-1]).max() < 1e-9 * values[-1]


def replicate(link, replications, *, n, prevalence, rate, methods, seed, draw="bernoulli"):
    """Fit fresh samples; return per method the sd of the coefficients and the mean variances."""
    slopes, known = (1.0, -1.0), LINKS[link]
    first = intercept_of(link, prevalence, slopes)
    rng = np.random.default_rng(seed)
    found = {method: ([], []) for method in methods}
    for _ in range(replications):
        X = rng.uniform(-1, 1, (n, 2))
        positive = rng.uniform(size=n) < np.exp(known.log_p(first + X @ np.array(slopes)))
        n_negatives = np.count_nonzero(~positive)
        log_pi0 = np.log(rate) + (X[:, 0] - 1 if draw == "designed" else 0.0)
        if draw == "fixed":
            size = round(rate * (1 - prevalence) * n)
            kept = positive.copy()
            kept[rng.choice(np.flatnonzero(~positive), size, replace=False)] = True
        else:
            kept = positive | (rng.uniform(size=n) < np.exp(log_pi0))
        X, labels = X[kept], positive[kept]
        for name in methods:
            method, _, nominal = name.partition(" ")
            options = {"rate": rate}
            if draw == "designed":
                options = {"log_keep": (0.0, log_pi0[kept])}
            elif not nominal:
                options["rate"] = np.count_nonzero(~labels) / n_negatives
                options["stratum"] = Stratum("realised", n_negatives)
            solution, parts = parts_of(method, link, X, labels, **options)
            found[name][0].append(solution.coef)
            found[name][1].append(np.diag(covariance(parts)))
    truth = np.array([first, *slopes])
    return truth, {name: tuple(map(np.array, both)) for name, both in found.items()}


@pytest.mark.parametrize(
    ("link", "draw", "methods"),
    [
        ("logit", "bernoulli", ["iw", "cmle", "pseudo_mle", "cmle nominal"]),
        ("probit", "bernoulli", ["cmle", "profile", "pseudo_mle"]),
        ("probit", "fixed", ["iw", "cmle"]),
    ],
)
def test_standard_errors_agree_with_what_repeated_samples_show(link, draw, methods):
    truth, found = replicate(
        link, 120, n=6_000, prevalence=0.1, rate=0.05, methods=methods, seed=3, draw=draw
    )
    ratios = {}
    for name, (coef, variances) in found.items():
        ratios[name] = np.sqrt(variances.mean(axis=0)) / coef.std(axis=0, ddof=1)
        # sd of a standard deviation of 120: 6.5 %
        assert np.abs(ratios[name] - 1).max() < 0.2, (name, ratios[name])
        if name != "pseudo_mle":
            inside = np.abs(coef - truth) < 1.96 * np.sqrt(variances)
            assert 0.9 < inside.mean() < 0.98
    if draw == "bernoulli" and link == "logit":
        # The number of negatives kept is most of what is unknown of the intercept.
        spread = {name: coef[:, 0].std() for name, (coef, _) in found.items()}
        assert 0.45 < spread["cmle"] / spread["cmle nominal"] < 0.75


@pytest.mark.parametrize("method", ["iw", "cmle"])
def test_rows_kept_with_probabilities_of_their_own(method):
    truth, found = replicate(
        "probit", 150, n=6_000, prevalence=0.1, rate=0.15, methods=[method], seed=4, draw="designed"
    )
    coef, variances = found[method]
    assert np.abs((coef.mean(axis=0) - truth) / coef.std(axis=0)).max() < 4 / np.sqrt(150) + 0.1
    ratio = np.sqrt(variances.mean(axis=0)) / coef.std(axis=0, ddof=1)
    assert np.abs(ratio - 1).max() < 0.18, ratio


def test_weights_of_a_downsample_are_no_counts_of_rows():
    # A 2 % downsample fitted as if it were everything, with weights 1 and 50.
    rng = np.random.default_rng(11)
    first = intercept_of("logit", 0.02, (1.0, -1.0))
    coefs, variances, counted = [], [], []
    for _ in range(120):
        X = rng.uniform(-1, 1, (20_000, 2))
        positive = rng.uniform(size=len(X)) < expit(first + X @ np.array([1.0, -1.0]))
        kept = positive | (rng.uniform(size=len(X)) < 0.02)
        X, positive = X[kept], positive[kept]
        weight = np.where(positive, 1.0, 50.0)
        solution, parts = parts_of("naive", "logit", X, positive, weight=weight)
        coefs.append(solution.coef)
        variances.append(np.diag(covariance(parts)))
        counted.append(np.diag(np.linalg.inv(parts.bread.dense(parts.design))))
    sd = np.std(coefs, axis=0, ddof=1)[1:]
    assert np.abs(np.sqrt(np.mean(variances, axis=0))[1:] / sd - 1).max() < 0.15
    inside = np.abs(np.array(coefs) - [first, 1.0, -1.0]) < 1.96 * np.sqrt(variances)
    assert 0.91 < inside[:, 1:].mean() < 0.98
    # what counting a row of weight 50 as 50 rows would say
    assert (np.sqrt(np.mean(counted, axis=0))[1:] / sd).max() < 0.8
    weighted = parts_of("iw", "logit", X, positive, rate=0.02)[1]
    close(covariance(parts), covariance(weighted), 1e-9)


# ------------------------------------------------------------------------------------------------
# Weights, penalties, offsets


@pytest.mark.parametrize("kind", ["bernoulli", "realised", "known_prevalence"])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_multiplied_weights_change_nothing(method, kind):
    X, positive, n_negatives = sample(9)
    stratum = Stratum(kind, n_negatives)
    varied = np.random.default_rng(3).uniform(0.5, 2, len(X))
    for weight in (varied, np.ones(len(X))):
        few, many = (
            covariance(
                parts_of(
                    method, "probit", X, positive, rate=0.2, weight=weight * times, stratum=stratum
                )[1]
            )
            for times in (1.0, 7.0)
        )
        close(few, many, 1e-8)
    plain = parts_of(method, "probit", X, positive, rate=0.2, stratum=stratum)[1]
    close(many, covariance(plain), 1e-8)


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_rows_of_weight_zero_are_no_rows(method):
    X, positive, n_negatives = sample(10)
    stratum = Stratum("realised", n_negatives)
    none = np.zeros(200)
    more = np.vstack([X, X[:200] + 1]), np.concatenate([positive, ~positive[:200]])
    for weight in (np.ones(len(X)), np.random.default_rng(4).uniform(0.5, 2, len(X))):
        without = parts_of(method, "logit", X, positive, rate=0.2, weight=weight, stratum=stratum)
        weights = np.concatenate([weight, none])
        zeros = parts_of(method, "logit", *more, rate=0.2, weight=weights, stratum=stratum)
        close(covariance(zeros[1]), covariance(without[1]), 1e-8)
        assert zeros[1].factor == without[1].factor


@pytest.mark.parametrize("kind", ["bernoulli", "realised"])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_a_penalty_is_in_the_hessian_and_not_in_the_meat(method, kind):
    X, positive, n_negatives = sample(12)
    _, parts = parts_of(
        method, "logit", X, positive, rate=0.2, ridge=30.0, stratum=Stratum(kind, n_negatives)
    )
    hessian = parts.bread.dense(parts.design)
    meat = parts.meat.dense(parts.design) + parts.share * hessian
    inverse = np.linalg.inv(hessian + np.diag([0, 30.0, 30.0]))
    rows, robust = len(X), parts.n_kept is not None
    factor = rows / (rows - np.trace(inverse @ hessian)) if robust else 1.0
    close(covariance(parts), factor * inverse @ meat @ inverse, 1e-9)
    plain = covariance(parts_of(method, "logit", X, positive, rate=0.2)[1])
    assert np.all(np.diag(covariance(parts))[1:] < np.diag(plain)[1:])
    also = replace(parts, ridge=np.array([20.0, 30.0, 30.0]))
    inverse = np.linalg.inv(hessian + np.diag(also.ridge))
    factor = rows / (rows - np.trace(inverse @ hessian)) if robust else 1.0
    close(covariance(also), factor * inverse @ meat @ inverse, 1e-9)
    np.testing.assert_allclose(
        contrast_variances(also, np.eye(3)), np.diag(covariance(also)), rtol=1e-8
    )


def test_known_intercept_and_offset():
    X, positive, n_negatives = sample(13, link="cloglog")
    first = intercept_of("cloglog", 0.02, (1.0, -1.0))
    offset = first + 0.1 * X[:, 0]
    solution, parts = parts_of(
        "cmle",
        "cloglog",
        X,
        positive,
        rate=0.2,
        intercept=False,
        offset=offset,
        stratum=Stratum("realised", n_negatives),
    )
    # without the offset the same fit has another first slope, and the same covariance
    moved, other = parts_of(
        "cmle",
        "cloglog",
        X,
        positive,
        rate=0.2,
        intercept=False,
        offset=first,
        stratum=Stratum("realised", n_negatives),
    )
    np.testing.assert_allclose(solution.coef + np.array([0.1, 0]), moved.coef, rtol=1e-8)
    close(covariance(parts), covariance(other), 1e-8)
    free = parts_of("cmle", "cloglog", X, positive, rate=0.2)[1]
    assert np.all(np.diag(covariance(parts)) < np.diag(covariance(free))[1:])
    np.testing.assert_allclose(
        contrast_variances(parts, np.eye(2)), np.diag(covariance(parts)), rtol=1e-9
    )


# ------------------------------------------------------------------------------------------------
# With a matrix and without


def awkward(seed=14, n=1_500):
    """Columns of scales 1e-3 to 1e4, some of them far from zero."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n, 5))
    base[:, 1] += 0.9 * base[:, 0]
    eta = -2.0 + base @ np.array([0.5, -0.3, 0.2, 0.0, 0.3])
    X = base * np.array([1e-3, 1.0, 1e4, 10.0, 1.0]) + np.array([0.0, 1e3, 5e4, 0.0, 1e5])
    return X, rng.uniform(size=n) < expit(eta), base


@pytest.mark.parametrize("kind", ["bernoulli", "realised", "known_prevalence"])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_both_ways_agree_however_the_columns_are_scaled(method, kind):
    X, positive, base = awkward()
    weight = np.random.default_rng(5).uniform(0.5, 2, len(X))
    stratum = Stratum(kind, 20_000)
    for ridge in (0.0, 3.0):
        # Fit on plain columns, then write the same linear predictor in the awkward ones.
        solution, _ = parts_of(method, "logit", base, positive, rate=0.1, weight=weight)
        rows = Rows.uniform(positive, weight, 0.1)
        design = Design(X, intercept=True)
        likelihood = METHODS[method](rows, LINKS["logit"], n_dropped=rows.total_negative * 9)
        penalty = ridge * np.concatenate([[0.0], X.var(axis=0)])
        parts = sandwich(method, likelihood, solution, design, rows, ridge=penalty, stratum=stratum)
        contrasts = np.vstack([np.eye(6), np.random.default_rng(6).normal(size=(2, 6))])
        matrix = covariance(parts)
        np.testing.assert_allclose(
            contrast_variances(parts, contrasts),
            np.einsum("kj,jl,kl->k", contrasts, matrix, contrasts),
            rtol=1e-7,
        )
        # the covariance on the plain columns, carried over
        spread = np.array([1e-3, 1.0, 1e4, 10.0, 1.0])
        plain = sandwich(
            method,
            likelihood,
            solution,
            Design(base, intercept=True),
            rows,
            ridge=penalty / np.concatenate([[1.0], spread**2]),
            stratum=stratum,
        )
        np.testing.assert_allclose(
            matrix[1:, 1:] * np.outer(spread, spread),
            covariance(plain)[1:, 1:],
            rtol=1e-7,
            atol=1e-12,
        )


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_matrix, np.float32])
def test_other_matrices(kind):
    X, positive, n_negatives = sample(15)
    X = np.where(X > 0.3, X, 0.0).astype(np.float32).astype(np.float64)
    stratum = Stratum("realised", n_negatives)
    plain = parts_of("iw", "logit", X, positive, rate=0.2, stratum=stratum)[1]
    other = X.astype(np.float32) if kind is np.float32 else kind(X)
    parts = parts_of("iw", "logit", other, positive, rate=0.2, stratum=stratum)[1]
    close(covariance(parts), covariance(plain), 1e-9)
    np.testing.assert_allclose(
        contrast_variances(parts, np.eye(3)), np.diag(covariance(plain)), rtol=1e-8
    )


def test_sparse_columns_far_from_zero_take_few_steps(monkeypatch):
    X, positive, base = awkward()
    X = base + np.array([0.0, 300.0, -1000.0, 30.0, 100.0])
    rows = Rows.uniform(positive, None, 0.1)
    likelihood = METHODS["cmle"](rows, LINKS["logit"])
    solution, parts = parts_of("cmle", "logit", base, positive, rate=0.1)
    sparse = sandwich(
        "cmle",
        likelihood,
        solution,
        Design(scipy.sparse.csr_array(X), intercept=True),
        rows,
        ridge=np.zeros(6),
        stratum=Stratum(),
    )
    monkeypatch.setattr("imbfit.glm.covariances.MOST_STEPS", 9)
    expected = np.diag(covariance(parts))[1:]
    np.testing.assert_allclose(contrast_variances(sparse, np.eye(6)[1:]), expected, rtol=1e-6)
    np.testing.assert_allclose(np.diag(covariance(sparse))[1:], expected, rtol=1e-6)


def test_many_sparse_columns_make_no_matrix():
    rng = np.random.default_rng(16)
    n, d = 1_500, 30_000
    columns = (d * rng.uniform(size=(n, 5)) ** 4).astype(int)
    X = scipy.sparse.csr_array(
        (np.ones(5 * n), columns.reshape(-1), np.arange(0, 5 * n + 1, 5)), shape=(n, d)
    )
    positive = rng.uniform(size=n) < 0.2
    design = Design(X, intercept=True)
    rows = Rows.uniform(positive, None, 0.1)
    likelihood = METHODS["cmle"](rows, LINKS["logit"])
    coef = np.concatenate([[-3.7], 0.1 * rng.normal(size=d)])
    eta = design.eta(coef)
    solution = SimpleNamespace(
        state=likelihood.state(eta), eta=eta, coef=coef, aliased=np.zeros(d + 1, bool)
    )
    ridge = np.concatenate([[0.0], np.ones(d)])
    parts = sandwich(
        "cmle", likelihood, solution, design, rows, ridge=ridge, stratum=Stratum("realised", 3e4)
    )
    chosen = np.array([0, 1, 2, 50, d])
    contrasts = np.zeros((5, d + 1))
    contrasts[np.arange(5), chosen] = 1.0
    tracemalloc.start()
    variances = contrast_variances(parts, contrasts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 8 * d
    # By the matrix of the rows, which are fewer: (R + Z'DZ)^-1 with the intercept set apart.
    weight = parts.bread.diagonal
    inside = (X.multiply(np.sqrt(weight)[:, None])).tocsr()
    kernel = np.eye(n) + (inside @ inside.T).toarray()
    common = np.sqrt(weight)
    solved = np.linalg.solve(kernel, np.column_stack([common, inside[:, chosen[1:] - 1].toarray()]))
    schur = float(common @ solved[:, 0])

    def inverse_times(j):
        """Column j of the inverse of the penalised Hessian."""
        if j == 0:
            head = 1 / schur
            return np.concatenate([[head], -(inside.T @ solved[:, 0]) * head])
        k = list(chosen[1:]).index(j) + 1
        column = -(inside.T @ solved[:, k])
        column[j - 1] += 1.0
        head = -float(common @ solved[:, k]) / schur
        return np.concatenate([[head], column - (inside.T @ solved[:, 0]) * head])

    for variance, j in zip(variances, chosen, strict=True):
        x = inverse_times(j)
        meat = parts.meat.times(design, x) + parts.share * parts.bread.times(design, x)
        np.testing.assert_allclose(variance, x @ meat, rtol=1e-7)


# ------------------------------------------------------------------------------------------------
# What the rows do not determine


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_aliased_coefficients_have_infinite_variance_and_leave_the_others_alone(method):
    X, positive, n_negatives = sample(17)
    stratum = Stratum("realised", n_negatives)
    more = np.column_stack([X, 3 + X[:, 0] - X[:, 1]])
    aliased = np.array([False, False, False, True])
    _, parts = parts_of(
        method, "probit", more, positive, rate=0.2, stratum=stratum, aliased=aliased
    )
    matrix = covariance(parts)
    plain = covariance(parts_of(method, "probit", X, positive, rate=0.2, stratum=stratum)[1])
    close(matrix[:3, :3], plain, 1e-8)
    assert matrix[3].tolist() == matrix[:, 3].tolist() == [0.0, 0.0, 0.0, np.inf]
    variances = contrast_variances(parts, np.vstack([np.eye(4), [[0, 1, 0, 1]]]))
    np.testing.assert_allclose(variances[:3], np.diag(plain), rtol=1e-8)
    assert np.all(np.isinf(variances[3:]))


@pytest.mark.parametrize("sparse", [False, True])
def test_collinear_columns_that_nobody_named(sparse):
    X, positive, _ = sample(18)
    nearly = np.where(np.arange(len(X)) % 7 < 3, 0.3, 0.1 + 0.2)  # constant but for rounding
    X = np.column_stack([X, X[:, 0], nearly, X[:, 1] * 0])
    design = Design(scipy.sparse.csr_array(X) if sparse else X, intercept=True)
    rows = Rows.uniform(positive, None, 0.2)
    likelihood = METHODS["cmle"](rows, LINKS["logit"])
    plain = X[:, :2]
    first, parts = parts_of("cmle", "logit", plain, positive, rate=0.2)
    solution = SimpleNamespace(
        state=first.state, eta=first.eta, coef=np.zeros(6), aliased=np.zeros(6, bool)
    )
    wide = sandwich(
        "cmle", likelihood, solution, design, rows, ridge=np.zeros(6), stratum=Stratum()
    )
    right = covariance(parts)
    matrix = covariance(wide)
    lost = [0, 1, 3, 4, 5]  # the intercept and the constant column are not told apart either
    assert np.all(np.isinf(np.diag(matrix)[lost]))
    np.testing.assert_allclose(matrix[2, 2], right[2, 2], rtol=1e-8)
    matrix[lost, lost] = 0.0
    assert np.all(matrix[lost] == 0)
    assert np.all(matrix[:, lost] == 0)
    sums = np.zeros((2, 6))  # these the rows do determine
    sums[0, [1, 3]] = 1.0
    sums[1, [0, 4]] = 1.0, 0.3
    variances = contrast_variances(wide, np.vstack([np.eye(6), sums]))
    assert np.all(np.isinf(variances[lost]))
    expected = [right[2, 2], right[1, 1], right[0, 0]]
    np.testing.assert_allclose(variances[[2, 6, 7]], expected, rtol=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_a_combination_that_rounding_hides(seed):
    X, positive, _ = sample(seed)
    weights = np.random.default_rng(seed).normal(size=2)
    X = np.column_stack([X, X @ weights])
    design = Design(X, intercept=True)
    rows = Rows.uniform(positive, None, 0.2)
    likelihood = METHODS["cmle"](rows, LINKS["logit"])
    first, parts = parts_of("cmle", "logit", X[:, :2], positive, rate=0.2)
    solution = SimpleNamespace(
        state=first.state, eta=first.eta, coef=np.zeros(4), aliased=np.zeros(4, bool)
    )
    wide = sandwich(
        "cmle", likelihood, solution, design, rows, ridge=np.zeros(4), stratum=Stratum()
    )
    matrix = covariance(wide)
    assert np.all(np.isinf(np.diag(matrix)[1:]))
    assert np.all(np.isinf(contrast_variances(wide, np.eye(4))[1:]))
    np.testing.assert_allclose(matrix[0, 0], covariance(parts)[0, 0], rtol=1e-7)


def test_equal_columns_far_from_zero_leave_the_intercept_alone():
    X, positive, _ = sample(21)
    X += 1e4
    plain, _ = parts_of("cmle", "logit", X - 1e4, positive, rate=0.2)
    rows = Rows.uniform(positive, None, 0.2)
    likelihood = METHODS["cmle"](rows, LINKS["logit"])
    found = []
    for columns in (X, np.column_stack([X, X[:, 0]])):
        width = columns.shape[1] + 1
        solution = SimpleNamespace(
            state=plain.state, eta=plain.eta, coef=np.zeros(width), aliased=np.zeros(width, bool)
        )
        parts = sandwich(
            "cmle",
            likelihood,
            solution,
            Design(columns, intercept=True),
            rows,
            ridge=np.zeros(width),
            stratum=Stratum(),
        )
        found.append((covariance(parts), contrast_variances(parts, np.eye(width))))
    (right, right_apart), (matrix, apart) = found
    np.testing.assert_allclose(right_apart, np.diag(right), rtol=1e-7)
    assert np.isinf(np.diag(matrix)).tolist() == [False, True, False, True]
    assert np.isinf(apart).tolist() == [False, True, False, True]
    np.testing.assert_allclose(matrix[::2, ::2], right[::2, ::2], rtol=1e-6)
    np.testing.assert_allclose(apart[::2], np.diag(right)[::2], rtol=1e-6)


def test_a_prevalence_known_beforehand_may_leave_the_intercept_nothing():
    positive = np.arange(400) % 4 == 0
    X = np.zeros((400, 0))
    _, parts = parts_of("cmle", "logit", X, positive, rate=0.5, stratum=Stratum("known_prevalence"))
    assert 0.0 <= covariance(parts)[0, 0] < 1e-12


# ------------------------------------------------------------------------------------------------
# Refusals


def test_a_stratum_says_what_it_needs():
    with pytest.raises(ValueError, match="'realised' or 'known_prevalence'"):
        Stratum("nominal")
    with pytest.raises(ValueError, match="needs n_negatives"):
        Stratum("realised")
    X, positive, _ = sample(19)
    with pytest.raises(ValueError, match="negatives were kept, but n_negatives is 10"):
        parts_of("cmle", "logit", X, positive, rate=0.2, stratum=Stratum("realised", 10))


def test_probabilities_of_rows_and_a_realised_rate_do_not_go_together():
    X, positive, n_negatives = sample(20)
    log_keep = (0.0, np.full(len(X), np.log(0.2)))
    with pytest.raises(ValueError, match=r"write Stratum\('bernoulli'\)"):
        parts_of(
            "cmle",
            "logit",
            X,
            positive,
            log_keep=log_keep,
            stratum=Stratum("realised", n_negatives),
        )


def test_columns_too_close_to_solve_for_are_named(monkeypatch):
    monkeypatch.setattr("imbfit.glm.covariances.MOST_STEPS", 2)
    X, positive, _ = awkward()
    design = Design(X, intercept=True)
    rows = Rows.uniform(positive, None, 0.1)
    likelihood = METHODS["cmle"](rows, LINKS["logit"])
    eta = np.full(len(X), -2.0)
    solution = SimpleNamespace(
        state=likelihood.state(eta), eta=eta, coef=np.zeros(6), aliased=np.zeros(6, bool)
    )
    parts = sandwich(
        "cmle", likelihood, solution, design, rows, ridge=np.zeros(6), stratum=Stratum()
    )
    with pytest.raises(RuntimeError, match="contrast 1 was not found in 2 steps"):
        contrast_variances(parts, np.vstack([np.zeros(6), np.eye(6)[2]]))


def test_a_ridge_leaves_few_degrees_of_freedom_to_many_columns():
    # as many columns as rows, held by a ridge: the factor must not take each for one
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 280))
    positive = rng.random(300) < 0.3
    _, parts = parts_of("iw", "logit", X, positive, rate=1.0, ridge=30.0)
    freedom = 300 * (
        1 - 1 / (covariance(parts)[5, 5] / covariance(replace(parts, n_kept=None))[5, 5])
    )
    assert 60 < freedom < 200
    few = contrast_variances(parts, np.eye(281)[5:6])
    np.testing.assert_allclose(few, covariance(parts)[5, 5], rtol=0.15)
