"""What an engine owes its user, held against both: the same output, words and end."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import engine_stages as bad
from jobs import PATIENCE
from strandline.engine.call.setup import PackageMissingError, StageSetupError
from strandline.engine.call.stage.receipts import ShapeError
from strandline.engine.core.pools import PoolBrokenError
from strandline.engine.core.ports import RunProgress
from strandline.ledger.errors import DuplicateKeyError
from strandline.ledger.store.store import Store
from strandline.plan.errors import code_of
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stage import Stage
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.names import NO_OUTPUTS
from strandline_api.outcome.exit_codes import ExitCode

EXAMPLES = Path(__file__).parents[2] / "pipelines" / "examples"
ENGINES = ["inline", "processes", "ray"]

pytestmark = pytest.mark.usefixtures("local_ray")
both = pytest.mark.parametrize("engine", ENGINES)
pooled = pytest.mark.parametrize("engine", ["processes", "ray"])


def make_plan(*stages: Stage, count: int = 10, name: str = "numbers", **sink: Any) -> PipelinePlan:
    """A pipeline over numbers with these stages in the middle."""
    source = StagePlan("numbers", "numbers", bad.Numbers(count=count))
    middle = [
        StagePlan(f"stage-{index}", "stage", stage, cpu=0.1, batch_size=sink.get("batch_size", 1))
        for index, stage in enumerate(stages)
    ]
    last = StagePlan("text", "text", bad.TextSink(), cpu=0.1, runtime_env=sink.get("env", {}))
    return check_plan("default", name, source, [*middle, last])


def run(plan: PipelinePlan, volume: Path | None, engine: str, **more: Any) -> AttemptResult:
    return run_attempt(AttemptConfig(plan, volume, engine=engine), **more)


def read_outputs(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in NO_OUTPUTS
    }


@pytest.mark.parametrize(
    ("example", "settings", "more"),
    [
        # On Ray Data each stage is a process: what nine of them do there, eight of another do.
        ("python-functions.yaml", ("source.with.limit=100",), ()),
        ("text-documents.yaml", ("source.with.limit=100",), ("ray-data",)),
        ("fields.yaml", (), ("ray-data",)),
    ],
)
def test_all_engines_write_the_same(
    example: str,
    settings: tuple[str, ...],
    more: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(EXAMPLES.parents[1])
    monkeypatch.syspath_prepend(EXAMPLES)
    plan = read_manifest(EXAMPLES / example, settings).plan

    engines = [*ENGINES, *more]
    outcomes = {engine: run(plan, tmp_path / engine, engine) for engine in engines}

    outputs = [read_outputs(Path(outcome.output)) for outcome in outcomes.values()]
    assert all(output == outputs[0] for output in outputs[1:])
    assert len(outputs[0]) >= 5
    rows = [
        {name: (counts.rows_in, counts.rows_out) for name, counts in outcome.counts.items()}
        for outcome in outcomes.values()
    ]
    assert all(row == rows[0] for row in rows[1:])


@pytest.mark.parametrize("isolate", [False, True], ids=["chained", "apart"])
@both
def test_arrays_are_read_only_with_every_engine(engine: str, isolate: bool, tmp_path: Path) -> None:
    plan = make_plan(bad.Fill(), bad.Change(), count=4, name="arrays")
    plan = replace(plan, stages=tuple(replace(each, isolate=isolate) for each in plan.stages))
    outcome = run(plan, tmp_path, engine)
    written = sorted(ast.literal_eval(path.read_text()) for path in find_texts(outcome))
    assert written == [[number, "read-only"] for number in range(4)]


def find_texts(outcome: AttemptResult) -> list[Path]:
    return list(Path(outcome.output).rglob("*.txt"))


@both
def test_a_complete_run_has_nothing_left_to_do(engine: str, tmp_path: Path) -> None:
    plan = make_plan(bad.Spread())

    first, second = run(plan, tmp_path, engine), run(plan, tmp_path, engine)

    assert (first.code, first.standing.finished) == (ExitCode.COMPLETE, 10)
    assert (second.code, second.standing.skipped) == (ExitCode.COMPLETE, 10)
    assert second.message == "nothing left to do: all 10 sources are finished"
    assert second.attempt == first.attempt + 1
    assert second.counts["stage-0"].tasks_in == 0


@pytest.mark.parametrize("what", ["raise", "fail"])
@both
def test_a_task_that_fails_takes_its_source_alone_and_is_tried_again(
    engine: str, what: str, tmp_path: Path
) -> None:
    plan = make_plan(bad.Picky(what=what))

    first, second = run(plan, tmp_path, engine), run(plan, tmp_path, engine)

    assert (first.code, first.standing.finished, first.standing.failed) == (3, 9, 1)
    assert (second.standing.skipped, second.standing.failed) == (9, 1)
    store = Store(PipelineFolder.of(tmp_path, "default", "numbers").ledger, readonly=True)
    ((_, failure),) = store.list_failures()
    store.close()
    assert (failure.key, failure.stage, failure.times) == ("number-3", "stage-0", 2)
    assert "three is no good" in failure.message


@both
def test_law_the_last_that_is_told_is_the_end(engine: str, tmp_path: Path) -> None:
    told: list[int] = []

    def report(progress: RunProgress) -> None:
        told.append(progress.flow.queues[-1].counts.tasks_in)

    run(make_plan(bad.Identity(), count=300), tmp_path, engine, report=report)

    assert told[-1] == 300


@both
def test_stopping_keeps_what_is_finished(engine: str, tmp_path: Path) -> None:
    plan = make_plan(bad.Identity(), count=2000)
    seen: list[RunProgress] = []

    def must_stop() -> bool:
        return len(seen) > 3

    outcome = run(plan, tmp_path, engine, must_stop=must_stop, report=seen.append)

    assert outcome.code == ExitCode.INTERRUPTED
    assert outcome.standing.finished < 2000
    rest = run(plan, tmp_path, engine)
    assert rest.code == ExitCode.COMPLETE
    assert rest.standing.skipped == outcome.standing.finished
    assert rest.standing.finished + rest.standing.skipped == 2000


@both
def test_without_a_checkpoint_nothing_is_tracked(engine: str, tmp_path: Path) -> None:
    plan = make_plan(bad.Spread())

    plan = replace(plan, output=str(tmp_path / "out"))
    outcome = run_attempt(AttemptConfig(plan, None, engine=engine))

    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 10)
    assert len(read_outputs(tmp_path / "out")) == 25
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@both
def test_a_stage_that_cannot_be_set_up_ends_the_run_by_name(engine: str, tmp_path: Path) -> None:
    with pytest.raises(StageSetupError, match="can't be set up: FileNotFoundError: no m") as caught:
        run(make_plan(bad.Unprepared()), tmp_path, engine)
    assert "'stage-0'" in str(caught.value)
    assert caught.value.is_lasting


@pooled
def test_a_worker_that_cannot_be_set_up_is_replaced_by_one_that_can(
    engine: str, tmp_path: Path
) -> None:
    once = bad.UnpreparedOnce.Params(path=str(tmp_path / "tried"))
    outcome = run(make_plan(bad.UnpreparedOnce(once)), tmp_path / "volume", engine)
    assert outcome.code is ExitCode.COMPLETE
    (told,) = outcome.incidents
    assert told.startswith("stage 'stage-0' can't be set up: RuntimeError: not yet (")
    assert told.endswith("; another worker is tried")


@both
def test_a_package_that_a_stage_lacks_ends_the_run_as_a_mistake_in_it(
    engine: str, tmp_path: Path
) -> None:
    with pytest.raises(PackageMissingError, match="'stage-0' can't be set up: it needs") as caught:
        run(make_plan(bad.Unpacked()), tmp_path, engine)
    assert code_of(caught.value) is ExitCode.BAD_SPEC
    assert "the package a_package_that_nobody_has, which is not installed" in str(caught.value)


def test_a_stage_that_workers_cannot_import_ends_the_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far_away.py").write_text(
        "from strandline import Stage\n\n\n"
        "class Far(Stage):\n    def process(self, task):\n        return task\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    far = importlib.import_module("far_away").Far()

    with pytest.raises(PackageMissingError, match="'stage-0' can't be set up in a worker: it nee"):
        run(make_plan(far), tmp_path, "ray")


@both
def test_a_batch_of_the_wrong_length_ends_the_run_by_name(engine: str, tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="'stage-0' answered a batch of 4 tasks with 3") as caught:
        run(make_plan(bad.ShortBatch(), batch_size=4), tmp_path, engine)
    assert caught.value.is_lasting


@both
def test_a_key_that_is_listed_twice_ends_the_run(engine: str, tmp_path: Path) -> None:
    source = StagePlan("numbers", "numbers", bad.Numbers(count=3, repeat=2))
    plan = check_plan("default", "twice", source, make_plan().stages)

    with pytest.raises(DuplicateKeyError, match=r"'number-0' is listed twice: as item 4 and as it"):
        run(plan, tmp_path, engine)


def test_a_full_disk_in_a_sink_worker_ends_the_run_and_loses_nothing(tmp_path: Path) -> None:
    fault = {"env_vars": {"STRANDLINE_FAULT": "output.written:enospc:3"}}

    with pytest.raises(VolumeError, match="no space is left on the volume"):
        run(make_plan(env=fault), tmp_path, "ray")

    assert run(make_plan(), tmp_path, "ray").code == ExitCode.COMPLETE


@pooled
def test_a_task_that_kills_its_workers_fails_its_source_alone(engine: str, tmp_path: Path) -> None:
    outcome = run(make_plan(bad.Picky(what="die"), batch_size=4), tmp_path, engine)

    assert (outcome.code, outcome.standing.finished, outcome.standing.failed) == (3, 9, 1)
    assert len(outcome.incidents) == 4  # one with its neighbours, three alone
    assert outcome.incidents[0].startswith("a worker of 'stage-0")
    assert " was lost while it worked on " in outcome.incidents[0]


@pooled
def test_a_stage_that_kills_every_worker_ends_the_run(engine: str, tmp_path: Path) -> None:
    with pytest.raises(
        PoolBrokenError, match=r"stage 'stage-0( to text)?' lost 4 workers in a row"
    ):
        run(make_plan(bad.Deadly()), tmp_path, engine)


def test_two_pipelines_share_a_ray_cluster_and_nothing_else(local_ray: str, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from test_engines import AttemptConfig, bad, make_plan, run_attempt\n"
        "plan = make_plan(bad.Spread(), name=sys.argv[1])\n"
        "config = AttemptConfig(plan, pathlib.Path(sys.argv[2]), address=sys.argv[3])\n"
        "outcome = run_attempt(config)\n"
        "sys.exit(0 if outcome.standing.finished == 10 else 1)\n"
    )
    here = str(Path(__file__).parent)
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", program, name, str(tmp_path), local_ray],
            cwd=here,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]

    errors = [driver.communicate(timeout=PATIENCE)[1] for driver in drivers]

    assert [driver.returncode for driver in drivers] == [0, 0], errors
    for name in ("one", "two"):
        folder = PipelineFolder.of(tmp_path, "default", name)
        assert len(read_outputs(folder.output)) == 25
