"""Handles lost workers: requeues their work, and records which sources are suspects.

A task that ends three workers fails its source, and a chain whose workers keep dying ends the
attempt. The module must not depend on how workers start, or on how their deaths are detected.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn, TypeGuard

from strandline.engine.call.setup import PackageMissingError, StageSetupError
from strandline.engine.call.slots import Slot
from strandline.engine.core.pools import DEATHS_PER_TASK
from strandline.engine.core.ports import Control, Incidents
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.admission import LedgerPort
from strandline.engine.loop.pooled_calls import PooledCalls
from strandline.engine.preemption.lost_work import (
    WorkMeter,
    describe_loss,
    make_broken,
    name_loss,
)
from strandline.plan.receipt import Failure, Receipt
from strandline_api.outcome.causes import Cause


class Fate(NamedTuple):
    """The decision about a lost worker.

    Attributes:
        why: reason, for people.
        cause: cause of the loss.
        exposed: number of sources, any of which may have ended the worker; 0 if no source did.
        suspects: the exposed sources that count for consecutive losses of the pool.
        innocent: numbers of calls that cannot have ended the worker.
        is_of_node: whether the node may be to blame.
    """

    why: str
    cause: Cause
    exposed: int
    suspects: set[bytes]
    innocent: frozenset[int] = frozenset()
    is_of_node: bool = False


class WorkerLosses:
    """Removes lost workers and handles their work.

    Args:
        incidents: receives a sentence for each lost worker.

    Attributes:
        anything_died: whether a worker or data was lost in this attempt.
        work: measures the seconds of work, including the lost part.
    """

    def __init__(
        self,
        flow: Flow,
        pools: PooledCalls,
        ledger: LedgerPort,
        control: Control,
        incidents: Incidents,
    ) -> None:
        self._flow = flow
        self._pools = pools
        self._ledger = ledger
        self._control = control
        self._incidents = incidents
        self._unprepared: dict[int, str] = {}
        self.anything_died = False
        self.work = WorkMeter()

    def fail_setup(self, worker: Worker, error: Exception) -> None:
        """Remove a worker whose setup failed. Another worker may try, once per chain.

        Raises:
            Exception: the setup error, if this is the second failure of the chain, or if every
                worker
                would fail in the same way. The error is marked as lasting if both failures were
                equal and no worker of the chain has ever been ready.
        """
        if self._control.must_stop():  # the stop may have ended a program that the setup started
            self._pools.remove(worker)
            return
        if not may_be_of_node(error):
            raise error
        pool, text = self._pools[worker.stage], str(error)
        has_worked = pool.past > 0 or any(peer.is_ready for peer in pool.workers)
        first = self._unprepared.get(worker.stage)
        if first is not None:
            # If the chain never worked and failed twice in the same way, another attempt would fail
            # too.
            error.is_lasting = error.is_lasting and first == text and not has_worked
            raise error
        self._unprepared[worker.stage] = text
        self._pools.remove(worker)
        self._incidents.sentences.append(f"{text}; another worker is tried")

    def take_current(self, call: Call, receipt: Receipt) -> tuple[list[Slot], Receipt]:
        """Return the tasks of a result that are still valid, and the receipt for these tasks."""
        return call.batch, receipt

    def keep_current(self, call: Call) -> list[Slot]:
        """Return the slots of a lost call to requeue."""
        return call.batch

    def _remove(self, worker: Worker, fate: Fate, where: str) -> list[Call]:
        """Remove a lost worker and describe its loss. Return its calls, newest first.

        Args:
            where: the name of the stage.
        """
        seconds, over = worker.measure_work(self._control.now()), worker.over
        name = name_loss(fate.cause, is_of_node=fate.is_of_node)
        self.work.lose_call(name, seconds, worker.node)
        calls = self._pools.remove(worker)
        self.anything_died = True
        queued = sum(len(call.batch) for call in calls)
        sentence = describe_loss(where, fate.cause, over, queued, seconds, fate.why)
        self._incidents.sentences.append(sentence)
        return calls[::-1]  # newest first, so that the oldest ends up at the front of the queue

    def _requeue(self, call: Call, batch: list[Slot], fate: Fate) -> None:
        """Requeue a lost call's work. Fail the sources of tasks that ended too many workers."""
        exposed = 0 if call.number in fate.innocent else fate.exposed
        is_memory = fate.cause is Cause.OOM_KILLED
        poisoned = self._flow.requeue(
            call.stage, batch, exposed, holds=is_memory, most_deaths=DEATHS_PER_TASK
        )
        if poisoned:
            message = f"lost {DEATHS_PER_TASK} workers; the last: {fate.why}"
            self._accuse(call.stage, poisoned, message, fate.cause)

    def _accuse(self, stage: int, slots: list[Slot], message: str, cause: Cause) -> None:
        self._fail(stage, slots, message, cause)

    def _fail(self, stage: int, slots: list[Slot], message: str, cause: Cause) -> None:
        name = self._name(stage, slots[0].link) if slots else ""
        if slots and cause is Cause.OOM_KILLED:  # the next attempt gets more memory for the stage
            self._incidents.memory_failures.append(name)
        failures = [
            Failure(slot.source, slot.key, slot.token, name, message, cause.value) for slot in slots
        ]
        self._flow.fail(failures)
        self._ledger.forward((), failures)

    def _break(self, stage: int, why: str, cause: Cause) -> NoReturn:
        """End the attempt, because a pool lost too many workers without a success in between."""
        pool = self._pools[stage]
        culprit = pool.streak.culprit
        name = pool.plan.name if culprit is None else self._name(stage, culprit)
        raise make_broken(name, pool.streak.causes, why, cause)

    def _name(self, chain: int, link: int) -> str:
        return self._flow.queues[chain].stages[link].name


def may_be_of_node(error: Exception) -> TypeGuard[StageSetupError]:
    """Return whether the setup may succeed elsewhere or later. A missing package rules this out."""
    return isinstance(error, StageSetupError) and not isinstance(error, PackageMissingError)
