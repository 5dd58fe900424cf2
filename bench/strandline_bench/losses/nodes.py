"""Measures repeated work after the loss of Ray nodes, compared with Ray's own task retries.

The nodes are processes of this machine: eight workers on four nodes. A minute is scaled to ten
seconds for losses, notices, and tasks. Repeated work is computed from the log of the tasks
themselves, not from the engine's reports.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil
import ray
from pydantic import Field
from ray.cluster_utils import Cluster

from strandline.engine.ray.local.start import START_SECONDS, waiting_for_node
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.supervise.notices import NodeNotice, NoticeFile
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.ground.folders import join_python_path
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.stages import Nowhere, Numbers
from strandline_bench.ground.table import Row, bound, format_number
from strandline_bench.losses.work import NOTICES, TASKS

_MINUTE = 10.0  # seconds that represent a minute in this table
_NODES, _CPUS = 4, 2
_SPREAD = (0.5, 1.5)  # bounds of a task's length, as multiples of the mean
_STORE_BYTES = 100_000_000


class Mark(NamedTuple):
    """Start or end of a task, with its time on the system-wide clock."""

    number: int
    node: str
    is_end: bool
    time: float


class Loss(NamedTuple):
    """Loss of a node."""

    node: str
    time: float


def measure_lost_nodes(scale: Scale) -> list[Row]:
    """Return rows for each combination of task length and notice."""
    shrunk = _MINUTE / 60
    seconds = scale.pick(24, 12)
    tasks, notices = (TASKS[1:2], NOTICES[-1:]) if scale.is_quick else (TASKS, NOTICES)
    rows = []
    for task in tasks:
        count = round(seconds * _NODES * _CPUS / (task * shrunk))
        for notice in notices:
            folder = scale.folder / f"lost-{task:g}-{notice:g}"
            share = run_apart(_measure, folder, count, task * shrunk, notice * shrunk)
            name = f"8 processes, tasks of {task:g} s, {notice:g} s of notice: done again"
            is_long = task * _SPREAD[1] <= notice
            rows.append(bound(name, share, 0.0, "%") if is_long else _compare(name, share))
        share = run_apart(_measure, scale.folder / f"plain-{task:g}", count, task * shrunk, None)
        rows.append(_compare(f"8 processes, tasks of {task:g} s: by Ray's retry of tasks", share))
    return rows


def _compare(name: str, share: float) -> Row:
    return Row(name, format_number(share, "%"))


def _measure(folder: Path, count: int, task: float, notice: float | None) -> float:
    """Return the percentage of all work that was repeated.

    Args:
        task: mean length in seconds.
        notice: seconds from the notice to the loss, or None to use plain Ray tasks, which ignore
            notices.
    """
    folder.mkdir(parents=True)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = join_python_path()
    # Nodes join from a thread other than the main thread, where Ray cannot install its signal
    # handlers. The benchmark needs no handlers.
    ray._private.utils.set_sigterm_handler = lambda _: None  # noqa: SLF001 - it is in the way
    cluster = Cluster()
    try:
        with waiting_for_node(START_SECONDS):
            cluster.add_node(
                num_cpus=1 if notice is not None else 0,
                object_store_memory=_STORE_BYTES,
                _system_config={"health_check_period_ms": 500, "health_check_failure_threshold": 4},
            )
        ray.init(cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        if notice is None:
            losses = _run_plain(cluster, folder, count, task)
        else:
            losses = _run_ours(cluster, folder, count, task, notice)
    finally:
        ray.shutdown()
        cluster.shutdown()
    return _find_share(_read_marks(folder), losses, count)


class LoggedNap(Stage):
    """Sleeps, and logs start and end."""

    class Params(Stage.Params):
        """Configures the mean length of a task in seconds, and the folder of the log."""

        folder: Path
        seconds: float = Field(ge=0)

    params: Params

    def process(self, task: Task) -> Task:
        nap(self.params.folder, int(task.key.rpartition("-")[2]), self.params.seconds)
        return task


def nap(folder: Path, number: int, seconds: float) -> None:
    """Sleep for the pseudo-random duration of a task number, and log the task."""
    node = ray.get_runtime_context().get_node_id()
    length = seconds * random.Random(number).uniform(*_SPREAD)  # noqa: S311 - drawn alike
    with (folder / f"marks-{os.getpid()}").open("a", encoding="ascii") as file:
        file.write(f"{number} {node} 0 {time.monotonic()}\n")
        file.flush()
        time.sleep(length)
        file.write(f"{number} {node} 1 {time.monotonic()}\n")


def _run_ours(cluster: Cluster, folder: Path, count: int, task: float, notice: float) -> list[Loss]:
    config = AttemptConfig(_plan(folder, count, task), folder / "volume")
    notices = NoticeFile(PipelineFolder.on_volume(folder / "volume", "default", "bench").notices)

    def announce(node: str, now: float) -> None:
        if notice:
            notices.add(NodeNotice(node, now + notice, "bench"), now)

    with _Taker(cluster, notice, announce) as taker:
        outcome = run_attempt(config, report=lambda _: taker.begin())
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    return taker.losses


def _plan(folder: Path, count: int, task: float) -> PipelinePlan:
    stage = LoggedNap(folder=folder, seconds=task)
    stages = [
        StagePlan("nap", "nap", stage, cpu=1, max_workers=_NODES * _CPUS),
        StagePlan("sink", "nowhere", Nowhere(), cpu=0.1, max_workers=1),
    ]
    numbers = StagePlan("numbers", "numbers", Numbers(count=count, is_empty=True))
    return check_plan("default", "bench", numbers, stages)


def _run_plain(cluster: Cluster, folder: Path, count: int, task: float) -> list[Loss]:
    remote = ray.remote(num_cpus=1, max_retries=-1)(nap)
    with _Taker(cluster, 0.0, lambda *_: None) as taker:
        taker.begin()
        ray.get([remote.remote(folder, number, task) for number in range(count)])
    return taker.losses


class _Taker:
    """Removes a node every minute, and adds a node a minute after each announcement.

    Args:
        notice: seconds from the announcement to the loss.
        announce: called with the node that is about to leave, and the time.
    """

    def __init__(
        self, cluster: Cluster, notice: float, announce: Callable[[str, float], None]
    ) -> None:
        self.losses: list[Loss] = []
        self._cluster = cluster
        self._notice = notice
        self._announce = announce
        self._draw = random.Random(7)  # noqa: S311 - the same ones in each row
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._take)
        self._nodes = [self._join() for _ in range(_NODES)]

    def begin(self) -> None:
        """Start with the first report of a run."""
        if self._thread.ident is None:
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _join(self) -> Any:  # noqa: ANN401 - Ray has no type for it
        return self._cluster.add_node(num_cpus=_CPUS, object_store_memory=_STORE_BYTES)

    def _remove(self, node: Any) -> None:  # noqa: ANN401 - Ray has no type for it
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        # Suspend the raylet first, so that it does not replace killed workers. Then kill the
        # workers: if only the raylet were killed, its workers would respond for a while, but on a
        # lost machine no worker does.
        raylet.suspend()
        for worker in raylet.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        self._cluster.remove_node(node, allow_graceful=False)

    def _take(self) -> None:
        begun = time.monotonic()
        events: list[tuple[float, int, str, Any]] = [(begun + _MINUTE, 0, "notice", None)]
        numbers = iter(range(1, 10**6))
        while True:
            at, _, what, node = heapq.heappop(events)
            if self._over.wait(max(0.0, at - time.monotonic())):
                return
            now = time.monotonic()
            if what == "notice":
                node = self._nodes.pop(self._draw.randrange(len(self._nodes)))
                self._announce(node.node_id, now)
                heapq.heappush(events, (at + _MINUTE, next(numbers), "notice", None))
                heapq.heappush(events, (now + self._notice, next(numbers), "gone", node))
                heapq.heappush(events, (now + _MINUTE, next(numbers), "join", None))
            elif what == "gone":
                self._remove(node)
                self.losses.append(Loss(node.node_id, time.monotonic()))
            else:
                self._nodes.append(self._join())


def _read_marks(folder: Path) -> Iterator[Mark]:
    for path in folder.glob("marks-*"):
        for line in path.read_text(encoding="ascii").splitlines():
            number, node, is_end, at = line.split()
            yield Mark(int(number), node, is_end == "1", float(at))


def _find_share(marks: Iterator[Mark], losses: list[Loss], count: int) -> float:
    """Return the share of repeated work: tasks lost with a node, and tasks completed twice."""
    gone = {loss.node: loss.time for loss in losses}
    begun: dict[tuple[int, str], list[Mark]] = defaultdict(list)
    for mark in sorted(marks, key=lambda mark: mark.time):
        # Ignore work that starts on a node after its removal: the work is not lost.
        if mark.is_end or mark.time < gone.get(mark.node, mark.time + 1):
            begun[mark.number, mark.node].append(mark)
    lengths: dict[int, list[float]] = defaultdict(list)
    lost = 0.0
    for (number, node), each in begun.items():
        last = Mark(number, node, is_end=True, time=gone.get(node, each[-1].time))
        for first, second in itertools.pairwise([*each, last]):
            if not first.is_end and second is last:
                lost += second.time - first.time
            elif not first.is_end:
                lengths[number].append(second.time - first.time)
    if len(lengths) != count:
        raise RuntimeError(f"{len(lengths)} of {count} tasks ended")
    worked = lost + sum(map(sum, lengths.values()))
    lost += sum(sum(each[1:]) for each in lengths.values())
    return lost / worked * 100
