"""What a queue does to an attempt: it holds it, stops it with a reason, or can never admit it."""

from __future__ import annotations

from collections.abc import Iterator

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.reasons import Reason
from strandline_api.times import format_time
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import SUSPENDED, Scene
from strandline_operator.model.notices import QueueState, find_newest
from strandline_operator.model.objects import SUBMITTER_SET, RayJob
from strandline_operator.render.rayjob import QUEUE_LABEL

# Kueue's reason of the event about the RayJob whose message explains the stop.
_TAKEN_BACK = ("Stopped",)
_BARE = "was suspended while its driver ran"
# The API server refuses a Workload of more, and Kueue says that in its own log alone.
MOST_POD_SETS = 8


def find_suspension(scene: Scene) -> Evidence | None:
    """Find a suspended driver: it has ended, and KubeRay would start it once more."""
    rayjob = scene.rayjob
    # A queue may suspend what has not begun as often as it likes.
    if rayjob is None or scene.status.running_time is None:
        return None
    if rayjob.deployment not in SUSPENDED:
        return None
    message = _describe(scene, rayjob.meta.name, rayjob.meta.uid)
    return Evidence(Cause.INTERRUPTED, message, "rayjob", {"reason": rayjob.deployment})


def explain_suspension(scene: Scene) -> Iterator[Evidence]:
    """Yield the suspension that has ended an attempt once more: its event may come after it."""
    evidence, rayjob = _recall_suspension(scene.status), scene.status.ray_job
    if evidence is not None and rayjob is not None:
        message = _describe(scene, rayjob.name, rayjob.uid or "")
        yield Evidence(evidence.cause, message, evidence.source, evidence.details)


def was_suspended(status: AttemptStatus) -> bool:
    """Return whether its RayJob was suspended in the middle, as a queue does."""
    return _recall_suspension(status) is not None


def is_suspension_unexplained(status: AttemptStatus) -> bool:
    """Return whether it was suspended, for a reason that is not known yet."""
    evidence = _recall_suspension(status)
    return evidence is not None and evidence.message.endswith(_BARE)


def _recall_suspension(status: AttemptStatus) -> Evidence | None:
    items = (record.evidence for record in status.evidence if record.source == "rayjob")
    return next((item for item in items if item.details.get("reason") in SUSPENDED), None)


def _describe(scene: Scene, name: str, uid: str) -> str:
    notice = find_newest(scene.notices, _TAKEN_BACK, uid=uid)
    why = f": {notice.message}" if notice is not None else ""
    return f"RayJob {name} {_BARE}{why}"


def find_queue_obstacle(scene: Scene) -> Block | None:
    """Find that a queue holds the attempt, or can never admit it."""
    return _find_unfit_queue(scene) or _find_wait(scene)


def _find_wait(scene: Scene) -> Block | None:
    """Find that a queue holds the attempt: which queue, since when, and why."""
    rayjob = scene.rayjob
    if rayjob is None or not scene.is_queued:
        return None
    state, name = scene.queue or QueueState(), rayjob.meta.labels.get(QUEUE_LABEL, "")
    since = rayjob.meta.created if state.since is None else state.since
    words = _explain_queue(state, rayjob, name) if scene.queue is not None else ""
    holder = f"LocalQueue {name}" if name else "Kueue"
    return Block(Reason.QUEUED, f"{holder} since {format_time(int(since))}{words and ': '}{words}")


def _explain_queue(state: QueueState, rayjob: RayJob, name: str) -> str:
    """Explain why a queue does not admit a RayJob yet: by Kueue's own message, if there is one."""
    if state.problem:
        return state.problem
    # Kueue queues a job without a queue's name if it manages all jobs, and never admits it.
    if not name:
        return "the pipeline names no queue in `ray.queueName`"
    if not state.workload and state.exists is False:
        return f"LocalQueue {name} does not exist"
    if not state.workload:
        return f"Kueue has created no Workload for RayJob {rayjob.meta.name}; see Kueue's log"
    if state.is_active:
        return state.message
    repair = f"set `spec.active` of Workload {state.workload} to true to queue it again"
    return f"{state.message or 'the Workload is deactivated'}; {repair}"


def _find_unfit_queue(scene: Scene) -> Block | None:
    """Find that an attempt waits in a queue that can never run it; no other sign shows that."""
    rayjob = scene.rayjob
    if rayjob is None:
        return None
    # The other cluster has neither ConfigMap nor claims, so the driver could not begin there.
    if rayjob.is_elsewhere:
        where = "which has neither its ConfigMap nor its claims"
        words = f"MultiKueue sends RayJob {rayjob.meta.name} to another cluster, {where}"
        return Block(Reason.QUEUE_UNFIT, words)
    # A RayJob that a queue has let in is not held by its shape.
    if not scene.is_queued or QUEUE_LABEL not in rayjob.meta.labels:
        return None
    # Kueue can't tell two kinds of pods of one name apart.
    if rayjob.pod_sets.count(SUBMITTER_SET) > 1:
        words = f"a worker group is named {SUBMITTER_SET!r}, as is the submitter's pod in Kueue"
        return Block(Reason.QUEUE_UNFIT, words)
    if len(rayjob.pod_sets) <= MOST_POD_SETS:
        return None
    kinds = ", ".join(rayjob.pod_sets)
    words = f"Kueue supports at most {MOST_POD_SETS} kinds of pods, and these are more: {kinds}"
    return Block(Reason.QUEUE_UNFIT, words)
