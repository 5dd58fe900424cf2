"""An attempt around its engine: cleanup, lease, release of the lease, and the final verdict."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from attempt_builders import LETTERS
from strandline.engine.core.ports import Ending
from strandline.ledger.errors import LedgerInUseError
from strandline.ledger.records.entries import Standing
from strandline.ledger.store.store import Store
from strandline.plan.errors import code_of
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import describe_error, judge
from strandline.run.insight.records import Witness, read_record
from strandline.run.manifest.manifest import Manifest, read_manifest
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_api.documents.problems import SpecError
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import name_cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Quarantine


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """Create a folder of three small files."""
    folder = tmp_path / "letters"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(name)
    return folder


def write_manifest(letters: Path, on_removed: str = "") -> Manifest:
    path = letters.parent / "letters.yaml"
    text = LETTERS.replace("FOLDER", str(letters)).replace("ON_REMOVED", on_removed)
    path.write_text(text)
    return read_manifest(path, ())


def count_outputs(root: Path) -> int:
    return len([path for path in root.rglob("*.jsonl") if path.is_file()])


def test_incomplete_files_of_a_killed_attempt_are_removed(letters: Path, tmp_path: Path) -> None:
    plan = write_manifest(letters).plan
    run_attempt(AttemptConfig(plan, tmp_path, engine="inline"))
    folder = PipelineFolder.on_volume(tmp_path, "default", "letters")
    record = read_record(folder, 1)
    assert record is not None
    left = folder.output / ".tmp" / f"{record.ledger[:12]}-0001-4711-ab"
    neighbours = folder.output / ".tmp" / "0123456789ab-0001-4711-ab"
    for path in (left, neighbours):
        path.write_text("half")

    run_attempt(AttemptConfig(plan, tmp_path, engine="inline"))

    assert not left.exists()
    assert neighbours.exists()  # another pipeline may still write there


def test_a_trial_of_a_few_sources_removes_nothing(letters: Path, tmp_path: Path) -> None:
    plan = write_manifest(letters, ", onRemoved: Delete").plan
    limited = write_manifest(letters, ", onRemoved: Delete, limit: 1").plan
    deleting = AttemptConfig(plan, tmp_path, engine="inline")
    first = run_attempt(deleting)
    trial = run_attempt(replace(deleting, plan=limited))
    assert trial.standing.removed == 0
    assert count_outputs(Path(first.output)) == 3
    counted = trial.counts[plan.source.name].counters
    assert counted == {"removed sources keep their output: limit is 1": 1}
    (letters / "b.txt").unlink()
    whole = run_attempt(deleting)
    assert (whole.standing.skipped, whole.standing.removed) == (2, 1)
    assert count_outputs(Path(first.output)) == 2


def test_a_changed_file_replaces_only_its_own_output(letters: Path, tmp_path: Path) -> None:
    config = AttemptConfig(write_manifest(letters).plan, tmp_path, engine="inline")
    first = run_attempt(config)
    before = {path: path.stat().st_mtime_ns for path in Path(first.output).rglob("*.jsonl")}
    (letters / "b.txt").write_text("another b")

    second = run_attempt(config)

    after = {path: path.stat().st_mtime_ns for path in Path(first.output).rglob("*.jsonl")}
    assert (second.standing.finished, second.standing.skipped) == (1, 2)
    assert len(after) == 3
    assert len(before.items() & after.items()) == 2


@pytest.mark.parametrize(("on_removed", "left"), [("", 3), (", onRemoved: Delete", 2)])
def test_a_removed_file_keeps_its_output_by_default(
    letters: Path, tmp_path: Path, on_removed: str, left: int
) -> None:
    config = AttemptConfig(write_manifest(letters, on_removed).plan, tmp_path, engine="inline")
    run_attempt(config)
    (letters / "b.txt").unlink()

    outcome = run_attempt(config)

    assert outcome.code is ExitCode.COMPLETE
    assert count_outputs(Path(outcome.output)) == left


def test_a_live_driver_is_not_disturbed(letters: Path, tmp_path: Path) -> None:
    config = AttemptConfig(write_manifest(letters).plan, tmp_path, engine="inline")
    run_attempt(config)
    store = Store(PipelineFolder.on_volume(tmp_path, "default", "letters").ledger)
    parent = find_process(os.getppid())
    assert parent is not None
    store.take_lease(
        {
            "attempt": 7,
            "uid": "another",
            "boot": read_boot_id(),
            "pid": parent.pid,
            "started": parent.started,
            "time": 0.0,
            "ended": False,
        }
    )
    store.close()

    told = f"attempt 7 is still running as process {parent.pid}"
    with pytest.raises(LedgerInUseError, match=told) as refused:
        run_attempt(config)
    outcome = describe_error(refused.value, 0, 0)
    assert (outcome.exit_code, outcome.outcome) == (69, "LEDGER_IN_USE")
    assert name_cause(outcome.evidence).cause is Cause.LEDGER_IN_USE


def test_a_failing_attempt_releases_the_ledger(
    letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = AttemptConfig(write_manifest(letters).plan, tmp_path, engine="inline")
    monkeypatch.setenv("STRANDLINE_FAULT", "output.written:enospc")
    with pytest.raises(VolumeError, match="no space is left"):
        run_attempt(config)
    monkeypatch.delenv("STRANDLINE_FAULT")

    store = Store(PipelineFolder.on_volume(tmp_path, "default", "letters").ledger, readonly=True)
    lease = store.read_meta("lease")
    store.close()
    assert (lease["attempt"], lease["ended"]) == (1, True)
    assert run_attempt(config).code is ExitCode.COMPLETE


def test_a_complete_attempt_is_recorded_as_complete(letters: Path, tmp_path: Path) -> None:
    outcome = run_attempt(AttemptConfig(write_manifest(letters).plan, tmp_path, engine="inline"))

    record = read_record(PipelineFolder.on_volume(tmp_path, "default", "letters"), 1)
    assert record is not None
    assert record.outcome is not None
    assert (record.cause, record.witness) == (None, Witness.DRIVER)
    assert (record.outcome.message, record.outcome.attempt) == (outcome.message, 1)
    assert (record.outcome.sources.finished, record.outcome.remaining) == (3, 3)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (VolumeError("full"), Cause.VOLUME_UNUSABLE),
        (KeyError("x"), Cause.APPLICATION_ERROR),
        (SystemExit(15), Cause.INTERRUPTED),
        (KeyboardInterrupt(), Cause.INTERRUPTED),
    ],
)
def test_an_error_that_ends_an_attempt_is_recorded(
    letters: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    cause: Cause,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("strandline.engine.inline.InlineEngine.run", fail)
    with pytest.raises(type(error)):
        run_attempt(AttemptConfig(write_manifest(letters).plan, tmp_path, engine="inline"))

    record = read_record(PipelineFolder.on_volume(tmp_path, "default", "letters"), 1)
    assert record is not None
    assert (record.cause, record.witness) == (cause, Witness.DRIVER)


QUARANTINED = "2 of 3 sources are quarantined, and `quarantine.tolerate` allows 1;"


@pytest.mark.parametrize(
    ("standing", "is_listed", "was_stopped", "code", "words"),
    [
        (Standing(3, 0, 0, 0, 0), True, False, 0, "complete: all 3 sources"),
        (Standing(0, 3, 0, 0, 0), True, False, 0, "nothing left to do"),
        (Standing(3, 0, 0, 0, 0), True, True, 0, "complete"),
        (Standing(2, 0, 1, 0, 0), True, False, 3, "1 of 3 sources failed"),
        (Standing(2, 0, 0, 1, 0), True, False, 1, "1 sources are unfinished"),
        (Standing(2, 0, 0, 1, 0), True, True, 75, "interrupted"),
        (Standing(1, 0, 0, 0, 0), False, True, 75, "interrupted"),
        (Standing(2, 0, 0, 0, 0, 1), True, False, 0, "complete: 2 of 3 sources are finished, 1 q"),
        (Standing(0, 2, 0, 0, 0, 1), True, False, 0, "nothing left to do: 2 of 3 sources"),
        (
            Standing(1, 0, 0, 0, 0, 2),
            True,
            False,
            4,
            QUARANTINED,
        ),
        (Standing(0, 0, 1, 0, 0, 2), True, False, 3, "1 of 3 sources failed"),
    ],
)
def test_an_ending_is_judged(
    standing: Standing, is_listed: bool, was_stopped: bool, code: int, words: str
) -> None:
    ending = Ending(standing, {}, 3, is_listed, [])

    judged, message = judge(ending, was_stopped=was_stopped, quarantine=Quarantine(tolerate=1))

    assert (judged, words in message) == (code, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyError("x"), ExitCode.APPLICATION_ERROR),
        (VolumeError("x"), ExitCode.VOLUME_UNUSABLE),
        (SpecError(()), ExitCode.BAD_SPEC),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (SystemExit(15), ExitCode.INTERRUPTED),
    ],
)
def test_an_unexpected_error_is_an_application_error(error: BaseException, code: ExitCode) -> None:
    assert code_of(error) is code
