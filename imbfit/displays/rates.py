"""What a sampling rate costs, as a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from imbfit.glm.curve import SamplingRateCurve, sampling_rate_curve

__all__ = ["SamplingRateDisplay"]

# Colours that colour-blind readers tell apart (Okabe and Ito).
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_REST = "#BBBBBB"
_CHOSEN = "#111111"
PANELS = ("efficiency", "inflation", "cost")


class SamplingRateDisplay:
    """Efficiency, standard errors and cost over the sampling rate.

    Make one by :meth:`from_data` or :meth:`from_estimator`.

    Parameters
    ----------
    curve : SamplingRateCurve
        From :func:`imbfit.sampling_rate_curve`.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The panels.
    figure_ : matplotlib Figure
        Figure that holds them.
    lines_ : dict of str to list of matplotlib Line2D
        The lines of each panel by its name, "efficiency", "inflation" or "cost".
    chosen_ : list of matplotlib Line2D
        The chosen rate in each panel.

    Examples
    --------
    >>> from imbfit import SamplingRateDisplay, sampling_rate_curve
    >>> from imbfit.datasets import make_rare_events
    >>> cards = make_rare_events(50_000, prevalence=0.01, random_state=0)
    >>> curve = sampling_rate_curve(cards.X, cards.y, random_state=0)
    >>> display = SamplingRateDisplay(curve=curve)
    >>> display.curve.rate == curve.rate
    True
    """

    def __init__(self, *, curve: SamplingRateCurve) -> None:
        self.curve = curve

    @classmethod
    def from_data(
        cls, X: Any, y: Any, *, ax: Any = None, show: Any = PANELS, **options: Any
    ) -> SamplingRateDisplay:
        """Compute the curve and draw it.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rows, n_columns)
            All rows.
        y : array-like of shape (n_rows,)
            Labels.
        ax : matplotlib Axes or sequence of them, default=None
            Where to draw: as many as panels.
        show : sequence of {"efficiency", "inflation", "cost"}
            Panels.
        **options : dict
            Further arguments of :func:`imbfit.sampling_rate_curve`.

        Returns
        -------
        SamplingRateDisplay
            The display, drawn.
        """
        return cls(curve=sampling_rate_curve(X, y, **options)).plot(ax, show=show)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, show: Any = PANELS, **options: Any
    ) -> SamplingRateDisplay:
        """Draw the curve for the parameters of an estimator, fitted or not.

        Parameters
        ----------
        estimator : DownsampledGLMClassifier
            Its link, method, intercept, offset, positive label, efficiency and seed are used.
        X : array, sparse matrix or frame of shape (n_rows, n_columns)
            All rows.
        y : array-like of shape (n_rows,)
            Labels.
        ax : matplotlib Axes or sequence of them, default=None
            Where to draw: as many as panels.
        show : sequence of {"efficiency", "inflation", "cost"}
            Panels.
        **options : dict
            Further arguments of :func:`imbfit.sampling_rate_curve`.

        Returns
        -------
        SamplingRateDisplay
            The display, drawn.
        """
        curve = sampling_rate_curve(X, y, estimator=estimator, **options)
        return cls(curve=curve).plot(ax, show=show)

    def plot(self, ax: Any = None, *, show: Any = PANELS) -> SamplingRateDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of them, default=None
            Where to draw: as many as panels. By default a new figure is made.
        show : sequence of {"efficiency", "inflation", "cost"}
            Panels.

        Returns
        -------
        SamplingRateDisplay
            The display.

        Raises
        ------
        ValueError
            If a panel is not known, or there are not as many Axes as panels.
        """
        import matplotlib.pyplot as plt

        if not isinstance(self.curve, SamplingRateCurve):
            raise TypeError(
                f"curve is of type {type(self.curve).__name__}; give what sampling_rate_curve "
                "returns, or use from_data or from_estimator"
            )
        names = [show] if isinstance(show, str) else list(show)
        strange = [name for name in names if name not in PANELS]
        if strange or not names:
            raise ValueError(f"show={show!r}: allowed are {', '.join(map(repr, PANELS))}")
        if ax is None:
            _, axes = plt.subplots(
                1,
                len(names),
                figsize=(4.6 * len(names) + 0.4, 3.9),
                layout="constrained",
                squeeze=False,
            )
            axes = axes[0]
        else:
            axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(axes) != len(names):
            raise ValueError(f"there are {len(axes)} Axes for {len(names)} panels ({names})")
        self.axes_, self.figure_ = axes, axes[0].figure
        self.lines_: dict[str, list[Any]] = {}
        self.chosen_: list[Any] = []
        draw = {
            "efficiency": self._draw_efficiency,
            "inflation": self._draw_inflation,
            "cost": self._draw_cost,
        }
        for panel, name in zip(axes, names, strict=True):
            self.lines_[name] = draw[name](panel)
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter(_plain)
            panel.set_xlabel("Sampling rate of the negatives")
            panel.grid(visible=True, color="#E6E6E6", linewidth=0.7)
            panel.set_axisbelow(True)
            for side in ("top", "right"):
                panel.spines[side].set_visible(False)
        return self

    def _named(self) -> list[tuple[int, str, str]]:
        """Choose the contrasts that get a colour: the least efficient at the chosen rate."""
        curve = self.curve
        usable = np.flatnonzero(np.isfinite(curve.efficiency).all(axis=0))
        at = int(np.argmin(np.abs(np.log(curve.rates) - np.log(curve.rate))))
        order = usable[np.argsort(curve.efficiency[at, usable], kind="stable")]
        shown = order[: len(_COLORS)]
        # a dollar would begin a formula
        names = [str(name).replace("$", r"\$") for name in curve.names]
        return [(int(j), names[j], _COLORS[i]) for i, j in enumerate(shown)]

    def _draw_lines(self, ax: Any, values: np.ndarray) -> list[Any]:
        named = self._named()
        coloured = {j for j, _, _ in named}
        usable = np.flatnonzero(np.isfinite(values).all(axis=0))
        rest = [j for j in usable if j not in coloured]
        lines = []
        for i, column in enumerate(rest):
            label = f"{len(rest)} others" if i == 0 else None
            lines += ax.plot(self.curve.rates, values[:, column], color=_REST, lw=1, label=label)
        for j, name, color in reversed(named):
            lines += ax.plot(self.curve.rates, values[:, j], color=color, lw=1.6, label=name)
        return lines

    def _mark(self, ax: Any, height: float) -> None:
        (point,) = ax.plot(
            [self.curve.rate],
            [height],
            "o",
            color=_CHOSEN,
            zorder=5,
            label=f"chosen rate {self.curve.rate:.3g}",
        )
        self.chosen_.append(point)

    def _draw_efficiency(self, ax: Any) -> list[Any]:
        lines = self._draw_lines(ax, self.curve.efficiency)
        ax.axhline(self.curve.asked, color="#666666", lw=1, ls="--")
        self._mark(ax, self.curve.reached)
        ax.set_ylim(0, 1.03)
        ax.set_ylabel("Relative efficiency")
        ax.set_title("Precision kept by each slope", fontsize=10)
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(0, 0.92),
            fontsize=8,
            facecolor="white",
            framealpha=1,
            edgecolor="none",
        )
        return lines

    def _draw_inflation(self, ax: Any) -> list[Any]:
        values = 100 * (self.curve.se_inflation - 1)
        lines = self._draw_lines(ax, values)
        self._mark(ax, 100 * (self.curve.reached**-0.5 - 1))
        ax.set_yscale("symlog", linthresh=1)
        ax.set_ylim(bottom=0)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        ax.set_ylabel("Increase of the standard error")
        ax.set_title("What the sample costs in precision", fontsize=10)
        return lines

    def _draw_cost(self, ax: Any) -> list[Any]:
        curve = self.curve
        lines = ax.plot(curve.rates, curve.cost, color=_COLORS[0], lw=1.6, label="cost of the fit")
        lines += ax.plot(
            curve.rates, curve.work, color=_COLORS[1], lw=1.6, label="cost x variance, worst slope"
        )
        lines += ax.plot(
            [curve.cost_rate],
            [curve.least_work],
            "s",
            color=_COLORS[1],
            label=f"least cost x variance, {curve.cost_rate:.3g}",
        )
        self._mark(ax, curve.cost_at(curve.rate))
        ax.set_yscale("log", subs=(2, 3, 5))
        ax.yaxis.set_major_formatter(_plain)
        ax.yaxis.set_minor_formatter(_plain)
        ax.set_ylabel("Relative to all rows")
        ax.set_title(
            f"Reading a row costs {curve.read_cost:g}, fitting one {curve.fit_cost:g}", fontsize=10
        )
        ax.legend(loc="best", fontsize=8, frameon=False)
        return lines


def _plain(value: float, _: Any = None) -> str:
    return f"{value:g}"
