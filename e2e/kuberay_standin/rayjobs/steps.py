"""Derives the actions for a RayJob: the step from each status to the next.

Statuses, reasons, and messages are as recorded. Each change replaces the whole status. This module
does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kuberay_standin.objects import (
    NODE_LABEL,
    Json,
    format_time,
    get_name,
    get_status,
    is_leaving,
    read_time,
)
from kuberay_standin.rayclusters.pods import find_ports, make_job_service
from kuberay_standin.rayclusters.status import NO_RESOURCES
from kuberay_standin.rayclusters.tokens import read_token
from kuberay_standin.rayjobs.jobs import format_dashboard, make_cluster, make_job
from kuberay_standin.rayjobs.refusals import find_problem
from kuberay_standin.rayjobs.submission import follow_job
from kuberay_standin.scene import Action, Draw, HoldBy, Make, PutStatus, Remove, Scene, StopJob

FINALIZER = "ray.io/rayjob-finalizer"
DONE = {"Complete", "Failed", "ValidationFailed"}


def step_rayjob(scene: Scene, now: datetime, draw: Draw) -> list[Action]:
    """Return the actions for a RayJob. `draw` returns five random letters for each new name."""
    held = tuple(scene.rayjob["metadata"].get("finalizers") or ())
    if is_leaving(scene.rayjob):
        return _leave(scene, held)
    if FINALIZER not in held:
        return [HoldBy((*held, FINALIZER))]
    status = get_status(scene.rayjob)
    phase = status.get("jobDeploymentStatus", "")
    if phase not in DONE:
        problem = find_problem(scene.rayjob["spec"])
        if problem:
            return _put(scene, _refuse(status, problem))
    if phase == "":
        return _begin(scene, now, draw)
    return STEPS[phase](scene, now)


def get_address(scene: Scene) -> str:
    """Return the address of the dashboard, `host:port`, with the head pod's IP.

    Return an empty string if the pod has no IP yet.
    """
    heads = [pod for pod in scene.pods if pod["metadata"]["labels"][NODE_LABEL] == "head"]
    address = get_status(heads[0]).get("podIP") if heads else None
    if scene.cluster is None or not address:
        return ""
    return f"{address}:{find_ports(scene.cluster)['dashboard']}"


def _refuse(status: Json, problem: str) -> Json:
    return {
        **_blank(),
        **status,
        "jobDeploymentStatus": "ValidationFailed",
        "reason": "ValidationFailed",
        "message": f"The RayJob spec is invalid: {problem}",
    }


def _blank() -> Json:
    none: Json = {**NO_RESOURCES, "head": {}}
    return {"failed": 0, "succeeded": 0, "rayJobInfo": {}, "rayClusterStatus": none}


def _put(scene: Scene, status: Json) -> list[Action]:
    if status == get_status(scene.rayjob):
        return []
    return [PutStatus("RayJob", get_name(scene.rayjob), status)]


def _leave(scene: Scene, held: tuple[str, ...]) -> list[Action]:
    """Release a deleted RayJob immediately, and stop its job in Ray if the job may still run."""
    if FINALIZER not in held:
        return []
    status = get_status(scene.rayjob)
    actions: list[Action] = []
    address = get_address(scene)
    if status.get("jobDeploymentStatus") == "Running" and address:
        actions.append(StopJob(address, status["jobId"], read_token(scene.secret)))
    return [*actions, HoldBy(tuple(finalizer for finalizer in held if finalizer != FINALIZER))]


def _begin(scene: Scene, now: datetime, draw: Draw) -> list[Action]:
    status = {**_blank(), **get_status(scene.rayjob)}
    if scene.rayjob["spec"].get("suspend"):
        return _put(scene, status | {"jobDeploymentStatus": "Suspended"})
    name = get_name(scene.rayjob)
    started = {
        "jobDeploymentStatus": "Initializing",
        "jobId": f"{name}-{draw()}",
        "rayClusterName": f"{name}-{draw()}",
        "startTime": format_time(now),
    }
    return _put(scene, status | started)


def _initialize(scene: Scene, now: datetime) -> list[Action]:
    ended = _suspend(scene) or _pass_deadline(scene, now, "preRunning", "PreRunningDeadline")
    ended = ended or _pass_deadline(scene, now, "active", "Deadline")
    if ended:
        return ended
    if scene.cluster is None:
        return [Make(make_cluster(scene.rayjob))]
    status = _copy_cluster(scene)
    if get_status(scene.cluster).get("state") != "ready":
        return _put(scene, status)
    if scene.job is None:
        # Create the Job before the RayJob becomes Running. Later, the Job would never be created.
        return [Make(make_job(scene.rayjob, scene.cluster))]
    status |= {"jobDeploymentStatus": "Running", "dashboardURL": format_dashboard(scene.cluster)}
    return _put(scene, status)


def _run(scene: Scene, now: datetime) -> list[Action]:
    ended = _suspend(scene) or _pass_deadline(scene, now, "active", "Deadline")
    if ended:
        return ended
    actions = _keep_cluster(scene)
    return [*actions, *_put(scene, follow_job(_copy_cluster(scene), scene.job, scene.answer, now))]


def _keep_cluster(scene: Scene) -> list[Action]:
    """Recreate a deleted RayCluster under the same name, together with its Service."""
    if scene.cluster is None:
        return [Make(make_cluster(scene.rayjob))]
    if scene.job_service is None:
        return [Make(make_job_service(scene.rayjob, scene.cluster))]
    return []


def _copy_cluster(scene: Scene) -> Json:
    status = dict(get_status(scene.rayjob))
    found = get_status(scene.cluster) if scene.cluster is not None else {}
    return {**status, "rayClusterStatus": found} if found else status


def _suspend(scene: Scene) -> list[Action]:
    if not scene.rayjob["spec"].get("suspend"):
        return []
    return _put(scene, get_status(scene.rayjob) | {"jobDeploymentStatus": "Suspending"})


def _pass_deadline(scene: Scene, now: datetime, field: str, reason: str) -> list[Action]:
    """Fail a RayJob that has passed a deadline, measured from its start."""
    seconds = scene.rayjob["spec"].get(f"{field}DeadlineSeconds")
    status = get_status(scene.rayjob)
    start = read_time(status["startTime"])
    if seconds is None or now - start < timedelta(seconds=seconds):
        return []
    rendered = start.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    named = f"{field[0].upper()}{field[1:]}DeadlineSeconds: {seconds}"
    failed = {
        "jobDeploymentStatus": "Failed",
        "reason": f"{reason}Exceeded",
        "message": f"The RayJob has passed the {field}DeadlineSeconds."
        f" StartTime: {rendered}. {named}",
        "endTime": format_time(now),
        "failed": status["failed"] + 1,
    }
    return _put(scene, status | failed)


def _take_down(scene: Scene, now: datetime) -> list[Action]:
    """Remove the RayCluster. Report Suspended once it is gone, even if its pods still exist."""
    del now
    found = (("RayCluster", scene.cluster), ("Job", scene.job))
    there = [(kind, body) for kind, body in found if body is not None]
    if there:
        return [Remove(kind, get_name(body)) for kind, body in there if not is_leaving(body)]
    status = get_status(scene.rayjob)
    fields = {"failed", "succeeded", "startTime"}
    kept: Json = {name: value for name, value in status.items() if name in fields}
    return _put(scene, {**_blank(), **kept, "jobDeploymentStatus": "Suspended"})


def _rest(scene: Scene, now: datetime) -> list[Action]:
    del now
    if scene.rayjob["spec"].get("suspend"):
        return []
    status = dict(get_status(scene.rayjob))
    del status["jobDeploymentStatus"]
    return _put(scene, status)


def _finish(scene: Scene, now: datetime) -> list[Action]:
    """Remove the RayCluster after its TTL, if configured; the Job stays."""
    spec, cluster = scene.rayjob["spec"], scene.cluster
    if not spec.get("shutdownAfterJobFinishes") or cluster is None or is_leaving(cluster):
        return []
    kept = timedelta(seconds=spec.get("ttlSecondsAfterFinished") or 0)
    if now < read_time(get_status(scene.rayjob)["endTime"]) + kept:
        return []
    return [Remove("RayCluster", get_name(cluster))]


def _stay(scene: Scene, now: datetime) -> list[Action]:
    del scene, now
    return []


STEPS: dict[str, Callable[[Scene, datetime], list[Action]]] = {
    "Initializing": _initialize,
    "Running": _run,
    "Suspending": _take_down,
    "Suspended": _rest,
    "Complete": _finish,
    "Failed": _finish,
    "ValidationFailed": _stay,
}
