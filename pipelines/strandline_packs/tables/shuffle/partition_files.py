"""Files with a row group for each partition: one pipeline writes them, and the next one reads them.

Each task of the first pipeline writes one file with the rows grouped by partition. A source of the
next pipeline is one partition across all files, so a worker holds at most one partition, and files
are complete or absent like any output. The module must not depend on the meaning of rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline.data.files.globs import is_url
from strandline.data.files.opening import (
    PART_AHEAD,
    UnreadableFileError,
    explain_error,
    open_binary,
)
from strandline.data.tables.columns import check_names, find_column, list_texts
from strandline.data.tables.file_references import FileReference
from strandline_packs.tables.shuffle.row_order import (
    find_partitions,
    order_keys,
    order_positions,
    part_keys,
)
from strandline_packs.tables.shuffle.row_weights import MixUnit, Scales, Supply, measure_supply

_MARK = b"strandline.partitions"
_PREFIX_BYTES = 4


class PartitionRules(NamedTuple):
    """Rules that assign rows to partitions.

    Attributes:
        partitions: number of partitions.
        by: column of digests, or of keys if a seed is set.
        seed: seed of the row order. None keeps the file order: rows with equal digests share a
            partition.
        block: number of consecutive rows of a task that stay together; 1 shuffles rows separately.
        scales: columns with the weights of rows; used only if rows are shuffled separately.
    """

    partitions: int
    by: str = ""
    seed: int | None = None
    block: int = 1
    scales: Scales = Scales()

    @property
    def is_weighed(self) -> bool:
        """Return whether files record the amounts in each partition."""
        return self.seed is not None and self.block == 1


class FileFacts(NamedTuple):
    """Metadata of a file.

    Attributes:
        parting: assignment of the rows to partitions.
        groups: partition of each row group.
        supplies: amount in each row group; empty if rows are not weighed.
    """

    parting: PartitionRules
    groups: list[int]
    supplies: list[Supply]


def write_partitions(table: pa.Table, parting: PartitionRules, file: BinaryIO) -> None:
    """Write a table as one row group per partition, keeping the order of rows.

    Raises:
        MissingColumnError: the column is missing.
        TypeError: the column has no digests, or no keys.
        ValueError: two columns have the same name.
    """
    check_names(table.schema)
    partitions = _find_partitions(table, parting)
    # A stable sort: rows of a partition keep the order of the table.
    order = np.argsort(partitions, kind="stable")
    numbers, starts = np.unique(partitions[order], return_index=True)
    rows = table.take(pa.array(order)).combine_chunks()
    bounds = [*pairwise([*starts.tolist(), table.num_rows])]
    weighed = bounds if parting.is_weighed else []
    supplies = [measure_supply(rows[start:end], parting.scales) for start, end in weighed]
    facts = FileFacts(parting, numbers.tolist(), supplies)
    schema = table.schema.with_metadata({_MARK: _format_facts(facts)})
    rows = rows.cast(schema)
    sink = pa.PythonFile(file, mode="w")
    with pq.ParquetWriter(sink, schema, compression="zstd", store_schema=True) as writer:
        for start, end in bounds:
            writer.write_table(rows.slice(start, end - start), row_group_size=end - start)


def measure_partition(files: Iterable[FileReference]) -> tuple[int, int]:
    """Return the number of partitions, and the average bytes of a partition.

    Raises:
        UnreadableFileError: a file can't be read, or the sink did not write it.
    """
    count = size = 0
    for file in files:
        with _opened(file) as (parquet, facts):
            count = facts.parting.partitions
            groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
            size += sum(group.total_byte_size for group in groups)
    return count, size // max(count, 1)


def read_facts(files: Iterable[FileReference]) -> Iterator[FileFacts]:
    """Yield the metadata of files.

    Raises:
        UnreadableFileError: a file can't be read, or is partitioned differently.
    """
    first: PartitionRules | None = None
    for file in files:
        with _opened(file) as (_, facts):
            first = first or facts.parting
            _check_parting(file, facts.parting, first)
        yield facts


def read_partitions(files: Iterable[FileReference], numbers: range, count: int) -> pa.Table:
    """Return the rows of some partitions from all files, in the drawn order or in file order.

    Args:
        numbers: numbers of the partitions.
        count: number of all partitions.

    Raises:
        UnreadableFileError: a file can't be read, or is partitioned differently.
    """
    rows, parting = read_parts(files, numbers, count)
    if parting.seed is None:
        return rows
    if parting.block > 1:
        drawn = order_positions(rows.num_rows, parting.seed, numbers.start)
    else:
        drawn = order_keys(list_texts(rows, parting.by), parting.seed)
    return rows.take(pa.array(np.argsort(drawn, kind="stable")))


def read_parts(
    files: Iterable[FileReference], numbers: range, count: int | None = None
) -> tuple[pa.Table, PartitionRules]:
    """Return the rows of some partitions in file order, and the rules of their partitioning.

    Args:
        count: number of all partitions; None for the number in the first file.

    Raises:
        UnreadableFileError: a file can't be read, or is partitioned differently.
    """
    parts: list[pa.Table] = []
    first: PartitionRules | None = None
    for file in files:
        with _opened(file) as (parquet, facts):
            first = first or facts.parting._replace(partitions=count or facts.parting.partitions)
            _check_parting(file, facts.parting, first)
            groups = [at for at, each in enumerate(facts.groups) if each in numbers]
            parts.append(parquet.read_row_groups(groups).replace_schema_metadata())
    assert first is not None  # a source has at least one file
    return pa.concat_tables(parts), first


def _check_parting(file: FileReference, parting: PartitionRules, first: PartitionRules) -> None:
    if parting.partitions != first.partitions:
        msg = (
            f"{file.key}: it has {parting.partitions} partitions, and others have "
            f"{first.partitions}"
        )
        raise UnreadableFileError(msg)
    if parting != first:
        msg = f"{file.key}: its rows are partitioned differently from other files"
        raise UnreadableFileError(msg)


@contextmanager
def _opened(file: FileReference) -> Iterator[tuple[pq.ParquetFile, FileFacts]]:
    """Open a file, and yield its reader and metadata."""
    try:
        with open_binary(file.path, ahead=PART_AHEAD) as stream:
            # Pre-buffering joins adjacent column chunks into one request to a store.
            parquet = pq.ParquetFile(stream, pre_buffer=is_url(file.path))
            text = (parquet.schema_arrow.metadata or {}).get(_MARK)
            if text is None:
                msg = f"{file.key}: the sink `shuffle` did not write this file"
                raise UnreadableFileError(msg)
            yield parquet, _parse_facts(text)
    except (OSError, pa.ArrowException) as error:
        raise explain_error(file.key, error) from error


def _format_facts(facts: FileFacts) -> bytes:
    count, *drawn = facts.parting
    known: dict[str, Any] = {"count": count, "groups": facts.groups}
    if facts.parting.seed is not None:  # without a seed, the bytes match those of earlier releases
        known |= {"order": drawn, "supplies": facts.supplies}
    return json.dumps(known).encode()


def _parse_facts(text: bytes) -> FileFacts:
    facts = json.loads(text)
    *order, scales = facts.get("order", [Scales()])
    parting = PartitionRules(facts["count"], *order)._replace(scales=Scales(*scales))
    supplies = [
        {
            stratum: {MixUnit(unit): sum_ for unit, sum_ in sums.items()}
            for stratum, sums in each.items()
        }
        for each in facts.get("supplies", ())
    ]
    return FileFacts(parting, facts["groups"], supplies)


def _find_partitions(table: pa.Table, parting: PartitionRules) -> npt.NDArray[np.int64]:
    if parting.seed is not None:
        find_column(table, parting.by)
        begins = pa.array(np.arange(0, table.num_rows, parting.block))
        firsts = table.select([parting.by]).take(begins)
        of_blocks = part_keys(list_texts(firsts, parting.by), parting.seed, parting.partitions)
        return np.repeat(of_blocks, parting.block)[: table.num_rows]
    column = find_column(table, parting.by)
    kind = column.type
    if not pa.types.is_fixed_size_binary(kind) or kind.byte_width < _PREFIX_BYTES:
        msg = f"the column {parting.by!r} holds {kind}, not digests"
        raise TypeError(msg)
    heads = pc.binary_slice(column.cast(pa.binary()), 0, _PREFIX_BYTES)
    return find_partitions(np.frombuffer(b"".join(heads.to_pylist()), ">u4"), parting.partitions)
