"""The benchmark scripts of the adversarial classifier run on small problems."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("IMBFIT_DATA", ROOT / ".." / "shared" / "data"))
OIL = FOLDER / "oil_spill.parquet"
needs_oil = pytest.mark.skipif(not OIL.exists(), reason=f"no {OIL.name} in {FOLDER}")
PEER = importlib.util.find_spec("ap_perf") is not None


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def run(script, *arguments):
    done = subprocess.run(  # noqa: S603  our own scripts
        [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_speed_is_measured_and_every_answer_is_right(tmp_path):
    parts = ["--only", "batch", "--only", "train"]
    told = run("adversarial_speed.py", "--quick", *parts, "--out", tmp_path / "figures")
    assert "Every answer is right." in told
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    batch = figures["batch 10, F1, 4/n"]
    assert abs(batch["gaps"]["observed"][0]) < 1e-9
    if PEER:
        assert batch["seconds"]["peer"] > batch["seconds"]["observed"]
        assert min(batch["gaps"]["peer"]) > -1e-9
    assert figures["fit 20000, F1, tol 1e-6"]["gap"] <= 1e-6


@needs_oil
@pytest.mark.slow
def test_quality_is_measured_and_goes_on_where_it_stopped(tmp_path):
    records = tmp_path / "quality.jsonl"
    arguments = ["--only", "oil_spill", "--records", records, "--out", tmp_path / "figures"]
    run("adversarial_quality.py", "--splits", 1, *arguments)
    first = records.read_text().splitlines()
    assert len(first) == 6
    told = run("adversarial_quality.py", "--splits", 1, *arguments)
    assert records.read_text().splitlines() == first
    assert "| oil_spill | 1 |" in told
    for line in first:
        for fit in json.loads(line)["fits"]:
            for cuts in fit["metrics"].values():
                for cut in cuts.values():
                    assert -1 <= cut["test"] <= 1
            # a cut is chosen under the constraint
            rule = fit["metrics"].get("precision, recall >= .8", {})
            for name in set(rule) - {"own"}:
                assert rule[name]["out_of_fold_recall"] >= 0.8


def _record(method, split, test, out_of_fold, C=1.0):
    told = {"cut": 0.0, "out_of_fold": out_of_fold, "out_of_fold_recall": 1.0}
    told |= {"test": test, "test_recall": 1.0}
    fit = {"C": C, "ap": 0.5, "said": [], "metrics": {"F1": {"raw": told}}}
    return {"set": "a", "split": split, "method": method, "seconds": 1.0, "fits": [fit]}


def test_fits_are_chosen_out_of_fold_and_compared_by_split():
    from benchmarks.adversarial_tables import CONTENDERS, difference, outcomes

    records = []
    for split in range(4):
        records.append(_record("logistic", split, 0.5 + 0.1 * split, 0.6))
        # better on the test rows, worse out of fold
        records[-1]["fits"] += _record("logistic", split, 0.99, 0.1, C=2.0)["fits"]
        records.append(_record("observed F1", split, 0.52 + 0.1 * split + 0.001 * split, 0.7))
    by_name = {c.name: c for c in CONTENDERS}
    base = outcomes(records, by_name["logistic, tuned"], "F1", "a")
    assert [one["C"] for one in base.values()] == [1.0] * 4
    own = outcomes(records, by_name["observed"], "F1", "a")
    apart = difference(own, base)
    assert apart.mean == pytest.approx(0.0215)
    assert apart.verdict == "win"
    assert apart.low > 0
    assert difference(base, own).verdict == "loss"
    assert difference(base, base).verdict == "tie"
    either = outcomes(records, by_name["logistic or observed"], "F1", "a")
    assert {one["method"] for one in either.values()} == {"observed F1"}
    # a split that one of them lacks is not compared
    del records[-1]
    assert set(outcomes(records, by_name["logistic or observed"], "F1", "a")) == {0, 1, 2}


def test_sets_are_won_against_any_base():
    from benchmarks.adversarial_tables import texts_of

    records = []
    for split in range(4):
        for at, method in enumerate(["logistic", "observed F1", "plain observed F1", "ap-perf F1"]):
            records.append(_record(method, split, 0.9 - 0.1 * at + 0.01 * at * split, 0.6))
    titles = {text.split("\n")[0]: text for text in texts_of(records, ["a"])}
    against = titles["F1: sets won, tied and lost against ap-perf, tuned"].split("\n")
    assert "| observed, one ridge and fold | 1 | 1 | 0 | 0 | 1 | 0 | +0.0850 |" in against
    assert "| logistic, tuned | 1 | 1 | 0 | 0 | 1 | 0 | +0.2550 |" in against
    assert not any(row.startswith("| ap-perf, tuned") for row in against)
    lost = titles["F1: sets won, tied and lost"].split("\n")
    assert any(row.startswith("| ap-perf, tuned | 1 | 0 | 0 | 1 |") for row in lost)


def test_features_are_learnt_from_the_training_rows():
    from benchmarks.adversarial_sets import features

    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, np.nan], "name": ["a", "a", "b", "b"]})
    found = features(frame).fit(frame)
    new = pd.DataFrame({"x": [1e6, np.nan], "name": ["c", "a"]})
    out = found.transform(new)
    assert out[:, 0].tolist() == pytest.approx([10.0, 0.0])


@pytest.mark.skipif(not PEER, reason="ap-perf is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["f1", "precision"])
def test_what_the_published_code_is_held_to_is_no_less_than_the_optimum(name):
    from benchmarks import adversarial_speed as speed
    from benchmarks.rivals import ap_perf_game

    game = {"f1": "F1", "precision": "precision, recall >= .8"}[name]
    peer = ap_perf_game.metric(name)
    for seed in range(2):
        draw = speed.drawn(6, "4/n", seed)
        best = speed.optimum(game, "expected", draw)
        Q = ap_perf_game.solve(peer, draw.psi, draw.y, max_iter=1_000)
        held = ap_perf_game.held_to(Q, draw.psi, draw.y.astype(float), name)
        assert -1e-9 <= held - best < 1e-3
