"""The parts of a game one by one: requirements, best replies, the program over the sizes."""

import itertools

import numpy as np
import pytest
from oracles import lines, marginal_game
from scipy import optimize, sparse
from test_game import game_of

from imbfit.adversarial import linear_program, rounds, size_rounds
from imbfit.adversarial.board import Predictor
from imbfit.adversarial.game import Game, prepare, solve_exact
from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.adversarial.replies import best_sets
from imbfit.adversarial.requirements import Target, target_for
from imbfit.adversarial.restricted import Memory, Restricted
from imbfit.adversarial.row_bounds import _Curves
from imbfit.adversarial.size_marginals import solve_sizes
from imbfit.exceptions import InfeasibleConstraints
from imbfit.parsing import read

BOTH = ("recall >= 0.8", "specificity >= 0.6")


def scarcest(left):
    """The greatest smallest mean of the rows of a table over mixes of its columns."""
    n_rows, n_columns = left.shape
    found = optimize.linprog(
        [*[0.0] * n_columns, -1.0],
        A_ub=np.hstack([-left, np.ones((n_rows, 1))]),
        b_ub=np.zeros(n_rows),
        A_eq=[[*[1.0] * n_columns, 0.0]],
        b_eq=[1.0],
        bounds=[*[(0, None)] * n_columns, (None, None)],
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("texts", [BOTH, ("recall >= 0.9",), ("precision >= 0.4", "fp <= 1")])
@pytest.mark.parametrize(("positives", "n"), [(1, 4), (2, 5), (4, 5), (3, 3)])
def test_the_target_leaves_most_of_the_scarcest(texts, positives, n):
    requirements = [requirement_of(read(text)) for text in texts]
    sizes = np.arange(n + 1.0)
    tables = [requirement.tables(sizes, float(positives), n) for requirement in requirements]
    slack, slope = (np.array(table) for table in zip(*tables, strict=True))
    target = target_for(texts, sizes, float(positives), float(n), slack, slope)
    # every prediction, one by one, at the labels 1 ... 1 0 ... 0
    written = [lines(requirement, range(n + 1), [positives], n) for requirement in requirements]
    all_of_them = np.array(
        [
            [free[sum(x), 0] + by_hit[sum(x), 0] * sum(x[:positives]) for free, by_hit in written]
            for x in itertools.product((0, 1), repeat=n)
        ]
    )
    assert target.left.min() == pytest.approx(scarcest(all_of_them.T), abs=1e-9)
    assert target.mix.sum() == pytest.approx(1.0)
    taken = sizes[target.size]
    assert (target.hits <= np.minimum(taken, positives)).all()
    assert (target.hits >= np.maximum(0.0, taken - (n - positives))).all()


def test_only_requirements_in_conflict_are_named():
    """Slack by size alone: the first two can't hold together, and the third always holds."""
    sizes = np.arange(4.0)
    slack = np.array([sizes - 2.0, 1.0 - sizes, np.ones(4)])
    for order in itertools.permutations(range(3)):
        names = [f"r{which}" for which in order]
        with pytest.raises(InfeasibleConstraints) as caught:
            target_for(names, sizes, 1.0, 3.0, slack[list(order)], np.zeros((3, 4)))
        assert sorted(caught.value.conflict) == ["r0", "r1"]


def test_a_requirement_is_not_missed_by_rounding():
    sizes = np.arange(3.0)
    target = target_for(["r"], sizes, 1.0, 2.0, np.full((1, 3), -1e-12), np.zeros((1, 3)))
    # and what holds but for rounding has nothing left to mend with
    assert target.left == [0.0]
    with pytest.raises(InfeasibleConstraints, match="misses it by 1e-09"):
        target_for(["r"], sizes, 1.0, 2.0, np.full((1, 3), -1e-9), np.zeros((1, 3)))


@pytest.mark.parametrize("weight", [[1, 1, 1, 1, 1], [2, 3, 1, 4, 1.5]])
def test_the_sets_of_the_target(weight):
    weight = np.array(weight, float)
    labels = np.array([True, False, True, False, True])
    ready = prepare(game_of("f1", BOTH, "observed", labels, weight))
    _, board = ready.board(np.array([0.3, 0.2, -0.1, -0.2, 0.1]))
    target = ready.target
    size, member = target.sets(board)
    assert (member >= 0.0).all()
    assert (member <= 1.0).all()
    np.testing.assert_allclose(member @ board.weight, board.taken[size])
    np.testing.assert_allclose(
        member[:, board.parts[0]] @ board.weight[board.parts[0]], target.hits
    )
    np.testing.assert_allclose(target.mix @ board.slacks(size, member), target.left, atol=1e-9)
    # nobody: recall is missed by far and specificity is not, so two requirements ask for shares
    nobody = Predictor(np.zeros(1, np.intp), np.zeros((1, 5)), np.ones(1))
    everybody = Predictor(np.array([len(board.taken) - 1]), np.ones((1, 5)), np.ones(1))
    half = Predictor(
        np.append(nobody.size, everybody.size),
        np.vstack([nobody.member, everybody.member]),
        np.array([0.5, 0.5]),
    )
    for played in (nobody, everybody, half):
        mended = target.mended(board, played)
        assert mended.mix.sum() == pytest.approx(1.0)
        slack = mended.mix @ board.slacks(mended.size, mended.member)
        # no more of the target than it takes
        assert slack.min() == pytest.approx(0.0, abs=1e-9)
    assert (half.mix @ board.slacks(half.size, half.member) < -0.05).all()


def test_sets_take_shares_of_blocks():
    weight = np.array([2.0, 4.0, 3.0])
    ready = prepare(game_of("f1", BOTH, "observed", [True, True, False], weight))
    _, board = ready.board(np.zeros(3))
    one = Target(np.array([6]), np.array([3.0]), np.ones(1), np.zeros(2))
    np.testing.assert_allclose(one.sets(board)[1], [[1.0, 0.25, 1.0]])
    other = Target(np.array([2]), np.array([0.5]), np.ones(1), np.zeros(2))
    np.testing.assert_allclose(other.sets(board)[1], [[0.25, 0.0, 0.5]])


@pytest.mark.parametrize("ordered", [True, False])
def test_best_sets_are_the_largest_gains(ordered):
    random = np.random.default_rng(60)
    for _ in range(60):
        blocks = int(random.integers(1, 6))
        tenths = random.integers(1, 30, blocks)
        sizes = np.append(np.arange(0, tenths.sum(), 7), tenths.sum())
        gain = np.round(random.normal(size=(len(sizes), blocks)), 1)
        if ordered:
            gain = -np.sort(-gain, axis=1)
        found = best_sets(gain, tenths / 10, sizes / 10)
        each = [np.sort(np.repeat(row, tenths))[::-1] for row in gain]
        total = [each[at][:size].sum() / 10 for at, size in enumerate(sizes)]
        np.testing.assert_allclose(found.total, total, atol=1e-12)
        member = found.members(np.arange(len(sizes)))
        assert (member >= 0.0).all()
        assert (member <= 1.0).all()
        np.testing.assert_allclose(member @ (tenths / 10), sizes / 10, atol=1e-12)
        np.testing.assert_allclose((member * gain) @ (tenths / 10), total, atol=1e-12)


@pytest.mark.parametrize("count", ["expected", "observed"])
@pytest.mark.parametrize("requirements", [(), ("recall >= 0.8",), BOTH])
@pytest.mark.parametrize("metric", ["f1", "markedness", "kappa"])
def test_the_program_over_all_sizes(metric, requirements, count):
    """Both sides' moves attain the value of the game of the rows one by one."""
    random = np.random.default_rng(61)
    times = np.array([1, 2, 1, 2])
    labels = np.array([True, False, False, True])
    for scale in (0.05, 1.0):
        psi = random.normal(size=4) * scale
        played = game_of(metric, requirements, count, labels, times.astype(float))
        _, board = prepare(played).board(psi)
        every = np.arange(len(board.taken)), np.arange(len(board.actual))
        value, adversary, predictor = solve_sizes(board, *every)
        exact, _ = marginal_game(
            np.repeat(psi, times),
            played.payoff,
            played.requirements,
            np.repeat(labels, times),
            count,
        )
        assert value == pytest.approx(exact, abs=1e-8)
        assert board.best_reply(adversary)[2] == pytest.approx(exact, abs=1e-8)
        np.testing.assert_allclose(
            adversary.marginals @ board.weight,
            adversary.sizes * board.actual[adversary.played],
            atol=1e-8,
        )
        np.testing.assert_allclose(
            predictor.member @ board.weight, board.taken[predictor.size], atol=1e-7
        )
        sure, each = board.cost(predictor)
        replies = best_sets(-each, board.weight, board.actual)
        assert (sure - replies.total).min() == pytest.approx(exact, abs=1e-7)
        slack = predictor.mix @ board.slacks(predictor.size, predictor.member)
        assert slack.min(initial=0.0) >= -1e-8


def curves(seed, largest):
    """Rows in blocks, and their curves."""
    rng = np.random.default_rng(seed)
    held = rng.integers(1, largest, 6)
    score = np.sort(rng.normal(size=held.sum()))[::-1]
    weight = rng.integers(1, 4, len(score)).astype(float)
    edges = np.append(0, np.cumsum(held))
    return score, weight, edges, _Curves(score, weight, edges)


@pytest.mark.parametrize(
    ("seed", "largest", "exact"), [(0, 9, True), (1, 60, True), (2, 900, False)]
)
def test_chords_are_below_the_rows(seed, largest, exact):
    score, weight, edges, found = curves(seed, largest)
    x = np.random.default_rng(seed).normal(scale=2.0, size=(40, 6))
    x[:6] = np.diag(np.diag(x)) + found.lowest
    true = np.array(
        [
            [
                (weight[a:b] * np.minimum(0.0, value - score[a:b])).sum()
                for value, a, b in zip(row, edges[:-1], edges[1:], strict=True)
            ]
            for row in x
        ]
    )
    each = found.each(x)
    assert (each <= true + 1e-9).all()
    # with few rows each score is a knot
    np.testing.assert_allclose(each, true, atol=1e-9 if exact else 0.02 * largest)
    if not exact:
        assert (each < true - 1e-6).any()


def test_a_threshold_for_each_size_is_the_best():
    score, weight, _, found = curves(3, 50)
    rng = np.random.default_rng(3)
    each = rng.normal(size=(9, 6))
    size = np.linspace(0.0, weight.sum(), 9)
    best, cut = found.best(each, size)
    np.testing.assert_allclose(found.least(each, size, cut), best, atol=1e-9)
    low, high = each.min() - score.max(), each.max() - score.min()
    for tried in np.linspace(low, high, 2000):
        assert (found.least(each, size, np.full(9, tried)) <= best + 1e-6).all()


def test_a_game_goes_on_though_no_set_is_of_its_size_any_more():
    # with weights the order of the rows decides what a set holds
    rng = np.random.default_rng(11)
    labels = np.ones(12, bool)
    labels[0] = False
    weight = rng.uniform(0.2, 3.0, 12)
    psi = 1.5 * rng.standard_normal(12)
    other = psi + 0.1 * rng.standard_normal(12)
    payoff = payoff_of(read("accuracy"), greater_is_better=True)
    ready = prepare(Game(payoff, (), "expected", labels, weight))
    first = solve_exact(psi, ready, tol=1e-3)
    begun, fresh = solve_exact(other, ready, tol=1e-3, start=first), solve_exact(other, ready)
    assert begun.gap <= 1e-3 * max(1.0, abs(begun.upper))
    assert begun.lower <= fresh.upper + 1e-9
    assert begun.upper >= fresh.lower - 1e-9


@pytest.mark.parametrize("engine", ["first", "second"])
def test_a_linear_program_that_would_take_for_ever_is_given_up(engine, monkeypatch):
    if engine == "second":
        monkeypatch.setattr(linear_program, "glop", None)
    rng = np.random.default_rng(0)
    matrix = sparse.csr_matrix(np.abs(rng.normal(size=(12, 9))))
    program = (-np.ones(9), matrix, np.full(12, -np.inf), np.ones(12), np.zeros(9))
    assert linear_program.minimised(*program) is not None
    monkeypatch.setattr(linear_program, "_STEPS", 0)
    assert linear_program.minimised(*program) is None


def test_work_on_a_linear_program_has_its_limit_too(monkeypatch):
    rng = np.random.default_rng(0)
    matrix = sparse.csr_matrix(np.abs(rng.normal(size=(300, 200))))
    program = (-np.ones(200), matrix, np.full(300, -np.inf), np.ones(300), np.zeros(200))
    monkeypatch.setattr(linear_program, "_by_scipy", lambda *_: None)
    assert linear_program.minimised(*program) is not None
    monkeypatch.setattr(linear_program, "_WORK", 0.0)
    monkeypatch.setattr(linear_program, "_ENTRIES", 1e12)
    assert linear_program.minimised(*program) is None


def test_rows_in_another_order_still_have_a_set_of_each_size():
    weight = np.array([2.5, 1.5, 1.0, 0.7, 0.3])
    game = Game(payoff_of(read("f1"), greater_is_better=True), (), "expected", weight > 1.2, weight)
    ready = prepare(game)
    _, board = ready.board(np.linspace(1.0, 0.0, 5))
    at = int(np.flatnonzero(board.actual == 3.0)[0])
    # the first row alone was of that size in an earlier order
    kept = Memory(
        np.zeros(0, np.intp),
        np.zeros((0, 5)),
        [at],
        np.zeros(1, np.intp),
        np.zeros(1, np.intp),
        np.eye(1, 5),
    )
    for mended in (False, True):
        table = Restricted(board)
        table.resume(kept)
        if mended:
            rounds._open(table, ready.target, fresh=False)
        else:
            table.add_sets(np.array([0]), np.zeros((1, 5)))
        assert (table.solve() is not None) == mended


def test_what_an_interior_point_has_led_to_stands(monkeypatch):
    rng = np.random.default_rng(5)
    labels = np.arange(50) < 12
    ready = prepare(Game(payoff_of(read("f1"), greater_is_better=True), (), "expected", labels))
    monkeypatch.setattr(size_rounds, "solve_sizes", lambda *_: None)
    calls = []
    taken = rounds._play_sets

    def counted(*args, **options):
        calls.append(args)
        return taken(*args, **options)

    monkeypatch.setattr(rounds, "_play_sets", counted)
    found = solve_exact(4.0 / 50 * rng.normal(size=50), ready, tol=1e-16)
    # no digits are left to win by single sets
    assert len(calls) == 1
    assert 0.0 <= found.gap < 1e-7
