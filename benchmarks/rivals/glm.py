"""What else one could fit to rare events, each behind the same interface: a `Rival`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.glm_problems import Data


@dataclass(frozen=True)
class Fitted:
    """What a rival found.

    Attributes
    ----------
    coef, intercept : ndarray of shape (d,), float
        On the scale of the population, where the rival corrects for the sampling at all.
    predict : callable
        ``predict(X, exposure)`` gives the probabilities of being positive.
    standard_errors : ndarray of shape (d,) or None
        Of `coef`, where the rival has any.
    rate : float
        Share of the negatives that were fitted.
    kept : int or None
        How many rows were fitted, where the rival says so.
    note : str
        For the report.
    efficiency : ndarray of shape (d,) or None
        Precision of `coef`, relative to a fit of all rows, as the rival estimates it.
    """

    coef: np.ndarray
    intercept: float
    predict: Callable[[Any, np.ndarray | None], np.ndarray]
    standard_errors: np.ndarray | None = None
    rate: float = 1.0
    kept: int | None = None
    note: str = ""
    efficiency: np.ndarray | None = None


FitPrepared = Callable[[], Fitted]


@dataclass(frozen=True)
class Rival:
    """A way to fit.

    Attributes
    ----------
    name, settings : str
        What it is called, and how it is set, for the report.
    prepare : callable
        ``prepare(data, seed)`` does what needs no clock and returns a function without arguments
        that fits; or it raises `DoesNotFit` with the reason why the rival can't.
    """

    name: str
    settings: str
    prepare: Callable[[Data, int], FitPrepared]
