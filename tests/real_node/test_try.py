"""`make try` as a whole: it shows a second attempt and leaves nothing behind, even after Ctrl-C.

Both tests start a node with images of the sources, so the first test may have to build the images.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from real_node.outside import leftovers

ROOT = Path(__file__).parents[2]
BUILD_SECONDS, SHOW_SECONDS, END_SECONDS = 1800, 900, 180
pytestmark = [
    pytest.mark.full,  # a node with real Ray takes minutes
    pytest.mark.timeout(BUILD_SECONDS + SHOW_SECONDS + END_SECONDS),
    pytest.mark.skipif(os.geteuid() != 0, reason="a node is brought up by root only"),
]


@contextmanager
def started() -> Iterator[subprocess.Popen[str]]:
    """Start `make try` in its own process group, as a terminal does."""
    command = ["make", "try"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


def list_leftovers() -> list[str]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return list(leftovers.list_leftovers(cache / "strandline" / "try-node"))


def test_make_try_shows_a_second_attempt_and_leaves_nothing() -> None:
    with started() as process:
        shown, _ = process.communicate(timeout=BUILD_SECONDS + SHOW_SECONDS)
    assert process.returncode == 0, shown[-4000:]
    assert "the first call builds" in shown
    assert "$ kubectl exec " in shown
    assert "OOMKilled" in shown
    assert "try: attempt 1 ended with OOMKilled; attempt 2 went on" in shown
    assert list_leftovers() == []


def test_an_interrupt_ends_the_node_and_everything_on_it() -> None:
    with started() as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("$ kubectl get curationattempts"):
                break
        else:
            pytest.fail("".join(lines[-40:]))
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=END_SECONDS)
    assert process.returncode != 0
    assert "Traceback" not in rest
    assert list_leftovers() == []
