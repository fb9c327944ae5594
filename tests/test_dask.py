"""Dask frames and arrays: the same rows kept and the same fit, by threads and by processes."""

import itertools
import os
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from imbfit.glm.batches import open_source
from imbfit.glm.built_in_links import LINKS
from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.passes import Block, InMemory, count
from imbfit.glm.plans import UniformPlan
from imbfit.glm.predictions import predict
from imbfit.glm.samples import draw, draw_pilot


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((8_000, 4))
    p = 1 / (1 + np.exp(3.5 - X @ np.linspace(-1, 1, 4)))
    return X, (rng.random(8_000) < p).astype(int)


def frame_of(X, y, **more):
    names = ["d", "a", "c", "b"][: X.shape[1]]
    return pd.DataFrame({"y": y, **dict(zip(names, X.T, strict=True)), **more})


def uneven(frame, ends=(0, 1500, 1500, 1507, 6000, 8000)):
    """Cut a frame into partitions, one of them empty."""
    cuts = [slice(a, b) for a, b in itertools.pairwise(ends)]
    return dd.from_map(_part, cuts, frame=frame, meta=frame.iloc[:0])


def _part(rows, frame):
    return frame.iloc[rows]


def same_passes(opened, block):
    memory = InMemory(block)
    some, every = (partial(draw, seed=5, plan=UniformPlan(rate)) for rate in (0.1, 1.0))
    pilot = partial(draw_pilot, seed=5, positives=100, negatives=200)
    pairs = [(opened.run(f), memory.run(f)) for f in (some, every)]
    pairs.append((opened.run(pilot).sample(), memory.run(pilot).sample()))
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours.rows, theirs.rows)
        dense = [x.toarray() if sparse.issparse(x) else x for x in (ours.X, theirs.X)]
        np.testing.assert_array_equal(*dense)
        assert ours.X.dtype == theirs.X.dtype
        np.testing.assert_array_equal(ours.positive, theirs.positive)
        for name in ("weight", "offset"):
            mine, other = getattr(ours, name), getattr(theirs, name)
            assert (mine is None) == (other is None)
            if mine is not None:
                np.testing.assert_array_equal(mine, other)
    assert opened.run(count).rows == memory.run(count).rows
    coef = np.linspace(1, -1, block.X.shape[1])
    look = partial(predict, link=LINKS["logit"], coef=coef, intercept=-1.0, histogram=True)
    mine, other = opened.run(look), memory.run(look)
    assert mine.probability == pytest.approx(other.probability, rel=1e-12)


def same_fit(ours, theirs):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-12)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-12)
    np.testing.assert_allclose(ours.standard_errors_, theirs.standard_errors_, rtol=1e-10)
    assert ours.n_kept_ == theirs.n_kept_
    assert ours.calibration_ratio_ == pytest.approx(theirs.calibration_ratio_, rel=1e-10)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)


# ------------------------------------------------------------------------------------------------
# Passes


def test_frames(rows):
    X, y = rows
    frame = frame_of(X, y)
    block = Block(0, X, y == 1)
    for source in (uneven(frame), dd.from_pandas(frame, npartitions=9)):
        opened = open_source(source, label="y")
        same_passes(opened, block)
        assert opened.names == ["d", "a", "c", "b"]
        assert opened.classes().tolist() == [0, 1]
        assert opened.repeatable


def test_more_partitions_than_are_joined_at_a_time(rows):
    X, y = rows
    source = dd.from_pandas(frame_of(X[:2000], y[:2000]), npartitions=150)
    same_passes(open_source(source, label="y"), Block(0, X[:2000], y[:2000] == 1))


def test_columns_weights_and_offsets(rows):
    X, y = rows
    weight, labels = np.arange(8_000.0) % 3, np.where(y == 1, "yes", "no")
    source = uneven(frame_of(X, labels, w=weight, t="text"))
    asked = {"label": "y", "pos_label": "yes", "weight": "w", "columns": ["d", "c", "b"]}
    opened = open_source(source, **asked, offset="a")
    same_passes(opened, Block(0, X[:, [0, 2, 3]], y == 1, weight, X[:, 1]))
    assert opened.names_in == ["d", "c", "b", "a"]
    assert opened.offset_column == 3
    opened = open_source(source, **asked, offset=lambda X: 2 * X["b"])
    same_passes(opened, Block(0, X[:, [0, 2, 3]], y == 1, weight, 2 * X[:, 3]))


def test_float32_stays(rows):
    X, y = rows
    X = X.astype(np.float32)
    block = Block(0, X, y == 1)
    same_passes(open_source(uneven(frame_of(X, y)), label="y"), block)
    pair = da.from_array(X, chunks=(900, 2)), da.from_array(y, chunks=900)
    same_passes(open_source(pair, label=None), block)


def test_arrays(rows):
    X, y = rows
    both = np.column_stack([X[:, :2], y, X[:, 2:]])
    # chunks that cut columns, too
    opened = open_source(da.from_array(both, chunks=(1100, 2)), label=2)
    same_passes(opened, Block(0, X, y == 1))
    assert opened.names is None
    shifted = np.abs(both)
    opened = open_source(da.from_array(shifted, chunks=(1100, 5)), label=2, weight=-1, offset=1)
    same_passes(opened, Block(0, shifted[:, [0, 3]], y == 1, shifted[:, 4], shifted[:, 1]))


def test_pairs_and_triples(rows):
    X, y = rows
    weight = np.arange(8_000.0) % 3
    block = Block(0, X, y == 1)
    pair = da.from_array(X, chunks=(1000, 4)), da.from_array(y, chunks=700)
    same_passes(open_source(pair, label=None), block)
    triple = (*pair, da.from_array(weight, chunks=8_000))
    same_passes(open_source(triple, label=None), Block(0, X, y == 1, weight))
    frame = uneven(frame_of(X, y))
    same_passes(open_source((frame.drop(columns="y"), frame["y"]), label=None), block)
    # chunks of sizes that are not known
    unknown = frame[["d", "a", "c", "b"]].to_dask_array(), frame["y"].to_dask_array()
    assert np.isnan(unknown[0].chunks[0]).all()
    same_passes(open_source(unknown, label=None), block)


def test_sparse_chunks(rows):
    X, y = rows
    X = np.where(np.abs(X) > 1, X, 0)
    dense = da.from_array(X, chunks=(1000, 4)), da.from_array(y, chunks=1000)
    meta = sparse.csr_array((0, 4))
    told = dense[0].map_blocks(sparse.csr_array, meta=meta)
    # Dask may believe that the chunks are dense
    untold = dense[0].map_blocks(sparse.csr_array, meta=np.empty((0, 4)))
    for matrix in (told, untold):
        opened = open_source((matrix, dense[1]), label=None)
        kept = opened.run(partial(draw, seed=5, plan=UniformPlan(0.1)))
        assert sparse.issparse(kept.X)
        same_passes(opened, Block(0, X, y == 1))


def test_lengths_are_counted_once_and_of_one_column(rows):
    X, y = rows
    frame = frame_of(X, y)
    read = []

    def part(number, columns=None):
        read.append(columns)
        piece = frame.iloc[number * 2000 : (number + 1) * 2000]
        return piece if columns is None else piece[columns]

    source = dd.from_map(part, range(4), meta=frame.iloc[:0], enforce_metadata=False)
    opened = open_source(source, label="y")
    opened.run(count)
    assert len(read) == 8
    opened.run(count)
    assert len(read) == 12


# ------------------------------------------------------------------------------------------------
# Errors


def test_errors_name_the_partition_and_the_row(rows):
    X, y = rows
    bad = X.copy()
    bad[1503, 2] = np.nan
    with pytest.raises(
        ValueError, match=r"'c' is missing or NaN in row 3 of partition 2 \(row 1503 of"
    ):
        open_source(uneven(frame_of(bad, y)), label="y").run(count)
    labels = y.copy()
    labels[7999] = 2
    source = uneven(frame_of(X, labels))
    with pytest.raises(
        ValueError, match=r"label 2 in row 1999 of partition 4 \(row 7999 of all\) is n"
    ):
        open_source(source, label="y").run(count)
    with pytest.raises(ValueError, match=r"label 2 in row 1999 of partition 4 .* is one too many"):
        open_source(source, label="y", pos_label=1).run(count)
    with pytest.raises(ValueError, match="column 't' holds 'a' in row 0 of partition"):
        open_source(uneven(frame_of(X, y, t="a")), label="y").run(count)


def test_parts_that_do_not_align(rows):
    X, y = rows
    pair = da.from_array(X, chunks=(1000, 4)), da.from_array(y[:-1], chunks=1000)
    with pytest.raises(ValueError, match="X has 8000 rows and what comes beside it has 7999"):
        open_source(pair, label=None).run(count)
    frame = dd.from_pandas(frame_of(X, y), npartitions=3)
    other = dd.from_pandas(frame_of(X, y), npartitions=4)
    with pytest.raises(ValueError, match="have 3 and 4 partitions; cut them alike"):
        open_source((frame[["a"]], other["y"]), label=None).run(count)


def test_no_rows(rows):
    X, y = rows
    with pytest.raises(ValueError, match="the source has no rows"):
        open_source(uneven(frame_of(X, y), (0, 0, 0)), label="y").run(count)
    with pytest.raises(ValueError, match="the source has no rows"):
        open_source((da.empty((0, 2)), da.empty(0)), label=None).run(count)


@pytest.mark.parametrize(
    ("source", "error", "match"),
    [
        (
            dask.delayed(np.ones)((3, 2)),
            TypeError,
            "source is made of Delayed; of Dask a DataFrame",
        ),
        ((da.ones((3, 2)), np.ones(3)), TypeError, "source is made of Array, ndarray"),
        (da.ones(3), ValueError, r"the Dask array has shape \(3,\)"),
        (da.ones((3, 2)), ValueError, "label='y' is not a column of the Dask collection"),
    ],
)
def test_other_collections(source, error, match):
    with pytest.raises(error, match=match):
        open_source(source, label="y")


# ------------------------------------------------------------------------------------------------
# The fit


PARAMETERS = {
    "number": {"sampling_rate": 0.2},
    "auto": {"sampling_rate": "auto", "efficiency": 0.8},
    "a-optimal": {"sampling_rate": 0.2, "sampling": "a_optimal"},
    "recalibrated": {"sampling_rate": 0.2, "recalibrate_intercept": "full", "link": "cloglog"},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_fit_is_that_of_rows_in_memory(rows, name):
    X, y = rows
    theirs = DownsampledGLMClassifier(**PARAMETERS[name], random_state=11).fit(X, y)
    for source, label in (
        (uneven(frame_of(X, y)), "y"),
        ((da.from_array(X, chunks=(777, 3)), da.from_array(y, chunks=555)), None),
    ):
        ours = DownsampledGLMClassifier(**PARAMETERS[name], random_state=11)
        same_fit(ours.fit_batches(source, label=label, full_check=True), theirs)


def process():
    """Return a function that finds the numbers of the processes that it ran in."""

    # made here, so that they are sent as they are: the workers can't import a test
    class Processes(frozenset):
        def merged(self, other):
            return type(self)(self | other)

    return lambda _: Processes([os.getpid()])


@pytest.mark.slow  # two processes start and import everything
def test_a_cluster_of_two_workers(rows, tmp_path):
    from distributed import Client, LocalCluster

    X, y = rows
    labels = np.where(y == 1, "yes", "no")
    source = dd.from_pandas(frame_of(X, labels), npartitions=10)
    pair = da.from_array(X, chunks=(1000, 4)), da.from_array(labels, chunks=1000)
    with (
        dask.config.set(scheduler=None, temporary_directory=str(tmp_path)),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster),
    ):
        found = open_source(source, label="y", pos_label="yes").run(process())
        assert len(found) == 2
        assert os.getpid() not in found
        for name in ("auto", "recalibrated"):
            model = DownsampledGLMClassifier(**PARAMETERS[name], pos_label="yes", random_state=11)
            theirs = clone(model).fit(X, labels)
            same_fit(clone(model).fit_batches(source, label="y", full_check=True), theirs)
            same_fit(clone(model).fit_batches(pair, label=None, full_check=True), theirs)
        opened = open_source(source, label="y", pos_label="yes", offset=lambda X: 2 * X["a"])
        same_passes(opened, Block(0, X, y == 1, None, 2 * X[:, 1]))
        with pytest.raises(ValueError, match=r"the labels are text, such as '(yes|no)' in row 0"):
            open_source(source, label="y").run(count)
