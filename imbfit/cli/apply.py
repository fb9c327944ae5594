"""`imbfit apply`: flag new cases by chosen thresholds."""

from __future__ import annotations

import argparse
import csv
import io
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from imbfit.cli.case_file import CaseFile
from imbfit.cli.columns import (
    Words,
    filled,
    is_number,
    number_word,
    read_numbers,
    read_words,
    same_number,
    sort_key,
)
from imbfit.cli.messages import DONE, BadInput, rows_named
from imbfit.cli.printing import MOST_LINES
from imbfit.cli.thresholds_file import Chosen, read_thresholds


def apply(arguments: argparse.Namespace) -> int:
    """Run `imbfit apply`."""
    chosen = read_thresholds(arguments.thresholds)
    unknown = _read_policy(arguments.unknown_segment)
    file = CaseFile.open(arguments.file, sep=arguments.sep, encoding=arguments.encoding)
    target = _target(file, arguments.out)
    if target is not None and target.exists() and target.samefile(arguments.thresholds):
        raise BadInput(f"--out {target} is the file of the thresholds; name another")
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
    if not is_number(text):
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
            words = filled(words, name, chosen.missing_segment)
        known = {key[place] for key in chosen.thresholds}
        read.append(_as_known(words, known, kind))
    if unknown is None:
        for words, name in zip(read, chosen.columns, strict=True):
            if words.missing.any():
                raise BadInput(
                    f"the column {name!r} is empty in {rows_named(words.missing)}, and cases "
                    "without a segment have no threshold; fill them in, or pass --unknown-segment "
                    "negative or a threshold"
                )
    mixed = np.zeros(len(read[0].codes), np.int64)
    for words in read:
        mixed = mixed * (len(words.words) + 1) + words.codes + 1
    distinct, code = np.unique(mixed, return_inverse=True)
    keys = [_unmixed(int(number), read) for number in distinct]
    strange = sorted((key for key in keys if key not in chosen.thresholds), key=sort_key)
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
                look = number_word(float(word)) if is_number(word) else word
            elif kind == "number" and word in ("0.0", "-0.0"):
                look = "0"
            elif kind == "truth":
                look = word.strip().lower()
            elif kind == "date":
                look = word.replace("T", " ").removesuffix(" 00:00:00")
        alike.append(look)
    return Words(alike, words.codes, words.kind)


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
            one == two or same_number(one, two) or one.strip().casefold() == two.strip().casefold()
            for one, two in zip(first, known, strict=True)
        )
        if same:
            hint = f" {told(known)} is there, written otherwise: write both files alike."
            break
    which = ", ".join(map(told, strange[:5])) + (", ..." if len(strange) > 5 else "")
    columns = " and ".join(chosen.columns)
    return (
        f"{file.path} has {len(strange):,} segment{'s' if len(strange) != 1 else ''} by {columns} "
        f"without a threshold: {which}, in {rows_named(rows)}.{hint} Tune with cases of "
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
    if segment is not None and len(segment[1]) <= MOST_LINES:
        code, keys = segment
        cases = np.bincount(code, minlength=len(keys))
        marked = np.bincount(code, weights=flagged, minlength=len(keys))
        for place in sorted(range(len(keys)), key=lambda i: sort_key(keys[i])):
            name = ", ".join(part or "(none)" for part in keys[place])
            known = "" if keys[place] in chosen.thresholds else "  (no threshold of its own)"
            print(f"  {name}: {marked[place]:,.0f} of {cases[place]:,}{known}", file=stream)
    if chosen.status == "least_violation":
        print("Note: these thresholds break constraints that could not all be met", file=stream)
