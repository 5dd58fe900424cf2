"""Runs a driver process, and reuses it for the next pipeline.

Starting Python, loading a driver's modules, and starting Ray take seconds, as long as a short pass
over a corpus. So a driver that has completed a pipeline may get another pipeline. A driver that
failed is not reused. This module must not depend on attempts.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from strandline.engine.call.forked_process import ChildProcess
from strandline.run.supervise.driver.driver_message import DriverMessage, LastMessage
from strandline.run.supervise.driver.driver_output import STDERR, STDOUT, DriverOutput, open_output
from strandline.run.supervise.driver.spare_driver import take_spare
from strandline.run.supervise.variables import AHEAD, FORKS, LAST_WORDS, ORDERS, PARENT
from strandline.storage.volume.driver_logs import DriverLog
from strandline.storage.volume.locks import Process, identify_child

_COMPLETE = b"complete\n"
# Time limit for a driver without a next pipeline to stop its Ray, before it is killed.
_END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DriverStart:
    """Settings for starting a driver.

    Attributes:
        command: the command line.
        shares_terminal: whether the driver stays in this process's group, so that it receives
            Ctrl-C and can read the terminal.
        stdout: descriptor for the driver's standard output, or None to inherit this process's.
        kept: descriptors whose output is logged.
        goes_on: whether the driver may get another pipeline later.
        ray: CPUs of the local Ray instance to start ahead, empty for all CPUs, or None to start no
            Ray.
        forks: whether to start the process that forks workers ahead.
        is_forkable: whether the driver may be the spare process of this command.
    """

    command: Sequence[str]
    shares_terminal: bool = False
    stdout: int | None = None
    kept: tuple[int, ...] = ()
    goes_on: bool = False
    ray: str | None = None
    forks: bool = False
    is_forkable: bool = False


@dataclass(slots=True)
class RunningDriver:
    """A driver's process, with the parent's ends of its pipes and sockets.

    Attributes:
        identity: identity of the process, or None if it has already ended.
        message: pipe for the driver's final error.
        output: pipes of the driver's output, or None if output is not logged.
        orders: socket on which the driver reports completion and receives the next pipeline.
        is_waiting: whether the driver has completed and waits for the next pipeline.
    """

    process: ChildProcess
    identity: Process | None
    message: DriverMessage
    output: DriverOutput | None
    orders: socket.socket | None
    is_waiting: bool = field(default=False, init=False)

    @classmethod
    def start(cls, start: DriverStart, log: DriverLog | None) -> RunningDriver:
        """Start a driver.

        Args:
            log: log for the driver's first output.
        """
        message = DriverMessage.open()
        output = open_output(start.kept) if start.kept and log else None
        ours, its = socket.socketpair() if start.goes_on else (None, None)
        environment = os.environ | _tell(message, output, log)
        inherited = [message.sink, *(output.inherited if output else ())]
        if start.ray is not None:
            environment[AHEAD] = start.ray
        if start.forks:
            environment[FORKS] = "1"
        if its is not None:
            environment[ORDERS] = str(its.fileno())
            inherited.append(its.fileno())
        sinks = output.sinks if output else {}
        streams = {STDOUT: sinks.get(STDOUT, start.stdout), STDERR: sinks.get(STDERR)}
        process = _start_process(start, environment, inherited, streams)
        if output:
            output.close_sinks()
        if its is not None:
            its.close()
        return cls(process, identify_child(process.pid), message, output, ours)

    def go_on(self, arguments: Sequence[str], log: DriverLog | None) -> bool:
        """Give a waiting driver its next pipeline. Return False if the driver can't take it.

        Args:
            arguments: arguments of the driver's command.
            log: log for the driver's output from now on.
        """
        # A running driver can't get pipes for a log, or lose them.
        if self.orders is None or bool(self.output) != bool(log):
            return False
        environment = _tell(self.message, self.output, log)
        order = json.dumps({"arguments": list(arguments), "environment": environment})
        try:
            self.orders.sendall(order.encode() + b"\n")
        except OSError:
            return False
        self.is_waiting = False
        return True

    @contextmanager
    def printing(self, log: DriverLog | None) -> Iterator[None]:
        """Show and log the driver's output until the block ends."""
        with self.output.keeping(log) if self.output and log else nullcontext():
            yield

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, 0 if the driver waits for a pipeline, or None while it runs."""
        if self.orders is not None:
            if not select.select([self.orders], [], [], seconds)[0]:
                return None
            with suppress(OSError):
                if self.orders.recv(len(_COMPLETE)):
                    self.is_waiting = True
                    return 0
        # If the socket is closed without a message, the driver has ended or is about to end.
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def leave(self) -> LastMessage:
        """Close the pipes and sockets of an ended driver, and return its final message."""
        if self.orders is not None:
            self.orders.close()
        if self.output is not None:
            self.output.close()
        return self.message.read()

    def dismiss(self) -> None:
        """End a waiting driver. Kill it if it does not end in time."""
        self.leave()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class RetainedDriver:
    """Holds a completed driver until the next pipeline needs it. Empty at first."""

    def __init__(self) -> None:
        self._driver: RunningDriver | None = None

    def keep(self, driver: RunningDriver) -> None:
        """Hold a waiting driver."""
        self._driver = driver

    def take(self) -> RunningDriver | None:
        """Return the held driver if it is still alive, otherwise None."""
        driver, self._driver = self._driver, None
        if driver is not None and driver.process.poll() is not None:
            driver.leave()
            return None
        return driver

    def close(self) -> None:
        """End the held driver, if any."""
        driver = self.take()
        if driver is not None:
            driver.dismiss()


@contextmanager
def retaining_driver() -> Iterator[RetainedDriver]:
    """Provide a holder for a driver between two pipelines. End the driver after the block."""
    kept = RetainedDriver()
    try:
        yield kept
    finally:
        kept.close()


class Orders:
    """The driver's end of the socket, from which it reads its next pipeline."""

    def __init__(self, line: socket.socket) -> None:
        # Children of the driver must not keep the socket open.
        line.set_inheritable(False)
        self._line = line
        self._file = line.makefile("rb")

    def ask(self, environment: MutableMapping[str, str]) -> list[str] | None:
        """Report completion. Return the arguments of the next pipeline, if any.

        Args:
            environment: receives the variables that a newly started driver would have.
        """
        try:
            self._line.sendall(_COMPLETE)
            line = self._file.readline()
        except OSError:
            return None
        if not line:
            return None
        order: dict[str, Any] = json.loads(line)
        environment.update(order["environment"])
        return list(order["arguments"])


def find_orders(environment: MutableMapping[str, str]) -> Orders | None:
    """Return the socket to a parent that may have further pipelines, or None if there is none."""
    named = environment.pop(ORDERS, "")
    return Orders(socket.socket(fileno=int(named))) if named.isdigit() else None


def _start_process(
    start: DriverStart,
    environment: Mapping[str, str],
    inherited: Sequence[int],
    streams: Mapping[int, int | None],
) -> ChildProcess:
    """Start the process of a driver: the spare process of this command, or a new interpreter."""
    spare = take_spare()
    if spare is not None and start.is_forkable and not start.shares_terminal:
        files = {number: number for number in inherited}
        files |= {number: file for number, file in streams.items() if file is not None}
        arguments = start.command[len(make_command()) - 1 :]
        process = spare.start(arguments, environment, files)
        if process is not None:
            return process
    elif spare is not None:
        spare.dismiss()
    return subprocess.Popen(  # noqa: S603 - our own program
        start.command,
        # Start the driver in its own process group: otherwise, the terminal's Ctrl-C would reach
        # the driver, too, and count twice.
        process_group=None if start.shares_terminal else 0,
        env=environment,
        pass_fds=inherited,
        stdout=streams[STDOUT],
        stderr=streams[STDERR],
    )


def make_command(*arguments: str) -> list[str]:
    """Return the command line of a driver."""
    # `-P` keeps the current folder off the import path.
    return [sys.executable, "-P", "-m", "strandline", "drive", *arguments]


def _tell(
    message: DriverMessage, output: DriverOutput | None, log: DriverLog | None
) -> dict[str, str]:
    """Return variables that describe the parent to a driver. They are valid for one pipeline."""
    variables = {PARENT: str(os.getpid()), LAST_WORDS: str(message.sink)}
    return variables | (output.tell(log) if output and log else {})
