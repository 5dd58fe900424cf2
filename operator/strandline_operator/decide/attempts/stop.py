"""Whether a running attempt is to be stopped before its end, and why."""

from __future__ import annotations

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_operator.decide.attempts.silence import find_stall
from strandline_operator.decide.evidence import find_image_problem, find_pod_evidence
from strandline_operator.decide.obstacles.code import find_lost_code
from strandline_operator.decide.obstacles.delays import explain_delay, find_refusal, is_starting
from strandline_operator.decide.scene import Scene, find_lost_node, is_head, role_of
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod

# Something may just have been leaving; by then KubeRay has tried eight times or more.
_QUOTA_PATIENCE = 10.0
PAST = 0.1  # seconds by which a time has passed for sure
_DISRUPTIONS = frozenset({Cause.PREEMPTED, Cause.EVICTED, Cause.NODE_LOST})


def find_stop(
    scene: Scene, status: AttemptStatus, spec: PipelineSpec, limits: Limits, now: float
) -> Evidence | None:
    """The first reason to end an attempt that has not ended by itself; None to let it go on."""
    return (
        _find_lost_head(scene)
        or find_lost_code(scene)
        or _find_second_run(scene, status)
        or _find_second_start(scene, status)
        or _find_suspension(scene, status)
        or _find_quota(scene, status, now)
        or _find_deadline(status, spec, now)
        or _find_late_start(scene, status, spec, limits, now)
        or _find_worker_loss(scene, spec)
        or _find_lost_submitter(scene, limits, now)
        or find_stall(scene, status, spec, limits)
    )


def find_next_deadline(status: AttemptStatus, spec: PipelineSpec, limits: Limits) -> float | None:
    """When an attempt that goes on as it does has gone on for too long; None: never."""
    begun = status.start_time
    longest: float | None = _find_longest_start(spec, limits)
    if status.running_time is not None:
        begun, longest = status.running_time, spec.deadlines.attempt_seconds
    return None if begun is None or longest is None else begun + longest + PAST


def _find_longest_start(spec: PipelineSpec, limits: Limits) -> float:
    return spec.deadlines.pre_running_seconds or limits.pre_running


def find_losses(scene: Scene) -> list[Evidence]:
    """One for each worker pod lost while the attempt ran, for memory or by disruption.

    Those that are still there come last: they are what was seen last.
    """
    workers = [pod for pod in scene.all_pods if role_of(pod) == "worker"]
    workers.sort(key=lambda pod: (not pod.is_gone, pod.meta.created or 0.0))
    return [loss for loss in map(_find_loss, workers) if loss is not None]


def _find_loss(pod: Pod) -> Evidence | None:
    losses = _DISRUPTIONS | {Cause.OOM_KILLED}
    return next((seen for seen in find_pod_evidence(pod) if seen.cause in losses), None)


def _find_lost_head(scene: Scene) -> Evidence | None:
    """A head that was told to go and can't, since its node is lost; KubeRay may wait for ever."""
    heads = filter(is_head, scene.all_pods)
    return next(filter(None, (find_lost_node(pod, scene.nodes) for pod in heads)), None)


def _find_second_run(scene: Scene, status: AttemptStatus) -> Evidence | None:
    """A head that came back, or a driver that was started again: KubeRay's doing, not ours."""
    begun, heads = status.running_time, [pod for pod in scene.all_pods if is_head(pod)]
    is_alone = len({pod.meta.uid for pod in heads}) <= 1
    if begun is None or is_alone or not any(_is_later(pod, begun) for pod in heads):
        return None
    lost = next((pod for pod in heads if pod.is_gone or pod.meta.is_deleting), None)
    replaced = Evidence(Cause.NODE_LOST, "the head pod was replaced", "pod")
    if lost is not None and lost.meta.is_deleting:  # somebody did that, whom nothing names
        message = f"the head pod {lost.meta.name} was deleted, and another one made"
        replaced = Evidence(Cause.INTERRUPTED, message, "pod", {"pod": lost.meta.name})
    return next(find_pod_evidence(lost), replaced) if lost is not None else replaced


def _is_later(head: Pod, begun: float) -> bool:
    """Whether a head was made after the driver had begun; before that one may be replaced."""
    return not head.meta.created or head.meta.created > begun


def _find_second_start(scene: Scene, status: AttemptStatus) -> Evidence | None:
    """A driver that was started again under the same head, which no pod would tell of."""
    rayjob, first = scene.rayjob, status.job_start_time
    if rayjob is None or first is None or rayjob.started in {None, first}:
        return None
    message = f"RayJob {rayjob.meta.name} has started its driver a second time"
    return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": "SecondStart"})


def _find_suspension(scene: Scene, status: AttemptStatus) -> Evidence | None:
    """A driver that is suspended has ended, and after that KubeRay would start it once more."""
    rayjob = scene.rayjob
    if rayjob is None or status.running_time is None:
        return None
    if rayjob.deployment not in {"Suspending", "Suspended"}:
        return None
    message = f"RayJob {rayjob.meta.name} was suspended while its driver ran"
    return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": rayjob.deployment})


def _find_quota(scene: Scene, status: AttemptStatus, now: float) -> Evidence | None:
    """That KubeRay may not make the pods, since a quota is used up and stays so."""
    if status.running_time is not None or not is_starting(scene):
        return None
    refused = find_refusal(scene)
    if refused is None or not refused.is_by_quota or now - refused.since <= _QUOTA_PATIENCE:
        return None
    return Evidence(Cause.QUOTA_EXCEEDED, refused.words, "raycluster")


def _find_deadline(status: AttemptStatus, spec: PipelineSpec, now: float) -> Evidence | None:
    longest, begun = spec.deadlines.attempt_seconds, status.running_time
    if longest is None or begun is None or now - begun <= longest:
        return None
    message = f"the attempt ran longer than deadlines.attempt allows: {longest:g} s"
    return Evidence(Cause.DEADLINE_EXCEEDED, message, "deadline")


def _find_late_start(
    scene: Scene, status: AttemptStatus, spec: PipelineSpec, limits: Limits, now: float
) -> Evidence | None:
    """That the driver does not get to run. Time in a queue, where suspension is set, is free."""
    begun = status.start_time
    if scene.rayjob is None or begun is None or status.running_time is not None or scene.is_queued:
        return None
    image = next(filter(None, map(find_image_problem, scene.pods)), None)
    if image is not None and now - begun > limits.image_pull:
        return image
    longest = _find_longest_start(spec, limits)
    if now - begun <= longest:
        return None
    if image is not None:
        return image
    why = explain_delay(scene, now)
    message = f"the driver did not run within {longest:g} s{why and ': '}{why}"
    return Evidence(Cause.SCHEDULING_TIMEOUT, message, "deadline")


def _find_worker_loss(scene: Scene, spec: PipelineSpec) -> Evidence | None:
    policy = spec.on_worker_loss
    for seen in find_losses(scene):
        wanted = policy.oom if seen.cause is Cause.OOM_KILLED else policy.disruption
        if wanted == "Recreate":
            return seen
    return None


def _find_lost_submitter(scene: Scene, limits: Limits, now: float) -> Evidence | None:
    """The submitter ended a while ago, KubeRay has not noticed, and the driver is not heard of."""
    is_heard = scene.driver is not None and scene.driver.progress is not None
    if is_heard or scene.rayjob is None or any(map(_may_submit, scene.pods)):
        return None
    ends = (pod.submitter_end for pod in scene.pods)
    ended = max((end.time for end in ends if end and end.time is not None), default=None)
    if ended is None or now - ended <= limits.submitter:
        return None
    message = f"the submitter ended {now - ended:.0f} s ago, and KubeRay has not noticed"
    return Evidence(Cause.SUBMISSION_FAILED, message, "pod")


def _may_submit(pod: Pod) -> bool:
    """Whether a submitter is at work in a pod, or will be."""
    is_own = role_of(pod) == "submitter" and pod.phase in {"Pending", "Running"}
    return is_own and pod.submitter_end is None
