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
from strandline.stages.opening import UnreadableFileError, explain_error, open_binary

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
    """The keys in a column of a Parquet file.

    Raises:
        UnreadableFileError: it is not there, can't be read, or has no such column of text.
    """
    try:
        with open_binary(path) as file:
            keys = find_column(pq.read_table(file), column).cast(pa.string()).to_pylist()
    except (OSError, pa.ArrowException, MissingColumnError) as error:
        raise explain_error(path, error) from error
    if None in keys:
        msg = f"{path}: a key is missing in the column {column!r}"
        raise UnreadableFileError(msg)
    state = blake2b(digest_size=16)
    for key in sorted(frozenset(keys)):
        raw = key.encode()
        state.update(len(raw).to_bytes(8, "big") + raw)
    return KeyList(frozenset(keys), state.hexdigest())
