"""The interior point method for a game restricted to some sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from imbfit.adversarial import interior
from imbfit.adversarial.board import Board
from imbfit.adversarial.game import Game, prepare, solve_exact
from imbfit.adversarial.interior import _followed, _played, _Way, solve_interior
from imbfit.adversarial.interior_newton import Newton, lacking, worth_of
from imbfit.adversarial.interior_rest import Rest, _given, _hats, resumed
from imbfit.adversarial.interior_state import State, centre
from imbfit.adversarial.interior_tables import tables_of
from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.adversarial.replies import best_sets
from imbfit.adversarial.size_marginals import solve_sizes
from imbfit.metrics import parse

PARTS = ["x", "low", "high", "size", "price", "edge", "due", "left", "sums"]
METRICS = ["f1", "f2", "kappa", "mcc", "precision", "accuracy", "10 * fp + 100 * fn"]


def _game(
    metric: str,
    n_rows: int,
    seed: int,
    *,
    floor: str | None = None,
    spread: float = 4.0,
    weighted: bool = False,
) -> tuple[Game, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.zeros(n_rows, bool)
    labels[: max(2, n_rows // 4)] = True
    rng.shuffle(labels)
    psi = spread / n_rows * rng.normal(size=n_rows)
    payoff = payoff_of(parse(metric), greater_is_better="fp" not in metric)
    if "fp" in metric:
        psi *= 100.0 * n_rows
    requirements = () if floor is None else (requirement_of(parse(floor)),)
    each = rng.integers(1, 6, n_rows).astype(float) if weighted else None
    return Game(payoff, requirements, "expected", labels, each), psi


def _board(game: Game, psi: np.ndarray) -> Board:
    return prepare(game).board(psi)[1]


def _bounds(board: Board, taken: np.ndarray, actual: np.ndarray, found) -> tuple[float, float]:
    """Return what the two sides prove of the game restricted to these sizes."""
    adversary, predictor = found[:2]
    level, _, upper = board.best_reply(adversary)
    upper += float(level[taken].max() - level.max())
    sure, each = board.cost(predictor)
    worth = sure - best_sets(-each, board.weight, board.actual).total
    return upper, float(worth[actual].min())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("floor", [None, "recall >= 0.8"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_linear_program_agrees(metric: str, floor: str | None, weighted: bool) -> None:
    game, psi = _game(metric, 14, 3, floor=floor, weighted=weighted)
    board = _board(game, psi)
    scale = game.payoff.range(float(board.weight.sum() / 4), float(board.weight.sum()))
    rng = np.random.default_rng(0)
    for some, actual in [
        (np.arange(len(board.taken)), np.arange(len(board.actual))),
        (np.arange(len(board.taken)), np.sort(rng.choice(len(board.actual), 5, replace=False))),
        (np.arange(0, len(board.taken), 2), np.arange(1, len(board.actual) - 1)),
    ]:
        taken = np.union1d(some, prepare(game).target.size)
        value = solve_sizes(board, taken, actual)[0]
        found = solve_interior(board, taken, actual, tol=1e-9 * scale)
        upper, lower = _bounds(board, taken, actual, found)
        assert upper == pytest.approx(value, abs=1e-6 * scale)
        if floor is None:
            assert lower == pytest.approx(value, abs=1e-6 * scale)


@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0, 50.0, 2000.0])
@pytest.mark.parametrize("metric", ["f1", "kappa"])
def test_any_scale_of_scores(metric: str, spread: float) -> None:
    game, psi = _game(metric, 60, 1, spread=spread)
    board = _board(game, psi)
    every = np.arange(0, 61, 2)
    upper, lower = _bounds(board, every, every, solve_interior(board, every, every, tol=1e-8))
    assert -1e-12 * (1.0 + abs(upper)) <= upper - lower <= 2e-8


def test_both_sides_are_feasible_however_early_it_stops() -> None:
    game, psi = _game("f1", 40, 5)
    board = _board(game, psi)
    every = np.arange(41)
    for tol in (0.5, 1e-2, 1e-6):
        adversary, predictor, _ = solve_interior(board, every, every, tol=tol)
        assert adversary.sizes.sum() == pytest.approx(1.0, abs=1e-12)
        assert predictor.mix.sum() == pytest.approx(1.0, abs=1e-12)
        held = adversary.marginals @ board.weight
        np.testing.assert_allclose(held, board.actual * adversary.sizes, atol=1e-11)
        np.testing.assert_allclose(
            predictor.member @ board.weight, board.taken[predictor.size], rtol=1e-9, atol=1e-9
        )
        assert (adversary.marginals >= 0.0).all()
        assert (adversary.marginals <= adversary.sizes[:, None] * (1 + 1e-12)).all()


@pytest.mark.parametrize("metric", METRICS[:4])
def test_units_do_not_matter(metric: str) -> None:
    game, psi = _game(metric, 30, 2)
    board = _board(game, psi)
    every = np.arange(31)
    one = solve_interior(board, every, every, tol=1e-9)[0]
    large = replace(
        board, psi=1e6 * board.psi, intercept=1e6 * board.intercept, slope=1e6 * board.slope
    )
    other = solve_interior(large, every, every, tol=1e-3)[0]
    # an optimum need not be the only one, but the path to it is the same
    np.testing.assert_allclose(other.marginals, one.marginals, atol=1e-6)


def test_a_block_is_so_many_rows() -> None:
    game, psi = _game("f1", 12, 4, weighted=True)
    each = game.multiplicity.astype(int)
    rows = Game(game.payoff, (), "expected", np.repeat(game.labels, each))
    one, many = _board(game, psi), _board(rows, np.repeat(psi, each))
    every = np.arange(0, each.sum() + 1, 3)
    upper = [
        _bounds(board, every, every, solve_interior(board, every, every, tol=1e-9))[0]
        for board in (one, many)
    ]
    assert upper[0] == pytest.approx(upper[1], abs=1e-8)


@pytest.mark.parametrize("floor", [None, "recall >= 0.8"])
def test_newton_solves_its_equations(floor: str | None) -> None:
    # each pair's product changes by what was asked for, and what the conditions lack goes
    game, psi = _game("f1", 20, 6, floor=floor)
    board = _board(game, psi)
    every = np.arange(21)
    tables = tables_of(board, every, every)
    at = centre(tables)
    rng = np.random.default_rng(1)
    parts = {name: getattr(at, name) for name in PARTS}
    parts = {name: v * np.exp(0.2 * rng.normal(size=v.shape)) for name, v in parts.items()}
    at = State.of(tables, **{**parts, "size": 3.0 * parts["size"]})
    newton = Newton(at, lacking(at), 1e-9)
    v, z = at.first, at.second
    goals = rng.uniform(0.1, 1.0, v.shape) * v * z
    step = newton.polished(goals, newton.step(goals))
    np.testing.assert_allclose(v * z + v * step.second + z * step.first, goals, atol=1e-10)
    for was, now in zip(lacking(at), lacking(at.moved(step, 1.0, 1.0)), strict=True):
        # but for the pull that keeps marginals near where they are
        np.testing.assert_allclose(now, 0.0, atol=1e-8 * max(1.0, float(np.abs(was).max())))


@pytest.mark.parametrize("floor", [None, "recall >= 0.8"])
def test_going_on_from_another_game_gives_the_same(floor: str | None) -> None:
    game, psi = _game("f1", 50, 7, floor=floor)
    other = psi + 0.3 / 50 * np.random.default_rng(2).normal(size=50)
    some = np.union1d(np.arange(0, 51, 4), prepare(game).target.size)
    more = np.union1d(some, [1, 2, 13, 14, 37, 49, 50])
    board = _board(game, other)
    _, _, rest = solve_interior(_board(game, psi), some, some, tol=1e-8)
    begun = solve_interior(board, more, more, tol=1e-9, start=rest)
    fresh = solve_interior(board, more, more, tol=1e-9)
    assert _bounds(board, more, more, begun)[0] == pytest.approx(
        _bounds(board, more, more, fresh)[0], abs=1e-8
    )


def test_a_start_of_another_shape_is_no_start() -> None:
    game, psi = _game("f1", 30, 8)
    smaller, scores = _game("f1", 20, 8)
    every = np.arange(21)
    _, _, rest = solve_interior(_board(smaller, scores), every, every, tol=1e-6)
    board, every = _board(game, psi), np.arange(31)
    begun = solve_interior(board, every, every, tol=1e-9, start=rest)
    fresh = solve_interior(board, every, every, tol=1e-9)
    np.testing.assert_array_equal(begun[0].marginals, fresh[0].marginals)


@pytest.mark.parametrize("size", [0, 1, 12, 24, 25])
def test_one_size_of_the_adversary(size: int) -> None:
    game, psi = _game("f1", 25, 9)
    board = _board(game, psi)
    every, one = np.arange(26), np.array([size])
    value = solve_sizes(board, every, one)[0]
    upper, lower = _bounds(board, every, one, solve_interior(board, every, one, tol=1e-9))
    assert upper == pytest.approx(value, abs=1e-8)
    assert lower == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("metric", ["f1", "kappa"])
def test_a_game_of_many_sizes_is_closed(metric: str) -> None:
    # scores of 4 / n mix so many sizes that no small linear program holds an optimum
    game, psi = _game(metric, 120, 10)
    found = solve_exact(psi, game, tol=1e-7)
    assert found.gap <= 1e-7
    assert len(found.sizes) > 12


def test_equal_scores() -> None:
    game, _ = _game("f1", 40, 11)
    board = _board(game, np.zeros(40))
    every = np.arange(41)
    upper, lower = _bounds(board, every, every, solve_interior(board, every, every, tol=1e-9))
    assert upper - lower <= 1e-8


def _tables(metric: str = "f1", n_rows: int = 30, seed: int = 12, unit: float = 1.0):
    game, psi = _game(metric, n_rows, seed, floor="recall >= 0.8")
    board = _board(game, psi)
    board = replace(
        board, psi=unit * board.psi, intercept=unit * board.intercept, slope=unit * board.slope
    )
    every = np.arange(n_rows + 1)
    return tables_of(board, every, every), every


def test_it_begins_where_the_marginals_lack_no_more_than_the_payoff() -> None:
    tables, _ = _tables()
    at = centre(tables)
    rows, others = lacking(at)
    adversary, n_sizes = tables.sign > 0.0, len(tables.cost)
    # the predictor's answer, and the adversary's but for what the predictor makes of it
    np.testing.assert_allclose(rows[:, ~adversary], 0.0, atol=1e-9)
    payoff = tables.across(at.x)[:, adversary]
    np.testing.assert_allclose(-rows[:, adversary], payoff, atol=1e-9)
    np.testing.assert_allclose(others[n_sizes : n_sizes + len(tables.rows)], 0.0, atol=1e-9)


@pytest.mark.parametrize("off", [0.8, 1.2])
def test_what_is_played_has_its_sums_whatever_the_state_has(off: float) -> None:
    tables, every = _tables()
    at = centre(tables)
    parts = {name: getattr(at, name) for name in PARTS}
    x = at.x * min(1.0, off)
    room = at.size[tables.open_] - x
    parts["x"] = at.size[tables.open_] - room * (1.0 / off if off > 1.0 else 1.0)
    parts["size"] = at.size * np.where(np.arange(len(at.size)) < len(every), 1.1, 1.0)
    at = State.of(tables, **parts)
    adversary, predictor = _played(at, every, every)
    assert adversary.sizes.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(adversary.marginals.sum(axis=1), every * adversary.sizes, atol=1e-12)
    np.testing.assert_allclose(predictor.member.sum(axis=1), every[predictor.size], rtol=1e-9)


def test_a_size_that_is_played_next_to_never_is_played() -> None:
    tables, every = _tables()
    parts = {name: getattr(centre(tables), name) for name in PARTS}
    # a quarter of this is 0
    least = np.nextafter(0.0, 1.0)
    parts["size"] = 4.0 * parts["size"]
    parts["size"][3] = least
    parts["x"] = 4.0 * parts["x"]
    parts["x"][:, 2] = 0.0
    adversary, _ = _played(State.of(tables, **parts), every, every)
    assert adversary.sizes[3] == 0.0
    np.testing.assert_array_equal(adversary.marginals[3], 0.0)
    assert np.isfinite(adversary.marginals).all()


def test_going_on_with_the_same_game_changes_nothing_but_units() -> None:
    tables, _ = _tables()
    large, _ = _tables(unit=100.0)
    at = centre(tables)
    # the same numbers, as they are told in units that are half as long
    halved = replace(tables, unit=2.0 * tables.unit)
    for game, factor in ((tables, 1.0), (halved, 0.5), (large, 0.01)):
        state = resumed(game, Rest(at, 1e-3 * at.game.pairs))
        for name in ("x", "size"):
            np.testing.assert_allclose(getattr(state, name), getattr(at, name), rtol=1e-9)
        for name in ("low", "high", "price", "edge", "due", "sums"):
            np.testing.assert_allclose(
                getattr(state, name), factor * getattr(at, name), rtol=1e-9, atol=1e-12
            )


def test_going_on_with_other_sizes_leaves_probabilities() -> None:
    tables, every = _tables()
    game, psi = _game("f1", 30, 12, floor="recall >= 0.8")
    some = np.union1d(every[::3], prepare(game).target.size)
    fewer = tables_of(_board(game, psi), some, some)
    for old, new in ((tables, fewer), (fewer, tables)):
        state = resumed(new, Rest(centre(old), 1e-3 * old.pairs))
        n = new.n_adversary
        assert state.size[:n].sum() == pytest.approx(1.0, abs=1e-12)
        assert state.size[n:].sum() == pytest.approx(1.0, abs=1e-12)
        held = new.rows * state.size[new.open_]
        np.testing.assert_allclose(new.weight @ state.x, held, rtol=1e-6)
        assert (state.first > 0.0).all()
        assert (state.second > 0.0).all()


def test_a_start_that_leads_nowhere_is_left_for_a_fresh_one() -> None:
    game, psi = _game("f1", 60, 13)
    every = np.arange(0, 61, 2)
    tables = tables_of(_board(game, psi), every, every)
    # an optimum is at the boundary, and from there no way leads to that of other scores
    end, _, closed = _followed(centre(tables), 1e-9)
    assert closed
    board = _board(game, -psi)
    begun = solve_interior(board, every, every, tol=1e-9, start=Rest(end, end.gap))
    fresh = solve_interior(board, every, every, tol=1e-9)
    np.testing.assert_array_equal(begun[0].marginals, fresh[0].marginals)


def test_a_gap_that_grows_from_a_start_is_not_followed_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways = []

    def grows(at: State, _tol: float, held: float) -> tuple[State, bool, float]:
        ways[-1] += 1
        return replace(at, second=1.1 * at.second), False, held

    def noted(*args: Any, **options: Any) -> Any:
        ways.append(0)
        return _followed(*args, **options)

    game, psi = _game("f1", 30, 17)
    board, every = _board(game, psi), np.arange(0, 31, 3)
    rest = solve_interior(board, every, every, tol=1e-3)[2]
    monkeypatch.setattr(interior, "_next", grows)
    monkeypatch.setattr(interior, "_followed", noted)
    solve_interior(board, every, every, tol=1e-6, start=rest)
    assert ways == [interior._PATIENCE, interior._STEPS]


def test_requirements_have_units_of_their_own() -> None:
    game, psi = _game("f1", 30, 14, floor="recall >= 0.8")
    board = _board(game, psi)
    every = np.arange(31)
    one = solve_interior(board, every, every, tol=1e-9)[0]
    large = replace(board, slack=1e7 * board.slack, slack_slope=1e7 * board.slack_slope)
    other = solve_interior(large, every, every, tol=1e-9)[0]
    np.testing.assert_allclose(other.marginals, one.marginals, atol=1e-6)
    np.testing.assert_allclose(1e7 * other.alpha, one.alpha, rtol=1e-6)


def test_equations_that_rounding_spoils_are_told() -> None:
    game, psi = _game("kappa", 40, 15, spread=1.0)
    every = np.arange(41)
    tables = tables_of(_board(game, psi), every, every)
    end = _followed(centre(tables), 1e-9)[0]
    left = []
    for held in (1e-14, 1e-9, 1e-6):
        newton = Newton(end, lacking(end), held)
        left.append(newton.left(0.0, newton.polished(0.0, newton.step(0.0))))
    # what holds marginals where they are is what keeps digits
    assert left[2] < 1e-12
    assert left[2] <= left[1] <= left[0]


def test_points_on_the_way_are_kept() -> None:
    game, psi = _game("f1", 40, 16)
    every = np.arange(41)
    rest = solve_interior(_board(game, psi), every, every, tol=1e-8)[2]
    gaps = []
    while rest is not None:
        gaps.append(rest.gap)
        rest = rest.before
    assert (np.diff(gaps) > 0.0).all()
    assert gaps[0] < 1e-7
    assert gaps[-1] == pytest.approx(1.0)
    assert 6 < len(gaps) < 20


def test_a_start_is_as_near_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    game, psi = _game("f1", 40, 17)
    board, every = _board(game, psi), np.arange(41)
    rest = solve_interior(board, every, every, tol=1e-8)[2]
    begun: list[float] = []

    def watched(tables: Any, start: Rest) -> State | None:
        begun.append(start.gap)
        return resumed(tables, start)

    monkeypatch.setattr(interior, "resumed", watched)
    asked = [1e-2, 1e-3, 1e-5]
    for near in asked:
        solve_interior(board, every, every, tol=1e-8, start=rest, near=near)
    assert (np.array(begun) > asked).all()
    assert (np.array(begun) < 10.0 * np.array(asked)).all()
    # never too near a game that may be far
    solve_interior(board, every, every, tol=1e-8, start=rest)
    assert begun[3] == begun[0]
    # a gap is in the payoff's units
    large = replace(
        board, psi=1e6 * board.psi, intercept=1e6 * board.intercept, slope=1e6 * board.slope
    )
    solve_interior(large, every, every, tol=1e-2, start=rest, near=1e6 * asked[2])
    assert begun[4] == begun[2]


def test_equations_are_solved_twice() -> None:
    game, psi = _game("kappa", 40, 15, spread=1.0)
    every = np.arange(41)
    tables = tables_of(_board(game, psi), every, every)
    at = _followed(centre(tables), 1e-4)[0]
    newton = Newton(at, lacking(at), 1e-9)
    goals = 0.1 * at.first * at.second
    once = newton.step(goals)
    assert newton.left(goals, newton.polished(goals, once)) < 0.1 * newton.left(goals, once)


def test_each_player_goes_its_own_length() -> None:
    # what follows from a player's part of a step has conditions of its own, which fall with it
    tables, every = _tables()
    at = centre(tables)
    newton = Newton(at, lacking(at), 0.0)
    step = newton.polished(0.0, newton.step(0.0))
    n, n_open, n_sizes = len(every), len(tables.open_), len(tables.cost)
    mine = tables.sign > 0.0
    rows, others = lacking(at)
    # perturbed, so that none of them is met already
    at = State.of(
        tables,
        **{name: getattr(at, name) * (1.1 if name != "x" else 0.9) for name in PARTS},
    )
    newton = Newton(at, lacking(at), 0.0)
    step = newton.polished(0.0, newton.step(0.0))
    rows, others = lacking(at)
    for adversary, predictor in [(1.0, 0.0), (0.0, 1.0), (0.3, 0.8)]:
        now, rest = lacking(at.moved(step, adversary, predictor))
        a, p = 1.0 - adversary, 1.0 - predictor
        # prices of a player's choices follow from what the other plays
        np.testing.assert_allclose(now, rows * np.where(mine, p, a), atol=1e-7)
        share = np.concatenate(
            [
                np.where(np.arange(n_sizes) < n, p, a),
                np.where(mine, a, p),
                np.full(len(tables.slack), p),
                [a, p],
            ]
        )
        np.testing.assert_allclose(rest, others * share, atol=1e-7)
    assert n_open < n_sizes


def test_a_way_ends_at_the_boundary() -> None:
    tables, _ = _tables()
    at = centre(tables)
    newton = Newton(at, lacking(at), 1e-9)
    step = newton.step(0.0)
    lengths = _Way.of(at, step).lengths
    assert lengths[0] != lengths[1]
    mine = tables.moved_by_adversary[0]
    there = at.moved(step, *lengths)
    for own in (mine, ~mine):
        members = np.concatenate([there.first[own] / at.first[own], there.second[~own]])
        assert members.min() == pytest.approx(0.0, abs=1e-9)
    inside = at.moved(step, *(0.99 * length for length in lengths))
    assert (inside.first > 0.0).all()
    assert (inside.second > 0.0).all()


def test_between_two_steps_the_longest_way_is_taken() -> None:
    tables, _ = _tables()
    at = centre(tables)
    newton = Newton(at, lacking(at), 1e-9)
    one, other = newton.step(0.0), newton.step(0.5 * at.first * at.second)
    way = _Way.of(at, one)
    share, found = way.best_share(_Way.of(at, other))
    lengths = {each: _Way.of(at, one.between(other, each)).lengths for each in (1, 0.7, 0.4, 0.15)}
    assert sum(found.lengths) == pytest.approx(max(map(sum, lengths.values())))
    np.testing.assert_allclose(found.lengths, lengths[share])
    assert way.best_share(way) == (0.0, way)


def test_sizes_that_join_take_from_their_neighbours() -> None:
    rows = np.array([10.0, 20.0, 40.0])
    wanted = np.array([5.0, 10.0, 12.0, 15.0, 20.0, 30.0, 40.0, 50.0])
    hats, same = _hats(wanted, rows, 1e-9)
    np.testing.assert_array_equal(same, [False, True, False, False, True, False, True, False])
    inner = (wanted >= 10.0) & (wanted <= 40.0)
    np.testing.assert_allclose(hats.sum(axis=1), 1.0)
    np.testing.assert_allclose((hats @ rows)[inner], wanted[inner])
    odds = np.array([0.5, 0.3, 0.2])
    given = _given(odds, hats, same, ~inner)
    assert (given > 0.0).all()
    assert given.sum() == pytest.approx(1.0)
    # beyond the last size, which shares evenly but for that, what joins gets a tenth
    assert given[-1] == pytest.approx(0.1 * 0.2 / (1.0 + hats[~same, 2].sum()))
    # nor does the mean change, but for the sizes beyond the others
    taken = hats[~same & ~inner].T @ given[~same & ~inner]
    assert given[inner] @ wanted[inner] + taken @ rows == pytest.approx(odds @ rows)
    np.testing.assert_allclose(_given(odds, np.eye(3), np.ones(3, bool), np.zeros(3, bool)), odds)


def test_sizes_join_without_harm_to_the_others() -> None:
    game, psi = _game("f1", 60, 18)
    board = _board(game, psi)
    some, more = np.arange(20, 50, 6), np.arange(20, 48)
    rest = solve_interior(board, some, some, tol=1e-5)[2]
    new = tables_of(board, more, more)
    state = resumed(new, rest)
    was = rest.at
    for player in (1.0, -1.0):
        old_sums = was.x[:, was.game.sign == player].sum(axis=1)
        sums = state.x[:, new.sign == player].sum(axis=1)
        np.testing.assert_allclose(sums, old_sums, atol=1e-8)
    # a table of slopes that hardly bends between the sizes
    missing = worth_of(state, *lacking(state))
    assert missing < 0.02
    assert missing > worth_of(was, *lacking(was))


def test_more_sizes_begin_from_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    game, psi = _game("kappa", 80, 19)
    board = _board(game, psi)
    steps = [0]
    taken = interior._next

    def counted(*args: Any) -> Any:
        steps[-1] += 1
        return taken(*args)

    monkeypatch.setattr(interior, "_next", counted)
    some, more = np.arange(16, 70, 6), np.arange(16, 65, 2)
    rest = solve_interior(board, some, some, tol=1e-5)[2]
    steps.append(0)
    begun = solve_interior(board, more, more, tol=1e-7, start=rest, near=1e-3)
    steps.append(0)
    fresh = solve_interior(board, more, more, tol=1e-7)
    assert _bounds(board, more, more, begun)[0] == pytest.approx(
        _bounds(board, more, more, fresh)[0], abs=2e-7
    )
    assert steps[1] < steps[2]
