"""Workers that answer at once and pretend that they took long, by a clock of their own.

With them the loop of a driver can be timed for more workers than a machine has processes. The
clock goes on by what the driver itself takes, and jumps to the next answer while it would wait.
They know nothing of stages: of each task comes one, and the last chain writes it.
"""

from __future__ import annotations

import heapq
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from strandline.engine.call.setup import WorkerSite
from strandline.engine.call.wire import Plain, pack_receipt
from strandline.engine.core.ports import Control
from strandline.engine.core.workers import Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.processes.engine import ProcessEngine
from strandline.engine.processes.pool import ForkedPools, Word
from strandline.engine.processes.worker import ANSWER, READY, CallRequest, WorkerTerms
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Emitted, Event, Output, Receipt, StageCounts

NODE = "simulated"
_SITE = WorkerSite("simulated", "simulated")
_SIZE = 200  # bytes of an answer


@dataclass
class Simulation:
    """What happens when.

    Attributes:
        seconds: that a task takes, of each chain.
        waited: seconds that the driver waited for an answer.
        own: seconds of a core that the simulation itself took.
        calls: that were answered.
    """

    seconds: Sequence[float]
    waited: float = 0.0
    own: float = 0.0
    calls: int = 0
    begun: float = field(default_factory=time.process_time)
    _due: list[tuple[float, int, SimulatedFork, CallRequest | None]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))

    def drive(self) -> float:
        """Return seconds of a core that the driver took."""
        return time.process_time() - self.begun - self.own

    def read(self) -> float:
        """Return the time."""
        return self.waited + self.drive()

    def plan(self, fork: SimulatedFork, request: CallRequest | None) -> None:
        """Have a worker answer when it has done all before; None: it is ready at once."""
        tasks = 0 if request is None else len(request.tasks)
        fork.free_at = max(self.read(), fork.free_at) + tasks * self.seconds[fork.chain]
        heapq.heappush(self._due, (fork.free_at, next(self._numbers), fork, request))

    def proceed(self, limit: float) -> Iterator[tuple[SimulatedFork, CallRequest | None]]:
        """Wait for the next answer, and yield all that are due by then."""
        now = self.read()
        due = self._due[0][0] if self._due else now + limit
        self.waited += min(limit, max(0.0, due - now))
        until = max(now, due if due <= now + limit else now)
        while self._due and self._due[0][0] <= until:
            _, _, fork, request = heapq.heappop(self._due)
            yield fork, request


@dataclass(eq=False)
class SimulatedFork:
    """A worker that there is not.

    Attributes:
        free_at: when it has answered all that it was handed.
    """

    simulation: Simulation
    chain: int
    free_at: float = 0.0
    pid: int = 0
    page: None = None  # nothing asks where its call is

    def send(self, content: Any) -> None:  # noqa: ANN401 - a request
        """Take a call."""
        self.simulation.plan(self, content)

    def kill(self) -> None:
        """End."""


class SimulatedServer:
    """Starts workers that there are not."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def fork(self, chain: int) -> SimulatedFork:
        """Return a worker, which is ready at once."""
        fork = SimulatedFork(self._simulation, chain)
        self._simulation.plan(fork, None)
        return fork

    def stop(self) -> None:
        """End."""


class SimulatedPools(ForkedPools):
    """Pools that are told of answers instead of waiting for them."""

    def __init__(self, chains: Sequence[Chain], engine: SimulatedEngine) -> None:
        simulation = engine.simulation
        terms = WorkerTerms([], [], engine.outputs, _SITE, NODE, pickle.dumps)
        server: Any = SimulatedServer(simulation)
        most = engine.workers or 1
        super().__init__(chains, server, terms, most, None, simulation.read, lambda _: None)
        self._simulation = simulation
        self._owners: dict[SimulatedFork, Worker] = {}

    def read_driven(self) -> float:
        """See `PooledCalls.read_driven`."""
        return self._simulation.drive()

    def listen(self, limit: float) -> Iterator[Word]:
        """Yield what workers would say; what that takes is counted as the simulation's."""
        begun = time.thread_time()
        answers = self._simulation.proceed(limit)
        words = [self._answer(fork, request) for fork, request in answers]
        self._simulation.own += time.thread_time() - begun
        yield from words

    def _answer(self, fork: SimulatedFork, request: CallRequest | None) -> Word:
        worker = self._owners.get(fork) or self._find_owner(fork)
        if request is None:
            return Word(worker, READY)
        self._simulation.calls += 1
        is_written = fork.chain + 1 == len(self)
        packed, receipt = answer(request, self._simulation.seconds[fork.chain], is_written)
        return Word(worker, ANSWER, (request.number, packed, receipt), _SIZE)

    def _find_owner(self, fork: SimulatedFork) -> Worker:
        self._owners = {worker.actor: worker for worker in self.list_workers()}
        return self._owners[fork]


def answer(request: CallRequest, seconds: float, is_written: bool) -> tuple[list[Plain], Plain]:  # noqa: FBT001
    """Return what comes of a call, and its receipt as a worker packs it."""
    tasks = [(task[2], task[3]) for task in request.tasks]
    counts = StageCounts(tasks_in=len(tasks), calls=1, seconds=seconds * len(tasks))
    counts.tasks_out = len(tasks)
    if is_written:
        events = [
            Event(source, (token,), (), (Output(token, ".parquet", _SIZE, token, 1),))
            for source, token in tasks
        ]
        return [], [*pack_receipt(Receipt(events, (), (), counts)), None, "", []]
    children = [token[::-1] for _, token in tasks]
    events = [
        Event(source, (token,), (child,))
        for (source, token), child in zip(tasks, children, strict=True)
    ]
    emitted = tuple(
        Emitted(position, source, child, None)
        for position, ((source, _), child) in enumerate(zip(tasks, children, strict=True))
    )
    packed = [
        [None, None, source, child, task[4], None, 0]
        for task, (source, _), child in zip(request.tasks, tasks, children, strict=True)
    ]
    return packed, [*pack_receipt(Receipt(events, (), emitted, counts)), None, "", []]


@dataclass(frozen=True, slots=True)
class SimulatedEngine(ProcessEngine):
    """The engine of forked workers, with workers that there are not."""

    simulation: Simulation = field(default_factory=lambda: Simulation(()))

    def start_pools(
        self,
        plan: PipelinePlan,  # noqa: ARG002 - of real ones
        chains: Sequence[Chain],
        control: Control,  # noqa: ARG002 - of real ones
    ) -> ForkedPools:
        """See `ProcessEngine.start_pools`."""
        return SimulatedPools(chains, self)
