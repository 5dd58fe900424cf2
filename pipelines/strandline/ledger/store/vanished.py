"""What the ledger holds and a listing does not name any more: found, and removed with its outputs.

A finished source that is not listed stays, unless its pipeline asks for another rule; but parts of
a file belong to it, so those that a listed file no longer has go. In what a listing has not looked
at nothing is gone. It must not know when that is done, nor which stage has listed.
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
    Quarantined,
    RemovalPolicy,
)
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key
from strandline.storage.outputs.ports import OutputStore

_BORDERS = re.compile("[/#]")
_REMOVAL = 0  # the attempt in the marks of what is about to be removed


class ListingScope(NamedTuple):
    """What a listing has looked at.

    Attributes:
        is_whole: all that it does not name is not there, but for the gaps.
        gaps: files and folders, as keys begin, that it has not looked at.
        unfinished: sources that it names and that are not finished; None: not counted.
    """

    is_whole: bool = True
    gaps: frozenset[str] = frozenset()
    unfinished: int | None = None


DELETE_ALL = RemovalPolicy(everywhere=True)
ALL = ListingScope()


class SeenSources:
    """A set of source digests that may be larger than memory; gone when closed.

    Args:
        part_suffix: see `RemovalPolicy`; of which files parts were listed is kept too.
    """

    def __init__(self, part_suffix: str = "") -> None:
        self._suffix = re.compile(f"(?:{part_suffix})\\Z") if part_suffix else None
        # An empty name is a private database that sqlite spills to a temporary file.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for table in ("seen", "files"):
            sql = f"CREATE TABLE {table} (source BLOB PRIMARY KEY) WITHOUT ROWID"
            self._database.execute(sql)

    def add(self, sources: Iterable[bytes], files: Iterable[bytes] = ()) -> None:
        """Note that these were listed, and parts of these files."""
        self._database.execute("BEGIN")
        for table, digests in (("seen", sources), ("files", files)):
            rows = ((digest,) for digest in digests)
            self._database.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?)", rows)  # noqa: S608 - its own tables
        self._database.execute("COMMIT")

    def add_listed(self, batch: Sequence[ListedSource]) -> None:
        """Note that the sources of a batch were listed."""
        files = dict.fromkeys(filter(None, (self._find_file(listed.key) for listed in batch)))
        self.add([listed.source for listed in batch], map(digest_key, files))

    def count(self) -> int:
        """Return how many sources were listed."""
        (number,) = self._database.execute("SELECT count(*) FROM seen").fetchone()
        return int(number)

    def names_file(self, key: str) -> bool:
        """Return whether the file that a source is, or is a part of, was listed, whole or cut."""
        if self._suffix is None:
            return False
        file = digest_key(self._find_file(key) or key)
        query = "SELECT 1 FROM files WHERE source = ? UNION SELECT 1 FROM seen WHERE source = ?"
        return self._database.execute(query, (file, file)).fetchone() is not None

    def _find_file(self, key: str) -> str | None:
        """Return the file of which a key names a part."""
        found = self._suffix.search(key) if self._suffix else None
        return key[: found.start()] if found else None

    def find_missing(self, sources: Sequence[bytes]) -> list[bytes]:
        """Return those of `sources` that were not listed."""
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
    """Yield digest and key of what the ledger holds and the listing of `attempt` does not name.

    Args:
        known: sources of the listing that are not finished.
        seen: all sources of the listing; None: finished ones stay, whatever is listed.
        policy: which finished ones go.
        scope: what was looked at.
    """
    unfinished: Iterator[tuple[bytes, Mark | FailureRecord | Quarantined]]
    unfinished = chain(store.list_marks(), store.list_failures(), store.list_quarantined())
    for source, entry in unfinished:
        if entry.attempt == attempt or source in known:
            continue
        # A finished source that could not be replaced goes as finished ones do.
        if not isinstance(entry, Mark) and store.find_finished([source]):
            continue
        # A source that an attempt was about to remove has no record any more, so it goes in any
        # case.
        if entry.attempt == _REMOVAL or _is_gone(entry.key, DELETE_ALL, scope, seen):
            yield source, entry.key
    # Most listings name all that is finished: then no record need be read.
    if seen is None or _has_all(store, seen, scope):
        return
    finished = ((source, record.key) for source, _, record in store.list_records())
    while group := dict(islice(finished, 10_000)):
        for source in seen.find_missing(list(group)):
            if _is_gone(group[source], policy, scope, seen):
                yield source, group[source]


def _has_all(store: Store, seen: SeenSources, scope: ListingScope) -> bool:
    """Return whether so many sources are finished as are listed and finished."""
    if scope.unfinished is None:
        return False
    return store.count()["finished"] == seen.count() - scope.unfinished


def _is_gone(
    key: str, policy: RemovalPolicy, scope: ListingScope, seen: SeenSources | None
) -> bool:
    """Return whether a source goes that a listing does not name."""
    # A file in a gap was not looked at and may be there, whatever else was found.
    if scope.gaps and _lies_within(key, scope.gaps):
        return False
    # A file is listed with all of its parts, also where other files are not listed.
    if seen is not None and seen.names_file(key):
        return True
    if not scope.is_whole:
        return False
    return policy.everywhere or _lies_within(key, policy.within)


def _lies_within(key: str, paths: Collection[str]) -> bool:
    """Return whether a key is one of `paths`, lies in such a folder, or names a part of it."""
    if not paths:
        return False
    return key in paths or any(key[: at.start()] in paths for at in _BORDERS.finditer(key))


def clean_away(
    store: Store,
    outputs: OutputStore,
    vanished: Iterable[tuple[bytes, str]],
    work: Callable[[], None] = lambda: None,
) -> int:
    """Remove sources with all they have written; how many.

    Args:
        work: is told of each that is gone.
    """
    # A list, not a stream: what is written here is what would still be walked through.
    left = iter(list(vanished))
    removed = 0
    while group := list(islice(left, 1000)):
        # Marked first: were we killed between, a record would speak of files that are gone.
        marks = [(source, Mark(key, b"", _REMOVAL, 0, is_stale=True)) for source, key in group]
        store.write(Change(mark=marks))
        for source, _ in group:
            store.require_lease()  # or a successor may have written it
            outputs.remove_others(source, ())
            work()
        store.write(Change(forget=[source for source, _ in group]))
        removed += len(group)
    return removed
