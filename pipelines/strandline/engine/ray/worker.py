"""One worker of one stage: an actor that holds the stage set up and runs calls on it.

Ray fetches what a call needs and gives each call a thread, which reads its input and spells its
answer; the stage itself runs on one thread of its own, in the order in which calls were sent.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from strandline.engine.call.handover import Unreadable, pack_answers, read_input
from strandline.engine.call.memory_watch import MemoryWatch, choose_limits, read_own_memory
from strandline.engine.call.setup import (
    find_folder,
    has_node_setup,
    name_setup_error,
    set_up_node,
    set_up_once,
    set_up_stage,
    sweep,
)
from strandline.engine.call.stage_call import StageCall
from strandline.engine.call.wire import Plain, pack_receipt, pack_tasks
from strandline.engine.call.worker_loop import WorkerLoop
from strandline.engine.core.pools import CALLS_PER_WORKER, RayOptions
from strandline.plan.pipeline import StagePlan
from strandline.plan.stage import Shape
from strandline.plan.task import Task
from strandline.storage.outputs.outputs import OutputStore
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.locks import hold_shared

Picks = list[list[int]]

CONTROL = "control"
# A call that is done needs the interpreter a few times to be answered; the stage may be at work on
# the next one, and by default keeps it for 5 ms each time.
_SWITCH_SECONDS = 0.0002
_PACK = partial(pack_tasks, dumps=cloudpickle.dumps)


class Site(NamedTuple):
    """Which pipeline and attempt a worker belongs to; both are good in the name of a file."""

    pipeline: str
    attempt: str


class StageWorker:
    """Runs one stage's calls, one at a time, by their number; setting up is number 0.

    Args:
        name: of the stage.
        plan: the pickled `StagePlan`; a class that can't be imported here is told by `prepare`.
    """

    def __init__(self, name: str, plan: bytes, options: RayOptions, site: Site) -> None:
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._name = name
        self._plan = plan
        self._options = options
        self._site = site
        self._loop = WorkerLoop()
        self._call: StageCall | None = None
        self._watch: MemoryWatch | None = None

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def find_node(self) -> str:
        """The id of the node it is on, told before it is set up."""
        return str(ray.get_runtime_context().get_node_id())

    def prepare(self) -> str:
        """Set the stage up; returns the id of the node it is on.

        Raises:
            StageSetupError: the stage can't be imported here, or its own `setup` raised.
            VolumeError: a newer attempt has taken the output over.
        """
        node = str(ray.get_runtime_context().get_node_id())
        self._loop.run(0, lambda: self._set_up(node))
        return node

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def run(self, number: int, picks: Picks, *blocks: list[Plain]) -> tuple[list[Plain], Plain]:
        """Work on `blocks[block][place]` for each pick; new tasks and receipt, side by side.

        Args:
            number: of the call, from `pools.FIRST_CALL`; the one before is worked on first.

        Returns:
            The receipt ends with why this worker should be replaced; see `MemoryWatch.look`.
        """
        tasks, unreadable = read_input(blocks[block][place] for block, place in picks)
        data, receipt, word = self._loop.run(number, lambda: self._work(tasks, unreadable))
        _, packed, receipt = pack_answers(self._name, data, receipt, _PACK)
        return packed, [*pack_receipt(receipt), word]

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def skip(self, number: int) -> None:
        """The call of that number will never come: what it needs is lost."""
        self._loop.skip(number)

    def _set_up(self, node: str) -> None:
        try:
            plan: StagePlan = cloudpickle.loads(self._plan)
        except Exception as error:  # noqa: BLE001 - a module may raise anything
            what = f"stage {self._name!r} can't be set up in a worker"
            raise name_setup_error(what, error) from None
        if has_node_setup(plan):
            folder = find_folder(*self._site, node)
            sweep(folder)
            set_up_once(folder, plan.name, lambda: set_up_node(plan, socket.gethostname()))
        outputs = _open_outputs(self._options) if plan.shape is Shape.SINK else None
        self._call = StageCall(set_up_stage(plan), outputs, time.perf_counter)
        limits = choose_limits(plan.max_age, plan.max_memory, plan.memory)
        self._watch = MemoryWatch(limits, time.monotonic, read_own_memory)
        # What is loaded by now stays; a search for garbage would look at all of it every time.
        gc.freeze()

    def _work(self, tasks: list[Task], unreadable: list[Unreadable]) -> tuple[Any, Any, str]:
        assert self._call is not None  # it is set up first
        assert self._watch is not None
        return *self._call.run(tasks, unreadable), self._watch.look()


# One for all workers: Ray spells a class anew, 33 ms in the driver, for each that `remote` makes.
_ACTOR_CLASS = ray.remote(concurrency_groups={CONTROL: 1})(StageWorker)


def start_worker(
    plan: StagePlan, cpu: float, options: RayOptions, site: Site, node: str | None = None
) -> tuple[Any, Any, Any]:
    """A new worker, and the references that say when it has begun and when it is ready.

    Args:
        node: the id of one where there should be room; elsewhere does too.
    """
    actor = _ACTOR_CLASS.options(
        num_cpus=cpu,
        num_gpus=plan.gpu,
        memory=plan.memory,
        resources=plan.custom or None,
        runtime_env=plan.runtime_env or None,
        scheduling_strategy=_choose_node(plan, options, node),
        max_concurrency=CALLS_PER_WORKER + 1,  # and `prepare`
        max_restarts=0,
        max_task_retries=0,
    ).remote(plan.name, cloudpickle.dumps(plan), options, site)
    return actor, actor.find_node.remote(), actor.prepare.remote()


def _choose_node(plan: StagePlan, options: RayOptions, node: str | None) -> Any:  # noqa: ANN401 - Ray's own kinds
    if plan.shape is Shape.SINK and options.keeps_sinks:
        here = ray.get_runtime_context().get_node_id()
        return NodeAffinitySchedulingStrategy(here, soft=False)
    if node is not None:
        return NodeAffinitySchedulingStrategy(node, soft=True)
    return "SPREAD"


def _open_outputs(options: RayOptions) -> OutputStore:
    lock = options.writers_lock
    if lock is not None and Path(lock).parent.is_dir():
        hold_shared(lock)
    return open_outputs(options.output, f"{options.writer}-{os.getpid()}")
