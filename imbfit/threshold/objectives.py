"""Maximise an objective over a region: linear, ratio of linear, or rising in tp for given pp.

Linear objectives are one selection problem. A ratio N / D with D > 0 takes Dinkelbach's steps: with
the ratio p/q of the choice at hand, maximise q N - p D; at zero the choice is the best one. MCC and
G-mean rise with tp for a given pp, so "better than L" is tp > h(pp), and an interval of pp is
cleared by a line below h.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from imbfit.confusion import Confusion
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Expr, describe
from imbfit.named import gmean, mcc
from imbfit.reading import value
from imbfit.threshold.region import Region, _sign
from imbfit.threshold.rising import rise
from imbfit.threshold.rows import Affine, affine_pair, to_ratio
from imbfit.threshold.solving import Outcome, Search, at, solve
from imbfit.threshold.table import CandidateTables, Sums


def maximise(
    objective: Expr, search: Search, region: Region, *, greater_is_better: bool
) -> Outcome:
    """Find the best choice of candidates in a region.

    Parameters
    ----------
    objective : Expr
        Read on the whole.
    search : Search
        Tables, time limit, seed.
    region : Region
        The constraints.
    greater_is_better : bool
        Direction.

    Returns
    -------
    Outcome

    Raises
    ------
    UnsupportedMetric
        If the objective is of none of the three kinds; the message names the sub-expression.
    """
    return _solver(objective, search, greater_is_better=greater_is_better)(region)


def _solver(
    objective: Expr, search: Search, *, greater_is_better: bool
) -> Callable[[Region], Outcome]:
    tables = search.tables
    if objective in (mcc, gmean):
        if not greater_is_better:
            raise UnsupportedMetric(f"{describe(objective)} can only be maximised over segments")
        return lambda region: rise(objective, search, region)
    numerator, denominator, scale = _fraction_of_sums(objective, tables)
    oriented = 1 if greater_is_better else -1
    numerator = _times(numerator, oriented)
    if not denominator.coefficients:
        factor = scale / denominator.constant
        if factor < 0:
            numerator, factor = _times(numerator, -1), -factor
        return lambda region: _linear(numerator, factor, search, region)

    def ratio(region: Region) -> Outcome:
        found = _ratio(numerator, denominator, scale, search, region)
        if found.status == "infeasible" or _least(denominator, tables, region) > 0:
            return found
        return _or_empty(found, objective, (numerator, denominator), search, region, sign=oriented)

    return ratio


def _fraction_of_sums(objective: Expr, tables: CandidateTables) -> tuple[Affine, Affine, Fraction]:
    """Read an objective as ``scale * N / D`` with a positive scale and D >= 0."""
    advice = (
        f"over {len(tables.segments)} segments an objective is linear in the counts, a ratio of "
        "two such sums, mcc or gmean; with one segment any expression goes"
    )
    try:
        pair = affine_pair(to_ratio(objective, tables.columns), tables, None)
    except UnsupportedMetric as error:
        raise UnsupportedMetric(f"objective `{describe(objective)}`: {error}; {advice}") from None
    if pair is None:
        raise UnsupportedMetric(
            f"objective `{describe(objective)}` multiplies counts that depend on the thresholds; "
            f"{advice}"
        )
    numerator, denominator, scale = pair
    if not denominator.coefficients and denominator.constant == 0:
        raise UnsupportedMetric(f"objective `{describe(objective)}` divides by zero")
    sign = _sign(denominator, tables, slice(0, int(tables.starts[-1])))
    if sign == 0:
        raise UnsupportedMetric(
            f"objective `{describe(objective)}` has a denominator that may be negative or positive "
            f"depending on the thresholds; {advice}"
        )
    if sign < 0:
        numerator, denominator = _times(numerator, -1), _times(denominator, -1)
    return (
        (_times(numerator, -1), denominator, -scale)
        if scale < 0
        else (
            numerator,
            denominator,
            scale,
        )
    )


def _times(form: Affine, factor: int) -> Affine:
    return Affine(
        form.constant * factor, {symbol: c * factor for symbol, c in form.coefficients.items()}
    )


def _less(form: Affine, other: Affine, p: int, q: int) -> Affine:
    """Return ``q * form - p * other``."""
    coefficients = {symbol: q * c for symbol, c in form.coefficients.items()}
    for symbol, c in other.coefficients.items():
        coefficients[symbol] = coefficients.get(symbol, 0) - p * c
    return Affine(q * form.constant - p * other.constant, coefficients)


def _linear(form: Affine, factor: Fraction, search: Search, region: Region) -> Outcome:
    answer = solve(form, search, region)
    unit = float(factor)
    if answer.choice is None:
        return Outcome(None, -np.inf, answer.bound * unit, answer.status)
    value = float(factor * answer.value)
    bound = value if answer.status == "optimal" else max(value, answer.bound * unit)
    return Outcome(answer.choice, value, bound, answer.status)


def _ratio(
    numerator: Affine, denominator: Affine, scale: Fraction, search: Search, region: Region
) -> Outcome:
    """Dinkelbach's steps on ``scale * N / D``, in exact fractions."""
    tables = search.tables
    # a start and better choices need no proof, so they take a part of the time
    answer = solve(numerator, search.part(), region)
    if answer.choice is None and answer.status == "unknown":
        answer = solve(numerator, search, region)
    if answer.choice is not None and at(denominator, tables, answer.choice) == 0:
        # the ratio has no value here; look for any choice where it has one
        if at(numerator, tables, answer.choice) > 0:
            return Outcome(answer.choice, np.inf, np.inf, "optimal")
        widest = solve(denominator, search, region)
        if widest.choice is None or at(denominator, tables, widest.choice) == 0:
            return Outcome(answer.choice, -np.inf, -np.inf, answer.status)
        answer = widest
    if answer.choice is None:
        return Outcome(None, -np.inf, np.inf, answer.status)
    choice = answer.choice
    unit = float(scale)
    least = _least(denominator, tables, region)
    for step in itertools.count(1):
        top, bottom = at(numerator, tables, choice), at(denominator, tables, choice)
        ratio = Fraction(top, bottom)
        search.say(f"ratio step {step}: {float(scale * ratio):.9g}")
        p, q = ratio.numerator, ratio.denominator
        form = _less(numerator, denominator, p, q)
        answer = solve(form, search.part(), region, hint=choice, target=0)
        open_ = answer.status not in ("optimal", "infeasible") and answer.bound > 0
        if open_ and (answer.choice is None or answer.value <= 0) and not search.late:
            answer = solve(form, search, region, hint=choice, target=0)
        value = float(scale * ratio)
        if answer.choice is not None and answer.value > 0:
            choice = answer.choice
            if at(denominator, tables, choice) == 0:
                return Outcome(choice, np.inf, np.inf, "optimal")
            if not search.late:
                continue
            value = float(
                scale * Fraction(at(numerator, tables, choice), at(denominator, tables, choice))
            )
        elif answer.bound <= 0 or answer.status in ("optimal", "infeasible"):
            return Outcome(choice, value, value, "optimal")
        # (N - r D) is at most this, and D at least that
        gain = max(0.0, answer.bound) / q / max(1, least)
        return Outcome(choice, value, max(value, float(scale * ratio) + unit * gain), "feasible")
    raise AssertionError  # pragma: no cover


def _or_empty(
    found: Outcome,
    objective: Expr,
    parts: tuple[Affine, Affine],
    search: Search,
    region: Region,
    *,
    sign: int,
) -> Outcome:
    """Take a choice where the ratio is 0/0 if what the language makes of that is better."""
    tables = search.tables
    numerator, denominator = parts
    sums = denominator.exact(tables, slice(0, int(tables.starts[-1])), constant=False)
    lowest = np.minimum.reduceat(np.where(region.allowed, sums, sums.max()), tables.starts[:-1])
    empty = region.within(sums == np.repeat(lowest, np.diff(tables.starts)))
    # 0/0 is judged by whether the prediction is perfect
    tp, pp = tables.rows.tp, tables.rows.pp
    perfect = (tp == pp) & (tp == np.repeat(tables.rows.ap, np.diff(tables.starts)))
    for part in (empty, empty.within(perfect)):
        answer = solve(numerator, search, part)
        if answer.choice is None:
            if answer.status == "unknown":
                found = replace(found, bound=np.inf, status="feasible")
            continue
        if at(numerator, tables, answer.choice) == at(denominator, tables, answer.choice) == 0:
            counts = counts_of(tables, answer.choice)
            reached = sign * float(value(objective, counts, greater_is_better=sign > 0))
            if found.choice is None or reached > found.value:
                found = Outcome(answer.choice, reached, max(found.bound, reached), found.status)
    return found


def counts_of(tables: CandidateTables, choice: np.ndarray) -> Confusion:
    """Real counts of the whole under a choice."""

    def real(sums: Sums, columns: dict[str, Confusion]) -> Confusion:
        tp, pp = (sum(int(v) for v in array[choice]) for array in (sums.tp, sums.pp))
        ap, n = (sum(int(v) for v in array) for array in (sums.ap, sums.n))
        scale = float(sums.scale)
        cells = [cell / scale for cell in (tp, pp - tp, ap - tp, n - pp - (ap - tp))]
        return Confusion.from_cells(cells[0], cells[1], cells[2], cells[3], columns)

    return real(tables.rows, {name: real(sums, {}) for name, sums in tables.columns.items()})


def _least(form: Affine, tables: CandidateTables, region: Region) -> int:
    values = form.exact(tables, slice(0, int(tables.starts[-1])), constant=False)
    values = np.where(region.allowed, values, values.max())
    return form.constant + sum(int(v) for v in np.minimum.reduceat(values, tables.starts[:-1]))
