"""Enumerations of a status: phases, triggers, and lineage states.

The CRD's schema accepts any text for them, because an operator may be newer than the installed CRD.
This module must not depend on the users of these values.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import WithJsonSchema

from strandline_api.outcome.causes import Cause
from strandline_api.status.records import read_value

MAX_ENUM_TEXT = 64


class PipelinePhase(StrEnum):
    """The state of a pipeline in one word, for people. Programs read the conditions."""

    PENDING = "Pending"
    RUNNING = "Running"
    WAITING = "Waiting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETING = "Deleting"


class AttemptPhase(StrEnum):
    """The state of an attempt in one word, for people. Programs read the conditions."""

    PENDING = "Pending"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    DRAINING = "Draining"
    HELD = "Held"
    TEARING_DOWN = "TearingDown"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Trigger(StrEnum):
    """Why an attempt was created. Unknown triggers count as retries, which have a budget."""

    RUN = "Run"
    RETRY = "Retry"
    MANUAL = "Manual"
    RESUME = "Resume"
    REPAIR = "Repair"

    @property
    def is_by_hand(self) -> bool:
        """Return True if a user requested the attempt, so no budget pays for it."""
        return self in {Trigger.MANUAL, Trigger.RESUME, Trigger.REPAIR}


class LineageState(StrEnum):
    """The state of the operator's report of an attempt's end to a lineage system."""

    PENDING = "Pending"
    SENT = "Sent"
    REFUSED = "Refused"


_OPEN = WithJsonSchema({"type": "string", "maxLength": MAX_ENUM_TEXT})

PipelinePhaseField = Annotated[PipelinePhase, read_value(PipelinePhase), _OPEN]
AttemptPhaseField = Annotated[AttemptPhase, read_value(AttemptPhase), _OPEN]
CauseField = Annotated[Cause, read_value(Cause, Cause.UNKNOWN), _OPEN]
LineageField = Annotated[LineageState, read_value(LineageState), _OPEN]
TriggerField = Annotated[Trigger, read_value(Trigger, Trigger.RETRY), _OPEN]


def join_values(values: type[StrEnum]) -> str:
    """List all values in a sentence, such as `One of Run, Retry or Manual`."""
    *others, last = (value.value for value in values)
    return f"One of {', '.join(others)} or {last}."


PIPELINE_PHASES = join_values(PipelinePhase)
ATTEMPT_PHASES = join_values(AttemptPhase)
CAUSES = join_values(Cause)
A_CAUSE = "a cause, as in 'kubectl explain catt.status.cause'."
TRIGGERS = join_values(Trigger)
LINEAGE_STATES = join_values(LineageState)
