"""Opens ledgers, and renews the lease while a ledger is open.

Only this module opens a store. A session keeps and renews the lease while its ledger is open, so no
caller can write under a lapsed lease. Callers decide about the content.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Protocol

from strandline.ledger.access.lease import ORPHAN_SECONDS, Claimant, refuse_live_driver
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, hold_exclusive


class LeaseRenewal(Protocol):
    """Renews a lease regularly, from its own thread."""

    def renewing(self, renew: Callable[[float], None]) -> AbstractContextManager[None]:
        """Call `renew` regularly with the wall clock time until the block ends."""


class LedgerSession:
    """A ledger under the lease of one attempt. A process may open it several times.

    Args:
        path: folder of the ledger.
        attempt, uid: the attempt and uid of the lease, which the caller has already taken.
        heartbeat: renews the lease while the ledger is open, or None if another process calls
            `renew`.
    """

    def __init__(
        self, path: Path, attempt: int, uid: str, heartbeat: LeaseRenewal | None = None
    ) -> None:
        self.path = path
        self.attempt = attempt
        self.uid = uid
        self._heartbeat = heartbeat
        self._store: Store | None = None
        self._holders = 0
        self._around = ExitStack()
        self._turn = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Return True if this process has the ledger open."""
        return self._store is not None

    @contextmanager
    def open(self) -> Iterator[Store]:
        """Open the ledger until the block ends. Nested calls share one store.

        Raises:
            LedgerError: if the ledger can't be read, or another attempt has taken it over.
            VolumeError: if the folder can't be used.
        """
        # LMDB forbids a second environment of the same ledger in a process, even in another thread.
        with self._turn:
            if self._store is None:
                with ExitStack() as stack:
                    store = stack.enter_context(closing(Store(self.path)))
                    store.hold_lease(self.attempt, self.uid)
                    self._begin(store, stack)
            self._holders += 1
            store = self._require_store()
        try:
            yield store
        finally:
            self._leave()

    @contextmanager
    def using(self, store: Store) -> Iterator[None]:
        """Use a store that is already open under this lease, until the block ends."""
        with self._turn, ExitStack() as stack:
            self._begin(store, stack)
            self._holders += 1
        try:
            yield
        finally:
            self._leave()

    def renew(self, time: float) -> None:
        """Renew the lease of an open ledger, from any thread.

        Args:
            time: wall clock, in seconds since the epoch.
        """
        self._require_store().renew_lease(time)

    def _begin(self, store: Store, stack: ExitStack) -> None:
        if self._heartbeat is not None:
            stack.enter_context(self._heartbeat.renewing(store.renew_lease))
        self._store, self._around = store, stack.pop_all()

    def _leave(self) -> None:
        with self._turn:
            self._holders -= 1
            if self._holders:
                return
            self._store = None
            self._around.close()

    def _require_store(self) -> Store:
        assert self._store is not None  # callers use this only while the ledger is open
        return self._store


@contextmanager
def opened_to_read(path: Path) -> Iterator[Store]:
    """Open a ledger read-only until the block ends. Writers are not blocked.

    Args:
        path: folder of the ledger.

    Raises:
        LedgerError: if there is no ledger, or it can't be read.
        VolumeError: if the folder can't be used.
    """
    with closing(Store(path, readonly=True)) as store:
        yield store


def require_ledger(path: Path) -> None:
    """Check that a ledger exists, because opening it for writing would create it.

    Raises:
        LedgerError: if there is no ledger, or it can't be read.
    """
    with opened_to_read(path):
        pass


@contextmanager
def opened_new(path: Path) -> Iterator[Store]:
    """Create a ledger in an empty folder, and open it without a lease until the block ends."""
    with closing(Store(path)) as store:
        yield store


@contextmanager
def opened_alone(
    folder: PipelineFolder, claimant: Claimant, sleep: Callable[[float], None]
) -> Iterator[Store]:
    """Open the folder's ledger while no driver is alive and no driver can start; take no lease.

    Sinks of a dead driver may still be writing. The function waits for them, and kills them if they
    do not end.

    Raises:
        LedgerError: if a driver is alive.
        VolumeError: if this process can't end a writer.
    """
    with closing(Store(folder.ledger)) as store:
        dead = refuse_live_driver(store, claimant, find_process, sleep)
        with hold_exclusive(folder.writers_lock, ORPHAN_SECONDS):
            # Check again: another driver may have started during the wait for the lock.
            refuse_live_driver(store, claimant, find_process, sleep, known_dead=dead)
            yield store
