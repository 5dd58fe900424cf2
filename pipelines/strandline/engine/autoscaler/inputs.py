"""From what a driver knows of its pools, queues and nodes to one look for the planner. Pure.

Others may use the same cluster: what of a node is neither free nor ours is theirs. It must not know
how a node is asked, what starts workers, or what the planner makes of a look.
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
SHARED = 0.95  # share of the CPUs there are, since Ray rounds fractions up


class NodeFacts(NamedTuple):
    """A node that is alive: what it has, and what of it is not reserved, in Ray's words."""

    name: str
    total: Mapping[str, float]
    free: Mapping[str, float]


class WorkerFacts(NamedTuple):
    """One of our workers.

    Attributes:
        stage: its number.
        node: the one it is on, or is meant to be on; empty where that is open.
        cpu: cores that it reserves.
        is_placed: it has begun; one that has not waits for its room, or for its process.
        is_ready, is_draining: how it stands.
    """

    stage: int
    node: str
    cpu: float
    is_placed: bool
    is_ready: bool
    is_draining: bool


class Surveyor:
    """Looks again and again; counts are from one look to the next.

    Args:
        here: the driver's node, where sinks must run; None: they may run anywhere.
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
        """Return what the planner is asked.

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
            share = 1.0  # no node for work is there yet, so none is shared
        return Inputs(
            now=now,
            stages=tuple(self._look_at_stages(share, int(sum(cpus)), workers, queues)),
            nodes=tuple(self._look_at_nodes(ours, workers)),
            sources_left=sources_left,
        )

    def _find_theirs(
        self, now: float, nodes: Sequence[NodeFacts], workers: Iterable[WorkerFacts]
    ) -> Mapping[tuple[str, str], float]:
        """Return what others hold of each kind on each node.

        A worker of ours that has just come or gone is seen a moment late, so only what was held
        all along counts. One that still waits for its room counts as if it had it: then what is
        left for others to come is what is free, whichever it is.
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
        """Return which workers can't have found their room yet, by their place.

        Args:
            workers: of each stage the oldest first, since rooms are given in that order.
        """
        held = self._subtract(nodes, [peer for peer in workers if peer.is_placed])
        alive = {node.name for node in nodes}
        waiting = []
        for position, worker in enumerate(workers):
            if worker.is_placed or not worker.node:
                continue
            needs = [(worker.node, kind, amount) for kind, amount in self._list_reserved(worker)]
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
        """Return what is held on each node and not by these workers, of each kind."""
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
    """Return the most workers of a stage: with a part of a CPU and nothing scarce, one a CPU.

    Else a stage that asks for a tenth would begin with ten processes a core.
    """
    if stage.max_workers is not None:
        return stage.max_workers
    is_small = stage.cpu < 1 and not (stage.gpu or stage.custom or stage.memory)
    return max(stage.min_workers, cpus) if is_small else None


def find_share(stages: Sequence[StagePlan], cpus: Sequence[float]) -> float:
    """Return how much of its CPUs a worker reserves where the nodes' do not suffice for all floors.

    Args:
        cpus: of each node, those that are ours to use.

    Returns:
        1 where they suffice; else so much that all floors find room, if any does it.
    """
    floors = [stage.min_workers for stage in stages]
    needed = sum(stage.cpu * floor for stage, floor in zip(stages, floors, strict=True))
    have = sum(cpus)
    if needed <= have:
        return 1.0
    nodes = [_count(cpu) for cpu in cpus]
    share = SHARED * have / needed
    while share > 1e-3:  # noqa: PLR2004 - less than Ray's workers can reserve
        needs = [_count(round_cpu(stage.cpu * share)) for stage in stages]
        room = FreeSpace(Vacancy(False, node) for node in nodes)  # noqa: FBT003 - a field
        if pack(room, needs, floors, sort_by_size(needs, nodes)):
            return share
        share *= 0.9
    return 0.0


def round_cpu(cpu: float) -> float:
    """Return cores in thousandths, rounded down."""
    return int(cpu * 1000 + 1e-6) / 1000


def _count(cpu: float) -> Units:
    return (round(cpu * FRACTIONS),)
