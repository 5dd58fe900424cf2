"""What the operator reports of a pipeline, and the parts that an attempt's status has too.

Enough of it is kept that an operator which starts anew goes on where another one was killed. This
room says what was observed. It must not know who observes, nor what a pass makes of it.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo

from strandline_api.law.retry import Spent
from strandline_api.names import CANCEL_ANNOTATION, RETRY_ANNOTATION
from strandline_api.quantities import Quantity
from strandline_api.status.enums import (
    A_CAUSE,
    PIPELINE_PHASES,
    TRIGGERS,
    CauseWord,
    PipelinePhase,
    PipelinePhaseWord,
    TriggerWord,
)
from strandline_api.status.records import (
    Count,
    Generation,
    Name,
    Number,
    Record,
    Sentence,
    keep_first,
    keep_last,
)
from strandline_api.status.run_clock import RunClock
from strandline_api.texts import repair
from strandline_api.times import Time

MAX_CONDITIONS = 16
MAX_ATTEMPTS = 100
_MAX_TOKEN = 256
# The head and 64 worker groups.
MAX_GROUPS = 65

MemoryByGroup = Annotated[dict[str, Quantity], Field(max_length=MAX_GROUPS), keep_first(MAX_GROUPS)]


def keyed_by(name: str) -> dict[str, Any]:
    """Say in a schema that no two entries of a list may have the same `name`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [name]}


class Condition(Record):
    """One thing that is true, false or unknown of an object, with the reason."""

    always: ClassVar[frozenset[str]] = frozenset(
        {"type", "status", "reason", "message", "lastTransitionTime"}
    )

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="What the condition is about, unique in the list."
    )
    status: Literal["True", "False", "Unknown"] = Field(
        default="Unknown", description="Whether it is so."
    )
    observed_generation: Count | None = Field(
        default=None, description="Generation of the spec that it was seen for."
    )
    last_transition_time: Time = Field(
        default=0.0, description="When 'status' was last another one."
    )
    reason: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        default="Unknown",
        description="Why it is so, in one word that does not change between versions.",
    )
    message: Sentence = Field(default="", description="Why it is so and what to do, for people.")


class Counts(Record):
    """How the sources stand."""

    total: Count | None = Field(
        default=None, description="Sources listed. Absent while the listing goes on."
    )
    finished: Count = Field(default=0, description="Sources newly finished by the attempt.")
    failed: Count = Field(default=0, description="Sources that failed in the attempt.")
    quarantined: Count = Field(default=0, description="Sources that are not tried any more.")
    skipped: Count = Field(default=0, description="Sources finished by earlier attempts.")
    unfinished: Count = Field(default=0, description="Sources neither finished nor failed.")


def spell_progress(known: Mapping[str, Any]) -> str:
    """Write `120/1000`, what earlier attempts finished included; `120/?` without a total."""
    total = known.get("total")
    done = known.get("finished", 0) + known.get("skipped", 0)
    return f"{done}/{'?' if total is None else total}"


def _spell_text(given: object, info: ValidationInfo) -> str:
    del given  # always by the counts, whatever stood there
    return spell_progress(info.data)


class Progress(Counts):
    """How far the work has come, and how fast it goes."""

    rate_per_second: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="Sources finished per second of late."
    )
    seconds_left: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="Estimated time to the end in seconds. Absent where unknown."
    )
    time: Time | None = Field(default=None, description="When this was read from the driver.")
    # Stored, since a printer column can't put two fields together.
    text: Annotated[str, Field(max_length=64), BeforeValidator(_spell_text)] = Field(
        default="",
        validate_default=True,
        description="All finished sources and the total, such as '120/1000'.",
    )


Conditions = Annotated[
    tuple[Condition, ...], Field(max_length=MAX_CONDITIONS), keep_first(MAX_CONDITIONS)
]


class RetryCounts(Record):
    """What the run has used up of its retries."""

    attempts: Count = Field(default=0, description="Attempts of the run that have ended.")
    retries: Count = Field(
        default=0, description="Retries since the last progress, disruptions apart."
    )
    disruptions: Count = Field(
        default=0, description="Retries after disruptions since the last progress."
    )
    cause: CauseWord | None = Field(
        default=None, description=f"Why the last of them ended badly: {A_CAUSE}"
    )
    through: Count = Field(
        default=0, description="Number of the last attempt that these counts include."
    )

    @classmethod
    def of(cls, spent: Spent, through: int) -> Self:
        """Keep what the law of retries has counted through the attempt of that number."""
        return cls(
            attempts=spent.attempts,
            retries=spent.retries,
            disruptions=spent.disruptions,
            cause=spent.cause,
            through=through,
        )

    @property
    def spent(self) -> Spent:
        """The same, as the law of retries takes it."""
        return Spent(self.attempts, self.retries, self.disruptions, self.cause)


class PastAttemptRecord(Record):
    """What is left of an attempt after its object is gone."""

    always: ClassVar[frozenset[str]] = frozenset({"number"})

    number: Number = Field(description="Number of the attempt.")
    name: Name = Field(default="", description="Name of its object.")
    run: Name = Field(default="", description="Name of the run that it belonged to.")
    cause: CauseWord | None = Field(
        default=None, description=f"Why it ended badly, absent where it completed: {A_CAUSE}"
    )
    start_time: Time | None = Field(default=None, description="When it began.")
    end_time: Time | None = Field(default=None, description="When it ended.")
    finished: Count = Field(default=0, description="Sources that it newly finished.")


def _shorten(token: str) -> str:
    text = repair(token)
    if len(text) <= _MAX_TOKEN:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class HandledTokens(Record):
    """The last request by annotation of each kind, so that none acts twice."""

    retry: Annotated[str, Field(max_length=_MAX_TOKEN)] = Field(
        default="", description="Last value of 'strandline.dev/retry' that was acted upon."
    )
    cancel: Annotated[str, Field(max_length=_MAX_TOKEN)] = Field(
        default="", description="Last value of 'strandline.dev/cancel' that was acted upon."
    )

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Self:
        """Read the requests that stand on a pipeline; one that differs from the kept one is new.

        An empty value asks for nothing, and of a long one a digest is kept.
        """
        return cls(
            retry=_shorten(annotations.get(RETRY_ANNOTATION, "")),
            cancel=_shorten(annotations.get(CANCEL_ANNOTATION, "")),
        )


class PipelineStatus(Record):
    """What the operator reports."""

    observed_generation: Generation | None = Field(
        default=None,
        description="Generation of the spec that the rest was seen for; -1 until it was seen.",
    )
    conditions: Conditions = Field(
        default=(),
        json_schema_extra=keyed_by("type"),
        description=(
            "What is so, for programs: 'Succeeded' sums up the run, and 'Stalled' says that "
            "nothing goes on without help."
        ),
    )
    phase: PipelinePhaseWord = Field(
        default=PipelinePhase.PENDING,
        description=f"Where the pipeline stands, for people. {PIPELINE_PHASES}",
    )
    run: Name = Field(default="", description="Name of the current run.")
    run_start_time: Time | None = Field(default=None, description="When the run began.")
    run_clock: RunClock | None = Field(default=None, description="How long the run was held back.")
    attempt: Count = Field(default=0, description="Number of the latest attempt; 0 before any.")
    state: Sentence = Field(
        default="",
        description="What goes on: 'attempt 2 of 4, retry at 10:31:05 after OOMKilled'.",
    )
    retries: RetryCounts | None = Field(
        default=None, description="What the run has used up of its retries."
    )
    incidents: Count = Field(
        default=0, description="Workers that were lost in this run without ending an attempt."
    )
    next_attempt_time: Time | None = Field(
        default=None, description="When the next attempt is due. Absent where none is."
    )
    retry_cause: CauseWord | None = Field(
        default=None, description=f"Why the attempt before the next one ended: {A_CAUSE}"
    )
    retry_trigger: TriggerWord | None = Field(
        default=None, description=f"Why the next attempt is due. {TRIGGERS}"
    )
    memory: MemoryByGroup = Field(
        default={},
        description="Memory per pod of 'head' or a worker group, where kills have raised it.",
    )
    memory_requested: MemoryByGroup = Field(
        default={}, description="What the pipeline asked for where that is so."
    )
    progress: Progress | None = Field(
        default=None, description="How far the run has come, as last heard of."
    )
    latest: Annotated[str, Field(max_length=253)] = Field(
        default="", description="What 'latest' leads to: the newest published state."
    )
    volume_claim: Name = Field(default="", description="Claim that holds the ledger.")
    attempts: Annotated[
        tuple[PastAttemptRecord, ...], Field(max_length=MAX_ATTEMPTS), keep_last(MAX_ATTEMPTS)
    ] = Field(
        default=(),
        json_schema_extra=keyed_by("number"),
        description="Ended attempts, the newest last, as many as 'attemptHistoryLimit' says.",
    )
    handled: HandledTokens | None = Field(
        default=None, description="Requests by annotation that were acted upon."
    )
    last_attempt_time: Time | None = Field(
        default=None, description="When the latest attempt was made."
    )

    @property
    def is_seen(self) -> bool:
        """Whether the operator has written any of this."""
        return self.observed_generation is not None and self.observed_generation >= 0

    @property
    def spent(self) -> Spent:
        """What the run has used up, as the law of retries takes it."""
        return Spent() if self.retries is None else self.retries.spent

    def find_condition(self, type_: str) -> Condition | None:
        """Find the condition of that type."""
        return next((each for each in self.conditions if each.type == type_), None)


def parse_status(document: object) -> PipelineStatus:
    """Read the status of a pipeline, whichever version wrote it.

    Unknown fields, unknown words and values of the wrong kind count as not given; an unknown cause
    is `Unknown`. It raises nothing, whatever the document.
    """
    return PipelineStatus.parse(document)
