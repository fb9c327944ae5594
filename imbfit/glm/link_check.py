"""Whether a link of the user's own is what it says."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from imbfit.glm.built_in_links import as_link
from imbfit.glm.links import Link, Pieces

__all__ = ["check_link"]

Floats: TypeAlias = NDArray[np.float64]


def check_link(link: Link) -> None:
    """Check numerically that the methods of a link belong together.

    Probabilities must sum to one and increase from 0 to 1, hazards must be the slopes of the
    logarithms, and nothing may get lost in the tails, for eta up to 30 on either side of zero.

    Parameters
    ----------
    link : Link
        A link of your own.

    Raises
    ------
    ValueError
        If something does not hold; the message names the method at fault.

    Examples
    --------
    A logistic link for a predictor in units of a tenth, whose second hazard misses the factor.

    >>> import numpy as np
    >>> from scipy.special import expit, log_expit
    >>> from imbfit.glm.link_check import check_link
    >>> from imbfit.glm.links import Link
    >>> class Tenths(Link):
    ...     name = "tenths"
    ...
    ...     def log_p(self, eta):
    ...         return log_expit(eta / 10)
    ...
    ...     def log_q(self, eta):
    ...         return log_expit(-eta / 10)
    ...
    ...     def hazard_p(self, eta):
    ...         return expit(-eta / 10) / 10
    ...
    ...     def hazard_q(self, eta):
    ...         return expit(eta / 10)
    >>> check_link(Tenths())
    Traceback (most recent call last):
        ...
    ValueError: Tenths.hazard_q gives 0.0474 at eta = -30, but minus the slope of log_q is 0.00474
    """
    link = as_link(link)
    if not link.name:
        raise ValueError(f'{type(link).__name__}.name is empty; write name = "..." in the class')
    far = np.geomspace(1e-3, 30.0, 46)
    eta = np.concatenate([-far[::-1], [0.0], far])
    with np.errstate(all="ignore"):
        pieces = Pieces(*(_values(link, method, eta) for method in _METHODS))
        _check_probabilities(link, eta, pieces)
        _check_far(link)
        _check_hazard(link, eta, "p", pieces.log_p, pieces.hp)
        _check_hazard(link, eta, "q", pieces.log_q, pieces.hq)
        _check_overrides(link, eta, pieces)
        _check_roots(link)


_METHODS = ("log_p", "log_q", "hazard_p", "hazard_q")


def _blame(
    link: Link, method: str, eta: Floats, wrong: NDArray[np.bool_], text: str, *columns: Floats
) -> None:
    """Raise if a row is wrong; the text is filled with the first such row's values."""
    if np.any(wrong):
        row = int(np.argmax(wrong))
        values = [f"{column[row]:.3g}" for column in (eta, *columns)]
        raise ValueError(f"{type(link).__name__}.{method} {text.format(*values)}")


def _values(link: Link, method: str, eta: Floats) -> Floats:
    """Return one method's values without NaN, also where it would overflow carelessly."""
    wide = np.concatenate([eta, [-754.0, 754.0]])
    values = np.asarray(getattr(link, method)(wide), dtype=np.float64)
    if values.shape != wide.shape:
        raise ValueError(
            f"{type(link).__name__}.{method} returns an array of shape {values.shape} for eta of "
            f"shape {wide.shape}; give one value per row"
        )
    _blame(link, method, wide, np.isnan(values), "gives NaN at eta = {0}")
    if method.startswith("log"):
        text = "gives {1} at eta = {0}; the logarithm of a probability is at most 0"
        _blame(link, method, wide, values > 1e-12, text, values)
    else:
        text = "gives {1} at eta = {0}; it cannot be negative, as P(positive) must increase"
        _blame(link, method, wide, values < 0.0, text, values)
    return values[: len(eta)]


def _check_probabilities(link: Link, eta: Floats, pieces: Pieces) -> None:
    total = np.exp(pieces.log_p) + np.exp(pieces.log_q)
    text = "and log_q do not fit: at eta = {0} their probabilities sum to {1} instead of 1"
    _blame(link, "log_p", eta, np.abs(total - 1.0) > 1e-8, text, total)
    for method, rising in (("log_p", pieces.log_p), ("log_q", -pieces.log_q)):
        wrong = np.diff(rising) < -1e-12 * (1.0 + np.abs(rising[1:]))
        text = "goes the wrong way between eta = {0} and {1}: P(positive) must increase with eta"
        _blame(link, method, eta[:-1], wrong, text, eta[1:])


def _check_far(link: Link) -> None:
    """Both probabilities must not vanish far out, where predictions of odd rows may lie."""
    eta = np.array([-754.0, 754.0])
    larger = np.maximum(link.log_p(eta), link.log_q(eta))
    text = "and log_q are both lost at eta = {0}: the larger of them is {1}, and should be near 0"
    _blame(link, "log_p", eta, ~(larger > -1.0), text, larger)


def _check_hazard(link: Link, eta: Floats, label: str, log: Floats, hazard: Floats) -> None:
    """Compare a hazard with differences of its logarithm."""
    sign, slope_of = (1.0, "the slope") if label == "p" else (-1.0, "minus the slope")
    lost = np.isneginf(log) & np.isfinite(hazard)
    text = (
        f"gives -inf at eta = {{0}}, where hazard_{label} is {{1}}; stay on the log scale (log1p, "
        "scipy.special.log_expit, log_ndtr) so that the tail is not lost"
    )
    _blame(link, f"log_{label}", eta, lost, text, hazard)
    step = 1e-6 * np.maximum(1.0, np.abs(eta))
    values = getattr(link, f"log_{label}")
    slope = sign * (values(eta + step) - values(eta - step)) / (2.0 * step)
    noise = 1e-13 * (1.0 + np.abs(log)) / step
    wrong = np.abs(hazard - slope) > 1e-3 * np.abs(slope) + noise
    text = f"gives {{1}} at eta = {{0}}, but {slope_of} of log_{label} is {{2}}"
    _blame(link, f"hazard_{label}", eta, wrong, text, hazard, slope)


def _check_overrides(link: Link, eta: Floats, pieces: Pieces) -> None:
    """Compare what a link need not define with what follows from the four methods."""
    for method, value, expected in zip(_METHODS, link.pieces(eta), pieces, strict=True):
        wrong = ~np.isclose(value, expected, rtol=1e-6, atol=1e-300)
        text = (
            f"gives another {method} than the method of that name at eta = {{0}}: {{1}}, not {{2}}"
        )
        _blame(link, "pieces", eta, wrong, text, np.asarray(value), expected)
    slope, expected = link.density_slope(eta), Link.density_slope(link, eta)
    wrong = ~np.isclose(slope, expected, rtol=1e-3, atol=1e-4)
    text = "gives {1} at eta = {0}, but the slope of the log-density is {2}"
    _blame(link, "density_slope", eta, wrong, text, slope, expected)
    if link.symmetric:
        wrong = ~np.isclose(pieces.log_p, pieces.log_q[::-1], rtol=1e-6, atol=1e-12)
        text = "is True, but P(-eta) is not 1 - P(eta) at eta = {0}"
        _blame(link, "symmetric", eta, wrong, text)


def _check_roots(link: Link) -> None:
    asked = np.array([-10.0, -1.0, 0.0, 2.0, 10.0])
    for method, roots in (
        ("link_of_log_odds", [link.link_of_log_odds(odds) for odds in asked.tolist()]),
        ("link", [link.link(p) for p in expit(asked).tolist()]),
    ):
        eta = np.array(roots, dtype=np.float64)
        log_odds = link.log_p(eta) - link.log_q(eta)
        wrong = ~np.isclose(log_odds, asked, rtol=1e-6, atol=1e-6)
        text = "gives eta = {0} for log-odds of {1}, where they are {2}"
        _blame(link, method, eta, wrong, text, asked, log_odds)
