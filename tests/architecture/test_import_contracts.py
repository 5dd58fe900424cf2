"""Every import contract is kept, and a planted fault shows that it would be noticed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grimp
import pytest

from source_tree import PACKAGES, ROOT, TRIAL_PACKAGES

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CONTRACTS: list[dict[str, Any]] = CONFIG["contracts"]
# One process lints again and again: half of what a lint takes is to load import-linter.
LINT = """
import io, json, sys
from contextlib import redirect_stdout
from importlinter.cli import lint_imports_command

sys.path.insert(0, "")
for _ in sys.stdin:
    text, code = io.StringIO(), 0
    with redirect_stdout(text):
        try:
            lint_imports_command(["--no-cache", "--no-logo"])
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps([code, text.getvalue()]), flush=True)
"""

LAYERS = "The rooms of the runtime are layers"
ROOMS = "The rooms of the operator are layers"
DECIDE = "What the operator decides is in layers"
ATTEMPTS = "What is decided of an attempt is in layers"
RECONCILE = "What the operator reads and does is in layers"
DRIVERS = "What drivers are asked is in layers"
REPORT = "What is reported of a pass is in layers"
PODS = "What makes up a pod is in layers"
PURE = "Decisions know no clock, no chance and no file"
NO_RUNTIME = "The operator does not know the runtime"
KOPF = "Only the operator's handlers know kopf"
SERVERS = "Only the operator's cluster room talks to servers"
PROMETHEUS = "Only the operator's metrics know Prometheus"
API = "The API knows pydantic and nothing of ours"
CRON = "Only one module knows cron"
LMDB = "Only the store knows lmdb"
STORES = "Stores behind URLs are opened in one place, which keeps no listing"
RAY = "Only the engine's two Ray rooms know Ray"
LINEAGE = "Only lineage knows OpenLineage"
KUBERNETES = "The runtime does not know Kubernetes"
TERMINAL = "Only the command line knows click and rich"
YAML = "YAML is read in one room and written by the command line"
WORKER = "A worker loads no manifest, no ledger and no other stages"
ENGINE = "The rooms of the engine are layers"
LEDGER = "The modules of the ledger are layers"
RUN = "The rooms of a run are layers"
CLIENTS = "Only one module knows the client of a target"
TALLY = "The tally knows no disk and no clock"
FLOW = "The flow knows no pool and no process"
CHOICE = "An engine is chosen in one place"
PORTS = "What engines share opens no ledger"
STATISTICS = "Statistics are numbers and strings"
VIEWS = "A view is shown what others have read"
CIRCLE = "No room imports in a circle"
TRIALS = "The product knows nothing of what measures and tries it"

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
    (
        ROOMS,
        "strandline_operator/model/plan.py",
        "import strandline_operator.render.pods.templates",
    ),
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
    (
        ROOMS,
        "strandline_operator/lineage/reporting.py",
        "import strandline_operator.metrics.numbers",
    ),
    (ROOMS, "strandline_operator/newroom.py", "X = 1"),
    (
        DECIDE,
        "strandline_operator/decide/obstacles/obstacles.py",
        "import strandline_operator.decide.attempts.stop",
    ),
    (
        DECIDE,
        "strandline_operator/decide/attempts/ending.py",
        "import strandline_operator.decide.run.deadline",
    ),
    (
        DECIDE,
        "strandline_operator/decide/verdict.py",
        "import strandline_operator.decide.attempts.silence",
    ),
    (DECIDE, "strandline_operator/decide/newroom.py", "X = 1"),
    (
        ATTEMPTS,
        "strandline_operator/decide/attempts/ending.py",
        "import strandline_operator.decide.attempts.stop",
    ),
    (
        RECONCILE,
        "strandline_operator/reconcile/caches/pods.py",
        "import strandline_operator.reconcile.schedule",
    ),
    (
        RECONCILE,
        "strandline_operator/reconcile/observe.py",
        "import strandline_operator.reconcile.enact",
    ),
    (
        RECONCILE,
        "strandline_operator/reconcile/readers.py",
        "import strandline_operator.reconcile.observe",
    ),
    (
        DRIVERS,
        "strandline_operator/reconcile/drivers/logs.py",
        "import strandline_operator.reconcile.drivers.dialogue",
    ),
    (
        REPORT,
        "strandline_operator/decide/run/report/summary.py",
        "import strandline_operator.decide.run.report.events",
    ),
    (
        PODS,
        "strandline_operator/render/pods/claims.py",
        "import strandline_operator.render.pods.overlay",
    ),
    (PURE, "strandline_operator/decide/run/deadline.py", "import time"),
    (PURE, "strandline_operator/decide/evidence.py", "from asyncio import sleep"),
    (PURE, "strandline_operator/decide/run/lineage.py", "import strandline_api.outcome.lineage"),
    (PURE, "strandline_operator/render/pods/templates.py", "import yaml"),
    (
        NO_RUNTIME,
        "strandline_operator/decide/obstacles/obstacles.py",
        "import strandline.plan.token",
    ),
    (NO_RUNTIME, "strandline_operator/render/pods/templates.py", "import ray"),
    (NO_RUNTIME, "strandline_operator/reconcile/schedule.py", "import lmdb"),
    (KOPF, "strandline_operator/reconcile/service.py", "import kopf"),
    (KOPF, "strandline_operator/cluster/client.py", "from kopf import ConnectionInfo"),
    (SERVERS, "strandline_operator/reconcile/observe.py", "import kubernetes.aio.client"),
    (SERVERS, "strandline_operator/handlers/registry.py", "from aiohttp import web"),
    (PROMETHEUS, "strandline_operator/reconcile/passes.py", "import prometheus_client"),
    (CRON, "strandline_operator/decide/run/schedule.py", "import cronsim"),
    (API, "strandline_api/names.py", "import strandline.plan.token"),
    (API, "strandline_api/names.py", "import strandline_operator.model.plan"),
    (API, "strandline_api/names.py", "import yaml"),
    (STORES, "strandline/stages/sources/listing.py", "import fsspec"),
    (LMDB, "strandline/ledger/store/index.py", "import lmdb"),
    (RAY, "strandline/engine/core/flow.py", "import ray"),
    (RAY, "strandline/run/attempt/attempt.py", "from ray.exceptions import RayError"),
    (LINEAGE, "strandline/run/attempt/attempt.py", "import openlineage.client"),
    (LINEAGE, "strandline_operator/reconcile/passes.py", "import openlineage.client"),
    (KUBERNETES, "strandline/cli/views/format.py", "import kubernetes.client"),
    (KUBERNETES, "strandline/engine/ray/worker.py", "import kopf"),
    (KUBERNETES, "strandline/run/attempt/attempt.py", "import strandline_operator.model.plan"),
    (TERMINAL, "strandline/run/attempt/outcome.py", "import click"),
    (TERMINAL, "strandline/ledger/entries.py", "from rich.table import Table"),
    (YAML, "strandline/plan/pipeline.py", "import yaml"),
    (WORKER, "strandline/engine/call/setup.py", "import strandline.ledger.entries"),
    (WORKER, "strandline/plan/errors.py", "import strandline_api.documents.documents"),
    (ENGINE, "strandline/engine/call/slots.py", "import strandline.engine.core.ports"),
    (ENGINE, "strandline/engine/core/pools.py", "import strandline.engine.autoscaler.model"),
    (ENGINE, "strandline/engine/ray/demand.py", "import strandline.engine.inline"),
    (ENGINE, "strandline/engine/ray/demand.py", "import strandline.engine.ray_data.window"),
    (ENGINE, "strandline/engine/newroom.py", "X = 1"),
    (LEDGER, "strandline/ledger/tally.py", "import strandline.ledger.location"),
    (LEDGER, "strandline/ledger/store/index.py", "import strandline.ledger.gather.space"),
    (LEDGER, "strandline/ledger/lease.py", "import strandline.ledger.keeping.keeper"),
    (LEDGER, "strandline/ledger/newroom.py", "X = 1"),
    (RUN, "strandline/run/history/samples.py", "import strandline.run.supervise.ending"),
    (RUN, "strandline/run/supervise/ending.py", "import strandline.run.attempt.outcome"),
    (RUN, "strandline/run/attempt/outcome.py", "import strandline.run.doctor.facts"),
    (RUN, "strandline/run/newroom.py", "X = 1"),
    (CLIENTS, "strandline/run/handover/pushing.py", "import huggingface_hub"),
    (TALLY, "strandline/ledger/tally.py", "import strandline.ledger.store.store"),
    (TALLY, "strandline/ledger/tally.py", "import lmdb"),
    (TALLY, "strandline/ledger/tally.py", "import time"),
    (TALLY, "strandline/ledger/entries.py", "import os"),
    (FLOW, "strandline/engine/core/flow.py", "import strandline.engine.core.worker_pool"),
    (FLOW, "strandline/engine/core/flow.py", "import subprocess"),
    (FLOW, "strandline/engine/core/suspects.py", "import threading"),
    (CHOICE, "strandline/run/attempt/attempt.py", "import strandline.engine.inline"),
    (CHOICE, "strandline/cli/app/launch.py", "import strandline.engine.ray.engine"),
    (PORTS, "strandline/engine/core/ports.py", "import strandline.ledger.keeping.keeper"),
    (PORTS, "strandline/engine/core/heartbeat.py", "import strandline.ledger.lease"),
    (STATISTICS, "strandline/statistics/moments.py", "import pyarrow"),
    (VIEWS, "strandline/cli/views/summary.py", "import strandline.ledger.store.rows"),
    (CIRCLE, "strandline/cli/views/format.py", "import strandline.cli.views.summary"),
    (CIRCLE, "strandline_bench/ground/table.py", "import strandline_bench.ledger.size"),
    (CIRCLE, "images/errors.py", "import images.build"),
    (CIRCLE, "kuberay_standin/rayclusters/pods.py", "import kuberay_standin.rayjobs.steps"),
    (CIRCLE, "proving_ground/story.py", "import proving_ground.results.figures"),
    (CIRCLE, "real_node/inside/server.py", "import real_node.trials.trial"),
    (CIRCLE, "scanning/bills.py", "import scanning.scanner"),
    (TRIALS, "strandline/plan/token.py", "import strandline_bench.ground.table"),
    (TRIALS, "strandline_operator/render/pods.py", "import images.names"),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages and their contracts in a folder of their own, to be damaged."""
    folder = tmp_path_factory.mktemp("copy")
    for package in (*PACKAGES, *TRIAL_PACKAGES):
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


Lint = Callable[[], tuple[int, set[str]]]


@pytest.fixture(scope="module")
def lint(copy: Path) -> Iterator[Lint]:
    """Lint the copy as it is then: the exit code, and the names of the broken contracts."""
    process = subprocess.Popen(
        [sys.executable, "-c", LINT],
        cwd=copy,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def lint_again() -> tuple[int, set[str]]:
        stdin.write("\n")
        stdin.flush()
        code, text = json.loads(stdout.readline())
        assert "Contracts: " in text
        return code, set(re.findall(r"(?m)^(.+) BROKEN\b", text))

    yield lint_again
    stdin.close()
    assert process.wait() == 0
    stdout.close()


def test_the_contracts_are_kept(lint: Lint) -> None:
    assert lint() == (0, set())


@pytest.mark.parametrize(("contract", "module", "line"), FAULTS)
def test_a_planted_fault_breaks_its_contract(
    copy: Path, lint: Lint, contract: str, module: str, line: str
) -> None:
    with planted(copy / module, line):
        code, broken = lint()

    assert code == 1
    assert contract in broken


def test_what_was_planted_before_is_forgotten(copy: Path, lint: Lint) -> None:
    with planted(copy / "strandline/ledger/tally.py", "import time"):
        assert lint() == (1, {TALLY})
    assert lint() == (0, set())


def test_every_contract_has_a_planted_fault() -> None:
    assert {contract["name"] for contract in CONTRACTS} == {contract for contract, _, _ in FAULTS}


def test_the_operator_imports_its_own_libraries_alone() -> None:
    graph = grimp.build_graph("strandline_operator", include_external_packages=True, cache_dir=None)
    outside = {module.split(".")[0] for module in graph.modules} - set(sys.stdlib_module_names)
    known = {"aiohttp", "cronsim", "kopf", "kubernetes", "prometheus_client", "pydantic", "yaml"}
    known |= {"attr", "openlineage"}  # where they are installed and asked for
    assert outside - {"strandline_operator", "strandline_api"} <= known


def test_the_api_imports_pydantic_and_the_standard_library_alone() -> None:
    graph = grimp.build_graph("strandline_api", include_external_packages=True, cache_dir=None)
    outside = {module.split(".")[0] for module in graph.modules} - set(sys.stdlib_module_names)
    assert outside - {"strandline_api"} <= {"pydantic", "pydantic_core"}
