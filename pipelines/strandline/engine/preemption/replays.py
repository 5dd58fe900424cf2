"""Sources that begin anew, since data of theirs was lost: from the root, and not for ever. Pure.

It must not know why data is lost, nor what works on what is queued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from strandline.engine.call.slots import Slot
from strandline.engine.flow.flow import Flow
from strandline.plan.receipt import Event, Receipt

REPLAYS_PER_SOURCE = 3  # while no node is lost


class Replays:
    """Sources that wait to begin anew."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._counts: Counter[bytes] = Counter()
        self._roots: dict[bytes, Slot] = {}

    def __bool__(self) -> bool:
        return bool(self._roots)

    def begin(self, slots: Collection[Slot]) -> tuple[list[Event], list[Slot]]:
        """Take back what was done for the sources of slots, one of each.

        Returns:
            What the ledger is told, and the slots of sources that have begun anew too often.
        """
        # Data that is lost while all nodes are there would have it begin for ever.
        spent = [slot for slot in slots if self._counts[slot.source] >= REPLAYS_PER_SOURCE]
        over = {slot.source for slot in spent}
        # Tasks that the pass before had handed on are gone with their children: all are made again.
        roots = {
            slot.source: (slot.root or slot)._replace(handed=0)
            for slot in slots
            if slot.source not in over
        }
        self._counts.update(roots.keys())
        self._roots |= roots
        if roots:
            # Tasks of the pass before would be worked on beside those of the new one.
            self._flow.withdraw(roots.keys())
        return [
            Event(source, (root.token,), (root.token,)) for source, root in roots.items()
        ], spent

    def forgive(self) -> None:
        """Count no replay from before: a node was lost with data, which is no source's fault."""
        self._counts.clear()

    def keep_current(self, batch: Iterable[Slot]) -> list[Slot]:
        """Return those of a batch from sources that do not wait to begin anew."""
        return [slot for slot in batch if slot.source not in self._roots]

    def filter(self, receipt: Receipt) -> Receipt:
        """Return a receipt without the sources that wait to begin anew."""
        gone = self._roots.keys()
        return receipt._replace(
            events=tuple(event for event in receipt.events if event.source not in gone),
            failures=tuple(failure for failure in receipt.failures if failure.source not in gone),
            emitted=tuple(emitted for emitted in receipt.emitted if emitted.source not in gone),
            efforts=tuple(effort for effort in receipt.efforts if effort[0] not in gone),
            gone=tuple(slot for slot in receipt.gone if slot[1] not in gone),
        )

    def release(self, busy: Collection[bytes]) -> None:
        """Queue the roots of which nothing is with workers any more.

        Args:
            busy: sources that are with workers.
        """
        # An answer to a task of the pass before would be taken for one of the new pass.
        for source in [root for root in self._roots if root not in busy]:
            self._flow.enter([self._roots.pop(source)])
