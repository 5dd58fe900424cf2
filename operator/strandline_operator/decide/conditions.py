"""Sets conditions for people and GitOps tools. Transition times change only with the status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from strandline_api.status.pipeline_status import Condition

Truth = Literal["True", "False", "Unknown"]
# Seconds after which an event for a state is no longer sent. Repeated reports within this time are
# harmless: an event's name derives from its text, so the API server stores repeats only once.
_WINDOW_SECONDS = 600.0


def has_lasted(since: float, now: float, grace: float) -> bool:
    """Return True if a state has lasted long enough for an event, but not much longer.

    Args:
        grace: seconds within which the state usually ends on its own.
    """
    return grace <= now - since < grace + _WINDOW_SECONDS


def set_condition(
    conditions: Sequence[Condition],
    type_: str,
    status: Truth,
    reason: str,
    message: str,
    now: float,
    *,
    generation: int | None,
) -> tuple[Condition, ...]:
    """Set a condition, for the observed generation of the spec."""
    old = next((condition for condition in conditions if condition.type == type_), None)
    # The transition time is the last change of the condition's status. Reason and generation may
    # change without it.
    is_same = old is not None and old.status == status
    new = Condition(
        type=type_,
        status=status,
        observed_generation=generation,
        reason=reason,
        message=message,
        last_transition_time=old.last_transition_time if is_same and old else now,
    )
    # Append a new condition to keep the order of the others.
    if old is None:
        return (*conditions, new)
    return tuple(new if condition.type == type_ else condition for condition in conditions)


def drop_conditions(conditions: Iterable[Condition], types: Iterable[str]) -> tuple[Condition, ...]:
    """Return the conditions without the given types, which are removed instead of set to False."""
    dropped = set(types)
    return tuple(condition for condition in conditions if condition.type not in dropped)
