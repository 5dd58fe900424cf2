"""The ends of a pipeline: the stage that lists sources, and the one that writes outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, BinaryIO, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, Field

from strandline.plan.stages.stage import Stage
from strandline.plan.task import (
    Task,
)


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
