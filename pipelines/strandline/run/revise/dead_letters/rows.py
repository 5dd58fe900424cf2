"""Reads dead letters as rows for the stage in which they failed.

Workers load this module, so it must not depend on ledgers or runs.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.opening import open_binary
from strandline.engine.call.stage.failed_rows import COLUMNS, FORMER_ROWS, PAYLOAD, FormerRows
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Slot, Task


class ReadDeadLetters(Stage):
    """Reads the dead letters of a source, in the order in which they failed."""

    retries_rows = True  # even if all rows fail again, the stage is not considered broken

    def process(self, task: Task) -> Task | list[Slot]:
        """Return the rows as the stage received them: as one table, or as a task for each payload.

        Raises:
            ValueError: if the columns or the payload were not kept.
        """
        tables = []
        for location in task.data:
            with open_binary(location) as file:
                tables.append(pq.ParquetFile(file).read(use_threads=False))
        rows = [_drop_notes(table) for table in tables]
        if any(not table.num_columns for table in rows):
            raise ValueError("the failed value is not a table, bytes or text, so it was not kept")
        if all(table.column_names == [PAYLOAD] for table in rows) and _are_payloads(tables):
            return [task.replace(value) for table in rows for value in table[PAYLOAD].to_pylist()]
        if any(table["dead_position"].null_count for table in tables):
            raise ValueError("it is unknown which rows of a task failed; process the source again")
        again = task.replace(pa.concat_tables(rows, promote_options="permissive"))
        again.meta = {**(task.meta or {}), FORMER_ROWS: _read_former_rows(tables)}
        return again


def _read_former_rows(tables: list[pa.Table]) -> FormerRows:
    positions = [row for table in tables for row in table["dead_position"].to_pylist()]
    return FormerRows(tables[0]["dead_stage"][0].as_py(), tuple(positions))


def _are_payloads(tables: list[pa.Table]) -> bool:
    return all(table["dead_position"].null_count == table.num_rows for table in tables)


def _drop_notes(table: pa.Table) -> pa.Table:
    """Return the original columns, without the columns that describe the error."""
    left = table.drop_columns([name for name in COLUMNS if name in table.column_names])
    before = {f"{name}_before": name for name in COLUMNS}
    return left.rename_columns([before.get(name, name) for name in left.column_names])
