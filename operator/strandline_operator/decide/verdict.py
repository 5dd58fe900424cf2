"""What deciders say, and how a pass becomes of it: verdicts in a row, folded into one plan.

Nothing here changes: a verdict that follows another makes a new one. This room must not know what
is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
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

# A look at everything, though nothing should have changed.
_REST_SECONDS = 600.0
Status = TypeVar("Status", AttemptStatus, PipelineStatus)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one decider says, or several in a row; empty where there is nothing to say.

    Attributes:
        status: the pipeline's, from here on; None: as it was.
        attempts: statuses of attempts from here on, by name.
        block: what has to change before anything goes on. The first one is told.
        actions, events, counts, audit, departures: as in `PassPlan`.
        wakes: times at which to look again, if they are not past.
        is_at_rest: nothing but the pipeline itself can change anything before the next wake.
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
        """Join it with the next one; the next one's statuses replace its own."""
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
    """How things stand for the next decider: what was read, as changed by what was decided."""

    view: View
    decided: Verdict = field(default_factory=Verdict)

    @property
    def status(self) -> PipelineStatus:
        """The pipeline's status as it will be."""
        decided = self.decided.status
        return self.view.pipeline.status if decided is None else decided

    @property
    def attempts(self) -> tuple[AttemptObject, ...]:
        """The attempts with their statuses as they will be, by number."""
        changed = self.decided.attempts
        return tuple(
            replace(attempt, status=changed.get(attempt.meta.name, attempt.status))
            for attempt in self.view.attempts
        )

    @property
    def newest(self) -> AttemptObject | None:
        """The attempt of the highest number."""
        attempts = self.attempts
        return attempts[-1] if attempts else None

    @property
    def active(self) -> AttemptObject | None:
        """The newest attempt where it is not over."""
        newest = self.newest
        return None if newest is None or newest.status.is_frozen else newest

    @property
    def is_uncounted(self) -> bool:
        """Return whether an attempt has ended that the run has not counted yet."""
        newest = self.newest
        number = max(self.status.attempt, newest.spec.number if newest is not None else 0)
        return self.active is None and number > self.through

    @property
    def through(self) -> int:
        """Number of the last attempt that the run has counted."""
        return self.status.retries.through if self.status.retries else 0


Decider = Callable[[Pass, PassState], Verdict]


def fold(facts: Pass, deciders: Iterable[Decider]) -> PassPlan:
    """Ask the deciders in their order, each with what those before it said, and make the plan."""
    decided = Verdict()
    for decider in deciders:
        decided = decided.then(decider(facts, PassState(facts.view, decided)))
    return _make_plan(facts, decided)


def add_event(reason: EventReason, message: str, attempt: str | None = None) -> EventDraft:
    """Make an event of the pipeline, or of the attempt of that name."""
    return EventDraft(reason.value, message, attempt=attempt)


def warn(reason: EventReason, message: str) -> EventDraft:
    """Make an event of the pipeline that a person should look at."""
    return EventDraft(reason.value, message, is_warning=True)


def _make_plan(facts: Pass, decided: Verdict) -> PassPlan:
    """Return the plan; statuses that have not changed are not in it."""
    pipeline = _find_pipeline_change(facts, decided)
    attempts = _find_attempt_changes(facts, decided)
    pause = max(facts.limits.resync, _REST_SECONDS if decided.is_at_rest else 0.0)
    # The past is not waited for.
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
    """Rank our finalizer first: a pipeline that is deleted meanwhile would leave pods behind.

    A claim that may not grow keeps nothing from being made, so that is asked for last.
    """
    return action != SetFinalizer(is_set=True), isinstance(action, Grow)


def _find_pipeline_change(facts: Pass, decided: Verdict) -> PipelineStatus | None:
    pipeline, interval = facts.view.pipeline, facts.limits.status_interval
    status = pipeline.status if decided.status is None else decided.status
    # A pipeline without a status looks unseen to users, even where its status is empty.
    if not pipeline.has_status:
        return status
    before = pipeline.status
    calm = evolve(status, progress=before.progress, state=before.state, summary=before.summary)
    return status if _is_worth_writing(pipeline.status, status, calm, interval) else None


def _find_attempt_changes(facts: Pass, decided: Verdict) -> dict[str, AttemptStatus]:
    attempts = {attempt.meta.name: attempt.status for attempt in facts.view.attempts}
    changed: dict[str, AttemptStatus] = {}
    for name, status in decided.attempts.items():
        before = attempts[name]
        calm = evolve(status, progress=before.progress, log_tail=before.log_tail)
        if _is_worth_writing(before, status, calm, facts.limits.status_interval):
            changed[name] = status
    return changed


def _is_worth_writing(old: Status, new: Status, calm: Status, interval: float) -> bool:
    """Return whether a status differs by more than progress that was written a moment ago.

    Args:
        calm: the new one, with the old one's values where each word of a driver brings another.
        interval: seconds for which such words alone are not written.
    """
    before, after = old.progress, new.progress
    # Without two times of progress there is no interval to wait for.
    if before is None or after is None or before.time is None or after.time is None:
        return old != new
    # An event tells of these once, which the status has to know in the next pass.
    if before.redone != after.redone:
        return True
    # After such a pause, or a clock that was set, even a driver's word alone is written.
    if not 0.0 <= after.time - before.time < interval:
        return old != new
    # A write brings about the next pass, so a driver's word alone must not cause one.
    return old != calm
