"""What keeps a fit from being trusted: separation, collinear columns, no convergence, bias.

Nothing here warns. What the user should hear is returned as findings.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.design import Design
from imbfit.glm.newton import Solution
from imbfit.glm.sample_likelihood import Keep, Settings, solve
from imbfit.glm.samples import Sample
from imbfit.glm.separation import is_separated, most_extreme, separating_column, suspect

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """Something that the user should hear.

    Attributes
    ----------
    kind : str
        "separation", "collinear", "not_converged", "pilot_separated", "pseudo_bias", "efficiency".
    columns : tuple of int
        Columns at fault, by their place among the slopes; -1 for the intercept.
    detail : dict
        Figures for the message.
    """

    kind: str
    columns: tuple[int, ...] = ()
    detail: dict[str, Any] = field(default_factory=dict)


def troubles(
    sample: Sample,
    solution: Solution,
    start_eta: Floats,
    settings: Settings,
    *,
    lost: NDArray[np.bool_] | None = None,
) -> tuple[Finding, ...]:
    """Return what keeps the likelihood from a maximum that can be trusted.

    `lost` masks the coefficients without a finite variance. Some of them may be separated: where
    the link saturates at once, as the cloglog does, nothing else shows it.
    """
    findings = []
    first = int(settings.free_intercept)
    lost = solution.aliased if lost is None else lost
    unsure = bool((lost & ~solution.aliased).any())
    if settings.ridge == 0 and (unsure or suspect(solution, start_eta)):
        column = separating_column(
            sample.X,
            sample.positive,
            intercept=settings.free_intercept,
            weight=sample.weight,
        )
        design = Design(sample.X, intercept=settings.free_intercept)
        if column is not None or is_separated(design, sample.positive, weight=sample.weight):
            alone = column is not None
            if column is None:
                column = most_extreme(solution, design) - first
            if solution.aliased.any():
                findings.append(_collinear(solution.aliased, first))
            return (*findings, Finding("separation", (column,), {"alone": alone}))
    if lost.any():
        findings.append(_collinear(lost, first))
    if not solution.converged:
        findings.append(Finding("not_converged", (), {"decrement": solution.decrement}))
    return tuple(findings)


def _collinear(lost: NDArray[np.bool_], first: int) -> Finding:
    return Finding("collinear", tuple(int(j) - first for j in np.flatnonzero(lost)))


def pseudo_bias(
    sample: Sample, keep: Keep, solution: Solution, settings: Settings
) -> list[Finding]:
    """Compare with the conditional MLE where theory expects a bias that matters.

    The bias exceeds a tenth of a standard error where sqrt(n1)/kappa > 0.1, kappa = a/p1.
    """
    rate, counts = float(np.exp(keep.log_pi0 - keep.log_pi1)), keep.counts
    if np.sqrt(counts.positives) * counts.prevalence / rate <= 0.1:
        return []
    honest, _ = solve(sample, keep, replace(settings, method="cmle", start=None, report=None))
    design = Design(sample.X, intercept=settings.free_intercept)
    first = int(settings.free_intercept)
    spread = design.scale()[first:]
    right, ours = honest.coef[first:] * spread, solution.coef[first:] * spread
    size = float(right @ right)
    bias = float(ours @ right) / size - 1 if size > 0 else 0.0
    kappa = rate / counts.prevalence
    return [Finding("pseudo_bias", (), {"bias": bias, "kappa": kappa, "rate": rate})]
