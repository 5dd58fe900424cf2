"""Plans the teardown if a RayJob is deleted before its recording ends.

The module must not depend on how a step is played.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from played_objects import end_ordinarily
from recordings import Step

KINDS = ("RayJob", "RayCluster", "Job", "Pod")  # in the order of a teardown
ENDED = {"Succeeded", "Failed"}


def plan_teardown(alive: Mapping[str, Step], left: Sequence[Step]) -> list[Step]:
    """Return the steps that remove all existing objects, based on the remaining recorded steps.

    Owners are removed first, as in every recording. A pod that is terminating, or that the recorded
    teardown deletes, ends as recorded. All other running pods get the usual end.
    """
    owners = [step for kind in KINDS[:-1] for step in alive.values() if step.kind == kind]
    pods = [step for step in alive.values() if step.kind == "Pod"]
    ends = [step for pod in pods for step in list_end(pod, left)]
    return [*(take_away(step) for step in owners), *sorted(ends, key=lambda step: step.time)]


def list_end(pod: Step, left: Sequence[Step]) -> list[Step]:
    """Return the remaining steps of a pod. The last step removes the pod."""
    mine = [step for step in left if step.key == pod.key]
    begun = next((step.time for step in left if is_teardown(step)), math.inf)
    if not pod.is_going:
        starts = [at for at, step in enumerate(mine) if step.is_deleting and step.time >= begun]
        mine = mine[starts[0] :] if starts else []
        if not mine and is_running(pod):
            ended = end_ordinarily(pod.status)
            mine = [replace(pod, new=None, status=ended, is_deleting=True, is_going=True)]
    last = mine[-1] if mine else pod
    return mine if last.is_gone else [*mine, take_away(last)]


def is_teardown(step: Step) -> bool:
    """Return True if the step begins the removal of the whole cluster."""
    return (step.kind == "RayCluster" and step.is_gone) or (
        step.kind == "RayJob" and step.is_deleting
    )


def is_running(pod: Step) -> bool:
    """Return True if a pod has started containers and has not ended."""
    return pod.status.get("phase") not in ENDED and "containerStatuses" in pod.status


def take_away(step: Step) -> Step:
    """Return a step that removes an object in its current state."""
    return Step(
        step.time,
        step.kind,
        step.name,
        step.subject,
        status=step.status,
        is_going=True,
        is_gone=True,
        marks=frozenset({f"{step.subject} gone"}),
    )
