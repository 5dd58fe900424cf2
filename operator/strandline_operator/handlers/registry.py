"""The handlers of one operator: each hands on what it was called for.

Events of our own kinds come by kopf's streams. No handler keeps state, so kopf writes no
annotations and no finalizers anywhere.
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
    """Make kopf call a service.

    Args:
        login: reads the credentials anew.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def sign_in(**_: Any) -> Session:  # noqa: ANN401 - kopf's arguments
        return open_session(build_connection(await login()))

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:  # noqa: ANN401 - kopf's arguments
        await service.start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:  # noqa: ANN401 - kopf's arguments
        await service.stop()

    @kopf.on.event(GROUP, VERSION, PIPELINE.plural, registry=registry)
    async def see_pipeline(body: kopf.Body, **_: Any) -> None:  # noqa: ANN401 - kopf's arguments
        service.see_pipeline(dict(body))

    @kopf.on.event(GROUP, VERSION, ATTEMPT.plural, registry=registry)
    async def see_attempt(body: kopf.Body, **_: Any) -> None:  # noqa: ANN401 - kopf's arguments
        service.see_attempt(dict(body))

    return registry


@dataclass(frozen=True, kw_only=True, eq=False)
class Session(kopf.AiohttpSession):
    """Connections of kopf's that read what is nested too deep; the same for the same credentials.

    Attributes:
        info: what it was opened with, by which kopf tells credentials that were refused.
    """

    info: kopf.ConnectionInfo

    def __eq__(self, other: object) -> bool:
        """Return whether the credentials are the same."""
        return isinstance(other, Session) and self.info == other.info

    def __hash__(self) -> int:
        """Return a number by the server alone."""
        return hash(self.server)


def open_session(info: kopf.ConnectionInfo) -> Session:
    """Open what kopf would of these credentials; an event loop must run."""
    session = open_cutting_session(info.as_ssl_context(), info.as_http_headers())
    return Session(server=info.server, aiohttp_session=session, info=info)


def build_connection(credentials: Credentials) -> kopf.ConnectionInfo:
    """Return the credentials as kopf takes them."""
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
