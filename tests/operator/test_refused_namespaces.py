"""Namespaces that refuse the operator's watches are reported and retried, and block no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fake_api import FakeApi, until
from operator_bodies import NAMESPACE, make_pipeline
from strandline_operator.cluster.api import Body, Page, Scope
from strandline_operator.cluster.errors import Forbidden
from strandline_operator.model.plan import Resource
from strandline_operator.settings import Settings
from test_service import Scene


def refuse_namespaces(api: FakeApi, refused: set[str]) -> None:
    """Reject all lists and watches in some namespaces."""
    list_pages, watch = api.list_pages, api.watch

    async def list_allowed(scope: Scope) -> AsyncIterator[Page]:
        if scope.namespace in refused:
            raise Forbidden(403, "Forbidden", f"no rights in {scope.namespace}")
        async for page in list_pages(scope):
            yield page

    async def watch_allowed(scope: Scope, version: str) -> AsyncIterator[Body]:
        if scope.namespace in refused:
            raise Forbidden(403, "Forbidden", f"no rights in {scope.namespace}")
        async for event in watch(scope, version):
            yield event

    api.list_pages = list_allowed  # type: ignore[method-assign]
    api.watch = watch_allowed  # type: ignore[method-assign]


def test_a_refusing_namespace_delays_no_other(caplog: pytest.LogCaptureFixture) -> None:
    account = "home/operator"
    scene = Scene(Settings(namespaces=("gone", NAMESPACE), account=account))
    make_pipeline(scene.api.store, "a")
    refused = {"gone"}
    refuse_namespaces(scene.api, refused)

    async def story() -> None:
        await scene.service.start()
        await until(lambda: scene.seen == ["a"])
        assert scene.service.check()["namespaces_refused"] == 1
        refused.clear()
        await scene.service._try_sweep()
        assert scene.service.check()["namespaces_refused"] == 0

    scene.play(story)
    (event,) = scene.api.store.list(Resource.EVENT)
    assert event["metadata"]["namespace"] == "home"
    assert event["involvedObject"]["name"] == "operator"
    assert (
        "the operator ignores the pipelines of namespace gone: no rights in gone"
        in event["message"]
    )
    assert caplog.text.count("ignores the pipelines") == 1


def test_the_operator_waits_if_every_namespace_refuses() -> None:
    scene = Scene(Settings(namespaces=("gone", "lost")))
    refused = {"gone", "lost"}
    refuse_namespaces(scene.api, refused)

    async def story() -> None:
        starting = asyncio.ensure_future(scene.service.start())
        await until(lambda: len(scene.waits) > 2)
        assert not starting.done()
        refused.clear()
        await starting

    scene.play(story)
