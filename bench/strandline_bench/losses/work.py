"""Simulates repeated work after lost nodes, compared with a plain retry of tasks.

Simulates a cluster of 64 workers with its own clock, and counts work as the engine does. Losses on
real nodes are tested in `tests/runtime/test_node_notices.py`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from strandline.engine.call.slots import Slot
from strandline.engine.core.workers import Call, Worker
from strandline.engine.preemption.lost_work import NODE, WorkMeter
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number

NOTICES = (0.0, 15.0, 30.0, 120.0)
TASKS = (1.0, 10.0, 60.0)
_NODES, _WORKERS = 16, 4  # nodes, and workers per node
_EVERY = 60.0  # seconds between two losses
_BOOT = 60.0  # seconds until a lost node is replaced
_SPREAD = (0.5, 1.5)  # bounds of a task's length, as multiples of the mean


def measure_lost_work(scale: Scale) -> list[Row]:
    """Return rows for each combination of task length and notice."""
    minutes = scale.pick(480, 30)
    rows: list[Row] = []
    for task in TASKS:
        for notice in NOTICES:
            what = f"64 simulated workers, tasks of {task:g} s, {notice:g} s of notice"
            rows += _compare(what, task * _SPREAD[1] <= notice, *_simulate(task, notice, minutes))
    return rows


def _compare(what: str, is_long: bool, ours: float, plain: float) -> Iterator[Row]:  # noqa: FBT001
    """Yield rows with the percentages of repeated work.

    Args:
        is_long: whether the notice is longer than any task.
    """
    name = f"{what}: done again"
    yield bound(name, ours, 0.0, "%") if is_long else Row(name, format_number(ours, "%"))
    yield Row(f"{what}: by a retry of tasks", format_number(plain, "%"))


def _simulate(task: float, notice: float, minutes: float) -> tuple[float, float]:
    shares = []
    for heeds in (True, False):
        cluster = _Cluster(task, notice if heeds else 0.0, random.Random(7))  # noqa: S311 - drawn alike
        cluster.run(minutes * 60)
        work = cluster.work
        shares.append(work.lost.find_share(work.worked) * 100)
    return shares[0], shares[1]


@dataclass
class _Cluster:
    """Simulates nodes that work without a pause and lose a node every minute.

    Attributes:
        notice: seconds between the notice and the loss; 0 if nodes take calls until the loss.
    """

    task: float
    notice: float
    draw: random.Random
    work: WorkMeter = field(default_factory=WorkMeter)
    now: float = 0.0

    def run(self, seconds: float) -> None:
        """Simulate the cluster for this many seconds."""
        names = iter(range(10**9))
        self._workers: dict[int, list[Worker]] = {}
        self._events: list[tuple[float, int, str, object]] = []
        self._numbers = iter(range(10**9))
        for _ in range(_NODES):
            self._join(next(names))
        self._push(_EVERY, "notice", None)
        while self._events[0][0] < seconds:
            self.now, _, what, about = heapq.heappop(self._events)
            if what == "end":
                self._end(about)  # type: ignore[arg-type]
            elif what == "notice":
                self._push(self.now + _EVERY, "notice", None)
                node = self.draw.choice(sorted(self._workers))
                self._leave(node)
            elif what == "gone":
                self._lose(about)  # type: ignore[arg-type]
            else:
                self._join(next(names))

    def _push(self, at: float, what: str, about: object) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), what, about))

    def _join(self, node: int) -> None:
        workers = [Worker(0, "actor", node=str(node)) for _ in range(_WORKERS)]
        self._workers[node] = workers
        for worker in workers:
            self._begin(worker)

    def _begin(self, worker: Worker) -> None:
        number = next(self._numbers)
        token = number.to_bytes(16, "big")
        call = Call(0, worker, [Slot(token, "", token, None, None, 0)], None, number)
        worker.calls[number] = call
        worker.busy_since = self.now
        self._push(self.now + self.task * self.draw.uniform(*_SPREAD), "end", (worker, number))

    def _end(self, about: tuple[Worker, int]) -> None:
        worker, number = about
        if worker.calls.pop(number, None) is None:
            return  # the task was lost with its node
        self.work.worked += self.now - worker.busy_since
        if not worker.is_draining:
            self._begin(worker)

    def _leave(self, node: int) -> None:
        """Announce the removal of a node. If notices are respected, the node gets no more calls."""
        goes_at = self.now + self.notice
        for worker in self._workers[node]:
            worker.is_draining = self.notice > 0
        self._push(goes_at, "gone", self._workers.pop(node))
        self._push(self.now + _BOOT, "join", None)

    def _lose(self, workers: list[Worker]) -> None:
        for worker in workers:
            if worker.calls:
                self.work.lose_call(NODE, self.now - worker.busy_since)
                worker.calls.clear()
