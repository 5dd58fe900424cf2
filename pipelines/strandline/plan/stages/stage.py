"""The base class of all stages. The module must not depend on the way stages are run."""

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
from strandline_api.documents.problems import SpecError
from strandline_api.documents.validation import problems_of


class Params(BaseModel):
    """Parameters of a stage: the `with:` block in a manifest, where names are in camelCase.

    A subclass has a field for each parameter. Unknown names are rejected.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return the paths and URLs that the stage opens; by default none.

        Before a run, a check ensures that the packages needed to open them are installed.

        Returns:
            Pairs of a parameter and its path, such as `("paths[0]", "s3://bucket/*.jsonl")`.
        """
        return ()

    def list_stores(self) -> Mapping[str, Any]:
        """Return options for the stores that a source lists; by default the environment decides.

        Returns:
            Options as for `strandline.storage`, by URL prefix. All stages of the pipeline use the
            options for files below the prefix.
        """
        return {}


class Shape(StrEnum):
    """How a stage's results relate to its input."""

    TASK = "1→0|1|N"
    BATCH = "N→N"
    GROUP = "n→1"
    SOURCE = "→N"
    SINK = "1→"


class Stage:
    """A kind of work on tasks. A subclass defines `process` or `process_batch`, not both.

    Args:
        params: the parameters as one object; None creates `Params` from `values`.
        **values: the parameters by name.

    Raises:
        SpecError: (a ValueError) parameters are unknown, missing, or of a wrong type; the message
            lists all of them.

    Attributes:
        version: part of the fingerprint; increase it when the same input gives different output.
        mixes_sources: whether the stage needs rows of several sources in one call. A pipeline with
            such a stage is rejected.
        mixes_rows: whether a row's result depends on other rows of its task, so no row can fail
            alone.
        scope: `list` or `partition` if results depend on how an earlier pipeline made a file or
            grouped rows into tasks; empty otherwise.
        not_fingerprinted: Python names of parameters that do not affect the output.
        added_params: names of parameters that later releases added; their default values are not
            part of the fingerprint.
        packages: modules that the stage loads during setup; a check before the run looks for them.
        keeps_columns: True if the output has all columns of the input table, False if the output
            has no column of the input table, or None if undeclared.
        adds_columns: names of columns that the stage adds or replaces.
        only_adds: whether the stage only adds columns: rows stay unchanged, and a row that already
            has an added column fails.
        params: the parameters, an instance of the class's `Params`.
        counters: sums of the numbers passed to `count`, by name.
        planned_name: name of the stage in the pipeline; empty outside of a pipeline.
        volume_folder: the pipeline's folder on the volume, set during `setup`; None if unavailable.
        report: shows a sentence to people; set in worker processes, None elsewhere.
        stops_early: whether `process` checks `is_stopping`, in any thread.
        is_stopping: returns True if the run stops. Save all work, then raise
            `StageInterruptedError`.
        waiting: returns a context manager; time inside counts as waiting for a service, not as
            work.
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
        """Return digests of other data that affects the output, by name; by default none.

        The digests are part of the fingerprint, and are computed when the pipeline is planned.
        """
        return {}

    def list_needed_columns(self) -> Iterable[str]:
        """Return the columns without which a task fails; by default none.

        The plan rejects a pipeline in which earlier stages do not provide these columns.
        """
        return ()

    def change_columns(self, columns: Columns) -> Columns:
        """Return the columns of the output table; by default as the class declares."""
        if self.keeps_columns is None:
            return Columns(is_open=True)
        return (columns if self.keeps_columns else Columns()).having(self.list_added())

    def list_added(self) -> tuple[str, ...]:
        """Return the added columns. With `only_adds`, the stage adds no other columns."""
        return self.adds_columns

    def find_conflict(self, before: Sequence[Stage]) -> str | None:  # noqa: ARG002 - for subclasses
        """Return why the stage can't follow the stages before it, or None if it can."""
        return None

    def setup_on_node(self) -> None:
        """Prepare a node, for example by downloading files.

        The method runs once per node and attempt, before `setup` runs there. Store results on the
        node's disk: values set on `self` do not reach other workers. If a worker dies in this
        method, the method runs again, so it must tolerate an interrupted first run.
        """

    def setup(self) -> None:
        """Prepare a worker, once before its first task: load models, open connections."""

    def process(self, task: Task) -> Answer:
        """Process one task.

        An exception fails the task's source, which the next run retries, unless the pipeline's
        `onError` lets other rows continue. A list may contain a `FailedRow` for each failed row.

        Returns:
            One task, which is passed on; None, which filters the task; or a fan-out. A fan-out is a
            list or a generator of tasks, `NoneTask`, `FailedTask`, and None, in slots that are
            numbered in order. A generator's tasks are passed on while it yields, so few of them are
            in memory.
        """
        raise NotImplementedError

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """Process up to `batch_size` tasks of any sources in one call.

        If the method raises an exception, each task is tried alone.

        Returns:
            One result per task, in the order of `tasks`. A different number of results ends the
            attempt with a `ShapeError`.
        """
        raise NotImplementedError

    def join(self, tasks: list[Task]) -> Task:
        """Join the tasks of a group, in slot order, into one task for `process`.

        By default, tables are concatenated, with nulls in missing columns. Override this method for
        other payloads.
        """
        table = pa.concat_tables([task.table for task in tasks], promote_options="default")
        return tasks[0].replace(table)

    def find_retained(self, table: pa.Table, row: int) -> str | None:  # noqa: ARG002
        """Return the key of the row that is kept instead of a row, or None if there is none.

        `strandline trace` shows the key. The stage is set up.

        Args:
            table: an input table with a row that the stage drops, or an output table of a stage
                that lists rows.
            row: index of the row in the table.
        """
        return None

    def count(self, name: str, number: int = 1) -> None:
        """Add `number` to a counter of the run's summary, such as `dropped: not utf-8`."""
        self.counters[name] = self.counters.get(name, 0) + number

    @classmethod
    def fans_out(cls) -> bool:
        """Return whether `process` is a generator, or is annotated to return a list of tasks."""
        # Ignore the annotation of the base method, which allows lists for every stage.
        if cls.process is Stage.process:
            return False
        return inspect.isgeneratorfunction(cls.process) or returns_many(cls.process)

    @classmethod
    def fans_out_in_batch(cls) -> bool:
        """Return whether the annotation of `process_batch` allows a list as a task's result."""
        return returns_lists(cls.process_batch)


class StatefulFilter(Stage):
    """A stage that gathers state about passing tasks: statistics, counts, or a sketch.

    Store the state on `self`. Calls have batches of one task, so the state of a flush belongs to
    one task.
    """

    @abstractmethod
    def flush(self) -> bytes | None:
        """Return the state gathered since the last flush, and reset that state.

        The runtime calls this method after each task. If `flush` raises an error after a failed
        task, the attempt ends with a `FlushError`.

        Returns:
            One piece in a format of the stage's own, or None if there is no state.
        """

    @staticmethod
    @abstractmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        """Merge files into one file of the same format. The operation must be associative.

        Args:
            paths: files with one piece of state each, or results of `merge`; in order of source
                keys.
            out: the file to write.
        """

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write files for people into a folder; by default a copy of the merged file.

        Args:
            merged: last result of `merge`; its stem is the stage's name.
            folder: an existing folder. `strandline latest` finds the folder once it is complete.
        """
        shutil.copyfile(merged, folder / merged.name)

    @staticmethod
    def panel(artifacts: Sequence[Path]) -> str | None:  # noqa: ARG004 - for those who have one
        """Return HTML without scripts or network access for `strandline report`, if any."""
        return None


def _parse_params(stage: type[Stage], values: dict[str, Any]) -> BaseModel:
    try:
        return stage.Params(**values)
    except ValidationError as error:
        # Suppress Pydantic's error, which would only repeat the problems in other words.
        raise SpecError(problems_of(error, stage.Params, stage.__name__)) from None
