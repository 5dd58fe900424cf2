"""Which columns a task's table has after each stage, as the stages declare them.

Pure, and nothing is read: a column that is missing is found before a run begins. It must not know
what a column holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Columns:
    """What is known of a table's columns.

    Attributes:
        names: that are there, in order.
        is_open: there may be others too, which only the data tells.
        gone: names that are not among these others, in the order in which stages removed them.

    Example:
        `Columns(("key", "text")).having(["language"])`
    """

    names: tuple[str, ...] = ()
    is_open: bool = False
    gone: tuple[str, ...] = ()

    def having(self, names: Iterable[str]) -> Columns:
        """Return them with some more, at the end; those that are there keep their place."""
        there = tuple(dict.fromkeys((*self.names, *names)))
        return replace(self, names=there, gone=_leave_out(self.gone, there))

    def without(self, names: Iterable[str]) -> Columns:
        """Return them without some."""
        removed = tuple(names)
        gone = tuple(dict.fromkeys((*self.gone, *removed))) if self.is_open else ()
        return replace(self, names=_leave_out(self.names, removed), gone=gone)

    def list_missing(self, names: Iterable[str]) -> list[str]:
        """List which of some names are surely not there."""
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


class Declaring(Protocol):
    """A stage, as far as it tells of columns."""

    def list_needed_columns(self) -> Iterable[str]:
        """List the columns without which a task fails."""

    def change_columns(self, columns: Columns) -> Columns:
        """Declare what the columns of a table become."""


class ColumnStep(NamedTuple):
    """What becomes of columns in a stage.

    Attributes:
        name: the stage's.
        needed: without which it fails.
        before: those of what it is given.
        after: those of what it gives.
    """

    name: str
    needed: tuple[str, ...]
    before: Columns
    after: Columns


class MissingColumns(NamedTuple):
    """A stage that would fail over columns.

    Attributes:
        position: of the stage, from 0.
        message: the sentence.
        hint: what to do about it; empty where nothing is known.
    """

    position: int
    message: str
    hint: str


def trace_columns(stages: Iterable[tuple[str, Declaring]]) -> Iterator[ColumnStep]:
    """Follow the columns of a table through stages.

    Args:
        stages: name and stage, in order, the source first.
    """
    before = Columns()
    for name, stage in stages:
        if _declares(type(stage)):
            needed, after = tuple(stage.list_needed_columns()), stage.change_columns(before)
        else:
            needed, after = (), Columns(is_open=True)
        yield ColumnStep(name, needed, before, after)
        before = after


def _declares(stage_class: type[Declaring]) -> bool:
    """Return whether what a class declares is about what it does.

    A user's class may do its work otherwise than the one it is made from, and declare nothing.
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
    """Find the first stage that needs a column which is not there.

    The columns behind it can't be known, so it is the only one.

    Args:
        makers: the names of stages that add a column, by the column.
    """
    removers: dict[str, str] = {}
    for position, (name, needed, before, after) in enumerate(steps):
        missing = before.list_missing(needed)
        if missing:
            column = missing[0]
            message = (
                f"stage {name!r} reads {' and '.join(map(repr, missing))}, and the columns are: "
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
                removers.pop(column, None)
            elif not before.list_missing([column]) and after.list_missing([column]):
                removers[column] = name
    return None


def _advise(column: str, makers: Mapping[str, Sequence[str]]) -> str:
    """Advise what to put before a stage that misses a column."""
    found = makers.get(column, ())
    return f"{' or '.join(map(repr, found))} before it adds {column!r}" if found else ""
