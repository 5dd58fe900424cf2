"""Interprets the state of a run on a cluster, or of a command's pod.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from strandline.cli.cluster.objects import ClusterPipeline, Json, ListedAttempt
from strandline_api.names import ATTEMPT_LABEL, ROLE_LABEL
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.pod_paths import SUBMITTER_CONTAINER

# Exit code of a container that was ended by SIGKILL, as in a shell.
_KILLED = 137


class RunVerdict(NamedTuple):
    """Exit code and sentence for a run that has succeeded, failed, or been suspended."""

    code: int
    sentence: str


class PodState(NamedTuple):
    """State of a command's pod.

    Attributes:
        has_started: whether the command is running or has ended.
        code: exit code; None before the end.
        message: the command's stderr, the reason for waiting, or the reason for a failed start.
    """

    has_started: bool
    code: int | None
    message: str


def judge_run(pipeline: ClusterPipeline, attempt: ListedAttempt | None) -> RunVerdict | None:
    """Return the result of a run, or None while the run continues.

    Args:
        pipeline: current state of the pipeline.
        attempt: the latest attempt, or None. After a failure, its exit code is the run's exit code.
    """
    status, name = pipeline.status, pipeline.name
    # The operator has not processed the latest edit yet, so the conditions are outdated.
    if (status.observed_generation or 0) < pipeline.generation:
        return None
    if _is_true(pipeline, "Suspended"):
        sentence = f"{name} is suspended; `kubectl strandline resume {name}` resumes it"
        return RunVerdict(ExitCode.INTERRUPTED, sentence)
    if pipeline.unanswered.retry or pipeline.unanswered.cancel:
        return None
    if _is_true(pipeline, "Succeeded"):
        return RunVerdict(ExitCode.COMPLETE, f"{name}: {status.state}")
    if _is_true(pipeline, "Stalled"):
        return RunVerdict(_find_code(attempt), f"{name}: {status.state}")
    return None


def describe_run(pipeline: ClusterPipeline) -> str:
    """Describe the progress of a run in one line."""
    status = pipeline.status
    progress = "" if status.progress is None else f"{status.progress.text}, "
    return f"{pipeline.name}: {progress}{status.state or status.phase.value}"


def read_pod(pod: Json, container: str) -> PodState:
    """Return the state of a pod, based on the state of one of its containers."""
    status: dict[str, Any] = pod.get("status") or {}
    state = _find_state(status.get("containerStatuses"), container)
    ended = state.get("terminated")
    if ended is not None:
        code = int(ended.get("exitCode", ExitCode.APPLICATION_ERROR))
        message = str(ended.get("message") or "").strip()
        # A killed process could not write a message, so use the kubelet's reason: OOMKilled.
        if code == _KILLED and not message:
            message = f"the command was killed in pod {pod['metadata']['name']}"
            message += f": {ended['reason']}" if ended.get("reason") else ""
        return PodState(has_started=True, code=code, message=message)
    # A pod can fail before this container starts: by an eviction, or in an init container.
    if status.get("phase") == "Failed":
        why = _explain_failure(pod, status)
        return PodState(has_started=False, code=ExitCode.APPLICATION_ERROR, message=why)
    if state.get("running") is not None:
        return PodState(has_started=True, code=None, message="")
    return PodState(has_started=False, code=None, message=_explain_wait(status, state))


def choose_log(pods: Iterable[Json], number: int) -> tuple[str, str] | None:
    """Return the pod and container with the log of an attempt's driver, if any."""
    own = [
        pod
        for pod in pods
        if (pod["metadata"].get("labels") or {}).get(ATTEMPT_LABEL) == str(number)
    ]
    # The driver's container is in a submitter pod, or in the head's pod beside Ray. Prefer the
    # submitter.
    own.sort(key=lambda pod: pod["metadata"]["labels"].get(ROLE_LABEL) != "submitter")
    for pod in own:
        statuses = (pod.get("status") or {}).get("containerStatuses")
        state = _find_state(statuses, SUBMITTER_CONTAINER)
        if "running" in state or "terminated" in state:
            return pod["metadata"]["name"], SUBMITTER_CONTAINER
    return None


def _is_true(pipeline: ClusterPipeline, type_: str) -> bool:
    condition = pipeline.status.find_condition(type_)
    return condition is not None and condition.status == "True"


def _find_code(attempt: ListedAttempt | None) -> int:
    outcome = None if attempt is None else attempt.status.outcome
    # A stalled run has failed, so never return 0, even if the last driver is unknown or exited with
    # 0.
    return (outcome.exit_code if outcome else None) or int(ExitCode.APPLICATION_ERROR)


def _find_state(statuses: Any, container: str) -> dict[str, Any]:  # noqa: ANN401 - JSON
    found = (each.get("state") for each in statuses or () if each.get("name") == container)
    return next(found, None) or {}


def _explain_failure(pod: Json, status: Json) -> str:
    for each in status.get("initContainerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            return f"container {each['name']} failed: {ended.get('message') or ended.get('reason')}"
    why = status.get("message") or status.get("reason") or "the reason is unknown"
    return f"pod {pod['metadata']['name']} failed before its command ran: {why}"


def _explain_wait(status: Json, state: Json) -> str:
    """Return why a pod has not started yet, or an empty string during a normal start."""
    states = [each.get("state") or {} for each in status.get("initContainerStatuses") or ()]
    for why in (each.get("waiting") or {} for each in (state, *states)):
        if why.get("message"):
            return f"{why.get('reason')}: {why['message']}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""
