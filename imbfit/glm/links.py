"""Links between the linear predictor and the probability of a positive, stable in both tails."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, log_expit, ndtri_exp

__all__ = [
    "LINKS",
    "Cauchit",
    "Cloglog",
    "Link",
    "Logit",
    "Loglog",
    "Mirrored",
    "Pieces",
    "Probit",
    "as_link",
]

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


class Pieces(NamedTuple):
    """What likelihoods and their derivatives are made of, row by row.

    Parameters
    ----------
    log_p, log_q : ndarray of float
        Logarithms of the probabilities of a positive and of a negative.
    hp, hq : ndarray of float
        Hazards: slopes of log_p and of minus log_q in the linear predictor, never negative.
    """

    log_p: Floats
    log_q: Floats
    hp: Floats
    hq: Floats


class Link(abc.ABC):
    """A link between a linear predictor eta and the probability P(eta) of a positive.

    Subclass it for a link of your own: P increases from 0 to 1, and four methods give its
    logarithms and their slopes. Write them so that they stay accurate where P is close to 0 or
    to 1 (``log1p``, ``scipy.special.log_ndtr``), and try them with :func:`check_link`.

    Two links are equal if they are of the same class and their attributes are equal.

    Attributes
    ----------
    name : str
        How messages and summaries call the link.
    symmetric : bool, default=False
        Whether P(-eta) = 1 - P(eta), so that it does not matter which class is positive.

    Examples
    --------
    Student's t distribution has heavier tails than probit: no single row far on the wrong side
    decides about the coefficients.

    >>> import numpy as np
    >>> from scipy import stats
    >>> from imbfit.glm.link_check import check_link
    >>> from imbfit.glm.links import Link
    >>> class StudentT(Link):
    ...     name = "t"
    ...     symmetric = True
    ...
    ...     def __init__(self, df):
    ...         self.df = df
    ...
    ...     def log_p(self, eta):
    ...         return stats.t.logcdf(eta, self.df)
    ...
    ...     def log_q(self, eta):
    ...         return stats.t.logsf(eta, self.df)
    ...
    ...     def hazard_p(self, eta):
    ...         return np.exp(stats.t.logpdf(eta, self.df) - self.log_p(eta))
    ...
    ...     def hazard_q(self, eta):
    ...         return np.exp(stats.t.logpdf(eta, self.df) - self.log_q(eta))
    >>> link = StudentT(df=4)
    >>> check_link(link)
    >>> link
    StudentT(df=4)
    >>> round(link.link(0.001), 6)  # the linear predictor where one row in a thousand is positive
    -7.173182
    """

    name: str = ""
    symmetric: bool = False

    @abc.abstractmethod
    def log_p(self, eta: Floats) -> Floats:
        """Return the logarithm of the probability of a positive.

        Parameters
        ----------
        eta : ndarray of float, shape (n_rows,)
            The linear predictor.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            The values of log P(eta).
        """

    @abc.abstractmethod
    def log_q(self, eta: Floats) -> Floats:
        """Return the logarithm of the probability of a negative.

        Parameters
        ----------
        eta : ndarray of float, shape (n_rows,)
            The linear predictor.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            The values of log(1 - P(eta)).
        """

    @abc.abstractmethod
    def hazard_p(self, eta: Floats) -> Floats:
        """Return the slope of `log_p`, density over probability of a positive.

        Parameters
        ----------
        eta : ndarray of float, shape (n_rows,)
            The linear predictor.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            The values of P'(eta) / P(eta), never negative.
        """

    @abc.abstractmethod
    def hazard_q(self, eta: Floats) -> Floats:
        """Return minus the slope of `log_q`, density over probability of a negative.

        Parameters
        ----------
        eta : ndarray of float, shape (n_rows,)
            The linear predictor.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            The values of P'(eta) / (1 - P(eta)), never negative.
        """

    def pieces(self, eta: ArrayLike) -> Pieces:
        """Return both logarithms and both hazards.

        Override it if they share work: a fit calls nothing else in each of its iterations.

        Parameters
        ----------
        eta : array-like of float, shape (n_rows,)
            The linear predictor.

        Returns
        -------
        Pieces
            Values of `log_p`, `log_q`, `hazard_p` and `hazard_q`.
        """
        x = np.asarray(eta, dtype=np.float64)
        return Pieces(self.log_p(x), self.log_q(x), self.hazard_p(x), self.hazard_q(x))

    def density_slope(self, eta: ArrayLike) -> Floats:
        """Return the slope of the logarithm of the density P'.

        By default the hazards are differenced, which leaves about eight digits.

        Parameters
        ----------
        eta : array-like of float, shape (n_rows,)
            The linear predictor.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            The values of P''(eta) / P'(eta), zero where the hazard is zero.
        """
        x = np.asarray(eta, dtype=np.float64)
        step = 6e-6 * np.maximum(1.0, np.abs(x))
        # The rarer class has the hazard that does not underflow in its tail.
        rare = self.log_p(x) <= self.log_q(x)

        def hazard(at: Floats) -> Floats:
            return np.where(rare, self.hazard_p(at), self.hazard_q(at))

        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (np.log(hazard(x + step)) - np.log(hazard(x - step))) / (2.0 * step)
        here = hazard(x)
        return np.where(here > 0.0, slope + np.where(rare, here, -here), 0.0)

    def link(self, p: float) -> float:
        """Return the linear predictor at which the probability of a positive is p.

        Parameters
        ----------
        p : float
            A probability strictly between 0 and 1.

        Returns
        -------
        float
            The eta with P(eta) = p.

        Raises
        ------
        ValueError
            If p is not strictly between 0 and 1.

        Examples
        --------
        >>> from imbfit.glm.links import LINKS
        >>> round(LINKS["probit"].link(0.001), 6)
        -3.090232
        """
        if not 0.0 < p < 1.0:
            raise ValueError(
                f"p is {p}; the {self.name} link is finite only for a probability strictly between "
                "0 and 1"
            )
        return self.link_of_log_odds(float(np.log(p) - np.log1p(-p)))

    def link_of_log_odds(self, log_odds: float) -> float:
        """Return the linear predictor at which a positive has the given log-odds.

        Other than `link` it tells probabilities close to 1 apart. By default the root is searched.

        Parameters
        ----------
        log_odds : float
            The value of log(p / (1 - p)).

        Returns
        -------
        float
            The eta with log P(eta) - log(1 - P(eta)) = log_odds.

        Raises
        ------
        ValueError
            If the link does not reach these log-odds.
        """

        def excess(eta: float) -> float:
            x = np.array([eta])
            # The search wants finite values, and only their sign matters that far out.
            return float(np.clip(self.log_p(x) - self.log_q(x) - log_odds, -1e300, 1e300)[0])

        low, high = -1.0, 1.0
        while not (excess(low) <= 0.0 <= excess(high)):
            low, high = 2.0 * low, 2.0 * high
            if high > 1e15:
                raise ValueError(
                    f"the {self.name} link does not reach log-odds of {log_odds} for any eta "
                    "between -1e15 and 1e15; check_link(link) finds what is wrong with it"
                )
        return float(brentq(excess, low, high, xtol=1e-15, rtol=1e-14, maxiter=1000))

    def mirrored(self) -> Link:
        """Return the link of the other class, 1 - P(-eta).

        Returns
        -------
        Link
            The link itself if it is symmetric.

        Examples
        --------
        >>> from imbfit.glm.links import LINKS
        >>> LINKS["cloglog"].mirrored(), LINKS["probit"].mirrored()
        (Loglog(), Probit())
        """
        return self if self.symmetric else Mirrored(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        parameters = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({parameters})"


class _FromPieces(Link):
    """A link whose four values come together."""

    def log_p(self, eta: ArrayLike) -> Floats:
        return self.pieces(eta).log_p

    def log_q(self, eta: ArrayLike) -> Floats:
        return self.pieces(eta).log_q

    def hazard_p(self, eta: ArrayLike) -> Floats:
        return self.pieces(eta).hp

    def hazard_q(self, eta: ArrayLike) -> Floats:
        return self.pieces(eta).hq


class Mirrored(_FromPieces):
    """The link of the other class: the probability of a positive is 1 - P(-eta).

    Parameters
    ----------
    base : Link
        The link that has the probability P.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.links import LINKS, Mirrored
    >>> eta = np.array([-2.0, 0.5])
    >>> mirrored = Mirrored(LINKS["cloglog"])
    >>> bool(np.all(mirrored.log_p(eta) == LINKS["cloglog"].log_q(-eta)))
    True
    """

    def __init__(self, base: Link) -> None:
        self.base = base
        self.name = f"mirrored {base.name}"
        self.symmetric = base.symmetric

    def pieces(self, eta: ArrayLike) -> Pieces:
        """Return both logarithms and both hazards."""
        log_q, log_p, hq, hp = self.base.pieces(-np.asarray(eta, dtype=np.float64))
        return Pieces(log_p, log_q, hp, hq)

    def density_slope(self, eta: ArrayLike) -> Floats:
        """Return the slope of the logarithm of the density."""
        return -self.base.density_slope(-np.asarray(eta, dtype=np.float64))

    def link_of_log_odds(self, log_odds: float) -> float:
        """Return the linear predictor at which a positive has the given log-odds."""
        return -self.base.link_of_log_odds(-log_odds)

    def mirrored(self) -> Link:
        """Return the link that was mirrored."""
        return self.base

    def __repr__(self) -> str:
        return f"Mirrored({self.base!r})"


class _Known(_FromPieces):
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
    >>> from imbfit.glm.links import Logit
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
    >>> from imbfit.glm.links import Probit
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
    >>> from imbfit.glm.links import Cloglog
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
    >>> from imbfit.glm.links import Loglog
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
    >>> from imbfit.glm.links import Cauchit
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
    >>> from imbfit.glm.links import as_link
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
