"""Serves an attempt over HTTP: `/progress` and `/metrics` during the attempt, then `/outcome`.

The server runs in the small parent process, so it is available before the driver starts and after
it ends. Responses contain what the driver has already reported; nothing is computed on request. The
only write request is `/notice`, a notice that a node is about to leave, which needs its own token.
"""

from __future__ import annotations

import errno
import json
import math
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from strandline.run.supervise.notices import (
    MOST_BYTES,
    NoticeBoard,
    NoticeError,
    read_pending,
)
from strandline.run.supervise.progress_reader import Document, read_shown
from strandline_api.outcome.bounded_threads import BoundedThreads
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line
from strandline_api.outcome.reader_token import HEADER, RELEASE_HEADER, is_reader
from strandline_api.outcome.work_lost import WorkLost

# How long the server stays up after the end of an attempt.
HELD_SECONDS = 20.0
LAST_MESSAGE = Path("/dev/termination-log")
_POLL_SECONDS = 0.1
# Maximum seconds that a request waits until the driver has read a notice. After that, the sender
# retries.
NOTICE_SECONDS = 3.0
_SOURCES = ("listed", "total", "finished", "failed", "skipped")
# Counts of a stage, with their label values. The values in `_PACES` are separate metrics.
_TASKS = {
    "tasksIn": "in",
    "tasksOut": "out",
    "waiting": "waiting",
    "running": "running",
    "failed": "failed",
}
_ROWS = {"deadRows": "dead", "droppedRows": "dropped"}
_REQUESTS = {"sent": "sent", "fromLog": "log"}
_TOKENS = {"promptTokens": "prompt", "completionTokens": "completion"}
_WORKERS = {"workers": "all", "ready": "ready", "draining": "draining"}
_CHANGES = {"started": "started", "lost": "lost", "recycled": "recycled"}
_PACES = {
    "rate": ("rate", "Tasks of a stage per second, over half a minute."),
    "utilisation": ("utilisation", "Share of ready workers' time spent on tasks."),
    "oldestCall": ("oldest_call_seconds", "Age of a stage's oldest call in progress, in seconds."),
    "lostInARow": (
        "lost_in_a_row",
        "Workers of a stage lost in a row, without a success in between.",
    ),
}
_CLOSED = frozenset({"/progress", "/outcome"})
_JSON, _TEXT = "application/json", "text/plain; version=0.0.4; charset=utf-8"


class _BoundedServer(BoundedThreads, HTTPServer):
    """Handles each request in a separate thread."""


class _DualStackServer(_BoundedServer):
    """Serves IPv4 and IPv6 through one socket."""

    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        """Bind the port for both families, regardless of the machine's default."""
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class AttemptServer:
    """HTTP server that serves an attempt until `close`.

    Args:
        port: port on all addresses of this machine; 0 chooses a free port.
        waited_for: digest of the token of the reader to wait for at the end; empty for any reader.
        reader: digest of the token for reading progress and outcome. Metrics need no token, because
            Prometheus does not have the token.
        notifier: digest of the token for sending notices; empty to accept no notices.

    Raises:
        OSError: if the port is taken.
    """

    def __init__(
        self, port: int, waited_for: str = "", reader: str = "", notifier: str = ""
    ) -> None:
        self._waited_for = waited_for
        self._reader = reader
        self._notifier = notifier
        self._board: NoticeBoard | None = None
        self._read_progress: Callable[[], Document | None] = lambda: None
        self._outcome: Document | None = None
        self._is_read = threading.Event()
        self._is_closed = threading.Event()
        self._server = _open(port, _make_handler(self))
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def watch(
        self,
        path: Path,
        read_pid: Callable[[], int | None],
        name_latest: Callable[[], str],
        measure_silence: Callable[[], float | None] = lambda: None,
        name_log: Callable[[], str] = lambda: "",
        board: NoticeBoard | None = None,
    ) -> None:
        """Serve the progress that a driver writes to a file, from now on.

        Args:
            name_latest: returns the publication that `latest` points to.
            name_log: returns the log of the driver's output, or an empty string if there is no log.
            board: receives notices for the driver, or None to ignore notices.
            measure_silence: returns the seconds since the driver made progress, as measured by its
                parent.
        """

        def read() -> Document | None:
            shown = read_shown(path, read_pid())
            if shown is None:
                return None
            silence = measure_silence()
            seconds = None if silence is None else round(silence, 1)
            names = {"latest": name_latest(), "logFile": name_log()}
            return {**shown, **names, "secondsSilent": seconds}

        self._read_progress = read
        self._board = board

    def end(self, outcome: DriverOutcome, sleep: Callable[[float], None]) -> None:
        """Write the outcome to the container's termination message. Serve it until it is read."""
        leave_message(outcome)
        self._outcome = outcome.to_json()
        for _ in range(round(HELD_SECONDS / _POLL_SECONDS)):
            if self._is_read.is_set():
                return
            sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Stop serving."""
        self._is_closed.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, token: str = "") -> tuple[HTTPStatus, str, bytes]:
        """Return status, content type, and body for a path and a token, which may be empty."""
        if path in _CLOSED and not is_reader(token, self._reader):
            error = f"the header {HEADER} must have the attempt's token"
            return _render(HTTPStatus.UNAUTHORIZED, {"error": error})
        if path == "/metrics":
            return HTTPStatus.OK, _TEXT, render_metrics(self._read_progress() or {})
        if path == "/outcome":
            known, missing = self._outcome, "the attempt has not ended"
        elif path == "/progress":
            known, missing = self._read_progress(), "the driver has not started"
        else:
            known, missing = None, "request /progress, /metrics or /outcome"
        if known is None:
            return _render(HTTPStatus.NOT_FOUND, {"error": missing})
        return _render(HTTPStatus.OK, known)

    def take_notice(self, path: str, token: str, body: bytes) -> tuple[HTTPStatus, str, bytes]:
        """Accept a notice that a node is about to leave. Return status, content type, and body.

        The response has the number of this run's items that are still on the node. The sender may
        repeat the request to get the current number.
        """
        if path != "/notice" or not self._notifier:
            return _render(HTTPStatus.NOT_FOUND, {"error": "this driver accepts no notices"})
        if not is_reader(token, self._notifier):
            error = f"the header {HEADER} must have the attempt's token for notices"
            return _render(HTTPStatus.UNAUTHORIZED, {"error": error})
        if self._board is None or self._outcome is not None:  # no driver is running
            return _render(HTTPStatus.OK, {"pending": 0})
        try:
            node = self._board.add(body)
        except NoticeError as error:
            return _render(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        return _render(HTTPStatus.OK, {"pending": self._find_pending(node)})

    def _find_pending(self, node: str) -> int:
        for _ in range(round(NOTICE_SECONDS / _POLL_SECONDS)):
            shown = self._read_progress()
            # Before the driver's first report and after its end, a node has no tasks.
            if shown is None or self._outcome is not None:
                return 0
            pending = read_pending(shown, node)
            if pending is not None:
                return pending
            if self._is_closed.wait(_POLL_SECONDS):
                return 0
        return 1  # the driver has not answered, so the node may have a task

    def note_sent(self, path: str, tokens: Iterable[str]) -> None:
        """Record that a response to a request with these tokens was sent.

        An operator of the previous release uses the same token for everything.
        """
        if path != "/outcome" or self._outcome is None:
            return
        if any(is_reader(token, self._waited_for) for token in tokens):
            self._is_read.set()


def _open(port: int, handler: type[BaseHTTPRequestHandler]) -> _BoundedServer:
    # Try IPv6 first, on a socket that also serves IPv4: a cluster may have either or both.
    try:
        return _DualStackServer(("::", port), handler)
    except OSError as error:
        # Any other error means that the kernel has no IPv6.
        if error.errno in {errno.EADDRINUSE, errno.EACCES}:
            raise
    return _BoundedServer(("0.0.0.0", port), handler)  # noqa: S104 - a pod is asked from outside


def leave_message(outcome: DriverOutcome, path: Path = LAST_MESSAGE) -> None:
    """Write the outcome to the container's termination message. Do nothing outside a container."""
    if path.exists():
        with suppress(OSError):
            path.write_text(format_outcome_line(outcome), encoding="utf-8")


def render_metrics(progress: Document) -> bytes:
    """Render progress for Prometheus. Only stage names come from users; other labels are fixed."""
    registry = CollectorRegistry()
    sources = Gauge("strandline_driver_sources", "Sources by state.", ["state"], registry=registry)
    tasks = Gauge(
        "strandline_driver_stage_tasks",
        "Tasks of a stage by state.",
        ["stage", "state"],
        registry=registry,
    )
    for name, text in (("rate", "Sources finished per second."), ("incidents", "Workers lost.")):
        gauge = Gauge(f"strandline_driver_{name}", text, registry=registry)
        gauge.set(_number(progress.get(name)))
    _add_work(progress, registry)
    if progress.get("secondsSilent") is not None:  # silence is undefined before the first work
        text = "Seconds since the driver last made progress; `deadlines.stall` limits them."
        gauge = Gauge("strandline_driver_silence_seconds", text, registry=registry)
        gauge.set(_number(progress["secondsSilent"]))
    known = dict(progress.get("sources") or {})
    for state in _SOURCES:
        if known.get(state) is not None:  # the total is unknown during the listing
            sources.labels(state).set(_number(known[state]))
    for stage, state, number in _list_stages(progress, _TASKS):
        tasks.labels(stage, state).set(number)
    _add_workers(progress, registry)
    _add_requests(progress, registry)
    return generate_latest(registry)


def _add_work(progress: Document, registry: CollectorRegistry) -> None:
    text = "Seconds of work done by workers, including work that is repeated."
    gauge = Gauge("strandline_driver_work_seconds", text, registry=registry)
    gauge.set(_number(progress.get("workSeconds")))
    text, known = "Seconds of work that is repeated, by cause.", progress.get("workLost")
    gauge = Gauge("strandline_driver_work_lost_seconds", text, ["cause"], registry=registry)
    for cause in WorkLost.model_fields:
        gauge.labels(cause).set(_number(known.get(cause) if isinstance(known, Mapping) else None))


def _add_workers(progress: Document, registry: CollectorRegistry) -> None:
    text = "1 for the stage that sets the pace, 0 for the others."
    bottleneck = Gauge("strandline_driver_bottleneck", text, ["stage"], registry=registry)
    for stage in progress.get("stages") or []:
        is_slowest = stage.get("name") == progress.get("bottleneck")
        bottleneck.labels(str(stage.get("name"))).set(float(is_slowest))
    by = ["stage", "state"]
    for name, text, states in (
        ("failed_rows", "Rows of a stage that failed alone.", _ROWS),
        ("workers", "Workers of a stage by state.", _WORKERS),
        ("worker_changes", "Workers of a stage, by event.", _CHANGES),
    ):
        gauge = Gauge(f"strandline_driver_stage_{name}", text, by, registry=registry)
        for stage, state, number in _list_stages(progress, states):
            gauge.labels(stage, state).set(number)
    for key, (name, text) in _PACES.items():
        gauge = Gauge(f"strandline_driver_stage_{name}", text, ["stage"], registry=registry)
        for stage, _, number in _list_stages(progress, {key: ""}):
            gauge.labels(stage).set(number)


def _add_requests(progress: Document, registry: CollectorRegistry) -> None:
    by = ["stage", "state"]
    figures = [
        (str(stage.get("name")), stage["requests"])
        for stage in progress.get("stages") or []
        if isinstance(stage.get("requests"), Mapping)
    ]
    for name, text, states in (
        ("requests", "Answers of a model, by origin.", _REQUESTS),
        ("tokens", "Tokens of requests to a model.", _TOKENS),
    ):
        gauge = Gauge(f"strandline_driver_stage_{name}", text, by, registry=registry)
        for stage, known in figures:
            for key, state in states.items():
                gauge.labels(stage, state).set(_number(known.get(key)))
    text = "Cost of requests to a model, if prices are set."
    cost = Gauge("strandline_driver_stage_cost", text, ["stage"], registry=registry)
    text = "Seconds within which this share of a model's answers arrived."
    by = ["stage", "quantile"]
    times = Gauge("strandline_driver_stage_answer_seconds", text, by, registry=registry)
    for stage, known in figures:
        if known.get("cost") is not None:
            cost.labels(stage).set(_number(known["cost"]))
        seconds = known.get("seconds")
        for name, value in (seconds if isinstance(seconds, Mapping) else {}).items():
            bound = math.inf if value is None else _number(value)
            # `p95` becomes `0.95`.
            times.labels(stage, f"0.{name.removeprefix('p')}").set(bound)


def _list_stages(progress: Document, states: Mapping[str, str]) -> Iterator[tuple[str, str, float]]:
    for stage in progress.get("stages") or []:
        for name, state in states.items():
            yield str(stage.get("name")), state, _number(stage.get(name))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _render(status: HTTPStatus, content: Document) -> tuple[HTTPStatus, str, bytes]:
    return status, _JSON, json.dumps(content).encode()


def _make_handler(server: AttemptServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Handles a single request."""

        timeout = 5.0  # seconds without data from a client

        def do_GET(self) -> None:
            """Answer a read request."""
            path, token = self.path.partition("?")[0], self.headers.get(HEADER, "")
            status, kind, body = server.answer(path, token)
            self._send(status, kind, body)
            # Record this only now: a response that could not be sent does not count as read.
            if status is not HTTPStatus.UNAUTHORIZED:
                server.note_sent(path, (token, self.headers.get(RELEASE_HEADER, "")))

        def do_POST(self) -> None:
            """Accept a notice."""
            path, token = self.path.partition("?")[0], self.headers.get(HEADER, "")
            length = self.headers.get("Content-Length", "")
            if length.isdecimal() and int(length) <= MOST_BYTES:
                answer = server.take_notice(path, token, self.rfile.read(int(length)))
            else:
                error = f"the body must have a length of at most {MOST_BYTES} bytes"
                answer = _render(HTTPStatus.BAD_REQUEST, {"error": error})
                self.close_connection = True  # the body was not read completely
            self._send(*answer)

        def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing, because log lines would mix with the driver's own output."""

    return Handler
