"""The stage `read-csv`: reads the rows of CSV files, with declared types.

Types are never guessed, because the first rows of a file prove nothing about other rows or files.
Columns without a declared type are text, so all files of a run have the same schema.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from typing import ClassVar, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.data.files.opening import (
    READ_ERRORS,
    BadInput,
    UnreadableFileError,
    open_decompressed,
)
from strandline.data.tables.conforming import cast
from strandline.data.tables.file_references import FileReference, list_references
from strandline.data.tables.schema_reader import SchemaReader
from strandline.plan.stages.columns import Columns
from strandline.plan.task import Task
from strandline_packs.tables.contents.first_bytes import (
    describe_contents,
    explain_misread,
    find_kind,
)

_KEY = "key"
_MOST_CHARACTERS = 1 << 30  # limit for the length of a value; Python's default is 128 KiB
_SNIFFED = 4096  # bytes to examine at the start of a file
_ROWS_LOOKED_AT = 20  # number of rows in which columns are counted
_DELIMITERS = (",", ";", "\t", "|")
_OPEN_QUOTE = "a quote in this row is never closed"
# Kinds of files that are certainly not CSV. Omits ambiguous kinds: a column name such as `ORCID`
# starts like an ORC file.
_SURELY_ELSE = frozenset({"HTML", "a login page", "XML", "JSON Lines", "a pointer of Git LFS"})


class CsvType(StrEnum):
    """Type of a column's values."""

    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TIME = "time"


_TYPES = {
    CsvType.TEXT: pa.string(),
    CsvType.INT: pa.int64(),
    CsvType.FLOAT: pa.float64(),
    CsvType.BOOL: pa.bool_(),
    CsvType.TIME: pa.timestamp("us"),
}
_CHECKS = {
    CsvType.INT: pa.types.is_integer,
    CsvType.FLOAT: pa.types.is_floating,
    CsvType.BOOL: pa.types.is_boolean,
    CsvType.TIME: pa.types.is_timestamp,
}


class _Record(NamedTuple):
    """A row, and the line number of its start."""

    line: int
    values: list[str]


class ReadCsv(SchemaReader):
    """Reads the files in `path`. A row without a `key` gets a key from its file and line."""

    class Params(SchemaReader.Params):
        """Configures how rows are read."""

        delimiter: str = Field(
            default=",", min_length=1, max_length=1, description="Separator between values."
        )
        quote: str = Field(
            default='"',
            max_length=1,
            description="Character that encloses values that contain a delimiter or a line end; "
            "doubled within a value. If empty, quotes are ordinary characters.",
        )
        escape: str = Field(
            default="",
            max_length=1,
            description="Character before a quote or delimiter that is part of a value, such as a "
            "backslash.",
        )
        header: tuple[str, ...] = Field(
            default=(),
            description="Names of the columns; by default those in the first row of each file.",
        )
        types: dict[str, CsvType] = Field(
            default={},
            description="Types of columns by name: `int`, `float`, `bool` (true and false), `time` "
            "(ISO 8601). Other columns are text. An empty value of a listed column is null.",
        )
        max_rows: int = Field(default=10_000, ge=1, description="Maximum number of rows of a task.")
        bad_lines: BadInput = Field(
            default=BadInput.FAIL,
            description="Rows with more or fewer values than columns, or with a value of the wrong "
            "type: `fail` the source, naming file, line and column, or `drop` and count them.",
        )

        @model_validator(mode="after")
        def _check(self) -> Self:
            if len(set(self.header)) < len(self.header):
                msg = "two columns of `header` have the same name"
                raise ValueError(msg)
            return self

    params: Params
    added_params: ClassVar[frozenset[str]] = SchemaReader.added_params | {"quote", "escape"}
    keeps_columns = False

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def change_columns(self, columns: Columns) -> Columns:
        if self.schema is not None:
            return super().change_columns(columns)
        names = dict.fromkeys((_KEY, *self.params.header, *self.params.types))
        return Columns(tuple(names), is_open=not self.params.header)

    def setup(self) -> None:
        """Raise Python's limit for the length of values."""
        csv.field_size_limit(_MOST_CHARACTERS)

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of at most `maxRows` rows; .gz, .zst, .bz2 and .lz4 are decompressed.

        Raises:
            UnreadableFileError: a file can't be read, is not CSV or has no valid row, or a row is
                invalid and `badLines` is `fail`.
        """
        for file in list_references(task):
            try:
                yield from map(task.replace, self._read(file))
            except (*READ_ERRORS, UnicodeDecodeError) as error:
                raise explain_misread(file, error) from error

    def _read(self, file: FileReference) -> Iterator[pa.Table]:
        with open_decompressed(file.path) as stream:
            self._check_begin(file)
            # Keep line ends as stored: quoted values may contain line ends.
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            records = _list_records(file, self._parse(text, self.params.delimiter))
            names = self.params.header or self._read_header(file, records)
            self._check_types(file, names)
            total = left = 0
            while chunk := list(islice(records, self.params.max_rows)):
                table = self._build(file, names, chunk)
                total, left = total + len(chunk), left + table.num_rows
                if table.num_rows:
                    yield self.conform(file.key, table)
        if total and not left:
            msg = f"{file.key}: none of its {total:,} rows is valid; {describe_contents(file.path)}"
            raise UnreadableFileError(msg)

    def _parse(self, lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
        """Return the reader of a dialect."""
        quote = self.params.quote
        return csv.reader(
            lines,
            delimiter=delimiter,
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            escapechar=self.params.escape or None,
            # Reject misplaced quotes, which `csv` would read as part of a value.
            strict=True,
        )

    def _check_begin(self, file: FileReference) -> None:
        """Reject input that is not CSV or uses another delimiter.

        Without this check, each line would parse as a row of one column. A single column is
        accepted only if `header` names a single column.
        """
        with open_decompressed(file.path) as stream:
            first = stream.read(_SNIFFED)
        kind, _ = find_kind(first)
        if b"\0" in first or kind in _SURELY_ELSE:
            raise UnreadableFileError(f"{file.key}: not CSV; {describe_contents(file.path)}")
        lines = list(io.StringIO(first.decode("utf-8-sig", "replace"), newline=""))
        if len(first) == _SNIFFED:
            lines.pop()  # the last line may be incomplete
        widths = self._list_widths(lines, self.params.delimiter)
        if len(self.params.header) == 1 or widths[:1] != [1]:
            return
        for delimiter in _DELIMITERS:
            found = self._list_widths(lines, delimiter)
            if len(found) > 1 and found[0] > 1 and len(set(found)) == 1:
                what = f"one column with the delimiter {self.params.delimiter!r}"
                hint = (
                    f"but {found[0]} with {delimiter!r}: set `delimiter`, or name the column with "
                    "`header`"
                )
                raise UnreadableFileError(f"{file.key}: {what}, {hint}")

    def _list_widths(self, lines: Sequence[str], delimiter: str) -> list[int]:
        """Return the number of values in each of the first rows, up to an invalid row."""
        widths: list[int] = []
        with suppress(csv.Error):
            widths += (len(row) for row in self._parse(lines[:_ROWS_LOOKED_AT], delimiter) if row)
        return widths

    def _read_header(self, file: FileReference, records: Iterator[_Record]) -> tuple[str, ...]:
        first = next(records, None)
        names = tuple(first.values) if first else ()
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise UnreadableFileError(f"{file.key}: two columns are called {twice!r}; rename them "
                                      "with `header`")  # fmt: skip
        return names

    def _check_types(self, file: FileReference, names: tuple[str, ...]) -> None:
        missing = [name for name in self.params.types if names and name not in names]
        if missing:
            msg = (
                f"{file.key}: there is no column {missing[0]!r}; the columns are: "
                f"{', '.join(names)}"
            )
            raise UnreadableFileError(msg)

    def _build(
        self, file: FileReference, names: tuple[str, ...], records: list[_Record]
    ) -> pa.Table:
        """Return a table of the valid rows."""
        fit = [record for record in records if self._fits(file, names, record)]
        columns = {name: [record.values[at] for record in fit] for at, name in enumerate(names)}
        kinds = {name: self._find_kind(name) for name in names}
        bad: set[int] = set()
        for name, kind in kinds.items():
            misfits = set(_find_misfits(columns[name], kind))
            for at in sorted(misfits - bad):  # a row with several invalid values counts once
                what = f"{columns[name][at]!r} in the column {name!r} is not a valid {kind.value}"
                if name not in self.params.types:
                    what += self.explain_refusal()
                self._refuse(file, fit[at].line, what, f"no {kind.value}")
            bad |= misfits
        chosen = [at for at in range(len(fit)) if at not in bad]
        arrays = {
            name: _convert([columns[name][at] for at in chosen], kind)
            for name, kind in kinds.items()
        }
        if _KEY not in arrays:
            keys = [f"{file.key}#L{fit[at].line}" for at in chosen]
            arrays = {_KEY: pa.array(keys, pa.string()), **arrays}
        return pa.table(arrays)

    def _find_kind(self, name: str) -> CsvType:
        """Return the type of a column from `types`, from the schema, or text."""
        if name in self.params.types or self.schema is None or name not in self.schema.names:
            return self.params.types.get(name, CsvType.TEXT)
        wanted = self.schema.field(name).type
        found = (kind for kind, is_one in _CHECKS.items() if is_one(wanted))
        return next(found, CsvType.TEXT)

    def _fits(self, file: FileReference, names: tuple[str, ...], record: _Record) -> bool:
        if len(record.values) == len(names):
            return True
        what = f"{len(record.values)} values for {len(names)} columns"
        self._refuse(file, record.line, what, "other number of values")
        return False

    def _refuse(self, file: FileReference, line: int, details: str, reason: str) -> None:
        if self.params.bad_lines is BadInput.FAIL:
            raise UnreadableFileError(f"{file.key}#L{line}: {details}")
        self.count(f"dropped: {reason}")


def _list_records(file: FileReference, reader: Iterator[list[str]]) -> Iterator[_Record]:
    """Yield the rows except blank lines, with the number of their first lines.

    Raises:
        UnreadableFileError: a row violates the dialect, or a quote is not closed.
    """
    line = 1
    try:
        for values in reader:
            if values:
                yield _Record(line, values)
            line = reader.line_num + 1  # type: ignore[attr-defined]  # csv's reader has it
    except csv.Error as error:
        what = _OPEN_QUOTE if str(error) == "unexpected end of data" else str(error)
        raise UnreadableFileError(f"{file.key}#L{line}: {what}") from error


def _find_misfits(values: list[str], kind: CsvType) -> list[int]:
    """Return the positions of values that can't be converted to a type."""
    try:
        _convert(values, kind)
    except pa.ArrowInvalid:
        # Misfits are rare, so this slow path converts value by value.
        return [at for at, value in enumerate(values) if not _is_convertible(value, kind)]
    return []


def _is_convertible(value: str, kind: CsvType) -> bool:
    try:
        _convert([value], kind)
    except pa.ArrowInvalid:
        return False
    return True


def _convert(values: list[str], kind: CsvType) -> pa.Array | pa.ChunkedArray:
    if kind is CsvType.TEXT:
        return pa.array(values, pa.string())
    column = pa.chunked_array([[value.strip() or None for value in values]], pa.string())
    return cast(column, _TYPES[kind])
