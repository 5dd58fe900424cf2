"""A world that follows a recording of KubeRay, with the stand-in in KubeRay's place.

The recorded states of pods, Job, and dashboard, and the recorder's actions, happen at their
recorded times. KubeRay's recorded actions are not played: the stand-in's core and shell act
instead, on a server in memory. `replay` returns the stand-in's actions in the words of
`standin_events.py`.

Objects are matched by order: the second created worker is the second recorded worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache

from kuberay_standin.objects import NODE_LABEL, Json, is_leaving
from kuberay_standin.rayjobs.steps import FINALIZER
from kuberay_standin.scene import JobAnswer
from kuberay_standin.shell.api import RefusalError
from kuberay_standin.shell.loop import Loop, Outside
from memory_server import MemoryServer
from recordings import FOLDER, Newcomer, Recording, Step, read_recording
from standin_events import DELETE_CLUSTER, PLAYED, Event, tell_phase

NOT_FOUND = "Submitter completed but Ray job not found in RayCluster."
CREATION_FAILURES = {"FailedCreateHeadPod": "head", "FailedCreateWorkerPod": "worker"}
SETTLING = 50  # steps after which the stand-in must have settled


@dataclass(slots=True)
class Recorded:
    """The latest state of an object in the recording."""

    subject: str
    status: Json = field(default_factory=dict)
    is_leaving: bool = False
    is_gone: bool = False


def make_rayjob(recording: Recording) -> Json:
    """Return the RayJob of a recording, with the template parts that the trimmed file has."""
    path = FOLDER / f"{recording.scenario}.jsonl"
    spec = json.loads(path.read_text(encoding="utf-8").partition("\n")[0])["spec"]
    news = [one.new for one in recording.steps if one.new is not None]
    heads, workers = ([new for new in news if new.role == role] for role in ("head", "worker"))
    limits = [one.new.backoff_limit for one in recording.steps if one.kind == "Job" and one.new]
    first = next(one for one in recording.steps if one.kind == "RayJob")
    group = {"groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 1}
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": _make_template(heads)},
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": _make_template(workers)}],
    }
    # KubeRay makes a Job once all pods are ready, so a Job without workers implies no worker
    # groups.
    if limits and not workers:
        cluster["workerGroupSpecs"] = []
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": recording.rayjob,
            "namespace": recording.namespace,
            "uid": "uid-of-the-rayjob",
            "annotations": dict(first.new.annotations) if first.new else {},
        },
        "spec": {
            **spec,
            "suspend": False,
            "rayClusterSpec": cluster,
            **({"submitterConfig": {"backoffLimit": limits[0]}} if limits else {}),
        },
    }


def _make_template(news: list[Newcomer]) -> Json:
    container = {"name": news[0].containers[0] if news else "ray", "image": "ray.invalid/ray"}
    policy = news[0].restart_policy if news else "Never"
    return {"spec": {"restartPolicy": policy, "containers": [container]}}


class World(MemoryServer):
    """The server of the stand-in; see the module's docstring.

    Args:
        does: returns True if the next change that the stand-in requests succeeds.
    """

    def __init__(self, recording: Recording, does: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self._does = does
        self.events: list[Event] = []
        self.cluster_statuses: list[Json] = []
        self.stopped: list[str] = []
        self._recording = recording
        self._recorded: dict[str, Recorded] = {}  # by the recording's `Kind/name`
        self._pairs: dict[tuple[str, str], Recorded] = {}  # by kind and name in this world
        self._waiting: list[Recorded] = []
        self._refused_pods = dict(list_refusals(recording))
        self._answer: JobAnswer | None = None
        self._time = 0.0
        self._phase = tell_phase({})
        outside = Outside(
            read_time=lambda: recording.started_at + timedelta(seconds=self._time),
            read_seconds=lambda: self._time,
            draw=self.draw,
            ask=lambda *_: self._answer or JobAnswer(is_reached=False),
            stop=lambda _address, job, _token: self.stopped.append(job),
            report=lambda _: None,
        )
        # The recorded KubeRay waited between two requests to the dashboard.
        self._loop = Loop(self, outside, poll_seconds=0)

    def play(self) -> None:
        """Play the recording second by second, to its end."""
        for one in self._recording.steps:
            while self._time + 1 < one.time:
                self._time += 1
                self._settle()
            self._time = max(self._time, one.time)
            self._happen(one)
            self._settle()

    def _happen(self, one: Step) -> None:
        if one.action == DELETE_CLUSTER:
            self._drop_cluster()
        elif one.kind == "RayJob":
            self._happen_to_rayjob(one)
        elif one.subject in PLAYED and one.subject != "RayCluster":
            self._note(one)

    def _drop_cluster(self) -> None:
        """Delete the RayCluster; its pods end as recorded."""
        for place in [place for place in self.objects if place[0] == "RayCluster"]:
            self._drop(place)

    def _note(self, one: Step) -> None:
        if one.new is not None:
            self._recorded[one.key] = Recorded(one.subject)
            self._waiting.append(self._recorded[one.key])
        noted = self._recorded[one.key]
        noted.status, noted.is_gone = one.status, one.is_gone
        noted.is_leaving = noted.is_leaving or one.is_going

    def _happen_to_rayjob(self, one: Step) -> None:
        place = ("RayJob", self._recording.rayjob)
        if one.new is not None:
            self.objects[place] = make_rayjob(self._recording)
        if place not in self.objects:
            return
        rayjob = self.objects[place]
        if one.suspend is not None:
            rayjob["spec"]["suspend"] = one.suspend
        if one.is_deleting:
            rayjob["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        self._apply_answer(one.status)

    def _apply_answer(self, status: Json) -> None:
        """Derive the dashboard's answer from KubeRay's status."""
        if status.get("message") == NOT_FOUND:
            self._answer = JobAnswer()
        elif status.get("jobDeploymentStatus") != "Running":
            self._answer = None
        elif "jobStatusCheckFailureStartTime" in status:
            self._answer = JobAnswer(is_reached=False)
        else:
            info = status.get("rayJobInfo", {})
            self._answer = JobAnswer(
                status=status.get("jobStatus", ""),
                message=status.get("message", ""),
                start=info.get("startTime", ""),
                end=info.get("endTime", ""),
            )

    def _settle(self) -> None:
        """Run the stand-in until nothing changes."""
        for _ in range(SETTLING):
            self._follow_recorded()
            self.calls.clear()
            self._loop.turn()
            if set(self.calls) <= {"list"}:
                return
        raise AssertionError(f"the stand-in does not come to rest: {self.calls}")

    def _follow_recorded(self) -> None:
        """Update this world's pods and Jobs to the recorded states."""
        for place, body in list(self.objects.items()):
            subject = name_subject(body)
            if subject not in PLAYED - {"RayCluster"}:
                continue
            if place not in self._pairs:
                found = next(
                    (recorded for recorded in self._waiting if recorded.subject == subject), None
                )
                if found is None:
                    continue
                self._waiting.remove(found)
                self._pairs[place] = found
            noted = self._pairs[place]
            body["status"] = noted.status
            if noted.is_leaving:
                body["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
            if noted.is_gone:
                self._drop(place)

    def _drop(self, place: tuple[str, str]) -> None:
        self.objects.pop(place, None)
        self._pairs.pop(place, None)

    def create(self, body: Json) -> None:
        """Create an object, unless the recorded server rejected such a pod."""
        subject = name_subject(body)
        if body["kind"] == "Pod" and subject in self._refused_pods:
            self.calls.append("create Pod")
            raise RefusalError(403, self._refused_pods[subject])
        super().create(body)
        if subject in PLAYED:
            self._tell(f"{subject} made")

    def put_status(self, body: Json, status: Json) -> None:
        """Record a RayCluster's status, and a RayJob's new phase."""
        super().put_status(body, status)
        if body["kind"] == "RayCluster":
            self.cluster_statuses.append(status)
        elif tell_phase(status) != self._phase:
            self._phase = tell_phase(status)
            self._tell(self._phase)

    def hold(self, body: Json, finalizers: tuple[str, ...]) -> None:
        """Remove a deleted RayJob with all its objects, once KubeRay's finalizer is gone."""
        super().hold(body, finalizers)
        if is_leaving(body) and FINALIZER not in finalizers:
            self._tell("RayJob let go")
            self.objects.clear()

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; a pod stays until its recorded end."""
        body = self.find(kind, name)
        assert not is_leaving(body), f"{kind} {name} is removed twice"
        if kind == "Pod":
            self._call("delete Pod")
            body["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        else:
            super().delete(kind, namespace, name)
            self._pairs.pop((kind, name), None)
        self._tell(f"{name_subject(body)} removed")

    def _call(self, call: str) -> None:
        super()._call(call)
        if call != "list" and not self._does():
            raise RefusalError(409, "not now")

    def _tell(self, words: str) -> None:
        self.events.append(Event(self._time, words))


def list_refusals(recording: Recording) -> Iterator[tuple[str, str]]:
    """Yield the roles of pods that could not be created, with the server's message."""
    for one in recording.steps:
        conditions = one.status.get("conditions", ()) if one.kind == "RayCluster" else ()
        for condition in conditions:
            role = CREATION_FAILURES.get(condition["reason"])
            if role is not None:
                yield role, str(condition["message"]).partition("\n")[2]


def name_subject(body: Json) -> str:
    """Return the kind of an object, or the role of a pod."""
    if body["kind"] != "Pod":
        return str(body["kind"])
    return str(body["metadata"]["labels"][NODE_LABEL])


@cache
def replay(name: str) -> World:
    """Play a recording to its end with the stand-in; callers must not change the cached world."""
    recording = read_recording(name)
    world = World(recording)
    world.play()
    return world
