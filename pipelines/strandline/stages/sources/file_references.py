"""Tables that stand for a file, or a part of it, until a reader stage opens it."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from strandline.plan.task import Task
from strandline.stages.columns import list_strings
from strandline.stages.sources.listing import ListedFile


class FileReference(NamedTuple):
    """A file by its key and by what opens it."""

    key: str
    path: str


def build_reference(entry: ListedFile) -> pa.Table:
    """Return one row: key and path."""
    return pa.table({"key": [entry.key], "path": [entry.path]})


def list_references(task: Task) -> list[FileReference]:
    """Return the files that a task's table stands for.

    Raises:
        MissingColumnError: the table has no `key` or no `path`.
    """
    keys, paths = list_strings(task.table, "key"), list_strings(task.table, "path")
    return [FileReference(key, path) for key, path in zip(keys, paths, strict=True)]
