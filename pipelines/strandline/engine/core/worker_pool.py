"""One chain's workers, the calls that are with them, and what was lost in a row, as data.

Actors and references are opaque here: it knows neither Ray nor what starts, loads and ends a
worker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from strandline.engine.call.slots import Slot, describe_keys
from strandline.engine.core.call_size import TaskCost
from strandline.engine.core.pools import FIRST_CALL, PoolState
from strandline.engine.flow.chains import WHOLE, Chain, Entry
from strandline.engine.worker.limits import explain_overdue
from strandline.engine.worker.worker_page import Located, WorkerAddress, WorkerPage
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import StageCounts

LONG_SECONDS = 5.0  # a call that takes longer is shown with its stage of a chain
# Counts that are reported once for all stages of a chain: under the first one.
_OF_FIRST: dict[str, Any] = dict.fromkeys(("started", "lost", "recycled", "deaths"), 0)
_NOT_ASKED = Located()


@dataclass(slots=True, eq=False)
class Worker:
    """One actor and its calls, oldest first, by the reference of their receipt.

    Attributes:
        cpu: cores that it reserves.
        node: id of the one it is on; before it is placed, of the one that it is meant to be on.
        is_placed: it has found room, and its process has begun.
        is_ready: it is set up, and takes calls.
        is_here: it is on the driver's node.
        is_draining: it takes no new calls, and ends when it has none.
        is_leaving: it was asked to leave its calls.
        next_number: of its next call.
        begun, ready_since, busy_since, call_since: by the clock; the last ones of the part that it
            works on, and of the call.
        located: what it last answered where it takes long.
        log: see `WorkerAddress`.
        page: that it shares with this process; None: it shares none.
    """

    stage: int
    actor: Any
    cpu: float = 0.0
    node: str = ""
    begun: float = 0.0
    calls: dict[Any, Call] = field(default_factory=dict)
    is_placed: bool = False
    is_ready: bool = False
    is_here: bool = False
    is_draining: bool = False
    is_leaving: bool = False
    next_number: int = FIRST_CALL
    ready_since: float = 0.0
    busy_since: float = 0.0
    call_since: float = 0.0
    located: Located = _NOT_ASKED
    log: str = ""
    page: WorkerPage | None = None

    @property
    def is_open(self) -> bool:
        """Return whether it takes calls."""
        return self.is_ready and not self.is_draining

    @property
    def link(self) -> int | None:
        """The number of the stage of its chain that its call is in; None where it is not known."""
        if self.current is not None and self.page is not None:
            return self.page.read(self.current.number)
        return self.located.link if self._is_located else None

    @property
    def over(self) -> str:
        """The sources that it works on, in words; empty where it works on nothing."""
        if self.current is None:
            return ""
        known = self.located.sources if self._is_located else ""
        return known or describe_keys([slot.key for slot in self.current.batch])

    def measure_work(self, now: float) -> float:
        """Return the seconds of work on its current call, without waits for services."""
        if self.current is None or not self.is_working:
            return 0.0
        known = self.located.waited if self._is_located else 0.0
        waited = known if self.page is None else self.page.read_wait(self.current.number, now)
        return max(0.0, now - self.busy_since - waited)

    @property
    def _is_located(self) -> bool:
        return self.current is not None and self.located.number == self.current.number

    def settle(self, address: WorkerAddress, here: str) -> None:
        """Note where it has begun; `here` is the driver's node."""
        self.node, self.log = address.node, address.log
        self.is_placed, self.is_here = True, self.node == here
        if self.is_here and self.page is None and address.page:
            self.page = WorkerPage.find(address.page)

    def ask_stacks(self, sleep: Callable[[float], object]) -> str:
        """Return the stacks of its threads; empty where it can't be asked."""
        return "" if self.page is None else self.page.ask_stacks(sleep)

    def let_go(self) -> None:
        """Close what it shares with this process."""
        if self.page is not None:
            self.page.close()
            self.page = None

    def is_long(self, now: float) -> bool:
        """Return whether what it works on takes long already."""
        return self.is_working and now - self.busy_since >= LONG_SECONDS

    def is_late(self, now: float) -> bool:
        """Return whether the call that it works on takes long, in however many parts."""
        return self.is_working and now - self.call_since >= LONG_SECONDS

    @property
    def has_suspects(self) -> bool:
        """Return whether it has a call of suspects, which is to be its only one."""
        return any(call.batch[0].is_suspect for call in self.calls.values())

    @property
    def current(self) -> Call | None:
        """The call that it works on; None where it has none."""
        return next(iter(self.calls.values()), None)

    @property
    def is_working(self) -> bool:
        """Return whether its current work is waited for."""
        return self.current is not None and not self.current.is_paused

    @property
    def sources(self) -> set[bytes]:
        """Those that are with it."""
        return {source for call in self.calls.values() for source in call.sources}


@dataclass(slots=True)
class Call:
    """A batch that is with a worker, and the reference of the data it will give.

    Attributes:
        number: in the order in which the worker was given its calls.
        is_shown: the table of work in flight says that it is worked on.
        opened: where its answer goes on, the task that the next part begins with.
        is_paused: the next part was not asked for yet.
        counts, size: what its parts have counted so far, and bytes of all that came of it.
        size_in: tasks that it began with.
        entry: where in the chain it begins and ends.
        is_asked_back: its worker was asked to give it back, if it is not begun.
        split_at: when its worker was last asked for what the task at work does not need.
    """

    stage: int
    worker: Worker
    batch: list[Slot]
    data: Any
    number: int
    is_shown: bool = False
    opened: Slot | None = None
    is_paused: bool = False
    counts: StageCounts = field(default_factory=StageCounts)
    size: int = 0
    size_in: int = 0
    entry: Entry = WHOLE
    is_asked_back: bool = False
    split_at: float = float("-inf")

    @property
    def sources(self) -> list[bytes]:
        """The source of each slot."""
        return [slot.source for slot in self.batch]


class Loss(NamedTuple):
    """A worker that was lost, since the last success of its stage.

    Attributes:
        sources: of which one may be to blame; none where the worker had nothing to do, or where it
            can't be told.
        turns: of one out of reach, how often what it had was lost so; 0 of any other.
        node: the one that it was on.
        sure_at: when it is certain that it was not lost with its node, by the driver's clock.
    """

    sources: frozenset[bytes] = frozenset()
    turns: int = 0
    node: str = ""
    sure_at: float = 0.0


class ChainStreak:
    """The losses of one pool since its last success, for each stage of its chain.

    A worker that dies over several stages may have died of any of them; one that was given a
    single one has died of that. So may a success be of all stages or of one.
    """

    def __init__(self, stages: int = 1) -> None:
        self._streaks = [LossStreak() for _ in range(stages)]

    @property
    def causes(self) -> int:
        """Causes of the stage that has most."""
        return max(streak.causes for streak in self._streaks)

    @property
    def culprit(self) -> int | None:
        """The number of that stage; None where several have as many."""
        counts = [streak.causes for streak in self._streaks]
        return counts.index(self.causes) if counts.count(self.causes) == 1 else None

    def count_sure(self, now: float) -> int:
        """Return causes, as `causes`, of losses that are certain not to be of a node."""
        return max(streak.count_sure(now) for streak in self._streaks)

    def note(
        self,
        entry: Entry,
        sources: Collection[bytes] = (),
        node: str = "",
        sure_at: float = 0.0,
    ) -> None:
        """See `LossStreak.note`."""
        for streak in self._list_touched(entry):
            streak.note(sources, node, sure_at)

    def note_again(self, entry: Entry, times: int, node: str = "", sure_at: float = 0.0) -> None:
        """See `LossStreak.note_again`."""
        for streak in self._list_touched(entry):
            streak.note_again(times, node, sure_at)

    def forgive(self, nodes: Collection[str]) -> None:
        """See `LossStreak.forgive`."""
        for streak in self._streaks:
            streak.forgive(nodes)

    def end(self, entry: Entry) -> None:
        """See `LossStreak.end`."""
        for streak in self._list_touched(entry):
            streak.end()

    def _list_touched(self, entry: Entry) -> list[LossStreak]:
        link, is_alone = entry
        return self._streaks[link : link + 1] if is_alone else self._streaks[link:]


class LossStreak:
    """The losses of one stage's workers since its last success.

    Attributes:
        causes: what they were lost to; several over one source are one.
    """

    def __init__(self) -> None:
        self._losses: list[Loss] = []
        self.causes = 0

    def note(self, sources: Collection[bytes] = (), node: str = "", sure_at: float = 0.0) -> None:
        """Count a worker that was lost; see `Loss`."""
        self._add(Loss(frozenset(sources), 0, node, sure_at))

    def note_again(self, times: int, node: str = "", sure_at: float = 0.0) -> None:
        """Count a worker that went out of reach, most likely with its node.

        Args:
            times: that what it had was lost so. Once is a lost node and no cause; whatever is lost
                with a node was lost about as often, and is one.
        """
        if times > 1:
            self._add(Loss(frozenset(), times, node, sure_at))

    def count_sure(self, now: float) -> int:
        """Return causes of losses that are certain not to be of a node."""
        return _count_causes([loss for loss in self._losses if loss.sure_at <= now])

    def forgive(self, nodes: Collection[str]) -> None:
        """Take back the losses of workers on nodes that turned out to have gone."""
        self._losses = [loss for loss in self._losses if loss.node not in nodes]
        self.causes = _count_causes(self._losses)

    def end(self) -> None:
        """End the streak, since there was a success."""
        self._losses.clear()
        self.causes = 0

    def _add(self, loss: Loss) -> None:
        self._losses.append(loss)
        self.causes = _count_causes(self._losses)


def _count_causes(losses: Iterable[Loss]) -> int:
    """Return what workers were lost to in a row; several over one source are one."""
    culprits: set[bytes] = set()
    exposed: list[frozenset[bytes]] = []
    turns: set[int] = set()
    causes = 0
    for loss in losses:
        if loss.turns:
            causes += loss.turns not in turns
            turns.add(loss.turns)
        elif len(loss.sources) != 1:
            causes += 1
            exposed += [loss.sources] if loss.sources else []
        elif not loss.sources <= culprits:
            # Groups that were lost in its company were lost to it, most likely.
            unexplained = [group for group in exposed if not loss.sources <= group]
            causes += 1 - (len(exposed) - len(unexplained))
            exposed = unexplained
            culprits |= loss.sources
    return causes


class _CallTimes(NamedTuple):
    """Seconds of calls under way: of all, of the longest, and over what that one is."""

    total: float = 0.0
    oldest: float = 0.0
    over: str = ""


@dataclass(slots=True)
class Pool:
    """The workers of one chain of stages.

    Attributes:
        workers: ready, starting and draining ones.
        streak: workers lost in a row.
        costs: of a task, by the stage of the chain that it goes to.
        call: tasks that a call may carry; one batch until that was looked at.
        started, lost, recycled: workers, since the attempt began.
        past: seconds that workers which are gone were ready for.
    """

    chain: Chain
    workers: list[Worker] = field(default_factory=list)
    streak: ChainStreak = field(init=False)
    costs: dict[int, TaskCost] = field(default_factory=lambda: defaultdict(TaskCost))
    call: int = 0
    started: int = 0
    lost: int = 0
    recycled: int = 0
    past: float = 0.0

    @property
    def plan(self) -> StagePlan:
        """The requests of its workers, as if the chain were one stage."""
        return self.chain.plan

    @property
    def cost(self) -> TaskCost:
        """The cost of a task that goes to the first stage."""
        return self.costs[0]

    @property
    def starting(self) -> int:
        """Workers that will take calls once they are ready."""
        return sum(not worker.is_ready and not worker.is_draining for worker in self.workers)

    @property
    def staying(self) -> int:
        """Workers that take calls, or will."""
        return sum(not worker.is_draining for worker in self.workers)

    def __post_init__(self) -> None:
        self.streak = ChainStreak(len(self.chain.stages))
        self.call = self.call or self.plan.batch_size

    def list_overdue(self, now: float) -> Iterator[tuple[Worker, str]]:
        """Yield workers that take longer for a call than it may, and a sentence for each."""
        if self.plan.timeout is None:
            return
        for worker in self.workers:
            # A call that waits to be asked for is no fault, however long it does.
            tasks = len(worker.current.batch) if worker.current and worker.is_working else 0
            limit = self.plan.limit_call(tasks)
            if tasks and limit is not None and now - worker.busy_since > limit:
                yield worker, explain_overdue(tasks, limit)

    @property
    def takers(self) -> int:
        """Workers that queues are sized for; as many as it has at least, before they are there."""
        return max(self.staying, self.plan.min_workers)

    def look_apart(self, now: float) -> list[PoolState]:
        """Return how it stands by the stages of its chain, each with the calls that are in it."""
        whole = self.look(now)
        rest = whole._replace(**_OF_FIRST)
        return [
            (rest if link else whole)._replace(under_way=total, oldest=oldest, over=over)
            for link, (total, oldest, over) in enumerate(self._time_calls(now))
        ]

    def _time_calls(self, now: float) -> list[_CallTimes]:
        """Return how long calls take that are in each stage."""
        times = [_CallTimes()] * len(self.chain.stages)
        for worker in self.workers:
            call = worker.current
            if worker.is_ready and worker.is_working and call is not None:
                link = call.entry[0] if worker.link is None else worker.link
                total, oldest, over = times[link]
                seconds = now - worker.busy_since
                if seconds > oldest:
                    oldest, over = seconds, worker.over if seconds >= LONG_SECONDS else ""
                times[link] = _CallTimes(total + seconds, oldest, over)
        return times

    def list_late(self, now: float) -> Iterator[Call]:
        """Yield calls of several tasks that take long, now and then."""
        for worker in self.workers:
            call = worker.current
            if call and len(call.batch) > 1 and worker.is_late(now):
                yield from [call] if now - call.split_at >= LONG_SECONDS else []

    def list_stuck(self, now: float) -> Iterator[Call]:
        """Yield calls that wait behind one that takes long, while another worker has none."""
        idle = sum(worker.is_open and not worker.calls for worker in self.workers)
        late = (worker for worker in self.workers if worker.is_late(now))
        # A paused call is begun: it can't be given back.
        waiting = (call for worker in late for call in [*worker.calls.values()][1:])
        for call in waiting:
            if idle > 0 and not call.is_paused and not call.is_asked_back:
                idle -= 1
                yield call

    def look(self, now: float) -> PoolState:
        """Return how it stands."""
        ready = [worker for worker in self.workers if worker.is_ready]
        times = self._time_calls(now)
        return PoolState(
            workers=len(self.workers),
            ready=sum(not worker.is_draining for worker in ready),
            draining=sum(worker.is_draining for worker in self.workers),
            started=self.started,
            lost=self.lost,
            recycled=self.recycled,
            deaths=self.streak.causes,
            seconds=self.past + sum(now - worker.ready_since for worker in ready),
            under_way=sum(each.total for each in times),
            oldest=max(each.oldest for each in times),
        )
