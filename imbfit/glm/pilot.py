"""A pilot: a fitted sample that estimates means over the population, and contrasts in its units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from imbfit.glm.design import Design
from imbfit.glm.links import Pieces
from imbfit.glm.rank import examine

__all__ = ["Coordinates", "Pilot"]

Floats: TypeAlias = NDArray[np.float64]

# Where directions have less than this share of the information, in units of the columns, products
# of columns lose digits, and it takes a closer look at the columns.
_WEAK_INFORMATION = 1e-6

# If what is left has less than this share, rounding could as well have made it.
_LEAST_INFORMATION = 1e-12


@dataclass(frozen=True, eq=False)
class Pilot:
    """A fitted sample that estimates means over the population.

    Parameters
    ----------
    design : Design
        The pilot's rows.
    share : ndarray of float, shape (n_rows,)
        What a row counts for in a mean over the population, with sum 1: proportional to its weight
        over S, the chance with which the pilot took a row with these features.
    pieces : Pieces
        Probabilities and hazards of the rows in the pilot's fit.
    prevalence : float
        Share of positives in the population.
    n_rows : float
        Number of rows of the population.
    """

    design: Design
    share: Floats
    pieces: Pieces
    prevalence: float
    n_rows: float

    @property
    def information(self) -> Floats:
        """Each row's share of the full fit's information, f^2/(pq)."""
        with np.errstate(over="ignore", invalid="ignore"):
            # at the end of a tail it may be 0 times infinity, and there the information goes to 0
            information = self.pieces.hp * self.pieces.hq
        return self.share * np.where(np.isfinite(information), information, 0.0)

    @property
    def negatives(self) -> float:
        """Share of negatives by the fit, E[q]."""
        return float(self.share @ np.exp(self.pieces.log_q))

    @property
    def least_rate(self) -> float:
        """The rate at which a single negative is expected."""
        return min(1.0, 1.0 / (self.n_rows * (1.0 - self.prevalence)))


class Coordinates:
    """Coordinates in which the information of the full fit is the identity, and contrasts in them.

    They remove the units of the columns, and the directions that the rows don't identify.
    """

    def __init__(self, pilot: Pilot, contrasts: Floats) -> None:
        raw = self.design = pilot.design.in_basis(None)
        rows = _checked(contrasts, raw.n_coef)
        size = np.sqrt(raw.squares(pilot.information))
        free = size > 0.0
        beside: NDArray[np.bool_] = np.asarray(rows[:, ~free].any(axis=1))
        unit, values, vectors = self._directions(pilot, free)
        if values.min(initial=1.0) < _WEAK_INFORMATION:
            rank = examine(raw, pilot.information, np.zeros(raw.n_coef))
            for unseen in rank.units.values():
                beside |= _touches(rows[:, free] / size[free], unseen[free] * size[free])
            free = ~rank.aliased
            if rank.basis is not None:
                self.design = raw.in_basis(rank.basis)
            unit, values, vectors = self._directions(pilot, free)
        known = values > _LEAST_INFORMATION
        vectors, unclear = vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known]
        self.basis: Floats = np.zeros((raw.n_coef, int(known.sum())))
        self.basis[free] = unit[:, None] * vectors
        scaled = self.design.slope_from_raw(rows.T).T[:, free] * unit
        for direction in unclear.T:
            beside |= _touches(scaled, direction)
        self.identified: NDArray[np.bool_] = ~beside
        if not self.identified.any():
            raise ValueError(
                "the pilot's rows identify none of the contrasts: their columns are constant or "
                "collinear there. Leave out such columns, or write sampling_rate=1.0"
            )
        inside = scaled[self.identified] @ vectors
        # of length 1, so that the variance in the full fit is 1
        self.rows: Floats = inside / np.linalg.norm(inside, axis=1)[:, None]

    def _directions(self, pilot: Pilot, free: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """Return the units of the free columns, and the spectrum of the information in them."""
        information = self.design.gram(pilot.information)[np.ix_(free, free)]
        diagonal = np.diag(information)
        unit = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        values, vectors = eigh(information * np.outer(unit, unit))
        return unit, values, vectors

    def gram(self, d: Floats) -> Floats:
        """Return Z' diag(d) Z of the rows Z in these coordinates."""
        inner: Floats = self.basis.T @ self.design.gram(d) @ self.basis
        return inner

    def back(self, g: Floats) -> Floats:
        """Return Z' g."""
        inner: Floats = self.basis.T @ self.design.back(g)
        return inner

    def form(self, d: Floats) -> Floats:
        """Return x' gram(d) x of each contrast."""
        return np.asarray(np.einsum("ij,ij->i", self.rows @ self.gram(d), self.rows))

    def spread(self, ratio: Floats) -> Floats:
        """Return values of all contrasts from those of the identified ones, else NaN."""
        out = np.full(len(self.identified), np.nan)
        out[self.identified] = ratio
        return out


def _touches(rows: Floats, direction: Floats) -> NDArray[np.bool_]:
    """Return which contrasts change along a direction, but for rounding."""
    sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(direction)
    touched: NDArray[np.bool_] = np.abs(rows @ direction) > 1e-6 * sizes
    return touched


def _checked(contrasts: Floats, n_coef: int) -> Floats:
    rows = np.asarray(contrasts, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_coef or not len(rows):
        raise ValueError(
            f"contrasts is of shape {rows.shape}; give one or more rows of {n_coef} numbers, one "
            "for each coefficient"
        )
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1) | ~rows.any(axis=1))
    if len(bad):
        raise ValueError(
            f"row {bad[0]} of contrasts is zero or not finite; give numbers, not all of them 0"
        )
    return rows
