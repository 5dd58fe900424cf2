"""What KubeRay, or the stand-in for it, did with a RayJob, as events in order.

- `RayJob Running/RUNNING/`: jobDeploymentStatus, jobStatus and reason, when any of them changed;
- `head made`, `worker removed`, `RayCluster removed`, `Job made`: objects, pods by their role;
- `RayJob let go`: the finalizer came off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kuberay_standin.objects import Json
from recordings import Recording, Step

PLAYED = {"RayCluster", "Job", "head", "worker"}
# So long after the recorder did something, a pod's deletion may be its doing.
SHADOW = 2
DELETE_CLUSTER = "delete raycluster"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that KubeRay, or the stand-in, did `time` seconds after the start."""

    time: float
    words: str


def tell_phase(status: Json) -> str:
    """The words of a RayJob's status that the operator decides by."""
    parts = (status.get(key) or "" for key in ("jobDeploymentStatus", "jobStatus", "reason"))
    return "RayJob " + "/".join(parts)


def list_recorded(recording: Recording) -> list[Event]:
    """What KubeRay did in a recording; what others deleted, and what went with it, is left out."""
    events = [*_list_phases(recording), *_list_made(recording), *_list_removed(recording)]
    let_go = next((one.time for one in events if one.words == "RayJob let go"), None)
    # What comes after goes with it.
    kept = [one for one in events if let_go is None or one.time <= let_go]
    return sorted(kept, key=lambda one: one.time)


def _list_phases(recording: Recording) -> Iterator[Event]:
    phase = tell_phase({})
    for one in recording.steps:
        if one.kind == "RayJob" and one.is_gone:
            yield Event(one.time, "RayJob let go")
        elif one.kind == "RayJob" and tell_phase(one.status) != phase:
            phase = tell_phase(one.status)
            yield Event(one.time, phase)


def _list_made(recording: Recording) -> Iterator[Event]:
    for one in recording.steps:
        if one.subject in PLAYED and one.new is not None:
            yield Event(one.time, f"{one.subject} made")


def _list_removed(recording: Recording) -> Iterator[Event]:
    """What KubeRay deleted: not what others did, nor what went with its owner."""
    acted_at, clusters, action = -float(SHADOW), 0, ""
    there: set[str] = set()  # pods
    orphans: set[str] = set()  # that go with a cluster which somebody deleted
    for one in recording.steps:
        if one.action and not one.action.startswith("observed"):
            acted_at, action = one.time, one.action
        if one.kind == "RayJob" and one.is_deleting:
            return
        if one.kind == "RayCluster":
            clusters += (one.new is not None) - one.is_gone
        is_acted = one.time - acted_at < SHADOW
        if one.kind != "Pod":
            is_by_hand = one.kind == "RayCluster" and is_acted and action == DELETE_CLUSTER
            is_removed = one.is_gone and not is_by_hand
            orphans |= there if is_by_hand else set()
        elif one.key in orphans:
            is_removed = False
        else:
            there.add(one.key)
            is_removed = one.is_deleting and clusters > 0 and not is_acted
        if one.subject in PLAYED and is_removed and not is_disrupted(one):
            yield Event(one.time, f"{one.subject} removed")


def is_disrupted(step: Step) -> bool:
    """Whether something of Kubernetes' own took a pod."""
    return any(one["type"] == "DisruptionTarget" for one in step.status.get("conditions", ()))
