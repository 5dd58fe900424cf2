"""The unit of work that moves between stages, and the two marks a stage may answer with instead.

A task carries a table of rows or any payload of the user's. Its lineage is set by the runtime;
stages neither read nor write it.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa


class Origin(NamedTuple):
    """Where in a fan-out a task stands: what fanned out, its slot, and of how many.

    What fanned out is called by its token; a group by that of the first of it that was left. Of a
    generator it is not known how many slots there will be: 0.
    """

    parent: bytes
    slot: int
    of: int


class Lineage(NamedTuple):
    """The source of a task, and its place in the source's tree.

    Attributes:
        source: 16-byte digest of the source's key.
        token: 16-byte token of this node of the source's tree.
        key: the source's key, for messages.
        origin: the nearest fan-out, None above the first one.
    """

    source: bytes
    token: bytes
    key: str
    origin: Origin | None = None


class Task:
    """Carry a piece of work that comes of one source.

    Args:
        data: a `pyarrow.Table` of rows, or any payload that can be pickled.
        meta: small facts that travel with the data and can be pickled.
        lineage: set by the runtime.

    Attributes:
        data, meta, lineage: as given.
    """

    __slots__ = ("data", "lineage", "meta")

    def __init__(
        self,
        data: Any = None,  # noqa: ANN401 - the payload belongs to the user
        meta: dict[str, Any] | None = None,
        lineage: Lineage | None = None,
    ) -> None:
        self.data = data
        self.meta = meta
        self.lineage = lineage

    def __reduce__(self) -> tuple[type[Task], tuple[Any, ...]]:
        return Task, (self.data, self.meta, self.lineage)

    def __repr__(self) -> str:
        return f"Task(key={self.key!r}, rows={self.num_rows})"

    @property
    def key(self) -> str:
        """The key of the source this task comes from; empty before the runtime has set it."""
        return self.lineage.key if self.lineage else ""

    @property
    def table(self) -> pa.Table:
        """The data as a `pyarrow.Table`.

        Raises:
            TypeError: the task carries something else.
        """
        if not isinstance(self.data, pa.Table):
            kind = type(self.data).__name__
            msg = f"this task carries {kind}, not a table of rows"
            raise TypeError(msg)
        return self.data

    @property
    def num_rows(self) -> int:
        """Rows of the table; 1 for any other payload."""
        return self.data.num_rows if isinstance(self.data, pa.Table) else 1

    def replace(self, data: Any) -> Task:  # noqa: ANN401 - the payload belongs to the user
        """Make the same task with other data; `meta` and the lineage come along."""
        return Task(data, self.meta, self.lineage)


def lineage_of(task: Task) -> Lineage:
    """Return the lineage of a task that the runtime has handed out or taken."""
    assert task.lineage is not None  # the runtime sets it
    return task.lineage


class NoneTask:
    """Answer for a task that is filtered out on purpose: nothing follows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NoneTask()"


class FailedTask:
    """Answer for a task that can't be worked on: its source fails and is tried again on resume.

    Args:
        msg: one sentence for the person on call, as the ledger keeps it.

    Attributes:
        msg: as given.
    """

    __slots__ = ("msg",)

    def __init__(self, msg: str) -> None:
        self.msg = msg

    def __repr__(self) -> str:
        return f"FailedTask({self.msg!r})"


class FailedRow:
    """One row of a task that can't be worked on; beside the answer for its other rows, in a list.

    Args:
        row: its position in the task's table, from 0.
        msg: one sentence for the person on call.
        detail: text to keep with the dead letter, such as the bad answer of a model. Dead letters
            hold its first 4,000 characters.

    Attributes:
        row, msg, detail: as given.
    """

    __slots__ = ("detail", "msg", "row")

    def __init__(self, row: int, msg: str, detail: str = "") -> None:
        self.row = row
        self.msg = msg
        self.detail = detail

    def __repr__(self) -> str:
        return f"FailedRow({self.row}, {self.msg!r})"


class DeadLetters(NamedTuple):
    """The payload of a task that no stage works on any more: rows that failed, for the sink.

    Attributes:
        stage: the name of the stage in which they failed.
        table: their columns as they came in, and what went wrong with each.
    """

    stage: str
    table: pa.Table


Slot = Task | NoneTask | FailedTask | FailedRow | None
"""What one slot of a stage's answer may hold; None means the same as `NoneTask()`."""

Answer = Task | list[Slot] | list[Task] | list[Task | FailedRow] | Iterator[Slot] | None
"""What a stage may make of one task."""


def returns_many(function: Callable[..., object]) -> bool:
    """Return whether a function says that it may answer a task with several."""
    kinds = (typing.get_origin(each) or each for each in _list_options(_find_answer(function)))
    return any(kind in {list, Iterator, Iterable, Generator} for kind in kinds)


def returns_lists(function: Callable[..., object]) -> bool:
    """Return whether a function says that it may answer each of a batch's tasks with several."""
    answer = _find_answer(function)
    slots = typing.get_args(answer) if _is_list(answer) else ()
    return any(_is_list(option) for slot in slots for option in _list_options(slot))


def _find_answer(function: Callable[..., object]) -> Any:  # noqa: ANN401 - a type of any kind
    try:
        return typing.get_type_hints(function).get("return")
    except NameError:  # a name imported for type checkers only: nothing can be told from it
        return None


def _list_options(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type of any kind
    is_union = typing.get_origin(annotation) in {typing.Union, types.UnionType}
    return typing.get_args(annotation) if is_union else (annotation,)


def _is_list(annotation: Any) -> bool:  # noqa: ANN401 - a type of any kind
    return (typing.get_origin(annotation) or annotation) is list
