"""Parquet and CSV files, read by pyarrow a batch at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from imbfit._frames import listed
from imbfit.glm.batch_layout import Asked, Layout, lay_out

# A scanner of pyarrow.dataset decodes whole groups of rows and reads ahead, up to hundreds of MB. A
# buffered stream that is decoded batch by batch stays at a few MB for each column, whatever the
# size of the groups.
BUFFER = 2**20

ENDINGS = {
    "parquet": (".parquet", ".pq", ".parq"),
    "csv": (".csv", ".csv.gz", ".csv.bz2", ".csv.zst"),
}


def import_pyarrow() -> Any:
    """Import pyarrow with what is needed of it.

    Returns
    -------
    module
        The package pyarrow.

    Raises
    ------
    ImportError
        If it is missing.
    """
    try:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.fs
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "reading Parquet and CSV needs pyarrow: pip install 'imbfit[scale]'; or give batches "
            "as an iterable"
        ) from error
    return pa


class Files:
    """Files in the order of their paths; calling it gives their batches.

    Parameters
    ----------
    source : path or list of paths
        A file or folder, or files in the order they are to be read.
    asked : Asked
        The columns.
    batch_size : int
        Most rows in a batch.
    """

    def __init__(self, source: Any, asked: Asked, batch_size: int) -> None:
        pa = import_pyarrow()
        self._batch_size = batch_size
        self._filesystem, paths, base = _found(source, pa)
        self._format = _format_of(paths, source)
        # what errors call a file: its path in the folder given, its name where it is the only one
        cut = 0 if base is None else len(base.rstrip("/")) + 1
        if len(paths) == 1 and base is None:
            cut = paths[0].rfind("/") + 1
        self._names = {path: path[cut:] for path in paths}
        self._parsing = pa.csv.ParseOptions(newlines_in_values=True)
        kind = pa.dataset.ParquetFileFormat()
        if self._format == "csv":
            kind = pa.dataset.CsvFileFormat(parse_options=self._parsing)
        try:
            dataset = pa.dataset.dataset(
                paths,
                format=kind,
                filesystem=self._filesystem,
                partitioning="hive",
                **({} if base is None else {"partition_base_dir": base}),
            )
        except pa.ArrowInvalid as error:
            raise ValueError(f"{paths[0]} can't be read as {self._format}: {error}") from error
        self._fragments = list(dataset.get_fragments())
        self._keys = [_keys(fragment, pa) for fragment in self._fragments]
        self._schema = dataset.schema
        what = self._names[paths[0]]
        self.layout: Layout = lay_out(
            asked,
            dataset.schema.names,
            kind="frame",
            beside=0,
            what=what,
            label_is_text=self._format == "csv",
        )
        self._refuse_text(pa, what)

    def _refuse_text(self, pa: Any, what: str) -> None:
        layout = self.layout
        wanted = [*layout.inputs, *([] if layout.weight is None else [layout.weight])]
        types = {name: self._schema.field(name).type for name in wanted}
        wrong = [f"{name!r} ({kind})" for name, kind in types.items() if not _is_number(kind, pa)]
        if wrong:
            raise ValueError(
                f"columns of {what} hold no numbers: {', '.join(wrong[:10])}. Encode them, or name "
                "the features by columns="
            )

    def __call__(self) -> Iterator[tuple[str, int, Any]]:
        """Iterate over batches, each with its file and the number of its first row there."""
        pa = import_pyarrow()
        batches = self._parquet if self._format == "parquet" else self._csv
        for fragment, keys in zip(self._fragments, self._keys, strict=True):
            first, name = 0, self._names[fragment.path]
            try:
                for batch in batches(fragment.path, keys, pa):
                    for start in range(0, len(batch), self._batch_size):
                        piece = batch.slice(start, self._batch_size)
                        size = len(piece)
                        yield name, first, self._given(piece, keys, pa)
                        first += size
            except pa.ArrowInvalid as error:
                raise ValueError(f"{name}: {error}") from error

    def _given(self, batch: Any, keys: dict[str, Any], pa: Any) -> Any:
        """Add the columns that folder names give, and hand a callable what it can work with."""
        for name, value in keys.items():
            if name in self.layout.needed:
                kind = self._schema.field(name).type
                batch = batch.append_column(name, pa.repeat(pa.scalar(value, kind), len(batch)))
        if self.layout.called is None:
            return batch
        try:
            return batch.to_pandas()
        except ImportError as error:
            raise ImportError(
                "an offset that is a callable gets pandas frames: pip install 'imbfit[scale]'"
            ) from error

    def _columns(self, names: list[str], path: str, keys: dict[str, Any]) -> list[str]:
        """Return what to read of a file, which must have the columns of the first one."""
        layout, have = self.layout, [*names, *keys]
        missing = [name for name in layout.needed if name not in have]
        if missing:
            raise ValueError(
                f"{self._names[path]} lacks the column {missing[0]!r}; its columns are "
                f"{listed(have)}"
            )
        more = [name for name in have if name not in layout.every]
        if layout.strict and more:
            raise ValueError(
                f"{self._names[path]} has a column {more[0]!r} that the first file has not; name "
                "the features by columns="
            )
        return [name for name in layout.needed if name not in keys]

    def _parquet(self, path: str, keys: dict[str, Any], pa: Any) -> Iterator[Any]:
        with (
            self._filesystem.open_input_file(path) as stream,
            pa.parquet.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER) as file,
        ):
            columns = self._columns(file.schema_arrow.names, path, keys)
            yield from file.iter_batches(self._batch_size, columns=columns, use_threads=False)

    def _csv(self, path: str, keys: dict[str, Any], pa: Any) -> Iterator[Any]:
        # a row must fit into a block
        block = max(BUFFER, 640 * len(self._schema.names))
        options = pa.csv.ReadOptions(block_size=block, use_threads=False)

        def opened(convert: Any) -> Any:
            stream = self._filesystem.open_input_stream(path, compression="detect")
            return pa.csv.open_csv(
                stream,
                read_options=options,
                parse_options=self._parsing,
                convert_options=convert,
            )

        with opened(pa.csv.ConvertOptions()) as reader:
            names = reader.schema.names
        columns = self._columns(names, path, keys)
        # numbers are floats whatever the first rows look like; labels are read as they are written
        types = {
            name: pa.bool_() if pa.types.is_boolean(self._schema.field(name).type) else pa.float64()
            for name in columns
        }
        types[self.layout.label] = pa.string()
        convert = pa.csv.ConvertOptions(
            column_types=types, include_columns=columns, strings_can_be_null=True
        )
        with opened(convert) as reader:
            try:
                yield from reader
            except pa.ArrowInvalid as error:
                raise ValueError(_worded(str(error), names, self._names[path])) from error


def _worded(error: str, names: list[str], file: str) -> str:
    """Name the column and the row, as they are named everywhere."""
    found = re.match(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to \w+: (.*)", error)
    if found is None:
        return f"{file}: {error}"
    column, row, rest = found.groups()
    # the header is a row, and rows count from 1
    return (
        f"column {names[int(column)]!r} holds no number in row {int(row) - 2} of {file}: {rest}. "
        "Encode it, or leave it out by columns="
    )


def _found(source: Any, pa: Any) -> tuple[Any, list[str], str | None]:
    """Return the file system, the paths of files in order, and the folder given."""
    given = [source] if not isinstance(source, (list, tuple)) else list(source)
    filesystem: Any = pa.fs.LocalFileSystem()
    paths, base = [], None
    for one in map(str, given):
        path = one
        if "://" in one:
            filesystem, path = pa.fs.FileSystem.from_uri(one)
        info = filesystem.get_file_info(path)
        if info.type == pa.fs.FileType.NotFound:
            raise FileNotFoundError(
                f"there is no file or folder {one!r}; for a pattern write "
                "sorted(glob.glob(pattern))"
            )
        if info.type == pa.fs.FileType.File:
            paths.append(path)
            continue
        base = path if len(given) == 1 else None
        found = filesystem.get_file_info(pa.fs.FileSelector(path, recursive=True))
        files = [item.path for item in found if item.type == pa.fs.FileType.File]
        paths += sorted(file for file in files if not _is_hidden(file, path))
    if not paths:
        raise FileNotFoundError(f"there is no Parquet or CSV file in {str(source)!r}")
    return filesystem, paths, base


def _is_hidden(path: str, base: str) -> bool:
    # by the custom of Spark and Hadoop these are no data
    return any(part.startswith((".", "_")) for part in path[len(base) :].split("/"))


def _format_of(paths: list[str], source: Any) -> str:
    kinds: dict[str, str] = {}
    for path in paths:
        for kind, endings in ENDINGS.items():
            if path.lower().endswith(endings):
                kinds.setdefault(kind, path)
                break
        else:
            allowed = ", ".join(ending for group in ENDINGS.values() for ending in group)
            raise ValueError(
                f"{path!r} is neither Parquet nor CSV by its ending (allowed: {allowed}); give the "
                "files as a list, or batches as an iterable"
            )
    if len(kinds) > 1:
        raise ValueError(f"{source!s} has both Parquet and CSV files; give a list of one kind")
    return next(iter(kinds))


def _keys(fragment: Any, pa: Any) -> dict[str, Any]:
    keys: dict[str, Any] = pa.dataset.get_partition_keys(fragment.partition_expression)
    return keys


def _is_number(kind: Any, pa: Any) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )
