"""What is redone, with every engine, and by one engine after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline import ExitCode, OnChange, Pipeline, Stage, Task, work
from strandline.plan.task import Slot
from strandline.stages import Files, ParquetSink


class Numbers(Stage):
    """Reads a file's numbers into tasks of five."""

    def process(self, task: Task) -> list[Slot]:
        numbers = json.loads(Path(task.table["path"][0].as_py()).read_text())
        return [task.replace(pa.table({"n": numbers[at : at + 5]})) for at in range(0, 20, 5)]


class Under(Stage):
    """Keeps numbers under a limit."""

    class Params(Stage.Params):
        """The limit."""

        limit: int

    params: Params

    def process(self, task: Task) -> Task:
        rows = [n for n in task.table["n"].to_pylist() if n < self.params.limit]
        return task.replace(pa.table({"n": pa.array(rows, pa.int64())}))


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("engines", [("ray", "inline", "ray-data"), ("ray-data", "ray", "inline")])
def test_each_engine_goes_on_from_what_another_one_kept(
    engines: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(3):
        numbers = list(range(file * 20, file * 20 + 20))
        (folder / f"{file}.json").write_text(json.dumps(numbers))
    for engine, limit in zip(engines, (50, 30, 41), strict=True):
        pipeline = Pipeline(
            "numbers",
            source=Files(paths=[f"{folder}/*.json"]),
            stages=[
                work(Numbers(), cpu=0.1, keep=True),
                work(Under(limit=limit), cpu=0.1, name="under", group=3),
            ],
            sink=work(ParquetSink(), cpu=0.1),
        )
        outcome = pipeline.run(
            tmp_path / "volume", engine=engine, progress=False, on_change=OnChange.REDO
        )
        assert outcome.code is ExitCode.COMPLETE
        assert (0 if limit != 50 else 3) == outcome.counts["numbers"].tasks_in
        paths = sorted(Path(outcome.output).rglob("*.parquet"))
        found = sorted(n for path in paths for n in pq.read_table(path)["n"].to_pylist())
        assert found == list(range(limit))
