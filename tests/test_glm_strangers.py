"""What people who had not read the code ran into."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from imbfit import (
    CollinearityWarning,
    DownsampledGLMClassifier,
    Link,
    SamplingRateDisplay,
    SamplingWarning,
    SeparationWarning,
    check_link,
    sampling_rate_curve,
)
from imbfit.glm.keyed_draws import row_uniforms

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6000, 3))
Y = (RNG.random(6000) < expit(-2.5 + X @ [1.0, -1.0, 0.5])).astype(int)


def model(**parameters):
    return DownsampledGLMClassifier(**{"sampling_rate": 0.3, "random_state": 0} | parameters)


@pytest.mark.parametrize("method", ["cmle", "iw", "profile"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize("link", ["cloglog", "logit", "probit", "loglog"])
def test_a_flag_seen_only_among_positives_is_separation_for_every_link(link, rate, method):
    flag = np.zeros(len(Y))
    flag[np.flatnonzero(Y)[:5]] = 1
    with pytest.warns(SeparationWarning, match="'x3' separates the classes"):
        found = model(link=link, sampling_rate=rate, method=method).fit(np.c_[X, flag], Y)
    assert not found.converged_


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_a_flag_seen_only_among_negatives(rate):
    flag = np.zeros(len(Y))
    flag[np.flatnonzero(Y == 0)[:50]] = 1
    with pytest.warns(SeparationWarning, match="'x3' separates the classes"):
        found = model(link="loglog", sampling_rate=rate).fit(np.c_[X, flag], Y)
    assert not found.converged_


@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_constant_column_is_named(kind, constant):
    wide = kind(np.c_[X, np.full(len(Y), constant)])
    with pytest.warns(CollinearityWarning, match="'x3'"):
        found = model().fit(wide, Y)
    assert found.converged_
    plain = model().fit(X, Y)
    np.testing.assert_allclose(found.coef_[0, :3], plain.coef_[0], rtol=1e-6)
    assert np.isinf(found.standard_errors_[4])
    np.testing.assert_allclose(found.relative_efficiency_[:3], plain.relative_efficiency_)


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_more_columns_than_rows_held_by_a_ridge(rate):
    wide = RNG.standard_normal((100, 200))
    y = (np.arange(100) % 5 == 0).astype(int)
    found = model(C=1.0, sampling_rate=rate).fit(wide, y)
    assert found.converged_
    assert np.isfinite(found.coef_).all()
    assert np.isfinite(found.standard_errors_).all()


def test_a_single_column_that_splits_the_classes():
    x = np.r_[np.full(2000, 2.0), np.full(10, 1.0)][:, None]
    y = np.r_[np.zeros(2000, int), np.ones(10, int)]
    with pytest.warns(SeparationWarning, match="'x0' separates the classes"):
        model().fit(x, y)


def test_weights_that_no_square_can_hold():
    for size in (1e-200, 1e120):
        with pytest.raises(ValueError, match="multiply all weights by a constant"):
            model().fit(X, Y, sample_weight=np.full(len(Y), size))
    few = model().fit(X, Y, sample_weight=np.full(len(Y), 1e-50))
    np.testing.assert_allclose(few.standard_errors_, model().fit(X, Y).standard_errors_, rtol=1e-6)


def test_sparse_columns_far_from_zero_have_the_standard_errors_of_dense_ones():
    far = X + np.array([0, 5e6, 0])
    dense, sparse = model().fit(far, Y), model().fit(sp.csr_array(far), Y)
    np.testing.assert_allclose(sparse.standard_errors_[1:], dense.standard_errors_[1:], rtol=1e-3)


def test_a_curve_of_what_has_none():
    for given, error, message in (
        ({"sampling": "a_optimal"}, ValueError, "uniform sample"),
        ({"method": "naive"}, ValueError, "no precision to"),
        ({"estimator": LogisticRegression()}, TypeError, "of type LogisticRegression"),
    ):
        with pytest.raises(error, match=message):
            sampling_rate_curve(X, Y, **given)
    with pytest.raises(TypeError, match="of type NoneType"):
        SamplingRateDisplay(curve=None).plot()


def test_dollars_in_names_are_no_formulas():
    frame = pd.DataFrame(X, columns=["$x^$", "a$", "b"])
    display = SamplingRateDisplay.from_data(frame, Y, random_state=0)
    display.figure_.canvas.draw()


def test_flags_are_no_positions():
    with pytest.raises(ValueError, match="True is no column"):
        model().fit(X, Y).standard_errors_for([True, False, True])


def test_one_heavy_row_that_was_dropped_is_told():
    dropped = np.flatnonzero((Y == 0) & (row_uniforms(0, 0, 0, len(Y)) > 0.3))[0]
    weight = np.ones(len(Y))
    weight[dropped] = 1e6
    with pytest.warns(SamplingWarning, match="times the prevalence"):
        heavy = model().fit(X, Y, sample_weight=weight)
    assert heavy.sampling_rate_ < 0.01


class Overflowing(Link):
    """A logit that loses both tails far out."""

    name = "overflowing"

    def log_p(self, eta):
        return eta - np.log1p(np.exp(eta))

    def log_q(self, eta):
        return -np.log1p(np.exp(eta))

    def hazard_p(self, eta):
        return expit(-eta)

    def hazard_q(self, eta):
        return expit(eta)


def test_a_link_that_loses_both_probabilities():
    with pytest.raises(ValueError, match=r"Overflowing\.log_p"):
        check_link(Overflowing())


def test_a_callable_offset_sees_in_batches_what_predict_will_see():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
    found = model(offset=lambda F: 0.1 * F["c"])
    with pytest.raises(KeyError):
        found.fit_batches([frame], label="y", columns=["a", "b"])
    found.fit_batches([frame], label="y")
    assert np.isfinite(found.predict_proba(frame[["a", "b", "c"]])).all()


def test_a_bad_warm_start_is_left():
    found = model(link="cloglog", warm_start=True).fit(X, Y)
    again = found.fit(X / 1e4, Y)
    np.testing.assert_allclose(again.coef_[0] / 1e4, model(link="cloglog").fit(X, Y).coef_[0])


def test_the_summary_speaks_of_the_fit_and_not_of_new_parameters():
    found = model().fit(X, Y)
    before = str(found.summary())
    found.set_params(method="iw", link="probit")
    assert str(found.summary()) == before
