"""From the classifier's parameters to trained scores, on all rows or on those of a fold."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from imbfit.adversarial.directions import Directions, directions_for, score_rows
from imbfit.adversarial.fitting import Fitted, fit_batches, fit_rows
from imbfit.adversarial.level import Height, height_of
from imbfit.adversarial.players import Players, Rows
from imbfit.adversarial.settings import Settings
from imbfit.adversarial.solving import MOST_EXACT_ROWS

__all__ = ["check_scale", "players_of", "trained", "trained_and_scored"]

# Of the logistic fit that an anchor is: apart from C, which then says how far to leave it.
_ANCHOR_C = 1.0
# With a weaker ridge rounding takes the certificate.
_MOST_RIDGE = 1e15
# Another tolerance takes another way, and may end at a larger gap.
_ROOM = 1.5


def trained(
    model: Any,
    rows: Rows,
    settings: Settings,
    *,
    start: tuple[np.ndarray, float] | None,
    seed: int | None,
    share: float = 1.0,
    warn: bool = True,
) -> Fitted:
    """Train on a share of all rows as the parameters say.

    The ridge sets the scale of the scores. So a share of the rows gets the ridge of them all:
    with one of its own its scores would be shorter, and the cut found on them too low.
    """
    C = float(model.C) / share
    columns = rows.X.shape[1]
    anchor = None if model.anchor is None else _logistic(rows, _ANCHOR_C)[0]
    if start is None:
        start = (np.zeros(columns), 0.0) if model.init == "zeros" else _logistic(rows, C)
    level = model.count == "expected" and bool(model.fit_intercept)
    directions: Directions = directions_for(rows.X, level=level, anchor=anchor)
    players = players_of(model, settings)
    tell = _print_line if model.verbose else _stay_silent
    common: dict[str, Any] = {"C": C, "start": start, "tell": tell}
    common |= {"tol": float(model.tol), "max_iter": int(model.max_iter)}
    if model.batch_size is None or model.batch_size >= len(rows.positive):
        _check_ridge(C, rows)
        fitted = fit_rows(rows, directions, players, **common)
    else:
        check_scale(players)
        rng = np.random.default_rng(seed)
        fitted = fit_batches(
            rows, directions, players, batch_size=model.batch_size, rng=rng, **common
        )
    if warn and not fitted.converged:
        warnings.warn(_told(model, rows, fitted), ConvergenceWarning, stacklevel=3)
    return fitted


def trained_and_scored(
    model: Any,
    rows: Rows,
    settings: Settings,
    train: np.ndarray,
    test: np.ndarray,
    *,
    seed: int | None,
) -> tuple[np.ndarray, Height]:
    """Train on the rows of a fold, and score those that it tests."""
    part = rows.some(train).counted()
    share = part.total / rows.total
    if not players_of(model, settings).keeps_scale:
        # a bound on a count is meant for all rows, so the part stands for them
        part, share = part.scaled(1.0 / share), 1.0
    fitted = trained(model, part, settings, start=None, seed=seed, share=share, warn=False)
    height = height_of(score_rows(part.X, fitted.slopes, 0.0), part.weight, part.positives)
    return score_rows(rows.X[test], fitted.slopes, 0.0), height


def batch_seed(model: Any) -> int | None:
    """Draw what the minibatches of one training are drawn by; None where there are none."""
    if model.batch_size is None:
        return None
    return int(check_random_state(model.random_state).randint(2**31 - 1))


def players_of(model: Any, settings: Settings) -> Players:
    """Return how the games are solved."""
    return Players(
        settings.payoff, settings.requirements, model.count, model.solver, 0.1 * float(model.tol)
    )


def check_scale(players: Players) -> None:
    """Raise if a batch does not have the metric and the constraints of all rows."""
    for each in (players.payoff, *players.requirements):
        if not each.keeps_scale:
            raise ValueError(
                f"{each.name} reads a count that means something else for a batch than for all "
                "rows; write it as a rate (recall >= 0.8, pp / n <= 0.01), or train on all rows at "
                "once with batch_size=None"
            )


def _told(model: Any, rows: Rows, fitted: Fitted) -> str:
    """Return what to say of a fit that ended above the tolerance."""
    if fitted.history and not fitted.history[-1].sound:
        return (
            "training ended without a certificate: rounding put the bound above the objective. "
            "Columns of X are of very different scale, or far from 0 for their spread; put a "
            "StandardScaler before, or lower C"
        )
    if fitted.left_open is None:
        reached = f"{fitted.history[-1].gap:.2g}" if fitted.history else "unknown"
        return (
            f"training stopped after max_iter={model.max_iter} with a relative gap of {reached}, "
            f"above tol={model.tol}; raise max_iter or tol, or lower C"
        )
    gap, how, fewer = fitted.history[-1].gap, "", ""
    if len(rows.positive) > MOST_EXACT_ROWS:
        how = f"on blocks of rows, as there are more than {MOST_EXACT_ROWS}, and "
        fewer = f", or at most {MOST_EXACT_ROWS} rows"
    return (
        f"training ended with a certified relative gap of {gap:.2g}, above tol={model.tol}: the "
        f"game of {len(rows.positive)} rows has no closed form and is solved {how}only to a gap of "
        f"about {fitted.left_open:.1g}, so that more steps close no more. Give a larger tol, such "
        f"as tol={_rounded_up(_ROOM * gap)}{fewer}"
    )


def _rounded_up(number: float) -> str:
    """Return the least number of one digit that is no smaller."""
    place = 10.0 ** math.floor(math.log10(number))
    return f"{math.ceil(number / place) * place:.1g}"


def _check_ridge(C: float, rows: Rows) -> None:
    if C * rows.total > _MOST_RIDGE:
        raise ValueError(
            f"C={C:g} times a summed weight of {rows.total:g} leaves a ridge of "
            f"{1 / C / rows.total:.1g}, too little for a certificate; give a smaller C, or divide "
            "sample_weight by a constant"
        )


def _logistic(rows: Rows, C: float) -> tuple[np.ndarray, float]:
    """Return the slopes and the intercept of a logistic fit."""
    model = LogisticRegression(C=C, max_iter=200)
    with warnings.catch_warnings():
        # it is where training starts, and need not be the very best
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows.X, rows.positive, sample_weight=rows.weight)
    return model.coef_[0].astype(np.float64), float(model.intercept_[0])


def _print_line(line: str) -> None:
    print(line)  # noqa: T201  verbose asks for it


def _stay_silent(_: str) -> None:
    pass
