"""Ready sensitivity tables to candidate tables."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from imbfit._labels import check_length, column_vector
from imbfit.threshold.segments import encode_segments
from imbfit.threshold.table import CandidateTables, Sums, to_integers

_CELLS = ("tp", "fp", "fn", "tn")


def read_table(table: Any) -> CandidateTables:
    """Read a frame of thresholds and cells.

    Parameters
    ----------
    table : frame or mapping of str to array-like
        See :func:`imbfit.search_table`.

    Returns
    -------
    CandidateTables

    Raises
    ------
    ValueError
        If a column is missing, or lines of a segment count different rows.
    """
    names = [str(name) for name in getattr(table, "columns", table)]
    lacking = [name for name in ("threshold", *_CELLS) if name not in names]
    if lacking:
        raise ValueError(
            f"the table has no column {lacking[0]!r}; it has {names}, and needs threshold, "
            f"{', '.join(_CELLS)}"
        )
    cut = np.asarray(column_vector(table["threshold"], "threshold"), float)
    rows = len(cut)
    if rows == 0:
        raise ValueError("the table has no lines")
    if np.isnan(cut).any():
        raise ValueError("the column threshold has NaN; nobody is inf and everybody -inf")
    codes, segments = encode_segments(table["segment"] if "segment" in names else None, rows)
    if codes is None:
        codes = np.zeros(rows, np.int64)
    order = np.lexsort((-cut, codes))
    cut, codes = cut[order], codes[order]
    # a column counts as an amount with all four cells; a table of ours may show fn["amount"] alone
    found = [re.fullmatch(r"(tp|fp|fn|tn)\[([^\[\]]+)\]", name) for name in names]
    cells_of: dict[str, set[str]] = {}
    for match in found:
        if match is not None and not match[2].startswith('"'):
            cells_of.setdefault(match[2], set()).add(match[1])
    amounts = sorted(cells_of)

    edges = np.searchsorted(codes, np.arange(len(segments) + 1))
    starts = edges + 2 * np.arange(len(segments) + 1)
    slots = np.arange(rows) + 2 * codes + 1
    thresholds = np.empty(starts[-1])
    thresholds[slots] = cut
    thresholds[starts[:-1]], thresholds[starts[1:] - 1] = np.inf, -np.inf

    def sums(column: str | None) -> Sums:
        part = _cells(table, names, column, order)
        ap, an = part["tp"] + part["fn"], part["fp"] + part["tn"]
        for kind, whole in (("tp + fn", ap), ("fp + tn", an)):
            first = np.repeat(whole[edges[:-1]], np.diff(edges))
            off = np.abs(whole - first) > 1e-9 * np.maximum(1.0, np.abs(first))
            if off.any():
                line = int(order[np.flatnonzero(off)[0]])
                raise ValueError(
                    f"line {line} of the table has {kind} = {whole[off][0]:g} where its segment "
                    f"{segments[codes[np.flatnonzero(off)[0]]]!r} has {first[off][0]:g}; all lines "
                    "of a segment must count the same rows"
                )
        stacked = np.concatenate(
            [part["tp"], part["tp"] + part["fp"], ap[edges[:-1]], (ap + an)[edges[:-1]]]
        )
        if column is None:
            _check_lines(cut, codes, order, part)
        whole, scale, error = to_integers(stacked)
        tp, pp, total_ap, total = np.split(whole, [rows, 2 * rows, 2 * rows + len(segments)])

        def spread(values: np.ndarray, everybody: np.ndarray) -> np.ndarray:
            result = np.zeros(starts[-1], np.int64)
            result[slots] = values
            result[starts[1:] - 1] = everybody
            return result

        return Sums(spread(tp, total_ap), spread(pp, total), total_ap, total, scale, error)

    return CandidateTables(
        segments=segments,
        starts=starts,
        above=thresholds.copy(),
        rows=sums(None),
        columns={name: sums(name) for name in amounts},
        grid=thresholds,
    )


def _cells(
    table: Any, names: list[str], column: str | None, order: np.ndarray
) -> dict[str, np.ndarray]:
    """Read the four cells of the rows, or of a per-row column, in the order of the thresholds."""
    found = {}
    for cell in _CELLS:
        name = cell if column is None else f"{cell}[{column}]"
        if name not in names:
            raise ValueError(f"the table has no column {name!r}")
        array = np.asarray(column_vector(table[name], name), float)
        check_length(array, len(order), name)
        if not np.isfinite(array).all() or (column is None and (array < 0).any()):
            raise ValueError(f"the column {name} has NaN, infinite or negative entries")
        found[cell] = array[order]
    return found


def _check_lines(
    cut: np.ndarray, codes: np.ndarray, order: np.ndarray, cells: dict[str, np.ndarray]
) -> None:
    """Refuse counts that no scores have: a lower threshold flags at least as many."""
    for cell, others in (("tp", "positive"), ("fp", "negative")):
        if not (cells[cell] + cells["fn" if cell == "tp" else "tn"]).any():
            raise ValueError(
                f"the table has no {others} rows; a threshold is chosen between two classes"
            )
        step = np.diff(cells[cell])
        same = codes[1:] == codes[:-1]
        wrong = same & (step < -1e-9 * np.maximum(1.0, cells[cell][1:]))
        wrong |= same & (cut[1:] == cut[:-1]) & (step > 1e-9 * np.maximum(1.0, cells[cell][1:]))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"lines {order[at]} and {order[at + 1]} of the table have the thresholds "
                f"{cut[at]:g} and {cut[at + 1]:g} but {cell} = {cells[cell][at]:g} and "
                f"{cells[cell][at + 1]:g}; a lower threshold flags at least as many"
            )
