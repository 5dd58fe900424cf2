"""The status of a pipeline, and the types that it shares with an attempt's status.

The status contains enough for a new operator to continue after its predecessor was killed. This
module defines observations. It must not depend on the observer, or on how a reconcile pass uses the
observations.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from strandline_api.api_model import keyed_by
from strandline_api.law.retry import Spent
from strandline_api.notation.quantities import Quantity
from strandline_api.notation.times import Time
from strandline_api.status.defaults import DefaultsRecord
from strandline_api.status.enums import (
    A_CAUSE,
    LINEAGE_STATES,
    PIPELINE_PHASES,
    TRIGGERS,
    CauseField,
    LineageField,
    PipelinePhase,
    PipelinePhaseField,
    TriggerField,
)
from strandline_api.status.handled_tokens import HandledTokens
from strandline_api.status.inputs import Inputs, list_inputs
from strandline_api.status.preflight import Preflight
from strandline_api.status.records import (
    Count,
    Generation,
    Name,
    Number,
    Record,
    Sentence,
    Summary,
    keep_first,
    keep_last,
)
from strandline_api.status.usage.retry_counts import RetryCounts
from strandline_api.status.usage.run_clock import RunClock
from strandline_api.status.usage.work import RunWork

MAX_CONDITIONS = 16
MAX_ATTEMPTS = 100
MAX_RUNS = 100
# The head and 64 worker groups.
MAX_GROUPS = 65

MemoryByGroup = Annotated[dict[str, Quantity], Field(max_length=MAX_GROUPS), keep_first(MAX_GROUPS)]
TimesByGroup = Annotated[dict[str, Time], Field(max_length=MAX_GROUPS), keep_first(MAX_GROUPS)]


class Condition(Record):
    """A statement about an object that is true, false, or unknown, with the reason."""

    always: ClassVar[frozenset[str]] = frozenset(
        {"type", "status", "reason", "message", "lastTransitionTime"}
    )

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="Type of the condition, unique in the list, such as 'Succeeded'."
    )
    status: Literal["True", "False", "Unknown"] = Field(
        default="Unknown", description="Status of the condition."
    )
    observed_generation: Count | None = Field(
        default=None,
        description=(
            "The metadata.generation for which the condition was set. If it is less than the "
            "current one, the condition is out of date."
        ),
    )
    last_transition_time: Time = Field(
        default=0.0,
        description="Time at which 'status' last changed, such as '2026-01-31T10:30:00Z'.",
    )
    reason: Annotated[str, Field(min_length=1, max_length=256)] = Field(
        default="Unknown",
        description=(
            "Reason for the last change in one word, such as 'OOMKilled'. Programs can rely on it: "
            "a reason keeps its meaning between versions."
        ),
    )
    message: Sentence = Field(
        default="",
        description="Explanation for people: the current situation, and what to do about it.",
    )


class ProgressCounts(Record):
    """Counts of the sources by state."""

    total: Count | None = Field(
        default=None, description="Number of sources listed. Absent while they are being listed."
    )
    finished: Count = Field(default=0, description="Number of sources that the attempt finished.")
    failed: Count = Field(default=0, description="Number of sources that failed in the attempt.")
    quarantined: Count = Field(
        default=0,
        description="Number of quarantined sources, which are no longer processed.",
    )
    skipped: Count = Field(
        default=0,
        description=(
            "Number of sources that were skipped because earlier attempts had finished them."
        ),
    )
    unfinished: Count = Field(
        default=0, description="Number of sources that are neither finished nor failed."
    )
    redone: Count | None = Field(
        default=None,
        description=(
            "Number of sources that were finished before the pipeline was edited, and that the "
            "attempt processes again because 'onChange' is 'Redo'. Absent if there are none."
        ),
    )


def format_progress(known: Mapping[str, Any]) -> str:
    """Format the finished sources of all attempts as `120/1000`, or `120/?` without a total."""
    total = known.get("total")
    done = known.get("finished", 0) + known.get("skipped", 0)
    return f"{done}/{'?' if total is None else total}"


def _format_text(given: object, info: ValidationInfo) -> str:
    del given  # derive the text from the counts, and ignore the input
    return format_progress(info.data)


class Progress(ProgressCounts):
    """How far the work is, and how fast it advances."""

    rate_per_second: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="Number of sources finished per second, averaged over recent time.",
    )
    seconds_left: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="Estimated number of seconds until the end. Absent if unknown."
    )
    time: Time | None = Field(
        default=None, description="Time at which these numbers were read from the driver."
    )
    # Stored, because a printer column can't combine two fields.
    text: Annotated[str, Field(max_length=64), BeforeValidator(_format_text)] = Field(
        default="",
        validate_default=True,
        description=(
            "Finished and skipped sources out of the total, such as '120/1000'. The total is '?' "
            "while sources are being listed."
        ),
    )


Conditions = Annotated[
    tuple[Condition, ...], Field(max_length=MAX_CONDITIONS), keep_first(MAX_CONDITIONS)
]


def list_conditions(description: str) -> Any:  # noqa: ANN401 - as pydantic's Field
    """Declare a status field of conditions. Each condition type occurs at most once."""
    return Field(default=(), json_schema_extra=keyed_by("type"), description=description)


class PastAttemptRecord(Record):
    """The remaining record of an attempt whose object was deleted."""

    always: ClassVar[frozenset[str]] = frozenset({"number"})

    number: Number = Field(description="Number of the attempt.")
    name: Name = Field(default="", description="Name of the CurationAttempt object.")
    run: Name = Field(default="", description="Name of the run that the attempt belonged to.")
    cause: CauseField | None = Field(
        default=None, description=f"Why the attempt ended badly. Absent if it completed: {A_CAUSE}"
    )
    start_time: Time | None = Field(default=None, description="Time at which the attempt began.")
    end_time: Time | None = Field(default=None, description="Time at which the attempt ended.")
    finished: Count = Field(default=0, description="Number of sources that the attempt finished.")
    lineage: LineageField | None = Field(
        default=None,
        description=(
            "State of the operator's report of this end to a lineage system. Absent if the "
            f"operator does not report it. {LINEAGE_STATES}"
        ),
    )


class SpotGroup(Record):
    """The history of a group's pods on spot nodes during the run."""

    always: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name = Field(description="Name of the worker group, or 'head'.")
    disruptions: Count = Field(
        default=0,
        description=(
            "Number of attempts that ended because such a pod was taken from a spot node, plus "
            "heads that lost their spot node before the driver ran."
        ),
    )
    on_demand_since: Time | None = Field(
        default=None,
        description=(
            "Time since which attempts use on-demand nodes instead. Absent while they use spot "
            "nodes."
        ),
    )
    reason: Sentence = Field(
        default="", description="Why attempts use on-demand nodes, such as 'no room for 20m'."
    )
    no_room_since: Time | None = Field(
        default=None,
        description=(
            "Time since which no spot node has room for such pods. It does not change if a node is "
            "lost, or the attempt ends, before the driver and the pod have run for five minutes. "
            "Absent once the pods work."
        ),
    )


class ScheduleStatus(Record):
    """The scheduled starts that were handled: a run started, or the start was skipped."""

    rule: Annotated[str, Field(max_length=256)] = Field(
        default="", description="Cron expression and time zone that the times here belong to."
    )
    last_time: Time = Field(
        default=0.0, description="Time up to which all starts are accounted for."
    )
    next_time: Time | None = Field(
        default=None, description="Time at which a run is due next. Absent if there is none."
    )
    missed: Count = Field(
        default=0, description="Number of starts that were skipped over the pipeline's life."
    )
    last_missed_time: Time | None = Field(
        default=None, description="Time of the last start that was skipped."
    )


class PipelineStatus(Record):
    """The observed state of the pipeline."""

    observed_generation: Generation | None = Field(
        default=None,
        description=(
            "The metadata.generation that this status describes. -1 until the operator has seen "
            "the object."
        ),
    )
    conditions: Conditions = list_conditions(
        "Conditions, for programs to read. 'Succeeded' summarizes the run, and 'Stalled' means "
        "that a user must act."
    )
    phase: PipelinePhaseField = Field(
        default=PipelinePhase.PENDING,
        description=(
            f"Phase of the pipeline, for people. Programs read the conditions. {PIPELINE_PHASES}"
        ),
    )
    run: Name = Field(
        default="",
        description="Name of the current run, from 'spec.runId' or from the time of its schedule.",
    )
    requested_run: Name = Field(
        default="",
        description=(
            "The last 'spec.runId' that was handled, if it is not the current run's name."
        ),
    )
    schedule: ScheduleStatus | None = Field(
        default=None, description="Scheduled runs, if 'spec.schedule' is set."
    )
    run_start_time: Time | None = Field(default=None, description="Time at which the run began.")
    run_clock: RunClock | None = Field(
        default=None,
        description=(
            "Time for which the run was suspended or queued, or waited for node capacity or other "
            "pipelines. 'deadlines.run' does not count it."
        ),
    )
    preflight: Preflight | None = Field(
        default=None,
        description=(
            "The last check of stages and parameters before a Ray cluster was created. Absent if "
            "there was none."
        ),
    )
    attempt: Count = Field(
        default=0, description="Number of the latest attempt. 0 before the first one."
    )
    state: Sentence = Field(
        default="",
        description=(
            "Current activity, for people, such as 'retry 1 of 3 at 10:31:05 after OOMKilled'."
        ),
    )
    summary: Summary = Field(
        default="", description="Short form of 'state', for a column of a terminal."
    )
    retries: RetryCounts | None = Field(
        default=None, description="How many retries the run has used."
    )
    incidents: Count = Field(
        default=0,
        description="Number of workers that were lost in this run without ending an attempt.",
    )
    work: RunWork | None = Field(
        default=None, description="Work of the run's ended attempts. Absent if unknown."
    )
    next_attempt_time: Time | None = Field(
        default=None, description="Time at which the next attempt is due. Absent if none is."
    )
    next_start_time: Time | None = Field(
        default=None,
        description=(
            "Time at which the next attempt starts. Absent if none is due, and while the pipeline "
            "is suspended or blocked."
        ),
    )
    retry_cause: CauseField | None = Field(
        default=None,
        description=f"Why the last attempt failed, so that another one is due: {A_CAUSE}",
    )
    retry_trigger: TriggerField | None = Field(
        default=None, description=f"Why the next attempt is due. {TRIGGERS}"
    )
    memory: MemoryByGroup = Field(
        default={},
        description=(
            "Raised memory per pod, by 'head' or name of a worker group, such as 'gpu: 24Gi'. Only "
            "groups with pods that ran out of memory are listed."
        ),
    )
    memory_requested: MemoryByGroup = Field(
        default={},
        description=(
            "Memory that the pipeline requested when its memory was raised, by 'head' or name of a "
            "worker group. If the request changes later, it replaces the raised memory."
        ),
    )
    spot: Annotated[tuple[SpotGroup, ...], Field(max_length=MAX_GROUPS), keep_first(MAX_GROUPS)] = (
        Field(
            default=(),
            json_schema_extra=keyed_by("name"),
            description=(
                "Head and worker groups that have lost spot nodes in this run, or found none, and "
                "whether they now use on-demand nodes."
            ),
        )
    )
    progress: Progress | None = Field(
        default=None, description="Progress of the run, as last reported by the driver."
    )
    latest: Annotated[str, Field(max_length=253)] = Field(
        default="",
        description=(
            "Target of the link 'latest', that is, the newest publication, such as "
            "'attempts/0003/p0007'."
        ),
    )
    volume_claim: Name = Field(
        default="", description="Name of the persistent volume claim that holds the ledger."
    )
    attempts: Annotated[
        tuple[PastAttemptRecord, ...], Field(max_length=MAX_ATTEMPTS), keep_last(MAX_ATTEMPTS)
    ] = Field(
        default=(),
        json_schema_extra=keyed_by("number"),
        description="Ended attempts, the newest last. 'attemptHistoryLimit' limits their number.",
    )
    completed_runs: Annotated[tuple[Name, ...], Field(max_length=MAX_RUNS), keep_last(MAX_RUNS)] = (
        Field(
            default=(),
            description=(
                "Names of completed runs whose attempts are no longer listed, the newest last, for "
                "pipelines that depend on one of them."
            ),
        )
    )
    inputs: Inputs = list_inputs(
        "Other pipelines that the latest run depends on, in their state when its first attempt was "
        "created. Retries read the same outputs."
    )
    handled: HandledTokens | None = Field(
        default=None, description="Requests by annotation that were handled."
    )
    last_attempt_time: Time | None = Field(
        default=None, description="Time at which the latest attempt was created."
    )
    defaults: DefaultsRecord | None = Field(
        default=None, description="Defaults of the namespace that the pipeline uses."
    )

    @property
    def answered_run(self) -> str:
        """The last `runId` of the spec that the operator handled."""
        return self.requested_run or self.run

    @property
    def is_seen(self) -> bool:
        """Return True if an operator has written this status."""
        return self.observed_generation is not None and self.observed_generation >= 0

    @property
    def spent(self) -> Spent:
        """Counts that the run has used up, in the form that the retry law uses."""
        return Spent() if self.retries is None else self.retries.spent

    def find_condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, or None if it is missing."""
        return next((each for each in self.conditions if each.type == type_), None)


def parse_status(document: object) -> PipelineStatus:
    """Read a pipeline's status, written by any version of the operator.

    Unknown fields, unknown values, and values of the wrong type count as missing. An unknown cause
    becomes `Unknown`. Never raises.
    """
    return PipelineStatus.parse(document)
