"""The `CurationAttempt`: one execution of a pipeline, created and reported by the operator.

The spec never changes. The status preserves observations after pods and logs are deleted. This
module must not depend on how an attempt runs.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from strandline_api.api_model import ApiModel, Label, ObjectName
from strandline_api.notation.quantities import parse_memory
from strandline_api.notation.times import Time
from strandline_api.objects.pipeline import ObjectMeta
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_log import LogFile
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.enums import (
    A_CAUSE,
    ATTEMPT_PHASES,
    CAUSES,
    TRIGGERS,
    AttemptPhase,
    AttemptPhaseField,
    CauseField,
    Trigger,
    TriggerField,
)
from strandline_api.status.inputs import Inputs, list_inputs
from strandline_api.status.pipeline_status import (
    MAX_GROUPS,
    Condition,
    Conditions,
    MemoryByGroup,
    Progress,
    ProgressCounts,
    TimesByGroup,
    list_conditions,
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
from strandline_api.status.usage.work import LostWork, Seconds
from strandline_api.texts import fitting

MAX_DETAILS = 16
_MAX_DETAIL = 256
MAX_EVIDENCE = 20
MAX_LOG_LINES = 10
MAX_LOG_LINE = 400

_Detail = Annotated[
    int | Annotated[str, Field(max_length=_MAX_DETAIL), BeforeValidator(fitting(_MAX_DETAIL))],
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": _MAX_DETAIL,
        }
    ),
]
LogLine = Annotated[str, Field(max_length=MAX_LOG_LINE), BeforeValidator(fitting(MAX_LOG_LINE))]


class AttemptSpec(Record):
    """Which attempt of which run this is, and why it was created. The spec never changes."""

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

    pipeline: ObjectName = Field(description="Name of the CurationPipeline.")
    pipeline_uid: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="Uid of the pipeline. A later pipeline of the same name has another one."
    )
    run: Label = Field(description="Name of the run that the attempt belongs to.")
    number: Number = Field(
        description="Number of the attempt. It grows as long as the pipeline exists, across runs."
    )
    previous: Count | None = Field(
        default=None, description="Number of the previous attempt. Absent for the first one."
    )
    trigger: TriggerField = Field(
        default=Trigger.RETRY, description=f"Why the attempt was created. {TRIGGERS}"
    )
    retry_cause: CauseField | None = Field(
        default=None, description=f"Why the previous attempt ended badly, for a retry: {A_CAUSE}"
    )
    fingerprint: Annotated[str, Field(max_length=128)] = Field(
        default="", description="Digest of everything that determines the output, if known."
    )
    memory: MemoryByGroup = Field(
        default={},
        description=(
            "Raised memory per pod, by 'head' or name of a worker group, such as 'gpu: 24Gi'. Only "
            "groups with pods that ran out of memory are listed."
        ),
    )

    on_demand: Annotated[tuple[Name, ...], Field(max_length=MAX_GROUPS), keep_first(MAX_GROUPS)] = (
        Field(
            default=(),
            description=(
                "Pods that use on-demand nodes instead of spot nodes: 'head', or names of worker "
                "groups."
            ),
        )
    )

    inputs: Inputs = list_inputs(
        "Other pipelines that the attempt's run depends on, in their state at the start of the run."
    )

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Raised memory in bytes, by pod group."""
        return {group: parse_memory(amount) for group, amount in self.memory.items()}


class PipelineReference(Record):
    """An object in the same namespace."""

    name: Name = Field(default="", description="Name of the object.")
    uid: Annotated[str, Field(max_length=128)] = Field(default="", description="Uid of the object.")


class ConfigRecord(Record):
    """A ConfigMap as the operator wrote it."""

    name: Name = Field(default="", description="Name of the ConfigMap.")
    digest: Annotated[str, Field(max_length=32)] = Field(
        default="", description="Digest of its data, 32 hexadecimal digits."
    )


class EvidenceRecord(Record):
    """An observation about the end of an attempt."""

    cause: CauseField = Field(
        default=Cause.UNKNOWN, description=f"Cause that this observation indicates: {A_CAUSE}"
    )
    message: Sentence = Field(default="", description="What was observed, in one sentence.")
    source: Annotated[str, Field(max_length=64), BeforeValidator(fitting(64))] = Field(
        default="",
        description="Where it was observed, such as 'pod', 'rayjob', 'outcome' or 'deadline'.",
    )
    details: Annotated[
        dict[str, _Detail], Field(max_length=MAX_DETAILS), keep_first(MAX_DETAILS)
    ] = Field(
        default={},
        description="Facts by name, such as 'pod', 'node', 'container', 'exitCode' or 'reason'.",
    )
    time: Time | None = Field(
        default=None, description="Time at which it happened, or was first observed."
    )
    absorbed_time: Time | None = Field(
        default=None,
        description=(
            "Time at which the run was first seen to continue after the loss. Such a loss explains "
            "no later end. Absent if the run was not seen to continue."
        ),
    )

    @classmethod
    def from_evidence(cls, evidence: Evidence, now: float | None = None) -> Self:
        """Return the record of evidence for a status.

        Args:
            now: current time in seconds since the epoch. Used if the evidence has no time, or a
                later time, which comes from a wrong clock.
        """
        time = evidence.time
        if time is None or (now is not None and time > now):
            time = now
        return cls.parse({**evidence.to_json(), "time": time})

    @property
    def evidence(self) -> Evidence:
        """The record as `Evidence`, from which the cause is chosen."""
        return Evidence(self.cause, self.message, self.source, dict(self.details), self.time)


class AttemptOutcome(Record):
    """The driver's report about its own end."""

    exit_code: Count | None = Field(
        default=None,
        description=(
            "Exit code of the driver, such as 75. If a signal ended the driver, 128 plus the "
            "signal's number."
        ),
    )
    outcome: Annotated[str, Field(max_length=100)] = Field(
        default="", description="Name of the exit code, such as 'COMPLETE' or 'KILLED'."
    )
    message: Sentence = Field(
        default="", description="The driver's own explanation, in one sentence."
    )
    sources: ProgressCounts | None = Field(
        default=None, description="Counts of the sources at the end."
    )
    remaining: Count | None = Field(
        default=None,
        description="Number of unfinished sources when the attempt began. Absent if unknown.",
    )
    work_seconds: Seconds | None = Field(
        default=None,
        description="Seconds of work done by the attempt's workers. Absent if unknown.",
    )
    work_lost: LostWork | None = Field(
        default=None, description="Seconds of that work that must be repeated. Absent if unknown."
    )
    lineage: bool | None = Field(
        default=None,
        description=(
            "True if the driver itself has reported this end to a lineage system. Otherwise absent."
        ),
    )


class AttemptStatus(Record):
    """The observed state of the attempt."""

    observed_generation: Count | None = Field(
        default=None, description="The metadata.generation that this status describes."
    )
    conditions: Conditions = list_conditions(
        "Conditions, for programs to read. 'Succeeded' summarizes the attempt, and 'Frozen' means "
        "that its cause is final."
    )
    phase: AttemptPhaseField = Field(
        default=AttemptPhase.PENDING,
        description=(
            f"Phase of the attempt, for people. Programs read the conditions. {ATTEMPT_PHASES}"
        ),
    )
    ray_job: PipelineReference | None = Field(
        default=None, description="The RayJob that runs the attempt."
    )
    ray_cluster: Name = Field(
        default="", description="Name of the RayCluster that the attempt runs on."
    )
    start_time: Time | None = Field(
        default=None,
        description=(
            "Time at which the RayJob was created or left its queue, plus the time for which no "
            "node had room for its pods."
        ),
    )
    no_room_since: TimesByGroup = Field(
        default={},
        description=(
            "Time since which no node has room, by 'head' or name of a worker group. Absent if all "
            "pods have nodes, or wait for something else."
        ),
    )
    start_losses: Count | None = Field(
        default=None,
        description=(
            "Number of head pods that lost their nodes before the driver ran. Absent if none did."
        ),
    )
    lost_head: Annotated[str, Field(max_length=128)] = Field(
        default="", description="Uid of the last of these head pods."
    )
    running_time: Time | None = Field(
        default=None, description="Time at which the driver began to run."
    )
    job_start_time: Time | None = Field(
        default=None,
        description=(
            "Start time of the Ray job as first reported by the RayJob. If it changes later, "
            "KubeRay ran the driver twice."
        ),
    )
    end_time: Time | None = Field(
        default=None, description="Time at which the end of the attempt was observed."
    )
    driver_end_time: Time | None = Field(
        default=None,
        description=(
            "Time at which the driver stopped, according to its pod or the RayJob. Absent if "
            "unknown."
        ),
    )
    held_until: Time | None = Field(
        default=None,
        description=(
            "Time until which the pods of a failed attempt are or were kept for inspection. Absent "
            "if they were not kept."
        ),
    )
    cause: CauseField | None = Field(
        default=None, description=f"Why the attempt ended badly. Absent if it did not. {CAUSES}"
    )
    message: Sentence = Field(
        default="", description="Explanation of the phase or the cause, in one sentence."
    )
    evidence: Annotated[
        tuple[EvidenceRecord, ...], Field(max_length=MAX_EVIDENCE), keep_first(MAX_EVIDENCE)
    ] = Field(
        default=(),
        description="Observations about the end of the attempt, the most conclusive first.",
    )
    losses: Annotated[
        tuple[EvidenceRecord, ...], Field(max_length=MAX_EVIDENCE), keep_last(MAX_EVIDENCE)
    ] = Field(
        default=(),
        description=(
            "Pods that were lost, or killed for memory, before the end: the newest, oldest first. "
            "Those that may have caused the end are listed in 'evidence' as well."
        ),
    )
    progress: Progress | None = Field(
        default=None, description="Progress of the attempt, as last reported by the driver."
    )
    outcome: AttemptOutcome | None = Field(
        default=None, description="What the driver reported about its own end."
    )
    latest: Annotated[str, Field(max_length=253)] = Field(
        default="",
        description=(
            "Target of the link 'latest', that is, the newest publication, such as "
            "'attempts/0003/p0007'."
        ),
    )
    incidents: Count = Field(
        default=0, description="Number of workers that were lost without ending the attempt."
    )
    log_tail: Annotated[
        tuple[LogLine, ...], Field(max_length=MAX_LOG_LINES), keep_last(MAX_LOG_LINES)
    ] = Field(default=(), description="Last lines of the driver's log, the newest last.")
    log_file: LogFile = Field(
        default="",
        description=(
            "The driver's complete log on the ledger's volume, in the folder of the pipeline, such "
            "as 'logs/20251125T071100.123Z.log'. Empty if unknown."
        ),
    )
    config: ConfigRecord | None = Field(
        default=None,
        description=(
            "The ConfigMap that the operator created for the attempt. `kubectl strandline` builds "
            "pods from no other ConfigMap."
        ),
    )
    is_frozen: bool = Field(
        default=False,
        description=(
            "Whether cause and evidence are final, because all pods of the attempt are gone."
        ),
    )

    @property
    def observations(self) -> tuple[Evidence, ...]:
        """The evidence as `Evidence` objects, from which the cause is chosen."""
        return tuple(record.evidence for record in self.evidence)

    def find_condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, or None if it is missing."""
        return next((each for each in self.conditions if each.type == type_), None)


def parse_attempt_status(document: object) -> AttemptStatus:
    """Read an attempt's status, written by any version of the operator. Never raises."""
    return AttemptStatus.parse(document)


class CurationAttempt(ApiModel):
    """One execution of a curation pipeline, created by the operator."""

    model_config = ConfigDict(extra="ignore")

    api_version: Literal["strandline.dev/v1alpha1"] = Field(
        description="API version of the object."
    )
    kind: Literal["CurationAttempt"] = Field(description="Kind of the object.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels and annotations.")
    spec: AttemptSpec = Field(
        description=(
            "Which attempt of which run this is, and why it was created. It can't be changed."
        )
    )
    status: Annotated[AttemptStatus, BeforeValidator(parse_attempt_status)] = Field(
        default_factory=AttemptStatus,
        description="The observed state of the attempt, written by the operator.",
    )
