"""Multipliers of the rows: the best of one row, and of several by column generation."""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from imbfit.threshold.problem import Selection, first_best


def one_multiplier(problem: Selection) -> tuple[np.ndarray, list[np.ndarray]]:
    """Best multiplier of one row, by the secant between a choice on each side of the limit.

    The dual m -> m b + sum max(v - m a) is convex and piecewise linear; where the lines of the two
    choices meet lies the next trial, and a trial that lies on both lines is the minimum.
    """
    usage, limit = problem.usage[0].astype(float), problem.limits[0]
    low = first_best(problem, problem.value)
    # the cheapest choice, and of those the most valuable
    cheapest = np.repeat(
        np.minimum.reduceat(problem.usage[0], problem.starts[:-1]), np.diff(problem.starts)
    )
    high = first_best(problem, np.where(problem.usage[0] == cheapest, problem.value, -np.inf))
    multiplier = 0.0
    known = [high]
    for _ in range(200):
        drop = problem.value[low].sum() - problem.value[high].sum()
        # in integers: low breaks the limit that high keeps, so this is at least 1
        saved = int(problem.usage[0][low].sum()) - int(problem.usage[0][high].sum())
        multiplier = max(0.0, float(drop) / saved)
        trial = first_best(problem, problem.value - multiplier * usage)
        use = int(problem.usage[0][trial].sum())
        height = problem.value[trial].sum() - multiplier * use
        line = problem.value[high].sum() - multiplier * usage[high].sum()
        if height - line <= 1e-12 * (abs(height) + abs(line)) or (
            np.array_equal(trial, low) or np.array_equal(trial, high)
        ):
            if use <= limit:
                known.append(trial)
            break
        if use <= limit:
            high = trial
            known.append(trial)
        else:
            low = trial
    return np.array([multiplier]), [*known, _walk(problem, high, low)]


def _walk(problem: Selection, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Move from a choice within the limit towards one beyond it, while it stays within."""
    choice = high.copy()
    row, limit = problem.usage[0], problem.limits[0]
    differ = np.flatnonzero(high != low)
    gain = problem.value[low[differ]] - problem.value[high[differ]]
    extra = row[low[differ]] - row[high[differ]]
    slack = limit - int(row[choice].sum())
    for g in differ[np.argsort(-gain / np.maximum(extra, 1e-9))]:
        step = int(row[low[g]] - row[high[g]])
        if step <= slack and problem.value[low[g]] > problem.value[high[g]]:
            choice[g] = low[g]
            slack -= step
    return choice


def several_multipliers(
    problem: Selection, deadline: float
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Multipliers of several rows, from the linear relaxation by column generation.

    Only a few corners of each segment's hull enter the program; a trial vector of multipliers
    brings in each segment's best candidate under it, until none is missing. None: no fractional
    choice meets the rows, so no choice does.
    """
    n_segments, n_rows = problem.n_segments, len(problem.limits)
    unit = np.array([max(1.0, float(np.abs(row).max())) for row in problem.usage])
    rows = [row / u for row, u in zip(problem.usage, unit, strict=True)]
    limits = np.array([float(b) for b in problem.limits]) / unit
    size = float(np.ptp(problem.value)) or 1.0
    value = problem.value / size
    start = [first_best(problem, value)]
    start += [first_best(problem, -row) for row in rows]
    start += [first_best(problem, value - weight * sum(rows)) for weight in (0.01, 0.1, 1.0, 10.0)]
    columns = np.unique(np.concatenate(start))
    known: list[np.ndarray] = []
    multipliers = np.zeros(n_rows)
    short = True  # first find a fractional choice that meets the rows, then the best one
    best_bound = np.inf
    best_multipliers = multipliers
    for _ in range(200):
        owner = np.searchsorted(problem.starts, columns, side="right") - 1
        width = len(columns)
        matrix = sparse.csr_matrix(np.vstack([row[columns] for row in rows]))
        lack = sparse.identity(n_rows, format="csr") * -1.0
        ones = sparse.csr_matrix(
            (np.ones(width), (owner, np.arange(width))), shape=(n_segments, width)
        )
        price = np.concatenate(
            [np.zeros(width) if short else -value[columns], np.full(n_rows, 1.0 if short else 0.0)]
        )
        result = linprog(
            price,
            A_ub=sparse.hstack([matrix, lack]),
            b_ub=limits,
            A_eq=sparse.hstack([ones, sparse.csr_matrix((n_segments, n_rows))]),
            b_eq=np.ones(n_segments),
            bounds=[(0, None)] * width + [(0, None if short else 0)] * n_rows,
            method="highs",
        )
        if result.status != 0:
            break
        multipliers = np.maximum(0.0, -result.ineqlin.marginals)
        weight = result.x[:width]
        known.append(_round(problem, columns, owner, weight))
        reduced = -sum(m * row for m, row in zip(multipliers, rows, strict=True))
        if short and result.fun <= 1e-9:
            short = False
            continue
        score = reduced if short else value + reduced
        trial = first_best(problem, score)
        if not short:
            known.append(trial)
            bound = float(multipliers @ limits + score[trial].sum())
            if bound < best_bound:
                best_bound, best_multipliers = bound, multipliers
            if bound <= -result.fun + 1e-10 * max(1.0, abs(bound)):
                break
        fresh = np.setdiff1d(trial, columns)
        if len(fresh) == 0:
            if short:
                # Farkas: each choice uses more of the weighted rows than there is. A certificate
                # only with room for rounding
                lacking = -float(multipliers @ limits) - float(score[trial].sum())
                sums = float(multipliers @ np.abs(limits)) + n_segments * float(multipliers.sum())
                if lacking > 1e-9 * n_segments + 1e-12 * sums:
                    return None
                short = False
            break
        columns = np.union1d(columns, fresh)
        if time.monotonic() > deadline:
            break
    if not np.isfinite(best_bound):
        best_multipliers = multipliers
    return best_multipliers * size / unit, known


def _round(
    problem: Selection, columns: np.ndarray, owner: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Take, in each segment, the candidate with the largest share of a fractional choice."""
    ranked = np.lexsort((-weight, owner))
    first = np.searchsorted(owner[ranked], np.arange(problem.n_segments))
    return columns[ranked[first]]
