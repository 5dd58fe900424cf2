"""The queues between stages: the next batches, requeued tasks, and dropped tasks."""

from __future__ import annotations

import pytest

from strandline.engine.call.slots import Slot, split_opened
from strandline.engine.call.stage.stage_tally import StageBrokenError
from strandline.engine.flow.flow import BROKEN_AFTER, FAILURES_KEPT, Flow
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import EmittedTask, Failure, Receipt, StageCounts, UniformFailure
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Origin


def make_flow(*batch_sizes: int, group: int | None = None) -> Flow:
    """Return a flow of stages with these batch sizes. The last stage joins groups if requested."""
    last = len(batch_sizes) - 1
    stages = tuple(
        StagePlan(
            f"s{index}", "s", Stage(), batch_size=size, group=group if index == last else None
        )
        for index, size in enumerate(batch_sizes)
    )
    source = StagePlan("source", "source", Stage())
    return Flow(PipelinePlan("ns", "name", source, stages, Fingerprint("", {})))


def make_slots(count: int) -> list[Slot]:
    return [
        Slot(bytes([index]) * 16, f"k{index}", bytes([index]) * 16, None, None, index)
        for index in range(count)
    ]


def pass_on(batch: list[Slot]) -> Receipt:
    emitted = tuple(
        EmittedTask(index, slot.source, slot.token, slot.origin) for index, slot in enumerate(batch)
    )
    return Receipt((), (), emitted, StageCounts(tasks_in=len(batch), tasks_out=len(batch)))


def fail_all(batch: list[Slot]) -> Receipt:
    failures = tuple(Failure(slot.source, slot.key, slot.token, "s0", "no") for slot in batch)
    return Receipt((), failures, (), StageCounts(tasks_in=len(batch), failed=len(batch)))


def test_the_first_stage_takes_a_partial_batch() -> None:
    flow = make_flow(4, 1)
    flow.enter(make_slots(3))

    assert len(flow.next_batch(0)) == 3
    assert flow.next_batch(0) == []


def test_a_partial_batch_waits_while_upstream_work_could_fill_it() -> None:
    flow = make_flow(1, 2)
    flow.enter(make_slots(2))
    first = flow.next_batch(0)
    flow.complete(0, first, pass_on(first), "block")

    assert flow.next_batch(1) == []
    second = flow.next_batch(0)
    flow.complete(0, second, pass_on(second), "block")
    assert [slot.key for slot in flow.next_batch(1)] == ["k0", "k1"]


def test_a_partial_batch_is_sent_without_upstream_work() -> None:
    flow = make_flow(1, 2)
    flow.enter(make_slots(1))
    batch = flow.next_batch(0)
    flow.complete(0, batch, pass_on(batch), "block")

    assert len(flow.next_batch(1)) == 1


def test_lost_work_comes_first_and_alone() -> None:
    flow = make_flow(2, 1)
    flow.enter(make_slots(4))
    lost = flow.next_batch(0)

    assert flow.requeue(0, lost, 2, holds=False, most_deaths=3) == []

    assert [slot.key for slot in flow.next_batch(0)] == ["k0"]
    assert [slot.key for slot in flow.next_batch(0)] == ["k1"]
    assert [slot.key for slot in flow.next_batch(0)] == ["k2", "k3"]


def test_queued_work_of_a_dead_worker_is_not_suspected() -> None:
    flow = make_flow(2, 1)
    flow.enter(make_slots(2))

    flow.requeue(0, flow.next_batch(0), 0, holds=False, most_deaths=3)

    assert len(flow.next_batch(0)) == 2


def test_a_task_that_kills_its_workers_is_handed_back() -> None:
    flow = make_flow(1, 1)
    flow.enter(make_slots(1))

    for _ in range(2):
        assert flow.requeue(0, flow.next_batch(0), 1, holds=False, most_deaths=3) == []
    (poisoned,) = flow.requeue(0, flow.next_batch(0), 1, holds=False, most_deaths=3)

    assert poisoned.key == "k0"
    assert flow.is_idle()


def test_a_failed_sources_waiting_work_is_dropped() -> None:
    flow = make_flow(1, 1)
    flow.enter(make_slots(2))
    batch = flow.next_batch(0)

    flow.fail([Failure(b"\1" * 16, "k1", b"", "s0", "no")])
    flow.complete(0, batch, pass_on(batch), "block")

    assert flow.next_batch(0) == []
    assert [slot.key for slot in flow.next_batch(1)] == ["k0"]


def test_a_stage_that_fails_everything_ends_the_run_by_name() -> None:
    flow = make_flow(BROKEN_AFTER, 1)
    flow.enter(make_slots(BROKEN_AFTER))
    batch = flow.next_batch(0)

    with pytest.raises(StageBrokenError, match="'s0' failed each of its first 50 tasks"):
        flow.complete(0, batch, fail_all(batch), None)


def test_law_previously_failed_sources_do_not_hide_a_broken_stage() -> None:
    flow = make_flow(BROKEN_AFTER, 1)
    slots = make_slots(2 * BROKEN_AFTER)
    flow.known_bad.update(slot.source for slot in slots[:BROKEN_AFTER])
    flow.enter(slots)
    batch = flow.next_batch(0)
    flow.complete(0, batch, fail_all(batch), None)

    batch = flow.next_batch(0)  # as many sources as before, none of them failed yet
    with pytest.raises(StageBrokenError, match="'s0' failed each of its first 100 tasks"):
        flow.complete(0, batch, fail_all(batch), None)


def kill_all(batch: list[Slot], passed: int = 0) -> Receipt:
    uniform = UniformFailure(batch[0].source, batch[0].key, 30, "no column", fails_source=False)
    counts = StageCounts(tasks_in=len(batch), tasks_out=passed, dead=30, uniform=uniform)
    return Receipt((), (), (), counts)


def test_a_first_task_with_only_dead_rows_ends_the_run_before_it_is_recorded() -> None:
    flow = make_flow(1, 1)
    flow.enter(make_slots(1))
    with pytest.raises(
        StageBrokenError, match="'s0' failed all 30 rows of its first task, of 'k0'"
    ):
        flow.refuse_uniform(0, kill_all(flow.next_batch(0)))


def test_a_wholly_failed_task_does_not_end_a_run_after_a_success() -> None:
    flow = make_flow(1, 1)
    flow.enter(make_slots(4))
    flow.refuse_uniform(0, kill_all(flow.next_batch(0), passed=1))  # a task of the same call passed
    first = flow.next_batch(0)
    flow.complete(0, first, pass_on(first), None)
    for _ in range(2):
        batch = flow.next_batch(0)
        flow.refuse_uniform(0, kill_all(batch))
        flow.complete(0, batch, kill_all(batch), None)


def test_a_previously_failed_source_does_not_count_against_the_stage() -> None:
    flow, slots = make_flow(1, 1), make_slots(2)
    flow.known_bad.add(slots[0].source)
    flow.enter(slots)
    batch = flow.next_batch(0)
    flow.refuse_uniform(0, kill_all(batch))
    flow.complete(0, batch, kill_all(batch), None)
    with pytest.raises(StageBrokenError, match="of 'k1'"):
        flow.refuse_uniform(0, kill_all(flow.next_batch(0)))


def test_one_success_keeps_a_failing_stage_going() -> None:
    flow = make_flow(1, 1)
    flow.enter(make_slots(BROKEN_AFTER + 2))
    first = flow.next_batch(0)
    flow.complete(0, first, pass_on(first), None)

    for _ in range(BROKEN_AFTER + 1):
        batch = flow.next_batch(0)
        flow.complete(0, batch, fail_all(batch), None)

    assert flow.queues[0].counts.failed == BROKEN_AFTER + 1


def test_stopping_drops_what_waits_and_lets_the_rest_finish() -> None:
    flow = make_flow(1, 1)
    flow.enter(make_slots(3))
    running = flow.next_batch(0)

    flow.stop()
    flow.complete(0, running, pass_on(running), None)

    assert flow.next_batch(0) == []
    assert flow.next_batch(1) == []
    assert flow.is_idle()


def test_a_group_is_due_when_its_slots_have_arrived_or_gone() -> None:
    flow = make_flow(1, 1, 1, group=2)
    flow.enter(make_slots(1))
    (parent,) = root = flow.next_batch(0)
    children = [bytes([index]) * 16 for index in (10, 11, 13)]
    origins = [Origin(parent.token, slot, 4) for slot in (0, 1, 3)]
    emitted = tuple(
        EmittedTask(index, parent.source, token, origin)
        for index, (token, origin) in enumerate(zip(children, origins, strict=True))
    )
    # Slot 2 was filtered by the fan-out itself.
    flow.complete(0, root, Receipt((), (), emitted, StageCounts(tasks_out=3)), "block")

    first, second, third = (flow.next_batch(1) for _ in range(3))
    flow.complete(1, third, pass_on(third), "block")
    assert [slot.token for slot in flow.next_batch(2)] == [children[2]]
    flow.complete(1, first, Receipt((), (), (), StageCounts(filtered=1)), None)
    flow.complete(1, second, pass_on(second), "block")
    assert [slot.token for slot in flow.next_batch(2)] == [children[1]]


def test_a_group_without_remaining_slots_is_never_due() -> None:
    flow = make_flow(1, 1, 1, group=2)
    flow.enter(make_slots(1))
    (parent,) = root = flow.next_batch(0)
    child = EmittedTask(0, parent.source, b"c" * 16, Origin(parent.token, 0, 1))
    flow.complete(0, root, Receipt((), (), (child,), StageCounts(tasks_out=1)), "block")
    batch = flow.next_batch(1)

    flow.complete(1, batch, Receipt((), (), (), StageCounts(filtered=1)), None)

    assert flow.is_idle()
    assert flow.next_batch(2) == []


def test_a_suspect_waits_until_it_is_released() -> None:
    flow = make_flow(4, 1)
    first, second, third = make_slots(3)
    flow.enter([first])
    flow.enter([second, third], exposed=2)
    assert [slot.key for slot in flow.next_batch(0)] == ["k0"]
    assert not flow.is_idle()
    flow.complete(0, [first], fail_all([first]), "block")

    assert flow.is_idle()
    assert len(flow.suspects) == 2
    flow.release_suspects()
    assert [slot.key for slot in flow.next_batch(0)] == ["k1"]


def test_work_lost_to_memory_is_held_back_and_released_apart() -> None:
    flow = make_flow(4, 1)
    flow.enter(make_slots(4))
    lost = flow.next_batch(0)

    assert flow.requeue(0, lost, 4, holds=True, most_deaths=3) == []
    assert flow.next_batch(0) == []
    flow.release_suspects()
    # The two batches are released together, but each runs alone, because both are suspects.
    assert [[slot.key for slot in flow.next_batch(0)] for _ in range(2)] == [["k0"], ["k1"]]
    assert flow.next_batch(0) == []


def test_a_group_of_suspects_is_never_blamed() -> None:
    flow = make_flow(2, 1)
    flow.enter(make_slots(2))
    for _ in range(10):
        batch = flow.next_batch(0)
        assert flow.requeue(0, batch, 2, holds=False, most_deaths=3) == []


def test_a_group_is_held_back_as_a_whole() -> None:
    flow = make_flow(1, 1, group=2)
    origins = [Origin(b"p" * 16, slot, 2) for slot in range(2)]
    slots = [
        slot._replace(source=b"s" * 16, origin=origin)
        for slot, origin in zip(make_slots(2), origins, strict=True)
    ]
    flow.enter(slots)
    for _ in slots:
        batch = flow.next_batch(0)
        flow.complete(0, batch, pass_on(batch), "block")
    group = flow.next_batch(1)
    assert len(group) == 2

    flow.requeue(1, group, 1, holds=True, most_deaths=3)
    assert flow.is_idle()
    flow.release_suspects()
    assert [slot.deaths for slot in flow.next_batch(1)] == [1, 1]


def test_a_stop_drops_suspects_too() -> None:
    flow = make_flow(1)
    flow.enter(make_slots(1), exposed=1)
    flow.stop()
    assert len(flow.suspects) == 0
    flow.enter(make_slots(1), exposed=1)
    assert len(flow.suspects) == 0


def test_law_a_suspect_runs_alone() -> None:
    flow = make_flow(4, 1)
    flow.enter(make_slots(8))
    first, second = flow.next_batch(0), flow.next_batch(0)
    flow.requeue(0, first, 1, holds=False, most_deaths=3)
    flow.requeue(0, second[:2], 0, holds=False, most_deaths=3)  # goes before the suspects

    batches = [flow.next_batch(0, 8) for _ in range(5)]

    assert [[slot.key for slot in batch] for batch in batches] == [
        ["k4", "k5"],
        ["k0"],
        ["k1"],
        ["k2"],
        ["k3"],
    ]


def test_law_groups_of_a_failed_source_are_dropped() -> None:
    flow = make_flow(1, 1, 1, group=3)
    flow.enter(make_slots(1))
    (parent,) = root = flow.next_batch(0)
    emitted = tuple(
        EmittedTask(place, parent.source, bytes([50 + place]) * 16, Origin(parent.token, place, 6))
        for place in range(6)
    )
    flow.complete(0, root, Receipt((), (), emitted, StageCounts(tasks_out=6)), "block")
    batches = [flow.next_batch(1) for _ in range(5)]
    flow.complete(1, batches[0], pass_on(batches[0]), "block")
    grouping = flow.queues[2].grouping
    assert grouping is not None
    assert len(grouping) == 1

    flow.complete(1, batches[1], fail_all(batches[1]), None)
    for batch in batches[2:4]:  # at workers during the failure
        flow.complete(1, batch, pass_on(batch), "block")
    flow.complete(1, batches[4], Receipt((), (), (), StageCounts(filtered=1)), None)

    assert len(grouping) == 0
    assert flow.next_batch(1) == flow.next_batch(2) == []
    assert flow.is_idle()


def test_only_the_reasons_of_the_first_failures_are_kept() -> None:
    flow = make_flow(1)
    failures = [
        Failure(number.to_bytes(16, "big"), str(number), b"", "s0", "no")
        for number in range(FAILURES_KEPT + 5)
    ]
    flow.fail(failures[:3])
    flow.fail(failures[:3])  # a source counts only once
    assert flow.failures == failures[:3]
    flow.fail(failures)
    assert flow.failures == failures[:FAILURES_KEPT]
    assert len(flow.failed) == len(failures)


def test_a_batch_is_split_if_an_answer_continues() -> None:
    batch = make_slots(3)
    over, rest = split_opened(batch, batch[1].token, 5)
    assert over == batch[:1]
    assert rest == [batch[1]._replace(handed=5), batch[2]]
