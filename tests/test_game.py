import numpy as np
import pytest
from oracles import full_game, marginal_game

from imbfit.adversarial import binning
from imbfit.adversarial.binning import solve_binned
from imbfit.adversarial.game import Game, prepare, solve_exact
from imbfit.adversarial.observed import observed_game, solve_observed
from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.adversarial.rounds import play
from imbfit.adversarial.solving import SOLVERS, solve, solver_for
from imbfit.exceptions import InfeasibleConstraints, UnsupportedMetric
from imbfit.metrics import ap, pp, sqrt, tp
from imbfit.named import NAMED
from imbfit.parsing import read

METRICS = {
    **{
        name: NAMED[name]
        for name in (
            "f1", "f2", "precision", "recall", "specificity", "npv", "accuracy",
            "balanced_accuracy", "informedness", "markedness", "kappa", "mcc", "lift",
        )
    },
    "geometric": tp / sqrt(pp * ap),
}  # fmt: skip
REQUIREMENTS = (
    (),
    ("recall >= 0.8",),
    ("specificity >= 0.8",),
    ("recall >= 0.8", "specificity >= 0.8"),
    ("precision >= 0.5",),
)
SCALES = ("zero", "1/n", "4/n", "one", "huge", "ties")


def game_of(metric, requirements, count, labels, multiplicity=None):
    payoff = payoff_of(METRICS[metric], greater_is_better=True)
    slacks = tuple(requirement_of(read(text)) for text in requirements)
    return Game(payoff, slacks, count, np.asarray(labels, bool), multiplicity)


def drawn(rng, scale, n):
    size = {"zero": 0.0, "1/n": 1 / n, "4/n": 4 / n, "one": 1.0, "huge": 1e4, "ties": 2 / n}[scale]
    psi = rng.normal(size=n) * size
    return np.round(psi * n) / n if scale == "ties" else psi


def labels_of(rng, n):
    kind = rng.integers(6)
    labels = rng.random(n) < rng.choice([0.2, 0.5])
    if kind == 0:
        labels[:] = False
    elif kind == 1:
        labels[:] = True
    elif kind == 2:
        labels[:] = np.arange(n) == rng.integers(n)
    return labels


def check_bounds(found, value, size=1e-8):
    scale = max(1.0, abs(value))
    assert found.lower <= value + 1e-9 * scale
    assert found.upper >= value - 1e-9 * scale
    assert found.gap <= size * scale
    assert found.value == found.upper


@pytest.mark.parametrize("metric", METRICS)
def test_agrees_with_the_marginal_program(metric):
    rng = np.random.default_rng(len(metric))
    for at in range(18):
        n = int(rng.integers(1, 9))
        psi, labels = drawn(rng, SCALES[at % len(SCALES)], n), labels_of(rng, n)
        for requirements in REQUIREMENTS:
            for count in ("expected", "observed"):
                game = game_of(metric, requirements, count, labels)
                try:
                    found = solve_exact(psi, game)
                except InfeasibleConstraints:
                    assert requirements
                    continue
                value, _ = marginal_game(psi, game.payoff, game.requirements, labels, count)
                check_bounds(found, value)
                assert found.mix.sum() == pytest.approx(1.0)
                assert found.q.min() >= 0.0
                assert found.q.max() <= 1.0 + 1e-9
                if count == "observed":
                    assert found.q.sum() == pytest.approx(labels.sum())


@pytest.mark.parametrize("metric", METRICS)
def test_agrees_with_all_label_vectors(metric):
    rng = np.random.default_rng(7)
    for at, requirements in enumerate(REQUIREMENTS):
        labels = np.array([True, False, True, False])
        psi = drawn(rng, SCALES[1 + at % 4], 4)
        for count in ("expected", "observed"):
            game = game_of(metric, requirements, count, labels)
            value, _ = full_game(psi, game.payoff, game.requirements, labels, count)
            check_bounds(solve_exact(psi, game), value)


@pytest.mark.parametrize("count", ["expected", "observed"])
@pytest.mark.parametrize("metric", ["f1", "kappa", "precision"])
def test_bounds_of_a_batch_meet(metric, count):
    rng = np.random.default_rng(3)
    for scale in SCALES:
        labels = rng.random(25) < 0.3
        for requirements in ((), ("recall >= 0.8",)):
            found = solve_exact(drawn(rng, scale, 25), game_of(metric, requirements, count, labels))
            assert found.gap <= 1e-8 * max(1.0, abs(found.value))


@pytest.mark.parametrize("requirements", REQUIREMENTS)
@pytest.mark.parametrize("count", ["expected", "observed"])
def test_gradient_is_minus_q(requirements, count):
    rng = np.random.default_rng(11)
    labels = rng.random(12) < 0.4
    game = prepare(game_of("f1", requirements, count, labels))
    psi, step = rng.normal(size=12) * 2 / 12, 1e-6
    q = solve_exact(psi, game).q
    for i, move in enumerate(np.eye(12) * step):
        ends = [solve_exact(psi + sign * move, game).value for sign in (1, -1)]
        # one-sided slopes may differ at a kink, and q lies between them
        here = solve_exact(psi, game).value
        right, left = (ends[0] - here) / step, (here - ends[1]) / step
        assert right - 1e-4 <= -q[i] <= left + 1e-4


@pytest.mark.parametrize("requirements", [(), ("recall >= 0.8",)])
@pytest.mark.parametrize("count", ["expected", "observed"])
def test_order_of_the_rows_does_not_matter(requirements, count):
    rng = np.random.default_rng(5)
    for scale in ("1/n", "4/n", "ties"):
        labels, psi = rng.random(11) < 0.4, drawn(rng, scale, 11)
        order = rng.permutation(11)
        one = solve_exact(psi, game_of("f1", requirements, count, labels))
        other = solve_exact(psi[order], game_of("f1", requirements, count, labels[order]))
        assert other.value == pytest.approx(one.value, abs=1e-10)
        np.testing.assert_allclose(other.q, one.q[order], atol=1e-9)


@pytest.mark.parametrize("requirements", REQUIREMENTS)
@pytest.mark.parametrize("count", ["expected", "observed"])
def test_multiplicity_is_rows(requirements, count):
    rng = np.random.default_rng(6)
    for metric in ("f1", "mcc"):
        labels, psi = rng.random(7) < 0.4, rng.normal(size=7) / 10
        times = np.array([1, 2, 1, 3, 1, 2, 1])
        short = solve_exact(psi, game_of(metric, requirements, count, labels, times.astype(float)))
        full = solve_exact(
            np.repeat(psi, times), game_of(metric, requirements, count, np.repeat(labels, times))
        )
        assert short.value == pytest.approx(full.value, abs=1e-8)
        paid = short.value + psi @ (short.q * times)
        assert np.isfinite(paid)


def test_equal_scores_have_equal_q():
    labels = np.array([True, True, False, False, False])
    psi = np.array([0.1, 0.1, 0.1, -0.2, -0.2])
    free = solve_exact(psi, game_of("f1", (), "expected", labels)).q
    assert free[0] == free[1] == free[2]
    assert free[3] == free[4]
    bound = solve_exact(psi, game_of("f1", ("recall >= 0.8",), "expected", labels)).q
    assert bound[0] == bound[1]
    assert bound[3] == bound[4]


@pytest.mark.parametrize("metric", METRICS)
def test_agrees_with_the_closed_form(metric):
    rng = np.random.default_rng(8)
    game = game_of(metric, (), "observed", rng.random(30) < 0.3)
    closed = observed_game(game.payoff, 30, float(game.labels.sum()))
    for scale in SCALES:
        psi = drawn(rng, scale, 30)
        check_bounds(solve_exact(psi, game), solve_observed(psi, closed).value)


@pytest.mark.parametrize("count", ["expected", "observed"])
def test_warm_start_changes_the_time_alone(count):
    rng = np.random.default_rng(9)
    ready = prepare(game_of("precision", ("recall >= 0.8",), count, rng.random(40) < 0.3))
    psi, last = rng.normal(size=40) / 20, None
    for _ in range(6):
        last = solve_exact(psi, ready, start=last)
        assert last.value == pytest.approx(solve_exact(psi, ready).value, abs=1e-8)
        assert last.gap <= 1e-8
        psi += rng.normal(size=40) / 400


def test_payoff_with_a_fall_in_the_true_positives():
    def odd(hits, flagged, _positives, n):
        return (flagged - 2 * hits) / n

    rng = np.random.default_rng(4)
    payoff = payoff_of(odd, greater_is_better=True)
    for requirements in ((), (requirement_of(read("recall >= 0.5")),)):
        for count in ("expected", "observed"):
            labels, psi = rng.random(6) < 0.5, rng.normal(size=6) / 6
            value, _ = marginal_game(psi, payoff, requirements, labels, count)
            check_bounds(solve_exact(psi, Game(payoff, requirements, count, labels)), value)


def test_requirements_that_nothing_meets_are_named():
    labels = np.array([True, False, False, False])
    with pytest.raises(InfeasibleConstraints, match=r"meets specificity >= 1\.5") as alone:
        prepare(game_of("f1", ("recall >= 0.5", "specificity >= 1.5"), "observed", labels))
    assert alone.value.conflict == ("specificity >= 1.5",)
    with pytest.raises(InfeasibleConstraints, match="together") as pair:
        prepare(game_of("f1", ("recall >= 0.9", "recall <= 0.5"), "expected", labels))
    assert len(pair.value.conflict) == 2


@pytest.mark.parametrize(
    ("metric", "count", "requirements"),
    [("f1", "expected", ()), ("kappa", "expected", ()), ("mcc", "observed", ()),
     ("precision", "observed", ("recall >= 0.8",)), ("f1", "expected", ("specificity >= 0.8",))],
)  # fmt: skip
def test_blocks_hold_the_value_between_their_bounds(metric, count, requirements):
    rng = np.random.default_rng(12)
    labels = rng.random(40) < 0.2
    game = game_of(metric, requirements, count, labels)
    for scale in (1 / 40, 4 / 40):
        psi = rng.normal(size=40) * scale
        exact, last = solve_exact(psi, game, tol=1e-6), None
        for bins in (8, 16):
            last = solve_binned(psi, game, bins=bins, tol=1e-3, start=None)
            assert last.lower <= exact.upper + 1e-9
            assert last.upper >= exact.lower - 1e-9
        again = solve_binned(psi, game, bins=16, tol=1e-3, start=last)
        assert again.lower <= exact.upper + 1e-9
        assert again.upper >= exact.lower - 1e-9
        assert again.gap < 0.02


def test_blocks_of_many_rows():
    rng = np.random.default_rng(13)
    z = rng.normal(size=20_000)
    labels = rng.random(20_000) < 1 / (1 + np.exp(4 - 2 * z))
    for count, requirements in (("expected", ()), ("observed", ("recall >= 0.8",))):
        found = solve_binned(5 * z / 20_000, game_of("f1", requirements, count, labels), tol=1e-3)
        assert 0.0 <= found.gap <= 1e-3
        assert found.q.shape == z.shape


@pytest.mark.parametrize(
    ("count", "requirements"), [("expected", ()), ("observed", ("recall >= 0.8",))]
)
def test_no_game_on_blocks_is_played_twice(monkeypatch, count, requirements):
    played = []

    def noted(board, target, **options):
        played.append((board.psi.tobytes(), board.taken.tobytes()))
        return play(board, target, **options)

    monkeypatch.setattr(binning, "play", noted)
    rng = np.random.default_rng(14)
    labels = rng.random(60) < 0.2
    psi = rng.normal(size=60) * 4 / 60
    # so many blocks leave a larger gap, however long one goes on
    found = solve_binned(psi, game_of("kappa", requirements, count, labels), bins=4, tol=1e-6)
    assert found.gap > 1e-6
    assert 1 < len(played) == len(set(played))


def test_auto_takes_the_closed_form_where_there_is_one():
    labels = np.array([True, False, True, False, False])
    assert solver_for(game_of("f1", (), "observed", labels)).solver == "closed"
    for game in (
        game_of("f1", (), "expected", labels),
        game_of("f1", ("recall >= 0.8",), "observed", labels),
        Game(payoff_of(bent, greater_is_better=True), (), "observed", labels),
    ):
        assert solver_for(game).solver == "exact"
        with pytest.raises(UnsupportedMetric):
            solver_for(game, solver="closed")
    with pytest.raises(ValueError, match="allowed are 'auto'"):
        solver_for(game_of("f1", (), "observed", labels), solver="simplex")


def bent(hits, flagged, _positives, n):
    return hits * flagged**2 / n**3


@pytest.mark.parametrize(
    ("count", "n", "tol", "blocks"),
    [
        ("observed", 401, 1e-6, False),
        ("observed", 401, 1e-4, True),
        ("observed", 1001, 1e-6, True),
        ("expected", 400, 1e-4, False),
        ("expected", 401, 1e-6, True),
    ],
)
def test_when_rows_are_put_into_blocks(count, n, tol, blocks):
    labels = np.arange(n) % 5 == 0
    game = game_of("precision", ("recall >= 0.8",), count, labels)
    assert bool(solver_for(game, tol=tol).bins) is blocks


def test_many_rows_to_many_digits():
    rng = np.random.default_rng(3)
    labels = rng.random(500) < 0.2
    psi = 4.0 / 500 * (rng.normal(size=500) + labels)
    game = game_of("precision", ("recall >= 0.8",), "observed", labels)
    exact, blocks = solve(psi, game, tol=1e-7), solve(psi, game, tol=1e-4)
    assert exact.gap <= 1e-7
    assert blocks.lower <= exact.upper <= blocks.upper + 1e-7


def test_all_solvers_agree():
    rng = np.random.default_rng(14)
    labels, psi = rng.random(10) < 0.4, rng.normal(size=10) / 10
    values = {
        solver: solve(
            psi, game_of("f1", (), "observed", labels), solver=solver,
            tol=1e-4 if solver == "admm" else 1e-9,
        ).value
        for solver in SOLVERS
    }  # fmt: skip
    for solver, value in values.items():
        near = 1e-3 if solver == "admm" else 1e-8
        assert value == pytest.approx(values["exact"], abs=near), solver
