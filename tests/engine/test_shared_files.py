"""A sink's call writes tasks of several sources together, each source in one part of one file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import pack_receipt, unpack_receipt
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Output, Receipt
from strandline.plan.task import Lineage, Origin, Task
from strandline.plan.token import derive_root
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_output
from strandline.storage.outputs.shared_files import SharedFiles
from strandline_packs.sinks.jsonl_sink import JsonlSink

TARGET = 400


def task_of(number: int, rows: int, width: int = 10, origin: Origin | None = None) -> Task:
    """Return a task of a separate source. Its rows contain the source's and the row's number."""
    source = bytes([number % 251, number // 251]) * 8
    texts = [f"{number}.{row}." + f"{number * 997 + row:x}" * width for row in range(rows)]
    lineage = Lineage(source, derive_root(source, b"v" * 8), str(number), origin)
    return Task(pa.table({"text": pa.array(texts, pa.string())}), None, lineage)


def call(folder: Path, tasks: list[Task], **values: Any) -> Receipt:
    plan = StagePlan("sink", "jsonl", JsonlSink(**values))
    _, receipt = StageCall(plan, LocalOutputs(folder), time.monotonic).run(tasks)
    return unpack_receipt(pack_receipt(receipt))


def outputs_of(receipt: Receipt) -> dict[bytes, Output]:
    """Return the outputs by source."""
    found = {}
    for event in receipt.events:
        for output in event.outputs:
            assert isinstance(output, Output)
            assert event.source not in found
            found[event.source] = output
    return found


def read(folder: Path, source: bytes, output: Output) -> list[str]:
    lines = (folder / name_output(source, output)).read_text().splitlines()
    begin = 0 if output.part is None else output.part.begin
    return [json.loads(line)["text"] for line in lines[begin : begin + output.rows]]


TASKS = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from([1, 30, 300]), st.booleans()), max_size=25
)


@given(drawn=TASKS)
def test_law_each_sources_rows_are_in_its_recorded_part(
    drawn: list[tuple[int, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("out")
    slot = Origin(b"p" * 16, 0, 1)
    tasks = [
        task_of(number, rows, width, None if is_whole else slot)
        for number, (rows, width, is_whole) in enumerate(drawn)
    ]
    receipt = call(folder, tasks, target_bytes=TARGET)
    outputs = outputs_of(receipt)
    settled = [event.settled for event in receipt.events]
    assert sorted(settled) == sorted((task.lineage.token,) for task in tasks if task.lineage)
    seen: dict[str, list[tuple[int, int, int]]] = {}
    for task in tasks:
        assert task.lineage is not None
        output = outputs.get(task.lineage.source)
        if output is None:
            assert not task.num_rows
            continue
        assert read(folder, task.lineage.source, output) == task.table["text"].to_pylist()
        if output.part is not None:
            name = name_output(task.lineage.source, output)
            seen.setdefault(name, []).append((output.part.begin, output.rows, output.size))
            assert output.part.size == (folder / name).stat().st_size
    for name, parts in seen.items():
        lines = (folder / name).read_text().splitlines()
        assert sum(rows for _, rows, _ in parts) == len(lines)
        assert sum(size for *_, size in parts) == (folder / name).stat().st_size


def test_without_a_target_each_task_has_a_file(tmp_path: Path) -> None:
    outputs = outputs_of(call(tmp_path, [task_of(number, 3) for number in range(5)]))
    assert all(output.part is None for output in outputs.values())
    assert len(list(tmp_path.rglob("*.jsonl"))) == 5


def test_a_single_source_is_also_written_to_a_shared_file(tmp_path: Path) -> None:
    """A source's own file would remain if this call is lost and the next call has more tasks."""
    (output,) = outputs_of(call(tmp_path, [task_of(1, 2)], target_bytes=1 << 20)).values()
    assert output.part is not None
    assert (output.part.begin, output.part.rows, output.part.size) == (0, 2, output.size)


def test_tables_of_another_schema_are_in_another_file(tmp_path: Path) -> None:
    tasks = [task_of(number, 2) for number in range(4)]
    for task in tasks[::2]:
        task.data = task.table.append_column("more", pa.array([1, 2]))
    outputs = outputs_of(call(tmp_path, tasks, target_bytes=1 << 20))
    files = [outputs[task.lineage.source].part for task in tasks if task.lineage]
    names = [part.file for part in files if part is not None]
    assert names[0] == names[2] != names[1] == names[3]


def test_an_unwritable_task_fails_alone_and_leaves_no_part(
    tmp_path: Path,
) -> None:
    tasks = [task_of(number, 2) for number in range(3)]
    tasks[1].data = pa.table({"text": pa.array(["a", "b"]), "odd": pa.array([1, 2], ODD)})
    for task in (tasks[0], tasks[2]):
        task.data = task.table.append_column("odd", pa.array([0, 0], ODD))
    receipt = call_odd(tmp_path, tasks)
    assert [failure.key for failure in receipt.failures] == ["1"]
    outputs = outputs_of(receipt)
    assert [output.rows for output in outputs.values()] == [2, 2]
    assert len(list(tmp_path.rglob("*.jsonl"))) == 2
    assert not list((tmp_path / ".tmp").iterdir())


ODD = pa.int64()


class OddSink(JsonlSink):
    """A sink that cannot write any number except zero, and fails in the middle of a file."""

    def write(self, task: Task, file: Any) -> None:
        self.write_shared([task], file)

    def write_shared(self, tasks: Any, file: Any) -> None:
        for task in tasks:
            file.write(b"{}\n")
            if any(task.table["odd"].to_pylist()):
                raise ValueError(task.key)
            file.write(b"{}\n")


def call_odd(folder: Path, tasks: list[Task]) -> Receipt:
    plan = StagePlan("sink", "odd", OddSink(target_bytes=1 << 20))
    _, receipt = StageCall(plan, LocalOutputs(folder), time.monotonic).run(tasks)
    return receipt


def test_files_reach_the_target_at_any_compression(tmp_path: Path) -> None:
    sink = JsonlSink(target_bytes=4_000, compression="zstd")
    files, tasks = SharedFiles(sink, 4_000), [task_of(number, 20, 10) for number in range(200)]
    rounds: list[list[int]] = []
    for _ in range(3):  # later rounds know the size of written tables
        rounds.append([])
        for unit in files.assign(tasks):
            with LocalOutputs(tmp_path).grouped() as group:
                rounds[-1].append(sum(output.size for (output,) in files.write(unit, group)))
    first, *_, last = rounds
    assert len(first) > len(last) > 2
    assert all(2_000 < size < 8_000 for size in last), last


def test_the_same_tasks_give_the_same_file_again(tmp_path: Path) -> None:
    tasks = [task_of(number, 2) for number in range(3)]
    first = outputs_of(call(tmp_path, tasks, target_bytes=1 << 20))
    again = outputs_of(call(tmp_path, tasks, target_bytes=1 << 20))
    assert first == again
    assert len(list(tmp_path.rglob("*.jsonl"))) == 1


def test_payloads_without_a_table_share_no_file(tmp_path: Path) -> None:
    tasks = [task_of(number, 1) for number in range(3)]
    tasks[0].data = {"a": 1}
    receipt = call(tmp_path, tasks, target_bytes=1 << 20)
    assert [failure.key for failure in receipt.failures] == ["0"]  # JSON lines need tables
    assert all(output.part for output in outputs_of(receipt).values())
