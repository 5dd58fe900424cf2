"""The stage `read-shuffle`: reads all rows of a partition that another pipeline has shuffled."""

from __future__ import annotations

from strandline.data.tables.columns import find_column
from strandline.data.tables.file_references import list_references
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.tables.shuffle.partition_files import read_partitions


class ReadShuffle(Stage):
    """Reads a partition from all files as one task; an empty partition gives an empty table."""

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path", "partition", "last_partition", "partitions")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return Columns(is_open=True)  # a file's columns are unknown until it is opened

    def process(self, task: Task) -> Task:
        """Return the rows in the order of the sink's `seed`, or in file order without a seed.

        Raises:
            MissingColumnError: a column is missing.
            UnreadableFileError: a file can't be read, or is partitioned differently.
        """
        first, last, count = (
            find_column(task.table, name)[0].as_py() for name in self.list_needed_columns()[2:]
        )
        return task.replace(read_partitions(list_references(task), range(first, last + 1), count))
