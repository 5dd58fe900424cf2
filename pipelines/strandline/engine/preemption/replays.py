"""Restarts sources from the root if their data was lost, up to a limit.

This module has no side effects, and must not depend on the reason for a loss, or on the code that
processes the queued work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from strandline.engine.call.slots import Slot
from strandline.engine.flow.flow import Flow
from strandline.plan.receipt import Event, Receipt

REPLAYS_PER_SOURCE = 3  # the count is reset when a node is lost


class Replays:
    """Sources that wait for a restart."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._counts: Counter[bytes] = Counter()
        self._roots: dict[bytes, Slot] = {}

    def __bool__(self) -> bool:
        return bool(self._roots)

    def begin(self, slots: Collection[Slot]) -> tuple[list[Event], list[Slot]]:
        """Discard the work on the slots' sources, so that they restart.

        Args:
            slots: at most one slot per source.

        Returns:
            The events for the ledger, and the slots of sources that have restarted too often.
        """
        # Limit restarts: otherwise a source whose data is lost without a lost node could restart
        # forever.
        spent = [slot for slot in slots if self._counts[slot.source] >= REPLAYS_PER_SOURCE]
        over = {slot.source for slot in spent}
        # Reset `handed`: the tasks that were passed on before are dropped, and are all produced
        # again.
        roots = {
            slot.source: (slot.root or slot)._replace(handed=0)
            for slot in slots
            if slot.source not in over
        }
        self._counts.update(roots.keys())
        self._roots |= roots
        if roots:
            # Drop the waiting tasks of the previous try, so that they do not run beside the new
            # try.
            self._flow.withdraw(roots.keys())
        return [
            Event(source, (root.token,), (root.token,)) for source, root in roots.items()
        ], spent

    def forgive(self) -> None:
        """Reset the counts: a lost node took data with it, which is not a source's fault."""
        self._counts.clear()

    def keep_current(self, batch: Iterable[Slot]) -> list[Slot]:
        """Return the slots of a batch whose sources are not waiting for a restart."""
        return [slot for slot in batch if slot.source not in self._roots]

    def filter(self, receipt: Receipt) -> Receipt:
        """Return a receipt without the sources waiting for a restart."""
        gone = self._roots.keys()
        return receipt._replace(
            events=tuple(event for event in receipt.events if event.source not in gone),
            failures=tuple(failure for failure in receipt.failures if failure.source not in gone),
            emitted=tuple(emitted for emitted in receipt.emitted if emitted.source not in gone),
            efforts=tuple(effort for effort in receipt.efforts if effort[0] not in gone),
            gone=tuple(slot for slot in receipt.gone if slot[1] not in gone),
        )

    def release(self, busy: Collection[bytes]) -> None:
        """Queue the roots of restarting sources, except sources that a worker is still processing.

        Args:
            busy: sources that are with workers.
        """
        # Wait for busy sources: a late result of the previous try would be mistaken for a result of
        # the new try.
        for source in [root for root in self._roots if root not in busy]:
            self._flow.enter([self._roots.pop(source)])
