"""Fault injection is inactive unless armed, and a fault fires once across all processes."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from strandline.storage import faults

REACH = """
import sys
from strandline.storage.faults import reach
for step in sys.argv[1:]:
    reach(step)
print("survived")
"""


@pytest.fixture(autouse=True)
def nothing_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_reached", Counter())
    monkeypatch.delenv("STRANDLINE_FAULT", raising=False)
    monkeypatch.delenv("STRANDLINE_FAULT_LOG", raising=False)


def run(log: Path, fault: str, *steps: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"STRANDLINE_FAULT": fault, "STRANDLINE_FAULT_LOG": str(log)}
    command = [sys.executable, "-c", REACH, *steps]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_kill_fires_once_over_several_processes(tmp_path: Path) -> None:
    log = tmp_path / "fault.log"
    ends = [run(log, "output.synced:kill", "output.opened", "output.synced") for _ in range(3)]
    assert [-signal.SIGKILL, 0, 0] == [end.returncode for end in ends]
    assert ["", "survived\n", "survived\n"] == [end.stdout for end in ends]
    (line,) = log.read_text().splitlines()  # proves that the fault fired, and where
    step, action, pid = line.split()
    assert ("output.synced", "kill") == (step, action)
    assert int(pid) > 0


def test_processes_that_reach_a_step_together_share_one_fault(tmp_path: Path) -> None:
    log = tmp_path / "fault.log"
    environment = os.environ | {
        "STRANDLINE_FAULT": "commit.begun:kill",
        "STRANDLINE_FAULT_LOG": str(log),
    }
    command = [sys.executable, "-c", REACH, "commit.begun"]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(4)
    ]
    killed = [process for process in started if process.wait() == -signal.SIGKILL]
    assert 1 == len(killed)
    assert f"commit.begun kill {killed[0].pid}\n" == log.read_text()


def test_a_fault_that_is_not_reached_leaves_no_line(tmp_path: Path) -> None:
    log = tmp_path / "fault.log"
    assert "survived\n" == run(log, "output.synced:kill:2", "output.synced").stdout
    assert not log.exists()


@pytest.mark.parametrize(("action", "number"), [("enospc", errno.ENOSPC), ("eio", errno.EIO)])
def test_an_error_is_raised_at_the_nth_time(
    monkeypatch: pytest.MonkeyPatch, action: str, number: int
) -> None:
    monkeypatch.setenv("STRANDLINE_FAULT", f"commit.written:{action}:3")
    for step in ("commit.written", "commit.synced", "commit.written"):
        faults.reach(step)
    with pytest.raises(OSError, match=r"fault injected at commit\.written") as caught:
        faults.reach("commit.written")
    assert number == caught.value.errno
    faults.reach("commit.written")


def test_an_error_is_written_to_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "fault.log"
    monkeypatch.setenv("STRANDLINE_FAULT", "commit.written:eio")
    monkeypatch.setenv("STRANDLINE_FAULT_LOG", str(log))
    with pytest.raises(OSError, match="injected"):
        faults.reach("commit.written")
    assert f"commit.written eio {os.getpid()}\n" == log.read_text()


@pytest.mark.parametrize("armed", [None, "output.opened:kill", "commit:kill", ""])
def test_unarmed_steps_pass(monkeypatch: pytest.MonkeyPatch, armed: str | None) -> None:
    if armed is not None:
        monkeypatch.setenv("STRANDLINE_FAULT", armed)
    faults.reach("commit.written")
    assert not faults._reached


def test_every_step_of_the_code_is_listed() -> None:
    package = Path(faults.__file__).parents[1]
    texts = {
        path.relative_to(package).as_posix(): path.read_text() for path in package.rglob("*.py")
    }
    text = "".join(texts.values())
    reached = set(re.findall(r'\breach\("([\w.]+)"\)', text))
    # These functions reach steps whose names are a prefix from the caller and one of these
    # suffixes.
    for module, call in (
        ("storage/outputs/disk/whole_files.py", "write_whole"),
        ("storage/volume/latest.py", "_lead"),
    ):
        callers = set(re.findall(rf'\b{call}\([^=]*?steps="(\w+)"', text))
        halves = re.findall(r'\b_reach\(steps, "(\w+)"\)', texts[module])
        assert 3 == len(halves)
        reached |= {f"{caller}.{half}" for caller in callers for half in halves}
    assert sorted(reached) == sorted((*faults.STEPS, *faults.STEPS_OF_PUSHES))
