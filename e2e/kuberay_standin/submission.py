"""How the status of a running RayJob follows Ray's word and the submitter's end. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kuberay_standin.objects import Json, find_condition, get_status, read_time, spell_time
from kuberay_standin.scene import Word

# How long after the submitter's end Ray may still not have ended the job.
PATIENCE = timedelta(seconds=30)
ENDED = {"FAILED", "STOPPED", "SUCCEEDED"}


def is_asked(rayjob: Json) -> bool:
    """Whether Ray is to be asked for the job: while it runs, until Ray has told its end."""
    status = get_status(rayjob)
    is_running = status.get("jobDeploymentStatus") == "Running"
    return is_running and status.get("jobStatus") not in ENDED


def follow_job(status: Json, job: Json | None, word: Word | None, now: datetime) -> Json:
    """The status after a word of Ray's, if there is one, and with what the submitter came to.

    An end told by Ray counts as soon as the submitter has ended too.
    """
    status = _hear(status, word, now)
    finished = find_finish(job)
    if finished is None:
        return status
    if status.get("jobStatus") in ENDED:
        return _end(status, now)
    failure = find_failure(job)
    if failure is not None:
        message = f"Reason: {failure['reason']}. Message: {failure['message']}"
        said = f"Job submission has failed. {message}"
        return _fail(status, now, "SubmissionFailed", said)
    if word is not None and word.is_reached and not word.status:
        said = "Submitter completed but Ray job not found in RayCluster."
        return _fail(status, now, "AppFailed", said)
    if now - finished >= PATIENCE:
        return _give_up(status, finished, now)
    return status


def find_finish(job: Json | None) -> datetime | None:
    """When a submitter's Job ended, well or badly; None where it has not."""
    if job is None:
        return None
    for kind in ("Complete", "Failed"):
        found = find_condition(job, kind)
        if found is not None and found["status"] == "True":
            return read_time(get_status(job).get("completionTime") or found["lastTransitionTime"])
    return None


def find_failure(job: Json | None) -> Json | None:
    """The condition that says why a submitter's Job failed."""
    found = find_condition(job, "Failed") if job is not None else None
    return found if found is not None and found["status"] == "True" else None


def _hear(status: Json, word: Word | None, now: datetime) -> Json:
    if word is None or status.get("jobStatus") in ENDED:
        return status
    heard = dict(status)
    if not word.is_reached:
        heard.setdefault("jobStatusCheckFailureStartTime", spell_time(now))
    elif word.status:
        heard.pop("jobStatusCheckFailureStartTime", None)
        times = {"startTime": word.start, "endTime": word.end}
        info = {name: time for name, time in times.items() if time}
        heard |= {"jobStatus": word.status, "message": word.message, "rayJobInfo": info}
    return heard


def _end(status: Json, now: datetime) -> Json:
    word = status["jobStatus"]
    if word == "FAILED":
        return _fail(status, now, "AppFailed", status["message"])
    ended = {"jobDeploymentStatus": "Complete", "endTime": spell_time(now)}
    return status | ended | {"succeeded": status["succeeded"] + (word == "SUCCEEDED")}


def _give_up(status: Json, finished: datetime, now: datetime) -> Json:
    spelled = finished.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    seconds = int(PATIENCE.total_seconds())
    said = (
        f"The RayJob submitter finished at {spelled}"
        f" but the ray job did not reach terminal state within {seconds}s"
    )
    reason = "JobDeploymentStatusTransitionGracePeriodExceeded"
    return _fail(status, now, reason, said) | {"jobStatus": "FAILED"}


def _fail(status: Json, now: datetime, reason: str, message: str) -> Json:
    return status | {
        "jobDeploymentStatus": "Failed",
        "reason": reason,
        "message": message,
        "endTime": spell_time(now),
        "failed": status["failed"] + 1,
    }
