"""How figures write numbers and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def threshold_text(threshold: float) -> str:
    """Say what a threshold does, or its value."""
    if np.isposinf(threshold):
        return "nobody is flagged"
    if np.isneginf(threshold):
        return "everybody is flagged"
    return f"threshold {threshold:.4g}"


def number_text(amount: float) -> str:
    """Write a number with the digits that a reader needs."""
    if float(amount).is_integer() and abs(amount) < 1e15:
        return f"{amount:,.0f}"
    return f"{amount:,.2f}" if abs(amount) >= 100 else f"{amount:.4g}"


def thousands() -> Any:
    """Make a matplotlib formatter that separates thousands."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda mark, _: f"{mark:,.0f}")


def segment_text(segment: Any) -> str:
    """Write a segment, which may come from several columns."""
    parts = segment if isinstance(segment, tuple) else (segment,)
    return shorten(", ".join(map(str, parts)), 28)


def shorten(text: str, most: int = 40) -> str:
    """Cut a text that would run into its neighbour, and keep dollars from being a formula."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return cut.replace("$", r"\$")


def listed(names: Sequence[Any], most: int = 10) -> str:
    """List names in an error."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")
