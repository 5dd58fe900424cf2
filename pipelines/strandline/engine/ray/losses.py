"""Handles a lost worker on Ray: requeues its work, and records what may be to blame.

The loss of a single worker never ends an attempt. A task that ends three workers fails its source,
and a pool that keeps losing workers ends the attempt. Memory kills differ from crashes: the kernel
may have killed another process than the one that grew, so the work is retried separately.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    WorkerCrashedError,
)

from strandline.engine.call.slots import WHOLE, Slot
from strandline.engine.core.pools import DEATHS_PER_POOL, DEATHS_PER_TASK
from strandline.engine.core.ports import Control, Incidents
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.losses import Fate, WorkerLosses, may_be_of_node
from strandline.engine.preemption.blame import Blame, WorkerDeath
from strandline.engine.preemption.last_words import explain_death, find_death_cause
from strandline.engine.preemption.nodes import DEATH_SECONDS, SILENCE_SECONDS, LostNodes
from strandline.engine.preemption.replays import REPLAYS_PER_SOURCE, Replays
from strandline.engine.ray.connection import first_line
from strandline.engine.ray.ledger_actor import RayLedger
from strandline.engine.ray.pool import RayPools
from strandline.engine.ray.worker import read_end
from strandline.plan.receipt import Receipt
from strandline_api.outcome.causes import Cause

LOSSES = (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    OutOfMemoryError,
    WorkerCrashedError,
)
_PROCESS_DIED = "worker process has died"  # means that the process died by itself, but not its node
_DATA_LOST = "data was lost with a node; the affected sources start again"


class OverdueError(Exception):
    """Raised if a worker exceeds the time limit of a call. The message states the limit."""


class _AccusedTasks(NamedTuple):
    """Tasks that ended too many workers, unless lost nodes turn out to be the cause.

    Attributes:
        due: time from which the cause is certain.
        message, cause: message and cause of the failure.
    """

    due: float
    stage: int
    slots: list[Slot]
    message: str
    cause: Cause


class Losses(WorkerLosses):
    """Removes lost workers. The planner decides how many workers to start.

    Args:
        marks: known facts about nodes. A caller that detects dead nodes must call `forgive`.

    Attributes:
        replays: sources that wait for a restart.
    """

    def __init__(
        self,
        flow: Flow,
        pools: RayPools,
        ledger: RayLedger,
        control: Control,
        incidents: Incidents,
        marks: LostNodes | None = None,
    ) -> None:
        super().__init__(flow, pools, ledger, control, incidents)
        self._has_noted_data = False
        self._marks = LostNodes() if marks is None else marks
        self.replays = Replays(flow)
        self._blame = Blame()
        self._accused: list[_AccusedTasks] = []
        self._breaking: dict[int, tuple[str, Cause]] = {}

    @property
    def is_judging(self) -> bool:
        """Return whether tasks wait until the cause of their workers' deaths is certain."""
        return bool(self._accused)

    def forgive(self, nodes: Collection[str]) -> None:
        """Remove all blame for the deaths of workers on nodes that have died."""
        if nodes:
            self._blame.forgive(nodes)
            self.work.forgive(nodes)
            self.replays.forgive()
            for stage in range(len(self._flow.queues)):
                self._pools[stage].streak.forgive(nodes)

    def judge(self) -> None:
        """Fail tasks that certainly ended too many workers. Requeue tasks that are not blamed.

        Raises:
            PoolBrokenError: if a pool has certainly lost too many workers without a success in
                between.
        """
        accused, self._accused, now = self._accused, [], self._control.now()
        for each in accused:
            if each.slots[0].source in self._flow.failed:
                continue
            slots = self._recount(self.replays.keep_current(each.slots))
            if not any(slot.deaths >= DEATHS_PER_TASK for slot in slots):
                self._flow.put_back(each.stage, slots)
            elif now >= each.due:
                self._fail(each.stage, slots, each.message, each.cause)
            else:
                self._accused.append(each)
        for stage in list(self._breaking):
            self._check_streak(stage)

    def fail_setup(self, worker: Worker, error: Exception) -> None:
        """See `WorkerLosses.fail_setup`."""
        # Do not count a failed setup on a leaving node, which proves nothing about other nodes.
        if self._marks.is_going(worker.node) and may_be_of_node(error):
            self._pools.remove(worker)
            self._incidents.sentences.append(f"{error}; its node is being removed")
        else:
            super().fail_setup(worker, error)

    def take_out(self, worker: Worker, error: Exception) -> None:
        """Remove a lost worker and requeue its work.

        Raises:
            PoolBrokenError: if the pool has lost too many workers without a success in between.
        """
        stage, why = worker.stage, _explain(worker, error)
        if self._marks.is_going(worker.node) and not is_of_node(error):
            error = NodeDiedError(why)  # the node may be the cause, so do not blame the tasks
        pool = self._pools[stage]
        fate = self._judge(worker, error, why)
        entry = worker.current.entry if worker.current else WHOLE
        where = pool.plan.name if worker.link is None else self._name(stage, worker.link)
        sure_at = self._find_sure_at(worker, error)
        calls = self._remove(worker, fate, where)
        # All calls are suspects: while the worker processes a call, it also reads the next input
        # and packs the last result. The calls are repeated separately, each alone on a worker.
        for call in calls:
            batch = self.keep_current(call)
            if batch:  # empty if all sources of the call restart from the root
                counted = self._recount(batch)  # `_requeue` adds this death to the count
                if fate.exposed == 1 and call.number not in fate.innocent:
                    death = WorkerDeath(worker.node, sure_at)
                    self._blame.note([slot.token for slot in batch], death)
                self._requeue(call, counted, fate)
        if not fate.is_of_node:  # otherwise a stage that kills its workers would never stop
            pool.streak.note(entry, fate.suspects, worker.node, sure_at)
        elif not (fate.cause is Cause.OOM_KILLED or _is_node_death(error)):
            # The worker became unreachable for an unknown reason. Count repetitions, because a
            # stage may make every node unreachable.
            tasks = [slot.token for call in reversed(calls) for slot in call.batch]
            turns = self._blame.note_out_of_reach(tasks, worker.node)
            pool.streak.note_again(entry, turns, worker.node, sure_at)
        self._breaking[stage] = (why, fate.cause)
        self._check_streak(stage)

    def _accuse(self, stage: int, slots: list[Slot], message: str, cause: Cause) -> None:
        """Fail slots once lost nodes are ruled out as the cause of their workers' deaths."""
        due = self._blame.find_sure_at(slot.token for slot in slots)
        self._accused.append(_AccusedTasks(due, stage, slots, message, cause))
        self.judge()

    def _recount(self, batch: list[Slot]) -> list[Slot]:
        """Return the slots, each with the number of deaths that it is still blamed for."""
        return [slot._replace(deaths=self._blame.count(slot.token)) for slot in batch]

    def _find_sure_at(self, worker: Worker, error: Exception) -> float:
        # If a node hangs as a whole, its death is noticed late.
        is_silent = isinstance(error, ActorUnavailableError | OverdueError)
        seconds = SILENCE_SECONDS if is_silent else DEATH_SECONDS
        node = "" if worker.is_here else worker.node
        return self._marks.find_sure_at(node, self._control.now(), seconds)

    def _judge(self, worker: Worker, error: Exception, why: str) -> Fate:
        current = worker.current
        if isinstance(error, OverdueError) and current is not None:
            # Only the current call can have exceeded the limit.
            others = frozenset(call.number for call in worker.calls.values() if call != current)
            suspects = set(current.sources)
            return Fate(why, Cause.TIMEOUT, len(suspects), suspects, others)
        # A memory kill on this machine does not explain the death of a node elsewhere.
        is_memory = not _is_node_death(error) and self._is_memory(error)
        exposed = self._count_exposed(worker, error, is_memory=is_memory)
        # After a memory kill, no particular source is a suspect: the kernel kills the largest
        # process, which need not be the process that grew.
        suspects = worker.sources if exposed == 1 or not is_memory else set()
        cause = Cause.OOM_KILLED if is_memory else _find_cause(worker, error)
        return Fate(why, cause, exposed, suspects, is_of_node=is_of_node(error))

    def take_current(self, call: Call, receipt: Receipt) -> tuple[list[Slot], Receipt]:
        """Return the tasks of a result and its receipt, without sources that wait for a restart."""
        self._pass_blame_on(call, receipt)
        if not self.replays:
            return call.batch, receipt
        return self.keep_current(call), self.replays.filter(receipt)

    def _pass_blame_on(self, call: Call, receipt: Receipt) -> None:
        """Blame the tasks that a suspect created within its chain for the suspect's deaths."""
        if call.entry[1]:
            batch = call.batch if call.opened is None else [*call.batch, call.opened]
            parents = {slot.source: slot.token for slot in batch}
            for emitted in receipt.emitted:
                if emitted.link:
                    self._blame.inherit(emitted.token, parents[emitted.source])

    def lose_data(self, call: Call, why: str) -> None:
        """Restart the sources whose data was lost with a call's input.

        Sources that have already restarted too often fail.
        """
        stage, blocks = call.stage, {id(slot.block) for slot in call.batch}
        is_group = self._flow.queues[stage].grouping is not None and not call.entry[0]
        batch = self.keep_current(call)
        if not is_group and len(blocks) > 1:
            self._flow.take_apart(stage, batch)  # separate calls show which block is lost
            return
        self._flow.queues[stage].running -= len(batch)
        self.anything_died = True
        # Do not restart failed sources, which would report their failure twice. The next attempt
        # retries them.
        each = {slot.source: slot for slot in batch if slot.source not in self._flow.failed}
        events, spent = self.replays.begin(each.values())
        self._ledger.forward(events, ())
        self.work.lose_sources([event.source for event in events])
        message = (
            f"its data was lost {REPLAYS_PER_SOURCE + 1} times although no node was lost: {why}"
        )
        self._fail(stage, spent, message, Cause.NODE_LOST)
        if not self._has_noted_data:  # only once: a node may hold the data of many tasks
            self._has_noted_data = True
            self._control.note(_DATA_LOST)

    def keep_current(self, call: Call) -> list[Slot]:
        """Return a lost call's slots, except slots of sources that wait for a restart."""
        batch = self.replays.keep_current(call.batch)
        self._flow.queues[call.stage].running -= len(call.batch) - len(batch)
        return batch

    def _is_memory(self, error: Exception) -> bool:
        kills = self._control.take_memory_kills()
        return bool(kills) or isinstance(error, OutOfMemoryError) or "low on memory" in str(error)

    def _count_exposed(self, worker: Worker, error: Exception, *, is_memory: bool) -> int:
        """Return the number of sources that may have ended the worker, or 0 if no source did."""
        if not worker.calls or _is_node_death(error):
            return 0  # suspicion would needlessly retry the work of a lost node one by one
        if is_memory and not isinstance(error, ActorUnavailableError):
            # Any worker of this machine may be the process that grew.
            return len(self._pools.list_sources())
        # An unreachable worker was most likely lost with its node, but that becomes known only
        # later. Return at least 2, so that its work is retried separately, but not blamed.
        least = 2 if isinstance(error, ActorUnavailableError) else 1
        return max(least, len(worker.sources))

    def _check_streak(self, stage: int) -> None:
        pool, (why, cause) = self._pools[stage], self._breaking[stage]
        if pool.streak.causes < DEATHS_PER_POOL:
            del self._breaking[stage]
        elif pool.streak.count_sure(self._control.now()) >= DEATHS_PER_POOL:
            self._break(stage, why, cause)


def is_of_node(error: Exception) -> bool:
    """Return whether the node of a lost worker is, or may be, to blame.

    When a node dies, its workers first become unreachable. The reason becomes known only later.
    """
    return isinstance(error, ActorUnavailableError) or _is_node_death(error)


def _explain(worker: Worker, error: Exception) -> str:
    """Describe why a worker was lost."""
    if not isinstance(error, ActorDiedError) or _PROCESS_DIED not in str(error):
        return first_line(error)
    return explain_death(str(error), read_end(worker.log) if worker.is_here else None)


def _find_cause(worker: Worker, error: Exception) -> Cause:
    """Return the cause of a loss that was not a memory kill."""
    if not isinstance(error, ActorDiedError) or _PROCESS_DIED not in str(error):
        return Cause.KILLED
    return find_death_cause(str(error), read_end(worker.log) if worker.is_here else "")


def _is_node_death(error: Any) -> bool:  # noqa: ANN401 - one of Ray's
    return isinstance(error, NodeDiedError) or "node has died" in str(error)
