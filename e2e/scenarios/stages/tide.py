"""Stages for scenarios: numbered sources, slow work, and ways to fail.

The stages reach the Ray pods as a ConfigMap on PYTHONPATH, like a user's own stages.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pydantic import Field

from strandline import SinkStage, Source, SourceStage, Stage, Task

MIB = 1 << 20
FILLER = Path("/dev/shm/filler")  # noqa: S108 - in the pod's memory volume
HOLD = Path("/var/lib/strandline-output/hold")  # `Work` waits while this file exists


class Numbers(SourceStage):
    """Lists the numbers below `count`. Runs in the driver."""

    class Params(SourceStage.Params):
        """Configures the number of sources and the time to list them."""

        count: int = Field(default=40, description="How many sources.")
        mebibytes: int = Field(default=0, description="Memory that the last one takes to list.")

    params: Params

    def list_sources(self) -> Iterator[Source]:
        """Yield a source per number."""
        for number in range(self.params.count):
            if number == self.params.count - 1:
                _fill_own(self.params.mebibytes)
            yield Source(f"number-{number:04}", "1", number)


class Open(Stage):
    """Logs which attempt opened a source, and returns the task unchanged."""

    class Params(Stage.Params):
        """Configures the path of the log."""

        log: str = Field(description="File that all workers append to.")

    params: Params

    def process(self, task: Task) -> Task:
        """Return the task unchanged."""
        line = f"{os.environ.get('STRANDLINE_ATTEMPT', '0')}\t{task.key}\n"
        path = os.open(self.params.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o664)
        try:
            os.write(path, line.encode())
        finally:
            os.close(path)
        return task


class Work(Stage):
    """Sleeps for each task."""

    class Params(Stage.Params):
        """Configures the duration of the sleep in seconds."""

        seconds: float = Field(default=0.5, description="For one task.")

    params: Params

    def process(self, task: Task) -> Task:
        """Return the task unchanged."""
        time.sleep(self.params.seconds)
        while HOLD.exists():
            time.sleep(0.2)
        return task


class Rows(Stage):
    """Turns each number into a row of text."""

    def process(self, task: Task) -> Task:
        """Return a table."""
        return task.replace(pa.table({"key": [task.key], "text": [f"tide {task.data}"]}))


class Grow(Stage):
    """Uses much memory for one source, so that the kernel kills a container with a small limit."""

    class Params(Stage.Params):
        """Configures the source, and the kind and amount of memory to use."""

        number: int = Field(default=20, description="The source that needs it.")
        mebibytes: int = Field(default=1024, description="That it needs.")
        shared: bool = Field(
            default=False,
            description="Take it from the pod's memory volume, so that the container falls.",
        )
        once: str = Field(default="", description="File that is made first; not again if there.")

    params: Params

    def process(self, task: Task) -> Task:
        """Return the task unchanged if the memory sufficed."""
        if task.data == self.params.number and _is_first(self.params.once):
            if self.params.shared:
                fill_shared(self.params.mebibytes)
            else:
                _fill_own(self.params.mebibytes)
        return task


class Poison(Stage):
    """Kills its worker whenever it receives a certain source."""

    class Params(Stage.Params):
        """Sets the number of the source."""

        number: int = Field(default=7, description="The source that kills.")

    params: Params

    def process(self, task: Task) -> Task:
        """Return the task unchanged, unless it belongs to that source."""
        if task.data == self.params.number:
            os.kill(os.getpid(), signal.SIGKILL)
        return task


class Break(Stage):
    """Raises an error for each source. The driver repeats its message."""

    def process(self, task: Task) -> Task:
        """Raise an error."""
        msg = f"{task.key} is broken on purpose"
        raise ValueError(msg)


class Text(SinkStage):
    """Writes the number as text."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the number and a newline."""
        file.write(f"{task.data}\n".encode())


def _is_first(mark: str) -> bool:
    if not mark:
        return True
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _fill_own(mebibytes: int) -> None:
    if not mebibytes:
        return
    with mmap.mmap(-1, mebibytes * MIB) as memory:
        for at in range(0, mebibytes * MIB, mmap.PAGESIZE):
            memory[at] = 1


def fill_shared(mebibytes: int) -> None:
    """Fill the pod's shared memory until the kernel kills the container."""
    # The kernel first kills the processes that Ray has marked, then the largest. The small program
    # below has the same score as the container's first process, so in the end the kernel kills that
    # process. The program is detached so that Ray does not find it, and its data stays in memory;
    # otherwise the container would survive.
    dear = "read dear < /proc/1/oom_score_adj; echo $dear > /proc/self/oom_score_adj"
    fill = f"exec dd if=/dev/zero of={FILLER} bs={MIB} count={mebibytes} status=none"
    script = f"setsid /bin/sh -c '{dear}; {fill}' &"
    subprocess.run(["/bin/sh", "-c", script], check=True)
    end = time.monotonic() + 60
    while not FILLER.exists() or FILLER.stat().st_size < mebibytes * MIB:
        if time.monotonic() > end:
            raise TimeoutError(f"{FILLER} did not grow to {mebibytes} MiB")
        time.sleep(0.1)
