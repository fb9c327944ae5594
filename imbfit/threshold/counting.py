"""Rows as they come, counted over all thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from imbfit.threshold.table import CandidateTables, build_tables


def count_rows(
    positive: np.ndarray,
    score: np.ndarray,
    *,
    segments: tuple[np.ndarray | None, tuple[Any, ...]],
    weight: np.ndarray | None,
    columns: Mapping[str, np.ndarray],
    groups: Mapping[str, np.ndarray] | None = None,
    grid: np.ndarray | None = None,
) -> CandidateTables:
    """Count rows of which some may have the weight 0, which is no row.

    Parameters
    ----------
    positive : ndarray of bool, shape (n_rows,)
        Labels.
    score : ndarray of float, shape (n_rows,)
        Scores; -inf is never flagged by a finite threshold.
    segments : (ndarray of int or None, tuple)
        The number of each row's segment, and the segments.
    weight : ndarray of float or None, shape (n_rows,)
        How often each row counts.
    columns, groups : mapping of str to ndarray of shape (n_rows,)
        Columns that formulas sum up, and those that capacities name.
    grid : ndarray of float, default=None
        Candidate thresholds; None takes all distinct scores.

    Returns
    -------
    CandidateTables
        The counts.
    """
    codes, names = segments
    keep = np.ones(len(positive), bool) if weight is None else weight > 0
    return build_tables(
        positive[keep],
        score[keep],
        segment_codes=None if codes is None else codes[keep],
        segment_names=names,
        weight=None if weight is None else weight[keep],
        columns={name: column[keep] for name, column in columns.items()},
        per={name: group[keep] for name, group in (groups or {}).items()},
        grid=grid,
    )
