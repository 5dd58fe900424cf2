"""Players that run and disturb a random pipeline: in one process, in several, or on Ray.

This module must not depend on the result of the runs.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple, Protocol

import psutil

from drawing import Disturbance
from jobs import PATIENCE, find_ray_processes, find_victims
from stands import Stand
from strandline.engine.processes import fork_program
from strandline_api.outcome.exit_codes import ExitCode
from two_node_ray import TwoNodeRay
from warm_driver import WarmDriver

KILLED = -signal.SIGKILL
TIMED = frozenset({"moment", "stop", "rival", "lost"})


class Played(NamedTuple):
    """The exit code of a disturbed run, and the disturbance that took place, if any."""

    code: int
    fired: str | None


class Player(Protocol):
    """Runs pipelines.

    Attributes:
        name: name of the engine and its variant.
    """

    name: str

    def run(self, stand: Stand) -> int:
        """Run without a disturbance and return the exit code."""

    def disturb(self, stand: Stand, disturbance: Disturbance) -> Played:
        """Run with a disturbance."""


class InlinePlayer:
    """The engine `inline` in forked processes.

    Args:
        environment: variables of all processes, such as a store's keys.

    Attributes:
        length: seconds of the last undisturbed run.
    """

    name = "inline"

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._drivers: list[WarmDriver] = []
        self.length = 0.3

    def run(self, stand: Stand) -> int:
        begun = time.monotonic()
        code = self._start(stand, {}).wait()
        self.length = time.monotonic() - begun
        return code

    def disturb(self, stand: Stand, disturbance: Disturbance) -> Played:
        kind = disturbance.kind
        driver = self._start(stand, stand.arm(disturbance))
        if kind in TIMED:
            time.sleep(disturbance.moment * self.length)
        if kind == "rival":
            rival = self._start(stand, {}, 1).wait()
            code = driver.wait()
            # Either driver may be refused. The other driver runs as if it were alone.
            is_refused = ExitCode.LEDGER_IN_USE in {rival, code}
            return Played(rival if code == ExitCode.LEDGER_IN_USE else code, "rival" * is_refused)
        if kind == "moment":
            driver.send(signal.SIGKILL)
        elif kind == "stop":
            driver.send(signal.SIGTERM)
        code = driver.wait()
        return Played(code, kind if _has_fired(stand, disturbance, code) else None)

    def close(self) -> None:
        """End all processes."""
        for driver in self._drivers:
            driver.close()

    def _start(self, stand: Stand, extra: Mapping[str, str], number: int = 0) -> WarmDriver:
        while len(self._drivers) <= number:
            self._drivers.append(WarmDriver(self._environment, ["fuzz_stages"]))
        words = ["drive", str(stand.manifest), "--volume", str(stand.volume)]
        words += ["--engine", "inline", "--json"]
        # Players with Ray cannot set TMPDIR to this folder, because paths of Ray's sockets must be
        # short.
        own = {**stand.variables, **extra, "TMPDIR": str(stand.temporary)}
        self._drivers[number].start(words, own, stand.volume / "run.log")
        return self._drivers[number]


class WorkersPlayer:
    """An engine of several processes: forked workers, a new Ray per run, or a shared two-node Ray.

    Args:
        environment: variables of all processes.
        nodes: the shared Ray, or None.
        engine: `processes` or `ray`.
    """

    def __init__(
        self, environment: Mapping[str, str], nodes: TwoNodeRay | None = None, engine: str = "ray"
    ) -> None:
        self._environment = environment
        self._nodes = nodes
        self._engine = engine
        self.name = "nodes" if nodes else engine

    def run(self, stand: Stand) -> int:
        with self._started(stand, {}) as process:
            return process.wait(PATIENCE)

    def disturb(self, stand: Stand, disturbance: Disturbance) -> Played:
        fired = None
        with self._started(stand, stand.arm(disturbance)) as process:
            if disturbance.kind in TIMED:
                _await_moment(process, stand, disturbance)
                fired = self._strike(process, disturbance)
            code = process.wait(PATIENCE)
        if fired is None and _has_fired(stand, disturbance, code):
            fired = disturbance.kind
        return Played(code, fired)

    def _started(
        self, stand: Stand, extra: Mapping[str, str]
    ) -> AbstractContextManager[subprocess.Popen[bytes]]:
        path = {"PYTHONPATH": self._environment["PYTHONPATH"]}
        environment = {**path, **stand.variables, **extra}
        options = ["--address", self._nodes.address] if self._nodes else ["--workers", "2"]
        return stand.job.started(stand.volume, environment, engine=self._engine, options=options)

    def _strike(self, process: subprocess.Popen[bytes], disturbance: Disturbance) -> str | None:
        """Disturb the run. Return the name of the disturbance, or None if it failed."""
        if disturbance.kind == "stop":
            process.terminate()
            return None
        if disturbance.kind == "lost" and self._nodes:
            self._nodes.lose_one()
            return "node"
        victims = self._find_victims(process, disturbance.target)
        with suppress(psutil.Error, IndexError):
            victims[int(disturbance.moment * len(victims))].kill()
            return disturbance.target
        return None

    def _find_victims(self, process: subprocess.Popen[bytes], target: str) -> list[psutil.Process]:
        if self._nodes and target in {"worker", "ledger"}:
            return find_ray_processes(psutil.Process(self._nodes.pid), target)
        if self._engine == "processes" and target != "driver":
            return _find_forked(process.pid, target)
        return find_victims(process.pid, "driver" if self._nodes else target)


def _find_forked(parent: int, target: str) -> list[psutil.Process]:
    """Return the fork server, or its workers."""
    with suppress(psutil.Error):
        forkers = [
            child
            for driver in find_victims(parent, "driver")
            for child in driver.children()
            if child.name() == fork_program.NAME
            or any("fork_server" in word for word in child.cmdline())
        ]
        if target == "forker":
            return forkers
        return [worker for forker in forkers for worker in forker.children()]
    return []


def _has_fired(stand: Stand, disturbance: Disturbance, code: int) -> bool:
    """Return whether the disturbance took place."""
    match disturbance.kind:
        case "moment":
            return code == KILLED
        case "stop":
            return code == ExitCode.INTERRUPTED
        case "gap":
            return True
        case "trouble" if disturbance.trouble != "die":
            return code == ExitCode.SOURCES_FAILED
    return stand.has_fired(disturbance)


def _await_moment(process: subprocess.Popen[bytes], stand: Stand, disturbance: Disturbance) -> None:
    """Wait until the run has made this much progress or has ended."""
    wanted = len(stand.read_opened()) + int(disturbance.moment * 20)
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if len(stand.read_opened()) >= wanted:
            time.sleep(disturbance.moment)
            return
        time.sleep(0.02)
