"""Lists of keys in Parquet files at a path or URL, and the digest that identifies a list.

The digest covers the keys, not the files. Another order, more files, or another library version
yields the same digest for the same keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline.data.files.globs import parse_pattern
from strandline.data.files.listing import FileListParams, list_files
from strandline.data.files.opening import UnreadableFileError, explain_error, open_binary
from strandline.data.tables.columns import MissingColumnError, find_column
from strandline.storage.access.stores import open_url
from strandline_packs.tables.contents.row_groups import open_parquet

KEY, STAYS = "key", "stays"
DIGEST_BYTES = 16  # long enough that different keys never collide in practice
_KIND = f"S{DIGEST_BYTES}"


class KeyList:
    """A set of keys that takes 16 bytes of memory per key.

    Args:
        digest: digest of the set; empty for a list from `from_keys`.
        found: sorted digests of the keys.
    """

    def __init__(self, digest: str, found: npt.NDArray[np.bytes_]) -> None:
        self.digest = digest
        self._found = found

    @classmethod
    def from_keys(cls, keys: Iterable[str]) -> Self:
        """Build a list in memory from its keys. The digest stays empty."""
        found = np.array([digest_bytes(key.encode()) for key in keys], _KIND)
        return cls("", np.sort(found))

    def __len__(self) -> int:
        return len(self._found)

    def find(self, keys: Sequence[str]) -> list[bool]:
        """Return whether each key is listed."""
        if not len(self._found):
            return [False] * len(keys)
        wanted = np.array([digest_bytes(key.encode()) for key in keys], _KIND)
        # `searchsorted` returns the array length for digests after the last entry.
        positions = np.minimum(np.searchsorted(self._found, wanted), len(self._found) - 1)
        is_listed: list[bool] = (self._found[positions] == wanted).tolist()
        return is_listed


def write_key_list(path: str, found: Mapping[str, str]) -> None:
    """Write dropped keys, each with the retained key that it duplicates.

    Raises:
        OSError: the file can't be written.
    """
    columns = {KEY: list(found), STAYS: list(found.values())}
    table = pa.table({name: pa.array(keys, pa.string()) for name, keys in columns.items()})
    with open_url(path, "wb") as file:
        pq.write_table(table, file)


def list_key_files(path: str) -> list[str]:
    """Return the files that a path, a pattern, or a folder names, or an empty list.

    Raises:
        UnreadableFileError: an existing folder can't be listed.
    """
    # Check for a file first: file names may contain pattern characters, such as `[`.
    if Path(path).is_file() or parse_pattern(path).is_plain:
        return [path]
    params = FileListParams(paths=(path,))
    try:
        return sorted(file.path for file in list_files(params, _ignore, _ignore))
    # The pipeline that writes the list may not have created the folder yet.
    except FileNotFoundError:
        return []
    except (OSError, ValueError, ImportError) as error:
        raise explain_error(path, error) from error


def read_key_list(path: str, column: str = KEY) -> KeyList:
    """Return the keys in a column of Parquet files, or an empty list if there are no files.

    Args:
        path: a file, a file pattern as in sources, or a folder with a trailing slash.

    Raises:
        UnreadableFileError: a file is missing, unreadable, or lacks the text column.
    """
    parts = [_read_column(file, column) for file in list_key_files(path)]
    chunks = [chunk for part in parts for chunk in part.chunks]
    keys = pc.unique(pa.chunked_array(chunks, pa.large_string()))
    if keys.null_count:
        msg = f"{path}: a key is missing in the column {column!r}"
        raise UnreadableFileError(msg)
    state, found = blake2b(digest_size=DIGEST_BYTES), np.empty(len(keys), _KIND)
    # Digest the keys in sorted order, so that the digest depends neither on files nor on rows.
    for at, key in enumerate(keys.take(pc.sort_indices(keys))):
        raw = key.as_buffer().to_pybytes()
        state.update(len(raw).to_bytes(8, "big") + raw)
        found[at] = digest_bytes(raw)
    found.sort()
    return KeyList(state.hexdigest(), found)


def find_retained(path: str, column: str, key: str) -> str | None:
    """Return the key that a list names as retained instead of a key, or None if it names none.

    Args:
        path, column: see `read_key_list`.
    """
    for each in list_key_files(path):
        with open_binary(each) as file:
            parquet = open_parquet(file)
            if not {column, STAYS} <= set(parquet.schema_arrow.names):
                continue
            # Do not use Arrow's threads: they may abort a process that exits at the same time.
            table = parquet.read([column, STAYS], use_threads=False)
        at = pc.index(table[column].cast(pa.large_string()), pa.scalar(key, pa.large_string()))
        if at.as_py() >= 0:
            retained: str | None = table[STAYS][at.as_py()].as_py()
            return retained
    return None


def digest_bytes(raw: bytes) -> bytes:
    """Return the digest of some bytes."""
    return blake2b(raw, digest_size=DIGEST_BYTES).digest()


def _ignore(why: str, within: str = "") -> None:
    """Ignore a pattern without matches; the reader of the list reports it."""


def _read_column(path: str, column: str) -> pa.ChunkedArray:
    try:
        with open_binary(path) as file:
            parquet = open_parquet(file)
            if parquet.schema_arrow.names.count(column) > 1:
                msg = f"there are several columns {column!r}"
                raise MissingColumnError(msg)
            find_column(parquet.schema_arrow.empty_table(), column)
            return find_column(parquet.read([column]), column).cast(pa.large_string())
    # An unknown URL scheme raises ValueError, and a missing library raises ImportError.
    except (OSError, pa.ArrowException, ValueError, ImportError) as error:
        raise explain_error(path, error) from error
