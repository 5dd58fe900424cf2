"""Forked children end as `subprocess.Popen` would report it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from strandline.engine.call.forked_process import ForkedProcess


def fork(work: Callable[[], None]) -> ForkedProcess:
    """Fork a child that does some work and exits with code 0."""
    # Another test may have left a handler, with which the child would go on.
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    signal.signal(signal.SIGTERM, before)
    return ForkedProcess(pid)


def test_the_exit_code_is_kept() -> None:
    child = fork(lambda: os._exit(7))
    assert [child.wait(), child.wait(1), child.poll()] == [7, 7, 7]


def test_a_signal_is_a_negative_code_and_reaches_only_a_live_child() -> None:
    child = fork(lambda: time.sleep(60))
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == -signal.SIGTERM
    child.kill()  # no signal, because the pid may belong to another process
    assert child.poll() == -signal.SIGTERM


def test_a_wait_ends_after_its_time() -> None:
    child = fork(lambda: time.sleep(60))
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    child.kill()
    assert child.wait() == -signal.SIGKILL


def test_a_child_that_other_code_has_waited_for_counts_as_ended() -> None:
    child = fork(lambda: None)
    os.waitpid(child.pid, 0)
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 0
