"""Tasks wait until the sink can fill a file, but not long, and no task is lost."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.slots import Slot
from strandline.engine.core.call_size import MOST_SECONDS, MOST_TASKS, FileFilling
from strandline.engine.core.ports import Control, Listing
from strandline.engine.flow.chains import cut_chains, explain_cut
from strandline.engine.flow.flow import Flow
from strandline.engine.inline import run_inline
from strandline.engine.own_ledger import NoLedger
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import EmittedTask, Event, Output, Receipt, StageCounts
from strandline.plan.stages.ends import Source
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline_packs.sinks.jsonl_sink import JsonlSink

SIZE = 1000  # bytes of a source's lines


def receipt_of(*sizes: int) -> Receipt:
    outputs = [Output(b"t" * 16, ".x", size, b"d" * 16, 1) for size in sizes]
    events = tuple(Event(b"s" * 16, (b"t" * 16,), (), (output,)) for output in outputs)
    return Receipt(events, (), (), StageCounts(tasks_in=len(sizes)))


def test_the_tasks_of_a_file_follow_from_its_bytes_and_the_target() -> None:
    filling = FileFilling(10_000)
    assert filling.count_tasks(500.0) == 20  # the size in memory until a file was written
    filling.note(receipt_of(100, 300))
    assert filling.count_tasks(500.0) == 50
    filling.note(receipt_of())
    assert filling.count_tasks(500.0) == 50


@given(st.lists(st.lists(st.integers(0, 1 << 40), max_size=4), max_size=6), st.floats(0, 1e12))
def test_law_some_task_fills_a_file_and_never_very_many_do(
    calls: list[list[int]], bytes_in: float
) -> None:
    filling = FileFilling(1 << 20)
    for sizes in calls:
        filling.note(receipt_of(*sizes))
    assert 1 <= filling.count_tasks(bytes_in) <= MOST_TASKS


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, MOST_SECONDS))))
def test_law_no_task_waits_beyond_a_full_file_a_long_wait_or_the_end(
    steps: list[tuple[int, float]],
) -> None:
    filling, now, since = FileFilling(1000), 0.0, None
    for waiting, seconds in steps:
        now += seconds
        since = None if not waiting else now if since is None else since
        must_wait = filling.must_wait(waiting, 50.0, now, may_grow=True)
        assert must_wait == (since is not None and waiting < 20 and now - since < MOST_SECONDS)
        assert not filling.must_wait(waiting, 50.0, now, may_grow=False)
        if not must_wait:
            filling.begin()
            since = None


def test_a_wait_starts_with_the_first_waiting_task() -> None:
    filling = FileFilling(1000)
    assert filling.must_wait(1, 1.0, 5.0, may_grow=True)
    assert filling.must_wait(2, 1.0, 4.0 + MOST_SECONDS, may_grow=True)
    assert not filling.must_wait(2, 1.0, 5.0 + MOST_SECONDS, may_grow=True)
    filling.begin()
    assert filling.must_wait(1, 1.0, 6.0 + MOST_SECONDS, may_grow=True)
    assert not filling.must_wait(0, 1.0, 7.0 + MOST_SECONDS, may_grow=True)
    assert filling.must_wait(1, 1.0, 5.0 + 2 * MOST_SECONDS, may_grow=True)


class Fill(Stage):
    """Makes a table of a source."""

    def process(self, task: Task) -> Task:
        """Return a table with one row."""
        return task.replace(pa.table({"t": [f"{task.key}".ljust(SIZE - 8, "-")]}))


def plan_of(target: int | None) -> PipelinePlan:
    stages = (
        StagePlan("fill", "f", Fill()),
        StagePlan("sink", "jsonl", JsonlSink(target_bytes=target)),
    )
    listed = StagePlan("source", "source", Stage())
    return PipelinePlan("ns", "name", listed, stages, Fingerprint("", {}))


def run(
    sources: int,
    target: int | None,
    must_stop: Callable[[Flow], bool] = lambda _: False,
    seconds: float = 0.0,
) -> list[int]:
    """Run sources, and return the lines of each file in the order of writes."""
    seen: list[Flow] = []
    clock = iter(range(1 << 30))
    listing = Listing(Source(str(number), "1", number) for number in range(sources))
    with tempfile.TemporaryDirectory() as folder:
        control = Control(
            lambda: bool(seen) and must_stop(seen[-1]),
            lambda progress: seen.append(progress.flow),
            lambda: next(clock) * seconds,
        )
        run_inline(plan_of(target), listing, NoLedger(), LocalOutputs(Path(folder)), control)
        files = sorted(Path(folder).rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        return [len(path.read_text().splitlines()) for path in files]


def test_files_are_filled_across_batches_of_the_listing() -> None:
    files = run(1000, 400 * SIZE)
    assert sum(files) == 1000
    assert len(files) == 3
    assert files[1] == pytest.approx(400, rel=0.05)


def test_without_a_target_nothing_waits_and_nothing_is_shared() -> None:
    assert run(10, None) == [1] * 10


def test_the_rest_is_written_at_the_end_of_input() -> None:
    assert run(3, 1 << 30) == [3]


def test_waiting_tasks_are_written_when_a_run_is_stopped() -> None:
    files = run(1000, 1 << 30, lambda flow: len(flow.queues[-1]) >= 100)
    assert files == [100]


def test_tasks_that_wait_long_are_written_without_filling_a_file() -> None:
    files = run(600, 1 << 30, seconds=MOST_SECONDS / 1000)
    assert len(files) > 1
    assert sum(files) == 600


def test_a_sink_that_fills_files_has_its_own_workers() -> None:
    apart, together = plan_of(1).stages, plan_of(None).stages
    assert explain_cut(apart[:1], apart[1]) == "targetBytes"
    assert [len(chain.stages) for chain in cut_chains(apart)] == [1, 1]
    assert [len(chain.stages) for chain in cut_chains(together)] == [2]


@pytest.mark.parametrize("target", [1, None])
def test_only_tasks_that_wait_for_a_file_survive_a_stop(target: int | None) -> None:
    flow = Flow(plan_of(target))
    enter(flow)
    batch = flow.next_batch(0)
    flow.complete(0, batch, pass_on(batch), None)
    enter(flow)
    enter(flow)
    running = flow.next_batch(0)
    flow.stop()
    flow.complete(0, running, pass_on(running), None)
    assert [len(queue) for queue in flow.queues] == [0, 2 if target else 0]


def enter(flow: Flow) -> None:
    """Queue the root task of a source."""
    flow.enter([Slot(b"s" * 16, "key", b"t" * 16, None, None, 0)])


def pass_on(batch: list[Slot]) -> Receipt:
    emitted = tuple(EmittedTask(0, slot.source, slot.token, slot.origin) for slot in batch)
    return Receipt((), (), emitted, StageCounts(tasks_in=len(batch), tasks_out=len(batch)))


def test_fewer_tasks_than_requested_are_not_handed_out() -> None:
    flow = Flow(plan_of(1))
    enter(flow)
    assert flow.next_batch(0, 0, 2) == []
    enter(flow)
    assert len(flow.next_batch(0, 2, 2)) == 2
