"""A driver's process as long as it lives, and one that goes on to the next pipeline.

To start Python, what a driver loads and a Ray takes seconds, as long as a short pass over a corpus
does; so a driver that has completed one pipeline may be given the next. Nothing else goes on: one
that has ended otherwise is gone. This room must not know what an attempt is.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from strandline.run.supervise.driver.driver_message import DriverMessage, LastMessage
from strandline.run.supervise.driver.driver_output import STDERR, STDOUT, DriverOutput, open_output
from strandline.run.supervise.variables import AHEAD, FORKS, LAST_WORDS, ORDERS, PARENT
from strandline.storage.volume.driver_logs import DriverLog
from strandline.storage.volume.locks import Process, identify_child

_COMPLETE = b"complete\n"
# A driver that is told of no other pipeline ends its Ray, and then has so long before it is killed.
_END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DriverStart:
    """How a driver is started.

    Attributes:
        command: what is executed.
        shares_terminal: it is in this process's group, so keys reach it as well.
        stdout: descriptor that it writes to; None: that of this process.
        kept: descriptors of which the output is kept.
        goes_on: it may be given another pipeline later.
        ray: CPUs of a local Ray that it will want, empty for all; None: it may want none.
        forks: it will want the process that forks workers.
    """

    command: Sequence[str]
    shares_terminal: bool = False
    stdout: int | None = None
    kept: tuple[int, ...] = ()
    goes_on: bool = False
    ray: str | None = None
    forks: bool = False


@dataclass(slots=True)
class RunningDriver:
    """A driver's process, with the ends of what leads to it.

    Attributes:
        identity: of the process, which may have ended already.
        output: where what it prints is kept.
        orders: through which it says that it has completed, and is told what comes next.
        is_waiting: it has completed, and nothing else was asked of it yet.
    """

    process: subprocess.Popen[bytes]
    identity: Process | None
    message: DriverMessage
    output: DriverOutput | None
    orders: socket.socket | None
    is_waiting: bool = field(default=False, init=False)

    @classmethod
    def start(cls, start: DriverStart, log: DriverLog | None) -> RunningDriver:
        """Start one.

        Args:
            log: where its first words are kept.
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
        process = subprocess.Popen(  # noqa: S603 - our own program
            start.command,
            # In a group of its own, or the terminal's Ctrl-C would reach it too and count twice.
            process_group=None if start.shares_terminal else 0,
            env=environment,
            pass_fds=inherited,
            stdout=sinks.get(STDOUT, start.stdout),
            stderr=sinks.get(STDERR),
        )
        if output:
            output.close_sinks()
        if its is not None:
            its.close()
        return cls(process, identify_child(process.pid), message, output, ours)

    def go_on(self, arguments: Sequence[str], log: DriverLog | None) -> bool:
        """Tell a driver that waits what to do next; False where it can't be told.

        Args:
            arguments: of its command.
            log: where what it prints is kept from now on.
        """
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
        """Show and keep what it prints in the block."""
        with self.output.keeping(log) if self.output and log else nullcontext():
            yield

    def wait(self, seconds: float) -> int | None:
        """Return its exit code, 0 where it has completed and lives on; None: neither, so far."""
        if self.orders is not None:
            if not select.select([self.orders], [], [], seconds)[0]:
                return None
            with suppress(OSError):
                if self.orders.recv(len(_COMPLETE)):
                    self.is_waiting = True
                    return 0
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def leave(self) -> LastMessage:
        """Close what leads to one that has ended, and return what it said of its end."""
        if self.orders is not None:
            self.orders.close()
        if self.output is not None:
            self.output.close()
        return self.message.read()

    def dismiss(self) -> None:
        """Have one that waits end, in order if it does so in time."""
        self.leave()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class RetainedDriver:
    """Holds a driver that has completed, until it is wanted; none at first."""

    def __init__(self) -> None:
        self._driver: RunningDriver | None = None

    def keep(self, driver: RunningDriver) -> None:
        """Hold one that waits."""
        self._driver = driver

    def take(self) -> RunningDriver | None:
        """Return the one that is held and lives, for the next pipeline's work."""
        driver, self._driver = self._driver, None
        if driver is not None and driver.process.poll() is not None:
            driver.leave()
            return None
        return driver

    def close(self) -> None:
        """Have it end."""
        driver = self.take()
        if driver is not None:
            driver.dismiss()


@contextmanager
def retaining_driver() -> Iterator[RetainedDriver]:
    """Provide what holds a driver between two pipelines, and have that end after the block."""
    kept = RetainedDriver()
    try:
        yield kept
    finally:
        kept.close()


class Orders:
    """The driver's end: what its parent wants next."""

    def __init__(self, line: socket.socket) -> None:
        line.set_inheritable(False)
        self._line = line
        self._file = line.makefile("rb")

    def ask(self, environment: MutableMapping[str, str]) -> list[str] | None:
        """Say that all is done, and return the arguments of what comes next; None: nothing does.

        Args:
            environment: gets what a driver that is started for it would find there.
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
    """Return what leads to a parent that may want more than one pipeline, if there is one."""
    named = environment.pop(ORDERS, "")
    return Orders(socket.socket(fileno=int(named))) if named.isdigit() else None


def _tell(
    message: DriverMessage, output: DriverOutput | None, log: DriverLog | None
) -> dict[str, str]:
    """Return variables that tell a driver of its parent, for one pipeline."""
    variables = {PARENT: str(os.getpid()), LAST_WORDS: str(message.sink)}
    return variables | (output.tell(log) if output and log else {})
