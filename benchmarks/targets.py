"""Measure every target of the threshold search, on one thread, rivals beside it.

python benchmarks/targets.py [--quick] [--hard] [--only NAME ...] [--out figures]
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
import dataclasses
import json
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks import machine
from benchmarks.measure import Timing, check, greater, peak_memory, timed
from benchmarks.problems import HARD, PARITY, PROBLEMS, TARGETS, Data, Problem
from benchmarks.rivals import DoesNotFit, Prepared, Result, floor, onehot, ours, parity, tuned

QUICK_ROWS = 20_000
# Seconds against milliseconds: next to these a ratio to the floor would measure their traces.
APART = {tuned.name: 3, parity.name: 3, onehot.name: 1}


@dataclass
class Line:
    """One target and what was measured."""

    problem: str
    target: str
    measured: str
    met: bool


@dataclass
class Report:
    """What was found out about one problem."""

    problem: str
    what: str
    rows: int
    positives: float
    value: float
    status: str
    gap: float
    seconds: list[float]
    cpu_seconds: list[float]
    binding: dict[str, float] = field(default_factory=dict)
    rivals: list[dict[str, Any]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small problems, no judgement")
    parser.add_argument("--hard", action="store_true", help="also problems made to be hard")
    parser.add_argument("--only", action="append", metavar="NAME", choices=sorted(PROBLEMS))
    parser.add_argument("--repeats", type=int, default=10, help="runs of which the median counts")
    parser.add_argument("--rival-limit", type=float, default=60, help="seconds for CP-SAT; 0: none")
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.rival_limit = 1, min(options.rival_limit, 2)
    chosen = [*TARGETS, *PARITY, *(HARD if options.hard else [])]
    if options.only:
        chosen = [PROBLEMS[name] for name in options.only]
    if options.child:
        print(json.dumps(dataclasses.asdict(measure(chosen[0], options))))
        return 0
    about = machine.describe()
    print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)
    reports = []
    for problem in chosen:
        report = measure_apart(problem, options) if problem.memory else measure(problem, options)
        reports.append(report)
        print("\n" + text(report), flush=True)
    wrong = [f"{r.problem}: {fault}" for r in reports for fault in r.wrong]
    print("\n" + table(reports, judged=not options.quick))
    print("\n" + ("\n".join(wrong) if wrong else "Every answer holds on the rows."))
    if options.out:
        write(options.out, about, reports, judged=not options.quick)
    return 1 if wrong else 0


def measure(problem: Problem, options: argparse.Namespace) -> Report:
    """Search, check the answer on the rows, and let the rivals try."""
    if options.quick:
        problem = problem.smaller(QUICK_ROWS)
    data = problem.simulation.draw()
    drawn = peak_memory()
    limit = max(60.0, problem.seconds or 0.0)
    runs = {ours.name: ours.prepare(problem, data, limit)}
    fast = dict(runs)
    apart: dict[str, Prepared] = {}
    for rival in (floor, tuned, parity, onehot):
        if rival is onehot and not options.rival_limit:
            continue
        try:
            run = rival.prepare(problem, data, options.rival_limit)
        except DoesNotFit:
            continue
        (apart if rival.name in APART else fast)[rival.name] = run
    started = time.perf_counter()
    runs[ours.name]()  # the first run imports and warms up
    slow_run = time.perf_counter() - started > 10
    memory = peak_memory()
    large = problem.simulation.rows > 1_000_000
    few = 1 if slow_run else min(3, options.repeats) if large else options.repeats
    timings, results = timed(fast, few)
    own = check(problem, data, results[ours.name])
    assert own is not None
    found = results[ours.name]
    assert found.bound is not None
    assert found.gap is not None
    report = Report(
        problem.name,
        problem.what,
        len(data.score),
        data.n_positive,
        own.value,
        found.status,
        found.gap,
        timings[ours.name].wall,
        timings[ours.name].cpu,
        wrong=[f"constraint broken: {fault}" for fault in own.broken],
    )
    report.binding = binding(problem, data, found.bound) if problem.binds else {}
    for name, run in apart.items():
        one, answer = timed({name: run}, min(APART[name], options.repeats))
        timings |= one
        results |= answer
    for name, result in results.items():
        if name != ours.name:
            report.rivals.append(
                against(problem, data, result, timings[name], name=name, report=report)
            )
    judge(problem, report, timings, memory, drawn)
    return report


def measure_apart(problem: Problem, options: argparse.Namespace) -> Report:
    """Measure in a process of its own, whose peak memory is then that of the problem."""
    command = [sys.executable, __file__, "--child", "--only", problem.name]
    command += ["--repeats", str(options.repeats), "--rival-limit", str(options.rival_limit)]
    command += ["--quick"] if options.quick else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    fields = json.loads(done.stdout.splitlines()[-1])
    fields["lines"] = [Line(**line) for line in fields["lines"]]
    return Report(**fields)


def binding(problem: Problem, data: Data, bound: float) -> dict[str, float]:
    """Return what each constraint on the whole costs: what exceeds `bound` without it."""
    gains = {}
    every = problem.constraints(data)
    sign = 1 if greater(problem) else -1
    for k, rule in enumerate(every):
        rest = dataclasses.replace(
            problem, constraints=lambda _, k=k: [*every[:k], *every[k + 1 :]]
        )
        free = check(rest, data, ours.prepare(rest, data, 60)())
        assert free is not None
        gains[rule.label] = sign * (free.value - bound)
    return gains


def against(
    problem: Problem, data: Data, result: Result, timing: Timing, *, name: str, report: Report
) -> dict[str, Any]:
    """Compare a rival with the search, and note where one of them is wrong."""
    seen = check(problem, data, result)
    sign = 1 if greater(problem) else -1
    room = 1e-9 * max(1.0, abs(report.value))
    mixture = result.flagged is not None
    if (
        seen
        and not (mixture or seen.broken)
        and report.status == "optimal"
        and sign * (seen.value - report.value) > room
    ):
        report.wrong.append(f"{name} found {seen.value:.12g}, better than {report.value:.12g}")
    if result.bound is not None and sign * (report.value - result.bound) > room:
        report.wrong.append(f"{name} bounds by {result.bound:.12g}, we have {report.value:.12g}")
    return {
        "rival": name,
        "value": None if seen is None else seen.value,
        "bound": result.bound,
        "status": result.status,
        "broken": [] if seen is None else seen.broken,
        "note": result.note,
        "seconds": timing.wall,
        "cpu_seconds": timing.cpu,
    }


def judge(
    problem: Problem, report: Report, timings: dict[str, Timing], memory: float, drawn: float
) -> None:
    """Hold the figures against the targets."""
    mine = timings[ours.name]

    def line(target: str, measured: str, *, met: bool) -> None:
        report.lines.append(Line(problem.name, target, measured, met))

    if tuned.name in timings:
        ratio, cpu = (
            timings[tuned.name].seconds / mine.seconds,
            (timings[tuned.name].cpu_seconds / mine.cpu_seconds),
        )
        line(f">= 40x faster than {tuned.name}", f"{ratio:.0f}x ({cpu:.0f}x cpu)", met=ratio >= 40)
        ratio, cpu = (
            mine.seconds / timings[floor.name].seconds,
            (mine.cpu_seconds / timings[floor.name].cpu_seconds),
        )
        line(f"<= 4x {floor.name}", f"{ratio:.1f}x ({cpu:.1f}x cpu)", met=ratio <= 4)
        best = next(r["value"] for r in report.rivals if r["rival"] == tuned.name)
        line(
            f"objective never below that of {tuned.name}",
            f"{report.value:.6f} against {best:.6f}",
            met=report.value >= best,
        )
    if problem.seconds is not None:
        relative = report.gap / max(1e-300, abs(report.value))
        if problem.gap:
            solved = relative <= problem.gap
            target = f"gap <= {problem.gap:g} in {problem.seconds:g} s"
        else:
            solved = report.status == "optimal" and report.gap == 0
            target = f"proven in {problem.seconds:g} s"
        if problem.objective.name in ("mcc", "gmean"):
            target = f"proven, or the gap, in {problem.seconds:g} s"
            solved = True
        measured = f"{mine.seconds:.3f} s, {report.status}, gap {relative:.2g}"
        line(target, measured, met=solved and mine.seconds <= problem.seconds)
    if problem.memory:
        line(
            f"peak memory below {problem.memory:g} GB",
            f"{memory:.2f} GB ({drawn:.2f} GB before the search)",
            met=memory < problem.memory,
        )
    if report.binding:
        scale = max(1e-300, abs(report.value))
        costs = "; ".join(f"{rule}: {cost / scale:.2g}" for rule, cost in report.binding.items())
        every = all(cost > 0 for cost in report.binding.values())
        line("each constraint on the whole binds", f"relative cost {costs}", met=every)


def text(report: Report) -> str:
    """Show one problem."""
    head = (
        f"{report.problem}: {report.what} ({report.rows:,} rows, {report.positives:,.0f} positive)"
    )
    lines = [head, f"  imbfit: {_shown(report.value)}, {report.status}, gap {report.gap:.3g}, "]
    lines[-1] += _seconds(report.seconds)
    for rival in report.rivals:
        bound = "" if rival["bound"] is None else f", bound {_shown(rival['bound'])}"
        reached = "-" if rival["value"] is None else _shown(rival["value"])
        broken = f", BREAKS {rival['broken']}" if rival["broken"] else ""
        note = f" ({rival['note']})" if rival["note"] else ""
        lines.append(
            f"  {rival['rival']}: {reached}, {rival['status']}{bound}, "
            f"{_seconds(rival['seconds'])}{broken}{note}"
        )
    lines += [
        f"  [{'met' if line.met else 'NOT MET'}] {line.target}: {line.measured}"
        for line in report.lines
    ]
    return "\n".join(lines)


def table(reports: list[Report], *, judged: bool) -> str:
    """One line per target, as markdown."""
    head = "| problem | target | measured | met |\n| --- | --- | --- | --- |"
    rows = [
        f"| {line.problem} | {line.target} | {line.measured} | "
        f"{('yes' if line.met else '**no**') if judged else 'not judged'} |"
        for report in reports
        for line in report.lines
    ]
    return "\n".join([head, *rows])


def rival_table(reports: list[Report]) -> str:
    """One line per rival, as markdown."""
    head = (
        "| problem | imbfit | seconds | rival | reaches | its bound | seconds | note |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    rows = []
    for report in reports:
        for rival in report.rivals:
            reached = "-" if rival["value"] is None else _shown(rival["value"])
            bound = "-" if rival["bound"] is None else _shown(rival["bound"])
            note = ", ".join(filter(None, [rival["status"], rival["note"], *rival["broken"]]))
            rows.append(
                f"| {report.problem} | {_shown(report.value)} | {_median(report.seconds)} | "
                f"{rival['rival']} | {reached} | {bound} | {_median(rival['seconds'])} | {note} |"
            )
    return "\n".join([head, *rows])


def write(out: Path, about: dict[str, str], reports: list[Report], *, judged: bool) -> None:
    """Write the figures as JSON and as markdown."""
    out.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": about, "problems": [dataclasses.asdict(report) for report in reports]}
    out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    parts = [
        ", ".join(f"{key} {value}" for key, value in about.items()),
        table(reports, judged=judged),
        rival_table(reports),
    ]
    out.with_suffix(".md").write_text("\n\n".join(parts) + "\n")


def _shown(value: float) -> str:
    return f"{value:.6f}" if abs(value) <= 1 else f"{value:,.2f}".removesuffix(".00")


def _seconds(seconds: list[float]) -> str:
    return f"{_median(seconds)} s" + (f" (of {len(seconds)})" if len(seconds) > 1 else "")


def _median(seconds: list[float]) -> str:
    return f"{Timing(seconds, seconds).seconds:.3g}"


if __name__ == "__main__":
    sys.exit(main())
