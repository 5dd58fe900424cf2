"""Runs pipelines on two local nodes, of which the first gets a notice and then leaves.

Ray connects once per process, so this program cannot share the Ray of other tests. The program
writes its observations to a JSON file.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

import engine_stages as bad
import notice_stages as noted
import worker_stages as told
from local_clusters import STORE, join_local_cluster
from strandline.engine.core.ports import RunProgress
from strandline.ledger.checks.verification import verify
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.supervise.notices import NodeNotice, NoticeFile
from strandline.stages import AskModel, ParquetSink
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs

SOURCES = 40
SECONDS = 1.0
AFTER = 8
PARTS = 10  # yielded tasks per number
ENGINE = Path(__file__).parents[1] / "stages" / "fake_engine.py"
# Seconds of notice that the node gets in each trial.
NOTICES = {"told": 60.0, "chained": 60.0, "parts": 60.0, "served": 60.0, "taken": 0.0}


def make_plan(name: str, folder: Path) -> PipelinePlan:
    """Return a plan in which numbers pass through two stages with large data between them.

    In the trial "chained" both stages share a worker, in "parts" the first stage yields, and in
    "served" the second stage calls its own server. In all other trials, the calls of the second
    stage take longer.
    """
    if name == "served":
        return make_served_plan(name, folder)
    if name == "parts":
        source = StagePlan("numbers", "numbers", bad.Numbers(count=SOURCES // PARTS))
        first: Any = noted.Parted(log=str(folder / "first"), count=PARTS, seconds=SECONDS / 2)
    else:
        source = StagePlan("numbers", "numbers", bad.Numbers(count=SOURCES))
        first = noted.Noted(log=str(folder / "first"), seconds=SECONDS / 4)
    second = noted.Noted(log=str(folder / "second"), seconds=SECONDS)
    streams = name == "parts"
    stages = [
        StagePlan("first", "first", first, cpu=0.5, streams=streams),
        StagePlan("second", "second", second, cpu=0.5 if name == "chained" else 0.6),
    ]
    sink = StagePlan("text", "text", told.NumberSink(), cpu=0.1, max_workers=1)
    return check_plan("default", name, source, [*stages, sink])


def make_served_plan(name: str, folder: Path) -> PipelinePlan:
    """Return a plan that makes prompts from numbers, and whose workers have their own servers."""
    (folder / "soon").touch()
    command = [sys.executable, str(ENGINE), "{port}", "{name}", str(folder)]
    serve = {"engine": "command", "model": "weights", "command": command}
    ask = AskModel(serve=serve, model="small", prompt="{{ text }}")
    source = StagePlan("numbers", "numbers", bad.Numbers(count=SOURCES))
    first = noted.Prompts(log=str(folder / "first"))
    stages = [
        StagePlan("first", "first", first, cpu=0.1),
        StagePlan("second", "second", ask, cpu=0.6),
    ]
    sink = StagePlan("sink", "sink", ParquetSink(), cpu=0.1, max_workers=1)
    return check_plan("default", name, source, [*stages, sink])


class Trial:
    """A run in which a node gets a notice after enough finished sources.

    Args:
        notice: seconds until the node leaves.
    """

    def __init__(self, name: str, volume: Path, cluster: Cluster, notice: float) -> None:
        self._name = name
        self._volume = volume
        self._cluster = cluster
        self._notice = notice
        self._node: Any = None
        self._gone = False
        self._told_at = 0.0
        self._left: float | None = None
        self._folder = PipelineFolder.on_volume(volume, "default", name)
        self._notes: list[str] = []

    def run(self) -> dict[str, Any]:
        """Run, and return the observations."""
        self._node = self._cluster.add_node(num_cpus=2, object_store_memory=STORE)
        config = AttemptConfig(make_plan(self._name, self._volume), self._volume)
        outcome = run_attempt(config, report=self._watch)
        store = Store(self._folder.ledger, readonly=True)
        try:
            verdict = verify(store, LocalOutputs(self._folder.output))
        finally:
            store.close()
        second = "asked" if self._name == "served" else "second"
        begun = {
            stage: Counter((self._volume / log).read_text().splitlines())
            for stage, log in (("first", "first"), ("second", second))
        }
        return {
            "code": outcome.code.name,
            "message": outcome.message,
            "finished": outcome.standing.finished,
            "problems": list(verdict.problems),
            "incidents": list(outcome.incidents),
            "again": {stage: sum(counts.values()) - len(counts) for stage, counts in begun.items()},
            "left": self._left,
            "gone": self._gone,
            "notes": self._notes,
            "lost": outcome.work.lost.model_dump(),
            "worked": outcome.work.worked,
        }

    def _watch(self, progress: RunProgress) -> None:
        self._notes = list(progress.notes)
        node, now = self._node.node_id, time.monotonic()
        is_begun = progress.finished >= (AFTER if self._name != "parts" else 1)
        if not self._told_at and is_begun:
            self._told_at = now
            notice = NodeNotice(node, now + self._notice, "told")
            NoticeFile(self._folder.notices).add(notice, now)
        elif self._told_at and not self._gone:
            is_left = progress.leaving.get(node) == 0
            if is_left and self._left is None:
                self._left = now - self._told_at
            if is_left or now > self._told_at + self._notice:
                self._gone = True
                self._cluster.remove_node(self._node, allow_graceful=False)


def main() -> None:
    """Run all trials, with enough notice and without notice."""
    health = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    with join_local_cluster(2, _system_config=health) as (cluster, folder):
        seen = {}
        for name, notice in NOTICES.items():
            volume = folder / name
            volume.mkdir()
            seen[name] = Trial(name, volume, cluster, notice).run()
        Path(sys.argv[1]).write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
