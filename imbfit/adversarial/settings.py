"""The classifier's parameters, checked and read into what the kernels need."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from imbfit._settings import check_choice, check_count, check_flag, check_number
from imbfit.adversarial.payoff import Payoff, payoff_of, requirement_of
from imbfit.exceptions import InertParameterWarning, UnsupportedMetric
from imbfit.expressions import Constraint, Expr
from imbfit.metrics import as_rules, parse
from imbfit.reading import direction

__all__ = ["Settings", "read_settings"]

COUNTS = ("observed", "expected")
THRESHOLDS = ("tuned", "train", "sign")
SOLVERS = ("auto", "closed", "exact", "lp", "admm")


@dataclass(frozen=True)
class Settings:
    """What is trained for.

    Attributes
    ----------
    metric : Expr or callable
        Parsed.
    greater_is_better : bool
        Its direction.
    constraints : tuple of Constraint
        Parsed.
    payoff : Payoff
        Of the metric.
    requirements : tuple of Payoff
        Of the constraints.
    """

    metric: Expr | Callable[..., Any]
    greater_is_better: bool
    constraints: tuple[Constraint, ...]
    payoff: Payoff
    requirements: tuple[Payoff, ...]


def read_settings(model: Any) -> Settings:
    """Check the parameters of an AdversarialMetricClassifier, without data.

    Parameters
    ----------
    model : AdversarialMetricClassifier
        Whose parameters are read.

    Returns
    -------
    Settings

    Raises
    ------
    TypeError, ValueError
        For a parameter that is not allowed.
    UnsupportedMetric
        If the game can't be played for the metric or a constraint.
    """
    check_choice("count", model.count, COUNTS)
    check_choice("threshold", model.threshold, THRESHOLDS)
    check_choice("solver", model.solver, SOLVERS)
    check_choice("init", model.init, ("logistic", "zeros"))
    if model.anchor is not None:
        check_choice("anchor", model.anchor, ("logistic",), "None")
    for name in ("constraints", "cv"):
        if hasattr(getattr(model, name), "__next__"):
            raise TypeError(
                f"{name} is an iterator, which is used up by the first fit; give a list, "
                f"{name}=list(...)"
            )
    check_number("C", model.C, 0, float("inf"), "1.0; without any ridge no gap can be certified")
    check_number("tol", model.tol, 0, None, "1e-4")
    check_count("max_iter", model.max_iter)
    if model.batch_size is not None:
        check_count("batch_size", model.batch_size, 2)
    for name in ("fit_intercept", "warm_start"):
        check_flag(name, getattr(model, name))
    metric, greater = _metric(model.metric, model.greater_is_better)
    constraints = tuple(_plain(rule) for rule in as_rules(model.constraints))
    _check_combinations(model, constraints)
    payoff = payoff_of(metric, greater_is_better=greater)
    requirements = tuple(requirement_of(rule) for rule in constraints)
    # a formula outside the family is told before there are rows
    for each in (payoff, *requirements):
        if isinstance(each.source, (Expr, Constraint)):
            each.tables(2.0, 2.0, 6.0)
    return Settings(metric, greater, constraints, payoff, requirements)


def _metric(given: Any, greater_is_better: Any) -> tuple[Expr | Callable[..., Any], bool]:
    metric = parse(given) if isinstance(given, str) else given
    if isinstance(metric, Expr):
        return metric, direction(metric, greater_is_better)
    if isinstance(metric, type) or not callable(metric):
        raise TypeError(
            f"metric={given!r}: give a metric of imbfit.metrics, its text such as 'f1', or a "
            "function of (tp, pp, ap, n)"
        )
    if not isinstance(greater_is_better, bool):
        raise ValueError(  # noqa: TRY004  None is a value of the right type elsewhere
            f"greater_is_better={greater_is_better!r}: is a greater value of the function "
            f"{getattr(metric, '__name__', metric)!r} better? Pass True or False"
        )
    return metric, greater_is_better


def _plain(rule: Any) -> Constraint:
    if isinstance(rule, Constraint):
        return rule
    raise UnsupportedMetric(
        f"`{rule}` holds per segment or per group of rows, which the game does not know; for all "
        "rows together write a bound such as `pp <= 10` or `recall >= 0.8`, for groups put an "
        "AdversarialMetricClassifier into OTLPThresholdClassifier(..., constraints=[...])"
    )


def _check_combinations(model: Any, constraints: tuple[Constraint, ...]) -> None:
    if model.threshold == "sign" and model.count == "observed":
        raise ValueError(
            "threshold='sign' needs count='expected': with the observed number of positives adding "
            "a constant to all scores changes nothing in training, so the sign of a score means "
            "nothing; write threshold='tuned' or 'train'"
        )
    if model.solver == "closed" and (model.count == "expected" or constraints):
        raise ValueError(
            "solver='closed' solves the game with count='observed' and without constraints; write "
            "solver='auto' or 'exact'"
        )
    if not model.fit_intercept and model.count == "observed":
        warnings.warn(
            "fit_intercept=False has no effect with count='observed', whose training knows no "
            "intercept; the cut is folded into intercept_ in any case",
            InertParameterWarning,
            stacklevel=4,
        )
