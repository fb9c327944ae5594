"""The linear program of the paper for the adversary's marginals, at all sizes.

Equations (12) and (16), with the predictor's best reply in the sparser form "the sum of the k
largest of Z is the least of k u + sum_i max(0, Z_i - u)".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from imbfit.adversarial.paper import PaperGame, paper_game
from imbfit.adversarial.solution import Solution

if TYPE_CHECKING:
    from imbfit.adversarial.game import Game

__all__ = ["LARGEST", "solve_lp"]

Floats: TypeAlias = NDArray[np.float64]

#: Rows of the largest batch: the program has twice the square of them in variables and in rows, and
#: their cube in entries.
LARGEST = 60
# The dual simplex has been seen to fail where the interior point did not.
_METHODS = ("highs-ds", "highs-ipm")


def solve_lp(psi: Floats, game: Game) -> Solution:
    """Solve a game by the linear program of the paper.

    Parameters
    ----------
    psi : ndarray of shape (n_rows,)
        Scores.
    game : Game
        Without multiplicities, of up to 60 rows.

    Returns
    -------
    Solution
        The bounds are those of best replies to the two solutions of the program.

    Raises
    ------
    ValueError
        If rows have multiplicities, or there are too many.
    InfeasibleConstraints
        If no mix of predictions meets the requirements.
    """
    psi = np.asarray(psi, float)
    read = paper_game(
        game,
        len(psi),
        solver="lp",
        limit=LARGEST,
        instead='solver="auto", which solves the same game, or a smaller batch_size',
    )
    found = _solved(psi, read)
    n = len(psi)
    n_counts = len(read.counts)
    prices = found.x[-len(read.slack_slope) :] if len(read.slack_slope) else np.zeros(0)
    prices = np.maximum(prices, 0.0)
    Q, s = read.adversary(found.x[: n_counts * n].reshape(n_counts, n).T)
    shadow = -found.ineqlin.marginals[n_counts * n : (n_counts + n) * n].reshape(n, n).T
    P, r = read.predictor(np.hstack([np.zeros((n, 1)), shadow]))
    upper = read.upper(psi, Q, s, prices)
    played = np.flatnonzero(r)
    return Solution(
        upper,
        Q.sum(axis=1),
        played.astype(float),
        r[played],
        min(read.lower(psi, P, r, prices), upper),
        upper,
        int(found.nit),
    )


def _solved(psi: Floats, game: PaperGame) -> Any:
    """Solve for Q by count, s, u, W by size, the value and the prices, in this order."""
    n, counts = len(psi), game.counts
    n_counts, n_requirements = len(counts), len(game.slack_slope)
    eye, column = sparse.identity(n), np.ones((n, 1))
    # no row is likelier to be among l than that there are l
    caps = [sparse.identity(n_counts * n), -sparse.kron(sparse.identity(n_counts), column)]
    caps += [None, None, None, None]
    # Z_ik - u_k - W_ik <= 0 for k >= 1
    above = [sparse.kron(game.slope[1:], eye), sparse.csr_array((n * n, n_counts))]
    above += [-sparse.kron(eye, column), -sparse.identity(n * n), None]
    above += [sparse.kron(game.slack_slope[:, 1:].T, game.positive[:, None])]
    # what size k gets is no more than the value
    size = sparse.vstack([sparse.csr_array((1, n)), sparse.diags_array(np.arange(1.0, n + 1))])
    row = sparse.vstack([sparse.csr_array((1, n * n)), sparse.kron(eye, column.T)])
    gets = [None, sparse.csr_array(game.intercept), size, row]
    gets += [sparse.csr_array(-np.ones((n + 1, 1))), sparse.csr_array(game.slack_intercept.T)]
    rows = [caps, above, gets]
    if not n_requirements:
        rows = [part[:-1] for part in rows]
    A_ub = sparse.block_array(rows, format="csc")
    members = sparse.hstack(
        [sparse.kron(sparse.identity(n_counts), column.T), -sparse.diags_array(counts)]
    )
    total = sparse.hstack([sparse.csr_array((1, n_counts * n)), np.ones((1, n_counts))])
    A_eq = sparse.vstack([members, total])
    A_eq.resize((n_counts + 1, A_ub.shape[1]))
    at_value = n_counts * (n + 1) + n + n * n
    cost = np.zeros(A_ub.shape[1])
    cost[: n_counts * n] = np.tile(-psi, n_counts)
    cost[at_value] = 1.0
    low = np.zeros(len(cost))
    low[n_counts * (n + 1) : n_counts * (n + 1) + n] = low[at_value] = -np.inf
    for method in _METHODS:
        found = linprog(
            cost,
            A_ub=A_ub,
            b_ub=np.zeros(A_ub.shape[0]),
            A_eq=A_eq.tocsc(),
            b_eq=np.append(np.zeros(n_counts), 1.0),
            bounds=np.column_stack([low, np.full(len(cost), np.inf)]),
            method=method,
        )
        if found.status == 0:
            return found
    raise RuntimeError(
        f"the linear program of a batch of {n} rows could not be solved ({found.message}); use "
        'solver="auto"'
    )
