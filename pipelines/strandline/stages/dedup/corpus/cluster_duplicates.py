"""The stage `cluster-duplicates`: from the links of all partitions to the keys to be dropped."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from strandline.plan.columns import Columns
from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import find_column
from strandline.stages.dedup.corpus.clusters import DROPPED, LINKS, list_dropped
from strandline.stages.dedup.corpus.row_buckets import columns_of
from strandline.stages.sources.file_references import FileReference, list_references
from strandline.stages.sources.opening import explain_error, open_binary

_BATCH_ROWS = 100_000


@register("cluster-duplicates")
class ClusterDuplicates(Stage):
    """Joins links to clusters, and lists every key but the first of each, for `drop-listed`.

    Its task names all files of links: the source is `files` with `buckets: 1`.
    """

    class Params(Stage.Params):
        """How the list is cut."""

        max_rows: int = Field(default=1_000_000, ge=1, description="Most rows of a task.")

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return columns_of(DROPPED)

    def process(self, task: Task) -> Iterator[Task]:
        """Yield the list in tables of at most `maxRows` rows; an empty one where nothing is alike.

        Raises:
            UnreadableFileError: a file can't be read.
            MissingColumnError: a file has no links.
        """
        files = list_references(task)
        waiting: list[pa.Table] = []
        for found in list_dropped(lambda: _read_links(files)):
            waiting.append(found)
            while sum(map(len, waiting)) > self.params.max_rows:
                whole = pa.concat_tables(waiting)
                yield task.replace(whole.slice(0, self.params.max_rows))
                waiting = [whole.slice(self.params.max_rows)]
        yield task.replace(pa.concat_tables([DROPPED.empty_table(), *waiting]))


def _read_links(files: list[FileReference]) -> Iterator[pa.Table]:
    for file in files:
        try:
            with open_binary(file.path) as stream:
                parquet = pq.ParquetFile(stream)
                for name in LINKS.names:
                    find_column(parquet.schema_arrow.empty_table(), name)
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=LINKS.names):
                    yield pa.Table.from_batches([batch])
        except (OSError, pa.ArrowException) as error:
            raise explain_error(file.key, error) from error
