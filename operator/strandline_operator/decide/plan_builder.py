"""A pass in the making: the pipeline's status as it will be, and what is to be done.

The only thing in these rooms that changes; it lives as long as one decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Action, Count, Event, Plan
from strandline_operator.model.view import AttemptView, View

# A look at everything, though nothing should have changed.
_REST_SECONDS = 600.0
_AT_REST = frozenset({Reason.WAITING_TO_RETRY.value, Reason.SUSPENDED.value})
Status = TypeVar("Status", AttemptStatus, PipelineStatus)


@dataclass(slots=True)
class Draft:
    """What a pass has come to so far."""

    view: View
    limits: Limits
    now: float
    status: PipelineStatus
    attempts: dict[str, AttemptStatus] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    audit: list[str] = field(default_factory=list)
    wakes: list[float] = field(default_factory=list)
    is_at_rest: bool = False

    def update(self, **changes: Any) -> None:  # noqa: ANN401 - fields of the status
        """Change fields of the pipeline's status."""
        self.status = self.status.model_copy(update=changes)

    def tell(
        self,
        reason: EventReason,
        message: str,
        *,
        is_warning: bool = False,
        attempt: str | None = None,
    ) -> None:
        """Add an event."""
        self.events.append(Event(reason.value, message, is_warning, attempt))

    def count(self, name: str, cause: str = "", value: float = 1.0) -> None:
        """Add a step of a metric."""
        self.counts.append(Count(name, cause, value))

    def wake(self, time: float | None) -> None:
        """Look again at that time at the latest; the past means that nothing is to be awaited."""
        if time is not None and time > self.now:
            self.wakes.append(time)

    def status_of(self, attempt: AttemptView) -> AttemptStatus:
        """An attempt's status as it will be."""
        return self.attempts.get(attempt.meta.name, attempt.status)

    def rest(self, *, is_idle: bool) -> None:
        """Note that nothing but the pipeline itself can change anything before the next wake."""
        view = self.view
        summary = self.status.find_condition(ConditionType.SUCCEEDED)
        is_plain = summary and (summary.status != "Unknown" or summary.reason in _AT_REST)
        is_clear = not (self.actions or view.refusals or view.unread)
        self.is_at_rest = bool(is_idle and is_plain and is_clear)

    def finish(self) -> Plan:
        """The plan; statuses that have not changed are not in it."""
        known = {one.meta.name: one.status for one in self.view.attempts}
        interval = self.limits.status_interval
        changed = {
            name: one
            for name, one in self.attempts.items()
            if is_worth_writing(known[name], one, interval)
        }
        pipeline = self.view.pipeline
        is_changed = not pipeline.has_status or is_worth_writing(
            pipeline.status, self.status, interval
        )
        pause = max(self.limits.resync, _REST_SECONDS if self.is_at_rest else 0.0)
        return Plan(
            pipeline=self.status if is_changed else None,
            attempts=changed,
            actions=tuple(self.actions),
            events=tuple(self.events),
            counts=tuple(self.counts),
            audit=tuple(self.audit),
            wake_at=min([*self.wakes, self.now + pause]),
            is_at_rest=self.is_at_rest and not is_changed and not changed,
        )


def is_worth_writing(old: Status, new: Status, interval: float) -> bool:
    """Whether a status differs by more than progress that was written a moment ago."""
    before, after = old.progress, new.progress
    if before is None or after is None or before.time is None or after.time is None:
        return old != new
    if after.time - before.time >= interval:
        return old != new
    return old != new.model_copy(update={name: getattr(old, name) for name in _often(new)})


def _often(status: Status) -> list[str]:
    """Fields that change with every word of a driver."""
    return [name for name in ("progress", "log_tail", "state") if name in type(status).model_fields]
