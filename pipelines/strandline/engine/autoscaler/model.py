"""The planner's inputs and outputs, as plain values.

The module must not depend on the planning algorithm, on measurements, or on the start of workers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FRACTIONS = 10_000


@dataclass(frozen=True, slots=True)
class NodeResources:
    """The resources that a worker needs, or that are usable on a node.

    Attributes:
        cpu, gpu: numbers of cores and GPUs, in steps of a ten-thousandth.
        memory: bytes; None if no memory is reserved.
        custom: amounts by name, such as `nvdec`, in the same steps.
    """

    cpu: float = 0.0
    gpu: float = 0.0
    memory: int | None = None
    custom: Mapping[str, float] = field(default_factory=dict)

    def count_units(self) -> dict[str, int]:
        """Return integer units by kind, without zeros. Sums of fractions would be inexact."""
        amounts = {"cpu": self.cpu, "gpu": self.gpu}
        amounts |= {f"custom {name}": amount for name, amount in self.custom.items()}
        units = {kind: round(amount * FRACTIONS) for kind, amount in amounts.items()}
        units["memory"] = self.memory or 0
        return {kind: count for kind, count in units.items() if count > 0}


@dataclass(frozen=True, slots=True)
class StageLook:
    """The current state of one stage.

    Attributes:
        needs: resources that one worker needs.
        floor, ceiling: bounds of the pool; without a ceiling, resources are the bound.
        ready, starting, draining: worker counts. A draining worker ends after its current calls.
        completed: number of tasks in the calls that ended since the last snapshot.
        seconds: processing time of these calls, without start-up and waiting.
        waiting, running: numbers of tasks in the queue and in workers.
        tasks_in, tasks_out: numbers of tasks received and emitted since the run began.
    """

    name: str
    needs: NodeResources
    floor: int = 1
    ceiling: int | None = None
    ready: int = 0
    starting: int = 0
    draining: int = 0
    completed: int = 0
    seconds: float = 0.0
    waiting: int = 0
    running: int = 0
    tasks_in: int = 0
    tasks_out: int = 0

    @property
    def workers(self) -> int:
        """Number of workers that are ready or starting."""
        return self.ready + self.starting


@dataclass(frozen=True, slots=True)
class NodeLook:
    """The current state of one node.

    Attributes:
        name: unique name.
        resources: all resources that this run may use, including those in use.
        workers: ready and starting workers on the node, by stage. Workers whose node is unknown
            are not included for any node.
        draining: draining workers on the node, by stage.
    """

    name: str
    resources: NodeResources
    workers: Mapping[str, int] = field(default_factory=dict)
    draining: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inputs:
    """A snapshot of the pipeline and the cluster.

    Attributes:
        now: seconds from any fixed point.
        stages: the stages, in order.
        nodes: the live nodes.
        sources_left: number of listed sources that are not in the first queue yet; None before the
            end of the listing.
    """

    now: float
    stages: tuple[StageLook, ...]
    nodes: tuple[NodeLook, ...]
    sources_left: int | None = None


@dataclass(frozen=True, slots=True)
class ScalingParams:
    """Parameters that control how readily the planner changes pools.

    Attributes:
        gain: minimum relative rise of the throughput that justifies draining workers for others.
        limit: seconds for which that rise must have been possible.
        settle: seconds after a pool's growth during which the pool is not drained.
        headroom: factor by which a growing pool may exceed the pace of the slowest stage.
        memory_seconds: processing seconds per worker after which the weight of a measurement has
            decayed to 1/e.
        memory_tasks: number of recent tasks that are remembered regardless of their duration.
    """

    gain: float = 0.10
    limit: float = 3.0
    settle: float = 5.0
    headroom: float = 1.25
    memory_seconds: float = 10.0
    memory_tasks: int = 50


@dataclass(frozen=True, slots=True)
class Measure:
    """A stage's measured speed: decayed sums of tasks and of processing seconds."""

    tasks: float = 0.0
    seconds: float = 0.0

    @property
    def rate(self) -> float | None:
        """Tasks per second of a busy worker, or None if nothing was measured yet."""
        # A clock may report 0 seconds for a very short call.
        return self.tasks / max(self.seconds, 1e-6 * self.tasks) if self.tasks > 0 else None


@dataclass(frozen=True, slots=True)
class ScalingState:
    """State carried from one snapshot to the next.

    Attributes:
        measures: measured speed, by stage.
        wished_since: time since which draining workers for others has been justified without
            interruption; None if not justified.
        grown_at: time when each pool last grew.
    """

    measures: Mapping[str, Measure] = field(default_factory=dict)
    wished_since: float | None = None
    grown_at: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def begin(cls) -> ScalingState:
        """Return the state before the first snapshot."""
        return cls()


@dataclass(frozen=True, slots=True)
class Placement:
    """A number of workers to start or drain on a node.

    The node is a hint. None means any node.
    """

    node: str | None
    count: int


@dataclass(frozen=True, slots=True)
class StageScaling:
    """Changes to one pool. A pool never starts and drains workers in the same plan.

    Attributes:
        workers: target size, including workers that can start only when others have drained.
        start, drain: changes to make now.
        level: sources per second of the current workers; None if not measured.
        why: reason as one sentence; empty if nothing changes.
    """

    name: str
    workers: int
    start: tuple[Placement, ...] = ()
    drain: tuple[Placement, ...] = ()
    level: float | None = None
    why: str = ""

    @property
    def starts(self) -> int:
        """Number of workers to start now."""
        return sum(placement.count for placement in self.start)

    @property
    def drains(self) -> int:
        """Number of workers to drain now."""
        return sum(placement.count for placement in self.drain)


@dataclass(frozen=True, slots=True)
class ScalingPlan:
    """The plan for one snapshot.

    Attributes:
        stages: changes to each stage, in order.
        bottleneck: the stage that sets the pace: the stage with the lowest level among stages with
            a queue. None if nothing is measured, or if no tasks wait, so that the listing sets the
            pace.
        throughput: sources per second once the plan is carried out; None until every stage with
            work has been measured.
        below: one sentence for each stage whose minimum does not fit, by the name of the stage.
        state: state for the next snapshot.
    """

    stages: tuple[StageScaling, ...]
    bottleneck: str | None
    throughput: float | None
    below: Mapping[str, str]
    state: ScalingState

    def __getitem__(self, name: str) -> StageScaling:
        return next(stage for stage in self.stages if stage.name == name)


SURE_TASKS = 100


def update_measures(
    stages: Sequence[StageLook], measures: Mapping[str, Measure], params: ScalingParams
) -> dict[str, Measure]:
    """Return each stage's updated measure. A stage without calls keeps its previous measure."""
    return {
        stage.name: _fade(measures.get(stage.name, Measure()), stage, params) for stage in stages
    }


def _fade(measure: Measure, stage: StageLook, params: ScalingParams) -> Measure:
    """Decay old sums according to the time worked, but not faster than tasks arrive."""
    by_time = stage.seconds / (params.memory_seconds * max(1, stage.workers))
    by_tasks = stage.completed / params.memory_tasks
    keep = math.exp(-min(by_time, by_tasks))
    return Measure(
        measure.tasks * keep + stage.completed, measure.seconds * keep + max(0.0, stage.seconds)
    )


def find_demand(stages: Sequence[StageLook]) -> list[float]:
    """Return how many tasks of each stage a source causes, given earlier fan-outs and filters."""
    demand = [1.0]
    for stage in stages[:-1]:
        demand.append(demand[-1] * find_ratio(stage.tasks_in, stage.tasks_out))
    return demand


def find_left(inputs: Inputs, demand: Sequence[float]) -> tuple[float, list[float]] | None:
    """Return the work that remains after the listing: a source count, and a task count by stage.

    The counts include tasks that earlier stages have yet to emit. Return None before the listing
    ends.
    """
    if inputs.sources_left is None:
        return None
    coming, left = float(inputs.sources_left), []
    for stage in inputs.stages:
        left.append(stage.waiting + stage.running + coming)
        coming = left[-1] * find_ratio(stage.tasks_in, stage.tasks_out)
    # The stage that is furthest behind determines how many sources are left.
    sources = max(tasks / max(share, 1e-9) for tasks, share in zip(left, demand, strict=True))
    return sources, left


def find_ratio(tasks_in: float, tasks_out: float) -> float:
    """Return the number of output tasks per input task.

    The ratio is 1 until enough tasks were measured.
    """
    if tasks_in > 0 and tasks_out > 0:
        return tasks_out / tasks_in
    return 1.0 if tasks_in < SURE_TASKS else 0.0
