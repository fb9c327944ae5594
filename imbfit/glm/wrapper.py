"""Any classifier, fitted on a sample of the negatives and read on the scale of the population."""

from __future__ import annotations

import copy
import numbers
import warnings
from typing import Any

import numpy as np
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from imbfit._labels import positive_label
from imbfit._training_rows import check_rows, route_fit
from imbfit.exceptions import SamplingWarning
from imbfit.glm.draws import Draw, LabelledRows
from imbfit.glm.inner_classifier import Reader, last_step, no_probabilities, reweighting
from imbfit.glm.out_of_fold import fit_on, learn_calibrator
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
    by the sampling rate, so its probabilities are mapped back by that rate. Unless that map is all
    that is asked for, they are then calibrated on rows at their natural rate.

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
    correction : {"sigmoid", "isotonic", "prior"} or None, default="sigmoid"
        "prior" maps the inner probabilities by the sampling rate and needs one fit, in place of one
        for each fold and one more: exact for a model whose probabilities are right in its own
        sample. Those of boosted trees and forests at their defaults are too extreme there, and the
        map carries that over. So by default a line is put through the mapped log-odds that rows at
        their natural rate get out of fold, which mends it, and which takes models without
        `predict_proba`. "isotonic" does that by a step function, for thousands of positives.
        None leaves the inner model's scores as they are.
    cv : int, splitter or iterable, default=5
        Folds of "sigmoid" and "isotonic". Each fold's model is fitted on the part of the sample
        outside the fold and scores all rows of the fold. An int is the number of stratified folds;
        there are no more than the rarer class has rows.
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
    The prior map, :func:`imbfit.prior_correction`, is Proposition 1 of :cite:`chen2025`. It
    repairs the rate and nothing else. A model whose probabilities are too extreme, such as a forest
    of fully grown trees on a balanced sample, is as wrong after it, and in the rare class errors of
    the odds add up. Where it is taken for its speed, keep many negatives, and make leaves large or
    learning rates small.

    What is learned out of fold is learned of the folds' models, which have seen fewer rows. Up to a
    rate of one half the final model is held to their mean by the negatives that it has not seen.
    Above that, and for presampled rows, it has to be a model of the same kind: state
    `early_stopping` for scikit-learn's boosted trees, which otherwise begin with it at 10,000 rows.

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
        correction: str | None = "sigmoid",
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
            Passed to the splitter of "sigmoid" and "isotonic".
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
            if the mean prediction is off after that map; if out-of-fold scores don't tell the
            classes apart; if the rows look sampled already.
        """
        self._check_params()
        choice = read_rate_choice(
            self.sampling_rate, presampled=self.presampled, prevalence=self.prevalence
        )
        X, labels, weight = check_rows(
            X,
            y,
            sample_weight=sample_weight,
            owner=type(self).__name__,
            purpose="a model is fitted on",
            groups=groups,
        )
        _check_counts(labels, weight)
        classes = np.unique(labels)
        pos_label = positive_label(classes, self.pos_label)
        positive = labels == pos_label
        to_fit, to_split = route_fit(
            self,
            weight=weight,
            groups=groups,
            passed=fit_params,
            elsewhere="enter the sampling rate and the calibration",
        )
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
            learned = learn_calibrator(
                self.estimator,
                X,
                rows,
                reader,
                correction=self.correction,
                cv=self.cv,
                to_fit=to_fit,
                to_split=to_split,
                n_jobs=self.n_jobs,
            )
        model = fit_on(self.estimator, X, labels, drawn, to_fit)
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
        if self.calibrator_ is not None and self.calibrator_.flat:
            self._warn_of_no_order(positive)
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
        allowed = ("sigmoid", "isotonic", "prior")
        given: Any = self.correction
        if given is not None and (not isinstance(given, str) or given not in allowed):
            listed = ", ".join(map(repr, allowed))
            raise ValueError(f"correction={given!r}: allowed are {listed} and None")
        # before a long fit, where the model is known to score otherwise
        decides = hasattr(inner, "decision_function") and not hasattr(inner, "predict_proba")
        if given == "prior" and decides:
            raise ValueError(no_probabilities(inner))

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

    def _warn_of_no_order(self, positive: np.ndarray) -> None:
        label = self.classes_[self.classes_ == self._reader.pos_label].tolist()[0]
        warnings.warn(
            f"out of fold the inner model scores rows of the class {label!r} no higher than "
            "others, so its scores tell nothing and every row gets the prevalence. The class has "
            f"{np.count_nonzero(positive)} rows, and the sample {self.n_kept_}: give more rows, a "
            "higher sampling_rate, a model that learns from so few, or correction='prior', which "
            "takes its probabilities as they are",
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


def _check_counts(labels: np.ndarray, weight: np.ndarray | None) -> None:
    found, counts = np.unique(labels if weight is None else labels[weight > 0], return_counts=True)
    above = "" if weight is None else " where sample_weight is above 0"
    if len(found) < 2:
        raise ValueError(
            f"y has one class, {found.tolist()[0]!r}, in all rows{above}; a model is fitted on the "
            "rows of two classes"
        )
    if counts.min() < 2:
        raise ValueError(
            f"y has one row of the class {found.tolist()[counts.argmin()]!r}{above}; nothing can "
            "be learned from one row of a class, at least 2 are needed"
        )


def _are_even(rows: LabelledRows, drawn: Draw) -> bool:
    return 2 * int(np.count_nonzero(rows.positive[drawn.rows])) == len(drawn.rows)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"random_state={random_state!r}: give an int of at least 0")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
