"""A source that starts again makes all its tasks again, even after parts of an answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.slots import Slot, split_opened
from strandline.engine.flow.flow import Flow
from strandline.engine.preemption.replays import Replays
from strandline.ledger.tally import Tally
from strandline.plan.receipt import EmittedTask, Event, Receipt, StageCounts
from strandline.plan.task import Origin
from test_flow import make_flow, make_slots


def name_child(number: int) -> bytes:
    return (1000 + number).to_bytes(16, "big")


class Streaming:
    """A source whose first stage returns tasks in parts. The second stage is the last."""

    def __init__(self, count: int) -> None:
        self.flow: Flow = make_flow(1, 1)
        self.replays = Replays(self.flow)
        self.tally = Tally(lambda _: False)
        self._count = count
        (root,) = make_slots(1)
        self.flow.enter([root])
        self.is_finished = False
        self.tell([Event(root.source, (), (root.token,))])

    def tell(self, events: list[Event]) -> None:
        self.is_finished = bool(self.tally.count(events)) or self.is_finished

    def make_part(self, batch: list[Slot], size: int) -> list[Slot]:
        """Take one part of an answer, and return the rest of the call."""
        (slot,) = batch
        end = min(self._count, slot.handed + size)
        origins = [Origin(slot.token, each, 0) for each in range(slot.handed, end)]
        emitted = tuple(
            EmittedTask(place, slot.source, name_child(origin.slot), origin)
            for place, origin in enumerate(origins)
        )
        over = batch
        rest: list[Slot] = []
        if end < self._count:
            over, rest = split_opened(batch, slot.token, end)
        counts = StageCounts(tasks_in=len(over), tasks_out=len(emitted))
        receipt = Receipt((), (), emitted, counts)
        self.flow.complete(0, over, receipt, "block", rest[0] if rest else None)
        if not rest:
            children = tuple(name_child(each) for each in range(self._count))
            self.tell([Event(slot.source, (slot.token,), children)])
        return rest

    def lose_a_child(self) -> bool:
        """Lose the data of the next waiting child. Return False if no child waits."""
        batch = self.flow.next_batch(1)
        if not batch:
            return False
        self.flow.queues[1].running -= len(batch)
        events, spent = self.replays.begin(batch)
        assert not spent
        self.tell(events)
        return True

    def drain_children(self) -> None:
        while batch := self.flow.next_batch(1):
            receipt = Receipt((), (), (), StageCounts(tasks_in=len(batch)))
            self.flow.complete(1, batch, receipt, None)
            self.tell([Event(slot.source, (slot.token,), ()) for slot in batch])

    def finish(self) -> None:
        """Finish all remaining work without losses."""
        self.replays.release(())
        batch = self.flow.next_batch(0)
        while batch:
            batch = self.make_part(batch, self._count)
        self.drain_children()


parts = st.lists(st.integers(1, 7), min_size=1, max_size=6)


@given(count=st.integers(2, 20), passes=st.lists(parts, min_size=1, max_size=3))
def test_law_a_replayed_root_makes_all_of_its_children(count: int, passes: list[list[int]]) -> None:
    playing = Streaming(count)
    for sizes in passes:
        batch = playing.flow.next_batch(0)
        for size in sizes:
            if batch:
                batch = playing.make_part(batch, size)
        if batch:  # the worker is lost with the part that it has just sent
            playing.flow.requeue(0, batch, 0, holds=False, most_deaths=3)
        assert playing.lose_a_child()
        playing.replays.release(())
    playing.finish()
    assert playing.is_finished
