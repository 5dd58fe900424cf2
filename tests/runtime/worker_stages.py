"""Stages that record how workers ran the stages, for tests of workers."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import ray
from pydantic import Field
from ray.exceptions import ObjectLostError

from strandline.engine.call.wire import pack_tasks
from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Lineage, Task

PATIENCE = 300.0
LARGE = 2_000_000


class FolderParams(Stage.Params):
    """The folder for observations."""

    folder: str = Field(description="A folder.")


class Told(Stage):
    """Returns facts about its worker."""

    def setup(self) -> None:
        self.thread = threading.get_ident()

    def process(self, task: Task) -> Task:
        facts = {
            "thread": self.thread == threading.get_ident(),
            "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "word": os.environ.get("WORKER_WORD"),
        }
        return task.replace(facts)


class NodeReady(Stage):
    """Counts the setups of its node, and fails on a node without setup."""

    class Params(FolderParams):
        """The behavior of the first setup, and the number of workers that tasks wait for."""

        what: str = "work"
        workers: int = 0

    params: Params

    def setup_on_node(self) -> None:
        """Leave a file per call.

        Raises:
            FileNotFoundError: if `what` is "raise".
        """
        folder = Path(self.params.folder)
        count = len(list(folder.glob("node-*")))
        (folder / f"node-{count}-{os.getpid()}").touch()
        if self.params.what == "raise":
            msg = "no weights"
            raise FileNotFoundError(msg)
        if self.params.what == "die" and not count:
            os._exit(1)
        (folder / "weights").touch()

    def setup(self) -> None:
        """Leave a file per worker.

        Raises:
            FileNotFoundError: if the node is not set up.
        """
        folder = Path(self.params.folder)
        (folder / "weights").stat()
        (folder / f"worker-{os.getpid()}").touch()

    def process(self, task: Task) -> Task:
        folder, end = Path(self.params.folder), time.monotonic() + PATIENCE
        while len(list(folder.glob("worker-*"))) < self.params.workers:
            assert time.monotonic() < end
            time.sleep(0.05)
        return task


class Growing(Stage):
    """Uses more memory with each task."""

    def setup(self) -> None:
        self.kept: list[bytes] = []

    def process(self, task: Task) -> Task:
        self.kept.append(bytes(bytearray(b"1") * 60_000_000))
        time.sleep(0.3)  # long enough to measure the memory
        return task.replace(os.getpid())


class Process(Stage):
    """Returns its process id."""

    def process(self, task: Task) -> Task:
        return task.replace(os.getpid())


class Ordered(Stage):
    """Returns the number of previous tasks."""

    def setup(self) -> None:
        self.seen = 0

    def process(self, task: Task) -> Task:
        self.seen += 1
        return task.replace(self.seen - 1)


class Overlapped(Stage):
    """Finishes its first task only after the next task's input was read."""

    class Params(FolderParams):
        """The folder for the marker that the second input writes when it is read."""

    params: Params

    def setup(self) -> None:
        self.is_first = True

    def process(self, task: Task) -> Task:
        mark = Path(self.params.folder) / "read"
        if self.is_first:
            self.is_first = False
            return task.replace(_wait_for(mark))
        return task


class SlowParams(Stage.Params):
    """The duration of a task."""

    seconds: float = 0.0


class Large(Stage):
    """Makes a large payload from a number, so that it cannot be part of a receipt."""

    Params = SlowParams
    params: SlowParams

    def process(self, task: Task) -> Task:
        time.sleep(self.params.seconds)
        return task.replace((task.data, b"1" * LARGE))


class Opened(Stage):
    """Logs a byte per number, and returns the number in the format of `SlowSink`."""

    class Params(Stage.Params):
        """The log file."""

        log: str = Field(description="A file.")

    params: Params

    def process(self, task: Task) -> Task:
        with Path(self.params.log).open("ab") as file:
            file.write(b".")
        return task.replace((task.data,))


class SlowHere(Stage):
    """Sleeps, and returns its node. The second half of the tasks waits until another node joins."""

    class Params(FolderParams):
        """The folder for node names, and the first number that waits for a second node."""

        second_half: int = 40

    params: Params

    def process(self, task: Task) -> Task:
        time.sleep(0.2)
        number, padding = task.data
        node, folder = ray.get_runtime_context().get_node_id(), Path(self.params.folder)
        (folder / f"node-{node}").touch()
        end = time.monotonic() + PATIENCE
        while number >= self.params.second_half and len(list(folder.glob("node-*"))) == 1:
            assert time.monotonic() < end
            time.sleep(0.05)
        return task.replace((number, padding, node))


class Slow:
    """A payload that takes long to unpickle, or writes a file when it is unpickled."""

    def __init__(self, seconds: float = 0.0, mark: str = "") -> None:
        self.seconds = seconds
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_slowly, (self.seconds, self.mark)


class Owner:
    """An owner of objects in the object store, which are lost when the owner dies."""

    def put(self) -> list[Any]:
        """Return the reference of a block with one task."""
        token = b"l" * 16
        return [ray.put(pack_tasks([Task(b"1" * 1_000_000, {}, Lineage(token, token, "lost"))]))]


class NodeSink(SinkStage):
    """Writes the data as text."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(repr(task.data).encode())


class SlowSink(NodeSink):
    """Slowly writes the number of a large payload."""

    Params = SlowParams
    params: SlowParams

    def write(self, task: Task, file: BinaryIO) -> None:
        time.sleep(self.params.seconds)
        file.write(str(task.data[0]).encode())


def put_and_lose() -> Any:
    """Return a lost block.

    Raises:
        TimeoutError: if the block still exists.
    """
    owner = ray.remote(Owner).options(num_cpus=0).remote()
    (block,) = ray.get(owner.put.remote())
    ray.kill(owner)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            ray.get(block)
        except ObjectLostError:
            return block
        time.sleep(0.1)
    raise TimeoutError


class NumberSink(SinkStage):
    """Writes the number and the node that processed it."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        number, _, node = task.data
        file.write(json.dumps({"number": number, "node": node}).encode())


def _read_slowly(seconds: float, mark: str) -> Slow:
    time.sleep(seconds)
    if mark and "strandline.engine.ray.worker" in sys.modules:
        Path(mark).touch()
    return Slow(seconds, mark)


def _wait_for(mark: Path) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if mark.exists():
            return True
        time.sleep(0.01)
    return False
