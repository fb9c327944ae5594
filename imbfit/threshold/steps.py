"""Candidates as steps: for problems with many rows, such as a capacity on each day.

With z_j = 1 where the chosen candidate of a segment is j or one behind it, 1 = z_0 >= z_1 >= ...,
the value of a choice is

    sum over j of (v[j] - v[j-1]) z_j,      its usage likewise.

A step from one candidate to the next changes few rows, so the matrix is sparse where one flag per
candidate would fill it. HiGHS solves the relaxation for multipliers and proposes a choice; a proof
is left to whoever counts in integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from imbfit.threshold.core import Core

# HiGHS holds rows and integrality to about 1e-6 only, so its bound is widened by that.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Steps:
    """A selection problem in steps.

    Attributes
    ----------
    to : ndarray of int64, shape (n_steps,)
        The candidate that each step leads to.
    gain : ndarray of float, shape (n_steps,)
        What the step adds to the value.
    usage : sparse matrix, shape (n_rows, n_steps)
        What it adds to each row.
    room : ndarray of float, shape (n_rows,)
        What the first candidates leave of each limit.
    chain : sparse matrix
        ``chain @ z <= 0`` says that no step is taken without the one before it.
    base : float
        Value of the first candidates.
    """

    to: np.ndarray
    gain: np.ndarray
    usage: sparse.csr_matrix
    room: np.ndarray
    chain: sparse.csr_matrix
    base: float


def make_steps(core: Core) -> Steps:
    """Write a selection problem in steps."""
    first = core.starts[:-1]
    is_first = np.zeros(len(core.value), bool)
    is_first[first] = True
    to = np.flatnonzero(~is_first)
    value = core.value.astype(float)
    rows = [sparse.csr_matrix(row[to] - row[to - 1]) for row in core.usage]
    room = [
        limit - int(row[first].sum()) for row, limit in zip(core.usage, core.limits, strict=True)
    ]
    number = np.full(len(core.value), -1)
    number[to] = np.arange(len(to))
    later = np.flatnonzero(number[to - 1] >= 0)
    ones = np.ones(len(later))
    at = np.arange(len(later))
    chain = sparse.csr_matrix(
        (
            np.concatenate([ones, -ones]),
            (np.concatenate([at, at]), np.concatenate([later, number[to[later] - 1]])),
        ),
        shape=(len(later), len(to)),
    )
    return Steps(
        to=to,
        gain=value[to] - value[to - 1],
        usage=sparse.vstack(rows).tocsr(),
        room=np.array(room, float),
        chain=chain,
        base=float(value[first].sum()),
    )


def relax(steps: Steps, *, seconds: float) -> np.ndarray | None:
    """Multipliers of the rows from the linear relaxation; None where there were none in time."""
    n_rows = steps.usage.shape[0]
    size = max(1e-300, float(np.abs(steps.gain).max(initial=0.0)))
    options = {} if np.isinf(seconds) else {"time_limit": max(0.1, seconds)}
    result = linprog(
        -steps.gain / size,
        A_ub=sparse.vstack([steps.usage, steps.chain]),
        b_ub=np.concatenate([steps.room, np.zeros(steps.chain.shape[0])]),
        bounds=(0, 1),
        method="highs",
        options=options,
    )
    if result.status != 0:
        return None
    return np.asarray(np.maximum(0.0, -result.ineqlin.marginals[:n_rows]) * size)


def propose(steps: Steps, starts: np.ndarray, *, seconds: float) -> tuple[np.ndarray | None, float]:
    """Look for a good choice by HiGHS.

    Parameters
    ----------
    steps : Steps
        The problem.
    starts : ndarray of int64, shape (n_segments + 1,)
        Segment g owns the candidates ``starts[g]:starts[g + 1]``.
    seconds : float
        Time limit.

    Returns
    -------
    choice : ndarray of int64, shape (n_segments,), or None
        Not checked against the rows in integers.
    bound : float
        No choice is worth more, within the tolerance of HiGHS.
    """
    size = max(1e-300, float(np.abs(steps.gain).max(initial=0.0)))
    result = milp(
        -steps.gain / size,
        constraints=[
            LinearConstraint(steps.usage, ub=steps.room),
            LinearConstraint(steps.chain, ub=0.0),
        ],
        integrality=np.ones(len(steps.to)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0} | ({} if np.isinf(seconds) else {"time_limit": seconds}),
    )
    bound = np.inf
    if result.mip_dual_bound is not None and np.isfinite(result.mip_dual_bound):
        reached = -float(result.mip_dual_bound) * size
        bound = steps.base + reached + _TOLERANCE * (abs(steps.base) + abs(reached))
    if result.x is None:
        return None, bound
    choice = starts[:-1].copy()
    taken = steps.to[result.x > 0.5]
    owner = np.searchsorted(starts, taken, side="right") - 1
    np.maximum.at(choice, owner, taken)
    return choice, bound
