"""Why an attempt ended, by its RayJob: what Ray says of the job, and what KubeRay says of itself.

Both stand in the same fields. KubeRay gives reasons of its own and sets `FAILED` by itself where it
has lost a job from sight, and then the driver's end is unknown; of all that, only what Ray
said of it is the driver's. The cases are those of KubeRay's source, release 1.7.0, and this room
must not know what pods or the driver itself say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_operator.model.objects import RayJob

# A RayJob that KubeRay starts again would run the driver a second time; to us its first has ended.
TERMINAL = frozenset({"Complete", "Failed", "ValidationFailed", "Retrying"})
# Ray's words for a job that is over; KubeRay sets `FAILED` by itself too, but none of the others.
ENDED_JOBS = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_SUBMISSION_FAILED, _CHECKS_FAILED = "SubmissionFailed", "JobStatusCheckTimeoutExceeded"
_TRANSITION = "JobDeploymentStatusTransitionGracePeriodExceeded"
# KubeRay's own decisions, whatever Ray reports of the job.
_OWN_REASONS = {
    "DeadlineExceeded": Cause.DEADLINE_EXCEEDED,
    "PreRunningDeadlineExceeded": Cause.SCHEDULING_TIMEOUT,
    "ValidationFailed": Cause.INVALID_SPEC,
    _SUBMISSION_FAILED: Cause.SUBMISSION_FAILED,
    _CHECKS_FAILED: Cause.STALLED,
}
# KubeRay's sentences under a reason that is otherwise the driver's.
_OWN_SENTENCES = ("Ray head pod not found", "Submitter completed but Ray job not found")
# KubeRay has one reason for two ends: a job that it saw end while its submitter did not, and a job
# that it lost.
_SAW_END = "after JobStatus reaches a terminal state"
# Ray's words where it has not brought the driver about, or has lost it.
_NOT_STARTED = (
    "runtime_env setup failed",
    "Failed to start supervisor actor",
    "Job supervisor actor failed to start",
    "Job supervisor actor could not be scheduled",
    "Unexpected error occurred",
)
# Ray's own process was killed, and the program with it: no error of the program.
_SUPERVISOR_DIED = "Job supervisor actor died"
# Further on in a message stands whatever the driver has printed.
_EXIT_CODE = re.compile(r"(?:Job entrypoint command failed with )?exit code (-?\d{1,3})\b")


def find_rayjob_evidence(rayjob: RayJob) -> Iterator[Evidence]:
    """Yield what a RayJob that has ended badly says of a cause, where it can be trusted."""
    # A stop at Ray itself leaves the driver no time to report why; its submitter fails.
    if rayjob.job == "STOPPED" and rayjob.reason in {"", _TRANSITION, _SUBMISSION_FAILED}:
        yield Evidence(Cause.INTERRUPTED, "the Ray job was stopped", "rayjob", {})
    elif is_lost(rayjob) and rayjob.reason not in _OWN_REASONS:
        yield _quote(rayjob, Cause.SUBMISSION_FAILED)
    elif rayjob.deployment == "ValidationFailed":
        yield _quote(rayjob, Cause.INVALID_SPEC)
    elif rayjob.reason in _OWN_REASONS:
        yield _quote(rayjob, _OWN_REASONS[rayjob.reason])
    # Newer releases give reasons that are not known here: those are KubeRay's own for all we know.
    elif rayjob.job == "FAILED" and rayjob.reason in {"", "AppFailed", _TRANSITION}:
        yield _read_failure(rayjob)


def is_lost(rayjob: RayJob) -> bool:
    """Return whether KubeRay gives up a job without a known end."""
    if rayjob.deployment not in TERMINAL or rayjob.job in {"SUCCEEDED", "STOPPED"}:
        return False
    # KubeRay has one reason for two cases, and only its words part them.
    if rayjob.reason == _TRANSITION:
        return _SAW_END not in rayjob.message
    is_own = rayjob.message.startswith(_OWN_SENTENCES)
    return is_own or rayjob.reason in {_SUBMISSION_FAILED, _CHECKS_FAILED}


def _read_failure(rayjob: RayJob) -> Evidence:
    """Return what Ray says of a job that has failed."""
    match = _EXIT_CODE.match(rayjob.message)
    evidence = read_exit(int(match[1])) if match else None
    # An exit code is the driver's own reason; Ray's words around it are none.
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
    """Return a cause with KubeRay's words for it."""
    message = f"RayJob {rayjob.reason or rayjob.deployment}: {rayjob.message or 'no message'}"
    return Evidence(cause, message, "rayjob", {"reason": rayjob.reason})
