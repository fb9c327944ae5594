"""`imbfit tune`: choose thresholds for the cases of a file."""

from __future__ import annotations

import argparse
import difflib
import json
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from imbfit.cli.case_file import CaseFile
from imbfit.cli.cases import read_cases
from imbfit.cli.columns import is_number, same_number
from imbfit.cli.messages import DONE, BadInput, in_words_of_the_command, listed
from imbfit.cli.printing import (
    tell_cases,
    tell_constraints,
    tell_goal,
    tell_objective,
    tell_small_segments,
    tell_thresholds,
)
from imbfit.cli.results import make_folder, write_figures, write_table
from imbfit.cli.thresholds_file import write_thresholds
from imbfit.exceptions import InfeasibleConstraints
from imbfit.expressions import Expr, Scope, describe
from imbfit.metrics import as_metric, as_rules
from imbfit.reading import direction
from imbfit.threshold.search import ThresholdSearch, search_thresholds


def tune(arguments: argparse.Namespace) -> int:
    """Run `imbfit tune`."""
    started = time.monotonic()
    goal, greater = _read_goal(arguments)
    rules = [_read_rule(text) for text in arguments.subject_to]
    candidates = _read_candidates(arguments.thresholds)
    if not arguments.time_limit > 0:
        raise BadInput(f"--time-limit {arguments.time_limit:g}: give seconds above 0")
    file = CaseFile.open(arguments.file, sep=arguments.sep, encoding=arguments.encoding)
    cases = read_cases(file, arguments, goal, rules)
    rules = [_with_words(rule, cases.segment_words) for rule in rules]
    found = _searched(
        cases.positive,
        cases.score,
        objective=goal,
        greater_is_better=greater,
        constraints=rules,
        segments=cases.segments,
        amounts=cases.amounts,
        per=cases.per,
        sample_weight=cases.weight,
        thresholds=candidates,
        nan_policy=arguments.nan_score,
        infeasible=arguments.infeasible,
        time_limit=arguments.time_limit,
        random_state=arguments.seed,
    )
    took = time.monotonic() - started
    tell_cases(cases, arguments)
    tell_goal(found)
    tell_thresholds(found, arguments.segment)
    tell_small_segments(found)
    tell_objective(found, took)
    tell_constraints(found)
    folder = make_folder(arguments.out)
    written = [write_thresholds(found, folder / "thresholds.json", arguments, cases)]
    written.append(write_table(found, folder / "table.csv", arguments.segment))
    written += write_figures(found, folder)
    print("\nWritten: " + ", ".join(written))
    print(f"Flag new cases:  imbfit apply NEW_FILE --thresholds {folder / 'thresholds.json'}")
    if rules and found.status != "least_violation":
        print(
            "The constraints hold on the cases above. New cases are another sample: leave some "
            "slack where a rule matters."
        )
    return DONE


def _read_goal(arguments: argparse.Namespace) -> tuple[Expr, bool]:
    option = "--maximize" if arguments.maximize is not None else "--minimize"
    greater = option == "--maximize"
    text = arguments.maximize if greater else arguments.minimize
    try:
        goal = as_metric(text)
    except (ValueError, TypeError) as error:
        raise BadInput(f"{option} {text!r}: {error}") from None
    try:
        direction(goal, greater)
    except ValueError:
        better, other = ("lower", "--minimize") if greater else ("greater", "--maximize")
        raise BadInput(
            f"{option} {text!r}: {describe(goal)} is better when {better}; write {other} {text!r}"
        ) from None
    return goal, greater


def _read_rule(text: str) -> Any:
    number = re.search(r"in\s+segment\s+(0\d+)", text)
    if number is not None:
        raise BadInput(
            f"--subject-to {text!r}: a segment that begins with 0 is written in quotes, in segment "
            f'"{number[1]}"'
        )
    try:
        (rule,) = as_rules(text)
    except (ValueError, TypeError) as error:
        message = str(error).removeprefix(f"constraint 0 is {text!r}, ")
        hint = ""
        if not any(sign in text for sign in "<>("):
            hint = ". If the shell took a part of it, put it in quotes"
        raise BadInput(f"--subject-to {text!r}: {message}{hint}") from None
    return rule


def _read_candidates(text: str) -> Any:
    if text == "all":
        return text
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if parts and all(map(is_number, parts)):
        if "," in text or not text.strip().isdigit():
            return np.array([float(part) for part in parts])
        if int(text) >= 1:
            return int(text)
    raise BadInput(
        f"--thresholds {text!r}: give all, a whole number of candidates, or a list such as "
        "0.1,0.2,0.5"
    )


def _with_words(rule: Any, words: Sequence[Sequence[str]]) -> Any:
    """Write the segment of `... in segment 7` as the word that it is in the file."""
    if not isinstance(rule, Scope) or rule.kind != "in_segment":
        return rule
    if not words:
        raise BadInput(f"{str(rule)!r} names a segment; pass --segment COL")
    parts = rule.key if isinstance(rule.key, tuple) else (rule.key,)
    if len(parts) != len(words):
        raise BadInput(
            f"{str(rule)!r}: segments come from {len(words)} columns; write "
            f"in segment ({', '.join(json.dumps(w[0]) for w in words)})"
        )
    found = []
    for part, known in zip(parts, words, strict=True):
        text = part if isinstance(part, str) else json.dumps(part)
        if text not in known:
            alike = [word for word in known if same_number(word, text)]
            close = alike or difflib.get_close_matches(text, known, n=1)
            hint = f"; did you mean in segment {json.dumps(close[0])}?" if close else "."
            raise BadInput(
                f"{str(rule)!r}: there is no segment {text!r}{hint} Segments: "
                f"{listed(sorted(known))}"
            )
        found.append(text)
    key = tuple(found) if isinstance(rule.key, tuple) or len(found) > 1 else found[0]
    return Scope("in_segment", rule.constraint, key)


def _searched(*arguments: Any, **options: Any) -> ThresholdSearch:
    try:
        return search_thresholds(*arguments, **options)
    except InfeasibleConstraints:
        raise
    except (ValueError, TypeError) as error:
        raise BadInput(in_words_of_the_command(str(error))) from error
