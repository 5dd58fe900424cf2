"""A task in the form that queues use: its lineage, and the location of its data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from strandline.plan.task import Origin

# Index of the stage in the chain at which a call begins, and whether the call ends with that stage.
Entry = tuple[int, bool]
WHOLE: Entry = (0, False)


class Slot(NamedTuple):
    """A task that waits for a stage, or that a worker is processing.

    Attributes:
        source, key, token, origin: lineage of the task.
        block: holder of the task's data, possibly shared with other tasks.
        position: index of the task in the block.
        deaths: number of workers that died while they had no other source.
        is_suspect: whether a worker died while it had the task. A suspect task is sent alone.
        root: the slot of the source's root task; None if this is the root task.
        handed: for a stage that streams, how many slots of its output were already passed on.
        link: in a chain, the index of the stage that the task enters.
    """

    source: bytes
    key: str
    token: bytes
    origin: Origin | None
    block: Any
    position: int
    deaths: int = 0
    is_suspect: bool = False
    root: Slot | None = None
    handed: int = 0
    link: int = 0


def describe_keys(keys: Iterable[str]) -> str:
    """Describe sources for a message: the first key, and the number of further keys."""
    first, *others = dict.fromkeys(keys) or [""]
    return f"{first} and {len(others)} more" if others else first


def split_opened(batch: list[Slot], token: bytes, handed: int) -> tuple[list[Slot], list[Slot]]:
    """Split the batch of a paused call into finished slots and remaining slots.

    Args:
        token: token of the task with which the call continues: the first remaining slot.
        handed: number of slots of this task's output that were already passed on.
    """
    index = next(index for index, slot in enumerate(batch) if slot.token == token)
    return batch[:index], [batch[index]._replace(handed=handed), *batch[index + 1 :]]
