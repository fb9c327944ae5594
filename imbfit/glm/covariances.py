"""Covariances of coefficients from the parts of a sandwich: as a matrix, or without any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from imbfit.glm.design import Design

__all__ = ["Form", "Sandwich", "contrast_variances", "covariance", "form"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# A direction in which the scaled Hessian is flatter than this is not determined by the rows.
FLAT = 1e-13

# Products with random signs that estimate degrees of freedom: they enter a factor near 1.
_PROBES, _FEW_COEFFICIENTS = 4, 50
CG_TOLERANCE = 1e-10
MOST_STEPS = 20_000


@dataclass(frozen=True)
class Form:
    """The matrix Z' diag(diagonal) Z + vectors middle vectors'.

    Attributes
    ----------
    diagonal : ndarray of shape (n_rows,) or None
        None for zeros.
    vectors : ndarray of shape (n_coef, k)
        Columns.
    middle : ndarray of shape (k, k)
        Symmetric.
    """

    diagonal: Floats | None
    vectors: Floats
    middle: Floats

    def dense(self, design: Design) -> Floats:
        """Return the matrix."""
        low = self.vectors @ self.middle @ self.vectors.T
        return low if self.diagonal is None else design.gram(self.diagonal) + low

    def times(self, design: Design, x: Floats) -> Floats:
        """Return its product with a vector."""
        low: Floats = self.vectors @ (self.middle @ (self.vectors.T @ x))
        return low if self.diagonal is None else design.back(self.diagonal * design.eta(x)) + low

    def squares(self, design: Design) -> Floats:
        """Return its diagonal."""
        low = np.einsum("jk,kl,jl->j", self.vectors, self.middle, self.vectors)
        return np.asarray(low if self.diagonal is None else design.squares(self.diagonal) + low)


@dataclass(frozen=True)
class Sandwich:
    """The parts of a covariance H^-1 M H^-1, of which nothing of size n_coef x n_coef is made.

    Attributes
    ----------
    design : Design
        The kept rows.
    bread : Form
        H without the ridge.
    ridge : ndarray of shape (n_coef,)
        Added to the diagonal of H.
    meat : Form
        M, without `share` times the bread.
    share : float
        M holds so many times the bread; 0 in a robust sandwich.
    n_kept : int or None
        Rows n kept, where the whole gets a factor n / (n - d) for small samples. The degrees of
        freedom d are the number of coefficients, and with a ridge the trace of H^-1 times H without
        it, which is estimated where no matrix is made.
    identified : ndarray of bool, shape (n_coef,)
        Coefficients that were fitted; the others have an infinite variance.
    """

    design: Design
    bread: Form
    ridge: Floats
    meat: Form
    share: float
    n_kept: int | None
    identified: Bools

    @property
    def factor(self) -> float:
        """The factor for small samples, without a ridge."""
        return _factor(self.n_kept, float(np.count_nonzero(self.identified)))


def form(diagonal: Floats | None, n_coef: int, terms: list[tuple[Floats, Floats, float]]) -> Form:
    """Add up factor (left right' + right left') / 2."""
    vectors = np.empty((n_coef, 2 * len(terms)))
    middle = np.zeros((2 * len(terms), 2 * len(terms)))
    for k, (left, right, factor) in enumerate(terms):
        vectors[:, 2 * k], vectors[:, 2 * k + 1] = left, right
        middle[2 * k, 2 * k + 1] = middle[2 * k + 1, 2 * k] = factor / 2.0
    return Form(diagonal, vectors, middle)


def covariance(parts: Sandwich) -> Floats:
    """Return the covariance matrix of the coefficients.

    Parameters
    ----------
    parts : Sandwich
        What `sandwich` gathered.

    Returns
    -------
    ndarray of shape (n_coef, n_coef)
        Coefficients that the rows do not determine have an infinite variance, and covariances of
        zero with all others.
    """
    work = _centred(parts)
    design, known = work.design, work.identified
    bread = work.bread.dense(design)
    plain = bread.copy() if work.ridge.any() else None
    meat = work.meat.dense(design) + work.share * bread
    bread[np.diag_indices_from(bread)] += work.ridge
    diagonal = _without_rounding(np.diag(bread), design)
    scale = np.where(known, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    inside = np.ix_(known, known)
    inner, lost = _inverted(
        (scale[:, None] * bread * scale)[inside], (scale[:, None] * meat * scale)[inside]
    )
    result = np.zeros_like(bread)
    result[inside] = _factor(work.n_kept, _freedom(bread, plain, known)) * inner
    result = design.raw_covariance(scale[:, None] * result * scale)
    flat = np.zeros((design.n_coef, lost.shape[1]))
    flat[known] = lost
    flat *= np.where(known, scale, 1.0)[:, None]
    size = np.abs(flat)
    if design.basis is not None:
        size += np.abs(design.basis.combination) @ size[design.basis.columns]
    gone = ~known | (np.abs(design.to_raw(flat)) > 1e-6 * size).any(axis=1)
    result[gone] = result[:, gone] = 0.0
    # A known prevalence may leave an intercept no variance, and rounding puts it on either side.
    np.fill_diagonal(result, np.where(gone, np.inf, np.maximum(np.diag(result), 0.0)))
    return result


def _freedom(bread: Floats, plain: Floats | None, known: Bools) -> float:
    """Return the degrees of freedom of a fit, with a ridge fewer than its coefficients."""
    if plain is None:
        return float(np.count_nonzero(known))
    inside = np.ix_(known, known)
    return float(np.trace(np.linalg.lstsq(bread[inside], plain[inside], rcond=None)[0]))


def _factor(n_kept: int | None, freedom: float) -> float:
    return 1.0 if n_kept is None else n_kept / max(n_kept - freedom, 1.0)


def _centred(parts: Sandwich) -> Sandwich:
    """Return the same in coordinates in which large means of columns leave digits to the rest."""
    design = parts.design
    # a sparse design in other coordinates is made dense, block by block: only where it must be
    if design.sparse and not _is_far(design):
        return parts
    if design.basis is not None or parts.ridge[0] or not parts.identified[0]:
        return parts
    work = design.in_basis(design.centred())
    return replace(
        parts,
        design=work,
        bread=replace(parts.bread, vectors=work.slope_from_raw(parts.bread.vectors)),
        meat=replace(parts.meat, vectors=work.slope_from_raw(parts.meat.vectors)),
    )


def _is_far(design: Design) -> bool:
    """Tell whether a column's mean is more than a thousand times its spread."""
    square = design.mean()[1:] ** 2
    spread = design.scale()[1:] ** 2 - square
    return bool(np.any((spread < 1e-6 * square) & (square > 0.0)))


def _without_rounding(diagonal: Floats, design: Design) -> Floats:
    """Return the Hessian's diagonal, zero where centring leaves rounding of a constant column."""
    if design.basis is None:
        return diagonal
    mean = np.zeros(design.n_coef)
    mean[design.basis.columns] = np.abs(design.basis.combination).sum(axis=0)
    return np.where(diagonal > (1e-13 * mean) ** 2 * diagonal[0], diagonal, 0.0)


def _inverted(hessian: Floats, meat: Floats) -> tuple[Floats, Floats]:
    """Return hessian^-1 meat hessian^-1, and the directions that the Hessian does not determine.

    The diagonal of the Hessian is 1.
    """
    size = len(hessian)
    if not (size and np.isfinite(hessian).all() and np.isfinite(meat).all()):
        return np.zeros_like(hessian), np.eye(size)
    flat = max(FLAT, float(np.finfo(np.float64).eps) * size)
    norm = float(np.abs(hessian).sum(axis=0).max())
    factor, failed = scipy.linalg.lapack.dpotrf(hessian, lower=1)
    if not failed:
        condition, _ = scipy.linalg.lapack.dpocon(factor, norm, uplo="L")
        if condition > flat:
            half = scipy.linalg.cho_solve((factor, True), meat)
            inner = scipy.linalg.cho_solve((factor, True), half.T)
            return (inner + inner.T) / 2.0, np.zeros((size, 0))
    values, directions = scipy.linalg.eigh(hessian)
    sure = values > flat
    half = directions[:, sure] / values[sure] @ directions[:, sure].T
    lost = directions[:, ~sure]
    return half @ meat @ half, np.where(np.abs(lost) > 1e-6, lost, 0.0)


def contrast_variances(parts: Sandwich, contrasts: Floats) -> Floats:
    """Return variances of linear combinations, with no matrix of size n_coef x n_coef.

    Each takes one system of equations, solved by conjugate gradients.

    Parameters
    ----------
    parts : Sandwich
        What `sandwich` gathered.
    contrasts : ndarray of shape (k, n_coef)
        The combinations, one in a row.

    Returns
    -------
    ndarray of shape (k,)
        Variances, infinite where the rows do not determine a combination.

    Raises
    ------
    RuntimeError
        If the columns are so close to collinear that the equations can't be solved.
    """
    work = _centred(parts)
    solve = _Solver(work)
    factor = work.factor
    if work.ridge.any() and work.n_kept is not None:
        factor = _factor(work.n_kept, _probed_freedom(work, solve))
    variances = np.empty(len(contrasts))
    for k, contrast in enumerate(np.asarray(contrasts, dtype=np.float64)):
        x = None
        if not np.any(contrast[~work.identified]):
            # what is not identified stays at zero, so it matters to no other coefficient
            x = solve(np.where(work.identified, _contrast_of(work.design, contrast), 0.0), k)
        if x is None:
            variances[k] = np.inf
            continue
        product = work.meat.times(work.design, x)
        if work.share:
            product += work.share * work.bread.times(work.design, x)
        variances[k] = max(factor * float(x @ product), 0.0)
    return variances


def _probed_freedom(parts: Sandwich, solve: _Solver) -> float:
    """Return the trace of H^-1 times H without the ridge, with many columns an estimate.

    The mean of v'Av over vectors of random signs is the trace of A.
    """
    n_coef = parts.design.n_coef
    if n_coef <= _FEW_COEFFICIENTS:
        probes, share = np.eye(n_coef), 1.0
    else:
        probes = np.random.default_rng(0).choice([-1.0, 1.0], (_PROBES, n_coef))
        share = 1.0 / _PROBES
    trace = 0.0
    for k, v in enumerate(np.where(parts.identified, probes, 0.0)):
        x = solve(np.where(parts.identified, parts.bread.times(parts.design, v), 0.0), k)
        trace += 0.0 if x is None else float(v @ x)
    return share * trace


def _contrast_of(design: Design, contrast: Floats) -> Floats:
    """Return the contrast of the design's coefficients, rounding taken for zero."""
    found = design.slope_from_raw(contrast)
    if design.basis is not None:
        size = np.abs(contrast)
        size[design.basis.columns] += np.abs(design.basis.combination).T @ size
        found = np.where(np.abs(found) > 1e-13 * size, found, 0.0)
    return found


class _Solver:
    """Conjugate gradients for the Hessian, preconditioned by its diagonal about the columns' means.

    The intercept ties together all columns that are not centred. Eliminating it first leaves the
    columns' weighted variances on the diagonal, without centring anything.
    """

    def __init__(self, parts: Sandwich) -> None:
        self.parts = parts
        design = parts.design
        diagonal = _without_rounding(parts.bread.squares(design) + parts.ridge, design)
        self.free = parts.identified & (diagonal > 0.0)
        self.diagonal = np.where(self.free, diagonal, 1.0)
        self.tie = np.zeros(design.n_coef)
        if design.intercept and self.free[0]:
            first = np.zeros(design.n_coef)
            first[0] = 1.0
            tie = self.times(first) / diagonal[0]
            centred = diagonal - tie**2 * diagonal[0]
            # a column that is constant, or nearly so, is left as it is
            tied = self.free & (centred > 1e-12 * diagonal)
            self.tie[tied] = tie[tied]
            self.diagonal[tied] = centred[tied]

    def times(self, x: Floats) -> Floats:
        """Return the product of the Hessian with a vector."""
        product = self.parts.bread.times(self.parts.design, x) + self.parts.ridge * x
        return np.where(self.free, product, 0.0)

    def eased(self, x: Floats) -> Floats:
        """Return the product of the preconditioner with a vector."""
        y = (x - self.tie * x[0]) / self.diagonal
        y[0] -= self.tie @ y
        return np.asarray(y)

    def size(self, x: Floats) -> float:
        """Return the square of a vector's length in the preconditioner's inverse."""
        y = x.copy()
        y[0] += self.tie @ x
        return float(self.diagonal @ (y * y))

    def __call__(self, contrast: Floats, number: int) -> Floats | None:
        """Return Hessian^-1 contrast; None if there is none."""
        x = np.zeros(len(contrast))
        if np.any(contrast[~self.free]):
            return None
        residual = contrast
        step = eased = self.eased(residual)
        left = start = float(residual @ eased)
        most = min(10 * len(x) + 100, MOST_STEPS)
        for _ in range(most):
            if left <= CG_TOLERANCE**2 * start:
                return x
            pushed = self.times(step)
            bend = float(step @ pushed)
            if bend <= FLAT * self.size(step):
                return None
            x += left / bend * step
            residual = residual - left / bend * pushed
            eased = self.eased(residual)
            before, left = left, float(residual @ eased)
            step = eased + left / before * step
        raise RuntimeError(
            f"the standard error of contrast {number} was not found in {most} steps of "
            "conjugate gradients: columns are close to collinear. Drop some of them, or add a "
            "penalty (a smaller C)"
        )
