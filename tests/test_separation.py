"""Separated classes and dependent columns, against trying everything."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from imbfit.glm import stored
from imbfit.glm.built_in_links import LINKS
from imbfit.glm.design import Design
from imbfit.glm.likelihoods import METHODS, Rows
from imbfit.glm.newton import minimize
from imbfit.glm.separation import (
    dependent_columns,
    is_separated,
    most_extreme,
    search_separation,
    separating_column,
    separating_columns,
    suspect,
)

KINDS = {"dense": np.asarray, "csr": sp.csr_array, "csc": sp.csc_array}


def fit(X, positive, link="logit", **options):
    design = Design(X, intercept=True)
    start = np.zeros(design.n_coef)
    start[0] = LINKS[link].link(float(np.mean(positive)))
    likelihood = METHODS["naive"](Rows.uniform(positive, None, 1.0), LINKS[link])
    return minimize(likelihood, design, start=start, **options), design.eta(start)


def small(seed, columns, values=3):
    """Integers, so that what is on a boundary is exactly on it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 12))
    X = rng.integers(0, values, (n, columns)).astype(float)
    positive = rng.random(n) < expit(X @ rng.normal(size=columns) * 2 - 1)
    positive[:2] = True, False
    return X, positive


def by_trying(Z, positive):
    """Tell whether the classes are separated, by all directions that put two rows at the boundary.

    With three columns of full rank the directions that put no row on the wrong side are a pointed
    cone, and each of its edges does that.
    """
    signed = Z * np.where(positive, 1.0, -1.0)[:, None]
    for i, j in itertools.combinations(range(len(Z)), 2):
        normal = np.cross(signed[i], signed[j])
        for direction in (normal, -normal):
            ahead = signed @ direction
            if (ahead >= 0).all() and (ahead > 0).any():
                return True
    return False


# -------------------------------------------------------------------------- linear programs


def test_linear_programs_agree_with_trying_everything():
    answers = []
    for seed in range(120):
        X, positive = small(seed, columns=2)
        Z = np.column_stack([np.ones(len(X)), X])
        if np.linalg.matrix_rank(Z) < 3:
            continue
        right = by_trying(Z, positive)
        kind = KINDS[("dense", "csr", "csc")[seed % 3]]
        assert is_separated(Design(kind(X), intercept=True), positive) is right, seed
        answers.append(right)
    assert 20 < sum(answers) < len(answers) - 20


def test_without_an_intercept_the_boundary_goes_through_zero():
    answers = []
    for seed in range(60):
        X, positive = small(seed, columns=3)
        X -= 1.0
        if np.linalg.matrix_rank(X) < 3:
            continue
        right = by_trying(X, positive)
        assert is_separated(Design(X, intercept=False), positive) is right, seed
        answers.append(right)
    assert 5 < sum(answers) < len(answers) - 5


def test_a_direction_shows_what_it_says():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)) * [1.0, 1e-5, 1e5] + [1e3, 0.0, 0.0]
    score = X @ [1.0, -1e5, 1e-5]
    positive = score > np.quantile(score, 0.98)
    found = search_separation(Design(X, intercept=True), positive, size=8_000)
    assert found.separated
    assert found.complete
    eta = Design(X, intercept=True).eta(found.direction)
    assert eta[positive].min() > 0 > eta[~positive].max()
    assert found.n_rows < 4000
    # one row on the wrong side of all others undoes it
    positive[np.argmin(score)] = True
    undone = search_separation(Design(X, intercept=True), positive)
    assert undone.separated is False
    assert undone.direction is None


def test_rows_that_the_first_program_did_not_see_count():
    """Overlap in two rows only, among 20,000, of which the first program sees a few hundred."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.random(20_000), rng.normal(size=20_000)])
    positive = X[:, 0] > 0.9
    X[12_345, 0], X[17_777, 0] = 0.95, 0.05
    positive[12_345], positive[17_777] = False, True
    design = Design(X, intercept=True)
    found = search_separation(design, positive, size=2_000)
    assert found.separated is False
    assert found.n_rows < 700
    weight = np.ones(20_000)
    weight[[12_345, 17_777]] = 0.0
    assert is_separated(design, positive, weight=weight, size=2_000) is True


@pytest.mark.parametrize("seed", range(4))
def test_means_and_units_do_not_matter_to_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    positive = X @ [1.0, -0.3, 0.1] > 0.8
    far = X * [1e-5, 1.0, 1e5] + [1e5, 1e10, 1e15]
    assert is_separated(Design(far, intercept=True), positive) is True
    positive[np.argmin(X @ [1.0, -0.3, 0.1])] = True
    assert is_separated(Design(X, intercept=True), positive) is False
    assert is_separated(Design(far, intercept=True), positive) is False


def test_what_is_too_large_stays_undecided():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 40))
    positive = rng.random(500) < 0.5
    design = Design(X, intercept=True)
    assert is_separated(design, positive, size=41 * 60) is None
    assert is_separated(design, positive) is False


def test_fits_converge_where_the_classes_overlap_and_only_there():
    answers = []
    for seed in range(90):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(8, 100)), int(rng.integers(1, 5))
        link = ("logit", "probit", "cloglog", "loglog", "cauchit")[seed % 5]
        solver = ("newton", "lbfgs", "newton-cg")[seed % 3]
        X = rng.normal(size=(n, d)) * np.exp(4.0 * rng.normal(size=d))
        if seed % 4 == 0:
            X = (X > 0).astype(float)
        slopes = rng.normal(size=d) / np.maximum(X.std(axis=0), 1e-9)
        positive = rng.random(n) < expit(1.5 * (X - X.mean(axis=0)) @ slopes - 1)
        positive[:2] = True, False
        solution, start = fit(X, positive, link, solver=solver, max_iter=300)
        separated = is_separated(Design(X, intercept=True), positive)
        assert solution.converged is not separated, (seed, link, solver)
        assert suspect(solution, start) or not separated
        answers.append(separated)
    assert 10 < sum(answers) < 60


# --------------------------------------------------------------------------- single columns


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
def test_single_columns_agree_with_trying_every_threshold(kind, intercept, monkeypatch):
    monkeypatch.setattr(stored, "_STORED", 7)
    found_any = 0
    for seed in range(60):
        X, positive = small(seed, columns=6)
        if seed % 2:
            X -= 1.0
        right = []
        for x in X.T:
            thresholds = np.unique(x) if intercept else [0.0]
            ahead = [
                sign * (x - t) * np.where(positive, 1.0, -1.0)
                for t in thresholds
                for sign in (-1.0, 1.0)
            ]
            right.append(any((a >= 0).all() and (a > 0).any() for a in ahead))
        found = separating_columns(KINDS[kind](X), positive, intercept=intercept)
        assert found.tolist() == np.flatnonzero(right).tolist(), seed
        one = separating_column(KINDS[kind](X), positive, intercept=intercept)
        assert (one is None) == (not any(right))
        assert one is None or one in found
        found_any += len(found)
    assert found_any > 20


def test_a_column_that_splits_all_rows_is_named_before_one_that_splits_some():
    positive = np.arange(6) < 2
    some = (np.arange(6) == 0).astype(float)
    X = np.column_stack([np.arange(6) % 2, some, -1.0 * np.arange(6)])
    assert separating_columns(X, positive).tolist() == [1, 2]
    assert separating_column(X, positive) == 2
    assert separating_column(X[:, :2], positive) == 1
    assert separating_column(X[:, :1], positive) is None


def test_a_column_nonzero_in_one_class_but_of_both_signs_separates_nothing():
    X = np.array([[0.0, 1.0], [0, 1], [0, -1], [0, 0], [0, 0]])
    positive = np.array([True, True, True, False, False])
    assert separating_column(X, positive) is None
    X[2, 1] = 0.0
    assert separating_column(X, positive) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_zero_and_stored_zeros(kind):
    X = np.array([[2.0, 1.0], [1.0, 3.0], [3.0, 2.0], [0.0, 2.0]])
    positive = np.array([True, True, False, False])
    weight = np.array([1.0, 1.0, 0.0, 1.0])
    assert separating_column(KINDS[kind](X), positive) is None
    assert separating_column(KINDS[kind](X), positive, weight=weight) == 0
    stored = sp.csr_array(X)
    stored.data[:] = np.where(stored.data == 3.0, 0.0, stored.data)
    assert separating_columns(stored, positive).tolist() == [0, 1]


def test_places_stored_twice_are_one_number():
    """Column 0 is 0 in all rows but the last; stored are 1 and -1 in the first."""
    X = sp.csr_array(([1.0, -1.0, 2.0], [0, 0, 0], [0, 2, 2, 3]), shape=(3, 1))
    assert separating_column(X, np.array([False, False, True])) == 0
    assert X.nnz == 3


def test_looking_at_columns_takes_no_dense_matrix():
    import tracemalloc

    rng = np.random.default_rng(3)
    X = sp.random_array((20_000, 5_000), density=0.002, format="csr", rng=rng)
    positive = rng.random(20_000) < 0.3
    tracemalloc.start()
    separating_columns(X, positive)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # dense it is 800 MB


# ------------------------------------------------------------------------- signs and names


def test_good_fits_are_not_suspect():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 3))
    positive = rng.random(500) < expit(X.sum(axis=1))
    for solver in ("newton", "lbfgs", "newton-cg"):
        solution, start = fit(X, positive, solver=solver)
        assert not suspect(solution, start)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"converged": False}, True),
        ({"condition": 1e13}, True),
        ({"condition": np.nan}, False),
        ({"n_iter": 21}, True),
        ({"n_iter": 21, "solver": "lbfgs"}, False),
        ({"eta": np.array([1.0, -31.5])}, True),
    ],
)
def test_each_sign_is_seen(change, expected):
    plain = {
        "coef": np.zeros(2),
        "eta": np.array([1.0, -3.0]),
        "condition": 10.0,
        "n_iter": 5,
        "converged": True,
        "solver": "newton",
    }
    assert suspect(SimpleNamespace(**plain | change), np.full(2, -1.0)) is expected
    assert suspect(SimpleNamespace(**plain), np.full(2, -1.0), max_eta=1.5) is True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_column_that_runs_away_is_named(kind, intercept):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(800, 5))
    positive = rng.random(800) < expit(X[:, 4] - 1.5)
    X *= [1e3, 1.0, 1.0, 1.0, 1e-6]
    X[:, 0] += 1e6
    X[:, 3] = 0.0
    X[np.flatnonzero(positive)[:7], 3] = 1e-3
    likelihood = METHODS["naive"](Rows.uniform(positive, None, 1.0), LINKS["logit"])
    design = Design(KINDS[kind](X), intercept=intercept)
    solution = minimize(likelihood, design, start=np.zeros(design.n_coef))
    assert suspect(solution, np.zeros(800))
    assert np.argmax(np.abs(solution.coef)) == 4 + intercept or intercept
    assert most_extreme(solution, design) == 3 + intercept
    assert separating_column(X, positive) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_dependent_columns_name_the_columns_that_they_are_made_of(kind):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 7))
    X[:, 2] = 4.0
    X[:, 4] = 1e-5 * X[:, 0] - 1e3 * X[:, 3]
    X[:, 6] = X[:, 4] + X[:, 5] + 7.0
    found = dependent_columns(Design(KINDS[kind](X), intercept=True))
    assert found[3] == (0,)
    # what is a combination of a dependent column is one of those that this one is made of
    assert set(found) == {3, 5, 7}
    assert found[7] == (0, 4, 6)
    assert dependent_columns(Design(KINDS[kind](X), intercept=False)) == {
        4: (3,),
        6: (2, 3, 5),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_dependence_on_columns_that_are_nearly_dependent_themselves(kind):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 4))
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    X[:, 3] = 1000.0 * (X[:, 1] - X[:, 0]) + X[:, 2]
    assert dependent_columns(Design(KINDS[kind](X), intercept=True)) == {4: (1, 2, 3)}
    X[:, 3] += 1e-6 * rng.normal(size=300)
    assert dependent_columns(Design(KINDS[kind](X), intercept=True)) == {}


def test_dependence_is_a_matter_of_rows_that_count():
    X = np.array([[1.0, 1.0], [2.0, 2.0], [5.0, 5.0], [3.0, 4.0]])
    design = Design(X, intercept=True)
    assert dependent_columns(design) == {}
    assert dependent_columns(design, np.array([1.0, 2.0, 0.5, 0.0])) == {2: (1,)}
