"""Links between the linear predictor and the probability of a positive."""

from __future__ import annotations

import abc
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

__all__ = ["FromPieces", "Link", "Mirrored", "Pieces"]

Floats: TypeAlias = NDArray[np.float64]


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
        >>> from imbfit.glm.built_in_links import LINKS
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
        >>> from imbfit.glm.built_in_links import LINKS
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


class FromPieces(Link):
    """A link whose four values come together."""

    def log_p(self, eta: ArrayLike) -> Floats:
        """Return the logarithm of the probability of a positive."""
        return self.pieces(eta).log_p

    def log_q(self, eta: ArrayLike) -> Floats:
        """Return the logarithm of the probability of a negative."""
        return self.pieces(eta).log_q

    def hazard_p(self, eta: ArrayLike) -> Floats:
        """Return the slope of `log_p`."""
        return self.pieces(eta).hp

    def hazard_q(self, eta: ArrayLike) -> Floats:
        """Return minus the slope of `log_q`."""
        return self.pieces(eta).hq


class Mirrored(FromPieces):
    """The link of the other class: the probability of a positive is 1 - P(-eta).

    Parameters
    ----------
    base : Link
        The link that has the probability P.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit.glm.built_in_links import LINKS
    >>> from imbfit.glm.links import Mirrored
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
