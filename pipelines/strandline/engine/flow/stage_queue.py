"""The waiting work of one chain of stages, as data.

The data of a slot is opaque: a task in some engines, a reference in others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from strandline.engine.call.slots import Slot
from strandline.engine.call.stage.stage_tally import StageTally
from strandline.engine.flow.chains import Chain
from strandline.engine.flow.grouping import Grouping
from strandline.plan.receipt import Receipt, StageCounts

Change = Callable[[Slot], Slot]


class StageStanding(NamedTuple):
    """The state of one stage, for display.

    Attributes:
        waiting, running: numbers of tasks. A task that a worker is processing counts for the stage
            at which it
            entered the chain.
    """

    name: str
    counts: StageCounts
    waiting: int
    running: int


@dataclass(slots=True)
class StageQueue:
    """The waiting work of one chain of stages, often of a single stage.

    Attributes:
        name: the name of the chain.
        batch_size: maximum slots of a batch.
        waiting: waiting slots. For a stage that joins groups, complete groups wait in `groups`.
        running: number of slots that workers are processing.
        counts: counts of the whole chain, as if it were one stage.
        grouped: number of slots in `groups`. Change `groups` only through the methods here.
        stages: the stages of the chain, in order.
    """

    name: str
    batch_size: int
    grouping: Grouping[Slot] | None
    waiting: deque[Slot] = field(default_factory=deque)
    groups: deque[list[Slot]] = field(default_factory=deque)
    running: int = 0
    counts: StageCounts = field(default_factory=StageCounts)
    grouped: int = 0
    stages: list[StageTally] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stages = self.stages or [StageTally(self.name)]
        if len(self.stages) == 1:
            self.stages[0].counts = self.counts

    def add_counts(self, receipt: Receipt) -> None:
        """Add the counts of a call, for the chain and for each of its stages."""
        self.counts.add(receipt.counts)
        for link, counts in receipt.links:
            self.stages[link].counts.add(counts)
        for tally in self.stages:
            tally.counts.uniform = None  # checked once per call

    def __len__(self) -> int:
        return len(self.waiting) + self.grouped

    def add_group(self, group: list[Slot], *, is_next: bool = False) -> None:
        """Queue a complete group, at the end or at the front."""
        (self.groups.appendleft if is_next else self.groups.append)(group)
        self.grouped += len(group)

    def take_group(self) -> list[Slot]:
        """Remove and return the next group."""
        group = self.groups.popleft()
        self.grouped -= len(group)
        return group

    def withdraw(self, sources: Collection[bytes]) -> None:
        """Drop the waiting work of sources."""
        self.waiting = deque(slot for slot in self.waiting if slot.source not in sources)
        self.groups = deque(group for group in self.groups if group[0].source not in sources)
        self.grouped = sum(map(len, self.groups))

    def change(self, change: Change) -> None:
        """Apply a change to every waiting slot."""
        self.waiting = deque(map(change, self.waiting))
        self.groups = deque([list(map(change, group)) for group in self.groups])
        if self.grouping is not None:
            self.grouping.change(change)

    def clear(self) -> None:
        """Drop all waiting work."""
        self.waiting.clear()
        self.groups.clear()
        self.grouped = 0


def create_queue(chain: Chain) -> StageQueue:
    """Create the empty queue of a chain."""
    first = chain.stages[0]
    stages = [StageTally(stage.name, tolerates=stage.tolerates) for stage in chain.stages]
    grouping: Grouping[Slot] | None = Grouping(first.group) if first.group else None
    return StageQueue(chain.name, first.batch_size, grouping, stages=stages)
