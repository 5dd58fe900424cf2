"""Requests to a run on a cluster: renders patches of a pipeline, or explains why none is needed.

The patches set the annotations and fields that docs/kubernetes.md documents. This module does no
I/O and reads no clock: times are arguments.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from strandline.cli.cluster.objects import ClusterPipeline, ListedAttempt
from strandline.cli.views.format import escape_text
from strandline.plan.errors import StrandlineError
from strandline_api.names import CANCEL_ANNOTATION, RETRY_ANNOTATION
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.status.enums import PipelinePhase

# Shorten user names, because the operator replaces values of more than 256 characters by a digest.
_LONGEST_USER = 200


class RequestRefusedError(StrandlineError):
    """Raised if the request would have no effect, or do harm, in the pipeline's current state."""

    exit_code = ExitCode.LEDGER_IN_USE


class ClusterRequest(NamedTuple):
    """A patch for the API server, and a sentence for the user.

    Attributes:
        patch: merge patch of the pipeline; None if nothing must change.
    """

    patch: dict[str, Any] | None
    sentence: str


def ask_retry(
    pipeline: ClusterPipeline, attempt: ListedAttempt | None, now: float, user: str = ""
) -> ClusterRequest:
    """Return the request for an immediate attempt.

    Args:
        pipeline, attempt: current state of the pipeline and of its latest attempt.
        now, user: current time, and name of the caller; an empty name is left out.

    Raises:
        RequestRefusedError: an attempt is in progress, or the pipeline is suspended.
    """
    name = pipeline.name
    if pipeline.is_suspended:
        msg = f"{name} is suspended; `kubectl strandline resume {name}` resumes it"
        raise RequestRefusedError(msg)
    if attempt is not None and not attempt.has_ended:
        msg = (
            f"attempt {attempt.number} of {name} is running, so there is nothing to retry; wait "
            f"for its end (`kubectl strandline wait {name}`)"
        )
        raise RequestRefusedError(msg)
    patch = _annotate(pipeline, RETRY_ANNOTATION, now, user)
    return ClusterRequest(patch, f"{name}: requested an attempt, which uses up no retry")


def ask_cancel(
    pipeline: ClusterPipeline, attempt: ListedAttempt | None, now: float, user: str = ""
) -> ClusterRequest:
    """Return the request to end the run; see `ask_retry`."""
    name, status = pipeline.name, pipeline.status
    has_ended = attempt is None or attempt.has_ended
    # A scheduled attempt can be canceled too, although no attempt is running.
    if has_ended and status.next_attempt_time is None and status.phase in _AT_REST:
        return ClusterRequest(None, f"{name} has nothing to cancel: it is {status.phase.value}")
    patch = _annotate(pipeline, CANCEL_ANNOTATION, now, user)
    return ClusterRequest(patch, f"{name}: requested the end of the run; finished sources are kept")


_AT_REST = frozenset({PipelinePhase.SUCCEEDED, PipelinePhase.FAILED})


def ask_suspension(
    pipeline: ClusterPipeline, attempt: ListedAttempt | None, *, is_wanted: bool
) -> ClusterRequest:
    """Return the request to suspend or resume the pipeline."""
    name = pipeline.name
    if pipeline.is_suspended == is_wanted:
        sentence = f"{name} is already suspended" if is_wanted else f"{name} is not suspended"
        return ClusterRequest(None, sentence)
    describe = _describe_suspension if is_wanted else _describe_resumption
    sentence = f"{name}: {describe(pipeline, attempt)}"
    return ClusterRequest({"spec": {"suspend": is_wanted}}, sentence)


def _describe_suspension(pipeline: ClusterPipeline, attempt: ListedAttempt | None) -> str:
    if attempt is not None and not attempt.has_ended:
        return f"suspended; attempt {attempt.number} saves its work and ends"
    if _is_over(pipeline):
        return f"suspended; nothing was running, because the run is {pipeline.status.phase.value}"
    return "suspended; nothing was running, and the next attempt waits until you resume"


def _describe_resumption(pipeline: ClusterPipeline, attempt: ListedAttempt | None) -> str:
    del attempt  # the suspension has already ended the attempt
    if _is_over(pipeline):
        return f"resumed; nothing starts, because the run is {pipeline.status.phase.value}"
    return "resumed; it continues where it stopped"


def _is_over(pipeline: ClusterPipeline) -> bool:
    """Return whether the run has ended, and no edit or request will start another attempt."""
    status = pipeline.status
    return (
        status.next_attempt_time is None
        and status.phase in _AT_REST
        and status.observed_generation == pipeline.generation
    )


def _annotate(pipeline: ClusterPipeline, annotation: str, now: float, user: str) -> dict[str, Any]:
    """Return a patch that sets an annotation to a value that no earlier request had.

    The operator copies the value into its event and status, so the value includes the user's name.
    """
    value = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    if user:
        value = f"{value} by {escape_text(user)[:_LONGEST_USER]}"
    if pipeline.annotations.get(annotation) == value:
        value = f"{value}+"  # an earlier request had the same time and user
    return {"metadata": {"annotations": {annotation: value}}}
