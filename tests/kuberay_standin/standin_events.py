"""Actions of KubeRay, or its stand-in, on a RayJob, as a list of events.

- `RayJob Running/RUNNING/`: jobDeploymentStatus, jobStatus, and reason, after a change of any;
- `head made`, `worker removed`, `RayCluster removed`, `Job made`: objects, with pods by their role;
- `RayJob let go`: the finalizer was removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kuberay_standin.objects import Json
from recordings import Recording, Step

PLAYED = {"RayCluster", "Job", "head", "worker"}
# Within this many seconds after an action of the recorder, a pod's deletion may be a result of the
# action.
SHADOW = 2
DELETE_CLUSTER = "delete raycluster"


@dataclass(frozen=True, slots=True)
class Event:
    """An action of KubeRay, or its stand-in, `time` seconds after the start."""

    time: float
    words: str


def tell_phase(status: Json) -> str:
    """Return the words of a RayJob's status that the operator's decisions use."""
    parts = (status.get(key) or "" for key in ("jobDeploymentStatus", "jobStatus", "reason"))
    return "RayJob " + "/".join(parts)


def list_recorded(recording: Recording) -> list[Event]:
    """Return KubeRay's actions in a recording, without deletions by others and their effects."""
    events = [*_list_phases(recording), *_list_made(recording), *_list_removed(recording)]
    let_go = next((event.time for event in events if event.words == "RayJob let go"), None)
    # Later events are part of the RayJob's deletion.
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
    """Yield KubeRay's deletions, without the deletions by others and by garbage collection."""
    acted_at, clusters, action = -float(SHADOW), 0, ""
    there: set[str] = set()  # pods
    orphans: set[str] = set()  # pods of a cluster that the recorder deleted
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
    """Return True if Kubernetes itself disrupted a pod."""
    return any(
        condition["type"] == "DisruptionTarget" for condition in step.status.get("conditions", ())
    )
