"""The waiting work of one chain of stages, as data.

The item of a slot is opaque here: a task in one engine, a reference in the other.
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
    """One stage as it is shown.

    Attributes:
        waiting, running: tasks; those that are with a worker, under the stage that they went to.
    """

    name: str
    counts: StageCounts
    waiting: int
    running: int


@dataclass(slots=True)
class StageQueue:
    """The waiting work of one chain of stages; often it is a single one.

    Attributes:
        name: the chain's.
        batch_size: slots of a batch at most.
        waiting: slots; for a stage that joins groups, whole groups wait in `groups`.
        running: slots that are with a worker.
        counts: of the chain as a whole, as if it were one stage.
        grouped: slots in `groups`, which change by the methods here alone.
        stages: of the chain, in order; itself, where it is one stage.
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
        """Count a call, and each stage of it by itself."""
        self.counts.add(receipt.counts)
        for link, counts in receipt.links:
            self.stages[link].counts.add(counts)
        for tally in self.stages:
            tally.counts.uniform = None  # judged with its call

    def __len__(self) -> int:
        return len(self.waiting) + self.grouped

    def add_group(self, group: list[Slot], *, is_next: bool = False) -> None:
        """Queue a whole group, as the last one or as the next."""
        (self.groups.appendleft if is_next else self.groups.append)(group)
        self.grouped += len(group)

    def take_group(self) -> list[Slot]:
        """Return the next group, which waits no more."""
        group = self.groups.popleft()
        self.grouped -= len(group)
        return group

    def withdraw(self, sources: Collection[bytes]) -> None:
        """Drop what waits of sources."""
        self.waiting = deque(slot for slot in self.waiting if slot.source not in sources)
        self.groups = deque(group for group in self.groups if group[0].source not in sources)
        self.grouped = sum(map(len, self.groups))

    def change(self, change: Change) -> None:
        """Change every slot that waits."""
        self.waiting = deque(map(change, self.waiting))
        self.groups = deque([list(map(change, group)) for group in self.groups])
        if self.grouping is not None:
            self.grouping.change(change)

    def clear(self) -> None:
        """Drop all that waits."""
        self.waiting.clear()
        self.groups.clear()
        self.grouped = 0


def create_queue(chain: Chain) -> StageQueue:
    """Return the empty queue of a chain."""
    first = chain.stages[0]
    stages = [StageTally(stage.name, tolerates=stage.tolerates) for stage in chain.stages]
    grouping: Grouping[Slot] | None = Grouping(first.group) if first.group else None
    return StageQueue(chain.name, first.batch_size, grouping, stages=stages)
