"""Causes: a fixed list of reasons why an attempt ended badly, and the treatment of each.

Status, events, and metrics contain these values unchanged. This module must not depend on how a
cause is determined, or on the time of a retry.
"""

from enum import StrEnum
from typing import NamedTuple


class Treatment(StrEnum):
    """How a cause is treated: which budget pays for another attempt, if any.

    `WAITED` needs no budget: the attempt did not start, and attempts follow until there is
    capacity.
    """

    DISRUPTION = "disruption"
    RETRIED = "retried"
    WAITED = "waited"
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
    MODEL_UNAVAILABLE = "ModelUnavailable"
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
        """Return the budget that pays for another attempt, or `NEVER`."""
        return _ROWS[self].treatment

    @property
    def meaning(self) -> str:
        """One sentence for people about what happened."""
        return _ROWS[self].meaning

    @property
    def advice(self) -> str:
        """One or two sentences for people about what to do."""
        return _ROWS[self].advice


class _Row(NamedTuple):
    """The treatment, meaning, and advice of a cause."""

    treatment: Treatment
    meaning: str
    advice: str


_ROWS = {
    Cause.PREEMPTED: _Row(
        Treatment.DISRUPTION,
        "The cloud reclaimed a spot node, or pods of higher priority preempted a pod.",
        (
            "Nothing: the next attempt continues the run. The evidence says [which](#disruptions), "
            "and what helps if it happens often."
        ),
    ),
    Cause.EVICTED: _Row(
        Treatment.DISRUPTION,
        (
            "A pod was evicted from its node: by a drain, an autoscaler or Karpenter, for "
            "maintenance, or because the node was short of memory or disk."
        ),
        (
            "Usually nothing: the evidence says [which](#disruptions). If the node was short of "
            "a resource, raise the requests of the pod."
        ),
    ),
    Cause.NODE_LOST: _Row(
        Treatment.DISRUPTION,
        "The node of a pod was shut down, was removed, stopped answering, or restarted.",
        "Nothing: the next attempt continues on another node. Check the node before you reuse it.",
    ),
    Cause.LEDGER_IN_USE: _Row(
        Treatment.DISRUPTION,
        "Another driver holds the ledger and is alive.",
        (
            "Nothing if that driver is about to end, as on a lost node. Otherwise find the other "
            "run of the pipeline on this volume, and stop one of them."
        ),
    ),
    Cause.INTERRUPTED: _Row(
        Treatment.DISRUPTION,
        "The driver was asked to stop, saved its work, and exited.",
        "Nothing: the next attempt continues from there.",
    ),
    Cause.OOM_KILLED: _Row(
        Treatment.RETRIED,
        "A process was killed because it ran out of memory.",
        (
            "Usually nothing: the next attempt gets `oom.memoryFactor` times the memory. If "
            "`oom.maxMemory` or the largest node limits that, raise it, or lower `batchSize` of "
            "the stage."
        ),
    ),
    Cause.TIMEOUT: _Row(
        Treatment.RETRIED,
        "A stage took longer for a task than its `timeout`.",
        (
            "Look at the source and the lines of code in the message: the source is retried alone, "
            "and finally quarantined. If tasks may take that long, raise `timeout` of the stage."
        ),
    ),
    Cause.KILLED: _Row(
        Treatment.RETRIED,
        "A process was killed by SIGKILL from an unknown sender.",
        "Look at the node's kernel log. If it mentions memory, raise the memory of the pod.",
    ),
    Cause.IMAGE_PULL_FAILURE: _Row(
        Treatment.RETRIED,
        "A node could not pull an image.",
        "Correct `ray.image`, or name the registry's secret in `ray.imagePullSecrets`.",
    ),
    Cause.SCHEDULING_TIMEOUT: _Row(
        Treatment.RETRIED,
        (
            "The driver did not start within `deadlines.preRunning`, usually because no node fits "
            "a pod."
        ),
        "Add nodes, request less, or correct node selectors and tolerations in the pod templates.",
    ),
    Cause.SUBMISSION_FAILED: _Row(
        Treatment.RETRIED,
        "The Ray cluster was ready, but KubeRay could not start the driver, or lost track of it.",
        "Read the message of the RayJob and KubeRay's log. A retry usually helps.",
    ),
    Cause.RAY_NOT_STARTED: _Row(
        Treatment.RETRIED,
        "A local Ray instance did not start on this machine.",
        (
            "Read the excerpt of its log in the message. `strandline doctor` checks memory, "
            "`/dev/shm`, open files and variables, and starts Ray. `--engine inline` needs no Ray."
        ),
    ),
    Cause.STALLED: _Row(
        Treatment.RETRIED,
        "The driver did not answer for `deadlines.stall`.",
        (
            "The last log lines show what the driver did, such as a merge, or waiting for a disk "
            "that does not respond. If that may take so long, raise `deadlines.stall`. A worker "
            "that hangs does not silence the driver: `timeout` of the stage ends it."
        ),
    ),
    Cause.MODEL_UNAVAILABLE: _Row(
        Treatment.RETRIED,
        "A model server that a stage sends requests to was down for longer than `patience`.",
        (
            "Start the server named in the message, or correct `url` of the stage. Answers so far "
            "are kept. If the server may be down for so long, raise `patience`."
        ),
    ),
    Cause.SOURCES_FAILED: _Row(
        Treatment.RETRIED,
        "The run reached its end, but some sources failed.",
        (
            "`strandline ledger sources FILE --state failed` lists them with the reasons, on a "
            "cluster `kubectl strandline ledger sources NAME --state failed`. Fix the stage or "
            "the source; sources that keep failing are quarantined."
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
        "No evidence explains why the attempt ended.",
        "Read the attempt's evidence and events, and the logs of its pods if they are kept.",
    ),
    Cause.USER_CANCELLED: _Row(
        Treatment.NEVER,
        "A user cancelled the run.",
        "Nothing. A new `runId` starts another run, which skips finished sources.",
    ),
    Cause.INVALID_SPEC: _Row(
        Treatment.NEVER,
        "The pipeline is invalid and cannot run.",
        "Correct the error in the message, and apply the pipeline again.",
    ),
    Cause.QUOTA_EXCEEDED: _Row(
        Treatment.WAITED,
        "A quota of the namespace does not allow what the attempt needs.",
        "Nothing if other workloads free the quota. Otherwise raise the quota, or request less.",
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
            "Undo the change, or choose `onChange: Redo`, `Restart` or `Continue`. If the ledger "
            "has a newer format, run the version that wrote it. Restore a damaged ledger."
        ),
    ),
    Cause.VOLUME_UNUSABLE: _Row(
        Treatment.NEVER,
        (
            "The volume cannot be used because of its file system, space or permissions, or the "
            "claim does not exist or has no volume."
        ),
        (
            "See the message: create or enlarge the claim, or choose an existing storage class of "
            "local or block storage. Then retry by hand."
        ),
    ),
    Cause.QUARANTINE_EXCEEDED: _Row(
        Treatment.NEVER,
        "More sources are quarantined than `quarantine.tolerate` allows.",
        (
            "`strandline ledger quarantine list FILE` lists them with the reasons, on a cluster "
            "`kubectl strandline quarantine list NAME`. Fix and release them, or tolerate more."
        ),
    ),
    Cause.REQUIREMENTS_NOT_MET: _Row(
        Treatment.NEVER,
        "The run is complete, but does not meet `publish.require`.",
        (
            "The message lists each requirement. Fix the data or the stages, or change "
            "`publish.require`; then retry by hand. `latest` is unchanged."
        ),
    ),
    Cause.BUDGET_SPENT: _Row(
        Treatment.NEVER,
        "A stage that sends requests to a model has spent its `budget`. All answers are kept.",
        (
            "Raise `budget` of the stage in the message, then retry by hand: the run continues "
            "there, and repeats no request."
        ),
    ),
    Cause.DEADLINE_EXCEEDED: _Row(
        Treatment.NEVER,
        "The attempt took longer than `deadlines.attempt`, or the run longer than `deadlines.run`.",
        "Raise the deadline, or find out what is slow. Then retry by hand.",
    ),
}
# A cause without a row would have no treatment.
if missing := set(Cause) - _ROWS.keys():
    msg = f"causes without a row: {sorted(missing)}"
    raise AssertionError(msg)
_FROM_OUTSIDE = {Treatment.DISRUPTION, Treatment.WAITED}
_DISRUPTIONS = {cause for cause, row in _ROWS.items() if row.treatment in _FROM_OUTSIDE}
# Causes that no source or stage can be responsible for.
BLAMELESS = frozenset({*_DISRUPTIONS, Cause.USER_CANCELLED, Cause.DEADLINE_EXCEEDED})

# The default of `retry.eligibleCauses`, in the order of the `Cause` members.
RETRYABLE_CAUSES = tuple(cause for cause in Cause if cause.treatment is not Treatment.NEVER)
