"""Pictures of thresholds under constraints, in the idiom of scikit-learn's displays.

matplotlib is imported when something is drawn and not before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from imbfit._labels import amount_columns, check_length, encode_binary, row_weights
from imbfit.confusion import Confusion
from imbfit.expressions import Constraint, Expr, Number, Scope, columns_of
from imbfit.metrics import as_metric, direction, margin, value
from imbfit.threshold.region import GroupRows, Region, build_region
from imbfit.threshold.scan import name_of, objective_values
from imbfit.threshold.search import (
    ThresholdSearch,
    group_columns,
    read_goal,
    read_scores,
    search_thresholds,
)
from imbfit.threshold.segments import encode_segments
from imbfit.threshold.table import CandidateTables, build_tables

__all__ = ["ThresholdDisplay"]

_CELLS = ("tp", "fp", "fn", "tn")
# A panel is some hundred pixels wide: more points than these only make files large.
_MOST_POINTS = 2000
_MOST_CELLS = 160
# So many points of a grid are marked one by one.
_FEW = 60
# Room beside the scores for "everybody" and "nobody", as a share of the axis.
_PAD = 0.05

# Colours that colour-blind readers tell apart (Okabe and Ito).
_OBJECTIVE = "#0072B2"
_OTHERS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
_SHADE = "#DDEBD3"
_CHOSEN = "#111111"


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
        self.expressions = expressions

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
        extra = [as_metric(item) for item in expressions]
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
        extra = [as_metric(item) for item in expressions]
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
        columns = amount_columns(amounts, rows, wanted=_columns_read([goal, *rules, *extra]))
        tables = _build(
            positive,
            read_scores(y_score, rows, "raise"),
            segments=encode_segments(segments, rows),
            weight=row_weights(sample_weight, rows),
            columns=columns,
            groups=group_columns(rules, per, rows),
        )
        if not isinstance(thresholds, Mapping):
            thresholds = dict.fromkeys(tables.segments, float(thresholds))
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
        found, response = estimator.search_, estimator._response  # noqa: SLF001
        layout = response.layout
        positive = encode_binary(
            y, pos_label=response.pos_label, name="y", classes=estimator.classes_
        )
        rows = len(positive)
        score = response.score(estimator.estimator_, X)
        check_length(score, rows, "X")
        given = [] if amounts is None else list(getattr(amounts, "columns", amounts))

        def read(name: str) -> Any:
            if name in given:
                return amounts[name]
            if name in layout.sources:
                return layout.source(X, name)
            raise ValueError(
                f"the formulas read the per-row column {name!r}, which neither X nor amounts has; "
                f"pass amounts={{{name!r}: values}}"
            )

        wanted = _columns_read([found.objective, *found.rules, *map(as_metric, expressions)])
        per = {
            rule.key: read(rule.key)
            for rule in found.rules
            if isinstance(rule, Scope) and rule.kind == "capacity" and isinstance(rule.key, str)
        }
        return _build(
            positive,
            np.where(np.isnan(score), -np.inf, score),
            segments=encode_segments(layout.segment_values(X), rows),
            weight=row_weights(sample_weight, rows),
            columns=amount_columns({name: read(name) for name in sorted(wanted)}, rows),
            groups=group_columns(found.rules, per, rows),
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
        self.axes_, place = _divide(ax, len(shown))
        self.ax_ = self.axes_[0]
        self.lines_: list[dict[str, Any]] = []
        self.chosen_: list[Any] = []
        self.feasible_: list[Any] = []
        self._right_axes: list[Any] = []
        for panel, g in zip(self.axes_, shown, strict=True):
            self._draw_panel(panel, g, x=x, scale=scale, view=view)
        self._label_axes(x)
        self.legend_ = self._draw_legend(place)
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
                f"{_listed(self.tables.segments)} by show=[..., ...], or use plot()"
            )
        if ax is None:
            _, ax = plt.subplots(figsize=(7.2, 5.6), layout="constrained")
        self.figure_, self.ax_, self.axes_ = ax.figure, ax, np.array([ax])
        self._draw_surface(ax, shown, x=x, scale=scale, view=view)
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
                        f"show names the segment {name!r}, which is none of {_listed(names)}"
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
    def _held(self) -> _Held:
        lacking = [name for name in self.tables.segments if name not in self.thresholds]
        if lacking:
            raise ValueError(
                f"no threshold is given for the segment {lacking[0]!r}; there are thresholds for "
                f"{_listed(tuple(self.thresholds))}"
            )
        return _Held(
            self.tables,
            np.array(
                [
                    _candidate(self.tables, g, self.thresholds[name])
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
        for item in self.expressions:
            expr = as_metric(item)
            try:
                greater = direction(expr, None)
            except ValueError:
                greater = True  # it only matters for 0/0
            found.append((name_of(expr), expr, greater))
        return found

    def _draw_panel(self, ax: Any, g: int, *, x: str, scale: str, view: str) -> None:
        held = self._held
        counts = self.tables.counts(g)
        axis = _Axis.over(self.tables, g, held.choice[g], x=x, scale=scale, view=view)
        name = name_of(self.objective)
        curves = {name: held.objective(g)}
        for label, expr, greater in self._extra:
            if label not in curves:
                # a ratio of nothing has a value by convention, but no place on a curve
                reached = value(expr, counts, greater_is_better=greater)
                empty = margin(Constraint(expr, ">=", Number(0)), counts)[1]
                curves[label] = np.where(empty, np.nan, reached)
        allowed = held.feasible(g)
        at = int(held.choice[g])

        axis.dress(ax)
        right = self._right_axis(ax, curves, name)
        lowest = ax if right is None else right
        region = None
        if self.constraints and allowed[axis.inside].any():
            # the region's own outline keeps one that is thinner than a pixel visible
            region = lowest.broken_barh(
                axis.spans(allowed),
                (0, 1),
                transform=lowest.get_xaxis_transform(),
                facecolor=_SHADE,
                edgecolor=_SHADE,
                linewidth=1.0,
                zorder=0,
            )
        lines = {}
        colours = dict(zip(curves, (_OBJECTIVE, *_repeat(_OTHERS, len(curves))), strict=False))
        for label, values in reversed(curves.items()):
            picks = _thin(axis.drawn, values, axis.inside)
            target = ax if right is None or _is_rate(values) == _is_rate(curves[name]) else right
            places, heights = axis.position[picks], values[picks]
            if axis.drawstyle == "steps-post":
                # the last candidate in view goes on to the score below it
                places = np.append(places, axis.left[picks[-1]])
                heights = np.append(heights, heights[-1])
            (lines[label],) = target.plot(
                places,
                heights,
                drawstyle=axis.drawstyle,
                marker="." if axis.drawstyle == "default" and len(picks) <= _FEW else None,
                color=colours[label],
                linewidth=2.0 if label == name else 1.3,
                zorder=3 if label == name else 2,
            )
        segment = self.tables.segments[g]
        place = axis.place(at, self.thresholds[segment])
        ax.axvline(place, color=_CHOSEN, linewidth=0.8, linestyle=":", zorder=3)
        (point,) = ax.plot(
            [place],
            [curves[name][at]],
            marker="o",
            markersize=8,
            markerfacecolor="white",
            markeredgecolor=_CHOSEN,
            markeredgewidth=2.0,
            linestyle="none",
            clip_on=False,
            zorder=5,
        )
        _limit(ax, right, curves, name, axis.inside)
        flagged = float(np.broadcast_to(counts.pp, axis.position.shape)[at])
        told = _told_threshold(self.thresholds[segment])
        ax.set_title(
            f"{'' if segment is None else _key(segment) + ': '}{told}\n"
            f"{_number(flagged)} of {_number(float(counts.n))} flagged"
            f"{'' if allowed[at] else ', a constraint is missed'}",
            fontsize=10 if _width(ax, self.figure_) > 2.6 else 8,
            loc="left",
            pad=16,
        )
        self.lines_.append({label: lines[label] for label in curves})
        self.chosen_.append(point)
        self.feasible_.append(region)
        self._right_axes.append(right)

    def _right_axis(self, ax: Any, curves: Mapping[str, np.ndarray], name: str) -> Any:
        """Give money and shares an axis each."""
        own = _is_rate(curves[name])
        if all(_is_rate(values) == own for values in curves.values()):
            return None
        right = ax.twinx()
        # curves of the left axis, with the chosen point, lie above those of the right one
        ax.set_zorder(right.get_zorder() + 1)
        ax.patch.set_visible(False)
        return right

    def _label_axes(self, x: str) -> None:
        several = self.tables.segments != (None,)
        name = name_of(self.objective)
        _, columns = _grid_shape(len(self.axes_))
        for position, (ax, right) in enumerate(zip(self.axes_, self._right_axes, strict=True)):
            column = position % columns
            if position + columns >= len(self.axes_):
                ax.set_xlabel("threshold on the score" if x == "threshold" else "cases flagged")
            curves = self.lines_[position]
            left = [label for label, line in curves.items() if line.axes is ax]
            if column == 0:
                whole = ", whole" if several and left == [name] else ""
                ax.set_ylabel(_shorten(", ".join(left)) + whole)
            last = column == columns - 1 or position == len(self.axes_) - 1
            if right is not None and last:
                others = [label for label, line in curves.items() if line.axes is right]
                right.set_ylabel(_shorten(", ".join(others)))

    def _draw_legend(self, place: Any) -> Any:
        from matplotlib.patches import Patch

        several = self.tables.segments != (None,)
        name = name_of(self.objective)
        handles, labels = [], []
        for label, line in self.lines_[0].items():
            handles.append(line)
            whole = " (whole)" if several and label == name else ""
            whole = " (this segment)" if several and label != name else whole
            labels.append(_shorten(label, 44) + whole)
        if self.constraints:
            handles.append(Patch(facecolor=_SHADE, edgecolor="#B5CBA6"))
            labels.append("constraints met" + (", others as chosen" if several else ""))
        handles.append(self.chosen_[0])
        labels.append("chosen")
        # a letter of the legend takes about 0.065 inches, its handle as much as six
        wide = _width(self.ax_ if len(self.axes_) == 1 else None, self.figure_) / 0.065
        if sum(map(len, labels)) + 6 * len(labels) <= wide:
            most = len(labels)
        else:
            most = int(wide / (max(map(len, labels)) + 6))
        return place(handles, labels, min(max(most, 1), len(handles)))

    def _draw_surface(
        self, ax: Any, shown: Sequence[int], *, x: str, scale: str, view: str
    ) -> None:
        from matplotlib.colors import Normalize
        from matplotlib.patches import Patch

        held = self._held
        axes = [
            _Axis.over(self.tables, g, held.choice[g], x=x, scale=scale, view=view) for g in shown
        ]
        picks = [_spread(axis, int(held.choice[g])) for axis, g in zip(axes, shown, strict=True)]
        values, allowed = held.surface(shown, picks)
        edges = [axis.edges(pick) for axis, pick in zip(axes, picks, strict=True)]

        own = np.isfinite(values) & allowed
        seen = values[own] if own.any() else values[np.isfinite(values)]
        low, high = float(seen.min()), float(seen.max())
        if high - low <= 1e-12 * max(1.0, abs(high)):
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
        better = "viridis" if self.greater_is_better else "viridis_r"
        for axis, setter in zip(axes, ("x", "y"), strict=True):
            axis.dress(ax, which=setter)
        self.surface_ = ax.pcolormesh(
            edges[0], edges[1], values.T, cmap=better, norm=Normalize(low, high), rasterized=True
        )
        if not allowed.all():
            veil = np.where(allowed, np.nan, 1.0)
            ax.pcolormesh(
                edges[0],
                edges[1],
                veil.T,
                cmap="Greys",
                vmin=0,
                vmax=2.4,
                alpha=0.82,
                rasterized=True,
            )
            ax.add_collection(_outline(edges, allowed), autolim=False)
        at = [
            axis.place(int(held.choice[g]), self.thresholds[self.tables.segments[g]])
            for axis, g in zip(axes, shown, strict=True)
        ]
        (point,) = ax.plot(
            *([p] for p in at),
            marker="*",
            markersize=17,
            markerfacecolor="white",
            markeredgecolor="black",
            markeredgewidth=1.3,
            linestyle="none",
            clip_on=False,
            zorder=5,
        )
        self.chosen_ = [point]
        beyond = {(False, False): "neither", (True, False): "min", (False, True): "max"}.get(
            (bool(np.nanmin(values) < low), bool(np.nanmax(values) > high)), "both"
        )
        self.colorbar_ = ax.figure.colorbar(self.surface_, ax=ax, extend=beyond, pad=0.02)
        if max(abs(low), abs(high)) >= 1000:
            self.colorbar_.formatter = _thousands()
        way = "greater" if self.greater_is_better else "lower"
        self.colorbar_.set_label(f"{_shorten(name_of(self.objective), 60)} ({way} is better)")
        unit = "threshold" if x == "threshold" else "cases flagged"
        names = [self.tables.segments[g] for g in shown]
        ax.set(xlabel=f"{unit} in {_key(names[0])}", ylabel=f"{unit} in {_key(names[1])}")
        told = " and ".join(
            f"{_key(name)}: {_told_threshold(self.thresholds[name])}" for name in names
        )
        total = self.objective_value
        ax.set_title(f"{told}\nobjective {_number(total)}", fontsize=10, loc="left", pad=14)
        handles, labels = [point], ["chosen"]
        if not allowed.all():
            handles.append(Patch(facecolor="#B9B9B9", edgecolor="#8A8A8A"))
            labels.append("a constraint is missed")
        self.legend_ = ax.legend(
            handles,
            labels,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.13),
            ncols=2,
            frameon=False,
        )
        self.lines_, self.feasible_ = [], []


# --------------------------------------------------------------------------------------------
# Tables of other rows


def _columns_read(formulas: Iterable[Any]) -> set[str]:
    kinds = (Expr, Constraint, Scope)
    return set().union(*(columns_of(item) for item in formulas if isinstance(item, kinds)))


def _build(
    positive: np.ndarray,
    score: np.ndarray,
    *,
    segments: tuple[np.ndarray | None, tuple[Any, ...]],
    weight: np.ndarray | None,
    columns: Mapping[str, np.ndarray],
    groups: Mapping[str, np.ndarray],
) -> CandidateTables:
    codes, names = segments
    keep = np.ones(len(positive), bool) if weight is None else weight > 0
    return build_tables(
        positive[keep],
        score[keep],
        segment_codes=None if codes is None else codes[keep],
        segment_names=names,
        weight=None if weight is None else weight[keep],
        columns={name: column[keep] for name, column in columns.items()},
        per={name: group[keep] for name, group in groups.items()},
    )


# --------------------------------------------------------------------------------------------
# Values and feasibility around a choice


@dataclass(frozen=True)
class _Held:
    """A choice of one candidate per segment, of which one or two are moved and the rest held.

    Attributes
    ----------
    choice : ndarray of int, shape (n_segments,)
        Candidates, counted from each segment's own first.
    """

    tables: CandidateTables
    choice: np.ndarray
    region: Region
    goal: Any
    greater_is_better: bool

    @property
    def absolute(self) -> np.ndarray:
        return self.tables.starts[:-1] + self.choice

    def rest(self, moved: Sequence[int]) -> Confusion:
        """Count the segments that are held."""
        parts = [
            _pick(self.tables.counts(g), int(self.choice[g]))
            for g in range(len(self.choice))
            if g not in moved
        ]
        return _add(parts, self.tables.columns)

    def read(self, counts: Confusion) -> np.ndarray:
        return value(self.goal, counts, greater_is_better=self.greater_is_better)

    def value_chosen(self) -> float:
        if not isinstance(self.goal, Expr):
            return float(self.objective(0)[int(self.choice[0])])
        return float(self.read(self.rest(())))

    def objective(self, g: int) -> np.ndarray:
        """Objective of the whole for every candidate of one segment."""
        if len(self.choice) == 1 or not isinstance(self.goal, Expr):
            return objective_values(
                self.goal, self.tables, g, greater_is_better=self.greater_is_better
            )
        own = self.tables.own(g)
        every = _pick(self.tables.counts(g), np.arange(own.stop - own.start))
        return self.read(_add([every, self.rest((g,))], self.tables.columns))

    def feasible(self, g: int) -> np.ndarray:
        """Which candidates of one segment meet all constraints."""
        own = self.tables.own(g)
        allowed = self.region.allowed[own].copy()
        for row in self.region.rows:
            others = row.usage[self.absolute]
            allowed &= row.usage[own] + int(others.sum() - others[g]) <= row.limit
        for capacities in self.region.groups:
            allowed &= self._within_groups(capacities, g)
        for gap in self.region.gaps:
            others = np.delete(gap.value[self.absolute], g)
            high, low = _extent(others)
            mine = gap.value[own]
            with np.errstate(invalid="ignore"):
                allowed &= ~(np.fmax(mine, high) - np.fmin(mine, low) > gap.most)
        return allowed

    def _flagged_elsewhere(self, capacities: GroupRows, moved: Sequence[int]) -> np.ndarray:
        others = self.absolute.copy()
        others[list(moved)] = self.tables.starts[list(moved)]
        return capacities.flagged(others, self.tables.starts)

    def _within_groups(self, capacities: GroupRows, g: int) -> np.ndarray:
        groups = capacities.groups
        own = self.tables.own(g)
        elsewhere = self._flagged_elsewhere(capacities, (g,))
        if (elsewhere > capacities.limit).any():
            return np.zeros(own.stop - own.start, bool)
        rows = np.flatnonzero((groups.candidate >= own.start) & (groups.candidate < own.stop))
        rows = rows[np.lexsort((groups.candidate[rows], groups.code[rows]))]
        code = groups.code[rows]
        added = _weights(capacities, rows)
        running = np.cumsum(added)
        first = np.flatnonzero(np.diff(code, prepend=-1) != 0)
        before = np.repeat(
            running[first] - added[first], np.diff(np.concatenate([first, [len(rows)]]))
        )
        over = rows[running - before + elsewhere[code] > capacities.limit]
        broken = np.zeros(own.stop - own.start, bool)
        broken[groups.candidate[over] - own.start] = True
        return np.cumsum(broken) == 0

    def surface(
        self, moved: Sequence[int], picks: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Objective and feasibility over pairs of candidates, shape (n_first, n_second)."""
        first, second = (
            _pick(self.tables.counts(g), pick) for g, pick in zip(moved, picks, strict=True)
        )
        both = _add(
            [_stretched(first, 0), _stretched(second, 1), self.rest(moved)], self.tables.columns
        )
        values = self.read(both)
        places = [self.tables.starts[g] + pick for g, pick in zip(moved, picks, strict=True)]
        allowed = np.logical_and.outer(*(self.region.allowed[place] for place in places))
        held = np.delete(self.absolute, list(moved))
        for row in self.region.rows:
            used = np.add.outer(*(row.usage[place] for place in places))
            allowed &= used + int(row.usage[held].sum()) <= row.limit
        for gap in self.region.gaps:
            high, low = _extent(gap.value[held])
            one, two = gap.value[places[0]][:, None], gap.value[places[1]][None, :]
            with np.errstate(invalid="ignore"):
                spread = np.fmax(np.fmax(one, two), high) - np.fmin(np.fmin(one, two), low)
                allowed &= ~(spread > gap.most)
        for capacities in self.region.groups:
            elsewhere = self._flagged_elsewhere(capacities, moved)
            per_group = [self._flagged(capacities, place) for place in places]
            most = elsewhere + per_group[0][:, -1] + per_group[1][:, -1]
            # a group that even the last candidates keep within its capacity bounds nothing
            for code in np.flatnonzero(most > capacities.limit):
                used = np.add.outer(per_group[0][code], per_group[1][code])
                allowed &= used + elsewhere[code] <= capacities.limit
        return values, allowed

    def _flagged(self, capacities: GroupRows, places: np.ndarray) -> np.ndarray:
        """Sum the flagged weight of each group for rising candidates of one segment."""
        groups = capacities.groups
        g = int(np.searchsorted(self.tables.starts, places[0], side="right")) - 1
        own = self.tables.own(g)
        rows = np.flatnonzero((groups.candidate >= own.start) & (groups.candidate <= places[-1]))
        column = np.searchsorted(places, groups.candidate[rows])
        flagged = np.zeros((len(groups.names), len(places)), np.int64)
        np.add.at(flagged, (groups.code[rows], column), _weights(capacities, rows))
        return np.cumsum(flagged, axis=1)


def _weights(capacities: GroupRows, rows: np.ndarray) -> np.ndarray:
    weight = capacities.groups.weight
    return np.ones(len(rows), np.int64) if weight is None else weight[rows].astype(np.int64)


def _extent(values: np.ndarray) -> tuple[float, float]:
    """Highest and lowest number, NaN where there is none."""
    values = values[~np.isnan(values)]
    return (float(values.max()), float(values.min())) if len(values) else (np.nan, np.nan)


def _whole(cells: Sequence[Any], columns: Mapping[str, Confusion]) -> Confusion:
    tp, fp, fn, tn = cells
    return Confusion.from_cells(tp, fp, fn, tn, columns)


def _pick(counts: Confusion, at: Any) -> Confusion:
    def cells(part: Confusion) -> list[Any]:
        shape = np.shape(part.tp)
        return [np.broadcast_to(getattr(part, cell), shape)[at] for cell in _CELLS]

    columns = {
        name: Confusion.from_cells(*cells(column)) for name, column in counts.columns.items()
    }
    return _whole(cells(counts), columns)


def _stretched(counts: Confusion, axis: int) -> Confusion:
    def cells(part: Confusion) -> list[Any]:
        index = (slice(None), None) if axis == 0 else (None, slice(None))
        return [getattr(part, cell)[index] for cell in _CELLS]

    columns = {
        name: Confusion.from_cells(*cells(column)) for name, column in counts.columns.items()
    }
    return _whole(cells(counts), columns)


def _add(parts: Sequence[Confusion], columns: Iterable[str]) -> Confusion:
    def cells(some: Sequence[Confusion]) -> list[Any]:
        return [sum((getattr(part, cell) for part in some), 0.0) for cell in _CELLS]

    sums = {
        name: Confusion.from_cells(*cells([part.columns[name] for part in parts]))
        for name in columns
    }
    return _whole(cells(parts), sums)


def _candidate(tables: CandidateTables, g: int, threshold: float) -> int:
    """Position, within its segment, of the candidate that a threshold amounts to."""
    own = tables.own(g)
    edge = tables.above[own] if tables.grid is None else tables.grid[own]
    if np.isneginf(threshold):
        return len(edge) - 1
    return int(np.searchsorted(-edge, -threshold, side="right")) - 1


# --------------------------------------------------------------------------------------------
# The horizontal axis


@dataclass(frozen=True)
class _Axis:
    """Where the candidates of a segment lie on an axis.

    Attributes
    ----------
    position : ndarray of float, shape (n_candidates,)
        Finite: nobody and everybody have places beside the scores.
    drawn : ndarray of float
        The same in units of length on paper.
    left, right : ndarray of float
        The thresholds that amount to a candidate, as an interval.
    inside : ndarray of bool
        Candidates within view.
    limits : tuple of float
        Ends of the view.
    """

    position: np.ndarray
    drawn: np.ndarray
    left: np.ndarray
    right: np.ndarray
    inside: np.ndarray
    limits: tuple[float, float]
    scale: str
    drawstyle: str  # candidates come by falling threshold, so a value holds up to the next
    ends: tuple[tuple[float, str], ...]

    @classmethod
    def over(
        cls, tables: CandidateTables, g: int, chosen: int, *, x: str, scale: str, view: str
    ) -> _Axis:
        own = tables.own(g)
        counts = tables.counts(g)
        flagged = np.broadcast_to(counts.pp, (own.stop - own.start,)).astype(float)
        few = tables.grid is not None and len(flagged) <= _FEW
        inside = _in_view(flagged, float(counts.ap), chosen, "all" if few else view)
        if x == "flagged":
            return cls._over_flagged(flagged, inside, scale)
        return cls._over_thresholds(tables, g, inside, chosen=chosen, scale=scale, view=view)

    @classmethod
    def _over_flagged(cls, flagged: np.ndarray, inside: np.ndarray, scale: str) -> _Axis:
        last = float(flagged[inside].max())
        kind = "linear" if scale == "linear" or last <= 30 else "symlog"
        middle = (flagged[1:] + flagged[:-1]) / 2
        left = np.concatenate([[flagged[0]], middle])
        right = np.concatenate([middle, [flagged[-1]]])
        limits = (-0.03 * last if kind == "linear" else -0.2, last * (1.03 if last > 1 else 1.5))
        drawn = flagged if kind == "linear" else np.log1p(flagged)
        return cls(flagged, drawn, left, right, inside, limits, kind, "default", ())

    @classmethod
    def _over_thresholds(
        cls,
        tables: CandidateTables,
        g: int,
        inside: np.ndarray,
        *,
        chosen: int,
        scale: str,
        view: str,
    ) -> _Axis:
        own = tables.own(g)
        edge = (tables.above[own] if tables.grid is None else tables.grid[own]).astype(float)
        scores = edge[np.isfinite(edge)]
        seen = edge[inside & np.isfinite(edge)]
        if not len(seen):
            seen = scores if len(scores) else np.array([0.0])
        kind = _scale_for(seen, scale, float(edge[chosen]))
        if kind in ("log", "logit") and view == "near":
            # a few scores near 0 would take most of such an axis
            inside = inside & (edge >= min(float(np.median(seen)) / 1000, edge[chosen]))
            seen = edge[inside & np.isfinite(edge)]
        there, back = _TRANSFORMS[kind]
        low, high = there(float(seen.min())), there(float(seen.max()))
        pad = _PAD * ((high - low) or (1.0 if kind != "linear" else max(abs(high), 1.0) * 0.1))
        nobody, farthest = float(back(high + pad)), float(back(high + 2 * pad))
        everybody, nearest = float(back(low - pad)), float(back(low - 2 * pad))
        position = edge.copy()
        position[0] = nobody
        if tables.grid is not None:
            position[-1] = everybody
        drawn = there(np.clip(position, *_domain(kind)))
        if tables.grid is None:
            left, right = np.concatenate([edge[1:], edge[-1:]]), edge.copy()
        else:
            middle = (position[1:] + position[:-1]) / 2
            left = np.concatenate([middle, position[-1:]])
            right = np.concatenate([position[:1], middle])
        right[0] = farthest
        ends = [(nobody, "nobody")]
        if inside[-1]:
            left[-1] = nearest
            ends.append((everybody, "everybody"))
        limits = (float(left[inside].min()), farthest)
        if tables.grid is None and chosen == len(edge) - 1:
            position = position.copy()
            position[-1] = everybody
        style = "steps-post" if tables.grid is None else "default"
        return cls(position, drawn, left, right, inside, limits, kind, style, tuple(ends))

    def place(self, at: int, threshold: float) -> float:
        """Where to mark a threshold that amounts to the candidate `at`."""
        if self.ends and np.isfinite(threshold):
            return float(np.clip(threshold, *self.limits))
        return float(self.position[at])

    def dress(self, ax: Any, which: str = "x") -> None:
        """Set scale, limits and ticks."""
        from matplotlib import ticker

        def number(mark: float, _: Any = None) -> str:
            return f"{mark:g}" if abs(mark) < 1e5 else f"{mark:,.0f}"

        getattr(ax, f"set_{which}scale")(
            self.scale, **({"linthresh": 1} if self.scale == "symlog" else {})
        )
        getattr(ax, f"set_{which}lim")(*self.limits)
        axis = getattr(ax, f"{which}axis")
        if self.scale == "log":
            decades = math.log10(self.limits[1] / self.limits[0])
            subs = (1.0,) if decades > 4 else (1.0, 3.0) if decades > 2 else (1.0, 2.0, 5.0)
            if decades < 0.7:
                axis.set_major_locator(ticker.MaxNLocator(5))
            else:
                axis.set_major_locator(ticker.LogLocator(subs=subs))
            axis.set_minor_formatter(ticker.NullFormatter())
            axis.set_major_formatter(ticker.FuncFormatter(number))
        elif self.scale == "symlog":
            powers = [0] + [10**k for k in range(int(math.log10(max(self.limits[1], 1))) + 1)]
            if len(powers) <= 4:
                powers += [3 * 10**k for k in range(len(powers) - 1)]
            axis.set_major_locator(ticker.FixedLocator([p for p in powers if p <= self.limits[1]]))
            axis.set_minor_locator(ticker.NullLocator())
            axis.set_major_formatter(ticker.FuncFormatter(number))
        elif self.scale == "logit":
            axis.set_major_locator(ticker.FixedLocator(_logit_marks(*self.limits)))
            axis.set_minor_locator(ticker.NullLocator())
            axis.set_major_formatter(ticker.FuncFormatter(_near_one))
        elif self.scale == "linear":
            marks = 6 if which == "y" else min(6, max(2, int(_width(ax, ax.figure) / 0.6)))
            axis.set_major_locator(ticker.MaxNLocator(marks))
        if which == "x" and self.scale != "symlog":
            for place, told in self.ends:
                ax.annotate(
                    told,
                    (place, 1.0),
                    xycoords=("data", "axes fraction"),
                    xytext=(0, 2),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=8,
                    color="#666666",
                )

    def spans(self, allowed: np.ndarray) -> list[tuple[float, float]]:
        """Intervals of the axis where candidates are allowed, as (start, length)."""
        allowed = allowed & self.inside
        edges = np.flatnonzero(np.diff(np.concatenate([[False], allowed, [False]]).astype(int)))
        starts, stops = edges[::2], edges[1::2] - 1
        if self.position[-1] >= self.position[0]:
            low, high = self.left[starts], self.right[stops]
        else:
            low, high = self.left[stops], self.right[starts]
        order = np.argsort(low)
        low, high = low[order], high[order]
        if len(low) > _MOST_POINTS:
            # gaps far thinner than a pixel are closed
            there = _TRANSFORMS[self.scale][0]
            ends = there(np.clip(np.array(self.limits), *_domain(self.scale)))
            wide = (
                there(np.clip(low[1:], *_domain(self.scale)))
                - there(np.clip(high[:-1], *_domain(self.scale)))
                > (ends[1] - ends[0]) / _MOST_POINTS
            )
            low = low[np.concatenate([[True], wide])]
            high = high[np.concatenate([wide, [True]])]
        return list(zip(low.tolist(), (high - low).tolist(), strict=True))

    def edges(self, picks: np.ndarray) -> np.ndarray:
        """Borders of the cells that stand for picked candidates, in the picks' order."""
        rising = self.position[-1] >= self.position[0]
        near = self.left if rising else self.right
        start, end = self.limits if rising else self.limits[::-1]
        return np.concatenate([[start], near[picks[1:]], [end]])


def _identity(values: Any) -> Any:
    return values


def _logit(values: Any) -> Any:
    return np.log(values) - np.log1p(-np.asarray(values))


def _expit(values: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(values)))


_TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "linear": (_identity, _identity),
    "log": (np.log, np.exp),
    "logit": (_logit, _expit),
    "symlog": (np.log1p, np.expm1),
}


def _logit_marks(low: float, high: float) -> list[float]:
    """Choose marks such as 0.01, 0.5 and 0.999, few enough to stay apart."""
    powers = [10.0**-k for k in range(1, 16)]
    marks = sorted([*powers, 0.5, *(1 - power for power in powers)])
    marks = [mark for mark in marks if low <= mark <= high]
    middle = marks.index(0.5) if 0.5 in marks else 0
    step = -(-len(marks) // 7)
    return marks[middle % step :: step]


def _near_one(mark: float, _: Any = None) -> str:
    return f"{mark:g}" if mark < 0.99995 else f"1-{1 - mark:.0e}"


def _domain(scale: str) -> tuple[float, float]:
    tiny = 1e-300
    return {
        "log": (tiny, math.inf),
        "logit": (tiny, 1 - 1e-16),
        "symlog": (0.0, math.inf),
    }.get(scale, (-math.inf, math.inf))


def _in_view(flagged: np.ndarray, positives: float, chosen: int, view: str) -> np.ndarray:
    if view == "all":
        return np.ones(len(flagged), bool)
    most = max(4 * float(flagged[chosen]), 4 * positives, 20.0)
    inside = flagged <= most
    inside[chosen] = True
    # a view that stops just short of everybody may as well show them
    if flagged[inside].max() >= 0.7 * flagged[-1]:
        return np.ones(len(flagged), bool)
    return inside


def _scale_for(seen: np.ndarray, asked: str, chosen: float) -> str:
    low, high = float(seen.min()), float(seen.max())
    if asked == "log" and low <= 0:
        raise ValueError(
            f"scale='log' takes positive scores, and {low:g} is in view; use scale='linear'"
        )
    if asked == "logit" and not 0 < low <= high < 1:
        raise ValueError(
            f"scale='logit' takes scores between 0 and 1, and those in view run from {low:g} to "
            f"{high:g}; use scale='linear'"
        )
    if asked != "auto":
        return asked
    if low <= 0:
        return "linear"
    # a linear axis shows little where half of the scores, or the choice, are close to an end
    middle = float(np.median(seen))
    place = (chosen - low) / ((high - low) or 1.0) if np.isfinite(chosen) else 0.5
    if high < 1 and (1 - low > 12 * (1 - middle) or place > 0.95):
        return "logit"
    return "log" if high > 12 * middle or place < 0.05 < high / low / 100 else "linear"


def _thin(drawn: np.ndarray, values: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Positions of points that draw the same line: ends and extremes of each narrow strip."""
    at = np.flatnonzero(inside)
    if len(at) <= _MOST_POINTS:
        return at
    place, height = drawn[at], values[at]
    low, high = float(place.min()), float(place.max())
    strip = ((place - low) * ((_MOST_POINTS // 4) / ((high - low) or 1.0))).astype(np.int64)
    by_height = np.lexsort((height, strip))
    first = np.flatnonzero(np.diff(strip[by_height], prepend=-1) != 0)
    last = np.concatenate([first[1:], [len(at)]]) - 1
    change = np.flatnonzero(np.diff(strip) != 0)
    return at[
        np.unique(
            np.concatenate(
                [[0, len(at) - 1], by_height[first], by_height[last], change, change + 1]
            )
        )
    ]


def _spread(axis: _Axis, chosen: int) -> np.ndarray:
    """Candidates that stand for the cells of a surface, the chosen one among them."""
    at = np.flatnonzero(axis.inside)
    if len(at) <= _MOST_CELLS:
        return at
    place = axis.drawn[at]
    low, high = float(place.min()), float(place.max())
    strip = ((place - low) * (_MOST_CELLS / ((high - low) or 1.0))).astype(np.int64)
    first = np.flatnonzero(np.diff(strip, prepend=-1) != 0)
    picks = at[first]
    # the chosen candidate takes the cell that it lies in
    mine = int(strip[int(np.searchsorted(at, chosen))])
    picks[int(np.flatnonzero(strip[first] == mine)[0])] = chosen
    return picks


# --------------------------------------------------------------------------------------------
# Words and places


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


def _grid_shape(panels: int) -> tuple[int, int]:
    columns = panels if panels <= 3 else 2 if panels == 4 else 3 if panels <= 9 else 4
    return -(-panels // columns), columns


def figure_size(panels: int) -> tuple[float, float]:
    """Width and height in inches that suit so many panels."""
    rows, columns = _grid_shape(panels)
    return (7.0, 4.6) if panels == 1 else (4.1 * columns + 0.6, 2.9 * rows + 0.8)


def _divide(ax: Any, panels: int) -> tuple[np.ndarray, Callable[..., Any]]:
    """Panels in the place of an Axes, and a function that puts the legend below them."""
    if panels == 1:

        def below(handles: Any, labels: Any, columns: int) -> Any:
            return ax.legend(
                handles,
                labels,
                loc="upper center",
                bbox_to_anchor=(0.5, -0.14),
                ncols=columns,
                frameon=False,
                fontsize=9,
            )

        return np.array([ax]), below
    rows, columns = _grid_shape(panels)
    spec = ax.get_subplotspec()
    if spec is None:
        raise ValueError(
            f"{panels} panels divide the place of a subplot, and this Axes is none; make it by "
            "plt.subplots(), or draw one segment by show="
        )
    ax.set_axis_off()
    inner = spec.subgridspec(rows + 1, columns, height_ratios=[1.0] * rows + [0.02])
    figure = ax.figure
    axes = np.array([figure.add_subplot(inner[i // columns, i % columns]) for i in range(panels)])
    bottom = figure.add_subplot(inner[rows, :])
    bottom.set_axis_off()

    def in_row(handles: Any, labels: Any, columns: int) -> Any:
        return bottom.legend(
            handles, labels, loc="upper center", ncols=columns, frameon=False, fontsize=9
        )

    return axes, in_row


def _width(ax: Any, figure: Any) -> float:
    """Width in inches of a panel, or of what a figure has for panels."""
    whole = float(figure.bbox.width / figure.dpi)
    if ax is None:
        return 0.85 * whole
    spec = ax.get_subplotspec()
    if spec is None:
        return whole * float(ax.get_position().width)
    return 0.85 * whole * float(spec.get_position(figure).width) / 0.775


def _is_rate(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    return bool(len(finite) == 0 or np.abs(finite).max() <= 1 + 1e-9)


def _limit(
    ax: Any, right: Any, curves: Mapping[str, np.ndarray], name: str, inside: np.ndarray
) -> None:
    """Limits of the vertical axes: all of what is in view, and 0 to 1 for shares."""
    own = _is_rate(curves[name])
    for target, rate in ((ax, own), (right, not own)):
        if target is None:
            continue
        values = np.concatenate([v[inside] for v in curves.values() if _is_rate(v) == rate])
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        low, high = float(values.min()), float(values.max())
        if rate and (high - low > 0.5 or len(curves) > 1):
            low, high = min(0.0, low), 1.0
        room = 0.04 * ((high - low) or max(abs(high), 1.0))
        target.set_ylim(low - room, high + room)
        if not rate and max(abs(low), abs(high)) >= 1000:
            target.yaxis.set_major_formatter(_thousands())


def _outline(edges: Sequence[np.ndarray], allowed: np.ndarray) -> Any:
    """Borders between feasible and other cells."""
    from matplotlib.collections import LineCollection

    one, two = edges
    lines = [
        [(one[i + 1], two[j]), (one[i + 1], two[j + 1])]
        for i, j in np.argwhere(allowed[1:] != allowed[:-1]).tolist()
    ] + [
        [(one[i], two[j + 1]), (one[i + 1], two[j + 1])]
        for i, j in np.argwhere(allowed[:, 1:] != allowed[:, :-1]).tolist()
    ]
    return LineCollection(lines, colors="black", linewidths=1.0)


def _thousands() -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda mark, _: f"{mark:,.0f}")


def _told_threshold(threshold: float) -> str:
    if np.isposinf(threshold):
        return "nobody is flagged"
    if np.isneginf(threshold):
        return "everybody is flagged"
    return f"threshold {threshold:.4g}"


def _number(amount: float) -> str:
    if float(amount).is_integer() and abs(amount) < 1e15:
        return f"{amount:,.0f}"
    return f"{amount:,.2f}" if abs(amount) >= 100 else f"{amount:.4g}"


def _key(segment: Any) -> str:
    parts = segment if isinstance(segment, tuple) else (segment,)
    return _shorten(", ".join(map(str, parts)), 28)


def _shorten(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _listed(names: Sequence[Any], most: int = 10) -> str:
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def _repeat(colours: Sequence[str], number: int) -> list[str]:
    return [colours[i % len(colours)] for i in range(number)]
