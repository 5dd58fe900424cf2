"""What the loss of a worker means: its work is queued again, and whoever may be to blame is noted.

Losing a worker never ends an attempt; a task that takes three with it ends its source, and a
pool that dies again and again ends the attempt. Death by memory is another matter than a crash:
the kernel may take the neighbour of the one that grew, so its work is tried again apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    WorkerCrashedError,
)

from strandline.engine.call.setup import StageSetupError
from strandline.engine.call.slots import Slot
from strandline.engine.core.chains import WHOLE
from strandline.engine.core.flow import Flow
from strandline.engine.core.ports import Control
from strandline.engine.core.worker_pool import Call, Worker
from strandline.engine.ray.connection import first_line
from strandline.engine.ray.ledger_actor import RayLedger
from strandline.engine.ray.pool import RayPools
from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import Event, Failure, Receipt
from strandline_api.outcome.causes import Cause

REPLAYS_PER_SOURCE = 3


class Replays:
    """Sources that wait to begin anew."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._counts: Counter[bytes] = Counter()
        self._roots: dict[bytes, Slot] = {}

    def __bool__(self) -> bool:
        return bool(self._roots)

    def begin(self, slots: Collection[Slot]) -> tuple[list[Event], list[Slot]]:
        """Take back what was done for the sources of slots, one of each.

        Returns:
            What the ledger is told, and the slots whose sources have begun anew too often.
        """
        # A node that is lost again and again would have it begin for ever.
        spent = [slot for slot in slots if self._counts[slot.source] >= REPLAYS_PER_SOURCE]
        over = {slot.source for slot in spent}
        roots = {slot.source: slot.root or slot for slot in slots if slot.source not in over}
        self._counts.update(roots.keys())
        self._roots |= roots
        if roots:
            # Tasks of the pass before would be worked on beside those of the new one.
            self._flow.withdraw(roots.keys())
        return [
            Event(source, (root.token,), (root.token,)) for source, root in roots.items()
        ], spent

    def keep_current(self, batch: Iterable[Slot]) -> list[Slot]:
        """Return those of a batch whose sources do not wait to begin anew."""
        return [slot for slot in batch if slot.source not in self._roots]

    def filter(self, receipt: Receipt) -> Receipt:
        """Return a receipt without the sources that wait to begin anew."""
        gone = self._roots.keys()
        return receipt._replace(
            events=tuple(event for event in receipt.events if event.source not in gone),
            failures=tuple(failure for failure in receipt.failures if failure.source not in gone),
            emitted=tuple(emitted for emitted in receipt.emitted if emitted.source not in gone),
            efforts=tuple(effort for effort in receipt.efforts if effort[0] not in gone),
            gone=tuple(slot for slot in receipt.gone if slot[1] not in gone),
        )

    def release(self, busy: Collection[bytes]) -> None:
        """Queue the roots of which nothing is with workers any more.

        Args:
            busy: sources that are with workers.
        """
        # An answer to a task of the pass before would be taken for one of the new pass.
        for source in [root for root in self._roots if root not in busy]:
            self._flow.enter([self._roots.pop(source)])

    def clear(self) -> None:
        """Let all be as they are: the run is ending."""
        self._roots.clear()


DEATHS_PER_TASK = 3
DEATHS_PER_POOL = 4
LOSSES = (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    WorkerCrashedError,
)
_FATES = {Cause.OOM_KILLED: "was killed for memory", Cause.TIMEOUT: "was replaced"}
_DATA_LOST = "data was lost with a node; the sources that it was of begin anew"


class PoolBrokenError(StrandlineError):
    """A stage's workers died again and again without a success between."""


class OverdueError(Exception):
    """A worker takes longer for a call than it may; the message says how long that is."""


class _Death(NamedTuple):
    """Why a worker is taken out.

    Attributes:
        exposed: sources of which one may have ended it; 0 where none has.
        suspects: these, as far as they say something of the pool.
        innocent: numbers of its calls that have nothing to do with it.
    """

    cause: Cause
    exposed: int
    suspects: set[bytes]
    innocent: frozenset[int] = frozenset()


class Losses:
    """Takes lost workers out; how many there should be then is the planner's to say.

    Attributes:
        anything_died: a worker was lost in this attempt, or data.
        replays: sources that wait to begin anew.
    """

    def __init__(self, flow: Flow, pools: RayPools, ledger: RayLedger, control: Control) -> None:
        self._flow = flow
        self._pools = pools
        self._ledger = ledger
        self._control = control
        self.replays = Replays(flow)
        self.anything_died = False
        self._out_of_reach: Counter[bytes] = Counter()
        self._unprepared: dict[int, str] = {}

    def fail_setup(self, worker: Worker, error: StageSetupError) -> None:
        """Take out a worker that can't be set up; another is started, once for a stage.

        Raises:
            StageSetupError: it was the second of the stage; lasting where all fail alike.
        """
        pool, text = self._pools[worker.stage], str(error)
        has_worked = pool.past > 0 or any(peer.is_ready for peer in pool.workers)
        first = self._unprepared.get(worker.stage)
        if first is not None:
            error.is_lasting = error.is_lasting and first == text and not has_worked
            raise error
        self._unprepared[worker.stage] = text
        self._pools.remove(worker)
        self._control.incidents.append(f"{text}; another worker is tried")

    def take_out(self, worker: Worker, error: Exception) -> None:
        """Take a lost worker out and queue its work again.

        Raises:
            PoolBrokenError: it was one too many.
        """
        stage, why = worker.stage, first_line(error)
        pool = self._pools[stage]
        death = self._judge(worker, error)
        entry = worker.current.entry if worker.current else WHOLE
        calls = self._pools.remove(worker)
        self.anything_died = True
        self._control.incidents.append(
            f"a worker of {pool.plan.name!r} {_FATES.get(death.cause, 'was lost')}, "
            f"{sum(len(call.batch) for call in calls)} tasks are queued again: {why}"
        )
        # Newest first, so that the oldest ends up first in line. Each may have ended the worker:
        # one call is worked on while the input of the next is read, and the answer of the one
        # before is spelled. So both are tried apart, with nothing else beside them.
        for call in reversed(calls):
            batch = self._keep_current(call)
            if not batch:  # all of it waits to begin anew, and would be worked on twice
                continue
            poisoned = self._flow.requeue(
                stage,
                batch,
                0 if call.number in death.innocent else death.exposed,
                holds=death.cause is Cause.OOM_KILLED,
                most_deaths=DEATHS_PER_TASK,
            )
            message = f"lost {DEATHS_PER_TASK} workers; the last: {why}"
            self._fail(stage, poisoned, message, death.cause)
        if not is_of_node(error):  # a stage that kills its workers would do so for ever
            pool.streak.note(entry, death.suspects)
        elif not (death.cause is Cause.OOM_KILLED or _is_node_death(error)):
            # Out of reach, and why is not known: a stage may do that to nodes again and again.
            pool.streak.note_again(entry, self._count_turns(calls))
        self._check_streak(stage, why, death.cause)

    def _judge(self, worker: Worker, error: Exception) -> _Death:
        current = worker.current
        if isinstance(error, OverdueError) and current is not None:
            # Only what it works on can be what takes so long.
            others = frozenset(call.number for call in worker.calls.values() if call != current)
            suspects = set(current.sources)
            return _Death(Cause.TIMEOUT, len(suspects), suspects, others)
        is_memory = self._is_memory(error)
        exposed = self._count_exposed(worker, error, is_memory=is_memory)
        # The kernel takes who is largest, wherever the one is that grew.
        suspects = worker.sources if exposed == 1 or not is_memory else set()
        return _Death(Cause.OOM_KILLED if is_memory else Cause.KILLED, exposed, suspects)

    def take_current(self, call: Call, receipt: Receipt) -> tuple[list[Slot], Receipt]:
        """Return what counts of an answer: not what is of sources that wait to begin anew."""
        if not self.replays:
            return call.batch, receipt
        return self._keep_current(call), self.replays.filter(receipt)

    def lose_data(self, call: Call, why: str) -> None:
        """Replay the sources of what a call needs and is lost; those that often have fail."""
        stage, blocks = call.stage, {id(slot.block) for slot in call.batch}
        is_group = self._flow.queues[stage].grouping is not None and not call.entry[0]
        batch = self._keep_current(call)
        if not is_group and len(blocks) > 1:
            self._flow.take_apart(stage, batch)  # which of them it is will be seen
            return
        self._flow.queues[stage].running -= len(batch)
        self.anything_died = True
        # What has failed is the next attempt's: begun anew, it would be told as failed twice.
        each = {slot.source: slot for slot in batch if slot.source not in self._flow.failed}
        events, spent = self.replays.begin(each.values())
        self._ledger.forward(events, ())
        self._fail(stage, spent, f"its data was lost: {why}", Cause.NODE_LOST)
        if _DATA_LOST not in self._control.notes:  # once: a node holds data of thousands of tasks
            self._control.notes.append(_DATA_LOST)

    def _keep_current(self, call: Call) -> list[Slot]:
        batch = self.replays.keep_current(call.batch)
        self._flow.queues[call.stage].running -= len(call.batch) - len(batch)
        return batch

    def _is_memory(self, error: Exception) -> bool:
        kills = self._control.take_memory_kills()
        return bool(kills) or isinstance(error, OutOfMemoryError) or "low on memory" in str(error)

    def _count_exposed(self, worker: Worker, error: Exception, *, is_memory: bool) -> int:
        """Return sources of which one may have ended the worker; 0 where none has."""
        if not worker.calls or _is_node_death(error):
            return 0  # suspected, what a lost node had would be tried one by one for nothing
        if is_memory:  # whoever grew may be with any worker of this machine
            return len(self._pools.list_sources())
        # Out of reach, most likely with its node, which is known too late to wait for: what it had
        # is tried apart, and none of it is blamed.
        least = 2 if isinstance(error, ActorUnavailableError) else 1
        return max(least, len(worker.sources))

    def _count_turns(self, calls: list[Call]) -> int:
        """Return how often a task of lost calls was with a worker that went out of reach."""
        tasks = [slot.token for call in calls for slot in call.batch]
        self._out_of_reach.update(tasks)
        return max((self._out_of_reach[task] for task in tasks), default=0)

    def _check_streak(self, stage: int, why: str, cause: Cause) -> None:
        pool = self._pools[stage]
        if pool.streak.causes >= DEATHS_PER_POOL:
            deaths, culprit = pool.streak.causes, pool.streak.culprit
            name = pool.plan.name if culprit is None else self._name(stage, culprit)
            msg = f"stage {name!r} lost {deaths} workers in a row; the last: {why}"
            broken = PoolBrokenError(msg)
            if cause is not Cause.KILLED:  # else the next attempt would get no more memory
                broken.cause = cause
            raise broken

    def _fail(self, stage: int, slots: list[Slot], message: str, cause: Cause) -> None:
        name = self._name(stage, slots[0].link) if slots else ""
        if slots and cause is Cause.OOM_KILLED:  # the next attempt gets more for that stage
            self._control.memory_failures.append(name)
        failures = [
            Failure(slot.source, slot.key, slot.token, name, message, cause.value) for slot in slots
        ]
        self._flow.fail(failures)
        self._ledger.forward((), failures)

    def _name(self, chain: int, link: int) -> str:
        return self._flow.queues[chain].stages[link].name


def is_of_node(error: Exception) -> bool:
    """Return whether the node of a lost worker is to blame, or may be.

    When a node dies, its workers are first out of reach; only later it is known why.
    """
    return isinstance(error, ActorUnavailableError) or _is_node_death(error)


def _is_node_death(error: Any) -> bool:  # noqa: ANN401 - one of Ray's
    return isinstance(error, NodeDiedError) or "node has died" in str(error)
