"""Fixtures: one API server for all tests of this folder, and a namespace for each test.

Without an API server the tests are skipped with a message; in CI this is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from api_server import ApiServer, NoApiServerError, open_api_server
from kube_client import KubeClient, ServerStage
from kuberay_player import Stage
from overlap_watch import OverlapWatch

# A test module that imports or defines one of these names runs an operator.
RUNS_OPERATORS = frozenset({"run_operator", "tell"})


@pytest.fixture(scope="session")
def api_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """Return a real API server with the CRDs of Strandline and KubeRay."""
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


@pytest.fixture(scope="session")
def overlap_watch(api_server: ApiServer) -> Iterator[OverlapWatch]:
    """Watch the server for two attempts of a pipeline with pods at the same time."""
    with OverlapWatch(api_server.kubeconfig) as watch:
        yield watch


@pytest.fixture(autouse=True)
def _no_two_attempts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check in tests with an operator that no two attempts of a pipeline have pods together."""
    if not find_names(request.node.module) & RUNS_OPERATORS:
        yield
        return
    watch: OverlapWatch = request.getfixturevalue("overlap_watch")
    before = watch.overlaps
    yield
    watch.catch_up()
    assert [text for pair, text in watch.overlaps.items() if pair not in before] == []


def find_names(module: object) -> set[str]:
    """Return the names that a test module imports or defines."""
    return set(vars(module))


@pytest.fixture
def client(api_server: ApiServer) -> KubeClient:
    """Return an administrator's client."""
    return api_server.client


@pytest.fixture
def stage(client: KubeClient) -> Stage:
    """Return the API server as a stage for players."""
    return ServerStage(client)


@pytest.fixture
def namespace(api_server: ApiServer) -> Iterator[str]:
    """Yield a namespace for this test, and delete the namespace afterwards in the background."""
    name = api_server.make_namespace()
    yield name
    api_server.client.delete("Namespace", name)
