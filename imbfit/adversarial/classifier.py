"""The estimator: a linear model trained straight for a metric, by an exactly solved game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from imbfit._frames import align
from imbfit._labels import check_comparable, first_rows, positive_label, row_weights
from imbfit.adversarial.directions import rounding_of, score_rows
from imbfit.adversarial.fitting import Fitted, open_stream, stream_rows
from imbfit.adversarial.folds import rows_of_folds, split_rows
from imbfit.adversarial.level import (
    Height,
    aligned_cut,
    best_cut,
    finite_cut,
    height_of,
    merged,
)
from imbfit.adversarial.players import Rows
from imbfit.adversarial.recipe import (
    batch_seed,
    check_scale,
    players_of,
    trained,
    trained_and_scored,
)
from imbfit.adversarial.settings import Settings, read_settings
from imbfit.threshold.search import ThresholdSearch

__all__ = ["AdversarialMetricClassifier"]


class AdversarialMetricClassifier(ClassifierMixin, BaseEstimator):
    r"""Linear classifier trained straight for a metric, under metric constraints.

    A predictor is set against an adversary that chooses the labels, as long as their sums over
    each feature are those of the data; the coefficients are the multipliers of these sums. Whatever
    the metric, training is a convex problem, and it is solved with a certificate.

    .. math::

        \min_w \; -\frac{J(\psi)}{\rho} + \frac{\lVert w \rVert^2}{2 C n}, \qquad
        \psi_i = \frac{\rho\, x_i^T w}{n}, \qquad
        J(\psi) = \min_q \max_p \; E[\text{metric}] - \psi^T q + \psi^T y

    with n rows and :math:`\rho` the distance of the metric's best and worst value at the observed
    number of positives, so that neither the number of rows nor the unit of the metric changes what
    C means. With weights all sums are weighted, and n is theirs. A metric that is better when it is
    small enters with its sign turned.

    Parameters
    ----------
    metric : Expr, str or callable, default="f1"
        What to train for: a metric of :mod:`imbfit.metrics` that is affine in the true positives
        for given numbers of predicted and actual positives, its text, or a function of
        (tp, pp, ap, n). F-beta, precision, recall, specificity, npv, accuracy, balanced accuracy,
        informedness, markedness, kappa, MCC, lift, costs, and ``tp / sqrt(pp * ap)`` are.
    greater_is_better : bool, default=None
        Direction of the metric; needed unless it is a named one or a cost.
    constraints : constraint, str, or list of them, default=()
        What must hold, such as ``["recall >= 0.8"]``: in training on average over the predictor's
        mixed strategy against the observed labels, and for the cut exactly on the scores that it
        is chosen on.
    count : {"observed", "expected"}, default="observed"
        How many positives the adversary's labels have: exactly as many as the data, which has a
        closed form, or as many on average, which is the published game.
    C : float, default=1.0
        Inverse strength of the ridge, as in LogisticRegression.
    fit_intercept : bool, default=True
        Whether the scores of ``count="expected"`` have a level of their own in training, with a
        ten-thousandth of the ridge. With the observed count the level means nothing there.
    threshold : {"tuned", "train", "sign"}, default="tuned"
        Where the cut comes from. "tuned" chooses it for the metric and the constraints on
        out-of-fold scores, by :func:`imbfit.search_thresholds`; "train" on the scores of the
        training rows, which is quick and optimistic; "sign" keeps the sign of the trained score,
        as the published code does, and needs ``count="expected"``.
    cv : int, splitter or iterable, default=5
        Folds of ``threshold="tuned"``.
    batch_size : int, default=None
        Rows of a minibatch; None trains on all rows at once, with a certificate.
    solver : {"auto", "closed", "exact", "lp", "admm"}, default="auto"
        Of the game: the closed form where there is one and else the exact solver; "lp" and "admm"
        are the published ones, for small batches.
    init : {"logistic", "zeros"}, default="logistic"
        Where training starts.
    anchor : {"logistic"}, default=None
        With "logistic" the ridge pulls towards the direction of a logistic fit with C=1, in place
        of towards zero; a small C then keeps close to it. Along that direction it is a
        ten-thousandth of the ridge.
    max_iter : int, default=500
        Steps, or passes over the rows with minibatches.
    tol : float, default=1e-4
        Relative duality gap at which training stops; with minibatches the relative gain of a pass.
        With constraints or the expected count, games of more than 400 rows are solved on blocks of
        rows, which leaves a gap of their own. Where that is above `tol`, training stops when
        little else is left, and a ConvergenceWarning says which `tol` can be met.
    pos_label : label, default=None
        The positive label; None takes the last of the sorted two, ``classes_[1]``.
    warm_start : bool, default=False
        Start from the coefficients of the last fit.
    random_state : int, RandomState or None, default=None
        Draws the minibatches.
    n_jobs : int, default=None
        Folds fitted in parallel.
    verbose : int, default=0
        Print progress.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Slopes; greater scores point to ``classes_[1]``.
    intercept_ : ndarray of shape (1,)
        Minus the cut, so that a row is predicted ``classes_[1]`` where `decision_function` is
        above 0.
    game_value_ : float
        J at the coefficients, in units and direction of the metric: what the predictor secures on
        average against every adversary that keeps to the data's sums. Nothing about new rows.
    duality_gap_ : float
        Relative gap between the objective and a bound that no coefficients beat; infinite after
        minibatches of a game without closed form, after `partial_fit`, and where columns of very
        different scale leave the bound no digits.
    n_iter_ : int
        Steps or passes.
    converged_ : bool
        Whether `tol` was reached; `duality_gap_` is at most `tol` then, but for minibatches.
    history_ : list of Progress
        Games solved, objective and bound, now and then during training.
    threshold_search_ : ThresholdSearch or None
        How the cut was chosen, on scores ``X @ coef_`` with positive rows high, in the alignment
        that follows. None for "sign".
    alignment_ : {"raw", "levelled", "scaled"}
        How the scores of different folds were made comparable for ``threshold="tuned"``: left as
        they are; less their model's level, the score above which it has as many of its training
        rows as there are positives; or this difference over that of the level and the median score.
        The one whose best cut has the best metric is taken.
    classes_ : ndarray of shape (2,)
        The labels.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns of X, where it has any.

    See Also
    --------
    imbfit.OTLPThresholdClassifier : Thresholds under constraints, for any classifier.

    Notes
    -----
    There is no `predict_proba`: the scores are no log-odds. Calibrate them with
    scikit-learn's CalibratedClassifierCV where probabilities are needed.

    The game with the expected count is that of [1]_. With the observed count and without
    constraints a game takes one sort.

    References
    ----------
    .. [1] R. Fathony and Z. Kolter. "AP-Perf: Incorporating generic performance metrics in
       differentiable learning." AISTATS 2020.

    Examples
    --------
    >>> from imbfit import AdversarialMetricClassifier
    >>> from imbfit.datasets import make_rare_events
    >>> cards = make_rare_events(5_000, prevalence=0.03, random_state=0)
    >>> model = AdversarialMetricClassifier("f1").fit(cards.X, cards.y)
    >>> model.converged_, bool(model.duality_gap_ < 1e-4)
    (True, True)
    >>> strict = AdversarialMetricClassifier("recall", constraints="precision >= 0.4")
    >>> strict = strict.set_params(threshold="train", tol=1e-3).fit(cards.X, cards.y)
    >>> strict.converged_
    True
    >>> strict.threshold_search_.constraint_report[0]["met"]
    True
    """

    def __init__(
        self,
        metric: Any = "f1",
        *,
        greater_is_better: bool | None = None,
        constraints: Any = (),
        count: str = "observed",
        C: float = 1.0,
        fit_intercept: bool = True,
        threshold: str = "tuned",
        cv: Any = 5,
        batch_size: int | None = None,
        solver: str = "auto",
        init: str = "logistic",
        anchor: str | None = None,
        max_iter: int = 500,
        tol: float = 1e-4,
        pos_label: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.greater_is_better = greater_is_better
        self.constraints = constraints
        self.count = count
        self.C = C
        self.fit_intercept = fit_intercept
        self.threshold = threshold
        self.cv = cv
        self.batch_size = batch_size
        self.solver = solver
        self.init = init
        self.anchor = anchor
        self.max_iter = max_iter
        self.tol = tol
        self.pos_label = pos_label
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    classes_: np.ndarray
    threshold_search_: ThresholdSearch | None
    _sign: float
    _positive: Any
    _slopes: np.ndarray
    _level: float

    # ----------------------------------------------------------------------------------------
    # Fitting

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AdversarialMetricClassifier:
        """Train the scores, then choose the cut.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        y : array-like of shape (n_rows,)
            Labels of two kinds.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts, in the game and for the cut.

        Returns
        -------
        AdversarialMetricClassifier
            The fitted estimator.

        Raises
        ------
        UnsupportedMetric
            If the metric or a constraint is not affine in the true positives.
        InfeasibleConstraints
            If no prediction, or no cut, meets the constraints.
        TypeError, ValueError
            For bad input.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` came before `tol`, if games of more than 400 rows, which are solved on
            blocks of rows where there is no closed form, leave a gap above `tol`, or if columns of
            very different scale leave nothing to certify.
        """
        settings = read_settings(self)
        rows = self._read_rows(X, y, sample_weight)
        self.__dict__.pop("_stream", None)
        start = self._start(rows.X.shape[1])
        scored = self._out_of_fold(rows, settings) if self.threshold == "tuned" else None
        fitted = trained(self, rows.counted(), settings, start=start, seed=batch_seed(self))
        self._store(fitted)
        if self.threshold == "sign":
            self.threshold_search_, self.alignment_ = None, "raw"
            self._set_cut(-fitted.level)
        else:
            score = score_rows(rows.X, fitted.slopes, 0.0)
            if scored is None:
                self._choose_cut(score, rows, settings)
            else:
                parts, tested = scored
                height = height_of(score, rows.weight, rows.positives)
                rounding = rounding_of(rows.X, fitted.slopes)
                self._align_cut(parts, height, tested, settings, rounding=rounding)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> AdversarialMetricClassifier:
        """Take a step, or one for each minibatch of `batch_size` rows, on rows of a stream.

        After `fit` it goes on from the fitted scores.

        The cut is not set by this: give rows that stand for those to come to `set_cut`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        y : array-like of shape (n_rows,)
            Labels.
        classes : array-like of shape (2,), default=None
            Both labels; needed at the first call unless `y` has them both.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.

        Returns
        -------
        AdversarialMetricClassifier
            The same estimator.
        """
        settings = read_settings(self)
        first = not hasattr(self, "coef_")
        check_scale(players_of(self, settings))
        rows = self._read_rows(X, y, sample_weight, classes=classes, first=first).counted()
        if not hasattr(self, "_stream"):
            start = None if first else (self._slopes, self._level)
            self._stream = open_stream(rows, level=self._has_level(), start=start)
            self._rng = check_random_state(self.random_state)
        rng = np.random.default_rng(self._rng.randint(2**31 - 1))
        fitted = stream_rows(
            self._stream,
            rows,
            players_of(self, settings),
            C=float(self.C),
            batch_size=self.batch_size,
            rng=rng,
        )
        self._store(fitted)
        self.threshold_search_ = None
        if self.threshold == "sign":
            self._set_cut(-fitted.level)
        else:
            self.__dict__.pop("intercept_", None)
        return self

    def set_cut(self, X: Any, y: Any, sample_weight: Any = None) -> AdversarialMetricClassifier:
        """Choose the cut anew on given rows, for the metric and the constraints.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features, best of rows that the scores were not trained on.
        y : array-like of shape (n_rows,)
            Labels.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts.

        Returns
        -------
        AdversarialMetricClassifier
            The same estimator, with another `intercept_`.
        """
        check_is_fitted(self, "coef_")
        settings = read_settings(self)
        rows = self._read_rows(X, y, sample_weight, classes=self.classes_, first=False)
        self._choose_cut(score_rows(rows.X, self._slopes, 0.0), rows, settings)
        return self

    def _read_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        classes: Any = None,
        first: bool = True,
    ) -> Rows:
        for name, given in (("y", y), ("sample_weight", sample_weight)):
            align(given, X, name)
        check_comparable(y, "y")
        X, labels = validate_data(
            self,
            X,
            y,
            reset=first,
            accept_sparse=("csr", "csc"),
            dtype=np.float64,
            accept_large_sparse=True,
        )
        weight = row_weights(sample_weight, len(labels))
        kind = type_of_target(labels, input_name="y", raise_unknown=True)
        if kind not in {"binary", "multiclass"}:
            raise ValueError(f"Unknown label type: {kind}; y must hold labels of two kinds")
        self._set_classes(labels, weight, classes, first=first)
        return Rows(X, np.asarray(labels == self._positive), weight)

    def _set_classes(
        self, labels: np.ndarray, weight: np.ndarray | None, classes: Any, *, first: bool
    ) -> None:
        found = np.unique(labels if weight is None else labels[weight > 0.0])
        if classes is not None or not first:
            known = np.unique(self.classes_ if not first else np.asarray(classes))
            strange = np.setdiff1d(found, known)
            began = [] if first else self.classes_.tolist()
            if not first and classes is not None and set(np.unique(classes)) != set(began):
                raise ValueError(
                    f"classes={list(classes)}, but the stream began with the classes {began}; give "
                    "the same, or begin another stream with another estimator"
                )
            if len(strange):
                raise ValueError(
                    f"y has the label {strange.tolist()[0]!r}, which is not among the classes "
                    f"{known.tolist()}"
                )
            found = known
        if len(found) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: y "
                f"has {len(found)} kinds of labels; code the positive class against the rest"
            )
        if len(found) < 2:
            where = "" if weight is None else " where sample_weight is above 0"
            raise ValueError(
                f"y has one class only{where}, {found.tolist()}; a classifier needs rows of two "
                "classes. The first rows of a stream may have one if classes= names both labels"
            )
        positive = positive_label(found, self.pos_label)
        if not first and positive != self._positive:
            was = self.classes_.tolist()[int(self._sign > 0.0)]
            raise ValueError(
                f"pos_label={self.pos_label!r}, but the scores were trained with {was!r} as "
                "the positive label; set it back, or call fit"
            )
        self.classes_, self._positive = found, positive

    def _has_level(self) -> bool:
        return self.count == "expected" and bool(self.fit_intercept)

    def _start(self, columns: int) -> tuple[np.ndarray, float] | None:
        if not self.warm_start or not hasattr(self, "_slopes"):
            return None
        if len(self._slopes) != columns:
            raise ValueError(
                f"warm_start=True, but the last fit had {len(self._slopes)} slopes and X has "
                f"{columns} columns; write warm_start=False"
            )
        return self._slopes, self._level

    def _out_of_fold(
        self, rows: Rows, settings: Settings
    ) -> tuple[list[tuple[np.ndarray, Height]], Rows]:
        """Return scores of each fold's rows by a model trained without them, and the rows."""
        labels = rows.positive.astype(int)
        splits = split_rows(self.cv, rows.X, labels)
        if rows.weight is not None:
            counted = np.where(rows.weight > 0.0, labels, -1)
            for fold, (train, _) in enumerate(splits):
                found = np.unique(counted[train])
                if not {0, 1} <= set(found.tolist()):
                    raise ValueError(
                        f"the training rows of fold {fold} whose sample_weight is above 0 hold one "
                        "class only; use fewer folds, or threshold='train'"
                    )
        # drawn here, since workers have copies of a RandomState
        seeds = [batch_seed(self) for _ in splits]
        parts = Parallel(n_jobs=self.n_jobs)(
            delayed(trained_and_scored)(self, rows, settings, train, test, seed=seed)
            for (train, test), seed in zip(splits, seeds, strict=True)
        )
        return parts, rows_of_folds(rows, np.concatenate([test for _, test in splits]))

    def _search(self, rows: Rows, settings: Settings) -> Callable[[np.ndarray], ThresholdSearch]:
        return lambda score: best_cut(
            score,
            rows.positive,
            rows.weight,
            payoff=settings.payoff,
            constraints=settings.constraints,
        )

    def _choose_cut(self, score: np.ndarray, rows: Rows, settings: Settings) -> None:
        one = merged(score, rounding_of(rows.X, self._slopes))
        found = self._search(rows, settings)(one)
        self.threshold_search_, self.alignment_ = found, "raw"
        self._set_cut(finite_cut(found, score, one))

    def _align_cut(
        self,
        parts: list[tuple[np.ndarray, Height]],
        height: Height,
        rows: Rows,
        settings: Settings,
        *,
        rounding: float,
    ) -> None:
        cut, self.threshold_search_, self.alignment_ = aligned_cut(
            parts, height, self._search(rows, settings), rounding=rounding
        )
        self._set_cut(cut)

    def _set_cut(self, cut: float) -> None:
        self.intercept_ = np.array([-self._sign * cut])

    def _store(self, fitted: Fitted) -> None:
        self._sign = 1.0 if self._positive == self.classes_[1] else -1.0
        self._slopes, self._level = fitted.slopes, fitted.level
        self.coef_ = self._sign * fitted.slopes[np.newaxis]
        self.game_value_ = fitted.game_value
        self.history_ = fitted.history
        self.duality_gap_ = fitted.history[-1].gap if fitted.history else float("inf")
        self.n_iter_ = fitted.iterations
        self.converged_ = fitted.converged

    # ----------------------------------------------------------------------------------------
    # Predicting

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores less the cut.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_rows,)
            Above 0 where `predict` says ``classes_[1]``. No log-odds, and no probabilities.
        """
        check_is_fitted(self, "coef_")
        if not hasattr(self, "intercept_"):
            raise NotFittedError(
                "partial_fit trains the scores and sets no cut: call set_cut(X, y) with rows that "
                "stand for those to come"
            )
        X = validate_data(
            self,
            X,
            reset=False,
            accept_sparse=("csr", "csc"),
            dtype=np.float64,
            accept_large_sparse=True,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            score = score_rows(X, self.coef_[0], float(self.intercept_[0]))
        if not np.isfinite(score).all():
            raise ValueError(
                f"the score overflows in {first_rows(~np.isfinite(score))}: these values of X are "
                "far beyond those that the model was trained on"
            )
        return score

    def predict(self, X: Any) -> np.ndarray:
        """Predict labels, each row by itself.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels, in the type that `fit` got.
        """
        second = self.decision_function(X) > 0.0
        return self.classes_[second.astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags
