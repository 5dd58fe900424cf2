"""Runs one call of adjacent stages in one worker: each stage processes the previous stage's output.

Tokens, events, and outputs are the same as for separate calls; only the transport of tasks differs.
If a call has too much work, the worker returns the rest, so that other workers can share it. The
module must not depend on queues, workers, or the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from strandline.engine.call.handover import Unreadable, pack_answers, read_input
from strandline.engine.call.payloads import Dumps, is_unchanging, measure
from strandline.engine.call.slots import describe_keys
from strandline.engine.call.stage.metering import settle_efforts
from strandline.engine.call.stage.receipts import CallPart, WorkUnit, find_gone
from strandline.engine.call.stage.stage_call import NOTHING_HANDED, StageCall
from strandline.engine.call.wire import pack_sharing
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Effort, EmittedTask, Event, Failure, Receipt, StageCounts
from strandline.plan.stages.stage import Shape
from strandline.plan.task import Lineage, Origin, Task, lineage_of

# After this time, a worker returns work that others could do. Calls of a chain with a sink may
# take longer, so that more outputs share a disk sync.
SPILL_SECONDS = 0.1
SPILL_SECONDS_OF_SINKS = 0.3
SPLIT_SECONDS = 1.0  # how long a split may wait for the user's code
HANDOVER_BYTES = 200e6  # bytes per second from one worker over the driver to another
_WEIGHT = 0.25  # weight of a stage's last call in the average


class CallSplit(NamedTuple):
    """Work that was taken out of a running call.

    Attributes:
        part: the finished part.
        kept_tokens: tokens of the tasks that the call keeps.
        idle_tokens: tokens of tasks that have not started.
    """

    part: CallPart
    kept_tokens: Sequence[bytes]
    idle_tokens: Sequence[bytes]


class ChainCall:
    """Stages that are set up in one worker and are called as if they were one stage.

    Args:
        plans: the stages, in order; only the first stage can stream its output.
        calls: the calls of these stages.
        now: returns seconds from any fixed point.
        dumps: pickles data between stages if a stage could change the data.
        note: receives the index of each stage that starts to work.
        joins_below: whether a later stage joins groups. If so, slots that were filtered in a call
            are reported.
    """

    def __init__(
        self,
        plans: Sequence[StagePlan],
        calls: Sequence[StageCall],
        now: Callable[[], float],
        dumps: Dumps,
        note: Callable[[int], None] = lambda _: None,
        *,
        joins_below: bool = False,
    ) -> None:
        self._plans = plans
        self._calls = calls
        self._now = now
        self._pack = partial(pack_sharing, dumps=dumps)
        self._note = note
        self._joins_below = joins_below
        self._work: tuple[int, Sequence[Task]] = (0, ())  # a single object, shared by two threads
        self._seconds: dict[int, float] = {}  # seconds per task, by stage
        self._called: set[int] = set()  # stages that were called at least once
        # Protects the call from a second thread, which splits calls.
        self._turn = threading.Lock()
        for call in calls:
            call.share(self._turn)
        self._is_at_work = False
        self._entry: tuple[int, Sequence[Lineage]] = (0, ())  # stage and tasks of the call
        self._lineages: Sequence[Lineage] = ()  # tasks of the current stage
        self._draft: _ChainDraft | None = None  # set while a later stage is working
        last = len(plans) - 1
        writes = plans[last].shape is Shape.SINK
        # Index of the sink, or an index after the last stage if there is no sink.
        self._sink = last if writes else last + 1
        self._limit = SPILL_SECONDS_OF_SINKS if writes else SPILL_SECONDS

    def stream(
        self,
        tasks: Sequence[Task],
        unreadable: Sequence[Unreadable] = (),
        handed: Mapping[bytes, int] = NOTHING_HANDED,
        link: int = 0,
        *,
        is_alone: bool = False,
    ) -> Iterator[CallPart]:
        """Process tasks, starting at one stage; see `StageCall.stream`.

        Args:
            link: index of the stage at which the call starts.
            is_alone: whether to run only this stage, so that a worker's death shows which stage is
                to blame.
        """
        parts = self._stream(tasks, unreadable, handed, link, is_alone=is_alone)
        while (part := self._make_next(parts)) is not None:
            yield part

    def _make_next(self, parts: Iterator[CallPart]) -> CallPart | None:
        with self._turn:
            self._is_at_work = True
            try:
                return next(parts, None)
            finally:
                self._is_at_work = False

    def _stream(
        self,
        tasks: Sequence[Task],
        unreadable: Sequence[Unreadable],
        handed: Mapping[bytes, int],
        link: int,
        *,
        is_alone: bool,
    ) -> Iterator[CallPart]:
        lineages = list(map(lineage_of, tasks))
        self._lineages, self._draft = lineages, None
        self._entry = link, [*lineages, *(lineage for lineage, _ in unreadable)]
        begun = self._begin(link, tasks)
        for part in self._calls[link].stream(tasks, unreadable, handed):
            if len(self._calls) == 1:
                yield part._replace(receipt=settle_efforts(part.receipt))
                continue
            draft = self._draft = _ChainDraft(len(self._calls))
            self._take(draft, link, self._lineages, part)
            opened = part.opened
            del part  # otherwise, the tasks stay in memory until the next part is made
            if not is_alone:
                self._go_on(draft, begun)
            draft.give_back()
            self._draft = None
            yield CallPart(draft.data, draft.close(), opened)
            begun, self._lineages = self._begin(link, tasks), self._entry[1]
        self._work = (link, ())

    def _begin(self, link: int, tasks: Sequence[Task]) -> float:
        """Record the stage that starts to work. Return the time."""
        self._work = (link, tasks)
        self._note(link)
        return self._now()

    @contextmanager
    def splitting(self) -> Iterator[CallSplit | None]:
        """Split off the work that the current unit does not need. Yield None if no call is running.

        Another thread enters this block while the user's code is running. The call produces no
        further output until the block ends.
        """
        if not self._turn.acquire(timeout=SPLIT_SECONDS):
            yield None
            return
        try:
            yield self._split() if self._is_at_work else None
        finally:
            self._turn.release()

    def _split(self) -> CallSplit | None:
        (link, entered), draft = self._entry, self._draft
        at_work = link if draft is None else self._work[0]
        part, unit, rest = self._calls[at_work].split()
        over = _leave_out(self._lineages, [*unit, *map(lineage_of, rest)])
        self._lineages = unit
        idle_tokens: list[bytes] = []
        if draft is None:
            stays, idle_tokens = unit, [lineage_of(task).token for task in rest]
            part = part if len(self._calls) == 1 else self._draw_up(link, over, part)
        else:
            self._take(draft, at_work, over, part)
            draft.waiting[at_work][:0] = rest
            busy = draft.find_busy(lineage.source for lineage in unit)
            stays = [lineage for lineage in entered if lineage.source in busy]
            others = draft.split(busy)
            others.give_back()
            part = CallPart(others.data, others.close(calls=0), None)
        self._entry = link, stays
        return CallSplit(part, [lineage.token for lineage in stays], idle_tokens)

    def _draw_up(self, link: int, over: Sequence[Lineage], part: CallPart) -> CallPart:
        """Convert a part of the first stage into a part of the chain.

        The tasks for later stages leave the worker.
        """
        draft = _ChainDraft(len(self._calls))
        self._take(draft, link, over, part)
        draft.give_back()
        return CallPart(draft.data, draft.close(calls=0), None)

    def find_work(self) -> tuple[int, str]:
        """Return the index of the current stage, and a description of the sources of its tasks.

        Other threads may call this method.
        """
        link, tasks = self._work
        return link, describe_keys([task.key for task in tasks])

    def leave(self, token: bytes) -> None:
        """Stop producing output for a task; see `StageCall.leave`."""
        self._calls[0].leave(token)

    def name_maker(self, receipt: Receipt, position: int) -> str:
        """Return the name of the stage that made an emitted task."""
        link = receipt.emitted[position].link
        return self._plans[link - 1 if link else -1].name

    def _go_on(self, draft: _ChainDraft, begun: float) -> None:
        """Process the first stage's output, the last stage first. Return excess work."""
        while (link := self._find_next(draft)) is not None:
            left = self._limit - (self._now() - begun)
            self._run(draft, link, draft.take(link, self._size_chunk(draft, link, left)))
            # Keep a sink's tasks, and tasks that take less time than their transport.
            if left <= 0 and self._is_slow(draft, link):
                draft.give_back(below=link + 1)

    def _find_next(self, draft: _ChainDraft) -> int | None:
        """Return the last stage with work. The sink runs only when no other stage has work."""
        busy = [link for link, waiting in enumerate(draft.waiting) if waiting]
        before = [link for link in busy if link != self._sink]
        ready = before or busy
        return ready[-1] if ready else None

    def _is_slow(self, draft: _ChainDraft, link: int) -> bool:
        """Return whether the waiting tasks of a stage take longer than a call, and a transport."""
        waiting = draft.waiting[link]
        seconds = self._seconds.get(link, 0.0) * len(waiting)
        if link == self._sink or seconds <= self._limit:
            return False
        return seconds > measure([task.data for task in waiting]) / HANDOVER_BYTES

    def _size_chunk(self, draft: _ChainDraft, link: int, left: float) -> int | None:
        """Return the number of tasks that fit into the remaining seconds, or None for all."""
        if link == self._sink:
            return None  # a sink syncs many tasks together, which costs little more than one
        least = self._plans[link].batch_size
        if link not in self._seconds:
            return least
        if not self._is_slow(draft, link):
            return None
        return max(least, int(left / self._seconds[link]))

    def _run(self, draft: _ChainDraft, link: int, chunk: Sequence[Task]) -> None:
        # If all tasks belong to failed sources, nothing is left.
        tasks, unreadable = self._hand_over(self._plans[link - 1].name, chunk, draft)
        if not tasks and not unreadable:
            return
        self._begin(link, tasks)
        self._lineages = list(map(lineage_of, tasks))
        (part,) = self._calls[link].stream(tasks, unreadable)
        self._note_seconds(link, part.receipt.counts)
        self._take(draft, link, self._lineages, part)

    def _note_seconds(self, link: int, counts: StageCounts) -> None:
        """Record the seconds per task of a stage. A fast first call is not representative."""
        seconds = counts.seconds / max(1, counts.tasks_in)
        known = self._seconds.get(link)
        if known is not None:
            self._seconds[link] = known + _WEIGHT * (seconds - known)
        # Ignore the first call, during which libraries load, unless it is slow.
        elif link in self._called or counts.seconds > self._limit:
            self._seconds[link] = seconds
        self._called.add(link)

    def _hand_over(
        self, maker: str, chunk: Sequence[Task], draft: _ChainDraft
    ) -> tuple[list[Task], list[Unreadable]]:
        """Return tasks in the form that the next stage receives, without shared mutable data."""
        if all(is_unchanging(task.data) and is_unchanging(task.meta) for task in chunk):
            return list(chunk), []
        nothing = Receipt((), (), (), StageCounts())
        _, packed, receipt = pack_answers(lambda _: maker, chunk, nothing, self._pack)
        draft.fail(receipt.failures)
        return read_input(packed)

    def _take(
        self, draft: _ChainDraft, link: int, tasks: Sequence[Lineage], part: CallPart
    ) -> None:
        draft.add(link, part)
        if self._joins_below:
            draft.gone += find_gone(tasks, part.receipt.emitted)


def _leave_out(lineages: Sequence[Lineage], others: Sequence[Lineage]) -> list[Lineage]:
    tokens = {lineage.token for lineage in others}
    return [lineage for lineage in lineages if lineage.token not in tokens]


class _ChainDraft:
    """The work of a chain's call so far.

    Attributes:
        waiting: tasks that wait for each stage.
        data, emitted: tasks that leave the worker.
        units: finished units, each with the index of its stage.
    """

    def __init__(self, links: int) -> None:
        self.waiting: list[list[Task]] = [[] for _ in range(links)]
        self.data: list[Task] = []
        self.emitted: list[EmittedTask] = []
        self.gone: list[tuple[Origin, bytes]] = []
        self.units: list[tuple[int, WorkUnit]] = []
        self.events: list[Event] = []
        self.failures: list[Failure] = []
        self.efforts: list[tuple[bytes, Effort]] = []
        self.failed_sources: set[bytes] = set()

    def add(self, link: int, part: CallPart) -> None:
        """Record a part of one stage. Its tasks wait for the next stage, or leave the worker."""
        self.events += part.receipt.events
        self.efforts += part.receipt.efforts
        self.fail(part.receipt.failures)
        self.units += [(link, unit) for unit in part.units]
        if link + 1 < len(self.waiting):
            self.waiting[link + 1] += part.data
        else:
            self._leave(part.data, 0)

    def find_busy(self, sources: Iterable[bytes]) -> set[bytes]:
        """Return the sources, and all sources that share a unit with them, even indirectly."""
        busy, size = set(sources), 0
        while size < len(busy):
            size = len(busy)
            for _, unit in self.units:
                if not busy.isdisjoint(unit.sources):
                    busy |= unit.sources
        return busy

    def split(self, busy: Collection[bytes]) -> _ChainDraft:
        """Move the records of all sources except `busy` into a new draft."""
        others = self._select(lambda source: source not in busy)
        vars(self).update(vars(self._select(lambda source: source in busy)))
        return others

    def _select(self, is_chosen: Callable[[bytes], bool]) -> _ChainDraft:
        draft = _ChainDraft(len(self.waiting))
        draft.waiting = [
            [task for task in tasks if is_chosen(lineage_of(task).source)] for tasks in self.waiting
        ]
        for task, emitted in zip(self.data, self.emitted, strict=True):
            if is_chosen(emitted.source):
                draft.emitted.append(emitted._replace(position=len(draft.data)))
                draft.data.append(task)
        draft.gone = [each for each in self.gone if is_chosen(each[1])]
        draft.events = [each for each in self.events if is_chosen(each.source)]
        draft.failures = [each for each in self.failures if is_chosen(each.source)]
        draft.efforts = [each for each in self.efforts if is_chosen(each[0])]
        draft.failed_sources = set(filter(is_chosen, self.failed_sources))
        # The first unit of a call may have no source. Treat it as a unit of an empty source id.
        draft.units = [
            (link, unit) for link, unit in self.units if is_chosen(next(iter(unit.sources), b""))
        ]
        return draft

    def fail(self, failures: Sequence[Failure]) -> None:
        """Record failures. The failed sources are not processed further."""
        self.failures += failures
        self.failed_sources.update(failure.source for failure in failures)

    def take(self, link: int, most: int | None) -> list[Task]:
        """Remove up to `most` tasks that wait for a stage. Drop tasks of failed sources."""
        waiting = self.waiting[link]
        if self.failed_sources:
            waiting = [
                task for task in waiting if lineage_of(task).source not in self.failed_sources
            ]
        most = len(waiting) if most is None else most
        self.waiting[link] = waiting[most:]
        return waiting[:most]

    def give_back(self, below: int | None = None) -> None:
        """Send all waiting tasks out of the worker, each to its stage.

        Args:
            below: only include tasks that wait for stages before this index; None includes all.
        """
        for link in range(1, len(self.waiting) if below is None else below):
            self._leave(self.take(link, None), link)

    def _leave(self, tasks: Sequence[Task], link: int) -> None:
        for task in tasks:
            source, token, _, origin = lineage_of(task)
            self.emitted.append(EmittedTask(len(self.data), source, token, origin, link))
            self.data.append(task)

    def close(self, calls: int = 1) -> Receipt:
        """Return the receipt of the whole call."""
        counts: dict[int, StageCounts] = {}
        for link, unit in self.units:
            counts.setdefault(link, StageCounts()).add(unit.counts)
        receipt = Receipt(
            tuple(self.events),
            tuple(self.failures),
            tuple(self.emitted),
            self._count(counts, calls),
            tuple(self.efforts),
            tuple(counts.items()),
            tuple(self.gone),
        )
        return settle_efforts(receipt)

    def _count(self, counts: Mapping[int, StageCounts], calls: int) -> StageCounts:
        """Return the counts of the chain as one stage: the tasks that entered and left it."""
        first, last = counts.get(0), counts.get(len(self.waiting) - 1)
        return StageCounts(
            tasks_in=first.tasks_in if first else 0,
            tasks_out=last.tasks_out if last else 0,
            failed=sum(each.failed for each in counts.values()),
            seconds=sum(each.seconds for each in counts.values()),
            waited=sum(each.waited for each in counts.values()),
            calls=calls,
        )
