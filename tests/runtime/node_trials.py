"""A program that runs pipelines on a local cluster while a node joins and a node is killed.

Ray connects once per process, so this program cannot share the Ray of other tests. The program
writes its observations to a JSON file; the outputs show which nodes did which work.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

import engine_stages as bad
import worker_stages as told
from local_clusters import STORE, join_local_cluster
from strandline.engine.core.ports import RunProgress
from strandline.ledger.checks.verification import verify
from strandline.ledger.store.rows import list_failures
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs

SOURCES = 80


def make_plan(name: str, folder: Path) -> PipelinePlan:
    """Return a plan that enlarges numbers, processes them slowly, and writes them in one worker."""
    source = StagePlan("numbers", "numbers", bad.Numbers(count=SOURCES))
    stages = [
        StagePlan("large", "large", told.Large(), cpu=0.5, min_workers=2, max_workers=2),
        StagePlan("slow", "slow", told.SlowHere(folder=str(folder)), cpu=0.5, min_workers=2),
        StagePlan("text", "text", told.NumberSink(), cpu=0.1, max_workers=1),
    ]
    return check_plan("default", name, source, stages)


class Trial:
    """A run whose cluster changes after enough sources have finished."""

    def __init__(self, name: str, volume: Path, after: int, disturb: Callable[[], None]) -> None:
        self._name = name
        self._volume = volume
        self._after = after
        self._disturb = disturb
        self._is_begun = False
        self._most: Counter[str] = Counter()
        self._bottlenecks: set[str | None] = set()
        self._notes: list[str] = []

    def run(self) -> dict[str, Any]:
        """Run, and return the observations."""
        config = AttemptConfig(make_plan(self._name, self._volume), self._volume)
        outcome = run_attempt(config, report=self._watch)
        folder = PipelineFolder.on_volume(self._volume, "default", self._name)
        store = Store(folder.ledger, readonly=True)
        try:
            verdict = verify(store, LocalOutputs(folder.output))
            failures = [record.message for record in list_failures(store)]
        finally:
            store.close()
        told_by = [json.loads(path.read_text()) for path in folder.output.rglob("*.txt")]
        return {
            "code": outcome.code.name,
            "message": outcome.message,
            "finished": outcome.standing.finished,
            "failures": failures,
            "incidents": list(outcome.incidents),
            "problems": list(verdict.problems),
            "numbers": sorted(one["number"] for one in told_by),
            "byNode": Counter(one["node"] for one in told_by),
            "most": self._most,
            "notes": self._notes,
            "bottlenecks": sorted(filter(None, self._bottlenecks)),
        }

    def _watch(self, progress: RunProgress) -> None:
        pools = zip(progress.flow.queues, progress.list_pools(), strict=False)
        for queue, pool in pools:
            self._most[queue.name] = max(self._most[queue.name], pool.workers)
        self._bottlenecks.add(progress.bottleneck)
        self._notes = list(progress.notes)
        if progress.finished >= self._after and not self._is_begun:
            self._is_begun = True
            self._disturb()  # in the main thread, because Ray sets signal handlers


def main() -> None:
    """Add a node in the first run, and kill a node in the second."""
    joined: list[Any] = []
    health = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    with join_local_cluster(3, _system_config=health) as (cluster, folder):

        def join() -> None:
            joined.append(cluster.add_node(num_cpus=2, object_store_memory=STORE))

        def kill() -> None:
            cluster.remove_node(joined[0], allow_graceful=False)

        seen = {
            "here": ray.get_runtime_context().get_node_id(),
            "joins": Trial("joins", folder, 5, join).run(),
            "there": joined[0].node_id,
            "dies": Trial("dies", folder, 20, kill).run(),
        }
        Path(sys.argv[1]).write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
