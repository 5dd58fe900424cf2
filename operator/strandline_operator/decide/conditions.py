"""Conditions: what people and GitOps tools read. Their transition times change only with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from strandline_api.status.pipeline_status import Condition

Truth = Literal["True", "False", "Unknown"]
# An event's name comes from its words, so the server takes it once however often it is made.
_WINDOW_SECONDS = 600.0


def has_lasted(since: float, now: float, grace: float) -> bool:
    """Return whether something has lasted so long that an event tells it, and not yet long since.

    Args:
        grace: seconds in which it mostly passes by itself.
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
    """Set one of the conditions, for the generation of the spec that was looked at."""
    old = next((condition for condition in conditions if condition.type == type_), None)
    # The time of a condition is that of its truth, whatever the reason and the spec have become.
    is_same = old is not None and old.status == status
    new = Condition(
        type=type_,
        status=status,
        observed_generation=generation,
        reason=reason,
        message=message,
        last_transition_time=old.last_transition_time if is_same and old else now,
    )
    # A new condition goes last, so that the others keep their order.
    if old is None:
        return (*conditions, new)
    return tuple(new if condition.type == type_ else condition for condition in conditions)


def drop_conditions(conditions: Iterable[Condition], types: Iterable[str]) -> tuple[Condition, ...]:
    """Return the conditions without those that are only there when they are true."""
    dropped = set(types)
    return tuple(condition for condition in conditions if condition.type not in dropped)
