"""Sources start again from their root, after workers release them, a limited number of times."""

from __future__ import annotations

from strandline.engine.call.slots import Slot
from strandline.engine.flow.flow import Flow
from strandline.engine.preemption.replays import REPLAYS_PER_SOURCE, Replays
from strandline.plan.receipt import EmittedTask, Event, Failure, Receipt, StageCounts
from strandline.plan.task import Origin
from test_flow import make_flow, make_slots, pass_on

PARENT = b"p" * 16


def name(number: int) -> bytes:
    return bytes([number]) * 16


def fan_out(slot: Slot, count: int) -> Receipt:
    """Return the receipt of a task that fanned out into `count` tasks."""
    emitted = tuple(
        EmittedTask(place, slot.source, bytes([50 + place]) * 16, Origin(slot.token, place, count))
        for place in range(count)
    )
    return Receipt((), (), emitted, StageCounts(tasks_in=1, tasks_out=count))


def run_first(flow: Flow, count: int) -> list[Slot]:
    """Run the first stage on `count` sources."""
    flow.enter(make_slots(count))
    batches = [flow.next_batch(0) for _ in range(count)]
    for batch in batches:
        flow.complete(0, batch, pass_on(batch), "block")
    return [slot for batch in batches for slot in batch]


def test_a_slot_refers_to_its_root() -> None:
    flow = make_flow(1, 1, 1)
    roots = run_first(flow, 2)
    batch = flow.next_batch(1)
    flow.complete(1, batch, pass_on(batch), "block")

    (last,) = flow.next_batch(2)
    assert last.root == roots[0]
    assert roots[0].root is None


def test_law_only_waiting_tasks_of_the_source_are_dropped() -> None:
    flow = make_flow(1, 1)
    run_first(flow, 3)
    (slot,) = flow.next_batch(1)

    begun = Replays(flow).begin([slot])

    assert begun == ([Event(name(0), (name(0),), (name(0),))], [])
    assert [one.source for one in flow.queues[1].waiting] == [name(1), name(2)]


def test_law_the_root_waits_until_workers_have_no_task_of_its_source() -> None:
    flow = make_flow(1, 1)
    roots = run_first(flow, 1)
    replays = Replays(flow)
    replays.begin(flow.next_batch(1)[:1])

    replays.release({name(0)})
    assert not flow.queues[0].waiting
    assert replays
    replays.release({name(9)})
    assert list(flow.queues[0].waiting) == roots
    assert not replays


def test_answers_in_between_do_not_count() -> None:
    flow = make_flow(1, 1)
    run_first(flow, 2)
    lost, other = flow.next_batch(1)[0], flow.next_batch(1)[0]
    replays = Replays(flow)
    replays.begin([lost])
    both = Receipt(
        tuple(Event(slot.source, (slot.token,), ()) for slot in (lost, other)),
        tuple(Failure(slot.source, slot.key, slot.token, "s1", "no") for slot in (lost, other)),
        tuple(EmittedTask(0, slot.source, slot.token, None) for slot in (lost, other)),
        StageCounts(tasks_in=2),
    )

    kept = replays.filter(both)

    parts = (kept.events, kept.failures, kept.emitted)
    assert [[one.source for one in part] for part in parts] == [[name(1)]] * 3
    assert kept.counts == both.counts
    assert replays.keep_current([lost, other]) == [other]


def test_law_a_partial_group_is_filled_only_by_the_second_try() -> None:
    flow = make_flow(1, 1, group=2)
    flow.enter(make_slots(1))
    (root,) = flow.next_batch(0)
    receipt = fan_out(root, 4)
    flow.complete(0, [root], receipt._replace(emitted=receipt.emitted[:3]), "lost")
    assert len(flow.queues[1].groups) == 2  # the second group lacks the filtered task
    replays = Replays(flow)
    replays.begin(flow.next_batch(1)[:1])
    assert not flow.queues[1].groups

    replays.release(())
    (again,) = flow.next_batch(0)
    flow.complete(0, [again], receipt, "new")

    groups = [flow.next_batch(1), flow.next_batch(1)]
    assert [len(group) for group in groups] == [2, 2]
    assert {slot.block for group in groups for slot in group} == {"new"}


def test_a_half_filled_group_is_forgotten() -> None:
    flow = make_flow(1, 1, 1, group=2)
    flow.enter(make_slots(1))
    (root,) = flow.next_batch(0)
    receipt = fan_out(root, 2)
    flow.complete(0, [root], receipt, "old")
    first, second = flow.next_batch(1), flow.next_batch(1)
    flow.complete(1, first, pass_on(first), "old")
    replays = Replays(flow)
    replays.begin(second[:1])
    replays.release(())

    flow.complete(0, flow.next_batch(0), receipt, "new")
    for _ in range(2):
        assert not flow.queues[2].groups
        batch = flow.next_batch(1)
        flow.complete(1, batch, pass_on(batch), "new")

    assert {slot.block for slot in flow.next_batch(2)} == {"new"}


def test_suspects_of_the_source_are_dropped_too() -> None:
    flow = make_flow(1, 1)
    run_first(flow, 2)
    batch, other = flow.next_batch(1), flow.next_batch(1)
    for one in (batch, other):
        flow.requeue(1, one, 2, holds=True, most_deaths=3)
    assert len(flow.suspects) == 2

    Replays(flow).begin(batch[:1])

    assert len(flow.suspects) == 1


def test_restarts_of_a_source_are_limited() -> None:
    flow = make_flow(1, 1)
    (root,) = run_first(flow, 1)
    replays = Replays(flow)

    spent = [replays.begin([root])[1] for _ in range(REPLAYS_PER_SOURCE + 1)]

    assert spent == [[]] * REPLAYS_PER_SOURCE + [[root]]


def test_partially_lost_work_is_retried_task_by_task() -> None:
    flow = make_flow(1, 3)
    run_first(flow, 3)
    batch = flow.next_batch(1)
    assert len(batch) == 3

    flow.take_apart(1, batch)

    batches = [flow.next_batch(1) for _ in range(3)]
    assert [[slot.source for slot in each] for each in batches] == [[name(n)] for n in range(3)]
    assert [slot.deaths for each in batches for slot in each] == [0, 0, 0]
