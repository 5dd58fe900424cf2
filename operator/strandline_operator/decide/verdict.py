"""Verdicts of deciders, which are combined into the plan of a pass.

All values are immutable: combining two verdicts creates a new verdict. This module must not depend
on the contents of decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeVar

from strandline_api.api_model import evolve
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Pass
from strandline_operator.model.plan import (
    Action,
    Count,
    Departure,
    EventDraft,
    Grow,
    PassPlan,
    SetFinalizer,
)
from strandline_operator.model.view import AttemptObject, View

# Seconds between full passes, in case the operator missed a change.
_REST_SECONDS = 600.0
Status = TypeVar("Status", AttemptStatus, PipelineStatus)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one or more deciders. An empty verdict changes nothing.

    Attributes:
        status: new status of the pipeline, or None if unchanged.
        attempts: new statuses of attempts, by name.
        block: an obstacle that needs a change from outside. The first obstacle is reported.
        actions, events, counts, audit, departures: as in `PassPlan`.
        wakes: times of further passes; past times and None are ignored.
        is_at_rest: whether only the pipeline itself can change anything before the next wake.
    """

    status: PipelineStatus | None = None
    attempts: Mapping[str, AttemptStatus] = field(default_factory=dict)
    block: Block | None = None
    actions: tuple[Action, ...] = ()
    events: tuple[EventDraft, ...] = ()
    counts: tuple[Count, ...] = ()
    audit: tuple[str, ...] = ()
    departures: tuple[Departure, ...] = ()
    wakes: tuple[float | None, ...] = ()
    is_at_rest: bool = False

    def then(self, later: Verdict) -> Verdict:
        """Combine this verdict with a later verdict, whose statuses take precedence."""
        return Verdict(
            status=self.status if later.status is None else later.status,
            attempts={**self.attempts, **later.attempts},
            block=self.block or later.block,
            actions=self.actions + later.actions,
            events=self.events + later.events,
            counts=self.counts + later.counts,
            audit=self.audit + later.audit,
            departures=self.departures + later.departures,
            wakes=self.wakes + later.wakes,
            is_at_rest=self.is_at_rest or later.is_at_rest,
        )


@dataclass(frozen=True, slots=True)
class PassState:
    """State for the next decider: the view, and the changes decided so far."""

    view: View
    decided: Verdict = field(default_factory=Verdict)

    @property
    def status(self) -> PipelineStatus:
        """The pipeline's status, including changes decided so far."""
        decided = self.decided.status
        return self.view.pipeline.status if decided is None else decided

    @property
    def attempts(self) -> tuple[AttemptObject, ...]:
        """The attempts in order of number. Statuses include the changes decided so far."""
        changed = self.decided.attempts
        return tuple(
            replace(attempt, status=changed.get(attempt.meta.name, attempt.status))
            for attempt in self.view.attempts
        )

    @property
    def newest(self) -> AttemptObject | None:
        """The attempt with the highest number, or None if there are no attempts."""
        attempts = self.attempts
        return attempts[-1] if attempts else None

    @property
    def active(self) -> AttemptObject | None:
        """The newest attempt, or None if it is frozen."""
        newest = self.newest
        return None if newest is None or newest.status.is_frozen else newest

    @property
    def is_uncounted(self) -> bool:
        """Return True if an attempt has ended that the run has not counted yet."""
        newest = self.newest
        number = max(self.status.attempt, newest.spec.number if newest is not None else 0)
        return self.active is None and number > self.through

    @property
    def through(self) -> int:
        """Number of the last attempt that was counted."""
        return self.status.retries.through if self.status.retries else 0


Decider = Callable[[Pass, PassState], Verdict]


def fold(facts: Pass, deciders: Iterable[Decider]) -> PassPlan:
    """Call the deciders in order, pass on the results of earlier deciders, and return the plan."""
    decided = Verdict()
    for decider in deciders:
        decided = decided.then(decider(facts, PassState(facts.view, decided)))
    return _make_plan(facts, decided)


def add_event(reason: EventReason, message: str, attempt: str | None = None) -> EventDraft:
    """Return an event about the pipeline, or about the named attempt."""
    return EventDraft(reason.value, message, attempt=attempt)


def warn(reason: EventReason, message: str) -> EventDraft:
    """Return a warning event about the pipeline."""
    return EventDraft(reason.value, message, is_warning=True)


def _make_plan(facts: Pass, decided: Verdict) -> PassPlan:
    """Return the plan, which contains only statuses that changed."""
    pipeline = _find_pipeline_change(facts, decided)
    attempts = _find_attempt_changes(facts, decided)
    pause = max(facts.limits.resync, _REST_SECONDS if decided.is_at_rest else 0.0)
    # Ignore times in the past.
    wakes = [time for time in decided.wakes if time is not None and time > facts.now]
    return PassPlan(
        pipeline=pipeline,
        attempts=attempts,
        actions=tuple(sorted(decided.actions, key=_rank)),
        events=decided.events,
        counts=decided.counts,
        audit=decided.audit,
        departures=decided.departures,
        wake_at=min([*wakes, facts.now + pause]),
        is_at_rest=decided.is_at_rest and pipeline is None and not attempts,
    )


def _rank(action: Action) -> tuple[bool, bool]:
    """Rank actions. The finalizer comes first: without it, a deletion could leave pods behind.

    Enlarging a claim comes last, because a failure must not block other actions.
    """
    return action != SetFinalizer(is_set=True), isinstance(action, Grow)


def _find_pipeline_change(facts: Pass, decided: Verdict) -> PipelineStatus | None:
    pipeline, interval = facts.view.pipeline, _find_interval(facts)
    status = pipeline.status if decided.status is None else decided.status
    # Write even an empty status, because a pipeline without a status looks unprocessed.
    if not pipeline.has_status:
        return status
    before = pipeline.status
    calm = evolve(status, progress=before.progress, state=before.state, summary=before.summary)
    return status if _is_worth_writing(pipeline.status, status, calm, interval) else None


def _find_attempt_changes(facts: Pass, decided: Verdict) -> dict[str, AttemptStatus]:
    attempts = {attempt.meta.name: attempt.status for attempt in facts.view.attempts}
    interval, changed = _find_interval(facts), dict[str, AttemptStatus]()
    for name, status in decided.attempts.items():
        before = attempts[name]
        calm = evolve(status, progress=before.progress, log_tail=before.log_tail)
        if _is_worth_writing(before, status, calm, interval):
            changed[name] = status
    return changed


def _find_interval(facts: Pass) -> float:
    """Return the minimum seconds between writes that change only the progress."""
    ends = [pod.submitter_end for pod in facts.scene.pods] if facts.scene is not None else []
    since = max((end.time for end in ends if end and end.time is not None), default=-inf)
    # The RayJob usually ends right after its submitter, and that write includes the progress. A
    # driver can outlive its submitter, so wait only for a while.
    return facts.limits.status_interval if facts.now - since > facts.limits.submitter else inf


def _is_worth_writing(old: Status, new: Status, calm: Status, interval: float) -> bool:
    """Return True if a status has changed by more than a driver's recent progress.

    Args:
        old: the status as it was last written.
        new: the new status.
        calm: the new status, but with the old values of fields that change in every driver report.
        interval: minimum seconds between writes that change only such fields.
    """
    before, after = old.progress, new.progress
    # Without two timestamps of progress, the interval is unknown.
    if before is None or after is None or before.time is None or after.time is None:
        return old != new
    # Write this count. Otherwise, the next pass would report the reprocessing again.
    if before.redone != after.redone:
        return True
    # After the interval, or after the clock was set back, write even if only the progress changed.
    if not 0.0 <= after.time - before.time < interval:
        return old != new
    # Each write triggers another pass, so progress alone must not cause a write.
    return old != calm
