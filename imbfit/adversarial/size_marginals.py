"""The game restricted to some sizes of both players, with all their sets: an LP in marginals.

The adversary plays its sizes l with probability s_l and marginals q_l in [0, s_l] that sum to
l s_l. The predictor's best set of size k is the sum of its k largest gains, in its dual form

    k mu_k + sum_i c_ki    with    c_ki >= (sum_l S_kl q_l)_i - mu_k,  c_ki >= 0,

and the duals of these rows are the predictor's marginals. Exact for the sizes in play, of which an
optimum needs few where the scores are small: there a game needs many sets (see
:mod:`imbfit.adversarial.restricted`), but few sizes.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from imbfit.adversarial.board import Adversary, Board, Predictor
from imbfit.adversarial.linear_program import minimised

__all__ = ["solve_sizes"]

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]

# Its dual has fewer degenerate steps: 3 times faster where sizes are many.
_FROM_THE_DUAL = "solve_dual_problem: ALWAYS_DO"


def solve_sizes(
    board: Board, taken: Positions, actual: Positions
) -> tuple[float, Adversary, Predictor] | None:
    """Solve the game restricted to some sizes.

    Parameters
    ----------
    board : Board
        The game, in the order of the scores.
    taken, actual : ndarray of int
        Positions of the sizes of the predictor and of the adversary.

    Returns
    -------
    value : float
    adversary : Adversary
    predictor : Predictor
    None
        In place of these, where the LP engine fails.
    """
    weight, n = board.weight, len(board.psi)
    total = float(weight.sum())
    n_taken, n_actual, n_req = len(taken), len(actual), len(board.slack)
    sizes = 1 + n_req
    cuts = sizes + n_actual
    q = cuts + n_taken
    over = q + n_actual * n
    width = over + n_taken * n
    at_q, at_over = np.arange(n_actual * n), np.arange(n_taken * n)
    slope = board.slope[np.ix_(taken, actual)]
    # a share is at most its size's probability
    rows, columns = [at_q, at_q], [q + at_q, sizes + at_q // n]
    values = [np.ones(n_actual * n), -np.ones(n_actual * n)]
    # a gain less the cut is at most what is over
    base = n_actual * n
    of, block = at_over // n, at_over % n
    rows += [base + at_over] * (2 + n_actual)
    columns += [cuts + of, over + at_over]
    columns += [q + played * n + block for played in range(n_actual)]
    values += [-np.ones(n_taken * n)] * 2 + [slope[of, played] for played in range(n_actual)]
    positive = np.zeros(n)
    positive[board.parts[0]] = 1.0
    for requirement in range(n_req):
        rows.append(base + at_over)
        columns.append(np.full(n_taken * n, 1 + requirement))
        values.append(board.slack_slope[requirement, taken][of] * positive[block])
    # each size gets at most v
    base += n_taken * n
    rows.append(base + of)
    columns.append(over + at_over)
    values.append(weight[block])
    dense = np.zeros((n_taken, q))
    dense[:, 0] = -1.0
    dense[:, 1:sizes] = board.slack[:, taken].T
    dense[:, sizes:cuts] = board.intercept[np.ix_(taken, actual)]
    dense[np.arange(n_taken), cuts + np.arange(n_taken)] = board.taken[taken]
    rows.append(base + np.repeat(np.arange(n_taken), q))
    columns.append(np.tile(np.arange(q), n_taken))
    values.append(dense.ravel())
    # the mean sizes, and the probabilities
    base += n_taken
    each = np.arange(n_actual)
    rows += [base + at_q // n, base + each, np.full(n_actual, base + n_actual)]
    columns += [q + at_q, sizes + each, sizes + each]
    values += [np.tile(weight, n_actual) / total, -board.actual[actual] / total, np.ones(n_actual)]
    height = base + n_actual + 1
    matrix = sparse.csr_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(height, width),
    )
    low, high = np.full(height, -np.inf), np.zeros(height)
    low[base:] = 0.0
    low[-1] = high[-1] = 1.0
    cost, least = np.zeros((2, width))
    cost[0] = 1.0
    cost[q:over] = -np.tile(board.psi * weight, n_actual)
    least[0] = -np.inf
    least[cuts:q] = -np.inf
    found = minimised(cost, matrix, low, high, least, _FROM_THE_DUAL)
    if found is None:
        return None
    value, x, dual = found
    odds = np.maximum(x[sizes:cuts], 0.0)
    shares = np.clip(x[q:over].reshape(n_actual, n), 0.0, odds[:, None])
    adversary = Adversary(actual, odds, shares, np.maximum(x[1:sizes], 0.0))
    rows_of_cuts = slice(n_actual * n, n_actual * n + n_taken * n)
    flagged = -dual[rows_of_cuts].reshape(n_taken, n) / weight
    mix = np.maximum(-dual[base - n_taken : base], 0.0)
    used = mix > 1e-12
    member = np.clip(flagged[used] / mix[used, None], 0.0, 1.0)
    return value, adversary, Predictor(taken[used], member, mix[used] / mix[used].sum())
