"""How the index of finished sources is packed: neighbours share one value.

A B-tree node costs ten bytes and pages stand a third empty, so ten million 16-byte keys alone would
take half a gigabyte. Here the first 20 bits of a digest are the key of a row, and a row is the
entries of all digests that begin so. Pure functions of bytes; the store reads and writes them, and
what a stamp means is its layout's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_TAIL = 14  # bytes of the digest kept in a row: all but the first two, which are in the key
_VERSION = 8
_STAMP = _TAIL + _VERSION  # where it begins in an entry
_UPPER_HALF = [bytes((byte & 0xF0,)) for byte in range(256)]


class IndexEntry(NamedTuple):
    """A finished source: 8 bytes of its version, and the stamp that says when it was finished."""

    version: bytes
    stamp: bytes


# Looked up for every listed source; the class's own constructor takes twice as long.
_new_tuple = tuple.__new__


def key_row(digest: bytes) -> bytes:
    """Return the key of the row that holds a 16-byte digest."""
    return digest[:2] + _UPPER_HALF[digest[2]]


def pack_entry(digest: bytes, entry: IndexEntry) -> bytes:
    """Return what is added to the digest's row, where it is not in it yet."""
    version, stamp = entry
    return digest[2:] + version + stamp


class IndexRows:
    """Rows of entries with stamps of one size.

    Args:
        stamp: bytes of a stamp.

    Attributes:
        width: bytes of an entry.
    """

    def __init__(self, stamp: int) -> None:
        self.width = _STAMP + stamp

    def find(self, row: bytes, digest: bytes) -> IndexEntry | None:
        """Return the digest's entry in its row, if it has one."""
        width = self.width
        at = row.find(digest[2:])
        if at % width:  # not found, or found across two entries
            at = self._find(row, digest)
            if at < 0:
                return None
        version = row[at + _TAIL : at + _STAMP]
        return _new_tuple(IndexEntry, (version, row[at + _STAMP : at + width]))

    def is_finished_before(self, row: bytes, digest: bytes, version: bytes, since: bytes) -> bool:
        """Return whether the digest's entry in its row is of this version, and stamped earlier.

        Most sources of a run that resumes are, so this makes no entry.

        Args:
            since: the stamp from which on entries don't count.
        """
        at = row.find(digest[2:] + version)
        if at < 0:
            return False
        width = self.width
        if at % width:  # found across two entries; its own may lie behind
            entry = self.find(row, digest)
            return entry is not None and version == entry[0] and entry[1] < since
        return row[at + _STAMP : at + width] < since

    def remove(self, row: bytes, digest: bytes) -> bytes:
        """Return the row without the digest's entry."""
        at = self._find(row, digest)
        return row if at < 0 else row[:at] + row[at + self.width :]

    def list_entries(
        self, rows: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, IndexEntry]]:
        """Yield every digest of rows, given with their keys, and its entry."""
        for key, row in rows:
            for at in range(0, len(row), self.width):
                version = row[at + _TAIL : at + _STAMP]
                entry = IndexEntry(version, row[at + _STAMP : at + self.width])
                yield key[:2] + row[at : at + _TAIL], entry

    def _find(self, row: bytes, digest: bytes) -> int:
        tail = digest[2:]
        at = row.find(tail)
        while at >= 0 and at % self.width:
            at = row.find(tail, at + 1)
        return at
