"""The benchmark scripts run, and their checks of the answers pass, on small problems."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("IMBFIT_DATA", ROOT / ".." / "shared" / "data"))
FRAUD = FOLDER / "ulb_fraud_truncated_113922.parquet"


def run(script, *arguments):
    return subprocess.run(  # noqa: S603  our own scripts
        [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_targets_are_measured_and_every_answer_holds_on_the_rows(tmp_path):
    done = run("targets.py", "--quick", "--out", tmp_path / "figures")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every answer holds on the rows." in done.stdout
    reports = {
        r["problem"]: r for r in json.loads((tmp_path / "figures.json").read_text())["problems"]
    }
    assert {"one_f1", "linear_500", "f1_500", "money_50", "mcc_50", "linear_1000"} <= set(reports)
    for name, report in reports.items():
        assert report["status"] == "optimal", name
        assert not report["wrong"], name
    # the plain formulation proves the same optimum where it gets that far
    proven = [
        (name, report["value"], rival)
        for name, report in reports.items()
        for rival in report["rivals"]
        if rival["rival"] == "one-hot CP-SAT" and rival["status"] == "optimal"
    ]
    assert len(proven) >= 4
    for name, value, rival in proven:
        assert rival["value"] == pytest.approx(value, rel=1e-12), name
    assert "| one_f1 |" in (tmp_path / "figures.md").read_text()


def test_a_wrong_answer_is_told(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.measure import check
    from benchmarks.problems import PROBLEMS
    from benchmarks.rivals import Result

    problem = PROBLEMS["linear_50"].smaller(20_000)
    data = problem.simulation.draw()
    everybody = check(problem, data, Result(dict.fromkeys(range(10), float("-inf"))))
    assert everybody.counts.pp == 20_000
    assert any("pp <=" in fault for fault in everybody.broken)
    assert any("precision" in fault for fault in everybody.broken)
    nobody = check(problem, data, Result(dict.fromkeys(range(10), float("inf"))))
    assert (nobody.value, nobody.broken) == (0.0, [])


@pytest.mark.slow
@pytest.mark.skipif(not FRAUD.exists(), reason=f"no {FRAUD.name} in {FOLDER}; set IMBFIT_DATA")
def test_the_experiments_of_the_paper_run_and_their_choices_are_optima(tmp_path):
    out = tmp_path / "results.jsonl"
    done = run("paper_experiments.py", "--quick", "--seeds", 1, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["experiment"] for r in results if r["feasible"]][:3] == [1, 2, 3]
    assert {r["experiment"] for r in results} == {1, 2, 3, 4, 5, 6}
    assert all(r["is_optimum"] for r in results)
    refused = [r for r in results if not r["feasible"]]
    assert refused
    assert refused[0]["explanation"].startswith("no choice of thresholds meets")
    # what is done is not done again
    again = run("paper_experiments.py", "--quick", "--seeds", 1, "--out", out)
    assert again.returncode == 0
    assert len(out.read_text().splitlines()) == len(results)
