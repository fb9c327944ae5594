"""Checks of parameters: errors say what came, what is allowed and what to write instead."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np


def check_choice(name: str, given: Any, allowed: Sequence[str], other: str = "") -> None:
    """Raise unless a word is one of those allowed."""
    if not isinstance(given, str) or given not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise ValueError(f"{name}={given!r}: allowed are {listed}{f' or {other}' if other else ''}")


def check_number(name: str, given: Any, low: float, high: float | None, example: str) -> None:
    """Raise unless a number lies strictly between two others; without `high`, above `low`."""
    flag = isinstance(given, (bool, np.bool_))
    number = float(given) if isinstance(given, numbers.Real) and not flag else np.nan
    if not low < number or (high is not None and number >= high):
        between = f"above {low}" if high is None else f"strictly between {low} and {high}"
        raise ValueError(f"{name}={given!r}: give a number {between}, such as {example}")


def check_count(name: str, given: Any, low: int = 1) -> None:
    """Raise unless a setting is a whole number that is large enough."""
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, numbers.Integral):
        raise TypeError(f"{name}={given!r}: give a whole number of at least {low}")
    if given < low:
        raise ValueError(f"{name}={given!r}: give a whole number of at least {low}")


def check_flag(name: str, given: Any) -> None:
    """Raise unless a setting is True or False."""
    if not isinstance(given, (bool, np.bool_)):
        raise TypeError(f"{name}={given!r}: give True or False")
