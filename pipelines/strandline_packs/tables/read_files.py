"""The stage `read-files`: reads the files that a table names."""

from __future__ import annotations

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import BadInput, explain_error, open_binary
from strandline.data.tables.columns import list_strings, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task


class ReadFiles(Stage):
    """Adds the column `content` (binary): the bytes of the file in `path`."""

    class Params(Stage.Params):
        """Configures how unreadable files are handled."""

        on_error: BadInput = Field(
            default=BadInput.FAIL,
            description="Treatment of unreadable files. `fail`: the source fails and is retried "
            "when the run resumes. `drop`: the row is dropped and counted.",
        )

    params: Params
    keeps_columns = True
    adds_columns = ("content",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("path",)

    def process(self, task: Task) -> Task | None:
        """Read every file of the table.

        Raises:
            UnreadableFileError: a file can't be read and `onError` is `fail`.
        """
        contents = [self._read(path) for path in list_strings(task.table, "path")]
        table = set_column(task.table, "content", contents, pa.binary())
        kept = table.filter(table.column("content").is_valid())
        return task.replace(kept) if kept.num_rows else None

    def _read(self, path: str) -> bytes | None:
        try:
            with open_binary(path) as file:
                return file.read()
        except OSError as error:
            if self.params.on_error is BadInput.FAIL:
                raise explain_error(path, error) from error
            self.count("dropped: unreadable")
            return None
