"""The likelihood of a sample, and its maximum.

Nothing here knows how labels look or where rows come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.design import Design
from imbfit.glm.inference import Stratum
from imbfit.glm.likelihoods import METHODS, Likelihood, Rows
from imbfit.glm.links import Link
from imbfit.glm.newton import Solution, minimize
from imbfit.glm.passes import Block, Counts, count
from imbfit.glm.samples import Sample

Floats = NDArray[np.float64]

# No matrix of a side above this is made: 2,000 columns take 32 MB, and a second for its factors.
MAX_COLUMNS = 2_000


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
