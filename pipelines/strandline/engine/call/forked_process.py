"""Children that this process forks, with the part of `subprocess.Popen` that callers need.

The kernel must support process descriptors; see `has_descriptors`.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress
from typing import Protocol


class ChildProcess(Protocol):
    """A child of this process: forked, or started by `subprocess`."""

    @property
    def pid(self) -> int:
        """Process id."""

    def poll(self) -> int | None:
        """Return the exit code, or None while the child runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the child, and return the exit code."""

    def send_signal(self, sig: int) -> None:
        """Send a signal to the child. Do nothing if the child has ended."""

    def kill(self) -> None:
        """Kill the child. Do nothing if the child has ended."""


def has_descriptors() -> bool:
    """Return True if the kernel has process descriptors, which `ForkedProcess` needs."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


class ForkedProcess:
    """A forked child that this process has not waited for yet."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._pid

    def poll(self) -> int | None:
        """Return the exit code, or a negative signal number, or None while the child runs."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # other code has waited for the child
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the child, and return the exit code.

        Args:
            timeout: seconds, or None to wait without a limit.

        Raises:
            subprocess.TimeoutExpired: if the child still runs after this time.
        """
        code = self.poll()
        if code is None:
            end = os.pidfd_open(self._pid)
            try:
                # Unlike `select`, `poll` accepts descriptors of any number.
                waiting = select.poll()
                waiting.register(end, select.POLLIN)
                waiting.poll(None if timeout is None else timeout * 1000)
            finally:
                os.close(end)
            code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired([str(self._pid)], timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal to the child. Do nothing if the child has ended."""
        # The id belongs to the child until this process has waited for the child.
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, sig)

    def kill(self) -> None:
        """Kill the child. Do nothing if the child has ended."""
        self.send_signal(signal.SIGKILL)
