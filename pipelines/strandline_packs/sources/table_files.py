"""The source `table-files`: lists the data files of a table version, to be read by `read-table`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
from pydantic import Field, field_validator

from strandline.data.tables.formats.registry import FORMS, find_kind, locate_table, open_snapshot
from strandline.plan.stages.ends import Source, SourceStage


class TableFiles(SourceStage):
    """Lists the data files of a Delta, Iceberg, or Lance table, for `read-table`."""

    class Params(SourceStage.Params):
        """Configures the table, and the version to list."""

        table: str = Field(
            min_length=1,
            description="`delta:TABLE` or `lance:TABLE`, a folder or URL, or "
            "`iceberg:CATALOG/NAMESPACE.TABLE`.",
        )
        snapshot: int | None = Field(
            default=None,
            ge=0,
            description="Number of the version or snapshot; by default the current one.",
        )

        @field_validator("table")
        @classmethod
        def _check_table(cls, table: str) -> str:
            if find_kind(table) is None or not table.partition(":")[2]:
                msg = f"{table!r} is not the name of a table; write {FORMS}"
                raise ValueError(msg)
            return table

    # Versions of a table share files. A shared file must remain the same source in every version,
    # so the fingerprint excludes the version.
    not_fingerprinted: ClassVar[frozenset[str]] = SourceStage.not_fingerprinted | {"snapshot"}
    params: Params
    keeps_columns = False
    adds_columns = ("key", "table", "snapshot", "file")

    @property
    def table(self) -> str:
        """The table name as written in the pipeline."""
        return self.params.table

    def list_sources(self) -> Iterator[Source]:
        """Yield every data file, with its path below the table as the key.

        Raises:
            TableError: the table is missing, or uses an unsupported feature.
        """
        table = _resolve(self.params.table)
        snapshot = open_snapshot(table, self.params.snapshot)
        for file in snapshot.list_files():
            row = {"key": file.name, "table": table, "snapshot": snapshot.number, "file": file.name}
            yield Source(file.name, file.version, pa.Table.from_pylist([row]))

    def list_columns(self) -> dict[str, str]:
        """Return the column types of the listed version, by column name.

        Raises:
            TableError: see `list_sources`.
        """
        snapshot = open_snapshot(_resolve(self.params.table), self.params.snapshot)
        return {field.name: str(field.type) for field in snapshot.schema}


def _resolve(table: str) -> str:
    """Return a table name that is valid in every working directory."""
    return f"{find_kind(table)}:{locate_table(table)}"
