"""Requests over HTTP by httpx, which is loaded in the workers, on a thread with a loop of its own.

Connections are kept from task to task. It must not know what an answer means.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeVar

from strandline.stages.models.asking.answers import Reply, Unanswered

_END_SECONDS = 15.0
# httpx looks through all connections of a pool for each request: with 128 in one, 10 ms of a core.
POOL_CONNECTIONS = 8
_Result = TypeVar("_Result")


class WireLimits(NamedTuple):
    """Seconds to connect, between two bytes, and of a whole request; connections that are kept."""

    connect: float
    read: float
    total: float
    connections: int


class Wire:
    """Posts to a server; proxies are those of the environment.

    Args:
        url: what paths are put behind.
        headers: of each request; no error of ours shows them.
    """

    def __init__(self, url: str, headers: Mapping[str, str], limits: WireLimits) -> None:
        self._url, self._headers, self._limits = url.rstrip("/"), headers, limits
        self._httpx = import_module("httpx")
        self._pools: list[_Pool] = []
        self._ssl: Any = None

    async def post(self, path: str, body: bytes) -> Reply | Unanswered:
        """Return what came back, whatever that was."""
        return await self._request("POST", path, body, self._limits.total)

    async def get(self, path: str, limit: float) -> Reply | Unanswered:
        """Return what came back in so many seconds."""
        return await self._request("GET", path, None, limit)

    async def _request(
        self, method: str, path: str, body: bytes | None, limit: float
    ) -> Reply | Unanswered:
        pool = self._choose_pool()  # here, since its client belongs to the loop
        limits, httpx = self._limits, self._httpx
        pool.busy += 1
        try:
            async with asyncio.timeout(limit):
                found = await pool.client.request(method, f"{self._url}/{path}", content=body)
                return Reply(found.status_code, dict(found.headers), found.content)
        except TimeoutError:
            return Unanswered(f"no answer in {limit:g} s", is_late=True)
        except httpx.ConnectTimeout:
            return Unanswered(f"no connection in {limits.connect:g} s")
        except httpx.TimeoutException:
            return Unanswered(f"nothing was heard for {limits.read:g} s", is_late=True)
        except (httpx.HTTPError, OSError) as error:
            # The error has the request with it, and that the key.
            return Unanswered(" ".join(str(error).split()) or type(error).__name__)
        finally:
            pool.busy -= 1

    async def close(self) -> None:
        """Close the connections."""
        for pool in self._pools:
            await pool.client.aclose()

    def _choose_pool(self) -> _Pool:
        """Return the first pool with a connection to spare, else the one with least to do."""
        for pool in self._pools:
            if pool.busy < pool.size:
                return pool
        left = self._limits.connections - sum(pool.size for pool in self._pools)
        if left > 0:
            size = min(left, POOL_CONNECTIONS)
            self._pools.append(_Pool(self._open(size), size))
            return self._pools[-1]
        return min(self._pools, key=lambda pool: pool.busy / pool.size)

    def _open(self, connections: int) -> Any:  # noqa: ANN401 - httpx is loaded in the workers
        limits, httpx = self._limits, self._httpx
        if self._ssl is None:  # for all pools, since it takes long to make
            self._ssl = httpx.create_ssl_context()
        timeout = httpx.Timeout(limits.read, connect=limits.connect, pool=None)
        bounds = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        headers = {"content-type": "application/json", **self._headers}
        return httpx.AsyncClient(headers=headers, timeout=timeout, limits=bounds, verify=self._ssl)


@dataclass(slots=True)
class _Pool:
    """A client with connections of its own, how many these are, and the requests under way."""

    client: Any
    size: int
    busy: int = 0


class Closable(Protocol):
    """What has connections, of one loop."""

    async def close(self) -> None:
        """Close them."""


class LoopThread:
    """A loop of asyncio on a thread, so that it does not matter who calls, and from where.

    It ends when nobody has it any more.

    Args:
        wire: is closed with it.
    """

    def __init__(self, wire: Closable) -> None:
        self._loop = asyncio.new_event_loop()
        work = (self._loop, wire)
        self._thread = threading.Thread(target=_run, args=work, name="asking", daemon=True)
        self._thread.start()
        self._finish = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the result of a coroutine; where the caller is interrupted, so is it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close the connections, and wait for that."""
        self._finish()
        self._thread.join(_END_SECONDS)


def _run(loop: asyncio.AbstractEventLoop, wire: Closable) -> None:
    """Run a loop until it is stopped, by whoever collects garbage, on whichever thread."""
    loop.run_forever()
    with contextlib.suppress(Exception):  # what a server makes of it is nothing to us any more
        loop.run_until_complete(asyncio.wait_for(wire.close(), _END_SECONDS))
    loop.close()
