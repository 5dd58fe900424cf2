"""Replays Kueue's writes on a real API server, as input for the operator's decisions.

`make kueue` makes the recordings. Each file has every version of RayJobs and Workloads, and Kueue's
events. A `Replay` plays one pipeline of a story: each recorded version of a RayJob replaces the
RayJob that the operator made, with the cluster and the pods that KubeRay has at that status.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.status.enums import AttemptPhase
from strandline_operator.integrations.kueue.workloads import read_workloads
from strandline_operator.model.notices import QueueState
from strandline_operator.model.plan import Create, Resource
from strandline_operator.model.view import View

Json = dict[str, Any]
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "kueue"
# Longest time in seconds until the operator makes a due RayJob in these tests.
LATEST = 60


def read_lines(story: str) -> list[Json]:
    """Return the lines of a story, without the header line."""
    text = (RECORDINGS / f"{story}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()[1:]]


def read_rayjobs(story: str, name: str) -> list[Json]:
    """Return the recorded versions of a RayJob."""
    return [
        line["object"]
        for line in read_lines(story)
        if line["kind"] == "RayJob"
        and "object" in line
        and line["object"]["metadata"]["name"] == name
    ]


def read_conditions(story: str, rayjob: str) -> list[tuple[str, str, str]]:
    """Return the distinct conditions of a RayJob's Workload."""
    found = [
        (condition["type"], condition["status"], condition["reason"])
        for line in read_lines(story)
        if line["kind"] == "Workload" and line.get("object", {}).get("metadata", {}).get("owner")
        for condition in line["object"]["status"].get("conditions", ())
        if line["object"]["metadata"]["owner"] == rayjob
    ]
    return list(dict.fromkeys(found))


@dataclass
class QueuedCluster(SimulatedCluster):
    """A cluster whose RayJobs start suspended, as after Kueue's webhook."""

    queue: QueueState | None = None

    def view(self) -> View:
        """Return the view of a pass. The queue's report is included while a RayJob is suspended."""
        view = super().view()
        is_waiting = any(rayjob.is_suspended for rayjob in view.rayjobs)
        return replace(view, queue=self.queue if is_waiting else None)

    def _create(self, action: Create) -> None:
        super()._create(action)
        if action.resource is Resource.RAYJOB and not self.refusals:
            self.objects[Resource.RAYJOB, action.manifest["metadata"]["name"]]["spec"].setdefault(
                "suspend", True
            )


@dataclass
class Replay:
    """The replay of one pipeline of a story.

    Attributes:
        phases: phases of each attempt, in order.
        waits: state and summary of the pipeline, by attempt and message of a queued attempt.
    """

    name: str
    cluster: QueuedCluster = field(default_factory=QueuedCluster)
    phases: dict[str, list[str]] = field(default_factory=dict)
    waits: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def play(cls, story: str, name: str, **ray: Any) -> Replay:
        """Play all recordings of a pipeline's RayJobs."""
        replay = cls(name)
        replay.cluster.pipeline["metadata"]["name"] = name
        replay.cluster.edit(ray={"queueName": "team-a", "workerGroups": [{"name": "cpu"}], **ray})
        replay.cluster.settle()
        replay.cluster.bind_claim()
        before = 0.0
        for line in read_lines(story):
            replay.cluster.time += max(0.0, line["time"] - before)
            before = line["time"]
            replay._apply(line.get("object", {}), line["kind"])
        return replay

    def _apply(self, recorded: Json, kind: str) -> None:
        if kind == "Event":
            self._add_event(recorded)
        elif kind == "Workload" and self._is_mine(recorded.get("metadata", {}).get("owner", "")):
            self.cluster.queue = read_workloads([recorded], queue="team-a")
            self._look()
        elif kind == "RayJob" and recorded and self._is_mine(recorded["metadata"]["name"]):
            body = self._wait_for_rayjob(recorded["metadata"]["name"])
            # If a RayJob is admitted immediately, its recording starts at the admission. Run a pass
            # while the RayJob is still suspended, as all RayJobs are at first.
            if body is not None and "status" not in body:
                self._look()
            self._put_rayjob(body, recorded)
            self._look()

    def _is_mine(self, rayjob: str) -> bool:
        return rayjob.rpartition("-")[0] == self.name

    def _look(self) -> None:
        self.cluster.settle()
        for attempt, (_, status) in self.cluster.attempts.items():
            phases = self.phases.setdefault(attempt, [])
            if status.phase == AttemptPhase.QUEUED:
                states = self.cluster.status.state, self.cluster.status.summary
                self.waits[attempt, status.message] = states
            if status.phase not in phases[-1:]:
                phases.append(str(status.phase))

    def _wait_for_rayjob(self, name: str) -> Json | None:
        """Wait for a RayJob and return its body, or None if the RayJob is already gone."""
        number = int(name.rpartition("-")[2])
        for _ in range(LATEST):
            body = self.cluster.objects.get((Resource.RAYJOB, name))
            if body is not None or f"{self.name}-{number + 1}" in self.cluster.attempts:
                return body
            attempt = self.cluster.attempts.get(name)
            if attempt is not None and attempt[1].end_time is not None:
                return None
            self.cluster.time += 1.0
            self._look()
            self.cluster.sweep()
        raise AssertionError(f"RayJob {name} was not made")

    def _put_rayjob(self, body: Json | None, recorded: Json) -> None:
        if body is None:
            return
        body["spec"]["suspend"] = recorded["spec"].get("suspend", False)
        body["status"] = dict(recorded["status"])
        name, cluster = body["metadata"]["name"], body["status"].get("rayClusterName")
        for resource, key in list(self.cluster.objects):
            # If KubeRay's status no longer names a RayCluster, the cluster was deleted with its
            # pods.
            if resource == Resource.RAYCLUSTER and key.startswith(f"{name}-") and key != cluster:
                self._remove_cluster(name)
        if cluster and (Resource.RAYCLUSTER, cluster) not in self.cluster.objects:
            self.cluster.add_cluster(body, cluster, cluster)
            for (_, key), made in self.cluster.objects.items():
                if key.startswith(f"{cluster}-"):
                    made["metadata"]["creationTimestamp"] = format_time(self.cluster.time)

    def _remove_cluster(self, rayjob: str) -> None:
        for key in list(self.cluster.objects):
            if key[0] in {Resource.RAYCLUSTER, Resource.POD} and key[1].startswith(f"{rayjob}-"):
                body = self.cluster.objects.pop(key)
                if key[0] == Resource.POD:
                    self.cluster.gone_pods.append(body)

    def _add_event(self, event: Json) -> None:
        about = event["involvedObject"]
        body = self.cluster.objects.get((Resource.RAYJOB, about["name"]))
        if about["kind"] == "RayJob" and body is not None:
            mine = {**about, "uid": body["metadata"]["uid"]}
            self.cluster.notices.append({**event, "involvedObject": mine})

    def end(self, attempt: str) -> tuple[str | None, str]:
        """Return the cause and the message of an attempt."""
        status = self.cluster.attempts[attempt][1]
        return (None if status.cause is None else str(status.cause)), status.message or ""
