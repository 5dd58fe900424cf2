"""Drivers as processes: started, requested to stop, killed, and with a recorded end.

The drivers here are small programs that do what a test needs; no test waits longer than necessary.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline.run.insight.records import AttemptRecord, Witness, read_record
from strandline.run.supervise.driver import driver_process
from strandline.run.supervise.driver.driver_process import (
    DriverLimits,
    DriverProcess,
    wait_until,
)
from strandline.run.supervise.driver.retained_driver import make_command
from strandline.run.supervise.stop import Stop
from strandline.run.supervise.supervision import EndedAttempt
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import name_cause
from strandline_api.status.enums import Trigger

LONG = 1e6
# First lines of all driver scripts. `note` writes to a file; `linger` waits for the parent's end.
HEAD = """
import os, signal, sys, time
from pathlib import Path
here = Path(sys.argv[1])
def note(name, text=""):
    with (here / name).open("a") as file:
        file.write(text)
parent = os.getppid()
def linger():
    while os.getppid() == parent:
        time.sleep(0.1)
"""
# A driver that has begun an attempt.
BEGIN = """
from strandline.run.insight.records import AttemptRecord, Witness
from strandline.run.supervise.record_writing import write_record
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.enums import Trigger
me = find_process(os.getpid())
folder = PipelineFolder(here)
record = AttemptRecord(
    number=1, run="first", trigger=Trigger.RUN, previous=None, ledger="id",
    boot=read_boot_id(), pid=me.pid, process_started=me.started, started=time.time(),
)
write_record(folder, record)
def end(code, **words):
    outcome = DriverOutcome(exit_code=code, attempt=1, **words)
    write_record(folder, record.end(outcome, time.time(), Witness.DRIVER))
"""
# A driver that counts requests to stop and runs `on_request` for each of them.
LISTEN = """
def receive(number, frame):
    note("heard", "x")
    note(signal.Signals(number).name)
    on_request()
signal.signal(signal.SIGTERM, receive)
signal.signal(signal.SIGINT, receive)
note("ready")
"""


class StopAsSeen:
    """Counts a stop request for each of these files that exists.

    Attributes:
        received: number of requests that the driver has received otherwise.
        signal: the signal to send.
    """

    def __init__(self, here: Path, *names: str, received: int = 0) -> None:
        self._paths = [here / name for name in names]
        self.received = received
        self.signal = signal.SIGTERM

    @property
    def times(self) -> int:
        return sum(path.exists() for path in self._paths)

    def is_asked(self) -> bool:
        return self.times > 0


class Parent:
    """Makes attempts with scripts as drivers."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self.folder = PipelineFolder(here)

    def make(self, *parts: str, stop: Any = None, **fields: Any) -> DriverProcess:
        limits = DriverLimits(**{"grace": LONG, **fields.pop("limits", {})})
        command = [sys.executable, "-c", "\n".join((HEAD, *parts)), str(self.here)]
        asked = cast("Stop", stop or Stop())
        return DriverProcess(command, self.folder, limits, asked, **fields)

    def run(self, *parts: str, most_seconds: float | None = None, **fields: Any) -> EndedAttempt:
        return self.make(*parts, **fields).attempt(Trigger.RUN, most_seconds)

    def read(self) -> AttemptRecord:
        record = read_record(self.folder, 1)
        assert record is not None
        return record

    def received(self) -> int:
        path = self.here / "heard"
        return len(path.read_text()) if path.exists() else 0


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parent:
    monkeypatch.setattr(driver_process, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(driver_process, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(driver_process, "FORCE_SECONDS", 0.1)
    return Parent(tmp_path)


def cause_of(ended: EndedAttempt) -> Cause:
    return name_cause(ended.outcome.evidence).cause


@pytest.mark.parametrize("code", [0, 1, 3, 64, 65, 73, 75])
def test_the_exit_code_is_the_drivers(parent: Parent, code: int) -> None:
    ended = parent.run(f"sys.exit({code})")
    assert (code, 0, "") == (ended.outcome.exit_code, ended.outcome.attempt, ended.ledger)
    assert (False, True) == (ended.is_stopped, ended.is_reported)


def test_a_killed_driver_is_recorded_as_killed(parent: Parent) -> None:
    ended = parent.run(BEGIN, "os.kill(os.getpid(), signal.SIGKILL)")
    assert (137, Cause.KILLED) == (ended.outcome.exit_code, cause_of(ended))
    assert (1, "id", False) == (ended.outcome.attempt, ended.ledger, ended.is_reported)
    record = parent.read()
    assert (Cause.KILLED, Witness.SUPERVISOR) == (record.cause, record.witness)
    assert (ended.outcome, ended.time) == (record.outcome, record.ended)


def test_a_driver_that_is_killed_before_it_began_leaves_no_record(parent: Parent) -> None:
    ended = parent.run("os.kill(os.getpid(), signal.SIGKILL)")
    assert (137, 0, False) == (ended.outcome.exit_code, ended.outcome.attempt, ended.is_reported)
    assert not parent.folder.attempts.exists()


def test_a_driver_that_ends_before_its_start_is_noted_keeps_its_record(
    parent: Parent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, the driver may end before the supervisor notes its start."""

    def start_and_lag(*arguments: Any, **fields: Any) -> Popen[bytes]:
        process = Popen(*arguments, **fields)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    monkeypatch.setattr(subprocess, "Popen", start_and_lag)
    ended = parent.run(BEGIN, "end(3)", "os.kill(os.getpid(), signal.SIGKILL)")
    assert (137, 1) == (ended.outcome.exit_code, ended.outcome.attempt)
    assert parent.read().outcome == ended.outcome


def test_the_end_that_the_driver_recorded_stays(parent: Parent) -> None:
    ended = parent.run(BEGIN, "end(3, message='1 of 3 failed')", "sys.exit(3)")
    assert ("1 of 3 failed", True) == (ended.outcome.message, ended.is_reported)
    record = parent.read()
    assert (Cause.SOURCES_FAILED, Witness.DRIVER) == (record.cause, record.witness)


def test_a_driver_killed_after_recording_its_end_has_not_reported(parent: Parent) -> None:
    ended = parent.run(BEGIN, "end(0)", "os.kill(os.getpid(), signal.SIGKILL)")
    assert (137, False) == (ended.outcome.exit_code, ended.is_reported)
    assert Witness.DRIVER is parent.read().witness  # so no source is blamed


@pytest.mark.parametrize(
    ("reported", "leave", "expected"),
    [
        ("ended", "sys.exit(3)", True),
        ("begun", "sys.exit(3)", False),
        ("ended", "os.kill(os.getpid(), signal.SIGKILL)", False),  # the end was not reported
    ],
)
def test_reports_to_lineage_systems_are_passed_on(
    parent: Parent, reported: str, leave: str, expected: bool
) -> None:
    mark = f"(folder.attempt(1) / 'lineage').write_text('{reported}')"
    ended = parent.run(BEGIN, "end(3)", mark, leave)
    assert ended.outcome.lineage is expected
    assert parent.read().outcome == ended.outcome


def test_a_silent_driver_has_reported_no_lineage(parent: Parent) -> None:
    mark = "(folder.attempt(1) / 'lineage').write_text('ended')"
    ended = parent.run(BEGIN, mark, "os.kill(os.getpid(), signal.SIGKILL)")
    assert ended.outcome.lineage is False


def test_a_record_of_an_earlier_process_with_its_pid_is_not_touched(parent: Parent) -> None:
    again = "record = record.model_copy(update={'process_started': me.started - 1})"
    ended = parent.run(BEGIN, again, "write_record(folder, record)", "sys.exit(1)")
    assert 0 == ended.outcome.attempt
    assert parent.read().ended is None


def test_an_end_that_cant_be_recorded_is_still_returned(
    parent: Parent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise VolumeError("full")

    monkeypatch.setattr(driver_process, "write_record", fail)
    ended = parent.run(BEGIN, "os.kill(os.getpid(), signal.SIGKILL)")
    assert (137, 1) == (ended.outcome.exit_code, ended.outcome.attempt)


def test_a_request_to_stop_is_passed_on_once(parent: Parent) -> None:
    stop = StopAsSeen(parent.here, "ready")
    leave = "def on_request():\n    time.sleep(0.3)\n    sys.exit(75)"
    ended = parent.run(BEGIN, leave, LISTEN, "linger()", stop=stop)
    assert (75, True, Cause.INTERRUPTED) == (
        ended.outcome.exit_code,
        ended.is_stopped,
        cause_of(ended),
    )
    assert 1 == parent.received()


def test_a_second_request_is_passed_on_too_as_a_key(parent: Parent) -> None:
    """The second request is sent as SIGINT, because a driver ignores a repeated SIGTERM."""
    stop = StopAsSeen(parent.here, "ready", "SIGTERM")
    twice = """
def on_request():
    if (here / "SIGINT").exists():
        os._exit(130)
"""
    ended = parent.run(BEGIN, twice, LISTEN, "linger()", stop=stop)
    assert (130, Cause.INTERRUPTED, 2) == (
        ended.outcome.exit_code,
        cause_of(ended),
        parent.received(),
    )


def test_force_is_used_after_the_grace_period(parent: Parent) -> None:
    stop = StopAsSeen(parent.here, "ready")
    ended = parent.run(
        "on_request = lambda: None", LISTEN, "linger()", stop=stop, limits={"grace": 0.1}
    )
    assert (137, Cause.INTERRUPTED, 1) == (
        ended.outcome.exit_code,
        cause_of(ended),
        parent.received(),
    )
    assert ended.outcome.message == "asked to stop by SIGTERM"
    assert ended.outcome.evidence[-1].source == "signal"


def test_a_second_request_skips_the_grace_period(parent: Parent) -> None:
    stop = StopAsSeen(parent.here, "ready", "heard")
    ended = parent.run("on_request = lambda: None", LISTEN, "linger()", stop=stop)
    assert (137, 2) == (ended.outcome.exit_code, parent.received())


def test_a_key_that_reached_the_driver_is_not_passed_on(parent: Parent) -> None:
    stop = StopAsSeen(parent.here, "ready", received=1)
    limits = {"grace": 0.1}
    ended = parent.run("on_request = lambda: None", LISTEN, "linger()", stop=stop, limits=limits)
    assert (137, 0) == (ended.outcome.exit_code, parent.received())
    assert (True, Cause.INTERRUPTED) == (ended.is_stopped, cause_of(ended))


def test_a_driver_stopped_before_it_handles_signals_was_interrupted(parent: Parent) -> None:
    ended = parent.run("note('ready')", "linger()", stop=StopAsSeen(parent.here, "ready"))
    assert (75, Cause.INTERRUPTED, False) == (
        ended.outcome.exit_code,
        cause_of(ended),
        ended.is_reported,
    )


@pytest.mark.parametrize(
    ("attempt", "run", "told"), [(0.2, None, "0.2 s"), (None, 0.3, "0.3 s"), (0.2, LONG, "0.2 s")]
)
def test_a_deadline_stops_the_driver_like_a_request(
    parent: Parent, attempt: float | None, run: float | None, told: str
) -> None:
    leave = "on_request = lambda: sys.exit(75)"
    limits = {"attempt": attempt}
    ended = parent.run(LISTEN, leave, "linger()", limits=limits, most_seconds=run)
    assert (Cause.DEADLINE_EXCEEDED, False) == (cause_of(ended), ended.is_stopped)
    assert f"the deadline of {told} has passed" == ended.outcome.message


SILENT = """
from strandline.storage.volume.inflight import InFlightTable
table = InFlightTable(folder.attempt(1) / "inflight")
table.show_work(time.monotonic() - 1000.0)
"""


def test_a_driver_without_a_sign_of_life_has_stalled(parent: Parent) -> None:
    leave = "on_request = lambda: sys.exit(75)"
    ended = parent.run(BEGIN, leave, LISTEN, SILENT, "linger()", limits={"stall": 0.1})
    assert (75, Cause.STALLED, False) == (
        ended.outcome.exit_code,
        cause_of(ended),
        ended.is_stopped,
    )
    assert ended.outcome.message.startswith("the driver did not respond for 100")
    assert Cause.STALLED is parent.read().cause


@pytest.mark.parametrize("step", [-1e6, 1e6])
def test_a_clock_step_does_not_count_as_silence(
    parent: Parent, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    """A suspended machine does not count as silent either, because its monotonic clock stops."""
    stepped = SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() + step)
    monkeypatch.setattr(driver_process, "time", stepped)
    driver = parent.make(BEGIN, SILENT, "note('ready')\nlinger()", limits={"stall": 2000.0})
    told: list[float | None] = [driver.measure_silence()]

    def stop_later() -> None:
        while not (parent.here / "ready").exists():
            time.sleep(0.02)
        told.append(driver.measure_silence())
        os.kill(cast("int", driver.pid), signal.SIGTERM)

    thread = threading.Thread(target=stop_later)
    thread.start()
    ended = driver.attempt(Trigger.RUN)
    thread.join()
    assert Cause.KILLED is cause_of(ended)
    assert told[0] is None
    assert told[1] is not None
    assert 1000.0 <= told[1] < 1500.0
    assert driver.measure_silence() is None


def test_a_request_to_a_driver_that_is_stopping_already_is_the_same_request(parent: Parent) -> None:
    """The first key press must not shorten a stop that the supervisor has begun."""
    stop = StopAsSeen(parent.here, "heard")
    leave = "def on_request():\n    time.sleep(0.3)\n    sys.exit(75)"
    ended = parent.run(BEGIN, leave, LISTEN, SILENT, "linger()", stop=stop, limits={"stall": 0.0})
    assert (75, True, Cause.STALLED) == (
        ended.outcome.exit_code,
        ended.is_stopped,
        cause_of(ended),
    )
    assert 1 == parent.received()


@pytest.mark.parametrize("setup", [SILENT, ""])
def test_a_driver_with_recent_progress_is_not_stopped(parent: Parent, setup: str) -> None:
    """Cover a driver that rarely reports progress, and a driver without a progress table."""
    stall = {"stall": 1e12 if setup else 0.1}
    ended = parent.run(BEGIN, setup, "time.sleep(0.5)", limits=stall)
    assert (0, None) == (ended.outcome.exit_code, parent.read().cause)


def test_the_kernel_kills_the_driver_before_the_parent(parent: Parent) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    compare = f"""
for _ in range(500):
    if int(Path("/proc/self/oom_score_adj").read_text()) > {min(own, 999)}:
        sys.exit(0)
    time.sleep(0.02)
sys.exit(1)
"""
    assert 0 == parent.run(compare).outcome.exit_code


@pytest.mark.parametrize("shares_terminal", [False, True])
def test_the_driver_has_its_parents_pid_and_its_own_process_group(
    parent: Parent, shares_terminal: bool
) -> None:
    tell = "note('seen', f'{os.environ[\"STRANDLINE_PARENT\"]} {os.getpgrp() == os.getpid()}')"
    parent.run(tell, shares_terminal=shares_terminal)
    assert f"{os.getpid()} {not shares_terminal}" == (parent.here / "seen").read_text()


def test_the_driver_gets_its_trigger_and_the_previous_cause(parent: Parent) -> None:
    """Only the first attempt gets the previous cause. The parent knows all later causes."""
    driver = parent.make("note('words', ' '.join(sys.argv[2:]) + '|')", after="Preempted")
    driver.attempt(Trigger.RUN)
    driver.attempt(Trigger.RETRY)
    words = "--trigger Run --after Preempted|--trigger Retry|"
    assert words == (parent.here / "words").read_text()


def test_the_command_is_this_programs_own() -> None:
    command = make_command("pipeline.yaml", "--engine", "inline")
    assert [sys.executable, "-P", "-m", "strandline", "drive"] == command[:5]
    assert ["pipeline.yaml", "--engine", "inline"] == command[5:]


def show_in(shown: list[float]) -> Callable[[float], None]:
    return shown.append


def never(_: float) -> None:
    raise AssertionError("nothing is to be waited for")


def test_a_time_in_the_past_is_shown_but_not_awaited() -> None:
    shown: list[float] = []
    assert wait_until(time.time() - 5.0, Stop(), show_in(shown), never)
    assert [0.0] == shown


def test_a_wait_ends_at_once_on_a_request_to_stop() -> None:
    shown: list[float] = []
    stop = Stop()
    assert not wait_until(time.time() + 3600, stop, show_in(shown), lambda _: stop.ask())
    assert all(3590 < left <= 3600 for left in shown)
    assert not wait_until(time.time() + 3600, stop, show_in(shown), never)


def test_a_wait_ends_at_its_time() -> None:
    shown: list[float] = []
    due = time.time() + 0.05
    assert wait_until(due, Stop(), show_in(shown), time.sleep)
    assert time.time() >= due
    assert 0.0 == shown[-1]


@pytest.mark.parametrize("step", [-1e6, 0.0, 1e6])
def test_a_clock_step_does_not_extend_a_wait(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    clock = {"wall": 5000.0, "passed": 0.0}
    fake = SimpleNamespace(monotonic=lambda: clock["passed"], time=lambda: clock["wall"])
    monkeypatch.setattr(driver_process, "time", fake)

    def sleep(seconds: float) -> None:
        clock["passed"] += seconds
        clock["wall"] += seconds + (
            step if clock["passed"] - seconds < 30 <= clock["passed"] else 0
        )

    assert wait_until(5100.0, Stop(), lambda _: None, sleep)
    assert clock["passed"] <= 101.0
    assert step > 0 or clock["passed"] >= 99.0


def test_a_suspended_machine_does_not_extend_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"wall": 5000.0, "passed": 0.0}
    fake = SimpleNamespace(monotonic=lambda: clock["passed"], time=lambda: clock["wall"])
    monkeypatch.setattr(driver_process, "time", fake)

    def sleep(seconds: float) -> None:
        clock["passed"] += seconds
        clock["wall"] += 200 * seconds

    assert wait_until(5100.0, Stop(), lambda _: None, sleep)
    assert clock["passed"] <= 2.0


def test_a_request_counts_the_signals_the_driver_received() -> None:
    stop = Stop()
    assert not stop.is_asked()
    stop.ask(signal.SIGINT, is_received=True)
    stop.ask(signal.SIGTERM)
    assert (2, 1, True) == (stop.times, stop.received, stop.is_asked())
    assert stop.signal == signal.SIGINT  # the first signal is the reason for the end


@pytest.mark.parametrize(
    ("signals", "times"),
    [
        *(("TTT", 1), ("TI", 2), ("IT", 2), ("II", 2), ("ITT", 2), ("TIT", 2), ("TTII", 3)),
        *(("NT", 1), ("TN", 1), ("NNT", 1), ("NI", 2), ("IN", 2), ("NTI", 2)),
    ],
)
def test_repeated_signals_are_one_request_and_each_key_is_another(signals: str, times: int) -> None:
    """The kernel delivers the lower of two pending signals first, so the order must not matter.

    A notice (N) and a pod's hook (T) both inform a head that its node is about to leave.
    """
    stop = Stop()
    for letter in signals:
        stop.ask({"T": signal.SIGTERM, "I": signal.SIGINT, "N": None}[letter])
    assert times == stop.times
