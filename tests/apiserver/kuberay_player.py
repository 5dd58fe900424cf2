"""Plays KubeRay from a recording of a real one.

A `Player` takes one RayJob through one recording: it makes the RayCluster, the pods, and the
submitter's Job, writes their statuses in the recorded order, and makes the recorded deletions. Time
is logical and advances only with `step`.

    player = Player(stage, read_recording("s-k-success"), rayjob)
    await player.play("RayJob RUNNING")     # up to and with the first step of this mark
    await player.step()                     # one more; None at the end
    await player.play()                     # to the end

`recordings.py` defines the marks. A `Troupe` serves a whole namespace: the first RayJob is played
by the first recording of the programme, and so on.

    troupe = Troupe(stage, "default", ["s-k-head-deleted", "s-k-success"])
    await troupe.tick()                     # one step of every RayJob; True if anything happened

`stage` is an API server: a real server (`ServerStage` in kube_client.py), or the operator's fake
(`StoreStage` in store_stage.py). If another client deletes the RayJob, the player leaves the
recording. The player then removes KubeRay's finalizer, the RayCluster, and the Job, and ends every
pod as recorded, or in the usual way if no end was recorded. Without a kubelet, all pods have a node
from the start and stay until the player ends them. `read_log` returns the output of a pod so far.

Names and outcome lines are adapted to the play. With `begin`, times are counted from `begin`. The
rest is as recorded. Pods have the recorded restart policy, whatever the template's policy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from kuberay_standin.rayjobs.steps import FINALIZER
from played_objects import (
    Casting,
    make_cluster,
    make_job,
    make_pod,
    rename_containers,
)
from played_teardown import plan_teardown
from recordings import Json, Newcomer, Recording, Step, read_recording

NODE = "node-1"


class Stage(Protocol):
    """The API server calls of a player. All calls except `create` ignore missing objects."""

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Read an object."""

    async def list(self, kind: str, namespace: str) -> list[Json]:
        """Read all objects of a kind."""

    async def create(self, kind: str, namespace: str, body: Json) -> Json:
        """Create an object with a new uid, and return the object."""

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> None:
        """Replace the whole status of an object."""

    async def patch(self, kind: str, namespace: str, name: str, patch: Json) -> None:
        """Apply a JSON merge patch to an object."""

    async def delete(self, kind: str, namespace: str, name: str, grace: int | None = None) -> None:
        """Delete an object. A grace period of 0 removes a pod immediately, as its kubelet would."""


class Player:
    """Plays one recording for one RayJob. See the module's docstring."""

    def __init__(
        self,
        stage: Stage,
        recording: Recording,
        rayjob: Json,
        *,
        begin: datetime | None = None,
        node: str = NODE,
    ) -> None:
        later = begin - recording.started_at if begin else timedelta()
        self.recording = recording
        self.casting = Casting(recording, rayjob["metadata"]["namespace"], rayjob, later)
        self._stage = stage
        self._node = node
        self._left = deque(recording.steps)
        self._alive: dict[str, Step] = {}  # the last step of each existing object
        self._objects: dict[str, Json] = {f"RayJob/{recording.rayjob}": rayjob}
        self._newcomers: dict[str, Newcomer] = {}
        self._lines: list[Step] = []
        self._is_ending = False
        self.time = 0.0

    @property
    def marks(self) -> tuple[str, ...]:
        """The remaining marks, in order."""
        return tuple(dict.fromkeys(mark for step in self._left for mark in sorted(step.marks)))

    @property
    def is_over(self) -> bool:
        """True if no step remains. A later deletion of the RayJob may add steps."""
        return not self._left

    async def play(self, until: str | None = None) -> None:
        """Play to the end, or until the next step with the given mark has been played.

        Raises:
            LookupError: if the end comes before the mark.
        """
        while (step := await self.step()) is not None:
            if until in step.marks:
                return
        if until is not None:
            raise LookupError(f"{self.recording.scenario} ended before {until!r}")

    async def peek(self) -> Step | None:
        """Return the next recorded step without playing it, or None at the end."""
        await self._heed_deletion()
        return self._left[0] if self._left else None

    async def step(self) -> Step | None:
        """Play the next step and return the recorded step, or None at the end."""
        if await self.peek() is None:
            return None
        step = self._left.popleft()
        self.time = max(self.time, step.time)
        if step.container:
            self._lines.append(step)
        elif step.kind:
            await self._play_object(step)
        return step

    def read_log(self, pod: str, container: str) -> str | None:
        """Return the output of a container so far, or None if the pod does not exist."""
        if all(self._name(step) != pod for step in self._alive.values() if step.kind == "Pod"):
            return None
        texts = [
            self.casting.cast_text(step.line)
            for step in self._lines
            if self._name(step) == pod and step.container == container
        ]
        return "".join(f"{text}\n" for text in texts)

    def _name(self, step: Step) -> str:
        return self.casting.cast_text(step.name)

    async def _play_object(self, step: Step) -> None:
        if step.new is not None:
            self._newcomers[step.key] = step.new
            await self._bring(step, step.new)
        if step.key not in self._newcomers:
            return  # an early deletion of the RayJob has removed the object
        place = (step.kind, self.casting.namespace, self._name(step))
        self._alive[step.key] = step
        if step.suspend is not None:
            await self._stage.patch(*place, {"spec": {"suspend": step.suspend}})
        if step.is_deleting:
            await self._start_deletion(step)
        if step.status:
            await self._stage.put_status(*place, self._cast_status(step))
        if step.is_gone:
            await self._remove(step)
            del self._alive[step.key]

    def _cast_status(self, step: Step) -> Json:
        status: Json = self.casting.cast(step.status)
        if step.kind == "Pod":
            new, pod = self._newcomers[step.key], self._objects[step.key]
            return rename_containers(status, pod, new)
        return status

    async def _bring(self, step: Step, new: Newcomer) -> None:
        if step.kind == "RayJob":
            await self._hold_rayjob(step)
            return
        name, owner = self._name(step), self._objects[new.owner]
        if step.kind == "Pod":
            body = make_pod(self.casting, name, new, owner, self._node)
        else:
            make = make_cluster if step.kind == "RayCluster" else make_job
            body = make(self.casting, name, new, owner)
        made = await self._stage.create(step.kind, self.casting.namespace, body)
        self._objects[step.key] = made

    async def _hold_rayjob(self, step: Step) -> None:
        place = ("RayJob", self.casting.namespace, self._name(step))
        found = await self._stage.get(*place)
        held = (found or {}).get("metadata", {}).get("finalizers", [])
        if found is not None and FINALIZER not in held:
            await self._stage.patch(*place, {"metadata": {"finalizers": [*held, FINALIZER]}})

    async def _start_deletion(self, step: Step) -> None:
        place = (step.kind, self.casting.namespace, self._name(step))
        self._is_ending = self._is_ending or step.kind == "RayJob"
        found = await self._stage.get(*place)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            await self._stage.delete(*place)

    async def _remove(self, step: Step) -> None:
        place = (step.kind, self.casting.namespace, self._name(step))
        if step.kind != "RayJob":
            await self._stage.delete(*place, grace=0)
            return
        found = await self._stage.get(*place)
        held = (found or {}).get("metadata", {}).get("finalizers", [])
        kept = [name for name in held if name != FINALIZER]
        if kept != held:
            await self._stage.patch(*place, {"metadata": {"finalizers": kept}})

    async def _heed_deletion(self) -> None:
        """Switch to a teardown if another controller or a user has deleted the RayJob."""
        if self._is_ending:
            return
        rayjob = self.casting.rayjob["metadata"]
        found = await self._stage.get("RayJob", self.casting.namespace, rayjob["name"])
        metadata = (found or {}).get("metadata", {})
        if metadata.get("uid") == rayjob["uid"] and "deletionTimestamp" not in metadata:
            return
        self._is_ending = True
        self._left = deque(plan_teardown(self._alive, tuple(self._left)))


class Troupe:
    """Plays every RayJob of a namespace. See the module's docstring."""

    def __init__(
        self,
        stage: Stage,
        namespace: str,
        programme: Sequence[str],
        *,
        begin: datetime | None = None,
    ) -> None:
        self.players: dict[str, Player] = {}  # by uid of the RayJob, in order of creation
        self._stage = stage
        self._namespace = namespace
        self._programme = programme
        self._begin = begin

    async def tick(self) -> bool:
        """Find new RayJobs, and play one step of each RayJob. Return True if anything happened.

        Raises:
            LookupError: if there are more RayJobs than recordings in the programme.
        """
        await self.find_players()
        steps = [await player.step() for player in self.players.values()]
        return any(step is not None for step in steps)

    async def find_players(self) -> Sequence[Player]:
        """Assign a recording to each new RayJob, and return all players."""
        for rayjob in await self._stage.list("RayJob", self._namespace):
            if rayjob["metadata"]["uid"] not in self.players:
                self._cast(rayjob)
        return tuple(self.players.values())

    def _cast(self, rayjob: Json) -> None:
        metadata = rayjob["metadata"]
        if len(self.players) == len(self._programme):
            raise LookupError(f"no recording is left for RayJob {metadata['name']}")
        recording = read_recording(self._programme[len(self.players)])
        player = Player(self._stage, recording, rayjob, begin=self._begin)
        self.players[metadata["uid"]] = player
