"""What `tune` reads of its cases: labels, scores, segments, amounts, days and weights."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit._labels import amount_columns, row_weights
from imbfit.cli.case_file import CaseFile
from imbfit.cli.columns import Words, filled, read_numbers, read_words, same_number
from imbfit.cli.messages import BadInput, complain, listed, rows_named
from imbfit.expressions import Expr, Scope, columns_of

_FALSE, _TRUE = ("0", "0.0", "false"), ("1", "1.0", "true")


@dataclass(frozen=True)
class Cases:
    """What `tune` reads from a file."""

    positive: np.ndarray
    pos_label: str
    score: np.ndarray
    segments: Any
    segment_words: list[list[str]]
    segment_kinds: list[str]
    amounts: dict[str, np.ndarray]
    amount_columns: dict[str, str]
    per: dict[str, np.ndarray]
    weight: np.ndarray | None


def read_cases(
    file: CaseFile, arguments: argparse.Namespace, goal: Expr, rules: Sequence[Any]
) -> Cases:
    """Read what the search needs, and check it."""
    amounts = _amount_places(file, arguments.amount, set().union(*map(columns_of, [goal, *rules])))
    per = {
        rule.key: file.place(rule.key, f"in {str(rule)!r}")
        for rule in rules
        if isinstance(rule, Scope) and rule.kind == "capacity" and isinstance(rule.key, str)
    }
    label = file.place(arguments.label, "--label")
    score = file.place(arguments.score, "--score")
    segments = [file.place(name, "--segment") for name in arguments.segment]
    weight = None if arguments.weight is None else file.place(arguments.weight, "--weight")
    places = [label, score, *segments, *amounts.values(), *per.values()]
    table = file.read(places if weight is None else [*places, weight])

    def column(place: int) -> Any:
        return table.column(f"f{place}")

    def called(place: int) -> str:
        return f"the column {file.names[place]!r}"

    positive, pos_label = _read_labels(column(label), called(label), arguments.pos_label)
    words = [
        filled(read_words(column(place)), called(place), arguments.missing_segment)
        for place in segments
    ]
    rows = len(positive)
    groups = {}
    for name, place in per.items():
        days = filled(read_words(column(place)), called(place), None, segment=False)
        groups[name] = days.spread()
        if len(days.words) > max(50, rows // 2):
            complain(
                "tune",
                f"{called(place)} has {len(days.words):,} values in {rows:,} cases; is it a time "
                "of day? The capacity holds for each value",
                "warning",
            )
    weights = None
    if weight is not None:
        weights = read_numbers(column(weight), called(weight))
        try:
            row_weights(weights, rows)
        except ValueError as error:
            raise BadInput(str(error).replace("sample_weight", called(weight))) from None
    values = {name: read_numbers(column(p), called(p)) for name, p in amounts.items()}
    return Cases(
        positive,
        pos_label,
        read_numbers(column(score), called(score), missing=arguments.nan_score),
        _side_by_side(words),
        [one.words for one in words],
        [one.kind for one in words],
        amount_columns(values, rows),
        {name: file.names[place] for name, place in amounts.items()},
        groups,
        weights,
    )


def _amount_places(file: CaseFile, given: Sequence[str], wanted: set[str]) -> dict[str, int]:
    named = {}
    for text in given:
        name, sign, column = text.partition("=")
        if not sign or not name or not column:
            raise BadInput(f"--amount {text!r}: write NAME=COL, such as amount=Amount")
        if name in named:
            raise BadInput(f"--amount names {name!r} twice")
        named[name] = file.place(column, "--amount")
    for name in sorted(set(named) - wanted):
        complain("tune", f"--amount {name}=...: no expression reads [{name}]", "warning")
    for name in sorted(wanted - set(named)):
        if name not in file.names:
            raise BadInput(
                f"the expressions read the amount {name!r}, and {file.path} has no column of that "
                f"name; pass --amount {name}=COL. Its columns: {listed(file.names, 15)}"
            )
        named[name] = file.place(name, f"as in [{name}]")
    return {name: place for name, place in named.items() if name in wanted}


def _read_labels(column: Any, what: str, pos_label: str | None) -> tuple[np.ndarray, str]:
    read = read_words(column)
    if read.missing.any():
        raise BadInput(f"{what} has no label in {rows_named(read.missing)}; drop these cases")
    present = np.flatnonzero(np.bincount(read.codes, minlength=len(read.words)))
    words = [read.words[place] for place in present]
    shown = listed(sorted(words))
    if len(words) > 2 and pos_label is None and {w.lower() for w in words} <= {*_FALSE, *_TRUE}:
        # one file may hold 1 and 1.0
        pos_label = None
    elif len(words) > 2:
        raise BadInput(
            f"{what} has {len(words)} kinds of labels ({shown}); two are needed, so code the "
            "positive class against the rest, or drop cases without a known outcome"
        )
    if pos_label is None:
        kinds = {word: word.strip().lower() for word in words}
        strange = [word for word, kind in kinds.items() if kind not in (*_FALSE, *_TRUE)]
        if strange:
            raise BadInput(
                f"{what} has the labels {shown}, which are not 0/1 or true/false; say which one is "
                f"positive: {' or '.join(f'--pos-label {word!r}' for word in sorted(words))}"
            )
        positive_words = {word for word, kind in kinds.items() if kind in _TRUE}
    else:
        positive_words = {word for word in words if word == pos_label} or {
            word for word in words if same_number(word, pos_label)
        }
        if not positive_words:
            raise BadInput(f"--pos-label {pos_label!r}: the labels in {what} are {shown}")
    positive = np.isin(
        read.codes, [place for place in present if read.words[place] in positive_words]
    )
    if positive.all() or not positive.any():
        kind = "positive" if positive.all() else "negative"
        raise BadInput(
            f"all {len(positive):,} cases are {kind} ({what} is {shown}); a threshold is chosen "
            "between two classes, so both must occur"
        )
    return positive, next(iter(sorted(positive_words)))


def _side_by_side(words: Sequence[Words]) -> Any:
    if not words:
        return None
    if len(words) == 1:
        return words[0].spread()
    return np.column_stack([one.spread() for one in words])
