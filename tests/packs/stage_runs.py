"""Initialized stages that take and return rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from strandline.plan.stages.columns import Columns
from strandline.plan.stages.ends import SinkStage, SourceStage
from strandline.plan.stages.registry import find_stage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

Rows = list[dict[str, Any]]
Tree = Callable[..., Path]


class StageRun:
    """An initialized stage that returns its answers as rows."""

    def __init__(self, use: str, **values: Any) -> None:
        stage_class = find_stage(use)
        self.stage: Any = stage_class(stage_class.Params.model_validate(values))
        assert isinstance(self.stage, Stage)
        self.stage.setup()

    @property
    def counters(self) -> dict[str, int]:
        counters: dict[str, int] = self.stage.counters
        return counters

    @property
    def gap(self) -> str | None:
        gap: str | None = self.stage.gap
        return gap

    def table(self, rows: Rows | pa.Table) -> pa.Table | None:
        found = self._process(rows if isinstance(rows, pa.Table) else build(rows))
        return found[0].table if found else None

    def rows(self, rows: Rows | pa.Table) -> Rows:
        table = self.table(rows)
        return [] if table is None else table.to_pylist()

    def column(self, name: str, values: list[Any], answer: str | None = None) -> list[Any]:
        return [row[answer or name] for row in self.rows([{name: value} for value in values])]

    def tables(self, rows: Rows) -> list[pa.Table]:
        return [task.table for task in self._process(build(rows))]

    def sources(self) -> list[Any]:
        assert isinstance(self.stage, SourceStage)
        sources = list(self.stage.list_sources())
        self._check_columns(Columns(), [source.data for source in sources])
        return sources

    def keys(self) -> set[str]:
        return {source.key for source in self.sources()}

    def _process(self, table: pa.Table) -> list[Task]:
        """Return the stage's tasks, and check the declared columns."""
        answer = self.stage.process(Task(table))
        if isinstance(answer, Iterator):
            answer = list(answer)
        tasks = answer if isinstance(answer, list) else [answer] if answer is not None else []
        self._check_columns(Columns(tuple(table.column_names)), [task.table for task in tasks])
        return tasks

    def _check_columns(self, before: Columns, tables: list[pa.Table]) -> None:
        declared = self.stage.change_columns(before)
        for table in tables:
            others = set(table.column_names) - set(declared.names)
            assert set(declared.names) <= set(table.column_names)
            assert declared.is_open or not others, others

    def written(self, table: pa.Table) -> bytes:
        assert isinstance(self.stage, SinkStage)
        file = ForwardFile()
        self.stage.write(Task(table), file)  # type: ignore[arg-type]
        return bytes(file.content)


class ForwardFile:
    """A file that can only be written sequentially."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self.content += data
        return len(data)

    def flush(self) -> None:
        return

    def writable(self) -> bool:
        return True


def build(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows)
