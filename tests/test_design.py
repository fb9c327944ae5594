"""Products with the columns: every kind of matrix against plain dense formulas."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from imbfit.glm import design as module
from imbfit.glm import stored
from imbfit.glm.basis import Basis
from imbfit.glm.design import Design

KINDS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "float32 rows": lambda X: np.ascontiguousarray(X, dtype=np.float32),
    "float32 columns": lambda X: np.asfortranarray(X, dtype=np.float32),
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1])[::-1],
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "csr matrix": sp.csr_matrix,
    "float32 csr": lambda X: sp.csr_array(X, dtype=np.float32),
    "float32 csc": lambda X: sp.csc_array(X, dtype=np.float32),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks and a rest, with few rows."""
    monkeypatch.setattr(module, "_BLOCK", 256)
    monkeypatch.setattr(module, "_FEWEST_ROWS", 16)
    monkeypatch.setattr(stored, "_STORED", 64)
    monkeypatch.setattr(stored, "_MULTIPLIED", 64)


def columns(n=203, d=5, seed=0):
    """Numbers that float32 holds exactly, half of them zero."""
    rng = np.random.default_rng(seed)
    return rng.integers(-40, 40, (n, d)) / 8.0 * (rng.random((n, d)) < 0.5)


def with_ones(X, intercept):
    return np.column_stack([np.ones(len(X)), X]) if intercept else X


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_dense_matrix(kind, intercept):
    X = columns()
    Z = with_ones(X, intercept)
    design = Design(KINDS[kind](X), intercept=intercept)
    rng = np.random.default_rng(1)
    w, g, d = rng.normal(size=Z.shape[1]), rng.normal(size=len(Z)), rng.random(len(Z))
    d[:7] = 0.0
    m = rng.normal(size=(Z.shape[1], Z.shape[1]))

    assert (design.n_rows, design.n_slopes, design.n_coef) == (*X.shape, Z.shape[1])
    exact = {"rtol": 0, "atol": 1e-11}
    np.testing.assert_allclose(design.eta(w), Z @ w, **exact)
    np.testing.assert_allclose(design.back(g), Z.T @ g, **exact)
    np.testing.assert_allclose(design.gram(d), Z.T @ (d[:, None] * Z), **exact)
    np.testing.assert_allclose(design.gram(g), Z.T @ (g[:, None] * Z), **exact)
    np.testing.assert_allclose(design.squares(g), (Z**2).T @ g, **exact)
    np.testing.assert_allclose(design.mean(), Z.mean(axis=0), **exact)
    np.testing.assert_allclose(design.quadratic(m), np.einsum("ij,jk,ik->i", Z, m, Z), atol=1e-10)
    for result in (design.eta(w), design.back(g), design.gram(d), design.squares(d)):
        assert result.dtype == np.float64


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "cs" in kind])
@pytest.mark.parametrize("cheaper", [True, False])
def test_both_ways_to_multiply_sparse_columns_agree(kind, cheaper, monkeypatch):
    monkeypatch.setattr(Design, "_sparse_is_cheaper", cheaper)
    X = columns()
    Z, d = with_ones(X, intercept=True), np.random.default_rng(2).normal(size=len(X))
    for of_rows in (d, np.abs(d)):
        gram = Design(KINDS[kind](X), intercept=True).gram(of_rows)
        np.testing.assert_allclose(gram, Z.T @ (of_rows[:, None] * Z), rtol=0, atol=1e-11)


def test_the_cheaper_way_is_taken():
    def sparse(d, stored):
        X = sp.random_array(
            (3000, d), density=stored / d, format="csr", rng=np.random.default_rng(0)
        )
        return Design(X, intercept=True)._sparse_is_cheaper

    assert sparse(2000, 20)
    assert not sparse(30, 15)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "backwards"])
def test_columns_are_neither_copied_nor_changed(kind):
    X = KINDS[kind](columns())
    numbers = X.data if sp.issparse(X) else X
    before = numbers.copy()
    design = Design(X, intercept=True)
    ours = design.X.data if sp.issparse(X) else design.X
    assert np.shares_memory(ours, numbers)
    ones = np.ones(design.n_rows)
    design.gram(ones)
    design.squares(ones)
    design.in_basis(design.centred()).gram(ones)
    np.testing.assert_array_equal(numbers, before)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_places_stored_twice_count_as_their_sum(kind):
    rng = np.random.default_rng(6)
    outer = np.arange(0, 401, 8)
    inner, numbers = rng.integers(0, 6, 400), rng.integers(-9, 9, 400) * 1.0
    shape = (50, 6) if kind is sp.csr_array else (6, 50)
    X = kind((numbers.copy(), inner.copy(), outer), shape=shape)
    dense = X.toarray()
    assert not X.has_canonical_format
    assert np.count_nonzero(dense) < 300
    design = Design(X, intercept=False)
    assert np.shares_memory(design.X.data, X.data)
    d = rng.random(len(dense))
    np.testing.assert_allclose(design.squares(d), (dense**2).T @ d, atol=1e-11)
    np.testing.assert_allclose(design.gram(d), dense.T @ (d[:, None] * dense), atol=1e-11)
    np.testing.assert_allclose(design.eta(dense[0]), dense @ dense[0], atol=1e-11)
    np.testing.assert_array_equal(X.data, numbers)
    np.testing.assert_array_equal(X.indices, inner)


def test_scale_is_about_the_mean_and_exact_for_large_means():
    noise = columns(d=3)
    spread = noise.std(axis=0)
    X = np.column_stack([noise + np.array([0.0, 2.0**23, -(2.0**40)]), np.full(len(noise), 0.1)])
    scale = Design(X, intercept=True).scale()
    np.testing.assert_allclose(scale, [1.0, *spread, 1.0], rtol=1e-11)
    about_zero = np.sqrt((noise**2).mean(axis=0))
    np.testing.assert_allclose(Design(sp.csr_array(noise), intercept=True).scale()[1:], about_zero)
    np.testing.assert_allclose(Design(noise, intercept=False).scale(), about_zero)
    empty = sp.csc_array((9, 2), dtype=np.float64)
    assert Design(empty, intercept=True).scale().tolist() == [1.0, 1.0, 1.0]


# -------------------------------------------------------------------------- other coordinates


@pytest.mark.parametrize("kind", ["rows", "columns", "float32 rows", "csr", "float32 csc"])
def test_a_basis_is_a_change_of_columns(kind):
    X = columns()
    Z = with_ones(X, intercept=True)
    # column 2 less a combination that column 4, itself changed, is in
    change = np.zeros((6, 2))
    change[[0, 1, 4], 0] = 0.5, -2.0, 1.5
    change[[0, 3], 1] = 1.0, 0.25
    basis = Basis(np.array([2, 4]), sp.csc_array(change))
    transform = np.eye(6)
    transform[:, [2, 4]] -= change
    T = Z @ transform
    design = Design(KINDS[kind](X), intercept=True).in_basis(basis)
    rng = np.random.default_rng(3)
    v, g, d = rng.normal(size=6), rng.normal(size=len(X)), rng.random(len(X))
    close = {"rtol": 0, "atol": 1e-10}
    np.testing.assert_allclose(design.eta(v), T @ v, **close)
    np.testing.assert_allclose(design.back(g), T.T @ g, **close)
    np.testing.assert_allclose(design.gram(d), T.T @ (d[:, None] * T), **close)
    np.testing.assert_allclose(design.gram(g), T.T @ (g[:, None] * T), **close)
    np.testing.assert_allclose(design.squares(d), (T**2).T @ d, **close)
    np.testing.assert_allclose(design.to_raw(v), transform @ v, **close)
    np.testing.assert_allclose(design.from_raw(design.to_raw(v)), v, **close)
    np.testing.assert_allclose(design.slope_from_raw(v), transform.T @ v, **close)
    some = rng.normal(size=(6, 6))
    np.testing.assert_allclose(
        design.raw_covariance(some @ some.T), transform @ some @ some.T @ transform.T, **close
    )


def test_centred_products_keep_the_digits_that_large_means_take():
    noise = columns(d=3) + 0.25
    X = noise + np.array([2.0**10, 2.0**24, -(2.0**34)])
    design = Design(X, intercept=True)
    centred = design.in_basis(design.centred())
    d = np.random.default_rng(4).random(len(X))
    centre = centred.basis.combination.toarray()[0]
    np.testing.assert_allclose(centre, X.mean(axis=0), rtol=1e-13)
    T = with_ones(X - centre, intercept=True)
    right = T.T @ (d[:, None] * T)
    np.testing.assert_allclose(centred.gram(d), right, rtol=1e-10, atol=1e-7)
    v = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(centred.eta(v), T @ v, rtol=0, atol=1e-10)
    # and that the check can fail: from products of columns as they are, the digits do not come back
    raw, mean = design.gram(d), design.mean()
    far = raw[3, 3] - 2 * mean[3] * raw[0, 3] + mean[3] ** 2 * raw[0, 0]
    assert abs(far / right[3, 3] - 1.0) > 1e-6


def test_without_an_intercept_there_is_nothing_to_centre_with():
    assert Design(columns(), intercept=False).centred() is None


# ------------------------------------------------------------------------------ memory, errors


@pytest.mark.parametrize("kind", ["float32 rows", "float32 columns", "csr", "csc", "float32 csr"])
def test_products_take_little_memory_beside_the_columns(kind, monkeypatch):
    monkeypatch.undo()
    rng = np.random.default_rng(5)
    n, d = (200_000, 25) if kind.startswith("float32 r") or "columns" in kind else (300_000, 100)
    if "cs" in kind:
        X = sp.random_array((n, d), density=0.1, format="csr", rng=rng)
        X = X.asformat(kind[-3:]).astype(np.float32 if "32" in kind else np.float64)
        size = X.data.nbytes + X.indices.nbytes
    else:
        X = KINDS[kind](rng.random((n, d)))
        size = X.nbytes
    design = Design(X, intercept=True)
    ones = np.ones(n)
    for product in (design.gram, design.squares, design.back):
        tracemalloc.start()
        product(ones)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.5 * size + 8 * 2**20, product.__name__


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((3, 2), dtype=np.int64), "int64; convert it to float32 or float64"),
        (np.ones(3), "give a matrix"),
        (sp.coo_array(np.ones((3, 2))), r"'coo'; write X\.tocsr\(\)"),
        (sp.csr_array(np.ones((3, 2), dtype=bool)), "bool; convert it to float32 or float64"),
    ],
)
def test_other_matrices_are_refused(X, message):
    with pytest.raises(TypeError, match=message):
        Design(X, intercept=True)


def test_no_columns_at_all():
    design = Design(np.empty((4, 0)), intercept=True)
    assert design.eta(np.array([2.0])).tolist() == [2.0] * 4
    assert design.back(np.arange(4.0)).tolist() == [6.0]
    assert design.gram(np.arange(4.0)).tolist() == [[6.0]]
    assert design.squares(np.arange(4.0)).tolist() == [6.0]
