"""What stages have in common that drop rows: each one has a reason, and it is counted or written.

It must not know what a reason is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.plan.columns import Columns
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import keep_rows, list_strings, set_column


class JudgedRows(NamedTuple):
    """What a filter makes of rows.

    Attributes:
        table: the rows as they go on, all of them, in their order.
        reasons: why each is dropped; None or empty where it is kept.
    """

    table: pa.Table
    reasons: Sequence[str | None]


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
        stage_column: str | None = Field(
            default=None,
            min_length=1,
            description="Column that gets the stage's name beside the reason; of another name than "
            "`reasonColumn`, and only with it.",
        )

        @model_validator(mode="after")
        def _check_columns(self) -> Self:
            if self.stage_column is not None and self.reason_column in {None, self.stage_column}:
                msg = "`stageColumn` wants a `reasonColumn` beside it, of another name"
                raise ValueError(msg)
            return self

    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"stage_column"})
    keeps_columns = True

    def change_columns(self, columns: Columns) -> Columns:
        names = (self.params.reason_column, self.params.stage_column)
        return super().change_columns(columns).having(filter(None, names))

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Judge the rows that no stage before has marked."""
        raise NotImplementedError

    def process(self, task: Task) -> Task | None:
        """Drop the rows that have a reason and count them; or mark them, where that is asked for.

        What `judge_rows` raises fails the task's source.
        """
        table, name = task.table, self.params.reason_column
        is_marked = self._find_marked(table)
        # A filter must not see what is gone for it: it would count it, work on it, or fail on it.
        judged = self.judge_rows(_select(table, is_marked, marked=False))
        for reason in filter(None, judged.reasons):
            self.count(f"dropped: {reason}")
        if name is None:
            return keep_rows(task, judged.table, [not reason for reason in judged.reasons])
        fresh = self._write_reasons(judged, name)
        return task.replace(_merge(fresh, _select(table, is_marked, marked=True), is_marked))

    def _write_reasons(self, judged: JudgedRows, name: str) -> pa.Table:
        reasons = [reason or None for reason in judged.reasons]
        table = set_column(judged.table, name, reasons, pa.string())
        if self.params.stage_column is None:
            return table
        stages = [reason and self.planned_name for reason in reasons]
        return set_column(table, self.params.stage_column, stages, pa.string())

    def _find_marked(self, table: pa.Table) -> list[bool]:
        """Return which rows stages before would have dropped."""
        name = self.params.reason_column
        if name is None or name not in table.column_names:
            return [False] * table.num_rows
        return [bool(value) for value in list_strings(table, name)]


def _select(table: pa.Table, is_marked: Sequence[bool], *, marked: bool) -> pa.Table:
    if marked not in is_marked:
        return table.slice(0, 0)
    if (not marked) not in is_marked:
        return table
    return table.filter(pa.array([each is marked for each in is_marked]))


def _merge(fresh: pa.Table, marked: pa.Table, is_marked: Sequence[bool]) -> pa.Table:
    """Return all rows in their first order; the marked ones get no column but empty ones."""
    if not marked.num_rows:
        return fresh
    columns = [
        marked.column(field.name).cast(field.type)
        if field.name in marked.column_names
        else pa.nulls(marked.num_rows, field.type)
        for field in fresh.schema
    ]
    tables = {False: fresh, True: pa.Table.from_arrays(columns, schema=fresh.schema)}
    begin, pieces = {False: 0, True: 0}, []
    for kind, run in groupby(is_marked):
        size = sum(1 for _ in run)
        pieces.append(tables[kind].slice(begin[kind], size))
        begin[kind] += size
    return pa.concat_tables(pieces).combine_chunks()
