"""A worker of one chain of stages: an actor that sets up the stages and runs calls on them.

Ray fetches the input of a call and runs each call on a thread, which unpacks the input and packs
the result. The stages run on one separate thread, in the order in which calls were sent.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from strandline.engine.call.doubt import FailureDoubt
from strandline.engine.call.handover import read_input
from strandline.engine.call.setup import (
    PackedStage,
    WorkerSite,
    load_stage,
)
from strandline.engine.call.slots import Entry
from strandline.engine.call.wire import (
    Plain,
    pack_pages,
    pick_tasks,
    read_lineage,
)
from strandline.engine.core.pools import CALLS_PER_WORKER
from strandline.engine.core.workers import LONG_SECONDS, Call, Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.worker.chain_worker import ChainWorker, MadePart
from strandline.engine.worker.worker_loop import Answers, GivenBack, WorkerLoop
from strandline.engine.worker.worker_page import CallPosition, WorkerAddress, WorkerPage
from strandline.plan.errors import StageInterruptedError
from strandline.plan.pipeline import StagePlan
from strandline.storage.outputs.disk.own_handles import keep_own_sockets
from strandline.storage.outputs.ports import OutputLocation

Picks = list[list[int]]

CONTROL = "control"
LOG_BYTES = 16_384  # maximum bytes to read from a dead worker's log
# A finished call needs the interpreter a few times to return its result. By default, a stage that
# is working on the next call would keep the interpreter for 5 ms each time.
_SWITCH_SECONDS = 0.0002


class StageWorker:
    """Runs one chain's calls, one at a time, in numeric order. The setup has number 0.

    Args:
        stages: the packed stages of the chain. `prepare` raises an error if a class can't be
            imported
            here.
        joins_below: whether a later stage, after the chain, joins groups.
    """

    def __init__(
        self,
        stages: Sequence[PackedStage],
        outputs: OutputLocation,
        site: WorkerSite,
        *,
        joins_below: bool,
    ) -> None:
        sys.setswitchinterval(_SWITCH_SECONDS)
        # Install this handler before Ray's own handler, which raises the signal again in another
        # thread.
        faulthandler.enable(all_threads=False)
        self._page = WorkerPage.make()
        self._page.offer_stacks()
        self._stages = stages
        self._joins_below = joins_below
        self._outputs = outputs
        self._site = site
        self._loop = WorkerLoop()
        self._chain: ChainWorker | None = None
        self._doubt = FailureDoubt(lambda: False, time.monotonic)
        self._open: dict[int, Answers[MadePart]] = {}

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def find_address(self) -> WorkerAddress:
        """Return the node, log, and page of the worker. The setup need not have ended."""
        return self._find_address()

    def prepare(self) -> WorkerAddress:
        """Set up the stages. Return the node, log, and page of the worker.

        Raises:
            StageSetupError: if a stage can't be imported here, or its `setup` raised an error.
            VolumeError: if a newer attempt has taken over the outputs.
        """
        address = self._find_address()
        self._loop.run(0, lambda: self._set_up(address.node))
        return address

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def run(
        self, number: int, entry: Entry, picks: Picks, *blocks: list[Any]
    ) -> tuple[list[Any], Plain]:
        """Process the picked tasks of the blocks. Return new tasks and the receipt.

        Args:
            number: number of the call, starting at `pools.FIRST_CALL`. The call with the previous
                number
                runs first.
            entry: see `Entry`.
            picks: positions of the tasks; see `pack_batch`.

        Returns:
            See `ChainWorker.pack_answer`. Both values are empty if the call was returned.
        """
        picked = list(pick_tasks(picks, blocks))
        tasks, unreadable = read_input(picked)
        handed = {
            read_lineage(packed).token: before[0]
            for packed, (_, _, *before) in zip(picked, picks, strict=True)
            if before
        }
        assert self._chain is not None  # `prepare` runs before any call
        parts = self._chain.run(number, entry, tasks, unreadable, handed)
        try:
            return self._take(number, self._loop.begin(number, partial(self._process, parts)))
        except (GivenBack, StageInterruptedError):
            return [], []

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def proceed(self, number: int, left: bytes | None) -> tuple[list[Any], Plain]:
        """Return the next part of a paused call; see `run`.

        Args:
            number: number of the call.
            left: the token of the current task if its output is no longer needed; otherwise None.
        """
        assert self._chain is not None  # the setup precedes any call
        if left is not None:
            self._chain.call.leave(left)
        try:
            return self._take(number, self._open.pop(number))
        except StageInterruptedError:
            return [], []

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def give_back(self, number: int) -> None:
        """Withdraw a call unless it has begun. Then the pending `run` returns an empty result."""
        self._loop.give_back(number)

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def find_work(self) -> tuple[int, str, list[str], float]:
        """Return the current stage's index, its sources, and the reports of stages.

        The reports are new since the last call of this method. The last value is the number of
        seconds in which stages of the current call have waited for services.
        """
        if self._chain is None:
            return 0, "", [], 0.0
        link, over = self._chain.call.find_work()
        waited = self._page.read_wait(self._chain.number, time.perf_counter())
        return link, over, self._chain.take_sentences(), waited

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def leave(self) -> None:
        """Request that stages abandon their work, if they can. Their calls are returned."""
        if self._chain is not None:
            self._chain.leave()

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def skip(self, number: int) -> None:
        """Skip a call that will never arrive, because its input is lost."""
        self._loop.skip(number)

    def _find_address(self) -> WorkerAddress:
        return find_address()._replace(page=self._page.path)

    def _set_up(self, node: str) -> None:
        keep_own_sockets()  # Ray notices the end of this process when its sockets close
        plans = [load_stage(stage, cloudpickle.loads) for stage in self._stages]
        # Let only the first stage stream its output, because a replay begins with the first stage's
        # tasks.
        plans[1:] = [replace(plan, streams=False) for plan in plans[1:]]
        outputs, site, page, dumps = self._outputs, self._site, self._page, cloudpickle.dumps
        self._chain = ChainWorker(
            plans, outputs, site, node, page, dumps, joins_below=self._joins_below
        )
        # Exclude loaded objects, which live as long as the process, from later garbage collections.
        gc.freeze()

    def _process(self, parts: Iterator[MadePart]) -> Iterator[MadePart]:
        for made in parts:
            # If there are failures, wait for a possible stop signal, which ends this process. Then
            # the work is requeued.
            self._doubt.concerns(made.part.receipt)
            yield made

    def _take(self, number: int, answers: Answers[MadePart]) -> tuple[list[Any], Plain]:
        made = answers.take()
        assert self._chain is not None  # the setup precedes any result
        packed, receipt = self._chain.pack_answer(made)
        if made.part.opened is not None:
            self._open[number] = answers
        return pack_pages(packed), receipt


def find_address() -> WorkerAddress:
    """Return the node of this process, and the log of this process."""
    node = str(ray.get_runtime_context().get_node_id())
    try:
        return WorkerAddress(node, str(Path("/proc/self/fd/2").readlink()))
    except OSError:  # another operating system, or a stage has closed standard error
        return WorkerAddress(node)


def read_end(log: str) -> str:
    """Return the end of a log; empty if there is no log."""
    try:
        with Path(log).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            return file.read(LOG_BYTES).decode(errors="replace")
    except (OSError, ValueError):  # not a regular file, or already removed
        return ""


class LinkWatch:
    """Finds the stage of a chain, and the sources, on which a worker spends a long call.

    Only workers with long calls are queried, at intervals. A worker that hangs and holds the
    interpreter does not respond. Then the call counts for the stage at which it began.

    Args:
        now: returns seconds from any fixed point.
        report: receives the reports of stages.
    """

    def __init__(self, now: Callable[[], float], report: Callable[[str], None]) -> None:
        self._now, self._report = now, report
        self._asked: dict[Any, tuple[Worker, Call]] = {}
        self._due = 0.0

    def look(self, workers: Iterable[Worker]) -> None:
        """Record the responses that have arrived, and query workers with long calls."""
        self._take_answers()
        now = self._now()
        if now < self._due:
            return
        self._due = now + LONG_SECONDS
        silent = {worker for worker, _ in self._asked.values()}
        for worker in workers:
            if worker.current and worker not in silent and worker.is_long(now):
                self._asked[worker.actor.find_work.remote()] = (worker, worker.current)

    def _take_answers(self) -> None:
        waiting = list(self._asked)
        if not waiting:
            return
        answered, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        for reference in answered:
            worker, call = self._asked.pop(reference)
            with suppress(RayError):  # the death of the worker is handled with its call
                link, over, sentences, waited = ray.get(reference)
                worker.located = CallPosition(call.number, link, over, waited)
                for sentence in sentences:
                    self._report(sentence)


# Use a single class for all workers: Ray serializes every class that `remote` creates, which takes
# 33 ms in the driver.
_ACTOR_CLASS = ray.remote(concurrency_groups={CONTROL: 1})(StageWorker)


def start_worker(
    chain: Chain,
    cpu: float,
    outputs: OutputLocation,
    site: WorkerSite,
    node: str | None = None,
    *,
    joins_below: bool = False,
) -> tuple[Any, Any, Any]:
    """Start a worker. Return its actor, and the references that resolve on its start and setup.

    Args:
        chain: the chain of the worker.
        cpu: cores that the worker reserves.
        outputs: location of the sinks' outputs.
        site: the pipeline and attempt of the worker.
        node: id of a node that should have capacity; another node is also accepted.
        joins_below: whether a later stage, after the chain, joins groups.
    """
    plan = chain.plan
    stages = [PackedStage(stage.name, cloudpickle.dumps(stage)) for stage in chain.stages]
    actor = _ACTOR_CLASS.options(
        num_cpus=cpu,
        num_gpus=plan.gpu,
        memory=plan.memory,
        resources=plan.custom or None,
        runtime_env=plan.runtime_env or None,
        scheduling_strategy=_choose_node(plan, outputs, node),
        max_concurrency=CALLS_PER_WORKER + 1,  # plus `prepare`
        max_restarts=0,
        max_task_retries=0,
    ).remote(stages, outputs, site, joins_below=joins_below)
    return actor, actor.find_address.remote(), actor.prepare.remote()


def _choose_node(plan: StagePlan, outputs: OutputLocation, node: str | None) -> Any:  # noqa: ANN401 - Ray's own kinds
    if plan.writes and outputs.is_on_driver:
        here = ray.get_runtime_context().get_node_id()
        return NodeAffinitySchedulingStrategy(here, soft=False)
    if node is not None:
        return NodeAffinitySchedulingStrategy(node, soft=True)
    return "SPREAD"
