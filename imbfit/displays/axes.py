"""Where the candidate thresholds of a segment lie on an axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit.displays.panels import panel_width
from imbfit.threshold.table import CandidateTables

# A panel is some hundred pixels wide: more points than these only make files large.
MOST_POINTS = 2000
# So many points of a grid are marked one by one.
FEW = 60
# Room beside the scores for "everybody" and "nobody", as a share of the axis.
_PAD = 0.05


@dataclass(frozen=True)
class CandidateAxis:
    """Where the candidates of a segment lie on an axis.

    Attributes
    ----------
    position : ndarray of float, shape (n_candidates,)
        Finite: nobody and everybody have places beside the scores.
    drawn : ndarray of float
        The same in units of length on paper.
    left, right : ndarray of float
        The thresholds that amount to a candidate, as an interval.
    inside : ndarray of bool
        Candidates within view.
    limits : tuple of float
        Ends of the view.
    """

    position: np.ndarray
    drawn: np.ndarray
    left: np.ndarray
    right: np.ndarray
    inside: np.ndarray
    limits: tuple[float, float]
    scale: str
    drawstyle: str  # candidates come by falling threshold, so a value holds up to the next
    ends: tuple[tuple[float, str], ...]

    @classmethod
    def over(
        cls, tables: CandidateTables, g: int, chosen: int, *, x: str, scale: str, view: str
    ) -> CandidateAxis:
        """Lay the candidates of one segment out, by the options of `ThresholdDisplay.plot`.

        Parameters
        ----------
        tables : CandidateTables
            Of all segments.
        g : int
            The segment's position.
        chosen : int
            The chosen candidate, which is in view whatever the options say.
        x, scale, view : str
            Options.

        Returns
        -------
        CandidateAxis
            The layout.
        """
        own = tables.own(g)
        counts = tables.counts(g)
        flagged = np.broadcast_to(counts.pp, (own.stop - own.start,)).astype(float)
        few = tables.grid is not None and len(flagged) <= FEW
        inside = _in_view(flagged, float(np.ravel(counts.ap)[0]), chosen, "all" if few else view)
        if x == "flagged":
            return cls._over_flagged(flagged, inside, scale)
        return cls._over_thresholds(tables, g, inside, chosen=chosen, scale=scale, view=view)

    @classmethod
    def _over_flagged(cls, flagged: np.ndarray, inside: np.ndarray, scale: str) -> CandidateAxis:
        last = float(flagged[inside].max())
        kind = "linear" if scale == "linear" or last <= 30 else "symlog"
        middle = (flagged[1:] + flagged[:-1]) / 2
        left = np.concatenate([[flagged[0]], middle])
        right = np.concatenate([middle, [flagged[-1]]])
        limits = (-0.03 * last if kind == "linear" else -0.2, last * (1.03 if last > 1 else 1.5))
        drawn = flagged if kind == "linear" else np.log1p(flagged)
        return cls(flagged, drawn, left, right, inside, limits, kind, "default", ())

    @classmethod
    def _over_thresholds(
        cls,
        tables: CandidateTables,
        g: int,
        inside: np.ndarray,
        *,
        chosen: int,
        scale: str,
        view: str,
    ) -> CandidateAxis:
        own = tables.own(g)
        edge = (tables.above[own] if tables.grid is None else tables.grid[own]).astype(float)
        scores = edge[np.isfinite(edge)]
        seen = edge[inside & np.isfinite(edge)]
        if not len(seen):
            seen = scores if len(scores) else np.array([0.0])
        kind = _scale_for(seen, scale, float(edge[chosen]))
        if kind in ("log", "logit") and view == "near":
            # a few scores near 0 would take most of such an axis
            inside = inside & (edge >= min(float(np.median(seen)) / 1000, edge[chosen]))
            seen = edge[inside & np.isfinite(edge)]
        there, back = _TRANSFORMS[kind]
        low, high = there(float(seen.min())), there(float(seen.max()))
        pad = _PAD * ((high - low) or (1.0 if kind != "linear" else max(abs(high), 1.0) * 0.1))
        nobody, farthest = float(back(high + pad)), float(back(high + 2 * pad))
        everybody, nearest = float(back(low - pad)), float(back(low - 2 * pad))
        position = edge.copy()
        position[0] = nobody
        if tables.grid is not None:
            position[-1] = everybody
        drawn = there(np.clip(position, *_domain(kind)))
        if tables.grid is None:
            left, right = np.concatenate([edge[1:], edge[-1:]]), edge.copy()
        else:
            middle = (position[1:] + position[:-1]) / 2
            left = np.concatenate([middle, position[-1:]])
            right = np.concatenate([position[:1], middle])
        right[0] = farthest
        ends = [(nobody, "nobody")]
        if inside[-1]:
            left[-1] = nearest
            ends.append((everybody, "everybody"))
        limits = (float(left[inside].min()), farthest)
        if tables.grid is None and chosen == len(edge) - 1:
            position = position.copy()
            position[-1] = everybody
        style = "steps-post" if tables.grid is None else "default"
        return cls(position, drawn, left, right, inside, limits, kind, style, tuple(ends))

    def place(self, at: int, threshold: float) -> float:
        """Return where to mark a threshold that amounts to the candidate `at`."""
        if self.ends and np.isfinite(threshold):
            return float(np.clip(threshold, *self.limits))
        return float(self.position[at])

    def dress(self, ax: Any, which: str = "x") -> None:
        """Set scale, limits and ticks."""
        from matplotlib import ticker

        def number(mark: float, _: Any = None) -> str:
            return f"{mark:g}" if abs(mark) < 1e5 else f"{mark:,.0f}"

        getattr(ax, f"set_{which}scale")(
            self.scale, **({"linthresh": 1} if self.scale == "symlog" else {})
        )
        getattr(ax, f"set_{which}lim")(*self.limits)
        axis = getattr(ax, f"{which}axis")
        if self.scale == "log":
            decades = math.log10(self.limits[1] / self.limits[0])
            subs = (1.0,) if decades > 4 else (1.0, 3.0) if decades > 2 else (1.0, 2.0, 5.0)
            if decades < 0.7:
                axis.set_major_locator(ticker.MaxNLocator(5))
            else:
                axis.set_major_locator(ticker.LogLocator(subs=subs))
            axis.set_minor_formatter(ticker.NullFormatter())
            axis.set_major_formatter(ticker.FuncFormatter(number))
        elif self.scale == "symlog":
            powers = [0] + [10**k for k in range(int(math.log10(max(self.limits[1], 1))) + 1)]
            if len(powers) <= 4:
                powers += [3 * 10**k for k in range(len(powers) - 1)]
            axis.set_major_locator(ticker.FixedLocator([p for p in powers if p <= self.limits[1]]))
            axis.set_minor_locator(ticker.NullLocator())
            axis.set_major_formatter(ticker.FuncFormatter(number))
        elif self.scale == "logit":
            axis.set_major_locator(ticker.FixedLocator(_logit_marks(*self.limits)))
            axis.set_minor_locator(ticker.NullLocator())
            axis.set_major_formatter(ticker.FuncFormatter(_near_one))
        elif self.scale == "linear":
            marks = 6 if which == "y" else min(6, max(2, int(panel_width(ax, ax.figure) / 0.6)))
            axis.set_major_locator(ticker.MaxNLocator(marks))
        if which == "x" and self.scale != "symlog":
            for place, told in self.ends:
                ax.annotate(
                    told,
                    (place, 1.0),
                    xycoords=("data", "axes fraction"),
                    xytext=(0, 2),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=8,
                    color="#666666",
                )

    def spans(self, allowed: np.ndarray) -> list[tuple[float, float]]:
        """Return the intervals where candidates are allowed, as (start, length)."""
        allowed = allowed & self.inside
        edges = np.flatnonzero(np.diff(np.concatenate([[False], allowed, [False]]).astype(int)))
        starts, stops = edges[::2], edges[1::2] - 1
        if self.position[-1] >= self.position[0]:
            low, high = self.left[starts], self.right[stops]
        else:
            low, high = self.left[stops], self.right[starts]
        order = np.argsort(low)
        low, high = low[order], high[order]
        if len(low) > MOST_POINTS:
            # gaps far thinner than a pixel are closed
            there = _TRANSFORMS[self.scale][0]
            ends = there(np.clip(np.array(self.limits), *_domain(self.scale)))
            wide = (
                there(np.clip(low[1:], *_domain(self.scale)))
                - there(np.clip(high[:-1], *_domain(self.scale)))
                > (ends[1] - ends[0]) / MOST_POINTS
            )
            low = low[np.concatenate([[True], wide])]
            high = high[np.concatenate([wide, [True]])]
        return list(zip(low.tolist(), (high - low).tolist(), strict=True))

    def edges(self, picks: np.ndarray) -> np.ndarray:
        """Return the borders of the cells that stand for picked candidates, in the picks' order."""
        rising = self.position[-1] >= self.position[0]
        near = self.left if rising else self.right
        start, end = self.limits if rising else self.limits[::-1]
        return np.concatenate([[start], near[picks[1:]], [end]])


def _identity(values: Any) -> Any:
    return values


def _logit(values: Any) -> Any:
    return np.log(values) - np.log1p(-np.asarray(values))


def _expit(values: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(values)))


_TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "linear": (_identity, _identity),
    "log": (np.log, np.exp),
    "logit": (_logit, _expit),
    "symlog": (np.log1p, np.expm1),
}


def _logit_marks(low: float, high: float) -> list[float]:
    """Choose marks such as 0.01, 0.5 and 0.999, few enough to stay apart."""
    powers = [10.0**-k for k in range(1, 16)]
    marks = sorted([*powers, 0.5, *(1 - power for power in powers)])
    marks = [mark for mark in marks if low <= mark <= high]
    middle = marks.index(0.5) if 0.5 in marks else 0
    step = -(-len(marks) // 7)
    return marks[middle % step :: step]


def _near_one(mark: float, _: Any = None) -> str:
    return f"{mark:g}" if mark < 0.99995 else f"1-{1 - mark:.0e}"


def _domain(scale: str) -> tuple[float, float]:
    tiny = 1e-300
    return {
        "log": (tiny, math.inf),
        "logit": (tiny, 1 - 1e-16),
        "symlog": (0.0, math.inf),
    }.get(scale, (-math.inf, math.inf))


def _in_view(flagged: np.ndarray, positives: float, chosen: int, view: str) -> np.ndarray:
    if view == "all":
        return np.ones(len(flagged), bool)
    most = max(4 * float(flagged[chosen]), 4 * positives, 20.0)
    inside = flagged <= most
    inside[chosen] = True
    # a view that stops just short of everybody may as well show them
    if flagged[inside].max() >= 0.7 * flagged[-1]:
        return np.ones(len(flagged), bool)
    return inside


def _scale_for(seen: np.ndarray, asked: str, chosen: float) -> str:
    low, high = float(seen.min()), float(seen.max())
    if asked == "log" and low <= 0:
        raise ValueError(
            f"scale='log' takes positive scores, and {low:g} is in view; use scale='linear'"
        )
    if asked == "logit" and not 0 < low <= high < 1:
        raise ValueError(
            f"scale='logit' takes scores between 0 and 1, and those in view run from {low:g} to "
            f"{high:g}; use scale='linear'"
        )
    if asked != "auto":
        return asked
    if low <= 0:
        return "linear"
    # a linear axis shows little where half of the scores, or the choice, are close to an end
    middle = float(np.median(seen))
    place = (chosen - low) / ((high - low) or 1.0) if np.isfinite(chosen) else 0.5
    if high < 1 and (1 - low > 12 * (1 - middle) or place > 0.95):
        return "logit"
    return "log" if high > 12 * middle or place < 0.05 < high / low / 100 else "linear"
