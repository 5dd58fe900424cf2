"""Delete files of an Iceberg table, which other engines write and pyiceberg reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record


def add_deletes(
    table: Table,
    path: Path,
    content: DataFileContent,
    rows: str = "text is not null",
    *partition: str,
) -> None:
    """Commit a delete file for the first row of a data file.

    Args:
        path: path of the delete file.
        rows: a filter that finds the data file.
        partition: partition of the data file.
    """
    hurt = next(task.file for task in table.scan(row_filter=rows).plan_files()).file_path
    kinds = pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
    pq.write_table(pa.table({"file_path": [hurt], "pos": [0]}, schema=kinds), path)
    bounds = {2147483546: hurt.encode()}  # `file_path` by its Iceberg field id
    deletes = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
        lower_bounds=bounds,
        upper_bounds=bounds,
    )
    deletes.spec_id = table.spec().spec_id
    transaction = table.transaction()
    with transaction.update_snapshot().fast_append() as update:
        update.append_data_file(deletes)
    transaction.commit_transaction()
