"""One forked worker of one chain of stages: it sets them up, and answers calls in their order.

Calls are read ahead on a thread of its own, so that a driver never waits with a large one while
this process waits with an answer. It must not know queues, other workers, or what forked it.
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

# Kinds of words of a worker: ready for calls, a part of an answer, an error that ends it, a call
# that was returned, what a call at work has done without the task that takes long.
READY, ANSWER, ERROR, RETURNED, SPLIT = 0, 1, 2, 3, 4


class WorkerTerms(NamedTuple):
    """What all workers of a run are told.

    Attributes:
        chains: the stages of each.
        joins_below: for each chain, whether a stage behind it joins groups.
        node: the id of this machine.
        dumps: pickles what stages hand on.
    """

    chains: Sequence[Sequence[PackedStage]]
    joins_below: Sequence[bool]
    outputs: OutputLocation
    site: WorkerSite
    node: str
    dumps: Dumps


class CallRequest(NamedTuple):
    """A call: its number, where in the chain it begins and ends, and its packed tasks.

    Attributes:
        handed: slots that tasks have handed on before, by token, where they have.
    """

    number: int
    entry: Entry
    tasks: Sequence[Plain]
    handed: Mapping[bytes, int]


class Proceed(NamedTuple):
    """A wish for the next part of an answer.

    Attributes:
        left: the token of the task that it goes on with, where no more of it is wanted.
    """

    left: bytes | None


class GiveBack(NamedTuple):
    """A request to return the call of a number, unless it is begun."""

    number: int


class Split(NamedTuple):
    """A request to hand over all of a call at work that the task at work does not need."""

    number: int


class LeaveWork(NamedTuple):
    """A request to leave the call at work and those that wait, where a stage can do that."""


def load_chain(stages: Sequence[PackedStage]) -> list[StagePlan]:
    """Return the stages of a chain, whose modules are loaded with them.

    Raises:
        StageSetupError: one can't be imported here.
    """
    plans = [load_stage(stage, pickle.loads) for stage in stages]
    # Only what the first one yields travels on by itself: a replay begins with its tasks.
    return [plans[0], *(replace(plan, streams=False) for plan in plans[1:])]


def work(
    line: socket.socket,
    terms: WorkerTerms,
    chain: int,
    load: Callable[[], Any],
    is_stopping: Callable[[], bool],
    page: WorkerPage,
) -> None:
    """Answer calls until the driver has gone, or a stage can't go on.

    Args:
        load: returns the stages of the chain.
        is_stopping: see `FailureDoubt`.
        page: that it shares with the driver.
    """
    page.offer_stacks()
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
    """Provide the finished part of a call without its unit at work; None: nothing to part.

    Later parts of the call follow after the block. It ends with the tokens of tasks that the call
    goes on with, and of tasks that were returned.
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
    """Requests of the driver, read ahead; the process ends with its driver.

    Args:
        splitting: see `_splitting`.
        leave: has stages leave their work.
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
        self.proceeds: SimpleQueue[Proceed] = SimpleQueue()
        threading.Thread(target=self._read, name="calls", daemon=True).start()

    def take(self) -> CallRequest:
        """Return the next call, waiting for it."""
        with self._change:
            self._change.wait_for(lambda: self._calls)
            return self._calls.popleft()

    def send(self, kind: int, content: Any) -> None:  # noqa: ANN401 - plain lists and bytes
        """Send a word to the driver, from whatever thread."""
        with self._turn:
            send(self._line, (kind, content))

    def _read(self) -> NoReturn:
        try:
            while True:
                self._enter(receive(self._line).content)
        except (EOFError, OSError):
            os._exit(0)  # no driver is there that would take what a stage still makes
        finally:
            traceback.print_exc()
            os._exit(1)  # or the driver would wait for a worker that reads nothing

    def _enter(self, content: Any) -> None:  # noqa: ANN401 - any request
        if isinstance(content, Proceed):
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
        """Return a call that waits; this thread does it, since a stage may keep the other one."""
        with self._change:
            call = next((call for call in self._calls if call.number == number), None)
            if call is not None:
                self._calls.remove(call)
        if call is not None:
            self.send(RETURNED, number)
