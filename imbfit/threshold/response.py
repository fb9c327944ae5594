"""How an inner model's scores are taken, and what they must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit._frames import row_count
from imbfit._labels import check_length, column_vector, first_rows
from imbfit.threshold.layout import Layout

_METHODS = ("predict_proba", "decision_function")


@dataclass(frozen=True)
class Response:
    """How an inner model's scores are taken: which method, of which label.

    Attributes
    ----------
    method : {"auto", "predict_proba", "decision_function"} or callable
        A callable gets the model and X, and returns a score per row.
    classes : ndarray of shape (2,)
        The labels, where the model does not know them.
    pos_label : label
        The positive one.
    nan_policy : {"raise", "negative"}
        Whether a NaN score is an error.
    layout : Layout
        What the inner model sees of X.
    """

    method: str | Callable[[Any, Any], Any]
    classes: np.ndarray
    pos_label: Any
    nan_policy: str
    layout: Layout

    def score(self, model: Any, X: Any, *, rows: np.ndarray | None = None) -> np.ndarray:
        """Score the rows of X, higher for more positive.

        Parameters
        ----------
        model : estimator
            The fitted inner model.
        X : frame, array or sequence
            All columns, as the user gave them.
        rows : ndarray of int, default=None
            Positions that errors name, where X is a part of a longer table.

        Returns
        -------
        ndarray of float, shape (n_rows,)
            Finite, or NaN where the policy allows it.

        Raises
        ------
        ValueError
            If the scores are no finite numbers, or not one per row.
        """
        if callable(self.method):
            seen = model if self.layout.kept is None else WholeTableModel(model, self.layout)
            name = f"response_method {getattr(self.method, '__name__', 'callable')}"
            raw = column_vector(self.method(seen, X), name)
        else:
            name, raw = self._ask(model, self.layout.inner(X))
        check_length(raw, row_count(X), name)
        try:
            score = raw.astype(float)
        except (TypeError, ValueError):
            raise ValueError(f"{name} gave {raw.dtype} values; a score is a number") from None
        bad = np.isinf(score) if self.nan_policy == "negative" else ~np.isfinite(score)
        if bad.any():
            place = np.flatnonzero(bad) if rows is None else np.sort(rows[bad])
            named = np.zeros(int(place[-1]) + 1, bool)
            named[place] = True
            cure = (
                'mend the model, or pass nan_policy="negative" to never flag them'
                if np.isnan(score).any() and not np.isinf(score).any()
                else "a score must be finite"
            )
            raise ValueError(f"{name} is NaN or infinite in {first_rows(named)}; {cure}")
        return score

    def _ask(self, model: Any, X: Any) -> tuple[str, np.ndarray]:
        names = _METHODS if self.method == "auto" else (str(self.method),)
        name = next((name for name in names if hasattr(model, name)), None)
        if name is None:
            raise ValueError(
                f"{type(model).__name__} has no {' or '.join(names)}; thresholds need a score, so "
                "choose another model or response_method, or pass a callable "
                "(estimator, X) -> score"
            )
        raw = np.asarray(getattr(model, name)(X))
        known = getattr(model, "classes_", None)
        classes = self.classes if known is None else np.asarray(known)
        if name == "decision_function":
            score = column_vector(raw, name)
            return name, -score if classes[0] == self.pos_label else score
        if raw.ndim != 2 or raw.shape[1] != 2:
            raise ValueError(
                f"predict_proba of {type(model).__name__} has shape {raw.shape}; two columns are "
                "needed, one for each class"
            )
        return name, raw[:, int(np.flatnonzero(classes == self.pos_label)[0])]


class WholeTableModel:
    """The inner model for response callables: it takes X with all its columns.

    A callable may multiply a probability by an amount that the model itself never sees.
    """

    def __init__(self, model: Any, layout: Layout) -> None:
        self._model = model
        self._layout = layout

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_model", "_layout"):
            raise AttributeError(name)
        found = getattr(self._model, name)
        if name not in (*_METHODS, "predict", "predict_log_proba", "transform", "score_samples"):
            return found
        return lambda X: found(self._layout.inner(X))
