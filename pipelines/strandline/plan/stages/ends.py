"""The ends of a pipeline: the stage that lists sources, and the stage that writes outputs."""

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
    """An item that a source stage lists: the unit of resume.

    Attributes:
        key: identity across runs (a path, a URL, a record's own id); unique in the listing.
        version: changes when the content does; a changed version is processed again.
        data: data of the task for the first stage; keep it small, such as a path.
        meta: small metadata that travels with the data.
    """

    key: str
    version: str
    data: Any
    meta: dict[str, Any] | None = None


class OnRemoved(StrEnum):
    """Options for the output of a source that is no longer listed."""

    KEEP = "Keep"
    DELETE = "Delete"


class EndStage(Stage):
    """The first or the last stage of a pipeline. Both may declare that sources share storage.

    Attributes:
        chunked_by: name of an integer parameter that sets how many consecutive sources share
            storage, or None if there is no such parameter. If most sources form one group, `plan`
                tries
            other values of the parameter.
    """

    chunked_by: ClassVar[str | None] = None

    def partition_indices(self, source: Source) -> Iterable[str]:  # noqa: ARG002 - for subclasses
        """Return the names of the storage that a source shares with others, such as `chunk 3`.

        By default no storage is shared. Sources with a common name are processed by one worker, and
        finish or fail together. The method is called wherever sources are listed, without `setup`,
        so the result must depend only on the source.
        """
        return ()

    def name_position(self, source: Source) -> str | None:  # noqa: ARG002 - for subclasses
        """Return a name that must be unique among all sources, such as `time 5`, or None.

        If two sources have the same name, listing ends with an error that names the keys of both,
        because only one source can be written at that position.
        """
        return None

    @property
    def is_partitioned(self) -> bool:
        """Return whether the class overrides `partition_indices`."""
        return type(self).partition_indices is not EndStage.partition_indices


class SourceStage(EndStage):
    """The first stage: lists the sources of a pipeline, in any order, as a stream.

    Attributes:
        adding: Python names of list parameters. A new item at the end of such a list only adds
            sources, so an existing ledger accepts the change.
        part_suffix: regular expression that matches the end of a key if the source is a part of a
            file. A listing names all parts of a file, so a part that is missing from a listed file
            counts as removed.
    """

    class Params(Stage.Params):
        """Parameters of every source."""

        on_removed: OnRemoved = Field(
            default=OnRemoved.KEEP,
            description="Treatment of the output of sources that are missing from a complete "
            "listing: `Keep` or `Delete`.",
        )
        max_group: int = Field(
            default=1000,
            ge=1,
            description=(
                "Largest number of sources processed as one group because they share storage."
            ),
        )

    # Parameters that select sources or control access do not affect the output of a source.
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset(
        {"on_removed", "limit", "max_group", "storage_options"}
    )
    adding: ClassVar[frozenset[str]] = frozenset()
    part_suffix: ClassVar[str] = ""
    params: BaseModel
    _gaps: tuple[tuple[str, str], ...] = ()

    @property
    def deletes_removed(self) -> bool:
        """Return whether `on_removed` is `Delete`; custom parameters may lack the field."""
        return getattr(self.params, "on_removed", None) is OnRemoved.DELETE

    @property
    def gap(self) -> str | None:
        """The reason why the listing is incomplete, or None for a complete listing.

        Sources that an incomplete listing omits do not count as removed, so their outputs are kept.
        """
        limit = getattr(self.params, "limit", None)
        first = self._gaps[0][0] if self._gaps else None
        return first if limit is None else f"limit is {limit}"

    @property
    def gap_paths(self) -> tuple[str, ...]:
        """Paths that were not listed, in the form of keys; an empty path means everything."""
        beyond = ("",) if getattr(self.params, "limit", None) is not None else ()
        return (*beyond, *(path for _, path in self._gaps))

    def note_gap(self, why: str, within: str = "") -> None:
        """Record that a file or folder was not read, so that no source in it counts as removed.

        Args:
            why: reason for the run's summary, which shows only the first reason.
            within: common prefix of the keys of the file or folder. If empty, no missing source
                counts as removed.
        """
        # Assign a new tuple: all instances share the empty default of the class.
        self._gaps = (*self._gaps, (why, within))

    @abstractmethod
    def list_sources(self) -> Iterator[Source]:
        """Yield all current sources. If two sources have the same key, the run ends.

        Raises:
            OSError: the location is unreadable; ends the run with a `ListingError`.
        """

    def join(self, tasks: list[Task]) -> Task:
        """Join the tasks of a partition group's sources, in key order.

        Tables are concatenated; other data becomes a list.
        """
        if all(isinstance(task.data, pa.Table) for task in tasks):
            return super().join(tasks)
        return tasks[0].replace([task.data for task in tasks])


class SinkStage(EndStage):
    """The last stage: writes each task as the bytes of one file. The runtime names the file.

    Attributes:
        suffix: suffix of an output's name, such as ".parquet".
        writes_empty: whether a table without rows is written; if False, no file is written.
    """

    suffix: str = ""
    writes_empty: bool = False

    @abstractmethod
    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the task sequentially. The same task must produce the same bytes.

        Args:
            task: a result of the previous stage.
            file: an empty file, open for writing only, without `seek`.
        """

    def list_companions(self) -> Mapping[str, Callable[[Task, BinaryIO], None]]:
        """Return functions that write further files for each task, by suffix; by default none.

        A companion has the name of the task's file, but with its own suffix. It becomes durable and
        is recorded together with that file. The functions follow the rules of `write`.
        """
        return {}


class SharingSink(SinkStage):
    """A sink that may write tasks of several sources into one file.

    Only tables with the same schema share a file. Functions for companions receive a single task
    with all rows.
    """

    @property
    def target_bytes(self) -> int | None:
        """Approximate size of a shared file in bytes; None for a separate file per task."""
        return getattr(self.params, "target_bytes", None)

    def write_shared(self, tasks: Sequence[Task], file: BinaryIO) -> None:
        """Write tables of one schema to one file, in order. By default, `write` does the work."""
        self.write(Task(pa.concat_tables([task.table for task in tasks])), file)

    @abstractmethod
    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        """Copy some rows of a shared file, or of its companion, to a new file, in order.

        Args:
            shared: the file and its companions by suffix, as they were written or copied; each has
                `seek` and is positioned at the beginning.
            ranges: ranges of row numbers, ascending.
            suffix: suffix of the file to copy.
            file: the new file.
        """
