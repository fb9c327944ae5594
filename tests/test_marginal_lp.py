"""The linear program of the paper against games that try everything."""

import numpy as np
import pytest
from oracles import full_game, marginal_game
from test_payoff import FAMILY

from imbfit.adversarial.game import Game
from imbfit.adversarial.marginal_lp import solve_lp
from imbfit.adversarial.observed import observed_game, solve_observed
from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.exceptions import InfeasibleConstraints, UnsupportedMetric
from imbfit.metrics import accuracy, f1, jaccard, kappa, pp, precision, recall, specificity

RULES = {
    "none": [],
    "recall": [recall >= 0.8],
    "all recall": [recall >= 1],
    "size": [pp <= 2],
    "both": [recall >= 0.8, specificity >= 0.3],
    "precision and recall": [precision >= 0.4, recall >= 0.6],
}
every_count = pytest.mark.parametrize("count", ["expected", "observed"])
every_metric = pytest.mark.parametrize(
    ("metric", "greater"), FAMILY, ids=lambda x: getattr(x, "name", None) or str(x)
)


def game(metric, labels, *, greater=True, count="expected", rules=(), cases=None, **more):
    payoff = payoff_of(metric, greater_is_better=greater, special_cases=cases)
    requirements = tuple(requirement_of(rule) for rule in rules)
    return Game(payoff, requirements, count, np.asarray(labels, bool), **more)


def meetable(rules, labels):
    """No more flagged than there are positives, in the rules that bound sizes."""
    return not (rules and rules[0] == (pp <= 2)) or sum(labels) <= 2


def check(psi, played, expected, close=1e-9):
    found = solve_lp(psi, played)
    rows = len(psi)
    size = max(1.0, np.abs(psi).sum(), 10.0 * rows)
    assert found.value == pytest.approx(expected, abs=close * size)
    assert 0.0 <= found.gap <= close * size
    assert found.upper == found.value
    assert found.q.min() >= 0.0
    assert found.q.max() <= 1.0 + 1e-12
    if played.count == "observed":
        assert found.q.sum() == pytest.approx(played.labels.sum())
    assert found.mix.min() > 0.0
    assert found.mix.sum() == pytest.approx(1.0)
    assert set(found.sizes) <= set(range(rows + 1))
    return found


@every_count
@every_metric
@pytest.mark.parametrize("rules", RULES)
def test_value_is_that_of_the_full_game(metric, greater, count, rules):
    random = np.random.default_rng(20)
    for rows in (1, 2, 4):
        for positives in sorted({0, 1, rows - 1, rows}):
            labels = random.permutation(np.arange(rows) < positives)
            if not meetable(RULES[rules], labels):
                continue
            psi = random.normal(size=rows) * random.choice([1 / rows, 4 / rows, 1, 100])
            played = game(metric, labels, greater=greater, count=count, rules=RULES[rules])
            expected, _ = full_game(psi, played.payoff, played.requirements, labels, count)
            check(psi, played, expected)


@every_count
@pytest.mark.parametrize(("metric", "rows"), [(f1, 12), (kappa, 10), (precision, 14), (f1, 25)])
@pytest.mark.parametrize("rules", RULES)
def test_value_is_that_of_the_papers_program(metric, rows, count, rules):
    random = np.random.default_rng(21)
    labels = random.permutation(np.arange(rows) < (2 if rules == "size" else rows // 3))
    psi = random.normal(size=rows) * 4 / rows
    played = game(metric, labels, count=count, rules=RULES[rules])
    expected, _ = marginal_game(psi, played.payoff, played.requirements, labels, count)
    check(psi, played, expected, close=1e-10)


@pytest.mark.parametrize("metric", [f1, kappa, accuracy], ids=str)
def test_it_agrees_with_the_closed_form(metric):
    random = np.random.default_rng(22)
    for rows, positives in ((6, 2), (15, 4), (20, 1)):
        psi = random.normal(size=rows) * 4 / rows
        played = game(metric, np.arange(rows) < positives, count="observed")
        closed = solve_observed(psi, observed_game(played.payoff, rows, positives))
        check(psi, played, closed.value, close=1e-11)


@every_count
def test_the_slope_of_the_value_is_minus_q(count):
    random = np.random.default_rng(23)
    labels = np.arange(8) < 3
    played = game(f1, labels, count=count, rules=[recall >= 0.8])
    for _ in range(4):
        psi = random.normal(size=8) / 2
        found = solve_lp(psi, played)
        for row in range(0, 8, 3):
            step = 1e-6 * (np.arange(8) == row)
            up, down = (solve_lp(psi + s * step, played).value for s in (1, -1))
            assert (up - found.value) / 1e-6 <= -found.q[row] + 1e-5
            assert (found.value - down) / 1e-6 >= -found.q[row] - 1e-5


@pytest.mark.parametrize("cases", [("positive",), ("positive", "negative")])
def test_the_papers_special_cases(cases):
    random = np.random.default_rng(24)
    metric = f1 if len(cases) == 1 else kappa
    labels = np.array([1, 0, 0, 1], bool)
    for scale in (0.25, 1.0):
        psi = random.normal(size=4) * scale
        played = game(metric, labels, cases=cases)
        expected, _ = full_game(psi, played.payoff, (), labels, "expected")
        check(psi, played, expected)


def test_a_requirement_costs_the_predictor():
    psi = np.array([0.3, 0.1, -0.1, -0.2, -0.3])
    labels = np.array([1, 0, 0, 0, 1], bool)
    free = solve_lp(psi, game(precision, labels)).value
    bound = solve_lp(psi, game(precision, labels, rules=[recall >= 0.8])).value
    assert bound < free - 0.01


@every_count
def test_requirements_that_no_mix_meets(count):
    labels = np.array([1, 1, 0, 0], bool)
    with pytest.raises(InfeasibleConstraints, match=r"recall >= 2"):
        solve_lp(np.zeros(4), game(f1, labels, count=count, rules=[precision >= 0, recall >= 2]))
    with pytest.raises(InfeasibleConstraints, match=r"recall >= 0.9.*pp <= 1"):
        solve_lp(np.zeros(4), game(f1, labels, count=count, rules=[recall >= 0.9, pp <= 1]))


def test_what_it_does_not_take():
    with pytest.raises(
        ValueError, match=r'batch of 61 rows is too large for solver="lp".*60.*auto'
    ):
        solve_lp(np.zeros(61), game(f1, np.arange(61) < 9))
    played = game(f1, [1, 0, 0], multiplicity=np.array([1.0, 2.0, 1.0]))
    with pytest.raises(ValueError, match='more or less than once; use solver="auto"'):
        solve_lp(np.zeros(3), played)
    with pytest.raises(ValueError, match="2 scores for 3 labels"):
        solve_lp(np.zeros(2), game(f1, [1, 0, 0]))
    with pytest.raises(UnsupportedMetric, match="jaccard"):
        solve_lp(np.zeros(3), game(jaccard, [1, 0, 0]))
