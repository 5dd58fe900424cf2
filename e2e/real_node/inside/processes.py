"""Manages the processes of a node, in the first process of its PID namespace.

Starts programs, reaps orphaned processes, and stops and starts programs on request through files.
The end of the first process ends everything else on the node. This module must not depend on
Kubernetes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from real_node.errors import NodeError
from real_node.inside.programs import Program

PAUSE = 0.1  # seconds between two polls
LAST_LINES = 15
STOP_SECONDS = 5  # seconds that the user's command has to end


class Processes:
    """All processes that the first process started, by process ID.

    Args:
        logs: folder for log files, `NAME.log`.
        pids: folder for PID files of running programs.
        stopped: folder for stop requests: a file with a program's name stops the program.
        environment: environment of every program.
    """

    def __init__(
        self, logs: Path, pids: Path, stopped: Path, environment: Mapping[str, str]
    ) -> None:
        self._logs, self._pids, self._stopped = logs, pids, stopped
        self._environment = dict(environment)
        self._running: dict[int, Program] = {}
        self._halted: dict[str, Program] = {}
        self._commands: dict[int, int | None] = {}  # exit codes by process, None while it runs

    def start(self, program: Program) -> None:
        """Start a long-running program in its own session, so that Ctrl-C does not reach it."""
        with (self._logs / f"{program.name}.log").open("ab") as log:
            process = subprocess.Popen(
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        self._running[process.pid] = program
        process.returncode = 0  # `tend` reaps the process, so keep subprocess from waiting
        (self._pids / program.name).write_text(f"{process.pid}\n", encoding="ascii")

    def tend(self) -> None:
        """Reap ended processes, and stop and start programs as the files request.

        Raises:
            NodeError: if a program ended without a stop request.
        """
        for process, status in reap():
            self._note_end(process, os.waitstatus_to_exitcode(status))
        wanted_away = {path.name for path in self._stopped.iterdir()}
        for process, program in list(self._running.items()):
            if program.name in wanted_away:
                os.kill(process, signal.SIGKILL)
        for name in self._halted.keys() - wanted_away:
            self.start(self._halted.pop(name))

    def _note_end(self, process: int, code: int) -> None:
        if process in self._commands:
            self._commands[process] = code
        program = self._running.pop(process, None)
        if program is None:
            return
        (self._pids / program.name).unlink(missing_ok=True)
        if not (self._stopped / program.name).exists():
            raise self.complain(program.name, f"ended with exit code {code}")
        self._halted[program.name] = program

    def complain(self, name: str, what: str) -> NodeError:
        """Describe a failed program, with the last lines of its log."""
        log = self._logs / f"{name}.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        return NodeError("\n".join([f"{name} {what}", *text.splitlines()[-LAST_LINES:]]))

    def wait_until(self, what: str, is_so: Callable[[], bool], timeout: float) -> None:
        """Call `tend` until a condition holds.

        Raises:
            NodeError: if a program ended, or on a timeout after `timeout` seconds.
        """
        end = time.monotonic() + timeout
        while not is_so():
            self.tend()
            if time.monotonic() > end:
                raise NodeError(f"waited {timeout:.0f} s in vain until {what}")
            time.sleep(PAUSE)

    def attend(self, command: Iterable[str], environment: Mapping[str, str]) -> int:
        """Run the user's command, call `tend` until it has ended, and return its exit code."""
        try:
            process = subprocess.Popen(list(command), env=dict(environment))
        except OSError as error:
            raise NodeError(f"cannot run {error.filename}: {error.strerror}") from None
        self._commands[process.pid] = None
        process.returncode = 0
        try:
            while (code := self._commands[process.pid]) is None:
                time.sleep(PAUSE)
                self.tend()
        except BaseException:
            self._dismiss(process.pid)
            raise
        return code if code >= 0 else 128 - code

    def _dismiss(self, command: int) -> None:
        with suppress(ProcessLookupError):  # the command may have ended together with a program
            os.kill(command, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        while all(process != command for process, _ in reap()) and time.monotonic() < end:
            time.sleep(PAUSE)


def reap() -> list[tuple[int, int]]:
    """Reap all ended processes and return their process IDs and statuses."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if process == 0:
            return ended
        ended.append((process, status))
