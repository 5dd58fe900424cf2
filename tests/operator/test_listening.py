"""Pages are served on real sockets at IPv4 and IPv6 addresses."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

import pytest
from kubernetes.aio.client.configuration import Configuration

from strandline_api.outcome.bounded_threads import MOST_CONNECTIONS
from strandline_operator.cluster.client import KubernetesApi
from strandline_operator.cluster.driver import Answer, DriverAddress
from strandline_operator.cluster.driver import ask as ask_driver
from strandline_operator.metrics import listening
from strandline_operator.metrics.health import make_health_page
from strandline_operator.metrics.listening import Listener
from strandline_operator.metrics.numbers import Numbers

HOSTS = ("127.0.0.1", "::1")


def ask(host: str, port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection(host, port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def listen() -> Iterator[Callable[[Any], int]]:
    opened: list[Listener] = []

    def open_(page: Any) -> int:
        opened.append(Listener(0, page))
        return opened[-1].port

    yield open_
    for listener in opened:
        listener.close()


@pytest.mark.parametrize("host", HOSTS)
def test_metrics_are_served_at_both_families(host: str, listen: Callable[[Any], int]) -> None:
    status, text = ask(host, listen(Numbers().page), "/metrics")
    assert status == 200
    assert "strandline_queue_depth" in text


@pytest.mark.parametrize("host", HOSTS)
def test_health_is_served_at_both_families(
    host: str, listen: Callable[[Any], int], loop: asyncio.AbstractEventLoop
) -> None:
    port = listen(make_health_page(lambda: {"queue_lag_seconds": 0.5}, loop))
    status, text = ask(host, port, "/healthz")
    assert (status, json.loads(text)) == (200, {"queue_lag_seconds": 0.5})
    assert ask(host, port, "/other")[0] == 404


def test_a_page_is_served_until_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    listener = Listener(0, Numbers().page)
    assert ask("127.0.0.1", listener.port, "/metrics")[0] == 200
    listener.close()
    with pytest.raises(ConnectionError):
        ask("127.0.0.1", listener.port, "/metrics")
    assert caplog.messages == []


@pytest.mark.parametrize("ip", HOSTS)
def test_a_driver_is_polled_at_the_address_of_its_pod(
    ip: str, listen: Callable[[Any], int]
) -> None:
    def tell(asked: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        is_known = asked["PATH_INFO"] == "/progress"
        start("200 OK" if is_known else "404 Not Found", [("Content-Type", "application/json")])
        return [b'{"sources": {"total": 9, "finished": 4}}']

    async def talk() -> Answer:
        api = KubernetesApi(Configuration(host="http://127.0.0.1:1"), agent="tests/1")
        try:
            return await ask_driver(api, DriverAddress(ip, listen(tell), "token"))
        finally:
            await api.close()

    answer = asyncio.run(talk())
    assert answer.is_reached
    assert answer.reported is not None
    assert (answer.reported.progress.finished, answer.reported.progress.total) == (4, 9)


def test_stuck_parts_are_named(
    listen: Callable[[Any], int], loop: asyncio.AbstractEventLoop
) -> None:
    def complain() -> dict[str, float]:
        raise RuntimeError("the queue has ended")

    status, text = ask("127.0.0.1", listen(make_health_page(complain, loop)), "/healthz")
    assert (status, json.loads(text)) == (500, {"error": "the queue has ended"})


def test_a_blocked_event_loop_is_unhealthy(
    listen: Callable[[Any], int],
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("strandline_operator.metrics.health.ANSWER_SECONDS", 0.2)
    go_on = threading.Event()
    loop.call_soon_threadsafe(go_on.wait)
    status, text = ask("127.0.0.1", listen(make_health_page(dict, loop)), "/healthz")
    go_on.set()
    assert (status, "no answer" in text) == (500, True)


def test_without_one_address_family_the_other_is_served(
    listen: Callable[[Any], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "no such family")

    monkeypatch.setattr(listening._DualStackListener, "server_bind", refuse)
    port = listen(Numbers().page)
    assert ask("127.0.0.1", port, "/metrics")[0] == 200
    with pytest.raises(OSError, match="refused"):
        ask("::1", port, "/metrics")


def count_answering() -> int:
    return sum("process_request" in thread.name for thread in threading.enumerate())


def test_idle_connections_use_few_threads_and_delay_no_request(
    listen: Callable[[Any], int],
) -> None:
    port, before = listen(Numbers().page), count_answering()  # threads of earlier tests
    with ExitStack() as opened:
        idle = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            for _ in range(3 * MOST_CONNECTIONS)
        ]
        assert ask("127.0.0.1", port, "/metrics")[0] == 200
        assert idle[0].recv(1) == b""  # the server closed the oldest connections
        end = time.monotonic() + 20
        while count_answering() > before + MOST_CONNECTIONS:  # threads outlive connections
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, ""), (socket.AF_INET6, "::")])
def test_a_used_port_is_an_error(family: int, host: str) -> None:
    with socket.socket(family) as taken:
        taken.bind((host, 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            Listener(taken.getsockname()[1], Numbers().page)
