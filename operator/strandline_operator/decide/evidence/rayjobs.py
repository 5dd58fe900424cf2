"""Evidence from an attempt's RayJob: Ray's report on the job, and KubeRay's own report.

Both use the same fields. KubeRay sets its own reasons, and sets `FAILED` for a lost job; the
driver's end is then unknown. Only Ray's messages describe the driver. The cases come from KubeRay's
source, release 1.7.0. The module must not depend on reports of pods or of the driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_operator.model.objects import RayJob

# `Retrying` would run the driver a second time; the operator treats the first run as ended.
TERMINAL = frozenset({"Complete", "Failed", "ValidationFailed", "Retrying"})
# Ray's states of an ended job. KubeRay itself sets only `FAILED` among them.
ENDED_JOBS = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_SUBMISSION_FAILED, _CHECKS_FAILED = "SubmissionFailed", "JobStatusCheckTimeoutExceeded"
_TRANSITION = "JobDeploymentStatusTransitionGracePeriodExceeded"
# KubeRay's own decisions, whatever Ray reports about the job.
_OWN_REASONS = {
    "DeadlineExceeded": Cause.DEADLINE_EXCEEDED,
    "PreRunningDeadlineExceeded": Cause.SCHEDULING_TIMEOUT,
    "ValidationFailed": Cause.INVALID_SPEC,
    _SUBMISSION_FAILED: Cause.SUBMISSION_FAILED,
    _CHECKS_FAILED: Cause.STALLED,
}
# KubeRay's own messages under a reason that otherwise comes from the driver.
_OWN_SENTENCES = ("Ray head pod not found", "Submitter completed but Ray job not found")
# KubeRay uses one reason both for a lost job and for a job that ended before its submitter. This
# text marks the second case.
_SAW_END = "after JobStatus reaches a terminal state"
# Ray's messages for a driver that was not started, or was lost.
_NOT_STARTED = (
    "runtime_env setup failed",
    "Failed to start supervisor actor",
    "Job supervisor actor failed to start",
    "Job supervisor actor could not be scheduled",
    "Unexpected error occurred",
)
# Ray's supervisor was killed together with the program; the program itself did not fail.
_SUPERVISOR_DIED = "Job supervisor actor died"
# Match only the start of a message: the rest may contain arbitrary output of the driver.
_EXIT_CODE = re.compile(r"(?:Job entrypoint command failed with )?exit code (-?\d{1,3})\b")


def find_rayjob_evidence(rayjob: RayJob) -> Iterator[Evidence]:
    """Yield the trustworthy evidence of a RayJob that ended badly."""
    # Stopping the job in Ray gives the driver no time to report a reason, and its submitter fails.
    if rayjob.job == "STOPPED" and rayjob.reason in {"", _TRANSITION, _SUBMISSION_FAILED}:
        yield Evidence(Cause.INTERRUPTED, "the Ray job was stopped", "rayjob", {})
    # KubeRay lost the job, and its reason names no more precise cause.
    elif is_lost(rayjob) and rayjob.reason not in _OWN_REASONS:
        yield _quote(rayjob, Cause.SUBMISSION_FAILED)
    elif rayjob.deployment == "ValidationFailed":
        yield _quote(rayjob, Cause.INVALID_SPEC)
    elif rayjob.reason in _OWN_REASONS:
        yield _quote(rayjob, _OWN_REASONS[rayjob.reason])
    # Treat unknown reasons as KubeRay's own: newer releases may add some.
    elif rayjob.job == "FAILED" and rayjob.reason in {"", "AppFailed", _TRANSITION}:
        yield _read_failure(rayjob)


def is_lost(rayjob: RayJob) -> bool:
    """Return whether KubeRay gave up on a job without seeing its end."""
    # Ray itself reported the end of a job in these states, so the job was not lost.
    if rayjob.deployment not in TERMINAL or rayjob.job in {"SUCCEEDED", "STOPPED"}:
        return False
    # KubeRay uses one reason for lost and for ended jobs, and only the message distinguishes them.
    if rayjob.reason == _TRANSITION:
        return _SAW_END not in rayjob.message
    is_own = rayjob.message.startswith(_OWN_SENTENCES)
    return is_own or rayjob.reason in {_SUBMISSION_FAILED, _CHECKS_FAILED}


def _read_failure(rayjob: RayJob) -> Evidence:
    """Return Ray's evidence about a failed job."""
    match = _EXIT_CODE.match(rayjob.message)
    evidence = read_exit(int(match[1])) if match else None
    # The exit code is the driver's own reason; Ray's message around it is not.
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
    """Return a cause with KubeRay's message."""
    message = f"RayJob {rayjob.reason or rayjob.deployment}: {rayjob.message or 'no message'}"
    return Evidence(cause, message, "rayjob", {"reason": rayjob.reason})
