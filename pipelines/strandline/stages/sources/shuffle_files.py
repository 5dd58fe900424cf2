"""Files with a row group for each partition: what a pass over a corpus writes for the next one.

Each task of a pass writes one file, in which the rows of each partition stand together; a source of
the next pass is one partition of all files. So no worker holds more than a partition, and a file is
whole or absent like any output. It must not know what the rows mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline.stages.columns import check_names, find_column
from strandline.stages.sources.file_references import FileReference
from strandline.stages.sources.opening import UnreadableFileError, explain_error, open_binary

_MARK = b"strandline.partitions"
_PREFIX_BYTES = 4
_PREFIX_BITS = 8 * _PREFIX_BYTES


def write_partitions(table: pa.Table, by: str, count: int, file: BinaryIO) -> None:
    """Write a table front to back, a row group for each of its partitions, rows in their order.

    Args:
        by: column of digests; a row's partition is told by the first four bytes of its digest.
        count: of the partitions.

    Raises:
        MissingColumnError: there is no such column.
        TypeError: it holds no digests.
        ValueError: two columns have one name.
    """
    check_names(table.schema)
    partitions = _find_partitions(table, by, count)
    order = np.argsort(partitions, kind="stable")
    numbers, starts = np.unique(partitions[order], return_index=True)
    facts = {"count": count, "groups": numbers.tolist()}
    schema = table.schema.with_metadata({_MARK: json.dumps(facts).encode()})
    rows = table.take(pa.array(order)).combine_chunks().cast(schema)
    sink = pa.PythonFile(file, mode="w")
    with pq.ParquetWriter(sink, schema, compression="zstd", store_schema=True) as writer:
        for start, end in pairwise([*starts.tolist(), table.num_rows]):
            writer.write_table(rows.slice(start, end - start), row_group_size=end - start)


def count_partitions(path: str) -> int:
    """Return how many partitions a file is part of.

    Raises:
        UnreadableFileError: it can't be read, or is none of these files.
    """
    with _opened(FileReference(path, path)) as (_, facts):
        return int(facts["count"])


def read_partition(files: Iterable[FileReference], number: int, count: int) -> pa.Table:
    """Return a partition's rows of all files, in the order of the files.

    Raises:
        UnreadableFileError: a file can't be read, or has another number of partitions.
    """
    parts = []
    for file in files:
        with _opened(file) as (parquet, facts):
            if facts["count"] != count:
                msg = f"{file.key}: it has {facts['count']} partitions, and others have {count}"
                raise UnreadableFileError(msg)
            groups = [at for at, each in enumerate(facts["groups"]) if each == number]
            parts.append(parquet.read_row_groups(groups).replace_schema_metadata())
    return pa.concat_tables(parts)


@contextmanager
def _opened(file: FileReference) -> Iterator[tuple[pq.ParquetFile, dict[str, Any]]]:
    """Open one of these files, with what it says of itself."""
    try:
        with open_binary(file.path) as stream:
            parquet = pq.ParquetFile(stream)
            facts = (parquet.schema_arrow.metadata or {}).get(_MARK)
            if facts is None:
                msg = f"{file.key}: the sink `shuffle` has not written it"
                raise UnreadableFileError(msg)
            yield parquet, json.loads(facts)
    except (OSError, pa.ArrowException) as error:
        raise explain_error(file.key, error) from error


def _find_partitions(table: pa.Table, by: str, count: int) -> npt.NDArray[np.int64]:
    column = find_column(table, by)
    kind = column.type
    if not pa.types.is_fixed_size_binary(kind) or kind.byte_width < _PREFIX_BYTES:
        msg = f"the column {by!r} holds {kind}, not digests"
        raise TypeError(msg)
    heads = pc.binary_slice(column.cast(pa.binary()), 0, _PREFIX_BYTES)
    raw = b"".join(heads.to_pylist())
    return np.frombuffer(raw, ">u4").astype(np.int64) * count >> _PREFIX_BITS
