"""The queues between stages, as data.

A flow hands out batches and accepts receipts, but runs no stage. The flow does not depend on where
a stage runs, and the data of a slot is opaque: a task in some engines, a reference in others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from strandline.engine.call.slots import Slot
from strandline.engine.call.stage.metering import Meter
from strandline.engine.call.stage.receipts import find_gone
from strandline.engine.call.stage.stage_tally import StageBrokenError, StageTally
from strandline.engine.flow.chains import Chain, list_apart
from strandline.engine.flow.stage_queue import Change, StageQueue, StageStanding, create_queue
from strandline.engine.flow.suspects import SuspectBatch, Suspects
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Failure, Receipt, StageCounts

BROKEN_AFTER = 50
FAILURES_KEPT = 1000  # number of failures to keep with messages; the ledger, if any, keeps all


class Flow:
    """All queues of one attempt.

    Args:
        chains: the stages as they share workers; by default each stage has separate workers.

    Attributes:
        source: the name of the source stage.
        queues: the queues of the chains.
        failed: sources that have failed in this attempt.
        failures: explanations of the first failures.
        known_bad: sources that failed in an earlier attempt.
        fills_files: whether tasks wait at the sink until they fill a file. These tasks represent
            minutes of work, so they are written even if the run stops.
    """

    def __init__(self, plan: PipelinePlan, chains: Sequence[Chain] = ()) -> None:
        self.source = plan.source.name
        self.queues = [create_queue(chain) for chain in chains or list_apart(plan.stages)]
        self.failed: set[bytes] = set()
        self.failures: list[Failure] = []
        self.known_bad: set[bytes] = set()
        self.suspects = Suspects()
        self.is_stopped = False
        self.fills_files = plan.stages[-1].target_bytes is not None and len(self.queues) > 1
        self.meter = Meter()
        self._is_retrial = getattr(plan.stages[0].stage, "retries_rows", False)

    def enter(self, slots: Iterable[Slot], exposed: int = 0) -> None:
        """Queue root tasks of released sources. Hold back suspected sources (see `Suspects`)."""
        for slot in slots:
            if exposed:
                self._hold(SuspectBatch(0, [slot], exposed))
            else:
                self._push(0, slot)

    def release_suspects(self) -> None:
        """Queue the next suspects. Call only while nothing else waits or runs."""
        for stage, batch, _ in reversed(self.suspects.release(self.failed)):
            self._put_first(stage, batch)

    def next_batch(self, stage: int, most: int = 0, least: int = 0) -> list[Slot]:
        """Return the next batch of a stage, or an empty list if no batch can be handed out yet.

        A batch smaller than the stage's size is handed out only if earlier stages can't add tasks.

        Args:
            most: maximum slots per call; a number above the stage's size joins several batches.
            least: minimum number of waiting slots; with fewer slots, only suspects are handed out.
        """
        queue = self.queues[stage]
        self._drop_failed(queue)
        if queue.groups:
            batch = queue.take_group()
        elif queue.waiting and queue.waiting[0].is_suspect:
            batch = [queue.waiting.popleft()]  # alone, so that a death shows the culprit
        elif (
            queue.waiting
            and len(queue.waiting) >= least
            and (len(queue.waiting) >= queue.batch_size or not self.is_busy_above(stage))
        ):
            count = min(len(queue.waiting), max(queue.batch_size, most))
            batch = [queue.waiting.popleft()]
            link = batch[0].link
            while len(batch) < count and _may_follow(queue.waiting[0], link):
                batch.append(queue.waiting.popleft())
        else:
            return []
        queue.running += len(batch)
        return batch

    def has_suspects(self, stage: int) -> bool:
        """Return whether the next batch consists of suspects, which require an idle worker."""
        queue = self.queues[stage]
        self._drop_failed(queue)
        if queue.groups:
            return queue.groups[0][0].is_suspect
        return bool(queue.waiting) and queue.waiting[0].is_suspect

    def look_ahead(self, stage: int) -> tuple[int, int]:
        """Return the number of waiting slots, and the index of the stage the next one enters."""
        queue = self.queues[stage]
        return len(queue), queue.waiting[0].link if queue.waiting else 0

    def refuse_uniform(self, stage: int, receipt: Receipt, *, fails_source: bool = False) -> None:
        """Reject a task whose rows all failed for one reason before the stage has passed any row.

        Call this method before the ledger records the failures.

        Raises:
            StageBrokenError: if no row has passed before.
        """
        for link, counts in () if self._is_retrial else receipt.links or ((0, receipt.counts),):
            tally, uniform = self.queues[stage].stages[link], counts.uniform
            if uniform is not None and uniform.fails_source is fails_source:
                tally.check_uniform(counts, self.known_bad)

    def complete(
        self,
        stage: int,
        batch: list[Slot],
        receipt: Receipt,
        block: Any,  # noqa: ANN401
        opened: Slot | None = None,
    ) -> None:
        """Accept a call's receipt: queue the emitted tasks and forget the settled tasks.

        Args:
            opened: the call's task whose result is incomplete, if any. The worker keeps this task
                and the tasks after it.

        Raises:
            StageBrokenError: if the stage failed all of its first tasks. Sources that failed in an
                earlier attempt do not count: they prove nothing new about the stage, and would
                    block
                the sources listed after them in every attempt.
        """
        queue = self.queues[stage]
        queue.running -= len(batch)
        queue.add_counts(receipt)
        self.fail(receipt.failures)
        self._queue_emitted(stage, batch if opened is None else [*batch, opened], receipt, block)
        if any(later.grouping is not None for later in self.queues[stage + 1 :]):
            self._settle_origins(stage, batch, receipt)
        self.refuse_uniform(stage, receipt, fails_source=True)
        for tally in queue.stages:
            _check_broken(tally, receipt.failures, self.known_bad)

    def _queue_emitted(self, stage: int, parents: list[Slot], receipt: Receipt, block: Any) -> None:  # noqa: ANN401
        """Queue emitted tasks for the next chain, or for a later stage of this chain."""
        by_source, given_back = {slot.source: slot for slot in parents}, []
        for position, source, token, origin, link in receipt.emitted:
            parent = by_source[source]
            root = parent.root or parent
            slot = Slot(source, parent.key, token, origin, block, position, root=root, link=link)
            if link:
                # Keep the suspicion: a worker may have died in this stage or in a later stage.
                given_back.append(slot._replace(is_suspect=parent.is_suspect, deaths=parent.deaths))
            elif stage + 1 < len(self.queues):
                self._push(stage + 1, slot)
        # Put tasks that have started first; otherwise they would wait for all tasks that have not.
        if not self.is_stopped:
            self.queues[stage].waiting.extendleft(reversed(given_back))

    def requeue(
        self, stage: int, batch: list[Slot], exposed: int, *, holds: bool, most_deaths: int
    ) -> list[Slot]:
        """Requeue the work of a lost call.

        Args:
            exposed: number of sources that may have ended the worker. 0 means that no source did, 1
                that this batch's source did.
            holds: if True, retry when no other work is left; otherwise retry first and alone.
            most_deaths: if a slot has this many deaths, the batch is returned instead of queued.
        """
        self.queues[stage].running -= len(batch)
        if exposed:
            batch = [
                slot._replace(deaths=slot.deaths + (exposed == 1), is_suspect=True)
                for slot in batch
            ]
        # The caller fails the source; otherwise the task would keep ending workers.
        if any(slot.deaths >= most_deaths for slot in batch):
            return batch
        if self.is_stopped:
            return []
        if exposed and holds:
            units = [batch] if self._is_group(stage, batch) else [[slot] for slot in batch]
            for unit in units:
                self._hold(SuspectBatch(stage, unit, exposed))
        else:
            self._put_first(stage, batch)
        return []

    def put_back(self, stage: int, batch: list[Slot]) -> None:
        """Put work that no worker is processing at the front of the queue."""
        if batch and not self.is_stopped:
            self._put_first(stage, batch)

    def change(self, change: Change) -> None:
        """Apply a change to every slot that no worker is processing."""
        for queue in self.queues:
            queue.change(change)
        self.suspects.change(change)

    def take_apart(self, stage: int, batch: list[Slot]) -> None:
        """Requeue a call's tasks to run one by one, because one of the tasks can't be processed."""
        self.queues[stage].running -= len(batch)
        if not self.is_stopped:
            self._put_first(stage, [slot._replace(is_suspect=True) for slot in batch])

    def withdraw(self, sources: Collection[bytes]) -> None:
        """Drop the waiting work of sources. Calls that workers are processing continue.

        Each call of this method scans all queues, so pass all sources that are lost together.
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
                if len(self.failures) < FAILURES_KEPT:
                    self.failures.append(failure)
                self._forget_groups(failure.source)
            self.meter.forget(failure.source)

    def stop(self) -> None:
        """Drop waiting work, except work that fills a file.

        Calls that workers are processing may finish.
        """
        self.is_stopped = True
        for queue in self.queues[:-1] if self.fills_files else self.queues:
            queue.clear()
        self.suspects.clear()

    def is_idle(self) -> bool:
        """Return whether nothing waits or runs. Suspects may still be held back."""
        return not any(queue.running or queue.waiting or queue.groups for queue in self.queues)

    def _push(self, stage: int, slot: Slot) -> None:
        is_kept = self.fills_files and stage + 1 == len(self.queues)
        if (self.is_stopped and not is_kept) or slot.source in self.failed:
            return
        queue = self.queues[stage]
        if queue.grouping is None:
            queue.waiting.append(slot)
        else:
            self._release(queue, queue.grouping.arrive(slot.origin, slot, slot.source))

    def _hold(self, held: SuspectBatch) -> None:
        if not self.is_stopped:
            self.suspects.hold(held)

    def _put_first(self, stage: int, batch: list[Slot]) -> None:
        queue = self.queues[stage]
        if self._is_group(stage, batch):
            queue.add_group(batch, is_next=True)
        else:
            queue.waiting.extendleft(reversed(batch))

    def _is_group(self, stage: int, batch: list[Slot]) -> bool:
        """Return whether a batch is a joined group, not work for a later stage of the chain."""
        is_joined = self.queues[stage].grouping is not None
        return is_joined and bool(batch) and not batch[0].link

    def _settle_origins(self, stage: int, batch: list[Slot], receipt: Receipt) -> None:
        """Notify the groups of later stages about slots that will never arrive.

        The groups of failed sources were dropped, and must not be created again.
        """
        # Use the worker's list for a chain: only the worker sees tasks that are created and settled
        # within the chain.
        gone = receipt.gone if receipt.links else find_gone(batch, receipt.emitted)
        gone = [slot for slot in gone if slot[1] not in self.failed]
        for queue in self.queues[stage + 1 :]:
            if queue.grouping is not None:
                for origin, source in gone:
                    self._release(queue, queue.grouping.vanish(origin, source))

    def _release(self, queue: StageQueue, group: list[Slot] | None) -> None:
        if group and not self.is_stopped:
            queue.add_group(group)

    def is_busy_above(self, stage: int) -> bool:
        """Return whether earlier stages may still emit tasks for a stage."""
        above = self.queues[:stage]
        return any(queue.running or queue.waiting or queue.groups for queue in above)

    def _drop_failed(self, queue: StageQueue) -> None:
        if not self.failed:
            return
        while queue.waiting and queue.waiting[0].source in self.failed:
            queue.waiting.popleft()
        while queue.groups and queue.groups[0][0].source in self.failed:
            queue.take_group()

    def list_stages(self) -> Iterator[StageStanding]:
        """Yield the state of each stage, in order."""
        for queue in self.queues:
            waiting = Counter(slot.link for slot in queue.waiting)
            for link, tally in enumerate(queue.stages):
                grouped, running = (0, 0) if link else (queue.grouped, queue.running)
                yield StageStanding(tally.name, tally.counts, waiting[link] + grouped, running)

    @property
    def counts(self) -> dict[str, StageCounts]:
        """The counts of each stage, by name, in order."""
        return {tally.name: tally.counts for queue in self.queues for tally in queue.stages}

    def find_slowest(self, chain: str) -> str:
        """Return the stage of a chain that takes the most time."""
        stages = next(queue.stages for queue in self.queues if queue.name == chain)
        return max(stages, key=lambda tally: tally.counts.seconds).name


def _may_follow(slot: Slot, link: int) -> bool:
    """Return whether a slot may join a batch that enters the chain at this stage."""
    return slot.link == link and not slot.is_suspect


def _check_broken(
    tally: StageTally, failures: tuple[Failure, ...], known_bad: Collection[bytes]
) -> None:
    counts = tally.counts
    is_silent = not counts.tasks_out + counts.filtered and counts.tasks_in >= BROKEN_AFTER
    if is_silent and counts.dead + counts.dropped:  # else all data would become dead letters
        raise StageBrokenError(f"stage {tally.name!r} failed all rows of {counts.tasks_in} tasks")
    own = [failure for failure in failures if failure.stage == tally.name]
    if not own:
        return
    tally.expected += sum(failure.source in known_bad for failure in own)
    new_failures = counts.failed - tally.expected
    if new_failures >= BROKEN_AFTER and not counts.tasks_out + counts.filtered:
        msg = (
            f"stage {tally.name!r} failed each of its first {counts.failed} tasks; "
            f"the last one with {own[-1].message}"
        )
        raise StageBrokenError(msg)
