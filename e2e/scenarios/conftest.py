"""What scenarios share: one installation, and for each of them a namespace of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proving_ground.figures import Figures
from proving_ground.ground import Ground, lay_ground
from proving_ground.installation import Installation, install
from proving_ground.records import Records

ROOT = Path(__file__).parents[2]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-records",
        action="store_true",
        help="write docs/failures and the table of docs/reliability.md anew",
    )


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    if "KUBECONFIG" not in os.environ:
        pytest.fail("there is no cluster: `make e2e` brings one up, or set KUBECONFIG")
    with install(tmp_path_factory.mktemp("logs")) as installed:
        yield installed


@pytest.fixture
def ground(installation: Installation, request: pytest.FixtureRequest) -> Iterator[Ground]:
    words = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    with lay_ground(installation.kube, installation, words[:40].strip("-")) as ground:
        yield ground


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> Iterator[Figures]:
    """What each scenario measured; a table of it is printed at the end."""
    measured = Figures()
    yield measured
    table = measured.tabulate()
    if table:
        terminal = request.config.pluginmanager.get_plugin("terminalreporter")
        assert terminal is not None  # pytest's own
        terminal.write_line("")
        terminal.write_line(table)
    if request.config.getoption("--update-records"):
        measured.keep(ROOT / "docs" / "reliability.md")


@pytest.fixture
def records(request: pytest.FixtureRequest) -> Records:
    return Records(bool(request.config.getoption("--update-records")))
