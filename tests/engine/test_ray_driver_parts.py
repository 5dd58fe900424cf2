"""How the driver of the Ray engine handles lost workers and the end of work."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import NodeDiedError

from strandline.engine.call.slots import Slot
from strandline.engine.call.wire import Plain, pack_receipt
from strandline.engine.core.call_size import FileFilling
from strandline.engine.core.ports import Control, Incidents, Listing
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.chains import list_apart
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.loop import EngineLoop
from strandline.engine.loop.transport import RunState
from strandline.engine.ray import engine as ray_engine
from strandline.engine.ray import pool as ray_pool
from strandline.engine.ray import transport as ray_transport
from strandline.engine.ray.connection import Connection
from strandline.engine.ray.engine import RayEngine
from strandline.engine.ray.losses import Losses, OverdueError
from strandline.engine.ray.pool import RayPools
from strandline.engine.ray.transport import ActorTransport
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.stage import Stage
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.documents.problems import SpecError
from test_flow import make_flow, make_slots, pass_on


def make_driver(flow: Flow) -> Any:
    """Return a transport with its own pools, without Ray."""
    driver: Any = object.__new__(ActorTransport)
    stages = tuple(StagePlan(queue.name, "s", Stage()) for queue in flow.queues)
    plan = PipelinePlan("ns", "p", StagePlan("s", "s", Stage()), stages, Fingerprint("", {}))
    driver._flow = flow
    driver._pools = RayPools("p", list_apart(stages), OutputLocation("out"), now=lambda: 0.0)
    ledger: Any = SimpleNamespace(forward=lambda *_: None)
    control = Control(lambda: False, lambda _: None, lambda: 0.0)
    driver._control = control
    driver._losses = Losses(flow, driver._pools, ledger, control, Incidents())
    driver._demand = SimpleNamespace(look=lambda *_: None)
    driver._admission = SimpleNamespace(sources_left=0, asked=None)
    driver._scaler = SimpleNamespace(avoid=lambda _: None, is_due=lambda _: False, bottleneck="s0")
    listing: Any = SimpleNamespace(is_ended=True)
    driver._state = RunState(plan, flow, listing, ledger, driver._admission, control)
    return driver


def add_worker(pools: RayPools, batch: list[Slot], *, is_draining: bool) -> Worker:
    """Add a worker with one call."""
    worker = Worker(0, "actor", is_placed=True, is_ready=True, is_draining=is_draining)
    pools[0].workers.append(worker)
    pools.calls["receipt"] = worker.calls["receipt"] = Call(0, worker, batch, "data", 1)
    return worker


def have_answered(monkeypatch: pytest.MonkeyPatch, batch: list[Slot], why: str = "") -> None:
    """Install a fake Ray with one answered call. If `why` is set, the worker is recycled."""
    answer: Plain = [*pack_receipt(pass_on(batch)), None, why, []]
    ray = SimpleNamespace(get=lambda *_, **__: answer, kill=lambda _: None)
    monkeypatch.setattr(ray_pool, "ray", ray)
    monkeypatch.setattr(ray_transport, "ray", ray)
    monkeypatch.setattr(ray_pool, "get_local_object_locations", lambda _: {})


@pytest.mark.parametrize(
    ("left", "is_stopped", "calls", "waits"),
    [
        (None, False, 0, True),  # the listing continues
        (0, False, 0, False),
        (None, True, 1, True),  # calls are still running
        (None, True, 0, False),
    ],
)
def test_tasks_wait_for_a_file_while_more_can_arrive(
    left: int | None, is_stopped: bool, calls: int, waits: bool
) -> None:
    flow = make_flow(1, 1)
    driver, filling = make_driver(flow), FileFilling(1000)
    driver._admission.sources_left = left
    flow.is_stopped = is_stopped
    driver._pools.calls = dict.fromkeys(range(calls))
    assert driver._fill(filling, 1, 5) == (1000, 1000 if waits else 0)
    assert driver._fill(filling, 1, 1000) == (1000, 0)
    assert driver._pools.bound_queue(1) > 1000


def test_a_stopped_run_continues_while_its_output_can_be_written() -> None:
    flow = make_flow(1, 1)
    driver = make_driver(flow)
    loop = EngineLoop(driver._state, driver)
    flow.fills_files = flow.is_stopped = True
    assert loop._is_done()
    flow.queues[1].waiting += make_slots(1)
    assert loop._is_done()  # no worker could write it
    driver._pools.add(Worker(1, "actor", is_placed=True, is_ready=True))
    assert not loop._is_done()


def test_law_an_overdue_worker_that_answers_at_the_last_moment_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the next call would be blamed for the previous call."""
    flow = make_flow(1, 1)
    flow.enter(make_slots(1))
    batch = flow.next_batch(0)
    have_answered(monkeypatch, batch)
    driver = make_driver(flow)
    worker = add_worker(driver._pools, batch, is_draining=False)

    driver._lose(worker, OverdueError("too long"))

    assert driver._pools.has(worker)
    assert not driver._losses.anything_died
    assert [slot.key for slot in flow.queues[1].waiting] == ["k0"]


@pytest.mark.parametrize(("is_draining", "why"), [(True, ""), (False, "memory")])
def test_a_lost_worker_whose_last_answer_ended_it_is_not_taken_out_twice(
    monkeypatch: pytest.MonkeyPatch, is_draining: bool, why: str
) -> None:
    flow = make_flow(1, 1)
    flow.enter(make_slots(1))
    batch = flow.next_batch(0)
    have_answered(monkeypatch, batch, why)
    driver = make_driver(flow)
    worker = add_worker(driver._pools, batch, is_draining=is_draining)

    driver._lose(worker, NodeDiedError("its node has died"))

    assert not driver._pools.has(worker)
    assert not driver._losses.anything_died
    assert [slot.key for slot in flow.queues[1].waiting] == ["k0"]


def test_no_stage_is_the_bottleneck_without_remaining_work() -> None:
    flow = make_flow(1)
    driver = make_driver(flow)
    flow.enter(make_slots(1))
    driver._scale()
    assert driver._scaler.bottleneck == "s0"
    flow.next_batch(0)
    flow.stop()
    driver._scale()
    assert driver._scaler.bottleneck is None


@pytest.mark.parametrize(("gpus", "is_refused"), [(0.0, True), (1.0, False)])
def test_a_local_ray_with_too_few_resources_fails_at_once(
    gpus: float, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resources are known only after Ray's start."""
    have = Connection(2.0, capacity={"CPU": 2.0, "GPU": gpus})
    monkeypatch.setattr(ray_engine, "connected", lambda *_: nullcontext(have))
    driven: list[Any] = []
    monkeypatch.setattr(RayEngine, "drive", lambda *given: driven.append(given))
    stages = (StagePlan("see", "see", Stage(), gpu=0.5),)
    plan = PipelinePlan("ns", "name", StagePlan("s", "s", Stage()), stages, Fingerprint("", {}))
    engine, nothing = RayEngine(OutputLocation("/out")), Listing(iter(()))
    control = Control(lambda: False, lambda _: None, lambda: 0.0)
    if is_refused:
        with pytest.raises(
            SpecError, match=r"'see' requests 0.5 GPU per worker, but there is no GPU"
        ):
            engine.run(plan, nothing, None, control)
    else:
        engine.run(plan, nothing, None, control)
    assert len(driven) == (not is_refused)
