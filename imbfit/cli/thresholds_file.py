"""What is kept in thresholds.json: written by `tune`, read by `apply`."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from imbfit import __version__
from imbfit.cli.cases import Cases
from imbfit.cli.columns import sort_key
from imbfit.cli.messages import BadInput, first_line
from imbfit.threshold.search import ThresholdSearch

_FORMAT = "imbfit-thresholds"
_FORMAT_VERSION = 1
_KINDS = ("number", "truth", "date", "text")


def write_thresholds(
    found: ThresholdSearch, path: Path, arguments: argparse.Namespace, cases: Cases
) -> str:
    """Write thresholds.json, and say where."""

    def words(segment: Any) -> list[str]:
        if segment is None:
            return []
        return list(segment) if isinstance(segment, tuple) else [segment]

    content = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "imbfit": __version__,
        "rule": "a case is flagged when its score is at least the threshold of its segment; "
        '"nobody" and "everybody" stand for an infinite one',
        "score": arguments.score,
        "segments": [
            {"column": name, "type": kind}
            for name, kind in zip(arguments.segment, cases.segment_kinds, strict=True)
        ],
        "missing_segment": arguments.missing_segment,
        "nan_score": arguments.nan_score,
        "thresholds": [
            {
                "segment": words(segment),
                "threshold": number_or_word(threshold),
                "cases": _whole(found.segment_counts[segment].n),
                "flagged": _whole(found.segment_counts[segment].pp),
            }
            for segment, threshold in sorted(
                found.thresholds.items(), key=lambda item: sort_key(item[0])
            )
        ],
        "objective": {
            "expression": str(found.objective),
            "greater_is_better": found.greater_is_better,
            "value": found.objective_value,
            "best_bound": found.best_bound,
            "gap": found.gap,
        },
        "status": found.status,
        "constraints": [str(rule) for rule in found.rules],
        "constraint_report": [_report_line(line) for line in found.constraint_report],
        "tuned_on": {
            "file": arguments.file.name,
            "cases": len(cases.positive),
            "positive": int(cases.positive.sum()),
            "label": arguments.label,
            "pos_label": cases.pos_label,
            "amounts": cases.amount_columns,
            "weight": arguments.weight,
        },
    }
    path.write_text(
        json.dumps(_plain(content), allow_nan=False, indent=1, ensure_ascii=False) + "\n",
        encoding="utf-8",
    )
    return str(path)


def number_or_word(threshold: float) -> float | str:
    """Write a threshold as a number, or as a word where it is infinite."""
    if math.isinf(threshold):
        return "nobody" if threshold > 0 else "everybody"
    return float(threshold)


def _whole(number: Any) -> float:
    return int(number) if float(number).is_integer() else float(number)


def _plain(content: Any) -> Any:
    """Reduce to what JSON can hold: infinite numbers and NaN have no literal there."""
    if isinstance(content, Mapping):
        return {str(key): _plain(item) for key, item in content.items()}
    if isinstance(content, (list, tuple)):
        return [_plain(item) for item in content]
    if isinstance(content, (bool, np.bool_)):
        return bool(content)
    if isinstance(content, (float, np.floating)):
        return float(content) if math.isfinite(content) else None
    if isinstance(content, np.integer):
        return int(content)
    return content


def _report_line(line: Mapping[str, Any]) -> dict[str, Any]:
    segment = line["segment"]
    told = dict(line)
    told["segment"] = segment if segment is None or isinstance(segment, tuple) else (segment,)
    if line["value"] is not None and math.isinf(line["value"]):
        told["value"] = number_or_word(line["value"])
    return told


@dataclass(frozen=True)
class Chosen:
    """What `apply` reads from thresholds.json."""

    score: str
    columns: list[str]
    kinds: list[str]
    thresholds: dict[tuple[str, ...], float]
    missing_segment: str | None
    nan_score: str
    status: str


def read_thresholds(path: Path) -> Chosen:
    """Read thresholds.json."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}; imbfit tune writes it") from None
    except OSError as error:
        raise BadInput(f"{path} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise BadInput(f"{path} is no JSON: {first_line(error)}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise BadInput(f"{path} holds no thresholds; give the thresholds.json of imbfit tune")
    if content.get("format_version") != _FORMAT_VERSION:
        raise BadInput(
            f"{path} has the format version {content.get('format_version')!r}, and this imbfit "
            f"({__version__}) reads {_FORMAT_VERSION}; use the version that wrote it"
        )
    try:
        return Chosen(
            score=str(content["score"]),
            columns=[str(one["column"]) for one in content["segments"]],
            kinds=[_one_of(one["type"], _KINDS, "segment type") for one in content["segments"]],
            thresholds=_once(
                [
                    (_key_of(one["segment"], content["segments"]), _threshold_of(one["threshold"]))
                    for one in content["thresholds"]
                ]
            ),
            missing_segment=content["missing_segment"],
            nan_score=_one_of(content["nan_score"], ("raise", "negative"), "nan_score"),
            status=str(content["status"]),
        )
    except KeyError as error:
        raise BadInput(f"{path} is damaged: {error} is missing or not known") from None
    except (TypeError, ValueError) as error:
        raise BadInput(f"{path} is damaged: {error}") from None


def _key_of(segment: Any, columns: list[Any]) -> tuple[str, ...]:
    key = tuple(map(str, segment))
    if len(key) != len(columns):
        raise ValueError(f"the segment {key} is not one value for each segment column")
    return key


def _once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Make a dict of pairs whose keys may occur once only."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{twice!r} is given twice")
    return made


def _one_of(given: Any, allowed: tuple[str, ...], what: str) -> str:
    if given not in allowed:
        raise ValueError(f"{what} {given!r} is none of {', '.join(allowed)}")
    return str(given)


def _threshold_of(content: Any) -> float:
    if isinstance(content, str):
        return {"nobody": math.inf, "everybody": -math.inf}[content]
    if isinstance(content, bool) or not math.isfinite(content):
        raise ValueError(f"threshold {content!r}")
    return float(content)
