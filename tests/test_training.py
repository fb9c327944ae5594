"""Convex losses with kinks and a ridge: tangents bound them, training closes the gap."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from imbfit import AdversarialMetricClassifier
from imbfit.adversarial.directions import Directions, column_spreads, directions_for
from imbfit.adversarial.fitting import fit_rows
from imbfit.adversarial.full_batch import FullBatch
from imbfit.adversarial.minibatches import even_batches
from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.adversarial.players import Players, Rows
from imbfit.adversarial.tangents import Tangents, best_mixture, best_mixture_of_rows
from imbfit.adversarial.training import train
from imbfit.metrics import accuracy, cost, f1, f2, kappa, mcc, precision, recall


def silent(line):
    pass


def table(seed, rows=80, columns=3, prevalence=0.2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    signal = X @ np.linspace(1, -1, columns) + rng.logistic(size=rows)
    positive = signal > np.quantile(signal, 1 - prevalence)
    return X, positive


def loss_on(X, positive, metric=f1, *, weight=None, level=False, anchor=None, better=True):
    players = Players(payoff_of(metric, greater_is_better=better), (), "observed", "auto", 1e-9)
    rows = Rows(X, positive, weight)
    directions = directions_for(X, level=level, anchor=anchor)
    scale = players.payoff.range(rows.positives, rows.total)
    return FullBatch(directions, positive.astype(float), weight, players.on(rows), scale)


@pytest.mark.parametrize(
    ("count", "begun"),
    [("expected", [None, 0, None, 1, None, None, 5]), ("observed", [None, 0, 1, 2, 3, 4, 5])],
)
def test_a_game_goes_on_from_the_nearest_or_from_the_last(count, begun):
    X, positive = table(3, rows=30)
    limits = (requirement_of(recall >= 0.8),) if count == "observed" else ()
    players = Players(payoff_of(f1, greater_is_better=True), limits, count, "auto", 1e-6)
    games = players.on(Rows(X, positive, None))
    solve, starts, found = games.ready, [], []

    def noted(psi, start=None):
        starts.append(next((i for i, other in enumerate(found) if other is start), None))
        found.append(solve(psi, start))
        return found[-1]

    games.ready = noted
    psi = X[:, 0] / 30
    for scores in (psi, 1.1 * psi, X[:, 1] / 30, 1.09 * psi, -psi, np.zeros(30), np.zeros(30)):
        bounds = games(scores)
        fresh = players.on(Rows(X, positive, None))(scores)
        assert bounds[:2] == pytest.approx(fresh[:2], abs=3e-6)
    assert starts == begun
    # ten games later the first ones are forgotten
    for _ in range(10):
        games(X[:, 1] / 30)
    games(psi)
    assert starts[-1] == (None if count == "expected" else 16)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_mixture_is_that_of_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    size, columns = int(rng.integers(2, 12)), int(rng.integers(1, 6))
    slopes = rng.standard_normal((size, columns))
    products, heights = slopes @ slopes.T, rng.standard_normal(size) * rng.choice([0.1, 1, 10])
    start = np.zeros(size)
    start[0] = 1
    mixture, value = best_mixture(products, heights, start, 1e-12)
    assert mixture.min() >= 0
    assert mixture.sum() == pytest.approx(1)
    found = minimize(
        lambda a: 0.5 * a @ products @ a - heights @ a,
        np.full(size, 1 / size),
        jac=lambda a: products @ a - heights,
        bounds=[(0, 1)] * size,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert value >= -found.fun - 1e-7
    # no vertex is worth moving to
    gradient = heights - products @ mixture
    assert gradient.max() - gradient @ mixture <= 1e-9 * max(1, np.abs(heights).max())


def test_copies_of_a_tangent_do_no_harm():
    slope = np.array([1.0, 2.0])
    tangents = Tangents(np.ones(2))
    for _ in range(5):
        tangents.add(slope, 0.5)
    assert tangents.improve(1e-12) == pytest.approx(0.5 - 2.5)
    np.testing.assert_allclose(tangents.minimiser(), -slope)


def test_old_tangents_are_forgotten_and_the_bound_stays():
    rng = np.random.default_rng(0)
    tangents = Tangents(np.ones(3))
    tangents.most = 20
    best = -np.inf
    for _ in range(200):
        w = rng.standard_normal(3)
        # of the loss |w|_1
        tangents.add(np.sign(w), 0.0)
        bound = tangents.improve(1e-12)
        assert bound >= best
        best = bound
        assert len(tangents.heights) <= 20
        assert tangents.mixture.sum() == pytest.approx(1)
    # |w|_1 + |w|^2 / 2 is least at 0
    assert -1e-9 <= 0 - best <= 1e-9


def solved(system, right):
    """Return the solution of a linear system in fractions, None where there is not just one."""
    table = [[*row, value] for row, value in zip(system, right, strict=True)]
    size = len(table)
    for at in range(size):
        pivot = next((i for i in range(at, size) if table[i][at] != 0), None)
        if pivot is None:
            return None
        table[at], table[pivot] = table[pivot], table[at]
        table[at] = [value / table[at][at] for value in table[at]]
        for i in range(size):
            if i != at and table[i][at] != 0:
                by = table[i][at]
                table[i] = [x - by * y for x, y in zip(table[i], table[at], strict=True)]
    return [row[-1] for row in table]


def best_of_all_active_sets(slopes, heights, ridge):
    """Return what the best mixture reaches, without rounding."""
    G = [[Fraction(x) for x in row] for row in slopes.tolist()]
    b, pull = [Fraction(x) for x in heights.tolist()], [Fraction(x) for x in ridge.tolist()]
    products = [
        [sum(x * y / p for x, y, p in zip(one, two, pull, strict=True)) for two in G] for one in G
    ]
    best = None
    for size in range(1, len(b) + 1):
        for used in combinations(range(len(b)), size):
            system = [[*(products[i][j] for j in used), Fraction(1)] for i in used]
            system.append([*(Fraction(1) for _ in used), Fraction(0)])
            found = solved(system, [*(b[j] for j in used), Fraction(1)])
            if found is None or min(found[:-1]) < 0:
                continue
            # half of the linear term, and half of the price of the sum of 1
            value = sum(b[j] * a for j, a in zip(used, found, strict=False)) / 2 + found[-1] / 2
            best = value if best is None else max(best, value)
    return best


def reached(slopes, heights, ridge, w):
    """Return the tangents' maximum with the ridge at w, without rounding."""
    point = [Fraction(x) for x in w.tolist()]
    each = [
        Fraction(height) + sum(Fraction(x) * y for x, y in zip(row, point, strict=True))
        for row, height in zip(slopes.tolist(), heights.tolist(), strict=True)
    ]
    return (
        max(each) + sum(Fraction(p) * y * y for p, y in zip(ridge.tolist(), point, strict=True)) / 2
    )


RIDGES = {
    "one next to nothing": [1e-19, 1e-3, 1e-3],
    "one less than that": [1e-3, 1e-23, 1e-3],
    "two next to nothing": [1e-19, 1e-3, 1e-19],
    "all scales": [1e-15, 1e-9, 1e-3, 1e3],
    "all next to nothing": [1e-15, 1e-15],
    "like a level": [1e-9, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5],
    "plain": [1.0, 2.0, 0.5],
}


@pytest.mark.parametrize("ridge", RIDGES.values(), ids=RIDGES)
@pytest.mark.parametrize("size", [2, 4, 6])
@pytest.mark.parametrize("seed", range(4))
def test_any_ridge_gives_the_bound_of_all_active_sets(ridge, size, seed):
    rng = np.random.default_rng(seed)
    ridge = np.array(ridge)
    tangents = Tangents(ridge)
    # of the loss |A w - c|_1 / m, which is least near 1 and has its kinks there
    A = rng.standard_normal((5, len(ridge)))
    c = A.sum(axis=1) + 0.1 * rng.standard_normal(5)
    for _ in range(size):
        w = 1.0 + rng.standard_normal(len(ridge))
        slope = np.sign(A @ w - c) @ A / 5
        tangents.add(slope, float(np.abs(A @ w - c).mean() - slope @ w))
    bound = tangents.improve(1e-9)
    true = best_of_all_active_sets(tangents.slopes, tangents.heights, ridge)
    # few tangents may leave the loss without a floor: the rounding of such a bound is relative
    close = 3.2e-8 * max(1.0, abs(float(true)))
    assert bound <= true
    assert float(true) - bound <= close
    least = reached(tangents.slopes, tangents.heights, ridge, tangents.minimiser())
    assert 0 <= least - true <= close


def test_the_mixture_of_rows_is_that_of_their_products():
    rng = np.random.default_rng(0)
    for columns in (2, 7, 40):
        rows, heights = rng.standard_normal((12, columns)), 3 * rng.standard_normal(12)
        start = np.full(12, 1 / 12)
        plain, _ = best_mixture(rows @ rows.T, heights, start, 1e-12)
        mixture, lowest = best_mixture_of_rows(rows, heights, start, 1e-12)
        np.testing.assert_allclose(mixture, plain, atol=1e-6)
        np.testing.assert_allclose(lowest, -plain @ rows, atol=1e-5)


def test_copies_and_near_copies_do_no_harm_beside_a_light_ridge():
    ridge = np.array([1e-19, 1e-3])
    tangents = Tangents(ridge)
    for slope in ([0.3, 0.1], [-0.2, 0.1]):
        for shift in (0.0, 0.0, 1e-17, 1e-14):
            tangents.add(np.array(slope) * (1 + shift), 0.5 + shift)
    bound = tangents.improve(1e-9)
    # the first slopes cancel; 0.1 w + w^2 / 2000 is left, and is least at -100
    assert bound == pytest.approx(0.5 - 5.0, abs=1e-8)
    np.testing.assert_allclose(tangents.minimiser(), [0.0, -100.0], atol=1e-5)


@pytest.mark.parametrize("metric", [f1, f2, kappa, mcc, precision, accuracy], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_tangents_lie_below_the_loss(metric, weighted):
    X, positive = table(1)
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.5, 3, len(X)) if weighted else None
    loss = loss_on(X, positive, metric, weight=weight)
    points = [rng.standard_normal(3) * scale for scale in (0.1, 1, 3, 10) for _ in range(5)]
    played = [(w, *loss(w)) for w in points]
    for w, _, lower, slope in played:
        for other, upper, _, _ in played:
            assert upper >= lower + slope @ (other - w) - 1e-10


@pytest.mark.parametrize("metric", [f1, kappa, precision], ids=str)
@pytest.mark.parametrize("level", [False, True])
def test_the_slope_is_the_derivative(metric, level):
    X, positive = table(3)
    loss = loss_on(X, positive, metric, level=level, anchor=np.array([1.0, 2.0, -1.0]))
    rng = np.random.default_rng(4)
    for _ in range(10):
        w = rng.standard_normal(loss.directions.n_coef) * 3
        numeric = [(loss(w + step)[0] - loss(w - step)[0]) / 2e-6 for step in 1e-6 * np.eye(len(w))]
        np.testing.assert_allclose(loss(w)[2], numeric, atol=1e-6)
        if level:  # no constant moves the game with the observed count
            assert loss(w)[2][0] == pytest.approx(0, abs=1e-12)


def kelley(loss, ridge, rounds=300):
    """Cutting planes over general convex programming: slow, and obviously right."""
    slopes, heights, w = [], [], np.zeros(len(ridge))
    best = np.inf
    for _ in range(rounds):
        upper, lower, slope = loss(w)
        best = min(best, upper + 0.5 * w @ (ridge * w))
        slopes.append(slope)
        heights.append(lower - slope @ w)
        G, b = np.array(slopes), np.array(heights)
        found = minimize(
            lambda z: z[-1] + 0.5 * z[:-1] @ (ridge * z[:-1]),
            np.append(w, (G @ w + b).max()),
            jac=lambda z: np.append(ridge * z[:-1], 1.0),
            constraints={
                "type": "ineq",
                "fun": lambda z: z[-1] - G @ z[:-1] - b,  # noqa: B023
                "jac": lambda _: np.column_stack([-G, np.ones(len(b))]),  # noqa: B023
            },
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        w = found.x[:-1]
        if best - found.fun < 1e-7:
            break
    return best


@pytest.mark.parametrize("metric", [f1, kappa, precision], ids=str)
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_the_minimum_is_that_of_plain_cutting_planes(metric, C):
    X, positive = table(5, rows=60)
    loss = loss_on(X, positive, metric)
    ridge = loss.directions.ridge(1 / (C * len(X)))
    trained = train(loss, ridge=ridge, start=np.zeros(3), tol=1e-8, max_iter=2000, tell=silent)
    assert trained.converged
    known = kelley(loss, ridge)
    assert trained.history[-1].objective == pytest.approx(known, abs=2e-6)
    assert trained.history[-1].bound <= known + 1e-9


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("metric", [f1, f2, kappa, mcc, precision], ids=str)
@pytest.mark.parametrize("start", [0.0, 5.0])
def test_every_problem_is_closed_to_the_tolerance(metric, C, start):
    X, positive = table(6, rows=400, columns=10, prevalence=0.05)
    loss = loss_on(X, positive, metric)
    ridge = loss.directions.ridge(1 / (C * len(X)))
    trained = train(
        loss, ridge=ridge, start=np.full(10, start), tol=1e-5, max_iter=3000, tell=silent
    )
    assert trained.converged
    end = trained.history[-1]
    assert end.gap <= 1e-5
    upper = loss(trained.coef)[0] + 0.5 * trained.coef @ (ridge * trained.coef)
    assert end.objective == pytest.approx(upper, abs=1e-12)
    bounds = [entry.bound for entry in trained.history]
    assert bounds == sorted(bounds)
    # what it certifies is true of every other point
    rng = np.random.default_rng(7)
    for scale in (0.01, 0.1, 1):
        other = trained.coef + scale * rng.standard_normal(10)
        assert loss(other)[0] + 0.5 * other @ (ridge * other) >= end.bound - 1e-12


class Blunt:
    """The loss sum |w - 1|, known to 0.05 on both sides and no better."""

    def __call__(self, w):
        value = np.abs(w - 1.0).sum()
        return value + 0.05, value - 0.05, np.sign(w - 1.0)

    def sharpen(self, gap):
        return gap >= 0.05


def test_what_a_loss_leaves_open_is_part_of_the_gap():
    ridge = np.full(3, 0.1)
    trained = train(Blunt(), ridge=ridge, start=np.zeros(3), tol=1e-9, max_iter=500, tell=silent)
    assert trained.settled
    assert not trained.converged
    end = trained.history[-1]
    true = np.abs(trained.coef - 1.0).sum() + 0.05 * trained.coef @ trained.coef
    assert end.objective == pytest.approx(true + 0.05)
    # where every slope is 1
    assert end.bound <= 0.15
    assert end.objective - end.bound >= 0.1 - 1e-9
    # the best point stays the best: no other has an upper bound below its own
    objectives = [entry.objective for entry in trained.history]
    assert objectives == sorted(objectives, reverse=True)
    assert end.objective == pytest.approx(0.05 + 0.15, abs=1e-3)
    assert trained.iterations < 100


@pytest.mark.parametrize(("rows", "positives", "size"), [(100, 7, 30), (50, 1, 7), (9, 9, 4)])
def test_batches_hold_each_row_once_and_share_out_the_positives(rows, positives, size):
    positive = np.arange(rows) < positives
    batches = list(even_batches(positive, size, np.random.default_rng(0)))
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(rows))
    assert max(len(batch) for batch in batches) <= size
    held = [int(positive[batch].sum()) for batch in batches]
    assert max(held) - min(held) <= 1


def test_the_limit_of_steps_is_kept():
    X, positive = table(8, rows=400, columns=10)
    loss = loss_on(X, positive)
    ridge = loss.directions.ridge(1 / (100 * len(X)))
    trained = train(loss, ridge=ridge, start=np.zeros(10), tol=1e-12, max_iter=7, tell=silent)
    assert not trained.converged
    assert trained.iterations <= 7
    assert trained.history[-1].gap > 1e-12


def fitted(X, positive, metric=f1, *, weight=None, C=1.0, tol=1e-9, better=True, anchor=None):
    players = Players(payoff_of(metric, greater_is_better=better), (), "observed", "auto", 1e-9)
    return fit_rows(
        Rows(X, positive, weight),
        directions_for(X, level=False, anchor=anchor),
        players,
        C=C,
        start=(np.zeros(X.shape[1]), 0.0),
        tol=tol,
        max_iter=5000,
        tell=silent,
    )


def test_doubling_all_rows_is_weight_two():
    X, positive = table(9)
    double = fitted(np.vstack([X, X]), np.concatenate([positive, positive]))
    heavy = fitted(X, positive, weight=np.full(len(X), 2.0))
    np.testing.assert_allclose(double.slopes, heavy.slopes, rtol=1e-4, atol=1e-5)
    assert double.game_value == pytest.approx(heavy.game_value, abs=1e-8)


def test_the_unit_of_the_metric_changes_nothing():
    X, positive = table(10)
    price = cost(fp=1, fn=7)
    one = fitted(X, positive, price, better=False)
    dear = fitted(X, positive, 1000 * price, better=False)
    np.testing.assert_allclose(one.slopes, dear.slopes, rtol=1e-4, atol=1e-5)
    assert dear.game_value == pytest.approx(1000 * one.game_value, rel=1e-6)


def test_more_rows_of_the_same_kind_need_no_other_ridge():
    # C n grows with the rows as in a likelihood; C / 2 of twice the rows is the same problem
    X, positive = table(11)
    one = fitted(X, positive, C=1.0)
    two = fitted(np.vstack([X, X]), np.concatenate([positive, positive]), C=0.5)
    np.testing.assert_allclose(one.slopes, two.slopes, rtol=1e-3, atol=1e-4)


def test_units_and_levels_of_columns_are_met_half_way():
    X, positive = table(12)
    spread = np.array([1e-3, 1.0, 1e4])
    shifted = fitted(X + np.array([5.0, -100.0, 0.1]), positive, C=1.0)
    plain = fitted(X, positive, C=1.0)
    np.testing.assert_allclose(shifted.slopes, plain.slopes, rtol=1e-4, atol=1e-5)
    # another problem, since the ridge sees the units, but solved all the same
    scaled = fitted(X * spread, positive, C=1.0, tol=1e-6)
    assert scaled.converged


@pytest.mark.parametrize("column", [0, 9])
@pytest.mark.parametrize("scale", [1e5, 1e6, 1e8, 1e9, 1e12])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_a_column_of_large_numbers_is_closed_to_the_tolerance(form, scale, column):
    X, positive = table(15, rows=600, columns=10)
    units = np.ones(10)
    units[column] = scale
    model = AdversarialMetricClassifier("f1", threshold="train", tol=1e-6)
    # a warning would be an error
    model.fit(form(X * units), positive)
    end = model.history_[-1]
    assert end.gap <= 1e-6
    assert end.evaluations < 1000
    # as if the ridge did not see this column at all
    free = AdversarialMetricClassifier("f1", threshold="train", tol=1e-6)
    free.fit(X * np.where(units == 1.0, 1.0, 1e4), positive)
    assert end.objective == pytest.approx(free.history_[-1].objective, abs=3e-6)


def test_columns_of_all_scales_are_closed_to_the_tolerance():
    X, positive = table(16, rows=600, columns=10)
    model = AdversarialMetricClassifier("f1", threshold="train", tol=1e-6)
    model.fit(X * 10.0 ** np.linspace(-6, 6, 10), positive)
    assert model.history_[-1].gap <= 1e-6


def test_more_columns_than_tangents_are_closed_where_one_is_large():
    X, positive = table(17, rows=100, columns=500)
    X[:, 3] *= 1e8
    model = AdversarialMetricClassifier("f1", threshold="train", tol=1e-6)
    model.fit(X, positive)
    assert model.history_[-1].gap <= 1e-6


def test_the_anchor_frees_its_direction():
    X, positive = table(13, rows=200)
    along = np.array([1.0, 0.2, -1.0])
    tight = fitted(X, positive, C=1e-6, anchor=along)
    cosine = tight.slopes @ along / np.linalg.norm(tight.slopes) / np.linalg.norm(along)
    assert cosine > 0.99
    assert np.linalg.norm(tight.slopes) > 3 * np.linalg.norm(fitted(X, positive, C=1e-6).slopes)


def test_directions_go_back_and_forth():
    X, _ = table(14)
    for level in (False, True):
        for anchor in (None, np.array([0.3, -2.0, 1.0])):
            directions = directions_for(X, level=level, anchor=anchor)
            slopes = np.array([0.5, -1.5, 2.0])
            back, constant = directions.parts(directions.start(slopes, 0.7))
            np.testing.assert_allclose(back, slopes, atol=1e-12)
            assert constant == (0.7 if level else 0.0)


def test_constant_columns_have_a_spread():
    X = np.column_stack([np.zeros(5), np.full(5, 1e9), np.arange(5.0)])
    assert (column_spreads(X) > 0).all()
    assert column_spreads(X)[2] == pytest.approx(np.sqrt(2))
    assert Directions(X, column_spreads(X), False, None).scores(np.ones(3)).shape == (5,)
