"""Under-samplers of imbalanced-learn: which ones a rate can be read off, and what they keep.

A correction by the sampling rate holds where a negative's chance of being kept does not depend on
its features. A sampler is asked with row numbers in place of features, so its choice can't.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

_WRITE = (
    "write a number such as sampling_rate=0.05, 'balanced', or "
    "sampling_rate=RandomUnderSampler(sampling_strategy=0.1)"
)

_NEIGHBOURS = "which negatives it removes depends on their neighbours among the features"

# By the class's name, so that nothing is imported to refuse it.
_REASONS = {
    "NearMiss": "it keeps the negatives that are nearest to the positives",
    "TomekLinks": _NEIGHBOURS,
    "EditedNearestNeighbours": _NEIGHBOURS,
    "RepeatedEditedNearestNeighbours": _NEIGHBOURS,
    "AllKNN": _NEIGHBOURS,
    "OneSidedSelection": _NEIGHBOURS,
    "CondensedNearestNeighbour": _NEIGHBOURS,
    "NeighbourhoodCleaningRule": _NEIGHBOURS,
    "InstanceHardnessThreshold": "it keeps the negatives that a model finds easy",
    "ClusterCentroids": "it makes up negatives, the centres of clusters",
    "FunctionSampler": "nothing is known of how its function chooses",
    "SMOTEENN": "it makes up positives, and removes rows by their neighbours",
    "SMOTETomek": "it makes up positives, and removes rows by their neighbours",
    "RandomOverSampler": "it repeats positives, and leaves out no negative",
    "BaseOverSampler": "it makes up positives, and leaves out no negative",
    "Pipeline": "it is a pipeline; put its other steps around or into the estimator",
}


def check_under_sampler(sampler: Any) -> None:
    """Raise unless a sampler keeps rows at random given their class, each at most once.

    Parameters
    ----------
    sampler : object
        What came as `sampling_rate`, with a method `fit_resample`.

    Raises
    ------
    TypeError
        For a class instead of an instance.
    ValueError
        For any other sampler than a `RandomUnderSampler` without replacement.

    Examples
    --------
    >>> from imblearn.under_sampling import NearMiss, RandomUnderSampler
    >>> from imbfit.glm.undersamplers import check_under_sampler
    >>> check_under_sampler(RandomUnderSampler(random_state=0))
    >>> check_under_sampler(NearMiss())
    Traceback (most recent call last):
    ...
    ValueError: sampling_rate=NearMiss(): it keeps the negatives that are nearest to the ...
    """
    if isinstance(sampler, type):
        raise TypeError(
            f"sampling_rate={sampler.__name__} is a class; write {sampler.__name__}() for an "
            "instance"
        )
    # loaded already where somebody holds a sampler of it, and not needed by anybody else
    from imblearn.under_sampling import RandomUnderSampler

    if not isinstance(sampler, RandomUnderSampler):
        raise ValueError(  # noqa: TRY004  the type is right, a sampler, but not this one
            f"sampling_rate={_named(sampler)}: {_reason(sampler)}, so no sampling rate says how to "
            f"get from its sample back to the population; {_WRITE}"
        )
    if sampler.replacement:
        raise ValueError(
            f"sampling_rate={_named(sampler)}: with replacement a row comes several times, so the "
            "number of rows kept is no sampling rate; write replacement=False"
        )


def undersample(sampler: Any, y: NDArray[Any], *, seed: int) -> NDArray[np.intp]:
    """Return the positions of the rows that an under-sampler keeps.

    Parameters
    ----------
    sampler : RandomUnderSampler
        Checked by `check_under_sampler`; left as it is.
    y : ndarray of shape (n_rows,)
        Labels, as `sampling_strategy` names them.
    seed : int
        Of the draw, where the sampler has no `random_state` of its own.

    Returns
    -------
    ndarray of int
        Ascending.

    Raises
    ------
    ValueError
        If a subclass keeps a row twice.

    Examples
    --------
    >>> import numpy as np
    >>> from imblearn.under_sampling import RandomUnderSampler
    >>> from imbfit.glm.undersamplers import undersample
    >>> rows = undersample(RandomUnderSampler(), np.array([0] * 8 + [1] * 2), seed=0)
    >>> len(rows), rows[-2:].tolist()
    (4, [8, 9])
    """
    own = clone(sampler)
    if own.random_state is None:
        own.set_params(random_state=seed)
    numbers, _ = own.fit_resample(np.arange(len(y))[:, np.newaxis], y)
    rows = np.sort(np.asarray(numbers)[:, 0]).astype(np.intp)
    twice = rows[1:][rows[1:] == rows[:-1]]
    if len(twice):
        raise ValueError(
            f"sampling_rate={_named(sampler)} kept row {twice[0]} more than once, so the number of "
            "rows kept is no sampling rate; keep each row at most once"
        )
    return rows


def _named(sampler: Any) -> str:
    name = type(sampler).__name__
    return "Pipeline(...)" if hasattr(sampler, "steps") else f"{name}()"


def _reason(sampler: Any) -> str:
    for kind in type(sampler).__mro__:
        if kind.__name__ in _REASONS:
            return _REASONS[kind.__name__]
    return "nothing is known of how it chooses"
