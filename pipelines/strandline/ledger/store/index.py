"""Packs the index of finished sources: all entries with the same first bits share a key.

A B-tree node costs ten bytes, and pages are only two thirds full, so ten million 16-byte keys alone
would take half a gigabyte. Here the first 20 bits of a digest are the key of a row, and the row's
value has the entries of all digests with these bits. The functions do no I/O; the store reads and
writes the bytes, and the layout defines the meaning of a stamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_TAIL = 14  # bytes of a digest in an entry; the first two are in the key
_VERSION = 8
_STAMP = _TAIL + _VERSION  # offset of the stamp in an entry
_UPPER_HALF = [bytes((byte & 0xF0,)) for byte in range(256)]


class IndexEntry(NamedTuple):
    """Entry of a finished source: 8-byte version digest, and a stamp that grows with time."""

    version: bytes
    stamp: bytes


# Entries are created for every listed source. Calling their class instead of `tuple.__new__` takes
# twice as long.
_new_tuple = tuple.__new__


def key_row(digest: bytes) -> bytes:
    """Return the key of the row that contains a 16-byte digest."""
    return digest[:2] + _UPPER_HALF[digest[2]]


def pack_entry(digest: bytes, entry: IndexEntry) -> bytes:
    """Return the bytes of an entry, to append to a row that does not have the digest yet."""
    version, stamp = entry
    return digest[2:] + version + stamp


class IndexRows:
    """Rows of entries with stamps of a fixed size.

    Args:
        stamp: size of a stamp in bytes.

    Attributes:
        width: size of an entry in bytes.
    """

    def __init__(self, stamp: int) -> None:
        self.width = _STAMP + stamp

    def find(self, row: bytes, digest: bytes) -> IndexEntry | None:
        """Return the entry of a digest in its row, or None if it has no entry."""
        width = self.width
        at = row.find(digest[2:])
        if at % width:  # no match, or a match across two entries
            at = self._find(row, digest)
            if at < 0:
                return None
        version = row[at + _TAIL : at + _STAMP]
        return _new_tuple(IndexEntry, (version, row[at + _STAMP : at + width]))

    def is_finished_before(self, row: bytes, digest: bytes, version: bytes, since: bytes) -> bool:
        """Return True if the entry of a digest has this version and a stamp before `since`.

        This is the most frequent look-up when a run resumes, so the code creates no entry object.

        Args:
            since: first stamp that does not count.
        """
        at = row.find(digest[2:] + version)
        if at < 0:
            return False
        width = self.width
        if at % width:  # a match across two entries; the real entry may follow
            entry = self.find(row, digest)
            return entry is not None and version == entry[0] and entry[1] < since
        return row[at + _STAMP : at + width] < since

    def remove(self, row: bytes, digest: bytes) -> bytes:
        """Return the row without the entry of a digest."""
        at = self._find(row, digest)
        return row if at < 0 else row[:at] + row[at + self.width :]

    def list_entries(
        self, rows: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, IndexEntry]]:
        """Yield digest and entry of every source in rows, which are pairs of row key and row."""
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
