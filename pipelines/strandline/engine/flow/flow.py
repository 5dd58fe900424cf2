"""What waits where: the queues between stages, as data.

A flow hands out batches and takes receipts; it neither runs a stage nor knows where one runs. The
item of a slot is opaque here: a task in one engine, a reference in the other.
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
FAILURES_KEPT = 1000  # with their messages; the ledger, where there is one, has all


class Flow:
    """All queues of one attempt.

    Args:
        chains: its stages as they run in workers; each by itself where none are given.

    Attributes:
        source: the name of the stage that lists.
        queues: of the chains.
        failed: sources that have failed in this attempt.
        failures: why the first of them did.
        known_bad: sources that failed in an attempt before.
        fills_files: what waits for the sink waits to fill a file, and is written where all else
            stops: the work of minutes is in it.
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
        """Queue root tasks of released sources; suspected ones (see `Suspects`) are held back."""
        for slot in slots:
            if exposed:
                self._hold(SuspectBatch(0, [slot], exposed))
            else:
                self._push(0, slot)

    def release_suspects(self) -> None:
        """Queue the next suspects; only to be called while nothing else waits or runs."""
        for stage, batch, _ in reversed(self.suspects.release(self.failed)):
            self._put_first(stage, batch)

    def next_batch(self, stage: int, most: int = 0, least: int = 0) -> list[Slot]:
        """Return the next batch of a stage; empty where none is due.

        A batch smaller than the stage's size is handed out only while nothing upstream could fill
        it.

        Args:
            most: slots that are handed out at once; where it is more than the stage's size, several
                batches are.
            least: slots that must wait, or none is handed out but suspects.
        """
        queue = self.queues[stage]
        self._drop_failed(queue)
        if queue.groups:
            batch = queue.take_group()
        elif queue.waiting and queue.waiting[0].is_suspect:
            batch = [queue.waiting.popleft()]  # alone, so that only the culprit dies again
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
        """Return whether the next batch is of suspects, which go to an idle worker."""
        queue = self.queues[stage]
        self._drop_failed(queue)
        if queue.groups:
            return queue.groups[0][0].is_suspect
        return bool(queue.waiting) and queue.waiting[0].is_suspect

    def look_ahead(self, stage: int) -> tuple[int, int]:
        """Return how many slots wait, and which stage of the chain the next of them waits for."""
        queue = self.queues[stage]
        return len(queue), queue.waiting[0].link if queue.waiting else 0

    def refuse_uniform(self, stage: int, receipt: Receipt, *, fails_source: bool = False) -> None:
        """Refuse the rows of a first task, all dead for one reason, before the ledger has them.

        Raises:
            StageBrokenError: no row has passed before.
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
        """Take a call's receipt: queue what it emitted, forget what it settled.

        Args:
            opened: the task of the call with an answer that goes on, where one does; it stays with
                its worker, and so does what comes after it.

        Raises:
            StageBrokenError: the stage has failed all of its first tasks. Those of sources that
                failed in an attempt before are not counted: they say nothing new of it, and would
                hide what is listed behind them for ever.
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
        """Queue what came of a call: for the next chain, or for a later stage of this one."""
        by_source, given_back = {slot.source: slot for slot in parents}, []
        for position, source, token, origin, link in receipt.emitted:
            parent = by_source[source]
            root = parent.root or parent
            slot = Slot(source, parent.key, token, origin, block, position, root=root, link=link)
            if link:
                # Whether its worker died of this stage or of a later one is not known yet.
                given_back.append(slot._replace(is_suspect=parent.is_suspect, deaths=parent.deaths))
            elif stage + 1 < len(self.queues):
                self._push(stage + 1, slot)
        # First in line, or what is begun would wait for all that is not.
        if not self.is_stopped:
            self.queues[stage].waiting.extendleft(reversed(given_back))

    def requeue(
        self, stage: int, batch: list[Slot], exposed: int, *, holds: bool, most_deaths: int
    ) -> list[Slot]:
        """Queue a lost call's work again.

        Args:
            exposed: sources of which one may have ended the worker; 0: none of them has, 1: it was
                the one that this batch is of.
            holds: try the work when nothing else is left, instead of first and by itself.
            most_deaths: slots that have seen so many are returned instead of queued.
        """
        self.queues[stage].running -= len(batch)
        if exposed:
            batch = [
                slot._replace(deaths=slot.deaths + (exposed == 1), is_suspect=True)
                for slot in batch
            ]
        # Tried on and on, such a task would end workers for ever: the caller fails its source.
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
        """Queue work again that no worker has, first in line."""
        if batch and not self.is_stopped:
            self._put_first(stage, batch)

    def change(self, change: Change) -> None:
        """Change every slot that no worker has."""
        for queue in self.queues:
            queue.change(change)
        self.suspects.change(change)

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
                if len(self.failures) < FAILURES_KEPT:
                    self.failures.append(failure)
                self._forget_groups(failure.source)
            self.meter.forget(failure.source)

    def stop(self) -> None:
        """Drop what waits, but to fill a file; what is with workers may finish."""
        self.is_stopped = True
        for queue in self.queues[:-1] if self.fills_files else self.queues:
            queue.clear()
        self.suspects.clear()

    def is_idle(self) -> bool:
        """Return whether nothing waits and nothing runs; suspects may still be held back."""
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
        """Return whether a batch is joined; what waits for a later stage of the chain is not."""
        is_joined = self.queues[stage].grouping is not None
        return is_joined and bool(batch) and not batch[0].link

    def _settle_origins(self, stage: int, batch: list[Slot], receipt: Receipt) -> None:
        """Tell the groups downstream which slots will never reach them.

        The groups of failed sources are forgotten, and must not be begun anew.
        """
        # Tasks that came and went within a chain are known by its worker alone.
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
        """Return whether more may come to a stage from those above it."""
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
        """Yield how each stage stands, in order."""
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
        """Return the stage of a chain that takes most of its time."""
        stages = next(queue.stages for queue in self.queues if queue.name == chain)
        return max(stages, key=lambda tally: tally.counts.seconds).name


def _may_follow(slot: Slot, link: int) -> bool:
    """Return whether a slot may be in the batch of one that waits for that stage of the chain."""
    return slot.link == link and not slot.is_suspect


def _check_broken(
    tally: StageTally, failures: tuple[Failure, ...], known_bad: Collection[bytes]
) -> None:
    counts = tally.counts
    is_silent = not counts.tasks_out + counts.filtered and counts.tasks_in >= BROKEN_AFTER
    if is_silent and counts.dead + counts.dropped:  # or the corpus would become dead letters
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
