"""Bare asyncio clients that send requests for rows, without a log or limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import aiohttp
import httpx

from strandline_bench.asking.programs import MODEL, build_messages

# A single httpx pool with all connections would make a request ten times slower.
_POOL_CONNECTIONS = 8
_PATH = "v1/chat/completions"
Ask = Callable[[int], Awaitable[None]]


def time_httpx(url: str, numbers: range, at_once: int) -> float:
    """Return the seconds that httpx takes, without the connection setup."""

    async def ask_all() -> float:
        limits = httpx.Limits(max_connections=_POOL_CONNECTIONS)
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(httpx.AsyncClient(limits=limits, timeout=60))
                for _ in range(at_once // _POOL_CONNECTIONS)
            ]
            return await _time([_ask_by_httpx(client, url) for client in clients], numbers, at_once)

    return asyncio.run(ask_all())


def time_aiohttp(url: str, numbers: range, at_once: int) -> float:
    """Return the seconds that aiohttp takes."""

    async def ask_all() -> float:
        connector = aiohttp.TCPConnector(limit=at_once)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def ask(number: int) -> None:
                body = {"model": MODEL, "messages": build_messages(number)}
                async with session.post(f"{url}/{_PATH}", json=body) as reply:
                    found = await reply.json()
                assert found["choices"][0]["finish_reason"] == "stop"

            return await _time([ask], numbers, at_once)

    return asyncio.run(ask_all())


def _ask_by_httpx(client: httpx.AsyncClient, url: str) -> Ask:
    async def ask(number: int) -> None:
        body = {"model": MODEL, "messages": build_messages(number)}
        reply = await client.post(f"{url}/{_PATH}", json=body)
        assert reply.json()["choices"][0]["finish_reason"] == "stop"

    return ask


async def _time(asks: Sequence[Ask], numbers: range, at_once: int) -> float:
    """Return the seconds to send all requests, with equally many concurrent requests per client."""
    waiting = iter(numbers)

    async def ask_often(ask: Ask) -> None:
        for number in waiting:
            await ask(number)

    begun = time.perf_counter()
    await asyncio.gather(*(ask_often(ask) for ask in asks for _ in range(at_once // len(asks))))
    return time.perf_counter() - begun
