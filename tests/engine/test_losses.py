"""Consequences of lost workers or lost data for sources and for the pool."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, NodeDiedError

from strandline.engine.call.setup import StageSetupError
from strandline.engine.call.slots import Slot
from strandline.engine.core.loss_streaks import ChainStreak
from strandline.engine.core.pools import DEATHS_PER_POOL, DEATHS_PER_TASK, PoolBrokenError
from strandline.engine.core.ports import Control, Incidents
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.flow import Flow
from strandline.engine.ray.losses import Losses, OverdueError
from strandline.plan.receipt import EmittedTask, Failure, Receipt, StageCounts
from strandline_api.outcome.causes import Cause
from test_flow import make_flow, make_slots

UNREACHABLE = ActorUnavailableError("keepalive watchdog timeout", b"a" * 16)


class Pools(list[Any]):
    """Pools in which workers have only calls."""

    def __init__(self, stages: int) -> None:
        super().__init__(
            SimpleNamespace(
                plan=SimpleNamespace(name=f"s{stage}"), streak=ChainStreak(), workers=[], past=0.0
            )
            for stage in range(stages)
        )

    def remove(self, worker: Worker) -> list[Call]:  # type: ignore[override]
        calls = list(worker.calls.values())
        worker.calls.clear()
        return calls

    def list_sources(self) -> set[bytes]:
        return set()


class Scene:
    """Losses of a flow, and the failures that were sent to the ledger."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.pools = Pools(len(flow.queues))
        self.failures: list[Failure] = []
        pools: Any = self.pools
        ledger: Any = SimpleNamespace(forward=lambda _, failures: self.failures.extend(failures))
        control = Control(lambda: False, lambda _: None, lambda: 0.0)
        incidents = Incidents()
        self.incidents = incidents.sentences
        self.losses = Losses(flow, pools, ledger, control, incidents)

    def lose(self, *batches: list[Slot], error: Exception) -> None:
        """Lose a worker that had these calls."""
        worker = Worker(0, "actor", is_placed=True, is_ready=True)
        for number, batch in enumerate(batches):
            worker.calls[number] = Call(0, worker, batch, "data", number)
        self.losses.take_out(worker, error)


def test_law_a_lost_node_blames_no_source_whatever_the_error() -> None:
    for error in (NodeDiedError("its node has died"), UNREACHABLE):
        flow = make_flow(1)
        flow.enter(make_slots(1))
        scene = Scene(flow)
        for _ in range(DEATHS_PER_TASK):
            scene.lose(flow.next_batch(0), error=error)
        assert [slot.deaths for slot in flow.queues[0].waiting] == [0]
        assert scene.failures == []


def test_calls_of_an_unreachable_worker_are_retried_alone() -> None:
    flow = make_flow(2)
    flow.enter(make_slots(4))
    scene = Scene(flow)
    scene.lose(flow.next_batch(0), error=UNREACHABLE)
    assert [[slot.key for slot in flow.next_batch(0)] for _ in range(3)] == [
        ["k0"],
        ["k1"],
        ["k2", "k3"],
    ]


def test_a_crash_is_still_blamed_on_a_lone_source() -> None:
    flow = make_flow(1)
    flow.enter(make_slots(1))
    scene = Scene(flow)
    for _ in range(DEATHS_PER_TASK):
        scene.lose(flow.next_batch(0), error=ActorDiedError())
    assert [failure.key for failure in scene.failures] == ["k0"]


def test_law_only_the_running_call_of_an_overdue_worker_is_suspected() -> None:
    flow = make_flow(1)
    flow.enter(make_slots(2))
    scene = Scene(flow)
    hanging, waiting = flow.next_batch(0), flow.next_batch(0)
    for _ in range(DEATHS_PER_TASK - 1):
        scene.lose(hanging, waiting, error=OverdueError("too long"))
        assert scene.failures == []
        hanging, waiting = flow.next_batch(0), flow.next_batch(0)
        assert [slot.key for slot in hanging + waiting] == ["k0", "k1"]
        assert [slot.is_suspect for slot in hanging + waiting] == [True, False]
    scene.lose(hanging, waiting, error=OverdueError("too long"))
    (failure,) = scene.failures
    assert (failure.key, failure.cause) == ("k0", "Timeout")
    assert failure.message == "lost 3 workers; the last: too long"
    assert scene.incidents[0] == (
        "a worker of 's0' was replaced while processing k0, 2 tasks are queued again: too long"
    )


def test_a_stage_that_always_hangs_ends_the_attempt_with_the_cause() -> None:
    flow = make_flow(1)
    flow.enter(make_slots(DEATHS_PER_POOL))
    scene = Scene(flow)
    batches = [flow.next_batch(0) for _ in range(DEATHS_PER_POOL)]
    for batch in batches[:-1]:
        scene.lose(batch, error=OverdueError("too long"))
    with pytest.raises(PoolBrokenError, match="the last: too long") as caught:
        scene.lose(batches[-1], error=OverdueError("too long"))
    assert caught.value.cause is Cause.TIMEOUT


def test_law_a_source_that_always_loses_contact_breaks_its_pool_finally() -> None:
    flow = make_flow(1)
    flow.enter(make_slots(1))
    scene = Scene(flow)
    for _ in range(DEATHS_PER_POOL):  # the first loss may be a lost node
        scene.lose(flow.next_batch(0), error=UNREACHABLE)
    with pytest.raises(PoolBrokenError, match="stage 's0' lost 4 workers in a row"):
        scene.lose(flow.next_batch(0), error=UNREACHABLE)


def test_law_a_node_with_many_workers_is_one_cause_per_loss() -> None:
    flow = make_flow(1)
    flow.enter(make_slots(40))
    scene = Scene(flow)
    for _ in range(DEATHS_PER_POOL):
        for batch in [flow.next_batch(0) for _ in range(40)]:
            scene.lose(batch, error=UNREACHABLE)
    assert scene.pools[0].streak.causes == DEATHS_PER_POOL - 1


def test_law_one_source_on_many_workers_of_a_lost_node_is_no_cause() -> None:
    flow = make_flow(1)
    flow.enter(slot._replace(source=b"s" * 16) for slot in make_slots(40))
    scene = Scene(flow)
    for batch in [flow.next_batch(0) for _ in range(40)]:
        scene.lose(batch, error=UNREACHABLE)
    assert scene.pools[0].streak.causes == 0


def fan_out(slot: Slot, count: int, first: int) -> Receipt:
    emitted = tuple(
        EmittedTask(place, slot.source, bytes([first + place]) * 16, None) for place in range(count)
    )
    return Receipt((), (), emitted, StageCounts(tasks_in=1, tasks_out=count))


def test_law_a_source_that_waits_for_a_restart_is_not_requeued() -> None:
    flow = make_flow(1, 2)
    flow.enter(make_slots(2))
    first, second = flow.next_batch(0), flow.next_batch(0)
    flow.complete(0, first, fan_out(first[0], 3, 50), "lost")
    flow.complete(0, second, fan_out(second[0], 1, 90), "kept")
    whole, mixed = flow.next_batch(1), flow.next_batch(1)  # the second spans two blocks
    assert [slot.source[0] for slot in mixed] == [0, 1]
    scene, worker = Scene(flow), Worker(1, "actor")

    scene.losses.lose_data(Call(1, worker, whole, None, 1), "lost")
    scene.losses.lose_data(Call(1, worker, mixed, None, 2), "lost")
    scene.losses.replays.release(())

    assert [slot.source[0] for slot in flow.queues[0].waiting] == [0]
    assert [slot.source[0] for slot in flow.queues[1].waiting] == [1]
    assert flow.queues[1].running == 0


def fail_setup(scene: Scene, text: str = "no model", stage: int = 0) -> None:
    error = StageSetupError(text)
    error.is_lasting = True
    scene.losses.fail_setup(Worker(stage, None), error)


def test_a_worker_that_cannot_be_set_up_is_replaced_once() -> None:
    scene = Scene(make_flow(1, 1))
    fail_setup(scene)
    fail_setup(scene, stage=1)
    assert scene.incidents == ["no model; another worker is tried"] * 2
    with pytest.raises(StageSetupError, match="no model") as caught:
        fail_setup(scene)
    assert caught.value.is_lasting


def test_setup_failures_with_different_reasons_are_retried() -> None:
    scene = Scene(make_flow(1))
    fail_setup(scene, "no room on /tmp/a")
    with pytest.raises(StageSetupError, match="no room on /tmp/b") as caught:
        fail_setup(scene, "no room on /tmp/b")
    assert not caught.value.is_lasting


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_stage_that_has_worked_may_work_again(is_gone: bool) -> None:
    scene = Scene(make_flow(1))
    pool = scene.pools[0]
    pool.past, pool.workers = (1.0, []) if is_gone else (0.0, [Worker(0, None, is_ready=True)])
    fail_setup(scene)
    with pytest.raises(StageSetupError) as caught:
        fail_setup(scene)
    assert not caught.value.is_lasting
