"""The chain of attempts: records are written, read again, and looked up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attempt_builders import BOOT, DRIVER, killed_for, outcome_of, record_of
from mounts import fill, mounted_small
from strandline.run.insight.records import (
    RECORD,
    Witness,
    find_last,
    find_of_process,
    read_chain,
    read_record,
)
from strandline.run.supervise.record_writing import end_unfinished, write_record
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import Process
from strandline_api.outcome.causes import BLAMELESS, Cause


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    return PipelineFolder(tmp_path / "default/notes")


def test_a_record_is_read_back_unchanged(folder: PipelineFolder) -> None:
    running = record_of(3, previous=1)
    write_record(folder, running)
    assert running == read_record(folder, 3)
    ended = running.end(killed_for(Cause.OOM_KILLED, 3, finished=7), 3050.0, Witness.SUPERVISOR)
    write_record(folder, ended)
    assert ended == read_record(folder, 3)
    assert [RECORD] == [path.name for path in folder.attempt(3).iterdir()]


@pytest.mark.parametrize("cause", [Cause.VOLUME_UNUSABLE, Cause.OOM_KILLED])
def test_an_end_can_be_recorded_on_a_full_disk(cause: Cause, tmp_path: Path) -> None:
    """Space for the end is reserved at the start, so the end can be written later."""
    with mounted_small(tmp_path / "volume", 1 << 20) as volume:
        folder = PipelineFolder(volume / "default/notes")
        running = record_of(1)
        write_record(folder, running)
        fill(volume)
        ended = running.end(killed_for(cause), 1050.0, Witness.DRIVER)
        write_record(folder, ended)
        assert read_chain(folder) == [ended]
        again = running.end(killed_for(cause), 1051.0, Witness.SUPERVISOR)
        write_record(folder, again)  # replaces the previous record
        assert read_chain(folder) == [again]


def test_a_record_without_an_end_is_open(folder: PipelineFolder) -> None:
    record = record_of(1)
    assert (None, None, None, None) == (record.ended, record.outcome, record.cause, record.witness)
    assert (1, None) == (record.number, record.previous)


def test_every_end_names_a_cause_except_a_complete_one() -> None:
    killed = record_of(1).end(killed_for(Cause.NODE_LOST), 1060.0, Witness.SUCCESSOR)
    assert (Cause.NODE_LOST, 1060.0, Witness.SUCCESSOR) == (
        killed.cause,
        killed.ended,
        killed.witness,
    )
    assert record_of(1).end(outcome_of(3), 1.0, Witness.DRIVER).cause is Cause.SOURCES_FAILED
    assert record_of(1).end(outcome_of(0), 1.0, Witness.DRIVER).cause is None


def test_a_record_of_a_later_version_may_have_more_fields(folder: PipelineFolder) -> None:
    write_record(folder, record_of(1))
    path = folder.attempt(1) / RECORD
    path.write_text(json.dumps(json.loads(path.read_text()) | {"weather": "fine"}))
    assert record_of(1) == read_record(folder, 1)


def test_the_chain_is_in_order_of_numbers(folder: PipelineFolder) -> None:
    assert [] == read_chain(folder)
    assert find_last(folder) is None
    for number in (2, 10_000, 1, 999):
        write_record(folder, record_of(number))
    assert [1, 2, 999, 10_000] == [record.number for record in read_chain(folder)]
    assert record_of(10_000) == find_last(folder)


def test_files_that_are_no_records_are_skipped(folder: PipelineFolder) -> None:
    write_record(folder, record_of(4))
    for name, content in (("0005", b""), ("0006", b'{"number": 6}'), ("0007", b"\xff\x00")):
        folder.attempts.joinpath(name).mkdir()
        (folder.attempts / name / RECORD).write_bytes(content)
    folder.attempt(8).mkdir()
    (folder.attempts / "notes.txt").write_text("mine")
    (folder.attempts / "old").mkdir()
    assert [4] == [record.number for record in read_chain(folder)]
    assert read_record(folder, 5) is None
    assert read_record(folder, 9) is None


def test_a_record_is_found_by_its_process(folder: PipelineFolder) -> None:
    """Pids are reused: the same pid may belong to another process, boot, or container."""
    write_record(folder, record_of(1))
    write_record(folder, record_of(2, process_started=7))
    write_record(folder, record_of(3, boot="boot-2"))
    assert record_of(1) == find_of_process(folder, BOOT, DRIVER)
    assert find_of_process(folder, BOOT, Process(DRIVER.pid, 8)) is None
    assert find_of_process(folder, "boot-3", DRIVER) is None
    write_record(folder, record_of(4))
    assert record_of(4) == find_of_process(folder, BOOT, DRIVER)  # the process made two attempts


def test_an_open_end_is_written_and_an_existing_end_stays(folder: PipelineFolder) -> None:
    end_unfinished(folder, BOOT, DRIVER, outcome_of(75, 0), 7.0)
    assert [] == read_chain(folder)
    write_record(folder, record_of(4))
    end_unfinished(folder, BOOT, DRIVER, outcome_of(75, 0), 7.0)
    ended = record_of(4).end(outcome_of(75, 4), 7.0, Witness.DRIVER)
    assert ended == read_record(folder, 4)
    end_unfinished(folder, BOOT, DRIVER, outcome_of(1, 0), 8.0)
    assert ended == read_record(folder, 4)


def test_a_failed_write_leaves_the_previous_record(
    folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(folder, record_of(1))
    monkeypatch.setenv("STRANDLINE_FAULT", "attempt.written:enospc")
    with pytest.raises(VolumeError, match="no space is left"):
        write_record(folder, record_of(1).end(outcome_of(0), 2.0, Witness.DRIVER))
    assert record_of(1) == read_record(folder, 1)


def test_disruptions_blame_no_source() -> None:
    spared = {"Preempted", "Evicted", "NodeLost", "Interrupted", "UserCancelled"}
    waited = {"QuotaExceeded", "LedgerInUse"}  # such attempts did no work
    assert spared | waited | {"DeadlineExceeded"} == {cause.value for cause in BLAMELESS}
