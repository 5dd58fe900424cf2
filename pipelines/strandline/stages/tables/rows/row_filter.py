"""What stages have in common that drop rows: each one has a reason, and it is counted or written.

It must not know what a reason is about.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pydantic import Field

from strandline.plan.columns import Columns
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import keep_rows, list_strings, set_column


class RowFilter(Stage):
    """Drops rows, or marks them where a column for the reason is asked for."""

    class Params(Stage.Params):
        """What each of these filters has."""

        reason_column: str | None = Field(
            default=None,
            min_length=1,
            description="Column that gets the reason, instead of dropping the row; empty for what "
            "is kept. Rows that have one already are passed on as they are.",
        )

    params: Params
    keeps_columns = True

    def change_columns(self, columns: Columns) -> Columns:
        name = self.params.reason_column
        changed = super().change_columns(columns)
        return changed if name is None else changed.having([name])

    def list_reasons(self, table: pa.Table) -> list[str | None]:
        """Return why stages before would have dropped each row; None where none would."""
        name = self.params.reason_column
        if name is None or name not in table.column_names:
            return [None] * table.num_rows
        return [value or None for value in list_strings(table, name)]

    def drop_rows(self, task: Task, table: pa.Table, reasons: Sequence[str | None]) -> Task | None:
        """Drop the rows that have a reason and count them; or mark them, where that is asked for.

        Args:
            task: that is worked on.
            table: its rows, as they go on.
            reasons: of each row; None or empty where it is kept.
        """
        name, earlier = self.params.reason_column, self.list_reasons(task.table)
        for reason, before in zip(reasons, earlier, strict=True):
            if reason and not before:
                self.count(f"dropped: {reason}")
        if name is None:
            return keep_rows(task, table, [not reason for reason in reasons])
        all_reasons = [
            before or reason or None for reason, before in zip(reasons, earlier, strict=True)
        ]
        return task.replace(set_column(table, name, all_reasons, pa.string()))
