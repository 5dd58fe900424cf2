"""How the index of finished sources is packed: neighbours share one value.

A B-tree node costs ten bytes and pages stand a third empty, so ten million 16-byte keys alone would
take half a gigabyte. Here the first 20 bits of a digest are the key of a row, and a row is the
entries of all digests that begin so. Pure functions of bytes; the store reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

_TAIL = 14  # bytes of the digest kept in a row: all but the first two, which are in the key
_VERSION = 8
_ATTEMPT = 3
WIDTH = _TAIL + _VERSION + _ATTEMPT
_UPPER_HALF = [bytes((byte & 0xF0,)) for byte in range(256)]
_STAMP = Struct(f">{_VERSION}sBH")  # a version, and the three bytes of an attempt


class IndexEntry(NamedTuple):
    """A finished source: 8 bytes of its version, and the attempt that finished it."""

    version: bytes
    attempt: int


# Looked up for every listed source; the class's own constructor takes twice as long.
_new_tuple = tuple.__new__


def key_row(digest: bytes) -> bytes:
    """Return the key of the row that holds a 16-byte digest."""
    return digest[:2] + _UPPER_HALF[digest[2]]


def find_entry(row: bytes, digest: bytes) -> IndexEntry | None:
    """Return the digest's entry in its row, if it has one."""
    at = row.find(digest[2:])
    if at % WIDTH:  # not found, or found across two entries
        at = _find(row, digest)
        if at < 0:
            return None
    version, high, low = _STAMP.unpack_from(row, at + _TAIL)
    return _new_tuple(IndexEntry, (version, high << 16 | low))


def is_finished_before(row: bytes, digest: bytes, version: bytes, attempt: bytes) -> bool:
    """Return whether the digest's entry in its row is of this version and another attempt.

    Most sources of a run that resumes are, so this makes no entry.

    Args:
        attempt: as `pack_attempt` gives it.
    """
    at = row.find(digest[2:] + version)
    if at < 0:
        return False
    if at % WIDTH:  # found across two entries; its own may lie behind
        entry = find_entry(row, digest)
        return entry is not None and version == entry[0] and pack_attempt(entry[1]) != attempt
    return row[at + _TAIL + _VERSION : at + WIDTH] != attempt


def pack_attempt(attempt: int) -> bytes:
    """Return the number of an attempt as it stands in an entry."""
    return attempt.to_bytes(_ATTEMPT, "big")


def put_entry(row: bytes, digest: bytes, entry: IndexEntry) -> bytes:
    """Return the row with the digest's entry set or replaced."""
    version, attempt = entry
    packed = digest[2:] + version + pack_attempt(attempt)
    return remove_entry(row, digest) + packed if row else packed


def remove_entry(row: bytes, digest: bytes) -> bytes:
    """Return the row without the digest's entry."""
    at = _find(row, digest)
    return row if at < 0 else row[:at] + row[at + WIDTH :]


def list_entries(key: bytes, row: bytes) -> Iterator[tuple[bytes, IndexEntry]]:
    """Yield every digest of a row with its entry."""
    for at in range(0, len(row), WIDTH):
        digest = key[:2] + row[at : at + _TAIL]
        entry = find_entry(row[at : at + WIDTH], digest)
        assert entry is not None
        yield digest, entry


def _find(row: bytes, digest: bytes) -> int:
    tail = digest[2:]
    at = row.find(tail)
    while at >= 0 and at % WIDTH:
        at = row.find(tail, at + 1)
    return at
