"""Where the sampling rate comes from: the constructor's parameters, read into one thing."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from imbfit.glm.undersamplers import check_under_sampler

Kind = Literal["number", "balanced", "auto", "sampler", "presampled"]

_INSTEAD = (
    "To draw from all rows in fit instead, pass presampled=False with a number, 'balanced', or "
    "sampling_rate=RandomUnderSampler(...), whose realised rate is counted"
)


@dataclass(frozen=True)
class RateChoice:
    """How the rows of the fit come to be a sample, and at which rate.

    Attributes
    ----------
    kind : {"number", "balanced", "auto", "sampler", "presampled"}
        "number", "balanced" and "auto" draw negatives, "sampler" asks an under-sampler, and
        "presampled" takes the rows as they are.
    rate : float or None
        The number, where one was given: kept negatives / all negatives.
    prevalence : float or None
        The population's share of positives, where it is what tells the rate of presampled rows.
    sampler : object or None
        The under-sampler.
    """

    kind: Kind
    rate: float | None = None
    prevalence: float | None = None
    sampler: Any = None

    @property
    def presampled(self) -> bool:
        """Whether the rows given to `fit` are the sample."""
        return self.kind == "presampled"

    @property
    def balanced(self) -> bool:
        """Whether as many negatives as positives are kept."""
        return self.kind == "balanced"

    def named(self) -> str:
        """Return how the choice was written, for messages.

        Returns
        -------
        str
        """
        if self.sampler is not None:
            return f"{type(self.sampler).__name__}(...)"
        return repr(self.kind) if self.rate is None else f"{self.rate:g}"

    def nominal_rate(self, positives: float, negatives: float) -> float:
        """Return the rate to draw at where it is a number or "balanced".

        Parameters
        ----------
        positives, negatives : float
            Rows of each class, or the sums of their weights.

        Returns
        -------
        float
            In (0, 1].

        Examples
        --------
        >>> from imbfit.glm.rate_choice import RateChoice
        >>> RateChoice("balanced").nominal_rate(25, 1000)
        0.025
        """
        if self.balanced:
            return min(1.0, positives / negatives)
        if self.rate is None:
            raise ValueError(f"a rate of kind {self.kind!r} is not known before the draw")
        return self.rate

    def presampled_rate(self, positives: float, negatives: float) -> float:
        """Return the rate that presampled rows were drawn at.

        Parameters
        ----------
        positives, negatives : float
            Rows of each class in the sample, or the sums of their weights.

        Returns
        -------
        float
            In (0, 1].

        Raises
        ------
        ValueError
            If the prevalence is above the positives' share in the sample.

        Examples
        --------
        >>> from imbfit.glm.rate_choice import RateChoice
        >>> RateChoice("presampled", prevalence=0.01).presampled_rate(100, 990)
        0.1
        """
        if self.prevalence is None:
            return self.nominal_rate(positives, negatives)
        rate = negatives / positives * (self.prevalence / (1 - self.prevalence))
        # a prevalence that is the sample's own may come out a bit above 1
        if rate > 1 + 1e-12:
            raise ValueError(
                f"prevalence={self.prevalence:g} is above the share of positives in the rows given "
                f"to fit, {positives / (negatives + positives):g}: leaving out negatives only "
                "raises that share. Give the share of positives before the sampling, and see that "
                "pos_label is the rare class"
            )
        return min(1.0, rate)


def read_rate_choice(
    sampling_rate: Any,
    *,
    presampled: Any = False,
    prevalence: Any = None,
    allow_auto: bool = False,
) -> RateChoice:
    """Read the parameters that tell the sampling rate.

    Parameters
    ----------
    sampling_rate : float, str, under-sampler or None
        As the estimator got it; None is "not given".
    presampled : bool, default=False
        Whether the rows given to `fit` are a sample already.
    prevalence : float, default=None
        The population's share of positives, for presampled rows.
    allow_auto : bool, default=False
        Whether "auto" is a choice, and then the estimator's default; else "balanced" is. For
        presampled rows the default counts as not given.

    Returns
    -------
    RateChoice

    Raises
    ------
    TypeError, ValueError
        If a value is of the wrong kind or out of range, or if the parameters contradict each other,
        or one of them would do nothing.

    Examples
    --------
    >>> from imbfit.glm.rate_choice import read_rate_choice
    >>> read_rate_choice(0.05).kind
    'number'
    >>> read_rate_choice("balanced", presampled=True, prevalence=0.01).prevalence
    0.01
    """
    if not isinstance(presampled, (bool, np.bool_)):
        raise TypeError(f"presampled={presampled!r}: give True or False")
    words = ("auto", "balanced") if allow_auto else ("balanced",)
    share = None if prevalence is None else _share(prevalence)
    if presampled:
        return _read_presampled(sampling_rate, share, words)
    if share is not None:
        raise ValueError(
            f"prevalence={share:g} says nothing where the rows given to fit are the population: it "
            "is counted there. Leave it out, or pass presampled=True if the negatives were thinned "
            "before"
        )
    if sampling_rate is None:
        raise ValueError(f"sampling_rate=None: allowed are {_allowed(words)}")
    return _read_drawn(sampling_rate, words)


def _read_drawn(sampling_rate: Any, words: tuple[str, ...]) -> RateChoice:
    if isinstance(sampling_rate, str):
        if sampling_rate not in words:
            raise ValueError(f"sampling_rate={sampling_rate!r}: allowed are {_allowed(words)}")
        return RateChoice("auto" if sampling_rate == "auto" else "balanced")
    if hasattr(sampling_rate, "fit_resample"):
        check_under_sampler(sampling_rate)
        return RateChoice("sampler", sampler=sampling_rate)
    return RateChoice("number", rate=_rate(sampling_rate, words))


def _read_presampled(sampling_rate: Any, share: float | None, words: tuple[str, ...]) -> RateChoice:
    # the first word is the default
    unset = isinstance(sampling_rate, str) and sampling_rate == words[0]
    given = None if unset else sampling_rate
    if hasattr(given, "fit_resample"):
        name = given.__name__ if isinstance(given, type) else type(given).__name__
        raise ValueError(
            f"sampling_rate={name}() with presampled=True: the sampler would thin rows that are a "
            "sample already. Give all rows and leave out presampled=True, which counts the "
            "sampler's rate; or leave out the sampler, and pass sampling_rate= the number that the "
            "rows were drawn at, or prevalence="
        )
    if isinstance(given, str):
        raise ValueError(  # noqa: TRY004  a word is allowed, but not here
            f"sampling_rate={given!r} with presampled=True: nothing is drawn from rows that are a "
            "sample already. Pass sampling_rate= the number that they were drawn at (kept "
            "negatives / all negatives), or prevalence= the population's share of positives. "
            f"{_INSTEAD}"
        )
    if given is None and share is None:
        raise ValueError(
            "presampled=True: the rows alone don't tell what was left out. Pass sampling_rate= the "
            "number that the negatives were drawn at (kept negatives / all negatives), or "
            f"prevalence= the population's share of positives. {_INSTEAD}"
        )
    if given is None:
        return RateChoice("presampled", prevalence=share)
    rate = _rate(given, words)
    if share is not None:
        raise ValueError(
            f"sampling_rate={rate:g} and prevalence={share:g} both tell the rate of presampled "
            "rows; leave out one of them"
        )
    return RateChoice("presampled", rate=rate)


def _rate(given: Any, words: tuple[str, ...]) -> float:
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, numbers.Real):
        raise TypeError(
            f"sampling_rate={given!r} is of type {type(given).__name__}; allowed are "
            f"{_allowed(words)}"
        )
    rate = float(given)
    if math.isnan(rate) or not 0 < rate <= 1:
        hint = ""
        if 1 < rate <= 100:
            hint = (
                f". For {rate:g} per cent write {rate / 100:g}; for {rate:g} negatives to a "
                f"positive write RandomUnderSampler(sampling_strategy={1 / rate:.4g})"
            )
        raise ValueError(
            f"sampling_rate={given!r}: a rate is kept negatives / all negatives, above 0 and at "
            f"most 1{hint}"
        )
    return rate


def _share(given: Any) -> float:
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, numbers.Real):
        raise TypeError(
            f"prevalence={given!r} is of type {type(given).__name__}; give the population's share "
            "of positives, a number between 0 and 1"
        )
    share = float(given)
    if not 0 < share < 1:
        hint = f"; for {share:g} per cent write {share / 100:g}" if 1 <= share < 100 else ""
        raise ValueError(
            f"prevalence={given!r}: the population's share of positives is above 0 and below "
            f"1{hint}"
        )
    return share


def _allowed(words: tuple[str, ...]) -> str:
    listed = " or ".join(map(repr, words))
    return f"a number above 0 and at most 1, {listed}, and a RandomUnderSampler"
