"""Sends HTTP requests through aiohttp, which only workers load, on a thread with its own loop.

Connections stay open between tasks. The module must not depend on the meaning of answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import weakref
from collections.abc import Coroutine, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from strandline_packs.models.asking.answers import Reply, UnansweredRequest

_JSON = "application/json"
_END_SECONDS = 15.0  # seconds to close connections
_Result = TypeVar("_Result")


class WireLimits(NamedTuple):
    """Timeouts in seconds, and the maximum number of open connections."""

    connect: float
    read: float
    total: float
    connections: int


class Wire:
    """Posts to a server, through the proxies configured in the environment.

    Args:
        url: base URL of the paths.
        headers: headers of every request; errors of this module never contain them.
    """

    def __init__(self, url: str, headers: Mapping[str, str], limits: WireLimits) -> None:
        self._url, self._headers, self._limits = url.rstrip("/"), headers, limits
        self._aiohttp = import_module("aiohttp")
        self._session: Any = None

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        """Send a POST request, and return the response or the reason for its absence."""
        return await self._request("POST", path, body, self._limits.total)

    async def get(self, path: str, limit: float) -> Reply | UnansweredRequest:
        """Send a GET request, and wait up to `limit` seconds for the response."""
        return await self._request("GET", path, None, limit)

    async def send(
        self, method: str, path: str, body: bytes | None, kind: str
    ) -> Reply | UnansweredRequest:
        """Send a request whose body has the media type `kind`."""
        return await self._request(method, path, body, self._limits.total, kind)

    async def _request(
        self, method: str, path: str, body: bytes | None, limit: float, kind: str = _JSON
    ) -> Reply | UnansweredRequest:
        limits, aiohttp = self._limits, self._aiohttp
        if self._session is None:  # a session must be created on the loop that uses it
            self._session = self._open()
        timeout = aiohttp.ClientTimeout(
            total=limit, sock_connect=limits.connect, sock_read=limits.read
        )
        try:
            # Do not follow redirects: a redirect could turn POST into GET, and send the key to
            # another address.
            async with self._session.request(
                method,
                f"{self._url}/{path}",
                data=body,
                headers={"content-type": kind},
                timeout=timeout,
                allow_redirects=False,
            ) as found:
                content = await found.read()
                headers = {name.lower(): value for name, value in found.headers.items()}
                return Reply(found.status, headers, content)
        # Catch the two subclasses of TimeoutError before TimeoutError itself.
        except aiohttp.ConnectionTimeoutError:
            return UnansweredRequest(f"no connection within {limits.connect:g} s", was_sent=False)
        except aiohttp.SocketTimeoutError:
            return UnansweredRequest(f"no data received for {limits.read:g} s", is_late=True)
        except TimeoutError:
            return UnansweredRequest(f"no answer within {limit:g} s", is_late=True)
        except (aiohttp.ClientError, OSError) as error:
            # Do not chain the error: it references the request, and so the key.
            what = " ".join(str(error).split()) or type(error).__name__
            was_sent = not isinstance(error, aiohttp.ClientConnectorError)
            return UnansweredRequest(what, was_sent=was_sent)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> Any:  # noqa: ANN401 - aiohttp is loaded in the workers
        aiohttp = self._aiohttp
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._limits.connections, ssl=_trust()),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            proxy=_find_proxy(self._url),
        )


def _trust() -> ssl.SSLContext:
    """Return a TLS context that trusts the machine's authorities, or certifi's as a fallback."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        return ssl.create_default_context()
    # The macOS installer of Python brings no authorities.
    return ssl.create_default_context(cafile=import_module("certifi").where())


def _find_proxy(url: str) -> str | None:
    """Return the proxy for a URL from the environment.

    aiohttp would look up the proxy for each request on a thread, which doubles the time of a
    request.
    """
    parts, proxies = urlsplit(url), getproxies()
    if proxy_bypass(parts.netloc):
        return None
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    # Many environments set `HTTP_PROXY=host:port`, without a scheme.
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


class Closable(Protocol):
    """An object that holds connections, which belong to a loop."""

    async def close(self) -> None:
        """Close the connections."""


class LoopThread:
    """An asyncio loop on its own thread, usable from any thread.

    The thread ends when the last reference to this object is dropped.

    Args:
        wire: connection that is closed with the loop.
    """

    def __init__(self, wire: Closable) -> None:
        self._loop = asyncio.new_event_loop()
        work = (self._loop, wire)
        self._thread = threading.Thread(target=_run, args=work, name="asking", daemon=True)
        self._thread.start()
        self._finish = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the result of a coroutine. An interrupt of the caller cancels the coroutine."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close the connections, and wait until they are closed."""
        self._finish()
        self._thread.join(_END_SECONDS)


def _run(loop: asyncio.AbstractEventLoop, wire: Closable) -> None:
    """Run a loop until the owner is closed or garbage-collected, possibly on another thread."""
    loop.run_forever()
    with contextlib.suppress(Exception):  # errors while closing have no consequences
        loop.run_until_complete(asyncio.wait_for(wire.close(), _END_SECONDS))
    loop.close()
