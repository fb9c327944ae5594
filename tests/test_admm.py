"""The paper's alternating directions: projections, bounds, warm starts."""

import numpy as np
import pytest
from oracles import nearest_marginals
from test_marginal_lp import RULES, every_count, game, meetable

from imbfit.adversarial.admm import solve_admm
from imbfit.adversarial.marginal_lp import solve_lp
from imbfit.adversarial.projection import HalfSpaces, Polytope, project, project_and_meet
from imbfit.exceptions import InfeasibleConstraints
from imbfit.metrics import accuracy, cost, f1, kappa, mcc, precision, recall


def outside(P, polytope):
    """By how much marginals miss their polytope."""
    share = P.sum(axis=0) / polytope.sizes
    mass = share.sum() - 1.0
    return max((P - share).max(), -P.min(), abs(mass) if polytope.whole else mass)


def farthest(direction, polytope):
    """The greatest <direction, V> over the corners V: k rows, or nobody."""
    down = -np.sort(-direction, axis=0)
    sums = [down[: int(k), column].sum() for column, k in enumerate(polytope.sizes)]
    return max(sums) if polytope.whole else max(0.0, *sums)


def polytopes(random):
    rows = int(random.integers(1, 9))
    sizes = np.arange(1.0, rows + 1)
    if random.random() < 0.3:
        sizes = random.choice(sizes, 1)
    return rows, Polytope(sizes, whole=bool(random.random() < 0.4))


def test_the_nearest_marginals():
    """P is nearest to M if and only if no corner lies further along M - P."""
    random = np.random.default_rng(30)
    for _ in range(1500):
        rows, polytope = polytopes(random)
        M = random.normal(size=(rows, len(polytope.sizes))) * 10.0 ** random.integers(-3, 3)
        M += random.normal() * random.integers(0, 3)
        if random.random() < 0.3:
            M = np.round(M, 1)
        size = 1.0 + np.abs(M).max()
        P, _ = project(M, polytope, random.normal() * random.integers(0, 2))
        assert outside(P, polytope) <= 1e-12 * size
        assert farthest(M - P, polytope) - np.vdot(M - P, P) <= 1e-11 * size**2


def test_marginals_stay():
    random = np.random.default_rng(31)
    for _ in range(100):
        rows, polytope = polytopes(random)
        P, _ = project(random.normal(size=(rows, len(polytope.sizes))), polytope)
        np.testing.assert_allclose(project(P, polytope)[0], P, atol=1e-13)


@pytest.mark.parametrize("n_terms", [1, 2, 3])
def test_the_nearest_marginals_in_half_spaces(n_terms):
    """The multipliers certify it: what they add makes P the plain projection."""
    random = np.random.default_rng(32)
    bound = 0
    for _ in range(300):
        rows = int(random.integers(2, 7))
        polytope = Polytope(np.arange(1.0, rows + 1))
        M = random.normal(size=(rows, rows)) * 10.0 ** random.integers(-2, 2)
        terms = random.normal(size=(n_terms, rows, rows))
        inside, _ = project(random.normal(size=(rows, rows)), polytope)
        constants = 0.01 + 0.1 * random.random(n_terms) - np.tensordot(terms, inside, 2)
        half_spaces = HalfSpaces(terms, constants)
        P, multipliers, _ = project_and_meet(M, polytope, half_spaces, np.zeros(n_terms))
        slack = np.tensordot(terms, P, 2) + constants
        assert multipliers.min() >= 0.0
        assert slack.min() >= -1e-9
        assert np.abs(slack[multipliers > 1e-9]).max(initial=0.0) <= 1e-9
        pulled = M + np.tensordot(multipliers, terms, 1)
        np.testing.assert_allclose(project(pulled, polytope)[0], P, atol=1e-9)
        bound += (multipliers > 0.0).any()
    assert bound > 100


METRICS = [f1, kappa, mcc, accuracy, precision, cost(fp=1, fn=3)]


@every_count
@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
@pytest.mark.parametrize("rules", RULES)
def test_bounds_hold_the_value_and_meet(metric, count, rules):
    random = np.random.default_rng(33)
    for rows, positives in ((1, 1), (3, 0), (3, 2), (5, 2)):
        labels = random.permutation(np.arange(rows) < positives)
        if not meetable(RULES[rules], labels):
            continue
        psi = random.normal(size=rows) * random.choice([1 / rows, 4 / rows, 1])
        greater = metric.greater_is_better
        played = game(metric, labels, greater=greater, count=count, rules=RULES[rules])
        exact = solve_lp(psi, played).value
        found = solve_admm(psi, played, tol=1e-4)
        size = max(1.0, abs(exact))
        assert found.lower <= exact + 1e-9 * size
        assert found.upper >= exact - 1e-9 * size
        assert found.gap <= 1.1e-4 * size
        assert found.value == found.upper
        assert found.mix.sum() == pytest.approx(1.0)
        if count == "observed":
            assert found.q.sum() == pytest.approx(positives)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metric", "scale", "rules"), [(f1, 1, "none"), (kappa, 1, "none"), (f1, 4, "recall")]
)
def test_a_batch_of_the_papers_size(metric, scale, rules):
    random = np.random.default_rng(34)
    labels = random.permutation(np.arange(25) < 8)
    psi = random.normal(size=25) * scale / 25
    played = game(metric, labels, rules=RULES[rules])
    exact = solve_lp(psi, played)
    found = solve_admm(psi, played, tol=1e-3, max_iter=4000)
    assert found.gap <= 1e-3
    assert exact.value - 1e-9 <= found.value <= exact.value + 1e-3
    assert found.lower <= exact.value + 1e-9
    # where the paper's code stops
    early = solve_admm(psi, played, tol=1e-3, max_iter=100)
    assert early.iterations <= 100
    assert early.lower <= exact.value + 1e-9
    assert early.upper >= exact.value - 1e-9


def test_to_six_digits():
    random = np.random.default_rng(35)
    for count in ("expected", "observed"):
        played = game(f1, np.arange(6) < 2, count=count)
        psi = random.normal(size=6) / 6
        found = solve_admm(psi, played)
        assert found.gap <= 1e-6
        assert found.value == pytest.approx(solve_lp(psi, played).value, abs=1e-6)


def test_more_rounds_are_never_worse():
    random = np.random.default_rng(36)
    played = game(kappa, np.arange(10) < 3, rules=[recall >= 0.8])
    psi = random.normal(size=10) / 5
    found = [solve_admm(psi, played, tol=0.0, max_iter=most) for most in (20, 100, 300, 600)]
    assert [f.iterations for f in found] == [20, 100, 300, 600]
    gaps = [f.gap for f in found]
    assert gaps[-1] < 0.1 * gaps[0]
    assert [f.upper for f in found] == sorted((f.upper for f in found), reverse=True)
    assert [f.lower for f in found] == sorted(f.lower for f in found)


@pytest.mark.slow
def test_a_warm_start_needs_fewer_rounds():
    random = np.random.default_rng(37)
    labels = np.arange(10) < 3
    cold, warm = 0, 0
    played = game(f1, labels, rules=[recall >= 0.8])
    psi = random.normal(size=10) / 5
    last = solve_admm(psi, played, tol=1e-4)
    again = solve_admm(psi, played, tol=1e-4, start=last.memory)
    assert again.iterations <= 20
    for _ in range(4):
        psi = psi + random.normal(size=10) * 1e-3
        last = solve_admm(psi, played, tol=1e-4, start=last.memory)
        warm += last.iterations
        cold += solve_admm(psi, played, tol=1e-4).iterations
        assert last.value == pytest.approx(solve_lp(psi, played).value, abs=1.1e-4)
    assert warm < cold


@pytest.mark.slow
def test_the_first_step_matters_little():
    random = np.random.default_rng(38)
    played = game(f1, np.arange(8) < 3)
    psi = random.normal(size=8) / 4
    exact = solve_lp(psi, played).value
    for rho in (0.03, 1.0, 30.0):
        assert solve_admm(psi, played, tol=1e-4, rho=rho).value == pytest.approx(exact, abs=1e-4)


def test_what_it_does_not_take():
    with pytest.raises(ValueError, match=r'401 rows is too large for solver="admm".*400.*auto'):
        solve_admm(np.zeros(401), game(f1, np.arange(401) < 9))
    played = game(f1, [1, 0, 0], multiplicity=np.array([1.0, 2.0, 1.0]))
    with pytest.raises(ValueError, match="more or less than once"):
        solve_admm(np.zeros(3), played)
    with pytest.raises(InfeasibleConstraints, match="recall >= 2"):
        solve_admm(np.zeros(3), game(f1, [1, 0, 0], rules=[recall >= 2]))
    memory = solve_admm(np.zeros(3), game(f1, [1, 0, 0])).memory
    with pytest.raises(ValueError, match=r"game of 3 rows, 3 counts and 0 req.*leave it out"):
        solve_admm(np.zeros(4), game(f1, [1, 0, 0, 0]), start=memory)
    with pytest.raises(ValueError, match="max_iter=0"):
        solve_admm(np.zeros(3), game(f1, [1, 0, 0]), max_iter=0)


def stress(random):
    """A set, half-spaces that share a point with it, a matrix and a guess; seldom kind ones."""
    rows = int(random.integers(2, 6))
    sizes = np.arange(1.0, rows + 1)
    if random.random() < 0.2:
        sizes = np.sort(random.choice(sizes, int(random.integers(1, rows)), replace=False))
    polytope = Polytope(sizes, whole=bool(random.random() < 0.2))
    shape, n_terms = (rows, len(sizes)), int(random.integers(1, 4))
    M = random.normal(size=shape) * 10.0 ** random.integers(-4, 5)
    terms = random.normal(size=(n_terms, *shape))
    if random.random() < 0.3:  # nearly parallel ones, some of them facing each other
        near = 10.0 ** random.integers(-4, 0)
        terms[1:] = random.choice([1.0, 1.0, -1.0]) * terms[0] + near * terms[1:]
    elif random.random() < 0.4:  # like those of a metric
        flagged = random.permutation(rows) < random.integers(1, rows + 1)
        terms = flagged[:, None] * random.random((n_terms, 1, len(sizes)))
    inside, _ = project(random.normal(size=shape) * 10.0 ** random.integers(0, 3), polytope)
    # those of room 0 may only touch the set
    room = random.choice([0.0, 10.0 ** random.integers(-9, 0)]) * random.random(n_terms)
    constants = room - np.tensordot(terms, inside, 2)
    unit = 10.0 ** random.integers(-6, 7, n_terms) if random.random() < 0.4 else np.ones(n_terms)
    half_spaces = HalfSpaces(terms * unit[:, None, None], constants * unit)
    guess = np.abs(random.normal(size=n_terms)) * random.choice([0.0, 1.0, 1e3]) / unit
    return M, polytope, half_spaces, guess, unit


def test_half_spaces_of_all_kinds():
    random = np.random.default_rng(39)
    bound = 0
    for _ in range(800):
        M, polytope, half_spaces, guess, unit = stress(random)
        terms, constants = half_spaces.terms, half_spaces.constants
        P, multipliers, _ = project_and_meet(M, polytope, half_spaces, guess)
        slack = (np.tensordot(terms, P, 2) + constants) / unit
        # a sum of so large terms has no more digits
        pull = np.abs(M).max() + np.abs(multipliers[:, None, None] * terms).max(axis=(1, 2)).sum()
        close = 1e-10 + 1e-13 * pull
        assert outside(P, polytope) <= close
        assert slack.min() >= -close
        assert multipliers.min() >= 0.0
        assert np.minimum(slack, multipliers * unit).max() <= close
        pulled = M + np.tensordot(multipliers, terms, 1)
        np.testing.assert_allclose(project(pulled, polytope)[0], P, atol=close)
        bound += (multipliers > 0.0).sum() > 1
    assert bound > 100


def test_the_nearest_marginals_of_all():
    random = np.random.default_rng(40)
    compared = 0
    for _ in range(800):
        M, polytope, half_spaces, guess, unit = stress(random)
        terms, constants = half_spaces.terms, half_spaces.constants
        if np.abs(M).max() > 50.0 or guess.any():
            continue
        P, _, _ = project_and_meet(M, polytope, half_spaces, guess)
        exact = nearest_marginals(
            M, polytope.sizes, terms / unit[:, None, None], constants / unit, whole=polytope.whole
        )
        # nearer than this only by missing a half-space by rounding
        np.testing.assert_allclose(P, exact, atol=1e-6)
        compared += 1
    assert compared > 150


def test_a_multiplier_is_not_larger_than_it_need_be():
    """A half-space that only touches the set leaves all the multipliers above the least one."""
    polytope = Polytope(np.arange(1.0, 6.0))
    terms = np.tile((np.arange(5) < 2)[:, None] / 2.0, (1, 1, 5))
    for constant in (-1.0, -1.0 - 1e-15):
        for unit in (1e-6, 1.0, 1e6):
            half_spaces = HalfSpaces(unit * terms, np.array([unit * constant]))
            P, multipliers, _ = project_and_meet(
                np.zeros((5, 5)), polytope, half_spaces, np.zeros(1)
            )
            assert multipliers[0] * unit < 100.0
            assert P[:2].sum() == pytest.approx(2.0, abs=1e-12)
    # a requirement of nothing at all
    nothing = HalfSpaces(0.0 * terms, np.zeros(1))
    P, multipliers, _ = project_and_meet(np.ones((5, 5)), polytope, nothing, np.zeros(1))
    np.testing.assert_array_equal(P, project(np.ones((5, 5)), polytope)[0])
    assert multipliers == [0.0]


def test_a_requirement_missed_by_rounding_costs_no_digits():
    random = np.random.default_rng(41)
    labels = np.arange(6) < 2
    psi = random.normal(size=6) / 6
    for short in (0.0, 5e-11):
        played = game(f1, labels, rules=[recall >= 1 + short])
        found = solve_admm(psi, played, tol=1e-5)
        assert found.memory.multipliers.max() < 100.0
        assert found.gap <= 1e-5
        exact = solve_lp(psi, game(f1, labels, rules=[recall >= 1])).value
        assert found.value == pytest.approx(exact, abs=2e-5)


def test_bounds_do_not_cross():
    random = np.random.default_rng(42)
    for _ in range(60):
        rows = int(random.integers(1, 6))
        labels = np.arange(rows) < random.integers(0, rows + 1)
        for metric in (accuracy, cost(fp=1, fn=3)):
            played = game(metric, labels, greater=metric.greater_is_better)
            found = solve_admm(random.normal(size=rows) * 10, played, max_iter=30)
            assert found.lower <= found.upper
