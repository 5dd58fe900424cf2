"""Work is measured for each source: shares add up, and work that was returned does not count."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.stage.metering import Meter
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import pack_receipt, unpack_receipt
from strandline.engine.flow.flow import Flow
from strandline.engine.preemption.replays import Replays
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Effort, Event, Receipt, StageCounts, add_efforts
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, Lineage, NoneTask, Task
from test_flow import make_flow, make_slots

A, B = b"a" * 16, b"b" * 16


class Halve(Stage):
    """Keeps every second row, drops one task in four, and fails one task in five."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        return [self._halve(task) for task in tasks]

    def _halve(self, task: Task) -> Task | NoneTask | FailedTask:
        if task.num_rows % 5 == 4:
            return FailedTask("no")
        return NoneTask() if task.num_rows % 4 == 3 else task.replace(task.table[::2])


class Split(Stage):
    """Makes a task per row."""

    def process(self, task: Task) -> list[Task]:
        return [task.replace(task.table.slice(place, 1)) for place in range(task.num_rows)]


class Keep(Stage):
    """Returns all tasks unchanged."""

    def process(self, task: Task) -> Task:
        return task


class CountMuch(Stage):
    """Counts more dropped rows than fit into 64 bits."""

    def process(self, task: Task) -> None:
        self.count("dropped: too many", 2**70)


def task_of(source: bytes, rows: int, token: int = 0) -> Task:
    return Task(
        pa.table({"n": list(range(rows))}), lineage=Lineage(source, bytes([token]) * 16, "")
    )


def run(stage: Stage, tasks: Sequence[Task], *, is_metered: bool = True) -> Receipt:
    times = iter((10.0, 13.5))
    plan = StagePlan("half", "x:Half", stage, is_metered=is_metered)
    return StageCall(plan, None, lambda: next(times)).run(tasks)[1]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=12),
    stage=st.sampled_from([Halve(), Split()]),
)
def test_law_shares_of_a_call_add_up_to_its_counts(
    sizes: list[tuple[int, int]], stage: Stage
) -> None:
    tasks = [task_of(bytes([size]) * 16, rows, at) for at, (size, rows) in enumerate(sizes)]
    receipt = run(stage, tasks)
    efforts = [effort for _, effort in receipt.efforts]
    assert [source for source, _ in receipt.efforts] == list(
        dict.fromkeys(bytes([size]) * 16 for size, _ in sizes)
    )
    assert sum(effort.rows_in for effort in efforts) == receipt.counts.rows_in
    assert sum(effort.rows_out for effort in efforts) == receipt.counts.rows_out
    assert sum(effort.seconds or 0.0 for effort in efforts) == pytest.approx(receipt.counts.seconds)
    assert all((effort.seconds or 0.0) > 0 for effort in efforts)
    assert unpack_receipt(pack_receipt(receipt)) == receipt


def test_output_bytes_are_counted_and_seconds_are_shared_by_rows() -> None:
    receipt = run(Split(), [task_of(A, 6), task_of(B, 1), task_of(A, 0)])
    # A task without rows has the weight of one row.
    assert dict(receipt.efforts) == {
        A: Effort("half", 6, 6, 3.5 * 7 / 8, 48),
        B: Effort("half", 1, 1, 3.5 * 1 / 8, 8),
    }


def test_bytes_do_not_depend_on_a_copy_between_processes() -> None:
    """A filter adds validity bitmaps even without nulls. A copy in Arrow's format drops them."""
    rows = task_of(A, 6).table.append_column("text", pa.array(list("abcdef")))
    filtered = rows.filter(pa.array([True, False] * 3))
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, filtered.schema) as stream:
        stream.write_table(filtered)
    copied = pa.ipc.open_stream(target.getvalue()).read_all()
    lineage = Lineage(A, b"t" * 16, "")
    sizes = [
        dict(run(Keep(), [Task(table, lineage=lineage)]).efforts)[A].size
        for table in (filtered, copied)
    ]
    assert sizes == [copied.nbytes, copied.nbytes]
    assert filtered.nbytes > copied.nbytes


def test_a_count_beyond_64_bits_can_be_sent() -> None:
    receipt = run(CountMuch(), [task_of(A, 3)])
    efforts = [effort for _, effort in receipt.efforts]
    efforts += [effort for event in receipt.events for effort in event.efforts]
    assert [effort.reasons for effort in efforts] == [(("too many", 2**63 - 1),)]
    assert unpack_receipt(pack_receipt(receipt)) == receipt


def test_no_efforts_are_reported_without_metering() -> None:
    assert run(Split(), [task_of(A, 6)], is_metered=False).efforts == ()


def told(source: bytes, stage: str, rows: int, *, has_event: bool) -> Receipt:
    events = (Event(source, (b"t" * 16,), ()),) if has_event else ()
    return Receipt(events, (), (), StageCounts(), ((source, Effort(stage, rows, rows, 1.0, 8)),))


def test_efforts_wait_for_the_sources_next_event() -> None:
    meter = Meter()
    assert meter.attach(told(A, "read", 5, has_event=False), set()).events == ()
    meter.attach(told(A, "read", 2, has_event=False), set())
    meter.attach(told(B, "read", 9, has_event=False), set())
    receipt = meter.attach(told(A, "write", 1, has_event=True), set())
    assert receipt.efforts == ()
    assert receipt.events[0].efforts == (
        Effort("read", 7, 7, 2.0, 16),
        Effort("write", 1, 1, 1.0, 8),
    )
    assert len(meter) == 1
    again = Receipt(receipt.events, (), (), StageCounts())
    assert meter.attach(again, set()) is again


def test_efforts_of_a_failed_source_are_dropped() -> None:
    meter = Meter()
    receipt = meter.attach(told(A, "write", 1, has_event=True), {A})
    assert receipt.events[0].efforts == ()
    assert len(meter) == 0


def test_efforts_before_a_restart_are_taken_back() -> None:
    flow: Flow = make_flow(1, 1)
    flow.enter(make_slots(2))
    (slot,) = flow.next_batch(0)
    flow.meter.attach(told(slot.source, "read", 5, has_event=False), flow.failed)
    replays = Replays(flow)
    assert replays.begin([slot])[0] == [Event(slot.source, (slot.token,), (slot.token,))]
    assert len(flow.meter) == 0
    late = replays.filter(told(slot.source, "read", 5, has_event=True))
    assert (late.events, late.efforts) == ((), ())
    other = told(A, "read", 5, has_event=True)
    assert replays.filter(other) == other


@given(parts=st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 9)), max_size=20))
def test_law_efforts_add_up_by_stage(parts: list[tuple[str, int]]) -> None:
    known: dict[str, Effort] = {}
    add_efforts(known, [Effort(stage, rows, 2 * rows, rows, 1) for stage, rows in parts])
    assert list(known) == list(dict.fromkeys(stage for stage, _ in parts))
    for stage, effort in known.items():
        rows = [rows for name, rows in parts if name == stage]
        assert effort == Effort(stage, sum(rows), 2 * sum(rows), sum(rows), len(rows))
