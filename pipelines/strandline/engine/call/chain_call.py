"""One call of neighbouring stages in one worker: each works on what the one before has made.

Tokens, events and outputs are those of calls of their own; what changes is how tasks travel. A
worker that has more to do than a call's worth gives the rest back, so that others share in it. It
must not know queues, workers or the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from strandline.engine.call.handover import Unreadable, pack_answers, read_input
from strandline.engine.call.payloads import Dumps, is_unchanging
from strandline.engine.call.slots import describe_keys
from strandline.engine.call.stage.receipts import CallPart, find_gone
from strandline.engine.call.stage.stage_call import NOTHING_HANDED, StageCall
from strandline.engine.call.wire import pack_sharing
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Effort, Emitted, Event, Failure, Receipt, StageCounts
from strandline.plan.stage import Shape
from strandline.plan.task import Origin, Task, lineage_of

# After that a worker begins no more of what others could do. Calls of a chain that writes are made
# to be longer, so that more is made durable together.
SPILL_SECONDS = 0.1
SPILL_SECONDS_OF_SINKS = 0.3
_WEIGHT = 0.25  # weight of the last call of a stage


class ChainCall:
    """Stages set up in one worker, ready to be called as one.

    Args:
        plans: in order; of one that is not the first, what it yields does not travel on by itself.
        calls: of the same.
        now: seconds from any fixed point.
        dumps: pickles what stages hand on and may change.
        joins_below: a stage behind these joins groups, and wants to know which slots are filtered.
    """

    def __init__(
        self,
        plans: Sequence[StagePlan],
        calls: Sequence[StageCall],
        now: Callable[[], float],
        dumps: Dumps,
        *,
        joins_below: bool = False,
    ) -> None:
        self._plans = plans
        self._calls = calls
        self._now = now
        self._pack = partial(pack_sharing, dumps=dumps)
        self._joins_below = joins_below
        self._work: tuple[int, Sequence[Task]] = (0, ())  # in one piece, since two threads use it
        self._seconds: dict[int, float] = {}  # that a task takes, by stage
        self._called: set[int] = set()  # stages that have had a call
        last = len(plans) - 1
        writes = plans[last].shape is Shape.SINK
        # The sink's number; of no stage where there is none.
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
        """Work on tasks from one stage on; see `StageCall.stream`.

        Args:
            link: the number of that stage.
            is_alone: of that stage only, so that a death says which one it was.
        """
        begun, self._work = self._now(), (link, tasks)
        for part in self._calls[link].stream(tasks, unreadable, handed):
            if len(self._calls) == 1:
                yield part
                continue
            data, receipt, opened = part
            draft = _ChainDraft(len(self._calls), receipt.counts.tasks_in if not link else 0)
            self._take(draft, link, tasks, data, receipt)
            if not is_alone:
                self._go_on(draft, begun)
            draft.give_back()
            yield CallPart(draft.data, draft.close(), opened)
            begun, self._work = self._now(), (link, tasks)
        self._work = (link, ())

    def find_work(self) -> tuple[int, str]:
        """Return the number of the stage that is at work, and the sources that it is over.

        Another thread may ask.
        """
        link, tasks = self._work
        return link, describe_keys([task.key for task in tasks])

    def leave(self, token: bytes) -> None:
        """Have the answer to a task go on no more; see `StageCall.leave`."""
        self._calls[0].leave(token)

    def name_maker(self, receipt: Receipt, position: int) -> str:
        """Return the name of the stage that has made a task which a call hands on."""
        link = receipt.emitted[position].link
        return self._plans[link - 1 if link else -1].name

    def _go_on(self, draft: _ChainDraft, begun: float) -> None:
        """Work on what the first stage has made, the furthest first; give back what is too much."""
        while (link := self._find_next(draft)) is not None:
            left = self._limit - (self._now() - begun)
            self._run(draft, link, draft.take(link, self._size_chunk(draft, link, left)))
            # A sink goes on to the end, whatever it takes: no other worker is faster with its
            # files. Nor is one with what takes less than its way there.
            if left <= 0 and self._is_slow(draft, link):
                draft.give_back(below=link + 1)

    def _find_next(self, draft: _ChainDraft) -> int | None:
        """Return the furthest stage that has work; a sink waits until it has all of it."""
        busy = [link for link, waiting in enumerate(draft.waiting) if waiting]
        before = [link for link in busy if link != self._sink]
        ready = before or busy
        return ready[-1] if ready else None

    def _is_slow(self, draft: _ChainDraft, link: int) -> bool:
        """Return whether what waits for a stage is known to take longer than a call may."""
        seconds = self._seconds.get(link, 0.0)
        return link != self._sink and seconds * len(draft.waiting[link]) > self._limit

    def _size_chunk(self, draft: _ChainDraft, link: int, left: float) -> int | None:
        """Return the tasks that fit into the seconds that are left; None: all there are."""
        if link == self._sink:
            return None  # a sink that makes all durable together costs little more than one task
        least = self._plans[link].batch_size
        if link not in self._seconds:
            return least
        if not self._is_slow(draft, link):
            return None
        return max(least, int(left / self._seconds[link]))

    def _run(self, draft: _ChainDraft, link: int, chunk: Sequence[Task]) -> None:
        if not chunk:  # all of it is of sources that have failed
            return
        tasks, unreadable = self._hand_over(self._plans[link - 1].name, chunk, draft)
        if not tasks and not unreadable:
            return
        self._work = (link, tasks)
        data, receipt = self._calls[link].run(tasks, unreadable)
        self._note_seconds(link, receipt.counts)
        self._take(draft, link, tasks, data, receipt)

    def _note_seconds(self, link: int, counts: StageCounts) -> None:
        """Note what a task of a stage takes; of the first call only what is long."""
        seconds = counts.seconds / max(1, counts.tasks_in)
        known = self._seconds.get(link)
        if known is not None:
            self._seconds[link] = known + _WEIGHT * (seconds - known)
        # Libraries load parts of themselves then, which the next ones don't wait for.
        elif link in self._called or counts.seconds > self._limit:
            self._seconds[link] = seconds
        self._called.add(link)

    def _hand_over(
        self, maker: str, chunk: Sequence[Task], draft: _ChainDraft
    ) -> tuple[list[Task], list[Unreadable]]:
        """Return tasks as the next stage gets them, sharing nothing that can be changed."""
        if all(is_unchanging(task.data) and is_unchanging(task.meta) for task in chunk):
            return list(chunk), []
        nothing = Receipt((), (), (), StageCounts())
        _, packed, receipt = pack_answers(lambda _: maker, chunk, nothing, self._pack)
        draft.fail(receipt.failures)
        return read_input(packed)

    def _take(
        self,
        draft: _ChainDraft,
        link: int,
        tasks: Sequence[Task],
        data: Sequence[Task],
        receipt: Receipt,
    ) -> None:
        draft.add(link, data, receipt)
        if self._joins_below:
            draft.gone += find_gone(map(lineage_of, tasks), receipt.emitted)


class _ChainDraft:
    """What a call of a chain has done so far.

    Attributes:
        waiting: tasks that were made for each stage.
        data, emitted: what leaves the worker.
    """

    def __init__(self, links: int, entered: int) -> None:
        self.waiting: list[list[Task]] = [[] for _ in range(links)]
        self.data: list[Task] = []
        self.emitted: list[Emitted] = []
        self.gone: list[tuple[Origin, bytes]] = []
        self._entered = entered
        self._events: list[Event] = []
        self._failures: list[Failure] = []
        self._efforts: list[tuple[bytes, Effort]] = []
        self._counts: dict[int, StageCounts] = {}
        self._failed: set[bytes] = set()

    def add(self, link: int, data: Sequence[Task], receipt: Receipt) -> None:
        """Note what one stage has done; its tasks wait for the next one, or leave."""
        self._events += receipt.events
        self._efforts += receipt.efforts
        self.fail(receipt.failures)
        self._counts.setdefault(link, StageCounts()).add(receipt.counts)
        if link + 1 < len(self.waiting):
            self.waiting[link + 1] += data
        else:
            self._leave(data, 0)

    def fail(self, failures: Sequence[Failure]) -> None:
        """Note failures; nothing more is done for their sources."""
        self._failures += failures
        self._failed.update(failure.source for failure in failures)

    def take(self, link: int, most: int | None) -> list[Task]:
        """Take tasks that wait for a stage, as many as that; without those of failed sources."""
        waiting = self.waiting[link]
        if self._failed:
            waiting = [task for task in waiting if lineage_of(task).source not in self._failed]
        most = len(waiting) if most is None else most
        self.waiting[link] = waiting[most:]
        return waiting[:most]

    def give_back(self, below: int | None = None) -> None:
        """Have what waits leave, each task for its stage.

        Args:
            below: only what waits for stages above that one; None: all.
        """
        for link in range(1, len(self.waiting) if below is None else below):
            self._leave(self.take(link, None), link)

    def _leave(self, tasks: Sequence[Task], link: int) -> None:
        for task in tasks:
            source, token, _, origin = lineage_of(task)
            self.emitted.append(Emitted(len(self.data), source, token, origin, link))
            self.data.append(task)

    def close(self) -> Receipt:
        """Return the receipt of the whole."""
        return Receipt(
            tuple(self._events),
            tuple(self._failures),
            tuple(self.emitted),
            self._count(),
            tuple(self._efforts),
            tuple(self._counts.items()),
            tuple(self.gone),
        )

    def _count(self) -> StageCounts:
        """Return the counts as those of one stage: what has entered it, and what has left it."""
        counts, last = self._counts.values(), self._counts.get(len(self.waiting) - 1)
        return StageCounts(
            tasks_in=self._entered,
            tasks_out=last.tasks_out if last else 0,
            failed=sum(each.failed for each in counts),
            seconds=sum(each.seconds for each in counts),
            calls=1,
        )
