"""Keeps the pools at the sizes that the planner computes: queries nodes, starts and drains workers.

The module itself decides only which worker of a node is drained, and when to give up on a worker
that has waited too long for capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import ray
from ray._private.state import available_resources_per_node

from strandline.engine.autoscaler.inputs import CPU, NodeFacts, Surveyor, WorkerFacts, round_cpu
from strandline.engine.autoscaler.model import (
    Inputs,
    Placement,
    ScalingParams,
    ScalingPlan,
    ScalingState,
)
from strandline.engine.autoscaler.planner import plan
from strandline.engine.core.workers import Worker
from strandline.engine.flow.stage_queue import StageQueue
from strandline.engine.preemption.nodes import LostNodes
from strandline.engine.ray.pool import RayPools
from strandline.plan.pipeline import StagePlan
from strandline.storage.outputs.ports import OutputLocation

LOOK_SECONDS = 1.0  # interval between checks
SURGE_SECONDS = 0.1  # interval between checks if work grows quickly
_SURGE = 2  # factor by which waiting tasks must grow since the last check
AVOID_SECONDS = 15.0  # time after which Ray has noticed whether a node is dead
PENDING_SECONDS = 120.0  # time limit for a worker that has no capacity
LONG_SECONDS = 1800.0  # time limit for a worker that may have capacity, but does not start


class Scaler:
    """Checks the pools every second, and immediately after a worker has ended.

    Args:
        stages: the plans of the pools.
        pools: all pools of the run.
        outputs: location of the sinks' outputs.
        note: receives a sentence for each change, and for each minimum that does not fit.
        now: returns seconds from any fixed point.
        marks: known facts about nodes.

    Attributes:
        bottleneck: the stage that sets the pace; None if there is none or it is unknown.
        below: why a stage has fewer workers than its minimum, by the name of the stage.
    """

    def __init__(
        self,
        stages: Sequence[StagePlan],
        pools: RayPools,
        outputs: OutputLocation,
        note: Callable[[str], None],
        now: Callable[[], float],
        marks: LostNodes | None = None,
    ) -> None:
        self._marks = marks or LostNodes(str(ray.get_runtime_context().get_node_id()))
        self._here = self._marks.here
        self._stages = stages
        self._pools = pools
        self._surveyor = Surveyor(stages, self._here if outputs.is_on_driver else None)
        self._shunned: dict[str, float] = {}
        self._state = ScalingState.begin()
        self._note = note
        self._reported: set[str] = set()
        self._now = now
        self._due = 0.0
        self._looked = (0.0, 0)  # time of the last check, and number of waiting tasks then
        self._is_first = True
        self.bottleneck: str | None = None
        self.below: Mapping[str, str] = {}

    def is_due(self, queues: Sequence[StageQueue]) -> bool:
        """Return whether it is time for a check."""
        now, (last, waited) = self._now(), self._looked
        if self._pools.has_gone or now >= self._due:
            return True
        # Check early after a fan-out, which suddenly makes work for many workers. A start takes a
        # second or more.
        least = _SURGE * max(waited, sum(1 for _ in self._pools.list_workers()))
        return now >= last + SURGE_SECONDS and sum(map(len, queues)) > least

    def avoid(self, node: str) -> None:
        """Start no workers on a node for a while, because the node may be dead."""
        # The driver's own node cannot be dead while this process runs.
        if node != self._here:
            self._shunned[node] = self._now() + AVOID_SECONDS

    def look(self, queues: Sequence[StageQueue], sources_left: int | None) -> list[Worker]:
        """Plan with the current state, and carry out the plan.

        Args:
            queues: the queues of the pools.
            sources_left: see `Inputs`.

        Returns:
            Workers on nodes that have died.
        """
        now = self._now()
        self._due, self._pools.has_gone = now + LOOK_SECONDS, False
        self._looked = now, sum(map(len, queues))
        nodes, dead = list_nodes()
        lost = [
            worker
            for worker in self._pools.list_workers()
            if worker.is_placed and worker.node in dead
        ]
        self._withdraw(now, nodes)
        workers = [_describe(worker) for worker in self._pools.list_workers() if worker not in lost]
        # Omit departing nodes: a worker that is started there would be lost with its work.
        nodes = [
            node
            for node in nodes
            if self._shunned.get(node.name, now) <= now and node.name not in self._marks.leaving
        ]
        inputs = self._surveyor.look(now, nodes, workers, queues, sources_left)
        answer = plan(ScalingParams(), self._state, inputs)
        self._state, self.bottleneck = answer.state, answer.bottleneck
        self.below = answer.below
        self._drain(answer)
        self._start(answer, inputs, {node.name: node.free.get(CPU, 0.0) for node in nodes})
        self._report(answer)
        return lost

    def _withdraw(self, now: float, nodes: Sequence[NodeFacts]) -> None:
        workers = list(self._pools.list_workers())
        waiting = set(
            self._surveyor.find_waiting(nodes, [_describe(candidate) for candidate in workers])
        )
        for position, worker in enumerate(workers):
            limit = PENDING_SECONDS if position in waiting else LONG_SECONDS
            if not worker.is_placed and now - worker.begun > limit:
                self._pools.drain(worker)
                name = self._stages[worker.stage].name
                self._note(f"a worker of {name!r} can't be scheduled; the run continues without it")

    def _start(self, answer: ScalingPlan, inputs: Inputs, free: Mapping[str, float]) -> None:
        left = dict(free)
        for number, (look, scaling) in enumerate(zip(inputs.stages, answer.stages, strict=True)):
            for placement in scaling.start:
                for _ in range(placement.count):
                    cpu = self._choose_cpu(number, look.needs.cpu, left.get(placement.node or ""))
                    self._pools.start_worker(number, cpu, placement.node)
                    if placement.node in left:
                        # The snapshot does not include these starts, so subtract the new workers'
                        # CPUs.
                        left[placement.node] -= cpu

    def _choose_cpu(self, stage: int, cpu: float, left: float | None) -> float:
        """Return the CPUs that a worker reserves: if CPUs are shared, at most the free CPUs."""
        if left is None or cpu >= self._stages[stage].cpu:
            return cpu
        return max(0.0, min(cpu, round_cpu(left)))

    def _drain(self, answer: ScalingPlan) -> None:
        for number, scaling in enumerate(answer.stages):
            for placement in scaling.drain:
                for worker in _choose_leavers(self._pools[number].workers, placement):
                    self._pools.drain(worker)

    def _report(self, answer: ScalingPlan) -> None:
        # Do not report the first plan, which merely starts all workers.
        changes = [] if self._is_first else [stage.why for stage in answer.stages if stage.why]
        self._is_first = False
        for sentence in (*changes, *answer.below.values()):
            self._report_once(sentence)

    def _report_once(self, sentence: str) -> None:
        if sentence not in self._reported:
            self._reported.add(sentence)
            self._note(sentence)


def _choose_leavers(workers: Iterable[Worker], placement: Placement) -> list[Worker]:
    """Choose workers to drain on a node: the workers that have the least to lose."""
    here = [
        candidate
        for candidate in workers
        if candidate.node == placement.node and not candidate.is_draining
    ]
    # False sorts before True, so workers that have not started or are not set up come first.
    here.sort(key=lambda worker: (worker.is_placed, worker.is_ready, len(worker.calls)))
    return here[: placement.count]


def _describe(worker: Worker) -> WorkerFacts:
    return WorkerFacts(
        worker.stage,
        worker.node,
        worker.cpu,
        worker.is_placed,
        worker.is_ready,
        worker.is_draining,
    )


def find_nodes(name: str) -> list[str]:
    """Return the ids of live nodes with an address or id.

    Args:
        name: the address or id.
    """
    return [
        str(node["NodeID"])
        for node in ray.nodes()
        if node["Alive"] and name in (node["NodeID"], node["NodeManagerAddress"])
    ]


def list_nodes() -> tuple[list[NodeFacts], set[str]]:
    """Return the live nodes, and the ids of the dead nodes."""
    free = available_resources_per_node()
    nodes, dead = [], set()
    for node in ray.nodes():
        name = str(node["NodeID"])
        if node["Alive"]:
            nodes.append(NodeFacts(name, node["Resources"], free.get(name, {})))
        else:
            dead.add(name)
    return nodes, dead
