"""Handlers for kopf, which only forward calls to a service.

Events of Strandline's kinds arrive through kopf's streams. No handler stores state, so kopf writes
no annotations and no finalizers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import kopf

from strandline_api.names import ATTEMPT, GROUP, PIPELINE, VERSION
from strandline_operator.cluster.connection import Credentials
from strandline_operator.cluster.documents import open_cutting_session
from strandline_operator.reconcile.service import Service

Login = Callable[[], Awaitable[Credentials]]


def build_registry(service: Service, login: Login) -> kopf.OperatorRegistry:
    """Return a registry through which kopf calls a service.

    Args:
        login: function that reads the current credentials.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def sign_in(**_: Any) -> Session:  # noqa: ANN401 - signature of kopf
        return open_session(build_connection(await login()))

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:  # noqa: ANN401 - signature of kopf
        await service.start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:  # noqa: ANN401 - signature of kopf
        await service.stop()

    @kopf.on.event(GROUP, VERSION, PIPELINE.plural, registry=registry)
    async def see_pipeline(body: kopf.Body, **_: Any) -> None:  # noqa: ANN401 - signature of kopf
        service.see_pipeline(dict(body))

    @kopf.on.event(GROUP, VERSION, ATTEMPT.plural, registry=registry)
    async def see_attempt(body: kopf.Body, **_: Any) -> None:  # noqa: ANN401 - signature of kopf
        service.see_attempt(dict(body))

    return registry


@dataclass(frozen=True, kw_only=True, eq=False)
class Session(kopf.AiohttpSession):
    """Connections for kopf that truncate deeply nested values.

    Sessions with equal credentials are equal.

    Attributes:
        info: the credentials, by which kopf recognizes rejected credentials.
    """

    info: kopf.ConnectionInfo

    def __eq__(self, other: object) -> bool:
        """Return True if the credentials are the same."""
        return isinstance(other, Session) and self.info == other.info

    def __hash__(self) -> int:
        """Return a hash that depends only on the server."""
        return hash(self.server)


def open_session(info: kopf.ConnectionInfo) -> Session:
    """Open a session with the credentials, as kopf would. Requires a running event loop."""
    session = open_cutting_session(info.as_ssl_context(), info.as_http_headers())
    return Session(server=info.server, aiohttp_session=session, info=info)


def build_connection(credentials: Credentials) -> kopf.ConnectionInfo:
    """Return the credentials in kopf's format."""
    scheme, _, token = credentials.authorization.partition(" ")
    return kopf.ConnectionInfo(
        server=credentials.server,
        ca_path=credentials.ca_path,
        insecure=credentials.is_insecure,
        scheme=scheme or None,
        token=token or None,
        certificate_path=credentials.certificate_path,
        private_key_path=credentials.key_path,
    )
