"""Seconds of repeated work: running calls that were lost, and sources that start again."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.slots import Slot
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import pack_receipt, unpack_receipt
from strandline.engine.preemption.lost_work import WorkMeter, name_loss
from strandline.engine.worker.worker_page import CallPosition, WorkerPage
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import EmittedTask, Receipt, StageCounts
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Lineage, Task
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.work_lost import WorkLost
from test_fitting import make_worker
from test_flow import make_slots
from test_worker_page import page

__all__ = ["page"]


def answer(seconds: float, *made: Slot) -> Receipt:
    """Return the receipt of a call with this duration and these results."""
    emitted = tuple(
        EmittedTask(place, slot.source, slot.token, None) for place, slot in enumerate(made)
    )
    return Receipt((), (), emitted, StageCounts(seconds=seconds))


costs = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=8)


@given(costs=costs)
def test_law_work_of_a_restarted_source_is_lost_once(
    costs: list[float],
) -> None:
    meter, (slot,) = WorkMeter(), make_slots(1)
    for cost in costs:
        meter.note([slot], 0, answer(cost, slot))
    for _ in range(2):
        meter.lose_sources([slot.source])
        assert meter.lost.node == pytest.approx(sum(costs))
    assert meter.worked == pytest.approx(sum(costs))


@given(costs=costs)
def test_law_work_of_a_completed_source_is_not_lost_or_remembered(costs: list[float]) -> None:
    meter, (slot,) = WorkMeter(), make_slots(1)
    children = [slot._replace(token=bytes([9, number])) for number in range(len(costs))]
    meter.note([slot], 0, answer(1.0, *children))
    for child, cost in zip(children, costs, strict=True):
        meter.note([child], 0, answer(cost))
    meter.lose_rest(0.0)
    assert meter.lost == WorkLost()


def test_parts_of_an_answer_belong_to_their_source() -> None:
    meter, (slot,) = WorkMeter(), make_slots(1)
    meter.note([], 0, answer(3.0, slot._replace(token=b"child")), slot)
    meter.lose_sources([slot.source])
    assert meter.lost.node == 3.0


def test_answers_for_a_restarted_source_are_lost_too() -> None:
    meter, (first, _) = WorkMeter(), make_slots(2)
    meter.note([first], 1, answer(4.0, first))
    assert meter.lost.node == 2.0


def test_losses_are_reported_by_cause_including_nodes_missed_later() -> None:
    meter = WorkMeter()
    for name, seconds, node in (("kill", 5.0, "a"), ("kill", 2.0, "b"), ("memory", 1.0, "a")):
        meter.lose_call(name, seconds, node)
    assert meter.lost == WorkLost(kill=7.0, memory=1.0)
    meter.forgive(["a"])
    assert meter.lost == WorkLost(node=6.0, kill=2.0)
    meter.forgive(["a"])
    assert meter.lost == WorkLost(node=6.0, kill=2.0)


def test_an_ended_attempt_loses_its_running_work() -> None:
    meter, (first, second) = WorkMeter(), make_slots(2)
    meter.note([first], 0, answer(4.0, first))
    meter.note([second], 0, answer(3.0))
    meter.lose_rest(2.5)
    assert meter.lost == WorkLost(stop=6.5)
    assert meter.worked == 9.5
    assert meter.lost.find_share(meter.worked) == 6.5 / 9.5


def test_waits_for_a_service_are_not_work_to_repeat() -> None:
    meter, (slot,) = WorkMeter(), make_slots(1)
    counts = StageCounts(seconds=60.0, waited=58.0)
    meter.note([slot], 0, answer(0.0, slot)._replace(counts=counts))
    meter.lose_rest(0.0)
    assert meter.lost == WorkLost(stop=2.0)
    assert meter.worked == 2.0


def test_a_running_wait_is_not_work(page: WorkerPage) -> None:
    worker = make_worker(2, busy_since=100.0)
    assert worker.measure_work(130.0) == 30.0
    worker.page = page
    page.note(0, 1)
    for begun, now in ((102.0, 102.0), (None, 112.0), (120.0, 120.0)):
        page.note_wait(begun, now)
    assert worker.measure_work(115.0) == 15.0 - 10.0 + 5.0
    assert worker.measure_work(130.0) == 30.0 - 10.0 - 10.0
    page.note(1, 0)
    assert worker.measure_work(130.0) == 30.0  # the worker has begun its next call
    worker.page = None
    worker.located = CallPosition(0, 1, "", 25.0)
    assert worker.measure_work(130.0) == 5.0


class Waits(Stage):
    """Waits for a service."""

    def process(self, task: Task) -> Task:
        with self.waiting(), self.waiting():
            return task


def test_a_stage_reports_its_waiting_time() -> None:
    clock, noted = itertools.count(), list[float | None]()
    call = StageCall(StagePlan("s", "s", Waits()), None, lambda: float(next(clock)))
    call.share_waits(noted.append)
    tasks = [Task(pa.table({"n": [1]}), lineage=Lineage(b"s" * 16, b"t" * 16, "a"))] * 3
    _, receipt = call.run(tasks)
    assert receipt.counts.waited == 3.0
    assert [None if begun is None else "begun" for begun in noted] == ["begun", None] * 3
    assert unpack_receipt(pack_receipt(receipt)).counts.waited == 3.0


@pytest.mark.parametrize(
    ("cause", "is_of_node", "name"),
    [
        (Cause.KILLED, False, "kill"),
        (Cause.KILLED, True, "node"),
        (Cause.OOM_KILLED, False, "memory"),
        (Cause.TIMEOUT, False, "timeout"),
    ],
)
def test_each_loss_has_a_name(cause: Cause, is_of_node: bool, name: str) -> None:
    assert name_loss(cause, is_of_node=is_of_node) == name
    assert name in WorkLost.model_fields
