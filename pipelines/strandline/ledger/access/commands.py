"""Ledger access for commands that write while no driver is alive.

The module may read clocks and randomness, and passes the values to code that must read neither.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from strandline.ledger.access.heartbeat import Heartbeat
from strandline.ledger.access.lease import Claimant, holding
from strandline.ledger.access.session import LedgerSession, opened_alone
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import Process, find_process, read_boot_id


def written_alone(folder: PipelineFolder, claimant: Claimant) -> AbstractContextManager[Store]:
    """Open the folder's ledger while no driver is alive; see `opened_alone`."""
    return opened_alone(folder, claimant, time.sleep)


@contextmanager
def hold_by_command(
    store: Store, folder: PipelineFolder, claimant: Claimant
) -> Iterator[tuple[LedgerSession, Heartbeat]]:
    """Write as the last attempt and renew the lease until the block ends; see `holding`."""
    heartbeat = Heartbeat(time.monotonic, time.time)
    with holding(store, claimant) as attempt, heartbeat.beating():
        session = LedgerSession(folder.ledger, attempt, claimant.uid, heartbeat)
        with session.using(store):
            yield session, heartbeat


def make_claimant(parent: int | None = None) -> Claimant:
    """Describe this process as a claimant of a ledger."""
    own = find_process(os.getpid())
    assert own is not None  # this process is alive, so `find_process` finds it
    above = None if parent is None else find_process(parent) or Process(parent, 0)
    return Claimant(uuid.uuid4().hex, read_boot_id(), own, time.time(), above)


def read_ledger_id(store: Store) -> str:
    """Return the ledger's id. The first call creates it."""
    known = store.read_meta("id")
    if known is None:
        known = uuid.uuid4().hex
        store.write(Change(meta={"id": known}))
    return str(known)
