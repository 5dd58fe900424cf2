"""Tasks, which move between stages, and marks that replace a result.

A task carries a table of rows or any other payload. The runtime sets the lineage of a task; stages
neither read nor write the lineage.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa


class Origin(NamedTuple):
    """Position of a task in a fan-out: the fan-out's parent, the slot, and the number of slots.

    The parent is the token of the task that fanned out; for a group, the token of the group's first
    remaining task. For a generator, the number of slots is unknown, so `of` is 0.
    """

    parent: bytes
    slot: int
    of: int


class Lineage(NamedTuple):
    """The source of a task, and the task's position in the source's tree.

    Attributes:
        source: 16-byte digest of the source's key.
        token: 16-byte token of this node of the source's tree.
        key: the source's key, for messages.
        origin: the nearest enclosing fan-out, or None before the first fan-out.
    """

    source: bytes
    token: bytes
    key: str
    origin: Origin | None = None


class Task:
    """A piece of work that belongs to one source.

    Args:
        data: a `pyarrow.Table` of rows, or any payload that can be pickled.
        meta: small metadata that travels with the data and can be pickled.
        lineage: set by the runtime.

    Attributes:
        data, meta, lineage: the arguments.
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
        """Key of the task's source; empty before the runtime has set the lineage."""
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
        """Number of rows of the table; 1 for any other payload."""
        return self.data.num_rows if isinstance(self.data, pa.Table) else 1

    def replace(self, data: Any) -> Task:  # noqa: ANN401 - the payload belongs to the user
        """Return a task with other data, and with the same `meta` and lineage."""
        return Task(data, self.meta, self.lineage)


def lineage_of(task: Task) -> Lineage:
    """Return the lineage of a task that the runtime has created or processed."""
    assert task.lineage is not None  # set by the runtime
    return task.lineage


class NoneTask:
    """Result for a task that is filtered out on purpose. Later stages receive no task."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NoneTask()"


class FailedTask:
    """Result for a task that can't be processed: the source fails, and a resumed run retries it.

    Args:
        msg: one sentence for the person on call; the ledger stores the sentence.

    Attributes:
        msg: the argument.
    """

    __slots__ = ("msg",)

    def __init__(self, msg: str) -> None:
        self.msg = msg

    def __repr__(self) -> str:
        return f"FailedTask({self.msg!r})"


class FailedRow:
    """A row of a task that can't be processed, in a list with the results of the other rows.

    Args:
        row: index in the task's table, from 0.
        msg: one sentence for the person on call.
        detail: text to keep with the dead letter, such as an invalid response of a model. Dead
            letters keep the first 4,000 characters.

    Attributes:
        row, msg, detail: the arguments.
    """

    __slots__ = ("detail", "msg", "row")

    def __init__(self, row: int, msg: str, detail: str = "") -> None:
        self.row = row
        self.msg = msg
        self.detail = detail

    def __repr__(self) -> str:
        return f"FailedRow({self.row}, {self.msg!r})"


class DeadLetters(NamedTuple):
    """Payload of a task that carries failed rows to the sink. No other stage processes the task.

    Attributes:
        stage: name of the stage in which the rows failed.
        table: the rows' columns as received by the stage, and an error for each row.
    """

    stage: str
    table: pa.Table


Slot = Task | NoneTask | FailedTask | FailedRow | None
"""Content of a slot in a stage's answer. None means the same as `NoneTask()`."""

Answer = Task | list[Slot] | list[Task] | list[Task | FailedRow] | Iterator[Slot] | None
"""Answer of a stage to one task."""


def returns_many(function: Callable[..., object]) -> bool:
    """Return whether a function's annotations allow several results for a task."""
    # `get_origin` returns `list` for `list[Task]`, but None for a plain `list`.
    kinds = (typing.get_origin(each) or each for each in _list_options(_find_answer(function)))
    return any(kind in {list, Iterator, Iterable, Generator} for kind in kinds)


def returns_lists(function: Callable[..., object]) -> bool:
    """Return whether a function's annotations allow several results for each task of a batch."""
    answer = _find_answer(function)
    slots = typing.get_args(answer) if _is_list(answer) else ()
    return any(_is_list(option) for slot in slots for option in _list_options(slot))


def _find_answer(function: Callable[..., object]) -> Any:  # noqa: ANN401 - a type of any kind
    try:
        return typing.get_type_hints(function).get("return")
    except NameError:  # an annotation names a type that is imported only for type checkers
        return None


def _list_options(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a type of any kind
    is_union = typing.get_origin(annotation) in {typing.Union, types.UnionType}
    return typing.get_args(annotation) if is_union else (annotation,)


def _is_list(annotation: Any) -> bool:  # noqa: ANN401 - a type of any kind
    return (typing.get_origin(annotation) or annotation) is list
