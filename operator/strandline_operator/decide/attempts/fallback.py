"""Moves the head and worker groups from spot to on-demand nodes for the rest of a run.

The counters are in the pipeline's status, so a restarted operator makes the same decisions. This
module must not depend on the labels that distinguish the two kinds of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from strandline_api.api_model import evolve
from strandline_api.objects.attempt import AttemptSpec, AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.spec.pods.templates import SpotFallback
from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.status.pipeline_status import SpotGroup
from strandline_operator.decide.attempts.ending import NO_ROOM
from strandline_operator.decide.obstacles.room.findings import (
    ON_ITS_WAY_SECONDS,
    RoomFinding,
    RoomKind,
)
from strandline_operator.decide.obstacles.room.shortages import (
    find_group,
    find_spot_group,
    find_wait_start,
    list_shortages,
    may_fall_back,
)
from strandline_operator.decide.scene import Scene, is_head
from strandline_operator.model.objects import Pod
from strandline_operator.render.pods.spot import HEAD, list_fallbacks, list_spot

# Seconds of work after which a group's wait for spot nodes starts over. A node that is lost earlier
# has hardly advanced the run.
WORKED_SECONDS = 300.0
_TAKEN = frozenset({Cause.PREEMPTED, Cause.EVICTED, Cause.NODE_LOST})


def list_on_demand(spot: Iterable[SpotGroup]) -> tuple[str, ...]:
    """Return the names of the pod groups (`head` or worker groups) that use on-demand nodes."""
    return tuple(group.name for group in spot if group.on_demand_since is not None)


def find_fallback(scene: Scene) -> Evidence | None:
    """Return the reason to end an attempt so that the next one uses on-demand nodes, if any."""
    due = _list_due(scene)
    if not due:
        return None
    words = "; ".join(f"{name} {_describe_reason(reason)}" for name, reason in sorted(due.items()))
    message = f"{words}, so the next attempt uses on-demand nodes"
    # Store the groups in the evidence, so that the next attempt can choose its nodes from this
    # record alone.
    return Evidence(Cause.INTERRUPTED, message, NO_ROOM, due)


def _list_due(scene: Scene) -> dict[str, str]:
    """Return the pod groups that must leave spot nodes, each with the reason."""
    waits: dict[str, tuple[Pod, RoomFinding]] = {}
    for pod, finding in list_shortages(scene):
        # Skip a pod that never fits: its problem, such as a missing volume, is not the spot
        # capacity.
        if finding is not None and finding.kind is not RoomKind.NEVER_FITS:
            waits.setdefault(find_spot_group(pod), (pod, finding))
    groups = {group.name: group for group in scene.spot}
    due = {}
    for name, fallback in list_fallbacks(scene.spec.ray).items():
        group = groups.get(name) or SpotGroup(name=name)
        count = group.disruptions + ((scene.status.start_losses or 0) if name == HEAD else 0)
        limit = fallback.after_disruptions
        if name in scene.attempt.spec.on_demand:
            continue
        # Once the driver runs, do not interrupt it for past losses.
        if limit is not None and count >= limit and scene.status.running_time is None:
            due[name] = _describe_losses(count)
        elif name in waits and _is_over(scene, *waits[name], fallback, group.no_room_since):
            due[name] = f"no room for {fallback.after_no_room}"
    return due


def _is_over(
    scene: Scene, pod: Pod, finding: RoomFinding, fallback: SpotFallback, clock: float | None
) -> bool:
    """Return True if a pod has waited for a spot node longer than configured."""
    longest, since = fallback.after_no_room_seconds, find_wait_start(scene, pod)
    if longest is None:
        return False
    # Allow extra time while a node is starting, so that the pod can still use the node.
    if finding.kind is RoomKind.ON_ITS_WAY:
        longest += ON_ITS_WAY_SECONDS
    # The run's `no_room_since` includes earlier attempts, so a retry does not restart the wait.
    return scene.now - min(since, since if clock is None else clock) >= longest


def _describe_reason(reason: str) -> str:
    return f"found {reason}" if reason.startswith("no ") else reason


def _describe_losses(count: int) -> str:
    return f"lost its node {count} time{'s' if count > 1 else ''}"


def note_lost_heads(scene: Scene) -> Scene:
    """Count the heads that lost their nodes before the driver started. KubeRay replaces them."""
    status = scene.status
    # Once the driver runs, losing the head ends the attempt, and `note_spot` counts the loss.
    if status.end_time is not None or status.running_time is not None:
        return scene
    # Count in order of disappearance. The status records the last counted head, so that each loss
    # is counted only once, even if the operator restarts.
    heads = filter(is_head, (*scene.gone_pods, *scene.pods))
    lost = [pod.meta.uid for pod in heads if pod.node and _is_taken(scene, pod)]
    new = lost[lost.index(status.lost_head) + 1 :] if status.lost_head in lost else lost
    if not new:
        return scene
    losses = (status.start_losses or 0) + len(new)
    return scene.with_status(evolve(status, start_losses=losses, lost_head=new[-1]))


def describe_lost_start(scene: Scene, longest: float) -> Evidence | None:
    """Explain a late start by heads that lost their nodes. Return None if no head did."""
    if not scene.status.start_losses:
        return None
    losses = _describe_losses(scene.status.start_losses)
    message = f"the driver did not start within {longest:g} s: its head {losses}"
    is_spot = HEAD in list_spot(scene.spec.ray) and HEAD not in scene.attempt.spec.on_demand
    cause = Cause.PREEMPTED if is_spot else Cause.NODE_LOST
    return Evidence(cause, message, "deadline", {"role": HEAD, "group": HEAD})


def _is_taken(scene: Scene, pod: Pod) -> bool:
    return any(item.cause in _TAKEN for item in scene.read_pod(pod))


def time_shortages(scene: Scene, spot: Iterable[SpotGroup]) -> tuple[SpotGroup, ...]:
    """Return the run's spot usage, with the time since which each group has lacked spot nodes.

    The time is reset only once a pod of the group has worked for a while. Losing a node before, or
    the end of an attempt, does not reset the time.
    """
    groups = {group.name: group for group in spot}
    seeking: dict[str, float] = {}
    for pod, finding in list_shortages(scene):
        if finding is not None and may_fall_back(scene, pod):
            name = find_spot_group(pod)
            seeking[name] = min(seeking.get(name, scene.now), find_wait_start(scene, pod))
    for name in list_fallbacks(scene.spec.ray):
        group = groups.get(name) or SpotGroup(name=name)
        since = None if _is_at_work(scene, name) else group.no_room_since or seeking.get(name)
        groups[name] = evolve(group, no_room_since=since)
    return tuple(group for name, group in groups.items() if group != SpotGroup(name=name))


def _is_at_work(scene: Scene, name: str) -> bool:
    """Return True if the head, or a worker of the group, has worked for a while."""
    running_time = scene.status.running_time
    if running_time is None or scene.now - running_time < WORKED_SECONDS:
        return False
    # A running driver implies a running head.
    return name == HEAD or any(
        find_group(pod) == name and pod.phase == "Running" and _has_lasted(scene, pod)
        for pod in scene.pods
    )


def _has_lasted(scene: Scene, pod: Pod) -> bool:
    starts = [each.started for each in pod.containers if each.started is not None]
    # A kubelet may omit the start time. In that case, rely on the pod's phase.
    return not starts or scene.now - max(starts) >= WORKED_SECONDS


def note_spot(
    ray: RayCluster,
    spot: tuple[SpotGroup, ...],
    attempt: AttemptSpec,
    status: AttemptStatus,
    now: float,
) -> tuple[SpotGroup, ...]:
    """Return the run's spot usage, updated with another ended attempt.

    Args:
        spot: usage before the attempt ended.
        attempt: the ended attempt, which has not been counted yet.
        now: seconds since the epoch.
    """
    groups = {group.name: group for group in spot}
    for name, count in _count_taken(ray, attempt, status).items():
        spot_group = groups.get(name) or SpotGroup(name=name)
        groups[name] = evolve(spot_group, disruptions=spot_group.disruptions + count)
        fallback = list_fallbacks(ray).get(name)
        limit = None if fallback is None else fallback.after_disruptions
        if limit is not None and groups[name].disruptions >= limit:
            reason = _describe_losses(groups[name].disruptions)
            groups[name] = _leave(groups[name], reason, now)
    left = [record.details for record in status.evidence if record.source == NO_ROOM]
    for name, why in (each for details in left for each in details.items()):
        # The user may have removed the group, or its spot setting, in the meantime.
        if name in list_spot(ray):
            spot_group = groups.get(name) or SpotGroup(name=name)
            groups[name] = _leave(spot_group, str(why), now)
    return tuple(groups.values())


def describe_fallback(before: Iterable[SpotGroup], after: Iterable[SpotGroup]) -> list[str]:
    """Describe each group that has moved to on-demand nodes since `before`."""
    former = list_on_demand(before)
    return [
        f"{group.name} uses on-demand nodes for the rest of the run: {group.reason}"
        for group in after
        if group.on_demand_since is not None and group.name not in former
    ]


def _leave(group: SpotGroup, reason: str, now: float) -> SpotGroup:
    # Keep the first time and reason, so that the change is reported only once.
    if group.on_demand_since is not None:
        return group
    return evolve(group, on_demand_since=now, reason=reason)


def _count_taken(ray: RayCluster, attempt: AttemptSpec, status: AttemptStatus) -> dict[str, int]:
    """Count the lost spot nodes by group. Only losses that affected the attempt count."""
    counts = {} if HEAD in attempt.on_demand else {HEAD: status.start_losses or 0}
    # A loss before the driver's start is already in `start_losses`, so do not count it again.
    has_run = status.running_time is not None or not status.start_losses
    group = _find_taken(attempt, status) if has_run else ""
    counts[group] = counts.get(group, 0) + 1
    return {name: count for name, count in counts.items() if count and name in list_spot(ray)}


def _find_taken(attempt: AttemptSpec, status: AttemptStatus) -> str:
    """Return the group whose lost spot node ended the attempt, or empty if no loss ended it."""
    records = [record for record in status.evidence if record.cause in _TAKEN]
    # An interrupted driver reports only the signal, so look for a lost node in the evidence.
    if status.cause not in _TAKEN and not (status.cause is Cause.INTERRUPTED and records):
        return ""
    group_names = [_name_group(record.details) for record in records]
    # A lost head explains the end better than lost workers. Evidence without a group is about the
    # head.
    group = HEAD if HEAD in group_names or not any(group_names) else next(filter(None, group_names))
    return "" if group in attempt.on_demand else group


def _name_group(details: Mapping[str, object]) -> str:
    return str(details.get("group") or details.get("role") or "")
