"""Runs commands on a pipeline's volumes: finds the volumes, starts a Job, and cleans up.

The module sequences kubectl calls and makes no choices: `placement.py` decides where a Job may run,
and `job.py` renders the Job. Clock and sleep are arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from strandline.cli.cluster.job import CONTAINER, JobOrder, render_job, separate_errors
from strandline.cli.cluster.kubectl import Kubectl, KubectlError, NotOnClusterError
from strandline.cli.cluster.objects import (
    ATTEMPTS,
    PIPELINES,
    ClaimHolder,
    ClusterPipeline,
    ListedAttempt,
    find_holders,
    read_cluster_attempt,
    read_cluster_pipeline,
)
from strandline.cli.cluster.placement import ClaimUse, choose_placement, find_output
from strandline.cli.cluster.waiting import PodState, read_pod
from strandline.plan.errors import StrandlineError
from strandline_api.names import name_attempt
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.pod_paths import (
    COMMAND_METADATA,
    HEAD_TEMPLATE,
    MANIFEST,
    OUT_OF_MESHES,
    digest_config,
)

# Pods that have ended still list the claim in their spec, but no longer mount the claim.
_ALIVE = "--field-selector=status.phase!=Succeeded,status.phase!=Failed"
# In seconds: interval between two polls of the pod; time before the reason for a wait is shown; and
# time for the kubelet to report an exit code after the log has ended.
_LOOK_SECONDS, _QUIET_SECONDS, _END_SECONDS = 1.0, 10.0, 60.0


class NothingRunError(StrandlineError):
    """Raised if the pipeline has made no attempt, so that the claim is empty."""

    exit_code = ExitCode.BAD_SPEC


class ForeignConfigError(StrandlineError):
    """Raised if the ConfigMap with the volumes is missing, or if the operator did not write it."""

    exit_code = ExitCode.BAD_SPEC


class JobNotStartedError(StrandlineError):
    """Raised if the Job's pod did not start in time."""


class TornReadingError(StrandlineError):
    """Raised if an attempt began while a command was reading the ledger unregistered."""

    exit_code = ExitCode.LEDGER_IN_USE


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """Access to a cluster for a command.

    Attributes:
        now, sleep: the clock.
        show: shows a line about the progress of the command.
        start_seconds: maximum time for a pod to start.
    """

    kubectl: Kubectl
    now: Callable[[], float]
    sleep: Callable[[float], None]
    show: Callable[[str], None]
    start_seconds: float

    def find_pipeline(self, name: str) -> ClusterPipeline:
        """Return the current state of a pipeline.

        Raises:
            NotOnClusterError: no pipeline has that name.
        """
        return read_cluster_pipeline(self.kubectl.get(PIPELINES, name))

    def find_attempt(self, pipeline: ClusterPipeline) -> ListedAttempt | None:
        """Return the pipeline's latest attempt, or None if there is no attempt."""
        number = pipeline.status.attempt
        if not number:
            return None
        try:
            found = self.kubectl.get(ATTEMPTS, name_attempt(pipeline.name, number))
        except NotOnClusterError:
            return None
        return read_cluster_attempt(found)


class CommandOrder(NamedTuple):
    """A command to run on a claim.

    Attributes:
        title: short name of the command.
        use: how the command uses the claim.
        words: command line of the container.
        width: number of characters in an output line; None for unlimited lines.
    """

    title: str
    use: ClaimUse
    words: Sequence[str]
    width: int | None = None


class Volumes(NamedTuple):
    """Volumes of a pipeline's latest attempt.

    Attributes:
        document: the pipeline in the form that its driver received.
        head: spec of the pod of the Ray head.
        holders: pods that mount the claim.
        metadata: labels and annotations for a pod that mounts the volumes.
    """

    document: Mapping[str, Any]
    head: Mapping[str, Any]
    holders: tuple[ClaimHolder, ...]
    metadata: Mapping[str, Any]


def run_command(
    session: ClusterSession, pipeline: ClusterPipeline, order: CommandOrder, target: BinaryIO
) -> int:
    """Run a command in a pod with a pipeline's volumes, and return its exit code.

    Args:
        session: access to the cluster.
        pipeline: current state of the pipeline.
        order: the command.
        target: stream for the output, written as it arrives.

    Raises:
        HeldClaimError: the command may not run now.
        TornReadingError: an attempt began in the meantime, so the output may be inconsistent.
        StrandlineError: the command could not be run.
    """
    words = separate_errors(order.words)
    order, volumes = order._replace(words=words), find_volumes(session, pipeline)
    with opened_job(session, pipeline, order, volumes) as (job, pod):
        # Follow the log from the start: the kubelet rotates large logs, so a late reader would miss
        # the beginning.
        code = session.kubectl.follow(["logs", "--follow", "-c", CONTAINER, f"pod/{pod}"], target)
        ended = _await(session, job, lambda state: state.code is not None, _END_SECONDS)
    for line in ended.message.splitlines():
        session.show(line)
    # If the command itself failed, its exit code is more useful than an error of `kubectl logs`.
    if code and not ended.code:
        msg = (
            f"kubectl logs ended with {code}, so the output may be incomplete; run the command "
            "again"
        )
        raise KubectlError(msg)
    # No other use needs the check: COPY reads files that no longer change, and during WRITE and
    # REPAIR no attempt can open the ledger.
    if order.use in {ClaimUse.READ, ClaimUse.OUTPUT}:
        refuse_torn(session, pipeline, volumes)
    return int(ended.code or 0)


def refuse_torn(session: ClusterSession, before: ClusterPipeline, volumes: Volumes) -> None:
    """Reject the output of a reader if an attempt began while the command was reading the ledger.

    Args:
        session: access to the cluster.
        before, volumes: the pipeline and its volumes at the start of the command.

    Raises:
        TornReadingError: an attempt began.
    """
    # If a head was running, the command ran on its node and registered as a reader in LMDB's lock
    # file, so the output is consistent.
    if any(holder.is_head for holder in volumes.holders):
        return
    attempt = session.find_pipeline(before.name).status.attempt
    has_head = any(holder.is_head for holder in _list_holders(session, before))
    if attempt != before.status.attempt or has_head:
        msg = (
            f"attempt {attempt} started in the meantime, so the output may be inconsistent; run "
            "the command again"
        )
        raise TornReadingError(msg)


def _list_holders(session: ClusterSession, pipeline: ClusterPipeline) -> tuple[ClaimHolder, ...]:
    pods = session.kubectl.get("pods", _ALIVE)["items"]
    return find_holders(pods, pipeline.claim, pipeline.uid)


def find_volumes(session: ClusterSession, pipeline: ClusterPipeline) -> Volumes:
    """Find the latest attempt's volumes, and the pods that mount the claim.

    Raises:
        NothingRunError: the pipeline has made no attempt.
        ForeignConfigError: the operator did not write the list of volumes.
        StrandlineError: the volumes are unknown.
    """
    if not pipeline.status.attempt:
        msg = f"{pipeline.name} has no attempt yet, so there is nothing to read"
        raise NothingRunError(msg)
    config, data = _read_config(session, pipeline)
    holders = _list_holders(session, pipeline)
    # Older operators do not write the template. In that case, use the pod of a running head, which
    # has the same volumes.
    if HEAD_TEMPLATE in data:
        head = json.loads(data[HEAD_TEMPLATE])
    else:
        head = next((holder.spec for holder in holders if holder.is_head), None)
    if head is None or MANIFEST not in data:
        msg = (
            f"ConfigMap {config} does not list the attempt's volumes: its operator is older than "
            "this command; inspect the volume with a pod of your own (see docs/failures.md), or "
            "retry once with a newer operator"
        )
        raise NothingRunError(msg)
    # Older operators do not write this entry.
    kept = data.get(COMMAND_METADATA)
    metadata = OUT_OF_MESHES if kept is None else json.loads(kept)
    return Volumes(json.loads(data[MANIFEST]), head, holders, metadata)


def _read_config(
    session: ClusterSession, pipeline: ClusterPipeline
) -> tuple[str, Mapping[str, str]]:
    """Return name and data of the ConfigMap that the operator created for the latest attempt.

    Check the digest: if another user had replaced the ConfigMap, the pod that it describes would
    run with the caller's permissions.
    """
    attempt = session.find_attempt(pipeline)
    if attempt is None or attempt.status.config is None:
        name = name_attempt(pipeline.name, pipeline.status.attempt)
        raise ForeignConfigError(
            f"there is no record of the operator's ConfigMap for attempt {name}: it is older than "
            "this command, or gone; retry once with a newer operator"
        )
    config, digest = attempt.status.config.name, attempt.status.config.digest
    data = session.kubectl.get("configmap", config).get("data") or {}
    if digest != digest_config(data):
        msg = (
            f"ConfigMap {config} differs from the one that the operator wrote; another user has "
            "replaced it"
        )
        raise ForeignConfigError(msg)
    return config, data


@contextmanager
def opened_job(
    session: ClusterSession, pipeline: ClusterPipeline, order: CommandOrder, volumes: Volumes
) -> Iterator[tuple[str, str]]:
    """Create a Job, wait until its pod starts, and yield both names. Delete the Job afterwards."""
    modes = session.kubectl.get("persistentvolumeclaim", pipeline.claim)["spec"]["accessModes"]
    placement = choose_placement(
        order.use,
        pipeline,
        session.find_attempt(pipeline),
        modes,
        volumes.holders,
        find_output(volumes.document),
    )
    job_order = JobOrder(
        order.title,
        order.words,
        pipeline,
        volumes.head,
        placement,
        order.width,
        volumes.metadata,
    )
    job = session.kubectl.create(render_job(job_order))["metadata"]["name"]
    try:
        _await(session, job, lambda state: state.has_started, session.start_seconds)
        yield job, _find_pod(session, job)["metadata"]["name"]
    finally:
        session.kubectl.delete("job", job)


def _find_pod(session: ClusterSession, job: str) -> dict[str, Any]:
    """Return the Job's pod. If there is no pod yet, return an empty object without a status."""
    found = session.kubectl.get("pods", "-l", f"batch.kubernetes.io/job-name={job}")["items"]
    return dict(found[0]) if found else {"metadata": {"name": job}}


def _await(
    session: ClusterSession, job: str, is_there: Callable[[PodState], bool], seconds: float
) -> PodState:
    """Wait until the Job's pod reaches a state, and report the reason for a long wait."""
    begun, shown = session.now(), ""
    while True:
        pod = _find_pod(session, job)
        state = read_pod(pod, CONTAINER)
        if is_there(state):
            return state
        # The command has ended without reaching the state, so stop waiting.
        if state.code is not None:
            raise JobNotStartedError(state.message)
        waited = session.now() - begun
        why = state.message or _describe_way(job, pod)
        if waited > seconds:
            msg = f"the command made no progress for {seconds:g} s: {why}"
            raise JobNotStartedError(msg)
        # The loop runs every second, so show a reason only when the text changes.
        if waited > _QUIET_SECONDS and why != shown:
            session.show(f"waiting: {why}")
            shown = why
        session.sleep(_LOOK_SECONDS)


def _describe_way(job: str, pod: Mapping[str, Any]) -> str:
    if "status" in pod:
        return f"pod {pod['metadata']['name']} is starting"
    # If a quota or policy rejects the pod, only an event of the Job has the reason.
    return f"Job {job} has no pod yet; `kubectl events --for job/{job}` shows why"
