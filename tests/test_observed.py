"""The game with the observed count in closed form, against games that try everything."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import full_game, marginal_game

from imbfit.adversarial.observed import observed_game, solve_observed, value_and_marginals
from imbfit.adversarial.payoff import payoff_of
from imbfit.exceptions import UnsupportedMetric
from imbfit.metrics import (
    accuracy,
    ap,
    balanced_accuracy,
    cost,
    f1,
    f2,
    fbeta,
    fn,
    informedness,
    kappa,
    lift,
    markedness,
    mcc,
    n,
    npv,
    pp,
    precision,
    recall,
    specificity,
    sqrt,
    tp,
)

CLOSED = [
    f1, f2, fbeta(0.5), precision, recall, specificity, npv, accuracy, balanced_accuracy,
    informedness, markedness, kappa, mcc, lift, cost(fp=1, fn=10),
    (tp / sqrt(pp * ap)).named("mean of precision and recall", greater_is_better=True),
    (recall - 0.5 * pp / n).named("recall less a price", greater_is_better=True),
    (0 * tp + pp / n).named("sizes alone", greater_is_better=True),
]  # fmt: skip
every_metric = pytest.mark.parametrize("metric", CLOSED, ids=lambda m: m.name)


def payoff(metric):
    return payoff_of(metric, greater_is_better=metric.greater_is_better)


def scores(random, rows, kind):
    """Scores of the size that training sees, of others, with ties, all equal."""
    if kind == "equal":
        return np.full(rows, float(random.normal()) / rows)
    psi = random.normal(size=rows) * {"1/n": 1 / rows, "4/n": 4 / rows, "1": 1, "100": 100}.get(
        kind, 2 / rows
    )
    return np.round(psi * rows) / rows if kind == "ties" else psi


KINDS = ["1/n", "4/n", "1", "100", "ties", "equal"]


def check(psi, game, expected, size=1.0):
    """The value, and both players' moves as certificates of it."""
    found = solve_observed(psi, game)
    scale = max(1.0, np.abs(psi).sum(), size)
    assert found.value == pytest.approx(expected, abs=1e-9 * scale)
    check_certificate(psi, game, found, 1e-12 * len(psi) * scale)
    return found


def check_certificate(psi, game, found, close):
    rows, weight = len(psi), game.weight
    w = np.ones(rows) if weight is None else weight
    q, total, positives = found.q, game.total, game.positives
    assert q.min() >= 0.0
    assert q.max() <= 1.0
    assert w @ q == pytest.approx(positives, rel=1e-9)
    order = np.argsort(-psi, kind="stable")
    down = q[order]
    assert (np.diff(down) <= 1e-9).all()
    ties = np.diff(psi[order]) == 0.0
    assert np.abs(np.diff(down)[ties]).max(initial=0.0) <= 1e-12
    # whatever the predictor does: the sizes that end with a row suffice if whole rows are meant
    sizes = np.concatenate([[0.0], np.cumsum(w[order])])
    sizes[-1] = total
    hits = np.concatenate([[0.0], np.cumsum((w * q)[order])])
    intercept, slope = game.payoff.tables(sizes, positives, total)
    paid = float(psi @ (w * q))
    assert found.value == pytest.approx(float((intercept + slope * hits).max()) - paid, abs=close)
    # whatever the adversary does: it takes the rows in which the predictor's mix earns least
    assert (found.mix >= 0.0).all()
    assert found.mix.sum() == pytest.approx(1.0)
    intercept, slope = game.payoff.tables(found.sizes, positives, total)
    if weight is None:
        taken = np.arange(1.0, rows + 1)[:, None] <= found.sizes[None, :]
        worth = np.sort(taken @ (found.mix * slope) - psi[order])
        least = worth[: int(positives)].sum()
    else:
        taken = np.isin(sizes[1:], found.sizes)
        assert taken.sum() + (found.sizes == 0.0).sum() == len(found.sizes)
        inside = sizes[1:][:, None] <= found.sizes[None, :] * (1 + 1e-12)
        worth = inside @ (found.mix * slope) - psi[order]
        cheap = np.argsort(worth)
        room = np.cumsum(w[order][cheap])
        share = np.clip((positives - (room - w[order][cheap])) / w[order][cheap], 0.0, 1.0)
        least = float((share * w[order][cheap]) @ worth[cheap])
    assert found.lower == found.upper == found.value
    assert found.mix @ intercept + least == pytest.approx(found.value, abs=close)


@every_metric
@pytest.mark.parametrize("kind", KINDS)
def test_value_is_that_of_the_full_game(metric, kind):
    random = np.random.default_rng(7)
    for rows in (1, 2, 3, 4, 5):
        for positives in range(rows + 1):
            labels = np.arange(rows) < positives
            psi = scores(random, rows, kind)
            expected, _ = full_game(psi, payoff(metric), [], labels, "observed")
            check(psi, observed_game(payoff(metric), rows, positives), expected, 10.0)


@every_metric
def test_value_is_that_of_the_papers_program(metric):
    random = np.random.default_rng(8)
    for rows, positives in ((8, 1), (8, 3), (9, 8), (12, 4)):
        for kind in KINDS[:5]:
            psi = scores(random, rows, kind)
            labels = np.arange(rows) < positives
            expected, _ = marginal_game(psi, payoff(metric), [], labels, "observed")
            check(psi, observed_game(payoff(metric), rows, positives), expected, 10.0)


@every_metric
def test_certificates_of_many_problems(metric):
    """No oracle: what each player holds the other to is proof enough."""
    random = np.random.default_rng(9)
    for _ in range(400):
        rows = int(random.integers(1, 40))
        positives = int(random.choice([random.integers(0, rows + 1), 1, rows - 1, rows]))
        psi = scores(random, rows, random.choice(KINDS))
        game = observed_game(payoff(metric), rows, positives)
        found = solve_observed(psi, game)
        scale = max(1.0, np.abs(psi).sum(), 10.0 * rows)
        check_certificate(psi, game, found, 1e-13 * rows * scale)
        again = value_and_marginals(psi, game)
        assert again[0] == found.value
        np.testing.assert_array_equal(again[1], found.q)


def test_the_predictor_may_take_nobody_or_everybody():
    """Without these two sizes the value would be 0."""
    psi = np.array([-0.3, -0.4, -0.6])
    found = solve_observed(psi, observed_game(payoff(f1), 3, 1))
    assert found.value == pytest.approx(0.9)
    assert full_game(psi, payoff(f1), [], [1, 0, 0], "observed")[0] == pytest.approx(0.9)


@every_metric
def test_the_slope_of_the_value_is_minus_q(metric):
    random = np.random.default_rng(10)
    rows, positives, step = 15, 5, 1e-7
    game = observed_game(payoff(metric), rows, positives)
    smooth = 0
    for _ in range(20):
        psi = scores(random, rows, "4/n")
        _, q = value_and_marginals(psi, game)
        for row in range(0, rows, 4):
            e = step * (np.arange(rows) == row)
            up, down = (solve_observed(psi + s * e, game).value for s in (1, -1))
            at = solve_observed(psi, game).value
            # -q lies between the two one-sided slopes of a concave function, at a kink as well
            assert (up - at) / step <= -q[row] + 1e-6
            assert (at - down) / step >= -q[row] - 1e-6
            smooth += abs(up - 2 * at + down) / step < 1e-6
    assert smooth > 60


@every_metric
def test_the_value_is_concave(metric):
    random = np.random.default_rng(11)
    game = observed_game(payoff(metric), 12, 4)
    for _ in range(50):
        a, b = scores(random, 12, "4/n"), scores(random, 12, "1/n")
        value, q = value_and_marginals(a, game)
        assert value_and_marginals(b, game)[0] <= value - q @ (b - a) + 1e-10


@given(st.integers(0, 2**32 - 1), st.sampled_from(CLOSED), st.sampled_from(KINDS))
@settings(max_examples=200)
def test_invariants(seed, metric, kind):
    random = np.random.default_rng(seed)
    rows = int(random.integers(2, 20))
    positives = int(random.integers(1, rows))
    psi = scores(random, rows, kind)
    game = observed_game(payoff(metric), rows, positives)
    value, q = value_and_marginals(psi, game)
    scale = max(10.0 * rows, np.abs(psi).sum())
    # rows in another order
    shuffled = random.permutation(rows)
    again, same = value_and_marginals(psi[shuffled], game)
    assert again == pytest.approx(value, abs=1e-12 * scale)
    np.testing.assert_allclose(same, q[shuffled], atol=1e-9)
    # the level of the scores says nothing, in binary fractions that lose no tie
    level = 2.0 ** int(random.integers(-3, 4))
    coarse = np.round(psi * 2**20) / 2**20
    value, q = value_and_marginals(coarse, game)
    again, same = value_and_marginals(coarse + level, game)
    assert again == pytest.approx(value - level * positives, abs=1e-12 * (scale + level * rows))
    np.testing.assert_allclose(same, q, atol=1e-7)
    # a metric in other units, with scores in the same
    larger = (4 * metric).named("larger", greater_is_better=metric.greater_is_better)
    if metric.name in {"f1", "f2", "recall", "accuracy", "recall less a price", "sizes alone"}:
        again, same = value_and_marginals(
            4.0 * coarse, observed_game(payoff(larger), rows, positives)
        )
        assert again == pytest.approx(4.0 * value, abs=1e-11 * scale)
        np.testing.assert_allclose(same, q, atol=1e-7)


@pytest.mark.parametrize("metric", CLOSED, ids=lambda m: m.name)
def test_a_row_of_weight_two_is_two_rows(metric):
    """Within a row the bound is concave and the cumulative marginals straight: its ends suffice."""
    random = np.random.default_rng(12)
    for _ in range(40):
        rows = int(random.integers(2, 10))
        weight = random.integers(1, 4, rows).astype(float)
        total = int(weight.sum())
        positives = int(random.integers(1, total))
        psi = scores(random, rows, "4/n")
        game = observed_game(payoff(metric), rows, positives, weight)
        found = solve_observed(psi, game)
        repeated = np.repeat(psi, weight.astype(int))
        plain = solve_observed(repeated, observed_game(payoff(metric), total, positives))
        assert found.value == pytest.approx(plain.value, abs=1e-10 * total)
        assert found.q @ weight == pytest.approx(positives)
        check_certificate(psi, game, found, 1e-10 * total)


@pytest.mark.parametrize("metric", [f1, f2, kappa, mcc, accuracy, precision, recall, markedness])
def test_metrics_of_shares_do_not_see_the_unit_of_weights(metric):
    """Twice the weight at half the score is the same game; real weights are allowed."""
    random = np.random.default_rng(13)
    for _ in range(40):
        rows = int(random.integers(2, 12))
        weight = random.uniform(0.2, 3.0, rows)
        positives = float(weight[: max(1, rows // 3)].sum())
        psi = scores(random, rows, "4/n")
        game = observed_game(payoff(metric), rows, positives, weight)
        found = solve_observed(psi, game)
        check_certificate(psi, game, found, 1e-10 * rows)
        double = observed_game(payoff(metric), rows, 2 * positives, 2 * weight)
        again = solve_observed(psi / 2, double)
        assert again.value == pytest.approx(found.value, abs=1e-10)
        np.testing.assert_allclose(again.q, found.q, atol=1e-8)


@pytest.mark.parametrize("rows", [1, 2])
@every_metric
def test_one_and_two_rows(metric, rows):
    for positives in range(rows + 1):
        for pair in ([0.0, 0.0], [0.5, -0.5], [-3.0, 2.0], [1e-300, 0.0]):
            psi = np.array(pair[:rows])
            labels = np.arange(rows) < positives
            expected, _ = full_game(psi, payoff(metric), [], labels, "observed")
            check(psi, observed_game(payoff(metric), rows, positives), expected, 10.0)


@pytest.mark.parametrize("metric", [f1, kappa, mcc, markedness, precision], ids=str)
def test_many_rows(metric):
    rows, positives = 200_000, 3_000
    random = np.random.default_rng(14)
    psi = random.normal(size=rows) * 2 / rows
    game = observed_game(payoff(metric), rows, positives)
    found = solve_observed(psi, game)
    order = np.argsort(-psi)
    sizes = np.arange(rows + 1.0)
    hits = np.concatenate([[0.0], np.cumsum(found.q[order])])
    intercept, slope = game.payoff.tables(sizes, positives, rows)
    paid = float(psi @ found.q)
    assert found.value == pytest.approx(float((intercept + slope * hits).max()) - paid, abs=1e-9)
    _, slope = game.payoff.tables(found.sizes, positives, rows)
    ends = np.zeros(rows + 1)
    np.add.at(ends, found.sizes.astype(int), found.mix * slope)
    earned = np.cumsum(ends[::-1])[::-1][1:]
    least = np.sort(earned - psi[order])[:positives].sum()
    certain = found.mix @ game.payoff.tables(found.sizes, positives, rows)[0]
    assert certain + least == pytest.approx(found.value, abs=1e-9)
    assert found.q.sum() == pytest.approx(positives)


@pytest.mark.parametrize(
    ("metric", "greater", "message"),
    [
        (fn, True, "worse with more true positives"),
        (recall, False, "worse with more true positives"),
        (tp / (1 + (pp - 4) ** 2), True, "not concave"),
        (tp / ap + (pp / n) * (n - pp) / n, True, "not concave"),
    ],
)
def test_payoffs_without_a_closed_form_are_refused(metric, greater, message):
    with pytest.raises(UnsupportedMetric, match=message):
        observed_game(payoff_of(metric, greater_is_better=greater), 12, 4)
