"""One worker of one stage: an actor that holds the stage set up and runs calls on it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from strandline.engine.execution import StageCall, explain_error
from strandline.engine.inline import StageSetupError, set_up_stage
from strandline.engine.pools import RayOptions
from strandline.engine.wire import Plain, pack_receipt, pack_tasks, unpack_task
from strandline.plan.pipeline import StagePlan
from strandline.plan.stage import Shape
from strandline.storage.locks import hold_shared
from strandline.storage.outputs import OutputStore
from strandline.storage.remote import open_outputs

Picks = list[list[int]]


class StageWorker:
    """Runs one stage's calls, one at a time; the next one's input is fetched meanwhile by Ray.

    Args:
        name: of the stage.
        plan: the pickled `StagePlan`; a class that can't be imported here is told by `prepare`.
    """

    def __init__(self, name: str, plan: bytes, options: RayOptions) -> None:
        self._name = name
        self._plan = plan
        self._options = options
        self._call: StageCall | None = None

    def prepare(self) -> str:
        """Set the stage up; returns the id of the node it is on.

        Raises:
            StageSetupError: the stage can't be imported here, or its own `setup` raised.
            VolumeError: a newer attempt has taken the output over.
        """
        try:
            plan: StagePlan = cloudpickle.loads(self._plan)
        except Exception as error:  # noqa: BLE001 - a module may raise anything
            msg = f"stage {self._name!r} can't be set up in a worker: {explain_error(error)}"
            raise StageSetupError(msg) from None
        outputs = _open_outputs(self._options) if plan.shape is Shape.SINK else None
        self._call = StageCall(set_up_stage(plan), outputs, time.perf_counter)
        return str(ray.get_runtime_context().get_node_id())

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def run(self, picks: Picks, *blocks: list[Plain]) -> tuple[list[Plain], Plain]:
        """Work on `blocks[block][place]` for each pick; new tasks and receipt, side by side."""
        assert self._call is not None  # prepare is the first call
        data, receipt = self._call.run(
            [unpack_task(blocks[block][place]) for block, place in picks]
        )
        return pack_tasks(data), pack_receipt(receipt)


def start_worker(plan: StagePlan, cpu: float, options: RayOptions) -> tuple[Any, Any]:
    """A new worker and the reference that says when it is ready."""
    actor = (
        ray.remote(StageWorker)
        .options(
            num_cpus=cpu,
            num_gpus=plan.gpu,
            memory=plan.memory,
            resources=plan.custom or None,
            runtime_env=plan.runtime_env or None,
            scheduling_strategy=_choose_node(plan, options),
            max_restarts=0,
            max_task_retries=0,
        )
        .remote(plan.name, cloudpickle.dumps(plan), options)
    )
    return actor, actor.prepare.remote()


def _choose_node(plan: StagePlan, options: RayOptions) -> Any:  # noqa: ANN401 - Ray's own kinds
    if plan.shape is Shape.SINK and options.keeps_sinks:
        here = ray.get_runtime_context().get_node_id()
        return NodeAffinitySchedulingStrategy(here, soft=False)
    return None


def _open_outputs(options: RayOptions) -> OutputStore:
    lock = options.writers_lock
    if lock is not None and Path(lock).parent.is_dir():
        hold_shared(lock)
    return open_outputs(options.output, f"{options.writer}-{os.getpid()}")
