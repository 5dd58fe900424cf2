"""The engine for one machine: the same flow as on Ray, with forked workers.

Ray is still necessary for GPUs, reserved memory, environments, workers with more than one core, and
more than one node.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from strandline.engine.call.payloads import Dumps
from strandline.engine.call.setup import FirstTimes, WorkerSite
from strandline.engine.call.wire import Plain, pack_tasks
from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.pools import DEATHS_PER_TASK
from strandline.engine.core.ports import Control, Ending, Listing
from strandline.engine.core.workers import Worker
from strandline.engine.flow.chains import Chain, cut_chains
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.admission import ThreadAdmission
from strandline.engine.loop.loop import EngineLoop
from strandline.engine.loop.pooled import PooledTransport
from strandline.engine.loop.transport import RunState
from strandline.engine.own_ledger import draining_after_faults, opened_ledger
from strandline.engine.preemption.last_words import explain_crash, explain_hang, judge_end
from strandline.engine.processes.bounds import find_beyond
from strandline.engine.processes.fork_client import ForkServer, ForkServerLostError, explain_end
from strandline.engine.processes.losses import ForkLosses
from strandline.engine.processes.pool import ForkedPools, Word, write_terms
from strandline.engine.processes.worker import ERROR, READY, RETURNED, SPLIT
from strandline.ledger.access.session import LedgerSession
from strandline.ledger.location import LedgerLocation
from strandline.plan.pipeline import PipelinePlan
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.documents.problems import Problem
from strandline_api.outcome.causes import Cause

_NODE = "here"


@dataclass(frozen=True, slots=True)
class ProcessEngine:
    """The engine with forked workers.

    Attributes:
        outputs: location of the sinks' outputs.
        workers: maximum workers of each chain; None means the number of cores that this process
            may use.
        dumps: pickles stages and their data for another process.
        session: the ledger session of this process; None tracks nothing.
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
            chains = cut_chains(plan.stages)
            flow, drawn = Flow(plan, chains), ListingThread(listing, control.now)
            admission = ThreadAdmission(drawn, opened, flow, partial(pack_tasks, dumps=self.dumps))
            state = RunState(plan, flow, drawn, opened, admission, control)
            pools = self.start_pools(plan, chains, control)
            transport = ForkedTransport(state, admission, pools)
            with closing(transport), draining_after_faults(opened):
                return EngineLoop(state, transport).run()

    def start_pools(
        self, plan: PipelinePlan, chains: Sequence[Chain], control: Control
    ) -> ForkedPools:
        """Create the pools of a run, without workers."""
        site = WorkerSite(
            f"{plan.namespace}.{plan.name}", f"{self.outputs.writer}-{uuid4().hex[:12]}"
        )
        terms = write_terms(chains, self.outputs, site, _NODE, self.dumps)
        server = ForkServer(terms)  # loads stages while sources are listed
        # The affinity has only the cores that this process may use; `cpu_count` counts all cores.
        most = self.workers or len(os.sched_getaffinity(0))
        report = FirstTimes(control.note)
        return ForkedPools(chains, server, terms, most, control.inflight, control.now, report)


def list_refused(plan: PipelinePlan) -> Iterator[Problem]:
    """Yield a problem for each request of a plan that only Ray can serve."""
    last = len(plan.stages) - 1
    for index, stage in enumerate(plan.stages):
        at = "spec.sink" if index == last else f"spec.stages[{index}]"
        asked = stage.cpu, stage.gpu, stage.memory, stage.custom, stage.runtime_env
        for field in find_beyond(*asked):
            message = f"the engine `processes` does not support {field} for workers"
            yield Problem(at, message, "use --engine ray")


class ForkedTransport(PooledTransport):
    """A transport to forked workers, each with a socket for messages."""

    _pools: ForkedPools
    _losses: ForkLosses

    def __init__(self, state: RunState, admission: ThreadAdmission, pools: ForkedPools) -> None:
        losses = ForkLosses(state.flow, pools, state.ledger, state.control, state.incidents)
        super().__init__(state, admission, pools, losses)
        self._is_lost = False

    def turn(self) -> None:
        """See `Transport.turn`."""
        try:
            super().turn()
        except ForkServerLostError:  # a stop signal may have reached the fork server first
            if not self._control.must_stop():
                raise
            self._flow.stop()
            self._is_lost = True

    def has_calls(self) -> bool:
        """See `Transport.has_calls`."""
        return super().has_calls() and not self._is_lost

    def can_write(self) -> bool:
        """See `Transport.can_write`."""
        return len(self._flow.queues[-1]) > 0 and not self._is_lost  # else a worker can start

    def _collect(self, limit: float) -> None:
        for word in self._pools.listen(limit):
            self._take(word)
        for worker, why in self._pools.list_overdue():
            stacks = worker.ask_stacks(time.sleep)
            self._losses.take_out(worker, explain_hang(why, stacks), Cause.TIMEOUT)
        self._report_slow_calls(time.sleep)
        self._pools.relieve(self._flow.queues)

    def _take(self, word: Word) -> None:
        worker, kind, content, size = word
        if kind is None:
            code = self._pools.await_end(worker)
            why = explain_crash(explain_end(code), worker.read_crash())
            self._losses.take_out(worker, why, judge_end(code))
        elif kind == ERROR and worker.is_ready:
            raise content
        elif kind == ERROR:
            self._losses.fail_setup(worker, content)
        elif kind == READY:
            self._pools.settle(worker)
        elif kind == RETURNED:
            call = self._pools.calls[worker, content]
            self._pools.drop_call((worker, content))
            self._requeue(call)
        elif kind == SPLIT:
            self._take_split(worker, content, size)
        else:
            number, packed, answer = content
            call, receipt = self._pools.take_part((worker, number), answer, size)
            self._pools[call.stage].streak.end(call.entry)
            self._complete(call, receipt, packed)

    def _take_split(self, worker: Worker, content: Plain, size: int) -> None:
        """Accept the finished part of a split call, and requeue the returned tasks."""
        number, packed, answer, *tokens = content
        call, receipt, back = self._pools.take_split((worker, number), answer, size, *tokens)
        self._complete(call, receipt, packed)
        self._flow.requeue(call.stage, back, 0, holds=False, most_deaths=DEATHS_PER_TASK)
