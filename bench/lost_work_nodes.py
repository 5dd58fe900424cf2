"""Eight workers on Ray nodes that are processes of this machine; now and then one is taken away.

The engine is told before; plain tasks of Ray, which are tried again, can't be told.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from engine_cases import build_skewed
from engine_records import Recorded
from engine_works import Nap
from rival_ours import plan_case
from strandline.engine.core.ports import RunProgress
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.supervise.notices import NodeNotice, NoticeFile
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode

SPEED = 4.0  # times as fast as it is told
_EVERY, _LOSSES = 60.0 / SPEED, 3
_NODES, _CPUS = 4, 2
_STORE_BYTES = 100_000_000
_HERE = Path(__file__).parent


def run_nodes(folder: Path, task: float, notice: float) -> tuple[float, float]:
    """Return the shares of all work that are done again, in per cent: ours, and plain tasks'.

    Args:
        task, notice: their seconds, before they are made faster.
    """
    seconds, notice = task / SPEED, notice / SPEED
    count = round(_NODES * _CPUS * _EVERY * (_LOSSES + 1) / seconds)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_HERE), os.environ.get("PYTHONPATH", "")])
    with _clustered() as nodes:
        ours = _run_ours(folder / "ours", nodes, seconds, count, notice)
    with _clustered() as nodes:
        plain = _run_plain(folder / "plain", nodes, seconds, count)
    return ours, plain


@dataclass
class _Nodes:
    """Nodes for work, beside the driver's, of which one is taken at a time.

    Attributes:
        warn: is told which node goes in how many seconds.
    """

    cluster: Any
    warn: Callable[[str, float], None] = lambda *_: None
    lost: list[tuple[str, float]] = field(default_factory=list)
    _nodes: list[Any] = field(default_factory=list)
    _going: tuple[Any, float] | None = None
    _due: float = 0.0
    _left: int = _LOSSES

    def join(self) -> None:
        """Add one."""
        node = self.cluster.add_node(num_cpus=_CPUS, object_store_memory=_STORE_BYTES)
        self._nodes.append(node)

    def begin(self) -> None:
        """Let time begin."""
        self._due = time.monotonic() + _EVERY

    def turn(self, notice: float) -> None:
        """Warn of a node, or take it, where it is time."""
        now = time.monotonic()
        if self._going is None and self._left and now >= self._due:
            self._left -= 1
            self._due = now + max(_EVERY, notice)
            node = self._nodes.pop(random.randrange(len(self._nodes)))  # noqa: S311 - any of them
            self._going = node, now + notice
            self.warn(node.node_id, notice)
        if self._going is not None and now >= self._going[1]:
            node, self._going = self._going[0], None
            self.cluster.remove_node(node, allow_graceful=False)
            self.lost.append((node.node_id, time.time()))
            self.join()


@contextmanager
def _clustered() -> Iterator[_Nodes]:
    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, object_store_memory=_STORE_BYTES, include_dashboard=False)
        nodes = _Nodes(cluster)
        for _ in range(_NODES):
            nodes.join()
        ray.init(cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        cluster.shutdown()


def _run_ours(folder: Path, nodes: _Nodes, seconds: float, count: int, notice: float) -> float:
    folder.mkdir(parents=True)
    case = build_skewed(count, folder, _NODES * _CPUS)
    case = replace(case, works=(Recorded(Nap(seconds), folder),), batch=1)
    plan = plan_case(case, folder / "output")
    file = NoticeFile(PipelineFolder.of(folder / "volume", plan.namespace, plan.name).notices)

    def warn(node: str, left: float) -> None:
        now = time.monotonic()
        file.add(NodeNotice(node, now + left), now)

    def report(progress: RunProgress) -> None:
        if progress.finished:
            nodes.turn(notice)

    nodes.warn = warn
    nodes.begin()
    outcome = run_attempt(AttemptConfig(plan, folder / "volume", "ray"), report=report)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    return outcome.work.lost.find_share(outcome.work.worked) * 100


@ray.remote(num_cpus=1, max_retries=-1)  # type: ignore[untyped-decorator]
def _nap(log: str, number: int, seconds: float) -> int:
    node = ray.get_runtime_context().get_node_id()
    _write(log, f"begin {number} {node} {time.time()}")
    time.sleep(seconds)
    _write(log, f"end {number} {node} {time.time()}")
    return number


def _write(log: str, line: str) -> None:
    with Path(log).open("a", encoding="ascii") as file:
        file.write(f"{line}\n")


def _run_plain(folder: Path, nodes: _Nodes, seconds: float, count: int) -> float:
    folder.mkdir(parents=True)
    log = folder / "log"
    waiting = [_nap.remote(str(log), number, seconds) for number in range(count)]
    nodes.begin()
    while waiting:
        _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=0.2)
        nodes.turn(0.0)
    return _read_lost(log.read_text(), dict(nodes.lost)) * 100


def _read_lost(log: str, ends: Mapping[str, float]) -> float:
    """Return the share of work that was in vain: all tries of a task but the last.

    Args:
        ends: when each node was lost.
    """
    begun: dict[tuple[str, str], float] = {}
    tries: dict[str, list[float]] = {}
    for what, number, node, at in map(str.split, log.splitlines()):
        if what == "begin":
            begun[number, node] = float(at)
        else:
            tries.setdefault(number, []).append(float(at) - begun.pop((number, node)))
    for (number, node), since in begun.items():
        tries.setdefault(number, []).insert(0, max(0.0, ends.get(node, since) - since))
    worked = sum(map(sum, tries.values()))
    return sum(sum(each[:-1]) for each in tries.values()) / worked
