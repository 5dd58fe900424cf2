"""Storage of the ledger: an LMDB environment, read through a memory map, written in transactions.

The store keeps states and returns them. The tally decides when a source is finished, and the writer
decides in which order data becomes durable. Only this package imports lmdb.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb

from strandline.ledger.errors import LeaseLostError, LedgerError
from strandline.ledger.records.entries import (
    Change,
)
from strandline.ledger.store.changes import apply, get
from strandline.ledger.store.environment.layout import (
    NEW,
    convert,
    is_due,
)
from strandline.ledger.store.reading.reader import StoreReader, explain_absence
from strandline.storage import faults

INITIAL_MAP = 1 << 26


class Store(StoreReader):
    """An open ledger.

    Args:
        path: folder of the environment.
        readonly: open for reading only. Writers are not blocked.
        map_size: initial size of the map in bytes; doubled whenever the map is full.

    Raises:
        LedgerError: if the files are damaged or have a newer format. `LedgerInUseError` if a
            process that LMDB can't distinguish from this process has the ledger open.
        VolumeError: if the folder can't be used.
    """

    def __init__(self, path: Path, *, readonly: bool = False, map_size: int = INITIAL_MAP) -> None:
        super().__init__(path, readonly=readonly, map_size=map_size)
        self._lease: tuple[int, str] | None = None
        try:
            self._check_format(readonly=readonly)
        except BaseException:
            self.close()
            raise

    def take_lease(self, lease: dict[str, Any]) -> None:
        """Write the lease of this attempt. Every later transaction checks it.

        Args:
            lease: JSON-compatible, with `attempt` (int) and `uid` (str).
        """
        self.write(Change(meta={"lease": lease}))
        self.hold_lease(lease["attempt"], lease["uid"])
        with self._translating():
            faults.reach("lease.written")

    def hold_lease(self, attempt: int, uid: str) -> None:
        """Write under a lease that the parent process has taken."""
        self._lease = (attempt, uid)

    def require_lease(self) -> None:
        """Check the lease before an action outside of a transaction.

        Raises:
            LeaseLostError: if another attempt has the ledger.
        """
        with self._reading() as txn:
            self._check_lease(txn)

    def renew_lease(self, time: float) -> None:
        """Update the time in the lease to show that its holder is alive.

        Another thread may call this during a read or a write. If the map must grow or has been
        grown by another process, the renewal is skipped, because the map must not move under a
        reader.

        Args:
            time: wall clock, in seconds since the epoch.

        Raises:
            LeaseLostError: if another attempt has the ledger.
        """

        def renew(txn: lmdb.Transaction) -> Change:
            # Read the lease in the same transaction; otherwise the write could undo its release.
            lease = json.loads(get(txn, self._dbs.meta, b"lease") or b"{}")
            return Change(meta={"lease": lease | {"time": time}})

        with suppress(lmdb.MapFullError, lmdb.MapResizedError), self._environment.turn:
            self._forget_dead_readers()
            self._write(renew, is_heartbeat=True)

    def write(self, change: Change) -> None:
        """Make a change durable, completely or not at all.

        Raises:
            LeaseLostError: if another attempt has the ledger.
            VolumeError: if the disk is full or fails; the change then has no effect.
        """
        self._transact(lambda _: change)

    def _transact(self, decide: Callable[[lmdb.Transaction], Change]) -> None:
        while True:
            try:
                with self._environment.turn:
                    self._write(decide)
            except lmdb.MapFullError:
                self._environment.double_map()
            # Another process, perhaps a new lease holder, has enlarged the map.
            except lmdb.MapResizedError:
                self._environment.follow_map()
            else:
                return

    def _write(
        self, decide: Callable[[lmdb.Transaction], Change], *, is_heartbeat: bool = False
    ) -> None:
        with self._translating(), self._environment.writing() as txn:
            self._check_lease(txn)
            change, attempt = decide(txn), self._lease[0] if self._lease else 0
            # Only the lease holder converts the ledger. An older version without the lease would
            # not notice that the format has changed, and would continue to write.
            if self._lease and change.finish and is_due(txn, self._dbs, self._find_layout(txn)):
                convert(txn, self._dbs)
            apply(txn, self._dbs, self._find_layout(txn), change, attempt)
            if not is_heartbeat:  # heartbeats have no fixed time, so tests can't stop there
                faults.reach("commit.written")

    def _forget_dead_readers(self) -> None:
        """Release pages that only readers of killed processes still hold."""
        with self._translating():
            self._env.reader_check()

    def _check_lease(self, txn: lmdb.Transaction) -> None:
        if self._lease is None:
            return
        lease = json.loads(get(txn, self._dbs.meta, b"lease") or b"{}")
        if (lease.get("attempt"), lease.get("uid")) != self._lease:
            msg = f"{self._path}: attempt {lease.get('attempt')} has taken the ledger over"
            raise LeaseLostError(msg)

    def _check_format(self, *, readonly: bool) -> None:
        if self.read_meta("format") is None:
            if readonly:  # the ledger is not completely created yet
                raise LedgerError(explain_absence(self._path))
            self.write(Change(meta={"format": NEW}))
        with self._reading() as txn:
            self._find_layout(txn)
