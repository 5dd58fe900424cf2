"""Rows that fail alone, with every engine: the same ones die, and the same ones come out."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline import ExitCode, Pipeline, Stage, Task, work
from strandline.plan.task import Slot
from strandline.stages import Files, ParquetSink


class Cut(Stage):
    """Cuts a file's numbers into tasks of ten."""

    def process(self, task: Task) -> list[Slot]:
        numbers = json.loads(Path(task.table["path"][0].as_py()).read_text())
        starts = range(0, len(numbers), 10)
        return [task.replace(pa.table({"n": numbers[at : at + 10]})) for at in starts]


class Picky(Stage):
    """Can't bear a number that ends in three, nor a task of which all do."""

    def process(self, task: Task) -> Task:
        if any(number % 10 == 3 for number in task.table["n"].to_pylist()):
            raise ValueError("three")
        return task


class Join(Stage):
    """Joins what is left of a file's tasks, and can't bear a seventy."""

    def process(self, task: Task) -> Task:
        if 70 in task.table["n"].to_pylist():
            raise ValueError("seventy")
        return task


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("isolate", [False, True], ids=["chained", "apart"])
def test_the_same_rows_die_with_every_engine(isolate: bool, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(6):
        numbers = list(range(file * 20, file * 20 + 20))
        (folder / f"{file}.json").write_text(json.dumps(numbers if file else [3, 13, 23]))
    stages = [
        work(Cut(), cpu=0.1, isolate=isolate),
        work(Picky(), cpu=0.1, isolate=isolate, on_error="deadLetter"),
        work(Join(), cpu=0.1, group=8, on_error="deadLetter"),
    ]
    source = Files(paths=[f"{folder}/*.json"])
    found = []
    for engine in ("inline", "processes", "ray", *([] if isolate else ["ray-data"])):
        pipeline = Pipeline(
            "picky", source=source, stages=stages, sink=work(ParquetSink(), cpu=0.1)
        )
        outcome = pipeline.run(tmp_path / engine, engine=engine, progress=False)
        assert outcome.code is ExitCode.COMPLETE
        root = Path(outcome.output)
        files = {
            str(path.relative_to(root)): pq.read_table(path)["n"].to_pylist()
            for path in root.rglob("*.parquet")
        }
        counts = outcome.counts["picky"]
        found.append((files, counts.rows_in, counts.rows_out, counts.dead))
    assert all(each == found[0] for each in found[1:])
    files = found[0][0]
    passed = sorted(n for name, ns in files.items() if "dead" not in name for n in ns)
    assert passed == [n for n in range(20, 120) if n % 10 != 3 and n != 70]
