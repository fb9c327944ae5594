"""Where panels and their legend stand in a figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def grid_shape(panels: int) -> tuple[int, int]:
    """Return how many rows and columns so many panels take."""
    columns = panels if panels <= 3 else 2 if panels == 4 else 3 if panels <= 9 else 4
    return -(-panels // columns), columns


def figure_size(panels: int) -> tuple[float, float]:
    """Return width and height in inches that suit so many panels."""
    rows, columns = grid_shape(panels)
    return (7.0, 4.6) if panels == 1 else (4.1 * columns + 0.6, 2.9 * rows + 0.8)


def divide(ax: Any, panels: int) -> tuple[np.ndarray, Callable[..., Any]]:
    """Return panels in the place of an Axes, and a function that puts the legend below them."""
    if panels == 1:

        def below(handles: Any, labels: Any, columns: int) -> Any:
            return ax.legend(
                handles,
                labels,
                loc="upper center",
                bbox_to_anchor=(0.5, -0.14),
                ncols=columns,
                frameon=False,
                fontsize=9,
            )

        return np.array([ax]), below
    rows, columns = grid_shape(panels)
    spec = ax.get_subplotspec()
    if spec is None:
        raise ValueError(
            f"{panels} panels divide the place of a subplot, and this Axes is none; make it by "
            "plt.subplots(), or draw one segment by show="
        )
    ax.set_axis_off()
    inner = spec.subgridspec(rows + 1, columns, height_ratios=[1.0] * rows + [0.02])
    figure = ax.figure
    axes = np.array([figure.add_subplot(inner[i // columns, i % columns]) for i in range(panels)])
    bottom = figure.add_subplot(inner[rows, :])
    bottom.set_axis_off()

    def in_row(handles: Any, labels: Any, columns: int) -> Any:
        return bottom.legend(
            handles, labels, loc="upper center", ncols=columns, frameon=False, fontsize=9
        )

    return axes, in_row


def panel_width(ax: Any, figure: Any) -> float:
    """Return the width in inches of a panel, or of what a figure has for panels."""
    whole = float(figure.bbox.width / figure.dpi)
    if ax is None:
        return 0.85 * whole
    spec = ax.get_subplotspec()
    if spec is None:
        return whole * float(ax.get_position().width)
    return 0.85 * whole * float(spec.get_position(figure).width) / 0.775
