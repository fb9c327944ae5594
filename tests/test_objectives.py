"""Objectives over segments: Dinkelbach's steps, branching on pp, gaps and groups."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from oracles import best_choice
from random_problems import RATIOS, RISING, down, problem, up
from test_region import tables_of

import imbfit.threshold.solving as solving_module
from imbfit.exceptions import UnsupportedMetric
from imbfit.metrics import (
    capacity,
    f1,
    fn,
    fp,
    gmean,
    max_gap,
    mcc,
    pn,
    pp,
    precision,
    recall,
    specificity,
    tp,
)
from imbfit.reading import value
from imbfit.threshold.objectives import counts_of, maximise
from imbfit.threshold.region import GapValues, Region, build_region
from imbfit.threshold.rising import _Gmean, _line, _Mcc, _most, _open_parts
from imbfit.threshold.rows import Affine
from imbfit.threshold.selection import Answer
from imbfit.threshold.solving import (
    Search,
    _in_windows,
    _split,
    _values,
    _widest_gap,
    feasible,
    solve,
)


def oriented(objective, found):
    return found if objective.greater_is_better else -found


def run(p, objective=None, rules=None, **search):
    tables = tables_of(p)
    region = build_region(p.rules if rules is None else rules, tables)
    objective = p.objective if objective is None else objective
    greater = objective.greater_is_better
    return tables, maximise(objective, Search(tables, **search), region, greater_is_better=greater)


def test_dinkelbach_takes_few_steps(capsys):
    for seed in range(40):
        p = problem(seed, groups=3, objectives=[f1, precision, RATIOS[6]], rules=0)
        run(p, rules=[recall >= 0.3], verbose=1)
        steps = capsys.readouterr().out.count("ratio step")
        assert steps <= 8


@pytest.mark.parametrize("seed", range(40))
def test_where_the_ratio_is_empty_the_language_says_what_it_is_worth(seed):
    # nobody flagged is worth 0, which beats every negative value
    p = problem(seed, groups=2, rules=0)
    for objective in (up((tp - 50 * fp) / pp), up((0 - fp) / pp - 1), down((fp + 1 * fn) / pp)):
        best = best_choice(p.choices(), objective, [], objective.greater_is_better)
        _, outcome = run(p, objective, [])
        assert oriented(objective, outcome.value) == pytest.approx(float(best[0]))
        assert outcome.status == "optimal"


def test_nobody_beats_a_loss_everywhere():
    p = problem(7, groups=2, rules=0)
    objective = up((tp - 1000 * fp - 1000 * tp) / pp)
    tables, outcome = run(p, objective, [])
    assert outcome.value == 0
    assert tables.rows.pp[outcome.choice].sum() == 0


def test_infinite_ratios():
    p = problem(11, groups=2, rules=0)
    # everything flagged leaves no negatives: fn / pn is 0/0 there, (fn + 1) / pn infinite
    _, outcome = run(p, up((fn + 1) / pn), [])
    assert outcome.value == math.inf
    _, outcome = run(p, down((fn + 1) / pn), [])
    assert math.isfinite(outcome.value)


@pytest.mark.parametrize("objective", RISING, ids=str)
@pytest.mark.parametrize("batch", range(4))
def test_branching_on_the_number_flagged(objective, batch):
    for seed in range(batch * 25, (batch + 1) * 25):
        p = problem(1000 + seed, groups=2 + seed % 3, rules=seed % 3)
        best = best_choice(p.choices(), objective, p.rules, greater=True)
        _, outcome = run(p, objective)
        if best is None:
            assert outcome.status == "infeasible"
            continue
        assert outcome.status == "optimal"
        assert outcome.value == pytest.approx(float(best[0]), abs=1e-12)
        assert outcome.bound == outcome.value


@pytest.mark.parametrize("kind", [_Mcc, _Gmean])
def test_the_line_lies_below_the_curve(kind):
    rng = np.random.default_rng(0)
    for _ in range(400):
        size = int(10 ** rng.integers(1, 15))
        total = int(rng.integers(2, size + 2))
        positives = int(rng.integers(1, total))
        curve = kind(float(positives), float(total))
        level = float(rng.uniform(-0.5 if kind is _Mcc else 0, 1))
        first = int(rng.integers(0, total))
        last = int(rng.integers(first, total + 1))
        p, height = _line(curve, level, first, last)
        for x in {first, last, *rng.integers(first, last + 1, 20).tolist()}:
            # in units of 2^-20; the search leaves 1e-9 of the height for rounding
            needed = curve.needed(level, x) * 2**20
            room = 1e-9 * max(abs(height), needed) + 1e-6
            assert height + p * x <= needed + room
        if 0 < first < total:
            needed = curve.needed(level, first)
            assert curve.value(needed, first) == pytest.approx(level, abs=1e-7)


@pytest.mark.parametrize("kind", [_Mcc, _Gmean])
def test_no_counts_beat_the_bound_of_an_interval(kind):
    rng = np.random.default_rng(1)
    for _ in range(300):
        total = int(rng.integers(3, 40))
        positives = int(rng.integers(1, total))
        first = int(rng.integers(0, total))
        last = int(rng.integers(first, total + 1))
        curve = kind(float(positives), float(total))
        most = float(rng.uniform(0, positives))
        values = [
            curve.value(hits, x)
            for x in range(first, last + 1)
            for hits in range(max(0, x - (total - positives)), min(positives, x) + 1)
            if hits <= most
        ]
        assert _most(curve, first, last, most) >= max(values, default=0.0) - 1e-12


@pytest.mark.parametrize("kind", [_Mcc, _Gmean])
def test_no_better_choice_is_left_out_of_the_open_parts(kind):
    rng = np.random.default_rng(2)
    left_out = 0
    for _ in range(300):
        total = int(rng.integers(3, 60))
        positives = int(rng.integers(1, total))
        first = int(rng.integers(0, total))
        last = int(rng.integers(first, total + 1))
        if first == last:
            continue
        curve = kind(float(positives), float(total))
        level = float(rng.uniform(-0.3 if kind is _Mcc else 0, 0.9))
        p, height = _line(curve, level, first, last)
        reach = height + float(rng.exponential(2.0**20))
        parts = _open_parts(curve, level, (first, last), p, reach)
        inside = {x for start, stop in parts for x in range(start, stop + 1)}
        assert inside <= set(range(first, last + 1))
        assert all((start, stop) != (first, last) for start, stop in parts)
        for x in range(first, last + 1):
            highest = (reach + p * x) / 2**20
            if x not in inside:
                left_out += 1
                assert curve.needed(level, x) >= highest
    assert left_out > 100


def test_the_curves_are_the_metrics():
    for seed in range(30):
        p = problem(seed, groups=2, rules=0)
        tables = tables_of(p)
        unit = float(tables.rows.scale)
        ap, n = float(tables.rows.ap.sum()), float(tables.rows.n.sum())
        for kind, metric_ in ((_Mcc, mcc), (_Gmean, gmean)):
            curve = kind(ap, n)
            rng = np.random.default_rng(seed)
            choice = rng.integers(tables.starts[:-1], tables.starts[1:])
            counts = counts_of(tables, choice)
            want = float(value(metric_, counts, greater_is_better=True))
            got = curve.value(counts.tp * unit, counts.pp * unit)
            assert got == pytest.approx(want, abs=1e-12)


def test_a_choice_is_counted_once_more():
    for seed in range(20):
        p = problem(seed, groups=3, rules=0)
        tables = tables_of(p)
        spans = [range(a, b) for a, b in itertools.pairwise(tables.starts)]
        for numbers, choice in zip(itertools.product(*spans), p.choices(), strict=True):
            counts = counts_of(tables, np.array(numbers))
            for cell in ("tp", "pp", "ap", "n"):
                want = float(choice.counts[cell])
                assert getattr(counts, cell) == pytest.approx(want, abs=1e-9)
                want = float(choice.columns["a"][cell])
                assert getattr(counts.columns["a"], cell) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("batch", range(4))
def test_any_choice_or_the_proof_that_there_is_none(batch):
    verdicts = []
    for seed in range(batch * 40, (batch + 1) * 40):
        p = problem(2000 + seed, groups=2 + seed % 3, rules=2 + seed % 2)
        tables = tables_of(p)
        region = build_region(p.rules, tables)
        outcome = feasible(Search(tables), region)
        best = best_choice(p.choices(), recall, p.rules, greater=True)
        assert (outcome.choice is not None) == (best is not None), (seed, p.rules)
        assert outcome.status == ("infeasible" if best is None else "optimal")
        verdicts.append(best is not None)
    assert 5 < sum(verdicts) < 40


def test_rows_of_groups_join_where_a_choice_breaks_them():
    for seed in range(20):
        p = problem(3000 + seed, groups=3, rules=0)
        tables = tables_of(p)
        region = build_region([capacity(1, per="day")], tables)
        assert region.rows == []
        answer = solve(Affine(0, {("tp", None): 1}), Search(tables), region)
        flagged = region.groups[0].flagged(answer.choice, tables.starts)
        assert (flagged <= region.groups[0].limit).all()
        assert len(region.rows) <= len(region.groups[0].groups.names)


def test_late_gaps_report_what_they_left_open(monkeypatch):
    p = problem(4001, groups=3, rules=0)
    rules = [max_gap(recall) <= 0.05, max_gap(specificity) <= 0.05]
    best = best_choice(p.choices(), f1, rules, greater=True)
    for steps in range(12):
        tables = tables_of(p)
        search = Search(tables)
        asked = itertools.count()
        late = property(lambda _, asked=asked, steps=steps: next(asked) >= steps)
        monkeypatch.setattr(solving_module.Search, "late", late)
        outcome = maximise(f1, search, build_region(rules, tables), greater_is_better=True)
        if outcome.choice is None:
            assert outcome.status == "unknown"
        else:
            assert outcome.bound >= float(best[0]) - 1e-12
            assert outcome.status != "optimal" or outcome.value == pytest.approx(float(best[0]))


def test_late_branching_reports_what_it_left_open(monkeypatch):
    for seed, objective in itertools.product(range(8), RISING):
        p = problem(5000 + seed, groups=3, rules=0)
        best = best_choice(p.choices(), objective, [], greater=True)
        tables = tables_of(p)
        asked = itertools.count()
        late = property(lambda _, asked=asked: next(asked) >= 2)
        monkeypatch.setattr(solving_module.Search, "late", late)
        outcome = maximise(
            objective, Search(tables), build_region([], tables), greater_is_better=True
        )
        assert outcome.bound >= float(best[0]) - 1e-12
        assert outcome.value <= float(best[0]) + 1e-12


def test_intervals_that_time_leaves_unknown_stay_in_the_bound(monkeypatch):
    original = solving_module.select
    for seed, objective in itertools.product(range(10), RISING):
        p = problem(7000 + seed, groups=3, rules=0)
        best = best_choice(p.choices(), objective, [], greater=True)
        calls = itertools.count()

        def tired(problem_, calls=calls, **given):
            if next(calls) < 7:
                return original(problem_, **given)
            return Answer(None, 0, np.inf, "unknown")

        monkeypatch.setattr(solving_module, "select", tired)
        _, outcome = run(p, objective, [])
        assert outcome.bound >= float(best[0]) - 1e-12
        assert outcome.status == "feasible" or outcome.value == pytest.approx(float(best[0]))


def test_a_split_never_keeps_the_choice_it_comes_from():
    rng = np.random.default_rng(0)
    for trial in range(500):
        low = float(rng.uniform(-1, 1))
        most = float(rng.uniform(0, 1))
        high = low + most
        for _ in range(int(rng.integers(1, 6)) if trial % 2 else 1):
            high = float(np.nextafter(high, 9))
        if not high - low > most:
            continue
        value = np.array([low, high, np.nan])
        region = Region(np.ones(3, bool), gaps=[GapValues(value, most, 0)])
        choice = np.array([0, 1, 2])
        widest = _widest_gap(region, choice)
        assert widest == (0, low, high)
        for windows in _split(region, ((-np.inf, np.inf),), widest):
            inside = _in_windows(region, windows)
            assert not inside[choice].all()
            assert inside[2]
            assert inside[:2].sum() == 1


def test_rounded_values_are_within_their_error():
    rng = np.random.default_rng(0)
    long = 0
    for seed in range(60):
        tables = tables_of(problem(seed, groups=2, rules=0))
        size = int(rng.integers(1, 40))
        form = Affine(
            int(rng.integers(-9, 9)),
            {
                ("tp", None): int(rng.integers(-9, 10)) << size,
                ("pp", "a"): (int(rng.integers(-9, 10)) << size) + 1,
                ("pp", None): int(rng.integers(1, 2**30)),
            },
        )
        for index in (None, np.arange(0, int(tables.starts[-1]), 2)):
            rough, exact, error = _values(form, tables, index)
            exactly = exact(np.arange(len(rough)))
            for a, b in zip(rough.tolist(), exactly.tolist(), strict=True):
                assert abs(Fraction(a) - int(b)) <= Fraction(error)
            long += error > 0
    assert 20 < long < 120


def test_late_ratios_report_what_they_left_open(monkeypatch):
    original = solving_module.select

    def lame(problem_, **given):
        """Any choice, and a bound that is true but loose."""
        answer = original(problem_, **{**given, "target": -np.inf})
        if answer.choice is None:
            return answer
        choice = problem_.starts[:-1]
        worth = sum(int(v) for v in problem_.exact(choice))
        return Answer(choice, worth, answer.bound + 1.0, "feasible")

    monkeypatch.setattr(solving_module, "select", lame)
    for seed in range(20):
        p = problem(6000 + seed, groups=2, rules=0)
        best = best_choice(p.choices(), f1, [], greater=True)
        _, outcome = run(p, f1, [], deadline=0.0)
        assert outcome.status == "feasible"
        assert outcome.bound >= float(best[0])
        assert outcome.value <= float(best[0])
        assert Fraction(outcome.value) <= 1


def test_only_precision_of_money_with_signs_is_refused():
    p = problem(8, groups=2, rules=0)
    with pytest.raises(UnsupportedMetric, match="negative or positive"):
        run(p, up(tp["a"] / (pp["a"] - 1)), [])
    tables = tables_of(p)
    with pytest.raises(UnsupportedMetric, match="only be maximised"):
        maximise(mcc, Search(tables), build_region([], tables), greater_is_better=False)
    with pytest.raises(UnsupportedMetric, match="multiplies counts"):
        run(p, up(precision * recall), [])
    with pytest.raises(ValueError, match="300 digits"):
        run(p, up(1e300 * tp["a"] + 1e-300 * fp["a"] + pp), [])
