"""The one door to a ledger: how it is opened, under which lease, and until when.

Nothing else opens a store. A lease is kept and renewed here as long as its ledger is open, so that
no caller can write under one that has lapsed. What is written is for callers to say.
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
    """What renews a lease every so often, from a thread of its own."""

    def renewing(self, renew: Callable[[float], None]) -> AbstractContextManager[None]:
        """Call `renew` with the wall clock's time every so often as long as the block runs."""


class LedgerSession:
    """A ledger under the lease of one attempt, opened as often as its process needs it.

    Args:
        path: folder of the ledger.
        attempt, uid: of the lease, which has been taken.
        heartbeat: renews the lease while the ledger is open here; None: another process has that
            done, by `renew`.
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
        """Return whether this process has the ledger open."""
        return self._store is not None

    @contextmanager
    def open(self) -> Iterator[Store]:
        """Open the ledger as long as the block runs; the same store where it is open already.

        Raises:
            LedgerError: it can't be read, or another attempt has taken it over.
            VolumeError: the folder can't be used.
        """
        # LMDB forbids a second environment of one ledger in a process, threads included.
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
        """Use a store that is open here under this lease already, as long as the block runs."""
        with self._turn, ExitStack() as stack:
            self._begin(store, stack)
            self._holders += 1
        try:
            yield
        finally:
            self._leave()

    def renew(self, time: float) -> None:
        """Renew the lease of an open ledger, in whatever thread.

        Args:
            time: wall clock, seconds since the epoch.
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
        assert self._store is not None  # the caller has it open
        return self._store


@contextmanager
def opened_to_read(path: Path) -> Iterator[Store]:
    """Open a ledger for looking as long as the block runs; writers are not disturbed.

    Args:
        path: folder of the ledger.

    Raises:
        LedgerError: there is none, or it can't be read.
        VolumeError: the folder can't be used.
    """
    with closing(Store(path, readonly=True)) as store:
        yield store


def require_ledger(path: Path) -> None:
    """See that there is a ledger, before one is opened for writing: that would make one.

    Raises:
        LedgerError: there is none, or it can't be read.
    """
    with opened_to_read(path):
        pass


@contextmanager
def opened_new(path: Path) -> Iterator[Store]:
    """Make a ledger in an empty folder, and open it as long as the block runs, without a lease."""
    with closing(Store(path)) as store:
        yield store


@contextmanager
def opened_alone(
    folder: PipelineFolder, claimant: Claimant, sleep: Callable[[float], None]
) -> Iterator[Store]:
    """Open the folder's ledger while no driver lives and none can begin; no lease is taken.

    Writers that a dead driver left behind are waited for, and ended in the end.

    Raises:
        LedgerError: a driver is alive.
        VolumeError: a writer can't be ended from here.
    """
    with closing(Store(folder.ledger)) as store:
        dead = refuse_live_driver(store, claimant, find_process, sleep)
        with hold_exclusive(folder.writers_lock, ORPHAN_SECONDS):
            # Another driver may have been quicker while this one waited.
            refuse_live_driver(store, claimant, find_process, sleep, known_dead=dead)
            yield store
