"""Reads the rows of output files as Python objects, in batches of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.opening import (
    PACKED,
    READ_ERRORS,
    UnreadableFileError,
    open_binary,
    open_decompressed,
)
from strandline.plan.errors import StrandlineError
from strandline.plan.stages.registry import find_stage
from strandline.plan.task import Task
from strandline_api.outcome.exit_codes import ExitCode

_READERS = {".csv": "read-csv", ".arrow": "read-arrow", ".tar": "read-webdataset"}
_BATCH = 1000  # number of rows in memory at a time
# Stands for the name of a file, to recognize the keys that readers give to rows without a key.
_NO_KEY = "\0"

Row = dict[str, Any]


class UnreadableRowsError(StrandlineError):
    """Raised if a listed file is missing or damaged."""

    exit_code = ExitCode.LEDGER_MISMATCH


def can_read_rows(path: str) -> bool:
    """Return True if the rows of files with this suffix can be read."""
    return _find_suffix(path) in (".parquet", ".jsonl", *_READERS)


def read_rows(path: str) -> Iterator[Row]:
    """Yield the rows of an output file. A row without a key has no column `key`.

    Raises:
        UnreadableRowsError: the file is missing or damaged; the message names the file.
    """
    suffix = _find_suffix(path)
    try:
        if suffix == ".parquet":
            with open_binary(path) as file:
                # Do not use Arrow's threads: they may abort a process that exits at the same time.
                opened = pq.ParquetFile(file, pre_buffer=False)
                for batch in opened.iter_batches(_BATCH, use_threads=False):
                    yield from batch.to_pylist()
        elif suffix == ".jsonl":
            with open_decompressed(path) as lines:
                yield from (json.loads(str(line, "utf-8")) for line in lines)
        else:
            yield from _read_by_stage(path, _READERS[suffix])
    except (*READ_ERRORS, UnreadableFileError, ValueError) as error:
        why = " ".join(str(error).replace(_NO_KEY, path).split())
        raise UnreadableRowsError(f"{path}: the rows can't be read: {why}") from error


def _find_suffix(path: str) -> str:
    for packed in PACKED:
        path = path.removesuffix(packed)
    return f".{path.rpartition('.')[2]}"


def _read_by_stage(path: str, use: str) -> Iterator[Row]:
    stage = find_stage(use)()
    stage.setup()
    tasks = stage.process(Task(pa.table({"key": [_NO_KEY], "path": [path]})))
    for task in cast("Iterator[Task]", tasks):
        for row in task.table.to_pylist():
            key = str(row["key"])
            if key.startswith(_NO_KEY):
                del row["key"]
            # The columns of a sample are in its JSON, and its name identifies the sample.
            is_sample = use == "read-webdataset"
            facts = json.loads(row.pop("json", None) or b"{}") if is_sample else {}
            yield {"key": key.partition("#")[2], **row, **facts} if is_sample else row
