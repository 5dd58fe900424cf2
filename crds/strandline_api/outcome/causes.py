"""Why an attempt ended badly: a fixed list, and what may follow each cause.

Status, events and metrics carry these words unchanged. This room must not know how a cause is
found out, nor when a retry happens.
"""

from enum import StrEnum
from typing import NamedTuple


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
    LEDGER_IN_USE = "LedgerInUse"
    INTERRUPTED = "Interrupted"
    OOM_KILLED = "OOMKilled"
    TIMEOUT = "Timeout"
    KILLED = "Killed"
    IMAGE_PULL_FAILURE = "ImagePullFailure"
    SCHEDULING_TIMEOUT = "SchedulingTimeout"
    SUBMISSION_FAILED = "SubmissionFailed"
    RAY_NOT_STARTED = "RayNotStarted"
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
    REQUIREMENTS_NOT_MET = "RequirementsNotMet"
    BUDGET_SPENT = "BudgetSpent"
    DEADLINE_EXCEEDED = "DeadlineExceeded"

    @property
    def treatment(self) -> Treatment:
        """Return whether an attempt may follow, and out of which budget."""
        return _ROWS[self].treatment

    @property
    def meaning(self) -> str:
        """One sentence for people: what has happened."""
        return _ROWS[self].meaning

    @property
    def advice(self) -> str:
        """One or two sentences for people: what to do about it."""
        return _ROWS[self].advice


class _Row(NamedTuple):
    """All that is known of a cause: what follows it, what has happened, and what to do."""

    treatment: Treatment
    meaning: str
    advice: str


_ROWS = {
    Cause.PREEMPTED: _Row(
        Treatment.DISRUPTION,
        "A spot node was taken back, or pods of higher priority took the place of a pod.",
        (
            "Nothing: the next attempt goes on. The evidence says [which](#disruptions), and what "
            "helps where it keeps happening."
        ),
    ),
    Cause.EVICTED: _Row(
        Treatment.DISRUPTION,
        (
            "A pod was put off its node: a drain, an autoscaler or Karpenter, maintenance, or a "
            "node short of memory or disk."
        ),
        (
            "Mostly nothing: the evidence says [which](#disruptions). Only where the node was "
            "short of something, raise the pod's requests."
        ),
    ),
    Cause.NODE_LOST: _Row(
        Treatment.DISRUPTION,
        "The node of a pod was shut down, went away, stopped answering or came back empty.",
        "Nothing: the next attempt goes on elsewhere. Look at the node if it is to come back.",
    ),
    Cause.LEDGER_IN_USE: _Row(
        Treatment.DISRUPTION,
        "Another driver has the ledger, and gave signs of life.",
        (
            "Nothing where it is about to end, as on a node that fell silent. Otherwise find who "
            "else runs the pipeline on this volume, and stop one of them."
        ),
    ),
    Cause.INTERRUPTED: _Row(
        Treatment.DISRUPTION,
        "The driver was asked to stop, saved its work and ended.",
        "Nothing: the next attempt goes on from there.",
    ),
    Cause.OOM_KILLED: _Row(
        Treatment.RETRIED,
        "A process was ended because memory had run out.",
        (
            "Usually nothing: the next attempt gets `oom.memoryFactor` times the memory. Where "
            "`oom.maxMemory` or the largest node stops that, raise it, or lower `batchSize` of "
            "the stage."
        ),
    ),
    Cause.TIMEOUT: _Row(
        Treatment.RETRIED,
        "A stage took longer for a task than its `timeout`.",
        (
            "Look at the source and the lines of code that the message names: the source is tried "
            "apart, and quarantined in the end. Where tasks may take so long, raise `timeout` of "
            "the stage."
        ),
    ),
    Cause.KILLED: _Row(
        Treatment.RETRIED,
        "A process was ended by SIGKILL, and nothing tells who sent it.",
        "Look at the node's kernel log. Where it speaks of memory, raise the pod's memory.",
    ),
    Cause.IMAGE_PULL_FAILURE: _Row(
        Treatment.RETRIED,
        "A node could not pull an image.",
        "Correct `ray.image`, or name the registry's secret in `ray.imagePullSecrets`.",
    ),
    Cause.SCHEDULING_TIMEOUT: _Row(
        Treatment.RETRIED,
        (
            "The driver did not run within `deadlines.preRunning`, mostly since no node can hold a "
            "pod."
        ),
        "Add nodes, ask for less, or correct node selectors and tolerations in the pod templates.",
    ),
    Cause.SUBMISSION_FAILED: _Row(
        Treatment.RETRIED,
        "The Ray cluster was there, but KubeRay could not start the driver or lost sight of it.",
        "Read the message of the RayJob and KubeRay's log. A retry mostly helps.",
    ),
    Cause.RAY_NOT_STARTED: _Row(
        Treatment.RETRIED,
        "A local Ray did not start on this machine.",
        (
            "Read what its log says, in the message. `strandline doctor` looks at memory, "
            "`/dev/shm`, open files and variables, and starts one. `--engine inline` needs none."
        ),
    ),
    Cause.STALLED: _Row(
        Treatment.RETRIED,
        "The driver gave no sign of life for `deadlines.stall`.",
        (
            "Look in the last log lines for what the driver did: a merge, or a disk that does not "
            "answer. Where that may take so long, raise `deadlines.stall`. A worker that hangs is "
            "no silence: `timeout` of the stage ends that."
        ),
    ),
    Cause.SOURCES_FAILED: _Row(
        Treatment.RETRIED,
        "The run came to its end, but some sources failed.",
        (
            "`strandline ledger sources FILE --state failed` says which and why, on a cluster "
            "`kubectl strandline ledger sources NAME --state failed`. Mend the stage or the "
            "source; sources that keep failing are quarantined."
        ),
    ),
    Cause.APPLICATION_ERROR: _Row(
        Treatment.RETRIED,
        "A stage or the program itself raised an error.",
        (
            "Read the attempt's message and last log lines. On a machine of your own, `strandline "
            "run FILE --engine inline --debug` shows the traceback."
        ),
    ),
    Cause.UNKNOWN: _Row(
        Treatment.RETRIED,
        "Nothing that was seen tells why the attempt ended.",
        "Read the attempt's evidence and events, and the logs of its pods where they are kept.",
    ),
    Cause.USER_CANCELLED: _Row(
        Treatment.NEVER,
        "Somebody ended the run.",
        "Nothing. A new `runId` starts another run, which skips what is finished.",
    ),
    Cause.INVALID_SPEC: _Row(
        Treatment.NEVER,
        "The pipeline says something that cannot be run.",
        "Correct what the message names and apply the pipeline again.",
    ),
    Cause.QUOTA_EXCEEDED: _Row(
        Treatment.DISRUPTION,
        "A quota of the namespace does not allow what the attempt needs.",
        "Nothing where others give room back. Otherwise raise the quota or ask for less.",
    ),
    Cause.NON_DETERMINISTIC: _Row(
        Treatment.NEVER,
        "A stage gave different results for the same input.",
        (
            "Make the stage depend on its input alone: fixed seeds, no clock. Then start "
            "a new run with `onChange: Restart`."
        ),
    ),
    Cause.LEDGER_MISMATCH: _Row(
        Treatment.NEVER,
        "The ledger belongs to another pipeline or version, or it is damaged.",
        (
            "Undo the change, or choose `onChange: Redo`, `Restart` or `Continue`. Where the "
            "ledger has a newer format, run the version that wrote it. Restore a damaged ledger."
        ),
    ),
    Cause.VOLUME_UNUSABLE: _Row(
        Treatment.NEVER,
        (
            "The volume cannot be used: its file system, its space or its permissions, or the "
            "claim has none."
        ),
        (
            "Read the message: make the claim larger, or choose a storage class of local or block "
            "storage that exists. Then retry by hand."
        ),
    ),
    Cause.QUARANTINE_EXCEEDED: _Row(
        Treatment.NEVER,
        "More sources are quarantined than `quarantine.tolerate` allows.",
        (
            "`strandline ledger quarantine list FILE` says which and why, on a cluster "
            "`kubectl strandline quarantine list NAME`. Mend and release them, or tolerate more."
        ),
    ),
    Cause.REQUIREMENTS_NOT_MET: _Row(
        Treatment.NEVER,
        "The run is complete, but does not meet what `publish.require` asks for.",
        (
            "The message names each requirement. Mend the data or the stages, or change "
            "`publish.require`; then retry by hand. `latest` is as it was before."
        ),
    ),
    Cause.BUDGET_SPENT: _Row(
        Treatment.NEVER,
        "A stage that asks a model has spent its `budget`; what was answered is kept.",
        (
            "Raise `budget` of the stage that the message names, then retry by hand: it goes on "
            "there, and asks for nothing twice."
        ),
    ),
    Cause.DEADLINE_EXCEEDED: _Row(
        Treatment.NEVER,
        "The attempt took longer than `deadlines.attempt`, or the run longer than `deadlines.run`.",
        "Raise the deadline, or find out what is slow. Then retry by hand.",
    ),
}
# A cause without a row would be in no set, and be retried for ever.
if missing := set(Cause) - _ROWS.keys():
    msg = f"causes without a row: {sorted(missing)}"
    raise AssertionError(msg)
_DISRUPTIONS = {cause for cause, row in _ROWS.items() if row.treatment is Treatment.DISRUPTION}
# Ends that nothing that was being worked on can have brought about.
BLAMELESS = frozenset({*_DISRUPTIONS, Cause.USER_CANCELLED, Cause.DEADLINE_EXCEEDED})

# The default of `retry.eligibleCauses`, in the order of the list above.
RETRYABLE_CAUSES = tuple(cause for cause in Cause if cause.treatment is not Treatment.NEVER)
