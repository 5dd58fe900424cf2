"""A server on a loopback port that returns prepared answers and records requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    """A recorded request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Stub:
    """The server: its address, the recorded requests, and the prepared answers."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answers: list[web.StreamResponse | Handler] = field(default_factory=list)

    def answer(self, body: object, status: int = 200, **headers: str) -> None:
        """Prepare a JSON answer for the next request."""
        text = json.dumps(body)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append(
            web.Response(text=text, status=status, content_type="application/json", headers=names)
        )

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = json.loads(text) if text else None
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(Asked(request.method, request.path, dict(request.query), headers, body))
        answer = self.answers.pop(0)
        return answer if isinstance(answer, web.StreamResponse) else await answer(request)


@asynccontextmanager
async def serve() -> AsyncIterator[Stub]:
    """Run a stub on a free port."""
    stub = Stub()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    stub.url = f"http://{host}:{port}"
    try:
        yield stub
    finally:
        await runner.cleanup()
