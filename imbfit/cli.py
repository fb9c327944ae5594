"""The `imbfit` command: choose thresholds for scored cases in a file, and apply them to new ones.

Cells that say where a case belongs (segments, days, labels) are compared as text, exactly as they
stand in the file, so that a segment "01" stays apart from a segment "1" whatever program wrote it.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import io
import json
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from imbfit import __version__
from imbfit._labels import amount_columns, row_weights
from imbfit.confusion import Confusion
from imbfit.datasets import make_rare_events
from imbfit.displays import ThresholdDisplay, figure_size
from imbfit.exceptions import InfeasibleConstraints, ScoreScaleWarning, SearchWarning
from imbfit.expressions import Expr, Scope, columns_of, describe
from imbfit.metrics import as_metric, as_rules, direction, precision, recall, value
from imbfit.threshold.search import ThresholdSearch, search_thresholds

DONE, BAD_INPUT, INFEASIBLE = 0, 2, 3

_FORMAT = "imbfit-thresholds"
_FORMAT_VERSION = 1
_MOST_LINES = 20
_MOST_PANELS = 12
_MOST_TABLE_ROWS = 100_000
_FEW_POSITIVES = 10
_FALSE, _TRUE = ("0", "0.0", "false"), ("1", "1.0", "true")


class BadInput(Exception):
    """Something that the user can mend; the message says how."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments after the command's name; those of the process by default.

    Returns
    -------
    int
        Exit code: 0 done, 2 bad input, 3 the constraints can't be met.
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    try:
        _check_packages()
        with warnings.catch_warnings(record=True) as caught:
            for category in (SearchWarning, ScoreScaleWarning):
                warnings.simplefilter("always", category)
            try:
                return int(arguments.run(arguments))
            finally:
                _pass_on(caught, arguments.command)
    except InfeasibleConstraints as error:
        _complain(arguments.command, _in_words_of_the_command(str(error)))
        return INFEASIBLE
    except BadInput as error:
        _complain(arguments.command, str(error))
        return BAD_INPUT
    except BrokenPipeError:
        # whoever read our output has had enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        return DONE


def _complain(command: str, message: str, kind: str = "error") -> None:
    print(f"imbfit {command}: {kind}: {message}", file=sys.stderr)


def _pass_on(caught: Iterable[warnings.WarningMessage], command: str) -> None:
    """Show warnings without the file and line that a library would print."""
    for warning in caught:
        _complain(command, _in_words_of_the_command(str(warning.message)), "warning")


def _in_words_of_the_command(message: str) -> str:
    for said, written in {
        'pass infeasible="least_violation"': "pass --infeasible least_violation",
        "raise time_limit": "raise --time-limit",
        "See constraint_report": "See the constraints below",
        "(check pos_label)": "(check --label and --pos-label)",
        'nan_policy="negative"': "--nan-score negative",
    }.items():
        message = message.replace(said, written)
    return message


def _check_packages() -> None:
    for package in ("matplotlib", "pandas", "pyarrow"):
        try:
            __import__(package)
        except ImportError:
            raise BadInput(
                f"{package} is not installed; the command needs the extra cli: pip install "
                '"imbfit[cli]"'
            ) from None


# --------------------------------------------------------------------------------------------
# Arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="imbfit",
        description="Choose the best score thresholds under constraints, with a proof.",
        epilog="exit codes: 0 done, 2 bad input, 3 no choice of thresholds meets the constraints",
    )
    parser.add_argument("--version", action="version", version=f"imbfit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_tune(commands)
    _add_apply(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="show the whole way on simulated card transactions",
        description="Simulate card transactions, train a model, choose thresholds under a daily "
        "capacity and a precision for each segment, and compare with the default threshold on "
        "later days. Takes some seconds.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("imbfit_demo"), metavar="DIR",
        help="folder for figures and files (default: imbfit_demo)",
    )  # fmt: skip
    demo.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the simulation (default: 0)"
    )
    demo.set_defaults(run=_demo)


def _add_tune(commands: Any) -> None:
    tune = commands.add_parser(
        "tune",
        help="choose thresholds for scored cases in a CSV or Parquet file",
        description="Choose the best thresholds for scored cases with known outcome, one per "
        "segment, under constraints.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""\
expressions (put them in quotes, since > and * mean something to the shell):
  f1, precision, recall, mcc, cost(fp=1, fn=20), ...   named metrics
  tp fp fn tn pp pn ap an n with + - * /               your own formula; pp is the number flagged
  fn[amount]                                           the sum of a column over the missed cases
constraints:
  "precision >= 0.5"                   on all cases together
  "precision >= 0.5 in each segment"   "recall >= 0.8 in segment DE"
  'capacity(200)'                      at most 200 flagged;  capacity(200, per=1000): per 1000 cases
  'capacity(200, per="date")'          on any one day, by the column date
  "max_gap(recall) <= 0.05"            between segments;     "threshold >= 0.3"

example:
  imbfit tune cases.csv --label fraud --score score --segment region --amount amount=value \\
      --minimize "5*pp + fn[amount]" --subject-to 'capacity(200, per="date")' \\
      --subject-to "precision >= 0.5 in each segment" --out results""",
    )
    tune.add_argument("file", type=Path, metavar="FILE", help="CSV or Parquet, a row per case")
    need = tune.add_argument_group("columns of the file")
    need.add_argument("--label", required=True, metavar="COL", help="outcome, 0/1 or true/false")
    need.add_argument("--pos-label", metavar="V", help="the positive value of another label")
    need.add_argument("--score", required=True, metavar="COL", help="score, higher is more likely")
    need.add_argument(
        "--segment", action="append", default=[], metavar="COL",
        help="a threshold for each value of this column; repeat it for combinations",
    )  # fmt: skip
    need.add_argument(
        "--amount", action="append", default=[], metavar="NAME=COL",
        help="a column that formulas read as fn[NAME]; repeatable. A column called NAME is found "
        "without it",
    )  # fmt: skip
    need.add_argument("--weight", metavar="COL", help="how often each case counts")
    goal = tune.add_argument_group("what is best").add_mutually_exclusive_group(required=True)
    goal.add_argument("--maximize", metavar="EXPR", help="the greater the better")
    goal.add_argument("--minimize", metavar="EXPR", help="the lower the better")
    rules = tune.add_argument_group("what must hold")
    rules.add_argument(
        "--subject-to", action="append", default=[], metavar="EXPR", help="a constraint; repeatable"
    )
    rules.add_argument(
        "--infeasible", choices=("raise", "least_violation"), default="raise",
        help="if no choice meets all constraints: say which conflict and stop with exit code 3, or "
        "take the choice that breaks them least",
    )  # fmt: skip
    search = tune.add_argument_group("search")
    search.add_argument(
        "--thresholds", default="all", metavar="T",
        help="candidates: all (default), a number of evenly spaced ones, or a list such as "
        "0.1,0.2,0.5",
    )  # fmt: skip
    search.add_argument(
        "--time-limit", type=float, default=60.0, metavar="S", help="seconds (default: 60)"
    )
    search.add_argument("--seed", type=int, default=0, metavar="N", help="seed (default: 0)")
    search.add_argument(
        "--nan-score", choices=("raise", "negative"), default="raise",
        help="cases without a score: stop, or never flag them",
    )  # fmt: skip
    search.add_argument(
        "--missing-segment", metavar="NAME",
        help="cases without a segment belong to one of this name; without it they are an error",
    )  # fmt: skip
    _add_csv_options(tune)
    tune.add_argument(
        "--out", type=Path, default=Path("imbfit_results"), metavar="DIR",
        help="folder for thresholds.json, table.csv and figures (default: imbfit_results)",
    )  # fmt: skip
    tune.set_defaults(run=_tune)


def _add_apply(commands: Any) -> None:
    apply = commands.add_parser(
        "apply",
        help="flag new cases by chosen thresholds",
        description="Add a column to a file of scored cases: 1 where the score reaches the "
        "threshold of the case's segment, else 0.",
    )
    apply.add_argument("file", type=Path, metavar="FILE", help="CSV or Parquet of scored cases")
    apply.add_argument(
        "--thresholds", type=Path, required=True, metavar="JSON",
        help="thresholds.json, as written by imbfit tune",
    )  # fmt: skip
    apply.add_argument(
        "--out", metavar="FILE",
        help="where to write the cases, - for the standard output (default: NAME_flagged beside "
        "FILE)",
    )  # fmt: skip
    apply.add_argument("--column", default="flagged", metavar="COL", help="name of the new column")
    apply.add_argument(
        "--unknown-segment", default="raise", metavar="POLICY",
        help="cases of a segment that has no threshold, or without a segment: raise (default), "
        "negative (never flag them), or a number (their threshold)",
    )  # fmt: skip
    apply.add_argument(
        "--nan-score",
        choices=("raise", "negative"),
        help="cases without a score: stop, or do not flag them (default: as in tune)",
    )
    _add_csv_options(apply)
    apply.set_defaults(run=_apply)


def _add_csv_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("CSV")
    group.add_argument("--sep", metavar="CHAR", help="separator (default: comma; tab in .tsv)")
    group.add_argument("--encoding", default="utf-8", metavar="E", help="default: utf-8")


# --------------------------------------------------------------------------------------------
# Files


@dataclass(frozen=True)
class CaseFile:
    """A CSV or Parquet file of cases; its columns are read when they are asked for."""

    path: Path
    names: list[str]
    parquet: bool
    sep: str = ","
    encoding: str = "utf-8"

    @classmethod
    def open(cls, path: Path, *, sep: str | None, encoding: str) -> CaseFile:
        """Look at the head of a file."""
        if path.is_dir():
            raise BadInput(f"{path} is a folder; give a CSV or Parquet file")
        try:
            with path.open("rb") as stream:
                magic = stream.read(4)
        except FileNotFoundError:
            close = difflib.get_close_matches(path.name, _siblings(path), n=1)
            hint = f"; did you mean {path.parent / close[0]}?" if close else ""
            raise BadInput(f"there is no file {path}{hint}") from None
        except OSError as error:
            raise BadInput(f"{path} can't be read: {error.strerror}") from None
        if not magic:
            raise BadInput(f"{path} is empty; give a header and a row per case")
        if magic == b"PAR1" or path.suffix in (".parquet", ".pq"):
            return cls(path, cls._parquet_names(path), parquet=True)
        if magic[:2] == b"PK" or magic == b"\xd0\xcf\x11\xe0":
            raise BadInput(f"{path} looks like a spreadsheet or archive; save it as CSV or Parquet")
        if sep is None:
            sep = "\t" if ".tsv" in path.suffixes else ","
        sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep)
        if len(sep) != 1:
            raise BadInput(f"--sep {sep!r}: give one character, or tab")
        names = cls._csv_names(path, sep, encoding)
        other = next((mark for mark in ";\t|," if mark != sep and mark in names[0]), None)
        if len(names) == 1 and other is not None:
            told = "tab" if other == "\t" else other
            raise BadInput(
                f"the header of {path} has no {sep!r} but {other!r}; pass --sep {told!r}"
            )
        return cls(path, names, parquet=False, sep=sep, encoding=encoding)

    @staticmethod
    def _parquet_names(path: Path) -> list[str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(f"{path} is no readable Parquet file: {_first_line(error)}") from None

    @staticmethod
    def _csv_names(path: Path, sep: str, encoding: str) -> list[str]:
        import pyarrow as pa

        read_as = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8", "utf_8") else encoding
        try:
            with pa.input_stream(str(path)) as stream:
                text = io.TextIOWrapper(stream, encoding=read_as, newline="")
                names = next(csv.reader(text, delimiter=sep), [])
        except UnicodeDecodeError as error:
            raise BadInput(_not_encoded(path, encoding, error)) from None
        except LookupError:
            raise BadInput(
                f"--encoding {encoding}: no such encoding; try latin-1 or cp1252"
            ) from None
        except (csv.Error, OSError) as error:
            raise BadInput(f"the header of {path} can't be read: {_first_line(error)}") from None
        if not any(names):
            raise BadInput(f"the first line of {path} is empty; it must name the columns")
        return names

    def place(self, wanted: str, option: str) -> int:
        """Position of a column, which must be there once."""
        found = [position for position, name in enumerate(self.names) if name == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            raise BadInput(
                f"{self.path} has {len(found)} columns called {wanted!r} ({option}); rename them"
            )
        by_case = [name for name in self.names if name.strip().casefold() == wanted.casefold()]
        close = by_case or difflib.get_close_matches(wanted, self.names, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise BadInput(
            f"{self.path} has no column {wanted!r} ({option}){hint} Its columns: "
            f"{_listed(self.names, 15)}"
        )

    def read(self, places: Iterable[int] | None = None) -> Any:
        """Read columns by position into an Arrow table; a CSV's cells stay text."""
        import pyarrow as pa

        chosen = list(range(len(self.names))) if places is None else sorted(set(places))
        try:
            table = self._read_parquet(chosen) if self.parquet else self._read_csv(chosen)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
                raise BadInput(_not_encoded(self.path, self.encoding, error)) from None
            raise BadInput(f"{self.path} can't be read: {_first_line(error)}") from None
        if table.num_rows == 0:
            raise BadInput(f"{self.path} has a header but no cases")
        return table

    def _read_csv(self, chosen: list[int]) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        # The header is read as a row, since its names need not be distinct.
        every = [f"f{position}" for position in range(len(self.names))]
        table = arrow_csv.read_csv(
            str(self.path),
            read_options=arrow_csv.ReadOptions(
                column_names=every, encoding=self.encoding, block_size=1 << 24
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=self.sep, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(every, pa.string()),
                include_columns=[every[position] for position in chosen],
                strings_can_be_null=False,
            ),
        )
        return table.slice(1)

    def _read_parquet(self, chosen: list[int]) -> Any:
        import pyarrow.parquet as pq

        table = pq.read_table(self.path, columns=[self.names[position] for position in chosen])
        return table.rename_columns([f"f{position}" for position in chosen])


def _siblings(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def _not_encoded(path: Path, encoding: str, error: Exception) -> str:
    where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
    return f"{path} is not encoded as {encoding}{where}; pass --encoding, such as latin-1 or cp1252"


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _listed(items: Sequence[Any], most: int = 8) -> str:
    return ", ".join(map(repr, items[:most])) + (", ..." if len(items) > most else "")


def _rows_named(mask: np.ndarray, most: int = 5) -> str:
    """Name rows as a person counts them: the first case is row 1."""
    rows = np.flatnonzero(mask)
    shown = ", ".join(f"{row + 1:,}" for row in rows[:most]) + (", ..." if len(rows) > most else "")
    return f"{len(rows):,} case{'s' if len(rows) != 1 else ''} (row {shown})"


def read_numbers(column: Any, what: str, *, missing: str = "raise") -> np.ndarray:
    """Return a column as floats; cells without a number are an error or NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        lower = pc.utf8_lower(column)
        blank = pc.is_in(lower, pa.array(["", "nan", "na", "n/a", "null", "none"]))
        column = pc.if_else(blank, pa.scalar(None, column.type), column)
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid:
            bad = [_no_number(text) for text in column.to_pylist()]
            first = column[bad.index(True)].as_py()
            hint = "; write decimals with a point" if "," in first else ""
            raise BadInput(
                f"{what} holds {first!r}, which is no number, in {_rows_named(np.array(bad))}{hint}"
            ) from None
    try:
        numbers = column.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise BadInput(f"{what} holds {column.type} values; numbers are needed") from None
    values = np.array(
        numbers.to_numpy(zero_copy_only=False)
        if not isinstance(numbers, pa.ChunkedArray)
        else numbers.to_numpy(),
        float,
    )
    lacking = np.isnan(values)
    if lacking.any() and missing == "raise":
        raise BadInput(f"{what} has no number in {_rows_named(lacking)}; fill them in or drop them")
    infinite = np.isinf(values)
    if infinite.any():
        raise BadInput(f"{what} is infinite in {_rows_named(infinite)}; finite numbers are needed")
    return values


def _no_number(text: str | None) -> bool:
    try:
        float(text or 0)
    except ValueError:
        return True
    return "_" in (text or "")


@dataclass(frozen=True)
class Words:
    """A column as text: the distinct words, and which of them each row has; -1 where none."""

    words: list[str]
    codes: np.ndarray
    kind: str

    @property
    def missing(self) -> np.ndarray:
        """Rows without a word."""
        return self.codes < 0

    def spread(self) -> np.ndarray:
        """One word per row."""
        longest = max(map(len, self.words), default=1)
        # numpy sorts text of fixed width far faster than objects, unless it is very wide
        width = object if longest > 200 else f"<U{longest}"
        return np.array([*self.words, ""], width)[self.codes]


def read_words(column: Any) -> Words:
    """Return a column as words that compare equal whatever kind of file it came from."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().chunk(0)
    values, inner = column.dictionary, column.dictionary.type
    if pa.types.is_integer(inner):
        kind, words = "number", [str(v) for v in values.to_pylist()]
    elif pa.types.is_floating(inner) or pa.types.is_decimal(inner):
        kind, words = "number", [_number_word(float(v)) for v in values.to_pylist()]
    elif pa.types.is_boolean(inner):
        kind, words = "truth", [str(v).lower() for v in values.to_pylist()]
    elif pa.types.is_temporal(inner):
        kind, words = "date", [_date_word(v) for v in values.to_pylist()]
    else:
        kind, words = "text", [str(v) for v in values.to_pylist()]
    codes = np.asarray(pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False), np.int64)
    empty = [not word.strip() or (kind == "number" and word == "nan") for word in words]
    if any(empty):
        codes = np.where(np.array([*empty, False])[codes], -1, codes)
    # values of different types may share a word
    distinct = {word: place for place, word in enumerate(dict.fromkeys(words))}
    if len(distinct) < len(words):
        codes = np.where(codes < 0, -1, np.array([distinct[w] for w in words] + [-1])[codes])
        words = list(distinct)
    return Words(words, codes, kind)


def _number_word(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)


def _date_word(moment: Any) -> str:
    return str(moment).removesuffix(" 00:00:00").removesuffix("T00:00:00")


# --------------------------------------------------------------------------------------------
# tune


def _tune(arguments: argparse.Namespace) -> int:
    started = time.monotonic()
    goal, greater = _read_goal(arguments)
    rules = [_read_rule(text) for text in arguments.subject_to]
    candidates = _read_candidates(arguments.thresholds)
    if not arguments.time_limit > 0:
        raise BadInput(f"--time-limit {arguments.time_limit:g}: give seconds above 0")
    file = CaseFile.open(arguments.file, sep=arguments.sep, encoding=arguments.encoding)
    cases = _read_cases(file, arguments, goal, rules)
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
    _tell_cases(cases, arguments)
    _tell_goal(found)
    _tell_thresholds(found, arguments.segment)
    _tell_small_segments(found)
    _tell_objective(found, took)
    _tell_constraints(found)
    folder = _make_folder(arguments.out)
    written = [_write_thresholds(found, folder / "thresholds.json", arguments, cases)]
    written.append(_write_table(found, folder / "table.csv", arguments.segment))
    written += _write_figures(found, folder)
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
    if parts and all(map(_is_number, parts)):
        if "," in text or not text.strip().isdigit():
            return np.array([float(part) for part in parts])
        if int(text) >= 1:
            return int(text)
    raise BadInput(
        f"--thresholds {text!r}: give all, a whole number of candidates, or a list such as "
        "0.1,0.2,0.5"
    )


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


def _read_cases(
    file: CaseFile, arguments: argparse.Namespace, goal: Expr, rules: Sequence[Any]
) -> Cases:
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
        _filled(read_words(column(place)), called(place), arguments.missing_segment)
        for place in segments
    ]
    rows = len(positive)
    groups = {}
    for name, place in per.items():
        days = _filled(read_words(column(place)), called(place), None, segment=False)
        groups[name] = days.spread()
        if len(days.words) > max(50, rows // 2):
            _complain(
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
        _complain("tune", f"--amount {name}=...: no expression reads [{name}]", "warning")
    for name in sorted(wanted - set(named)):
        if name not in file.names:
            raise BadInput(
                f"the expressions read the amount {name!r}, and {file.path} has no column of that "
                f"name; pass --amount {name}=COL. Its columns: {_listed(file.names, 15)}"
            )
        named[name] = file.place(name, f"as in [{name}]")
    return {name: place for name, place in named.items() if name in wanted}


def _read_labels(column: Any, what: str, pos_label: str | None) -> tuple[np.ndarray, str]:
    read = read_words(column)
    if read.missing.any():
        raise BadInput(f"{what} has no label in {_rows_named(read.missing)}; drop these cases")
    present = np.flatnonzero(np.bincount(read.codes, minlength=len(read.words)))
    words = [read.words[place] for place in present]
    shown = _listed(sorted(words))
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
            word for word in words if _same_number(word, pos_label)
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


def _same_number(one: str, two: str) -> bool:
    try:
        return float(one) == float(two)
    except ValueError:
        return False


def _filled(read: Words, what: str, name: str | None, *, segment: bool = True) -> Words:
    """Give rows without a word the word `name`, or say that they have none."""
    if not read.missing.any():
        return read
    if name is None:
        hint = ", or pass --missing-segment NAME to make a segment of them" if segment else ""
        raise BadInput(f"{what} is empty in {_rows_named(read.missing)}; fill them in{hint}")
    words = read.words if name in read.words else [*read.words, name]
    return Words(words, np.where(read.missing, words.index(name), read.codes), read.kind)


def _side_by_side(words: Sequence[Words]) -> Any:
    if not words:
        return None
    if len(words) == 1:
        return words[0].spread()
    return np.column_stack([one.spread() for one in words])


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
            alike = [word for word in known if _same_number(word, text)]
            close = alike or difflib.get_close_matches(text, known, n=1)
            hint = f"; did you mean in segment {json.dumps(close[0])}?" if close else "."
            raise BadInput(
                f"{str(rule)!r}: there is no segment {text!r}{hint} Segments: "
                f"{_listed(sorted(known))}"
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
        raise BadInput(_in_words_of_the_command(str(error))) from error


# --------------------------------------------------------------------------------------------
# What is told


def _tell_cases(cases: Cases, arguments: argparse.Namespace) -> None:
    rows, found = len(cases.positive), int(cases.positive.sum())
    by = f", segments by {' and '.join(arguments.segment)}" if arguments.segment else ""
    print(f"{arguments.file}: {rows:,} cases, {found:,} positive ({found / rows:.2%}){by}")
    lacking = int(np.isnan(cases.score).sum())
    if lacking:
        print(f"{lacking:,} of them without a score, never flagged")


def _tell_goal(found: ThresholdSearch) -> None:
    print(f"\n{'Maximize' if found.greater_is_better else 'Minimize'} {_shown(found.objective)}")
    for rule in found.rules:
        print(f"  subject to {rule.label}")


def _shown(objective: Any) -> str:
    return describe(objective) if isinstance(objective, Expr) else str(objective)


def _tell_thresholds(found: ThresholdSearch, names: Sequence[str]) -> None:
    print("\nThresholds (a case is flagged when its score reaches the threshold)")
    head = [*(names or ["segment"]), "threshold", "cases", "positive", "flagged"]
    head += ["precision", "recall"]
    order = sorted(found.thresholds, key=lambda s: -float(found.segment_counts[s].pp))
    shown = order if len(order) <= _MOST_LINES else order[: _MOST_LINES - 2]
    lines = []
    for segment in sorted(shown, key=_sort_key):
        parts = segment if isinstance(segment, tuple) else (segment,)
        lines.append(
            [
                *("all" if part is None else str(part) for part in parts),
                told_threshold(found.thresholds[segment]),
                *_told_counts(found.segment_counts[segment]),
            ]
        )
    if found.segmented:
        blank = [""] * (len(names) - 1)
        lines.append(["all", *blank, "", *_told_counts(found.counts)])
    _print_columns(head, lines, left=len(names or [1]))
    if len(shown) < len(order):
        print(
            f"  ... and {len(order) - len(shown):,} segments that flag fewer; all are in "
            "thresholds.json"
        )


def _tell_small_segments(found: ThresholdSearch) -> None:
    few = sum(float(counts.ap) < _FEW_POSITIVES for counts in found.segment_counts.values())
    if few and found.segmented:
        print(
            f"  note: {few:,} of {len(found.thresholds):,} segments have fewer than "
            f"{_FEW_POSITIVES} positive cases; thresholds that rest on so few follow chance"
        )


def _sort_key(segment: Any) -> tuple[Any, ...]:
    parts = segment if isinstance(segment, tuple) else (segment,)
    key: list[Any] = []
    for part in parts:
        try:
            key.append((0, float(part), str(part)))
        except (TypeError, ValueError):
            key.append((1, 0.0, str(part)))
    return tuple(key)


def told_threshold(threshold: float) -> str:
    """Write a threshold for people."""
    if math.isinf(threshold):
        return "nobody" if threshold > 0 else "everybody"
    return f"{threshold:.6g}"


def _told_counts(counts: Confusion) -> list[str]:
    return [
        _amount(float(counts.n)),
        _amount(float(counts.ap)),
        _amount(float(counts.pp)),
        _share(counts, precision, float(counts.pp)),
        _share(counts, recall, float(counts.ap)),
    ]


def _share(counts: Confusion, metric: Expr, of: float) -> str:
    return f"{float(value(metric, counts, greater_is_better=True)):.3f}" if of else "-"


def _amount(number: float) -> str:
    if abs(number) < 1e15 and float(number).is_integer():
        return f"{number:,.0f}"
    return f"{number:,.2f}" if abs(number) >= 100 else f"{number:.6g}"


def _tell_objective(found: ThresholdSearch, took: float, *, compare: bool = True) -> None:
    name = _shown(found.objective)
    sure = {
        "optimal": "proven: no other choice of thresholds does better on these cases",
        "feasible": f"the time ran out before the proof; at best {_amount(found.best_bound)} is "
        f"possible (gap {_amount(found.gap)})",
        "least_violation": "the constraints can't all be met; this breaks them least",
    }[found.status]
    print(f"\n{name} = {_amount(found.objective_value)}\n  {sure} ({took:.1f} s)")
    default = _default_value(found) if compare else None
    if default is not None:
        print(f"  at the threshold 0.5 for all, whatever the constraints: {_amount(default)}")


def _default_value(found: ThresholdSearch) -> float | None:
    """Objective at the usual threshold, where scores look like probabilities."""
    above = found.tables.above[np.isfinite(found.tables.above)]
    if not len(above) or above.min() < 0 or above.max() > 1:
        return None
    display = ThresholdDisplay(
        tables=found.tables,
        thresholds=dict.fromkeys(found.tables.segments, 0.5),
        objective=found.objective,
        greater_is_better=found.greater_is_better,
    )
    return display.objective_value


def _tell_constraints(found: ThresholdSearch) -> None:
    if not found.constraint_report:
        return
    print("\nConstraints (on these cases)")
    _print_report(found.constraint_report)


def _print_report(report: Sequence[Mapping[str, Any]]) -> None:
    # those that are broken or tight come first where not all are shown
    order = sorted(range(len(report)), key=lambda i: (report[i]["met"], _tightness(report[i])))
    labels = {line["constraint"] for line in report}
    most = len(report) if len(report) <= _MOST_LINES else max(3, _MOST_LINES // len(labels))
    seen: dict[str, int] = dict.fromkeys(labels, 0)
    shown = []
    for i in order:
        seen[report[i]["constraint"]] += 1
        if seen[report[i]["constraint"]] <= most:
            shown.append(i)
    lines = []
    for line in (report[i] for i in sorted(shown)):
        where = line["segment"] if line["segment"] is not None else line["group"]
        parts = where if isinstance(where, tuple) else (where,)
        reached = line["value"]
        lines.append(
            [
                str(line["constraint"]),
                "" if where is None else ", ".join(_date_word(part) for part in parts),
                "nothing to judge" if reached is None else _figure(reached),
                f"{line['sense']} {_figure(line['limit'])}",
                "" if reached is None else _figure(abs(line["slack"])),
                "met" if line["met"] else "BROKEN",
            ]
        )
    _print_columns(["constraint", "where", "value", "bound", "slack", ""], lines, left=2)
    rest = [report[i] for i in set(order) - set(shown)]
    if rest:
        broken = sum(not line["met"] for line in rest)
        told = "all met, with as much slack or more" if not broken else f"{broken:,} of them broken"
        print(f"  ... and {len(rest):,} more, {told}; all are in thresholds.json")


def _tightness(line: Mapping[str, Any]) -> float:
    if line["value"] is None:
        return math.inf
    return float(line["slack"]) / max(abs(line["limit"]), 1e-9)


def _figure(number: float) -> str:
    if math.isinf(number):
        return "infinite" if number > 0 else "-infinite"
    if float(number).is_integer():
        return f"{number:,.0f}"
    return f"{number:,.2f}" if abs(number) >= 1000 else f"{number:.4g}"


def _print_columns(head: Sequence[str], lines: Sequence[Sequence[str]], *, left: int) -> None:
    head = [_cut(cell) for cell in head]
    lines = [[_cut(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    for line in [head, *lines]:
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print(("  " + "  ".join(cells)).rstrip())


def _cut(cell: str, most: int = 48) -> str:
    cell = " ".join(cell.split())
    return cell if len(cell) <= most else cell[: most - 3] + "..."


# --------------------------------------------------------------------------------------------
# What is written


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {folder}: {error.strerror}; give a folder") from None
    return folder


def _number_or_word(threshold: float) -> float | str:
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
        told["value"] = _number_or_word(line["value"])
    return told


def _write_thresholds(
    found: ThresholdSearch, path: Path, arguments: argparse.Namespace, cases: Cases
) -> str:
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
                "threshold": _number_or_word(threshold),
                "cases": _whole(found.segment_counts[segment].n),
                "flagged": _whole(found.segment_counts[segment].pp),
            }
            for segment, threshold in sorted(
                found.thresholds.items(), key=lambda item: _sort_key(item[0])
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


def _write_table(found: ThresholdSearch, path: Path, names: Sequence[str]) -> str:
    candidates = int(found.tables.starts[-1])
    note = ""
    top = None
    if candidates > _MOST_TABLE_ROWS:
        top = max(10, _MOST_TABLE_ROWS // len(found.tables.segments))
        note = f" (the best {top:,} of each segment; all {candidates:,} would be a large file)"
        if not found.segmented:
            note = f" (the best {top:,} of {candidates:,} candidates)"
    table = found.table(top=top)
    if len(names) > 1:
        for place, name in reversed(list(enumerate(names))):
            table.insert(0, name, [segment[place] for segment in table["segment"]])
        table = table.drop(columns="segment")
    elif names:
        table = table.rename(columns={"segment": names[0]})
    table["threshold"] = [_number_or_word(cut) for cut in table["threshold"].tolist()]
    table.to_csv(path, index=False)
    return f"{path}{note}"


def _write_figures(found: ThresholdSearch, folder: Path) -> list[str]:
    written = []
    show = None
    if len(found.tables.segments) > _MOST_PANELS:
        order = sorted(found.thresholds, key=lambda s: -float(found.segment_counts[s].pp))
        show = order[:_MOST_PANELS]
    extra = [e for e in ("precision", "recall") if e != _shown(found.objective)]
    display = display_of(found, extra)
    path = folder / "curves.png"
    save_figure(display, path, show=show)
    limited = f" (the {_MOST_PANELS} segments that flag most)" if show is not None else ""
    written.append(f"{path}{limited}")
    if len(found.tables.segments) == 2:
        path = folder / "surface.png"
        save_figure(display, path, surface=True)
        written.append(str(path))
    return written


def display_of(
    found: ThresholdSearch, expressions: Sequence[str], *, tables: Any = None
) -> ThresholdDisplay:
    """Prepare the picture of a search, on its own rows or on the tables of others."""
    return ThresholdDisplay(
        tables=found.tables if tables is None else tables,
        thresholds=found.thresholds,
        objective=found.objective,
        greater_is_better=found.greater_is_better,
        constraints=found.rules,
        expressions=expressions,
    )


def save_figure(
    display: ThresholdDisplay, path: Path, *, show: Any = None, surface: bool = False
) -> None:
    """Draw a display into a file, without a window and without touching pyplot's figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = 1 if surface else len(display.tables.segments if show is None else show)
    size = (7.2, 5.6) if surface else figure_size(panels)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    if surface:
        display.plot_surface(ax, show=show)
    else:
        display.plot(ax, show=show)
    figure.savefig(path, dpi=120)


# --------------------------------------------------------------------------------------------
# apply


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


def _read_thresholds(path: Path) -> Chosen:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}; imbfit tune writes it") from None
    except OSError as error:
        raise BadInput(f"{path} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise BadInput(f"{path} is no JSON: {_first_line(error)}") from None
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
            kinds=[str(one["type"]) for one in content["segments"]],
            thresholds={
                tuple(map(str, one["segment"])): _threshold_of(one["threshold"])
                for one in content["thresholds"]
            },
            missing_segment=content["missing_segment"],
            nan_score=str(content["nan_score"]),
            status=str(content["status"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{path} is damaged: {type(error).__name__} {error}") from None


def _threshold_of(content: Any) -> float:
    if isinstance(content, str):
        return {"nobody": math.inf, "everybody": -math.inf}[content]
    if isinstance(content, bool) or not math.isfinite(content):
        raise ValueError(f"threshold {content!r}")
    return float(content)


def _apply(arguments: argparse.Namespace) -> int:
    chosen = _read_thresholds(arguments.thresholds)
    unknown = _read_policy(arguments.unknown_segment)
    file = CaseFile.open(arguments.file, sep=arguments.sep, encoding=arguments.encoding)
    target = _target(file, arguments.out)
    score_place = file.place(chosen.score, f"the score in {arguments.thresholds}")
    places = [
        file.place(name, f"a segment column in {arguments.thresholds}") for name in chosen.columns
    ]
    if arguments.column in file.names:
        raise BadInput(
            f"{file.path} already has a column {arguments.column!r}; name another by --column"
        )
    table = file.read()
    policy = arguments.nan_score or chosen.nan_score
    score = read_numbers(table.column(score_place), f"the column {chosen.score!r}", missing=policy)
    cut, segment = _cuts(chosen, file, [table.column(place) for place in places], unknown)
    # everybody is those that have a score
    flagged = (score >= cut) & ~np.isnan(score)
    _write_cases(file, table, flagged, arguments.column, target)
    told = sys.stderr if target is None else sys.stdout
    _tell_flags(flagged, segment, chosen, target, told)
    return DONE


def _read_policy(text: str) -> float | None:
    """Threshold of segments that have none; None to raise."""
    if text in ("raise", "negative"):
        return None if text == "raise" else math.inf
    if not _is_number(text):
        raise BadInput(
            f"--unknown-segment {text!r}: give raise, negative or a threshold such as 0.5"
        )
    return float(text)


def _target(file: CaseFile, out: str | None) -> Path | None:
    if out == "-":
        if file.parquet:
            raise BadInput("--out -: Parquet is no text; name a file")
        return None
    suffix = ".parquet" if file.parquet else ".csv"
    name = file.path.name.split(".")[0]
    target = file.path.with_name(f"{name}_flagged{suffix}") if out is None else Path(out)
    if target.suffix in (".parquet", ".pq") and not file.parquet:
        raise BadInput(f"--out {target}: the cases come as CSV and are written as CSV")
    if target.suffix in (".csv", ".tsv", ".txt") and file.parquet:
        raise BadInput(f"--out {target}: the cases come as Parquet and are written as Parquet")
    if target.exists() and target.samefile(file.path):
        raise BadInput(f"--out {target} is the file of the cases; name another")
    if not target.parent.is_dir():
        raise BadInput(f"--out {target}: there is no folder {target.parent}")
    return target


def _cuts(
    chosen: Chosen, file: CaseFile, columns: Sequence[Any], unknown: float | None
) -> tuple[np.ndarray | float, tuple[np.ndarray, list[tuple[str, ...]]] | None]:
    """Threshold of each case, and its segment."""
    if not columns:
        return chosen.thresholds[()], None
    read = []
    for place, (column, name, kind) in enumerate(
        zip(columns, chosen.columns, chosen.kinds, strict=True)
    ):
        words = read_words(column)
        if chosen.missing_segment is not None:
            words = _filled(words, name, chosen.missing_segment)
        known = {key[place] for key in chosen.thresholds}
        read.append(_as_known(words, known, kind))
    if unknown is None:
        for words, name in zip(read, chosen.columns, strict=True):
            if words.missing.any():
                raise BadInput(
                    f"the column {name!r} is empty in {_rows_named(words.missing)}, and cases "
                    "without a segment have no threshold; fill them in, or pass --unknown-segment "
                    "negative or a threshold"
                )
    mixed = np.zeros(len(read[0].codes), np.int64)
    for words in read:
        mixed = mixed * (len(words.words) + 1) + words.codes + 1
    distinct, code = np.unique(mixed, return_inverse=True)
    keys = [_unmixed(int(number), read) for number in distinct]
    strange = sorted((key for key in keys if key not in chosen.thresholds), key=_sort_key)
    if strange and unknown is None:
        rows = np.isin(code, [keys.index(key) for key in strange])
        raise BadInput(_unknown_message(strange, rows, chosen, file))
    other = math.inf if unknown is None else unknown
    cut = np.array([chosen.thresholds.get(key, other) for key in keys])
    return cut[code], (code, keys)


def _as_known(words: Words, known: set[str], kind: str) -> Words:
    """Write words as the thresholds know them, where the kind of file changed their look."""
    if kind not in ("number", "truth", "date"):
        return words
    alike = []
    for word in words.words:
        look = word
        if word not in known:
            if kind == "number" and word == word.strip() and not word.lstrip("-").startswith("0"):
                look = _number_word(float(word)) if _is_number(word) else word
            elif kind == "number" and word in ("0.0", "-0.0"):
                look = "0"
            elif kind == "truth":
                look = word.strip().lower()
            elif kind == "date":
                look = word.replace("T", " ").removesuffix(" 00:00:00")
        alike.append(look)
    return Words(alike, words.codes, words.kind)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word)) and "_" not in word
    except ValueError:
        return False


def _unmixed(number: int, read: Sequence[Words]) -> tuple[str, ...]:
    key = []
    for words in reversed(read):
        number, at = divmod(number, len(words.words) + 1)
        key.append(words.words[at - 1] if at else "")
    return tuple(reversed(key))


def _unknown_message(
    strange: Sequence[tuple[str, ...]], rows: np.ndarray, chosen: Chosen, file: CaseFile
) -> str:
    def told(key: tuple[str, ...]) -> str:
        return repr(key[0]) if len(key) == 1 else repr(key)

    first = strange[0]
    hint = ""
    for known in chosen.thresholds:
        same = all(
            one == two or _same_number(one, two) or one.strip().casefold() == two.strip().casefold()
            for one, two in zip(first, known, strict=True)
        )
        if same:
            hint = f" {told(known)} is there, written otherwise: write both files alike."
            break
    which = ", ".join(map(told, strange[:5])) + (", ..." if len(strange) > 5 else "")
    columns = " and ".join(chosen.columns)
    return (
        f"{file.path} has {len(strange):,} segment{'s' if len(strange) != 1 else ''} by {columns} "
        f"without a threshold: {which}, in {_rows_named(rows)}.{hint} Tune with cases of "
        f"{'it' if len(strange) == 1 else 'them'}, or pass --unknown-segment negative (never flag "
        "them) or a threshold"
    )


def _write_cases(
    file: CaseFile, table: Any, flagged: np.ndarray, column: str, target: Path | None
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [*file.names, column]
    marks = pa.array(flagged.astype(np.int8))
    table = table.append_column("flag", marks).rename_columns(names)
    try:
        if file.parquet:
            pq.write_table(table, target)
        elif target is None:
            sys.stdout.flush()
            stream = getattr(sys.stdout, "buffer", None)
            if stream is None:
                copy = io.BytesIO()
                _write_csv(table, copy, names, file.sep)
                sys.stdout.write(copy.getvalue().decode())
            else:
                _write_csv(table, stream, names, file.sep)
                stream.flush()
        else:
            with target.open("wb") as stream:
                _write_csv(table, stream, names, file.sep)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise BadInput(f"--out {target}: {error.strerror}") from None


def _write_csv(table: Any, stream: Any, names: Sequence[str], sep: str) -> None:
    import pyarrow.compute as pc
    from pyarrow import csv as arrow_csv

    special = f'["\\r\\n{re.escape(sep)}]'
    quoted = any(
        pc.any(pc.match_substring_regex(column, special)).as_py() for column in table.columns[:-1]
    )
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=sep, lineterminator="\n")
    writer.writerow(names)
    if not quoted:
        # Arrow is fast, but would put every text in quotes or none
        stream.write(text.getvalue().encode("utf-8"))
        options = arrow_csv.WriteOptions(include_header=False, delimiter=sep, quoting_style="none")
        arrow_csv.write_csv(table, stream, options)
        return
    for batch in table.to_batches(max_chunksize=50_000):
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        stream.write(text.getvalue().encode("utf-8"))
        text.seek(0)
        text.truncate()


def _tell_flags(
    flagged: np.ndarray,
    segment: tuple[np.ndarray, list[tuple[str, ...]]] | None,
    chosen: Chosen,
    target: Path | None,
    stream: TextIO,
) -> None:
    total, rows = int(flagged.sum()), len(flagged)
    where = "" if target is None else f"; written to {target}"
    print(f"{total:,} of {rows:,} cases flagged ({total / rows:.2%}){where}", file=stream)
    if segment is not None and len(segment[1]) <= _MOST_LINES:
        code, keys = segment
        cases = np.bincount(code, minlength=len(keys))
        marked = np.bincount(code, weights=flagged, minlength=len(keys))
        for place in sorted(range(len(keys)), key=lambda i: _sort_key(keys[i])):
            name = ", ".join(part or "(none)" for part in keys[place])
            known = "" if keys[place] in chosen.thresholds else "  (no threshold of its own)"
            print(f"  {name}: {marked[place]:,.0f} of {cases[place]:,}{known}", file=stream)
    if chosen.status == "least_violation":
        print("Note: these thresholds break constraints that could not all be met", file=stream)


# --------------------------------------------------------------------------------------------
# demo

_REVIEW = 5
_DAYS, _HELD_OUT_DAYS = 90, 30
_PER_DAY, _FLOOR = 15, 0.25


def _demo(arguments: argparse.Namespace) -> int:
    from sklearn.linear_model import LogisticRegression

    from imbfit.metrics import capacity, each_segment, fn, pp
    from imbfit.threshold.classifier import OTLPThresholdClassifier

    if arguments.seed < 0:
        raise BadInput(f"--seed {arguments.seed}: give a whole number of at least 0")
    folder = _make_folder(arguments.out)
    started = time.monotonic()
    cards = make_rare_events(60_000, n_days=_DAYS, random_state=arguments.seed, as_frame=True)
    frame = cards.frame.assign(fraud=cards.y)
    last = frame["date"].drop_duplicates().iloc[-_HELD_OUT_DAYS]
    past, later = frame[frame["date"] < last], frame[frame["date"] >= last]
    print(
        f"Simulated card transactions: {len(frame):,} over {_DAYS} days, of which "
        f"{int(frame['fraud'].sum()):,} are fraud ({frame['fraud'].mean():.1%}),\n"
        f"in the segments {', '.join(cards.segment_names)}.\n"
        f"The first {_DAYS - _HELD_OUT_DAYS} days train a logistic regression and choose the "
        f"thresholds; the last {_HELD_OUT_DAYS} days only judge.\n"
    )
    loss = (_REVIEW * pp + fn["amount"]).named("money lost", greater_is_better=False)
    model = OTLPThresholdClassifier(
        LogisticRegression(),
        objective=loss,
        constraints=[capacity(_PER_DAY, per="date"), each_segment(precision >= _FLOOR)],
        segments="segment",
        amounts={"amount": "amount"},
        estimator_columns=cards.feature_names,
        random_state=arguments.seed,
    ).fit(past, past["fraud"])
    print(
        f"Wanted: lose as little money as possible. A review costs {_REVIEW}, a missed fraud its "
        f"amount.\n"
        f"Rules:  at most {_PER_DAY} reviews on any day; in each segment at least "
        f"{_FLOOR:.0%} of the reviewed are fraud."
    )
    _tell_thresholds(model.search_, ["segment"])
    _tell_objective(model.search_, time.monotonic() - started, compare=False)
    _tell_constraints(model.search_)

    score = model.predict_proba(later)[:, 1]
    print(f"\nThe last {_HELD_OUT_DAYS} days, {len(later):,} transactions that nobody had seen")
    _tell_before_and_after(
        later, {"threshold 0.5": score >= 0.5, "chosen": model.predict(later) == 1}
    )

    extra = ["precision", "recall"]
    most = sorted(model.thresholds_, key=lambda s: -float(model.search_.segment_counts[s].pp))
    search = display_of(model.search_, extra)
    held_out = ThresholdDisplay.tables_of(model, later, later["fraud"])
    paths = [folder / name for name in ("curves.png", "held_out.png", "surface.png", "cases.csv")]
    save_figure(search, paths[0])
    save_figure(display_of(model.search_, extra, tables=held_out), paths[1])
    save_figure(search, paths[2], show=most[:2], surface=True)
    later[["date", "segment", "amount", "fraud"]].assign(score=score).to_csv(paths[3], index=False)
    print(
        f"\nWritten to {folder}:\n"
        f"  curves.png    money lost, precision and recall over each segment's threshold\n"
        f"  held_out.png  the same on the last {_HELD_OUT_DAYS} days\n"
        f"  surface.png   money lost over the thresholds of two segments\n"
        f"  cases.csv     the last {_HELD_OUT_DAYS} days with scores. Try on it, or on a file of "
        f"your own:\n\n"
        f"imbfit tune {paths[3]} --label fraud --score score --segment segment \\\n"
        f'    --minimize "{_REVIEW}*pp + fn[amount]" \\\n'
        f"    --subject-to 'capacity({_PER_DAY}, per=\"date\")' \\\n"
        f'    --subject-to "precision >= {_FLOOR} in each segment"'
    )
    return DONE


def _tell_before_and_after(later: Any, rules: Mapping[str, np.ndarray]) -> None:
    fraud, amount = later["fraud"].to_numpy() == 1, later["amount"].to_numpy()
    lines = []
    for name, flagged in rules.items():
        counts = Confusion.from_flags(fraud, flagged)
        per_segment = later.assign(hit=fraud)[flagged].groupby("segment")["hit"].mean()
        lines.append(
            [
                name,
                _amount(float(counts.pp)),
                _amount(float(counts.tp)),
                _amount(float(counts.fp)),
                _amount(float(counts.fn)),
                _share(counts, precision, float(counts.pp)),
                _share(counts, recall, float(counts.ap)),
                f"{_REVIEW * flagged.sum() + amount[fraud & ~flagged].sum():,.0f}",
                str(later["date"][flagged].value_counts().max() if flagged.any() else 0),
                f"{per_segment.min():.3f}" if len(per_segment) else "-",
            ]
        )
    _print_columns(
        ["rule", "reviews", "fraud found", "false alarms", "fraud missed", "precision", "recall",
         "money lost", "busiest day", "lowest precision"],
        lines,
        left=1,
    )  # fmt: skip
    before, after = (float(line[7].replace(",", "")) for line in lines)
    change = (before - after) / before
    print(
        f"  The chosen thresholds lose {abs(change):.0%} {'less' if change >= 0 else 'more'} money "
        "than the threshold 0.5. The rules were made to hold\n"
        "  on the earlier days; on later ones they hold about as well as the days are alike."
    )


if __name__ == "__main__":
    sys.exit(main())
