"""Why an attempt ended badly: a fixed list, and what may follow each cause.

Status, events and metrics carry these words unchanged. This room must not know how a cause is
found out, nor when a retry happens.
"""

from enum import StrEnum


class Treatment(StrEnum):
    """What follows a cause: which budget pays for another attempt, if any."""

    DISRUPTION = "disruption"
    RETRIED = "retried"
    NEVER = "never"


class Cause(StrEnum):
    """Why an attempt ended badly."""

    PREEMPTED = "Preempted"
    EVICTED = "Evicted"
    NODE_LOST = "NodeLost"
    INTERRUPTED = "Interrupted"
    OOM_KILLED = "OOMKilled"
    KILLED = "Killed"
    IMAGE_PULL_FAILURE = "ImagePullFailure"
    SCHEDULING_TIMEOUT = "SchedulingTimeout"
    SUBMISSION_FAILED = "SubmissionFailed"
    STALLED = "Stalled"
    SOURCES_FAILED = "SourcesFailed"
    APPLICATION_ERROR = "ApplicationError"
    UNKNOWN = "Unknown"
    USER_CANCELLED = "UserCancelled"
    INVALID_SPEC = "InvalidSpec"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NON_DETERMINISTIC = "NonDeterministic"
    LEDGER_MISMATCH = "LedgerMismatch"
    VOLUME_UNUSABLE = "VolumeUnusable"
    QUARANTINE_EXCEEDED = "QuarantineExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"

    @property
    def treatment(self) -> Treatment:
        """Whether an attempt may follow, and out of which budget."""
        if self in _DISRUPTIONS:
            return Treatment.DISRUPTION
        return Treatment.NEVER if self in _FINAL else Treatment.RETRIED


_DISRUPTIONS = frozenset({Cause.PREEMPTED, Cause.EVICTED, Cause.NODE_LOST, Cause.INTERRUPTED})
_FINAL = frozenset(
    {
        Cause.USER_CANCELLED,
        Cause.INVALID_SPEC,
        Cause.QUOTA_EXCEEDED,
        Cause.NON_DETERMINISTIC,
        Cause.LEDGER_MISMATCH,
        Cause.VOLUME_UNUSABLE,
        Cause.QUARANTINE_EXCEEDED,
        Cause.DEADLINE_EXCEEDED,
    }
)

# The default of `retry.eligibleCauses`, in the order of the list above.
RETRYABLE_CAUSES = tuple(cause for cause in Cause if cause.treatment is not Treatment.NEVER)
