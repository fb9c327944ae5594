"""Why constraints can't hold together, and the least bad choice."""

import dataclasses
import itertools
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from oracles import Choice, Infinite, Undefined, exact, gap, meets, metric, violation
from random_problems import down, problem

from imbfit import InfeasibleConstraints, SearchWarning, search_thresholds
from imbfit.expressions import Scope, Threshold
from imbfit.metrics import (
    accuracy,
    capacity,
    each_segment,
    f1,
    fn,
    fp,
    fpr,
    in_segment,
    max_gap,
    n,
    pp,
    precision,
    recall,
    specificity,
    threshold,
    tp,
)
from imbfit.threshold.conflict import relax


def hard(seed, n_segments):
    """A problem with rules that can rarely hold together."""
    p = problem(seed, groups=n_segments, rules=0, objectives=[f1])
    p = dataclasses.replace(p, score=np.round(np.random.default_rng(seed).random(len(p.y)), 1))
    rng = np.random.default_rng(seed)

    def some(low, high):
        return round(float(rng.uniform(low, high)), 2)

    rows = len(p.y)
    pool = [
        recall >= some(0.5, 1),
        precision >= some(0.5, 1),
        capacity(int(rng.integers(1, rows // 2 + 1))),
        capacity(int(rng.integers(50, 400)), per=1000),
        capacity(1, per="day"),
        pp >= int(rng.integers(rows // 2, rows)),
        fp <= int(rng.integers(0, 3)),
        fn["a"] <= some(-3, 3),
        specificity >= some(0.6, 1),
        each_segment(recall >= some(0.5, 1)),
        each_segment(precision >= some(0.5, 1)),
        each_segment(capacity(300, per=1000)),
        threshold >= some(0.3, 0.9),
        threshold <= some(0.1, 0.5),
        max_gap(recall) <= some(0, 0.2),
        max_gap(fpr) <= some(0, 0.2),
    ]
    if n_segments > 1:
        first = int(p.segments[0])
        pool += [in_segment(first, recall >= some(0.6, 1)), in_segment(first, pp <= 1)]
    chosen = rng.choice(len(pool), int(rng.integers(2, 6)), replace=False)
    return dataclasses.replace(p, rules=[pool[i] for i in chosen])


def infeasible_problems(seeds, n_segments):
    for seed in seeds:
        p = hard(seed, n_segments)
        choices = p.choices()
        if not any(meets(p.rules, choice) for choice in choices):
            yield seed, p, choices


def refusal(p):
    with pytest.raises(InfeasibleConstraints) as caught:
        search_thresholds(p.y, p.score, objective=p.objective, constraints=p.rules, **p.given)
    return caught.value


def best_reach(rule, rest, choices):
    """Best value of a constraint's left side while the rest holds; None where it has none."""
    kind = rule.kind if isinstance(rule, Scope) else "whole"
    bound = rule.bound if isinstance(rule, Scope) else rule
    greater = bound.sense == ">="
    reached = []
    for choice in choices:
        if not meets(rest, choice):
            continue
        if kind == "max_gap":
            reached.append(gap(rule, choice))
        elif kind == "capacity" and isinstance(rule.key, str):
            reached.append(max(choice.flagged.values()))
        elif kind == "capacity":
            share = 1 if rule.key is None else Fraction(rule.key) / choice.counts["n"]
            reached.append(choice.counts["pp"] * share)
        elif kind == "in_segment":
            part = choice.parts[rule.key]
            reached.append(metric(bound.left, part.counts, part.columns, greater))
        else:
            reached.append(metric(bound.left, choice.counts, choice.columns, greater))
    if not reached:
        return None
    return max(reached) if greater else min(reached)


@pytest.mark.parametrize("n_segments", [1, 2, 3])
@pytest.mark.parametrize("batch", range(4))
def test_the_named_set_is_irreducible_and_its_best_values_are_right(n_segments, batch):
    tried = 0
    for seed, p, choices in infeasible_problems(range(batch * 40, (batch + 1) * 40), n_segments):
        error = refusal(p)
        by_label = {rule.label: rule for rule in p.rules}
        conflict = [by_label[label] for label in error.conflict]
        assert conflict, seed
        assert not any(meets(conflict, choice) for choice in choices), seed
        for left_out in conflict:
            rest = [rule for rule in conflict if rule is not left_out]
            assert any(meets(rest, choice) for choice in choices), (seed, left_out)
        for label, value in error.best_values.items():
            rule = by_label[label]
            rest = [other for other in conflict if other is not rule]
            if isinstance(rule, Scope) and rule.kind == "each_segment":
                check_each_segment(rule, rest, choices, error.segments.get(label), value, seed)
                continue
            want = best_reach(rule, rest, choices)
            assert value == pytest.approx(float(want), rel=2e-6, abs=2e-6), (seed, rule)
        for label in error.conflict:
            assert label in str(error)
        tried += 1
    assert tried >= 5


def check_each_segment(rule, rest, choices, at_fault, value, seed):  # noqa: PLR0917
    """The segments at fault can't meet the bound, and the value is the best in one of them."""
    bound = rule.bound
    # where the segments fail by themselves, each of them must be one that no choice can cure
    left_alone = [
        name
        for name in choices[0].parts
        if not any(
            meets([Scope("in_segment", rule.constraint, name)], choice)
            for choice in choices
            if all(meets([r], choice) for r in rest if is_local(r))
        )
    ]
    if left_alone and len(choices[0].parts) > 1:
        assert set(at_fault) == set(left_alone), seed
    if bound.left == pp:
        return
    reached = []
    for choice in choices:
        if not meets(rest, choice):
            continue
        values = []
        for part in choice.parts.values():
            try:
                values.append(exact(bound.left, part.counts, part.columns))
            except Undefined:
                continue
        if values:
            reached.append(min(values) if bound.sense == ">=" else max(values))
    if not left_alone and reached:
        want = max(reached) if bound.sense == ">=" else min(reached)
        assert value == pytest.approx(float(want), rel=2e-6, abs=2e-6), (seed, rule)


def is_local(rule):
    """Whether a rule holds on one segment by itself."""
    if isinstance(rule, Scope):
        return rule.kind in ("each_segment", "in_segment")
    return isinstance(rule.left, Threshold)


def test_enough_problems_are_infeasible():
    counts = [len(list(infeasible_problems(range(60), g))) for g in (1, 2, 3)]
    assert min(counts) > 15


Y = [1, 0, 1, 0, 1, 0, 0, 1]
SCORE = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
SEGMENTS = list("aaaabbbb")


def explained(constraints, **given):
    with pytest.raises(InfeasibleConstraints) as caught:
        search_thresholds(Y, SCORE, constraints=constraints, **given)
    return caught.value


def test_the_message_names_the_set_the_values_and_the_way_out():
    error = explained([recall >= 1, pp >= 1, precision >= 0.9])
    assert error.conflict == ("recall >= 1", "precision >= 0.9")
    assert "recall >= 1: reaches 0.25 given the others" in str(error)
    assert "precision >= 0.9: reaches 0.5 given the others" in str(error)
    assert "any one less can be met" in str(error)
    assert "least_violation" in str(error)


def test_one_impossible_constraint_stands_alone():
    error = explained([recall >= 0.1, pp >= 9])
    assert error.conflict == ("pp >= 9",)
    assert error.best_values == {"pp >= 9": 8}
    assert "no choice of thresholds meets this constraint" in str(error)
    assert "at best" in str(error)


def test_a_segment_at_fault_is_named():
    error = explained(
        [each_segment(pp >= 1), each_segment(precision >= 0.9)],
        segments=list("abababab"),
    )
    assert error.conflict == ("pp >= 1 in each segment", "precision >= 0.9 in each segment")
    assert error.segments["precision >= 0.9 in each segment"] == ["b"]
    assert "(fails in 'b')" in str(error)


def test_the_same_rule_twice_is_named_once():
    rule = recall >= 1.5
    assert explained([rule, rule, pp >= 1]).conflict == ("recall >= 1.5",)
    assert explained([recall >= 1.5, recall >= 1.5]).conflict == ("recall >= 1.5",)


def test_contradictory_bounds_on_the_threshold():
    error = explained(["threshold >= 0.95", "threshold <= 0.15"])
    assert set(error.conflict) == {"threshold >= 0.95", "threshold <= 0.15"}


def test_the_error_survives_pickling():
    error = explained([recall >= 1, precision >= 0.9])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.conflict, again.best_values, again.segments) == (
        str(error), error.conflict, error.best_values, error.segments,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------
# The least bad choice


def has_threshold(rules):
    return any("threshold" in str(rule) for rule in rules)


def worst_violation(p, choice):
    return max((violation(rule, choice) for rule in p.rules), default=0)


@pytest.mark.parametrize("n_segments", [1, 2, 3])
@pytest.mark.parametrize("batch", range(3))
def test_the_largest_violation_is_the_smallest_possible(n_segments, batch):
    tried = 0
    for seed, p, choices in infeasible_problems(range(batch * 40, (batch + 1) * 40), n_segments):
        if has_threshold(p.rules):
            # an open set of thresholds has no least violation
            continue
        try:
            violations = [worst_violation(p, choice) for choice in choices]
        except Infinite:
            continue
        least = min(violations)
        with pytest.warns(SearchWarning, match="gave way by"):
            found = search_thresholds(
                p.y, p.score, objective=p.objective, constraints=p.rules,
                infeasible="least_violation", **p.given,
            )  # fmt: skip
        assert found.status == "least_violation"
        ours = next(
            worst_violation(p, choice)
            for choice in choices
            if all(
                (s >= found.thresholds[key]) == (s >= choice.cut[0 if key is None else key])
                for s, key in zip(
                    p.score,
                    [None] * len(p.y) if p.segments is None else p.segments.tolist(),
                    strict=True,
                )
            )
        )
        room = 4e-6 * (1 + float(least))
        assert float(ours) <= float(least) + room, (seed, p.rules)
        # and of those that are as little bad, the best by the objective
        best = max(
            metric(p.objective, choice.counts, choice.columns, greater=True)
            for choice, v in zip(choices, violations, strict=True)
            if v <= least
        )
        assert found.objective_value >= float(best) - 1e-9, seed
        assert not all(line["met"] for line in found.constraint_report)
        tried += 1
    assert tried >= 3


def test_what_can_be_met_is_met_without_a_warning():
    found = search_thresholds(
        Y, SCORE, constraints=[recall >= 0.5, precision >= 0.5], infeasible="least_violation"
    )
    assert found.status == "optimal"


def test_the_warning_says_by_how_much():
    with pytest.warns(SearchWarning, match=r"gave way by 0\.125 of itself"):
        found = search_thresholds(
            Y, SCORE, constraints=pp >= 9 + 1 / 7, infeasible="least_violation"
        )
    assert found.counts.pp == 8


@pytest.mark.parametrize("t", [0.0, 0.1, 1 / 3, 2.5])
@pytest.mark.parametrize(
    "rule",
    [
        recall >= 0.8,
        fp <= 7,
        fn["a"] <= -3,
        fn["a"] >= 0,
        capacity(9),
        capacity(9, per=1000),
        each_segment(recall >= 0.8),
        max_gap(recall) <= 0.05,
        in_segment("x", precision >= 0.123456789),
    ],
    ids=str,
)
def test_a_bound_gives_way_by_a_fraction_of_itself(rule, t):
    old = rule if not isinstance(rule, Scope) else rule.bound
    moved = relax(rule, t)
    new = moved if not isinstance(moved, Scope) else moved.bound
    size = abs(old.right.value) or 1.0
    away = (old.right.value - new.right.value) * (1 if old.sense == ">=" else -1)
    assert away == pytest.approx(t * size, rel=1e-6, abs=1e-6 * size)
    # rounding is never towards what was asked
    assert away >= t * size * (1 - 1e-12)
    assert type(moved) is type(rule)
    if isinstance(rule, Scope):
        assert (moved.kind, moved.key) == (rule.kind, rule.key)


def test_relaxing_more_never_forbids_more():
    for seed in range(20):
        p = hard(900 + seed, 2)
        if has_threshold(p.rules):
            continue
        choices = p.choices()
        kept = []
        for t in (0, 0.2, 0.7, 3):
            rules = [relax(rule, t) for rule in p.rules]
            kept.append({i for i, choice in enumerate(choices) if meets(rules, choice)})
        assert all(a <= b for a, b in itertools.pairwise(kept))


def test_time_that_runs_out_before_an_answer_says_so(monkeypatch):
    from imbfit.threshold import search as search_module
    from imbfit.threshold.solving import Outcome

    unknown = Outcome(None, -math.inf, math.inf, "unknown")
    monkeypatch.setattr(search_module, "maximise", lambda *_, **__: unknown)
    with pytest.raises(InfeasibleConstraints, match="time limit came before"):
        search_thresholds(Y, SCORE, segments=SEGMENTS, constraints=recall >= 0.5)


def test_many_segments_and_money():
    rng = np.random.default_rng(0)
    rows = 3000
    y, score = rng.random(rows) < 0.1, rng.random(rows)
    segments, amount = rng.integers(0, 60, rows), rng.exponential(100, rows).round(2)
    rules = [tp["a"] / n >= 30, fp["a"] <= 20_000, each_segment(precision >= 0.05)]
    with pytest.raises(InfeasibleConstraints) as caught:
        search_thresholds(
            y, score, objective=down(fn["a"]), constraints=rules, segments=segments,
            amounts={"a": amount},
        )  # fmt: skip
    assert set(caught.value.conflict) <= {rule.label for rule in rules}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SearchWarning)
        found = search_thresholds(
            y, score, objective=accuracy, constraints=rules, segments=segments,
            amounts={"a": amount}, infeasible="least_violation",
        )  # fmt: skip
    assert found.status == "least_violation"


def test_the_oracle_reads_segments_alone():
    p = hard(3, 2)
    choice = p.choices()[0]
    name, part = next(iter(choice.parts.items()))
    assert violation(pp <= 1, Choice({name: part})) == violation(
        in_segment(name, pp <= 1), choice
    )  # fmt: skip
