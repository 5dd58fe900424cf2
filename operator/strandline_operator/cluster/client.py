"""Implements `Api` and `WatchApi` with the official client.

Requests and responses stay plain JSON, so the same code handles all kinds, and unknown values of
newer versions cause no errors. This module must not depend on the meaning of objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.exceptions import ApiException

from strandline_api.names import API_VERSION
from strandline_api.outcome.reader_token import HEADER, RELEASE_HEADER
from strandline_operator.cluster.api import Body, Page, Scope
from strandline_operator.cluster.connection import (
    NoClusterError,
    load_configuration,
    read_credentials,
)
from strandline_operator.cluster.documents import parse_document
from strandline_operator.cluster.errors import (
    ApiError,
    Gone,
    NotFound,
    Unavailable,
    make_error,
)
from strandline_operator.cluster.server_clock import ServerClock
from strandline_operator.model.plan import ObjectKind, Resource

_ROOTS: dict[ObjectKind, str] = {
    Resource.PIPELINE: f"/apis/{API_VERSION}",
    Resource.ATTEMPT: f"/apis/{API_VERSION}",
    Resource.RAYJOB: "/apis/ray.io/v1",
    Resource.RAYCLUSTER: "/apis/ray.io/v1",
    Resource.JOB: "/apis/batch/v1",
    Resource.DEPLOYMENT: "/apis/apps/v1",
    Resource.NETWORK_POLICY: "/apis/networking.k8s.io/v1",
    Resource.DISRUPTION_BUDGET: "/apis/policy/v1",
}


def build_path(resource: ObjectKind, namespace: str | None, name: str = "", part: str = "") -> str:
    """Return the path of an object, of its `part` (such as `status`), or of a list of objects."""
    pieces = [_ROOTS.get(resource, resource.root)]
    if namespace is not None:
        pieces += ["namespaces", quote(namespace, safe="")]
    pieces.append(resource.value.partition(".")[0])
    pieces += [quote(piece, safe="") for piece in (name, part) if piece]
    return "/".join(pieces)


CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 30.0
# Seconds after which a silent stream counts as dead. The server sends a bookmark every minute.
SILENCE_SECONDS = 90.0
WATCH_SECONDS = 300
PAGE_SIZE = 500
_NO_LIMIT = 0  # no limit, for aiohttp
_MOST_EVENTS = 100
# Logs are requested with a byte limit. If that cuts off the end, request fewer lines.
_LOG_BYTES = 256 * 1024
_LOG_SHOWN = 64 * 1024
_FEWER = 8
_DRIVER_BYTES = 256 * 1024
_REQUEST = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
_STREAM = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
_DRIVER = aiohttp.ClientTimeout(total=3, sock_connect=1)
# Short timeouts: a node may have only two seconds left, and the pass has other work.
_NOTICE = aiohttp.ClientTimeout(total=2, sock_connect=1)
_MERGE = "application/merge-patch+json"

# Function that is called after each request with verb, resource, and HTTP status (0 without a
# response).
Note = Callable[[str, str, int], None]
Query = list[tuple[str, str]]


class KubernetesApi:
    """Accesses an API server through a pool of connections. Call `close` at the end.

    Args:
        clock: clock that is updated with the server's time from each response, or None.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        agent: str,
        note: Note = lambda *_: None,
        clock: ServerClock | None = None,
    ) -> None:
        # Do not limit connections: each stream occupies one, and each watched namespace has five
        # streams.
        configuration.connection_pool_maxsize = _NO_LIMIT
        self._client = ApiClient(configuration)
        self._client.user_agent = agent
        self._note = note
        self._clock = clock
        self._has_dates = True
        self._drivers: aiohttp.ClientSession | None = None

    async def get(self, resource: ObjectKind, namespace: str | None, name: str) -> Body | None:
        try:
            return await self._ask("GET", resource, build_path(resource, namespace, name))
        except NotFound:
            return None

    async def list_all(
        self, resource: ObjectKind, namespace: str | None, selector: str = ""
    ) -> list[Body]:
        bodies: list[Body] = []
        async for page in self.list_pages(Scope(resource, namespace, selector)):
            bodies = [*([] if page.is_first else bodies), *page.items]
        return bodies

    async def list_pages(self, scope: Scope) -> AsyncIterator[Page]:
        selected: Query = [("labelSelector", scope.selector)] if scope.selector else []
        bounded: Query = [("limit", str(PAGE_SIZE))]
        following: Query = []
        path = build_path(scope.resource, scope.namespace)
        while True:
            query = [*bounded, *selected, *following]
            try:
                answer = await self._ask("LIST", scope.resource, path, query=query)
            except Gone:
                if not following:
                    raise
                # The continue token expired before all pages were read, so request the whole list
                # in one page.
                bounded, following = [], []
                continue
            metadata = answer.get("metadata") or {}
            items = tuple(answer.get("items") or ())
            yield Page(items, str(metadata.get("resourceVersion", "")), is_first=not following)
            if not metadata.get("continue"):
                return
            following = [("continue", metadata["continue"])]

    async def create(
        self, resource: Resource, namespace: str, body: Body, *, is_strict: bool = False
    ) -> Body:
        query = [("fieldValidation", "Strict")] if is_strict else []
        sent_at = 0.0 if self._clock is None else self._clock.elapse()
        created = await self._ask("POST", resource, build_path(resource, namespace), body, query)
        if self._clock is not None and not self._has_dates:
            self._clock.compare_made(
                (created.get("metadata") or {}).get("creationTimestamp"), sent_at
            )
        return created

    async def replace_status(
        self, resource: Resource, namespace: str, name: str, body: Body
    ) -> Body:
        return await self._ask(
            "PUT", resource, build_path(resource, namespace, name, "status"), body
        )

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Body) -> Body:
        return await self._ask("PATCH", resource, build_path(resource, namespace, name), patch)

    async def delete(
        self, resource: Resource, namespace: str, name: str, uid: str, grace: int | None = None
    ) -> None:
        options: Body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._ask("DELETE", resource, build_path(resource, namespace, name), options)

    async def read_log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        path = build_path(Resource.POD, namespace, pod, "log")
        options = [("container", container)] if container else []
        while True:
            # The API server applies the byte limit from the first requested line, which can cut off
            # the last lines. In that case, request fewer lines.
            query = [("tailLines", str(lines)), ("limitBytes", str(_LOG_BYTES)), *options]
            async with self._send("GET", Resource.POD, path, None, query) as response:
                text = await response.read()
            if len(text) < _LOG_BYTES or lines <= 1:
                return _cut_to_end(text).decode("utf-8", "replace")
            lines = max(1, lines // _FEWER)

    async def list_events(self, namespace: str, name: str) -> list[Body]:
        query = [
            ("fieldSelector", f"involvedObject.name={name}"),
            ("limit", str(_MOST_EVENTS)),
        ]
        path = build_path(Resource.EVENT, namespace)
        answer = await self._ask("LIST", Resource.EVENT, path, query=query)
        return list(answer.get("items") or [])

    async def push(self, url: str, body: Body, token: str) -> int:
        session = self._drivers = self._drivers or _open_drivers()
        try:
            headers = {HEADER: token}
            async with session.post(
                url, json=body, headers=headers, allow_redirects=False, timeout=_NOTICE
            ) as response:
                return response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(error) from error

    async def pull(self, url: str, token: str = "", release: str = "") -> object | None:
        session = self._drivers = self._drivers or _open_drivers()
        try:
            tokens = {HEADER: token, RELEASE_HEADER: release}
            headers = {name: value for name, value in tokens.items() if value}
            async with session.get(url, headers=headers, allow_redirects=False) as response:
                if response.status != HTTPStatus.OK:
                    return None
                return await _read_json(response)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(error) from error
        except (ValueError, RecursionError) as error:
            raise ApiError(0, "", "the driver's response is not JSON") from error

    async def watch(self, scope: Scope, version: str) -> AsyncIterator[Body]:
        query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(WATCH_SECONDS)),
        ]
        if scope.selector:
            query.append(("labelSelector", scope.selector))
        path = build_path(scope.resource, scope.namespace)
        async with self._send("WATCH", scope.resource, path, None, query, _STREAM) as response:
            yield {"type": "OPEN"}
            async for line in response.content:
                event = parse_document(line)
                if event.get("type") == "ERROR":
                    raise _read_status(event.get("object"))
                yield event

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
        if self._drivers is not None:
            await self._drivers.close()

    async def _ask(
        self,
        verb: str,
        resource: ObjectKind,
        path: str,
        body: Body | None = None,
        query: Query | None = None,
    ) -> Body:
        async with self._send(verb, resource, path, body, query or []) as response:
            answer = parse_document(await response.read())
            return answer if isinstance(answer, dict) else {}

    @asynccontextmanager
    async def _send(
        self,
        verb: str,
        resource: ObjectKind,
        path: str,
        body: Body | None,
        query: Query,
        limit: aiohttp.ClientTimeout = _REQUEST,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        status = 0
        try:
            sent_at = 0.0 if self._clock is None else self._clock.elapse()
            response = await self._request(verb, path, body, query, limit)
            status = response.status
            # Ignore the date of server errors, which may come from a proxy with another clock.
            if self._clock is not None and status < HTTPStatus.INTERNAL_SERVER_ERROR:
                date = response.headers.get("Date", "")
                self._has_dates = bool(date)
                self._clock.compare(date, sent_at)
            async with response:
                if status >= HTTPStatus.BAD_REQUEST:
                    raise await self._refuse(response)
                yield response
        except (aiohttp.ClientError, ApiException, OSError, TimeoutError) as error:
            raise _unreachable(error) from error
        except (ValueError, RecursionError) as error:
            raise Unavailable(status, "", f"the server's response is not JSON: {path}") from error
        finally:
            self._note(verb, resource.value, status)

    async def _request(
        self,
        verb: str,
        path: str,
        body: Body | None,
        query: Query,
        limit: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        method = verb if verb in {"POST", "PUT", "PATCH", "DELETE"} else "GET"
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = _MERGE
        headers["User-Agent"] = self._client.user_agent
        credentials = await read_credentials(self._client.configuration)
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        # Do not use the library's method for its own models, because it copies every body.
        answer = await self._client.rest_client.request(
            method,
            f"{credentials.server}{path}{'?' if query else ''}{urlencode(query)}",
            headers=headers,
            body=body,
            _request_timeout=limit,
        )
        response: aiohttp.ClientResponse = answer.response
        return response

    async def _refuse(self, response: aiohttp.ClientResponse) -> ApiError:
        if response.status == HTTPStatus.UNAUTHORIZED:
            with suppress(NoClusterError):
                await load_configuration(self._client.configuration)
        text = (await response.read()).decode("utf-8", "replace")
        try:
            status = parse_document(text)
        except ValueError:
            status = None
        if not isinstance(status, dict):
            status = {"message": " ".join(text.split())[:500]}
        return _read_status(
            {"code": response.status, **status}, response.headers.get("Retry-After", "")
        )


def _cut_to_end(log: bytes) -> bytes:
    """Return the complete lines at the end of a log.

    In a partial line, scrubbing could miss a secret.
    """
    end = log[-_LOG_SHOWN:]
    return end if len(end) == len(log) else end.partition(b"\n")[2] or end


def _open_drivers() -> aiohttp.ClientSession:
    # Do not decompress, because the result could exceed the size limit. Drivers never compress.
    return aiohttp.ClientSession(timeout=_DRIVER, auto_decompress=False)


async def _read_json(response: aiohttp.ClientResponse) -> object:
    """Return a driver's response. Its size is limited, because a driver runs user code."""
    text = bytearray()
    async for chunk in response.content.iter_chunked(2**14):
        text += chunk
        if len(text) > _DRIVER_BYTES:
            raise ValueError("too long")
    answer: object = parse_document(bytes(text))
    return answer


def _read_status(body: object, retry_after: str = "") -> ApiError:
    """Return the error from a Kubernetes `Status` object, in a response or a watch."""
    status: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    code = status.get("code")
    details = status.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
    if retry_after.isdigit():
        seconds = int(retry_after)
    return make_error(
        code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR,
        str(status.get("reason", "")),
        str(status.get("message", "")),
        float(seconds) if isinstance(seconds, int) else None,
    )


def _unreachable(error: Exception) -> Unavailable:
    text = " ".join(str(error).split())
    name = type(error).__name__
    return Unavailable(0, "", f"no answer: {name}: {text}" if text else f"no answer: {name}")
