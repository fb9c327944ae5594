"""Stream a Parquet set larger than is kept in memory through the downsampled GLM.

python benchmarks/glm_stream.py [--rows 100000000] [--rates 0.01 auto] [--folder build]

Ten float32 columns and a label, 0.1 % positive, in files of two million rows, drawn on all cores
and removed afterwards. Each rate is fitted in a process of its own, whose peak memory counts;
another process only reads the files, which is the least that any fit takes. Skipped where less than
8 GB of disk are free.
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
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from benchmarks import glm_report
from benchmarks.glm_problems import Population
from benchmarks.glm_report import Line
from benchmarks.measure import peak_memory

FREE, MOST = 8.0, 2.0
CHUNK = 2_000_000
STREAM = Population("stream", 100_000_000, 0.001, inert=7)


def write_part(folder: str, part: int, rows: int, intercept: float) -> None:
    """Draw some rows and write them to a file of their own."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from scipy.special import expit

    rng = np.random.default_rng([20, part])
    columns, eta = {}, np.full(rows, intercept, np.float32)
    for j, slope in enumerate(STREAM.coef):
        values = 2 * rng.random(rows, dtype=np.float32) - 1
        columns[f"x{j}"] = values
        if slope:
            eta += np.float32(slope) * values
    columns["y"] = (rng.random(rows, dtype=np.float32) < expit(eta)).astype(np.int8)
    path = Path(folder) / f"part-{part:05d}.parquet"
    # noise neither compresses nor repeats
    pq.write_table(
        pa.table(columns), path, compression="none", use_dictionary=False, row_group_size=250_000
    )


def write(folder: Path, rows: int) -> None:
    """Write all files, on all cores."""
    sizes = [min(CHUNK, rows - start) for start in range(0, rows, CHUNK)]
    intercept = STREAM.intercept
    with ProcessPoolExecutor() as pool:
        jobs = [
            pool.submit(write_part, str(folder), part, size, intercept)
            for part, size in enumerate(sizes)
        ]
        for job in jobs:
            job.result()


def child(folder: str, rate: str) -> dict[str, Any]:
    """Read the files, or fit them at a rate, and tell the peak memory."""
    from imbfit import DownsampledGLMClassifier

    before, start = peak_memory(), time.perf_counter()
    if rate == "read":
        import pyarrow.dataset as ds

        batches = ds.dataset(folder).to_batches(batch_size=100_000)
        rows = sum(len(batch) for batch in batches)
        return {"rows": rows, "seconds": time.perf_counter() - start, "peak": peak_memory()}
    sampling_rate = "auto" if rate == "auto" else float(rate)
    model = DownsampledGLMClassifier(sampling_rate=sampling_rate, random_state=0)
    model.fit_batches(folder, label="y")
    seconds = time.perf_counter() - start
    apart = (model.coef_.ravel() - STREAM.coef) / model.standard_errors_[1:]
    return {
        "seconds": seconds,
        "peak": peak_memory(),
        "before": before,
        "kept": model.n_kept_,
        "rate": model.sampling_rate_,
        "steps": model.n_iter_,
        "converged": model.converged_,
        "calibration": model.calibration_ratio_,
        "off": float(np.abs(apart).max()),
    }


def _in_child(folder: Path, rate: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", str(folder), rate]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(folder: Path, rows: int, rates: list[str]) -> tuple[list[Line], dict[str, Any]]:
    """Write, read and fit."""
    start = time.perf_counter()
    write(folder, rows)
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e9
    print(
        f"{rows:,} rows, {size:.2f} GB, written in {time.perf_counter() - start:.0f} s", flush=True
    )
    found = {rate: _in_child(folder, rate) for rate in ["read", *rates]}
    assert found["read"]["rows"] == rows
    name = f"stream of {rows:,} rows, {size:.1f} GB"
    lines = [Line(name, "only reading it", f"{found['read']['seconds']:.1f} s", None)]
    for rate in rates:
        one = found[rate]
        lines.append(
            Line(
                name,
                f"rate {rate}: peak memory below {MOST:g} GB",
                f"{one['peak']:.2f} GB ({one['before']:.2f} GB before), {one['seconds']:.1f} s, "
                f"rate {one['rate']:.4f}, {one['kept']:,} rows kept, slopes at most "
                f"{one['off']:.1f} SE off the true ones",
                one["peak"] < MOST,
            )
        )
    return lines, found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=STREAM.rows)
    parser.add_argument("--rates", nargs="+", default=["0.01", "auto"])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where files are put")
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(options.folder).free / 1e9
    if free < FREE:
        print(f"skipped: {free:.1f} GB free in {options.folder.resolve()}, {FREE:g} GB are needed")
        return 0
    print(glm_report.about(), flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="glm_stream_") as made:
        lines, found = measure(Path(made), options.rows, options.rates)
    table = glm_report.targets(lines, judged=True)
    print("\n" + table)
    if options.out:
        glm_report.write(options.out, lines, [table], found)
    # five standard errors in ten slopes is no accident
    wrong = [rate for rate in options.rates if not found[rate]["off"] < 5]
    print("The slopes are wrong at " + ", ".join(wrong) if wrong else "The slopes are right.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
