"""What a stage is: the class that users write. It must not know how stages are run."""

from __future__ import annotations

import inspect
import shutil
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from strandline.plan.stages.columns import Columns
from strandline.plan.task import (
    Answer,
    FailedTask,
    NoneTask,
    Task,
    returns_lists,
    returns_many,
)
from strandline_api.documents.problems import SpecError, problems_of


class Params(BaseModel):
    """Hold a stage's parameters: the `with:` block of a file, where names are in camelCase.

    A subclass has a field for each parameter. Unknown names are refused.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    def list_places(self) -> Iterable[tuple[str, str]]:
        """List the paths and URLs that the stage opens; by default none.

        Before a run begins it is checked that what opens them is installed.

        Returns:
            Pairs of a parameter and its path, such as `("paths[0]", "s3://bucket/*.jsonl")`.
        """
        return ()

    def list_stores(self) -> Mapping[str, Any]:
        """Return how stores are asked that a source lists; by default as the environment says.

        Returns:
            By the beginning of URLs, what `strandline.storage` understands. All stages of the
            pipeline ask for files below them in that way.
        """
        return {}


class Shape(StrEnum):
    """How a stage's answer stands to its input."""

    TASK = "1→0|1|N"
    BATCH = "N→N"
    GROUP = "n→1"
    SOURCE = "→N"
    SINK = "1→"


class Stage:
    """Do one kind of work on tasks. A subclass writes `process` or `process_batch`, not both.

    Args:
        params: the parameters as one object; None: `Params` is made from `values`.
        **values: the parameters by name.

    Raises:
        SpecError: (a ValueError) parameters are unknown, missing or of a wrong type: all of them.

    Attributes:
        version: part of the fingerprint; raise it when the same input gives other output.
        mixes_sources: True says that it needs rows of several sources at once; it is refused.
        mixes_rows: True says that a row depends on others of its task, so none fails alone.
        scope: `list` or `partition` where an earlier pipeline made a file, or grouped rows into
            tasks, on which its answers depend; "": neither.
        not_fingerprinted: names of parameters, as in Python, that don't decide the output.
        added_params: names of parameters of later releases; at defaults not in the fingerprint.
        packages: modules that it loads in its set-up; they are looked for before a run begins.
        keeps_columns: whether a table's columns go on, all or none; None: the stage does not say.
        adds_columns: names of columns that it adds, or puts in the place of those there are.
        only_adds: True says that rows stay as they are, and those that have such a column fail.
        params: the parameters, an instance of the class's `Params`.
        counters: what `count` has added, by name.
        planned_name: its name in the pipeline; empty outside of one.
        volume_folder: the pipeline's folder on the volume, in `setup`; None: it is not there.
        report: takes a sentence for people, in a worker of Ray; None: elsewhere.
        stops_early: True says that `process` looks at `is_stopping`, in whichever thread.
        is_stopping: returns True if the run stops: raise `StageInterruptedError` when all is kept.
        waiting: returns a context; the time in it is a wait for a service, and no work.
    """

    class Params(Params):
        """No parameters."""

    version: ClassVar[str] = "1"
    mixes_sources: ClassVar[bool] = False
    mixes_rows: ClassVar[bool] = False
    scope: ClassVar[str] = ""
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset()
    added_params: ClassVar[frozenset[str]] = frozenset()
    packages: ClassVar[tuple[str, ...]] = ()
    keeps_columns: ClassVar[bool | None] = None
    adds_columns: ClassVar[tuple[str, ...]] = ()
    only_adds: ClassVar[bool] = False
    params: BaseModel
    planned_name: str = ""
    volume_folder: Path | None = None
    report: Callable[[str], None] | None = None
    stops_early: ClassVar[bool] = False
    is_stopping: Callable[[], bool] = bool
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext

    def __init__(self, params: BaseModel | None = None, **values: Any) -> None:  # noqa: ANN401
        self.params = _parse_params(type(self), values) if params is None else params
        self.counters: dict[str, int] = {}

    def digest_inputs(self) -> dict[str, str]:
        """Return what else decides the output besides parameters and tasks: a digest by name.

        Part of the fingerprint; asked where the pipeline is planned. By default none.
        """
        return {}

    def list_needed_columns(self) -> Iterable[str]:
        """List the columns without which a task fails; by default none.

        Asked where the pipeline is planned: one that stages before do not give is told then.
        """
        return ()

    def change_columns(self, columns: Columns) -> Columns:
        """Return the columns that a table has after the stage; by default as the class declares."""
        if self.keeps_columns is None:
            return Columns(is_open=True)
        return (columns if self.keeps_columns else Columns()).having(self.list_added())

    def list_added(self) -> tuple[str, ...]:
        """List the columns that it adds, all of them where it says `only_adds`."""
        return self.adds_columns

    def find_conflict(self, before: Sequence[Stage]) -> str | None:  # noqa: ARG002 - for subclasses
        """Return what can't be done with what stages before give; asked when the plan is made."""
        return None

    def setup_on_node(self) -> None:
        """Prepare a node, once in each attempt and before `setup` there: fetch, unpack.

        It leaves what it makes on the node's disk; nothing that it sets on `self` reaches another
        worker. One that died over it is tried again, so it must bear being begun twice.
        """

    def setup(self) -> None:
        """Prepare a worker, once before its first task: load models, open connections."""

    def process(self, task: Task) -> Answer:
        """Work on one task.

        What it raises fails the task's source, which is tried again by the next run, unless the
        pipeline's `onError` has other rows go on. A list may hold a `FailedRow` for each one.

        Returns:
            One task, which goes on; None, which filters it; or a fan-out: a list or a generator of
            tasks, `NoneTask`, `FailedTask` and None, in slots that are numbered as they stand. A
            generator's tasks go on while it yields, so that few of them are in memory.
        """
        raise NotImplementedError

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """Work on up to `batch_size` tasks of any sources at once.

        Where it raises, each of the tasks is tried by itself.

        Returns:
            One answer for each task, in the order of `tasks`; another length ends the attempt with
            a `ShapeError`.
        """
        raise NotImplementedError

    def join(self, tasks: list[Task]) -> Task:
        """Join the tasks of a group, in slot order, to one that `process` gets.

        By default tables are concatenated, with nulls in missing columns; other payloads need more.
        """
        table = pa.concat_tables([task.table for task in tasks], promote_options="default")
        return tasks[0].replace(table)

    def count(self, name: str, number: int = 1) -> None:
        """Add `number` to a counter of the run's summary, such as `dropped: not utf-8`."""
        self.counters[name] = self.counters.get(name, 0) + number

    @classmethod
    def fans_out(cls) -> bool:
        """Return whether `process` is a generator, or is annotated to return a list of tasks."""
        if cls.process is Stage.process:
            return False
        return inspect.isgeneratorfunction(cls.process) or returns_many(cls.process)

    @classmethod
    def fans_out_in_batch(cls) -> bool:
        """Return whether the return annotation of `process_batch` allows a list in a slot."""
        return returns_lists(cls.process_batch)


class StatefulFilter(Stage):
    """Gather something about the tasks that pass: statistics, counts, a sketch.

    What it gathers goes to `self`. A batch has one task, so that each piece is of one task.
    """

    @abstractmethod
    def flush(self) -> bytes | None:
        """Hand over what was gathered since the last flush, and forget it.

        Called after each task. An error after a task that failed ends the attempt (`FlushError`).

        Returns:
            One piece in a format of the stage's own; None: there was nothing.
        """

    @staticmethod
    @abstractmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        """Merge files to one of the same format. It must be associative.

        Args:
            paths: files of one piece each, or of what `merge` wrote; in the order of source keys.
            out: the file to write.
        """

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write what people read into a folder; by default a copy of the merged file.

        Args:
            merged: what `merge` wrote last; its stem is the stage's name.
            folder: exists; `strandline latest` leads to it when it is complete.
        """
        shutil.copyfile(merged, folder / merged.name)

    @staticmethod
    def panel(artifacts: Sequence[Path]) -> str | None:  # noqa: ARG004 - for those who have one
        """Return HTML (no script, no network) for `strandline report`; None: no panel."""
        return None


def _parse_params(stage: type[Stage], values: dict[str, Any]) -> BaseModel:
    try:
        return stage.Params(**values)
    except ValidationError as error:
        raise SpecError(problems_of(error, stage.Params, stage.__name__)) from None
