"""The core of the engine conformance suite: the list of engines, and the stored runs.

Each scenario runs once per engine in a session. The first test that reads a scenario starts the
run; later tests read the stored result, the ledger, and the files on the volume.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runtime_fixtures import enter_local_ray
from strandline.engine.core.ports import RunProgress
from strandline.ledger.checks.verification import verify
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.records.entries import FailureRecord
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.engines import ENGINES, IN_DRIVER, ON_ONE_MACHINE, works_in_driver
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.names import NO_OUTPUTS
from strandline.storage.outputs.remote import open_outputs

# The engine whose results all others must reproduce.
REFERENCE = IN_DRIVER


class Restriction(NamedTuple):
    """A scenario that an engine cannot complete.

    Attributes:
        reason: the reason, and the test that covers the engine's own behavior.
    """

    reason: str


RESTRICTIONS: Mapping[tuple[str, str], Restriction] = {
    ("casualties", "inline"): Restriction(
        "the driver runs the stages, so a hang or a crash ends the attempt: "
        "tests/runtime/test_timeouts.py, tests/runtime/test_poison.py",
    ),
}


def list_engines(
    accepts: Callable[[str], bool] = lambda _: True, *, more: bool = False
) -> pytest.MarkDecorator:
    """Parametrize a test over the engines of the product.

    Args:
        accepts: returns True for the engines to use.
        more: True to mark all engines except those on one machine for the second tier.
    """
    params = []
    for engine in filter(accepts, ENGINES):
        marks = [pytest.mark.more] if more and engine not in ON_ONE_MACHINE else []
        params.append(pytest.param(engine, marks=marks))
    return pytest.mark.parametrize("engine", params)


def is_pooled(engine: str) -> bool:
    """Return True if the engine runs stages in worker processes."""
    return not works_in_driver(engine)


def completes(scenario: str) -> Callable[[str], bool]:
    """Return a filter for engines that complete a scenario without restrictions."""
    return lambda engine: (scenario, engine) not in RESTRICTIONS


every = list_engines()


class Effort(NamedTuple):
    """Metrics of one stage for one source, without the seconds."""

    rows_in: int
    rows_out: int
    size: int


@dataclass(frozen=True)
class StoredRun:
    """A finished attempt and its files.

    Attributes:
        volume: the volume, or None if the attempt ran without a ledger.
        reports: for each progress report, the number of tasks that reached each stage.
    """

    plan: PipelinePlan
    result: AttemptResult
    volume: Path | None
    reports: list[list[int]] = field(default_factory=list)
    outputs: dict[str, bytes] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    failures: dict[str, FailureRecord] = field(default_factory=dict)
    efforts: dict[tuple[str, str], Effort] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, tuple[int, ...]]:
        """Tasks and rows of each stage."""
        return {
            name: (
                each.tasks_in,
                each.tasks_out,
                each.filtered,
                each.failed,
                each.rows_in,
                each.rows_out,
                each.dead,
            )
            for name, each in self.result.counts.items()
        }


class Workspace:
    """Runs attempts of one scenario on one engine.

    Args:
        engine: the engine under test.
        shared: folder of input files that all engines read.
        folder: an empty folder for volumes and outputs.
    """

    def __init__(self, engine: str, shared: Path, folder: Path) -> None:
        self.engine = engine
        self.shared = shared
        self.folder = folder

    def run(
        self,
        plan: PipelinePlan,
        volume: Path | None,
        must_stop: Callable[[RunProgress], bool] | None = None,
        **settings: Any,
    ) -> StoredRun:
        """Run one attempt and copy its results.

        Args:
            must_stop: function of a progress report. The attempt stops when the function returns
                True.
            settings: fields of the attempt's configuration.
        """
        reports: list[list[int]] = []
        stops: list[bool] = []

        def report(progress: RunProgress) -> None:
            reports.append([counts.tasks_in for counts in progress.flow.counts.values()])
            if must_stop is not None and must_stop(progress):
                stops.append(True)

        config = AttemptConfig(plan, volume, **{"engine": self.engine, **settings})
        result = run_attempt(config, lambda: bool(stops), report)
        stored = StoredRun(plan, result, volume, reports)
        read_results(stored)
        return stored


def read_results(run: StoredRun) -> None:
    """Copy outputs, artifacts, and ledger entries into a stored run."""
    root = Path(run.result.output)
    run.outputs.update(read_outputs(root))
    if run.volume is None:
        run.artifacts.update(read_files(root.with_name(f"{root.name}-artifacts")))
        return
    folder = PipelineFolder.on_volume(run.volume, run.plan.namespace, run.plan.name)
    run.artifacts.update(read_files(folder.latest / "artifacts"))
    store = Store(folder.ledger, readonly=True)
    try:
        run.failures.update({failure.key: failure for _, failure in store.list_failures()})
        for _, _, record in store.list_records():
            for each in record.efforts:
                effort = Effort(each.rows_in, each.rows_out, each.size)
                run.efforts[record.key, each.stage] = effort
        run.problems.extend(verify(store, open_outputs(run.result.output)).problems)
        run.problems.extend(verify_pieces(store, folder.shards).problems)
    finally:
        store.close()


def read_outputs(root: Path) -> dict[str, bytes]:
    """Return the output files by relative path."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in NO_OUTPUTS
    }


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name. Return an empty dictionary for a missing folder."""
    return {path.name: path.read_bytes() for path in folder.glob("*")}


Scenario = Callable[[Workspace], Mapping[str, StoredRun]]


class ConformanceRuns:
    """Runs each scenario once per engine and keeps the results for the session.

    Args:
        folder: folder for inputs, volumes, and outputs.
        ray_folder: folder for the shared local Ray.
    """

    def __init__(self, folder: Path, ray_folder: Path) -> None:
        self._folder = folder
        self._ray_folder = ray_folder
        self._done: dict[tuple[str, str], Mapping[str, StoredRun] | Exception] = {}

    def get(self, scenario: Scenario, engine: str) -> Mapping[str, StoredRun]:
        """Return the attempts of a scenario by name. The first call per engine runs the scenario.

        Raises:
            Exception: the error that ended the scenario, again for each test that reads it.
        """
        place = scenario.__name__, engine
        if place not in self._done:
            try:
                self._done[place] = scenario(self.enter(scenario.__name__, engine))
            except Exception as error:  # noqa: BLE001 - raised below
                self._done[place] = error
        found = self._done[place]
        if isinstance(found, Exception):
            raise found
        return found

    def enter(self, name: str, engine: str) -> Workspace:
        """Create a workspace for an engine. Start the shared Ray if the engine needs Ray."""
        if engine not in ON_ONE_MACHINE:
            enter_local_ray(self._ray_folder)
        shared, folder = self._folder / "shared", self._folder / name / engine
        for each in (shared, folder):
            each.mkdir(parents=True, exist_ok=True)
        return Workspace(engine, shared, folder)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, ray_folder: Path) -> ConformanceRuns:
    """Stored runs of the session."""
    return ConformanceRuns(tmp_path_factory.mktemp("engines"), ray_folder)
