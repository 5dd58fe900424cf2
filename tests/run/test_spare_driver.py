"""The spare process that is forked before a driver is needed: its start, refusal, and end."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.engine.call.descendants import list_children
from strandline.run.supervise.driver import spare_driver
from strandline.run.supervise.driver.spare_driver import SpareDriver, fork_spare, take_spare


def fork(work: Callable[[list[str]], None], load: Callable[[], None] = lambda: None) -> SpareDriver:
    """Fork a spare process that calls `work` with the arguments of its order."""
    parent = os.getpid()
    try:
        arguments = fork_spare(load)
        if arguments is not None:
            work(arguments)
    finally:
        if os.getpid() != parent:
            os._exit(0)
    spare = take_spare()
    assert spare is not None
    return spare


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = list_children().keys()
    yield
    assert list_children().keys() <= before


def test_a_started_process_has_the_arguments_variables_and_files_of_its_order(
    tmp_path: Path,
) -> None:
    def work(arguments: list[str]) -> None:
        told = {"arguments": arguments, "environment": dict(os.environ), "group": os.getpgid(0)}
        os.write(1, json.dumps(told).encode())
        os.write(40, b"message")

    spare = fork(work)
    out, message = (
        os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT) for name in ("out", "message")
    )
    process = spare.start(["drive", "a.yaml"], {"A": "1"}, {1: out, 40: message})
    assert process is not None
    assert process.wait(60) == 0
    os.close(out)
    os.close(message)
    assert json.loads((tmp_path / "out").read_text()) == {
        "arguments": ["drive", "a.yaml"],
        "environment": {"A": "1"},
        "group": process.pid,  # its own group, so Ctrl-C does not reach the driver
    }
    assert (tmp_path / "message").read_text() == "message"


def test_files_whose_numbers_are_exchanged_stay_apart(tmp_path: Path) -> None:
    def work(_: list[str]) -> None:
        os.write(first, b"second")
        os.write(second, b"first")

    first, second = (os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT) for name in "ab")
    process = fork(work).start([], {}, {first: second, second: first})
    assert process is not None
    assert process.wait(60) == 0
    os.close(first)
    os.close(second)
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("first", "second")


def test_a_dead_process_is_not_started() -> None:
    spare = fork(lambda _: None, load=lambda: os._exit(3))
    assert spare.process.wait(60) == 3
    assert spare.start(["drive"], {}, {}) is None


def test_a_dismissed_process_ends_even_while_loading() -> None:
    spare = fork(lambda _: None, load=lambda: time.sleep(60))
    spare.dismiss()
    assert spare.process.poll() == -signal.SIGKILL


def test_a_spare_process_is_taken_once() -> None:
    fork(lambda _: None).dismiss()
    assert take_spare() is None


def test_a_kernel_without_process_descriptors_gets_no_spare_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spare_driver, "has_descriptors", lambda: False)
    assert fork_spare(lambda: None) is None
    assert take_spare() is None
