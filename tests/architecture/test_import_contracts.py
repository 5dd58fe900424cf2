"""Every import contract is kept, and a planted fault shows that it would be noticed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grimp
import pytest

from source_tree import PACKAGES, ROOT

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CONTRACTS: list[dict[str, Any]] = CONFIG["contracts"]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

LAYERS = "The rooms of the runtime are layers"
ROOMS = "The rooms of the operator are layers"
NO_RUNTIME = "The operator does not know the runtime"
KOPF = "Only the operator's handlers know kopf"
SERVERS = "Only the operator's cluster room talks to servers"
PROMETHEUS = "Only the operator's metrics know Prometheus"
API = "The API knows pydantic and nothing of ours"
LMDB = "Only the store knows lmdb"
RAY = "Only the engine's two Ray rooms know Ray"
KUBERNETES = "The runtime does not know Kubernetes"
TERMINAL = "Only the command line knows click and rich"
YAML = "YAML is read in one room and written by the command line"
WORKER = "A worker loads no manifest, no ledger and no other stages"
CIRCLE = "No room imports in a circle"

# Contract, module that gets a line (or is made), the line.
FAULTS = [
    (LAYERS, "strandline/plan/token.py", "import strandline.storage.layout"),
    (LAYERS, "strandline/statistics/moments.py", "import strandline.plan.token"),
    (LAYERS, "strandline/storage/layout.py", "import strandline.ledger.entries"),
    (LAYERS, "strandline/ledger/entries.py", "import strandline.stages.sources.files"),
    (LAYERS, "strandline/engine/core/pools.py", "import strandline.stages.sources.files"),
    (LAYERS, "strandline/stages/sources/files.py", "import strandline.engine.core.pools"),
    (LAYERS, "strandline/engine/core/pools.py", "import strandline.run.attempt.outcome"),
    (LAYERS, "strandline/run/attempt/outcome.py", "import strandline.cli.views.format"),
    (LAYERS, "strandline/newroom.py", "X = 1"),
    (ROOMS, "strandline_operator/model/plan.py", "import strandline_operator.render.pods"),
    (
        ROOMS,
        "strandline_operator/render/order.py",
        "import strandline_operator.decide.obstacles.obstacles",
    ),
    (
        ROOMS,
        "strandline_operator/decide/obstacles/obstacles.py",
        "import strandline_operator.cluster.errors",
    ),
    (
        ROOMS,
        "strandline_operator/decide/obstacles/obstacles.py",
        "import strandline_operator.settings",
    ),
    (ROOMS, "strandline_operator/cluster/watch.py", "import strandline_operator.metrics.numbers"),
    (ROOMS, "strandline_operator/metrics/numbers.py", "import strandline_operator.settings"),
    (ROOMS, "strandline_operator/reconcile/queue.py", "import strandline_operator.handlers"),
    (ROOMS, "strandline_operator/newroom.py", "X = 1"),
    (
        NO_RUNTIME,
        "strandline_operator/decide/obstacles/obstacles.py",
        "import strandline.plan.token",
    ),
    (NO_RUNTIME, "strandline_operator/render/pods.py", "import ray"),
    (NO_RUNTIME, "strandline_operator/reconcile/schedule.py", "import lmdb"),
    (KOPF, "strandline_operator/reconcile/service.py", "import kopf"),
    (KOPF, "strandline_operator/cluster/client.py", "from kopf import ConnectionInfo"),
    (SERVERS, "strandline_operator/reconcile/observe.py", "import kubernetes.aio.client"),
    (SERVERS, "strandline_operator/handlers/registry.py", "from aiohttp import web"),
    (PROMETHEUS, "strandline_operator/reconcile/passes.py", "import prometheus_client"),
    (API, "strandline_api/names.py", "import strandline.plan.token"),
    (API, "strandline_api/names.py", "import strandline_operator.model.plan"),
    (API, "strandline_api/names.py", "import yaml"),
    (LMDB, "strandline/ledger/store/index.py", "import lmdb"),
    (RAY, "strandline/engine/core/flow.py", "import ray"),
    (RAY, "strandline/run/attempt/attempt.py", "from ray.exceptions import RayError"),
    (KUBERNETES, "strandline/cli/views/format.py", "import kubernetes.client"),
    (KUBERNETES, "strandline/engine/ray/worker.py", "import kopf"),
    (KUBERNETES, "strandline/run/attempt/attempt.py", "import strandline_operator.model.plan"),
    (TERMINAL, "strandline/run/attempt/outcome.py", "import click"),
    (TERMINAL, "strandline/ledger/entries.py", "from rich.table import Table"),
    (YAML, "strandline/plan/pipeline.py", "import yaml"),
    (WORKER, "strandline/engine/call/setup.py", "import strandline.ledger.entries"),
    (WORKER, "strandline/plan/errors.py", "import strandline_api.documents.documents"),
    (CIRCLE, "strandline/cli/views/format.py", "import strandline.cli.views.summary"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages and their contracts in a folder of their own, to be damaged."""
    folder = tmp_path_factory.mktemp("copy")
    for package in PACKAGES:
        if (ROOT / package).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, folder / Path(package).name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@contextmanager
def planted(path: Path, line: str) -> Iterator[None]:
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")
    yield
    if before is None:
        path.unlink()
    else:
        path.write_text(before)


def lint(folder: Path) -> tuple[int, set[str]]:
    """Exit code of import-linter in a folder, and the names of the broken contracts."""
    command = [sys.executable, "-c", LINT, "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, set(re.findall(r"(?m)^(.+) BROKEN\b", done.stdout))


def test_the_contracts_are_kept(copy: Path) -> None:
    assert lint(copy) == (0, set())


@pytest.mark.parametrize(("contract", "module", "line"), FAULTS)
def test_a_planted_fault_breaks_its_contract(
    copy: Path, contract: str, module: str, line: str
) -> None:
    with planted(copy / module, line):
        code, broken = lint(copy)

    assert code == 1
    assert contract in broken


def test_every_contract_has_a_planted_fault() -> None:
    assert {contract["name"] for contract in CONTRACTS} == {contract for contract, _, _ in FAULTS}


def test_the_operator_imports_its_own_libraries_alone() -> None:
    graph = grimp.build_graph("strandline_operator", include_external_packages=True, cache_dir=None)
    outside = {module.split(".")[0] for module in graph.modules} - set(sys.stdlib_module_names)
    known = {"aiohttp", "kopf", "kubernetes", "prometheus_client", "pydantic", "yaml"}
    assert outside - {"strandline_operator", "strandline_api"} <= known


def test_the_api_imports_pydantic_and_the_standard_library_alone() -> None:
    graph = grimp.build_graph("strandline_api", include_external_packages=True, cache_dir=None)
    outside = {module.split(".")[0] for module in graph.modules} - set(sys.stdlib_module_names)
    assert outside - {"strandline_api"} <= {"pydantic", "pydantic_core"}
