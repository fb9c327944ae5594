"""One segment."""

import numpy as np
import pytest
from oracles import Infinite, metric
from random_problems import ANYTHING, OBJECTIVES, problem, up

from imbfit.metrics import accuracy, f1, mcc, pp, precision, tp
from imbfit.threshold.objectives import maximise
from imbfit.threshold.region import Region
from imbfit.threshold.scan import name_of, objective_values, scan
from imbfit.threshold.solving import Search
from imbfit.threshold.table import build_tables


def tables_of(p):
    return build_tables(p.y, p.score, weight=p.weight, columns={"a": p.amount})


@pytest.mark.parametrize("objective", [*OBJECTIVES, *ANYTHING], ids=str)
def test_every_candidate_has_the_value_of_its_counts(objective):
    greater = objective.greater_is_better
    for seed in range(12):
        p = problem(seed, groups=1)
        tables = tables_of(p)
        values = objective_values(objective, tables, 0, greater_is_better=greater)
        for got, choice in zip(values, p.choices(), strict=True):
            try:
                want = float(metric(objective, choice.counts, choice.columns, greater))
            except Infinite:
                continue
            assert got == pytest.approx(want, rel=1e-9, abs=1e-9)


def test_the_first_of_equal_values_as_fractions():
    # both values are 2/3 up to the last bit: 0.1 * 3 / ... in floats would decide by rounding
    for seed in range(300):
        p = problem(seed, groups=1, objectives=[accuracy, f1, precision])
        tables = tables_of(p)
        greater = True
        allowed = np.random.default_rng(seed).random(len(tables.above)) < 0.8
        allowed[-1] = True
        got = scan(p.objective, tables, allowed, greater_is_better=greater)
        values = [
            metric(p.objective, choice.counts, choice.columns, greater) for choice in p.choices()
        ]
        best = max(v for v, ok in zip(values, allowed, strict=True) if ok)
        first = next(i for i, v in enumerate(values) if allowed[i] and v == best)
        assert got == first, seed


def test_ties_beyond_rounding_are_settled_exactly():
    # 5 and 5 - 1/10^16 are the same float
    y = np.array([True, False, True, False])
    tables = build_tables(y, np.array([4.0, 3.0, 2.0, 1.0]))
    objective = up(5 + 1e-16 * pp - 2e-16 * tp)
    everything = np.ones(5, bool)
    assert scan(objective, tables, everything, greater_is_better=True) == 0
    assert scan(objective, tables, everything, greater_is_better=False) == 1


def test_nothing_allowed():
    tables = tables_of(problem(0, groups=1))
    assert scan(f1, tables, np.zeros(len(tables.above), bool), greater_is_better=True) is None


def test_only_allowed_candidates_even_of_infinite_value():
    y = np.array([True, False, True, False])
    tables = build_tables(y, np.array([4.0, 3.0, 2.0, 1.0]))
    for value in (-np.inf, np.inf, 0.0):
        for at in range(5):
            allowed = np.arange(5) == at

            def constant(tp, fp, fn, tn, value=value):  # noqa: ARG001
                return np.full(np.shape(tp), value)

            for greater in (True, False):
                assert scan(constant, tables, allowed, greater_is_better=greater) == at


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_the_scan_and_the_search_over_segments_agree_on_one(objective):
    greater = objective.greater_is_better
    for seed in range(15):
        p = problem(50 + seed, groups=1)
        tables = tables_of(p)
        allowed = np.random.default_rng(seed).random(len(tables.above)) < 0.7
        allowed[0] = True
        at = scan(objective, tables, allowed, greater_is_better=greater)
        values = objective_values(objective, tables, 0, greater_is_better=greater)
        outcome = maximise(
            objective, Search(tables), Region(allowed.copy()), greater_is_better=greater
        )
        got = outcome.value if greater else -outcome.value
        assert outcome.status == "optimal"
        assert got == pytest.approx(values[at], rel=1e-9, abs=1e-9)
        assert allowed[outcome.choice].all()


def test_a_callable_must_be_vectorised_and_have_values():
    tables = tables_of(problem(0, groups=1))

    def scalar(tp, fp, fn, tn):  # noqa: ARG001
        return 1.0

    def holes(tp, fp, fn, tn):  # noqa: ARG001
        return np.where(tp > 0, 1.0, np.nan)

    with pytest.raises(ValueError, match=r"scalar returned shape .* vectorised"):
        objective_values(scalar, tables, 0, greater_is_better=True)
    with pytest.raises(ValueError, match="holes is NaN at tp=0"):
        objective_values(holes, tables, 0, greater_is_better=True)
    assert name_of(scalar) == "scalar"
    assert name_of(mcc) == "mcc"
