"""A forked worker of one chain of stages: sets up the stages, and processes calls in order.

A separate thread reads calls ahead. Otherwise, a driver that sends a large call and a worker that
sends a large result would wait for each other. The module must not depend on queues, other workers,
or the process that forked the worker.
"""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn

from strandline.engine.call.doubt import FailureDoubt
from strandline.engine.call.handover import read_input
from strandline.engine.call.payloads import Dumps
from strandline.engine.call.setup import PackedStage, WorkerSite, load_stage
from strandline.engine.call.slots import Entry
from strandline.engine.call.wire import Plain, pack_receipt
from strandline.engine.processes.frames import receive, send
from strandline.engine.worker.chain_worker import ChainWorker
from strandline.engine.worker.worker_page import WorkerPage
from strandline.plan.errors import StageInterruptedError, StrandlineError
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Receipt, StageCounts
from strandline.storage.outputs.ports import OutputLocation

# Kinds of messages from a worker: ready for calls, a part of a result, a fatal error, a returned
# call, and the finished part of a split call.
READY, ANSWER, ERROR, RETURNED, SPLIT = 0, 1, 2, 3, 4


class WorkerTerms(NamedTuple):
    """Configuration of all workers of a run.

    Attributes:
        chains: the stages of each chain.
        joins_below: for each chain, whether a later stage joins groups.
        outputs: location of the sinks' outputs.
        site: the pipeline and attempt of the workers.
        node: the id of this machine.
        dumps: pickles the data between stages.
    """

    chains: Sequence[Sequence[PackedStage]]
    joins_below: Sequence[bool]
    outputs: OutputLocation
    site: WorkerSite
    node: str
    dumps: Dumps


class CallRequest(NamedTuple):
    """A call: its number, the stages at which it begins and ends, and its packed tasks.

    Attributes:
        handed: by token, how many slots of a task's output were already passed on; zeros are
            omitted.
    """

    number: int
    entry: Entry
    tasks: Sequence[Plain]
    handed: Mapping[bytes, int]


class NextPartRequest(NamedTuple):
    """A request for the next part of a result.

    Attributes:
        left: the token of the current task if its output is no longer needed; otherwise None.
    """

    left: bytes | None


class GiveBack(NamedTuple):
    """A request to return a call, given by its number, unless the call has begun."""

    number: int


class Split(NamedTuple):
    """A request to return all tasks of a running call that its current unit does not need."""

    number: int


class LeaveWork(NamedTuple):
    """A request to abandon the running call and waiting calls, if a stage supports that."""


def load_chain(stages: Sequence[PackedStage]) -> list[StagePlan]:
    """Load the stages of a chain, and thereby import their modules.

    Raises:
        StageSetupError: if a stage can't be imported here.
    """
    plans = [load_stage(stage, pickle.loads) for stage in stages]
    # Let only the first stage stream its output, because a replay begins with the first stage's
    # tasks.
    return [plans[0], *(replace(plan, streams=False) for plan in plans[1:])]


def work(
    line: socket.socket,
    terms: WorkerTerms,
    chain: int,
    load: Callable[[], Any],
    is_stopping: Callable[[], bool],
    page: WorkerPage,
) -> None:
    """Process calls until the driver closes the socket, or a stage can't continue.

    Args:
        line: socket to the driver.
        chain: index of the chain.
        load: returns the stages of the chain.
        is_stopping: see `FailureDoubt`.
        page: the page shared with the driver.
    """
    page.offer_stacks()
    page.record_crash()
    joins_below, dumps = terms.joins_below[chain], terms.dumps
    try:
        worker = ChainWorker(
            load(), terms.outputs, terms.site, terms.node, page, dumps, joins_below=joins_below
        )
    except StrandlineError as error:
        send(line, (ERROR, error))
        return
    doubt = FailureDoubt(is_stopping, time.monotonic)
    requests = _Requests(line, partial(_splitting, worker, doubt), worker.leave)
    requests.send(READY, None)
    while True:
        _answer(worker, requests, doubt)


def _answer(worker: ChainWorker, requests: _Requests, doubt: FailureDoubt) -> None:
    number, entry, packed, handed = requests.take()
    tasks, unreadable = read_input(packed)
    try:
        for made in worker.run(number, entry, tasks, unreadable, handed):
            content = [number, *worker.pack_answer(made)]
            if doubt.concerns(made.part.receipt):
                requests.send(RETURNED, number)
                return
            requests.send(ANSWER, content)
            if made.part.opened is not None:
                left = requests.proceeds.get().left
                if left is not None:
                    worker.call.leave(left)
    except StageInterruptedError:
        requests.send(RETURNED, number)
    except StrandlineError as error:
        if doubt.is_on():
            requests.send(RETURNED, number)
        else:
            requests.send(ERROR, error)


@contextmanager
def _splitting(worker: ChainWorker, doubt: FailureDoubt, number: int) -> Iterator[Plain | None]:
    """Provide the finished part of a call without its current unit, or None if it can't be split.

    Later parts of the call are sent after the block. Two lists follow the part: the tokens of the
    tasks that the call keeps, and the tokens of the tasks that were returned.
    """
    if number != worker.number:
        yield None
        return
    with worker.call.splitting() as split:
        if split is None or number != worker.number:
            yield None
            return
        part, kept_tokens, idle_tokens = split
        if doubt.concerns(part.receipt):
            nothing = pack_receipt(Receipt((), (), (), StageCounts()))
            yield [number, [], [*nothing, None, "", []], kept_tokens, None]
            return
        packed, receipt = worker.pack(part)
        yield [number, packed, [*receipt, None, "", []], kept_tokens, idle_tokens]


class _Requests:
    """Requests of the driver, which a thread reads ahead. If the driver ends, the process ends.

    Args:
        splitting: see `_splitting`.
        leave: makes stages abandon their work.
    """

    def __init__(
        self,
        line: socket.socket,
        splitting: Callable[[int], AbstractContextManager[Plain | None]],
        leave: Callable[[], None],
    ) -> None:
        self._line = line
        self._splitting = splitting
        self._leave = leave
        self._calls: deque[CallRequest] = deque()
        self._change = threading.Condition()
        self._turn = threading.Lock()
        self.proceeds: SimpleQueue[NextPartRequest] = SimpleQueue()
        threading.Thread(target=self._read, name="calls", daemon=True).start()

    def take(self) -> CallRequest:
        """Wait for the next call and return it."""
        with self._change:
            self._change.wait_for(lambda: self._calls)
            return self._calls.popleft()

    def send(self, kind: int, content: Any) -> None:  # noqa: ANN401 - plain lists and bytes
        """Send a message to the driver, from any thread."""
        # Lock: parts of results and returned calls are sent from different threads.
        with self._turn:
            send(self._line, (kind, content))

    def _read(self) -> NoReturn:
        try:
            while True:
                self._enter(receive(self._line).content)
        except (EOFError, OSError):
            os._exit(0)  # the driver is gone, so results are useless
        finally:
            traceback.print_exc()
            os._exit(1)  # otherwise the driver would wait for a worker that no longer reads

    def _enter(self, content: Any) -> None:  # noqa: ANN401 - any request
        if isinstance(content, NextPartRequest):
            self.proceeds.put(content)
        elif isinstance(content, GiveBack):
            self._give_back(content.number)
        elif isinstance(content, LeaveWork):
            self._leave()
        elif isinstance(content, Split):
            with self._splitting(content.number) as split:
                if split is not None:
                    self.send(SPLIT, split)
        else:
            with self._change:
                self._calls.append(content)
                self._change.notify()

    def _give_back(self, number: int) -> None:
        """Return a waiting call to the driver. A stage may block the main thread meanwhile."""
        with self._change:
            call = next((call for call in self._calls if call.number == number), None)
            if call is not None:
                self._calls.remove(call)
        if call is not None:
            self.send(RETURNED, number)
