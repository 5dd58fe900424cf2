"""Reports an attempt's pods that wait for capacity, and pods that can never get a node."""

from __future__ import annotations

from collections.abc import Iterable

from strandline_api.names import GROUP_LABEL
from strandline_api.notation.times import format_time
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.obstacles.room.findings import (
    CLAIMS,
    SCHEDULER,
    RoomFinding,
    RoomKind,
    find_room,
    is_unplaced,
)
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.objects import Pod
from strandline_operator.model.view import View
from strandline_operator.render.pods.spot import HEAD, list_fallbacks

_MOST_ASKED = 16
# Seconds after which a wait is reported. Nearly every pod waits for a moment.
REPORTED_AFTER_SECONDS = 60.0
# Maximum wait in seconds if it is unknown whether any node can hold the pod. A cluster may be full
# for a day. The second limit applies after the operator raised the pod's memory.
_LONGEST_GUESS, _LONGEST_IF_RAISED = 86_400.0, 3_600.0
_UNKNOWN = "no known node can hold it, and no autoscaler reports anything"


def needs_sizes(view: View) -> bool:
    """Return True if a pod has no node, so that this pass needs the sizes of nodes."""
    current = view.attempts[-1] if view.attempts else None
    is_over = current is None or current.status.end_time is not None
    return not is_over and any(map(is_unplaced, view.pods))


def find_waits(scene: Scene) -> dict[str, float]:
    """Return since when the head and each worker group have been waiting for capacity, by name.

    The result is empty if no pod is waiting, or if a waiting pod has another problem.
    """
    shortages = list_shortages(scene)
    # A wait for another reason, or without prospects, counts toward the deadline.
    if any(finding is None or finding.kind is RoomKind.NEVER_FITS for _, finding in shortages):
        return {}
    since: dict[str, float] = {}
    for pod, _ in shortages:
        group, wait_start = find_group(pod), find_wait_start(scene, pod)
        since[group] = min(since.get(group, wait_start), wait_start)
    return since


def find_shortage(scene: Scene) -> Block | None:
    """Report missing capacity, or a node that is starting. Return None if neither applies."""
    findings = [(pod, finding) for pod, finding in list_shortages(scene) if finding is not None]
    never = [each for each in findings if each[1].kind is RoomKind.NEVER_FITS]
    # Problems that only a user can fix take precedence over waits.
    if never:
        return Block(Reason.UNSCHEDULABLE, describe_misfit(*never[0]))
    dry = [each for each in findings if each[1].kind is RoomKind.NO_ROOM]
    pod, finding = next(iter(dry or findings), (None, None))
    if pod is None or finding is None:
        return None
    since = scene.status.no_room_since.get(find_group(pod), scene.now)
    # Most pods get a node within seconds, so reporting each short wait would be noise.
    if dry and scene.now - since < REPORTED_AFTER_SECONDS:
        return None
    # Report a time instead of a duration, because a changing message would cause endless status
    # writes.
    waits = _describe_wait(pod, format_time(int(since)))
    reason = Reason.NO_ROOM if dry else Reason.NODE_ON_ITS_WAY
    return Block(reason, f"{waits}; {finding.speaker}: {finding.words}")


def find_worker_shortage(scene: Scene) -> Block | None:
    """Report a worker group that has no running worker, while the driver is running."""
    return find_shortage(scene) if scene.status.running_time is not None else None


def find_misfit(scene: Scene) -> tuple[Pod, RoomFinding] | None:
    """Return a pod that fits no node, if the reporting program considers all possible nodes."""
    return next(
        (
            (pod, finding)
            for pod, finding in list_shortages(scene)
            if finding is not None and finding.is_certain
        ),
        None,
    )


def describe_misfit(pod: Pod, finding: RoomFinding) -> str:
    """Describe a pod's request that no node can satisfy, and quote the reporting program."""
    speaker = "" if finding.speaker == SCHEDULER else f"{finding.speaker}: "
    asks = pod.request.describe()
    # A pod whose claim has no volume would not fit on a larger node either.
    is_size = asks and not CLAIMS.search(finding.words)
    request = f" requests {asks}, and no node can hold it" if is_size else ""
    return f"Pod {pod.meta.name}{request}: {speaker}{finding.words}"


def list_shortages(scene: Scene) -> list[tuple[Pod, RoomFinding | None]]:
    """Return the pods without a node that delay an attempt, head first, with their prospects.

    The prospects are None if no report explains the wait.
    """
    pods = list_unplaced(scene.pods)
    # Once the driver is running, only groups without a running worker are delayed.
    if scene.status.running_time is not None:
        working = list_working(scene)
        pods = [pod for pod in pods if role_of(pod) == "worker" and find_group(pod) not in working]
    return [(pod, _judge(scene, pod)) for pod in pods]


def _judge(scene: Scene, pod: Pod) -> RoomFinding | None:
    """Return what a pod without a node can expect, considering the attempt's spot fallback."""
    finding = find_room(pod, scene.notices, scene.sizes, scene.now)
    if finding is None:
        return None
    # An on-demand node may fit even if no spot node does, but no node helps a pod without its
    # volume.
    if may_fall_back(scene, pod) and not CLAIMS.search(finding.words):
        return finding if finding.kind is RoomKind.ON_ITS_WAY else _make_wait(finding)
    # No program reports whether any node can ever fit, so limit the wait.
    if finding.is_guess and scene.now - find_wait_start(scene, pod) > _find_longest(scene, pod):
        return finding._replace(
            kind=RoomKind.NEVER_FITS, words=f"{finding.words.rstrip('.')}; {_UNKNOWN}"
        )
    return finding


def _make_wait(finding: RoomFinding) -> RoomFinding:
    return RoomFinding(RoomKind.NO_ROOM, finding.speaker, finding.words)


def may_fall_back(scene: Scene, pod: Pod) -> bool:
    """Return True if a pod requests a spot node, but may use an on-demand node after a wait."""
    name = find_spot_group(pod)
    fallback = list_fallbacks(scene.spec.ray).get(name)
    is_timed = fallback is not None and fallback.after_no_room is not None
    return is_timed and name not in scene.attempt.spec.on_demand


def find_wait_start(scene: Scene, pod: Pod) -> float:
    """Return since when a pod has been waiting for a node."""
    # A replacement pod continues the wait of the pod that it replaces.
    since = scene.status.no_room_since.get(find_group(pod), scene.now)
    return min(since, pod.meta.created or scene.now)


def _find_longest(scene: Scene, pod: Pod) -> float:
    """Return the longest wait in seconds for a pod that may be too large for all nodes."""
    # After the operator raised the memory of a group, the pod may be larger than all nodes.
    is_raised = find_group(pod) in scene.attempt.spec.memory
    return _LONGEST_IF_RAISED if is_raised else _LONGEST_GUESS


def list_working(scene: Scene) -> set[str]:
    """Return the worker groups, or roles of other pods, that have a running pod."""
    return {find_group(pod) for pod in scene.pods if pod.phase == "Running"}


def list_unplaced(pods: Iterable[Pod]) -> list[Pod]:
    """Return a pod without a node from each group, because the pods of a group are identical.

    The head comes first. The number of pods is limited, because the operator reads the events of
    each.
    """
    groups: dict[str, Pod] = {}
    unplaced = filter(is_unplaced, pods)
    for pod in sorted(unplaced, key=lambda pod: (not is_head(pod), pod.meta.name)):
        groups.setdefault(find_group(pod), pod)
    return list(groups.values())[:_MOST_ASKED]


def find_group(pod: Pod) -> str:
    """Return the pod's worker group, or its role if it has none."""
    return pod.meta.labels.get(GROUP_LABEL) or role_of(pod)


def find_spot_group(pod: Pod) -> str:
    """Return the group whose spot setting applies to a pod. A submitter uses the head's."""
    return pod.meta.labels.get(GROUP_LABEL) or HEAD


def _describe_wait(pod: Pod, since: str) -> str:
    asks = pod.request.describe()
    role = role_of(pod)
    name = f"{role} pod {pod.meta.name}" if role else f"pod {pod.meta.name}"
    return f"{name} has waited for a node since {since}{asks and f' (requests {asks})'}"
