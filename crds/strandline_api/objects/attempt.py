"""The `CurationAttempt`: one execution of a pipeline, made and reported by the operator.

Its spec never changes; its status keeps what was seen of it after pods and logs are gone. This
room must not know how an attempt is carried out.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from strandline_api.api_model import ApiModel, Label, ObjectName
from strandline_api.objects.pipeline import ObjectMeta
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.quantities import parse_memory
from strandline_api.status.enums import (
    A_CAUSE,
    ATTEMPT_PHASES,
    CAUSES,
    TRIGGERS,
    AttemptPhase,
    AttemptPhaseWord,
    CauseWord,
    Trigger,
    TriggerWord,
)
from strandline_api.status.pipeline_status import (
    Condition,
    Conditions,
    Counts,
    MemoryByGroup,
    Progress,
    keyed_by,
)
from strandline_api.status.records import (
    Count,
    Name,
    Number,
    Record,
    Sentence,
    keep_first,
    keep_last,
)
from strandline_api.texts import cutting
from strandline_api.times import Time

MAX_DETAILS = 16
_MAX_DETAIL = 256
MAX_EVIDENCE = 20
MAX_LOG_LINES = 10
MAX_LOG_LINE = 400

_Detail = Annotated[
    int | Annotated[str, Field(max_length=_MAX_DETAIL), BeforeValidator(cutting(_MAX_DETAIL))],
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": _MAX_DETAIL,
        }
    ),
]
LogLine = Annotated[str, Field(max_length=MAX_LOG_LINE), BeforeValidator(cutting(MAX_LOG_LINE))]


class AttemptSpec(Record):
    """Which attempt of which run this is, and why it was made; never changed."""

    rules: ClassVar[tuple[tuple[str, str], ...]] = (
        ("self == oldSelf", "an attempt cannot be changed; edit its pipeline"),
        (
            "!has(self.previous) || self.previous < self.number",
            "'previous' must be less than 'number'",
        ),
    )
    always: ClassVar[frozenset[str]] = frozenset(
        {"pipeline", "pipelineUid", "run", "number", "trigger"}
    )

    pipeline: ObjectName = Field(description="Name of the pipeline.")
    pipeline_uid: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="Its uid, since another pipeline may later have the same name."
    )
    run: Label = Field(description="Name of the run that it belongs to.")
    number: Number = Field(
        description="Number of the attempt, which grows as long as the pipeline exists."
    )
    previous: Count | None = Field(
        default=None, description="Number of the attempt before. Absent for the first one."
    )
    trigger: TriggerWord = Field(default=Trigger.RETRY, description=f"Why it was made. {TRIGGERS}")
    retry_cause: CauseWord | None = Field(
        default=None, description=f"Why the attempt before ended, for a retry: {A_CAUSE}"
    )
    fingerprint: Annotated[str, Field(max_length=128)] = Field(
        default="", description="Digest of what decides the output, where it is known."
    )
    memory: MemoryByGroup = Field(
        default={},
        description="Memory per pod of 'head' or a worker group, where kills have raised it.",
    )

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Raised memory in bytes, by group."""
        return {group: parse_memory(amount) for group, amount in self.memory.items()}


class ObjectReference(Record):
    """An object in the same namespace."""

    name: Name = Field(default="", description="Name of the object.")
    uid: Annotated[str, Field(max_length=128)] = Field(default="", description="Its uid.")


class EvidenceRecord(Record):
    """One sight of an attempt's end."""

    cause: CauseWord = Field(default=Cause.UNKNOWN, description=f"What it points to: {A_CAUSE}")
    message: Sentence = Field(default="", description="What was seen, in one sentence.")
    source: Annotated[str, Field(max_length=64), BeforeValidator(cutting(64))] = Field(
        default="", description="Who saw it, such as 'pod', 'rayjob', 'outcome' or 'deadline'."
    )
    details: Annotated[
        dict[str, _Detail], Field(max_length=MAX_DETAILS), keep_first(MAX_DETAILS)
    ] = Field(
        default={},
        description="Facts by name, such as 'pod', 'node', 'container', 'exitCode' or 'reason'.",
    )
    time: Time | None = Field(default=None, description="When it happened, or else was seen.")

    @classmethod
    def of(cls, evidence: Evidence, time: float | None = None) -> Self:
        """Keep evidence in a status; `time` in seconds since the epoch."""
        return cls.parse({**evidence.to_json(), "time": time})

    @property
    def evidence(self) -> Evidence:
        """The same, as the law of causes takes it."""
        return Evidence(self.cause, self.message, self.source, dict(self.details))


class AttemptOutcome(Record):
    """What the driver said of its own end."""

    exit_code: Count | None = Field(
        default=None, description="Exit code of the driver; 128 + signal where one ended it."
    )
    outcome: Annotated[str, Field(max_length=100)] = Field(
        default="", description="Name of the exit code, such as COMPLETE, or KILLED."
    )
    message: Sentence = Field(default="", description="What it said, in one sentence.")
    sources: Counts | None = Field(default=None, description="How the sources stood at the end.")
    remaining: Count | None = Field(
        default=None, description="Unfinished sources when it began. Absent where unknown."
    )


class AttemptStatus(Record):
    """What was observed of the attempt."""

    observed_generation: Count | None = Field(
        default=None, description="Generation of the spec that the rest was seen for."
    )
    conditions: Conditions = Field(
        default=(),
        json_schema_extra=keyed_by("type"),
        description=(
            "What is so, for programs: 'Succeeded' sums up the attempt, and 'Frozen' says that "
            "its cause does not change any more."
        ),
    )
    phase: AttemptPhaseWord = Field(
        default=AttemptPhase.PENDING,
        description=f"Where the attempt stands, for people. {ATTEMPT_PHASES}",
    )
    ray_job: ObjectReference | None = Field(
        default=None, description="The RayJob that carries it out."
    )
    ray_cluster: Name = Field(default="", description="Name of the Ray cluster it ran on.")
    start_time: Time | None = Field(
        default=None, description="When its RayJob was made, or left its queue."
    )
    running_time: Time | None = Field(default=None, description="When its driver began to run.")
    job_start_time: Time | None = Field(
        default=None,
        description="Start of its Ray job as the RayJob first told; another one is a second run.",
    )
    end_time: Time | None = Field(default=None, description="When it ended.")
    cause: CauseWord | None = Field(
        default=None, description=f"Why it ended badly; absent where it did not. {CAUSES}"
    )
    message: Sentence = Field(default="", description="The same in one sentence.")
    evidence: Annotated[
        tuple[EvidenceRecord, ...], Field(max_length=MAX_EVIDENCE), keep_first(MAX_EVIDENCE)
    ] = Field(default=(), description="What was seen of its end, the most telling first.")
    progress: Progress | None = Field(
        default=None, description="How far it has come, as last heard of."
    )
    outcome: AttemptOutcome | None = Field(
        default=None, description="What the driver said of its own end."
    )
    latest: Annotated[str, Field(max_length=253)] = Field(
        default="", description="What 'latest' leads to: the newest published state."
    )
    incidents: Count = Field(
        default=0, description="Workers that were lost without ending the attempt."
    )
    log_tail: Annotated[
        tuple[LogLine, ...], Field(max_length=MAX_LOG_LINES), keep_last(MAX_LOG_LINES)
    ] = Field(default=(), description="Last lines of the driver's log.")
    is_frozen: bool = Field(
        default=False, description="Whether cause and evidence are final: its pods are gone."
    )

    @property
    def sights(self) -> tuple[Evidence, ...]:
        """The evidence, as the law of causes takes it."""
        return tuple(record.evidence for record in self.evidence)

    def find_condition(self, type_: str) -> Condition | None:
        """Find the condition of that type."""
        return next((each for each in self.conditions if each.type == type_), None)


def parse_attempt_status(document: object) -> AttemptStatus:
    """Read the status of an attempt, whichever version wrote it; it raises nothing."""
    return AttemptStatus.parse(document)


class CurationAttempt(ApiModel):
    """One execution of a curation pipeline; the operator makes it."""

    model_config = ConfigDict(extra="ignore")

    api_version: Literal["strandline.dev/v1alpha1"] = Field(
        description="Version of this kind of object."
    )
    kind: Literal["CurationAttempt"] = Field(description="Kind of object.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels and annotations.")
    spec: AttemptSpec = Field(
        description="Which attempt of which run this is, and why it was made."
    )
    status: Annotated[AttemptStatus, BeforeValidator(parse_attempt_status)] = Field(
        default_factory=AttemptStatus, description="What was observed of it."
    )
