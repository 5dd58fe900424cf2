"""Stages that start processes of their own, and tasks that kill the process of the stage."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

HOUR = 3600.0


def _start_fork() -> int:
    child = os.fork()
    if not child:
        time.sleep(HOUR)
        os._exit(0)
    return child


def _start_multiprocessing() -> int:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(HOUR,))
    process.start()
    assert process.pid is not None  # the process was started
    return process.pid


def _start_program() -> int:
    return subprocess.Popen(["/bin/sleep", str(HOUR)]).pid


def _start_session() -> int:
    return subprocess.Popen(["/bin/sleep", str(HOUR)], start_new_session=True).pid


def _start_shell_job() -> int:
    words = ["/bin/sh", "-c", f"sleep {HOUR} > /dev/null & echo $!"]
    return int(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def _start_daemon() -> int:
    """Start a process detached from its session and parent."""
    reader, writer = os.pipe()
    first = os.fork()
    if not first:
        os.setsid()
        child = os.fork()
        if child:
            os.write(writer, str(child).encode())
            os._exit(0)
        time.sleep(HOUR)
        os._exit(0)
    os.waitpid(first, 0)
    return int(os.read(reader, 32))


def _start_native_fork() -> int:
    """Fork without Python's knowledge, as a C library does. All descriptors stay open."""
    libc = ctypes.CDLL(None)
    child: int = libc.fork()
    if not child:
        libc.sleep(int(HOUR))
        libc._exit(0)
    return child


STARTS: dict[str, Callable[[], int]] = {
    "fork": _start_fork,
    "multiprocessing": _start_multiprocessing,
    "program": _start_program,
    "session": _start_session,
    "shell": _start_shell_job,
    "daemon": _start_daemon,
    "native": _start_native_fork,
}


class Parent(Stage):
    """Starts a child for each of the first numbers, and kills its own process if `is_killed`."""

    class Params(Stage.Params):
        """How the children are started, and the folder for their process ids."""

        kinds: tuple[str, ...]
        folder: str
        is_killed: bool = False
        is_hanging: bool = False

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task."""
        mark = Path(self.params.folder, f"begun-{task.data}")
        if task.data < len(self.params.kinds) and not mark.exists():
            mark.touch()
            child = STARTS[self.params.kinds[task.data]]()
            part = Path(self.params.folder, f"part-{task.data}")  # other workers also write
            part.write_text(str(child))
            part.rename(Path(self.params.folder, f"child-{task.data}"))
            if self.params.is_killed:
                os.kill(os.getpid(), signal.SIGKILL)
            while self.params.is_hanging:
                time.sleep(0.1)
        return task


class Program(Stage):
    """Runs a program for each task, and logs its start."""

    class Params(Stage.Params):
        """The duration of the program."""

        seconds: float = 1.0

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task after the program succeeded."""
        with Path(os.environ["OPENED_LOG"]).open("a") as log:
            log.write(f"{task.key}\n")
        subprocess.run(["/bin/sleep", str(self.params.seconds)], check=True)
        return task
