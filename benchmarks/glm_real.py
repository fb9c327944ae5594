"""Log loss and calibration of the downsampled GLM on real data, rivals beside it.

python benchmarks/glm_real.py [--splits 20] [--only SET ...] [--quick] [--out figures]

The data are looked for in the folder that IMBFIT_DATA names (default ``../shared/data`` from the
project's root). Each split fits on 70 % of the rows, stratified, and predicts for the rest, at the
natural rate: the held-out rows of a set that was downsampled upstream count by the inverse of their
rate. Results are appended to a file, a line per set and split; what is there is not run again.
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
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks import glm_report
from benchmarks.glm_problems import Data
from benchmarks.glm_report import Line
from benchmarks.records import Records
from benchmarks.rivals import DoesNotFit
from benchmarks.rivals.glm import Rival
from benchmarks.rivals.glm_boosted import TREES
from benchmarks.rivals.glm_ours import ours
from benchmarks.rivals.glm_scikit import BALANCED, EXACT, INVERSE
from benchmarks.rivals.glm_statsmodels import glm
from benchmarks.rivals.glm_undersampled import UNDERSAMPLED, undersampled

ROOT = Path(__file__).resolve().parents[1]
QUICK_ROWS = 6_000


@dataclass(frozen=True)
class Contender:
    """A rival, and whether it takes the exposure as an offset in the place of a feature."""

    rival: Rival
    exposure: bool = False


@dataclass(frozen=True)
class RealSet:
    """A real data set.

    Attributes
    ----------
    name : str
        Of its file.
    load : callable
        From the file's frame to rows.
    contenders : list of Contender
        What is fitted; the first one is the fit that the others are compared with.
    what : str
        For the report.
    """

    name: str
    load: Callable[[pd.DataFrame], Data]
    contenders: list[Contender]
    what: str


def _brfss(frame: pd.DataFrame) -> Data:
    return Data(frame.drop(columns="Stroke").to_numpy(float), frame["Stroke"].to_numpy())


def _credit(frame: pd.DataFrame) -> Data:
    y = frame["SeriousDlqin2yrs"].to_numpy()
    return Data(frame.drop(columns=["id", "SeriousDlqin2yrs"]).to_numpy(float), y)


def _norauto(frame: pd.DataFrame) -> Data:
    y = (frame["NbClaim"] > 0).to_numpy(int)
    exposure = frame["Expo"].to_numpy(float)
    dummies = pd.get_dummies(frame[["DistLimit", "GeoRegion"]], drop_first=True, dtype=float)
    features = pd.concat([frame[["Male", "Young"]], dummies], axis=1).to_numpy(float)
    # the exposure's column is the last one, and left out where it is an offset
    return Data(np.column_stack([features, np.log(exposure)]), y, exposure=exposure)


def _web(frame: pd.DataFrame) -> Data:
    y = (frame["y"].astype(str) == "1").to_numpy(int)
    return Data(csr_matrix(frame.drop(columns="y").to_numpy(float)), y, C=1.0)


def _fraud(frame: pd.DataFrame) -> Data:
    X = frame.drop(columns="Class").to_numpy(float)
    return Data(X, frame["Class"].to_numpy(), rate=5_000 / 284_315)


SETTINGS: list[dict[str, Any]] = [
    {"method": "cmle", "sampling_rate": "auto"},
    {"method": "cmle", "sampling_rate": 0.3},
    {"method": "cmle", "sampling_rate": "balanced"},
    {"method": "cmle", "sampling_rate": "balanced", "recalibrate_intercept": "full"},
    {"method": "iw", "sampling_rate": "auto"},
    {"method": "iw", "sampling_rate": 0.3},
    {"method": "iw", "sampling_rate": "balanced"},
]
USUAL = [
    Contender(rival)
    for rival in [EXACT, *[ours(**s) for s in SETTINGS], glm(), BALANCED, UNDERSAMPLED, *TREES]
]
EXPOSED = [
    Contender(glm("cloglog", exposure=True), exposure=True),
    *[
        Contender(
            ours(
                f"imbfit cloglog, log exposure as offset, {method} {rate}",
                exposure=True,
                link="cloglog",
                method=method,
                sampling_rate=rate,
            ),
            exposure=True,
        )
        for method, rate in (("cmle", "auto"), ("cmle", "balanced"), ("iw", "auto"))
    ],
]
UPSTREAM = [
    INVERSE,
    ours(method="cmle"),
    ours(method="iw"),
    glm(),
    replace(EXACT, name="LogisticRegression, no correction"),
    BALANCED,
    UNDERSAMPLED,
    undersampled(ridge=1.0),
    *TREES[1:],
]
SETS = [
    RealSet("brfss2015_half", _brfss, USUAL, "21 features"),
    RealSet("give_me_some_credit", _credit, USUAL, "10 features, medians where missing"),
    RealSet("norauto", _norauto, [*USUAL, *EXPOSED], "13 features, log exposure among them"),
    RealSet("w7a_web_sparse", _web, USUAL, "300 binary features as CSR, C=1"),
    RealSet(
        "ulb_fraud_casecontrol",
        _fraud,
        [Contender(rival) for rival in UPSTREAM],
        "30 features, negatives downsampled upstream at 5000/284315",
    ),
]


def data_folder() -> Path:
    """Return where the data are looked for."""
    return Path(os.environ.get("IMBFIT_DATA", ROOT / ".." / "shared" / "data"))


def run_split(real: RealSet, data: Data, seed: int, train: Any, test: Any) -> dict[str, Any]:
    """Fit everything on one part and score it on the other."""
    fitted_rows, held = data.rows(train), data.rows(test)
    if not issparse(data.X) and np.isnan(data.X).any():
        medians = np.nanmedian(fitted_rows.X, axis=0)
        fitted_rows = replace(fitted_rows, X=_filled(fitted_rows.X, medians))
        held = replace(held, X=_filled(held.X, medians))
    weight = np.where(held.y == 1, 1.0, 1 / data.rate)
    prevalence = float(np.average(held.y, weights=weight))
    found = {}
    for contender in real.contenders:
        pair = [
            replace(part, X=part.X[:, :-1]) if contender.exposure else part
            for part in (fitted_rows, held)
        ]
        try:
            run = contender.rival.prepare(pair[0], seed)
        except DoesNotFit:
            continue
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            start = time.perf_counter()
            fitted = run()
            seconds = time.perf_counter() - start
        p = np.clip(fitted.predict(pair[1].X, pair[1].exposure), 1e-15, 1 - 1e-15)
        loss = -np.average(np.where(held.y == 1, np.log(p), np.log1p(-p)), weights=weight)
        found[contender.rival.name] = {
            "loss": float(loss),
            "calibration": float(np.average(p, weights=weight)) / prevalence,
            "rate": fitted.rate,
            "kept": fitted.kept,
            "seconds": seconds,
            "said": sorted({f"{w.category.__name__}: {w.message}"[:300] for w in told}),
            "stopped": any(issubclass(w.category, ConvergenceWarning) for w in told),
        }
    return {
        "set": real.name,
        "split": seed,
        "prevalence": prevalence,
        "positives": int(held.y.sum()),
        "fits": found,
    }


def _filled(X: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(X), values, X)


def judge(real: RealSet, records: Sequence[dict[str, Any]]) -> list[Line]:
    """Hold the calibration of corrected trees against what it may be off by."""
    lines = []
    positives = float(np.mean([r["positives"] for r in records]))
    # the held-out rows' own prevalence is uncertain; splits overlap, so their mean is no better
    most = max(0.05, 2 / np.sqrt(positives))
    for name in records[0]["fits"]:
        if not name.startswith("DownsampledClassifier") or name.endswith("no correction"):
            continue
        off = float(np.mean([r["fits"][name]["calibration"] for r in records])) - 1
        target = f"mean prediction within {100 * most:.1f} % of the prevalence, {name}"
        lines.append(Line(real.name, target, f"{100 * off:+.1f} %", bool(abs(off) <= most)))
    return lines


def summary(real: RealSet, records: Sequence[dict[str, Any]]) -> str:
    """Sum up over splits, as markdown."""
    first = real.contenders[0].rival.name
    base = np.array([r["fits"][first]["loss"] for r in records])
    rows = []
    for name in records[0]["fits"]:
        fits = [r["fits"][name] for r in records]
        loss, ratio, rate, kept, seconds = (
            np.array([fit[key] for fit in fits], float)
            for key in ("loss", "calibration", "rate", "kept", "seconds")
        )
        excess = 1e3 * (loss - base)
        warned = sum(bool(fit["said"]) for fit in fits)
        rows.append(
            (
                name,
                f"{loss.mean():.5f}",
                "-" if name == first else f"{excess.mean():+.3f} ± {excess.std(ddof=1):.3f}",
                f"{ratio.mean():.3f} ± {ratio.std(ddof=1):.3f}",
                f"{np.median(rate):.3g}",
                f"{np.median(kept):,.0f}",
                f"{np.median(seconds):.2f}",
                f"{warned} of {len(fits)}" if warned else "-",
            )
        )
    positives = round(float(np.mean([r["positives"] for r in records])))
    head = f"{real.name}: {real.what}; {len(records)} splits, {positives} positives held out each"
    columns = ["model", "log loss", "more than the first, x 1000", "mean prediction / prevalence"]
    columns += ["rate", "rows fitted", "seconds", "warned"]
    return f"{head}\n\n{glm_report.table(columns, rows)}"


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", action="append", choices=[real.name for real in SETS])
    parser.add_argument("--quick", action="store_true", help="few rows, and nothing is kept")
    parser.add_argument("--records", type=Path, default=Path("build/glm_real.jsonl"))
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    options = parser.parse_args()
    records = Records(None if options.quick else options.records)
    print(glm_report.about(), flush=True)
    texts, lines = [], []
    for real in SETS:
        if options.only and real.name not in options.only:
            continue
        path = data_folder() / f"{real.name}.parquet"
        if not path.exists():
            print(f"{real.name}: not in {data_folder()}; set IMBFIT_DATA to the folder it is in")
            continue
        frame = pd.read_parquet(path)
        if options.quick:
            frame = frame.sample(min(len(frame), QUICK_ROWS), random_state=0)
        data = real.load(frame)
        splits = StratifiedShuffleSplit(options.splits, test_size=0.3, random_state=0)
        done = {r["split"] for r in records.matching(set=real.name)}
        for seed, (train, test) in enumerate(splits.split(np.zeros(len(data.y)), data.y)):
            if seed not in done:
                records.add(run_split(real, data, seed, train, test))
        found = records.matching(set=real.name)
        for name in found[0]["fits"]:
            said = sorted({text for r in found for text in r["fits"][name]["said"]})
            for text in said[:3]:
                print(f"{real.name}, {name}: {text}")
        used = [r for r in found if r["split"] < options.splits]
        texts.append(summary(real, used))
        lines += judge(real, used)
        print("\n" + texts[-1], flush=True)
    texts.append(glm_report.targets(lines, judged=not options.quick))
    print("\n" + texts[-1])
    if options.out:
        glm_report.write(options.out, lines, texts, records.every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
