"""Provides Helm, and a control plane without Strandline's CRDs.

If Helm is missing, these tests are skipped with a message; `make chart` turns the skips into
failures. Tests that need a control plane take minutes, so only `make chart` runs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from api_server import NoApiServerError
from chart_cluster import ChartCluster, open_chart_cluster
from helm_program import NEEDED, Helm, NoHelmError, find_helm


def lack(error: Exception) -> None:
    if os.environ.get(NEEDED):
        pytest.fail(str(error), pytrace=False)
    pytest.skip(str(error))


@pytest.fixture(scope="session")
def helm_binary() -> Path | None:
    try:
        return find_helm()
    except NoHelmError as error:
        lack(error)
        return None


@pytest.fixture(scope="session")
def helm(helm_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Return Helm without access to a cluster."""
    return Helm(helm_binary, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def chart_cluster(
    helm_binary: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ChartCluster]:
    """Yield a control plane with the kinds of KubeRay and the Prometheus operator only."""
    if not os.environ.get(NEEDED):
        pytest.skip("the chart was not installed anywhere: `make chart` does that")
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    try:
        with open_chart_cluster(tmp_path_factory.mktemp("chart-cluster"), say) as cluster:
            yield cluster
    except NoApiServerError as error:
        lack(error)


@pytest.fixture
def clean_cluster(chart_cluster: ChartCluster) -> Iterator[ChartCluster]:
    """Yield the control plane, and then remove everything that the test has installed."""
    yield chart_cluster
    chart_cluster.sweep()


@pytest.fixture
def cluster_helm(helm: Helm, chart_cluster: ChartCluster) -> Helm:
    """Return Helm with an administrator's permissions."""
    return helm.with_cluster(chart_cluster.kubeconfig)
