"""From a source of rows to a fitted model: pilot, rate, draw, fit, check.

There is a function for each way in which the rows of a fit come to be a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from imbfit.glm.fitting import (
    Fitted,
    contrast_rows,
    fit_sample,
    identified_part,
    pilot_of,
    worst_of,
)
from imbfit.glm.inference import Stratum
from imbfit.glm.passes import Counts, Source, count
from imbfit.glm.pilot import Pilot
from imbfit.glm.plans import UniformPlan, pilot_scores
from imbfit.glm.predictions import Predictions, predict
from imbfit.glm.rates import efficient_rate, inference_free_bound
from imbfit.glm.sample_likelihood import (
    MAX_COLUMNS,
    Keep,
    Settings,
    count_of,
    realised,
    solve,
    split,
)
from imbfit.glm.samples import PilotRows, Sample, draw, draw_pilot
from imbfit.glm.troubles import Finding, troubles

Floats = NDArray[np.float64]

# "auto" takes all rows where there is little to win: few rows, few positives, or a rate above a
# half.
FEW_ROWS, FEW_POSITIVES, HIGH_RATE = 5_000, 100, 0.5

# Rows of the pilot. With so many the rate it gives is right to a few per cent, and it costs little
# beside the fit.
PILOT_POSITIVES, PILOT_NEGATIVES = 2_000, 10_000

# The rate is raised where the fit itself says that the pilot was too hopeful: when an efficiency is
# this far below the one asked for, and by no more than this factor, so that two passes do.
SLACK, MOST_RAISE = 0.01, 1.25


# ------------------------------------------------------------------------------------------------
# Where the rows come from


def fit_at_rate(
    source: Source, rate: float, settings: Settings, *, seed: int, contrasts: Floats | None = None
) -> Fitted:
    """Keep each negative with probability `rate`, in one pass, and fit."""
    sample = source.run(partial(draw, seed=seed, plan=UniformPlan(rate))).joined()
    return fit_sample(sample, realised(sample), settings, contrasts=contrasts)


def fit_given(
    sample: Sample,
    rate: float,
    settings: Settings,
    *,
    known_prevalence: bool,
    contrasts: Floats | None = None,
) -> Fitted:
    """Fit rows that were downsampled upstream at a known rate."""
    have = sample.counts
    counts = replace(
        have,
        negatives=max(round(have.negatives / rate), have.negatives),
        negative_weight=have.negative_weight / rate,
    )
    kind: Literal["known_prevalence", "realised"] = (
        "known_prevalence" if known_prevalence else "realised"
    )
    stratum = Stratum(kind, n_negatives=have.negatives / rate)
    keep = Keep(0.0, float(np.log(rate)), stratum, counts)
    return fit_sample(sample, keep, settings, contrasts=contrasts)


def fit_chosen(sample: Sample, settings: Settings, *, contrasts: Floats | None = None) -> Fitted:
    """Fit rows that a sampler chose at random given the class."""
    return fit_sample(sample, realised(sample), settings, contrasts=contrasts)


def fit_scored(
    source: Source,
    kind: str,
    rate: float | None,
    settings: Settings,
    *,
    seed: int,
    efficiency: float,
    contrasts: Floats | None = None,
) -> Fitted:
    """Keep negatives with probabilities that a pilot gives; `rate` None chooses the mean one."""
    pilot, counts, findings = take_pilot(source, settings, seed=seed, always=rate is not None)
    if pilot is None:
        fitted = fit_at_rate(source, 1.0, settings, seed=seed, contrasts=contrasts)
        return replace(fitted, findings=findings + fitted.findings)
    chosen = None
    if pilot.pilot.design.n_coef <= MAX_COLUMNS:
        chosen = contrast_rows(pilot.pilot.design, settings, contrasts)
    elif rate is None or kind == "a_optimal":
        what = "sampling_rate='auto'" if rate is None else "sampling='a_optimal'"
        cure = "give a number as sampling_rate" if rate is None else "write sampling='l_optimal'"
        raise ValueError(
            f"{what} needs a matrix of all {pilot.pilot.design.n_coef} coefficients, and none with "
            f"a side above {MAX_COLUMNS} is made; {cure}"
        )
    scores = pilot_scores(
        kind,
        pilot.pilot,
        link=settings.link,
        coef=pilot.coef,
        intercept=pilot.intercept,
        contrasts=chosen,
    )
    if rate is None:
        rate = _least_rate(
            pilot.pilot, pilot.aliased, efficiency, settings, contrasts, family=scores.log_keep
        )
        if rate > HIGH_RATE:
            fitted = fit_at_rate(source, 1.0, settings, seed=seed, contrasts=contrasts)
            return replace(fitted, findings=findings + fitted.findings)
    plan = scores.plan(rate)
    sample = source.run(partial(draw, seed=seed, plan=plan)).joined()
    log_pi1, log_pi0 = plan.log_keep(sample.X, sample.offset)
    keep = Keep(log_pi1, log_pi0, Stratum("bernoulli", n_negatives=counts.negatives), counts)
    fitted = fit_sample(sample, keep, settings, contrasts=contrasts)
    return replace(fitted, findings=findings + fitted.findings)


def fit_efficient(
    source: Source,
    efficiency: float,
    settings: Settings,
    *,
    seed: int,
    contrasts: Floats | None = None,
) -> Fitted:
    """Choose the smallest rate at which every slope keeps `efficiency` of its precision, and fit.

    One pass takes a pilot, a second one draws. The fit's own rows then check the pilot's word.
    """
    rate, _, findings = choose_rate(source, efficiency, settings, seed=seed, contrasts=contrasts)
    if rate >= 1:
        fitted = fit_at_rate(source, 1.0, settings, seed=seed, contrasts=contrasts)
        return replace(fitted, findings=findings + fitted.findings)
    most = min(MOST_RAISE * rate, 1.0)
    wide = None
    if not source.in_memory:
        wide = source.run(partial(draw, seed=seed, plan=UniformPlan(most))).joined()

    def drawn(at: float) -> Sample:
        if wide is not None:
            return wide.drawn(UniformPlan(at))
        return source.run(partial(draw, seed=seed, plan=UniformPlan(at))).joined()

    sample = drawn(rate)
    fitted = fit_sample(sample, realised(sample), settings, contrasts=contrasts)
    again = _raised(fitted, efficiency, most, settings, contrasts)
    if again is not None:
        sample = drawn(again)
        n_iter = fitted.n_iter
        warm = replace(settings, start=fitted.solution.coef)
        fitted = fit_sample(sample, realised(sample), warm, contrasts=contrasts)
        fitted = replace(fitted, n_iter=fitted.n_iter + n_iter)
    worst = worst_of(fitted.relative_efficiency)
    if worst is not None and worst < efficiency - 2 * SLACK:
        found = Finding("efficiency", detail={"worst": worst, "asked": efficiency})
        findings = (*findings, found)
    return replace(fitted, findings=findings + fitted.findings)


def _raised(
    fitted: Fitted,
    efficiency: float,
    most: float,
    settings: Settings,
    contrasts: Floats | None,
) -> float | None:
    """Return a higher rate where the fit shows that an efficiency was missed."""
    worst = worst_of(fitted.relative_efficiency)
    if worst is None or worst >= efficiency - SLACK or fitted.solution is None:
        return None
    own = pilot_of(fitted.sample, fitted.keep, fitted.solution, settings)
    rate = _least_rate(own, fitted.solution.aliased, efficiency, settings, contrasts)
    return min(rate, most)


def _least_rate(
    pilot: Pilot,
    aliased: NDArray[np.bool_],
    efficiency: float,
    settings: Settings,
    contrasts: Floats | None,
    *,
    family: Any = None,
) -> float:
    rows = contrast_rows(pilot.design, settings, contrasts)
    part, rows, known = identified_part(pilot, rows, aliased)
    if not known.any():
        return 1.0
    try:
        return efficient_rate(
            part, efficiency, method=settings.method, contrasts=rows, family=family
        )
    except ValueError:
        # the pilot identifies none of them
        return 1.0


def choose_rate(
    source: Source,
    efficiency: float,
    settings: Settings,
    *,
    seed: int,
    contrasts: Floats | None = None,
) -> tuple[float, Counts, tuple[Finding, ...]]:
    """Return the rate that "auto" takes, the counts of all rows, and findings."""
    taken, counts, findings = take_pilot(source, settings, seed=seed)
    if taken is None:
        return 1.0, counts, findings
    if taken.pilot.design.n_coef > MAX_COLUMNS:
        p_max = float(np.exp(taken.pilot.pieces.log_p.max()))
        rate = inference_free_bound(p_max, efficiency)
    else:
        rate = _least_rate(taken.pilot, taken.aliased, efficiency, settings, contrasts)
    return (1.0 if rate > HIGH_RATE else rate), counts, findings


# ------------------------------------------------------------------------------------------------
# The pilot


@dataclass(frozen=True)
class PilotFit:
    """A fitted pilot."""

    pilot: Pilot
    X: Any
    offset: Floats | None
    coef: Floats
    intercept: float
    aliased: NDArray[np.bool_]


def take_pilot(
    source: Source, settings: Settings, *, seed: int, always: bool = False
) -> tuple[PilotFit | None, Counts, tuple[Finding, ...]]:
    """Draw and fit a pilot; None where it is separated, or (not `always`) where rows are few."""
    rows: PilotRows = source.run(
        partial(draw_pilot, seed=seed, positives=PILOT_POSITIVES, negatives=PILOT_NEGATIVES)
    )
    counts = rows.counts
    few = counts.rows < FEW_ROWS or min(counts.positives, counts.negatives) < FEW_POSITIVES
    if few and not always:
        return None, counts, ()
    sample = rows.sample()
    kept = count_of(sample)
    keep = Keep(
        float(np.log(kept.positives / counts.positives)),
        float(np.log(kept.negatives / counts.negatives)),
        Stratum("realised", n_negatives=counts.negatives),
        counts,
    )
    easy = replace(settings, method="cmle", start=None, report=None)
    solution, start_eta = solve(sample, keep, easy)
    if settings.ridge == 0:
        found = troubles(sample, solution, start_eta, easy)
        if any(item.kind == "separation" for item in found):
            return None, counts, tuple(replace(item, kind="pilot_separated") for item in found)
    coef, intercept = split(solution.coef, easy)
    pilot = pilot_of(sample, keep, solution, easy)
    aliased = solution.aliased
    return PilotFit(pilot, sample.X, sample.offset, coef, intercept, aliased), counts, ()


# ------------------------------------------------------------------------------------------------
# All rows


def check_predictions(
    source: Source, fitted: Fitted, settings: Settings, *, histogram: bool
) -> Predictions:
    """Predict all rows in one pass: their mean, and what shifts the intercept right."""
    return source.run(
        partial(
            predict,
            link=settings.link,
            coef=fitted.coef,
            intercept=fitted.intercept,
            histogram=histogram,
        )
    )


def count_all(source: Source) -> Counts:
    """Count the rows of each class."""
    return source.run(count)
