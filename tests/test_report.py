"""Constraint reports and sensitivity tables."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from oracles import Infinite, Undefined, exact, gap, rule_met
from random_problems import problem, up

from imbfit import InfeasibleConstraints, search_thresholds
from imbfit.expressions import Scope
from imbfit.metrics import (
    capacity,
    each_segment,
    f1,
    fn,
    fp,
    fpr,
    in_segment,
    max_gap,
    pp,
    precision,
    recall,
    tp,
)
from imbfit.threshold.report import cuts
from imbfit.threshold.table import build_tables


def chosen(p, found):
    """The oracle's choice that makes the same cuts."""
    keys = [None] * len(p.y) if p.segments is None else p.segments.tolist()
    flagged = [s >= found.thresholds[k] for s, k in zip(p.score, keys, strict=True)]
    for choice in p.choices():
        cut = [choice.cut[0 if k is None else k] for k in keys]
        if [s >= c for s, c in zip(p.score, cut, strict=True)] == flagged:
            return choice
    raise AssertionError


def left_side(rule, choice, segment):
    """What the report must show as a value; None where a ratio is 0/0."""
    kind = rule.kind if isinstance(rule, Scope) else "whole"
    if kind == "max_gap":
        return gap(rule, choice)
    if kind == "capacity":
        if isinstance(rule.key, str):
            return max(choice.flagged.values())
        return choice.counts["pp"] * (1 if rule.key is None else rule.key / choice.counts["n"])
    bound = rule.bound if isinstance(rule, Scope) else rule
    counts, columns = choice.counts, choice.columns
    if segment is not None:
        part = choice.parts[segment]
        counts, columns = part.counts, part.columns
    inner = rule.constraint if isinstance(rule, Scope) else None
    if isinstance(inner, Scope) and isinstance(inner.key, int):
        return counts["pp"] * inner.key / counts["n"]
    try:
        if exact(bound.right, counts, columns) is not None:
            return exact(bound.left, counts, columns)
    except Undefined:
        return None
    except Infinite as infinite:
        return math.inf * infinite.sign


@pytest.mark.parametrize("batch", range(6))
def test_each_line_is_the_value_of_its_constraint(batch):
    lines = 0
    for seed in range(batch * 40, (batch + 1) * 40):
        p = problem(700_000 + seed, groups=2 + seed % 2, rules=2)
        try:
            found = search_thresholds(
                p.y, p.score, objective=p.objective, constraints=p.rules, **p.given
            )
        except InfeasibleConstraints:
            continue
        choice = chosen(p, found)
        for rule in p.rules:
            mine = [line for line in found.constraint_report if line["constraint"] == rule.label]
            assert mine
            if "threshold" in str(rule):
                for line in mine:
                    assert line["value"] == found.thresholds[line["segment"]]
                continue
            if isinstance(rule, Scope) and rule.kind == "each_segment":
                assert {line["segment"] for line in mine} == set(found.thresholds)
            for line in mine:
                want = left_side(rule, choice, line["segment"])
                if isinstance(rule, Scope) and rule.kind == "max_gap" and line["vacuous"]:
                    assert want == 0
                    continue
                if want is None:
                    assert (line["value"], line["vacuous"], line["slack"]) == (None, True, 0)
                else:
                    assert line["value"] == pytest.approx(float(want), rel=1e-9, abs=1e-9)
                    assert not line["vacuous"]
                    sign = 1 if line["sense"] == ">=" else -1
                    slack = sign * (line["value"] - line["limit"])
                    assert line["slack"] == pytest.approx(slack, abs=1e-9)
                assert line["met"]
                lines += 1
    assert lines > 60


def test_a_broken_bound_has_a_negative_slack():
    y, score = [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6]
    rules = [recall >= 1, pp <= 2, precision >= 0.1]
    with pytest.warns(Warning, match="gave way"):
        found = search_thresholds(
            y, score, constraints=rules, infeasible="least_violation", objective=recall
        )
    by_label = {line["constraint"]: line for line in found.constraint_report}
    broken = [line for line in by_label.values() if not line["met"]]
    assert broken
    assert all(line["slack"] < 0 for line in broken)
    assert by_label["precision >= 0.1"]["slack"] > 0


def test_nobody_flagged_breaks_no_precision():
    y, score = [1, 0, 1, 0], [0.6, 0.9, 0.5, 0.8]
    found = search_thresholds(y, score, objective=fpr, constraints=precision >= 0.9)
    (line,) = found.constraint_report
    assert line == {
        "constraint": "precision >= 0.9", "segment": None, "group": None, "value": None,
        "sense": ">=", "limit": 0.9, "slack": 0.0, "vacuous": True, "met": True,
    }  # fmt: skip


def test_capacities_show_the_users_own_unit():
    y, score = [1, 0, 1, 0, 0, 0, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    found = search_thresholds(
        y, score, objective=recall, segments=list("aabbaabb"), per={"day": [1, 1, 2, 2] * 2},
        constraints=[
            capacity(500, per=1000), capacity(3, per="day"),
            each_segment(capacity(900, per=1000)), in_segment("a", capacity(1)),
        ],
    )  # fmt: skip
    rate, day, *each, one = found.constraint_report
    assert (rate["value"], rate["limit"]) == (found.counts.pp / 8 * 1000, 500)
    assert day["group"] in (1, 2, "1", "2")
    assert day["value"] <= 3
    assert [line["segment"] for line in each] == ["a", "b"]
    assert all(line["limit"] == 900 for line in each)
    assert (one["segment"], one["value"], one["limit"]) == ("a", 1, 1)


def test_infinite_gaps():
    y, score, segments = [1, 0, 1, 0], [0.1, 0.9, 0.1, 0.9], [0, 0, 1, 1]
    # one false positive and no true one in each: fp / tp is infinite in both, the gap is 0
    found = search_thresholds(
        y, score, segments=segments, objective=up(fp - 3 * tp),
        constraints=[max_gap(fp / tp) <= 0.5, pp >= 2],
    )  # fmt: skip
    assert (found.counts.fp, found.counts.tp) == (2, 0)
    assert found.constraint_report[0]["value"] == 0


# --------------------------------------------------------------------------------------------
# The sensitivity table


def test_every_line_of_the_table_is_a_candidate():
    for seed in range(30):
        p = problem(710_000 + seed, groups=1 + seed % 3, objectives=[f1, recall], rules=0)
        found = search_thresholds(p.y, p.score, objective=p.objective, **p.given)
        table = found.table(expressions=[fpr, "5*fp + fn"])
        assert isinstance(table, pd.DataFrame)
        weight = np.ones(len(p.y)) if p.weight is None else p.weight
        keys = np.zeros(len(p.y)) if p.segments is None else p.segments
        assert ("segment" in table) == (p.segments is not None)
        for line in table.to_dict("records"):
            mine = keys == line.get("segment", 0)
            flagged = mine & (p.score >= line["threshold"])
            for cell, mask in {
                "tp": flagged & p.y, "fp": flagged & ~p.y,
                "fn": mine & ~flagged & p.y, "tn": mine & ~flagged & ~p.y,
            }.items():  # fmt: skip
                assert line[cell] == pytest.approx(weight[mask].sum(), abs=1e-9)
            positives, negatives = line["tp"] + line["fn"], line["fp"] + line["tn"]
            if line["tp"]:
                assert line["precision"] == line["tp"] / (line["tp"] + line["fp"])
                assert line["recall"] == pytest.approx(line["tp"] / positives)
            if negatives:
                assert line["fpr"] == pytest.approx(line["fp"] / negatives)
            assert line["5 * fp + fn"] == pytest.approx(5 * line["fp"] + line["fn"])
            assert line["met"]
        sizes = table.groupby("segment").size() if "segment" in table else [len(table)]
        assert list(sizes) == np.diff(found.tables.starts).tolist()


def test_met_means_the_rules_of_the_segment():
    for seed in range(40):
        p = problem(720_000 + seed, groups=2, objectives=[f1], rules=2)
        try:
            found = search_thresholds(
                p.y, p.score, objective=p.objective, constraints=p.rules, **p.given
            )
        except InfeasibleConstraints:
            continue
        table = found.table()
        parts = {
            (name, part.cut): choice
            for choice in p.choices()
            for name, part in choice.parts.items()
        }
        for g, name in enumerate(found.tables.segments):
            own = table[table["segment"] == name]
            for cut, met in zip(found.tables.above[found.tables.own(g)], own["met"], strict=True):
                part = parts[name, float(cut)].parts[name]
                try:
                    want = all(reads_on(rule, name, part) for rule in p.rules)
                except Infinite:
                    continue
                assert met == want, (seed, p.rules, name, cut)


def reads_on(rule, name, part):
    """Whether a rule holds where it is read on one segment by itself."""
    from oracles import Choice

    if isinstance(rule, Scope):
        if rule.kind == "max_gap" or isinstance(rule.key, str):
            return True
        if rule.kind == "in_segment" and rule.key != name:
            return True
    return rule_met(rule, Choice({name: part}))


def test_ranks_put_what_meets_the_rules_first_and_share_ties():
    y, score = [1, 0, 1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    # accuracy of the seven cuts: 3, 4, 3, 4, 3, 4, 3 sixths
    found = search_thresholds(y, score, objective="accuracy", constraints=pp <= 3)
    table = found.table(top=7)
    assert table["rank"].tolist() == [1, 1, 3, 3, 5, 6, 6]
    assert table["met"].tolist() == [True] * 4 + [False] * 3
    assert (table["accuracy"] * 6).round().tolist() == [4, 4, 3, 3, 4, 3, 3]
    # of equal lines the higher threshold comes first
    assert table["threshold"].tolist()[:3] == pytest.approx([0.85, 0.65, math.inf])
    assert table.iloc[0]["threshold"] == found.threshold
    assert found.table(top=2)["rank"].tolist() == [1, 1]
    # what breaks a rule never shares the rank of what does not
    flat = search_thresholds(y, score, objective=up(0 * tp + 1), constraints=pp <= 3)
    assert flat.table(top=7)["rank"].tolist() == [1, 1, 1, 1, 5, 5, 5]


def test_ranks_of_costs_and_of_infinite_values():
    y, score = [0, 0, 1, 1], [0.9, 0.8, 0.7, 0.6]
    found = search_thresholds(y, score, objective=(fp / tp).named("odds", greater_is_better=False))
    table = found.table(top=5)
    assert table["odds"].tolist() == [1, 1, 2, math.inf, math.inf]
    assert table["rank"].tolist() == [1, 2, 3, 4, 4] or table["rank"].tolist() == [1, 1, 3, 4, 4]
    assert table["rank"].tolist() == pd.Series(table["odds"]).rank(method="min").tolist()


def test_top_is_counted_in_each_segment():
    rng = np.random.default_rng(0)
    found = search_thresholds(
        rng.random(60) < 0.4, rng.random(60), segments=rng.integers(0, 3, 60), objective=f1
    )
    table = found.table(top=3)
    assert table.groupby("segment").size().tolist() == [3, 3, 3]
    for _, own in table.groupby("segment"):
        assert own["rank"].tolist() == own["f1"].rank(method="min", ascending=False).tolist()
    with pytest.raises(ValueError, match="top=0"):
        found.table(top=0)
    with pytest.raises(ValueError, match=r"top=1\.5"):
        found.table(top=1.5)


def test_the_table_names_every_expression_once():
    y, score = [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6]
    found = search_thresholds(
        y, score, objective=up(tp["a"] - 2 * fp, "profit"), amounts={"a": [3.0, 1.0, 5.0, 2.0]},
        constraints=[recall >= 0.1, fp <= 2, tp >= 1 * fp - 1],
    )  # fmt: skip
    names = found.table(expressions=[recall, fn / pp]).columns.tolist()
    assert names == [
        "threshold", "tp", "fp", "tn", "fn", "precision", "recall", "f1", "profit",
        "1 * fp - 1", "fn / pp", "met",
    ]  # fmt: skip
    assert found.table()["profit"].tolist() == [0, 3, 1, 6, 4]


def test_all_cuts_at_once_are_the_cuts_one_by_one():
    rng = np.random.default_rng(0)
    for score in (
        rng.random(20), rng.integers(0, 3, 20) * 1.0, np.arange(20) * 5e-324,
        0.1 + np.arange(20) * np.spacing(0.1), np.full(20, -np.inf),
        np.where(rng.random(20) < 0.5, -np.inf, 1.0),
    ):  # fmt: skip
        tables = build_tables(
            rng.random(20) < 0.5, score, segment_codes=np.arange(20) % 2, segment_names=(0, 1)
        )
        for g in range(2):
            own = tables.own(g)
            assert cuts(tables, g).tolist() == [tables.cut(i) for i in range(own.start, own.stop)]


def test_without_pandas_the_table_is_a_dict_of_arrays():
    code = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "pandas" else find(name, *a)
from imbfit import search_thresholds
table = search_thresholds([0, 1], [0.1, 0.9], segments=["x", "x"]).table(top=1)
assert type(table) is dict, type(table)
assert table["segment"].tolist() == ["x"], table
assert table["threshold"].tolist() == [0.5], table
"""
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  our own code
