"""Sources that a complete listing no longer names, and how they go.

What is deleted here was written by an earlier attempt. That a listing is complete is for the
caller to know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, islice

from strandline.ledger.entries import Change, FailureRecord, Mark, Parked
from strandline.ledger.seen import Seen
from strandline.ledger.store.store import Store
from strandline.storage.outputs.outputs import OutputStore


def find_vanished(
    store: Store, attempt: int, known: Collection[bytes], seen: Seen | None
) -> Iterator[tuple[bytes, str]]:
    """Digest and key of what the ledger holds and the listing of `attempt` does not name.

    Args:
        known: sources of the listing that are not finished.
        seen: all sources of the listing; None: finished ones stay, whatever is listed.
    """
    unfinished: Iterator[tuple[bytes, Mark | FailureRecord | Parked]]
    unfinished = chain(store.list_marks(), store.list_failures(), store.list_parked())
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
