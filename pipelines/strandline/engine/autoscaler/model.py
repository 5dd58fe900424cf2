"""What the planner of workers is told and what it answers, as plain values.

It must not know how a plan is found, what measures, or what starts workers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FRACTIONS = 10_000


@dataclass(frozen=True, slots=True)
class NodeResources:
    """What one worker needs, or what a node has for us.

    Attributes:
        cpu, gpu: cores and GPUs, in steps of a ten-thousandth.
        memory: bytes; None: none is reserved.
        custom: units by name, such as `nvdec`, in the same steps.
    """

    cpu: float = 0.0
    gpu: float = 0.0
    memory: int | None = None
    custom: Mapping[str, float] = field(default_factory=dict)

    def count_units(self) -> dict[str, int]:
        """Whole units by kind, since sums of fractions are not exact; nothing that is 0."""
        amounts = {"cpu": self.cpu, "gpu": self.gpu}
        amounts |= {f"custom {name}": amount for name, amount in self.custom.items()}
        units = {kind: round(amount * FRACTIONS) for kind, amount in amounts.items()}
        units["memory"] = self.memory or 0
        return {kind: count for kind, count in units.items() if count > 0}


@dataclass(frozen=True, slots=True)
class StageLook:
    """One stage as it is now.

    Attributes:
        needs: of one worker.
        floor, ceiling: bounds of the pool; without a ceiling, resources bound it.
        ready, starting, draining: workers; a draining one ends when its calls have.
        completed: tasks of the calls that ended since the last look.
        seconds: that these calls were processing; neither start-up nor waiting.
        waiting, running: tasks in its queue, and with its workers.
        tasks_in, tasks_out: taken and given since the run began.
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
        """Those that work, or will soon."""
        return self.ready + self.starting


@dataclass(frozen=True, slots=True)
class NodeLook:
    """One node as it is now.

    Attributes:
        name: unique.
        resources: all that is ours to use, whether it is in use or not.
        workers: ready and starting ones here, by stage. One without a known node is on none.
        draining: the draining ones here, by stage.
    """

    name: str
    resources: NodeResources
    workers: Mapping[str, int] = field(default_factory=dict)
    draining: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inputs:
    """One look at the pipeline and the cluster.

    Attributes:
        now: seconds from any fixed point.
        stages: in order.
        nodes: those that are alive.
        sources_left: sources that are listed and not in the first queue yet, once the listing has
            ended; None while it goes on.
    """

    now: float
    stages: tuple[StageLook, ...]
    nodes: tuple[NodeLook, ...]
    sources_left: int | None = None


@dataclass(frozen=True, slots=True)
class ScalingParams:
    """How eagerly to change.

    Attributes:
        gain: share by which the throughput must rise before workers are drained for others.
        limit: seconds for which that must have been so.
        settle: seconds after a pool has grown in which it is not drained.
        headroom: how far a pool that grows into idle room gets ahead of the slowest stage.
        memory_seconds: of a worker's processing after which a measurement has faded to a third.
        memory_tasks: so many tasks are remembered, however long they take.
    """

    gain: float = 0.10
    limit: float = 3.0
    settle: float = 5.0
    headroom: float = 1.25
    memory_seconds: float = 10.0
    memory_tasks: int = 50


@dataclass(frozen=True, slots=True)
class Measure:
    """What is remembered of a stage's speed: faded sums of tasks and of seconds at work."""

    tasks: float = 0.0
    seconds: float = 0.0

    @property
    def rate(self) -> float | None:
        """Tasks per second of a worker that has work; None where none was seen."""
        # A clock may say 0 for a very short call.
        return self.tasks / max(self.seconds, 1e-6 * self.tasks) if self.tasks > 0 else None


@dataclass(frozen=True, slots=True)
class ScalingState:
    """What one look leaves for the next.

    Attributes:
        measures: by stage.
        wished_since: when draining workers for others was first worth it, without a break since.
        grown_at: when each pool last grew.
    """

    measures: Mapping[str, Measure] = field(default_factory=dict)
    wished_since: float | None = None
    grown_at: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def begin(cls) -> ScalingState:
        """Return the state before the first look."""
        return cls()


@dataclass(frozen=True, slots=True)
class Placement:
    """So many workers on a node; a hint, and None means any node."""

    node: str | None
    count: int


@dataclass(frozen=True, slots=True)
class StageScaling:
    """What to do with one pool; never both to start and to drain.

    Attributes:
        workers: that it shall have, counting those that wait until others have drained.
        start, drain: what to do now.
        level: sources per second that its present workers can do; None where not measured.
        why: one sentence; empty where nothing changes.
    """

    name: str
    workers: int
    start: tuple[Placement, ...] = ()
    drain: tuple[Placement, ...] = ()
    level: float | None = None
    why: str = ""

    @property
    def starts(self) -> int:
        """Workers to start now."""
        return sum(placement.count for placement in self.start)

    @property
    def drains(self) -> int:
        """Workers to drain now."""
        return sum(placement.count for placement in self.drain)


@dataclass(frozen=True, slots=True)
class ScalingPlan:
    """The answer to one look.

    Attributes:
        stages: in order.
        bottleneck: the stage that sets the pace: the lowest level among those with a queue; None
            where nothing waits, so that the listing sets it, or nothing is measured.
        throughput: sources per second once the plan is carried out; None until every stage that
            has work was measured.
        below: a sentence for each stage with a floor that finds no room, by its name.
        state: for the next look.
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
    """Return each stage's measure after this look; a stage without calls keeps what it had."""
    return {
        stage.name: _fade(measures.get(stage.name, Measure()), stage, params) for stage in stages
    }


def _fade(measure: Measure, stage: StageLook, params: ScalingParams) -> Measure:
    """Old sums count less by the time worked, but not faster than tasks come in."""
    by_time = stage.seconds / (params.memory_seconds * max(1, stage.workers))
    by_tasks = stage.completed / params.memory_tasks
    keep = math.exp(-min(by_time, by_tasks))
    return Measure(
        measure.tasks * keep + stage.completed, measure.seconds * keep + max(0.0, stage.seconds)
    )


def find_demand(stages: Sequence[StageLook]) -> list[float]:
    """Return each stage's tasks for one source: the product of fan-outs and filters above it."""
    demand = [1.0]
    for stage in stages[:-1]:
        demand.append(demand[-1] * find_ratio(stage.tasks_in, stage.tasks_out))
    return demand


def find_left(inputs: Inputs, demand: Sequence[float]) -> tuple[float, list[float]] | None:
    """Return what is left once the listing has ended: sources, and tasks at each stage.

    What a stage has yet to get from those above it counts. None while the listing goes on.
    """
    if inputs.sources_left is None:
        return None
    coming, left = float(inputs.sources_left), []
    for stage in inputs.stages:
        left.append(stage.waiting + stage.running + coming)
        coming = left[-1] * find_ratio(stage.tasks_in, stage.tasks_out)
    sources = max(tasks / max(share, 1e-9) for tasks, share in zip(left, demand, strict=True))
    return sources, left


def find_ratio(tasks_in: float, tasks_out: float) -> float:
    """Return tasks that come out for one that goes in.

    One, until there is reason to think otherwise.
    """
    if tasks_in > 0 and tasks_out > 0:
        return tasks_out / tasks_in
    return 1.0 if tasks_in < SURE_TASKS else 0.0
