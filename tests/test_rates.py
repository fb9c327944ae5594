"""The cost of a sampling rate, against estimating equations, simulations and brute force."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq

from imbfit.glm.built_in_links import LINKS
from imbfit.glm.design import Design
from imbfit.glm.efficiency import relative_efficiency
from imbfit.glm.pilot import Pilot
from imbfit.glm.rates import cost_rate, curve, efficient_rate, inference_free_bound
from imbfit.glm.score_norms import a_optimal_matrix

THETA = (1.0, -1.0, 0.5)
SLOPES = np.eye(4)[1:]


def pilot_of(X, share, link, coef, intercept, *, prevalence=None, free=True, n_rows=1e8):
    pieces = LINKS[link].pieces(np.asarray(X @ np.asarray(coef)) + intercept)
    share = share / share.sum()
    p1 = float(share @ np.exp(pieces.log_p)) if prevalence is None else prevalence
    return Pilot(
        design=Design(X, intercept=free), share=share, pieces=pieces, prevalence=p1, n_rows=n_rows
    )


def population(link, prevalence, *, normal=False, theta=THETA, nodes=None):
    """Return a population of three features by quadrature, so that means are exact."""
    if normal:
        x, w = np.polynomial.hermite_e.hermegauss(nodes or 30)
    else:
        x, w = np.polynomial.legendre.leggauss(nodes or 12)
    X = np.array(list(itertools.product(x, repeat=3)))
    share = np.prod(list(itertools.product(w / w.sum(), repeat=3)), axis=1)
    eta = X @ np.array(theta)
    intercept = intercept_for(link, prevalence, eta, share)
    return pilot_of(X, share, link, theta, intercept, prevalence=prevalence)


def intercept_for(link, prevalence, eta, share):
    def excess(b):
        return share @ np.exp(LINKS[link].pieces(eta + b).log_p) - prevalence

    return brentq(excess, -1e6 if link == "cauchit" else -60.0, 20.0, xtol=1e-13)


def mean_ratio(pilot, efficiency, contrasts=SLOPES):
    """Return the trace of the sampled slopes' covariance over that of the full fit."""
    full = np.linalg.inv(pilot.design.gram(pilot.information))
    own = np.einsum("ij,jk,ik->i", contrasts, full, contrasts)
    return (own / efficiency).sum() / own.sum()


def small_population(rng, *, n_points=6, n_slopes=2, free=True):
    link = rng.choice(list(LINKS))
    X = rng.normal(size=(n_points, n_slopes)) * np.exp(rng.normal())
    coef = rng.normal(size=n_slopes) / np.abs(X).max()
    intercept = rng.uniform(-3, 0.5) if link != "cauchit" else rng.uniform(-20, 0.5)
    share = rng.dirichlet(np.ones(n_points))
    return pilot_of(X, share, link, coef, intercept, free=free), link, coef, intercept


# ------------------------------------------------------------- formulas, by estimating equations


def variances_by_equations(X, share, link, w, *, free, method, log_keep, realised):
    """Return the asymptotic covariance of an estimator, from its equations alone.

    All outcomes (point, label, kept or not) of a population of a few points are enumerated; scores
    are differences of the log-likelihood, and the Jacobian is one of differences of the scores.
    With `realised`, the rate is a further unknown: kept negatives over negatives; for "profile" it
    solves that the kept rows' 1/S add up to the number of rows.
    """
    Z = np.column_stack([np.ones(len(X)), X]) if free else X
    offset = 0.0 if free else w[0]
    theta = np.array(w if free else w[1:], dtype=float)
    pieces = LINKS[link].pieces(Z @ theta + offset)
    pi1, pi0 = (np.exp(np.broadcast_to(k, len(X)) * 1.0) for k in log_keep)
    p, q = np.exp(pieces.log_p), np.exp(pieces.log_q)
    chance = np.concatenate([p * pi1, p * (1 - pi1), q * pi0, q * (1 - pi0)]) * np.tile(share, 4)
    point = np.tile(np.arange(len(X)), 4)
    label = np.repeat([1.0, 1.0, 0.0, 0.0], len(X))
    kept = np.repeat([1.0, 0.0, 1.0, 0.0], len(X))

    def terms(at, extra):
        log_p, log_q, _, _ = LINKS[link].pieces(Z @ at + offset)
        own = np.where(label == 1, log_p[point], log_q[point])
        one, zero = pi1, np.full(len(X), extra) if realised else pi0
        if method == "iw":
            return own / np.where(label == 1, one[point], zero[point])
        log_s = np.logaddexp(np.log(one) + log_p, np.log(zero) + log_q)
        return own - log_s[point]

    def equations(unknown):
        at, extra = unknown[: len(theta)], unknown[-1]
        step = 1e-5
        psi = [
            kept * (terms(at + h, extra) - terms(at - h, extra)) / (2 * step)
            for h in step * np.eye(len(theta))
        ]
        if realised and method == "profile":
            log_p, log_q, _, _ = LINKS[link].pieces(Z @ at + offset)
            psi.append(kept / (np.exp(log_p) + extra * np.exp(log_q))[point] - 1)
        elif realised:
            psi.append((1 - label) * (kept - extra))
        return np.array(psi)

    unknown = np.append(theta, pi0[0]) if realised else theta
    psi = equations(unknown)
    assert np.abs(psi @ chance).max() < 1e-8  # unbiased at the truth
    step = 1e-4
    jacobian = np.array(
        [
            (equations(unknown + h) @ chance - equations(unknown - h) @ chance) / (2 * step)
            for h in step * np.eye(len(unknown))
        ]
    ).T
    bread = np.linalg.inv(jacobian)
    return (bread @ (psi * chance) @ psi.T @ bread.T)[: len(theta), : len(theta)]


@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("link", list(LINKS))
def test_variances_at_a_realised_rate_solve_the_estimating_equations(method, free, link):
    X = np.array([[-1.0, 0.3], [0.4, -0.8], [1.2, 0.1], [0.1, 1.1], [-0.5, -0.9]])
    share = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    w = np.array([-1.3, 0.8, -0.6])
    pilot = pilot_of(X, share, link, w[1:], w[0], free=free)
    contrasts = np.eye(3)[0 if free else 1 :, 0 if free else 1 :]
    contrasts = np.vstack([contrasts, contrasts[-1] - contrasts[-2]])
    for rate in (0.03, 0.4):
        keep = (0.0, np.log(rate))
        options = {"free": free, "method": method, "realised": True}
        down = variances_by_equations(X, share, link, w, log_keep=keep, **options)
        full = variances_by_equations(
            X, share, link, w, free=free, method="iw", log_keep=(0.0, 0.0), realised=False
        )
        expected = [(c @ full @ c) / (c @ down @ c) for c in contrasts]
        got = relative_efficiency(pilot, rate, method=method, contrasts=contrasts)
        np.testing.assert_allclose(got, expected, rtol=2e-5)


@pytest.mark.parametrize("method", ["cmle", "iw"])
@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_variances_with_probabilities_by_row_solve_the_estimating_equations(method, link):
    X = np.array([[-1.0, 0.3], [0.4, -0.8], [1.2, 0.1], [0.1, 1.1], [-0.5, -0.9]])
    share = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    w = np.array([-1.3, 0.8, -0.6])
    log_keep = (np.log([0.9, 0.5, 1.0, 0.7, 0.8]), np.log([0.02, 0.3, 0.6, 1.0, 0.1]))
    down = variances_by_equations(
        X, share, link, w, free=True, method=method, log_keep=log_keep, realised=False
    )
    full = variances_by_equations(
        X, share, link, w, free=True, method="iw", log_keep=(0.0, 0.0), realised=False
    )
    got = relative_efficiency(
        pilot_of(X, share, link, w[1:], w[0]),
        0.5,
        method=method,
        contrasts=np.eye(3),
        log_keep=log_keep,
    )
    np.testing.assert_allclose(got, np.diag(full) / np.diag(down), rtol=2e-5)


def test_probabilities_alike_in_all_rows_are_the_nominal_rate():
    # the realised rate helps the intercept and, with a logit, nothing else
    pilot = population("logit", 0.01)
    keep = (0.0, np.log(0.05))
    one = {"method": "cmle", "contrasts": np.eye(4)}
    nominal = relative_efficiency(pilot, 0.05, log_keep=keep, **one)
    realised = relative_efficiency(pilot, 0.05, **one)
    np.testing.assert_allclose(nominal[1:], realised[1:], rtol=1e-9)
    full = np.linalg.inv(pilot.design.gram(pilot.information))[0, 0]
    gained = full / nominal[0] - full / realised[0]
    assert gained == pytest.approx((1 - 0.05) / (0.05 * 0.99), rel=1e-9)


@pytest.mark.parametrize("method", ["naive", "pseudo_mle"])
def test_inconsistent_estimators_count_as_cmle(method):
    pilot = population("probit", 0.01)
    got = relative_efficiency(pilot, 0.02, method=method, contrasts=SLOPES)
    expected = relative_efficiency(pilot, 0.02, method="cmle", contrasts=SLOPES)
    assert got.tolist() == expected.tolist()


def test_the_profile_gains_where_the_intercept_is_known():
    pilot = population("probit", 0.05)
    known = Pilot(
        Design(pilot.design.X, intercept=False), pilot.share, pilot.pieces, 0.05, pilot.n_rows
    )
    for at, contrasts, least, most in ((pilot, SLOPES, 1.0, 1.0001), (known, np.eye(3), 1.01, 1.1)):
        cmle, profile = (
            relative_efficiency(at, 0.01, method=m, contrasts=contrasts)
            for m in ("cmle", "profile")
        )
        assert (least * cmle <= profile).all()
        assert (profile <= most * cmle).all()


# ------------------------------------------------------------- the same by simulation


def scoring(Z, y, ratio, link, *, start, weight=None):
    """Fit by Fisher scoring: conditional on the sample, or weighted where a weight is given."""
    w = start.copy()
    for _ in range(30):
        log_p, log_q, hp, hq = LINKS[link].pieces(Z @ w)
        u = hp + hq
        if weight is None:
            odds = log_p - log_q + ratio
            mean = 1 / (1 + np.exp(-odds))
            slope, curvature = (y - mean) * u, mean * (1 - mean) * u * u
        else:
            mean = np.exp(log_p)
            slope, curvature = weight * (y - mean) * u, weight * hp * hq
        step = np.linalg.solve((Z * curvature[:, None]).T @ Z, Z.T @ slope)
        w += step
        if np.abs(step).max() < 1e-7:
            return w
    raise AssertionError("no convergence")


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_the_variance_that_sampling_adds_is_the_one_measured(link):
    # The full fit is efficient, so the variance of the difference of the two estimates is the
    # difference of their variances.
    rng = np.random.default_rng(3)
    pilot = population(link, 0.05)
    theta = np.append(intercept_for(link, 0.05, pilot.design.X @ THETA, pilot.share), THETA)
    n, rate, n_fits = 8_000, 0.06, 250
    added = np.zeros((2, n_fits, 4))
    for i in range(n_fits):
        Z = np.column_stack([np.ones(n), rng.uniform(-1, 1, size=(n, 3))])
        y = (np.log(rng.random(n)) < LINKS[link].pieces(Z @ theta).log_p).astype(float)
        kept = (y == 1) | (rng.random(n) < rate)
        realised = (kept & (y == 0)).sum() / (y == 0).sum()
        full = scoring(Z, y, 0.0, link, start=theta)
        rows = Z[kept], y[kept], -np.log(realised), link
        added[0, i] = scoring(*rows, start=theta) - full
        weight = np.where(y[kept] == 1, 1, 1 / realised)
        added[1, i] = scoring(*rows, start=theta, weight=weight) - full
    variance = np.diag(np.linalg.inv(pilot.design.gram(pilot.information)))
    for method, differences in zip(("cmle", "iw"), added, strict=True):
        efficiency = relative_efficiency(pilot, rate, method=method, contrasts=np.eye(4))
        predicted = variance * (1 / efficiency - 1)
        measured = n * np.square(differences).mean(axis=0)
        # the mean of four, each with a standard error of sqrt(2/250) = 9 %
        assert np.mean(measured / predicted) == pytest.approx(1.0, abs=0.15)
        np.testing.assert_allclose(measured, predicted, rtol=0.35)


def test_a_pilot_of_1800_rows_finds_the_rate():
    rng = np.random.default_rng(5)
    truth = population("logit", 0.01)
    theta = np.append(intercept_for("logit", 0.01, truth.design.X @ THETA, truth.share), THETA)
    exact = efficient_rate(truth, 0.95, method="cmle", contrasts=SLOPES)
    found = []
    for _ in range(25):
        n = 60_000
        Z = np.column_stack([np.ones(n), rng.uniform(-1, 1, size=(n, 3))])
        y = rng.random(n) < 1 / (1 + np.exp(-(Z @ theta)))
        rows = np.concatenate([np.flatnonzero(y)[:300], np.flatnonzero(~y)[:1500]])
        log_b, log_a = np.log(300 / y.sum()), np.log(1500 / (~y).sum())
        Z, y = Z[rows], y[rows].astype(float)
        w = scoring(Z, y, log_b - log_a, "logit", start=theta)
        pieces = LINKS["logit"].pieces(Z @ w)
        share = np.exp(-np.logaddexp(log_b + pieces.log_p, log_a + pieces.log_q))
        pilot = pilot_of(Z[:, 1:], share, "logit", w[1:], w[0], prevalence=0.01)
        found.append(efficient_rate(pilot, 0.95, method="cmle", contrasts=SLOPES))
    assert np.median(found) == pytest.approx(exact, rel=0.05)
    low, high = np.quantile(found, [0.1, 0.9])
    assert 0.85 * exact < low < exact < high < 1.15 * exact


# ------------------------------------------------------------- the smallest rate


# A loss of 5 % of the sum of the slopes' variances (which the issue forbids as a rule, since it
# depends on units, but the features here share one), and of the variance of the worst slope.
FIGURES = [
    ("logit", 0.001, False, 0.0284, 0.0314),
    ("logit", 0.01, False, 0.223, 0.241),
    ("logit", 0.05, False, 0.574, 0.594),
    ("logit", 0.01, True, 0.543, 0.565),
    ("probit", 0.001, False, 0.107, 0.125),
    ("probit", 0.01, False, 0.408, 0.442),
    ("probit", 0.001, True, 0.698, 0.711),
    ("cloglog", 0.001, False, 0.0284, 0.0314),
]


@pytest.mark.parametrize(("link", "prevalence", "normal", "trace", "worst"), FIGURES)
def test_rates_of_known_designs(link, prevalence, normal, trace, worst):
    pilot = population(link, prevalence, normal=normal)

    def excess(log_rate):
        efficiency = relative_efficiency(pilot, np.exp(log_rate), method="cmle", contrasts=SLOPES)
        return 1 / mean_ratio(pilot, efficiency) - 0.95

    assert np.exp(brentq(excess, np.log(1e-4), 0)) == pytest.approx(trace, rel=0.01)
    found = efficient_rate(pilot, 0.95, method="cmle", contrasts=SLOPES)
    assert found == pytest.approx(worst, rel=2e-3)


@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
@pytest.mark.parametrize("efficiency", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(
    ("link", "prevalence", "normal"),
    [
        ("logit", 0.01, False),
        ("probit", 0.001, True),
        ("loglog", 0.05, False),
        ("cloglog", 1e-6, 0),
    ],
)
def test_no_smaller_rate_keeps_the_efficiency(method, efficiency, link, prevalence, normal):
    pilot = population(link, prevalence, normal=normal, nodes=10)
    found = efficient_rate(pilot, efficiency, method=method, contrasts=SLOPES)

    def worst(rate):
        return relative_efficiency(pilot, rate, method=method, contrasts=SLOPES).min()

    assert worst(found) >= efficiency - 1e-12
    assert worst(found * (1 - 1e-5)) < efficiency
    # no rate far below does either
    assert max(map(worst, found * np.geomspace(1e-3, 0.99, 15))) < efficiency


def test_the_efficiency_never_falls_as_the_rate_rises():
    rng = np.random.default_rng(0)
    rates = np.geomspace(1e-5, 1.0, 25)
    for _ in range(100):
        free = bool(rng.random() < 0.5)
        pilot, _, _, _ = small_population(rng, n_points=rng.integers(4, 8), free=free)
        contrasts = rng.normal(size=(3, pilot.design.n_coef))
        for method in ("cmle", "iw", "profile"):
            kept = curve(pilot, rates, method=method, contrasts=contrasts).efficiency
            assert np.diff(kept, axis=0).min() > -1e-6
            assert (kept > 0).all()
            assert kept[-1].tolist() == [1.0, 1.0, 1.0]


def test_a_rate_may_be_as_small_as_one_negative():
    # With an intercept alone nothing is lost: the numbers of both classes are known.
    X = np.zeros((3, 0))
    pilot = pilot_of(X, np.ones(3), "logit", np.zeros(0), -4.0, n_rows=1e6)
    for method in ("cmle", "iw"):
        kept = [
            relative_efficiency(pilot, rate, method=method, contrasts=np.ones((1, 1)))[0]
            for rate in np.geomspace(1e-5, 0.9, 40)
        ]
        assert min(kept) > 1 - 1e-9
        assert max(kept) <= 1.0  # not even by rounding
        found = efficient_rate(pilot, 0.99, method=method, contrasts=np.ones((1, 1)))
        assert found == pytest.approx(1 / (1e6 * (1 - pilot.prevalence)))


def test_full_efficiency_takes_all_rows():
    pilot = population("logit", 0.01)
    for method in ("cmle", "iw", "profile"):
        assert efficient_rate(pilot, 1.0, method=method, contrasts=SLOPES) == 1.0
        assert efficient_rate(pilot, 1 - 1e-6, method=method, contrasts=SLOPES) < 1.0


def test_a_family_of_uniform_designs_gives_the_nominal_rate():
    pilot = population("probit", 0.01)
    found = efficient_rate(
        pilot,
        0.95,
        method="cmle",
        contrasts=SLOPES,
        family=lambda rate: (0.0, np.full(pilot.design.n_rows, np.log(rate))),
    )
    S = np.exp(pilot.pieces.log_p) + found * np.exp(pilot.pieces.log_q)
    kept = np.linalg.inv(pilot.design.gram(pilot.information * found / S))
    full = np.linalg.inv(pilot.design.gram(pilot.information))
    assert (np.diag(full) / np.diag(kept))[1:].min() == pytest.approx(0.95, abs=1e-6)
    assert found > efficient_rate(pilot, 0.95, method="cmle", contrasts=SLOPES)


def test_a_family_that_never_keeps_enough_takes_all_rows():
    pilot = population("logit", 0.01)
    found = efficient_rate(
        pilot, 0.95, method="cmle", contrasts=SLOPES, family=lambda rate: (0.0, np.log(rate / 5))
    )
    assert found == 1.0


# ------------------------------------------------------------- units, zeros, collinear columns


@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
def test_neither_units_nor_origins_of_features_matter(method):
    pilot = population("probit", 0.01)
    scale, shift = np.array([1e-6, 1.0, 1e5]), np.array([1.0, 1e4, -2e8])
    X = pilot.design.X * scale + shift
    moved = Pilot(Design(X, intercept=True), pilot.share, pilot.pieces, 0.01, 1e8)
    contrasts = np.vstack([SLOPES, [0.0, 1.0, -1.0, 2.0]])
    theirs = contrasts / np.append(1.0, 1 / scale)
    before = relative_efficiency(pilot, 0.03, method=method, contrasts=contrasts)
    after = relative_efficiency(moved, 0.03, method=method, contrasts=theirs)
    np.testing.assert_allclose(after, before, rtol=1e-7)
    one, other = (
        efficient_rate(at, 0.95, method=method, contrasts=L)
        for at, L in ((pilot, contrasts), (moved, theirs))
    )
    assert other == pytest.approx(one, rel=5e-6)


def test_the_scale_of_a_contrast_does_not_matter():
    pilot = population("logit", 0.01)
    contrasts = np.array([[1e-12], [1.0], [1e9]]) * SLOPES
    got = relative_efficiency(pilot, 0.03, method="iw", contrasts=contrasts)
    expected = relative_efficiency(pilot, 0.03, method="iw", contrasts=SLOPES)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, np.float32])
def test_sparse_and_float32_rows_are_the_same_rows(make):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((400, 5)) < 0.3, rng.integers(1, 4, size=(400, 5)), 0).astype(float)
    coef, share = rng.normal(size=5) / 3, rng.random(400)
    dense = pilot_of(X, share, "cloglog", coef, -5.0)
    other = Pilot(Design(make(X), intercept=True), dense.share, dense.pieces, 0.01, 1e6)
    for method in ("cmle", "iw", "profile"):
        one, two = (
            relative_efficiency(at, 0.02, method=method, contrasts=np.eye(6))
            for at in (dense, other)
        )
        np.testing.assert_allclose(two, one, rtol=1e-10)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_what_the_pilot_does_not_identify_is_left_out(make):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(512, 2)) * [1.0, 100.0]
    # column 2 is twice column 0 plus a constant; column 3 is constant; column 4 was never seen
    X = np.column_stack([x, 2 * x[:, 0] + 7, np.full(512, 3.0), np.zeros(512)])
    eta = x @ [0.5, 0.004]
    pieces = LINKS["logit"].pieces(eta - 4)
    share = np.full(512, 1 / 512)
    pilot = Pilot(Design(make(X), intercept=True), share, pieces, 0.02, 1e6)
    plain = Pilot(Design(x, intercept=True), share, pieces, 0.02, 1e6)
    slopes = np.eye(6)[1:]
    together = np.array([[0.0, 1.0, 0.0, 2.0, 0.0, 0.0]])
    contrasts = np.vstack([slopes, together])
    for method in ("cmle", "iw", "profile"):
        got = relative_efficiency(pilot, 0.05, method=method, contrasts=contrasts)
        assert np.isnan(got).tolist() == [True, False, True, True, True, False]
        expected = relative_efficiency(plain, 0.05, method=method, contrasts=np.eye(3)[[2, 1]])
        np.testing.assert_allclose(got[[1, 5]], expected, rtol=1e-6)
        rate, only = (
            efficient_rate(at, 0.95, method=method, contrasts=L)
            for at, L in ((pilot, contrasts), (plain, np.eye(3)[1:]))
        )
        assert rate == pytest.approx(only, rel=5e-6)
    found = curve(pilot, np.array([0.05, 0.5]), method="cmle", contrasts=contrasts)
    assert np.isnan(found.efficiency[:, 0]).all()
    assert np.isfinite(found.cost).all()
    for function in (
        lambda: relative_efficiency(pilot, 0.05, method="cmle", contrasts=slopes[[0, 4]]),
        lambda: efficient_rate(pilot, 0.95, method="iw", contrasts=slopes[[3]]),
        lambda: a_optimal_matrix(pilot, slopes[[2]]),
    ):
        with pytest.raises(ValueError, match="identify none of the contrasts"):
            function()


def test_rows_without_information_identify_nothing():
    pilot = pilot_of(np.zeros((3, 1)), np.ones(3), "logit", [1.0], 0.0, free=False)
    with pytest.raises(ValueError, match="identify none of the contrasts"):
        efficient_rate(pilot, 0.9, method="cmle", contrasts=np.eye(1))


def test_almost_collinear_columns_keep_their_digits():
    rng = np.random.default_rng(4)
    x, other = rng.normal(size=(2, 2000))
    coef = np.array([2.0, 0.0])
    apart = pilot_of(np.column_stack([x, other]), np.ones(2000), "logit", coef, -6.0)
    for gap in (1e-2, 1e-4, 1e-6, 1e-8):
        X = np.column_stack([x, x + gap * other])
        pilot = pilot_of(X, np.ones(2000), "logit", coef, -6.0)
        for rate in (1e-6, 1e-3, 0.5):
            got = relative_efficiency(pilot, rate, method="cmle", contrasts=np.eye(3)[2:])
            expected = relative_efficiency(apart, rate, method="cmle", contrasts=np.eye(3)[2:])
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def apart_in_few(share, eta):
    """Return a pilot of which two columns differ only in its last 100 rows."""
    rng = np.random.default_rng(0)
    few = np.arange(300) >= 200
    x = rng.normal(size=300)
    X = np.column_stack([x, np.where(few, rng.normal(size=300), x), rng.normal(size=300)])
    weight = np.where(few, share, 1.0)
    pieces = LINKS["logit"].pieces(np.where(few, eta, -14.0))
    return Pilot(Design(X, intercept=True), weight / weight.sum(), pieces, 1e-6, 1e9)


def test_columns_that_differ_where_there_is_no_information_are_left_out():
    got = relative_efficiency(
        apart_in_few(1.0, -50.0), 1e-6, method="cmle", contrasts=np.eye(4)[1:]
    )
    assert np.isnan(got).tolist() == [True, True, False]


def test_columns_that_differ_in_likely_positives_keep_at_least_the_rate():
    # A tiny rate keeps a/p of them and half of the rest, and a/p is less than the rounding of the
    # products of columns where they are few.
    for share, exact in ((1e-6, True), (1e-15, False), (1e-16, False)):
        pilot = apart_in_few(share, 2.0)
        for rate in (1e-8, 1e-7, 1e-6):
            got = relative_efficiency(pilot, rate, method="cmle", contrasts=np.eye(4)[2:3])
            assert rate * 0.999 <= got[0] <= 1
            if exact:
                assert got[0] == pytest.approx(rate / 0.881, rel=0.1)


@pytest.mark.parametrize("link", list(LINKS))
@pytest.mark.parametrize("prevalence", [1e-6, 0.3])
@pytest.mark.parametrize("strength", [0.0, 1.0, 8.0])
def test_extreme_prevalences_rates_and_effects_stay_finite(link, prevalence, strength):
    theta = strength * np.array(THETA)
    pilot = population(link, prevalence, theta=theta, nodes=8)
    p_max = np.exp(pilot.pieces.log_p.max())
    for method in ("cmle", "iw", "profile"):
        options = {"method": method, "contrasts": np.eye(4)}
        kept = curve(pilot, np.geomspace(1e-6, 1, 13), **options).efficiency
        assert ((kept > 0) & (kept <= 1)).all()
        assert np.diff(kept, axis=0).min() > -1e-6
        found = efficient_rate(pilot, 0.9, **options)
        assert pilot.least_rate <= found <= max(inference_free_bound(p_max, 0.9), 1e-12) * 1.0001


def test_far_out_rows_have_no_information():
    X = np.array([[-900.0], [-1.0], [0.0], [1.0], [900.0]])
    for link in LINKS:
        pilot = pilot_of(X, np.ones(5), link, [1.0], -0.5)
        got = relative_efficiency(pilot, 0.1, method="cmle", contrasts=np.eye(2))
        assert ((got > 0.05) & (got < 1)).all()


def test_a_link_that_overflows_far_out_has_no_information_there():
    X = np.array([[-1.0], [0.5], [1.0], [900.0]])
    pieces = LINKS["cloglog"].pieces(X[:, 0] - 1)
    far = pieces._replace(hp=pieces.hp * [1, 1, 1, 0], hq=np.append(pieces.hq[:3], np.inf))
    share = np.full(4, 0.25)
    pilot = Pilot(Design(X, intercept=True), share, far, 0.3, 1e6)
    near = Pilot(
        Design(X[:3], intercept=True), share[:3], type(far)(*(v[:3] for v in far)), 0.3, 1e6
    )
    for method, keep in (("cmle", None), ("cmle", (0.0, np.log(0.1))), ("iw", None)):
        one, other = (
            relative_efficiency(at, 0.1, method=method, contrasts=np.eye(2), log_keep=keep)
            for at in (pilot, near)
        )
        np.testing.assert_allclose(one, other, rtol=1e-9)


# ------------------------------------------------------------- the bound without a matrix


def test_the_bound_is_exact_where_all_rows_are_alike():
    # without effects S is a constant, and a slope keeps exactly a/S
    X = np.array([[-1.0], [1.0]])
    pilot = pilot_of(X, np.ones(2), "probit", [0.0], -2.0)
    p = float(np.exp(pilot.pieces.log_p[0]))
    for method in ("cmle", "iw"):
        found = efficient_rate(pilot, 0.95, method=method, contrasts=np.array([[0.0, 1.0]]))
        assert found == pytest.approx(inference_free_bound(p, 0.95), rel=5e-6)


def test_the_bound_holds_for_every_contrast():
    rng = np.random.default_rng(7)
    for _ in range(60):
        pilot, _, _, _ = small_population(rng)
        contrasts = rng.normal(size=(4, 3))
        bound = inference_free_bound(float(np.exp(pilot.pieces.log_p.max())), 0.9)
        for method in ("cmle", "iw", "profile"):
            got = relative_efficiency(pilot, bound, method=method, contrasts=contrasts)
            assert got.min() >= 0.9 - 1e-9


def test_the_bound_for_weak_effects_is_nineteen_negatives_per_positive():
    assert inference_free_bound(1e-6, 0.95) / 1e-6 == pytest.approx(19.0, rel=1e-4)
    assert inference_free_bound(1.0, 0.95) == pytest.approx(0.95)
    assert inference_free_bound(0.3, 1.0) == 1.0
    assert 0 < inference_free_bound(0.0, 0.95) < 1e-300


# ------------------------------------------------------------- costs


@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
@pytest.mark.parametrize(("read_cost", "fit_cost"), [(0.0, 1.0), (0.1, 1.0), (5.0, 2.0)])
@pytest.mark.parametrize(("link", "prevalence"), [("logit", 0.01), ("probit", 0.001)])
def test_the_cost_rule_agrees_with_brute_force(method, read_cost, fit_cost, link, prevalence):
    pilot = population(link, prevalence, nodes=8)
    found = cost_rate(
        pilot, method=method, contrasts=SLOPES, read_cost=read_cost, fit_cost=fit_cost
    )

    def costs(rates):
        kept = curve(pilot, rates, method=method, contrasts=SLOPES).efficiency.min(axis=1)
        return (read_cost + fit_cost * (prevalence + (1 - prevalence) * rates)) / kept

    least = costs(np.array([found]))[0]
    assert least <= costs(np.geomspace(1e-6, 1, 200)).min() * (1 + 1e-9)
    near = found * np.array([0.99, 1.01])
    assert costs(near[near <= 1]).min() > least
    rates = np.array([found, 0.5, 1.0])
    drawn = curve(
        pilot,
        rates,
        method=method,
        contrasts=SLOPES,
        read_cost=read_cost,
        fit_cost=fit_cost,
    )
    np.testing.assert_allclose(drawn.cost, costs(rates) / costs(rates)[2], rtol=1e-12)


def test_the_cost_rule_of_iw_has_a_closed_form():
    pilot = population("logit", 0.01)
    one = SLOPES[:1]
    # variance v1 + (1/a - 1) v2 at two rates
    kept = relative_efficiency(pilot, 0.5, method="iw", contrasts=one)[0]
    v1, v2 = 1.0, 1 / kept - 1
    expected = np.sqrt(v2 * (0.02 + 0.01) / ((v1 - v2) * 0.99))
    found = cost_rate(pilot, method="iw", contrasts=one, read_cost=0.02, fit_cost=1.0)
    assert found == pytest.approx(expected, rel=1e-5)


# Costs times the sum of the slopes' variances; read_cost 0, or a tenth of fit_cost.
@pytest.mark.parametrize(
    ("prevalence", "kappa", "efficiency"), [(0.001, 12, 0.89), (0.01, 3.7, 0.74), (0.05, 1.9, 0.63)]
)
def test_cost_figures_of_the_mild_design(prevalence, kappa, efficiency):
    pilot = population("logit", prevalence, nodes=8)
    rates = np.geomspace(prevalence / 3, 30 * prevalence, 300)
    rates = rates[rates < 1]
    ratio = np.array(
        [
            mean_ratio(pilot, e)
            for e in curve(pilot, rates, method="cmle", contrasts=SLOPES).efficiency
        ]
    )
    kept = prevalence + (1 - prevalence) * rates
    best = np.argmin(ratio * (0.1 + kept))
    assert rates[best] / prevalence == pytest.approx(kappa, rel=0.03)
    assert 1 / ratio[best] == pytest.approx(efficiency, abs=0.006)
    free = np.argmin(ratio * kept)
    assert 0.85 <= rates[free] / prevalence <= 1.23
    assert 0.04 <= 1 / ratio[free] <= 0.48


def test_reading_alone_costs_all_rows():
    pilot = population("logit", 0.01)
    for method in ("cmle", "iw"):
        found = cost_rate(pilot, method=method, contrasts=SLOPES, read_cost=1.0, fit_cost=0.0)
        assert found == pytest.approx(1.0, abs=1e-6)


def test_the_curve_has_what_the_single_rates_have():
    pilot = population("cloglog", 0.01)
    rates = np.array([0.3, 0.01, 1.0])
    found = curve(pilot, rates, method="cmle", contrasts=SLOPES)
    assert found.rates.tolist() == rates.tolist()
    for rate, kept, inflation in zip(rates, found.efficiency, found.se_inflation, strict=True):
        expected = relative_efficiency(pilot, rate, method="cmle", contrasts=SLOPES)
        np.testing.assert_allclose(kept, expected, rtol=1e-13)
        np.testing.assert_allclose(inflation, expected**-0.5, rtol=1e-13)


# ------------------------------------------------------------- the matrix of a-optimal designs


def test_the_a_optimal_matrix_is_contrasts_times_the_inverse_information():
    pilot = population("probit", 0.01)
    inverse = np.linalg.inv(pilot.design.gram(pilot.information))
    contrasts = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, -1.0]])
    expected = contrasts @ inverse
    expected /= np.sqrt(np.einsum("ij,ij->i", expected, contrasts))[:, None]
    np.testing.assert_allclose(a_optimal_matrix(pilot, contrasts), expected, rtol=1e-9, atol=1e-9)
    # a slope does not notice where its feature has its zero
    shift = np.array([0.0, 1e6, -1e5])
    moved = Pilot(
        Design(pilot.design.X + shift, intercept=True), pilot.share, pilot.pieces, 0.01, 1e8
    )
    got = a_optimal_matrix(moved, contrasts)
    np.testing.assert_allclose(got[:, 1:], expected[:, 1:], rtol=1e-6, atol=1e-6)
    through = expected[:, 0] - expected[:, 1:] @ shift
    np.testing.assert_allclose(got[:, 0], through, rtol=1e-9)


# ------------------------------------------------------------- errors


def test_errors_say_what_came_and_what_is_allowed():
    pilot = population("logit", 0.01, nodes=3)
    one = {"method": "cmle", "contrasts": SLOPES}
    for rate in (0.0, -1.0, 1.5, np.nan):
        with pytest.raises(ValueError, match=f"rate is {rate}; give a number above 0 and up to 1"):
            relative_efficiency(pilot, rate, **one)
        with pytest.raises(ValueError, match=f"efficiency is {rate}; give a number above 0"):
            efficient_rate(pilot, rate, **one)
        with pytest.raises(ValueError, match=f"efficiency is {rate}; give a number above 0"):
            inference_free_bound(0.1, rate)
        with pytest.raises(ValueError, match=f"rate is {rate}; give a number above 0 and up to 1"):
            curve(pilot, np.array([0.5, rate]), **one)
    with pytest.raises(ValueError, match=r"p_max is 1\.2; give a probability"):
        inference_free_bound(1.2, 0.5)
    for costs in ((-1.0, 1.0), (0.0, 0.0), (np.nan, 1.0), (1.0, np.inf)):
        with pytest.raises(ValueError, match="give finite costs of at least 0"):
            cost_rate(pilot, read_cost=costs[0], fit_cost=costs[1], **one)
    with pytest.raises(ValueError, match="method is 'mle'; give one of 'cmle', 'iw', 'profile'"):
        efficient_rate(pilot, 0.9, method="mle", contrasts=SLOPES)
    with pytest.raises(ValueError, match=r"shape \(3, 3\); give one or more rows of 4 numbers"):
        relative_efficiency(pilot, 0.1, method="cmle", contrasts=np.eye(3))
    with pytest.raises(ValueError, match="row 1 of contrasts is zero or not finite"):
        relative_efficiency(
            pilot, 0.1, method="cmle", contrasts=np.array([[0, 1.0, 0, 0], [0, 0, 0, 0]])
        )
    with pytest.raises(
        ValueError, match=r"method='profile' has no variance .* write method='cmle'"
    ):
        relative_efficiency(
            pilot, 0.1, method="profile", contrasts=SLOPES, log_keep=(0.0, np.log(0.1))
        )
