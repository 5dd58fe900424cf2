"""The stage `read-shuffle`: all rows of a partition that another pipeline has shuffled."""

from __future__ import annotations

from strandline.plan.columns import Columns
from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import find_column
from strandline.stages.sources.file_references import list_references
from strandline.stages.sources.shuffle_files import read_partition


@register("read-shuffle")
class ReadShuffle(Stage):
    """Reads one partition of all files, as one task; without rows it is an empty table."""

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path", "partition", "partitions")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return Columns(is_open=True)  # a file's columns are not known before it is opened

    def process(self, task: Task) -> Task:
        """Return the rows, in the order of the files.

        Raises:
            MissingColumnError: a column is not there.
            UnreadableFileError: a file can't be read, or has another number of partitions.
        """
        names = ("partition", "partitions")
        number, count = (find_column(task.table, name)[0].as_py() for name in names)
        return task.replace(read_partition(list_references(task), number, count))
