"""From rows to trained scores: all at once, in minibatches, or as a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.directions import Directions, column_spreads
from imbfit.adversarial.full_batch import FullBatch
from imbfit.adversarial.minibatches import Stream, even_batches, pass_over
from imbfit.adversarial.players import Play, Players, Rows
from imbfit.adversarial.training import SMALLEST_LOSS, Progress, Trained, train

__all__ = [
    "Fitted",
    "OpenStream",
    "fit_batches",
    "fit_rows",
    "open_stream",
    "stream_rows",
]

Floats: TypeAlias = NDArray[np.float64]

# Passes without a gain after which training by minibatches ends.
_PATIENCE = 5
# Games have a gap relative to the range, training one relative to an objective that may be a small
# part of it. So games may have to be solved closer; this close is what rounding allows.
_CLOSER, _FINEST = 1e-2, 1e-9


@dataclass(frozen=True)
class Fitted:
    """Trained scores.

    Attributes
    ----------
    slopes : ndarray of shape (n_columns,)
        Greater scores are positive.
    level : float
        Constant of the scores in training.
    game_value : float
        J, in the metric's units and direction.
    history : list of Progress
        Empty where there is no certificate.
    iterations : int
        Steps, or passes.
    converged : bool
        Whether the tolerance was reached.
    left_open : float or None
        Where training ended since the games are not solved any better: the gap of the game at the
        coefficients, relative as the gap of training is. Else None.
    """

    slopes: Floats
    level: float
    game_value: float
    history: list[Progress]
    iterations: int
    converged: bool
    left_open: float | None = None


def fit_rows(
    rows: Rows,
    directions: Directions,
    players: Players,
    *,
    C: float,
    start: tuple[Floats, float],
    tol: float,
    max_iter: int,
    tell: Callable[[str], None],
) -> Fitted:
    """Train on all rows at once, with a certificate.

    Parameters
    ----------
    rows : Rows
        What to train on.
    directions : Directions
        Of the same rows.
    players : Players
        How games are solved.
    C : float
        Inverse strength of the ridge.
    start : tuple of ndarray and float
        Slopes and level to begin with.
    tol : float
        Relative gap.
    max_iter : int
        Steps.
    tell : callable
        Gets a line now and then.

    Returns
    -------
    Fitted
    """
    loss = _loss_on(rows, directions, players)
    trained = train(
        loss,
        ridge=directions.ridge(1.0 / (C * rows.total)),
        start=directions.start(*start),
        tol=tol,
        max_iter=max_iter,
        tell=tell,
    )
    slopes, level = directions.parts(trained.coef)
    value = _game_value(loss, trained.coef, players)
    blunt = trained.settled and trained.history[-1].sound
    left_open = _left_open(loss, trained) if blunt else None
    return Fitted(
        slopes, level, value, trained.history, trained.iterations, trained.converged, left_open
    )


def fit_batches(
    rows: Rows,
    directions: Directions,
    players: Players,
    *,
    C: float,
    start: tuple[Floats, float],
    batch_size: int,
    rng: np.random.Generator,
    tol: float,
    max_iter: int,
    tell: Callable[[str], None],
) -> Fitted:
    """Train by passes over minibatches.

    Parameters
    ----------
    rows : Rows
        What to train on.
    directions : Directions
        Of the same rows.
    players : Players
        How games are solved.
    C : float
        Inverse strength of the ridge.
    start : tuple of ndarray and float
        Slopes and level to begin with.
    batch_size : int
        Rows of a batch, at most.
    rng : Generator
        Draws the batches.
    tol : float
        Relative gain of the mean objective below which a pass counts for nothing.
    max_iter : int
        Passes.
    tell : callable
        Gets a line for each pass.

    Returns
    -------
    Fitted
    """
    ridge = directions.ridge(1.0 / (C * rows.total))
    stream = Stream(directions.start(*start))
    loss_of = _batch_loss(rows, directions, players)
    best, mean, idle, passes = np.inf, np.inf, 0, 0
    while passes < max_iter and idle < _PATIENCE:
        batches = even_batches(rows.positive, batch_size, rng)
        mean = pass_over(stream, batches, loss_of, ridge)
        passes += 1
        idle = 0 if mean < best - tol * abs(best) or not np.isfinite(best) else idle + 1
        best = min(best, mean)
        tell(f"pass {passes}: mean objective of the batches {mean:.8g}")
    slopes, level = directions.parts(stream.mean)
    sign = 1.0 if players.payoff.greater_is_better else -1.0
    value = -sign * mean * players.payoff.range(rows.positives, rows.total)
    history: list[Progress] = []
    if players.may_be_closed and (play := players.on(rows)).exact:
        loss = _loss_on(rows, directions, players, play)
        history = [_certificate(loss, stream.mean, ridge)]
        value = _game_value(loss, stream.mean, players)
    return Fitted(slopes, level, value, history, passes, idle >= _PATIENCE)


@dataclass
class OpenStream:
    """A stream of rows, between calls.

    Attributes
    ----------
    spread : ndarray of shape (n_columns,)
        Of the first rows.
    level : bool
        Whether the scores have a free constant.
    stream : Stream
        Where the training stands.
    """

    spread: Floats
    level: bool
    stream: Stream


def open_stream(
    rows: Rows, *, level: bool, start: tuple[Floats, float] | None = None
) -> OpenStream:
    """Begin a stream; columns are scaled by these first rows.

    Parameters
    ----------
    rows : Rows
        The first ones.
    level : bool
        Whether the scores have a free constant.
    start : tuple of ndarray and float, default=None
        Slopes and level to begin with, zero by default.

    Returns
    -------
    OpenStream
    """
    directions = Directions(rows.X, column_spreads(rows.X), level, None)
    slopes, constant = (np.zeros(rows.X.shape[1]), 0.0) if start is None else start
    return OpenStream(directions.spread, level, Stream(directions.start(slopes, constant)))


def stream_rows(
    opened: OpenStream,
    rows: Rows,
    players: Players,
    *,
    C: float,
    batch_size: int | None,
    rng: np.random.Generator,
) -> Fitted:
    """Pass once over rows of a stream.

    Parameters
    ----------
    opened : OpenStream
        Is moved on.
    rows : Rows
        New ones.
    players : Players
        How games are solved.
    C : float
        Inverse strength of the ridge, for as many rows as there were so far.
    batch_size : int or None
        Rows of a batch, at most; None for one batch of all.
    rng : Generator
        Draws the batches.

    Returns
    -------
    Fitted
    """
    directions = Directions(rows.X, opened.spread, opened.level, None)
    ridge = directions.ridge(1.0 / (C * (opened.stream.rows + len(rows.positive))))
    batches = even_batches(rows.positive, batch_size or len(rows.positive), rng)
    mean = pass_over(opened.stream, batches, _batch_loss(rows, directions, players), ridge)
    slopes, level = directions.parts(opened.stream.mean)
    sign = 1.0 if players.payoff.greater_is_better else -1.0
    scale = players.payoff.range(rows.positives, rows.total)
    return Fitted(slopes, level, -sign * scale * mean, [], opened.stream.steps, converged=False)


def _loss_on(
    rows: Rows, directions: Directions, players: Players, play: Play | None = None
) -> FullBatch:
    scale = players.payoff.range(rows.positives, rows.total) or 1.0
    positive = rows.positive.astype(np.float64)
    if play is None:
        # they are asked for a share of what is left to gain, and this is the least of it
        finest = max(_CLOSER * players.tol, min(players.tol, _FINEST))
        play = replace(players, tol=finest).on(rows, coarsest=players.coarse)
    return FullBatch(directions, positive, rows.weight, play, scale)


def _batch_loss(
    rows: Rows, directions: Directions, players: Players
) -> Callable[[NDArray[np.intp], Floats], tuple[float, Floats]]:
    """Return the loss of a batch, whose games are prepared once for each number of positives."""
    prepared: dict[tuple[int, float], tuple[Play, float]] = {}

    def loss_of(which: NDArray[np.intp], w: Floats) -> tuple[float, Floats]:
        batch = rows.some(which)
        key = (len(which), batch.positives)
        if rows.weight is not None or players.requirements or key not in prepared:
            scale = players.payoff.range(batch.positives, batch.total) or 1.0
            prepared[key] = players.on(batch), scale
        play, scale = prepared[key]
        own = Directions(batch.X, directions.spread, directions.level, directions.anchor)
        loss = FullBatch(own, batch.positive.astype(np.float64), batch.weight, play, scale)
        upper, _, slope = loss(w)
        return upper, slope

    return loss_of


def _game_value(loss: FullBatch, w: Floats, players: Players) -> float:
    sign = 1.0 if players.payoff.greater_is_better else -1.0
    return -sign * loss(w)[0] * loss.scale


def _left_open(loss: FullBatch, trained: Trained) -> float:
    upper, lower, _ = loss(trained.coef)
    end = trained.history[-1]
    # solved once more it may end at another gap, where that of training has told more already
    return min((upper - lower) / max(abs(end.objective), SMALLEST_LOSS), end.gap)


def _certificate(loss: FullBatch, w: Floats, ridge: Floats) -> Progress:
    """Return the gap that the tangent at one point certifies."""
    upper, lower, slope = loss(w)
    objective = upper + 0.5 * float(w @ (ridge * w))
    bound = lower - float(slope @ w) - 0.5 * float(slope @ (slope / ridge))
    return Progress(1, objective, bound)
