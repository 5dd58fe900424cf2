"""Stages for runs that are killed: some log, split, join, or delay their tasks."""

from __future__ import annotations

import os
import signal
import time

import pyarrow as pa

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Slot, Task


class LogOpened(Stage):
    """Appends the keys of its sources to the file named by OPENED_LOG."""

    def process(self, task: Task) -> Task:
        log = os.open(os.environ["OPENED_LOG"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
        os.write(log, f"{task.key}\n".encode())
        os.close(log)
        return task


class Dawdle(Stage):
    """Delays every task by DAWDLE_SECONDS (0.25 by default)."""

    def process(self, task: Task) -> Task:
        time.sleep(float(os.environ.get("DAWDLE_SECONDS", "0.25")))
        return task


class SplitLines(Stage):
    """Fans a text out into one task per line, after SPLIT_SECONDS (0.05 by default).

    The delay gives a test the time to kill a process in the middle of a run.
    """

    def process(self, task: Task) -> list[Slot]:
        time.sleep(float(os.environ.get("SPLIT_SECONDS", "0.05")))
        (content,) = task.table.column("content").to_pylist()
        lines = content.decode().splitlines()
        return [Task(pa.table({"line": [line]})) if line else None for line in lines]


class JoinLengths(Stage):
    """Adds the length of lines. The stage has a group, so a kill can hit a join."""

    def process(self, task: Task) -> Task:
        lengths = pa.array([len(line) for line in task.table.column("line").to_pylist()])
        return task.replace(task.table.append_column("length", lengths))


class CrashAt(Stage):
    """Crashes its process at one source, as a decoder with an invalid memory access does."""

    class Params(Stage.Params):
        """The end of the source's key."""

        name: str

    params: Params

    def process(self, task: Task) -> Task:
        if task.key.endswith(self.params.name):
            signal.raise_signal(signal.SIGSEGV)  # in this thread, as a decoder would
        return task
