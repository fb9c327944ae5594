"""Ready sensitivity tables."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from imbfit import InfeasibleConstraints, search_table
from imbfit.metrics import (
    capacity,
    cost,
    each_segment,
    f1,
    fn,
    fp,
    mcc,
    pp,
    precision,
    recall,
    threshold,
    tp,
)
from imbfit.threshold.ready import read_table

TABLE = {
    "threshold": [0.05, 0.71, 0.35],
    "tp": [48, 30, 40],
    "fp": [15, 2, 5],
    "fn": [2, 20, 10],
    "tn": [85, 98, 95],
}
TWO = {
    "segment": ["b", "a", "a", "b", "a"],
    "threshold": [0.5, 0.2, 0.6, 0.3, 0.4],
    "tp": [3, 9, 2, 4, 6],
    "fp": [1, 8, 0, 4, 2],
    "fn": [2, 1, 8, 1, 4],
    "tn": [9, 12, 20, 6, 18],
    "tp[a]": [30.5, 90, 20, 40, 60],
    "fp[a]": [10, 80, 0, 40, 20],
    "fn[a]": [20, 10, 80, 10.5, 40],
    "tn[a]": [90, 120, 200, 60, 180],
}


@pytest.mark.parametrize("wrap", [dict, pd.DataFrame, pl.DataFrame])
def test_any_table_in_any_order(wrap):
    found = search_table(wrap(TABLE), objective=precision, constraints=recall >= 0.7)
    assert found.threshold == 0.35
    assert found.objective_value == pytest.approx(40 / 45)
    assert (found.counts.tp, found.counts.fp, found.counts.fn, found.counts.tn) == (40, 5, 10, 95)
    assert (found.status, found.gap) == ("optimal", 0)


def test_nobody_and_everybody_are_added():
    tables = read_table(TABLE)
    assert tables.grid.tolist() == [math.inf, 0.71, 0.35, 0.05, -math.inf]
    assert tables.rows.tp.tolist() == [0, 30, 40, 48, 50]
    assert tables.rows.pp.tolist() == [0, 32, 45, 63, 150]
    assert search_table(TABLE, objective=cost(fp=1, fn=0)).threshold == math.inf
    assert search_table(TABLE, objective=cost(fp=0, fn=1)).threshold == -math.inf
    given = {name: [*TABLE[name], last] for name, last in
             zip(TABLE, (-math.inf, 50, 100, 0, 0), strict=True)}  # fmt: skip
    assert search_table(given, objective=recall).objective_value == 1


def test_segments_and_money():
    by_hand = []
    lines = pd.DataFrame(TWO)
    ends = {
        "a": [(math.inf, 0, 0, 100), (-math.inf, 10, 20, 0)],
        "b": [(math.inf, 0, 0, 50.5), (-math.inf, 5, 10, 0)],
    }
    options = {
        name: [*ends[name], *own[["threshold", "tp", "fp", "fn[a]"]].itertuples(index=False)]
        for name, own in lines.groupby("segment")
    }
    for a in options["a"]:
        for b in options["b"]:
            flagged = a[1] + a[2] + b[1] + b[2]
            if flagged <= 15:
                by_hand.append((5 * (a[2] + b[2]) + a[3] + b[3], a[0], b[0]))
    loss = (5 * fp + fn["a"]).named("loss", greater_is_better=False)
    found = search_table(TWO, objective=loss, constraints=pp <= 15)
    assert (found.objective_value, found.thresholds["a"], found.thresholds["b"]) == min(by_hand)
    each = search_table(TWO, objective=f1, constraints=each_segment(precision >= 0.75))
    assert each.thresholds == {"a": 0.4, "b": 0.5}


def test_bounds_on_thresholds_choose_among_the_given():
    assert search_table(TABLE, objective=f1, constraints=threshold >= 0.36).threshold == 0.71
    assert search_table(TABLE, objective=f1, constraints=threshold <= 0.34).threshold == 0.05
    with pytest.raises(InfeasibleConstraints):
        search_table(TABLE, constraints=["threshold >= 0.4", "threshold <= 0.6"])


def test_fractions_of_rows():
    weighted = {name: v if name == "threshold" else [x / 8 for x in v] for name, v in TABLE.items()}
    found = search_table(weighted, objective=mcc)
    assert found.thresholds == search_table(TABLE, objective=mcc).thresholds
    assert found.counts.tp == search_table(TABLE, objective=mcc).counts.tp / 8


def changed(**columns):
    return TABLE | columns


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({k: v for k, v in TABLE.items() if k != "fn"}, "no column 'fn'"),
        (changed(tp=[48, 30]), "tp has 2 rows"),
        (changed(tp=[48, 31, 40]), r"line 2 of the table has tp \+ fn = 50"),
        (changed(tn=[85, 98, 96]), r"fp \+ tn"),
        (changed(threshold=[0.1, math.nan, 0.3]), "NaN"),
        (changed(tp=[48, -30, 40], fn=[2, 80, 10]), "negative"),
        (changed(tp=[48, math.inf, 40]), "infinite"),
        ({name: [] for name in TABLE}, "no lines"),
        (changed(segment=["a", None, "a"]), "missing"),
        # a lower threshold never flags fewer
        (changed(tp=[30, 48, 40], fn=[20, 2, 10]), r"lines 1 and 2 .* a lower threshold"),
        (changed(threshold=[0.05, 0.71, 0.71]), r"lines 1 and 2 .* 0.71 and 0.71"),
        (changed(tp=[0, 0, 0], fn=[0, 0, 0]), "no positive rows"),
        (changed(fp=[0, 0, 0], tn=[0, 0, 0]), "no negative rows"),
    ],
)
def test_tables_that_cannot_be_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        search_table(table)


def test_sums_and_groups_that_are_missing_are_named():
    with pytest.raises(ValueError, match=r"no sums of \['amount'\].*tp\[amount\]"):
        search_table(TABLE, objective=(tp["amount"] + 0).named("x", greater_is_better=True))
    with pytest.raises(ValueError, match="'day'"):
        search_table(TABLE, constraints=capacity(3, per="day"))
    partial = TWO.copy()
    del partial["fn[a]"]
    with pytest.raises(ValueError, match=r"'fn\[a\]'"):
        search_table(partial, objective=(tp["a"] + 0).named("x", greater_is_better=True))


def test_the_read_sums_are_exact():
    tables = read_table(TWO)
    assert tables.segments == ("a", "b")
    assert tables.columns["a"].scale == 10
    assert tables.columns["a"].tp.tolist() == [0, 200, 600, 900, 1000, 0, 305, 400, 505]
    assert tables.columns["a"].n.tolist() == [3000, 1505]
    assert np.diff(tables.starts).tolist() == [5, 4]
