"""Simulates a pipeline under control of the planner, in steps of a tenth of a second.

A pool works like a fluid: its workers share its tasks evenly. Queues are bounded, so a slow stage
delays earlier stages. Workers take some time to start, and drain for the time of a task. The player
rejects a plan that exceeds a node's resources.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from strandline.engine.autoscaler.model import (
    Inputs,
    NodeLook,
    NodeResources,
    Placement,
    ScalingParams,
    ScalingPlan,
    ScalingState,
    StageLook,
)
from strandline.engine.autoscaler.planner import plan

STEP = 0.1
SLOTS_PER_WORKER = 4


@dataclass(frozen=True, slots=True)
class Part:
    """A stage to simulate.

    Attributes:
        cost: processing seconds of one task; `later` applies from `changes_at` on.
        fan: number of output tasks per input task.
        skew: share of tasks that take `long` times as long.
        noise: maximum relative error of measured seconds.
    """

    name: str
    cost: float
    needs: NodeResources = field(default_factory=lambda: NodeResources(cpu=1))
    fan: float = 1.0
    floor: int = 1
    ceiling: int | None = None
    later: float | None = None
    changes_at: float = float("inf")
    skew: float = 0.0
    long: float = 1.0
    noise: float = 0.0

    def find_cost(self, now: float) -> float:
        """Return the seconds of a normal task at the given time."""
        return self.cost if now < self.changes_at or self.later is None else self.later

    def find_mean(self, now: float) -> float:
        """Return the mean seconds of a task at the given time."""
        return self.find_cost(now) * (1 + self.skew * (self.long - 1))


@dataclass(frozen=True, slots=True)
class Play:
    """A pipeline on a cluster, and the changes of the cluster.

    Attributes:
        lost, joined: nodes that leave or join, by time.
        sources: number of sources, or None for an endless listing.
    """

    name: str
    parts: tuple[Part, ...]
    nodes: Mapping[str, NodeResources]
    seconds: float = 60.0
    startup: float = 2.0
    lost: Mapping[float, str] = field(default_factory=dict)
    joined: Mapping[float, tuple[str, NodeResources]] = field(default_factory=dict)
    sources: int | None = None
    seed: int = 7

    def find_demand(self) -> list[float]:
        """Return the tasks per source for each stage."""
        demand = [1.0]
        for part in self.parts[:-1]:
            demand.append(demand[-1] * part.fan)
        return demand


@dataclass(slots=True)
class Crowd:
    """The workers and the queue of a simulated stage.

    Attributes:
        ready: ready workers by node.
        starting, draining: time and node of workers in transition.
        progress: seconds already spent on the next task.
    """

    ready: Counter[str] = field(default_factory=Counter)
    starting: list[tuple[float, str]] = field(default_factory=list)
    draining: list[tuple[float, str]] = field(default_factory=list)
    queue: int = 0
    progress: float = 0.0
    next_cost: float = 0.0
    owed: float = 0.0
    tasks_in: int = 0
    tasks_out: int = 0
    completed: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The planner's plan at a time, and the real capacity of the pipeline at that time."""

    now: float
    plan: ScalingPlan
    pace: float
    done: float
    workers: tuple[int, ...]


class Player:
    """Simulates a play to its end."""

    def __init__(self, play: Play, params: ScalingParams | None = None) -> None:
        self.play = play
        self.params = params or ScalingParams()
        self.nodes = dict(play.nodes)
        self.exposed_groups = [Crowd() for _ in play.parts]
        self.state = ScalingState.begin()
        self.left = play.sources
        self.now = 0.0
        self.moments: list[Moment] = []
        self._random = random.Random(play.seed)

    def run(self) -> list[Moment]:
        """Return the moments of the simulation, one per second."""
        steps = round(self.play.seconds / STEP)
        for step in range(steps):
            self.now = round(step * STEP, 6)
            if step % round(1 / STEP) == 0:
                self._change_nodes()
                self._look()
            self._turn_over()
            for number in reversed(range(len(self.exposed_groups))):
                self._work(number)
            self._list_sources()
        return self.moments

    @property
    def is_done(self) -> bool:
        """Return True if no work is left."""
        return self.left == 0 and not any(exposed.queue for exposed in self.exposed_groups)

    def _look(self) -> None:
        answer = plan(self.params, self.state, self.make_inputs())
        self.state = answer.state
        for number, stage in enumerate(answer.stages):
            self._start(number, stage.start)
            self._drain(number, stage.drain)
        for exposed in self.exposed_groups:
            exposed.completed, exposed.seconds = 0, 0.0
        self._check_capacity()
        demand = self.play.find_demand()
        pace = min(
            exposed.ready.total() / part.find_mean(self.now) / one
            for exposed, part, one in zip(self.exposed_groups, self.play.parts, demand, strict=True)
        )
        workers = tuple(
            exposed.ready.total() + len(exposed.starting) for exposed in self.exposed_groups
        )
        done = self.exposed_groups[-1].tasks_in / demand[-1]
        self.moments.append(Moment(self.now, answer, pace, done, workers))

    def make_inputs(self) -> Inputs:
        """Return the planner's current inputs."""
        stages = []
        for part, exposed in zip(self.play.parts, self.exposed_groups, strict=True):
            error = 1 + part.noise * self._random.uniform(-1, 1)
            stages.append(
                StageLook(
                    part.name,
                    part.needs,
                    part.floor,
                    part.ceiling,
                    ready=exposed.ready.total(),
                    starting=len(exposed.starting),
                    draining=len(exposed.draining),
                    completed=exposed.completed,
                    seconds=exposed.seconds * error,
                    waiting=exposed.queue,
                    tasks_in=exposed.tasks_in,
                    tasks_out=exposed.tasks_out,
                )
            )
        left = None if self.play.sources is None or self.left else 0
        return Inputs(self.now, tuple(stages), tuple(self._make_nodes()), left)

    def _make_nodes(self) -> list[NodeLook]:
        names = [part.name for part in self.play.parts]
        workers: dict[str, dict[str, int]] = {node: {} for node in self.nodes}
        draining: dict[str, dict[str, int]] = {node: {} for node in self.nodes}
        for name, exposed in zip(names, self.exposed_groups, strict=True):
            started = Counter(node for _, node in exposed.starting)
            for node, count in (exposed.ready + started).items():
                workers[node][name] = count
            for node, count in Counter(node for _, node in exposed.draining).items():
                draining[node][name] = count
        return [
            NodeLook(node, resources, workers[node], draining[node])
            for node, resources in self.nodes.items()
        ]

    def _start(self, number: int, placements: Iterable[Placement]) -> None:
        for placement in placements:
            at = placement.node or min(self.nodes)
            self.exposed_groups[number].starting += [
                (self.now + self.play.startup, at)
            ] * placement.count

    def _drain(self, number: int, placements: Iterable[Placement]) -> None:
        exposed, cost = self.exposed_groups[number], self.play.parts[number].find_cost(self.now)
        for placement in placements:
            assert placement.node is not None
            for _ in range(placement.count):
                new = [two for two in exposed.starting if two[1] == placement.node]
                if new:
                    exposed.starting.remove(new[-1])
                else:
                    assert exposed.ready[placement.node] > 0, "no such worker"
                    exposed.ready[placement.node] -= 1
                exposed.draining.append((self.now + cost, placement.node))

    def _check_capacity(self) -> None:
        kinds = {kind for part in self.play.parts for kind in part.needs.count_units()}
        used: Counter[tuple[str, str]] = Counter()
        for part, exposed in zip(self.play.parts, self.exposed_groups, strict=True):
            units = part.needs.count_units()
            held = exposed.ready + Counter(at for _, at in (*exposed.starting, *exposed.draining))
            for node, count in held.items():
                for kind, need in units.items():
                    used[node, kind] += need * count
        for node, resources in self.nodes.items():
            have = resources.count_units()
            for kind in kinds:
                assert used[node, kind] <= have.get(kind, 0), f"{node} has too little {kind}"

    def _change_nodes(self) -> None:
        if self.now in self.play.joined:
            name, resources = self.play.joined[self.now]
            self.nodes[name] = resources
        if self.now in self.play.lost:
            node = self.play.lost[self.now]
            del self.nodes[node]
            for exposed in self.exposed_groups:
                del exposed.ready[node]
                exposed.starting = [one for one in exposed.starting if one[1] != node]
                exposed.draining = [one for one in exposed.draining if one[1] != node]

    def _turn_over(self) -> None:
        for exposed in self.exposed_groups:
            if any(at <= self.now for at, _ in exposed.starting):
                exposed.ready.update(node for at, node in exposed.starting if at <= self.now)
                exposed.starting = [one for one in exposed.starting if one[0] > self.now]
            exposed.draining = [one for one in exposed.draining if one[0] > self.now]

    def _list_sources(self) -> None:
        room = self._find_room(0)
        if self.left is not None:
            room = min(room, self.left)
            self.left -= max(0, room)
        self.exposed_groups[0].queue += max(0, room)

    def _find_room(self, number: int) -> int:
        """Return the number of tasks that the queue of a stage can still accept."""
        exposed, cost = self.exposed_groups[number], self.play.parts[number].find_cost(self.now)
        workers = max(1, exposed.ready.total())
        return round(SLOTS_PER_WORKER * workers * max(1.0, STEP / cost)) + 1 - exposed.queue

    def _work(self, number: int) -> None:
        part, exposed = self.play.parts[number], self.exposed_groups[number]
        is_last = number + 1 == len(self.exposed_groups)
        # The children of one task may overfill the next queue.
        most = exposed.queue
        if not is_last:
            below = self._find_room(number + 1)
            most = min(most, int(max(0.0, below) / max(part.fan, 1e-9)) + (below > 0))
        exposed.progress += exposed.ready.total() * STEP
        done, spent = self._take_tasks(part, exposed, most)
        exposed.queue -= done
        exposed.tasks_in += done
        exposed.completed += done
        exposed.seconds += spent
        exposed.progress = exposed.progress - spent
        if done == most:  # no work is left
            exposed.progress = min(exposed.progress, exposed.next_cost or part.find_cost(self.now))
        exposed.owed += done * part.fan
        out = int(exposed.owed + 1e-9)
        exposed.owed -= out
        exposed.tasks_out += out
        if not is_last:
            self.exposed_groups[number + 1].queue += out

    def _take_tasks(self, part: Part, exposed: Crowd, most: int) -> tuple[int, float]:
        """Return how many tasks end in this step, and how many seconds they took."""
        cost = part.find_cost(self.now)
        if not part.skew:
            done = min(most, int(exposed.progress / cost + 1e-9))
            return done, done * cost
        done, spent = 0, 0.0
        while done < most:
            exposed.next_cost = exposed.next_cost or self._draw(part, cost)
            if spent + exposed.next_cost > exposed.progress:
                break
            done, spent, exposed.next_cost = done + 1, spent + exposed.next_cost, 0.0
        return done, spent

    def _draw(self, part: Part, cost: float) -> float:
        return cost * (part.long if self._random.random() < part.skew else 1)
