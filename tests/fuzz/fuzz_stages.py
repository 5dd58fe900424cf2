"""Stages for drawn pipelines: what each answers follows from its parameters and its task alone.

But for `Trouble`, which does what a file tells it, until somebody takes the file away.
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
    """A number below 2**32 that follows from the parts, and looks like chance."""
    digest = blake2b(json.dumps(parts).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


class Listed(SourceStage):
    """Lists what a file names: pairs of key and seed; the seed is the version."""

    class Params(SourceStage.Params):
        """Where the list lies."""

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
    """The same, of which several share storage."""

    class Params(Listed.Params):
        """Where the list lies, and into how many shares it falls."""

        shares: int = 3

    params: Params

    def partition_indices(self, source: Source) -> list[str]:
        return [f"share {roll(source.key) % self.params.shares}"]


class Open(Stage):
    """Makes words of a source, or of all that share storage, and keeps a log of what it opens."""

    class Params(Stage.Params):
        """Where the log lies, and how many words are made."""

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
    """A stage whose answers are drawn from a salt and its task."""

    class Params(Stage.Params):
        """What makes this one differ from its like."""

        salt: int = 0

    params: Params

    def roll(self, task: Task, *more: Any) -> int:
        """A number for this task."""
        return roll(self.params.salt, task.data, task.meta, *more)

    def step(self, task: Task) -> list[Any]:
        """The task's own words, changed in place, as stages may."""
        task.meta["steps"].append(self.params.salt)  # type: ignore[index]
        words: list[Any] = task.data
        words.reverse()
        return words


class Split(Salted):
    """Answers with nothing, one, the same task, or several with gaps between them."""

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
    """Filters some of a batch; a batch of several may raise after it has changed some of it."""

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
    """Used with a group: all words of it, fanned out again now and then."""

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
    """Keeps a line of every task; filters some, and fans some out."""

    class Params(Salted.Params):
        """What makes this one differ, and how large pieces are."""

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
    """Can't be told."""

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
    """Fails some sources whatever is done: by raising, or with a mark in a slot."""

    class Params(Salted.Params):
        """How it fails, and one task of how many."""

        kind: str = "ValueError"
        share: int = 10

    params: Params

    def process(self, task: Task) -> Task | list[Slot]:
        if self.roll(task) % self.params.share:
            return task
        _raise(self.params.kind)
        return [FailedTask("no good")]


class Trouble(Stage):
    """Fails or dies over some tasks as long as a file in the folder tells it to."""

    class Params(Stage.Params):
        """Where it is told."""

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
    """Words as rows, for sinks that want a table."""

    def process(self, task: Task) -> Task:
        return task.replace(pa.table({"word": pa.array(task.data, pa.string())}))


class Picky(Salted):
    """Can't bear some rows, whatever stands beside them."""

    def process(self, task: Task) -> Task:
        for word in task.table["word"].to_pylist():
            if roll(self.params.salt, word) % 6 == 0:
                raise ValueError(f"not {word}")
        return task


class WordSink(SinkStage):
    """Words and steps as JSON."""

    suffix = ".json"

    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(json.dumps([task.data, task.meta]).encode())
