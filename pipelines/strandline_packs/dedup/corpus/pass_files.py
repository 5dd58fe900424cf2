"""Reads files that another pass over the corpus wrote, and limits the size of written tables.

An example is the index of retained rows for the next run of all passes, which is read in portions
because the reader needs few of its rows. The module must not depend on which pass decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.opening import PART_AHEAD, explain_error, open_binary
from strandline.data.tables.columns import find_column
from strandline.data.tables.file_references import FileReference
from strandline_packs.dedup.corpus.row_buckets import DIGEST, Digests, read_digests
from strandline_packs.dedup.key_lists import list_key_files

KEPT = pa.schema([("id", DIGEST)])

_BATCH_ROWS = 100_000  # maximum number of rows in memory


def read_portions(file: FileReference, names: list[str]) -> Iterator[pa.Table]:
    """Yield some columns of a file, in portions of rows.

    Raises:
        UnreadableFileError: the file can't be read.
        MissingColumnError: a column is missing.
    """
    try:
        with open_binary(file.path, ahead=PART_AHEAD) as stream:
            parquet = pq.ParquetFile(stream, pre_buffer=False)
            for name in names:
                find_column(parquet.schema_arrow.empty_table(), name)
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=names):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise explain_error(file.key, error) from error


def list_columns(file: FileReference) -> list[str]:
    """Return the names of a file's columns.

    Raises:
        UnreadableFileError: the file can't be read.
    """
    try:
        with open_binary(file.path) as stream:
            names: list[str] = pq.read_schema(stream).names
            return names
    except (OSError, pa.ArrowException) as error:
        raise explain_error(file.key, error) from error


def cut_rows(tables: Iterable[pa.Table], schema: pa.Schema, most: int) -> Iterator[pa.Table]:
    """Yield the rows in tables of at most `most` rows. If there are no rows, yield an empty table.

    If there are no rows, yield one empty table.
    """
    waiting: list[pa.Table] = []
    for found in tables:
        waiting.append(found)
        while sum(map(len, waiting)) > most:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, most)
            waiting = [whole.slice(most)]
    yield pa.concat_tables([schema.empty_table(), *waiting])


def read_kept(path: str) -> Iterator[Digests]:
    """Yield the ids in an index of retained rows. Yield nothing before the first run.

    Args:
        path: a file pattern, as in sources, or a folder with a trailing slash.

    Raises:
        UnreadableFileError: a file can't be read, or has no ids.
    """
    for file in list_key_files(path):
        try:
            for portion in read_portions(FileReference(file, file), KEPT.names):
                yield read_digests(portion, "id")
        except (ValueError, TypeError, ImportError) as error:
            raise explain_error(file, error) from error


def digest_kept(path: str) -> str:
    """Return a digest of the ids in an index, which does not depend on their order or files.

    Raises:
        UnreadableFileError: see `read_kept`.
    """
    count, total = 0, np.zeros(2, np.uint64)
    for ids in read_kept(path):
        # Ids are digests, so their sum identifies the whole set.
        halves = np.frombuffer(ids.tobytes(), np.uint64).reshape(-1, 2)
        count, total = count + len(ids), total + halves.sum(axis=0, dtype=np.uint64)
    return f"{count} rows {total.tobytes().hex()}" if count else "no rows"
