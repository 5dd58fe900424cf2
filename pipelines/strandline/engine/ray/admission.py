"""Admits sources through a ledger in another process, with at most one pending batch.

The loop does not wait for the response.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from ray import cloudpickle

from strandline.engine.call.wire import pack_tasks
from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.ports import ADMIT_BATCH, Admitted
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.admission import ThreadAdmission
from strandline.engine.ray.ledger_actor import RayLedger
from strandline.ledger.records.entries import RELEASED

_PACK = partial(pack_tasks, dumps=cloudpickle.dumps)


class ActorAdmission(ThreadAdmission):
    """Requests the release of sources from the ledger's actor.

    Attributes:
        asked: the reference of a pending response; None if no response is pending.
    """

    def __init__(self, listing: ListingThread, ledger: RayLedger, flow: Flow) -> None:
        super().__init__(listing, ledger, flow, _PACK)
        self._is_tracked = ledger.is_tracked
        self._batch: Admitted = []
        self.asked: Any = None

    @property
    def sources_left(self) -> int | None:
        """See `Admission.sources_left`."""
        left = super().sources_left
        return left if self.asked is None or left is None else len(self._batch)

    @property
    def is_promising(self) -> bool:
        """Return whether a response is pending, and all earlier sources were released."""
        return self.asked is not None and not (self.skipped or self.quarantined)

    def ask(self, *, is_full: bool, limit: float = 0.0, room: int = ADMIT_BATCH) -> bool:
        """See `ThreadAdmission.ask`. While a response is pending, send no request."""
        return super().ask(is_full=is_full or self.asked is not None, limit=limit, room=room)

    def enter(self, batch: Admitted) -> None:
        """Send a batch to the ledger; `take` queues the released sources."""
        if not self._is_tracked:
            self._release(batch, [RELEASED] * len(batch))
            return
        self._batch = batch
        passed = self._skip_passed()
        if batch or passed:
            self.asked = self._ledger.admit([listed for listed, _ in batch], passed)

    def take(self, verdicts: Iterable[int]) -> None:
        """Accept the response and queue the released sources."""
        self.asked = None
        if not self._flow.is_stopped:
            self._release(self._batch, verdicts)
