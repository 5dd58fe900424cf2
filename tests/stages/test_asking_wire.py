"""Connections to a server of models: as few as are needed, never more than may be, and kept."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from strandline.stages.models.asking.answers import Reply
from strandline.stages.models.asking.wire import POOL_CONNECTIONS, Wire, WireLimits

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class CountingServer:
    """Answers after a moment; counts connections, and requests that are open at once."""

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
        """Wait until each client has closed its connections."""
        await asyncio.gather(*filter(None, self.handlers))


async def ask(server: CountingServer, at_once: int, times: int, connections: int) -> list[object]:
    """Return what each request got, so many asked at once and again and again."""
    async with await asyncio.start_server(server.answer, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        wire = Wire(f"http://127.0.0.1:{port}", {}, WireLimits(5, 5, 20, connections))

        async def ask_often() -> list[object]:
            return [await wire.post("v1", b"{}") for _ in range(times)]

        answers = await asyncio.gather(*(ask_often() for _ in range(at_once)))
        await wire.close()
        await server.end()
    return [answer for each in answers for answer in each]


@pytest.mark.parametrize("connections", [1, 3, POOL_CONNECTIONS, 20])
def test_law_no_more_connections_than_may_be_and_all_of_them_are_used(connections: int) -> None:
    server = CountingServer()

    answers = asyncio.run(ask(server, 2 * connections, 4, connections))

    assert len(answers) == 8 * connections
    assert all(isinstance(answer, Reply) and answer.status == 200 for answer in answers)
    assert server.connections == server.most == connections


def test_who_asks_one_at_a_time_has_one_connection() -> None:
    server = CountingServer()

    asyncio.run(ask(server, 1, 2 * POOL_CONNECTIONS, 50))

    assert server.connections == 1


def test_a_pool_stays_small() -> None:
    wire = Wire("http://127.0.0.1:9", {}, WireLimits(5, 5, 20, 20))

    async def open_pools() -> list[int]:
        sizes = []
        for _ in range(20):
            pool = wire._choose_pool()
            pool.busy += 1
            sizes.append(pool.size)
        await wire.close()
        return sizes

    assert asyncio.run(open_pools()) == [8] * 16 + [4] * 4
