"""What waits where: the queues between stages, as data.

A flow hands out batches and takes receipts; it neither runs a stage nor knows where one runs. The
item of a slot is opaque here: a task in one engine, a reference in the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from strandline.engine.call.metering import Meter
from strandline.engine.call.slots import Slot
from strandline.engine.core.grouping import Grouping
from strandline.engine.core.suspects import Held, Suspects
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Counts, Failure, Receipt
from strandline.plan.task import Origin

BROKEN_AFTER = 50


class StageBrokenError(StrandlineError):
    """A stage failed every task it has seen; going on would fail them all."""


@dataclass(slots=True)
class StageQueue:
    """One stage's waiting work.

    Attributes:
        name: the stage's.
        batch_size: slots of a batch at most.
        waiting: slots; for a stage that joins groups, whole groups wait in `groups`.
        running: slots that are with a worker.
        expected: failures of sources that have failed before.
        grouped: slots in `groups`, which change by the methods here alone.
    """

    name: str
    batch_size: int
    grouping: Grouping[Slot] | None
    waiting: deque[Slot] = field(default_factory=deque)
    groups: deque[list[Slot]] = field(default_factory=deque)
    running: int = 0
    expected: int = 0
    counts: Counts = field(default_factory=Counts)
    grouped: int = 0

    def __len__(self) -> int:
        return len(self.waiting) + self.grouped

    def add_group(self, group: list[Slot], *, is_next: bool = False) -> None:
        """Queue a whole group, as the last one or as the next."""
        (self.groups.appendleft if is_next else self.groups.append)(group)
        self.grouped += len(group)

    def take_group(self) -> list[Slot]:
        """The next group, which waits no more."""
        group = self.groups.popleft()
        self.grouped -= len(group)
        return group

    def withdraw(self, sources: Collection[bytes]) -> None:
        """Drop what waits of sources."""
        self.waiting = deque(slot for slot in self.waiting if slot.source not in sources)
        self.groups = deque(group for group in self.groups if group[0].source not in sources)
        self.grouped = sum(map(len, self.groups))

    def clear(self) -> None:
        """Drop all that waits."""
        self.waiting.clear()
        self.groups.clear()
        self.grouped = 0


class Flow:
    """All queues of one attempt.

    Attributes:
        source: the name of the stage that lists.
        failed: sources that have failed in this attempt.
        known_bad: sources that failed in an attempt before.
    """

    def __init__(self, plan: PipelinePlan) -> None:
        self.source = plan.source.name
        self.queues = [
            StageQueue(stage.name, stage.batch_size, Grouping(stage.group) if stage.group else None)
            for stage in plan.stages
        ]
        self.failed: set[bytes] = set()
        self.known_bad: set[bytes] = set()
        self.suspects = Suspects()
        self.is_stopped = False
        self.meter = Meter()

    def enter(self, slots: Iterable[Slot], crowd: int = 0) -> None:
        """Queue root tasks of released sources; suspected ones (see `Suspects`) are held back."""
        for slot in slots:
            if crowd:
                self._hold(Held(0, [slot], crowd))
            else:
                self._push(0, slot)

    def release_suspects(self) -> None:
        """Queue the next suspects; only to be called while nothing else waits or runs."""
        for stage, batch, _ in reversed(self.suspects.release(self.failed)):
            self._put_first(stage, batch)

    def next_batch(self, stage: int, most: int = 0) -> list[Slot]:
        """The next batch of a stage; empty where none is due.

        A batch smaller than the stage's size is handed out only while nothing upstream could fill
        it.

        Args:
            most: slots that are handed out at once; where it is more than the stage's size, several
                batches are.
        """
        queue = self.queues[stage]
        self._drop_failed(queue)
        if queue.groups:
            batch = queue.take_group()
        elif queue.waiting and queue.waiting[0].is_suspect:
            batch = [queue.waiting.popleft()]  # alone, so that only the culprit dies again
        elif len(queue.waiting) >= queue.batch_size or self._is_quiet_above(stage):
            count = min(len(queue.waiting), max(queue.batch_size, most))
            batch = [queue.waiting.popleft()]
            while len(batch) < count and not queue.waiting[0].is_suspect:
                batch.append(queue.waiting.popleft())
        else:
            return []
        queue.running += len(batch)
        return batch

    def has_suspects(self, stage: int) -> bool:
        """True where the next batch is of suspects, which go to a worker that has nothing else."""
        queue = self.queues[stage]
        self._drop_failed(queue)
        if queue.groups:
            return queue.groups[0][0].is_suspect
        return bool(queue.waiting) and queue.waiting[0].is_suspect

    def complete(self, stage: int, batch: list[Slot], receipt: Receipt, block: Any) -> None:  # noqa: ANN401
        """Take a call's receipt: queue what it emitted, forget what it settled.

        Raises:
            StageBrokenError: the stage has failed all of its first tasks. Those of sources that
                failed in an attempt before are not counted: they say nothing new of it, and would
                hide what is listed behind them for ever.
        """
        queue = self.queues[stage]
        queue.running -= len(batch)
        queue.counts.add(receipt.counts)
        self.fail(receipt.failures)
        parents = {slot.source: slot for slot in batch}
        if stage + 1 < len(self.queues):
            for place, source, token, origin in receipt.emitted:
                key, root = parents[source].key, parents[source].root or parents[source]
                slot = Slot(source, key, token, origin, block, place, root=root)
                self._push(stage + 1, slot)
        if any(later.grouping is not None for later in self.queues[stage + 1 :]):
            self._settle_origins(stage, batch, receipt)
        self._check_broken(queue, receipt.failures)

    def requeue(
        self, stage: int, batch: list[Slot], crowd: int, *, holds: bool, most_deaths: int
    ) -> list[Slot]:
        """Queue a lost call's work again.

        Args:
            crowd: sources of which one may have ended the worker; 0: none of them has, 1: it was
                the one that this batch is of.
            holds: try the work when nothing else is left, instead of first and by itself.
            most_deaths: slots that have seen so many are returned instead of queued.
        """
        self.queues[stage].running -= len(batch)
        if crowd:
            batch = [
                slot._replace(deaths=slot.deaths + (crowd == 1), is_suspect=True) for slot in batch
            ]
        if any(slot.deaths >= most_deaths for slot in batch):
            return batch
        if self.is_stopped:
            return []
        if crowd and holds:
            units = (
                [batch] if self.queues[stage].grouping is not None else [[slot] for slot in batch]
            )
            for unit in units:
                self._hold(Held(stage, unit, crowd))
        else:
            self._put_first(stage, batch)
        return []

    def take_apart(self, stage: int, batch: list[Slot]) -> None:
        """Queue a call's work again, task by task, since one of them can't be worked on."""
        self.queues[stage].running -= len(batch)
        if not self.is_stopped:
            self._put_first(stage, [slot._replace(is_suspect=True) for slot in batch])

    def withdraw(self, sources: Collection[bytes]) -> None:
        """Drop whatever waits of sources; what is with workers goes on.

        All that waits is looked through, so those that are lost together are to come together.
        """
        for queue in self.queues:
            queue.withdraw(sources)
        self.suspects.drop(sources)
        for source in sources:
            self._forget_groups(source)
            self.meter.forget(source)

    def _forget_groups(self, source: bytes) -> None:
        for queue in self.queues:
            if queue.grouping is not None:
                queue.grouping.drop(source)

    def fail(self, failures: Iterable[Failure]) -> None:
        """Stop working on failed sources."""
        for failure in failures:
            if failure.source not in self.failed:
                self.failed.add(failure.source)
                self._forget_groups(failure.source)
            self.meter.forget(failure.source)

    def stop(self) -> None:
        """Drop what waits; what is with workers may finish."""
        self.is_stopped = True
        for queue in self.queues:
            queue.clear()
        self.suspects.clear()

    def is_idle(self) -> bool:
        """True where nothing waits and nothing runs; suspects may still be held back."""
        return not any(queue.running or queue.waiting or queue.groups for queue in self.queues)

    def _push(self, stage: int, slot: Slot) -> None:
        if self.is_stopped or slot.source in self.failed:
            return
        queue = self.queues[stage]
        if queue.grouping is None:
            queue.waiting.append(slot)
        else:
            self._release(queue, queue.grouping.arrive(slot.origin, slot, slot.source))

    def _hold(self, held: Held) -> None:
        if not self.is_stopped:
            self.suspects.hold(held)

    def _put_first(self, stage: int, batch: list[Slot]) -> None:
        queue = self.queues[stage]
        if queue.grouping is None:
            queue.waiting.extendleft(reversed(batch))
        else:
            queue.add_group(batch, is_next=True)

    def _settle_origins(self, stage: int, batch: list[Slot], receipt: Receipt) -> None:
        """Tell the groups downstream which slots will never reach them.

        The groups of failed sources are forgotten, and must not be begun anew.
        """
        batch = [slot for slot in batch if slot.source not in self.failed]
        emitted = {origin for _, _, _, origin in receipt.emitted if origin}
        gone = [
            (slot.origin, slot.source)
            for slot in batch
            if slot.origin and slot.origin not in emitted
        ]
        owners = {slot.token: slot.source for slot in batch}
        for parent, of in {(origin.parent, origin.of) for origin in emitted}:
            if parent in owners:  # a fan-out of this very call: some of its slots may be empty
                slots = (Origin(parent, slot, of) for slot in range(of))
                gone += [(origin, owners[parent]) for origin in slots if origin not in emitted]
        for queue in self.queues[stage + 1 :]:
            if queue.grouping is not None:
                for origin, source in gone:
                    self._release(queue, queue.grouping.vanish(origin, source))

    def _release(self, queue: StageQueue, group: list[Slot] | None) -> None:
        if group and not self.is_stopped:
            queue.add_group(group)

    def _is_quiet_above(self, stage: int) -> bool:
        above = self.queues[:stage]
        if any(queue.running or queue.waiting or queue.groups for queue in above):
            return False
        return bool(self.queues[stage].waiting)

    def _drop_failed(self, queue: StageQueue) -> None:
        if not self.failed:
            return
        while queue.waiting and queue.waiting[0].source in self.failed:
            queue.waiting.popleft()
        while queue.groups and queue.groups[0][0].source in self.failed:
            queue.take_group()

    def _check_broken(self, queue: StageQueue, failures: tuple[Failure, ...]) -> None:
        counts = queue.counts
        queue.expected += sum(failure.source in self.known_bad for failure in failures)
        news = counts.failed - queue.expected
        if failures and news >= BROKEN_AFTER and not counts.tasks_out + counts.filtered:
            msg = (
                f"stage {queue.name!r} failed each of its first {counts.failed} tasks; "
                f"the last one with {failures[-1].message}"
            )
            raise StageBrokenError(msg)

    def list_waiting(self) -> Iterator[tuple[str, int, int]]:
        """Each stage's name, waiting and running slots."""
        for queue in self.queues:
            yield queue.name, len(queue), queue.running
