"""What earlier tries have left in the folders of finished sources, and how it goes.

A source is finished first, under the lease, and its folder tidied after that: who has lost the
ledger must remove nothing, since a successor may have written it. A note in the same transaction
has the next attempt do it where this one was cut short.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.ledger.entries import Change, Record
from strandline.ledger.store.store import Store
from strandline.storage.outputs.outputs import OutputStore


def name_kept(record: Record) -> set[str]:
    """The names of a finished source's own files in its folder."""
    return {output.token.hex() + output.suffix for output in record.outputs}


def clean_up(store: Store, outputs: OutputStore, work: Callable[[], None] = lambda: None) -> int:
    """Remove what attempts before have not come to; of how many sources.

    Args:
        work: is told of each.

    Raises:
        LeaseLostError: another attempt has the ledger.
        VolumeError: something can't be removed; it stays noted.
    """
    untidy = list(store.list_untidy())
    records = store.find_records(untidy)
    # Who is finished no more is so again only after a try of its own, which sees to its folder.
    for source, record in records.items():
        store.require_lease()
        outputs.remove_others(source, name_kept(record))
        work()
    if untidy:
        store.write(Change(tidy=untidy))
    return len(untidy)
