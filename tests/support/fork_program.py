"""Program of the server process: loads modules once, and forks one process for each command.

`command_server` starts this program and sends the requests.
"""

from __future__ import annotations

import array
import gc
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import forked_process
from forked_process import ForkedProcess

# Maximum size of a request, which contains the environment and the source text.
MESSAGE_BYTES = 1 << 20
DESCRIPTORS = 64
# Modules whose libraries start threads when they are imported.
UNSAFE = (".delta", ".iceberg", ".lance")
PARENT_SECONDS = 5.0
# Modules of the product that start another Python with `subprocess.Popen`.
STARTERS = (
    "strandline.run.supervise.driver.retained_driver",
    "strandline.engine.processes.fork_program",
    "strandline.ledger.store.look_ups",
)


class ForkServer:
    """Forks a process for each request, and reports how the process ended.

    Args:
        control: socket that delivers the requests. The server ends when the other side is closed.
        parent: process that started the server.
    """

    def __init__(self, control: socket.socket, parent: int) -> None:
        self._control = control
        self._parent = parent
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._take)
        self._running: set[subprocess.Popen[Any]] = set()

    def serve(self) -> None:
        """Serve requests until the parent closes its side of the socket or dies."""
        try:
            while os.getppid() == self._parent:
                for key, _ in self._selector.select(PARENT_SECONDS):
                    key.data()
        except EOFError:
            pass
        finally:
            for process in self._running:
                process.kill()
                process.wait()

    def _take(self) -> None:
        message, descriptors = _receive(self._control)
        if not message:
            raise EOFError
        request = json.loads(message)
        report, *streams = descriptors
        stdin, stdout, stderr = streams
        try:
            process = ForkedProcess(
                request["arguments"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                **request["settings"],
            )
        except OSError as error:
            os.write(report, f"error {error.errno} {error.filename or ''}\n".encode())
            os.close(report)
        else:
            os.write(report, f"pid {process.pid}\n".encode())
            self._watch(process, report)
        for stream in streams:
            os.close(stream)

    def _watch(self, process: subprocess.Popen[Any], report: int) -> None:
        descriptor = os.pidfd_open(process.pid)
        self._running.add(process)

        def end() -> None:
            self._selector.unregister(descriptor)
            os.close(descriptor)
            self._running.remove(process)
            code = process.wait()
            with suppress(OSError):  # the client may have closed its side
                os.write(report, f"code {code}\n".encode())
            os.close(report)

        self._selector.register(descriptor, selectors.EVENT_READ, end)


def _load(name: str) -> None:
    """Import a module, or all modules of a package for a name that ends in `.*`."""
    if not name.endswith(".*"):
        import_module(name)
        return
    package = import_module(name.removesuffix(".*"))
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith(UNSAFE):
            with suppress(ImportError):  # a library of an extra is missing
                import_module(found.name)


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    numbers = array.array("i")
    size = socket.CMSG_SPACE(DESCRIPTORS * numbers.itemsize)
    message, ancillary, _, _ = control.recvmsg(MESSAGE_BYTES, size)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return message, list(numbers)


def _fork_in_starters() -> None:
    """Make the product fork where it would otherwise start another interpreter."""
    parts: dict[str, Callable[..., Any] | Any] = {**vars(subprocess), "Popen": ForkedProcess}
    for name in STARTERS:
        vars(import_module(name))["subprocess"] = SimpleNamespace(**parts)


def main(control: int, parent: int, modules: list[str], folders: list[str]) -> None:
    """Load modules, and serve requests.

    Args:
        control: descriptor of the socket that delivers the requests.
        parent: process that started the server.
        modules: names of the modules to load.
        folders: additional folders to load them from.
    """
    # Ignore Ctrl-C, because the tests receive it too and end the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    state = forked_process.STATE
    state.record_exit_handlers()
    sys.path[:0] = folders
    for name in modules:
        _load(name)
    if "strandline" in sys.modules:
        _fork_in_starters()
    state.finish()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=control) as connection:
        ForkServer(connection, parent).serve()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    # Remove the folder of this program, which is not in a command's search path.
    sys.path.remove(given.pop("here"))
    forked_process.STATE.search_path.remove(os.path.dirname(os.path.abspath(__file__)))
    main(**given)
