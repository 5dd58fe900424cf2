"""One API server for all tests of this floor, and namespaces of their own.

Where there is none, these tests are skipped, and say so; in CI that is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from api_server import ApiServer, NoApiServerError, open_api_server
from kube_client import KubeClient, ServerStage
from kuberay_player import Stage


@pytest.fixture(scope="session")
def api_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """A real API server with our CRDs and KubeRay's; api_server.py says what it can do."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    try:
        with open_api_server(tmp_path_factory.mktemp("control-plane"), say) as server:
            yield server
    except NoApiServerError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def client(api_server: ApiServer) -> KubeClient:
    """An administrator's client."""
    return api_server.client


@pytest.fixture
def stage(client: KubeClient) -> Stage:
    """The API server as players of recordings see it."""
    return ServerStage(client)


@pytest.fixture
def namespace(api_server: ApiServer) -> Iterator[str]:
    """A namespace of this test's own; it is deleted afterwards, in the background."""
    name = api_server.make_namespace()
    yield name
    api_server.client.delete("Namespace", name)
