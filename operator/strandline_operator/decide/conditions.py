"""Conditions: what people and GitOps tools read. Their transition times change only with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.enums import AttemptPhase
from strandline_api.status.pipeline_status import Condition
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene

SUCCEEDED = "Succeeded"
Truth = Literal["True", "False", "Unknown"]


def set_condition(
    conditions: Sequence[Condition],
    type_: str,
    status: Truth,
    reason: str,
    message: str,
    now: float,
) -> tuple[Condition, ...]:
    """The conditions with one of them set."""
    old = next((one for one in conditions if one.type == type_), None)
    is_same = old is not None and old.status == status
    new = Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=old.last_transition_time if is_same and old else now,
    )
    if old is None:
        return (*conditions, new)
    return tuple(new if one.type == type_ else one for one in conditions)


def drop_conditions(conditions: Iterable[Condition], types: Iterable[str]) -> tuple[Condition, ...]:
    """The conditions without those that are only there when they are true."""
    dropped = set(types)
    return tuple(one for one in conditions if one.type not in dropped)


def describe_attempt(
    status: AttemptStatus, scene: Scene, now: float, block: Block | None = None
) -> AttemptStatus:
    """The status with phase and conditions that fit the rest of it.

    Args:
        block: what is amiss with an attempt that goes on.
    """
    phase = status.phase if status.end_time is not None else _name_phase(status, scene)
    truth, reason, message = _sum_up(status, phase)
    if block is not None:
        reason, message = block.reason, block.message
    if not status.is_frozen and status.end_time is not None and scene.wait:
        message = f"{message}; {scene.wait}"
    conditions = set_condition(status.conditions, SUCCEEDED, truth, reason, message, now)
    if status.is_frozen:
        conditions = set_condition(
            conditions, "Frozen", "True", Reason.EVIDENCE_COMPLETE, "its pods are gone", now
        )
    generation = scene.attempt.meta.generation
    return status.model_copy(
        update={"phase": phase, "conditions": conditions, "observed_generation": generation}
    )


def _name_phase(status: AttemptStatus, scene: Scene) -> AttemptPhase:
    if scene.rayjob is None:
        return AttemptPhase.PENDING
    if scene.is_queued:
        return AttemptPhase.QUEUED
    return AttemptPhase.STARTING if status.running_time is None else AttemptPhase.RUNNING


def _sum_up(status: AttemptStatus, phase: AttemptPhase) -> tuple[Truth, str, str]:
    """Truth, reason and message of `Succeeded`."""
    if status.end_time is None:
        return "Unknown", phase.value, status.message or f"the attempt is {phase.value.lower()}"
    if not status.is_frozen:
        return "Unknown", phase.value, status.message
    if status.cause is None:
        return "True", Reason.COMPLETED, status.message
    return "False", status.cause.value, status.message
