"""Connections to a model server: as few as necessary, within the limit, and reused."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress
from types import SimpleNamespace

import pytest

from strandline_packs.models.asking.answers import Reply, UnansweredRequest
from strandline_packs.models.asking.traffic.wire import Wire, WireLimits, _trust

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class CountingServer:
    """Answers after a moment, and counts connections and concurrent requests."""

    def __init__(self) -> None:
        self.connections = self.open = self.most = 0
        self.handlers: list[asyncio.Task[None] | None] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.handlers.append(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                await reader.readexactly(int(lines[b"Content-Length"]))
                self.open += 1
                self.most = max(self.most, self.open)
                await asyncio.sleep(0.01)
                self.open -= 1
                writer.write(ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def end(self) -> None:
        """Wait until all clients have closed their connections."""
        await asyncio.gather(*filter(None, self.handlers))


async def ask(server: CountingServer, at_once: int, times: int, connections: int) -> list[object]:
    """Return the results of repeated concurrent requests."""
    async with await asyncio.start_server(server.answer, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        wire = Wire(f"http://127.0.0.1:{port}", {}, WireLimits(5, 5, 20, connections))

        async def ask_often() -> list[object]:
            return [await wire.post("v1", b"{}") for _ in range(times)]

        answers = await asyncio.gather(*(ask_often() for _ in range(at_once)))
        await wire.close()
        await server.end()
    return [answer for each in answers for answer in each]


@pytest.mark.parametrize("connections", [1, 3, 20])
def test_law_all_allowed_connections_and_no_more_are_used(connections: int) -> None:
    server = CountingServer()

    answers = asyncio.run(ask(server, 2 * connections, 4, connections))

    assert len(answers) == 8 * connections
    assert all(isinstance(answer, Reply) and answer.status == 200 for answer in answers)
    assert server.connections == server.most == connections


def test_sequential_requests_use_one_connection() -> None:
    server = CountingServer()

    asyncio.run(ask(server, 1, 16, 50))

    assert server.connections == 1


async def talk(answer: bytes | None, limits: WireLimits, url: str = "") -> tuple[object, bytes]:
    """Return the result of a post to a server with at most one answer, and the received request."""
    received, handlers = list[bytes](), list[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.append(asyncio.current_task())
        received.append(await reader.readuntil(b"\r\n\r\n"))
        if answer is None:
            await reader.read()  # until the client hangs up
        else:
            writer.write(answer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        here = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        wire = Wire(url or here, {"authorization": "Bearer secret"}, limits)
        if url:
            os.environ["HTTP_PROXY"] = here
        found = await wire.post("v1", b"{}")
        await wire.close()
        await asyncio.gather(*filter(None, handlers))
    return found, received[0] if received else b""


PATIENT = WireLimits(5, 5, 20, 1)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (WireLimits(5, 0.05, 20, 1), "no data received for 0.05 s"),
        (WireLimits(5, 5, 0.05, 1), "no answer within 0.05 s"),
    ],
)
def test_a_silent_server_times_out(limits: WireLimits, words: str) -> None:
    assert asyncio.run(talk(None, limits))[0] == UnansweredRequest(words, is_late=True)


def test_a_partial_answer_is_an_error_without_the_key() -> None:
    found, received = asyncio.run(talk(ANSWER.replace(b"length: 2", b"length: 9"), PATIENT))
    assert isinstance(found, UnansweredRequest)
    assert not found.is_late
    assert b"Bearer secret" in received
    assert "secret" not in found.what


def test_redirects_are_not_followed() -> None:
    moved = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n"
    found, _ = asyncio.run(talk(moved, PATIENT))
    assert isinstance(found, Reply)
    assert found.status == 307
    assert found.headers["location"] == "http://127.0.0.1:9/"


@pytest.mark.parametrize("exempt", ["", "model.example"])
def test_the_proxy_of_the_environment_is_used_except_for_its_exceptions(
    exempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, exempt if name == "NO_PROXY" else "")
        if not os.environ[name]:
            monkeypatch.delenv(name)
    found, received = asyncio.run(talk(ANSWER, PATIENT, "http://model.example:9"))
    assert isinstance(found, UnansweredRequest if exempt else Reply)
    assert received.startswith(b"" if exempt else b"POST http://model.example:9/v1 ")


def test_a_machine_without_certificates_uses_those_of_certifi(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = SimpleNamespace(cafile=None, capath=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nothing)
    context = _trust()
    assert context.get_ca_certs()
    assert context.verify_mode is ssl.CERT_REQUIRED
