"""How far an attempt has come, by the ledger's own count; known whatever has ended it."""

from __future__ import annotations

from typing import NamedTuple

from strandline.ledger.errors import LedgerError
from strandline.ledger.store.store import Store
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder


class AttemptProgress(NamedTuple):
    """Sources that an attempt has finished, and unfinished ones when it began (None: unknown)."""

    finished: int
    remaining: int | None


def read_progress(folder: PipelineFolder, attempt: int) -> AttemptProgress:
    """The progress of `attempt` where it is the ledger's last one; else none."""
    try:
        store = Store(folder.ledger, readonly=True)
    except (LedgerError, VolumeError):
        return AttemptProgress(0, None)
    try:
        return find_progress(store, attempt)
    finally:
        store.close()


def find_progress(store: Store, attempt: int) -> AttemptProgress:
    """The same from a ledger that is open."""
    kept = store.read_meta("progress") or {}
    if kept.get("attempt") != attempt:
        return AttemptProgress(0, None)
    return AttemptProgress(kept["finished"], kept["remaining"])
