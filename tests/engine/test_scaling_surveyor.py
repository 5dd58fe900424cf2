"""Inputs of the planner: available resources, work since the last plan, and workers by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.autoscaler.inputs import (
    DRIVER_NODE,
    SETTLE_SECONDS,
    NodeFacts,
    Surveyor,
    WorkerFacts,
    find_share,
)
from strandline.engine.autoscaler.model import Inputs, ScalingParams, ScalingState
from strandline.engine.autoscaler.planner import plan
from strandline.engine.flow.stage_queue import StageQueue
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

READ = StagePlan("read", "read", Stage())
LABEL = StagePlan("label", "label", Stage(), cpu=2.0, gpu=0.5, custom={"nvdec": 1.0})


class Sink(SinkStage):
    """Writes nothing."""

    def write(self, task: Task, file: BinaryIO) -> None:
        pass


WRITE = StagePlan("write", "write", Sink())
PLANS = [READ, LABEL, WRITE]

cpus = st.lists(st.integers(0, 8).map(float), min_size=1, max_size=4)
stage_lists = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1.0, 2.0, 4.0]), st.integers(1, 4)),
    min_size=1,
    max_size=6,
).map(
    lambda pairs: [
        StagePlan(str(place), "s", Stage(), cpu=cpu, min_workers=least)
        for place, (cpu, least) in enumerate(pairs)
    ]
)


def make_node(name: str = "a", cpu: float = 8.0, free: float | None = None, **more: float) -> Any:
    total = {"CPU": cpu, "memory": 1e9, f"node:{name}": 1.0, **more}
    return NodeFacts(name, total, {**total, "CPU": cpu if free is None else free})


def make_worker(stage: int, node: str = "a", cpu: float = 1.0, state: str = "ready") -> WorkerFacts:
    is_placed = state not in {"waiting", "draining unplaced"}
    is_ready = state in {"ready", "draining"}
    return WorkerFacts(stage, node, cpu, is_placed, is_ready, state.startswith("draining"))


class Driver:
    """Queues with counts that tests set, and a surveyor that reads them."""

    def __init__(self, plans: Sequence[StagePlan] = PLANS, here: str | None = None) -> None:
        self.queues = [StageQueue(one.name, 1, None) for one in plans]
        self.surveyor = Surveyor(plans, here)

    def look(
        self,
        nodes: Sequence[NodeFacts],
        workers: Sequence[WorkerFacts] = (),
        now: float = 0.0,
        left: int | None = None,
    ) -> Inputs:
        return self.surveyor.look(now, nodes, workers, self.queues, left)


def read_cpu(inputs: Inputs) -> list[float]:
    return [round(node.resources.cpu, 6) for node in inputs.nodes]


def test_counts_cover_the_time_since_the_last_look() -> None:
    driver = Driver()
    driver.queues[0].counts = StageCounts(tasks_in=10, tasks_out=20, seconds=4.0)
    first = driver.look([make_node()]).stages[0]
    assert (first.completed, first.seconds, first.tasks_in, first.tasks_out) == (10, 4.0, 10, 20)
    driver.queues[0].counts = StageCounts(tasks_in=13, tasks_out=26, seconds=5.5)
    second = driver.look([make_node()], now=1.0).stages[0]
    assert (second.completed, second.seconds, second.tasks_in) == (3, 1.5, 13)


def test_workers_are_counted_by_state_and_current_or_future_node() -> None:
    workers = [
        make_worker(0),
        make_worker(0, state="preparing"),
        make_worker(0, "b", state="waiting"),
        make_worker(0, "", state="waiting"),
        make_worker(1, state="draining"),
        make_worker(1, "gone"),
    ]
    inputs = Driver().look([make_node(), make_node("b")], workers)
    read, label, _ = inputs.stages
    assert (read.ready, read.starting, read.draining) == (1, 3, 0)
    assert (label.ready, label.draining) == (1, 1)
    first, second = inputs.nodes
    assert (first.workers, first.draining) == ({"read": 2}, {"label": 1})
    assert (second.workers, second.draining) == ({"read": 1}, {})


def test_resources_used_by_others_are_unavailable() -> None:
    inputs = Driver().look([make_node(free=3.0)], [make_worker(0), make_worker(1, cpu=2.0)])
    assert read_cpu(inputs) == [6.0]


def test_law_recent_workers_are_not_counted_as_others() -> None:
    driver = Driver()
    one, three = [make_worker(0)], [make_worker(0)] * 3
    assert read_cpu(driver.look([make_node()])) == [8.0]
    assert read_cpu(driver.look([make_node(free=8.0)], three, 1.0)) == [8.0]  # not reported yet
    assert read_cpu(driver.look([make_node(free=5.0)], three, 2.0)) == [8.0]
    assert read_cpu(driver.look([make_node(free=5.0)], one, 3.0)) == [8.0]  # still counted as own
    later = 3.0 + SETTLE_SECONDS + 0.1
    assert read_cpu(driver.look([make_node(free=5.0)], one, later)) == [6.0]  # used by others


def test_law_available_resources_do_not_depend_on_placement_of_starting_workers() -> None:
    for free in (2.0, 1.0, 0.0):
        inputs = Driver().look([make_node(cpu=3.0, free=free)], [make_worker(0, state="waiting")])
        assert read_cpu(inputs) == [min(3.0, free + 1.0)]


def test_workers_without_room_are_identified() -> None:
    workers = [
        make_worker(0),
        make_worker(0, state="waiting"),
        make_worker(0, state="waiting"),
        make_worker(1, "", cpu=2.0, state="waiting"),
        make_worker(2, "gone", state="waiting"),
    ]
    surveyor = Driver().surveyor
    assert [
        surveyor.find_waiting([make_node(free=free)], workers) for free in (7.0, 6.0, 5.0, 0.0)
    ] == [[1, 2, 4], [2, 4], [4], [4]]
    scarce = [make_worker(1, cpu=0.0), make_worker(1, cpu=0.0, state="waiting")]
    node = make_node(GPU=1.0, nvdec=1.0)
    held = node._replace(free={**node.free, "nvdec": 0.0, "GPU": 0.5})
    assert surveyor.find_waiting([held], scarce) == [1]


def test_needs_of_workers_and_resources_of_nodes_use_the_same_names() -> None:
    inputs = Driver().look([make_node(cpu=8.0, GPU=2.0, nvdec=4.0, other=9.0)])
    needs, node = inputs.stages[1].needs, inputs.nodes[0].resources
    assert (needs.cpu, needs.gpu, dict(needs.custom)) == (2.0, 0.5, {"nvdec": 1.0})
    assert (node.cpu, node.gpu, node.memory) == (8.0, 2.0, 10**9)
    assert dict(node.custom) == {"nvdec": 4.0}


def test_sinks_bound_to_the_driver_only_use_its_node() -> None:
    plans = [READ, WRITE]
    inputs = Driver(plans, here="b").look([make_node(), make_node("b", 2.0)])
    assert [DRIVER_NODE in stage.needs.custom for stage in inputs.stages] == [False, True]
    answer = plan(ScalingParams(), ScalingState.begin(), inputs)
    assert {placement.node for placement in answer["write"].start} == {"b"}
    full = plan(ScalingParams(), ScalingState.begin(), Driver(plans, here="b").look([make_node()]))
    assert full.below["write"].endswith("1 CPU, 1 place on the driver's node")


def test_a_small_machine_is_shared_in_proportion() -> None:
    inputs = Driver([READ, StagePlan("b", "b", Stage(), cpu=3.0)]).look([make_node(cpu=2.0)])
    assert [stage.needs.cpu for stage in inputs.stages] == [0.475, 1.425]
    assert not plan(ScalingParams(), ScalingState.begin(), inputs).below


def test_a_stage_with_small_needs_has_at_most_one_worker_per_cpu() -> None:
    plans = [
        StagePlan("tenth", "a", Stage(), cpu=0.1),
        StagePlan("tenth-of-gpu", "a", Stage(), cpu=0.1, gpu=0.1),
        StagePlan("bounded", "a", Stage(), cpu=0.1, max_workers=20),
        StagePlan("many", "a", Stage(), cpu=0.1, min_workers=9),
        StagePlan("whole", "a", Stage()),
    ]
    inputs = Driver(plans).look([make_node(cpu=2.0), make_node("b", 2.0)])
    assert [stage.ceiling for stage in inputs.stages] == [4, None, 20, 9, None]


def test_floors_reserve_nothing_if_others_use_everything() -> None:
    inputs = Driver().look([make_node(free=0.0, GPU=1.0, nvdec=2.0)])
    assert [stage.needs.cpu for stage in inputs.stages] == [0.0, 0.0, 0.0]


def test_nothing_is_shared_without_a_worker_node() -> None:
    inputs = Driver().look([make_node(cpu=0.0)])
    assert [stage.needs.cpu for stage in inputs.stages] == [1.0, 2.0, 1.0]


@given(stages=stage_lists, have=cpus)
def test_law_after_sharing_floors_fit_and_no_stage_shares_needlessly(
    stages: list[StagePlan], have: list[float]
) -> None:
    share = find_share(stages, have)
    needed = sum(stage.cpu * stage.min_workers for stage in stages)
    assert 0 <= share <= 1
    assert (share == 1) is (needed <= sum(have))
    if share == 1 or not any(have):
        return
    nodes = [make_node(str(number), cpu) for number, cpu in enumerate(have)]
    inputs = Driver(stages).look(nodes)
    assert not plan(ScalingParams(), ScalingState.begin(), inputs).below
