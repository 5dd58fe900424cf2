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
    let_go = next((event.time for event in events if event.words == "RayJob let go"), None)
    # What comes after goes with it.
    kept = [event for event in events if let_go is None or event.time <= let_go]
    return sorted(kept, key=lambda one: one.time)


def _list_phases(recording: Recording) -> Iterator[Event]:
    phase = tell_phase({})
    for step in recording.steps:
        if step.kind == "RayJob" and step.is_gone:
            yield Event(step.time, "RayJob let go")
        elif step.kind == "RayJob" and tell_phase(step.status) != phase:
            phase = tell_phase(step.status)
            yield Event(step.time, phase)


def _list_made(recording: Recording) -> Iterator[Event]:
    for step in recording.steps:
        if step.subject in PLAYED and step.new is not None:
            yield Event(step.time, f"{step.subject} made")


def _list_removed(recording: Recording) -> Iterator[Event]:
    """What KubeRay deleted: not what others did, nor what went with its owner."""
    acted_at, clusters, action = -float(SHADOW), 0, ""
    there: set[str] = set()  # pods
    orphans: set[str] = set()  # that go with a cluster which somebody deleted
    for step in recording.steps:
        if step.action and not step.action.startswith("observed"):
            acted_at, action = step.time, step.action
        if step.kind == "RayJob" and step.is_deleting:
            return
        if step.kind == "RayCluster":
            clusters += (step.new is not None) - step.is_gone
        is_acted = step.time - acted_at < SHADOW
        if step.kind != "Pod":
            is_by_hand = step.kind == "RayCluster" and is_acted and action == DELETE_CLUSTER
            is_removed = step.is_gone and not is_by_hand
            orphans |= there if is_by_hand else set()
        elif step.key in orphans:
            is_removed = False
        else:
            there.add(step.key)
            is_removed = step.is_deleting and clusters > 0 and not is_acted
        if step.subject in PLAYED and is_removed and not is_disrupted(step):
            yield Event(step.time, f"{step.subject} removed")


def is_disrupted(step: Step) -> bool:
    """Whether something of Kubernetes' own took a pod."""
    return any(
        condition["type"] == "DisruptionTarget" for condition in step.status.get("conditions", ())
    )
