"""The constructor's parameters of the estimator, checked and read into what the kernels need."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np

from imbfit._settings import check_choice, check_count, check_flag, check_number
from imbfit.exceptions import InertParameterWarning
from imbfit.glm.built_in_links import LINKS, as_link
from imbfit.glm.likelihoods import METHODS
from imbfit.glm.link_check import check_link
from imbfit.glm.sample_likelihood import Settings

SOLVERS = ("auto", "newton", "lbfgs", "newton-cg")
SAMPLINGS = ("uniform", "a_optimal", "l_optimal", "local_case_control")


def read_settings(model: Any) -> Settings:
    """Check the parameters and return what the kernels need of them."""
    link = as_link(model.link)
    if all(link != known for known in LINKS.values()):
        check_link(link)
    check_choice("method", model.method, tuple(METHODS))
    check_choice("sampling", model.sampling, SAMPLINGS)
    check_choice("solver", model.solver, SOLVERS)
    check_choice("naive_correction", model.naive_correction, ("prior", "isotonic"))
    if model.recalibrate_intercept is not False:
        check_choice("recalibrate_intercept", model.recalibrate_intercept, ("full",), "False")
    for name in ("presampled", "fit_intercept", "warm_start"):
        check_flag(name, getattr(model, name))
    check_number("efficiency", model.efficiency, 0, 1, "0.95 for 5 % less precision")
    check_number("C", model.C, 0, None, "np.inf for no penalty")
    check_number("tol", model.tol, 0, None, "1e-8")
    check_count("max_iter", model.max_iter)
    fixed = model.known_intercept
    if fixed is not None:
        finite = isinstance(fixed, numbers.Real) and not isinstance(fixed, bool)
        if not finite or not np.isfinite(fixed):
            raise ValueError(f"known_intercept={fixed!r}: give a finite number, or None")
        if not model.fit_intercept:
            raise ValueError(
                f"known_intercept={fixed!r} and fit_intercept=False contradict each other; "
                "leave fit_intercept=True: a known intercept is not fitted"
            )
    _check_combinations(model)
    return Settings(
        link=link,
        method=model.method,
        solver=model.solver,
        ridge=0.0 if np.isinf(model.C) else 1.0 / float(model.C),
        free_intercept=bool(model.fit_intercept) and fixed is None,
        fixed_intercept=0.0 if fixed is None else float(fixed),
        max_iter=int(model.max_iter),
        tol=float(model.tol),
        report=_print_iteration if model.verbose else None,
    )


def _check_combinations(model: Any) -> None:
    """Refuse what contradicts itself, and warn of what has no effect."""
    if model.sampling != "uniform":
        if model.method not in {"cmle", "iw"}:
            raise ValueError(
                f"sampling={model.sampling!r} keeps rows with unequal chances, which "
                f"method={model.method!r} cannot use; write method='cmle' or method='iw'"
            )
        if model.presampled or hasattr(model.sampling_rate, "fit_resample"):
            raise ValueError(
                f"sampling={model.sampling!r} draws the negatives itself, so they can't come from "
                "a sampler or be presampled; write sampling='uniform'"
            )
        if isinstance(model.sampling_rate, numbers.Real) and model.sampling_rate == 1:
            warnings.warn(
                f"sampling={model.sampling!r} has no effect with sampling_rate=1, which keeps all "
                "rows; give a lower rate, or leave sampling out",
                InertParameterWarning,
                stacklevel=4,
            )
    if model.naive_correction != "prior" and model.method != "naive":
        warnings.warn(
            f"naive_correction={model.naive_correction!r} has no effect with "
            f"method={model.method!r}; it belongs to method='naive'",
            InertParameterWarning,
            stacklevel=4,
        )
    auto = isinstance(model.sampling_rate, str) and model.sampling_rate == "auto"
    if model.efficiency != 0.95 and not auto:
        warnings.warn(
            f"efficiency={model.efficiency!r} has no effect with "
            f"sampling_rate={model.sampling_rate!r}; it belongs to sampling_rate='auto'",
            InertParameterWarning,
            stacklevel=4,
        )
    if model.recalibrate_intercept:
        if model.presampled:
            raise ValueError(
                "recalibrate_intercept='full' needs the rows that were dropped, and with "
                "presampled=True they are not here; write recalibrate_intercept=False"
            )
        if not model.fit_intercept or model.known_intercept is not None:
            raise ValueError(
                "recalibrate_intercept='full' shifts the intercept, but fit_intercept=False or "
                "known_intercept fixes it; drop one of them"
            )
        if model.method == "naive":
            raise ValueError(
                "recalibrate_intercept='full' is for a model of the population; with "
                "method='naive' use naive_correction='isotonic'"
            )


def read_contrasts(contrasts: Any, slopes: int) -> np.ndarray:
    """Return contrasts of slopes as rows of floats."""
    rows = np.atleast_2d(np.asarray(contrasts, float))
    if rows.ndim != 2 or rows.shape[1] != slopes:
        raise ValueError(
            f"contrasts has shape {np.shape(contrasts)}; one row for each contrast and a column "
            f"for each of the {slopes} slopes are needed"
        )
    for number, row in enumerate(rows):
        if not np.isfinite(row).all() or not row.any():
            raise ValueError(f"contrast {number} is zero or not finite: {row.tolist()}")
    # the length of a contrast does not matter to its efficiency
    return np.asarray(rows / np.abs(rows).max(axis=1, keepdims=True))


def _print_iteration(record: Any) -> None:
    print(record)  # noqa: T201  verbose asks for it
