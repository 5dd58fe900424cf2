"""Builds the planner's snapshot from the driver's pools, queues, and nodes.

Other programs may use the same cluster. Capacity that is neither free nor held by this run counts
as held by other programs. This module has no side effects, and must not depend on the source of the
node data, on how workers start, or on how the planner uses a snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from strandline.engine.autoscaler.bin_packing import FreeSpace, Units, Vacancy, pack, sort_by_size
from strandline.engine.autoscaler.model import (
    FRACTIONS,
    Inputs,
    NodeLook,
    NodeResources,
    StageLook,
)
from strandline.engine.flow.stage_queue import StageQueue
from strandline.plan.pipeline import StagePlan

CPU, GPU, MEMORY = "CPU", "GPU", "memory"
DRIVER_NODE = "place on the driver's node"
SLOTS = 1_000_000
SETTLE_SECONDS = 3.0
SHARED = 0.95  # share of the CPUs to plan with, because Ray rounds fractional requests up


class NodeFacts(NamedTuple):
    """A live node: its total and unreserved resources, under Ray's names."""

    name: str
    total: Mapping[str, float]
    free: Mapping[str, float]


class WorkerFacts(NamedTuple):
    """State of a worker of this run.

    Attributes:
        stage: index of the stage.
        node: the current or intended node; empty if undecided.
        cpu: cores that the worker reserves.
        is_placed: whether the worker has started; otherwise it waits for capacity or for its
            process.
        is_ready: whether the worker can take tasks.
        is_draining: whether the worker ends after its current calls.
    """

    stage: int
    node: str
    cpu: float
    is_placed: bool
    is_ready: bool
    is_draining: bool


class Surveyor:
    """Builds snapshots of the cluster. Counters in a snapshot cover the time since the last one.

    Args:
        here: the driver's node, where sinks must run; None if sinks may run anywhere.
    """

    def __init__(self, stages: Sequence[StagePlan], here: str | None = None) -> None:
        self._stages = stages
        self._here = here
        self._done = [(0, 0.0)] * len(stages)
        self._theirs: deque[tuple[float, dict[tuple[str, str], float]]] = deque()

    def look(
        self,
        now: float,
        nodes: Sequence[NodeFacts],
        workers: Sequence[WorkerFacts],
        queues: Sequence[StageQueue],
        sources_left: int | None,
    ) -> Inputs:
        """Return a snapshot for the planner.

        Args:
            now: seconds from any fixed point.
            sources_left: see `Inputs`.
        """
        theirs = self._find_theirs(now, nodes, workers)
        ours = {
            node.name: {kind: max(0.0, have - theirs[node.name, kind]) for kind, have in total}
            for node in nodes
            for total in (node.total.items(),)
        }
        cpus = [our.get(CPU, 0.0) for our in ours.values()]
        share = find_share(self._stages, cpus)
        if not any(node.total.get(CPU) for node in nodes):
            share = 1.0  # no node with CPUs exists yet, so no node is overcommitted
        return Inputs(
            now=now,
            stages=tuple(self._look_at_stages(share, int(sum(cpus)), workers, queues)),
            nodes=tuple(self._look_at_nodes(ours, workers)),
            sources_left=sources_left,
        )

    def _find_theirs(
        self, now: float, nodes: Sequence[NodeFacts], workers: Iterable[WorkerFacts]
    ) -> Mapping[tuple[str, str], float]:
        """Return the amount of each resource kind that other programs hold on each node.

        Ray's view of our own workers lags behind, so only capacity held throughout `SETTLE_SECONDS`
        counts as held by others. A worker that still waits for capacity counts as if it were
        placed. The planner's remaining capacity then equals the free capacity.
        """
        held = self._subtract(nodes, workers)
        self._theirs.append((now, held))
        while self._theirs[0][0] < now - SETTLE_SECONDS:
            self._theirs.popleft()
        return {
            key: max(0.0, min(look.get(key, amount) for _, look in self._theirs))
            for key, amount in held.items()
        }

    def find_waiting(self, nodes: Sequence[NodeFacts], workers: Sequence[WorkerFacts]) -> list[int]:
        """Return the indexes of workers whose node cannot have had capacity for them yet.

        Args:
            workers: within each stage the oldest first, because capacity is granted in that order.
        """
        held = self._subtract(nodes, [peer for peer in workers if peer.is_placed])
        alive = {node.name for node in nodes}
        waiting = []
        for position, worker in enumerate(workers):
            if worker.is_placed or not worker.node:
                continue
            needs = [(worker.node, kind, amount) for kind, amount in self._list_reserved(worker)]
            # Tolerate rounding errors of fractional amounts.
            lacks = any(held.get((node, kind), 0.0) + 1e-6 < need for node, kind, need in needs)
            if lacks or worker.node not in alive:
                waiting.append(position)
                continue
            for node, kind, need in needs:
                held[node, kind] = held.get((node, kind), 0.0) - need
        return waiting

    def _subtract(
        self, nodes: Iterable[NodeFacts], workers: Iterable[WorkerFacts]
    ) -> dict[tuple[str, str], float]:
        """Return the held amount of each kind on each node, without the amounts of `workers`."""
        held = {
            (node.name, kind): have - node.free.get(kind, 0.0)
            for node in nodes
            for kind, have in node.total.items()
        }
        for worker in workers:
            for kind, amount in self._list_reserved(worker):
                key = worker.node, kind
                held[key] = held.get(key, 0.0) - amount
        return held

    def _list_reserved(self, worker: WorkerFacts) -> Iterator[tuple[str, float]]:
        stage = self._stages[worker.stage]
        yield CPU, worker.cpu
        yield GPU, stage.gpu
        yield MEMORY, float(stage.memory or 0)
        yield from stage.custom.items()

    def _look_at_stages(
        self,
        share: float,
        cpus: int,
        workers: Sequence[WorkerFacts],
        queues: Sequence[StageQueue],
    ) -> Iterator[StageLook]:
        for number, (stage, queue) in enumerate(zip(self._stages, queues, strict=True)):
            own = [peer for peer in workers if peer.stage == number]
            counts = queue.counts
            tasks, seconds = self._done[number]
            self._done[number] = counts.tasks_in, counts.seconds
            yield StageLook(
                name=stage.name,
                needs=self._find_needs(stage, share),
                floor=stage.min_workers,
                ceiling=_find_ceiling(stage, cpus),
                ready=sum(
                    worker_facts.is_ready and not worker_facts.is_draining for worker_facts in own
                ),
                starting=sum(
                    not worker_facts.is_ready and not worker_facts.is_draining
                    for worker_facts in own
                ),
                draining=sum(worker_facts.is_draining for worker_facts in own),
                completed=counts.tasks_in - tasks,
                seconds=counts.seconds - seconds,
                waiting=len(queue),
                running=queue.running,
                tasks_in=counts.tasks_in,
                tasks_out=counts.tasks_out,
            )

    def _find_needs(self, stage: StagePlan, share: float) -> NodeResources:
        custom = dict(stage.custom)
        if self._here is not None and stage.writes:
            custom[DRIVER_NODE] = 1.0
        return NodeResources(round_cpu(stage.cpu * share), stage.gpu, stage.memory, custom)

    def _look_at_nodes(
        self, ours: Mapping[str, Mapping[str, float]], workers: Iterable[WorkerFacts]
    ) -> Iterator[NodeLook]:
        names = [stage.name for stage in self._stages]
        allocation: dict[str, dict[str, int]] = {name: {} for name in ours}
        leaving: dict[str, dict[str, int]] = {name: {} for name in ours}
        for peer in workers:
            counts = (leaving if peer.is_draining else allocation).get(peer.node)
            if counts is not None:
                counts[names[peer.stage]] = counts.get(names[peer.stage], 0) + 1
        wanted = {kind for stage in self._stages for kind in stage.custom}
        for name, have in ours.items():
            custom = {kind: amount for kind, amount in have.items() if kind in wanted}
            if name == self._here:
                custom[DRIVER_NODE] = float(SLOTS)
            memory = int(have.get(MEMORY, 0.0))
            resources = NodeResources(have.get(CPU, 0.0), have.get(GPU, 0.0), memory, custom)
            yield NodeLook(name, resources, allocation[name], leaving[name])


def _find_ceiling(stage: StagePlan, cpus: int) -> int | None:
    """Return the maximum workers of a stage: one per CPU if a worker needs only part of a CPU.

    Without this limit, a stage that requests a tenth of a CPU would start with ten processes per
    core. The limit does not apply to stages that request GPUs, memory, or custom resources.
    """
    if stage.max_workers is not None:
        return stage.max_workers
    is_small = stage.cpu < 1 and not (stage.gpu or stage.custom or stage.memory)
    return max(stage.min_workers, cpus) if is_small else None


def find_share(stages: Sequence[StagePlan], cpus: Sequence[float]) -> float:
    """Return the share of its CPU request that each worker reserves, so that all minimums fit.

    Args:
        cpus: usable CPUs of each node.

    Returns:
        1 if there are enough CPUs; otherwise the largest tried share with which all minimums fit,
            or 0.
    """
    floors = [stage.min_workers for stage in stages]
    needed = sum(stage.cpu * floor for stage, floor in zip(stages, floors, strict=True))
    have = sum(cpus)
    if needed <= have:
        return 1.0
    nodes = [_count(cpu) for cpu in cpus]
    # The total may suffice although single workers do not fit, so shrink the share until all
    # workers can be packed.
    share = SHARED * have / needed
    while share > 1e-3:  # noqa: PLR2004 - less than Ray's workers can reserve
        needs = [_count(round_cpu(stage.cpu * share)) for stage in stages]
        room = FreeSpace(Vacancy(False, node) for node in nodes)  # noqa: FBT003 - a field
        if pack(room, needs, floors, sort_by_size(needs, nodes)):
            return share
        share *= 0.9
    return 0.0


def round_cpu(cpu: float) -> float:
    """Round cores down to thousandths."""
    return int(cpu * 1000 + 1e-6) / 1000


def _count(cpu: float) -> Units:
    return (round(cpu * FRACTIONS),)
