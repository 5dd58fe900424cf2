"""The stage `read-warc`: reads the records of WARC and WET files, in tasks of bounded size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import (
    LEAST_WINDOW,
    RANGE_AHEAD,
    READ_ERRORS,
    UnreadableFileError,
    ZstdWindow,
    explain_error,
    open_binary,
    open_decompressed,
)
from strandline.data.tables.batching import cut_batches
from strandline.data.tables.columns import find_column
from strandline.data.tables.file_references import FileReference, list_references
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.tables.contents.first_bytes import describe_contents
from strandline_packs.web.warc.record_chunks import BORDER, Chunk, read_members, read_records
from strandline_packs.web.warc.warc_records import RecordType, WebRecord, parse_record

_FACTS = ("key", "id", "url", "date", "content_type")
_GZIP, _MARK = b"\x1f\x8b", b"WARC/"
_PACKED = (".zst", ".bz2", ".lz4")


class ReadWarc(Stage):
    """Reads WARC records into rows: key, id, url, date, content_type, and the content."""

    class Params(Stage.Params):
        """Configures the records to keep, and the size of tasks."""

        records: RecordType = Field(
            default=RecordType.RESPONSE,
            description="`response`: pages as they were fetched, with their bytes in `content` and "
            "the encoding from the HTTP headers in `charset`. `conversion`: plain "
            "text, as in WET files, in `text`.",
        )
        content_types: tuple[str, ...] = Field(
            default=("text/html", "application/xhtml+xml"),
            description="Content types of responses to keep; empty keeps all. Responses without a "
            "content type are kept if they look like HTML.",
        )
        statuses: tuple[int, ...] = Field(
            default=(200,), description="HTTP statuses to keep; empty keeps all."
        )
        max_record_bytes: int = Field(
            default=64 << 20,
            ge=1,
            description="Maximum size of a record; larger records are dropped and counted.",
        )
        max_rows: int = Field(default=1_000, ge=1, description="Maximum number of rows of a task.")
        max_task_bytes: int = Field(
            default=16 << 20,
            ge=1,
            description="Number of bytes of content after which a task ends.",
        )
        zstd_window: ZstdWindow = LEAST_WINDOW

    version = "2"
    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"zstd_window"})
    keeps_columns = False
    adds_columns = _FACTS

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path", "start", "stop")

    def change_columns(self, columns: Columns) -> Columns:
        return super().change_columns(columns).having(self._schema.names[len(_FACTS) :])

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of pages in file order, and count damaged records.

        Raises:
            UnreadableFileError: a file can't be read, or has no record.
        """
        starts = find_column(task.table, "start").to_pylist()
        stops = find_column(task.table, "stop").to_pylist()
        ranges = zip(list_references(task), starts, stops, strict=True)
        found = (each for file, start, stop in ranges for each in self._read(file, start, stop))
        params = self.params
        for batch in cut_batches(found, _measure, params.max_rows, params.max_task_bytes):
            yield task.replace(self._build_table([self._format_row(*each) for each in batch]))

    @property
    def _schema(self) -> pa.Schema:
        """Columns for the type of records to read."""
        facts = [(name, pa.string()) for name in _FACTS]
        if self.params.records is RecordType.CONVERSION:
            return pa.schema([*facts, ("text", pa.string())])
        return pa.schema([*facts, ("charset", pa.string()), ("content", pa.binary())])

    def _read(
        self, file: FileReference, start: int, stop: int | None
    ) -> Iterator[tuple[str, WebRecord]]:
        params = self.params
        numbers: Counter[int] = Counter()
        # A range without records is valid: all its bytes may belong to a record of an earlier
        # range.
        is_understood = start > 0 or stop is not None
        problem = ""
        try:
            for chunk in self._cut(file.path, start, stop):
                is_understood = is_understood or not chunk.problem
                problem = problem or chunk.problem
                record = WebRecord(problem=chunk.problem)
                if not chunk.problem:
                    record = parse_record(chunk.data, params.records, params.max_record_bytes)
                if record.other:
                    self.count(f"passed over: {record.other} record")
                    continue
                key = f"{file.key}#{chunk.offset}"
                # Records in a gzip member share an offset, so later records get a number.
                number = numbers[chunk.offset]
                numbers = Counter({chunk.offset: number + 1})  # offsets only increase
                if self._is_kept(record):
                    yield (f"{key}.{number}" if number else key), record
        except READ_ERRORS as error:
            raise explain_error(file.key, error) from error
        if problem and not is_understood:
            msg = f"{file.key}: it has no WARC record ({problem}); {describe_contents(file.path)}"
            raise UnreadableFileError(msg)

    def _cut(self, path: str, start: int, stop: int | None) -> Iterator[Chunk]:
        most = self.params.max_record_bytes
        if path.lower().endswith(_PACKED):
            with open_decompressed(path, self.params.zstd_window) as stream:
                yield from read_records(stream, 0, None, most)
            return
        ahead = RANGE_AHEAD if stop is not None else None
        with open_binary(path, ahead=ahead) as file:
            # Look at the bytes: files are often compressed or unpacked without being renamed.
            begin = file.read(len(_MARK))
            is_packed = begin.startswith(_GZIP)
            if not is_packed and begin != _MARK:
                # If the first bytes are damaged, the name decides.
                is_packed = path.lower().endswith(".gz")
            file.seek(start if is_packed else max(start - BORDER, 0))
            yield from (read_members if is_packed else read_records)(file, start, stop, most)

    def _is_kept(self, record: WebRecord) -> bool:
        reason = self._find_reason(record)
        if reason:
            self.count(f"dropped: {reason}")
        return not reason

    def _find_reason(self, record: WebRecord) -> str:
        params = self.params
        if record.problem:
            return f"broken record ({record.problem})"
        if params.records is RecordType.CONVERSION:
            return ""
        is_http = record.status is not None
        if params.statuses and is_http and record.status not in params.statuses:
            return "other status"
        if params.content_types and record.content_type not in params.content_types:
            return "other content type"
        return ""

    def _format_row(self, key: str, record: WebRecord) -> tuple[object, ...]:
        facts = (key, record.id, record.url, record.date, record.content_type)
        if self.params.records is RecordType.CONVERSION:
            return (*facts, record.content.decode("utf-8", "replace"))
        return (*facts, record.charset, record.content)

    def _build_table(self, rows: list[tuple[object, ...]]) -> pa.Table:
        schema = self._schema
        columns = zip(*rows, strict=True)
        arrays = [
            pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)


def _measure(found: tuple[str, WebRecord]) -> int:
    return len(found[1].content)
