"""Simulates a day on spot nodes: runs, their nodes, and times without new nodes (droughts).

Each run has a head and a worker group on nodes of one pool. Node lifetimes are drawn with a
half-life of an hour, and nodes end in the ways clouds use. In a drought the pool has no new nodes.
The operator decides; this module simulates the pods and KubeRay, on its own clock. It must not
depend on the law that the tests check.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

from node_bodies import (
    GKE_SPOT,
    SILENT,
    end_by_eviction,
    end_by_shutdown,
    spell_node,
    spell_taint,
    spell_target,
)
from simulated_cluster import SimulatedCluster
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.pipeline_status import Progress
from strandline_operator.model.nodes.marks import read_marks
from strandline_operator.model.plan import Resource
from test_droughts import FULL, STOCK_OUT, place, unplace

HOUR, DAY = 3600.0, 86_400.0
HALF_LIFE = HOUR
RUNS, NODES = 20, 50  # a thousand nodes
SOURCE_SECONDS = 240.0  # seconds per source and worker
SOURCES = 11_000  # about as many sources as the workers of a run finish in a day
DROUGHTS, LONGEST_DROUGHT = 5, 3 * HOUR
SPEAKS_EVERY = 300.0  # seconds between the autoscaler's events about a pod without a node
REPLACED_AFTER = 120.0
MOST_GONE = 10
WAYS = ("shutdown", "vanished", "evicted", "crashed")


@dataclass(frozen=True)
class Weather:
    """Droughts: intervals in which the pool has no nodes, in order."""

    droughts: tuple[tuple[float, float], ...]

    @classmethod
    def draw(cls, drawn: random.Random, begin: float) -> Weather:
        starts = sorted(begin + drawn.uniform(0, DAY) for _ in range(DROUGHTS))
        return cls(
            tuple((start, start + drawn.uniform(0.3, 1) * LONGEST_DROUGHT) for start in starts)
        )

    def find_end(self, time: float) -> float:
        """Return the end of the drought at a time, or the time itself without a drought."""
        for start, end in self.droughts:
            if start <= time < end:
                time = end
        return time

    def measure_dry(self, start: float, end: float) -> float:
        """Return the seconds of an interval that overlap with droughts."""
        return sum(max(0.0, min(end, last) - max(start, first)) for first, last in self.droughts)


@dataclass
class SpotRun:
    """One run: its cluster and its progress.

    Attributes:
        finished: sources whose work is durable.
        heads, workers: reclaimed nodes, by role of their pod.
        waited: seconds in which a start found no node.
    """

    drawn: random.Random
    weather: Weather
    cluster: SimulatedCluster = field(default_factory=SimulatedCluster)
    finished: int = 0
    heads: int = 0
    workers: int = 0
    waited: float = 0.0

    def play(self, until: float) -> None:
        """Play the run until it ends, or until the given time."""
        wanted = {"preset": "gke"}
        ray = {"head": {"spot": wanted}, "workerGroups": [{"name": "cpu", "spot": wanted}]}
        self.cluster.edit(ray=ray)
        self.cluster.settle()
        self.cluster.bind_claim()
        while self.cluster.time < until and not self._is_over:
            self._play_attempt()

    @property
    def _is_over(self) -> bool:
        return self.cluster.status.phase in {PipelinePhase.SUCCEEDED, PipelinePhase.FAILED}

    def _play_attempt(self) -> None:
        self._start()
        begun = self.cluster.time
        life = self.drawn.expovariate(math.log(2) / HALF_LIFE)
        pace = self._measure_pace(begun, life)
        left = (SOURCES - self.finished) / pace
        if left <= life:
            self._work(left, SOURCES - self.finished)
            self.cluster.finish()
            return
        self._work(life, int(pace * life))
        self._take_head(self.drawn.choice(WAYS))

    def _start(self) -> None:
        cluster = self.cluster
        cluster.time = max(cluster.time, cluster.status.next_attempt_time or cluster.time)
        cluster.settle()
        cluster.start_rayjob()
        cluster.end_rayjob("Initializing", "")
        for pod in cluster.list_of(Resource.POD):
            pod["spec"] = {"nodeName": ""}
        begun, ready = cluster.time, self.weather.find_end(cluster.time)
        if ready > begun:
            unplace(cluster, "", FULL)
        while cluster.time < ready:
            for pod in cluster.list_of(Resource.POD):
                cluster.warn("Pod", pod["metadata"]["name"], "FailedScaleUp", STOCK_OUT)
            cluster.notices = cluster.notices[-MOST_GONE:]
            cluster.advance(min(SPEAKS_EVERY, ready - cluster.time))
        self.waited += cluster.time - begun
        place(cluster, "")
        cluster.marks = {"node-1": read_marks(spell_node("node-1", labels=GKE_SPOT))}
        cluster.set_pod("", phase="Running")
        cluster.end_rayjob("Running", "RUNNING")
        cluster.advance(20.0)

    def _measure_pace(self, begun: float, life: float) -> float:
        """Return sources per second. Lost workers are replaced with a delay, or after a drought."""
        lost = (NODES - 1) * math.log(2) / HALF_LIFE * life
        self.workers += round(lost)
        share_dry = self.weather.measure_dry(begun, begun + life) / life if life else 0.0
        away = min(0.9, lost * REPLACED_AFTER / life / NODES + 0.5 * share_dry)
        self._lose_workers(round(lost))
        return (NODES - 1) * (1 - away) / SOURCE_SECONDS

    def _lose_workers(self, number: int) -> None:
        """Add the latest lost workers to the operator's memory, as many as the memory keeps."""
        (rayjob,) = self.cluster.list_of(Resource.RAYJOB)
        (group,) = rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]
        labels = group["template"]["metadata"]["labels"]
        for index in range(min(number, MOST_GONE)):
            name = f"{rayjob['metadata']['name']}-lost-{index}"
            self.cluster.add_pod(name, labels)
            body = self.cluster.objects.pop((Resource.POD, name))
            body |= {"spec": {"nodeName": "node-1"}, "status": end_by_shutdown()}
            self.cluster.gone_pods.append(body)
        self.cluster.gone_pods = self.cluster.gone_pods[-MOST_GONE:]

    def _work(self, seconds: float, sources: int) -> None:
        self.finished += sources
        self.cluster.progress = Progress(
            total=SOURCES, finished=sources, time=self.cluster.time + seconds
        )
        self.cluster.advance(seconds)

    def _take_head(self, way: str) -> None:
        """Reclaim the head's node. KubeRay only reports the lost driver."""
        self.heads += 1
        cluster = self.cluster
        cluster.progress = None
        if way == "shutdown":
            self._put_head(end_by_shutdown())
        elif way == "evicted":
            taint = spell_taint("cloud.google.com/impending-node-termination")
            tainted = spell_node("node-1", labels=GKE_SPOT, taints=[taint])
            cluster.marks = {"node-1": read_marks(tainted)}
            self._put_head(end_by_eviction())
        elif way == "crashed":
            silent = spell_node("node-1", labels=GKE_SPOT, conditions=[SILENT])
            cluster.marks = {"node-1": read_marks(silent)}
            cluster.set_pod("head", phase="Failed", conditions=[spell_target("DeletionByPodGC")])
        else:
            cluster.marks = {"node-1": replace(cluster.marks["node-1"], is_gone=True)}
            cluster.lose_pod("head")
        cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="its node has died")
        cluster.settle()
        cluster.finish_teardown()
        cluster.gone_pods.clear()

    def _put_head(self, status: dict[str, Any]) -> None:
        for pod in self.cluster.list_of(Resource.POD):
            if pod["metadata"]["name"].endswith("head"):
                pod["status"] = status


def play_day(seed: int, count: int = RUNS) -> list[SpotRun]:
    """Play a number of runs for a day, and then until they end."""
    drawn = random.Random(seed)
    runs = []
    for _ in range(count):
        cluster = SimulatedCluster()
        weather = Weather.draw(drawn, cluster.time)
        run = SpotRun(random.Random(drawn.random()), weather, cluster)
        run.play(cluster.time + 3 * DAY)
        runs.append(run)
    return runs
