"""What each sampling rate would cost, beside what fits at these rates do cost."""

import builtins
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import expit

from imbfit.exceptions import SamplingWarning
from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.curve import SamplingRateCurve, sampling_rate_curve

NAMES = ["age", "income", "tenure"]


def rows_of(n=40_000, intercept=-4.8, coef=(1.0, -0.8, 0.5), seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, len(coef)))
    return X, (rng.random(n) < expit(intercept + X @ np.array(coef))).astype(int)


X, Y = rows_of()
RATES = [0.005, 0.02, 0.1, 0.3, 1.0]


@pytest.fixture(scope="module")
def curve():
    return sampling_rate_curve(X, Y, random_state=0)


@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
def test_efficiencies_are_those_that_fits_have(method):
    found = sampling_rate_curve(X, Y, method=method, rates=RATES, random_state=0)
    full = DownsampledGLMClassifier(sampling_rate=1.0).fit(X, Y).standard_errors_[1:]
    for rate, efficiency in zip(RATES[1:], found.efficiency[1:], strict=True):
        variances = []
        for seed in range(3):
            model = DownsampledGLMClassifier(method=method, sampling_rate=rate, random_state=seed)
            variances.append(model.fit(X, Y).standard_errors_[1:] ** 2)
        np.testing.assert_allclose(efficiency, full**2 / np.mean(variances, axis=0), rtol=0.15)
    np.testing.assert_allclose(found.efficiency[-1], 1.0)


def test_the_curve_has_60_rates_from_a_tenth_of_the_prevalence_to_1(curve):
    assert isinstance(curve, SamplingRateCurve)
    assert len(curve.rates) == 60
    assert curve.rates[0] == pytest.approx(Y.mean() / 10)
    assert curve.rates[-1] == pytest.approx(1)
    np.testing.assert_allclose(np.diff(np.log(curve.rates), 2), 0, atol=1e-9)
    assert curve.prevalence == pytest.approx(Y.mean())
    assert curve.names == ["x0", "x1", "x2"]
    assert curve.efficiency.shape == (60, 3)
    assert (np.diff(curve.efficiency, axis=0) > -1e-12).all()
    assert (curve.efficiency > 0).all()
    assert (curve.efficiency <= 1 + 1e-12).all()
    np.testing.assert_allclose(curve.se_inflation, curve.efficiency**-0.5)
    np.testing.assert_array_equal(curve.worst, curve.efficiency.min(axis=1))


def test_costs_are_of_reading_and_of_fitting():
    found = sampling_rate_curve(X, Y, rates=RATES, read_cost=0.25, fit_cost=2.0, random_state=0)
    kept = Y.mean() + (1 - Y.mean()) * np.array(RATES)
    np.testing.assert_allclose(found.cost, (0.25 + 2.0 * kept) / 2.25)
    assert found.cost[-1] == pytest.approx(1)
    np.testing.assert_allclose(found.work, found.cost / found.worst, rtol=0.02)
    assert (found.read_cost, found.fit_cost) == (0.25, 2.0)


@pytest.mark.parametrize(("read", "fit"), [(0.0, 1.0), (0.1, 1.0), (1.0, 1.0), (5.0, 0.1)])
def test_the_rate_of_the_least_cost_is_the_least_on_the_curve(read, fit):
    found = sampling_rate_curve(
        X, Y, read_cost=read, fit_cost=fit, rates=np.geomspace(1e-3, 1, 300), random_state=0
    )
    best = found.rates[np.argmin(found.work)]
    assert found.cost_rate == pytest.approx(best, rel=0.06)


def test_dearer_reading_wants_more_rows_of_what_is_read():
    rates = [
        sampling_rate_curve(X, Y, read_cost=read, rates=RATES, random_state=0).cost_rate
        for read in (0.0, 0.1, 1.0)
    ]
    assert rates[0] < rates[1] < rates[2]
    # where raw rows are free, about as many negatives as positives
    assert 0.5 < rates[0] / Y.mean() < 2


@pytest.mark.parametrize("efficiency", [0.6, 0.9, 0.95])
def test_the_chosen_rate_is_the_smallest_that_keeps_the_precision(efficiency):
    found = sampling_rate_curve(X, Y, efficiency=efficiency, random_state=0)
    assert found.asked == efficiency
    assert found.worst_at(found.rate) == pytest.approx(efficiency, abs=0.003)
    exact = sampling_rate_curve(X, Y, rates=[found.rate], random_state=0)
    assert exact.worst[0] == pytest.approx(efficiency, abs=1e-6)
    model = DownsampledGLMClassifier(efficiency=efficiency, random_state=0).fit(X, Y)
    # the fit looks again, and may raise the rate by a quarter
    assert 0.9 * found.rate < model.sampling_rate_ < 1.3 * found.rate


def test_worst_at_reads_between_the_rates(curve):
    for at in (0, 30, 59):
        assert curve.worst_at(curve.rates[at]) == pytest.approx(curve.worst[at])
    middle = curve.worst_at(float(np.sqrt(curve.rates[10] * curve.rates[11])))
    assert middle == pytest.approx((curve.worst[10] + curve.worst[11]) / 2)


def test_contrasts_have_curves_of_their_own():
    found = sampling_rate_curve(X, Y, contrasts=[[1, -1, 0], [0, 0, 2]], rates=RATES)
    slopes = sampling_rate_curve(X, Y, rates=RATES, random_state=0)
    assert found.names == ["contrast 0", "contrast 1"]
    assert found.efficiency.shape == (5, 2)
    again = sampling_rate_curve(X, Y, contrasts=[0, 0, 1], rates=RATES, random_state=0)
    np.testing.assert_allclose(again.efficiency[:, 0], slopes.efficiency[:, 2], rtol=1e-9)


def test_rates_are_sorted_and_units_do_not_matter(curve):
    found = sampling_rate_curve(X, Y, rates=[0.3, 0.01], random_state=0)
    assert found.rates.tolist() == [0.01, 0.3]
    scaled = sampling_rate_curve(X * [1e-3, 1.0, 1e4] + 7, Y, random_state=0)
    np.testing.assert_allclose(scaled.efficiency, curve.efficiency, rtol=1e-6)
    assert scaled.rate == pytest.approx(curve.rate, rel=1e-6)


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, sparse.csr_array, sparse.csc_array, np.ndarray.tolist]
)
def test_any_kind_of_table(make, curve):
    rows = make(X, columns=NAMES) if make is pd.DataFrame else make(X)
    found = sampling_rate_curve(rows, Y, random_state=0)
    np.testing.assert_allclose(found.efficiency, curve.efficiency, rtol=1e-6)
    if make is pd.DataFrame:
        assert found.names == NAMES


def test_weights_count_and_labels_may_be_words(curve):
    words = np.where(Y == 1, "default", "paid")
    found = sampling_rate_curve(X, words, pos_label="default", random_state=0)
    np.testing.assert_allclose(found.efficiency, curve.efficiency)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(Y))
    weighted = sampling_rate_curve(X, Y, sample_weight=weight, random_state=0)
    assert weighted.prevalence == pytest.approx(np.average(Y, weights=weight))
    has = np.where(np.arange(len(Y)) % 2, 1.0, 0.0)
    some = sampling_rate_curve(X, Y, sample_weight=has, random_state=0)
    assert some.prevalence == pytest.approx(Y[1::2].mean())


def test_weights_make_the_population():
    high = X[:, 0] > 0.5
    mostly = sampling_rate_curve(
        X, Y, sample_weight=np.where(high, 200.0, 1.0), rates=RATES, random_state=0
    )
    alone = sampling_rate_curve(X[high], Y[high], rates=RATES, random_state=0)
    every = sampling_rate_curve(X, Y, rates=RATES, random_state=0)
    np.testing.assert_allclose(mostly.efficiency[:, 1:], alone.efficiency[:, 1:], rtol=0.06)
    assert (mostly.efficiency[:2, 1:] < 0.88 * every.efficiency[:2, 1:]).all()


def test_an_estimators_parameters_are_used_and_it_is_left_alone():
    model = DownsampledGLMClassifier("probit", method="iw", efficiency=0.8, random_state=0)
    before = model.get_params()
    found = sampling_rate_curve(X, Y, estimator=model, rates=RATES)
    same = sampling_rate_curve(
        X, Y, link="probit", method="iw", efficiency=0.8, random_state=0, rates=RATES
    )
    np.testing.assert_array_equal(found.efficiency, same.efficiency)
    assert (found.method, found.asked) == ("iw", 0.8)
    assert model.get_params() == before
    assert not hasattr(model, "n_features_in_")
    fitted = DownsampledGLMClassifier(sampling_rate=0.1, random_state=0).fit(X, Y)
    coef = fitted.coef_.copy()
    sampling_rate_curve(X[:, :2], Y, estimator=fitted, rates=RATES)
    np.testing.assert_array_equal(fitted.coef_, coef)
    assert fitted.n_features_in_ == 3


def test_an_offset_is_no_slope():
    frame = pd.DataFrame(X, columns=NAMES)
    found = sampling_rate_curve(frame, Y, offset="tenure", rates=RATES, random_state=0)
    assert found.names == ["age", "income"]


def test_a_frame_of_the_curve(curve, monkeypatch):
    table = curve.to_frame()
    assert len(table) == 60
    np.testing.assert_array_equal(table["rate"], curve.rates)
    np.testing.assert_array_equal(table["efficiency of x1"], curve.efficiency[:, 1])
    for name in ("worst", "cost", "work"):
        np.testing.assert_array_equal(table[name], getattr(curve, name))
    monkeypatch.setitem(sys.modules, "pandas", None)
    plain = builtins.__import__

    def without(name, *args, **options):
        if name == "pandas":
            raise ImportError(name)
        return plain(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="needs pandas"):
        curve.to_frame()


def test_a_collinear_column_has_no_curve():
    rows = np.column_stack([X, 2 * X[:, 0], np.ones(len(X))])
    found = sampling_rate_curve(rows, Y, rates=RATES, random_state=0)
    assert np.isnan(found.efficiency[:, 4]).all()
    assert np.isfinite(found.efficiency[:, [1, 2]]).all()
    assert np.isfinite(found.worst).all()
    assert 0 < found.rate < 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"presampled": True}, ValueError, "presampled=True"),
        ({"rates": [0.0, 0.5]}, ValueError, r"rate.*0"),
        ({"rates": [0.5, 1.5]}, ValueError, r"rate.*1\.5"),
        ({"rates": []}, ValueError, "rate"),
        ({"rates": [np.nan]}, ValueError, "rate"),
        ({"read_cost": -1.0}, ValueError, "cost"),
        ({"read_cost": 0.0, "fit_cost": 0.0}, ValueError, "cost"),
        ({"fit_cost": np.nan}, ValueError, "cost"),
        ({"contrasts": [[1, 0]]}, ValueError, r"contrasts has shape \(1, 2\)"),
        ({"link": "log"}, ValueError, "link"),
        ({"efficiency": 1.5}, ValueError, "efficiency=1.5"),
        ({"nonsense": 1}, TypeError, "nonsense"),
        ({"estimator": DownsampledGLMClassifier(), "link": "logit"}, TypeError, "either.*link"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        sampling_rate_curve(X, Y, **options)


def test_bad_rows_are_named():
    with pytest.raises(ValueError, match="one class"):
        sampling_rate_curve(X, np.zeros(len(Y), int))
    with pytest.raises(ValueError, match="NaN"):
        sampling_rate_curve(np.where(X > 0.999, np.nan, X), Y)
    told = np.column_stack([X, Y])
    with pytest.raises(ValueError, match=r"'x3' separates.*C=1"):
        sampling_rate_curve(told, Y)
    found = sampling_rate_curve(told, Y, C=1.0, rates=RATES)
    assert np.isfinite(found.worst).all()


def test_many_columns_are_refused(monkeypatch):
    for name, module in list(sys.modules.items()):
        if name.startswith("imbfit.") and hasattr(module, "MAX_COLUMNS"):
            monkeypatch.setattr(module, "MAX_COLUMNS", 3)
    with pytest.raises(ValueError, match=r"3 slopes.*above 3"):
        sampling_rate_curve(X, Y)


def test_few_rows_are_no_obstacle_but_one_positive_is_said():
    found = sampling_rate_curve(X[:2_000], Y[:2_000], random_state=0)
    assert np.isfinite(found.efficiency).all()
    one = np.zeros(500, int)
    one[3] = 1
    with pytest.warns(SamplingWarning, match="one row"):
        sampling_rate_curve(X[:500], one, C=1.0)
