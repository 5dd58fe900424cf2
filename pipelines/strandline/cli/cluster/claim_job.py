"""A command beside a pipeline's volumes: looked for, placed, run in a Job, answered, cleaned up.

It asks kubectl in an order and chooses nothing: where a Job may run is `placement.py`'s, what it
is `job.py`'s. Clock and sleep come in.
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

_ALIVE = "--field-selector=status.phase!=Succeeded,status.phase!=Failed"
_LOOK_SECONDS, _QUIET_SECONDS, _END_SECONDS = 1.0, 10.0, 60.0


class NothingRunError(StrandlineError):
    """No attempt was made, so there is nothing on the claim."""

    exit_code = ExitCode.BAD_SPEC


class ForeignConfigError(StrandlineError):
    """What tells which pod had the claim is not what the operator wrote."""

    exit_code = ExitCode.BAD_SPEC


class JobNotStartedError(StrandlineError):
    """The Job's pod did not start in time."""


class TornReadingError(StrandlineError):
    """An attempt began under a command that took the ledger for resting."""

    exit_code = ExitCode.LEDGER_IN_USE


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """What a command works with.

    Attributes:
        now, sleep: the clock.
        show: shows a line beside the answer.
        start_seconds: how long a pod may take to start.
    """

    kubectl: Kubectl
    now: Callable[[], float]
    sleep: Callable[[float], None]
    show: Callable[[str], None]
    start_seconds: float

    def find_pipeline(self, name: str) -> ClusterPipeline:
        """Return a pipeline as it stands.

        Raises:
            NotOnClusterError: there is none of that name.
        """
        return read_cluster_pipeline(self.kubectl.get(PIPELINES, name))

    def find_attempt(self, pipeline: ClusterPipeline) -> ListedAttempt | None:
        """Return its latest attempt; None where there is none."""
        number = pipeline.status.attempt
        if not number:
            return None
        try:
            found = self.kubectl.get(ATTEMPTS, name_attempt(pipeline.name, number))
        except NotOnClusterError:
            return None
        return read_cluster_attempt(found)


class CommandOrder(NamedTuple):
    """A command on a claim.

    Attributes:
        title: a short name of it.
        use: what it does with the claim.
        words: what a container runs.
        width: letters in a line of its answer; None: any number.
    """

    title: str
    use: ClaimUse
    words: Sequence[str]
    width: int | None = None


class Volumes(NamedTuple):
    """What a pipeline's latest attempt had.

    Attributes:
        document: the pipeline as its driver was told.
        head: the spec of its head's pod.
        metadata: labels and annotations of a pod that gets them.
    """

    document: Mapping[str, Any]
    head: Mapping[str, Any]
    holders: tuple[ClaimHolder, ...]
    metadata: Mapping[str, Any]


def run_command(
    session: ClusterSession, pipeline: ClusterPipeline, order: CommandOrder, target: BinaryIO
) -> int:
    """Run a command beside a pipeline's volumes, and return its exit code.

    Args:
        session: the cluster that is asked.
        pipeline: as it stands.
        order: the command.
        target: where its answer goes, as it comes.

    Raises:
        HeldClaimError: it may not run now.
        TornReadingError: an attempt began meanwhile, so the answer may be wrong.
        StrandlineError: it could not be run.
    """
    words = separate_errors(order.words)
    order, volumes = order._replace(words=words), find_volumes(session, pipeline)
    with opened_job(session, pipeline, order, volumes) as (job, pod):
        code = session.kubectl.follow(["logs", "--follow", "-c", CONTAINER, f"pod/{pod}"], target)
        ended = _await(session, job, lambda state: state.code is not None, _END_SECONDS)
    for line in ended.message.splitlines():
        session.show(line)
    if code and not ended.code:
        msg = f"kubectl logs ended with {code}, so the answer may not be whole; ask again"
        raise KubectlError(msg)
    if order.use in {ClaimUse.READ, ClaimUse.OUTPUT}:
        refuse_torn(session, pipeline, volumes)
    return int(ended.code or 0)


def refuse_torn(session: ClusterSession, before: ClusterPipeline, volumes: Volumes) -> None:
    """Refuse what was read from a resting ledger if an attempt began meanwhile.

    Args:
        session: the cluster that is asked.
        before, volumes: the pipeline and its volumes when the command began.

    Raises:
        TornReadingError: one began.
    """
    # Beside a head a reader is noted where the writer sees it.
    if any(holder.is_head for holder in volumes.holders):
        return
    attempt = session.find_pipeline(before.name).status.attempt
    has_head = any(holder.is_head for holder in _list_holders(session, before))
    if attempt != before.status.attempt or has_head:
        msg = f"attempt {attempt} began meanwhile, so what was read may be torn; ask again"
        raise TornReadingError(msg)


def _list_holders(session: ClusterSession, pipeline: ClusterPipeline) -> tuple[ClaimHolder, ...]:
    pods = session.kubectl.get("pods", _ALIVE)["items"]
    return find_holders(pods, pipeline.claim, pipeline.uid)


def find_volumes(session: ClusterSession, pipeline: ClusterPipeline) -> Volumes:
    """Find what the latest attempt had, and which pods hold the claim.

    Raises:
        NothingRunError: there was no attempt.
        ForeignConfigError: the list of its volumes was written by another.
        StrandlineError: nothing tells which volumes it had.
    """
    if not pipeline.status.attempt:
        msg = f"{pipeline.name} has made no attempt yet, so there is nothing to look at"
        raise NothingRunError(msg)
    config, data = _read_config(session, pipeline)
    holders = _list_holders(session, pipeline)
    if HEAD_TEMPLATE in data:
        head = json.loads(data[HEAD_TEMPLATE])
    else:
        head = next((holder.spec for holder in holders if holder.is_head), None)
    if head is None or MANIFEST not in data:
        msg = (
            f"ConfigMap {config} does not say which volumes the attempt had: its operator is "
            "older than this command; look as docs/failures.md says for a pod of your own, or "
            "retry once with a newer one"
        )
        raise NothingRunError(msg)
    # An older operator has left none.
    kept = data.get(COMMAND_METADATA)
    metadata = OUT_OF_MESHES if kept is None else json.loads(kept)
    return Volumes(json.loads(data[MANIFEST]), head, holders, metadata)


def _read_config(
    session: ClusterSession, pipeline: ClusterPipeline
) -> tuple[str, Mapping[str, str]]:
    """Return name and data of the ConfigMap that the operator made for the latest attempt.

    A user with the right to write ConfigMaps may replace it, and the pod would run in the name of
    the person who asks.
    """
    attempt = session.find_attempt(pipeline)
    if attempt is None or attempt.status.config is None:
        name = name_attempt(pipeline.name, pipeline.status.attempt)
        raise ForeignConfigError(
            f"nothing tells which ConfigMap the operator made for attempt {name}: it is older than "
            "this command, or gone; retry once with a newer operator"
        )
    config, digest = attempt.status.config.name, attempt.status.config.digest
    data = session.kubectl.get("configmap", config).get("data") or {}
    if digest != digest_config(data):
        msg = f"ConfigMap {config} is not what the operator wrote; somebody has replaced it"
        raise ForeignConfigError(msg)
    return config, data


@contextmanager
def opened_job(
    session: ClusterSession, pipeline: ClusterPipeline, order: CommandOrder, volumes: Volumes
) -> Iterator[tuple[str, str]]:
    """Provide the names of a Job and of its pod, which has started; it is gone afterwards."""
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
    """Return the Job's pod; an empty one where it has none yet."""
    found = session.kubectl.get("pods", "-l", f"batch.kubernetes.io/job-name={job}")["items"]
    return dict(found[0]) if found else {"metadata": {"name": job}}


def _await(
    session: ClusterSession, job: str, is_there: Callable[[PodState], bool], seconds: float
) -> PodState:
    """Wait until the Job's pod is as far; say why it is not where that takes long."""
    begun, shown = session.now(), ""
    while True:
        pod = _find_pod(session, job)
        state = read_pod(pod, CONTAINER)
        if is_there(state):
            return state
        if state.code is not None:
            raise JobNotStartedError(state.message)
        waited = session.now() - begun
        why = state.message or _describe_way(job, pod)
        if waited > seconds:
            msg = f"after {seconds:g} s the command has not got further: {why}"
            raise JobNotStartedError(msg)
        if waited > _QUIET_SECONDS and why != shown:
            session.show(f"waiting: {why}")
            shown = why
        session.sleep(_LOOK_SECONDS)


def _describe_way(job: str, pod: Mapping[str, Any]) -> str:
    if "status" in pod:
        return f"pod {pod['metadata']['name']} is on its way"
    # A quota or a policy that refuses it is told in an event alone.
    return f"Job {job} has no pod yet; `kubectl events --for job/{job}` says why"
