"""Rows in batches: the same rows kept and the same fit, whatever the cut and the source."""

import itertools
import sys
import tracemalloc
from datetime import date
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from imbfit.glm import batches
from imbfit.glm.batches import open_source
from imbfit.glm.built_in_links import LINKS
from imbfit.glm.classifier import DownsampledGLMClassifier
from imbfit.glm.passes import Block, InMemory, count
from imbfit.glm.plans import UniformPlan
from imbfit.glm.predictions import predict
from imbfit.glm.samples import draw, draw_pilot


def rare(n=600, d=3, seed=0, share=-2.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    p = 1 / (1 + np.exp(-(share + X @ np.linspace(-1, 1, d))))
    return X, (rng.random(n) < p).astype(int)


def frame_of(X, y, **more):
    # the label comes first and features are not in the order of the alphabet
    names = [f"f{j}" for j in range(X.shape[1])][::-1]
    return pd.DataFrame({"y": y, **dict(zip(names, X.T, strict=True)), **more})


def cut(length, size):
    return [slice(at, at + size) for at in range(0, length, size)]


@pytest.fixture(params=["every batch is a block", "small batches are put together"])
def gathering(request, monkeypatch):
    if request.param.startswith("every"):
        monkeypatch.setattr(batches, "GATHERED", 1)


def same_passes(opened, block, *, repeatable=True):
    """Compare what passes give with what they give on rows in memory."""
    memory = InMemory(block)
    plan = UniformPlan(0.3)
    ours = opened.run(partial(draw, seed=5, plan=plan))
    theirs = memory.run(partial(draw, seed=5, plan=plan))
    same_sample(ours, theirs)
    if not repeatable:
        return
    pilot = partial(draw_pilot, seed=5, positives=20, negatives=40)
    same_sample(opened.run(pilot).sample(), memory.run(pilot).sample())
    all_ours = opened.run(partial(draw, seed=5, plan=UniformPlan(1.0)))
    same_sample(all_ours, memory.run(partial(draw, seed=5, plan=UniformPlan(1.0))))
    assert opened.run(count) == memory.run(count)
    coef = np.linspace(1, -1, block.X.shape[1])
    look = partial(predict, link=LINKS["logit"], coef=coef, intercept=-1.0, histogram=True)
    mine, other = opened.run(look), memory.run(look)
    assert mine.probability == pytest.approx(other.probability, rel=1e-12)
    assert mine.shift(LINKS["logit"]) == pytest.approx(other.shift(LINKS["logit"]), rel=1e-9)


def same_sample(ours, theirs):
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
    counts = ours.counts, theirs.counts
    assert counts[0].positives == counts[1].positives
    assert counts[0].rows == counts[1].rows
    assert counts[0].negative_weight == pytest.approx(counts[1].negative_weight, rel=1e-12)


# ------------------------------------------------------------------------------------------------
# The same rows whatever the source


ITERABLES = {
    "pandas": lambda frame, cuts: [frame.iloc[c] for c in cuts],
    "polars": lambda frame, cuts: [pl.from_pandas(frame)[c] for c in cuts],
    "pyarrow tables": lambda frame, cuts: [pa.Table.from_pandas(frame.iloc[c]) for c in cuts],
    "record batches": lambda frame, cuts: [
        pa.RecordBatch.from_pandas(frame.iloc[c], preserve_index=False) for c in cuts
    ],
    "nullable": lambda frame, cuts: [frame.convert_dtypes().iloc[c] for c in cuts],
    "arrays with the label": lambda frame, cuts: [frame.to_numpy()[c] for c in cuts],
    "pairs of arrays": lambda frame, cuts: [
        (frame.iloc[c, 1:].to_numpy(), frame["y"].to_numpy()[c]) for c in cuts
    ],
    "lists as pairs": lambda frame, cuts: [
        [frame.iloc[c, 1:].to_numpy().tolist(), frame["y"].tolist()[c]] for c in cuts
    ],
    "pairs of frames": lambda frame, cuts: [(frame.iloc[c, 1:], frame["y"].iloc[c]) for c in cuts],
    "sparse": lambda frame, cuts: [
        (sparse.csc_matrix(frame.iloc[c, 1:].to_numpy()), frame["y"].to_numpy()[c]) for c in cuts
    ],
    "sparse arrays": lambda frame, cuts: [
        (sparse.coo_array(frame.iloc[c, 1:].to_numpy()), frame["y"].to_numpy()[c]) for c in cuts
    ],
}


def label_of(kind):
    if "arrays with" in kind:
        return 0
    return (
        "y"
        if kind in {"pandas", "polars", "pyarrow tables", "record batches", "nullable"}
        else None
    )


@pytest.mark.parametrize("size", [1, 7, 200])
@pytest.mark.parametrize("kind", ITERABLES)
@pytest.mark.usefixtures("gathering")
def test_iterables(kind, size):
    X, y = rare(200)
    frame = frame_of(X, y)
    source = ITERABLES[kind](frame, cut(len(y), size))
    opened = open_source(source, label=label_of(kind))
    same_passes(opened, Block(0, X, y == 1))
    assert opened.classes().tolist() == [0, 1]
    assert opened.positive == 1
    assert opened.n_columns == opened.n_columns_in == 3
    named = label_of(kind) == "y" or kind == "pairs of frames"
    assert opened.names == (["f2", "f1", "f0"] if named else None)


@given(ends=st.lists(st.integers(0, 200), max_size=30), limit=st.sampled_from([1, 100, 2**20]))
@settings(max_examples=40)
def test_any_cut_into_batches_even_empty_ones(ends, limit):
    X, y = rare(200)
    weight, offset = np.arange(200.0) % 5, X[:, 1] - 1
    bounds = [0, *sorted(ends), 200]
    frame = frame_of(X[:, [0, 2]], y, w=weight, o=offset)
    source = [frame.iloc[a:b] for a, b in itertools.pairwise(bounds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "GATHERED", limit)
        opened = open_source(source, label="y", weight="w", offset="o")
        same_passes(opened, Block(0, X[:, [0, 2]], y == 1, weight, offset))


@pytest.mark.parametrize("size", [1, 7, 600])
@pytest.mark.usefixtures("gathering")
def test_files(tmp_path, size):
    X, y = rare()
    frame = frame_of(X, y)
    block = Block(0, X, y == 1)
    frame.to_parquet(tmp_path / "one.parquet", row_group_size=100)
    frame.to_csv(tmp_path / "one.csv", index=False)
    for path in (tmp_path / "one.parquet", str(tmp_path / "one.csv")):
        same_passes(open_source(path, label="y", batch_size=size), block)


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path, ending):
    X, y = rare()
    frame = frame_of(X, y)
    folder = tmp_path / "rows"
    (folder / "b").mkdir(parents=True)
    for name, rows in (("c", slice(400, 600)), ("a", slice(0, 250)), ("b/0", slice(250, 400))):
        part, path = frame.iloc[rows], folder / f"{name}.{ending}"
        if ending == "parquet":
            part.to_parquet(path)
        else:
            part.to_csv(path, index=False)
    (folder / "_SUCCESS").write_text("")
    (folder / ".part.crc").write_text("x")
    same_passes(open_source(folder, label="y"), Block(0, X, y == 1))
    # a list keeps its own order
    given = [folder / f"{name}.{ending}" for name in ("c", "a")]
    order = np.r_[400:600, 0:250]
    same_passes(open_source(given, label="y"), Block(0, X[order], y[order] == 1))
    uri = folder.as_uri()
    same_passes(open_source(uri, label="y"), Block(0, X, y == 1))


def test_large_blocks_of_a_csv_file_are_cut(tmp_path):
    X, y = rare(3000, 1)
    path = tmp_path / "a.csv"
    frame_of(X, y).to_csv(path, index=False)
    sizes = [len(batch) for _, _, batch in open_source(path, label="y", batch_size=700)._opened()]
    assert max(sizes) == 700
    assert sum(sizes) == 3000


def test_csv_numbers_do_not_depend_on_the_first_rows(tmp_path):
    # the first block has whole numbers only, and labels that look like numbers
    n = 60_000
    path = tmp_path / "a.csv"
    values = ["1"] * n + ["0.5", "-2e-3"]
    labels = ["0"] * n + ["1.0", "1"]
    lines = [f"{v},true,{y}" for v, y in zip(values, labels, strict=True)]
    path.write_text("\n".join(["x,b,y", *lines, ""]))
    X = np.column_stack([np.array(values, float), np.ones(n + 2)])
    y = np.array(labels, float)
    same_passes(open_source(path, label="y"), Block(0, X, y == 1))
    opened = open_source(path, label="y", pos_label=True)
    assert opened.run(count).positives == 2
    assert opened.classes().tolist() == [0, 1]
    opened = open_source(path, label="y", pos_label="1")
    with pytest.raises(
        ValueError, match=r"label '1.0' in row 60000 of a.csv is one too many, besides"
    ):
        opened.run(count)


def test_csv_labels_as_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,true\n2,false\n3,TRUE\n")
    opened = open_source(path, label="y")
    assert opened.run(count).positives == 2
    assert opened.positive is True
    path.write_text("x,y\n1,no\n2,yes\n3,no\n")
    opened = open_source(path, label="y", pos_label="no")
    assert opened.run(count).positives == 2
    assert opened.classes().tolist() == ["no", "yes"]
    with pytest.raises(ValueError, match="write pos_label='no', say"):
        open_source(path, label="y").run(count)
    with pytest.raises(ValueError, match="pos_label=1 is of another type"):
        open_source(path, label="y", pos_label=1).run(count)


def test_csv_text_may_hold_line_ends_and_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,"the, text",y\n1,"a\nb, c",0\n2,"",1\n')
    opened = open_source(path, label="y", columns=["x"])
    same_passes(opened, Block(0, np.array([[1.0], [2.0]]), np.array([False, True])))


def test_folder_names_are_columns(tmp_path):
    X, y = rare(100, 2)
    for number, rows in enumerate((slice(0, 50), slice(50, 100))):
        folder = tmp_path / f"year={2020 + number}" / "land=b"
        folder.mkdir(parents=True)
        frame_of(X[rows], y[rows]).to_parquet(folder / "a.parquet")
    years = np.repeat([2020.0, 2021.0], 50)
    opened = open_source(tmp_path, label="y", columns=["f0", "year"])
    same_passes(opened, Block(0, np.column_stack([X[:, 1], years]), y == 1))
    with pytest.raises(
        ValueError, match=r"year=2020/land=b/a.parquet hold no numbers: 'land' \(string\)"
    ):
        open_source(tmp_path, label="y")


def test_only_the_columns_asked_for_are_read(tmp_path):
    X, y = rare()
    frame = frame_of(X, y, w=1.0, text="a", day=pd.Timestamp("2020-01-01"))
    frame.to_parquet(tmp_path / "a.parquet")
    opened = open_source(tmp_path / "a.parquet", label="y", columns=["f0", "f2"], weight="w")
    same_passes(opened, Block(0, X[:, [2, 0]], y == 1, np.ones(len(y))))
    assert opened.names == ["f0", "f2"]
    batch = next(opened._opened())[2]
    assert sorted(batch.schema.names) == ["f0", "f2", "w", "y"]


# ------------------------------------------------------------------------------------------------
# Types


def test_float32_stays_and_everything_else_is_float64(tmp_path):
    X, y = rare(60, dtype=np.float32)
    frame = frame_of(X, y)
    frame.to_parquet(tmp_path / "a.parquet")
    whole = Block(0, X, y == 1)
    for source in ([frame], [pl.from_pandas(frame)], tmp_path / "a.parquet"):
        same_passes(open_source(source, label="y"), whole)
    for matrix in (X, sparse.csr_array(X)):
        same_passes(open_source([(matrix, y)], label=None), whole)
    more = frame.assign(i=np.arange(60), b=y == 0, h=X[:, 0].astype(np.float16), u=np.uint8(3))
    more["d"] = [Decimal(j) / 4 for j in range(60)]
    more["n"] = pd.array(np.arange(60), dtype="Int16")
    full = np.column_stack([X.astype(float), *(more[c].to_numpy().astype(float) for c in "ibhudn")])
    block = Block(0, full, y == 1)
    table = pa.Table.from_pandas(more)
    coded = table.set_column(4, "i", table["i"].dictionary_encode())
    for one in (more, table, coded, pl.from_arrow(table)):
        same_passes(open_source([one], label="y"), block)
    pq.write_table(table, tmp_path / "b.parquet")
    same_passes(open_source(tmp_path / "b.parquet", label="y"), block)
    same_passes(open_source([(full.astype(object), y)], label=None), block)
    same_passes(
        open_source([(np.arange(60).reshape(20, 3), y[:20])], label=None),
        Block(0, np.arange(60.0).reshape(20, 3), y[:20] == 1),
    )


def test_batches_of_both_widths_give_float64():
    X, y = rare(60, dtype=np.float32)
    opened = open_source([(X[:30], y[:30]), (X[30:].astype(float), y[30:])], label=None)
    same_passes(opened, Block(0, X.astype(float), y == 1))


@pytest.mark.usefixtures("gathering")
def test_columns_are_taken_by_name():
    X, y = rare()
    frame = frame_of(X, y)
    parts = [frame.iloc[:300], frame.iloc[300:, [2, 3, 0, 1]]]
    same_passes(open_source(parts, label="y"), Block(0, X, y == 1))
    parts[1] = parts[1].assign(extra="a")
    same_passes(open_source(parts, label="y", columns=["f2", "f1", "f0"]), Block(0, X, y == 1))
    with pytest.raises(
        ValueError, match="batch 1 has a column 'extra' that the first batch has not"
    ):
        open_source(parts, label="y").run(count)


def test_integer_names_are_names():
    X, y = rare()
    frame = pd.DataFrame(X, columns=[2, 1, 0]).assign(y=y)
    opened = open_source([frame], label="y", offset=1)
    same_passes(opened, Block(0, X[:, [0, 2]], y == 1, None, X[:, 1]))
    assert opened.names is None
    assert opened.offset_column == 1


def test_a_source_may_fill_the_same_arrays_again():
    X, y = rare()
    weight = np.linspace(0, 1, len(y))

    def reused():
        buffers = np.empty((60, 3)), np.empty(60, int), np.empty(60)
        for rows in cut(len(y), 60):
            for buffer, values in zip(buffers, (X, y, weight), strict=True):
                buffer[:] = values[rows]
            yield buffers
            for buffer in buffers:
                buffer[:] = 0

    same_passes(open_source(reused, label=None), Block(0, X, y == 1, weight))

    def reused_sparse():
        matrix = sparse.csr_array(np.ones((60, 3)))
        for rows in cut(len(y), 60):
            matrix.data[:] = X[rows].ravel()
            yield matrix, y[rows]

    same_passes(open_source(reused_sparse, label=None), Block(0, X, y == 1))


# ------------------------------------------------------------------------------------------------
# Weights and offsets


@pytest.mark.usefixtures("gathering")
@pytest.mark.parametrize("weight", [np.arange(600.0) % 3, np.arange(600) % 2])
def test_weights(weight):
    X, y = rare()
    block = Block(0, X, y == 1, weight.astype(float))
    frame = frame_of(X, y, w=weight)
    same_passes(open_source([frame[:100], frame[100:]], label="y", weight="w"), block)
    triples = [(X[c], y[c], weight[c]) for c in cut(600, 100)]
    same_passes(open_source(triples, label=None), block)
    array = frame.to_numpy()
    same_passes(open_source([array], label=0, weight=-1), block)
    pair = [(frame.drop(columns="y"), frame["y"])]
    same_passes(open_source(pair, label=None, weight="w"), block)


@pytest.mark.usefixtures("gathering")
def test_weights_that_leave_one_class():
    X, y = rare()
    for weight, match in (
        (np.zeros(600), "weight is 0 in every row"),
        ((y == 1) * 1.0, "all rows with a weight above 0 are positive"),
        ((y == 0) * 1.0, "all rows with a weight above 0 are negative"),
    ):
        parts = [(X[c], y[c], weight[c]) for c in cut(600, 100)]
        with pytest.raises(ValueError, match=match):
            open_source(parts, label=None).run(count)


@pytest.mark.usefixtures("gathering")
def test_offsets(tmp_path):
    X, y = rare()
    frame = frame_of(X, y)
    frame.to_parquet(tmp_path / "a.parquet")
    parts = [frame.iloc[c] for c in cut(600, 100)]
    block = Block(0, X[:, [0, 2]], y == 1, None, X[:, 1])
    for source in (parts, tmp_path / "a.parquet"):
        opened = open_source(source, label="y", offset="f1")
        same_passes(opened, block)
        assert opened.names == ["f2", "f0"]
        assert opened.names_in == ["f2", "f1", "f0"]
        assert (opened.offset_column, opened.n_columns, opened.n_columns_in) == (1, 2, 3)
        opened = open_source(source, label="y", columns=["f2", "f0"], offset="f1")
        same_passes(opened, block)
        assert opened.names_in == ["f2", "f0", "f1"]
    # by position among the features, wherever the label is
    arrays = [frame.to_numpy()[c] for c in cut(600, 100)]
    same_passes(open_source(arrays, label=0, offset=1), block)
    same_passes(open_source([(X, y)], label=None, offset=-2), block)
    same_passes(open_source([(sparse.csr_matrix(X), y)], label=None, offset=1), block)


@pytest.mark.usefixtures("gathering")
def test_callable_offsets(tmp_path):
    X, y = rare()
    frame = frame_of(X, y)
    frame.to_parquet(tmp_path / "a.parquet")
    block = Block(0, X, y == 1, None, 2 * X[:, 1].clip(0, 1))
    parts = [frame.iloc[c] for c in cut(600, 100)]
    for source in (parts, [pl.from_pandas(frame)], tmp_path / "a.parquet"):
        opened = open_source(source, label="y", offset=lambda X: 2 * X["f1"].clip(0, 1))
        same_passes(opened, block)
    arrays = [frame.to_numpy()[c] for c in cut(600, 100)]
    same_passes(open_source(arrays, label=0, offset=lambda X: 2 * X[:, 1].clip(0, 1)), block)
    same_passes(open_source([(X, y)], label=None, offset=lambda X: 2 * X[:, 1].clip(0, 1)), block)


# ------------------------------------------------------------------------------------------------
# Labels


@pytest.mark.parametrize(
    ("labels", "pos_label", "positive", "classes"),
    [
        ([0, 1, 0, 1], None, 1, [0, 1]),
        ([-1, 1, 1, -1], None, 1, [-1, 1]),
        ([False, True, False, True], None, True, [False, True]),
        ([0.0, 1.0, 0.0, 0.0], None, 1.0, [0.0, 1.0]),
        ([0, 1, 0, 1], 0, 0, [0, 1]),
        ([7, 2, 2, 7], 2, 2, [2, 7]),
        (["no", "yes", "no", "yes"], "yes", "yes", ["no", "yes"]),
        (["b", "a", "b", "a"], "a", "a", ["a", "b"]),
        ([0, 1, 0, 1], True, 1, [0, 1]),
    ],
)
@pytest.mark.parametrize("make", [pd.Series, pl.Series, pa.array, np.array, list, pd.Categorical])
def test_labels(labels, pos_label, positive, classes, make):
    X = np.arange(4.0)[:, None]
    batch = [(X, make(labels)), (X[:1], make(labels[:1])), (X[:0], make(labels[:0]))]
    opened = open_source(batch, label=None, pos_label=pos_label)
    got = opened.run(partial(draw, seed=0, plan=UniformPlan(1.0))).positive
    assert got.tolist() == [label == positive for label in [*labels, labels[0]]]
    assert opened.positive == positive
    assert opened.classes().tolist() == classes


def test_labels_as_codes_of_a_dictionary():
    column = pa.chunked_array([pa.array(["a", "b", "a"]).dictionary_encode()])
    table = pa.table({"x": [1.0, 2.0, 3.0], "y": column})
    opened = open_source([table, table.slice(0, 1)], label="y", pos_label="b")
    assert opened.run(count).positives == 1
    # an entry of the dictionary that no row has is no label
    opened = open_source([table.slice(0, 1), table.slice(2)], label="y", pos_label="b")
    with pytest.raises(ValueError, match="all 2 rows have the label 'a'; the positive label 'b'"):
        opened.run(count)


X4 = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("labels", "pos_label", "match"),
    [
        ([[0, 1, 2, 0]], 1, r"label 2 in row 2 of batch 0 is one too many, besides 0 and the pos"),
        (
            [[0, 1, 0, 0], [0, 1, 0, 3]],
            1,
            r"label 3 in row 3 of batch 1 \(row 7 of all\) is one too",
        ),
        ([[0, 1, 0, 0], [0, 1, -1, 0]], None, r"label -1 in row 2 of batch 1 \(row 6 of all\)"),
        ([list("abca")], "b", "'c' in row 2 of batch 0"),
        ([list("abab"), list("bbbc")], "b", r"'c' in row 3 of batch 1 \(row 7 of all\)"),
        ([list("aaaa"), list("cccc")], "b", "positive label was not seen up to there"),
        ([list("abab")], None, "write pos_label='a', say"),
        ([[1, 2, 1, 2]], None, "label 2 in row 1 of batch 0 is none of 0 and 1"),
        (
            [[0, 1, 0, 1], [0, 5, 0, 0]],
            None,
            r"label 5 in row 1 of batch 1 \(row 5 of all\) is none",
        ),
        ([[0, 1, 0, 1]], "1", "pos_label='1' is of another type than the labels of batch 0"),
        ([list("abab")], 1, "pos_label=1 is of another type"),
        ([[0, 1, None, 1]], None, "label is missing in row 2 of batch 0"),
        (
            [[0, 1, 0, 1], [np.nan, 1, np.nan, 1.0]],
            None,
            "missing in 2 rows, the first is row 0 of b",
        ),
        ([["a", None, "b", "a"]], "a", "label is missing in row 1 of batch 0"),
        ([[0.5, 1, 0, 1]], None, "label 0.5 in row 0 of batch 0"),
        ([np.array(["2020-01-01"] * 4, "M8[D]")], 1, "labels of batch 0 are of type datetime64"),
        ([[[0, 1], [0, 1], [0, 1], [1, 0]]], None, "one value per row is needed"),
    ],
)
@pytest.mark.usefixtures("gathering")
def test_bad_labels(labels, pos_label, match):
    source = [(X4, label) for label in labels]
    with pytest.raises(ValueError, match=match):
        open_source(source, label=None, pos_label=pos_label).run(count)


@pytest.mark.parametrize("make", [pd.Series, pa.array, pl.Series])
def test_missing_labels_of_any_library(make):
    for labels in ([True, None, False, True], ["a", None, "b", "a"], [0, None, 1, 0]):
        pos_label = "a" if labels[0] == "a" else None
        with pytest.raises(ValueError, match="label is missing in row 1 of batch 0"):
            open_source([(X4, make(labels))], label=None, pos_label=pos_label).run(count)


def test_one_class():
    opened = open_source([(X4, np.zeros(4, int))] * 2, label=None)
    with pytest.raises(ValueError, match="no pass has been made yet"):
        opened.classes()
    with pytest.raises(
        ValueError, match="all 8 rows have the label 0; the positive label 1 was never"
    ):
        opened.run(count)
    with pytest.raises(ValueError, match=r"all 4 rows have the label 1. A classifier"):
        open_source([(X4, np.ones(4, int))], label=None).run(count)


# ------------------------------------------------------------------------------------------------
# What can't be read


def good():
    return pd.DataFrame({"a": [1.0, 2, 3], "b": [4.0, 5, 6], "w": [1.0, 0, 2], "y": [0, 1, 0]})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"a": [1, np.nan, 2]},
            r"column 'a' is missing or NaN in row 1 of batch 1 \(row 4 of all\)",
        ),
        ({"b": [1, 2, -np.inf]}, r"column 'b' is infinite in row 2 of batch 1 \(row 5 of all\)"),
        ({"b": ["1", "2", "z"]}, "column 'b' holds '1' in row 0 of batch 1"),
        ({"b": [1, None, "z"]}, "column 'b' holds 'z' in row 2 of batch 1"),
        ({"b": pd.to_datetime(["2020-01-01"] * 3)}, "column 'b' of batch 1 is of type datetime64"),
        ({"b": [1j, 0, 0]}, "column 'b' of batch 1 is of type complex128"),
        ({"b": [[1], [2], [3]]}, "column 'b' holds"),
        ({"b": pd.array([1, None, 3], dtype="Int64")}, "'b' is missing or NaN in row 1 of batch 1"),
        (
            {"b": pd.array([True, None, None])},
            "'b' is missing or NaN in 2 rows, the first is row 1",
        ),
        (
            {"b": pd.arrays.SparseArray([0.0, 1, 0])},
            "column 'b' of batch 1 is a sparse column of p",
        ),
        (
            {"w": [1, -2.0, 3]},
            r"weight \(column 'w'\) is negative in row 1 of batch 1 \(row 4 of all",
        ),
        ({"w": [1, np.nan, 3]}, r"weight \(column 'w'\) is missing or NaN in row 1 of batch 1"),
        ({"w": [1, np.inf, 3]}, r"weight \(column 'w'\) is infinite in row 1 of batch 1"),
        ({"w": list("abc")}, "column 'w' holds 'a' in row 0 of batch 1"),
        ({"c": 1}, "batch 1 has a column 'c' that the first batch has not"),
    ],
)
def test_bad_columns(change, match):
    opened = open_source([good(), good().assign(**change)], label="y", weight="w")
    with pytest.raises(ValueError, match=match):
        opened.run(count)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ([1, None, 2], r"column 'b' is missing or NaN in row 1 of batch 1 \(row 4 of all\)"),
        ([1.0, np.inf, None], "column 'b' is infinite in 2 rows, the first is row 1 of batch 1"),
        ([True, None, None], "column 'b' is missing or NaN in 2 rows, the first is row 1"),
        ([None, None, None], "column 'b' is missing or NaN in 3 rows"),
        (["a", None, "z"], "column 'b' holds 'a' in row 0 of batch 1"),
        ([None, "a", "z"], "column 'b' holds 'a' in row 1 of batch 1"),
        ([Decimal("1.5"), None, Decimal(2)], "column 'b' is missing or NaN in row 1"),
        ([date(2020, 1, 1)] * 3, "column 'b' .*batch 1"),
    ],
)
@pytest.mark.parametrize("library", [pl.DataFrame, pa.table])
def test_bad_columns_of_other_libraries(column, match, library):
    rest = good().drop(columns="b").to_dict("list")
    source = [library(good().to_dict("list")), library({**rest, "b": column})]
    with pytest.raises(ValueError, match=match):
        open_source(source, label="y").run(count)


@pytest.mark.parametrize(
    ("later", "match"),
    [
        (good().drop(columns="b"), "batch 1 lacks the column 'b'; its columns are 'a', 'w', 'y'"),
        (good().drop(columns="y"), "batch 1 lacks the column 'y'"),
        (
            (good(), [0, 1, 0]),
            r"batch 1 is a pair \(X, y\), but the first batch is a table with its",
        ),
        (good().to_numpy(), "batch 1 is an array, but the first batch is a frame"),
        (sparse.csr_array(good()), "batch 1 is a sparse matrix, but the first batch is a frame"),
        (np.arange(3), r"batch 1 is of type ndarray and shape \(3,\)"),
        (None, r"batch 1 is of type NoneType and shape \(\)"),
        ("text", r"batch 1 is of type str"),
        ((1, 2, 3, 4), "batch 1 is a tuple of 4; give a frame, or a pair"),
    ],
)
def test_batches_that_differ(later, match):
    with pytest.raises(ValueError, match=match):
        open_source([good(), later], label="y", weight="w").run(count)


@pytest.mark.parametrize(
    ("batch", "match"),
    [
        ((np.ones((3, 3)), [0, 1, 1]), "batch 1 has 3 columns, but the first batch has 2"),
        ((np.ones((3, 2)), [0, 1]), "batch 1: X has 3 rows and y has 2; they must align"),
        (
            (np.array([[1, 2], [3, np.nan]]), [0, 1]),
            r"column 1 is missing or NaN in row 1 of batch 1",
        ),
        ((np.array([["a", "b"]]), [0]), "batch 1 holds values of type <U1"),
        ((np.array([[1.0, "b"]], object), [0]), "column 1 holds 'b' in row 0 of batch 1"),
        ((np.ones(2), [0, 1]), r"batch 1 is of type ndarray and shape \(2,\)"),
        ((np.ones((1, 2)), [0], [1]), r"batch 1 is a triple \(X, y, weight\), but the first"),
        ((sparse.csr_array([[1.0, 0], [0, 0]]), [0, 1]), "batch 1 is a sparse matrix, but"),
    ],
)
def test_pairs_that_differ(batch, match):
    with pytest.raises(ValueError, match=match):
        open_source([(X4, [0, 1, 0, 1]), batch], label=None).run(count)


def test_shuffled_labels_beside_a_frame():
    frame = good()
    with pytest.raises(ValueError, match="index of y is not that of X"):
        open_source([(frame[["a"]], frame["y"].iloc[::-1])], label=None).run(count)


def test_sparse_with_bad_entries():
    X = sparse.csr_array(np.eye(4))
    bad = X.copy()
    bad.data[2] = np.nan
    with pytest.raises(ValueError, match=r"column 2 is NaN in row 2 of batch 1 \(row 6 of all\)"):
        open_source([(X, [0, 1, 0, 1]), (bad, [0, 1, 0, 1])], label=None).run(count)
    bad.data[2] = -np.inf
    with pytest.raises(ValueError, match=r"column 2 is infinite in row 2 of batch 0"):
        open_source([(bad, [0, 1, 0, 1])], label=None).run(count)


def test_large_finite_numbers_pass():
    X = np.full((4, 1), 3e38, np.float32)
    opened = open_source(
        [(X, [0, 1, 0, 1]), (sparse.csr_array(X).toarray(), [0, 1, 0, 1])], label=None
    )
    assert opened.run(count).rows == 8


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (
            {"label": "z"},
            "label='z' is not a column of batch 0, whose columns are 'a', 'b', 'w', 'y'",
        ),
        ({"label": None}, "label=None, but batch 0 has its labels in a column"),
        ({"weight": "z"}, "weight='z' is not a column"),
        ({"weight": "y"}, "label='y' and weight='y' are the same column"),
        ({"columns": ["a", "z"]}, "columns='z' is not a column"),
        ({"columns": ["a", "a"]}, "columns= names a column twice"),
        ({"columns": ["a", "y"]}, "columns= has the label 'y'"),
        ({"columns": []}, "batch 0 has no column for a feature"),
        ({"columns": ["a"], "offset": "a"}, "batch 0 has no column for a feature"),
        ({"offset": "z"}, "offset='z' is not a column"),
        ({"offset": "y"}, "offset='y' is also the label"),
        ({"offset": 1}, "offset=1 is not a column"),
        (
            {"offset": lambda X: X["a"] - np.inf},
            r"batch 0: the offset is NaN or infinite in 3 rows",
        ),
        ({"offset": lambda _: 1.0}, r"batch 0: the offset callable returned shape \(\) for 3 rows"),
    ],
)
def test_columns_that_are_not_there(asked, match):
    with pytest.raises(ValueError, match=match):
        open_source([good()], **{"label": "y", **asked}).run(count)


@pytest.mark.parametrize(
    ("asked", "error", "match"),
    [
        ({"label": "y"}, ValueError, r"label='y', but batch 0 is a pair \(X, y\)"),
        ({"columns": [0, 5]}, ValueError, "columns=5 is not a column .* positions 0 to 1"),
        ({"columns": [0, -2]}, ValueError, "columns= names a column twice"),
        ({"offset": 2}, ValueError, "offset=2 is not one of the 2 columns of features"),
        ({"offset": "a"}, TypeError, "offset='a', but batch 0 is an array"),
        ({"columns": "ab"}, TypeError, r"give a list, such as \['ab'\]"),
        ({"batch_size": 0}, ValueError, "batch_size=0: give a whole number of at least 1"),
        ({"batch_size": 1e5}, TypeError, "batch_size=100000.0: give a whole number"),
        ({"batch_size": True}, TypeError, "batch_size=True: give a whole number"),
    ],
)
def test_positions_that_are_not_there(asked, error, match):
    with pytest.raises(error, match=match):
        open_source([(X4, [0, 1, 0, 1])], **{"label": None, **asked}).run(count)


def test_triples_have_their_weights():
    triple = (X4, [0, 1, 0, 1], np.ones(4))
    with pytest.raises(ValueError, match=r"weight=0, but batch 0 is a triple"):
        open_source([triple], label=None, weight=0)


def test_two_columns_of_one_name():
    frame = good().set_axis(["a", "a", "w", "y"], axis=1)
    with pytest.raises(ValueError, match="batch 0 has two columns 'a'; rename one"):
        open_source([frame], label="y")


@pytest.mark.parametrize(
    ("source", "error", "match"),
    [
        ([], ValueError, "has no rows: it gave 0 batches"),
        ([good()[:0], good()[:0]], ValueError, "has no rows: it gave 2 batches, all empty"),
        (iter([]), ValueError, "has no rows"),
        (list, ValueError, "has no rows"),
        (5, TypeError, "source is of type int. Give a path"),
        (None, TypeError, "source is of type NoneType"),
        ({"a": [1]}, TypeError, "source is of type dict"),
        (good(), TypeError, "source is of type DataFrame.*in memory: call fit"),
        (pa.Table.from_pandas(good()), TypeError, "in memory: call fit"),
        (X4, TypeError, "source is of type ndarray.*in memory: call fit"),
        (sparse.csr_array(X4), TypeError, "in memory: call fit"),
        ((X4, np.zeros(4)), TypeError, "source is of type tuple.*in memory: call fit"),
        ((good(), good()["y"]), TypeError, "in memory: call fit"),
        (pl.LazyFrame({"a": [1]}), TypeError, "collect_batches"),
        (lambda: 5, TypeError, "the source returned an object of type int; an iterator"),
        (good, TypeError, "the source returned an object of type DataFrame"),
    ],
)
def test_no_source(source, error, match):
    with pytest.raises(error, match=match):
        open_source(source, label="y")


def test_lazy_frames_through_a_callable():
    lazy = pl.from_pandas(good()).lazy()
    opened = open_source(lambda: lazy.collect_batches(maintain_order=True), label="y")
    assert opened.run(count).rows == 3


# ------------------------------------------------------------------------------------------------
# Files that can't be read


def test_paths_that_are_not_there(tmp_path):
    for source in (tmp_path / "a.parquet", [str(tmp_path / "a.csv")], f"{tmp_path}/*.csv"):
        with pytest.raises(FileNotFoundError, match=r"there is no file or folder .*sorted"):
            open_source(source, label="y")
    with pytest.raises(FileNotFoundError, match="there is no Parquet or CSV file in"):
        open_source(tmp_path, label="y")
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(ValueError, match=r"a.txt' is neither Parquet nor CSV by its ending"):
        open_source(tmp_path, label="y")


def test_files_of_two_kinds(tmp_path):
    good().to_parquet(tmp_path / "a.parquet")
    good().to_csv(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="has both Parquet and CSV files"):
        open_source(tmp_path, label="y")


def test_broken_files(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("no parquet")
    with pytest.raises(ValueError, match=r"a.parquet can't be read as parquet"):
        open_source(path, label="y")
    path = tmp_path / "a.csv"
    path.write_text("")
    with pytest.raises(ValueError, match=r"a.csv can't be read as csv: .*Empty CSV file"):
        open_source(path, label="y")
    path.write_text("x,y\n")
    with pytest.raises(ValueError, match="the source has no rows"):
        open_source(path, label="y").run(count)
    path.write_text("x,y\n1,0\n1,0,3\n")
    with pytest.raises(ValueError, match=r"a.csv.*Expected 2 columns, got 3"):
        open_source(path, label="y").run(count)


def test_csv_columns_that_turn_into_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("u,x,y\n" + "a,1,0\n" * 200_000 + "a,abc,1\n")
    opened = open_source(path, label="y", columns=["x"])
    with pytest.raises(
        ValueError, match=r"column 'x' holds no number in row 200000 of a.csv: .*'abc'"
    ):
        opened.run(count)
    path.write_text("x,y\n1,0\n,1\n")
    with pytest.raises(ValueError, match=r"column 'x' is missing or NaN in row 1 of a.csv"):
        open_source(path, label="y").run(count)
    path.write_text("x,y\n1,0\n2,\n")
    with pytest.raises(ValueError, match=r"the label is missing in row 1 of a.csv"):
        open_source(path, label="y").run(count)


def test_errors_name_the_file_and_the_row_in_it(tmp_path):
    first, second = good().assign(w=1), good().assign(w=1)
    second.loc[1, "b"] = np.nan
    first.to_parquet(tmp_path / "a.parquet")
    second.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(
        ValueError, match=r"'b' is missing or NaN in row 1 of b.parquet \(row 4 of all"
    ):
        open_source(tmp_path, label="y", batch_size=2).run(count)
    with pytest.raises(
        ValueError, match=r"'b' is missing or NaN in row 1 of b.parquet \(row 4 of all"
    ):
        open_source(tmp_path, label="y").run(count)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_with_other_columns(tmp_path, ending):
    def write(frame, name):
        path = tmp_path / f"{name}.{ending}"
        frame.to_parquet(path) if ending == "parquet" else frame.to_csv(path, index=False)

    write(good(), "a")
    write(good().drop(columns="b"), "b")
    with pytest.raises(
        ValueError, match=rf"b.{ending} lacks the column 'b'; its columns are 'a', 'w'"
    ):
        open_source(tmp_path, label="y").run(count)
    write(good().assign(c=1.0), "b")
    with pytest.raises(
        ValueError, match=rf"b.{ending} has a column 'c' that the first file has not"
    ):
        open_source(tmp_path, label="y").run(count)
    assert open_source(tmp_path, label="y", columns=["a", "b"]).run(count).rows == 6
    # another order and other types of number are fine
    write(good()[["y", "w", "b", "a"]].astype({"a": int, "y": float}), "b")
    opened = open_source(tmp_path, label="y")
    X = np.tile(good()[["a", "b", "w"]].to_numpy(), (2, 1))
    same_passes(opened, Block(0, X, np.tile(good()["y"], 2) == 1))


def test_text_columns_are_named_before_the_first_pass(tmp_path):
    good().assign(t="a", d=pd.Timestamp("2020-01-01")).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(
        ValueError, match=r"columns of a.parquet hold no numbers: 't' \((large_)?string"
    ):
        open_source(tmp_path / "a.parquet", label="y")


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'imbfit\[scale\]'"):
        open_source(tmp_path, label="y")
    assert open_source([(X4, [0, 1, 0, 1])], label=None).run(count).rows == 4


# ------------------------------------------------------------------------------------------------
# How often a source is read


def test_an_iterator_is_read_once():
    X, y = rare()
    whole = Block(0, X, y == 1)
    parts = [(X[c], y[c]) for c in cut(600, 50)]
    for source in (iter(parts), (part for part in parts), map(tuple, parts)):
        opened = open_source(source, label=None)
        assert not opened.repeatable
        same_passes(opened, whole, repeatable=False)
        with pytest.raises(ValueError, match=r"can be read once. Give a list of batches"):
            opened.run(count)
    reader = pa.Table.from_pandas(frame_of(X, y)).to_reader(max_chunksize=100)
    same_passes(open_source(reader, label="y"), whole, repeatable=False)
    with pytest.raises(
        ValueError, match="sampling_rate='auto' passes over the rows more than once"
    ):
        open_source(iter(parts), label=None).require_repeatable("sampling_rate='auto'")
    for source in (parts, tuple(parts), lambda: iter(parts)):
        open_source(source, label=None).require_repeatable("sampling_rate='auto'")


def test_pandas_reads_csv_in_chunks(tmp_path):
    X, y = rare()
    frame_of(X, y).to_csv(tmp_path / "a.csv", index=False)
    with pd.read_csv(tmp_path / "a.csv", chunksize=100) as chunks:
        opened = open_source(chunks, label="y")
        same_passes(opened, Block(0, X, y == 1), repeatable=False)


def test_a_callable_is_called_once_for_each_pass():
    calls = []

    def source():
        calls.append(0)
        for _ in range(3):
            calls[-1] += 1
            yield X4, [0, 1, 0, 1]

    opened = open_source(source, label=None)
    assert calls == [1]
    opened.run(count)
    assert calls == [3]
    opened.run(count)
    assert calls == [3, 3]


def test_a_source_that_gives_other_rows_the_second_time():
    shared = iter([(X4, [0, 1, 0, 1])] * 2)
    opened = open_source(lambda: shared, label=None)
    opened.run(count)
    with pytest.raises(
        ValueError, match=r"gave 8 rows with 4 positives in its first pass and 0 with 0"
    ):
        opened.run(count)


# ------------------------------------------------------------------------------------------------
# Memory


def peak_of_passes(path, *functions):
    """Return the most memory that passes take, of numpy and of pyarrow, in MB."""
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    opened = open_source(path, label="y", batch_size=20_000)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        for function in functions:
            found = opened.run(function)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    return (most + pool.max_memory()) / 2**20, found


# All rows would take 59 MB as float32 and 67 MB as float64, which numbers in CSV are. Measured are
# 17 and, since pyarrow reads CSV some blocks ahead, 31 MB.
@pytest.mark.parametrize(
    ("ending", "n", "bound"), [("parquet", 1_500_000, 25), ("csv", 800_000, 45)]
)
def test_memory_is_bounded_by_what_is_kept(tmp_path, ending, n, bound):
    x = np.random.default_rng(0).standard_normal(n, np.float32)
    columns = {f"x{j}": x for j in range(10)}
    table = pa.table({**columns, "y": (np.arange(n) % 500 == 0).astype(np.int8)})
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        # all rows in one group, as some writers do; who reads whole groups holds everything
        pq.write_table(table, path, row_group_size=n, use_dictionary=False)
    else:
        pacsv.write_csv(table, path)
    functions = [
        partial(draw_pilot, seed=0, positives=500, negatives=1000),
        partial(predict, link=LINKS["logit"], coef=np.ones(10), intercept=-5.0),
        partial(draw, seed=0, plan=UniformPlan(0.001)),
    ]
    peak, kept = peak_of_passes(path, *functions[2 * (ending == "csv") :])
    assert kept.counts.rows == n
    assert len(kept.rows) < 0.005 * n
    assert peak < bound


# ------------------------------------------------------------------------------------------------
# The fit


def same_fit(ours, theirs):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-12)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-12)
    np.testing.assert_allclose(ours.standard_errors_, theirs.standard_errors_, rtol=1e-10)
    assert ours.n_kept_ == theirs.n_kept_
    assert ours.sampling_rate_ == pytest.approx(theirs.sampling_rate_, rel=1e-12)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.pos_label_ == theirs.pos_label_
    assert ours.n_features_in_ == theirs.n_features_in_


@pytest.fixture(scope="module")
def rows():
    X, y = rare(8_000, 4, seed=3, share=-3.5)
    return X, y


PARAMETERS = {
    "number": {"sampling_rate": 0.2},
    "all": {"sampling_rate": 1.0},
    "auto": {"sampling_rate": "auto", "efficiency": 0.8},
    "balanced": {"sampling_rate": "balanced"},
    "iw": {"sampling_rate": 0.2, "method": "iw", "link": "cloglog"},
    "a-optimal": {"sampling_rate": 0.2, "sampling": "a_optimal"},
    "local case-control": {"sampling_rate": 0.2, "sampling": "local_case_control"},
    "recalibrated": {"sampling_rate": 0.2, "recalibrate_intercept": "full", "link": "probit"},
    "naive": {"sampling_rate": 0.2, "method": "naive", "naive_correction": "isotonic"},
}


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("size", [7, 1000, 8000])
@pytest.mark.usefixtures("gathering")
def test_the_fit_is_that_of_rows_in_memory(rows, name, size):
    X, y = rows
    model = DownsampledGLMClassifier(**PARAMETERS[name], random_state=11)
    theirs = model.fit(X, y)
    parts = [(X[c], y[c]) for c in cut(len(y), size)]
    ours = DownsampledGLMClassifier(**PARAMETERS[name], random_state=11)
    same_fit(ours.fit_batches(parts, label=None), theirs)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-9)


def test_frames_fit_and_predict_by_name(rows, tmp_path):
    X, y = rows
    frame = frame_of(X, np.where(y == 1, "yes", "no"), w=np.linspace(0.5, 2, len(y)))
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    features = frame.drop(columns=["y", "w"])
    model = DownsampledGLMClassifier(
        "cloglog", sampling_rate=0.3, offset="f1", pos_label="yes", random_state=1
    )
    theirs = model.fit(features, frame["y"], sample_weight=frame["w"])
    wanted = theirs.predict_proba(features)
    for source in ([frame], tmp_path / "a.parquet", tmp_path / "a.csv"):
        ours = DownsampledGLMClassifier(
            "cloglog", sampling_rate=0.3, offset="f1", pos_label="yes", random_state=1
        ).fit_batches(source, label="y", weight="w")
        same_fit(ours, theirs)
        assert ours.feature_names_in_.tolist() == features.columns.tolist()
        np.testing.assert_allclose(ours.predict_proba(features), wanted, rtol=1e-9)
        np.testing.assert_array_equal(ours.predict(features), theirs.predict(features))


def test_a_positive_label_that_comes_first_in_the_alphabet(rows):
    X, y = rows
    labels = np.where(y == 1, "a", "b")
    model = DownsampledGLMClassifier("cloglog", sampling_rate=0.3, pos_label="a", random_state=1)
    theirs = model.fit(X, labels)
    ours = DownsampledGLMClassifier("cloglog", sampling_rate=0.3, random_state=1)
    ours.fit_batches(
        [(X[:5000], labels[:5000]), (X[5000:], labels[5000:])], label=None, pos_label="a"
    )
    same_fit(ours, theirs)
    np.testing.assert_array_equal(ours.coef_ < 0, theirs.coef_ < 0)


def test_sparse_batches(rows):
    X, y = rows
    X = np.where(np.abs(X) > 1, X, 0)
    theirs = DownsampledGLMClassifier(sampling_rate=0.3, random_state=1).fit(sparse.csr_array(X), y)
    parts = [(sparse.csr_array(X[c]), y[c]) for c in cut(len(y), 900)]
    ours = DownsampledGLMClassifier(sampling_rate=0.3, random_state=1)
    same_fit(ours.fit_batches(parts, label=None), theirs)


@pytest.mark.parametrize(
    ("parameters", "passes"),
    [
        ({"sampling_rate": 0.2}, 1),
        ({"sampling_rate": "balanced"}, 2),
        ({"sampling_rate": "auto", "efficiency": 0.8}, 2),
        ({"sampling_rate": 0.2, "sampling": "l_optimal"}, 2),
        ({"sampling_rate": 0.2, "recalibrate_intercept": "full"}, 2),
    ],
)
def test_passes(rows, parameters, passes):
    X, y = rows
    begun = []

    def source():
        begun.append(True)
        yield X, y

    DownsampledGLMClassifier(**parameters, random_state=1).fit_batches(source, label=None)
    assert len(begun) == passes


def test_a_check_of_all_rows_takes_a_pass(rows):
    X, y = rows
    begun = []

    def source():
        begun.append(True)
        yield X, y

    theirs = DownsampledGLMClassifier(sampling_rate=0.2, random_state=1).fit(X, y)
    ours = DownsampledGLMClassifier(sampling_rate=0.2, random_state=1)
    ours.fit_batches(source, label=None, full_check=True)
    assert len(begun) == 2
    assert ours.calibration_ratio_ == pytest.approx(theirs.calibration_ratio_, rel=1e-12)
    with pytest.raises(ValueError, match="full_check=True passes over the rows more than once"):
        ours.fit_batches(iter([(X, y)]), label=None, full_check=True)


def test_one_pass_is_enough_for_a_number(rows):
    X, y = rows
    theirs = DownsampledGLMClassifier(sampling_rate=0.2, random_state=1).fit(X, y)
    parts = ((X[c], y[c]) for c in cut(len(y), 500))
    ours = DownsampledGLMClassifier(sampling_rate=0.2, random_state=1)
    ours.fit_batches(parts, label=None)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-12)
    assert ours.calibration_ratio_ == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(
    "parameters",
    [
        {"sampling_rate": "auto"},
        {"sampling_rate": "balanced"},
        {"sampling_rate": 0.2, "sampling": "a_optimal"},
        {"sampling_rate": 0.2, "recalibrate_intercept": "full"},
    ],
)
def test_what_one_pass_cannot_do(rows, parameters):
    X, y = rows
    with pytest.raises(ValueError, match="passes over the rows more than once"):
        DownsampledGLMClassifier(**parameters).fit_batches(iter([(X, y)]), label=None)


def test_one_class_in_all_batches():
    with pytest.raises(ValueError, match="all 12 rows have the label 0"):
        DownsampledGLMClassifier(sampling_rate=0.5).fit_batches(
            [(X4, np.zeros(4, int))] * 3, label=None
        )
