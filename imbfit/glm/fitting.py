"""From a sample of the rows to a fitted model: coefficients, covariance, efficiency, findings.

Nothing here knows how labels look or where rows come from; nothing warns. What the user should hear
is returned as findings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.design import Design
from imbfit.glm.inference import Sandwich, Stratum, covariance, sandwich
from imbfit.glm.likelihoods import METHODS, Likelihood, Rows
from imbfit.glm.links import Link
from imbfit.glm.newton import Solution, minimize
from imbfit.glm.passes import (
    Block,
    Counts,
    Sample,
    count,
)
from imbfit.glm.rates import (
    Pilot,
    relative_efficiency,
)
from imbfit.glm.separation import is_separated, most_extreme, separating_column, suspect

Floats = NDArray[np.float64]

# No matrix of a side above this is made: 2,000 columns take 32 MB, and a second for its factors.
MAX_COLUMNS = 2_000

# So many negatives estimate a mean over the population well enough for an efficiency.
ENOUGH_NEGATIVES = 25_000


@dataclass(frozen=True)
class Settings:
    """What is fitted and how.

    Attributes
    ----------
    ridge : float
        Factor of half the squared slopes, 1/C; 0 for none.
    free_intercept : bool
        Whether the intercept is estimated.
    fixed_intercept : float
        The intercept where it is not.
    start : ndarray or None
        Coefficients to start from.
    """

    link: Link
    method: str = "cmle"
    solver: str = "auto"
    ridge: float = 0.0
    free_intercept: bool = True
    fixed_intercept: float = 0.0
    max_iter: int = 100
    tol: float = 1e-8
    start: Floats | None = None
    report: Callable[[Any], None] | None = None


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


@dataclass(frozen=True)
class Keep:
    """With what probabilities the rows at hand were kept.

    Attributes
    ----------
    log_pi1, log_pi0 : float or ndarray of shape (n_rows,)
        Of a positive and of a negative.
    stratum : Stratum
        What is known of the numbers kept.
    counts : Counts
        Rows of the population that they were kept from.
    """

    log_pi1: float | Floats
    log_pi0: float | Floats
    stratum: Stratum
    counts: Counts

    @property
    def uniform(self) -> bool:
        """Whether all rows of a class had the same chance."""
        return np.ndim(self.log_pi0) == 0 and np.ndim(self.log_pi1) == 0

    @property
    def everything(self) -> bool:
        """Whether all rows were kept."""
        return bool(np.all(self.log_pi1 == 0) and np.all(self.log_pi0 == 0))


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


# ------------------------------------------------------------------------------------------------
# One sample


def realised(sample: Sample) -> Keep:
    """Return the realised rates of a sample drawn with the same chance in each class."""
    kept, counts = count_of(sample), sample.counts
    with np.errstate(divide="ignore"):  # `fit_sample` says what an empty class means
        log_pi1 = np.log(kept.positive_weight / counts.positive_weight)
        log_pi0 = np.log(kept.negative_weight / counts.negative_weight)
    return Keep(
        min(float(log_pi1), 0.0),
        min(float(log_pi0), 0.0),
        Stratum("realised", n_negatives=counts.negatives),
        counts,
    )


def count_of(sample: Sample) -> Counts:
    """Count the kept rows."""
    return count(Block(0, sample.X, sample.positive, sample.weight))


def split(w: Floats, settings: Settings) -> tuple[Floats, float]:
    """Return slopes and intercept."""
    if settings.free_intercept:
        return w[1:], float(w[0])
    return w, settings.fixed_intercept


def likelihood_of(sample: Sample, keep: Keep, settings: Settings) -> Likelihood:
    """Return the method's likelihood of the rows."""
    rows = Rows.designed(sample.positive, sample.weight, keep.log_pi1, keep.log_pi0)
    dropped = keep.counts.negative_weight * (1 - np.exp(keep.log_pi0)) if keep.uniform else 0.0
    return METHODS[settings.method](rows, settings.link, n_dropped=float(dropped))


def ridge_of(design: Design, settings: Settings) -> Floats:
    """Return the ridge of each coefficient: none of the intercept."""
    ridge = np.full(design.n_coef, settings.ridge)
    ridge[: int(settings.free_intercept)] = 0.0
    return ridge


def solve(sample: Sample, keep: Keep, settings: Settings) -> tuple[Solution, Floats]:
    """Maximise the likelihood of a sample; return the solution and the start's predictor."""
    design = Design(sample.X, intercept=settings.free_intercept)
    ridge = ridge_of(design, settings)
    offset: float | Floats = settings.fixed_intercept
    if sample.offset is not None:
        offset = offset + sample.offset

    def maximum(method: str, start: Floats) -> Solution:
        return minimize(
            likelihood_of(sample, keep, replace(settings, method=method)),
            design,
            start=start,
            offset=offset,
            ridge=ridge,
            solver=solver,
            max_iter=settings.max_iter,
            tol=settings.tol,
            callback=settings.report,
        )

    solver = settings.solver
    if solver == "auto":
        solver = "newton" if design.n_coef <= MAX_COLUMNS else "newton-cg"
    start = np.zeros(design.n_coef)
    if settings.free_intercept:
        kept = count_of(sample)
        share = kept.prevalence if settings.method == "naive" else keep.counts.prevalence
        start[0] = settings.link.link(share) - float(np.mean(offset))
    start_eta = design.eta(start) + offset

    def climbed(start: Floats) -> Solution:
        before = 0
        if settings.method in {"pseudo_mle", "profile"}:
            near = maximum("cmle", start)
            start, before = near.coef, near.n_iter
        solution = maximum(settings.method, start)
        return replace(solution, n_iter=solution.n_iter + before)

    warm = settings.start
    solution = climbed(start if warm is None or len(warm) != len(start) else warm)
    if not solution.converged and warm is not None:
        solution = climbed(start)
    if not solution.converged and settings.method in {"cmle", "profile", "pseudo_mle"}:
        # the weighted likelihood is concave for most links, so it leads near the right maximum
        other = climbed(maximum("iw", start).coef)
        if other.converged and other.value <= solution.value:
            solution = other
    return solution, start_eta


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
        findings += _pseudo_bias(sample, keep, solution, settings)
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


def _pseudo_bias(
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
