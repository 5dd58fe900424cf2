"""Summarizes a pipeline: its phase, its state for people, and the result of its run.

This module must not depend on conditions, except `Succeeded`.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline_api.api_model import evolve
from strandline_api.notation.times import format_time
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.enums import AttemptPhase, PipelinePhase
from strandline_api.status.pipeline_status import PipelineStatus, Progress
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.attempts.ending import read_progress
from strandline_operator.decide.conditions import Truth
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.obstacles.volumes.output import examine_storage
from strandline_operator.decide.run.report.brief import (
    list_block_forms,
    list_failure_forms,
    list_queue_forms,
    list_wait_forms,
)
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict
from strandline_operator.model.view import AttemptObject

_REASONS = {
    AttemptPhase.PENDING: Reason.PENDING,
    AttemptPhase.QUEUED: Reason.QUEUED,
    AttemptPhase.STARTING: Reason.STARTING,
    AttemptPhase.RUNNING: Reason.RUNNING,
    AttemptPhase.DRAINING: Reason.DRAINING,
    AttemptPhase.HELD: Reason.HELD,
    AttemptPhase.TEARING_DOWN: Reason.TEARING_DOWN,
}
_BEFORE_RUNNING = frozenset({AttemptPhase.PENDING, AttemptPhase.QUEUED, AttemptPhase.STARTING})


class ConditionSummary(NamedTuple):
    """Summary of a pipeline.

    Attributes:
        phase: phase of the pipeline.
        truth: status of the condition `Succeeded`.
        reason: reason of the condition `Succeeded`.
        message: message of the condition `Succeeded`.
        state: the current activity, for people; None to keep the previous state.
        forms: shorter forms of the state. The last form fits into a terminal column.
    """

    phase: PipelinePhase
    truth: Truth
    reason: str
    message: str
    state: str | None = None
    forms: tuple[str, ...] = ()


def report_progress(facts: Pass, standing: PassState) -> Verdict:
    """Copy the newest attempt's progress and latest publication to the pipeline's status."""
    del facts
    newest = standing.newest
    # Keep the previous run's progress until an attempt exists.
    if newest is None:
        return Verdict()
    attempt, before = newest.status, standing.status
    progress = read_progress(attempt, attempt.end_time) or attempt.progress
    is_new = progress is not None and not _is_behind(before.progress, progress)
    # Do not show a lower count while a new attempt is still listing its sources.
    if not is_new:
        progress = before.progress
    return Verdict(evolve(before, progress=progress, latest=attempt.latest or before.latest))


def _is_behind(before: Progress | None, progress: Progress) -> bool:
    """Return True if an attempt that is listing sources is behind the previous count."""
    return before is not None and progress.total is None and progress.finished < before.finished


def sum_up(facts: Pass, standing: PassState) -> ConditionSummary:
    """Return the summary of a pipeline in this pass."""
    status = standing.status
    # A running attempt is more important than an attempt that is due afterwards.
    if standing.active is not None:
        return _sum_up_attempt(facts, standing, standing.active)
    if status.next_attempt_time is not None:
        return _sum_up_wait(facts, standing, status.next_attempt_time)
    # While the namespace's defaults are unreadable, an ended attempt is not counted yet.
    if standing.is_uncounted:
        return _sum_up_wait(facts, standing, facts.now)
    # The last attempt failed and no attempt is due, so no retry follows.
    if status.retry_cause is not None:
        message = status.state or f"the last attempt ended with {status.retry_cause}"
        cause = status.retry_cause.value
        forms = list_failure_forms(message, cause)
        return ConditionSummary(
            PipelinePhase.FAILED, "False", cause, message, status.state, (message, *forms)
        )
    return _sum_up_success(status)


def _sum_up_success(status: PipelineStatus) -> ConditionSummary:
    progress = status.progress or Progress()
    # The driver of the last attempt may have reported no counts.
    counts = f" ({progress.text})" if progress.total is not None else ""
    redone = progress.redone
    suffix = counts
    suffix += f", {redone} source{'s' * (redone != 1)} processed again" if redone else ""
    message = f"run {status.run!r} completed{suffix}"
    due = status.schedule.next_time if status.schedule else None
    follows = f", next run at {format_time(due)}" if due is not None else ""
    forms = tuple(f"completed{each}" for each in (f"{suffix}{follows}", f"{counts}{follows}"))
    return ConditionSummary(
        PipelinePhase.SUCCEEDED,
        "True",
        Reason.COMPLETED,
        message,
        f"{message}{follows}",
        (*forms, f"completed{follows}"),
    )


def _sum_up_attempt(facts: Pass, standing: PassState, active: AttemptObject) -> ConditionSummary:
    """Summarize a pipeline with a running attempt."""
    attempt: AttemptStatus = active.status
    block = _specify(facts, standing.decided.block)
    is_early = attempt.phase in _BEFORE_RUNNING
    phase = PipelinePhase.PENDING if is_early else PipelinePhase.RUNNING
    if block is not None:
        what = block.detail if _is_of_room(block) else block.message
        name = f"attempt {active.spec.number}: "
        forms = list_block_forms(block, name)
        if block.reason is Reason.QUEUED:
            what, forms = f"queued in {block.detail}", list_queue_forms(block, name)
        return ConditionSummary(
            phase, "Unknown", block.reason, block.message, f"{name}{what}", forms
        )
    if attempt.phase is AttemptPhase.HELD:
        return _sum_up_held(active)
    reason = _REASONS.get(attempt.phase, Reason.RUNNING)
    brief = state = f"attempt {active.spec.number}: {attempt.phase.value}"
    # Show reprocessing early, so that the user can stop an edit that reprocesses more than
    # intended.
    redone = attempt.progress.redone if attempt.progress else 0
    state += f", {redone} source{'s' * (redone != 1)} processed again" if redone else ""
    message = f"{state}; {attempt.message}".rstrip("; ")
    return ConditionSummary(phase, "Unknown", reason, message, state, (brief,))


def _specify(facts: Pass, block: Block | None) -> Block | None:
    """Return the obstacle, but use the claim's own reason if a pod waits for a claim.

    The claim's condition distinguishes a lost, a deleted, and a missing claim.
    """
    if block is None or block.reason is not Reason.CLAIM_PENDING:
        return block
    storage = examine_storage(facts)
    is_exact = storage.truth == "False" and not storage.is_usable
    return Block(storage.reason, f"{storage.detail}; {block.detail}") if is_exact else block


def _is_of_room(block: Block) -> bool:
    """Return True if the obstacle is missing capacity, which may last for hours."""
    return block.reason in {Reason.NO_ROOM, Reason.NODE_ON_ITS_WAY}


def _sum_up_held(active: AttemptObject) -> ConditionSummary:
    """Summarize a failed run with held pods. Its cause becomes final only after the hold."""
    until = format_time(round(active.status.held_until or 0))
    state = (
        f"attempt {active.spec.number} failed with {active.status.cause} and is not retried; its "
        f"pods are kept until {until}"
    )
    message = Reason.HELD.explain(f"{state}; {active.status.message}")
    brief = f"failed with {active.status.cause}; pods kept until {until[11:]}"
    return ConditionSummary(PipelinePhase.FAILED, "Unknown", Reason.HELD, message, state, (brief,))


def _sum_up_wait(facts: Pass, standing: PassState, due: float) -> ConditionSummary:
    """Summarize a pipeline with an attempt that is due now or later."""
    status, block = standing.status, standing.decided.block
    suspended = Reason.SUSPENDED.explain()
    # A user's suspension explains the wait, so do not report obstacles.
    if facts.spec.suspend:
        return ConditionSummary(
            PipelinePhase.SUSPENDED,
            "Unknown",
            Reason.SUSPENDED,
            suspended,
            suspended,
            ("suspended; set `suspend` to false to resume",),
        )
    if block is not None:
        is_wait = block.reason is Reason.WAITS_FOR_PIPELINES
        state = f"waits for {block.detail}" if is_wait else block.message
        forms = list_wait_forms(block) if is_wait else list_block_forms(block)
        return ConditionSummary(
            PipelinePhase.PENDING, "Unknown", block.reason, block.message, state, forms
        )
    if not facts.view.turn.is_open and due <= facts.now:
        # The limit prevents starts either for a while, or permanently if the limit is 0.
        is_stopped = facts.view.turn.opens_at is None
        hold_reason = Reason.DISPATCH_STOPPED if is_stopped else Reason.RETRIES_HELD_BACK
        words = hold_reason.explain()
        forms = ("waits for its turn: too many attempts are starting",)
        if is_stopped:
            forms = ("the operator starts no attempts: its limit is 0",)
        return ConditionSummary(PipelinePhase.WAITING, "Unknown", hold_reason, words, words, forms)
    # Before a run's first attempt, there is nothing to retry.
    if status.retry_cause is None and all(past.run != status.run for past in status.attempts):
        pending = Reason.PENDING
        state = f"run {status.run!r} is about to start" if status.attempts else ""
        return ConditionSummary(
            PipelinePhase.PENDING,
            "Unknown",
            pending,
            pending.meaning,
            state,
            ("the run is about to start",),
        )
    state = _word_wait(facts, status, due)
    waiting = Reason.WAITING_TO_RETRY
    # Shorten the state to the sentence about the retry. A memory limit may follow it.
    forms = (state.partition("; ")[0], f"next attempt at {format_time(due)}")
    return ConditionSummary(PipelinePhase.WAITING, "Unknown", waiting, state, state, forms)


def _word_wait(facts: Pass, status: PipelineStatus, due: float) -> str:
    """Describe the wait for the next attempt, with cause and budget from the retry policy.

    Replace a state that described an obstacle or suspension that has ended.
    """
    before = facts.view.pipeline.status
    former = before.find_condition(ConditionType.SUCCEEDED)
    was_wait = former is not None and former.reason == Reason.WAITING_TO_RETRY
    # Keep the sentence from the retry policy, because cause and budget are not available here.
    if status.state and (was_wait or status.state != before.state):
        return status.state
    after = f" after {status.retry_cause}" if status.retry_cause is not None else ""
    return f"next attempt at {format_time(due)}{after}"
