"""Speed and memory of the downsampled GLM on one thread, rivals beside it.

python benchmarks/glm_speed.py [--quick] [--only NAME ...] [--replicates 200] [--out figures]

Every rival fits the same rows in turn in one process; ours chooses its rate by a pilot and does its
inference within the time. `same_sample` gives both the rows that were kept; `mse` compares the
errors of the slopes over replicates with those of a fit of all rows, appends to a file and goes on
from there; `sparse` measures the peak memory of child processes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# before numpy is imported, which reads them once
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import glm_report
from benchmarks.glm_problems import SPARSE, SPEED, Data, OneHot, Population, bytes_of
from benchmarks.glm_report import Line
from benchmarks.measure import Timing, peak_memory, timed
from benchmarks.records import Records
from benchmarks.rivals import DoesNotFit
from benchmarks.rivals.glm import Fitted, Rival
from benchmarks.rivals.glm_glum import GLUM
from benchmarks.rivals.glm_ours import ours
from benchmarks.rivals.glm_scikit import EVERY, EXACT, LBFGS, scikit
from benchmarks.rivals.glm_statsmodels import glm

QUICK_ROWS, QUICK_SPARSE_ROWS = 20_000, 10_000
AUTO = ours("imbfit", sampling_rate="auto")
FULL = ours("imbfit, all rows", sampling_rate=1.0)
CHOLESKY, STATSMODELS = EVERY[0], glm()
# Where it takes ten seconds and more, two runs tell enough.
TWICE = {STATSMODELS.name, "LogisticRegression sag", "LogisticRegression saga"}
SPARSE_RATES: dict[str, Any] = {"auto": "auto", "0.05": 0.05, "1": 1.0}
SPARSE_RIVALS = {rival.name: rival for rival in EVERY[1:4]}


@dataclass
class Report:
    """What was measured."""

    lines: list[Line] = field(default_factory=list)
    rows: list[Sequence[Any]] = field(default_factory=list)
    sparse: list[Sequence[Any]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    """Run from the command line."""
    designs = [population.name for population in SPEED]
    parts = [*designs, "same_sample", "mse", "sparse"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, no judgement")
    parser.add_argument("--only", action="append", metavar="NAME", choices=parts)
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the median counts")
    parser.add_argument("--replicates", type=int, default=200, help="of the errors of the slopes")
    parser.add_argument("--records", type=Path, default=Path("build/glm_mse.jsonl"))
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child, quick=options.quick)))
        return 0
    if options.quick:
        options.repeats, options.replicates = 1, 2
    chosen = options.only or parts
    print(glm_report.about(), flush=True)
    report = Report()
    if "sparse" in chosen:
        # first of all: a child counts the peak of the process that starts it as its own
        measure_sparse(report, quick=options.quick)
    for population in SPEED:
        if population.name in chosen:
            smaller = population.smaller(QUICK_ROWS) if options.quick else population
            measure_speed(smaller, options.repeats, report)
    if "same_sample" in chosen:
        measure_same_sample(options, report)
    if "mse" in chosen:
        measure_mse(options, report)
    tables = [
        glm_report.targets(report.lines, judged=not options.quick),
        glm_report.table(
            ["rows", "rival", "seconds", "cpu", "rows fitted", "off by", "note"], report.rows
        ),
        glm_report.table(["rival", "peak", "over X", "seconds", "note"], report.sparse),
    ]
    print("\n" + "\n\n".join(tables))
    print("\n" + ("\n".join(report.wrong) if report.wrong else "Every answer is right."))
    if options.out:
        glm_report.write(options.out, report.lines, tables, report.figures)
    return 1 if report.wrong else 0


def measure_speed(population: Population, repeats: int, report: Report) -> None:
    """Fit all rows with every rival in turn."""
    data = population.draw()
    runs = {}
    for rival in [AUTO, FULL, *EVERY, LBFGS, GLUM, STATSMODELS]:
        try:
            runs[rival.name] = rival.prepare(data, 0)
        except DoesNotFit as reason:
            print(f"{population.name}: without {rival.name}: {reason}")
    exact = EXACT.prepare(data, 0)()
    runs[AUTO.name]()  # the first run imports and warms up
    timings, results = _in_turn(runs, repeats)
    found = results[AUTO.name]
    check(population.name, found, results[FULL.name], exact, report)
    off = {name: _off(result, exact, results[FULL.name]) for name, result in results.items()}
    for name, timing in timings.items():
        fitted = results[name]
        report.rows.append(
            (
                population.name,
                name,
                f"{timing.seconds:.3g}",
                f"{timing.cpu_seconds:.3g}",
                f"{fitted.kept:,}",
                f"{off[name]:.1g}",
                fitted.note,
            )
        )
        print(*report.rows[-1], sep="  ", flush=True)
    report.figures[population.name] = {
        "rate": found.rate,
        "seconds": {name: timing.wall for name, timing in timings.items()},
        "cpu_seconds": {name: timing.cpu for name, timing in timings.items()},
        "off": off,
    }
    judge_speed(population, timings, found, report)


def _in_turn(runs: dict[str, Any], repeats: int) -> tuple[dict[str, Timing], dict[str, Fitted]]:
    """Run all in turn, the slow ones at most twice."""
    timings, results = timed(runs, min(2, repeats))
    fast = {name: run for name, run in runs.items() if name not in TWICE}
    more, _ = timed(fast, max(0, repeats - 2))
    for name in fast:
        wall, cpu = more[name].wall, more[name].cpu
        timings[name] = Timing(timings[name].wall + wall, timings[name].cpu + cpu)
    return timings, results  # type: ignore[return-value]


def check(name: str, found: Fitted, full: Fitted, exact: Fitted, report: Report) -> None:
    """Compare the answers: a fit of all rows is the maximum, a sample's is near it."""
    assert full.standard_errors is not None
    assert found.standard_errors is not None
    apart = np.abs(full.coef - exact.coef) / full.standard_errors
    if apart.max() > 1e-5:
        report.wrong.append(f"{name}: a fit of all rows is {apart.max():.1g} SE off the maximum")
    # a sample's estimate is the full one plus independent noise
    noise = np.sqrt(np.maximum(found.standard_errors**2 - full.standard_errors**2, 0))
    apart = np.abs(found.coef - exact.coef) / (noise + 0.05 * full.standard_errors)
    if apart.max() > 5:
        report.wrong.append(f"{name}: a fit of the sample is {apart.max():.1f} SE off")


def judge_speed(
    population: Population, timings: dict[str, Timing], found: Fitted, report: Report
) -> None:
    """Hold the times against the targets."""
    own = timings[AUTO.name]

    def ratio(rival: str) -> tuple[float, str]:
        wall = timings[rival].seconds / own.seconds
        cpu = timings[rival].cpu_seconds / own.cpu_seconds
        return wall, f"{wall:.2g}x ({cpu:.2g}x cpu)"

    def line(target: str, measured: str, met: bool | None) -> None:  # noqa: FBT001
        report.lines.append(Line(population.name, target, measured, met))

    solvers = [rival.name for rival in EVERY]
    fastest = min(solvers, key=lambda name: timings[name].seconds)
    line("rate chosen, rows fitted", f"{found.rate:.4f}, {found.kept:,}", None)
    if found.efficiency is not None:
        line("worst efficiency, by its own account", f"{np.nanmin(found.efficiency):.3f}", None)
    if population.name == "mild":
        wall, text = ratio(CHOLESKY.name)
        line(f">= 4x faster than {CHOLESKY.name}, all rows", text, wall >= 4)
        wall, text = ratio(fastest)
        line(">= 1.5x faster than scikit-learn's fastest", f"{text}, {fastest}", wall >= 1.5)
        line(f"against {LBFGS.name}", ratio(LBFGS.name)[1], None)
        if STATSMODELS.name not in timings:
            return
        wall, text = ratio(STATSMODELS.name)
        line(">= 20x faster than statsmodels", text, wall >= 20)
        return
    for rival in (FULL.name, CHOLESKY.name):
        wall = own.seconds / timings[rival].seconds
        cpu = own.cpu_seconds / timings[rival].cpu_seconds
        line(f"<= 1.2x the time of {rival}", f"{wall:.2g}x ({cpu:.2g}x cpu)", wall <= 1.2)
    line("against scikit-learn's fastest", f"{ratio(fastest)[1]}, {fastest}", None)
    line(f"against {LBFGS.name}", ratio(LBFGS.name)[1], None)
    if STATSMODELS.name in timings:
        line("against statsmodels", ratio(STATSMODELS.name)[1], None)


def _off(result: Fitted, exact: Fitted, full: Fitted) -> float:
    """Return the largest distance from the maximum over all rows, in standard errors of a slope."""
    assert full.standard_errors is not None
    return float((np.abs(result.coef - exact.coef) / full.standard_errors).max())


def measure_same_sample(options: argparse.Namespace, report: Report) -> None:
    """Fit one and the same downsample."""
    for population in SPEED[:2]:
        drawn = population.smaller(QUICK_ROWS) if options.quick else population
        data = drawn.draw()
        rate = 0.05 if population is SPEED[0] else 0.2
        rng = np.random.default_rng(1)
        kept = data.rows((data.y == 1) | (rng.random(len(data.y)) < rate))
        realised = float((kept.y == 0).sum() / (data.y == 0).sum())
        sample = Data(kept.X, kept.y, rate=realised)
        plain = Data(kept.X, kept.y)
        # two digits more than its default, where it stops well before the maximum
        tight = scikit("newton-cholesky", tol=1e-8)
        runs = {
            "imbfit": ours(sampling_rate=realised).prepare(sample, 0),
            "newton-cholesky": CHOLESKY.prepare(plain, 0),
            "newton-cholesky, tol 1e-8": tight.prepare(plain, 0),
            "newton-cholesky and standard errors": _with_errors(plain),
        }
        runs["imbfit"]()
        timings, results = timed(runs, 3 * options.repeats)  # type: ignore[arg-type]
        name = f"{population.name}, {len(kept.y):,} rows"
        own, exact = results["imbfit"], EXACT.prepare(plain, 0)()
        apart = np.abs(own.coef - exact.coef).max()  # type: ignore[attr-defined]
        if apart > 1e-6:
            report.wrong.append(f"{name}: {apart:.1g} off the maximum")
        for rival in list(runs)[1:]:
            wall = timings["imbfit"].seconds / timings[rival].seconds
            cpu = timings["imbfit"].cpu_seconds / timings[rival].cpu_seconds
            first = rival == "newton-cholesky"
            report.lines.append(
                Line(
                    name,
                    f"{'<= 1.5x' if first else 'against'} {rival} on the same sample",
                    f"{timings['imbfit'].seconds:.3g} s, {wall:.2g}x ({cpu:.2g}x cpu)",
                    wall <= 1.5 if first else None,
                )
            )
        report.figures[f"same sample, {name}"] = {k: t.wall for k, t in timings.items()}


def _with_errors(data: Data) -> Any:
    """What one writes by hand to get the standard errors of a LogisticRegression."""
    fit = CHOLESKY.prepare(data, 0)

    def run() -> Fitted:
        fitted = fit()
        p = fitted.predict(data.X, None)
        Z = np.column_stack([np.ones(len(p)), data.X])
        np.sqrt(np.diag(np.linalg.inv(Z.T @ (Z * (p * (1 - p))[:, None]))))
        return fitted

    return run


def measure_mse(options: argparse.Namespace, report: Report) -> None:
    """Compare the squared errors of all slopes with those of a fit of all rows."""
    population = SPEED[0].smaller(QUICK_ROWS) if options.quick else SPEED[0]
    records = Records(None if options.quick else options.records)
    done = {r["replicate"] for r in records.every}
    for replicate in range(options.replicates):
        if replicate in done:
            continue
        data = population.draw(replicate + 1)
        assert data.coef is not None
        full, auto = (rival.prepare(data, replicate)() for rival in (EXACT, AUTO))
        records.add(
            {
                "replicate": replicate,
                "full": float(((full.coef - data.coef) ** 2).sum()),
                "auto": float(((auto.coef - data.coef) ** 2).sum()),
                "rate": auto.rate,
                "worst": None if auto.efficiency is None else float(np.nanmin(auto.efficiency)),
            }
        )
        if replicate % 20 == 19:
            print(f"mse: {replicate + 1} of {options.replicates}", flush=True)
    used = records.every[: options.replicates]
    full, auto = (np.array([r[which] for r in used]) for which in ("full", "auto"))
    ratio = auto.mean() / full.mean()
    error = (auto - ratio * full).std(ddof=1) / full.mean() / np.sqrt(len(used))
    rates = np.array([r["rate"] for r in used])
    report.lines.append(
        Line(
            "mild",
            f"MSE over {len(used)} replicates within 8 % of a fit of all rows",
            f"{100 * (ratio - 1):.1f} % ± {100 * error:.1f} %, rates {rates.min():.3f} to "
            f"{rates.max():.3f}",
            bool(ratio <= 1.08),
        )
    )
    report.figures["mse"] = {"ratio": ratio, "standard_error": error, "replicates": len(used)}


def measure_sparse(report: Report, *, quick: bool) -> None:
    """Compare the peak memory of processes that draw the rows, with and without a fit."""
    bare = _in_child("draw", "none", quick=quick)
    if not quick and bare["peak"] <= peak_memory():
        report.wrong.append("sparse: the peak is that of the process that started the fits")
    size = bare["bytes"]
    report.sparse.append(("no fit", f"{bare['peak']:.2f} GB", "-", "-", f"X {size / 1e9:.2f} GB"))
    for kind, names in (("imbfit", SPARSE_RATES), ("rival", SPARSE_RIVALS)):
        for name in names:
            one = _in_child(kind, name, quick=quick)
            extra = (one["peak"] - bare["peak"]) * 1e9
            times = (size + extra) / size
            shown = f"imbfit, rate {name}" if kind == "imbfit" else name
            report.sparse.append(
                (
                    shown,
                    f"{one['peak']:.2f} GB",
                    f"{extra / 1e9:.2f} GB",
                    f"{one['seconds']:.1f}",
                    f"{one['kept']:,} rows, {one['note']}",
                )
            )
            print(*report.sparse[-1], sep="  ", flush=True)
            report.figures[f"sparse, {shown}"] = one | {"times": times}
            target = "below 3x the memory of X" if kind == "imbfit" else "memory, times that of X"
            met = times < 3 if kind == "imbfit" else None
            report.lines.append(Line(f"one_hot, {shown}", target, f"{times:.2f}x", met))


def _in_child(kind: str, name: str, *, quick: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", kind, name, *(["--quick"] if quick else [])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return dict(json.loads(done.stdout.splitlines()[-1]))


def child(kind: str, name: str, *, quick: bool) -> dict[str, Any]:
    """Draw the sparse rows, fit them unless told otherwise, and tell the peak memory."""
    population: OneHot = SPARSE.smaller(QUICK_SPARSE_ROWS) if quick else SPARSE
    data = population.draw()
    found: dict[str, Any] = {"bytes": bytes_of(data.X), "before": peak_memory()}
    rival: Rival | None = SPARSE_RIVALS.get(name)
    if kind == "imbfit":
        rival = ours(sampling_rate=SPARSE_RATES[name], inference=False)
    if rival is not None:
        run = rival.prepare(data, 0)
        start = time.perf_counter()
        fitted = run()
        seconds = time.perf_counter() - start
        found |= {"seconds": seconds, "kept": fitted.kept, "peak": peak_memory()}
        ratio = fitted.predict(data.X, None).mean() / data.y.mean()
        found["note"] = f"{fitted.note}, mean prediction / prevalence {ratio:.2f}"
    return {"peak": peak_memory()} | found


if __name__ == "__main__":
    sys.exit(main())
