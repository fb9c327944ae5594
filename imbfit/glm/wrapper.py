"""Any classifier, fitted on a sample of the negatives and read on the scale of the population."""

from __future__ import annotations

import copy
import numbers
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit, log_expit
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import (
    check_consistent_length,
    check_random_state,
    column_or_1d,
    get_tags,
    indexable,
)
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from imbfit._frames import align, row_count, take_rows
from imbfit._labels import encode_binary, first_rows, positive_label, row_weights
from imbfit.exceptions import SamplingWarning
from imbfit.glm.calibrators import IsotonicCalibrator, OutOfFold, SigmoidCalibrator
from imbfit.glm.draws import Draw, LabelledRows
from imbfit.glm.inner_classifier import (
    Reader,
    last_step,
    no_probabilities,
    reweighting,
    weight_parameter,
)
from imbfit.glm.rate_choice import read_rate_choice

__all__ = ["DownsampledClassifier"]

# Scorers take no infinite score, so this is the log-odds of the probabilities 0 and 1. Those of the
# smallest positive float are -744.4, which leaves room for a rate of 1e-20.
_LIMIT = 800.0

# So many rows, half of them positive to the last row, are hardly so by themselves.
_MANY = 200


def _gives_probabilities(self: DownsampledClassifier) -> bool:
    if self.correction is None:
        # the inner model's own AttributeError says best why a method is missing
        getattr(getattr(self, "estimator_", self.estimator), "predict_proba")  # noqa: B009
    return True


class DownsampledClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Any binary classifier, fitted on a sample of the negatives, predicting for the population.

    `fit` keeps all positives and draws some of the negatives, or takes rows that were sampled
    before. The inner model learns the odds of the sample, which are those of the population divided
    by the sampling rate, so its probabilities are mapped back by that rate; or they are calibrated
    on rows at their natural rate.

    Parameters
    ----------
    estimator : estimator
        Binary classifier: boosted trees, a forest, a network, a Pipeline. It is cloned, and fitted
        on the sample.
    sampling_rate : float, "balanced" or RandomUnderSampler, default="balanced"
        Kept negatives / all negatives, above 0 and at most 1. "balanced" keeps as many negatives as
        there are positives. An imbalanced-learn `RandomUnderSampler` draws as its own parameters
        say; other samplers choose by the features, and no rate corrects for that. The rate that
        came out is used everywhere, not the one asked for.
    presampled : bool, default=False
        Whether the rows given to `fit` are a sample already. Then `sampling_rate` is the number
        that their negatives were drawn at, or `prevalence` is given.
    prevalence : float, default=None
        The population's share of positives, where the rows are presampled and their rate is not
        known.
    correction : {"prior", "isotonic", "sigmoid"} or None, default="prior"
        "prior" maps the inner probabilities by the sampling rate: exact where they are right in
        the sample. "isotonic" and "sigmoid" also learn from out-of-fold scores how far they are
        not; for models that overfit the sample, and those without `predict_proba`. None
        leaves the inner model's scores as they are.
    cv : int, splitter or iterable, default=5
        Folds of "isotonic" and "sigmoid". Each fold's model is fitted on the part of the sample
        outside the fold and scores all rows of the fold.
    pos_label : label, default=None
        The rare label whose rows are all kept; None takes the last of the sorted two,
        ``classes_[1]``.
    random_state : int, RandomState or None, default=None
        Draws the negatives. A sampler's own `random_state` comes before it.
    n_jobs : int, default=None
        Folds fitted in parallel.

    Attributes
    ----------
    estimator_ : estimator
        The inner model, fitted on the sample.
    classes_ : ndarray of shape (2,)
        The labels.
    sampling_rate_ : float
        Kept negatives / all negatives, as it came out, by weight where there are weights; of
        presampled rows the rate that was given, or that follows from `prevalence`.
    positive_sampling_rate_ : float
        Kept positives / all positives: 1, unless a sampler thins them too.
    n_kept_ : int
        Rows of the sample.
    calibrator_ : IsotonicCalibrator, SigmoidCalibrator or None
        What was learned from out-of-fold scores. The latter has `slope` and `intercept`.
    calibration_ratio_ : float
        Mean prediction / prevalence on the rows given to `fit`, presampled negatives weighted up.
        The kept rows are predicted by a model that has seen them, so held-out rows are the judge.
        NaN where there are no probabilities.
    n_features_in_ : int
        Number of columns of X, where the inner model tells.
    feature_names_in_ : ndarray of str
        Names of the columns of X, where the inner model tells.

    See Also
    --------
    imbfit.DownsampledGLMClassifier : Its coefficients and standard errors are right as well.
    imbfit.prior_correction : The map alone, for a fitted model whose sampling rate is known.

    Notes
    -----
    The prior map repairs the rate and nothing else. A model whose probabilities are too
    extreme, such as a forest of fully grown trees on a balanced sample, is as wrong after it, and
    in the rare class errors of the odds add up. Then keep more negatives, make leaves larger or
    learning rates smaller, or take "sigmoid" or "isotonic".

    Weights are drawn along with their rows. A row is kept or dropped as a whole, so weight 2 equals
    the row twice in expectation only; rows of weight 0 are never drawn.

    Examples
    --------
    >>> from imbfit import DownsampledClassifier
    >>> from imbfit.datasets import make_rare_events
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> cards = make_rare_events(50_000, prevalence=0.02, random_state=0)
    >>> model = DownsampledClassifier(
    ...     HistGradientBoostingClassifier(max_iter=30), sampling_rate=0.1, random_state=0
    ... ).fit(cards.X, cards.y)
    >>> model.n_kept_, round(model.sampling_rate_, 3)
    (5837, 0.099)
    >>> bool(0.9 < model.predict_proba(cards.X)[:, 1].mean() / cards.y.mean() < 1.1)
    True
    """

    # The searches and splitters around may pass it on without being told to.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        *,
        sampling_rate: Any = "balanced",
        presampled: bool = False,
        prevalence: float | None = None,
        correction: str | None = "prior",
        cv: Any = 5,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.sampling_rate = sampling_rate
        self.presampled = presampled
        self.prevalence = prevalence
        self.correction = correction
        self.cv = cv
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ----------------------------------------------------------------------------------------
    # Fitting

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        **fit_params: Any,
    ) -> DownsampledClassifier:
        """Draw the sample, fit the inner model on it, and learn the way back.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Whatever the inner model takes; it is not validated here.
        y : array-like of shape (n_rows,)
            Labels of two kinds.
        sample_weight : array-like of shape (n_rows,), default=None
            How often each row counts: in the realised rate, in the inner model's fit on the kept
            rows, and in the calibration.
        groups : array-like of shape (n_rows,), default=None
            Passed to the splitter of "isotonic" and "sigmoid".
        **fit_params : dict
            Passed to the inner model's fit; what has an entry for each row is cut to the sample.

        Returns
        -------
        DownsampledClassifier
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            For bad input, and for parameters that contradict each other.

        Warns
        -----
        SamplingWarning
            If the inner model weights or resamples the classes itself, which breaks the prior map;
            if the mean prediction is off after that map; if the rows look sampled already.
        """
        self._check_params()
        choice = read_rate_choice(
            self.sampling_rate, presampled=self.presampled, prevalence=self.prevalence
        )
        X, labels, weight = _check_rows(X, y, sample_weight, groups, owner=type(self).__name__)
        classes = np.unique(labels)
        pos_label = positive_label(classes, self.pos_label)
        positive = labels == pos_label
        to_fit, to_split = self._route(weight, groups, fit_params)
        rows = LabelledRows(
            labels=labels,
            positive=positive,
            weight=weight,
            weighted_fit=weight is not None and any(v is weight for v in to_fit.values()),
            choice=choice,
            seed=_seed(self.random_state),
        )
        reader = Reader(classes, pos_label, corrects=self.correction is not None)
        drawn = rows.draw()
        warned = self._warn_of_draw(rows, drawn)
        learned = None
        if self.correction in {"isotonic", "sigmoid"}:
            learned = self._learn(X, rows, reader, to_fit, to_split)
        model = _fit_on(self.estimator, X, labels, drawn, to_fit)
        if self.correction == "prior" and not hasattr(model, "predict_proba"):
            raise ValueError(no_probabilities(model))
        score = reader.score(model, X, drawn.log_ratio)

        self.estimator_ = model
        self.classes_ = classes
        self.calibrator_ = None if learned is None else learned.centred(score, rows, drawn)
        self.sampling_rate_ = drawn.rate
        self.positive_sampling_rate_ = drawn.positive_rate
        self.n_kept_ = len(drawn.rows)
        self._reader = reader
        self._log_ratio = drawn.log_ratio
        self.calibration_ratio_ = self._mean_ratio(score, rows)
        if self.correction == "prior" and not warned:
            self._warn_of_ratio(int(np.count_nonzero(positive[drawn.rows])))
        return self

    def _check_params(self) -> None:
        inner = self.estimator
        if isinstance(inner, type) or not hasattr(inner, "fit"):
            raise TypeError(
                f"estimator={inner!r}: give a classifier instance, such as "
                "HistGradientBoostingClassifier(); for probabilities at hand use prior_correction"
            )
        if isinstance(last_step(inner), FrozenEstimator):
            raise ValueError(  # noqa: TRY004  an estimator it is, but not one to fit
                "estimator is a FrozenEstimator, which is not fitted again, so the sample drawn "
                "here is not the one it has learned from. Write prior_correction(p, rate) with the "
                "rate of its own sample, or calibrate it on rows at their natural rate by "
                "CalibratedClassifierCV"
            )
        allowed = ("prior", "isotonic", "sigmoid")
        given: Any = self.correction
        if given is not None and (not isinstance(given, str) or given not in allowed):
            listed = ", ".join(map(repr, allowed))
            raise ValueError(f"correction={given!r}: allowed are {listed} and None")
        # before a long fit, where the model is known to score otherwise
        decides = hasattr(inner, "decision_function") and not hasattr(inner, "predict_proba")
        if given == "prior" and decides:
            raise ValueError(no_probabilities(inner))

    def _route(
        self, weight: np.ndarray | None, groups: Any, fit_params: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what goes to the inner model's fit and to the splitter's split."""
        if get_config()["enable_metadata_routing"]:
            given = {"sample_weight": weight, "groups": groups, **fit_params}
            given = {name: value for name, value in given.items() if value is not None}
            routed = process_routing(self, "fit", **given)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        to_fit = dict(fit_params)
        if weight is not None:
            name = weight_parameter(self.estimator)
            if name is None:
                warnings.warn(
                    f"{type(self.estimator).__name__}.fit takes no sample_weight; the weights "
                    "enter the sampling rate and the calibration only",
                    UserWarning,
                    stacklevel=3,
                )
            else:
                to_fit[name] = weight
        return to_fit, {} if groups is None else {"groups": groups}

    def _warn_of_draw(self, rows: LabelledRows, drawn: Draw) -> bool:
        if rows.choice.balanced and len(drawn.rows) >= _MANY and _are_even(rows, drawn):
            warnings.warn(
                "sampling_rate='balanced' leaves nothing out: there are as many negatives as "
                f"positives, {len(drawn.rows) // 2} of each, which is what a sampler before this "
                "estimator leaves behind. If so, pass presampled=True with sampling_rate= its rate "
                "or prevalence=; if not, sampling_rate=1.0 says so",
                SamplingWarning,
                stacklevel=3,
            )
        if self.correction != "prior":
            return False
        found = reweighting(self.estimator, balance=drawn.balance)
        if found:
            warnings.warn(
                f"the inner model has {' and '.join(found)}: its probabilities are not those of "
                "the sample, and the prior map does not undo that. Leave it out, since sampling "
                "does the same work, or pass correction='sigmoid' or 'isotonic', which learn it",
                SamplingWarning,
                stacklevel=3,
            )
        return bool(found)

    def _learn(
        self,
        X: Any,
        rows: LabelledRows,
        reader: Reader,
        to_fit: Mapping[str, Any],
        to_split: Mapping[str, Any],
    ) -> OutOfFold:
        """Calibrate on scores that no model has given to rows of its own sample."""
        splits = _splits(self.cv, X, rows.labels, to_split)
        draws = [
            rows.draw(train, where=f" among the training rows of fold {fold} of cv")
            for fold, (train, _) in enumerate(splits)
        ]
        parts = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_and_score)(self.estimator, X, rows.labels, drawn, test, reader, to_fit)
            for drawn, (_, test) in zip(draws, splits, strict=True)
        )
        scores, are_log_odds = zip(*parts, strict=True)
        tested = np.concatenate([test for _, test in splits])
        times = np.bincount(tested, minlength=len(rows.labels))
        weight = rows.natural_weight()[tested] / times[tested]
        counts = weight > 0
        score, weight = np.concatenate(scores)[counts], weight[counts]
        positive = rows.positive[tested][counts]
        make = IsotonicCalibrator if self.correction == "isotonic" else SigmoidCalibrator
        calibrator = make.learned(score, positive, weight, from_log_odds=all(are_log_odds))
        negative = expit(calibrator.log_odds(score[~positive]))
        return OutOfFold(calibrator, float(np.average(negative, weights=weight[~positive])))

    def _mean_ratio(self, score: np.ndarray, rows: LabelledRows) -> float:
        if not hasattr(self, "predict_proba"):
            return float("nan")
        log_odds = score if self.calibrator_ is None else self.calibrator_.log_odds(score)
        weight = rows.natural_weight()
        return float(weight @ expit(log_odds) / weight[rows.positive].sum())

    def _warn_of_ratio(self, positives: int) -> None:
        ratio, negatives = self.calibration_ratio_, self.n_kept_ - positives
        # three standard errors of the log-odds of a sample of this size
        if abs(ratio - 1) <= max(0.1, 3 * np.sqrt(1 / positives + 1 / negatives)):
            return
        cause = (
            "fits its sample less closely (larger leaves, smaller trees, a lower learning rate)"
            if ratio > 1
            else "fits its sample better (a weaker penalty, more iterations)"
        )
        warnings.warn(
            f"the mean prediction on the rows given to fit is {ratio:.3g} times their prevalence: "
            "the inner model's probabilities are not right in its own sample, and the prior map "
            "carries that over. Pass correction='sigmoid' or 'isotonic', a higher sampling_rate, "
            f"or a model that {cause}",
            SamplingWarning,
            stacklevel=3,
        )

    # ----------------------------------------------------------------------------------------
    # What the fitted estimator knows

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the inner model sees."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns that the inner model sees."""
        return self.estimator_.feature_names_in_

    # ----------------------------------------------------------------------------------------
    # Predicting

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log-odds of ``classes_[1]`` in the population.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Above 0 where `predict` says ``classes_[1]``. With ``correction=None`` and an inner
            model without `predict_proba` these are its own decision values.
        """
        check_is_fitted(self)
        score = self._reader.score(self.estimator_, X, self._log_ratio)
        if self.calibrator_ is not None:
            score = self.calibrator_.log_odds(score)
        score = np.nan_to_num(score, posinf=_LIMIT, neginf=-_LIMIT)
        # a probability this close to one half is one half, and neither class
        score[np.abs(score) < 1e-15] = 0.0
        return score if self._reader.pos_label == self.classes_[1] else -score

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities in the population.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            A column for each of `classes_`.
        """
        log_odds = self.decision_function(X)
        return np.column_stack([expit(-log_odds), expit(log_odds)])

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict logarithms of the probabilities in the population.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            A column for each of `classes_`; minus infinity for a probability of 0.
        """
        log_odds = self.decision_function(X)
        both = np.column_stack([log_expit(-log_odds), log_expit(log_odds)])
        both[both <= -_LIMIT] = -np.inf
        return both

    def predict(self, X: Any) -> np.ndarray:
        """Predict the label that is more probable in the population.

        With rare positives that is the negative one nearly everywhere; for a better cut choose a
        threshold, as :class:`imbfit.OTLPThresholdClassifier` around this estimator does.

        Parameters
        ----------
        X : frame, array, sparse matrix or sequence of length n_rows
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels, in the type that `fit` got.
        """
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(np.intp)]

    # ----------------------------------------------------------------------------------------
    # The scikit-learn contract

    def get_metadata_routing(self) -> MetadataRouter:
        """Tell which metadata go where.

        Returns
        -------
        MetadataRouter
            `fit` uses sample_weight itself, and passes to the inner model's fit and to the splitter
            what they ask for.
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator)
            tags.input_tags = copy.deepcopy(inner.input_tags)
            tags.non_deterministic = inner.non_deterministic
        return tags


def _check_rows(
    X: Any, y: Any, sample_weight: Any, groups: Any, *, owner: str
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return rows that can be taken by position, labels of two kinds, and weights."""
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None")
    for name, value in {"y": y, "sample_weight": sample_weight, "groups": groups}.items():
        align(value, X, name)
    (X,) = indexable(X)
    labels = column_or_1d(y, warn=True)
    check_consistent_length(X, labels)
    if not len(labels):
        raise ValueError("y has no rows; a model is fitted on the rows of two classes")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"y has no label in {first_rows(~np.isfinite(labels))}; drop these rows")
    if labels.dtype.kind == "O":
        encode_binary(labels, pos_label=labels[0], name="y")  # names missing labels
    kind = type_of_target(labels, input_name="y", raise_unknown=True)
    if kind == "continuous":
        raise ValueError(f"Unknown label type: {kind}; y must hold labels of two kinds")
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}; code the "
            "positive class against the rest"
        )
    weight = row_weights(sample_weight, len(labels))
    found, counts = np.unique(labels if weight is None else labels[weight > 0], return_counts=True)
    above = "" if weight is None else " where sample_weight is above 0"
    if len(found) < 2:
        raise ValueError(
            f"y has one class, {found.tolist()[0]!r}, in all {len(labels)} rows{above}; a "
            "classifier needs rows of two classes"
        )
    if counts.min() < 2:
        raise ValueError(
            f"y has one row of the class {found[counts.argmin()]!r}{above}; nothing can be learned "
            "from one row of a class, at least 2 are needed"
        )
    return X, labels, weight


def _are_even(rows: LabelledRows, drawn: Draw) -> bool:
    return 2 * int(np.count_nonzero(rows.positive[drawn.rows])) == len(drawn.rows)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state={random_state!r}: give an int of at least 0")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _splits(
    cv: Any, X: Any, labels: np.ndarray, to_split: Mapping[str, Any]
) -> list[tuple[np.ndarray, np.ndarray]]:
    if isinstance(cv, (str, bool, float)):
        raise ValueError(  # noqa: TRY004
            f"cv={cv!r}: give an int, a splitter, or a list of splits"
        )
    splits = []
    for train, test in check_cv(cv, labels, classifier=True).split(X, labels, **to_split):
        splits.append((_positions(train, len(labels)), _positions(test, len(labels))))
    return splits


def _positions(part: Any, rows: int) -> np.ndarray:
    array = np.asarray(part)
    return np.flatnonzero(array) if array.dtype == bool and len(array) == rows else array


def _fit_on(
    estimator: Any, X: Any, labels: np.ndarray, drawn: Draw, to_fit: Mapping[str, Any]
) -> Any:
    if len(drawn.rows) == len(labels):
        return clone(estimator).fit(X, labels, **to_fit)
    cut = {
        name: take_rows(value, drawn.rows) if _per_row(value, len(labels)) else value
        for name, value in to_fit.items()
    }
    return clone(estimator).fit(take_rows(X, drawn.rows), labels[drawn.rows], **cut)


def _fit_and_score(  # noqa: PLR0917
    estimator: Any,
    X: Any,
    labels: np.ndarray,
    drawn: Draw,
    test: np.ndarray,
    reader: Reader,
    to_fit: Mapping[str, Any],
) -> tuple[np.ndarray, bool]:
    model = _fit_on(estimator, X, labels, drawn, to_fit)
    score = reader.score(model, take_rows(X, test), drawn.log_ratio)
    return score, hasattr(model, "predict_proba")


def _per_row(value: Any, n_rows: int) -> bool:
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__"):
        return False
    return row_count(value) == n_rows
