"""What the ledger holds and a listing does not name any more: found, and removed with its outputs.

It must not know when that is done, nor whether a pipeline asks for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from strandline.ledger.entries import Change, FailureRecord, Mark, Quarantined
from strandline.ledger.store.store import Store
from strandline.storage.outputs.outputs import OutputStore


class Seen:
    """A set of source digests that may be larger than memory; gone when closed."""

    def __init__(self) -> None:
        # An empty name is a private database that sqlite spills to a temporary file.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("CREATE TABLE seen (source BLOB PRIMARY KEY) WITHOUT ROWID")

    def add(self, sources: Iterable[bytes]) -> None:
        """Note that these were listed."""
        self._database.execute("BEGIN")
        rows = ((source,) for source in sources)
        self._database.executemany("INSERT OR IGNORE INTO seen VALUES (?)", rows)
        self._database.execute("COMMIT")

    def find_missing(self, sources: Sequence[bytes]) -> list[bytes]:
        """Return those of `sources` that were not listed."""
        query = "SELECT 1 FROM seen WHERE source = ?"
        fetch = self._database.execute
        return [source for source in sources if fetch(query, (source,)).fetchone() is None]


def find_vanished(
    store: Store, attempt: int, known: Collection[bytes], seen: Seen | None
) -> Iterator[tuple[bytes, str]]:
    """Yield digest and key of what the ledger holds and the listing of `attempt` does not name.

    Args:
        known: sources of the listing that are not finished.
        seen: all sources of the listing; None: finished ones stay, whatever is listed.
    """
    unfinished: Iterator[tuple[bytes, Mark | FailureRecord | Quarantined]]
    unfinished = chain(store.list_marks(), store.list_failures(), store.list_quarantined())
    for source, entry in unfinished:
        if entry.attempt != attempt and source not in known:
            yield source, entry.key
    if seen is None:
        return
    finished = ((source, record.key) for source, _, record in store.list_records())
    while group := dict(islice(finished, 10_000)):
        for source in seen.find_missing(list(group)):
            yield source, group[source]


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
        marks = [(source, Mark(key, b"", 0, 0, is_stale=True)) for source, key in group]
        store.write(Change(mark=marks))
        for source, _ in group:
            store.require_lease()  # or a successor may have written it
            outputs.remove_others(source, ())
            work()
        store.write(Change(forget=[source for source, _ in group]))
        removed += len(group)
    return removed
