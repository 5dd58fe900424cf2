"""The memory page that a worker shares with its driver, read after a hang or a death."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from strandline.engine.worker.worker_page import WorkerPage, read_own_stacks


def hang_in_c(begun: int) -> None:
    """Report the start, then block the interpreter for longer than any test runs."""
    os.write(begun, b".")
    re.match("(a+)+$", "a" * 60 + "b")


@contextmanager
def hanging(page: WorkerPage) -> Iterator[int]:
    """Yield a process that shares the page and hangs in the third stage of call 7."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            page.offer_stacks()
            page.note(7, 2)
            hang_in_c(writing)
        finally:
            os._exit(1)
    try:
        os.read(reading, 1)
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


@pytest.fixture
def page() -> Iterator[WorkerPage]:
    page = WorkerPage.make()
    yield page
    page.close()


def test_a_worker_that_holds_the_interpreter_shows_its_stack(page: WorkerPage) -> None:
    with hanging(page) as child:
        page.process = child
        for _ in range(2):
            stacks = page.ask_stacks(time.sleep)
            assert "in hang_in_c" in stacks
            assert stacks.count("most recent call first") == 1


def test_the_running_stage_is_known_after_the_death_of_its_worker(page: WorkerPage) -> None:
    with hanging(page) as child:
        page.process = child
    assert page.read(7) == 2
    assert page.read(8) is None
    assert page.ask_stacks(time.sleep) == ""


def test_another_process_finds_the_page_by_its_path(page: WorkerPage) -> None:
    found = WorkerPage.find(page.path)
    assert found is not None
    page.note(3, 1)
    assert (found.read(3), found.process) == (1, os.getpid())
    found.close()


@pytest.mark.parametrize("path", ["", "/proc/self/exe", "/nowhere/fd/3", "/proc/1/fd/999999"])
def test_other_files_are_not_a_page(path: str) -> None:
    assert WorkerPage.find(path) is None


def test_a_process_reads_its_own_stacks() -> None:
    assert "in test_a_process_reads_its_own_stacks" in read_own_stacks()
