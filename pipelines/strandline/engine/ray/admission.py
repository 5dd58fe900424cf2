"""From the listing into the flow: which sources the ledger releases, asked batch by batch.

One batch is asked for at a time, and the loop does not wait for the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from ray import cloudpickle

from strandline.engine.call.wire import pack_tasks
from strandline.engine.core.flow import Flow
from strandline.engine.core.listing_thread import SOURCES_AHEAD, ListingThread
from strandline.engine.core.ports import ADMIT_BATCH, Admitted
from strandline.engine.loop.roots import enter_roots
from strandline.engine.ray.ledger_actor import RayLedger
from strandline.ledger.records.entries import QUARANTINED, RELEASED, SKIPPED

_PACK = partial(pack_tasks, dumps=cloudpickle.dumps)


class Admission:
    """Draws from a listing as long as the first stage has room.

    Attributes:
        asked: the reference of an answer that is still to come.
        skipped, quarantined: sources that were finished before, or are not tried any more.
    """

    def __init__(self, listing: ListingThread, ledger: RayLedger, flow: Flow) -> None:
        self._listing = listing
        self._ledger = ledger
        self._flow = flow
        self._batch: Admitted = []
        self.asked: Any = None
        self._passed = 0
        self.skipped = self.quarantined = 0

    @property
    def sources_left(self) -> int | None:
        """Sources that are listed and not released yet; None while there may be more."""
        if not self._listing.is_ended:
            return None
        return 0 if self.asked is None else len(self._batch)

    @property
    def is_promising(self) -> bool:
        """Return whether the ledger is asked, and has released all that it was asked so far."""
        return self.asked is not None and not (self.skipped or self.quarantined)

    def ask(self, *, is_full: bool, limit: float = 0.0, room: int = ADMIT_BATCH) -> bool:
        """Ask for the next batch, unless there is no room or no need.

        Args:
            limit: seconds to wait for the listing.
            room: sources that can be taken; where it is large, so is the batch, since the ledger
                waits for the disk once a batch.

        Returns:
            True where the listing has nothing yet.
        """
        if self.asked is not None or is_full or self._listing.is_ended or self._flow.is_stopped:
            return False
        most = SOURCES_AHEAD if room >= SOURCES_AHEAD else ADMIT_BATCH
        batch = self._listing.take(limit, most)
        if batch is None:
            return True
        self._batch = batch
        if not self._ledger.is_tracked:
            self._release([RELEASED] * len(self._batch))
        else:
            self._ask_ledger()
        return False

    def _ask_ledger(self) -> None:
        passed = self._listing.passed - self._passed
        if self._batch or passed:
            self.asked = self._ledger.admit([listed for listed, _ in self._batch], passed)
            self._passed += passed
            self.skipped += passed

    def take(self, verdicts: Iterable[int]) -> None:
        """Take the answer: queue what is released."""
        self.asked = None
        if not self._flow.is_stopped:
            self._release(verdicts)

    def _release(self, verdicts: Iterable[int]) -> None:
        verdicts = list(verdicts)
        self.skipped += verdicts.count(SKIPPED)
        self.quarantined += verdicts.count(QUARANTINED)
        failures = enter_roots(self._flow, verdicts, self._batch, _PACK)
        if failures:
            self._ledger.forward((), failures)
