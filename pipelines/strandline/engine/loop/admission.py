"""Admits listed sources into the flow, batch by batch, if the ledger releases them.

The module must not depend on the location of the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from strandline.engine.call.handover import Pack
from strandline.engine.core.listing_thread import SOURCES_AHEAD, ListingThread
from strandline.engine.core.ports import ADMIT_BATCH, Admitted, ListingState
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.roots import enter_roots
from strandline.ledger.records.entries import QUARANTINED, SKIPPED, ListedSource, Standing
from strandline.plan.receipt import Event, Failure


class LedgerPort(Protocol):
    """The ledger of a run, in this process or in another process."""

    def admit(self, batch: Sequence[ListedSource], passed: int) -> Any:  # noqa: ANN401 - see below
        """Return verdicts (see `LedgerWriter.admit`), or a reference to the verdicts."""

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:
        """Record events and failures, in this order."""

    def count_finished(self) -> int:
        """Return the last known number of finished sources."""

    def conclude(self, listing: ListingState, failed: int, *, anything_died: bool) -> Standing:
        """Make all events durable. Return the counts of sources by state.

        Args:
            listing: the state of the listing.
            failed: number of failed sources, as far as the run can count them.
            anything_died: whether events may be missing.
        """


class Admission:
    """Queues listed sources that the ledger releases.

    Args:
        pack: packs the first task of a source; raises an error if the task can't be packed.

    Attributes:
        skipped: number of sources that were already finished.
        quarantined: number of sources that are not tried any more.
    """

    def __init__(self, listing: ListingState, ledger: LedgerPort, flow: Flow, pack: Pack) -> None:
        self._listing = listing
        self._ledger = ledger
        self._flow = flow
        self._pack = pack
        self._passed = 0
        self.skipped = self.quarantined = 0

    @property
    def sources_left(self) -> int | None:
        """Number of listed but unreleased sources, or None while more may be listed."""
        return 0 if self._listing.is_ended else None

    def enter(self, batch: Admitted) -> None:
        """Queue the released sources of a batch from the listing."""
        passed = self._skip_passed()
        self._release(batch, self._ledger.admit([listed for listed, _ in batch], passed))

    def _skip_passed(self) -> int:
        """Count the sources that the listing has skipped since the last batch."""
        passed = self._listing.passed - self._passed
        self._passed += passed
        self.skipped += passed
        return passed

    def _release(self, batch: Admitted, verdicts: Iterable[int]) -> None:
        verdicts = list(verdicts)
        self.skipped += verdicts.count(SKIPPED)
        self.quarantined += verdicts.count(QUARANTINED)
        failures = enter_roots(self._flow, verdicts, batch, self._pack)
        if failures:
            self._ledger.forward((), failures)


class ThreadAdmission(Admission):
    """Reads from a listing thread as long as the first stage has capacity."""

    def __init__(self, listing: ListingThread, ledger: LedgerPort, flow: Flow, pack: Pack) -> None:
        super().__init__(listing, ledger, flow, pack)
        self._thread = listing

    def ask(self, *, is_full: bool, limit: float = 0.0, room: int = ADMIT_BATCH) -> bool:
        """Admit the next batch, unless the queue is full or no batch is needed.

        Args:
            is_full: whether the queue of the first stage is full.
            limit: seconds to wait for the listing.
            room: number of sources that fit into the queue. If many fit, the batch is large,
                because
                the ledger waits for the disk once per batch.

        Returns:
            True if the listing has no source yet.
        """
        if is_full or self._thread.is_ended or self._flow.is_stopped:
            return False
        batch = self._thread.take(limit, SOURCES_AHEAD if room >= SOURCES_AHEAD else ADMIT_BATCH)
        if batch is None:
            return True
        self.enter(batch)
        return False

    def close(self) -> None:
        """Stop reading the listing."""
        self._thread.close()
