"""A local S3 server, and the common parts of all store servers.

The server is built once from a Go module, checks keys, and ends with the tests. This module
must not depend on the stored objects.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import s3fs

from control_plane import find_free_ports

ROOT = Path(__file__).parents[2]
NEEDED = "STRANDLINE_NEEDS_S3"
ADVICE = (
    "NO S3 SERVER, so object stores were not tested: install Go 1.25 or newer and run `make s3`,"
    " which builds it once"
)
KEY, SECRET = "reader", "known-to-tests"
PATIENCE = 30.0


class NoServerError(Exception):
    """No server is available. The message has instructions."""


@dataclass(frozen=True, slots=True)
class Store:
    """A running server, which serves S3 unless a subclass differs."""

    url: str
    protocol: ClassVar[str] = "s3"
    # Environment variables with invalid credentials, and the expected message for each.
    spoilt: ClassVar[Mapping[str, tuple[Mapping[str, str], str]]] = {
        "wrong secret": ({"AWS_SECRET_ACCESS_KEY": "another"}, "signature"),
        "unknown key": (
            {"AWS_ACCESS_KEY_ID": "nobody"},
            "No user exists with the provided access key ID",
        ),
        "none": (
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": "/nowhere"},
            "Unable to locate credentials",
        ),
    }

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that a process needs, as in a Secret."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def open(self) -> Any:
        """Return the store with the owner's rights."""
        return s3fs.S3FileSystem(
            key=KEY, secret=SECRET, endpoint_url=self.url, skip_instance_cache=True
        )


@contextmanager
def serve(program: Path, folder: Path) -> Iterator[Store]:
    """Run a server over an empty folder for the duration of the block."""
    data = folder / "data"
    data.mkdir(parents=True)
    (port,) = find_free_ports(1)
    address = f"127.0.0.1:{port}"
    words = [str(program), "--port", address, "--access", KEY, "--secret", SECRET, "--quiet"]
    with keep_running([*words, "posix", str(data)], port, folder, {"HOME": str(folder)}):
        yield Store(f"http://{address}")


@contextmanager
def keep_running(
    words: Sequence[str], port: int, folder: Path, variables: Mapping[str, str]
) -> Iterator[None]:
    """Run a server that listens on a port, with its log in the folder."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, env=variables)
        try:
            _await_port(port, process)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


def find_server() -> Path:
    """Return the server's program. Build the program if a variable requests that.

    Raises:
        NoServerError: if the program is missing or cannot be built.
    """
    return find_program("s3", "versitygw", NEEDED, ADVICE)


def find_program(target: str, below: str, needed: str, advice: str) -> Path:
    """Return the program of a make target. Build the program if a variable requests that.

    Args:
        below: path in the target's cache folder.

    Raises:
        NoServerError: if the program is missing or cannot be built. The message has instructions.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    is_built = any(cache.glob(f"strandline/{target}-*/{below}"))
    if shutil.which("make") is None or not (is_built or os.environ.get(needed)):
        raise NoServerError(advice)
    command = ["make", "--silent", "--no-print-directory", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoServerError(f"{advice} ({done.stderr.strip()[-500:]})")
    return Path(done.stdout.splitlines()[-1])


def require_server() -> Path:
    """Return the server's program, or skip the test. Fail instead if the program is required."""
    return require(find_server, NEEDED)


def require(find: Callable[[], Path], needed: str) -> Path:
    """Return a program, or skip the test. Fail instead if a variable requires the program."""
    try:
        return find()
    except NoServerError as error:
        if os.environ.get(needed):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, "the server has ended; its log lies beside its data"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")
