"""Keyed draws, and the probabilities with which rows are kept."""

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.optimize import brentq, minimize

from imbfit.glm.built_in_links import LINKS
from imbfit.glm.design import Design
from imbfit.glm.efficiency import relative_efficiency
from imbfit.glm.keyed_draws import bottom_k, row_uniforms
from imbfit.glm.links import Pieces
from imbfit.glm.pilot import Pilot
from imbfit.glm.plans import UniformPlan, pilot_scores
from imbfit.glm.rates import efficient_rate
from imbfit.glm.score_norms import A_OPTIMAL_COLUMNS, a_optimal_matrix

KINDS = ["a_optimal", "l_optimal", "local_case_control"]
THETA = np.array([1.0, -1.0, 0.5])
SLOPES = np.eye(4)[1:]


def normal_population(link, prevalence, nodes=20):
    """Return a population of three normal features by quadrature, and its intercept."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    X = np.array(list(itertools.product(x, repeat=3)))
    share = np.prod(list(itertools.product(w / w.sum(), repeat=3)), axis=1)

    def excess(b):
        return share @ np.exp(LINKS[link].pieces(X @ THETA + b).log_p) - prevalence

    intercept = brentq(excess, -40.0, 10.0)
    pieces = LINKS[link].pieces(X @ THETA + intercept)
    return Pilot(Design(X, intercept=True), share, pieces, prevalence, 1e6), intercept


def drawn_pilot(link="logit", *, n=600, free=True, seed=0, sparse=False):
    """Return a pilot of drawn rows, its slopes and its intercept."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1]
    if sparse:
        X[rng.random((n, 3)) < 0.7] = 0.0
    coef, intercept = np.array([1.0, -0.1, 5.0]), -4.0
    pieces = LINKS[link].pieces(X @ coef + intercept)
    share = rng.random(n)
    pilot = Pilot(Design(X, intercept=free), share / share.sum(), pieces, 0.02, 1e6)
    return pilot, coef, intercept


def scores_of(kind, link="logit", **options):
    pilot, coef, intercept = drawn_pilot(link, **options)
    scores = pilot_scores(kind, pilot, link=LINKS[link], coef=coef, intercept=intercept)
    return scores, pilot


# ------------------------------------------------------------- keyed numbers


def test_row_uniforms_do_not_depend_on_the_cut_into_batches():
    rng = np.random.default_rng(0)
    whole = row_uniforms(12, 1, 0, 1000)
    assert len(whole) == 1000
    for _ in range(50):
        cuts = np.concatenate([[0], np.sort(rng.integers(0, 1001, size=6)), [1000]])
        parts = [row_uniforms(12, 1, a, b) for a, b in itertools.pairwise(cuts.tolist())]
        assert np.concatenate(parts).tolist() == whole.tolist()
    assert row_uniforms(12, 1, 5, 5).size == 0


def test_row_uniforms_are_the_same_in_every_version():
    # a sample that was streamed must come out the same later
    got = row_uniforms(0, 0, 0, 5)
    expected = [
        0.011546754286331562,
        0.24154919656271812,
        0.11142585551493822,
        0.5644146216071337,
        0.5023796042735054,
    ]
    assert got.tolist() == expected
    assert row_uniforms(2**64 - 1, 1, 10**12 + 3, 10**12 + 5).tolist() == [
        0.5298390382444788,
        0.9631937109549299,
    ]


def test_row_uniforms_are_uniform_and_unrelated_between_seeds_streams_and_rows():
    n = 40_000
    base = row_uniforms(0, 0, 0, n)
    assert base.min() >= 0.0
    assert base.max() < 1.0
    assert stats.kstest(base, "uniform").pvalue > 1e-3
    others = [
        row_uniforms(0, 1, 0, n),
        row_uniforms(1, 0, 0, n),
        row_uniforms(1, 1, 0, n),
        row_uniforms(2**32, 0, 0, n),
        row_uniforms(0, 0, 1, n + 1),
        row_uniforms(0, 0, 4, n + 4),
        row_uniforms(0, 0, 10**15, 10**15 + n),
    ]
    for other in others:
        assert stats.kstest(other, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(base, other)[0, 1]) < 4 / np.sqrt(n)


def test_row_uniforms_refuse_numbers_out_of_range():
    for options, name in (((-1, 0), "seed"), ((2**64, 0), "seed"), ((0, -1), "stream")):
        with pytest.raises(ValueError, match=f"{name} is .*; give an integer from 0"):
            row_uniforms(*options, 0, 1)
    for start, stop in ((-1, 3), (4, 3)):
        with pytest.raises(ValueError, match=f"rows from {start} to {stop} are asked for"):
            row_uniforms(0, 0, start, stop)


# ------------------------------------------------------------- the k smallest


def test_bottom_k_takes_the_first_of_equals_in_order_of_the_rows():
    rng = np.random.default_rng(1)
    for _ in range(200):
        n, k = rng.integers(0, 30), rng.integers(0, 35)
        values = rng.integers(0, 6, size=n) / 6
        expected = sorted(np.lexsort((np.arange(n), values))[:k])
        assert bottom_k(values, k).tolist() == expected


def test_bottom_k_of_a_union_is_among_those_of_the_parts():
    rng = np.random.default_rng(2)
    for _ in range(100):
        values = rng.integers(0, 8, size=40) / 8
        cut, k = rng.integers(0, 41), rng.integers(0, 12)
        first, second = bottom_k(values[:cut], k), cut + bottom_k(values[cut:], k)
        rows = np.concatenate([first, second])
        assert rows[bottom_k(values[rows], k)].tolist() == bottom_k(values, k).tolist()


def test_bottom_k_refuses_a_negative_number():
    with pytest.raises(ValueError, match="k is -1; give a number of rows, at least 0"):
        bottom_k(np.zeros(3), -1)


# ------------------------------------------------------------- plans


def test_a_uniform_plan_keeps_all_positives():
    log_pi1, log_pi0 = UniformPlan(0.05).log_keep(np.zeros((3, 2)), None)
    assert log_pi1 == 0.0
    assert log_pi0 == pytest.approx(np.log(0.05))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", ["logit", "probit", "cauchit"])
@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.03, 0.5, 0.99, 1.0])
def test_negatives_are_kept_at_the_rate_on_average(kind, link, rate):
    scores, pilot = scores_of(kind, link)
    log_pi1, log_pi0 = scores.log_keep(rate)
    negative = pilot.share * np.exp(pilot.pieces.log_q)
    mean = negative @ np.exp(log_pi0) / negative.sum()
    assert mean == pytest.approx(rate, rel=1e-9)
    assert (log_pi0 >= np.log(0.1 * rate) - 1e-12).all()
    assert (log_pi0 <= 0).all()
    assert (np.asarray(log_pi1) >= np.log(0.1)).all()
    assert (np.asarray(log_pi1) <= 0).all()
    if rate == 1.0:
        assert (log_pi0 == 0).all()
        assert np.all(log_pi1 == 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("free", [True, False])
def test_scores_are_what_the_designs_say(kind, free):
    pilot, coef, intercept = drawn_pilot("probit", free=free)
    scores = pilot_scores(kind, pilot, link=LINKS["probit"], coef=coef, intercept=intercept)
    X = pilot.design.X
    p, q = np.exp(pilot.pieces.log_p), np.exp(pilot.pieces.log_q)
    f = stats.norm.pdf(X @ coef + intercept)
    Z = np.column_stack([np.ones(len(p)), X]) if free else X
    if kind == "local_case_control":
        expected = p
    elif kind == "a_optimal":
        slopes = np.eye(Z.shape[1])[-3:]
        expected = f / q * np.linalg.norm(Z @ a_optimal_matrix(pilot, slopes).T, axis=1)
    else:
        weight = pilot.share * f * f / (p * q)
        weight /= weight.sum()
        mean = weight @ X if free else 0.0
        spread = np.sqrt(weight @ np.square(X - mean))
        expected = f / q * np.sqrt(free + np.square((X - mean) / spread).sum(axis=1))
    log_pi1, log_pi0 = scores.log_keep(0.02)
    inner = (log_pi0 > np.log(0.1 * 0.02) + 1e-12) & (log_pi0 < 0)
    assert inner.sum() > 100
    ratio = np.exp(log_pi0[inner]) / expected[inner]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
    # a floored or capped row is one whose score is small or large
    assert (expected[log_pi0 <= np.log(0.1 * 0.02) + 1e-12] * ratio[0] <= 0.002 * 1.000001).all()
    assert (expected[log_pi0 == 0] * ratio[0] >= 0.999999).all()
    if kind == "local_case_control":
        expected_pi1 = np.clip(ratio[0] * q, 0.1, 1)
        np.testing.assert_allclose(np.exp(log_pi1), expected_pi1, rtol=1e-9)
    else:
        assert log_pi1 == 0.0


def test_local_case_control_takes_the_pilots_log_odds_off():
    # what makes it robust to a wrong model; the floors and caps must leave the bulk alone
    scores, pilot = scores_of("local_case_control")
    rate = brentq(lambda at: scores.plan(at).log_scale, 1e-4, 0.5)  # where c is 1
    log_pi1, log_pi0 = scores.log_keep(rate)
    odds = pilot.pieces.log_p - pilot.pieces.log_q
    alike = np.abs(log_pi1 - log_pi0 + odds) < 1e-9
    assert alike.mean() > 0.7
    # acceptance with |y - p|, and an offset that leaves half of the kept rows positive
    np.testing.assert_allclose(np.exp(log_pi0[alike]), np.exp(pilot.pieces.log_p[alike]), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_no_probability_falls_as_the_rate_rises(kind):
    for link in ("logit", "cloglog"):
        scores, _ = scores_of(kind, link)
        before = (np.array(-np.inf), np.array(-np.inf))
        for rate in np.append(np.geomspace(1e-7, 0.9, 40), [0.999, 1.0]):
            now = scores.log_keep(rate)
            for low, high in zip(before, now, strict=True):
                assert (np.asarray(high) - low >= -1e-9).all()
            before = now


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", list(LINKS))
def test_probabilities_stay_bounded_far_out(kind, link):
    scores, _ = scores_of(kind, link)
    X = np.array([[900.0, 0, 0], [-900.0, 0, 0], [0, 1e6, 0], [0, -1e6, 0], [0, 0, 0]])
    for rate in (1e-6, 0.1, 1.0):
        log_pi1, log_pi0 = scores.plan(rate).log_keep(X, None)
        assert ((log_pi0 >= np.log(0.1 * rate) - 1e-9) & (log_pi0 <= 0)).all()
        assert np.all((np.log(0.1) - 1e-9 <= log_pi1) & (np.asarray(log_pi1) <= 0))
        if rate == 1.0:
            assert np.all(log_pi0 == 0)
            assert np.all(log_pi1 == 0)


class Overflowing(type(LINKS["logit"])):
    """A logistic link that is not as careful as ours."""

    def pieces(self, eta):
        with np.errstate(all="ignore"):
            p = 1 / (1 + np.exp(-eta))
            return Pieces(np.log(p), np.log(1 - p), 1 - p, p)


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_that_overflows_leaves_probabilities_bounded(kind):
    pilot, coef, intercept = drawn_pilot()
    scores = pilot_scores(kind, pilot, link=Overflowing(), coef=coef, intercept=intercept)
    X = np.array([[800.0, 0, 0], [-800.0, 0, 0]])
    for rate in (0.3, 1.0):
        log_pi1, log_pi0 = (np.broadcast_to(k, 2) for k in scores.plan(rate).log_keep(X))
        likely = np.log(0.1) if kind == "local_case_control" and rate < 1 else 0.0
        np.testing.assert_allclose(log_pi1, [likely, 0.0])
        np.testing.assert_allclose(log_pi0, [0.0, np.log(0.1 * rate) if rate < 1 else 0.0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("free", [True, False])
def test_a_plan_treats_batches_of_any_kind_of_matrix_alike(kind, free):
    scores, pilot = scores_of(kind, free=free, sparse=True)
    X, plan = pilot.design.X, scores.plan(0.04)
    offset = np.linspace(-1, 1, len(X))
    log_pi1, log_pi0 = plan.log_keep(X, offset)
    assert not np.allclose(log_pi0, plan.log_keep(X)[1])
    np.testing.assert_allclose(log_pi0, pickle.loads(pickle.dumps(plan)).log_keep(X, offset)[1])
    for make in (np.asfortranarray, sp.csr_array, sp.csc_matrix, sp.csr_matrix):
        one, zero = plan.log_keep(make(X), offset)
        np.testing.assert_allclose(zero, log_pi0, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(one, log_pi1, rtol=1e-10, atol=1e-12)
    for make in (np.asarray, sp.csr_array):
        parts = [
            plan.log_keep(make(X[rows]), offset[rows])[1]
            for rows in (slice(0, 7), slice(7, 8), slice(8, None))
        ]
        np.testing.assert_allclose(np.concatenate(parts), log_pi0, rtol=1e-10, atol=1e-12)
    single = plan.log_keep(X.astype(np.float32), offset)[1]
    np.testing.assert_allclose(single, log_pi0, atol=1e-4)
    assert plan.log_keep(X[:0], offset[:0])[1].size == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_array])
def test_the_plan_of_a_sparse_pilot_is_that_of_the_dense_one(kind, make):
    pilot, coef, intercept = drawn_pilot(sparse=True)
    expected = pilot_scores(kind, pilot, link=LINKS["logit"], coef=coef, intercept=intercept)
    design = Design(make(pilot.design.X), intercept=True)
    other = Pilot(design, pilot.share, pilot.pieces, pilot.prevalence, pilot.n_rows)
    scores = pilot_scores(kind, other, link=LINKS["logit"], coef=coef, intercept=intercept)
    np.testing.assert_allclose(scores.log_keep(0.05)[1], expected.log_keep(0.05)[1], atol=1e-9)


def test_sparse_rows_are_squared_in_parts(monkeypatch):
    monkeypatch.setattr("imbfit.glm.score_norms._STORED", 50)
    monkeypatch.setattr("imbfit.glm.score_norms._BLOCK_ROWS", 64)
    scores, pilot = scores_of("l_optimal", sparse=True)
    X, plan = pilot.design.X, scores.plan(0.04)
    expected = scores.log_keep(0.04)[1]
    for make in (np.asarray, sp.csr_array, sp.csc_array):
        np.testing.assert_allclose(plan.log_keep(make(X))[1], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_at_the_pilots_rows_is_what_the_scores_say(kind):
    for free in (True, False):
        scores, pilot = scores_of(kind, "cloglog", free=free)
        for rate in (0.003, 0.3):
            got = scores.plan(rate).log_keep(pilot.design.X)
            for one, other in zip(got, scores.log_keep(rate), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_neither_units_nor_origins_of_features_matter(kind):
    pilot, coef, intercept = drawn_pilot()
    scale, shift = np.array([1e-5, 1.0, 1e4]), np.array([10.0, -3e6, 1e9])
    moved = pilot.design.X * scale + shift
    other = Pilot(Design(moved, intercept=True), pilot.share, pilot.pieces, 0.02, 1e6)
    theirs = coef / scale
    rows = (
        pilot_scores(kind, pilot, link=LINKS["logit"], coef=coef, intercept=intercept),
        pilot_scores(
            kind, other, link=LINKS["logit"], coef=theirs, intercept=intercept - shift @ theirs
        ),
    )
    before = rows[0].plan(0.03).log_keep(pilot.design.X)
    after = rows[1].plan(0.03).log_keep(moved)
    for one, two in zip(before, after, strict=True):
        np.testing.assert_allclose(two, one, atol=1e-5)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_columns_without_spread_in_the_pilot_do_not_score(make):
    pilot, coef, intercept = drawn_pilot()
    X = np.column_stack([pilot.design.X, np.full(600, 0.1), np.zeros(600)])
    wide = Pilot(Design(make(X), intercept=True), pilot.share, pilot.pieces, 0.02, 1e6)
    elsewhere = X + np.array([0, 0, 0, 5.0, -3.0])
    for kind in ("a_optimal", "l_optimal"):
        plain = pilot_scores(kind, pilot, link=LINKS["logit"], coef=coef, intercept=intercept)
        scores = pilot_scores(
            kind, wide, link=LINKS["logit"], coef=np.append(coef, [0, 0]), intercept=intercept
        )
        expected = plain.log_keep(0.03)[1]
        np.testing.assert_allclose(scores.plan(0.03).log_keep(X)[1], expected, atol=1e-6)
        if kind == "l_optimal":
            got = scores.plan(0.03).log_keep(elsewhere)[1]
            np.testing.assert_allclose(got, expected, atol=1e-6)


# ------------------------------------------------------------- what they are good for


def test_a_optimal_is_the_best_design_of_a_weighted_fit():
    # few points, and pi0 free at each: a general minimiser finds no smaller sum of variance ratios
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8, 2))
    share = rng.dirichlet(np.full(8, 3.0))
    coef, intercept = np.array([0.8, -0.5]), -3.0
    for link in ("logit", "cloglog"):
        pieces = LINKS[link].pieces(X @ coef + intercept)
        pilot = Pilot(Design(X, intercept=True), share, pieces, 0.05, 1e6)
        contrasts = np.array([[0.0, 1.0, 0.0], [0.0, 0.3, 100.0]])
        negative = share * np.exp(pieces.log_q)
        negative /= negative.sum()
        scores = pilot_scores(
            "a_optimal",
            pilot,
            link=LINKS[link],
            coef=coef,
            intercept=intercept,
            contrasts=contrasts,
        )
        log_pi0 = scores.log_keep(0.02)[1]
        assert (log_pi0 > np.log(0.002)).all()  # no floor or cap in the way
        assert (log_pi0 < 0).all()

        def total(log_pi0, negative=negative, pilot=pilot, contrasts=contrasts):
            log_pi0 = log_pi0 - np.log(negative @ np.exp(log_pi0) / 0.02)
            efficiency = relative_efficiency(
                pilot, 0.02, method="iw", contrasts=contrasts, log_keep=(0.0, log_pi0)
            )
            return (1 / efficiency).sum()

        ours = total(log_pi0)
        best = minimize(total, np.full(8, np.log(0.02)), method="BFGS", options={"gtol": 1e-4})
        assert ours <= best.fun * (1 + 1e-6)
        assert total(np.full(8, np.log(0.02))) > 1.05 * ours


# Sum of the slopes' variances over that of the full fit, at 4 negatives per positive and a
# prevalence of 0.5 %, as found in 150 simulations.
MEASURED = {
    "logit": {"iw": 3.20, "cmle": 1.91, "a_optimal": 1.11, "l_optimal": 1.15, "lcc": 2.0},
    "cloglog": {"iw": 3.74, "cmle": 2.02, "a_optimal": 1.16, "l_optimal": 1.21, "lcc": 2.0},
}


@pytest.mark.parametrize("link", list(MEASURED))
def test_sampling_by_scores_loses_less_than_uniform_sampling(link):
    pilot, intercept = normal_population(link, 0.005)
    full = np.diag(np.linalg.inv(pilot.design.gram(pilot.information)))[1:]
    rate, measured = 4 * 0.005 / 0.995, MEASURED[link]

    def ratio(method, at, keep=None):
        efficiency = relative_efficiency(pilot, at, method=method, contrasts=SLOPES, log_keep=keep)
        return (full / efficiency).sum() / full.sum()

    for method in ("iw", "cmle"):
        assert ratio(method, rate) == pytest.approx(measured[method], rel=0.04)
    for kind in KINDS:
        scores = pilot_scores(kind, pilot, link=LINKS[link], coef=THETA, intercept=intercept)
        at, expected = rate, measured.get(kind)
        if kind == "local_case_control":
            # acceptance with |y - p|: the variance is twice that of the full fit
            at, expected = brentq(lambda a, s=scores: s.plan(a).log_scale, 1e-4, 0.1), 2.0
        found = ratio("cmle", at, scores.log_keep(at))
        assert found == pytest.approx(expected, rel=0.055)
        chosen = efficient_rate(
            pilot, 0.95, method="cmle", contrasts=SLOPES, family=scores.log_keep
        )
        uniform = efficient_rate(pilot, 0.95, method="cmle", contrasts=SLOPES)
        assert chosen < uniform / 4
        keep = scores.log_keep(chosen)
        worst = relative_efficiency(
            pilot, chosen, method="cmle", contrasts=SLOPES, log_keep=keep
        ).min()
        assert worst == pytest.approx(0.95, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_by_a_plan_give_unbiased_fits_of_the_predicted_variance(kind):
    rng = np.random.default_rng(6)
    pilot, intercept = normal_population("logit", 0.03)
    theta = np.append(intercept, THETA)
    # a pilot that is off, as pilots are; the fit must not mind
    wrong = THETA * 0.8
    scores = pilot_scores(kind, pilot, link=LINKS["logit"], coef=wrong, intercept=intercept)
    rate = 0.06
    plan = scores.plan(rate)
    n, n_fits = 12_000, 100
    found = np.empty((n_fits, 4))
    wrong_offset = np.empty((n_fits, 4))
    for i in range(n_fits):
        X = rng.normal(size=(n, 3))
        y = rng.random(n) < 1 / (1 + np.exp(-(X @ THETA + intercept)))
        log_pi1, log_pi0 = (np.broadcast_to(k, n) for k in plan.log_keep(X))
        kept = np.log(row_uniforms(i, 0, 0, n)) < np.where(y, log_pi1, log_pi0)
        ratio = (log_pi1 - log_pi0)[kept]
        Z = np.column_stack([np.ones(kept.sum()), X[kept]])
        found[i] = logistic(Z, y[kept], ratio, theta)
        # positives that get the ratio of a uniform sample instead of their own
        wrong_offset[i] = logistic(Z, y[kept], np.where(y[kept], -np.log(rate), ratio), theta)
    keep = plan.log_keep(pilot.design.X)
    efficiency = relative_efficiency(pilot, rate, method="cmle", contrasts=np.eye(4), log_keep=keep)
    full = np.diag(np.linalg.inv(pilot.design.gram(pilot.information)))
    predicted = full / efficiency / n
    assert np.abs(found.mean(axis=0) - theta).max() < 4 * np.sqrt(predicted.max() / n_fits) + 0.02
    measured = np.square(found - theta).mean(axis=0)
    assert np.mean(measured / predicted) == pytest.approx(1.0, abs=0.2)
    assert np.abs(wrong_offset.mean(axis=0) - theta).max() > 0.15


def logistic(Z, y, ratio, start):
    w = start.copy()
    for _ in range(30):
        p = 1 / (1 + np.exp(-(Z @ w + ratio)))
        step = np.linalg.solve((Z * (p * (1 - p))[:, None]).T @ Z, Z.T @ (y - p))
        w += step
        if np.abs(step).max() < 1e-7:
            return w
    raise AssertionError("no convergence")


# ------------------------------------------------------------- errors


def test_errors_say_what_came_and_what_is_allowed():
    pilot, coef, intercept = drawn_pilot()
    options = {"link": LINKS["logit"], "coef": coef, "intercept": intercept}
    with pytest.raises(ValueError, match="sampling is 'optimal'; a pilot's scores are for 'a_opt"):
        pilot_scores("optimal", pilot, **options)
    for kind in KINDS:
        for rate in (0.0, 1.5, np.nan):
            with pytest.raises(ValueError, match=f"rate is {rate}; give a number above 0"):
                pilot_scores(kind, pilot, **options).plan(rate)


def test_a_optimal_refuses_many_columns_and_names_the_way_out():
    n = A_OPTIMAL_COLUMNS
    design = Design(sp.csr_array((20, n)), intercept=True)
    pieces = LINKS["logit"].pieces(np.full(20, -3.0))
    pilot = Pilot(design, np.full(20, 0.05), pieces, 0.05, 1e6)
    options = {"link": LINKS["logit"], "coef": np.zeros(n), "intercept": -3.0}
    with pytest.raises(ValueError, match=r"up to 500 coefficients, and there are 501.*'l_optimal'"):
        pilot_scores("a_optimal", pilot, **options)
    pilot_scores("l_optimal", pilot, **options)
