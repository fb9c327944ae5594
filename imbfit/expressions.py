"""The nodes of the metric language: expressions, constraints and their scopes.

Nodes hold data. What they mean lives elsewhere: :mod:`imbfit.metrics` evaluates them on numbers,
``imbfit.threshold.rows`` turns them into exact integer rows.
"""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = ("tp", "fp", "fn", "tn", "pp", "pn", "ap", "an", "n")
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "**": 3}
_ATOM = 4
# Python's own recursion limit is met by hashing, pickling and reading a tree some way above this.
_DEEPEST = 150


@dataclass(frozen=True, repr=False)
class Expr:
    """A formula over the counts of a confusion matrix.

    Built from the symbols ``tp fp fn tn pp pn ap an n`` with ``+ - * / **`` and numbers;
    ``>=`` and ``<=`` make a :class:`Constraint`. Two expressions are equal when their formulas
    are. The name and the direction ride along and are no part of equality.

    Parameters
    ----------
    name : str, default=None
        What reports and errors call it.
    spelling : str, default=None
        The word that writes it, such as ``f1``.
    greater_is_better : bool, default=None
        Its direction, where it has one.
    """

    name: str | None = field(default=None, compare=False, kw_only=True)
    spelling: str | None = field(default=None, compare=False, kw_only=True)
    greater_is_better: bool | None = field(default=None, compare=False, kw_only=True)

    # numpy and pandas would otherwise swallow the operator and build arrays of expressions; and
    # the brackets of a count would make it a sequence
    __array_ufunc__ = None
    __iter__ = None

    def named(self, name: str, *, greater_is_better: bool | None = None) -> Self:
        """Return the same formula under a name of your own, with a direction.

        Parameters
        ----------
        name : str
            Used by reports and errors.
        greater_is_better : bool, default=None
            True to maximise, False to minimise, None to keep the direction it has.

        Returns
        -------
        Expr
            An equal expression.

        Examples
        --------
        >>> from imbfit.metrics import fn, fp
        >>> loss = (5 * fp + fn["amount"]).named("loss", greater_is_better=False)
        >>> loss
        5 * fp + fn["amount"]
        >>> loss.name
        'loss'
        """
        if not is_text(name):
            raise TypeError(f"named({name!r}): the name is a text that is not empty")
        if greater_is_better is None:
            greater_is_better = self.greater_is_better
        return dataclasses.replace(
            self, name=name, spelling=None, greater_is_better=greater_is_better
        )

    def __call__(
        self,
        y_true: Any,
        y_pred: Any,
        *surplus: Any,
        greater_is_better: bool | None = None,
        sample_weight: Any = None,
        pos_label: Any = None,
        amounts: Any = None,
    ) -> float:
        """Score predicted labels; see :func:`imbfit.metrics.score`.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_rows,)
            True and predicted labels, of at most two kinds.
        *surplus : object
            Anything more is refused: `scoring=` takes ``scorer(metric)``, not the metric.
        greater_is_better : bool, default=None
            The direction; it is asked for where a formula without one meets 0/0.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts; 0 is no row.
        pos_label : label, default=None
            The positive label; 1 of {0, 1} or {-1, 1}, else the last of the sorted two.
        amounts : mapping of str to array-like, or frame, default=None
            Per-row columns, for metrics such as ``fn["amount"]``.

        Returns
        -------
        float
            The value.

        Raises
        ------
        TypeError
            If an estimator or more than two arrays come.
        """
        from imbfit.metrics import score  # the node knows its reading only when it is asked for it

        if surplus:
            raise TypeError(
                f"{describe(self)} scores labels, (y_true, y_pred), and got {2 + len(surplus)} "
                "arguments; for scoring= of cross_validate or GridSearchCV write "
                f"scorer({describe(self)}), from imbfit.metrics"
            )
        return score(
            self,
            y_true,
            y_pred,
            greater_is_better=greater_is_better,
            sample_weight=sample_weight,
            pos_label=pos_label,
            amounts=amounts,
        )

    def __add__(self, other: Any) -> Expr:
        return _op("+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _op("+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _op("-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _op("-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _op("*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _op("*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _op("/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _op("/", other, self)

    def __pow__(self, other: Any) -> Expr:
        exponent = as_expr(other)
        if not isinstance(exponent, Number):
            raise TypeError(
                f"the exponent of ({self}) ** ({exponent}) must be a number, such as 2 or 0.5"
            )
        return Op("**", self, exponent)

    def __rpow__(self, other: Any) -> NoReturn:
        raise TypeError(f"{other!r} ** ({self}): the exponent must be a number, such as 2 or 0.5")

    def __neg__(self) -> Expr:
        return Op("*", Number(-1), self)

    def __pos__(self) -> Expr:
        return self

    @overload
    def __ge__(self, other: Gap) -> Scope: ...

    @overload
    def __ge__(self, other: Any) -> Constraint: ...

    def __ge__(self, other: Any) -> Constraint | Scope:
        return other <= self if isinstance(other, Gap) else Constraint(self, ">=", as_expr(other))

    def __le__(self, other: Any) -> Constraint:
        return other >= self if isinstance(other, Gap) else Constraint(self, "<=", as_expr(other))

    def __gt__(self, other: Any) -> NoReturn:
        raise TypeError(f"write {describe(self)} >= {other}: constraints are closed, use >= or <=")

    def __lt__(self, other: Any) -> NoReturn:
        raise TypeError(f"write {describe(self)} <= {other}: constraints are closed, use >= or <=")

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the expression {describe(self)} has no truth value; compare it with a number to make "
            f"a constraint, such as `{describe(self)} >= 0.5`, or test `is not None`"
        )

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: Any) -> Expr:
        return self

    def __str__(self) -> str:
        return write(self)

    def __repr__(self) -> str:
        return write(self)


@dataclass(frozen=True, repr=False)
class Number(Expr):
    """A constant."""

    value: float


@dataclass(frozen=True, repr=False)
class Count(Expr):
    """One of the counts ``tp fp fn tn pp pn ap an n``."""

    count: str

    def __getitem__(self, column: str) -> Column:
        if not is_text(column):
            raise TypeError(
                f"{self.count}[{column!r}]: name a column of the amounts by a string, "
                f'such as {self.count}["amount"]'
            )
        return Column(self.count, column)


@dataclass(frozen=True, repr=False)
class Column(Expr):
    """The sum of a per-row column over the rows of one count, such as ``fn["amount"]``."""

    count: str
    column: str


@dataclass(frozen=True, repr=False)
class Threshold(Expr):
    """The threshold itself; it can be bounded by a number and nothing else."""


@dataclass(frozen=True, repr=False)
class Op(Expr):
    """Two expressions joined by ``+ - * /`` or ``**``."""

    symbol: str
    left: Expr
    right: Expr
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        depth = 1 + max(getattr(side, "depth", 0) for side in (self.left, self.right))
        if depth > _DEEPEST:
            raise ValueError(
                f"the formula nests more than {_DEEPEST} operations; sum the parts beforehand, "
                "for instance into one per-row column"
            )
        object.__setattr__(self, "depth", depth)


def is_number(value: Any) -> bool:
    """Tell whether `value` is a real scalar; a bool is none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    """Tell whether `value` is a text that is not empty."""
    return isinstance(value, str) and value != ""


def as_expr(value: Any) -> Expr:
    """Return `value` as an expression; numbers become constants, everything else is refused."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Fraction) and value.denominator != 1:
        return Op("/", Number(value.numerator), Number(value.denominator))
    if is_number(value):
        return Number(_finite(value))
    if isinstance(value, Gap):
        raise TypeError("max_gap(...) can only be bounded from above: max_gap(recall) <= 0.05")
    raise TypeError(
        f"{value!r} of type {type(value).__name__} can't be part of a metric: write a number, a "
        "count (tp fp fn tn pp pn ap an n) or a metric made of them"
    )


def _finite(value: Any) -> float:
    number: float
    try:
        if isinstance(value, (numbers.Integral, Fraction)):
            number = int(value)
        elif isinstance(value, float):
            number = float(value)
        else:
            # the shortest text, so that a 0.9 in single precision still means nine tenths
            number = float(str(value))
        if math.isfinite(number):
            return number + 0  # no -0.0, which is equal to 0.0 but written otherwise
    except OverflowError:
        raise ValueError("a number in a metric is too large, above 1e308") from None
    raise ValueError(f"{value!r} can't be part of a metric: write a finite number")


def _op(symbol: str, left: Any, right: Any) -> Expr:
    return Op(symbol, as_expr(left), as_expr(right))


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every node of `expr`, parents first."""
    yield expr
    if isinstance(expr, Op):
        yield from walk(expr.left)
        yield from walk(expr.right)


def columns_of(rule: Expr | Constraint | Scope) -> set[str]:
    """Names of the per-row columns that an expression or a constraint reads."""
    if isinstance(rule, Scope):
        return columns_of(rule.constraint)
    if isinstance(rule, Constraint):
        return columns_of(rule.left) | columns_of(rule.right)
    return {node.column for node in walk(rule) if isinstance(node, Column)}


# --------------------------------------------------------------------------------------------
# Constraints


class Rule:
    """What constraints and scopes share: no truth value, and no ``&``."""

    __array_ufunc__ = None

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the constraint `{self}` has no truth value. A chain such as 0.2 <= precision <= 0.9 "
            "keeps only half of itself in Python: give two constraints, "
            "[precision >= 0.2, precision <= 0.9]"
        )

    def __and__(self, other: Any) -> NoReturn:
        raise TypeError(f"constraints are not joined by &: give a list, [{self}, {other}]")

    __rand__ = __and__

    def __copy__(self) -> Rule:
        return self

    def __deepcopy__(self, memo: Any) -> Rule:
        return self

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class Constraint(Rule):
    """A bound on an expression, ``left >= right`` or ``left <= right``.

    A number on the left changes sides: ``0.5 <= precision`` is ``precision >= 0.5``.

    Parameters
    ----------
    left : Expr
        What is bounded.
    sense : {">=", "<="}
        From below or from above.
    right : Expr
        The bound, a number or another expression.
    """

    left: Expr
    sense: str
    right: Expr

    def __post_init__(self) -> None:
        sides = (self.left, self.right)
        if any(isinstance(node, Threshold) for side in sides for node in walk(side)):
            number = next((side for side in sides if isinstance(side, Number)), None)
            if number is None or not any(isinstance(side, Threshold) for side in sides):
                raise TypeError(
                    f"`{self}`: the threshold itself can only be bounded by a number, "
                    "such as threshold >= 0.3"
                )
        if isinstance(self.left, Number) and not isinstance(self.right, Number):
            object.__setattr__(self, "left", sides[1])
            object.__setattr__(self, "sense", "<=" if self.sense == ">=" else ">=")
            object.__setattr__(self, "right", sides[0])

    def __str__(self) -> str:
        return f"{write(self.left, spell=True)} {self.sense} {write(self.right, spell=True)}"

    @property
    def label(self) -> str:
        """The constraint as reports show it, with the names that users gave."""
        return f"{describe(self.left)} {self.sense} {describe(self.right)}"


@dataclass(frozen=True, repr=False)
class Scope(Rule):
    """Where a constraint holds: in each segment, in one, between segments, or as a capacity.

    Parameters
    ----------
    kind : {"each_segment", "in_segment", "max_gap", "capacity"}
        Which of these.
    constraint : Constraint or Scope
        The constraint; that of a capacity is ``pp <= limit``.
    key : hashable, default=None
        The segment, or what a capacity is per.
    """

    kind: str
    constraint: Constraint | Scope
    key: Any = None

    def __str__(self) -> str:
        return self._text(str(self.constraint), spell=True)

    @property
    def bound(self) -> Constraint:
        """The constraint inside, without its scopes."""
        inner = self.constraint
        return inner if isinstance(inner, Constraint) else inner.bound

    @property
    def label(self) -> str:
        """The constraint as reports show it, with the names that users gave."""
        return self._text(self.constraint.label, spell=False)

    def _text(self, inner: str, *, spell: bool) -> str:
        if self.kind == "each_segment":
            return f"{inner} in each segment"
        if self.kind == "in_segment":
            return f"{inner} in segment {write_key(self.key)}"
        bound = self.bound
        left, right = bound.left, bound.right
        if self.kind == "max_gap":
            gap = write(left, spell=True) if spell else describe(left)
            return f"max_gap({gap}) <= {write(right)}"
        per = "" if self.key is None else f", per={write_key(self.key)}"
        return f"capacity({write(right)}{per})"


@dataclass(frozen=True, repr=False)
class Gap:
    """The largest difference of a metric between two segments, waiting for its bound."""

    expr: Expr

    __array_ufunc__ = None

    def __le__(self, other: Any) -> Scope:
        bound = as_expr(other)
        if not isinstance(bound, Number) or bound.value < 0:
            raise ValueError(f"{self} <= {other}: the bound must be a number of at least 0")
        return Scope("max_gap", Constraint(self.expr, "<=", bound))

    def __ge__(self, other: Any) -> NoReturn:
        raise TypeError(f"a gap can only be bounded from above: {self} <= {other}")

    __lt__ = __gt__ = __ge__

    def __bool__(self) -> NoReturn:
        raise TypeError(f"write {self} <= 0.05: a gap has no truth value")

    def __repr__(self) -> str:
        return f"max_gap({write(self.expr, spell=True)})"


# --------------------------------------------------------------------------------------------
# Text


def write(expr: Expr, *, spell: bool = False) -> str:
    """Write `expr` as text that parses back to an equal expression.

    With `spell`, metrics that have a word of their own (``f1``) are written by it.
    """
    return _write(expr, spell=spell, names=False)[0]


def describe(expr: Expr) -> str:
    """Write `expr` for people: by its name where it has one, else as a formula of names."""
    return _write(expr, spell=True, names=True)[0]


def _write(expr: Expr, *, spell: bool, names: bool) -> tuple[str, int]:
    if names and expr.name is not None:
        # a free name may hold spaces or signs, so inside a formula it gets brackets
        plain = expr.name == expr.spelling or expr.name.isidentifier()
        return expr.name, _ATOM if plain else 0
    if spell and expr.spelling is not None:
        return expr.spelling, _ATOM
    if isinstance(expr, Number):
        # a negative number binds like a product, so that (-2) ** 2 keeps its brackets
        return repr(expr.value), _ATOM if expr.value >= 0 else _PRECEDENCE["*"]
    if isinstance(expr, Count):
        return expr.count, _ATOM
    if isinstance(expr, Column):
        return f"{expr.count}[{write_key(expr.column)}]", _ATOM
    if not isinstance(expr, Op):
        return "threshold", _ATOM
    own = _PRECEDENCE[expr.symbol]
    left, left_rank = _write(expr.left, spell=spell, names=names)
    right, right_rank = _write(expr.right, spell=spell, names=names)
    # + - * / group to the left, ** is not chained
    if left_rank < own or (expr.symbol == "**" and left_rank <= own):
        left = f"({left})"
    if right_rank <= own or (isinstance(expr.right, Number) and expr.right.value < 0):
        right = f"({right})"
    return f"{left} {expr.symbol} {right}", own


def write_key(key: Any) -> str:
    """Write a segment or column key as the parser reads it."""
    if isinstance(key, str):
        return json.dumps(str(key), ensure_ascii=not key.isprintable())
    if isinstance(key, tuple):
        inner = ", ".join(write_key(part) for part in key)
        return f"({inner},)" if len(key) == 1 else f"({inner})"
    return repr(key)


_Node = TypeVar("_Node", bound=Expr)


def spelled(expr: _Node, spelling: str, *, greater_is_better: bool) -> _Node:
    """Give a metric the word by which it is written, which is its name too, and its direction."""
    return dataclasses.replace(
        expr, name=spelling, spelling=spelling, greater_is_better=greater_is_better
    )
