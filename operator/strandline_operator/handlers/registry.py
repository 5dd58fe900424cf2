"""The handlers of one operator: each hands on what it was called for.

Events of our own kinds come by kopf's streams. No handler keeps state, so kopf writes no
annotations and no finalizers anywhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import kopf

from strandline_api.names import ATTEMPT, GROUP, PIPELINE, VERSION
from strandline_operator.cluster.connection import Credentials
from strandline_operator.reconcile.service import Service

Login = Callable[[], Awaitable[Credentials]]


def build_registry(service: Service, login: Login) -> kopf.OperatorRegistry:
    """Make kopf call a service.

    Args:
        login: reads the credentials anew.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def sign_in(**_: Any) -> kopf.ConnectionInfo:  # noqa: ANN401 - kopf's arguments
        return build_connection(await login())

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
