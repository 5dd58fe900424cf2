"""Sources that are handed over together, and what has been heard of each. Pure.

For an engine that may lose a whole window. A source is told when it is over, and then all of it, so
whatever was heard of one that has to be tried again counts nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from strandline.engine.call.slots import Slot
from strandline.ledger.tally import Tally
from strandline.plan.receipt import Event, Failure, Receipt


class Told(NamedTuple):
    """What is over, and all that the ledger has to hear of it."""

    events: list[Event]
    failures: list[Failure]
    finished: set[bytes]


class Window:
    """Sources by their root tasks.

    Attributes:
        open: the root of each source that is not over.
        has_finished: a source was finished.
    """

    def __init__(self, roots: Sequence[Slot]) -> None:
        self.open = {root.source: root for root in roots}
        self.has_finished = False
        self._heard: dict[bytes, list[Event]] = {source: [] for source in self.open}
        self._tally = Tally(lambda source: source not in self.open)
        self._tally.count(Event(root.source, (), (root.token,)) for root in roots)

    def hear(self, receipt: Receipt) -> Told:
        """Take a call's receipt; what comes after the end of a source is not listened to.

        Raises:
            NonDeterministicTaskError: a task was worked on twice and became others.
        """
        for event in receipt.events:
            if event.source in self._heard:
                self._heard[event.source].append(event)
        failures = self._tally.fail(receipt.failures)
        for failure in failures:
            self._end(failure.source)
        finished = {source for source, _ in self._tally.count(receipt.events)}
        self.has_finished = self.has_finished or bool(finished)
        events = [event for source in sorted(finished) for event in self._end(source)]
        return Told(events, failures, finished)

    def _end(self, source: bytes) -> list[Event]:
        del self.open[source]
        return self._heard.pop(source)
