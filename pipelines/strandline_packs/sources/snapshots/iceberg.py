"""Iceberg tables at a snapshot, by `pyiceberg`: its projections and its positional deletes.

Which catalogues there are, and where, is pyiceberg's own configuration: its file, or variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import DataScan, FileScanTask

from strandline.data.tables.formats.registry import DataFile, TableError, digest_parts


class IcebergSnapshot:
    """An Iceberg table at a snapshot.

    Args:
        name: `CATALOG/NAMESPACE.TABLE`.
        number: of the snapshot; None: the current one.

    Raises:
        TableError: there is no such table or snapshot, or it has what can't be read.
    """

    def __init__(self, name: str, number: int | None) -> None:
        catalog, _, identifier = name.partition("/")
        try:
            self._table = load_catalog(catalog).load_table(identifier)
            current = self._table.current_snapshot()
            self.number = number or (None if current is None else current.snapshot_id)
            scan = self._scan(None)
            self.schema: pa.Schema = _to_arrow(scan)
            tasks = list(scan.plan_files()) if self.number is not None else []
        except Exception as error:  # catalogues and stores have errors of their own
            what = " ".join(str(error).split())
            raise TableError(f"{name}: the table can't be read ({what})") from error
        root = f"{self._table.location().rstrip('/')}/"
        self._tasks = {task.file.file_path.removeprefix(root): task for task in tasks}

    def list_files(self) -> Iterator[DataFile]:
        """Yield its data files; the version of one has the files that delete rows of it."""
        for name, task in self._tasks.items():
            deletes = sorted(_describe_delete(task))
            yield DataFile(name, digest_parts([str(task.file.file_size_in_bytes), *deletes]))

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a data file, see `TableSnapshot`."""
        task, scan = self._tasks[name], self._scan(columns)
        reader = ArrowScan(self._table.metadata, self._table.io, scan.projection(), AlwaysTrue())
        schema = _to_arrow(scan)
        for batch in reader.to_record_batches([task]):
            # Names of large types and dictionaries differ between files.
            table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            for begin in range(0, table.num_rows, most_rows):
                yield table.slice(begin, most_rows)

    def _scan(self, columns: Sequence[str] | None) -> DataScan:
        fields = ("*",) if columns is None else tuple(columns)
        return self._table.scan(snapshot_id=self.number, selected_fields=fields)


def _to_arrow(scan: DataScan) -> pa.Schema:
    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


def _describe_delete(task: FileScanTask) -> Iterator[str]:
    for file in task.delete_files:
        yield f"{file.file_path} {file.file_size_in_bytes}"
