"""The cluster that the guide's reader sees: KubeRay, drivers, a storage class and a queue, played.

    RayJob corpus-1 plays s-k-success until RayJob RUNNING
    RayJob corpus-1 goes on
    RayJob corpus-1 waits in a queue
    the driver has 120 of 1000
    the driver ends with 880 of 1000
    the driver is stopped at 300 of 1000
    the driver refuses the pipeline

Nothing happens but by these cues and `tick`, which lets go what was let go. One driver at a time.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from kube_client import KubeClient, ServerStage
from kuberay_player import Player
from recordings import Json, read_recording
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import read_exit
from strandline_api.outcome.exit_codes import ExitCode
from waiting import wait_until

PAUSE = 0.01
HEARD = 2.5  # seconds; the operator asks every 2 s at the latest, as the test sets it
LOOPBACK = "127.0.0.1"


class Driver(BaseHTTPRequestHandler):
    """What the driver answers; the pods of all heads have this address.

    Attributes:
        pages: by path; a page of bytes is sent as it is.
        asked: how often, all pages together.
    """

    pages: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[int] = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        page = self.pages.get(self.path)
        body = page if isinstance(page, bytes) else json.dumps(page).encode()
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def serve_driver() -> Iterator[int]:
    """Answer as the driver on a port of loopback."""
    with ThreadingHTTPServer((LOOPBACK, 0), Driver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


class GuideStage(ServerStage):
    """Puts the driver where the operator finds it."""

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> None:
        if kind == "Pod" and "podIP" in status:
            status = {**status, "podIP": LOOPBACK, "podIPs": [{"ip": LOOPBACK}]}
        await super().put_status(kind, namespace, name, status)


@dataclass
class GuideCluster:
    """Players by name of their RayJob, of which some play on by themselves."""

    client: KubeClient
    namespace: str
    players: dict[str, Player] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)

    def heed(self, cue: str) -> None:
        """Do what a cue says."""
        for pattern, act in CUES.items():
            found = re.fullmatch(pattern, cue)
            if found is not None:
                act(self, *found.groups())
                return
        raise LookupError(f"nobody knows what to do at the cue {cue!r}")

    def tick(self) -> None:
        """Go on a little: players that are free, and those whose RayJob is being deleted."""
        self._bind_claims()
        for name, player in list(self.players.items()):
            is_going = self._is_going(player)
            if name in self.free or is_going:
                self.free.add(name)
                if asyncio.run(player.step()) is None and is_going:
                    del self.players[name]

    def play(self, name: str, recording: str, mark: str) -> None:
        """Let a RayJob play from its beginning up to a mark."""
        Driver.pages = {}
        self.free.discard(name)
        wait_until(lambda: self._tick_until_there(name))
        rayjob = self.client.get("RayJob", name, self.namespace)
        assert rayjob is not None
        stage = GuideStage(self.client)
        begin = datetime.now(UTC)
        player = Player(stage, read_recording(recording), rayjob, begin=begin)
        self.players[name] = player
        while (step := asyncio.run(player.step())) is not None:
            time.sleep(PAUSE)
            if mark in step.marks:
                return
        raise LookupError(f"{recording} has no {mark!r}")

    def let_go(self, name: str) -> None:
        """Let a RayJob play to its end."""
        self.free.add(name)

    def hold(self, name: str) -> None:
        """Hold a RayJob back as Kueue does."""
        wait_until(lambda: self._tick_until_there(name))
        self.client.patch("RayJob", name, {"spec": {"suspend": True}}, self.namespace)
        status = {"jobDeploymentStatus": "Suspended", "jobStatus": ""}
        self.client.put_status("RayJob", name, status, self.namespace)

    def tell_progress(self, finished: str, total: str) -> None:
        """Let the driver say how far it is."""
        self._tell(SourceCounts(total=int(total), finished=int(finished)))

    def tell_end(self, finished: str, total: str) -> None:
        """Let the driver say that it is complete; earlier attempts have finished the rest."""
        skipped = int(total) - int(finished)
        counts = SourceCounts(total=int(total), finished=int(finished), skipped=skipped)
        done = "complete:" if counts.finished else "nothing left to do:"
        message = f"{done} all {total} sources are finished"
        self._tell(counts, DriverOutcome(exit_code=0, message=message, sources=counts))

    def tell_interruption(self, finished: str, total: str) -> None:
        """Let the driver say that it was asked to stop and has."""
        left = int(total) - int(finished)
        counts = SourceCounts(total=int(total), finished=int(finished), unfinished=left)
        message = "interrupted; the next attempt continues with the remaining sources"
        self._tell(counts, DriverOutcome(exit_code=75, message=message, sources=counts))

    def refuse(self) -> None:
        """Let the driver say of itself what it says of a file that is wrong."""
        seen = read_exit(ExitCode.BAD_SPEC)
        assert seen is not None  # it is the code of a bad end
        self._tell(SourceCounts(), DriverOutcome(exit_code=64, message=seen.message))

    def _tell(self, counts: SourceCounts, outcome: DriverOutcome | None = None) -> None:
        sources = counts.model_dump(by_alias=True, exclude={"redone"})
        Driver.pages = {"/progress": {"event": "progress", "sources": sources}}
        if outcome is not None:
            Driver.pages["/outcome"] = outcome.to_json()
        time.sleep(HEARD)

    def _tick_until_there(self, name: str) -> bool:
        self.tick()
        return self.client.get("RayJob", name, self.namespace) is not None

    def _is_going(self, player: Player) -> bool:
        name = player.casting.rayjob["metadata"]["name"]
        found = self.client.get("RayJob", name, self.namespace)
        return found is None or "deletionTimestamp" in found["metadata"]

    def _bind_claims(self) -> None:
        for claim in self.client.list("PersistentVolumeClaim", self.namespace):
            if claim.get("status", {}).get("phase") == "Bound":
                continue
            name, spec = claim["metadata"]["name"], claim["spec"]
            volume = {"spec": {"volumeName": f"pvc-{claim['metadata']['uid']}"}}
            self.client.patch("PersistentVolumeClaim", name, volume, self.namespace)
            bound = {
                "phase": "Bound",
                "accessModes": spec["accessModes"],
                "capacity": spec["resources"]["requests"],
            }
            self.client.put_status("PersistentVolumeClaim", name, bound, self.namespace)


CUES: Mapping[str, Callable[..., None]] = {
    r"RayJob (\S+) plays (\S+) until (.+)": GuideCluster.play,
    r"RayJob (\S+) goes on": GuideCluster.let_go,
    r"RayJob (\S+) waits in a queue": GuideCluster.hold,
    r"the driver has (\d+) of (\d+)": GuideCluster.tell_progress,
    r"the driver ends with (\d+) of (\d+)": GuideCluster.tell_end,
    r"the driver is stopped at (\d+) of (\d+)": GuideCluster.tell_interruption,
    r"the driver refuses the pipeline": GuideCluster.refuse,
}
