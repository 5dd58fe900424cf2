"""A proxy between an operator and its API server that counts calls and injects failures.

    with run_proxy(server.kubeconfig, tmp_path) as proxy:
        proxy.disturber = KillSchedule([...])       # see troubles.py
        ... an operator whose kubeconfig is proxy.kubeconfig ...
        proxy.calls                                 # in the order of arrival

The proxy listens on loopback in plain HTTP, and forwards over TLS as the user of the given
kubeconfig. Watches are streamed. The proxy runs in its own thread. The module must not depend on
the meaning of the calls.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from selectors import DefaultSelector
from threading import Thread
from typing import Protocol

import aiohttp
from aiohttp import web

from control_plane import LOOPBACK, write_kubeconfig
from kuberay_standin.shell.api import read_kubeconfig

CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Headers that belong to one connection. The forwarded request gets its own.
OWN_HEADERS = {"host", "authorization", "connection", "transfer-encoding", "content-length"}
FOREVER = 3600.0
RETRY_AFTER = "1"


class Kind(StrEnum):
    """Kinds of failure."""

    KILLED = "killed"  # the operator is killed
    CONFLICT = "409"
    TOO_MANY = "429"
    ERROR = "500"
    TIMEOUT = "timeout"  # the proxy never responds
    CUT = "cut"  # the connection closes without a response
    DROPPED = "dropped"  # a watch breaks off after a while


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failure of one call.

    Attributes:
        kind: the kind of failure.
        is_late: True if the server executes the call before the failure.
        seconds: how long a watch works before the failure.
    """

    kind: Kind
    is_late: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the operator.

    Attributes:
        number: position among all calls, from 1.
        change: position among the changing calls, from 1; 0 for a read.
        verb: HTTP method, or WATCH.
        path: path without the API prefix of its kind: `namespaces/<name>/pods/<name>`.
    """

    number: int
    change: int
    verb: str
    path: str

    def __str__(self) -> str:
        """Return the verb and the path."""
        return f"{self.verb} {self.path}"


class Disturber(Protocol):
    """A source of failures."""

    def choose(self, call: Call) -> Trouble | None:
        """Return the failure to inject into this call, or None."""


class Peace:
    """A disturber without failures."""

    def choose(self, call: Call) -> Trouble | None:
        return None


@dataclass(slots=True)
class CountingProxy:
    """The proxy described in the module's docstring.

    Attributes:
        kubeconfig: the kubeconfig for the operator.
        kill: callback that kills the operator.
        troubles: the failures injected so far.
        ahead: seconds by which the dates of responses are ahead, or None to omit dates.
    """

    kubeconfig: Path
    server: str
    authorization: str
    context: ssl.SSLContext | None
    disturber: Disturber = field(default_factory=Peace)
    kill: Callable[[], None] = lambda: None
    calls: list[Call] = field(default_factory=list)
    troubles: list[tuple[Call, Trouble]] = field(default_factory=list)
    ahead: float | None = 0.0
    _session: aiohttp.ClientSession | None = None
    _runner: web.ServerRunner | None = None

    @property
    def changes(self) -> list[Call]:
        """The changing calls so far, including failed calls."""
        return [call for call in self.calls if call.change]

    async def open(self) -> int:
        """Start listening, and return the port."""
        connector = aiohttp.TCPConnector(ssl=self.context or True, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout()
        )
        server = web.Server(self._serve, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, 0).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def close(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        call = self._count(request)
        trouble = self.disturber.choose(call)
        if trouble is None:
            return await self._pass_on(request)
        self.troubles.append((call, trouble))
        if trouble.kind is Kind.DROPPED:
            return await self._drop(request, trouble.seconds)
        if trouble.is_late:
            async with self._forward(request) as response:
                await response.read()
        return await self._strike(request, trouble.kind)

    def _count(self, request: web.BaseRequest) -> Call:
        is_change = request.method in CHANGES
        is_watch = request.query.get("watch") in {"true", "1"}
        change = len(self.changes) + 1 if is_change else 0
        verb = "WATCH" if is_watch else request.method
        path = "/".join(request.path.strip("/").split("/")[2 + request.path.startswith("/apis") :])
        call = Call(len(self.calls) + 1, change, verb, path)
        self.calls.append(call)
        return call

    async def _strike(self, request: web.BaseRequest, kind: Kind) -> web.StreamResponse:
        if kind is Kind.CONFLICT:
            return refuse(HTTPStatus.CONFLICT, "Conflict")
        if kind is Kind.TOO_MANY:
            return refuse(HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests")
        if kind is Kind.ERROR:
            return refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError")
        if kind is Kind.KILLED:
            self.kill()
        elif kind is Kind.CUT and request.transport is not None:
            request.transport.abort()
        await asyncio.sleep(FOREVER)  # until the operator closes the connection
        raise web.HTTPServiceUnavailable

    async def _drop(self, request: web.BaseRequest, seconds: float) -> web.StreamResponse:
        try:
            async with asyncio.timeout(seconds):
                return await self._pass_on(request)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self._forward(request) as response:
            headers = drop_headers(response.headers) | {"Date": self._date()}
            answer = web.StreamResponse(status=response.status, headers=headers)
            with suppress(ConnectionResetError):  # the operator is gone
                await answer.prepare(request)
                async for piece in response.content.iter_any():
                    await answer.write(piece)
                await answer.write_eof()
            return answer

    def _date(self) -> str:
        """Return the date for responses. Clients treat an empty date as missing."""
        return "" if self.ahead is None else formatdate(time.time() + self.ahead, usegmt=True)

    @asynccontextmanager
    async def _forward(self, request: web.BaseRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None
        headers = drop_headers(request.headers)
        if self.authorization:
            headers["Authorization"] = self.authorization
        body = await request.read()
        url = f"{self.server}{request.path_qs}"
        async with self._session.request(
            request.method, url, headers=headers, data=body or None, skip_auto_headers=["Accept"]
        ) as response:
            yield response


@contextmanager
def run_proxy(kubeconfig: Path, folder: Path) -> Iterator[CountingProxy]:
    """Run a proxy as a kubeconfig's user, and write the operator's kubeconfig to `folder`."""
    login = read_kubeconfig(kubeconfig)
    proxy = CountingProxy(
        kubeconfig=folder / "proxy.kubeconfig",
        server=login.address.geturl().rstrip("/"),
        authorization=login.build_headers().get("Authorization", ""),
        context=login.context,
    )
    selector = DefaultSelector()
    loop = asyncio.SelectorEventLoop(selector)
    thread = Thread(target=loop.run_forever, name="counting proxy")
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(proxy.open(), loop).result()
        write_kubeconfig(proxy.kubeconfig, {"server": f"http://{LOOPBACK}:{port}"}, "none")
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(proxy.close(), loop).result()
        asyncio.run_coroutine_threadsafe(let_go(selector), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def let_go(selector: DefaultSelector) -> None:
    """Wait for closing connections, which takes some iterations of the event loop."""
    for _ in range(100):
        if len(selector.get_map()) <= 1:  # the loop's own socket
            return
        await asyncio.sleep(0.02)


def drop_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to forward."""
    return {name: value for name, value in headers.items() if name.lower() not in OWN_HEADERS}


def refuse(status: HTTPStatus, reason: str) -> web.Response:
    """Return an API server's error response."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status.value,
        "reason": reason,
        "message": f"{reason}, says the proxy",
    }
    headers = {"Retry-After": RETRY_AFTER} if status is HTTPStatus.TOO_MANY_REQUESTS else {}
    text = json.dumps(body)
    return web.Response(status=status, text=text, content_type="application/json", headers=headers)
