"""Simulates KubeRay, kubelets, storage, and drivers for many attempts, at little cost.

Each RayJob gets a RayCluster, a head, two workers, and a submitter. It runs, ends as chosen, and is
removed when deleted. The simulator makes few requests and uses no recordings, so that the benchmark
does not measure the simulator.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from kuberay_standin.kubelet import render_end, render_running
from kuberay_standin.objects import Json, get_name
from kuberay_standin.rayjobs.steps import FINALIZER
from strandline_api.names import ATTEMPT_LABEL, PIPELINE_LABEL
from strandline_api.notation.times import format_time
from strandline_bench.operator.cluster.objects import (
    DRIVER_ADDRESS,
    Ending,
    render_cluster,
    render_disruption,
    render_job_end,
    render_job_status,
    render_memory_kill,
    render_pods,
    render_submitter,
)
from strandline_bench.operator.cluster.wire import Wire
from strandline_bench.operator.moments import AttemptId

PULL_SECONDS = 0.5  # seconds until containers run


@dataclass(frozen=True, slots=True)
class Part:
    """An attempt's length in seconds, and how it ends."""

    seconds: float
    ending: Ending


Cast = Callable[[AttemptId], Part]
ShowEvidence = Callable[[AttemptId, float], None]
Clock = Callable[[], float]


class JobSimulator(Protocol):
    """Interface of simulators of a server's RayJobs."""

    @property
    def left(self) -> int:
        """The number of remaining RayJobs."""
        ...

    async def play(self) -> None:
        """Simulate all new objects until cancellation or an error."""
        ...


@dataclass(slots=True)
class SimulatedJob:
    """A simulated RayJob and its pods."""

    rayjob: Json
    pods: list[Json] = field(default_factory=list)
    is_ending: bool = False
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Player:
    """Simulates all RayJobs of a server.

    Attributes:
        cast: function that returns an attempt's length and ending.
        show_evidence: called with the time of the first evidence of an attempt's end.
        clock: function that returns seconds since the epoch.
    """

    wire: Wire
    cast: Cast
    show_evidence: ShowEvidence
    clock: Clock
    _played: dict[str, SimulatedJob] = field(default_factory=dict)  # by uid

    @property
    def left(self) -> int:
        """The number of remaining RayJobs."""
        return len(self._played)

    async def play(self) -> None:
        """Simulate all new RayJobs until cancellation or an error."""
        async with asyncio.TaskGroup() as group:
            group.create_task(bind_claims(self.wire))
            async for kind, rayjob in self.wire.follow("RayJob"):
                self._see(group, kind, rayjob | {"apiVersion": "ray.io/v1", "kind": "RayJob"})

    def _see(self, group: asyncio.TaskGroup, kind: str, rayjob: Json) -> None:
        uid = rayjob["metadata"]["uid"]
        played = self._played.get(uid)
        if kind == "DELETED":
            self._played.pop(uid, None)
        elif played is None:
            played = self._played[uid] = SimulatedJob(rayjob)
            played.task = group.create_task(self._perform(played))
        elif "deletionTimestamp" in rayjob["metadata"] and not played.is_ending:
            played.is_ending = True
            group.create_task(self._tear_down(played))

    async def _perform(self, played: SimulatedJob) -> None:
        rayjob, labels = played.rayjob, played.rayjob["metadata"]["labels"]
        key = (rayjob["metadata"]["namespace"], get_name(rayjob))
        attempt_id = AttemptId(key[0], labels[PIPELINE_LABEL], int(labels[ATTEMPT_LABEL]))
        part = self.cast(attempt_id)
        held = {"metadata": {"finalizers": [FINALIZER]}}
        await self.wire.patch("RayJob", *key, held)
        await self._put_status(rayjob, render_job_status(rayjob, self._now, "Initializing"))
        await self._bring_up(played)
        await self._put_status(rayjob, render_job_status(rayjob, self._now, "Running", "RUNNING"))
        await asyncio.sleep(part.seconds)
        self.show_evidence(attempt_id, self.clock())
        await self._end(played, part.ending)

    async def _bring_up(self, played: SimulatedJob) -> None:
        rayjob = played.rayjob
        namespace = rayjob["metadata"]["namespace"]
        cluster = await self.wire.create(render_cluster(rayjob), namespace)
        if cluster is None:
            return
        for pod in render_pods(rayjob, cluster):
            await self.wire.create(pod, namespace)
            played.pods.append(pod)
        await asyncio.sleep(PULL_SECONDS)
        submitter = render_submitter(rayjob)
        await self.wire.create(submitter, namespace)
        played.pods.append(submitter)
        for pod in played.pods:
            await self._put_status(pod, render_running(pod, self._now, DRIVER_ADDRESS), namespace)

    async def _end(self, played: SimulatedJob, ending: Ending) -> None:
        rayjob, namespace = played.rayjob, played.rayjob["metadata"]["namespace"]
        head, worker, *_, submitter = played.pods
        if ending is Ending.MEMORY:
            await self._put_status(worker, render_memory_kill(worker, self._now), namespace)
        elif ending is Ending.PREEMPTED:
            await self._put_status(head, render_disruption(self._now), namespace)
            await self._remove(head, namespace)
        code = 0 if ending is Ending.WELL else 1
        await self._put_status(submitter, render_end(submitter, self._now, code), namespace)
        await self._put_status(rayjob, render_job_end(self._now, ending))

    async def _tear_down(self, played: SimulatedJob) -> None:
        if played.task is not None:
            played.task.cancel()
            await asyncio.gather(played.task, return_exceptions=True)
        namespace, name = played.rayjob["metadata"]["namespace"], get_name(played.rayjob)
        for pod in played.pods:
            await self._remove(pod, namespace)
        await self.wire.delete("RayCluster", namespace, name)
        await self.wire.patch("RayJob", namespace, name, {"metadata": {"finalizers": []}})

    async def _remove(self, pod: Json, namespace: str) -> None:
        """Remove a pod as a kubelet does: first mark the pod as terminating, then delete it."""
        await self.wire.delete("Pod", namespace, get_name(pod))
        await self.wire.delete("Pod", namespace, get_name(pod), grace=0)

    async def _put_status(self, body: Json, status: Json, namespace: str = "") -> None:
        key = namespace or body["metadata"]["namespace"]
        await self.wire.put_status(body["kind"], key, get_name(body), status)

    @property
    def _now(self) -> str:
        return format_time(int(self.clock()))


async def bind_claims(wire: Wire) -> None:
    """Bind each new claim as a storage provisioner does, until cancellation."""
    async for kind, claim in wire.follow("PersistentVolumeClaim"):
        # Claims of idle pipelines are already bound.
        if kind == "ADDED" and (claim.get("status") or {}).get("phase") != "Bound":
            key = (claim["metadata"]["namespace"], get_name(claim))
            status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"]}
            await wire.put_status("PersistentVolumeClaim", *key, status)


@asynccontextmanager
async def serve_drivers(clock: Clock) -> AsyncIterator[int]:
    """Serve a running driver's API for all attempts at one address, and yield the port.

    The API never reports an end; only the RayJob does.
    """
    begun = clock()

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path != "/progress":
            return web.Response(status=404)
        finished = int(10 * (clock() - begun))
        sources = {"finished": finished, "failed": 0, "unfinished": 100_000}
        return web.json_response({"sources": sources, "rate": 10.0, "secondsLeft": 600.0})

    async with serve(answer) as port:
        yield port


@asynccontextmanager
async def serve(answer: Callable[[web.BaseRequest], Awaitable[web.Response]]) -> AsyncIterator[int]:
    """Serve requests on a free local port, and yield the port."""
    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    try:
        await web.TCPSite(runner, DRIVER_ADDRESS, 0).start()
        port: int = runner.addresses[0][1]
        yield port
    finally:
        await runner.cleanup()
