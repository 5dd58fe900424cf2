"""A model server owned by this process: started, supervised, and replaced after a crash or a hang.

The server always ends with this process. A guard process between both kills the server when the
guard's standard input is closed. If the guard itself is killed, as Ray does with children of a
worker, the kernel kills the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import IO, NamedTuple, Protocol

from strandline.plan.errors import StageStoppedError
from strandline_api.outcome.causes import Cause
from strandline_packs.models.asking.answers import Reply, UnansweredRequest
from strandline_packs.models.asking.traffic.health import Clock

_GUARD = """
import ctypes, os, signal, subprocess, sys, threading
libc, end_with_parent = ctypes.CDLL(None), 1  # PR_SET_PDEATHSIG
server = subprocess.Popen(
    sys.argv[1:],
    stdin=subprocess.DEVNULL,
    start_new_session=True,
    preexec_fn=lambda: libc.prctl(end_with_parent, signal.SIGKILL),
)
def end():
    while os.read(0, 1):
        pass
    try:
        os.killpg(server.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
threading.Thread(target=end, daemon=True).start()
code = server.wait()
os._exit(code if code >= 0 else 128 - code)
"""
_LOOK_SECONDS = 0.2  # pause between readiness checks of a starting server
_WATCH_SECONDS = 1.0  # pause between checks that the server still runs
_GUARD_SECONDS, _END_SECONDS = 1.0, 10.0  # time limits for the end of guard and server
_MOST_DEATHS = 3  # consecutive crashes without a ready server in between
_SHOWN = 600  # characters from the end of the log


class EngineWire(Protocol):
    """A connection to a server."""

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        """Send a POST request, and return the response or the reason for its absence."""

    async def get(self, path: str, limit: float) -> Reply | UnansweredRequest:
        """Send a GET request, and wait up to `limit` seconds for the response."""

    async def close(self) -> None:
        """Close the connections."""


class EngineTerms(NamedTuple):
    """Time limits of a server.

    Attributes:
        name: names of stage and server, for messages.
        ready_within: seconds from the start until the server must answer.
        answers_within: seconds in which a busy server must answer a health check.
    """

    name: str
    ready_within: float
    answers_within: float = 30.0


Running = tuple[subprocess.Popen[bytes], EngineWire]


class OwnServer:
    """Sends requests to its own server, which the first request starts.

    Args:
        render: returns the command line of a server that listens on a port.
        connect: opens a connection to a URL.
        report: receives lines for users.
    """

    def __init__(
        self,
        render: Callable[[int], Sequence[str]],
        connect: Callable[[str], EngineWire],
        terms: EngineTerms,
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._render, self._connect, self._terms = render, connect, terms
        self._clock, self._report = clock, report
        self._starting = asyncio.Lock()
        self._running: Running | None = None
        self._log: IO[bytes] | None = None
        self._port: socket.socket | None = None
        self._deaths = 0

    async def start(self) -> None:
        """Start the server, and wait until the server is ready.

        Raises:
            StageStoppedError: the server crashes repeatedly.
        """
        async with self._starting:
            while await self._find_running() is None:
                pass  # `_find_running` counts failed starts and raises an error

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        """Send a POST request. Restart the server first if it has crashed.

        Raises:
            StageStoppedError: the server crashes repeatedly.
        """
        async with self._starting:
            running = await self._find_running()
        if running is None:
            return UnansweredRequest("its server can't start", was_sent=False)
        reply = await _post_while_alive(running, path, body)
        if isinstance(reply, UnansweredRequest):
            await self._examine(running)
        return reply

    async def close(self) -> None:
        """Stop the server."""
        if self._running is not None:
            await self._end(self._running)
        self._release_port()
        if self._log is not None:
            self._log.close()

    async def _find_running(self) -> Running | None:
        if self._running is not None and self._running[0].poll() is None:
            return self._running
        if self._running is not None:
            await self._note_death(f"ended with code {self._running[0].returncode}")
        self._running = self._start()
        begun = self._clock.now()
        while self._running[0].poll() is None:
            reply = await self._running[1].get("models", self._terms.answers_within)
            if isinstance(reply, Reply) and reply.status == HTTPStatus.OK:
                self._deaths = 0  # `Asker` handles crashes by requests
                seconds = self._clock.now() - begun
                self._report(f"{self._terms.name}: its server is ready, after {seconds:.0f} s")
                return self._running
            if self._clock.now() - begun > self._terms.ready_within:
                await self._note_death(f"was not ready in {self._terms.ready_within:g} s")
                return None
            await self._clock.sleep(_LOOK_SECONDS)
        await self._note_death(f"ended with code {self._running[0].returncode}")
        return None

    def _start(self) -> Running:
        port = self._reserve_port()
        # Use a file: a pipe that is not read would fill up and block the server.
        if self._log is None:
            self._log = tempfile.TemporaryFile(prefix="strandline-engine-")  # noqa: SIM115 - open for the server's lifetime
        process = subprocess.Popen(  # noqa: S603 - the words are the pipeline's own
            [sys.executable, "-c", _GUARD, *self._render(port)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
        )
        return process, self._connect(f"http://127.0.0.1:{port}/v1")

    def _reserve_port(self) -> int:
        """Return a free port, reserved against outgoing connections of other processes.

        A server with large weights binds the port late. This socket is bound with address sharing
        and does not listen, so a server that shares addresses, as nearly all do, can bind the same
        port. Any other server fails once, and the next try releases the port first.
        """
        self._release_port()
        self._port = socket.socket()
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            self._port.setsockopt(socket.SOL_SOCKET, option, 1)
        self._port.bind(("127.0.0.1", 0))
        port: int = self._port.getsockname()[1]
        if self._deaths:
            self._release_port()
        return port

    def _release_port(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None

    async def _examine(self, running: Running) -> None:
        """Replace a hanging server. A crashed server is restarted with the next request."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # the guard may be about to end
            await asyncio.to_thread(running[0].wait, _GUARD_SECONDS)
        if running is not self._running or running[0].poll() is not None:
            return
        found = await running[1].get("models", self._terms.answers_within)
        async with self._starting:
            if isinstance(found, UnansweredRequest) and running is self._running:
                await self._note_death(f"hangs ({found.what})")

    async def _note_death(self, what: str) -> None:
        """Stop the remaining processes of a server, and count its death.

        Raises:
            StageStoppedError: the server died too many times in a row.
        """
        running, self._running = self._running, None
        if running is not None:
            await self._end(running)
        self._deaths += 1
        if self._deaths >= _MOST_DEATHS:
            msg = f"{self._terms.name}: its server {what}, {self._deaths} times in a row"
            raise StageStoppedError(
                f"{msg}; its log ends: {self._read_log()}",
                is_lasting=True,
                cause=Cause.MODEL_UNAVAILABLE,
            )
        self._report(f"{self._terms.name}: its server {what}; restarting it")

    async def _end(self, running: Running) -> None:
        process, wire = running
        with contextlib.suppress(OSError):
            assert process.stdin is not None  # see `_start`
            process.stdin.close()  # the guard reads the end of its input and kills the server
        await wire.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, _END_SECONDS)

    def _read_log(self) -> str:
        if self._log is None:
            return ""
        end = self._log.seek(0, 2)
        # A character has up to 4 bytes in UTF-8.
        self._log.seek(max(0, end - 4 * _SHOWN))
        text = self._log.read().decode("utf-8", "replace")
        return " ".join(text.split())[-_SHOWN:]


async def _post_while_alive(running: Running, path: str, body: bytes) -> Reply | UnansweredRequest:
    """Post, and stop waiting if the server ends.

    The connection can outlive the server: a child process may have inherited the connection, or
    another program may have bound the port. Without this check the request waits until its timeout.
    """
    process, wire = running
    posting = asyncio.ensure_future(wire.post(path, body))
    try:
        while not posting.done():
            await asyncio.wait({posting}, timeout=_WATCH_SECONDS)
            if not posting.done() and process.poll() is not None:
                return UnansweredRequest("its server has ended")
        return posting.result()
    finally:
        posting.cancel()
