"""How sure a fitted model's coefficients are, in the words of its columns."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from imbfit._settings import check_number
from imbfit.glm.fitting import worst_of
from imbfit.glm.inference import contrast_variances
from imbfit.glm.sample_likelihood import MAX_COLUMNS
from imbfit.glm.summary import Summary


class Coefficients:
    """Names, standard errors and intervals of the coefficients of a fitted model."""

    def __getattr__(self, name: str) -> Any:
        # Not properties: dir() and the HTML repr read those.
        if name in {"covariance_", "standard_errors_"} and "_spread" in vars(self):
            raise AttributeError(
                f"{name} is not there: {len(self._coef)} columns would need a matrix with a side "
                f"above {MAX_COLUMNS}. Ask for standard_errors_for(columns)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _slope_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        names = [f"x{j}" for j in range(self.n_features_in_)] if names is None else list(names)
        if self._offset_column is not None:
            del names[self._offset_column]
        return names

    def _has_free_intercept(self) -> bool:
        return self._settings_used.free_intercept

    def get_parameter_names(self) -> list[str]:
        """Name what the rows of `covariance_` and `conf_int` belong to.

        Returns
        -------
        list of str
            ``"intercept"`` if one was fitted, then the features.
        """
        check_is_fitted(self)
        return ["intercept"] * self._has_free_intercept() + self._slope_names()

    def standard_errors_for(self, columns: Any) -> np.ndarray:
        """Return the standard errors of some coefficients, without the covariance of all.

        Parameters
        ----------
        columns : str, int or sequence of them
            Features by name or by position; ``"intercept"`` for the intercept.

        Returns
        -------
        ndarray of shape (n_asked,)
            Standard errors in units of the coefficients.

        Raises
        ------
        ValueError
            If a column is not known.
        """
        check_is_fitted(self)
        single = isinstance(columns, (str, numbers.Number))
        asked = [columns] if single else list(columns)
        names, first = self.get_parameter_names(), int(self._has_free_intercept())
        places = []
        for column in asked:
            width = len(self._coef)
            whole = isinstance(column, numbers.Integral) and not isinstance(column, bool)
            place = int(column) if whole else None
            if place is not None and -width <= place < width:
                places.append(first + place % width)
            elif column in names:
                places.append(names.index(str(column)))
            else:
                raise ValueError(
                    f"{column!r} is no column: give a name, such as {names[-1]!r}, or a position "
                    f"below {len(self._coef)}"
                )
        if "_spread" not in vars(self):
            return self.standard_errors_[places]
        rows = np.zeros((len(places), len(names)))
        rows[np.arange(len(places)), places] = 1.0
        return np.sqrt(contrast_variances(self._spread, rows))

    def conf_int(self, level: float = 0.95) -> np.ndarray:
        """Return Wald intervals.

        Parameters
        ----------
        level : float, default=0.95
            Coverage, strictly between 0 and 1.

        Returns
        -------
        ndarray of shape (n_parameters, 2)
            Lower and upper bound for each of `get_parameter_names`.
        """
        check_is_fitted(self)
        check_number("level", level, 0, 1, "0.95")
        half = ndtri(0.5 + level / 2) * self.standard_errors_
        centre = self._parameters()
        return np.column_stack([centre - half, centre + half])

    def summary(self, level: float = 0.95) -> Summary:
        """Return the table of coefficients.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        Summary
            Coefficient, standard error, z, p-value and interval of each parameter, on the scale of
            the population. It prints as text and shows as a table in a notebook; `to_frame` and
            `to_dict` give its numbers.
        """
        check_is_fitted(self)
        check_number("level", level, 0, 1, "0.95")
        return Summary(
            self.get_parameter_names(),
            self._parameters(),
            self.standard_errors_,
            level=level,
            facts=self._facts(),
            notes=self._notes(),
            title=f"{type(self).__name__}: coefficients for {self.classes_.tolist()[1]!r}",
        )

    def _facts(self) -> list[tuple[str, object]]:
        counts, kept = self._counts, self._kept
        of = "about " if self.presampled else ""
        return [
            ("link", self._link_seen()),
            ("method", self._settings_used.method),
            ("positives", f"{kept.positives:,} of {counts.positives:,}"),
            ("negatives", f"{kept.negatives:,} of {of}{counts.negatives:,}"),
            ("sampling rate", f"{self.sampling_rate_:.6g}"),
            ("prevalence", f"{counts.prevalence:.6g}"),
            ("log-likelihood", f"{self.log_likelihood_:.6f}"),
            ("calibration ratio", f"{self.calibration_ratio_:.4f}"),
            ("converged", f"{'yes' if self.converged_ else 'no'}, {self.n_iter_} iterations"),
        ]

    def _link_seen(self) -> str:
        name = self._link.name
        if self._sign > 0 or self._link.symmetric:
            return name
        first, second = self.classes_.tolist()
        return f"{name} for {first!r}; mirrored for {second!r}: {self._link.mirrored().name}"

    def _notes(self) -> list[str]:
        notes = []
        if self._settings_used.method == "naive":
            how = "isotonic" if "isotonic_" in vars(self) else "prior"
            notes.append(
                "The coefficients are those of the sample, not of the population; only the "
                f"probabilities are corrected ({how})."
            )
        if self._settings_used.ridge > 0:
            notes.append("Standard errors are those of the shrunken coefficients.")
        if not self._has_free_intercept():
            notes.append(f"The intercept is not fitted: {self.intercept_[0]:g}.")
        if self._log_shift_note():
            notes.append(self._log_shift_note())
        if self._aliased.any():
            notes.append("Coefficients that are not identified are set to 0.")
        worst = worst_of(self.relative_efficiency_)
        if worst is not None and self.sampling_rate_ < 1:
            notes.append(f"The least precise slope keeps {worst:.3f} of the full fit's precision.")
        return notes

    def _log_shift_note(self) -> str:
        if "intercept_shift_" not in vars(self):
            return ""
        return (
            f"The intercept was shifted by {self.intercept_shift_:+.4g}, so that the mean "
            "prediction is the prevalence; its standard error is that before the shift."
        )

    def _parameters(self) -> np.ndarray:
        first = self.intercept_ if self._has_free_intercept() else []
        return np.concatenate([first, self.coef_[0]])
