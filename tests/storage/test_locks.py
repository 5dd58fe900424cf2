"""Locks allow one new attempt at a time, which ends only the writers of a dead attempt."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from strandline.storage.errors import HeldError, VolumeError
from strandline.storage.volume.locks import (
    Holder,
    Process,
    find_holder,
    find_holders,
    find_process,
    hold_alone,
    hold_exclusive,
    hold_shared,
    read_boot_id,
    release,
)
from waiting import wait_until

WRITER = """
import sys
from pathlib import Path
from strandline.storage.volume.locks import hold_shared
hold_shared(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""
SUPERVISOR = """
import sys
from pathlib import Path
from strandline.storage.volume.locks import hold_alone
with hold_alone(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
# A program that ends, but leaves a child with copies of all inheritable descriptors.
ORPHANING = """
import ctypes, os, sys
from pathlib import Path
from strandline.storage.volume.locks import hold_shared
hold_shared(Path(sys.argv[1]))
fork = ctypes.CDLL(None).fork if sys.argv[2] == "native" else os.fork
child = fork()
if not child:
    os.read(0, 1)
    os._exit(0)
print("held", child, flush=True)
"""
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "writers.lock"


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a writer, which holds a shared lock until its input ends."""
    started: list[subprocess.Popen[str]] = []

    def start_writer(path: Path, program: str = WRITER) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, str(path)]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(writer)
        assert writer.stdout is not None
        assert "held" == writer.stdout.readline().strip()
        return writer

    yield start_writer
    for writer in started:
        writer.kill()
        writer.communicate()


def do_nothing(_: float) -> None:
    """Return without sleeping."""


def handle_of(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def test_many_writers_hold_the_lock_at_once(lock: Path) -> None:
    handles = [hold_shared(lock) for _ in range(3)]
    for handle in handles:
        os.close(handle)


def test_a_new_attempt_gets_a_free_lock_at_once(lock: Path) -> None:
    slept: list[float] = []
    with hold_exclusive(lock, 30.0, slept.append) as ended:
        assert [] == ended
    assert [] == slept


def test_a_writer_of_a_dead_attempt_is_refused(lock: Path) -> None:
    told = "another attempt has taken over; this writer stops"
    with hold_exclusive(lock, 1.0, do_nothing), pytest.raises(VolumeError, match=told):
        hold_shared(lock)
    os.close(hold_shared(lock))


def test_the_second_new_attempt_waits_for_the_first(lock: Path) -> None:
    first = handle_of(lock)
    fcntl.flock(first, fcntl.LOCK_EX)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            os.close(first)

    with hold_exclusive(lock, 30.0, sleep) as ended:
        assert [] == ended
    assert 3 == len(slept)


def test_a_wait_for_a_lock_has_a_limit(lock: Path) -> None:
    handle = hold_shared(lock)  # this process is not killed, so the wait must end in an error
    slept: list[float] = []
    told = "writers.lock: a writer that is not visible here still holds the lock"
    with pytest.raises(VolumeError, match=told), hold_exclusive(lock, 2.0, slept.append):
        pass
    assert 2.0 < sum(slept) < 10.0
    os.close(handle)
    with hold_exclusive(lock, 2.0, do_nothing) as ended:  # the failed attempt left no lock
        assert [] == ended


def test_a_writer_that_ends_in_time_is_not_killed(lock: Path, start: Start) -> None:
    writer = start(lock)

    def sleep(_: float) -> None:
        writer.communicate("")

    with hold_exclusive(lock, 1.0, sleep) as ended:
        assert [] == ended
    assert 0 == writer.returncode


def test_a_writer_that_outlives_the_wait_is_killed(lock: Path, start: Start) -> None:
    writers = [start(lock), start(lock)]
    expected = [find_process(writer.pid) for writer in writers]

    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 2:  # the grace period is over, and the writers were killed
            for writer in writers:
                writer.wait(timeout=60)

    with hold_exclusive(lock, 0.2, sleep) as ended:
        assert sorted(filter(None, expected)) == sorted(ended)
    assert {-signal.SIGKILL} == {writer.wait() for writer in writers}


def test_a_reused_pid_is_not_killed(
    lock: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the kill, the holder ends, and an unrelated process gets its pid."""
    writer = start(lock)
    real = find_process(writer.pid)
    assert real is not None
    answers = iter([real, real._replace(started=real.started + 1)])
    monkeypatch.setattr("strandline.storage.volume.locks.find_process", lambda _: next(answers))
    told = "still holds the lock"
    with pytest.raises(VolumeError, match=told), hold_exclusive(lock, 0.1, do_nothing):
        pass
    assert writer.poll() is None


@pytest.fixture
def orphan(lock: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield a process whose parent held the lock and has died."""
    command = [sys.executable, "-c", ORPHANING, str(lock), request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline().split()[1])
        parent.wait()
        yield orphan
        with suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)


@pytest.mark.parametrize("orphan", ["python"], indirect=True)
def test_law_a_forked_child_does_not_hold_the_lock_of_its_parent(lock: Path, orphan: int) -> None:
    with hold_exclusive(lock, 0.1, do_nothing) as ended:
        assert ended == []
    assert find_process(orphan) is not None


@pytest.mark.parametrize("orphan", ["native"], indirect=True)
def test_law_a_holder_by_inheritance_is_found(lock: Path, orphan: int) -> None:
    with hold_exclusive(lock, 0.1) as ended:
        assert [process.pid for process in ended] == [orphan]


def test_a_process_that_waits_for_a_lock_does_not_hold_it(lock: Path, start: Start) -> None:
    mine = hold_shared(lock)
    waits = "print('held', flush=True); import fcntl, sys; fcntl.flock(open(sys.argv[1]), 2)"
    waiting = start(lock, waits)
    wait_until(lambda: "->" in Path("/proc/locks").read_text(), 60)
    assert find_holders(mine) == []
    release(mine)
    assert waiting.wait(60) == 0


def test_a_released_lock_has_no_holder_despite_a_signature(lock: Path) -> None:
    own = own_process()
    lock.write_text(f"{own.pid} {own.started} {read_boot_id()}")
    assert find_holder(lock) is None


def test_holders_of_other_files_are_not_listed(tmp_path: Path, lock: Path, start: Start) -> None:
    other = start(tmp_path / "other.lock")
    mine = start(lock)
    handle = handle_of(lock)
    assert [mine.pid] == [holder.pid for holder in find_holders(handle)]
    os.close(handle)
    assert other.poll() is None


def test_an_equal_inode_number_elsewhere_is_another_file(
    lock: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inode numbers repeat across file systems, so the same number elsewhere is another file."""
    start(lock)
    handle = handle_of(lock)
    real = os.fstat(handle)
    elsewhere = os.stat_result([*real[:2], real.st_dev + 1, *real[3:]])
    monkeypatch.setattr(os, "fstat", lambda _: elsewhere)
    assert [] == find_holders(handle)
    monkeypatch.undo()
    os.close(handle)


def test_a_process_is_identified_by_pid_and_start(start: Start, lock: Path) -> None:
    writer = start(lock)
    process = find_process(writer.pid)
    mine = find_process(os.getpid())
    assert process is not None
    assert mine is not None
    assert writer.pid == process.pid
    assert mine.started <= process.started
    assert process == find_process(writer.pid)


def test_a_zombie_is_no_process(start: Start, lock: Path) -> None:
    writer = start(lock)
    writer.kill()
    os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)  # dead, but not yet reaped
    assert find_process(writer.pid) is None
    writer.wait()
    assert find_process(writer.pid) is None


@pytest.mark.parametrize("name", ["a b", "tricky) R 1 2 3", "(("])
def test_the_name_of_a_program_does_not_hide_its_start(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: f"77 ({name}) S {fields}\n")
    assert Process(77, 22) == find_process(77)


def test_the_boot_has_an_id() -> None:
    boot, _, namespace = read_boot_id().partition(" ")
    assert 36 == len(boot)
    assert namespace.startswith("pid:[")


def test_an_impossible_lock_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "writers.lock"
    with pytest.raises(VolumeError, match="No such file"):
        hold_shared(missing)
    with pytest.raises(VolumeError, match="No such file"), hold_exclusive(missing, 1.0):
        pass


def own_process() -> Process:
    own = find_process(os.getpid())
    assert own is not None
    return own


def test_an_exclusive_holder_is_named_while_it_holds_the_lock(lock: Path) -> None:
    assert find_holder(lock) is None
    with hold_alone(lock):
        assert Holder(own_process()) == find_holder(lock)
    assert find_holder(lock) is None
    with hold_alone(lock):
        assert Holder(own_process()) == find_holder(lock)


def test_an_error_releases_a_lock(lock: Path) -> None:
    with pytest.raises(RuntimeError), hold_alone(lock):
        raise RuntimeError
    assert find_holder(lock) is None
    with hold_alone(lock):
        pass


def test_a_second_one_is_refused_and_told_who_is_first(lock: Path, start: Start) -> None:
    first = start(lock, SUPERVISOR)
    slept: list[float] = []
    told = f"process {first.pid} is already running this pipeline; `strandline drain` stops it"
    with pytest.raises(HeldError, match=told), hold_alone(lock, slept.append):
        pytest.fail("it must not be had twice")
    assert 69 == HeldError.exit_code
    assert 0.5 < sum(slept) < 2.0
    assert find_holder(lock) == Holder(find_process(first.pid))  # the rejected one changed nothing


def test_a_lock_ends_with_its_process(lock: Path, start: Start) -> None:
    first = start(lock, SUPERVISOR)
    first.kill()
    first.wait()
    assert str(first.pid) in lock.read_text()  # the killed process could not erase its name
    assert find_holder(lock) is None
    with hold_alone(lock, do_nothing):
        assert Holder(own_process()) == find_holder(lock)


def test_a_check_does_not_block_a_holder(lock: Path) -> None:
    """A check takes the lock for a moment, so a process that wants the lock must retry."""
    looking = handle_of(lock)
    fcntl.flock(looking, fcntl.LOCK_SH)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            os.close(looking)

    with hold_alone(lock, sleep):
        assert 2 == len(slept)


def test_a_check_of_a_named_holder_does_not_take_the_lock(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold_alone(lock):
        monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("it is touched"))
        assert Holder(own_process()) == find_holder(lock)


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "4711",
        "{pid} {started} another-boot pid:[1]",
        "{pid} 1 {boot}",
        "rubbish",
        "\udcff",
        "9" * 150,
    ],
)
def test_a_holder_in_another_namespace_is_unnamed(lock: Path, signature: str) -> None:
    """Its pid may belong to an unrelated process here, so messages must not contain the pid."""
    own = own_process()
    text = signature.format(pid=own.pid, started=own.started, boot=read_boot_id())
    lock.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert find_holder(lock) is None  # the lock is free
    handle = handle_of(lock)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert Holder(None) == find_holder(lock)
    told = "a process that is not visible here is already running this pipeline"
    with pytest.raises(HeldError, match=told), hold_alone(lock, do_nothing):
        pytest.fail("it must not be had twice")
    os.close(handle)


def test_an_impossible_exclusive_lock_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(VolumeError, match="No such file"), hold_alone(tmp_path / "no/run.lock"):
        pass
    assert find_holder(tmp_path / "no/run.lock") is None

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(VolumeError, match=r"run\.lock: No locks available"):
        hold_alone(tmp_path / "run.lock").__enter__()
