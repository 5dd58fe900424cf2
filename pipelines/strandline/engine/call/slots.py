"""A task as the queues see it: its lineage, and where its data is."""

from __future__ import annotations

from typing import Any, NamedTuple

from strandline.plan.task import Origin


class Slot(NamedTuple):
    """A task that waits for a stage, or is with one.

    Attributes:
        source, key, token, origin: its lineage.
        block: what holds its data (with others').
        place: of its task in the block.
        deaths: workers that died while they had it and no other source.
        is_suspect: a worker died while it had it, so it goes without others.
        root: the slot of its source's root task; None where it is that one itself.
    """

    source: bytes
    key: str
    token: bytes
    origin: Origin | None
    block: Any
    place: int
    deaths: int = 0
    is_suspect: bool = False
    root: Slot | None = None
