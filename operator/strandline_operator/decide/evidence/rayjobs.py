"""Reads evidence from an attempt's RayJob: Ray's report on the job, and KubeRay's own report.

Both reports use the same fields. KubeRay sets its own reasons, and sets `FAILED` for a lost job, in
which case the driver's end is unknown. Only messages from Ray describe the driver. The cases are
based on the source of KubeRay 1.7.0. This module must not depend on reports of pods or of the
driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_operator.model.objects import RayJob

# In state `Retrying`, KubeRay would run the driver a second time. The operator treats the first run
# as ended.
TERMINAL = frozenset({"Complete", "Failed", "ValidationFailed", "Retrying"})
# Ray's states for an ended job. KubeRay itself sets only `FAILED`.
ENDED_JOBS = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_SUBMISSION_FAILED, _CHECKS_FAILED = "SubmissionFailed", "JobStatusCheckTimeoutExceeded"
_TRANSITION = "JobDeploymentStatusTransitionGracePeriodExceeded"
# Reasons that KubeRay sets on its own decision, regardless of Ray's report about the job.
_OWN_REASONS = {
    "DeadlineExceeded": Cause.DEADLINE_EXCEEDED,
    "PreRunningDeadlineExceeded": Cause.SCHEDULING_TIMEOUT,
    "ValidationFailed": Cause.INVALID_SPEC,
    _SUBMISSION_FAILED: Cause.SUBMISSION_FAILED,
    _CHECKS_FAILED: Cause.STALLED,
}
# Messages that KubeRay writes with a reason that otherwise comes from the driver.
_OWN_SENTENCES = ("Ray head pod not found", "Submitter completed but Ray job not found")
# KubeRay uses the reason `_TRANSITION` both for a lost job and for a job that ended before its
# submitter. This text marks a job that ended.
_SAW_END = "after JobStatus reaches a terminal state"
# Ray's messages about a driver that was not started, or was lost.
_NOT_STARTED = (
    "runtime_env setup failed",
    "Failed to start supervisor actor",
    "Job supervisor actor failed to start",
    "Job supervisor actor could not be scheduled",
    "Unexpected error occurred",
)
# Ray's message if its supervisor was killed together with the driver, which did not fail itself.
_SUPERVISOR_DIED = "Job supervisor actor died"
# Match only the start of a message, because the rest may contain any output of the driver.
_EXIT_CODE = re.compile(r"(?:Job entrypoint command failed with )?exit code (-?\d{1,3})\b")


def find_rayjob_evidence(rayjob: RayJob) -> Iterator[Evidence]:
    """Yield the reliable evidence in a RayJob that ended badly."""
    # If the job was stopped in Ray, the driver had no time to report a reason, and its submitter
    # failed.
    if rayjob.job == "STOPPED" and rayjob.reason in {"", _TRANSITION, _SUBMISSION_FAILED}:
        yield Evidence(Cause.INTERRUPTED, "the Ray job was stopped", "rayjob", {})
    # KubeRay lost the job and gives no more specific reason.
    elif is_lost(rayjob) and rayjob.reason not in _OWN_REASONS:
        yield _quote(rayjob, Cause.SUBMISSION_FAILED)
    elif rayjob.deployment == "ValidationFailed":
        yield _quote(rayjob, Cause.INVALID_SPEC)
    elif rayjob.reason in _OWN_REASONS:
        yield _quote(rayjob, _OWN_REASONS[rayjob.reason])
    # Ray reported a failure. Ignore unknown reasons, which newer KubeRay releases may have added.
    elif rayjob.job == "FAILED" and rayjob.reason in {"", "AppFailed", _TRANSITION}:
        yield _read_failure(rayjob)


def is_lost(rayjob: RayJob) -> bool:
    """Return True if KubeRay gave up on a job without seeing its end."""
    # In these job states, Ray itself reported the end.
    if rayjob.deployment not in TERMINAL or rayjob.job in {"SUCCEEDED", "STOPPED"}:
        return False
    # KubeRay uses this reason for lost and for ended jobs, and only the message distinguishes them.
    if rayjob.reason == _TRANSITION:
        return _SAW_END not in rayjob.message
    is_own = rayjob.message.startswith(_OWN_SENTENCES)
    return is_own or rayjob.reason in {_SUBMISSION_FAILED, _CHECKS_FAILED}


def _read_failure(rayjob: RayJob) -> Evidence:
    """Return evidence from Ray's report about a failed job."""
    match = _EXIT_CODE.match(rayjob.message)
    evidence = read_exit(int(match[1])) if match else None
    # Prefer the exit code, which comes from the driver, to Ray's message.
    if evidence is not None:
        return Evidence(evidence.cause, evidence.message, "rayjob", evidence.details)
    message, cause = rayjob.message or "the driver failed", Cause.APPLICATION_ERROR
    if message.startswith(_SUPERVISOR_DIED):
        cause = Cause.KILLED
    elif message.startswith(_NOT_STARTED):
        cause = Cause.SUBMISSION_FAILED
    elif rayjob.reason == _TRANSITION:
        message = (
            "Ray reports a failed driver; the reason was lost with its submitter, which never ended"
        )
    return Evidence(cause, message, "rayjob", {"reason": rayjob.reason})


def _quote(rayjob: RayJob, cause: Cause) -> Evidence:
    """Return evidence with the given cause and KubeRay's message."""
    message = f"RayJob {rayjob.reason or rayjob.deployment}: {rayjob.message or 'no message'}"
    return Evidence(cause, message, "rayjob", {"reason": rayjob.reason})
