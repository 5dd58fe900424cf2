"""What events tell, in words that never change.

Alerts and scripts compare these words, so one is never given another meaning. This room must not
know when an event is made.
"""

from enum import StrEnum


class EventReason(StrEnum):
    """What an event tells; each is told once, when it happens."""

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

    @property
    def meaning(self) -> str:
        """One sentence for people: what has happened."""
        return _EVENTS[self]


_EVENTS = {
    EventReason.ATTEMPT_STARTED: "An attempt was made.",
    EventReason.ATTEMPT_SUCCEEDED: "An attempt reached its end well.",
    EventReason.ATTEMPT_FAILED: "An attempt ended badly; the message has the cause.",
    EventReason.RETRY_SCHEDULED: "Another attempt follows at a time that is now fixed.",
    EventReason.RETRY_EXHAUSTED: "No attempt follows, since the retries are used up.",
    EventReason.RETRY_REQUESTED: "An attempt was asked for by annotation.",
    EventReason.MEMORY_RAISED: "The next attempt's pods get more memory.",
    EventReason.MEMORY_LIMITED: (
        "After a kill for memory pods get less than `oom.memoryFactor` says; the message has why."
    ),
    EventReason.SPOT_FALLBACK: (
        "Pods that were on spot nodes use nodes on demand for the rest of the run."
    ),
    EventReason.WORKER_LOST: "A worker was lost, and the rest goes on without it.",
    EventReason.PODS_HELD: (
        "The last attempt of a run has failed, and its pods are kept for somebody to look."
    ),
    EventReason.RUN_STARTED: "A run began.",
    EventReason.RUN_SUCCEEDED: "A run has succeeded.",
    EventReason.RUN_FAILED: "A run has failed; no attempt follows.",
    EventReason.RUN_CANCELLED: "A run was ended by annotation.",
    EventReason.SUSPENDED: "The pipeline is held back from now on.",
    EventReason.RESUMED: "The pipeline goes on.",
    EventReason.BLOCKED: "Something outside has to change first; the condition says what.",
    EventReason.REDOING: (
        "Finished sources are done again after an edit; the message has how many, from where, why."
    ),
    EventReason.SCHEDULE_MISSED: "A run that was due by the clock did not begin.",
}
