"""`drain` stops the supervisor or else the driver, but never an unrelated process."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from attempt_builders import BOOT, DRIVER, outcome_of, record_of
from strandline.ledger.store.store import Store
from strandline.run.insight.records import Witness
from strandline.run.supervise.drain import (
    PAUSE_SECONDS,
    Drain,
    DrainError,
    FolderView,
    choose,
    look,
    wait_for,
)
from strandline.run.supervise.record_writing import write_record
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import Holder, Process, find_process, hold_alone

SUPERVISOR = Process(50, 500)
LATER = Process(200, 2000)
NOW = 10_000.0
ENDED = record_of(3).end(outcome_of(0), 1.0, Witness.DRIVER)


class Host:
    """A host with some living processes."""

    def __init__(self, *alive: Process) -> None:
        self.alive = list(alive)

    def find(self, pid: int) -> Process | None:
        return next((process for process in self.alive if process.pid == pid), None)


def lease_of(process: Process = DRIVER, **changes: Any) -> dict[str, Any]:
    lease = {"attempt": 3, "boot": BOOT, "pid": process.pid, "started": process.started}
    return lease | {"time": NOW, "ended": False, "parent": None} | changes


def decide(view: FolderView, *alive: Process) -> Drain | None:
    return choose(view, BOOT, NOW, Host(*alive).find)


@pytest.mark.parametrize(
    "view",
    [
        FolderView(None, None, None),
        FolderView(None, lease_of(ended=True), ENDED),
        FolderView(None, lease_of(), record_of(3)),  # killed: neither process lives
        FolderView(None, lease_of(boot="boot-2", time=NOW - 601.0), record_of(3, boot="boot-2")),
        FolderView(None, lease_of(boot="boot-2", ended=True), None),
    ],
)
def test_no_process_is_stopped_if_nothing_runs(view: FolderView) -> None:
    assert decide(view) is None


def test_a_process_that_reuses_the_drivers_pid_is_not_stopped() -> None:
    view = FolderView(None, lease_of(), record_of(3))
    assert decide(view, Process(DRIVER.pid, DRIVER.started + 1)) is None


def test_the_supervisor_is_stopped_and_both_processes_are_awaited() -> None:
    view = FolderView(Holder(SUPERVISOR), lease_of(), record_of(3))
    assert Drain(SUPERVISOR, (SUPERVISOR, DRIVER)) == decide(view, SUPERVISOR, DRIVER)


@pytest.mark.parametrize("lease", [None, lease_of(ended=True), lease_of(boot="boot-2")])
def test_a_supervisor_between_two_attempts_is_stopped_too(lease: dict[str, Any] | None) -> None:
    view = FolderView(Holder(SUPERVISOR), lease, None)
    assert Drain(SUPERVISOR, (SUPERVISOR,)) == decide(view, SUPERVISOR, DRIVER)


@pytest.mark.parametrize(
    "view",
    [
        FolderView(None, lease_of(), record_of(3)),
        FolderView(None, lease_of(), None),
        FolderView(None, lease_of(), record_of(2).end(outcome_of(1), 1.0, Witness.SUPERVISOR)),
        FolderView(None, None, record_of(3)),
        FolderView(None, lease_of(boot="boot-2"), record_of(3)),
        FolderView(None, lease_of(parent=list(SUPERVISOR)), record_of(3)),
    ],
)
def test_an_unsupervised_driver_is_stopped_directly(view: FolderView) -> None:
    record = view.record
    if record is not None and record.ended is not None:  # an earlier process left the record
        view = FolderView(None, view.lease, record.model_copy(update={"pid": 7}))
    assert Drain(DRIVER, (DRIVER,)) == decide(view, DRIVER, SUPERVISOR)


def test_both_of_two_drivers_are_awaited() -> None:
    """The killed driver still exists. The new driver has the lease but no record."""
    view = FolderView(None, lease_of(LATER), record_of(3))
    assert Drain(LATER, (LATER, DRIVER)) == decide(view, LATER, DRIVER)


def test_a_driver_that_has_lost_its_parent_stops_by_itself() -> None:
    """The driver stops by itself. A second signal would end the driver immediately."""
    view = FolderView(None, lease_of(parent=list(SUPERVISOR)), record_of(3))
    assert Drain(None, (DRIVER,)) == decide(view, DRIVER)


def test_a_driver_that_has_recorded_its_end_is_only_awaited() -> None:
    assert Drain(None, (DRIVER,)) == decide(FolderView(None, lease_of(), ENDED), DRIVER)


def test_a_program_that_outlives_its_pipeline_is_not_stopped() -> None:
    assert decide(FolderView(None, lease_of(ended=True), ENDED), DRIVER) is None


def test_a_supervisor_on_another_host_cannot_be_stopped() -> None:
    told = "a process on another host or in another container runs this pipeline; drain it there"
    with pytest.raises(DrainError, match=told):
        decide(FolderView(Holder(None), lease_of(), record_of(3)), DRIVER)


@pytest.mark.parametrize(("time", "ago"), [(NOW - 40.0, 40), (NOW - 600.0, 600), (NOW + 9.0, 0)])
def test_a_driver_on_another_host_cannot_be_stopped(time: float, ago: int) -> None:
    view = FolderView(None, lease_of(boot="boot-2", time=time), record_of(3, boot="boot-2"))
    told = f"attempt 3 was running {ago} s ago on another host or in another container; drain it"
    with pytest.raises(DrainError, match=told):
        decide(view, DRIVER)
    assert 1 == DrainError.exit_code


def test_a_wait_ends_when_all_processes_are_gone() -> None:
    host = Host(SUPERVISOR, DRIVER)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        host.alive = host.alive[1:]

    assert wait_for((SUPERVISOR, DRIVER), 60.0, host.find, sleep) is None
    assert [PAUSE_SECONDS] * 2 == slept


@pytest.mark.parametrize("seconds", [0.0, 0.3, 2.0])
def test_a_wait_has_a_limit_and_names_remaining_processes(seconds: float) -> None:
    slept: list[float] = []
    left = wait_for((SUPERVISOR, DRIVER), seconds, Host(DRIVER).find, slept.append)
    assert DRIVER == left
    assert seconds == pytest.approx(sum(slept))


def test_a_reused_pid_is_not_awaited() -> None:
    again = Host(Process(DRIVER.pid, DRIVER.started + 1))
    assert wait_for((DRIVER,), 60.0, again.find, lambda _: pytest.fail("it waits")) is None


def test_a_view_is_read_from_the_folder(tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path)
    assert FolderView(None, None, None) == look(folder)
    folder.ledger.mkdir()
    with closing(Store(folder.ledger)) as store:
        store.take_lease(lease_of(uid="a"))
    write_record(folder, record_of(3))
    with hold_alone(folder.run_lock):
        seen = look(folder)
    assert seen.holder is not None
    assert seen.holder.process is not None
    assert seen.holder.process == find_process(seen.holder.process.pid)
    assert (lease_of(uid="a"), record_of(3)) == (seen.lease, seen.record)


def test_an_unreadable_ledger_hides_no_other_process(tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path)
    folder.ledger.mkdir()
    (folder.ledger / "data.mdb").write_bytes(b"rubbish" * 2000)
    write_record(folder, record_of(3))
    assert FolderView(None, None, record_of(3)) == look(folder)
