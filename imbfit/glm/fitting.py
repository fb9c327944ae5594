"""From a sample of the rows to a fitted model: coefficients, covariance, efficiency, findings.

Nothing here knows how labels look or where rows come from; nothing warns. What the user should hear
is returned as findings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.design import Design
from imbfit.glm.efficiency import relative_efficiency
from imbfit.glm.inference import Sandwich, covariance, sandwich
from imbfit.glm.newton import Solution
from imbfit.glm.passes import Counts
from imbfit.glm.pilot import Pilot
from imbfit.glm.sample_likelihood import (
    MAX_COLUMNS,
    Keep,
    Settings,
    count_of,
    likelihood_of,
    ridge_of,
    solve,
    split,
)
from imbfit.glm.samples import Sample
from imbfit.glm.troubles import Finding, pseudo_bias, troubles

Floats = NDArray[np.float64]

# So many negatives estimate a mean over the population well enough for an efficiency.
ENOUGH_NEGATIVES = 25_000


@dataclass(frozen=True)
class Fitted:
    """A fitted model, on the scale of the positive class.

    Attributes
    ----------
    coef, intercept : ndarray of shape (n_slopes,), float
        Coefficients.
    covariance : ndarray of shape (n_coef, n_coef) or None
        None above `MAX_COLUMNS`.
    spread : Sandwich or None
        Kept where there is no covariance.
    sampling_rate : float
        Share of the negatives' weight that was kept, relative to that of the positives.
    relative_efficiency : ndarray or None
        Of each slope or contrast; None above `MAX_COLUMNS`.
    """

    coef: Floats
    intercept: float
    solution: Solution
    covariance: Floats | None
    spread: Sandwich | None
    sampling_rate: float
    relative_efficiency: Floats | None
    kept: Counts
    keep: Keep
    sample: Sample
    log_likelihood: float
    n_iter: int
    converged: bool
    findings: tuple[Finding, ...] = ()


def pilot_of(sample: Sample, keep: Keep, solution: Solution, settings: Settings) -> Pilot:
    """Return kept rows as estimates of population means: each counts 1/S, S = pi1 p + pi0 q.

    Of many negatives every so-manyth is enough, and counts as kept with a smaller probability.
    """
    eta = solution.eta
    step = int(np.count_nonzero(~sample.positive)) // ENOUGH_NEGATIVES
    if step > 1 and keep.uniform:
        chosen = sample.positive.copy()
        chosen[np.flatnonzero(~sample.positive)[::step]] = True
        sample, eta = sample.taken(chosen), eta[chosen]
        keep = replace(keep, log_pi0=keep.log_pi0 - float(np.log(step)))
    pieces = settings.link.pieces(eta)
    log_s = np.logaddexp(keep.log_pi1 + pieces.log_p, keep.log_pi0 + pieces.log_q)
    share = np.exp(-(log_s - log_s.min()))
    if sample.weight is not None:
        share = share * sample.weight
    return Pilot(
        design=Design(sample.X, intercept=settings.free_intercept),
        share=share / share.sum(),
        pieces=pieces,
        prevalence=keep.counts.prevalence,
        n_rows=float(keep.counts.rows),
    )


def contrast_rows(design: Design, settings: Settings, contrasts: Floats | None) -> Floats:
    """Return contrasts of the slopes as rows over all coefficients; by default each slope."""
    first = int(settings.free_intercept)
    rows = np.eye(design.n_slopes) if contrasts is None else contrasts
    return np.hstack([np.zeros((len(rows), first)), rows])


def identified_part(
    pilot: Pilot, rows: Floats, aliased: NDArray[np.bool_]
) -> tuple[Pilot, Floats, NDArray[np.bool_]]:
    """Leave out the columns that the fit left out, and contrasts of them.

    Returns the pilot and the contrasts without them, and a mask of the contrasts that are left.
    """
    known = np.asarray(~(rows[:, aliased] != 0).any(axis=1))
    if not aliased.any():
        return pilot, rows, known
    design = pilot.design
    free = np.flatnonzero(~aliased[int(design.intercept) :])
    part = Design(design.X[:, free], intercept=design.intercept)
    return replace(pilot, design=part), rows[known][:, ~aliased], known


def worst_of(efficiency: Floats | None) -> float | None:
    """Return the least efficiency of what is identified."""
    if efficiency is None or not np.isfinite(efficiency).any():
        return None
    return float(np.nanmin(efficiency))


def fit_sample(
    sample: Sample, keep: Keep, settings: Settings, *, contrasts: Floats | None = None
) -> Fitted:
    """Fit a sample and say how sure its coefficients are."""
    kept = count_of(sample)
    if kept.positives == 0 or kept.negatives == 0:
        counts = keep.counts
        which = "negatives" if kept.negatives == 0 else "positives"
        all_of = counts.negatives if kept.negatives == 0 else counts.positives
        raise ValueError(
            f"the draw keeps none of the {all_of} {which}, and both classes are needed; give a "
            f"higher sampling_rate: at {min(20 / max(all_of, 1), 1):.2g} some 20 are kept"
        )
    solution, start_eta = solve(sample, keep, settings)
    design = Design(sample.X, intercept=settings.free_intercept)
    likelihood = likelihood_of(sample, keep, settings)
    spread = sandwich(
        settings.method,
        likelihood,
        solution,
        design,
        likelihood.rows,
        ridge=ridge_of(design, settings),
        stratum=keep.stratum,
    )
    small = design.n_coef <= MAX_COLUMNS
    matrix = covariance(spread) if small else None
    lost = solution.aliased if matrix is None else np.isinf(np.diag(matrix))
    findings = list(troubles(sample, solution, start_eta, settings, lost=lost))
    efficiency = None
    if small and settings.method != "naive":  # its probabilities are not the population's
        efficiency = _efficiency(sample, keep, solution, settings, contrasts, lost=lost)
    if settings.method == "pseudo_mle" and not keep.everything:
        findings += pseudo_bias(sample, keep, solution, settings)
    coef, intercept = split(solution.coef, settings)
    return Fitted(
        coef=coef,
        intercept=intercept,
        solution=solution,
        covariance=matrix,
        spread=None if small else spread,
        sampling_rate=_mean_rate(keep, kept),
        relative_efficiency=efficiency,
        kept=kept,
        keep=keep,
        sample=sample,
        log_likelihood=-solution.value,
        n_iter=solution.n_iter,
        converged=solution.converged and not any(f.kind == "separation" for f in findings),
        findings=tuple(findings),
    )


def _mean_rate(keep: Keep, kept: Counts) -> float:
    if keep.uniform:
        return float(np.exp(keep.log_pi0 - keep.log_pi1))
    return kept.negative_weight / keep.counts.negative_weight


def _efficiency(
    sample: Sample,
    keep: Keep,
    solution: Solution,
    settings: Settings,
    contrasts: Floats | None,
    *,
    lost: NDArray[np.bool_],
) -> Floats:
    design = Design(sample.X, intercept=settings.free_intercept)
    rows = contrast_rows(design, settings, contrasts)
    if keep.everything:
        return np.where((rows[:, lost] != 0).any(axis=1), np.nan, 1.0)
    own = pilot_of(sample, keep, solution, settings)
    own, rows, known = identified_part(own, rows, lost)
    found = np.full(len(known), np.nan)
    if known.any():
        rate = min(float(np.exp(keep.log_pi0 - keep.log_pi1)), 1.0) if keep.uniform else 1.0
        log_keep = None if keep.uniform else (keep.log_pi1, keep.log_pi0)
        try:
            found[known] = relative_efficiency(
                own, rate, method=settings.method, contrasts=rows, log_keep=log_keep
            )
        except ValueError:
            # More columns than rows, held by a ridge: the rows say nothing of a fit without it.
            found[known] = np.nan
    return found
