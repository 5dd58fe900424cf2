"""A transport with pools of workers in other processes. Decides which worker gets a call, and when.

The module must not depend on how a worker starts, communicates, or dies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from strandline.engine.core.call_size import FileFilling
from strandline.engine.core.pools import DEATHS_PER_TASK, PoolState
from strandline.engine.core.ports import WorkCost
from strandline.engine.core.workers import Call
from strandline.engine.loop.admission import ThreadAdmission
from strandline.engine.loop.losses import WorkerLosses
from strandline.engine.loop.pooled_calls import PooledCalls
from strandline.engine.loop.transport import RunState, Transport
from strandline.engine.preemption.fitting import is_hopeless
from strandline.engine.preemption.last_words import explain_hang
from strandline.plan.receipt import Receipt

POLL_SECONDS = 0.5  # seconds to wait for a result
LISTING_SECONDS = 0.05  # seconds to wait for a slow listing


class PooledTransport(Transport):
    """Sends calls to pools of workers, the last stage first, and collects the results."""

    def __init__(
        self, state: RunState, admission: ThreadAdmission, pools: PooledCalls, losses: WorkerLosses
    ) -> None:
        super().__init__(state)
        self._admission = admission
        self._pools = pools
        self._losses = losses

    def turn(self) -> None:
        """See `Transport.turn`."""
        self._state.release_suspects()
        self._pools.level([queue.counts for queue in self._flow.queues])
        is_listing_slow = self._admit()
        self._scale()
        self._dispatch()
        self._collect(LISTING_SECONDS if is_listing_slow else POLL_SECONDS)

    def _report_slow_calls(self, sleep: Callable[[float], object]) -> None:
        """Log calls that take far longer than usual, each with the stack of its worker."""
        for worker, words in self._pools.list_slow():
            self._control.note(explain_hang(words, worker.ask_stacks(sleep)))

    def close(self) -> None:
        """See `Transport.close`."""
        self._admission.close()
        self._pools.stop()

    def must_leave(self) -> bool:
        """See `Transport.must_leave`. The run continues if a file can still be written."""
        if self._control.must_leave():
            return True
        self._pools.leave_late(self._control.find_leave())
        is_writing = self._flow.fills_files and self.can_write()
        return bool(self._pools.calls) and not is_writing and not self._awaits_calls()

    def has_calls(self) -> bool:
        """See `Transport.has_calls`."""
        return bool(self._pools.calls)

    def can_write(self) -> bool:
        """See `Transport.can_write`."""
        return self._pools.can_write(self._flow.queues[-1])

    def holds_work(self) -> bool:
        """See `Transport.holds_work`."""
        return bool(self._pools.paused)

    def has_losses(self) -> bool:
        """See `Transport.has_losses`."""
        # An abandoned call may have reported its children, but not its own end.
        return self._losses.anything_died or bool(self._pools.calls or self._pools.paused)

    def list_pools(self) -> Sequence[PoolState]:
        """See `Transport.list_pools`."""
        return self._pools.look_apart()

    def measure_work(self) -> WorkCost:
        """See `Transport.measure_work`."""
        return WorkCost(self._losses.work.worked, self._losses.work.lost)

    def lose_rest(self) -> None:
        """See `Transport.lose_rest`."""
        self._losses.work.lose_rest(self._pools.sum_busy())

    @abstractmethod
    def _collect(self, limit: float) -> None:
        """Take results of workers, waiting at most `limit` seconds for the first result."""

    def _scale(self) -> None:
        """Start and end workers, in engines with a planner."""

    def _awaits_calls(self) -> bool:
        """Return whether a pending call may end in time."""
        if not self._pools.calls:
            return False
        leave, now = self._control.find_leave(), self._control.now()
        return not is_hopeless(self._pools.list_workers(), self._pools.find_cost, leave, now)

    def _admit(self) -> bool:
        """Admit sources while they fit. Return True if the listing has no source yet."""
        room = self._pools.bound_queue(0) - len(self._flow.queues[0])
        limit = LISTING_SECONDS if self._flow.is_idle() else 0.0
        return self._admission.ask(is_full=room <= 0, limit=limit, room=room)

    def _dispatch(self) -> None:
        queues = self._flow.queues
        # Dispatch the last stage first, so that tasks leave memory before new tasks enter.
        for stage in reversed(range(len(self._pools))):
            while self._proceed(stage):
                pass  # resume paused calls before starting new calls
            if len(queues[stage]):
                self._pools.start_wanted(stage, len(queues[stage]))
            while self._pools.has_room_below(stage, queues) and self._submit(stage):
                pass

    def _proceed(self, stage: int) -> bool:
        """Resume a paused call. Return False if none is paused, or the next queue is full."""
        has_room = self._pools.has_room_below(stage, self._flow.queues)
        may_proceed = has_room and not self._flow.is_stopped
        return may_proceed and self._pools.proceed(stage, self._flow.failed)

    def _submit(self, stage: int) -> bool:
        """Send one call of a stage. Return False if no batch or no worker is available."""
        waiting, link = self._flow.look_ahead(stage)
        most = self._bound_calls(stage, waiting, link)
        if not self._pools.has_room(stage, most):
            return False
        slots, least = self._pools.size_call(stage, waiting, link), 0
        filling = self._state.find_filling(stage)
        if filling is not None:
            slots, least = self._fill(filling, stage, waiting)
        batch = self._flow.next_batch(stage, slots, least)
        if not batch:
            return False
        if filling is not None:
            filling.begin()
        self._pools.submit(stage, batch, most)
        return True

    def _fill(self, filling: FileFilling, stage: int, waiting: int) -> tuple[int, int]:
        is_over = self._is_last(stage) or (self._flow.is_stopped and not self._awaits_calls())
        return self._pools.fill(filling, waiting, self._control.now(), may_grow=not is_over)

    def _bound_calls(self, stage: int, waiting: int, link: int) -> int:
        if self._flow.has_suspects(stage):
            return 1  # a suspect must be its worker's only call
        return self._pools.bound_calls(stage, waiting, link, is_all=self._is_last(stage))

    def _is_last(self, stage: int) -> bool:
        """Return whether no further task will reach a stage."""
        return self._admission.sources_left == 0 and not self._flow.is_busy_above(stage)

    def _complete(self, call: Call, receipt: Receipt, block: object) -> None:
        """Record a part of a call's result."""
        batch, receipt = self._losses.take_current(call, receipt)
        self._losses.work.note(batch, len(call.batch) - len(batch), receipt, call.opened)
        self._state.complete(call.stage, batch, receipt, block, call.opened)

    def _requeue(self, call: Call) -> None:
        """Requeue a call's work without marking its tasks as suspects."""
        batch = self._losses.keep_current(call)
        self._flow.requeue(call.stage, batch, 0, holds=False, most_deaths=DEATHS_PER_TASK)
