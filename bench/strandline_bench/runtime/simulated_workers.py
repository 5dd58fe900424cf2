"""Simulated workers that respond immediately and account for their work on a simulated clock.

With these workers, the benchmark can time a driver's loop for more workers than a machine can run.
The clock advances by the driver's own time, and jumps to the next response while the driver would
wait. Simulated workers run no stages: each task becomes one task, and the last chain writes it.
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
from strandline.plan.receipt import EmittedTask, Event, Output, Receipt, StageCounts

NODE = "simulated"
_SITE = WorkerSite("simulated", "simulated")
_SIZE = 200  # bytes of a response


@dataclass
class Simulation:
    """The simulated clock and its pending responses.

    Attributes:
        seconds: length of a task, per chain.
        waited: seconds that the driver waited for responses.
        own: CPU seconds of the simulation itself.
        calls: number of finished calls.
    """

    seconds: Sequence[float]
    waited: float = 0.0
    own: float = 0.0
    calls: int = 0
    begun: float = field(default_factory=time.process_time)
    _due: list[tuple[float, int, SimulatedFork, CallRequest | None]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))

    def drive(self) -> float:
        """Return the driver's CPU seconds."""
        return time.process_time() - self.begun - self.own

    def read(self) -> float:
        """Return the simulated time."""
        return self.waited + self.drive()

    def plan(self, fork: SimulatedFork, request: CallRequest | None) -> None:
        """Schedule the end of a worker's next call, or its readiness if `request` is None."""
        tasks = 0 if request is None else len(request.tasks)
        fork.free_at = max(self.read(), fork.free_at) + tasks * self.seconds[fork.chain]
        heapq.heappush(self._due, (fork.free_at, next(self._numbers), fork, request))

    def proceed(self, limit: float) -> Iterator[tuple[SimulatedFork, CallRequest | None]]:
        """Advance at most `limit` seconds to the next response, and yield all due responses."""
        now = self.read()
        due = self._due[0][0] if self._due else now + limit
        self.waited += min(limit, max(0.0, due - now))
        until = max(now, due if due <= now + limit else now)
        while self._due and self._due[0][0] <= until:
            _, _, fork, request = heapq.heappop(self._due)
            yield fork, request


@dataclass(eq=False)
class SimulatedFork:
    """A simulated worker.

    Attributes:
        free_at: time at which the worker will have finished all its calls.
    """

    simulation: Simulation
    chain: int
    free_at: float = 0.0
    pid: int = 0
    page: None = None  # the call's position is never read

    def send(self, content: Any) -> None:  # noqa: ANN401 - a request
        """Accept a call."""
        self.simulation.plan(self, content)

    def kill(self) -> None:
        """Do nothing: there is no process to end."""


class SimulatedServer:
    """Starts simulated workers."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def fork(self, chain: int) -> SimulatedFork:
        """Return a worker that is ready immediately."""
        fork = SimulatedFork(self._simulation, chain)
        self._simulation.plan(fork, None)
        return fork

    def stop(self) -> None:
        """Do nothing: there is no process to end."""


class SimulatedPools(ForkedPools):
    """Pools that receive simulated responses instead of waiting for real ones."""

    def __init__(self, chains: Sequence[Chain], engine: SimulatedEngine) -> None:
        simulation = engine.simulation
        terms = WorkerTerms([], [], engine.outputs, _SITE, NODE, pickle.dumps)
        server: Any = SimulatedServer(simulation)
        most = engine.workers or 1
        super().__init__(chains, server, terms, most, None, simulation.read, lambda _: None)
        self._simulation = simulation
        self._owners: dict[SimulatedFork, Worker] = {}

    def read_driven(self) -> float:
        """Implement `PooledCalls.read_driven`."""
        return self._simulation.drive()

    def listen(self, limit: float) -> Iterator[Word]:
        """Yield the workers' messages. CPU time of this method counts as the simulation's own."""
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
    """Return the results of a call and its receipt, packed as a worker does."""
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
        EmittedTask(position, source, child, None)
        for position, ((source, _), child) in enumerate(zip(tasks, children, strict=True))
    )
    packed = [
        [None, None, source, child, task[4], None, 0]
        for task, (source, _), child in zip(request.tasks, tasks, children, strict=True)
    ]
    return packed, [*pack_receipt(Receipt(events, (), emitted, counts)), None, "", []]


@dataclass(frozen=True, slots=True)
class SimulatedEngine(ProcessEngine):
    """The process engine with simulated workers."""

    simulation: Simulation = field(default_factory=lambda: Simulation(()))

    def start_pools(
        self,
        plan: PipelinePlan,  # noqa: ARG002 - of real ones
        chains: Sequence[Chain],
        control: Control,  # noqa: ARG002 - of real ones
    ) -> ForkedPools:
        """Implement `ProcessEngine.start_pools`."""
        return SimulatedPools(chains, self)
