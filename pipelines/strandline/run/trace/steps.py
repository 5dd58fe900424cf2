"""The history of a row as plain data: sources, decisions of stages, files, and publication.

This module has no side effects, and must not depend on how the history is found or shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple


class Decision(StrEnum):
    """A decision of a stage about a row. The values are part of the JSON output."""

    READ = "read"
    KEPT = "kept"
    CHANGED = "changed"
    MARKED = "marked"
    BECAME = "became"
    DROPPED = "dropped"
    DEAD_LETTER = "deadLetter"
    FAILED = "failed"
    ENDED = "ended"
    UNKNOWN = "unknown"


class BrokenRule(NamedTuple):
    """The rule that dropped or marked a row.

    Attributes:
        parameter: name of the parameter that sets the limit; empty if no parameter sets it.
        measure: name of the measure.
        value: the measured value, or None if the row has no such measure.
        limit: the limit, or None if the rule drops rows without the measure.
        is_least: whether the rule drops rows below the limit.
    """

    parameter: str
    measure: str
    value: float | None
    limit: float | None
    is_least: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A decision of a stage about a row, or about several rows that the row became.

    Attributes:
        stage: name of the stage.
        rows: number of rows that reached the stage, or that it read.
        becomes: number of rows that the stage passed on for them.
        reason: the reason as counted, or the error of a failed row; empty otherwise.
        rule: the rule with the reason, if a limit decided.
        changed, added, removed: names of columns.
        retained: key of the row that is kept instead, if known.
        request: the request to a model and its stored answer, if any.
    """

    stage: str
    decision: Decision
    rows: int = 1
    becomes: int = 0
    reason: str = ""
    rule: BrokenRule | None = None
    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    retained: str | None = None
    request: Mapping[str, Any] | None = None


def merge_steps(steps: Sequence[Step], order: Sequence[str]) -> list[Step]:
    """Return the steps in the order of the stages. Equal decisions about several rows are added."""
    merged: list[Step] = []
    for step in steps:
        same = replace(step, rows=0, becomes=0)
        for at, each in enumerate(merged):
            if replace(each, rows=0, becomes=0) == same:
                rows, becomes = each.rows + step.rows, each.becomes + step.becomes
                merged[at] = replace(each, rows=rows, becomes=becomes)
                break
        else:
            merged.append(step)
    return sorted(merged, key=lambda step: order.index(step.stage))


class TracedSource(NamedTuple):
    """A source that has the row.

    Attributes:
        key: the source's key.
        state: state in the ledger, or empty if the ledger does not have the source.
        attempt: the attempt in which the source finished or last failed; None if unknown.
        payload: the source's payload, such as a path and a byte range.
        message: why the source failed, or why no row can be followed; empty otherwise.
    """

    key: str
    state: str = ""
    attempt: int | None = None
    payload: Mapping[str, Any] = {}
    message: str = ""


class OutputRow(NamedTuple):
    """A place of the row in the output.

    Attributes:
        file: name of the file, relative to the output.
        row: index of the row in the file, or None if the format can't be read.
    """

    file: str
    row: int | None


@dataclass(slots=True)
class PipelineTrace:
    """The history of a row in one pipeline.

    Attributes:
        pipeline: name of the pipeline.
        location: folder or URL of the output.
        publication: name of the publication of `latest`; empty if the row is not in it.
        notes: sentences about missing or contradictory information.
        skipped: sources that may have the row, but whose stages can't run again.
    """

    pipeline: str
    location: str = ""
    sources: list[TracedSource] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[OutputRow] = field(default_factory=list)
    publication: str = ""
    notes: list[str] = field(default_factory=list)
    skipped: list[TracedSource] = field(default_factory=list)

    @property
    def is_found(self) -> bool:
        """Return whether the pipeline has the row."""
        return bool(self.sources)


@dataclass(slots=True)
class RowName:
    """The names of a row: the requested key, and the keys of the rows that the row became.

    Attributes:
        column: column with the keys.
        keys: keys in the order of their discovery.
        number: index among the rows that the source's reader yields, for a row without a key.
    """

    column: str
    keys: dict[str, None] = field(default_factory=dict)
    number: int | None = None

    def number_in(self, *, is_source: bool) -> RowName:
        """Return the names in a pipeline. The number applies only to the named source."""
        return RowName(self.column, self.keys, self.number if is_source else None)


@dataclass(slots=True)
class TracedRow:
    """A row to trace.

    Attributes:
        name: the row's names.
        source: key of the source with the row, or None if the source is unknown.
        files: paths or URLs of the output files that have the row so far.
    """

    name: RowName
    source: str | None = None
    files: list[str] = field(default_factory=list)

    @property
    def is_whole_source(self) -> bool:
        """Return whether only the source is requested, and no row."""
        return not self.name.keys and self.name.number is None
