"""Rows that fail singly: bisection finds them, and the other rows are unaffected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.stage import failed_rows
from strandline.engine.call.stage.failed_rows import (
    DETAIL_CHARACTERS,
    FORMER_ROWS,
    MOST_WITHOUT_ONE,
    FormerRows,
    RowError,
    build_dead_letters,
    find_failed,
)
from strandline.engine.call.stage.receipts import ShapeError
from strandline.engine.call.stage.rescue import Rescue
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.stage.stage_tally import ENOUGH_ROWS, find_uniform
from strandline.engine.call.stage.trials import Trials
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Output, Piece, Receipt
from strandline.plan.stages.stage import Stage, StatefulFilter
from strandline.plan.task import (
    DeadLetters,
    FailedRow,
    FailedTask,
    Lineage,
    NoneTask,
    Origin,
    Slot,
    Task,
)
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline_api.spec.work import OnError
from strandline_packs.sinks.parquet_partitions import ParquetSink

ROOT = Lineage(b"s" * 16, b"t" * 16, "in/a.jsonl", Origin(b"p" * 16, 2, 5))
BAD = -1


class Doubles(Stage):
    """Doubles numbers, and raises for negative numbers."""

    def process(self, task: Task) -> Task | list[Slot] | list[Task] | Iterator[Slot] | None:
        numbers = task.table.column("n").to_pylist()
        if task.meta:
            task.meta["spoilt"] = True
        if min(numbers, default=0) < 0:
            raise ValueError(f"{min(numbers)} is below nought")
        self.count("doubled", len(numbers))
        return task.replace(pa.table({"n": [number * 2 for number in numbers]}))


class Batched(Stage):
    """`Doubles` in batches."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        for task in tasks:
            if min(task.table.column("n").to_pylist(), default=0) < 0:
                raise ValueError("one is below nought")
        return [
            task.replace(
                pa.table({"n": [number * 2 for number in task.table.column("n").to_pylist()]})
            )
            for task in tasks
        ]


class Marks(Doubles):
    """`Doubles`, but marks failing rows itself."""

    def process(self, task: Task) -> list[Slot]:
        numbers = task.table.column("n").to_pylist()
        passed = pa.table({"n": [number * 2 for number in numbers if number >= 0]})
        marks = [FailedRow(row, "below nought") for row, each in enumerate(numbers) if each < 0]
        return [task.replace(passed), *marks]


class Sums(StatefulFilter):
    """Adds numbers up before it checks the numbers."""

    def setup(self) -> None:
        self.sum = 0

    def process(self, task: Task) -> Task:
        for number in task.table.column("n").to_pylist():
            self.sum += number
            if number < 0:
                raise ValueError("below nought")
        return task

    def flush(self) -> bytes | None:
        flushed, self.sum = self.sum, 0
        return str(flushed).encode() if flushed else None

    @staticmethod
    def merge(paths: object, out: object) -> None:
        raise NotImplementedError


class Yields(Stage):
    """Yields each number as a task, until it meets a negative number."""

    def process(self, task: Task) -> Iterator[Slot]:
        for number in task.table.column("n").to_pylist():
            if number < 0:
                raise ValueError("below nought")
            yield task.replace(pa.table({"n": [number]}))


class Payloads(Stage):
    """Fails on all payloads."""

    def process(self, task: Task) -> Task:
        raise KeyError(task.key)


class AtATime(Doubles):
    """Fails on tasks with several rows, but not on a single row."""

    def process(self, task: Task) -> Task:
        if task.num_rows > 1:
            raise MemoryError("too many")
        return task


class Mixes(Doubles):
    """`Doubles`, with a declaration that rows depend on each other."""

    mixes_rows = True


class Dribbles(Doubles):
    """Marks the whole task as failed if a number is negative."""

    def process(self, task: Task) -> Task | FailedTask:  # type: ignore[override]
        numbers = task.table.column("n").to_pylist()
        return FailedTask("not these") if min(numbers, default=0) < 0 else task


numbers = st.lists(st.integers(BAD, 5), max_size=40)


def call(
    stage: Stage, rows: list[int], on_error: OnError = "deadLetter", **plan: object
) -> tuple[list[Task], Receipt]:
    task = Task(pa.table({"n": pa.array(rows, pa.int64())}), {"spoilt": False}, ROOT)
    return call_with(stage, [task], on_error, **plan)


def call_with(
    stage: Stage, tasks: list[Task], on_error: OnError = "deadLetter", **plan: object
) -> tuple[list[Task], Receipt]:
    stage.setup()
    made = StagePlan("stage", "stage", stage, on_error=on_error, **plan)  # type: ignore[arg-type]
    return StageCall(made, None, lambda: 0.0).run(tasks)


def part(data: list[Task]) -> tuple[list[int], list[pa.Table]]:
    passed = [task.table for task in data if isinstance(task.data, pa.Table)]
    dead = [task.data.table for task in data if isinstance(task.data, DeadLetters)]
    return [number for table in passed for number in table.column("n").to_pylist()], dead


@given(bad=st.sets(st.integers(0, 99)), rows=st.integers(2, 100))
def test_law_the_rows_that_fail_are_found_with_few_tries(bad: set[int], rows: int) -> None:
    tries = []

    def attempt(begin: int, end: int) -> RowError | None:
        tries.append((begin, end))
        return RowError(None, "E", "e") if bad & set(range(begin, end)) else None

    here = sorted(each for each in bad if each < rows)
    assert here == [error.row for error in find_failed(rows, attempt)]
    assert len(tries) <= 2 + 2 * len(here) * math.ceil(math.log2(rows))


def test_if_no_row_passes_no_single_row_is_blamed() -> None:
    rows = 10 * MOST_WITHOUT_ONE
    tries: list[int] = []

    def attempt(begin: int, end: int) -> RowError:
        tries.append(end - begin)
        return RowError(None, "E", "e")

    assert [] == find_failed(rows, attempt)
    assert len(tries) < 3 * MOST_WITHOUT_ONE


@given(rows=numbers, stage=st.sampled_from([Doubles, Batched, Marks]))
def test_law_other_rows_continue_as_without_the_failed_rows(
    rows: list[int], stage: type[Stage]
) -> None:
    data, receipt = call(stage(), rows)
    passed, dead = part(data)
    good = [number for number in rows if number >= 0]
    assert [2 * number for number in good] == passed
    assert [BAD] * (len(rows) - len(good)) == [n for each in dead for n in each["n"].to_pylist()]
    counts = receipt.counts
    assert len(rows) == counts.rows_in == counts.rows_out + counts.dead + counts.dropped
    assert not receipt.failures
    assert counts.counters == ({"doubled": len(good)} if stage is Doubles and good else {}) or (
        stage is not Doubles or not rows or counts.counters == {"doubled": 0}
    )


@given(rows=numbers)
def test_law_dropped_rows_are_counted_and_leave_nothing(rows: list[int]) -> None:
    data, receipt = call(Doubles(), rows, "drop")
    passed, dead = part(data)
    bad = rows.count(BAD)
    assert ([2 * number for number in rows if number >= 0], []) == (passed, dead)
    assert (bad, 0) == (receipt.counts.dropped, receipt.counts.dead)
    assert len(rows) == receipt.counts.rows_out + bad


@given(rows=numbers)
def test_law_a_gathering_stage_omits_failed_rows(rows: list[int]) -> None:
    data, receipt = call(Sums(), rows)
    passed, dead = part(data)
    assert [number for number in rows if number >= 0] == passed
    (event,) = receipt.events
    pieces = [left.data for left in event.outputs if isinstance(left, Piece)]
    assert pieces == ([str(sum(passed)).encode()] if sum(passed) else [])
    assert sum(table.num_rows for table in dead) == rows.count(BAD)


@given(rows=numbers.filter(lambda rows: BAD in rows), other=numbers)
def test_law_tries_with_different_failures_have_different_children(
    rows: list[int], other: list[int]
) -> None:
    """Therefore the tally rejects a second try, and no row is lost between the tries."""
    failed = [[at for at, each in enumerate(each) if each < 0] for each in (rows, other)]
    first, second = (call(Doubles(), each)[1].events for each in (rows, other))
    same = [event.children for event in first] == [event.children for event in second]
    is_alike = failed[0] == failed[1] and (len(rows) > len(failed[0])) == (
        len(other) > len(failed[1])
    )
    assert same == is_alike


def test_passing_rows_keep_the_slot_of_their_task() -> None:
    """Otherwise a later join would wait for the slot forever."""
    data, receipt = call(Doubles(), [1, BAD, 2])
    good, dead = data
    assert good.lineage is not None
    assert dead.lineage is not None
    assert (ROOT.origin, None) == (good.lineage.origin, dead.lineage.origin)
    (event,) = receipt.events
    assert ((ROOT.token,), (good.lineage.token, dead.lineage.token)) == event[1:3]
    assert good.meta == {"spoilt": True}  # set once, by the final try


def test_dead_letters_have_the_error_beside_the_columns() -> None:
    _, (table,) = part(call(Doubles(), [1, BAD, 2])[0])
    (row,) = table.to_pylist()
    message = row.pop("dead_message")
    assert message.startswith("ValueError: -1 is below nought (test_failed_rows.py:")
    assert row == {
        "n": BAD,
        "dead_stage": "stage",
        "dead_error": "ValueError",
        "dead_source": "in/a.jsonl",
        "dead_position": 1,
        "dead_detail": None,
    }


@pytest.mark.parametrize(
    ("words", "rows", "found"),
    [
        ("no 1|no 22|no 3", 3, None),
        ("no 1|" * ENOUGH_ROWS, ENOUGH_ROWS, "no 1"),
        ("no 1|" * ENOUGH_ROWS, ENOUGH_ROWS + 1, None),
        ("no 1|" * (ENOUGH_ROWS - 1) + "other|", ENOUGH_ROWS, None),
    ],
)
def test_one_reason_for_all_rows_of_a_task_is_found(
    words: str, rows: int, found: str | None
) -> None:
    messages = words.strip("|").split("|")
    assert find_uniform(messages, "ValueError", rows) == found
    lacking = find_uniform(["there is no column 'a'"], "MissingColumnError", 1)
    assert lacking == "there is no column 'a'"


@pytest.mark.parametrize(("stage", "row"), [("stage", 41), ("other", 1)])
def test_a_row_of_another_try_keeps_its_name(stage: str, row: int) -> None:
    class Marks(Stage):
        def process(self, task: Task) -> list[Slot]:
            return [FailedRow(1, "bad")]

    meta = {FORMER_ROWS: FormerRows(stage, (40, 41))}
    task = Task(pa.table({"n": [1, 2]}), meta, ROOT)
    _, (table,) = part(call_with(Marks(), [task])[0])
    assert table["dead_position"].to_pylist() == [row]
    _, receipt = call_with(Marks(), [task], on_error="fail")
    assert receipt.failures[0].message == f"row {row}: bad"


def test_explanations_of_failed_rows_are_kept_and_truncated() -> None:
    class Explains(Stage):
        def process(self, task: Task) -> list[Slot]:
            return [
                FailedRow(0, "bad", "x" * 9000),
                FailedRow(1, "worse"),
                FailedRow(2, "", "\ud83d"),
            ]

    _, (table,) = part(call(Explains(), [1, 2, 3])[0])
    assert ["x" * DETAIL_CHARACTERS, None, "\\ud83d"] == table["dead_detail"].to_pylist()
    assert ["bad", "worse", ""] == table["dead_message"].to_pylist()


def test_a_failed_task_is_split_too() -> None:
    passed, (table,) = part(call(Dribbles(), [1, BAD, 2])[0])
    assert ([1, 2], ["not these"]) == (passed, table["dead_message"].to_pylist())


@pytest.mark.parametrize("stage", [Mixes(), AtATime()])
def test_the_task_fails_if_rows_do_not_fail_alone(stage: Stage) -> None:
    passed, (table,) = part(call(stage, [1, BAD, 2])[0])
    assert ([], [1, BAD, 2]) == (passed, table["n"].to_pylist())
    assert [0, 1, 2] == table["dead_position"].to_pylist()


@pytest.mark.parametrize("payload", [b"\x00bytes", "text"])
def test_bytes_and_text_of_a_payload_are_kept(payload: object) -> None:
    ((task,), receipt) = call_with(Payloads(), [Task(payload, None, ROOT)])
    (row,) = task.data.table.to_pylist()
    assert (payload, None, "KeyError") == (row["payload"], row["dead_position"], row["dead_error"])
    assert 1 == receipt.counts.dead


def test_only_the_error_of_other_payloads_is_kept() -> None:
    ((task,), _) = call_with(Payloads(), [Task(object(), None, ROOT)])
    assert ["KeyError"] == task.data.table["dead_error"].to_pylist()


def test_tasks_yielded_before_an_error_continue() -> None:
    passed, (table,) = part(call(Yields(), [1, 2, BAD, 3], streams=True)[0])
    assert ([1, 2], ["ValueError"] * 4) == (passed, table["dead_error"].to_pylist())


def test_a_group_is_split_as_it_was_joined() -> None:
    tasks = [
        Task(pa.table({"n": rows}), None, ROOT._replace(token=bytes([at]) * 16))
        for at, rows in enumerate([[1, BAD], [2], [BAD]])
    ]
    data, receipt = call_with(Doubles(), tasks, group=3)
    passed, (table,) = part(data)
    assert ([2, 4], [1, 3]) == (passed, table["dead_position"].to_pylist())
    (event,) = receipt.events
    assert 3 == len(event.settled)


def test_batches_are_tried_task_by_task_and_row_by_row() -> None:
    tasks = [
        Task(pa.table({"n": rows}), None, ROOT._replace(token=bytes([at]) * 16))
        for at, rows in enumerate([[1, BAD], [2], [BAD]])
    ]
    passed, dead = part(call_with(Batched(), tasks, batch_size=3)[0])
    assert ([2, 4], [1, 0]) == (passed, [each["dead_position"][0].as_py() for each in dead])


@pytest.mark.parametrize("row", [-1, 3])
def test_a_failed_row_with_an_invalid_index_ends_the_attempt(row: int) -> None:
    class Beyond(Stage):
        def process(self, task: Task) -> list[Slot]:
            return [task, FailedRow(row, "beyond")]

    with pytest.raises(ShapeError, match=r"FailedRow\(-?\d, 'beyond'\) for a task of 3 rows"):
        call(Beyond(), [1, 2, 3])


def test_by_default_a_failed_row_fails_its_source() -> None:
    data, receipt = call(Marks(), [1, BAD], "fail")
    assert ([], ["row 1: below nought"]) == (data, [each.message for each in receipt.failures])


def test_a_row_that_fails_intermittently_is_found_in_another_round() -> None:
    class Flaky(Doubles):
        tries = 0

        def process(self, task: Task) -> Task:
            self.tries += 1
            numbers = task.table.column("n").to_pylist()
            if BAD in numbers or (7 in numbers and self.tries > 4):
                raise ValueError("now")
            return task

    passed, (table,) = part(call(Flaky(), [1, BAD, 2, 7])[0])
    assert ([1, 2], [1, 3]) == (passed, sorted(table["dead_position"].to_pylist()))


def test_letters_pass_each_stage_and_the_sink_writes_them(tmp_path: Path) -> None:
    (good, letters), _ = call(Doubles(), [1, BAD])
    ((carried, passed), receipt) = call_with(Doubles(), [letters, good])
    assert isinstance(carried.data, DeadLetters)
    assert [4] == passed.table.column("n").to_pylist()
    assert (1, 1) == (receipt.counts.tasks_in, receipt.counts.tasks_out)
    sink = StageCall(StagePlan("sink", "sink", ParquetSink()), LocalOutputs(tmp_path), lambda: 0.0)
    _, written = sink.run([carried, passed])
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    source = ROOT.source.hex()
    assert carried.lineage is not None
    dead = f"_strandline/dead-letters/{source[:3]}/{source}/{carried.lineage.token.hex()}"
    assert names[1] == f"{dead}.stage.parquet"
    assert [BAD] == pq.read_table(tmp_path / names[1])["n"].to_pylist()
    outputs = [left for event in written.events for left in event.outputs]
    assert ["stage", None] == [
        output.dead_stage for output in outputs if isinstance(output, Output)
    ]
    assert 1 == written.counts.rows_out


@given(
    values=st.lists(
        st.one_of(st.none(), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=2)),
        min_size=1,
        max_size=4,
    )
)
def test_law_columns_of_any_type_can_be_dead_letters(values: list[object]) -> None:
    texts = [value if isinstance(value, str) else None for value in values]
    lists = [value if isinstance(value, list) else None for value in values]
    table = pa.table({"t": texts, "l": pa.array(lists, pa.list_(pa.int64())), "dead_error": texts})
    errors = [RowError(row, "E", "e") for row in range(len(values))]
    letters = build_dead_letters(table, errors, "stage", "key")
    assert texts == letters["dead_error_before"].to_pylist()
    assert lists == letters["l"].to_pylist()


def test_rounds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Never(Stage):
        def process(self, task: Task) -> Task:
            raise ValueError("never")

    monkeypatch.setattr(failed_rows, "MOST_WITHOUT_ONE", 2)
    passed, (table,) = part(call(Never(), list(range(50)))[0])
    assert ([], 50) == (passed, table.num_rows)


@pytest.mark.parametrize("on_error", ["fail", "drop"])
def test_a_task_is_copied_only_if_it_may_be_retried(on_error: OnError) -> None:
    plan = StagePlan("stage", "stage", Doubles(), on_error=on_error)
    task = Task(pa.table({"n": [1]}), {"spoilt": False}, ROOT)
    copied = Rescue(plan, Trials(plan.stage), lambda: None).copy(task)
    assert (copied is task) == (on_error == "fail")
    assert (copied.meta is task.meta) == (on_error == "fail")
