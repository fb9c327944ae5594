"""Panels of curves over the threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit.displays.axes import FEW, MOST_POINTS, CandidateAxis
from imbfit.displays.panels import grid_shape, panel_width
from imbfit.displays.wording import number_text, segment_text, shorten, thousands, threshold_text
from imbfit.expressions import Constraint, Expr, Number
from imbfit.reading import margin, value
from imbfit.threshold.around import Held
from imbfit.threshold.scan import name_of

# Colours that colour-blind readers tell apart (Okabe and Ito).
_OBJECTIVE = "#0072B2"
_OTHERS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
_SHADE = "#DDEBD3"
_CHOSEN = "#111111"


@dataclass(frozen=True)
class Panel:
    """What is drawn for one segment.

    Attributes
    ----------
    ax, right : matplotlib Axes
        The panel, and its second vertical axis or None.
    lines : dict of str to matplotlib Line2D
        The curves by name.
    point : matplotlib Line2D
        The chosen point.
    region : matplotlib PolyCollection or None
        The shaded region.
    """

    ax: Any
    right: Any
    lines: dict[str, Any]
    point: Any
    region: Any


def draw_panel(
    ax: Any,
    g: int,
    *,
    held: Held,
    threshold: float,
    extra: Iterable[tuple[str, Expr, bool]],
    bounded: bool,
    x: str,
    scale: str,
    view: str,
) -> Panel:
    """Draw the curves of one segment.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    g : int
        The segment's position.
    held : Held
        The choice; the other segments keep theirs.
    threshold : float
        The segment's chosen threshold.
    extra : iterable of (str, Expr, bool)
        More curves: name, formula, and whether greater is better.
    bounded : bool
        Whether there are constraints, and so a region to shade.
    x, scale, view : str
        As in `ThresholdDisplay.plot`.

    Returns
    -------
    Panel
        What was drawn.
    """
    counts = held.tables.counts(g)
    axis = CandidateAxis.over(held.tables, g, held.choice[g], x=x, scale=scale, view=view)
    name = name_of(held.goal)
    curves = {name: held.objective(g)}
    for label, expr, greater in extra:
        if label not in curves:
            # a ratio of nothing has a value by convention, but no place on a curve
            reached = value(expr, counts, greater_is_better=greater)
            empty = margin(Constraint(expr, ">=", Number(0)), counts)[1]
            curves[label] = np.where(empty, np.nan, reached)
    allowed = held.feasible(g)
    at = int(held.choice[g])

    axis.dress(ax)
    right = _right_axis(ax, curves, name)
    lowest = ax if right is None else right
    region = None
    if bounded and allowed[axis.inside].any():
        # the region's own outline keeps one that is thinner than a pixel visible
        region = lowest.broken_barh(
            axis.spans(allowed),
            (0, 1),
            transform=lowest.get_xaxis_transform(),
            facecolor=_SHADE,
            edgecolor=_SHADE,
            linewidth=1.0,
            zorder=0,
        )
    lines = {}
    colours = dict(zip(curves, (_OBJECTIVE, *_repeat(_OTHERS, len(curves))), strict=False))
    for label, values in reversed(curves.items()):
        picks = _thin(axis.drawn, values, axis.inside)
        target = ax if right is None or _is_rate(values) == _is_rate(curves[name]) else right
        places, heights = axis.position[picks], values[picks]
        if axis.drawstyle == "steps-post":
            # the last candidate in view goes on to the score below it
            places = np.append(places, axis.left[picks[-1]])
            heights = np.append(heights, heights[-1])
        (lines[label],) = target.plot(
            places,
            heights,
            drawstyle=axis.drawstyle,
            marker="." if axis.drawstyle == "default" and len(picks) <= FEW else None,
            color=colours[label],
            linewidth=2.0 if label == name else 1.3,
            zorder=3 if label == name else 2,
        )
    segment = held.tables.segments[g]
    place = axis.place(at, threshold)
    ax.axvline(place, color=_CHOSEN, linewidth=0.8, linestyle=":", zorder=3)
    (point,) = ax.plot(
        [place],
        [curves[name][at]],
        marker="o",
        markersize=8,
        markerfacecolor="white",
        markeredgecolor=_CHOSEN,
        markeredgewidth=2.0,
        linestyle="none",
        clip_on=False,
        zorder=5,
    )
    _limit(ax, right, curves, name, axis.inside)
    flagged = float(np.broadcast_to(counts.pp, axis.position.shape)[at])
    told = threshold_text(threshold)
    ax.set_title(
        f"{'' if segment is None else segment_text(segment) + ': '}{told}\n"
        f"{number_text(flagged)} of {number_text(float(np.ravel(counts.n)[0]))} flagged"
        f"{'' if allowed[at] else ', a constraint is missed'}",
        fontsize=10 if panel_width(ax, ax.figure) > 2.6 else 8,
        loc="left",
        pad=16,
    )
    return Panel(ax, right, {label: lines[label] for label in curves}, point, region)


def label_axes(panels: Sequence[Panel], *, x: str, name: str, several: bool) -> None:
    """Name the axes at the edges of a grid of panels; `name` is the curve of the whole."""
    _, columns = grid_shape(len(panels))
    for position, panel in enumerate(panels):
        ax, right, curves = panel.ax, panel.right, panel.lines
        column = position % columns
        if position + columns >= len(panels):
            ax.set_xlabel("threshold on the score" if x == "threshold" else "cases flagged")
        left = [label for label, line in curves.items() if line.axes is ax]
        if column == 0:
            whole = ", whole" if several and left == [name] else ""
            ax.set_ylabel(shorten(", ".join(left)) + whole)
        last = column == columns - 1 or position == len(panels) - 1
        if right is not None and last:
            others = [label for label, line in curves.items() if line.axes is right]
            right.set_ylabel(shorten(", ".join(others)))


def draw_legend(
    panels: Sequence[Panel],
    place: Callable[..., Any],
    *,
    name: str,
    several: bool,
    bounded: bool,
) -> Any:
    """Draw one legend for all panels, by a function that puts it where there is room."""
    from matplotlib.patches import Patch

    first = panels[0]
    handles, labels = [], []
    for label, line in first.lines.items():
        handles.append(line)
        whole = " (whole)" if several and label == name else ""
        whole = " (this segment)" if several and label != name else whole
        labels.append(shorten(label, 44) + whole)
    if bounded:
        handles.append(Patch(facecolor=_SHADE, edgecolor="#B5CBA6"))
        labels.append("constraints met" + (", others as chosen" if several else ""))
    handles.append(first.point)
    labels.append("chosen")
    # a letter of the legend takes about 0.065 inches, its handle as much as six
    wide = panel_width(first.ax if len(panels) == 1 else None, first.ax.figure) / 0.065
    if sum(map(len, labels)) + 6 * len(labels) <= wide:
        most = len(labels)
    else:
        most = int(wide / (max(map(len, labels)) + 6))
    return place(handles, labels, min(max(most, 1), len(handles)))


def _right_axis(ax: Any, curves: Mapping[str, np.ndarray], name: str) -> Any:
    """Give money and shares an axis each."""
    own = _is_rate(curves[name])
    if all(_is_rate(values) == own for values in curves.values()):
        return None
    right = ax.twinx()
    # curves of the left axis, with the chosen point, lie above those of the right one
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)
    return right


def _is_rate(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    return bool(len(finite) == 0 or np.abs(finite).max() <= 1 + 1e-9)


def _limit(
    ax: Any, right: Any, curves: Mapping[str, np.ndarray], name: str, inside: np.ndarray
) -> None:
    """Limits of the vertical axes: all of what is in view, and 0 to 1 for shares."""
    own = _is_rate(curves[name])
    for target, rate in ((ax, own), (right, not own)):
        if target is None:
            continue
        values = np.concatenate([v[inside] for v in curves.values() if _is_rate(v) == rate])
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        low, high = float(values.min()), float(values.max())
        if rate and (high - low > 0.5 or len(curves) > 1):
            low, high = min(0.0, low), 1.0
        room = 0.04 * ((high - low) or max(abs(high), 1.0))
        target.set_ylim(low - room, high + room)
        if not rate and max(abs(low), abs(high)) >= 1000:
            target.yaxis.set_major_formatter(thousands())


def _thin(drawn: np.ndarray, values: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Positions of points that draw the same line: ends and extremes of each narrow strip."""
    at = np.flatnonzero(inside)
    if len(at) <= MOST_POINTS:
        return at
    place, height = drawn[at], values[at]
    low, high = float(place.min()), float(place.max())
    strip = ((place - low) * ((MOST_POINTS // 4) / ((high - low) or 1.0))).astype(np.int64)
    by_height = np.lexsort((height, strip))
    first = np.flatnonzero(np.diff(strip[by_height], prepend=-1) != 0)
    last = np.concatenate([first[1:], [len(at)]]) - 1
    change = np.flatnonzero(np.diff(strip) != 0)
    return at[
        np.unique(
            np.concatenate(
                [[0, len(at) - 1], by_height[first], by_height[last], change, change + 1]
            )
        )
    ]


def _repeat(colours: Sequence[str], number: int) -> list[str]:
    return [colours[i % len(colours)] for i in range(number)]
