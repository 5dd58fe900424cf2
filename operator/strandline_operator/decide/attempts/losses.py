"""Records pod losses while an attempt runs, so a restarted operator reaches the same conclusions.

Each record has the time of the event, the pod's uid, and the time at which the run had absorbed the
loss, that is, continued despite the loss. This module must not depend on the final cause.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline_api.api_model import evolve
from strandline_api.names import GROUP_LABEL
from strandline_api.objects.attempt import MAX_EVIDENCE, AttemptStatus, EvidenceRecord
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.disruptions import Disruption
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.pipeline_status import Progress
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.objects import Pod
from strandline_operator.render.order import Role

# Maximum seconds between a loss and the end that it caused. Ray detects a lost node within a
# minute, and dependent calls fail soon afterwards.
_WINDOW = 120.0
# Seconds by which the record of a lost head may be later than the driver's end: a kubelet that
# shuts down first ends the containers, and then reports the reason.
_HEAD_SLACK = 30.0
# Reasons in records of a head that disappeared without a known cause.
BY_FORCE, DELETED, GONE = "PodDeletedByForce", "PodDeleted", "PodGone"
_NAMELESS = frozenset({BY_FORCE, DELETED, GONE})
DISRUPTIONS = frozenset({Cause.PREEMPTED, Cause.EVICTED, Cause.NODE_LOST})
# Causes of worker losses that are counted and reported.
_COUNTED = DISRUPTIONS | {Cause.OOM_KILLED}
# How precisely each disruption names its origin. Reasons that are not listed are the most precise.
_RANKS: dict[str, int] = {
    Disruption.POD_EVICTED: 0,
    Disruption.NODE_TAINTED: 0,
    Disruption.NODE_GONE: 0,
    Disruption.NODE_DISRUPTED: 1,
}


def note_losses(scene: Scene) -> Scene:
    """Record new losses of a running attempt, and which recorded losses it has absorbed."""
    # After the end, pods disappear because of the teardown, so record nothing.
    if scene.status.end_time is not None:
        return scene
    stored = len(scene.status.losses)
    records = _merge(scene)
    # A loss can only be absorbed by progress after the loss, so skip new records.
    settled = [_settle(scene, record) for record in records[:stored]]
    losses = _bound([*settled, *records[stored:]])
    return scene.with_status(evolve(scene.status, losses=losses))


def list_losses(scene: Scene) -> list[EvidenceRecord]:
    """Return the recorded losses, and losses that only pods show so far."""
    return _merge(scene)


def list_new_losses(before: AttemptStatus, after: AttemptStatus) -> list[EvidenceRecord]:
    """Return one record for each worker that was lost between two statuses."""
    known = {_name_pod(record.evidence) for record in before.losses}
    new = {
        _name_pod(record.evidence): record
        for record in reversed(after.losses)
        if is_of(record, Role.WORKER) and record.cause in _COUNTED
    }
    return [record for name, record in reversed(new.items()) if name not in known]


def list_unabsorbed(status: AttemptStatus) -> list[EvidenceRecord]:
    """Return the recorded worker losses that the run has not absorbed yet."""
    return [
        record
        for record in status.losses
        if record.absorbed_time is None and record.cause in _COUNTED and is_of(record, Role.WORKER)
    ]


def find_lost_heads(status: AttemptStatus) -> list[EvidenceRecord]:
    """Return the recorded losses of heads that the run has not absorbed."""
    return [
        record
        for record in status.losses
        if record.absorbed_time is None and is_of(record, Role.HEAD)
    ]


def is_of(record: EvidenceRecord, role: Role) -> bool:
    """Return True if a record concerns a pod of the given role."""
    return record.details.get("role") == role


def is_nameless(record: EvidenceRecord) -> bool:
    """Return True if a record only states that a head is terminating or gone, without a cause."""
    return record.details.get("reason") in _NAMELESS


def may_explain(scene: Scene, record: EvidenceRecord) -> bool:
    """Return True if a loss may have caused the end: it was shortly before, and not absorbed."""
    status, time, settle = scene.status, record.time, scene.limits.settle
    if time is None or status.end_time is None:
        return False
    stopped = find_stop_time(status)
    # Losing the submitter does not stop the driver until KubeRay detects the loss and fails the
    # RayJob, so do not require that the loss is close to the end.
    if is_of(record, Role.SUBMITTER) and any(map(_blames_submitter, status.evidence)):
        return time <= stopped + settle
    # The run continued after this loss, so the loss did not end the run.
    if record.absorbed_time is not None:
        return False
    # containerd reports an out-of-memory kill late, even during the teardown.
    is_late = record.cause is Cause.OOM_KILLED
    is_close = time >= stopped - _WINDOW
    if is_of(record, Role.HEAD):
        # If a head disappeared later than this, the teardown removed it.
        is_before = time <= min(status.end_time + settle, stopped + _HEAD_SLACK)
        # A running driver always ends with its head, even if the loss was noticed late.
        is_close = is_close or status.running_time is not None
        return is_close and (is_before or is_late)
    # If the driver stalled, no worker's loss is to blame: a driver without workers still responds.
    if any(each.cause is Cause.STALLED and each.source == "deadline" for each in status.evidence):
        return False
    return is_close and (time <= stopped + settle or is_late)


def _blames_submitter(record: EvidenceRecord) -> bool:
    return record.cause is Cause.SUBMISSION_FAILED and record.source == "rayjob"


def is_recent(scene: Scene) -> bool:
    """Return True if undated evidence is recent enough to be related to the end."""
    end_time = scene.status.end_time
    if end_time is None:
        return False
    is_fresh = scene.now <= end_time + scene.limits.settle
    return is_fresh and scene.now <= find_stop_time(scene.status) + _WINDOW


def find_stop_time(status: AttemptStatus) -> float:
    """Return when the driver of an ended attempt stopped, as reported, or else as observed."""
    assert status.end_time is not None  # callers pass only ended attempts
    return min(status.end_time, status.driver_end_time or status.end_time)


def find_newest_head(scene: Scene) -> Pod | None:
    """Return the newest head pod, or its last state if it is gone."""
    heads = [pod for pod in (*scene.gone_pods, *scene.pods) if is_head(pod)]
    # If no head has a creation time, prefer the last in the list.
    return max(reversed(heads), key=lambda pod: (not pod.is_gone, pod.meta.created), default=None)


def is_vaguer(former: Evidence, item: Evidence) -> bool:
    """Return True if new evidence has an origin or a reason that the recorded evidence lacks."""
    before, after = (_RANKS.get(str(each.details.get("reason")), 2) for each in (former, item))
    return before < after or item.message.startswith(f"{former.message}: ")


def _merge(scene: Scene) -> list[EvidenceRecord]:
    """Return the recorded losses in order, followed by new losses."""
    records = list(scene.status.losses)
    for item in _list_sightings(scene):
        index = next((i for i, each in enumerate(records) if _is_same(each, item)), None)
        if index is None:
            if not _is_forgotten(scene.status.losses, item):
                records.append(EvidenceRecord.from_evidence(item, scene.now))
        elif is_vaguer(records[index].evidence, item):
            record = EvidenceRecord.from_evidence(item, scene.now)
            former = records[index]
            records[index] = evolve(record, time=former.time, absorbed_time=former.absorbed_time)
    return records


def _list_sightings(scene: Scene) -> Iterator[Evidence]:
    """Yield the losses that pods show; for heads, only losses of the newest head."""
    head = find_newest_head(scene)
    for pod in scene.all_pods:
        if not is_head(pod):
            yield from scene.read_pod(pod)
    if head is not None:
        items = list(scene.read_pod(head))
        yield from items
        yield from [] if items else _describe_going(head)


def _describe_going(head: Pod) -> Iterator[Evidence]:
    """Yield evidence that a head is terminating or gone, even if the cause is unknown."""
    details = {"pod": head.meta.name, "podUid": head.meta.uid, "role": Role.HEAD.value}
    # A kubelet that terminates a pod records the end of each container, so without such a record,
    # the pod was force-deleted.
    is_cut = head.phase == "Running" and not any(each.ends for each in head.containers)
    if head.is_gone and is_cut:
        message = f"the head pod {head.meta.name} was deleted by force"
        yield Evidence(Cause.INTERRUPTED, message, "pod", {**details, "reason": BY_FORCE})
    elif head.meta.is_deleting:
        message = f"the head pod {head.meta.name} was deleted"
        yield Evidence(Cause.UNKNOWN, message, "pod", {**details, "reason": DELETED})
    elif head.is_gone:
        message = f"the head pod {head.meta.name} is gone"
        yield Evidence(Cause.UNKNOWN, message, "pod", {**details, "reason": GONE})


def _is_same(record: EvidenceRecord, item: Evidence) -> bool:
    """Return True if a record and an item are the same loss. A container may end repeatedly."""
    former = record.evidence
    if (former.cause, _name_pod(former)) != (item.cause, _name_pod(item)):
        return False
    if former.details.get("container") != item.details.get("container"):
        return False
    # Compare the containers' end times, not the record's time, which uses another clock.
    ends = {former.details.get("finishedAt"), item.details.get("finishedAt")}
    return len(ends - {None}) <= 1


def _is_forgotten(losses: tuple[EvidenceRecord, ...], item: Evidence) -> bool:
    """Return True if newer records may have displaced an earlier record of this loss."""
    # A list that is not full has lost no records, and records of workers never displace a head's.
    if len(losses) < MAX_EVIDENCE or item.details.get("role") == Role.HEAD:
        return False
    newest = max(record.time or 0.0 for record in losses)
    return item.time is None or item.time <= newest


def _name_pod(item: Evidence) -> str:
    return str(item.details.get("podUid") or item.details.get("pod") or "")


def _settle(scene: Scene, record: EvidenceRecord) -> EvidenceRecord:
    """Return a record, marked as absorbed if the run continued after the loss."""
    is_absorbed = _is_absorbed(scene, record)
    if is_absorbed == (record.absorbed_time is not None):
        return record
    return evolve(record, absorbed_time=scene.now if is_absorbed else None)


def _is_absorbed(scene: Scene, record: EvidenceRecord) -> bool:
    if is_of(record, Role.HEAD):
        return _is_head_well(scene, record)
    return (
        record.absorbed_time is not None
        or _has_progressed(scene)
        or any(_replaces(pod, record) or _is_spared(scene, pod, record) for pod in scene.pods)
    )


def _is_head_well(scene: Scene, record: EvidenceRecord) -> bool:
    """Return True if a head survived a disruption, or was replaced before its driver started."""
    uid, was_absorbed = _name_pod(record.evidence), record.absorbed_time is not None
    heads = [pod for pod in scene.pods if is_head(pod) and _is_up(pod)]
    same = next((pod for pod in heads if pod.meta.uid == uid), None)
    if same is not None:
        # A rejected eviction leaves a mark on a pod that keeps running.
        return was_absorbed or _has_progressed(scene) or _is_spared(scene, same, record)
    begun = scene.status.running_time
    # The current head already existed when the driver started, so no work was lost with the
    # previous head.
    if any(begun is None or pod.meta.created <= begun for pod in heads):
        return True
    # If the lost head is still the newest, it is terminating and did not survive after all. If
    # there is a newer head, the replaced head stays absorbed.
    newest = find_newest_head(scene)
    return was_absorbed and (newest is None or newest.meta.uid != uid)


def _is_spared(scene: Scene, pod: Pod, record: EvidenceRecord) -> bool:
    """Return True if a disruption of a pod was withdrawn before the pod was deleted."""
    if pod.meta.uid != record.details.get("podUid") or not _is_up(pod):
        return False
    return not any(_is_same(record, item) for item in scene.read_pod(pod))


def _is_up(pod: Pod) -> bool:
    return pod.phase == "Running" and not pod.meta.is_deleting


def _has_progressed(scene: Scene) -> bool:
    """Return True if the driver reports more finished work than the last written status."""
    before = scene.attempt.status.progress
    after = scene.driver.progress if scene.driver is not None else None
    return after is not None and _count_settled(after) > _count_settled(before)


def _count_settled(progress: Progress | None) -> int:
    if progress is None:
        return 0
    return progress.finished + progress.failed + progress.quarantined


def _replaces(pod: Pod, record: EvidenceRecord) -> bool:
    """Return True if a replacement pod or container became ready after the loss."""
    if not _is_up(pod) or not pod.is_ready:
        return False
    details, group = record.details, pod.meta.labels.get(GROUP_LABEL, role_of(pod))
    # The lost pod itself still exists, so check whether the lost container was restarted.
    if pod.meta.uid == details.get("podUid"):
        name = details.get("container")
        return any(each.name == name and each.is_running for each in pod.containers)
    is_newer = record.time is not None and pod.meta.created > record.time
    return is_newer and group == details.get("group")


def _bound(records: list[EvidenceRecord]) -> tuple[EvidenceRecord, ...]:
    """Sort the records by time, and drop the least important if there are too many.

    Absorbed losses are dropped first, then losses of workers, oldest first.
    """

    def rank(record: EvidenceRecord) -> tuple[bool, bool, float]:
        return record.absorbed_time is None, is_of(record, Role.HEAD), record.time or 0.0

    kept = sorted(records, key=rank)[-MAX_EVIDENCE:]
    return tuple(sorted(kept, key=lambda record: record.time or 0.0))
