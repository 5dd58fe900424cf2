"""The sink `parquet-partitions`: writes one Parquet file per partition of the sources."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, field_validator

from strandline.data.tables.columns import check_names, find_column
from strandline.plan.stages.ends import SharingSink, SinkStage, Source
from strandline.plan.task import Task
from strandline_packs.sinks.formats.compression import CompressionLevel
from strandline_packs.sinks.formats.dataset_features import Feature, declare_features
from strandline_packs.sinks.jsonl_sink import SharingParams, SinkParams


class ParquetCompression(StrEnum):
    """How pages are compressed."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


def check_schema(schema: pa.Schema) -> None:
    """Check that Parquet supports all columns.

    Raises:
        TypeError: a type is unsupported; the message names the column and a remedy.
        ValueError: two columns share a name.
    """
    check_names(schema)
    try:
        # A new writer rejects unsupported types before any row is written.
        pq.ParquetWriter(pa.BufferOutputStream(), schema).close()
    except pa.ArrowException as error:
        raise _explain_schema(schema, error) from error


def _explain_schema(schema: pa.Schema, error: pa.ArrowException) -> TypeError:
    for field in schema:
        try:
            pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
        except pa.ArrowException:
            what = "objects without any field" if _has_empty(field.type) else str(field.type)
            return TypeError(
                f"the column {field.name!r} holds {what}, which Parquet can't store; leave it out "
                "with `select-columns`, or write `jsonl`"
            )
    return TypeError(f"Parquet can't store these columns ({error})")


def _has_empty(kind: pa.DataType) -> bool:
    """Return whether a type contains structs without fields."""
    if not pa.types.is_nested(kind):
        return False
    inner = [kind.field(at).type for at in range(kind.num_fields)]
    return not inner or any(map(_has_empty, inner))


# Text is a quarter smaller than at Arrow's own level 1, for 3 ms more per megabyte.
_ZSTD_LEVEL = 3


def _describe_pages(compression: ParquetCompression, level: int | None) -> dict[str, Any]:
    """Return the arguments of Arrow's writer that set the compression of pages."""
    if compression is ParquetCompression.ZSTD and level is None:
        level = _ZSTD_LEVEL
    return {"compression": compression.value, "compression_level": level}


class ParquetSink(SharingSink):
    """Writes each task as a Parquet file. The chunks of a table do not affect the bytes."""

    class Params(SharingParams):
        """Configures the layout of files."""

        compression: ParquetCompression = Field(
            default=ParquetCompression.ZSTD, description="Compression of the pages."
        )
        compression_level: CompressionLevel = None
        row_group_rows: int = Field(
            default=65_536, ge=1, description="Maximum number of rows of a row group."
        )
        write_empty: bool = Field(
            default=False,
            description="Also write files without rows, so that a pipeline that reads the files "
            "finds one for every source.",
        )
        features: dict[str, Feature] = Field(
            default_factory=dict,
            description="Meaning of columns for Hugging Face's `datasets`: `image` or `audio` for "
            "bytes, `{classes: [...]}` for labels.",
        )

    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset(
        {"target_bytes", "write_empty", "features", "compression_level"}
    )
    suffix: str = ".parquet"

    def __init__(self, params: BaseModel | None = None, **values: Any) -> None:  # noqa: ANN401 - see the base class
        super().__init__(params, **values)
        self.writes_empty = self.params.write_empty

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the table front to back.

        Raises:
            TypeError: the task has no table, or Parquet does not support a column.
            ValueError: two columns share a name, or a label is not among the classes.
        """
        table = declare_features(task.table, self.params.features)
        check_schema(table.schema)
        pq.write_table(
            table.combine_chunks(),  # chunks would otherwise decide where pages end
            pa.PythonFile(file, mode="w"),
            **_describe_pages(self.params.compression, self.params.compression_level),
            row_group_size=self.params.row_group_rows,
        )

    @property
    def holds_tables(self) -> bool:
        """Return whether files contain the tables unchanged. Features change columns."""
        return not self.params.features

    def read_back(self, file: bytes, rows: range | None) -> tuple[int, pa.Table]:
        """Return the row groups with the requested rows, and the position of their first row."""
        parquet = pq.ParquetFile(pa.BufferReader(file))
        if rows is None:
            # Read without threads: a worker may use only the cores of its pool.
            return 0, _restore_types(parquet, parquet.read(use_threads=False))
        counts = [parquet.metadata.row_group(at).num_rows for at in range(parquet.num_row_groups)]
        bounds = list(enumerate(pairwise(accumulate(counts, initial=0))))
        wanted = [at for at, (begin, end) in bounds if begin < rows.stop and end > rows.start]
        first = bounds[wanted[0]][1][0]
        return first, _restore_types(parquet, parquet.read_row_groups(wanted, use_threads=False))

    def write_shared(self, tasks: Sequence[Task], file: BinaryIO) -> None:
        self._write_groups(pa.concat_tables([task.table for task in tasks]), file)

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        table = pq.read_table(shared[suffix])
        kept = [table.slice(rows.start, len(rows)) for rows in ranges]
        # The empty slice provides the schema if no rows are kept.
        self._write_groups(pa.concat_tables([table.slice(0, 0), *kept]), file)

    def _write_groups(self, table: pa.Table, file: BinaryIO) -> None:
        """Write row groups one by one, so that only one of them is in memory twice."""
        table = declare_features(table, self.params.features)
        check_schema(table.schema)
        target, size = pa.PythonFile(file, mode="w"), self.params.row_group_rows
        pages = _describe_pages(self.params.compression, self.params.compression_level)
        with pq.ParquetWriter(target, table.schema, **pages) as writer:
            for begin in range(0, table.num_rows, size):
                writer.write_table(table.slice(begin, size).combine_chunks(), row_group_size=size)


def _restore_types(parquet: pq.ParquetFile, table: pa.Table) -> pa.Table:
    """Restore the original column types.

    Parquet has no times in seconds, and names the items of lists differently.
    """
    packed = parquet.metadata.metadata[b"ARROW:schema"]
    written = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(packed)))
    metadata = table.schema.metadata
    if table.schema.equals(written.with_metadata(metadata), check_metadata=True):
        return table
    # Missing metadata would otherwise become empty metadata, which is a different schema in a file.
    return table.cast(written).replace_schema_metadata(metadata)


class ParquetPartitions(SinkStage):
    """Writes one Parquet file per partition of the sources, with a row group for each member."""

    class Params(SinkParams):
        """Configures the column that defines partitions, and the layout of files."""

        by: str = Field(
            description="Regular expression; sources share a file if it matches the same text in "
            "their keys. A source whose key does not match has its own file."
        )
        member: str = Field(
            default="key",
            description="Column that names the member of a row; its values, in order, form the row "
            "groups.",
        )
        compression: ParquetCompression = Field(
            default=ParquetCompression.ZSTD, description="Compression of the pages."
        )
        compression_level: CompressionLevel = None

        @field_validator("by")
        @classmethod
        def _check_by(cls, by: str) -> str:
            try:
                re.compile(by)
            except re.error as error:
                msg = f"must be a regular expression: {error}"
                raise ValueError(msg) from error
            return by

    params: Params
    suffix: str = ".parquet"
    added_params: ClassVar[frozenset[str]] = frozenset({"compression_level"})

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.member,)

    def partition_indices(self, source: Source) -> Iterable[str]:
        """Return the text that `by` finds in the source's key."""
        found = re.search(self.params.by, source.key)
        return [found[0]] if found else []

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write a row group for each member, with the member's rows in order.

        Raises:
            TypeError: the task has no table, or Parquet does not support a column.
            MissingColumnError: the member column is missing.
            ValueError: two columns share a name.
        """
        check_schema(task.table.schema)
        with pq.ParquetWriter(
            pa.PythonFile(file, mode="w"),
            task.table.schema,
            **_describe_pages(self.params.compression, self.params.compression_level),
        ) as writer:
            for rows in self._split(task.table):
                writer.write_table(rows, row_group_size=rows.num_rows)

    def _split(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows of each member, sorted by member."""
        # Work chunk by chunk: taking rows of the whole table joins its chunks, which fails for 2 GB
        # of text.
        cuts = [self._cut(pa.Table.from_batches([batch])) for batch in table.to_batches()]
        if not cuts:
            return
        pieces = [piece for _, found in cuts for piece in found]
        order, _, runs = _find_runs(pa.concat_arrays([names for names, _ in cuts]))
        positions = order.to_pylist()
        for run in runs:
            yield pa.concat_tables([pieces[at] for at in positions[run]]).combine_chunks()

    def _cut(self, rows: pa.Table) -> tuple[pa.Array, list[pa.Table]]:
        """Return the sorted members of one chunk, and the rows of each member in order."""
        members = _unwrap(find_column(rows, self.params.member)).chunk(0)
        order, names, runs = _find_runs(members)
        # Rows in order need no copy.
        in_order = rows if _is_rising(order) else rows.take(order)
        return names, [in_order.slice(run.start, run.stop - run.start) for run in runs]


def _find_runs(members: pa.Array) -> tuple[pa.Array, pa.Array, list[slice]]:
    """Return the sort order of the members, the distinct members, and their slices of the order."""
    order = pc.sort_indices(members)  # the sort is stable
    runs = pc.run_end_encode(members.take(order))
    ends = [0, *runs.run_ends.to_pylist()]
    return order, runs.values, [slice(begin, end) for begin, end in pairwise(ends)]


def _unwrap(members: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the members in a type that can be sorted and cut into runs."""
    kind = members.type
    if pa.types.is_dictionary(kind):
        return _unwrap(members.cast(kind.value_type))
    return members.cast(pa.large_string()) if pa.types.is_string_view(kind) else members


def _is_rising(order: pa.Array) -> bool:
    steps = pc.greater(order.slice(1), order.slice(0, max(len(order) - 1, 0)))
    # `min_count=0` makes the result true for fewer than two rows.
    return bool(pc.all(steps, min_count=0).as_py())
