"""What is redone, with every engine, and by one engine after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from jobs import Job
from strandline import ExitCode, OnChange, Outcome, Pipeline, Stage, Task, work
from strandline.ledger.session import opened_to_read
from strandline.plan.task import Slot
from strandline.run.redo import auto_cuts, choice
from strandline.run.redo.auto_cuts import read_choice
from strandline.run.redo.choice import CutVerdict
from strandline.run.redo.kept_output import measure_kept
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


class Times(Stage):
    """Adds a column with a multiple of each number."""

    class Params(Stage.Params):
        """The factor."""

        by: int

    params: Params
    keeps_columns = True
    adds_columns = ("times",)
    only_adds = True

    def process(self, task: Task) -> Task:
        times = [n * self.params.by for n in task.table["n"].to_pylist()]
        return task.replace(task.table.append_column("times", pa.array(times, pa.int64())))


def make_pipeline(folder: Path, limit: int, *, keep: bool) -> Pipeline:
    return Pipeline(
        "numbers",
        source=Files(paths=[f"{folder}/*.json"]),
        stages=[
            work(Numbers(), cpu=0.1, keep=keep),
            work(Under(limit=limit), cpu=0.1, name="under", group=3),
        ],
        sink=work(ParquetSink(), cpu=0.1),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Numbers in three files."""
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(3):
        numbers = list(range(file * 20, file * 20 + 20))
        (folder / f"{file}.json").write_text(json.dumps(numbers))
    return folder


def run(pipeline: Pipeline, volume: Path, engine: str) -> Outcome:
    outcome = pipeline.run(volume, engine=engine, progress=False, on_change=OnChange.REDO)
    assert outcome.code is ExitCode.COMPLETE
    return outcome


def read_numbers(outcome: Outcome) -> list[int]:
    paths = sorted(Path(outcome.output).rglob("*.parquet"))
    return sorted(n for path in paths for n in pq.read_table(path)["n"].to_pylist())


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize(
    "engines", [("ray", "inline", "processes"), ("processes", "ray-data", "inline")]
)
def test_each_engine_goes_on_from_what_another_one_kept(
    engines: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    for engine, limit in zip(engines, (50, 30, 41), strict=True):
        outcome = run(make_pipeline(folder, limit, keep=True), tmp_path / "volume", engine)
        assert (0 if limit != 50 else 3) == outcome.counts["numbers"].tasks_in
        assert read_numbers(outcome) == list(range(limit))


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("engines", [("ray", "processes", "ray-data"), ("ray-data", "ray")])
def test_each_engine_measures_cuts_and_goes_on_from_those_that_were_chosen(
    engines: tuple[str, ...], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # These stages work for microseconds, which no cut could ever save.
    monkeypatch.setattr(choice, "WRITING", 1e15)
    monkeypatch.setattr(auto_cuts, "TRIAL_SOURCES", 2)
    for engine, limit in zip(engines, (50, 30, 41), strict=False):
        pipeline = make_pipeline(folder, limit, keep=False)
        pipeline.keep, pipeline.keep_at_most = "auto", "1Gi"
        outcome = run(pipeline, tmp_path / "volume", engine)
        assert (0 if limit != 50 else 3) == outcome.counts["numbers"].tasks_in
        assert read_numbers(outcome) == list(range(limit))
        with opened_to_read(tmp_path / "volume/default/numbers/ledger") as store:
            judged = {cut.stage: cut.verdict for cut in read_choice(store).judged}
            kept = {size.stage: size.sources for size in measure_kept(store, {})}
        assert dict.fromkeys(["numbers", "under"], CutVerdict.KEPT) == judged
        assert 3 == kept["numbers"]


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("target", [None, 1_000_000])
@pytest.mark.parametrize(
    "engines", [("ray", "inline", "processes"), ("processes", "ray-data", "ray")]
)
def test_each_engine_makes_a_column_anew_from_files_that_another_one_wrote(
    engines: tuple[str, ...], target: int | None, folder: Path, tmp_path: Path
) -> None:
    """Files of a source each, or of all."""
    for engine, by in zip(engines, (2, 3, 5), strict=True):
        pipeline = Pipeline(
            "numbers",
            source=Files(paths=[f"{folder}/*.json"]),
            stages=[work(Numbers(), cpu=0.1), work(Times(by=by), cpu=0.1)],
            sink=work(ParquetSink(target_bytes=target), cpu=0.1),
        )
        outcome = run(pipeline, tmp_path / "volume", engine)
        done = outcome.counts["numbers"].tasks_in if "numbers" in outcome.counts else 0
        assert (0 if by != 2 else 3) == done
        tables = [pq.read_table(path) for path in Path(outcome.output).rglob("*.parquet")]
        rows = sorted((row["n"], row["times"]) for table in tables for row in table.to_pylist())
        assert rows == [(n, n * by) for n in range(60)]


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
