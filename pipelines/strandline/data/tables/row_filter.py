"""Base class of stages that drop rows. Each dropped row has a reason, which is counted or written.

The module must not depend on the meaning of a reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator
from pydantic.alias_generators import to_snake

from strandline.data.tables.columns import keep_rows, list_strings, set_column
from strandline.data.tables.rules import Measured, RowVerdict, Rule, RuleSet, list_measures
from strandline.plan.stages.columns import Columns, trace_columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

_KEEP, _REASON = "keep", "reason"
# Turns `gopher-quality` into `gopher_quality`.
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")
_TAKEN = (
    "the column {0!r}, which `mark` would write, already exists; give the stage another `name`, or "
    "remove the column with `select-columns`"
)


class JudgedRows(NamedTuple):
    """A filter's decisions about rows.

    Attributes:
        table: all rows in order, in the form in which they are passed on.
        reasons: for each row, the reason to drop it; None or empty for kept rows. An Arrow array is
            faster; its reasons must not be empty.
        measures: measures of all rows by name, if they are written to columns.
    """

    table: pa.Table
    reasons: Sequence[str | None] | pa.Array | pa.ChunkedArray
    measures: Mapping[str, Sequence[float | None]] = {}


def _count_reasons(judged: JudgedRows) -> Iterator[tuple[str, int]]:
    """Yield each reason with its number of rows, in the order of appearance."""
    reasons = judged.reasons
    if isinstance(reasons, Sequence):
        yield from Counter(filter(None, reasons)).items()
        return
    for each in pc.value_counts(reasons.drop_null()).to_pylist():
        yield each["values"], each["counts"]


def _mask_kept(judged: JudgedRows) -> pa.Array | pa.ChunkedArray | list[bool]:
    """Return for each row whether it is kept."""
    reasons = judged.reasons
    if isinstance(reasons, Sequence):
        return [not reason for reason in reasons]
    return pc.is_null(reasons)


def _list_reasons(judged: JudgedRows) -> list[str | None]:
    """Return the reason of each row, or None for kept rows."""
    reasons = judged.reasons
    listed = reasons if isinstance(reasons, Sequence) else reasons.to_pylist()
    return [reason or None for reason in listed]


class RowFilter(Stage):
    """Drops rows. If a reason column or `mark` is set, marks rows instead of dropping them."""

    class Params(Stage.Params):
        """Parameters of all row filters."""

        reason_column: str | None = Field(
            default=None,
            min_length=1,
            description="Column for the reason. If set, rows are kept, and the column is empty for "
            "rows that pass. Rows that already have a reason are passed on unchanged.",
        )
        stage_column: str | None = Field(
            default=None,
            min_length=1,
            description="Column for the name of the stage that gave the reason. It needs "
            "`reasonColumn` and must have another name.",
        )

        mark: bool = Field(
            default=False,
            description="Drop nothing, and add columns that start with the stage's name: "
            "`<name>_keep`, whether the row would stay; `<name>_reason`, why not; and "
            "one for each measure with a limit. Every row is measured, and `keep-rows` "
            "can drop rows later.",
        )

        @model_validator(mode="after")
        def _check_columns(self) -> Self:
            if self.mark and self.reason_column is not None:
                msg = "`mark` and `reasonColumn` are mutually exclusive; set only one of them"
                raise ValueError(msg)
            if self.stage_column is not None and self.reason_column in {None, self.stage_column}:
                msg = "`stageColumn` requires `reasonColumn`, and both must have different values"
                raise ValueError(msg)
            return self

    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"mark", "stage_column"})
    keeps_columns = True
    changes_rows: ClassVar[bool] = False  # True if the filter changes rows that it keeps

    @property
    def only_adds(self) -> bool:  # type: ignore[override]  # a parameter decides
        """Return True if the stage marks rows and changes nothing else."""
        return self.params.mark and not (self.changes_rows or self.adds_columns)

    def change_columns(self, columns: Columns) -> Columns:
        names = (self.params.reason_column, self.params.stage_column, *self.list_marks())
        return super().change_columns(columns).having(filter(None, names))

    def find_conflict(self, before: Sequence[Stage]) -> str | None:
        """Return a message if an earlier stage already writes a column of `mark`, or None."""
        named = [(stage.planned_name, stage) for stage in before]
        columns = [step.after for step in trace_columns(named)][-1:]
        names = [name for each in columns for name in each.names]
        taken = next(filter(names.__contains__, self.list_marks()), None)
        return None if taken is None else _TAKEN.format(taken)

    def list_rules(self) -> Sequence[Rule]:
        """Return the rules in the order in which they are checked; by default none."""
        return ()

    def list_marks(self) -> tuple[str, ...]:
        """Return the columns that `mark` adds; empty if `mark` is off."""
        if not self.params.mark:
            return ()
        measures = (rule.measure for rule in list_measures(self.list_rules()))
        return tuple(map(self.name_mark, (_KEEP, _REASON, *measures)))

    def list_added(self) -> tuple[str, ...]:
        return (*self.adds_columns, *self.list_marks())

    def name_mark(self, mark: str) -> str:
        """Return the name of a column that `mark` adds, with characters valid in expressions."""
        name = _NO_NAME.sub("_", self.planned_name or to_snake(type(self).__name__))
        return f"{name}_{mark}"

    def name_measure(self, rule: Rule) -> str:
        """Return the name of the column that contains the measure of a rule."""
        return rule.measure if rule.is_column else self.name_mark(rule.measure)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Decide which rows to drop. The table has no rows that an earlier stage has marked."""
        raise NotImplementedError

    def explain_rows(self, table: pa.Table) -> list[RowVerdict | None]:
        """Return the decision about each row with its measures, and count nothing.

        The stage must be set up. The decision is None for rows that an earlier stage has marked.
        """
        is_marked = self._find_marked(table)
        marking = copy(self)
        changes = {"mark": True, "reason_column": None, "stage_column": None}
        marking.params, marking.counters = self.params.model_copy(update=changes), {}
        judged = marking.judge_rows(_select(table, is_marked, marked=False))
        measures = dict(judged.measures)
        for rule in self.list_rules():
            if rule.is_column and rule.measure in judged.table.column_names:
                measures[rule.measure] = judged.table[rule.measure].to_pylist()
        rows = enumerate(_list_reasons(judged))
        verdicts = (
            RowVerdict(reason, {name: values[at] for name, values in measures.items()})
            for at, reason in rows
        )
        return [None if marked else next(verdicts) for marked in is_marked]

    def process(self, task: Task) -> Task | None:
        """Drop rows that have a reason, and count them by reason; or mark them if requested.

        An exception of `judge_rows` fails the task's source.
        """
        table, name = task.table, self.params.reason_column
        is_marked = self._find_marked(table)
        # Hide rows that an earlier stage would have dropped, so that the filter neither counts
        # them, nor processes them, nor fails on them.
        judged = self.judge_rows(_select(table, is_marked, marked=False))
        for reason, number in _count_reasons(judged):
            self.count(f"dropped: {reason}", number)
        if self.params.mark:
            return task.replace(self._write_marks(judged))
        if name is None:
            return keep_rows(task, judged.table, _mask_kept(judged))
        fresh = self._write_reasons(judged, name)
        return task.replace(_merge(fresh, _select(table, is_marked, marked=True), is_marked))

    def _apply_rules(self, measures: Iterable[Measured]) -> RowVerdict:
        """Decide whether to drop a row. Its measures are computed one after another.

        Without `mark`, computation stops at the first reason.
        """
        if self.params.mark:
            return self._rule_set.judge(measures, self.counters)
        return RowVerdict(self._rule_set.find_reason(measures))

    @cached_property
    def _rule_set(self) -> RuleSet:
        return RuleSet(self.list_rules())

    def _write_marks(self, judged: JudgedRows) -> pa.Table:
        """Return the rows with columns for the decision, the reason, and the measures.

        Raises:
            ValueError: if a column with one of the names already exists.
        """
        table, size = judged.table, judged.table.num_rows
        reasons = _list_reasons(judged)
        marks: list[tuple[str, Sequence[Any], pa.DataType]] = [
            (_KEEP, [reason is None for reason in reasons], pa.bool_()),
            (_REASON, reasons, pa.string()),
        ]
        for rule in list_measures(self.list_rules()):
            values = judged.measures.get(rule.measure, [None] * size)
            marks.append((rule.measure, values, pa.int64() if rule.is_count else pa.float64()))
        for mark, values, kind in marks:
            name = self.name_mark(mark)
            if name in table.column_names:
                raise ValueError(_TAKEN.format(name))
            table = set_column(table, name, values, kind)
        return table

    def _write_reasons(self, judged: JudgedRows, name: str) -> pa.Table:
        reasons = _list_reasons(judged)
        table = set_column(judged.table, name, reasons, pa.string())
        if self.params.stage_column is None:
            return table
        stages = [reason and self.planned_name for reason in reasons]
        return set_column(table, self.params.stage_column, stages, pa.string())

    def _find_marked(self, table: pa.Table) -> list[bool]:
        """Return for each row whether an earlier stage has marked it with a reason."""
        name = self.params.reason_column
        if name is None or name not in table.column_names:
            return [False] * table.num_rows
        return [bool(value) for value in list_strings(table, name)]


def spread_measures(verdicts: Sequence[RowVerdict]) -> dict[str, list[float | None]]:
    """Return the measures of all rows by name. A missing measure is None."""
    names = dict.fromkeys(name for verdict in verdicts for name in verdict.measures)
    return {name: [verdict.measures.get(name) for verdict in verdicts] for name in names}


def _select(table: pa.Table, is_marked: Sequence[bool], *, marked: bool) -> pa.Table:
    # Filter only a table with both kinds of rows: in most tables, all rows are of the same kind,
    # and filtering would copy rows.
    if marked not in is_marked:
        return table.slice(0, 0)
    if (not marked) not in is_marked:
        return table
    return table.filter(pa.array([each is marked for each in is_marked]))


def _merge(fresh: pa.Table, marked: pa.Table, is_marked: Sequence[bool]) -> pa.Table:
    """Return all rows in their original order. New columns are null in marked rows."""
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
    # Combine the chunks: many small chunks would slow down later stages.
    return pa.concat_tables(pieces).combine_chunks()
