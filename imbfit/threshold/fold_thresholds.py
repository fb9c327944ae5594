"""The best thresholds of each fold alone, to show how much they vary."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from imbfit.exceptions import SearchWarning
from imbfit.threshold.search import ThresholdSearch


def thresholds_by_fold(
    tuning: Mapping[str, Any],
    fold: np.ndarray,
    search: Callable[[Mapping[str, Any]], ThresholdSearch],
    *,
    segments: Sequence[Any],
    bounded: bool,
) -> np.ndarray:
    """Search on each fold's rows alone.

    Parameters
    ----------
    tuning : mapping
        What the search on all rows got: vectors with an entry per row, and dicts of them.
    fold : ndarray of int, shape (n_rows,)
        The fold of each row.
    search : callable
        Searches on such a mapping, cut to the rows of a fold.
    segments : sequence
        Segments, in the order of the columns.
    bounded : bool
        Whether there are constraints. A fold's rows are then weighted up to the whole, so that a
        capacity means the same.

    Returns
    -------
    ndarray of float, shape (n_folds, n_segments)
        NaN where a fold alone has no answer.
    """
    spread = np.full((int(fold.max()) + 1, len(segments)), np.nan)
    for number in range(len(spread)):
        rows = np.flatnonzero(fold == number)
        own = cut_columns(tuning, rows)
        if bounded:
            weight = tuning["sample_weight"]
            weight = np.ones(len(fold)) if weight is None else weight
            own["sample_weight"] = weight[rows] * (weight.sum() / max(weight[rows].sum(), 1e-300))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SearchWarning)
                found = search(own)
        except ValueError:
            continue  # one class only, no rows of a segment, or infeasible on these rows alone
        spread[number] = [found.thresholds.get(name, np.nan) for name in segments]
    return spread


def cut_columns(values: Any, rows: np.ndarray) -> Any:
    """Cut vectors to some rows, also those in dicts."""
    if isinstance(values, dict):
        return {name: cut_columns(value, rows) for name, value in values.items()}
    return None if values is None else values[rows]
