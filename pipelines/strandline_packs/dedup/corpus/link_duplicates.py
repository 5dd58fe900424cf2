"""The stage `link-duplicates`: links the rows of a partition that share a bucket."""

from __future__ import annotations

from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.corpus.clusters import LINKS, link_rows
from strandline_packs.dedup.corpus.row_buckets import BUCKETS, columns_of


class LinkDuplicates(Stage):
    """Links the rows of a partition that share a bucket.

    All rows of a bucket must be in one task.
    """

    scope = "partition"
    mixes_rows = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return tuple(BUCKETS.names)

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return columns_of(LINKS)

    def process(self, task: Task) -> Task:
        """Return a row for each linked key, or an empty table if there are no links.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: a column has no digests.
            AmbiguousKeyError: two rows have the same key.
        """
        links = link_rows(task.table)
        self.count("rows with a duplicate", links.num_rows)
        return task.replace(links)
