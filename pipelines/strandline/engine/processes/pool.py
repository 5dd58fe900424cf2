"""The forked workers of every chain, and their calls.

The driver decides what a lost worker means for the run. The module must not depend on queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from strandline.engine.call.setup import PackedStage, WorkerSite, find_folder, remove
from strandline.engine.core.call_size import CALL_SECONDS
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.loop.pooled_calls import PooledCalls
from strandline.engine.processes.fork_client import Fork, ForkServer
from strandline.engine.processes.worker import (
    CallRequest,
    GiveBack,
    LeaveWork,
    NextPartRequest,
    Split,
    WorkerTerms,
)
from strandline.engine.worker.worker_page import WorkerAddress
from strandline.storage.outputs.ports import OutputLocation
from strandline.storage.volume.inflight import InFlightTable


class Word(NamedTuple):
    """A message from a worker.

    Attributes:
        kind: kind of the message; None if the worker has died.
        content: content of the message.
        size: bytes of the message as sent.
    """

    worker: Worker
    kind: int | None
    content: Any = None
    size: int = 0


class ForkedPools(PooledCalls):
    """All pools of a run.

    Args:
        server: starts workers.
        terms: instructions for all workers.
        most: maximum workers of a chain.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        server: ForkServer,
        terms: WorkerTerms,
        most: int,
        inflight: InFlightTable | None,
        now: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        super().__init__(chains, inflight, now, report)
        self._terms = terms
        self._most = most
        self._server = server

    def start_wanted(self, stage: int, waiting: int) -> None:
        """Start a worker for each call that would otherwise wait, within the limits."""
        pool = self[stage]
        most = max(self._most, pool.plan.min_workers)
        bound = min(most, pool.plan.max_workers or most)
        idle = sum(not worker.calls and not worker.is_draining for worker in pool.workers)
        # Round up: an incomplete batch needs a call too.
        calls = -(-waiting // (pool.plan.group or pool.plan.batch_size))
        for _ in range(min(bound - len(pool.workers), calls - idle)):
            self._start_worker(stage)

    def _start_worker(self, stage: int) -> None:
        fork = self._server.fork(stage)
        worker = Worker(stage, fork, begun=self._now(), page=fork.page)
        worker.settle(WorkerAddress(self._terms.node), self._terms.node)
        self.add(worker)

    def bound_calls(self, stage: int, waiting: int, link: int = 0, *, is_all: bool = False) -> int:
        """See `SizedPools.bound_calls`."""
        seconds = self[stage].costs[link].seconds
        # Give a worker only one slow call, so that a second call does not wait while another worker
        # is idle.
        if seconds is None or seconds > CALL_SECONDS:
            return 1
        return super().bound_calls(stage, waiting, link, is_all=is_all)

    def listen(self, limit: float) -> Iterator[Word]:
        """Yield messages from workers, waiting for the first message.

        Args:
            limit: maximum seconds to wait.

        Raises:
            ForkServerLostError: if no more workers can be started.
        """
        until, has_words = self._now() + limit, False
        while not has_words:
            left = until - self._now()
            for word in self._read_ready(max(0.0, left)):
                has_words = True
                yield word
            if left <= 0:
                return

    def _read_ready(self, limit: float) -> Iterator[Word]:
        """Yield complete messages. A large message may be incomplete, and is yielded later."""
        workers = {worker.actor.line: worker for worker in self.list_workers()}
        lines: list[Any] = [*workers, self._server]
        ready: set[Any] = set(wait(lines, limit))
        if self._server in ready:
            self._server.read_words()
        for line, worker in workers.items():
            is_over = worker.actor.exit_code is not None
            if (is_over or line in ready) and self.has(worker):
                word = _read_word(worker)
                if word is not None:
                    yield word

    def await_end(self, worker: Worker) -> int | None:
        """Wait for a dead worker's exit code; see `ForkServer.await_end`."""
        return self._server.await_end(worker.actor)

    def stop(self) -> None:
        """See `PooledCalls.stop`."""
        super().stop()
        self._server.stop()
        remove(find_folder(*self._terms.site, self._terms.node))

    def _send(self, call: Call) -> tuple[Worker, int]:
        tasks = [slot.block[slot.position] for slot in call.batch]
        handed = {slot.token: slot.handed for slot in call.batch if slot.handed}
        call.worker.actor.send(CallRequest(call.number, call.entry, tasks, handed))
        return call.worker, call.number

    def _ask_on(self, call: Call, left: bytes | None) -> tuple[Worker, int]:
        call.worker.actor.send(NextPartRequest(left))
        return call.worker, call.number

    def _ask_back(self, call: Call) -> None:
        call.worker.actor.send(GiveBack(call.number))

    def _ask_split(self, call: Call) -> None:
        call.worker.actor.send(Split(call.number))

    def _ask_leave(self, worker: Worker) -> None:
        worker.actor.send(LeaveWork())

    def _kill(self, worker: Worker) -> None:
        fork: Fork = worker.actor
        fork.kill()


def _read_word(worker: Worker) -> Word | None:
    try:
        message = worker.actor.read()
    except (EOFError, OSError):
        return Word(worker, None)
    if message is None:
        return None
    kind, content = message.content
    return Word(worker, kind, content, message.size)


def write_terms(
    chains: Sequence[Chain],
    outputs: OutputLocation,
    site: WorkerSite,
    node: str,
    dumps: Callable[..., bytes],
) -> WorkerTerms:
    """Assemble the configuration of the workers of these chains.

    Args:
        node: the id of this machine.
        dumps: pickles the stages and their data.
    """
    packed = [[PackedStage(stage.name, dumps(stage)) for stage in chain.stages] for chain in chains]
    joins = [
        any(later.plan.group for later in chains[number + 1 :]) for number in range(len(chains))
    ]
    return WorkerTerms(packed, joins, outputs, site, node, dumps)
