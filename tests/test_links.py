import copy
import pickle

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, log_expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from imbfit.glm import built_in_links
from imbfit.glm.built_in_links import LINKS, as_link
from imbfit.glm.link_check import check_link
from imbfit.glm.links import Link, Mirrored


class ScaledLogit(Link):
    """A user's link of the least effort: four methods and a name."""

    name = "scaled logit"

    def __init__(self, scale=1.0, shift=0.0):
        self.scale = scale
        self.shift = shift

    def _inner(self, eta):
        return self.scale * eta + self.shift

    def log_p(self, eta):
        return log_expit(self._inner(eta))

    def log_q(self, eta):
        return log_expit(-self._inner(eta))

    def hazard_p(self, eta):
        return self.scale * expit(-self._inner(eta))

    def hazard_q(self, eta):
        return self.scale * expit(self._inner(eta))


class StudentT(Link):
    name = "t"
    symmetric = True

    def __init__(self, df=4):
        self.df = df

    def log_p(self, eta):
        return stats.t.logcdf(eta, self.df)

    def log_q(self, eta):
        return stats.t.logsf(eta, self.df)

    def hazard_p(self, eta):
        return np.exp(stats.t.logpdf(eta, self.df) - self.log_p(eta))

    def hazard_q(self, eta):
        return np.exp(stats.t.logpdf(eta, self.df) - self.log_q(eta))


ALL = [
    *LINKS.values(),
    Mirrored(LINKS["cloglog"]),
    ScaledLogit(0.3, 1.0),
    Mirrored(ScaledLogit(2.0, -1.0)),
    StudentT(),
]
every_link = pytest.mark.parametrize("link", ALL, ids=repr)
known_link = pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))


# Distribution function and log-density, each as the textbook has it.
EXACT = {
    "logit": (
        lambda x: 1 / (1 + mpmath.exp(-x)),
        lambda x: -x - 2 * mpmath.log1p(mpmath.exp(-x)),
        (-700, 700),
    ),
    "probit": (
        lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
        lambda x: -x * x / 2 - mpmath.log(2 * mpmath.pi) / 2,
        (-37, 37),
    ),
    "cloglog": (
        lambda x: -mpmath.expm1(-mpmath.exp(x)),
        lambda x: x - mpmath.exp(x),
        (-700, 6.4),
    ),
    "loglog": (
        lambda x: mpmath.exp(-mpmath.exp(-x)),
        lambda x: -x - mpmath.exp(-x),
        (-6.4, 700),
    ),
    "cauchit": (
        lambda x: mpmath.atan2(1, -x) / mpmath.pi,
        lambda x: -mpmath.log(mpmath.pi * (1 + x * x)),
        (-1e6, 1e6),
    ),
}
# The worst relative errors that are allowed: of the pieces, and of the two log-probabilities in
# a sample with a ten-thousandth of the negatives. Rounding exp(eta) alone costs cloglog exp(6.4)
# half units in the last place of exp(-exp(eta)).
TOLERANCES = {
    "logit": (5e-16, 4e-14),
    "probit": (2e-13, 2e-13),
    "cloglog": (1e-13, 1e-13),
    "loglog": (1e-13, 1e-13),
    "cauchit": (1e-15, 5e-15),
}


def _grid(low, high):
    rng = np.random.default_rng(0)
    near = np.concatenate([[0.0], *(s * np.geomspace(1e-9, 50, 25) for s in (-1, 1))])
    switches = np.array([-36.0, -36.01, 36.0, 36.01, np.log(np.log(2)), -np.log(np.log(2))])
    wide = np.concatenate([np.linspace(low, high, 31), rng.uniform(low, high, 20)])
    eta = np.concatenate([near, switches, rng.uniform(-7, 7, 60), wide])
    if high > 1e3:
        eta = np.concatenate([eta, *(s * np.geomspace(1, high, 30) for s in (-1, 1))])
    return eta[(eta >= low) & (eta <= high)]


def _worst(got, exact):
    errors = [
        abs(mpmath.mpf(float(value)) - truth) / abs(truth) if truth else abs(float(value))
        for value, truth in zip(got, exact, strict=True)
    ]
    return float(max(errors))


@known_link
def test_tails_are_right_to_many_digits(link):
    distribution, log_density, bounds = EXACT[link.name]
    tolerance, sample_tolerance = TOLERANCES[link.name]
    eta = _grid(*bounds)
    exact = {name: [] for name in ("log_p", "log_q", "hp", "hq", "slope", "sample_p", "sample_q")}
    with mpmath.workdps(700):
        rate = mpmath.mpf(1e-4)
        for x in map(mpmath.mpf, eta.tolist()):
            p = distribution(x)
            q = 1 - p
            density = mpmath.exp(log_density(x))
            kept = p + rate * q
            exact["log_p"].append(mpmath.log(p))
            exact["log_q"].append(mpmath.log(q))
            exact["hp"].append(density / p)
            exact["hq"].append(density / q)
            exact["sample_p"].append(mpmath.log(p / kept))
            exact["sample_q"].append(mpmath.log(rate * q / kept))
            with mpmath.workdps(60):
                exact["slope"].append(mpmath.diff(log_density, x))
        pieces = link.pieces(eta)
        for name, got in pieces._asdict().items():
            assert _worst(got, exact[name]) < tolerance, name
        for name in ("log_p", "log_q", "hazard_p", "hazard_q"):
            got = getattr(link, name)(eta)
            assert _worst(got, exact[name.replace("azard_", "")]) < tolerance, name
        slope = link.density_slope(eta)
        # At its zero the exact slope is what rounding left of it.
        assert _worst(slope[eta != 0], np.array(exact["slope"])[eta != 0]) < 1e-15
        log_odds = pieces.log_p - pieces.log_q - np.log(1e-4)
        assert _worst(log_expit(log_odds), exact["sample_p"]) < sample_tolerance
        assert _worst(log_expit(-log_odds), exact["sample_q"]) < sample_tolerance


def test_positives_get_likelier_with_the_linear_predictor():
    eta = np.linspace(-4, 3, 29)
    distributions = {
        "logit": stats.logistic,
        "probit": stats.norm,
        "cloglog": stats.gumbel_l,
        "loglog": stats.gumbel_r,
        "cauchit": stats.cauchy,
    }
    assert list(LINKS) == list(distributions)
    for name, distribution in distributions.items():
        np.testing.assert_allclose(
            np.exp(LINKS[name].log_p(eta)), distribution.cdf(eta), rtol=1e-12
        )


@every_link
def test_derivatives_are_those_of_the_logarithms(link):
    eta = np.concatenate([np.linspace(-6, 6, 49), [-25.0, 25.0, -3.3e-4]])
    step = 1e-4
    at, before, after = (link.pieces(x) for x in (eta, eta - step, eta + step))
    np.testing.assert_allclose(np.exp(at.log_p) + np.exp(at.log_q), 1.0, rtol=1e-12)

    # Differences err by the square of the step, measured in the steepest scale of the tails.
    error = 1e-8 + (step * (1.0 + at.hp + at.hq)) ** 2
    for slope, low, high in (
        (at.hp, before.log_p, after.log_p),
        (-at.hq, before.log_q, after.log_q),
    ):
        # All is relative: an absolute tolerance would take anything in the tail.
        difference = (high - low) / (2 * step)
        noise = 1e-14 * (np.abs(low) + np.abs(high)) / step
        assert np.all(np.abs(slope - difference) <= error * np.abs(slope) + noise + 1e-300)
        assert np.all(noise < 1e-3 * np.abs(difference) + 1e-300)
    rare = at.log_p < at.log_q
    for log_hazard, sign, rows in (("hp", 1.0, rare), ("hq", -1.0, ~rare)):
        # f'/f from the hazard of the rarer class, as log f = log hazard + log probability.
        low, high, here = (getattr(x, log_hazard)[rows] for x in (before, after, at))
        difference = (np.log(high) - np.log(low)) / (2 * step) + sign * here
        np.testing.assert_allclose(link.density_slope(eta)[rows], difference, rtol=1e-6, atol=1e-6)
    assert np.all(at.hp >= 0)
    assert np.all(at.hq >= 0)


@every_link
def test_single_values_agree_with_the_pieces(link):
    eta = np.linspace(-9, 5, 40)
    pieces = link.pieces(eta)
    for name, column in zip(("log_p", "log_q", "hazard_p", "hazard_q"), pieces, strict=True):
        np.testing.assert_array_equal(getattr(link, name)(eta), column)


@known_link
def test_far_out_nothing_is_nan_and_nothing_warns(link):
    eta = np.array([-754.0, 754.0, 1000.0, -800.0, -1e5, 1e5, 1e200, -1e200])
    with np.errstate(all="raise", under="ignore"):
        pieces = link.pieces(eta)
        slope = link.density_slope(eta)
    for column in (*pieces, slope):
        assert not np.any(np.isnan(column))
    near = link.pieces(eta[:6])
    for column in (*near, link.density_slope(eta[:6])):
        assert np.all(np.isfinite(column))
    # What likelihoods multiply: an infinite hazard would turn a zero into NaN.
    with np.errstate(all="raise", under="ignore"):
        information = near.hp * near.hq
        weighted = 1000.0 * near.log_q
    assert np.all(np.isfinite(information))
    assert np.all(np.isfinite(weighted))
    assert np.all(near.log_p <= 0)
    assert np.all(near.log_q <= 0)


def test_values_far_out():
    far = np.array([-754.0, 754.0])
    logit = LINKS["logit"].pieces(far)
    np.testing.assert_array_equal(logit.log_p, [-754, 0])
    np.testing.assert_array_equal(logit.log_q, [0, -754])
    np.testing.assert_allclose(logit.hp, [1, 0], atol=1e-300)
    np.testing.assert_allclose(logit.hq, [0, 1], atol=1e-300)
    rare, common = (
        column.tolist() for column in np.transpose(LINKS["cloglog"].pieces([-800, 1000]))
    )
    assert rare == [-800, 0, 1, 0]
    assert common[0] == 0
    assert common[2] == 0
    assert common[1] == -common[3] == -np.exp(700.0)
    rare, common = (
        column.tolist() for column in np.transpose(LINKS["loglog"].pieces([800, -1000]))
    )
    assert rare == [0, -800, 0, 1]
    assert common[1] == 0
    assert common[3] == 0
    probit = LINKS["probit"].pieces(far)
    # Mills: the hazard is the distance plus its inverse, up to terms in its third power.
    np.testing.assert_allclose(probit.hp[0], 754 + 1 / 754, rtol=1e-11)
    np.testing.assert_allclose(probit.log_p[0], stats.norm.logcdf(-754), rtol=1e-14)
    assert probit.hp[1] == 0


@known_link
def test_rows_do_not_depend_on_their_neighbours(link):
    rng = np.random.default_rng(1)
    eta = rng.normal(scale=20, size=2 * built_in_links._BLOCK + 7)
    pieces = link.pieces(eta)
    backwards = link.pieces(eta[::-1])
    for column, other in zip(pieces, backwards, strict=True):
        # Vector instructions take the last few rows one by one.
        np.testing.assert_allclose(column, other[::-1], rtol=5e-14)
    some = link.pieces(eta[:6].reshape(2, 3))
    assert some.hp.shape == (2, 3)
    assert link.pieces([]).log_p.shape == (0,)
    assert link.pieces(-1).log_p.shape == ()
    single = link.pieces(eta.astype(np.float32))
    assert all(column.dtype == np.float64 for column in single)
    exact = link.pieces(eta.astype(np.float32).astype(float))
    np.testing.assert_array_equal(single.log_q, exact.log_q)


@every_link
def test_link_undoes_the_probability(link):
    for odds in (-20.0, -3.0, -0.2, 0.0, 1.5, 20.0):
        eta = link.link_of_log_odds(odds)
        pieces = link.pieces([eta])
        np.testing.assert_allclose(pieces.log_p - pieces.log_q, odds, rtol=1e-9, atol=1e-9)
    for p in (1e-9, 0.01, 0.5, 0.999):
        eta = link.link(p)
        assert isinstance(eta, float)
        np.testing.assert_allclose(np.exp(link.pieces([eta]).log_p), p, rtol=1e-9)


@known_link
def test_exact_and_searched_roots_agree(link):
    for odds in (-800.0, -600.0, -40.0, -36.1, -35.9, -1.0, 0.0, 3.0, 40.0):
        if link.name == "cauchit" and odds < -600:
            continue  # the linear predictor would be beyond the largest number
        exact = link.link_of_log_odds(odds)
        pieces = link.pieces([exact])
        np.testing.assert_allclose(pieces.log_p - pieces.log_q, odds, rtol=1e-12, atol=1e-12)
        if abs(exact) < 1e14:
            searched = Link.link_of_log_odds(link, odds)
            np.testing.assert_allclose(exact, searched, rtol=1e-10, atol=1e-10)


def test_known_values_of_the_link():
    for name, p, eta in (
        ("logit", 0.2, np.log(0.25)),
        ("probit", 0.5, 0.0),
        ("probit", 0.025, -1.9599639845400543),
        ("cloglog", 1 - np.exp(-1), 0.0),
        ("loglog", np.exp(-1), 0.0),
        ("cauchit", 0.75, 1.0),
    ):
        assert LINKS[name].link(p) == pytest.approx(eta, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, np.nan])
@pytest.mark.parametrize("link", [LINKS["probit"], ScaledLogit()], ids=repr)
def test_link_of_an_impossible_probability(link, p):
    with pytest.raises(ValueError, match=f"p is {p}; the {link.name} link is finite only"):
        link.link(p)


def test_a_link_that_stops_short_says_so():
    class Ceiling(ScaledLogit):
        name = "ceiling"

        def log_p(self, eta):
            return np.log(0.6) + super().log_p(eta)

        def log_q(self, eta):
            return np.log1p(-np.exp(self.log_p(eta)))

    with pytest.raises(ValueError, match=r"the ceiling link does not reach log-odds of 5\.0"):
        Ceiling().link_of_log_odds(5.0)


@every_link
def test_mirrored_swaps_the_classes(link):
    eta = np.linspace(-8, 4, 25)
    mirror = link.mirrored()
    here, there = link.pieces(-eta), mirror.pieces(eta)
    np.testing.assert_allclose(there.log_p, here.log_q, rtol=1e-12)
    np.testing.assert_allclose(there.log_q, here.log_p, rtol=1e-12)
    np.testing.assert_allclose(there.hp, here.hq, rtol=1e-12)
    np.testing.assert_allclose(there.hq, here.hp, rtol=1e-12)
    np.testing.assert_allclose(
        mirror.density_slope(eta), -link.density_slope(-eta), rtol=1e-12, atol=1e-8
    )
    assert mirror.link(0.01) == pytest.approx(-link.link(0.99), rel=1e-9)
    assert mirror.mirrored() == link or mirror.mirrored() == link.base.mirrored()


def test_which_links_are_their_own_mirror():
    assert {name for name, link in LINKS.items() if link.mirrored() == link} == {
        "logit",
        "probit",
        "cauchit",
    }
    assert LINKS["cloglog"].mirrored() == LINKS["loglog"]
    assert LINKS["loglog"].mirrored() == LINKS["cloglog"]
    own = ScaledLogit(2.0)
    assert own.mirrored() == Mirrored(own)
    assert own.mirrored().mirrored() is own
    assert own.mirrored().name == "mirrored scaled logit"
    assert StudentT().mirrored() == StudentT()


def test_default_density_slope_has_many_digits():
    eta = np.concatenate([np.linspace(-30, 30, 121), [-700.0, 6.4]])
    for link in LINKS.values():
        rough = Link.density_slope(link, eta)
        assert not np.any(np.isnan(rough))
        np.testing.assert_allclose(rough, link.density_slope(eta), rtol=1e-8, atol=1e-8)


def test_default_density_slope_where_the_density_is_zero():
    class Bounded(ScaledLogit):
        def hazard_p(self, eta):
            return np.where(np.abs(eta) < 5, super().hazard_p(eta), 0)

        def hazard_q(self, eta):
            return np.where(np.abs(eta) < 5, super().hazard_q(eta), 0)

    slope = Bounded().density_slope([-6.0, -4.0, 4.0, 6.0])
    np.testing.assert_allclose(slope, [0, np.tanh(2), -np.tanh(2), 0], rtol=1e-8)


@every_link
def test_links_compare_copy_and_pickle(link):
    for twin in (copy.deepcopy(link), pickle.loads(pickle.dumps(link))):
        assert twin == link
        assert hash(twin) == hash(link)
        assert repr(twin) == repr(link)
    assert link != link.name
    assert sum(other == link for other in ALL) == 1


def test_links_are_parameters_like_others():
    assert ScaledLogit(2.0) != ScaledLogit(3.0)
    assert repr(ScaledLogit(2.0)) == "ScaledLogit(scale=2.0, shift=0.0)"
    assert repr(list(LINKS.values())) == "[Logit(), Probit(), Cloglog(), Loglog(), Cauchit()]"
    holder = LogisticRegression(random_state=ScaledLogit(2.0))
    assert clone(holder).random_state == ScaledLogit(2.0)


def test_as_link():
    for name, link in LINKS.items():
        assert as_link(name) is link
    own = ScaledLogit()
    assert as_link(own) is own
    with pytest.raises(
        ValueError,
        match=r"link is 'Logit'; give one of 'logit', .*'cauchit', or a Link of your own",
    ):
        as_link("Logit")
    with pytest.raises(TypeError, match=r"the class ScaledLogit.*write ScaledLogit\(\)"):
        as_link(ScaledLogit)
    with pytest.raises(TypeError, match=r"link is of type float; give one of 'logit'"):
        as_link(1.5)
    with pytest.raises(TypeError, match=r"abstract.*hazard_p"):
        Link()


@pytest.mark.parametrize(
    "link", [*ALL, ScaledLogit(1e3), ScaledLogit(1e-3), StudentT(1), StudentT(0.5)], ids=repr
)
def test_good_links_pass_the_check(link):
    check_link(link)


def _spoiled(method, values):
    return type("Spoiled", (ScaledLogit,), {method: values})(0.5)


@pytest.mark.parametrize(
    ("method", "values", "message"),
    [
        ("log_p", lambda _, x: log_expit(x), "log_p and log_q do not fit: at eta = -30"),
        ("log_q", lambda _, x: -log_expit(x), "log_q gives .* at most 0"),
        ("log_q", lambda _, x: np.log(1 - expit(5 * x)), "log_p and log_q do not fit"),
        (
            "hazard_p",
            lambda _, x: -expit(-x / 2) / 2,
            "hazard_p gives -0.5 at eta = -30; it cannot be neg",
        ),
        ("hazard_p", lambda _, x: expit(-x / 2), "hazard_p gives 1 at eta = -30, but the slope"),
        ("hazard_p", lambda _, x: expit(x / 2) / 2, "hazard_p .* but the slope of log_p is 0.5"),
        ("hazard_q", lambda _, x: expit(-x / 2) / 2, "hazard_q .* but minus the slope of log_q"),
        ("hazard_q", lambda _, x: 0.51 * expit(x / 2), "hazard_q .* but minus the slope of log_q"),
        (
            "hazard_q",
            lambda _, x: np.exp(x) / (1 + np.exp(x)),
            "hazard_q gives NaN at eta = 754",
        ),
        ("hazard_q", lambda *_: 0.5, r"hazard_q returns an array of shape \(\)"),
        ("density_slope", lambda _, x: np.tanh(x / 4) / 2, "density_slope gives -0.5 at eta = -30"),
        ("density_slope", lambda _, x: -0.51 * np.tanh(x / 4), "density_slope gives 0.51"),
        ("link_of_log_odds", lambda _, t: -2 * t, "link_of_log_odds gives eta = 20 for log-odds"),
        ("link", lambda _, p: -2 * np.log(p / (1 - p)), "link gives eta = 20 for log-odds of -10"),
        (
            "pieces",
            lambda _, x: ScaledLogit(-0.5).pieces(x),
            "pieces gives another log_p than the method of that name at eta = -30",
        ),
    ],
)
def test_the_check_names_the_method_at_fault(method, values, message):
    check_link(_spoiled("unused", None))
    with pytest.raises(ValueError, match=rf"^Spoiled\.{message}"):
        check_link(_spoiled(method, values))


def test_the_check_of_whole_links():
    class Falling(ScaledLogit):
        def hazard_p(self, eta):
            return np.abs(super().hazard_p(eta))

        def hazard_q(self, eta):
            return np.abs(super().hazard_q(eta))

    with pytest.raises(ValueError, match=r"Falling.log_p goes the wrong way .*must increase"):
        check_link(Falling(-1.0))

    class Lost(ScaledLogit):
        def log_q(self, eta):
            return np.log(1 - np.exp(self.log_p(eta)))

    with pytest.raises(ValueError, match=r"Lost.log_q gives -inf at eta = 19, where.*log scale"):
        check_link(Lost(2.0))

    class Uneven(ScaledLogit):
        symmetric = True

    check_link(Uneven(2.0))
    with pytest.raises(ValueError, match=r"Uneven.symmetric is True, but P\(-eta\)"):
        check_link(Uneven(2.0, 1.0))

    class Nameless(ScaledLogit):
        name = ""

    with pytest.raises(ValueError, match=r"Nameless\.name is empty"):
        check_link(Nameless())
    with pytest.raises(TypeError, match="write Falling"):
        check_link(Falling)
