"""One segment: read every candidate off the table.

With one segment a constraint is yes or no per candidate and the objective a number per candidate,
so the best threshold is the first maximum over those allowed: any expression goes, and there is
nothing to prove.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Expr, describe
from imbfit.reading import value
from imbfit.threshold.rows import Polynomial, known_sums, sum_of, sums_of, to_ratio
from imbfit.threshold.table import CandidateTables

_NEAR = 1e-12
_MOST_TIES = 2000


def objective_values(
    objective: Expr | Callable[..., Any],
    tables: CandidateTables,
    g: int,
    *,
    greater_is_better: bool,
) -> np.ndarray:
    """Value of the objective for every candidate of a segment.

    Parameters
    ----------
    objective : Expr or callable
        A callable takes arrays ``(tp, fp, fn, tn)`` and returns one value per entry.
    tables : CandidateTables
        The candidates.
    g : int
        The segment.
    greater_is_better : bool
        Direction, for 0/0.

    Returns
    -------
    ndarray of float
    """
    counts = tables.counts(g)
    shape = counts.tp.shape
    if isinstance(objective, Expr):
        result = value(objective, counts, greater_is_better=greater_is_better)
        return np.broadcast_to(result, shape)
    result = np.asarray(objective(counts.tp, counts.fp, counts.fn, counts.tn), float)
    name = getattr(objective, "__name__", repr(objective))
    if result.shape != shape:
        raise ValueError(
            f"objective {name} returned shape {result.shape} for counts of shape {shape}; it must "
            "be vectorised: f(tp, fp, fn, tn) takes arrays and returns one value per entry"
        )
    if np.isnan(result).any():
        worst = int(np.flatnonzero(np.isnan(result))[0])
        at = ", ".join(f"{c}={getattr(counts, c)[worst]:g}" for c in ("tp", "fp", "fn", "tn"))
        raise ValueError(f"objective {name} is NaN at {at}; return a number for every entry")
    return result


def scan(
    objective: Expr | Callable[..., Any],
    tables: CandidateTables,
    allowed: np.ndarray,
    *,
    greater_is_better: bool,
) -> int | None:
    """Find the best allowed candidate of the only segment.

    Equal values go to the highest threshold, that is to the fewest flagged. Values that differ by
    less than rounding are compared as fractions.

    Parameters
    ----------
    objective : Expr or callable
        See :func:`objective_values`.
    tables : CandidateTables
        Of one segment.
    allowed : ndarray of bool
        Candidates that meet the constraints.
    greater_is_better : bool
        Direction.

    Returns
    -------
    int or None
        None where nothing is allowed.
    """
    values = objective_values(objective, tables, 0, greater_is_better=greater_is_better)
    oriented = values if greater_is_better else -values
    if not allowed.all():
        oriented = np.where(allowed, oriented, -np.inf)
        if not allowed.any():
            return None
    best = int(np.argmax(oriented))
    top = float(oriented[best])
    if not np.isfinite(top) or not isinstance(objective, Expr):
        return best if allowed[best] else int(np.argmax(allowed))
    near = np.flatnonzero(oriented >= top - _NEAR * max(1.0, abs(top)))
    if 1 < len(near) <= _MOST_TIES:
        exact = _exact(objective, tables, near)
        if exact is not None:
            sign = 1 if greater_is_better else -1
            return int(max(zip(near, exact, strict=True), key=lambda p: (sign * p[1], -p[0]))[0])
    return best


def _exact(
    objective: Expr, tables: CandidateTables, candidates: np.ndarray
) -> list[Fraction] | None:
    """Values as fractions; None for roots, 0/0 and rounded sums."""
    try:
        ratio = to_ratio(objective, tables.columns)
    except UnsupportedMetric:
        return None
    known = known_sums(tables, 0)

    def read(polynomial: Polynomial, candidate: int) -> Fraction:
        total = Fraction(0)
        for mono, coef in polynomial.terms.items():
            term = coef
            for symbol in mono:
                if symbol in known:
                    term *= known[symbol]
                else:
                    scale = sums_of(tables, symbol[1]).scale
                    term *= Fraction(int(sum_of(tables, symbol)[candidate])) / scale
            total += term
        return total

    result = []
    for candidate in candidates.tolist():
        below = read(ratio.den, candidate)
        if below == 0:
            return None
        result.append(read(ratio.num, candidate) / below)
    return result


def name_of(objective: Any) -> str:
    """Return what reports call an objective."""
    if isinstance(objective, Expr):
        return describe(objective)
    return str(getattr(objective, "__name__", type(objective).__name__))
