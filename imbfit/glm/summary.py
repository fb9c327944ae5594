"""The table of coefficients and their standard errors: as text, as HTML, as a frame."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtri

__all__ = ["Summary"]

Floats: TypeAlias = NDArray[np.float64]

# Smaller p-values are shown as a bound: near 1e-308 floats lose digits, and then they are 0.
SMALLEST_P = 1e-300

NOT_IDENTIFIED = "not identified"
_COLUMNS = ("coefficient", "standard error", "z", "p-value", "lower", "upper")
_WIDTH = 100

# Colours come from the notebook, so that letters and lines show on dark and on light ground.
_CELL = "padding:0.15em 0.7em;text-align:right;white-space:nowrap"
_NAME = "padding:0.15em 0.7em;text-align:left;white-space:nowrap;font-weight:normal"
_LINE = ";border-bottom:1px solid currentColor;font-weight:600"
_TABLE = (
    "border-collapse:collapse;color:inherit;background:transparent;margin:0.4em 0;"
    "font-variant-numeric:tabular-nums"
)


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """A table of coefficients: how large they are, and how sure that is.

    The p-value is that of the hypothesis that a coefficient is 0, by the normal distribution. A
    coefficient with an infinite standard error is not identified: the rows can't tell its effect
    from that of other columns. It has neither z nor p-value (NaN), and its interval has no ends.

    Parameters
    ----------
    names : sequence of str
        Names of the coefficients.
    coef : array-like of float, shape (n_coef,)
        The coefficients.
    se : array-like of float, shape (n_coef,)
        Their standard errors; infinite where a coefficient is not identified.
    level : float, default=0.95
        Coverage of the confidence intervals.
    facts : sequence of (str, object), default=()
        Names and values that stand above the table, in this order.
    notes : sequence of str, default=()
        Sentences below the table.
    title : str, default="Coefficients"
        The first line.

    Raises
    ------
    ValueError
        If lengths differ, a standard error is negative, the level is not between 0 and 1, or two
        facts have the same name.

    Examples
    --------
    >>> from imbfit.glm.summary import Summary
    >>> summary = Summary(
    ...     ["intercept", "amount", "night"],
    ...     [-6.2, 0.831, 0.004],
    ...     [0.11, 0.02, 0.05],
    ...     facts=[("link", "logit"), ("rows kept", "12,400 of 1,000,000")],
    ... )
    >>> print(summary)
    Coefficients
    link       logit
    rows kept  12,400 of 1,000,000
    <BLANKLINE>
               coefficient  standard error       z  p-value  lower 95%  upper 95%
    intercept       -6.200           0.110  -56.36  <1e-300     -6.416     -5.984
    amount          0.8310          0.0200   41.55  <1e-300     0.7918     0.8702
    night           0.0040          0.0500    0.08   0.9362    -0.0940     0.1020
    """

    names: Sequence[str]
    coef: ArrayLike
    se: ArrayLike
    level: float = 0.95
    facts: Sequence[tuple[str, object]] = ()
    notes: Sequence[str] = ()
    title: str = "Coefficients"

    def __post_init__(self) -> None:
        names = tuple(str(name) for name in self.names)
        for field in ("coef", "se"):
            column = np.array(getattr(self, field), dtype=np.float64)
            if column.shape != (len(names),):
                raise ValueError(
                    f"{field} has the shape {column.shape}, but there are {len(names)} names; give "
                    "one number for each name"
                )
            column.flags.writeable = False
            object.__setattr__(self, field, column)
        if np.any(self._se < 0):
            j = int(np.flatnonzero(self._se < 0)[0])
            raise ValueError(
                f"the standard error of {names[j]!r} is {self._se[j]}; it must be 0 or more"
            )
        if not 0 < self.level < 1:
            raise ValueError(
                f"level is {self.level}; give the coverage of the intervals as a number between 0 "
                "and 1, such as 0.95"
            )
        facts = tuple((str(name), value) for name, value in self.facts)
        for name, _ in facts:
            if sum(name == other for other, _ in facts) > 1:
                raise ValueError(f"two facts are called {name!r}; give each a name of its own")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "facts", facts)
        object.__setattr__(self, "notes", tuple(str(note) for note in self.notes))

    @property
    def _coef(self) -> Floats:
        return np.asarray(self.coef, dtype=np.float64)

    @property
    def _se(self) -> Floats:
        return np.asarray(self.se, dtype=np.float64)

    @property
    def identified(self) -> NDArray[np.bool_]:
        """Whether each coefficient is identified: its standard error is not infinite."""
        return np.asarray(~np.isinf(self._se))

    @property
    def z(self) -> Floats:
        """Coefficients over standard errors; NaN where not identified."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.identified, self._coef / self._se, np.nan)

    @property
    def log_p_value(self) -> Floats:
        """Natural logarithms of the two-sided p-values, exact however small these are."""
        return np.asarray(np.log(2.0) + log_ndtr(-np.abs(self.z)), dtype=np.float64)

    @property
    def p_value(self) -> Floats:
        """Two-sided p-values, or 1e-300 where they are smaller than that."""
        return np.maximum(np.exp(self.log_p_value), SMALLEST_P)

    @property
    def interval(self) -> Floats:
        """Lower and upper ends of the confidence intervals, shape (n_coef, 2)."""
        reach = -ndtri((1.0 - self.level) / 2.0) * self._se
        return np.column_stack([self._coef - reach, self._coef + reach])

    def to_dict(self) -> dict[str, Any]:
        """Return the table as lists and plain numbers, which JSON can hold.

        Returns
        -------
        dict
            With the keys title, level, facts (a dict), notes (a list) and coefficients: a list of
            dicts with the keys name, coefficient, standard error, z, p-value, log p-value, lower
            and upper. What is not a finite number is None.

        Examples
        --------
        >>> from imbfit.glm.summary import Summary
        >>> Summary(["x"], [2.0], [1.0]).to_dict()["coefficients"][0]["z"]
        2.0
        """
        columns = {**self._numbers(), "log p-value": self.log_p_value}
        rows = []
        for j, name in enumerate(self.names):
            row: dict[str, Any] = {"name": name}
            for key, column in columns.items():
                number = float(column[j])
                row[key] = number if np.isfinite(number) else None
            rows.append(row)
        return {
            "title": self.title,
            "level": float(self.level),
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "coefficients": rows,
        }

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame.

        A p-value below 1e-300 is given as 1e-300; `log_p_value` has its logarithm.

        Returns
        -------
        pandas.DataFrame
            One row for each coefficient, with its name as index, and the columns coefficient,
            standard error, z, p-value, lower and upper.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_frame() needs pandas, which is not installed: write `pip install pandas`, or "
                "use to_dict()"
            ) from error
        index = pd.Index(self.names, name="name", dtype=object)
        return pd.DataFrame(self._numbers(), index=index)

    def text(self) -> str:
        """Return the table as plain text.

        Returns
        -------
        str
            The title, the facts, the table and the notes.
        """
        lines = [self.title]
        facts = [(_one_line(name), _one_line(value)) for name, value in self.facts]
        width = max((len(name) for name, _ in facts), default=0)
        lines += [f"{name:<{width}}  {value}".rstrip() for name, value in facts]
        lines.append("")
        table = [("", *self._header())]
        table += [(_one_line(name), *self._cells(j)) for j, name in enumerate(self.names)]
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
        for row in table:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
            lines.append("  ".join(cells).rstrip())
        if self.notes:
            lines.append("")
            for note in self.notes:
                lines += textwrap.wrap(note, _WIDTH) or [""]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        head = "".join(f'<th style="{_CELL}{_LINE}">{cell}</th>' for cell in self._header())
        rows = []
        for j, name in enumerate(self.names):
            cells = "".join(
                f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in self._cells(j)
            )
            rows.append(f'<tr><th scope="row" style="{_NAME}">{html.escape(name)}</th>{cells}</tr>')
        facts = "".join(
            f'<tr><th scope="row" style="{_NAME}">{html.escape(name)}</th>'
            f'<td style="{_CELL.replace("right", "left")}">{html.escape(str(value))}</td></tr>'
            for name, value in self.facts
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"<div><p><strong>{html.escape(self.title)}</strong></p>"
            + (f'<table style="{_TABLE}"><tbody>{facts}</tbody></table>' if facts else "")
            + f'<table style="{_TABLE}"><thead><tr><th style="{_NAME}{_LINE}"></th>{head}</tr>'
            + f"</thead><tbody>{''.join(rows)}</tbody></table>{notes}</div>"
        )

    def _numbers(self) -> dict[str, Floats]:
        lower, upper = self.interval.T
        columns = (self._coef, self._se, self.z, self.p_value, lower, upper)
        return dict(zip(_COLUMNS, columns, strict=True))

    def _header(self) -> tuple[str, ...]:
        percent = f"{100 * self.level:.6g}%"
        return (*_COLUMNS[:4], f"lower {percent}", f"upper {percent}")

    def _cells(self, j: int) -> tuple[str, ...]:
        coef, se = float(self._coef[j]), float(self._se[j])
        if not self.identified[j]:
            return (f"{coef:.4g}", NOT_IDENTIFIED, "", "", "", "")
        show = _digits(se, coef)
        lower, upper = self.interval[j]
        z = float(self.z[j])
        return (
            show(coef),
            show(se),
            f"{z:.2f}" if abs(z) < 1e5 or not np.isfinite(z) else f"{z:.3g}",
            _p_text(float(self.log_p_value[j])),
            show(float(lower)),
            show(float(upper)),
        )


def _digits(se: float, coef: float) -> Callable[[float], str]:
    """Return a format for one row: three digits of the standard error, and as many decimals."""
    size = abs(coef) if se == 0 else se
    decimals = 2 - math.floor(math.log10(size)) if 0 < size < np.inf else 99
    if decimals > 8 or abs(coef) >= 1e7:
        return "{:.5g}".format
    return f"{{:.{max(decimals, 0)}f}}".format


def _p_text(log_p: float) -> str:
    if np.isnan(log_p):
        return "nan"
    if log_p < np.log(SMALLEST_P):
        return f"<{SMALLEST_P:.0e}"
    p = float(np.exp(log_p))
    return f"{p:.4f}" if p >= 1e-4 else f"{p:.1e}"


def _one_line(value: object) -> str:
    return " ".join(str(value).split())
