"""Builders, strategies, and a simulated world for tests of the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from strandline.engine.autoscaler.model import (
    Inputs,
    Measure,
    NodeLook,
    NodeResources,
    ScalingParams,
    ScalingPlan,
    ScalingState,
    StageLook,
)
from strandline.engine.autoscaler.planner import plan

CPU = NodeResources(cpu=1)
MANY = 1000
NEEDS = (
    NodeResources(cpu=1),
    NodeResources(cpu=1),
    NodeResources(cpu=0.1),
    NodeResources(cpu=0.25),
    NodeResources(cpu=3),
    NodeResources(cpu=4, memory=2**30),
    NodeResources(cpu=1, gpu=1),
    NodeResources(gpu=0.5),
    NodeResources(cpu=1, custom={"nvdec": 1}),
    NodeResources(),
)
NESTED = tuple(NodeResources(cpu=cpu) for cpu in (0.25, 0.5, 1, 2, 4))
NODES = (
    NodeResources(cpu=2),
    NodeResources(cpu=8, memory=2**32),
    NodeResources(cpu=7.3, memory=2**31),
    NodeResources(cpu=8, gpu=2, memory=2**33),
    NodeResources(cpu=4, gpu=1, custom={"nvdec": 2}),
    NodeResources(),
)


def make_stage(
    name: str,
    cost: float | None = 1.0,
    needs: NodeResources = CPU,
    fan: float = 1.0,
    **fields: int | None,
) -> StageLook:
    """Return a stage with a queue.

    `cost` is in measured seconds per task, or None if unmeasured. `fan` is the number of output
    tasks per input task.
    """
    look = StageLook(name, needs, waiting=10, tasks_in=MANY, tasks_out=round(MANY * fan))
    if cost is not None:
        look = replace(look, completed=MANY, seconds=MANY * cost)
    return replace(look, **fields)  # type: ignore[arg-type]


def make_inputs(
    stages: Iterable[StageLook],
    nodes: Mapping[str, NodeResources],
    allocation: Mapping[str, Mapping[str, int]] | None = None,
    now: float = 0.0,
    sources_left: int | None = None,
) -> Inputs:
    """Return the planner's inputs for a cluster with ready workers by node."""
    allocation = allocation or {}
    counts: Counter[str] = Counter()
    for workers in allocation.values():
        counts.update(workers)
    return Inputs(
        now,
        tuple(replace(stage, ready=counts[stage.name]) for stage in stages),
        tuple(NodeLook(name, nodes[name], allocation.get(name, {})) for name in nodes),
        sources_left,
    )


class World:
    """A cluster where workers start and drain immediately, with constant rates."""

    def __init__(self, stages: Sequence[StageLook], nodes: Mapping[str, NodeResources]) -> None:
        self.stages = tuple(stages)
        self.nodes = dict(nodes)
        self.allocation: dict[str, Counter[str]] = {name: Counter() for name in nodes}
        self.state = ScalingState.begin()
        self.now = 0.0

    def look(self, params: ScalingParams | None = None) -> ScalingPlan:
        """Run the planner, apply its plan, and advance by one second."""
        answer = plan(params or ScalingParams(), self.state, self.make_inputs())
        for stage in answer.stages:
            for placement in stage.start:
                self.allocation[placement.node or min(self.nodes)][stage.name] += placement.count
            for placement in stage.drain:
                assert placement.node is not None
                self.allocation[placement.node][stage.name] -= placement.count
        self.state = answer.state
        self.now += 1
        return answer

    def make_inputs(self) -> Inputs:
        """Return the current inputs of the planner."""
        return make_inputs(self.stages, self.nodes, self.allocation, self.now)

    def count(self) -> dict[str, int]:
        """Return the number of workers by stage."""
        return {
            stage.name: sum(workers[stage.name] for workers in self.allocation.values())
            for stage in self.stages
        }


def is_idle(answer: ScalingPlan) -> bool:
    """Return True if the plan changes nothing."""
    return not any(stage.starts or stage.drains for stage in answer.stages)


costs = st.none() | st.floats(0.01, 100)
known_costs = st.floats(0.01, 100)
fans = st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.0, 3.0, 50.0])


@st.composite
def stage_lists(
    draw: st.DrawFn,
    needs: Sequence[NodeResources] = NEEDS,
    costs: st.SearchStrategy[float | None] = costs,
    most_floor: int = 3,
) -> tuple[StageLook, ...]:
    """Draw at most six stages."""
    count = draw(st.integers(1, 6))
    stages = []
    for number in range(count):
        floor = draw(st.integers(1, most_floor))
        extra = draw(st.none() | st.integers(0, 8))
        stages.append(
            make_stage(
                f"s{number}",
                draw(costs),
                draw(st.sampled_from(needs)),
                draw(fans),
                floor=floor,
                ceiling=None if extra is None else floor + extra,
                waiting=draw(st.integers(0, 20)),
            )
        )
    return tuple(stages)


@st.composite
def clusters(draw: st.DrawFn, nodes: Sequence[NodeResources] = NODES) -> dict[str, NodeResources]:
    """Draw at most six nodes."""
    drawn = draw(st.lists(st.sampled_from(nodes), max_size=6))
    return {f"n{number}": node for number, node in enumerate(drawn)}


@st.composite
def looks(draw: st.DrawFn) -> Inputs:
    """Draw a pipeline and workers that fit on its nodes. Some drain or are not yet placed."""
    stages = draw(stage_lists())
    nodes = []
    totals: dict[str, list[int]] = {stage.name: [0, 0] for stage in stages}
    for name, resources in draw(clusters()).items():
        free = Counter(resources.count_units())
        allocation: tuple[dict[str, int], dict[str, int]] = ({}, {})
        for stage in stages:
            for which, most in ((0, 8), (1, 2)):
                count = min(draw(st.integers(0, most)), count_room(free, stage.needs))
                if stage.ceiling is not None and not which:
                    count = min(count, stage.ceiling - totals[stage.name][0])
                take_room(free, stage.needs, count)
                allocation[which][stage.name] = count
                totals[stage.name][which] += count
        nodes.append(NodeLook(name, resources, *allocation))
    looked = []
    for stage in stages:
        ready, draining = totals[stage.name]
        lost = draw(st.integers(0, 2))
        lost = lost if stage.ceiling is None else min(lost, stage.ceiling - ready)
        looked.append(replace(stage, ready=ready, starting=lost, draining=draining))
    left = draw(st.none() | st.integers(0, 1000))
    return Inputs(100.0, tuple(looked), tuple(nodes), left)


states = st.builds(
    ScalingState,
    st.dictionaries(
        st.sampled_from(["s0", "s1", "s2"]), st.builds(Measure, st.just(10.0), known_costs)
    ),
    st.none() | st.sampled_from([0.0, 99.0]),
    st.dictionaries(st.sampled_from(["s0", "s1"]), st.sampled_from([0.0, 98.0])),
)


def count_room(free: Mapping[str, int], needs: NodeResources) -> int:
    """Return how many workers fit on a node."""
    units = needs.count_units()
    return min((free.get(kind, 0) // need for kind, need in units.items()), default=MANY)


def take_room(free: Counter[str], needs: NodeResources, count: int) -> None:
    """Take the resources of `count` workers."""
    for kind, need in needs.count_units().items():
        free[kind] -= need * count
