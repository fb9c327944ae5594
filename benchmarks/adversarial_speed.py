"""Speed of the adversarial game and of training by it, on one thread, the published code beside it.

python benchmarks/adversarial_speed.py [--quick] [--only batch --only train ...] [--out figures]

``batch`` measures loss and gradient of a batch, kernel against kernel: both get scores and labels
as numpy arrays and return the value and q, without torch. What depends on the number of rows alone
is prepared before the clock starts, for ours as for ap-perf, whose kernel keeps it too; ours is
measured with its preparation as well. Draws and contenders take turns, and the median of the
processor's time of a call counts. ``train`` fits all rows at once, LogisticRegression beside it on
the same rows, and ``expected`` the published game on many rows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# before numpy is imported, which reads them once
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import json
import resource
import signal
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks import glm_report
from benchmarks.glm_problems import SPEED
from benchmarks.glm_report import Line
from benchmarks.rivals import DoesNotFit, ap_perf_game
from imbfit import AdversarialMetricClassifier
from imbfit.adversarial.game import Game
from imbfit.adversarial.marginal_lp import solve_lp
from imbfit.adversarial.payoff import payoff_of, requirement_of
from imbfit.adversarial.solving import MOST_EXACT_ROWS, Solver, solver_for
from imbfit.metrics import parse

BATCHES = (10, 25, 50, 100, 200, 1000)
SCALES = ("1/n", "4/n", "1")
GAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "F1": ("f1", ()),
    "kappa": ("kappa", ()),
    "precision, recall >= .8": ("precision", ("recall >= 0.8",)),
}
SHARE = 0.2  # of positives in a batch
TOL = 2e-8  # of ours, so that the optimum is hit to 1e-7
# The plain program takes minutes above.
LARGEST_PROGRAM = 50
# Above so many rows the published code gets one call, in a process with a time limit.
LARGEST_PEER, PEER_SECONDS = 200, 900
EXACT = 1e-7
#: Times faster than the published code: by count, whether constrained, scale and rows.
WANTED: dict[tuple[str, bool], dict[int, float]] = {
    ("observed", False): {25: 100.0, 200: 1000.0},
    ("observed", True): {25: 20.0, 200: 100.0},
    ("expected", True): {25: 20.0, 200: 100.0},
    ("expected", False): {25: 5.0, 200: 20.0},
}
QUICK_ROWS = 20_000
EXPECTED = "F1, expected count"


@dataclass
class Report:
    """What was measured."""

    lines: list[Line] = field(default_factory=list)
    batches: list[Sequence[Any]] = field(default_factory=list)
    gaps: list[Sequence[Any]] = field(default_factory=list)
    fits: list[Sequence[Any]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------
# A batch


@dataclass(frozen=True)
class Draw:
    """Scores and labels of a batch."""

    psi: np.ndarray
    y: np.ndarray


def drawn(rows: int, scale: str, seed: int) -> Draw:
    """Draw labels, and scores that know a little of them."""
    rng = np.random.default_rng(seed)
    positives = max(1, round(SHARE * rows))
    y = np.zeros(rows, dtype=bool)
    y[rng.choice(rows, positives, replace=False)] = True
    size = {"1/n": 1.0 / rows, "4/n": 4.0 / rows, "1": 1.0}[scale]
    return Draw(size * (rng.standard_normal(rows) + y), y)


def game_of(name: str, count: str, y: np.ndarray) -> Game:
    """Return a game, but for its scores."""
    metric, rules = GAMES[name]
    payoff = payoff_of(parse(metric), greater_is_better=True)
    requirements = tuple(requirement_of(parse(rule)) for rule in rules)
    return Game(payoff, requirements, count, y)


def prepared(name: str, count: str, draw: Draw) -> Solver:
    """Return ours, ready for any scores of this scale."""
    # a solver's tolerance is relative to the value, which is about this at most
    value = float(np.maximum(draw.psi, 0.0).sum())
    return solver_for(game_of(name, count, draw.y), tol=TOL / max(1.0, value))


def seconds_of(call: Callable[[], Any], least: float = 0.005) -> tuple[float, Any]:
    """Return the processor's time of a call, repeated where it is too short for the clock."""
    start = time.process_time()
    found = call()
    spent = time.process_time() - start
    times = 1
    while spent < least:
        more = max(1, min(1000, int(least / max(spent / times, 1e-6))))
        start = time.process_time()
        for _ in range(more):
            call()
        spent, times = spent + time.process_time() - start, times + more
    return spent / times, found


def measure_batches(options: argparse.Namespace, report: Report) -> None:
    """Time every contender on every kind of batch."""
    for rows in options.rows:
        for game in GAMES:
            for scale in SCALES:
                measure_batch(rows, game, scale, options, report)


def measure_batch(
    rows: int, game: str, scale: str, options: argparse.Namespace, report: Report
) -> None:
    """Time one kind of batch, and compare the answers with the optimum."""
    metric, _ = GAMES[game]
    draws = [
        drawn(rows, scale, seed) for seed in range(1 if rows > LARGEST_PEER else options.draws)
    ]
    times: dict[str, list[float]] = {}
    gaps: dict[str, list[float]] = {}
    peer = None
    if rows <= LARGEST_PEER:
        try:
            peer = ap_perf_game.metric(metric)
            ap_perf_game.solve(peer, draws[0].psi, draws[0].y)
        except DoesNotFit:
            peer = None
    for at, draw in enumerate(draws):
        runs = contenders(game, draw, peer, options.count)
        names = list(runs)
        results = {}
        for name in names[at % len(names) :] + names[: at % len(names)]:
            spent, results[name] = seconds_of(runs[name])
            times.setdefault(name, []).append(spent)
        plain = rows <= LARGEST_PROGRAM
        for count in options.count:
            found = results[count]
            best = optimum(game, count, draw) if plain else found.lower
            gaps.setdefault(count, []).append(found.upper - best)
            if found.upper - best > EXACT or found.lower - best > EXACT:
                short = f"{found.upper - best:.1g} above, {found.lower - best:.1g} below"
                report.wrong.append(f"{game}, {rows} rows, {scale}, {count}: {short}")
        if peer is not None and (plain or "expected" in results):
            # the game that it plays
            best = optimum(game, "expected", draw) if plain else results["expected"].lower
            held = ap_perf_game.held_to(results["peer"], draw.psi, draw.y.astype(float), metric)
            gaps.setdefault("peer", []).append(held - best)
    medians = {name: statistics.median(values) for name, values in times.items()}
    if rows > LARGEST_PEER:
        medians["peer"] = in_child(rows, game, scale, options)
    tell_batch((rows, game, scale), medians, gaps, report)


def contenders(
    game: str, draw: Draw, peer: Any, counts: Sequence[str]
) -> dict[str, Callable[[], Any]]:
    """Return what to time on a draw."""
    runs: dict[str, Callable[[], Any]] = {}
    for count in counts:
        play = prepared(game, count, draw)
        runs[count] = lambda play=play: play(draw.psi)
        runs[f"{count}, prepared each time"] = lambda count=count: prepared(game, count, draw)(
            draw.psi
        )
    if peer is not None:
        runs["peer"] = lambda: ap_perf_game.solve(peer, draw.psi, draw.y)
    return runs


def optimum(game: str, count: str, draw: Draw) -> float:
    """Solve the plain linear program over all sizes."""
    return float(solve_lp(draw.psi, game_of(game, count, draw.y)).value)


def in_child(rows: int, game: str, scale: str, options: argparse.Namespace) -> float:
    """Give the published code one call in a process that may be stopped."""
    if scale != SCALES[1] or options.quick:
        return float("nan")
    command = [sys.executable, __file__, "--child", str(rows), game, scale]
    command += ["--peer-seconds", str(options.peer_seconds)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode == 0:
        return float(json.loads(done.stdout.splitlines()[-1]))
    return float("inf" if done.returncode == -signal.SIGXCPU else "nan")


def child(rows: int, game: str, scale: str) -> float:
    """Return the seconds of the published code's second call."""
    draw = drawn(rows, scale, 0)
    peer = ap_perf_game.metric(GAMES[game][0])
    ap_perf_game.solve(peer, draw.psi, draw.y, max_iter=1)
    start = time.process_time()
    ap_perf_game.solve(peer, draw.psi, draw.y)
    return time.process_time() - start


def tell_batch(
    kind: tuple[int, str, str],
    medians: dict[str, float],
    gaps: dict[str, list[float]],
    report: Report,
) -> None:
    """Write down times, ratios and gaps, and hold them against the targets."""
    rows, game, scale = kind
    peer = medians.get("peer", np.nan)

    def shown(name: str) -> str:
        return f"{1e3 * medians[name]:.3g}" if name in medians else "-"

    def ratio(name: str) -> str:
        return f"{peer / medians[name]:.3g}x" if name in medians and np.isfinite(peer) else "-"

    every = ["observed", "observed, prepared each time", "expected", "expected, prepared each time"]
    told = f"{1e3 * peer:.3g}" if np.isfinite(peer) else "not run" if np.isnan(peer) else "not done"
    row = [rows, game, scale, told]
    row += [f"{shown(name)} ({ratio(name)})" for name in every]
    report.batches.append(row)
    print(*row, sep="  ", flush=True)
    largest = {
        name: f"{max(values):.2g}" if np.isfinite(values).all() else "-"
        for name, values in gaps.items()
    }
    middle = f"{statistics.median(gaps['peer']):.2g}" if "peer" in gaps else "-"
    against = "linear program" if rows <= LARGEST_PROGRAM else "own bound"
    found = [largest.get("observed", "-"), largest.get("expected", "-"), middle]
    report.gaps.append([rows, game, scale, against, *found, largest.get("peer", "-")])
    report.figures[f"batch {rows}, {game}, {scale}"] = {
        "seconds": {k: v for k, v in medians.items() if np.isfinite(v)},
        "gaps": {k: [float(x) for x in v] for k, v in gaps.items()},
    }
    constrained = bool(GAMES[game][1])
    for count in ("observed", "expected"):
        wanted = WANTED[count, constrained].get(rows)
        if wanted is None or count not in medians or not np.isfinite(peer):
            continue
        if count == "expected" and not constrained and scale == "1/n":
            if rows > 25:
                continue
            wanted = 1.0
        times = peer / medians[count]
        target = f"{count} count >= {wanted:g}x faster than ap-perf, scores of {scale}"
        report.lines.append(
            Line(f"{game}, {rows} rows", target, f"{times:.3g}x", bool(times >= wanted))
        )


# ------------------------------------------------------------------------------------------------
# All rows


def measure_training(options: argparse.Namespace, report: Report) -> None:
    """Fit by F1 on all rows, LogisticRegression beside it."""
    sizes = (2_000, QUICK_ROWS) if options.quick else (10_000, 100_000, 1_000_000)
    spent = {}
    for rows in sizes:
        data = replace(SPEED[0], rows=rows).draw()
        runs: dict[str, Callable[[], Any]] = {
            "LogisticRegression lbfgs": lambda d=data: LogisticRegression(max_iter=1000).fit(
                d.X, d.y
            ),
            "F1, tol 1e-3": lambda d=data: _fit(d, tol=1e-3),
        }
        for name, run in runs.items():
            for _ in range(1 if rows > QUICK_ROWS else 3):
                start, wall = time.process_time(), time.perf_counter()
                model = run()
                cpu, clock = time.process_time() - start, time.perf_counter() - wall
                spent[rows, name] = min(cpu, spent.get((rows, name), np.inf))
            tell_fit(data, name, (cpu, clock), model, report)
        own, rival = (spent[rows, name] for name in ("F1, tol 1e-3", "LogisticRegression lbfgs"))
        judged = rows == sizes[-1]
        report.lines.append(
            Line(
                f"{rows:,} x {data.X.shape[1]}",
                "<= 15x LogisticRegression lbfgs to a relative gap of 1e-3, cut included",
                f"{own / rival:.3g}x ({own:.3g} s, {rival:.3g} s)",
                bool(own <= 15 * rival) if judged else None,
            )
        )
    data = replace(SPEED[0], rows=sizes[-1]).draw()
    start, wall = time.process_time(), time.perf_counter()
    model = _fit(data, tol=1e-6)
    cpu, clock = time.process_time() - start, time.perf_counter() - wall
    tell_fit(data, "F1, tol 1e-6", (cpu, clock), model, report)
    report.lines.append(
        Line(
            f"{sizes[-1]:,} x {data.X.shape[1]}",
            "time to a relative gap of 1e-6",
            f"{cpu:.3g} s, gap {model.duality_gap_:.1g}",
            None,
        )
    )
    steps = [spent[rows, "F1, tol 1e-3"] / (rows * np.log(rows)) for rows in sizes]
    report.lines.append(
        Line(
            "F1, tol 1e-3",
            f"time over n log n at {', '.join(map(str, sizes))} rows, first as 1; at most 2",
            ", ".join(f"{step / steps[0]:.2g}" for step in steps),
            bool(max(steps[1:]) <= 2.0 * steps[0]),
        )
    )


def _fit(data: Any, **settings: Any) -> AdversarialMetricClassifier:
    with warnings.catch_warnings():
        # told by the gap
        warnings.simplefilter("ignore")
        model = AdversarialMetricClassifier("f1", threshold="train", max_iter=2000, **settings)
        return model.fit(data.X, data.y)


def tell_fit(data: Any, name: str, spent: tuple[float, float], model: Any, report: Report) -> None:
    """Write down a fit."""
    rows, (cpu, clock) = len(data.y), spent
    gap = getattr(model, "duality_gap_", None)
    row = [f"{rows:,} x {data.X.shape[1]}", f"{data.y.mean():.4f}", name, f"{cpu:.3g}"]
    row += [f"{clock:.3g}", np.ravel(model.n_iter_)[0]]
    row += ["-", "-"] if gap is None else [model.history_[-1].evaluations, f"{gap:.1g}"]
    report.fits.append(row)
    report.figures[f"fit {rows}, {name}"] = {"cpu": cpu, "seconds": clock, "gap": gap}
    print(*row, sep="  ", flush=True)
    # on blocks of rows no number of steps closes the gap of the games, which the table has
    in_blocks = name.startswith(EXPECTED) and rows > MOST_EXACT_ROWS
    if gap is not None and not model.converged_ and not in_blocks:
        report.wrong.append(f"{name}, {rows:,} rows: stopped at a gap of {gap:.1g}")


def measure_expected(options: argparse.Namespace, report: Report) -> None:
    """Fit the published game on many rows."""
    rows = 50 if options.quick else 100_000
    data = replace(SPEED[0], rows=rows, prevalence=0.2 if options.quick else 0.005).draw()
    start, wall = time.process_time(), time.perf_counter()
    # a smaller gap takes much longer where the signal is weak
    model = _fit(data, tol=0.1, count="expected")
    cpu, clock = time.process_time() - start, time.perf_counter() - wall
    tell_fit(data, f"{EXPECTED}, tol 0.1", (cpu, clock), model, report)
    report.lines.append(
        Line(
            f"{rows:,} x {data.X.shape[1]}",
            "expected count within 3 minutes, with its bound",
            f"{cpu:.3g} s, gap {model.duality_gap_:.1g}",
            bool(cpu <= 180 and np.isfinite(model.duality_gap_)),
        )
    )


def main() -> int:
    """Run from the command line."""
    parts = {"batch": measure_batches, "train": measure_training, "expected": measure_expected}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, no judgement")
    parser.add_argument("--only", action="append", choices=list(parts))
    parser.add_argument("--rows", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--count", nargs="+", default=["observed", "expected"])
    parser.add_argument("--draws", type=int, default=7, help="batches of a kind")
    parser.add_argument("--peer-seconds", type=float, default=PEER_SECONDS)
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        # of the processor's time, since others may be at work too
        limit = int(options.peer_seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        print(json.dumps(child(int(options.child[0]), *options.child[1:])))
        return 0
    if options.quick:
        options.rows, options.draws = [10], 2
    print(glm_report.about(), flush=True)
    report = Report()
    for name, part in parts.items():
        if not options.only or name in options.only:
            part(options, report)
    each = ["observed", "with preparation", "expected", "with preparation"]
    heads = [f"{name}, ms (times faster)" for name in each]
    tables = [
        glm_report.targets(report.lines, judged=not options.quick),
        glm_report.table(["rows", "game", "scores", "ap-perf, ms", *heads], report.batches),
        "Largest distance from the optimum; of ap-perf the true objective at its q, median and "
        "largest\n\n"
        + glm_report.table(
            ["rows", "game", "scores", "against", "observed", "expected", "ap-perf", "largest"],
            report.gaps,
        ),
        glm_report.table(
            ["rows", "prevalence", "fit", "cpu", "seconds", "steps", "games", "gap"], report.fits
        ),
    ]
    print("\n" + "\n\n".join(tables))
    print("\n" + ("\n".join(report.wrong) if report.wrong else "Every answer is right."))
    if options.out:
        glm_report.write(options.out, report.lines, tables, report.figures)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
