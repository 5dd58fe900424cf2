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
from overlap_watch import OverlapWatch

# A module of tests that has one of these lets an operator run.
RUNS_OPERATORS = frozenset({"run_operator", "tell"})


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


@pytest.fixture(scope="session")
def overlap_watch(api_server: ApiServer) -> Iterator[OverlapWatch]:
    """Sees on the server whether two attempts of a pipeline have pods at the same time."""
    with OverlapWatch(api_server.kubeconfig) as watch:
        yield watch


@pytest.fixture(autouse=True)
def _no_two_attempts(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test lets an operator do, no two attempts of a pipeline have pods at once."""
    if not find_names(request.node.module) & RUNS_OPERATORS:
        yield
        return
    watch: OverlapWatch = request.getfixturevalue("overlap_watch")
    before = watch.overlaps
    yield
    watch.catch_up()
    assert [text for pair, text in watch.overlaps.items() if pair not in before] == []


def find_names(module: object) -> set[str]:
    """The names that a module of tests has brought in or made."""
    return set(vars(module))


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
