"""Simulates a random day of one run, with lost pods, flapping node pools, and operator restarts.

Each attempt ends in a randomly drawn way, so the test knows the true cause. The events and the
restarts have separate seeds, so the same events can be played without restarts. The module must not
depend on how the operator finds a cause.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from node_bodies import GKE_SPOT, SILENT, end_by_eviction, end_by_shutdown, spell_node, spell_taint
from operator_bodies import oom
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.pipeline_status import Progress
from strandline_operator.model.nodes.marks import read_marks
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Silence
from test_droughts import FULL, place, unplace

HOUR = 3600.0
SOURCES = 100_000
ATTEMPTS = 8
GROUPS = ("cpu", "gpu")
SPOT_NODE = read_marks(spell_node("node-1", labels=GKE_SPOT))
Json = dict[str, Any]


@dataclass(frozen=True)
class DrawnEnd:
    """The end of an attempt.

    Attributes:
        cause: the cause of the end, or None if the attempt completed.
        killed: the worker groups that lost a pod to a memory kill at this end.
    """

    cause: Cause | None
    killed: tuple[str, ...] = ()


@dataclass
class DrawnRun:
    """One run and the random ends of its attempts.

    Attributes:
        story: random source for the events.
        restarts: random source for operator restarts, or None for no restarts.
    """

    story: random.Random
    restarts: random.Random | None = None
    cluster: SimulatedCluster = field(default_factory=SimulatedCluster)
    ends: list[DrawnEnd] = field(default_factory=list)
    losses: int = 0
    flaps: int = 0
    outages: int = 0
    finished: int = 0
    _made: int = 0

    def play(self) -> None:
        """Play the run until it completes, or until the limit of attempts."""
        spot = {"preset": "gke"}
        groups = [{"name": name, "resources": {"memory": "8Gi"}, "spot": spot} for name in GROUPS]
        self.cluster.edit(
            ray={"head": {"spot": spot}, "workerGroups": groups},
            onWorkerLoss={"oom": "Absorb", "disruption": "Absorb"},
            retry={"jitter": "none", "maxRetries": 100, "disruptions": {"maxRetries": 100}},
        )
        self._pass()
        self.cluster.bind_claim()
        while len(self.ends) < ATTEMPTS and not self._is_over:
            self._play_attempt()

    @property
    def _is_over(self) -> bool:
        return self.cluster.status.phase in {PipelinePhase.SUCCEEDED, PipelinePhase.FAILED}

    def _play_attempt(self) -> None:
        cluster = self.cluster
        cluster.time = max(cluster.time, cluster.status.next_attempt_time or cluster.time)
        self._pass()
        self._start()
        self.finished = 0
        self._work(60.0)  # a driver that never reported does not count as silent
        for _ in range(self.story.randrange(8)):
            self._work(self.story.uniform(30.0, HOUR))
            if self.story.random() < 0.7:
                self.story.choice([self._preempt, self._kill])(self._add_worker(), may_wait=True)
                self._absorb()
        end = self.story.choice(list(ENDS.values()))
        self.ends.append(end(self))
        self._finish()

    def _finish(self) -> None:
        """Tear the attempt down completely."""
        self._pass()
        self.cluster.finish_teardown()
        self.cluster.outcome = self.cluster.progress = None
        self.cluster.silence = Silence()
        self.cluster.gone_pods.clear()
        self.cluster.marks = {"node-1": SPOT_NODE}

    def _pass(self, seconds: float = 0.0) -> None:
        """Advance the time and run a pass. The operator may restart afterwards."""
        self.cluster.advance(seconds)
        if self.restarts is not None and self.restarts.random() < 0.3:
            self.outages += 1
            # A restart loses everything held only in memory.
            self.cluster.gone_pods.clear()
            self.cluster.seen.clear()
            outcome = self.cluster.outcome
            self.cluster.restart(0.0)
            self.cluster.outcome = outcome
            self.cluster.settle()

    def _start(self) -> None:
        """Make the pods as KubeRay does. In a flapping pool, some nodes disappear first."""
        cluster = self.cluster
        cluster.start_rayjob()
        cluster.end_rayjob("Initializing", "")
        for pod in cluster.list_of(Resource.POD):
            pod["spec"] = {"nodeName": ""}
            pod["metadata"]["creationTimestamp"] = format_time(cluster.time)
        cluster.marks = {"node-1": SPOT_NODE}
        for _ in range(self.story.randrange(3)):
            self._flap()
        place(cluster, "")
        cluster.set_pod("", phase="Running")
        self._pass(20.0)
        cluster.end_rayjob("Running", "RUNNING")
        self._pass(5.0)

    def _flap(self) -> None:
        """Add a node, then remove the node and the head pod on the node shortly afterwards."""
        self.flaps += 1
        unplace(self.cluster, "", FULL)
        self._pass(self.story.uniform(60.0, HOUR))
        place(self.cluster, "")
        self._pass(10.0)
        head = self._find_head()
        labels = head["metadata"]["labels"]
        head["status"] = self._date(end_by_shutdown())
        self._pass()
        self.cluster.lose_pod(head["metadata"]["name"])
        self._pass(15.0)
        self._make_pod(labels, "head")

    def _make_pod(self, labels: dict[str, str], ending: str) -> str:
        self._made += 1
        name = f"corpus-{len(self.ends) + 1}-{self._made}-{ending}"
        self.cluster.add_pod(name, labels)
        body = self.cluster.objects[Resource.POD, name]
        body["metadata"]["creationTimestamp"] = format_time(self.cluster.time)
        body["spec"] = {"nodeName": "node-1"}
        return name

    def _add_worker(self) -> str:
        group = self.story.choice(GROUPS)
        (rayjob,) = self.cluster.list_of(Resource.RAYJOB)
        (spec,) = [
            each
            for each in rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]
            if each["groupName"] == group
        ]
        name = self._make_pod(spec["template"]["metadata"]["labels"], group)
        self._pass()
        return name

    def _find_head(self) -> Json:
        (head,) = [
            pod
            for pod in self.cluster.list_of(Resource.POD)
            if pod["metadata"]["name"].endswith("head")
        ]
        return head

    def _date(self, status: Json) -> Json:
        """Add the current time to a pod's end, or omit the time as older kubelets do."""
        if self.story.random() < 0.5:
            return status
        now = format_time(self.cluster.time)
        for condition in status.get("conditions", []):
            condition["lastTransitionTime"] = now
        for container in status.get("containerStatuses", []):
            if "terminated" in container["state"]:
                container["state"]["terminated"]["finishedAt"] = now
        return status

    def _work(self, seconds: float) -> None:
        """Report progress twice, each time with more finished sources."""
        for share in (0.1, 0.9):
            self.cluster.time += share * seconds
            self.finished += 10
            self.cluster.progress = Progress(
                total=SOURCES, finished=self.finished, time=self.cluster.time
            )
            self._pass()
            self.cluster.progress = Progress(
                total=SOURCES, finished=self.finished, time=self.cluster.time
            )

    def _preempt(self, name: str, *, may_wait: bool = False) -> None:
        """Reclaim a worker's node, and delete the pod as KubeRay does."""
        del may_wait
        self._lose(name, end_by_shutdown())

    def _kill(self, name: str, *, may_wait: bool = False) -> None:
        """Kill a worker for memory. If `may_wait` is set, the failed pod sometimes stays."""
        killed = {"phase": "Failed", "containerStatuses": [oom("ray-worker")]}
        is_kept = may_wait and self.story.random() < 0.3
        self._lose(name, killed, is_kept=is_kept)

    def _lose(self, name: str, status: Json, *, is_kept: bool = False) -> None:
        self.losses += 1
        self.cluster.objects[Resource.POD, name]["status"] = self._date(status)
        self._pass()
        if not is_kept:
            self.cluster.lose_pod(name)
            self._pass()

    def _absorb(self) -> None:
        """Continue the run: finish more sources, or start a replacement worker."""
        if self.story.random() < 0.5:
            self._work(self.story.uniform(10.0, 60.0))
            return
        self.cluster.time += 20.0
        for group in GROUPS:
            name = next(
                pod["metadata"]["name"]
                for pod in self.cluster.list_of(Resource.POD)
                if pod["metadata"]["name"].endswith(group)
            )
            labels = self.cluster.objects[Resource.POD, name]["metadata"]["labels"]
            body = self.cluster.objects[Resource.POD, self._make_pod(labels, group)]
            body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        self._pass()

    def _fail(self, message: str, job: str = "FAILED", reason: str = "AppFailed") -> None:
        """Report the end of the driver as KubeRay does, some seconds late."""
        self.cluster.progress = None
        self._pass(self.story.uniform(0.0, 10.0))
        self.cluster.end_rayjob("Failed", job, reason=reason, message=message)
        self._pass()

    def _end_by_shutdown(self) -> DrawnEnd:
        self._lose_head(end_by_shutdown())
        return DrawnEnd(Cause.PREEMPTED)

    def _end_by_eviction(self) -> DrawnEnd:
        taint = spell_taint("cloud.google.com/impending-node-termination")
        marks = read_marks(spell_node("node-1", labels=GKE_SPOT, taints=[taint]))
        self.cluster.marks = {"node-1": marks}
        self._lose_head(end_by_eviction())
        return DrawnEnd(Cause.PREEMPTED)

    def _end_by_crash(self) -> DrawnEnd:
        silent = spell_node("node-1", labels=GKE_SPOT, conditions=[SILENT])
        self.cluster.marks = {"node-1": read_marks(silent)}
        target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
        self._lose_head({"phase": "Running", "conditions": [target]})
        return DrawnEnd(Cause.NODE_LOST)

    def _end_by_vanished_node(self) -> DrawnEnd:
        self.cluster.marks = {"node-1": replace(SPOT_NODE, is_gone=True)}
        self.cluster.lose_pod(self._find_head()["metadata"]["name"])
        self.cluster.progress = None
        self._pass()
        self._fail("Job supervisor actor died: its node has died")
        return DrawnEnd(Cause.PREEMPTED)

    def _end_by_memory(self) -> DrawnEnd:
        status = {"phase": "Failed", "containerStatuses": [oom("ray-head")]}
        self._find_head()["status"] = self._date(status)
        self._fail("Ray job not found", job="RUNNING")
        return DrawnEnd(Cause.OOM_KILLED, ("head",))

    def _end_by_bug(self) -> DrawnEnd:
        if self.story.random() < 0.5:
            self.cluster.outcome = DriverOutcome(exit_code=1, message="a task raised an error")
        self._fail("Job entrypoint command failed with exit code 1")
        return DrawnEnd(Cause.APPLICATION_ERROR)

    def _end_by_fault(self) -> DrawnEnd:
        self._fail("Job entrypoint command failed with exit code 139")
        return DrawnEnd(Cause.APPLICATION_ERROR)

    def _end_by_silence(self) -> DrawnEnd:
        self.cluster.ask_in_vain(self.cluster.limits.pull_interval * 100)
        return DrawnEnd(Cause.STALLED)

    def _end_by_stage_memory(self) -> DrawnEnd:
        """Fail with Ray's report of the pod that lacked memory."""
        group = self.story.choice(GROUPS)
        self.cluster.set_pod(group, podIP="10.0.0.7")
        message = "lost 4 workers: memory on the node (IP: 10.0.0.7, ID: 12ab)"
        told = Evidence(Cause.OOM_KILLED, message, "ray")
        self.cluster.outcome = DriverOutcome(exit_code=1, message=message, evidence=(told,))
        self._fail("Job entrypoint command failed with exit code 1")
        return DrawnEnd(Cause.OOM_KILLED, (group,))

    def _end_by_preempted_worker(self) -> DrawnEnd:
        self._preempt(self._add_worker())
        self._fail("Job entrypoint command failed with exit code 1")
        return DrawnEnd(Cause.PREEMPTED)

    def _end_by_killed_worker(self) -> DrawnEnd:
        name = self._add_worker()
        self._kill(name)
        self._fail("Job entrypoint command failed with exit code 1")
        return DrawnEnd(Cause.OOM_KILLED, (name.rpartition("-")[2],))

    def _end_well(self) -> DrawnEnd:
        self.cluster.outcome = DriverOutcome(exit_code=0)
        self.cluster.end_rayjob()
        self._pass()
        return DrawnEnd(None)

    def _lose_head(self, status: Json) -> None:
        head = self._find_head()
        head["status"] = self._date(status)
        self.cluster.progress = None
        self._pass()
        if self.story.random() < 0.5:
            self.cluster.lose_pod(head["metadata"]["name"])
            self._pass()
        self._fail("its node has died")


ENDS: dict[str, Callable[[DrawnRun], DrawnEnd]] = {
    "head shut down": DrawnRun._end_by_shutdown,
    "head evicted": DrawnRun._end_by_eviction,
    "head crashed": DrawnRun._end_by_crash,
    "node vanished": DrawnRun._end_by_vanished_node,
    "head killed for memory": DrawnRun._end_by_memory,
    "bug": DrawnRun._end_by_bug,
    "segfault": DrawnRun._end_by_fault,
    "stall": DrawnRun._end_by_silence,
    "stage without memory": DrawnRun._end_by_stage_memory,
    "worker preempted": DrawnRun._end_by_preempted_worker,
    "worker killed": DrawnRun._end_by_killed_worker,
    "complete": DrawnRun._end_well,
}
