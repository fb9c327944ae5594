"""A CSV or Parquet file, its columns found by name and read as Arrow columns."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imbfit.cli.messages import BadInput, first_line, listed


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
            raise BadInput(f"{path} is no readable Parquet file: {first_line(error)}") from None

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
            raise BadInput(f"the header of {path} can't be read: {first_line(error)}") from None
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
            f"{listed(self.names, 15)}"
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
            raise BadInput(f"{self.path} can't be read: {first_line(error)}") from None
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
