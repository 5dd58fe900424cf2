"""`strandline run --address` with a Ray cluster that requires a token."""

from __future__ import annotations

import importlib
import os
import re
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

# Starts a Ray with a token. In the first tier, tests/engine/test_start_of_ray.py tests the messages
# with the errors that Ray raises.
pytestmark = pytest.mark.more
TOKEN = "strandline" * 4
HEAD_VARIABLES = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": TOKEN,
    "RAY_USAGE_STATS_ENABLED": "0",
}
NEEDS_TOKENS = pytest.mark.skipif(
    not hasattr(ray.exceptions, "AuthenticationError"), reason="this Ray knows no tokens"
)
authentication_setup = (
    importlib.import_module("ray._private.authentication.authentication_token_setup")
    if hasattr(ray.exceptions, "AuthenticationError")
    else None
)


@pytest.fixture(scope="module")
def running_head() -> Iterator[str]:
    """Start the head of a Ray cluster, and yield its address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as place:
        process = start_head(port, Path(place))
        yield f"127.0.0.1:{port}"
        assert process.poll() is None, read_log(Path(place))
        process.send_signal(signal.SIGTERM)
        process.wait()


@pytest.fixture
def head(running_head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a running head, for a user without a token."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("HOME", str(tmp_path))
    return running_head


def start_head(port: int, folder: Path, tries: int = 3) -> subprocess.Popen[bytes]:
    """Start a head, and return when its node is registered. An open port is not sufficient.

    Ray gives its node 30 s, which may be too short on a busy machine. Then Ray ends all processes,
    including the server at the port, which may have answered before.
    """
    script = Path(sys.executable).with_name("ray")
    words = ["start", "--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1"]
    words += ["--num-cpus=2", "--include-dashboard=false", f"--temp-dir={folder}"]
    for _ in range(tries):
        with (folder / "head.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, script, *words],
                env=os.environ | HEAD_VARIABLES | {"HOME": str(folder)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while process.poll() is None:
            if "Ray runtime started" in read_log(folder):
                return process
            time.sleep(0.1)
        if "timed out during startup" not in read_log(folder):
            break
    raise AssertionError(read_log(folder))


def read_log(folder: Path) -> str:
    return (folder / "head.log").read_text(encoding="utf-8", errors="replace")


@NEEDS_TOKENS
def test_a_cluster_that_requires_a_token_fails_at_once(
    project: Project, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter() -> str:
        result = project.execute("run", "--address", head)
        assert (64, "") == (result.returncode, result.stdout)
        (line,) = (line for line in result.stderr.splitlines() if line.startswith("strandline: "))
        assert not re.search(r"retry (in|\d+ of) ", result.stderr)
        return line.removeprefix(f"strandline: error: the Ray cluster at {head} requires ")

    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert "a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the cluster's token" == enter()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN[::-1])
    assert enter().startswith("its own token; set RAY_AUTH_TOKEN to the token, ")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    assert 0 == project.execute("run", "--address", head).returncode


@NEEDS_TOKENS
@pytest.mark.parametrize("setting", [{}, {"RAY_AUTH_TOKEN_PATH": "/nowhere/token"}])
def test_a_ray_configured_for_tokens_without_one_is_reported(
    project: Project, head: str, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str]
) -> None:
    for name, value in {"RAY_AUTH_MODE": "token", **setting}.items():
        monkeypatch.setenv(name, value)
    result = project.execute("run", "--address", head)
    assert (64, "") == (result.returncode, result.stdout), result.stderr
    (line,) = result.stderr.splitlines()
    assert line == (
        f"strandline: error: no token is set for the Ray cluster at {head}; set RAY_AUTH_TOKEN to "
        "the cluster's token, RAY_AUTH_TOKEN_PATH to a file with the token, or "
        "RAY_AUTH_MODE=disabled if the cluster needs no token"
    )


@pytest.mark.skipif(
    not hasattr(authentication_setup, "maybe_enable_token_auth_if_token_available"),
    reason="this Ray looks at no token unless it is told to",
)
def test_the_token_in_the_home_folder_is_used(
    project: Project, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_ADDRESS", head)
    keep_token(TOKEN[::-1])
    result = project.execute("run", "--address", "auto")
    assert 64 == result.returncode, result.stderr
    assert "error: the Ray cluster at auto requires its own token; " in result.stderr
    keep_token(TOKEN)
    result = project.execute("run", "--address", "auto")
    assert 0 == result.returncode, result.stderr
    assert "uthentication" not in result.stderr


def keep_token(token: str) -> None:
    """Store a token where Ray looks for a token."""
    path = Path(os.environ["HOME"], ".ray", "auth_token")
    path.parent.mkdir(exist_ok=True)
    path.write_text(token, encoding="ascii")
