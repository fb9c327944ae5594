"""Named populations of rare events. A name never changes what it means: add a new one instead.

A label is drawn with probability ``F(intercept + X @ coef)``, with `F` the inverse link and the
intercept solved for the prevalence, so that the coefficients a model should find are known.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import csr_matrix
from scipy.special import expit, ndtr

INVERSE_LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "logit": expit,
    "probit": ndtr,
    "cloglog": lambda eta: -np.expm1(-np.exp(eta)),
}
MILD = (1.0, -1.0, 0.5)


@dataclass(frozen=True)
class Data:
    """Rows to fit.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n, d)
        Features.
    y : ndarray of shape (n,)
        1 for a positive, else 0.
    coef, intercept : ndarray of shape (d,), float
        The true ones, where they are known.
    C : float
        Inverse strength of the ridge, infinite for none.
    rate : float
        At which the negatives came here: 1 where these rows are the population's.
    exposure : ndarray of shape (n,) or None
        Of each row, where there is one.
    """

    X: Any
    y: np.ndarray
    coef: np.ndarray | None = None
    intercept: float = 0.0
    C: float = np.inf
    rate: float = 1.0
    exposure: np.ndarray | None = None

    def rows(self, which: np.ndarray) -> Data:
        """Some of the rows."""
        exposure = None if self.exposure is None else self.exposure[which]
        return replace(self, X=self.X[which], y=self.y[which], exposure=exposure)


@dataclass(frozen=True)
class Population:
    """Dense rows with independent features.

    Attributes
    ----------
    name : str
        Its name, which is also the seed.
    rows : int
        How many are drawn.
    prevalence : float
        Expected share of positives.
    link : str
        The true one, which is also the model's.
    features : {"uniform", "normal"}
        Uniform between -1 and 1, or standard normal.
    slopes : tuple of float
        Of the first columns.
    inert : int
        How many more columns there are, without effect.
    """

    name: str
    rows: int
    prevalence: float
    link: str = "logit"
    features: str = "uniform"
    slopes: tuple[float, ...] = MILD
    inert: int = 0

    @property
    def coef(self) -> np.ndarray:
        """True coefficients."""
        return np.array([*self.slopes, *[0.0] * self.inert])

    @cached_property
    def intercept(self) -> float:
        """Solve for the prevalence, on a million rows drawn for it alone."""
        slopes = np.array(self.slopes)
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        eta = np.concatenate([self._features(rng, 50_000, len(slopes)) @ slopes for _ in range(20)])
        inverse = INVERSE_LINKS[self.link]
        return float(brentq(lambda at: inverse(at + eta).mean() - self.prevalence, -40, 10))

    def draw(self, seed: int = 0) -> Data:
        """Draw the rows; each seed gives others."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), seed])
        X = self._features(rng, self.rows, len(self.coef))
        eta = X[:, : len(self.slopes)] @ np.array(self.slopes) + self.intercept
        y = (rng.random(self.rows) < INVERSE_LINKS[self.link](eta)).astype(np.int64)
        return Data(X, y, self.coef, self.intercept)

    def smaller(self, rows: int) -> Population:
        """Return the same population with fewer rows, of which at least 2 % are positive."""
        if rows >= self.rows:
            return self
        return replace(self, rows=rows, prevalence=max(self.prevalence, 0.02))

    def _features(self, rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
        if self.features == "normal":
            return rng.standard_normal((rows, columns))
        return rng.uniform(-1, 1, (rows, columns))


@dataclass(frozen=True)
class OneHot:
    """Sparse rows: one level of each field, frequent and rare ones, every level with an effect.

    Attributes
    ----------
    name : str
        Its name, which is also the seed.
    rows, fields, levels : int
        There are ``fields * levels`` columns, and `fields` ones in a row.
    prevalence : float
        Expected share of positives.
    C : float
        Inverse strength of the ridge.
    """

    name: str
    rows: int = 1_000_000
    fields: int = 20
    levels: int = 5_000
    prevalence: float = 0.005
    C: float = 1.0

    def draw(self, seed: int = 0) -> Data:
        """Draw the rows, in little more memory than they take."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), seed])
        coef = rng.normal(0, 0.3, self.fields * self.levels)
        share = np.cumsum(1 / (1 + np.arange(self.levels)))
        share /= share[-1]
        indices = np.empty((self.rows, self.fields), np.int32)
        eta = np.empty(self.rows)
        for start in range(0, self.rows, 50_000):
            part = slice(start, min(start + 50_000, self.rows))
            level = np.searchsorted(share, rng.random((part.stop - start, self.fields)))
            indices[part] = level + self.levels * np.arange(self.fields)
            eta[part] = coef[indices[part]].sum(axis=1)
        intercept = float(brentq(lambda at: expit(at + eta).mean() - self.prevalence, -40, 10))
        y = (rng.random(self.rows) < expit(intercept + eta)).astype(np.int64)
        ends = np.arange(self.rows + 1, dtype=np.int32) * np.int32(self.fields)
        X = csr_matrix(
            (np.ones(indices.size), indices.reshape(-1), ends),
            shape=(self.rows, len(coef)),
            copy=False,
        )
        return Data(X, y, coef, intercept, C=self.C)

    def smaller(self, rows: int) -> OneHot:
        """Return the same population with fewer rows, fewer levels and more positives."""
        if rows >= self.rows:
            return self
        return replace(self, rows=rows, levels=rows // 100, prevalence=0.02)


def bytes_of(X: csr_matrix) -> int:
    """Memory that the three arrays of a CSR matrix take."""
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


P = Population
SPEED = [
    P("mild", 1_000_000, 0.005, inert=27),
    P("normal", 1_000_000, 0.005, features="normal", inert=27),
    P("thirty", 1_000_000, 0.005, slopes=(0.5, -0.5) * 15),
    P("thirty_normal", 1_000_000, 0.005, features="normal", slopes=(0.5, -0.5) * 15),
]
SPARSE = OneHot("one_hot")

# The grid over which methods are compared.
GRID = [
    P("logit_0.01%", 200_000, 0.0001),
    P("logit_0.1%", 200_000, 0.001),
    P("logit_1%", 200_000, 0.01),
    P("logit_5%", 200_000, 0.05),
    P("logit_0.1%_normal", 200_000, 0.001, features="normal"),
    P("logit_1%_normal", 200_000, 0.01, features="normal"),
    P("probit_0.1%", 200_000, 0.001, "probit"),
    P("probit_1%", 200_000, 0.01, "probit"),
    P("probit_5%", 200_000, 0.05, "probit"),
    P("cloglog_0.1%", 200_000, 0.001, "cloglog"),
    P("cloglog_1%", 200_000, 0.01, "cloglog"),
    P("cloglog_5%", 200_000, 0.05, "cloglog"),
    P("logit_0.1%_1e6", 1_000_000, 0.001),
]
# Four negatives for each positive, for designs beyond the uniform one.
FOUR = [
    P("logit_0.5%_normal", 100_000, 0.005, features="normal"),
    P("cloglog_0.5%_normal", 100_000, 0.005, "cloglog", features="normal"),
    P("probit_0.5%", 100_000, 0.005, "probit"),
]
POPULATIONS = {population.name: population for population in [*SPEED, *GRID, *FOUR]}
