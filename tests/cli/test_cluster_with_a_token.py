"""`strandline run --address` at a Ray that lets in only who has its token."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray.exceptions

from cli_project import Project

TOKEN = "strandline" * 4


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of one that is there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as place:
        monkeypatch.setenv("HOME", place)  # no token of the machine's own
        script = Path(sys.executable).with_name("ray")
        words = ["start", "--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1"]
        words += ["--num-cpus=2", "--include-dashboard=false", f"--temp-dir={place}"]
        process = subprocess.Popen(
            [sys.executable, script, *words],
            env=os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for(port, process)
        yield f"127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


@pytest.mark.skipif(
    not hasattr(ray.exceptions, "AuthenticationError"), reason="this Ray knows no tokens"
)
def test_a_cluster_that_wants_a_token_is_not_waited_for(
    project: Project, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter() -> str:
        result = project.execute("run", "--address", head)
        assert (64, "") == (result.returncode, result.stdout)
        (line,) = (line for line in result.stderr.splitlines() if line.startswith("strandline: "))
        assert "retry in" not in result.stderr
        return line.removeprefix(f"strandline: error: the Ray at {head} wants ")

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert (
        "a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the one of the cluster" == enter()
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN[::-1])
    assert enter().startswith("the token of its cluster; set RAY_AUTH_TOKEN to it, ")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    assert 0 == project.execute("run", "--address", head).returncode
