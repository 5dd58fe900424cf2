"""Simulates kubelets, a scheduler, storage, and Ray's API, beside a real KubeRay controller.

Pods are assigned to a node, run, and end when deleted. Once a submitter runs, the Ray API reports
its job as running for the chosen time; then both succeed. KubeRay addresses that API by a cluster
DNS name, which does not resolve here. KubeRay therefore uses a proxy, and the proxy responds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kuberay_standin.kubelet import render_end, render_running
from kuberay_standin.objects import Json, get_name
from strandline_api.names import ATTEMPT_LABEL, PIPELINE_LABEL
from strandline_api.notation.times import format_time
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line
from strandline_bench.operator.cluster.objects import DRIVER_ADDRESS, NODE
from strandline_bench.operator.cluster.player import (
    PULL_SECONDS,
    Cast,
    Clock,
    ShowEvidence,
    bind_claims,
    serve,
)
from strandline_bench.operator.cluster.wire import Wire
from strandline_bench.operator.moments import AttemptId

JOB_LABEL = "batch.kubernetes.io/job-name"  # on a submitter's pod; the value is the RayJob's name
RUNNING, SUCCEEDED = "RUNNING", "SUCCEEDED"
_JOBS = "/api/jobs/"

RayJobKey = tuple[str, str]  # namespace and name
Jobs = dict[RayJobKey, str]  # statuses of Ray jobs


@dataclass(slots=True)
class Kubelet:
    """Simulates all pods of a server.

    Attributes:
        jobs: statuses of the Ray jobs, which submitters' pods start and end.
        cast: function that returns the length of an attempt; all attempts succeed.
    """

    jobs: Jobs
    wire: Wire
    cast: Cast
    show_evidence: ShowEvidence
    clock: Clock
    _rayjobs: set[RayJobKey] = field(default_factory=set)
    _pods: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # by uid
    _gone: set[str] = field(default_factory=set)

    @property
    def left(self) -> int:
        """The number of remaining RayJobs."""
        return len(self._rayjobs)

    async def play(self) -> None:
        """Simulate all new pods until cancellation or an error."""
        async with asyncio.TaskGroup() as group:
            group.create_task(bind_claims(self.wire))
            group.create_task(self._count())
            async for kind, pod in self.wire.follow("Pod"):
                self._see(group, kind, pod | {"apiVersion": "v1", "kind": "Pod"})

    async def _count(self) -> None:
        async for kind, rayjob in self.wire.follow("RayJob"):
            key = (rayjob["metadata"]["namespace"], get_name(rayjob))
            (self._rayjobs.discard if kind == "DELETED" else self._rayjobs.add)(key)

    def _see(self, group: asyncio.TaskGroup, kind: str, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._end(uid)
            self._gone.discard(uid)
        elif "deletionTimestamp" in pod["metadata"]:
            self._end(uid)
            # Request the removal only once: a Job's controller changes a terminating pod again.
            if uid not in self._gone:
                self._gone.add(uid)
                key = (pod["metadata"]["namespace"], get_name(pod))
                group.create_task(self.wire.delete("Pod", *key, grace=0))
        elif uid not in self._pods:
            self._pods[uid] = group.create_task(self._run(pod))

    def _end(self, uid: str) -> None:
        task = self._pods.pop(uid, None)
        if task is not None:
            task.cancel()

    async def _run(self, pod: Json) -> None:
        namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
        await self.wire.assign(namespace, get_name(pod), NODE)
        await asyncio.sleep(PULL_SECONDS)
        await self._put_status(pod, render_running(pod, self._now, DRIVER_ADDRESS))
        if JOB_LABEL in labels:
            attempt_id = AttemptId(namespace, labels[PIPELINE_LABEL], int(labels[ATTEMPT_LABEL]))
            await self._work(attempt_id, pod, (namespace, labels[JOB_LABEL]))

    async def _work(self, attempt_id: AttemptId, submitter: Json, key: RayJobKey) -> None:
        self.jobs[key] = RUNNING
        await asyncio.sleep(self.cast(attempt_id).seconds)
        self.show_evidence(attempt_id, self.clock())
        self.jobs[key] = SUCCEEDED
        await self._put_status(submitter, render_end(submitter, self._now, 0))

    async def _put_status(self, pod: Json, status: Mapping[str, Any]) -> None:
        key = (pod["metadata"]["namespace"], get_name(pod))
        await self.wire.put_status("Pod", *key, dict(status))

    @property
    def _now(self) -> str:
        return format_time(int(self.clock()))


def serve_jobs(jobs: Jobs) -> AbstractAsyncContextManager[int]:
    """Serve the Ray APIs of all clusters behind a proxy, and yield the port."""

    async def answer(request: web.BaseRequest) -> web.Response:
        job = request.path.removeprefix(_JOBS)
        # KubeRay's host names have the form NAME-head-svc.NAMESPACE.svc.cluster.local. NAME is
        # RAYJOB-SUFFIX for the cluster of a job.
        namespace = request.host.split(".")[1] if "." in request.host else ""
        state = jobs.get((namespace, job.rpartition("-")[0]))
        if request.method != "GET" or state is None:
            return web.Response(status=404)
        return web.json_response(render_job(job, state))

    return serve(answer)


def render_job(job: str, state: str) -> Json:
    """Render a job as Ray's API reports it."""
    ended = DriverOutcome(exit_code=0, message="all sources are finished")
    message = f"Job finished successfully. {format_outcome_line(ended)}"
    return {
        "submission_id": job,
        "job_id": job,
        "type": "SUBMISSION",
        "status": state,
        "message": message if state == SUCCEEDED else "Job is currently running.",
    }
