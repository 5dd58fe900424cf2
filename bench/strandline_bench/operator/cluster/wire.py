"""Sends concurrent JSON requests to an API server, and reads watch streams.

This module must not depend on the contents of requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from kube_client import spell_path
from kuberay_standin.shell.api import JSON, MERGE_PATCH, read_kubeconfig
from recordings import Json

CONNECTIONS = 24
_GONE = frozenset({404, 409, 410})
_BUSY = frozenset({0, 429, 500, 503, 504})
_PASSING = (aiohttp.ClientError, OSError, TimeoutError)
_TRIES = 5
_PAUSE = 1.0
_STREAM_SECONDS = 300
_LINE = 2**24  # bytes; maximum size of an object in a stream
_STREAM = aiohttp.ClientTimeout(sock_connect=10, sock_read=_STREAM_SECONDS + 30)
_WAIT_SECONDS = aiohttp.ClientTimeout(total=60)


class WireError(Exception):
    """Raised if the server rejected a request, or did not respond in several tries."""


class Wire:
    """A client of an API server; see `open_wire`."""

    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self._server = server.rstrip("/")
        self._session = session

    async def create(self, body: Json, namespace: str = "") -> Json | None:
        """Create an object and return it, or None if it exists."""
        return await self._ask("POST", spell_path(body["kind"], namespace), body)

    async def patch(
        self, kind: str, namespace: str, name: str, patch: Json, sub: str = ""
    ) -> Json | None:
        """Merge JSON into an object or subresource. Return None if the object is missing."""
        path = spell_path(kind, namespace, name, sub)
        return await self._ask("PATCH", path, patch, MERGE_PATCH)

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> Json | None:
        """Change the status of an object. Return None if the object is missing."""
        return await self.patch(kind, namespace, name, {"status": status}, "status")

    async def assign(self, namespace: str, pod: str, node: str) -> None:
        """Assign a pod to a node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        await self._ask("POST", spell_path("Pod", namespace, pod, "binding"), body)

    async def delete(self, kind: str, namespace: str, name: str, grace: int | None = None) -> None:
        """Delete an object if it exists."""
        options: Json = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._ask("DELETE", spell_path(kind, namespace, name), options)

    async def follow(self, kind: str) -> AsyncIterator[tuple[str, Json]]:
        """Yield the existing objects of a kind as `ADDED`, then all events, endlessly."""
        version = ""
        while True:
            if not version:
                found = await self._ask("GET", spell_path(kind)) or {}
                version = found["metadata"]["resourceVersion"]
                for body in found["items"]:
                    yield "ADDED", body
            async for event in self._stream(kind, version):
                if event["type"] == "ERROR":
                    version = ""
                    break
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield event["type"], event["object"]

    async def _stream(self, kind: str, version: str) -> AsyncIterator[Json]:
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_STREAM_SECONDS),
        }
        url = f"{self._server}/{spell_path(kind)}"
        try:
            async with self._session.get(url, params=query, timeout=_STREAM) as response:
                async for line in response.content:
                    yield json.loads(line)
        except _PASSING:
            # The next watch resumes from the last seen version.
            await asyncio.sleep(_PAUSE)

    async def _ask(
        self, verb: str, path: str, body: Json | None = None, content: str = JSON
    ) -> Json | None:
        """Send a request, and retry if a busy server does not respond in time."""
        data = None if body is None else json.dumps(body).encode()
        failure = ""
        for _ in range(_TRIES):
            try:
                status, text = await self._send(verb, path, data, content)
            except _PASSING as error:
                status, text = 0, repr(error)
            if status in _GONE:
                return None
            if 0 < status < 400:
                answer: Json = json.loads(text)
                return answer
            failure = f"{verb} {path}: {status} {text[:500]}"
            if status not in _BUSY:
                break
            await asyncio.sleep(_PAUSE)
        raise WireError(failure)

    async def _send(
        self, verb: str, path: str, data: bytes | None, content: str
    ) -> tuple[int, str]:
        url, headers = f"{self._server}/{path}", {"Content-Type": content}
        async with self._session.request(verb, url, data=data, headers=headers) as response:
            return response.status, await response.text()


@asynccontextmanager
async def open_wire(kubeconfig: Path) -> AsyncIterator[Wire]:
    """Connect to the server of a kubeconfig as its user."""
    login = await asyncio.to_thread(read_kubeconfig, kubeconfig)
    connector = aiohttp.TCPConnector(ssl=login.context or True, limit=CONNECTIONS)
    async with aiohttp.ClientSession(
        connector=connector,
        headers=login.build_headers(),
        timeout=_WAIT_SECONDS,
        read_bufsize=_LINE,
    ) as session:
        yield Wire(login.address.geturl(), session)
