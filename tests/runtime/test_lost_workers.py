"""Calls are retried or fail if their worker dies, is drained, or cannot read its input."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    RayError,
)

import engine_stages as bad
import worker_stages as told
from strandline.engine.call.slots import Slot
from strandline.engine.call.wire import pack_tasks
from strandline.engine.core.pools import CALLS_PER_WORKER, DEATHS_PER_POOL
from strandline.engine.core.ports import Control, Incidents
from strandline.engine.core.workers import Worker
from strandline.engine.flow.chains import list_apart
from strandline.engine.flow.flow import Flow
from strandline.engine.ray.ledger_actor import RayLedger
from strandline.engine.ray.losses import Losses
from strandline.engine.ray.pool import RayPools
from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Lineage, Task
from strandline.storage.outputs.ports import OutputLocation
from strandline.storage.volume.inflight import InFlight, InFlightTable, read_inflight

TIMEOUT = 120.0
POISON = 3

pytestmark = pytest.mark.usefixtures("local_ray")


class Bench:
    """A flow and a pool with one ready worker. The test drives both."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        plan = StagePlan("told", "told", stage, cpu=0.1)
        ends = [
            StagePlan("numbers", "numbers", bad.Numbers()),
            StagePlan("text", "text", told.NodeSink()),
        ]
        self.flow = Flow(check_plan("tests", "lost", ends[0], [plan, ends[1]]))
        self.table = folder / "table"
        self.inflight = InFlightTable(self.table)
        outputs = OutputLocation(tempfile.gettempdir())
        self.pools = RayPools("tests.lost", list_apart([plan]), outputs, self.inflight)
        self.control = Control(lambda: False, lambda _: None, lambda: 0.0)
        self.losses = Losses(self.flow, self.pools, RayLedger(None), self.control, Incidents())
        self.pools.start_worker(0, 0.1)

    @property
    def worker(self) -> Worker:
        (worker,) = self.pools[0].workers
        return worker

    def take_ready(self) -> None:
        (reference,) = self.pools.preparing
        here = ray.get_runtime_context().get_node_id()
        self.pools.take_ready(reference, ray.get(reference, timeout=TIMEOUT), here)

    def submit(self, number: int, source: int | None = None) -> Any:
        """Submit a task with a number, and return the reference of its receipt."""
        name = bytes([number if source is None else source]) * 16
        task = Task(number, {}, Lineage(name, bytes([number]) * 16, str(number)))
        return self.submit_block(name, pack_tasks([task]), bytes([number]) * 16)

    def submit_block(
        self, source: bytes, block: Any, token: bytes, root: Slot | None = None
    ) -> Any:
        self.flow.enter([Slot(source, "key", token, None, block, 0, root=root)])
        self.pools.submit(0, self.flow.next_batch(0), CALLS_PER_WORKER)
        return list(self.pools.calls)[-1]

    def lose(self, reference: Any) -> None:
        """Wait for the worker's death, then handle the loss as the driver does."""
        with pytest.raises(ActorDiedError) as raised:
            ray.get(reference, timeout=TIMEOUT)
        self.losses.take_out(self.worker, raised.value)

    def list_waiting(self) -> list[tuple[int, int, bool]]:
        """Return token, deaths, and suspicion of waiting tasks, in order."""
        return [
            (slot.token[0], slot.deaths, slot.is_suspect) for slot in self.flow.queues[0].waiting
        ]


@contextmanager
def standing(stage: Stage, folder: Path) -> Iterator[Bench]:
    bench = Bench(stage, folder)
    try:
        yield bench
    finally:
        bench.pools.stop()
        bench.inflight.close()


def test_law_both_calls_of_a_lost_worker_are_retried_alone_in_order(tmp_path: Path) -> None:
    with standing(bad.Picky(what="die"), tmp_path) as bench:
        bench.take_ready()
        poison = bench.submit(POISON)
        bench.submit(4)
        bench.lose(poison)

        assert bench.list_waiting() == [(POISON, 0, True), (4, 0, True)]
        assert not bench.pools.calls
        assert bench.flow.queues[0].running == 0
        state = bench.pools.look()[0]
        assert (state.lost, state.deaths, state.workers) == (1, 1, 0)
        assert bench.pools.has_gone


def test_law_calls_answered_before_the_death_are_not_repeated_or_blamed(
    tmp_path: Path,
) -> None:
    with standing(bad.Picky(what="die"), tmp_path) as bench:
        bench.take_ready()
        first = bench.submit(1)
        ray.wait([first], timeout=TIMEOUT)
        poison = bench.submit(POISON)
        with pytest.raises(ActorDiedError):
            ray.get(poison, timeout=TIMEOUT)

        assert bench.pools.find_answered(bench.worker) == [first]
        call, receipt = bench.pools.take_answer(first, ray.get(first))
        bench.flow.complete(0, call.batch, receipt, call.data)
        bench.lose(poison)

        assert bench.list_waiting() == [(POISON, 1, True)]
        assert len(bench.flow.queues[1]) == 1


def test_two_calls_of_one_source_prove_its_fault(tmp_path: Path) -> None:
    with standing(bad.Picky(what="die"), tmp_path) as bench:
        bench.take_ready()
        poison = bench.submit(POISON, source=9)
        bench.submit(4, source=9)
        bench.lose(poison)

        assert bench.list_waiting() == [(POISON, 1, True), (4, 1, True)]


def test_a_source_that_kills_three_workers_alone_fails_without_its_neighbor(
    tmp_path: Path,
) -> None:
    with standing(bad.Picky(what="die"), tmp_path) as bench:
        bench.take_ready()
        poison = bench.submit(POISON)
        bench.submit(4)
        bench.lose(poison)
        for _ in range(3):
            bench.pools.start_worker(0, 0.1)
            bench.take_ready()
            assert bench.flow.has_suspects(0)
            bench.pools.submit(0, bench.flow.next_batch(0), 1)
            assert not bench.pools.has_room(
                0, CALLS_PER_WORKER
            )  # a worker has no other call beside a suspect
            (poison,) = bench.pools.calls
            bench.lose(poison)

        assert bench.flow.failed == {bytes([POISON]) * 16}
        assert [token for token, _, _ in bench.list_waiting()] == [4]
        assert bench.pools.look()[0].deaths == 1


@pytest.mark.parametrize(
    "error", [NodeDiedError("its node has died"), ActorUnavailableError("no answer", None)]
)
def test_law_a_lost_node_with_many_workers_ends_no_attempt(error: RayError, tmp_path: Path) -> None:
    with standing(bad.Identity(), tmp_path) as bench:
        for _ in range(DEATHS_PER_POOL + 1):
            bench.losses.take_out(bench.worker, error)
            bench.pools.start_worker(0, 0.1)

        state = bench.pools.look()[0]
        assert (state.lost, state.deaths) == (DEATHS_PER_POOL + 1, 0)


def test_lost_data_is_recomputed_from_the_root(tmp_path: Path) -> None:
    with standing(bad.Identity(), tmp_path) as bench:
        bench.take_ready()
        root = Slot(b"l" * 16, "key", b"r" * 16, None, [], 0)
        lost = bench.submit_block(b"l" * 16, told.put_and_lose(), b"l" * 16, root)
        with pytest.raises(ObjectLostError):
            ray.get(lost, timeout=TIMEOUT)
        call = bench.pools.calls[lost]
        bench.pools.skip_call(lost)
        bench.losses.lose_data(call, "it is gone")
        bench.losses.replays.release(bench.pools.list_sources())

        assert [slot.token for slot in bench.flow.queues[0].waiting] == [b"r" * 16]
        assert bench.flow.queues[0].running == 0
        assert not bench.flow.failed


def test_tasks_of_a_worker_on_this_node_count_as_in_progress(tmp_path: Path) -> None:
    with standing(bad.Identity(), tmp_path) as bench:
        bench.take_ready()
        calls = [bench.submit(number) for number in range(CALLS_PER_WORKER)]
        sources = frozenset(bytes([number]) * 16 for number in range(CALLS_PER_WORKER))
        assert read_inflight(bench.table) == InFlight(sources, frozenset())
        for call in calls:
            bench.pools.take_answer(call, ray.get(call, timeout=TIMEOUT))
        assert not any(read_inflight(bench.table))


def test_a_worker_drained_during_setup_ends_at_once(tmp_path: Path) -> None:
    with standing(bad.Identity(), tmp_path) as bench:
        bench.pools.drain(bench.worker)

        assert not bench.pools.preparing
        state = bench.pools.look()[0]
        assert (state.workers, state.started, state.lost) == (0, 1, 0)


def test_a_worker_that_dies_while_draining_leaves_its_call(tmp_path: Path) -> None:
    with standing(bad.Picky(what="die"), tmp_path) as bench:
        bench.take_ready()
        poison = bench.submit(POISON)
        bench.pools.drain(bench.worker)
        bench.lose(poison)

        assert bench.list_waiting() == [(POISON, 1, True)]
        assert bench.pools.look()[0].workers == 0


def test_a_call_without_its_input_is_skipped_and_the_next_is_answered(tmp_path: Path) -> None:
    with standing(bad.Identity(), tmp_path) as bench:
        bench.take_ready()
        lost = bench.submit_block(b"l" * 16, told.put_and_lose(), b"l" * 16)
        good = bench.submit(1)
        with pytest.raises(ObjectLostError):
            ray.get(lost, timeout=TIMEOUT)
        bench.pools.skip_call(lost)

        call, receipt = bench.pools.take_answer(good, ray.get(good, timeout=TIMEOUT))
        assert (call.batch[0].token[0], receipt.counts.tasks_out) == (1, 1)
        assert bench.pools.look()[0].lost == 0
