"""The objective as a surface over the thresholds of two segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit.displays.axes import CandidateAxis
from imbfit.displays.wording import number_text, segment_text, shorten, thousands, threshold_text
from imbfit.threshold.around import Held
from imbfit.threshold.scan import name_of

# A figure is some hundred pixels wide: more cells than these a side only make files large.
_MOST_CELLS = 160


@dataclass(frozen=True)
class Surface:
    """What is drawn: a matplotlib QuadMesh with its Colorbar, the chosen point and the legend."""

    mesh: Any
    colorbar: Any
    point: Any
    legend: Any


def draw_surface(
    ax: Any,
    shown: Sequence[int],
    *,
    held: Held,
    thresholds: Mapping[Any, float],
    x: str,
    scale: str,
    view: str,
) -> Surface:
    """Draw the objective over the thresholds of two segments.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    shown : sequence of two int
        Positions of the segments.
    held : Held
        The choice; the other segments keep theirs.
    thresholds : mapping of segment to float
        The chosen thresholds.
    x, scale, view : str
        As in `ThresholdDisplay.plot_surface`.

    Returns
    -------
    Surface
        What was drawn.
    """
    from matplotlib.colors import Normalize
    from matplotlib.patches import Patch

    axes = [
        CandidateAxis.over(held.tables, g, held.choice[g], x=x, scale=scale, view=view)
        for g in shown
    ]
    picks = [_spread(axis, int(held.choice[g])) for axis, g in zip(axes, shown, strict=True)]
    values, allowed = held.surface(shown, picks)
    edges = [axis.edges(pick) for axis, pick in zip(axes, picks, strict=True)]

    own = np.isfinite(values) & allowed
    seen = values[own] if own.any() else values[np.isfinite(values)]
    low, high = float(seen.min()), float(seen.max())
    if high - low <= 1e-12 * max(1.0, abs(high)):
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
    better = "viridis" if held.greater_is_better else "viridis_r"
    for axis, setter in zip(axes, ("x", "y"), strict=True):
        axis.dress(ax, which=setter)
    mesh = ax.pcolormesh(
        edges[0], edges[1], values.T, cmap=better, norm=Normalize(low, high), rasterized=True
    )
    if not allowed.all():
        veil = np.where(allowed, np.nan, 1.0)
        ax.pcolormesh(
            edges[0],
            edges[1],
            veil.T,
            cmap="Greys",
            vmin=0,
            vmax=2.4,
            alpha=0.82,
            rasterized=True,
        )
        ax.add_collection(_outline(edges, allowed), autolim=False)
    at = [
        axis.place(int(held.choice[g]), thresholds[held.tables.segments[g]])
        for axis, g in zip(axes, shown, strict=True)
    ]
    (point,) = ax.plot(
        *([p] for p in at),
        marker="*",
        markersize=17,
        markerfacecolor="white",
        markeredgecolor="black",
        markeredgewidth=1.3,
        linestyle="none",
        clip_on=False,
        zorder=5,
    )
    beyond = {(False, False): "neither", (True, False): "min", (False, True): "max"}.get(
        (bool(np.nanmin(values) < low), bool(np.nanmax(values) > high)), "both"
    )
    colorbar = ax.figure.colorbar(mesh, ax=ax, extend=beyond, pad=0.02)
    if max(abs(low), abs(high)) >= 1000:
        colorbar.formatter = thousands()
    way = "greater" if held.greater_is_better else "lower"
    colorbar.set_label(f"{shorten(name_of(held.goal), 60)} ({way} is better)")
    unit = "threshold" if x == "threshold" else "cases flagged"
    names = [held.tables.segments[g] for g in shown]
    ax.set(
        xlabel=f"{unit} in {segment_text(names[0])}", ylabel=f"{unit} in {segment_text(names[1])}"
    )
    told = " and ".join(
        f"{segment_text(name)}: {threshold_text(thresholds[name])}" for name in names
    )
    ax.set_title(
        f"{told}\nobjective {number_text(held.value_chosen())}", fontsize=10, loc="left", pad=14
    )
    handles, labels = [point], ["chosen"]
    if not allowed.all():
        handles.append(Patch(facecolor="#B9B9B9", edgecolor="#8A8A8A"))
        labels.append("a constraint is missed")
    legend = ax.legend(
        handles,
        labels,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
        ncols=2,
        frameon=False,
    )
    return Surface(mesh, colorbar, point, legend)


def _spread(axis: CandidateAxis, chosen: int) -> np.ndarray:
    """Candidates that stand for the cells of a surface, the chosen one among them."""
    at = np.flatnonzero(axis.inside)
    if len(at) <= _MOST_CELLS:
        return at
    place = axis.drawn[at]
    low, high = float(place.min()), float(place.max())
    strip = ((place - low) * (_MOST_CELLS / ((high - low) or 1.0))).astype(np.int64)
    first = np.flatnonzero(np.diff(strip, prepend=-1) != 0)
    picks = at[first]
    # the chosen candidate takes the cell that it lies in
    mine = int(strip[int(np.searchsorted(at, chosen))])
    picks[int(np.flatnonzero(strip[first] == mine)[0])] = chosen
    return picks


def _outline(edges: Sequence[np.ndarray], allowed: np.ndarray) -> Any:
    """Borders between feasible and other cells."""
    from matplotlib.collections import LineCollection

    one, two = edges
    lines = [
        [(one[i + 1], two[j]), (one[i + 1], two[j + 1])]
        for i, j in np.argwhere(allowed[1:] != allowed[:-1]).tolist()
    ] + [
        [(one[i], two[j + 1]), (one[i + 1], two[j + 1])]
        for i, j in np.argwhere(allowed[:, 1:] != allowed[:, :-1]).tolist()
    ]
    return LineCollection(lines, colors="black", linewidths=1.0)
