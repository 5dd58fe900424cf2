"""Finds and removes vanished sources, which are in the ledger but no longer in a listing.

A finished source that is missing in the listing stays, unless the pipeline has another policy. But
parts belong to their file, so parts that a listed file no longer has are removed. The module never
removes sources from folders that the listing did not visit. The module must not depend on the time
of the call, or on the stage that lists.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from strandline.ledger.records.entries import (
    Change,
    FailureRecord,
    ListedSource,
    Mark,
    QuarantinedSource,
    RemovalPolicy,
)
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key
from strandline.storage.outputs.ports import OutputStore

_BORDERS = re.compile("[/#]")
_REMOVAL = 0  # attempt in the marks of sources that will be removed


class ListingScope(NamedTuple):
    """Scope of a listing.

    Attributes:
        is_whole: True if the listing was complete except for the gaps, so that missing sources no
            longer exist.
        gaps: prefixes of keys (files and folders) that the listing did not visit.
        unfinished: number of listed, unfinished sources, or None if not counted.
    """

    is_whole: bool = True
    gaps: frozenset[str] = frozenset()
    unfinished: int | None = None


DELETE_ALL = RemovalPolicy(everywhere=True)
ALL = ListingScope()


class SeenSources:
    """A set of source digests that may be larger than memory; deleted when closed.

    Args:
        part_suffix: see `RemovalPolicy`. If set, the files of listed parts are recorded too.
    """

    def __init__(self, part_suffix: str = "") -> None:
        self._suffix = re.compile(f"(?:{part_suffix})\\Z") if part_suffix else None
        # For an empty name, SQLite creates a private database that it can spill to a temporary
        # file.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for table in ("seen", "files"):
            sql = f"CREATE TABLE {table} (source BLOB PRIMARY KEY) WITHOUT ROWID"
            self._database.execute(sql)

    def add(self, sources: Iterable[bytes], files: Iterable[bytes] = ()) -> None:
        """Record listed sources, and the files whose parts were listed."""
        self._database.execute("BEGIN")
        for table, digests in (("seen", sources), ("files", files)):
            rows = ((digest,) for digest in digests)
            self._database.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?)", rows)  # noqa: S608 - its own tables
        self._database.execute("COMMIT")

    def add_listed(self, batch: Sequence[ListedSource]) -> None:
        """Record the sources of a batch as listed."""
        files = dict.fromkeys(filter(None, (self._find_file(listed.key) for listed in batch)))
        self.add([listed.source for listed in batch], map(digest_key, files))

    def count(self) -> int:
        """Return the number of listed sources."""
        (number,) = self._database.execute("SELECT count(*) FROM seen").fetchone()
        return int(number)

    def names_file(self, key: str) -> bool:
        """Return True if a source's file was listed, as a whole or in parts."""
        if self._suffix is None:
            return False
        file = digest_key(self._find_file(key) or key)
        query = "SELECT 1 FROM files WHERE source = ? UNION SELECT 1 FROM seen WHERE source = ?"
        return self._database.execute(query, (file, file)).fetchone() is not None

    def _find_file(self, key: str) -> str | None:
        """Return the file whose part a key names, or None if the key does not name a part."""
        found = self._suffix.search(key) if self._suffix else None
        return key[: found.start()] if found else None

    def find_missing(self, sources: Sequence[bytes]) -> list[bytes]:
        """Return the `sources` that were not listed."""
        query = "SELECT 1 FROM seen WHERE source = ?"
        fetch = self._database.execute
        return [source for source in sources if fetch(query, (source,)).fetchone() is None]


def find_vanished(
    store: Store,
    attempt: int,
    known: Collection[bytes],
    seen: SeenSources | None,
    policy: RemovalPolicy = DELETE_ALL,
    scope: ListingScope = ALL,
) -> Iterator[tuple[bytes, str]]:
    """Yield digest and key of each source that the listing of `attempt` no longer has.

    Args:
        known: unfinished sources of the listing.
        seen: all sources of the listing, or None to keep all finished sources.
        policy: which finished sources to remove.
        scope: scope of the listing.
    """
    unfinished: Iterator[tuple[bytes, Mark | FailureRecord | QuarantinedSource]]
    unfinished = chain(store.list_marks(), store.list_failures(), store.list_quarantined())
    for source, entry in unfinished:
        if entry.attempt == attempt or source in known:
            continue
        # A finished source whose replacement failed is handled below, with the finished sources.
        if not isinstance(entry, Mark) and store.find_finished([source]):
            continue
        # If an earlier removal was interrupted, the record is already deleted, so always finish the
        # removal.
        if entry.attempt == _REMOVAL or _is_gone(entry.key, DELETE_ALL, scope, seen):
            yield source, entry.key
    # Most listings include all finished sources. In that case, do not read the records.
    if seen is None or _has_all(store, seen, scope):
        return
    finished = ((source, record.key) for source, _, record in store.list_records())
    while group := dict(islice(finished, 10_000)):
        for source in seen.find_missing(list(group)):
            if _is_gone(group[source], policy, scope, seen):
                yield source, group[source]


def _has_all(store: Store, seen: SeenSources, scope: ListingScope) -> bool:
    """Return True if the listing includes as many finished sources as the ledger has."""
    if scope.unfinished is None:
        return False
    return store.count()["finished"] == seen.count() - scope.unfinished


def _is_gone(
    key: str, policy: RemovalPolicy, scope: ListingScope, seen: SeenSources | None
) -> bool:
    """Return True if a source that is missing in the listing should be removed."""
    # A file in a gap was not visited and may exist.
    if scope.gaps and _lies_within(key, scope.gaps):
        return False
    # Even an incomplete listing has all parts of a listed file, so this part no longer exists.
    if seen is not None and seen.names_file(key):
        return True
    if not scope.is_whole:
        return False
    return policy.everywhere or _lies_within(key, policy.within)


def _lies_within(key: str, paths: Collection[str]) -> bool:
    """Return True if a key equals one of `paths`, is inside it, or names a part of it."""
    if not paths:
        return False
    return key in paths or any(key[: at.start()] in paths for at in _BORDERS.finditer(key))


def clean_away(
    store: Store,
    outputs: OutputStore,
    vanished: Iterable[tuple[bytes, str]],
    work: Callable[[], None] = lambda: None,
) -> int:
    """Remove sources and their outputs. Return the number of removed sources.

    Args:
        work: called for each removed source.
    """
    # Use a list instead of the iterator, which reads the databases that the loop below changes.
    left = iter(list(vanished))
    removed = 0
    while group := list(islice(left, 1000)):
        # Mark the sources first. Otherwise, a crash between the steps would leave records that name
        # missing files.
        marks = [(source, Mark(key, b"", _REMOVAL, 0, is_stale=True)) for source, key in group]
        store.write(Change(mark=marks))
        for source, _ in group:
            store.require_lease()  # another attempt may have written the folder by now
            outputs.remove_others(source, ())
            work()
        store.write(Change(forget=[source for source, _ in group]))
        removed += len(group)
    return removed
