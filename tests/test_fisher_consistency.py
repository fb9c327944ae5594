"""What training for a metric finds where the population is known: is its decision the best one?

A population with discrete x: rows in a few cells, the labels independent, P(y = 1 | x) known. The
objective with the labels replaced by their expectation is J(psi) = V(psi) + psi . P(y = 1 | x), for
any psi, and its maximum pins the adversary's marginals to P(y = 1 | x).

The paper's theorem lets the potential be any function, of all the labels at once. Then the
adversary is pinned to the law of the labels itself, and the predictor's best reply is Bayes
optimal.
The expected payoff knows a law by its marginals for each number of positives (theorem 1), so a
potential psi_i(number of positives) is enough, and this is what is tested first.

The potentials that are trained are sums of psi_i y_i. They pin the marginals only, and leave open
how the labels hang together.

- ``expected``: a payoff that knows the marginals only (accuracy) is trained to the Bayes decision,
  value and sign of psi alike. For F1 and kappa the adversary mixes worlds with few and with many
  positives, which the data does not have. The game's value is then below what the best decision
  gets; its decision is the best one where the classes are well apart, and need not be where they
  are not (tested as it is, with a population in which it is not).
- ``observed``: the number of positives is fixed, the expected payoff knows the marginals only, and
  so training finds the Bayes decision for every metric, where the law of the labels has a fixed
  number of positives. With independent labels that number varies, and what this changes vanishes
  as rows are added.
"""

import itertools

import numpy as np
import pytest
from oracles import marginal_game, paid
from scipy.optimize import linprog

from imbfit.adversarial.game import Game
from imbfit.adversarial.marginal_lp import solve_lp
from imbfit.adversarial.observed import observed_game, solve_observed, value_and_marginals
from imbfit.adversarial.paper import paper_game
from imbfit.adversarial.payoff import payoff_of
from imbfit.metrics import accuracy, f1, kappa, mcc, precision

#: (P(y = 1 | x), rows) of each cell.
POPULATIONS = {
    "apart": [(0.97, 4), (0.05, 4), (0.02, 4)],
    "middling": [(0.9, 5), (0.5, 3), (0.1, 5)],
    "noisy": [(0.7, 4), (0.4, 4), (0.15, 4)],
    "rare": [(0.3, 3), (0.1, 5), (0.02, 6)],
}
METRICS = [accuracy, f1, kappa]
every_population = pytest.mark.parametrize("cells", POPULATIONS.values(), ids=POPULATIONS)
every_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)


def rows_of(cells):
    return np.repeat([share for share, _ in cells], [rows for _, rows in cells])


def payoff(metric):
    return payoff_of(metric, greater_is_better=True)


def number_of_positives(eta):
    """The law of a sum of independent labels."""
    law = np.ones(1)
    for share in eta:
        law = np.convolve(law, [1.0 - share, share])
    return law


def worth(metric, eta, flagged):
    """The expected metric of flagging these rows, over all outcomes of the labels."""
    hits, missed = number_of_positives(eta[flagged]), number_of_positives(eta[~flagged])
    rows, k = len(eta), int(flagged.sum())
    values = [
        [paid(payoff(metric), i, k, i + j, rows) for j in range(len(missed))]
        for i in range(len(hits))
    ]
    return float(hits @ np.array(values) @ missed)


def worth_of_top(metric, eta, k):
    return worth(metric, eta, np.isin(np.arange(len(eta)), np.argsort(-eta, kind="stable")[:k]))


def bayes(metric, cells):
    """The best of all decisions: rows of a cell are alike, so their number is what counts."""
    eta = rows_of(cells)
    best = -np.inf
    for taken in itertools.product(*(range(rows + 1) for _, rows in cells)):
        flagged = [np.arange(rows) < k for k, (_, rows) in zip(taken, cells, strict=True)]
        best = max(best, worth(metric, eta, np.concatenate(flagged)))
    return best


def trained(metric, cells):
    """The maximum of J for the expected count, and a psi for each cell that attains it."""
    eta = rows_of(cells)
    rows = len(eta)
    best, _, psi = marginal_game(
        np.zeros(rows), payoff(metric), [], np.zeros(rows), "expected", marginals=eta
    )
    # J is concave and treats the rows of a cell alike, so their mean is as good
    return best, np.concatenate([np.full((eta == e).sum(), psi[eta == e].mean()) for e, _ in cells])


def expected_game(metric, rows):
    return Game(payoff(metric), (), "expected", np.zeros(rows, bool))


@every_population
@every_metric
def test_the_best_reply_to_the_law_of_the_labels_is_bayes_optimal(metric, cells):
    """The theorem: potentials that see the number of positives pin all that the payoff reads."""
    eta = rows_of(cells)
    rows = len(eta)
    Q = np.zeros((rows, rows + 1))
    for row, share in enumerate(eta):
        Q[row, 1:] = share * number_of_positives(np.delete(eta, row))
    s = number_of_positives(eta)
    np.testing.assert_allclose(Q.sum(axis=0), s * np.arange(rows + 1), atol=1e-12)
    game = paper_game(expected_game(metric, rows), rows, solver="lp", limit=60, instead="")
    reply = game.upper(np.zeros(rows), Q, s, np.zeros(0))
    assert reply == pytest.approx(bayes(metric, cells), abs=1e-12)


@every_population
@every_metric
def test_expected_training_pins_the_marginals(metric, cells):
    eta = rows_of(cells)
    best, psi = trained(metric, cells)
    played = expected_game(metric, len(eta))
    assert solve_lp(psi, played).value + psi @ eta == pytest.approx(best, abs=1e-9)
    random = np.random.default_rng(40)
    for _ in range(10):
        other = psi + random.normal(size=len(eta)) * random.choice([0.01, 0.1])
        assert solve_lp(other, played).value + other @ eta <= best + 1e-9
    # likelier cells do not get lower scores
    assert (np.diff(psi) <= 1e-9).all()
    assert best <= bayes(metric, cells) + 1e-9


@every_population
def test_expected_training_for_accuracy_is_bayes_optimal(cells):
    eta = rows_of(cells)
    best, psi = trained(accuracy, cells)
    assert best == pytest.approx(bayes(accuracy, cells), abs=1e-9)
    # rows at a half may go either way
    clear = eta != 0.5
    np.testing.assert_array_equal(psi[clear] > 0.0, eta[clear] > 0.5)
    assert worth(accuracy, eta, psi > 0.0) == pytest.approx(best, abs=1e-9)


def decided(metric, cells):
    """What the predictor's mix of the trained game gets from the population."""
    eta = rows_of(cells)
    _, psi = trained(metric, cells)
    found = solve_lp(psi, expected_game(metric, len(eta)))
    tops = [worth_of_top(metric, eta, int(k)) for k in found.sizes]
    return float(found.mix @ tops)


@pytest.mark.parametrize("metric", [f1, kappa], ids=lambda m: m.name)
def test_expected_training_is_bayes_optimal_where_the_classes_are_apart(metric):
    cells = POPULATIONS["apart"]
    assert decided(metric, cells) == pytest.approx(bayes(metric, cells), abs=1e-6)
    _, psi = trained(metric, cells)
    by_sign = worth(metric, rows_of(cells), psi > 0.0)
    assert by_sign == pytest.approx(bayes(metric, cells), abs=1e-9)


@pytest.mark.parametrize(("metric", "name"), [(kappa, "noisy"), (f1, "rare"), (kappa, "rare")])
def test_expected_training_is_not_always_bayes_optimal(metric, name):
    """A limit of sums of psi_i y_i, here to be seen: the adversary mixes other worlds."""
    cells = POPULATIONS[name]
    best, _ = trained(metric, cells)
    assert best < bayes(metric, cells) - 0.02
    assert decided(metric, cells) < bayes(metric, cells) - 0.004


def maximised(loss, cells, most):
    """Maximise -loss within a box by its tangents, which a few cells and many kinks allow."""
    psi, best, rows, limits = np.zeros(cells), (np.inf, None), [], []
    for _ in range(300):
        height, slope = loss(psi)
        best = min(best, (height, tuple(psi)))
        rows.append([*slope, -1.0])
        limits.append(slope @ psi - height)
        bound = linprog(
            [0.0] * cells + [1.0], A_ub=rows, b_ub=limits,
            bounds=[(-most, most)] * cells + [(None, None)],
        )  # fmt: skip
        if best[0] - bound.fun < 1e-8:
            break
        psi = bound.x[:cells]
    return np.array(best[1]), -best[0]


FIXED = [accuracy, f1, kappa, mcc, precision]


@every_population
@pytest.mark.parametrize("metric", FIXED, ids=lambda m: m.name)
def test_observed_training_is_bayes_optimal_for_a_fixed_number(metric, cells):
    """Weights make cells of any mass; the labels within one hang together as they like."""
    eta = np.array([share for share, _ in cells])
    weight = 1000.0 * np.array([rows for _, rows in cells]) / sum(rows for _, rows in cells)
    total, positives = weight.sum(), float(weight @ eta)
    game = observed_game(payoff(metric), len(cells), positives, weight)
    sets = [np.array(flags) for flags in itertools.product((False, True), repeat=len(cells))]
    intercepts, slopes = payoff(metric).tables(
        np.array([weight[flags].sum() for flags in sets]), positives, total
    )
    gains = intercepts + slopes * np.array([(weight * eta)[flags].sum() for flags in sets])
    best = int(np.argmax(gains))

    def loss(psi):
        value, q = value_and_marginals(psi, game)
        return -value - psi @ (weight * eta), weight * (q - eta)

    # a psi that attains it: the best set's slope on its rows
    ideal = np.where(sets[best], slopes[best], 0.0)
    assert -loss(ideal)[0] == pytest.approx(gains[best], abs=1e-9)
    found = solve_observed(ideal, game)
    assert found.sizes[np.argmax(found.mix)] == pytest.approx(weight[sets[best]].sum())
    assert found.mix.max() == pytest.approx(1.0)
    random = np.random.default_rng(41)
    for _ in range(50):
        psi = random.normal(size=len(cells)) * 4.0 / total
        assert -loss(psi)[0] <= gains[best] + 1e-9
    psi, attained = maximised(loss, len(cells), 20.0 / total)
    assert attained == pytest.approx(gains[best], abs=1e-6)
    # the scores put the best set first: some cut of them is the Bayes decision
    ranked = np.argsort(-psi, kind="stable")
    cuts = [np.isin(np.arange(len(cells)), ranked[:k]) for k in range(len(cells) + 1)]
    reached = max(gains[[(s == cut).all() for s in sets].index(True)] for cut in cuts)
    assert reached == pytest.approx(gains[best], abs=1e-9)


@pytest.mark.parametrize("metric", [f1, kappa], ids=lambda m: m.name)
def test_observed_training_nears_the_bayes_value_as_rows_are_added(metric):
    """Independent labels: their number of positives varies less and less, relative to itself."""
    off = []
    for times in (1, 3, 9):
        eta = rows_of([(share, rows * times) for share, rows in POPULATIONS["noisy"]])
        tops = [worth_of_top(metric, eta, k) for k in range(0, len(eta) + 1, times)]
        positives = float(eta.sum())
        sizes = np.arange(len(eta) + 1.0)
        hits = np.concatenate([[0.0], np.cumsum(eta)])
        intercept, slope = payoff(metric).tables(sizes, positives, len(eta))
        pinned = float((intercept + slope * hits).max())
        off.append(abs(pinned - max(tops)))
    assert off[0] > 2 * off[1] > 4 * off[2]
    assert off[2] < 0.005
