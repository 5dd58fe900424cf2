"""A source and stages whose sources share storage, as the source or the sink declares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.ends import OnRemoved, Source, SourceStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Slot, Task
from strandline_packs.sinks.parquet_partitions import ParquetPartitions

LINES = pa.schema([("key", pa.string()), ("line", pa.string())])


class Steps(SourceStage):
    """Lists numbered steps, some of which share a file."""

    class Params(SourceStage.Params):
        """The steps, the changed steps, and the number of steps per file."""

        on_removed: OnRemoved = OnRemoved.DELETE
        steps: tuple[int, ...]
        changed: tuple[int, ...] = ()
        per_file: int = 1

    not_fingerprinted: ClassVar[frozenset[str]] = frozenset(
        {*SourceStage.not_fingerprinted, *Params.model_fields}
    )
    params: Params

    def list_sources(self) -> Iterator[Source]:
        for step in self.params.steps:
            version = "2" if step in self.params.changed else "1"
            yield Source(f"step {step:03d}", version, step)

    def partition_indices(self, source: Source) -> list[str]:
        return [f"file {source.data // self.params.per_file}"] if self.params.per_file > 1 else []


class Wave(Stage):
    """Computes a value for each member of a group, and fails at a configured step."""

    class Params(Stage.Params):
        """The failing step."""

        bad: int | None = None

    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"bad"})
    params: Params

    def process(self, task: Task) -> Task:
        if self.params.bad in task.data:
            msg = f"step {self.params.bad} is no good"
            raise ValueError(msg)
        values = [math.sin(step) for step in task.data]
        return task.replace(pa.table({"key": task.meta["members"], "value": values}))  # type: ignore[index]


class SplitMembers(Stage):
    """Fans a group's table of files out into one task per file."""

    def process(self, task: Task) -> list[Slot]:
        return [task.replace(task.table.slice(at, 1)) for at in range(task.num_rows)]


class JoinLines(Stage):
    """Returns the lines of all members in a group."""

    def process(self, task: Task) -> Task:
        rows = [
            {"key": row["key"], "line": line}
            for row in task.table.to_pylist()
            for line in row["content"].decode().splitlines()
        ]
        return task.replace(pa.Table.from_pylist(rows, schema=LINES))


def plan_steps(
    steps: range | list[int], by: str = r"step \d\d", bad: int | None = None, **params: Any
) -> PipelinePlan:
    """Return a pipeline that writes one file per ten steps, unless `by` differs."""
    stages = [Steps(steps=tuple(steps), **params), Wave(bad=bad), ParquetPartitions(by=by)]
    source, *rest = [
        StagePlan(name, name, stage, cpu=0.1)
        for name, stage in zip(("steps", "wave", "tens"), stages, strict=True)
    ]
    return check_plan("default", "waves", source, rest)
