"""The words of a status: phases, triggers, causes.

They are text in the schema, since an operator may know a word that the installed definition does
not. This room must not know who uses them, nor when.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import WithJsonSchema

from strandline_api.outcome.causes import Cause
from strandline_api.status.records import read_word

MAX_WORD = 64


class PipelinePhase(StrEnum):
    """Where a pipeline stands, in one word for people; programs read the conditions."""

    PENDING = "Pending"
    RUNNING = "Running"
    WAITING = "Waiting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETING = "Deleting"


class AttemptPhase(StrEnum):
    """Where an attempt stands, in one word for people; programs read the conditions."""

    PENDING = "Pending"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    DRAINING = "Draining"
    TEARING_DOWN = "TearingDown"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Trigger(StrEnum):
    """Why an attempt was made; one of another version counts as a retry, which has a budget."""

    RUN = "Run"
    RETRY = "Retry"
    MANUAL = "Manual"
    RESUME = "Resume"


_OPEN = WithJsonSchema({"type": "string", "maxLength": MAX_WORD})

PipelinePhaseWord = Annotated[PipelinePhase, read_word(PipelinePhase), _OPEN]
AttemptPhaseWord = Annotated[AttemptPhase, read_word(AttemptPhase), _OPEN]
CauseWord = Annotated[Cause, read_word(Cause, Cause.UNKNOWN), _OPEN]
TriggerWord = Annotated[Trigger, read_word(Trigger, Trigger.RETRY), _OPEN]


def list_words(words: type[StrEnum]) -> str:
    """Name all words in a sentence: `One of Run, Retry, Manual or Resume.`."""
    *others, last = (word.value for word in words)
    return f"One of {', '.join(others)} or {last}."


PIPELINE_PHASES = list_words(PipelinePhase)
ATTEMPT_PHASES = list_words(AttemptPhase)
CAUSES = list_words(Cause)
A_CAUSE = "a cause, as in 'kubectl explain catt.status.cause'."
TRIGGERS = list_words(Trigger)
