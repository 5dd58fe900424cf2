"""The data that an attempt serves over HTTP, during the attempt and after its end."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from strandline.run.supervise import status_server as serving
from strandline.run.supervise.progress_reader import read_shown
from strandline.run.supervise.status_server import (
    AttemptServer,
    leave_message,
    render_metrics,
)
from strandline_api.outcome.bounded_threads import MOST_CONNECTIONS
from strandline_api.outcome.driver_outcome import DriverOutcome, find_outcome_line
from strandline_api.outcome.reader_token import HEADER, derive_token, digest_token

pytestmark = pytest.mark.first(reason="holds connections open until they time out")

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
SHOWN: dict[str, Any] = {
    "pid": 7,
    "rate": 2.5,
    "incidents": 1,
    "sources": {"listed": 10, "total": None, "finished": 4, "failed": 1, "skipped": 0},
    "stages": [
        {"name": "read", "tasksIn": 5, "tasksOut": 4, "waiting": 3, "running": 1, "deadRows": 2}
    ],
}
LATEST, LOG = "0001/p0002", "logs/20251125T071100.123Z.log"
SILENT: dict[str, float | None] = {"seconds": 12.345}
OUTCOME = DriverOutcome(exit_code=3, message="1 of 10 sources failed")


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """Return the path where the driver writes its progress."""
    return tmp_path / "progress.json"


@pytest.fixture
def server(shown: Path) -> Iterator[AttemptServer]:
    """Start a server on a free port."""
    server = AttemptServer(0)
    server.watch(
        shown, lambda: SHOWN["pid"], lambda: LATEST, lambda: SILENT["seconds"], lambda: LOG
    )
    yield server
    server.close()


def ask(
    server: AttemptServer, path: str, token: str = "", host: str = "127.0.0.1"
) -> tuple[int, str]:
    with closing(HTTPConnection(host, server.port, timeout=10)) as connection:
        connection.request("GET", path, headers={HEADER: token} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_progress_is_what_the_driver_last_said(server: AttemptServer, shown: Path) -> None:
    assert ask(server, "/progress")[0] == 404
    shown.write_text(json.dumps(SHOWN))
    status, body = ask(server, "/progress")
    assert (status, json.loads(body)) == (
        200,
        {**SHOWN, "latest": LATEST, "logFile": LOG, "secondsSilent": 12.3},
    )
    shown.write_text(json.dumps({**SHOWN, "rate": 9}))
    assert json.loads(ask(server, "/progress")[1])["rate"] == 9


def test_progress_includes_the_silence_measured_by_the_parent(
    server: AttemptServer, shown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.write_text(json.dumps(SHOWN))
    assert "strandline_driver_silence_seconds 12.3" in ask(server, "/metrics")[1].splitlines()
    monkeypatch.setitem(SILENT, "seconds", None)
    assert json.loads(ask(server, "/progress")[1])["secondsSilent"] is None
    assert "silence" not in ask(server, "/metrics")[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("path", ["/progress", "/metrics", "/outcome"])
def test_both_address_families_are_served(
    server: AttemptServer, shown: Path, host: str, path: str
) -> None:
    shown.write_text(json.dumps(SHOWN))
    server.end(OUTCOME, lambda _: None)
    assert ask(server, path, host=host)[0] == 200


def test_a_kernel_without_ipv6_serves_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "no such family")

    monkeypatch.setattr(serving._DualStackServer, "server_bind", refuse)
    server = AttemptServer(0)
    assert ask(server, "/progress")[0] == 404
    with pytest.raises(ConnectionRefusedError):
        ask(server, "/progress", host="::1")
    server.close()


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, ""), (socket.AF_INET6, "::")])
def test_a_port_that_is_taken_is_an_error(family: int, host: str) -> None:
    with socket.socket(family) as taken:
        taken.bind((host, 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            AttemptServer(taken.getsockname()[1])


def test_metrics_show_progress_in_the_prometheus_format(server: AttemptServer, shown: Path) -> None:
    shown.write_text(json.dumps(SHOWN))
    status, body = ask(server, "/metrics")
    assert status == 200
    lines = body.splitlines()
    assert 'strandline_driver_sources{state="finished"} 4.0' in lines
    assert not [line for line in lines if 'state="total"' in line]  # the total is still unknown
    assert 'strandline_driver_stage_tasks{stage="read",state="waiting"} 3.0' in lines
    assert 'strandline_driver_stage_failed_rows{stage="read",state="dead"} 2.0' in lines
    assert "strandline_driver_rate 2.5" in lines
    assert "strandline_driver_incidents 1.0" in lines


def test_metrics_of_workers_are_by_stage() -> None:
    stage = {"name": "read", "workers": 4, "ready": 3, "draining": 1, "started": 9, "lost": 2}
    stage |= {"recycled": 1, "lostInARow": 2, "utilisation": 0.5, "rate": 7.5, "failed": 6}
    shown = {"stages": [stage, {"name": "write"}], "bottleneck": "read"}
    lines = render_metrics(shown).decode().splitlines()
    assert {
        'strandline_driver_stage_workers{stage="read",state="all"} 4.0',
        'strandline_driver_stage_workers{stage="read",state="ready"} 3.0',
        'strandline_driver_stage_workers{stage="read",state="draining"} 1.0',
        'strandline_driver_stage_worker_changes{stage="read",state="started"} 9.0',
        'strandline_driver_stage_worker_changes{stage="read",state="lost"} 2.0',
        'strandline_driver_stage_worker_changes{stage="read",state="recycled"} 1.0',
        'strandline_driver_stage_lost_in_a_row{stage="read"} 2.0',
        'strandline_driver_stage_utilisation{stage="read"} 0.5',
        'strandline_driver_stage_rate{stage="read"} 7.5',
        'strandline_driver_stage_tasks{stage="read",state="failed"} 6.0',
        'strandline_driver_bottleneck{stage="read"} 1.0',
        'strandline_driver_bottleneck{stage="write"} 0.0',
    } <= set(lines)


REQUESTS: dict[str, object] = {
    "sent": 20,
    "fromLog": 3,
    "promptTokens": 700,
    "completionTokens": 50,
    "cost": 0.25,
    "seconds": {"p50": 0.5, "p95": 2.0, "p99": None},
}


def test_metrics_of_requests_are_by_stage() -> None:
    shown = {"stages": [{"name": "ask", "requests": REQUESTS}, {"name": "write"}]}
    lines = render_metrics(shown).decode().splitlines()
    assert {
        'strandline_driver_stage_requests{stage="ask",state="sent"} 20.0',
        'strandline_driver_stage_requests{stage="ask",state="log"} 3.0',
        'strandline_driver_stage_tokens{stage="ask",state="prompt"} 700.0',
        'strandline_driver_stage_tokens{stage="ask",state="completion"} 50.0',
        'strandline_driver_stage_cost{stage="ask"} 0.25',
        'strandline_driver_stage_answer_seconds{quantile="0.50",stage="ask"} 0.5',
        'strandline_driver_stage_answer_seconds{quantile="0.95",stage="ask"} 2.0',
        'strandline_driver_stage_answer_seconds{quantile="0.99",stage="ask"} +Inf',
    } <= set(lines)
    assert not [line for line in lines if "requests" in line and "write" in line]


def test_the_total_is_exported_once_known() -> None:
    text = render_metrics({"sources": {**SHOWN["sources"], "total": 10, "quarantined": 2}}).decode()
    told = dict(re.findall(r'^strandline_driver_sources{state="(.*)"} (.*)$', text, re.MULTILINE))
    assert told == {
        "listed": "10.0",
        "total": "10.0",
        "finished": "4.0",
        "failed": "1.0",
        "skipped": "0.0",
    }


def test_metrics_before_the_driver_are_empty() -> None:
    assert b"strandline_driver_rate 0.0" in render_metrics({})


def test_the_page_has_the_numbers_that_are_served() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## Of a driver")[2]
    stages = [*SHOWN["stages"], {"name": "ask", "requests": REQUESTS}]
    told = dict(re.findall(r"^\| `(strandline_\w+)` \|([^|]*)\|", page, re.MULTILINE))
    served = {
        name: ", ".join(f"`{label}`" for label in re.findall(r"(\w+)=", labels))
        for name, labels in re.findall(
            r"^(strandline_\w+)(?:{(.*)})? ",
            render_metrics({**SHOWN, "secondsSilent": 1.0, "stages": stages}).decode(),
            re.MULTILINE,
        )
    }
    assert {name: labels.strip() for name, labels in told.items()} == served


def test_the_outcome_is_held_until_it_is_read(
    server: AttemptServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A client may receive the answer shortly before the server records it as sent.
    noted = threading.Semaphore(0)
    note_sent = server.note_sent

    def note_and_tell(path: str, token: str) -> None:
        note_sent(path, token)
        noted.release()

    monkeypatch.setattr(server, "note_sent", note_and_tell)

    def ask_until_noted() -> tuple[int, str]:
        answer = ask(server, "/outcome")
        assert noted.acquire(timeout=10)
        return answer

    assert ask_until_noted()[0] == 404
    naps: list[float] = []
    asked: list[tuple[int, str]] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            asked.append(ask_until_noted())

    server.end(OUTCOME, sleep)

    assert len(naps) == 3
    assert asked[0][0] == 200
    assert DriverOutcome.model_validate(json.loads(asked[0][1])) == OUTCOME


def test_only_whoever_has_the_attempts_token_lets_the_driver_go() -> None:
    token = derive_token("8a1f")
    server = AttemptServer(0, digest_token(token))
    answers: list[tuple[int, str]] = []
    strangers = ["", "guessed", digest_token(token), derive_token("8a1e"), "t\xf6kn"]

    def sleep(seconds: float) -> None:
        # A client may receive the answer shortly before the server records it as sent.
        time.sleep(0.05)
        if strangers:
            answers.append(ask(server, "/outcome", strangers.pop(0)))
        elif len(answers) == 5:
            answers.append(ask(server, "/outcome", token))
        assert len(answers) < 7

    server.end(OUTCOME, sleep)
    server.close()
    assert len(answers) == 6
    assert {status for status, _ in answers} == {200}  # the outcome needs no token
    assert {DriverOutcome.model_validate(json.loads(body)) for _, body in answers} == {OUTCOME}


@pytest.mark.parametrize("token", ["", "guessed"])
def test_pages_are_read_by_whoever_has_the_attempts_token_alone(shown: Path, token: str) -> None:
    digest = digest_token("secret")
    server = AttemptServer(0, digest, digest)
    server.watch(shown, os.getpid, str)
    shown.write_text(json.dumps({**SHOWN, "pid": os.getpid()}))
    server.end(OUTCOME, lambda _: None)
    for path in ("/progress", "/outcome"):
        status, body = ask(server, path, token)
        assert (status, "Strandline-Token" in body) == (401, True)
        assert ask(server, path, "secret")[0] == 200
    # Prometheus has no token, so metrics need none.
    assert [200, 404] == [ask(server, path, token)[0] for path in ("/metrics", "/")]
    server.close()


def test_waiting_for_a_reader_has_a_limit(server: AttemptServer) -> None:
    naps: list[float] = []
    server.end(OUTCOME, naps.append)
    assert sum(naps) == pytest.approx(20.0)


def test_an_unknown_path_lists_the_known_paths(server: AttemptServer) -> None:
    status, body = ask(server, "/")
    assert status == 404
    assert "/progress, /metrics or /outcome" in body


def test_concurrent_requests_are_answered(server: AttemptServer, shown: Path) -> None:
    shown.write_text(json.dumps(SHOWN))
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(ask(server, "/progress")[0]))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert codes == [200] * 20


def test_only_the_drivers_own_message_is_used(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    assert read_shown(path, 7) is None
    path.write_text("{half")
    assert read_shown(path, 7) is None
    path.write_text(json.dumps(SHOWN))
    assert read_shown(path, 7) == SHOWN
    assert read_shown(path, 8) is None
    assert read_shown(path, None) is None


def test_the_last_message_is_written_only_in_a_container(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    leave_message(OUTCOME, path)
    assert not path.exists()
    path.touch()
    leave_message(OUTCOME, path)
    assert find_outcome_line(path.read_text()) == OUTCOME


def test_closing_frees_the_port() -> None:
    server = AttemptServer(0)
    server.close()
    for _ in range(50):
        try:
            AttemptServer(server.port).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(os.getpid())


def count_answering() -> int:
    return sum("process_request" in thread.name for thread in threading.enumerate())


def test_idle_connections_do_not_block_requests(server: AttemptServer, shown: Path) -> None:
    shown.write_text(json.dumps(SHOWN))
    before = count_answering()  # threads of earlier tests
    idle = [
        socket.create_connection(("127.0.0.1", server.port), timeout=10)
        for _ in range(3 * MOST_CONNECTIONS)
    ]
    try:
        assert ask(server, "/progress")[0] == 200
        # The server closed the oldest connections, long before their timeout.
        assert idle[0].recv(1) == b""
        # A thread ends shortly after its connection.
        end = time.monotonic() + 20
        while count_answering() > before + MOST_CONNECTIONS:
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        for connection in idle:
            connection.close()
