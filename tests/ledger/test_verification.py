"""Verification finds and names every disagreement between the ledger and the outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_builders import failed, finish_of, listed, opened
from output_builders import write_output
from strandline.ledger.checks.verification import VerificationResult, verify
from strandline.ledger.records.entries import (
    Change,
    FailureRecord,
    ListedSource,
    Mark,
    QuarantinedSource,
)
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Output
from strandline.plan.token import derive_root
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import TEMPORARY, name_output, name_source_folder

A, B = listed("a"), listed("b")
CONTENT = b"rows\n"


@pytest.fixture
def outputs(tmp_path: Path) -> LocalOutputs:
    return LocalOutputs(tmp_path / "output")


def write(outputs: LocalOutputs, source: ListedSource, content: bytes = CONTENT) -> Output:
    token = derive_root(source.source, source.version)
    written = write_output(
        outputs, source.source, f"{token.hex()}.txt", lambda file: _spell(file, content)
    )
    return Output(token, ".txt", *written, rows=1)


def _spell(file: object, content: bytes) -> None:
    file.write(content)  # type: ignore[attr-defined]


def finish(store: Store, outputs: LocalOutputs, *sources: ListedSource) -> list[Path]:
    """Finish sources with one output each, and return the files."""
    written = [(source, write(outputs, source)) for source in sources]
    store.write(Change(finish=[finish_of(source, output) for source, output in written]))
    return [outputs.root / name_output(source.source, output) for source, output in written]


def test_matching_outputs_pass_verification(store: Store, outputs: LocalOutputs) -> None:
    finish(store, outputs, A, B)
    store.write(Change(finish=[finish_of(listed("nothing was left of it"))]))
    assert VerificationResult(3, 2, 2 * len(CONTENT), 0, []) == verify(store, outputs)


def test_a_new_ledger_passes_verification(store: Store, outputs: LocalOutputs) -> None:
    assert VerificationResult(0, 0, 0, 0, []) == verify(store, outputs)


def test_a_missing_file_is_reported(store: Store, outputs: LocalOutputs) -> None:
    path, _ = finish(store, outputs, A, B)
    path.unlink()
    name = str(path.relative_to(outputs.root))
    assert [f"missing, or recorded twice: {name}, of source a"] == verify(store, outputs).problems


def test_a_file_recorded_twice_is_reported(store: Store, outputs: LocalOutputs) -> None:
    output = write(outputs, A)
    store.write(Change(finish=[finish_of(A, output, output)]))
    (problem,) = verify(store, outputs).problems
    assert problem.startswith("missing, or recorded twice: ")


def test_a_file_of_another_size_is_reported(store: Store, outputs: LocalOutputs) -> None:
    (path,) = finish(store, outputs, A)
    path.write_bytes(CONTENT + b"more")
    (problem,) = verify(store, outputs, reads_bytes=False).problems
    assert problem.startswith("9 bytes instead of 5: ")
    assert problem.endswith(", of source a")


def test_a_file_of_other_bytes(store: Store, outputs: LocalOutputs) -> None:
    (path,) = finish(store, outputs, A)
    path.write_bytes(CONTENT[::-1])
    (problem,) = verify(store, outputs).problems
    assert problem.startswith("changed since it was written: ")
    assert [] == verify(store, outputs, reads_bytes=False).problems


@pytest.mark.parametrize("is_finished", [True, False])
def test_an_unrecorded_file_is_reported(
    store: Store, outputs: LocalOutputs, is_finished: bool
) -> None:
    if is_finished:
        finish(store, outputs, A)
    stranger = outputs.root / name_source_folder(A.source) / "extra.txt"
    stranger.parent.mkdir(parents=True, exist_ok=True)
    stranger.touch()
    name = str(stranger.relative_to(outputs.root))
    assert [f"without a record: {name}"] == verify(store, outputs).problems


def test_a_file_beside_the_folders_is_reported(store: Store, outputs: LocalOutputs) -> None:
    finish(store, outputs, A)
    (outputs.root / "notes.txt").touch()
    assert ["without a record: notes.txt"] == verify(store, outputs).problems


@pytest.mark.parametrize("state", ["inflight", "failed", "quarantined"])
def test_leftovers_of_an_unfinished_source_are_not_judged(
    store: Store, outputs: LocalOutputs, state: str
) -> None:
    finish(store, outputs, A)
    write(outputs, B)
    if state == "inflight":
        store.write(Change(mark=[(B.source, Mark("b", B.version, 1, 0, False))]))
    elif state == "quarantined":
        parked = QuarantinedSource("b", B.version, 1, "Killed", "", "gone", 3)
        store.write(Change(quarantine=[(B.source, parked)]))
    else:
        what = failed(B)
        entry = FailureRecord("b", 1, what.stage, what.message, 1)
        store.write(Change(fail=[(B.source, entry)]))
    assert VerificationResult(1, 1, len(CONTENT), 1, []) == verify(store, outputs)


def test_temporary_files_count_as_left_over_once_all_is_finished(
    store: Store, outputs: LocalOutputs
) -> None:
    finish(store, outputs, A)
    (outputs.root / TEMPORARY / "0001-abc").touch()
    assert [f"left over: {TEMPORARY}/0001-abc"] == verify(store, outputs).problems
    store.write(Change(mark=[(B.source, Mark("b", B.version, 1, 0, False))]))
    assert [] == verify(store, outputs).problems
    assert 1 == outputs.sweep("0001")


def test_every_problem_is_named(store: Store, outputs: LocalOutputs) -> None:
    first, second = finish(store, outputs, A, B)
    first.unlink()
    second.write_bytes(b"")
    (outputs.root / "notes.txt").touch()
    assert 3 == len(verify(store, outputs).problems)


def test_a_readonly_ledger_can_be_verified(tmp_path: Path, outputs: LocalOutputs) -> None:
    with opened(tmp_path / "ledger") as store:
        finish(store, outputs, A)
    with opened(tmp_path / "ledger", readonly=True) as store:
        assert [] == verify(store, outputs).problems
