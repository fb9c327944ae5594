"""The estimator around the downsampled fit."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from imbfit._labels import positive_label, row_weights
from imbfit.exceptions import SamplingWarning
from imbfit.glm.batches import open_source
from imbfit.glm.design import Design
from imbfit.glm.findings import worded
from imbfit.glm.fitting import Fitted
from imbfit.glm.links import Link
from imbfit.glm.offsets import called_offset, checked_offset, offset_column
from imbfit.glm.parameters import read_contrasts, read_settings
from imbfit.glm.passes import Block, Counts, InMemory, Source, count
from imbfit.glm.rate_choice import RateChoice, read_rate_choice
from imbfit.glm.routes import (
    check_predictions,
    count_all,
    fit_at_rate,
    fit_chosen,
    fit_efficient,
    fit_given,
    fit_scored,
)
from imbfit.glm.sample_likelihood import Settings
from imbfit.glm.samples import Sample
from imbfit.glm.uncertainty import Coefficients
from imbfit.glm.undersamplers import undersample

__all__ = ["DownsampledGLMClassifier"]


class DownsampledGLMClassifier(Coefficients, ClassifierMixin, BaseEstimator):
    r"""A generalised linear model fitted on all positives and a sample of the negatives.

    With :math:`p(\eta)` the inverse link, :math:`\eta = b + x^\top w` and a negative kept with
    probability :math:`a`, a kept row is positive with log-odds
    :math:`\log(p(\eta)) - \log(1 - p(\eta)) - \log(a)`, for any link (Proposition 1 of
    :cite:`chen2025`). The default method, the conditional maximum likelihood estimator, maximises
    that likelihood. So coefficients, probabilities and standard errors are those of the population,
    and nothing is left to correct.

    Parameters
    ----------
    link : {"logit", "probit", "cloglog", "loglog", "cauchit"} or Link, default="logit"
        Link of the positive class's probability. If `pos_label` is ``classes_[0]``, an asymmetric
        link holds for that class; seen from ``classes_[1]``, to which the coefficients point, it is
        mirrored (cloglog becomes loglog), and `summary` says so.
    method : {"cmle", "iw", "profile", "pseudo_mle", "naive"}, default="cmle"
        ``"cmle"``: conditional maximum likelihood (equation 9 of :cite:`chen2025`), the most
        precise or as good as the most precise. ``"iw"``: inverse weights (equation 8); less
        precise, but it keeps the target of the full fit where the model is wrong. ``"profile"``:
        the exact likelihood of the sample (equation 4) with the distribution of the features
        profiled out. ``"pseudo_mle"``: equations 6 and 7, consistent only where the rate is far
        above the prevalence; warns where it is not. ``"naive"``: the link fitted to the sample as
        if it were the population (equation 1), and `naive_correction` afterwards; for comparison.
    sampling_rate : float, "auto", "balanced" or under-sampler, default="auto"
        Share of the negatives that is kept. A number in (0, 1]; ``"balanced"`` for as many
        negatives as positives; ``"auto"`` for the smallest rate at which every slope keeps
        `efficiency` of its precision, and for all rows where that rate is above 0.5 or there are
        fewer than 5,000 rows or 100 positives. Or an imbalanced-learn sampler that chooses at
        random given the class, `RandomUnderSampler`. With `presampled`, the number says at what
        rate the rows were sampled upstream.
    efficiency : float, default=0.95
        With ``"auto"``: least ratio of the full fit's variance to that of the downsampled fit,
        over all slopes or contrasts.
    sampling : {"uniform", "a_optimal", "l_optimal", "local_case_control"}, default="uniform"
        How negatives are drawn. Unequal chances need a pilot and ``method="cmle"`` or ``"iw"``:
        ``"a_optimal"`` makes the slopes' summed variance small, ``"l_optimal"`` does so without a
        matrix of all columns, ``"local_case_control"`` keeps rows, positives included, that the
        pilot finds surprising.
    presampled : bool, default=False
        Whether the rows were downsampled before `fit`, upstream or by a sampler earlier in a
        pipeline. Then `sampling_rate` must be a number, or `prevalence` given.
    prevalence : float, default=None
        With `presampled`: share of positives in the population, from which the rate follows.
    known_intercept : float, default=None
        Intercept that is not fitted, of the positive class: minus the threshold of the latent
        variable that :cite:`chen2025` takes as known.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    C : float, default=np.inf
        Inverse strength of the ridge, as in `LogisticRegression`: the minus log-likelihood, summed
        over the kept rows, plus ``sum(coef**2)/(2*C)``.
    offset : str, int or callable, default=None
        Column of X that enters the linear predictor with coefficient 1, and is no feature; or a
        callable on X that returns one value per row. Its sign is that of the positive class. For
        an exposure use ``link="cloglog"`` and the logarithm of the exposure.
    solver : {"auto", "newton", "lbfgs", "newton-cg"}, default="auto"
        ``"newton"`` is Fisher scoring with backtracking. ``"auto"`` takes it up to 2,000 columns,
        and ``"newton-cg"``, which makes no matrix of columns by columns, above.
    max_iter : int, default=100
        Most iterations.
    tol : float, default=1e-8
        The fit ends when the next step is shorter than this, in standard errors.
    pos_label : label, default=None
        The positive label, whose rows are all kept. By default the last of the sorted labels.
    naive_correction : {"prior", "isotonic"}, default="prior"
        With ``method="naive"``: Proposition 1's map, or isotonic regression on the kept rows
        weighted back to the population.
    recalibrate_intercept : False or "full", default=False
        ``"full"`` shifts the intercept so that the mean prediction over all rows, dropped ones
        included, is the prevalence. A remedy where a ridge or a wrong model leaves
        `calibration_ratio_` off 1.
    warm_start : bool, default=False
        Start from the coefficients of the last fit.
    random_state : int, RandomState or None, default=None
        Seed of the draw.
    verbose : int, default=0
        Above 0 prints each iteration.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    pos_label_ : label
        The positive one.
    coef_ : ndarray of shape (1, n_slopes)
        Coefficients, pointing to ``classes_[1]``; without the offset's column.
    intercept_ : ndarray of shape (1,)
        Intercept.
    covariance_ : ndarray of shape (n_parameters, n_parameters)
        Covariance of `get_parameter_names`: the intercept, if fitted, then the slopes. Not there
        above 2,000 columns.
    standard_errors_ : ndarray of shape (n_parameters,)
        Square roots of its diagonal. Infinite where a coefficient is not identified.
    sampling_rate_ : float
        Realised rate: kept negatives over all negatives, by weight; relative to the rate of the
        positives, if those were thinned too.
    relative_efficiency_ : ndarray of shape (n_slopes,) or (n_contrasts,)
        Estimated ratio of the full fit's variance to this fit's; None above 2,000 columns and for
        ``method="naive"``.
    calibration_ratio_ : float
        Mean prediction over prevalence, on all rows; on the kept rows, weighted, where the others
        are not at hand.
    intercept_shift_ : float
        What ``recalibrate_intercept="full"`` added to `intercept_`.
    n_kept_ : int
        Rows in the fit.
    n_iter_ : int
        Iterations.
    converged_ : bool
        False where `max_iter` was reached or the classes are separated.
    log_likelihood_ : float
        Of the kept rows, by the method's likelihood, without the penalty.
    isotonic_ : IsotonicRegression
        Only with ``naive_correction="isotonic"``.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Their names, where X has names that are all strings.

    See Also
    --------
    DownsampledClassifier : The same for any classifier, without standard errors.
    sampling_rate_curve : What each rate would cost.
    OTLPThresholdClassifier : Choose a threshold for the probabilities.

    Notes
    -----
    Standard errors count the noise of the draw: for ``"cmle"`` the inverse information of the kept
    rows, less what is gained by knowing how many negatives there were; for ``"iw"`` a sandwich with
    a small-sample factor; robust sandwiches wherever rows have unequal weights. A weight says how
    much a row matters: to standard errors a row of weight 2 is one row. With a ridge they are those
    of the shrunken estimator, and do not show its bias.

    A row keeps the share :math:`a/(a + (1 - a) p(x))` of its information, so negatives beside
    probable positives are the costly ones to drop, and no number of negatives per positive is right
    for all data.

    Examples
    --------
    >>> import numpy as np
    >>> from imbfit import DownsampledGLMClassifier
    >>> from imbfit.datasets import make_rare_events
    >>> cards = make_rare_events(100_000, prevalence=0.005, n_features=3, random_state=3)
    >>> glm = DownsampledGLMClassifier(sampling_rate=0.1, random_state=0).fit(cards.X, cards.y)
    >>> glm.n_kept_
    10399
    >>> np.round(np.abs(glm.coef_[0] - cards.coef) / glm.standard_errors_[1:], 1)
    array([0.3, 0.8, 0.5])
    >>> round(float(glm.predict_proba(cards.X)[:, 1].mean()), 4), round(float(cards.y.mean()), 4)
    (0.0049, 0.005)
    """

    def __init__(
        self,
        link: str | Link = "logit",
        *,
        method: str = "cmle",
        sampling_rate: Any = "auto",
        efficiency: float = 0.95,
        sampling: str = "uniform",
        presampled: bool = False,
        prevalence: float | None = None,
        known_intercept: float | None = None,
        fit_intercept: bool = True,
        C: float = np.inf,
        offset: Any = None,
        solver: str = "auto",
        max_iter: int = 100,
        tol: float = 1e-8,
        pos_label: Any = None,
        naive_correction: str = "prior",
        recalibrate_intercept: Any = False,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.link = link
        self.method = method
        self.sampling_rate = sampling_rate
        self.efficiency = efficiency
        self.sampling = sampling
        self.presampled = presampled
        self.prevalence = prevalence
        self.known_intercept = known_intercept
        self.fit_intercept = fit_intercept
        self.C = C
        self.offset = offset
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.pos_label = pos_label
        self.naive_correction = naive_correction
        self.recalibrate_intercept = recalibrate_intercept
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ----------------------------------------------------------------------------------------
    # Fitting

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, contrasts: Any = None
    ) -> DownsampledGLMClassifier:
        """Choose the rate, draw the negatives, fit.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rows, n_columns)
            Features as numbers, none missing. CSR and CSC stay sparse, float32 stays float32.
        y : array-like of shape (n_rows,)
            Labels of two kinds.
        sample_weight : array-like of shape (n_rows,), default=None
            How much each row counts, 0 or more. A row is kept or dropped as a whole: below a rate
            of 1 a weight of 2 equals the row twice in expectation only.
        contrasts : array-like of shape (n_contrasts, n_slopes), default=None
            Combinations of slopes that ``sampling_rate="auto"`` looks after, one in each row; by
            default each slope by itself.

        Returns
        -------
        DownsampledGLMClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            For bad input, and for parameters that contradict each other.

        Warns
        -----
        SeparationWarning
            If the features separate the classes.
        CollinearityWarning
            If a column is constant, also among the kept rows alone, or a combination of others.
        SamplingWarning
            If the sample costs a bias or more precision than was asked for, or if the mean
            prediction is further from the prevalence than noise explains.
        InertParameterWarning
            If a parameter has no effect beside the others.
        ConvergenceWarning
            If `max_iter` was not enough.
        """
        settings = read_settings(self)
        choice = self._rate_choice()
        block, classes, positive = self._read_rows(X, y, sample_weight)
        _warn_of_one(count(block), positive)
        if choice.presampled:
            _warn_of_twice(block, choice)
        start = self._warm_coefficients(block.X.shape[1], settings)
        settings = replace(settings, start=start)
        rows = None if contrasts is None else read_contrasts(contrasts, block.X.shape[1])
        seed = self._seed()
        if choice.sampler is not None:
            labels = np.where(block.positive, positive, classes[classes != positive][0])
            kept = undersample(choice.sampler, labels.astype(classes.dtype), seed=seed)
            with _one_thread():
                fitted = fit_chosen(_chosen(block, kept), settings, contrasts=rows)
        else:
            with _one_thread():
                fitted = self._fit_source(InMemory(block), choice, settings, seed, rows)
        self._store(fitted, settings, choice, classes, positive)
        self._look_back(InMemory(block), fitted, settings, choice, full_check=True)
        self._tell(fitted)
        return self

    def fit_batches(
        self,
        source: Any,
        *,
        label: Any,
        pos_label: Any = None,
        columns: Any = None,
        weight: Any = None,
        batch_size: int = 100_000,
        contrasts: Any = None,
        full_check: bool = False,
    ) -> DownsampledGLMClassifier:
        """Fit rows that come in batches; only the kept ones are held in memory.

        Draws are keyed by the seed and the number of the row, so the rows kept and the fit are
        those of `fit` on all rows at once, whatever the size of the batches. A numeric
        `sampling_rate` takes one pass; ``"auto"``, ``"balanced"`` and unequal sampling take two,
        and ``recalibrate_intercept="full"`` or `full_check` one more. Over a Dask collection each
        pass is a map over the partitions on its workers; only the kept rows come here.

        Parameters
        ----------
        source : path, iterable of batches, callable, Dask array or frame
            A Parquet or CSV file, or a folder of them; batches as frames with the label among their
            columns, or as pairs ``(X, y)``; a callable that returns a fresh iterator of such
            batches.
        label : str, int or None
            Column of the label; None where batches are pairs.
        pos_label : label, default=None
            The positive label, which must be known before the first batch. By default the
            parameter `pos_label`, else 1 where labels are numbers or booleans.
        columns : sequence of str, default=None
            Features; by default all columns but the label, the weight and the offset.
        weight : str, default=None
            Column of sample weights.
        batch_size : int, default=100000
            Rows read at a time from files.
        contrasts : array-like of shape (n_contrasts, n_slopes), default=None
            As in `fit`.
        full_check : bool, default=False
            Whether to compare predictions with all rows in one more pass. Without it,
            `calibration_ratio_` is that of the kept rows, weighted back to the population.

        Returns
        -------
        DownsampledGLMClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            For bad input, naming the batch, the row and the column.
        ImportError
            If the packages of the extra ``scale`` are needed and missing.
        """
        settings = read_settings(self)
        choice = self._rate_choice()
        if choice.sampler is not None:
            raise ValueError(
                f"sampling_rate={self.sampling_rate!r} needs all rows in memory; with fit_batches "
                "give a number, 'auto' or 'balanced'"
            )
        opened = open_source(
            source,
            label=label,
            pos_label=self.pos_label if pos_label is None else pos_label,
            columns=columns,
            weight=weight,
            offset=self.offset,
            batch_size=batch_size,
        )
        if choice.rate is None and not choice.presampled:
            opened.require_repeatable(f"sampling_rate={self.sampling_rate!r}")
        elif self.sampling != "uniform":
            opened.require_repeatable(f"sampling={self.sampling!r}")
        elif self.recalibrate_intercept:
            opened.require_repeatable(f"recalibrate_intercept={self.recalibrate_intercept!r}")
        elif full_check:
            opened.require_repeatable("full_check=True")
        rows = None if contrasts is None else read_contrasts(contrasts, opened.n_columns)
        if self.warm_start:
            start = self._warm_coefficients(opened.n_columns, settings)
            settings = replace(settings, start=start)
        with _one_thread():
            fitted = self._fit_source(opened, choice, settings, self._seed(), rows)
        self._offset_column = opened.offset_column
        self.__dict__.pop("feature_names_in_", None)
        if opened.names_in is not None:
            self.feature_names_in_ = np.asarray(opened.names_in, dtype=object)
        self.n_features_in_ = opened.n_columns_in
        _warn_of_one(fitted.keep.counts, opened.positive)
        self._store(fitted, settings, choice, opened.classes(), opened.positive)
        self._look_back(opened, fitted, settings, choice, full_check=full_check)
        self._tell(fitted)
        return self

    def _prepared(
        self, X: Any, y: Any, sample_weight: Any = None, contrasts: Any = None
    ) -> tuple[Settings, InMemory, list[str], int, np.ndarray | None]:
        """Check parameters and rows as `fit` does, without fitting."""
        settings = read_settings(self)
        block, _, positive = self._read_rows(X, y, sample_weight)
        _warn_of_one(count(block), positive)
        rows = None if contrasts is None else read_contrasts(contrasts, block.X.shape[1])
        return settings, InMemory(block), self._slope_names(), self._seed(), rows

    def _rate_choice(self) -> RateChoice:
        return read_rate_choice(
            self.sampling_rate,
            presampled=self.presampled,
            prevalence=self.prevalence,
            allow_auto=True,
        )

    def _seed(self) -> int:
        state = self.random_state
        if isinstance(state, numbers.Integral) and not isinstance(state, bool):
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _read_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Block, np.ndarray, Any]:
        column = offset_column(X, self.offset)
        called = called_offset(X, self.offset)
        features, labels = validate_data(
            self,
            X,
            y,
            accept_sparse=("csr", "csc"),
            dtype=(np.float64, np.float32),
            accept_large_sparse=True,
        )
        weight = row_weights(sample_weight, len(labels))
        if weight is not None and not 1e-60 < weight.max() < 1e60:
            raise ValueError(
                f"sample_weight goes up to {weight.max():g}, where squares of it would overflow or "
                "vanish; multiply all weights by a constant so that they are about 1"
            )
        classes = _classes_of(labels)
        if weight is not None and len(np.unique(labels[weight > 0])) < 2:
            classes = np.unique(labels[weight > 0])
        if len(classes) < 2:
            raise ValueError(
                f"y has one class only, {classes.tolist()[0]!r}"
                f"{' where sample_weight is above 0' if weight is not None else ''}; a classifier "
                "needs rows of two classes"
            )
        positive = positive_label(classes, self.pos_label)
        offset = called
        self._offset_column = column
        if column is not None:
            offset = checked_offset(_column(features, column))
            features = _without(features, column)
            if features.shape[1] == 0:
                raise ValueError("X has no column besides the offset; give at least one feature")
        return Block(0, features, labels == positive, weight, offset), classes, positive

    def _warm_coefficients(self, slopes: int, settings: Settings) -> np.ndarray | None:
        if not self.warm_start or not hasattr(self, "_coef"):
            return None
        if len(self._coef) != slopes:
            raise ValueError(
                f"warm_start=True, but the last fit had {len(self._coef)} slopes and X has "
                f"{slopes}; write warm_start=False"
            )
        first = [self._intercept] if settings.free_intercept else []
        return np.concatenate([first, self._coef])

    def _fit_source(
        self,
        source: Source,
        choice: RateChoice,
        settings: Settings,
        seed: int,
        contrasts: np.ndarray | None,
    ) -> Fitted:
        """Take the path that the parameters say."""
        if choice.presampled:
            sample = source.run(_everything).joined()
            upstream = choice.presampled_rate(
                sample.counts.positive_weight, sample.counts.negative_weight
            )
            known = choice.prevalence is not None
            return fit_given(
                sample, upstream, settings, known_prevalence=known, contrasts=contrasts
            )
        rate = choice.rate
        if choice.balanced:
            counts = count_all(source)
            rate = choice.nominal_rate(counts.positive_weight, counts.negative_weight)
        if self.sampling != "uniform" and rate != 1:
            return fit_scored(
                source,
                self.sampling,
                rate,
                settings,
                seed=seed,
                efficiency=float(self.efficiency),
                contrasts=contrasts,
            )
        if rate is None:
            return fit_efficient(
                source, float(self.efficiency), settings, seed=seed, contrasts=contrasts
            )
        return fit_at_rate(source, rate, settings, seed=seed, contrasts=contrasts)

    def _store(
        self,
        fitted: Fitted,
        settings: Settings,
        choice: RateChoice,
        classes: np.ndarray,
        positive: Any,
    ) -> None:
        for name in ("covariance_", "standard_errors_", "isotonic_", "intercept_shift_", "_spread"):
            self.__dict__.pop(name, None)
        self.classes_ = classes
        self.pos_label_ = positive
        self._link, self._settings_used = settings.link, replace(settings, report=None, start=None)
        self._coef, self._intercept = fitted.coef, fitted.intercept
        self._sign = 1.0 if positive == classes[1] else -1.0
        self._log_odds_shift = 0.0
        self._set_coefficients()
        self._aliased = fitted.solution.aliased
        if fitted.covariance is not None:
            self.covariance_ = fitted.covariance
            self.standard_errors_ = np.sqrt(np.diag(fitted.covariance))
        else:
            self._spread = fitted.spread
        self.sampling_rate_ = fitted.sampling_rate
        self.n_kept_ = fitted.kept.rows
        self._counts, self._kept = fitted.keep.counts, fitted.kept
        self.n_iter_ = fitted.n_iter
        self.converged_ = fitted.converged
        self.log_likelihood_ = fitted.log_likelihood
        self.relative_efficiency_ = fitted.relative_efficiency
        if self.method == "naive":
            self._correct_naive(fitted)

    def _set_coefficients(self) -> None:
        self.coef_ = self._sign * self._coef[None, :]
        self.intercept_ = np.array([self._sign * self._intercept])

    def _correct_naive(self, fitted: Fitted) -> None:
        if self.naive_correction == "prior":
            self._log_odds_shift = float(np.log(fitted.sampling_rate))
            return
        sample, keep = fitted.sample, fitted.keep
        weight = np.exp(-np.where(sample.positive, keep.log_pi1, keep.log_pi0))
        if sample.weight is not None:
            weight = weight * sample.weight
        shown = np.exp(self._link.pieces(fitted.solution.eta).log_p)
        self.isotonic_ = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        self.isotonic_.fit(shown, sample.positive, sample_weight=weight)

    def _look_back(
        self,
        source: Source,
        fitted: Fitted,
        settings: Settings,
        choice: RateChoice,
        *,
        full_check: bool,
    ) -> None:
        """Compare predictions with all rows, and shift the intercept where that is asked for."""
        full = self.recalibrate_intercept == "full"
        if self.method == "naive" and isinstance(source, InMemory) and not choice.presampled:
            self.calibration_ratio_ = self._ratio_on(source.block)
            return
        if choice.presampled or self.method == "naive" or not (full or full_check):
            self.calibration_ratio_ = self._ratio_on_kept(fitted)
            return
        seen = check_predictions(source, fitted, settings, histogram=full)
        self.calibration_ratio_ = seen.calibration_ratio
        if full:
            shift = seen.shift(settings.link)
            self._intercept += shift
            self._set_coefficients()
            self.intercept_shift_ = self._sign * shift
            self.calibration_ratio_ = seen.shifted_ratio(settings.link, shift)

    def _ratio_on(self, block: Block) -> float:
        eta = Design(block.X, intercept=False).eta(self._coef) + self._intercept
        if block.offset is not None:
            eta += block.offset
        p = np.exp(self._log_proba(eta)[0])
        weight = np.ones(len(p)) if block.weight is None else block.weight
        return float(weight @ p / weight[block.positive].sum())

    def _ratio_on_kept(self, fitted: Fitted) -> float:
        sample, keep = fitted.sample, fitted.keep
        weight = np.exp(-np.where(sample.positive, keep.log_pi1, keep.log_pi0))
        if sample.weight is not None:
            weight = weight * sample.weight
        log_p = self._log_proba(fitted.solution.eta)[0]
        return float(weight @ np.exp(log_p) / weight[sample.positive].sum())

    def _tell(self, fitted: Fitted) -> None:
        names = self._slope_names()
        if not fitted.findings and self.method not in {"naive", "pseudo_mle"}:
            self._warn_of_calibration(fitted)
        for finding in fitted.findings:
            kind, text = worded(finding, names)
            warnings.warn(text, kind or ConvergenceWarning, stacklevel=3)

    def _warn_of_calibration(self, fitted: Fitted) -> None:
        """Warn where the mean prediction is further from the prevalence than noise explains."""
        sample = fitted.sample
        weight = np.ones(len(sample.positive)) if sample.weight is None else sample.weight
        if not fitted.keep.uniform:
            weight = weight * np.exp(-fitted.keep.log_pi0)
        noise = 0.0
        for own in (weight[sample.positive], weight[~sample.positive]):
            noise += float(np.sum((own / own.sum()) ** 2))
        ratio = self.calibration_ratio_
        if abs(ratio - 1) > max(0.1, 4 * np.sqrt(noise)):
            warnings.warn(
                f"the mean prediction is {ratio:.3g} times the prevalence. A ridge, a wrong link, "
                "missing columns or a few heavy rows do that. Write recalibrate_intercept='full' "
                "to shift the intercept, method='iw' to aim at the fit of all rows, or a higher "
                "sampling_rate",
                SamplingWarning,
                stacklevel=4,
            )

    # ----------------------------------------------------------------------------------------
    # Predicting

    def _eta(self, X: Any) -> np.ndarray:
        """Return the linear predictor of the positive class."""
        check_is_fitted(self)
        called = called_offset(X, self.offset)
        features = validate_data(
            self, X, accept_sparse=("csr", "csc"), dtype=(np.float64, np.float32), reset=False
        )
        offset = called
        if self._offset_column is not None:
            offset = checked_offset(_column(features, self._offset_column))
            features = _without(features, self._offset_column)
        eta = Design(features, intercept=False).eta(self._coef) + self._intercept
        return eta if offset is None else eta + offset

    def _log_proba(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log P(positive) and log P(negative) on the population scale."""
        pieces = self._link.pieces(eta)
        if hasattr(self, "isotonic_"):
            p = self.isotonic_.predict(np.exp(pieces.log_p))
            # a plateau at 0 or 1 is the calibrator's; finite scores keep the order of rows defined
            tiny = np.finfo(float).tiny
            return np.log(np.maximum(p, tiny)), np.log(np.maximum(1 - p, tiny))
        if self._log_odds_shift:
            odds = pieces.log_p - pieces.log_q + self._log_odds_shift
            return -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
        return pieces.log_p, pieces.log_q

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict logarithms of probabilities in the population.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rows, n_columns)
            Rows, with the offset's column if there is one.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            A column for each of `classes_`.
        """
        log_p, log_q = self._log_proba(self._eta(X))
        return np.column_stack([log_q, log_p] if self._sign > 0 else [log_p, log_q])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities in the population, whatever the sampling rate was.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rows, n_columns)
            Rows, with the offset's column if there is one.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            A column for each of `classes_`.
        """
        return np.exp(self.predict_log_proba(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return log-odds in the population.

        For a link other than the logit this is not the linear predictor: a cloglog model has
        probability 0.63 where its linear predictor is 0.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rows, n_columns)
            Rows, with the offset's column if there is one.

        Returns
        -------
        ndarray of shape (n_rows,)
            Above 0 where `predict` gives ``classes_[1]``.
        """
        log_p, log_q = self._log_proba(self._eta(X))
        return self._sign * (log_p - log_q)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the more probable class.

        Where positives are rare that is nearly always the negative one; choose a threshold with
        :class:`imbfit.OTLPThresholdClassifier`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rows, n_columns)
            Rows, with the offset's column if there is one.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels.
        """
        score = self.decision_function(X)
        return self.classes_[(score > 0).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def _one_thread() -> threadpool_limits:
    """Keep BLAS from handing out blocks that are too small: waiting takes longer than the work."""
    return threadpool_limits(1, user_api="blas")


def _everything(block: Block) -> Sample:
    rows = np.arange(block.start, block.start + len(block.positive))
    part = (rows, block.X, block.positive, block.weight, block.offset, np.zeros(len(rows)))
    counted = block.counted()
    sample = Sample((part,), count(block))
    return sample if counted is None else sample.taken(counted)


def _chosen(block: Block, rows: np.ndarray) -> Sample:
    chosen = np.zeros(len(block.positive), bool)
    chosen[rows] = True
    counted = block.counted()
    return _everything(replace(block, weight=block.weight)).taken(
        chosen if counted is None else (chosen & counted)[counted]
    )


def _warn_of_twice(block: Block, choice: RateChoice) -> None:
    """Warn where weights undo the sampling that the rate undoes already."""
    counts = count(block)
    rate = choice.rate
    if block.weight is None or rate is None or not (counts.positives and counts.negatives):
        return
    own, other = block.weight[block.positive], block.weight[~block.positive]
    flat = own.min() == own.max() and other.min() == other.max()
    if flat and rate < 1 and own[0] > 0 and abs(other[0] / own[0] * rate - 1) < 0.01:
        warnings.warn(
            f"sample_weight is {other[0] / own[0]:.6g} times as large for negatives, which is one "
            "over their sampling rate: the sampling would be undone twice. Leave out sample_weight "
            "in fit; in scoring and calibration such weights are right",
            SamplingWarning,
            stacklevel=3,
        )


def _classes_of(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind in "biu":
        # the usual case, without hashing a million labels
        ends = np.array([labels.min(), labels.max()])
        if ends[0] != ends[1] and bool(((labels == ends[0]) | (labels == ends[1])).all()):
            return ends
    check_classification_targets(labels)
    kind = type_of_target(labels, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}; code "
            "the positive class against the rest"
        )
    return np.unique(labels)


def _column(features: Any, column: int) -> np.ndarray:
    values = features[:, [column]]
    return np.asarray(values.todense() if hasattr(values, "tocsr") else values)[:, 0]


def _without(features: Any, column: int) -> Any:
    rest = np.delete(np.arange(features.shape[1]), column)
    return features[:, rest]


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _warn_of_one(counts: Counts, positive: Any) -> None:
    """Warn where a class has a single row, on which then every coefficient rests."""
    one = counts.positives == 1, counts.negatives == 1
    if any(one):
        which = f"the positive class {_plain(positive)!r}" if one[0] else "the negative class"
        warnings.warn(
            f"there is one row of {which}: every coefficient rests on it, and standard errors mean "
            "nothing. Have some ten rows of the rarer class for each column, or give a ridge such "
            "as C=1",
            SamplingWarning,
            stacklevel=4,
        )
