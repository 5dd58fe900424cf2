"""What a stage is: the class users write, and the two special ones at the ends.

A stage is a function of its parameters and its input. It sees no ledger, engine or driver.
"""

from __future__ import annotations

import inspect
import shutil
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from strandline.plan.columns import Columns
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
        return (columns if self.keeps_columns else Columns()).having(self.adds_columns)

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
    """The first or the last stage: those that may say which sources share storage.

    Attributes:
        chunked_by: name of the parameter, a whole number, that sets how many sources in a row share
            storage; `plan` tries others where most sources become one group.
    """

    chunked_by: ClassVar[str | None] = None

    def partition_indices(self, source: Source) -> Iterable[str]:  # noqa: ARG002 - for subclasses
        """Name the storage that a source shares with others, such as `chunk 3`; by default none.

        Sources with a name in common are worked on as one: by one worker, with one end. Called
        wherever sources are listed, without `setup`; the answer must follow from the source alone.
        """
        return ()

    def name_position(self, source: Source) -> str | None:  # noqa: ARG002 - for subclasses
        """Return what no other source may have too, such as `time 5`; by default None.

        Where two have, listing ends with their keys: of what they share only one could be written.
        """
        return None

    @property
    def is_partitioned(self) -> bool:
        """Return whether the class has a `partition_indices` of its own."""
        return type(self).partition_indices is not EndStage.partition_indices


class SourceStage(EndStage):
    """List the sources of a pipeline, in any order, as a stream. It is the first stage.

    Attributes:
        adding: names of parameters, as in Python, that are lists of which each further item only
            adds sources: a ledger takes what was added at their end.
        part_suffix: regular expression of what a key ends in where its source is a part of a file.
            Files are listed whole: parts that a listed file no longer has are removed.
    """

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

    # The choice of sources, and the account for them, are no part of what becomes of them.
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset(
        {"on_removed", "limit", "max_group", "storage_options"}
    )
    adding: ClassVar[frozenset[str]] = frozenset()
    part_suffix: ClassVar[str] = ""
    params: BaseModel
    _gaps: tuple[tuple[str, str], ...] = ()

    @property
    def deletes_removed(self) -> bool:
        """Return whether `on_removed` is `Delete`; parameters of a stage's own may lack it."""
        return getattr(self.params, "on_removed", None) is OnRemoved.DELETE

    @property
    def gap(self) -> str | None:
        """Return why the listing does not name all that is there; None where it does.

        What such a listing does not name is not removed, so nothing of it is deleted.
        """
        limit = getattr(self.params, "limit", None)
        first = self._gaps[0][0] if self._gaps else None
        return first if limit is None else f"limit is {limit}"

    @property
    def gap_paths(self) -> tuple[str, ...]:
        """The paths that were not looked at, as keys have them; an empty one is all there is."""
        beyond = ("",) if getattr(self.params, "limit", None) is not None else ()
        return (*beyond, *(path for _, path in self._gaps))

    def note_gap(self, why: str, within: str = "") -> None:
        """Say, while listing, that something was not looked at, so that nothing in it is removed.

        Args:
            why: for the run's summary; of several the first is shown.
            within: the file or folder, as keys begin; empty: whatever is not listed stays.
        """
        self._gaps = (*self._gaps, (why, within))

    @abstractmethod
    def list_sources(self) -> Iterator[Source]:
        """List every source that there is now; two with one key end the run.

        Raises:
            OSError: the place that is listed can't be read; ends the run with a `ListingError`.
        """

    def join(self, tasks: list[Task]) -> Task:
        """Join the tasks of a group's sources, in key order: tables into one, or a list of data."""
        if all(isinstance(task.data, pa.Table) for task in tasks):
            return super().join(tasks)
        return tasks[0].replace([task.data for task in tasks])


class SinkStage(EndStage):
    """Write a task as the bytes of one file; the runtime names the file. It is the last stage.

    Attributes:
        suffix: the end of an output's name, such as ".parquet".
        writes_empty: a table without rows is written too; else it leaves no file.
    """

    suffix: str = ""
    writes_empty: bool = False

    @abstractmethod
    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the task front to back; the same task must give the same bytes.

        Args:
            task: what the stage before gave.
            file: open for writing and empty; it can't be read and has no `seek`.
        """

    def list_companions(self) -> Mapping[str, Callable[[Task, BinaryIO], None]]:
        """Return what writes further files of each task, by their suffix; by default none.

        They have the name of the task's file but for the suffix, become durable with it, and are
        recorded with it. Each is written as `write` writes.
        """
        return {}


class SharingSink(SinkStage):
    """Write files of which each may hold the tasks of several sources.

    Only tables of one schema share a file; what writes companions gets one task with all rows.
    """

    @property
    def target_bytes(self) -> int | None:
        """Bytes of a shared file, about; None: each task has a file of its own."""
        return getattr(self.params, "target_bytes", None)

    def write_shared(self, tasks: Sequence[Task], file: BinaryIO) -> None:
        """Write tables of one schema to one file, row after row; by default by `write`."""
        self.write(Task(pa.concat_tables([task.table for task in tasks])), file)

    @abstractmethod
    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        """Write some rows of a shared file, or of a companion of it, to a new one, in their order.

        Args:
            shared: by suffix, the file and its companions, as they were written or copied; each
                has `seek` and is at its beginning.
            ranges: of numbers of rows, rising.
            suffix: of the one to copy.
            file: the file to write.
        """


def _parse_params(stage: type[Stage], values: dict[str, Any]) -> BaseModel:
    try:
        return stage.Params(**values)
    except ValidationError as error:
        raise SpecError(problems_of(error, stage.Params, stage.__name__)) from None
