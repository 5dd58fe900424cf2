"""Every import contract is kept, and a planted fault breaks it.

Faults are planted in the import graph, in memory. One lint of a damaged copy proves that
import-linter reports the same broken contracts.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter import configuration
from importlinter.application.use_cases import read_user_options
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.independence import IndependenceContract
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import Contract

from source_tree import PACKAGES, ROOT, TRIAL_PACKAGES

configuration.configure()
OPTIONS = read_user_options(str(ROOT / "pyproject.toml"))
CONTRACTS: list[dict[str, Any]] = OPTIONS.contracts_options
OUR_PACKAGES: list[str] = OPTIONS.session_options["root_packages"]
CLASSES: dict[str, type[Contract]] = {
    "acyclic_siblings": AcyclicSiblingsContract,
    "forbidden": ForbiddenContract,
    "independence": IndependenceContract,
    "layers": LayersContract,
}
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

LAYERS = "The rooms of the runtime are layers"
CORE = "The core imports no pack"
STAGES = "A stage knows neither the run nor what drives it"
PACKS = "Packs import each other only where it is declared"
ROOMS = "The rooms of the operator are layers"
BEHIND_PORTS = "Products beside Kubernetes are behind a port"
SCHEDULERS = "Only the list of schedulers knows their products"
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
RAY = "Only the engine's Ray room knows Ray"
LINEAGE = "Only lineage knows OpenLineage"
KUBERNETES = "The runtime does not know Kubernetes"
TERMINAL = "Only the command line knows click and rich"
YAML = "YAML is read in one room and written by the command line"
WORKER = "A worker loads no manifest, no ledger and no other stages"
ENGINE = "The rooms of the engine are layers"
LEDGER = "The modules of the ledger are layers"
RUN = "The rooms of a run are layers"
INSIGHT = "Insight reads only"
CLIENTS = "Only one module knows the client of a target"
TALLY = "The tally knows no disk and no clock"
FLOW = "The flow knows no pool and no process"
CHOICE = "An engine is chosen in one place"
PORTS = "What engines share opens no ledger"
STATISTICS = "Statistics are numbers and strings"
VIEWS = "A view is shown what others have read"
CIRCLE = "No room imports in a circle"
TRIALS = "The product knows nothing of what measures and tries it"

# Each fault has a contract, a module (created if missing), and a line that breaks the contract
# there.
FAULTS = [
    (LAYERS, "strandline/plan/token.py", "import strandline.storage.layout"),
    (CORE, "strandline/data/files/globs.py", "import strandline_packs.sources.files"),
    (LAYERS, "strandline/storage/layout.py", "import strandline.ledger.entries"),
    (CORE, "strandline/ledger/records/entries.py", "import strandline_packs.sources.files"),
    (CORE, "strandline/engine/core/pools.py", "import strandline_packs.sources.files"),
    (STAGES, "strandline_packs/sources/files.py", "import strandline.engine.core.pools"),
    (STAGES, "strandline_packs/web/filter_urls.py", "import strandline.run.attempt.attempt"),
    (PACKS, "strandline_packs/images/pictures.py", "import strandline_packs.video.measures"),
    (PACKS, "strandline_packs/code/decode_python.py", "import strandline_packs.web.item_lists"),
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
    (
        ROOMS,
        "strandline_operator/cluster/watches/watch.py",
        "import strandline_operator.metrics.numbers",
    ),
    (ROOMS, "strandline_operator/metrics/numbers.py", "import strandline_operator.settings"),
    (
        ROOMS,
        "strandline_operator/reconcile/scheduling/queue.py",
        "import strandline_operator.handlers",
    ),
    (
        ROOMS,
        "strandline_operator/integrations/lineage/reporting.py",
        "import strandline_operator.metrics.numbers",
    ),
    (ROOMS, "strandline_operator/newroom.py", "X = 1"),
    (
        BEHIND_PORTS,
        "strandline_operator/integrations/kueue/workloads.py",
        "import strandline_operator.integrations.batch_schedulers",
    ),
    (BEHIND_PORTS, "strandline_operator/integrations/newroom.py", "X = 1"),
    (
        SCHEDULERS,
        "strandline_operator/decide/attempts/queueing.py",
        "import strandline_operator.integrations.kueue.workloads",
    ),
    (
        SCHEDULERS,
        "strandline_operator/render/rayjob.py",
        "import strandline_operator.integrations.batch_schedulers",
    ),
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
        "import strandline_operator.reconcile.scheduling.schedule",
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
    (PURE, "strandline_operator/decide/evidence/pods.py", "from asyncio import sleep"),
    (PURE, "strandline_operator/decide/run/lineage.py", "import strandline_api.outcome.lineage"),
    (PURE, "strandline_operator/render/pods/templates.py", "import yaml"),
    (
        NO_RUNTIME,
        "strandline_operator/decide/obstacles/obstacles.py",
        "import strandline.plan.token",
    ),
    (NO_RUNTIME, "strandline_operator/render/pods/templates.py", "import ray"),
    (NO_RUNTIME, "strandline_operator/reconcile/scheduling/schedule.py", "import lmdb"),
    (KOPF, "strandline_operator/reconcile/service.py", "import kopf"),
    (KOPF, "strandline_operator/cluster/client.py", "from kopf import ConnectionInfo"),
    (SERVERS, "strandline_operator/reconcile/observe.py", "import kubernetes.aio.client"),
    (SERVERS, "strandline_operator/handlers/registry.py", "from aiohttp import web"),
    (PROMETHEUS, "strandline_operator/reconcile/passes.py", "import prometheus_client"),
    (CRON, "strandline_operator/decide/run/timetable/schedule.py", "import cronsim"),
    (API, "strandline_api/names.py", "import strandline.plan.token"),
    (API, "strandline_api/names.py", "import strandline_operator.model.plan"),
    (API, "strandline_api/names.py", "import yaml"),
    (STORES, "strandline/data/files/listing.py", "import fsspec"),
    (LMDB, "strandline/ledger/store/index.py", "import lmdb"),
    (RAY, "strandline/engine/flow/flow.py", "import ray"),
    (RAY, "strandline/run/attempt/attempt.py", "from ray.exceptions import RayError"),
    (LINEAGE, "strandline/run/attempt/attempt.py", "import openlineage.client"),
    (LINEAGE, "strandline_operator/reconcile/passes.py", "import openlineage.client"),
    (KUBERNETES, "strandline/cli/views/format.py", "import kubernetes.client"),
    (KUBERNETES, "strandline/engine/ray/worker.py", "import kopf"),
    (KUBERNETES, "strandline/run/attempt/attempt.py", "import strandline_operator.model.plan"),
    (TERMINAL, "strandline/run/attempt/outcome.py", "import click"),
    (TERMINAL, "strandline/ledger/records/entries.py", "from rich.table import Table"),
    (YAML, "strandline/plan/pipeline.py", "import yaml"),
    (WORKER, "strandline/engine/call/setup.py", "import strandline.ledger.entries"),
    (WORKER, "strandline/plan/errors.py", "import strandline_api.documents.documents"),
    (ENGINE, "strandline/engine/call/slots.py", "import strandline.engine.core.ports"),
    (ENGINE, "strandline/engine/core/pools.py", "import strandline.engine.autoscaler.model"),
    (ENGINE, "strandline/engine/ray/scaling/demand.py", "import strandline.engine.inline"),
    (ENGINE, "strandline/engine/newroom.py", "X = 1"),
    (LEDGER, "strandline/ledger/tally.py", "import strandline.ledger.location"),
    (LEDGER, "strandline/ledger/store/index.py", "import strandline.ledger.gather.space"),
    (LEDGER, "strandline/ledger/access/lease.py", "import strandline.ledger.writer.writer"),
    (LEDGER, "strandline/ledger/newroom.py", "X = 1"),
    (RUN, "strandline/run/insight/samples.py", "import strandline.run.supervise.ending"),
    (RUN, "strandline/run/supervise/ending.py", "import strandline.run.attempt.outcome"),
    (RUN, "strandline/run/revise/redo.py", "import strandline.run.attempt.outcome"),
    (RUN, "strandline/run/release/moving.py", "import strandline.run.revise.repair"),
    (RUN, "strandline/run/newroom.py", "X = 1"),
    (
        INSIGHT,
        "strandline/run/insight/records.py",
        "import strandline.ledger.writer.writer",
    ),
    (
        INSIGHT,
        "strandline/run/insight/doctor/checks.py",
        "import strandline.storage.outputs.disk.whole_files",
    ),
    (CLIENTS, "strandline/run/release/push/pushing.py", "import huggingface_hub"),
    (TALLY, "strandline/ledger/tally.py", "import strandline.ledger.store.store"),
    (TALLY, "strandline/ledger/tally.py", "import lmdb"),
    (TALLY, "strandline/ledger/tally.py", "import time"),
    (TALLY, "strandline/ledger/records/entries.py", "import os"),
    (FLOW, "strandline/engine/flow/flow.py", "import strandline.engine.core.worker_pool"),
    (FLOW, "strandline/engine/flow/flow.py", "import subprocess"),
    (FLOW, "strandline/engine/flow/suspects.py", "import threading"),
    (CHOICE, "strandline/run/attempt/attempt.py", "import strandline.engine.inline"),
    (CHOICE, "strandline/cli/app/driver/launch.py", "import strandline.engine.ray.engine"),
    (PORTS, "strandline/engine/core/ports.py", "import strandline.ledger.writer.writer"),
    (PORTS, "strandline/ledger/access/heartbeat.py", "import strandline.ledger.access.lease"),
    (STATISTICS, "strandline/data/statistics/moments.py", "import pyarrow"),
    (STATISTICS, "strandline/data/statistics/moments.py", "import strandline.plan.token"),
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


Fault = tuple[str, str, str]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*OUR_PACKAGES, include_external_packages=True, cache_dir=None)


def plant_in_graph(graph: grimp.ImportGraph, module: str, line: str) -> None:
    """Add the import that a line makes to a module of a graph."""
    importer = ".".join(Path(module).with_suffix("").parts)
    if importer not in graph.modules:
        graph.add_module(importer)
    (statement,) = ast.parse(line).body
    if isinstance(statement, ast.Import):
        imported = statement.names[0].name
    elif isinstance(statement, ast.ImportFrom) and statement.module:
        imported = statement.module
    else:
        return
    if imported.partition(".")[0] not in OUR_PACKAGES:
        imported = imported.partition(".")[0]  # the graph contains external packages as a whole
        if imported not in graph.modules:
            graph.add_module(imported, is_squashed=True)
    graph.add_import(importer=importer, imported=imported)


def plant_in_files(folder: Path, module: str, line: str) -> None:
    """Append a line to a module in a copy of the packages."""
    path = folder / module
    before = path.read_text() if path.exists() else ""
    path.write_text(f"{before}\n{line}\n")


def find_broken(
    graph: grimp.ImportGraph, contracts: Iterable[dict[str, Any]] = CONTRACTS
) -> set[str]:
    """Return the names of the contracts that a graph breaks."""
    return {
        options["name"]
        for options in contracts
        if not CLASSES[options["type"]](options["name"], OPTIONS.session_options, options)
        .check(deepcopy(graph), verbose=False)
        .kept
    }


def test_the_contracts_are_kept(graph: grimp.ImportGraph) -> None:
    assert find_broken(graph) == set()


@pytest.mark.parametrize(("contract", "module", "line"), FAULTS)
def test_a_planted_fault_breaks_its_contract(
    graph: grimp.ImportGraph, contract: str, module: str, line: str
) -> None:
    damaged = deepcopy(graph)
    plant_in_graph(damaged, module, line)

    own = [options for options in CONTRACTS if options["name"] == contract]
    assert find_broken(damaged, own) == {contract}


def test_import_linter_reports_the_contracts_that_the_graph_breaks(
    graph: grimp.ImportGraph, tmp_path: Path
) -> None:
    faults: dict[str, Fault] = {fault[0]: fault for fault in reversed(FAULTS)}
    damaged = deepcopy(graph)
    copy_packages(tmp_path)
    # Break every second contract. The others must be reported as kept.
    for _, module, line in list(faults.values())[::2]:
        plant_in_graph(damaged, module, line)
        plant_in_files(tmp_path, module, line)

    broken = find_broken(damaged)
    assert len(FAULTS) > len(CONTRACTS) > len(broken) >= len(CONTRACTS) / 2
    assert lint(tmp_path) == (1, broken)


def copy_packages(folder: Path) -> None:
    """Copy the packages and their contracts to a folder."""
    for package in (*PACKAGES, *TRIAL_PACKAGES):
        if (ROOT / package).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, folder / Path(package).name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)


def lint(folder: Path) -> tuple[int, set[str]]:
    """Run import-linter; return its exit code and the names of the broken contracts."""
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts: " in done.stdout, done.stderr
    return done.returncode, set(re.findall(r"(?m)^(.+) BROKEN\b", done.stdout))


def test_every_contract_has_a_planted_fault() -> None:
    assert {contract["name"] for contract in CONTRACTS} == {contract for contract, _, _ in FAULTS}


def test_the_operator_imports_its_own_libraries_alone() -> None:
    graph = grimp.build_graph("strandline_operator", include_external_packages=True, cache_dir=None)
    outside = {module.split(".")[0] for module in graph.modules} - set(sys.stdlib_module_names)
    known = {"aiohttp", "cronsim", "kopf", "kubernetes", "prometheus_client", "pydantic", "yaml"}
    known |= {"attr", "openlineage"}  # optional dependencies
    assert outside - {"strandline_operator", "strandline_api"} <= known


def test_the_api_imports_pydantic_and_the_standard_library_alone() -> None:
    graph = grimp.build_graph("strandline_api", include_external_packages=True, cache_dir=None)
    outside = {module.split(".")[0] for module in graph.modules} - set(sys.stdlib_module_names)
    assert outside - {"strandline_api"} <= {"pydantic", "pydantic_core"}
