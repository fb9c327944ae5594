"""Branching on candidates and looking at all cheap choices by halves: against brute force."""

import itertools
import time

import numpy as np
import pytest
from test_selection import brute_force, check, one_hot, random_selection, small

import imbfit.threshold.branching as branching_module
import imbfit.threshold.halves as halves_module
from imbfit.threshold.core import Core
from imbfit.threshold.halves import best_of_halves
from imbfit.threshold.selection import select


def random_core(seed):
    """Values that follow from reduced costs and usages, as they do in a reduced problem."""
    rng = np.random.default_rng(seed)
    n_rows, sizes = int(rng.integers(1, 4)), rng.integers(1, 5, int(rng.integers(1, 6)))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    reduced = rng.integers(0, 30, starts[-1]).astype(float)
    usage = [rng.integers(-20, 60, starts[-1]) for _ in range(n_rows)]
    multipliers = rng.integers(0, 4, n_rows).astype(float)
    best = rng.integers(0, 100, len(sizes))
    value = np.repeat(best, sizes) - reduced.astype(int)
    for m, row in zip(multipliers, usage, strict=True):
        value = value + int(m) * row
    limits = [
        int(sum(rng.choice(row[a:b]) for a, b in itertools.pairwise(starts))) for row in usage
    ]
    bound = int(best.sum() + sum(m * b for m, b in zip(multipliers, limits, strict=True)))
    return Core(starts, value, reduced, usage, limits, multipliers), bound


def choices_of(core):
    return np.array(
        list(itertools.product(*itertools.starmap(range, itertools.pairwise(core.starts))))
    )


@pytest.mark.parametrize("states", [10_000, 3])
def test_halves_find_the_best_choice_within_the_room(states):
    complete = 0
    for seed in range(300):
        core, bound = random_core(seed)
        room = float(np.random.default_rng(seed).integers(1, 120))
        choices = choices_of(core)
        value = core.value[choices].sum(axis=1)
        fits = value >= bound - room
        for row, limit in zip(core.usage, core.limits, strict=True):
            fits &= row[choices].sum(axis=1) <= limit
        found = best_of_halves(core, room=room, blur=1e-6, states=states)
        complete += found.complete
        if found.complete:
            assert (found.choice is None) == (not fits.any()), seed
        if found.choice is not None:
            reached = core.value[found.choice].sum()
            assert (choices[fits] == found.choice).all(axis=1).any(), seed
            assert reached <= value[fits].max()
            assert not found.complete or reached == value[fits].max(), seed
    assert complete == 300 if states == 10_000 else 60 < complete < 300


def test_halves_look_at_pairs_in_portions(monkeypatch):
    monkeypatch.setattr(halves_module, "_PAIRS_AT_ONCE", 3)
    test_halves_find_the_best_choice_within_the_room(10_000)


def test_too_many_pairs_are_told():
    core, _ = random_core(3)
    late = best_of_halves(core, room=100.0, blur=1e-6, states=1000, deadline=time.monotonic() - 1)
    assert not late.complete


@pytest.mark.parametrize("states", [2, 20])
def test_nodes_are_cut_where_there_are_too_many_choices(monkeypatch, states):
    cuts = []
    original = branching_module._cut

    def counted(reduction):
        cuts.append(1)
        return original(reduction)

    monkeypatch.setattr(branching_module, "_STATES", states)
    monkeypatch.setattr(branching_module, "_FEW_STATES", states)
    monkeypatch.setattr(branching_module, "_cut", counted)
    for seed in range(25):
        problem, value = small(2000 + seed, rows=2 + seed % 3)
        check(problem, value, select(problem), brute_force(problem, value)[0])
    for seed in range(4):
        problem, value = random_selection(3000 + seed, widest=16, rows=2 + seed % 3)
        check(problem, value, select(problem), one_hot(problem, value))
    assert cuts


def test_values_beyond_64_bits_are_counted_through_by_the_dynamic_program():
    for seed in range(40):
        problem, value = small(4000 + seed, rows=2, error=0.0)
        wide = 2**70 * value.astype(object)
        problem = type(problem)(
            problem.starts,
            wide.astype(float),
            lambda index, wide=wide: wide[index],
            0.0,
            problem.usage,
            problem.limits,
        )
        best = brute_force(problem, value)[0]
        answer = select(problem)
        assert (answer.choice is None) == (best is None)
        assert best is None or answer.value == 2**70 * best


def test_what_is_left_when_time_is_up_is_a_choice_with_a_bound():
    unproven = 0
    for seed in range(30):
        given = {"segments": 12, "rows": 2, "big": 10**6, "error": 0.0}
        problem, value = random_selection(5000 + seed, **given)
        best = one_hot(problem, value)
        answer = select(problem, deadline=time.monotonic() - 1)
        if best is None:
            assert answer.choice is None
            continue
        assert answer.bound >= best
        assert answer.status != "infeasible"
        assert answer.choice is None or answer.value <= best
        unproven += answer.status != "optimal"
    assert unproven > 3
