"""Stages for random pipelines. Their results depend only on parameters and tasks.

The exception is `Trouble`, which follows an instruction in a file until the file is removed.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

from strandline.plan.stages.ends import SinkStage, Source, SourceStage
from strandline.plan.stages.stage import Stage, StatefulFilter
from strandline.plan.task import FailedTask, NoneTask, Slot, Task

OPENED, LISTING, TROUBLE, DIED = "opened.log", "listing.json", "trouble.json", "died"
LARGE = 70_000


def roll(*parts: Any) -> int:
    """Return a pseudorandom number below 2**32 that depends only on the arguments."""
    digest = blake2b(json.dumps(parts).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


class Listed(SourceStage):
    """Lists the keys and seeds in a file. The seed is the version of a source."""

    class Params(SourceStage.Params):
        """Location of the list."""

        folder: str

    not_fingerprinted: ClassVar[frozenset[str]] = SourceStage.not_fingerprinted | {"folder"}
    params: Params

    def list_sources(self) -> Iterator[Source]:
        told = json.loads(Path(self.params.folder, LISTING).read_text())
        for number, (key, seed) in enumerate(told["sources"]):
            if number == told["gap"]:
                self.note_gap("told to stop looking")
                return
            yield Source(key, str(seed), {"key": key, "seed": seed})


class Shared(Listed):
    """Lists the same sources as `Listed`, but several sources share storage."""

    class Params(Listed.Params):
        """Location of the list, and the number of groups that share storage."""

        shares: int = 3

    params: Params

    def partition_indices(self, source: Source) -> list[str]:
        return [f"share {roll(source.key) % self.params.shares}"]


class Open(Stage):
    """Makes words from a source, or from all that share its storage, and logs the sources."""

    class Params(Stage.Params):
        """Location of the log, and the number of words."""

        folder: str
        most: int = 6

    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"folder"})
    params: Params

    def process(self, task: Task) -> Task:
        members = task.data if isinstance(task.data, list) else [task.data]
        lines = "".join(json.dumps([member["key"], member["seed"]]) + "\n" for member in members)
        log = os.open(
            Path(self.params.folder, OPENED), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644
        )
        os.write(log, lines.encode())
        os.close(log)
        words = []
        for member in members:
            number = roll("words", member["key"], member["seed"]) % (self.params.most + 1)
            words += [f"{member['seed']}.{word}" for word in range(number)]
        return Task(words, {"steps": []}, task.lineage)


class Salted(Stage):
    """A stage whose results depend on its salt and the task."""

    class Params(Stage.Params):
        """A salt, which distinguishes stages of the same kind."""

        salt: int = 0

    params: Params

    def roll(self, task: Task, *more: Any) -> int:
        """Return a number for this task."""
        return roll(self.params.salt, task.data, task.meta, *more)

    def step(self, task: Task) -> list[Any]:
        """Reverse the task's words in place, as stages may do, and return the words."""
        task.meta["steps"].append(self.params.salt)  # type: ignore[index]
        words: list[Any] = task.data
        words.reverse()
        return words


class Split(Salted):
    """Returns no task, the same task, or several tasks with gaps in their slots."""

    def process(self, task: Task) -> Task | list[Slot] | None:
        drawn = self.roll(task)
        words = self.step(task)
        if drawn % 7 == 0:
            return None
        if drawn % 7 == 1:
            return task
        count = drawn // 7 % 6
        slots: list[Slot] = []
        for number in range(count):
            is_gap = roll(drawn, number) % 4 == 0
            part = [*words[number::count], f"slot {number}"]
            slots.append(None if is_gap else Task(part, {"steps": list(task.meta["steps"])}))  # type: ignore[index]
        return slots


class Batched(Salted):
    """Filters some tasks of a batch. In a larger batch, may raise after changing some tasks."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        drawn = [self.roll(task) for task in tasks]
        for task in tasks:
            self.step(task)
            task.data.append(f"batched {self.params.salt}")
            if len(tasks) > 1 and sum(drawn) % 5 == 0:
                raise ValueError("no batch of several")
        return [
            NoneTask() if one % 6 == 0 else task for one, task in zip(drawn, tasks, strict=True)
        ]


class Joined(Salted):
    """Joins all words of a group, and sometimes splits the result again."""

    def join(self, tasks: list[Task]) -> Task:
        words = [f"{number}/{word}" for number, task in enumerate(tasks) for word in task.data]
        steps = [step for task in tasks for step in task.meta["steps"]]  # type: ignore[index]
        return Task(words, {"steps": steps}, tasks[0].lineage)

    def process(self, task: Task) -> Task | list[Slot] | None:
        drawn = self.roll(task)
        words = self.step(task)
        if drawn % 5 == 0:
            return None
        if drawn % 5 > 1:
            return task
        meta = [{"steps": list(task.meta["steps"])} for _ in range(2)]  # type: ignore[index]
        return [Task(words[:1], meta[0]), Task(words[1:], meta[1])]


class Kept(StatefulFilter):
    """Stores a line for each task. Filters some tasks, and splits some tasks."""

    class Params(Salted.Params):
        """Salt, and the size of pieces."""

        padding: int = 0

    params: Params

    def setup(self) -> None:
        self.lines: list[str] = []

    def process(self, task: Task) -> Task | list[Slot] | None:
        drawn = roll(self.params.salt, task.data, task.meta)
        self.lines.append(f"{drawn:08x} {len(task.data)}{' ' * self.params.padding}\n")
        if drawn % 8 == 0:
            return None
        if drawn % 8 == 1:
            return [Task(list(task.data), {"steps": ["kept", slot]}) for slot in range(2)]
        return task

    def flush(self) -> bytes | None:
        lines, self.lines = self.lines, []
        return "".join(lines).encode() or None

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        out.write_bytes(b"".join(path.read_bytes() for path in paths))


class Unspeakable(Exception):  # noqa: N818 - it is told by nobody
    """An exception that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def _recurse() -> None:
    raise RecursionError("much too deep")


def _raise(kind: str) -> None:
    match kind:
        case "ValueError":
            raise ValueError("no good")
        case "SystemExit":
            raise SystemExit(0)
        case "KeyboardInterrupt":
            raise KeyboardInterrupt
        case "GeneratorExit":
            raise GeneratorExit
        case "surrogate":
            raise ValueError("no good: \udc80 \x00 \n")
        case "unspeakable":
            raise Unspeakable
        case "RecursionError":
            _recurse()


RAISED = (
    "ValueError",
    "SystemExit",
    "KeyboardInterrupt",
    "GeneratorExit",
    "surrogate",
    "unspeakable",
    "RecursionError",
)


class Failing(Salted):
    """Always fails on some sources: raises, or marks a slot as failed."""

    class Params(Salted.Params):
        """The kind of failure, and the share of failing tasks (one in this number)."""

        kind: str = "ValueError"
        share: int = 10

    params: Params

    def process(self, task: Task) -> Task | list[Slot]:
        if self.roll(task) % self.params.share:
            return task
        _raise(self.params.kind)
        return [FailedTask("no good")]


class Trouble(Stage):
    """Fails or dies at some tasks while a file in the folder instructs the stage to do so."""

    class Params(Stage.Params):
        """Location of the instruction."""

        folder: str

    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"folder"})
    params: Params

    def process(self, task: Task) -> Task:
        with suppress(FileNotFoundError):
            told = json.loads(Path(self.params.folder, TROUBLE).read_text())
            if roll(told["salt"], task.data, task.meta) % told["share"] == 0:
                self._do(told["kind"])
        return task

    def _do(self, kind: str) -> None:
        if kind != "die":
            _raise(kind)
        with suppress(FileExistsError):
            os.close(os.open(Path(self.params.folder, DIED), os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)


class Tabulate(Stage):
    """Turns words into rows, for sinks that require tables."""

    def process(self, task: Task) -> Task:
        return task.replace(pa.table({"word": pa.array(task.data, pa.string())}))


class Picky(Salted):
    """Rejects some rows, independently of the other rows."""

    def process(self, task: Task) -> Task:
        for word in task.table["word"].to_pylist():
            if roll(self.params.salt, word) % 6 == 0:
                raise ValueError(f"not {word}")
        return task


class WordSink(SinkStage):
    """Writes words and steps as JSON."""

    suffix = ".json"

    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(json.dumps([task.data, task.meta]).encode())
