"""SamplingRateDisplay: what is drawn is what the curve says."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy.special import expit

from imbfit.displays import SamplingRateDisplay
from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.curve import sampling_rate_curve

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def rows_of(slopes=3, n=20_000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, slopes))
    return X, (rng.random(n) < expit(-4.5 + X @ np.linspace(1, -1, slopes))).astype(int)


X, Y = rows_of()


@pytest.fixture(scope="module")
def curve():
    return sampling_rate_curve(X, Y, random_state=0)


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_lines_are_the_curves(curve):
    display = SamplingRateDisplay(curve=curve).plot()
    assert list(display.lines_) == ["efficiency", "inflation", "cost"]
    assert len(display.axes_) == 3
    assert display.figure_ is display.axes_[0].figure
    for name, values in (
        ("efficiency", curve.efficiency),
        ("inflation", 100 * (curve.se_inflation - 1)),
    ):
        drawn = {line.get_label(): line for line in display.lines_[name]}
        assert set(drawn) == {"x0", "x1", "x2"}
        for j in range(3):
            np.testing.assert_array_equal(drawn[f"x{j}"].get_xdata(), curve.rates)
            np.testing.assert_allclose(drawn[f"x{j}"].get_ydata(), values[:, j])
    cost, work, best = display.lines_["cost"]
    np.testing.assert_array_equal(cost.get_ydata(), curve.cost)
    np.testing.assert_array_equal(work.get_ydata(), curve.work)
    assert best.get_xdata() == [curve.cost_rate]
    assert best.get_ydata()[0] == pytest.approx(curve.work.min(), rel=0.01)


def test_the_chosen_rate_is_marked_in_each_panel(curve):
    display = SamplingRateDisplay(curve=curve).plot()
    assert [point.get_xdata() for point in display.chosen_] == [[curve.rate]] * 3
    height = display.chosen_[0].get_ydata()[0]
    assert height == pytest.approx(0.95, abs=0.005)
    assert display.chosen_[1].get_ydata()[0] == pytest.approx(100 * (height**-0.5 - 1))
    kept = curve.prevalence + (1 - curve.prevalence) * curve.rate
    assert display.chosen_[2].get_ydata()[0] == pytest.approx((0.1 + kept) / 1.1, rel=0.02)
    assert f"chosen rate {curve.rate:.3g}" in labels_of(display.axes_[0])
    assert f"least cost x variance, {curve.cost_rate:.3g}" in labels_of(display.axes_[2])
    asked = [line.get_ydata() for line in display.axes_[0].lines if line.get_linestyle() == "--"]
    assert asked == [[0.95, 0.95]]


def test_axes_say_what_they_are(curve):
    display = SamplingRateDisplay(curve=curve).plot()
    for ax in display.axes_:
        assert ax.get_xscale() == "log"
        assert ax.get_xlabel() == "Sampling rate of the negatives"
        assert ax.get_ylabel()
        assert ax.get_title()
    assert display.axes_[0].get_ylim() == (0, 1.03)
    assert "0.1" in display.axes_[2].get_title()


@pytest.mark.parametrize("show", ["efficiency", "inflation", "cost", ["cost", "efficiency"]])
def test_panels_are_those_asked_for_in_their_order(curve, show):
    display = SamplingRateDisplay(curve=curve).plot(show=show)
    names = [show] if isinstance(show, str) else show
    assert list(display.lines_) == names
    assert len(display.axes_) == len(names)


def test_it_draws_where_it_is_told(curve):
    figure, ax = plt.subplots()
    display = SamplingRateDisplay(curve=curve).plot(ax, show="cost")
    assert display.axes_.tolist() == [ax]
    assert display.figure_ is figure
    _, axes = plt.subplots(3, 1)
    assert SamplingRateDisplay(curve=curve).plot(axes).axes_.tolist() == axes.tolist()
    assert len(plt.get_fignums()) == 2


@pytest.mark.parametrize("show", ["cots", [], ["cost", "price"]])
def test_unknown_panels_are_named(curve, show):
    with pytest.raises(ValueError, match="'efficiency', 'inflation', 'cost'"):
        SamplingRateDisplay(curve=curve).plot(show=show)


def test_as_many_axes_as_panels(curve):
    _, axes = plt.subplots(1, 2)
    with pytest.raises(ValueError, match="2 Axes for 3 panels"):
        SamplingRateDisplay(curve=curve).plot(axes)


def test_from_data_and_from_estimator_are_the_curve(curve):
    display = SamplingRateDisplay.from_data(X, Y, random_state=0, show="cost", read_cost=0.1)
    np.testing.assert_array_equal(display.curve.work, curve.work)
    assert list(display.lines_) == ["cost"]
    model = DownsampledGLMClassifier("cloglog", method="iw", efficiency=0.9, random_state=0)
    display = SamplingRateDisplay.from_estimator(model, X, Y, rates=[0.05, 0.1, 0.5, 1.0])
    assert (display.curve.method, display.curve.asked) == ("iw", 0.9)
    assert display.curve.rates.tolist() == [0.05, 0.1, 0.5, 1.0]
    dashed = [line.get_ydata() for line in display.axes_[0].lines if line.get_linestyle() == "--"]
    assert dashed == [[0.9, 0.9]]


def test_many_slopes_share_a_grey_and_the_least_efficient_are_named():
    many = sampling_rate_curve(*rows_of(9), random_state=0)
    display = SamplingRateDisplay(curve=many).plot(show="efficiency")
    at = int(np.argmin(np.abs(np.log(many.rates / many.rate))))
    least = np.argsort(many.efficiency[at])[:6]
    labels = labels_of(display.axes_[0])
    assert "3 others" in labels
    assert {f"x{j}" for j in least} == {label for label in labels if label.startswith("x")}
    assert len(display.lines_["efficiency"]) == 9
    colours = [line.get_color() for line in display.lines_["efficiency"]]
    assert len(set(colours)) == 7


def test_what_is_not_identified_is_not_drawn():
    rows = np.column_stack([X, np.ones(len(X))])
    flat = sampling_rate_curve(rows, Y, random_state=0)
    display = SamplingRateDisplay(curve=flat).plot()
    assert {line.get_label() for line in display.lines_["efficiency"]} == {"x0", "x1", "x2"}
    display.figure_.canvas.draw()


def test_a_chosen_rate_outside_the_curve_is_where_it_should_be():
    short = sampling_rate_curve(X, Y, random_state=0, rates=[0.001, 0.003])
    assert short.rate > 0.003
    display = SamplingRateDisplay(curve=short).plot(show="efficiency")
    assert display.chosen_[0].get_ydata()[0] == pytest.approx(0.95, abs=0.01)
