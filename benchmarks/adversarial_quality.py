"""Quality of scores trained straight for a metric, rivals beside them, on real data.

python benchmarks/adversarial_quality.py [--splits 20] [--only SET ...] [--group GROUP ...]
    [--quick] [--records build/adversarial_quality.jsonl] [--report] [--out figures]

The data are looked for in the folder that IMBFIT_DATA names (default ``../shared/data`` from the
project's root). A split halves the rows, stratified. Every method gets the same columns, the same
five folds of the training half, and chooses its ridge and its cut by out-of-fold scores; the scores
of a method are trained once for each ridge and used for all metrics they are meant for. Results are
appended to a file, a line per set, split and method; what is there is not run again. The first
split of all sets comes first, so that a run can be stopped anywhere.

Groups: ``main`` (logistic regression, its balanced form, the game with the observed count, the same
anchored) on all sets, ``tried`` (the anchor for F2, bins of a cross-fitted score as more columns);
on those below 12,000 rows ``constrained`` (the constraint in the game),
``expected`` (the published game) and ``peer`` (ap-perf, trained in batches), with five splits and
fewer ridges. The last two take so long that they get one ridge, and their cut from one fold;
``plain`` is the game with the observed count with no more than that.
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
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from benchmarks import glm_report
from benchmarks.adversarial_methods import (
    GROUPS,
    METRICS,
    Method,
    Scores,
    Trained,
    train,
)
from benchmarks.adversarial_sets import SETS, RealSet, data_folder, features
from benchmarks.adversarial_tables import targets_of, texts_of
from benchmarks.records import Records
from imbfit import search_thresholds
from imbfit.confusion import Confusion
from imbfit.metrics import parse
from imbfit.reading import value

QUICK_ROWS = 3_000
FOLDS = 5


class Split:
    """Halves of a set, turned into numbers, and the folds of the training half."""

    def __init__(self, real: RealSet, X: Any, y: np.ndarray, seed: int) -> None:
        self.real, self.seed = real, seed
        halves = StratifiedShuffleSplit(1, test_size=0.5, random_state=seed)
        train_rows, test_rows = next(halves.split(np.zeros(len(y)), y))
        take = X.iloc.__getitem__ if hasattr(X, "iloc") else X.__getitem__
        pipeline = features(X)
        self.train_y, self.test_y = y[train_rows], y[test_rows]
        self.train_X = pipeline.fit_transform(take(train_rows), self.train_y)
        self.test_X = pipeline.transform(take(test_rows))
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        self.folds = list(folds.split(np.zeros(len(self.train_y)), self.train_y))

    def run(self, method: Method) -> dict[str, Any]:
        """Train a method for each ridge and judge it by each of its metrics."""
        start = time.process_time()
        rows = (self.train_X, self.train_y)
        folds = self.folds[: method.most_folds]
        held = self.train_y[np.concatenate([test for _, test in folds])]
        every = train(method, rows, self.test_X, folds)
        seconds = time.process_time() - start
        return {
            "set": self.real.name,
            "split": self.seed,
            "method": method.name,
            "seconds": seconds,
            "fits": [self.judge(method, one, held) for one in every],
        }

    def judge(self, method: Method, one: Trained, held: np.ndarray) -> dict[str, Any]:
        """Choose the cuts out of fold, and score them on the test rows."""
        found: dict[str, Any] = {"C": one.C, "said": one.said, "metrics": {}}
        found["ap"] = float(average_precision_score(self.test_y, one.test.raw))
        for name in method.metrics:
            metric, rules = METRICS[name]
            judged = {}
            for which in ("raw", "levelled", "spread"):
                score = getattr(one.out_of_fold, which)
                search = search_thresholds(held, score, objective=metric, constraints=list(rules))
                judged[which] = self.judged(metric, one, held, search.threshold, which)
            if method.own_cut:
                judged["own"] = self.judged(metric, one, held, 0.0, "own")
            found["metrics"][name] = judged
        return found

    def judged(
        self, metric: str, one: Trained, held: np.ndarray, cut: float, which: str
    ) -> dict[str, float]:
        """Return metric and recall of a cut, out of fold and on the test rows."""
        out = _counts(held, one.out_of_fold, cut, which)
        test = _counts(self.test_y, one.test, cut, which)
        told = {"cut": float(cut)}
        for part, counts in (("out_of_fold", out), ("test", test)):
            told[part] = float(value(parse(metric), counts, greater_is_better=True))
            told[f"{part}_recall"] = float(counts.tp / counts.ap)
        return told


def _counts(y: np.ndarray, scores: Scores, cut: float, which: str) -> Confusion:
    score = getattr(scores, which)
    flagged = score > cut if which == "own" else score >= cut
    return Confusion.from_flags(y == 1, flagged)


def planned(
    options: argparse.Namespace, chosen: list[RealSet]
) -> list[tuple[int, RealSet, list[Method]]]:
    """Return splits, sets and their methods, in the order of work."""
    plan = []
    for seed in range(options.splits):
        for real in chosen:
            methods = [
                method
                for group in options.group
                for method in GROUPS[group]
                if (method.most_rows is None or real.rows < method.most_rows)
                and (method.most_splits is None or seed < method.most_splits)
            ]
            if methods:
                plan.append((seed, real, methods))
    return plan


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", action="append", choices=[real.name for real in SETS])
    parser.add_argument("--group", action="append", choices=list(GROUPS))
    parser.add_argument("--quick", action="store_true", help="few rows, and nothing is kept")
    parser.add_argument("--records", type=Path, default=Path("build/adversarial_quality.jsonl"))
    parser.add_argument("--report", action="store_true", help="only from the records")
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    options = parser.parse_args()
    options.group = options.group or ["main"]
    records = Records(None if options.quick else options.records)
    print(glm_report.about(), flush=True)
    wanted = [real for real in SETS if not options.only or real.name in options.only]
    missing = [real.name for real in wanted if not real.path.exists()]
    if missing and not options.report:
        print(f"not in {data_folder()}: {', '.join(missing)}; set IMBFIT_DATA to the folder")
    present = [real for real in wanted if real.path.exists()]
    if not options.report:
        run(planned(options, present), records, quick=options.quick)
    used = [r for r in records.every if r["split"] < options.splits]
    texts = texts_of(used, [real.name for real in wanted])
    lines = targets_of(used, [real.name for real in wanted])
    texts.append(glm_report.targets(lines, judged=not options.quick))
    print("\n" + "\n\n".join(texts))
    if options.out:
        glm_report.write(options.out, lines, texts, used)
    return 0


def run(plan: list[tuple[int, RealSet, list[Method]]], records: Records, *, quick: bool) -> None:
    """Do what is not in the records yet, and tell how long the rest will take."""
    loaded: dict[str, tuple[Any, np.ndarray]] = {}
    done = {(r["set"], r["split"], r["method"]) for r in records.every}
    for seed, real, methods in plan:
        left = [m for m in methods if (real.name, seed, m.name) not in done]
        if not left:
            continue
        if real.name not in loaded:
            loaded[real.name] = real.load(QUICK_ROWS if quick else None)
        split = Split(real, *loaded[real.name], seed)
        for method in left:
            records.add(split.run(method))
        spent = sum(r["seconds"] for r in records.matching(set=real.name, split=seed))
        print(
            f"split {seed}, {real.name}: {spent:.0f} s; "
            f"about {_rest(plan, records) / 3600:.1f} h to go",
            flush=True,
        )


def _rest(plan: list[tuple[int, RealSet, list[Method]]], records: Records) -> float:
    """Seconds for what is planned and not done, where each set and method was timed once."""
    known: dict[tuple[str, str], list[float]] = {}
    for r in records.every:
        known.setdefault((r["set"], r["method"]), []).append(r["seconds"])
    done = {(r["set"], r["split"], r["method"]) for r in records.every}
    return sum(
        float(np.mean(known.get((real.name, method.name), [0.0])))
        for seed, real, methods in plan
        for method in methods
        if (real.name, seed, method.name) not in done
    )


if __name__ == "__main__":
    sys.exit(main())
