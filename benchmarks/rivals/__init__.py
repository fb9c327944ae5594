"""What else one could use, each behind the same interface: a function ``prepare``.

``prepare(problem, data, time_limit)`` does what needs no clock (wrapping the scores in an
estimator, say) and returns a function without arguments that does the rest and returns a `Result`;
or it raises `DoesNotFit` with the reason why the rival can't solve the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """What a rival found.

    Attributes
    ----------
    thresholds : dict of segment to float, or None
        A row is flagged where its score is at least its segment's threshold; None where the rival
        has no such rule, or found nothing.
    status : str
        "optimal" where it claims a proof.
    bound : float or None
        No choice is better than this, by its own account, in the objective's units.
    gap : float or None
        Distance from the bound, with what its arithmetic may have cost, where it says so.
    flagged : ndarray of bool or None
        What is flagged, where there are no thresholds.
    note : str
        For the report.
    """

    thresholds: dict[Any, float] | None
    status: str = "no proof"
    bound: float | None = None
    gap: float | None = None
    flagged: Any = field(default=None, repr=False)
    note: str = ""


class DoesNotFit(Exception):
    """The rival can't solve the problem."""


Prepared = Callable[[], Result]
