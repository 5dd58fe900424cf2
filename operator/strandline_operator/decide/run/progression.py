"""Advances a run by one step: the newest attempt continues, and older attempts end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from strandline_api.api_model import evolve
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_operator.decide.attempts.attempt import follow
from strandline_operator.decide.attempts.departures import list_departures
from strandline_operator.decide.attempts.fallback import time_shortages
from strandline_operator.decide.run.deadline import describe_run_deadline, find_run_end
from strandline_operator.decide.run.dispatch import is_launchable, launch
from strandline_operator.decide.run.hold import find_hold
from strandline_operator.decide.run.requests import describe_cancel, find_requests
from strandline_operator.decide.run.sequence import SUSPEND
from strandline_operator.decide.scene import Pass, Scene
from strandline_operator.decide.verdict import PassState, Verdict
from strandline_operator.integrations.schedulers import has_queue
from strandline_operator.model.plan import Create, Resource

StopRequest = Callable[[Pass, PassState], Evidence | None]


def end_others(facts: Pass, standing: PassState) -> Verdict:
    """End older attempts: a restored backup may contain open attempts, but only one may run."""
    del standing
    replaced = Evidence(Cause.INTERRUPTED, "a newer attempt replaced this one", SUSPEND)
    verdict = Verdict()
    for attempt in facts.view.attempts[:-1]:
        if not attempt.status.is_frozen:
            step = follow(Scene.from_facts(facts, attempt), replaced)
            # Drop the obstacle and the wake time of an older attempt, which must neither block nor
            # wake the run.
            verdict = verdict.then(
                Verdict(attempts={attempt.meta.name: step.status}, actions=step.actions)
            )
    return verdict


def launch_newest(facts: Pass, standing: PassState) -> Verdict:
    """Create the RayJob of the newest attempt, unless it existed before or a stop is requested."""
    scene = facts.scene
    # If a stop was requested, a RayJob would be torn down immediately.
    if scene is None or not is_launchable(scene) or _find_desired(facts, standing) is not None:
        return Verdict()
    return launch(facts, scene)


def note_shortages(facts: Pass, standing: PassState) -> Verdict:
    """Record since when pods have lacked spot nodes, in this attempt or in earlier attempts."""
    scene = facts.scene
    if scene is None or scene.status.end_time is not None:
        return Verdict()
    spot = time_shortages(scene, standing.status.spot)
    return Verdict(evolve(standing.status, spot=spot))


def follow_newest(facts: Pass, standing: PassState) -> Verdict:
    """Advance the newest attempt: watch, end, or tear it down."""
    scene, stop = facts.scene, _find_desired(facts, standing)
    if scene is None:
        return Verdict()
    # Manifests derive from the spec, so an attempt waits while the spec is unreadable.
    if stop is None and is_launchable(scene) and facts.view.pipeline.spec is None:
        return Verdict()
    scene = replace(scene, is_launched=_is_launched(facts, standing))
    # An attempt that ends anyway does not need a pass at the run's deadline.
    ends_at = find_run_end(facts, standing.status) if stop is None else None
    step = follow(scene, stop, find_hold(facts, standing))
    # The view does not contain a ConfigMap that this pass records, so take the record from
    # `standing`.
    config = standing.newest.status.config if standing.newest else None
    status = evolve(step.status, config=config or step.status.config)
    return Verdict(
        attempts={scene.attempt.meta.name: status},
        actions=step.actions,
        wakes=(ends_at, step.wake_at),
        block=step.block,
    )


def _is_launched(facts: Pass, standing: PassState) -> bool:
    """Return True if the attempt starts in this pass.

    The pass writes the phase in advance, so that the pass after the creation need not write it.
    """
    # A queue would hold the RayJob, and after a rejected request, it may be rejected again.
    if facts.view.refusals or has_queue(facts.spec.ray, facts.view.pipeline.meta.labels):
        return False
    creates = (action for action in standing.decided.actions if isinstance(action, Create))
    return any(create.resource is Resource.RAYJOB for create in creates)


def _find_desired(facts: Pass, standing: PassState) -> Evidence | None:
    """Return the pipeline's reason to end the attempt. The attempt may have other reasons."""
    return next(
        (desired for find in _STOP_REQUESTS if (desired := find(facts, standing)) is not None), None
    )


def _find_cancel(facts: Pass, standing: PassState) -> Evidence | None:
    token = find_requests(facts, standing.status).cancel
    return Evidence(Cause.USER_CANCELLED, describe_cancel(token), "user") if token else None


def _find_suspension(facts: Pass, standing: PassState) -> Evidence | None:
    del standing
    if not facts.spec.suspend:
        return None
    return Evidence(Cause.INTERRUPTED, "the pipeline was suspended", SUSPEND)


def _find_run_deadline(facts: Pass, standing: PassState) -> Evidence | None:
    ends_at = find_run_end(facts, standing.status)
    if ends_at is None or facts.now <= ends_at:
        return None
    message = describe_run_deadline(facts.spec)
    return Evidence(Cause.DEADLINE_EXCEEDED, message, "deadline", time=ends_at)


# The first match ends the attempt. A cancellation comes first, because a cancelled run must not be
# resumed.
_STOP_REQUESTS: tuple[StopRequest, ...] = (_find_cancel, _find_suspension, _find_run_deadline)


def warn_driver(facts: Pass, _: PassState) -> Verdict:
    """Notify the driver of the running attempt about nodes that are about to be removed."""
    scene = facts.scene
    return Verdict() if scene is None else Verdict(departures=tuple(list_departures(scene)))
