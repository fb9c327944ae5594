"""AdversarialMetricClassifier as users meet it."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from imblearn.pipeline import make_pipeline as make_sampler_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from imbfit import (
    AdversarialMetricClassifier,
    InfeasibleConstraints,
    OTLPThresholdClassifier,
    UnsupportedMetric,
    search_thresholds,
)
from imbfit.adversarial.level import aligned_cut, height_of
from imbfit.adversarial.payoff import payoff_of
from imbfit.adversarial.recipe import _rounded_up
from imbfit.datasets import make_rare_events
from imbfit.exceptions import InertParameterWarning
from imbfit.metrics import (
    capacity,
    cost,
    each_segment,
    f1,
    fn,
    gmean,
    jaccard,
    kappa,
    lift,
    parse,
    precision,
    recall,
    scorer,
)


@pytest.fixture(scope="module")
def cards():
    return make_rare_events(3_000, prevalence=0.04, random_state=0)


def quick(metric="f1", **settings):
    return AdversarialMetricClassifier(metric, **({"threshold": "train"} | settings))


def test_the_cut_is_folded_into_the_intercept(cards):
    model = quick().fit(cards.X, cards.y)
    found = search_thresholds(cards.y, cards.X @ model.coef_[0], objective="f1")
    assert model.intercept_[0] == pytest.approx(-found.threshold)
    np.testing.assert_array_equal(model.predict(cards.X), model.decision_function(cards.X) > 0)
    assert f1(cards.y, model.predict(cards.X)) == pytest.approx(found.objective_value)
    assert model.threshold_search_.objective_value == found.objective_value


def test_the_tuned_cut_is_the_best_of_out_of_fold_scores(cards):
    cv = StratifiedKFold(4, shuffle=True, random_state=1)
    model = AdversarialMetricClassifier(cv=cv).fit(cards.X, cards.y)
    final = quick().fit(cards.X, cards.y)
    np.testing.assert_array_equal(model.coef_, final.coef_)
    scores = {name: np.empty(len(cards.y)) for name in ("raw", "levelled", "scaled")}

    def height(score, y):
        level = np.sort(score)[-y.sum()]
        return level, level - np.sort(score)[::-1][(len(score) - 1) // 2]

    for train, test in cv.split(cards.X, cards.y):
        # the ridge of all rows, which sets the scale of the scores
        part = quick(C=len(cards.y) / len(train)).fit(cards.X[train], cards.y[train])
        level, width = height(cards.X[train] @ part.coef_[0], cards.y[train])
        scores["raw"][test] = cards.X[test] @ part.coef_[0]
        scores["levelled"][test] = scores["raw"][test] - level
        scores["scaled"][test] = scores["levelled"][test] / width
    found = {name: search_thresholds(cards.y, s, objective="f1") for name, s in scores.items()}
    best = max(found, key=lambda name: found[name].objective_value)
    assert model.alignment_ == best
    assert model.threshold_search_.objective_value == found[best].objective_value
    level, width = height(cards.X @ final.coef_[0], cards.y)
    cut = found[best].threshold
    cut = {"raw": cut, "levelled": cut + level, "scaled": cut * width + level}[best]
    assert -model.intercept_[0] == pytest.approx(cut, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_folds_at_other_heights_do_no_harm(seed):
    # what one fold's model adds to all its scores means nothing with the observed count
    rng = np.random.default_rng(seed)
    positive = rng.random(400) < 0.2
    score = rng.standard_normal(400) + 2 * positive
    shift = np.repeat([0.0, 50.0], 200)
    parts = [(score[:200], height_of(score, None, 80.0))]
    parts.append((score[200:] + 50.0, height_of(score + 50.0, None, 80.0)))

    def search(values):
        return search_thresholds(positive, values, objective="f1")

    cut, found, alignment = aligned_cut(parts, height_of(score, None, 80.0), search)
    assert alignment != "raw"
    assert found.objective_value == pytest.approx(search(score).objective_value)
    assert f1(positive, score >= cut) == pytest.approx(found.objective_value)
    assert search(score + shift).objective_value < found.objective_value


def test_folds_of_other_lengths_are_scaled():
    rng = np.random.default_rng(0)
    positive = rng.random(600) < 0.2
    score = rng.standard_normal(600) + 2 * positive
    height = height_of(score, None, 120.0)
    longer = 7.0 * score + 3.0
    parts = [(score[:300], height), (longer[300:], height_of(longer, None, 120.0))]

    def search(values):
        return search_thresholds(positive, values, objective="f1")

    cut, found, alignment = aligned_cut(parts, height, search)
    assert alignment == "scaled"
    assert found.objective_value == pytest.approx(search(score).objective_value)
    assert f1(positive, score >= cut) == pytest.approx(found.objective_value)


def test_a_height_counts_weights_as_rows():
    rng = np.random.default_rng(0)
    score, times = rng.standard_normal(50), rng.integers(1, 4, 50)
    assert height_of(score, times.astype(float), 20.0) == height_of(
        np.repeat(score, times), None, 20.0
    )


def test_a_row_is_predicted_by_itself(cards):
    model = quick().fit(cards.X, cards.y)
    together = model.predict(cards.X[:50])
    alone = [model.predict(row[None])[0] for row in cards.X[:50]]
    np.testing.assert_array_equal(together, alone)
    assert not hasattr(model, "predict_proba")


def test_the_gap_is_certified(cards):
    loose = quick(tol=1e-2).fit(cards.X, cards.y)
    tight = quick(tol=1e-7).fit(cards.X, cards.y)
    assert loose.duality_gap_ <= 1e-2
    assert tight.duality_gap_ <= 1e-7
    assert tight.history_[-1].objective <= loose.history_[-1].objective
    assert loose.history_[-1].bound <= tight.history_[-1].objective + 1e-12
    assert tight.game_value_ == pytest.approx(-tight.history_[-1].objective, abs=0.1)


@pytest.mark.parametrize("metric", [kappa, "precision", "f2", lift, cost(fp=1, fn=20)], ids=str)
def test_other_metrics(metric, cards):
    model = quick(metric).fit(cards.X, cards.y)
    assert model.converged_
    assert np.isfinite(model.coef_).all()
    assert model.intercept_.shape == (1,)


def test_a_function_is_a_metric(cards):
    def f_one(tp, pp, ap, n):  # noqa: ARG001  the game passes four
        return 2 * tp / (pp + ap) if pp + ap else 1.0

    mine = quick(f_one, greater_is_better=True).fit(cards.X, cards.y)
    named = quick("f1").fit(cards.X, cards.y)
    np.testing.assert_allclose(mine.coef_, named.coef_, rtol=1e-3, atol=1e-3)
    assert mine.intercept_ == pytest.approx(named.intercept_, rel=1e-2)


def test_a_price_that_is_better_when_lower(cards):
    price = cost(fp=1, fn=20)
    model = quick(price).fit(cards.X, cards.y)
    spent = price(cards.y, model.predict(cards.X))
    assert spent == pytest.approx(model.threshold_search_.objective_value)
    assert spent < min(
        price(cards.y, np.zeros(len(cards.y))), price(cards.y, np.ones(len(cards.y)))
    )
    # what the predictor secures is a price too, and no less than what it pays here
    assert model.game_value_ > 0


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [-1, 1], [False, True]], ids=str)
def test_labels_of_any_kind(labels, cards):
    y = np.array(labels, dtype=object if isinstance(labels[0], str) else None)[cards.y]
    model = quick().fit(cards.X, y)
    plain = quick().fit(cards.X, cards.y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert list(model.classes_) == labels
    np.testing.assert_array_equal(model.predict(cards.X) == labels[1], plain.predict(cards.X) == 1)


def test_the_other_label_may_be_the_positive_one(cards):
    swapped = quick(pos_label=0).fit(cards.X, 1 - cards.y)
    plain = quick().fit(cards.X, cards.y)
    np.testing.assert_allclose(swapped.coef_, -plain.coef_)
    np.testing.assert_allclose(swapped.intercept_, -plain.intercept_)
    np.testing.assert_array_equal(swapped.predict(cards.X), 1 - plain.predict(cards.X))


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_sparse_rows(kind, cards):
    dense = quick(tol=1e-7).fit(cards.X, cards.y)
    sparse = quick(tol=1e-7).fit(kind(cards.X), cards.y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-3, atol=1e-3)
    score = dense.decision_function(kind(cards.X))
    np.testing.assert_allclose(score, dense.decision_function(cards.X))


def test_single_precision(cards):
    double = quick().fit(cards.X, cards.y)
    single = quick().fit(cards.X.astype(np.float32), cards.y)
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=0.05, atol=0.05)
    assert single.converged_


def test_a_row_twice_is_weight_two(cards):
    rng = np.random.default_rng(0)
    times = rng.integers(0, 3, len(cards.y))
    heavy = quick(tol=1e-8).fit(cards.X, cards.y, sample_weight=times)
    rows = np.repeat(np.arange(len(cards.y)), times)
    repeated = quick(tol=1e-8).fit(cards.X[rows], cards.y[rows])
    np.testing.assert_allclose(heavy.coef_, repeated.coef_, rtol=1e-3, atol=1e-3)
    assert heavy.game_value_ == pytest.approx(repeated.game_value_, abs=1e-6)
    assert heavy.intercept_ == pytest.approx(repeated.intercept_, rel=1e-2)


def test_weights_of_zero_in_given_folds(cards):
    weight = np.ones(len(cards.y))
    weight[::7] = 0
    groups = np.arange(len(cards.y)) % 3
    cv = list(LeaveOneGroupOut().split(cards.X, groups=groups))
    model = AdversarialMetricClassifier(cv=cv).fit(cards.X, cards.y, sample_weight=weight)
    kept = weight > 0
    place = np.cumsum(kept) - 1
    own = [(place[a[kept[a]]], place[b[kept[b]]]) for a, b in cv]
    same = AdversarialMetricClassifier(cv=own).fit(cards.X[kept], cards.y[kept])
    np.testing.assert_allclose(model.intercept_, same.intercept_, rtol=1e-6)


def test_frames_and_their_names(cards):
    frame = pd.DataFrame(cards.X, columns=[f"x{j}" for j in range(cards.X.shape[1])])
    model = quick().fit(frame, cards.y)
    assert list(model.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(
        model.predict(frame), quick().fit(cards.X, cards.y).predict(cards.X)
    )


def test_in_a_pipeline_and_a_search(cards):
    pipeline = make_pipeline(
        StandardScaler(), SplineTransformer(4), AdversarialMetricClassifier(cv=3)
    )
    search = GridSearchCV(
        pipeline,
        {
            "adversarialmetricclassifier__metric": ["f1", kappa],
            "adversarialmetricclassifier__C": [0.1, 1.0],
        },
        scoring=scorer("f1"),
        cv=3,
    ).fit(cards.X, cards.y)
    assert search.best_score_ > 0.1
    assert clone(search.best_estimator_).get_params()["adversarialmetricclassifier__cv"] == 3


def test_after_a_sampler(cards):
    pipeline = make_sampler_pipeline(
        RandomUnderSampler(random_state=0), AdversarialMetricClassifier("kappa", cv=3)
    ).fit(cards.X, cards.y)
    assert kappa(cards.y, pipeline.predict(cards.X)) > 0


def test_inside_the_threshold_search(cards):
    model = OTLPThresholdClassifier(
        quick(), objective="recall", constraints="precision >= 0.3", cv=3
    ).fit(cards.X, cards.y)
    assert model.status_ == "optimal"
    assert model.estimator_.coef_.shape[1] == cards.X.shape[1]


def test_survives_clone_pickle_and_set_params(cards):
    model = quick("kappa", C=0.5)
    again = pickle.loads(pickle.dumps(model.fit(cards.X, cards.y)))
    np.testing.assert_array_equal(again.predict(cards.X), model.predict(cards.X))
    assert clone(model).get_params() == model.get_params()
    model.set_params(metric=f1, tol=1e-3)
    assert model.fit(cards.X, cards.y).duality_gap_ <= 1e-3


def test_fitting_again_forgets_the_last_fit(cards):
    model = quick().fit(cards.X, cards.y)
    model.fit(cards.X[:, :2], cards.y)
    assert model.coef_.shape == (1, 2)


def test_a_warm_start_goes_on(cards):
    model = quick(warm_start=True, tol=1e-6).fit(cards.X, cards.y)
    first = model.n_iter_
    model.fit(cards.X, cards.y)
    assert model.n_iter_ < first
    with pytest.raises(ValueError, match=r"warm_start=True, but the last fit had \d+ slopes"):
        model.fit(cards.X[:, :2], cards.y)


@pytest.mark.parametrize("init", ["logistic", "zeros"])
@pytest.mark.parametrize("anchor", [None, "logistic"])
def test_where_training_starts_is_not_where_it_ends(init, anchor, cards):
    one = quick(init=init, anchor=anchor, tol=1e-7).fit(cards.X, cards.y)
    other = quick(anchor=anchor, tol=1e-7).fit(cards.X, cards.y)
    assert one.history_[-1].objective == pytest.approx(other.history_[-1].objective, rel=1e-5)


def test_the_anchor_keeps_to_the_logistic_direction(cards):
    logistic = LogisticRegression(C=1e-6, max_iter=200).fit(cards.X, cards.y).coef_[0]
    model = quick(anchor="logistic", C=1e-6).fit(cards.X, cards.y)
    own = model.coef_[0]
    assert own @ logistic / np.linalg.norm(own) / np.linalg.norm(logistic) > 0.99


def test_minibatches_come_close_to_all_rows(cards):
    full = quick().fit(cards.X, cards.y)
    parts = quick(batch_size=500, max_iter=40, random_state=0).fit(cards.X, cards.y)
    assert parts.threshold_search_.objective_value > 0.9 * full.threshold_search_.objective_value
    assert np.isfinite(parts.duality_gap_)
    again = quick(batch_size=500, max_iter=40, random_state=0).fit(cards.X, cards.y)
    np.testing.assert_array_equal(parts.coef_, again.coef_)


def test_a_stream_is_cut_at_the_end(cards):
    model = quick(random_state=0)
    for part in np.array_split(np.arange(len(cards.y)), 6):
        model.partial_fit(cards.X[part], cards.y[part], classes=[0, 1])
    with pytest.raises(NotFittedError, match=r"call set_cut\(X, y\)"):
        model.predict(cards.X)
    model.set_cut(cards.X, cards.y)
    assert f1(cards.y, model.predict(cards.X)) == pytest.approx(
        model.threshold_search_.objective_value
    )
    assert model.duality_gap_ == np.inf


def test_a_stream_goes_on_from_a_fit(cards):
    model = quick(random_state=0, batch_size=500).fit(cards.X[:1500], cards.y[:1500])
    before = model.coef_.copy()
    model.partial_fit(cards.X[1500:1600], cards.y[1500:1600])
    assert 0 < np.linalg.norm(model.coef_ - before) < np.linalg.norm(before)
    # a fit begins anew
    again = quick(random_state=0).fit(cards.X, cards.y).coef_
    np.testing.assert_array_equal(
        model.set_params(batch_size=None).fit(cards.X, cards.y).coef_, again
    )


def test_a_stream_may_begin_with_one_class(cards):
    negatives = np.flatnonzero(cards.y == 0)[:200]
    model = quick().partial_fit(cards.X[negatives], cards.y[negatives], classes=[0, 1])
    model.partial_fit(cards.X, cards.y).set_cut(cards.X, cards.y)
    assert model.predict(cards.X).sum() > 0
    with pytest.raises(ValueError, match="has the label 7, which is not among the classes"):
        model.partial_fit(cards.X[:5], np.array([0, 1, 7, 0, 1]))


def test_the_cut_can_be_set_on_other_rows(cards):
    model = quick().fit(cards.X[:1500], cards.y[:1500])
    before = model.coef_.copy()
    model.set_cut(cards.X[1500:], cards.y[1500:])
    np.testing.assert_array_equal(model.coef_, before)
    found = search_thresholds(cards.y[1500:], cards.X[1500:] @ before[0], objective="f1")
    assert -model.intercept_[0] == pytest.approx(found.threshold)


def test_nobody_is_flagged_at_a_finite_cut():
    X, y = np.zeros((40, 1)), np.repeat([0, 1], [38, 2])
    model = quick("accuracy").fit(X, y)
    assert np.isfinite(model.intercept_).all()
    assert not model.predict(X).any()


def test_a_limit_of_steps_is_told(cards):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 with a relative gap of"):
        model = quick(max_iter=1, tol=1e-9, init="zeros").fit(cards.X, cards.y)
    assert not model.converged_


def test_a_gap_that_blocks_of_rows_leave_is_told(cards):
    X, y, settings = cards.X[:1_000], cards.y[:1_000], {"constraints": "specificity >= 0.9"}
    text = (
        r"certified relative gap of (\S+), above tol=1e-05: the game of 1000 rows .* on blocks of "
        r"rows, as there are more than 400, and only to a gap of about \S+, .* such as tol=(\S+), "
        "or at most 400 rows"
    )
    with pytest.warns(ConvergenceWarning, match=text) as told:
        model = quick(tol=1e-5, **settings).fit(X, y)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert not model.converged_
    assert model.duality_gap_ > 1e-5
    assert model.n_iter_ < model.max_iter
    # both cures in the message work
    gap, enough = map(float, re.search(text, str(told[0].message)).groups())
    assert gap == pytest.approx(model.duality_gap_, rel=0.05)
    assert gap < enough <= 3 * gap
    again = quick(tol=enough, **settings).fit(X, y)
    assert again.converged_
    assert again.duality_gap_ <= enough
    fewer = quick(tol=1e-5, **settings).fit(X[:400], y[:400])
    assert fewer.converged_
    assert fewer.duality_gap_ <= 1e-5


@pytest.mark.slow
def test_a_gap_that_blocks_of_rows_leave_is_told_with_the_expected_count(cards):
    X, y = cards.X[:410, :2], cards.y[:410]
    settings = {"metric": "precision", "count": "expected", "C": 0.1}
    with pytest.warns(ConvergenceWarning, match="on blocks of rows") as told:
        model = quick(tol=1e-4, **settings).fit(X, y)
    assert not model.converged_
    enough = float(re.search(r"such as tol=(\S+),", str(told[0].message)).group(1))
    assert quick(tol=enough, **settings).fit(X, y).duality_gap_ <= enough


def test_the_advised_tolerance_has_one_digit_and_is_no_smaller():
    for number in (0.1, 0.10001, 0.00095, 3e-4, 9.1e-5, 7.0, 0.0301):
        text = _rounded_up(number)
        assert float(text) >= number
        assert float(text) <= 2 * number
        assert float(text) == float(f"{number:.0e}") or float(text) > number


def test_progress_is_printed(cards, capsys):
    quick(verbose=1, tol=1e-6).fit(cards.X, cards.y)
    assert "gap" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("metric", "part"),
    [
        (jaccard, "denominator"),
        (gmean, "multiplies two terms"),
        (f1 * recall, "multiplies two terms"),
        (recall**2, "power"),
        (fn["amount"], "per-row amounts"),
    ],
    ids=str,
)
def test_metrics_outside_the_family_are_refused(metric, part, cards):
    with pytest.raises(UnsupportedMetric, match=part):
        quick(metric, greater_is_better=None if metric in (jaccard, gmean) else True).fit(
            cards.X, cards.y
        )


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"metric": 3}, TypeError, "give a metric of imbfit.metrics"),
        ({"metric": "f1x"}, ValueError, "f1"),
        ({"metric": np.hypot}, ValueError, "Pass True or False"),
        ({"metric": f1, "greater_is_better": False}, ValueError, "greater_is_better=False"),
        ({"constraints": [each_segment(precision >= 0.5)]}, UnsupportedMetric, "per segment"),
        ({"constraints": [capacity(10, per="day")]}, UnsupportedMetric, "OTLPThresholdClassifier"),
        ({"constraints": "recall"}, TypeError, "without a bound"),
        ({"count": "exact"}, ValueError, "'observed', 'expected'"),
        ({"C": 0}, ValueError, "C=0"),
        ({"C": np.inf}, ValueError, "without any ridge"),
        ({"C": "1"}, ValueError, "C='1'"),
        ({"tol": -1}, ValueError, "tol=-1"),
        ({"max_iter": 0}, ValueError, "max_iter=0"),
        ({"max_iter": 2.5}, TypeError, "whole number"),
        ({"batch_size": 1}, ValueError, "at least 2"),
        ({"threshold": 0.5}, ValueError, "'tuned', 'train', 'sign'"),
        ({"threshold": "sign"}, ValueError, "the sign of a score means nothing"),
        ({"solver": "simplex"}, ValueError, "solver='simplex'"),
        ({"solver": "closed", "count": "expected"}, ValueError, "solver='closed'"),
        ({"solver": "closed", "constraints": "recall >= 0.8"}, ValueError, "solver='closed'"),
        ({"init": "random"}, ValueError, "'logistic', 'zeros'"),
        ({"anchor": "zeros"}, ValueError, "'logistic' or None"),
        ({"warm_start": 1}, TypeError, "warm_start=1"),
        ({"threshold": "tuned", "cv": 1}, ValueError, "at least 2"),
        ({"threshold": "tuned", "cv": "five"}, ValueError, "a splitter"),
        ({"pos_label": 5}, ValueError, "pos_label=5"),
    ],
    ids=str,
)
def test_bad_settings(settings, error, message, cards):
    with pytest.raises(error, match=message):
        quick(**({"metric": "f1"} | settings)).fit(cards.X, cards.y)


def test_bad_rows(cards):
    X, y = cards.X[:100].copy(), cards.y[:100].copy()
    y[:5] = 1
    with pytest.raises(ValueError, match="one class only"):
        quick().fit(X, np.zeros(100))
    with pytest.raises(ValueError, match="Only binary classification"):
        quick().fit(X, np.arange(100) % 3)
    with pytest.raises(ValueError, match="one class only where sample_weight is above 0"):
        quick().fit(X, y, sample_weight=(y == 0).astype(float))
    with pytest.raises(ValueError, match="sample_weight"):
        quick().fit(X, y, sample_weight=-np.ones(100))
    with pytest.raises(ValueError, match="there is one row of a class"):
        AdversarialMetricClassifier().fit(X[4:], np.r_[1, np.zeros(95)])
    X[3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        quick().fit(X, y)


def test_few_positives_make_few_folds(cards):
    rare = np.flatnonzero(cards.y == 1)[:3]
    rows = np.concatenate([rare, np.flatnonzero(cards.y == 0)[:200]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AdversarialMetricClassifier().fit(cards.X[rows], cards.y[rows])
    assert model.threshold_search_ is not None


def test_a_cut_that_no_scores_allow(cards):
    # the objective is less than a hundredth of the range here, so that games which are solved to a
    # share of tol times the range would leave a gap of several times tol, and a warning
    with pytest.raises(InfeasibleConstraints, match="precision"):
        quick(constraints=["precision >= 0.99", "recall >= 0.99"], tol=1e-2).fit(cards.X, cards.y)


def test_the_cut_suits_the_scale_of_the_final_scores():
    # a strong ridge: with one of their own the folds' scores would be a fifth shorter
    rows = make_rare_events(8_000, prevalence=0.03, random_state=1)
    model = AdversarialMetricClassifier(C=0.01).fit(rows.X[:4_000], rows.y[:4_000])
    tuned = f1(rows.y[4_000:], model.predict(rows.X[4_000:]))
    best = model.set_cut(rows.X[4_000:], rows.y[4_000:]).threshold_search_.objective_value
    assert tuned > best - 0.05


def test_games_without_closed_form_are_trained_too(cards):
    rows = np.concatenate([np.flatnonzero(cards.y == 1)[:12], np.flatnonzero(cards.y == 0)[:48]])
    X, y = cards.X[rows, :3], cards.y[rows]
    mixed = quick("0.9 * f1 + 0.1 * mcc", greater_is_better=True, tol=1e-3).fit(X, y)
    bound = quick("precision", constraints="recall >= 0.8", tol=1e-3).fit(X, y)
    signed = quick(count="expected", threshold="sign", tol=1e-3).fit(X, y)
    for model in (mixed, bound, signed):
        assert model.converged_
        assert model.duality_gap_ <= 1e-3
    assert recall(y, bound.predict(X)) >= 0.8
    np.testing.assert_array_equal(signed.predict(X), signed.decision_function(X) > 0)
    assert signed.intercept_[0] != 0
    for solver in ("lp", "admm"):
        with pytest.raises(ValueError, match="rows"):
            quick(count="expected", solver=solver).fit(np.tile(X, (8, 1)), np.tile(y, 8))


def test_a_training_constraint_that_nothing_meets(cards):
    with pytest.raises(InfeasibleConstraints, match="recall"):
        quick("f1", constraints=["recall >= 0.9", "pp <= 3"]).fit(cards.X, cards.y)


def test_large_means_of_columns_cost_no_accuracy_under_constraints():
    # the solver's tolerance is relative to the game's value, which the level of scores moves
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2))
    y = (X[:, 0] + rng.standard_normal(100) > 0.5).astype(int)
    plain = quick("precision", constraints="recall >= 0.8").fit(X, y)
    far = quick("precision", constraints="recall >= 0.8").fit(X + 1000.0, y)
    assert far.duality_gap_ <= 1e-4
    assert far.history_[-1].objective == pytest.approx(plain.history_[-1].objective, rel=1e-3)


@pytest.mark.parametrize(
    ("metric", "keeps"),
    [
        ("f1", True),
        ("kappa", True),
        ("mcc", True),
        ("lift", True),
        (cost(fp=1, fn=5), True),
        ("tp / (pp + 20)", False),
        ("precision - 0.01 * pp", False),
    ],
    ids=str,
)
def test_what_a_part_of_the_rows_shares_with_all(metric, keeps):
    metric = parse(metric) if isinstance(metric, str) else metric
    assert payoff_of(metric, greater_is_better=True).keeps_scale == keeps


def test_counts_are_refused_in_batches(cards):
    with pytest.raises(ValueError, match=r"pp <= 50 reads a count .* write it as a rate"):
        quick(constraints="pp <= 50", batch_size=500).fit(cards.X, cards.y)


def test_an_inert_parameter_is_told(cards):
    with pytest.warns(InertParameterWarning, match="fit_intercept=False has no effect"):
        quick(fit_intercept=False).fit(cards.X, cards.y)


def test_training_for_the_metric_helps_where_a_line_is_the_wrong_model():
    # Two kinds of positives on opposite sides: log loss compromises between them.
    rng = np.random.default_rng(0)

    def draw(rows):
        kind = rng.random(rows)
        X = rng.standard_normal((rows, 2))
        near, far = kind < 0.02, (kind >= 0.02) & (kind < 0.03)
        X[near] = 0.5 * X[near] + (3, 1)
        X[far] = 0.5 * X[far] + (-5, 1)
        return X, (near | far).astype(int)

    X, y = draw(20_000)
    new, labels = draw(20_000)
    ours = AdversarialMetricClassifier("f1").fit(X, y)
    logistic = OTLPThresholdClassifier(LogisticRegression(), objective="f1").fit(X, y)
    gain = f1(labels, ours.predict(new)) - f1(labels, logistic.predict(new))
    assert gain > 0.01
