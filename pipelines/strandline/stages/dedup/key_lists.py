"""Lists of keys in Parquet files, at any path or URL, and the digest that stands for one.

The digest is of the keys, not of the file: written by another version of a library, in another
order, a list of the same keys is the same list.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.stages.columns import MissingColumnError, find_column
from strandline.stages.sources.opening import UnreadableFileError, explain_error, open_binary

KEY, STAYS = "key", "stays"


class KeyList(NamedTuple):
    """Keys and their digest."""

    keys: frozenset[str]
    digest: str


def write_key_list(path: str, found: Mapping[str, str]) -> None:
    """Write keys, each with the one that stays for it.

    Raises:
        OSError: it can't be written.
    """
    columns = {KEY: list(found), STAYS: list(found.values())}
    table = pa.table({name: pa.array(keys, pa.string()) for name, keys in columns.items()})
    with fsspec.open(path, "wb") as file:
        pq.write_table(table, file)


def read_key_list(path: str, column: str = KEY) -> KeyList:
    """Return the keys in a column of a Parquet file.

    Raises:
        UnreadableFileError: it is not there, can't be read, or has no such column of text.
    """
    keys = _read_column(path, column).to_pylist()
    if None in keys:
        msg = f"{path}: a key is missing in the column {column!r}"
        raise UnreadableFileError(msg)
    state = blake2b(digest_size=16)
    for key in sorted(frozenset(keys)):
        raw = key.encode()
        state.update(len(raw).to_bytes(8, "big") + raw)
    return KeyList(frozenset(keys), state.hexdigest())


def _read_column(path: str, column: str) -> pa.ChunkedArray:
    try:
        with open_binary(path) as file:
            parquet = pq.ParquetFile(file)
            if parquet.schema_arrow.names.count(column) > 1:
                msg = f"there are several columns {column!r}"
                raise MissingColumnError(msg)
            return find_column(parquet.read(), column).cast(pa.string())
    # a URL of an unknown kind is a ValueError, one whose library is missing an ImportError
    except (OSError, pa.ArrowException, ValueError, ImportError) as error:
        raise explain_error(path, error) from error
