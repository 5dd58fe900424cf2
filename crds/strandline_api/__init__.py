"""The contract that the cluster side and the data side of Strandline both sign.

Names, exit codes, causes and the meaning of every field of the API live here; both sides import
it, and it imports neither of them.
"""

from strandline_api.attempt import (
    AttemptOutcome,
    AttemptSpec,
    AttemptStatus,
    CurationAttempt,
    EvidenceRecord,
    ObjectReference,
    parse_attempt_status,
)
from strandline_api.causes import RETRYABLE_CAUSES, Cause, Treatment
from strandline_api.documents import SpecError, parse_attempt, parse_pipeline
from strandline_api.evidence import Evidence, name_cause, read_exit, spell_exit_code
from strandline_api.exit_codes import ExitCode
from strandline_api.kinds import API_VERSION, ATTEMPT, CATEGORY, GROUP, PIPELINE, VERSION, Kind
from strandline_api.memory_growth import grow_memory
from strandline_api.names import name_attempt, name_claim, name_rayjob
from strandline_api.outcomes import (
    DriverOutcome,
    SourceCounts,
    find_outcome_line,
    name_outcome,
    spell_outcome_line,
)
from strandline_api.pipeline import CurationPipeline, ObjectMeta, PipelineSpec
from strandline_api.problems import Problem, did_you_mean, problems_of
from strandline_api.quantities import (
    Duration,
    PositiveDuration,
    Quantity,
    parse_cpu,
    parse_duration,
    parse_memory,
    spell_memory,
)
from strandline_api.reasons import ConditionType, EventReason, Reason
from strandline_api.retry import (
    GiveUp,
    PastAttempt,
    RetryAt,
    Spent,
    count_spent,
    decide,
    describe_due,
    describe_wait,
    merge_policies,
)
from strandline_api.spec_policy import OomPolicy, RetryPolicy
from strandline_api.spec_work import Resources, SinkWork, SourceWork, StageWork, WorkerBounds
from strandline_api.status import (
    Condition,
    Counts,
    HandledTokens,
    PastAttemptRecord,
    PipelineStatus,
    Progress,
    RetryCounts,
    parse_status,
)
from strandline_api.times import Time, parse_time, spell_time
from strandline_api.words import AttemptPhase, PipelinePhase, Trigger

__all__ = [
    "API_VERSION",
    "ATTEMPT",
    "CATEGORY",
    "GROUP",
    "PIPELINE",
    "RETRYABLE_CAUSES",
    "VERSION",
    "AttemptOutcome",
    "AttemptPhase",
    "AttemptSpec",
    "AttemptStatus",
    "Cause",
    "Condition",
    "ConditionType",
    "Counts",
    "CurationAttempt",
    "CurationPipeline",
    "DriverOutcome",
    "Duration",
    "EventReason",
    "Evidence",
    "EvidenceRecord",
    "ExitCode",
    "GiveUp",
    "HandledTokens",
    "Kind",
    "ObjectMeta",
    "ObjectReference",
    "OomPolicy",
    "PastAttempt",
    "PastAttemptRecord",
    "PipelinePhase",
    "PipelineSpec",
    "PipelineStatus",
    "PositiveDuration",
    "Problem",
    "Progress",
    "Quantity",
    "Reason",
    "Resources",
    "RetryAt",
    "RetryCounts",
    "RetryPolicy",
    "SinkWork",
    "SourceCounts",
    "SourceWork",
    "SpecError",
    "Spent",
    "StageWork",
    "Time",
    "Treatment",
    "Trigger",
    "WorkerBounds",
    "count_spent",
    "decide",
    "describe_due",
    "describe_wait",
    "did_you_mean",
    "find_outcome_line",
    "grow_memory",
    "merge_policies",
    "name_attempt",
    "name_cause",
    "name_claim",
    "name_outcome",
    "name_rayjob",
    "parse_attempt",
    "parse_attempt_status",
    "parse_cpu",
    "parse_duration",
    "parse_memory",
    "parse_pipeline",
    "parse_status",
    "parse_time",
    "problems_of",
    "read_exit",
    "spell_exit_code",
    "spell_memory",
    "spell_outcome_line",
    "spell_time",
]
