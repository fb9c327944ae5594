"""The built-in links, stable in both tails."""

from __future__ import annotations

import abc
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_expit, ndtri_exp

from imbfit.glm.links import FromPieces, Link, Mirrored, Pieces

__all__ = ["LINKS", "Cauchit", "Cloglog", "Logit", "Loglog", "Probit", "as_link"]

Floats: TypeAlias = NDArray[np.float64]

# Rows worked on at once, so that the intermediate arrays stay in the processor's cache.
_BLOCK = 8192

# Beyond it exp(eta) is kept at exp(700) = 1e304: an infinite hazard times a zero would be NaN.
_LARGEST_EXPONENT = 700.0

# Below it log(1 - exp(-exp(eta))) is eta to all digits, and exp(eta) may underflow.
_RARE = -36.0

_TINY = float(np.finfo(np.float64).tiny)

_LOG_2 = float(np.log(2.0))

_SQRT_HALF = float(np.sqrt(0.5))

_SQRT_2_OVER_PI = float(np.sqrt(2.0 / np.pi))


class _Known(FromPieces):
    """A link with formulas of its own for everything."""

    def pieces(self, eta: ArrayLike) -> Pieces:
        x = np.asarray(eta, dtype=np.float64)
        flat = x.reshape(-1)
        whole = Pieces(*(np.empty(flat.size) for _ in range(4)))
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            for start in range(0, flat.size, _BLOCK):
                rows = slice(start, start + _BLOCK)
                self._fill(flat[rows], Pieces(*(column[rows] for column in whole)))
        return Pieces(*(column.reshape(x.shape) for column in whole))

    def density_slope(self, eta: ArrayLike) -> Floats:
        return self._slope(np.asarray(eta, dtype=np.float64))

    def link_of_log_odds(self, log_odds: float) -> float:
        # A symmetric link has more digits of the rarer class.
        if self.symmetric and log_odds > 0.0:
            return -self._root(-log_odds)
        return self._root(log_odds)

    @staticmethod
    @abc.abstractmethod
    def _fill(eta: Floats, out: Pieces) -> None:
        """Write the pieces of a block of rows."""

    @staticmethod
    @abc.abstractmethod
    def _slope(eta: Floats) -> Floats:
        """Return the slope of the log-density."""

    @staticmethod
    @abc.abstractmethod
    def _root(log_odds: float) -> float:
        """Return the eta of log-odds, which are at most zero if the link is symmetric."""


def _fill_by_sign(
    eta: Floats, out: Pieces, *, log: tuple[Floats, Floats], hazard: tuple[Floats, Floats]
) -> None:
    """Write the pieces of a symmetric link from values of the (rarer, commoner) class."""
    positive = eta > 0.0
    for (rare, common), for_p, for_q in ((log, out.log_p, out.log_q), (hazard, out.hp, out.hq)):
        for_p[...] = np.where(positive, common, rare)
        for_q[...] = np.where(positive, rare, common)


class Logit(_Known):
    """The logistic link, P(eta) = 1 / (1 + exp(-eta)).

    Examples
    --------
    >>> from imbfit.glm.built_in_links import Logit
    >>> Logit().log_p([-754.0, 0.0]).round(6).tolist()
    [-754.0, -0.693147]
    """

    name = "logit"
    symmetric = True

    @staticmethod
    def _fill(eta: Floats, out: Pieces) -> None:
        small = np.exp(-np.abs(eta))
        log_sum = np.log1p(small)
        np.subtract(np.minimum(eta, 0.0), log_sum, out=out.log_p)
        np.negative(log_sum + np.maximum(eta, 0.0), out=out.log_q)
        common = 1.0 / (1.0 + small)
        small *= common
        positive = eta > 0.0
        out.hp[...] = np.where(positive, small, common)
        out.hq[...] = np.where(positive, common, small)

    @staticmethod
    def _slope(eta: Floats) -> Floats:
        return -np.tanh(0.5 * eta)

    @staticmethod
    def _root(log_odds: float) -> float:
        return float(log_odds)


class Probit(_Known):
    """The normal link: P is the standard normal distribution function.

    Examples
    --------
    >>> from imbfit.glm.built_in_links import Probit
    >>> Probit().log_p([-40.0, 0.0]).round(6).tolist()
    [-804.608442, -0.693147]
    """

    name = "probit"
    symmetric = True

    @staticmethod
    def _fill(eta: Floats, out: Pieces) -> None:
        far = np.abs(eta)
        scaled = erfcx(_SQRT_HALF * far)
        far *= far
        far *= -0.5
        bell = np.exp(far)
        rarer = 0.5 * scaled * bell
        _fill_by_sign(
            eta,
            out,
            log=(np.log(0.5 * scaled) + far, np.log1p(-rarer)),
            hazard=(_SQRT_2_OVER_PI / scaled, 0.5 * _SQRT_2_OVER_PI * bell / (1.0 - rarer)),
        )

    @staticmethod
    def _slope(eta: Floats) -> Floats:
        return -eta

    @staticmethod
    def _root(log_odds: float) -> float:
        return float(ndtri_exp(log_expit(log_odds)))


class Cloglog(_Known):
    """The complementary log-log link, P(eta) = 1 - exp(-exp(eta)).

    The rarer positives are, the closer it is to the logistic link. Above eta = 700 log Q and the
    hazard of negatives stay at their values of 700, about 1e304.

    Examples
    --------
    >>> from imbfit.glm.built_in_links import Cloglog
    >>> Cloglog().log_p([-800.0, 0.0]).round(6).tolist()
    [-800.0, -0.458675]
    """

    name = "cloglog"

    @staticmethod
    def _fill(eta: Floats, out: Pieces) -> None:
        t = np.exp(np.minimum(eta, _LARGEST_EXPONENT))
        np.negative(t, out=out.log_q)
        out.hq[...] = t
        p = -np.expm1(-t)
        q = 1.0 - p
        log_p = np.log(p)
        # Where positives are common, 1 - p has few digits left, and so has log p.
        common = np.flatnonzero(t > _LOG_2)
        q[common] = np.exp(-t[common])
        log_p[common] = np.log1p(-q[common])
        rare = np.flatnonzero(eta < _RARE)
        log_p[rare] = eta[rare]
        out.log_p[...] = log_p
        out.hp[...] = np.maximum(t, _TINY) * q / np.maximum(p, _TINY)

    @staticmethod
    def _slope(eta: Floats) -> Floats:
        return -np.expm1(np.minimum(eta, _LARGEST_EXPONENT))

    @staticmethod
    def _root(log_odds: float) -> float:
        if log_odds < _RARE:
            return float(log_odds)
        return float(np.log(-log_expit(-log_odds)))

    def mirrored(self) -> Link:
        """Return the log-log link."""
        return Loglog()


class Loglog(Mirrored):
    """The log-log link, P(eta) = exp(-exp(-eta)), the mirror image of cloglog.

    Examples
    --------
    >>> from imbfit.glm.built_in_links import Loglog
    >>> Loglog().log_q([0.0, 800.0]).round(6).tolist()
    [-0.458675, -800.0]
    """

    def __init__(self) -> None:
        super().__init__(Cloglog())
        self.name = "loglog"

    def __repr__(self) -> str:
        return "Loglog()"


class Cauchit(_Known):
    """The Cauchy link, P(eta) = 1/2 + arctan(eta) / pi, with very heavy tails.

    Examples
    --------
    >>> from imbfit.glm.built_in_links import Cauchit
    >>> round(Cauchit().link(0.001), 3)
    -318.309
    """

    name = "cauchit"
    symmetric = True

    @staticmethod
    def _fill(eta: Floats, out: Pieces) -> None:
        far = np.abs(eta)
        rarer = np.arctan2(1.0, far) / np.pi
        density = 1.0 / (np.pi * (1.0 + far * far))
        _fill_by_sign(
            eta,
            out,
            log=(np.log(rarer), np.log1p(-rarer)),
            hazard=(density / rarer, density / (1.0 - rarer)),
        )

    @staticmethod
    def _slope(eta: Floats) -> Floats:
        radius = np.hypot(1.0, eta)
        return -2.0 * (eta / radius) / radius

    @staticmethod
    def _root(log_odds: float) -> float:
        return float(-1.0 / np.tan(np.pi * np.exp(log_expit(log_odds))))


LINKS: dict[str, Link] = {
    link.name: link for link in (Logit(), Probit(), Cloglog(), Loglog(), Cauchit())
}


def as_link(link: Any) -> Link:
    """Return the link that was named or given.

    Parameters
    ----------
    link : str or Link
        One of "logit", "probit", "cloglog", "loglog", "cauchit", or a link of your own.

    Returns
    -------
    Link
        The link.

    Raises
    ------
    ValueError
        If no link has the name.
    TypeError
        If it is neither a name nor a link.

    Examples
    --------
    >>> from imbfit.glm.built_in_links import as_link
    >>> as_link("cloglog")
    Cloglog()
    """
    if isinstance(link, Link):
        return link
    allowed = ", ".join(map(repr, LINKS))
    if isinstance(link, str):
        if link in LINKS:
            return LINKS[link]
        raise ValueError(f"link is {link!r}; give one of {allowed}, or a Link of your own")
    if isinstance(link, type) and issubclass(link, Link):
        raise TypeError(
            f"link is the class {link.__name__}; give an object of it: write {link.__name__}()"
        )
    raise TypeError(
        f"link is of type {type(link).__name__}; give one of {allowed}, or an object of a class "
        "derived from imbfit.glm.links.Link"
    )
