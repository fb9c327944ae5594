"""One pass over the rows: no cut into blocks changes what it finds."""

from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from imbfit.glm.built_in_links import LINKS
from imbfit.glm.passes import Block, Counts, InMemory, count
from imbfit.glm.plans import ScoredPlan, UniformPlan
from imbfit.glm.predictions import Predictions, predict
from imbfit.glm.samples import draw, draw_pilot

COEF = np.array([0.7, -0.4])


def block_of(n=200, *, seed=0, weighted=True, offset=True, make=np.asarray, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 2)) * (rng.random((n, 2)) < 0.7), 3).astype(dtype)
    weight = rng.integers(0, 4, n).astype(float) if weighted else None
    return Block(0, make(X), rng.random(n) < 0.2, weight, rng.normal(size=n) if offset else None)


def pieces_of(block, cuts):
    ends = [0, *sorted(cuts), len(block.positive)]
    csr = block.X.tocsr() if sparse.issparse(block.X) else block.X
    for first, last in pairwise(ends):
        own = slice(first, last)
        yield Block(
            block.start + first,
            csr[own],
            block.positive[own],
            None if block.weight is None else block.weight[own],
            None if block.offset is None else block.offset[own],
        )


def over(blocks, function):
    return reduce(lambda mine, other: mine.merged(other), map(function, blocks))


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def same_rows(one, other):
    for name in ("rows", "positive", "weight", "offset"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(dense(one.X), dense(other.X))
    assert one.X.dtype == other.X.dtype
    assert one.counts == other.counts


def scored(rate=0.3, kind="local_case_control"):
    return ScoredPlan(kind, rate, LINKS["logit"], COEF, -1.5, 1.0, -20.0, None)


cuts = st.lists(st.integers(0, 200), max_size=6)


@settings(max_examples=40)
@given(
    cuts, st.booleans(), st.sampled_from([np.asarray, sparse.csr_array]), st.integers(0, 2**64 - 1)
)
def test_any_cut_into_blocks_finds_the_same(ends, full, make, seed):
    block = block_of(weighted=full, offset=full, make=make, dtype=np.float32)
    parts = list(pieces_of(block, ends))
    assert over(parts, count) == count(block)
    for plan in (UniformPlan(0.25), UniformPlan(1.0), scored()):
        keep = partial(draw, seed=seed, plan=plan)
        same_rows(over(parts, keep).joined(), keep(block).joined())
    pilot = partial(draw_pilot, seed=seed, positives=7, negatives=19)
    one, other = over(parts, pilot), pilot(block)
    same_rows(one.sample(), other.sample())
    assert one.counts == count(block)
    look = partial(predict, link=LINKS["cloglog"], coef=COEF, intercept=-2.0, histogram=True)
    mine, whole = over(parts, look), look(block)
    assert mine.probability == pytest.approx(whole.probability, rel=1e-12)
    assert mine.weight == whole.weight
    assert mine.positive_weight == whole.positive_weight
    assert mine.bins.keys() == whole.bins.keys()
    for key, (weight, total) in whole.bins.items():
        assert mine.bins[key] == (pytest.approx(weight), pytest.approx(total, abs=1e-9))


def test_a_block_in_memory_is_one_pass():
    block = block_of()
    source = InMemory(block)
    assert source.in_memory
    assert source.repeatable
    assert source.run(count) == count(block)


def test_counts_are_those_of_the_rows_with_weight():
    positive = np.array([True, True, False, False, False])
    X = np.zeros((5, 1))
    assert count(Block(0, X, positive)) == Counts(2, 3, 2.0, 3.0)
    weighted = count(Block(0, X, positive, np.array([0.0, 2.0, 0.0, 0.5, 1.5])))
    assert weighted == Counts(1, 2, 2.0, 2.0)
    assert weighted.rows == 3
    assert weighted.prevalence == 0.5


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_rows_of_weight_zero_are_as_good_as_absent_but_keep_their_number(make):
    block = block_of(make=make)
    has = np.flatnonzero(block.weight > 0)
    for plan in (UniformPlan(0.4), UniformPlan(1.0), scored()):
        sample = draw(block, seed=3, plan=plan)
        assert np.isin(sample.rows, has).all()
        plain = Block(0, block.X, block.positive, None, block.offset)
        unweighted = draw(plain, seed=3, plan=plan).rows
        np.testing.assert_array_equal(sample.rows, unweighted[np.isin(unweighted, has)])
    pilot = draw_pilot(block, seed=3, positives=1_000, negatives=1_000).sample()
    np.testing.assert_array_equal(np.sort(pilot.rows), has)


def test_a_higher_rate_keeps_what_a_lower_one_keeps():
    block = block_of(2_000, weighted=False)
    wide = draw(block, seed=1, plan=UniformPlan(0.5))
    for rate in (0.5, 0.2, 0.01):
        same_rows(wide.drawn(UniformPlan(rate)), draw(block, seed=1, plan=UniformPlan(rate)))
    kept = draw(block, seed=1, plan=UniformPlan(0.2))
    assert kept.positive.sum() == block.positive.sum()
    negatives = np.count_nonzero(~block.positive)
    share = np.count_nonzero(~kept.positive) / negatives
    assert abs(share - 0.2) < 4 * np.sqrt(0.16 / negatives)


def test_everything_is_taken_without_a_copy():
    block = block_of(weighted=False)
    assert draw(block, seed=0, plan=UniformPlan(1.0)).X is block.X


def test_the_pilots_draw_is_not_the_fits():
    block = block_of(4_000, weighted=False, offset=False)
    kept = draw(block, seed=1, plan=UniformPlan(0.1))
    kept = set(kept.rows[~kept.positive].tolist())
    pilot = draw_pilot(block, seed=1, positives=0, negatives=320).sample()
    both = len(kept & set(pilot.rows.tolist()))
    # a tenth of the pilot's rows, if the two draws have nothing to do with each other
    assert 10 < both < 60


def test_the_pilot_has_the_sizes_asked_for_and_no_more_than_there_are():
    block = block_of(weighted=False)
    positives = int(block.positive.sum())
    sample = draw_pilot(block, seed=0, positives=5, negatives=11).sample()
    assert (sample.positive.sum(), (~sample.positive).sum()) == (5, 11)
    assert sample.counts == count(block)
    most = draw_pilot(block, seed=0, positives=10**6, negatives=11).sample()
    assert most.positive.sum() == positives


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog", "cauchit"])
@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_add_up_and_the_histogram_finds_the_shift(link, weighted):
    block = block_of(3_000, weighted=weighted)
    weight = np.ones(3_000) if block.weight is None else block.weight
    seen = predict(block, link=LINKS[link], coef=COEF, intercept=-1.0, histogram=True)
    eta = block.X @ COEF - 1.0 + block.offset
    mean = float(weight @ np.exp(LINKS[link].log_p(eta)))
    assert seen.probability == pytest.approx(mean, rel=1e-12)
    assert seen.calibration_ratio == pytest.approx(mean / weight[block.positive].sum())
    shift = seen.shift(LINKS[link])
    shifted = float(weight @ np.exp(LINKS[link].log_p(eta + shift)))
    assert abs(shift) > 0.01
    assert shifted == pytest.approx(weight[block.positive].sum(), rel=1e-5)
    assert seen.shifted_ratio(LINKS[link], shift) == pytest.approx(1.0, abs=1e-9)


def test_predictions_far_apart_take_no_long_histogram():
    X = np.array([[-1e6], [0.0], [1e6]])
    block = Block(0, X, np.array([False, True, True]), np.array([1.0, 2.0, 0.0]))
    seen = predict(block, link=LINKS["logit"], coef=np.ones(1), intercept=0.0, histogram=True)
    assert seen.bins == {-256_000_000: (1.0, -1e6), 0: (2.0, 0.0)}
    assert seen.probability == 1.0


def test_without_a_histogram_there_is_none():
    block = block_of()
    seen = predict(block, link=LINKS["logit"], coef=COEF, intercept=0.0)
    assert seen.bins == {}
    merged = seen.merged(Predictions({4: (1.0, 2.0)}, 1.0, 1.0, 0.0))
    assert merged.bins == {4: (1.0, 2.0)}
    assert merged.probability == seen.probability + 1.0
