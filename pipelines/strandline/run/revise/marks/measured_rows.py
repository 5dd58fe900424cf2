"""Reads the measures of a filter for some rows, from marked outputs or by processing sources.

The module does not decide which rows a limit drops; see `thresholds`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.tables.row_filter import RowFilter
from strandline.ledger.records.entries import FailureRecord
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.columns import trace_columns
from strandline.plan.stages.ends import SinkStage, Source, SourceStage
from strandline.plan.stages.registry import find_stage
from strandline.plan.task import Task
from strandline.run.revise.marks.dropped_rows import read_rows
from strandline.run.revise.marks.thresholds import MeasuredRows

_REASON = "reason"


class NoMeasuresError(StrandlineError):
    """Raised if there are no measured rows for which limits could be tried."""


class RunResult(Protocol):
    """The attributes of an attempt's result that a sample run needs."""

    @property
    def total(self) -> int | None:
        """Number of listed sources, or None if the listing did not end."""

    @property
    def counts(self) -> Mapping[str, StageCounts]:
        """Work of each stage, by name."""

    @property
    def failures(self) -> Sequence[FailureRecord]:
        """Sources that failed."""


RunHere = Callable[[PipelinePlan], RunResult]  # runs a plan in this process, without a ledger


class MeasuredSample(NamedTuple):
    """Measured rows of some sources or some files.

    Attributes:
        rows: the rows with their measures.
        looked_at: number of sources or files that were read.
        total: number of all files, or None if sources were read.
        failures: why sources could not be read.
    """

    rows: MeasuredRows
    looked_at: int
    total: int | None
    failures: tuple[str, ...] = ()


def find_filter(plan: PipelinePlan, name: str) -> tuple[int, RowFilter]:
    """Return a filter of a pipeline, and its position.

    Raises:
        NoMeasuresError: if no filter has that name.
    """
    filters = {
        stage.name: (position, stage.stage)
        for position, stage in enumerate(plan.stages)
        if isinstance(stage.stage, RowFilter)
    }
    if name not in filters:
        names = ", ".join(filters) or "none"
        raise NoMeasuresError(
            f"{name!r} is not a filter of this pipeline; its filters are: {names}"
        )
    return filters[name]


def explain_sampling(plan: PipelinePlan, position: int) -> str | None:
    """Return why the outputs do not contain marks for all rows, or None if they do."""
    stage = plan.stages[position].stage
    assert isinstance(stage, RowFilter)  # checked by `find_filter`
    if not stage.params.mark:
        return f"{plan.stages[position].name!r} has no `mark: true`"
    for later in plan.stages[position + 1 :]:
        params = later.stage.params
        if isinstance(params, RowFilter.Params) and not (params.mark or params.reason_column):
            return f"{later.name!r} drops rows after it"
    return None


def read_outputs(
    location: str, names: Sequence[str], stage: RowFilter, most_rows: int
) -> MeasuredSample:
    """Read the marks of output files until there are enough rows.

    Args:
        location: folder or URL of the outputs.
        names: names of the files below that location.
        stage: the filter that marked the rows.
        most_rows: number of rows after which no further file is read.

    Raises:
        NoMeasuresError: if a file lacks the columns, or no reader exists for its format.
        OSError: if a file can't be read.
    """
    columns = _name_columns(stage)
    rows: list[dict[str, Any]] = []
    looked_at = 0
    # Read files in random order, because files with neighboring names may have similar contents.
    for name in sorted(names, key=_rank):
        if len(rows) >= most_rows:
            break
        for part in read_rows(f"{location.rstrip('/')}/{name}", set(columns.values())):
            _check_columns(name, part, columns.values())
            rows += part
        looked_at += 1
    return MeasuredSample(_gather(rows, columns), looked_at, len(names))


def measure_sources(plan: PipelinePlan, position: int, count: int, run: RunHere) -> MeasuredSample:
    """Run a pipeline up to a filter, on this machine and for some sources, with temporary outputs.

    The choice of sources depends only on their keys.

    Raises:
        NoMeasuresError: if the sources yield no row.
        SpecError, StageSetupError: if a stage can't run here.
    """
    marking = _mark(plan.stages[position])
    stage = marking.stage
    assert isinstance(stage, RowFilter)  # marking does not change the class
    before = [*plan.stages[:position], *_pass_over_marked(plan, position)]
    columns = _name_columns(stage)
    sink = MarkSink()
    sink.columns = tuple(columns.values())
    inner = plan.source.stage
    assert isinstance(inner, SourceStage)  # checked when the plan is built
    source = SampledSource(inner, count)
    with tempfile.TemporaryDirectory(prefix="strandline-tune-") as folder:
        sampled = replace(
            plan,
            source=replace(plan.source, stage=source),
            stages=(*before, marking, StagePlan("marks", "marks", sink)),
            output=f"{folder}/output",
        )
        result = run(sampled)
        # Sort, because the order of files in a folder depends on the file system.
        paths = sorted(Path(folder, "output").rglob(f"*{MarkSink.suffix}"))
        rows = [row for path in paths for row in _read_rows(path)]
    failures = tuple(f"{each.key}: {each.message}" for each in result.failures)
    if not rows:
        why = f"; {failures[0]}" if failures else ""
        name = plan.stages[position].name
        raise NoMeasuresError(f"no row of {result.total or 0} sources reaches {name!r}{why}")
    return MeasuredSample(_gather(rows, columns), result.total or 0, None, failures)


class SampledSource(SourceStage):
    """Some of the sources of another stage, chosen by their keys.

    Args:
        inner: the stage that lists the sources.
        size: maximum number of sources.
    """

    def __init__(self, inner: SourceStage, size: int) -> None:
        super().__init__(inner.params)
        self._inner, self._size = inner, size

    def setup(self) -> None:
        """Set up the inner stage."""
        self._inner.setup()

    def list_sources(self) -> Iterator[Source]:
        sources = self._inner.list_sources()
        # `nsmallest` keeps only the chosen sources in memory.
        yield from nsmallest(self._size, sources, key=lambda source: _rank(source.key))

    def partition_indices(self, source: Source) -> Iterable[str]:
        return self._inner.partition_indices(source)

    def join(self, tasks: list[Task]) -> Task:
        return self._inner.join(tasks)


class MarkSink(SinkStage):
    """Writes only the columns with measures and reasons."""

    suffix = ".parquet"
    columns: tuple[str, ...] = ()

    def write(self, task: Task, file: BinaryIO) -> None:
        pq.write_table(task.table.select(self.columns), pa.PythonFile(file, "w"))


def _read_rows(path: Path) -> list[dict[str, Any]]:
    # Do not use Arrow's threads: they may abort a process that exits at the same time.
    rows: list[dict[str, Any]] = pq.ParquetFile(path).read(use_threads=False).to_pylist()
    return rows


def _mark(plan: StagePlan) -> StagePlan:
    """Return the plan of a filter that marks rows instead of dropping them, by the same rules."""
    stage = plan.stage
    changes = {"mark": True, "reason_column": None, "stage_column": None}
    marking = type(stage)(stage.params.model_copy(update=changes))
    marking.planned_name = stage.planned_name
    return replace(plan, stage=marking)


def _pass_over_marked(plan: PipelinePlan, position: int) -> list[StagePlan]:
    """Return a stage that drops the rows that an earlier stage has marked.

    A filter with a `reasonColumn` skips such rows. Return an empty list if it skips no rows.
    """
    stage = plan.stages[position].stage
    name = getattr(stage.params, "reason_column", None)
    named = [(each.name, each.stage) for each in (plan.source, *plan.stages[:position])]
    *_, last = trace_columns(named)
    if name is None or name not in last.after.names:
        return []
    keep_rows = find_stage("keep-rows")
    params = keep_rows.Params.model_validate({"where": f"{name} is None or {name} == ''"})
    return [StagePlan("unmarked", "keep-rows", keep_rows(params))]


def _name_columns(stage: RowFilter) -> dict[str, str]:
    """Return the columns of the measures and of the reason, by name."""
    measures = {rule.measure: stage.name_measure(rule) for rule in stage.list_rules()}
    return {**measures, _REASON: stage.name_mark(_REASON)}


def _check_columns(name: str, rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> None:
    # Check only the first row, because all rows of a file have the same columns.
    for row in islice(rows, 1):
        missing = next((column for column in columns if column not in row), None)
        if missing is not None:
            raise NoMeasuresError(
                f"{name}: the file has no column {missing!r}, so it was written without the marks "
                "that the pipeline now requests; run the pipeline again, or process sources with "
                "--sources"
            )


def _gather(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> MeasuredRows:
    measures = {
        measure: np.array([row[column] for row in rows], np.float64)  # None becomes NaN
        for measure, column in columns.items()
        if measure != _REASON
    }
    return MeasuredRows(measures, [row[columns[_REASON]] for row in rows])


def _rank(name: str) -> bytes:
    # A key may contain unpaired surrogates, which UTF-8 can't encode without `replace`.
    return blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()
