"""What a stage is: the class users write, and the two special ones at the ends.

A stage is a function of its parameters and its input. It sees no ledger, engine or driver.
"""

from __future__ import annotations

import inspect
import shutil
import types
import typing
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from strandline.plan.task import FailedTask, NoneTask, Slot, Task


class Params(BaseModel):
    """Base of every stage's parameters: the `with:` block, in camelCase, unknown names refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Paths and URLs that the stage opens, each after the parameter that has it.

        Such as `("paths[0]", "s3://bucket/*.jsonl")`. What opens them must be installed, which is
        looked at before a run begins.
        """
        return ()


class Shape(StrEnum):
    """How a stage's answer stands to its input."""

    TASK = "1→0|1|N"
    BATCH = "N→N"
    GROUP = "n→1"
    SOURCE = "→N"
    SINK = "1→"


class Stage:
    """One kind of work on data. Subclass it and write `process` or `process_batch`, not both.

    Attributes:
        version: part of the fingerprint; raise it when the same input gives other output.
        mixes_sources: True says that the work needs rows of several sources at once
            (shuffle, global dedup); such a stage is refused in a resumable run.
        not_fingerprinted: parameters, by attribute name, that don't decide the output.
        packages: modules that the stage loads only once it is set up; that each is installed is
            looked at before a run begins.
        params: the parsed `with:` block.
    """

    class Params(Params):
        """No parameters."""

    version: ClassVar[str] = "1"
    mixes_sources: ClassVar[bool] = False
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset()
    packages: ClassVar[tuple[str, ...]] = ()
    params: BaseModel

    def __init__(self, params: BaseModel | None = None, **values: Any) -> None:  # noqa: ANN401
        self.params = self.Params(**values) if params is None else params
        self.counters: dict[str, int] = {}

    def digest_inputs(self) -> dict[str, str]:
        """What decides the output besides parameters and tasks, such as files: a digest by name.

        Part of the fingerprint; asked where the pipeline is planned, before any `setup`.
        """
        return {}

    def setup_on_node(self) -> None:
        """Called once on each node and in each attempt, before `setup` there: fetch, unpack.

        It leaves what it makes on the node's disk; nothing that it sets on `self` reaches another
        worker. One that died over it is tried again, so it must bear being begun twice.
        """

    def setup(self) -> None:
        """Called once in each worker before the first task: load models, open connections."""

    def process(self, task: Task) -> Task | list[Slot] | list[Task] | Iterator[Slot] | None:
        """One task in; one out (the same token), a list (a fan-out), or None (filtered).

        A generator is a fan-out too; it is run to its end before its tasks go on.
        """
        raise NotImplementedError

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """`len(tasks)` answers, one by one in the order of the input."""
        raise NotImplementedError

    def join(self, tasks: list[Task]) -> Task:
        """One task of a group's tasks, in slot order; tables are concatenated by default."""
        table = pa.concat_tables([task.table for task in tasks], promote_options="default")
        return tasks[0].replace(table)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter that is shown in the run's summary, such as `dropped: not utf-8`."""
        self.counters[name] = self.counters.get(name, 0) + number

    @classmethod
    def fans_out(cls) -> bool:
        """True where `process` is a generator, or its annotation allows that or a list of tasks."""
        if cls.process is Stage.process:
            return False
        answers = _options(_return_type(cls.process))
        return inspect.isgeneratorfunction(cls.process) or any(map(_is_many, answers))

    @classmethod
    def fans_out_in_batch(cls) -> bool:
        """True where the return annotation of `process_batch` allows a list in a slot."""
        answer = _return_type(cls.process_batch)
        slots = typing.get_args(answer) if _is_list(answer) else ()
        return any(_is_list(option) for slot in slots for option in _options(slot))


class StatefulFilter(Stage):
    """A stage that gathers something about what passes it: statistics, counts, a sketch.

    `process` or `process_batch` as for every stage: it may pass on, filter, fan out. What it
    gathers goes to `self`. A batch has one task, so that each piece is of one task.
    """

    @abstractmethod
    def flush(self) -> bytes | None:
        """What was gathered since the last flush, as one piece; then forget it.

        Called after each task, also after one that failed. None: there was nothing.
        """

    @staticmethod
    @abstractmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        """Join files, each of one piece or of merged pieces, to one file of the same kind.

        It must be associative; the runtime calls it in source-key order.
        """

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write what people read from the merged file into the folder; by default a copy of it."""
        shutil.copyfile(merged, folder / merged.name)

    @staticmethod
    def panel(artifacts: Sequence[Path]) -> str | None:  # noqa: ARG004 - for those who have one
        """An HTML fragment (no script, no network) for `strandline report`; None: no panel."""
        return None


class Source(NamedTuple):
    """One item that a source stage lists: the unit of resume.

    Attributes:
        key: identity across runs (a path, a URL, a record's own id); unique in the listing.
        version: changes when the content does; a changed version is processed again.
        data: what the first stage gets as its task's data; keep it small, such as a path.
        meta: small facts that travel with the data.
    """

    key: str
    version: str
    data: Any
    meta: dict[str, Any] | None = None


class OnRemoved(StrEnum):
    """What becomes of the output of a source that is no longer listed."""

    KEEP = "Keep"
    DELETE = "Delete"


class EndStage(Stage):
    """The first or the last stage: those that may say which sources share storage."""

    def partition_indices(self, source: Source) -> Iterable[str]:  # noqa: ARG002 - for subclasses
        """Names of the storage that this source shares with others, such as `chunk 3`.

        Sources with a name in common are worked on as one: by one worker, with one end. Called
        wherever sources are listed, without set-up; the answer follows from the source alone.
        """
        return ()

    @property
    def is_partitioned(self) -> bool:
        """True where the class says which sources share storage."""
        return type(self).partition_indices is not EndStage.partition_indices


class SourceStage(EndStage):
    """The first stage: lists sources, in any order, as a stream."""

    class Params(Stage.Params):
        """What every source has."""

        on_removed: OnRemoved = Field(
            default=OnRemoved.KEEP,
            description="What becomes of the output of a source that is no longer listed, when a "
            "listing has come to its end: `Keep` or `Delete`.",
        )
        max_group: int = Field(
            default=1000,
            ge=1,
            description="Most sources that may be worked on as one because they share storage.",
        )

    # Which sources there are is no part of what becomes of each of them.
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"on_removed", "limit", "max_group"})
    params: BaseModel
    _gap: str | None = None

    @property
    def deletes_removed(self) -> bool:
        """True where the source says `onRemoved: Delete`; parameters of its own may lack it."""
        return getattr(self.params, "on_removed", None) is OnRemoved.DELETE

    @property
    def gap(self) -> str | None:
        """Why the listing does not name all that is there; None where it does.

        What such a listing does not name is not removed, so nothing of it is deleted.
        """
        limit = getattr(self.params, "limit", None)
        return self._gap if limit is None else f"limit is {limit}"

    def note_gap(self, why: str) -> None:
        """Say, while listing, that something could not be looked at; the first word of it stays."""
        self._gap = self._gap or why

    @abstractmethod
    def list_sources(self) -> Iterator[Source]:
        """Every source there is now.

        Raises:
            OSError: the place that is listed can't be read.
        """

    def join(self, tasks: list[Task]) -> Task:
        """One task of a group's sources, in key order: their tables as one, or a list of data."""
        if all(isinstance(task.data, pa.Table) for task in tasks):
            return super().join(tasks)
        return tasks[0].replace([task.data for task in tasks])


class SinkStage(EndStage):
    """The last stage: spells a task as the bytes of one file. Naming and renaming are not its job.

    Attributes:
        suffix: the end of an output's name, such as ".parquet".
    """

    suffix: str = ""

    @abstractmethod
    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the task front to back; the same task must give the same bytes."""


def _return_type(function: Any) -> Any:  # noqa: ANN401 - a callable and a type, of any kind
    try:
        return typing.get_type_hints(function).get("return")
    except NameError:  # a name imported for type checkers only: nothing can be told from it
        return None


def _options(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type of any kind
    is_union = typing.get_origin(annotation) in {typing.Union, types.UnionType}
    return typing.get_args(annotation) if is_union else (annotation,)


def _is_many(annotation: Any) -> bool:  # noqa: ANN401 - a type of any kind
    kind = typing.get_origin(annotation) or annotation
    return kind in {list, Iterator, Iterable, Generator}


def _is_list(annotation: Any) -> bool:  # noqa: ANN401 - a type of any kind
    return (typing.get_origin(annotation) or annotation) is list
