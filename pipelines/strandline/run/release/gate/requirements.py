"""Checks whether a complete run meets its pipeline's requirements for publishing.

This module does no I/O, and must not depend on how anything was measured, or on the consequences of
a failed check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strandline_api.spec.policy import Tolerance, count_tolerated
from strandline_api.spec.publishing import (
    ColumnKind,
    Expectation,
    MeasureName,
    Requirements,
    RowBounds,
)

Rows = Sequence[Mapping[str, Any]]
# Names of the tables that stages write.
FIELDS, LANGUAGES, TOKENS = "field-statistics", "language-counts", "token-counts"
_COLUMN_KEYS = {
    MeasureName.DISTINCT: "distinct",
    MeasureName.LEAST: "min",
    MeasureName.GREATEST: "max",
    MeasureName.MEAN: "mean",
}


@dataclass(frozen=True, slots=True)
class SchemaGroup:
    """Files whose columns have the same kinds.

    Attributes:
        file: one of the files, as an example.
        kinds: the kinds by column.
    """

    file: str
    kinds: Mapping[str, frozenset[ColumnKind]]


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """Measures of a complete run. Measures that no requirement needs keep their defaults.

    Attributes:
        problems: a sentence for each problem found by verification.
        older: number of finished sources of an older recipe.
        rows, dead: number of rows in all files, and of dead letters.
        listed, quarantined: number of sources.
        schemas: the different schemas of the Parquet files, or None if there are only other files.
        statistics: rows of the tables that stages measured, by stage and table name.
    """

    problems: Sequence[str] = ()
    older: int = 0
    rows: int = 0
    dead: int = 0
    listed: int = 0
    quarantined: int = 0
    schemas: Sequence[SchemaGroup] | None = None
    statistics: Mapping[tuple[str, str], Rows] = field(default_factory=dict)


def list_unmet(require: Requirements, measures: RunMeasures) -> list[str]:
    """Return a sentence for each unmet requirement."""
    unmet = [*_judge_verification(require, measures)]
    if require.one_recipe and measures.older:
        unmet.append(f"oneRecipe: {measures.older:,} sources were made with an older recipe")
    dead, total = measures.dead, measures.rows + measures.dead
    unmet += _judge_tolerance("deadLetters", require.dead_letters, dead, total, "rows")
    quarantined, listed = measures.quarantined, measures.listed
    unmet += _judge_tolerance("quarantined", require.quarantined, quarantined, listed, "sources")
    if require.rows is not None:
        unmet += _judge_rows(require.rows, measures.rows)
    unmet += _judge_columns(require.columns, measures.schemas)
    for at, expectation in enumerate(require.expectations):
        problem = _judge_expectation(expectation, measures)
        unmet += [f"expectations[{at}]: {problem}"] if problem else []
    return unmet


def _judge_verification(require: Requirements, measures: RunMeasures) -> Iterator[str]:
    if require.verified and measures.problems:
        first, count = measures.problems[0], len(measures.problems)
        more = f", and {count - 1:,} more problems" if count > 1 else ""
        yield f"verified: ledger and files do not agree: {first}{more}"


def _judge_tolerance(
    name: str, tolerance: Tolerance | None, count: int, total: int, what: str
) -> Iterator[str]:
    if tolerance is None or count <= (most := count_tolerated(tolerance, total)):
        return
    share = f" ({tolerance})" if isinstance(tolerance, str) else ""
    yield f"{name}: {count:,} of {total:,} {what}, but at most {most:,}{share} are allowed"


def _judge_rows(bounds: RowBounds, rows: int) -> Iterator[str]:
    if bounds.min is not None and rows < bounds.min:
        yield f"rows: there are {rows:,}, but at least {bounds.min:,} are required"
    if bounds.max is not None and rows > bounds.max:
        yield f"rows: there are {rows:,}, but at most {bounds.max:,} are allowed"


def _judge_columns(
    columns: Mapping[str, ColumnKind], schemas: Sequence[SchemaGroup] | None
) -> Iterator[str]:
    if columns and schemas is None:
        yield "columns: no file is Parquet, and the columns of other formats are unknown"
    for name, kind in columns.items():
        for group in schemas or ():
            kinds = group.kinds.get(name)
            if kinds is None:
                yield f"columns: {name!r} is not in {group.file}"
                break
            if kind is not ColumnKind.ANY and kind not in kinds:
                others = " or ".join(sorted(kinds)) or "of another kind"
                yield f"columns: {name!r} is {others} in {group.file}, not {kind}"
                break


def _judge_expectation(expectation: Expectation, measures: RunMeasures) -> str | None:
    what = expectation.column or expectation.language
    of = f" of {what!r}" if what else ""
    name = f"{expectation.measure}{of} by {expectation.stage}"
    value = find_value(expectation, measures)
    if value is None:
        return f"{name} was not measured"
    if expectation.min is not None and value < expectation.min:
        return f"{name} is {value:,.6g}, but at least {expectation.min:,.6g} is required"
    if expectation.max is not None and value > expectation.max:
        return f"{name} is {value:,.6g}, but at most {expectation.max:,.6g} is allowed"
    return None


def find_value(expectation: Expectation, measures: RunMeasures) -> float | None:
    """Return the measured value for an expectation, or None if it was not measured."""
    measure, stage = expectation.measure, expectation.stage
    if measure.is_of_column:
        rows = measures.statistics.get((stage, FIELDS), ())
        # A field has a second row if its histogram had other bins in an earlier run.
        found = [row for row in rows if row["field"] == expectation.column]
        return _find_of_column(measure, found[0]) if len(found) == 1 else None
    if measure is MeasureName.LANGUAGE_SHARE:
        counts = measures.statistics.get((stage, LANGUAGES))
        return None if counts is None else _find_share(counts, expectation.language)
    totals = measures.statistics.get((stage, TOKENS))
    return None if totals is None else sum(row[str(measure)] for row in totals)


def _find_of_column(measure: MeasureName, row: Mapping[str, Any]) -> float | None:
    if measure is MeasureName.NULL_SHARE:
        return row["nulls"] / row["rows"] if row["rows"] else None
    if measure is MeasureName.DUPLICATE_SHARE:
        measured = row["rows"] - row["nulls"] - row["not_finite"]
        # The number of distinct values is an estimate and may exceed the number of values, so the
        # difference may be negative.
        return max(0.0, 1 - row["distinct"] / measured) if measured else None
    value: float | None = row[_COLUMN_KEYS[measure]]
    return value


def _find_share(counts: Rows, language: str | None) -> float | None:
    total = sum(row["documents"] for row in counts)
    mine = sum(row["documents"] for row in counts if row["language"] == language)
    return mine / total if total else None
