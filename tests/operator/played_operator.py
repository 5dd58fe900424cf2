"""Plays a recording of KubeRay to the operator in memory, both on the recording's clock.

    scenario = Scenario("s-k-exit-64")
    scenario.run()                    # until the attempt is final and the next step is decided
    scenario.attempt["status"]["cause"]

Between two recorded steps the operator runs every scheduled pass. After each step, passes repeat
until nothing changes. If the operator deletes the RayJob itself, the scenario leaves the recording,
and the teardown takes as long as the recorded teardown.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cache_feed import CacheFeed
from fake_api import FakeApi
from fake_store import FakeStore
from kuberay_player import Player
from kuberay_standin.rayjobs.jobs import SUBMITTER
from operator_bodies import KEY, NAMESPACE, make_pipeline
from recordings import Step, read_recording
from store_stage import StoreStage
from strandline_api.names import ATTEMPT_LABEL, ROLE_LABEL
from strandline_api.notation.times import format_time
from strandline_api.spec.policy import RetryPolicy
from strandline_operator.cluster.errors import ApiError
from strandline_operator.decide.pipeline import decide
from strandline_operator.decide.scene import is_head
from strandline_operator.metrics.numbers import Numbers
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.namespaces.defaults import NamespaceDefaults
from strandline_operator.reconcile.caches.pods import PodMemory
from strandline_operator.reconcile.drivers.dialogue import DriverTalk
from strandline_operator.reconcile.observe import PassInputs
from strandline_operator.reconcile.passes import Passes
from strandline_operator.reconcile.scheduling.gate import DispatchGate
from strandline_operator.reconcile.scheduling.schedule import SeenPipelines

Body = dict[str, Any]
# The recording starts at midnight, so each time in a status reads as the time since the start.
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
MOST_PASSES = 20
# Seconds to wait for a teardown: longer than any recorded teardown, and shorter than the operator's
# teardown limit.
PATIENCE = 300.0
SPEC: Body = {
    "retry": {"jitter": "none"},
    "ray": {"workerGroups": [{"name": "cpu", "resources": {"memory": "8Gi"}}]},
}


class Operator:
    """A process of the operator, with its memory. `feed` delivers the events of its watches.

    Before the first event, passes read everything from the server.
    """

    def __init__(self, api: FakeApi, limits: Limits) -> None:
        self.memory = PodMemory()
        self.feed = CacheFeed(api.store, self.memory)
        self.passes = Passes(
            api=api,
            decide=decide,
            limits=limits,
            inputs=PassInputs(
                self.memory,
                DriverTalk(limits),
                NamespaceDefaults("none"),
                RetryPolicy(),
                self.feed.cache,
            ),
            seen_pipelines=SeenPipelines(),
            gate=DispatchGate(60),
            counter=Numbers(),
            clock=lambda: api.store.time,
            draw=lambda: 0.0,
        )


@dataclass(frozen=True, slots=True)
class Sighting:
    """A written status: seconds since the start, the preceding step, the kind, and the object."""

    at: float
    after: str
    kind: str
    body: Body


class Scenario:
    """One attempt, played from a recording."""

    def __init__(self, recording: str, limits: Limits | None = None, **spec: Any) -> None:
        self.recording = read_recording(recording)
        self.limits = limits or Limits()
        self.api = FakeApi(FakeStore(time=MIDNIGHT))
        self.stage = StoreStage(self.api.store)
        self.operator = Operator(self.api, self.limits)
        self.sightings: list[Sighting] = []
        self.most_attempts = 0
        self._wake_at: float | None = None
        self._after = "apply"
        make_pipeline(self.api.store, **{**SPEC, **spec})

    @property
    def store(self) -> FakeStore:
        return self.api.store

    @property
    def pipeline(self) -> Body:
        return self.store.list(Resource.PIPELINE)[0]

    @property
    def attempt(self) -> Body:
        """Return the played attempt."""
        return self.store.list(Resource.ATTEMPT)[0]

    def is_final(self) -> bool:
        attempts = self.store.list(Resource.ATTEMPT)
        return bool(attempts and attempts[0].get("status", {}).get("isFrozen"))

    def run(self) -> None:
        """Play until the attempt is final, or until the recording ends."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        await self.settle()
        while not self.store.list(Resource.RAYJOB):
            await self.wait_until(self._wake_at or self.store.time)
        (rayjob,) = self.store.list(Resource.RAYJOB)
        begin = datetime.fromtimestamp(self.store.time, UTC)
        player = Player(self.stage, self.recording, rayjob, begin=begin)
        clock = _Clock(self.store.time)
        while not self.is_final():
            step = await player.peek()
            if step is None:
                if self.store.time > clock.latest + PATIENCE or self._wake_at is None:
                    return
                await self.wait_until(self._wake_at)
                continue
            clock.latest = self.store.time
            await self.wait_until(clock.read(step, self.store.time, is_left=self._has_deleted()))
            if self.is_final() or step is not await player.peek():
                continue  # the operator has just left the recording
            await player.step()
            if step.notice is not None:
                self._warn(player.casting.cast(step.notice))
            self._after = describe_step(step)
            self._hear(player)
            await self.settle()

    async def wait_until(self, due: float) -> None:
        """Advance the time, and run every pass that becomes due until then."""
        while self._wake_at is not None and self._wake_at <= due and not self.is_final():
            self.store.time = max(self.store.time, self._wake_at)
            self._after = "time"
            await self.settle()
        self.store.time = max(self.store.time, due)

    async def settle(self) -> None:
        """Run passes until nothing changes, without advancing the time."""
        for _ in range(MOST_PASSES):
            self.tell()
            before = self.store.version
            await self.pass_once()
            self._note()
            if self.store.version == before and (self._wake_at or 0.0) != self.store.time:
                return
        raise AssertionError("the operator does not come to rest")

    async def pass_once(self) -> None:
        """Run one pass of the operator."""
        self._serve()
        try:
            passed = await self.operator.passes.run(KEY)
        except ApiError:
            self._wake_at = self.store.time + 1.0
        else:
            self._wake_at = self.store.time + 1.0 if passed.again else passed.wake_at

    def tell(self) -> None:
        """Deliver the events of all watches."""
        self.operator.feed.follow()

    def _serve(self) -> None:
        """Serve an empty answer for each driver whose head is running."""
        heads = (Pod.read(one) for one in self.store.list(Resource.POD))
        places = [head.ip for head in heads if is_head(head) and head.phase == "Running"]
        pages = ("progress", "outcome")
        port = self.limits.driver_port
        self.api.drivers = {f"http://{ip}:{port}/{page}": None for ip in places for page in pages}

    def _has_deleted(self) -> bool:
        return any(
            call.verb == "delete" and call.resource is Resource.RAYJOB for call in self.api.calls
        )

    def _hear(self, player: Player) -> None:
        """Set the logs of running pods to the recorded output so far."""
        self.api.logs.clear()
        for pod in self.store.list(Resource.POD):
            name = pod["metadata"]["name"]
            text = player.read_log(name, SUBMITTER)
            if text is not None and (text or pod["metadata"]["labels"][ROLE_LABEL] != "worker"):
                self.api.logs[NAMESPACE, name] = text

    def _warn(self, notice: Body) -> None:
        """Add a recorded Event about an object."""
        kind, _, name = notice["object"].partition("/")
        kinds = {"Pod": Resource.POD, "Job": Resource.JOB}
        listed = self.store.list(kinds.get(kind, Resource.POD))
        named = [one for one in listed if one["metadata"]["name"] == name]
        uid = named[0]["metadata"]["uid"] if named else ""
        count = len(self.store.list(Resource.EVENT))
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{count}"},
            "involvedObject": {"kind": kind, "name": name, "uid": uid},
            "lastTimestamp": format_time(int(self.store.time)),
            **{field: notice[field] for field in ("type", "reason", "message")},
        }
        self.store.create(Resource.EVENT, NAMESPACE, body)

    def _note(self) -> None:
        pods = self.store.list(Resource.POD)
        numbers = {pod["metadata"]["labels"].get(ATTEMPT_LABEL) for pod in pods}
        self.most_attempts = max(self.most_attempts, len(numbers))
        for kind in (Resource.ATTEMPT, Resource.PIPELINE):
            for body in self.store.list(kind):
                self._note_status(body)

    def _note_status(self, body: Body) -> None:
        mine = [
            sighting
            for sighting in self.sightings
            if sighting.kind == body["kind"]
            and sighting.body["metadata"]["name"] == body["metadata"]["name"]
        ]
        if "status" in body and (not mine or mine[-1].body["status"] != body["status"]):
            at = round(self.store.time - MIDNIGHT, 3)
            self.sightings.append(Sighting(at, self._after, body["kind"], body))


class AwayScenario(Scenario):
    """A scenario in which the operator stops for a while and restarts without its memory."""

    def __init__(self, recording: str, away: tuple[float, float]) -> None:
        super().__init__(recording)
        self._away = away
        self._is_back = False

    async def settle(self) -> None:
        """Run passes until nothing changes, unless the operator is stopped."""
        begin, end = (MIDNIGHT + seconds for seconds in self._away)
        if begin <= self.store.time < end:
            self._wake_at = end
            return
        if self.store.time >= end and not self._is_back:
            self._is_back = True
            self.operator = Operator(self.api, self.limits)
        await super().settle()


@dataclass(slots=True)
class _Clock:
    """Due times of steps: as recorded, or relative to the operator's own deletion."""

    start: float
    latest: float = 0.0
    left: tuple[float, float] | None = None

    def read(self, step: Step, now: float, *, is_left: bool) -> float:
        if not is_left:
            return self.start + step.time
        if step.kind != "Pod":
            return now
        if self.left is None:
            self.left = (now, step.time)
        return max(now, self.left[0] + step.time - self.left[1])


def describe_step(step: Step) -> str:
    """Describe a step by its marks, or by the changed object if the step has no marks."""
    if step.marks:
        return ", ".join(sorted(step.marks))
    return f"{step.subject or step.kind} changed" if step.kind else "log"
