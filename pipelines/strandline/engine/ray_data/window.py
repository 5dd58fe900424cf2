"""One window of sources as a Ray Dataset: every stage an operator, receipts coming out at the end.

A thread pulls the dataset, so that its waiter can look around meanwhile.
"""

from __future__ import annotations

import logging
import queue
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import ray
import ray.data
from ray import cloudpickle

from strandline.engine.call.setup import WorkerSite, find_folder, remove
from strandline.engine.call.slots import Slot
from strandline.engine.core.pools import PoolSize, size_pools
from strandline.engine.ray_data.worker import StageRows, WorkerSettings, make_rows
from strandline.ledger.tally import Tally
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import Effort, Event, Failure, Receipt, add_efforts
from strandline.storage.outputs.outputs import OutputLocation


class SettledSources(NamedTuple):
    """What is over, and all that the ledger has to hear of it."""

    events: list[Event]
    failures: list[Failure]
    finished: set[bytes]


class Window:
    """Sources by their root tasks.

    Attributes:
        open: the root of each source that is not over.
        has_finished: a source was finished.
    """

    def __init__(self, roots: Sequence[Slot]) -> None:
        self.open = {root.source: root for root in roots}
        self.has_finished = False
        self._taken: dict[bytes, list[Event]] = {source: [] for source in self.open}
        self._efforts: dict[bytes, dict[str, Effort]] = {}
        self._tally = Tally(lambda source: source not in self.open)
        self._tally.count(Event(root.source, (), (root.token,)) for root in roots)

    def take(self, receipt: Receipt) -> SettledSources:
        """Take a call's receipt; what comes after the end of a source is not listened to.

        Raises:
            NonDeterministicTaskError: a task was worked on twice and became others.
        """
        for event in receipt.events:
            if event.source in self._taken:
                self._taken[event.source].append(event)
        for source, effort in receipt.efforts:
            if source in self._taken:
                # Receipts may come after the end of their source, so no measurement is whole.
                rows = effort._replace(seconds=None, size=0)
                add_efforts(self._efforts.setdefault(source, {}), (rows,))
        failures = self._tally.fail(receipt.failures)
        for failure in failures:
            self._end(failure.source)
        finished = {source for source, _ in self._tally.count(receipt.events)}
        self.has_finished = self.has_finished or bool(finished)
        events = [event for source in sorted(finished) for event in self._end(source)]
        return SettledSources(events, failures, finished)

    def _end(self, source: bytes) -> list[Event]:
        del self.open[source]
        events, efforts = self._taken.pop(source), self._efforts.pop(source, {})
        if events and efforts:
            # The ledger does not count efforts of a duplicate, which the first event never is.
            events[0] = events[0]._replace(efforts=tuple(efforts.values()))
        return events


BLOCKS = 64
BLOCK_BYTES = 2**20
GROUP_PARTITIONS = 8
CLOSE_SECONDS = 1.0
_SETTINGS = {
    "enable_progress_bars": False,
    "print_on_execution_start": False,
    # Tasks that a call fans out are spread over workers by blocks.
    "target_max_block_size": BLOCK_BYTES,
    "target_min_block_size": 1,
}


class Windows:
    """Makes a dataset of each window.

    Args:
        sizes: workers of each stage, and the CPUs of each.
        deaths: the actor that hears what is begun.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        sizes: Sequence[PoolSize],
        outputs: OutputLocation,
        deaths: Any,  # noqa: ANN401 - an actor
    ) -> None:
        groups = [stage.group for stage in plan.stages]
        attempt = f"{outputs.writer}-{uuid4().hex[:12]}"
        self._site = WorkerSite(f"{plan.namespace}.{plan.name}", attempt)
        self._stages = [
            (
                stage,
                size,
                WorkerSettings(
                    index,
                    stage.name,
                    # Ray Data says nothing of a task before it has ended.
                    cloudpickle.dumps(replace(stage, streams=False)),
                    next(filter(None, groups[index + 1 :]), None),
                    outputs,
                    deaths,
                    self._site,
                ),
            )
            for index, (stage, size) in enumerate(zip(plan.stages, sizes, strict=True))
        ]
        self._first_group = next(filter(None, groups), None)
        self._is_on_driver = outputs.is_on_driver

    def stream(self, slots: Sequence[Slot]) -> Stream:
        """Return the receipts of a window's root tasks, as they come."""
        with _settings():
            return Stream(self._build(slots))

    def stop(self) -> None:
        """Take away what stages have noted on this node."""
        remove(find_folder(*self._site, str(ray.get_runtime_context().get_node_id())))

    def _build(self, slots: Sequence[Slot]) -> Any:  # noqa: ANN401 - a Dataset
        size = -(-len(slots) // BLOCKS)
        tasks = [slot.block[slot.position] for slot in slots]
        rows: Any = ray.data.from_arrow(
            [
                make_rows(tasks[begin : begin + size], [], self._first_group)
                for begin in range(0, len(tasks), size)
            ]
        )
        for stage, pool, position in self._stages:
            # Ray Data names an operator after its class, and so tells which stage lost a worker.
            stage_class = type(stage.name, (StageRows,), {})
            asked = {
                "fn_constructor_args": (position,),
                "batch_format": "pyarrow",
                "compute": ray.data.ActorPoolStrategy(
                    min_size=stage.min_workers, max_size=max(stage.min_workers, pool.workers)
                ),
                "num_cpus": pool.cpu,
                **self._ask(stage),
            }
            if stage.group is None:
                rows = rows.map_batches(stage_class, batch_size=stage.batch_size, **asked)
            else:
                teams = rows.groupby("team", num_partitions=GROUP_PARTITIONS)
                rows = teams.map_groups(stage_class, **asked)
        return rows

    def _ask(self, stage: StagePlan) -> dict[str, Any]:
        """Return what a stage asks for besides CPUs; only what it does."""
        asked = {
            "num_gpus": stage.gpu,
            "memory": stage.memory,
            "resources": stage.custom,
            "runtime_env": stage.runtime_env,
        }
        if stage.writes and self._is_on_driver:
            here = ray.get_runtime_context().get_node_id()
            asked["label_selector"] = {"ray.io/node-id": here}
        return {name: what for name, what in asked.items() if what}


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a stream; the error that cut it short, where one has."""

    error: BaseException | None


class Stream:
    """A dataset that is being worked on."""

    def __init__(self, dataset: Any) -> None:  # noqa: ANN401 - a Dataset
        self._dataset = dataset
        self._tables: queue.SimpleQueue[pa.Table | StreamEnd] = queue.SimpleQueue()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._pull, name="ray-data-window", daemon=True)
        self._thread.start()

    def take(self, seconds: float) -> pa.Table | StreamEnd | None:
        """Return what comes next; None where nothing came in time."""
        try:
            return self._tables.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Leave the rest; Ray Data is told so with its next answer.

        Workers should begin nothing more by now, so that it comes soon.
        """
        self._is_closed.set()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            # The thread still asks Ray, which would start a new one for it when this one is gone.
            # There is no public switch for that; where the private one is gone, the process's end
            # ends it.
            hook = getattr(getattr(ray, "_private", None), "auto_init_hook", None)
            if hook is not None:
                vars(hook)["enable_auto_connect"] = False

    def _pull(self) -> None:
        error: BaseException | None = None
        try:
            for table in self._dataset.iter_batches(
                batch_size=None, batch_format="pyarrow", prefetch_batches=0
            ):
                self._tables.put(table)
                if self._is_closed.is_set():
                    break
        except BaseException as raised:  # noqa: BLE001 - whoever takes sees to it
            error = raised
        self._tables.put(StreamEnd(error))


def size_workers(plan: PipelinePlan, cpus: float) -> list[PoolSize]:
    """Size each stage's workers, with a CPU left to Ray Data's own shuffle."""
    joins = any(stage.group for stage in plan.stages)
    return size_pools(plan.stages, max(0.0, cpus - 1.0) if joins else cpus)


@contextmanager
def quiet() -> Iterator[None]:
    """Ray Data without words of its own: what goes wrong is told by the driver, once."""
    logger = logging.getLogger("ray.data")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"ray\.data\b")
            yield
    finally:
        logger.setLevel(before)


@contextmanager
def _settings() -> Iterator[None]:
    """Ray Data's settings as this engine wants them, for the datasets that are made meanwhile."""
    context = ray.data.DataContext.get_current()
    wanted = {name: value for name, value in _SETTINGS.items() if hasattr(context, name)}
    before = {name: getattr(context, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(context, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
