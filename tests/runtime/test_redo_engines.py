"""What is redone, with every engine, and by one engine after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from jobs import Job
from strandline import ExitCode, OnChange, Pipeline, Stage, Task, work
from strandline.plan.task import Slot
from strandline.stages import Files, ParquetSink
from strandline.storage.outputs.remote import open_outputs


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
@pytest.mark.parametrize(
    "engines", [("ray", "inline", "processes"), ("processes", "ray-data", "inline")]
)
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


@pytest.mark.parametrize("step", ["output.renamed", "commit.written", "commit.synced"])
def test_a_run_that_is_killed_over_a_change_ends_as_one_that_is_not(
    step: str, tmp_path: Path
) -> None:
    """Processes of Ray die: a sink's, or the one that has the ledger."""
    (tmp_path / "in").mkdir()
    for file in range(6):
        lines = "".join(json.dumps({"n": file * 20 + row}) + "\n" for row in range(20))
        (tmp_path / f"in/{file}.jsonl").write_text(lines)
    manifest = tmp_path / "numbers.yaml"
    job, volume = Job(manifest_of(manifest, 50), engine="ray"), tmp_path / "volume"
    assert 0 == job.run(volume)
    manifest_of(manifest, 101)
    job.run(volume, {"STRANDLINE_FAULT": f"{step}:kill:1"})
    assert (volume / "fault.log").exists()
    assert 0 == job.run(volume)
    assert [] == list(job.find_problems(volume, open_outputs(str(job.find_folder(volume).output))))
    paths = job.find_folder(volume).output.rglob("*.jsonl")
    found = sorted(
        json.loads(line)["n"] for path in paths for line in path.read_text().splitlines()
    )
    assert found == list(range(101))


def manifest_of(path: Path, limit: int) -> Path:
    spec = {
        "onChange": "Redo",
        "source": {"use": "jsonl-files", "with": {"paths": [f"{path.parent}/in/*"]}},
        "stages": [
            {"use": "read-jsonl", "keep": True},
            {"use": "keep-rows", "with": {"where": f"n < {limit}"}},
        ],
        "sink": {"use": "jsonl"},
        "checkpoint": {"keepLast": 1},
    }
    head = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationPipeline"}
    path.write_text(yaml.safe_dump({**head, "metadata": {"name": "numbers"}, "spec": spec}))
    return path
