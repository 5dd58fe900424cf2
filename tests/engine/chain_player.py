"""Plays pipelines in one process, with real queues and calls, in chains that a test chooses."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from strandline.engine.call.handover import pack_answers, read_input
from strandline.engine.call.slots import Slot as Waiting
from strandline.engine.call.slots import split_opened
from strandline.engine.call.stage.receipts import CallPart
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import pack_receipt, pack_tasks, unpack_receipt
from strandline.engine.flow.chains import Chain
from strandline.engine.flow.flow import Flow
from strandline.engine.worker.chain_call import ChainCall
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.receipt import Event, Piece, Receipt
from strandline.plan.stages.stage import Stage, StatefulFilter
from strandline.plan.task import FailedTask, Lineage, NoneTask, Slot, Task
from strandline.plan.token import derive_root, digest_key
from strandline.storage.errors import VolumeError


class Pass(Stage):
    """Appends to the task's list of numbers in place, and passes the task on."""

    def process(self, task: Task) -> Task:
        """Return the same task with its list changed."""
        task.data.append(len(task.data))
        self.count("passed")
        return task


class Drop(Stage):
    """Drops one task in three."""

    def process(self, task: Task) -> Task | None:
        """Return the same task, or None."""
        return None if sum(task.data) % 3 == 0 else task


class Spread(Stage):
    """Fans out into as many tasks as the last number requests. Some of the tasks are missing."""

    def process(self, task: Task) -> list[Slot]:
        """Return tasks that share a list, so a change of one task must not reach the others."""
        shared = list(task.data)
        slots: list[Slot] = [
            None if index % 4 == 1 else Task(shared) for index in range(task.data[-1] % 6)
        ]
        return [NoneTask() if slot is None and len(slots) % 2 else slot for slot in slots]


class SpreadSlowly(Stage):
    """`Spread` as a generator."""

    def process(self, task: Task):  # type: ignore[no-untyped-def]  # noqa: ANN201
        """Yield tasks."""
        for index in range(task.data[-1] % 7):
            yield Task([*task.data, index]) if index % 3 else None


class Fail(Stage):
    """Fails at one task in seven, in one of several ways."""

    def process(self, task: Task) -> Task | list[Slot]:
        """Return the same task, or fail.

        Raises:
            ValueError: for one task in fourteen.
        """
        number = sum(task.data) % 14
        if number == 0:
            raise ValueError(str(task.data))
        if number == 7:
            return [FailedTask("seven")]
        return Task(lambda: 1) if number == 13 else task  # cannot be pickled


class Twice(Stage):
    """Processes tasks in batches."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """Return the tasks with another number. Filter every fifth task."""
        return [
            NoneTask() if sum(task.data) % 5 == 0 else task.replace([*task.data, 2])
            for task in tasks
        ]


class Halve(Stage):
    """Processes batches, and raises for some batches although each task alone succeeds."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """Return the tasks with another number.

        Raises:
            ValueError: for some batches of several tasks.
        """
        if len(tasks) > 1 and sum(tasks[0].data) % 2:
            raise ValueError("a batch")
        return [task.replace([*task.data, 3]) for task in tasks]


class Keep(StatefulFilter):
    """Gathers the sums of the tasks that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[int] = []

    def process(self, task: Task) -> Task:
        """Return the same task."""
        self.kept.append(sum(task.data))
        return task

    def flush(self) -> bytes | None:
        """Return the sums gathered since the last call."""
        kept, self.kept = self.kept, []
        return bytes(str(kept), "ascii")

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        """Do nothing. The player does not merge."""


class Join(Stage):
    """Joins a group into one task."""

    def join(self, tasks: list[Task]) -> Task:
        """Return the sums of all tasks, and the number of tasks."""
        return Task([*(sum(task.data) for task in tasks), len(tasks)])

    def process(self, task: Task) -> Task:
        """Return the same task."""
        return task


KINDS: dict[str, Callable[[str], StagePlan]] = {
    "pass": lambda name: StagePlan(name, name, Pass()),
    "drop": lambda name: StagePlan(name, name, Drop()),
    "spread": lambda name: StagePlan(name, name, Spread()),
    "yield": lambda name: StagePlan(name, name, SpreadSlowly()),
    "fail": lambda name: StagePlan(name, name, Fail()),
    "batch": lambda name: StagePlan(name, name, Twice(), batch_size=2),
    "halve": lambda name: StagePlan(name, name, Halve(), batch_size=3),
    "keep": lambda name: StagePlan(name, name, Keep()),
    "join": lambda name: StagePlan(name, name, Join(), group=2),
}


def make_plan(kinds: Sequence[str]) -> PipelinePlan:
    """Return a pipeline of stages of these kinds, without a sink. The player keeps the output."""
    stages = [KINDS[kind](f"{kind}-{number}") for number, kind in enumerate(kinds)]
    source = StagePlan("source", "source", Stage())
    return PipelinePlan("ns", "p", source, tuple(mark_streaming(stages)), Fingerprint("", {}))


@dataclass
class Played:
    """The result of a pipeline.

    Attributes:
        events: events by source, in any order, without efforts.
        changes: changes of the number of rows, by source and stage, as the ledger counts them.
        failed: failed sources, with the stages that failed.
        outputs: output data by token, without failed sources.
        counts: counts of each stage: tasks in and out, filtered tasks, and its own counters. Only
            valid without failures.
        given_back: number of tasks that workers returned without processing.
        split: number of times that a running call was split.
    """

    events: dict[bytes, set[Event]] = field(default_factory=dict)
    changes: dict[bytes, dict[str, int]] = field(default_factory=dict)
    failed: dict[bytes, set[str]] = field(default_factory=dict)
    outputs: dict[bytes, list[int]] = field(default_factory=dict)
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    given_back: int = 0
    split: int = 0

    def keep_whole(self) -> Played:
        """Return the result without failed sources, which depend on the order of calls."""
        events = {key: said for key, said in self.events.items() if key not in self.failed}
        changes = {
            key: {stage: rows for stage, rows in known.items() if rows}
            for key, known in self.changes.items()
            if key not in self.failed
        }
        return replace(
            self,
            events=events,
            changes={key: known for key, known in changes.items() if known},
            counts={} if self.failed else self.counts,
            given_back=0,
            split=0,
        )

    def count(self, event: Event) -> None:
        """Count the rows of an event. Ignore duplicate events."""
        bare = event._replace(efforts=())
        known = self.events.setdefault(event.source, set())
        if bare in known:
            return
        known.add(bare)
        changes = self.changes.setdefault(event.source, {})
        for effort in event.efforts:
            rows = effort.rows_out - effort.rows_in
            changes[effort.stage] = changes.get(effort.stage, 0) + rows


class Player:
    """Runs a pipeline's calls one after the other in a random order.

    Args:
        chains: how the stages run together.
        seed: seed of the order, durations, suspicions, and splits.
        suspected: share of sources that run stage by stage.
        split: share of stage executions in which the call is split.
        deaths: share of splits after which the worker dies.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        chains: Sequence[Chain],
        seed: int,
        suspected: float = 0.2,
        split: float = 0.0,
        deaths: float = 0.0,
    ) -> None:
        self._rng = random.Random(seed)
        self._suspected = suspected
        self._split = split
        self._deaths = deaths
        self._chains = chains
        self._batch: list[Waiting] = []  # tasks of the current call
        self._time = 0.0
        self._flow = Flow(plan, chains)
        self._calls = [self._set_up(number, chain, chains) for number, chain in enumerate(chains)]
        self.played = Played()

    def _set_up(self, number: int, chain: Chain, chains: Sequence[Chain]) -> ChainCall:
        plans = [replace(plan, stage=copy.deepcopy(plan.stage)) for plan in chain.stages]
        plans[1:] = [replace(plan, streams=False) for plan in plans[1:]]
        calls = [StageCall(plan, None, self._tell_time) for plan in plans]
        joins = any(later.plan.group for later in chains if later.first > chain.first)
        call = ChainCall(plans, calls, self._tell_time, pickle.dumps, joins_below=joins)
        for plan in plans:
            for name in ("process", "process_batch", "join", "flush"):
                if hasattr(plan.stage, name):
                    whole = getattr(plan.stage, name)
                    setattr(plan.stage, name, self._interrupt(whole, number, call))
        return call

    def _interrupt(
        self, work: Callable[..., Any], number: int, call: ChainCall
    ) -> Callable[..., Any]:
        """Return a stage's code that sometimes splits its own call, as if the task took long."""

        def run(*given: Any) -> Any:
            self._maybe_split(number, call)
            made = work(*given)
            return go_on(made) if isinstance(made, Iterator) else made

        def go_on(made: Iterator[Any]) -> Iterator[Any]:
            for slot in made:
                self._maybe_split(number, call)
                yield slot

        return run

    def _maybe_split(self, stage: int, call: ChainCall) -> None:
        if self._rng.random() >= self._split:
            return
        with call.splitting() as split:
            assert split is not None  # a call is running
            part, kept, returned = split
            gone = [slot for slot in self._batch if slot.token not in kept]
            self._batch = [slot for slot in self._batch if slot.token in kept]
            back = [slot for slot in gone if slot.token in returned]
            receipt, block = self._travel(call, part)
            self._note(stage, receipt, block)
            over = [slot for slot in gone if slot not in back]
            self._flow.complete(stage, over, receipt, block)
            self._flow.requeue(stage, back, 0, holds=False, most_deaths=3)
            self.played.split += bool(gone)
        if self._rng.random() < self._deaths:
            raise VolumeError("the worker dies")

    def _tell_time(self) -> float:
        self._time += self._rng.choice([0.0, 0.001, 0.06])
        return self._time

    def play(self, numbers: Sequence[int]) -> Played:
        """Play the pipeline with one source per number."""
        flow = self._flow
        for number in numbers:
            source = digest_key(str(number))
            root = derive_root(source, b"1")
            block = pack_tasks([Task([number], None, Lineage(source, root, str(number)))])
            slot = Waiting(source, str(number), root, None, block, 0)
            flow.enter([slot._replace(is_suspect=self._rng.random() < self._suspected)])
        while not flow.is_idle():
            self._play_one()
        self.played.counts = {
            name: (each.tasks_in, each.tasks_out, each.filtered, sum(each.counters.values()))
            for name, each in flow.counts.items()
        }
        return self.played

    def _play_one(self) -> None:
        stages = list(range(len(self._calls)))
        self._rng.shuffle(stages)
        for stage in stages:
            batch = self._flow.next_batch(stage, self._rng.choice([1, 2, 5]))
            if batch:
                self._call(stage, batch)
                return

    def _call(self, stage: int, batch: list[Waiting]) -> None:
        try:
            self._work(stage, batch)
        except VolumeError:
            self._flow.requeue(stage, self._batch, 0, holds=False, most_deaths=3)
            self._calls[stage] = self._set_up(stage, self._chains[stage], self._chains)

    def _work(self, stage: int, batch: list[Waiting]) -> None:
        packed = [slot.block[slot.position] for slot in batch]
        # A worker gets its own copy, so a dying worker leaves no changed data.
        tasks, unreadable = read_input(pickle.loads(pickle.dumps(packed)))  # noqa: S301
        link, is_alone = batch[0].link, batch[0].is_suspect
        call, self._batch = self._calls[stage], batch
        handed = {slot.token: slot.handed for slot in batch if slot.handed}
        for part in call.stream(tasks, unreadable, handed, link, is_alone=is_alone):
            receipt, block = self._travel(call, part)
            over, rest = self._batch, list[Waiting]()
            if part.opened is not None:
                over, rest = split_opened(over, *part.opened)
            self._note(stage, receipt, block)
            self._flow.complete(stage, over, receipt, block, rest[0] if rest else None)
            self._batch = rest

    def _travel(self, call: ChainCall, part: CallPart) -> tuple[Receipt, list[list[object]]]:
        """Return a part of an answer after pickling, as the driver receives it from a worker."""
        name_stage = partial(call.name_maker, part.receipt)
        dump = partial(pack_tasks, dumps=pickle.dumps)
        _, block, receipt = pack_answers(name_stage, part.data, part.receipt, dump)
        block = pickle.loads(pickle.dumps(block))  # noqa: S301 - as it crosses to a worker
        return unpack_receipt(pack_receipt(receipt)), block

    def _note(self, stage: int, receipt: Receipt, block: list[list[object]]) -> None:
        played = self.played
        receipt = self._flow.meter.attach(receipt, self._flow.failed)
        played.given_back += sum(emitted.link > 0 for emitted in receipt.emitted)
        for failure in receipt.failures:
            played.failed.setdefault(failure.source, set()).add(failure.stage)
        for event in receipt.events:
            pieces = [left for left in event.outputs if isinstance(left, Piece)]
            played.count(event._replace(outputs=tuple(pieces)))
        if stage + 1 == len(self._calls):
            (made, _) = read_input(
                block[each.position] for each in receipt.emitted if not each.link
            )
            tokens = [each.token for each in receipt.emitted if not each.link]
            for token, task in zip(tokens, made, strict=True):
                assert token not in played.outputs  # no token appears twice
                played.outputs[token] = task.data
