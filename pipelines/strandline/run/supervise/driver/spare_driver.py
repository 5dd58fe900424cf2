"""A driver's process that is forked before its parent has read the manifest.

The process loads the modules of a driver while the parent reads the manifest, and shares the
modules that both need. A new interpreter would load all modules again, which takes longer than a
small pipeline. The parent sends an order to start with the arguments, environment variables, and
open files of the driver. If the parent ends without an order, the kernel kills the process. This
module must not depend on attempts.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from strandline.engine.call.descendants import end_with_parent, name_process, outlive_parent
from strandline.engine.call.forked_process import ForkedProcess, has_descriptors

NAME = "strand-driver"
_MOST_FILES = 16  # a driver gets two streams, two pipes to read, a message pipe, and a socket
# Received files are moved out of the range of the numbers that they get in the end.
_ASIDE = 64


@dataclass(frozen=True, slots=True)
class SpareDriver:
    """The parent's end of a process that waits for the order to start as a driver.

    Attributes:
        process: the process.
        line: socket to the process.
    """

    process: ForkedProcess
    line: socket.socket

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], files: Mapping[int, int]
    ) -> ForkedProcess | None:
        """Make the process a driver. Return None if the process has ended.

        Args:
            arguments: arguments of `strandline`, of the command `drive`.
            environment: all environment variables of the driver.
            files: open files that the driver inherits, by their numbers in the driver.
        """
        order = json.dumps(
            {
                "arguments": list(arguments),
                "environment": dict(environment),
                "files": list(files),
            }
        )
        with self.line:
            try:
                socket.send_fds(self.line, [b"\n"], list(files.values()))
                self.line.sendall(order.encode())
            except OSError:
                self.dismiss()
                return None
        return self.process

    def dismiss(self) -> None:
        """End the process, which has no order."""
        self.line.close()
        self.process.kill()
        self.process.wait()


_SPARE: ContextVar[SpareDriver | None] = ContextVar("spare", default=None)


def take_spare() -> SpareDriver | None:
    """Return the spare process of this command, if any. Each caller gets another process."""
    spare = _SPARE.get()
    _SPARE.set(None)
    return spare


def fork_spare(load: Callable[[], None]) -> list[str] | None:
    """Fork a spare driver.

    The caller must have started no thread, and must hold no file that the driver may not have.

    Args:
        load: loads the modules of a driver, in the child.

    Returns:
        None in this process, also if the kernel lacks a feature and nothing was forked. In the
        child, the arguments of the driver, once the order to start has come.
    """
    if not has_descriptors():
        return None
    ours, its = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        its.close()
        _SPARE.set(SpareDriver(ForkedProcess(pid), ours))
        return None
    ours.close()
    end_with_parent(parent)
    # In a group of its own, the driver does not get the terminal's Ctrl-C; see `RunningDriver`.
    os.setpgid(0, 0)
    load()
    with its:
        order, files = _receive(its)
    outlive_parent()
    if order is None:  # the parent has dismissed this process
        os._exit(0)
    for file, number in zip(files, order["files"], strict=True):
        os.dup2(file, number)
        os.close(file)
    name_process(NAME)
    os.environ.clear()
    os.environ.update(order["environment"])
    return list(order["arguments"])


def _receive(line: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return the order and its files, or None if the parent has gone without an order."""
    received: list[int] = []
    text = b""
    with suppress(OSError, ValueError):
        _, received, _, _ = socket.recv_fds(line, 1, _MOST_FILES)
        while part := line.recv(1 << 16):
            text += part
        order = json.loads(text)
        return order, [_move_aside(file) for file in received]
    return None, []


def _move_aside(file: int) -> int:
    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _ASIDE)
    os.close(file)
    return moved
