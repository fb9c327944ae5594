"""Rows put together where both players treat them alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_interior import _board, _game

from imbfit.adversarial import rounds, size_rounds
from imbfit.adversarial.board import Adversary, Board, Predictor
from imbfit.adversarial.bounds import Bounds
from imbfit.adversarial.game import solve_exact
from imbfit.adversarial.grouping import coarse, grouped
from imbfit.adversarial.interior import solve_interior
from imbfit.adversarial.interior_rest import Rest
from imbfit.adversarial.interior_state import centre
from imbfit.adversarial.interior_tables import tables_of
from imbfit.adversarial.marginal_lp import solve_lp
from imbfit.adversarial.replies import best_sets, peaks, summits
from imbfit.adversarial.size_rounds import spaced


def _played(shares: np.ndarray) -> tuple[Adversary, Predictor]:
    """Two sizes of each player; row i is in the first with these shares."""
    halves = np.full(2, 0.5)
    marginals = 0.5 * np.vstack([shares, np.ones(len(shares))])
    adversary = Adversary(np.array([1, 2]), halves, marginals, np.zeros(0))
    member = np.vstack([np.zeros(len(shares)), np.ones(len(shares))])
    return adversary, Predictor(np.array([0, 2]), member, halves)


def _rows(n_rows: int = 12, floor: str | None = None) -> Board:
    game, psi = _game("f1", n_rows, 1, floor=floor)
    return _board(game, psi)


@pytest.mark.parametrize("floor", [None, "recall >= 0.8"])
def test_a_group_is_a_block_of_its_rows(floor: str | None) -> None:
    board = _rows(floor=floor)
    groups = coarse(board, 4)
    assert 4 <= len(groups.first) <= 5
    assert groups.board.weight.sum() == board.weight.sum()
    for at, first in enumerate(groups.first):
        rows = groups.group == at
        assert np.flatnonzero(rows)[0] == first
        assert groups.board.weight[at] == board.weight[rows].sum()
        mean = (board.weight * board.psi)[rows].sum() / board.weight[rows].sum()
        assert groups.board.psi[at] == pytest.approx(mean, abs=1e-15)
    # a group has rows of one label
    for part, rows in zip(groups.board.parts, board.parts, strict=True):
        np.testing.assert_array_equal(
            np.unique(groups.group[rows]), np.arange(part.start, part.stop)
        )


def test_no_rows_of_a_label() -> None:
    board = _rows(floor="recall >= 0.8")
    n_rows = len(board.psi)
    for parts in ((slice(0, n_rows), slice(n_rows, n_rows)), (slice(0, 0), slice(0, n_rows))):
        one = Board(**{**vars(board), "parts": parts, "psi": np.sort(board.psi)[::-1]})
        groups = coarse(one, 6)
        assert [part.stop - part.start for part in groups.board.parts] == [
            min(part.stop - part.start, 3) for part in parts
        ]


def test_groups_that_stay_and_groups_that_part() -> None:
    board = _rows(12)
    groups = grouped(board, np.array([0, 3, 6, 9]))
    # the third group differs from both of its neighbours, the first is like the second
    shares = np.repeat([1.0, 1.0, 0.4, 0.0], 3)
    new = groups.alike(*_played(shares), 1e-3)
    # only the first group differs from no neighbour
    np.testing.assert_array_equal(new.first, [0, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    # what is alike goes together, once it is known to be so on the rows
    again = new.alike(*_played(shares), 1e-3)
    np.testing.assert_array_equal(again.first, [0, 5, 6, 7, 8, 9, 10])
    everywhere = groups.alike(*_played(shares), 10.0)
    np.testing.assert_array_equal(everywhere.first, [0])
    assert not everywhere.whole
    assert grouped(board, np.arange(12)).whole


def test_labels_are_never_put_together() -> None:
    board = _rows(16, floor="recall >= 0.8")
    positives = board.parts[0].stop
    new = coarse(board, 6).alike(*_played(np.full(16, 0.5)), 1e-3)
    assert positives in new.first


def test_what_is_spread_pays_the_same() -> None:
    game, psi = _game("kappa", 30, 3)
    board = _board(game, np.repeat(psi[::3], 3))
    groups = grouped(board, np.arange(0, 30, 3))
    every = np.arange(31)
    adversary, predictor, _ = solve_interior(groups.board, every, every, tol=1e-6)
    wide = groups.spread(adversary, predictor)
    one, other = Bounds(), Bounds()
    on_groups = one.answered(groups.board, adversary, predictor)
    on_rows = other.answered(board, *wide)
    np.testing.assert_allclose(on_rows.level, on_groups.level, atol=1e-12)
    np.testing.assert_allclose(on_rows.worth, on_groups.worth, atol=1e-12)
    assert one.upper - one.lower == pytest.approx(other.upper - other.lower, abs=1e-12)


def test_a_point_goes_from_groups_to_groups() -> None:
    board = _rows(12)
    every = np.arange(13)
    old, new = grouped(board, np.array([0, 4, 8])), grouped(board, np.array([0, 1, 8, 10]))
    tables = tables_of(old.board, every, every)
    at = centre(tables)
    rest = Rest(at, 1e-3, Rest(at, 1e-2))
    there = old.carried(new, rest)
    for name in ("x", "low", "high"):
        was, now = getattr(at, name), getattr(there.at, name)
        np.testing.assert_allclose(now[0], was[0])
        np.testing.assert_allclose(now[1], (3.0 * was[0] + 4.0 * was[1]) / 7.0)
        np.testing.assert_allclose(now[2:], was[[2, 2]])
        np.testing.assert_array_equal(getattr(there.before.at, name), now)
    assert old.carried(grouped(board, old.first), rest) is rest
    assert old.carried(new, None) is None


def test_back_to_a_larger_gap() -> None:
    tables = tables_of(_rows(12), np.arange(13), np.arange(13))
    at, rest = centre(tables), None
    for gap in (1.0, 1e-1, 1e-2, 1e-3):
        rest = Rest(at, gap, rest)
    for gap, found in [(1e-9, 1e-3), (1e-3, 1e-2), (5e-2, 1e-1), (0.5, 1.0), (2.0, 1.0)]:
        assert rest.back(gap).gap == pytest.approx(found)


@pytest.mark.parametrize(("metric", "floor"), [("f1", None), ("precision", "recall >= 0.8")])
@pytest.mark.parametrize("spread", [1.0, 4.0, 30.0])
@pytest.mark.parametrize("digits", [2, 9])
def test_groups_change_no_value(
    metric: str, floor: str | None, spread: float, digits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    game, psi = _game(metric, 24, 5, floor=floor, spread=spread)
    psi = np.round(psi, digits)
    program = solve_lp(psi, game)
    # small games begin in groups too, and no other solver helps
    for name, to in [("_FEW", 0), ("_LARGE", 0), ("_ROWS", 6), ("_GROUPS", 6)]:
        monkeypatch.setattr(size_rounds, name, to)
    monkeypatch.setattr(rounds, "_ROUNDS", 1)
    # relative to a value of up to 2
    found = solve_exact(psi, game, tol=5e-8)
    assert found.gap <= 1e-7
    assert found.upper == pytest.approx(program.upper, abs=2e-7)


@pytest.mark.parametrize("metric", ["f1", "kappa"])
def test_a_game_that_begins_in_groups_is_closed(metric: str) -> None:
    game, psi = _game(metric, 90, 5)
    assert solve_exact(psi, game, tol=1e-7).gap <= 1e-7


def test_bounds_answer_both_players() -> None:
    board = _rows(12)
    every = np.arange(13)
    adversary, predictor, _ = solve_interior(board, every[::2], every[::3], tol=1e-8)
    bounds = Bounds()
    answers = bounds.answered(board, adversary, predictor)
    level, _, upper = board.best_reply(adversary)
    sure, each = board.cost(predictor)
    worth = sure - best_sets(-each, board.weight, board.actual).total
    assert answers.upper == pytest.approx(upper, abs=1e-15)
    assert answers.lower == worth.min()
    assert (bounds.upper, bounds.lower) == (upper, worth.min())
    within = upper - level.max() + level[every[::2]].max() - worth[every[::3]].min()
    assert answers.within(every[::2], every[::3]) == pytest.approx(within, abs=1e-15)
    assert within == pytest.approx(0.0, abs=2e-8)
    # worse ones change nothing
    bounds.above(upper + 1.0, adversary)
    bounds.below(bounds.lower - 1.0, predictor)
    assert bounds.adversary is adversary
    assert (bounds.upper, bounds.lower) == (upper, worth.min())


def test_peaks_come_first() -> None:
    height = np.array([0.0, 3.0, 2.9, 2.8, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(peaks(height, 0.5, 9), [1, 2, 3, 5])
    np.testing.assert_array_equal(peaks(height, 0.5, 2), [1, 5])
    np.testing.assert_array_equal(peaks(height, 0.5, 3), [1, 5, 2])
    assert not len(peaks(height, 5.0, 2))


def test_summits_come_with_their_neighbours() -> None:
    height = np.array([0.0, 2.0, 1.1, 1.0, 0.9, 1.5, 0.2, 3.0])
    np.testing.assert_array_equal(summits(height, 0.5), [1, 2, 4, 5, 7])
    np.testing.assert_array_equal(summits(height, 1.2), [1, 5, 7])
    np.testing.assert_array_equal(summits(np.ones(4), 0.0), [0, 1, 2, 3])
    assert not len(summits(height, 5.0))


def test_a_search_begins_with_some_of_all_sizes_in_question() -> None:
    game, psi = _game("f1", 90, 6)
    board = _board(game, psi)
    sets = np.array([30, 45])
    adversary, predictor, _ = solve_interior(board, sets, sets, tol=1e-6)
    bounds = Bounds()
    answers = bounds.answered(board, adversary, predictor)
    found = spaced(board, bounds, np.array([45]))
    half = 0.5 * (answers.upper - answers.lower)
    near = np.flatnonzero(answers.level >= answers.level.max() - half)
    assert found.taken[[0, -1]].tolist() == near[[0, -1]].tolist()
    assert len(found.taken) == 6
    assert np.diff(found.taken).max() - np.diff(found.taken).min() <= 1
    near = np.flatnonzero(answers.worth <= answers.worth.min() + half)
    assert set(near[[0, -1]].tolist()) | {45} <= set(found.actual.tolist())
    assert len(found.actual) <= 7


def test_equal_scores_stay_in_order() -> None:
    board = _rows(40)
    same = Board(**{**vars(board), "psi": np.full(40, 0.1), "weight": np.linspace(0.1, 1.3, 40)})
    groups = grouped(same, np.array([0, 1, 4, 11, 13, 20, 33]))
    sums = np.add.reduceat(same.weight * same.psi, groups.first) / groups.board.weight
    # rounding has them fall and rise
    assert (np.diff(sums) > 0.0).any()
    assert (np.diff(groups.board.psi) <= 0.0).all()


def test_starts_come_nearer_and_rows_get_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    game, psi = _game("kappa", 90, 5)
    calls: list[dict[str, Any]] = []
    n_groups: list[int] = []

    def watched(board: Board, *sizes: np.ndarray, **how: Any) -> Any:
        calls.append(how)
        n_groups.append(len(board.psi))
        return solve_interior(board, *sizes, **how)

    monkeypatch.setattr(size_rounds, "solve_interior", watched)
    found = solve_exact(psi, game, tol=1e-7)
    near = [call["near"] for call in calls]
    assert near[0] == np.inf
    assert min(near) < 1e-4
    assert n_groups[0] == 48
    assert max(n_groups) < 90
    # the next game begins on rows
    rest = found.memory[1].rest
    assert rest.at.x.shape[0] == 90
    again = solve_exact(psi + 1e-6, game, tol=1e-7, start=found)
    assert again.gap <= 1e-7


def test_a_program_takes_over_where_no_step_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    game, psi = _game("f1", 24, 5, spread=1.0)
    for name, to in [("_FEW", 0), ("_ROWS", 6), ("_GROUPS", 6)]:
        monkeypatch.setattr(size_rounds, name, to)
    monkeypatch.setattr(rounds, "_ROUNDS", 1)
    monkeypatch.setattr(size_rounds, "solve_interior", lambda *_, **__: None)
    found = solve_exact(psi, game, tol=1e-7)
    assert found.gap <= 1e-7
    assert found.upper == pytest.approx(solve_lp(psi, game).upper, abs=1e-7)
    # its answer is for the rows
    interior = size_rounds._Interior(_board(game, psi), None, 1e-7)
    assert len(interior.groups.first) == 6
    assert interior.solved(np.arange(3), np.arange(3)) is None
    assert interior.groups.whole
    assert interior.rest is None
