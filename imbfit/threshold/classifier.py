"""The estimator around the threshold search."""

from __future__ import annotations

import copy
import numbers
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from imbfit._labels import encode_binary, positive_label, row_weights
from imbfit._training_rows import check_rows, route_fit
from imbfit.exceptions import ScoreScaleWarning
from imbfit.expressions import Constraint, Expr, Scope
from imbfit.metrics import as_metric
from imbfit.threshold.amounts import (
    columns_read,
    group_names,
    names_of,
    read_amounts,
    read_columns,
    read_groups,
)
from imbfit.threshold.counting import count_rows
from imbfit.threshold.fold_thresholds import cut_columns, thresholds_by_fold
from imbfit.threshold.inner_model import check_inner_fitted, refuse_sampler
from imbfit.threshold.intake import group_columns, read_goal
from imbfit.threshold.layout import Layout, read_layout
from imbfit.threshold.report import sensitivity
from imbfit.threshold.response import Response
from imbfit.threshold.row_segments import lookup
from imbfit.threshold.scoring import (
    PooledScores,
    draw_splits,
    frozen_scores,
    out_of_fold_scores,
    scale_difference,
)
from imbfit.threshold.search import ThresholdSearch, search_thresholds
from imbfit.threshold.segments import encode_segments
from imbfit.threshold.table import CandidateTables

__all__ = ["OTLPThresholdClassifier"]


def _inner_has(method: str) -> Any:
    def check(self: OTLPThresholdClassifier) -> bool:
        # the inner model's own AttributeError says best why a method is missing
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


class OTLPThresholdClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Binary classifier whose thresholds are the best under constraints, with a proof.

    A row is predicted positive when the inner model's score reaches the threshold of the row's
    segment. The thresholds optimise an objective, subject to constraints on the whole and on
    segments, over all combinations of one threshold per segment.

    Constraints are met on the table of scores that the thresholds were chosen on: out-of-fold
    scores of the rows given to `fit`, or all of these rows where the inner model is frozen. New
    rows are another sample, and may miss a constraint that was met with little slack.

    Parameters
    ----------
    estimator : estimator
        Binary classifier with `predict_proba` or `decision_function`: a Pipeline, an
        imbalanced-learn pipeline, or a third-party model. A `FrozenEstimator` is not refitted, and
        the rows given to `fit` are its validation data.
    objective : Expr, str or callable, default="f1"
        A metric of :mod:`imbfit.metrics` or its text. Where there is one segment also a vectorised
        function ``f(tp, fp, fn, tn)``.
    greater_is_better : bool, default=None
        Direction of the objective; needed unless it is a named metric or `cost`.
    constraints : constraint, str, or list of them, default=()
        What must hold, such as ``[recall >= 0.6, "precision >= 0.5 in each segment"]``.
    segments : column, list of columns, or callable, default=None
        Where a row's segment comes from: a column's name in a frame, or its position in an array.
        Several columns make segments of tuples. A callable gets X and returns a value per row, or
        several columns. The segment columns are needed by `predict` too.
    amounts : dict of str to column or callable, default=None
        Per-row columns that formulas such as ``fn["amount"]`` read. `predict` does not need them.
    estimator_columns : "rest" or list of columns, default="rest"
        What the inner model sees of X. "rest" leaves out the columns of segments, amounts and
        capacities. X is passed on untouched where no column is used.
    thresholds : "all", int or array-like of float, default="all"
        Candidates: all distinct scores, so many between the lowest and the highest score, or these.
        Nobody and everybody are always among them.
    cv : int, float, splitter, iterable or "prefit", default=5
        Which rows are scored by a model that was fitted on which others. An int is the number of
        stratified folds. A float is the share of rows in a single stratified test set. "prefit"
        takes a fitted `estimator` as it is; it does not survive `clone`, so inside a search wrap
        the model in a `FrozenEstimator` instead.
    refit : bool, default=True
        Fit the final model on all rows. With False it is the model whose scores the thresholds
        were chosen on, which takes a `cv` with a single split. A frozen or prefit model is never
        refitted.
    response_method : {"auto", "predict_proba", "decision_function"} or callable, default="auto"
        Where scores come from; "auto" prefers `predict_proba`. A callable
        ``(estimator, X) -> score`` gets the fitted inner model and X with all its columns; the
        model picks its own columns from them.
    pos_label : label, default=None
        The positive label; None takes the last of the sorted two, ``classes_[1]``.
    unknown_segment : {"raise", "negative"} or float, default="raise"
        What `predict` does with rows of a segment that had no rows at fit: raise, predict them
        negative, or use this threshold for them.
    nan_policy : {"raise", "negative"}, default="raise"
        What to do with rows whose score is NaN: raise, or predict them negative.
    infeasible : {"raise", "least_violation"}, default="raise"
        What to do where no choice of thresholds meets all constraints.
    time_limit : float, default=60
        Seconds for the search; None for no limit.
    random_state : int, RandomState or None, default=None
        Draws the split where `cv` is a float, and seeds the search.
    n_jobs : int, default=None
        Folds fitted in parallel.
    verbose : int, default=0
        Print progress.

    Attributes
    ----------
    thresholds_ : dict
        Segment to threshold: +inf flags nobody, -inf everybody. Without segments the one key is
        None.
    threshold_ : float
        The threshold, where there are no segments.
    objective_value_ : float
        Value of the objective on the tuning table.
    best_bound_ : float
        No choice of thresholds that meets the constraints does better.
    gap_ : float
        Distance of the two, plus what rounding may have cost; 0 is a proof.
    status_ : {"optimal", "feasible", "least_violation"}
        "feasible" means that the time limit came before the proof.
    constraint_report_ : list of dict
        Value, limit and slack of each constraint, in each segment that it holds in, and whether it
        is vacuous.
    threshold_table_ : DataFrame or dict of ndarray
        The sensitivity table: segment, threshold, counts, precision, recall, F1, the objective and
        each constraint's expression for every candidate. Built on first access.
    fold_thresholds_ : ndarray of shape (n_folds,) or (n_folds, n_segments)
        Best thresholds of each fold's scores alone, with segments in the order of `thresholds_`,
        to show how much they vary. NaN where a fold alone has no answer. Under constraints a
        fold's rows are weighted up to the whole, so that a capacity means the same. Computed on
        first access.
    n_left_out_ : int
        Rows that no fold tested, which took no part in the choice.
    search_ : ThresholdSearch
        The whole result of the search.
    estimator_ : estimator
        The fitted inner model.
    classes_ : ndarray of shape (2,)
        The labels.
    n_features_in_ : int
        Number of columns that the inner model sees, where it tells.
    feature_names_in_ : ndarray of str
        Names of these columns, where it tells.

    See Also
    --------
    imbfit.search_thresholds : The same search where scores are at hand.

    Notes
    -----
    A chosen threshold lies between two neighbouring scores, so that rounding in the last bits of a
    score changes no prediction. Rows with equal scores are flagged together or not at all.

    Case weights enter every count: weight 2 is the row twice, weight 0 no row. A row that several
    folds test shares its weight among its scores.

    Examples
    --------
    >>> from imbfit import OTLPThresholdClassifier
    >>> from imbfit.datasets import make_rare_events
    >>> from imbfit.metrics import capacity, each_segment, precision
    >>> from sklearn.linear_model import LogisticRegression
    >>> cards = make_rare_events(20_000, prevalence=0.02, random_state=0, as_frame=True)
    >>> X = cards.frame.drop(columns=["date", "amount"])
    >>> model = OTLPThresholdClassifier(
    ...     LogisticRegression(),
    ...     objective="recall",
    ...     constraints=[capacity(20, per=1000), each_segment(precision >= 0.4)],
    ...     segments="segment",
    ... ).fit(X, cards.y)
    >>> model.status_, sorted(model.thresholds_)
    ('optimal', ['S1', 'S2', 'S3', 'S4'])
    >>> bool(model.predict(X).mean() < 0.025)
    True
    """

    # The searches and splitters around may pass these on without being told to.
    __metadata_request__fit = {"amounts": True, "groups": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        *,
        objective: Any = "f1",
        greater_is_better: bool | None = None,
        constraints: Any = (),
        segments: Any = None,
        amounts: Any = None,
        estimator_columns: Any = "rest",
        thresholds: Any = "all",
        cv: Any = 5,
        refit: bool = True,
        response_method: Any = "auto",
        pos_label: Any = None,
        unknown_segment: Any = "raise",
        nan_policy: str = "raise",
        infeasible: str = "raise",
        time_limit: float | None = 60,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.objective = objective
        self.greater_is_better = greater_is_better
        self.constraints = constraints
        self.segments = segments
        self.amounts = amounts
        self.estimator_columns = estimator_columns
        self.thresholds = thresholds
        self.cv = cv
        self.refit = refit
        self.response_method = response_method
        self.pos_label = pos_label
        self.unknown_segment = unknown_segment
        self.nan_policy = nan_policy
        self.infeasible = infeasible
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ----------------------------------------------------------------------------------------
    # Fitting

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        amounts: Any = None,
        groups: Any = None,
    ) -> OTLPThresholdClassifier:
        """Fit the inner model and choose the thresholds.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Whatever the inner model takes; it is not validated here.
        y : array-like of shape (n_rows,)
            Labels of two kinds.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts, in the inner model's fit and in every count.
        amounts : frame or mapping of str to array-like, default=None
            Per-row columns besides those named by the parameter `amounts`. Inside cross-validation
            give a frame, whose rows are cut along with those of X.
        groups : array-like of shape (n_rows,), default=None
            Passed to the splitter.

        Returns
        -------
        OTLPThresholdClassifier
            The fitted estimator.

        Raises
        ------
        InfeasibleConstraints
            If no choice of thresholds meets the constraints; the message says which ones conflict.
        UnsupportedMetric
            If the objective or a constraint can't be handled exactly over several segments.
        NotFittedError
            If ``cv="prefit"`` comes with an unfitted estimator, as it does after `clone`.
        ValueError
            For bad input.
        """
        self._check_params()
        goal, _, rules = read_goal(self.objective, self.greater_is_better, self.constraints)
        X, labels, weight = check_rows(
            X,
            y,
            sample_weight=sample_weight,
            owner=type(self).__name__,
            purpose="thresholds are chosen on",
            amounts=amounts,
            groups=groups,
        )
        if weight is not None and not self._is_frozen():
            refuse_sampler(self.estimator)
        fit_params, split_params = route_fit(
            self,
            weight=weight,
            groups=groups,
            own={"amounts": amounts},
            elsewhere="enter the choice of thresholds",
            refits=not self._is_frozen(),
        )
        layout = self._layout(X, rules, amounts)
        columns = read_columns(layout, X, amounts, goal, rules)
        response = self._response_to(labels, layout)
        pooled = self._score_rows(X, labels, response, fit_params, split_params)
        tuning = {
            "y_true": labels[pooled.rows] == response.pos_label,
            "y_score": pooled.score,
            "sample_weight": pooled.share(weight),
            **cut_columns(columns, pooled.rows),
        }
        found = self._search(tuning, self.time_limit)
        model = self._final_model(X, labels, response, pooled, fit_params)
        self._store(model, found, response, pooled, tuning)
        self._warn_of_scales(pooled)
        return self

    def _check_params(self) -> None:
        inner = self.estimator
        if isinstance(inner, type) or not hasattr(inner, "fit"):
            raise TypeError(
                f"estimator={inner!r}: give a classifier instance, such as LogisticRegression(); "
                "with scores alone use search_thresholds"
            )
        _check_choice("infeasible", self.infeasible, ("raise", "least_violation"))
        _check_choice("nan_policy", self.nan_policy, ("raise", "negative"))
        if not callable(self.response_method):
            names = ("auto", "predict_proba", "decision_function")
            _check_choice("response_method", self.response_method, names, "a callable")
        if not isinstance(self.refit, (bool, np.bool_)):
            raise TypeError(f"refit={self.refit!r}: give True or False")
        policy = self.unknown_segment
        number = isinstance(policy, numbers.Real) and not isinstance(policy, bool)
        if not number or policy != policy:  # noqa: PLR0124
            _check_choice("unknown_segment", policy, ("raise", "negative"), "a threshold")

    def _is_frozen(self) -> bool:
        prefit = isinstance(self.cv, str) and self.cv == "prefit"
        return prefit or isinstance(self.estimator, FrozenEstimator)

    def _layout(self, X: Any, rules: list[Constraint | Scope], amounts: Any) -> Layout:
        given = names_of(amounts)
        both = sorted(set(given) & set(self.amounts if isinstance(self.amounts, Mapping) else ()))
        if both:
            raise ValueError(
                f"amounts names {both[0]!r} in the constructor and in fit; leave out one of them"
            )
        return read_layout(
            X,
            segments=self.segments,
            amounts=self.amounts,
            per=[name for name in group_names(rules) if name not in given],
            estimator_columns=self.estimator_columns,
        )

    def _response_to(self, labels: np.ndarray, layout: Layout) -> Response:
        classes = np.unique(labels)
        if self._is_frozen():
            check_inner_fitted(self.estimator)
            known = getattr(self.estimator, "classes_", classes)
            if not np.isin(classes, known).all() or len(known) != 2:
                raise ValueError(
                    f"y has the labels {classes.tolist()}, but the fitted model knows "
                    f"{np.asarray(known).tolist()}"
                )
            classes = np.asarray(known)
        label = positive_label(classes, self.pos_label)
        return Response(self.response_method, classes, label, self.nan_policy, layout)

    def _score_rows(
        self,
        X: Any,
        labels: np.ndarray,
        response: Response,
        fit_params: Mapping[str, Any],
        split_params: Mapping[str, Any],
    ) -> PooledScores:
        if self._is_frozen():
            return frozen_scores(self.estimator, X, response)
        splits = draw_splits(
            self.cv, X, labels, random_state=self.random_state, split_params=split_params
        )
        if not self.refit and len(splits) > 1:
            raise ValueError(
                f"When cv has several folds, refit cannot be False: {len(splits)} models were "
                "fitted and none is the final one. Pass refit=True, or a float as cv"
            )
        return out_of_fold_scores(
            self.estimator,
            X,
            labels,
            splits,
            response,
            fit_params=fit_params,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def _final_model(
        self,
        X: Any,
        labels: np.ndarray,
        response: Response,
        pooled: PooledScores,
        fit_params: Mapping[str, Any],
    ) -> Any:
        if self._is_frozen() or not self.refit:
            return pooled.model
        return clone(self.estimator).fit(response.layout.inner(X), labels, **fit_params)

    def _search(
        self, tuning: Mapping[str, Any], time_limit: float | None, **changes: Any
    ) -> ThresholdSearch:
        options = {
            "objective": self.objective,
            "greater_is_better": self.greater_is_better,
            "constraints": self.constraints,
            "thresholds": self.thresholds,
            "nan_policy": self.nan_policy,
            "infeasible": self.infeasible,
            "random_state": self.random_state,
            "verbose": self.verbose,
        }
        return search_thresholds(**tuning, **(options | changes), time_limit=time_limit)

    def _store(
        self,
        model: Any,
        found: ThresholdSearch,
        response: Response,
        pooled: PooledScores,
        tuning: dict[str, Any],
    ) -> None:
        for name in ("threshold_", "threshold_table_", "fold_thresholds_"):
            self.__dict__.pop(name, None)
        self._tuning = tuning
        self._response = response
        self._fold = pooled.fold
        self.estimator_ = model
        self.classes_ = response.classes
        self.search_ = found
        self.thresholds_ = dict(found.thresholds)
        if not found.segmented:
            self.threshold_ = found.threshold
        self.objective_value_ = found.objective_value
        self.best_bound_ = found.best_bound
        self.gap_ = found.gap
        self.status_ = found.status
        self.constraint_report_ = found.constraint_report
        self.n_left_out_ = pooled.n_left_out

    def _warn_of_scales(self, pooled: PooledScores) -> None:
        difference = scale_difference(pooled.shared)
        if difference is not None:
            warnings.warn(
                f"the folds' models score on different scales, so that one threshold for all may "
                f"mislead: {difference}. Calibrate the inner model, take a response_method that is "
                "comparable between fits, or tune a fitted model on held-out rows by "
                "FrozenEstimator; see fold_thresholds_",
                ScoreScaleWarning,
                stacklevel=3,
            )

    # ----------------------------------------------------------------------------------------
    # What the fitted estimator knows

    def __getattr__(self, name: str) -> Any:
        # Not properties: dir() and the HTML repr read all of these, and would build what no one
        # asked for.
        if "search_" in vars(self):
            if name == "threshold_":
                return self.search_.threshold
            if name in {"threshold_table_", "fold_thresholds_"}:
                table = name == "threshold_table_"
                built = self.search_.table() if table else self._thresholds_by_fold()
                setattr(self, name, built)
                return built
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the inner model sees."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns that the inner model sees."""
        return self.estimator_.feature_names_in_

    def _thresholds_by_fold(self) -> np.ndarray:
        n_folds = int(self._fold.max()) + 1
        limit = None if self.time_limit is None else self.time_limit / n_folds
        spread = thresholds_by_fold(
            self._tuning,
            self._fold,
            lambda own: self._search(own, limit, infeasible="raise", verbose=0),
            segments=list(self.thresholds_),
            bounded=bool(self.search_.rules),
        )
        return spread if self.search_.segmented else spread[:, 0]

    def candidates(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        amounts: Any = None,
        expressions: Iterable[Any] = (),
    ) -> CandidateTables:
        """Count any rows over all thresholds, scored by the fitted inner model.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows with their segments, and with the columns that formulas and capacities name.
        y : array-like of shape (n_rows,)
            Their labels.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.
        amounts : frame or mapping of str to array-like, default=None
            As in `fit`.
        expressions : iterable of Expr or str
            Formulas besides the objective and the constraints whose per-row columns are summed too.

        Returns
        -------
        CandidateTables
            A candidate for each distinct score of a segment, whatever `thresholds` is; what
            :class:`imbfit.ThresholdDisplay` draws.
        """
        check_is_fitted(self)
        extra = [as_metric(item) for item in expressions]
        per = read_groups(self._response.layout, X, amounts, self.search_.rules)
        return self._count(X, y, sample_weight, amounts, extra, per=per)

    def _count(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        amounts: Any,
        extra: list[Expr],
        *,
        per: dict[str, np.ndarray] | None = None,
        grid: np.ndarray | None = None,
    ) -> CandidateTables:
        layout, found = self._response.layout, self.search_
        positive = encode_binary(
            y, pos_label=self._response.pos_label, name="y", classes=self.classes_
        )
        check_consistent_length(X, positive)
        rows = len(positive)
        score = self._response.score(self.estimator_, X)
        wanted = columns_read(found.objective, [*found.rules, *extra])
        return count_rows(
            positive,
            np.where(np.isnan(score), -np.inf, score),
            segments=encode_segments(layout.segment_values(X), rows),
            weight=row_weights(sample_weight, rows),
            columns=read_amounts(layout, X, amounts, wanted),
            groups=None if per is None else group_columns(found.rules, per, rows),
            grid=grid,
        )

    def table(
        self,
        X: Any,
        y: Any,
        *,
        top: int | None = 10,
        sample_weight: Any = None,
        amounts: Any = None,
        expressions: Iterable[Any] = (),
    ) -> Any:
        """Return the sensitivity table of other rows, and the ranked alternatives on them.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows to score by the fitted inner model, with the amounts that the formulas read.
        y : array-like of shape (n_rows,)
            Their labels.
        top : int, default=10
            Only the best so many thresholds of each segment by the objective, ranked, those that
            meet the constraints first; None for all thresholds.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.
        amounts : frame or mapping of str to array-like, default=None
            As in `fit`.
        expressions : iterable of Expr or str
            More columns.

        Returns
        -------
        DataFrame or dict of ndarray
            A frame where pandas is installed.
        """
        check_is_fitted(self)
        extra = [as_metric(item) for item in expressions]
        found, grid = self.search_, None
        if not isinstance(self.thresholds, (str, numbers.Integral)):
            grid = np.asarray(self.thresholds, float)
        tables = self._count(X, y, sample_weight, amounts, extra, grid=grid)
        return sensitivity(
            tables,
            objective=found.objective,
            greater_is_better=found.greater_is_better,
            rules=found.rules,
            expressions=extra,
            top=top,
        )

    # ----------------------------------------------------------------------------------------
    # Predicting

    def predict(self, X: Any) -> np.ndarray:
        """Predict labels: positive where the score reaches the threshold of the row's segment.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows with their segment columns. Amounts are not needed, unless `response_method` is a
            callable that reads them.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels, in the type that `fit` got.

        Raises
        ------
        ValueError
            For a missing segment, and for an unknown one if `unknown_segment` is "raise".
        """
        check_is_fitted(self)
        score = self._response.score(self.estimator_, X)
        flagged = self._reaches(score, self._response.layout.segment_values(X))
        place = int(np.flatnonzero(self.classes_ == self._response.pos_label)[0])
        return self.classes_[np.where(flagged, place, 1 - place)]

    def _reaches(self, score: np.ndarray, segments: np.ndarray | None) -> np.ndarray:
        if segments is None:
            return score >= self.thresholds_[None]
        code = lookup(segments, self.thresholds_, unknown=self.unknown_segment)
        strange = np.inf if isinstance(self.unknown_segment, str) else float(self.unknown_segment)
        # code -1, unknown, picks the last entry
        return score >= np.array([*self.thresholds_.values(), strange])[code]

    @available_if(_inner_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities by the inner model, untouched by thresholds.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            A column for each of `classes_`.
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(self._response.layout.inner(X))

    @available_if(_inner_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict logarithms of probabilities by the inner model.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            A column for each of `classes_`.
        """
        check_is_fitted(self)
        return self.estimator_.predict_log_proba(self._response.layout.inner(X))

    @available_if(_inner_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the inner model's decision values, untouched by thresholds.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Higher for ``classes_[1]``.
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(self._response.layout.inner(X))

    # ----------------------------------------------------------------------------------------
    # The scikit-learn contract

    def get_metadata_routing(self) -> MetadataRouter:
        """Tell which metadata go where.

        Returns
        -------
        MetadataRouter
            `fit` uses sample_weight, amounts and groups itself, and passes to the inner model's fit
            and to the splitter what they ask for.
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(
            splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split")
        )
        if not self._is_frozen():
            router.add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator)
            tags.input_tags = copy.deepcopy(inner.input_tags)
            tags.non_deterministic = inner.non_deterministic
        return tags


def _check_choice(name: str, given: Any, allowed: tuple[str, ...], other: str = "") -> None:
    if not isinstance(given, str) or given not in allowed:
        listed = ", ".join(map(repr, allowed))
        raise ValueError(f"{name}={given!r}: allowed are {listed}{f' or {other}' if other else ''}")
