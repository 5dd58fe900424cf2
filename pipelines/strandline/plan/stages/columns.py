"""Derives the columns of a task's table after each stage from the stages' declarations.

This module reads no data, so a missing column is found before a run. The module must not depend on
the content of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Columns:
    """Known columns of a table.

    Attributes:
        names: existing columns, in order.
        is_open: whether other columns may exist, which only the data shows.
        gone: columns that certainly do not exist, in the order of removal.

    Example:
        `Columns(("key", "text")).having(["language"])`
    """

    names: tuple[str, ...] = ()
    is_open: bool = False
    gone: tuple[str, ...] = ()

    def having(self, names: Iterable[str]) -> Columns:
        """Return the columns with more names appended. Existing names keep their position."""
        there = tuple(dict.fromkeys((*self.names, *names)))
        return replace(self, names=there, gone=_leave_out(self.gone, there))

    def without(self, names: Iterable[str]) -> Columns:
        """Return the columns without the given names."""
        removed = tuple(names)
        # If the column list is complete, `gone` is not needed: every name that is not listed is
        # missing.
        gone = tuple(dict.fromkeys((*self.gone, *removed))) if self.is_open else ()
        return replace(self, names=_leave_out(self.names, removed), gone=gone)

    def list_missing(self, names: Iterable[str]) -> list[str]:
        """Return the names that are certainly missing."""
        if self.is_open:
            return [name for name in names if name in self.gone]
        return [name for name in names if name not in self.names]

    def __str__(self) -> str:
        others = ["others"] if self.is_open else []
        shown = ", ".join([*self.names, *others]) or "none"
        return f"{shown} (without {', '.join(self.gone)})" if self.gone else shown


def _leave_out(names: Iterable[str], left: Iterable[str]) -> tuple[str, ...]:
    without = frozenset(left)
    return tuple(name for name in names if name not in without)


_DECLARATIONS = frozenset(
    {"keeps_columns", "adds_columns", "list_needed_columns", "change_columns"}
)
_WORK = frozenset({"process", "process_batch", "list_sources", "write", "join"})


class ColumnDeclaration(Protocol):
    """Protocol of the stage methods that declare columns."""

    def list_needed_columns(self) -> Iterable[str]:
        """List the columns without which a task fails."""

    def change_columns(self, columns: Columns) -> Columns:
        """Return the columns of the output table, given those of the input."""


class ColumnStep(NamedTuple):
    """Columns before and after a stage.

    Attributes:
        name: name of the stage.
        needed: columns without which the stage fails.
        before: columns of its input.
        after: columns of its output.
    """

    name: str
    needed: tuple[str, ...]
    before: Columns
    after: Columns


class MissingColumns(NamedTuple):
    """A stage that would fail because of missing columns.

    Attributes:
        position: index of the stage.
        message: the message about the problem.
        hint: a remedy; empty if unknown.
    """

    position: int
    message: str
    hint: str


def trace_columns(stages: Iterable[tuple[str, ColumnDeclaration]]) -> Iterator[ColumnStep]:
    """Follow the columns of a table through stages.

    Args:
        stages: name and stage, in order, the source first.
    """
    before = Columns()
    for name, stage in stages:
        if _declares(type(stage)):
            needed, after = tuple(stage.list_needed_columns()), stage.change_columns(before)
        else:
            # A stage without declarations may add or remove any column.
            needed, after = (), Columns(is_open=True)
        yield ColumnStep(name, needed, before, after)
        before = after


def _declares(stage_class: type[ColumnDeclaration]) -> bool:
    """Return whether the column declarations of a class describe its own `process`.

    A user's subclass may override `process` without changing the inherited declarations.
    """
    for each in stage_class.__mro__:
        if not _DECLARATIONS.isdisjoint(vars(each)):
            return True
        if not _WORK.isdisjoint(vars(each)):
            return False
    return False


def find_missing(
    steps: Iterable[ColumnStep], makers: Mapping[str, Sequence[str]]
) -> MissingColumns | None:
    """Return the first stage with a missing column, or None if no column is missing.

    Columns after that stage are unknown, so only one stage is reported.

    Args:
        makers: for each column, the names of stages that add it.
    """
    removers: dict[str, str] = {}
    for position, (name, needed, before, after) in enumerate(steps):
        missing = before.list_missing(needed)
        if missing:
            column = missing[0]
            message = (
                f"stage {name!r} reads {' and '.join(map(repr, missing))}, but the columns are: "
                f"{before}"
            )
            remover = removers.get(column)
            if remover is not None:
                hint = f"{remover!r} removes {column!r}: put {name!r} before it, or keep the column"
            else:
                hint = _advise(column, makers)
            return MissingColumns(position, message, hint)
        known = {*before.names, *after.names, *after.gone, *needed}
        for column in known:
            if column in after.names:
                # This stage adds the column again after an earlier removal.
                removers.pop(column, None)
            elif not before.list_missing([column]) and after.list_missing([column]):
                removers[column] = name
    return None


def _advise(column: str, makers: Mapping[str, Sequence[str]]) -> str:
    """Return a remedy that names the stages that add the column; empty if no stage does."""
    found = makers.get(column, ())
    return f"{' or '.join(map(repr, found))} before it adds {column!r}" if found else ""
