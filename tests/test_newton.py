"""Minima: against independent solvers, under changes that must not matter, and on hard data."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit

from imbfit.glm import descent
from imbfit.glm.built_in_links import LINKS
from imbfit.glm.design import Design
from imbfit.glm.fisher import Newton
from imbfit.glm.likelihoods import METHODS, Rows
from imbfit.glm.many import _Bend
from imbfit.glm.newton import minimize
from imbfit.glm.problem import Problem
from imbfit.glm.rank import examine

SOLVERS = ["newton", "lbfgs", "newton-cg"]


def data(n=2000, d=4, seed=0, prevalence=0.05):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    slopes = np.resize([1.0, -1.0, 0.5, 0.0], d)
    positive = rng.random(n) < expit(X @ slopes + np.log(prevalence / (1 - prevalence)))
    return X, positive


def likelihood_of(positive, link="logit", method="naive", weight=None, rate=1.0):
    n_dropped = float(np.sum(~positive)) * (1.0 / rate - 1.0)
    return METHODS[method](Rows.uniform(positive, weight, rate), LINKS[link], n_dropped=n_dropped)


def fit(X, positive, link="logit", method="naive", *, weight=None, rate=1.0, **options):
    intercept = options.pop("intercept", True)
    design = Design(X, intercept=intercept)
    start = np.zeros(design.n_coef)
    if intercept:
        start[0] = LINKS[link].link(float(np.mean(positive)))
    options.setdefault("start", start)
    return minimize(likelihood_of(positive, link, method, weight, rate), design, **options)


def problem_of(X, positive, link="logit", ridge=None, **options):
    design = Design(X, intercept=True)
    zeros = np.zeros(design.n_coef)
    free = np.ones(design.n_coef, dtype=bool)
    likelihood = likelihood_of(positive, link, **options)
    return Problem(likelihood, design, zeros if ridge is None else ridge, 0.0, free)


def refined(likelihood, Z, solution, ridge=0.0, offset=0.0):
    """Minimise the value again, from the solution and another place, by a solver of SciPy."""

    def value(w):
        state = likelihood.state(Z @ w + offset)
        return likelihood.value(state) + 0.5 * float(np.sum(ridge * w**2))

    def slope(w):
        return Z.T @ likelihood.slope(likelihood.state(Z @ w + offset)) + ridge * w

    found = []
    for start in (solution, 0.7 * solution):
        result = scipy_minimize(value, start, jac=slope, method="BFGS", options={"gtol": 1e-9})
        found.append(result.x)
    return found


# ------------------------------------------------------------------------ independent solvers


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("link", LINKS)
def test_the_full_likelihood_is_that_of_statsmodels(link, solver):
    sm = pytest.importorskip("statsmodels.api")
    links = {
        "logit": sm.families.links.Logit,
        "probit": sm.families.links.Probit,
        "cloglog": sm.families.links.CLogLog,
        "loglog": sm.families.links.LogLog,
        "cauchit": sm.families.links.Cauchy,
    }
    X, positive = data(prevalence=0.2)
    rng = np.random.default_rng(1)
    weight, offset = rng.integers(1, 4, len(X)).astype(float), rng.normal(size=len(X)) / 4
    family = sm.families.Binomial(link=links[link]())
    theirs = sm.GLM(positive * 1.0, sm.add_constant(X), family, offset=offset, var_weights=weight)
    right = theirs.fit(tol=1e-12, tol_criterion="params", maxiter=2000)
    ours = fit(X, positive, link, weight=weight, offset=offset, solver=solver)
    assert ours.converged
    np.testing.assert_allclose(ours.coef, right.params, rtol=1e-6, atol=1e-7)
    assert ours.value == pytest.approx(-right.llf, rel=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
@pytest.mark.parametrize("method", ["cmle", "iw", "pseudo_mle", "profile"])
def test_each_likelihood_has_the_minimum_that_scipy_finds(method, link, solver):
    X, positive = data(d=2, prevalence=0.2)
    rng = np.random.default_rng(2)
    kept = positive | (rng.random(len(X)) < 0.2)
    X, positive = X[kept], positive[kept]
    ridge = np.array([0.0, 2.0, 0.5])
    solution = fit(X, positive, link, method, rate=0.2, ridge=ridge, solver=solver)
    assert solution.converged
    assert solution.decrement <= 1e-8
    Z = np.column_stack([np.ones(len(X)), X])
    likelihood = likelihood_of(positive, link, method, rate=0.2)
    for right in refined(likelihood, Z, solution.coef, ridge):
        np.testing.assert_allclose(solution.coef, right, rtol=2e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_ridge_is_that_of_scikit_learn(solver):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, positive = data()
    theirs = linear_model.LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-13)
    right = theirs.fit(X, positive)
    ridge = np.array([0.0, 2.0, 2.0, 2.0, 2.0])
    solution = fit(X, positive, ridge=ridge, solver=solver)
    np.testing.assert_allclose(solution.coef[1:], right.coef_[0], rtol=1e-8)
    assert solution.coef[0] == pytest.approx(right.intercept_[0], rel=1e-8)
    penalty = 0.5 * float(ridge @ solution.coef**2)
    assert penalty > 0.1
    assert solution.value == pytest.approx(
        -np.sum(np.log(right.predict_proba(X)[np.arange(len(X)), positive.astype(int)])), rel=1e-10
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_solution_belongs_together(solver):
    X, positive = data()
    offset = np.linspace(-1.0, 1.0, len(X))
    solution = fit(X, positive, offset=offset, solver=solver)
    Z = np.column_stack([np.ones(len(X)), X])
    np.testing.assert_allclose(solution.eta, Z @ solution.coef + offset, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(solution.state.eta, solution.eta)
    likelihood = likelihood_of(positive)
    assert solution.value == likelihood.value(solution.state)
    # the gradient, in standard errors
    gradient = Z.T @ likelihood.slope(solution.state)
    bend = Z.T @ (likelihood.curvature(solution.state, safe=True).diagonal[:, None] * Z)
    assert np.sqrt(gradient @ np.linalg.solve(bend, gradient)) <= 1.1e-8
    assert solution.solver == solver


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", [4, 10])
def test_the_distance_is_not_understated_where_columns_are_alike(seed, solver):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(800, 1)) + 10.0 ** rng.uniform(-4, 0, 12) * rng.normal(size=(800, 12))
    positive = rng.random(800) < expit(X[:, 0] - 1)
    solution = fit(X, positive, solver=solver, max_iter=500, tol=1e-6)
    assert solution.converged
    Z = np.column_stack([np.ones(len(X)), X])
    p = expit(solution.eta)
    gradient, bend = Z.T @ (p - positive), Z.T @ ((p * (1 - p))[:, None] * Z)
    distance = np.sqrt(gradient @ np.linalg.solve(bend, gradient))
    assert distance <= 1e-6 * 1.01
    assert solution.decrement == pytest.approx(distance, rel=0.05)


# -------------------------------------------------------------- changes that must not matter


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_units_and_origins_of_columns_do_not_matter(solver, link):
    X, positive = data()
    plain = fit(X, positive, link, "cmle", rate=0.3)
    scale, shift = np.array([1e-6, 1e6, 1e-3, 1e4]), np.array([3.0, -2.0, 0.0, 50.0])
    other = fit(X * scale + scale * shift, positive, link, "cmle", rate=0.3, solver=solver)
    assert other.converged
    np.testing.assert_allclose(other.coef[1:] * scale, plain.coef[1:], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.eta, plain.eta, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_public_case_of_columns_on_different_scales(solver):
    """One-hot columns beside numbers on scales from 1e-3 to 1e4: the same optimum to 1e-8."""
    rng = np.random.default_rng(3)
    X, _ = data(n=1500, d=3)
    X = np.column_stack([X * [1e-3, 1.0, 1e4], np.eye(4)[rng.integers(0, 4, len(X))][:, 1:]])
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    positive = rng.random(len(X)) < expit(standard.sum(axis=1) * 0.5 - 2)
    ours = fit(X, positive, solver=solver, tol=1e-10, max_iter=300)
    right = fit(standard, positive, tol=1e-10)
    np.testing.assert_allclose(ours.coef[1:] * X.std(axis=0), right.coef[1:], rtol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_order_of_rows_and_columns_does_not_matter(solver):
    X, positive = data()
    rng = np.random.default_rng(4)
    rows, columns = rng.permutation(len(X)), np.array([2, 0, 3, 1])
    plain = fit(X, positive, "cloglog", "cmle", rate=0.2)
    other = fit(X[rows][:, columns], positive[rows], "cloglog", "cmle", rate=0.2, solver=solver)
    np.testing.assert_allclose(other.coef[1:], plain.coef[1:][columns], rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", ["naive", "cmle", "iw", "pseudo_mle", "profile"])
def test_a_weight_of_two_is_a_row_twice(method):
    X, positive = data(n=600, prevalence=0.3)
    twice = np.arange(len(X)) % 3 == 0
    rows = np.concatenate([np.arange(len(X)), np.flatnonzero(twice)])
    options = {"rate": 0.5} if method != "profile" else {}
    weighted = fit(X, positive, "probit", method, weight=1.0 + twice, **options)
    repeated = fit(X[rows], positive[rows], "probit", method, **options)
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=0, atol=1e-8)
    unweighted = fit(X, positive, "probit", method, **options)
    assert np.abs(weighted.coef - unweighted.coef).max() > 1e-3


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_of_weight_zero_do_not_matter(solver):
    X, positive = data(n=600, prevalence=0.3)
    weight = np.ones(900)
    weight[600:] = 0.0
    more = np.vstack([X, 1e6 * np.random.default_rng(5).normal(size=(300, 4))])
    labels = np.concatenate([positive, np.resize([True, False], 300)])
    ours = fit(more, labels, weight=weight, solver=solver)
    assert ours.converged
    np.testing.assert_allclose(ours.coef, fit(X, positive).coef, rtol=0, atol=1e-8)


@pytest.mark.parametrize("size", [1e-12, 1e12])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_size_of_weights_does_not_matter(solver, size):
    X, positive = data(n=600, prevalence=0.3)
    weight = np.random.default_rng(6).random(len(X))
    plain = fit(X, positive, weight=weight)
    other = fit(X, positive, weight=size * weight, solver=solver)
    assert other.converged
    np.testing.assert_allclose(other.coef, plain.coef, rtol=0, atol=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["columns", "csr", "csc", "float32 csr", "float32"])
def test_the_kind_of_matrix_does_not_matter(kind, solver, intercept):
    X, positive = data()
    X[np.abs(X) < 0.7] = 0.0
    exact = "32" not in kind
    given = {
        "columns": np.asfortranarray,
        "csr": sp.csr_array,
        "csc": sp.csc_array,
        "float32 csr": lambda X: sp.csr_array(X, dtype=np.float32),
        "float32": lambda X: X.astype(np.float32),
    }[kind](X)
    right = fit(X, positive, intercept=intercept)
    ours = fit(given, positive, intercept=intercept, solver=solver)
    np.testing.assert_allclose(ours.coef, right.coef, rtol=0, atol=1e-8 if exact else 1e-6)
    if not exact:
        # within rounding of X, and no further: the fit itself is in float64
        rounded = given.toarray() if sp.issparse(given) else given
        again = fit(rounded.astype(np.float64), positive, intercept=intercept)
        np.testing.assert_allclose(ours.coef, again.coef, rtol=0, atol=1e-8)


def test_a_fit_without_columns_is_the_link_of_the_prevalence():
    positive = np.arange(50) < 7
    for link in ("logit", "probit", "cauchit"):
        ours = fit(np.empty((50, 0)), positive, link, start=[0.3])
        assert ours.coef[0] == pytest.approx(LINKS[link].link(0.14), abs=1e-7)


# ------------------------------------------------------------------------ dependent columns


@pytest.mark.parametrize("kind", ["dense", "float32", "csr", "csc"])
def test_the_later_of_dependent_columns_is_left_out(kind):
    X, positive = data()
    n = len(X)
    given = np.column_stack(
        [
            X[:, 0],
            np.full(n, 5.0),
            X[:, 1],
            X[:, 0] + 2.0 * X[:, 1] - 3.0,
            np.zeros(n),
            X[:, 2],
            1.8 * X[:, 2] + 32.0,
            X[:, 3],
        ]
    )
    given = {
        "dense": given,
        "float32": given.astype(np.float32),
        "csr": sp.csr_array(given),
        "csc": sp.csc_array(given, dtype=np.float32),
    }[kind]
    ours = fit(given, positive)
    assert np.flatnonzero(ours.aliased).tolist() == [2, 4, 5, 7]
    assert ours.dependent_on == {2: (0,), 4: (0, 1, 3), 5: (), 7: (0, 6)}
    assert ours.converged
    assert ours.condition < 100
    np.testing.assert_array_equal(ours.coef[ours.aliased], 0.0)
    right = fit(X, positive)
    exact = 1e-8 if kind in {"dense", "csr"} else 1e-6
    np.testing.assert_allclose(ours.coef[~ours.aliased], right.coef, rtol=0, atol=exact)


def test_all_levels_of_two_factors():
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 5, 900), rng.integers(0, 7, 900)
    X = sp.csr_array(np.hstack([np.eye(5)[a], np.eye(7)[b]]))
    positive = rng.random(900) < expit(0.3 * a - 0.2 * b - 1)
    ours = fit(X, positive)
    assert ours.dependent_on == {5: (0, 1, 2, 3, 4), 12: (0, 6, 7, 8, 9, 10, 11)}
    right = fit(X.toarray()[:, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]], positive)
    np.testing.assert_allclose(ours.coef[~ours.aliased], right.coef, rtol=0, atol=1e-7)
    # no intercept: the first factor stands for it
    ours = fit(X, positive, intercept=False)
    assert ours.dependent_on == {11: tuple(range(11))}
    # a ridge decides between all the ways to write the same
    ours = fit(X, positive, ridge=np.r_[0.0, np.full(12, 1e-3)])
    assert not ours.aliased.any()
    assert abs(ours.coef[1:6].sum()) < 1e-6
    cg = fit(X, positive, ridge=np.r_[0.0, np.full(12, 1e-3)], solver="newton-cg")
    np.testing.assert_allclose(cg.coef, ours.coef, rtol=0, atol=1e-6)
    # however small
    least = fit(X, positive, ridge=np.r_[0.0, np.full(12, 1e-9)])
    assert not least.aliased.any()
    assert least.converged
    assert abs(least.coef[1:6].sum()) < 1e-3
    # also if it is on some of the columns only
    ours = fit(X, positive, ridge=np.r_[0.0, np.full(4, 1e-9), np.zeros(8)])
    assert list(ours.dependent_on) == [12]
    # but one on other columns does not
    ours = fit(X, positive, ridge=np.r_[0.0, np.full(5, 1e-9), np.zeros(7)])
    assert list(ours.dependent_on) == [12]


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg"])
def test_solvers_that_know_no_dependence_find_one_of_many_minima(solver):
    rng = np.random.default_rng(15)
    levels = [np.minimum(rng.pareto(1.0, 20_000) * 3, 19).astype(int) for _ in range(4)]
    X = sp.csr_array(np.hstack([np.eye(20)[of_rows] for of_rows in levels]))
    positive = rng.random(20_000) < expit(X @ rng.normal(size=80) * 0.4 - 3)
    right = fit(X, positive)
    assert len(right.dependent_on) == 4
    ours = fit(X, positive, solver=solver, max_iter=300)
    assert ours.converged
    np.testing.assert_allclose(ours.eta, right.eta, rtol=0, atol=1e-6)
    assert not ours.aliased.any()


def test_columns_that_only_rows_of_weight_zero_tell_apart_are_dependent():
    X, positive = data()
    weight = np.ones(len(X))
    weight[:50] = 0.0
    X[50:, 3] = X[50:, 0]
    ours = fit(X, positive, weight=weight)
    assert ours.dependent_on == {4: (1,)}
    np.testing.assert_allclose(
        ours.coef[:4], fit(X[50:, :3], positive[50:]).coef, rtol=0, atol=1e-8
    )


def test_a_start_on_a_dependent_column_goes_to_those_that_it_depends_on():
    X, positive = data()
    given = np.column_stack([X, X[:, 0] - X[:, 2]])
    start = np.array([-3.0, 0.2, -1.0, 0.1, 0.0, 0.5])
    ours = fit(given, positive, start=start, max_iter=0)
    assert ours.coef[5] == 0.0
    np.testing.assert_allclose(ours.coef[1:5], [0.7, -1.0, -0.4, 0.0], rtol=0, atol=1e-10)
    assert ours.n_iter == 0
    assert not ours.converged


def test_more_columns_than_rows():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(12, 20))
    ours = fit(X, np.arange(12) < 5, max_iter=15)
    assert ours.aliased.sum() == 9
    assert not ours.aliased[:12].any()
    assert np.isfinite(ours.coef).all()
    assert not ours.converged


def test_columns_that_differ_less_and_less():
    """Each column is the one before and a bit, and what is left of two of them is alike again."""
    X, positive = data()
    first, second, third = X[:, 0], X[:, 1], X[:, 2]
    chain = np.column_stack(
        [
            first,
            first + 1e-5 * second,
            first + 2e-5 * second + 1e-10 * third,
            X[:, 3],
            3.0 * first + 1e-5 * second - X[:, 3],
        ]
    )
    ours = fit(chain, positive)
    assert ours.dependent_on == {5: (1, 2, 4)}
    assert ours.converged
    right = fit(X, positive)
    np.testing.assert_allclose(ours.eta, right.eta, rtol=0, atol=1e-4)
    assert ours.value == pytest.approx(right.value, rel=1e-7)


def test_a_ridge_between_columns_that_hardly_differ():
    """The Newton step in other coordinates is that in those given."""
    X, positive = data()
    X[:, 3] = X[:, 0] + 1e-5 * X[:, 3]
    ridge = np.array([0.0, 1e-8, 1e-8, 1e-8, 1e-8])
    ours = fit(X, positive, ridge=ridge)
    assert ours.converged
    free = fit(X, positive)
    assert abs(ours.coef[4]) < 0.5 * abs(free.coef[4])

    design = Design(X, intercept=True)
    basis = examine(design, None, ridge).basis
    assert basis.columns.tolist() == [4]
    plain = problem_of(X, positive, ridge=ridge)
    problem = replace(plain, design=design.in_basis(basis))
    w = np.array([-3.0, 20.0, 0.5, 0.5, -15.0])
    point = problem.point(problem.design.from_raw(w))
    step = problem.design.to_raw(Newton(problem).step(point, problem.gradient(point)))
    gradient = plain.gradient(plain.point(w))
    p = expit(point.eta)
    Z = np.column_stack([np.ones(len(X)), X])
    bend = Z.T @ ((p * (1 - p))[:, None] * Z) + np.diag(ridge)
    np.testing.assert_allclose(step, -np.linalg.solve(bend, gradient), rtol=1e-4)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("gap", [1e-4, 1e-7])
def test_columns_that_hardly_differ_are_told_apart(kind, gap):
    X, positive = data()
    near = X.copy()
    near[:, 3] = X[:, 0] + gap * X[:, 3]
    ours = fit(kind(near), positive)
    right = fit(X, positive)
    assert ours.converged
    assert not ours.aliased.any()
    # near[:, 3] holds X[:, 3] to a share of eps / gap
    np.testing.assert_allclose(ours.coef[4] * gap, right.coef[4], rtol=0, atol=1e-7)
    np.testing.assert_allclose(ours.eta, right.eta, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("mean", [1e3, 2.0**20, 2.0**27])
def test_large_means_cost_no_digits(mean, solver):
    X, positive = data()
    far = X + mean
    right = fit(far - mean, positive)
    ours = fit(far, positive, solver=solver)
    assert ours.converged
    assert not ours.aliased.any()
    np.testing.assert_allclose(ours.coef[1:], right.coef[1:], rtol=0, atol=2e-9)


@pytest.mark.parametrize("mean", [1e3, 2.0**20, 2.0**26])
def test_large_means_of_sparse_columns(mean):
    X, positive = data()
    far = X + mean
    ours = fit(sp.csr_array(far), positive)
    assert ours.converged
    np.testing.assert_allclose(ours.coef[1:], fit(far - mean, positive).coef[1:], rtol=0, atol=1e-7)


# ----------------------------------------------------------------------- how a fit goes and ends


@pytest.mark.parametrize(
    ("link", "method", "most"),
    [("logit", "cmle", 8), ("probit", "cmle", 11), ("cloglog", "cmle", 10), ("loglog", "iw", 12)],
)
def test_few_steps_and_fewer_hessians(link, method, most, monkeypatch):
    X, positive = data(n=5000)
    calls = {"gram": 0, "eta": 0, "back": 0, "state": 0}

    class Counting(Design):
        def gram(self, d):
            calls["gram"] += 1
            return super().gram(d)

        def eta(self, w):
            calls["eta"] += 1
            return super().eta(w)

        def back(self, g):
            calls["back"] += 1
            return super().back(g)

    likelihood = likelihood_of(positive, link, method, rate=0.1)
    state = likelihood.state
    monkeypatch.setattr(
        likelihood, "state", lambda eta: calls.update(state=calls["state"] + 1) or state(eta)
    )
    start = np.zeros(5)
    start[0] = LINKS[link].link(0.05)
    ours = minimize(likelihood, Counting(X, intercept=True), start=start)
    assert ours.converged
    assert ours.n_iter <= most
    assert calls["gram"] < ours.n_iter
    assert calls["eta"] <= ours.n_iter + 3
    assert calls["back"] == ours.n_iter + 1
    assert calls["state"] <= ours.n_iter + 3


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
@pytest.mark.parametrize(("link", "seed"), [("cloglog", 2), ("cauchit", 1), ("cauchit", 9)])
def test_corrections_make_slow_convergence_quick(link, seed, solver, monkeypatch):
    """A wrong model, whose expected Hessian is far from the observed one."""
    rng = np.random.default_rng(seed)
    if link == "cauchit":
        X = rng.standard_t(2, size=(1000, 3))
        positive = rng.random(1000) < 0.02 + 0.2 * (X[:, 0] ** 2 > 4)
    else:
        X = rng.exponential(size=(1000, 2)) ** 2
        positive = rng.random(1000) < 0.02 + 0.2 * (X[:, 0] ** 2 > 4)
    options = {"link": link, "method": "cmle", "rate": 0.3, "max_iter": 1000, "solver": solver}
    quick = fit(X, positive, **options)
    monkeypatch.setattr("imbfit.glm.fisher.two_loop", lambda g, _, base: base(g))
    monkeypatch.setattr("imbfit.glm.many._Bend.correct", lambda _, __: None)
    slow = fit(X, positive, **options)
    assert quick.converged
    assert slow.converged
    assert quick.n_iter <= 20
    assert slow.n_iter > 2 * quick.n_iter
    np.testing.assert_allclose(quick.coef, slow.coef, rtol=0, atol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("start", [0.0, -30.0, 30.0, -500.0, 500.0])
def test_far_starts_at_a_prevalence_of_one_in_ten_thousand(start, link, solver):
    rng = np.random.default_rng(10)
    X = rng.normal(size=(40_000, 2))
    positive = rng.random(40_000) < expit(X @ [1.0, -0.5] - 9.5)
    assert 2 < positive.sum() < 40
    right = fit(X, positive, link, max_iter=300)
    ours = fit(X, positive, link, start=[start, 0.0, 0.0], solver=solver, max_iter=400)
    assert right.converged
    assert ours.converged
    np.testing.assert_allclose(ours.coef, right.coef, rtol=1e-4 if link == "cauchit" else 1e-6)


@pytest.mark.parametrize("method", ["cmle", "pseudo_mle", "profile"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_sampled_likelihoods_from_a_zero_start(method, solver):
    X, positive = data(n=60_000, d=2, prevalence=1e-3)
    kept = positive | (np.random.default_rng(11).random(len(X)) < 0.05)
    options = {"method": method, "rate": 0.05, "link": "probit", "solver": solver, "max_iter": 200}
    near = fit(X[kept], positive[kept], start=[-3.0, 0.0, 0.0], **options)
    zero = fit(X[kept], positive[kept], start=np.zeros(3), **options)
    assert near.converged
    assert zero.converged
    np.testing.assert_allclose(zero.coef, near.coef, rtol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_tolerance_below_rounding_ends_in_time_and_says_so(solver):
    X, positive = data(n=5000)
    ours = fit(X, positive, tol=0.0, solver=solver, max_iter=300)
    assert ours.converged
    assert ours.n_iter < 100
    assert 0.0 < ours.decrement < 1e-10


@pytest.mark.parametrize("solver", SOLVERS)
def test_what_runs_out_of_steps_says_so(solver):
    X, positive = data()
    ours = fit(X, positive, max_iter=2, solver=solver)
    assert not ours.converged
    assert ours.n_iter == 2
    assert ours.decrement > 1e-3


@pytest.mark.parametrize("solver", SOLVERS)
def test_each_iteration_is_reported(solver):
    X, positive = data()
    seen = []
    ours = fit(X, positive, callback=seen.append, solver=solver, ridge=[0.0, 1, 1, 1, 1])
    assert [record.iteration for record in seen] == list(range(ours.n_iter + 1))
    values = np.array([record.value for record in seen])
    assert (np.diff(values) <= 1e-9).all()
    assert values[0] > values[-1] + 10
    assert seen[-1].decrement == ours.decrement
    assert seen[-1].value == pytest.approx(ours.value + 0.5 * float(ours.coef[1:] @ ours.coef[1:]))


@pytest.mark.parametrize("start", [[-4.0, 3.0, 0.0], [-2.0, 3.0, 0.0], [0.0, 1.0, 0.0]])
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_indefinite_hessian_gives_way_to_a_safe_one(start, solver):
    """The observed Hessian of the pseudo likelihood is indefinite far from the minimum."""
    X, positive = data(n=4000, d=2, prevalence=0.1)
    kept = positive | (np.random.default_rng(12).random(len(X)) < 0.05)
    X, positive = X[kept], positive[kept]
    options = {"method": "pseudo_mle", "rate": 0.05, "link": "logit"}
    likelihood = likelihood_of(positive, **options)
    Z = np.column_stack([np.ones(len(X)), X])
    curvature = likelihood.curvature(likelihood.state(Z @ np.array(start)), safe=False)
    bend = Z.T @ (curvature.diagonal[:, None] * Z)
    for vector, factor in curvature.rank_one:
        bend += factor * np.outer(Z.T @ vector, Z.T @ vector)
    assert np.linalg.eigvalsh(bend).min() < 0
    problem = problem_of(X, positive, **options)
    direction = Newton(problem)
    point = problem.point(np.array(start))
    assert direction.refresh(point) > 0
    safe = problem.curvature(point, safe=True).diagonal
    np.testing.assert_allclose(direction._hessian, Z.T @ (safe[:, None] * Z), rtol=1e-10)
    if np.diag(bend).min() < 0:
        unsafe = _Bend(problem, problem.curvature(point, safe=False))
        assert not unsafe.solve(problem.gradient(point), 0.1)[2]
    ours = fit(X, positive, start=start, solver=solver, **options)
    assert ours.converged
    np.testing.assert_allclose(ours.coef, fit(X, positive, **options).coef, rtol=1e-6)


@pytest.mark.parametrize(("link", "corrected"), [("logit", False), ("cauchit", True)])
def test_corrections_leave_a_right_hessian_alone(link, corrected, monkeypatch):
    """The logit's is the observed one, and misses what it foretells to the third order only."""
    made = []

    class Kept(Newton):
        def __init__(self, problem):
            super().__init__(problem)
            made.append(self)

    monkeypatch.setattr("imbfit.glm.newton.Newton", Kept)
    monkeypatch.setattr("imbfit.glm.fisher._QUICK", 0.0)
    X, positive = data(n=3000)
    ours = fit(X, positive, link, tol=1e-3)
    assert ours.n_iter > 3
    assert bool(made[0]._pairs) is corrected


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_step_that_leads_nowhere_is_tried_another_way(solver, monkeypatch):
    X, positive = data()
    right = fit(X, positive)
    search, times = descent._Line.search, iter([1, None])
    monkeypatch.setattr(
        descent._Line, "search", lambda line: search(line) if next(times, 1) else None
    )
    ours = fit(X, positive, solver=solver)
    assert ours.converged
    np.testing.assert_allclose(ours.coef, right.coef, rtol=0, atol=1e-8)
    monkeypatch.setattr(descent._Line, "search", lambda _: None)
    lost = fit(X, positive, solver=solver)
    assert not lost.converged
    assert lost.n_iter == 0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_deep_in_the_tail_of_separated_classes_is_no_minimum(link, solver, tol):
    X, _ = data(n=100, d=2)
    positive = X[:, 0] > 0.3
    # from 1e20 on cloglog is as good as at infinity, and nothing is left to see
    for far in (30.0, 1e3, 1e6):
        ours = fit(X, positive, link, start=[-0.3 * far, far, 0.0], tol=tol, solver=solver)
        assert not ours.converged, far


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_small_ridge_ends_what_has_no_end(solver):
    X, _ = data(n=300)
    positive = X[:, 0] > 0.5
    ridge = np.r_[0.0, np.full(4, 1e-9)]
    ours = fit(X, positive, ridge=ridge, solver=solver, max_iter=400)
    assert ours.converged
    Z = np.column_stack([np.ones(len(X)), X])
    # 1 - p is lost where it is small, and all is made of that here
    miss = np.where(positive, -expit(-ours.eta), expit(ours.eta))
    np.testing.assert_allclose(Z.T @ miss + ridge * ours.coef, 0.0, rtol=0, atol=1e-10)
    assert np.abs(ours.coef).max() > 100


def test_a_row_of_weight_zero_that_moves_far_is_no_reason_to_go_on():
    X, positive = data(n=600, prevalence=0.3)
    right = fit(X, positive)
    # where the predictor is near 0 by cancellation, so that rounding moves it by itself
    odd = 1e13 * np.array([right.coef[2], -right.coef[1], 0.0, 0.0])
    ours = fit(np.vstack([X, odd]), np.append(positive, True), weight=np.append(np.ones(600), 0.0))
    assert ours.converged
    np.testing.assert_allclose(ours.coef, right.coef, rtol=0, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("link", LINKS)
def test_separated_classes_neither_crash_nor_converge(link, solver):
    X, _ = data(n=300)
    for positive in (X[:, 0] > 0.5, X @ [1.0, 1, 0, 0] > 1.5):
        ours = fit(X, positive, link, solver=solver)
        assert not ours.converged
        assert np.isfinite(ours.coef).all()
        assert np.isfinite(ours.eta).all()
        assert np.isfinite(ours.value)
    finite = fit(X, positive, link, solver=solver, ridge=[0.0, 1, 1, 1, 1], max_iter=300)
    assert finite.converged
    assert np.abs(finite.coef).max() < 50


@pytest.mark.parametrize("solver", SOLVERS)
def test_public_case_of_a_column_seen_only_in_positives(solver):
    X, positive = data()
    only = np.zeros(len(X))
    only[np.flatnonzero(positive)[:20]] = 1.0
    given = np.column_stack([X, only])
    ours = fit(given, positive, solver=solver)
    assert not ours.converged
    assert ours.n_iter < 60
    # the other columns have their limits, those without the rows that the column explains
    rest = fit(X[only == 0], positive[only == 0])
    np.testing.assert_allclose(ours.coef[1:5], rest.coef[1:], rtol=0, atol=2e-3)
    for ridge in (1.0, 1e-9):
        assert fit(given, positive, solver=solver, ridge=[0, 0, 0, 0, 0, ridge]).converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_smallest_separated_case(solver):
    x = np.array([[1.0], [1.0], [0.0], [0.0]])
    ours = fit(x, np.array([True, True, False, False]), solver=solver)
    assert not ours.converged
    assert abs(ours.coef).max() < 1e3


# --------------------------------------------------------------------------- many columns


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg"])
def test_many_columns_need_little_memory(solver):
    rng = np.random.default_rng(13)
    n, d, per_row = 50_000, 20_000, 20
    places = rng.integers(0, d // per_row, (n, per_row)) + np.arange(per_row) * (d // per_row)
    X = sp.csr_array(
        (np.ones(n * per_row), places.ravel().astype(np.int32), np.arange(n + 1) * per_row),
        shape=(n, d),
    )
    X.indptr = X.indptr.astype(np.int32)
    X.indices = X.indices.astype(np.int32)
    positive = rng.random(n) < expit(X @ rng.normal(size=d) * 0.3 - 3)
    ridge = np.r_[0.0, np.ones(d)]
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    tracemalloc.start()
    ours = fit(X, positive, ridge=ridge, solver=solver)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ours.converged
    # coefficients are nearly as many as rows here, and of those the memory keeps 20 copies
    assert peak < size + 30 * 8 * d
    likelihood = likelihood_of(positive)
    slope = likelihood.slope(likelihood.state(X @ ours.coef[1:] + ours.coef[0]))
    np.testing.assert_allclose(X.T @ slope + ours.coef[1:], 0.0, rtol=0, atol=1e-6)
    assert abs(slope.sum()) < 1e-6


def test_directions_agree_with_each_other_on_wide_data():
    rng = np.random.default_rng(14)
    X = sp.random_array((3000, 400), density=0.03, format="csr", rng=rng)
    positive = rng.random(3000) < expit(X @ rng.normal(size=400) - 2)
    ridge = np.r_[0.0, np.full(400, 0.1)]
    found = [fit(X, positive, "cloglog", "cmle", rate=0.3, ridge=ridge, solver=s) for s in SOLVERS]
    for other in found[1:]:
        assert other.converged
        np.testing.assert_allclose(other.coef, found[0].coef, rtol=0, atol=1e-6)
    assert np.isnan(found[1].condition)


# -------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "irls"}, "solver is 'irls'; give 'newton'"),
        ({"start": [0.0]}, r"start has shape \(1,\); it needs shape \(5,\)"),
        ({"start": [0, 0, np.nan, 0, 0]}, "start is nan at 2"),
        ({"offset": np.zeros(3)}, r"offset has shape \(3,\)"),
        ({"ridge": [0.0, 1.0]}, r"ridge has shape \(2,\)"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    X, positive = data(n=50)
    with pytest.raises(ValueError, match=message):
        fit(X, positive, **options)


def test_columns_too_large_to_square_are_named():
    X, positive = data(n=50)
    X[:, 2] *= 1e180
    with pytest.raises(ValueError, match="the squares of column 2 overflow"):
        fit(X, positive)


def test_offsets_beyond_all_measure_are_named():
    X, positive = data(n=50)
    with pytest.raises(ValueError, match="the offset is too large"):
        fit(X, positive, "cloglog", offset=np.full(50, 1e5))


def test_the_step_is_made_with_the_hessian_at_hand():
    """The direction is the Newton step, where nothing is known but one Hessian."""
    X, positive = data()
    ridge = np.array([0.0, 1.0, 0.0, 3.0, 0.5])
    problem = problem_of(X, positive, ridge=ridge)
    point = problem.point(np.array([-3.0, 0.5, 0.5, 0.0, 0.1]))
    gradient = problem.gradient(point)
    p = expit(point.eta)
    Z = np.column_stack([np.ones(len(X)), X])
    bend = Z.T @ ((p * (1 - p))[:, None] * Z) + np.diag(ridge)
    np.testing.assert_allclose(gradient, Z.T @ (p - positive) + ridge * point.coef, rtol=1e-10)
    step = Newton(problem).step(point, gradient)
    np.testing.assert_allclose(step, -np.linalg.solve(bend, gradient), rtol=1e-9)
