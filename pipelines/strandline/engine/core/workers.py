"""A worker and the calls that are with it, as data.

Actors and references are opaque here: it knows neither Ray nor what starts, loads and ends a
worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from strandline.engine.call.slots import WHOLE, Entry, Slot, describe_keys
from strandline.engine.core.pools import FIRST_CALL
from strandline.engine.worker.worker_page import Located, WorkerAddress, WorkerPage
from strandline.plan.receipt import StageCounts

LONG_SECONDS = 5.0  # a call that takes longer is shown with its stage of a chain
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
