"""The cost of an event does not grow with waiting tasks. Tests count examined items, not time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from strandline.engine.call.slots import Slot
from strandline.engine.flow.flow import Flow
from strandline.engine.flow.suspects import SuspectBatch, Suspects
from strandline.engine.ray.scaling.demand import wants_more
from strandline.plan.receipt import EmittedTask, Failure, Receipt, StageCounts
from strandline.plan.task import Origin
from test_flow import make_flow, pass_on

MANY = 2000


class Looks:
    """Counts the examined items."""

    def __init__(self) -> None:
        self.count = 0

    def walk(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.count += 1
            yield item


class WatchedDeque(deque[Any]):
    looks: Looks

    def __iter__(self) -> Iterator[Any]:
        return self.looks.walk(super().__iter__())


class WatchedDict(dict[Any, Any]):
    looks: Looks

    def __iter__(self) -> Iterator[Any]:
        return self.looks.walk(super().__iter__())

    def items(self) -> Any:
        return self.looks.walk(iter(super().items()))

    def values(self) -> Any:
        return self.looks.walk(iter(super().values()))


def watch(flow: Flow) -> Looks:
    """Count all waiting items that are examined from now on."""
    looks = Looks()
    for queue in flow.queues:
        for holder, names in ((queue, ("waiting", "groups")), (queue.grouping, None)):
            for name in names or list(vars(holder) if holder else ()):
                known = getattr(holder, name)
                if isinstance(known, (deque, dict)):
                    kind = WatchedDeque if isinstance(known, deque) else WatchedDict
                    watched = kind(known)
                    watched.looks = looks
                    setattr(holder, name, watched)
    return looks


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


def root(number: int) -> Slot:
    return Slot(name(number), str(number), name(number), None, None, 0)


def fan_out(slot: Slot, count: int, of: int | None = None) -> Receipt:
    emitted = tuple(
        EmittedTask(
            place,
            slot.source,
            name((slot.position << 64) + place),
            Origin(slot.token, place, of or count),
        )
        for place in range(count)
    )
    return Receipt((), (), emitted, StageCounts(tasks_in=1, tasks_out=count))


def wait_in_groups() -> Flow:
    """Return a flow in which one source has many complete groups, and others a partial group."""
    flow = make_flow(1, 1, group=4)
    flow.enter([root(0), *map(root, range(1, MANY))])
    for _ in range(MANY):
        (slot,) = flow.next_batch(0)
        is_first = not flow.queues[1].groups
        receipt = fan_out(slot, 4 * MANY) if is_first else fan_out(slot, 2, of=2)
        if not is_first:
            # One of the two members has arrived; the other has not been announced.
            late = make_late(slot)
            flow.complete(0, [slot], late, None)
            continue
        flow.complete(0, [slot], receipt, None)
    return flow


def make_late(slot: Slot) -> Receipt:
    """Return a receipt of an older fan-out's task, whose group waits for another member."""
    emitted = (
        EmittedTask(
            0,
            slot.source,
            name(1 << 100 | int.from_bytes(slot.source, "big")),
            Origin(b"x" + slot.source[1:], 0, 2),
        ),
    )
    return Receipt((), (), emitted, StageCounts(tasks_in=1, tasks_out=1))


def wait_in_line() -> Flow:
    flow = make_flow(1, 1)
    flow.enter(map(root, range(MANY)))
    return flow


def fail(flow: Flow, number: int) -> None:
    source = name(number)
    flow.fail([Failure(source, str(number), source, "s0", "no")])


def take(flow: Flow, stage: int) -> None:
    batch = flow.next_batch(stage)
    flow.requeue(stage, batch, 0, holds=False, most_deaths=3)
    batch = flow.next_batch(stage)
    flow.complete(stage, batch, pass_on(batch), None)


EVENTS: dict[str, Callable[[Flow, int], Any]] = {
    "ask how much waits": lambda flow, _: [len(queue) for queue in flow.queues],
    "ask for nodes": lambda flow, _: wants_more(flow.queues, 0),
    "ask whether all is over": lambda flow, _: flow.is_idle(),
    "ask for suspects": lambda flow, _: [flow.has_suspects(stage) for stage in (0, 1)],
    "work on the last stage": lambda flow, _: take(flow, 1),
    "fail a source": fail,
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("wait", [wait_in_groups, wait_in_line])
def test_law_no_event_scans_waiting_tasks(wait: Callable[[], Flow], event: str) -> None:
    flow = wait()
    looks = watch(flow)
    for number in range(10):
        EVENTS[event](flow, MANY - 1 - number)
    assert looks.count <= 10 * 8


def test_law_sources_lost_together_are_searched_once() -> None:
    flow = wait_in_line()
    looks = watch(flow)
    flow.withdraw({name(number) for number in range(100)})
    assert looks.count <= MANY
    assert len(flow.queues[0]) == MANY - 100


def test_waiting_tasks_are_counted_incrementally() -> None:
    flow = wait_in_groups()
    (queue,) = flow.queues[1:]

    def count() -> int:
        return len(queue.waiting) + sum(map(len, queue.groups))

    assert 4 * MANY == count() == len(queue)
    batch = flow.next_batch(1)
    assert count() == len(queue)
    flow.requeue(1, batch, 0, holds=False, most_deaths=3)
    assert 4 * MANY == count() == len(queue)
    flow.withdraw({name(0)})
    assert 0 == count() == len(queue)
    again = wait_in_groups()
    fail(again, 0)
    again.next_batch(1)
    assert 0 == len(again.queues[1]) == len(again.queues[1].groups)
    last = wait_in_groups()
    last.stop()
    assert 0 == len(last.queues[1])


def test_law_each_suspect_is_examined_once() -> None:
    class Counted(Collection[bytes]):
        asked = 0

        def __contains__(self, _: object) -> bool:
            self.asked += 1
            return False

        def __iter__(self) -> Iterator[bytes]:
            raise NotImplementedError

        def __len__(self) -> int:
            return 0

    suspects, failed = Suspects(), Counted()
    for number in range(MANY):
        suspects.hold(SuspectBatch(0, [root(number)], 1))
    released = 0
    while group := suspects.release(failed):
        released += len(group)
    assert MANY == released
    assert failed.asked <= MANY
