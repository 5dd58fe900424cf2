"""Finds delays of an attempt that was launched but is not running yet, as a reason and a sentence.

A delay may resolve itself, so this module ends no attempt. A decider that gives up waiting quotes
the delay. This module must not depend on how long to wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import NamedTuple

from strandline_api.notation.times import format_time
from strandline_api.status.reasons import Reason
from strandline_operator.decide.evidence.pods import (
    IMAGE_REASONS,
    SIGKILLED,
    find_image_problem,
    find_last_line,
)
from strandline_operator.decide.obstacles.obstacles import Block, is_by_quota
from strandline_operator.decide.obstacles.room.shortages import find_shortage
from strandline_operator.decide.obstacles.volumes.attachment import find_attachment
from strandline_operator.decide.obstacles.volumes.claims import (
    describe_unbound,
    find_awaited_claim,
    is_held,
    is_unbound,
)
from strandline_operator.decide.scene import Scene, find_first, is_head, role_of
from strandline_operator.model.notices import Notice, find_newest
from strandline_operator.model.objects import (
    OOM_KILLED,
    Container,
    Meta,
    Pod,
    RayClusterState,
    RayJob,
    Termination,
)
from strandline_operator.render.order import Role
from strandline_operator.render.pods.templates import RAY_CONTAINERS

SILENCE = 60.0  # seconds; KubeRay normally processes a new RayJob immediately
SLOW = 60.0  # seconds; a healthy Ray node is ready in half that time
# Seconds for which a warning counts. A kubelet retries a mount at least every two minutes, and
# warns each time.
_FRESH = 180.0
_FIRST_LOOK = 5.0
# Waiting reasons that every container has before its creation.
USUAL_WAITS = frozenset({"ContainerCreating", "PodInitializing"})
_VOLUME_WARNINGS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_SANDBOX_WARNINGS = ("FailedCreatePodSandBox",)
_PROBE_WARNINGS = ("Unhealthy",)
_REFUSED_JOB = "FailedToCreateRayJobSubmitter"
_REFUSED_WARNINGS = (
    "FailedToCreateRayCluster",
    _REFUSED_JOB,
    "FailedToCreateService",
    "InvalidRayClusterSpec",
    "FailedCreate",
)
_NOT_STARTED = frozenset({"StartError", "ContainerCannotRun", OOM_KILLED})
_TERMINATED = 143  # exit code after SIGTERM, which a deletion sends
# Matches the start of the last line of a traceback, or of an error about a command-line option.
_RAISED = re.compile(r"[\w.]*(?:Error|Exception)\b")
# Matches the pod name, in which KubeRay generates a new suffix for each retry.
_DRAWN_NAME = re.compile(r'(pods "[^"]*-)[a-z0-9]{5}"')


class RefusedObject(NamedTuple):
    """An object that KubeRay can't create because the API server rejects it.

    Attributes:
        words: the object, followed by the server's message.
        since: time of the first rejection, in seconds since the epoch.
        is_submitter: whether the object is the submitter's Job or pod; the cluster then exists.
    """

    words: str
    since: float
    is_submitter: bool = False

    @property
    def is_by_quota(self) -> bool:
        """Return True if a quota is exhausted, or requires settings that the object lacks."""
        return is_by_quota(self.words)


def is_starting(scene: Scene) -> bool:
    """Return True if KubeRay still has to start the driver.

    A driver that waits in a queue is not starting.
    """
    rayjob = scene.rayjob
    # A suspended RayJob is waiting for its queue, not for KubeRay.
    if rayjob is None or rayjob.is_suspended:
        return False
    # KubeRay reports Running as soon as the submitter's Job exists, even if the Job gets no pod.
    is_submitted = bool(rayjob.job) or scene.status.running_time is not None
    return rayjob.deployment != "Running" or not is_submitted


def find_delay(scene: Scene) -> Block | None:
    """Return the delay of a launched attempt that is not running yet, if there is a delay."""
    # After the driver's start, problems of pods are losses, not delays.
    return find_first(_OBSTACLES, scene) if is_starting(scene) else None


def explain_delay(scene: Scene) -> str:
    """Explain why the driver is not running, by the first delay or by the slowest pod.

    Return an empty string if no cause is visible.
    """
    unready = _find_unready(scene)
    block = find_delay(scene)
    # A pod that is not ready is described below, with the time for which it has been waiting.
    if block is not None and (unready is None or block.reason is not Reason.POD_NOT_READY):
        return f"{block.detail[:1].lower()}{block.detail[1:]}".rstrip(".")
    if unready is not None:
        pod, start = unready
        return _describe_unready(scene, pod, f"for {scene.now - start:.0f} s")
    slow = min((pod for pod in scene.pods if not pod.is_ready), key=_rank, default=None)
    return _describe_missing_submitter(scene) if slow is None else _describe_state(slow)


def find_refusal(scene: Scene) -> RefusedObject | None:
    """Return the object that the API server rejects, if any. KubeRay keeps retrying.

    KubeRay keeps retrying to create it.
    """
    rayjob = scene.rayjob
    if rayjob is None:
        return None
    for cluster in scene.clusters:
        # Other failures in this condition are temporary.
        if cluster.failure.startswith("FailedCreate"):
            since = rayjob.meta.created if cluster.failed is None else cluster.failed
            return RefusedObject(_quote(cluster), since)
    # Ignore older events, because an earlier pipeline may have had objects of the same names.
    own = [notice for notice in scene.notices if notice.time >= rayjob.meta.created]
    return _find_refused_submitter(scene, rayjob, own) or _find_refused_part(scene, rayjob, own)


def _find_refused_submitter(
    scene: Scene, rayjob: RayJob, notices: list[Notice]
) -> RefusedObject | None:
    """Return the submitter's Job or pod if the API server rejects it, or None.

    Rejections of workers are irrelevant here.
    """
    pods = [pod.meta for pod in scene.all_pods if role_of(pod) == Role.SUBMITTER]
    # A running RayJob has a Job already.
    reasons = {_REFUSED_JOB} if rayjob.deployment != "Running" else set()
    about = [notice for notice in notices if notice.kind == "Job" or notice.reason in reasons]
    warning = _find_standing(about, rayjob, pods)
    return None if warning is None else warning._replace(is_submitter=True)


def _find_refused_part(scene: Scene, rayjob: RayJob, notices: list[Notice]) -> RefusedObject | None:
    """Return an object of the Ray cluster that the API server rejects, if any."""
    if any(not pod.is_ready for pod in scene.pods):
        return None  # the RayCluster exists, and its pods are being created
    metas = [*(child.meta for child in scene.clusters), *(pod.meta for pod in scene.pods)]
    about = [item for item in notices if item.kind != "Job" and item.reason != _REFUSED_JOB]
    return _find_standing(about, rayjob, metas)


def _find_standing(
    notices: Iterable[Notice], rayjob: RayJob, metas: Iterable[Meta]
) -> RefusedObject | None:
    """Return the newest rejection, unless an object was created afterwards."""
    # If an object was created after a warning, the rejection no longer applies.
    last_created = max((meta.created for meta in metas), default=0.0)
    standing = [
        item for item in notices if item.time > last_created and item.reason in _REFUSED_WARNINGS
    ]
    if not standing:
        return None
    newest = max(standing, key=lambda item: item.time)
    since = max(min(notice.first for notice in standing), rayjob.meta.created, last_created)
    return RefusedObject(f"{newest.kind} {newest.name}: {_hide_drawn(newest.message)}", since)


def find_next_look(scene: Scene) -> float | None:
    """Return when to check a starting attempt again, because missing objects cause no event.

    The intervals between checks grow over time. Return None if no check is necessary.
    """
    rayjob = scene.rayjob
    # Check queued attempts too: schedulers write reasons into objects that the operator does not
    # watch.
    if rayjob is None or not (is_starting(scene) or scene.is_queued):
        return None
    now = scene.now
    start_time = rayjob.meta.created or now
    times = [now + max(_FIRST_LOOK, (now - start_time) / 4)]
    since = (_find_start(pod) for pod in scene.pods if not pod.is_ready)
    times += [start + SLOW + 1 for start in since if start is not None]
    return min(time for time in times if time > now)


def _find_kuberay_silence(scene: Scene) -> Block | None:
    """Report that KubeRay has not processed the RayJob."""
    rayjob = scene.rayjob
    if rayjob is None or rayjob.deployment or scene.now - rayjob.meta.created <= SILENCE:
        return None
    return Block(Reason.KUBERAY_SILENT, f"RayJob {rayjob.meta.name} has no status.")


def _find_unpulled(scene: Scene) -> Block | None:
    """Report an image that can't be pulled."""
    image = next(filter(None, map(find_image_problem, scene.pods)), None)
    return None if image is None else Block(Reason.IMAGE_NOT_PULLED, f"{image.message}.")


def _find_refused(scene: Scene) -> Block | None:
    """Report an object that KubeRay can't create because the API server rejects it."""
    refused = find_refusal(scene)
    if refused is None:
        return None
    reason = Reason.QUOTA_USED_UP if refused.is_by_quota else Reason.OBJECT_REFUSED
    return Block(reason, refused.words)


def _find_waiting(scene: Scene) -> Block | None:
    """Report a container that is waiting for an unusual reason."""
    for pod in scene.pods:
        for container in pod.containers:
            # Image problems have their own reason, and usual waits end on their own.
            if container.waiting and container.waiting not in USUAL_WAITS | IMAGE_REASONS:
                words = container.waiting_message or "no message"
                detail = f"{_name(pod)}: {_name_container(container)}: {container.waiting}: {words}"
                return Block(Reason.CONTAINER_NOT_STARTED, detail)
    return None


def _find_volume(scene: Scene) -> Block | None:
    warning = _find_warned(scene, _VOLUME_WARNINGS)
    if warning is None:
        return None
    pod, notice = warning
    return Block(Reason.VOLUME_NOT_MOUNTED, f"{_name(pod)}: {notice.message}")


def _find_sandbox(scene: Scene) -> Block | None:
    warning = _find_warned(scene, _SANDBOX_WARNINGS)
    if warning is None:
        return None
    pod, notice = warning
    return Block(Reason.CONTAINER_NOT_STARTED, f"{_name(pod)}: {notice.message}")


def _find_failed_start(scene: Scene) -> Block | None:
    """Report a container that can't run: a failing init container, or Ray ending at its start.

    KubeRay replaces a failed pod within a second, so deleted pods count too.
    """
    ready = {role_of(pod) for pod in scene.pods if pod.is_ready}
    failures = [
        (end.time or 0.0, pod, container, end)
        for pod in scene.all_pods
        # A role with a ready pod has recovered, and a disrupted pod did not fail on its own.
        if role_of(pod) not in ready and not pod.disruption
        for container in pod.containers
        for end in container.ends
        if end.reason in _NOT_STARTED or _has_failed(container, end)
    ]
    if not failures:
        return None
    _, pod, item, end = max(failures, key=itemgetter(0))
    message = find_last_line(end) if item.name in RAY_CONTAINERS else end.message
    words = f": {message}" if message else ""
    outcome = f"{end.reason or 'ended'}, exit code {end.exit_code}{words}"
    detail = f"{_name(pod)}: {_name_container(item)}: {outcome}"
    return Block(Reason.CONTAINER_NOT_STARTED, detail)


def _has_failed(container: Container, end: Termination) -> bool:
    """Return True if an init container, or Ray during its start, ended with an error."""
    if container.is_init:
        # Ignore the two signals with which a deletion ends init containers.
        return end.exit_code not in {0, SIGKILLED, _TERMINATED}
    # Ray also exits with 1 when it is stopped, but without an exception.
    return container.name in RAY_CONTAINERS and bool(_RAISED.match(find_last_line(end)))


def _find_unplaced(scene: Scene) -> Block | None:
    # Report unbound claims first: no node can run the pod before its claim has a volume.
    waiting = sorted(
        (pod for pod in scene.pods if pod.unschedulable),
        key=lambda pod: (not is_unbound(pod), not is_held(pod), not is_head(pod)),
    )
    # While a storage class is creating a volume, the scheduler reports nothing about the pod.
    if not waiting:
        return find_awaited_claim(scene)
    unplaced = waiting[0]
    if is_unbound(unplaced):
        return Block(Reason.CLAIM_PENDING, describe_unbound(scene, unplaced))
    words = f"Pod {unplaced.meta.name}: {unplaced.unschedulable}"
    if is_held(unplaced):
        return Block(Reason.CLAIM_IN_USE, words)
    return find_shortage(scene) or Block(Reason.UNSCHEDULABLE, words)


def _find_slow(scene: Scene) -> Block | None:
    unready = _find_unready(scene)
    if unready is None:
        return None
    pod, start = unready
    # Report a start time instead of a duration: a changing message would cause endless status
    # writes.
    since = f"since {format_time(int(start))[11:19]}"
    return Block(Reason.POD_NOT_READY, _describe_unready(scene, pod, since))


def _find_unready(scene: Scene) -> tuple[Pod, float] | None:
    """Return the pod that has been running longest without being ready, if any.

    Heads come first.
    """
    starts = ((pod, _find_start(pod)) for pod in scene.pods if not pod.is_ready and pod.unready)
    slow = [(pod, start) for pod, start in starts if start is not None and scene.now - start > SLOW]
    return min(slow, key=lambda each: (not is_head(each[0]), each[1]), default=None)


def _find_start(pod: Pod) -> float | None:
    """Return since when all regular containers of a pod have been running, if all are running."""
    staying = [container for container in pod.containers if not container.is_init]
    starts = [
        container.started
        for container in staying
        if container.is_running and container.started is not None
    ]
    return max(starts) if staying and len(starts) == len(staying) else None


def _find_warned(scene: Scene, reasons: tuple[str, ...]) -> tuple[Pod, Notice] | None:
    """Return a pod whose containers were not created yet, and the warning that explains why."""
    for pod in scene.pods:
        # Once a pod's containers exist, warnings about their creation are outdated.
        if not is_unmade(pod):
            continue
        notice = find_newest(scene.notices, reasons, uid=pod.meta.uid)
        # An older warning is outdated: if the problem persisted, the kubelet would have repeated
        # the warning.
        if notice is not None and scene.now - notice.time < _FRESH:
            return pod, notice
    return None


# The first match is reported. Problems that a user has to fix come before waits, and causes before
# effects.
_OBSTACLES: tuple[Callable[[Scene], Block | None], ...] = (
    _find_kuberay_silence,  # without KubeRay, all other objects are missing too
    _find_unpulled,
    _find_refused,
    _find_waiting,
    find_attachment,
    _find_volume,
    _find_failed_start,
    _find_sandbox,
    _find_unplaced,
    _find_slow,
)


def is_unmade(pod: Pod) -> bool:
    """Return True if a pod has a node, but none of its containers was created yet."""
    is_placed = pod.phase == "Pending" and bool(pod.node) and not pod.meta.is_deleting
    return is_placed and not any(
        container.is_running or container.ends for container in pod.containers
    )


def _describe_unready(scene: Scene, pod: Pod, time: str) -> str:
    probe = find_newest(scene.notices, _PROBE_WARNINGS, uid=pod.meta.uid)
    words = f"{pod.unready}; {probe.message}" if probe is not None else pod.unready
    return f"{_name(pod)} runs but is not Ready {time}: {words}"


def _rank(pod: Pod) -> tuple[bool, bool, bool, float]:
    """Return the sort key of a pod: least progress first, then the head, then older pods."""
    is_made = bool(pod.node) and not is_unmade(pod)
    return pod.phase == "Running", is_made, not is_head(pod), pod.meta.created


def _describe_state(pod: Pod) -> str:
    if not pod.node:
        return f"{_name(pod)} has no node"
    for container in pod.containers:
        if container.waiting or container.is_running:
            return f"{_name(pod)}: {_name_container(container)}: {container.waiting or 'runs'}"
    return f"{_name(pod)} is {pod.phase or 'new'}"


def _describe_missing_submitter(scene: Scene) -> str:
    """Describe a submitter's Job without a pod. Return an empty string if this is not the case."""
    has_job = scene.is_running and scene.spec.ray.submission_mode == "K8sJobMode"
    is_missing = has_job and all(role_of(pod) != Role.SUBMITTER for pod in scene.all_pods)
    return f"Job {scene.rayjob_name} has no pod to submit the driver" if is_missing else ""


def _name(pod: Pod) -> str:
    role = role_of(pod)
    return f"{role} pod {pod.meta.name}" if role else f"pod {pod.meta.name}"


def _name_container(item: Container) -> str:
    return f"{'init container' if item.is_init else 'container'} {item.name}"


def _quote(cluster: RayClusterState) -> str:
    """Return the API server's message from KubeRay's condition, without the repeated reason."""
    lines = [line for line in cluster.failure_message.splitlines() if line != cluster.failure]
    outcome = "; ".join(lines) or cluster.failure
    return f"RayCluster {cluster.meta.name}: {_hide_drawn(outcome)}"


def _hide_drawn(words: str) -> str:
    return _DRAWN_NAME.sub(r'\1…"', words)
