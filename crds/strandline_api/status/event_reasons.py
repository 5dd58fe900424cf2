"""Event reasons. Their spelling is part of the API and never changes.

Alerts and scripts compare these words, so the meaning of each word must not change either. This
module must not depend on when an event is created.
"""

from enum import StrEnum


class EventReason(StrEnum):
    """The reason of an event. Each event is reported once, when it happens."""

    ATTEMPT_STARTED = "AttemptStarted"
    ATTEMPT_SUCCEEDED = "AttemptSucceeded"
    ATTEMPT_FAILED = "AttemptFailed"
    RETRY_SCHEDULED = "RetryScheduled"
    RETRY_EXHAUSTED = "RetryExhausted"
    RETRY_REQUESTED = "RetryRequested"
    MEMORY_RAISED = "MemoryRaised"
    MEMORY_LIMITED = "MemoryLimited"
    SPOT_FALLBACK = "SpotFallback"
    WORKER_LOST = "WorkerLost"
    PODS_HELD = "PodsHeld"
    RUN_STARTED = "RunStarted"
    RUN_SUCCEEDED = "RunSucceeded"
    RUN_FAILED = "RunFailed"
    RUN_CANCELLED = "RunCancelled"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    BLOCKED = "Blocked"
    REDOING = "Redoing"
    SCHEDULE_MISSED = "ScheduleMissed"
    DEFAULTS_GONE = "DefaultsGone"

    @property
    def meaning(self) -> str:
        """One sentence for people about what happened."""
        return _EVENTS[self]


_EVENTS = {
    EventReason.ATTEMPT_STARTED: "An attempt was created.",
    EventReason.ATTEMPT_SUCCEEDED: "An attempt completed.",
    EventReason.ATTEMPT_FAILED: "An attempt failed; the message gives the cause.",
    EventReason.RETRY_SCHEDULED: "A retry is scheduled; the message gives its time.",
    EventReason.RETRY_EXHAUSTED: "The retries are used up, so no further attempt is made.",
    EventReason.RETRY_REQUESTED: "A user requested an attempt by annotation.",
    EventReason.MEMORY_RAISED: "The pods of the next attempt get more memory.",
    EventReason.MEMORY_LIMITED: (
        "After an out-of-memory kill, pods get less memory than `oom.memoryFactor` specifies; the "
        "message gives the limit."
    ),
    EventReason.SPOT_FALLBACK: (
        "Pods move from spot nodes to on-demand nodes for the rest of the run."
    ),
    EventReason.WORKER_LOST: "An attempt lost a worker and continues without it.",
    EventReason.PODS_HELD: (
        "The last attempt of a run failed, and its pods are kept for inspection."
    ),
    EventReason.RUN_STARTED: "A run started.",
    EventReason.RUN_SUCCEEDED: "A run succeeded.",
    EventReason.RUN_FAILED: "A run failed, and no further attempt is made.",
    EventReason.RUN_CANCELLED: "A user cancelled a run by annotation.",
    EventReason.SUSPENDED: "The pipeline is suspended.",
    EventReason.RESUMED: "The pipeline is resumed.",
    EventReason.BLOCKED: "An obstacle outside the pipeline blocks it; the message describes it.",
    EventReason.REDOING: (
        "Finished sources are processed again after an edit; the message gives their number, the "
        "starting point, and the reason."
    ),
    EventReason.SCHEDULE_MISSED: "A scheduled run was skipped; the message gives the reason.",
    EventReason.DEFAULTS_GONE: (
        "The namespace's defaults are still missing, and attempts are created without them."
    ),
}
