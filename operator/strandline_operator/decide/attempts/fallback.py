"""When head or groups leave spot nodes for nodes on demand, for the rest of a run.

Counted in the pipeline's status, so that an operator that was killed decides the same. This room
must not know how nodes are told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from strandline_api.api_model import evolve
from strandline_api.objects.attempt import AttemptSpec, AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.spec.pods.templates import Spot, SpotFallback
from strandline_api.spec.ray_cluster import RayCluster
from strandline_api.status.pipeline_status import SpotGroup
from strandline_operator.decide.attempts.ending import NO_ROOM
from strandline_operator.decide.obstacles.room import RoomKind, find_group, list_shortages
from strandline_operator.decide.scene import Scene
from strandline_operator.render.order import Role

HEAD = Role.HEAD.value
_TAKEN = frozenset({Cause.PREEMPTED, Cause.EVICTED, Cause.NODE_LOST})


def list_on_demand(spot: Iterable[SpotGroup]) -> tuple[str, ...]:
    """Return the head and groups that use nodes on demand by now."""
    return tuple(group.name for group in spot if group.on_demand_since is not None)


def find_fallback(scene: Scene) -> Evidence | None:
    """Find an attempt that has waited for spot nodes for as long as its pipeline wants it to."""
    waiting = _list_dry(scene.spec.ray, scene.attempt.spec, scene.status, scene.now)
    # A node that is on its way is not to find its pod gone.
    dry = {
        find_group(pod)
        for pod, finding in list_shortages(scene)
        if finding is not None and finding.kind is RoomKind.NO_ROOM
    }
    if not dry & waiting.keys():
        return None
    words = "; ".join(f"{name} had no room for {waiting[name]}" for name in sorted(waiting))
    message = f"{words}, so the next attempt uses nodes on demand there"
    return Evidence(Cause.INTERRUPTED, message, NO_ROOM)


def note_spot(
    ray: RayCluster,
    spot: tuple[SpotGroup, ...],
    attempt: AttemptSpec,
    status: AttemptStatus,
    now: float,
) -> tuple[SpotGroup, ...]:
    """Return how spot nodes have served a run after one more of its attempts.

    Args:
        spot: how they have before.
        attempt: the one that has ended, which is counted for the first time.
        now: seconds since the epoch.
    """
    groups = {group.name: group for group in spot}
    group_name = _find_taken(attempt, status)
    fallbacks = _list_fallbacks(ray)
    if group_name in _list_spot(ray):
        spot_group = groups.get(group_name) or SpotGroup(name=group_name)
        groups[group_name] = evolve(spot_group, disruptions=spot_group.disruptions + 1)
        limit = fallbacks[group_name].after_disruptions if group_name in fallbacks else None
        if limit is not None and groups[group_name].disruptions >= limit:
            count = groups[group_name].disruptions
            reason = f"lost its node {count} time{'s' if count > 1 else ''}"
            groups[group_name] = _leave(groups[group_name], reason, now)
    if any(record.source == NO_ROOM for record in status.evidence):
        for name, time in _list_dry(ray, attempt, status, status.end_time or now).items():
            spot_group = groups.get(name) or SpotGroup(name=name)
            groups[name] = _leave(spot_group, f"no room for {time}", now)
    return tuple(groups.values())


def describe_fallback(before: Iterable[SpotGroup], after: Iterable[SpotGroup]) -> list[str]:
    """Describe each of those that leave spot nodes from now on."""
    former = list_on_demand(before)
    return [
        f"{group.name} uses nodes on demand for the rest of the run: {group.reason}"
        for group in after
        if group.on_demand_since is not None and group.name not in former
    ]


def _leave(group: SpotGroup, reason: str, now: float) -> SpotGroup:
    # The first time and reason stand, so that the change is reported once.
    if group.on_demand_since is not None:
        return group
    return evolve(group, on_demand_since=now, reason=reason)


def _find_taken(attempt: AttemptSpec, status: AttemptStatus) -> str:
    """Return the group that ended the attempt as a spot node was taken; empty: none."""
    records = [record for record in status.evidence if record.cause in _TAKEN]
    # A driver that had the time to say that it was told to go says no more than that.
    if status.cause not in _TAKEN and not (status.cause is Cause.INTERRUPTED and records):
        return ""
    group_names = [_name_group(record.details) for record in records]
    # Workers that went with the head did not end it; and evidence without a group means the head.
    group = HEAD if HEAD in group_names or not any(group_names) else next(filter(None, group_names))
    return "" if group in attempt.on_demand else group


def _name_group(details: Mapping[str, object]) -> str:
    return str(details.get("group") or details.get("role") or "")


def _list_dry(
    ray: RayCluster, attempt: AttemptSpec, status: AttemptStatus, now: float
) -> dict[str, str]:
    """Return those on spot nodes that have waited for long enough, each with for how long."""
    return {
        name: str(fallback.after_no_room)
        for name, fallback in _list_fallbacks(ray).items()
        if name not in attempt.on_demand
        and fallback.after_no_room_seconds is not None
        and now - status.no_room_since.get(name, now) >= fallback.after_no_room_seconds
    }


def _list_spot(ray: RayCluster) -> dict[str, Spot]:
    nodes = {HEAD: ray.head.spot} | {group.name: group.spot for group in ray.worker_groups}
    return {name: spot for name, spot in nodes.items() if spot is not None}


def _list_fallbacks(ray: RayCluster) -> dict[str, SpotFallback]:
    spots = _list_spot(ray).items()
    return {name: spot.fallback for name, spot in spots if spot.fallback is not None}
