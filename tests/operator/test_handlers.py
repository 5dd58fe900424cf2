"""How the operator uses kopf: for two event streams, with all other features disabled."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

import kopf
import pytest
from kopf._core.intents.causes import Activity

from strandline_api.names import FINALIZER
from strandline_operator.cluster.connection import Credentials
from strandline_operator.handlers.framework import Backoffs, configure
from strandline_operator.handlers.registry import Session, build_connection, build_registry
from strandline_operator.settings import Settings

CREDENTIALS = Credentials("https://10.0.0.1:443", "Bearer word", "/ca", "/cert", "/key", False)

BARE = Credentials("http://localhost", "", None, None, None, is_insecure=True)


class FakeService:
    """A service that records its calls."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, Any]] = []

    async def start(self) -> None:
        self.reported.append(("start", None))

    async def stop(self) -> None:
        self.reported.append(("stop", None))

    def see_pipeline(self, body: dict[str, Any]) -> None:
        self.reported.append(("pipeline", body))

    def see_attempt(self, body: dict[str, Any]) -> None:
        self.reported.append(("attempt", body))


async def login() -> Credentials:
    return BARE


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def registry(service: FakeService) -> kopf.OperatorRegistry:
    return build_registry(service, login)  # type: ignore[arg-type]


def call(handlers: Any, **arguments: Any) -> list[Any]:
    async def run() -> list[Any]:
        answers = [await handler.fn(**arguments) for handler in handlers]
        for answer in answers:
            if isinstance(answer, Session):
                await answer.aiohttp_session.close()
        return answers

    return asyncio.run(run())


def test_no_handler_makes_kopf_write_to_objects(
    registry: kopf.OperatorRegistry,
) -> None:
    selectors = [handler.selector for handler in registry._watching.get_all_handlers()]
    plurals = {selector.any_name for selector in selectors if selector is not None}
    assert plurals == {"curationpipelines", "curationattempts"}
    for kind in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert kind.get_all_handlers() == []


def test_events_are_forwarded(registry: kopf.OperatorRegistry, service: FakeService) -> None:
    body = {"metadata": {"name": "a"}}
    for handler in registry._watching.get_all_handlers():
        call([handler], body=body, type="ADDED", logger=None)
    assert sorted(service.reported, key=str) == [("attempt", body), ("pipeline", body)]


def test_start_stop_and_login_reach_the_service(
    registry: kopf.OperatorRegistry, service: FakeService
) -> None:
    activities = registry._activities
    call(activities.get_handlers(activity=Activity.STARTUP), settings=None)
    call(activities.get_handlers(activity=Activity.CLEANUP), settings=None)
    assert service.reported == [("start", None), ("stop", None)]
    signed = call(activities.get_handlers(activity=Activity.AUTHENTICATION), settings=None)
    assert [session.info for session in signed] == [build_connection(BARE)]


def test_credentials_are_in_kopfs_format() -> None:
    info = build_connection(CREDENTIALS)
    assert info.as_http_headers() == {"Authorization": "Bearer word"}
    assert (info.server, info.ca_path, info.insecure) == ("https://10.0.0.1:443", "/ca", False)
    assert (info.certificate_path, info.private_key_path) == ("/cert", "/key")
    assert build_connection(BARE).as_http_headers() == {}


def test_kopf_writes_and_scans_nothing() -> None:
    chosen = configure(Settings(shutdown_grace=20))
    assert not chosen.posting.enabled
    assert chosen.peering.standalone
    assert chosen.scanning.disabled
    # If kopf finds its finalizer on an object whose handlers do not need it, kopf removes it.
    assert chosen.persistence.finalizer != FINALIZER
    assert chosen.process.ultimate_exiting_timeout == 30


def test_streams_restart_and_silence_is_detected() -> None:
    watching = configure(Settings()).watching
    # kopf passes the value to the server unchanged.
    assert str(watching.server_timeout) == "300"
    assert watching.client_timeout is not None
    assert watching.server_timeout is not None
    assert watching.inactivity_timeout < watching.server_timeout < watching.client_timeout
    assert watching.chunk_size == 500


def test_kopf_waits_for_an_unavailable_server_indefinitely() -> None:
    waits = list(islice(Backoffs(), 1000))
    assert waits[:3] == [1.0, 1.0, 2.0]
    assert set(waits[8:]) == {30.0}
    assert list(islice(Backoffs(), 2)) == [1.0, 1.0]


def test_kopf_keeps_no_copy_of_objects() -> None:
    storage = configure(Settings()).persistence.diffbase_storage
    body, patch = kopf.Body({"spec": {"a": 1}, "metadata": {"labels": {"b": "2"}}}), kopf.Patch()
    essence = storage.build(body=body)
    storage.store(body=body, patch=patch, essence=essence)
    assert (dict(essence), storage.fetch(body=body), dict(patch)) == ({}, None, {})
