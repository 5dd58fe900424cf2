"""Taking over a folder: how the previous attempt ended, which sources are blamed, and the lease."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attempt_builders import killed_for, outcome_of, record_of
from strandline.ledger.access.heartbeat import Heartbeat
from strandline.ledger.access.lease import OnChange
from strandline.ledger.errors import LedgerError
from strandline.ledger.records.entries import LAPSE_SECONDS, Change, Finish, Mark, SourceRecord
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.token import digest_key
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.folder import takeover
from strandline.run.attempt.folder.sampler import Sampler
from strandline.run.attempt.folder.takeover import TakenFolder, take_over
from strandline.run.insight.records import TABLE, AttemptRecord, Witness, read_record
from strandline.run.manifest.manifest import read_manifest
from strandline.run.supervise.record_writing import write_record
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_source_folder
from strandline.storage.volume.inflight import InFlightTable, read_inflight
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_api.outcome.causes import Cause
from strandline_api.spec.policy import Quarantine
from strandline_api.status.enums import Trigger

MANIFEST = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {name: letters}
spec: {source: {use: files, with: {paths: ["*.txt"]}}, stages: [], sink: {use: jsonl}}
"""
VERSION = b"version1"


class Place:
    """A pipeline's folder. Tests start attempts in it and cut attempts off."""

    def __init__(self, path: Path) -> None:
        self.volume = path
        self.folder = PipelineFolder.on_volume(path, "default", "letters")
        manifest = path / "letters.yaml"
        manifest.write_text(MANIFEST)
        self.plan: PipelinePlan = read_manifest(manifest).plan
        self.passed = 0.0
        self.heartbeat = Heartbeat(lambda: self.passed, time.time, LAPSE_SECONDS)

    def take(self, **given: Any) -> Any:
        return take_over(replace(AttemptConfig(self.plan, self.volume), **given), self.heartbeat)

    def go_through(self, **given: Any) -> TakenFolder:
        """Make an attempt that does nothing, and return the folder after the takeover."""
        with self.take(**given) as held:
            held.end(outcome_of(0, held.attempt))
        taken: TakenFolder = held
        return taken

    def leave_untidy(self, keys: str) -> list[Path]:
        """Finish the sources of these letters, and leave a file in the folder of each."""
        self.go_through()
        sources = [digest_key(key) for key in keys]
        left = [
            self.folder.output / name_source_folder(source) / "left.jsonl" for source in sources
        ]
        for path in left:
            path.parent.mkdir(parents=True)
            path.touch()
        with closing(Store(self.folder.ledger)) as store:
            done = [Finish(digest_key(key), VERSION, SourceRecord(key, ())) for key in keys]
            store.write(Change(finish=done, untidy=sources))
        return left

    def cut_off(self, number: int, processing: str, queued: str = "", **record: Any) -> None:
        """Leave the state of a driver that was killed while it processed these letters."""
        make_folder(self.folder.ledger)
        with closing(Store(self.folder.ledger)) as store:
            lease = {"attempt": number, "uid": "x", "boot": "", "pid": 0, "started": 0}
            store.take_lease(lease | {"time": 0.0, "ended": True})
            marks = [
                (digest_key(key), Mark(key, VERSION, number, 0, is_stale=False))
                for key in processing + queued
            ]
            progress = {"attempt": number, "finished": 4, "remaining": 9}
            store.write(Change(mark=marks, meta={"progress": progress}))
        write_record(self.folder, record_of(number, **{"boot": read_boot_id(), **record}))
        with closing(InFlightTable(self.folder.attempt(number) / TABLE)) as table:
            table.queue(digest_key(key) for key in processing + queued)
            table.process(digest_key(key) for key in processing)

    def read(self, number: int) -> AttemptRecord:
        record = read_record(self.folder, number)
        assert record is not None
        return record

    def read_meta(self, name: str) -> Any:
        with closing(Store(self.folder.ledger, readonly=True)) as store:
            return store.read_meta(name)

    @property
    def accused(self) -> dict[str, tuple[int, int]]:
        """By key, how often a source failed alone, and how many sources were suspected together."""
        with closing(Store(self.folder.ledger, readonly=True)) as store:
            return {
                mark.key: (mark.failed_before, mark.exposed)
                for _, mark in store.list_marks()
                if mark.exposed
            }

    @property
    def parked(self) -> list[tuple[str, str, int]]:
        with closing(Store(self.folder.ledger, readonly=True)) as store:
            return [
                (quarantined.key, quarantined.cause, quarantined.times)
                for _, quarantined in store.list_quarantined()
            ]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_an_attempt_is_recorded_when_it_begins(place: Place) -> None:
    with place.take(trigger=Trigger.MANUAL) as held:
        record = place.read(1)
        own = find_process(os.getpid())
        assert (own, read_boot_id()) == (record.process, record.boot)
        assert ("first", Trigger.MANUAL, None) == (record.run, record.trigger, record.previous)
        assert record.ended is None
        assert not place.read_meta("lease")["ended"]
        assert (held.folder.attempt(1) / TABLE).stat().st_size > 0
    assert place.read_meta("lease")["ended"]


def test_attempts_form_a_chain_with_one_ledgers_id(place: Place) -> None:
    assert [1, 2, 3] == [place.go_through().attempt for _ in range(3)]
    records = [place.read(number) for number in (1, 2, 3)]
    assert [None, 1, 2] == [record.previous for record in records]
    assert 1 == len({record.ledger for record in records})
    assert 32 == len(records[0].ledger)


def test_attempt_numbers_continue_after_the_ledger_was_moved_away(
    place: Place, tmp_path: Path
) -> None:
    place.go_through()
    place.go_through()
    place.folder.ledger.rename(tmp_path / "elsewhere")
    assert 3 == place.go_through().attempt
    assert (2, Witness.DRIVER) == (place.read(3).previous, place.read(2).witness)


def test_the_driver_writes_its_own_end(place: Place) -> None:
    with place.take() as held:
        held.end(outcome_of(3, finished=2))
    record = place.read(1)
    assert (Cause.SOURCES_FAILED, Witness.DRIVER) == (record.cause, record.witness)
    assert record.outcome is not None
    assert 2 == record.outcome.sources.finished


@pytest.mark.parametrize(
    ("boot", "after", "cause"),
    [
        (None, None, Cause.KILLED),
        ("another boot", None, Cause.NODE_LOST),
        (None, Cause.PREEMPTED, Cause.PREEMPTED),
        ("another boot", Cause.OOM_KILLED, Cause.OOM_KILLED),
    ],
)
def test_an_unrecorded_end_is_written_by_the_next_attempt(
    place: Place, boot: str | None, after: Cause | None, cause: Cause
) -> None:
    place.cut_off(1, "a", **({"boot": boot} if boot else {}))
    place.go_through(after=after)
    record = place.read(1)
    assert (cause, Witness.SUCCESSOR) == (record.cause, record.witness)
    assert record.outcome is not None
    assert (4, 9) == (record.outcome.sources.finished, record.outcome.remaining)
    assert "attempt 1 ended without a report before the next one began" == record.outcome.message
    assert record.ended is not None
    assert place.read(2).started == record.ended


def test_an_attempt_lasted_until_its_last_sign_of_life(place: Place) -> None:
    place.cut_off(1, "a", started=1000.0)
    lease = place.read_meta("lease") | {"time": 1250.0, "ended": False}
    with closing(Store(place.folder.ledger)) as store:
        store.take_lease(lease)
    place.go_through()
    assert 1250.0 == place.read(1).ended


def test_samples_are_signs_of_life_too(place: Place) -> None:
    place.cut_off(1, "a", started=1000.0)
    now = [0.0]
    sampler = Sampler(place.folder, 1, lambda: now[0], lambda: 1002.0)
    now[0] = 31.5
    sampler.take(0, {})
    place.go_through()
    assert 1033.5 == place.read(1).ended


@pytest.mark.parametrize("sign", [5.0, 9e9])
def test_a_sign_of_life_from_another_clock_is_ignored(
    place: Place, sign: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.ledger.access.lease.LAPSE_SECONDS", 1.0)  # the wait
    place.cut_off(1, "a", started=1000.0)
    lease = place.read_meta("lease") | {"time": sign, "ended": False}
    with closing(Store(place.folder.ledger)) as store:
        store.take_lease(lease)
    place.go_through()
    ended = place.read(1).ended
    assert ended is not None
    assert 1000.0 <= ended <= place.read(2).started


def test_a_recorded_end_is_not_written_again(place: Place) -> None:
    place.cut_off(1, "a")
    seen = place.read(1).end(killed_for(Cause.OOM_KILLED), 7.0, Witness.SUPERVISOR)
    write_record(place.folder, seen)
    place.go_through(after=Cause.PREEMPTED)
    assert seen == place.read(1)


def test_only_the_last_attempt_is_examined(place: Place) -> None:
    place.cut_off(1, "a")
    place.cut_off(2, "b")
    place.go_through()
    assert (None, Cause.KILLED) == (place.read(1).cause, place.read(2).cause)
    assert {"b": (1, 1)} == place.accused


def test_a_source_alone_is_blamed_and_sources_in_a_group_are_suspected(place: Place) -> None:
    place.cut_off(1, "a")
    place.go_through()
    assert {"a": (1, 1)} == place.accused
    place.cut_off(3, "bc", queued="d")
    place.go_through()
    assert {"a": (1, 1), "b": (0, 3), "c": (0, 3)} == place.accused


def test_a_source_blamed_too_often_is_quarantined(place: Place) -> None:
    place.cut_off(1, "a")
    place.go_through(quarantine=Quarantine(after=1), after=Cause.OOM_KILLED)
    assert [("a", "OOMKilled", 1)] == place.parked


def write_end(cause: Cause, witness: Witness) -> Callable[[Place], None]:
    def write(place: Place) -> None:
        write_record(place.folder, place.read(1).end(killed_for(cause), 7.0, witness))

    return write


def leave_open(_: Place) -> None:
    """Leave the record open, as if the supervisor had died, too."""


@pytest.mark.parametrize(
    ("end", "boot", "after", "is_accused"),
    [
        (leave_open, None, None, True),
        (leave_open, "another boot", None, False),
        (leave_open, None, Cause.EVICTED, False),
        (leave_open, "another boot", Cause.KILLED, True),
        (write_end(Cause.KILLED, Witness.SUPERVISOR), None, None, True),
        (write_end(Cause.OOM_KILLED, Witness.SUPERVISOR), None, None, True),
        (write_end(Cause.STALLED, Witness.SUPERVISOR), None, None, True),
        # A crash in compiled code. The driver would have reported any other error.
        (write_end(Cause.APPLICATION_ERROR, Witness.SUPERVISOR), None, None, True),
        (write_end(Cause.INTERRUPTED, Witness.SUPERVISOR), None, None, False),
        (write_end(Cause.DEADLINE_EXCEEDED, Witness.SUPERVISOR), None, None, False),
        # The operator has better evidence than the supervisor: the machine was reclaimed.
        (write_end(Cause.KILLED, Witness.SUPERVISOR), None, Cause.PREEMPTED, False),
        (write_end(Cause.INTERRUPTED, Witness.SUPERVISOR), None, Cause.OOM_KILLED, True),
        (write_end(Cause.OOM_KILLED, Witness.DRIVER), None, None, False),
        (write_end(Cause.APPLICATION_ERROR, Witness.DRIVER), None, None, False),
        (write_end(Cause.APPLICATION_ERROR, Witness.DRIVER), None, Cause.KILLED, False),
    ],
)
def test_only_crashes_blame_sources(
    place: Place,
    end: Callable[[Place], None],
    boot: str | None,
    after: Cause | None,
    is_accused: bool,
) -> None:
    place.cut_off(1, "a", **({"boot": boot} if boot else {}))
    end(place)
    place.go_through(after=after)
    assert ({"a": (1, 1)} if is_accused else {}) == place.accused


def test_an_orderly_end_blames_no_source_even_if_unrecorded(place: Place) -> None:
    place.cut_off(1, "a")
    place.go_through()

    def fail() -> None:
        with place.take() as held:
            held.inflight.queue([digest_key("b")])
            held.inflight.process([digest_key("b")])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert place.read(3).ended is None
    assert not any(read_inflight(place.folder.attempt(3) / TABLE))


def test_tables_of_work_in_flight_are_removed_after_use(place: Place) -> None:
    for number in (1, 2):
        place.cut_off(number, "a")
    place.go_through()
    assert {"a": (1, 1)} == place.accused
    assert [3] == [
        number for number in (1, 2, 3) if (place.folder.attempt(number) / TABLE).exists()
    ]
    place.go_through()
    assert [4] == [
        number for number in (1, 2, 3, 4) if (place.folder.attempt(number) / TABLE).exists()
    ]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, VolumeError])
def test_every_end_of_an_attempt_releases_the_lease(
    place: Place, error: type[BaseException]
) -> None:
    with pytest.raises(error), place.take():
        raise error
    assert place.read_meta("lease")["ended"]


@pytest.mark.parametrize(
    "name", ["open_outputs", "_look_back", "claim_location", "write_record", "InFlightTable"]
)
def test_the_lease_is_released_even_if_the_attempt_cant_begin(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise VolumeError(name)

    with monkeypatch.context() as patch:
        patch.setattr(f"strandline.run.attempt.folder.takeover.{name}", fail)
        with pytest.raises(VolumeError, match=name), place.take():
            pytest.fail("it must not begin")
    lease = place.read_meta("lease")
    assert (1, True) == (lease["attempt"], lease["ended"])
    assert read_record(place.folder, 1) is None  # otherwise the next attempt would see a crash
    assert 2 == place.go_through().attempt


def test_an_error_during_release_does_not_hide_the_first_error(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_FAULT", "lease.ended:eio")
    with pytest.raises(RuntimeError), place.take():
        raise RuntimeError


def test_an_unsuitable_ledger_is_left_unchanged(place: Place, tmp_path: Path) -> None:
    place.leave_untidy("a")
    place.go_through()
    (tmp_path / "letters.yaml").write_text(MANIFEST.replace("*.txt", "*.md"))
    other = read_manifest(tmp_path / "letters.yaml").plan
    lease = place.read_meta("lease")
    with (
        pytest.raises(LedgerError, match="set onChange to Redo"),
        place.take(plan=other),
    ):
        pytest.fail("it must not begin")
    assert lease == place.read_meta("lease")
    with place.take(plan=other, on_change=OnChange.CONTINUE) as held:
        assert lease["attempt"] + 1 == held.attempt


def test_leftovers_of_the_previous_attempt_are_removed(place: Place) -> None:
    """The previous attempt finished the source but was killed before it tidied the folder."""
    (left,) = place.leave_untidy("a")
    place.go_through()
    assert not left.exists()
    with closing(Store(place.folder.ledger, readonly=True)) as store:
        assert [] == list(store.list_untidy())


def test_law_the_lease_is_renewed_during_a_long_cleanup(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without renewal, a driver on another host would take the lease from a running attempt."""
    left = place.leave_untidy("abc")
    beats: list[float] = []
    monkeypatch.setattr(Store, "renew_lease", lambda _, time: beats.append(time))

    class Slow(LocalOutputs):
        def remove_others(self, source: bytes, keep: Collection[str]) -> int:
            place.passed += LAPSE_SECONDS - 1
            place.heartbeat.renew_lease()
            return super().remove_others(source, keep)

    monkeypatch.setattr(takeover, "open_outputs", lambda where: Slow(Path(where)))
    place.go_through()
    assert len(left) == len(beats)
    place.passed += LAPSE_SECONDS
    place.heartbeat.renew_lease()
    assert len(left) == len(beats)  # no more renewals: the ledger is closed


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that lives as long as the test."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_the_lease_names_a_live_parent(place: Place, sleeper: subprocess.Popen[bytes]) -> None:
    parent = find_process(sleeper.pid)
    assert parent is not None
    with place.take(parent=sleeper.pid):
        assert list(parent) == place.read_meta("lease")["parent"]
    sleeper.kill()
    sleeper.wait()
    with place.take(parent=sleeper.pid):  # the parent is dead
        assert [sleeper.pid, 0] == place.read_meta("lease")["parent"]
    with place.take():
        assert place.read_meta("lease")["parent"] is None
