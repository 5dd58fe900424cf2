"""Decides when to run the preflight check of stages and parameters, and interprets its result.

Only errors that the check itself finds block an attempt. If the check can't run, the operator waits
for a limited time, reports the problem, and starts the attempt, which will show more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from strandline_api.names import PREFLIGHT_LABEL, name_preflight
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.driver_outcome import find_outcome_line
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.status.enums import Trigger
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.preflight import Preflight, PreflightVerdict
from strandline_api.status.reasons import Reason
from strandline_operator.decide.evidence.pods import find_image_problem
from strandline_operator.decide.obstacles.namesakes import may_launch
from strandline_operator.decide.obstacles.obstacles import Block, describe_refusal
from strandline_operator.decide.scene import Pass, find_first
from strandline_operator.model.plan import Action, Create, Delete, Resource
from strandline_operator.model.preflight import PreflightJob
from strandline_operator.model.view import AttemptObject, PipelineView
from strandline_operator.render.preflight import CONTAINER, PreflightOrder, render_preflight


class PreflightFinding(NamedTuple):
    """The verdict of a preflight check, with the sentence that explains the verdict."""

    verdict: PreflightVerdict
    message: str = ""


class PreflightStep(NamedTuple):
    """Result of a pass for the preflight check.

    Attributes:
        record: the state of the check, for the status.
        actions: objects to create or delete.
    """

    record: Preflight
    actions: tuple[Action, ...] = ()

    @property
    def block(self) -> Block | None:
        """The obstacle while the verdict is pending, or else None."""
        return Block(Reason.PREFLIGHT) if self.record.verdict is PreflightVerdict.PENDING else None


def is_checked(spec: PipelineSpec, *, by_default: bool) -> bool:
    """Return True if a pipeline is checked before a run starts."""
    return by_default if spec.preflight is None else spec.preflight


def needs_preflight(
    pipeline: PipelineView, current: AttemptObject | None, *, by_default: bool
) -> bool:
    """Return True if this pass has to read the Job of a check."""
    if pipeline.spec is None or not is_checked(pipeline.spec, by_default=by_default):
        return False
    is_due = pipeline.status.next_attempt_time is not None
    is_free = current is None or current.status.is_frozen
    return is_due and is_free and may_launch(pipeline, current)


def check(facts: Pass, status: PipelineStatus, order: PreflightOrder, due: float) -> PreflightStep:
    """Return the state of the check for a due attempt, and the next actions.

    Args:
        facts: the pass.
        status: current status of the pipeline.
        order: the spec and the image to check.
        due: due time of the attempt, which distinguishes this check from an earlier check of the
            same spec and image.
    """
    record = status.preflight
    # Reuse the verdict: another check of the same spec and image would have the same result.
    if record is not None and record.key == order.key and _is_lasting(record, status, due):
        return PreflightStep(record)
    token, job = f"{order.key}-{round(due * 1000)}", facts.view.preflight
    start_time = record.time if record is not None and record.key == token else None
    finding = find_first(_FINDERS, _Check(facts, order, token, job, start_time))
    if finding is not None:
        return PreflightStep(_record(facts, order.key, finding), _remove(job, facts))
    # Record the start first, so that the check times out even if its Job never appears.
    pending = _record(facts, token, PreflightFinding(PreflightVerdict.PENDING), start_time)
    if job is None:
        longest = facts.limits.preflight_longest
        manifest = render_preflight(facts.view.pipeline, order, token, longest)
        # Create the network policy before the Job. Otherwise, the Job's pod could send data out.
        policy = order.network
        before = () if policy is None else (Create(Resource.NETWORK_POLICY, policy),)
        return PreflightStep(pending, (*before, Create(Resource.JOB, manifest)))
    # A Job of an earlier check has the same name, so delete it first.
    return PreflightStep(pending, () if _is_of(job, token) else _remove(job, facts))


class _Check(NamedTuple):
    facts: Pass
    order: PreflightOrder
    token: str
    job: PreflightJob | None
    start_time: float | None

    @property
    def own(self) -> PreflightJob | None:
        """The Job if it belongs to this check; otherwise None."""
        return self.job if self.job is not None and _is_of(self.job, self.token) else None


def _is_lasting(record: Preflight, status: PipelineStatus, due: float) -> bool:
    """Return True if a verdict is still valid for the same pipeline and image.

    After a failed check, a new request suggests that the user has fixed the image under the same
    name, so check again.
    """
    if record.verdict is not PreflightVerdict.UNKNOWN:
        return record.verdict is PreflightVerdict.PASSED
    # Also keep an unknown verdict. Otherwise, the check would repeat while an obstacle blocks the
    # attempt.
    is_of_this = record.time is not None and record.time >= due
    # Retries by the operator are not new requests, so they reuse the verdict.
    return is_of_this or status.retry_trigger in {Trigger.RETRY, Trigger.RESUME}


def _record(
    facts: Pass, key: str, finding: PreflightFinding, time: float | None = None
) -> Preflight:
    job = facts.view.preflight
    return Preflight(
        key=key,
        verdict=finding.verdict,
        message=finding.message,
        image=job.image if job and finding.verdict is not PreflightVerdict.PENDING else "",
        generation=facts.view.pipeline.meta.generation,
        time=facts.now if time is None else time,
    )


def _is_of(job: PreflightJob, token: str) -> bool:
    return job.meta.labels.get(PREFLIGHT_LABEL) == token


def _remove(job: PreflightJob | None, facts: Pass) -> tuple[Action, ...]:
    """Return the action that deletes the Job, if this operator created it."""
    is_ours = job is not None and job.meta.owner == facts.view.pipeline.meta.uid
    if job is None or not is_ours or job.meta.is_deleting:
        return ()
    return (Delete(Resource.JOB, job.meta.name, job.meta.uid),)


def _find_too_long(case: _Check) -> PreflightFinding | None:
    words = "the pipeline is too long for a Job"
    return None if case.order.is_short else PreflightFinding(PreflightVerdict.UNKNOWN, words)


def _find_refusal(case: _Check) -> PreflightFinding | None:
    """Report a rejected request to read, create, or delete the Job or its network policy."""
    if case.job is not None and case.job.unread:
        return PreflightFinding(PreflightVerdict.UNKNOWN, case.job.unread)
    kinds = {Resource.JOB} | ({Resource.NETWORK_POLICY} if case.order.network else set())
    refused = (each for each in case.facts.view.refusals if each.what in kinds)
    refusal = next(refused, None)
    return (
        None
        if refusal is None
        else PreflightFinding(PreflightVerdict.UNKNOWN, describe_refusal(refusal))
    )


def _find_taken_name(case: _Check) -> PreflightFinding | None:
    # A Job that this pipeline owns belongs to this check or an earlier check.
    if case.job is None or case.job.meta.owner == case.facts.view.pipeline.meta.uid:
        return None
    name = name_preflight(case.facts.view.pipeline.meta.name)
    return PreflightFinding(PreflightVerdict.UNKNOWN, f"Job {name} belongs to another owner")


def _find_end(case: _Check) -> PreflightFinding | None:
    """Return the verdict of the check, or of the first init container that failed."""
    pod = None if case.own is None else case.own.pod
    if pod is None:
        return None
    # Ignore sidecars that the cluster injects, because they may fail or never end regardless of the
    # pipeline.
    checks = [each for each in pod.containers if each.name == CONTAINER]
    # Consider init containers only if the check has not ended: a restartable sidecar is an init
    # container that ends after the check.
    own = checks if any(each.ends for each in checks) else [*pod.containers]
    own = [each for each in own if each.is_init or each.name == CONTAINER]
    failure = next((end for each in own for end in each.ends[:1] if end.exit_code), None)
    if failure is None:
        # A sidecar may keep the pod running after the check has passed.
        is_over = any(each.ends and not each.is_running for each in own if each.name == CONTAINER)
        is_passed = is_over or pod.phase == "Succeeded"
        return PreflightFinding(PreflightVerdict.PASSED) if is_passed else None
    outcome = find_outcome_line(failure.message)
    # Only an outcome line proves an error in the pipeline. Without an outcome line, the image may
    # be the problem, for example if it lacks the command.
    if outcome is not None and failure.exit_code == outcome.exit_code == ExitCode.BAD_SPEC:
        return PreflightFinding(PreflightVerdict.FAILED, outcome.message)
    lines = failure.message.strip().splitlines() or [failure.reason]
    words = outcome.message if outcome is not None else lines[-1]
    return PreflightFinding(
        PreflightVerdict.UNKNOWN, f"the check exited with code {failure.exit_code}: {words}"
    )


def _find_failure(case: _Check) -> PreflightFinding | None:
    job = case.own
    if job is None:
        return None
    # The pods of a failed Job are gone, so no report can follow.
    if job.failure:
        return PreflightFinding(PreflightVerdict.UNKNOWN, job.failure)
    is_over = job.pod is not None and job.pod.phase == "Failed"
    return (
        PreflightFinding(PreflightVerdict.UNKNOWN, f"its pod failed: {_explain(job)}")
        if is_over
        else None
    )


def _find_unpulled(case: _Check) -> PreflightFinding | None:
    pod = None if case.own is None else case.own.pod
    problem = None if pod is None else find_image_problem(pod)
    return None if problem is None else PreflightFinding(PreflightVerdict.UNKNOWN, problem.message)


def _find_late(case: _Check) -> PreflightFinding | None:
    """Report that the check, or the deletion of an earlier check, took too long."""
    longest = case.facts.limits.preflight_longest
    # The check may still report within the time limit.
    if case.start_time is None or case.facts.now <= case.start_time + longest:
        return None
    return PreflightFinding(
        PreflightVerdict.UNKNOWN, f"no answer within {longest:g} s: {_explain(case.job)}"
    )


def _explain(job: PreflightJob | None) -> str:
    """Explain why the check's pod does not run."""
    if job is None:
        return "the Job is gone"
    if job.meta.is_deleting:
        return f"Job {job.meta.name} is still being deleted"
    pod = job.pod
    if pod is None:
        return f"Job {job.meta.name} has no pod"
    waits = (each.waiting_message or each.waiting for each in pod.containers)
    why = pod.message or pod.unschedulable or next(filter(None, waits), "")
    return why or f"pod {pod.meta.name} is {pod.phase or 'new'}"


# The check's own report takes precedence over the state of its pod and Job.
_FINDERS: tuple[Callable[[_Check], PreflightFinding | None], ...] = (
    _find_too_long,
    _find_end,
    _find_refusal,
    _find_taken_name,
    _find_failure,
    _find_unpulled,
    _find_late,
)
