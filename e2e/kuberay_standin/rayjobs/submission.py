"""Derives the status of a running RayJob from Ray's job status and the submitter's Job.

This module does no I/O.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kuberay_standin.objects import Json, find_condition, format_time, get_status, read_time
from kuberay_standin.scene import JobAnswer

# Time for Ray to report the end of the job after the submitter has ended.
WAIT_SECONDS = timedelta(seconds=30)
ENDED = {"FAILED", "STOPPED", "SUCCEEDED"}


def is_asked(rayjob: Json) -> bool:
    """Return whether to poll Ray: the RayJob is running, and Ray has reported no end yet."""
    status = get_status(rayjob)
    is_running = status.get("jobDeploymentStatus") == "Running"
    return is_running and status.get("jobStatus") not in ENDED


def follow_job(status: Json, job: Json | None, answer: JobAnswer | None, now: datetime) -> Json:
    """Return the next status, derived from Ray's response, if any, and the submitter's state.

    An end that Ray reports counts only when the submitter has also ended.
    """
    status = _apply_answer(status, answer, now)
    finished = find_finish(job)
    if finished is None:
        return status
    if status.get("jobStatus") in ENDED:
        return _end(status, now)
    failure = find_failure(job)
    if failure is not None:
        message = f"Reason: {failure['reason']}. Message: {failure['message']}"
        text = f"Job submission has failed. {message}"
        return _fail(status, now, "SubmissionFailed", text)
    if answer is not None and answer.is_reached and not answer.status:
        text = "Submitter completed but Ray job not found in RayCluster."
        return _fail(status, now, "AppFailed", text)
    if now - finished >= WAIT_SECONDS:
        return _give_up(status, finished, now)
    return status


def find_finish(job: Json | None) -> datetime | None:
    """Return the time when a submitter's Job succeeded or failed, or None if it has not ended."""
    if job is None:
        return None
    for kind in ("Complete", "Failed"):
        found = find_condition(job, kind)
        if found is not None and found["status"] == "True":
            return read_time(get_status(job).get("completionTime") or found["lastTransitionTime"])
    return None


def find_failure(job: Json | None) -> Json | None:
    """Return the condition that explains a submitter's failure, or None if it has not failed."""
    found = find_condition(job, "Failed") if job is not None else None
    return found if found is not None and found["status"] == "True" else None


def _apply_answer(status: Json, answer: JobAnswer | None, now: datetime) -> Json:
    if answer is None or status.get("jobStatus") in ENDED:
        return status
    updated = dict(status)
    if not answer.is_reached:
        updated.setdefault("jobStatusCheckFailureStartTime", format_time(now))
    elif answer.status:
        updated.pop("jobStatusCheckFailureStartTime", None)
        times = {"startTime": answer.start, "endTime": answer.end}
        info = {name: time for name, time in times.items() if time}
        updated |= {"jobStatus": answer.status, "message": answer.message, "rayJobInfo": info}
    return updated


def _end(status: Json, now: datetime) -> Json:
    answer = status["jobStatus"]
    if answer == "FAILED":
        return _fail(status, now, "AppFailed", status["message"])
    ended = {"jobDeploymentStatus": "Complete", "endTime": format_time(now)}
    return status | ended | {"succeeded": status["succeeded"] + (answer == "SUCCEEDED")}


def _give_up(status: Json, finished: datetime, now: datetime) -> Json:
    rendered = finished.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    seconds = int(WAIT_SECONDS.total_seconds())
    text = (
        f"The RayJob submitter finished at {rendered}"
        f" but the ray job did not reach terminal state within {seconds}s"
    )
    reason = "JobDeploymentStatusTransitionGracePeriodExceeded"
    return _fail(status, now, reason, text) | {"jobStatus": "FAILED"}


def _fail(status: Json, now: datetime, reason: str, message: str) -> Json:
    return status | {
        "jobDeploymentStatus": "Failed",
        "reason": reason,
        "message": message,
        "endTime": format_time(now),
        "failed": status["failed"] + 1,
    }
