"""Tests all states of a ledger against all gates that protect readers of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import failing_stages
from number_runs import Item, NumberRuns
from pipeline_runs import CLOCK, crashing_at_step
from strandline.cli.app.targets import Target, order_targets
from strandline.cli.card.card import render_card
from strandline.cli.card.reading import read_card
from strandline.cli.report.reading import read_facts
from strandline.cli.report.sections.overview import name_state
from strandline.cli.views.attempt import AttemptStanding
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.run.manifest.manifest import read_manifest
from strandline.run.release.push.pushing import push
from strandline.run.revise.repair import release_sources, repair_outputs
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import resolve
from strandline_api.documents.problems import SpecError
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.outcome.exit_codes import ExitCode

NAME, FILES, ROWS = "gated", 3, 10
THREES = {"use": "failing_stages:RefuseThrees", "onError": "deadLetter"}
BEAR = {"use": "failing_stages:BreakOn"}
BREAK = BEAR | {"with": {"number": 5}}
ADD = {"use": "tuned_stages:Add", "with": {"by": 1000}}


class Gates(NumberRuns):
    """A pipeline that publishes only complete runs, and the gates that protect its readers."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, NAME, FILES, ROWS)
        self.place = folder / "published"
        self.monkeypatch = monkeypatch
        self.stages: tuple[Item, ...] = ()
        self.options: dict[str, Any] = {}

    def run(self, *stages: Item, name: str | None = None, **options: Any) -> ExitCode:
        self.stages, self.options = stages, options
        publish = {"require": {}, "to": str(self.place)}
        return super().run(THREES, *stages, name=name, publish=publish, **options)

    def retry(self) -> ExitCode | None:
        """Retry dead letters in an attempt that runs to its end.

        Return the result, or None if the retry is refused.
        """
        failing_stages.MENDED.add("threes")
        options = {**self.options, "dead_letters": "refuse-threes"}
        try:
            return self.run(*self.stages, **options)
        except StrandlineError:
            return None

    def crash(self, step: str, *stages: Item, **options: Any) -> None:
        """Run, and simulate a crash of the process at the first step with this name."""
        with crashing_at_step(step, self.monkeypatch):
            self.run(*stages, **options)

    @property
    def folder(self) -> PipelineFolder:
        return PipelineFolder.on_volume(self.passes.volume, "default", NAME)

    def repair(self) -> None:
        repair_outputs(self.folder, str(self.output))

    def remove_output(self) -> None:
        next(self.output.glob("???/*/*.parquet")).unlink()

    def list_open(self) -> set[str]:
        """Return the names of open gates. Two gates open only when an attempt ends."""
        gates = {
            "push": self._is_pushed,
            "after": self._may_follow,
            "card": self._is_card_of_all,
            "report": self._is_report_of_all,
        }
        found = {name for name, is_open in gates.items() if is_open()}
        before = self._find_latest()
        if self.retry() is not None:
            found |= {"latest"} if self._find_latest() != before else set()
            found |= {"publish.to"} if str(self.place) in self.outcome.message else set()
        return found

    def _find_latest(self) -> str | None:
        found = resolve(self.folder)
        return None if found is None else found.identity.name

    def _read_plan(self) -> PipelinePlan:
        path = self.passes.folder / f"{NAME}.yaml"
        return read_manifest(path, volume=self.passes.volume).plan

    def _is_pushed(self) -> bool:
        target = self.passes.folder / "pushed"
        try:
            push(self._read_plan(), self.folder, str(target), lambda: b"", CLOCK)
        except StrandlineError:
            return False
        return True

    def _may_follow(self) -> bool:
        head = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationPipeline"}
        spec = {
            "source": {"use": "files"},
            "stages": [],
            "sink": {"use": "jsonl"},
            "after": [{"name": NAME}],
        }
        after = {**head, "metadata": {"name": "after"}, "spec": spec}
        target = Target(Path("after.yaml"), CurationPipeline.model_validate(after))
        try:
            order_targets([target], self.passes.volume)
        except SpecError:
            return False
        return True

    def _is_card_of_all(self) -> bool:
        try:
            card = render_card(read_card(self._read_plan(), self.folder, 0.0, NAME, None))
        except StrandlineError:
            return False
        return "not complete" not in card.lower()

    def _is_report_of_all(self) -> bool:
        return (
            name_state(read_facts(self._read_plan(), self.folder, 0.0))[0]
            == AttemptStanding.COMPLETED
        )


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gates]:
    failing_stages.MENDED.clear()
    yield Gates(tmp_path, monkeypatch)
    failing_stages.MENDED.clear()


def complete(gates: Gates) -> None:
    assert ExitCode.COMPLETE is gates.run(BEAR)


def stop_in_the_listing(gates: Gates) -> None:
    gates.crash("listing.marked", BEAR)


def stop_in_a_second_listing(gates: Gates) -> None:
    complete(gates)
    gates.write(7, range(70, 80))
    gates.crash("listing.marked", BEAR)


def fail_a_source(gates: Gates) -> None:
    assert ExitCode.SOURCES_FAILED is gates.run(BREAK)


def quarantine_a_source(gates: Gates) -> None:
    quarantine = {"after": 1, "tolerate": 1}
    assert ExitCode.COMPLETE is gates.run(BREAK, quarantine=quarantine)


def quarantine_too_many(gates: Gates) -> None:
    assert ExitCode.QUARANTINE_EXCEEDED is gates.run(BREAK, quarantine={"after": 1})


def release_a_source(gates: Gates) -> None:
    quarantine_a_source(gates)
    assert release_sources(gates.folder, None)


def stop_a_redo(gates: Gates) -> None:
    complete(gates)
    gates.crash("commit.begun", ADD, on_change="Redo")


def keep_an_older_recipe(gates: Gates) -> None:
    complete(gates)
    assert ExitCode.COMPLETE is gates.run(ADD, on_change="Continue")


def repair(gates: Gates) -> None:
    remove_an_output(gates)
    assert repair_outputs(gates.folder, str(gates.output)).again


def stop_a_restart(gates: Gates) -> None:
    complete(gates)
    gates.crash("listing.marked", ADD, on_change="Restart")


def remove_an_output(gates: Gates) -> None:
    complete(gates)
    next(gates.output.glob("???/*/*.parquet")).unlink()


def cut_an_output(gates: Gates) -> None:
    complete(gates)
    next(gates.output.glob("???/*/*.parquet")).write_bytes(b"PAR1")


ALL = {"latest", "publish.to", "push", "after", "card", "report"}
STATES: dict[Callable[[Gates], None], set[str]] = {
    complete: ALL,
    stop_in_the_listing: set(),
    stop_in_a_second_listing: set(),
    fail_a_source: set(),
    quarantine_a_source: ALL - {"card"},  # the card lists the sources that are missing
    quarantine_too_many: set(),
    release_a_source: set(),
    stop_a_redo: set(),
    keep_an_older_recipe: ALL,
    repair: set(),
    stop_a_restart: set(),
    remove_an_output: set(),
    cut_an_output: set(),
}


@pytest.mark.parametrize("enter", STATES, ids=lambda enter: enter.__name__)
def test_each_gate_opens_only_for_complete_data_sets(
    gates: Gates, enter: Callable[[Gates], None]
) -> None:
    enter(gates)
    assert STATES[enter] == gates.list_open()
