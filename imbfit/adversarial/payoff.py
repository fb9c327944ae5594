"""A metric as what the game pays: affine in the true positives, for each pair of sizes.

With pp predicted and ap actual positives among n rows, every metric of the family

    sum_j (a_j tp + b_j tn + f_j(pp, ap)) / g_j(pp, ap)

is ``intercept(pp, ap) + slope(pp, ap) * tp``, and these two tables are all that a solver reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.lines import Line
from imbfit.confusion import Confusion
from imbfit.exceptions import UnsupportedMetric
from imbfit.expressions import Column, Constraint, Expr, Op, Threshold, describe, walk
from imbfit.reading import evaluate, margin, value

__all__ = ["Payoff", "payoff_of", "requirement_of"]

Floats: TypeAlias = NDArray[np.float64]
Function: TypeAlias = Callable[[Any, Any, Any, Any], Any]

#: The special cases of the paper: what a metric of true positives is worth where nobody is
#: predicted or actually positive, and a metric of true negatives where everybody is.
SPECIAL_CASES = ("positive", "negative")
_AFFINE = 1e-9


@dataclass(frozen=True)
class Payoff:
    """What the predictor gets, as a function of the sizes; greater is better.

    Attributes
    ----------
    name : str
        For messages.
    source : Expr, Constraint or callable
        Where it comes from. A constraint pays its slack, and a callable gets (tp, pp, ap, n).
    greater_is_better : bool
        Direction of the source; a payoff that is better when lower is paid with its sign changed.
    special_cases : tuple of {"positive", "negative"} or None
        None for the language's rule for 0/0.
    """

    name: str
    source: Any
    greater_is_better: bool = True
    special_cases: tuple[str, ...] | None = None

    def tables(self, pp: Any, ap: Any, n: float) -> tuple[Floats, Floats]:
        """Return intercept and slope for sizes that broadcast against each other.

        Parameters
        ----------
        pp, ap : float or ndarray
            Predicted and actual positives, between 0 and `n`.
        n : float
            All rows.

        Returns
        -------
        intercept : ndarray of float
            The payoff without true positives; the payoff itself where the sizes leave them no
            choice (nobody or everybody).
        slope : ndarray of float
            What one more adds; 0 where they have no choice.

        Raises
        ------
        UnsupportedMetric
            If a value is not affine in the true positives, or undefined for other sizes than these.
        """
        pp, ap = np.broadcast_arrays(np.asarray(pp, float), np.asarray(ap, float))
        n = float(n)
        if not pp.size:
            return np.zeros(pp.shape), np.zeros(pp.shape)
        sizes = _Sizes(pp, ap, n)
        forced = sizes.forced
        if self._is_formula:
            intercept, slope = _tables_of_formula(self.source, self.name, sizes)
        else:
            intercept, slope = _tables_of_function(self.source, self.name, sizes)
        odd = ~(np.isfinite(intercept) & np.isfinite(slope)) & ~forced
        if odd.any():
            at = np.argwhere(odd)[0]
            raise UnsupportedMetric(
                f"{self.name} has no finite value for {pp[tuple(at)]:g} predicted and "
                f"{ap[tuple(at)]:g} actual positives among {n:g} rows; "
                + (
                    "rewrite it so that a division by zero or a root of a negative number happens "
                    "only where nobody or everybody is positive"
                    if self._is_formula
                    else "it is called with (tp, pp, ap, n) and must return a number"
                )
            )
        self._settle(intercept, slope, sizes)
        return (intercept, slope) if self.greater_is_better else (-intercept, -slope)

    def values(self, tp: Any, pp: Any, ap: Any, n: float) -> Floats:
        """Return the payoff itself.

        Parameters
        ----------
        tp, pp, ap : float or ndarray
            Counts.
        n : float
            All rows.

        Returns
        -------
        ndarray of float
        """
        intercept, slope = self.tables(pp, ap, n)
        return np.asarray(intercept + slope * np.asarray(tp, float))

    def range(self, ap: float, n: float) -> float:
        """Return the distance between the best and the worst value.

        Parameters
        ----------
        ap : float
            Actual positives.
        n : float
            All rows.

        Returns
        -------
        float
            0 for a constant.
        """
        sizes = np.unique(np.concatenate([np.linspace(0.0, n, 101), [ap, n - ap]]))
        intercept, slope = self.tables(sizes, ap, n)
        ends = [intercept + slope * tp for tp in _Sizes(sizes, np.asarray(ap), n).ends]
        return float(np.max(ends) - np.min(ends))

    @property
    def keeps_scale(self) -> bool:
        """Whether twice as many rows of each kind change it by a factor at most.

        A rate and a cost do; a bound on a count, such as ``pp <= 20``, does not, and means
        something else for a part of the rows.
        """
        n = 24.0
        pp, ap = np.meshgrid(np.arange(1.0, n), np.arange(1.0, n))
        ends = _Sizes(pp, ap, n).ends
        one = np.array([self.values(tp, pp, ap, n) for tp in ends])
        two = np.array([self.values(2.0 * tp, 2.0 * pp, 2.0 * ap, 2.0 * n) for tp in ends])
        largest = np.unravel_index(np.argmax(np.abs(one)), one.shape)
        factor = two[largest] / one[largest] if one[largest] else 1.0
        return bool(
            factor > 0.0 and np.allclose(two, factor * one, rtol=0, atol=1e-9 * np.abs(two).max())
        )

    @property
    def _is_formula(self) -> bool:
        return isinstance(self.source, (Expr, Constraint))

    def _settle(self, intercept: Floats, slope: Floats, sizes: _Sizes) -> None:
        """Fill in the cells in which the true positives have no choice."""
        pp, ap, n, forced = sizes.pp, sizes.ap, sizes.n, sizes.forced
        if self.special_cases is not None:
            for case, size in (("positive", 0.0), ("negative", n)):
                if case in self.special_cases:
                    edge = (pp == size) | (ap == size)
                    intercept[edge] = np.where((pp == ap)[edge], 1.0, 0.0)
                    slope[edge] = 0.0
        elif self._is_formula:
            k, actual = pp[forced], ap[forced]
            # chosen, and not computed: a rounded count below 0 would have no root
            tp = np.where(k == n, actual, np.where(actual == n, k, 0.0))
            tn = np.where((k == n) | (actual == n), 0.0, n - k - actual)
            intercept[forced] = self._exact(Confusion.from_cells(tp, k - tp, actual - tp, tn))
            slope[forced] = 0.0
        else:
            intercept[forced] += slope[forced] * sizes.ends[0][forced]
            slope[forced] = 0.0
        if not (np.isfinite(intercept[forced]) & np.isfinite(slope[forced])).all():
            cure = "return a number for every count"
            if self.special_cases is not None:
                cure = (
                    f"special_cases={self.special_cases!r} leaves out a case of it: give "
                    "('positive', 'negative'), or None for the rule of the metric language"
                )
            raise UnsupportedMetric(
                f"{self.name} is not finite where nobody or everybody is positive; {cure}"
            )

    def _exact(self, counts: Confusion) -> Floats:
        if isinstance(self.source, Constraint):
            return margin(self.source, counts)[0]
        return value(self.source, counts, greater_is_better=self.greater_is_better)


def payoff_of(
    metric: Expr | Function,
    *,
    greater_is_better: bool,
    special_cases: Iterable[str] | None = None,
) -> Payoff:
    """Return a metric as a payoff.

    Parameters
    ----------
    metric : Expr or callable
        An expression, or a function of (tp, pp, ap, n).
    greater_is_better : bool
        Its direction.
    special_cases : iterable of {"positive", "negative"}, default=None
        The paper's values where nobody ("positive") or everybody ("negative") is predicted or
        actually positive: 1 if both are, 0 if one is. None takes the language's rule for 0/0.

    Returns
    -------
    Payoff

    Raises
    ------
    UnsupportedMetric
        If the metric is not affine in the true positives; the message names the part at fault.
    """
    cases = None if special_cases is None else tuple(special_cases)
    if cases is not None:
        unknown = [case for case in cases if case not in SPECIAL_CASES]
        if unknown:
            raise ValueError(
                f"special_cases={cases!r}: allowed are 'positive' and 'negative', or None for the "
                "rule of the metric language"
            )
        if not greater_is_better:
            raise ValueError(
                "special_cases are 1 for a perfect prediction and 0 otherwise, so they need a "
                "metric that is better when greater; leave them out"
            )
    if isinstance(metric, Expr):
        _refuse_rows(metric, describe(metric))
        return Payoff(describe(metric), metric, greater_is_better, cases)
    if not callable(metric):
        raise TypeError(
            f"metric={metric!r}: give an expression, its text, or a function of (tp, pp, ap, n)"
        )
    name = getattr(metric, "__name__", repr(metric))
    return Payoff(name, metric, greater_is_better, cases)


def requirement_of(constraint: Constraint) -> Payoff:
    """Return a constraint as a payoff that must be at least 0: its slack.

    Parameters
    ----------
    constraint : Constraint
        Both sides must be affine in the true positives.

    Returns
    -------
    Payoff
        A ratio that is 0/0 is vacuous, with a slack of 0.

    Raises
    ------
    UnsupportedMetric
        If it reads per-row amounts or the threshold itself.
    """
    for side in (constraint.left, constraint.right):
        _refuse_rows(side, constraint.label)
    return Payoff(constraint.label, constraint)


def _refuse_rows(expr: Expr, name: str) -> None:
    for node in walk(expr):
        if isinstance(node, Column):
            raise UnsupportedMetric(
                f"{name}: {describe(node)} sums per-row amounts, and the game knows counts only; "
                "use counts, and give the amounts as sample_weight or to OTLPThresholdClassifier"
            )
        if isinstance(node, Threshold):
            raise UnsupportedMetric(
                f"{name}: the game knows counts and no threshold of scores; bound a count or a "
                "rate, such as pp <= 100 or precision >= 0.5"
            )


@dataclass(frozen=True)
class _Sizes:
    """Predicted and actual positives, of one shape, among n rows."""

    pp: Floats
    ap: Floats
    n: float

    @property
    def forced(self) -> Any:
        """Where the true positives have no choice."""
        return (self.pp == 0) | (self.pp == self.n) | (self.ap == 0) | (self.ap == self.n)

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The fewest and the most true positives."""
        return np.maximum(0.0, self.pp + self.ap - self.n), np.minimum(self.pp, self.ap)


def _tables_of_formula(
    source: Expr | Constraint, name: str, sizes: _Sizes
) -> tuple[Floats, Floats]:
    pp, ap, n = sizes.pp, sizes.ap, sizes.n
    counts = Confusion(Line(np.zeros_like(pp), np.ones_like(pp)), pp, ap, np.full_like(pp, n))
    sides = (source.left, source.right) if isinstance(source, Constraint) else (source,)
    found = [_evaluated(side, counts, name) for side in sides]
    result = found[0]
    if isinstance(source, Constraint):
        result = found[0] - found[1] if source.sense == ">=" else found[1] - found[0]
    line = result if isinstance(result, Line) else Line(result, 0.0)
    intercept, slope = (
        np.array(np.broadcast_to(x, pp.shape)) for x in (line.intercept, line.slope)
    )
    return intercept, slope


def _evaluated(expr: Expr, counts: Confusion, name: str) -> Any:
    with np.errstate(all="ignore"):
        try:
            return evaluate(expr, counts, number=np.float64)
        except UnsupportedMetric as error:
            culprit = describe(_culprit(expr, counts))
            raise UnsupportedMetric(
                f"{name} is not affine in the true positives, and the game can't be played for it: "
                f"in {culprit}, {error}"
            ) from None


def _culprit(expr: Expr, counts: Confusion) -> Expr:
    """Return the smallest sub-expression that can't be read."""
    if isinstance(expr, Op):
        for side in (expr.left, expr.right):
            try:
                evaluate(side, counts, number=np.float64)
            except UnsupportedMetric:
                return _culprit(side, counts)
    return expr


def _tables_of_function(function: Function, name: str, sizes: _Sizes) -> tuple[Floats, Floats]:
    """Read a function of (tp, pp, ap, n) at the ends of the true positives, and check between."""
    low, high = sizes.ends
    at_low, at_high = (_called(function, name, tp, sizes) for tp in (low, high))
    width = np.where(high > low, high - low, 1.0)
    slope = np.where(high > low, (at_high - at_low) / width, 0.0)
    size = np.maximum(np.maximum(np.abs(at_low), np.abs(at_high)), 1e-300)
    for share in (0.3, 0.8):
        between = _called(function, name, low + share * (high - low), sizes)
        straight = at_low + share * (at_high - at_low)
        bent = ~sizes.forced & (np.abs(between - straight) > _AFFINE * size)
        if bent.any():
            at = tuple(np.argwhere(bent)[0])
            raise UnsupportedMetric(
                f"{name} is not affine in the true positives: with {sizes.pp[at]:g} predicted and "
                f"{sizes.ap[at]:g} actual positives among {sizes.n:g} rows it goes from "
                f"{at_low[at]:.6g} at tp={low[at]:g} to {at_high[at]:.6g} at tp={high[at]:g}, and "
                f"is {between[at]:.6g} in place of {straight[at]:.6g} between; the game needs a "
                "straight line"
            )
    return np.array(at_low - slope * low), slope


def _called(function: Function, name: str, tp: Floats, sizes: _Sizes) -> Floats:
    shape = sizes.pp.shape
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(function(tp, sizes.pp, sizes.ap, sizes.n), float)
            vectorised = found.shape in {(), shape}
        except Exception:  # noqa: BLE001  whatever a function of plain numbers makes of arrays
            vectorised = False
        if not vectorised:
            # a function of plain numbers, with an `if` in it
            try:
                found = np.vectorize(function, otypes=[float])(tp, sizes.pp, sizes.ap, sizes.n)
            except Exception as error:
                raise TypeError(
                    f"{name} is called as a function of (tp, pp, ap, n) and must return a number; "
                    f"it failed with {type(error).__name__}: {error}"
                ) from error
    return np.array(np.broadcast_to(found, shape))
