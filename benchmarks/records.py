"""Results that take long: a line of JSON each, appended to a file, so that a run can go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Records:
    """What was found so far.

    Parameters
    ----------
    path : Path or None
        The file; remove it to start anew. With None nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.every: list[dict[str, Any]] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self.every = [json.loads(line) for line in path.read_text().splitlines()]

    def add(self, record: dict[str, Any]) -> None:
        """Keep a result."""
        self.every.append(record)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(record) + "\n")

    def matching(self, **fields: Any) -> list[dict[str, Any]]:
        """Return those with these values."""
        return [r for r in self.every if all(r.get(k) == v for k, v in fields.items())]
