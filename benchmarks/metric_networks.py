"""Networks trained for F1 by the solved game and by log loss, on real data.

python benchmarks/metric_networks.py [--splits 5] [--only SET ...] [--quick] [--out figures]

The data are looked for in the folder that IMBFIT_DATA names (default ``../shared/data`` from the
project's root). Each split holds 30 % of the rows out, stratified, and a quarter of the others for
validation. The losses get the same network (two hidden layers of 100 ReLU), first weights, batches,
optimiser and effort: for each learning rate the epoch, and then the rate and the cut, are those
with the highest F1 on the validation rows. Results are appended to a file, a line per set, split
and loss; what is there is not run again.
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
import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

from benchmarks import glm_report
from benchmarks.records import Records
from imbfit import search_thresholds

try:
    import torch

    from imbfit.adversarial.torch import MetricLoss
except ImportError:  # asv imports every file of this folder, wherever it runs
    torch = None

ROOT = Path(__file__).resolve().parents[1]
QUICK_ROWS = 2_000
RATES = (1e-3, 3e-3, 1e-2)
BATCH = 512
EPOCHS = 200
# epochs without a better F1 on the validation rows after which training ends
PATIENCE = 30
WEIGHT_DECAY = 1e-4
# Scales are those of the training rows, and a few rows lie far out.
FARTHEST = 10.0


@dataclass(frozen=True)
class RealSet:
    """A real data set: the name of its file, and how to read its frame into features and labels."""

    name: str
    load: Callable[[pd.DataFrame], tuple[np.ndarray, np.ndarray]]


def _mammography(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    y = (frame["y"].astype(str).str.strip("'") == "1").to_numpy(int)
    return frame.drop(columns="y").to_numpy(float), y


def _fraud(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return frame.drop(columns="Class").to_numpy(float), frame["Class"].to_numpy(int)


SETS = [RealSet("mammography", _mammography), RealSet("ulb_fraud_casecontrol", _fraud)]


@dataclass(frozen=True)
class Loss:
    """A loss under its name; `make` returns a function of logits and labels."""

    name: str
    make: Callable[[], Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]


def _summed() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    metric_loss, log_loss = MetricLoss("f1"), torch.nn.BCEWithLogitsLoss()
    return lambda logits, y: metric_loss(logits, y) + log_loss(logits, y)


LOSSES = [
    Loss("log loss", lambda: torch.nn.BCEWithLogitsLoss()),  # noqa: PLW0108  torch may be missing
    Loss("MetricLoss, f1", lambda: MetricLoss("f1")),
    Loss("MetricLoss, f1, plus log loss", _summed),
]


@dataclass
class Trained:
    """A network at its best epoch."""

    network: torch.nn.Module
    f1: float
    epoch: int
    epochs: int
    seconds: float


def network_for(columns: int, seed: int) -> torch.nn.Module:
    """Two hidden layers of 100 ReLU, the weights drawn by a seed."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(columns, 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 100),
        torch.nn.ReLU(),
        torch.nn.Linear(100, 1),
    )


def logits_of(network: torch.nn.Module, X: torch.Tensor) -> np.ndarray:
    """Score rows."""
    with torch.no_grad():
        return network(X).squeeze(1).double().numpy()


def best_f1(y: np.ndarray, score: np.ndarray) -> float:
    """Return the F1 of the best cut between distinct scores."""
    order = np.argsort(-score, kind="stable")
    ends = np.append(score[order][1:] != score[order][:-1], [True])
    tp, pp = np.cumsum(y[order]), np.arange(1, len(y) + 1)
    return float((2 * tp / (pp + y.sum()))[ends].max())


def train(
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    rate: float,
    parts: dict[str, tuple[torch.Tensor, torch.Tensor]],
    *,
    seed: int,
    epochs: int,
) -> Trained:
    """Train a network, and keep it as it was at its best epoch on the validation rows."""
    X, y = parts["train"]
    network = network_for(X.shape[1], seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, weight_decay=WEIGHT_DECAY)
    generator = torch.Generator().manual_seed(seed)
    held, labels = parts["validation"][0], parts["validation"][1].numpy()
    best = Trained(network, -1.0, 0, 0, 0.0)
    spent = 0.0
    for epoch in range(1, epochs + 1):
        start = time.process_time()
        for rows in torch.randperm(len(y), generator=generator).split(BATCH):
            optimizer.zero_grad()
            loss_of(network(X[rows]).squeeze(1), y[rows]).backward()
            optimizer.step()
        spent += time.process_time() - start
        reached = best_f1(labels, logits_of(network, held))
        if reached > best.f1:
            best = Trained(copy.deepcopy(network), reached, epoch, epoch, spent)
        if epoch - best.epoch >= PATIENCE:
            break
    best.epochs, best.seconds = epoch, spent
    return best


def run_split(
    loss: Loss,
    X: np.ndarray,
    y: np.ndarray,
    rows: dict[str, np.ndarray],
    *,
    seed: int,
    epochs: int,
) -> dict[str, Any]:
    """Train with each rate, choose, cut, and score the held-out rows."""
    mean, spread = X[rows["train"]].mean(axis=0), X[rows["train"]].std(axis=0)
    scaled = np.clip((X - mean) / np.where(spread > 0, spread, 1.0), -FARTHEST, FARTHEST)
    parts = {
        part: (torch.tensor(scaled[at]).float(), torch.tensor(y[at]).float())
        for part, at in rows.items()
    }
    every = {rate: train(loss.make(), rate, parts, seed=seed, epochs=epochs) for rate in RATES}
    rate = max(every, key=lambda each: every[each].f1)
    best = every[rate]
    held, tested = (logits_of(best.network, parts[part][0]) for part in ("validation", "test"))
    cut = search_thresholds(y[rows["validation"]], held, objective="f1").threshold
    return {
        "f1": float(f1_score(y[rows["test"]], tested > cut)),
        "f1_best_cut": best_f1(y[rows["test"]], tested),
        "ap": float(average_precision_score(y[rows["test"]], tested)),
        "f1_validation": best.f1,
        "rate": rate,
        "epoch": best.epoch,
        "epochs": sum(each.epochs for each in every.values()),
        "seconds": sum(each.seconds for each in every.values()),
    }


def splits_of(y: np.ndarray, number: int) -> list[dict[str, np.ndarray]]:
    """Rows to train on, to validate on, and to test on."""
    found = []
    splits = StratifiedShuffleSplit(number, test_size=0.3, random_state=0)
    for seed, (kept, test) in enumerate(splits.split(np.zeros(len(y)), y)):
        fitted, validation = train_test_split(
            kept, test_size=0.25, stratify=y[kept], random_state=seed
        )
        found.append({"train": fitted, "validation": validation, "test": test})
    return found


def summary(name: str, records: Sequence[dict[str, Any]]) -> str:
    """Sum up over splits, as markdown."""

    def column(loss: str, key: str) -> np.ndarray:
        found = sorted((r for r in records if r["loss"] == loss), key=lambda r: r["split"])
        return np.array([r[key] for r in found], float)

    def spread(values: np.ndarray, *, sign: str = "") -> str:
        if len(values) < 2:
            return f"{values.mean():{sign}.3f}"
        return f"{values.mean():{sign}.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"

    first, rows = LOSSES[0].name, []
    for loss in LOSSES:
        f1 = column(loss.name, "f1")
        epochs = column(loss.name, "epochs")
        each = 1e3 * column(loss.name, "seconds") / epochs
        rows.append(
            (
                loss.name,
                spread(f1),
                "-" if loss.name == first else spread(f1 - column(first, "f1"), sign="+"),
                spread(column(loss.name, "f1_best_cut")),
                spread(column(loss.name, "ap")),
                f"{np.median(column(loss.name, 'rate')):g}",
                f"{np.median(column(loss.name, 'epoch')):.0f}",
                f"{epochs.mean():.0f}",
                f"{each.mean():.1f}",
            )
        )
    head = f"{name}: {len(f1)} splits, means ± standard errors"
    columns = ["loss", "F1", "more than log loss, paired", "F1 at the best test cut"]
    columns += ["average precision", "rate", "best epoch", "epochs, all rates", "cpu ms an epoch"]
    return f"{head}\n\n{glm_report.table(columns, rows)}"


def data_folder() -> Path:
    """Return where the data are looked for."""
    return Path(os.environ.get("IMBFIT_DATA", ROOT / ".." / "shared" / "data"))


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", action="append", choices=[real.name for real in SETS])
    parser.add_argument("--quick", action="store_true", help="few rows, and nothing is kept")
    parser.add_argument("--records", type=Path, default=Path("build/metric_networks.jsonl"))
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    options = parser.parse_args()
    if torch is None:
        raise SystemExit("needs PyTorch: pip install 'imbfit[torch]'")
    torch.set_num_threads(1)
    records = Records(None if options.quick else options.records)
    epochs = 3 if options.quick else EPOCHS
    texts = [f"torch {version('torch')}"]
    print(glm_report.about(), *texts, sep=", ", flush=True)
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
        X, y = real.load(frame)
        for split, rows in enumerate(splits_of(y, options.splits)):
            for loss in LOSSES:
                if not records.matching(set=real.name, split=split, loss=loss.name):
                    found = run_split(loss, X, y, rows, seed=split, epochs=epochs)
                    records.add({"set": real.name, "split": split, "loss": loss.name, **found})
        used = [r for r in records.matching(set=real.name) if r["split"] < options.splits]
        texts.append(summary(real.name, used))
        print("\n" + texts[-1], flush=True)
    if options.out:
        glm_report.write(options.out, [], texts, records.every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
