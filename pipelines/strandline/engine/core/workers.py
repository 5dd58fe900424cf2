"""A worker and its calls, as data.

Actors and references are opaque. The module must not depend on Ray, or on the code that starts,
loads, and ends a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from strandline.engine.call.slots import WHOLE, Entry, Slot, describe_keys
from strandline.engine.core.pools import FIRST_CALL
from strandline.engine.worker.worker_page import CallPosition, WorkerAddress, WorkerPage
from strandline.plan.receipt import StageCounts

LONG_SECONDS = 5.0  # for a longer call, the progress display shows the current stage
_NOT_ASKED = CallPosition()


@dataclass(slots=True, eq=False)
class Worker:
    """An actor and its calls, oldest first, keyed by the reference of their receipt.

    Attributes:
        cpu: cores that the worker reserves.
        node: id of the worker's node; before placement, of the intended node.
        is_placed: whether the worker was placed and its process has begun.
        is_ready: whether the worker is set up and takes calls.
        is_here: whether the worker is on the driver's node.
        is_draining: whether the worker takes no new calls and ends after its current calls.
        is_leaving: whether the worker was requested to abandon its calls.
        next_number: number of the worker's next call.
        begun, ready_since, busy_since, call_since: clock times; `busy_since` is the start of the
            current part of a call, `call_since` of the whole call.
        located: the last reported position in a slow call.
        log: see `WorkerAddress`.
        warned: number of the last call that was reported as slow.
        page: memory page shared with this process; None if no page is shared.
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
    located: CallPosition = _NOT_ASKED
    log: str = ""
    warned: int = FIRST_CALL - 1
    page: WorkerPage | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the worker takes calls."""
        return self.is_ready and not self.is_draining

    @property
    def link(self) -> int | None:
        """Index of the chain's stage that the current call is in; None if unknown."""
        if self.current is not None and self.page is not None:
            return self.page.read(self.current.number)
        return self.located.link if self._is_located else None

    @property
    def over(self) -> str:
        """Description of the current call's sources; empty if there is no call."""
        if self.current is None:
            return ""
        known = self.located.sources if self._is_located else ""
        return known or describe_keys([slot.key for slot in self.current.batch])

    def measure_work(self, now: float) -> float:
        """Return the seconds of work on the current call, excluding waits for services."""
        if self.current is None or not self.is_working:
            return 0.0
        known = self.located.waited if self._is_located else 0.0
        waited = known if self.page is None else self.page.read_wait(self.current.number, now)
        return max(0.0, now - self.busy_since - waited)

    @property
    def _is_located(self) -> bool:
        return self.current is not None and self.located.number == self.current.number

    def settle(self, address: WorkerAddress, here: str) -> None:
        """Record where the worker has started.

        Args:
            here: the driver's node.
        """
        self.node, self.log = address.node, address.log
        self.is_placed, self.is_here = True, self.node == here
        if self.is_here and self.page is None and address.page:
            self.page = WorkerPage.find(address.page)

    def read_crash(self) -> str:
        """Return the stack of the worker's crash; empty if it left none."""
        return "" if self.page is None else self.page.read_crash()

    def ask_stacks(self, sleep: Callable[[float], object]) -> str:
        """Return the stacks of the worker's threads; empty if no page is shared."""
        return "" if self.page is None else self.page.ask_stacks(sleep)

    def let_go(self) -> None:
        """Close the memory page that the worker shares with this process."""
        if self.page is not None:
            self.page.close()
            self.page = None

    def is_long(self, now: float) -> bool:
        """Return whether the current part of the call has taken long."""
        return self.is_working and now - self.busy_since >= LONG_SECONDS

    def is_late(self, now: float) -> bool:
        """Return whether the current call has taken long, counting all of its parts."""
        return self.is_working and now - self.call_since >= LONG_SECONDS

    @property
    def has_suspects(self) -> bool:
        """Return whether the worker has a call with suspects, which must be its only call."""
        return any(call.batch[0].is_suspect for call in self.calls.values())

    @property
    def current(self) -> Call | None:
        """The current call, or None if the worker has no call."""
        return next(iter(self.calls.values()), None)

    @property
    def is_working(self) -> bool:
        """Return whether the current call is running instead of paused."""
        return self.current is not None and not self.current.is_paused

    @property
    def sources(self) -> set[bytes]:
        """The sources of all calls of the worker."""
        return {source for call in self.calls.values() for source in call.sources}


@dataclass(slots=True)
class Call:
    """A batch that was sent to a worker, and the reference of its future output.

    Attributes:
        number: position in the order in which the worker received its calls.
        is_shown: whether the table of work in flight lists the call as in progress.
        opened: for an incomplete result, the task with which the next part begins.
        is_paused: whether the next part was not requested yet.
        counts, size: counts of the parts so far, and total bytes that they produced.
        size_in: number of tasks with which the call began.
        entry: stages of the chain at which the call begins and ends.
        is_asked_back: whether the worker was requested to return the call if it has not started.
        split_at: time when the worker was last requested to return the tasks that it is not
            working on.
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
