"""The benchmark scripts of the downsampled GLM run on small problems, and check their answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("IMBFIT_DATA", ROOT / ".." / "shared" / "data"))
WEB = FOLDER / "w7a_web_sparse.parquet"


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


def test_speed_is_measured_and_every_answer_is_right(tmp_path):
    parts = ["--only", "mild", "--only", "same_sample", "--only", "mse"]
    told = run("glm_speed.py", "--quick", *parts, "--out", tmp_path / "figures")
    assert "Every answer is right." in told
    figures = json.loads((tmp_path / "figures.json").read_text())
    off = figures["figures"]["mild"]["off"]
    assert off["imbfit, all rows"] < 1e-5
    # every rival finds the same maximum, as far as its tolerance goes
    assert sum(name.startswith("LogisticRegression") for name in off) == 7
    assert all(
        distance < 0.1 for name, distance in off.items() if name.startswith("LogisticRegression")
    )
    assert (
        "| mild | >= 4x faster than LogisticRegression newton-cholesky, all rows |"
        in (tmp_path / "figures.md").read_text()
    )


@pytest.mark.slow
def test_memory_of_sparse_rows_is_measured_in_processes_of_their_own(tmp_path):
    run("glm_speed.py", "--quick", "--only", "sparse", "--out", tmp_path / "figures")
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert {"sparse, imbfit, rate auto", "sparse, LogisticRegression lbfgs"} <= set(figures)
    assert all(one["peak"] >= one["before"] for one in figures.values())


def test_simulations_go_on_where_they_stopped(tmp_path):
    records = tmp_path / "simulations.jsonl"
    arguments = ["--rows", 4_000, "--records", records]
    arguments += ["--only", "logit_1%", "--only", "probit_0.5%"]
    run("glm_simulations.py", "--replicates", 2, *arguments)
    first = records.read_text().splitlines()
    assert len(first) == 8
    told = run("glm_simulations.py", "--replicates", 3, *arguments, "--out", tmp_path / "figures")
    every = records.read_text().splitlines()
    assert every[:8] == first
    assert len(every) == 12
    assert "| logit_1% (" in told
    fits = next(json.loads(line) for line in every if '"grid"' in line)["fits"]
    # with every row kept nothing is lost, and a smaller sample is another estimate
    assert fits["cmle@0.2"]["coef"] != fits["full"]["coef"]
    assert {f"{m}@0.05" for m in ("iw", "cmle", "pseudo_mle", "profile", "naive")} <= set(fits)


def test_a_figure_too_far_off_is_told(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.glm_problems import POPULATIONS
    from benchmarks.glm_simulations import Cell

    rng = np.random.default_rng(0)
    population = POPULATIONS["logit_1%"]
    full = population.coef + rng.normal(0, 0.1, (200, 3))
    sample = full + rng.normal(0, 0.1, (200, 3))
    records = [
        {"fits": {key: {"coef": coef.tolist(), "se": [0.1 * se] * 3} for key, coef, se in fits}}
        for fits in (
            [("full", f, 1), ("cmle", s, 2**0.5)] for f, s in zip(full, sample, strict=True)
        )
    ]
    cell = Cell(population, records, "cmle", "full")
    assert abs(cell.against("2.00", 200, "ratio")) < 3
    assert cell.against("1.40", 200, "ratio") > 3
    assert abs(cell.against(".95", 200, "coverage")) < 3
    assert cell.against(".80", 200, "coverage") > 3
    narrow = [
        {"fits": {k: f | {"se": [0.5 * se for se in f["se"]]} for k, f in r["fits"].items()}}
        for r in records
    ]
    assert Cell(population, narrow, "cmle", "full").coverage < 0.75


def test_a_stream_is_fitted_and_its_files_are_removed(tmp_path):
    told = run("glm_stream.py", "--rows", 60_000, "--rates", "0.2", "--folder", tmp_path)
    assert "60,000 rows" in told
    assert "The slopes are right." in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not WEB.exists(), reason=f"no {WEB.name} in {FOLDER}; set IMBFIT_DATA")
def test_real_sets_are_scored(tmp_path):
    run("glm_real.py", "--quick", "--splits", 2, "--out", tmp_path / "figures")
    records = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert len({r["set"] for r in records}) == 5
    for record in records:
        losses = {name: fit["loss"] for name, fit in record["fits"].items()}
        assert all(np.isfinite(loss) for loss in losses.values()), record["set"]
        uncorrected = losses["RandomUnderSampler + LogisticRegression"]
        own = min(loss for name, loss in losses.items() if name.startswith("imbfit"))
        assert own < uncorrected, record["set"]
