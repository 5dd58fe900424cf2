"""A source and a stage with many malformed items, and healthy items in between."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from payload_kinds import Unpicklable, Unreadable
from strandline.plan.stages.ends import Source, SourceStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, Slot, Task


class MuteError(Exception):
    """An error that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError


ERRORS: dict[str, Any] = {
    "mute": MuteError,
    "surrogate": lambda: ValueError("half \ud800"),
    "exit": lambda: SystemExit(3),
    "generator exit": GeneratorExit,
}
ANSWERS: dict[str, Any] = {
    "unpicklable": Unpicklable,
    "unreadable": Unreadable,
    "lock": threading.Lock,
    "odd failure": lambda: FailedTask("half \ud800"),
}


class OddSources(SourceStage):
    """Lists malformed sources, and sources that make the stage misbehave."""

    def list_sources(self) -> Iterator[Source]:
        """Yield each source, followed by a healthy source."""
        odd: list[Any] = [Source(what, "1", what) for what in ODDITIES]
        odd += [
            Source("key \ud800", "1", "healthy"),
            Source("locked", "1", threading.Lock()),
            Source("unread", "1", Unreadable()),
        ]
        for number, source in enumerate(odd):
            yield source
            yield Source(f"healthy {number}", "1", "healthy")


class Odd(Stage):
    """Misbehaves in the way that its task names."""

    def process(self, task: Task) -> Task | Iterator[Slot]:
        """Return the same task, or misbehave."""
        what = task.data
        if what in ERRORS:
            error = ERRORS[what]()
            raise error
        if what in ANSWERS:
            answer = ANSWERS[what]()
            return answer if isinstance(answer, FailedTask) else Task(answer)  # type: ignore[return-value]
        if what == "deep":
            return self.process(task)
        if what == "late":
            return raise_late(task)
        if what == "closed":
            sys.stdout.close()
            os.close(1)
            return task
        print(what)
        return task


class Printing(Stage):
    """Prints the number of tasks to the current stdout."""

    def process_batch(self, tasks: list[Task]) -> list[Task]:  # type: ignore[override]
        """Return the same tasks."""
        print(len(tasks), flush=True)
        return tasks


def raise_late(task: Task) -> Iterator[Slot]:
    """Yield one child, then fail."""
    yield task
    msg = "too late"
    raise ValueError(msg)


class Bad(Stage):
    """Fails at the first sources of the listing."""

    class Params(Stage.Params):
        """The number of failing sources."""

        count: int = 60

    params: Params

    def process(self, task: Task) -> Task:
        """Return the same task.

        Raises:
            ValueError: if the source is one of the failing sources.
        """
        if int(task.data) < self.params.count:
            msg = "no good"
            raise ValueError(msg)
        return task


ODDITIES = [*ERRORS, *ANSWERS, "deep", "late", "closed"]
