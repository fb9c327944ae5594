"""The five likelihoods: value, slope and curvature, and what they aim at in the population."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from oracles import (
    distribution,
    fitted_coefficients,
    likelihood_of_masses,
    minus_log_likelihood,
    solved_rate,
)
from scipy import optimize

from imbfit.glm.built_in_links import LINKS
from imbfit.glm.likelihoods import METHODS, Conditional, Full, Profile, Pseudo, Rows, _root
from imbfit.glm.links import Link

UNIFORM_ONLY = {"pseudo_mle", "profile"}
DESIGNS = ("uniform", "both_classes", "designed")
EVERYTHING = [
    pytest.param(method, link, weighted, design, id=f"{method}-{link}-{weighted}-{design}")
    for method, link, weighted, design in itertools.product(
        METHODS, LINKS, ("plain", "weighted"), DESIGNS
    )
    if not (design == "designed" and method in UNIFORM_ONLY)
    and not (design == "both_classes" and method == "profile")
]


class Case:
    """A few rows with all that a likelihood and its oracle want to know."""

    def __init__(self, method, link, weighted, design, *, n=5, seed=0, level=-1.5, width=1.5):
        rng = np.random.default_rng([seed, n])
        self.method, self.link = method, link
        self.eta = level + width * rng.uniform(-1, 1, n)
        self.positive = np.arange(n) % 2 == 0
        self.weight = rng.uniform(0.2, 3.0, n) if weighted == "weighted" else None
        self.dropped = 17.5 if method == "profile" else 0
        if design == "uniform":
            self.pi1, self.pi0 = 1.0, 0.07
        elif design == "both_classes":
            self.pi1, self.pi0 = 0.6, 0.07
        else:
            self.pi1, self.pi0 = rng.uniform(0.3, 1.0, n), rng.uniform(0.01, 0.9, n)
        self.rows = Rows.designed(self.positive, self.weight, np.log(self.pi1), np.log(self.pi0))
        self.likelihood = METHODS[method](self.rows, LINKS[link], n_dropped=self.dropped)
        self.state = self.likelihood.state(self.eta)
        self.mass = np.ones(n) if self.weight is None else self.weight

    def oracle(self, eta):
        return minus_log_likelihood(
            self.method,
            self.link,
            eta,
            self.positive,
            weight=self.weight,
            pi1=self.pi1,
            pi0=self.pi0,
            dropped=self.dropped,
        )

    def moved(self, *steps):
        eta = [mpmath.mpf(float(e)) for e in self.eta]
        for i, step in steps:
            eta[i] += step
        return eta

    def oracle_slope(self):
        h = mpmath.mpf(10) ** -12
        return [
            float((self.oracle(self.moved((i, h))) - self.oracle(self.moved((i, -h)))) / (2 * h))
            for i in range(len(self.eta))
        ]

    def oracle_curvature(self):
        h = mpmath.mpf(10) ** -9
        n = len(self.eta)
        out = np.empty((n, n))
        for i in range(n):
            for j in range(i + 1):
                four = (
                    a * b * self.oracle(self.moved((i, a * h), (j, b * h)))
                    for a in (1, -1)
                    for b in (1, -1)
                )
                out[i, j] = out[j, i] = float(sum(four) / (4 * h * h))
        return out

    def expected_diagonal(self):
        """Average over both labels of a row the bend of its own term, and leave all else as is."""
        h = mpmath.mpf(10) ** -9
        pi1, pi0 = (np.broadcast_to(pi, self.eta.shape) for pi in (self.pi1, self.pi0))
        weight, law = self.mass, "cmle"
        if self.method == "profile":
            F = [distribution(self.link, -mpmath.mpf(float(e))) for e in self.eta]
            pi0 = np.full(len(F), solved_rate(F, [mpmath.mpf(v) for v in self.mass], self.dropped))
        elif self.method in {"naive", "iw"}:
            if self.method == "iw":
                weight = weight / np.where(self.positive, pi1, pi0)
            pi1 = pi0 = np.ones(len(self.eta))
            law = "naive"

        def term(i, label, step=0):
            eta = [mpmath.mpf(float(self.eta[i])) + step]
            return minus_log_likelihood(law, self.link, eta, [label], pi1=pi1[i], pi0=pi0[i])

        out = []
        for i in range(len(self.eta)):
            bends = {
                label: (term(i, label, h) - 2 * term(i, label) + term(i, label, -h)) / h**2
                for label in (True, False)
            }
            out.append(sum(mpmath.exp(-term(i, label)) * bends[label] for label in bends))
        return np.array([float(v) for v in out]) * weight


def dense(curvature):
    """Write a curvature out as a matrix."""
    return np.diag(curvature.diagonal) + sum(
        factor * np.outer(vector, vector) for vector, factor in curvature.rank_one
    )


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(50):
        yield


@pytest.mark.parametrize(("method", "link", "weighted", "design"), EVERYTHING)
def test_value_and_slope_are_those_of_the_papers_formulas(method, link, weighted, design):
    for level in (-3.0, 0.5):  # of profile, a positive and a negative rate
        case = Case(method, link, weighted, design, level=level)
        value, slope = case.likelihood.value(case.state), case.likelihood.slope(case.state)
        assert value == pytest.approx(float(case.oracle(case.eta)), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(slope, case.oracle_slope(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("method", "link", "weighted", "design"), EVERYTHING)
def test_curvature_is_the_expected_or_the_observed_one(method, link, weighted, design):
    case = Case(method, link, weighted, design, n=4, level=-2.0)
    curvature = case.likelihood.curvature(case.state, safe=False)
    safe = case.likelihood.curvature(case.state, safe=True)
    exact = case.oracle_curvature()
    tolerance = {"rtol": 1e-9, "atol": 1e-11}
    if method == "pseudo_mle":
        np.testing.assert_allclose(dense(curvature), exact, **tolerance)
        conditional = Conditional(case.rows, LINKS[link])
        expected = conditional.curvature(conditional.state(case.eta), safe=True)
        np.testing.assert_array_equal(safe.diagonal, expected.diagonal)
        assert safe.rank_one == ()
        return
    np.testing.assert_allclose(curvature.diagonal, case.expected_diagonal(), **tolerance)
    np.testing.assert_array_equal(dense(safe), dense(curvature))
    apart = ~np.eye(len(case.eta), dtype=bool)
    np.testing.assert_allclose(dense(curvature)[apart], exact[apart], **tolerance)
    if link == "logit":  # what is observed is what is expected
        np.testing.assert_allclose(dense(curvature), exact, **tolerance)


@pytest.mark.parametrize("link", LINKS)
def test_profile_curvature_with_a_negative_rate(link):
    case = Case("profile", link, "weighted", "uniform", n=4, level=2.0, width=1.0)
    assert case.state.rate < 0
    exact = case.oracle_curvature()
    apart = ~np.eye(len(case.eta), dtype=bool)
    for safe in (False, True):
        curvature = case.likelihood.curvature(case.state, safe=safe)
        np.testing.assert_allclose(dense(curvature)[apart], exact[apart], rtol=1e-9, atol=1e-11)
        if not safe and link == "logit":
            np.testing.assert_allclose(dense(curvature), exact, rtol=1e-9, atol=1e-11)
    assert curvature.diagonal.min() > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("link", LINKS)
def test_safe_curvature_is_positive_semidefinite(method, link):
    rng = np.random.default_rng(1)
    for spread in (0.1, 1, 5, 30, 300):
        for level in (-1.5, 0.0, 1.5):
            n = 8
            eta = spread * (level + rng.normal(size=n))
            rows = Rows.uniform(rng.random(n) < 0.5, rng.uniform(0, 2, n), rng.uniform(0.01, 1))
            likelihood = METHODS[method](rows, LINKS[link], n_dropped=rng.uniform(0, 50))
            curvature = likelihood.curvature(likelihood.state(eta), safe=True)
            assert np.all(curvature.diagonal >= 0)
            for vector, factor in curvature.rank_one:
                assert np.isfinite(vector).all()
                assert factor > 0


def test_pseudo_curvature_is_indefinite_where_a_row_stands_out_unless_safe():
    rows = Rows.uniform([False] * 5 + [True], None, 0.05)
    likelihood = Pseudo(rows, LINKS["logit"])
    state = likelihood.state([-6.0, -6.0, -6.0, -6.0, -6.0, 1.5])
    assert np.linalg.eigvalsh(dense(likelihood.curvature(state, safe=False)))[0] < -0.1
    assert likelihood.curvature(state, safe=True).diagonal.min() > 0


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("weighted", [False, True])
def test_at_rate_one_all_methods_are_the_full_likelihood(link, weighted):
    rng = np.random.default_rng(2)
    eta = rng.uniform(-4, 3, 30)
    weight = rng.uniform(0, 2, 30) if weighted else None
    rows = Rows.uniform(rng.random(30) < 0.3, weight, 1.0)
    full = Full(rows, LINKS[link])
    state = full.state(eta)
    for cls in METHODS.values():
        other = cls(rows, LINKS[link], n_dropped=0)
        theirs = other.state(eta)
        assert other.value(theirs) == pytest.approx(full.value(state), rel=1e-13)
        np.testing.assert_allclose(other.slope(theirs), full.slope(state), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(
            dense(other.curvature(theirs, safe=True)),
            dense(full.curvature(state, safe=True)),
            rtol=1e-12,
        )


def test_profile_of_none_dropped_is_that_of_rate_one():
    rows = Rows.uniform([True, False, False], None, 1.0)
    likelihood = Profile(rows, LINKS["probit"], n_dropped=0)
    state = likelihood.state([-1.0, 0.5, 7.0])
    assert state.rate == 1
    assert (state.keep == 1).all()
    assert (state.lift == 0).all()
    assert likelihood.b(state) == math.inf
    assert likelihood.curvature(state, safe=False).rank_one == ()


@pytest.mark.parametrize("method", METHODS)
def test_asking_changes_no_answer(method):
    """Neither for the state nor for another likelihood of the rows."""
    eta = np.array([-3.0, -1.0, 0.0, 1.0])
    rows = Rows.uniform([True, False, True, False], [1.0, 2.0, 0.5, 3.0], 0.1)

    def ask(likelihood, state):
        pairs = [likelihood.curvature(state, safe=safe) for safe in (True, False)]
        slope = likelihood.slope(state)
        parts = [state.u, state.keep, state.kept_p, state.miss, state.spread, state.density]
        inverse = likelihood.rows.inverse
        return [v.copy() for v in (slope, inverse, *map(dense, pairs), *parts, *state.pieces)] + [
            likelihood.value(state)
        ]

    likelihood = METHODS[method](rows, LINKS["cloglog"], n_dropped=9)
    state = likelihood.state(eta)
    first, second = ask(likelihood, state), ask(likelihood, state)
    again = METHODS[method](rows, LINKS["cloglog"], n_dropped=9)
    for one, two, three in zip(first, second, ask(again, again.state(eta)), strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(rows.inverse, [1, 10, 1, 10])
    assert eta.tolist() == [-3.0, -1.0, 0.0, 1.0]


@pytest.mark.parametrize("design", DESIGNS)
def test_logistic_conditional_is_full_at_a_shifted_predictor(design):
    case = Case("cmle", "logit", "weighted", design, n=9)
    full = Full(case.rows, LINKS["logit"])
    shifted = full.state(case.eta + np.log(case.pi1) - np.log(case.pi0))
    assert case.likelihood.value(case.state) == pytest.approx(full.value(shifted), rel=1e-14)
    np.testing.assert_allclose(
        case.likelihood.slope(case.state), full.slope(shifted), rtol=1e-13, atol=1e-16
    )
    np.testing.assert_allclose(
        case.likelihood.curvature(case.state, safe=False).diagonal,
        full.curvature(shifted, safe=False).diagonal,
        rtol=1e-13,
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("link", LINKS)
def test_a_weight_of_two_is_two_rows_and_one_of_zero_is_none(method, link):
    rng = np.random.default_rng(3)
    eta, positive = rng.uniform(-3, 1, 12), np.arange(12) % 3 == 0
    weight = np.arange(12) % 4 // 2 * 1.0 + (np.arange(12) > 3)  # 0, 1 and 2
    assert set(weight) == {0, 1, 2}
    again = np.repeat(np.arange(12), weight.astype(int))
    weighted = METHODS[method](Rows.uniform(positive, weight, 0.2), LINKS[link], n_dropped=20)
    repeated = METHODS[method](Rows.uniform(positive[again], None, 0.2), LINKS[link], n_dropped=20)
    one, two = weighted.state(eta), repeated.state(eta[again])
    assert weighted.value(one) == pytest.approx(repeated.value(two), rel=1e-13)
    indicator = np.eye(12)[again]
    np.testing.assert_allclose(weighted.slope(one), repeated.slope(two) @ indicator, atol=1e-13)
    for safe in (True, False):
        np.testing.assert_allclose(
            dense(weighted.curvature(one, safe=safe)),
            indicator.T @ dense(repeated.curvature(two, safe=safe)) @ indicator,
            rtol=1e-10,
            atol=1e-12,
        )


# What they aim at: a population of few distinct rows, and the sample that is expected of it.


class Population:
    """Distinct rows with their share of the population, and the kept ones with their mass."""

    def __init__(self, X, share, truth, link, *, pi1=1.0, pi0=0.05):
        Z = np.column_stack([np.ones(len(X)), X])
        self.share, self.link = share, LINKS[link]
        eta = Z @ truth
        pieces = self.link.pieces(eta)
        self.p, self.q = np.exp(pieces.log_p), np.exp(pieces.log_q)
        self.f, self.z = pieces.hp * self.p, Z
        self.pi1, self.pi0 = (np.broadcast_to(pi, eta.shape) for pi in (pi1, pi0))
        self.S = self.pi1 * self.p + self.pi0 * self.q
        self.truth = np.asarray(truth)
        # the positives, then the negatives
        self.Z = np.vstack([Z, Z])
        positive = np.repeat([True, False], len(X))
        mass = np.concatenate([share * self.p * self.pi1, share * self.q * self.pi0])
        logs = [np.log(np.tile(pi, 2)) if np.ndim(pi) else math.log(pi) for pi in (pi1, pi0)]
        self.rows = Rows.designed(positive, mass, *logs)
        self.dropped = float(share @ (self.q * (1 - self.pi0)))

    def mean(self, g):
        return self.share @ g

    def at_truth(self, method):
        likelihood = METHODS[method](self.rows, self.link, n_dropped=self.dropped)
        return likelihood, likelihood.state(self.Z @ self.truth)

    def maximum(self, method, *, free=True):
        """Minimise the mean, with or without a free intercept, by Newton steps."""
        likelihood = METHODS[method](self.rows, self.link, n_dropped=self.dropped)
        columns = self.Z if free else self.Z[:, 1:]
        fixed = 0.0 if free else self.truth[0]

        def slope(w):
            return columns.T @ likelihood.slope(likelihood.state(columns @ w + fixed))

        def bend(w):
            state = likelihood.state(columns @ w + fixed)
            return columns.T @ dense(likelihood.curvature(state, safe=False)) @ columns

        start = self.truth if free else self.truth[1:]
        found = optimize.root(slope, start, jac=bend, tol=1e-13)
        assert np.abs(found.fun).max() < 1e-13
        return found.x


def small_population(link, pi0=0.05, pi1=1.0):
    X = np.array([[-1.0, 0.3], [-0.4, -1.2], [0.1, 0.8], [0.7, -0.5], [1.5, 1.1], [2.0, -0.9]])
    share = np.array([0.1, 0.3, 0.2, 0.15, 0.2, 0.05])
    return Population(X, share, [-2.0, 0.7, -0.4], link, pi1=pi1, pi0=pi0)


@pytest.mark.parametrize("link", LINKS)
def test_the_truth_is_where_iw_cmle_and_profile_have_no_slope(link):
    population = small_population(link)
    for method in ("iw", "cmle", "profile"):
        likelihood, state = population.at_truth(method)
        assert np.abs(population.Z.T @ likelihood.slope(state)).max() < 1e-15
        if method == "profile":
            assert state.rate == pytest.approx(0.05, rel=1e-13)
    likelihood, state = population.at_truth("naive")
    assert np.abs(population.Z.T @ likelihood.slope(state)).max() > 0.05


@pytest.mark.parametrize("link", LINKS)
def test_the_truth_is_where_iw_and_cmle_have_no_slope_whatever_the_design(link):
    pi0 = np.array([0.02, 0.1, 0.5, 0.05, 0.9, 1.0])
    pi1 = np.array([1.0, 0.5, 0.9, 0.8, 1.0, 0.3])
    population = small_population(link, pi0, pi1)
    for method in ("iw", "cmle"):
        likelihood, state = population.at_truth(method)
        assert np.abs(population.Z.T @ likelihood.slope(state)).max() < 1e-15


@pytest.mark.parametrize("link", LINKS)
def test_pseudo_has_the_slope_at_the_truth_that_theory_says(link):
    population = small_population(link)
    likelihood, state = population.at_truth("pseudo_mle")
    slope = population.Z.T @ likelihood.slope(state) / population.rows.total
    S, fz = population.S, population.f[:, None] * population.z
    mean = population.mean
    told = (1 - 0.05) * (mean(fz * S[:, None]) / mean(S**2) - mean(fz) / mean(S))
    np.testing.assert_allclose(slope, told, rtol=1e-12)
    assert np.abs(told).max() > 0.01


@pytest.mark.parametrize("link", LINKS)
def test_information_of_a_row_of_the_population(link):
    """What is expected of the curvature: f^2 / (p q), of which cmle keeps a / S."""
    population = small_population(link)
    p, q, f, S, z = (getattr(population, name) for name in ("p", "q", "f", "S", "z"))

    def moment(g):
        return (z * (g * population.share)[:, None]).T @ z

    def information(method):
        likelihood, state = population.at_truth(method)
        return population.Z.T @ dense(likelihood.curvature(state, safe=False)) @ population.Z

    full = moment(f**2 / (p * q))
    kept = moment(0.05 / S * f**2 / (p * q))
    c = (population.share * f / S) @ z
    b = population.mean(q**2 / S) + population.mean(q) / (1 - 0.05)
    np.testing.assert_allclose(information("iw"), full, rtol=1e-12)
    np.testing.assert_allclose(information("cmle"), kept, rtol=1e-12)
    np.testing.assert_allclose(information("profile"), kept + np.outer(c, c) / b, rtol=1e-12)
    likelihood, state = population.at_truth("profile")
    assert likelihood.b(state) == pytest.approx(b, rel=1e-12)
    thrice = Rows.uniform(population.rows.positive, 3 * population.rows.weight, 0.05)
    likelihood = Profile(thrice, LINKS[link], n_dropped=3 * population.dropped)
    assert likelihood.b(likelihood.state(state.eta)) == pytest.approx(b, rel=1e-12)
    likelihood, state = population.at_truth("cmle")
    np.testing.assert_allclose(state.keep, np.tile(S, 2), rtol=1e-14)
    np.testing.assert_allclose(state.log_keep, np.log(np.tile(S, 2)), rtol=1e-14)
    np.testing.assert_allclose(state.kept_p, np.tile(p / S, 2), rtol=1e-13)
    np.testing.assert_allclose(state.density, np.tile(f, 2), rtol=1e-13)


NODES, HALF = np.polynomial.legendre.leggauss(8)
CUBE = np.array(list(itertools.product(NODES, repeat=3)))
CUBE_SHARE = np.array([math.prod(w) for w in itertools.product(HALF / 2, repeat=3)])
SLOPES = np.array([1.0, -1.0, 0.5])


def cube_intercept(link, prevalence):
    def excess(intercept):
        return float(np.exp(LINKS[link].log_p(intercept + CUBE @ SLOPES)) @ CUBE_SHARE - prevalence)

    return optimize.brentq(excess, -20.0, 0.0, xtol=1e-14)


# First slope, and the intercept where it is free, of which the true ones are 1, -7.270 and -3.989.
PSEUDO_TRUE = {
    ("logit", False): {1: [0.511], 5: [0.806], 10: [0.889], 50: [0.976], 200: [0.996]},
    ("logit", True): {
        1: [-7.154, 0.466],
        5: [-7.236, 0.788],
        10: [-7.251, 0.878],
        50: [-7.266, 0.974],
        200: [-7.269, 0.995],
    },
    ("probit", False): {1: [0.631], 5: [0.790], 10: [0.856], 50: [0.960], 200: [0.992]},
    ("probit", True): {
        1: [-3.500, 0.351],
        5: [-3.658, 0.586],
        10: [-3.733, 0.696],
        50: [-3.897, 0.900],
        200: [-3.969, 0.979],
    },
}


@pytest.mark.parametrize(
    ("link", "free", "per_positive", "told"),
    [(*of, k, told) for of, table in PSEUDO_TRUE.items() for k, told in table.items()],
)
def test_what_pseudo_aims_at_instead_of_the_truth(link, free, per_positive, told):
    """Rates of so many times a prevalence of 0.1 %, and three uniform columns."""
    intercept = cube_intercept(link, 0.001)
    rate = 0.001 * per_positive
    truth = np.concatenate([[intercept], SLOPES])
    population = Population(CUBE, CUBE_SHARE, truth, link, pi0=rate)
    found = population.maximum("pseudo_mle", free=free)
    np.testing.assert_allclose(found[: len(told)], told, atol=6e-4)

    # the same from equation (7) written down for a population, without slopes
    S, p, q = population.S, population.p, population.q

    def criterion(w):
        eta = CUBE @ w[-3:] + (w[0] if free else intercept)
        at = LINKS[link].pieces(eta)
        keep = 1 - (1 - rate) * np.exp(at.log_q)
        labels = CUBE_SHARE @ (p * at.log_p + rate * q * at.log_q) / (CUBE_SHARE @ S)
        return np.log(CUBE_SHARE @ (S * keep) / (CUBE_SHARE @ S)) - labels

    start = truth if free else SLOPES
    least = optimize.minimize(
        criterion, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-17}
    )
    np.testing.assert_allclose(found, least.x, atol=2e-4)


# The rate that profile solves for.


@pytest.mark.parametrize("link", LINKS)
def test_solved_rate_gives_the_masses_a_sum_of_one(link):
    rng = np.random.default_rng(4)
    negative_rates = 0
    for _ in range(100):
        n = int(rng.integers(1, 40))
        eta = rng.uniform(-8, 4) + rng.uniform(0, 4) * rng.normal(size=n)
        weight = rng.uniform(0.1, 3, n) if rng.random() < 0.5 else None
        dropped = 10 ** rng.uniform(-3, 5)
        rows = Rows.uniform(rng.random(n) < 0.5, weight, 0.1)
        state = Profile(rows, LINKS[link], n_dropped=dropped).state(eta)
        mass = np.ones(n) if weight is None else weight
        assert state.keep.min() > 0
        assert (mass / state.keep).sum() == pytest.approx(mass.sum() + dropped, rel=1e-12)
        p, q = np.exp(state.pieces.log_p), np.exp(state.pieces.log_q)
        np.testing.assert_allclose(state.negative_part, state.rate * q, rtol=1e-9, atol=1e-300)
        np.testing.assert_allclose(state.keep, p + state.negative_part, rtol=1e-8)
        np.testing.assert_allclose(state.lift, (1 - state.rate) * q / state.keep, rtol=1e-9)
        assert state.log_dropped == pytest.approx(math.log1p(-state.rate), rel=1e-9)
        negative_rates += state.rate < 0
    assert 5 < negative_rates < 95


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("level", [-3.0, 1.5])
def test_profile_is_the_likelihood_at_the_likeliest_masses(link, level):
    case = Case("profile", link, "weighted", "uniform", level=level, width=1.0)
    n, kept, dropped = case.mass.sum() + case.dropped, case.mass.sum(), case.dropped
    masses = likelihood_of_masses(
        link, case.eta, case.positive, weight=case.mass.tolist(), dropped=dropped
    )
    constant = kept * math.log(n) - dropped * math.log(dropped / n)
    constant -= case.mass @ np.log(case.mass)
    assert case.likelihood.value(case.state) == pytest.approx(masses - constant, abs=1e-8)
    assert (case.state.rate < 0) == (level > 0)


@pytest.mark.parametrize("dropped", [1e-300, 1e-12, 1e-3, 1.0, 1e6, 1e15])
def test_profile_with_hardly_any_or_nearly_all_dropped(dropped):
    eta = np.array([-9.0, -5.0, -2.0, -60.0])
    rows = Rows.uniform([False, True, False, True], None, 0.5)
    likelihood = Profile(rows, LINKS["logit"], n_dropped=dropped)
    state = likelihood.state(eta)
    assert 0 < state.rate < 1
    assert (1 / state.keep).sum() == pytest.approx(4 + dropped, rel=1e-13)
    assert math.isfinite(likelihood.value(state))
    assert np.isfinite(dense(likelihood.curvature(state, safe=True))).all()
    assert likelihood.b(state) > 0


@pytest.mark.parametrize("positive", [True, False])
def test_profile_with_one_class(positive):
    eta = np.array([-3.0, -1.0, -2.0])
    rows = Rows.uniform([positive] * 3, None, 0.5)
    state = Profile(rows, LINKS["probit"], n_dropped=5).state(eta)
    assert (1 / state.keep).sum() == pytest.approx(8, rel=1e-13)


def test_rows_of_weight_zero_do_not_matter_to_profile():
    eta = np.array([2.0, 3.0, 2.5, -40.0, -800.0])
    rows = Rows.uniform([True, False, True, True, False], [1.0, 1.0, 1.0, 0.0, 0.0], 0.5)
    likelihood = Profile(rows, LINKS["logit"], n_dropped=5)
    state = likelihood.state(eta)
    few = Profile(Rows.uniform([True, False, True], None, 0.5), LINKS["logit"], n_dropped=5)
    assert state.rate == pytest.approx(few.state(eta[:3]).rate, rel=1e-13)
    assert state.rate < 0
    assert likelihood.value(state) == pytest.approx(few.value(few.state(eta[:3])), rel=1e-13)
    slope = likelihood.slope(state)
    np.testing.assert_allclose(slope, [*few.slope(few.state(eta[:3])), 0, 0], rtol=1e-12)
    for safe in (True, False):
        full, part = (
            dense(k.curvature(s, safe=safe))
            for k, s in ((likelihood, state), (few, few.state(eta[:3])))
        )
        np.testing.assert_allclose(full[:3, :3], part, rtol=1e-12)
        assert not full[3:].any()


class Counted(np.ndarray):
    """Counts how often it is multiplied with a number from the left, which is once a step."""

    def __rmul__(self, other):
        self.calls.append(other)
        return np.asarray(self) * other


def test_the_root_is_found_in_few_steps_whatever_the_start():
    rng = np.random.default_rng(5)
    for _ in range(50):
        p = 10 ** rng.uniform(-12, 0, 200)
        weight = rng.uniform(0, 1, 200)
        x = 10 ** rng.uniform(-10, -0.01)
        total = float((weight / (p + x * (1 - p))).sum())
        for start in (1e-9, x, 0.999):
            q = (1 - p).view(Counted)
            q.calls = []
            assert _root(p, q, weight, total, start=start) == pytest.approx(x, rel=1e-9)
            assert 1 <= len(q.calls) <= 16


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_profile_and_cmle_of_the_realised_rate_share_the_logistic_optimum(link):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(4000, 2))
    p = np.exp(LINKS[link].log_p(-3 + X @ [0.8, -0.5]))
    positive = rng.random(4000) < p
    keep = positive | (rng.random(4000) < 0.1)
    Z = np.column_stack([np.ones(keep.sum()), X[keep]])
    dropped = 4000 - len(Z)
    kept_negative = (keep & ~positive).sum()
    realised = kept_negative / (kept_negative + dropped)
    cmle = Conditional(Rows.uniform(positive[keep], None, realised), LINKS[link])
    found = optimize.root(lambda w: Z.T @ cmle.slope(cmle.state(Z @ w)), [-3, 0.8, -0.5], tol=1e-13)
    # it does not use the sampling rate that it is told
    profile = Profile(Rows.uniform(positive[keep], None, 0.5), LINKS[link], n_dropped=dropped)
    state = profile.state(Z @ found.x)
    slope = np.abs(Z.T @ profile.slope(state)).max()
    if link == "logit":
        assert slope < 1e-8
        assert state.rate == pytest.approx(realised, rel=1e-11)
    else:
        assert slope > 1e-3
        assert abs(state.rate / realised - 1) > 1e-5


@pytest.mark.parametrize(
    ("method", "link"),
    [*((method, "probit") for method in METHODS), ("cmle", "cloglog")],
)
def test_no_slope_where_the_oracle_finds_the_optimum(method, link):
    rng = np.random.default_rng(7)
    X = rng.normal(size=12)
    positive = np.arange(12) % 3 == 0
    Z = np.column_stack([np.ones(12), X + 0.8 * positive])
    weight = rng.uniform(0.5, 2, 12)
    dropped = 60.0 if method == "profile" else 0
    with mpmath.workdps(30):
        coef = fitted_coefficients(
            method, link, Z.tolist(), positive, weight=weight, pi0=0.2, dropped=dropped
        )
    likelihood = METHODS[method](
        Rows.uniform(positive, weight, 0.2), LINKS[link], n_dropped=dropped
    )
    slope = likelihood.slope(likelihood.state(Z @ coef))
    assert np.abs(Z.T @ slope).max() < 1e-10
    assert np.abs(slope).min() > 1e-4


# Far out.

FAR = [-700.0, -300.0, -37.0, -8.0, 0.0, 8.0, 37.0, 300.0, 700.0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("link", LINKS)
def test_far_out_values_are_no_nan_and_nothing_warns(method, link):
    rng = np.random.default_rng(8)
    etas = [np.full(6, far) for far in FAR]
    etas += [rng.choice(FAR, 6) for _ in range(40)]
    etas += [rng.uniform(-700, 700, 6) for _ in range(40)]
    for eta in etas:
        for weight in (None, [0.0, 1e9, 1.0, 1.0, 0.0, 1e-9]):
            for rate, dropped in ((1.0, 0.0), (1e-9, 1e9), (0.3, 2.0)):
                rows = Rows.uniform([True, False] * 3, weight, rate)
                likelihood = METHODS[method](rows, LINKS[link], n_dropped=dropped)
                state = likelihood.state(eta)
                value = likelihood.value(state)
                assert value > -math.inf
                assert not np.isnan(likelihood.slope(state)).any()
                safe = likelihood.curvature(state, safe=True)
                assert not np.isnan(safe.diagonal).any()
                assert not any(np.isnan(v).any() or math.isnan(f) for v, f in safe.rank_one)
                likelihood.curvature(state, safe=False)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog", "cauchit"])
@pytest.mark.parametrize("method", METHODS)
def test_far_out_values_have_their_digits(method, link):
    far = {"logit": 60, "probit": 12, "cloglog": 4, "loglog": 4, "cauchit": 1e5}[link]
    with mpmath.workdps(120):
        for shift in (-1.0, 1.0):
            for positive in ([True, False, True], [False, True, False]):
                eta = shift * far + np.array([-1.0, 0.0, 1.0])
                dropped = 40 if method == "profile" else 0
                rows = Rows.uniform(positive, None, 1e-6)
                likelihood = METHODS[method](rows, LINKS[link], n_dropped=dropped)
                told = minus_log_likelihood(
                    method, link, eta, positive, pi0=mpmath.mpf(1e-6), dropped=dropped
                )
                value = likelihood.value(likelihood.state(eta))
                assert value == pytest.approx(float(told), rel=1e-11)


def test_far_out_logistic_terms_are_exact():
    rows = Rows.uniform([True, False, True, False], None, 1e-4)
    state = Conditional(rows, LINKS["logit"]).state([-700.0, 700.0, 700.0, -700.0])
    shift = math.log(1e4)
    np.testing.assert_allclose(
        state.loss,
        [700 - shift, 700 + shift, math.exp(-700 - shift), math.exp(-700 + shift)],
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        state.miss, [1.0, 1.0, math.exp(-700 - shift), math.exp(-700 + shift)], rtol=1e-12
    )


class Careless(Link):
    """A link of the user's own, whose hazard overflows."""

    name = "careless"

    def log_p(self, eta):
        with np.errstate(over="ignore"):
            return np.where(
                eta > 3, np.log1p(-np.exp(-np.exp(eta))), np.log(-np.expm1(-np.exp(eta)))
            )

    def log_q(self, eta):
        with np.errstate(over="ignore"):
            return -np.exp(eta)

    def hazard_p(self, eta):
        with np.errstate(over="ignore"):
            return np.where(eta > 6, 0.0, np.exp(eta) / np.expm1(np.minimum(np.exp(eta), 700)))

    def hazard_q(self, eta):
        with np.errstate(over="ignore"):
            return np.exp(eta)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("eta", [[800.0, -1.0], [800.0, 900.0]])
def test_a_link_that_overflows_gives_no_nan(method, eta):
    for positive in ([True, False], [False, True]):
        rows = Rows.uniform(positive, [1.0, 2.0], 0.5)
        likelihood = METHODS[method](rows, Careless(), n_dropped=3)
        state = likelihood.state(np.array(eta))
        value = likelihood.value(state)
        if not positive[0]:
            assert value == math.inf
        assert value > -math.inf
        assert not np.isnan(likelihood.slope(state)).any()
        assert not np.isnan(likelihood.curvature(state, safe=True).diagonal).any()


def test_an_impossible_label_of_weight_zero_does_no_harm():
    rows = Rows.uniform([False, True], [0.0, 1.0], 0.5)
    for method in METHODS:
        likelihood = METHODS[method](rows, Careless(), n_dropped=3)
        assert math.isfinite(likelihood.value(likelihood.state(np.array([800.0, -1.0]))))


# What they refuse.


def test_rows_say_what_is_wrong_with_them():
    for rate in (0.0, -0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match=rf"^rate is {rate}; give a sampling rate above 0"):
            Rows.uniform([True, False], None, rate)
    with pytest.raises(ValueError, match="rate_positive is 0; give"):
        Rows.uniform([True, False], None, 0.5, rate_positive=0)
    with pytest.raises(ValueError, match=r"weight has shape \(1,\), and positive \(2,\)"):
        Rows.uniform([True, False], [1.0], 0.5)
    with pytest.raises(ValueError, match=r"log_pi0 has shape \(3,\), and positive \(2,\)"):
        Rows.designed([True, False], None, 0.0, [-1.0, -1.0, -1.0])
    with pytest.raises(ValueError, match=r"log_pi0 is 0\.5 in row 1; the logarithm"):
        Rows.designed([True, False], None, 0.0, [-1.0, 0.5])
    with pytest.raises(ValueError, match="log_pi1 is nan in row 0; the logarithm"):
        Rows.designed([True, False], None, math.nan, 0.0)
    with pytest.raises(ValueError, match="log_pi0 is -inf in row 1; the logarithm"):
        Rows.designed([True, False], None, 0.0, [-math.inf, -math.inf])


def test_a_positive_whose_like_is_never_kept_as_a_negative_says_nothing():
    rows = Rows.designed([True, False], None, 0.0, [-math.inf, -1.0])
    likelihood = Conditional(rows, LINKS["probit"])
    state = likelihood.state(np.array([-3.0, -1.0]))
    assert state.loss[0] == 0
    assert likelihood.slope(state)[0] == 0
    assert state.kept_p[0] == 1
    assert state.log_keep[0] == pytest.approx(float(LINKS["probit"].log_p(np.array([-3.0]))[0]))


def test_methods_of_one_rate_refuse_rows_with_one_each():
    rows = Rows.designed([True, False], None, 0.0, [-1.0, -2.0])
    for cls, name in ((Pseudo, "pseudo_mle"), (Profile, "profile")):
        with pytest.raises(ValueError, match=rf"method '{name}'.*one sampling rate.*'cmle'"):
            cls(rows, LINKS["logit"], n_dropped=3)
    with pytest.raises(ValueError, match="needs all positives"):
        Profile(Rows.uniform([True, False], None, 0.5, 0.9), LINKS["logit"], n_dropped=3)


@pytest.mark.parametrize("n_dropped", [None, -1.0, math.nan, math.inf])
def test_profile_wants_to_know_how_many_were_dropped(n_dropped):
    rows = Rows.uniform([True, False], None, 0.5)
    with pytest.raises(ValueError, match=rf"n_dropped is {n_dropped}; .* 0 or more"):
        Profile(rows, LINKS["logit"], n_dropped=n_dropped)


def test_profile_refuses_the_state_of_another():
    rows = Rows.uniform([True, False], None, 0.5)
    state = Conditional(rows, LINKS["logit"]).state(np.zeros(2))
    profile = Profile(rows, LINKS["logit"], n_dropped=3)
    for use in (profile.value, profile.b, lambda s: profile.curvature(s, safe=True)):
        with pytest.raises(TypeError, match=r"Profile\.state"):
            use(state)
