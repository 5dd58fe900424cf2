"""The deadline of a run: what counts towards it, and its end where no attempt is under way.

Time in which somebody holds the run back, by `suspend` or in a queue, does not count. Waits for a
retry, a quota or a volume do. This room must not know what ends an attempt.
"""

from __future__ import annotations

from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.run_clock import RunClock
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.decide.scene import Scene
from strandline_operator.model.view import AttemptView


def keep_time(draft: Draft, spec: PipelineSpec, current: AttemptView | None) -> None:
    """Note whether the run stands still; one that is over has no time to count."""
    active = current if current and not draft.status_of(current).is_frozen else None
    if active is None and draft.status.next_attempt_time is None:
        return
    is_queued = active is not None and Scene.of(draft.view, active).is_queued
    is_paused = spec.suspend or is_queued
    known = draft.status.run_clock
    if known is None and not is_paused:
        return
    draft.update(run_clock=(known or RunClock()).tick(draft.now, is_paused=is_paused))


def find_run_end(draft: Draft, spec: PipelineSpec) -> float | None:
    """When the run must be over, in seconds since the epoch; None: never, as far as we know."""
    longest, begun = spec.deadlines.run_seconds, draft.status.run_start_time
    if longest is None or begun is None:
        return None
    clock = draft.status.run_clock
    return begun + longest + (clock.count_paused(draft.now) if clock else 0.0)


def describe_run_deadline(spec: PipelineSpec) -> str:
    """The sentence of a run that took too long."""
    return f"the run took longer than deadlines.run allows: {spec.deadlines.run_seconds:g} s"


def expire(draft: Draft, spec: PipelineSpec) -> None:
    """End a run whose time is over while it waits, so that nothing is waited for without end."""
    ends_at = find_run_end(draft, spec)
    if draft.status.next_attempt_time is None or spec.suspend or ends_at is None:
        return
    if draft.now <= ends_at:
        draft.wake(ends_at)
        return
    message = describe_run_deadline(spec)
    cause = Cause.DEADLINE_EXCEEDED
    draft.update(next_attempt_time=None, retry_trigger=None, retry_cause=cause, state=message)
    draft.tell(EventReason.RUN_FAILED, message, is_warning=True)
