"""Handles the death of a forked worker: finds the tasks that may be to blame.

The module must not depend on how workers start or receive calls.
"""

from __future__ import annotations

from strandline.engine.call.slots import WHOLE
from strandline.engine.core.pools import DEATHS_PER_POOL
from strandline.engine.core.workers import Worker
from strandline.engine.loop.losses import Fate, WorkerLosses
from strandline_api.outcome.causes import Cause


class ForkLosses(WorkerLosses):
    """Removes dead workers; replacements start when work waits for them."""

    def take_out(self, worker: Worker, why: str, cause: Cause) -> None:
        """Remove a lost worker and requeue its work.

        Args:
            why: description of the reason for the loss.
            cause: the cause of the loss.

        Raises:
            PoolBrokenError: if the pool has lost too many workers without a success in between.
        """
        if cause is Cause.KILLED and self._control.take_memory_kills():
            cause = Cause.OOM_KILLED
        entry = worker.current.entry if worker.current else WHOLE
        fate = self._judge(worker, why, cause)
        for call in self._remove(worker, fate, self._name(worker.stage, worker.link or 0)):
            self._requeue(call, call.batch, fate)
        streak = self._pools[worker.stage].streak
        streak.note(entry, fate.suspects)
        if streak.causes >= DEATHS_PER_POOL and not self._control.must_stop():
            self._break(worker.stage, why, cause)

    def _judge(self, worker: Worker, why: str, cause: Cause) -> Fate:
        current = worker.current
        if current is None:
            return Fate(why, cause, 0, set())
        suspects = set(current.sources)
        is_memory = cause is Cause.OOM_KILLED
        # After a memory kill, suspect all workers: the kernel kills the largest process, and
        # another process may have grown.
        exposed = len(self._pools.list_sources() if is_memory else suspects)
        # Calls are processed in order, so later calls can't be to blame.
        others = frozenset(call.number for call in worker.calls.values() if call is not current)
        is_sure = exposed == 1 or not is_memory
        return Fate(why, cause, exposed, suspects if is_sure else set(), others)
