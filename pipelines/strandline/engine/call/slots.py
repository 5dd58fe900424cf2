"""A task as the queues see it: its lineage, and where its data is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from strandline.plan.task import Origin

# The stage of a chain that a call begins with, by its number, and whether it ends with it.
Entry = tuple[int, bool]
WHOLE: Entry = (0, False)


class Slot(NamedTuple):
    """A task that waits for a stage, or is with one.

    Attributes:
        source, key, token, origin: its lineage.
        block: what holds its data (with others').
        position: of its task in the block.
        deaths: workers that died while they had it and no other source.
        is_suspect: a worker died while it had it, so it goes without others.
        root: the slot of its source's root task; None where it is that one itself.
        handed: slots of its answer that have travelled on, of a stage that streams.
        link: in a chain, the number of the stage that it waits for.
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
    """Return sources in words: the first one, and how many more there are."""
    first, *others = dict.fromkeys(keys) or [""]
    return f"{first} and {len(others)} more" if others else first


def split_opened(batch: list[Slot], token: bytes, handed: int) -> tuple[list[Slot], list[Slot]]:
    """Split a call's batch where its answer goes on: slots that are over, and those that are not.

    Args:
        token, handed: of the task that the next part begins with; it is the first of the rest.
    """
    index = next(index for index, slot in enumerate(batch) if slot.token == token)
    return batch[:index], [batch[index]._replace(handed=handed), *batch[index + 1 :]]
