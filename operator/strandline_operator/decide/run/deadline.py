"""Applies the deadline of a run, and ends a run whose deadline passes between attempts.

Paused time does not count: time suspended, in a queue, before predecessors have finished, or
without capacity for an attempt. Waits for a retry, a quota, or a volume do count. This module must
not depend on why an attempt ended.
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
    """Record whether the run's clock is paused."""
    status, scene = standing.status, facts.scene
    # Skip a finished run: counting its time would change its status forever.
    if scene is None and status.next_attempt_time is None:
        return Verdict()
    is_queued = scene is not None and scene.is_queued
    is_waiting = scene is None and find_predecessors(facts) is not None
    is_paused = facts.spec.suspend or is_queued or is_waiting or _is_dry(scene)
    # Create the clock only at the first pause, because most runs have no pause.
    if status.run_clock is None and not is_paused:
        return Verdict()
    clock = (status.run_clock or RunClock()).tick(facts.now, is_paused=is_paused)
    return Verdict(evolve(status, run_clock=clock))


def _is_dry(scene: Scene | None) -> bool:
    """Return True if an attempt lacks the capacity to start. A running attempt is never paused."""
    if scene is None or scene.status.end_time is not None:
        return False
    return bool(scene.status.no_room_since) and scene.status.running_time is None


def find_run_end(facts: Pass, status: PipelineStatus) -> float | None:
    """Return when the run's deadline passes, in seconds since the epoch.

    Return None if the run has no deadline, or if its start is unknown.
    """
    longest, start_time = facts.spec.deadlines.run_seconds, status.run_start_time
    # If the status was lost, the start time is unknown.
    if longest is None or start_time is None:
        return None
    clock = status.run_clock
    return start_time + longest + (clock.count_paused(facts.now) if clock else 0.0)


def describe_run_deadline(spec: PipelineSpec) -> str:
    """Return the message of a run that exceeded its deadline."""
    return f"the run took longer than deadlines.run allows: {spec.deadlines.run_seconds:g} s"


def expire(facts: Pass, standing: PassState) -> Verdict:
    """End a run whose deadline has passed while it waits for the next attempt."""
    status = standing.status
    ends_at = find_run_end(facts, status)
    # A suspended run must not end, because suspending stops the clock.
    if status.next_attempt_time is None or facts.spec.suspend or ends_at is None:
        return Verdict()
    # Request a pass at the deadline, because no event announces it.
    if facts.now <= ends_at:
        return Verdict(wakes=(ends_at,))
    message, obstacle = describe_run_deadline(facts.spec), find_hindrance(facts)
    obstacle = obstacle or read_refusals(facts.view.refusals)
    if obstacle is not None:
        message += f"; the next attempt had not started: {obstacle.sentence}"
    over = withdraw_attempt(status, Cause.DEADLINE_EXCEEDED, message)
    return Verdict(over, events=(warn(EventReason.RUN_FAILED, message),))
