"""Simulates the cluster of the guide: KubeRay, drivers, a storage class, and a queue.

    RayJob corpus-1 plays s-k-success until RayJob RUNNING
    RayJob corpus-1 goes on
    RayJob corpus-1 waits in a queue
    the driver has 120 of 1000
    the driver ends with 880 of 1000
    the driver is stopped at 300 of 1000
    the driver refuses the pipeline

Only these cues and `tick` change the cluster; `tick` advances the released RayJobs. One driver runs
at a time.
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
HEARD = 2.5  # seconds to wait for a poll; the test sets the polling interval to 2 s
LOOPBACK = "127.0.0.1"


class Driver(BaseHTTPRequestHandler):
    """The pages of the driver. The pods of all heads have this address.

    Attributes:
        pages: pages by path; bytes are sent unchanged.
        asked: number of requests, across all pages.
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
        """Suppress the request log."""


@contextmanager
def serve_driver() -> Iterator[int]:
    """Serve the driver's pages on a loopback port."""
    with ThreadingHTTPServer((LOOPBACK, 0), Driver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


class GuideStage(ServerStage):
    """A stage that puts the driver's address into each head pod."""

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> None:
        if kind == "Pod" and "podIP" in status:
            status = {**status, "podIP": LOOPBACK, "podIPs": [{"ip": LOOPBACK}]}
        await super().put_status(kind, namespace, name, status)


@dataclass
class GuideCluster:
    """The players of the cluster by RayJob name. Players in `free` advance with each tick."""

    client: KubeClient
    namespace: str
    players: dict[str, Player] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)

    def heed(self, cue: str) -> None:
        """Execute a cue."""
        for pattern, act in CUES.items():
            found = re.fullmatch(pattern, cue)
            if found is not None:
                act(self, *found.groups())
                return
        raise LookupError(f"nobody knows what to do at the cue {cue!r}")

    def tick(self) -> None:
        """Advance the players in `free`, and the players whose RayJob is being deleted."""
        self._bind_claims()
        for name, player in list(self.players.items()):
            is_going = self._is_going(player)
            if name in self.free or is_going:
                self.free.add(name)
                if asyncio.run(player.step()) is None and is_going:
                    del self.players[name]

    def play(self, name: str, recording: str, mark: str) -> None:
        """Play a RayJob from its beginning up to a mark."""
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
        """Play a RayJob to its end."""
        self.free.add(name)

    def hold(self, name: str) -> None:
        """Hold a RayJob back as Kueue does."""
        wait_until(lambda: self._tick_until_there(name))
        self.client.patch("RayJob", name, {"spec": {"suspend": True}}, self.namespace)
        status = {"jobDeploymentStatus": "Suspended", "jobStatus": ""}
        self.client.put_status("RayJob", name, status, self.namespace)

    def tell_progress(self, finished: str, total: str) -> None:
        """Set the driver's progress."""
        self._tell(SourceCounts(total=int(total), finished=int(finished)))

    def tell_end(self, finished: str, total: str) -> None:
        """Complete the driver. Earlier attempts finished the remaining sources."""
        skipped = int(total) - int(finished)
        counts = SourceCounts(total=int(total), finished=int(finished), skipped=skipped)
        done = "complete:" if counts.finished else "nothing left to do:"
        message = f"{done} all {total} sources are finished"
        self._tell(counts, DriverOutcome(exit_code=0, message=message, sources=counts))

    def tell_interruption(self, finished: str, total: str) -> None:
        """Stop the driver on request."""
        left = int(total) - int(finished)
        counts = SourceCounts(total=int(total), finished=int(finished), unfinished=left)
        message = "interrupted; the next attempt continues with the remaining sources"
        self._tell(counts, DriverOutcome(exit_code=75, message=message, sources=counts))

    def refuse(self) -> None:
        """End the driver with its real message about an invalid file."""
        seen = read_exit(ExitCode.BAD_SPEC)
        assert seen is not None  # the code is a failure, so a message exists
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
