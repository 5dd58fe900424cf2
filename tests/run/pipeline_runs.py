"""Runs pipelines of one file in sequence on one volume, and reads their output rows."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from strandline.cli.card.delivery import plan_delivery
from strandline.engine.core.ports import RunProgress
from strandline.ledger.access.lease import OnChange
from strandline.ledger.checks.verification import verify
from strandline.ledger.store.store import Store
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.insight.records import AttemptRecord, read_record
from strandline.run.manifest.manifest import read_manifest
from strandline.run.release.push.pushing import PushClock
from strandline.run.revise.cuts.auto_cuts import CutSettings
from strandline.storage import faults
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs
from strandline_api.status.enums import Trigger

CLOCK = PushClock(lambda: 0.0, lambda _: None)


class Passes:
    """Pipelines that run on one volume.

    Args:
        folder: an empty folder for manifests and the volume.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.volume = folder / "volume"

    def run(
        self,
        name: str,
        on_change: str = "Fail",
        trigger: Trigger = Trigger.RUN,
        dead_letters: str | None = None,
        report: Callable[[RunProgress], None] = lambda _: None,
        engine: str = "inline",
        must_stop: Callable[[], bool] = lambda: False,
        **spec: Any,
    ) -> AttemptResult:
        """Run a pipeline in this process. The fields are those of a manifest's `spec`.

        Args:
            dead_letters: stage whose dead letters are retried, and nothing else; None for a normal
                run.
            engine: name of the engine.
            report: receives the progress that the engine shows.
            must_stop: returns True if the run was requested to stop.
        """
        document = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": name},
            "spec": spec,
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        manifest = read_manifest(path, volume=self.volume)
        told = manifest.pipeline.spec
        changes = OnChange(on_change)
        config = AttemptConfig(
            manifest.plan,
            self.volume,
            engine=engine,
            on_change=changes,
            trigger=trigger,
            dead_letters=dead_letters,
            quarantine=told.quarantine,
            publishing=told.publish,
            deliver=plan_delivery(
                manifest.plan, self.volume, told.publish, manifest.pipeline.metadata, CLOCK
            ),
            cuts=CutSettings(told.keep is not None, told.keep_at_most_bytes),
        )
        return run_attempt(config, must_stop, report)

    def find_output(self, name: str) -> Path:
        """Return the pipeline's own output folder."""
        return self._of(name).output

    def read_rows(self, name: str, column: str) -> Counter[Any]:
        """Return the values of a column in all files of a pipeline's folder.

        The files are read as any reader would read them.
        """
        return Counter(row[column] for row in _read_folder(self.find_output(name)))

    def find_problems(self, name: str, output: str | None = None) -> list[str]:
        """Return the problems that `verify` reports."""
        with self.opened(name) as store:
            return verify(store, open_outputs(output or str(self.find_output(name)))).problems

    def read_record(self, name: str, number: int = 1) -> AttemptRecord:
        """Return the record that an attempt left at its end."""
        record = read_record(self._of(name), number)
        assert record is not None
        return record

    @contextmanager
    def opened(self, name: str) -> Iterator[Store]:
        """Open the ledger of a pipeline for reading."""
        store = Store(self._of(name).ledger, readonly=True)
        try:
            yield store
        finally:
            store.close()

    def _of(self, name: str) -> PipelineFolder:
        return PipelineFolder.on_volume(self.volume, "default", name)


def _read_folder(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            yield from pq.read_table(path).to_pylist()
        elif path.suffix == ".jsonl":
            yield from map(json.loads, path.read_text().splitlines())


class CrashError(BaseException):
    """Raised to simulate the end of the process at this point."""


@contextmanager
def crashing_at_step(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the block at the first step with this name. Fail if the step does not occur."""
    reached = []

    def reach(step: str) -> None:
        reached.append(step)
        if step == name:
            raise CrashError(step)

    with monkeypatch.context() as patch:
        patch.setattr(faults, "reach", reach)
        with suppress(CrashError):
            yield
    assert name in reached


@contextmanager
def crashing_at(nth: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the block at its `nth` named step. Fail if the step does not occur."""
    steps = itertools.count()

    def reach(step: str) -> None:
        if next(steps) == nth:
            raise CrashError(step)

    with monkeypatch.context() as patch:
        patch.setattr(faults, "reach", reach)
        with suppress(CrashError):
            yield
    assert next(steps) > nth
