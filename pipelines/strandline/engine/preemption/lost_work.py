"""Measures the seconds of work, and the share that is repeated because workers or data were lost.

The time of tasks is recorded per source as long as the source has open tasks. If the source starts
again, all of this time is repeated. This module has no side effects, and must not depend on the
reason for a loss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from strandline.engine.call.slots import Slot
from strandline.engine.core.pools import PoolBrokenError
from strandline.plan.receipt import Receipt
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.work_lost import WorkLost

NODE, STOP = "node", "stop"
_NAMES = {Cause.OOM_KILLED: "memory", Cause.TIMEOUT: "timeout", Cause.KILLED: "kill"}


def name_loss(cause: Cause, *, is_of_node: bool) -> str:
    """Return the name under which the lost work of a worker is counted."""
    return NODE if is_of_node else _NAMES.get(cause, "kill")


_FATES = {Cause.OOM_KILLED: "was killed for memory", Cause.TIMEOUT: "was replaced"}


def describe_loss(stage: str, cause: Cause, over: str, tasks: int, seconds: float, why: str) -> str:
    """Describe the loss of a worker.

    Args:
        over: description of the sources that the worker was processing; empty if there were none.
        tasks: number of requeued tasks.
        seconds: lost seconds of work.
        why: description of the reason for the loss.
    """
    again = f" ({seconds:.0f} s of work)" if seconds >= 1 else ""
    during = f" while processing {over}" if over else ""
    fate = _FATES.get(cause, "was lost")
    return f"a worker of {stage!r} {fate}{during}, {tasks} tasks are queued again{again}: {why}"


def make_broken(stage: str, deaths: int, why: str, cause: Cause) -> PoolBrokenError:
    """Create the error of a stage that keeps losing workers.

    Args:
        why, cause: reason and cause of the last death.
    """
    broken = PoolBrokenError(f"stage {stage!r} lost {deaths} workers in a row; the last: {why}")
    if cause is not Cause.KILLED:  # the cause decides whether the next attempt gets more memory
        broken.cause = cause
    return broken


class WorkMeter:
    """Measures the work of one attempt.

    Attributes:
        worked: seconds of all calls, including lost calls. Waits for services are not work.
    """

    def __init__(self) -> None:
        self.worked = 0.0
        self._lost: defaultdict[str, float] = defaultdict(float)
        self._spent: dict[bytes, float] = {}
        self._left: dict[bytes, int] = {}  # open tasks by source; by default 1, the root
        self._recent: list[tuple[str, str, float]] = []

    def note(
        self, batch: Collection[Slot], dropped: int, receipt: Receipt, opened: Slot | None = None
    ) -> None:
        """Record a finished call or a finished part of a call.

        Args:
            batch: tasks that the call or part has finished.
            dropped: number of other tasks that no longer count, because their sources start again.
            receipt: the receipt of the call or part.
            opened: the task whose result is incomplete, or None.
        """
        seconds = max(0.0, receipt.counts.seconds - receipt.counts.waited)
        self.worked += seconds
        share = seconds / max(1, len(batch) + dropped + (opened is not None))
        if dropped:
            self._lost[NODE] += share * dropped
        if opened is not None:
            self._spent[opened.source] = self._spent.get(opened.source, 0.0) + share
        for slot in batch:
            source = slot.source
            self._spent[source] = self._spent.get(source, 0.0) + share
            self._left[source] = self._left.get(source, 1) - 1
        for emitted in receipt.emitted:
            self._left[emitted.source] = self._left.get(emitted.source, 1) + 1
        self._forget([slot.source for slot in batch if self._left.get(slot.source, 0) <= 0])
        self._forget(failure.source for failure in receipt.failures)

    def lose_call(self, name: str, seconds: float, node: str = "") -> None:
        """Record a call that was in progress for `seconds` when its worker was lost.

        Args:
            node: the worker's node.
        """
        self.worked += seconds
        self._lost[name] += seconds
        if name != NODE and node:
            self._recent.append((node, name, seconds))

    def lose_sources(self, sources: Collection[bytes], name: str = NODE) -> None:
        """Count the work on sources that start again as lost."""
        self._lost[name] += sum(self._spent.get(source, 0.0) for source in sources)
        self._forget(sources)

    def lose_rest(self, under_way: float) -> None:
        """Count the unfinished work at the end of an attempt as lost."""
        self.lose_call(STOP, under_way)
        self.lose_sources(list(self._spent), STOP)

    def forgive(self, nodes: Collection[str]) -> None:
        """Attribute recent losses to their nodes if the nodes turned out to be dead."""
        for node, name, seconds in self._recent:
            if node in nodes:
                self._lost[name] -= seconds
                self._lost[NODE] += seconds
        self._recent = [loss for loss in self._recent if loss[0] not in nodes]

    @property
    def lost(self) -> WorkLost:
        """The lost work by reason."""
        return WorkLost(**{name: max(0.0, seconds) for name, seconds in self._lost.items()})

    def _forget(self, sources: Iterable[bytes]) -> None:
        for source in sources:
            self._spent.pop(source, None)
            self._left.pop(source, None)
