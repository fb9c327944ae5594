from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from imbfit.glm.correction import log_odds_correction, prior_correction

rates = st.floats(min_value=1e-12, max_value=1.0)
probabilities = st.floats(min_value=0.0, max_value=1.0)


@given(p=probabilities, rate=rates)
def test_right_to_the_last_digits(p, rate):
    exact_p, exact_rate = Fraction(p), Fraction(rate)
    exact = exact_p / (exact_p + (1 - exact_p) / exact_rate)
    assert float(prior_correction(p, rate)) == pytest.approx(float(exact), rel=1e-15, abs=1e-320)
    exact = exact_p / (exact_p + exact_rate * (1 - exact_p))
    corrected = float(prior_correction(p, rate, inverse=True))
    assert corrected == pytest.approx(float(exact), rel=1e-15, abs=1e-320)


@given(q=st.floats(min_value=1e-300, max_value=0.5), rate=rates)
def test_two_columns_keep_the_digits_of_both(q, rate):
    exact_q, exact_rate = Fraction(q), Fraction(rate)
    for inverse, factor in ((False, exact_rate), (True, 1 / exact_rate)):
        # A negative far in the tail: 1 - p alone would be rounded to zero.
        exact = exact_q / (exact_q + factor * (1 - exact_q))
        both = prior_correction([[q, 1 - q]], rate, inverse=inverse)
        assert both.shape == (1, 2)
        assert both[0, 0] == pytest.approx(float(exact), rel=1e-14)
        assert both.sum() == pytest.approx(1, rel=1e-15)
        exact = exact_q / (exact_q + (1 - exact_q) / factor)
        both = prior_correction([[1 - q, q]], rate, inverse=inverse)
        assert both[0, 1] == pytest.approx(float(exact), rel=1e-14)


def test_what_the_sample_shows_comes_back_as_the_population():
    # Counts: 30 of 1000 rows are positive, and 97 of the 970 negatives are kept.
    assert prior_correction(30 / 127, 0.1) == pytest.approx(30 / 1000, rel=1e-14)
    assert prior_correction(30 / 1000, 0.1, inverse=True) == pytest.approx(30 / 127, rel=1e-14)
    p = np.linspace(0, 1, 101)
    for rate in (1e-6, 0.02, 1.0):
        there = prior_correction(p, rate, inverse=True)
        np.testing.assert_allclose(prior_correction(there, rate), p, rtol=1e-9)
        assert np.all(there >= p)
        assert np.all(np.diff(there) > 0)
    np.testing.assert_array_equal(prior_correction(p, 1.0), p)
    assert prior_correction([0.0, 1.0], 1e-300).tolist() == [0, 1]


@pytest.mark.parametrize("inverse", [False, True])
def test_log_odds_shift_by_the_logarithm_of_the_rate(inverse):
    odds = np.linspace(-30, 30, 61).reshape(1, 61)
    shifted = log_odds_correction(odds, 0.02, inverse=inverse)
    assert shifted.shape == odds.shape
    np.testing.assert_allclose(shifted - odds, (-1 if inverse else 1) * np.log(0.02))
    both = np.column_stack([expit(-odds[0]), expit(odds[0])])
    corrected = prior_correction(both, 0.02, inverse=inverse)
    expected = np.column_stack([expit(-shifted[0]), expit(shifted[0])])
    np.testing.assert_allclose(corrected, expected, rtol=1e-12)


def _rare_events(seed, rows=60_000):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return x[:, None], rng.random(rows) < expit(-5.0 + x)


def _slow_but_exact(**options):
    return LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000, **options)


def test_probabilities_after_undersampling_to_one_to_one():
    X, y = _rare_events(0)
    rate = y.sum() / (~y).sum()
    kept = y | (np.random.default_rng(1).random(len(y)) < rate)
    model = _slow_but_exact().fit(X[kept], y[kept])
    raw = model.predict_proba(X)
    corrected = prior_correction(raw, rate)
    assert raw[:, 1].mean() > 20 * y.mean()
    assert corrected[:, 1].mean() == pytest.approx(y.mean(), rel=0.05)
    np.testing.assert_allclose(
        logit(corrected[:, 1]), log_odds_correction(model.decision_function(X), rate), rtol=1e-9
    )


@pytest.mark.parametrize("weights", ["balanced", {False: 0.01, True: 0.99}])
def test_class_weights_are_a_rate(weights):
    X, y = _rare_events(2)
    raw = _slow_but_exact(class_weight=weights).fit(X, y).predict_proba(X)
    if weights == "balanced":
        weights = {False: 1 / (~y).sum(), True: 1 / y.sum()}
    corrected = prior_correction(raw, weights[False] / weights[True])
    assert raw[:, 1].mean() > 20 * y.mean()
    assert corrected[:, 1].mean() == pytest.approx(y.mean(), rel=0.05)


def test_frames_and_single_precision():
    p = np.array([0.2, 0.7])
    expected = prior_correction(p, 0.1)
    np.testing.assert_array_equal(prior_correction(pd.Series(p), 0.1), expected)
    both = pd.DataFrame({"no": 1 - p, "yes": p})
    np.testing.assert_allclose(prior_correction(both, 0.1)[:, 1], expected, rtol=1e-15)
    single = np.column_stack([1 - p, p]).astype(np.float32)
    corrected = prior_correction(single, np.float32(0.1))
    assert corrected.dtype == np.float64
    np.testing.assert_allclose(corrected[:, 1], expected, rtol=1e-6)
    assert prior_correction([], 0.1).shape == (0,)
    assert prior_correction(1, 1).tolist() == 1.0


@pytest.mark.parametrize("correct", [prior_correction, log_odds_correction])
@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, np.nan, np.inf])
def test_rate_out_of_range(correct, rate):
    with pytest.raises(ValueError, match=rf"rate is {rate}; give the share of the negatives"):
        correct([0.5], rate)


@pytest.mark.parametrize("correct", [prior_correction, log_odds_correction])
@pytest.mark.parametrize("rate", ["auto", None, True, [0.1, 0.2]])
def test_rate_that_is_no_number(correct, rate):
    with pytest.raises(TypeError, match=r"^rate is .*; give one number above 0 and at most 1"):
        correct([0.5], rate)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 1.2], "p is 1.2 in row 1; .*log_odds_correction"),
        ([0.5, -0.1], "p is -0.1 in row 1"),
        ([np.nan, 0.5], "p is nan in row 0"),
        (2.0, "p is 2.0; give"),
        ([[0.5, 0.5], [0.5, 1.5]], "p is 1.5 in row 1"),
        ([[0.5, 0.5], [0.5, 0.4]], "the two columns of p sum to 0.9 in row 1"),
        ([[0.2, 0.3, 0.5]], r"p has shape \(1, 3\); give one probability per row"),
        ([[0.2], [0.3]], r"p has shape \(2, 1\)"),
        ([[[0.2, 0.8]]], r"p has shape \(1, 1, 2\)"),
    ],
)
def test_what_is_no_probability(p, message):
    with pytest.raises(ValueError, match=message):
        prior_correction(p, 0.1)
