"""What each sampling rate would cost, from a pilot, before anything is fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.findings import worded
from imbfit.glm.fitting import contrast_rows, identified_part
from imbfit.glm.rates import cost_rate, curve, efficient_rate
from imbfit.glm.routes import take_pilot
from imbfit.glm.sample_likelihood import MAX_COLUMNS

__all__ = ["SamplingRateCurve", "sampling_rate_curve"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SamplingRateCurve:
    """Efficiency and cost over the sampling rate; made by :func:`sampling_rate_curve`.

    Parameters
    ----------
    rates : ndarray of shape (n_rates,)
        Rates, ascending.
    names : list of str
        Names of the slopes or contrasts.
    efficiency : ndarray of shape (n_rates, n_contrasts)
        Variance in the full fit over that at the rate; NaN where a contrast is not identified.
    se_inflation : ndarray of shape (n_rates, n_contrasts)
        Standard error at the rate over that in the full fit.
    worst : ndarray of shape (n_rates,)
        The least efficiency at each rate.
    cost : ndarray of shape (n_rates,)
        Cost of reading all rows and fitting the kept ones, relative to rate 1.
    work : ndarray of shape (n_rates,)
        Cost times the variance of the worst contrast, relative to rate 1: what a given precision
        costs if one may read as many rows as one likes.
    rate : float
        The smallest rate at which every contrast keeps the efficiency asked for.
    asked : float
        That efficiency.
    reached : float
        The least efficiency at `rate`.
    cost_rate : float
        The rate at which `work` is least.
    least_work : float
        What it is there.
    read_cost, fit_cost : float
        Costs of reading a row and of fitting one.
    method : str
        The estimator.
    prevalence : float
        Share of positives.
    """

    rates: Floats
    names: list[str]
    efficiency: Floats
    se_inflation: Floats
    worst: Floats
    cost: Floats
    work: Floats
    rate: float
    asked: float
    reached: float
    cost_rate: float
    least_work: float
    read_cost: float
    fit_cost: float
    method: str
    prevalence: float

    def worst_at(self, rate: float) -> float:
        """Return the least efficiency at any rate within the curve.

        Parameters
        ----------
        rate : float
            A rate between the least and the largest of `rates`.

        Returns
        -------
        float
            Read off a line between its neighbours, over the logarithm of the rate.

        Raises
        ------
        ValueError
            If the rate is not within the curve.
        """
        if not self.rates[0] <= rate <= self.rates[-1]:
            raise ValueError(
                f"rate={rate:g} is not within the curve, from {self.rates[0]:g} to "
                f"{self.rates[-1]:g}; pass rates= that reach further to sampling_rate_curve"
            )
        return float(np.interp(np.log(rate), np.log(self.rates), self.worst))

    def cost_at(self, rate: float) -> float:
        """Return the cost of reading all rows and fitting those kept at a rate.

        Parameters
        ----------
        rate : float
            A rate.

        Returns
        -------
        float
            Relative to rate 1.
        """
        kept = self.prevalence + (1 - self.prevalence) * rate
        return (self.read_cost + self.fit_cost * kept) / (self.read_cost + self.fit_cost)

    def to_frame(self) -> Any:
        """Return the curve as a pandas DataFrame.

        Returns
        -------
        DataFrame
            A row for each rate: rate, the efficiency of each contrast, worst, cost, work.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas, which is not installed") from error
        table = {"rate": self.rates}
        for name, column in zip(self.names, self.efficiency.T, strict=True):
            table[f"efficiency of {name}"] = column
        return pd.DataFrame(table | {"worst": self.worst, "cost": self.cost, "work": self.work})


def sampling_rate_curve(
    X: Any,
    y: Any,
    *,
    estimator: DownsampledGLMClassifier | None = None,
    rates: Any = None,
    contrasts: Any = None,
    sample_weight: Any = None,
    read_cost: float = 0.1,
    fit_cost: float = 1.0,
    **parameters: Any,
) -> SamplingRateCurve:
    """Estimate what each sampling rate would cost in precision, from a pilot.

    A kept row has the share :math:`a/(a + (1 - a) p(x))` of its information left. A pilot of a few
    thousand rows estimates the means over the population that the variances are made of.

    Parameters
    ----------
    X : array, sparse matrix or frame of shape (n_rows, n_columns)
        All rows: features as numbers, none missing.
    y : array-like of shape (n_rows,)
        Labels of two kinds.
    estimator : DownsampledGLMClassifier, default=None
        What is to be fitted, fitted or not; by default one with `parameters`.
    rates : array-like of float, default=None
        Rates in (0, 1]; by default 60 from a tenth of the prevalence to 1, equally far apart on a
        logarithmic scale.
    contrasts : array-like of shape (n_contrasts, n_slopes), default=None
        Combinations of slopes; by default each slope.
    sample_weight : array-like of shape (n_rows,), default=None
        How much each row counts.
    read_cost, fit_cost : float, default=0.1, 1.0
        Cost of reading a row, kept or not, and of fitting a kept one, in any one unit.
    **parameters : dict
        Parameters of :class:`DownsampledGLMClassifier`, such as `link`, `method`, `efficiency`, `C`
        and `random_state`.

    Returns
    -------
    SamplingRateCurve
        Efficiencies, costs, and the two rates that they single out.

    Raises
    ------
    ValueError
        For bad input, and where the pilot's classes are separated.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit import sampling_rate_curve
    >>> from imbfit.datasets import make_rare_events
    >>> cards = make_rare_events(50_000, prevalence=0.01, n_features=3, random_state=0)
    >>> curve = sampling_rate_curve(
    ...     cards.X, cards.y, rates=[0.01, 0.1, 1.0], efficiency=0.9, random_state=0
    ... )
    >>> np.round(curve.efficiency, 2)
    array([[0.2 , 0.2 , 0.2 ],
           [0.55, 0.54, 0.56],
           [1.  , 1.  , 1.  ]])
    """
    if estimator is None:
        estimator = DownsampledGLMClassifier(**parameters)
    elif parameters and isinstance(estimator, DownsampledGLMClassifier):
        raise TypeError(
            f"give either estimator= or parameters ({', '.join(sorted(parameters))}), not both"
        )
    if not isinstance(estimator, DownsampledGLMClassifier):
        raise TypeError(
            f"estimator is of type {type(estimator).__name__}: the curve is that of a "
            "DownsampledGLMClassifier"
        )
    estimator = clone(estimator)
    if estimator.presampled:
        raise ValueError("a curve over the rate needs all rows; presampled=True has lost some")
    if estimator.sampling != "uniform":
        raise ValueError(
            f"the curve is that of a uniform sample, not of sampling={estimator.sampling!r}; write "
            "sampling='uniform', or fit and read relative_efficiency_"
        )
    if estimator.method == "naive":
        raise ValueError(
            "method='naive' estimates other coefficients at each rate, so there is no precision to "
            "compare; write method='cmle'"
        )
    settings, source, names, seed, rows = estimator._prepared(  # noqa: SLF001  made for this
        X, y, sample_weight, contrasts
    )
    taken, counts, findings = take_pilot(source, settings, seed=seed, always=True)
    if taken is None:
        text = worded(replace(findings[0], kind="separation"), names)[1]
        raise ValueError(f"no curve: {text}")
    pilot = taken.pilot
    if pilot.design.n_coef > MAX_COLUMNS:
        raise ValueError(
            f"{pilot.design.n_slopes} slopes need a matrix with a side above {MAX_COLUMNS}; leave "
            "out columns"
        )
    chosen = contrast_rows(pilot.design, settings, rows)
    width = len(chosen)
    pilot, chosen, known = identified_part(pilot, chosen, taken.aliased)
    if not known.any():
        raise ValueError("the pilot identifies no slope: all columns are constant or collinear")
    if rates is None:
        rates = np.geomspace(max(counts.prevalence / 10, pilot.least_rate), 1.0, 60)
    rates = np.sort(np.asarray(rates, float).ravel())
    if not len(rates):
        raise ValueError("rates=[] is empty: give at least one rate above 0 and at most 1")
    method = settings.method
    asked: dict[str, Any] = {
        "method": method,
        "contrasts": chosen,
        "read_cost": read_cost,
        "fit_cost": fit_cost,
    }
    found = curve(pilot, rates, **asked)
    rate = efficient_rate(pilot, estimator.efficiency, method=method, contrasts=chosen)
    cheapest = cost_rate(pilot, **asked)
    marked = curve(pilot, np.array([rate, cheapest]), **asked)
    kept = counts.prevalence + (1 - counts.prevalence) * rates
    return SamplingRateCurve(
        rates=rates,
        names=names if contrasts is None else [f"contrast {i}" for i in range(width)],
        efficiency=_spread(found.efficiency, known),
        se_inflation=_spread(found.se_inflation, known),
        worst=np.nanmin(found.efficiency, axis=1),
        cost=(read_cost + fit_cost * kept) / (read_cost + fit_cost),
        work=found.cost,
        rate=rate,
        asked=float(estimator.efficiency),
        reached=float(np.nanmin(marked.efficiency[0])),
        cost_rate=cheapest,
        least_work=float(marked.cost[1]),
        read_cost=float(read_cost),
        fit_cost=float(fit_cost),
        method=method,
        prevalence=counts.prevalence,
    )


def _spread(values: Floats, known: NDArray[np.bool_]) -> Floats:
    """Return columns of all contrasts, NaN for those that are not identified."""
    everywhere = np.full((len(values), len(known)), np.nan)
    everywhere[:, known] = values
    return everywhere
