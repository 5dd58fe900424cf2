"""Waits of an attempt's pods for capacity, and pods that can never get a node."""

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
# Nearly every pod waits for a moment, so short waits are not reported.
REPORTED_AFTER_SECONDS = 60.0
# Longest waits if no known node could hold the pod. A cluster may be full for a day.
_LONGEST_GUESS, _LONGEST_IF_RAISED = 86_400.0, 3_600.0
_UNKNOWN = "no known node can hold it, and no autoscaler reports anything"


def needs_sizes(view: View) -> bool:
    """Return whether node sizes are needed, because a pod has no node."""
    current = view.attempts[-1] if view.attempts else None
    is_over = current is None or current.status.end_time is not None
    return not is_over and any(map(is_unplaced, view.pods))


def find_waits(scene: Scene) -> dict[str, float]:
    """Return since when the head and groups wait for capacity, by name.

    The result is empty if no pod waits, or if a waiting pod has another problem.
    """
    shortages = list_shortages(scene)
    # A wait for another reason, or without any chance, counts towards the deadline.
    if any(finding is None or finding.kind is RoomKind.NEVER_FITS for _, finding in shortages):
        return {}
    since: dict[str, float] = {}
    for pod, _ in shortages:
        group, wait_start = find_group(pod), find_wait_start(scene, pod)
        since[group] = min(since.get(group, wait_start), wait_start)
    return since


def find_shortage(scene: Scene) -> Block | None:
    """Report missing capacity, or a node on the way; None if there is nothing to report."""
    findings = [(pod, finding) for pod, finding in list_shortages(scene) if finding is not None]
    never = [each for each in findings if each[1].kind is RoomKind.NEVER_FITS]
    # Problems that only a user can fix come before waits.
    if never:
        return Block(Reason.UNSCHEDULABLE, describe_misfit(*never[0]))
    dry = [each for each in findings if each[1].kind is RoomKind.NO_ROOM]
    pod, finding = next(iter(dry or findings), (None, None))
    if pod is None or finding is None:
        return None
    since = scene.status.no_room_since.get(find_group(pod), scene.now)
    # Most pods get a node within seconds, and reporting each short wait would be noise.
    if dry and scene.now - since < REPORTED_AFTER_SECONDS:
        return None
    # Give a time instead of a duration: a changing message would cause endless status writes.
    waits = _describe_wait(pod, format_time(int(since)))
    reason = Reason.NO_ROOM if dry else Reason.NODE_ON_ITS_WAY
    return Block(reason, f"{waits}; {finding.speaker}: {finding.words}")


def find_worker_shortage(scene: Scene) -> Block | None:
    """Report a group without any placed worker, while the driver runs."""
    return find_shortage(scene) if scene.status.running_time is not None else None


def find_misfit(scene: Scene) -> tuple[Pod, RoomFinding] | None:
    """Return a pod that fits no node, according to a program that knows all possible nodes."""
    return next(
        (
            (pod, finding)
            for pod, finding in list_shortages(scene)
            if finding is not None and finding.is_certain
        ),
        None,
    )


def describe_misfit(pod: Pod, finding: RoomFinding) -> str:
    """Describe a pod's request that no node can satisfy, and the reporting program."""
    speaker = "" if finding.speaker == SCHEDULER else f"{finding.speaker}: "
    asks = pod.request.describe()
    # A pod whose claim has no volume would not fit a larger node either.
    is_size = asks and not CLAIMS.search(finding.words)
    request = f" requests {asks}, and no node can hold it" if is_size else ""
    return f"Pod {pod.meta.name}{request}: {speaker}{finding.words}"


def list_shortages(scene: Scene) -> list[tuple[Pod, RoomFinding | None]]:
    """Return the pods without a node that delay an attempt, head first, with their chances."""
    pods = list_unplaced(scene.pods)
    # Once the driver runs, each group continues with its existing workers.
    if scene.status.running_time is not None:
        working = list_working(scene)
        pods = [pod for pod in pods if role_of(pod) == "worker" and find_group(pod) not in working]
    return [(pod, _judge(scene, pod)) for pod in pods]


def _judge(scene: Scene, pod: Pod) -> RoomFinding | None:
    """Return the chances of a pod without a node, considering the attempt's fallbacks."""
    finding = find_room(pod, scene.notices, scene.sizes, scene.now)
    if finding is None:
        return None
    # On-demand nodes may fit where no spot node does, but no node helps a pod without its volume.
    if may_fall_back(scene, pod) and not CLAIMS.search(finding.words):
        return finding if finding.kind is RoomKind.ON_ITS_WAY else _make_wait(finding)
    # No program reports whether a node could ever fit, so limit the wait.
    if finding.is_guess and scene.now - find_wait_start(scene, pod) > _find_longest(scene, pod):
        return finding._replace(
            kind=RoomKind.NEVER_FITS, words=f"{finding.words.rstrip('.')}; {_UNKNOWN}"
        )
    return finding


def _make_wait(finding: RoomFinding) -> RoomFinding:
    return RoomFinding(RoomKind.NO_ROOM, finding.speaker, finding.words)


def may_fall_back(scene: Scene, pod: Pod) -> bool:
    """Return whether a pod waits for a spot node and may use other nodes later."""
    name = find_spot_group(pod)
    fallback = list_fallbacks(scene.spec.ray).get(name)
    is_timed = fallback is not None and fallback.after_no_room is not None
    return is_timed and name not in scene.attempt.spec.on_demand


def find_wait_start(scene: Scene, pod: Pod) -> float:
    """Return since when a pod waits for a node."""
    # A replacement pod continues the wait of its predecessor.
    since = scene.status.no_room_since.get(find_group(pod), scene.now)
    return min(since, pod.meta.created or scene.now)


def _find_longest(scene: Scene, pod: Pod) -> float:
    """Return the longest wait in seconds for a pod that no known node could hold."""
    # Memory that the operator has raised may have outgrown all nodes.
    is_raised = find_group(pod) in scene.attempt.spec.memory
    return _LONGEST_IF_RAISED if is_raised else _LONGEST_GUESS


def list_working(scene: Scene) -> set[str]:
    """Return the worker groups and roles with a running pod."""
    return {find_group(pod) for pod in scene.pods if pod.phase == "Running"}


def list_unplaced(pods: Iterable[Pod]) -> list[Pod]:
    """Return pods without a node, one per group and the head, because a group's pods are alike.

    Events are requested for every returned pod, so their number is limited.
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
    """Return the group whose spot setting applies to a pod; the submitter uses the head's."""
    return pod.meta.labels.get(GROUP_LABEL) or HEAD


def _describe_wait(pod: Pod, since: str) -> str:
    asks = pod.request.describe()
    role = role_of(pod)
    name = f"{role} pod {pod.meta.name}" if role else f"pod {pod.meta.name}"
    return f"{name} has waited for a node since {since}{asks and f' (requests {asks})'}"
