"""What people who did not write the adversarial classifier tried, and what they should get."""

import contextlib
import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import f1_score, recall_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from imbfit import (
    AdversarialMetricClassifier,
    InfeasibleConstraints,
    OTLPThresholdClassifier,
)
from imbfit.exceptions import UnsupportedMetric

RNG = np.random.default_rng(0)
N = 300
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + RNG.normal(size=N) > 1.2).astype(int)
COUNTS = RNG.integers(1, 4, N)


def train(metric="f1", **parameters):
    """Return a classifier without the folds of the cut."""
    return AdversarialMetricClassifier(metric, threshold="train", **parameters)


def assert_sound(model, features):
    """Check what holds for every fitted model."""
    decision = model.decision_function(features)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert np.isfinite(decision).all()
    assert np.array_equal(model.predict(features) == model.classes_[1], decision > 0)
    assert_certified(model)


def assert_certified(model):
    """Check that no bound is above an objective that was reached."""
    least = min((step.objective for step in model.history_), default=np.inf)
    for step in model.history_:
        assert step.bound <= least + 1e-7 * abs(least)


def oracle(model, features, labels, weights, constraints):
    """Return what the loss for networks makes of the coefficients for F1, with the ridge."""
    torch = pytest.importorskip("torch")
    from imbfit.adversarial.torch import MetricLoss

    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=float)
    scores = torch.tensor(np.asarray(features, dtype=float) @ model.coef_[0])
    loss = MetricLoss("f1", constraints=constraints)
    value = float(loss(scores, torch.tensor(labels), torch.tensor(weights)))
    ridge = float((model.coef_**2).sum()) / (2 * model.C * weights.sum())
    return value + ridge


# The cut of out-of-fold scores


@pytest.mark.parametrize("offset", [10.0, 100.0, 1000.0])
def test_the_tuned_cut_does_not_depend_on_where_the_columns_are_centred(offset):
    plain = AdversarialMetricClassifier().fit(X, Y)
    moved = AdversarialMetricClassifier().fit(X + offset, Y)
    assert np.allclose(moved.coef_, plain.coef_, rtol=0.05, atol=0.02)
    best = f1_score(Y, plain.predict(X))
    assert f1_score(Y, moved.predict(X + offset)) > best - 0.05
    assert moved.threshold_search_.objective_value == pytest.approx(
        plain.threshold_search_.objective_value, abs=0.05
    )


def test_a_column_of_years_does_not_spoil_the_cut():
    rng = np.random.default_rng(1)
    features = np.c_[rng.normal(size=(4000, 3)), rng.integers(2015, 2025, 4000)]
    labels = (features[:, 0] + rng.normal(size=4000) > 1.5).astype(int)
    old, new = slice(0, 2000), slice(2000, None)
    tuned = AdversarialMetricClassifier().fit(features[old], labels[old])
    scaled = make_pipeline(StandardScaler(), AdversarialMetricClassifier())
    scaled.fit(features[old], labels[old])
    rival = f1_score(labels[new], scaled.predict(features[new]))
    assert f1_score(labels[new], tuned.predict(features[new])) > rival - 0.03


def test_a_constant_column_changes_little():
    features = np.c_[X, np.full(N, 2020.0)]
    with_it = AdversarialMetricClassifier(tol=1e-7).fit(features, Y)
    without = AdversarialMetricClassifier(tol=1e-7).fit(X, Y)
    assert np.allclose(with_it.coef_[0, :3], without.coef_[0], atol=1e-3)
    rival = f1_score(Y, without.predict(X))
    assert f1_score(Y, with_it.predict(features)) > rival - 0.05


# Weights and ties in games with constraints


@pytest.mark.parametrize(
    ("metric", "constraints"),
    [
        ("f1", "recall >= 0.8"),
        ("precision", "recall >= 0.8"),
        ("f1", "specificity >= 0.9"),
        ("f1", "pp <= 15"),
        ("kappa", ["recall >= 0.5", "specificity >= 0.5"]),
    ],
)
def test_whole_weights_are_repeated_rows_under_constraints(metric, constraints):
    rows = slice(0, 60)
    features, labels, counts = X[rows], Y[rows], COUNTS[rows]
    weighted = train(metric, constraints=constraints, tol=1e-7).fit(features, labels, counts)
    repeated = train(metric, constraints=constraints, tol=1e-7).fit(
        np.repeat(features, counts, axis=0), np.repeat(labels, counts)
    )
    assert weighted.game_value_ == pytest.approx(repeated.game_value_, abs=1e-5)
    assert weighted.history_[-1].objective == pytest.approx(
        repeated.history_[-1].objective, abs=1e-5
    )
    assert_certified(weighted)
    assert_certified(repeated)


@pytest.mark.parametrize("metric", ["f1", "kappa", "precision", "mcc", "cost(fp=1, fn=5)"])
def test_whole_weights_are_repeated_rows(metric):
    weighted = train(metric, tol=1e-8).fit(X, Y, COUNTS)
    repeated = train(metric, tol=1e-8).fit(np.repeat(X, COUNTS, axis=0), np.repeat(Y, COUNTS))
    assert np.allclose(weighted.coef_, repeated.coef_, atol=1e-3)
    assert np.array_equal(weighted.predict(X), repeated.predict(X))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("constraints", ["recall >= 0.8", "specificity >= 0.9"])
def test_fractional_weights_under_constraints_have_a_true_certificate(seed, constraints):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(40, 2))
    labels = (features[:, 0] + rng.normal(size=40) > 1).astype(int)
    weights = rng.random(40) * 2 + 0.1
    model = train(constraints=constraints).fit(features, labels, weights)
    assert_sound(model, features)
    assert oracle(model, features, labels, weights, constraints) == pytest.approx(
        model.history_[-1].objective, abs=1e-5
    )


@pytest.mark.parametrize("n_rows", [200, 600])
def test_tied_rows_under_a_constraint_have_a_true_certificate(n_rows):
    rng = np.random.default_rng(0)
    features = rng.integers(0, 4, (n_rows, 2)) * 1.0
    labels = (features[:, 0] + rng.normal(size=n_rows) > 3).astype(int)
    model = train(constraints="recall >= 0.8").fit(features, labels)
    assert_sound(model, features)
    # more than 400 rows are solved on blocks, whose gap is told
    room = 1e-5 + model.duality_gap_ * abs(model.history_[-1].objective)
    truth = oracle(model, features, labels, None, "recall >= 0.8")
    assert truth == pytest.approx(model.history_[-1].objective, abs=room)


def test_weighted_rows_of_the_expected_count_have_a_true_certificate():
    model = train(count="expected").fit(X[:25], Y[:25], COUNTS[:25])
    assert_certified(model)


# Scales


# A column whose ridge is next to nothing costs the certificate, and fits say so.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e8, 1e9, 1e12])
def test_a_column_of_large_numbers_gets_no_false_certificate(scale):
    features = X * [scale, 1.0, 1.0]
    model = train().fit(features, Y)
    assert_sound(model, features)


@pytest.mark.parametrize("C", [1e-300, 1e-10, 1e10])
def test_any_ridge_gets_no_false_certificate(C):
    model = train(C=C).fit(X, Y)
    assert_sound(model, X)


@pytest.mark.parametrize("C", [1e16, 1e300])
def test_next_to_no_ridge_is_refused(C):
    with pytest.raises(ValueError, match="too little for a certificate"):
        train(C=C).fit(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_large_weights_get_no_false_certificate():
    model = train().fit(X, Y, COUNTS * 1e10)
    assert_sound(model, X)
    with pytest.raises(ValueError, match="divide sample_weight by a constant"):
        train().fit(X, Y, COUNTS * 1e16)


def test_the_gap_is_relative_to_the_objective_also_where_that_is_small():
    features = np.random.default_rng(0).normal(size=(50_000, 3))
    labels = np.zeros(50_000, dtype=int)
    labels[:2] = 1
    model = train().fit(features, labels)
    last = model.history_[-1]
    relative = (last.objective - last.bound) / abs(last.objective)
    assert model.duality_gap_ == pytest.approx(relative, rel=1e-3)


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("batch_size", [None, 50])
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e155, 1e200])
def test_one_column_of_extreme_scale_does_not_stop_the_others(scale, batch_size):
    # refusing the column by its number is fine as well; losing the model is not
    features = X * [1.0, scale, 1.0]
    model = train(batch_size=batch_size, random_state=0)
    try:
        model.fit(features, Y)
    except ValueError as error:
        message = str(error)
        assert "column" in message or "feature" in message
        assert "y_score" not in message
        return
    assert np.isfinite(model.coef_).all()
    assert f1_score(Y, model.predict(features)) > f1_score(Y, np.ones(N)) + 0.1


@pytest.mark.parametrize("features", [np.ones((N, 2)), np.zeros((N, 1)), np.full((N, 2), 1e6)])
def test_rows_that_are_all_equal_are_flagged_together(features):
    for threshold in ("train", "tuned"):
        model = AdversarialMetricClassifier(threshold=threshold).fit(features, Y)
        assert_sound(model, features)
        assert model.predict(features).all()


def test_predicting_beyond_floats_says_so_without_raw_warnings():
    model = train().fit(X, Y)
    huge = np.full((2, 3), 1.7e308) * np.sign(model.coef_)
    try:
        decision = model.decision_function(huge)
    except ValueError:
        return
    assert not np.isnan(decision).any()


# Ties within rounding


@pytest.mark.parametrize("seed", [6, 11])
def test_predictions_do_not_depend_on_the_rows_beside_or_the_memory_layout(seed):
    rng = np.random.default_rng(seed)
    features = rng.integers(0, 3, (600, 4)) + 1000.0
    score = features[:, 0] - 1000
    features = np.c_[features, features[:, ::-1] * 0.1]
    labels = (score + rng.normal(size=600) > np.quantile(score, 0.85) + 0.3).astype(int)
    model = train().fit(features, labels)
    together = model.predict(features)
    alone = np.concatenate([model.predict(features[[row]]) for row in range(600)])
    assert np.array_equal(together, alone)
    assert np.array_equal(together, model.predict(np.asfortranarray(features)))
    assert np.array_equal(together, model.predict(sp.csr_array(features)))
    assert model.threshold_search_.objective_value == pytest.approx(f1_score(labels, together))


# Constraints


def test_constraints_from_an_iterator_hold_at_the_second_fit_too():
    model = train("precision", constraints=iter(["recall >= 0.9"]))
    rows = slice(0, 100)
    try:
        model.fit(X[rows], Y[rows])
    except TypeError:
        return  # refusing an iterator is fine
    model.fit(X[rows], Y[rows])
    assert len(model.threshold_search_.constraint_report) == 1


@pytest.mark.parametrize("constraints", ["tp >= 45", "tn >= 220"])
def test_counts_that_all_rows_reach_are_not_called_infeasible(constraints):
    # 54 positives and 246 negatives; a fold has fewer, and that is not what the user wrote of
    try:
        model = AdversarialMetricClassifier(constraints=constraints).fit(X, Y)
    except InfeasibleConstraints as error:
        assert "fold" in str(error)  # noqa: PT017
        return
    assert model.threshold_search_.constraint_report[0]["met"]


@pytest.mark.parametrize(
    "cv",
    [
        ShuffleSplit(2, test_size=0.1, random_state=0),
        RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=0),
    ],
)
def test_a_bound_on_a_count_is_not_silently_one_of_another_number_of_rows(cv):
    rows = slice(0, 200)
    model = AdversarialMetricClassifier(constraints="pp <= 15", cv=cv)
    with contextlib.suppress(ValueError, UserWarning):  # refusing it, or a warning, is fine
        model.fit(X[rows], Y[rows])
    if hasattr(model, "coef_"):
        assert 7 <= model.predict(X[rows]).sum() <= 22


def test_infeasible_constraints_do_not_advise_a_parameter_that_is_not_there():
    model = train(constraints=["recall >= 0.9", "precision >= 0.9"])
    rows = slice(0, 100)
    with pytest.raises(InfeasibleConstraints) as caught:
        model.fit(X[rows], Y[rows])
    assert "infeasible=" not in str(caught.value) or "infeasible" in model.get_params()


def test_a_bound_on_the_threshold_is_not_advised_to_be_what_it_is():
    with pytest.raises(UnsupportedMetric) as caught:
        train(constraints="threshold >= 0.3").fit(X, Y)
    assert "such as threshold >= 0.3" not in str(caught.value)


@pytest.mark.parametrize(
    ("constraints", "share"),
    [
        ("recall >= 0.8", lambda y, p: recall_score(y, p) >= 0.8),
        ("0.8 <= recall", lambda y, p: recall_score(y, p) >= 0.8),
        ("recall <= 0.2", lambda y, p: recall_score(y, p) <= 0.2),
        ("pp <= 10", lambda y, p: p.sum() <= 0.1 * len(y)),
        ("specificity >= 0.95", lambda y, p: recall_score(1 - y, 1 - p) >= 0.95),
        ("npv >= 0.95", lambda y, p: (y[p == 0] == 0).mean() >= 0.95),
    ],
)
def test_constraints_that_are_reported_met_are_met(constraints, share):
    rows = slice(0, 100)
    model = train(constraints=constraints).fit(X[rows], Y[rows])
    assert model.threshold_search_.constraint_report[0]["met"]
    assert share(Y[rows], model.predict(X[rows]))


@pytest.mark.parametrize(
    ("constraints", "error", "says"),
    [
        ("recall >= 1.1", InfeasibleConstraints, "recall >= 1.1"),
        (["recall >= 0.9", "recall <= 0.1"], InfeasibleConstraints, "recall <= 0.1"),
        ("recalll >= 0.8", ValueError, "did you mean recall"),
        ("recall > 0.8", ValueError, "use >= or <="),
        ("recall", TypeError, "without a bound"),
        ("jaccard >= 0.3", UnsupportedMetric, "jaccard"),
        ("capacity(10)", UnsupportedMetric, "OTLPThresholdClassifier"),
        ("each_segment(recall >= 0.5)", UnsupportedMetric, "OTLPThresholdClassifier"),
        (3, TypeError, "constraint 0"),
    ],
)
def test_constraints_that_are_refused(constraints, error, says):
    with pytest.raises(error, match=says):
        train(constraints=constraints).fit(X, Y)


# Batches


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_published_solver_trains_on_small_batches_of_many_rows():
    rows = slice(0, 150)
    model = train(solver="lp", batch_size=20, max_iter=1, tol=10.0, random_state=0)
    model.fit(X[rows], Y[rows])
    assert_sound(model, X)


def test_batches_under_constraints_have_a_game_value_or_say_that_they_have_none():
    model = train("precision", constraints="recall >= 0.8", batch_size=100, random_state=0)
    model.set_params(tol=0.1).fit(X, Y)
    documented = "NaN" in AdversarialMetricClassifier.__doc__
    assert np.isfinite(model.game_value_) or documented


@pytest.mark.parametrize("batch_size", [2, 299, 300, 10**9])
def test_any_batch_size_trains(batch_size):
    model = train(batch_size=batch_size, random_state=0).fit(X, Y)
    assert f1_score(Y, model.predict(X)) > 0.5


# Streams


def test_classes_that_change_within_a_stream_are_refused():
    model = AdversarialMetricClassifier(batch_size=50, random_state=0)
    model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="classes"):
        model.partial_fit(X, Y, classes=[0, 2])


def test_a_first_chunk_of_one_class_asks_for_the_classes():
    negative = Y == 0
    with pytest.raises(ValueError, match="classes="):
        AdversarialMetricClassifier().partial_fit(X[negative], Y[negative])
    model = AdversarialMetricClassifier(batch_size=50, random_state=0)
    model.partial_fit(X[negative], Y[negative], classes=[0, 1]).partial_fit(X, Y)
    model.set_cut(X, Y)
    assert f1_score(Y, model.predict(X)) > 0.5
    model.partial_fit(X, Y)
    with pytest.raises(NotFittedError, match="set_cut"):
        model.predict(X)
    with pytest.raises(ValueError, match="2 features"):
        model.partial_fit(X[:, :2], Y)
    with pytest.raises(ValueError, match="label 2"):
        model.partial_fit(X, Y + 1)


def test_a_cut_is_refused_before_a_fit_and_on_one_class():
    with pytest.raises(NotFittedError):
        AdversarialMetricClassifier().set_cut(X, Y)
    model = train().fit(X, Y)
    before = model.intercept_.copy()
    with pytest.raises(ValueError, match="both"):
        model.set_cut(X[Y == 0], Y[Y == 0])
    assert np.array_equal(model.intercept_, before)


# Folds


@pytest.mark.parametrize("splitter", [GroupKFold(3), StratifiedGroupKFold(3)])
def test_splitters_by_group_say_what_to_give_instead(splitter):
    with pytest.raises(ValueError, match="list"):
        AdversarialMetricClassifier(cv=splitter).fit(X, Y)


@pytest.mark.parametrize(
    "cv",
    [[], [(np.arange(200), np.arange(200, 301))], [np.arange(100), np.arange(200)]],
    ids=["none", "beyond the rows", "no pairs"],
)
def test_bad_lists_of_splits_are_refused_by_name(cv):
    with pytest.raises((ValueError, IndexError, TypeError), match="cv"):
        AdversarialMetricClassifier(cv=cv).fit(X, Y)


@pytest.mark.parametrize(
    "cv",
    [
        LeaveOneOut(),
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        ShuffleSplit(3, random_state=0),
        list(GroupKFold(3).split(X[:100], Y[:100], np.arange(100) % 7)),
        1000,
    ],
)
def test_odd_folds_work(cv):
    model = AdversarialMetricClassifier(cv=cv).fit(X[:100], Y[:100])
    assert_sound(model, X)


# Metrics


def of_two(tp, fp):
    """Return a number of two counts, where four come."""
    return tp - fp


def of_text(*counts):
    """Return no number."""
    return f"{len(counts)} counts"


def of_nothing(*counts):
    """Forget to return."""
    del counts


def of_tuple(*counts):
    """Return several numbers."""
    return counts


@pytest.mark.parametrize("metric", [of_two, of_text, of_nothing, of_tuple, f1_score])
def test_functions_that_do_not_fit_are_told_what_is_called(metric):
    with pytest.raises((TypeError, ValueError), match=r"\(tp, pp, ap, n\)|a number"):
        train(metric, greater_is_better=True).fit(X, Y)


def branching_precision(tp, pp, ap, n):
    """Return precision by a branch."""
    assert 0 <= ap <= n
    return 0.0 if pp == 0 else tp / pp


def numpy_precision(tp, pp, *_):
    """Return precision by functions of numpy."""
    return np.where(pp > 0, tp / np.maximum(pp, 1), 0)


@pytest.mark.parametrize("function", [branching_precision, numpy_precision])
def test_functions_with_branches_and_numpy_are_the_named_metric(function):
    named = train("precision", tol=1e-8).fit(X, Y)
    model = train(function, greater_is_better=True, tol=1e-8).fit(X, Y)
    assert np.allclose(model.coef_, named.coef_, atol=1e-6)


def test_the_wrong_case_of_a_metric_gets_a_hint():
    with pytest.raises(ValueError, match="did you mean f1"):
        train("F1").fit(X, Y)


@pytest.mark.parametrize("metric", ["jaccard", "gmean", "precision * recall", "fn['amount']"])
def test_metrics_outside_the_family_are_refused_by_name(metric):
    with pytest.raises(UnsupportedMetric, match=metric[:2]):
        train(metric, greater_is_better=True).fit(X, Y)


# Rows and labels


@pytest.mark.parametrize("shuffled", ["y", "sample_weight"])
def test_the_same_rows_in_another_order_are_refused(shuffled):
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"r{row}" for row in range(N)])
    given = {
        "y": pd.Series(Y, index=frame.index),
        "sample_weight": pd.Series(1.0 + Y, index=frame.index),
    }
    given[shuffled] = given[shuffled].sort_values()
    with pytest.raises(ValueError, match="index"):
        train().fit(frame, **given)


@pytest.mark.parametrize(
    "labels",
    [
        Y.astype(bool),
        np.where(Y == 1, "yes", "no"),
        2 * Y - 1,
        pd.Series(Y, dtype="Int64"),
        pd.Series(np.where(Y == 1, "yes", "no"), dtype="category"),
        Y.tolist(),
    ],
    ids=["bool", "text", "signs", "nullable", "category", "list"],
)
def test_labels_of_any_kind_give_the_same_model(labels):
    plain = train().fit(X, Y)
    model = train().fit(X, labels)
    assert np.array_equal(model.coef_, plain.coef_)
    assert np.array_equal(model.predict(X) == model.classes_[1], plain.predict(X) == 1)


def test_the_other_label_as_the_positive_one():
    swapped = train("kappa", pos_label=0).fit(X, Y)
    assert_sound(swapped, X)
    turned = train("kappa").fit(X, 1 - Y)
    assert np.allclose(swapped.coef_, -turned.coef_, atol=1e-9)
    assert np.array_equal(swapped.predict(X), 1 - turned.predict(X))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_array])
def test_sparse_whole_numbers_are_dense_ones(kind):
    rng = np.random.default_rng(2)
    whole = rng.integers(-1, 2, (N, 4))
    whole[:, 0] = Y + rng.integers(0, 2, N)
    dense = train(tol=1e-7).fit(whole, Y)
    sparse = train(tol=1e-7).fit(kind(whole), Y)
    assert np.allclose(dense.coef_, sparse.coef_, atol=1e-6)
    assert np.array_equal(dense.predict(whole), sparse.predict(kind(whole)))


def test_two_positives_among_many_and_nearly_all():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50_000, 3))
    rare = np.zeros(50_000, dtype=int)
    rare[:2] = 1
    for model in (train(), AdversarialMetricClassifier()):
        assert_sound(model.fit(features, rare), features)
    assert_sound(train("kappa").fit(features[:10_000], 1 - np.roll(rare, 3)[:10_000]), features)


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (np.zeros(N), "zero in every row"),
        (1.0 - Y, "one class only where sample_weight"),
        (-np.ones(N), "negative"),
        (np.where(np.arange(N) == 3, np.nan, 1.0), "position 3"),
        (np.ones(N - 1), "299"),
    ],
)
def test_bad_weights_are_refused(weights, says):
    with pytest.raises(ValueError, match=says):
        train().fit(X, Y, weights)


def test_rows_of_weight_zero_are_left_out():
    weights = (np.arange(N) < 200) * 1.0
    model = train(tol=1e-8).fit(X, Y, weights)
    fewer = train(tol=1e-8).fit(X[:200], Y[:200])
    assert np.allclose(model.coef_, fewer.coef_, atol=1e-5)
    assert model.intercept_ == pytest.approx(fewer.intercept_, abs=1e-5)


# With scikit-learn


def test_within_pipelines_searches_and_calibration():
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=list("uvw") * (N // 3))
    columns = make_column_transformer((StandardScaler(), list("abc")), (OneHotEncoder(), ["kind"]))
    pipe = make_pipeline(columns, AdversarialMetricClassifier()).fit(frame, Y)
    assert f1_score(Y, pipe.predict(frame)) > 0.5
    grid = {"C": [0.1, 1.0], "threshold": ["train", "tuned"], "metric": ["f1", "kappa"]}
    search = GridSearchCV(AdversarialMetricClassifier(), grid, scoring="f1", cv=2).fit(X, Y)
    assert search.best_score_ > 0.4
    scores = cross_val_predict(AdversarialMetricClassifier(), X, Y, method="decision_function")
    assert np.isfinite(scores).all()
    calibrated = CalibratedClassifierCV(train("kappa", pos_label=0), cv=3).fit(X, Y)
    assert np.corrcoef(calibrated.predict_proba(X)[:, 1], X[:, 0])[0, 1] > 0.7


def test_routed_weights_reach_the_training():
    weights = np.where(Y == 1, 9.0, 1.0)
    direct = AdversarialMetricClassifier("accuracy").fit(X, Y, weights)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = AdversarialMetricClassifier("accuracy").set_fit_request(sample_weight=True)
        pipe = make_pipeline("passthrough", inner).fit(X, Y, sample_weight=weights)
    assert np.array_equal(pipe[-1].coef_, direct.coef_)
    assert np.array_equal(pipe[-1].intercept_, direct.intercept_)


def test_within_thresholds_by_segment():
    frame = pd.DataFrame(X, columns=list("abc")).assign(region=["n", "s"] * (N // 2))
    model = OTLPThresholdClassifier(
        train(),
        objective="f1",
        constraints="recall >= 0.5",
        segments="region",
        estimator_columns=list("abc"),
        response_method="decision_function",
    ).fit(frame, Y)
    assert model.status_ == "optimal"
    assert sorted(model.thresholds_) == ["n", "s"]


def test_copies_and_threads_agree():
    model = train("precision", constraints="recall >= 0.5").fit(X[:60], Y[:60])
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(other.decision_function(X), model.decision_function(X))
    with ThreadPoolExecutor(4) as pool:
        fits = list(pool.map(lambda _: train().fit(X, Y).coef_, range(8)))
    assert all(np.array_equal(fit, fits[0]) for fit in fits)


def test_a_warm_start_ends_where_a_cold_one_does():
    cold = train(tol=1e-8).fit(X, Y)
    warm = train(tol=1e-8, warm_start=True).fit(X[:100], Y[:100]).fit(X, Y)
    assert np.allclose(warm.coef_, cold.coef_, atol=1e-4)
    with pytest.raises(ValueError, match="warm_start"):
        warm.fit(X[:, :2], Y)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        train(max_iter=1, init="zeros").fit(X, Y)


# The loss for networks


@pytest.mark.parametrize("constraints", [(), "recall >= 0.8", "specificity >= 0.9"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_lies_above_its_tangents(constraints, weighted):
    torch = pytest.importorskip("torch")
    from imbfit.adversarial.torch import MetricLoss

    rng = np.random.default_rng(0)
    labels = torch.tensor((rng.random(40) < 0.3).astype(int))
    weights = torch.tensor(rng.random(40) * 2 + 0.1) if weighted else None
    loss = MetricLoss("f1", constraints=constraints)
    for _ in range(6):
        here = torch.tensor(rng.normal(size=40) * 2, requires_grad=True)
        there = torch.tensor(rng.normal(size=40) * 2)
        value = loss(here, labels, weights)
        value.backward()
        tangent = value.detach() + (here.grad * (there - here.detach())).sum()
        assert float(tangent) <= float(loss(there, labels, weights)) + 1e-6


def test_the_loss_of_batches_of_one_class_and_of_bad_batches():
    torch = pytest.importorskip("torch")
    from imbfit.adversarial.torch import MetricLoss

    for label in (0, 1):
        logits = torch.randn(20, requires_grad=True)
        MetricLoss("f1")(logits, torch.full((20,), label)).backward()
        assert float(logits.grad.abs().max()) == 0
    logits = torch.randn(20)
    labels = torch.arange(20) % 2
    with pytest.raises(ValueError, match=r"y\[1\] is 2"):
        MetricLoss()(logits, labels * 2)
    with pytest.raises(ValueError, match=r"logits\[0\] is nan"):
        MetricLoss()(logits * torch.nan, labels)
    with pytest.raises(ValueError, match="empty"):
        MetricLoss()(logits[:0], labels[:0])
    half = MetricLoss()(logits.half(), labels)
    assert half.dtype == torch.float16


# offsets leave no certificate, and few passes end early: neither is the point
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("offset", [[3e4, 0, 0], [1e5, 1e5, 1e5], [1e11, 0, 0], [1e13, 0, 0]])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_cut_does_on_the_rows_what_the_search_says(offset, kind):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(150, 3))
        signal = rows @ [1, 0.5, -0.7] + rng.normal(size=150)
        y = (signal > np.quantile(signal, 0.8)).astype(int)
        far = (rows + offset).astype(kind)
        model = AdversarialMetricClassifier("f1", threshold="train").fit(far, y)
        model.set_params(metric="recall", constraints="pp <= 20").set_cut(far, y)
        flagged = model.predict(far)
        assert flagged.sum() <= 20
        assert recall_score(y, flagged) == model.threshold_search_.objective_value


def test_rows_of_lower_precision_are_scored_as_those_of_higher():
    far = (X + np.array([3e4, 0, 0])).astype(np.float32)
    low = AdversarialMetricClassifier("f1", threshold="train").fit(far, Y)
    high = AdversarialMetricClassifier("f1", threshold="train").fit(far.astype(float), Y)
    np.testing.assert_array_equal(low.coef_, high.coef_)
    np.testing.assert_array_equal(low.predict(far), high.predict(far.astype(float)))


@pytest.mark.parametrize("init", ["zeros", "logistic"])
def test_a_bound_above_the_objective_is_none(init):
    model = AdversarialMetricClassifier("f1", threshold="train", init=init)
    with pytest.warns(ConvergenceWarning, match="without a certificate.*StandardScaler"):
        model.fit(X * [1e8, 1, 1e-8], Y)
    end = model.history_[-1]
    assert end.bound > end.objective
    assert not model.converged_
    assert model.duality_gap_ == np.inf


def test_another_positive_label_needs_another_fit():
    model = AdversarialMetricClassifier("f1", threshold="train").fit(X, Y)
    model.set_params(pos_label=0)
    for again in (model.set_cut, model.partial_fit):
        with pytest.raises(ValueError, match="trained with 1 as the positive label; set it back"):
            again(X, Y)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    model.set_params(pos_label=1).set_cut(X, Y)
    assert f1_score(1 - Y, model.set_params(pos_label=0).fit(X, Y).predict(X) == 0) > 0.8


def smoothed(tp, pp, _ap, _n):
    return tp / (pp + 3)


@pytest.mark.parametrize("threshold", ["train", "tuned"])
def test_a_model_with_a_function_as_metric_can_be_stored(threshold):
    model = AdversarialMetricClassifier(smoothed, greater_is_better=True, threshold=threshold)
    again = pickle.loads(pickle.dumps(model.fit(X, Y)))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.threshold_search_.objective.__name__ == "smoothed"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [3, "state"])
def test_workers_do_not_change_the_minibatches(seed):
    cuts = [
        AdversarialMetricClassifier(
            batch_size=50,
            max_iter=5,
            n_jobs=jobs,
            random_state=np.random.RandomState(3) if seed == "state" else seed,
        ).fit(X, Y)
        for jobs in (None, 2)
    ]
    assert cuts[0].intercept_ == cuts[1].intercept_


def test_labels_that_are_missing_or_do_not_compare():
    model = AdversarialMetricClassifier(threshold="train")
    with pytest.raises(ValueError, match=r"y has no label in 1 row \(position 2\)"):
        model.fit(X[:4], np.array(["a", "b", None, "a"], object))
    with pytest.raises(ValueError, match="y mixes labels of types"):
        model.fit(X[:4], np.array(["a", "b", 3, "a"], object))
    with pytest.raises(ValueError, match="y has no label in 2 rows"):
        model.fit(X[:4], pd.array([True, None, False, None], dtype="boolean"))
    with pytest.raises(ValueError, match=r"`capacity.*`pp <= 10`"):
        AdversarialMetricClassifier(constraints="capacity(10)").fit(X, Y)
