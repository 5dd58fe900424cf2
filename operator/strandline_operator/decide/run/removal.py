"""Deletes old attempts, and all running objects of a deleted pipeline.

The finalizer keeps the pipeline while it may have pods. This module must not depend on why an
attempt ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline_api.names import FINALIZER
from strandline_api.objects.attempt import AttemptStatus
from strandline_operator.decide.run.report.conditions import report_deletion
from strandline_operator.decide.scene import Pass, describe_wait, part_pods
from strandline_operator.decide.verdict import PassState, Verdict
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import Action, Delete, Resource, SetFinalizer


def remove(facts: Pass, standing: PassState) -> Verdict:
    """Delete all running objects of a deleted pipeline, then remove its finalizer.

    A user's claim is kept; the API server's garbage collection deletes the pipeline's own claim.
    The finalizer is removed once the pods are gone, even if KubeRay does not release a RayJob.
    """
    view = facts.view
    # Only finalizers of other programs still keep the pipeline.
    if FINALIZER not in view.pipeline.meta.finalizers:
        return Verdict()
    pods, _ = part_pods(view)
    # If KubeRay is not running, its finalizer would keep RayJobs and clusters forever, so delete
    # clusters and pods directly.
    kinds = (
        (Resource.RAYJOB, view.rayjobs),
        (Resource.RAYCLUSTER, view.rayclusters),
        (Resource.POD, pods),
    )
    actions: tuple[Action, ...] = tuple(
        Delete(resource, leftover.meta.name, leftover.meta.uid)
        for resource, objects in kinds
        for leftover in objects
        if not leftover.meta.is_deleting
    )
    wake = Verdict(wakes=(facts.now + facts.limits.settle,))
    # Nothing writes to the volume once all pods are gone.
    if not pods:
        freed = Verdict(actions=(*actions, SetFinalizer(is_set=False)))
        return freed.then(report_deletion(facts, standing, "")).then(wake)
    names = ", ".join(pod.meta.name for pod in pods[:3])
    wait = describe_wait(pods, view.nodes)
    reported = report_deletion(
        facts, standing, f"Not deleted yet: {names}{f'; it {wait}' if wait else ''}."
    )
    return Verdict(actions=actions).then(reported).then(wake)


def trim_history(facts: Pass, standing: PassState) -> Verdict:
    """Delete old attempts, except the newest attempt and uncounted attempts."""
    past_attempts = [
        attempt
        for attempt in standing.attempts[:-1]
        if attempt.spec.number <= standing.through and attempt.status.is_frozen
    ]
    beyond = max(0, len(standing.attempts) - facts.spec.attempt_history_limit)
    times = [_find_time(facts, attempt.status) for attempt in past_attempts]
    doomed = [
        attempt.meta
        for index, (attempt, time) in enumerate(zip(past_attempts, times, strict=True))
        if index < beyond or (time is not None and facts.now >= time)
    ]
    return Verdict(actions=tuple(_delete(doomed)), wakes=tuple(times))


def _find_time(facts: Pass, status: AttemptStatus) -> float | None:
    """Return when the retention period of an ended attempt expires, or None if it is unlimited."""
    longest, end_time = facts.spec.ttl_after_finished_seconds, status.end_time
    return None if longest is None or end_time is None else end_time + longest


def _delete(attempts: list[Meta]) -> Iterator[Action]:
    for meta in attempts:
        if not meta.is_deleting:
            yield Delete(Resource.ATTEMPT, meta.name, meta.uid)


def guard(facts: Pass, standing: PassState) -> Verdict:
    """Set the finalizer while the pipeline may have pods, and remove it afterwards."""
    is_held = FINALIZER in facts.view.pipeline.meta.finalizers
    # A due attempt needs the finalizer before it is created.
    is_needed = standing.active is not None or standing.status.next_attempt_time is not None
    return Verdict() if is_held == is_needed else Verdict(actions=(SetFinalizer(is_set=is_needed),))
