"""The simulated set must be what its docstring says: its truth is what other tests lean on."""

import builtins

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression

from imbfit.datasets import make_rare_events

F = {
    "logit": expit,
    "probit": ndtr,
    "cloglog": lambda eta: 1 - np.exp(-np.exp(eta)),
}


@pytest.mark.parametrize("link", F)
@pytest.mark.parametrize("prevalence", [1e-4, 0.01, 0.3, 0.999])
def test_mean_probability_is_the_prevalence(link, prevalence):
    cards = make_rare_events(5_000, prevalence=prevalence, link=link, random_state=1)
    assert cards.probability.mean() == pytest.approx(prevalence, rel=1e-11)


@pytest.mark.parametrize("link", F)
def test_probability_follows_from_the_returned_coefficients(link):
    cards = make_rare_events(3_000, link=link, random_state=2)
    np.testing.assert_allclose(
        cards.probability, F[link](cards.intercept + cards.X @ cards.coef), rtol=1e-10, atol=1e-15
    )


@pytest.mark.parametrize("link", F)
def test_labels_are_drawn_with_the_probability(link):
    cards = make_rare_events(200_000, prevalence=0.05, link=link, random_state=3)
    # in each tenth of the rows by probability, the positives are within four standard errors
    for rows in np.array_split(np.argsort(cards.probability), 10):
        p = cards.probability[rows]
        error = np.sqrt((p * (1 - p)).sum())
        assert abs(cards.y[rows].sum() - p.sum()) < 4 * error + 1


def test_logistic_regression_recovers_the_coefficients():
    cards = make_rare_events(400_000, prevalence=0.05, random_state=4)
    model = LogisticRegression(C=1e12, tol=1e-8).fit(cards.X, cards.y)
    weight = cards.probability * (1 - cards.probability)
    design = np.column_stack([np.ones(len(cards.y)), cards.X])
    standard_error = np.sqrt(np.diag(np.linalg.inv(design.T @ (design * weight[:, None]))))
    truth = np.concatenate([[cards.intercept], cards.coef])
    fitted = np.concatenate([model.intercept_, model.coef_.ravel()])
    assert standard_error.max() < 0.03
    assert np.abs((fitted - truth) / standard_error).max() < 4


def test_the_wrong_link_does_not_recover_the_coefficients():
    # guards the test above: with a probit truth a logistic fit is off by far more than its error
    cards = make_rare_events(100_000, prevalence=0.05, link="probit", random_state=4)
    model = LogisticRegression(C=1e12, tol=1e-8).fit(cards.X, cards.y)
    assert np.linalg.norm(model.coef_) > 1.5 * np.linalg.norm(cards.coef)


def test_segments_and_amounts_say_nothing_beyond_the_features():
    cards = make_rare_events(400_000, prevalence=0.05, random_state=5)
    residual = cards.y - cards.probability
    error = np.sqrt(cards.probability * (1 - cards.probability))
    z = residual.sum() / np.sqrt((error**2).sum())
    assert abs(z) < 4
    for name in cards.segment_names:
        rows = cards.segment == name
        assert abs(residual[rows].sum()) < 4 * np.sqrt((error[rows] ** 2).sum())
    log_amount = np.log(cards.amount)
    log_amount -= log_amount.mean()
    assert abs(residual @ log_amount) < 4 * np.linalg.norm(error * log_amount)


def test_seed_fixes_everything():
    first = make_rare_events(500, random_state=7)
    again = make_rare_events(500, random_state=7)
    other = make_rare_events(500, random_state=8)
    for name in ("X", "y", "segment", "date", "amount", "probability", "coef"):
        np.testing.assert_array_equal(first[name], again[name])
    assert first.intercept == again.intercept
    assert not np.array_equal(first.X, other.X)
    state = np.random.RandomState(7)
    np.testing.assert_array_equal(make_rare_events(500, random_state=state).X, first.X)
    assert not np.array_equal(make_rare_events(500, random_state=state).X, first.X)


def test_links_share_the_draw_and_differ_in_the_probability():
    by_link = {link: make_rare_events(2_000, link=link, random_state=9) for link in F}
    logit = by_link["logit"]
    for link in ("probit", "cloglog"):
        other = by_link[link]
        for name in ("X", "segment", "date", "amount", "coef"):
            np.testing.assert_array_equal(other[name], logit[name])
        assert other.link == link
        assert np.abs(other.probability - logit.probability).max() > 0.05
        # every link is increasing, so the order of the rows is the same
        np.testing.assert_array_equal(np.argsort(other.probability), np.argsort(logit.probability))
    # the same coefficients are a stronger signal where the link's noise is smaller
    positive_share = {
        link: cards.probability @ cards.probability for link, cards in by_link.items()
    }
    assert positive_share["probit"] > positive_share["cloglog"] > positive_share["logit"]


def test_shapes_and_names():
    cards = make_rare_events(300, n_features=3, n_segments=5, n_days=2, random_state=0)
    assert cards.X.shape == (300, 3)
    assert cards.coef.shape == (3,)
    assert cards.feature_names == ["x1", "x2", "x3"]
    assert cards.segment_names == ["S1", "S2", "S3", "S4", "S5"]
    for name in ("y", "segment", "date", "amount", "probability"):
        assert cards[name].shape == (300,)
    assert set(np.unique(cards.y)) <= {0, 1}
    assert set(cards.segment) == set(cards.segment_names)
    assert set(cards.date) == {np.datetime64("2024-01-01"), np.datetime64("2024-01-02")}
    assert (np.diff(cards.date) >= np.timedelta64(0, "D")).all()
    assert cards.frame is None


def test_segments_differ_in_size_and_base_rate():
    cards = make_rare_events(50_000, random_state=0)
    rows = [cards.segment == name for name in cards.segment_names]
    assert np.diff([r.sum() for r in rows]).max() < -500
    assert np.diff([cards.probability[r].mean() for r in rows]).min() > 0.002


@pytest.mark.parametrize("n_segments", [1, 7, 40])
def test_no_segment_is_empty(n_segments):
    cards = make_rare_events(40, n_segments=n_segments, random_state=0)
    assert len(set(cards.segment)) == n_segments


def test_amounts_are_money_heavy_tailed_and_a_little_dearer_for_fraud():
    cards = make_rare_events(100_000, random_state=0)
    amount = cards.amount
    np.testing.assert_array_equal(amount, np.round(amount, 2))
    assert amount.min() >= 0.01
    assert amount.max() > 20 * amount.mean()
    assert 1.2 < amount[cards.y == 1].mean() / amount[cards.y == 0].mean() < 3
    assert 0.1 < spearmanr(amount, cards.probability).statistic < 0.3


def test_frame_holds_the_same_data():
    pd = pytest.importorskip("pandas")
    arrays = make_rare_events(400, random_state=0)
    cards = make_rare_events(400, random_state=0, as_frame=True)
    assert list(cards.frame.columns) == [*arrays.feature_names, "segment", "date", "amount"]
    np.testing.assert_array_equal(cards.X.to_numpy(), arrays.X)
    np.testing.assert_array_equal(cards.frame[arrays.feature_names].to_numpy(), arrays.X)
    np.testing.assert_array_equal(cards.y.to_numpy(), arrays.y)
    assert cards.y.name == "fraud"
    np.testing.assert_array_equal(cards.frame["amount"].to_numpy(), arrays.amount)
    np.testing.assert_array_equal(cards.frame["segment"].to_numpy(dtype=str), arrays.segment)
    assert pd.api.types.is_datetime64_any_dtype(cards.frame["date"])
    assert (cards.frame["date"].to_numpy() == arrays.date).all()


def test_frame_without_pandas_says_what_to_do(monkeypatch):
    real_import = builtins.__import__

    def without_pandas(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    assert make_rare_events(50, random_state=0).frame is None
    with pytest.raises(ImportError, match="as_frame=True needs pandas"):
        make_rare_events(50, random_state=0, as_frame=True)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"prevalence": 0.0}, ValueError, "strictly between 0 and 1, got 0.0"),
        ({"prevalence": 1}, ValueError, "strictly between 0 and 1, got 1"),
        ({"prevalence": -0.1}, ValueError, "strictly between 0 and 1, got -0.1"),
        ({"prevalence": float("nan")}, ValueError, "strictly between 0 and 1, got nan"),
        ({"prevalence": "1%"}, TypeError, "prevalence must be a number .* got '1%'"),
        ({"prevalence": True}, TypeError, "prevalence must be a number .* got True"),
        ({"n_samples": 0}, ValueError, "n_samples must be at least 1, got 0"),
        ({"n_samples": 100.0}, TypeError, "n_samples must be a whole number .* got 100.0"),
        ({"n_features": 0}, ValueError, "n_features must be at least 1, got 0"),
        ({"n_segments": 0}, ValueError, "n_segments must be at least 1, got 0"),
        ({"n_segments": True}, TypeError, "n_segments must be a whole number .* got True"),
        ({"n_days": -3}, ValueError, "n_days must be at least 1, got -3"),
        ({"n_samples": 3, "n_segments": 4}, ValueError, "cannot fill n_segments=4 segments"),
        ({"link": "cauchit"}, ValueError, "one of 'logit', 'probit', 'cloglog', got 'cauchit'"),
        ({"link": ["logit"]}, TypeError, "link must be one of 'logit'"),
        ({"as_frame": "yes"}, TypeError, "as_frame must be True or False, got 'yes'"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        make_rare_events(**{"n_samples": 100, "random_state": 0, **arguments})


def test_options_are_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        make_rare_events(100, 0.01)
