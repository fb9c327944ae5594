"""What is said when something is wrong, and the exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

DONE, BAD_INPUT, INFEASIBLE = 0, 2, 3


class BadInput(Exception):
    """Something that the user can mend; the message says how."""


def complain(command: str, message: str, kind: str = "error") -> None:
    """Print a message to the standard error, in the name of the command."""
    print(f"imbfit {command}: {kind}: {message}", file=sys.stderr)


def in_words_of_the_command(message: str) -> str:
    """Say in options of the command what the package says in its arguments."""
    for said, written in {
        'pass infeasible="least_violation"': "pass --infeasible least_violation",
        "raise time_limit": "raise --time-limit",
        "See constraint_report": "See the constraints below",
        "(check pos_label)": "(check --label and --pos-label)",
        'nan_policy="negative"': "--nan-score negative",
    }.items():
        message = message.replace(said, written)
    return message


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def listed(items: Sequence[Any], most: int = 8) -> str:
    """List items in a message, the first few where there are many."""
    return ", ".join(map(repr, items[:most])) + (", ..." if len(items) > most else "")


def rows_named(mask: np.ndarray, most: int = 5) -> str:
    """Name rows as a person counts them: the first case is row 1."""
    rows = np.flatnonzero(mask)
    shown = ", ".join(f"{row + 1:,}" for row in rows[:most]) + (", ..." if len(rows) > most else "")
    return f"{len(rows):,} case{'s' if len(rows) != 1 else ''} (row {shown})"
