"""A local Ray of two nodes that loses and replaces a node on request."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PATIENCE = 120.0
PROGRAM = Path(__file__).with_name("ray_nodes_program.py")


class NoRayError(Exception):
    """Ray did not start or respond, perhaps because the machine is too busy for two nodes."""


class TwoNodeRay:
    """A Ray cluster in its own process.

    Args:
        environment: variables of its workers.
        log: file for the output of its processes.

    Attributes:
        address: address for drivers.
        pid: process id of the parent of all its processes.

    Raises:
        NoRayError: if the cluster does not start.
    """

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**environment, "RAY_USAGE_STATS_ENABLED": "0"},
            )
        self.pid = self._process.pid
        self.address = str(self._read())

    def lose_one(self) -> None:
        """Kill the second node, start a new node, and wait until it is ready."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"lose\n")
        self._process.stdin.flush()
        self._read()

    def close(self) -> None:
        """End the cluster."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            raise NoRayError(f"Ray has not answered within {PATIENCE:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise NoRayError(f"Ray has ended: {self._log.read_text()[-2000:]}")
        return json.loads(line)
