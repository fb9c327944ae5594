"""Cells as numbers, or as words that compare equal whatever kind of file they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from imbfit.cli.messages import BadInput, rows_named


def read_numbers(column: Any, what: str, *, missing: str = "raise") -> np.ndarray:
    """Return a column as floats; cells without a number are an error or NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    whole = column if pa.types.is_integer(column.type) else None
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        lower = pc.utf8_lower(column)
        blank = pc.is_in(lower, pa.array(["", "nan", "na", "n/a", "null", "none"]))
        column = pc.if_else(blank, pa.scalar(None, column.type), column)
        whole = column.filter(pc.match_substring_regex(column, r"^[+-]?\d+$"))
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid:
            bad = [_no_number(text) for text in column.to_pylist()]
            first = column[bad.index(True)].as_py()
            hint = "; write decimals with a point" if "," in first else ""
            raise BadInput(
                f"{what} holds {first!r}, which is no number, in {rows_named(np.array(bad))}{hint}"
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
    if whole is not None and (np.abs(values) > 2**53).any():
        told_apart = len({float(v) for v in pc.unique(whole).to_pylist() if v is not None})
        if told_apart < pc.count_distinct(whole).as_py():
            raise BadInput(
                f"{what} holds whole numbers beyond 2**53 that floats can't tell apart; write "
                "their ranks instead"
            )
    lacking = np.isnan(values)
    if lacking.any() and missing == "raise":
        raise BadInput(f"{what} has no number in {rows_named(lacking)}; fill them in or drop them")
    infinite = np.isinf(values)
    if infinite.any():
        raise BadInput(f"{what} is infinite in {rows_named(infinite)}; finite numbers are needed")
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

    if pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type):
        raise BadInput(f"a segment column holds {column.type} values; plain values are needed")
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().chunk(0)
    values, inner = column.dictionary, column.dictionary.type
    if pa.types.is_integer(inner):
        kind, words = "number", [str(v) for v in values.to_pylist()]
    elif pa.types.is_floating(inner) or pa.types.is_decimal(inner):
        kind, words = "number", [number_word(float(v)) for v in values.to_pylist()]
    elif pa.types.is_boolean(inner):
        kind, words = "truth", [str(v).lower() for v in values.to_pylist()]
    elif pa.types.is_temporal(inner):
        kind, words = "date", [date_word(v) for v in values.to_pylist()]
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


def filled(read: Words, what: str, name: str | None, *, segment: bool = True) -> Words:
    """Give rows without a word the word `name`, or say that they have none."""
    if not read.missing.any():
        return read
    if name is None:
        hint = ", or pass --missing-segment NAME to make a segment of them" if segment else ""
        raise BadInput(f"{what} is empty in {rows_named(read.missing)}; fill them in{hint}")
    words = read.words if name in read.words else [*read.words, name]
    return Words(words, np.where(read.missing, words.index(name), read.codes), read.kind)


def is_number(word: str) -> bool:
    """Tell whether a word is a finite number."""
    try:
        return math.isfinite(float(word)) and "_" not in word
    except ValueError:
        return False


def same_number(one: str, two: str) -> bool:
    """Tell whether two words are the same number."""
    try:
        return float(one) == float(two)
    except ValueError:
        return False


def number_word(number: float) -> str:
    """Write a number as the same word whether it was stored whole or not."""
    return str(int(number)) if number.is_integer() else repr(number)


def date_word(moment: Any) -> str:
    """Write a date without a time that says nothing."""
    return str(moment).removesuffix(" 00:00:00").removesuffix("T00:00:00")


def sort_key(segment: Any) -> tuple[Any, ...]:
    """Order segments by their numbers where they are numbers."""
    parts = segment if isinstance(segment, tuple) else (segment,)
    key: list[Any] = []
    for part in parts:
        try:
            key.append((0, float(part), str(part)))
        except (TypeError, ValueError):
            key.append((1, 0.0, str(part)))
    return tuple(key)
