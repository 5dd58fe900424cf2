"""Polls the API server and performs the actions that `core` decides.

The loop's only state is the last poll of each dashboard, its response, and rejected pods. It must
not make decisions.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from kuberay_standin.core import step
from kuberay_standin.objects import CLUSTER_LABEL, NODE_LABEL, Json, get_name, get_status
from kuberay_standin.rayclusters.pods import name_service
from kuberay_standin.rayclusters.tokens import read_token, wants_token
from kuberay_standin.rayjobs.steps import get_address
from kuberay_standin.rayjobs.submission import is_asked
from kuberay_standin.scene import (
    Action,
    Draw,
    HoldBy,
    JobAnswer,
    Make,
    PutStatus,
    Remove,
    Scene,
    StopJob,
    Trouble,
)
from kuberay_standin.shell.api import RefusalError

POLL_SECONDS = 3
# Base and limit of the exponential backoff for a rejected pod, in seconds.
FIRST_WAIT = 0.005
LONGEST_WAIT = 1000.0
# Statuses of a missing object and of an object that changed since it was read. The next turn
# handles both.
PASSING = {404, 409}


class Server(Protocol):
    """Interface of an API server, implemented by `Api` in api.py."""

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Json]:
        """Return objects."""

    def create(self, body: Json) -> None:
        """Create an object."""

    def put_status(self, body: Json, status: Json) -> None:
        """Replace the status of an object."""

    def hold(self, body: Json, finalizers: tuple[str, ...]) -> None:
        """Replace the finalizers of an object."""

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The loop's other dependencies: clocks, randomness, dashboards, and a log."""

    read_time: Callable[[], datetime]
    read_seconds: Callable[[], float]
    draw: Draw
    ask: Callable[[str, str, str], JobAnswer]
    stop: Callable[[str, str, str], None]
    report: Callable[[str], None]


@dataclass(slots=True)
class Tries:
    """A rejected pod of a RayCluster: the number of consecutive tries, and the time of the next."""

    reason: str
    message: str
    count: int
    due: float


@dataclass(slots=True)
class Loop:
    """Serves all RayJobs of a namespace, or of all namespaces if it is empty.

    Attributes:
        poll_seconds: interval between polls of a RayJob's dashboard.
    """

    server: Server
    outside: Outside
    namespace: str = ""
    poll_seconds: float = POLL_SECONDS
    _last_asked: dict[str, float] = field(default_factory=dict)  # time of the last poll by uid
    _tries: dict[str, Tries] = field(default_factory=dict)  # rejected pods, by the RayCluster's uid
    _failures: set[str] = field(default_factory=set)  # messages reported since the last success

    def turn(self) -> bool:
        """Handle every RayJob once. Return whether any action was performed."""
        try:
            rayjobs = self.server.list("RayJob", self.namespace)
            served = [self._serve(rayjob) for rayjob in rayjobs]
            return any(served)
        except (OSError, http.client.HTTPException) as error:
            self._complain(f"the API server does not answer: {error}")
        except RefusalError as error:
            self._complain(f"the API server refuses to list: {error}")
        return False

    def _serve(self, rayjob: Json) -> bool:
        scene = self._look(rayjob)
        actions = step(scene, self.outside.read_time(), self.outside.draw)
        is_due = scene.trouble is not None and scene.trouble.is_due
        done = []
        for action in actions:
            done.append(self._try(scene, action))
            if is_pod(action) and not done[-1]:
                return True  # report immediately; the remaining actions wait for the retry
        if is_due and scene.cluster is not None:
            self._tries.pop(scene.cluster["metadata"]["uid"], None)
            return True
        return any(done)

    def _look(self, rayjob: Json) -> Scene:
        location = rayjob["metadata"]["namespace"]
        cluster = get_status(rayjob).get("rayClusterName", "")
        labels = f"{CLUSTER_LABEL}={cluster}"
        list_all = self.server.list
        services, found = (
            list_all("Service", location),
            _pick(list_all("RayCluster", location), cluster),
        )
        scene = Scene(
            rayjob=rayjob,
            cluster=found,
            service=_pick(services, name_service(cluster)),
            job_service=_pick(services, name_service(get_name(rayjob))),
            trouble=self._find_trouble(found),
            pods=tuple(list_all("Pod", location, labels)) if cluster else (),
            job=_pick(list_all("Job", location), get_name(rayjob)),
            secret=self._find_secret(found),
        )
        return self._ask(scene) if is_asked(rayjob) else scene

    def _find_secret(self, cluster: Json | None) -> Json | None:
        if cluster is None or not wants_token(cluster):
            return None
        return _pick(
            self.server.list("Secret", cluster["metadata"]["namespace"]), get_name(cluster)
        )

    def _ask(self, scene: Scene) -> Scene:
        uid, now = scene.rayjob["metadata"]["uid"], self.outside.read_seconds()
        if now - self._last_asked.get(uid, -self.poll_seconds) < self.poll_seconds:
            return scene
        self._last_asked[uid] = now
        token = read_token(scene.secret)
        answer = self.outside.ask(get_address(scene), get_status(scene.rayjob)["jobId"], token)
        return replace(scene, answer=answer)

    def _find_trouble(self, cluster: Json | None) -> Trouble | None:
        tries = self._tries.get(cluster["metadata"]["uid"]) if cluster is not None else None
        if tries is None:
            return None
        is_due = self.outside.read_seconds() >= tries.due
        return Trouble(tries.reason, tries.message, is_due)

    def _note_trouble(self, cluster: Json, action: Action, message: str) -> None:
        """Record a rejected pod, and schedule the retry with exponential backoff."""
        uid = cluster["metadata"]["uid"]
        before = self._tries.get(uid)
        count = before.count + 1 if before is not None else 1
        wait = min(FIRST_WAIT * 2**count, LONGEST_WAIT)
        due = self.outside.read_seconds() + wait
        self._tries[uid] = Tries(name_failure(action), message, count, due)

    def _try(self, scene: Scene, action: Action) -> bool:
        try:
            self._act(scene, action)
        except RefusalError as error:
            if error.status not in PASSING:
                self._complain(f"{get_name(scene.rayjob)}: {describe(action)} failed: {error}")
                if is_pod(action) and scene.cluster is not None:
                    self._note_trouble(scene.cluster, action, error.message)
            return False
        self._failures.clear()
        self.outside.report(f"{get_name(scene.rayjob)}: {describe(action)}")
        return True

    def _act(self, scene: Scene, action: Action) -> None:
        namespace = scene.rayjob["metadata"]["namespace"]
        if isinstance(action, Make):
            self.server.create(action.body)
        elif isinstance(action, Remove):
            self.server.delete(action.kind, namespace, action.name)
        elif isinstance(action, PutStatus):
            body = scene.rayjob if action.kind == "RayJob" else scene.cluster
            assert body is not None  # the status was computed from this body
            self.server.put_status(body, action.status)
        elif isinstance(action, HoldBy):
            self.server.hold(scene.rayjob, action.finalizers)
        elif isinstance(action, StopJob):
            self.outside.stop(action.address, action.job, action.token)

    def _complain(self, line: str) -> None:
        """Report a failure, but a repeated failure only once."""
        if line not in self._failures:
            self._failures.add(line)
            self.outside.report(line)


def is_pod(action: Action) -> bool:
    """Return whether an action creates a pod."""
    return isinstance(action, Make) and action.body["kind"] == "Pod"


def name_failure(action: Action) -> str:
    """Return the condition reason for a pod that can't be created."""
    assert isinstance(action, Make)  # only pods are recorded as trouble
    is_head = action.body["metadata"]["labels"][NODE_LABEL] == "head"
    return f"FailedCreate{'Head' if is_head else 'Worker'}Pod"


def describe(action: Action) -> str:
    """Describe an action in a few words."""
    if isinstance(action, Make):
        metadata = action.body["metadata"]
        return f"make {action.body['kind']} {metadata.get('name', metadata.get('generateName'))}"
    if isinstance(action, Remove):
        return f"remove {action.kind} {action.name}"
    if isinstance(action, HoldBy):
        return f"finalizers {', '.join(action.finalizers) or 'none'}"
    if isinstance(action, StopJob):
        return f"stop job {action.job}"
    return f"{action.kind} {action.name} is {_describe_status(action.status)}"


def _describe_status(status: Json) -> str:
    words = [status.get(name) for name in ("jobDeploymentStatus", "jobStatus", "reason", "state")]
    heads = (
        condition["reason"]
        for condition in status.get("conditions", ())
        if condition["type"] == "HeadPodReady"
    )
    return "/".join(answer for answer in [*words, *heads] if answer) or "new"


def _pick(bodies: list[Json], name: str) -> Json | None:
    return next((body for body in bodies if get_name(body) == name), None)
