"""Which under-samplers a rate can be read off, and what they keep."""

import re

import numpy as np
import pytest
from imblearn import FunctionSampler
from imblearn.combine import SMOTEENN, SMOTETomek
from imblearn.over_sampling import ADASYN, SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline
from imblearn.under_sampling import (
    AllKNN,
    ClusterCentroids,
    CondensedNearestNeighbour,
    EditedNearestNeighbours,
    InstanceHardnessThreshold,
    NearMiss,
    NeighbourhoodCleaningRule,
    OneSidedSelection,
    RandomUnderSampler,
    RepeatedEditedNearestNeighbours,
    TomekLinks,
)
from sklearn.base import BaseEstimator

from imbfit.glm.undersamplers import check_under_sampler, undersample

Y = np.array([0] * 90 + [1] * 10)


class Stranger(BaseEstimator):
    def fit_resample(self, X, y):
        return X, y


class Milder(RandomUnderSampler):
    """A subclass that only has another default."""

    def __init__(self, *, sampling_strategy=0.5, random_state=None, replacement=False):
        super().__init__(
            sampling_strategy=sampling_strategy, random_state=random_state, replacement=replacement
        )


class Latest(RandomUnderSampler):
    """A subclass that looks at a column that it is not given."""

    def _fit_resample(self, X, y):
        order = np.argsort(X[:, 1])
        return X[order], y[order]


class Twice(RandomUnderSampler):
    def _fit_resample(self, X, y):
        rows = np.r_[0, 0, len(y) - 1]
        return X[rows], y[rows]


REFUSED = {
    NearMiss(): "nearest to the positives",
    TomekLinks(): "neighbours",
    EditedNearestNeighbours(): "neighbours",
    RepeatedEditedNearestNeighbours(): "neighbours",
    AllKNN(): "neighbours",
    OneSidedSelection(): "neighbours",
    CondensedNearestNeighbour(): "neighbours",
    NeighbourhoodCleaningRule(): "neighbours",
    InstanceHardnessThreshold(): "a model finds easy",
    ClusterCentroids(): "makes up negatives",
    SMOTE(): "makes up positives",
    ADASYN(): "makes up positives",
    RandomOverSampler(): "repeats positives",
    SMOTEENN(): "makes up positives",
    SMOTETomek(): "makes up positives",
    FunctionSampler(): "its function",
    make_pipeline(RandomUnderSampler()): "a pipeline",
    Stranger(): "nothing is known",
}


@pytest.mark.parametrize(
    ("sampler", "reason"), REFUSED.items(), ids=[type(s).__name__ for s in REFUSED]
)
def test_samplers_that_choose_by_features_are_refused_by_name(sampler, reason):
    with pytest.raises(ValueError) as caught:
        check_under_sampler(sampler)
    text = str(caught.value)
    assert f"sampling_rate={type(sampler).__name__}(" in text
    assert reason in text
    # what to write instead
    assert "sampling_rate=0.05" in text
    assert "RandomUnderSampler(" in text


def test_with_replacement_is_refused():
    with pytest.raises(ValueError, match="write replacement=False"):
        check_under_sampler(RandomUnderSampler(replacement=True))


def test_a_class_is_no_sampler():
    with pytest.raises(TypeError, match=re.escape("write RandomUnderSampler()")):
        check_under_sampler(RandomUnderSampler)


@pytest.mark.parametrize("sampler", [RandomUnderSampler(), Milder()])
def test_random_samplers_are_taken(sampler):
    check_under_sampler(sampler)


@pytest.mark.parametrize(
    ("strategy", "negatives", "positives"),
    [("auto", 10, 10), (0.25, 40, 10), ({0: 7}, 7, 10), ({0: 20, 1: 5}, 20, 5), ("all", 10, 10)],
)
def test_counts_are_those_of_the_strategy(strategy, negatives, positives):
    rows = undersample(RandomUnderSampler(sampling_strategy=strategy), Y, seed=0)
    assert np.count_nonzero(Y[rows] == 0) == negatives
    assert np.count_nonzero(Y[rows] == 1) == positives
    assert (np.diff(rows) > 0).all()


def test_text_labels_name_the_strategy():
    y = np.where(Y == 1, "fraud", "fine")
    rows = undersample(RandomUnderSampler(sampling_strategy={"fine": 12}), y, seed=0)
    assert np.count_nonzero(y[rows] == "fine") == 12


def test_a_subclass_keeps_its_own_default():
    rows = undersample(Milder(), Y, seed=0)
    assert len(rows) == 30


def test_seeds():
    own = RandomUnderSampler(random_state=3)
    np.testing.assert_array_equal(undersample(own, Y, seed=0), undersample(own, Y, seed=1))
    free = RandomUnderSampler()
    first, second = (undersample(free, Y, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(first, undersample(free, Y, seed=0))
    assert not np.array_equal(first, second)
    # the user's own object is left alone
    assert free.random_state is None
    assert not hasattr(free, "sample_indices_")


def test_the_draw_is_the_one_that_the_sampler_makes_itself():
    sampler = RandomUnderSampler(random_state=5)
    sampler.fit_resample(np.zeros((len(Y), 2)), Y)
    np.testing.assert_array_equal(undersample(sampler, Y, seed=0), np.sort(sampler.sample_indices_))


def test_a_subclass_sees_no_feature():
    check_under_sampler(Latest())
    with pytest.raises(IndexError):
        undersample(Latest(), Y, seed=0)


def test_a_subclass_that_keeps_a_row_twice_is_caught():
    with pytest.raises(ValueError, match="kept row 0 more than once"):
        undersample(Twice(), Y, seed=0)
