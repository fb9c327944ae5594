"""Errors and warnings that imbfit raises on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "CollinearityWarning",
    "InertParameterWarning",
    "InfeasibleConstraints",
    "SamplingWarning",
    "ScoreScaleWarning",
    "SearchWarning",
    "SeparationWarning",
    "UnsupportedMetric",
]


class UnsupportedMetric(ValueError):
    """An expression that the asked algorithm can't handle; the message names the part at fault."""


class InfeasibleConstraints(ValueError):
    """No choice of thresholds meets all constraints.

    Parameters
    ----------
    message : str
        What the user reads.
    conflict : sequence of str
        An irreducible set of constraints that can't hold together: without any one of them the
        others can be met.
    best_values : mapping of str to float
        For each constraint of the conflict, the best value that its metric reaches while the
        other constraints of the conflict hold.
    segments : mapping of str to list
        For each constraint of the conflict that holds per segment, the segments at fault.
    """

    def __init__(
        self,
        message: str,
        *,
        conflict: Sequence[str] = (),
        best_values: Mapping[str, float] | None = None,
        segments: Mapping[str, list[Any]] | None = None,
    ) -> None:
        super().__init__(message)
        self.conflict = tuple(conflict)
        self.best_values = dict(best_values or {})
        self.segments = dict(segments or {})

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments are lost by the default reduction, and joblib pickles errors.
        return (
            _rebuild,
            (str(self), self.conflict, self.best_values, self.segments),
        )


def _rebuild(
    message: str, conflict: tuple[str, ...], best: dict[str, float], segments: dict[str, list[Any]]
) -> InfeasibleConstraints:
    return InfeasibleConstraints(message, conflict=conflict, best_values=best, segments=segments)


class SearchWarning(UserWarning):
    """The threshold search ended without a proof, or had to give up a constraint."""


class ScoreScaleWarning(UserWarning):
    """Scores of different folds sit on different scales, so one pooled threshold may mislead."""


class SeparationWarning(UserWarning):
    """The features separate the classes, so that the likelihood has no maximum."""


class CollinearityWarning(UserWarning):
    """A column is constant or a combination of others, so its coefficient is not identified."""


class SamplingWarning(UserWarning):
    """A sample of the negatives costs more than it should: precision, or a bias."""


class InertParameterWarning(UserWarning):
    """A parameter was set that has no effect beside the others."""
