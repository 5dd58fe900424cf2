"""A pipeline played in steps of a tenth of a second, with the planner at its wheel.

A pool works like a fluid: its workers share its tasks evenly. Queues are bounded, so whoever is
slow holds back the stages above it. Workers take a while to start and a task's time to drain.
The player refuses a plan that asks for more than a node has.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from strandline.engine.autoscaler.model import (
    Inputs,
    NodeLook,
    Params,
    Placement,
    Plan,
    Resources,
    StageLook,
    State,
)
from strandline.engine.autoscaler.planner import plan

STEP = 0.1
SLOTS_PER_WORKER = 4


@dataclass(frozen=True, slots=True)
class Part:
    """A stage to be played.

    Attributes:
        cost: processing seconds of one task; `later` from `changes_at` on.
        fan: tasks that come out for one that goes in.
        skew: share of tasks that take `long` times as long.
        noise: share by which measured seconds are off at a look, at most.
    """

    name: str
    cost: float
    needs: Resources = field(default_factory=lambda: Resources(cpu=1))
    fan: float = 1.0
    floor: int = 1
    ceiling: int | None = None
    later: float | None = None
    changes_at: float = float("inf")
    skew: float = 0.0
    long: float = 1.0
    noise: float = 0.0

    def find_cost(self, now: float) -> float:
        """Seconds of a usual task."""
        return self.cost if now < self.changes_at or self.later is None else self.later

    def find_mean(self, now: float) -> float:
        """Seconds of a task on average."""
        return self.find_cost(now) * (1 + self.skew * (self.long - 1))


@dataclass(frozen=True, slots=True)
class Play:
    """A pipeline on a cluster.

    Attributes:
        lost, joined: nodes that go or come, by time.
        sources: there are so many; None: there is no end of them.
    """

    name: str
    parts: tuple[Part, ...]
    nodes: Mapping[str, Resources]
    seconds: float = 60.0
    startup: float = 2.0
    lost: Mapping[float, str] = field(default_factory=dict)
    joined: Mapping[float, tuple[str, Resources]] = field(default_factory=dict)
    sources: int | None = None
    seed: int = 7

    def find_demand(self) -> list[float]:
        """Tasks of each stage for one source."""
        demand = [1.0]
        for part in self.parts[:-1]:
            demand.append(demand[-1] * part.fan)
        return demand


@dataclass(slots=True)
class Crowd:
    """The workers and queue of a part.

    Attributes:
        ready: by node.
        starting, draining: how many on a node, and until when.
        progress: seconds already worked on what is next.
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
    """One look: what was planned, and what the pipeline can truly do."""

    now: float
    plan: Plan
    pace: float
    done: float
    workers: tuple[int, ...]


class Player:
    """Plays one play to its end."""

    def __init__(self, play: Play, params: Params | None = None) -> None:
        self.play = play
        self.params = params or Params()
        self.nodes = dict(play.nodes)
        self.crowds = [Crowd() for _ in play.parts]
        self.state = State.begin()
        self.left = play.sources
        self.now = 0.0
        self.moments: list[Moment] = []
        self._random = random.Random(play.seed)

    def run(self) -> list[Moment]:
        """All looks, one a second."""
        steps = round(self.play.seconds / STEP)
        for step in range(steps):
            self.now = round(step * STEP, 6)
            if step % round(1 / STEP) == 0:
                self._change_nodes()
                self._look()
            self._turn_over()
            for number in reversed(range(len(self.crowds))):
                self._work(number)
            self._list_sources()
        return self.moments

    @property
    def is_done(self) -> bool:
        """Nothing is left to do."""
        return self.left == 0 and not any(crowd.queue for crowd in self.crowds)

    def _look(self) -> None:
        answer = plan(self.params, self.state, self.make_inputs())
        self.state = answer.state
        for number, stage in enumerate(answer.stages):
            self._start(number, stage.start)
            self._drain(number, stage.drain)
        for crowd in self.crowds:
            crowd.completed, crowd.seconds = 0, 0.0
        self._check_capacity()
        demand = self.play.find_demand()
        pace = min(
            crowd.ready.total() / part.find_mean(self.now) / one
            for crowd, part, one in zip(self.crowds, self.play.parts, demand, strict=True)
        )
        workers = tuple(crowd.ready.total() + len(crowd.starting) for crowd in self.crowds)
        done = self.crowds[-1].tasks_in / demand[-1]
        self.moments.append(Moment(self.now, answer, pace, done, workers))

    def make_inputs(self) -> Inputs:
        """What the planner sees now."""
        stages = []
        for part, crowd in zip(self.play.parts, self.crowds, strict=True):
            error = 1 + part.noise * self._random.uniform(-1, 1)
            stages.append(
                StageLook(
                    part.name,
                    part.needs,
                    part.floor,
                    part.ceiling,
                    ready=crowd.ready.total(),
                    starting=len(crowd.starting),
                    draining=len(crowd.draining),
                    completed=crowd.completed,
                    seconds=crowd.seconds * error,
                    waiting=crowd.queue,
                    tasks_in=crowd.tasks_in,
                    tasks_out=crowd.tasks_out,
                )
            )
        left = None if self.play.sources is None or self.left else 0
        return Inputs(self.now, tuple(stages), tuple(self._make_nodes()), left)

    def _make_nodes(self) -> list[NodeLook]:
        names = [part.name for part in self.play.parts]
        workers: dict[str, dict[str, int]] = {node: {} for node in self.nodes}
        draining: dict[str, dict[str, int]] = {node: {} for node in self.nodes}
        for name, crowd in zip(names, self.crowds, strict=True):
            started = Counter(node for _, node in crowd.starting)
            for node, count in (crowd.ready + started).items():
                workers[node][name] = count
            for node, count in Counter(node for _, node in crowd.draining).items():
                draining[node][name] = count
        return [
            NodeLook(node, resources, workers[node], draining[node])
            for node, resources in self.nodes.items()
        ]

    def _start(self, number: int, placements: Iterable[Placement]) -> None:
        for one in placements:
            at = one.node or min(self.nodes)
            self.crowds[number].starting += [(self.now + self.play.startup, at)] * one.count

    def _drain(self, number: int, placements: Iterable[Placement]) -> None:
        crowd, cost = self.crowds[number], self.play.parts[number].find_cost(self.now)
        for one in placements:
            assert one.node is not None
            for _ in range(one.count):
                new = [two for two in crowd.starting if two[1] == one.node]
                if new:
                    crowd.starting.remove(new[-1])
                else:
                    assert crowd.ready[one.node] > 0, "no such worker"
                    crowd.ready[one.node] -= 1
                crowd.draining.append((self.now + cost, one.node))

    def _check_capacity(self) -> None:
        kinds = {kind for part in self.play.parts for kind in part.needs.count_units()}
        used: Counter[tuple[str, str]] = Counter()
        for part, crowd in zip(self.play.parts, self.crowds, strict=True):
            units = part.needs.count_units()
            held = crowd.ready + Counter(at for _, at in (*crowd.starting, *crowd.draining))
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
            for crowd in self.crowds:
                del crowd.ready[node]
                crowd.starting = [one for one in crowd.starting if one[1] != node]
                crowd.draining = [one for one in crowd.draining if one[1] != node]

    def _turn_over(self) -> None:
        for crowd in self.crowds:
            if any(at <= self.now for at, _ in crowd.starting):
                crowd.ready.update(node for at, node in crowd.starting if at <= self.now)
                crowd.starting = [one for one in crowd.starting if one[0] > self.now]
            crowd.draining = [one for one in crowd.draining if one[0] > self.now]

    def _list_sources(self) -> None:
        room = self._find_room(0)
        if self.left is not None:
            room = min(room, self.left)
            self.left -= max(0, room)
        self.crowds[0].queue += max(0, room)

    def _find_room(self, number: int) -> int:
        """Tasks that the queue of a stage may still take."""
        crowd, cost = self.crowds[number], self.play.parts[number].find_cost(self.now)
        workers = max(1, crowd.ready.total())
        return round(SLOTS_PER_WORKER * workers * max(1.0, STEP / cost)) + 1 - crowd.queue

    def _work(self, number: int) -> None:
        part, crowd = self.play.parts[number], self.crowds[number]
        is_last = number + 1 == len(self.crowds)
        # A fan-out may overfill the queue below by one task's children, not by more.
        most = crowd.queue
        if not is_last:
            below = self._find_room(number + 1)
            most = min(most, int(max(0.0, below) / max(part.fan, 1e-9)) + (below > 0))
        crowd.progress += crowd.ready.total() * STEP
        done, spent = self._take_tasks(part, crowd, most)
        crowd.queue -= done
        crowd.tasks_in += done
        crowd.completed += done
        crowd.seconds += spent
        crowd.progress = crowd.progress - spent
        if done == most:  # nothing more to do
            crowd.progress = min(crowd.progress, crowd.next_cost or part.find_cost(self.now))
        crowd.owed += done * part.fan
        out = int(crowd.owed + 1e-9)
        crowd.owed -= out
        crowd.tasks_out += out
        if not is_last:
            self.crowds[number + 1].queue += out

    def _take_tasks(self, part: Part, crowd: Crowd, most: int) -> tuple[int, float]:
        """Tasks that end in this step, and their seconds."""
        cost = part.find_cost(self.now)
        if not part.skew:
            done = min(most, int(crowd.progress / cost + 1e-9))
            return done, done * cost
        done, spent = 0, 0.0
        while done < most:
            crowd.next_cost = crowd.next_cost or self._draw(part, cost)
            if spent + crowd.next_cost > crowd.progress:
                break
            done, spent, crowd.next_cost = done + 1, spent + crowd.next_cost, 0.0
        return done, spent

    def _draw(self, part: Part, cost: float) -> float:
        return cost * (part.long if self._random.random() < part.skew else 1)
