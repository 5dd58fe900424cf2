"""Lists of keys in Parquet files, at any path or URL, and the digest that stands for one.

The digest is of the keys, not of the files: written by another version of a library, in another
order or in more files, a list of the same keys is the same list.
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
DIGEST_BYTES = 16  # so that in no corpus two that differ are taken for one
_KIND = f"S{DIGEST_BYTES}"


class KeyList:
    """Keys, of which 16 bytes each are in memory.

    Args:
        digest: of the keys.
        found: digests of the keys, in order.
    """

    def __init__(self, digest: str, found: npt.NDArray[np.bytes_]) -> None:
        self.digest = digest
        self._found = found

    @classmethod
    def of(cls, keys: Iterable[str]) -> Self:
        """Return a list of keys that nothing stands for."""
        found = np.array([digest_bytes(key.encode()) for key in keys], _KIND)
        return cls("", np.sort(found))

    def __len__(self) -> int:
        return len(self._found)

    def find(self, keys: Sequence[str]) -> list[bool]:
        """Return whether each of some keys is listed."""
        if not len(self._found):
            return [False] * len(keys)
        wanted = np.array([digest_bytes(key.encode()) for key in keys], _KIND)
        positions = np.minimum(np.searchsorted(self._found, wanted), len(self._found) - 1)
        is_listed: list[bool] = (self._found[positions] == wanted).tolist()
        return is_listed


def write_key_list(path: str, found: Mapping[str, str]) -> None:
    """Write keys, each with the one that stays for it.

    Raises:
        OSError: it can't be written.
    """
    columns = {KEY: list(found), STAYS: list(found.values())}
    table = pa.table({name: pa.array(keys, pa.string()) for name, keys in columns.items()})
    with open_url(path, "wb") as file:
        pq.write_table(table, file)


def list_key_files(path: str) -> list[str]:
    """Return the files of a list: one, or those that a pattern or a folder names; maybe none.

    Raises:
        UnreadableFileError: a folder can't be listed, but for one that is not there.
    """
    if Path(path).is_file() or parse_pattern(path).is_plain:
        return [path]
    params = FileListParams(paths=(path,))
    try:
        return sorted(file.path for file in list_files(params, _ignore, _ignore))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, ImportError) as error:
        raise explain_error(path, error) from error


def read_key_list(path: str, column: str = KEY) -> KeyList:
    """Return the keys in a column of Parquet files; of none, an empty list.

    Args:
        path: of a file, or a pattern as sources take it, or a folder with a slash at its end.

    Raises:
        UnreadableFileError: a file is not there, can't be read, or has no such column of text.
    """
    parts = [_read_column(file, column) for file in list_key_files(path)]
    chunks = [chunk for part in parts for chunk in part.chunks]
    keys = pc.unique(pa.chunked_array(chunks, pa.large_string()))
    if keys.null_count:
        msg = f"{path}: a key is missing in the column {column!r}"
        raise UnreadableFileError(msg)
    state, found = blake2b(digest_size=DIGEST_BYTES), np.empty(len(keys), _KIND)
    for at, key in enumerate(keys.take(pc.sort_indices(keys))):
        raw = key.as_buffer().to_pybytes()
        state.update(len(raw).to_bytes(8, "big") + raw)
        found[at] = digest_bytes(raw)
    found.sort()
    return KeyList(state.hexdigest(), found)


def digest_bytes(raw: bytes) -> bytes:
    """Return the digest of some bytes."""
    return blake2b(raw, digest_size=DIGEST_BYTES).digest()


def _ignore(why: str, within: str = "") -> None:
    """Leave it to the list's reader that a pattern names nothing."""


def _read_column(path: str, column: str) -> pa.ChunkedArray:
    try:
        with open_binary(path) as file:
            parquet = open_parquet(file)
            if parquet.schema_arrow.names.count(column) > 1:
                msg = f"there are several columns {column!r}"
                raise MissingColumnError(msg)
            find_column(parquet.schema_arrow.empty_table(), column)
            return find_column(parquet.read([column]), column).cast(pa.large_string())
    # A URL of an unknown kind is a ValueError, one without its library an ImportError.
    except (OSError, pa.ArrowException, ValueError, ImportError) as error:
        raise explain_error(path, error) from error
