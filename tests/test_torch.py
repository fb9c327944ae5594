"""MetricLoss: the solved game as a loss of PyTorch."""

import copy
import importlib
import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from oracles import full_game
from sklearn.metrics import f1_score

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'imbfit[torch]'")

from imbfit import (  # noqa: E402
    AdversarialMetricClassifier,
    InfeasibleConstraints,
    UnsupportedMetric,
    search_thresholds,
)
from imbfit.adversarial.directions import Directions  # noqa: E402
from imbfit.adversarial.fitting import Players, Rows  # noqa: E402
from imbfit.adversarial.full_batch import FullBatch  # noqa: E402
from imbfit.adversarial.payoff import payoff_of, requirement_of  # noqa: E402
from imbfit.adversarial.torch import MetricLoss  # noqa: E402
from imbfit.metrics import cost, f1, parse, recall  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
CLOSED = [
    "f1",
    "fbeta(2)",
    "precision",
    "recall",
    "specificity",
    "npv",
    "accuracy",
    "balanced_accuracy",
    "informedness",
    "markedness",
    "kappa",
    "mcc",
    "lift",
]
#: Games that are solved in rounds.
ROUNDS = [
    {"count": "expected"},
    {"metric": "kappa", "count": "expected"},
    {"metric": "precision", "constraints": ["recall >= 0.8"]},
    {"metric": "precision", "constraints": ["recall >= 0.8"], "count": "expected"},
]


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batch(n=30, positives=6, *, seed=0, scale=1.0, dtype=torch.float64):
    """Logits that are higher for positives, and labels."""
    rng = np.random.default_rng(seed)
    y = np.zeros(n, int)
    y[rng.choice(n, positives, replace=False)] = 1
    z = scale * (rng.normal(size=n) + y)
    return torch.tensor(z, dtype=dtype, requires_grad=True), torch.tensor(y)


def gradient(loss, z, *rest, incoming=None):
    (found,) = torch.autograd.grad(loss(z, *rest), z, incoming)
    return found


# --------------------------------------------------------------------------------------------
# The game


@pytest.mark.parametrize("metric", CLOSED)
def test_gradients_are_those_of_finite_differences(metric):
    loss = MetricLoss(metric)
    for seed, scale in enumerate((0.3, 2.0, 20.0)):
        z, y = batch(12, 4, seed=seed, scale=scale)
        # piecewise linear, and random logits are away from the kinks
        assert torch.autograd.gradcheck(lambda at, y=y: loss(at, y), z, eps=1e-7, atol=1e-6)


@pytest.mark.parametrize("metric", CLOSED)
def test_it_is_the_loss_of_the_classifier(metric):
    z, y = batch(200, 15)
    payoff = payoff_of(parse(metric), greater_is_better=True)
    positive = y.numpy() == 1
    play = Players(payoff, (), "observed", "auto", 1e-6).on(Rows(None, positive, None))
    one_column = Directions(z.detach().numpy()[:, None], np.ones(1), False, None)
    numpy_loss = FullBatch(
        one_column, positive.astype(float), None, play, payoff.range(15.0, 200.0)
    )
    upper, _, slope = numpy_loss(np.ones(1))
    loss = MetricLoss(metric)
    assert loss(z, y).item() == pytest.approx(upper, abs=1e-12)
    along = float(gradient(loss, z, y) @ z.detach())
    assert along == pytest.approx(float(slope[0]), abs=1e-12)


@pytest.mark.parametrize("metric", ["f1", "kappa", "precision"])
@pytest.mark.parametrize("y", [[1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
def test_the_value_is_that_of_the_game_over_all_label_vectors(metric, y):
    check_against_the_full_game({"metric": metric}, y, tolerance=1e-9)


@pytest.mark.parametrize("settings", ROUNDS)
@pytest.mark.parametrize("y", [[1, 0, 0, 0], [1, 0, 1, 0]])
def test_games_in_rounds_have_the_value_of_the_full_game(settings, y):
    check_against_the_full_game(settings, y, tolerance=1e-6)


def check_against_the_full_game(settings, y, *, tolerance):
    settings = {"metric": "f1", "count": "observed", "constraints": []} | settings
    payoff = payoff_of(parse(settings["metric"]), greater_is_better=True)
    rules = [requirement_of(parse(rule)) for rule in settings["constraints"]]
    scale = payoff.range(float(sum(y)), 4.0)
    for seed in range(3):
        z = np.random.default_rng(seed).normal(scale=3.0, size=4)
        psi = z * scale / 4
        value, _ = full_game(psi, payoff, rules, y, settings["count"])
        loss = MetricLoss(**settings)
        found = loss(torch.tensor(z), torch.tensor(y)).item()
        assert found == pytest.approx(-(value + psi @ y) / scale, abs=tolerance)


@pytest.mark.parametrize("settings", ROUNDS)
def test_games_in_rounds_have_their_gradient(settings):
    loss = MetricLoss(**settings, tol=1e-9)
    z, y = batch(10, 3, seed=1, scale=2.0)
    slope = gradient(loss, z, y)
    # convex, and the slope is that of a tangent: nowhere is the loss below it
    for seed in range(5):
        other, _ = batch(10, 3, seed=10 + seed, scale=2.0)
        tangent = loss(z, y) + slope @ (other - z)
        assert loss(other, y).item() >= tangent.item() - 1e-7
    step = 1e-4 * slope / slope.norm()
    fall = loss(z, y).item() - loss(z - step, y).item()
    assert fall == pytest.approx(1e-4 * float(slope.norm()), rel=0.05, abs=1e-7)


def test_equal_calls_get_equal_answers_whatever_came_between():
    for settings in ({}, *ROUNDS):
        loss = MetricLoss(**settings)
        z, y = batch(12, 3)
        first = loss(z, y).item(), gradient(loss, z, y)
        for seed in range(3):
            loss(*batch(12, 3, seed=seed + 1))
        assert loss(z, y).item() == first[0]
        assert torch.equal(gradient(loss, z, y), first[1])


def five_to_one(tp, pp, ap, n):  # noqa: ARG001  the signature is fixed
    return 5 * (ap - tp) + pp - tp


def test_a_cost_is_better_when_lower():
    loss = MetricLoss(cost(fn=5, fp=1))
    z, y = batch(40, 6)
    assert loss(z + 20 * y, y) < loss(z, y) < loss(z - 20 * y, y)
    assert gradient(loss, z, y)[y == 1].max() <= 0
    as_function = MetricLoss(five_to_one, greater_is_better=False)
    assert as_function(z, y).item() == pytest.approx(loss(z, y).item(), abs=1e-12)


def test_the_unit_of_a_metric_is_nothing():
    z, y = batch(40, 6)
    small, large = MetricLoss(cost(fn=5, fp=1)), MetricLoss(cost(fn=5e6, fp=1e6))
    torch.testing.assert_close(gradient(small, z, y), gradient(large, z, y))


# --------------------------------------------------------------------------------------------
# What changes nothing


@pytest.mark.parametrize("metric", ["f1", "mcc"])
def test_with_the_observed_count_a_constant_changes_nothing(metric):
    loss = MetricLoss(metric)
    z, y = batch(100, 9)
    assert loss(z + 3.0, y).item() == pytest.approx(loss(z, y).item(), abs=1e-12)
    torch.testing.assert_close(gradient(loss, z + 3.0, y), gradient(loss, z, y))
    layer = torch.nn.Linear(4, 1)
    loss(layer(torch.randn(100, 4, generator=torch.Generator().manual_seed(0))), y).backward()
    assert abs(layer.bias.grad.item()) < 1e-7 < layer.weight.grad.abs().max().item()


def test_the_order_of_rows_is_nothing():
    loss = MetricLoss("f1")
    z, y = batch(50, 8)
    turned = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    assert loss(z[turned], y[turned]).item() == pytest.approx(loss(z, y).item(), abs=1e-12)
    torch.testing.assert_close(
        gradient(loss, z.detach()[turned].requires_grad_(), y[turned]), gradient(loss, z, y)[turned]
    )


def test_rows_with_equal_logits_have_equal_gradients_by_label():
    z = torch.zeros(10, requires_grad=True, dtype=torch.float64)
    y = torch.tensor([1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    slope = gradient(MetricLoss("f1"), z, y)
    torch.testing.assert_close(slope, (torch.tensor(0.2) - y).double() / 10)


def test_a_weight_is_so_many_rows():
    loss = MetricLoss("f1")
    z, y = batch(15, 4)
    weight = torch.tensor([0, 1, 2, 3, 1] * 3)
    with torch.no_grad():
        repeated = z.repeat_interleave(weight)
    repeated.requires_grad_()
    labels = y.repeat_interleave(weight)
    assert loss(z, y, weight).item() == pytest.approx(loss(repeated, labels).item(), abs=1e-12)
    each = gradient(loss, repeated, labels)
    rows = torch.arange(15).repeat_interleave(weight)
    summed = torch.zeros(15, dtype=torch.float64).index_add(0, rows, each)
    torch.testing.assert_close(gradient(loss, z, y, weight), summed)
    assert gradient(loss, z, y, weight)[weight == 0].eq(0).all()
    torch.testing.assert_close(
        gradient(loss, z, y, 0.25 * weight), summed, msg="the weights' unit counts"
    )
    ones = loss(z, y, sample_weight=torch.ones(15, 1)).item()
    assert ones == pytest.approx(loss(z, y).item(), abs=1e-12)


# --------------------------------------------------------------------------------------------
# As a part of autograd


@pytest.mark.parametrize("factor", [0.5, 100.0, -1.0, 0.0])
def test_the_incoming_gradient_counts(factor):
    loss = MetricLoss("f1")
    z, y = batch()
    torch.testing.assert_close(
        gradient(lambda *a: factor * loss(*a), z, y), factor * gradient(loss, z, y)
    )


def test_sums_of_losses_have_sums_of_gradients():
    f, k = MetricLoss("f1"), MetricLoss("kappa")
    z, y = batch()
    mixed = gradient(lambda *a: 0.3 * f(*a) + 2.0 * k(*a) ** 2 + z.pow(2).mean(), z, y)
    apart = 0.3 * gradient(f, z, y) + 4.0 * k(z, y).item() * gradient(k, z, y) + 2.0 * z / len(z)
    torch.testing.assert_close(mixed, apart.detach())


def test_gradients_add_up_and_reach_the_weights():
    loss = MetricLoss("f1")
    z, y = batch()
    (loss(2.0 * z, y)).backward()
    once = z.grad.clone()
    torch.testing.assert_close(once, 2.0 * gradient(loss, 2.0 * z, y))
    loss(2.0 * z, y).backward()
    torch.testing.assert_close(z.grad, 2.0 * once)


def test_without_gradients_there_is_a_value():
    loss = MetricLoss("f1")
    z, y = batch()
    with torch.no_grad():
        value = loss(z, y)
    assert not value.requires_grad
    assert value.item() == loss(z, y).item()
    assert not loss(z.detach(), y).requires_grad
    with torch.inference_mode():
        assert loss(z, y).item() == value.item()


def test_a_second_derivative_is_refused():
    z, y = batch()
    value = MetricLoss("f1")(z, y)
    with pytest.raises(RuntimeError, match=r"differentiated once.*create_graph=True"):
        torch.autograd.grad(value, z, create_graph=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_dtype_is_that_of_the_logits(dtype):
    z, y = batch(dtype=dtype)
    loss = MetricLoss("f1")
    assert loss(z, y).dtype == dtype
    slope = gradient(loss, z, y)
    assert slope.dtype == dtype
    exact = z.detach().double().requires_grad_()
    torch.testing.assert_close(loss(z, y), loss(exact, y).to(dtype))
    torch.testing.assert_close(slope, gradient(loss, exact, y).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_within_autocast_the_loss_is_not_of_half_precision(dtype):
    z, y = batch(dtype=dtype)
    loss = MetricLoss("f1")
    with torch.autocast("cpu", dtype=dtype):
        value = loss(z, y)
    assert value.dtype == torch.float32
    # what a gradient scaler starts with, and more than float16 holds
    (65536.0 * value).backward()
    assert z.grad.dtype == dtype
    assert z.grad.isfinite().all()
    plain = gradient(loss, z.detach().double().requires_grad_(), y)
    torch.testing.assert_close(z.grad, (65536.0 * plain).to(dtype))


@pytest.mark.parametrize("shape", [(30,), (30, 1)])
@pytest.mark.parametrize("label_shape", [(30,), (30, 1)])
@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.uint8, torch.float32])
def test_shapes_and_labels(shape, label_shape, kind):
    z, y = batch()
    loss = MetricLoss("f1")
    given = z.detach().reshape(shape).requires_grad_()
    value = loss(given, y.to(kind).reshape(label_shape))
    assert value.shape == ()
    assert value.item() == loss(z, y).item()
    value.backward()
    assert given.grad.shape == shape
    torch.testing.assert_close(given.grad.reshape(-1), gradient(loss, z, y))


def test_logits_need_not_be_contiguous():
    z, y = batch()
    loss = MetricLoss("f1")
    wide = torch.stack([z.detach(), -z.detach()], dim=1).requires_grad_()
    value = loss(wide[:, 0], y)
    value.backward()
    assert value.item() == loss(z, y).item()
    torch.testing.assert_close(wide.grad[:, 0], gradient(loss, z, y))
    assert wide.grad[:, 1].eq(0).all()


def test_what_comes_in_stays_as_it_is():
    z, y = batch()
    before, labels = z.detach().clone(), y.clone()
    MetricLoss("f1")(z, y, torch.ones(30)).backward()
    assert torch.equal(z.detach(), before)
    assert torch.equal(y, labels)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_device_gets_its_gradient():
    z, y = batch(dtype=torch.float32)
    loss = MetricLoss("f1")
    there = z.detach().cuda().requires_grad_()
    value = loss(there, y.cuda())
    value.backward()
    assert value.device == there.device == there.grad.device
    torch.testing.assert_close(there.grad.cpu(), gradient(loss, z, y))


# --------------------------------------------------------------------------------------------
# Batches without a choice


@pytest.mark.parametrize("metric", CLOSED)
@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("label", [0, 1])
def test_one_class_has_a_value_and_no_gradient(metric, n, label):
    z, _ = batch(n, 0)
    y = torch.full((n,), label)
    loss = MetricLoss(metric)
    # all these are best, 1 or 0/0, where nobody is predicted positive, or everybody
    assert loss(z, y).item() == pytest.approx(-1.0, abs=1e-12)
    assert gradient(loss, z, y).eq(0).all()
    assert gradient(loss, z, y, torch.rand(n) + 0.5).abs().max() < 1e-15


def test_with_the_expected_count_no_positives_are_still_a_game():
    loss = MetricLoss("f1", count="expected")
    z, y = batch(8, 0)
    slope = gradient(loss, z, y)
    assert slope.isfinite().all()
    assert slope.min() >= -1e-9
    assert slope.max() > 1e-3


def test_far_logits_give_numbers():
    for scale in (1e-300, 1e6, 1e30):
        z, y = batch(scale=scale)
        value = MetricLoss("f1")(z, y)
        assert value.isfinite()
        assert gradient(MetricLoss("f1"), z, y).abs().max() <= 1 / 30


# --------------------------------------------------------------------------------------------
# The module


def test_it_has_no_parameters_and_can_be_copied():
    loss = MetricLoss("f1", constraints="recall >= 0.8", count="expected", tol=1e-5)
    assert loss.state_dict() == {}
    assert list(loss.parameters()) == []
    loss.load_state_dict({})
    plain = MetricLoss("fbeta(2)")
    z, y = batch()
    value = plain(z, y).item()
    for made in (copy.deepcopy(plain), pickle.loads(pickle.dumps(plain)), plain.eval().float()):
        assert made(z, y).item() == value
        assert repr(made) == repr(plain)


def test_what_it_says_of_itself():
    assert repr(MetricLoss()) == "MetricLoss(metric='f1')"
    assert repr(MetricLoss("fn / n", greater_is_better=False)) == (
        "MetricLoss(metric='fn / n', greater_is_better=False)"
    )
    full = MetricLoss(
        "precision", constraints=[recall >= 0.8], count="expected", solver="lp", tol=0.01
    )
    assert repr(full) == (
        "MetricLoss(metric='precision', constraints=['recall >= 0.8'], count='expected', "
        "solver='lp', tol=0.01)"
    )


def test_several_threads_may_call_it():
    loss = MetricLoss("f1")
    batches = [batch(n, n // 5, seed=n) for n in range(10, 40)]
    alone = [gradient(MetricLoss("f1"), *each) for each in batches]
    wrong = []

    def work(start):
        for turn in range(60):
            at = (start + 7 * turn) % len(batches)
            if not torch.equal(gradient(loss, *batches[at]), alone[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_keeps_few_games(monkeypatch):
    module = importlib.import_module("imbfit.adversarial.torch")
    monkeypatch.setattr(module, "_KEPT_ROWS", 100)
    monkeypatch.setattr(module, "_KEPT_GAMES", 5)
    loss = MetricLoss("f1")
    for n in [*range(5, 25), 200, 10]:
        z, y = batch(n, 2)
        loss(z, y)
        games = loss._prepared._games
        assert len(games) <= 5
        assert loss._prepared._rows == sum(size for size, _ in games)
        assert loss._prepared._rows <= 100 or len(games) == 1
        assert (n, 2) in games


def test_without_torch_the_import_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "imbfit.adversarial.torch")
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install 'imbfit\[torch\]'"):
        importlib.import_module("imbfit.adversarial.torch")


# --------------------------------------------------------------------------------------------
# Bad input


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ({"metric": "jaccard"}, UnsupportedMetric, "jaccard is not affine in the true positives"),
        ({"metric": "f7"}, ValueError, "f7"),
        ({"metric": 3}, TypeError, "metric=3"),
        ({"metric": five_to_one}, ValueError, "greater_is_better=None"),
        ({"constraints": "recall"}, TypeError, "recall"),
        ({"constraints": "jaccard >= 0.1"}, UnsupportedMetric, "jaccard"),
        ({"count": "exact"}, ValueError, "count='exact'"),
        ({"solver": "simplex"}, ValueError, "solver='simplex'"),
        ({"solver": "closed", "count": "expected"}, ValueError, "solver='closed'"),
        ({"tol": 0.0}, ValueError, "tol=0.0"),
        ({"tol": "small"}, ValueError, "tol='small'"),
    ],
)
def test_bad_parameters_are_told(settings, kind, says):
    z, y = batch()
    with pytest.raises(kind) as told:
        # a formula is looked at when the first batch comes
        MetricLoss(**settings)(z, y)
    assert says in str(told.value)


def spoiled(z, at, with_what):
    return z.index_fill(0, torch.tensor(at), with_what)


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (lambda z, y: (z.tolist(), y), TypeError, "logits is a list: write torch.as_tensor(logits"),
        (lambda z, y: (z, y.numpy()), TypeError, "y is a ndarray: write torch.as_tensor(y)"),
        (lambda _, y: (y, y), TypeError, "logits are torch.int64"),
        (lambda z, y: (z.to(torch.complex64), y), TypeError, "logits is torch.complex64"),
        (lambda z, y: (z[:0], y[:0]), ValueError, "the batch is empty"),
        (lambda z, y: (z.reshape(15, 2), y), ValueError, "logits[:, 1] - logits[:, 0]"),
        (lambda z, y: (z.reshape(1, 30), y), ValueError, "logits has the shape (1, 30)"),
        (lambda z, y: (z.sum(), y), ValueError, "logits has the shape ()"),
        (lambda z, y: (z, y.reshape(5, 6)), ValueError, "y has the shape (5, 6)"),
        (lambda z, y: (z, y[1:]), ValueError, "y has 29 rows and logits have 30"),
        (lambda z, y: (spoiled(z, 7, torch.nan), y), ValueError, "logits[7] is nan (1 of 30"),
        (lambda z, y: (spoiled(z, [3, 9], torch.inf), y), ValueError, "logits[3] is inf (2 of 30"),
        (lambda z, y: (z, 2 * y - 1), ValueError, "is -1: labels are 0 and 1"),
        (lambda z, y: (z, y + 1), ValueError, "is 2: labels are 0 and 1"),
        (lambda z, y: (z, 0.9 * y), ValueError, "is 0.9: labels are 0 and 1"),
        (lambda z, y: (z, y * torch.nan), ValueError, "y[0] is nan: labels are 0 and 1"),
        (lambda z, y: (y.double(), z), ValueError, "y requires a gradient"),
        (lambda z, y: (z.to("meta"), y), ValueError, "logits is on the device 'meta'"),
        (lambda z, y: (z, y.to("meta")), ValueError, "y is on the device 'meta'"),
        (lambda z, y: (z, y, z), ValueError, "sample_weight requires a gradient"),
        (lambda z, y: (z, y, 1.0), TypeError, "sample_weight is a float"),
        (lambda z, y: (z, y, torch.ones(29)), ValueError, "sample_weight has 29 rows"),
        (lambda z, y: (z, y, torch.arange(30) - 1.0), ValueError, "sample_weight[0] is -1"),
        (lambda z, y: (z, y, torch.arange(30) / 0), ValueError, "sample_weight[0] is nan"),
        (lambda z, y: (z, y, torch.zeros(30)), ValueError, "sample_weight is 0 in each row"),
    ],
)
def test_bad_batches_are_told_by_row(change, kind, says):
    loss, given = MetricLoss("f1"), change(*batch())
    with pytest.raises(kind) as told:
        loss(*given)
    assert says in str(told.value)


def test_constraints_that_no_prediction_meets():
    loss = MetricLoss("precision", constraints=["recall >= 1.2"])
    z, y = batch(10, 3)
    with pytest.raises(InfeasibleConstraints, match="recall"):
        loss(z, y)


# --------------------------------------------------------------------------------------------
# Networks on real data


def mammography(frame):
    return frame.drop(columns="y"), frame["y"].str.strip("'") == "1"


def ulb_fraud_casecontrol(frame):
    return frame.drop(columns="Class"), frame["Class"] == 1


#: Readers, and an F1 on held-out rows that chance, or a broken loss, does not reach.
REAL = [(mammography, 0.5), (ulb_fraud_casecontrol, 0.8)]


def parts_of(read):
    """Scaled rows to train on, to cut on, and to test on."""
    folder = Path(os.environ.get("IMBFIT_DATA", ROOT / ".." / "shared" / "data"))
    path = folder / f"{read.__name__}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {folder}; set IMBFIT_DATA to the folder that has it")
    features, label = read(pd.read_parquet(path))
    X, y = features.to_numpy(float), label.to_numpy(int)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    fitted = len(y) // 2
    X = np.clip((X - X[:fitted].mean(axis=0)) / X[:fitted].std(axis=0), -10, 10)
    X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    held = (fitted + len(y)) // 2
    return [(X[at], y[at]) for at in (slice(fitted), slice(fitted, held), slice(held, None))]


def network_for(columns):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(columns, 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 1),
    )


def held_out_f1(logits_of, cutting, testing):
    """F1 on the test rows, at the cut that is best on others."""
    cut = search_thresholds(cutting[1].numpy(), logits_of(cutting[0]), objective="f1").threshold
    return f1_score(testing[1].numpy(), logits_of(testing[0]) > cut)


@pytest.mark.parametrize(("read", "floor"), REAL)
def test_a_network_trains_in_a_plain_loop(read, floor):
    (X, y), cutting, testing = parts_of(read)
    reached = {}
    log_loss = torch.nn.BCEWithLogitsLoss()
    for name, loss_of in [
        ("metric", MetricLoss("f1")),
        ("log", lambda z, y: log_loss(z[:, 0], y.float())),
    ]:
        network = network_for(X.shape[1])
        optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            before = loss_of(network(X), y).item()
        for _ in range(30):
            for rows in torch.randperm(len(y), generator=generator).split(512):
                optimizer.zero_grad()
                loss_of(network(X[rows]), y[rows]).backward()
                optimizer.step()

        def logits_of(X, network=network):
            with torch.no_grad():
                return network(X)[:, 0].double().numpy()

        with torch.no_grad():
            after = loss_of(network(X), y).item()
        assert after < before - 0.1
        reached[name] = held_out_f1(logits_of, cutting, testing)
    assert reached["metric"] > floor
    # two good losses: neither is far from the other on some 100 positives
    assert abs(reached["metric"] - reached["log"]) < 0.15, reached


@pytest.mark.parametrize(("read", "floor"), REAL)
def test_a_network_trains_through_skorch(read, floor):
    skorch = pytest.importorskip("skorch", reason="needs skorch: pip install skorch")
    (X, y), cutting, testing = parts_of(read)
    net = skorch.NeuralNet(
        network_for(X.shape[1]),
        criterion=MetricLoss,
        criterion__metric="f1",
        optimizer=torch.optim.Adam,
        optimizer__lr=0.003,
        batch_size=512,
        iterator_train__shuffle=True,
        max_epochs=30,
        train_split=None,
        verbose=0,
    )
    torch.manual_seed(0)
    net.fit(X.numpy(), y.numpy())
    losses = net.history[:, "train_loss"]
    assert losses[-1] < losses[0] - 0.1
    assert repr(net.criterion_) == "MetricLoss(metric='f1')"

    def logits_of(X):
        return net.predict(X.numpy())[:, 0].astype(float)

    assert held_out_f1(logits_of, cutting, testing) > floor


def test_the_loss_of_a_fitted_line_is_its_game():
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.1).astype(int)
    X = rng.normal(size=(600, 3)) + y[:, None]
    model = AdversarialMetricClassifier(f1, threshold="train").fit(X, y)
    value = MetricLoss(f1)(torch.tensor(X @ model.coef_[0]), torch.tensor(y)).item()
    assert value == pytest.approx(-model.game_value_, abs=1e-9)


def test_the_benchmark_of_networks_runs(tmp_path):
    parts_of(mammography)
    done = subprocess.run(  # noqa: S603  our own script
        [
            sys.executable,
            str(ROOT / "benchmarks" / "metric_networks.py"),
            *[
                "--quick",
                "--splits",
                "1",
                "--only",
                "mammography",
                "--out",
                str(tmp_path / "found"),
            ],
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| log loss | 0." in (tmp_path / "found.md").read_text()
    found = json.loads((tmp_path / "found.json").read_text())["figures"]
    assert all(0.0 < each["f1"] <= each["f1_best_cut"] <= 1.0 for each in found)
