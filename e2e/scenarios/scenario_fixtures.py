"""What scenarios share: one installation, and for each of them a namespace of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from images.errors import ImagesError
from proving_ground.ground import Ground, prepare_ground
from proving_ground.installation.chart import Installation, install
from proving_ground.installation.rayjobs import find_version
from proving_ground.installation.release_before import ReleaseBefore, find_release_before
from proving_ground.object_store import ObjectStore, serve_objects
from proving_ground.results.figures import Figures
from proving_ground.results.outcomes import Outcomes, Phase
from proving_ground.results.records import Records

ROOT = Path(__file__).parents[2]
FIGURES = pytest.StashKey[Figures]()
OUTCOMES = pytest.StashKey[Outcomes]()


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record the phases of each scenario, once the installation has named its KubeRay."""
    report = yield
    outcomes = item.config.stash.get(OUTCOMES, None)
    if outcomes is not None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        phase = Phase(report.when, report.outcome, report.duration, reason)
        outcomes.add(report.nodeid.rpartition("scenarios/")[2], phase)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table here: what a fixture says while it is torn down is captured."""
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
    with install(tmp_path_factory.mktemp("logs")) as installed:
        if request.config.getoption("--record-results"):
            version, day = find_version(installed.carrier), find_day()
            request.config.stash[OUTCOMES] = Outcomes(version, day)
        yield installed


@pytest.fixture
def ground(installation: Installation, request: pytest.FixtureRequest) -> Iterator[Ground]:
    words = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    with prepare_ground(installation.kube, installation, words[:40].strip("-")) as ground:
        yield ground


@pytest.fixture
def object_store(ground: Ground) -> Iterator[ObjectStore]:
    """Serve an object store from a folder of a node that was brought up here."""
    if ground.installation.node is None:
        pytest.skip("the server's objects lie in a folder of a node that was brought up here")
    with serve_objects(ground) as store:
        yield store


@pytest.fixture
def unhurried(installation: Installation) -> Iterator[Installation]:
    """Provide the installation without a setting of ours; others have theirs back afterwards."""
    installation.upgrade(settings={})
    yield installation
    installation.upgrade()


@pytest.fixture(scope="session")
def release_before(installation: Installation) -> ReleaseBefore:
    """Provide the release before; without its sources or images skip, which in CI is a failure."""
    try:
        return find_release_before(installation)
    except ImagesError as error:
        output = f"NO RELEASE BEFORE, so no upgrade was tried: {error}"
        if os.environ.get("CI"):
            pytest.fail(output)
        pytest.skip(output)


@pytest.fixture(scope="session")
def figures(installation: Installation, request: pytest.FixtureRequest) -> Iterator[Figures]:
    """Provide the table of what each scenario measured, and print it at the end."""
    version = find_version(installation.carrier)
    measured = Figures(version, find_day())
    request.config.stash[FIGURES] = measured
    yield measured
    if request.config.getoption("--update-records"):
        measured.keep(ROOT / "docs" / "reliability.md")


def find_day() -> str:
    """Return the day of the run."""
    return datetime.now(UTC).date().isoformat()


@pytest.fixture
def records(installation: Installation, request: pytest.FixtureRequest) -> Records:
    """Provide the pages of the stand-in, which everybody has; of KubeRay there is a column."""
    is_asked = bool(request.config.getoption("--update-records"))
    return Records(is_update=is_asked and not find_version(installation.carrier))
