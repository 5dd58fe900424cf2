"""Sources whose data was lost with a node: their work begins anew, from the root. Pure.

What is with workers when the data is lost may still be answered; it is dropped, and the root waits
until none of it is left. So a source is never worked on in two generations at once, and its outputs
are those of one. It must not know what a source is made of, nor how a loss is noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from strandline.engine.call.slots import Slot
from strandline.engine.core.flow import Flow
from strandline.plan.receipt import Event, Receipt

REPLAYS_PER_SOURCE = 3


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
            What the ledger is told, and the slots whose sources have begun anew too often.
        """
        spent = [slot for slot in slots if self._counts[slot.source] >= REPLAYS_PER_SOURCE]
        over = {slot.source for slot in spent}
        roots = {slot.source: slot.root or slot for slot in slots if slot.source not in over}
        self._counts.update(roots.keys())
        self._roots |= roots
        if roots:
            self._flow.withdraw(roots.keys())
        return [Event(source, (one.token,), (one.token,)) for source, one in roots.items()], spent

    def keep_current(self, batch: Iterable[Slot]) -> list[Slot]:
        """Those of a batch whose sources do not wait to begin anew."""
        return [slot for slot in batch if slot.source not in self._roots]

    def filter(self, receipt: Receipt) -> Receipt:
        """A receipt without the sources that wait to begin anew."""
        gone = self._roots.keys()
        return receipt._replace(
            events=tuple(one for one in receipt.events if one.source not in gone),
            failures=tuple(one for one in receipt.failures if one.source not in gone),
            emitted=tuple(one for one in receipt.emitted if one.source not in gone),
            efforts=tuple(one for one in receipt.efforts if one[0] not in gone),
        )

    def release(self, busy: Collection[bytes]) -> None:
        """Queue the roots of which nothing is with workers any more.

        Args:
            busy: sources that are with workers.
        """
        for source in [one for one in self._roots if one not in busy]:
            self._flow.enter([self._roots.pop(source)])

    def clear(self) -> None:
        """Let all be as they are: the run is ending."""
        self._roots.clear()
