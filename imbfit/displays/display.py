"""The public display: ways to make one, and what it draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from imbfit._labels import amount_columns, encode_binary, row_weights
from imbfit.displays.curves import draw_legend, draw_panel, label_axes
from imbfit.displays.panels import divide, figure_size
from imbfit.displays.surface import draw_surface
from imbfit.displays.wording import listed
from imbfit.expressions import Constraint, Expr, Scope
from imbfit.metrics import as_metrics
from imbfit.reading import direction
from imbfit.threshold.amounts import columns_read
from imbfit.threshold.around import Held, candidate_of
from imbfit.threshold.counting import count_rows
from imbfit.threshold.intake import group_columns, read_goal, read_scores
from imbfit.threshold.region import build_region
from imbfit.threshold.scan import name_of
from imbfit.threshold.search import ThresholdSearch, search_thresholds
from imbfit.threshold.segments import encode_segments
from imbfit.threshold.table import CandidateTables

__all__ = ["ThresholdDisplay"]


class ThresholdDisplay:
    """Curves over the threshold, with the feasible region shaded and the chosen point.

    Make one by :meth:`from_estimator`, :meth:`from_predictions` or :meth:`from_search`. All
    parameters are stored as attributes.

    With several segments there is a panel for each. It shows the objective of the whole while the
    other segments keep their chosen thresholds, and shades the thresholds at which the segment's
    own constraints and those on the whole are then met. Other expressions are read on the segment
    alone.

    Parameters
    ----------
    tables : CandidateTables
        Candidate thresholds with their counts.
    thresholds : mapping of segment to float
        The chosen thresholds; +inf flags nobody, -inf everybody. The one key is None where there
        are no segments.
    objective : Expr or callable
        What is drawn first.
    greater_is_better : bool
        Its direction.
    constraints : sequence of Constraint or Scope, default=()
        What bounds the feasible region.
    expressions : iterable of Expr or str, default=()
        More curves, such as ``("precision", "recall")``.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        A panel for each segment that is drawn.
    ax_ : matplotlib Axes
        The first panel.
    figure_ : matplotlib Figure
        Figure that holds them.
    lines_ : list of dict of str to matplotlib Line2D
        The curves of each panel, by the name of the expression.
    chosen_ : list of matplotlib Line2D
        The chosen point of each panel.
    feasible_ : list of matplotlib PolyCollection
        The shaded region of each panel; None where no threshold is feasible, and where there are
        no constraints.
    legend_ : matplotlib Legend
        One for all panels.
    surface_ : matplotlib QuadMesh
        The objective over two thresholds; only after :meth:`plot_surface`.
    colorbar_ : matplotlib Colorbar
        Its scale; only after :meth:`plot_surface`.

    See Also
    --------
    imbfit.search_thresholds : Finds what is drawn here.

    Examples
    --------
    >>> from imbfit.displays import ThresholdDisplay
    >>> y = [0, 0, 1, 0, 1, 1]
    >>> score = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    >>> display = ThresholdDisplay.from_predictions(
    ...     y, score, constraints="precision >= 0.9", expressions=["precision", "recall"]
    ... )
    >>> round(display.thresholds[None], 2)
    0.45
    """

    def __init__(
        self,
        *,
        tables: CandidateTables,
        thresholds: Mapping[Any, float],
        objective: Expr | Callable[..., Any],
        greater_is_better: bool,
        constraints: Sequence[Constraint | Scope] = (),
        expressions: Iterable[Any] = (),
    ) -> None:
        self.tables = tables
        self.thresholds = thresholds
        self.objective = objective
        self.greater_is_better = greater_is_better
        self.constraints = constraints
        self.expressions = as_metrics(expressions)

    # ----------------------------------------------------------------------------------------
    # Ways to make one

    @classmethod
    def from_search(
        cls,
        search: ThresholdSearch,
        *,
        expressions: Iterable[Any] = (),
        ax: Any = None,
        **drawing: Any,
    ) -> ThresholdDisplay:
        """Draw the result of a search on the rows that it searched.

        Parameters
        ----------
        search : ThresholdSearch
            From :func:`imbfit.search_thresholds`, :func:`imbfit.search_table`, or the attribute
            ``search_`` of a fitted estimator.
        expressions : iterable of Expr or str, default=()
            More curves, such as ``("precision", "recall")``.
        ax : matplotlib Axes, default=None
            Where to draw.
        **drawing : dict
            The other arguments of :meth:`plot`.

        Returns
        -------
        ThresholdDisplay
            The display, drawn.
        """
        display = cls(
            tables=search.tables,
            thresholds=search.thresholds,
            objective=search.objective,
            greater_is_better=search.greater_is_better,
            constraints=search.rules,
            expressions=expressions,
        )
        return display.plot(ax, **drawing)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        amounts: Any = None,
        expressions: Iterable[Any] = (),
        ax: Any = None,
        **drawing: Any,
    ) -> ThresholdDisplay:
        """Draw the thresholds of a fitted estimator on any rows.

        The curves and the feasible region are those of the rows given. On rows other than those
        that the thresholds were chosen on, the chosen point may miss a constraint, and need not be
        the best. For the rows that it was chosen on, with the scores it was chosen by, use
        ``ThresholdDisplay.from_search(estimator.search_)``.

        Parameters
        ----------
        estimator : OTLPThresholdClassifier
            Fitted; or a Pipeline that ends in one.
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows, with their segments and amounts.
        y : array-like of shape (n_rows,)
            Their labels.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.
        amounts : frame or mapping of str to array-like, default=None
            As in `fit`.
        expressions : iterable of Expr or str, default=()
            More curves, such as ``("precision", "recall")``.
        ax : matplotlib Axes, default=None
            Where to draw.
        **drawing : dict
            The other arguments of :meth:`plot`.

        Returns
        -------
        ThresholdDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator chooses no thresholds.
        """
        while hasattr(estimator, "steps"):
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator[-1]
        if not isinstance(getattr(estimator, "search_", None), ThresholdSearch):
            raise TypeError(
                f"from_estimator draws a fitted OTLPThresholdClassifier, and got "
                f"{estimator!r}; for another model use from_predictions(y, "
                "model.predict_proba(X)[:, 1])"
            )
        extra = as_metrics(expressions)
        tables = cls.tables_of(
            estimator, X, y, sample_weight=sample_weight, amounts=amounts, expressions=extra
        )
        found = estimator.search_
        thresholds = dict(estimator.thresholds_)
        policy = estimator.unknown_segment
        if not (isinstance(policy, str) and policy == "raise"):
            other = math.inf if isinstance(policy, str) else float(policy)
            thresholds = dict.fromkeys(tables.segments, other) | thresholds
        display = cls(
            tables=tables,
            thresholds=thresholds,
            objective=found.objective,
            greater_is_better=found.greater_is_better,
            constraints=found.rules,
            expressions=extra,
        )
        return display.plot(ax, **drawing)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        objective: Any = "f1",
        greater_is_better: bool | None = None,
        constraints: Any = (),
        segments: Any = None,
        amounts: Any = None,
        per: Any = None,
        sample_weight: Any = None,
        pos_label: Any = None,
        thresholds: Any = None,
        infeasible: str = "raise",
        time_limit: float | None = 60,
        expressions: Iterable[Any] = (),
        ax: Any = None,
        **drawing: Any,
    ) -> ThresholdDisplay:
        """Draw thresholds on scored rows; the best ones, unless some are given.

        Parameters
        ----------
        y_true : array-like of shape (n_rows,)
            Binary labels.
        y_score : array-like of shape (n_rows,)
            Finite scores.
        objective : Expr, str or callable, default="f1"
            What is drawn, and optimised where no thresholds are given.
        greater_is_better : bool, default=None
            Its direction; needed where the objective does not know its own.
        constraints : constraint, text, or list of them
            What bounds the feasible region.
        segments : array-like of shape (n_rows,) or (n_rows, n_columns), default=None
            The segment of each row.
        amounts, per : mapping of str to array-like, or frame, default=None
            Per-row columns, see :func:`imbfit.search_thresholds`.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.
        pos_label : label, default=None
            The positive label.
        thresholds : float or mapping of segment to float, default=None
            The thresholds to mark. None searches for the best.
        infeasible : {"raise", "least_violation"}, default="raise"
            What that search does where no thresholds meet the constraints.
        time_limit : float, default=60
            Seconds for that search; None for no limit.
        expressions : iterable of Expr or str, default=()
            More curves, such as ``("precision", "recall")``.
        ax : matplotlib Axes, default=None
            Where to draw.
        **drawing : dict
            The other arguments of :meth:`plot`.

        Returns
        -------
        ThresholdDisplay
            The display, drawn.
        """
        extra = as_metrics(expressions)
        goal, greater, rules = read_goal(objective, greater_is_better, constraints)
        if thresholds is None:
            thresholds = search_thresholds(
                y_true,
                y_score,
                objective=goal,
                greater_is_better=greater,
                constraints=rules,
                segments=segments,
                amounts=amounts,
                per=per,
                sample_weight=sample_weight,
                pos_label=pos_label,
                infeasible=infeasible,
                time_limit=time_limit,
            ).thresholds
        positive = encode_binary(y_true, pos_label=pos_label)
        rows = len(positive)
        columns = amount_columns(amounts, rows, wanted=columns_read(goal, [*rules, *extra]))
        tables = count_rows(
            positive,
            read_scores(y_score, rows, "raise"),
            segments=encode_segments(segments, rows),
            weight=row_weights(sample_weight, rows),
            columns=columns,
            groups=group_columns(rules, per, rows),
        )
        if not isinstance(thresholds, Mapping):
            thresholds = dict.fromkeys(tables.segments, float(thresholds))
        strange = [name for name in thresholds if name not in tables.segments]
        if strange:
            raise ValueError(
                f"a threshold is given for {strange[0]!r}, which is none of the segments "
                f"{listed(tables.segments)}"
            )
        display = cls(
            tables=tables,
            thresholds=thresholds,
            objective=goal,
            greater_is_better=greater,
            constraints=rules,
            expressions=extra,
        )
        return display.plot(ax, **drawing)

    @staticmethod
    def tables_of(
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        amounts: Any = None,
        expressions: Iterable[Any] = (),
    ) -> CandidateTables:
        """Count any rows over all thresholds, scored by a fitted estimator.

        Parameters
        ----------
        estimator : OTLPThresholdClassifier
            Fitted.
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows, with their segments and amounts.
        y : array-like of shape (n_rows,)
            Their labels.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.
        amounts : frame or mapping of str to array-like, default=None
            As in `fit`.
        expressions : iterable of Expr, default=()
            Formulas whose per-row columns are to be counted too.

        Returns
        -------
        CandidateTables
            For the parameter `tables`.
        """
        return estimator.candidates(
            X, y, sample_weight=sample_weight, amounts=amounts, expressions=expressions
        )

    # ----------------------------------------------------------------------------------------
    # Drawing

    @property
    def objective_value(self) -> float:
        """Objective of the whole at the thresholds, on the rows of the tables."""
        return self._held.value_chosen()

    def plot(
        self,
        ax: Any = None,
        *,
        show: Any = None,
        x: str = "threshold",
        scale: str = "auto",
        view: str = "near",
        max_panels: int = 12,
    ) -> ThresholdDisplay:
        """Draw the curves, a panel for each segment.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; several panels divide its place among them. A new figure by default.
        show : segment or list of segments, default=None
            Which segments to draw; all by default.
        x : {"threshold", "flagged"}, default="threshold"
            What the horizontal axis shows: the threshold, or how many it flags.
        scale : {"auto", "linear", "log", "logit"}, default="auto"
            Scale of the threshold. Where positives are rare, scores crowd near 0; "auto" takes a
            logarithm then. The number flagged has a logarithmic scale, with 0 on it, except for
            "linear".
        view : {"near", "all"}, default="near"
            How far to the side of many flagged to look: some times as many as the chosen threshold
            flags and as there are positives, or all rows.
        max_panels : int, default=12
            Most panels in a figure.

        Returns
        -------
        ThresholdDisplay
            This display, with the artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are more segments than panels, or for an argument that is not allowed.
        """
        plt = _pyplot()
        _check("x", x, ("threshold", "flagged"))
        _check("scale", scale, ("auto", "linear", "log", "logit"))
        _check("view", view, ("near", "all"))
        shown = self._shown(show, max_panels)
        if ax is None:
            width, height = figure_size(len(shown))
            _, ax = plt.subplots(figsize=(width, height), layout="constrained")
        self.figure_ = ax.figure
        self.axes_, place = divide(ax, len(shown))
        self.ax_ = self.axes_[0]
        bounded = bool(self.constraints)
        panels = [
            draw_panel(
                panel,
                g,
                held=self._held,
                threshold=self.thresholds[self.tables.segments[g]],
                extra=self._extra,
                bounded=bounded,
                x=x,
                scale=scale,
                view=view,
            )
            for panel, g in zip(self.axes_, shown, strict=True)
        ]
        name, several = name_of(self.objective), self.tables.segments != (None,)
        label_axes(panels, x=x, name=name, several=several)
        self.legend_ = draw_legend(panels, place, name=name, several=several, bounded=bounded)
        self.lines_ = [panel.lines for panel in panels]
        self.chosen_ = [panel.point for panel in panels]
        self.feasible_ = [panel.region for panel in panels]
        return self

    def plot_surface(
        self,
        ax: Any = None,
        *,
        show: Any = None,
        x: str = "threshold",
        scale: str = "auto",
        view: str = "near",
    ) -> ThresholdDisplay:
        """Draw the objective over the thresholds of two segments, with the feasible set.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        show : list of two segments, default=None
            Which two; needed where there are more. The others keep their chosen thresholds.
        x : {"threshold", "flagged"}, default="threshold"
            What both axes show, see :meth:`plot`.
        scale : {"auto", "linear", "log", "logit"}, default="auto"
            Scale of the thresholds, see :meth:`plot`.
        view : {"near", "all"}, default="near"
            How far to look, see :meth:`plot`.

        Returns
        -------
        ThresholdDisplay
            This display, with the artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are not exactly two segments to draw.
        """
        plt = _pyplot()
        _check("x", x, ("threshold", "flagged"))
        _check("scale", scale, ("auto", "linear", "log", "logit"))
        _check("view", view, ("near", "all"))
        shown = self._shown(show, max_panels=len(self.tables.segments))
        if len(shown) != 2 or shown[0] == shown[1]:
            raise ValueError(
                f"a surface is drawn over the thresholds of two segments, and there "
                f"{'is' if len(shown) == 1 else 'are'} {len(shown)}; name two of "
                f"{listed(self.tables.segments)} by show=[..., ...], or use plot()"
            )
        if ax is None:
            _, ax = plt.subplots(figsize=(7.2, 5.6), layout="constrained")
        self.figure_, self.ax_, self.axes_ = ax.figure, ax, np.array([ax])
        drawn = draw_surface(
            ax, shown, held=self._held, thresholds=self.thresholds, x=x, scale=scale, view=view
        )
        self.surface_, self.colorbar_, self.legend_ = drawn.mesh, drawn.colorbar, drawn.legend
        self.lines_, self.chosen_, self.feasible_ = [], [drawn.point], []
        return self

    def _shown(self, show: Any, max_panels: int) -> list[int]:
        """Positions of the segments to draw."""
        names = self.tables.segments
        if show is None:
            shown = list(range(len(names)))
        else:
            wanted = show if isinstance(show, (list, np.ndarray)) else [show]
            shown = []
            for name in wanted:
                if name not in names:
                    raise ValueError(
                        f"show names the segment {name!r}, which is none of {listed(names)}"
                    )
                shown.append(names.index(name))
        if not shown:
            raise ValueError("show is empty; name at least one segment")
        if len(shown) > max_panels:
            raise ValueError(
                f"there are {len(shown)} segments to draw, and {max_panels} panels is the most; "
                f"name some by show=[{names[shown[0]]!r}, {names[shown[1]]!r}], or raise "
                "max_panels"
            )
        return shown

    # ----------------------------------------------------------------------------------------
    # What is drawn

    @cached_property
    def _held(self) -> Held:
        for name, cut in self.thresholds.items():
            if np.isnan(cut):
                where = "" if name is None else f" of the segment {name!r}"
                raise ValueError(f"the threshold{where} is NaN; inf flags nobody, -inf everybody")
        lacking = [name for name in self.tables.segments if name not in self.thresholds]
        if lacking:
            raise ValueError(
                f"no threshold is given for the segment {lacking[0]!r}; there are thresholds for "
                f"{listed(tuple(self.thresholds))}"
            )
        return Held(
            self.tables,
            np.array(
                [
                    candidate_of(self.tables, g, self.thresholds[name])
                    for g, name in enumerate(self.tables.segments)
                ]
            ),
            build_region(list(self.constraints), self.tables),
            self.objective,
            self.greater_is_better,
        )

    @cached_property
    def _extra(self) -> list[tuple[str, Expr, bool]]:
        found = []
        for expr in self.expressions:
            try:
                greater = direction(expr, None)
            except ValueError:
                greater = True  # it only matters for 0/0
            found.append((name_of(expr), expr, greater))
        return found


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "ThresholdDisplay draws with matplotlib, which is not installed; write pip install "
            '"imbfit[plot]"'
        ) from error
    return plt


def _check(name: str, given: Any, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ValueError(f"{name}={given!r}: allowed are {', '.join(map(repr, allowed))}")
