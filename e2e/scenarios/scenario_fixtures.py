"""Shared fixtures: one installation for all scenarios, and a namespace for each scenario.

If several processes run scenarios, the controller process installs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from images.errors import ImagesError
from proving_ground.ground import Ground, prepare_ground
from proving_ground.installation.chart import HELM, Installation, find_cluster, install
from proving_ground.installation.rayjobs import find_version
from proving_ground.installation.release_before import ReleaseBefore, find_release_before
from proving_ground.object_store import ObjectStore, serve_objects
from proving_ground.results.figures import Figures
from proving_ground.results.outcomes import Outcomes, Phase
from proving_ground.results.records import Records

ROOT = Path(__file__).parents[2]
FIGURES = pytest.StashKey[Figures]()
OUTCOMES = pytest.StashKey[Outcomes]()
SHARED = pytest.StashKey[ExitStack]()
INSTALLED = pytest.StashKey[Installation]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-records",
        action="store_true",
        help="write docs/failures and the table of docs/reliability.md anew",
    )
    parser.addoption(
        "--record-results",
        action="store_true",
        help="write the result of each scenario to docs/scenarios.md when the scenario ends",
    )


def pytest_configure(config: pytest.Config) -> None:
    is_player = hasattr(config, "workerinput")
    if not is_player and config.getoption("--record-results", default=False):
        config.pluginmanager.register(ResultRecorder(config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Install before the first worker process starts, and pass the installation to all workers."""
    config = node.config
    if INSTALLED not in config.stash:
        folder = config.stash.setdefault(SHARED, ExitStack())
        logs = folder.enter_context(tempfile.TemporaryDirectory())
        config.stash[INSTALLED] = folder.enter_context(install(Path(logs)))
        _name_kuberay(config, config.stash[INSTALLED])
    installed = config.stash[INSTALLED]
    node.workerinput["chart"] = dict(installed.values)
    node.workerinput["kuberay"] = installed.carrier.version if installed.carrier else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collect the measurements of a finished worker process."""
    config = node.config
    version = find_version(config.stash[INSTALLED].carrier)
    measured = config.stash.setdefault(FIGURES, Figures(version, find_day()))
    measured.rows.update(getattr(node, "workeroutput", {}).get("figures", {}))


def pytest_unconfigure(config: pytest.Config) -> None:
    measured = config.stash.get(FIGURES, None)
    if hasattr(config, "workerinput"):
        return
    if measured is not None and config.getoption("--update-records", default=False):
        measured.keep(ROOT / "docs" / "reliability.md")
    config.stash.get(SHARED, ExitStack()).close()


@dataclass(slots=True)
class ResultRecorder:
    """Writes the result of each scenario, even if another process ran the scenario."""

    config: pytest.Config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a phase of a scenario, once the installation's KubeRay version is available."""
        outcomes = self.config.stash.get(OUTCOMES, None)
        if outcomes is not None:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            phase = Phase(report.when, report.outcome, report.duration, reason)
            scenario, _, _ = report.nodeid.rpartition("scenarios/")[2].partition("@")
            outcomes.add(scenario, phase)


@dataclass(frozen=True, slots=True)
class CarrierElsewhere:
    """Placeholder for the RayJob controller in a parallel process, which must not stop it."""

    version: str

    def stop(self) -> None:
        """Fail the test, because scenarios in other processes use the controller."""
        pytest.fail("a scenario that stops KubeRay is to be marked `alone`")

    start = kill = stop


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table at the end, because pytest captures the output of fixture teardown."""
    measured = terminalreporter.config.stash.get(FIGURES, None)
    if measured is not None and measured.rows:
        terminalreporter.section("figures")
        terminalreporter.write_line(measured.tabulate())


@pytest.fixture(scope="session")
def installation(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Installation]:
    if "KUBECONFIG" not in os.environ:
        pytest.fail("there is no cluster: `make e2e` brings one up, or set KUBECONFIG")
    given = getattr(request.config, "workerinput", None)
    if given is not None:
        kube, node = find_cluster()
        version = given["kuberay"]
        carrier = None if version is None else CarrierElsewhere(version)
        yield Installation(kube, node, Path(os.environ[HELM]), given["chart"], carrier)
        return
    with install(tmp_path_factory.mktemp("logs")) as installed:
        _name_kuberay(request.config, installed)
        yield installed


def _name_kuberay(config: pytest.Config, installed: Installation) -> None:
    config.stash[OUTCOMES] = Outcomes(find_version(installed.carrier), find_day())


@pytest.fixture
def ground(installation: Installation, request: pytest.FixtureRequest) -> Iterator[Ground]:
    words = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    with prepare_ground(installation.kube, installation, words[:40].strip("-")) as ground:
        yield ground


@pytest.fixture
def object_store(ground: Ground) -> Iterator[ObjectStore]:
    """Run an object store whose folder is on the local node."""
    if ground.installation.node is None:
        pytest.skip("the server's objects lie in a folder of a node that was brought up here")
    with serve_objects(ground) as store:
        yield store


@pytest.fixture
def unhurried(installation: Installation) -> Iterator[Installation]:
    """Provide the installation without the scenarios' short intervals, for one test."""
    installation.upgrade(settings={})
    yield installation
    installation.upgrade()


@pytest.fixture(scope="session")
def release_before(installation: Installation) -> ReleaseBefore:
    """Provide the previous release. If its files are missing, skip, or fail in CI."""
    try:
        return find_release_before(installation)
    except ImagesError as error:
        output = f"NO RELEASE BEFORE, so no upgrade was tried: {error}"
        if os.environ.get("CI"):
            pytest.fail(output)
        pytest.skip(output)


@pytest.fixture(scope="session")
def figures(installation: Installation, request: pytest.FixtureRequest) -> Iterator[Figures]:
    """Provide the table of measurements, which is printed at the end."""
    version = find_version(installation.carrier)
    measured = Figures(version, find_day())
    request.config.stash[FIGURES] = measured
    yield measured
    given = getattr(request.config, "workeroutput", None)
    if given is not None:
        given["figures"] = measured.rows


def find_day() -> str:
    """Return the current date in UTC."""
    return datetime.now(UTC).date().isoformat()


@pytest.fixture
def records(installation: Installation, request: pytest.FixtureRequest) -> Records:
    """Provide the pages with the user's view.

    Only runs of the stand-in update the pages, because everyone can repeat them.
    """
    is_asked = bool(request.config.getoption("--update-records"))
    return Records(is_update=is_asked and not find_version(installation.carrier))
