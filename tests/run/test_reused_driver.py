"""A driver is reused for the next pipeline only if it completed the previous pipeline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from strandline.run.supervise.driver import retained_driver
from strandline.run.supervise.driver.driver_output import STDERR, STDOUT
from strandline.run.supervise.driver.driver_process import DriverLimits, DriverProcess
from strandline.run.supervise.driver.retained_driver import (
    RetainedDriver,
    find_orders,
    retaining_driver,
)
from strandline.run.supervise.stop import Stop
from strandline.run.supervise.supervision import EndedAttempt
from strandline.run.supervise.variables import AHEAD
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import name_cause
from strandline_api.status.enums import Trigger

LONGEST = 30.0
# A driver that records its pid and arguments and executes the code planned for its turn.
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from strandline.run.supervise.driver import retained_driver
from strandline.run.supervise.driver.retained_driver import find_orders
here, orders = Path(sys.argv[1]), find_orders(os.environ)
arguments, turn = sys.argv[2:], 0
while arguments is not None:
    turn += 1
    told = [os.environ["STRANDLINE_" + name] for name in ("PARENT", "LAST_WORDS")]
    with (here / "turns").open("a") as file:
        print(os.getpid(), *told, *arguments, file=file)
    print("turn", turn, "x" * 200_000, flush=True)
    path = here / f"turn-{turn}"
    if path.exists():
        exec(path.read_text())
    arguments = orders.ask(os.environ) if orders else None
(here / "left").touch()
"""
# A parent that makes two attempts with one driver and then waits to be killed.
PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_reused_driver import Parent
from strandline.run.supervise.driver import retained_driver
from strandline.run.supervise.driver.retained_driver import RetainedDriver
parent, kept = Parent(Path(sys.argv[1])), RetainedDriver()
for name in ("a", "b"):
    assert not parent.make(name, kept).attempt("Run").outcome.exit_code
(parent.here / "waiting").touch()
time.sleep(600)
"""


class Parent:
    """Makes attempts at pipelines in separate folders, with scripts as drivers."""

    def __init__(self, here: Path) -> None:
        self.here = here

    def make(
        self, name: str, others: RetainedDriver | None, stop: Stop | None = None
    ) -> DriverProcess:
        command = [sys.executable, "-c", SCRIPT, str(self.here), name]
        driver = DriverProcess(
            command, PipelineFolder(self.here / name), DriverLimits(60.0), stop or Stop()
        )
        driver.kept, driver.others = (STDOUT, STDERR), others
        return driver

    def attempt(self, name: str, others: RetainedDriver | None) -> EndedAttempt:
        return self.make(name, others).attempt(Trigger.RUN)

    def plan(self, turn: int, code: str) -> None:
        (self.here / f"turn-{turn}").write_text(code)

    def read_turns(self) -> list[list[str]]:
        return [line.split() for line in (self.here / "turns").read_text().splitlines()]

    def list_pids(self) -> list[str]:
        return [words[0] for words in self.read_turns()]

    def read_log(self, name: str) -> list[str]:
        (log,) = (self.here / name / "logs").glob("*.log")
        return [" ".join(line.split()[:2]) for line in log.read_text().splitlines()]


@pytest.fixture
def parent(tmp_path: Path) -> Parent:
    return Parent(tmp_path)


@pytest.fixture
def kept() -> Iterator[RetainedDriver]:
    with retaining_driver() as kept:
        yield kept


def await_file(path: Path) -> None:
    end = time.monotonic() + LONGEST
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} never came"
        time.sleep(0.02)


def is_there(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def await_end(pid: str) -> None:
    end = time.monotonic() + LONGEST
    while is_there(pid):
        assert time.monotonic() < end, f"{pid} never ended"
        time.sleep(0.02)


def test_a_driver_that_completed_gets_the_next_pipeline(
    parent: Parent, kept: RetainedDriver
) -> None:
    drivers = [parent.make(name, kept) for name in ("a", "b", "c")]
    drivers[1].after = "Preempted"
    assert [driver.attempt(Trigger.RUN).outcome.exit_code for driver in drivers] == [0, 0, 0]
    turns = parent.read_turns()
    assert len({(pid, above, words) for pid, above, words, *_ in turns}) == 1
    assert turns[0][1] == str(os.getpid())
    assert turns[0][3:] == ["a", "--trigger", "Run"]
    # A reused driver gets its command without the first five words, which here include the name.
    assert turns[1][3:] == ["--trigger", "Run", "--after", "Preempted"]
    assert {str(driver.pid) for driver in drivers} == {turns[0][0]}


def test_law_each_log_has_the_output_of_its_turn(parent: Parent, kept: RetainedDriver) -> None:
    for name in ("a", "b", "c"):
        ended = parent.attempt(name, kept)
        assert (parent.here / name / ended.outcome.log_file).is_file()
    assert [parent.read_log(name) for name in ("a", "b", "c")] == [
        ["turn 1"],
        ["turn 2"],
        ["turn 3"],
    ]


def test_a_driver_ends_when_no_pipeline_follows(parent: Parent) -> None:
    with retaining_driver() as kept:
        parent.attempt("a", kept)
        assert not (parent.here / "left").exists()
    assert (parent.here / "left").exists()
    assert not is_there(parent.list_pids()[0])


def test_a_driver_that_does_not_end_is_killed(
    parent: Parent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained_driver, "_END_SECONDS", 0.1)
    parent.plan(1, "import atexit; atexit.register(time.sleep, 600)")
    with retaining_driver() as kept:
        parent.attempt("a", kept)
    assert not is_there(parent.list_pids()[0])


@pytest.mark.parametrize(
    ("code", "exit_code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", 137)]
)
def test_a_driver_that_did_not_complete_is_not_reused(
    parent: Parent, kept: RetainedDriver, code: str, exit_code: int
) -> None:
    parent.plan(2, code)
    codes = [parent.attempt(name, kept).outcome.exit_code for name in ("a", "b", "b", "c")]
    assert codes == [0, exit_code, 0, exit_code]
    first, second, third, fourth = parent.list_pids()
    assert (first, third) == (second, fourth)
    assert first != third


def test_a_driver_that_died_meanwhile_is_replaced(parent: Parent, kept: RetainedDriver) -> None:
    parent.attempt("a", kept)
    os.kill(int(parent.list_pids()[0]), signal.SIGKILL)
    await_end(parent.list_pids()[0])
    assert parent.attempt("b", kept).outcome.exit_code == 0
    assert len(set(parent.list_pids())) == 2


def test_a_driver_that_dies_on_its_next_order_ends_badly(
    parent: Parent, kept: RetainedDriver
) -> None:
    """The attempt may have begun, so the parent must not simply start another driver."""
    parent.plan(
        1,
        "signal.signal(signal.SIGTERM, lambda *_: None)\nask = orders.ask\n"
        "orders.ask = lambda _: (ask(os.environ), os.kill(os.getpid(), signal.SIGKILL))",
    )
    parent.attempt("a", kept)
    assert parent.attempt("b", kept).outcome.exit_code == 137


def test_another_driver_is_started_if_the_log_cannot_be_kept(
    parent: Parent, kept: RetainedDriver
) -> None:
    """The first driver writes its output to a pipe that has no reader any more."""
    parent.attempt("a", kept)
    (parent.here / "b").write_text("no folder")
    assert parent.attempt("b", kept).outcome.log_file == ""
    assert len(set(parent.list_pids())) == 2


def test_a_request_to_stop_reaches_a_driver_in_its_second_turn(
    parent: Parent, kept: RetainedDriver
) -> None:
    parent.plan(2, "(here / 'busy').touch()\ntime.sleep(600)")
    parent.attempt("a", kept)
    stop, busy = Stop(), parent.here / "busy"
    asked = SimpleNamespace(times=0, received=0, signal=signal.SIGTERM, is_asked=busy.exists)
    driver = parent.make("b", kept, stop)
    driver.stop = asked  # type: ignore[assignment]  # asks when it is busy
    ended = driver.attempt(Trigger.RUN)
    assert name_cause(ended.outcome.evidence).cause is Cause.INTERRUPTED
    assert len(set(parent.list_pids())) == 1


def test_a_driver_does_not_wait_for_a_dead_parent(parent: Parent) -> None:
    command = [sys.executable, "-c", PARENT, str(parent.here), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        await_file(parent.here / "waiting")
        process.kill()
    await_file(parent.here / "left")
    await_end(parent.list_pids()[0])


@pytest.mark.parametrize(
    ("ray", "has_ledger", "expected"),
    [(None, False, None), ("2", False, "2"), ("", False, ""), ("2", True, None)],
)
def test_a_driver_starts_ray_early_if_there_may_be_work(
    parent: Parent, ray: str | None, has_ledger: bool, expected: str | None
) -> None:
    """With an existing ledger, Ray does not start early: perhaps no work is left."""
    parent.plan(1, f"(here / 'ray').write_text(repr(os.environ.get({AHEAD!r})))")
    driver = parent.make("a", None)
    driver.ray = ray
    if has_ledger:
        driver.folder.ledger.mkdir(parents=True)
    driver.attempt(Trigger.RUN)
    assert (parent.here / "ray").read_text() == repr(expected)


def test_a_driver_without_successors_does_not_wait(parent: Parent) -> None:
    assert parent.attempt("a", None).outcome.exit_code == 0
    assert (parent.here / "left").exists()
    assert find_orders({}) is None
