"""The process that forks workers. It starts before the work is known."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.engine.processes.fork_program import (
    ForkProgram,
    ending_ahead,
    is_kept,
    keep_program,
    start_ahead,
    take_program,
)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ForkProgram]]:
    """Yield a list of the started processes in order. End the processes after the test."""
    programs: list[ForkProgram] = []
    start = ForkProgram.__init__

    def note(self: ForkProgram, **options: bool) -> None:
        start(self, **options)
        programs.append(self)

    monkeypatch.setattr(ForkProgram, "__init__", note)
    with ending_ahead():
        yield programs
    for program in programs:
        program.end()


def test_a_program_started_early_is_used_once(started: list[ForkProgram]) -> None:
    start_ahead()
    assert [take_program(), take_program()] == started
    assert len(started) == 2


def test_workers_get_variables_set_after_the_start(
    started: list[ForkProgram], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_ahead()
    monkeypatch.setenv("OF_A_STAGE", "1")
    assert take_program() is started[1]
    assert started[0].process.poll() == -signal.SIGKILL


def test_a_program_is_kept_for_the_runs_of_a_block(started: list[ForkProgram]) -> None:
    assert is_kept()
    program = take_program()
    keep_program(program)
    start_ahead()
    assert take_program() is program
    assert len(started) == 1


def test_a_program_that_is_still_loading_ends_at_once(
    started: list[ForkProgram], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Loading may take longer than the wait for the process's end, as on a busy machine.
    (tmp_path / "pyarrow.py").write_text("import time\nwhile True:\n    time.sleep(0.01)\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with ending_ahead():
        start_ahead()
    assert started[0].process.poll() == -signal.SIGKILL


def test_a_dead_program_is_replaced(started: list[ForkProgram]) -> None:
    start_ahead()
    started[0].process.kill()
    started[0].process.wait()
    assert take_program() is started[1]
    assert started[0].process.poll() == -signal.SIGKILL


def test_a_program_ends_cleanly_without_work() -> None:
    with ending_ahead():
        start_ahead()
        program = ForkProgram()
        program.end()
    assert program.process.poll() == 0
