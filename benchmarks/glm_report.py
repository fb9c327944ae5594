"""Tables of what was measured, and on what."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import machine

ALSO = ("statsmodels", "glum", "pyarrow")
LEFT_OUT = ("ortools", "fairlearn", "xgboost-cpu")


@dataclass(frozen=True)
class Line:
    """One target and what was measured; `met` is None where nothing is asked."""

    problem: str
    target: str
    measured: str
    met: bool | None


def about() -> str:
    """What machine and what versions the figures come from, in one line."""
    found = {k: v for k, v in machine.describe().items() if k not in LEFT_OUT}
    for package in ALSO:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return ", ".join(f"{key} {value}" for key, value in found.items())


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Lay out as markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def targets(lines: Iterable[Line], *, judged: bool) -> str:
    """One line per target, as markdown."""

    def verdict(line: Line) -> str:
        if line.met is None:
            return "-"
        return ("yes" if line.met else "**no**") if judged else "not judged"

    rows = [(line.problem, line.target, line.measured, verdict(line)) for line in lines]
    return table(["problem", "target", "measured", "met"], rows)


def write(out: Path, lines: Sequence[Line], parts: Sequence[str], figures: Any) -> None:
    """Write ``out.json`` and ``out.md``."""
    out.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": about(), "targets": [asdict(line) for line in lines], "figures": figures}
    out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    out.with_suffix(".md").write_text("\n\n".join([about(), *parts]) + "\n")
