"""The engine of one machine: the same flow as on Ray, with workers that are forked here.

Ray keeps what needs more than a core: nodes, GPUs, memory that is reserved, environments.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from strandline.engine.call.payloads import Dumps
from strandline.engine.call.setup import FirstTimes, WorkerSite
from strandline.engine.call.wire import Plain, pack_tasks
from strandline.engine.core.call_size import CALL_SECONDS, FileFilling
from strandline.engine.core.chains import Chain, cut_chains
from strandline.engine.core.flow import Flow
from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.pools import DEATHS_PER_TASK, find_heaviest
from strandline.engine.core.ports import (
    Control,
    Ending,
    Incidents,
    Listing,
    RunProgress,
    WorkCost,
    conclude,
)
from strandline.engine.core.worker_pool import Call, Worker
from strandline.engine.own_ledger import (
    Ledger,
    OwnAdmission,
    draining_after_faults,
    opened_ledger,
)
from strandline.engine.preemption.fitting import is_hopeless
from strandline.engine.preemption.last_words import explain_hang, judge_end
from strandline.engine.processes.bounds import find_beyond
from strandline.engine.processes.fork_client import ForkServer, ForkServerLostError, explain_end
from strandline.engine.processes.losses import ForkLosses
from strandline.engine.processes.pool import ForkedPools, Word, write_terms
from strandline.engine.processes.worker import ERROR, READY, RETURNED, SPLIT
from strandline.ledger.access.session import LedgerSession
from strandline.ledger.location import LedgerLocation
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Receipt
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.documents.problems import Problem
from strandline_api.outcome.causes import Cause

POLL_SECONDS = 0.5
LISTING_SECONDS = 0.05
_NODE = "here"


@dataclass(frozen=True, slots=True)
class ProcessEngine:
    """The engine with forked workers.

    Attributes:
        outputs: where the sinks write.
        workers: of each chain at most; None: as many as this process may use cores.
        dumps: pickles stages and what they hand on, so that another process can read it.
        session: the ledger, which this process opens; None: nothing is tracked.
    """

    outputs: OutputLocation
    workers: int | None = None
    dumps: Dumps = pickle.dumps
    session: LedgerSession | None = None

    def run(
        self,
        plan: PipelinePlan,
        listing: Listing,
        ledger: LedgerLocation | None,
        control: Control,
    ) -> Ending:
        """See `Engine.run`."""
        with opened_ledger(self.session, ledger, control) as opened:
            return _ProcessRun(self, plan, listing, opened, control).run()

    def start_pools(
        self, plan: PipelinePlan, chains: Sequence[Chain], control: Control
    ) -> ForkedPools:
        """Return the pools of a run, which have no workers yet."""
        site = WorkerSite(
            f"{plan.namespace}.{plan.name}", f"{self.outputs.writer}-{uuid4().hex[:12]}"
        )
        terms = write_terms(chains, self.outputs, site, _NODE, self.dumps)
        server = ForkServer(terms)  # loads stages while sources are listed
        most = self.workers or len(os.sched_getaffinity(0))
        report = FirstTimes(control.note)
        return ForkedPools(chains, server, terms, most, control.inflight, control.now, report)


def list_refused(plan: PipelinePlan) -> Iterator[Problem]:
    """Yield what a plan asks for that is not to be had without Ray."""
    last = len(plan.stages) - 1
    for index, stage in enumerate(plan.stages):
        at = "spec.sink" if index == last else f"spec.stages[{index}]"
        asked = stage.cpu, stage.gpu, stage.memory, stage.custom, stage.runtime_env
        for field in find_beyond(*asked):
            message = f"the engine processes has no {field} for workers"
            yield Problem(at, message, "use --engine ray")


class _ProcessRun:
    def __init__(
        self,
        engine: ProcessEngine,
        plan: PipelinePlan,
        listing: Listing,
        ledger: Ledger,
        control: Control,
    ) -> None:
        chains = cut_chains(plan.stages)
        self._flow = Flow(plan, chains)
        self._listing = ListingThread(listing, control.now)
        self._ledger = ledger
        self._control = control
        self._incidents = Incidents()
        pack = partial(pack_tasks, dumps=engine.dumps)
        self._admission = OwnAdmission(self._listing, ledger, self._flow, pack)
        self._pools = engine.start_pools(plan, chains, control)
        self._losses = ForkLosses(
            self._flow,
            self._pools,
            control,
            self._incidents,
            partial(ledger.forward, ()),
        )
        target = plan.stages[-1].target_bytes
        self._filling = None if target is None else FileFilling(target)

    def run(self) -> Ending:
        """See `Engine.run`."""
        try:
            with draining_after_faults(self._ledger):
                try:
                    self._work()
                except ForkServerLostError:  # a signal to all may have come before it could react
                    if not self._control.must_stop():
                        raise
                    self._flow.stop()
                return self._end()
        finally:
            self._listing.close()
            self._pools.stop()

    def _work(self) -> None:
        while not self._is_done():
            self._begin_turn()
            if self._flow.is_stopped and self._must_leave():
                return
            self._turn()

    def _turn(self) -> None:
        if self._listing.is_ended and self._flow.suspects and self._flow.is_idle():
            self._flow.release_suspects()
        self._pools.level([queue.counts for queue in self._flow.queues])
        is_listing_slow = self._admit()
        self._dispatch()
        is_waiting = is_listing_slow and not self._flow.is_stopped
        for word in self._pools.listen(LISTING_SECONDS if is_waiting else POLL_SECONDS):
            self._take(word)
        self._end_overdue()
        self._pools.relieve(self._flow.queues)

    def _is_done(self) -> bool:
        if self._pools.calls:
            return False
        if self._flow.is_stopped:
            # Results of a call that goes on are queued no more, but to fill a file.
            return not (self._flow.fills_files and len(self._flow.queues[-1]))
        if self._pools.paused:
            return False
        return self._listing.is_ended and self._flow.is_idle() and not self._flow.suspects

    def _begin_turn(self) -> None:
        """Show how far it is, and hear whether to stop."""
        self._control.heartbeat.note_progress()
        self._report()
        if self._control.must_stop() and not self._flow.is_stopped:
            self._flow.stop()

    def _must_leave(self) -> bool:
        """Return whether nothing that is under way can end in time."""
        if self._control.must_leave():
            return True
        leave, now = self._control.find_leave(), self._control.now()
        self._pools.leave_late(leave)
        return is_hopeless(self._pools.list_workers(), self._pools.find_cost, leave, now)

    def _report(self) -> None:
        self._control.report(
            RunProgress(
                self._flow,
                self._listing.listed,
                self._admission.skipped,
                self._ledger.count_finished(),
                self._listing.is_ended,
                self._incidents.sentences,
                self._pools.look_apart,
                find_heaviest(self._flow.counts),
                quarantined=self._admission.quarantined,
                measure_work=self._measure_work,
            )
        )

    def _measure_work(self) -> WorkCost:
        return WorkCost(self._losses.work.worked, self._losses.work.lost)

    def _admit(self) -> bool:
        """Take what is listed, as long as there is room; True where nothing is listed yet."""
        if self._listing.is_ended or self._flow.is_stopped:
            return False
        if len(self._flow.queues[0]) >= self._pools.bound_queue(0):
            return False
        batch = self._listing.take(LISTING_SECONDS if self._flow.is_idle() else 0.0)
        if batch is None:
            return True
        self._admission.enter(batch)
        return False

    def _dispatch(self) -> None:
        queues, failed = self._flow.queues, self._flow.failed
        for stage in reversed(range(len(self._pools))):
            has_room = partial(self._pools.has_room_below, stage, queues)
            may_proceed = not self._flow.is_stopped
            while may_proceed and has_room() and self._pools.proceed(stage, failed):
                pass  # begun calls go on before more begin
            if len(queues[stage]):
                self._pools.start_wanted(stage, len(queues[stage]))
            while has_room() and self._submit(stage):
                pass

    def _submit(self, stage: int) -> bool:
        """Hand out one call of a stage; False where none is due, or no worker can take it."""
        waiting, link = self._flow.look_ahead(stage)
        most = self._bound_calls(stage, waiting, link)
        if not self._pools.has_room(stage, most):
            return False
        slots, least = self._pools.size_call(stage, waiting, link), 0
        filling = self._filling if stage + 1 == len(self._pools) else None
        if filling is not None:
            is_over = self._is_last(stage) or (self._flow.is_stopped and not self._pools.calls)
            now = self._control.now()
            slots, least = self._pools.fill(filling, waiting, now, may_grow=not is_over)
        batch = self._flow.next_batch(stage, slots, least)
        if not batch:
            return False
        if filling is not None:
            filling.begin()
        self._pools.submit(stage, batch, most)
        return True

    def _bound_calls(self, stage: int, waiting: int, link: int) -> int:
        seconds = self._pools[stage].costs[link].seconds
        # A suspect goes to a worker that has nothing else; and what waits behind a long call, while
        # another worker has nothing to do, can't be had back.
        if self._flow.has_suspects(stage) or seconds is None or seconds > CALL_SECONDS:
            return 1
        return self._pools.bound_calls(stage, waiting, link, is_all=self._is_last(stage))

    def _is_last(self, stage: int) -> bool:
        """Return whether no more comes to a stage than waits for it."""
        return self._listing.is_ended and not self._flow.is_busy_above(stage)

    def _take(self, word: Word) -> None:
        worker, kind, content, size = word
        if kind is None:
            code = self._pools.await_end(worker)
            self._losses.take_out(worker, explain_end(code), judge_end(code))
        elif kind == ERROR and worker.is_ready:
            raise content
        elif kind == ERROR:
            self._losses.fail_setup(worker, content)
        elif kind == READY:
            self._pools.settle(worker)
        elif kind == RETURNED:
            self._take_back(worker, content)
        elif kind == SPLIT:
            self._take_split(worker, content, size)
        else:
            number, packed, answer = content
            self._complete((worker, number), packed, answer, size)

    def _take_back(self, worker: Worker, number: int) -> None:
        """Queue a call's work again that its worker has returned; nothing of it is to blame."""
        call = self._pools.calls[worker, number]
        self._pools.drop_call((worker, number))
        self._flow.requeue(call.stage, call.batch, 0, holds=False, most_deaths=DEATHS_PER_TASK)

    def _take_split(self, worker: Worker, content: Plain, size: int) -> None:
        """Take what a call has done without the task that takes long, and queue the rest of it."""
        number, packed, answer, *tokens = content
        call, receipt, back = self._pools.take_split((worker, number), answer, size, *tokens)
        self._note(call, receipt, packed)
        self._flow.requeue(call.stage, back, 0, holds=False, most_deaths=DEATHS_PER_TASK)

    def _complete(self, key: object, packed: Plain, answer: Plain, size: int) -> None:
        call, receipt = self._pools.take_part(key, answer, size)
        self._pools[call.stage].streak.end(call.entry)
        self._note(call, receipt, packed)

    def _note(self, call: Call, receipt: Receipt, packed: Plain) -> None:
        self._losses.work.note(call.batch, 0, receipt, call.opened)
        receipt = self._flow.meter.attach(receipt, self._flow.failed)
        if self._filling is not None and call.stage + 1 == len(self._pools):
            self._filling.note(receipt)
        self._flow.refuse_uniform(call.stage, receipt)
        self._ledger.forward(receipt.events, receipt.failures)
        self._flow.complete(call.stage, call.batch, receipt, packed, call.opened)

    def _end_overdue(self) -> None:
        for worker, why in self._pools.list_overdue():
            stacks = worker.ask_stacks(time.sleep)
            self._losses.take_out(worker, explain_hang(why, stacks), Cause.TIMEOUT)

    def _end(self) -> Ending:
        self._admission.end()
        if self._flow.is_stopped:  # sources that are begun and not finished begin anew
            self._losses.work.lose_rest(self._pools.sum_busy())
        self._report()  # the last turn would else never be told
        # A call that is left before its end may have reported its children and not itself.
        is_cut = bool(self._pools.calls or self._pools.paused)
        standing = self._ledger.drain(anything_died=self._losses.anything_died or is_cut)
        pools, work = self._pools.look_apart(), self._measure_work()
        return conclude(standing, self._flow, self._listing, pools, self._incidents, work)
