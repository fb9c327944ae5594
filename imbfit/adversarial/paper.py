r"""The game of Fathony and Kolter in the marginals of the two players.

With P_ik the probability that the predictor flags row i among k rows in all, r_k that of k rows,
and Q_il, s_l the same of the adversary's labels, the expected payoff is

.. math:: \sum_{kl} S_{kl} \sum_i P_{ik} Q_{il} + \sum_{kl} G_{kl} r_k s_l

for the payoff's slopes S and intercepts G: bilinear, in two polytopes of quadratic size. A
requirement is the same at the observed labels, linear in the predictor's marginals.

Best replies give bounds whatever solver has found the marginals. The adversary's Q holds the
predictor to a value, where a price a_r >= 0 of each requirement makes its payoff
``payoff + sum of a_r slack_r``; the predictor's P holds the adversary to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.requirements import target_for

if TYPE_CHECKING:
    from imbfit.adversarial.game import Game

__all__ = ["PaperGame", "paper_game"]

Floats: TypeAlias = NDArray[np.float64]

# A requirement that is missed by no more than this is met.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class PaperGame:
    """Tables of a game for all sizes.

    Attributes
    ----------
    counts : ndarray of shape (n_counts,)
        How many positives the adversary's labels may have.
    intercept, slope : ndarray of shape (n_rows + 1, n_counts)
        The payoff for 0, ..., n predicted positives.
    positive : ndarray of shape (n_rows,)
        1 for the observed positives.
    slack_intercept, slack_slope : ndarray of shape (n_requirements, n_rows + 1)
        The requirements at the observed number of positives.
    target : ndarray of shape (n_rows, n_rows + 1)
        Marginals of the predictor that meet them.
    left : ndarray of shape (n_requirements,)
        With this much slack.
    """

    counts: Floats
    intercept: Floats
    slope: Floats
    positive: Floats
    slack_intercept: Floats
    slack_slope: Floats
    target: Floats
    left: Floats

    def adversary(self, Q: Floats) -> tuple[Floats, Floats]:
        """Return marginals close to the adversary's polytope as ones within it.

        Parameters
        ----------
        Q : ndarray of shape (n_rows, n_counts)
            The column of the count 0 is not read.

        Returns
        -------
        Q : ndarray of shape (n_rows, n_counts)
        s : ndarray of shape (n_counts,)
            Probabilities of the counts.
        """
        return _within(Q, self.counts)

    def predictor(self, P: Floats) -> tuple[Floats, Floats]:
        """Return marginals close to the predictor's polytope as ones within it.

        Parameters
        ----------
        P : ndarray of shape (n_rows, n_rows + 1)
            The column of the size 0 is not read.

        Returns
        -------
        P : ndarray of shape (n_rows, n_rows + 1)
        r : ndarray of shape (n_rows + 1,)
            Probabilities of the sizes.

        Notes
        -----
        As much of the target is mixed in as the requirements need.
        """
        sizes = np.arange(float(P.shape[1]))
        P, r = _within(P, sizes)
        slack = self.slack(P, r)
        missed = (slack < 0.0) & (self.left > 0.0)
        if not missed.any():
            return P, r
        share = float(np.max(slack[missed] / (slack[missed] - self.left[missed])))
        return _within((1.0 - share) * P + share * self.target, sizes)

    def slack(self, P: Floats, r: Floats) -> Floats:
        """Return the mean slack of each requirement.

        Parameters
        ----------
        P, r : ndarray
            The predictor's marginals.

        Returns
        -------
        ndarray of shape (n_requirements,)
        """
        found: Floats = self.slack_intercept @ r + self.slack_slope @ (self.positive @ P)
        return found

    def upper(self, psi: Floats, Q: Floats, s: Floats, prices: Floats) -> float:
        """Return what the predictor's best reply to the adversary gets.

        Parameters
        ----------
        psi : ndarray of shape (n_rows,)
            Scores.
        Q, s : ndarray
            The adversary's marginals.
        prices : ndarray of shape (n_requirements,)
            At least 0. The value of the game is no greater, whatever they are.

        Returns
        -------
        float
        """
        worth = Q @ self.slope.T + np.outer(self.positive, prices @ self.slack_slope)
        certain = self.intercept @ s + prices @ self.slack_intercept
        return float(
            (certain + _largest(worth, np.arange(float(len(certain))))).max() - psi @ Q.sum(axis=1)
        )

    def lower(self, psi: Floats, P: Floats, r: Floats, prices: Floats) -> float:
        """Return what the adversary's best reply leaves the predictor.

        Parameters
        ----------
        psi : ndarray of shape (n_rows,)
            Scores.
        P, r : ndarray
            The predictor's marginals.
        prices : ndarray of shape (n_requirements,)
            What a requirement without slack that is missed by rounding is charged.

        Returns
        -------
        float
        """
        worth = P @ self.slope - psi[:, None]
        least = -_largest(-worth, self.counts)
        missed = np.maximum(0.0, -self.slack(P, r))
        if (missed > _ROUNDING).any():
            return -np.inf
        return float((r @ self.intercept + least).min() - prices @ missed)


def paper_game(game: Game, n_scores: int, *, solver: str, limit: int, instead: str) -> PaperGame:
    """Read the tables of a game, and refuse what the solvers of the paper can't take.

    Parameters
    ----------
    game : Game
        The payoff, the requirements, the labels and how they bind the adversary.
    n_scores : int
        Rows.
    solver : str
        For messages.
    limit : int
        The most rows it takes.
    instead : str
        What to write where there are more.

    Returns
    -------
    PaperGame

    Raises
    ------
    ValueError
        If rows have multiplicities, or there are too many.
    InfeasibleConstraints
        If no mix of predictions meets the requirements.
    """
    n = len(game.labels)
    if n_scores != n:
        raise ValueError(f"psi has {n_scores} scores for {n} labels; give one for each row")
    if game.multiplicity is not None:
        raise ValueError(
            f'solver="{solver}" plays one row for one, and this game has rows that count more or '
            'less than once; use solver="auto", which takes weights and binned rows'
        )
    if n > limit:
        raise ValueError(
            f'a batch of {n} rows is too large for solver="{solver}", which takes up to {limit}; '
            f"use {instead}"
        )
    positive = np.asarray(game.labels, float)
    ap = float(positive.sum())
    sizes = np.arange(n + 1.0)
    counts = sizes if game.count == "expected" else np.array([ap])
    intercept, slope = game.payoff.tables(sizes[:, None], counts[None, :], n)
    slack, slack_slope = np.zeros((2, len(game.requirements), n + 1))
    for row, requirement in enumerate(game.requirements):
        slack[row], slack_slope[row] = requirement.tables(sizes, ap, n)
    names = [requirement.name for requirement in game.requirements]
    met = target_for(names, sizes, ap, float(n), slack, slack_slope)
    target = np.zeros((n, n + 1))
    for size, hits, share in zip(met.size, met.hits, met.mix, strict=True):
        target[:, size] += share * np.where(
            game.labels, hits / max(1.0, ap), (sizes[size] - hits) / max(1.0, n - ap)
        )
    return PaperGame(counts, intercept, slope, positive, slack, slack_slope, target, met.left)


def _largest(worth: Floats, sizes: Floats) -> Floats:
    """Return the sum of the so many largest entries of each column."""
    n, columns = worth.shape
    sums = np.zeros((n + 1, columns))
    np.cumsum(-np.sort(-worth, axis=0), axis=0, out=sums[1:])
    found: Floats = sums[sizes.astype(int), np.arange(columns)]
    return found


def _within(M: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return marginals of probabilities by size from what is nearly that, and these."""
    M = np.maximum(M, 0.0)
    M[:, sizes == 0.0] = 0.0
    total = M.sum(axis=0)
    share = total / np.maximum(sizes, 1.0)
    # no row is likelier to be among k than that there are k; what is cut off goes to the others
    M = np.minimum(M, share)
    room = len(M) * share - M.sum(axis=0)
    lacking = total - M.sum(axis=0)
    M += (share - M) * np.divide(lacking, room, out=np.zeros_like(room), where=room > 0.0)
    mass = share.sum()
    if sizes[0] == 0.0 and mass < 1.0:
        share[0] = 1.0 - mass
    elif mass > 0.0:
        M, share = M / mass, share / mass
    else:
        M[:], share[:] = sizes / (len(M) * len(sizes)), 1.0 / len(sizes)
    return M, share
