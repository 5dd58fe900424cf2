"""The deadline of a run: what counts towards it, and its end where no attempt is under way.

Time in which the run is held back, by `suspend`, in a queue or by a pipeline that has to
succeed before, does not count, nor does time in which no node has room for an attempt. Waits for a
retry, a quota or a volume do. This room must not know what ends an attempt.
"""

from __future__ import annotations

from strandline_api.api_model import evolve
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.usage.run_clock import RunClock
from strandline_operator.decide.obstacles.obstacles import read_refusals
from strandline_operator.decide.obstacles.predecessors import find_predecessors
from strandline_operator.decide.run.dispatch import find_hindrance, withdraw_attempt
from strandline_operator.decide.scene import Pass, Scene
from strandline_operator.decide.verdict import PassState, Verdict, warn


def keep_time(facts: Pass, standing: PassState) -> Verdict:
    """Note whether the run stands still."""
    status, scene = standing.status, facts.scene
    # A run that is over has no time to count, and its status would change without end.
    if scene is None and status.next_attempt_time is None:
        return Verdict()
    is_queued = scene is not None and scene.is_queued
    is_waiting = scene is None and find_predecessors(facts) is not None
    is_paused = facts.spec.suspend or is_queued or is_waiting or _is_dry(scene)
    # The clock begins with the first pause: most runs have none, and need no field for it.
    if status.run_clock is None and not is_paused:
        return Verdict()
    clock = (status.run_clock or RunClock()).tick(facts.now, is_paused=is_paused)
    return Verdict(evolve(status, run_clock=clock))


def _is_dry(scene: Scene | None) -> bool:
    """Return whether an attempt can't begin for want of room; one that runs is no pause."""
    if scene is None or scene.status.end_time is not None:
        return False
    return bool(scene.status.no_room_since) and scene.status.running_time is None


def find_run_end(facts: Pass, status: PipelineStatus) -> float | None:
    """Return when the run must be over, in seconds since the epoch.

    None: never, as far as we know.
    """
    longest, start_time = facts.spec.deadlines.run_seconds, status.run_start_time
    # A lost status has no beginning, so how long the run took is unknown.
    if longest is None or start_time is None:
        return None
    clock = status.run_clock
    return start_time + longest + (clock.count_paused(facts.now) if clock else 0.0)


def describe_run_deadline(spec: PipelineSpec) -> str:
    """Describe the sentence of a run that took too long."""
    return f"the run took longer than deadlines.run allows: {spec.deadlines.run_seconds:g} s"


def expire(facts: Pass, standing: PassState) -> Verdict:
    """End a run whose time is over while it waits, so that nothing is waited for without end."""
    status = standing.status
    ends_at = find_run_end(facts, status)
    # A suspended run's time stands still: the run must not end while a user holds it back.
    if status.next_attempt_time is None or facts.spec.suspend or ends_at is None:
        return Verdict()
    # The run's end brings about a pass of its own.
    if facts.now <= ends_at:
        return Verdict(wakes=(ends_at,))
    message, obstacle = describe_run_deadline(facts.spec), find_hindrance(facts)
    obstacle = obstacle or read_refusals(facts.view.refusals)
    if obstacle is not None:
        message += f"; the next attempt had not started: {obstacle.sentence}"
    over = withdraw_attempt(status, Cause.DEADLINE_EXCEEDED, message)
    return Verdict(over, events=(warn(EventReason.RUN_FAILED, message),))
