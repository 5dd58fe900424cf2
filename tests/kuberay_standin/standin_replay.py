"""A world that goes as a recording of KubeRay went, in which the stand-in takes KubeRay's place.

What the recording's pods, Job and dashboard said, and what its recorder did, happens at its time.
What KubeRay did there is not played: the stand-in is to do it, on objects kept in memory. `replay`
tells what it did, in the words of `standin_events.py`.

Objects are matched by their order: the second worker made is the second worker recorded.
"""

from __future__ import annotations

import copy
import itertools
import json
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache

from kuberay_standin.core import step
from kuberay_standin.objects import CLUSTER_LABEL, NODE_LABEL, Json, get_name, is_leaving
from kuberay_standin.rayjobs.steps import FINALIZER
from kuberay_standin.scene import (
    Action,
    HoldBy,
    JobAnswer,
    Make,
    PutStatus,
    Remove,
    Scene,
    StopJob,
    Trouble,
)
from recordings import FOLDER, Newcomer, Recording, Step, read_recording
from standin_events import DELETE_CLUSTER, PLAYED, Event, tell_phase

NOT_FOUND = "Submitter completed but Ray job not found in RayCluster."
CREATION_FAILURES = {"FailedCreateHeadPod": "head", "FailedCreateWorkerPod": "worker"}
SETTLING = 50  # steps in which nothing new can come up


@dataclass(slots=True)
class Recorded:
    """An object of the recording: what is known of it up to now."""

    subject: str
    status: Json = field(default_factory=dict)
    is_leaving: bool = False
    is_gone: bool = False


def make_rayjob(recording: Recording) -> Json:
    """The RayJob of a recording, with as much of its templates as the trimmed file holds."""
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
    # A Job is made once all pods are ready, so one without workers was to have none.
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


class World:
    """The objects as the stand-in finds them; see the top of this module."""

    def __init__(
        self,
        recording: Recording,
        does: Callable[[], bool] = lambda: True,
        *,
        guards_purity: bool = False,
    ) -> None:
        self._does = does
        self._guards_purity = guards_purity
        self.events: list[Event] = []
        self.cluster_statuses: list[Json] = []
        self.stopped: list[str] = []
        self._recording = recording
        self._objects: dict[tuple[str, str], Json] = {}
        self._recorded: dict[str, Recorded] = {}  # by the recording's `Kind/name`
        self._pairs: dict[tuple[str, str], Recorded] = {}  # by our kind and name
        self._waiting: list[Recorded] = []
        self._refusals = dict(list_refusals(recording))
        self._trouble: Trouble | None = None
        self._word: JobAnswer | None = None
        self._time = 0.0
        self._phase = tell_phase({})
        letters = itertools.product(string.ascii_lowercase, repeat=5)
        self._names = ("".join(five) for five in letters)

    def play(self) -> None:
        """Let the recording happen, second by second, up to its end."""
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
        """Somebody deletes the RayCluster; its pods leave as the recorded ones did."""
        for place in [place for place in self._objects if place[0] == "RayCluster"]:
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
            self._objects[place] = make_rayjob(self._recording)
        if place not in self._objects:
            return
        rayjob = self._objects[place]
        if one.suspend is not None:
            rayjob["spec"]["suspend"] = one.suspend
        if one.is_deleting:
            rayjob["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        self._apply_answer(one.status)

    def _apply_answer(self, status: Json) -> None:
        """Take from KubeRay's status what the dashboard had told it."""
        if status.get("message") == NOT_FOUND:
            self._word = JobAnswer()
        elif status.get("jobDeploymentStatus") != "Running":
            self._word = None
        elif "jobStatusCheckFailureStartTime" in status:
            self._word = JobAnswer(is_reached=False)
        else:
            info = status.get("rayJobInfo", {})
            self._word = JobAnswer(
                status=status.get("jobStatus", ""),
                message=status.get("message", ""),
                start=info.get("startTime", ""),
                end=info.get("endTime", ""),
            )

    def _settle(self) -> None:
        """Let the stand-in act until it has nothing left to do."""
        for _ in range(SETTLING):
            self._follow_recorded()
            place = ("RayJob", self._recording.rayjob)
            if place not in self._objects:
                return
            now = self._recording.started_at + timedelta(seconds=self._time)
            scene = self._look()
            before = copy.deepcopy(scene) if self._guards_purity else scene
            actions = step(scene, now, lambda: next(self._names))
            assert scene == before, "the core has changed what it was shown"
            if not actions:
                return
            for action in actions:
                if isinstance(action, Make) and self._refuse(action.body):
                    break
                if self._does():
                    self._act(action)
        raise AssertionError(f"the stand-in does not come to rest: {actions}")

    def _follow_recorded(self) -> None:
        """Bring our pods and Jobs to where the recorded ones are."""
        for place, body in list(self._objects.items()):
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
        self._objects.pop(place, None)
        self._pairs.pop(place, None)

    def _look(self) -> Scene:
        rayjob = self._objects["RayJob", self._recording.rayjob]
        name = rayjob.get("status", {}).get("rayClusterName", "")
        pods = [body for (kind, _), body in self._objects.items() if kind == "Pod"]
        return Scene(
            rayjob=rayjob,
            cluster=self._objects.get(("RayCluster", name)),
            service=self._objects.get(("Service", f"{name}-head-svc")),
            job_service=self._objects.get(("Service", f"{get_name(rayjob)}-head-svc")),
            pods=tuple(pod for pod in pods if pod["metadata"]["labels"][CLUSTER_LABEL] == name),
            job=self._objects.get(("Job", get_name(rayjob))),
            trouble=self._trouble,
            answer=self._word,
        )

    def _act(self, action: Action) -> None:
        if isinstance(action, Make):
            self._make(copy.deepcopy(action.body))
        elif isinstance(action, Remove):
            self._remove((action.kind, action.name))
        elif isinstance(action, PutStatus):
            self._put(action)
        elif isinstance(action, HoldBy):
            self._hold(action)
        elif isinstance(action, StopJob):
            self.stopped.append(action.job)

    def _refuse(self, body: Json) -> bool:
        """Whether the recorded server let no such pod be made; it says so as it did there."""
        if body["kind"] != "Pod" or name_subject(body) not in self._refusals:
            return False
        self._trouble = self._refusals[name_subject(body)]
        return True

    def _tell(self, words: str) -> None:
        self.events.append(Event(self._time, words))

    def _make(self, body: Json) -> None:
        metadata = body["metadata"]
        if "generateName" in metadata:
            metadata["name"] = metadata.pop("generateName") + next(self._names)
        place = (body["kind"], get_name(body))
        assert place not in self._objects, f"{place} is there already"
        metadata["uid"] = f"uid-of-{get_name(body)}"
        self._objects[place] = body
        if name_subject(body) in PLAYED:
            self._tell(f"{name_subject(body)} made")

    def _remove(self, place: tuple[str, str]) -> None:
        body = self._objects[place]
        assert not is_leaving(body), f"{place} is removed twice"
        self._tell(f"{name_subject(body)} removed")
        if place[0] == "Pod":
            # Its kubelet ends it when the recorded one did.
            body["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        else:
            self._drop(place)

    def _put(self, action: PutStatus) -> None:
        self._objects[action.kind, action.name]["status"] = copy.deepcopy(action.status)
        if action.kind == "RayCluster":
            self.cluster_statuses.append(action.status)
        elif tell_phase(action.status) != self._phase:
            self._phase = tell_phase(action.status)
            self._tell(self._phase)

    def _hold(self, action: HoldBy) -> None:
        rayjob = self._objects["RayJob", self._recording.rayjob]
        rayjob["metadata"]["finalizers"] = list(action.finalizers)
        if is_leaving(rayjob) and FINALIZER not in action.finalizers:
            self._tell("RayJob let go")
            self._objects.clear()


def list_refusals(recording: Recording) -> Iterator[tuple[str, Trouble]]:
    """The roles of pods that could not be made, with what KubeRay said of them."""
    for one in recording.steps:
        conditions = one.status.get("conditions", ()) if one.kind == "RayCluster" else ()
        for condition in conditions:
            role = CREATION_FAILURES.get(condition["reason"])
            if role is not None:
                message = str(condition["message"]).partition("\n")[2]
                yield role, Trouble(condition["reason"], message)


def name_subject(body: Json) -> str:
    """The kind of an object, or the role of a pod."""
    if body["kind"] != "Pod":
        return str(body["kind"])
    return str(body["metadata"]["labels"][NODE_LABEL])


@cache
def replay(name: str) -> World:
    """Play a recording to its end, with the stand-in in KubeRay's place; not to be changed."""
    recording = read_recording(name)
    world = World(recording)
    world.play()
    return world
