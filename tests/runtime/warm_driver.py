"""Runs drivers of the engine `inline` as forks of a process that has loaded their stages.

An undisturbed run takes a tenth of a second, but a new interpreter takes seconds. A fork runs
`strandline run` or `strandline drive` as the command line does, and can be killed like any process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from command_server import CommandServer

PATIENCE = 120.0
# Modules to load. Arrow would load pandas with its first array, but users have no pandas.
LOADED = (
    "pyarrow.parquet",
    "strandline.cli.app.commands",
    "strandline.cli.commands.data.ledgers.verify",
    "strandline.cli.commands.runs.drive",
    "strandline.cli.commands.runs.run",
    "strandline.engine.inline",
)


class WarmDriver:
    """Runs one command at a time.

    Args:
        environment: variables of all commands.
        modules: names of more modules to load, such as those of stages.
        server: forks the processes, or None to start a server for this driver only.

    Attributes:
        pid: the process of the running command, or 0.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        modules: Sequence[str] = (),
        server: CommandServer | None = None,
    ) -> None:
        self._environment = environment
        self._own = None if server else make_server(environment, modules)
        self._server = server or self._own
        self._process: subprocess.Popen[Any] | None = None
        self.pid = 0

    def start(self, words: Sequence[str], extra: Mapping[str, str], log: Path) -> None:
        """Start a command with these words of the command line."""
        assert self._server is not None
        with log.open("ab") as file:
            self._process = self._server.start(
                [sys.executable, "-m", "strandline", *words],
                env={**self._environment, **extra},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self.pid = self._process.pid

    def wait(self, seconds: float = PATIENCE) -> int:
        """Return the exit code, or a negative number after a signal.

        Raises:
            TimeoutError: if the command does not end.
        """
        assert self._process is not None
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"a driver has not ended within {seconds:.0f} s") from None
        self.pid = 0
        return code

    def send(self, number: int) -> None:
        """Send a signal to the process, unless the process has ended."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def close(self) -> None:
        """Kill the running command, and end the server if it is this driver's own."""
        if self._process is not None and self.pid:
            self.send(signal.SIGKILL)
            self.wait()
        if self._own is not None:
            self._own.close()


class WarmDrivers:
    """Drivers for several threads, which share one server.

    Args:
        environment, modules: see `WarmDriver`.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self._environment = environment
        self._server = make_server(environment, modules)

    @contextmanager
    def lent(self) -> Iterator[WarmDriver]:
        """Yield a driver. At the end, kill its running command."""
        driver = WarmDriver(self._environment, server=self._server)
        try:
            yield driver
        finally:
            driver.close()

    def close(self) -> None:
        """End the server, and kill the commands that still run."""
        self._server.close()


def make_server(environment: Mapping[str, str], modules: Sequence[str]) -> CommandServer:
    """Start a server that finds modules in the same places as the commands."""
    folders = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    return CommandServer((*LOADED, *modules), [Path(folder) for folder in folders])
